//! Normalisation.

use thunderhead_sdk::{ArgRef, Refusal};

use crate::recipe::{Recipe, Row, call, form, with};

/// What this family runs.
pub static ROWS: &[Row] = &[
    with("torch.batch_norm", |recipe| {
        if recipe.op.bool("train")? && recipe.op.has("mean") {
            return Err(form("running statistics would be written".into()).attribute("train"));
        }
        recipe.call("batch_norm", "a weight bias mean var train momentum eps =false")
    }),
    call("torch.group_norm", "group_norm", "a groups weight bias eps =false"),
    with("torch.instance_norm", |recipe| {
        if recipe.op.bool("use_input_stats")? && recipe.op.has("mean") {
            return Err(form("running statistics would be written".into()).attribute("use_input_stats"));
        }
        recipe.call("instance_norm", "a weight bias mean var use_input_stats momentum eps =false")
    }),
    with("torch.layer_norm", layer_norm),
    with("torch.native_batch_norm", native_batch_norm),
    with("torch.native_batch_norm_backward", |recipe| {
        masked(recipe, "native_batch_norm_backward", "g a weight mean var save_mean save_rstd train eps mask")
    }),
    call("torch.native_group_norm", "native_group_norm", "a weight bias n c hw groups eps"),
    with("torch.native_group_norm_backward", |recipe| {
        masked(recipe, "native_group_norm_backward", "g a mean rstd weight n c hw groups mask")
    }),
    call("torch.native_layer_norm", "native_layer_norm", "a dims weight bias eps"),
    with("torch.native_layer_norm_backward", |recipe| {
        masked(recipe, "native_layer_norm_backward", "g a dims mean rstd weight bias mask")
    }),
    call("torch.renorm", "renorm", "a p axis max"),
    with("torch.rms_norm", rms_norm),
    call("torch.weight_norm", "_weight_norm", "v g axis"),
];

/// The kernel itself; its mean and its reciprocal deviation are dropped.
fn layer_norm(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let args = recipe.args("a dims weight bias eps")?;
    recipe.call_with_results("native_layer_norm", args, &[Some(0)])
}

fn rms_norm(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    if recipe.op.n_outputs() > 1 {
        let args = recipe.args("a dims weight eps")?;
        return recipe.call_to_outputs("_fused_rms_norm", args);
    }
    recipe.call("rms_norm", "a dims weight eps")
}

/// Training with running statistics gives the new ones as results instead of writing them. In evaluation the statistics
/// of the batch are empty, and the new running ones are the old.
fn native_batch_norm(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match (recipe.op.bool("train")?, recipe.op.has("mean")) {
        (true, true) => {
            recipe.call("_native_batch_norm_legit_functional", "a weight bias mean var train momentum eps")
        }
        (true, false) => recipe.call("_native_batch_norm_legit.no_stats", "a weight bias train momentum eps"),
        (false, _) => {
            let args = recipe.args("a weight bias mean var momentum eps")?;
            recipe.call_with_results("_native_batch_norm_legit_no_training", args, &[Some(0)])?;
            for (output, statistic) in [(3, "mean"), (4, "var")] {
                if output < recipe.op.n_outputs() {
                    recipe.copy(recipe.tensor(statistic)?, recipe.out(output));
                }
            }
            Ok(())
        }
    }
}

/// A call with a mask of the results that are wanted; only those are the op's.
pub fn masked(recipe: &mut Recipe<'_>, aten: &str, args: &str) -> Result<(), Refusal> {
    let args = recipe.args(args)?;
    let outputs = wanted(recipe)?;
    recipe.call_with_results(aten, args, &outputs)
}

/// For each result of ATen's the output that it is, by the op's `mask`.
pub fn wanted(recipe: &Recipe<'_>) -> Result<Vec<Option<usize>>, Refusal> {
    let Some(ArgRef::Bools(mask)) = recipe.op.arg("mask") else {
        return Err(form("`mask` is no list of bools".into()).attribute("mask"));
    };
    let mut next = 0..recipe.op.n_outputs();
    Ok(mask.iter().map(|wanted| if *wanted != 0 { next.next() } else { None }).collect())
}
