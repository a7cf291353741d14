//! Filetests: each `tests/traces/<room>/*.trace` holds its input, its directives and what must come out.
//!
//! ```text
//! # pass: dce                     directives, `key: value`, two spaces or more between them
//! # Why this case is here.
//! <input>
//! ----
//! <what must come out>
//! ```
//! The folder says which room is asked. `cargo xtask bless` (`THUNDERHEAD_BLESS=1`) rewrites what stands behind `----`;
//! the commit explains the diff.
//! A `#! code` at the end of a line says that this fault, and no other, is found on that line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thunderhead::ir::{Faults, NoSchemas, text};
use thunderhead::ops;
use thunderhead::passes::{PASSES, Purpose};

/// One file.
struct Case {
    directives: BTreeMap<String, String>,
    /// The input, directives included: they are comments, so positions are those of the file.
    input: String,
    expected: Option<String>,
}

impl Case {
    fn read(text: &str) -> Case {
        let (input, expected) = match text.split_once("\n----\n") {
            Some((input, expected)) => (format!("{input}\n"), Some(expected.to_string())),
            None => (text.to_string(), None),
        };
        let head = input.lines().take_while(|l| l.starts_with('#'));
        let pairs =
            head.flat_map(|l| l.trim_start_matches('#').split("  ").filter_map(|p| p.split_once(": ")));
        let directives = pairs.map(|(k, v)| (k.trim().to_string(), v.trim().to_string())).collect();
        Case { directives, input, expected }
    }

    fn directive(&self, key: &str) -> Option<&str> {
        self.directives.get(key).map(String::as_str)
    }
}

/// A room, and how it is asked: gives what must come out, or why the case itself is wrong.
type Room = (&'static str, fn(&Case) -> Result<String, String>);

const ROOMS: &[Room] =
    &[("format", format), ("parse", parse), ("verify", verify), ("check", check_calls), ("passes", passes)];

#[test]
fn every_file_gives_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/traces");
    let bless = std::env::var_os("THUNDERHEAD_BLESS").is_some_and(|v| v == "1");
    let mut wrong = Vec::new();
    let mut n_files = 0;
    for (room, ask) in ROOMS {
        for file in trace_files(&root.join(room)) {
            n_files += 1;
            if let Err(why) = check(&file, *ask, bless) {
                wrong.push(format!("{}: {why}", file.display()));
            }
        }
    }
    assert!(n_files > 0, "no filetest found under {}", root.display());
    assert!(
        wrong.is_empty(),
        "{} of {n_files} filetests fail (`cargo xtask bless` rewrites):\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A folder without a room would be tests that never run.
#[test]
fn every_folder_is_a_room() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/traces");
    for entry in std::fs::read_dir(root).expect("the folder of filetests") {
        let entry = entry.expect("a readable folder");
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_dir = entry.file_type().expect("a file type").is_dir();
        assert!(
            !is_dir || ROOMS.iter().any(|(r, _)| *r == name),
            "tests/traces/{name}: no room of that name"
        );
    }
}

fn trace_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|e| e.path());
    let mut files: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|e| e == "trace")).collect();
    files.sort();
    files
}

fn check(file: &Path, ask: fn(&Case) -> Result<String, String>, bless: bool) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
    let case = Case::read(&text);
    let found = ask(&case)?;
    let expected = case.expected.clone().unwrap_or_else(|| without_comments(&case.input));
    if found == expected {
        return Ok(());
    }
    if bless {
        return std::fs::write(file, format!("{}----\n{found}", case.input)).map_err(|e| e.to_string());
    }
    let at = found.lines().zip(expected.lines()).take_while(|(a, b)| a == b).count();
    let line = |s: &str| s.lines().nth(at).unwrap_or("<the end>").to_string();
    Err(format!("line {} of the result\n  expected {}\n  found    {}", at + 1, line(&expected), line(&found)))
}

/// A file without an expectation must come out as it is, comment lines left out: the printer writes its own.
fn without_comments(text: &str) -> String {
    text.lines().filter(|l| !l.trim_start().starts_with('#')).map(|l| format!("{l}\n")).collect()
}

// ---- rooms -------------------------------------------------------------------------------------------------------

/// Reads and prints, also by way of JSON and without knowing any op.
fn format(case: &Case) -> Result<String, String> {
    let options = text::PrintOptions {
        depth: case.directive("depth").and_then(|d| d.parse().ok()),
        notes: case.directive("notes") != Some("no"),
        comment: None,
    };
    let module = text::parse(&case.input, ops::schemas()).map_err(|e| e.to_string())?.module;
    let printed = text::print(&module, ops::schemas(), &options);
    // An op that the table has not is no fault of the format: the fixtures show every corner of the grammar.
    let mut faults = ops::check::faults(&module);
    faults.retain(|f| f.code != thunderhead::ir::fault::Code::Op);
    if let Some(fault) = faults.first() {
        return Err(format!("{} faults, the first: {fault}", faults.len()));
    }
    let json = text::to_json(&module, ops::schemas()).to_string();
    let back = text::from_json(&json, ops::schemas()).map_err(|e| format!("from JSON: {e}"))?;
    if back != module {
        return Err("by way of JSON it is another module".to_string());
    }
    let again = text::parse(&printed, ops::schemas()).map_err(|e| format!("what was printed: {e}"))?.module;
    if text::print(&again, ops::schemas(), &options) != printed {
        return Err("what was printed prints as something else".to_string());
    }
    let unknown = text::parse(&case.input, &NoSchemas).map_err(|e| e.to_string())?.module;
    let plain = text::print(&unknown, &NoSchemas, &text::PrintOptions::FULL);
    let same = text::parse(&plain, &NoSchemas).map_err(|e| e.to_string())?.module;
    if same != unknown {
        return Err("without schemas, what was printed is another module".to_string());
    }
    Ok(printed)
}

/// Texts that cannot be read, and what is said about them.
fn parse(case: &Case) -> Result<String, String> {
    match text::parse(&case.input, ops::schemas()) {
        Ok(_) => Err("it can be read".to_string()),
        Err(faults) => faulty(case, &faults),
    }
}

/// Texts that can be read and are no programs.
fn verify(case: &Case) -> Result<String, String> {
    let parsed = text::parse(&case.input, ops::schemas()).map_err(|e| e.to_string())?;
    let faults = thunderhead::ir::verify::verify(&parsed.module);
    match parsed.source.locate_all(&case.input, faults) {
        Some(faults) => faulty(case, &faults),
        None => Err("nothing is wrong with it".to_string()),
    }
}

/// Programs whose calls are not what the op table says.
fn check_calls(case: &Case) -> Result<String, String> {
    match ops::check::read(&case.input, None) {
        Ok(_) => Err("nothing is wrong with it".to_string()),
        Err(faults) => faulty(case, &faults),
    }
}

/// What passes make of a program: those named by `pass`, all without it; for values, or with `purpose: gradients`.
fn passes(case: &Case) -> Result<String, String> {
    let mut module = ops::check::read(&case.input, None).map_err(|e| e.to_string())?;
    let purpose = match case.directive("purpose") {
        Some("gradients") => Purpose::Gradients,
        _ => Purpose::Values,
    };
    let wanted: Vec<&str> = case.directive("pass").map_or_else(Vec::new, |p| p.split(", ").collect());
    if let Some(unknown) = wanted.iter().find(|w| PASSES.iter().all(|p| p.name != **w)) {
        return Err(format!("there is no pass `{unknown}`"));
    }
    for trace in &mut module.traces {
        for pass in PASSES.iter().filter(|p| wanted.is_empty() || wanted.contains(&p.name)) {
            *trace = (pass.run)(trace.clone(), purpose);
        }
    }
    let printed = text::print(&module, ops::schemas(), &text::PrintOptions::FULL);
    ops::check::read(&printed, None).map_err(|e| format!("what came out: {e}"))?;
    Ok(printed)
}

/// The faults as printed, after comparing them with the `#!` of the lines.
fn faulty(case: &Case, faults: &Faults) -> Result<String, String> {
    let mut marked: Vec<(u32, String)> = Vec::new();
    for (i, line) in case.input.lines().enumerate() {
        let codes = line.split_once("#! ").map_or("", |(_, codes)| codes);
        marked.extend(codes.split_whitespace().map(|c| (i as u32 + 1, c.to_string())));
    }
    let found: Vec<(u32, String)> =
        faults.faults.iter().map(|f| (f.position.map_or(0, |p| p.line), f.code.to_string())).collect();
    if !marked.is_empty() && marked != found {
        return Err(format!("the lines say {marked:?}, found {found:?}"));
    }
    Ok(format!("{faults}\n"))
}
