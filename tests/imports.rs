//! Overloads of the op table that no model of the corpus holds, exported one a program: results and gradients are
//! PyTorch's, with `reference`, and with `pytorch` where `THUNDERHEAD_DIST` names a tree that has the plugin.
//!
//! The programs are written by `tests/fixtures/make_imports.py`, in f64.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use thunderhead::compare::{Tolerance, compare};
use thunderhead::config::{Overlay, Start, Surroundings};
use thunderhead::run::GradRequest;
use thunderhead::tensor_files::read_tensors;
use thunderhead::{Host, HostOptions, Program, Tensor, Value};

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/imports");

#[test]
fn reference_gives_pytorchs_results() {
    all(&host("reference", None));
}

#[test]
fn pytorch_gives_its_own_results() {
    let Some(dist) = std::env::var_os("THUNDERHEAD_DIST").map(PathBuf::from) else { return };
    if dist.join("plugins/libthunderhead_pytorch.so").exists() {
        all(&host("pytorch", Some(&dist)));
    }
}

fn host(executor: &str, dist: Option<&Path>) -> Host {
    let mut around = Surroundings::of_process();
    around.variables.remove("THUNDERHEAD_PLUGINS");
    let plugins =
        dist.map(|dist| format!("[plugins]\npaths = [{:?}]\n", dist.join("plugins"))).unwrap_or_default();
    // Libraries of the tree are listed beside its executable.
    around.exe_dir = dist.map(|dist| dist.join("bin"));
    let text = format!("config = 1\nexecutors = [\"{executor}\"]\n{plugins}[run]\nthreads = 1\n");
    let options = HostOptions { start: Start::Text(text), overlay: Overlay::default(), around };
    Host::open(&options).unwrap_or_else(|error| panic!("{executor}: {error}"))
}

fn all(host: &Host) {
    let files = std::fs::read_dir(PROGRAMS).expect("the fixtures are there");
    let mut files: Vec<PathBuf> = files.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "pt2"));
    files.sort();
    assert!(files.len() >= 45, "only {} programs", files.len());
    let check = |file: &PathBuf| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        check(host, file).err().map(|why| format!("{name}: {why}"))
    };
    let wrong: Vec<String> = files.iter().filter_map(check).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn check(host: &Host, file: &Path) -> Result<(), String> {
    let fixture = read_tensors(&file.with_extension("safetensors")).map_err(|error| error.to_string())?;
    let of_kind = |kind: &str| -> BTreeMap<String, Tensor> {
        let prefix = format!("0.{kind}.");
        let named = |(name, t): (&String, &Tensor)| Some((name.strip_prefix(&prefix)?.to_owned(), t.clone()));
        fixture.iter().filter_map(named).collect()
    };
    let program = Program::open(file).map_err(|error| error.to_string())?;
    let opaque =
        program.module().traces.iter().flat_map(|trace| trace.ops()).find(|op| op.op.starts_with("aten."));
    if let Some(opaque) = opaque {
        return Err(format!("`{}` is not in the table", opaque.op));
    }
    let given = of_kind("inputs").into_iter().map(|(name, t)| (name, Value::Tensor(t))).collect();
    let inputs = program.arrange(given, &mut |_, _| None).map_err(|error| error.to_string())?;
    let expected = of_kind("outputs");
    let session = host.compile(&program).map_err(|error| error.to_string())?;
    same_outputs(&session.run(&inputs).map_err(|error| error.to_string())?, &expected)?;
    let gradients = of_kind("grads");
    if gradients.is_empty() {
        return Ok(());
    }
    let forward = session.forward(&inputs, &GradRequest::default());
    let (outputs, _, tape) = forward.map_err(|error| error.to_string())?;
    same_outputs(&outputs, &expected)?;
    let cotangents: FxHashMap<usize, Tensor> = of_kind("cotangents")
        .into_iter()
        .filter_map(|(name, t)| Some((name.strip_prefix("out")?.parse().ok()?, t)))
        .collect();
    let found = tape.backward(&cotangents).map_err(|error| error.to_string())?;
    for (name, want) in &gradients {
        let have = found.get(name).ok_or_else(|| format!("no gradient of {name}"))?;
        same(&format!("gradient of {name}"), have, want)?;
    }
    Ok(())
}

fn same_outputs(found: &[Value], expected: &BTreeMap<String, Tensor>) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{} outputs instead of {}", found.len(), expected.len()));
    }
    for (n, value) in found.iter().enumerate() {
        let name = format!("out{n}");
        let (Some(have), Some(want)) = (value.tensor(), expected.get(&name)) else {
            return Err(format!("{name} is {value:?}"));
        };
        same(&name, have, want)?;
    }
    Ok(())
}

fn same(what: &str, have: &Tensor, want: &Tensor) -> Result<(), String> {
    let verdict = compare(have, want, Tolerance::default()).map_err(|error| format!("{what}: {error}"))?;
    if verdict.is_same() { Ok(()) } else { Err(format!("{what}: {}", verdict.sentence())) }
}
