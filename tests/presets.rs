//! The presets that fuse, on real models: PyTorch's results and gradients, with libtorch's plugins and without any; one
//! region forward and one backward of a Llama; a printed execution trace runs again and gives the same bits.
//!
//! Needs the tree that `THUNDERHEAD_DIST` names (`cargo xtask test` sets it). Deliberately not here: regions and lowering
//! themselves, which are `fusion`.

#[path = "support/exported.rs"]
mod exported;

use std::path::{Path, PathBuf};
use std::process::Command;

use exported::{Tensors, folder};
use rustc_hash::FxHashMap;
use thunderhead::compare::{Tolerance, compare, compare_gradients};
use thunderhead::config::{Overlay, Start, Surroundings};
use thunderhead::run::GradRequest;
use thunderhead::tensor_files::read_tensors;
use thunderhead::{Host, HostOptions, Program, Tensor, Value};

/// Models whose gradients fusers give, but beyond PyTorch's tolerance, and why.
const GRADIENT_EXCEPTIONS: &[(&str, &str)] = &[(
    "bn_train",
    "the gradient of a bias in front of a batch norm is zero but for rounding; it is compared on the scale of a thousandth \
     of the largest gradient, and sums of another order leave 1.3 times what that allows",
)];

fn dist() -> Option<PathBuf> {
    let dist = std::env::var_os("THUNDERHEAD_DIST").map(PathBuf::from)?;
    dist.join("plugins/libthunderhead_full_fusion.so").exists().then_some(dist)
}

/// A host with the preset's executors and the plugins of a folder.
fn host(preset: &str, plugins: &Path, dist: &Path) -> Host {
    let mut around = Surroundings::of_process();
    around.variables.remove("THUNDERHEAD_PLUGINS");
    around.exe_dir = Some(dist.join("bin"));
    let text = format!("config = 1\nbase = \"{preset}\"\n[plugins]\npaths = [{plugins:?}]\n");
    let options = HostOptions { start: Start::Text(text), overlay: Overlay::default(), around };
    Host::open(&options).unwrap_or_else(|error| panic!("{preset}: {error}"))
}

fn models() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(folder(""))
        .expect("tests/models is there")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("meta.json").exists())
        .collect();
    folders.sort();
    assert!(folders.len() >= 19, "only {} models", folders.len());
    folders
}

fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn file(folder: &Path, name: &str) -> Option<Tensors> {
    let path = folder.join(format!("{name}.safetensors"));
    path.exists().then(|| read_tensors(&path).unwrap_or_else(|error| panic!("{error}")))
}

fn meta(folder: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.join("meta.json")).expect("a fixture");
    serde_json::from_str(&text).expect("JSON")
}

fn arranged(program: &Program, given: Tensors) -> Result<Vec<Value>, String> {
    let given = given.into_iter().map(|(name, tensor)| (name, Value::Tensor(tensor))).collect();
    program.arrange(given, &mut |_, _| None).map_err(|error| error.to_string())
}

/// Both calls of one session.
fn results(host: &Host, folder: &Path, dialect: &str) -> Result<(), String> {
    let meta = meta(folder);
    let tolerance = Tolerance { rtol: meta["rtol"].as_f64(), atol: meta["atol"].as_f64() };
    let program = Program::open(folder.join(format!("{dialect}.pt2"))).map_err(|error| error.to_string())?;
    let session = host.compile(&program).map_err(|error| error.to_string())?;
    for call in ["", "2"] {
        let (Some(given), Some(expected)) =
            (file(folder, &format!("inputs{call}")), file(folder, &format!("expected{call}")))
        else {
            continue;
        };
        let outputs = session.run(&arranged(&program, given)?).map_err(|error| error.to_string())?;
        for (name, expected) in expected {
            let at: usize = name.trim_start_matches("out").parse().expect("out0, out1, …");
            let got = outputs.get(at).and_then(Value::tensor).ok_or_else(|| format!("no {name}"))?;
            let verdict = compare(got, &expected, tolerance).map_err(|error| error.to_string())?;
            if !verdict.is_same() {
                return Err(format!("{dialect}{call} {name}: {}", verdict.sentence()));
            }
        }
    }
    Ok(())
}

fn gradients(host: &Host, folder: &Path) -> Result<(), String> {
    let (Some(expected), Some(given), Some(cotangents)) =
        (file(folder, "grads"), file(folder, "inputs"), file(folder, "cotangents"))
    else {
        return Ok(());
    };
    let meta = meta(folder);
    let rtol = meta["grads"]["grad_rtol"].as_f64().or_else(|| meta["grad_rtol"].as_f64()).unwrap_or(1e-3);
    let program = Program::open(folder.join("model.pt2")).map_err(|error| error.to_string())?;
    let session = host.compile(&program).map_err(|error| error.to_string())?;
    let request = GradRequest { wrt: None, remat: true };
    let (_, _, tape) =
        session.forward(&arranged(&program, given)?, &request).map_err(|error| error.to_string())?;
    let cotangents: FxHashMap<usize, Tensor> = cotangents
        .into_iter()
        .filter_map(|(name, tensor)| Some((name.strip_prefix("out")?.parse().ok()?, tensor)))
        .filter(|(index, _)| tape.cotangents().contains(index))
        .collect();
    let got = tape.backward(&cotangents).map_err(|error| error.to_string())?;
    let got: Tensors = got.into_iter().map(|(name, tensor)| (name.to_string(), tensor)).collect();
    if let Some(missing) = expected.keys().find(|name| !got.contains_key(*name)) {
        return Err(format!("no gradient of {missing}"));
    }
    for (name, verdict) in compare_gradients(&got, &expected, rtol).map_err(|error| error.to_string())? {
        if !verdict.is_same() {
            return Err(format!("gradient of {name}: {}", verdict.sentence()));
        }
    }
    Ok(())
}

#[track_caller]
fn all(host: &Host) {
    let mut wrong = Vec::new();
    for folder in models() {
        let name = name(&folder);
        for dialect in ["model", "core"] {
            if let Err(why) = results(host, &folder, dialect) {
                wrong.push(format!("{name}: {why}"));
            }
        }
        let compared = GRADIENT_EXCEPTIONS.iter().all(|(model, _)| *model != name);
        if compared && let Err(why) = gradients(host, &folder) {
            wrong.push(format!("{name}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn full_fusion_with_libtorchs_plugins_gives_pytorchs_results() {
    let Some(dist) = dist() else { return };
    all(&host("full_fusion", &dist.join("plugins"), &dist));
}

#[test]
fn full_fusion_without_libtorch_gives_pytorchs_results() {
    let Some(dist) = dist() else { return };
    let alone = tempfile::tempdir().expect("a folder");
    let library = "libthunderhead_full_fusion.so";
    std::fs::copy(dist.join("plugins").join(library), alone.path().join(library)).expect("copied");
    all(&host("full_fusion", alone.path(), &dist));
}

#[test]
fn concat_inductor_gives_pytorchs_results() {
    let Some(dist) = dist() else { return };
    all(&host("concat_inductor", &dist.join("plugins"), &dist));
}

/// What the command of the tree prints.
#[track_caller]
fn printed(dist: &Path, args: &[&str]) -> String {
    let output = Command::new(dist.join("bin/thunderhead"))
        .args(args)
        .env_remove("THUNDERHEAD_PLUGINS")
        .env_remove("THUNDERHEAD_CONFIG")
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn llama() -> (String, String) {
    let folder = folder("lit_llama2");
    (folder.join("model.pt2").display().to_string(), folder.join("inputs.safetensors").display().to_string())
}

/// The playground: forward and backward of a Llama, one fused symbol each.
#[test]
fn a_llama_is_one_region_forward_and_one_backward() {
    let Some(dist) = dist() else { return };
    let (model, inputs) = llama();
    let text = printed(
        &dist,
        &[
            "trace",
            &model,
            "--inputs",
            &inputs,
            "--config",
            "torch_compile",
            "--grad",
            "--stage",
            "execution",
            "--depth",
            "1",
        ],
    );
    let lines = |word: &str| text.lines().filter(|line| line.contains(word)).count();
    assert_eq!(lines("= TorchCompile0("), 1, "{text}");
    assert_eq!(lines("= TorchCompile1("), 1, "{text}");
    assert_eq!(lines("= TorchCompile"), 2, "{text}");
    assert_eq!(lines("    save "), 1, "{text}");
    let forward = text.split("\ntrace backward(").next().expect("a forward");
    let own = forward.lines().filter(|line| line.contains(" = ") && !line.contains("@host"));
    assert_eq!(own.count(), 1, "all but views is in the region:\n{forward}");
}

#[test]
fn a_printed_execution_trace_runs_again_with_the_same_regions_and_bits() {
    let Some(dist) = dist() else { return };
    let (model, inputs) = llama();
    let scratch = tempfile::tempdir().expect("a folder");
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let config = ["--config", "torch_compile"];
    let with = |args: &[&str]| printed(&dist, &[args, &config].concat());
    let text = with(&["trace", &model, "--inputs", &inputs, "--stage", "execution"]);
    std::fs::write(path("a.trace"), &text).expect("written");
    with(&["run", &model, "--inputs", &inputs, "--output", &path("a.safetensors")]);
    let trace = path("a.trace");
    with(&["run", &trace, "--weights", &model, "--inputs", &inputs, "--output", &path("b.safetensors")]);
    let bytes = |name: &str| std::fs::read(path(name)).expect("written");
    assert!(bytes("a.safetensors") == bytes("b.safetensors"), "the bits differ");
    let again = with(&["trace", &trace, "--weights", &model, "--inputs", &inputs, "--stage", "execution"]);
    let regions = |text: &str| {
        let lines = text.lines().filter(|line| line.contains("TorchCompile"));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(regions(&text), regions(&again));
}
