//! Reductions, scans, sorting and searching.

use thunderhead_sdk::{Refusal, TensorDesc};

use thunderhead_aten::Arg;
use thunderhead_aten::recipe::{Recipe, Row, call, form, with};

/// What this family runs.
pub static ROWS: &[Row] = &[
    with("prims.amax", |recipe| extremum(recipe, "amax")),
    with("prims.amin", |recipe| extremum(recipe, "amin")),
    call("prims.argmax", "argmax", "a axis"),
    call("prims.argmin", "argmin", "a axis"),
    with("prims.prod", prims_prod),
    with("prims.sum", prims_sum),
    call("prims.var", "var.correction", "a axes correction"),
    call("prims.var_mean", "var_mean.correction", "a axes correction"),
    call("prims.cummax", "cummax", "a axis"),
    call("prims.cumprod", "cumprod", "a axis %dtype"),
    call("prims.cumsum", "cumsum", "a axis %dtype"),
    call("prims.logcumsumexp", "logcumsumexp", "a axis"),
    call("prims.searchsorted", "searchsorted.Tensor", "edges values %i32 right"),
    call("prims.sort", "sort.stable", "a =true axis descending"),
    call("prims.topk", "topk", "a k axis largest sorted"),
    call("torch.all", "all.dims", "a axes keepdim"),
    call("torch.amax", "amax", "a axes keepdim"),
    call("torch.amin", "amin", "a axes keepdim"),
    call("torch.aminmax", "aminmax", "a axis keepdim"),
    call("torch.any", "any.dims", "a axes keepdim"),
    call("torch.argmax", "argmax", "a axis keepdim"),
    call("torch.argmin", "argmin", "a axis keepdim"),
    call("torch.argsort", "argsort.stable", "a =true axis descending"),
    call("torch.bucketize", "bucketize.Tensor", "a edges out_int32 right"),
    call("torch.cosine_similarity", "cosine_similarity", "a b axis eps"),
    with("torch.count_nonzero", count_nonzero),
    call("torch.cummax", "cummax", "a axis"),
    call("torch.cummin", "cummin", "a axis"),
    call("torch.cumprod", "cumprod", "a axis %dtype"),
    call("torch.cumsum", "cumsum", "a axis %dtype"),
    call("torch.diff", "diff", "a n axis prepend append"),
    call("torch.kthvalue", "kthvalue", "a k axis keepdim"),
    with("torch.log_softmax", |recipe| softmax(recipe, "log_softmax")),
    with("torch.log_softmax_backward", |recipe| softmax_backward(recipe, "_log_softmax_backward_data")),
    call("torch.logcumsumexp", "logcumsumexp", "a axis"),
    call("torch.logsumexp", "logsumexp", "a axes keepdim"),
    call("torch.max_dim", "max.dim", "a axis keepdim"),
    call("torch.mean", "mean.dim", "a axes keepdim dtype"),
    with("torch.median", median),
    call("torch.min_dim", "min.dim", "a axis keepdim"),
    call("torch.pairwise_distance", "pairwise_distance", "a b p eps keepdim"),
    with("torch.prod", prod),
    call("torch.safe_softmax", "_safe_softmax", "a axis dtype"),
    with("torch.searchsorted", searchsorted),
    with("torch.softmax", |recipe| softmax(recipe, "softmax")),
    with("torch.softmax_backward", |recipe| softmax_backward(recipe, "_softmax_backward_data")),
    with("torch.softmin", softmin),
    call("torch.sort", "sort.stable", "a =true axis descending"),
    call("torch.std", "std.correction", "a axes correction keepdim"),
    call("torch.std_mean", "std_mean.correction", "a axes correction keepdim"),
    call("torch.sum", "sum.dim_IntList", "a axes keepdim %dtype"),
    call("torch.topk", "topk", "a k axis largest sorted"),
    call("torch.trace", "trace", "a"),
    call("torch.var", "var.correction", "a axes correction keepdim"),
    call("torch.var_mean", "var_mean.correction", "a axes correction keepdim"),
    call("torch.vector_norm", "linalg_vector_norm", "a ord axes keepdim dtype"),
];

/// For ATen no axis means all of them; a prim without axes reduces nothing.
fn reduces_nothing(recipe: &Recipe<'_>) -> Result<bool, Refusal> {
    Ok(recipe.op.ints("axes")?.is_empty() && recipe.desc("a")?.rank() > 0)
}

fn prims_sum(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    if reduces_nothing(recipe)? {
        recipe.copy(recipe.tensor("a")?, recipe.out(0));
        return Ok(());
    }
    recipe.call("sum.dim_IntList", "a axes =false %dtype")
}

fn extremum(recipe: &mut Recipe<'_>, aten: &str) -> Result<(), Refusal> {
    if recipe.result()?.dtype() != recipe.desc("a")?.dtype() {
        return Err(form("the result has another dtype than the input".into()).attribute("out_dtype"));
    }
    if reduces_nothing(recipe)? {
        recipe.copy(recipe.tensor("a")?, recipe.out(0));
        return Ok(());
    }
    recipe.call(aten, "a axes")
}

/// ATen multiplies along one axis or along all.
fn prims_prod(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let axes = recipe.op.ints("axes")?;
    if reduces_nothing(recipe)? {
        recipe.copy(recipe.tensor("a")?, recipe.out(0));
        return Ok(());
    }
    if axes.len() == recipe.desc("a")?.rank() {
        return recipe.call("prod", "a %dtype");
    }
    let [axis] = axes else {
        return Err(form(format!("the product runs over {} of several axes", axes.len())).attribute("axes"));
    };
    let args =
        vec![recipe.arg("a")?, Arg::Int(*axis), Arg::Bool(false), Arg::Dtype(recipe.result()?.dtype())];
    recipe.call_to_outputs("prod.dim_int", args)
}

fn prod(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match recipe.op.opt_int("axis")? {
        Some(_) => recipe.call("prod.dim_int", "a axis keepdim %dtype"),
        None => recipe.call("prod", "a %dtype"),
    }
}

fn count_nonzero(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match recipe.op.opt_ints("axes")? {
        Some(_) => recipe.call("count_nonzero.dim_IntList", "a axes"),
        None => recipe.call("count_nonzero", "a"),
    }
}

fn median(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match recipe.op.opt_int("axis")? {
        Some(_) => recipe.call("median.dim", "a axis keepdim"),
        None => {
            Err(form("no axis is given; ATen's median of all elements has no index".into()).attribute("axis"))
        }
    }
}

fn searchsorted(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    match recipe.op.tensor("a") {
        Some(_) => recipe.call("searchsorted.Tensor", "edges a out_int32 right"),
        None => recipe.call("searchsorted.Scalar", "edges a out_int32 right"),
    }
}

/// The kernel below `softmax.int`, which writes to a given output; a dtype that differs goes through ATen's own steps.
fn softmax(recipe: &mut Recipe<'_>, aten: &str) -> Result<(), Refusal> {
    let same = |a: TensorDesc<'_>, b: TensorDesc<'_>| a.dtype() == b.dtype();
    if same(recipe.desc("a")?, recipe.result()?) {
        recipe.call(&format!("_{aten}"), "a axis =false")
    } else {
        recipe.call(&format!("{aten}.int"), "a axis %dtype")
    }
}

/// ATen's CPU kernel gives the gradient in the dtype of `g`.
fn softmax_backward(recipe: &mut Recipe<'_>, aten: &str) -> Result<(), Refusal> {
    if recipe.result()?.dtype() != recipe.desc("g")?.dtype() {
        return Err(form("the gradient has another dtype than `g`".into()).attribute("in_dtype"));
    }
    recipe.call(aten, "g out axis in_dtype")
}

/// The softmax of the negated input.
fn softmin(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    if recipe.desc("a")?.dtype() != recipe.result()?.dtype() {
        return Err(form("the result has another dtype than the input".into()).attribute("dtype"));
    }
    let negated = recipe.run("neg", "a")?;
    let axis = recipe.arg("axis")?;
    recipe.call_to_outputs("_softmax", vec![Arg::Reg(negated), axis, Arg::Bool(false)])
}
