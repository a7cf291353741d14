//! ATen ops that the op table does not hold, exported one a program: results and gradients through `pytorch` equal
//! PyTorch's, and without it the error says which op it is and what to do.
//!
//! `pytorch` runs where `THUNDERHEAD_DIST` names a tree that has the plugin.

#[path = "support/exported.rs"]
mod exported;

use exported::{cotangents, dist, fixture, folder, host, inputs, stem, tensors};
use std::path::{Path, PathBuf};
use thunderhead::run::GradRequest;
use thunderhead::{Host, Program};

#[test]
fn pytorch_runs_and_differentiates_what_the_table_lacks() {
    let Some(dist) = dist() else { return };
    let host = host("pytorch", Some(&dist), 1);
    let mut wrong = Vec::new();
    let mut n_gradients = 0;
    for file in programs() {
        match check(&host, &file) {
            Ok(has_gradient) => n_gradients += usize::from(has_gradient),
            Err(why) => wrong.push(format!("{}: {why}", stem(&file))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_gradients >= 40, "only {n_gradients} ops have gradients");
}

#[test]
fn without_pytorch_the_error_says_which_op_and_what_to_do() {
    let host = host("reference", None, 1);
    for file in programs() {
        let name = stem(&file);
        let program = Program::open(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let opaque: Vec<String> = program
            .module()
            .traces
            .iter()
            .flat_map(|trace| trace.ops())
            .map(|bsym| bsym.op.to_string())
            .filter(|op| op.starts_with("aten."))
            .collect();
        assert!(!opaque.is_empty(), "{name}: the table holds its op; take another one");
        let error = host
            .compile(&program)
            .and_then(|session| session.run(&inputs(&program, &fixture(&file), 0).expect("the inputs fit")))
            .expect_err("nobody takes it");
        let code = miette::Diagnostic::code(&error).map(|code| code.to_string());
        assert_eq!(code.as_deref(), Some("claim::unclaimed"), "{name}: {error}");
        assert!(opaque.iter().any(|op| error.to_string().contains(op.as_str())), "{name}: {error}");
        let help = miette::Diagnostic::help(&error).map(|help| help.to_string()).unwrap_or_default();
        assert!(help.contains("plugin") && help.contains("op table"), "{name}: {help}");
    }
}

fn programs() -> Vec<PathBuf> {
    let files = exported::programs(&folder("opaque"));
    assert!(files.len() >= 40, "only {} programs", files.len());
    files
}

/// Results, then gradients where the fixture has some; says whether it has.
fn check(host: &Host, file: &Path) -> Result<bool, String> {
    let program = Program::open(file).map_err(|error| error.to_string())?;
    let session = host.compile(&program).map_err(|error| error.to_string())?;
    let fixture = fixture(file);
    let given = inputs(&program, &fixture, 0)?;
    let expected = tensors(&fixture, 0, "outputs");
    let outputs = session.run(&given).map_err(|error| error.to_string())?;
    exported::same_outputs(&outputs, &expected)?;
    let gradients = tensors(&fixture, 0, "grads");
    if gradients.is_empty() {
        return Ok(false);
    }
    let (outputs, _, tape) =
        session.forward(&given, &GradRequest::default()).map_err(|error| error.to_string())?;
    exported::same_outputs(&outputs, &expected)?;
    let got = tape.backward(&cotangents(&fixture, 0)).map_err(|error| error.to_string())?;
    exported::same_gradients(&got, &gradients)?;
    Ok(true)
}
