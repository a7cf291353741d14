//! The list of all codes, read from the sources: the doc comment of an error variant, or of a constant, is its page.
//!
//! Three spellings are known: `#[diagnostic(code(room::name))]` on a variant or struct, a constant
//! `pub const NAME: &str = "room::name"`, and a match arm `Variant => "room::name"` beside the enum. A code that the
//! first two do not explain and the third does is explained by its variant's doc comment.
//!
//! Deliberately not here: what a code means.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::tool;

/// Folders whose codes users may see.
const SOURCES: &[&str] = &["host/src", "sdk", "plugins"];

/// One code as the sources explain it.
#[derive(Debug)]
pub struct Code {
    /// `room::name`.
    pub code: String,
    /// The doc comment, a line each; empty where there is none.
    pub doc: Vec<String>,
    /// The message with its placeholders, where the code belongs to an error.
    pub message: Option<String>,
}

/// `docs/errors.md`.
pub fn page() -> String {
    let mut text = String::from(
        "# Error and refusal codes\n\n\
         Written by `cargo xtask codegen` from the doc comments in the sources; not edited by hand. A code is a contract: it is\n\
         never reused for something else. `…` stands for what is filled in.\n",
    );
    let mut room = String::new();
    for code in all() {
        let (of, _) = code.code.split_once("::").unwrap_or((&code.code, ""));
        if of != room {
            room = of.to_owned();
            text.push_str(&format!("\n## {room}\n"));
        }
        text.push_str(&format!("\n### `{}`\n\n", code.code));
        if let Some(message) = &code.message {
            text.push_str(&format!("    {message}\n\n"));
        }
        text.push_str(&format!("{}\n", code.doc.join("\n")));
    }
    text
}

/// Every code once, sorted.
pub fn all() -> Vec<Code> {
    let mut files = Vec::new();
    for folder in SOURCES {
        rust_files(&tool::root().join(folder), &mut files);
    }
    files.sort();
    let mut codes: BTreeMap<String, Code> = BTreeMap::new();
    for text in files.iter().filter_map(|path| fs::read_to_string(path).ok()) {
        for found in codes_of(&text) {
            match codes.get_mut(&found.code) {
                Some(known) if known.doc.is_empty() => *known = found,
                Some(_) => {}
                None => {
                    codes.insert(found.code.clone(), found);
                }
            }
        }
    }
    codes.into_values().collect()
}

fn rust_files(folder: &Path, into: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target" && name != "tests") {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The codes of one source, tests left out.
fn codes_of(text: &str) -> Vec<Code> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut codes = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        if line.starts_with("//") {
            continue;
        }
        if let Some((_, rest)) = line.split_once("code(") {
            codes.extend(code_path(rest).map(|code| {
                let (doc, attributes) = above(&lines, i);
                Code { code, doc, message: message(&attributes) }
            }));
        } else if let Some((name, value)) = line.split_once("\"").filter(|(before, _)| is_giving(before)) {
            let Some(code) = code_path(value).filter(|code| value[code.len()..].starts_with('"')) else {
                continue;
            };
            let doc = match name.trim().strip_suffix("=>") {
                Some(pattern) => variant_doc(&lines, pattern),
                None => above(&lines, i).0,
            };
            codes.push(Code { code, doc, message: None });
        }
    }
    codes
}

/// The beginning of a constant's or a match arm's line.
fn is_giving(before: &str) -> bool {
    let before = before.trim();
    before.ends_with("=>") || (before.contains("const ") && before.ends_with("&str ="))
}

/// `a::b` at the start of the text.
fn code_path(text: &str) -> Option<String> {
    let code: String = text
        .chars()
        .take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | ':'))
        .collect();
    let (room, name) = code.split_once("::")?;
    // `u32::try_from` is no code: rooms have no digits in their names.
    let is_room = !room.is_empty() && room.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    (is_room && !name.is_empty() && !name.contains(':')).then_some(code)
}

/// The doc comment and the attributes above a line, back to the end of the item before.
fn above(lines: &[&str], at: usize) -> (Vec<String>, String) {
    let mut start = at;
    while start > 0 {
        let line = lines[start - 1];
        let ends_item = line.is_empty()
            || (line.ends_with([',', ';', '}', '{'])
                && !line.starts_with("///")
                && !in_attribute(lines, start - 1));
        if ends_item {
            break;
        }
        start -= 1;
    }
    let block = &lines[start..=at];
    let doc =
        block.iter().filter_map(|line| line.strip_prefix("///")).map(|line| line.trim().to_owned()).collect();
    let attributes =
        block.iter().filter(|line| !line.starts_with("///")).copied().collect::<Vec<_>>().join(" ");
    (doc, attributes)
}

/// Whether a line lies inside an attribute that spans several lines.
fn in_attribute(lines: &[&str], at: usize) -> bool {
    for (back, line) in lines[..=at].iter().rev().enumerate() {
        if line.starts_with("#[") {
            // One that ends on its own line holds nothing but itself.
            return back == 0 || !line.ends_with(")]");
        }
        if line.is_empty() || line.starts_with("///") || line.ends_with(")]") {
            return false;
        }
    }
    false
}

/// The text of `#[error("…")]`, placeholders as `…`.
fn message(attributes: &str) -> Option<String> {
    let (_, rest) = attributes.split_once("#[error(")?;
    let text = rest.trim_start().strip_prefix('"')?;
    let mut out = String::new();
    let mut depth = 0;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => out.extend(chars.next().filter(|_| depth == 0)),
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    out.push('…');
                }
            }
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    Some(out)
}

/// The doc comment of the variant that a pattern names.
fn variant_doc(lines: &[&str], pattern: &str) -> Vec<String> {
    let name: String = pattern
        .rsplit("::")
        .next()
        .unwrap_or(pattern)
        .trim()
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    let declares = |line: &str| {
        line.strip_prefix(name.as_str()).is_some_and(|rest| {
            matches!(rest.trim_start().chars().next(), Some(',' | '{' | '(')) && !rest.contains("=>")
        })
    };
    match lines.iter().position(|line| declares(line)) {
        Some(i) => above(lines, i).0,
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_understood() {
        let source = r#"
/// Its page.
/// Two lines.
#[error("cannot read `{path}`: {reason}")]
#[diagnostic(
    code(config::unreadable),
    help("{advice}")
)]
Unreadable { path: String },

/// Out of memory.
OutOfMemory,
/// Refused.
pub const DENIED: &str = "claim::denied";
FaultKind::OutOfMemory => "run::out_of_memory",
let x = "not::a_code";
"#;
        let codes = codes_of(source);
        let shown: Vec<_> = codes.iter().map(|c| format!("{} {:?} {:?}", c.code, c.doc, c.message)).collect();
        assert_eq!(
            shown,
            [
                "config::unreadable [\"Its page.\", \"Two lines.\"] Some(\"cannot read `…`: …\")",
                "claim::denied [\"Refused.\"] None",
                "run::out_of_memory [\"Out of memory.\"] None",
            ]
        );
    }

    #[test]
    fn every_code_has_its_page() {
        let bare: Vec<String> =
            all().into_iter().filter(|code| code.doc.is_empty()).map(|code| code.code).collect();
        assert!(bare.is_empty(), "no doc comment explains {bare:?}");
    }
}
