//! Control flow of exported programs: results and gradients against the same modules with plain Python control flow under
//! eager autograd, in both dialects, with `reference` and with `pytorch`; and random ops inside of it.
//!
//! `pytorch` runs where `THUNDERHEAD_DIST` names a tree that has the plugin.

#[path = "support/exported.rs"]
mod exported;

use exported::{cotangents, dist, fixture, folder, host, inputs, n_calls, stem, tensors};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thunderhead::ir::text::{self, PrintOptions, print};
use thunderhead::run::GradRequest;
use thunderhead::{Host, Program, Session, Tensor, Value};

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
        let name = stem(&file);
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
    for n in 0..n_calls(&fixture) {
        let at = |what: String| format!("call {n}: {what}");
        let given = inputs(&program, &fixture, n)?;
        let expected = tensors(&fixture, n, "outputs");
        let outputs = session.run(&given).map_err(|error| at(error.to_string()))?;
        exported::same_outputs(&outputs, &expected).map_err(at)?;
        let (outputs, _, tape) = session
            .forward(&given, &GradRequest { wrt: None, remat })
            .map_err(|error| at(error.to_string()))?;
        exported::same_outputs(&outputs, &expected).map_err(|what| at(format!("forward: {what}")))?;
        let got = tape.backward(&cotangents(&fixture, n)).map_err(|error| at(error.to_string()))?;
        exported::same_gradients(&got, &tensors(&fixture, n, "grads")).map_err(at)?;
    }
    Ok(())
}

fn programs() -> Vec<PathBuf> {
    exported::programs(&folder("control"))
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
                let file = folder("control").join(format!("{name}.pt2"));
                let program = Program::open(&file).expect("a program");
                let fixture = fixture(&file);
                for call in 0..2 {
                    if tensors(&fixture, call, "inputs").is_empty() {
                        continue;
                    }
                    let session = host.compile(&program).expect("it compiles");
                    let given = inputs(&program, &fixture, call).expect("inputs");
                    let (outputs, gradients) = drawn(&session, &given);
                    let bytes: Vec<u8> = outputs
                        .iter()
                        .chain(gradients.values())
                        .flat_map(|t| t.to_bytes().expect("dense"))
                        .collect();
                    let first = seen.entry(format!("{name} {call}")).or_insert_with(|| bytes.clone());
                    assert_eq!(*first, bytes, "{name}, call {call}, {executor}, {threads} threads");
                    masks_agree(name, &given, &outputs, &gradients);
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
    let error = Program::open(folder("control").join("random_loop.pt2")).expect_err("it is refused");
    let code = miette::Diagnostic::code(&error).map(|code| code.to_string());
    assert_eq!(code.as_deref(), Some("model::loop_random"), "{error}");
    assert!(error.to_string().contains("while_loop"), "{error}");
}

/// A cancelled loop stops, and the session runs again.
#[test]
fn a_run_after_a_cancelled_one_is_whole() {
    let host = host("reference", None, 1);
    let file = folder("control").join("recurrent.pt2");
    let program = Program::open(&file).expect("a program");
    let session = host.compile(&program).expect("it compiles");
    let given = inputs(&program, &fixture(&file), 0).expect("inputs");
    session.cancel();
    session.forward(&given, &GradRequest::default()).expect("the cancel was for runs before it");
}

/// A scan that carries an integer and a float beside a tensor: exported programs have none, traces may.
const COUNTED: &str = "thunderhead trace 1.0

trace forward(
    %h: f64[] input \"h\",
    %xs: f64[3] input \"xs\",
) stage acquired {
    %last: f64[], %i: int, %f: float = prims.scan(body=&body, init=[%h, 0, 1.0], xs=[%xs], extra=[], reverse=false)
    return %last as \"out0\"
}

trace body(
    %h: f64[] operand,
    %i: int operand,
    %f: float operand,
    %x: f64[] operand,
) stage acquired {
    %a: f64[] = prims.mul(%h, %x)
    %b: f64[] = prims.mul(%a, %f)
    %c: f64[] = prims.add(%b, %i)
    %i1: int = num.add(%i, 1)
    %f1: float = num.mul(%f, 0.5)
    return %c, %i1, %f1
}
";

#[test]
fn numbers_that_a_scan_carries_are_those_of_their_trip_in_the_gradient() {
    let program = Program::from_trace_text("counted.trace", COUNTED).expect("a good trace");
    let session = host("reference", None, 1).compile(&program).expect("it compiles");
    let scalar = |x: f64| Tensor::from_slice(&[x], &[]).expect("a scalar");
    let xs = Tensor::from_slice(&[2.0f64, 3.0, 5.0], &[3]).expect("a row");
    let given = [Value::Tensor(scalar(7.0)), Value::Tensor(xs)];
    let (outputs, _, tape) = session.forward(&given, &GradRequest::default()).expect("it runs");
    // ((7 · 2 · 1 + 0) · 3 · ½ + 1) · 5 · ¼ + 2
    assert_eq!(outputs[0].tensor().expect("a tensor").to_vec::<f64>().expect("f64"), [29.5]);
    let gradients = tape.backward(&[(0, scalar(8.0))].into_iter().collect()).expect("it has a gradient");
    let of = |name: &str| gradients[name].to_vec::<f64>().expect("f64");
    assert_eq!(of("h"), [30.0]);
    assert_eq!(of("xs"), [105.0, 70.0, 44.0]);
}

/// `thunderhead` as a command; what it prints.
fn command(args: &[&str]) -> String {
    let mut thunderhead = std::process::Command::new(env!("CARGO_BIN_EXE_thunderhead"));
    let done =
        thunderhead.args(args).args(["--executors", "reference"]).env_remove("THUNDERHEAD_PLUGINS").output();
    let done = done.expect("the command starts");
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

/// At each stage nested traces are printed with the program, those of gradients too, with who runs their ops; what is
/// printed reads back.
#[test]
fn nested_traces_are_shown_at_every_stage() {
    for name in ["branches", "loop", "recurrent", "counted_down", "mapped_with_number", "random_trips"] {
        let file = folder("control").join(format!("{name}.pt2"));
        let file = file.to_str().expect("a plain path");
        for stage in ["claimed", "execution", "forward"] {
            for grad in [false, true] {
                if stage == "forward" && !grad {
                    continue;
                }
                let args: &[&str] = if grad {
                    &["trace", file, "--stage", stage, "--grad"]
                } else {
                    &["trace", file, "--stage", stage]
                };
                let printed = command(args);
                let read = text::parse(&printed, thunderhead::ops::schemas());
                let read = read.unwrap_or_else(|faults| panic!("{args:?}: {faults}\n{printed}"));
                let faults = thunderhead::ops::check::faults(&read.module);
                assert!(faults.is_empty(), "{args:?}: {}\n{printed}", faults[0]);
                let nested = &read.module.traces[if grad { 2 } else { 1 }..];
                assert!(!nested.is_empty(), "{args:?}");
                for trace in
                    nested.iter().filter(|trace| stage != "forward" && trace.stage.name() != "acquired")
                {
                    assert_eq!(trace.stage.name(), stage, "{args:?}: {}", trace.name);
                }
                if stage != "forward" && matches!(name, "branches" | "recurrent") {
                    assert!(
                        nested.iter().all(|trace| trace.stage.name() == stage),
                        "{args:?}: sizes are known"
                    );
                    assert!(printed.matches("@reference").count() >= 4 * nested.len(), "{args:?}\n{printed}");
                }
            }
        }
        let explained = command(&["explain", file, "--grad"]);
        assert!(explained.contains("\nvjp_"), "{explained}");
    }
}

/// A printed execution trace runs again with its nested traces, and gives the same bits.
#[test]
fn nested_traces_of_an_execution_trace_run_again() {
    let host = host("reference", None, 1);
    for name in ["branches", "loop", "recurrent", "several"] {
        let file = folder("control").join(format!("{name}.pt2"));
        let program = Program::open(&file).expect("a program");
        let given = inputs(&program, &fixture(&file), 0).expect("inputs");
        let printed = command(&["trace", file.to_str().expect("a plain path"), "--stage", "execution"]);
        let again = Program::from_trace_text(name, &printed)
            .and_then(|again| again.with_weights(&file))
            .unwrap_or_else(|error| panic!("{name}: {error}\n{printed}"));
        let bytes = |program: &Program| -> Vec<Vec<u8>> {
            let outputs = host.compile(program).expect("compiles").run(&given).expect("it runs");
            outputs.iter().filter_map(Value::tensor).map(|t| t.to_bytes().expect("dense")).collect()
        };
        assert_eq!(bytes(&again), bytes(&program), "{name}");
    }
}
