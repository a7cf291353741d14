//! Choosing elements in ways that few models do: by masks, flat places, filled or reduced slices.
//!
//! Deliberately absent: the indexing prims and what most models use, in `indexing`.

use super::arith::Built;
use super::build::{Builder, Operand};
use super::indexing::{Scatter, wrapped};
use super::{Aten, Call, Import, Level, Op, OpError, Sample, Vjp, meta};
use crate::ir::{Arg, Dim, Dtype};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &TORCH_EMBEDDING_DENSE_BACKWARD,
    &TORCH_INDEX_FILL,
    &TORCH_MASKED_SCATTER,
    &TORCH_MASKED_SELECT,
    &TORCH_NONZERO,
    &TORCH_NONZERO_TUPLE,
    &TORCH_SCATTER_REDUCE,
    &TORCH_TAKE,
    &TORCH_TAKE_ALONG_DIM,
];

pub static TORCH_EMBEDDING_DENSE_BACKWARD: Op = Op {
    name: "torch.embedding_dense_backward",
    doc: "The gradient of an embedding's weight, which has `n` rows: `g` summed up at the indices.",
    schema: "(g: Tensor, index: Tensor<i>, n: dim, padding_idx: int, scale_by_freq: bool) -> Tensor",
    level: Level::Composite(|b, call| {
        let padding = call.int("padding_idx")?;
        let padding = if padding < 0 { Arg::None } else { Arg::Int(padding) };
        Ok(vec![
            b.tensor(
                "prims.embedding_backward",
                vec![call.raw("g")?, call.raw("index")?, call.raw("n")?, padding, call.raw("scale_by_freq")?],
            )?
            .arg(),
        ])
    }),
    aten: &[
        Aten {
            overloads: &["embedding_dense_backward.default"],
            import: Import::Map(
                "g=grad_output index=indices n=num_weights padding_idx scale_by_freq=scale_grad_by_freq",
            ),
        },
        Aten {
            overloads: &["embedding_backward.default"],
            import: Import::Map(
                "g=grad index=indices n=num_weights padding_idx scale_by_freq=scale_grad_by_freq",
            ),
        },
    ],
    samples: &[
        Sample("T[5, 3], i64[5]{0..4}, n=4, padding_idx=-1, scale_by_freq=false"),
        Sample("T[2, 3, 2], i32[2, 3]{0..4}, n=4, padding_idx=1, scale_by_freq=true"),
    ],
    ..Op::BASE
};

pub static TORCH_INDEX_FILL: Op = Op {
    name: "torch.index_fill",
    doc: "`a` with the slices that the 1-d index names filled with a number or a zero-dim tensor.",
    schema: "(a: Tensor, axis: int, index: Tensor<i>, value: num|Tensor) -> Tensor",
    level: Level::Composite(index_fill),
    aten: &[Aten {
        overloads: &[
            "index_fill.int_Scalar",
            "index_fill.int_Tensor",
            "index_fill_.int_Scalar",
            "index_fill_.int_Tensor",
        ],
        import: Import::Map("a=self axis=dim index value"),
    }],
    samples: &[
        Sample("T[4, 3], i64[2]{0..4}, 1, axis=0"),
        Sample("T[2, 3], i64[1]{0..3}, T[], axis=-1"),
        Sample("T[], i64[1]{0..1}, 2, axis=0"),
    ],
    ..Op::BASE
};

pub static TORCH_MASKED_SCATTER: Op = Op {
    name: "torch.masked_scatter",
    doc: "Where the mask is true, elements of `src` in order; else `a`.",
    schema: "(a: Tensor, mask: Tensor<b>, src: Tensor) -> Tensor",
    level: Level::Composite(masked_scatter),
    aten: &[Aten {
        overloads: &["masked_scatter.default", "masked_scatter_.default"],
        import: Import::Map("a=self mask src=source"),
    }],
    samples: &[Sample("T[2, 3], bool[2, 3], T[6]"), Sample("T[2, 3], bool[3], T[2, 3]")],
    ..Op::BASE
};

pub static TORCH_MASKED_SELECT: Op = Op {
    name: "torch.masked_select",
    doc: "The elements where the mask is true, as one vector.",
    schema: "(a: Tensor, mask: Tensor<b>) -> Tensor",
    level: Level::Composite(|b, call| {
        let (a, mask) = (call.tensor("a")?, call.tensor("mask")?);
        let dims = meta::broadcast_dims(call, [a.dims(), mask.dims()])?;
        let (mut a, mut mask) = (b.expand(&a, &dims)?, b.expand(&mask, &dims)?);
        if dims.is_empty() {
            a = b.unsqueeze(&a, 0)?;
            mask = b.unsqueeze(&mask, 0)?;
        }
        Ok(vec![b.tensor("torch.index", vec![a.arg(), Arg::List(vec![mask.arg()])])?.arg()])
    }),
    aten: &[Aten { overloads: &["masked_select.default"], import: Import::Map("a=self mask") }],
    samples: &[Sample("T[2, 3], bool[2, 3]"), Sample("T[2, 3], bool[3]")],
    ..Op::BASE
};

pub static TORCH_NONZERO: Op = Op {
    name: "torch.nonzero",
    doc: "Indices of the elements that are not zero, one row each.",
    schema: "(a: Tensor) -> Tensor<i64>",
    level: Level::Composite(|b, call| Ok(vec![b.tensor("prims.nonzero", vec![call.raw("a")?])?.arg()])),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["argwhere.default", "nonzero.default"], import: Import::Map("a=self") }],
    samples: &[Sample("bool[2, 3]"), Sample("T[3]")],
    ..Op::BASE
};

pub static TORCH_NONZERO_TUPLE: Op = Op {
    name: "torch.nonzero_tuple",
    doc: "Indices of the elements that are not zero, one vector for each axis.",
    schema: "(a: Tensor) -> Tensor<i64>[]",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let a = if a.rank() == 0 { b.unsqueeze(&a, 0)? } else { a };
        let found = b.tensor("prims.nonzero", vec![a.arg()])?;
        (0..a.rank()).map(|i| Ok(b.pick(&found, 1, i as i64)?.arg())).collect()
    }),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten { overloads: &["nonzero_numpy.default"], import: Import::Map("a=self") },
        Aten { overloads: &["where.default"], import: Import::Map("a=condition") },
    ],
    samples: &[Sample("bool[2, 3]"), Sample("T[3]")],
    ..Op::BASE
};

pub static TORCH_SCATTER_REDUCE: Op = Op {
    name: "torch.scatter_reduce",
    doc: "`a` with elements of `src` reduced into where the index says, by sum, prod, mean, amax or amin, with the old value or without.",
    schema: "(a: Tensor, axis: int, index: Tensor<i>, src: Tensor, reduce: str, include_self: bool = true) -> Tensor",
    level: Level::Composite(scatter_reduce),
    aten: &[Aten {
        overloads: &["scatter_reduce.two", "scatter_reduce_.two"],
        import: Import::Map("a=self axis=dim index src reduce include_self"),
    }],
    samples: &[
        Sample("T[4, 3], i64[2, 3]{0..4}, T[2, 3], axis=0, reduce=\"sum\""),
        Sample("T[3], i64[7]{0..3}, T[7], axis=-1, reduce=\"amax\", include_self=false"),
        Sample("T[3], i64[7]{0..3}, T[7], axis=0, reduce=\"mean\""),
    ],
    ..Op::BASE
};

pub static TORCH_TAKE: Op = Op {
    name: "torch.take",
    doc: "Elements by their place in row-major order; negative places count from the end.",
    schema: "(a: Tensor, index: Tensor<i>) -> Tensor",
    level: Level::Composite(|b, call| {
        let (a, index) = (call.tensor("a")?, call.tensor("index")?);
        let n = a.ty.numel();
        let flat = b.reshape(&a, std::slice::from_ref(&n))?;
        let places = wrapped(b, &index, &n)?;
        let line = b.reshape(&places, &[index.ty.numel()])?;
        let out = b.tensor("prims.take", vec![flat.arg(), line.arg(), Arg::Int(0)])?;
        Ok(vec![b.reshape(&out, index.dims())?.arg()])
    }),
    aten: &[Aten { overloads: &["take.default"], import: Import::Map("a=self index") }],
    samples: &[
        Sample("T[2, 3], i64[4]{-6..6}"),
        Sample("T[5], i64[2, 2]{0..5}"),
        Sample("T[2], i64[]{0..2}"),
    ],
    ..Op::BASE
};

pub static TORCH_TAKE_ALONG_DIM: Op = Op {
    name: "torch.take_along_dim",
    doc: "Elements along an axis by an index for each place, broadcast; without an axis as if flat.",
    schema: "(a: Tensor, index: Tensor<i>, axis: int?) -> Tensor",
    level: Level::Composite(take_along_dim),
    aten: &[Aten {
        overloads: &["take_along_dim.default"],
        import: Import::Map("a=self index=indices axis=dim"),
    }],
    samples: &[
        Sample("T[4, 3], i64[2, 3]{0..4}, axis=0"),
        Sample("T[2, 3], i64[1, 5]{0..3}, axis=-1"),
        Sample("T[2, 3], i64[4]{0..6}"),
    ],
    ..Op::BASE
};

fn index_fill(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, index) = (call.tensor("a")?, call.tensor("index")?);
    let axis = call.axis("axis", a.rank())?;
    if index.rank() > 1 {
        return Err(call.error(format!("`index` is {}, one dim is wanted", meta::show(index.dims()))));
    }
    let index = b.reshape(&index, &[index.ty.numel()])?;
    let x = if a.rank() == 0 { b.unsqueeze(&a, 0)? } else { a.clone() };
    let index = wrapped(b, &index, &x.dims()[axis])?;
    let mut dims = x.dims().to_vec();
    dims[axis] = index.dims()[0].clone();
    let src = match call.operand("value")? {
        Operand::Tensor(v) if v.rank() > 0 => {
            return Err(call.error(format!("`value` must have no dims, found {}", meta::show(v.dims()))));
        }
        Operand::Tensor(v) => {
            let v = b.to(&v, x.dtype())?;
            b.expand(&v, &dims)?
        }
        Operand::Num(n) => b.full(&dims, n, x.dtype(), &x.ty.device)?,
    };
    let out = b.tensor("prims.index_copy", vec![x.arg(), index.arg(), src.arg(), Arg::Int(axis as i64)])?;
    Ok(vec![if a.rank() == 0 { b.squeeze(&out, &[0])? } else { out }.arg()])
}

/// The k-th true place takes element k of `src`: k is how many true places stand before.
fn masked_scatter(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, mask, src) = (call.tensor("a")?, call.tensor("mask")?, call.tensor("src")?);
    if src.dtype() != a.dtype() {
        return Err(call.error(format!("`a` is {}, `src` {}", a.dtype(), src.dtype())));
    }
    let dims = meta::broadcast_dims(call, [a.dims(), mask.dims()])?;
    let (a, mask) = (b.expand(&a, &dims)?, b.expand(&mask, &dims)?);
    let n = a.ty.numel();
    let flat_mask = b.reshape(&mask, std::slice::from_ref(&n))?;
    let ones = b.to(&flat_mask, Dtype::I64)?;
    let met = b.tensor("prims.cumsum", vec![ones.arg(), Arg::Int(0)])?;
    let place = b.sub(&met, 1i64)?;
    let place = b.maximum(&place, 0i64)?;
    let flat = b.reshape(&src, &[src.ty.numel()])?;
    let taken = b.tensor("prims.take", vec![flat.arg(), place.arg(), Arg::Int(0)])?;
    let taken = b.reshape(&taken, &dims)?;
    Ok(vec![b.select(&mask, &taken, &a)?.arg()])
}

fn scatter_reduce(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let s = Scatter::of(b, call)?;
    let reduce = call.str("reduce")?;
    if !["sum", "prod", "mean", "amax", "amin"].contains(&reduce) {
        return Err(call.error(format!("`reduce` must be sum, prod, mean, amax or amin, found {reduce:?}")));
    }
    let src = s.cut(b, call, &call.tensor("src")?)?;
    let args = vec![
        s.a.arg(),
        s.index.arg(),
        src.arg(),
        s.axis.clone(),
        Arg::str(reduce),
        call.raw("include_self")?,
    ];
    let out = b.tensor("prims.scatter_reduce", args).map_err(|e| call.error(e.what))?;
    Ok(vec![s.finish(b, &out)?.arg()])
}

fn take_along_dim(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, index) = (call.tensor("a")?, call.tensor("index")?);
    if !call.has("axis") {
        let flat = b.reshape(&a, &[a.ty.numel()])?;
        let places = b.reshape(&index, &[index.ty.numel()])?;
        return along(b, &flat, &places, 0);
    }
    if a.rank() != index.rank() {
        let (a, index) = (meta::show(a.dims()), meta::show(index.dims()));
        return Err(call.error(format!("`a` is {a}, `index` is {index}: equally many dims are wanted")));
    }
    let axis = call.axis("axis", a.rank())?;
    // Broadcast in all dims but the axis.
    let beside = |dims: &[Dim]| {
        let mut dims = dims.to_vec();
        if let Some(d) = dims.get_mut(axis) {
            *d = Dim::Known(1);
        }
        dims
    };
    let dims = meta::broadcast_dims(call, [&beside(a.dims())[..], &beside(index.dims())[..]])?;
    let with = |n: &Dim| {
        let mut dims = dims.clone();
        dims[axis] = n.clone();
        dims
    };
    if a.rank() == 0 {
        return Err(call.error("needs at least one dim"));
    }
    let wide = b.expand(&a, &with(&a.dims()[axis]))?;
    let places = b.expand(&index, &with(&index.dims()[axis]))?;
    along(b, &wide, &places, axis)
}

fn along(
    b: &mut Builder<'_>,
    a: &super::Tensor,
    index: &super::Tensor,
    axis: usize,
) -> Result<Vec<Arg>, OpError> {
    let out: Built = b.tensor("prims.take_along_axis", vec![a.arg(), index.arg(), Arg::Int(axis as i64)]);
    Ok(vec![out?.arg()])
}
