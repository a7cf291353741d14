//! Real exported models through the library: PyTorch's outputs, on both calls of one session, and its state.
//!
//! Every model of `tests/models` runs in both dialects with `reference`, and with `pytorch` where `THUNDERHEAD_DIST`
//! names a tree that has the plugin. What is known not to work is data with a reason; if it works after all, that fails
//! too, so that the list stays true.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use thunderhead::compare::{Tolerance, compare};
use thunderhead::config::{Overlay, Start, Surroundings};
use thunderhead::tensor_files::read_tensors;
use thunderhead::{Host, HostOptions, Program, Session, Tensor, Value};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models");

/// A model and dialect that an executor is known not to run, and why.
struct Exception {
    executor: &'static str,
    model: &'static str,
    why: &'static str,
}

const EXCEPTIONS: &[Exception] = &[];

#[test]
fn reference_gives_pytorchs_results() {
    let host = host("reference", None);
    all_models("reference", &host);
}

#[test]
fn pytorch_gives_its_own_results() {
    let Some(dist) = std::env::var_os("THUNDERHEAD_DIST").map(PathBuf::from) else { return };
    if !dist.join("plugins/libthunderhead_pytorch.so").exists() {
        return;
    }
    let host = host("pytorch", Some(&dist));
    all_models("pytorch", &host);
}

/// A host that asks this executor, with `reference` as the last resort.
fn host(executor: &str, dist: Option<&Path>) -> Host {
    let mut around = Surroundings::of_process();
    around.variables.remove("THUNDERHEAD_PLUGINS");
    let plugins =
        dist.map(|dist| format!("[plugins]\npaths = [{:?}]\n", dist.join("plugins"))).unwrap_or_default();
    // Libraries of the tree are listed beside its executable.
    around.exe_dir = dist.map(|dist| dist.join("bin"));
    let text = format!("config = 1\nexecutors = [\"{executor}\"]\n{plugins}");
    let options = HostOptions { start: Start::Text(text), overlay: Overlay::default(), around };
    Host::open(&options).unwrap_or_else(|error| panic!("{executor}: {error}"))
}

fn all_models(executor: &str, host: &Host) {
    let mut folders: Vec<PathBuf> = fs::read_dir(MODELS)
        .expect("tests/models is there")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("meta.json").exists())
        .collect();
    folders.sort();
    assert!(folders.len() >= 19, "only {} models in {MODELS}", folders.len());
    let mut wrong = Vec::new();
    for folder in &folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        for dialect in ["model", "core"] {
            let case = format!("{name}/{dialect}");
            let known = EXCEPTIONS.iter().find(|e| e.executor == executor && e.model == case);
            match (check(host, folder, dialect), known) {
                (Ok(()), None) | (Err(_), Some(_)) => {}
                (Ok(()), Some(known)) => wrong.push(format!("{case} works; it is listed: {}", known.why)),
                (Err(why), None) => wrong.push(format!("{case}: {why}")),
            }
        }
    }
    assert!(wrong.is_empty(), "with {executor}:\n{}", wrong.join("\n"));
}

/// One model in one dialect: the first call, what it wrote, and the second call on the same session.
fn check(host: &Host, folder: &Path, dialect: &str) -> Result<(), String> {
    let tolerance = tolerance(folder);
    let program = Program::open(folder.join(format!("{dialect}.pt2"))).map_err(|error| error.to_string())?;
    let session = host.compile(&program).map_err(|error| error.to_string())?;
    let written = call(&session, &program, folder, "", tolerance)?;
    if let Some(expected) = file(folder, "state_after") {
        let state = session.state().map_err(|error| error.to_string())?;
        same("state", &state, &expected, tolerance)?;
    }
    if let Some(expected) = file(folder, "inputs_after") {
        same("written input", &written, &expected, tolerance)?;
    }
    if file(folder, "expected2").is_some() {
        call(&session, &program, folder, "2", tolerance).map_err(|why| format!("second call: {why}"))?;
    }
    Ok(())
}

/// Runs on `inputs{call}` and compares with `expected{call}`; gives the written inputs.
fn call(
    session: &Session,
    program: &Program,
    folder: &Path,
    call: &str,
    tolerance: Tolerance,
) -> Result<BTreeMap<String, Tensor>, String> {
    let given = file(folder, &format!("inputs{call}")).ok_or("no inputs")?;
    let given = given.into_iter().map(|(name, tensor)| (name, Value::Tensor(tensor))).collect();
    let inputs = program.arrange(given, &mut |_, _| None).map_err(|error| error.to_string())?;
    let (outputs, written) = session.run_written(&inputs).map_err(|error| error.to_string())?;
    let outputs = outputs.iter().enumerate();
    let outputs =
        outputs.filter_map(|(i, value)| Some((format!("out{i}"), value.tensor()?.clone()))).collect();
    let expected = file(folder, &format!("expected{call}")).ok_or("no expected outputs")?;
    same("output", &outputs, &expected, tolerance)?;
    Ok(written.into_iter().map(|(name, tensor)| (name.to_string(), tensor)).collect())
}

/// All that is expected is there and within the tolerances, and nothing else is there.
fn same(
    what: &str,
    got: &BTreeMap<String, Tensor>,
    expected: &BTreeMap<String, Tensor>,
    tolerance: Tolerance,
) -> Result<(), String> {
    if !got.keys().eq(expected.keys()) {
        return Err(format!("{what}: got {:?}, expected {:?}", got.keys(), expected.keys()));
    }
    for (name, tensor) in expected {
        let verdict = compare(&got[name], tensor, tolerance).map_err(|error| error.to_string())?;
        if !verdict.is_same() {
            return Err(format!("{what} {name}: {}", verdict.sentence()));
        }
    }
    Ok(())
}

fn file(folder: &Path, name: &str) -> Option<BTreeMap<String, Tensor>> {
    let path = folder.join(format!("{name}.safetensors"));
    path.exists().then(|| read_tensors(&path).unwrap_or_else(|error| panic!("{error}")))
}

fn tolerance(folder: &Path) -> Tolerance {
    let text = fs::read_to_string(folder.join("meta.json")).expect("meta.json is there");
    let meta: serde_json::Value = serde_json::from_str(&text).expect("meta.json is JSON");
    Tolerance { rtol: meta["rtol"].as_f64(), atol: meta["atol"].as_f64() }
}
