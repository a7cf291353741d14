//! Executor plugin `sdpa`: scaled dot product attention, forward and backward, on libtorch's fused CPU kernels (flash).
//!
//! The forward in training keeps the log-sum-exp of each row, so that the backward finds the weights again and never
//! stores them. Masks may be bool or float and may broadcast; causal, scale and grouped key heads are the kernels' own.
//! What they cannot take is refused with the reason, and the host asks the next executor.
//!
//! Deliberately not here: dropout (ATen's generators take no offset), and how the kernels must be fed (`flash`).

use thunderhead_aten::recipe::{Recipe, Row, drops, with};
use thunderhead_aten::{TorchKernel, WarningLog, flash};
use thunderhead_sdk::{Create, Error, Executor, Kernel, Op, Refusal, define_plugin};

define_plugin! {
    manifest: include_str!("../plugin.toml"),
    executors: { "sdpa" => Sdpa },
}

thunderhead_sdk::export_plugin! { manifest: MANIFEST, entry: entry }

/// What this plugin runs.
static ROWS: [Row; 3] = [
    with("torch.scaled_dot_product_attention", flash::forward),
    with("torch.scaled_dot_product_attention_lse", flash::forward),
    with("torch.scaled_dot_product_attention_backward", flash::backward),
];

/// The executor.
pub struct Sdpa {
    /// ATen's warnings go to the host's log.
    _warnings: WarningLog,
}

impl Executor for Sdpa {
    fn create(ctx: &Create<'_>) -> Result<Self, Error> {
        Ok(Sdpa { _warnings: WarningLog::new(ctx.log()) })
    }

    fn check(&self, op: &Op<'_>) -> Result<(), Refusal> {
        recipe(op).map(|_| ())
    }

    fn kernel(&self, op: &Op<'_>) -> Result<Box<dyn Kernel>, Error> {
        let (recipe, row) =
            recipe(op).map_err(|refusal| Error::unsupported(format!("`{}`: {refusal}", op.name())))?;
        Ok(Box::new(TorchKernel::new(recipe.finish(row)?)))
    }
}

fn recipe<'a>(op: &'a Op<'a>) -> Result<(Recipe<'a>, &'static Row), Refusal> {
    if drops(op) {
        return Err(Refusal::new(
            "random",
            "it drops weights at random, and ATen's generators take no offset",
        )
        .attribute("dropout_p"));
    }
    let row = ROWS
        .iter()
        .find(|row| row.op == op.name())
        .ok_or_else(|| Refusal::new("op_unknown", format!("`{}` is no attention", op.name())))?;
    Ok((Recipe::build(op, row, true)?, row))
}
