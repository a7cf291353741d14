//! Ops through the tables of the ABI, against oracles that are written out here.

use thunderhead_sdk::testing::{Host, OpSpec, RunOptions, Tensor, Value};
use thunderhead_sdk::{Dtype, Number};

fn host() -> Host {
    host_with(true)
}

fn host_with(deterministic: bool) -> Host {
    let options = [("deterministic", Value::Bool(deterministic))];
    Host::from_entry(thunderhead_pytorch::entry(), "pytorch", &options).expect("the executor is made")
}

fn f32s(dims: &[i64], values: &[f32]) -> Tensor {
    Tensor::new(dims, values.to_vec())
}

/// Runs an op bound and unbound, once and twice; all must agree, to the bit.
fn run(op: &OpSpec) -> Vec<Tensor> {
    let host = host();
    host.check(op).expect("no failure").expect("it is taken");
    let once = host.run(op).expect("it runs");
    for (bind, runs) in [(false, 1), (true, 2)] {
        let options = RunOptions { bind, runs, ..RunOptions::default() };
        let again = host.run_with(op, &options).expect("it runs");
        for (a, b) in once.iter().zip(&again) {
            assert_eq!(a.bytes(), b.bytes(), "bind: {bind}, runs: {runs}");
        }
    }
    once
}

#[track_caller]
fn close(found: &Tensor, expected: &[f32]) {
    let found = found.to_vec::<f32>();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-5 + 1e-5 * expected.abs(), "{found} instead of {expected}");
    }
}

#[test]
fn adds_with_broadcast_numbers_and_scale() {
    let a = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let op = OpSpec::new("torch.add").tensor("a", a.clone()).tensor("b", f32s(&[3], &[10.0, 20.0, 30.0])).int("alpha", 2);
    let out = run(&op.output(Dtype::F32, &[2, 3]));
    close(&out[0], &[21.0, 42.0, 63.0, 24.0, 45.0, 66.0]);
    // A float number does not raise the dtype of an f32 tensor.
    let op = OpSpec::new("torch.add").tensor("a", a.clone()).float("b", 0.5).int("alpha", 1);
    close(&run(&op.output(Dtype::F32, &[2, 3]))[0], &[1.5, 2.5, 3.5, 4.5, 5.5, 6.5]);
    // A number known only at run.
    let op = OpSpec::new("torch.add").tensor("a", a).slot("b", Number::Float(1.0)).int("alpha", 1);
    close(&run(&op.output(Dtype::F32, &[2, 3]))[0], &[2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}
