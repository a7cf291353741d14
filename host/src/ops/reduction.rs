//! Reductions, softmaxes, scans, sorting: what runs along axes.
//!
//! Reductions of f16 and bf16 accumulate in f32 and round once; those made of several prims are computed in f32
//! altogether and converted at the end. Prims take canonical axes and drop them; an empty list reduces nothing.
//! Composites take negative ones, and an absent or empty list means all.

use super::arith::{Built, all_axes};
use super::aten::{Aten, AtenCall, Import};
use super::build::{Builder, Num, Operand, Tensor};
use super::emit::number_for;
use super::{Call, Grad, Level, Meta, Op, OpError, Sample, Vjp, import, meta};
use crate::ir::{Arg, Dim, Dtype, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &SUM,
    &PROD,
    &AMAX,
    &AMIN,
    &ARGMAX,
    &ARGMIN,
    &VAR,
    &VAR_MEAN,
    &CUMSUM,
    &SORT,
    &TOPK,
    &SEARCHSORTED,
    &TORCH_SUM,
    &TORCH_MEAN,
    &TORCH_PROD,
    &TORCH_AMAX,
    &TORCH_AMIN,
    &TORCH_MAX_DIM,
    &TORCH_MIN_DIM,
    &TORCH_ARGMAX,
    &TORCH_ARGMIN,
    &TORCH_ALL,
    &TORCH_ANY,
    &TORCH_VAR,
    &TORCH_STD,
    &TORCH_VECTOR_NORM,
    &TORCH_COSINE_SIMILARITY,
    &TORCH_SOFTMAX,
    &TORCH_SAFE_SOFTMAX,
    &TORCH_LOG_SOFTMAX,
    &TORCH_LOGSUMEXP,
    &TORCH_SOFTMAX_BACKWARD,
    &TORCH_LOG_SOFTMAX_BACKWARD,
    &TORCH_CUMSUM,
    &TORCH_DIFF,
    &TORCH_SORT,
    &TORCH_ARGSORT,
    &TORCH_TOPK,
    &TORCH_BUCKETIZE,
];

const REDUCE: &[Sample] = &[
    Sample("T[2, 3, 4], axes=[1]"),
    Sample("T[2, 3, 4], axes=[0, 2]"),
    Sample("T[5], axes=[0]"),
    Sample("T[2, 3], axes=[]"),
    Sample("T[0, 3], axes=[1]"),
    Sample("T[3, 4]{nonfinite}, axes=[1]"),
];
const REDUCE_EMPTY: &[Sample] = &[
    Sample("T[2, 3, 4], axes=[1]"),
    Sample("T[2, 3, 4], axes=[0, 2]"),
    Sample("T[5], axes=[0]"),
    Sample("T[2, 3], axes=[]"),
    Sample("T[2, 0], axes=[1]"),
    Sample("T[3, 4]{nonfinite}, axes=[1]"),
    Sample("i32[4, 3]{-9..9}, axes=[0], out_dtype=i64"),
];

pub static SUM: Op = Op {
    name: "prims.sum",
    doc: "Sum over axes. f16 and bf16 accumulate in f32, integers in i64; nothing sums to 0; of bools: any. With \
          `out_dtype` the sum is not rounded to the input's dtype in between.",
    schema: "(a: Tensor<a>, axes: ints, *, out_dtype: dtype?) -> Tensor",
    meta: Meta::Fn(reduction_meta),
    vjp: Vjp::Rule(|b, d| {
        let (a, g) = (d.call.tensor("a")?, d.g()?);
        let g = b.to(&g, a.dtype())?;
        Ok(vec![Some(b.spread(&g, a.dims(), &reduced(d)?)?)])
    }),
    samples: REDUCE_EMPTY,
    ..Op::BASE
};

pub static PROD: Op = Op {
    name: "prims.prod",
    doc: "Product over axes. f16 and bf16 accumulate in f32, integers in i64; nothing gives 1.",
    schema: "(a: Tensor<n>, axes: ints, *, out_dtype: dtype?) -> Tensor",
    meta: Meta::Fn(reduction_meta),
    vjp: Vjp::Rule(product_rule),
    samples: REDUCE_EMPTY,
    ..Op::BASE
};

pub static AMAX: Op = Op {
    name: "prims.amax",
    doc: "Largest over axes; NaN wins. Nothing has no largest: an error, but false for bools.",
    schema: "(a: Tensor<r|b>, axes: ints, *, out_dtype: dtype?) -> Tensor",
    meta: Meta::Fn(extremum_meta),
    vjp: Vjp::Rule(extreme_rule),
    samples: REDUCE,
    ..Op::BASE
};

pub static AMIN: Op = Op {
    name: "prims.amin",
    doc: "Smallest over axes; NaN wins. Nothing has no smallest: an error, but true for bools.",
    schema: "(a: Tensor<r|b>, axes: ints, *, out_dtype: dtype?) -> Tensor",
    meta: Meta::Fn(extremum_meta),
    vjp: Vjp::Rule(extreme_rule),
    samples: REDUCE,
    ..Op::BASE
};

const ARG: &[Sample] = &[
    Sample("T[2, 3, 4], axis=1"),
    Sample("T[2, 3, 4]"),
    Sample("T[0, 3], axis=1"),
    Sample("i64[3, 5]{0..2}, axis=1"),
    Sample("T[3, 4]{nonfinite}, axis=1"),
];

pub static ARGMAX: Op = Op {
    name: "prims.argmax",
    doc: "Index of the largest along an axis, or in row-major order of all; the first of equals, NaN is largest.",
    schema: "(a: Tensor<r|b>, axis: int?) -> Tensor<i64>",
    meta: Meta::Fn(arg_extremum_meta),
    vjp: Vjp::NonDiff,
    samples: ARG,
    ..Op::BASE
};

pub static ARGMIN: Op = Op {
    name: "prims.argmin",
    doc: "Index of the smallest along an axis, or in row-major order of all; the first of equals, NaN is smallest.",
    schema: "(a: Tensor<r|b>, axis: int?) -> Tensor<i64>",
    meta: Meta::Fn(arg_extremum_meta),
    vjp: Vjp::NonDiff,
    samples: ARG,
    ..Op::BASE
};

const VARIANCE: &[Sample] = &[
    Sample("T[2, 3, 4], axes=[1], correction=1"),
    Sample("T[2, 3, 4], axes=[0, 2], correction=0"),
    Sample("T[2, 1], axes=[1], correction=1"),
    Sample("T[3, 2], axes=[1], correction=0.5"),
    Sample("T[0, 3], axes=[1], correction=0"),
];

pub static VAR: Op = Op {
    name: "prims.var",
    doc: "Variance over axes: sum of squared distances from the mean over `max(n - correction, 0)`, two-pass or \
          Welford, f16 and bf16 in f32. Complex input: of magnitudes of distances, in the real dtype.",
    schema: "(a: Tensor<x>, axes: ints, *, correction: num) -> Tensor",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let dims = meta::reduced_dims(a.dims(), &prim_axes(call, a.rank())?, false);
        meta::one(dims, a.dtype().real(), &a.ty)
    }),
    vjp: Vjp::Rule(|b, d| {
        let g = d.cotangent(0);
        variance_rule(b, d, g, None)
    }),
    samples: VARIANCE,
    ..Op::BASE
};

pub static VAR_MEAN: Op = Op {
    name: "prims.var_mean",
    doc: "Variance (as `prims.var`) and mean over axes, in one pass over memory.",
    schema: "(a: Tensor<x>, axes: ints, *, correction: num) -> (Tensor, Tensor)",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let dims = meta::reduced_dims(a.dims(), &prim_axes(call, a.rank())?, false);
        let var = meta::one(dims.clone(), a.dtype().real(), &a.ty)?;
        Ok([var, meta::one(dims, a.dtype(), &a.ty)?].concat())
    }),
    vjp: Vjp::Rule(|b, d| variance_rule(b, d, d.cotangent(0), d.cotangent(1))),
    samples: VARIANCE,
    ..Op::BASE
};

pub static CUMSUM: Op = Op {
    name: "prims.cumsum",
    doc: "Running sum along an axis. f16 and bf16 accumulate in f32.",
    schema: "(a: Tensor<n>, axis: int) -> Tensor",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        prim_axis(call, "axis", a.rank())?;
        meta::one(a.dims().to_vec(), a.dtype(), &a.ty)
    }),
    vjp: Vjp::Rule(|b, d| {
        let (g, axis) = (d.g()?, d.call.raw("axis")?);
        // Element i reaches all from i on: the sum from the other end.
        let axes = Arg::List(vec![axis.clone()]);
        let turned = b.tensor("prims.flip", vec![g.arg(), axes.clone()])?;
        let sum = b.tensor("prims.cumsum", vec![turned.arg(), axis])?;
        Ok(vec![Some(b.tensor("prims.flip", vec![sum.arg(), axes])?)])
    }),
    samples: &[
        Sample("T[2, 3], axis=1"),
        Sample("T[4, 3], axis=0"),
        Sample("T[0], axis=0"),
        Sample("T[5]{nonfinite}, axis=0"),
    ],
    ..Op::BASE
};

pub static SORT: Op = Op {
    name: "prims.sort",
    doc: "Sorted values along an axis and where they stood. NaN counts as largest; `stable` keeps the order of equals.",
    schema: "(a: Tensor<r|b>, axis: int, descending: bool, stable: bool) -> (Tensor, Tensor<i64>)",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        prim_axis(call, "axis", a.rank())?;
        values_and_indices(a.dims().to_vec(), &a)
    }),
    vjp: Vjp::Rule(|b, d| {
        let Some(g) = d.cotangent(0) else { return Ok(vec![None]) };
        let (a, index, axis) = (d.call.tensor("a")?, d.output(1)?, d.call.raw("axis")?);
        let zero = b.full(a.dims(), 0.0, a.dtype(), &a.ty.device)?;
        // No index meets another, so nothing is added up.
        Ok(vec![Some(b.tensor("prims.scatter", vec![zero.arg(), index.arg(), g.arg(), axis])?)])
    }),
    samples: &[
        Sample("T[4, 5], axis=1, descending=false, stable=true"),
        Sample("T[4, 5], axis=0, descending=true, stable=true"),
        Sample("i64[7]{0..3}, axis=0, descending=false, stable=true"),
        Sample("i64[7]{0..3}, axis=0, descending=true, stable=true"),
        Sample("T[6]{nonfinite}, axis=0, descending=true, stable=true"),
        Sample("T[0, 3], axis=0, descending=false, stable=false"),
    ],
    ..Op::BASE
};

pub static TOPK: Op = Op {
    name: "prims.topk",
    doc: "The `k` largest (or smallest) along an axis and where they stood; NaN counts as largest. The order of equals \
          is not promised.",
    schema: "(a: Tensor<r>, k: dim, axis: int, largest: bool, sorted: bool) -> (Tensor, Tensor<i64>)",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let axis = prim_axis(call, "axis", a.rank())?;
        let k = call.dim("k")?;
        if let (Some(k), Some(n)) = (k.known(), a.dims()[axis].known())
            && !(0..=n).contains(&k)
        {
            return Err(call.error(format!("`k` is {k}, the axis has {n} elements")));
        }
        let mut dims = a.dims().to_vec();
        dims[axis] = k;
        values_and_indices(dims, &a)
    }),
    vjp: Vjp::Rule(|b, d| {
        let Some(g) = d.cotangent(0) else { return Ok(vec![None]) };
        let (a, index, axis) = (d.call.tensor("a")?, d.output(1)?, d.call.raw("axis")?);
        let zero = b.full(a.dims(), 0.0, a.dtype(), &a.ty.device)?;
        // No index meets another, so nothing is added up.
        Ok(vec![Some(b.tensor("prims.scatter", vec![zero.arg(), index.arg(), g.arg(), axis])?)])
    }),
    samples: &[
        Sample("T[3, 5], k=2, axis=1, largest=true, sorted=true"),
        Sample("T[5, 3], k=5, axis=0, largest=false, sorted=true"),
        Sample("T[3, 5], k=0, axis=1, largest=true, sorted=true"),
    ],
    ..Op::BASE
};

pub static SEARCHSORTED: Op = Op {
    name: "prims.searchsorted",
    doc: "Where each value belongs in ascending edges: how many edges are below it, or, with `right`, not above it. \
          Edges are 1-d, or have the dims of `values` but for the last. NaN stands behind all edges.",
    schema: "(edges: Tensor<r>, values: Tensor<r>|num, *, right: bool, out_dtype: dtype) -> Tensor<i>",
    meta: Meta::Fn(searchsorted_meta),
    vjp: Vjp::NonDiff,
    samples: &[
        Sample("T[5]{sorted}, T[2, 3], right=false, out_dtype=i64"),
        Sample("T[5]{sorted}, T[2, 3], right=true, out_dtype=i32"),
        Sample("T[0], T[4], right=false, out_dtype=i64"),
        Sample("i64[3]{sorted}, i64[6]{0..5}, right=true, out_dtype=i64"),
    ],
    ..Op::BASE
};

const REDUCE_COMPOSITE: &[Sample] = &[
    Sample("T[2, 3, 4], axes=[-2]"),
    Sample("T[2, 3, 4], axes=[0, 2], keepdim=true"),
    Sample("T[2, 3]"),
    Sample("T[2, 3], keepdim=true"),
    Sample("T[]"),
    Sample("T[], axes=[0]"),
    Sample("T[2, 0], axes=[1]"),
    Sample("T[3, 4]{nonfinite}, axes=[1]"),
];
const EXTREMUM: &[Sample] = &[
    Sample("T[2, 3, 4], axes=[-2]"),
    Sample("T[2, 3, 4], axes=[0, 2], keepdim=true"),
    Sample("T[2, 3], axes=[]"),
    Sample("T[], axes=[-1]"),
    Sample("T[0, 3], axes=[1]"),
    Sample("T[3, 4]{nonfinite}, axes=[1]"),
];

pub static TORCH_SUM: Op = Op {
    name: "torch.sum",
    doc: "Sum; integers and bools sum in i64 unless `dtype` says otherwise.",
    schema: "(a: Tensor, axes: ints?, keepdim: bool = false, *, dtype: dtype? = None) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let axes = call.axes("axes", a.rank())?;
        sum_like(b, call, "prims.sum", &axes)
    }),
    aten: &[
        Aten { overloads: &["sum.default"], import: Import::Map("a=self dtype") },
        Aten { overloads: &["sum.dim_IntList"], import: Import::Map("a=self axes=dim keepdim dtype") },
    ],
    samples: REDUCE_COMPOSITE,
    ..Op::BASE
};

pub static TORCH_MEAN: Op = Op {
    name: "torch.mean",
    doc: "Arithmetic mean; of nothing NaN. Integers need `dtype`.",
    schema: "(a: Tensor, axes: ints?, keepdim: bool = false, *, dtype: dtype? = None) -> Tensor",
    level: Level::Composite(mean),
    aten: &[
        Aten { overloads: &["mean.default"], import: Import::Map("a=self dtype") },
        Aten { overloads: &["mean.dim"], import: Import::Map("a=self axes=dim keepdim dtype") },
    ],
    samples: REDUCE_COMPOSITE,
    ..Op::BASE
};

pub static TORCH_PROD: Op = Op {
    name: "torch.prod",
    doc: "Product of all elements or along one axis; integers and bools multiply in i64 unless `dtype` says otherwise.",
    schema: "(a: Tensor, axis: int?, keepdim: bool = false, *, dtype: dtype? = None) -> Tensor",
    level: Level::Composite(|b, call| {
        let axes = opt_axis(call, call.tensor("a")?.rank())?;
        sum_like(b, call, "prims.prod", &axes)
    }),
    aten: &[
        Aten { overloads: &["prod.default"], import: Import::Map("a=self dtype") },
        Aten { overloads: &["prod.dim_int"], import: Import::Map("a=self axis=dim keepdim dtype") },
    ],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[2, 3], axis=-1, keepdim=true"),
        Sample("T[]"),
        Sample("T[0], axis=0"),
        Sample("bool[3]"),
    ],
    ..Op::BASE
};

pub static TORCH_AMAX: Op = Op {
    name: "torch.amax",
    doc: "Largest; NaN wins, nothing is an error. Equal largest ones share the gradient.",
    schema: "(a: Tensor, axes: ints, keepdim: bool = false) -> Tensor",
    level: Level::Composite(|b, call| extremum(b, call, "prims.amax")),
    aten: &[
        Aten { overloads: &["amax.default"], import: Import::Map("a=self axes=dim keepdim") },
        Aten { overloads: &["max.default"], import: Import::With(|b, c| of_all(b, c, "torch.amax")) },
    ],
    samples: EXTREMUM,
    ..Op::BASE
};

pub static TORCH_AMIN: Op = Op {
    name: "torch.amin",
    doc: "Smallest; NaN wins, nothing is an error. Equal smallest ones share the gradient.",
    schema: "(a: Tensor, axes: ints, keepdim: bool = false) -> Tensor",
    level: Level::Composite(|b, call| extremum(b, call, "prims.amin")),
    aten: &[
        Aten { overloads: &["amin.default"], import: Import::Map("a=self axes=dim keepdim") },
        Aten { overloads: &["min.default"], import: Import::With(|b, c| of_all(b, c, "torch.amin")) },
    ],
    samples: EXTREMUM,
    ..Op::BASE
};

const ALONG: &[Sample] = &[
    Sample("T[2, 3, 4], axis=1"),
    Sample("T[2, 3], axis=-1, keepdim=true"),
    Sample("T[], axis=0"),
    Sample("T[0, 3], axis=1"),
    Sample("T[3, 4]{nonfinite}, axis=1"),
    Sample("i64[3, 5]{0..2}, axis=0"),
];

pub static TORCH_MAX_DIM: Op = Op {
    name: "torch.max_dim",
    doc: "Largest along an axis and its index: the first of equals, which alone has the gradient; NaN is largest.",
    schema: "(a: Tensor, axis: int, keepdim: bool = false) -> (Tensor, Tensor<i64>)",
    level: Level::Composite(|b, call| extremum_and_index(b, call, "prims.argmax")),
    aten: &[Aten { overloads: &["max.dim"], import: Import::Map("a=self axis=dim keepdim") }],
    samples: ALONG,
    ..Op::BASE
};

pub static TORCH_MIN_DIM: Op = Op {
    name: "torch.min_dim",
    doc: "Smallest along an axis and its index: the first of equals, which alone has the gradient; NaN is smallest.",
    schema: "(a: Tensor, axis: int, keepdim: bool = false) -> (Tensor, Tensor<i64>)",
    level: Level::Composite(|b, call| extremum_and_index(b, call, "prims.argmin")),
    aten: &[Aten { overloads: &["min.dim"], import: Import::Map("a=self axis=dim keepdim") }],
    samples: ALONG,
    ..Op::BASE
};

const ARG_COMPOSITE: &[Sample] = &[
    Sample("T[2, 3, 4], axis=-2"),
    Sample("T[2, 3], axis=0, keepdim=true"),
    Sample("T[2, 3]"),
    Sample("T[2, 3], keepdim=true"),
    Sample("T[], axis=0"),
    Sample("T[3, 4]{nonfinite}, axis=1"),
];

pub static TORCH_ARGMAX: Op = Op {
    name: "torch.argmax",
    doc: "Index of the largest, in row-major order of all where no axis is given; the first of equals.",
    schema: "(a: Tensor, axis: int?, keepdim: bool = false) -> Tensor<i64>",
    level: Level::Composite(|b, call| arg_extremum(b, call, "prims.argmax")),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["argmax.default"], import: Import::Map("a=self axis=dim keepdim") }],
    samples: ARG_COMPOSITE,
    ..Op::BASE
};

pub static TORCH_ARGMIN: Op = Op {
    name: "torch.argmin",
    doc: "Index of the smallest, in row-major order of all where no axis is given; the first of equals.",
    schema: "(a: Tensor, axis: int?, keepdim: bool = false) -> Tensor<i64>",
    level: Level::Composite(|b, call| arg_extremum(b, call, "prims.argmin")),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["argmin.default"], import: Import::Map("a=self axis=dim keepdim") }],
    samples: ARG_COMPOSITE,
    ..Op::BASE
};

pub static TORCH_ALL: Op = Op {
    name: "torch.all",
    doc: "Is every element nonzero? True of nothing; u8 stays u8.",
    schema: "(a: Tensor, axes: ints?, keepdim: bool = false) -> Tensor<b>",
    level: Level::Composite(|b, call| quantifier(b, call, "prims.amin", true)),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten { overloads: &["all.default"], import: Import::Map("a=self") },
        Aten { overloads: &["all.dim"], import: Import::Map("a=self axes=dim keepdim") },
        Aten {
            overloads: &["all.dims"],
            import: Import::With(|b, c| quantifier_over_dims(b, c, "torch.all")),
        },
    ],
    samples: QUANTIFIER,
    ..Op::BASE
};

pub static TORCH_ANY: Op = Op {
    name: "torch.any",
    doc: "Is any element nonzero? False of nothing; u8 stays u8.",
    schema: "(a: Tensor, axes: ints?, keepdim: bool = false) -> Tensor<b>",
    level: Level::Composite(|b, call| quantifier(b, call, "prims.amax", false)),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten { overloads: &["any.default"], import: Import::Map("a=self") },
        Aten { overloads: &["any.dim"], import: Import::Map("a=self axes=dim keepdim") },
        Aten {
            overloads: &["any.dims"],
            import: Import::With(|b, c| quantifier_over_dims(b, c, "torch.any")),
        },
    ],
    samples: QUANTIFIER,
    ..Op::BASE
};

const QUANTIFIER: &[Sample] = &[
    Sample("bool[2, 3]"),
    Sample("bool[2, 3], axes=[-1], keepdim=true"),
    Sample("T[2, 3], axes=[0]"),
    Sample("u8[4]{0..2}"),
    Sample("bool[0, 3], axes=[0]"),
    Sample("bool[]"),
];

const VARIANCE_COMPOSITE: &[Sample] = &[
    Sample("T[2, 3, 4], axes=[1]"),
    Sample("T[2, 3, 4], axes=[0, -1], correction=0, keepdim=true"),
    Sample("T[2, 3]"),
    Sample("T[1]"),
    Sample("T[2], correction=3"),
];

pub static TORCH_VAR: Op = Op {
    name: "torch.var",
    doc: "Variance with `n - correction` below; NaN or infinity where that is not positive.",
    schema: "(a: Tensor, axes: ints?, *, correction: num = 1, keepdim: bool = false) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let v = variance(b, call, &a)?;
        Ok(vec![v.arg()])
    }),
    aten: &[
        Aten {
            overloads: &["var.default", "var.dim"],
            import: Import::With(|b, c| unbiased(b, c, "torch.var")),
        },
        Aten { overloads: &["var.correction"], import: Import::With(|b, c| corrected(b, c, "torch.var")) },
    ],
    samples: VARIANCE_COMPOSITE,
    ..Op::BASE
};

pub static TORCH_STD: Op = Op {
    name: "torch.std",
    doc: "Square root of the variance.",
    schema: "(a: Tensor, axes: ints?, *, correction: num = 1, keepdim: bool = false) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let wide = b.to(&a, a.dtype().acc())?;
        let v = variance(b, call, &wide)?;
        let s = b.sqrt(&v)?;
        Ok(vec![b.to(&s, a.dtype().real())?.arg()])
    }),
    // d std = d var / (2 std), 0 where that is 0.
    vjp: Vjp::Rule(|b, d| {
        let (a, s, g) = (d.call.tensor("a")?, d.output(0)?, d.g()?);
        let axes = d.call.axes("axes", a.rank())?;
        let acc = a.dtype().acc();
        let (s, g) = (b.to(&s, acc.real())?, b.to(&g, acc.real())?);
        let twice = b.mul(&s, 2.0)?;
        let of_var = b.div(&g, &twice)?;
        let still = b.eq(&s, 0.0)?;
        let of_var = b.select(&still, 0.0, &of_var)?;
        let of_var = along(b, d, &of_var, &axes)?;
        let x = b.to(&a, acc)?;
        let of_a = of_variance(b, d.call, &x, &of_var, &axes)?;
        Ok(vec![Some(b.to(&of_a, a.dtype())?)])
    }),
    aten: &[
        Aten {
            overloads: &["std.default", "std.dim"],
            import: Import::With(|b, c| unbiased(b, c, "torch.std")),
        },
        Aten { overloads: &["std.correction"], import: Import::With(|b, c| corrected(b, c, "torch.std")) },
    ],
    samples: VARIANCE_COMPOSITE,
    ..Op::BASE
};

pub static TORCH_VECTOR_NORM: Op = Op {
    name: "torch.vector_norm",
    doc: "Norm of a vector: `(Σ |a|^ord)^(1/ord)`; 0 counts nonzero elements, infinities give the largest and \
          smallest magnitude. Without axes all elements are one vector. Its gradient is 0 at the zero vector.",
    schema: "(a: Tensor, ord: num = 2, axes: ints?, keepdim: bool = false, *, dtype: dtype? = None) -> Tensor",
    level: Level::Composite(vector_norm),
    vjp: Vjp::Rule(norm_rule),
    aten: &[
        Aten {
            overloads: &["linalg_vector_norm.default"],
            import: Import::Map("a=self ord axes=dim keepdim dtype"),
        },
        Aten { overloads: &["norm.Scalar"], import: Import::Map("a=self ord=p") },
        Aten {
            overloads: &["norm.ScalarOpt_dim", "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim_dtype"],
            import: Import::With(import_norm),
        },
        Aten { overloads: &["linalg_norm.default"], import: Import::With(import_linalg_norm) },
    ],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[2, 3, 4], ord=2, axes=[-1], keepdim=true"),
        Sample("T[2, 3], ord=1, axes=[0]"),
        Sample("T[2, 3], ord=0, axes=[1]"),
        Sample("T[2, 3], ord=inf, axes=[1]"),
        Sample("T[2, 3], ord=-inf"),
        Sample("T[2, 3], ord=3.5, axes=[0, 1]"),
        Sample("T[]"),
        Sample("T[0]"),
        Sample("T[2, 3], ord=0.5, axes=[1]"),
        Sample("f32[3], dtype=f64"),
    ],
    ..Op::BASE
};

pub static TORCH_COSINE_SIMILARITY: Op = Op {
    name: "torch.cosine_similarity",
    doc: "Cosine of the angle between vectors along an axis; norms are at least `eps`.",
    schema: "(a: Tensor, b: Tensor, axis: int = 1, eps: num = 1e-8) -> Tensor",
    level: Level::Composite(cosine_similarity),
    aten: &[Aten {
        overloads: &["cosine_similarity.default"],
        import: Import::Map("a=x1 b=x2 axis=dim eps"),
    }],
    samples: &[
        Sample("T[2, 3], T[2, 3]"),
        Sample("T[2, 3, 4], T[3, 1], axis=-1"),
        Sample("T[3], T[3], axis=0, eps=0.5"),
    ],
    ..Op::BASE
};

const SOFTMAX: &[Sample] = &[
    Sample("T[2, 5], axis=-1"),
    Sample("T[2, 3, 4], axis=1"),
    Sample("T[], axis=0"),
    Sample("T[0, 4], axis=1"),
    Sample("T[4, 0], axis=1"),
    Sample("T[3, 5]{nonfinite}, axis=1"),
    Sample("T[2, 3], axis=1, dtype=f32"),
    Sample("i64[2, 3]{0..5}, axis=0, dtype=f32"),
];

pub static TORCH_SOFTMAX: Op = Op {
    name: "torch.softmax",
    doc: "`exp(a - max) / Σ exp(a - max)` along an axis, after conversion to `dtype`. A row of -inf gives NaN.",
    schema: "(a: Tensor, axis: int, *, dtype: dtype? = None) -> Tensor",
    level: Level::Composite(softmax),
    vjp: Vjp::Rule(|b, d| softmax_rule(b, d, "torch.softmax_backward")),
    aten: &[
        Aten {
            overloads: &["softmax.int", "special_softmax.default"],
            import: Import::Map("a=self axis=dim dtype"),
        },
        Aten {
            overloads: &["_softmax.default"],
            import: Import::With(|b, c| half_to_float(b, c, "torch.softmax")),
        },
    ],
    samples: SOFTMAX,
    ..Op::BASE
};

pub static TORCH_SAFE_SOFTMAX: Op = Op {
    name: "torch.safe_softmax",
    doc: "Softmax whose rows of nothing but -inf give 0 rather than NaN: attention of a row that may see nothing.",
    schema: "(a: Tensor, axis: int, *, dtype: dtype? = None) -> Tensor",
    level: Level::Composite(safe_softmax),
    aten: &[Aten { overloads: &["_safe_softmax.default"], import: Import::Map("a=self axis=dim dtype") }],
    samples: SOFTMAX,
    ..Op::BASE
};

pub static TORCH_LOG_SOFTMAX: Op = Op {
    name: "torch.log_softmax",
    doc: "Logarithm of softmax, computed as `(a - max) - log Σ exp(a - max)`.",
    schema: "(a: Tensor, axis: int, *, dtype: dtype? = None) -> Tensor",
    level: Level::Composite(log_softmax),
    vjp: Vjp::Rule(|b, d| softmax_rule(b, d, "torch.log_softmax_backward")),
    aten: &[
        Aten {
            overloads: &["log_softmax.int", "special_log_softmax.default"],
            import: Import::Map("a=self axis=dim dtype"),
        },
        Aten {
            overloads: &["_log_softmax.default"],
            import: Import::With(|b, c| half_to_float(b, c, "torch.log_softmax")),
        },
    ],
    samples: SOFTMAX,
    ..Op::BASE
};

pub static TORCH_LOGSUMEXP: Op = Op {
    name: "torch.logsumexp",
    doc: "`log Σ exp(a)` without overflow; infinite maxima do not give NaN, nothing gives -inf.",
    schema: "(a: Tensor, axes: ints, keepdim: bool = false) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let axes = call.axes("axes", a.rank())?;
        let out = meta::inexact(a.dtype());
        let wide = b.to(&a, out.acc())?;
        let r = logsumexp(b, &wide, &axes)?;
        let r = b.to(&r, out)?;
        Ok(vec![finish(b, call, &r, a.dims(), &axes)?.arg()])
    }),
    vjp: Vjp::Rule(|b, d| {
        let a = d.call.tensor("a")?;
        let axes = d.call.axes("axes", a.rank())?;
        let acc = a.dtype().acc();
        let (y, g) = (along(b, d, &d.output(0)?, &axes)?, along(b, d, &d.g()?, &axes)?);
        let (x, y, g) = (b.to(&a, acc)?, b.to(&y, acc)?, b.to(&g, acc)?);
        // Of nothing but -inf the sum is -inf, and each share 0 rather than NaN.
        let none = b.eq(&y, f64::NEG_INFINITY)?;
        let y = b.select(&none, 0.0, &y)?;
        let lower = b.sub(&x, &y)?;
        let share = b.exp(&lower)?;
        let share = b.conj(&share)?;
        let of_a = b.mul(&g, &share)?;
        Ok(vec![Some(b.to(&of_a, a.dtype())?)])
    }),
    aten: &[Aten {
        overloads: &["logsumexp.default", "special_logsumexp.default"],
        import: Import::Map("a=self axes=dim keepdim"),
    }],
    samples: &[
        Sample("T[2, 5], axes=[-1]"),
        Sample("T[2, 3, 4], axes=[0, 2], keepdim=true"),
        Sample("T[], axes=[0]"),
        Sample("T[3, 0], axes=[1]"),
        Sample("T[3, 5]{nonfinite}, axes=[1]"),
    ],
    ..Op::BASE
};

pub static TORCH_SOFTMAX_BACKWARD: Op = Op {
    name: "torch.softmax_backward",
    doc: "Gradient of softmax from its output: `out * (g - Σ g * out)`, in `in_dtype`.",
    schema: "(g: Tensor, out: Tensor, axis: int, in_dtype: dtype) -> Tensor",
    level: Level::Composite(softmax_backward),
    aten: &[Aten {
        overloads: &["_softmax_backward_data.default"],
        import: Import::Map("g=grad_output out=output axis=dim in_dtype=input_dtype"),
    }],
    samples: SOFTMAX_BACKWARD,
    ..Op::BASE
};

pub static TORCH_LOG_SOFTMAX_BACKWARD: Op = Op {
    name: "torch.log_softmax_backward",
    doc: "Gradient of log-softmax from its output: `g - exp(out) * Σ g`, in `in_dtype`.",
    schema: "(g: Tensor, out: Tensor, axis: int, in_dtype: dtype) -> Tensor",
    level: Level::Composite(log_softmax_backward),
    aten: &[Aten {
        overloads: &["_log_softmax_backward_data.default"],
        import: Import::Map("g=grad_output out=output axis=dim in_dtype=input_dtype"),
    }],
    samples: SOFTMAX_BACKWARD,
    ..Op::BASE
};

const SOFTMAX_BACKWARD: &[Sample] = &[
    Sample("T[2, 5], T[2, 5], axis=-1, in_dtype=T"),
    Sample("T[2, 3, 4], T[2, 3, 4], axis=1, in_dtype=T"),
    Sample("f32[2, 5], f32[2, 5], axis=1, in_dtype=f16"),
    Sample("T[], T[], axis=0, in_dtype=T"),
];

pub static TORCH_CUMSUM: Op = Op {
    name: "torch.cumsum",
    doc: "Running sum along an axis; integers and bools sum in i64 unless `dtype` says otherwise.",
    schema: "(a: Tensor, axis: int, *, dtype: dtype? = None) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let axis = call.axis("axis", a.rank())?;
        let a = b.to(&a, call.opt_dtype("dtype")?.unwrap_or_else(|| summed(a.dtype())))?;
        if a.rank() == 0 {
            return Ok(vec![a.arg()]);
        }
        Ok(vec![b.tensor("prims.cumsum", vec![a.arg(), Arg::Int(axis as i64)])?.arg()])
    }),
    aten: &[Aten {
        overloads: &["cumsum.default", "cumsum_.default"],
        import: Import::Map("a=self axis=dim dtype"),
    }],
    samples: &[
        Sample("T[2, 3], axis=-1"),
        Sample("T[4, 3], axis=0"),
        Sample("i32[5]{-9..9}, axis=0"),
        Sample("bool[5], axis=0"),
        Sample("T[], axis=0"),
        Sample("f32[3], axis=0, dtype=f64"),
    ],
    ..Op::BASE
};

pub static TORCH_DIFF: Op = Op {
    name: "torch.diff",
    doc: "Differences of neighbours along an axis, `n` times; of bools: whether they differ.",
    schema: "(a: Tensor, n: int = 1, axis: int = -1, prepend: Tensor?, append: Tensor?) -> Tensor",
    level: Level::Composite(diff),
    aten: &[Aten { overloads: &["diff.default"], import: Import::Map("a=self n axis=dim prepend append") }],
    samples: &[
        Sample("T[2, 5]"),
        Sample("T[5, 2], n=2, axis=0"),
        Sample("T[3], n=5"),
        Sample("T[2, 3], T[2, 1], T[2, 2]"),
        Sample("bool[4]"),
    ],
    ..Op::BASE
};

pub static TORCH_SORT: Op = Op {
    name: "torch.sort",
    doc: "Sorted values along an axis and where they stood; NaN counts as largest.",
    schema: "(a: Tensor, axis: int = -1, descending: bool = false, stable: bool = false) -> (Tensor, Tensor<i64>)",
    level: Level::Composite(|b, call| {
        let [values, indices] = sort(b, call)?;
        Ok(vec![values.arg(), indices.arg()])
    }),
    aten: &[
        Aten { overloads: &["sort.default"], import: Import::Map("a=self axis=dim descending") },
        Aten {
            overloads: &["sort.stable"],
            import: Import::With(|b, c| {
                let mut args = import::args(c, &["self", "dim", "descending"])?;
                args.push(Arg::Bool(matches!(c.arg("stable")?, Arg::Bool(true))));
                b.call("torch.sort", args)
            }),
        },
        Aten {
            overloads: &["msort.default"],
            import: Import::With(|b, c| {
                let sorted = b.call("torch.sort", vec![import::arg(c, "self")?, Arg::Int(0)])?;
                Ok(sorted.into_iter().take(1).collect())
            }),
        },
    ],
    samples: SORT_COMPOSITE,
    ..Op::BASE
};

pub static TORCH_ARGSORT: Op = Op {
    name: "torch.argsort",
    doc: "Where the sorted values along an axis stood.",
    schema: "(a: Tensor, axis: int = -1, descending: bool = false, stable: bool = false) -> Tensor<i64>",
    level: Level::Composite(|b, call| Ok(vec![sort(b, call)?[1].arg()])),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten { overloads: &["argsort.default"], import: Import::Map("a=self axis=dim descending") },
        Aten { overloads: &["argsort.stable"], import: Import::Map("a=self axis=dim descending stable") },
    ],
    samples: SORT_COMPOSITE,
    ..Op::BASE
};

const SORT_COMPOSITE: &[Sample] = &[
    Sample("T[4, 5], stable=true"),
    Sample("T[4, 5], axis=0, descending=true, stable=true"),
    Sample("i64[8]{0..3}, stable=true"),
    Sample("T[], stable=true"),
    Sample("T[0, 2], axis=0, stable=true"),
    Sample("T[6]{nonfinite}, stable=true"),
];

pub static TORCH_TOPK: Op = Op {
    name: "torch.topk",
    doc: "The `k` largest (or smallest) along an axis and where they stood.",
    schema: "(a: Tensor, k: dim, axis: int = -1, largest: bool = true, sorted: bool = true) -> (Tensor, Tensor<i64>)",
    level: Level::Composite(topk),
    aten: &[Aten { overloads: &["topk.default"], import: Import::Map("a=self k axis=dim largest sorted") }],
    samples: &[
        Sample("T[3, 5], k=2"),
        Sample("T[5, 3], k=5, axis=0, largest=false"),
        Sample("T[], k=1"),
        Sample("T[3, 5], k=0"),
    ],
    ..Op::BASE
};

pub static TORCH_BUCKETIZE: Op = Op {
    name: "torch.bucketize",
    doc: "Which bucket between ascending edges each value falls into; an edge belongs to the bucket below it, with \
          `right` to the one above.",
    schema: "(a: Tensor|num, edges: Tensor, *, out_int32: bool = false, right: bool = false) -> Tensor<i>",
    level: Level::Composite(bucketize),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &["bucketize.Tensor", "bucketize.Scalar"],
        import: Import::Map("a=self edges=boundaries out_int32 right"),
    }],
    samples: &[
        Sample("T[2, 3], T[5]{sorted}"),
        Sample("T[2, 3], T[5]{sorted}, out_int32=true, right=true"),
        Sample("2.5, T[4]{sorted}"),
        Sample("i64[4]{0..9}, f32[3]{sorted}"),
    ],
    ..Op::BASE
};

// Meta rules.

/// The canonical axes of a reducing prim, as they stand there: in range, ascending, none twice; none at all is none.
fn prim_axes(call: &Call, rank: usize) -> Result<Vec<usize>, OpError> {
    let given = call.ints("axes")?;
    let canonical =
        given.windows(2).all(|w| w[0] < w[1]) && given.iter().all(|a| (0..rank as i64).contains(a));
    if !canonical {
        return Err(call.error(format!("axes {given:?} must ascend and lie in 0..{rank}")));
    }
    Ok(given.iter().map(|a| *a as usize).collect())
}

/// The canonical axis of a prim that needs one.
pub fn prim_axis(call: &Call, name: &str, rank: usize) -> Result<usize, OpError> {
    let axis = call.int(name)?;
    if (0..rank as i64).contains(&axis) {
        return Ok(axis as usize);
    }
    Err(call.error(format!("`{name}` is {axis}, it must lie in 0..{rank}")))
}

fn reduction_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    let axes = prim_axes(call, a.rank())?;
    let dtype = call.opt_dtype("out_dtype")?.unwrap_or(a.dtype());
    meta::one(meta::reduced_dims(a.dims(), &axes, false), dtype, &a.ty)
}

fn extremum_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    let empty = prim_axes(call, a.rank())?.into_iter().find(|i| a.dims()[*i].is(0));
    match empty {
        Some(axis) if a.dtype() != Dtype::Bool => Err(no_elements(call, axis, &a)),
        _ => reduction_meta(call),
    }
}

fn no_elements(call: &Call, axis: usize, a: &Tensor) -> OpError {
    call.error(format!("axis {axis} of {} has no element, it needs at least one", meta::show(a.dims())))
}

fn arg_extremum_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    let axes = match call.opt_int("axis")? {
        Some(_) => vec![prim_axis(call, "axis", a.rank())?],
        None => all_axes(a.rank()),
    };
    if let Some(axis) = axes.iter().find(|i| a.dims()[**i].is(0)) {
        return Err(no_elements(call, *axis, &a));
    }
    meta::one(meta::reduced_dims(a.dims(), &axes, false), Dtype::I64, &a.ty)
}

fn values_and_indices(dims: Vec<Dim>, like: &Tensor) -> Result<Vec<Option<Type>>, OpError> {
    let values = meta::one(dims.clone(), like.dtype(), &like.ty)?;
    Ok([values, meta::one(dims, Dtype::I64, &like.ty)?].concat())
}

fn searchsorted_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let edges = call.tensor("edges")?;
    let dtype = call.dtype("out_dtype")?;
    if !matches!(dtype, Dtype::I32 | Dtype::I64) {
        return Err(call.error(format!("`out_dtype` is {dtype}, it must be i32 or i64")));
    }
    let dims = match call.operand("values")? {
        Operand::Tensor(v) => {
            if v.dtype() != edges.dtype() {
                return Err(call.error(format!("edges are {}, values {}", edges.dtype(), v.dtype())));
            }
            v.dims().to_vec()
        }
        Operand::Num(_) => Vec::new(),
    };
    let outer = edges.dims().split_last().map(|(_, outer)| outer);
    let fits = match outer {
        Some([]) => true,
        Some(outer) => {
            dims.len() == edges.rank() && outer.iter().zip(&dims).all(|(e, v)| e.same(v) != Some(false))
        }
        None => false,
    };
    if !fits {
        return Err(call.error(format!(
            "edges {} do not belong to values {}: 1-d, or equal but for the last dim",
            meta::show(edges.dims()),
            meta::show(&dims)
        )));
    }
    meta::one(dims, dtype, &edges.ty)
}

// Decompositions.

/// Integers and bools are summed in i64.
fn summed(dtype: Dtype) -> Dtype {
    if dtype.is_inexact() { dtype } else { Dtype::I64 }
}

/// One axis or, absent, all; canonical.
fn opt_axis(call: &Call, rank: usize) -> Result<Vec<usize>, OpError> {
    match call.opt_int("axis")? {
        None => Ok(all_axes(rank)),
        Some(axis) => {
            let axis = call.canonical_axis(axis, rank)?;
            Ok(if rank == 0 { Vec::new() } else { vec![axis] })
        }
    }
}

/// A reduced value with dims of 1 put back where `keepdim` is asked for.
pub(super) fn finish(b: &mut Builder<'_>, call: &Call, r: &Tensor, dims: &[Dim], axes: &[usize]) -> Built {
    if call.bool("keepdim")? { b.keepdim(r, dims, axes) } else { Ok(r.clone()) }
}

fn sum_like(b: &mut Builder<'_>, call: &Call, prim: &str, axes: &[usize]) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let a = b.to(&a, call.opt_dtype("dtype")?.unwrap_or_else(|| summed(a.dtype())))?;
    let r = b.reduce(prim, &a, axes)?;
    Ok(vec![finish(b, call, &r, a.dims(), axes)?.arg()])
}

fn mean(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let axes = call.axes("axes", a.rank())?;
    let out = call.opt_dtype("dtype")?.unwrap_or(a.dtype());
    if !out.is_inexact() {
        return Err(call.error(format!("a mean must be floating or complex, `dtype` is {out}")));
    }
    let rounded = b.to(&a, out)?;
    let wide = b.to(&rounded, out.acc())?;
    let m = b.mean(&wide, &axes)?;
    let m = b.to(&m, out)?;
    Ok(vec![finish(b, call, &m, a.dims(), &axes)?.arg()])
}

fn extremum(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let axes = call.axes("axes", a.rank())?;
    if let Some(axis) = axes.iter().find(|i| a.dims()[**i].is(0)) {
        return Err(no_elements(call, *axis, &a));
    }
    let r = b.reduce(prim, &a, &axes)?;
    Ok(vec![finish(b, call, &r, a.dims(), &axes)?.arg()])
}

fn of_all(b: &mut Builder<'_>, c: &AtenCall, op: &str) -> Result<Vec<Arg>, OpError> {
    b.call(op, vec![import::arg(c, "self")?, Arg::List(Vec::new())])
}

fn arg_extremum(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let axes = opt_axis(call, a.rank())?;
    let i = b.tensor(prim, vec![a.arg(), single(&axes, call)?])?;
    Ok(vec![finish(b, call, &i, a.dims(), &axes)?.arg()])
}

/// The axis for `prims.argmax`: absent where the call has none or the tensor no dim.
fn single(axes: &[usize], call: &Call) -> Result<Arg, OpError> {
    Ok(match (call.opt_int("axis")?, axes) {
        (Some(_), [axis]) => Arg::Int(*axis as i64),
        _ => Arg::None,
    })
}

fn extremum_and_index(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let axes = opt_axis(call, a.rank())?;
    let index = b.tensor(prim, vec![a.arg(), single(&axes, call)?])?;
    let [axis] = axes[..] else {
        let value = b.amax(&a, &[])?;
        return Ok(vec![value.arg(), index.arg()]);
    };
    let kept = b.keepdim(&index, a.dims(), &axes)?;
    let value = b.tensor("prims.take_along_axis", vec![a.arg(), kept.arg(), Arg::Int(axis as i64)])?;
    Ok(match call.bool("keepdim")? {
        true => vec![value.arg(), kept.arg()],
        false => vec![b.squeeze(&value, &axes)?.arg(), index.arg()],
    })
}

fn quantifier(b: &mut Builder<'_>, call: &Call, prim: &str, of_nothing: bool) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let axes = call.axes("axes", a.rank())?;
    let r = if axes.iter().any(|i| a.dims()[*i].is(0)) {
        let dims = meta::reduced_dims(a.dims(), &axes, false);
        b.full(&dims, Num::Bool(of_nothing), Dtype::Bool, &a.ty.device)?
    } else {
        let truth = truth(b, &a)?;
        b.reduce(prim, &truth, &axes)?
    };
    let r = finish(b, call, &r, a.dims(), &axes)?;
    let out = if a.dtype() == Dtype::U8 { Dtype::U8 } else { Dtype::Bool };
    Ok(vec![b.to(&r, out)?.arg()])
}

/// Nonzero elements.
fn truth(b: &mut Builder<'_>, a: &Tensor) -> Built {
    if a.dtype() == Dtype::Bool {
        return Ok(a.clone());
    }
    let zero = number_for(&Num::Int(0), a.dtype());
    b.tensor("prims.ne", vec![a.arg(), zero])
}

/// Unlike everywhere else, no axes (`[]`) are no axes here.
fn quantifier_over_dims(b: &mut Builder<'_>, c: &AtenCall, op: &str) -> Result<Vec<Arg>, OpError> {
    let args = import::args(c, &["self", "dim", "keepdim"])?;
    match &args[1] {
        Arg::List(axes) if axes.is_empty() => {
            let a = import::tensor(b, c, "self")?;
            let truth = b.tensor("torch.ne", vec![a.arg(), Arg::Int(0)])?;
            let u8 = a.dtype() == Dtype::U8;
            Ok(vec![match u8 {
                true => b.tensor("torch.to", vec![truth.arg(), Arg::Dtype(Dtype::U8)])?.arg(),
                false => truth.arg(),
            }])
        }
        _ => b.call(op, args),
    }
}

fn variance(b: &mut Builder<'_>, call: &Call, a: &Tensor) -> Built {
    if !a.dtype().is_inexact() {
        return Err(call.error(format!("`a` is {}, it must be floating or complex", a.dtype())));
    }
    let axes = call.axes("axes", a.rank())?;
    let args = vec![a.arg(), super::arith::axes_arg(&axes), call.num("correction")?.to_arg()];
    let v = b.tensor("prims.var", args)?;
    finish(b, call, &v, a.dims(), &axes)
}

/// `var.default`, `var.dim`: `unbiased` is a correction of 1.
pub(super) fn unbiased(b: &mut Builder<'_>, c: &AtenCall, op: &str) -> Result<Vec<Arg>, OpError> {
    let correction = Arg::Int(i64::from(import::flag(c, "unbiased")?));
    let (axes, keepdim) = match c.arg("dim") {
        Ok(dim) => (dim.clone(), import::arg(c, "keepdim")?),
        Err(_) => (Arg::None, Arg::Bool(false)),
    };
    b.call(op, vec![import::arg(c, "self")?, axes, correction, keepdim])
}

pub(super) fn corrected(b: &mut Builder<'_>, c: &AtenCall, op: &str) -> Result<Vec<Arg>, OpError> {
    let mut args = import::args(c, &["self", "dim", "correction", "keepdim"])?;
    if args[2].is_none() {
        args[2] = Arg::Int(1);
    }
    b.call(op, args)
}

fn vector_norm(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let axes = call.axes("axes", a.rank())?;
    let dtype = call.opt_dtype("dtype")?.unwrap_or(a.dtype());
    if !dtype.is_inexact() || !a.dtype().is_inexact() {
        return Err(call.error(format!("`a` is {}, a norm needs floating or complex numbers", a.dtype())));
    }
    let ord = call.float("ord")?;
    let x = b.to(&a, dtype)?;
    let x = b.to(&x, dtype.acc())?;
    let n = norm(b, &x, ord, &axes)?;
    let n = b.to(&n, dtype.real())?;
    Ok(vec![finish(b, call, &n, a.dims(), &axes)?.arg()])
}

fn norm(b: &mut Builder<'_>, x: &Tensor, ord: f64, axes: &[usize]) -> Built {
    if ord == 0.0 {
        let zero = number_for(&Num::Int(0), x.dtype());
        let nonzero = b.tensor("prims.ne", vec![x.arg(), zero])?;
        let ones = b.to(&nonzero, x.dtype().real())?;
        return b.sum(&ones, axes);
    }
    if ord == 2.0 && x.dtype().is_float() {
        let squares = b.mul(x, x)?;
        let s = b.sum(&squares, axes)?;
        return b.sqrt(&s);
    }
    let magnitudes = b.abs(x)?;
    if ord == f64::INFINITY {
        return b.amax(&magnitudes, axes);
    }
    if ord == f64::NEG_INFINITY {
        return b.reduce("prims.amin", &magnitudes, axes);
    }
    if ord == 1.0 {
        return b.sum(&magnitudes, axes);
    }
    if ord == 2.0 {
        let squares = b.mul(&magnitudes, &magnitudes)?;
        let s = b.sum(&squares, axes)?;
        return b.sqrt(&s);
    }
    let powers = b.binary("prims.pow", &magnitudes, ord)?;
    let s = b.sum(&powers, axes)?;
    b.binary("prims.pow", &s, 1.0 / ord)
}

/// `norm.ScalarOpt_*`: an absent `p` is 2.
fn import_norm(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let or = |name: &str, default: Arg| c.arg(name).map_or(default, Arg::clone);
    let p = import::arg(c, "p")?;
    let p = if p.is_none() { Arg::Int(2) } else { p };
    let axes = or("dim", Arg::None);
    let args =
        vec![import::arg(c, "self")?, p, axes, or("keepdim", Arg::Bool(false)), or("dtype", Arg::None)];
    b.call("torch.vector_norm", args)
}

/// `linalg_norm` is a norm of vectors, or of matrices where an order is given and two axes are meant. Of the latter,
/// those that are sums and maxima are made of vector norms; 2, -2 and nuclear ones need singular values.
fn import_linalg_norm(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let a = import::tensor(b, c, "self")?;
    let [ord, axes, keepdim, dtype] = ["ord", "dim", "keepdim", "dtype"].map(|n| import::arg(c, n));
    let (ord, axes, keepdim, dtype) = (ord?, axes?, keepdim?, dtype?);
    let pair = match &axes {
        Arg::None if a.rank() == 2 => Some([0, 1]),
        Arg::List(l) => match l[..] {
            [Arg::Int(r), Arg::Int(k)] => Some([r, k]),
            _ => None,
        },
        _ => None,
    };
    let (Some([rows, columns]), false) = (pair, ord.is_none()) else {
        let ord = if ord.is_none() { Arg::Int(2) } else { ord };
        return b.call("torch.vector_norm", vec![a.arg(), ord, axes, keepdim, dtype]);
    };
    let order = match ord {
        Arg::Int(n) => n as f64,
        Arg::Float(x) => x,
        _ => return Err(c.error("`ord` must be a known number")),
    };
    let (summed, along) = match order.abs() {
        1.0 => (rows, columns),
        x if x.is_infinite() => (columns, rows),
        _ => return Err(c.error(format!("a matrix norm of order {order} needs singular values"))),
    };
    let sums = vec![a.arg(), Arg::Int(1), Arg::ints([summed]), Arg::Bool(true), dtype];
    let sums = b.tensor("torch.vector_norm", sums)?;
    let op = if order > 0.0 { "torch.amax" } else { "torch.amin" };
    let r = b.tensor(op, vec![sums.arg(), Arg::ints([along]), Arg::Bool(true)])?;
    Ok(vec![match keepdim {
        Arg::Bool(true) => r.arg(),
        _ => b.tensor("torch.squeeze", vec![r.arg(), Arg::ints([rows, columns])])?.arg(),
    }])
}

fn cosine_similarity(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (x, y) = (call.tensor("a")?, call.tensor("b")?);
    let out = meta::promoted(&[(&x).into(), (&y).into()]);
    if !out.is_float() {
        return Err(call.error(format!("the common dtype is {out}, it must be floating")));
    }
    let dims = meta::broadcast_dims(call, [x.dims(), y.dims()])?;
    let axis = call.axis("axis", dims.len())?;
    let axes = if dims.is_empty() { Vec::new() } else { vec![axis] };
    let eps = call.num("eps")?;
    let mut unit = |x: &Tensor| -> Built {
        let x = b.to(x, out.acc())?;
        let x = b.expand(&x, &dims)?;
        let n = norm(b, &x, 2.0, &axes)?;
        let n = b.maximum(&n, eps.clone())?;
        let n = b.spread(&n, &dims, &axes)?;
        b.div(&x, &n)
    };
    let (x, y) = (unit(&x)?, unit(&y)?);
    let p = b.mul(&x, &y)?;
    let s = b.sum(&p, &axes)?;
    Ok(vec![b.to(&s, out)?.arg()])
}

/// What the softmaxes have in common: the input in its dtype and the wide one, the axes, and the final dtype.
struct Softmax {
    wide: Tensor,
    axes: Vec<usize>,
    out: Dtype,
}

impl Softmax {
    fn of(b: &mut Builder<'_>, call: &Call) -> Result<Softmax, OpError> {
        let a = call.tensor("a")?;
        let axis = call.axis("axis", a.rank())?;
        let axes = if a.rank() == 0 { Vec::new() } else { vec![axis] };
        let out = call.opt_dtype("dtype")?.unwrap_or(a.dtype());
        if !out.is_float() {
            return Err(call.error(format!("`a` is {out}, a softmax needs floats: give `dtype`")));
        }
        let a = b.to(&a, out)?;
        Ok(Softmax { wide: b.to(&a, out.acc())?, axes, out })
    }

    /// A row of no elements has no maximum, but nothing to compute either.
    fn is_empty(&self) -> bool {
        self.axes.iter().any(|i| self.wide.dims()[*i].is(0))
    }

    /// `a - max`.
    fn shifted(&self, b: &mut Builder<'_>) -> Built {
        let m = b.amax(&self.wide, &self.axes)?;
        let m = b.spread(&m, self.wide.dims(), &self.axes)?;
        b.sub(&self.wide, &m)
    }
}

fn softmax(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let s = Softmax::of(b, call)?;
    Ok(vec![softmax_of(b, &s)?.arg()])
}

fn softmax_of(b: &mut Builder<'_>, s: &Softmax) -> Built {
    if s.is_empty() {
        return b.to(&s.wide, s.out);
    }
    let shifted = s.shifted(b)?;
    let e = b.exp(&shifted)?;
    let sum = b.sum(&e, &s.axes)?;
    let sum = b.spread(&sum, e.dims(), &s.axes)?;
    let p = b.div(&e, &sum)?;
    b.to(&p, s.out)
}

fn safe_softmax(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let args = ["a", "axis", "dtype"].map(|n| call.raw(n));
    let [x, axis, dtype] = args;
    let p = b.tensor("torch.softmax", vec![x?, axis?, dtype?]).map_err(|e| call.error(e.what))?;
    let axis = call.axis("axis", a.rank())?;
    let axes = if a.rank() == 0 { Vec::new() } else { vec![axis] };
    if axes.iter().any(|i| a.dims()[*i].is(0)) || !a.dtype().is_float() {
        return Ok(vec![p.arg()]);
    }
    let hidden = b.eq(&a, f64::NEG_INFINITY)?;
    let all = b.reduce("prims.amin", &hidden, &axes)?;
    let all = b.spread(&all, a.dims(), &axes)?;
    Ok(vec![b.select(&all, 0.0, &p)?.arg()])
}

fn log_softmax(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let s = Softmax::of(b, call)?;
    if s.is_empty() {
        return Ok(vec![b.to(&s.wide, s.out)?.arg()]);
    }
    let shifted = s.shifted(b)?;
    let e = b.exp(&shifted)?;
    let sum = b.sum(&e, &s.axes)?;
    let log = b.log(&sum)?;
    let log = b.spread(&log, e.dims(), &s.axes)?;
    let l = b.sub(&shifted, &log)?;
    Ok(vec![b.to(&l, s.out)?.arg()])
}

/// `_softmax`, `_log_softmax`: `half_to_float` asks for an f32 result.
fn half_to_float(b: &mut Builder<'_>, c: &AtenCall, op: &str) -> Result<Vec<Arg>, OpError> {
    let mut args = import::args(c, &["self", "dim"])?;
    args.push(if import::flag(c, "half_to_float")? { Arg::Dtype(Dtype::F32) } else { Arg::None });
    b.call(op, args)
}

/// `log Σ exp(x)` over canonical axes, which go; `x` is f32 or f64.
pub fn logsumexp(b: &mut Builder<'_>, x: &Tensor, axes: &[usize]) -> Built {
    if axes.iter().any(|i| x.dims()[*i].is(0)) {
        let s = b.sum(x, axes)?;
        return b.log(&s);
    }
    let m = b.amax(x, axes)?;
    // An infinite maximum is not subtracted: inf - inf would be NaN where the sum is 0 or infinite.
    let magnitude = b.abs(&m)?;
    let infinite = b.eq(&magnitude, f64::INFINITY)?;
    let m = b.select(&infinite, 0.0, &m)?;
    let spread = b.spread(&m, x.dims(), axes)?;
    let shifted = b.sub(x, &spread)?;
    let e = b.exp(&shifted)?;
    let s = b.sum(&e, axes)?;
    let log = b.log(&s)?;
    b.add(&log, &m)
}

fn softmax_backward(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (g, out, axes) = backward_operands(b, call)?;
    let p = b.mul(&g, &out)?;
    let s = b.sum(&p, &axes)?;
    let s = b.spread(&s, g.dims(), &axes)?;
    let d = b.sub(&g, &s)?;
    let d = b.mul(&out, &d)?;
    Ok(vec![b.to(&d, call.dtype("in_dtype")?)?.arg()])
}

fn log_softmax_backward(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (g, out, axes) = backward_operands(b, call)?;
    let s = b.sum(&g, &axes)?;
    let s = b.spread(&s, g.dims(), &axes)?;
    let p = b.exp(&out)?;
    let p = b.mul(&p, &s)?;
    let d = b.sub(&g, &p)?;
    Ok(vec![b.to(&d, call.dtype("in_dtype")?)?.arg()])
}

fn backward_operands(b: &mut Builder<'_>, call: &Call) -> Result<(Tensor, Tensor, Vec<usize>), OpError> {
    let (g, out) = (call.tensor("g")?, call.tensor("out")?);
    let axis = call.axis("axis", g.rank())?;
    let axes = if g.rank() == 0 { Vec::new() } else { vec![axis] };
    Ok((b.to(&g, g.dtype().acc())?, b.to(&out, g.dtype().acc())?, axes))
}

fn diff(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    if a.rank() == 0 {
        return Err(call.error("`a` needs at least one dim"));
    }
    let axis = call.axis("axis", a.rank())?;
    let mut parts = Vec::new();
    parts.extend(call.opt_tensor("prepend")?);
    parts.push(a);
    parts.extend(call.opt_tensor("append")?);
    let mut x = b.cat(&parts, axis)?;
    let n = call.int("n")?;
    if n < 0 {
        return Err(call.error(format!("`n` is {n}, it must not be negative")));
    }
    for _ in 0..n {
        let size = x.dims()[axis].clone();
        if size.is(0) {
            break;
        }
        let upper = b.narrow(&x, axis, &Dim::Known(1), &size)?;
        let lower = b.narrow(&x, axis, &Dim::Known(0), &size.sub(&Dim::Known(1)))?;
        let prim = if x.dtype() == Dtype::Bool { "prims.ne" } else { "prims.sub" };
        x = b.binary(prim, &upper, &lower)?;
    }
    Ok(vec![x.arg()])
}

/// A zero-dim tensor as one of one element: prims that run along an axis need one.
fn with_axis(b: &mut Builder<'_>, a: &Tensor) -> Built {
    if a.rank() == 0 { b.unsqueeze(a, 0) } else { Ok(a.clone()) }
}

fn sort(b: &mut Builder<'_>, call: &Call) -> Result<[Tensor; 2], OpError> {
    let a = call.tensor("a")?;
    let axis = Arg::Int(call.axis("axis", a.rank())? as i64);
    let x = with_axis(b, &a)?;
    let flags = [call.raw("descending")?, call.raw("stable")?];
    let [descending, stable] = flags;
    pair(b, "prims.sort", vec![x.arg(), axis, descending, stable], &a)
}

fn topk(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let axis = Arg::Int(call.axis("axis", a.rank())? as i64);
    let x = with_axis(b, &a)?;
    // Of a zero-dim tensor PyTorch gives its element whatever `k` says.
    let k = if a.rank() == 0 { Arg::Int(1) } else { Arg::dim(call.dim("k")?) };
    let args = vec![x.arg(), k, axis, call.raw("largest")?, call.raw("sorted")?];
    let [values, indices] = pair(b, "prims.topk", args, &a).map_err(|e| call.error(e.what))?;
    Ok(vec![values.arg(), indices.arg()])
}

/// The two results of a prim along an axis; without the axis where `a` had none.
fn pair(b: &mut Builder<'_>, prim: &str, args: Vec<Arg>, a: &Tensor) -> Result<[Tensor; 2], OpError> {
    let gone: &[usize] = if a.rank() == 0 { &[0] } else { &[] };
    let results = b.call(prim, args)?;
    let wrong = || OpError { op: prim.into(), what: "has two tensor results".into() };
    let [values, indices] = results.as_slice() else { return Err(wrong()) };
    let (values, indices) = (values.value().ok_or_else(wrong)?, indices.value().ok_or_else(wrong)?);
    let (values, indices) = (b.as_tensor(values)?, b.as_tensor(indices)?);
    Ok([b.squeeze(&values, gone)?, b.squeeze(&indices, gone)?])
}

fn bucketize(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, edges) = (call.operand("a")?, call.tensor("edges")?);
    if edges.rank() != 1 {
        return Err(call.error(format!("`edges` is {}, it must have one dim", meta::show(edges.dims()))));
    }
    let dtype = meta::promoted(&[a.clone(), (&edges).into()]);
    let edges = b.to(&edges, dtype)?;
    let values = match &a {
        Operand::Tensor(t) => b.to(t, dtype)?.arg(),
        Operand::Num(n) => number_for(n, dtype),
    };
    let out = if call.bool("out_int32")? { Dtype::I32 } else { Dtype::I64 };
    let args = vec![edges.arg(), values, call.raw("right")?, Arg::Dtype(out)];
    Ok(vec![b.tensor("prims.searchsorted", args)?.arg()])
}

/// Canonical axes of a reducing prim.
fn reduced(d: &Grad<'_>) -> Result<Vec<usize>, OpError> {
    Ok(d.call.ints("axes")?.iter().map(|a| *a as usize).collect())
}

/// All elements that equal the extreme one share its gradient evenly.
fn extreme_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, y, g, axes) = (d.call.tensor("a")?, d.output(0)?, d.g()?, reduced(d)?);
    let (y, g) = (b.to(&y, a.dtype())?, b.to(&g, a.dtype())?);
    let whole = b.spread(&y, a.dims(), &axes)?;
    let best = b.eq(&a, &whole)?;
    let ones = b.to(&best, a.dtype())?;
    let count = b.sum(&ones, &axes)?;
    let share = b.div(&g, &count)?;
    let share = b.spread(&share, a.dims(), &axes)?;
    Ok(vec![Some(b.select(&best, &share, 0.0)?)])
}

/// d prod = g * product of all others: by division where there is no zero; at a single zero the product of the others,
/// at several 0.
fn product_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, g, axes) = (d.call.tensor("a")?, d.g()?, reduced(d)?);
    let g = b.to(&g, a.dtype())?;
    let is_zero = b.eq(&a, 0.0)?;
    let zeros = b.to(&is_zero, a.dtype())?;
    let n_zeros = b.sum(&zeros, &axes)?;
    // Of complex numbers everything that the cotangent is multiplied by is conjugated.
    let factors = b.conj(&a)?;
    let filled = b.select(&is_zero, 1.0, &factors)?;
    let rest = b.reduce("prims.prod", &filled, &axes)?;
    let of_rest = b.mul(&g, &rest)?;
    let n_zeros = b.spread(&n_zeros, a.dims(), &axes)?;
    let of_rest = b.spread(&of_rest, a.dims(), &axes)?;
    let by_division = b.div(&of_rest, &filled)?;
    let none = b.eq(&n_zeros, 0.0)?;
    let one = b.eq(&n_zeros, 1.0)?;
    let only = b.binary("prims.bitwise_and", &one, &is_zero)?;
    let at_zero = b.select(&only, &of_rest, 0.0)?;
    Ok(vec![Some(b.select(&none, &by_division, &at_zero)?)])
}

/// What has the dims of a result, repeated along the reduced axes.
fn along(b: &mut Builder<'_>, d: &Grad<'_>, r: &Tensor, axes: &[usize]) -> Built {
    let a = d.call.tensor("a")?;
    // With `keepdim` the axes are there, of size 1.
    if r.rank() == a.rank() { b.expand(r, a.dims()) } else { b.spread(r, a.dims(), axes) }
}

/// `g`, which has the dims of `x`, times 2 (x - mean) / (n - correction).
fn of_variance(b: &mut Builder<'_>, call: &Call, x: &Tensor, g: &Tensor, axes: &[usize]) -> Built {
    let n = super::arith::count(x.dims(), axes);
    let g = b.to(g, x.dtype())?;
    let mean = b.mean(x, axes)?;
    let mean = b.spread(&mean, x.dims(), axes)?;
    let deviation = b.sub(x, &mean)?;
    let free = match (n.known(), call.float("correction")) {
        (Some(n), Ok(c)) => (n as f64 - c).max(0.0),
        _ => return Err(call.error("the number of elements must be known for its gradient")),
    };
    let g = b.mul(&g, 2.0 / free)?;
    b.mul(&g, &deviation)
}

/// The direction of each element times `(|x| / norm)^(ord - 1)`; an infinite order's gradient is shared evenly by those
/// that have the norm. 0 where the element is 0, and so at the zero vector.
fn norm_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, y, g) = (d.call.tensor("a")?, d.output(0)?, d.g()?);
    let axes = d.call.axes("axes", a.rank())?;
    let ord = d.call.float("ord")?;
    let acc = d.call.opt_dtype("dtype")?.unwrap_or(a.dtype()).acc();
    if ord == 0.0 {
        return Ok(vec![None]);
    }
    let x = b.to(&a, acc)?;
    let (y, g) = (along(b, d, &y, &axes)?, along(b, d, &g, &axes)?);
    let (y, g) = (b.to(&y, acc.real())?, b.to(&g, acc.real())?);
    let size = b.abs(&x)?;
    let zero = b.eq(&size, 0.0)?;
    let divisor = b.select(&zero, 1.0, &size)?;
    let share = if ord.is_infinite() {
        let hit = b.eq(&size, &y)?;
        let ones = b.to(&hit, acc.real())?;
        let n = b.sum(&ones, &axes)?;
        let n = b.spread(&n, a.dims(), &axes)?;
        let each = b.div(&g, &n)?;
        b.select(&hit, &each, 0.0)?
    } else if ord == 1.0 {
        g
    } else {
        let ratio = b.div(&size, &y)?;
        let weight = if ord == 2.0 { ratio } else { b.binary("prims.pow", &ratio, ord - 1.0)? };
        b.mul(&g, &weight)?
    };
    let share = b.select(&zero, 0.0, &share)?;
    let (share, divisor) = (b.to(&share, acc)?, b.to(&divisor, acc)?);
    let direction = b.div(&x, &divisor)?;
    let of_a = b.mul(&share, &direction)?;
    Ok(vec![Some(b.to(&of_a, a.dtype())?)])
}

/// d var = 2 (a - mean) / (n - correction), d mean = 1 / n.
fn variance_rule(
    b: &mut Builder<'_>,
    d: &Grad<'_>,
    of_var: Option<Tensor>,
    of_mean: Option<Tensor>,
) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, axes) = (d.call.tensor("a")?, reduced(d)?);
    let n = super::arith::count(a.dims(), &axes);
    let mut total: Option<Tensor> = None;
    if let Some(g) = of_var {
        let g = b.spread(&g, a.dims(), &axes)?;
        total = Some(of_variance(b, d.call, &a, &g, &axes)?);
    }
    if let Some(g) = of_mean {
        let g = b.to(&g, a.dtype())?;
        let g = b.div(&g, super::arith::size(&n))?;
        let g = b.spread(&g, a.dims(), &axes)?;
        total = Some(match total {
            Some(t) => b.add(&t, &g)?,
            None => g,
        });
    }
    Ok(vec![total])
}

/// Softmax and its logarithm: stated on the result.
fn softmax_rule(b: &mut Builder<'_>, d: &Grad<'_>, op: &str) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, y, g) = (d.call.tensor("a")?, d.output(0)?, d.g()?);
    let args = vec![g.arg(), y.arg(), d.call.raw("axis")?, Arg::Dtype(a.dtype())];
    Ok(vec![Some(b.tensor(op, args)?)])
}
