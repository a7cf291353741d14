//! Optimisers, through ATen's fused kernels: one pass over parameter, gradient and state.
//!
//! They write what they are given: parameter and state are copied to the outputs first, which costs nothing where an
//! output was given the memory of what it replaces. With `amsgrad` the kernel loses a NaN in the largest second moment,
//! which PyTorch's optimiser without `fused` keeps: that form is refused.

use thunderhead_sdk::{Dtype, Refusal};

use thunderhead_aten::recipe::{Recipe, Row, form, renews_with};
use thunderhead_aten::{Arg, Reg};

/// What this family runs.
pub static ROWS: &[Row] = &[
    renews_with("optim.adam", &["p", "m", "v"], |recipe| adam(recipe, "_fused_adam_")),
    renews_with("optim.adamw", &["p", "m", "v"], |recipe| adam(recipe, "_fused_adamw_")),
    renews_with("optim.sgd", &["p", "buf"], sgd),
];

fn adam(recipe: &mut Recipe<'_>, aten: &str) -> Result<(), Refusal> {
    if recipe.op.bool("amsgrad")? {
        let sentence = "ATen's fused kernel loses a NaN in the largest second moment";
        return Err(form(sentence.into()).attribute("amsgrad"));
    }
    let p = renewed(recipe, "p", 0)?;
    let m = renewed(recipe, "m", 1)?;
    let v = renewed(recipe, "v", 2)?;
    let g = recipe.tensor("g")?;
    // As PyTorch keeps it: a tensor of f32.
    let step = vec![Arg::Ints(Vec::new()), recipe.arg("step")?, Arg::Dtype(Dtype::F32)];
    let step = recipe.bind_with("full", step);
    let mut args: Vec<Arg> = [p, g, m, v].map(|reg| Arg::Regs(vec![Some(reg)])).into();
    args.extend([Arg::Regs(Vec::new()), Arg::Regs(vec![Some(step)])]);
    args.extend(recipe.args("lr beta1 beta2 weight_decay eps amsgrad maximize")?);
    recipe.effect(aten, args);
    Ok(())
}

fn sgd(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let p = renewed(recipe, "p", 0)?;
    let has_momentum = recipe.op.float("momentum")? != 0.0;
    let is_first = has_momentum && !recipe.op.has("buf");
    let buffer = match (has_momentum, is_first) {
        (false, _) => Vec::new(),
        // At the first step the kernel writes the buffer without reading it.
        (true, true) => vec![Some(recipe.out(1))],
        (true, false) => vec![Some(renewed(recipe, "buf", 1)?)],
    };
    let g = recipe.tensor("g")?;
    let mut args: Vec<Arg> = [p, g].map(|reg| Arg::Regs(vec![Some(reg)])).into();
    args.push(Arg::Regs(buffer));
    args.extend(recipe.args("weight_decay momentum lr dampening nesterov maximize")?);
    args.push(Arg::Bool(is_first));
    recipe.effect("_fused_sgd_", args);
    Ok(())
}

/// An output that begins as the tensor that it replaces.
fn renewed(recipe: &mut Recipe<'_>, name: &str, output: usize) -> Result<Reg, Refusal> {
    let (from, to) = (recipe.tensor(name)?, recipe.out(output));
    recipe.copy(from, to);
    Ok(to)
}
