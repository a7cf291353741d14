//! Ops that make tensors of nothing: they write straight into the output.

use thunderhead_sdk::Refusal;

use thunderhead_aten::Arg;
use thunderhead_aten::recipe::{Recipe, Row, call, form, with};

/// What this family runs.
pub static ROWS: &[Row] = &[
    call("prims.empty", "zero_", "%o0"),
    call("prims.full", "fill_.Scalar", "%o0 value"),
    with("prims.iota", iota),
    with("torch.arange", arange),
    // Contents are unspecified; zeros keep runs alike.
    call("torch.empty", "zero_", "%o0"),
    call("torch.eye", "eye.m_out", "n m %o0"),
    call("torch.full", "fill_.Scalar", "%o0 value"),
    call("torch.full_like", "fill_.Scalar", "%o0 value"),
    call("torch.linspace", "linspace.out", "start end steps %o0"),
    call("torch.logspace", "logspace.out", "start end steps base %o0"),
    call("torch.ones", "fill_.Scalar", "%o0 =1"),
    call("torch.ones_like", "fill_.Scalar", "%o0 =1"),
    call("torch.tril_indices", "tril_indices", "rows cols offset %dtype"),
    call("torch.triu_indices", "triu_indices", "rows cols offset %dtype"),
    call("torch.zeros", "zero_", "%o0"),
    call("torch.zeros_like", "zero_", "%o0"),
    call("torch.hann_window", "hann_window.periodic", "n periodic %dtype"),
];

/// `start + i * step`; ATen takes an end, which is exact for integers only.
fn iota(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    if !recipe.result()?.dtype().is_int() {
        return Err(
            form(format!("counts in {}; integers are taken", recipe.result()?.dtype())).attribute("dtype")
        );
    }
    let (n, start, step) = (recipe.op.int("n")?, recipe.op.int("start")?, recipe.op.int("step")?);
    let end = n.checked_mul(step).and_then(|span| start.checked_add(span));
    let end = end.ok_or_else(|| form("the last number is out of range".into()))?;
    if n == 0 {
        return recipe.call("zero_", "%o0");
    }
    recipe.effect(
        "arange.start_out",
        vec![Arg::Int(start), Arg::Int(end), Arg::Int(step), Arg::Reg(recipe.out(0))],
    );
    Ok(())
}

fn arange(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    recipe.call("arange.start_out", "start end step %o0")
}
