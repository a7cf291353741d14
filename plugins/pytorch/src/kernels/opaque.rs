//! `aten.*`: any overload under its own name, boxed. Arguments arrive in the order of ATen's own schema.
//!
//! Arguments that the schema writes are copied first and come back as results behind the call's own. `vjp.aten.*` is the
//! gradient of such an op: cotangents stand before its arguments, which of its floating tensors want a gradient behind them;
//! those are the results. It is worked out by calling the op once more, under libtorch's autograd.

use thunderhead_sdk::{Dtype, Refusal};

use thunderhead_aten::recipe::{How, InPlace, Recipe, Row, args_of, form};
use thunderhead_aten::{Arg, Reg, derivative_missing, describe};

/// The row of every opaque op.
pub static ROW: Row = Row { op: "aten.*", how: How::With(build), in_place: InPlace::No };

/// The row of every opaque op's gradient.
pub static VJP_ROW: Row = Row { op: "vjp.aten.*", how: How::With(build_vjp), in_place: InPlace::No };

fn build_vjp(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let name = recipe.op.name();
    let aten = name.strip_prefix("vjp.aten.").unwrap_or(name);
    let described = describe(aten).map_err(|error| {
        Refusal::new("op_unknown", format!("this libtorch does not have it ({})", error.message()))
    })?;
    let mut args = Vec::new();
    for (_, arg) in recipe.op.args() {
        args.push(recipe.convert(arg)?);
    }
    // Cotangents, the op's own arguments, and which gradients are wanted (none: all).
    let wanted = args.pop();
    let n_cotangents = args
        .len()
        .checked_sub(args_of(&described.schema).count())
        .ok_or_else(|| form(format!("`{aten}` has more arguments than were given")))?;
    let own = args.split_off(n_cotangents);
    let cotangents: Vec<Option<Reg>> = args
        .into_iter()
        .flat_map(|arg| match arg {
            Arg::Reg(reg) => vec![Some(reg)],
            Arg::Regs(regs) => regs,
            _ => vec![None],
        })
        .collect();
    let n_inexact = inexact(recipe, &own);
    let wanted = match wanted {
        Some(Arg::Bools(wanted)) => wanted.into_iter().map(|wanted| wanted != 0).collect(),
        _ => vec![true; n_inexact],
    };
    if wanted.len() != n_inexact {
        let n = wanted.len();
        return Err(form(format!("{n} gradients are asked for, `{aten}` has {n_inexact} floating tensors")));
    }
    differentiable(recipe, aten, &own, &wanted)?;
    // Where indices are involved, several values may meet in one element: one thread keeps their order.
    let integers = |desc: thunderhead_sdk::TensorDesc<'_>| desc.dtype().is_int();
    recipe.serial = recipe.deterministic() && recipe.op.inputs().any(integers);
    let gradients = recipe.vjp(aten, own, cotangents, &wanted);
    for (output, reg) in gradients.into_iter().enumerate() {
        recipe.store(reg, output);
    }
    Ok(())
}

/// How many floating and complex tensors stand among the arguments.
fn inexact(recipe: &Recipe<'_>, own: &[Arg]) -> usize {
    let is_inexact = |reg: &Reg| {
        let dtype = recipe.op.input(reg.0 as usize).dtype();
        dtype.is_float() || dtype.is_complex()
    };
    let count = |arg: &Arg| match arg {
        Arg::Reg(reg) => usize::from(is_inexact(reg)),
        Arg::Regs(regs) => regs.iter().flatten().filter(|reg| is_inexact(reg)).count(),
        _ => 0,
    };
    own.iter().map(count).sum()
}

/// Refused is what libtorch's autograd has no derivative of. It is asked with tensors of the same kind that hold nothing.
fn differentiable(recipe: &Recipe<'_>, aten: &str, own: &[Arg], wanted: &[bool]) -> Result<(), Refusal> {
    let inputs: Vec<(Vec<i64>, Dtype)> = recipe
        .op
        .inputs()
        .map(|tensor| (tensor.dims().iter().map(|dim| (*dim).max(1)).collect(), tensor.dtype()))
        .collect();
    match derivative_missing(aten, own, wanted, &inputs)? {
        None => Ok(()),
        Some(node) => Err(Refusal::new(
            "no_derivative",
            format!("libtorch's autograd has no derivative of `{aten}` ({node})"),
        )),
    }
}

fn build(recipe: &mut Recipe<'_>) -> Result<(), Refusal> {
    let name = recipe.op.name();
    let aten = name.strip_prefix("aten.").unwrap_or(name);
    let described = describe(aten).map_err(|error| {
        Refusal::new("op_unknown", format!("this libtorch does not have it ({})", error.message()))
    })?;
    let mut args = Vec::new();
    for (_, arg) in recipe.op.args() {
        args.push(recipe.convert(arg)?);
    }
    let written: Vec<usize> = args_of(&described.schema)
        .enumerate()
        .filter(|(_, arg)| arg.contains('!'))
        .map(|(idx, _)| idx)
        .collect();
    if written.is_empty() {
        return returns(recipe, aten, args, recipe.op.n_outputs(), &described.schema);
    }
    // The last outputs are the written arguments.
    let Some(first) = recipe.op.n_outputs().checked_sub(written.len()) else {
        return Err(form(format!(
            "{} arguments are written, {} results are asked for",
            written.len(),
            recipe.op.n_outputs()
        )));
    };
    for (output, idx) in (first..).zip(written) {
        let out = recipe.out(output);
        match args.get(idx) {
            Some(Arg::Reg(reg)) => recipe.copy(*reg, out),
            _ => return Err(form("a written argument is no tensor".into())),
        }
        args[idx] = Arg::Reg(out);
    }
    let results = recipe.call_results(aten, args, first);
    for (output, reg) in results.into_iter().enumerate() {
        recipe.store(reg, output);
    }
    Ok(())
}

/// Results to outputs: one each, or a list that is all of them.
fn returns(
    recipe: &mut Recipe<'_>,
    aten: &str,
    args: Vec<Arg>,
    n: usize,
    schema: &str,
) -> Result<(), Refusal> {
    let returned = schema.rsplit_once("->").map_or("", |(_, returned)| returned.trim());
    if returned.ends_with("[]") {
        let list = recipe.run_with(aten, args);
        for (output, reg) in recipe.unpack(thunderhead_aten::When::Run, list, n).into_iter().enumerate() {
            recipe.store(reg, output);
        }
        return Ok(());
    }
    if returned.contains("[]") {
        return Err(form(format!("it returns {returned}")));
    }
    recipe.call_to_outputs(aten, args)
}
