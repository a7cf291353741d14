//! Every exported model, as a trace: its calls are what the op table says, it comes back from text and JSON, and
//! passes leave it a program.

use std::path::{Path, PathBuf};
use thunderhead::frontend::{import, pt2::Pt2};
use thunderhead::ir::renumber::{renumber, same_program};
use thunderhead::ir::{Fault, Module, text};
use thunderhead::ops;
use thunderhead::passes::{PASSES, Purpose};

fn models() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let folders = std::fs::read_dir(root).expect("the models").filter_map(Result::ok).map(|e| e.path());
    let mut files: Vec<PathBuf> =
        folders.flat_map(|f| ["model.pt2", "core.pt2"].map(|n| f.join(n))).filter(|f| f.is_file()).collect();
    files.sort();
    files
}

fn module_of(path: &Path) -> Module {
    let pt2 = Pt2::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    import(&pt2).unwrap_or_else(|e| panic!("{}: {e}", path.display())).module
}

/// What is wrong with a module, as a short text.
fn first(faults: &[Fault]) -> Option<String> {
    faults.first().map(|f| format!("{} faults, the first: {f}", faults.len()))
}

#[test]
fn models_are_programs_before_and_after_passes() {
    let files = models();
    assert!(files.len() > 20, "only {} models found", files.len());
    let wrong: Vec<String> =
        files.iter().filter_map(|f| Some(format!("{}: {}", f.display(), broken(&module_of(f))?))).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), files.len(), wrong.join("\n"));
}

fn broken(module: &Module) -> Option<String> {
    if let Some(why) = first(&ops::check::faults(module)) {
        return Some(why);
    }
    for purpose in [Purpose::Values, Purpose::Gradients] {
        let mut module = module.clone();
        for pass in PASSES {
            for trace in &mut module.traces {
                *trace = (pass.run)(trace.clone(), purpose);
            }
            if let Some(why) = first(&ops::check::faults(&module)) {
                return Some(format!("after {} ({purpose:?}): {why}", pass.name));
            }
        }
        if let Some(why) = changed_by_text(&module) {
            return Some(why);
        }
    }
    None
}

/// Text and JSON give the same program, and the same trace where its values are numbered as the text has them.
fn changed_by_text(module: &Module) -> Option<String> {
    let printed = text::print(module, ops::schemas(), &text::PrintOptions::FULL);
    let back = match text::parse(&printed, ops::schemas()) {
        Ok(parsed) => parsed.module,
        Err(faults) => return Some(format!("what was printed: {faults}")),
    };
    let json = text::to_json(module, ops::schemas()).to_string();
    let from_json = match text::from_json(&json, ops::schemas()) {
        Ok(module) => module,
        Err(faults) => return Some(format!("its JSON: {faults}")),
    };
    let renumbered: Vec<_> = module.traces.iter().map(renumber).collect();
    match () {
        () if back.traces != renumbered => Some("text gives another trace".into()),
        () if from_json != back => Some("JSON gives another trace".into()),
        () if !same_program(module, &back) => Some("text gives another program".into()),
        () => None,
    }
}
