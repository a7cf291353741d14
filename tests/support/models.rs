//! The models of `tests/models`: PyTorch's results and gradients, and how an executor's are compared with them.

#![allow(dead_code)] // each test crate uses a part

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use thunderhead::compare::{Tolerance, compare};
use thunderhead::run::GradRequest;
use thunderhead::tensor_files::read_tensors;
use thunderhead::{Host, Program, Session, Tensor, Value};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models");

/// The models that have this file, in order.
pub fn folders(with: &str) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = fs::read_dir(MODELS)
        .expect("tests/models is there")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join(with).exists())
        .collect();
    folders.sort();
    folders
}

/// A model's name.
pub fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// One model in one dialect: the first call, what it wrote, and the second call on the same session.
pub fn results(host: &Host, folder: &Path, dialect: &str) -> Result<(), String> {
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

fn meta(folder: &Path) -> serde_json::Value {
    let text = fs::read_to_string(folder.join("meta.json")).expect("meta.json is there");
    serde_json::from_str(&text).expect("meta.json is JSON")
}

fn tolerance(folder: &Path) -> Tolerance {
    let meta = meta(folder);
    Tolerance { rtol: meta["rtol"].as_f64(), atol: meta["atol"].as_f64() }
}

/// Gradients of the first call's cotangents. The tolerance is the model's own: the largest difference of a tensor against
/// the larger of the tensor's largest gradient and a thousandth of the model's; `slack` says how many times that a gradient
/// may have.
pub fn gradients(host: &Host, folder: &Path, remat: bool, slack: &dyn Fn(&str) -> f64) -> Result<(), String> {
    let meta = meta(folder);
    let rtol = meta["grads"]["grad_rtol"].as_f64().or_else(|| meta["grad_rtol"].as_f64()).unwrap_or(1e-3);
    let program = Program::open(folder.join("model.pt2")).map_err(|e| e.to_string())?;
    let session = host.compile(&program).map_err(|e| e.to_string())?;
    let given = tensors(folder, "inputs").into_iter().map(|(n, t)| (n, Value::Tensor(t))).collect();
    let inputs = program.arrange(given, &mut |_, _| None).map_err(|e| e.to_string())?;
    let request = GradRequest { wrt: None, remat };
    let (_, _, tape) = session.forward(&inputs, &request).map_err(|e| e.to_string())?;
    let cotangents: FxHashMap<usize, Tensor> = tensors(folder, "cotangents")
        .into_iter()
        .filter_map(|(n, t)| Some((n.strip_prefix("out")?.parse().ok()?, t)))
        .collect();
    let got = tape.backward(&cotangents).map_err(|e| e.to_string())?;
    let expected = tensors(folder, "grads");
    let largest = expected.values().map(largest).fold(0.0, f64::max);
    for (name, want) in &expected {
        let Some(have) = got.get(name) else { return Err(format!("no gradient of `{name}`")) };
        if have.dims() != want.dims() || have.dtype() != want.dtype() {
            return Err(format!(
                "`{name}` is {}{:?}, not {}{:?}",
                have.dtype(),
                have.dims(),
                want.dtype(),
                want.dims()
            ));
        }
        let scale = self::largest(want).max(largest / 1000.0);
        let difference =
            floats(have).iter().zip(floats(want)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        if difference.is_nan() || difference > rtol * scale * slack(name) {
            return Err(format!(
                "`{name}` differs by {difference:.3e}, its scale is {scale:.3e}, rtol {rtol}"
            ));
        }
    }
    // What has no path to the outputs is zero.
    for (name, have) in got.iter().filter(|(n, _)| !expected.contains_key(*n)) {
        if self::largest(have) != 0.0 {
            return Err(format!("`{name}` has a gradient, PyTorch gives none"));
        }
    }
    Ok(())
}

fn tensors(folder: &Path, name: &str) -> BTreeMap<String, Tensor> {
    file(folder, name).expect("a fixture")
}

fn largest(t: &Tensor) -> f64 {
    floats(t).iter().map(|x| x.abs()).fold(0.0, f64::max)
}

/// The elements as f64, whatever the floating dtype.
fn floats(t: &Tensor) -> Vec<f64> {
    use thunderhead::ir::Dtype;
    match t.dtype() {
        Dtype::F64 => t.to_vec::<f64>().expect("checked"),
        Dtype::F32 => t.to_vec::<f32>().expect("checked").into_iter().map(f64::from).collect(),
        Dtype::F16 => t.to_vec::<half::f16>().expect("checked").into_iter().map(f64::from).collect(),
        Dtype::Bf16 => t.to_vec::<half::bf16>().expect("checked").into_iter().map(f64::from).collect(),
        _ => Vec::new(),
    }
}
