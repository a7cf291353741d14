//! ATen ops that the op table does not hold, exported one a program: results and gradients through `pytorch` equal
//! PyTorch's, and without it the error says which op it is and what to do.
//!
//! `pytorch` runs where `THUNDERHEAD_DIST` names a tree that has the plugin.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thunderhead::compare::{Tolerance, compare};
use thunderhead::config::{Overlay, Start, Surroundings};
use thunderhead::run::GradRequest;
use thunderhead::tensor_files::read_tensors;
use thunderhead::{Host, HostOptions, Program, Tensor, Value};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/opaque");

#[test]
fn pytorch_runs_and_differentiates_what_the_table_lacks() {
    let Some(dist) = std::env::var_os("THUNDERHEAD_DIST").map(PathBuf::from) else { return };
    if !dist.join("plugins/libthunderhead_pytorch.so").exists() {
        return;
    }
    let host = host("pytorch", Some(&dist));
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
    let host = host("reference", None);
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
            .and_then(|session| session.run(&inputs(&program, &file)))
            .expect_err("nobody takes it");
        let code = miette::Diagnostic::code(&error).map(|code| code.to_string());
        assert_eq!(code.as_deref(), Some("claim::unclaimed"), "{name}: {error}");
        assert!(opaque.iter().any(|op| error.to_string().contains(op.as_str())), "{name}: {error}");
        let help = miette::Diagnostic::help(&error).map(|help| help.to_string()).unwrap_or_default();
        assert!(help.contains("plugin") && help.contains("op table"), "{name}: {help}");
    }
}

fn host(executor: &str, dist: Option<&Path>) -> Host {
    let mut around = Surroundings::of_process();
    around.variables.remove("THUNDERHEAD_PLUGINS");
    let plugins =
        dist.map(|dist| format!("[plugins]\npaths = [{:?}]\n", dist.join("plugins"))).unwrap_or_default();
    around.exe_dir = dist.map(|dist| dist.join("bin"));
    let text = format!("config = 1\nexecutors = [\"{executor}\"]\n{plugins}");
    let options = HostOptions { start: Start::Text(text), overlay: Overlay::default(), around };
    Host::open(&options).unwrap_or_else(|error| panic!("{executor}: {error}"))
}

fn programs() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(FOLDER)
        .expect("the fixtures are there")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "pt2"))
        .collect();
    files.sort();
    assert!(files.len() >= 40, "only {} programs in {FOLDER}", files.len());
    files
}

fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The fixture's tensors of one kind (`inputs`, `outputs`, `cotangents`, `grads`) by name.
fn tensors(file: &Path, kind: &str) -> BTreeMap<String, Tensor> {
    let all = read_tensors(&file.with_extension("safetensors")).expect("a fixture");
    let of_kind = |(name, tensor): (String, Tensor)| {
        let name = name.strip_prefix(kind)?.strip_prefix('.')?.to_owned();
        Some((name, tensor))
    };
    all.into_iter().filter_map(of_kind).collect()
}

fn inputs(program: &Program, file: &Path) -> Vec<Value> {
    let given = tensors(file, "inputs").into_iter().map(|(name, t)| (name, Value::Tensor(t))).collect();
    program.arrange(given, &mut |_, _| None).expect("the inputs fit")
}

/// Results, then gradients where the fixture has some; says whether it has.
fn check(host: &Host, file: &Path) -> Result<bool, String> {
    let program = Program::open(file).map_err(|error| error.to_string())?;
    let session = host.compile(&program).map_err(|error| error.to_string())?;
    let inputs = inputs(&program, file);
    let outputs = session.run(&inputs).map_err(|error| error.to_string())?;
    same_values("output", &outputs, &tensors(file, "outputs"))?;
    let expected = tensors(file, "grads");
    if expected.is_empty() {
        return Ok(false);
    }
    let (outputs, _, tape) =
        session.forward(&inputs, &GradRequest::default()).map_err(|error| error.to_string())?;
    same_values("output of the forward", &outputs, &tensors(file, "outputs"))?;
    let cotangents: FxHashMap<usize, Tensor> = tensors(file, "cotangents")
        .into_iter()
        .filter_map(|(name, t)| Some((name.strip_prefix("out")?.parse().ok()?, t)))
        .collect();
    let got = tape.backward(&cotangents).map_err(|error| error.to_string())?;
    for (name, want) in &expected {
        let have = got.get(name).ok_or_else(|| format!("no gradient of {name}"))?;
        same("gradient", name, have, want)?;
    }
    // PyTorch gives none where nothing is reached.
    for (name, have) in got.iter().filter(|(name, _)| !expected.contains_key(*name)) {
        let zero = Tensor::zeros(have.dtype(), have.dims()).map_err(|error| error.to_string())?;
        same("gradient", name, have, &zero)?;
    }
    Ok(true)
}

fn same_values(what: &str, got: &[Value], expected: &BTreeMap<String, Tensor>) -> Result<(), String> {
    for (name, want) in expected {
        let index: usize = name.trim_start_matches("out").parse().map_err(|_| name.clone())?;
        let have = got.get(index).and_then(Value::tensor).ok_or_else(|| format!("no {what} {name}"))?;
        same(what, name, have, want)?;
    }
    Ok(())
}

fn same(what: &str, name: &str, have: &Tensor, want: &Tensor) -> Result<(), String> {
    let verdict = compare(have, want, Tolerance::default()).map_err(|error| format!("{what} {name}: {error}"))?;
    if verdict.is_same() { Ok(()) } else { Err(format!("{what} {name}: {}", verdict.sentence())) }
}
