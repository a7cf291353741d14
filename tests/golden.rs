//! Golden traces: three models at every stage, as printed.
//!
//! `tests/golden/<model>.<stage>.trace`; `cargo xtask bless` rewrites them. Each is parsed back, too, and prints
//! the same bytes.

use std::path::PathBuf;
use thunderhead::config::{Overlay, Start, Surroundings};
use thunderhead::ir::text::{PrintOptions, parse, print};
use thunderhead::ir::{Module, Trace};
use thunderhead::run::GradRequest;
use thunderhead::{Host, HostOptions, Program, Value};

const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests");

#[test]
fn three_models_print_the_same_at_every_stage() {
    let options = HostOptions {
        start: Start::Text("config = 1\nexecutors = [\"reference\"]\n".to_owned()),
        overlay: Overlay::default(),
        around: Surroundings::default(),
    };
    let host = Host::open(&options).expect("reference is linked in");
    let mut wrong = Vec::new();
    for model in ["mlp", "lit_llama2", "kv_cache"] {
        let folder = PathBuf::from(TESTS).join("models").join(model);
        let program = Program::open(folder.join("model.pt2")).expect("a fixture");
        let session = host.compile(&program).expect("reference takes everything");
        let tensors =
            thunderhead::tensor_files::read_tensors(&folder.join("inputs.safetensors")).expect("a fixture");
        let given = tensors.into_iter().map(|(n, t)| (n, Value::Tensor(t))).collect();
        let inputs = program.arrange(given, &mut |_, _| None).expect("the fixture's inputs fit");
        let compiled = session.compiled(&inputs).expect("compiles");
        let differentiated =
            session.differentiated(&inputs, &GradRequest::default()).expect("differentiates");
        let both = [differentiated.traces.forward.clone(), differentiated.traces.backward.clone()];
        let stages: [(&str, Module); 4] = [
            ("acquired", (**program.module()).clone()),
            ("claimed", alone(&compiled.claimed)),
            ("execution", alone(&thunderhead::lower::with_dels(&compiled.lowered.trace))),
            ("gradients", Module { dims: Vec::new(), traces: both.to_vec() }),
        ];
        for (stage, module) in stages {
            let text = print(&module, thunderhead::ops::schemas(), &PrintOptions::default());
            match parse(&text, thunderhead::ops::schemas()) {
                Ok(again) => {
                    let printed = print(&again.module, thunderhead::ops::schemas(), &PrintOptions::default());
                    if printed != text {
                        wrong.push(format!("{model}.{stage}: prints differently once parsed"));
                    }
                }
                Err(faults) => wrong.push(format!("{model}.{stage}: does not parse: {faults}")),
            }
            compare(&format!("{model}.{stage}"), &text, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "THUNDERHEAD_BLESS=1 rewrites:\n{}", wrong.join("\n"));
}

fn alone(trace: &Trace) -> Module {
    Module { dims: Vec::new(), traces: vec![trace.clone()] }
}

fn compare(name: &str, text: &str, wrong: &mut Vec<String>) {
    let path = PathBuf::from(TESTS).join("golden").join(format!("{name}.trace"));
    if std::env::var_os("THUNDERHEAD_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder can be made");
        std::fs::write(&path, text).expect("the golden file can be written");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if expected != text {
        let line = expected.lines().zip(text.lines()).position(|(a, b)| a != b);
        let line = line.unwrap_or_else(|| expected.lines().count().min(text.lines().count()));
        wrong.push(format!(
            "{name}, line {}:\n  expected {}\n  found    {}",
            line + 1,
            expected.lines().nth(line).unwrap_or("(end)"),
            text.lines().nth(line).unwrap_or("(end)")
        ));
    }
}
