//! Gathers and scatters.
//!
//! What several values may meet in one element of, ATen's CPU kernels do in an order that changes from run to run, and
//! in the input's own precision: those forms need the option `deterministic = false`. Plain writes keep their order on
//! one thread (`serial`), or meet only along one axis, which ATen walks in order.

use thunderhead_sdk::{Dtype, Refusal};

use thunderhead_aten::Arg;
use thunderhead_aten::recipe::{Recipe, Row, call, form, updates_with, with};

/// What this family runs.
pub static ROWS: &[Row] = &[
    with("prims.embedding", embedding),
    with("prims.embedding_backward", |recipe| {
        recipe.accumulates()?;
        let padding = if recipe.op.has("padding_idx") { recipe.arg("padding_idx")? } else { Arg::Int(-1) };
        let mut args = recipe.args("g index n")?;
        args.push(padding);
        args.extend(recipe.args("scale_by_freq")?);
        recipe.call_to_outputs("embedding_dense_backward", args)
    }),
    call("prims.gather", "gather", "a axis index"),
    call("prims.index", "index.Tensor", "a indices"),
    updates_with("prims.index_add", |recipe| update(recipe, Meeting::Sums, "index_add_", "axis index src")),
    updates_with("prims.index_copy", |recipe| {
        update(recipe, Meeting::InOrder, "index_copy_", "axis index src")
    }),
    updates_with("prims.index_put", index_put),
    call("prims.nonzero", "nonzero", "a"),
    updates_with("prims.scatter", scatter),
    updates_with("prims.scatter_add", |recipe| {
        update(recipe, Meeting::Sums, "scatter_add_", "axis index src")
    }),
    updates_with("prims.scatter_reduce", |recipe| {
        update(recipe, Meeting::Sums, "scatter_reduce_.two", "axis index src reduce include_self")
    }),
    call("prims.take", "index_select", "a axis index"),
    call("prims.take_along_axis", "take_along_dim", "a index axis"),
    with("torch.embedding", embedding),
    with("torch.embedding_bag", |recipe| {
        recipe.inexact("weight")?;
        let args = "weight index offsets scale_by_freq mode =false per_sample include_last padding_idx";
        recipe.call("_embedding_bag_forward_only", args)
    }),
    with("torch.embedding_dense_backward", |recipe| {
        recipe.accumulates()?;
        recipe.call("embedding_dense_backward", "g index n padding_idx scale_by_freq")
    }),
    call("torch.gather", "gather", "a axis index"),
    call("torch.index", "index.Tensor", "a indices"),
    updates_with("torch.index_add", |recipe| {
        update(recipe, Meeting::Sums, "index_add_", "axis index src alpha")
    }),
    updates_with("torch.index_copy", |recipe| {
        update(recipe, Meeting::InOrder, "index_copy_", "axis index src")
    }),
    updates_with("torch.index_fill", |recipe| {
        let aten = match recipe.op.tensor("value") {
            Some(_) => "index_fill_.int_Tensor",
            None => "index_fill_.int_Scalar",
        };
        update(recipe, Meeting::InOrder, aten, "axis index value")
    }),
    updates_with("torch.index_put", index_put),
    call("torch.index_select", "index_select", "a axis index"),
    updates_with("torch.masked_scatter", |recipe| {
        update(recipe, Meeting::InOrder, "masked_scatter_", "mask src")
    }),
    call("torch.masked_select", "masked_select", "a mask"),
    call("torch.nonzero", "nonzero", "a"),
    with("torch.nonzero_tuple", |recipe| recipe.call_list("nonzero_numpy", "a")),
    call("torch.one_hot", "one_hot", "a classes"),
    updates_with("torch.scatter", |recipe| {
        if recipe.op.has("reduce") {
            let aten = match recipe.op.tensor("src") {
                Some(_) => "scatter_.reduce",
                None => "scatter_.value_reduce",
            };
            return update(recipe, Meeting::Sums, aten, "axis index src reduce");
        }
        scatter(recipe)
    }),
    updates_with("torch.scatter_add", |recipe| {
        update(recipe, Meeting::Sums, "scatter_add_", "axis index src")
    }),
    updates_with("torch.scatter_reduce", |recipe| {
        update(recipe, Meeting::Sums, "scatter_reduce_.two", "axis index src reduce include_self")
    }),
    call("torch.take", "take", "a index"),
    call("torch.take_along_dim", "take_along_dim", "a index axis"),
];

/// What happens to values that meet in one element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meeting {
    /// The last one stays.
    InOrder,
    /// They are added up, in no promised order.
    Sums,
}

/// The output becomes a copy of `a` and is written by an in-place call; where it was given the memory of `a`, nothing is
/// copied.
fn update(recipe: &mut Recipe<'_>, meeting: Meeting, aten: &str, args: &str) -> Result<(), Refusal> {
    if meeting == Meeting::Sums {
        recipe.accumulates()?;
    }
    let a = recipe.tensor("a")?;
    let out = recipe.out(0);
    let mut all = vec![Arg::Reg(out)];
    all.extend(recipe.args(args)?);
    recipe.copy(a, out);
    recipe.effect(aten, all);
    Ok(())
}

fn index_put(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    if recipe.op.bool("accumulate")? {
        return update(recipe, Meeting::Sums, "index_put_", "indices values accumulate");
    }
    recipe.serial = true;
    update(recipe, Meeting::InOrder, "index_put_", "indices values accumulate")
}

fn scatter(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let aten = match recipe.op.tensor("src") {
        Some(_) => "scatter_.src",
        None => "scatter_.value",
    };
    update(recipe, Meeting::InOrder, aten, "axis index src")
}

/// Rows of a table: a selection along axis 0, which writes to the output where ATen's `embedding` copies.
fn embedding(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let (index, weight) = (recipe.desc("index")?, recipe.desc("weight")?);
    if !matches!(index.dtype(), Dtype::I32 | Dtype::I64) {
        return Err(form(format!("indices are {}; i32 and i64 are taken", index.dtype())).attribute("index"));
    }
    let dense = index.rank() <= 1 || index.is_contiguous();
    let known = index.is_known() && weight.is_known() && weight.rank() == 2;
    if !(dense && known) {
        return recipe.call("embedding", "weight index");
    }
    let count: i64 = index.dims().iter().product();
    let (table, index) = (recipe.arg("weight")?, recipe.arg("index")?);
    let flat = recipe.bind_with("view", vec![index, Arg::Ints(vec![count])]);
    let out = recipe.out(0);
    let rows = recipe.bind_with("view", vec![Arg::Reg(out), Arg::Ints(vec![count, weight.dims()[1]])]);
    recipe.effect("index_select.out", vec![table, Arg::Int(0), Arg::Reg(flat), Arg::Reg(rows)]);
    Ok(())
}
