//! Executor plugin `pytorch`: ops of the table at their own level, and every opaque `aten.*` op, through libtorch.
//!
//! An op becomes a tape of dispatcher calls, as its row in `kernels` says; `thunderhead-aten` makes and runs tapes.
//!
//! Deliberately not here: random ops (ATen's generators take no offset), and by default whatever ATen accumulates in no
//! fixed order.

mod kernels;

use thunderhead_aten::recipe::{Recipe, Row, drops};
use thunderhead_aten::{TorchKernel, WarningLog};
use thunderhead_sdk::{Create, Error, Executor, Kernel, Op, Refusal, define_plugin};

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
        Ok(Box::new(TorchKernel::new(recipe.finish(row)?)))
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
    fn recipe<'a>(&self, op: &'a Op<'a>) -> Result<(Recipe<'a>, &'static Row), Refusal> {
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

/// Whether the op draws random numbers, in the form that it has.
fn draws(op: &Op<'_>) -> bool {
    is_random(op.name()) || drops(op)
}

/// Ops of which every form draws. The manifest claims them, so that the refusal says why.
const RANDOM: &[&str] = &[
    "prims.multinomial_philox",
    "prims.randint_philox",
    "prims.randn_philox",
    "prims.randperm_philox",
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
