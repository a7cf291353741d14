//! Host overhead a step, and compile time (claim to plan) against the size of the graph, with an executor whose
//! kernels do nothing: what is measured is the host alone.
//!
//! `cargo bench -p thunderhead --bench pipeline`. Figures are nanoseconds a step (`run/…`) and a whole compile.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use thunderhead::claim::{Claimant, LayoutNeed, OpSpec, Refusal, StaticClaim};
use thunderhead::ir::{
    Arg, Bsym, Dim, Dtype, Module, Name, Output, Role, RoleKind, Stage, Stmt, TensorType, Trace, TraceParam,
};
use thunderhead::memory::{Operand, Tensor};
use thunderhead::plan::{Bound, Constant, Fault, Io, Kernel, KernelInfo, KernelMaker, Number, RunContext};
use thunderhead::run::{Executors, OrderEntry, Session, SessionOptions, Value};
use thunderhead::threads::Pool;

struct Nothing;

impl Claimant for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn limits(&self, _: &OpSpec) -> StaticClaim {
        StaticClaim::Within { check: false, layout: LayoutNeed::Any }
    }

    fn check(&self, _: &OpSpec) -> Result<(), Refusal> {
        Ok(())
    }
}

impl KernelMaker for Nothing {
    fn make(&self, _: &OpSpec, _: &dyn Fn(u64) -> Option<Constant>) -> Result<Arc<dyn Kernel>, Fault> {
        Ok(Arc::new(NoKernel(KernelInfo { in_place: vec![(0, 0)], ..KernelInfo::default() })))
    }
}

struct NoKernel(KernelInfo);

impl Kernel for NoKernel {
    fn info(&self) -> &KernelInfo {
        &self.0
    }

    fn bind(self: Arc<Self>, _: &Io) -> Result<Box<dyn Bound>, Fault> {
        Ok(Box::new(NoKernel(KernelInfo::default())))
    }
}

impl Bound for NoKernel {
    fn set_input(&mut self, _: usize, _: &Operand, _: u64) {}
    fn set_output(&mut self, _: usize, _: &Operand) {}
    fn set_number(&mut self, _: usize, _: Number) {}
    fn run(&mut self, _: &RunContext<'_>) -> Result<(), Fault> {
        Ok(())
    }
    fn take_allocated(&mut self, _: usize) -> Option<Tensor> {
        None
    }
}

/// `n` additions, each of the value before and the one ten before.
fn chain(n: usize) -> Module {
    let mut t = Trace::new("forward", Stage::Acquired);
    let ty = || TensorType::new(vec![Dim::Known(4), Dim::Known(8)], Dtype::F32).into();
    let x = t.add_value("x", ty());
    let role = Role { kind: RoleKind::Input, name: Some("in0".into()), frozen: false };
    t.params.push(TraceParam { value: x, role });
    let mut values = vec![x];
    for i in 0..n {
        let v = t.add_value(format!("v{i}"), ty());
        let (a, b) = (values[values.len() - 1], values[values.len().saturating_sub(10)]);
        t.body.push(Stmt::Op(Bsym::new("prims.add", vec![Arg::Value(a), Arg::Value(b)], vec![Some(v)])));
        values.push(v);
    }
    t.outputs.push(Output { value: Arg::Value(values[n]), name: Some("out0".into()) });
    Module { dims: Vec::new(), traces: vec![t] }
}

fn session(n: usize) -> Session {
    let executors = Executors { order: vec![OrderEntry::of(Arc::new(Nothing))], ..Executors::default() };
    let weights: FxHashMap<Name, Tensor> = FxHashMap::default();
    let pool = Arc::new(Pool::new(1));
    let schemas = thunderhead::ops::schemas();
    Session::new(Arc::new(chain(n)), &weights, executors, schemas, pool, SessionOptions::default())
        .expect("a program without weights")
}

fn input() -> [Value; 1] {
    [Value::Tensor(Tensor::zeros(Dtype::F32, &[4, 8]).expect("small"))]
}

fn run(c: &mut Criterion) {
    let mut group = c.benchmark_group("run");
    for n in [1, 100, 1_000] {
        let (s, input) = (session(n), input());
        s.run(&input).expect("runs");
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::from_parameter(n), |b| b.iter(|| s.run(&input).expect("runs")));
    }
    group.finish();
}

fn compile(c: &mut Criterion) {
    let mut group = c.benchmark_group("compile");
    group.sample_size(10);
    for n in [1_000, 2_000, 10_000, 100_000] {
        group.throughput(Throughput::Elements(n as u64));
        let input = input();
        group.bench_function(BenchmarkId::from_parameter(n), |b| {
            b.iter_batched(
                || session(n),
                |s| s.compiled(&input).expect("compiles"),
                criterion::BatchSize::PerIteration,
            )
        });
    }
    group.finish();
}

criterion_group!(benches, run, compile);
criterion_main!(benches);
