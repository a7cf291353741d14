//! The rooms from claim to run with a toy executor: no plugin, no `dlopen`.

use super::compile::{Executors, OrderEntry};
use super::session::{Session, SessionOptions};
use super::value::Value;
use crate::claim::{Claimant, LayoutNeed, OpSpec, Refusal, SpecArg, StaticClaim};
use crate::ir::{Dtype, Name};
use crate::memory::{Operand, Tensor};
use crate::plan::{
    Bound, Constant, Fault, FaultKind, Io, Kernel, KernelInfo, KernelMaker, Number, RunContext,
};
use crate::threads::Pool;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Takes the ops it lists, on f32; adds, multiplies, exponentiates.
struct Toy {
    name: &'static str,
    ops: &'static [&'static str],
    layout: LayoutNeed,
    fails: Arc<AtomicU32>,
}

impl Toy {
    fn new(name: &'static str, ops: &'static [&'static str]) -> Toy {
        Toy { name, ops, layout: LayoutNeed::Any, fails: Arc::new(AtomicU32::new(0)) }
    }
}

impl Claimant for Toy {
    fn name(&self) -> &str {
        self.name
    }

    fn limits(&self, op: &OpSpec) -> StaticClaim {
        if self.ops.contains(&&*op.op) {
            StaticClaim::Within { check: false, layout: self.layout }
        } else {
            StaticClaim::Refused(Refusal::new(self.name, "claim::op_unknown", "not in its list"))
        }
    }

    fn check(&self, _: &OpSpec) -> Result<(), Refusal> {
        Ok(())
    }
}

struct ToyKernel {
    op: Name,
    scalar: Option<f64>,
    info: KernelInfo,
    fails: Arc<AtomicU32>,
}

struct ToyBound {
    kernel: Arc<ToyKernel>,
    inputs: Vec<Operand>,
    output: Operand,
}

impl KernelMaker for Toy {
    fn make(&self, op: &OpSpec, _: &dyn Fn(u64) -> Option<Constant>) -> Result<Arc<dyn Kernel>, Fault> {
        let scalar = op.args.iter().find_map(|(_, a)| match a {
            SpecArg::Float(x) => Some(*x),
            SpecArg::Int(n) => Some(*n as f64),
            _ => None,
        });
        let in_place = vec![(0, 0)];
        let info = KernelInfo { in_place, ..KernelInfo::default() };
        Ok(Arc::new(ToyKernel { op: op.op.clone(), scalar, info, fails: self.fails.clone() }))
    }
}

impl Kernel for ToyKernel {
    fn info(&self) -> &KernelInfo {
        &self.info
    }

    fn bind(self: Arc<Self>, io: &Io) -> Result<Box<dyn Bound>, Fault> {
        let inputs = io.inputs.iter().map(|(_, o)| o.clone()).collect();
        let output = io.outputs[0].1.clone().expect("toys know their sizes");
        Ok(Box::new(ToyBound { kernel: self, inputs, output }))
    }
}

fn read(o: &Operand) -> Vec<f32> {
    Tensor::of_operand(Dtype::F32, o.clone()).to_vec().expect("f32")
}

impl Bound for ToyBound {
    fn set_input(&mut self, index: usize, operand: &Operand, _: u64) {
        self.inputs[index] = operand.clone();
    }

    fn set_output(&mut self, _: usize, operand: &Operand) {
        self.output = operand.clone();
    }

    fn set_number(&mut self, _: usize, _: Number) {}

    fn run(&mut self, _: &RunContext<'_>) -> Result<(), Fault> {
        if self.kernel.fails.load(Ordering::Relaxed) > 0
            && self.kernel.fails.fetch_sub(1, Ordering::Relaxed) == 1
        {
            return Err(Fault {
                executor: "toy".into(),
                plugin: "toy 0.1".into(),
                op: self.kernel.op.to_string().into(),
                origin: "".into(),
                kind: FaultKind::Internal,
                message: "as asked".into(),
            });
        }
        let a = read(&self.inputs[0]);
        let b = match self.inputs.get(1) {
            Some(b) => read(b),
            None => vec![self.kernel.scalar.unwrap_or(0.0) as f32; a.len()],
        };
        let out: Vec<f32> = match &*self.kernel.op {
            "prims.add" | "torch.add" => a.iter().zip(&b).map(|(a, b)| a + b).collect(),
            "prims.mul" => a.iter().zip(&b).map(|(a, b)| a * b).collect(),
            _ => a.iter().map(|a| a.exp()).collect(),
        };
        let out = Tensor::from_slice(&out, self.output.dims()).expect("as many as the output has");
        crate::memory::copy_operand(&self.output, out.operand());
        Ok(())
    }

    fn take_allocated(&mut self, _: usize) -> Option<Tensor> {
        None
    }
}

fn order(toys: Vec<Toy>) -> Executors {
    let entry = |t: Toy| OrderEntry::of(Arc::new(t));
    Executors { order: toys.into_iter().map(entry).collect(), ..Executors::default() }
}

fn session(text: &str, toys: Vec<Toy>, weights: &[(&str, Tensor)]) -> Session {
    let module = crate::ir::text::parse(text, crate::ops::schemas()).expect("a valid trace").module;
    let weights: FxHashMap<Name, Tensor> = weights.iter().map(|(n, t)| ((*n).into(), t.clone())).collect();
    let pool = Arc::new(Pool::new(2));
    Session::new(
        Arc::new(module),
        &weights,
        order(toys),
        crate::ops::schemas(),
        pool,
        SessionOptions::default(),
    )
    .expect("weights fit")
}

fn f32s(v: &Value) -> Vec<f32> {
    v.tensor().expect("a tensor").to_vec().expect("f32")
}

const CHAIN: &str = "thunderhead trace 1.0

trace forward(
    %x: f32[2, 2] input \"in0\",
    %w: f32[2, 2] param \"w\",
) stage acquired {
    %a: f32[2, 2] = torch.add(%x, %w)
    %b: f32[2, 2] = prims.mul(%a, %a)
    %c: f32[2, 2] = torch.exp(%b)
    %d: f32[2, 2] = prims.add(%c, 1.0)
    return %d as \"out0\", %b as \"out1\", 7 as \"out2\", %x as \"out3\"
}
";

#[test]
fn composites_are_taken_whole_or_apart_and_memory_is_reused() {
    let w = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2]).expect("four");
    let toys = vec![Toy::new("toy", &["torch.add", "prims.add", "prims.mul", "prims.exp"])];
    let s = session(CHAIN, toys, &[("w", w)]);
    let x = Tensor::from_slice(&[0f32, -2.0, -3.0, -3.5], &[2, 2]).expect("four");
    for _ in 0..3 {
        let out = s.run(&[Value::Tensor(x.clone())]).expect("runs");
        let b = [1f32, 0.0, 0.0, 0.25];
        assert_eq!(f32s(&out[1]), b);
        assert_eq!(f32s(&out[0]), b.map(|b| b.exp() + 1.0));
        assert!(matches!(out[2], Value::Int(7)));
        assert_eq!(f32s(&out[3]), [0.0, -2.0, -3.0, -3.5]);
    }
    assert_eq!(s.n_compiles(), 1);
    let compiled = s.compiled(&[Value::Tensor(x)]).expect("compiled");
    let ops: Vec<&str> = compiled.lowered.trace.ops().map(|b| &*b.op).collect();
    assert_eq!(ops, ["torch.add", "prims.mul", "prims.exp", "prims.add"]);
    // x staged, a, b, c: the last add works in c's place, exp could not (b is an output).
    assert!(compiled.first.arena_bytes <= 4 * 64, "{} bytes", compiled.first.arena_bytes);
}

#[test]
fn results_lie_where_the_last_ones_lay_unless_somebody_still_looks() {
    let w = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2]).expect("four");
    let toys = vec![Toy::new("toy", &["torch.add", "prims.add", "prims.mul", "prims.exp"])];
    let s = session(CHAIN, toys, &[("w", w)]);
    let run = |x: [f32; 4]| {
        let x = Tensor::from_slice(&x, &[2, 2]).expect("four");
        s.run(&[Value::Tensor(x)]).expect("runs")
    };
    let places =
        |out: &[Value]| [0, 1].map(|i: usize| out[i].tensor().expect("a tensor").operand().addr().addr());
    let first = run([0.0; 4]);
    let at = places(&first);
    drop(first);
    let second = run([1.0; 4]);
    assert_eq!(places(&second), at);
    // A view that outlives the run's other results keeps what it looks at, and only that.
    let kept = second[1].clone();
    drop(second);
    let third = run([2.0; 4]);
    let now = places(&third);
    assert!(now[0] == at[0] && now[1] != at[1], "{now:?} after {at:?}");
    assert_eq!(f32s(&kept), [4.0, 9.0, 16.0, 25.0]);
    assert_eq!(f32s(&third[1]), [9.0, 16.0, 25.0, 36.0]);
    // A result that is the next input stays whole while it is read.
    let fed = s.run(&[third[1].clone()]).expect("runs");
    assert_eq!(f32s(&fed[1]), [100.0, 324.0, 784.0, 1600.0]);
    assert_eq!(f32s(&third[1]), [9.0, 16.0, 25.0, 36.0]);
}

#[test]
fn an_op_that_nobody_takes_is_named_with_everybodys_reason() {
    let w = Tensor::from_slice(&[0f32; 4], &[2, 2]).expect("four");
    let s = session(CHAIN, vec![Toy::new("toy", &["torch.add", "prims.mul"])], &[("w", w)]);
    let x = Tensor::from_slice(&[0f32; 4], &[2, 2]).expect("four");
    let text = s.run(&[Value::Tensor(x)]).expect_err("nobody takes exp").to_string();
    assert!(text.contains("prims.exp"), "{text}");
}

const STATE: &str = "thunderhead trace 1.0

trace forward(
    %x: f32[3] input \"in0\",
    %a: f32[3] state \"a\",
    %b: f32[3] state \"b\",
) stage acquired {
    %c: f32[3] = prims.add(%a, %x)
    %a.1: f32[3] = prims.copy_(%b, %a)
    %b.1: f32[3] = prims.copy_(%c, %b)
    return %a.1 as \"out0\", %c as \"out1\"
}
";

#[test]
fn state_is_swapped_at_the_end_and_untouched_by_a_failed_run() {
    let a = Tensor::from_slice(&[1f32, 2.0, 3.0], &[3]).expect("three");
    let b = Tensor::from_slice(&[10f32, 20.0, 30.0], &[3]).expect("three");
    let toy = Toy::new("toy", &["prims.add"]);
    let fails = toy.fails.clone();
    let s = session(STATE, vec![toy], &[("a", a.clone()), ("b", b)]);
    let x = Value::Tensor(Tensor::from_slice(&[1f32; 3], &[3]).expect("three"));
    let out = s.run(std::slice::from_ref(&x)).expect("runs");
    assert_eq!(f32s(&out[0]), [10.0, 20.0, 30.0]);
    let state = s.state().expect("state");
    assert_eq!(state["a"].to_vec::<f32>().expect("f32"), [10.0, 20.0, 30.0]);
    assert_eq!(state["b"].to_vec::<f32>().expect("f32"), [2.0, 3.0, 4.0]);
    assert_eq!(a.to_vec::<f32>().expect("f32"), [1.0, 2.0, 3.0], "the caller's tensor is not written");
    fails.store(1, Ordering::Relaxed);
    assert!(s.run(std::slice::from_ref(&x)).is_err());
    let after = s.state().expect("state");
    assert_eq!(after["b"].to_vec::<f32>().expect("f32"), [2.0, 3.0, 4.0]);
    assert!(s.run(&[x]).is_ok());
}

#[test]
fn inputs_that_do_not_fit_are_refused_before_anything_runs() {
    let w = Tensor::from_slice(&[0f32; 4], &[2, 2]).expect("four");
    let s = session(CHAIN, vec![Toy::new("toy", &[])], &[("w", w)]);
    let wrong = Tensor::from_slice(&[0f32; 6], &[2, 3]).expect("six");
    let text = s.run(&[Value::Tensor(wrong)]).expect_err("3 is not 2").to_string();
    assert_eq!(text, "dim 1 of input `in0` is 3, the program takes 2");
    assert!(
        s.run(&[]).expect_err("none").to_string().contains("0 inputs were given, the program takes 1: in0")
    );
}
