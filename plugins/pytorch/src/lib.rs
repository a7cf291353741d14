//! Executor plugin `pytorch`: ops of the table at their own level, and every opaque `aten.*` op, through libtorch.
//!
//! An op becomes a tape of dispatcher calls (`recipe`, `kernels`) that is checked when the kernel is made, wraps its
//! tensors once when bound, and writes into the host's memory. No global state of libtorch's is changed: autograd is
//! excluded for the length of a call, and OpenMP's thread count, which belongs to the calling thread, is put back.
//!
//! Deliberately not here: random ops (ATen's generators take no offset), and by default whatever ATen accumulates in no
//! fixed order.

mod aten;
mod kernels;
mod recipe;

use std::sync::Arc;

use thunderhead_sdk::{
    ArgRef, Binding, Bound, Call, Create, Error, Executor, Kernel, Number, Op, Refusal, define_plugin,
};

use aten::{Memory, Tape, WarningLog};
use recipe::{Made, Recipe};

define_plugin! {
    manifest: include_str!("../plugin.toml"),
    executors: { "pytorch" => Torch },
}

thunderhead_sdk::export_plugin! { manifest: MANIFEST, entry: entry }

/// Names of the ops that have a row, for tests of the manifest.
pub fn op_names() -> impl Iterator<Item = &'static str> {
    kernels::rows().map(|row| row.op)
}

/// Whether every form of the op draws random numbers, so that none is taken.
pub fn is_random(op: &str) -> bool {
    RANDOM.contains(&op)
}

/// What is wrong with the rows, asked of the libtorch that is loaded: overloads that it lacks, arguments that they do not
/// have.
pub fn row_faults() -> Vec<String> {
    kernels::rows().filter_map(|row| row.fault().map(|fault| format!("{}: {fault}", row.op))).collect()
}

/// The executor.
pub struct Torch {
    /// Whether forms whose results change from run to run are refused.
    deterministic: bool,
    /// ATen's warnings go to the host's log.
    _warnings: WarningLog,
}

impl Executor for Torch {
    fn create(ctx: &Create<'_>) -> Result<Self, Error> {
        let deterministic = ctx.options().bool("deterministic")?;
        ctx.log().debug(format!("libtorch with {} CPU threads by default", tch::get_num_threads()));
        Ok(Torch { deterministic, _warnings: WarningLog::new(ctx.log()) })
    }

    fn check(&self, op: &Op<'_>) -> Result<(), Refusal> {
        self.recipe(op).map(|_| ())
    }

    fn kernel(&self, op: &Op<'_>) -> Result<Box<dyn Kernel>, Error> {
        let (recipe, row) =
            self.recipe(op).map_err(|refusal| Error::unsupported(format!("`{}`: {refusal}", op.name())))?;
        Ok(Box::new(TorchKernel { made: recipe.finish(row)? }))
    }

    /// Does this libtorch have what the rows name?
    fn selftest(&self) -> Result<(), Error> {
        match row_faults().as_slice() {
            [] => Ok(()),
            faults => Err(Error::unavailable(faults.join("; "))),
        }
    }
}

impl Torch {
    fn recipe<'a>(&self, op: &'a Op<'a>) -> Result<(Recipe<'a>, &'static recipe::Row), Refusal> {
        if draws(op) {
            return Err(Refusal::new(
                "random",
                "it draws random numbers, and ATen's generators take no offset",
            ));
        }
        let row = kernels::row(op.name())
            .ok_or_else(|| Refusal::new("op_unknown", format!("`{}` has no row here", op.name())))?;
        Ok((Recipe::build(op, row, self.deterministic)?, row))
    }
}

/// Whether the op draws: it is given a seed, and nothing says that it is not in training or that nothing is dropped.
fn draws(op: &Op<'_>) -> bool {
    let given = |name: &str| op.arg(name).is_some_and(|arg| arg != ArgRef::None);
    let off = |name: &str| op.arg(name) == Some(ArgRef::Bool(false));
    let none =
        |name: &str| matches!(op.arg(name), Some(ArgRef::Int(0))) || op.arg(name) == Some(ArgRef::Float(0.0));
    let in_training = !["train", "training"].iter().any(|name| off(name));
    let drops = !["p", "dropout", "dropout_p"].iter().any(|name| none(name));
    is_random(op.name()) || (given("seed") && in_training && drops)
}

/// Ops of which every form draws. The manifest claims them, so that the refusal says why.
const RANDOM: &[&str] = &[
    "prims.multinomial_philox",
    "prims.randint_philox",
    "prims.randn_philox",
    "prims.randperm_philox",
    "prims.uniform",
    "prims.uniform_philox",
    "torch.bernoulli",
    "torch.cauchy",
    "torch.exponential",
    "torch.geometric",
    "torch.log_normal",
    "torch.multinomial",
    "torch.normal",
    "torch.rand",
    "torch.randint",
    "torch.randn",
    "torch.randperm",
    "torch.rrelu",
];

struct TorchKernel {
    made: Made,
}

impl TorchKernel {
    fn threads(&self, asked: usize) -> usize {
        if self.made.serial { 1 } else { asked }
    }

    fn bound(&self, bound: aten::Bound) -> TorchBound {
        let Made { deferred, serial, n_numbers, .. } = &self.made;
        TorchBound { bound, deferred: deferred.clone(), serial: *serial, n_numbers: *n_numbers }
    }
}

impl Kernel for TorchKernel {
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
        let threads = self.threads(call.threads());
        let (inputs, outputs) = call.io();
        let inputs: Vec<Memory> = inputs.iter().map(|view| Memory::of(&view)).collect::<Result<_, _>>()?;
        let outputs: Vec<Memory> = outputs.iter_mut().map(Memory::of_output).collect::<Result<_, _>>()?;
        let bound = aten::Bound::new(&self.made.tape, &inputs, &outputs, threads)?;
        self.bound(bound).run(call)
    }

    fn in_place(&self) -> Vec<(usize, usize)> {
        self.made.in_place.clone()
    }

    fn bind(&self, io: &Binding<'_>) -> Result<Option<Box<dyn Bound>>, Error> {
        let inputs: Vec<Memory> =
            (0..io.n_inputs()).map(|idx| Memory::of(&io.input(idx))).collect::<Result<_, _>>()?;
        let outputs: Vec<Memory> =
            (0..io.n_outputs()).map(|idx| Memory::of(&io.output(idx))).collect::<Result<_, _>>()?;
        let bound = aten::Bound::new(&self.made.tape, &inputs, &outputs, self.threads(io.threads()))?;
        Ok(Some(Box::new(self.bound(bound))))
    }
}

/// A tape with wrapped tensors.
struct TorchBound {
    bound: aten::Bound,
    deferred: Vec<(usize, aten::Reg)>,
    serial: bool,
    n_numbers: usize,
}

impl Bound for TorchBound {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), Error> {
        let threads = if self.serial { 1 } else { call.threads() };
        let numbers: Vec<Number> = (0..self.n_numbers).map(|slot| call.number(slot)).collect();
        self.bound.run(&numbers, threads)?;
        for (output, reg) in &self.deferred {
            let dims = self.bound.result_dims(*reg)?;
            let memory = Memory::of_output(call.alloc_output(*output, &dims)?)?;
            self.bound.take(*reg, &memory, threads)?;
        }
        Ok(())
    }
}

// Tapes are shared between overlapping runs.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Arc<Tape>>();
};
