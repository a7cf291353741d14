//! Losses.

use thunderhead_sdk::Refusal;

use crate::recipe::{Recipe, Row, call, form, with};

/// What this family runs.
pub static ROWS: &[Row] = &[
    call(
        "torch.cross_entropy",
        "cross_entropy_loss",
        "a target weight %reduction ignore_index label_smoothing",
    ),
    call("torch.l1_loss", "l1_loss", "a target %reduction"),
    call("torch.mse_loss", "mse_loss", "a target %reduction"),
    call("torch.soft_margin_loss", "soft_margin_loss", "a target %reduction"),
    with("torch.binary_cross_entropy", |recipe| {
        only_if(recipe, &["weight"])?;
        recipe.call("binary_cross_entropy", "a target weight %reduction")
    }),
    with("torch.binary_cross_entropy_with_logits", |recipe| {
        only_if(recipe, &["weight", "pos_weight"])?;
        recipe.call("binary_cross_entropy_with_logits", "a target weight pos_weight %reduction")
    }),
    with("torch.huber_loss", |recipe| {
        only_if(recipe, &["delta"])?;
        recipe.call("huber_loss", "a target %reduction delta")
    }),
    with("torch.kl_div", |recipe| {
        only_if(recipe, &["log_target"])?;
        recipe.call("kl_div", "a target %reduction log_target")
    }),
    with("torch.smooth_l1_loss", |recipe| {
        only_if(recipe, &["beta"])?;
        recipe.call("smooth_l1_loss", "a target %reduction beta")
    }),
    with("torch.nll_loss", nll_loss),
    with("torch.nll_loss_backward", nll_loss_backward),
];

/// These arguments must be part of the op's schema.
fn only_if(recipe: &Recipe<'_>, names: &[&str]) -> Result<(), Refusal> {
    match names.iter().find(|name| recipe.op.arg(name).is_none()) {
        Some(name) => Err(form(format!("the op has no argument `{name}`")).attribute(*name)),
        None => Ok(()),
    }
}

/// With the total weight as second result, the kernels below `nll_loss` are called.
fn nll_loss(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let rank = recipe.desc("a")?.rank();
    match (recipe.op.n_outputs(), rank) {
        (1, _) => recipe.call("nll_loss_nd", "a target weight %reduction ignore_index"),
        (_, 1 | 2) => recipe.call("nll_loss_forward", "a target weight %reduction ignore_index"),
        (_, 4) => recipe.call("nll_loss2d_forward", "a target weight %reduction ignore_index"),
        (_, rank) => {
            Err(form(format!("the total weight of an input of rank {rank} is asked for")).attribute("a"))
        }
    }
}

fn nll_loss_backward(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let args = "g a target weight %reduction ignore_index total_weight";
    match recipe.desc("a")?.rank() {
        1 | 2 => recipe.call("nll_loss_backward", args),
        4 => recipe.call("nll_loss2d_backward", args),
        rank => Err(form(format!("the input has rank {rank}; 1, 2 and 4 are taken")).attribute("a")),
    }
}
