//! Programs at the corners of what a model file can say, against eager: writes in place through views, under `no_grad` and
//! through `detach`, memory under several names, state from call to call, numbers as inputs and outputs, sizes that data
//! decides, asserts; and inputs that break what the file assumes, refused before anything runs.
//!
//! With `reference`, and with `pytorch` where `THUNDERHEAD_DIST` names a tree that has the plugin.

#[path = "support/exported.rs"]
mod exported;

use exported::{Tensors, cotangents, dist, fixture, folder, host, inputs, n_calls, programs, stem, tensors};
use std::path::Path;
use thunderhead::run::GradRequest;
use thunderhead::{Error, Host, Program, Session, Tensor, Value};

#[test]
fn reference_gives_what_eager_gives() {
    check_all(&host("reference", None, 1));
}

#[test]
fn pytorch_gives_what_eager_gives() {
    if let Some(dist) = dist() {
        check_all(&host("pytorch", Some(&dist), 1));
    }
}

fn check_all(host: &Host) {
    let mut wrong = Vec::new();
    let files = programs(&folder("corners"));
    assert!(files.len() >= 15, "only {} programs", files.len());
    for file in files {
        // Values alone, then with gradients: each on a session of its own, since state goes from call to call.
        for gradients in [None, Some(true), Some(false)] {
            if let Err(why) = check(host, &file, gradients) {
                wrong.push(format!("{} (gradients, remat {gradients:?}): {why}", stem(&file)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check(host: &Host, file: &Path, gradients: Option<bool>) -> Result<(), String> {
    let program = Program::open(file).map_err(|error| error.to_string())?;
    let session = host.compile(&program).map_err(|error| error.to_string())?;
    let fixture = fixture(file);
    for call in 0..n_calls(&fixture) {
        let at = |what: String| format!("call {call}: {what}");
        let given = inputs(&program, &fixture, call).map_err(at)?;
        let (outputs, written) = match gradients {
            None => session.run_written(&given).map_err(|error| at(error.to_string()))?,
            Some(remat) => with_gradients(&session, &given, &fixture, call, remat).map_err(at)?,
        };
        exported::same_outputs(&outputs, &tensors(&fixture, call, "outputs")).map_err(at)?;
        let expected = tensors(&fixture, call, "written");
        for (name, tensor) in &written {
            let want = expected.get(&**name).ok_or_else(|| at(format!("{name} was written")))?;
            exported::same(name, tensor, want).map_err(at)?;
        }
        assert_eq!(written.len(), expected.len(), "{}: other inputs are written", stem(file));
        let state = session.state().map_err(|error| at(error.to_string()))?;
        for (name, want) in tensors(&fixture, call, "state") {
            // What the program does not write is no state.
            if let Some(have) = state.get(&name) {
                exported::same(&name, have, &want).map_err(at)?;
            }
        }
    }
    Ok(())
}

type Written = std::collections::BTreeMap<thunderhead::ir::Name, Tensor>;

fn with_gradients(
    session: &Session,
    given: &[Value],
    fixture: &Tensors,
    call: usize,
    remat: bool,
) -> Result<(Vec<Value>, Written), String> {
    let request = GradRequest { wrt: None, remat };
    let (outputs, written, tape) = session.forward(given, &request).map_err(|error| error.to_string())?;
    let cotangents = cotangents(fixture, call);
    if !cotangents.is_empty() {
        let got = tape.backward(&cotangents).map_err(|error| error.to_string())?;
        exported::same_gradients(&got, &tensors(fixture, call, "grads"))?;
    }
    Ok((outputs, written))
}

/// A session of that program, and the program.
fn session(name: &str) -> (Session, Program) {
    let program = Program::open(folder("corners").join(format!("{name}.pt2"))).expect("a program");
    let session = host("reference", None, 1).compile(&program).expect("it compiles");
    (session, program)
}

fn floats(values: &[f32], dims: &[i64]) -> Value {
    Value::Tensor(Tensor::from_slice(values, dims).expect("as many as the dims say"))
}

fn ints(values: &[i64], dims: &[i64]) -> Value {
    Value::Tensor(Tensor::from_slice(values, dims).expect("as many as the dims say"))
}

/// Errors of exit code 10.
fn is_of_inputs(error: &Error) -> bool {
    matches!(error, Error::Input(_) | Error::Named(_))
}

#[test]
fn sizes_that_guards_exclude_are_refused_before_anything_runs() {
    let (session, _) = self::session("slice_end");
    let row = floats(&[1.0; 12], &[2, 6]);
    let error = session.run(&[row.clone(), Value::Int(7)]).expect_err("a slice end beyond the row");
    assert!(is_of_inputs(&error), "{error:?}");
    session.run(&[row, Value::Int(6)]).expect("the whole row");

    let (session, _) = self::session("cache_write");
    let before = session.state().expect("state")["k"].to_vec::<f32>().expect("f32");
    let two = floats(&[1.0; 4], &[1, 2, 2]);
    for pos in [7, 8, 100] {
        let error = session.run(&[two.clone(), Value::Int(pos)]).expect_err("a write past the end");
        assert!(is_of_inputs(&error), "{pos}: {error:?}");
    }
    assert_eq!(session.state().expect("state")["k"].to_vec::<f32>().expect("f32"), before);
    session.run(&[two, Value::Int(6)]).expect("the last two places");

    let (session, _) = self::session("batch");
    let error = session.run(&[floats(&[0.0; 65 * 3], &[65, 3])]).expect_err("more than the file allows");
    assert!(is_of_inputs(&error), "{error:?}");
}

#[test]
fn an_empty_batch_is_a_batch() {
    let (session, _) = self::session("batch");
    let outputs = session.run(&[floats(&[], &[0, 3])]).expect("it runs");
    let dims: Vec<&[i64]> = outputs.iter().filter_map(|o| o.tensor().map(Tensor::dims)).collect();
    assert_eq!(dims, [&[0, 4][..], &[4], &[0, 5]]);
    // The mean of nothing.
    let mean = outputs[1].tensor().expect("a tensor").to_vec::<f32>().expect("f32");
    assert!(mean.iter().all(|x| x.is_nan()), "{mean:?}");
}

#[test]
fn asserts_stop_the_run_with_their_message() {
    let (session, _) = self::session("asserts");
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    let broken = [
        (ints(&[2, -5], &[2]), "k must have a positive sum"),
        (ints(&[1, 3], &[2]), ">= 2"),
        (ints(&[100, 0], &[2]), "< 100"),
    ];
    for (k, message) in broken {
        let error = session.run(&[x.clone(), k]).expect_err("an assert of the model");
        let code = miette::Diagnostic::code(&error).map(|code| code.to_string());
        assert_eq!(code.as_deref(), Some("run::check"), "{error}");
        let said = error.to_string();
        let near = message == ">= 2" && said.contains("at least two");
        assert!(said.contains(message) || near || said.contains("99"), "{said} does not say {message}");
    }
    session.run(&[x, ints(&[5, 0], &[2])]).expect("all asserts hold");
}

/// A checked size is checked before what depends on it runs.
#[test]
fn sizes_from_data_are_checked() {
    let (session, _) = self::session("data_sized");
    let x = floats(&[1.0, -2.0, 3.0], &[3]);
    session.run(&[x.clone(), ints(&[3], &[])]).expect("three of three");
    for n in [0, 4] {
        session.run(&[x.clone(), ints(&[n], &[])]).expect_err("outside of what the model allows");
    }
}
