//! Running extremes, products and sums of exponentials along an axis.
//!
//! Deliberately absent: the running sum, which most models use, in `reduction`.

use super::arith::Built;
use super::build::{Builder, Tensor};
use super::{Aten, Call, Grad, Import, Level, Meta, Op, OpError, Sample, Vjp, meta};
use crate::ir::{Arg, Dtype, Type};

/// Every op of this family.
pub static OPS: &[&Op] =
    &[&CUMMAX, &CUMPROD, &LOGCUMSUMEXP, &TORCH_CUMMAX, &TORCH_CUMMIN, &TORCH_CUMPROD, &TORCH_LOGCUMSUMEXP];

pub static CUMMAX: Op = Op {
    name: "prims.cummax",
    doc: "The greatest so far along an axis and where it stood last; NaN wins.",
    schema: "(a: Tensor<r|b>, axis: int) -> (Tensor, Tensor<i64>)",
    meta: Meta::Fn(|call| {
        let a = along(call)?;
        let index = meta::one(a.dims().to_vec(), Dtype::I64, &a.ty)?;
        Ok([vec![Some(Type::Tensor(a.ty))], index].concat())
    }),
    vjp: Vjp::Rule(|b, d| {
        let Some(g) = d.cotangent(0) else { return Ok(vec![None]) };
        let zero = b.full(g.dims(), 0.0, g.dtype(), &g.ty.device)?;
        let index = d.output(1)?;
        Ok(vec![Some(
            b.tensor("prims.scatter_add", vec![zero.arg(), index.arg(), g.arg(), d.call.raw("axis")?])?,
        )])
    }),
    samples: &[
        Sample("T[2, 3], axis=1"),
        Sample("T[4, 3], axis=0"),
        Sample("T[0], axis=0"),
        Sample("T[5]{nonfinite}, axis=0"),
    ],
    ..Op::BASE
};

pub static CUMPROD: Op = Op {
    name: "prims.cumprod",
    doc: "Running product along an axis. f16 and bf16 accumulate in f32.",
    schema: "(a: Tensor<n>, axis: int) -> Tensor",
    meta: Meta::Fn(same_along),
    vjp: Vjp::Rule(cumprod_rule),
    samples: &[
        Sample("T[2, 3], axis=1"),
        Sample("T[4, 3], axis=0"),
        Sample("T[0], axis=0"),
        Sample("T[5]{nonfinite}, axis=0"),
    ],
    ..Op::BASE
};

pub static LOGCUMSUMEXP: Op = Op {
    name: "prims.logcumsumexp",
    doc: "Logarithm of the running sum of exponentials along an axis, without overflow.",
    schema: "(a: Tensor<x>, axis: int) -> Tensor",
    meta: Meta::Fn(same_along),
    vjp: Vjp::Rule(logcumsumexp_rule),
    samples: &[
        Sample("T[2, 3], axis=1"),
        Sample("T[4, 3], axis=0"),
        Sample("T[0], axis=0"),
        Sample("T[5]{nonfinite}, axis=0"),
    ],
    ..Op::BASE
};

pub static TORCH_CUMMAX: Op = Op {
    name: "torch.cummax",
    doc: "The greatest so far along an axis and where it stood last; NaN wins.",
    schema: "(a: Tensor, axis: int) -> (Tensor, Tensor<i64>)",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let axis = call.axis("axis", a.rank())?;
        greatest_so_far(b, &a, axis)
    }),
    aten: &[Aten { overloads: &["cummax.default"], import: Import::Map("a=self axis=dim") }],
    samples: &[
        Sample("T[2, 3], axis=-1"),
        Sample("T[4, 3], axis=0"),
        Sample("T[], axis=0"),
        Sample("T[0], axis=0"),
        Sample("T[5]{nonfinite}, axis=0"),
    ],
    ..Op::BASE
};

pub static TORCH_CUMMIN: Op = Op {
    name: "torch.cummin",
    doc: "The least so far along an axis and where it stood last; NaN wins.",
    schema: "(a: Tensor, axis: int) -> (Tensor, Tensor<i64>)",
    level: Level::Composite(cummin),
    aten: &[Aten { overloads: &["cummin.default"], import: Import::Map("a=self axis=dim") }],
    samples: &[
        Sample("T[2, 3], axis=-1"),
        Sample("T[4, 3], axis=0"),
        Sample("T[], axis=0"),
        Sample("T[0], axis=0"),
        Sample("T[5]{nonfinite}, axis=0"),
    ],
    ..Op::BASE
};

pub static TORCH_CUMPROD: Op = Op {
    name: "torch.cumprod",
    doc: "Running product along an axis; integers and bools multiply in i64 unless `dtype` says otherwise.",
    schema: "(a: Tensor, axis: int, *, dtype: dtype? = None) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let axis = call.axis("axis", a.rank())?;
        let natural = if a.dtype().is_inexact() { a.dtype() } else { Dtype::I64 };
        let a = b.to(&a, call.opt_dtype("dtype")?.unwrap_or(natural))?;
        scanned(b, "prims.cumprod", &a, axis)
    }),
    aten: &[Aten {
        overloads: &["cumprod.default", "cumprod_.default"],
        import: Import::Map("a=self axis=dim dtype"),
    }],
    samples: &[
        Sample("T[2, 3], axis=-1"),
        Sample("T[4, 3], axis=0"),
        Sample("T[], axis=0"),
        Sample("T[0], axis=0"),
        Sample("T[5]{nonfinite}, axis=0"),
        Sample("bool[5], axis=0"),
        Sample("f32[3], axis=0, dtype=f64"),
    ],
    ..Op::BASE
};

pub static TORCH_LOGCUMSUMEXP: Op = Op {
    name: "torch.logcumsumexp",
    doc: "Logarithm of the running sum of exponentials along an axis.",
    schema: "(a: Tensor, axis: int) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let axis = call.axis("axis", a.rank())?;
        scanned(b, "prims.logcumsumexp", &a, axis)
    }),
    aten: &[Aten { overloads: &["logcumsumexp.default"], import: Import::Map("a=self axis=dim") }],
    samples: &[
        Sample("T[2, 3], axis=-1"),
        Sample("T[4, 3], axis=0"),
        Sample("T[], axis=0"),
        Sample("T[0], axis=0"),
        Sample("T[5]{nonfinite}, axis=0"),
    ],
    ..Op::BASE
};

/// The tensor of a scan whose axis is in range.
fn along(call: &Call) -> Result<Tensor, OpError> {
    let a = call.tensor("a")?;
    super::reduction::prim_axis(call, "axis", a.rank())?;
    Ok(a)
}

fn same_along(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    Ok(vec![Some(Type::Tensor(along(call)?.ty))])
}

/// A scan with one result; of a zero-dim tensor its element.
fn scanned(b: &mut Builder<'_>, prim: &str, a: &Tensor, axis: usize) -> Result<Vec<Arg>, OpError> {
    if a.rank() == 0 && a.dtype().is_inexact() {
        return Ok(vec![a.arg()]);
    }
    let x = if a.rank() == 0 { b.unsqueeze(a, 0)? } else { a.clone() };
    let y = b.tensor(prim, vec![x.arg(), Arg::Int(axis as i64)])?;
    Ok(vec![if a.rank() == 0 { b.squeeze(&y, &[0])? } else { y }.arg()])
}

fn greatest_so_far(b: &mut Builder<'_>, a: &Tensor, axis: usize) -> Result<Vec<Arg>, OpError> {
    let x = if a.rank() == 0 { b.unsqueeze(a, 0)? } else { a.clone() };
    let results = b.call("prims.cummax", vec![x.arg(), Arg::Int(axis as i64)])?;
    if a.rank() > 0 {
        return Ok(results);
    }
    results
        .iter()
        .filter_map(Arg::value)
        .map(|v| {
            let t = b.as_tensor(v)?;
            Ok(b.squeeze(&t, &[0])?.arg())
        })
        .collect()
}

/// The greatest of what is turned around: floats are negated, of integers and bools each bit is turned, which has no
/// overflow and keeps unsigned ones in order.
fn cummin(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let axis = call.axis("axis", a.rank())?;
    let turn = if a.dtype().is_inexact() { "prims.neg" } else { "prims.bitwise_not" };
    let turned = b.unary(turn, &a)?;
    let mut results = greatest_so_far(b, &turned, axis)?;
    if let Some(Arg::Value(v)) = results.first() {
        let values = b.as_tensor(*v)?;
        results[0] = b.unary(turn, &values)?.arg();
    }
    Ok(results)
}

/// The running sum from the other end.
fn summed_back(b: &mut Builder<'_>, x: &Tensor, axis: &Arg, prim: &str) -> Built {
    let axes = Arg::List(vec![axis.clone()]);
    let turned = b.tensor("prims.flip", vec![x.arg(), axes.clone()])?;
    let sum = b.tensor(prim, vec![turned.arg(), axis.clone()])?;
    b.tensor("prims.flip", vec![sum.arg(), axes])
}

/// Element i has a share in all products from i on: their sum divided by it. At the first zero of a line the products
/// without that factor count instead; behind it every product holds that zero, so nothing is left.
fn cumprod_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, g, axis) = (d.call.tensor("a")?, d.g()?, d.call.raw("axis")?);
    let a = if a.dtype().is_complex() { b.unary("prims.conj", &a)? } else { a };
    let is_zero = b.eq(&a, 0.0)?;
    let ones = b.to(&is_zero, Dtype::I64)?;
    let met = b.tensor("prims.cumsum", vec![ones.arg(), axis.clone()])?;
    let (none, one) = (b.eq(&met, 0i64)?, b.eq(&met, 1i64)?);
    let first = b.binary("prims.bitwise_and", &one, &is_zero)?;
    let products = b.tensor("prims.cumprod", vec![a.arg(), axis.clone()])?;
    let weighted = b.mul(&g, &products)?;
    let sums = summed_back(b, &weighted, &axis, "prims.cumsum")?;
    let divisor = b.select(&is_zero, 1.0, &a)?;
    let before = b.div(&sums, &divisor)?;
    let without = b.select(&first, 1.0, &a)?;
    let products = b.tensor("prims.cumprod", vec![without.arg(), axis.clone()])?;
    let weighted = b.mul(&g, &products)?;
    let sums = summed_back(b, &weighted, &axis, "prims.cumsum")?;
    let at_first = b.select(&first, &sums, 0.0)?;
    Ok(vec![Some(b.select(&none, &before, &at_first)?)])
}

/// Element i has the share exp(a_i - y_j) in each j from i on. Positive and negative cotangents are summed apart, by
/// their logarithms, so that nothing overflows.
fn logcumsumexp_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, y, g, axis) = (d.call.tensor("a")?, d.output(0)?, d.g()?, d.call.raw("axis")?);
    if a.dtype().is_complex() {
        // No sides to tell apart: a complex logarithm holds the sign. Zero has none that is finite.
        let g = b.conj(&g)?;
        let none = b.eq(&g, 0.0)?;
        let size = b.select(&none, 1.0, &g)?;
        let log = b.log(&size)?;
        let log = b.sub(&log, &y)?;
        let log = b.select(&none, f64::NEG_INFINITY, &log)?;
        let sum = summed_back(b, &log, &axis, "prims.logcumsumexp")?;
        let share = b.add(&sum, &a)?;
        let share = b.exp(&share)?;
        return Ok(vec![Some(b.conj(&share)?)]);
    }
    let mut parts = Vec::with_capacity(2);
    for negative in [false, true] {
        let side = if negative { b.neg(&g)? } else { g.clone() };
        let on = b.binary("prims.gt", &side, 0.0)?;
        let size = b.select(&on, &side, 1.0)?;
        let log = b.log(&size)?;
        let log = b.sub(&log, &y)?;
        let log = b.select(&on, &log, f64::NEG_INFINITY)?;
        let sum = summed_back(b, &log, &axis, "prims.logcumsumexp")?;
        let share = b.add(&sum, &a)?;
        parts.push(b.exp(&share)?);
    }
    Ok(vec![Some(b.sub(&parts[0], &parts[1])?)])
}
