//! The presets that fuse, on real models: PyTorch's results and gradients, with libtorch's plugins and without any; one
//! region forward and one backward of a Llama; a printed execution trace runs again and gives the same bits.
//!
//! Needs the tree that `THUNDERHEAD_DIST` names (`cargo xtask test` sets it). Deliberately not here: regions and lowering
//! themselves, which are `fusion`.

#[path = "support/exported.rs"]
mod exported;
#[path = "support/models.rs"]
mod models;
#[path = "conformance/sample.rs"]
mod sample;

use std::path::{Path, PathBuf};
use std::process::Command;

use exported::folder;
use sample::{case, is_generic};
use thunderhead::config::{Overlay, Start, Surroundings};
use thunderhead::ir::Dtype;
use thunderhead::ops::{self, Traits};
use thunderhead::plan::{PlanFile, PlannedOp};
use thunderhead::run::GradRequest;
use thunderhead::{Host, HostOptions, Program, Tensor, Value};

/// A model, a gradient of it that is zero but for rounding (a bias in front of a batch norm: a sum of 196 terms that cancel),
/// and how many times the tolerance sums of another order than PyTorch's may take: it is a thousandth of the model's largest
/// gradient that scales it, 8 units of rounding of which are allowed. Measured: 1.3.
const CANCELLING: (&str, &str, f64) = ("bn_train", "3.bias", 2.0);

fn dist() -> Option<PathBuf> {
    let dist = std::env::var_os("THUNDERHEAD_DIST").map(PathBuf::from)?;
    dist.join("plugins/libthunderhead_full_fusion.so").exists().then_some(dist)
}

/// A host with the preset's executors and the plugins of a folder.
fn host(preset: &str, plugins: &Path, dist: &Path) -> Host {
    open(&format!("config = 1\nbase = \"{preset}\"\n[plugins]\npaths = [{plugins:?}]\n"), dist)
}

/// A host with executors of the tree in this order; `more` is what else the config says.
fn ordered(order: &[&str], more: &str, dist: &Path) -> Host {
    let plugins = dist.join("plugins");
    open(&format!("config = 1\nexecutors = {order:?}\n[plugins]\npaths = [{plugins:?}]\n{more}"), dist)
}

fn open(text: &str, dist: &Path) -> Host {
    let mut around = Surroundings::of_process();
    around.variables.remove("THUNDERHEAD_PLUGINS");
    around.exe_dir = Some(dist.join("bin"));
    let options = HostOptions { start: Start::Text(text.to_owned()), overlay: Overlay::default(), around };
    Host::open(&options).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

#[track_caller]
fn all(host: &Host) {
    let mut wrong = Vec::new();
    let folders = models::folders("meta.json");
    assert!(folders.len() >= 19, "only {} models", folders.len());
    for folder in folders {
        let name = models::name(&folder);
        for dialect in ["model", "core"] {
            if let Err(why) = models::results(host, &folder, dialect) {
                wrong.push(format!("{name}: {why}"));
            }
        }
        let slack = |gradient: &str| match CANCELLING {
            (model, known, times) if (model, known) == (&name, gradient) => times,
            _ => 1.0,
        };
        let compared = folder.join("grads.safetensors").exists();
        if compared && let Err(why) = models::gradients(host, &folder, true, &slack) {
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

/// The execution trace of the Llama with the preset `torch_compile`, with these words more.
fn traced(dist: &Path, more: &[&str]) -> String {
    let (model, inputs) = llama();
    let words = ["trace", &model, "--inputs", &inputs, "--config", "torch_compile", "--stage", "execution"];
    printed(dist, &[&words[..], more].concat())
}

/// The playground: forward and backward of a Llama, one fused symbol each.
#[test]
fn a_llama_is_one_region_forward_and_one_backward() {
    let Some(dist) = dist() else { return };
    let text = traced(&dist, &["--grad", "--depth", "1"]);
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

/// The Llama's plans on these executors: forward, forward of a training step, backward.
fn llama_plans(host: &Host) -> [PlanFile; 3] {
    let folder = folder("lit_llama2");
    let program = Program::open(folder.join("model.pt2")).expect("opens");
    let session = host.compile(&program).expect("compiles");
    let given = thunderhead::tensor_files::read_tensors(&folder.join("inputs.safetensors")).expect("reads");
    let given = given.into_iter().map(|(name, tensor)| (name, Value::Tensor(tensor))).collect();
    let inputs = program.arrange(given, &mut |_, _| None).expect("fits");
    let (forward, backward) = session.plan_grad(&inputs, &GradRequest::default()).expect("plans");
    [session.plan(&inputs).expect("plans"), forward, backward]
}

/// Ops of the program that nobody took apart, and what is claimed of those that were.
fn attention(plan: &PlanFile) -> &PlannedOp {
    let is_attention = |op: &&PlannedOp| op.op.starts_with("torch.scaled_dot_product_attention");
    plan.ops.iter().find(is_attention).expect("an attention")
}

#[test]
fn attention_is_whole_before_a_fuser_and_behind_it_forward_and_backward() {
    let Some(dist) = dist() else { return };
    if !dist.join("plugins/libthunderhead_sdpa.so").exists() {
        return;
    }
    for plan in llama_plans(&ordered(&["sdpa", "full_fusion"], "", &dist)) {
        let op = attention(&plan);
        assert_eq!((op.executor.as_deref(), op.region.as_deref()), (Some("sdpa"), None), "{}", op.op);
    }
    for plan in llama_plans(&ordered(&["full_fusion", "sdpa"], "", &dist)) {
        let op = attention(&plan);
        assert_eq!(op.executor.as_deref(), Some("full_fusion"), "{}", op.op);
        assert_eq!(op.run_by.as_deref(), Some("sdpa"), "{}", op.op);
        assert!(op.region.is_some(), "{}", op.op);
    }
}

/// What repeats and what does nothing is gone before anybody builds a region.
#[test]
fn a_llamas_region_holds_nothing_twice() {
    let Some(dist) = dist() else { return };
    let text = traced(&dist, &["--depth", "2"]);
    let lines = |what: &[&str]| {
        text.lines()
            .filter(|line| line.trim().starts_with('%') && what.iter().all(|w| line.contains(w)))
            .count()
    };
    for buffer in ["(%cos", "(%sin"] {
        assert!(lines(&["= torch.slice", buffer]) <= 1, "{text}");
    }
    let ops: Vec<&str> =
        text.lines().filter_map(|line| line.split_once(" = ").map(|(_, call)| call)).collect();
    let unique: std::collections::BTreeSet<&&str> = ops.iter().collect();
    assert_eq!(unique.len(), ops.len(), "a call stands twice:\n{text}");
    let zero_width = text.lines().any(|line| line.contains("torch.slice") && line.contains(", 0]"));
    assert!(!zero_width, "{text}");
    let single = text
        .lines()
        .filter_map(|line| line.split_once("torch.cat(["))
        .any(|(_, rest)| rest.split_once(']').is_some_and(|(operands, _)| !operands.contains(',')));
    assert!(!single, "{text}");
}

fn f32s(dims: &[i64]) -> Value {
    let n = dims.iter().product::<i64>();
    let data: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) / 32.0).collect();
    Value::Tensor(Tensor::from_slice(&data, dims).expect("as many"))
}

fn program(text: &str) -> Program {
    Program::from_trace_text("case", &format!("thunderhead trace 1.0\n\n{text}")).expect("a trace")
}

#[test]
fn views_alone_are_no_region() {
    let Some(dist) = dist() else { return };
    let text = "trace forward(
    %x: f32[4, 6] input \"in0\",
) stage acquired {
    %t: f32[6, 4] = torch.transpose(%x, axis0=0, axis1=1)
    %s: f32[3, 4] = torch.slice(%t, axis=0, start=1, end=4, step=1)
    %u: f32[3, 1, 4] = torch.unsqueeze(%s, axis=1)
    return %u as \"out0\", %t as \"out1\"
}
";
    for preset in ["full_fusion", "concat_inductor"] {
        let session = host(preset, &dist.join("plugins"), &dist).compile(&program(text)).expect("compiles");
        let plan = session.plan(&[f32s(&[4, 6])]).expect("plans");
        assert!(plan.regions.is_empty(), "{preset}");
    }
}

#[test]
fn two_fusers_of_one_label_name_their_regions_apart() {
    let Some(dist) = dist() else { return };
    let labels = "[executor.concat_inductor]\nlabel = \"Same\"\n[executor.full_fusion]\nlabel = \"Same\"\n";
    let host = ordered(&["concat_inductor", "full_fusion"], labels, &dist);
    for name in ["lit_llama2", "hf_gpt2"] {
        for dialect in ["model", "core"] {
            models::results(&host, &folder(name), dialect).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
        models::gradients(&host, &folder(name), true, &|_| 1.0).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    let plans = llama_plans(&host);
    let by: std::collections::BTreeSet<&str> =
        plans[0].regions.iter().map(|region| region.executor.as_str()).collect();
    assert_eq!(by.len(), 2, "both build regions");
    for plan in &plans {
        let names: std::collections::BTreeSet<&str> = plan.regions.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names.len(), plan.regions.len());
        assert!(names.iter().all(|name| name.starts_with("Same")));
    }
}

/// The rotary embedding, as it stands in every Llama: halves turned, times cosine and sine. One kernel, so one pass.
#[test]
fn a_rotary_embedding_is_one_kernel() {
    let Some(dist) = dist() else { return };
    let text = "trace forward(
    %x: f32[2, 4, 16, 8] input \"in0\",
    %cos: f32[16, 8] input \"in1\",
    %sin: f32[16, 8] input \"in2\",
) stage acquired {
    %a: f32[2, 4, 16, 4] = torch.slice(%x, axis=3, start=0, end=4, step=1)
    %b: f32[2, 4, 16, 4] = torch.slice(%x, axis=3, start=4, end=8, step=1)
    %n: f32[2, 4, 16, 4] = torch.neg(%b)
    %r: f32[2, 4, 16, 8] = torch.cat([%n, %a], axis=-1)
    %c: f32[2, 4, 16, 8] = torch.mul(%x, %cos)
    %s: f32[2, 4, 16, 8] = torch.mul(%r, %sin)
    %y: f32[2, 4, 16, 8] = torch.add(%c, %s)
    return %y as \"out0\"
}
";
    let inputs = [f32s(&[2, 4, 16, 8]), f32s(&[16, 8]), f32s(&[16, 8])];
    for preset in ["concat_inductor", "full_fusion"] {
        let session = host(preset, &dist.join("plugins"), &dist).compile(&program(text)).expect("compiles");
        let plan = session.plan(&inputs).expect("plans");
        // Beside it, the host's copies of small inputs and outputs.
        let kernels = plan.steps.iter().filter(|step| step.kind == "kernel");
        assert_eq!(kernels.count(), 1, "{preset}: {:?}", plan.steps);
        assert_eq!(plan.regions.len(), 1, "{preset}");
        let expected = Host::reference().expect("built in").compile(&program(text)).expect("compiles");
        let numbers =
            |values: Vec<Value>| values[0].tensor().expect("a tensor").to_vec::<f32>().expect("f32");
        let (found, expected) = (session.run(&inputs).expect("runs"), expected.run(&inputs).expect("runs"));
        let far = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-6;
        assert!(!numbers(found).iter().zip(&numbers(expected)).any(far), "{preset}");
    }
}

/// `full_fusion` claims each op, dtype and form that `pytorch` or `sdpa` claims, but for what no region may hold.
#[test]
fn full_fusion_claims_all_that_libtorchs_plugins_claim() {
    let Some(dist) = dist() else { return };
    if !dist.join("plugins/libthunderhead_pytorch.so").exists() {
        return;
    }
    let last = "last_resort = \"none\"\n";
    let open = |order: &[&str]| {
        let plugins = dist.join("plugins");
        let text = format!("config = 1\nexecutors = {order:?}\n{last}[plugins]\npaths = [{plugins:?}]\n");
        self::open(&text, &dist)
    };
    let (separate, fused) = (open(&["sdpa", "pytorch"]), open(&["full_fusion"]));
    let (mut compared, mut missing) = (0, Vec::new());
    let not_run = [Traits::HOST, Traits::EFFECT, Traits::WRITES];
    let run = ops::table()
        .iter()
        .filter(|op| !not_run.iter().any(|traits| op.is(*traits)) && !op.name.starts_with("num."));
    for op in run {
        for sample in op.samples {
            let dtypes: &[Dtype] = if is_generic(sample.0) {
                &[Dtype::F32, Dtype::Bf16, Dtype::I64, Dtype::C64]
            } else {
                &[Dtype::F32]
            };
            for dtype in dtypes {
                let Ok(case) = case(op, sample.0, *dtype) else { continue };
                let claimed = |host: &Host| {
                    let plan = host.compile(&case.program).ok()?.plan(&case.inputs).ok()?;
                    plan.ops.first()?.executor.clone()
                };
                let Some(by) = claimed(&separate) else { continue };
                let found = claimed(&fused);
                compared += 1;
                let expected = if by == "host" { "host" } else { "full_fusion" };
                // No region holds sizes that only a run knows.
                let sized = case.program.module().traces[0].outputs.iter().any(|output| {
                    let value = output.value.value().expect("a value");
                    let ty = case.program.module().traces[0].ty(value).tensor().cloned();
                    ty.is_some_and(|ty| ty.dims.iter().any(|dim| dim.known().is_none()))
                });
                if !sized && found.as_deref() != Some(expected) {
                    missing.push(format!("{} {} ({}): {by}, but {found:?}", op.name, dtype.name(), sample.0));
                }
            }
        }
    }
    assert!(compared > 2_000, "{compared} claims only");
    assert!(missing.is_empty(), "{} of {compared}:\n{}", missing.len(), missing.join("\n"));
}

/// What `full_fusion` claims through `like` is what the manifests of `pytorch` and `sdpa` say, limits and checks included.
#[test]
fn full_fusion_is_seen_to_claim_what_libtorchs_plugins_do() {
    let Some(dist) = dist() else { return };
    if !dist.join("plugins/libthunderhead_pytorch.so").exists() {
        return;
    }
    let inspected = |name: &str| -> serde_json::Value {
        let file = dist.join(format!("plugins/libthunderhead_{name}.so"));
        let text = printed(&dist, &["plugins", "inspect", &file.to_string_lossy(), "--json"]);
        serde_json::from_str(&text).expect("JSON")
    };
    let fused = inspected("full_fusion");
    let liked = fused["liked"].as_array().expect("a list");
    for name in ["pytorch", "sdpa"] {
        let own = inspected(name);
        assert_eq!(own["liked"], serde_json::json!([]), "{name} is like nobody");
        let mut claims = own["manifest"]["executors"][0]["claims"].clone();
        // A layout is what the other one's kernels want, and no limit.
        for claim in claims.as_array_mut().expect("claims") {
            claim["layout"] = serde_json::json!("any");
        }
        assert!(claims.as_array().is_some_and(|claims| !claims.is_empty()), "{name} claims nothing");
        let taken = liked.iter().find(|liked| liked["like"] == name).expect("is like it");
        assert_eq!(taken["claims"], claims, "{name}");
        assert_eq!(taken["executor"], "full_fusion");
    }
}
