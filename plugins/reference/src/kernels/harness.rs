//! For the kernels' tests: one op through the SDK's fake host.

use thunderhead_sdk::testing::{Host, OpSpec, Tensor};

/// A host with this executor.
pub fn host() -> Host {
    Host::new::<crate::Reference>("reference").expect("reference needs nothing")
}

/// An op to be filled in.
pub fn op(name: &str) -> OpSpec {
    OpSpec::new(name)
}

/// All results of an op.
#[track_caller]
pub fn run(spec: OpSpec) -> Vec<Tensor> {
    host().run(&spec).expect("the op runs")
}

/// The first result of an op.
#[track_caller]
pub fn run1(spec: OpSpec) -> Tensor {
    run(spec).swap_remove(0)
}

/// The message of an op that fails.
#[track_caller]
pub fn failure(spec: OpSpec) -> String {
    host().run(&spec).expect_err("the op fails").message().to_owned()
}
