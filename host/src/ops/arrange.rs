//! Ways to arrange tensors that few models need: at least so many dims, diagonals, grids, stacks, turns.
//!
//! Everything here is made of the shape prims. Deliberately absent: those, and what most models use, in `shape`.

use super::arith::Built;
use super::build::{Builder, Tensor};
use super::{Aten, AtenCall, Call, Import, Level, Op, OpError, Sample, Traits, Vjp, meta};
use crate::ir::{Arg, Dim, Dtype};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &TORCH_ATLEAST_1D,
    &TORCH_ATLEAST_2D,
    &TORCH_ATLEAST_3D,
    &TORCH_BROADCAST_TENSORS,
    &TORCH_DIAG,
    &TORCH_DIAG_EMBED,
    &TORCH_DIAGONAL,
    &TORCH_DIAGONAL_SCATTER,
    &TORCH_HSTACK,
    &TORCH_VSTACK,
    &TORCH_MESHGRID,
    &TORCH_ROT90,
    &TORCH_TENSOR_SPLIT,
    &TORCH_RESIZE,
    &TORCH_VIEW_DTYPE,
];

const VIEW_TRAITS: Traits = Traits::VIEW.and(Traits::CHEAP);

pub static TORCH_ATLEAST_1D: Op = Op {
    name: "torch.atleast_1d",
    doc: "At least one dim: that of a zero-dim tensor is 1.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        Ok(vec![at_least(b, &a, 1)?.arg()])
    }),
    traits: VIEW_TRAITS,
    aten: &[Aten { overloads: &["atleast_1d.default"], import: Import::Map("a=self") }],
    samples: &[Sample("T[]"), Sample("T[3]"), Sample("T[2, 3]"), Sample("T[0, 2, 3]")],
    ..Op::BASE
};

pub static TORCH_ATLEAST_2D: Op = Op {
    name: "torch.atleast_2d",
    doc: "At least 2 dims, those of size 1 added; one dim becomes the last.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        Ok(vec![at_least(b, &a, 2)?.arg()])
    }),
    traits: VIEW_TRAITS,
    aten: &[Aten { overloads: &["atleast_2d.default"], import: Import::Map("a=self") }],
    samples: &[Sample("T[]"), Sample("T[3]"), Sample("T[2, 3]"), Sample("T[0, 2, 3]")],
    ..Op::BASE
};

pub static TORCH_ATLEAST_3D: Op = Op {
    name: "torch.atleast_3d",
    doc: "At least 3 dims, those of size 1 added; one dim becomes the middle one, two the first.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        Ok(vec![at_least(b, &a, 3)?.arg()])
    }),
    traits: VIEW_TRAITS,
    aten: &[Aten { overloads: &["atleast_3d.default"], import: Import::Map("a=self") }],
    samples: &[Sample("T[]"), Sample("T[3]"), Sample("T[2, 3]"), Sample("T[0, 2, 3]")],
    ..Op::BASE
};

pub static TORCH_BROADCAST_TENSORS: Op = Op {
    name: "torch.broadcast_tensors",
    doc: "Each tensor broadcast to the dims of all together.",
    schema: "(tensors: Tensor[]) -> Tensor[]",
    level: Level::Composite(|b, call| {
        let all = call.tensors("tensors")?;
        let dims = meta::broadcast_dims(call, all.iter().map(Tensor::dims))?;
        all.iter().map(|t| Ok(b.expand(t, &dims)?.arg())).collect()
    }),
    traits: VIEW_TRAITS,
    aten: &[Aten { overloads: &["broadcast_tensors.default"], import: Import::Map("tensors") }],
    samples: &[Sample("[T[2, 1], T[3]]"), Sample("[T[], T[2]]"), Sample("[T[0, 1], T[1, 2]]")],
    ..Op::BASE
};

pub static TORCH_DIAG: Op = Op {
    name: "torch.diag",
    doc: "A matrix with the vector on a diagonal, or the diagonal of a matrix.",
    schema: "(a: Tensor, diagonal: int = 0) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let diagonal = call.raw("diagonal")?;
        match a.rank() {
            1 => Ok(vec![b.tensor("torch.diag_embed", vec![a.arg(), diagonal])?.arg()]),
            2 => Ok(vec![b.tensor("torch.diagonal", vec![a.arg(), diagonal])?.arg()]),
            n => Err(call.error(format!("takes one or two dims, found {n}"))),
        }
    }),
    aten: &[Aten { overloads: &["diag.default"], import: Import::Map("a=self diagonal") }],
    samples: &[Sample("T[3]"), Sample("T[3, 4]"), Sample("T[2], diagonal=1"), Sample("T[3, 3], diagonal=-1")],
    ..Op::BASE
};

pub static TORCH_DIAG_EMBED: Op = Op {
    name: "torch.diag_embed",
    doc: "Matrices, in two new axes, with the last dim of `a` on a diagonal and zeros elsewhere.",
    schema: "(a: Tensor, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor",
    level: Level::Composite(diag_embed),
    aten: &[Aten {
        overloads: &["diag_embed.default"],
        import: Import::Map("a=self offset axis1=dim1 axis2=dim2"),
    }],
    samples: &[
        Sample("T[3]"),
        Sample("T[2, 3]"),
        Sample("T[2], offset=1"),
        Sample("T[2, 2], offset=-1, axis1=0, axis2=2"),
        Sample("T[0]"),
    ],
    ..Op::BASE
};

pub static TORCH_DIAGONAL: Op = Op {
    name: "torch.diagonal",
    doc: "The diagonal of two axes, as the last dim.",
    schema: "(a: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let (axis1, axis2) = two_axes(call, a.rank())?;
        Ok(vec![diagonal(b, &a, call.int("offset")?, axis1, axis2)?.arg()])
    }),
    traits: VIEW_TRAITS,
    aten: &[
        Aten {
            overloads: &["diagonal.default", "diagonal_copy.default"],
            import: Import::Map("a=self offset axis1=dim1 axis2=dim2"),
        },
        Aten {
            overloads: &["linalg_diagonal.default"],
            import: Import::Map("a=A offset axis1=dim1 axis2=dim2"),
        },
    ],
    samples: &[
        Sample("T[3, 4]"),
        Sample("T[2, 3, 4], offset=1, axis1=-1, axis2=0"),
        Sample("T[3, 3], offset=-1"),
    ],
    ..Op::BASE
};

pub static TORCH_DIAGONAL_SCATTER: Op = Op {
    name: "torch.diagonal_scatter",
    doc: "`a` with its diagonal replaced by `src`.",
    schema: "(a: Tensor, src: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor",
    level: Level::Composite(diagonal_scatter),
    aten: &[Aten {
        overloads: &["diagonal_scatter.default"],
        import: Import::Map("a=self src offset axis1=dim1 axis2=dim2"),
    }],
    samples: &[
        Sample("T[3, 4], T[3]"),
        Sample("T[3, 3], T[2], offset=1"),
        Sample("T[4, 2, 3], T[2, 2], offset=-2, axis1=0, axis2=2"),
    ],
    ..Op::BASE
};

pub static TORCH_HSTACK: Op = Op {
    name: "torch.hstack",
    doc: "Joined along the second axis, vectors along their only one.",
    schema: "(tensors: Tensor[]) -> Tensor",
    level: Level::Composite(|b, call| {
        let all = call.tensors("tensors")?;
        let all = all.iter().map(|t| at_least(b, t, 1)).collect::<Result<Vec<_>, _>>()?;
        let axis = i64::from(all.first().is_some_and(|t| t.rank() > 1));
        joined(b, &all, axis)
    }),
    aten: &[
        Aten { overloads: &["hstack.default"], import: Import::Map("tensors") },
        Aten { overloads: &["column_stack.default"], import: Import::With(column_stack) },
    ],
    samples: &[Sample("[T[2], T[3]]"), Sample("[T[2, 1], T[2, 3]]"), Sample("[T[], T[]]")],
    ..Op::BASE
};

pub static TORCH_VSTACK: Op = Op {
    name: "torch.vstack",
    doc: "Joined along the first axis, vectors as rows.",
    schema: "(tensors: Tensor[]) -> Tensor",
    level: Level::Composite(|b, call| {
        let all = call.tensors("tensors")?;
        let all = all.iter().map(|t| at_least(b, t, 2)).collect::<Result<Vec<_>, _>>()?;
        joined(b, &all, 0)
    }),
    aten: &[Aten { overloads: &["row_stack.default", "vstack.default"], import: Import::Map("tensors") }],
    samples: &[Sample("[T[3], T[3]]"), Sample("[T[2, 3], T[1, 3]]"), Sample("[T[], T[]]")],
    ..Op::BASE
};

pub static TORCH_MESHGRID: Op = Op {
    name: "torch.meshgrid",
    doc: "Coordinates on a grid: tensor i of the result varies along axis i only; `xy` exchanges the first two axes.",
    schema: "(tensors: Tensor[], indexing: str{ij|xy} = ij) -> Tensor[]",
    level: Level::Composite(meshgrid),
    traits: VIEW_TRAITS,
    aten: &[
        Aten { overloads: &["meshgrid.default"], import: Import::Map("tensors") },
        Aten { overloads: &["meshgrid.indexing"], import: Import::Map("tensors indexing") },
    ],
    samples: &[Sample("[T[2], T[3]]"), Sample("[T[2], T[3]], indexing=\"xy\""), Sample("[T[2], T[], T[4]]")],
    ..Op::BASE
};

pub static TORCH_ROT90: Op = Op {
    name: "torch.rot90",
    doc: "Turned by 90 degrees `k` times in the plane of two axes, from the first to the second.",
    schema: "(a: Tensor, k: int = 1, axes: ints) -> Tensor",
    level: Level::Composite(rot90),
    aten: &[Aten { overloads: &["rot90.default"], import: Import::Map("a=self k axes=dims") }],
    samples: &[
        Sample("T[2, 3], axes=[0, 1]"),
        Sample("T[2, 3], k=2, axes=[0, -1]"),
        Sample("T[2, 3, 4], k=-1, axes=[1, 2]"),
        Sample("T[2, 3], k=4, axes=[0, 1]"),
    ],
    ..Op::BASE
};

pub static TORCH_TENSOR_SPLIT: Op = Op {
    name: "torch.tensor_split",
    doc: "Parts along an axis: that many of nearly equal size, the larger ones first, or cut at indices.",
    schema: "(a: Tensor, sections: int|ints, axis: int = 0) -> Tensor[]",
    level: Level::Composite(tensor_split),
    traits: VIEW_TRAITS,
    aten: &[
        Aten { overloads: &["tensor_split.sections"], import: Import::Map("a=self sections axis=dim") },
        Aten {
            overloads: &["tensor_split.indices"],
            import: Import::Map("a=self sections=indices axis=dim"),
        },
    ],
    samples: &[
        Sample("T[7], sections=3"),
        Sample("T[2, 5], sections=[1, 3], axis=1"),
        Sample("T[4], sections=[2, 9]"),
    ],
    ..Op::BASE
};

pub static TORCH_RESIZE: Op = Op {
    name: "torch.resize",
    doc: "The same elements under other dims, where their number stays; PyTorch's growing and shrinking in place is refused.",
    schema: "(a: Tensor, dims: dims) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let dims = call.dims("dims")?;
        if Dim::product(&dims).same(&a.ty.numel()) != Some(true) {
            return Err(call.error(format!(
                "{} has another number of elements than {}",
                meta::show(&dims),
                meta::show(a.dims())
            )));
        }
        Ok(vec![b.reshape(&a, &dims)?.arg()])
    }),
    vjp: Vjp::NonDiff,
    traits: VIEW_TRAITS,
    aten: &[Aten {
        overloads: &["resize.default", "resize_.default"],
        import: Import::Map("a=self dims=size"),
    }],
    samples: &[Sample("T[2, 3], dims=[3, 2]"), Sample("T[4], dims=[2, 2]")],
    ..Op::BASE
};

pub static TORCH_VIEW_DTYPE: Op = Op {
    name: "torch.view_dtype",
    doc: "The bytes seen as another dtype; the last dim grows or shrinks where sizes differ.",
    schema: "(a: Tensor, dtype: dtype) -> Tensor",
    level: Level::Composite(|b, call| {
        Ok(vec![b.tensor("prims.bitcast", vec![call.raw("a")?, call.raw("dtype")?])?.arg()])
    }),
    vjp: Vjp::NonDiff,
    traits: VIEW_TRAITS,
    aten: &[Aten { overloads: &["view.dtype"], import: Import::Map("a=self dtype") }],
    samples: &[Sample("f32[2, 3], dtype=i32"), Sample("f32[2, 3], dtype=u8"), Sample("i16[2, 4], dtype=i64")],
    ..Op::BASE
};

/// `a` with dims of 1 added as `atleast_1d`, `2d`, `3d` do it.
fn at_least(b: &mut Builder<'_>, a: &Tensor, rank: usize) -> Built {
    let d = a.dims();
    let one = || Dim::Known(1);
    let dims: Vec<Dim> = match (d, rank) {
        ([], n) => vec![one(); n],
        ([n], 2) => vec![one(), n.clone()],
        ([n], 3) => vec![one(), n.clone(), one()],
        ([m, n], 3) => vec![m.clone(), n.clone(), one()],
        _ => return Ok(a.clone()),
    };
    b.reshape(a, &dims)
}

/// Tensors joined with promotion.
fn joined(b: &mut Builder<'_>, all: &[Tensor], axis: i64) -> Result<Vec<Arg>, OpError> {
    let list = Arg::List(all.iter().map(Tensor::arg).collect());
    Ok(vec![b.tensor("torch.cat", vec![list, Arg::Int(axis)])?.arg()])
}

/// Vectors are columns here.
fn column_stack(b: &mut Builder<'_>, call: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let Arg::List(items) = call.arg("tensors")?.clone() else {
        return Err(call.error("`tensors` must be a list"));
    };
    let mut all = Vec::with_capacity(items.len());
    for item in items {
        let t = match item {
            Arg::Value(v) => b.as_tensor(v)?,
            other => return Err(call.error(format!("`tensors` must hold tensors, found {other:?}"))),
        };
        all.push(if t.rank() < 2 { b.reshape(&t, &[t.ty.numel(), Dim::Known(1)])? } else { t });
    }
    joined(b, &all, 1)
}

/// Two different canonical axes.
fn two_axes(call: &Call, rank: usize) -> Result<(usize, usize), OpError> {
    let (axis1, axis2) = (call.axis("axis1", rank)?, call.axis("axis2", rank)?);
    if axis1 == axis2 || rank < 2 {
        return Err(call.error(format!("needs two axes, found {axis1} and {axis2} of {rank} dims")));
    }
    Ok((axis1, axis2))
}

fn diagonal(b: &mut Builder<'_>, a: &Tensor, offset: i64, axis1: usize, axis2: usize) -> Built {
    let axes = [Arg::Int(offset), Arg::Int(axis1 as i64), Arg::Int(axis2 as i64)];
    b.tensor("prims.diagonal", [vec![a.arg()], axes.to_vec()].concat())
}

/// The permutation of all axes that takes the last two to `axis1` and `axis2`, and its inverse.
fn moved(rank: usize, axis1: usize, axis2: usize) -> (Vec<usize>, Vec<usize>) {
    let others = (0..rank).filter(|i| *i != axis1 && *i != axis2);
    let to_last: Vec<usize> = others.chain([axis1, axis2]).collect();
    let mut back = vec![0; rank];
    for (at, from) in to_last.iter().enumerate() {
        back[*from] = at;
    }
    (back, to_last)
}

/// `values`, whose last dim lies on a diagonal of matrices of `rows` × `columns`, spread over them, and where it lies.
fn on_diagonal(
    b: &mut Builder<'_>,
    values: &Tensor,
    rows: &Dim,
    columns: &Dim,
    offset: i64,
) -> Result<(Tensor, Tensor), OpError> {
    let last = values.rank() - 1;
    let before = Dim::Known((-offset).max(0));
    let after = rows.sub(&before).sub(&values.dims()[last]);
    let mut config = vec![Arg::dims(&[Dim::Known(0), Dim::Known(0), Dim::Known(0)]); values.rank()];
    config[last] = Arg::dims(&[before, after, Dim::Known(0)]);
    let zero = super::emit::number_for(&super::Num::Int(0), values.dtype());
    let padded = b.tensor("prims.pad", vec![values.arg(), zero, Arg::List(config)])?;
    let mut dims = padded.dims().to_vec();
    dims.push(columns.clone());
    let whole = b.spread(&padded, &dims, &[last + 1])?;
    let device = values.ty.device.clone();
    let row = b.positions(&dims, last, Dtype::I64, &device)?;
    let column = b.positions(&dims, last + 1, Dtype::I64, &device)?;
    let row = b.add(&row, offset)?;
    Ok((b.eq(&column, &row)?, whole))
}

fn diag_embed(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, offset) = (call.tensor("a")?, call.int("offset")?);
    let Some(n) = a.dims().last() else { return Err(call.error("needs at least one dim")) };
    let (axis1, axis2) = two_axes(call, a.rank() + 1)?;
    let size = n.add(&Dim::Known(offset.abs()));
    let (on, whole) = on_diagonal(b, &a, &size, &size, offset)?;
    let matrix = b.select(&on, &whole, 0i64)?;
    let (back, _) = moved(a.rank() + 1, axis1, axis2);
    Ok(vec![b.permute(&matrix, &back)?.arg()])
}

fn diagonal_scatter(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, src, offset) = (call.tensor("a")?, call.tensor("src")?, call.int("offset")?);
    let (axis1, axis2) = two_axes(call, a.rank())?;
    let line = diagonal(b, &a, offset, axis1, axis2)?;
    let fits = src.rank() == line.rank()
        && src.dims().iter().zip(line.dims()).all(|(x, y)| x.same(y) != Some(false));
    if !fits || src.dtype() != a.dtype() {
        return Err(call.error(format!(
            "`src` is {}{}, the diagonal {}{}",
            src.dtype(),
            meta::show(src.dims()),
            a.dtype(),
            meta::show(line.dims())
        )));
    }
    let (back, to_last) = moved(a.rank(), axis1, axis2);
    let (on, whole) = on_diagonal(b, &src, &a.dims()[axis1], &a.dims()[axis2], offset)?;
    let a = b.permute(&a, &to_last)?;
    let out = b.select(&on, &whole, &a)?;
    Ok(vec![b.permute(&out, &back)?.arg()])
}

fn meshgrid(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let all = call.tensors("tensors")?;
    if let Some(t) = all.iter().find(|t| t.rank() > 1) {
        return Err(call.error(format!("takes vectors, found {}", meta::show(t.dims()))));
    }
    let dims: Vec<Dim> = all.iter().map(|t| t.ty.numel()).collect();
    let swap = call.str("indexing")? == "xy" && all.len() > 1;
    let mut out = Vec::with_capacity(all.len());
    for (axis, t) in all.iter().enumerate() {
        let line = at_least(b, t, 1)?;
        let args = vec![line.arg(), Arg::dims(&dims), Arg::ints([axis as i64])];
        let mut grid = b.tensor("prims.broadcast_in_dim", args)?;
        if swap {
            let mut order: Vec<usize> = (0..all.len()).collect();
            order.swap(0, 1);
            grid = b.permute(&grid, &order)?;
        }
        out.push(grid.arg());
    }
    Ok(out)
}

fn rot90(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, axes) = (call.tensor("a")?, call.ints("axes")?);
    let [first, second] = axes[..] else {
        return Err(call.error(format!("needs two axes, found {axes:?}")));
    };
    let (first, second) = (call.canonical_axis(first, a.rank())?, call.canonical_axis(second, a.rank())?);
    if first == second || a.rank() < 2 {
        return Err(call.error(format!("needs two different axes, found {axes:?}")));
    }
    let k = call.int("k")?.rem_euclid(4);
    let turned = match k {
        0 => return Ok(vec![b.tensor("prims.shallow_copy", vec![a.arg()])?.arg()]),
        1 => vec![second],
        2 => vec![first, second],
        _ => vec![first],
    };
    let flipped = b.tensor("prims.flip", vec![a.arg(), super::arith::axes_arg(&turned)])?;
    let mut order: Vec<usize> = (0..a.rank()).collect();
    if k != 2 {
        order.swap(first, second);
    }
    Ok(vec![b.permute(&flipped, &order)?.arg()])
}

fn tensor_split(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let axis = call.axis("axis", a.rank())?;
    let Some(size) = a.dims().get(axis).and_then(Dim::known) else {
        return Err(call.error(format!("needs a known size along axis {axis} of {}", meta::show(a.dims()))));
    };
    let cuts: Vec<i64> = match call.raw("sections")? {
        Arg::Int(n) if n > 0 => {
            let (each, larger) = (size / n, size % n);
            (1..n).map(|i| i * each + i.min(larger)).collect()
        }
        Arg::Int(n) => return Err(call.error(format!("needs a positive number of sections, found {n}"))),
        _ => call.ints("sections")?,
    };
    // As slices of Python: negative cuts count from the end, and none reaches beyond it.
    let place = |cut: i64| if cut < 0 { (cut + size).max(0) } else { cut.min(size) };
    let mut out = Vec::with_capacity(cuts.len() + 1);
    let mut start = 0;
    for end in cuts.into_iter().map(place).chain([size]) {
        let end_of_part = end.max(start);
        out.push(b.narrow(&a, axis, &Dim::Known(start), &Dim::Known(end_of_part))?.arg());
        start = end;
    }
    Ok(out)
}
