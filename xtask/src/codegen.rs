//! `cargo xtask codegen`: writes the files that are derived from the op table and the sources, and checked in.
//!
//! The host prints its own table (`thunderhead ops`); this command only turns that into files. `tidy` compares them
//! with what would be written now.
//!
//! Deliberately not here: any fact about an op.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::errors;
use crate::tool::{self, Failure};

/// A derived file: where it lies in the workspace, and its whole text.
#[derive(Debug)]
pub struct Derived {
    pub path: PathBuf,
    pub text: String,
}

/// `cargo xtask codegen`: writes what changed, and names it.
pub fn command() -> Result<(), Failure> {
    for derived in derive()? {
        let path = tool::root().join(&derived.path);
        if fs::read_to_string(&path).is_ok_and(|text| text == derived.text) {
            continue;
        }
        if let Some(folder) = path.parent() {
            tool::io("create", folder, fs::create_dir_all(folder))?;
        }
        tool::io("write", &path, fs::write(&path, &derived.text))?;
        println!("{}", derived.path.display());
    }
    Ok(())
}

/// All derived files as they should be now.
pub fn derive() -> Result<Vec<Derived>, Failure> {
    let ops = host(&["ops", "--json"])?;
    let ops: Value = serde_json::from_str(&ops)
        .map_err(|error| Failure::new(format!("`thunderhead ops --json` is no JSON: {error}"), ""))?;
    let names = names_rs(&ops)?;
    let table = host(&["ops", "--md"])?;
    Ok(vec![
        Derived { path: "sdk/src/names.rs".into(), text: names },
        Derived { path: "docs/ops.md".into(), text: table },
        Derived { path: "docs/errors.md".into(), text: errors::page() },
    ])
}

/// Asks the host that this workspace builds.
fn host(args: &[&str]) -> Result<String, Failure> {
    let mut cargo = tool::cargo();
    cargo.args(["run", "--quiet", "--locked", "--package", "thunderhead", "--"]).args(args);
    tool::output(&mut cargo, "ask the host for its op table")
}

/// `sdk/src/names.rs`: a constant for each op name, so that a plugin's typing error is the compiler's.
fn names_rs(ops: &Value) -> Result<String, Failure> {
    let list = ops.as_array().or_else(|| ops.get("ops").and_then(Value::as_array));
    let list = list.ok_or_else(|| Failure::new("`thunderhead ops --json` lists no ops", ""))?;
    let names: BTreeSet<&str> = list.iter().filter_map(|op| op.get("name").and_then(Value::as_str)).collect();
    let mut text = String::from(
        "//! Names of the ops in the host's table, a constant each. Written by `cargo xtask codegen`; not edited by hand.\n",
    );
    let mut space = "";
    for name in names {
        let Some((prefix, rest)) = name.split_once('.') else { continue };
        if prefix != space {
            if !space.is_empty() {
                text.push_str("}\n");
            }
            space = prefix;
            text.push_str(&format!("\n/// `{prefix}.*`\npub mod {prefix} {{\n"));
        }
        text.push_str(&format!("    /// `{name}`\n    pub const {}: &str = \"{name}\";\n", constant(rest)));
    }
    if !space.is_empty() {
        text.push_str("}\n");
    }
    Ok(text)
}

/// `scaled_dot_product` → `SCALED_DOT_PRODUCT`; a trailing underscore stays.
fn constant(name: &str) -> String {
    name.replace('.', "_").to_uppercase()
}
