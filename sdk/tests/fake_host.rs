//! A small plugin through the fake host: every call of an author's traits crosses the same tables as in the real one.

use thunderhead_sdk::testing::{Host, OpSpec, RunOptions, Tensor, Value};
use thunderhead_sdk::*;

struct Acme {
    scale: i64,
}

struct Scale {
    scale: f32,
    slot: Option<usize>,
}

impl Executor for Acme {
    fn create(ctx: &Create<'_>) -> Result<Self, Error> {
        ctx.log().info(format_args!("{} is made", ctx.name()));
        Ok(Acme { scale: ctx.options().int("scale")? })
    }

    fn available(&self) -> Result<(), Error> {
        if self.scale == 13 { Err(Error::unavailable("13 is unlucky")) } else { Ok(()) }
    }

    fn check(&self, op: &Op<'_>) -> Result<(), Refusal> {
        if op.has("mask") {
            return Err(Refusal::new("mask", "a mask is given")
                .attribute("mask")
                .dim(1, op.input(0).dims()[1]));
        }
        assert!(op.name() != "acme.panic", "asked to");
        op.int("n")?;
        Ok(())
    }

    fn kernel(&self, op: &Op<'_>) -> Result<Box<dyn Kernel>, Error> {
        Ok(match op.name() {
            "acme.scale" => Box::new(Scale { scale: self.scale as f32, slot: op.slot("by") }),
            "acme.nonzero" => Box::new(Nonzero),
            "acme.threads" => Box::new(Threads),
            "acme.overrun" => Box::new(Misbehaves),
            "acme.panic" => Box::new(Misbehaves),
            other => return Err(Error::unsupported(format!("no kernel for `{other}`"))),
        })
    }
}

impl Kernel for Scale {
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
        let by = self.slot.map_or(1.0, |slot| call.number(slot).as_f64() as f32);
        let (inputs, outputs) = call.io();
        outputs.get(0).map(&inputs.get(0), |x: f32| x * self.scale * by)
    }

    fn in_place(&self) -> Vec<(usize, usize)> {
        vec![(0, 0)]
    }
}

struct Nonzero;
impl Kernel for Nonzero {
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
        let x = call.input(0).as_slice::<bool>()?.to_vec();
        let found: Vec<i64> = (0..x.len()).filter(|idx| x[*idx]).map(|idx| idx as i64).collect();
        call.alloc_output(0, &[found.len() as i64, 1])?.as_mut_slice()?.copy_from_slice(&found);
        Ok(())
    }
}

struct Threads;
impl Kernel for Threads {
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
        let parts = call.parts();
        assert_eq!(parts.workspace.len(), 8 * parts.parallel.threads());
        let x = parts.inputs.get(0).as_slice::<i64>()?;
        let mut out = parts.outputs.get(0);
        parts.parallel.for_each_chunk(out.as_mut_slice::<i64>()?, 7, |chunk, out| {
            for (idx, to) in out.iter_mut().enumerate() {
                *to = x[chunk * 7 + idx] + 1;
            }
        })
    }

    fn workspace_bytes(&self, threads: usize) -> usize {
        8 * threads
    }
}

struct Misbehaves;
impl Kernel for Misbehaves {
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
        call.parallel_for(4, |chunk| assert!(chunk != 3, "chunk {chunk} fell"))
    }
}

fn host() -> Host {
    Host::with_options::<Acme>("acme", &[("scale", Value::Int(3))]).expect("acme is made")
}

fn scale_op() -> OpSpec {
    let x = Tensor::new(&[2, 3], vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0]).transposed(0, 1);
    OpSpec::new("acme.scale").tensor("x", x).none("by").output(Dtype::F32, &[3, 2])
}

#[test]
fn runs_over_strides() {
    let out = host().run(&scale_op()).expect("runs");
    assert_eq!(out[0].to_vec::<f32>(), [3.0, 12.0, 6.0, 15.0, 9.0, 18.0]);
}

#[test]
fn numbers_known_at_run_arrive() {
    let op = OpSpec::new("acme.scale")
        .tensor("x", Tensor::new(&[2], vec![1f32, 2.0]))
        .slot("by", Number::Float(0.5))
        .output(Dtype::F32, &[2]);
    assert_eq!(host().run(&op).expect("runs")[0].to_vec::<f32>(), [1.5, 3.0]);
}

#[test]
fn in_place_gives_the_same() {
    let op = OpSpec::new("acme.scale")
        .tensor("x", Tensor::new(&[2], vec![1f32, 2.0]))
        .none("by")
        .output(Dtype::F32, &[2]);
    let options = RunOptions { in_place: true, ..RunOptions::default() };
    assert_eq!(host().run_with(&op, &options).expect("runs")[0].to_vec::<f32>(), [3.0, 6.0]);
}

#[test]
fn a_kernel_decides_a_size() {
    let op = OpSpec::new("acme.nonzero")
        .tensor("x", Tensor::new(&[5], vec![true, false, false, true, true]))
        .output(Dtype::I64, &[-1, 1]);
    let out = host().run(&op).expect("runs");
    assert_eq!(out[0].dims(), [3, 1]);
    assert_eq!(out[0].to_vec::<i64>(), [0, 3, 4]);
}

#[test]
fn chunks_on_threads_give_what_one_thread_gives() {
    let op = OpSpec::new("acme.threads")
        .tensor("x", Tensor::new(&[100], (0..100i64).collect()))
        .output(Dtype::I64, &[100]);
    for threads in [1, 2, 5] {
        let options = RunOptions { threads, ..RunOptions::default() };
        let out = host().run_with(&op, &options).expect("runs");
        assert_eq!(out[0].to_vec::<i64>(), (1..101).collect::<Vec<i64>>());
    }
}

#[test]
fn refusals_arrive_whole() {
    let mask = Tensor::new(&[2], vec![true, false]);
    let op = scale_op().tensor("mask", mask);
    let refusal = host().check(&op).expect("answers").expect_err("refuses");
    assert_eq!(refusal, Refusal::new("mask", "a mask is given").attribute("mask").dim(1, 2));
    let refusal = host().check(&scale_op()).expect("answers").expect_err("refuses");
    assert_eq!(refusal.code, "invalid_argument");
    assert_eq!(host().check(&scale_op().int("n", 1)).expect("answers"), Ok(()));
}

#[test]
fn panics_become_errors() {
    let error = host().check(&OpSpec::new("acme.panic")).expect_err("panics");
    assert_eq!((error.kind(), error.message()), (ErrorKind::Panic, "asked to"));
    let options = RunOptions { threads: 2, ..RunOptions::default() };
    let error = host().run_with(&OpSpec::new("acme.overrun"), &options).expect_err("panics");
    assert_eq!((error.kind(), error.message()), (ErrorKind::Panic, "chunk 3 fell"));
}

#[test]
fn errors_keep_kind_and_message() {
    let error = host().run(&OpSpec::new("acme.unknown")).expect_err("fails");
    assert_eq!(error, Error::unsupported("no kernel for `acme.unknown`"));
    let error = Host::new::<Acme>("acme").map(|_| ()).expect_err("has no options");
    assert!(error.message().contains("`scale`"), "{error}");
    let unlucky = Host::with_options::<Acme>("acme", &[("scale", Value::Int(13))]).expect("is made");
    assert_eq!(unlucky.available(), Err(Error::unavailable("13 is unlucky")));
}

#[test]
fn logs_go_to_the_host() {
    assert_eq!(host().log(), [(3, " is made".to_owned())]);
}

mod whole {
    use super::Acme;

    thunderhead_sdk::define_plugin! {
        manifest: r#"
manifest = 1
id = "acme"
version = "0.1.0"
abi = "0.2"
ir = "1"
needs = ["executor/1", "kernel/1"]
[[executor]]
name = "acme"
[[executor.claim]]
ops = ["acme.scale"]
dtypes = ["f32"]
[[executor.claim]]
ops = ["acme.nonzero"]
check = true
[executor.option.scale]
type = "int"
default = 2
"#,
        executors: { "acme" => Acme },
    }
}

#[test]
fn a_whole_plugin_is_tested_by_its_manifest() {
    let host = Host::from_entry(whole::entry(), "acme", &[]).expect("manifest and code agree");
    let op = scale_op();
    assert_eq!(host.claims(&op).expect("answers"), Ok(()));
    assert_eq!(host.run(&op).expect("runs")[0].to_vec::<f32>(), [2.0, 8.0, 4.0, 10.0, 6.0, 12.0]);
    let refused = |op: OpSpec| host.claims(&op).expect("answers").expect_err("refuses").code.into_owned();
    assert_eq!(refused(OpSpec::new("acme.threads")), "claim::op_unknown");
    let ints = OpSpec::new("acme.scale").tensor("x", Tensor::new(&[1], vec![1i64]));
    assert_eq!(refused(ints), "claim::dtype_unsupported");
    assert_eq!(refused(OpSpec::new("acme.nonzero").tensor("mask", Tensor::new(&[1, 1], vec![true]))), "mask");
    let error = Host::from_entry(whole::entry(), "acme", &[("scales", Value::Int(1))]).map(|_| ());
    assert!(error.expect_err("no such option").message().contains("`scales`"));
}
