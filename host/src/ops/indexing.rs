//! Reading and writing by index: gathers, scatters, embeddings.
//!
//! What several inputs meet in one element is deterministic everywhere: sums go in row-major order of the index (in f32
//! for f16 and bf16, rounded once), of plain writes the last in that order wins. An index out of range is an error of the
//! run. Prims take indices that are not negative; `torch.index` and `torch.index_put` wrap negative ones, the others
//! refuse them, as in PyTorch. Prims want `src` with exactly the dims of `index`; composites cut it to that.

use super::arith::Built;
use super::aten::{Aten, AtenCall, Import};
use super::build::{Builder, Operand, Tensor};
use super::emit::number_for;
use super::reduction::prim_axis;
use super::{Call, Grad, Level, Meta, Op, OpError, Sample, Traits, Vjp, import, meta};
use crate::ir::{Arg, Dim, Dtype, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &TAKE,
    &TAKE_ALONG_AXIS,
    &GATHER,
    &INDEX,
    &INDEX_PUT,
    &INDEX_ADD,
    &INDEX_COPY,
    &SCATTER,
    &SCATTER_ADD,
    &SCATTER_REDUCE,
    &NONZERO,
    &EMBEDDING,
    &EMBEDDING_BACKWARD,
    &TORCH_EMBEDDING,
    &TORCH_EMBEDDING_BAG,
    &TORCH_GATHER,
    &TORCH_INDEX,
    &TORCH_INDEX_PUT,
    &TORCH_INDEX_SELECT,
    &TORCH_INDEX_ADD,
    &TORCH_INDEX_COPY,
    &TORCH_SCATTER,
    &TORCH_SCATTER_ADD,
    &TORCH_ONE_HOT,
];

pub static TAKE: Op = Op {
    name: "prims.take",
    doc: "Slices of `a` along an axis, chosen by a 1-d index.",
    schema: "(a: Tensor, index: Tensor<i>, axis: int) -> Tensor",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let axis = prim_axis(call, "axis", a.rank())?;
        let mut dims = a.dims().to_vec();
        dims[axis] = index_1d(call)?.dims()[0].clone();
        meta::one(dims, a.dtype(), &a.ty)
    }),
    vjp: Vjp::Rule(|b, d| {
        let (a, index, g) = (d.call.tensor("a")?, d.call.tensor("index")?, d.g()?);
        let zero = b.full(a.dims(), 0.0, a.dtype(), &a.ty.device)?;
        Ok(vec![
            Some(b.tensor("prims.index_add", vec![zero.arg(), index.arg(), g.arg(), d.call.raw("axis")?])?),
            None,
        ])
    }),
    samples: &[
        Sample("T[4, 3], i64[5]{0..4}, axis=0"),
        Sample("T[2, 4, 3], i32[2]{0..4}, axis=1"),
        Sample("T[4, 3], i64[0], axis=1"),
    ],
    ..Op::BASE
};

pub static TAKE_ALONG_AXIS: Op = Op {
    name: "prims.take_along_axis",
    doc: "`out[.., i, ..] = a[.., index[.., i, ..], ..]` along an axis; the other dims broadcast.",
    schema: "(a: Tensor, index: Tensor<i>, axis: int) -> Tensor",
    meta: Meta::Fn(take_along_axis_meta),
    vjp: Vjp::Rule(|b, d| {
        let (a, index, g) = (d.call.tensor("a")?, d.call.tensor("index")?, d.g()?);
        let axis = d.call.int("axis")? as usize;
        let mut whole = g.dims().to_vec();
        whole[axis] = index.dims()[axis].clone();
        let index = b.expand(&index, &whole)?;
        // Both broadcast but along the axis; what `a` was broadcast from is summed up again.
        let mut wide = g.dims().to_vec();
        wide[axis] = a.dims()[axis].clone();
        let zero = b.full(&wide, 0.0, a.dtype(), &a.ty.device)?;
        let all =
            b.tensor("prims.scatter_add", vec![zero.arg(), index.arg(), g.arg(), Arg::Int(axis as i64)])?;
        let summed: Vec<usize> = (0..a.rank()).filter(|i| a.dims()[*i].is(1) && !wide[*i].is(1)).collect();
        let sum = if summed.is_empty() { all } else { b.sum(&all, &summed)? };
        Ok(vec![Some(b.reshape(&sum, a.dims())?), None])
    }),
    samples: &[
        Sample("T[4, 3], i64[2, 3]{0..4}, axis=0"),
        Sample("T[4, 3], i64[4, 1]{0..3}, axis=1"),
        Sample("T[4, 3], i64[1, 5]{0..3}, axis=1"),
    ],
    ..Op::BASE
};

pub static GATHER: Op = Op {
    name: "prims.gather",
    doc: "As `take_along_axis`, for an index whose other dims are at most those of `a`: it names elements of the corner.",
    schema: "(a: Tensor, index: Tensor<i>, axis: int) -> Tensor",
    meta: Meta::Fn(|call| {
        let (a, index) = (call.tensor("a")?, call.tensor("index")?);
        let axis = prim_axis(call, "axis", a.rank())?;
        check_corner(call, &a, &index, axis)?;
        meta::one(index.dims().to_vec(), a.dtype(), &a.ty)
    }),
    vjp: Vjp::Rule(|b, d| {
        let (a, index, g) = (d.call.tensor("a")?, d.call.tensor("index")?, d.g()?);
        let zero = b.full(a.dims(), 0.0, a.dtype(), &a.ty.device)?;
        Ok(vec![
            Some(b.tensor("prims.scatter_add", vec![zero.arg(), index.arg(), g.arg(), d.call.raw("axis")?])?),
            None,
        ])
    }),
    samples: &[
        Sample("T[4, 3], i64[2, 3]{0..4}, axis=0"),
        Sample("T[4, 3], i64[2, 5]{0..3}, axis=1"),
        Sample("T[4, 3], i64[0, 3], axis=0"),
    ],
    ..Op::BASE
};

pub static INDEX: Op = Op {
    name: "prims.index",
    doc: "Elements by index tensors for some axes, which all have the same dims. These dims stand at the first indexed \
          axis where the indexed axes are adjacent, else in front.",
    schema: "(a: Tensor, indices: Tensor<i>?[]) -> Tensor",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let (dims, _) = indexed_dims(call, &a)?;
        meta::one(dims, a.dtype(), &a.ty)
    }),
    vjp: Vjp::Rule(|b, d| {
        let (a, g) = (d.call.tensor("a")?, d.g()?);
        let zero = b.full(a.dims(), 0.0, a.dtype(), &a.ty.device)?;
        let args = vec![zero.arg(), d.call.raw("indices")?, g.arg(), Arg::Bool(true)];
        let mut all = vec![Some(b.tensor("prims.index_put", args)?)];
        all.resize(d.tensors().len(), None);
        Ok(all)
    }),
    samples: &[
        Sample("T[4, 3], [i64[2]{0..4}, none]"),
        Sample("T[4, 3], [i64[2, 2]{0..4}, i64[2, 2]{0..3}]"),
        Sample("T[4, 2, 3], [none, i64[5]{0..2}]"),
        Sample("T[4, 2, 3], [i64[2]{0..4}, none, i64[2]{0..3}]"),
        Sample("T[4, 3], [i64[0], none]"),
    ],
    ..Op::BASE
};

pub static INDEX_PUT: Op = Op {
    name: "prims.index_put",
    doc: "`a` with the elements that `prims.index` would read replaced by `values` (of the dims that it would give), or \
          with `values` added to them.",
    schema: "(a: Tensor, indices: Tensor<i>?[], values: Tensor, accumulate: bool) -> Tensor",
    meta: Meta::Fn(|call| {
        let (a, values) = (call.tensor("a")?, call.tensor("values")?);
        let (dims, _) = indexed_dims(call, &a)?;
        same_dtype(call, &a, &values, "values")?;
        if !equal_dims(&dims, values.dims()) {
            let (want, found) = (meta::show(&dims), meta::show(values.dims()));
            return Err(call.error(format!("`values` is {found}, the indexed part {want}")));
        }
        same_type(&a)
    }),
    vjp: Vjp::Rule(|b, d| {
        let (g, values) = (d.g()?, d.call.tensor("values")?);
        let indices = d.call.raw("indices")?;
        let of_a = if d.call.bool("accumulate")? {
            g.clone()
        } else {
            let zero = b.full(values.dims(), 0.0, values.dtype(), &values.ty.device)?;
            b.tensor("prims.index_put", vec![g.arg(), indices.clone(), zero.arg(), Arg::Bool(false)])?
        };
        let picked = b.tensor("prims.index", vec![g.arg(), indices])?;
        let of_values = b.unexpand(&picked, values.dims())?;
        let n = d.tensors().len();
        let mut all = vec![None; n];
        all[0] = Some(of_a);
        all[n - 1] = Some(of_values);
        Ok(all)
    }),
    traits: Traits::ACCUMULATES,
    samples: &[
        Sample("T[4, 3], [i64[2]{0..4}, none], T[2, 3], accumulate=false"),
        Sample("T[4, 3], [i64[6]{0..4}, none], T[6, 3], accumulate=true"),
        Sample("T[4, 3], [i64[2, 2]{0..4}, i64[2, 2]{0..3}], T[2, 2], accumulate=true"),
        Sample("T[4, 2, 3], [none, i64[1]{0..2}], T[4, 1, 3], accumulate=false"),
    ],
    ..Op::BASE
};

pub static INDEX_ADD: Op = Op {
    name: "prims.index_add",
    doc: "`a` with each slice of `src` along an axis added to the slice that the 1-d index names.",
    schema: "(a: Tensor, index: Tensor<i>, src: Tensor, axis: int) -> Tensor",
    meta: Meta::Fn(index_slices_meta),
    vjp: Vjp::Rule(|b, d| {
        let (g, index) = (d.g()?, d.call.tensor("index")?);
        let part = b.tensor("prims.take", vec![g.arg(), index.arg(), d.call.raw("axis")?])?;
        Ok(vec![Some(g), None, Some(part)])
    }),
    traits: Traits::ACCUMULATES,
    samples: INDEX_SLICES,
    ..Op::BASE
};

pub static INDEX_COPY: Op = Op {
    name: "prims.index_copy",
    doc: "`a` with the slices along an axis that the 1-d index names replaced by those of `src`.",
    schema: "(a: Tensor, index: Tensor<i>, src: Tensor, axis: int) -> Tensor",
    meta: Meta::Fn(index_slices_meta),
    vjp: Vjp::Rule(|b, d| {
        let (g, index, src) = (d.g()?, d.call.tensor("index")?, d.call.tensor("src")?);
        let axis = d.call.raw("axis")?;
        let zero = b.full(src.dims(), 0.0, src.dtype(), &src.ty.device)?;
        let rest = b.tensor("prims.index_copy", vec![g.arg(), index.arg(), zero.arg(), axis.clone()])?;
        let part = b.tensor("prims.take", vec![g.arg(), index.arg(), axis])?;
        Ok(vec![Some(rest), None, Some(part)])
    }),
    samples: INDEX_SLICES,
    ..Op::BASE
};

const INDEX_SLICES: &[Sample] = &[
    Sample("T[4, 3], i64[5]{0..4}, T[5, 3], axis=0"),
    Sample("T[2, 4, 3], i64[3]{0..4}, T[2, 3, 3], axis=1"),
    Sample("T[4, 3], i64[0], T[4, 0], axis=1"),
];

pub static SCATTER: Op = Op {
    name: "prims.scatter",
    doc: "`a` with `out[.., index[.., i, ..], ..] = src[.., i, ..]` along an axis; of several writes to one place the last \
          in row-major order wins.",
    schema: "(a: Tensor, index: Tensor<i>, src: Tensor|num, axis: int) -> Tensor",
    meta: Meta::Fn(scatter_meta),
    vjp: Vjp::Rule(|b, d| {
        let (g, index, axis) = (d.g()?, d.call.tensor("index")?, d.call.raw("axis")?);
        let zero = super::emit::number_for(&super::Num::Float(0.0), g.dtype());
        let rest = b.tensor("prims.scatter", vec![g.arg(), index.arg(), zero, axis.clone()])?;
        let mut all = vec![Some(rest), None];
        if let Some(src) = d.call.operand("src")?.tensor() {
            let picked = b.tensor("prims.gather", vec![g.arg(), index.arg(), axis])?;
            all.push(Some(widened(b, &picked, src.dims())?));
        }
        Ok(all)
    }),
    samples: &[
        Sample("T[4, 3], i64[2, 3]{0..4}, T[2, 3], axis=0"),
        Sample("T[4, 3], i64[2, 2]{0..3}, T[2, 2], axis=1"),
        Sample("T[4, 3], i64[2, 3]{0..4}, 2.0, axis=0"),
    ],
    ..Op::BASE
};

pub static SCATTER_ADD: Op = Op {
    name: "prims.scatter_add",
    doc: "`a` with `out[.., index[.., i, ..], ..] += src[.., i, ..]` along an axis.",
    schema: "(a: Tensor, index: Tensor<i>, src: Tensor, axis: int) -> Tensor",
    meta: Meta::Fn(scatter_meta),
    vjp: Vjp::Rule(|b, d| {
        let (g, index, src) = (d.g()?, d.call.tensor("index")?, d.call.tensor("src")?);
        let picked = b.tensor("prims.gather", vec![g.arg(), index.arg(), d.call.raw("axis")?])?;
        Ok(vec![Some(g), None, Some(widened(b, &picked, src.dims())?)])
    }),
    traits: Traits::ACCUMULATES,
    samples: SCATTER_SAMPLES,
    ..Op::BASE
};

const SCATTER_SAMPLES: &[Sample] = &[
    Sample("T[4, 3], i64[2, 3]{0..4}, T[2, 3], axis=0"),
    Sample("T[4, 3], i64[2, 2]{0..3}, T[2, 2], axis=1"),
    Sample("T[3], i64[7]{0..3}, T[7], axis=0"),
];

pub static SCATTER_REDUCE: Op = Op {
    name: "prims.scatter_reduce",
    doc: "`a` with each place that the index names reduced over what `src` brings there, and, with `include_self`, over \
          what stood there. Places not named keep their value. Complex numbers have no extremes, bools no mean.",
    schema: "(a: Tensor, index: Tensor<i>, src: Tensor, axis: int, reduce: str{sum|prod|mean|amax|amin}, \
             include_self: bool) -> Tensor",
    meta: Meta::Fn(scatter_reduce_meta),
    vjp: Vjp::Rule(scatter_reduce_rule),
    traits: Traits::ACCUMULATES,
    samples: &[
        Sample("T[4, 3], i64[2, 3]{0..4}, T[2, 3], axis=0, reduce=\"sum\", include_self=true"),
        Sample("T[3], i64[7]{0..3}, T[7], axis=0, reduce=\"mean\", include_self=false"),
        Sample("T[3], i64[7]{0..3}, T[7], axis=0, reduce=\"amax\", include_self=false"),
        Sample("T[3], i64[7]{0..3}, T[7], axis=0, reduce=\"prod\", include_self=true"),
        Sample("T[3], i64[7]{0..3}, T[7], axis=0, reduce=\"amin\", include_self=true"),
    ],
    ..Op::BASE
};

pub static NONZERO: Op = Op {
    name: "prims.nonzero",
    doc: "Indices of the elements that are not zero, in row-major order, one row each. How many there are is known when it \
          has run.",
    schema: "(a: Tensor) -> Tensor<i64>",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let rank = Dim::Known(a.rank() as i64);
        meta::one(vec![meta::data_size(0), rank], Dtype::I64, &a.ty)
    }),
    vjp: Vjp::NonDiff,
    traits: Traits::DATA_SIZED,
    samples: &[Sample("bool[2, 3]"), Sample("i64[5]{0..2}"), Sample("bool[0, 2]"), Sample("T[3]")],
    ..Op::BASE
};

pub static EMBEDDING: Op = Op {
    name: "prims.embedding",
    doc: "Rows of a 2-d `weight`, one for each element of `index`.",
    schema: "(index: Tensor<i>, weight: Tensor<x>) -> Tensor",
    meta: Meta::Fn(|call| {
        let (index, weight) = (call.tensor("index")?, call.tensor("weight")?);
        let [_, width] = weight.dims() else {
            return Err(call.error(format!("`weight` is {}, 2 dims are wanted", meta::show(weight.dims()))));
        };
        let dims = [index.dims(), std::slice::from_ref(width)].concat();
        meta::one(dims, weight.dtype(), &weight.ty)
    }),
    vjp: Vjp::Rule(|b, d| {
        let (index, weight, g) = (d.call.tensor("index")?, d.call.tensor("weight")?, d.g()?);
        let n = weight.dims().first().cloned().unwrap_or(Dim::Known(0));
        let args = vec![g.arg(), index.arg(), Arg::dim(n), Arg::None, Arg::Bool(false)];
        Ok(vec![None, Some(b.tensor("prims.embedding_backward", args)?)])
    }),
    samples: &[Sample("i64[2, 3]{0..5}, T[5, 4]"), Sample("i32[]{0..5}, T[5, 4]"), Sample("i64[0], T[5, 4]")],
    ..Op::BASE
};

pub static EMBEDDING_BACKWARD: Op = Op {
    name: "prims.embedding_backward",
    doc: "Gradient of an embedding of `n` rows: rows of `g` summed by index in f32. Rows at `padding_idx` have none; with \
          `scale_by_freq` each is divided by how often its index occurs.",
    schema: "(g: Tensor<x>, index: Tensor<i>, n: dim, padding_idx: int?, scale_by_freq: bool) -> Tensor",
    meta: Meta::Fn(|call| {
        let (g, index) = (call.tensor("g")?, call.tensor("index")?);
        let fits = g.rank() == index.rank() + 1 && equal_dims(index.dims(), &g.dims()[..index.rank()]);
        if !fits {
            let (g, index) = (meta::show(g.dims()), meta::show(index.dims()));
            return Err(call.error(format!("`g` is {g}, the index {index}")));
        }
        meta::one(vec![call.dim("n")?, g.dims()[index.rank()].clone()], g.dtype(), &g.ty)
    }),
    vjp: Vjp::Rule(|b, d| {
        let (index, g) = (d.call.tensor("index")?, d.g()?);
        let mut rows = b.tensor("prims.embedding", vec![index.arg(), g.arg()])?;
        let last = index.rank();
        if d.call.bool("scale_by_freq")? {
            let dims = [index.dims(), &[Dim::Known(1)]].concat();
            let ones = b.full(&dims, 1.0, g.dtype(), &g.ty.device)?;
            let args = vec![ones.arg(), index.arg(), d.call.raw("n")?, Arg::None, Arg::Bool(false)];
            let count = b.tensor("prims.embedding_backward", args)?;
            let count = b.tensor("prims.embedding", vec![index.arg(), count.arg()])?;
            rows = b.div(&rows, &count)?;
        }
        if let Some(padding) = d.call.opt_int("padding_idx")? {
            let counted = b.ne(&index, padding)?;
            let counted = b.unsqueeze(&counted, last)?;
            rows = b.select(&counted, &rows, 0.0)?;
        }
        Ok(vec![Some(rows), None])
    }),
    traits: Traits::ACCUMULATES,
    samples: &[
        Sample("T[2, 3, 4], i64[2, 3]{0..5}, n=5, scale_by_freq=false"),
        Sample("T[6, 4], i64[6]{0..3}, n=3, padding_idx=1, scale_by_freq=true"),
        Sample("T[0, 4], i64[0], n=3, scale_by_freq=false"),
    ],
    ..Op::BASE
};

pub static TORCH_EMBEDDING: Op = Op {
    name: "torch.embedding",
    doc: "Rows of `weight` by index. `padding_idx` (-1: none) and `scale_by_freq` matter to the gradient only.",
    schema: "(weight: Tensor<x>, index: Tensor<i>, padding_idx: int = -1, scale_by_freq: bool = false) -> Tensor",
    level: Level::Composite(|b, call| {
        let args = vec![call.tensor("index")?.arg(), call.tensor("weight")?.arg()];
        let rows = b.tensor("prims.embedding", args).map_err(|e| call.error(e.what))?;
        Ok(vec![rows.arg()])
    }),
    // `sparse` says how ATen stores the gradient, not what it is.
    vjp: Vjp::Rule(|b, d| {
        let (weight, index, g) = (d.call.tensor("weight")?, d.call.tensor("index")?, d.g()?);
        let n = weight.dims().first().cloned().unwrap_or(Dim::Known(0));
        let padding = match d.call.int("padding_idx")? {
            p if p < 0 => Arg::None,
            p => Arg::Int(p),
        };
        let args = vec![g.arg(), index.arg(), Arg::dim(n), padding, d.call.raw("scale_by_freq")?];
        Ok(vec![Some(b.tensor("prims.embedding_backward", args)?), None])
    }),
    aten: &[Aten {
        overloads: &["embedding.default"],
        import: Import::Map("weight index=indices padding_idx scale_by_freq=scale_grad_by_freq"),
    }],
    samples: &[
        Sample("T[5, 4], i64[2, 3]{0..5}"),
        Sample("T[5, 4], i32[]{0..5}"),
        Sample("T[5, 4], i64[0], padding_idx=2"),
        Sample("T[5, 4], i64[4]{0..5}, padding_idx=0, scale_by_freq=true"),
    ],
    ..Op::BASE
};

pub static TORCH_EMBEDDING_BAG: Op = Op {
    name: "torch.embedding_bag",
    doc: "Rows of `weight` summed (`mode` 0), averaged (1) or maximised (2) over bags: bag `i` of the 1-d index begins at \
          `offsets[i]`. Also gives the bag of each element, the sizes of bags and the index of each maximum, as far as \
          ATen's CPU kernel computes them: for sums the sizes are 0, and without padding and in f32, f16, bf16 there are \
          no bags of elements.",
    schema: "(weight: Tensor, index: Tensor<i>, offsets: Tensor<i>, scale_by_freq: bool, mode: int, per_sample: Tensor?, \
             include_last: bool, padding_idx: int) -> (Tensor, Tensor, Tensor, Tensor)",
    level: Level::Composite(embedding_bag),
    aten: &[
        Aten { overloads: &["embedding_bag.default"], import: Import::With(import_embedding_bag) },
        Aten {
            overloads: &[
                "embedding_bag.padding_idx",
                "_embedding_bag.default",
                "_embedding_bag_forward_only.default",
            ],
            import: Import::With(import_embedding_bag),
        },
    ],
    samples: &[
        Sample(
            "T[5, 3], i64[6]{0..5}, i64[2]{sorted}, scale_by_freq=false, mode=0, include_last=false, padding_idx=-1",
        ),
        Sample(
            "T[5, 3], i64[6]{0..5}, i64[1]{0..1}, scale_by_freq=false, mode=1, include_last=false, padding_idx=2",
        ),
        Sample(
            "T[5, 3], i64[6]{0..5}, i64[1]{0..1}, scale_by_freq=false, mode=2, include_last=false, padding_idx=-1",
        ),
        Sample(
            "T[5, 3], i64[6]{0..5}, i64[1]{0..1}, T[6], scale_by_freq=false, mode=0, include_last=false, padding_idx=-1",
        ),
    ],
    ..Op::BASE
};

pub static TORCH_GATHER: Op = Op {
    name: "torch.gather",
    doc: "`out[.., i, ..] = a[.., index[.., i, ..], ..]` along an axis.",
    schema: "(a: Tensor, axis: int, index: Tensor<i>) -> Tensor",
    level: Level::Composite(gather),
    aten: &[Aten { overloads: &["gather.default"], import: Import::Map("a=self axis=dim index") }],
    samples: &[
        Sample("T[4, 3], i64[2, 3]{0..4}, axis=0"),
        Sample("T[4, 3], i64[2, 5]{0..3}, axis=-1"),
        Sample("T[], i64[]{0..1}, axis=0"),
        Sample("T[], i64[3]{0..1}, axis=0"),
    ],
    ..Op::BASE
};

pub static TORCH_INDEX: Op = Op {
    name: "torch.index",
    doc: "`a[i, j, …]` with tensors: integers (negative ones count from the end) broadcast together; a bool mask stands \
          for the indices of its true elements, so that the result's size is known when it has run.",
    schema: "(a: Tensor, indices: Tensor<i|b>?[]) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let indices = integer_indices(b, call, &a)?;
        Ok(vec![b.tensor("prims.index", vec![a.arg(), indices]).map_err(|e| call.error(e.what))?.arg()])
    }),
    aten: &[Aten {
        overloads: &["index.Tensor", "_unsafe_index.Tensor"],
        import: Import::Map("a=self indices"),
    }],
    samples: &[
        Sample("T[4, 3], [i64[2]{-4..4}]"),
        Sample("T[4, 3], [i64[2, 1]{-4..4}, i64[5]{0..3}]"),
        Sample("T[4, 2, 3], [none, i64[5]{0..2}]"),
        Sample("T[4, 2, 3], [i64[2]{0..4}, none, i64[2]{0..3}]"),
        Sample("T[4, 3], [bool[4]]"),
        Sample("T[4, 3], [bool[4, 3]]"),
        Sample("T[4, 3], [i64[]{0..4}]"),
    ],
    ..Op::BASE
};

pub static TORCH_INDEX_PUT: Op = Op {
    name: "torch.index_put",
    doc: "`a` with `a[i, j, …]` replaced by `values` (broadcast), or with `values` added. One value under one bool mask is \
          a selection and has no size known only when run.",
    schema: "(a: Tensor, indices: Tensor<i|b>?[], values: Tensor, accumulate: bool = false) -> Tensor",
    level: Level::Composite(index_put),
    traits: Traits::ACCUMULATES,
    aten: &[Aten {
        overloads: &[
            "index_put.default",
            "index_put_.default",
            "_unsafe_index_put.default",
            "_index_put_impl_.default",
        ],
        import: Import::Map("a=self indices values accumulate"),
    }],
    samples: &[
        Sample("T[4, 3], [i64[2]{-4..4}], T[2, 3]"),
        Sample("T[4, 3], [i64[6]{0..4}], T[3], accumulate=true"),
        Sample("T[4, 3], [bool[4, 3]], T[]"),
        Sample("T[4, 2, 3], [none, i64[1]{0..2}], T[4, 1, 3]"),
        Sample("T[4, 2, 3], [i64[2]{0..4}, none, i64[2]{0..3}], T[2, 2]"),
    ],
    ..Op::BASE
};

pub static TORCH_INDEX_SELECT: Op = Op {
    name: "torch.index_select",
    doc: "Slices along an axis, chosen by a 1-d (or zero-dim) index; negative ones are errors.",
    schema: "(a: Tensor, axis: int, index: Tensor<i>) -> Tensor",
    level: Level::Composite(index_select),
    aten: &[Aten { overloads: &["index_select.default"], import: Import::Map("a=self axis=dim index") }],
    samples: &[
        Sample("T[4, 3], i64[5]{0..4}, axis=0"),
        Sample("T[4, 3], i32[2]{0..3}, axis=-1"),
        Sample("T[4, 3], i64[]{0..4}, axis=0"),
        Sample("T[], i64[1]{0..1}, axis=0"),
    ],
    ..Op::BASE
};

pub static TORCH_INDEX_ADD: Op = Op {
    name: "torch.index_add",
    doc: "`a` with `alpha` times each slice of `src` added to the slice that the index names.",
    schema: "(a: Tensor, axis: int, index: Tensor<i>, src: Tensor, *, alpha: num = 1) -> Tensor",
    level: Level::Composite(|b, call| index_slices(b, call, "prims.index_add")),
    traits: Traits::ACCUMULATES,
    aten: &[Aten {
        overloads: &["index_add.default", "index_add_.default"],
        import: Import::Map("a=self axis=dim index src=source alpha"),
    }],
    samples: &[
        Sample("T[4, 3], i64[5]{0..4}, T[5, 3], axis=0"),
        Sample("T[4, 3], i64[2]{0..3}, T[4, 2], axis=-1, alpha=2"),
    ],
    ..Op::BASE
};

pub static TORCH_INDEX_COPY: Op = Op {
    name: "torch.index_copy",
    doc: "`a` with the slices along an axis that the index names replaced by those of `src`.",
    schema: "(a: Tensor, axis: int, index: Tensor<i>, src: Tensor) -> Tensor",
    level: Level::Composite(|b, call| index_slices(b, call, "prims.index_copy")),
    aten: &[Aten {
        overloads: &["index_copy.default", "index_copy_.default"],
        import: Import::Map("a=self axis=dim index src=source"),
    }],
    samples: &[
        Sample("T[4, 3], i64[1]{0..4}, T[1, 3], axis=0"),
        Sample("T[1, 2, 4, 3], i64[1]{0..4}, T[1, 2, 1, 3], axis=2"),
        Sample("T[4, 3], i64[]{0..3}, T[4, 1], axis=-1"),
    ],
    ..Op::BASE
};

pub static TORCH_SCATTER: Op = Op {
    name: "torch.scatter",
    doc: "`a` with `out[.., index[.., i, ..], ..] = src[.., i, ..]` along an axis; `reduce` adds or multiplies instead.",
    schema: "(a: Tensor, axis: int, index: Tensor<i>, src: Tensor|num, reduce: str? = None) -> Tensor",
    level: Level::Composite(scatter),
    traits: Traits::ACCUMULATES,
    aten: &[
        Aten {
            overloads: &["scatter.src", "scatter_.src"],
            import: Import::Map("a=self axis=dim index src"),
        },
        Aten {
            overloads: &["scatter.value", "scatter_.value"],
            import: Import::Map("a=self axis=dim index src=value"),
        },
        Aten {
            overloads: &["scatter.reduce", "scatter_.reduce"],
            import: Import::Map("a=self axis=dim index src reduce"),
        },
        Aten {
            overloads: &["scatter.value_reduce", "scatter_.value_reduce"],
            import: Import::Map("a=self axis=dim index src=value reduce"),
        },
    ],
    samples: &[
        Sample("T[4, 3], i64[2, 3]{0..4}, T[2, 3], axis=0"),
        Sample("T[4, 3], i64[2, 2]{0..3}, T[4, 3], axis=-1"),
        Sample("T[4, 3], i64[2, 3]{0..4}, 2, axis=0"),
        Sample("T[4, 3], i64[2, 3]{0..4}, T[2, 3], axis=0, reduce=\"add\""),
        Sample("T[4, 3], i64[2, 3]{0..4}, 3.0, axis=0, reduce=\"multiply\""),
        Sample("T[], i64[]{0..1}, T[], axis=0"),
    ],
    ..Op::BASE
};

pub static TORCH_SCATTER_ADD: Op = Op {
    name: "torch.scatter_add",
    doc: "`a` with `out[.., index[.., i, ..], ..] += src[.., i, ..]` along an axis.",
    schema: "(a: Tensor, axis: int, index: Tensor<i>, src: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let s = Scatter::of(b, call)?;
        let src = call.tensor("src")?;
        let src = s.cut(b, call, &src)?;
        let out = b.tensor("prims.scatter_add", vec![s.a.arg(), s.index.arg(), src.arg(), s.axis.clone()])?;
        Ok(vec![s.finish(b, &out)?.arg()])
    }),
    traits: Traits::ACCUMULATES,
    aten: &[Aten {
        overloads: &["scatter_add.default", "scatter_add_.default"],
        import: Import::Map("a=self axis=dim index src"),
    }],
    samples: &[
        Sample("T[4, 3], i64[2, 3]{0..4}, T[2, 3], axis=0"),
        Sample("T[4, 3], i64[2, 2]{0..3}, T[4, 3], axis=-1"),
        Sample("T[3], i64[7]{0..3}, T[7], axis=0"),
    ],
    ..Op::BASE
};

pub static TORCH_ONE_HOT: Op = Op {
    name: "torch.one_hot",
    doc: "1 at the index and 0 elsewhere along a new last dim of `classes`.",
    schema: "(a: Tensor<i>, classes: int = -1) -> Tensor<i64>",
    level: Level::Composite(one_hot),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["one_hot.default"], import: Import::Map("a=self classes=num_classes") }],
    samples: &[
        Sample("i64[2, 3]{0..5}, classes=5"),
        Sample("i64[]{0..3}, classes=3"),
        Sample("i64[0], classes=3"),
    ],
    ..Op::BASE
};

// Meta rules.

fn same_type(a: &Tensor) -> Result<Vec<Option<Type>>, OpError> {
    Ok(vec![Some(Type::Tensor(a.ty.clone()))])
}

fn equal_dims(a: &[Dim], b: &[Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.same(y) != Some(false))
}

fn same_dtype(call: &Call, a: &Tensor, b: &Tensor, name: &str) -> Result<(), OpError> {
    if a.dtype() == b.dtype() {
        return Ok(());
    }
    Err(call.error(format!("`a` is {}, `{name}` is {}: one dtype is wanted", a.dtype(), b.dtype())))
}

fn index_1d(call: &Call) -> Result<Tensor, OpError> {
    let index = call.tensor("index")?;
    if index.rank() == 1 {
        return Ok(index);
    }
    Err(call.error(format!("`index` is {}, one dim is wanted", meta::show(index.dims()))))
}

fn take_along_axis_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, index) = (call.tensor("a")?, call.tensor("index")?);
    let axis = prim_axis(call, "axis", a.rank())?;
    if a.rank() != index.rank() {
        let (a, index) = (meta::show(a.dims()), meta::show(index.dims()));
        return Err(call.error(format!("`a` is {a}, `index` is {index}: equally many dims are wanted")));
    }
    let without_axis = |t: &Tensor| {
        let mut dims = t.dims().to_vec();
        dims[axis] = Dim::Known(1);
        dims
    };
    let (x, y) = (without_axis(&a), without_axis(&index));
    let mut dims = meta::broadcast_dims(call, [&x[..], &y[..]])?;
    dims[axis] = index.dims()[axis].clone();
    meta::one(dims, a.dtype(), &a.ty)
}

/// Index dims are at most those of `a`, but for the axis.
fn check_corner(call: &Call, a: &Tensor, index: &Tensor, axis: usize) -> Result<(), OpError> {
    let larger = |x: &Dim, i: &Dim| matches!((x.known(), i.known()), (Some(x), Some(i)) if i > x);
    let mut pairs = a.dims().iter().zip(index.dims()).enumerate();
    if a.rank() == index.rank() && !pairs.any(|(at, (x, i))| at != axis && larger(x, i)) {
        return Ok(());
    }
    let (a, index) = (meta::show(a.dims()), meta::show(index.dims()));
    Err(call.error(format!("`index` {index} does not fit into `a` {a} beside axis {axis}")))
}

fn scatter_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, index) = (call.tensor("a")?, call.tensor("index")?);
    let axis = prim_axis(call, "axis", a.rank())?;
    check_corner(call, &a, &index, axis)?;
    if let Operand::Tensor(src) = call.operand("src")? {
        same_dtype(call, &a, &src, "src")?;
        if !equal_dims(index.dims(), src.dims()) {
            let (index, src) = (meta::show(index.dims()), meta::show(src.dims()));
            return Err(call.error(format!("`src` is {src}, `index` is {index}: equal dims are wanted")));
        }
    }
    same_type(&a)
}

fn scatter_reduce_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (dtype, how) = (call.tensor("a")?.dtype(), call.str("reduce")?);
    if matches!(how, "amax" | "amin") && dtype.is_complex() || how == "mean" && dtype == Dtype::Bool {
        return Err(call.error(format!("{dtype} has no `{how}`")));
    }
    scatter_meta(call)
}

fn index_slices_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, src) = (call.tensor("a")?, call.tensor("src")?);
    let axis = prim_axis(call, "axis", a.rank())?;
    same_dtype(call, &a, &src, "src")?;
    let mut want = a.dims().to_vec();
    want[axis] = index_1d(call)?.dims()[0].clone();
    if !equal_dims(&want, src.dims()) {
        return Err(call.error(format!(
            "`src` is {}, {} is wanted",
            meta::show(src.dims()),
            meta::show(&want)
        )));
    }
    same_type(&a)
}

/// Dims of what `indices` read from `a`, and the dims of the index tensors themselves.
fn indexed_dims(call: &Call, a: &Tensor) -> Result<(Vec<Dim>, Vec<Dim>), OpError> {
    let indices = call.opt_tensors("indices")?;
    if indices.len() > a.rank() {
        return Err(call.error(format!("{} indices for {} dims", indices.len(), a.rank())));
    }
    let at: Vec<usize> = (0..indices.len()).filter(|i| indices[*i].is_some()).collect();
    let given: Vec<&Tensor> = indices.iter().flatten().collect();
    let [first, others @ ..] = given.as_slice() else { return Err(call.error("no index is given")) };
    if let Some(other) = others.iter().find(|t| !equal_dims(t.dims(), first.dims())) {
        let (x, y) = (meta::show(first.dims()), meta::show(other.dims()));
        return Err(call.error(format!("index tensors of one set of dims are wanted, found {x} and {y}")));
    }
    let adjacent = at.windows(2).all(|w| w[0] + 1 == w[1]);
    let place = if adjacent { at[0] } else { 0 };
    let mut dims: Vec<Dim> = (0..a.rank()).filter(|i| !at.contains(i)).map(|i| a.dims()[i].clone()).collect();
    dims.splice(place..place, first.dims().iter().cloned());
    Ok((dims, first.dims().to_vec()))
}

// Decompositions.

/// The indices of a call as `prims.index` takes them: masks as the indices of their true elements, negative ones
/// wrapped, all of them i64 and broadcast.
fn integer_indices(b: &mut Builder<'_>, call: &Call, a: &Tensor) -> Result<Arg, OpError> {
    let mut at: Vec<Option<Tensor>> = Vec::new();
    for index in call.opt_tensors("indices")? {
        let Some(index) = index else {
            at.push(None);
            continue;
        };
        if matches!(index.dtype(), Dtype::Bool | Dtype::U8) {
            at.extend(true_elements(b, call, a, &index, at.len())?.into_iter().map(Some));
        } else {
            let index = b.to(&index, Dtype::I64)?;
            let Some(n) = a.dims().get(at.len()) else {
                return Err(call.error(format!("more indices than the {} dims of `a`", a.rank())));
            };
            at.push(Some(wrapped(b, &index, n)?));
        }
    }
    let dims = meta::broadcast_dims(call, at.iter().flatten().map(Tensor::dims))?;
    let mut args = Vec::new();
    for index in at {
        args.push(match index {
            Some(t) => b.expand(&t, &dims)?.arg(),
            None => Arg::None,
        });
    }
    Ok(Arg::List(args))
}

/// For a mask over the dims of `a` from `first` on: one index tensor for each of them.
fn true_elements(
    b: &mut Builder<'_>,
    call: &Call,
    a: &Tensor,
    mask: &Tensor,
    first: usize,
) -> Result<Vec<Tensor>, OpError> {
    let n = mask.rank();
    let fits = n > 0 && first + n <= a.rank() && equal_dims(mask.dims(), &a.dims()[first..first + n]);
    if !fits {
        let (a, mask) = (meta::show(a.dims()), meta::show(mask.dims()));
        return Err(
            call.error(format!("the mask {mask} does not match the dims of `a` {a} from axis {first} on"))
        );
    }
    let found = b.tensor("prims.nonzero", vec![mask.arg()])?;
    (0..n).map(|i| b.pick(&found, 1, i as i64)).collect()
}

/// Negative indices count from the end.
pub(super) fn wrapped(b: &mut Builder<'_>, index: &Tensor, n: &Dim) -> Built {
    let negative = b.lt(index, 0)?;
    let from_end = b.add(index, super::arith::size(n))?;
    b.select(&negative, &from_end, index)
}

fn index_put(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, values) = (call.tensor("a")?, call.tensor("values")?);
    same_dtype(call, &a, &values, "values")?;
    if let Some(out) = masked_write(b, call, &a, &values)? {
        return Ok(vec![out.arg()]);
    }
    let indices = integer_indices(b, call, &a)?;
    // What would be read has the dims that the values must have.
    let read = b.tensor("prims.index", vec![a.arg(), indices.clone()]).map_err(|e| call.error(e.what))?;
    let joint = meta::broadcast_dims(call, [read.dims(), values.dims()])?;
    if joint.len() > read.rank() {
        let (values, read) = (meta::show(values.dims()), meta::show(read.dims()));
        return Err(call.error(format!("`values` {values} does not broadcast to the indexed part {read}")));
    }
    let values = b.expand(&values, read.dims())?;
    let args = vec![a.arg(), indices, values.arg(), call.raw("accumulate")?];
    Ok(vec![b.tensor("prims.index_put", args)?.arg()])
}

/// One value written wherever one bool mask over the first dims is true: a selection.
fn masked_write(
    b: &mut Builder<'_>,
    call: &Call,
    a: &Tensor,
    values: &Tensor,
) -> Result<Option<Tensor>, OpError> {
    let indices = call.opt_tensors("indices")?;
    let [Some(mask)] = indices.as_slice() else { return Ok(None) };
    let one = values.dims().iter().all(|d| d.is(1));
    let fits = mask.dtype() == Dtype::Bool
        && mask.rank() > 0
        && mask.rank() <= a.rank()
        && equal_dims(mask.dims(), &a.dims()[..mask.rank()]);
    if !one || !fits {
        return Ok(None);
    }
    let rest: Vec<usize> = (mask.rank()..a.rank()).collect();
    let mask = b.spread(mask, a.dims(), &rest)?;
    let all: Vec<usize> = (0..values.rank()).collect();
    let value = b.squeeze(values, &all)?;
    let value = if call.bool("accumulate")? { b.add(a, &value)? } else { value };
    b.select(&mask, &value, a).map(Some)
}

/// A zero-dim tensor as one of one element.
fn at_least_1d(b: &mut Builder<'_>, t: &Tensor) -> Built {
    if t.rank() == 0 { b.unsqueeze(t, 0) } else { Ok(t.clone()) }
}

fn gather(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, index) = (call.tensor("a")?, call.tensor("index")?);
    let axis = Arg::Int(call.axis("axis", a.rank())? as i64);
    let (a, i) = (at_least_1d(b, &a)?, at_least_1d(b, &index)?);
    let out = b.tensor("prims.gather", vec![a.arg(), i.arg(), axis]).map_err(|e| call.error(e.what))?;
    let gone: &[usize] = if index.rank() == 0 { &[0] } else { &[] };
    Ok(vec![b.squeeze(&out, gone)?.arg()])
}

fn index_select(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, index) = (call.tensor("a")?, call.tensor("index")?);
    let axis = Arg::Int(call.axis("axis", a.rank())? as i64);
    let (x, i) = (at_least_1d(b, &a)?, at_least_1d(b, &index)?);
    let out = b.tensor("prims.take", vec![x.arg(), i.arg(), axis]).map_err(|e| call.error(e.what))?;
    let gone: &[usize] = if a.rank() == 0 { &[0] } else { &[] };
    Ok(vec![b.squeeze(&out, gone)?.arg()])
}

fn index_slices(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    let (a, index, src) = (call.tensor("a")?, call.tensor("index")?, call.tensor("src")?);
    let axis = Arg::Int(call.axis("axis", a.rank())? as i64);
    let src = match call.opt_num("alpha") {
        Ok(Some(alpha)) if !super::linalg::is_number(&alpha, 1.0) => b.mul(&src, alpha)?,
        _ => src,
    };
    let (x, i) = (at_least_1d(b, &a)?, at_least_1d(b, &index)?);
    // A zero-dim source stands for the one slice of a 1-d tensor.
    let src = at_least_1d(b, &src)?;
    let args = vec![x.arg(), i.arg(), src.arg(), axis];
    let out = b.tensor(prim, args).map_err(|e| call.error(e.what))?;
    let gone: &[usize] = if a.rank() == 0 { &[0] } else { &[] };
    Ok(vec![b.squeeze(&out, gone)?.arg()])
}

/// The operands that all scatters share, with at least one dim.
pub(super) struct Scatter {
    pub(super) a: Tensor,
    pub(super) index: Tensor,
    pub(super) axis: Arg,
    zero_dim: bool,
}

impl Scatter {
    pub(super) fn of(b: &mut Builder<'_>, call: &Call) -> Result<Scatter, OpError> {
        let (a, index) = (call.tensor("a")?, call.tensor("index")?);
        let axis = Arg::Int(call.axis("axis", a.rank())? as i64);
        let zero_dim = a.rank() == 0;
        Ok(Scatter { a: at_least_1d(b, &a)?, index: at_least_1d(b, &index)?, axis, zero_dim })
    }

    /// The corner of `src` that the index has places for.
    pub(super) fn cut(&self, b: &mut Builder<'_>, call: &Call, src: &Tensor) -> Built {
        let src = at_least_1d(b, src)?;
        if src.rank() != self.index.rank() {
            let (index, src) = (meta::show(self.index.dims()), meta::show(src.dims()));
            return Err(
                call.error(format!("`src` is {src}, `index` is {index}: equally many dims are wanted"))
            );
        }
        let mut cut = src;
        for (axis, n) in self.index.dims().to_vec().iter().enumerate() {
            if cut.dims()[axis].same(n) == Some(false) {
                cut = b.narrow(&cut, axis, &Dim::Known(0), n).map_err(|e| call.error(e.what))?;
            }
        }
        Ok(cut)
    }

    pub(super) fn finish(&self, b: &mut Builder<'_>, out: &Tensor) -> Built {
        b.squeeze(out, if self.zero_dim { &[0] } else { &[] })
    }
}

fn scatter(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let s = Scatter::of(b, call)?;
    let reduce = match call.raw("reduce")? {
        Arg::None => None,
        Arg::Str(r) if &*r == "add" => Some("sum"),
        Arg::Str(r) if &*r == "multiply" => Some("prod"),
        other => return Err(call.error(format!("`reduce` must be add or multiply, found {other:?}"))),
    };
    let src = match call.operand("src")? {
        Operand::Tensor(src) => s.cut(b, call, &src)?.arg(),
        Operand::Num(n) if reduce.is_some() => {
            let dims = s.index.dims().to_vec();
            b.full(&dims, n, s.a.dtype(), &s.a.ty.device.clone())?.arg()
        }
        Operand::Num(n) => number_for(&n, s.a.dtype()),
    };
    let mut args = vec![s.a.arg(), s.index.arg(), src, s.axis.clone()];
    let prim = match reduce {
        None => "prims.scatter",
        Some(r) => {
            args.extend([Arg::str(r), Arg::Bool(true)]);
            "prims.scatter_reduce"
        }
    };
    let out = b.tensor(prim, args).map_err(|e| call.error(e.what))?;
    Ok(vec![s.finish(b, &out)?.arg()])
}

fn one_hot(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let classes = call.int("classes")?;
    if classes < 1 {
        return Err(call.error(format!("`classes` is {classes}, the number of classes must be given")));
    }
    let a = b.to(&a, Dtype::I64)?;
    let last = a.rank();
    let dims = [a.dims(), &[Dim::Known(classes)]].concat();
    let class = b.positions(&dims, last, Dtype::I64, &a.ty.device)?;
    let index = b.spread(&a, &dims, &[last])?;
    let hit = b.eq(&index, &class)?;
    Ok(vec![b.to(&hit, Dtype::I64)?.arg()])
}

/// How bags are put together.
#[derive(Clone, Copy, PartialEq)]
enum Bag {
    Sum,
    Mean,
    Max,
}

fn embedding_bag(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (weight, index, offsets) = (call.tensor("weight")?, call.tensor("index")?, call.tensor("offsets")?);
    let ([_, width], [n], [starts]) = (weight.dims(), index.dims(), offsets.dims()) else {
        return Err(call.error(format!(
            "`weight` must have 2 dims, `index` and `offsets` 1, found {}, {}, {}",
            meta::show(weight.dims()),
            meta::show(index.dims()),
            meta::show(offsets.dims())
        )));
    };
    let mode = match call.int("mode")? {
        0 => Bag::Sum,
        1 => Bag::Mean,
        2 => Bag::Max,
        m => return Err(call.error(format!("`mode` must be 0, 1 or 2, found {m}"))),
    };
    let per_sample = call.opt_tensor("per_sample")?;
    if per_sample.is_some() && mode != Bag::Sum {
        return Err(call.error("weights for each element go with sums only"));
    }
    let device = weight.ty.device.clone();
    let dtype = meta::promote(index.dtype(), offsets.dtype());
    let bags = if call.bool("include_last")? { starts.sub(&Dim::Known(1)) } else { starts.clone() };
    let first = b.narrow(&offsets, 0, &Dim::Known(0), &bags)?;
    let (first, index) = (b.to(&first, Dtype::I64)?, b.to(&index, Dtype::I64)?);
    let place = b.iota(n, Dtype::I64, &device)?;
    // The bag of place p is the last one that begins at or before p.
    let args = vec![first.arg(), place.arg(), Arg::Bool(true), Arg::Dtype(Dtype::I64)];
    let after = b.tensor("prims.searchsorted", args)?;
    let bag = b.sub(&after, 1)?;
    let acc = weight.dtype().acc();
    let rows = b.tensor("prims.take", vec![weight.arg(), index.arg(), Arg::Int(0)])?;
    let mut rows = b.to(&rows, acc)?;
    let padding = call.int("padding_idx")?;
    let counted = b.ne(&index, padding)?;
    if let Some(w) = &per_sample {
        let w = b.to(w, acc)?;
        let w = b.spread(&w, rows.dims(), &[1])?;
        rows = b.mul(&rows, &w)?;
    }
    let nothing = b.full(std::slice::from_ref(&bags), 0, Dtype::I64, &device)?;
    let ones = b.to(&counted, Dtype::I64)?;
    let sizes = b.tensor("prims.index_add", vec![nothing.arg(), bag.arg(), ones.arg(), Arg::Int(0)])?;
    let none = b.full(&[bags.clone(), width.clone()], 0.0, acc, &device)?;
    let bag_dims = none.dims().to_vec();
    let (out, best) = if mode == Bag::Max {
        let (out, best) = largest(b, &rows, &index, &bag, &counted, &sizes)?;
        (out, Some(best))
    } else {
        let keep = b.spread(&counted, rows.dims(), &[1])?;
        let rows = b.select(&keep, &rows, 0.0)?;
        let sum = b.tensor("prims.index_add", vec![none.arg(), bag.arg(), rows.arg(), Arg::Int(0)])?;
        (sum, None)
    };
    let out = if mode == Bag::Mean {
        let n = b.to(&sizes, acc)?;
        let n = b.maximum(&n, 1.0)?;
        let n = b.spread(&n, &bag_dims, &[1])?;
        b.div(&out, &n)?
    } else {
        out
    };
    let out = b.to(&out, weight.dtype())?;
    // Which of the other results exist is as ATen's CPU kernel has it.
    let fast = mode == Bag::Sum && padding < 0 && weight.dtype() != Dtype::F64;
    let bag = if fast { b.full(&[Dim::Known(0)], 0, dtype, &device)? } else { b.to(&bag, dtype)? };
    let sizes = if mode == Bag::Sum { nothing } else { sizes };
    let best = best.unwrap_or_else(|| sizes.clone());
    Ok(vec![out.arg(), bag.arg(), b.to(&sizes, dtype)?.arg(), b.to(&best, dtype)?.arg()])
}

/// Maxima over bags and the index of the first row that has each; both 0 for bags without a row that counts.
fn largest(
    b: &mut Builder<'_>,
    rows: &Tensor,
    index: &Tensor,
    bag: &Tensor,
    counted: &Tensor,
    sizes: &Tensor,
) -> Result<(Tensor, Tensor), OpError> {
    let device = rows.ty.device.clone();
    let width = rows.dims()[1].clone();
    let dims = [sizes.dims()[0].clone(), width];
    let keep = b.spread(counted, rows.dims(), &[1])?;
    let lowest = b.select(&keep, rows, f64::NEG_INFINITY)?;
    let bags = b.spread(bag, rows.dims(), &[1])?;
    let reduce = |a: &Tensor, src: &Tensor, how: &str| {
        vec![a.arg(), bags.arg(), src.arg(), Arg::Int(0), Arg::str(how), Arg::Bool(false)]
    };
    let none = b.full(&dims, 0.0, rows.dtype(), &device)?;
    let max = b.tensor("prims.scatter_reduce", reduce(&none, &lowest, "amax"))?;
    let theirs = b.tensor("prims.take", vec![max.arg(), bag.arg(), Arg::Int(0)])?;
    let hit = b.eq(&lowest, &theirs)?;
    let place = b.positions(rows.dims(), 0, Dtype::I64, &device)?;
    let place = b.select(&hit, &place, i64::MAX)?;
    let zeros = b.full(&dims, 0, Dtype::I64, &device)?;
    let first = b.tensor("prims.scatter_reduce", reduce(&zeros, &place, "amin"))?;
    let empty = b.eq(sizes, 0)?;
    let empty = b.spread(&empty, &dims, &[1])?;
    let max = b.select(&empty, 0.0, &max)?;
    let first = b.select(&empty, 0, &first)?;
    let index = b.spread(index, rows.dims(), &[1])?;
    let best = b.tensor("prims.gather", vec![index.arg(), first.arg(), Arg::Int(0)])?;
    Ok((max, b.select(&empty, 0, &best)?))
}

fn import_embedding_bag(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let mut args = import::args(c, &["weight", "indices", "offsets", "scale_grad_by_freq", "mode"])?;
    args.extend(import::args(c, &["per_sample_weights", "include_last_offset"])?);
    args.push(match c.arg("padding_idx") {
        Ok(Arg::Int(n)) => Arg::Int(*n),
        _ => Arg::Int(-1),
    });
    let mut results = b.call("torch.embedding_bag", args)?;
    // PyTorch's own rules disagree about the dims of what only its backward reads: where the file has others, zeros.
    for (result, recorded) in results.iter_mut().zip(&c.results).skip(1) {
        if let (Some(v), Some(Type::Tensor(recorded))) = (result.value(), recorded) {
            let found = b.as_tensor(v)?;
            if !equal_dims(found.dims(), &recorded.dims) {
                *result = b.full(&recorded.dims, 0, found.dtype(), &found.ty.device)?.arg();
            }
        }
    }
    Ok(results)
}

/// `x` with zeros behind it, up to `dims`: a source may be larger than the index that picks from it.
fn widened(b: &mut Builder<'_>, x: &Tensor, dims: &[Dim]) -> Result<Tensor, OpError> {
    if x.dims() == dims {
        return Ok(x.clone());
    }
    let config = x
        .dims()
        .iter()
        .zip(dims)
        .map(|(have, want)| Arg::List(vec![Arg::Int(0), Arg::dim(want.sub(have)), Arg::Int(0)]))
        .collect();
    let zero = super::emit::number_for(&super::Num::Int(0), x.dtype());
    b.tensor("prims.pad", vec![x.arg(), zero, Arg::List(config)])
}

/// What a place got of each of its parts; parts are elements of `src` and, with `include_self`, of `a`. Equal extremes
/// share evenly.
fn scatter_reduce_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, src, g, out) = (d.call.tensor("a")?, d.call.tensor("src")?, d.g()?, d.output(0)?);
    let (index, axis) = (d.call.tensor("index")?, d.call.raw("axis")?);
    let with_self = d.call.bool("include_self")?;
    let gather =
        |b: &mut Builder<'_>, x: &Tensor| b.tensor("prims.gather", vec![x.arg(), index.arg(), axis.clone()]);
    // `x` at places that the index does not name, 0 at the others.
    let unnamed = |b: &mut Builder<'_>, x: &Tensor| {
        let zero = number_for(&super::Num::Float(0.0), x.dtype());
        b.tensor("prims.scatter", vec![x.arg(), index.arg(), zero, axis.clone()])
    };
    let added = |b: &mut Builder<'_>, x: &Tensor, src: &Tensor| {
        b.tensor("prims.scatter_add", vec![x.arg(), index.arg(), src.arg(), axis.clone()])
    };
    let how = match d.call.raw("reduce")? {
        Arg::Str(how) => how,
        other => return Err(d.call.error(format!("`reduce` must be a word, found {other:?}"))),
    };
    let (of_a, of_src) = match &*how {
        "sum" => (if with_self { g.clone() } else { unnamed(b, &g)? }, gather(b, &g)?),
        "mean" => {
            let ones = b.full(a.dims(), 1.0, a.dtype(), &a.ty.device)?;
            let ones = if with_self { ones } else { unnamed(b, &ones)? };
            let each = b.full(src.dims(), 1.0, src.dtype(), &src.ty.device)?;
            let n = added(b, &ones, &each)?;
            let share = b.div(&g, &n)?;
            (if with_self { share.clone() } else { unnamed(b, &g)? }, gather(b, &share)?)
        }
        "prod" => {
            // Products of what is not zero; a single zero has all of that as its slope, of several none has any.
            let (a_zero, src_zero) = (b.eq(&a, 0.0)?, b.eq(&src, 0.0)?);
            let src_conj = b.conj(&src)?;
            let src_factor = b.select(&src_zero, 1.0, &src_conj)?;
            let ones = b.full(a.dims(), 1.0, a.dtype(), &a.ty.device)?;
            let a_conj = b.conj(&a)?;
            let a_factor = if with_self { b.select(&a_zero, 1.0, &a_conj)? } else { ones.clone() };
            let args = [
                a_factor.arg(),
                index.arg(),
                src_factor.arg(),
                axis.clone(),
                Arg::str("prod"),
                Arg::Bool(true),
            ];
            let rest = b.tensor("prims.scatter_reduce", args.to_vec())?;
            let zeros_of_a = if with_self {
                b.to(&a_zero, a.dtype())?
            } else {
                b.full(a.dims(), 0.0, a.dtype(), &a.ty.device)?
            };
            let zeros_of_src = b.to(&src_zero, src.dtype())?;
            let n_zeros = added(b, &zeros_of_a, &zeros_of_src)?;
            let whole = b.mul(&g, &rest)?;
            let (whole_at, n_at) = (gather(b, &whole)?, gather(b, &n_zeros)?);
            let of_src = of_factor(b, &whole_at, &n_at, &src_factor, &src_zero)?;
            (
                if with_self { of_factor(b, &whole, &n_zeros, &a_factor, &a_zero)? } else { unnamed(b, &g)? },
                of_src,
            )
        }
        _ => {
            let reached = gather(b, &out)?;
            let hit = b.eq(&src, &reached)?;
            let hit_a = b.eq(&a, &out)?;
            let (n_src, n_a) = (b.to(&hit, src.dtype())?, b.to(&hit_a, a.dtype())?);
            let n_a = if with_self { n_a } else { unnamed(b, &n_a)? };
            let n = added(b, &n_a, &n_src)?;
            let share = b.div(&g, &n)?;
            let share_at = gather(b, &share)?;
            let of_src = b.select(&hit, &share_at, 0.0)?;
            (if with_self { b.select(&hit_a, &share, 0.0)? } else { unnamed(b, &g)? }, of_src)
        }
    };
    Ok(vec![Some(of_a), None, Some(of_src)])
}

/// The gradient of a factor from `whole`, the cotangent times all that is not zero, and the number of zeros.
fn of_factor(
    b: &mut Builder<'_>,
    whole: &Tensor,
    n_zeros: &Tensor,
    factor: &Tensor,
    is_zero: &Tensor,
) -> Result<Tensor, OpError> {
    let (none, one) = (b.eq(n_zeros, 0.0)?, b.eq(n_zeros, 1.0)?);
    let others = b.div(whole, factor)?;
    let only = b.and(&one, is_zero)?;
    let at_zero = b.select(&only, whole, 0.0)?;
    b.select(&none, &others, &at_zero)
}

#[cfg(test)]
mod tests {
    use crate::ir::{Arg, Dtype, Stage, Stmt, TensorType, Trace, Type};
    use crate::ops::build::{Builder, decompose};
    use crate::ops::meta::show;

    fn value(trace: &mut Trace, dims: &[i64], dtype: Dtype) -> Arg {
        let dims: Vec<_> = dims.iter().map(|d| (*d).into()).collect();
        let name = format!("x{}", trace.values.len());
        Arg::Value(trace.add_value(name, TensorType::new(dims, dtype).into()))
    }

    #[test]
    fn each_mask_has_a_size_of_its_own_which_its_decomposition_keeps() {
        let mut trace = Trace::new("t", Stage::Acquired);
        let a = value(&mut trace, &[4, 3], Dtype::F32);
        let mask = value(&mut trace, &[4], Dtype::Bool);
        let mut b = Builder::top(&mut trace);
        let args = vec![a, Arg::List(vec![mask])];
        let first = b.tensor("torch.index", args.clone()).expect("a mask over the first dim");
        let second = b.tensor("torch.index", args).expect("a mask over the first dim");
        assert_eq!((show(first.dims()), show(second.dims())), ("[u0, 3]".into(), "[u1, 3]".into()));
        let body = b.finish();
        let before = trace.values.len();
        let call = body[1].op().expect("a call");
        let block = decompose(&mut trace, call).expect("decomposes").expect("a composite");
        assert!(matches!(block.body.first(), Some(Stmt::Op(op)) if &*op.op == "prims.nonzero"));
        for v in &trace.values[before..] {
            let Type::Tensor(t) = &v.ty else { continue };
            let data = t.dims.iter().filter(|d| d.depends_on_data());
            assert!(data.into_iter().all(|d| d.to_string() == "u1"), "%{}: {}", v.name, show(&t.dims));
        }
    }

    #[test]
    fn one_value_under_a_mask_has_no_size_known_only_when_run() {
        let mut trace = Trace::new("t", Stage::Acquired);
        let a = value(&mut trace, &[4, 3], Dtype::F32);
        let mask = value(&mut trace, &[4], Dtype::Bool);
        let one = value(&mut trace, &[], Dtype::F32);
        let mut b = Builder::top(&mut trace);
        b.tensor("torch.index_put", vec![a, Arg::List(vec![mask]), one]).expect("a masked write");
        let body = b.finish();
        let call = body[0].op().expect("a call");
        let block = decompose(&mut trace, call).expect("decomposes").expect("a composite");
        assert!(block.body.iter().filter_map(Stmt::op).all(|op| &*op.op != "prims.nonzero"));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_sizes() {
        let mut trace = Trace::new("t", Stage::Acquired);
        let a = value(&mut trace, &[4, 3], Dtype::F32);
        let mask = value(&mut trace, &[5], Dtype::Bool);
        let mut b = Builder::top(&mut trace);
        let refused = b.tensor("torch.index", vec![a, Arg::List(vec![mask])]).expect_err("5 is not 4");
        assert!(refused.what.contains("[5]") && refused.what.contains("[4, 3]"), "{refused}");
    }
}
