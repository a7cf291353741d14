//! Scaled dot product attention. Where dropout would draw, `random` refuses before a recipe is made.

use thunderhead_sdk::{Dtype, Refusal};

use crate::recipe::{Recipe, Row, call, form, with};

/// What this family runs.
pub static ROWS: &[Row] = &[
    call(
        "torch.scaled_dot_product_attention",
        "scaled_dot_product_attention",
        "q k v mask dropout_p is_causal scale enable_gqa",
    ),
    with("torch.scaled_dot_product_attention_lse", lse),
    with("torch.scaled_dot_product_attention_backward", backward),
];

fn lse(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    ungrouped(recipe)?;
    recipe.call("_scaled_dot_product_flash_attention_for_cpu", "q k v dropout_p is_causal mask scale")
}

fn backward(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    ungrouped(recipe)?;
    let (q, lse) = (recipe.desc("q")?.dtype(), recipe.desc("lse")?.dtype());
    if (q == Dtype::F64) != (lse == Dtype::F64) {
        return Err(form(format!("`lse` is {lse} where `q` is {q}")).attribute("lse"));
    }
    if recipe.op.n_outputs() > 3 {
        return Err(form("the gradient of the mask is asked for".into()).attribute("mask"));
    }
    recipe.call(
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "g q k v out lse dropout_p is_causal mask scale",
    )
}

/// The flash kernels take as many key heads as query heads, four dims, and the same head size throughout.
fn ungrouped(recipe: &Recipe<'_>) -> Result<(), Refusal> {
    let (q, k, v) = (recipe.desc("q")?, recipe.desc("k")?, recipe.desc("v")?);
    for (name, tensor) in [("q", q), ("k", k), ("v", v)] {
        if tensor.rank() != 4 {
            return Err(form(format!("`{name}` has {} dims; 4 are taken", tensor.rank())).attribute(name));
        }
    }
    if q.dims()[1] != k.dims()[1] {
        return Err(form("key and query have different numbers of heads".into())
            .dim(1, k.dims()[1])
            .attribute("k"));
    }
    if q.dims()[3] != v.dims()[3] {
        return Err(form("query and value have different head sizes".into())
            .dim(3, v.dims()[3])
            .attribute("v"));
    }
    Ok(())
}
