//! Every exported model becomes a trace that obeys the rules, and reads back as it was printed.

use std::collections::{BTreeMap, BTreeSet};

use crate::frontend::pt2::Pt2;
use crate::frontend::pt2::tests::{current_files, old_files};
use crate::frontend::{Imported, import};
use crate::ir::text::{self, PrintOptions};
use crate::ir::verify::verify;
use crate::ir::{Arg, RoleKind, Stmt};
use crate::ops;

fn imported(path: &std::path::Path) -> Imported {
    let pt2 = Pt2::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    import(&pt2).unwrap_or_else(|error| panic!("{}: {} {error}", path.display(), error.code_text()))
}

fn shown(path: &std::path::Path) -> String {
    let folder = path.parent().and_then(std::path::Path::file_name).unwrap_or_default();
    format!("{}/{}", folder.to_string_lossy(), path.file_name().unwrap_or_default().to_string_lossy())
}

#[test]
fn every_model_imports_and_round_trips() {
    let mut failures = Vec::new();
    for path in current_files().into_iter().chain(old_files()) {
        let pt2 = Pt2::open(&path).expect("opens");
        match import(&pt2) {
            Err(error) => failures.push(format!("{}: {}: {error}", shown(&path), error.code_text())),
            Ok(imported) => {
                let faults = verify(&imported.module);
                if !faults.is_empty() {
                    failures.push(format!("{}: {faults:?}", shown(&path)));
                }
                let options = PrintOptions { notes: true, ..PrintOptions::default() };
                let printed = text::print(&imported.module, ops::schemas(), &options);
                if let Ok(folder) = std::env::var("THUNDERHEAD_TRACES") {
                    let name = shown(&path).replace('/', "-");
                    std::fs::write(format!("{folder}/{name}.trace"), &printed).expect("written");
                }
                match text::parse(&printed, ops::schemas()) {
                    Err(faults) => failures.push(format!("{}: does not parse: {faults:?}", shown(&path))),
                    Ok(parsed) => {
                        let again = text::print(&parsed.module, ops::schemas(), &options);
                        if again != printed {
                            failures.push(format!("{}: prints differently when read back", shown(&path)));
                        }
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// Written parameters end in one `prims.copy_` each, behind everything else, and are `state`, `inout` or `param`.
#[test]
fn writes_stand_at_the_end() {
    for path in current_files() {
        let imported = imported(&path);
        let trace = &imported.module.traces[0];
        let writes: Vec<bool> = trace.ops().map(|bsym| &*bsym.op == "prims.copy_").collect();
        assert!(writes.is_sorted(), "{}: a write before the end", shown(&path));
        let mut written = BTreeSet::new();
        for bsym in trace.ops().filter(|bsym| &*bsym.op == "prims.copy_") {
            let target = bsym.args[1].value().expect("a value");
            assert!(written.insert(target), "{}: two writes", shown(&path));
            let param = trace.params.iter().find(|param| param.value == target).expect("a parameter");
            assert!(matches!(param.role.kind, RoleKind::State | RoleKind::Inout | RoleKind::Param));
        }
        for param in &trace.params {
            let says_written = matches!(param.role.kind, RoleKind::State | RoleKind::Inout);
            assert_eq!(says_written, written.contains(&param.value), "{}: {:?}", shown(&path), param.role);
        }
    }
}

/// What the models' own notes say is written, is written; in both dialects.
#[test]
fn state_is_what_pytorch_changed() {
    for path in current_files() {
        let meta = std::fs::read(path.with_file_name("meta.json")).expect("readable");
        let meta: serde_json::Value = serde_json::from_slice(&meta).expect("JSON");
        let expected: BTreeSet<&str> = meta["mutated_buffers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str())
            .collect();
        let imported = imported(&path);
        let trace = &imported.module.traces[0];
        let state = trace.params.iter().filter(|param| param.role.kind == RoleKind::State);
        let state: BTreeSet<&str> = state.filter_map(|param| param.role.name.as_deref()).collect();
        assert_eq!(state, expected, "{}", shown(&path));
    }
}

/// Inputs and outputs are those of `meta.json`: positions, constants, names.
#[test]
fn inputs_and_outputs_are_the_users() {
    for path in current_files() {
        let meta = std::fs::read(path.with_file_name("meta.json")).expect("readable");
        let meta: serde_json::Value = serde_json::from_slice(&meta).expect("JSON");
        let imported = imported(&path);
        let trace = &imported.module.traces[0];
        let inputs = meta["inputs"].as_array().expect("a list");
        assert_eq!(imported.inputs.len(), inputs.len(), "{}", shown(&path));
        for (position, (input, expected)) in imported.inputs.iter().zip(inputs).enumerate() {
            let constant = expected.get("constant").is_some();
            let name = format!("in{position}");
            let param = trace.params.iter().find(|param| param.role.name.as_deref() == Some(name.as_str()));
            assert_eq!(param.is_none(), constant, "{}: {name}", shown(&path));
            assert_eq!(matches!(input.kind, crate::frontend::InputKind::Constant(_)), constant);
        }
        let outputs = meta["outputs"].as_array().expect("a list");
        assert_eq!(trace.outputs.len(), outputs.len(), "{}", shown(&path));
        for (position, (output, expected)) in trace.outputs.iter().zip(outputs).enumerate() {
            assert_eq!(output.name.as_deref(), Some(format!("out{position}").as_str()));
            let is_value = matches!(output.value, Arg::Value(_));
            assert_eq!(is_value, expected == "tensor", "{}: out{position}", shown(&path));
        }
    }
}

/// Which overloads of each model the table does not know: they are opaque symbols, which the table of ops shrinks.
#[test]
fn opaque_symbols_are_listed() {
    let mut missing: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in current_files() {
        let imported = imported(&path);
        for bsym in imported.module.traces[0].body.iter().filter_map(Stmt::op) {
            if bsym.op.starts_with("aten.") {
                missing.entry(shown(&path)).or_default().insert(bsym.op.to_string());
            }
        }
    }
    for (model, ops) in &missing {
        println!("{model}: {}", ops.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
    }
}
