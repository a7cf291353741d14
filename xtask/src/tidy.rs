//! Rules of the house that no compiler checks. All of it runs as tests, wherever tests run.
//!
//! - every Rust file opens with `//!`;
//! - a room of the host imports only what the table of rooms in `ARCHITECTURE.md` allows;
//! - `unsafe` stands only where it is expected;
//! - a diagnostic code is used by one error only;
//! - derived files are what `cargo xtask codegen` would write.
//!
//! Deliberately not here: anything rustfmt, clippy or rustdoc see (`ci.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::codegen;
use crate::tool;

/// Where `unsafe` may stand: the border itself, the owner of raw bytes, the thread pool (a job's borrow ends before its
/// call returns, which no type says), kernels, and tests that play a foreign host or plugin.
const UNSAFE: &[&str] = &[
    "host/src/loader/",
    "host/src/memory/",
    "host/src/threads/",
    "sdk/abi/",
    "sdk/src/",
    "sdk/tests/",
    "plugins/reference/src/kernels/",
    "plugins/aten/src/",
    "plugins/fuser/src/kernels.rs",
    "plugins/loops/src/exec.rs",
    "plugins/loops/src/micro.rs",
    "plugins/loops/src/program.rs",
    "plugins/loops/src/rows.rs",
    "plugins/loops/src/vector.rs",
    "plugins/loops/tests/differential.rs",
    "plugins/loops/benches/",
    "tests/broken/",
    "tests/third_party/",
    "tests/abi.rs",
    "fuzz/",
];

/// Folders that hold sources of this workspace.
const SOURCES: &[&str] = &["host", "sdk", "plugins", "tests", "xtask", "fuzz"];

#[test]
fn every_file_says_what_it_is_for() {
    let mut faults = Vec::new();
    for file in rust_files() {
        if !read(&file).trim_start_matches('\u{feff}').starts_with("//!") {
            faults.push(format!("{}: the first line is no `//!`", file.display()));
        }
    }
    none(faults);
}

#[test]
fn rooms_import_only_what_the_table_allows() {
    let table = rooms();
    let mut faults = Vec::new();
    for file in rust_files() {
        let Ok(inside) = file.strip_prefix("host/src") else { continue };
        let Some(room) = room_of(inside, &table) else { continue };
        let allowed = &table[&room];
        for (line, name) in crate_paths(&without_comments(&read(&file))) {
            // An upper-case name or one that is no room is the façade's.
            let target = if table.contains_key(name.as_str()) { name.as_str() } else { "lib" };
            if target != room && !allowed.contains(target) {
                faults.push(format!("{}:{line}: room `{room}` may not use `crate::{name}`", file.display()));
            }
        }
    }
    none(faults);
}

#[test]
fn every_room_stands_in_the_table() {
    let table = rooms();
    let mut faults = Vec::new();
    for entry in fs::read_dir(tool::root().join("host/src")).expect("the host has sources").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && name != "bin" && !table.contains_key(name.as_str()) {
            faults.push(format!("host/src/{name}/: not in the table of rooms (ARCHITECTURE.md)"));
        }
    }
    none(faults);
}

#[test]
fn unsafe_stands_only_where_it_is_expected() {
    let mut faults = Vec::new();
    for file in rust_files() {
        let path = file.to_string_lossy().replace('\\', "/");
        if UNSAFE.iter().any(|allowed| path.starts_with(allowed)) {
            continue;
        }
        for (number, line) in without_comments(&read(&file)).lines().enumerate() {
            if words(line).any(|word| word == "unsafe") {
                faults.push(format!("{path}:{}: `unsafe` outside the list in xtask/src/tidy.rs", number + 1));
            }
        }
    }
    none(faults);
}

#[test]
fn a_diagnostic_code_has_one_owner() {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in rust_files() {
        if file.starts_with("xtask") {
            continue;
        }
        for (number, line) in without_comments(&read(&file)).lines().enumerate() {
            let Some((_, rest)) = line.split_once("code(") else { continue };
            let code: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | ':')).collect();
            if code.contains("::") {
                owners.entry(code).or_default().push(format!("{}:{}", file.display(), number + 1));
            }
        }
    }
    none(
        owners
            .into_iter()
            .filter(|(_, at)| at.len() > 1)
            .map(|(code, at)| format!("{code}: {}", at.join(", "))),
    );
}

#[test]
fn derived_files_are_fresh() {
    let derived = match codegen::derive() {
        Ok(derived) => derived,
        Err(failure) => panic!("{failure}"),
    };
    none(derived.into_iter().filter_map(|file| {
        let found = fs::read_to_string(tool::root().join(&file.path)).unwrap_or_default();
        (found != file.text).then(|| format!("{} is stale: run `cargo xtask codegen`", file.path.display()))
    }));
}

/// The table of rooms: room → rooms that it may import. Read from the rows whose first cell is `` `host/src/…` ``; the third
/// cell lists names in backticks. `lib` stands for the façade.
fn rooms() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(tool::root().join("ARCHITECTURE.md"))
        .expect("ARCHITECTURE.md holds the table of rooms");
    let mut table = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let Some(place) = cells.first().and_then(|cell| cell.strip_prefix("`host/src/")) else { continue };
        let room = place.trim_end_matches('`').trim_end_matches('/').trim_end_matches(".rs");
        let allowed = cells.get(2).expect("a row of the table of rooms has a third cell");
        table.insert(room.to_owned(), allowed.split('`').skip(1).step_by(2).map(str::to_owned).collect());
    }
    assert!(table.contains_key("ir"), "ARCHITECTURE.md has no table of rooms");
    table
}

/// The room that a file of `host/src` belongs to; none for `main.rs`.
fn room_of(inside: &Path, table: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let first = inside.components().next()?.as_os_str().to_string_lossy().into_owned();
    let name = first.trim_end_matches(".rs").to_owned();
    table.contains_key(&name).then_some(name)
}

/// `crate::name` in code, and the names in `use crate::{a, b}`, with their lines.
fn crate_paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$')) {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(group_heads(group).into_iter().map(|name| (line, name))),
            None => found.extend(first_word(rest).map(|name| (line, name))),
        }
    }
    found
}

/// The first names of the entries of a `{…}` group, nested groups skipped.
fn group_heads(group: &str) -> Vec<String> {
    let (mut depth, mut heads, mut entry) = (0, Vec::new(), String::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => heads.extend(first_word(&std::mem::take(&mut entry))),
            _ if depth == 0 => entry.push(c),
            _ => {}
        }
    }
    heads.extend(first_word(&entry));
    heads
}

fn first_word(text: &str) -> Option<String> {
    let word: String = text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!word.is_empty()).then_some(word)
}

/// The code with comments and the contents of string literals blanked; lines keep their numbers.
fn without_comments(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(c) = rest.chars().next() {
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_string(rest) {
            length
        } else if c == '"' {
            string(rest)
        } else if let Some(length) = char_literal(rest) {
            length
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.extend(rest[..skip].chars().filter(|c| *c == '\n'));
        out.push(' ');
        rest = &rest[skip..];
    }
    out
}

/// Bytes of a string literal that starts here.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Bytes of a raw string literal that starts here.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix('r')?.chars().take_while(|c| *c == '#').count();
    let body = text[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&end).map_or(text.len(), |at| 2 + hashes + at + end.len()))
}

/// Bytes of a character literal that starts here; a lifetime is none.
fn char_literal(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let mut chars = body.char_indices();
    match chars.next()? {
        (_, '\\') => body[2..].find('\'').map(|at| at + 4),
        (_, c) => body[c.len_utf8()..].starts_with('\'').then_some(c.len_utf8() + 2),
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// Every Rust source of the workspace, by its path from the root, sorted.
fn rust_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = SOURCES.iter().map(PathBuf::from).collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(tool::root().join(&folder)) else { continue };
        for entry in entries.flatten() {
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                if entry.file_name() != "target" {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(file: &Path) -> String {
    fs::read_to_string(tool::root().join(file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Fails with all faults at once.
fn none(faults: impl IntoIterator<Item = String>) {
    let faults: Vec<String> = faults.into_iter().collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn comments_and_strings_are_no_code() {
    let code = "let a = \"unsafe // x\"; // unsafe\nlet b = 'u'; /* unsafe\n */ fn f<'a>() {} r#\"unsafe \"quoted\" \"#";
    let left = without_comments(code);
    assert!(!left.contains("unsafe"), "{left}");
    assert_eq!(left.matches('\n').count(), 2);
    assert!(left.contains("fn f<'a>"));
}

#[test]
fn paths_of_the_crate_are_found() {
    let code = "use crate::ir::Dim;\nuse crate::{ops::{a, b}, plan};\nlet x = $crate::no;\npub(crate) fn f() { crate::run::go() }";
    let found: Vec<String> =
        crate_paths(code).into_iter().map(|(line, name)| format!("{line}:{name}")).collect();
    assert_eq!(found, ["1:ir", "2:ops", "2:plan", "4:run"]);
}
