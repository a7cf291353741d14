//! Losses.

use thunderhead_sdk::Refusal;

use thunderhead_aten::recipe::{Recipe, Row, call, form, with};

/// What this family runs.
pub static ROWS: &[Row] = &[
    with("torch.binary_cross_entropy", |recipe| {
        reduced(recipe, "binary_cross_entropy", "a target weight %reduction")
    }),
    call(
        "torch.binary_cross_entropy_with_logits",
        "binary_cross_entropy_with_logits",
        "a target weight pos_weight %reduction",
    ),
    with("torch.cross_entropy", |recipe| {
        recipe.inexact("a")?;
        recipe.call("cross_entropy_loss", "a target weight %reduction ignore_index label_smoothing")
    }),
    with("torch.huber_loss", |recipe| reduced(recipe, "huber_loss", "a target %reduction delta")),
    call("torch.kl_div", "kl_div", "a target %reduction log_target"),
    call("torch.l1_loss", "l1_loss", "a target %reduction"),
    with("torch.mse_loss", |recipe| reduced(recipe, "mse_loss", "a target %reduction")),
    with("torch.nll_loss", nll_loss),
    with("torch.nll_loss_backward", nll_loss_backward),
    with("torch.smooth_l1_loss", |recipe| reduced(recipe, "smooth_l1_loss", "a target %reduction beta")),
    with("torch.soft_margin_loss", |recipe| reduced(recipe, "soft_margin_loss", "a target %reduction")),
    call("torch.cosine_embedding_loss", "cosine_embedding_loss", "a b target margin %reduction"),
    call("torch.hinge_embedding_loss", "hinge_embedding_loss", "a target margin %reduction"),
    call("torch.margin_ranking_loss", "margin_ranking_loss", "a b target margin %reduction"),
    call("torch.poisson_nll_loss", "poisson_nll_loss", "a target log_input full eps %reduction"),
    call(
        "torch.triplet_margin_loss",
        "triplet_margin_loss",
        "a positive negative margin p eps swap %reduction",
    ),
];

/// Before a reduction ATen makes the given output as large as the input: then the result is copied instead.
fn reduced(recipe: &mut Recipe<'_>, aten: &str, args: &str) -> Result<(), Refusal> {
    match recipe.op.str("reduction")? {
        "none" => recipe.call(aten, args),
        _ => recipe.call_and_store(aten, args),
    }
}

/// With the total weight as second result, the kernels below `nll_loss` are called.
fn nll_loss(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    recipe.inexact("a")?;
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
    recipe.inexact("a")?;
    let args = "g a target weight %reduction ignore_index total_weight";
    match recipe.desc("a")?.rank() {
        1 | 2 => recipe.call("nll_loss_backward", args),
        4 => recipe.call("nll_loss2d_backward", args),
        rank => Err(form(format!("the input has rank {rank}; 1, 2 and 4 are taken")).attribute("a")),
    }
}
