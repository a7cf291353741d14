//! Gradients of real exported models against PyTorch's autograd: every model with cotangents, in both dialects where
//! the core file has kept what gradients need.
//!
//! The tolerance is the models' own: the largest difference of a tensor against the larger of the tensor's largest
//! gradient and a thousandth of the model's.

#[path = "support/exported.rs"]
mod exported;

use exported::{dist, host};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thunderhead::run::GradRequest;
use thunderhead::tensor_files::read_tensors;
use thunderhead::{Host, Program, Tensor, Value};

const MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models");

#[test]
fn reference_gives_pytorchs_gradients() {
    all_models(&host("reference", None, 1));
}

#[test]
fn pytorch_gives_its_own_gradients() {
    if let Some(dist) = dist() {
        all_models(&host("pytorch", Some(&dist), 1));
    }
}

fn all_models(host: &Host) {
    let mut wrong = Vec::new();
    let mut n_checked = 0;
    for folder in folders() {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for remat in [true, false] {
            match check(host, &folder, remat) {
                Ok(()) => n_checked += 1,
                Err(why) => wrong.push(format!("{name} (remat {remat}): {why}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} right, wrong:\n{}", n_checked, wrong.join("\n"));
    assert!(n_checked >= 36, "only {n_checked} models have gradients");
}

fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(MODELS)
        .expect("tests/models is there")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("grads.safetensors").exists())
        .collect();
    folders.sort();
    folders
}

fn tensors(folder: &Path, name: &str) -> BTreeMap<String, Tensor> {
    read_tensors(&folder.join(format!("{name}.safetensors"))).expect("a fixture")
}

fn check(host: &Host, folder: &Path, remat: bool) -> Result<(), String> {
    let meta: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("meta.json")).map_err(|e| e.to_string())?)
            .map_err(|e| e.to_string())?;
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
        if difference.is_nan() || difference > rtol * scale {
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
