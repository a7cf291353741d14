//! What one step costs between the host and a kernel that does nothing: the C tables, the SDK's checks, the guards.

use criterion::{Criterion, criterion_group, criterion_main};
use std::sync::atomic::AtomicBool;
use thunderhead::claim::{Claimant, OpSpec, SpecArg, TensorSpec};
use thunderhead::ir::{Device, Dim, Dtype, ValueId};
use thunderhead::loader::{self, Request, Wanted};
use thunderhead::memory::Tensor;
use thunderhead::plan::{Io, KernelMaker, Parallel, RunContext};
use thunderhead_sdk::{Call, Create, Error, Executor, Kernel, Op, Refusal};

struct Idle;

impl Executor for Idle {
    fn create(_: &Create<'_>) -> Result<Self, Error> {
        Ok(Idle)
    }
    fn check(&self, op: &Op<'_>) -> Result<(), Refusal> {
        if op.input(0).rank() == 9 { Err(Refusal::new("nine", "no")) } else { Ok(()) }
    }
    fn kernel(&self, _: &Op<'_>) -> Result<Box<dyn Kernel>, Error> {
        Ok(Box::new(Idle))
    }
}

impl Kernel for Idle {
    fn run(&self, _: &mut Call<'_>) -> Result<(), Error> {
        Ok(())
    }
}

thunderhead_sdk::define_plugin! {
    manifest: "manifest = 1\nid = \"idle\"\nversion = \"0.1.0\"\nabi = \"0.2\"\nir = \"1\"\nneeds = []\n\
               [[executor]]\nname = \"idle\"\n[[executor.claim]]\nops = [\"prims.mul\"]\ncheck = true\n",
    executors: { "idle" => Idle },
}

struct OneThread;

impl Parallel for OneThread {
    fn parallel_for(&self, _: usize, n_chunks: usize, f: &(dyn Fn(usize) + Sync)) {
        (0..n_chunks).for_each(f);
    }
}

fn tensor(value: u32, strides: bool) -> TensorSpec {
    TensorSpec {
        value: ValueId(value),
        dtype: Dtype::F32,
        device: Device::Cpu,
        dims: vec![Dim::Known(2), Dim::Known(3), Dim::Known(4)],
        strides: strides.then(|| vec![12, 4, 1]),
        constant: 0,
    }
}

fn border(c: &mut Criterion) {
    let mut found = loader::find(&[]);
    found.add_linked(MANIFEST).expect("a manifest");
    let wanted = vec![Wanted { name: "idle".to_owned(), options: Default::default() }];
    let request =
        Request { wanted, threads: 1, linked: vec![("idle".to_owned(), entry())], ..Request::default() };
    let executor = loader::load(&found, &request).remove(0).result.expect("loads");
    let spec = |strides| OpSpec {
        op: "prims.mul".into(),
        origin: "bench".into(),
        args: vec![("a".into(), SpecArg::Tensor(0)), ("b".into(), SpecArg::Tensor(1))],
        inputs: vec![tensor(0, strides), tensor(1, strides)],
        outputs: vec![tensor(2, strides)],
        slots: Vec::new(),
    };
    let question = spec(false);
    c.bench_function("border_limits", |b| b.iter(|| executor.limits(&question)));
    c.bench_function("border_check", |b| b.iter(|| executor.check(&question)));
    let op = spec(true);
    c.bench_function("border_make_and_free", |b| b.iter(|| executor.make(&op, &|_| None).map(|_| ())));
    let operand = || Tensor::zeros(Dtype::F32, &[2, 3, 4]).expect("a small tensor").operand().clone();
    let io = Io {
        inputs: vec![(Dtype::F32, operand()), (Dtype::F32, operand())],
        outputs: vec![(Dtype::F32, Some(operand()))],
        constants: vec![(0, 0); 2],
        workspace: None,
        n_numbers: 0,
    };
    let mut bound = executor.make(&op, &|_| None).expect("makes").bind(&io).expect("binds");
    let cancel = AtomicBool::new(false);
    let context = RunContext { threads: 1, pool: &OneThread, cancel: &cancel };
    c.bench_function("border_step", |b| b.iter(|| bound.run(&context)));
}

criterion_group!(benches, border);
criterion_main!(benches);
