//! Control flow of exported programs: results and gradients against the same modules with plain Python control flow under
//! eager autograd, in both dialects, with `reference` and with `pytorch`; and random ops inside of it.
//!
//! `pytorch` runs where `THUNDERHEAD_DIST` names a tree that has the plugin.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thunderhead::compare::{Tolerance, compare};
use thunderhead::config::{Overlay, Start, Surroundings};
use thunderhead::ir::text::{self, PrintOptions, print};
use thunderhead::run::GradRequest;
use thunderhead::tensor_files::read_tensors;
use thunderhead::{Host, HostOptions, Program, Session, Tensor, Value};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/control");

#[test]
fn reference_gives_eager_results_and_gradients() {
    check_all(&host("reference", None, 1));
}

#[test]
fn pytorch_gives_eager_results_and_gradients() {
    let Some(dist) = dist() else { return };
    check_all(&host("pytorch", Some(&dist), 1));
}

/// The file's name tells the program; what is expected is beside it, under the name before the first dot.
fn check_all(host: &Host) {
    let mut wrong = Vec::new();
    let mut n_checked = 0;
    for file in programs() {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("random") {
            continue;
        }
        n_checked += 1;
        for remat in [true, false] {
            if let Err(why) = check(host, &file, remat) {
                wrong.push(format!("{name} (remat {remat}): {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_checked >= 16, "only {n_checked} programs");
}

fn check(host: &Host, file: &Path, remat: bool) -> Result<(), String> {
    let program = Program::open(file).map_err(|error| error.to_string())?;
    let session = host.compile(&program).map_err(|error| error.to_string())?;
    let fixture = fixture(file);
    let n_calls = (0..).take_while(|n| !tensors(&fixture, *n, "inputs").is_empty()).count();
    for n in 0..n_calls {
        let at = |what: String| format!("call {n}: {what}");
        let inputs = arranged(&program, &fixture, n)?;
        let expected = tensors(&fixture, n, "outputs");
        let outputs = session.run(&inputs).map_err(|error| at(error.to_string()))?;
        same_values("output", &outputs, &expected).map_err(at)?;
        let (outputs, _, tape) = session
            .forward(&inputs, &GradRequest { wrt: None, remat })
            .map_err(|error| at(error.to_string()))?;
        same_values("output of the forward", &outputs, &expected).map_err(at)?;
        let cotangents: FxHashMap<usize, Tensor> = tensors(&fixture, n, "cotangents")
            .into_iter()
            .filter_map(|(name, t)| Some((name.strip_prefix("out")?.parse().ok()?, t)))
            .collect();
        let got = tape.backward(&cotangents).map_err(|error| at(error.to_string()))?;
        let expected = tensors(&fixture, n, "grads");
        for (name, have) in &got {
            let zero = Tensor::zeros(have.dtype(), have.dims()).map_err(|error| error.to_string())?;
            same("gradient", name, have, expected.get(name).unwrap_or(&zero)).map_err(at)?;
        }
        if let Some(missing) = expected.keys().find(|name| !got.contains_key(*name)) {
            return Err(at(format!("no gradient of {missing}")));
        }
    }
    Ok(())
}

/// Traces with nested ones print, and read back as they were.
#[test]
fn nested_traces_print_and_read_back() {
    for file in programs() {
        let Ok(program) = Program::open(&file) else { continue };
        let schemas = thunderhead::ops::schemas();
        let printed = print(program.module(), schemas, &PrintOptions::default());
        let again = text::parse(&printed, schemas)
            .unwrap_or_else(|faults| panic!("{}: {faults:?}\n{printed}", file.display()));
        assert_eq!(print(&again.module, schemas, &PrintOptions::default()), printed);
        let faults = thunderhead::ops::check::faults(&again.module);
        assert!(faults.is_empty(), "{}: {}\n{printed}", file.display(), faults[0]);
    }
}

/// A branch draws from operands: whichever is taken, what is drawn behind it is the same, and the gradient has the mask
/// of the forward.
#[test]
fn branches_and_trips_draw_the_same_numbers_everywhere() {
    let mut seen: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let executors = [("reference", None), ("pytorch", dist())];
    for (executor, dist) in executors {
        if executor == "pytorch" && dist.is_none() {
            continue;
        }
        for threads in [1, 2] {
            let host = host(executor, dist.as_deref(), threads);
            for name in ["random_branches", "random_trips"] {
                let file = Path::new(FOLDER).join(format!("{name}.pt2"));
                let program = Program::open(&file).expect("a program");
                let fixture = fixture(&file);
                for call in 0..2 {
                    if tensors(&fixture, call, "inputs").is_empty() {
                        continue;
                    }
                    let session = host.compile(&program).expect("it compiles");
                    let inputs = arranged(&program, &fixture, call).expect("inputs");
                    let (outputs, gradients) = drawn(&session, &inputs);
                    let bytes: Vec<u8> = outputs
                        .iter()
                        .chain(gradients.values())
                        .flat_map(|t| t.to_bytes().expect("dense"))
                        .collect();
                    let first = seen.entry(format!("{name} {call}")).or_insert_with(|| bytes.clone());
                    assert_eq!(*first, bytes, "{name}, call {call}, {executor}, {threads} threads");
                    masks_agree(name, &inputs, &outputs, &gradients);
                }
            }
        }
    }
    assert!(seen.len() == 3);
}

/// Outputs, and gradients of their sum.
fn drawn(session: &Session, inputs: &[Value]) -> (Vec<Tensor>, BTreeMap<String, Tensor>) {
    let (outputs, _, tape) = session.forward(inputs, &GradRequest::default()).expect("it runs");
    let outputs: Vec<Tensor> = outputs.iter().filter_map(|v| v.tensor().cloned()).collect();
    let ones = |t: &Tensor| {
        let n: i64 = t.dims().iter().product();
        Tensor::from_slice(&vec![1.0f32; n as usize], t.dims()).expect("ones")
    };
    let cotangents = outputs.iter().map(ones).enumerate().collect();
    let gradients = tape.backward(&cotangents).expect("it has a gradient");
    (outputs, gradients)
}

/// Dropout is linear: gradient times input is the output, where the output is nothing but dropouts of the input.
fn masks_agree(name: &str, inputs: &[Value], outputs: &[Tensor], gradients: &BTreeMap<String, Tensor>) {
    let floats = |t: &Tensor| t.to_vec::<f32>().expect("f32");
    let input = |i: usize| floats(inputs[i].tensor().expect("a tensor"));
    let close = |a: f32, b: f32| (a - b).abs() <= 1e-5 * (1.0 + a.abs());
    match name {
        "random_branches" => {
            let (x, g) = (input(0), floats(&gradients["in0"]));
            let sums = floats(&outputs[0]).into_iter().zip(floats(&outputs[1])).map(|(a, b)| a + b);
            for ((x, g), sum) in x.iter().zip(g).zip(sums) {
                assert!(close(x * g, sum), "{x} {g} {sum}");
            }
            assert!(floats(&outputs[0]).contains(&0.0) && floats(&outputs[1]).contains(&0.0));
        }
        _ => {
            // Each trip's output reaches the sum twice, once through what is carried.
            let (xs, g) = (input(1), floats(&gradients["in1"]));
            for ((x, g), y) in xs.iter().zip(g).zip(floats(&outputs[1])) {
                assert!(close(x * g, 2.0 * y), "{x} {g} {y}");
            }
            let ys = floats(&outputs[1]);
            let zeros = |trip: usize| (0..8).map(|i| ys[8 * trip + i] == 0.0).collect::<Vec<_>>();
            assert!((1..5).any(|trip| zeros(trip) != zeros(0)), "each trip draws its own numbers");
        }
    }
}

#[test]
fn a_loop_of_unknown_length_that_draws_is_refused_by_name() {
    let error = Program::open(Path::new(FOLDER).join("random_loop.pt2")).expect_err("it is refused");
    let code = miette::Diagnostic::code(&error).map(|code| code.to_string());
    assert_eq!(code.as_deref(), Some("model::loop_random"), "{error}");
    assert!(error.to_string().contains("while_loop"), "{error}");
}

/// A cancelled loop stops, and the session runs again.
#[test]
fn a_run_after_a_cancelled_one_is_whole() {
    let host = host("reference", None, 1);
    let file = Path::new(FOLDER).join("recurrent.pt2");
    let program = Program::open(&file).expect("a program");
    let session = host.compile(&program).expect("it compiles");
    let inputs = arranged(&program, &fixture(&file), 0).expect("inputs");
    session.cancel();
    session.forward(&inputs, &GradRequest::default()).expect("the cancel was for runs before it");
}

fn host(executor: &str, dist: Option<&Path>, threads: usize) -> Host {
    let mut around = Surroundings::of_process();
    around.variables.remove("THUNDERHEAD_PLUGINS");
    let plugins =
        dist.map(|dist| format!("[plugins]\npaths = [{:?}]\n", dist.join("plugins"))).unwrap_or_default();
    around.exe_dir = dist.map(|dist| dist.join("bin"));
    let text = format!("config = 1\nexecutors = [\"{executor}\"]\n{plugins}[run]\nthreads = {threads}\n");
    let options = HostOptions { start: Start::Text(text), overlay: Overlay::default(), around };
    Host::open(&options).unwrap_or_else(|error| panic!("{executor}: {error}"))
}

fn dist() -> Option<PathBuf> {
    let dist = std::env::var_os("THUNDERHEAD_DIST").map(PathBuf::from)?;
    dist.join("plugins/libthunderhead_pytorch.so").exists().then_some(dist)
}

fn programs() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(FOLDER)
        .expect("the fixtures are there")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "pt2"))
        .collect();
    files.sort();
    files
}

fn fixture(file: &Path) -> BTreeMap<String, Tensor> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = name.split('.').next().unwrap_or_default();
    read_tensors(&file.with_file_name(format!("{stem}.safetensors"))).expect("a fixture")
}

/// The tensors of one call and kind (`inputs`, `outputs`, `cotangents`, `grads`) by name.
fn tensors(fixture: &BTreeMap<String, Tensor>, call: usize, kind: &str) -> BTreeMap<String, Tensor> {
    let prefix = format!("{call}.{kind}.");
    let of_kind = |(name, tensor): (&String, &Tensor)| {
        Some((name.strip_prefix(&prefix)?.to_owned(), tensor.clone()))
    };
    fixture.iter().filter_map(of_kind).collect()
}

fn arranged(program: &Program, fixture: &BTreeMap<String, Tensor>, call: usize) -> Result<Vec<Value>, String> {
    let given = tensors(fixture, call, "inputs").into_iter().map(|(n, t)| (n, Value::Tensor(t))).collect();
    program.arrange(given, &mut |_, _| None).map_err(|error| error.to_string())
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
