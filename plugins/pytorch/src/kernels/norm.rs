//! Normalisation.

use thunderhead_sdk::{ArgRef, Dtype, Refusal};

use thunderhead_aten::Arg;
use thunderhead_aten::recipe::{Recipe, Row, call, form, with};

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
    with("torch.native_group_norm", |recipe| {
        let channels = vec![recipe.op.int("c")?];
        let (weight, bias) = parameters(recipe, &channels)?;
        let mut args = vec![dense(recipe, "a")?, weight, bias];
        args.extend(recipe.args("n c hw groups eps")?);
        recipe.call_to_outputs("native_group_norm", args)
    }),
    with("torch.native_group_norm_backward", |recipe| {
        let mut args = vec![dense(recipe, "g")?, dense(recipe, "a")?];
        args.extend([widened(recipe, "mean")?, widened(recipe, "rstd")?]);
        args.push(parameter(recipe, "weight", &[recipe.op.int("c")?], 1)?);
        args.extend(recipe.args("n c hw groups mask")?);
        gradients(recipe, "native_group_norm_backward", args)
    }),
    with("torch.native_layer_norm", |recipe| {
        let dims = recipe.op.ints("dims")?.to_vec();
        let (weight, bias) = parameters(recipe, &dims)?;
        let mut args = recipe.args("a dims")?;
        args.extend([weight, bias]);
        args.extend(recipe.args("eps")?);
        recipe.call_to_outputs("native_layer_norm", args)
    }),
    with("torch.native_layer_norm_backward", |recipe| {
        let dims = recipe.op.ints("dims")?.to_vec();
        let mut args = recipe.args("g a dims")?;
        args.extend([widened(recipe, "mean")?, widened(recipe, "rstd")?]);
        args.push(parameter(recipe, "weight", &dims, 1)?);
        args.push(parameter(recipe, "bias", &dims, 0)?);
        args.extend(recipe.args("mask")?);
        gradients(recipe, "native_layer_norm_backward", args)
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

/// Weight and bias of a norm whose statistics are results.
fn parameters(recipe: &mut Recipe<'_>, dims: &[i64]) -> Result<(Arg, Arg), Refusal> {
    Ok((parameter(recipe, "weight", dims, 1)?, parameter(recipe, "bias", dims, 0)?))
}

/// A parameter of a norm. ATen has statistics in the dtype of the parameters, we in f32: half parameters are widened,
/// absent ones are made of ones or zeros.
fn parameter(recipe: &mut Recipe<'_>, name: &str, dims: &[i64], absent: i64) -> Result<Arg, Refusal> {
    if !recipe.desc("a")?.dtype().is_half() {
        return recipe.arg(name);
    }
    if recipe.op.has(name) {
        return widened(recipe, name);
    }
    let args = vec![Arg::Ints(dims.to_vec()), Arg::Int(absent), Arg::Dtype(Dtype::F32)];
    Ok(Arg::Reg(recipe.bind_with("full", args)))
}

/// A tensor in f32 where it holds halves: statistics and parameters must have one dtype.
fn widened(recipe: &mut Recipe<'_>, name: &str) -> Result<Arg, Refusal> {
    if !recipe.desc(name)?.dtype().is_half() {
        return recipe.arg(name);
    }
    let args = vec![recipe.arg(name)?, Arg::Dtype(Dtype::F32)];
    Ok(Arg::Reg(recipe.run_with("_to_copy", args)))
}

/// A tensor in row-major order: libtorch's group norm asserts it where the composite above would see to it.
fn dense(recipe: &mut Recipe<'_>, name: &str) -> Result<Arg, Refusal> {
    let args = recipe.args(name)?;
    Ok(Arg::Reg(recipe.run_with("contiguous", args)))
}

/// Gradients by the op's `mask`; those of widened parameters are rounded to what the op gives.
fn gradients(recipe: &mut Recipe<'_>, aten: &str, args: Vec<Arg>) -> Result<(), Refusal> {
    let outputs = wanted(recipe)?;
    if !recipe.desc("a")?.dtype().is_half() {
        return recipe.call_with_results(aten, args, &outputs);
    }
    let results = recipe.call_results(aten, args, outputs.len());
    for (result, output) in results.into_iter().zip(outputs) {
        if let Some(output) = output {
            recipe.copy(result, recipe.out(output));
        }
    }
    Ok(())
}

/// Training with running statistics gives the new ones as results instead of writing them. In evaluation the statistics
/// of the batch are empty, and the new running ones are the old.
fn native_batch_norm(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let half = |name: &str| recipe.desc(name).map_or(true, |tensor| tensor.dtype().is_half());
    if recipe.desc("a")?.dtype().is_half() && (half("weight") || half("mean")) && recipe.op.bool("train")? {
        return Err(form("statistics would be of half precision".into()).attribute("a"));
    }
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
