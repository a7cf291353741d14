//! Ops that move, repeat, join or cut elements without computing: views, and what must copy.
//!
//! Invariant: prims take canonical arguments (axes from 0, starts and ends inside the dims); composites take PyTorch's
//! and make them canonical. Sizes are symbolic where the model's are: an undecidable bound is assumed to hold and is
//! checked again with concrete sizes. Deliberately absent: gathers by index tensors, which are `indexing`.

use super::aten::{Aten, AtenCall, FixedArg, Import};
use super::build::{Builder, Num, Operand, Tensor};
use super::emit::{self, broadcast_to, number_for, to_dtype};
use super::meta::{self, promoted, show};
use super::{Call, Grad, Level, Meta, Op, OpError, Sample, Traits, Vjp};
use crate::ir::{Arg, Dim, Dtype, NumKind, NumberType, SymKind, TensorType, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &BROADCAST_IN_DIM,
    &CAT,
    &DIAGONAL,
    &FLIP,
    &PAD,
    &RESHAPE,
    &SLICE,
    &SLICE_SCATTER,
    &SQUEEZE,
    &TRANSPOSE,
    &TORCH_CAT,
    &TORCH_CHANNEL_SHUFFLE,
    &TORCH_CHUNK,
    &TORCH_EXPAND,
    &TORCH_FLATTEN,
    &TORCH_FLIP,
    &TORCH_PAD,
    &TORCH_PERMUTE,
    &TORCH_PIXEL_SHUFFLE,
    &TORCH_PIXEL_UNSHUFFLE,
    &TORCH_REFLECTION_PAD,
    &TORCH_REPEAT,
    &TORCH_REPEAT_INTERLEAVE,
    &TORCH_REPLICATION_PAD,
    &TORCH_RESHAPE,
    &TORCH_ROLL,
    &TORCH_SELECT,
    &TORCH_SELECT_SCATTER,
    &TORCH_SLICE,
    &TORCH_SLICE_SCATTER,
    &TORCH_SPLIT,
    &TORCH_SQUEEZE,
    &TORCH_STACK,
    &TORCH_T,
    &TORCH_TRANSPOSE,
    &TORCH_TRIL,
    &TORCH_TRIU,
    &TORCH_UNBIND,
    &TORCH_UNFLATTEN,
    &TORCH_UNSQUEEZE,
];

const VIEW_TRAITS: Traits = Traits::VIEW.and(Traits::CHEAP);
/// Prims that see their tensor's memory with other strides.
const VIEW: Op = Op { traits: VIEW_TRAITS, ..Op::BASE };
/// Composites that may be nothing but views.
const VIEWS: Op = Op { traits: VIEW_TRAITS, ..Op::BASE };
const PRIM: Op = Op::BASE;
const COMPOSITE: Op = Op::BASE;

pub static BROADCAST_IN_DIM: Op = Op {
    name: "prims.broadcast_in_dim",
    doc: "`a` seen with more or larger dims: its dim i becomes dim `broadcast_dims[i]` of `dims`, repeated where it is 1.",
    schema: "(a: Tensor, dims: dims, broadcast_dims: ints) -> Tensor",
    meta: Meta::Fn(broadcast_in_dim_meta),
    vjp: Vjp::Rule(|b, d| {
        let (a, g, out) = (d.call.tensor("a")?, d.g()?, d.output(0)?);
        let kept = d.call.ints("broadcast_dims")?;
        let summed: Vec<usize> = (0..out.rank())
            .filter(|i| match kept.iter().position(|k| *k == *i as i64) {
                None => true,
                Some(from) => a.dims()[from].is(1) && !out.dims()[*i].is(1),
            })
            .collect();
        let sum = if summed.is_empty() { g } else { b.sum(&g, &summed)? };
        Ok(vec![Some(b.reshape(&sum, a.dims())?)])
    }),
    view: Some(broadcast_in_dim_view),
    samples: &[
        Sample("T[3], dims=[2, 3], broadcast_dims=[1]"),
        Sample("T[2, 1], dims=[2, 4], broadcast_dims=[0, 1]"),
        Sample("T[], dims=[2, 2], broadcast_dims=[]"),
        Sample("T[0], dims=[3, 0], broadcast_dims=[1]"),
        Sample("T[2], dims=[2, 1, 1], broadcast_dims=[0]"),
    ],
    ..VIEW
};

pub static CAT: Op = Op {
    name: "prims.cat",
    doc: "Tensors of one dtype joined along an axis.",
    schema: "(tensors: Tensor[], axis: int) -> Tensor",
    // What is empty along the axis adds nothing.
    same: Some(|call| {
        let tensors = call.tensors("tensors").ok()?;
        let axis = usize::try_from(call.int("axis").ok()?).ok()?;
        let mut full = tensors.iter().filter(|t| t.dims().get(axis).is_some_and(|d| !d.is(0)));
        match (full.next(), full.next(), tensors.as_slice()) {
            (Some(one), None, _) | (None, None, [one]) => Some(one.arg()),
            _ => None,
        }
    }),
    meta: Meta::Fn(cat_meta),
    vjp: Vjp::Rule(|b, d| {
        let (g, axis) = (d.g()?, d.call.int("axis")? as usize);
        let mut start = Dim::Known(0);
        let mut all = Vec::new();
        for part in d.tensors() {
            let end = start.add(&part.dims()[axis]);
            all.push(Some(b.narrow(&g, axis, &start, &end)?));
            start = end;
        }
        Ok(all)
    }),
    samples: &[
        Sample("[T[2, 3], T[2, 1]], axis=1"),
        Sample("[T[2], T[0], T[3]], axis=0"),
        Sample("[T[2, 2]], axis=0"),
    ],
    ..PRIM
};

pub static DIAGONAL: Op = Op {
    name: "prims.diagonal",
    doc: "The diagonal of two axes, as the last dim; above the main one for a positive offset, below for a negative.",
    schema: "(a: Tensor, offset: int, axis1: int, axis2: int) -> Tensor",
    meta: Meta::Fn(diagonal_meta),
    vjp: Vjp::Rule(undiagonal),
    view: Some(diagonal_view),
    samples: &[
        Sample("T[3, 4], offset=0, axis1=0, axis2=1"),
        Sample("T[2, 3, 4], offset=1, axis1=2, axis2=0"),
        Sample("T[3, 3], offset=-2, axis1=0, axis2=1"),
        Sample("T[2, 2], offset=5, axis1=0, axis2=1"),
    ],
    ..VIEW
};

pub static FLIP: Op = Op {
    name: "prims.flip",
    doc: "The order along each of the axes reversed. No view: few kernels take negative strides.",
    schema: "(a: Tensor, axes: ints) -> Tensor",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        canonical_axes(call, "axes", a.rank())?;
        Ok(vec![Some(Type::Tensor(a.ty))])
    }),
    vjp: Vjp::Rule(|b, d| {
        let (g, axes) = (d.g()?, d.call.raw("axes")?);
        Ok(vec![Some(b.tensor("prims.flip", vec![g.arg(), axes])?)])
    }),
    samples: &[
        Sample("T[2, 3], axes=[0]"),
        Sample("T[2, 3], axes=[0, 1]"),
        Sample("T[0, 3], axes=[1]"),
        Sample("T[], axes=[]"),
    ],
    ..PRIM
};

pub static PAD: Op = Op {
    name: "prims.pad",
    doc: "Filled up with `value`: per dim the number of elements before, after and between two; a negative number before or after crops.",
    schema: "(a: Tensor, value: num, config: (int, int, int)[]) -> Tensor",
    same: Some(|call| {
        let nothing = pad_config(call).ok()?.iter().flatten().all(|d| d.is(0));
        nothing.then(|| call.raw("a").ok()).flatten()
    }),
    meta: Meta::Fn(pad_meta),
    vjp: Vjp::Rule(unpadded),
    samples: &[
        Sample("T[2, 3], value=0, config=[[1, 1, 0], [0, 2, 0]]"),
        Sample("T[4], value=1, config=[[-1, 2, 1]]"),
        Sample("T[], value=0, config=[]"),
        Sample("T[0], value=2, config=[[1, 1, 3]]"),
    ],
    ..PRIM
};

pub static RESHAPE: Op = Op {
    name: "prims.reshape",
    doc: "The same elements in row-major order under other dims; a view where the strides allow it.",
    schema: "(a: Tensor, dims: dims) -> Tensor",
    meta: Meta::Fn(reshape_meta),
    vjp: Vjp::Rule(|b, d| {
        let (a, g) = (d.call.tensor("a")?, d.g()?);
        Ok(vec![Some(b.reshape(&g, a.dims())?)])
    }),
    view: Some(reshape_view),
    samples: &[
        Sample("T[2, 3], dims=[3, 2]"),
        Sample("T[2, 3], dims=[6]"),
        Sample("T[], dims=[1, 1]"),
        Sample("T[0, 3], dims=[0]"),
        Sample("T[4, 1], dims=[2, 1, 2]"),
    ],
    ..VIEW
};

pub static SLICE: Op = Op {
    name: "prims.slice",
    doc: "Per dim the elements from `start` up to `end`, each `step`-th.",
    schema: "(a: Tensor, start: dims, end: dims, step: ints) -> Tensor",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        meta::one(slice_dims(call, &a)?, a.dtype(), &a.ty)
    }),
    vjp: Vjp::Rule(|b, d| {
        let (a, g) = (d.call.tensor("a")?, d.g()?);
        let (start, step) = (d.call.dims("start")?, d.call.ints("step")?);
        if a.rank() == 0 {
            return Ok(vec![Some(g)]);
        }
        // How far to pad must be known before a kernel is made, which a slice that data decides does not tell.
        if start.iter().chain(a.dims()).chain(g.dims()).any(|d| d.depends_on_data()) {
            let zero = b.full(a.dims(), 0.0, g.dtype(), &a.ty.device)?;
            let place = [d.call.raw("start")?, d.call.raw("end")?, d.call.raw("step")?];
            let args = [zero.arg(), g.arg()].into_iter().chain(place).collect();
            return Ok(vec![Some(b.tensor("prims.slice_scatter", args)?)]);
        }
        Ok(vec![Some(unsliced(b, &a, &g, &start, &step)?)])
    }),
    view: Some(slice_view),
    samples: &[
        Sample("T[4, 5], start=[1, 0], end=[3, 5], step=[1, 2]"),
        Sample("T[3], start=[3], end=[3], step=[1]"),
        Sample("T[2, 3], start=[0, 0], end=[2, 3], step=[1, 1]"),
        Sample("T[], start=[], end=[], step=[]"),
    ],
    ..VIEW
};

pub static SLICE_SCATTER: Op = Op {
    name: "prims.slice_scatter",
    doc: "`a` with the part that `prims.slice` of the same arguments gives replaced by `src`.",
    schema: "(a: Tensor, src: Tensor, start: dims, end: dims, step: ints) -> Tensor",
    meta: Meta::Fn(slice_scatter_meta),
    vjp: Vjp::Rule(|b, d| {
        let (src, g) = (d.call.tensor("src")?, d.g()?);
        let place = ["start", "end", "step"].map(|n| d.call.raw(n));
        let [start, end, step] = [place[0].clone()?, place[1].clone()?, place[2].clone()?];
        let zero = b.full(src.dims(), 0.0, src.dtype(), &src.ty.device)?;
        let rest = b.tensor(
            "prims.slice_scatter",
            vec![g.arg(), zero.arg(), start.clone(), end.clone(), step.clone()],
        )?;
        let part = b.tensor("prims.slice", vec![g.arg(), start, end, step])?;
        Ok(vec![Some(rest), Some(part)])
    }),
    samples: &[
        Sample("T[4, 5], T[2, 3], start=[1, 0], end=[3, 5], step=[1, 2]"),
        Sample("T[3], T[0], start=[3], end=[3], step=[1]"),
    ],
    ..PRIM
};

pub static SQUEEZE: Op = Op {
    name: "prims.squeeze",
    doc: "Without the named dims, which are 1.",
    schema: "(a: Tensor, axes: ints) -> Tensor",
    meta: Meta::Fn(squeeze_meta),
    vjp: Vjp::Rule(|b, d| {
        let (a, g) = (d.call.tensor("a")?, d.g()?);
        Ok(vec![Some(b.reshape(&g, a.dims())?)])
    }),
    view: Some(|call, strides, offset| {
        let axes = call.ints("axes").ok()?;
        let kept = (0..strides.len()).filter(|i| !axes.contains(&(*i as i64)));
        Some((kept.map(|i| strides[i].clone()).collect(), offset.clone()))
    }),
    samples: &[Sample("T[2, 1, 3], axes=[1]"), Sample("T[1, 1], axes=[0, 1]"), Sample("T[2], axes=[]")],
    ..VIEW
};

pub static TRANSPOSE: Op = Op {
    name: "prims.transpose",
    doc: "The axes in another order: dim i of the result is dim `permutation[i]`.",
    schema: "(a: Tensor, permutation: ints) -> Tensor",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let order = meta::permutation(call, &call.ints("permutation")?, a.rank())?;
        meta::one(order.iter().map(|i| a.dims()[*i].clone()).collect(), a.dtype(), &a.ty)
    }),
    vjp: Vjp::Rule(|b, d| {
        let permutation = d.call.ints("permutation")?;
        let mut inverse = vec![0; permutation.len()];
        for (to, from) in permutation.iter().enumerate() {
            inverse[*from as usize] = to;
        }
        let g = d.g()?;
        Ok(vec![Some(b.permute(&g, &inverse)?)])
    }),
    view: Some(|call, strides, offset| {
        let order = call.ints("permutation").ok()?;
        let picked = order.iter().map(|i| strides.get(usize::try_from(*i).ok()?).cloned());
        Some((picked.collect::<Option<_>>()?, offset.clone()))
    }),
    samples: &[
        Sample("T[2, 3], permutation=[1, 0]"),
        Sample("T[2, 3, 4], permutation=[2, 0, 1]"),
        Sample("T[], permutation=[]"),
        Sample("T[0, 3], permutation=[1, 0]"),
    ],
    ..VIEW
};

pub static TORCH_CAT: Op = Op {
    name: "torch.cat",
    doc: "Tensors joined along an axis, promoted; empty tensors of one dim count as nothing.",
    schema: "(tensors: Tensor[], axis: int = 0) -> Tensor",
    level: Level::Composite(cat),
    aten: &[Aten {
        overloads: &["cat.default", "concat.default", "concatenate.default"],
        import: Import::Map("tensors axis=dim"),
    }],
    samples: &[
        Sample("[T[2, 3], T[2, 1]], axis=1"),
        Sample("[T[2, 3], T[0], T[1, 3]]"),
        Sample("[T[2], i64[1]{0..9}], axis=-1"),
        Sample("[T[2, 2]]"),
    ],
    ..COMPOSITE
};

pub static TORCH_CHANNEL_SHUFFLE: Op = Op {
    name: "torch.channel_shuffle",
    doc: "Channels (axis 1) as `groups` groups, interleaved.",
    schema: "(a: Tensor, groups: int) -> Tensor",
    level: Level::Composite(channel_shuffle),
    aten: &[Aten {
        overloads: &["channel_shuffle.default", "native_channel_shuffle.default"],
        import: Import::Map("a=self groups"),
    }],
    samples: &[Sample("T[2, 4, 3], groups=2"), Sample("T[1, 6, 2, 2], groups=3")],
    ..COMPOSITE
};

pub static TORCH_CHUNK: Op = Op {
    name: "torch.chunk",
    doc: "Pieces along an axis, `chunks` of them where they come out even, the last smaller or some missing where not.",
    schema: "(a: Tensor, chunks: int, axis: int = 0) -> Tensor[]",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let axis = call.axis("axis", a.rank())?;
        let sizes = chunk_sizes(call, &a, axis)?;
        pieces(b, &a, axis, &sizes)
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let axis = call.axis("axis", a.rank())?;
        piece_types(&a, axis, &chunk_sizes(call, &a, axis)?)
    }),
    aten: &[Aten {
        overloads: &["chunk.default", "unsafe_chunk.default"],
        import: Import::Map("a=self chunks axis=dim"),
    }],
    samples: &[
        Sample("T[6, 2], chunks=3"),
        Sample("T[2, 5], chunks=2, axis=-1"),
        Sample("T[5], chunks=4"),
        Sample("T[0, 2], chunks=3"),
    ],
    ..VIEWS
};

pub static TORCH_EXPAND: Op = Op {
    name: "torch.expand",
    doc: "Dims of 1 repeated up to `dims`, new ones in front; -1 keeps a dim.",
    schema: "(a: Tensor, dims: dims) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let dims = expanded_dims(call, &a)?;
        let axes = (0..a.rank()).map(|i| (i + dims.len() - a.rank()) as i64);
        Ok(vec![b.tensor("prims.broadcast_in_dim", vec![a.arg(), Arg::dims(&dims), Arg::ints(axes)])?.arg()])
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        meta::one(expanded_dims(call, &a)?, a.dtype(), &a.ty)
    }),
    aten: &[
        Aten {
            overloads: &["expand.default", "expand_copy.default", "broadcast_to.default"],
            import: Import::Map("a=self dims=size"),
        },
        Aten { overloads: &["expand_as.default"], import: Import::With(expand_as) },
    ],
    samples: &[
        Sample("T[3, 1], dims=[3, 4]"),
        Sample("T[1, 3], dims=[2, -1, 3]"),
        Sample("T[], dims=[2, 2]"),
        Sample("T[2, 3], dims=[-1, -1]"),
        Sample("T[1], dims=[0]"),
    ],
    ..VIEWS
};

pub static TORCH_FLATTEN: Op = Op {
    name: "torch.flatten",
    doc: "The dims from `start` to `end`, both included, made one; a zero-dim tensor gets one dim.",
    schema: "(a: Tensor, start: int = 0, end: int = -1) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        reshape(b, &a, &flattened_dims(call, &a)?)
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        meta::one(flattened_dims(call, &a)?, a.dtype(), &a.ty)
    }),
    aten: &[
        Aten {
            overloads: &["flatten.using_ints"],
            import: Import::Map("a=self start=start_dim end=end_dim"),
        },
        Aten { overloads: &["ravel.default"], import: Import::Map("a=self") },
    ],
    samples: &[
        Sample("T[2, 3, 4]"),
        Sample("T[2, 3, 4], start=1"),
        Sample("T[2, 3, 4], start=0, end=1"),
        Sample("T[]"),
        Sample("T[0, 2]"),
    ],
    ..VIEWS
};

pub static TORCH_FLIP: Op = Op {
    name: "torch.flip",
    doc: "The order along each of the axes reversed.",
    schema: "(a: Tensor, axes: ints) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let axes = canonical_axes(call, "axes", a.rank())?;
        flip(b, &a, &axes)
    }),
    aten: &[
        Aten { overloads: &["flip.default"], import: Import::Map("a=self axes=dims") },
        Aten {
            overloads: &["fliplr.default"],
            import: Import::MapWith("a=self", &[("axes", FixedArg::Int(1))]),
        },
        Aten {
            overloads: &["flipud.default"],
            import: Import::MapWith("a=self", &[("axes", FixedArg::Int(0))]),
        },
    ],
    samples: &[
        Sample("T[2, 3], axes=[0]"),
        Sample("T[2, 3], axes=[-1, 0]"),
        Sample("T[0, 3], axes=[1]"),
        Sample("T[2, 2], axes=[]"),
    ],
    ..COMPOSITE
};

pub static TORCH_PAD: Op = Op {
    name: "torch.pad",
    doc: "Filled up at both ends, in pairs from the last dim backwards: with a number, mirrored, with the edge's value, or around.",
    schema: "(a: Tensor, pad: ints, mode: str{constant|reflect|replicate|circular} = constant, value: num? = 0) -> Tensor",
    level: Level::Composite(pad),
    aten: &[
        Aten { overloads: &["pad.default"], import: Import::Map("a=self pad mode value") },
        Aten { overloads: &["constant_pad_nd.default"], import: Import::Map("a=self pad value") },
    ],
    samples: &[
        Sample("T[2, 3], pad=[1, 2]"),
        Sample("T[2, 3], pad=[1, 1, 0, 2], value=1"),
        Sample("T[4], pad=[-1, 1]"),
        Sample("T[2, 3, 5], pad=[1, 2], mode=\"reflect\""),
        Sample("T[2, 3, 5], pad=[2, 2], mode=\"replicate\""),
        Sample("T[2, 3, 5], pad=[2, 1], mode=\"circular\""),
        Sample("T[2, 2], pad=[0, 0]"),
    ],
    ..COMPOSITE
};

pub static TORCH_PERMUTE: Op = Op {
    name: "torch.permute",
    doc: "The axes in another order: dim i of the result is dim `axes[i]`.",
    schema: "(a: Tensor, axes: ints) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let order = meta::permutation(call, &call.ints("axes")?, a.rank())?;
        transpose(b, &a, &order)
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let order = meta::permutation(call, &call.ints("axes")?, a.rank())?;
        meta::one(order.iter().map(|i| a.dims()[*i].clone()).collect(), a.dtype(), &a.ty)
    }),
    aten: &[
        Aten {
            overloads: &["permute.default", "permute_copy.default"],
            import: Import::Map("a=self axes=dims"),
        },
        Aten {
            overloads: &["movedim.int", "movedim.intlist", "moveaxis.int", "moveaxis.intlist"],
            import: Import::With(movedim),
        },
    ],
    samples: &[
        Sample("T[2, 3], axes=[1, 0]"),
        Sample("T[2, 3, 4], axes=[-1, 0, 1]"),
        Sample("T[], axes=[]"),
        Sample("T[0, 3], axes=[1, 0]"),
    ],
    ..VIEWS
};

pub static TORCH_PIXEL_SHUFFLE: Op = Op {
    name: "torch.pixel_shuffle",
    doc: "Channels become pixels: [.., C f f, H, W] to [.., C, H f, W f].",
    schema: "(a: Tensor, factor: int) -> Tensor",
    level: Level::Composite(pixel_shuffle),
    aten: &[Aten {
        overloads: &["pixel_shuffle.default"],
        import: Import::Map("a=self factor=upscale_factor"),
    }],
    samples: &[Sample("T[1, 8, 2, 3], factor=2"), Sample("T[4, 2, 2], factor=2")],
    ..COMPOSITE
};

pub static TORCH_PIXEL_UNSHUFFLE: Op = Op {
    name: "torch.pixel_unshuffle",
    doc: "Pixels become channels: [.., C, H f, W f] to [.., C f f, H, W].",
    schema: "(a: Tensor, factor: int) -> Tensor",
    level: Level::Composite(pixel_unshuffle),
    aten: &[Aten {
        overloads: &["pixel_unshuffle.default"],
        import: Import::Map("a=self factor=downscale_factor"),
    }],
    samples: &[Sample("T[1, 2, 4, 6], factor=2"), Sample("T[1, 2, 2], factor=2")],
    ..COMPOSITE
};

pub static TORCH_REFLECTION_PAD: Op = Op {
    name: "torch.reflection_pad",
    doc: "Mirrored at both ends without repeating the edge, in pairs from the last dim backwards.",
    schema: "(a: Tensor, pad: ints) -> Tensor",
    level: Level::Composite(|b, call| pad_by_index(b, call, true)),
    aten: &[Aten {
        overloads: &["reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default"],
        import: Import::Map("a=self pad=padding"),
    }],
    samples: &[
        Sample("T[2, 3, 5], pad=[1, 2]"),
        Sample("T[2, 3, 4], pad=[1, 1, 2, 0]"),
        Sample("T[2, 5], pad=[-1, 2]"),
    ],
    ..COMPOSITE
};

pub static TORCH_REPEAT: Op = Op {
    name: "torch.repeat",
    doc: "The whole repeated along each dim; numbers for dims it has not make new ones in front.",
    schema: "(a: Tensor, repeats: dims) -> Tensor",
    level: Level::Composite(repeat),
    aten: &[
        Aten { overloads: &["repeat.default"], import: Import::Map("a=self repeats") },
        Aten { overloads: &["tile.default"], import: Import::With(tile) },
    ],
    samples: &[
        Sample("T[2, 3], repeats=[2, 1]"),
        Sample("T[3], repeats=[2, 2]"),
        Sample("T[], repeats=[3]"),
        Sample("T[2], repeats=[0]"),
        Sample("T[2, 3], repeats=[1, 1]"),
    ],
    ..COMPOSITE
};

pub static TORCH_REPEAT_INTERLEAVE: Op = Op {
    name: "torch.repeat_interleave",
    doc: "Each element (along the axis; of the flattened tensor without one) repeated that many times. With a tensor of numbers the size is known only at run time.",
    schema: "(a: Tensor, repeats: int|Tensor<i>, axis: int?) -> Tensor",
    level: Level::Composite(repeat_interleave),
    aten: &[
        Aten { overloads: &["repeat_interleave.self_int"], import: Import::Map("a=self repeats axis=dim") },
        Aten {
            overloads: &["repeat_interleave.self_Tensor"],
            import: Import::With(repeat_interleave_by_tensor),
        },
        Aten {
            overloads: &["repeat_interleave.Tensor"],
            import: Import::With(|b, call| {
                let repeats = call.tensor(b, "repeats")?;
                let n =
                    recorded_size(&call.results, 0).ok_or_else(|| call.error("its size is not recorded"))?;
                Ok(vec![repeat_index(b, &repeats, &n)?.arg()])
            }),
        },
    ],
    samples: &[
        Sample("T[2, 3], 2, axis=1"),
        Sample("T[2, 3], 3"),
        Sample("T[2], 0, axis=0"),
        Sample("T[], 2"),
    ],
    ..COMPOSITE
};

pub static TORCH_REPLICATION_PAD: Op = Op {
    name: "torch.replication_pad",
    doc: "The edge's value repeated at both ends, in pairs from the last dim backwards.",
    schema: "(a: Tensor, pad: ints) -> Tensor",
    level: Level::Composite(|b, call| pad_by_index(b, call, false)),
    aten: &[Aten {
        overloads: &["replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default"],
        import: Import::Map("a=self pad=padding"),
    }],
    samples: &[
        Sample("T[2, 3, 5], pad=[1, 2]"),
        Sample("T[2, 3, 4], pad=[1, 1, 2, 0]"),
        Sample("T[2, 5], pad=[-1, 7]"),
    ],
    ..COMPOSITE
};

pub static TORCH_RESHAPE: Op = Op {
    name: "torch.reshape",
    doc: "The same elements in row-major order under other dims; one of them may be -1.",
    schema: "(a: Tensor, dims: dims) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        reshape(b, &a, &reshaped_dims(call, &a)?)
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        meta::one(reshaped_dims(call, &a)?, a.dtype(), &a.ty)
    }),
    aten: &[
        Aten { overloads: &["reshape.default"], import: Import::Map("a=self dims=shape") },
        Aten {
            overloads: &[
                "view.default",
                "_unsafe_view.default",
                "_reshape_alias.default",
                "view_copy.default",
            ],
            import: Import::Map("a=self dims=size"),
        },
        Aten {
            overloads: &["reshape_as.default"],
            import: Import::With(|b, call| {
                let dims = Arg::dims(call.tensor(b, "other")?.dims());
                b.call_recorded(&TORCH_RESHAPE, vec![call.arg("self")?.clone(), dims], &call.results)
            }),
        },
    ],
    samples: &[
        Sample("T[2, 3], dims=[3, 2]"),
        Sample("T[2, 3], dims=[-1]"),
        Sample("T[2, 3], dims=[2, -1, 1]"),
        Sample("T[], dims=[1]"),
        Sample("T[0, 3], dims=[3, 0]"),
    ],
    ..VIEWS
};

pub static TORCH_ROLL: Op = Op {
    name: "torch.roll",
    doc: "Shifted along axes, what leaves at one end coming back at the other; without axes the flattened tensor is.",
    schema: "(a: Tensor, shifts: ints, axes: ints) -> Tensor",
    level: Level::Composite(roll),
    aten: &[Aten { overloads: &["roll.default"], import: Import::Map("a=self shifts axes=dims") }],
    samples: &[
        Sample("T[2, 3], shifts=[1], axes=[1]"),
        Sample("T[4, 3], shifts=[-1, 5], axes=[0, 1]"),
        Sample("T[2, 3], shifts=[2], axes=[]"),
        Sample("T[0, 2], shifts=[1], axes=[0]"),
    ],
    ..COMPOSITE
};

pub static TORCH_SELECT: Op = Op {
    name: "torch.select",
    doc: "One element along an axis, which goes; a negative index counts from the end.",
    schema: "(a: Tensor, axis: int, index: int) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let (axis, index) = selected(call, &a)?;
        let part = slice_axis(b, &a, axis, &index, &index.add(&Dim::Known(1)), 1)?;
        squeeze(b, &part, &[axis])
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let (axis, _) = selected(call, &a)?;
        let mut dims = a.dims().to_vec();
        dims.remove(axis);
        meta::one(dims, a.dtype(), &a.ty)
    }),
    aten: &[Aten {
        overloads: &["select.int", "select_copy.int"],
        import: Import::Map("a=self axis=dim index"),
    }],
    samples: &[
        Sample("T[2, 3], axis=0, index=1"),
        Sample("T[2, 3], axis=-1, index=-1"),
        Sample("T[4], axis=0, index=0"),
    ],
    ..VIEWS
};

pub static TORCH_SELECT_SCATTER: Op = Op {
    name: "torch.select_scatter",
    doc: "`a` with one element along an axis replaced by `src`.",
    schema: "(a: Tensor, src: Tensor, axis: int, index: int) -> Tensor",
    level: Level::Composite(|b, call| {
        let (a, src) = (call.tensor("a")?, call.tensor("src")?);
        let (axis, index) = selected(call, &a)?;
        let src = to_dtype(b, &src, a.dtype())?;
        let src = unsqueeze(b, &src, axis)?;
        let end = index.add(&Dim::Known(1));
        Ok(vec![scatter_axis(b, &a, &src, axis, &index, &end, 1)?.arg()])
    }),
    aten: &[Aten {
        overloads: &["select_scatter.default"],
        import: Import::Map("a=self src axis=dim index"),
    }],
    samples: &[
        Sample("T[2, 3], T[3], axis=0, index=1"),
        Sample("T[2, 3], T[2], axis=-1, index=-1"),
        Sample("T[4], T[], axis=0, index=0"),
    ],
    ..COMPOSITE
};

pub static TORCH_SLICE: Op = Op {
    name: "torch.slice",
    doc: "The elements along an axis from `start` up to `end`, each `step`-th; negative ones count from the end, and what is outside is clipped.",
    schema: "(a: Tensor, axis: int = 0, start: int? = None, end: int? = None, step: int = 1) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let s = sliced(call, &a)?;
        Ok(vec![slice_axis(b, &a, s.axis, &s.start, &s.end, s.step)?.arg()])
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let s = sliced(call, &a)?;
        let mut dims = a.dims().to_vec();
        dims[s.axis] = length(&s.start, &s.end, s.step);
        meta::one(dims, a.dtype(), &a.ty)
    }),
    aten: &[
        Aten {
            overloads: &["slice.Tensor", "slice_copy.Tensor"],
            import: Import::Map("a=self axis=dim start end step"),
        },
        Aten { overloads: &["narrow.default", "narrow_copy.default"], import: Import::With(narrow) },
        Aten { overloads: &["narrow.Tensor"], import: Import::With(narrow_at_tensor) },
    ],
    samples: &[
        Sample("T[4, 5], axis=1, start=1, end=4"),
        Sample("T[5], start=-2"),
        Sample("T[5], end=9"),
        Sample("T[6], start=1, end=6, step=2"),
        Sample("T[4], start=3, end=1"),
        Sample("T[2, 3], axis=-1, end=-1"),
        Sample("T[0], start=0, end=2"),
    ],
    ..VIEWS
};

pub static TORCH_SLICE_SCATTER: Op = Op {
    name: "torch.slice_scatter",
    doc: "`a` with the part that `torch.slice` of the same arguments gives replaced by `src`.",
    schema: "(a: Tensor, src: Tensor, axis: int = 0, start: int?, end: int?, step: int = 1) -> Tensor",
    level: Level::Composite(|b, call| {
        let (a, src) = (call.tensor("a")?, call.tensor("src")?);
        let s = sliced(call, &a)?;
        let src = to_dtype(b, &src, a.dtype())?;
        let mut dims = a.dims().to_vec();
        dims[s.axis] = length(&s.start, &s.end, s.step);
        let src = broadcast_to(b, &src, &dims)?;
        Ok(vec![scatter_axis(b, &a, &src, s.axis, &s.start, &s.end, s.step)?.arg()])
    }),
    aten: &[Aten {
        overloads: &["slice_scatter.default"],
        import: Import::Map("a=self src axis=dim start end step"),
    }],
    samples: &[
        Sample("T[4, 5], T[4, 3], axis=1, start=1, end=4"),
        Sample("T[6], T[3], axis=0, start=0, end=6, step=2"),
        Sample("T[5], T[2], axis=0, start=-2, end=none"),
    ],
    ..COMPOSITE
};

pub static TORCH_SPLIT: Op = Op {
    name: "torch.split",
    doc: "Pieces along an axis: of one size (the last may be smaller), or of the sizes given.",
    schema: "(a: Tensor, sizes: dims|dim, axis: int = 0) -> Tensor[]",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let axis = call.axis("axis", a.rank())?;
        let sizes = split_sizes(call, &a, axis)?;
        pieces(b, &a, axis, &sizes)
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let axis = call.axis("axis", a.rank())?;
        piece_types(&a, axis, &split_sizes(call, &a, axis)?)
    }),
    vjp: Vjp::Rule(|b, d| {
        let a = d.call.tensor("a")?;
        let axis = d.call.axis("axis", a.rank())?;
        let mut parts = Vec::new();
        for (i, out) in d.outputs.iter().enumerate() {
            let out = out.clone().ok_or_else(|| d.call.error("a part is absent"))?;
            parts.push(match d.cotangent(i) {
                Some(g) => g,
                None => b.full(out.dims(), 0.0, out.dtype(), &out.ty.device)?,
            });
        }
        Ok(vec![Some(b.cat(&parts, axis)?)])
    }),
    aten: &[
        Aten {
            overloads: &["split.Tensor", "split.sizes", "split_copy.Tensor", "unsafe_split.Tensor"],
            import: Import::Map("a=self sizes=split_size axis=dim"),
        },
        Aten {
            overloads: &[
                "split_with_sizes.default",
                "split_with_sizes_copy.default",
                "unsafe_split_with_sizes.default",
            ],
            import: Import::Map("a=self sizes=split_sizes axis=dim"),
        },
    ],
    samples: &[
        Sample("T[6, 2], sizes=2"),
        Sample("T[5], sizes=2"),
        Sample("T[2, 6], sizes=[1, 2, 3], axis=-1"),
        Sample("T[0], sizes=2"),
    ],
    ..VIEWS
};

pub static TORCH_SQUEEZE: Op = Op {
    name: "torch.squeeze",
    doc: "Without the dims that are 1, all or those named; others stay.",
    schema: "(a: Tensor, axes: ints?) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        squeeze(b, &a, &squeezed_axes(call, &a)?)
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let axes = squeezed_axes(call, &a)?;
        meta::one(meta::reduced_dims(a.dims(), &axes, false), a.dtype(), &a.ty)
    }),
    aten: &[
        Aten {
            overloads: &["squeeze.default", "squeeze_.default", "squeeze_copy.default"],
            import: Import::Map("a=self"),
        },
        Aten {
            overloads: &[
                "squeeze.dim",
                "squeeze_.dim",
                "squeeze.dims",
                "squeeze_.dims",
                "squeeze_copy.dim",
                "squeeze_copy.dims",
            ],
            import: Import::Map("a=self axes=dim"),
        },
    ],
    samples: &[
        Sample("T[2, 1, 3]"),
        Sample("T[1, 1]"),
        Sample("T[2, 1], axes=[1]"),
        Sample("T[2, 1], axes=[0]"),
        Sample("T[1, 2, 1], axes=[-1, 0]"),
        Sample("T[]"),
    ],
    ..VIEWS
};

pub static TORCH_STACK: Op = Op {
    name: "torch.stack",
    doc: "Tensors of one shape joined along a new axis, promoted.",
    schema: "(tensors: Tensor[], axis: int = 0) -> Tensor",
    level: Level::Composite(|b, call| {
        let tensors = call.tensors("tensors")?;
        let first = tensors.first().ok_or_else(|| call.error("needs at least one tensor"))?;
        let axis = call.axis("axis", first.rank() + 1)?;
        let dtype = promoted_of(&tensors);
        let mut parts = Vec::with_capacity(tensors.len());
        for t in &tensors {
            if t.rank() != first.rank()
                || t.dims().iter().zip(first.dims()).any(|(x, y)| x.same(y) == Some(false))
            {
                let what = format!(
                    "tensors of one shape are wanted, found {} and {}",
                    show(first.dims()),
                    show(t.dims())
                );
                return Err(call.error(what));
            }
            let t = to_dtype(b, t, dtype)?;
            parts.push(unsqueeze(b, &t, axis)?.arg());
        }
        Ok(vec![b.tensor("prims.cat", vec![Arg::List(parts), Arg::Int(axis as i64)])?.arg()])
    }),
    aten: &[Aten { overloads: &["stack.default"], import: Import::Map("tensors axis=dim") }],
    samples: &[
        Sample("[T[2, 3], T[2, 3]]"),
        Sample("[T[2], i64[2]{0..9}], axis=-1"),
        Sample("[T[], T[], T[]]"),
        Sample("[T[0, 2]], axis=1"),
    ],
    ..COMPOSITE
};

pub static TORCH_T: Op = Op {
    name: "torch.t",
    doc: "The transpose of a matrix; a tensor of fewer dims is its own.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let order: Vec<usize> = (0..matrix_rank(call, &a)?).rev().collect();
        transpose(b, &a, &order)
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        matrix_rank(call, &a)?;
        meta::one(a.dims().iter().rev().cloned().collect(), a.dtype(), &a.ty)
    }),
    aten: &[
        Aten { overloads: &["t.default", "t_.default", "t_copy.default"], import: Import::Map("a=self") },
        Aten {
            overloads: &["numpy_T.default"],
            import: Import::With(|b, call| {
                let a = call.tensor(b, "self")?;
                let axes = Arg::ints((0..a.rank() as i64).rev());
                b.call_recorded(&TORCH_PERMUTE, vec![a.arg(), axes], &call.results)
            }),
        },
        Aten {
            overloads: &["mT.default"],
            import: Import::With(|b, call| {
                b.call_recorded(
                    &TORCH_TRANSPOSE,
                    vec![call.arg("self")?.clone(), Arg::Int(-2), Arg::Int(-1)],
                    &call.results,
                )
            }),
        },
        Aten {
            overloads: &["mH.default", "adjoint.default", "matrix_H.default"],
            import: Import::With(adjoint),
        },
    ],
    samples: &[Sample("T[2, 3]"), Sample("T[4]"), Sample("T[]"), Sample("T[0, 2]")],
    ..VIEWS
};

pub static TORCH_TRANSPOSE: Op = Op {
    name: "torch.transpose",
    doc: "Two axes in each other's place.",
    schema: "(a: Tensor, axis0: int, axis1: int) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        transpose(b, &a, &swapped(call, &a)?)
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let order = swapped(call, &a)?;
        meta::one(order.iter().map(|i| a.dims()[*i].clone()).collect(), a.dtype(), &a.ty)
    }),
    aten: &[
        Aten {
            overloads: &["transpose.int", "transpose_copy.int", "swapdims.default", "swapdims_.default"],
            import: Import::Map("a=self axis0=dim0 axis1=dim1"),
        },
        Aten {
            overloads: &["swapaxes.default", "swapaxes_.default"],
            import: Import::Map("a=self axis0 axis1"),
        },
    ],
    samples: &[
        Sample("T[2, 3], axis0=0, axis1=1"),
        Sample("T[2, 3, 4], axis0=-1, axis1=0"),
        Sample("T[], axis0=0, axis1=-1"),
        Sample("T[0, 3], axis0=1, axis1=1"),
    ],
    ..VIEWS
};

pub static TORCH_TRIL: Op = Op {
    name: "torch.tril",
    doc: "The last two dims with zero above the diagonal (a higher one for a positive number).",
    schema: "(a: Tensor, diagonal: int = 0) -> Tensor",
    level: Level::Composite(|b, call| triangle(b, call, "prims.le")),
    meta: Meta::Fn(triangle_meta),
    aten: &[Aten { overloads: &["tril.default", "tril_.default"], import: Import::Map("a=self diagonal") }],
    samples: &[
        Sample("T[3, 4]"),
        Sample("T[2, 3, 3], diagonal=1"),
        Sample("T[3, 3], diagonal=-1"),
        Sample("T[0, 3]"),
        Sample("T[2, 2]{nonfinite}"),
    ],
    ..COMPOSITE
};

pub static TORCH_TRIU: Op = Op {
    name: "torch.triu",
    doc: "The last two dims with zero below the diagonal (a higher one for a positive number).",
    schema: "(a: Tensor, diagonal: int = 0) -> Tensor",
    level: Level::Composite(|b, call| triangle(b, call, "prims.ge")),
    meta: Meta::Fn(triangle_meta),
    aten: &[Aten { overloads: &["triu.default", "triu_.default"], import: Import::Map("a=self diagonal") }],
    samples: &[
        Sample("T[3, 4]"),
        Sample("T[2, 3, 3], diagonal=1"),
        Sample("T[3, 3], diagonal=-1"),
        Sample("T[0, 3]"),
        Sample("T[2, 2]{nonfinite}"),
    ],
    ..COMPOSITE
};

pub static TORCH_UNBIND: Op = Op {
    name: "torch.unbind",
    doc: "The elements along an axis, each without it.",
    schema: "(a: Tensor, axis: int = 0) -> Tensor[]",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let (axis, n) = unbound(call, &a)?;
        let mut out = Vec::with_capacity(n);
        for part in pieces(b, &a, axis, &vec![Dim::Known(1); n])? {
            let part = match part {
                Arg::Value(v) => b.as_tensor(v)?,
                _ => continue,
            };
            out.push(squeeze_one(b, &part, axis)?.arg());
        }
        Ok(out)
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let (axis, n) = unbound(call, &a)?;
        let mut dims = a.dims().to_vec();
        dims.remove(axis);
        let one: Type = TensorType { dims, ..(*a.ty).clone() }.into();
        Ok(vec![Some(one); n])
    }),
    aten: &[Aten { overloads: &["unbind.int", "unbind_copy.int"], import: Import::Map("a=self axis=dim") }],
    samples: &[Sample("T[2, 3]"), Sample("T[2, 3], axis=-1"), Sample("T[0, 2]"), Sample("T[3]")],
    ..VIEWS
};

pub static TORCH_UNFLATTEN: Op = Op {
    name: "torch.unflatten",
    doc: "One dim as several; one of them may be -1.",
    schema: "(a: Tensor, axis: int, dims: dims) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        reshape(b, &a, &unflattened_dims(call, &a)?)
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        meta::one(unflattened_dims(call, &a)?, a.dtype(), &a.ty)
    }),
    aten: &[Aten { overloads: &["unflatten.int"], import: Import::Map("a=self axis=dim dims=sizes") }],
    samples: &[
        Sample("T[2, 6], axis=1, dims=[2, 3]"),
        Sample("T[6, 2], axis=0, dims=[-1, 3]"),
        Sample("T[4], axis=-1, dims=[4, 1]"),
    ],
    ..VIEWS
};

pub static TORCH_UNSQUEEZE: Op = Op {
    name: "torch.unsqueeze",
    doc: "A new dim of 1 at that place.",
    schema: "(a: Tensor, axis: int) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let axis = call.axis("axis", a.rank() + 1)?;
        Ok(vec![unsqueeze(b, &a, axis)?.arg()])
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let mut dims = a.dims().to_vec();
        dims.insert(call.axis("axis", a.rank() + 1)?, Dim::Known(1));
        meta::one(dims, a.dtype(), &a.ty)
    }),
    aten: &[Aten {
        overloads: &["unsqueeze.default", "unsqueeze_.default", "unsqueeze_copy.default"],
        import: Import::Map("a=self axis=dim"),
    }],
    samples: &[
        Sample("T[2, 3], axis=0"),
        Sample("T[2, 3], axis=-1"),
        Sample("T[], axis=0"),
        Sample("T[0], axis=1"),
    ],
    ..VIEWS
};

fn broadcast_in_dim_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, dims, at) = (call.tensor("a")?, call.dims("dims")?, call.ints("broadcast_dims")?);
    let ascending = at.windows(2).all(|w| w[0] < w[1]);
    let inside = at.iter().all(|i| (0..dims.len() as i64).contains(i));
    if at.len() != a.rank() || !ascending || !inside {
        let what =
            format!("`broadcast_dims` {at:?} do not place {} dims, ascending, in {}", a.rank(), show(&dims));
        return Err(call.error(what));
    }
    for (d, i) in a.dims().iter().zip(&at) {
        let wanted = &dims[*i as usize];
        if !d.is(1) && d.same(wanted) == Some(false) {
            return Err(call.error(format!(
                "{} does not broadcast to {} by {at:?}",
                show(a.dims()),
                show(&dims)
            )));
        }
    }
    meta::one(dims, a.dtype(), &a.ty)
}

fn broadcast_in_dim_view(call: &Call, strides: &[Dim], offset: &Dim) -> Option<(Vec<Dim>, Dim)> {
    let (a, dims, at) = (call.tensor("a").ok()?, call.dims("dims").ok()?, call.ints("broadcast_dims").ok()?);
    let mut out = vec![Dim::Known(0); dims.len()];
    for (i, to) in at.iter().enumerate() {
        let to = usize::try_from(*to).ok().filter(|to| *to < dims.len())?;
        if !a.dims()[i].is(1) || dims[to].is(1) {
            out[to] = strides[i].clone();
        }
    }
    Some((out, offset.clone()))
}

fn cat_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let tensors = call.tensors("tensors")?;
    let (first, rest) = tensors.split_first().ok_or_else(|| call.error("needs at least one tensor"))?;
    let axis = usize::try_from(call.int("axis")?).ok().filter(|a| *a < first.rank());
    let axis = axis
        .ok_or_else(|| call.error(format!("has no axis {:?} of {} dims", call.int("axis"), first.rank())))?;
    let mut dims = first.dims().to_vec();
    for t in rest {
        if t.dtype() != first.dtype() {
            return Err(call.error(format!(
                "tensors of one dtype are wanted, found {} and {}",
                first.dtype(),
                t.dtype()
            )));
        }
        let fits = t.rank() == dims.len()
            && (0..dims.len()).all(|i| i == axis || t.dims()[i].same(&dims[i]) != Some(false));
        if !fits {
            return Err(call.error(format!(
                "{} and {} do not join along axis {axis}",
                show(first.dims()),
                show(t.dims())
            )));
        }
        for (i, d) in t.dims().iter().enumerate() {
            if i == axis {
                dims[i] = dims[i].add(d);
            } else if dims[i].known().is_none() {
                // Of two sizes assumed equal the known one says more.
                dims[i] = if d.known().is_some() { d.clone() } else { dims[i].clone() };
            }
        }
    }
    meta::one(dims, first.dtype(), &first.ty)
}

/// Axes, offset and the size of a diagonal.
fn diagonal_of(call: &Call, a: &Tensor) -> Result<(usize, usize, i64, Dim), OpError> {
    let (axis1, axis2) = (call.axis("axis1", a.rank())?, call.axis("axis2", a.rank())?);
    if axis1 == axis2 || a.rank() < 2 {
        return Err(call.error(format!("needs two axes, found {axis1} and {axis2} of {} dims", a.rank())));
    }
    let offset = call.int("offset")?;
    let rows = a.dims()[axis1].add(&Dim::Known(offset.min(0)));
    let columns = a.dims()[axis2].sub(&Dim::Known(offset.max(0)));
    let size = match rows.min_with(&columns) {
        Dim::Known(n) => Dim::Known(n.max(0)),
        d => d,
    };
    Ok((axis1, axis2, offset, size))
}

fn diagonal_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    let (axis1, axis2, _, size) = diagonal_of(call, &a)?;
    let mut dims = meta::reduced_dims(a.dims(), &[axis1, axis2], false);
    dims.push(size);
    meta::one(dims, a.dtype(), &a.ty)
}

fn diagonal_view(call: &Call, strides: &[Dim], offset: &Dim) -> Option<(Vec<Dim>, Dim)> {
    let a = call.tensor("a").ok()?;
    let (axis1, axis2, diagonal, size) = diagonal_of(call, &a).ok()?;
    let mut out = meta::reduced_dims(strides, &[axis1, axis2], false);
    out.push(strides[axis1].add(&strides[axis2]));
    let (axis, steps) = if diagonal < 0 { (axis1, -diagonal) } else { (axis2, diagonal) };
    let moved = offset.add(&strides[axis].mul(&Dim::Known(steps)));
    Some((out, if size.is(0) { offset.clone() } else { moved }))
}

/// Per dim what stands before, after and between.
fn pad_config(call: &Call) -> Result<Vec<[Dim; 3]>, OpError> {
    let wrong = || call.error("`config` must be a list of three sizes a dim");
    let Arg::List(items) = call.raw("config")? else { return Err(wrong()) };
    let size = |a: &Arg| match a {
        Arg::Int(n) => Some(Dim::Known(*n)),
        Arg::Dim(d) => Some(d.clone()),
        _ => None,
    };
    let triple = |item: &Arg| match item {
        Arg::List(l) => match l.as_slice() {
            [low, high, inner] => Some([size(low)?, size(high)?, size(inner)?]),
            _ => None,
        },
        _ => None,
    };
    items.iter().map(|i| triple(i).ok_or_else(wrong)).collect()
}

fn pad_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, config) = (call.tensor("a")?, pad_config(call)?);
    call.num("value")?;
    if config.len() != a.rank() {
        return Err(call.error(format!(
            "`config` is for {} dims, the tensor has {}",
            config.len(),
            a.rank()
        )));
    }
    let mut dims = Vec::with_capacity(a.rank());
    for (d, [low, high, inner]) in a.dims().iter().zip(config) {
        let gaps = match d.sub(&Dim::Known(1)) {
            Dim::Known(n) => Dim::Known(n.max(0)),
            n => n,
        };
        let out = d.add(&low).add(&high).add(&gaps.mul(&inner));
        if out.known().is_some_and(|n| n < 0) || inner.known().is_some_and(|n| n < 0) {
            return Err(call.error(format!("a dim of {d} cannot be padded by [{low}, {high}, {inner}]")));
        }
        dims.push(out);
    }
    meta::one(dims, a.dtype(), &a.ty)
}

fn reshape_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, dims) = (call.tensor("a")?, call.dims("dims")?);
    same_numel(call, &a, &dims)?;
    if let Some(d) = dims.iter().find(|d| d.known().is_some_and(|n| n < 0)) {
        return Err(call.error(format!("a dim cannot be {d}")));
    }
    meta::one(dims, a.dtype(), &a.ty)
}

fn same_numel(call: &Call, a: &Tensor, dims: &[Dim]) -> Result<(), OpError> {
    if a.dims() == dims {
        return Ok(());
    }
    let (from, to) = (a.ty.numel(), Dim::product(dims));
    if from.same(&to) == Some(false) {
        return Err(call.error(format!("{} has {from} elements, {} has {to}", show(a.dims()), show(dims))));
    }
    Ok(())
}

fn reshape_view(call: &Call, strides: &[Dim], offset: &Dim) -> Option<(Vec<Dim>, Dim)> {
    let (a, dims) = (call.tensor("a").ok()?, call.dims("dims").ok()?);
    Some((reshaped_strides(a.dims(), strides, &dims)?, offset.clone()))
}

/// Row-major strides of these dims.
pub fn dense_strides(dims: &[Dim]) -> Vec<Dim> {
    let mut strides = vec![Dim::Known(1); dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i].mul(&dims[i]);
    }
    strides
}

/// Strides of `to` over the memory of `from`, where there are some.
///
/// Both lists of dims are cut, from the right, into the smallest groups with equal numbers of elements; a group can be
/// seen in other dims when its own lie without gaps. Where symbols hide which group is the larger, only a base without
/// any gaps is known to be a view.
fn reshaped_strides(from: &[Dim], strides: &[Dim], to: &[Dim]) -> Option<Vec<Dim>> {
    if from == to {
        return Some(strides.to_vec());
    }
    // No element: any strides do.
    if from.iter().any(|d| d.is(0)) || is_dense(from, strides) {
        return Some(dense_strides(to));
    }
    let old: Vec<(&Dim, &Dim)> = from.iter().zip(strides).filter(|(d, _)| !d.is(1)).collect();
    let mut out = vec![Dim::Known(1); to.len()];
    let (mut i, mut j) = (old.len(), to.len());
    while i > 0 {
        let (first, stride) = old[i - 1];
        i -= 1;
        let (mut have, mut want, mut group) = (first.clone(), Dim::Known(1), j);
        let mut outermost = stride.mul(first);
        while have.same(&want) != Some(true) {
            let grow_new = group > 0 && divides(&want.mul(&to[group - 1]), &have);
            if grow_new {
                group -= 1;
                want = want.mul(&to[group]);
            } else {
                let (d, s) = *old.get(i.checked_sub(1)?)?;
                if *s != outermost {
                    return None;
                }
                outermost = s.mul(d);
                have = have.mul(d);
                i -= 1;
            }
        }
        // The group's new dims, innermost first, over the innermost stride of its old ones.
        let mut step = stride.clone();
        for k in (group..j).rev() {
            out[k] = step.clone();
            step = step.mul(&to[k]);
        }
        j = group;
    }
    to[..j].iter().all(|d| d.is(1)).then_some(out)
}

/// Is `whole` surely a multiple of `part`?
fn divides(part: &Dim, whole: &Dim) -> bool {
    whole.modulo(part).is_some_and(|r| r.is(0))
}

fn is_dense(dims: &[Dim], strides: &[Dim]) -> bool {
    let mut dense = Dim::Known(1);
    for (d, s) in dims.iter().zip(strides).rev() {
        if d.is(1) {
            continue;
        }
        if *s != dense {
            return false;
        }
        dense = dense.mul(d);
    }
    true
}

/// The dims of a slice; bounds are checked where they are known.
fn slice_dims(call: &Call, a: &Tensor) -> Result<Vec<Dim>, OpError> {
    let (start, end, step) = (call.dims("start")?, call.dims("end")?, call.ints("step")?);
    if [start.len(), end.len(), step.len()] != [a.rank(); 3] {
        let what = format!(
            "`start`, `end` and `step` have {}, {} and {} entries, the tensor {} dims",
            start.len(),
            end.len(),
            step.len(),
            a.rank()
        );
        return Err(call.error(what));
    }
    let mut dims = Vec::with_capacity(a.rank());
    for (i, n) in a.dims().iter().enumerate() {
        let known_negative = |d: Dim| d.known().is_some_and(|d| d < 0);
        let outside = known_negative(start[i].clone())
            || known_negative(end[i].sub(&start[i]))
            || known_negative(n.sub(&end[i]));
        if outside || step[i] < 1 {
            let what = format!(
                "dim {i} is {n}: from {} up to {} by {} is no slice of it",
                start[i], end[i], step[i]
            );
            return Err(call.error(what));
        }
        dims.push(length(&start[i], &end[i], step[i]));
    }
    Ok(dims)
}

/// How many elements from `start` up to `end` by `step`, which is positive.
fn length(start: &Dim, end: &Dim, step: i64) -> Dim {
    let span = end.sub(start);
    if step == 1 {
        return span;
    }
    span.add(&Dim::Known(step - 1)).floordiv(&Dim::Known(step)).unwrap_or(span)
}

fn slice_view(call: &Call, strides: &[Dim], offset: &Dim) -> Option<(Vec<Dim>, Dim)> {
    let (start, step) = (call.dims("start").ok()?, call.ints("step").ok()?);
    let moved = start.iter().zip(strides).fold(offset.clone(), |at, (s, stride)| at.add(&s.mul(stride)));
    Some((strides.iter().zip(step).map(|(s, step)| s.mul(&Dim::Known(step))).collect(), moved))
}

fn slice_scatter_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, src) = (call.tensor("a")?, call.tensor("src")?);
    let part = slice_dims(call, &a)?;
    if a.dtype() != src.dtype() {
        return Err(call.error(format!("`a` is {}, `src` {}", a.dtype(), src.dtype())));
    }
    if src.rank() != part.len() || src.dims().iter().zip(&part).any(|(x, y)| x.same(y) == Some(false)) {
        return Err(call.error(format!("`src` is {}, the part is {}", show(src.dims()), show(&part))));
    }
    Ok(vec![Some(Type::Tensor(a.ty))])
}

fn squeeze_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    let axes = canonical_axes(call, "axes", a.rank())?;
    for axis in &axes {
        if a.dims()[*axis].same(&Dim::Known(1)) == Some(false) {
            return Err(call.error(format!("dim {axis} is {}, only 1 can go", a.dims()[*axis])));
        }
    }
    meta::one(meta::reduced_dims(a.dims(), &axes, false), a.dtype(), &a.ty)
}

/// Axes made non-negative, each once; an empty list stays empty.
fn canonical_axes(call: &Call, name: &str, rank: usize) -> Result<Vec<usize>, OpError> {
    let given = call.ints(name)?;
    let mut axes = given.iter().map(|a| call.canonical_axis(*a, rank)).collect::<Result<Vec<_>, _>>()?;
    axes.retain(|a| *a < rank);
    axes.sort_unstable();
    if axes.windows(2).any(|w| w[0] == w[1]) {
        return Err(call.error(format!("axes {given:?} repeat")));
    }
    Ok(axes)
}

fn promoted_of(tensors: &[Tensor]) -> Dtype {
    let operands: Vec<Operand> = tensors.iter().map(Operand::from).collect();
    promoted(&operands)
}

fn cat(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let tensors = call.tensors("tensors")?;
    let dtype = promoted_of(&tensors);
    let counts = |t: &&Tensor| t.rank() != 1 || !t.dims()[0].is(0);
    let mut parts: Vec<&Tensor> = tensors.iter().filter(counts).collect();
    if parts.is_empty() {
        parts.extend(tensors.first());
    }
    let first = parts.first().ok_or_else(|| call.error("needs at least one tensor"))?;
    if first.rank() == 0 {
        return Err(call.error("zero-dim tensors cannot be joined"));
    }
    let axis = call.axis("axis", first.rank())?;
    let mut args = Vec::with_capacity(parts.len());
    for t in parts {
        args.push(to_dtype(b, t, dtype)?.arg());
    }
    Ok(vec![b.tensor("prims.cat", vec![Arg::List(args), Arg::Int(axis as i64)])?.arg()])
}

fn reshape(b: &mut Builder<'_>, a: &Tensor, dims: &[Dim]) -> Result<Vec<Arg>, OpError> {
    Ok(vec![reshape_to(b, a, dims)?.arg()])
}

fn reshape_to(b: &mut Builder<'_>, a: &Tensor, dims: &[Dim]) -> Result<Tensor, OpError> {
    b.tensor("prims.reshape", vec![a.arg(), Arg::dims(dims)])
}

fn transpose(b: &mut Builder<'_>, a: &Tensor, order: &[usize]) -> Result<Vec<Arg>, OpError> {
    Ok(vec![transpose_by(b, a, order)?.arg()])
}

fn transpose_by(b: &mut Builder<'_>, a: &Tensor, order: &[usize]) -> Result<Tensor, OpError> {
    b.tensor("prims.transpose", vec![a.arg(), Arg::ints(order.iter().map(|i| *i as i64))])
}

fn squeeze(b: &mut Builder<'_>, a: &Tensor, axes: &[usize]) -> Result<Vec<Arg>, OpError> {
    Ok(vec![b.tensor("prims.squeeze", vec![a.arg(), Arg::ints(axes.iter().map(|i| *i as i64))])?.arg()])
}

fn squeeze_one(b: &mut Builder<'_>, a: &Tensor, axis: usize) -> Result<Tensor, OpError> {
    b.tensor("prims.squeeze", vec![a.arg(), Arg::ints([axis as i64])])
}

fn unsqueeze(b: &mut Builder<'_>, a: &Tensor, axis: usize) -> Result<Tensor, OpError> {
    let mut dims = a.dims().to_vec();
    dims.insert(axis, Dim::Known(1));
    let at = (0..a.rank()).map(|i| if i < axis { i } else { i + 1 } as i64);
    b.tensor("prims.broadcast_in_dim", vec![a.arg(), Arg::dims(&dims), Arg::ints(at)])
}

fn flip(b: &mut Builder<'_>, a: &Tensor, axes: &[usize]) -> Result<Vec<Arg>, OpError> {
    Ok(vec![b.tensor("prims.flip", vec![a.arg(), Arg::ints(axes.iter().map(|i| *i as i64))])?.arg()])
}

/// `start`, `end` and `step` of all dims, with one axis cut.
fn cut(a: &Tensor, axis: usize, start: &Dim, end: &Dim, step: i64) -> [Arg; 3] {
    let mut starts = vec![Dim::Known(0); a.rank()];
    let mut ends = a.dims().to_vec();
    let mut steps = vec![1; a.rank()];
    starts[axis] = start.clone();
    ends[axis] = end.clone();
    steps[axis] = step;
    [Arg::dims(&starts), Arg::dims(&ends), Arg::ints(steps)]
}

fn slice_axis(
    b: &mut Builder<'_>,
    a: &Tensor,
    axis: usize,
    start: &Dim,
    end: &Dim,
    step: i64,
) -> Result<Tensor, OpError> {
    let [start, end, step] = cut(a, axis, start, end, step);
    b.tensor("prims.slice", vec![a.arg(), start, end, step])
}

fn scatter_axis(
    b: &mut Builder<'_>,
    a: &Tensor,
    src: &Tensor,
    axis: usize,
    start: &Dim,
    end: &Dim,
    step: i64,
) -> Result<Tensor, OpError> {
    let [start, end, step] = cut(a, axis, start, end, step);
    b.tensor("prims.slice_scatter", vec![a.arg(), src.arg(), start, end, step])
}

/// Consecutive parts along an axis.
fn pieces(b: &mut Builder<'_>, a: &Tensor, axis: usize, sizes: &[Dim]) -> Result<Vec<Arg>, OpError> {
    let mut start = Dim::Known(0);
    let mut out = Vec::with_capacity(sizes.len());
    for size in sizes {
        let end = start.add(size);
        out.push(slice_axis(b, a, axis, &start, &end, 1)?.arg());
        start = end;
    }
    Ok(out)
}

fn piece_types(a: &Tensor, axis: usize, sizes: &[Dim]) -> Result<Vec<Option<Type>>, OpError> {
    let piece = |size: &Dim| {
        let mut dims = a.dims().to_vec();
        dims[axis] = size.clone();
        Some(TensorType { dims, ..(*a.ty).clone() }.into())
    };
    Ok(sizes.iter().map(piece).collect())
}

fn dim_of<'a>(call: &Call, a: &'a Tensor, axis: usize) -> Result<&'a Dim, OpError> {
    a.dims().get(axis).ok_or_else(|| call.error("a zero-dim tensor has no axis"))
}

fn chunk_sizes(call: &Call, a: &Tensor, axis: usize) -> Result<Vec<Dim>, OpError> {
    let chunks = call.int("chunks")?;
    if chunks < 1 {
        return Err(call.error(format!("`chunks` must be positive, found {chunks}")));
    }
    match dim_of(call, a, axis)? {
        // As many pieces of nothing as were asked for.
        Dim::Known(0) => Ok(vec![Dim::Known(0); chunks as usize]),
        Dim::Known(n) => Ok(even_sizes(*n, (n + chunks - 1) / chunks)),
        n => {
            let size = n.add(&Dim::Known(chunks - 1)).floordiv(&Dim::Known(chunks)).unwrap_or(n.clone());
            symbolic_sizes(call, n, &size, chunks as usize, axis)
        }
    }
}

fn split_sizes(call: &Call, a: &Tensor, axis: usize) -> Result<Vec<Dim>, OpError> {
    let n = dim_of(call, a, axis)?;
    if matches!(call.raw("sizes")?, Arg::List(_)) {
        let sizes = call.dims("sizes")?;
        let sum = sizes.iter().fold(Dim::Known(0), |sum, s| sum.add(s));
        if sum.same(n) == Some(false) {
            return Err(call.error(format!("sizes {} sum to {sum}, the dim is {n}", show(&sizes))));
        }
        return Ok(sizes);
    }
    let size = call.dim("sizes")?;
    match (n, &size) {
        (Dim::Known(0), Dim::Known(s)) if *s >= 0 => Ok(vec![Dim::Known(0)]),
        (_, Dim::Known(s)) if *s < 1 => Err(call.error(format!("`sizes` must be positive, found {s}"))),
        (Dim::Known(n), Dim::Known(s)) => Ok(even_sizes(*n, *s)),
        (n, size) => {
            // The number of pieces is the model's, or follows where the quotient is a number.
            let count = n.floordiv(size).and_then(|q| q.known()).and_then(|q| usize::try_from(q).ok());
            let count = if call.results.is_empty() { count } else { Some(call.results.len()) };
            let count = count
                .ok_or_else(|| call.error(format!("how many pieces of {size} are in {n} is not known")))?;
            symbolic_sizes(call, n, size, count, axis)
        }
    }
}

/// Pieces of `size` that add up to `n`, the last perhaps smaller.
fn even_sizes(n: i64, size: i64) -> Vec<Dim> {
    let mut sizes = vec![Dim::Known(size); (n / size) as usize];
    if n % size != 0 {
        sizes.push(Dim::Known(n % size));
    }
    sizes
}

/// As [`even_sizes`] with symbols: `count` pieces (as many as are recorded), the last takes what is left.
fn symbolic_sizes(call: &Call, n: &Dim, size: &Dim, count: usize, axis: usize) -> Result<Vec<Dim>, OpError> {
    let count = if call.results.is_empty() { count } else { call.results.len() };
    let mut sizes = vec![size.clone(); count];
    let mut left = n.clone();
    for (i, slot) in sizes.iter_mut().enumerate() {
        let recorded = call.results.get(i).and_then(|r| r.as_ref()?.tensor()?.dims.get(axis).cloned());
        match recorded {
            Some(d) => *slot = d,
            None if i + 1 == count => *slot = left.clone(),
            None => {}
        }
        left = left.sub(slot);
    }
    Ok(sizes)
}

fn expanded_dims(call: &Call, a: &Tensor) -> Result<Vec<Dim>, OpError> {
    let mut dims = call.dims("dims")?;
    let new = dims
        .len()
        .checked_sub(a.rank())
        .ok_or_else(|| call.error(format!("{} has more dims than {}", show(a.dims()), show(&dims))))?;
    for i in 0..dims.len() {
        let keep = dims[i].is(-1);
        match i.checked_sub(new).map(|j| &a.dims()[j]) {
            None if keep => return Err(call.error(format!("-1 keeps no dim at {i} of {}", show(&dims)))),
            None => {}
            Some(d) if keep => dims[i] = d.clone(),
            Some(d) if !d.is(1) && d.same(&dims[i]) == Some(false) => {
                return Err(call.error(format!("{} does not expand to {}", show(a.dims()), show(&dims))));
            }
            Some(_) => {}
        }
    }
    Ok(dims)
}

fn flattened_dims(call: &Call, a: &Tensor) -> Result<Vec<Dim>, OpError> {
    let (start, end) = (call.axis("start", a.rank())?, call.axis("end", a.rank())?);
    if start > end {
        return Err(call.error(format!("`start` is {start}, behind `end`, {end}")));
    }
    if a.rank() == 0 {
        return Ok(vec![Dim::Known(1)]);
    }
    let mut dims = a.dims()[..start].to_vec();
    dims.push(Dim::product(&a.dims()[start..=end]));
    dims.extend_from_slice(&a.dims()[end + 1..]);
    Ok(dims)
}

/// `dims` with its -1 worked out, for `numel` elements. What division leaves open is taken as recorded.
fn inferred(
    call: &Call,
    mut dims: Vec<Dim>,
    numel: &Dim,
    recorded: Option<&Dim>,
) -> Result<Vec<Dim>, OpError> {
    let open: Vec<usize> = (0..dims.len()).filter(|i| dims[*i].is(-1)).collect();
    let [at] = open[..] else {
        if open.is_empty() {
            return Ok(dims);
        }
        return Err(call.error(format!("{} has -1 more than once", show(&dims))));
    };
    dims[at] = Dim::Known(1);
    let rest = Dim::product(&dims);
    let left_over = numel.modulo(&rest).and_then(|r| r.known());
    let quotient = numel.floordiv(&rest).filter(|_| left_over.is_none_or(|r| r == 0));
    let Some(size) = quotient else {
        dims[at] = Dim::Known(-1);
        return Err(call.error(format!("{numel} elements do not fill {}", show(&dims))));
    };
    dims[at] = match recorded {
        Some(r) if size.known().is_none() && size.same(r) != Some(false) => r.clone(),
        _ => size,
    };
    Ok(dims)
}

fn reshaped_dims(call: &Call, a: &Tensor) -> Result<Vec<Dim>, OpError> {
    let dims = call.dims("dims")?;
    let at = dims.iter().position(|d| d.is(-1));
    let recorded = at.and_then(|at| recorded_dim(call, at));
    let dims = match at {
        Some(_) => inferred(call, dims, &a.ty.numel(), recorded.as_ref())?,
        None => dims,
    };
    same_numel(call, a, &dims)?;
    Ok(dims)
}

fn unflattened_dims(call: &Call, a: &Tensor) -> Result<Vec<Dim>, OpError> {
    let axis = call.axis("axis", a.rank())?;
    let n = dim_of(call, a, axis)?;
    let parts = call.dims("dims")?;
    let recorded = parts.iter().position(|d| d.is(-1)).and_then(|at| recorded_dim(call, axis + at));
    let parts = inferred(call, parts, n, recorded.as_ref())?;
    if Dim::product(&parts).same(n) == Some(false) {
        return Err(call.error(format!("{} does not fill a dim of {n}", show(&parts))));
    }
    let mut dims = a.dims()[..axis].to_vec();
    dims.extend(parts);
    dims.extend_from_slice(&a.dims()[axis + 1..]);
    Ok(dims)
}

/// Dim `at` of the first result, where it is known from elsewhere.
fn recorded_dim(call: &Call, at: usize) -> Option<Dim> {
    call.results.first()?.as_ref()?.tensor()?.dims.get(at).cloned()
}

/// The first dim of a result, where it is recorded.
fn recorded_size(results: &[Option<Type>], at: usize) -> Option<Dim> {
    results.get(at)?.as_ref()?.tensor()?.dims.first().cloned()
}

fn matrix_rank(call: &Call, a: &Tensor) -> Result<usize, OpError> {
    if a.rank() > 2 {
        return Err(call.error(format!("takes at most two dims, found {}", show(a.dims()))));
    }
    Ok(a.rank())
}

fn swapped(call: &Call, a: &Tensor) -> Result<Vec<usize>, OpError> {
    let (x, y) = (call.axis("axis0", a.rank())?, call.axis("axis1", a.rank())?);
    let mut order: Vec<usize> = (0..a.rank()).collect();
    if a.rank() > 0 {
        order.swap(x, y);
    }
    Ok(order)
}

/// Is the size negative, taken that symbols are not? A sum whose sign depends on its symbols counts as not negative.
fn is_negative(d: &Dim) -> bool {
    match d.known() {
        Some(n) => n < 0,
        None => [1, 1 << 20].iter().all(|n| d.eval(&|_| Some(*n)).is_some_and(|v| v < 0)),
    }
}

/// Axis and index of a `select`, both from 0.
fn selected(call: &Call, a: &Tensor) -> Result<(usize, Dim), OpError> {
    let axis = call.axis("axis", a.rank())?;
    let (n, given) = (dim_of(call, a, axis)?, call.dim("index")?);
    let index = if is_negative(&given) { given.add(n) } else { given.clone() };
    let outside = index.known().is_some_and(|i| i < 0) || n.sub(&index).known().is_some_and(|left| left < 1);
    if outside {
        return Err(call.error(format!("index {given} is out of range for a dim of {n}")));
    }
    Ok((axis, index))
}

struct Sliced {
    axis: usize,
    start: Dim,
    end: Dim,
    step: i64,
}

/// The bounds of a `slice`, clipped as Python does. Where symbols leave open whether a bound lies inside it is taken to,
/// unless the recorded size says where the slice ends.
fn sliced(call: &Call, a: &Tensor) -> Result<Sliced, OpError> {
    let axis = call.axis("axis", a.rank())?;
    let n = dim_of(call, a, axis)?;
    let step = call.int("step")?;
    if step < 1 {
        return Err(call.error(format!("`step` must be positive, found {step}")));
    }
    let start = clipped(call.opt_dim("start")?.unwrap_or(Dim::Known(0)), n);
    let mut end = clipped(call.opt_dim("end")?.unwrap_or_else(|| n.clone()), n);
    if end.sub(&start).known().is_some_and(|span| span < 0) {
        end = start.clone();
    }
    if let Some(size) = recorded_dim(call, axis)
        && step == 1
        && size.same(&length(&start, &end, 1)).is_none()
    {
        end = start.add(&size);
    }
    Ok(Sliced { axis, start, end, step })
}

/// One bound of a slice of `n` elements.
fn clipped(bound: Dim, n: &Dim) -> Dim {
    // Files write an open end as the largest i64.
    if bound.is(i64::MAX) {
        return n.clone();
    }
    let bound = if is_negative(&bound) { bound.add(n) } else { bound };
    if bound.known().is_some_and(|b| b < 0) {
        return Dim::Known(0);
    }
    if bound.sub(n).known().is_some_and(|over| over >= 0) { n.clone() } else { bound }
}

fn squeezed_axes(call: &Call, a: &Tensor) -> Result<Vec<usize>, OpError> {
    let mut axes = match call.has("axes") {
        true => canonical_axes(call, "axes", a.rank())?,
        false => (0..a.rank()).collect(),
    };
    axes.retain(|i| a.dims()[*i].is(1));
    Ok(axes)
}

/// The axis of an `unbind` and how many elements it has.
fn unbound(call: &Call, a: &Tensor) -> Result<(usize, usize), OpError> {
    let axis = call.axis("axis", a.rank())?;
    let n = dim_of(call, a, axis)?;
    let count = match n.known() {
        Some(n) => usize::try_from(n).ok(),
        None => Some(call.results.len()).filter(|n| *n > 0),
    };
    let count = count.ok_or_else(|| call.error(format!("a dim of {n} has no known number of elements")))?;
    Ok((axis, count))
}

fn channel_shuffle(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, groups) = (call.tensor("a")?, Dim::Known(call.int("groups")?));
    if a.rank() < 3 {
        return Err(call.error(format!("takes at least three dims, found {}", show(a.dims()))));
    }
    let channels = &a.dims()[1];
    let each = exact_quotient(call, channels, &groups, "channels")?;
    let mut dims = vec![a.dims()[0].clone(), groups, each];
    dims.extend_from_slice(&a.dims()[2..]);
    let split = reshape_to(b, &a, &dims)?;
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order.swap(1, 2);
    let mixed = transpose_by(b, &split, &order)?;
    reshape(b, &mixed, a.dims())
}

fn exact_quotient(call: &Call, n: &Dim, by: &Dim, what: &str) -> Result<Dim, OpError> {
    let fits = !is_negative(by) && n.modulo(by).is_some_and(|r| r.known().is_none_or(|r| r == 0));
    match n.floordiv(by) {
        Some(q) if fits => Ok(q),
        _ => Err(call.error(format!("{n} {what} do not divide by {by}"))),
    }
}

fn pixel_shuffle(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let (lead, f) = image_dims(call, &a)?;
    let [channels, height, width] = [0, 1, 2].map(|i| a.dims()[lead + i].clone());
    let out = exact_quotient(call, &channels, &f.mul(&f), "channels")?;
    let mut dims = a.dims()[..lead].to_vec();
    dims.extend([out.clone(), f.clone(), f.clone(), height.clone(), width.clone()]);
    let split = reshape_to(b, &a, &dims)?;
    let mut order: Vec<usize> = (0..lead).collect();
    order.extend([0, 3, 1, 4, 2].map(|i| lead + i));
    let mixed = transpose_by(b, &split, &order)?;
    let mut dims = a.dims()[..lead].to_vec();
    dims.extend([out, height.mul(&f), width.mul(&f)]);
    reshape(b, &mixed, &dims)
}

fn pixel_unshuffle(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let (lead, f) = image_dims(call, &a)?;
    let channels = a.dims()[lead].clone();
    let height = exact_quotient(call, &a.dims()[lead + 1], &f, "rows")?;
    let width = exact_quotient(call, &a.dims()[lead + 2], &f, "columns")?;
    let mut dims = a.dims()[..lead].to_vec();
    dims.extend([channels.clone(), height.clone(), f.clone(), width.clone(), f.clone()]);
    let split = reshape_to(b, &a, &dims)?;
    let mut order: Vec<usize> = (0..lead).collect();
    order.extend([0, 2, 4, 1, 3].map(|i| lead + i));
    let mixed = transpose_by(b, &split, &order)?;
    let mut dims = a.dims()[..lead].to_vec();
    dims.extend([channels.mul(&f).mul(&f), height, width]);
    reshape(b, &mixed, &dims)
}

/// How many dims stand before channels, rows and columns; and the factor.
fn image_dims(call: &Call, a: &Tensor) -> Result<(usize, Dim), OpError> {
    let f = call.int("factor")?;
    if f < 1 {
        return Err(call.error(format!("`factor` must be positive, found {f}")));
    }
    let lead = a
        .rank()
        .checked_sub(3)
        .ok_or_else(|| call.error(format!("takes at least three dims, found {}", show(a.dims()))))?;
    Ok((lead, Dim::Known(f)))
}

/// Axis, elements before and elements after, for each pair of a padding (from the last dim backwards).
fn pad_pairs(call: &Call, a: &Tensor) -> Result<Vec<(usize, Dim, Dim)>, OpError> {
    let pad = call.dims("pad")?;
    if pad.len() % 2 != 0 || pad.len() / 2 > a.rank() {
        return Err(call.error(format!("{} does not pad {}", show(&pad), show(a.dims()))));
    }
    let pairs = pad.chunks_exact(2).enumerate();
    Ok(pairs.map(|(i, p)| (a.rank() - 1 - i, p[0].clone(), p[1].clone())).collect())
}

fn pad(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let op = match call.str("mode")? {
        "constant" => return pad_constant(b, call, &a),
        "circular" => return pad_circular(b, call, &a),
        "reflect" => "torch.reflection_pad",
        "replicate" => "torch.replication_pad",
        other => {
            return Err(call.error(format!(
                "`mode` must be \"constant\", \"reflect\", \"replicate\" or \"circular\", found {other:?}"
            )));
        }
    };
    Ok(vec![b.tensor(op, vec![a.arg(), call.raw("pad")?])?.arg()])
}

fn pad_constant(b: &mut Builder<'_>, call: &Call, a: &Tensor) -> Result<Vec<Arg>, OpError> {
    let mut config = vec![[Dim::Known(0), Dim::Known(0), Dim::Known(0)]; a.rank()];
    for (axis, low, high) in pad_pairs(call, a)? {
        config[axis] = [low, high, Dim::Known(0)];
    }
    let value = number_for(&call.opt_num("value")?.unwrap_or(Num::Int(0)), a.dtype());
    let config = Arg::List(config.iter().map(|c| Arg::dims(c)).collect());
    Ok(vec![b.tensor("prims.pad", vec![a.arg(), value, config])?.arg()])
}

/// Around: what stands before comes from the end, what stands after from the start. Negative numbers crop.
fn pad_circular(b: &mut Builder<'_>, call: &Call, a: &Tensor) -> Result<Vec<Arg>, OpError> {
    let mut out = a.clone();
    for (axis, low, high) in pad_pairs(call, a)? {
        let n = out.dims()[axis].clone();
        let zero = Dim::Known(0);
        let from = if is_negative(&low) { low.neg() } else { zero.clone() };
        let to = if is_negative(&high) { n.add(&high) } else { n.clone() };
        let middle = slice_axis(b, &out, axis, &from, &to, 1)?;
        let mut parts = Vec::with_capacity(3);
        if !low.is(0) && !is_negative(&low) {
            parts.push(slice_axis(b, &out, axis, &n.sub(&low), &n, 1)?.arg());
        }
        parts.push(middle.arg());
        if !high.is(0) && !is_negative(&high) {
            parts.push(slice_axis(b, &out, axis, &zero, &high, 1)?.arg());
        }
        out = match parts.len() {
            1 => middle,
            _ => b.tensor("prims.cat", vec![Arg::List(parts), Arg::Int(axis as i64)])?,
        };
    }
    Ok(vec![out.arg()])
}

/// Padding by taking: element i of the result is the element of `a` at the position i reaches, mirrored at both ends or
/// stopped there.
fn pad_by_index(b: &mut Builder<'_>, call: &Call, mirror: bool) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let mut out = a.clone();
    for (axis, low, high) in pad_pairs(call, &a)? {
        if low.is(0) && high.is(0) {
            continue;
        }
        let n = out.dims()[axis].clone();
        let last = n.sub(&Dim::Known(1));
        let too_far = |p: &Dim| mirror && p.sub(&last).known().is_some_and(|over| over > 0);
        if too_far(&low) || too_far(&high) || last.known().is_some_and(|l| l < 0) {
            return Err(call.error(format!("a dim of {n} cannot be padded by {low} and {high}")));
        }
        let size = n.add(&low).add(&high);
        let position = iota(b, &size, &low.neg(), &a)?;
        let index = if mirror {
            let right = emit::unary(b, "prims.abs", &position)?;
            let from_last = emit::binary(b, "prims.sub", &right, Num::Dim(last.clone()))?;
            let folded = emit::unary(b, "prims.abs", &from_last)?;
            let minus = emit::unary(b, "prims.neg", &folded)?;
            emit::binary(b, "prims.add", &minus, Num::Dim(last))?
        } else {
            let right = emit::binary(b, "prims.maximum", &position, 0)?;
            emit::binary(b, "prims.minimum", &right, Num::Dim(last))?
        };
        out = b.tensor("prims.take", vec![out.arg(), index.arg(), Arg::Int(axis as i64)])?;
    }
    Ok(vec![out.arg()])
}

/// `start`, `start + 1`, … as i64, on the device of `like`.
fn iota(b: &mut Builder<'_>, n: &Dim, start: &Dim, like: &Tensor) -> Result<Tensor, OpError> {
    let device = Arg::Device(like.ty.device.clone());
    let start = Arg::dim(start.clone());
    b.tensor("prims.iota", vec![Arg::dim(n.clone()), start, Arg::Int(1), Dtype::I64.into(), device])
}

fn repeat(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, repeats) = (call.tensor("a")?, call.dims("repeats")?);
    let new = repeats.len().checked_sub(a.rank()).ok_or_else(|| {
        call.error(format!("{} has fewer numbers than {} has dims", show(&repeats), show(a.dims())))
    })?;
    if let Some(r) = repeats.iter().find(|r| r.known().is_some_and(|r| r < 0)) {
        return Err(call.error(format!("nothing can be repeated {r} times")));
    }
    // [d] becomes [r, d], then [r d].
    let (mut wide, mut at, mut dims) = (Vec::new(), Vec::new(), Vec::new());
    for (i, r) in repeats.iter().enumerate() {
        wide.push(r.clone());
        dims.push(r.clone());
        if let Some(d) = i.checked_sub(new).map(|j| &a.dims()[j]) {
            at.push(wide.len() as i64);
            wide.push(d.clone());
            dims[i] = r.mul(d);
        }
    }
    let wide = b.tensor("prims.broadcast_in_dim", vec![a.arg(), Arg::dims(&wide), Arg::ints(at)])?;
    reshape(b, &wide, &dims)
}

fn repeat_interleave(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let mut a = call.tensor("a")?;
    let axis = match call.opt_int("axis")? {
        Some(axis) if a.rank() > 0 => call.canonical_axis(axis, a.rank())?,
        _ => {
            let numel = a.ty.numel();
            a = reshape_to(b, &a, &[numel])?;
            0
        }
    };
    if let Ok(Some(repeats)) = call.opt_tensor("repeats") {
        let n = call.results.first().and_then(|r| r.as_ref()?.tensor()?.dims.get(axis).cloned());
        let n = n.ok_or_else(|| {
            call.error("with a tensor of numbers its size is known only at run time, and none is recorded")
        })?;
        let index = repeat_index(b, &repeats, &n)?;
        return Ok(vec![b.tensor("prims.take", vec![a.arg(), index.arg(), Arg::Int(axis as i64)])?.arg()]);
    }
    let times = call.dim("repeats")?;
    if is_negative(&times) {
        return Err(call.error(format!("nothing can be repeated {times} times")));
    }
    let mut wide = a.dims().to_vec();
    wide.insert(axis + 1, times.clone());
    let at = (0..a.rank()).map(|i| if i <= axis { i } else { i + 1 } as i64);
    let wide = b.tensor("prims.broadcast_in_dim", vec![a.arg(), Arg::dims(&wide), Arg::ints(at)])?;
    let mut dims = a.dims().to_vec();
    dims[axis] = dims[axis].mul(&times);
    reshape(b, &wide, &dims)
}

/// The index with which taking repeats element i `repeats[i]` times: for each position of the result the first running
/// sum above it. The number of positions is read from the data where `n` is known only at run time.
fn repeat_index(b: &mut Builder<'_>, repeats: &Tensor, n: &Dim) -> Result<Tensor, OpError> {
    let repeats = to_dtype(b, repeats, Dtype::I64)?;
    let sums = b.tensor("prims.cumsum", vec![repeats.arg(), Arg::Int(0)])?;
    let count = match n.as_symbol() {
        Some(s) if s.kind == SymKind::Data => {
            let total = b.tensor("prims.sum", vec![repeats.arg(), Arg::ints([0]), Arg::None])?;
            let known = Type::Number(NumberType { kind: NumKind::Int, equals: Some(n.clone()) });
            b.call_recorded(&super::memory::ITEM, vec![total.arg()], &[Some(known)])?.remove(0)
        }
        _ => Arg::dim(n.clone()),
    };
    let device = Arg::Device(repeats.ty.device.clone());
    let position =
        b.tensor("prims.iota", vec![count, Arg::Int(0), Arg::Int(1), Dtype::I64.into(), device])?;
    b.tensor("prims.searchsorted", vec![sums.arg(), position.arg(), Arg::Bool(true), Dtype::I64.into()])
}

fn repeat_interleave_by_tensor(b: &mut Builder<'_>, call: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let (mut a, mut repeats) = (call.tensor(b, "self")?, call.tensor(b, "repeats")?);
    let axis = match call.arg("dim")? {
        Arg::Int(axis) if a.rank() > 0 => axis.rem_euclid(a.rank() as i64),
        _ => {
            a = b.tensor("torch.flatten", vec![a.arg()])?;
            0
        }
    };
    let rows = a.dims()[axis as usize].clone();
    if repeats.rank() == 0 || repeats.dims()[0].is(1) {
        repeats = b.tensor("torch.expand", vec![repeats.arg(), Arg::List(vec![Arg::dim(rows)])])?;
    }
    let n = call.results.first().and_then(|r| r.as_ref()?.tensor()?.dims.get(axis as usize).cloned());
    let n = n.ok_or_else(|| call.error("its size is not recorded"))?;
    let index = repeat_index(b, &repeats, &n)?;
    b.call("torch.index_select", vec![a.arg(), Arg::Int(axis), index.arg()])
}

fn roll(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, shifts) = (call.tensor("a")?, call.dims("shifts")?);
    let axes = call.ints("axes")?;
    if axes.is_empty() {
        let [shift] = shifts.as_slice() else {
            return Err(call.error(format!("without axes one shift is wanted, found {}", show(&shifts))));
        };
        let flat = reshape_to(b, &a, &[a.ty.numel()])?;
        let rolled = roll_axis(b, call, &flat, 0, shift)?;
        return reshape(b, &rolled, a.dims());
    }
    if axes.len() != shifts.len() {
        return Err(call.error(format!("{} shifts for {} axes", shifts.len(), axes.len())));
    }
    let mut out = a;
    for (axis, shift) in axes.iter().zip(&shifts) {
        let axis = call.canonical_axis(*axis, out.rank())?;
        out = roll_axis(b, call, &out, axis, shift)?;
    }
    Ok(vec![out.arg()])
}

fn roll_axis(
    b: &mut Builder<'_>,
    call: &Call,
    a: &Tensor,
    axis: usize,
    shift: &Dim,
) -> Result<Tensor, OpError> {
    let n = dim_of(call, a, axis)?.clone();
    if n.is(0) || shift.is(0) {
        return Ok(a.clone());
    }
    // What comes first starts `shift` before the end; with symbols the shift is taken to be smaller than the dim.
    let first = match (&n, shift) {
        (Dim::Known(n), Dim::Known(s)) => Dim::Known(crate::ir::dim::floor_mod(-s, *n)),
        (_, s) if is_negative(s) => s.neg(),
        (n, s) => n.sub(s),
    };
    if first.is(0) {
        return Ok(a.clone());
    }
    let head = slice_axis(b, a, axis, &first, &n, 1)?;
    let tail = slice_axis(b, a, axis, &Dim::Known(0), &first, 1)?;
    b.tensor("prims.cat", vec![Arg::List(vec![head.arg(), tail.arg()]), Arg::Int(axis as i64)])
}

fn triangle_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    call.num("diagonal")?;
    if a.rank() < 2 {
        return Err(call.error(format!("takes at least two dims, found {}", show(a.dims()))));
    }
    Ok(vec![Some(Type::Tensor(a.ty))])
}

/// `a` where column compares to row + diagonal as `prim` says, else zero.
fn triangle(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    triangle_meta(call)?;
    let (a, diagonal) = (call.tensor("a")?, call.num("diagonal")?);
    let matrix = &a.dims()[a.rank() - 2..];
    let row = iota(b, &matrix[0], &Dim::Known(0), &a)?;
    let row =
        if matches!(diagonal, Num::Int(0)) { row } else { emit::binary(b, "prims.add", &row, diagonal)? };
    let column = iota(b, &matrix[1], &Dim::Known(0), &a)?;
    let row = b.tensor("prims.broadcast_in_dim", vec![row.arg(), Arg::dims(matrix), Arg::ints([0])])?;
    let column = broadcast_to(b, &column, matrix)?;
    let inside = emit::binary(b, prim, &column, row)?;
    let inside = broadcast_to(b, &inside, a.dims())?;
    Ok(vec![emit::select(b, &inside, &a, 0)?.arg()])
}

fn expand_as(b: &mut Builder<'_>, call: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let dims = Arg::dims(call.tensor(b, "other")?.dims());
    b.call_recorded(&TORCH_EXPAND, vec![call.arg("self")?.clone(), dims], &call.results)
}

/// `movedim`: the named axes to their places, the others keep their order.
fn movedim(b: &mut Builder<'_>, call: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor(b, "self")?;
    let rank = a.rank() as i64;
    let axes = |name: &str| -> Result<Vec<usize>, OpError> {
        let given = match call.arg(name)? {
            Arg::List(items) => items.clone(),
            one => vec![one.clone()],
        };
        let canonical = |item: &Arg| match item {
            Arg::Int(n) if (-rank..rank).contains(n) => Ok(n.rem_euclid(rank) as usize),
            other => Err(call.error(format!("`{name}` has {other:?}, no axis of {rank} dims"))),
        };
        given.iter().map(canonical).collect()
    };
    let (from, to) = (axes("source")?, axes("destination")?);
    let distinct = |axes: &[usize]| (1..axes.len()).all(|i| !axes[..i].contains(&axes[i]));
    if from.len() != to.len() || !distinct(&from) || !distinct(&to) {
        return Err(call.error(format!("axes {from:?} cannot move to {to:?}")));
    }
    let mut rest = (0..a.rank()).filter(|i| !from.contains(i));
    let mut order = Vec::with_capacity(a.rank());
    for place in 0..a.rank() {
        let axis = match to.iter().position(|t| *t == place) {
            Some(at) => Some(from[at]),
            None => rest.next(),
        };
        order.extend(axis.map(|a| a as i64));
    }
    b.call_recorded(&TORCH_PERMUTE, vec![a.arg(), Arg::ints(order)], &call.results)
}

/// `tile`: as `repeat`, with numbers for the last dims only allowed.
fn tile(b: &mut Builder<'_>, call: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor(b, "self")?;
    let mut repeats = match call.arg("dims")? {
        Arg::List(items) => items.clone(),
        one => vec![one.clone()],
    };
    while repeats.len() < a.rank() {
        repeats.insert(0, Arg::Int(1));
    }
    b.call_recorded(&TORCH_REPEAT, vec![a.arg(), Arg::List(repeats)], &call.results)
}

/// The conjugate transpose of the last two dims.
fn adjoint(b: &mut Builder<'_>, call: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor(b, "self")?;
    if a.rank() < 2 {
        return b.call_recorded(&TORCH_T, vec![a.arg()], &call.results);
    }
    let t = b.call_recorded(&TORCH_TRANSPOSE, vec![a.arg(), Arg::Int(-2), Arg::Int(-1)], &call.results)?;
    if a.dtype().is_complex() { b.call("torch.conj", t) } else { Ok(t) }
}

/// The size an argument names, where it is one.
fn size_of(b: &Builder<'_>, call: &AtenCall, name: &str) -> Result<Dim, OpError> {
    let found = match call.arg(name)? {
        Arg::Int(n) => Some(Dim::Known(*n)),
        Arg::Dim(d) => Some(d.clone()),
        Arg::Value(v) => match b.trace().ty(*v) {
            Type::Number(n) => n.equals.clone(),
            Type::Tensor(_) => None,
        },
        _ => None,
    };
    found.ok_or_else(|| call.error(format!("`{name}` must be a size, found {:?}", call.arg(name))))
}

/// `narrow`: a start, which may count from the end, and a length.
fn narrow(b: &mut Builder<'_>, call: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor(b, "self")?;
    let (mut start, size) = (size_of(b, call, "start")?, size_of(b, call, "length")?);
    let axis = match call.arg("dim")? {
        Arg::Int(n) if (-(a.rank() as i64)..a.rank() as i64).contains(n) => n.rem_euclid(a.rank() as i64),
        other => return Err(call.error(format!("{other:?} is no axis of {} dims", a.rank()))),
    };
    if is_negative(&start) {
        start = start.add(&a.dims()[axis as usize]);
    }
    let end = start.add(&size);
    let args = vec![a.arg(), Arg::Int(axis), Arg::dim(start), Arg::dim(end), Arg::Int(1)];
    b.call_recorded(&TORCH_SLICE, args, &call.results)
}

/// `narrow` from a start that is data: taken by index, since no view can depend on it.
fn narrow_at_tensor(b: &mut Builder<'_>, call: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let start = call.tensor(b, "start")?;
    let size = Arg::dim(size_of(b, call, "length")?);
    let range = vec![Arg::Int(0), size, Arg::Int(1), Dtype::I64.into()];
    let range = b.tensor("torch.arange", range)?;
    let index = b.tensor("torch.add", vec![range.arg(), start.arg()])?;
    b.call("torch.index_select", vec![call.arg("self")?.clone(), call.arg("dim")?.clone(), index.arg()])
}

/// The gradient of a slice: zeros of `a`'s dims with `g` where the slice was.
fn unsliced(
    b: &mut Builder<'_>,
    a: &Tensor,
    g: &Tensor,
    start: &[Dim],
    step: &[i64],
) -> Result<Tensor, OpError> {
    let config = (0..a.rank())
        .map(|i| {
            let (n, m) = (&a.dims()[i], &g.dims()[i]);
            // The slice covers (m - 1) * step + 1 elements, none where it is empty.
            let covered = if m.is(0) {
                Dim::Known(0)
            } else {
                m.sub(&Dim::Known(1)).mul(&Dim::Known(step[i])).add(&Dim::Known(1))
            };
            let high = n.sub(&start[i]).sub(&covered);
            Arg::List(vec![Arg::dim(start[i].clone()), Arg::dim(high), Arg::Int(step[i] - 1)])
        })
        .collect();
    let zero = emit::number_for(&Num::Int(0), g.dtype());
    b.tensor("prims.pad", vec![g.arg(), zero, Arg::List(config)])
}

/// The gradient of a pad: what was added is cut off, what was cut off is zero.
fn unpadded(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, g) = (d.call.tensor("a")?, d.g()?);
    let Arg::List(config) = d.call.raw("config")? else { return Err(d.call.error("`config` is no list")) };
    let mut uncropped = Vec::new();
    let mut step = Vec::new();
    for c in &config {
        let Arg::List(c) = c else { return Err(d.call.error("`config` is no list of triples")) };
        let [Arg::Int(low), Arg::Int(high), Arg::Int(interior)] = c.as_slice() else {
            return Err(d.call.error("`config` must be known"));
        };
        uncropped.push(Arg::ints([-low, -high, 0]));
        step.push(interior + 1);
    }
    let zero = emit::number_for(&Num::Int(0), g.dtype());
    let g = b.tensor("prims.pad", vec![g.arg(), zero, Arg::List(uncropped)])?;
    if step.iter().all(|s| *s == 1) {
        return Ok(vec![Some(g)]);
    }
    let start = vec![Dim::Known(0); a.rank()];
    let sliced =
        b.tensor("prims.slice", vec![g.arg(), Arg::dims(&start), Arg::dims(g.dims()), Arg::ints(step)])?;
    Ok(vec![Some(sliced)])
}

/// The gradient of a diagonal: zeros with `g` on it. Row `r` of the matrix takes element `r` (or `r + offset`, below) of
/// the diagonal, in the column that the offset says.
fn undiagonal(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, g) = (d.call.tensor("a")?, d.g()?);
    let offset = d.call.int("offset")?;
    let (axis1, axis2) = (d.call.int("axis1")? as usize, d.call.int("axis2")? as usize);
    let (rows, columns) = (a.dims()[axis1].clone(), a.dims()[axis2].clone());
    let last = g.rank() - 1;
    let length = g.dims()[last].clone();
    let device = a.ty.device.clone();
    if length.is(0) {
        return Ok(vec![Some(b.full(a.dims(), 0.0, a.dtype(), &device)?)]);
    }
    let row = b.iota(&rows, Dtype::I64, &device)?;
    let at = b.add(&row, offset.min(0))?;
    let at = b.maximum(&at, 0i64)?;
    let top = super::arith::size(&length.sub(&Dim::Known(1)));
    let at = b.minimum(&at, top)?;
    let spread = b.tensor("prims.take", vec![g.arg(), at.arg(), Arg::Int(last as i64)])?;
    let mut dims = spread.dims().to_vec();
    dims.push(columns);
    let whole = b.spread(&spread, &dims, &[last + 1])?;
    let (r, c) =
        (b.positions(&dims, last, Dtype::I64, &device)?, b.positions(&dims, last + 1, Dtype::I64, &device)?);
    let column = b.add(&r, offset)?;
    let on = b.eq(&c, &column)?;
    let matrix = b.select(&on, &whole, 0.0)?;
    // The two last dims go back to their places.
    let mut rest = 0..last;
    let permutation: Vec<usize> = (0..a.rank())
        .map(|i| {
            if i == axis1 {
                last
            } else if i == axis2 {
                last + 1
            } else {
                rest.next().unwrap_or(0)
            }
        })
        .collect();
    Ok(vec![Some(b.permute(&matrix, &permutation)?)])
}
#[cfg(test)]
mod tests {
    use super::*;

    fn dims(sizes: &[i64]) -> Vec<Dim> {
        sizes.iter().map(|n| Dim::Known(*n)).collect()
    }

    fn s(number: u32) -> Dim {
        Dim::symbol(crate::ir::Symbol { kind: SymKind::Input, number })
    }

    #[test]
    fn reshapes_are_views_exactly_where_groups_lie_without_gaps() {
        let view = |from: &[i64], strides: &[i64], to: &[i64]| {
            reshaped_strides(&dims(from), &dims(strides), &dims(to))
        };
        assert_eq!(view(&[2, 3, 4], &[12, 4, 1], &[6, 4]), Some(dims(&[4, 1])));
        assert_eq!(view(&[2, 3, 4], &[12, 1, 3], &[2, 12]), None);
        assert_eq!(view(&[4, 6], &[12, 1], &[4, 2, 3]), Some(dims(&[12, 3, 1])));
        assert_eq!(view(&[4, 6], &[12, 1], &[2, 2, 1, 6]), Some(dims(&[24, 12, 12, 1])));
        assert_eq!(view(&[4, 6], &[12, 1], &[24]), None);
        assert_eq!(view(&[3, 1, 2], &[2, 9, 1], &[6]), Some(dims(&[1])));
        assert_eq!(view(&[3, 4], &[1, 0], &[3, 2, 2]), Some(dims(&[1, 0, 0])));
        assert_eq!(view(&[0, 4], &[4, 1], &[2, 0]), Some(dims(&[0, 1])));
        assert_eq!(view(&[1, 1], &[7, 5], &[]), Some(vec![]));
    }

    #[test]
    fn reshapes_of_symbolic_dims_split_and_join() {
        // [s0, 96] with a row stride of 288 (one of three packed parts) as [s0, 4, 24].
        let got = reshaped_strides(
            &[s(0), Dim::Known(96)],
            &dims(&[288, 1]),
            &[s(0), Dim::Known(4), Dim::Known(24)],
        );
        assert_eq!(got, Some(dims(&[288, 24, 1])));
        let whole = s(0).mul(&s(1));
        let got = reshaped_strides(&[s(0), s(1)], &[s(1), Dim::Known(1)], std::slice::from_ref(&whole));
        assert_eq!(got, Some(dims(&[1])));
        let got = reshaped_strides(&[s(0), s(1)], &[Dim::Known(1), s(0)], &[whole]);
        assert_eq!(got, None);
    }

    #[test]
    fn bounds_are_clipped_as_python_does() {
        assert_eq!(clipped(Dim::Known(-9), &Dim::Known(4)), Dim::Known(0));
        assert_eq!(clipped(Dim::Known(9), &Dim::Known(4)), Dim::Known(4));
        assert_eq!(clipped(Dim::Known(i64::MAX), &s(0)), s(0));
        assert_eq!(clipped(Dim::Known(-1), &s(0)), s(0).sub(&Dim::Known(1)));
        assert_eq!(clipped(s(1).neg(), &s(0)), s(0).sub(&s(1)));
        assert_eq!(clipped(s(0).add(&Dim::Known(1)), &s(0)), s(0));
    }
}
