//! Statistics along axes: extremes together, variance with mean, order statistics, distances.
//!
//! Deliberately absent: single reductions and sorting itself, which are `reduction`.

use super::build::{Builder, Operand, Tensor};
use super::reduction::{corrected, finish, unbiased};
use super::{Aten, AtenCall, Call, Import, Level, Op, OpError, Sample, Vjp, meta};
use crate::ir::{Arg, Dim, Dtype};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &TORCH_AMINMAX,
    &TORCH_COUNT_NONZERO,
    &TORCH_PAIRWISE_DISTANCE,
    &TORCH_SOFTMIN,
    &TORCH_STD_MEAN,
    &TORCH_VAR_MEAN,
    &TORCH_TRACE,
    &TORCH_KTHVALUE,
    &TORCH_MEDIAN,
    &TORCH_SEARCHSORTED,
];

pub static TORCH_AMINMAX: Op = Op {
    name: "torch.aminmax",
    doc: "Smallest and largest, along an axis or of all; NaN wins.",
    schema: "(a: Tensor, axis: int?, keepdim: bool = false) -> (Tensor, Tensor)",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let axes = match call.opt_int("axis")? {
            Some(axis) => Arg::ints([axis]),
            None => Arg::List(vec![]),
        };
        let keepdim = call.raw("keepdim")?;
        let low = b.tensor("torch.amin", vec![a.arg(), axes.clone(), keepdim.clone()])?;
        let high = b.tensor("torch.amax", vec![a.arg(), axes, keepdim])?;
        Ok(vec![low.arg(), high.arg()])
    }),
    aten: &[Aten { overloads: &["aminmax.default"], import: Import::Map("a=self axis=dim keepdim") }],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[2, 3], axis=-1, keepdim=true"),
        Sample("T[]"),
        Sample("T[3, 4]{nonfinite}, axis=0"),
    ],
    ..Op::BASE
};

pub static TORCH_COUNT_NONZERO: Op = Op {
    name: "torch.count_nonzero",
    doc: "How many elements are not zero, over axes or of all.",
    schema: "(a: Tensor, axes: ints?) -> Tensor<i64>",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let axes = call.axes("axes", a.rank())?;
        let there = b.ne(&a, 0i64)?;
        let ones = b.to(&there, Dtype::I64)?;
        Ok(vec![b.sum(&ones, &axes)?.arg()])
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &["count_nonzero.default", "count_nonzero.dim_IntList"],
        import: Import::Map("a=self axes=dim"),
    }],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[2, 3], axes=[1]"),
        Sample("T[2, 3, 2], axes=[0, -1]"),
        Sample("T[0, 3]"),
    ],
    ..Op::BASE
};

pub static TORCH_PAIRWISE_DISTANCE: Op = Op {
    name: "torch.pairwise_distance",
    doc: "The norm along the last axis of `a - b + eps`.",
    schema: "(a: Tensor, b: Tensor, p: num = 2.0, eps: num = 1e-6, keepdim: bool = false) -> Tensor",
    level: Level::Composite(|b, call| {
        let sum = b.tensor("torch.sub", vec![call.raw("a")?, call.raw("b")?])?;
        let moved = b.tensor("torch.add", vec![sum.arg(), call.raw("eps")?])?;
        Ok(vec![
            b.tensor(
                "torch.vector_norm",
                vec![moved.arg(), call.raw("p")?, Arg::ints([-1]), call.raw("keepdim")?],
            )?
            .arg(),
        ])
    }),
    aten: &[Aten {
        overloads: &["pairwise_distance.default"],
        import: Import::Map("a=x1 b=x2 p eps keepdim"),
    }],
    samples: &[
        Sample("T[2, 3], T[2, 3]"),
        Sample("T[2, 3], T[3], p=1.0, keepdim=true"),
        Sample("T[4, 2, 3], T[1, 2, 3], p=inf"),
    ],
    ..Op::BASE
};

pub static TORCH_SOFTMIN: Op = Op {
    name: "torch.softmin",
    doc: "The softmax of the negated tensor.",
    schema: "(a: Tensor, axis: int, *, dtype: dtype? = None) -> Tensor",
    level: Level::Composite(|b, call| {
        let minus = b.tensor("torch.neg", vec![call.raw("a")?])?;
        Ok(vec![b.tensor("torch.softmax", vec![minus.arg(), call.raw("axis")?, call.raw("dtype")?])?.arg()])
    }),
    samples: &[Sample("T[2, 3], axis=-1"), Sample("T[4], axis=0"), Sample("f32[3], axis=0, dtype=f64")],
    ..Op::BASE
};

pub static TORCH_STD_MEAN: Op = Op {
    name: "torch.std_mean",
    doc: "Standard deviation and mean, with `n - correction` below.",
    schema: "(a: Tensor, axes: ints?, *, correction: num = 1, keepdim: bool = false) -> (Tensor, Tensor)",
    level: Level::Composite(|b, call| spread_and_mean(b, call, true)),
    aten: &[
        Aten {
            overloads: &["std_mean.default", "std_mean.dim"],
            import: Import::With(|b, c| unbiased(b, c, "torch.std_mean")),
        },
        Aten {
            overloads: &["std_mean.correction"],
            import: Import::With(|b, c| corrected(b, c, "torch.std_mean")),
        },
    ],
    samples: &[
        Sample("T[2, 3, 4], axes=[1]"),
        Sample("T[2, 3, 4], axes=[0, 2], correction=0, keepdim=true"),
        Sample("T[5]"),
        Sample("T[2, 3], axes=[-1], correction=2"),
    ],
    ..Op::BASE
};

pub static TORCH_VAR_MEAN: Op = Op {
    name: "torch.var_mean",
    doc: "Variance and mean, with `n - correction` below.",
    schema: "(a: Tensor, axes: ints?, *, correction: num = 1, keepdim: bool = false) -> (Tensor, Tensor)",
    level: Level::Composite(|b, call| spread_and_mean(b, call, false)),
    aten: &[
        Aten {
            overloads: &["var_mean.default", "var_mean.dim"],
            import: Import::With(|b, c| unbiased(b, c, "torch.var_mean")),
        },
        Aten {
            overloads: &["var_mean.correction"],
            import: Import::With(|b, c| corrected(b, c, "torch.var_mean")),
        },
    ],
    samples: &[
        Sample("T[2, 3, 4], axes=[1]"),
        Sample("T[2, 3, 4], axes=[0, 2], correction=0, keepdim=true"),
        Sample("T[5]"),
        Sample("T[2, 3], axes=[-1], correction=2"),
    ],
    ..Op::BASE
};

pub static TORCH_TRACE: Op = Op {
    name: "torch.trace",
    doc: "Sum of the main diagonal; integers and bools sum in i64.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        if a.rank() != 2 {
            return Err(call.error(format!("takes a matrix, found {}", meta::show(a.dims()))));
        }
        let line = b.tensor("prims.diagonal", vec![a.arg(), Arg::Int(0), Arg::Int(0), Arg::Int(1)])?;
        Ok(vec![b.tensor("torch.sum", vec![line.arg()])?.arg()])
    }),
    aten: &[Aten { overloads: &["trace.default"], import: Import::Map("a=self") }],
    samples: &[Sample("T[3, 3]"), Sample("T[2, 4]"), Sample("T[0, 3]")],
    ..Op::BASE
};

pub static TORCH_KTHVALUE: Op = Op {
    name: "torch.kthvalue",
    doc: "The `k`th smallest along an axis, counted from 1, and where it stands; NaN counts as largest.",
    schema: "(a: Tensor, k: int, axis: int = -1, keepdim: bool = false) -> (Tensor, Tensor<i64>)",
    level: Level::Composite(kthvalue),
    aten: &[Aten { overloads: &["kthvalue.default"], import: Import::Map("a=self k axis=dim keepdim") }],
    samples: &[Sample("T[2, 5], k=2"), Sample("T[5, 3], k=1, axis=0, keepdim=true"), Sample("T[], k=1")],
    ..Op::BASE
};

pub static TORCH_MEDIAN: Op = Op {
    name: "torch.median",
    doc: "The lower median along an axis, or of all, and where it stands; NaN wins.",
    schema: "(a: Tensor, axis: int?, keepdim: bool = false) -> (Tensor, Tensor<i64>)",
    level: Level::Composite(median),
    aten: &[
        Aten {
            overloads: &["median.default"],
            import: Import::With(|b, c| {
                Ok(b.call("torch.median", vec![super::import::arg(c, "self")?])?
                    .into_iter()
                    .take(1)
                    .collect())
            }),
        },
        Aten { overloads: &["median.dim"], import: Import::Map("a=self axis=dim keepdim") },
    ],
    samples: &[
        Sample("T[2, 5]"),
        Sample("T[4, 3], axis=0"),
        Sample("T[2, 4], axis=-1, keepdim=true"),
        Sample("T[], axis=0"),
        Sample("T[5]{nonfinite}, axis=0"),
    ],
    ..Op::BASE
};

pub static TORCH_SEARCHSORTED: Op = Op {
    name: "torch.searchsorted",
    doc: "Where each value belongs among the edges, which do not fall along the last dim: before equal ones, or behind them with `right`.",
    schema: "(edges: Tensor, a: Tensor|num, *, out_int32: bool = false, right: bool = false) -> Tensor<i>",
    level: Level::Composite(|b, call| {
        let (edges, a) = (call.tensor("edges")?, call.operand("a")?);
        let dtype = meta::promoted(&[a.clone(), (&edges).into()]);
        let edges = b.to(&edges, dtype)?;
        let values = match &a {
            Operand::Tensor(t) => b.to(t, dtype)?.arg(),
            Operand::Num(n) => super::emit::number_for(n, dtype),
        };
        let out = if call.bool("out_int32")? { Dtype::I32 } else { Dtype::I64 };
        Ok(vec![
            b.tensor("prims.searchsorted", vec![edges.arg(), values, call.raw("right")?, Arg::Dtype(out)])?
                .arg(),
        ])
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &["searchsorted.Tensor", "searchsorted.Scalar"],
        import: Import::With(import_searchsorted),
    }],
    samples: &[
        Sample("T[5]{sorted}, T[2, 3]"),
        Sample("T[2, 4]{sorted}, T[2, 3], right=true"),
        Sample("T[4]{sorted}, 1, out_int32=true"),
    ],
    ..Op::BASE
};

fn spread_and_mean(b: &mut Builder<'_>, call: &Call, deviation: bool) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    if !a.dtype().is_inexact() {
        return Err(call.error(format!("takes floats and complex numbers, found {}", a.dtype())));
    }
    let axes = call.axes("axes", a.rank())?;
    let x = b.to(&a, a.dtype().acc())?;
    let results =
        b.call("prims.var_mean", vec![x.arg(), super::arith::axes_arg(&axes), call.raw("correction")?])?;
    let [Arg::Value(var), Arg::Value(mean)] = results[..] else {
        return Err(call.error("`prims.var_mean` has two results"));
    };
    let (var, mean) = (b.as_tensor(var)?, b.as_tensor(mean)?);
    let spread = if deviation { b.sqrt(&var)? } else { var };
    let spread = b.to(&spread, a.dtype().real())?;
    let mean = b.to(&mean, a.dtype())?;
    Ok(vec![finish(b, call, &spread, a.dims(), &axes)?.arg(), finish(b, call, &mean, a.dims(), &axes)?.arg()])
}

/// Values and places in ascending order, NaN last.
fn ascending(b: &mut Builder<'_>, call: &Call, x: &Tensor, axis: usize) -> Result<[Tensor; 2], OpError> {
    let flags = [Arg::Bool(false), Arg::Bool(true)];
    let results = b.call("prims.sort", [vec![x.arg(), Arg::Int(axis as i64)], flags.to_vec()].concat())?;
    let [Arg::Value(values), Arg::Value(places)] = results[..] else {
        return Err(call.error("`prims.sort` has two results"));
    };
    Ok([b.as_tensor(values)?, b.as_tensor(places)?])
}

/// Dims of 1 at the axis go, unless they are kept or the axis is not the tensor's own.
fn without_axis(
    b: &mut Builder<'_>,
    call: &Call,
    a: &Tensor,
    x: &Tensor,
    axis: usize,
) -> Result<Arg, OpError> {
    let kept = call.bool("keepdim")? && a.rank() > 0;
    Ok(if kept { x.clone() } else { b.squeeze(x, &[axis])? }.arg())
}

fn kthvalue(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, k) = (call.tensor("a")?, call.int("k")?);
    let axis = call.axis("axis", a.rank())?;
    let x = if a.rank() == 0 { b.unsqueeze(&a, 0)? } else { a.clone() };
    if k < 1 || x.dims()[axis].known().is_some_and(|n| k > n) {
        return Err(call.error(format!("`k` is {k}, there are {} elements", x.dims()[axis])));
    }
    let sorted = ascending(b, call, &x, axis)?;
    let (start, end) = (Dim::Known(k - 1), Dim::Known(k));
    sorted
        .iter()
        .map(|t| {
            let one = b.narrow(t, axis, &start, &end)?;
            without_axis(b, call, &a, &one, axis)
        })
        .collect()
}

fn median(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let given = call.tensor("a")?;
    let a = if call.has("axis") { given } else { b.reshape(&given, &[given.ty.numel()])? };
    let axis = if call.has("axis") { call.axis("axis", a.rank())? } else { 0 };
    let x = if a.rank() == 0 { b.unsqueeze(&a, 0)? } else { a.clone() };
    let n = x.dims()[axis].clone();
    if n.is(0) {
        return Err(call.error(format!("axis {axis} of {} has no element", meta::show(x.dims()))));
    }
    let [values, places] = ascending(b, call, &x, axis)?;
    let middle = n.sub(&Dim::Known(1)).floordiv(&Dim::Known(2)).expect("two is not zero");
    let next = middle.add(&Dim::Known(1));
    let mut value = b.narrow(&values, axis, &middle, &next)?;
    let mut place = b.narrow(&places, axis, &middle, &next)?;
    if a.dtype().is_float() {
        // NaN is sorted last, so the last value says whether there is one.
        let last = b.narrow(&values, axis, &n.sub(&Dim::Known(1)), &n)?;
        let unknown = b.ne(&last, &last)?;
        let nans = b.ne(&x, &x)?;
        let nans = b.to(&nans, Dtype::U8)?;
        let first = b.tensor("prims.argmax", vec![nans.arg(), Arg::Int(axis as i64)])?;
        let first = b.keepdim(&first, x.dims(), &[axis])?;
        value = b.select(&unknown, &last, &value)?;
        place = b.select(&unknown, &first, &place)?;
    }
    Ok(vec![without_axis(b, call, &a, &value, axis)?, without_axis(b, call, &a, &place, axis)?])
}

/// `side` says the same as `right`; a sorter is applied first.
fn import_searchsorted(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let mut edges = super::import::tensor(b, c, "sorted_sequence")?;
    if let Some(sorter) = super::import::opt_tensor(b, c, "sorter")? {
        edges = b.tensor("torch.gather", vec![edges.arg(), Arg::Int(-1), sorter.arg()])?;
    }
    let right = match c.arg("side")? {
        Arg::Str(side) => &**side == "right" || super::import::flag(c, "right")?,
        _ => super::import::flag(c, "right")?,
    };
    let args = vec![
        edges.arg(),
        super::import::arg(c, "self")?,
        super::import::arg(c, "out_int32")?,
        Arg::Bool(right),
    ];
    b.call("torch.searchsorted", args)
}
