//! Exported programs with what PyTorch gives for them, as the scripts of `tests/fixtures` write both: a `.pt2`, and a
//! safetensors file of the same stem with `<call>.<kind>.<name>` for each call in order.

#![allow(dead_code)] // each test crate uses a part

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thunderhead::compare::{Tolerance, compare};
use thunderhead::config::{Overlay, Start, Surroundings};
use thunderhead::ir::{NumKind, Type};
use thunderhead::tensor_files::read_tensors;
use thunderhead::{Host, HostOptions, Program, Tensor, Value};

/// Tensors by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// A folder of `tests/models`.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(name)
}

/// The programs of a folder, by name.
pub fn programs(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the fixtures are there")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "pt2"))
        .collect();
    files.sort();
    files
}

/// The file's name without its extension.
pub fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// A host with one executor, `reference` as the last resort, and so many threads.
pub fn host(executor: &str, dist: Option<&Path>, threads: usize) -> Host {
    let mut around = Surroundings::of_process();
    around.variables.remove("THUNDERHEAD_PLUGINS");
    let plugins =
        dist.map(|dist| format!("[plugins]\npaths = [{:?}]\n", dist.join("plugins"))).unwrap_or_default();
    // Libraries of the tree are listed beside its executable.
    around.exe_dir = dist.map(|dist| dist.join("bin"));
    let text = format!("config = 1\nexecutors = [\"{executor}\"]\n{plugins}[run]\nthreads = {threads}\n");
    let options = HostOptions { start: Start::Text(text), overlay: Overlay::default(), around };
    Host::open(&options).unwrap_or_else(|error| panic!("{executor}: {error}"))
}

/// The tree with the `pytorch` plugin that `THUNDERHEAD_DIST` names, if it does.
pub fn dist() -> Option<PathBuf> {
    let dist = std::env::var_os("THUNDERHEAD_DIST").map(PathBuf::from)?;
    dist.join("plugins/libthunderhead_pytorch.so").exists().then_some(dist)
}

/// All that PyTorch gives: beside the program, under its name before the first dot.
pub fn fixture(file: &Path) -> Tensors {
    let name = stem(file);
    let stem = name.split('.').next().unwrap_or_default();
    read_tensors(&file.with_file_name(format!("{stem}.safetensors"))).expect("a fixture")
}

/// The tensors of one call and kind (`inputs`, `outputs`, `cotangents`, `grads`, …) by name.
pub fn tensors(fixture: &Tensors, call: usize, kind: &str) -> Tensors {
    let prefix = format!("{call}.{kind}.");
    let of_kind =
        |(name, tensor): (&String, &Tensor)| Some((name.strip_prefix(&prefix)?.to_owned(), tensor.clone()));
    fixture.iter().filter_map(of_kind).collect()
}

/// How many calls there are.
pub fn n_calls(fixture: &Tensors) -> usize {
    (0..).take_while(|n| !tensors(fixture, *n, "inputs").is_empty()).count()
}

/// The inputs of a call; tensors without dims are numbers where the program takes numbers.
pub fn inputs(program: &Program, fixture: &Tensors, call: usize) -> Result<Vec<Value>, String> {
    let trace = &program.module().traces[0];
    let number = |name: &str| {
        trace.params.iter().find(|p| p.role.name.as_deref() == Some(name)).and_then(|p| {
            match trace.ty(p.value) {
                Type::Number(n) => Some(n.kind),
                Type::Tensor(_) => None,
            }
        })
    };
    let value = |(name, t): (String, Tensor)| {
        let value = match number(&name) {
            Some(NumKind::Int) => t.to_vec::<i64>().ok().map(|v| Value::Int(v[0])),
            Some(NumKind::Float) => t.to_vec::<f64>().ok().map(|v| Value::Float(v[0])),
            Some(NumKind::Bool) => t.to_vec::<bool>().ok().map(|v| Value::Bool(v[0])),
            None => None,
        };
        (name, value.unwrap_or(Value::Tensor(t)))
    };
    let given = tensors(fixture, call, "inputs").into_iter().map(value).collect();
    program.arrange(given, &mut |_, _| None).map_err(|error| error.to_string())
}

/// The cotangents of a call by output index.
pub fn cotangents(fixture: &Tensors, call: usize) -> FxHashMap<usize, Tensor> {
    tensors(fixture, call, "cotangents")
        .into_iter()
        .filter_map(|(name, t)| Some((name.strip_prefix("out")?.parse().ok()?, t)))
        .collect()
}

/// The outputs that are expected, and no others: numbers under `out0#`, None where nothing is.
pub fn same_outputs(got: &[Value], expected: &Tensors) -> Result<(), String> {
    for (index, value) in got.iter().enumerate() {
        let name = format!("out{index}");
        let number = expected.get(&format!("{name}#"));
        match (value, expected.get(&name), number) {
            (Value::Tensor(have), Some(want), _) => same(&name, have, want)?,
            (Value::Int(n), _, Some(want)) if want.to_vec::<i64>().is_ok_and(|v| v == [*n]) => {}
            (Value::Float(x), _, Some(want)) if want.to_vec::<f64>().is_ok_and(|v| v == [*x]) => {}
            (Value::Bool(b), _, Some(want)) if want.to_vec::<bool>().is_ok_and(|v| v == [*b]) => {}
            (Value::None, None, None) => {}
            (value, ..) => return Err(format!("{name} is {value:?}")),
        }
    }
    let last = expected.keys().filter_map(|name| name.trim_matches(['o', 'u', 't', '#']).parse().ok()).max();
    match last {
        Some(last) if got.len() <= last => Err(format!("{} outputs, out{last} is expected", got.len())),
        _ => Ok(()),
    }
}

/// All gradients that are expected are there; those that PyTorch does not give are zero.
pub fn same_gradients(got: &Tensors, expected: &Tensors) -> Result<(), String> {
    for (name, have) in got {
        let zero = Tensor::zeros(have.dtype(), have.dims()).map_err(|error| error.to_string())?;
        same(&format!("gradient of {name}"), have, expected.get(name).unwrap_or(&zero))?;
    }
    match expected.keys().find(|name| !got.contains_key(*name)) {
        Some(missing) => Err(format!("no gradient of {missing}")),
        None => Ok(()),
    }
}

/// Within the tolerance of the dtype.
pub fn same(what: &str, have: &Tensor, want: &Tensor) -> Result<(), String> {
    let verdict = compare(have, want, Tolerance::default()).map_err(|error| format!("{what}: {error}"))?;
    if verdict.is_same() { Ok(()) } else { Err(format!("{what}: {}", verdict.sentence())) }
}
