//! Memory seen with other strides: raw strides, overlapping windows, complex numbers as pairs; and complex numbers made
//! of parts.
//!
//! A prim here maps strides wherever they suffice. Gradients of overlapping views sum up what meets in one element.
//! Deliberately absent: views without overlap, which are `shape`.

use super::arith::Built;
use super::build::{Builder, Tensor};
use super::shape::dense_strides;
use super::{Aten, Call, Grad, Import, Level, Meta, Op, OpError, Sample, Traits, Vjp, meta};
use crate::ir::{Arg, Dim, Dtype, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &AS_STRIDED,
    &UNFOLD,
    &VIEW_AS_COMPLEX,
    &VIEW_AS_REAL,
    &TORCH_AS_STRIDED,
    &TORCH_AS_STRIDED_SCATTER,
    &TORCH_UNFOLD,
    &TORCH_IM2COL,
    &TORCH_COL2IM,
    &TORCH_VIEW_AS_COMPLEX,
    &TORCH_VIEW_AS_REAL,
    &TORCH_COMPLEX,
    &TORCH_POLAR,
    &TORCH_CONJ,
];

const VIEW_TRAITS: Traits = Traits::VIEW.and(Traits::CHEAP);

pub static AS_STRIDED: Op = Op {
    name: "prims.as_strided",
    doc: "The memory of `a`, which counts as contiguous, seen with other dims and strides from an element on. Elements that are seen several times sum their gradients.",
    schema: "(a: Tensor, dims: dims, strides: dims, offset: dim) -> Tensor",
    meta: Meta::Fn(as_strided_meta),
    vjp: Vjp::Rule(as_strided_rule),
    traits: VIEW_TRAITS,
    view: Some(as_strided_view),
    samples: &[
        Sample("T[6], dims=[2, 2], strides=[1, 2], offset=1"),
        Sample("T[2, 3], dims=[3], strides=[2], offset=0"),
        Sample("T[4], dims=[2, 3], strides=[0, 1], offset=0"),
        Sample("T[5], dims=[0, 2], strides=[1, 1], offset=0"),
    ],
    ..Op::BASE
};

pub static UNFOLD: Op = Op {
    name: "prims.unfold",
    doc: "Windows along an axis, as the last dim: `size` elements each, `step` from one to the next.",
    schema: "(a: Tensor, axis: int, size: dim, step: dim) -> Tensor",
    meta: Meta::Fn(unfold_meta),
    vjp: Vjp::Rule(unfold_rule),
    traits: VIEW_TRAITS,
    view: Some(unfold_view),
    samples: &[
        Sample("T[5], axis=0, size=3, step=2"),
        Sample("T[2, 6, 3], axis=1, size=2, step=3"),
        Sample("T[2, 4], axis=1, size=4, step=1"),
    ],
    ..Op::BASE
};

pub static VIEW_AS_COMPLEX: Op = Op {
    name: "prims.view_as_complex",
    doc: "Pairs of the last dim seen as complex numbers.",
    schema: "(a: Tensor<f>) -> Tensor<c>",
    meta: Meta::Fn(as_complex_meta),
    vjp: Vjp::Rule(|b, d| {
        let g = d.g()?;
        Ok(vec![Some(b.tensor("prims.view_as_real", vec![g.arg()])?)])
    }),
    traits: VIEW_TRAITS,
    view: Some(as_complex_view),
    samples: &[Sample("T[3, 2]"), Sample("T[2]"), Sample("T[0, 2]")],
    ..Op::BASE
};

pub static VIEW_AS_REAL: Op = Op {
    name: "prims.view_as_real",
    doc: "Complex numbers seen as pairs, in a new last dim.",
    schema: "(a: Tensor<c>) -> Tensor<f>",
    meta: Meta::Fn(as_real_meta),
    vjp: Vjp::Rule(|b, d| {
        let g = d.g()?;
        Ok(vec![Some(b.tensor("prims.view_as_complex", vec![g.arg()])?)])
    }),
    traits: VIEW_TRAITS,
    view: Some(as_real_view),
    samples: &[Sample("T[3]"), Sample("T[]"), Sample("T[0, 2]")],
    ..Op::BASE
};

pub static TORCH_AS_STRIDED: Op = Op {
    name: "torch.as_strided",
    doc: "The memory of `a`, contiguous, seen with other dims and strides.",
    schema: "(a: Tensor, dims: dims, strides: dims, offset: int?) -> Tensor",
    level: Level::Composite(|b, call| {
        let offset = call.opt_dim("offset")?.unwrap_or(Dim::Known(0));
        let args = vec![call.raw("a")?, call.raw("dims")?, call.raw("strides")?, Arg::dim(offset)];
        Ok(vec![b.tensor("prims.as_strided", args)?.arg()])
    }),
    traits: VIEW_TRAITS,
    aten: &[Aten {
        overloads: &["as_strided.default", "as_strided_.default", "as_strided_copy.default"],
        import: Import::Map("a=self dims=size strides=stride offset=storage_offset"),
    }],
    samples: &[
        Sample("T[6], dims=[2, 2], strides=[1, 2], offset=1"),
        Sample("T[2, 3], dims=[3], strides=[2]"),
    ],
    ..Op::BASE
};

pub static TORCH_AS_STRIDED_SCATTER: Op = Op {
    name: "torch.as_strided_scatter",
    doc: "`a` with the elements that `as_strided` would show replaced by `src`; they must not overlap.",
    schema: "(a: Tensor, src: Tensor, dims: dims, strides: dims, offset: int?) -> Tensor",
    level: Level::Composite(|b, call| {
        let (a, src) = (call.tensor("a")?, call.tensor("src")?);
        let offset = call.opt_dim("offset")?.unwrap_or(Dim::Known(0));
        let dims = call.dims("dims")?;
        if src.dtype() != a.dtype() {
            return Err(call.error(format!("`a` is {}, `src` {}", a.dtype(), src.dtype())));
        }
        let index = places(b, &a, &dims, call.raw("strides")?, &offset)?;
        let flat = b.reshape(&a, &[a.ty.numel()])?;
        let src = b.expand(&src, &dims)?;
        let src = b.reshape(&src, &[Dim::product(&dims)])?;
        let out = b.tensor("prims.index_copy", vec![flat.arg(), index.arg(), src.arg(), Arg::Int(0)])?;
        Ok(vec![b.reshape(&out, a.dims())?.arg()])
    }),
    aten: &[Aten {
        overloads: &["as_strided_scatter.default"],
        import: Import::Map("a=self src dims=size strides=stride offset=storage_offset"),
    }],
    samples: &[
        Sample("T[6], T[2, 2], dims=[2, 2], strides=[1, 2], offset=1"),
        Sample("T[2, 3], T[3], dims=[3], strides=[2]"),
    ],
    ..Op::BASE
};

pub static TORCH_UNFOLD: Op = Op {
    name: "torch.unfold",
    doc: "Windows along an axis, as the last dim; of a zero-dim tensor its element.",
    schema: "(a: Tensor, axis: int, size: dim, step: dim) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let axis = call.axis("axis", a.rank())?;
        let x = if a.rank() == 0 { b.unsqueeze(&a, 0)? } else { a.clone() };
        let out = b.tensor(
            "prims.unfold",
            vec![x.arg(), Arg::Int(axis as i64), call.raw("size")?, call.raw("step")?],
        )?;
        let out = if a.rank() == 0 { b.squeeze(&out, &[0])? } else { out };
        Ok(vec![out.arg()])
    }),
    traits: VIEW_TRAITS,
    aten: &[Aten {
        overloads: &["unfold.default", "unfold_copy.default"],
        import: Import::Map("a=self axis=dimension size step"),
    }],
    samples: &[
        Sample("T[5], axis=0, size=3, step=2"),
        Sample("T[2, 6, 3], axis=-2, size=2, step=3"),
        Sample("T[], axis=0, size=1, step=1"),
    ],
    ..Op::BASE
};

pub static TORCH_IM2COL: Op = Op {
    name: "torch.im2col",
    doc: "Windows of images as columns: `[n, c kh kw, windows]`.",
    schema: "(a: Tensor, kernel: ints, dilation: ints, padding: ints, stride: ints) -> Tensor",
    level: Level::Composite(im2col),
    aten: &[Aten {
        overloads: &["im2col.default"],
        import: Import::Map("a=self kernel=kernel_size dilation padding stride"),
    }],
    samples: &[
        Sample("T[1, 2, 5, 4], kernel=[2, 3], dilation=[1, 1], padding=[0, 0], stride=[1, 1]"),
        Sample("T[2, 6, 6], kernel=[2, 2], dilation=[2, 1], padding=[1, 2], stride=[2, 1]"),
    ],
    ..Op::BASE
};

pub static TORCH_COL2IM: Op = Op {
    name: "torch.col2im",
    doc: "Columns summed up where they came from: the transpose of im2col.",
    schema: "(a: Tensor, out: dims, kernel: ints, dilation: ints, padding: ints, stride: ints) -> Tensor",
    level: Level::Composite(col2im),
    aten: &[Aten {
        overloads: &["col2im.default"],
        import: Import::Map("a=self out=output_size kernel=kernel_size dilation padding stride"),
    }],
    samples: &[
        Sample("T[1, 12, 8], out=[5, 4], kernel=[2, 3], dilation=[1, 1], padding=[0, 0], stride=[1, 1]"),
        Sample("T[8, 6], out=[4, 3], kernel=[2, 2], dilation=[1, 1], padding=[0, 0], stride=[1, 1]"),
        Sample("T[1, 4, 9], out=[3, 4], kernel=[2, 2], dilation=[2, 1], padding=[1, 0], stride=[1, 1]"),
    ],
    ..Op::BASE
};

pub static TORCH_VIEW_AS_COMPLEX: Op = Op {
    name: "torch.view_as_complex",
    doc: "Pairs of the last dim seen as complex numbers.",
    schema: "(a: Tensor<f>) -> Tensor<c>",
    level: Level::Composite(|b, call| {
        Ok(vec![b.tensor("prims.view_as_complex", vec![call.raw("a")?])?.arg()])
    }),
    traits: VIEW_TRAITS,
    aten: &[Aten {
        overloads: &["view_as_complex.default", "view_as_complex_copy.default"],
        import: Import::Map("a=self"),
    }],
    samples: &[Sample("T[3, 2]"), Sample("T[2]"), Sample("T[0, 2]")],
    ..Op::BASE
};

pub static TORCH_VIEW_AS_REAL: Op = Op {
    name: "torch.view_as_real",
    doc: "Complex numbers seen as pairs, in a new last dim.",
    schema: "(a: Tensor<c>) -> Tensor<f>",
    level: Level::Composite(|b, call| Ok(vec![b.tensor("prims.view_as_real", vec![call.raw("a")?])?.arg()])),
    traits: VIEW_TRAITS,
    aten: &[Aten {
        overloads: &["view_as_real.default", "view_as_real_copy.default"],
        import: Import::Map("a=self"),
    }],
    samples: &[Sample("T[3]"), Sample("T[]"), Sample("T[0, 2]")],
    ..Op::BASE
};

pub static TORCH_COMPLEX: Op = Op {
    name: "torch.complex",
    doc: "The complex number of a real and an imaginary part, broadcast.",
    schema: "(re: Tensor<f>, im: Tensor<f>) -> Tensor<c>",
    level: Level::Composite(complex_composite),
    aten: &[Aten { overloads: &["complex.default"], import: Import::Map("re=real im=imag") }],
    samples: &[Sample("T[2, 3], T[3]"), Sample("T[], T[2]"), Sample("T[0], T[0]")],
    ..Op::BASE
};

pub static TORCH_POLAR: Op = Op {
    name: "torch.polar",
    doc: "The complex number of a modulus and an angle, broadcast.",
    schema: "(abs: Tensor<f>, angle: Tensor<f>) -> Tensor<c>",
    level: Level::Composite(polar),
    aten: &[Aten { overloads: &["polar.default"], import: Import::Map("abs angle") }],
    samples: &[Sample("T[2, 3], T[3]"), Sample("T[], T[2]"), Sample("T[0], T[0]")],
    ..Op::BASE
};

pub static TORCH_CONJ: Op = Op {
    name: "torch.conj",
    doc: "Complex conjugate; a real tensor is its own.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let prim = if a.dtype().is_complex() { "prims.conj" } else { "prims.shallow_copy" };
        Ok(vec![b.tensor(prim, vec![a.arg()])?.arg()])
    }),
    traits: Traits::POINTWISE.and(Traits::CHEAP),
    aten: &[Aten {
        overloads: &["_conj.default", "conj.default", "conj_physical.default", "conj_physical_.default"],
        import: Import::Map("a=self"),
    }],
    samples: &[Sample("T[2, 3]"), Sample("T[]"), Sample("T[0, 4]")],
    ..Op::BASE
};

fn as_strided_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, dims, strides, offset) =
        (call.tensor("a")?, call.dims("dims")?, call.dims("strides")?, call.dim("offset")?);
    if dims.len() != strides.len() {
        return Err(call.error(format!("{} strides for {} dims", strides.len(), dims.len())));
    }
    let negative = |d: &Dim| d.known().is_some_and(|n| n < 0);
    if let Some(d) = dims.iter().chain(&strides).chain([&offset]).find(|d| negative(d)) {
        return Err(call.error(format!("dims, strides and offset cannot be negative, found {d}")));
    }
    if !dims.iter().any(|d| d.is(0)) {
        let reach = dims.iter().zip(&strides).map(|(d, s)| d.sub(&Dim::Known(1)).mul(s));
        let last = Dim::sum_of(reach).add(&offset);
        if let (Some(last), Some(n)) = (last.known(), a.ty.numel().known())
            && last >= n
        {
            return Err(call.error(format!("reaches element {last} of {n}")));
        }
    }
    meta::one(dims, a.dtype(), &a.ty)
}

fn is_contiguous(call: &Call, strides: &[Dim]) -> Option<bool> {
    let a = call.tensor("a").ok()?;
    let dense = dense_strides(a.dims());
    Some(a.dims().iter().zip(dense.iter().zip(strides)).all(|(d, (x, y))| d.is(1) || x == y))
}

fn as_strided_view(call: &Call, strides: &[Dim], offset: &Dim) -> Option<(Vec<Dim>, Dim)> {
    if !is_contiguous(call, strides)? {
        return None;
    }
    Some((call.dims("strides").ok()?, call.dim("offset").ok()?.add(offset)))
}

/// The flat indices that `as_strided` shows, as one vector.
fn places(b: &mut Builder<'_>, a: &Tensor, dims: &[Dim], strides: Arg, offset: &Dim) -> Built {
    let all = b.iota(&a.ty.numel(), Dtype::I64, &a.ty.device)?;
    let args = vec![all.arg(), Arg::dims(dims), strides, Arg::dim(offset.clone())];
    let seen = b.tensor("prims.as_strided", args)?;
    b.reshape(&seen, &[Dim::product(dims)])
}

fn as_strided_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, g) = (d.call.tensor("a")?, d.g()?);
    let index = places(b, &a, g.dims(), d.call.raw("strides")?, &d.call.dim("offset")?)?;
    let zero = b.full(&[a.ty.numel()], 0.0, g.dtype(), &g.ty.device)?;
    let flat = b.reshape(&g, &[g.ty.numel()])?;
    let sum = b.tensor("prims.index_add", vec![zero.arg(), index.arg(), flat.arg(), Arg::Int(0)])?;
    Ok(vec![Some(b.reshape(&sum, a.dims())?)])
}

/// Axis, size, step and the number of windows.
fn windows(call: &Call, a: &Tensor) -> Result<(usize, Dim, Dim, Dim), OpError> {
    let axis = super::reduction::prim_axis(call, "axis", a.rank())?;
    let (size, step, n) = (call.dim("size")?, call.dim("step")?, &a.dims()[axis]);
    if step.known().is_some_and(|s| s < 1) {
        return Err(call.error(format!("`step` must be positive, found {step}")));
    }
    if let (Some(size), Some(n)) = (size.known(), n.known())
        && (size < 0 || size > n)
    {
        return Err(call.error(format!("windows of {size} do not fit into {n}")));
    }
    let steps = n.sub(&size).floordiv(&step).ok_or_else(|| call.error("`step` must not be 0"))?;
    Ok((axis, size, step, steps.add(&Dim::Known(1))))
}

fn unfold_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    let (axis, size, _, n) = windows(call, &a)?;
    let mut dims = a.dims().to_vec();
    dims[axis] = n;
    dims.push(size);
    meta::one(dims, a.dtype(), &a.ty)
}

fn unfold_view(call: &Call, strides: &[Dim], offset: &Dim) -> Option<(Vec<Dim>, Dim)> {
    let a = call.tensor("a").ok()?;
    let (axis, _, step, _) = windows(call, &a).ok()?;
    let mut out = strides.to_vec();
    out.push(strides[axis].clone());
    out[axis] = strides[axis].mul(&step);
    Some((out, offset.clone()))
}

/// Windows go back to where they were cut, and sum up where they overlap.
fn unfold_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, g) = (d.call.tensor("a")?, d.g()?);
    let (axis, size, step, n) = windows(d.call, &a)?;
    let grid = [n.clone(), size.clone()];
    let device = &a.ty.device;
    let (window, inner) =
        (b.positions(&grid, 0, Dtype::I64, device)?, b.positions(&grid, 1, Dtype::I64, device)?);
    let start = b.mul(&window, super::arith::size(&step))?;
    let place = b.add(&start, &inner)?;
    let index = b.reshape(&place, &[n.mul(&size)])?;
    // The windows' elements stand behind their window, in one dim.
    let last = a.rank();
    let order: Vec<usize> = (0..=axis).chain([last]).chain(axis + 1..last).collect();
    let g = b.permute(&g, &order)?;
    let mut dims = a.dims().to_vec();
    dims[axis] = n.mul(&size);
    let flat = b.reshape(&g, &dims)?;
    let zero = b.full(a.dims(), 0.0, g.dtype(), &g.ty.device)?;
    let args = vec![zero.arg(), index.arg(), flat.arg(), Arg::Int(axis as i64)];
    Ok(vec![Some(b.tensor("prims.index_add", args)?)])
}

fn as_complex_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    let dtype = complex(call, a.dtype())?;
    match a.dims().split_last() {
        Some((pair, dims)) if pair.same(&Dim::Known(2)) != Some(false) => {
            meta::one(dims.to_vec(), dtype, &a.ty)
        }
        _ => Err(call.error(format!("the last dim must be 2, found {}", meta::show(a.dims())))),
    }
}

/// The complex dtype of these parts.
fn complex(call: &Call, part: Dtype) -> Result<Dtype, OpError> {
    match part {
        Dtype::F32 => Ok(Dtype::C64),
        Dtype::F64 => Ok(Dtype::C128),
        other => Err(call.error(format!("complex numbers are made of f32 or f64, found {other}"))),
    }
}

/// Pairs must be dense and even.
fn as_complex_view(_: &Call, strides: &[Dim], offset: &Dim) -> Option<(Vec<Dim>, Dim)> {
    let two = Dim::Known(2);
    let half = |d: &Dim| d.modulo(&two)?.is(0).then(|| d.floordiv(&two))?;
    let (pair, outer) = strides.split_last()?;
    if !pair.is(1) {
        return None;
    }
    Some((outer.iter().map(half).collect::<Option<_>>()?, half(offset)?))
}

fn as_real_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    let mut dims = a.dims().to_vec();
    dims.push(Dim::Known(2));
    meta::one(dims, a.dtype().real(), &a.ty)
}

fn as_real_view(_: &Call, strides: &[Dim], offset: &Dim) -> Option<(Vec<Dim>, Dim)> {
    let two = Dim::Known(2);
    let mut out: Vec<Dim> = strides.iter().map(|s| s.mul(&two)).collect();
    out.push(Dim::Known(1));
    Some((out, offset.mul(&two)))
}

fn complex_of_parts(b: &mut Builder<'_>, re: &Tensor, im: &Tensor) -> Built {
    let rank = re.rank();
    let parts = [b.unsqueeze(re, rank)?, b.unsqueeze(im, rank)?];
    let pairs = b.cat(&parts, rank)?;
    b.tensor("prims.view_as_complex", vec![pairs.arg()])
}

/// Two real tensors of one dtype, broadcast.
fn two_parts(b: &mut Builder<'_>, call: &Call, names: [&str; 2]) -> Result<[Tensor; 2], OpError> {
    let (x, y) = (call.tensor(names[0])?, call.tensor(names[1])?);
    if x.dtype() != y.dtype() {
        return Err(call.error(format!("`{}` is {}, `{}` {}", names[0], x.dtype(), names[1], y.dtype())));
    }
    complex(call, x.dtype())?;
    let dims = meta::broadcast_dims(call, [x.dims(), y.dims()])?;
    Ok([b.expand(&x, &dims)?, b.expand(&y, &dims)?])
}

fn complex_composite(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let [re, im] = two_parts(b, call, ["re", "im"])?;
    Ok(vec![complex_of_parts(b, &re, &im)?.arg()])
}

fn polar(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let [abs, angle] = two_parts(b, call, ["abs", "angle"])?;
    let (cos, sin) = (b.unary("prims.cos", &angle)?, b.unary("prims.sin", &angle)?);
    let (re, im) = (b.mul(&abs, &cos)?, b.mul(&abs, &sin)?);
    Ok(vec![complex_of_parts(b, &re, &im)?.arg()])
}

/// Two numbers, one for the rows and one for the columns.
fn pair(call: &Call, name: &str, low: i64) -> Result<[i64; 2], OpError> {
    // Products of two, and sums of such, stay within i64.
    let range = low..=i64::from(i32::MAX);
    match call.ints(name)?[..] {
        [h, w] if range.contains(&h) && range.contains(&w) => Ok([h, w]),
        [n] if range.contains(&n) => Ok([n, n]),
        ref other => Err(call.error(format!(
            "`{name}` must be two numbers of at least {low} and less than 2^31, found {other:?}"
        ))),
    }
}

/// How images are cut into windows.
struct Cut {
    kernel: [i64; 2],
    dilation: [i64; 2],
    padding: [i64; 2],
    stride: [i64; 2],
}

impl Cut {
    fn of(call: &Call) -> Result<Cut, OpError> {
        Ok(Cut {
            kernel: pair(call, "kernel", 1)?,
            dilation: pair(call, "dilation", 1)?,
            padding: pair(call, "padding", 0)?,
            stride: pair(call, "stride", 1)?,
        })
    }

    /// How many elements a window spans.
    fn extent(&self, i: usize) -> i64 {
        self.dilation[i] * (self.kernel[i] - 1) + 1
    }

    /// How many windows fit into `size` elements and their padding.
    fn count(&self, i: usize, size: &Dim) -> Dim {
        let room = size.add(&Dim::Known(2 * self.padding[i] - self.extent(i)));
        let steps = room.floordiv(&Dim::Known(self.stride[i])).expect("strides are positive");
        steps.add(&Dim::Known(1))
    }
}

/// `a` with a batch dim of 1 where it has `rank - 1` dims, and whether it had none.
fn batched(b: &mut Builder<'_>, call: &Call, a: &Tensor, rank: usize) -> Result<(Tensor, bool), OpError> {
    match a.rank() {
        n if n == rank => Ok((a.clone(), false)),
        n if n + 1 == rank => Ok((b.unsqueeze(a, 0)?, true)),
        n => Err(call.error(format!("takes {} or {rank} dims, found {n}", rank - 1))),
    }
}

fn im2col(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, cut) = (call.tensor("a")?, Cut::of(call)?);
    let (x, single) = batched(b, call, &a, 4)?;
    let [n, c, h, w] = x.dims() else { return Err(call.error("takes 3 or 4 dims")) };
    let (n, channels) = (n.clone(), c.clone());
    let (rows, columns) = (cut.count(0, h), cut.count(1, w));
    let zero = super::emit::number_for(&super::Num::Int(0), x.dtype());
    let around = |p: i64| Arg::ints([p, p, 0]);
    let config = vec![around(0), around(0), around(cut.padding[0]), around(cut.padding[1])];
    let mut y = b.tensor("prims.pad", vec![x.arg(), zero, Arg::List(config)])?;
    for (i, axis) in [2i64, 3].into_iter().enumerate() {
        let args = vec![y.arg(), Arg::Int(axis), Arg::Int(cut.extent(i)), Arg::Int(cut.stride[i])];
        y = b.tensor("prims.unfold", args)?;
    }
    // [n, c, rows, columns, extent, extent]: of each window every `dilation`th element counts.
    let starts = Arg::ints([0; 6]);
    let steps = Arg::ints([1, 1, 1, 1, cut.dilation[0], cut.dilation[1]]);
    let ends = Arg::dims(y.dims());
    let y = b.tensor("prims.slice", vec![y.arg(), starts, ends, steps])?;
    let y = b.permute(&y, &[0, 1, 4, 5, 2, 3])?;
    let k = Dim::Known(cut.kernel[0] * cut.kernel[1]);
    let y = b.reshape(&y, &[n, channels.mul(&k), rows.mul(&columns)])?;
    Ok(vec![if single { b.squeeze(&y, &[0])? } else { y }.arg()])
}

fn col2im(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, cut, out) = (call.tensor("a")?, Cut::of(call)?, call.dims("out")?);
    let (x, single) = batched(b, call, &a, 3)?;
    let [h, w] = &out[..] else { return Err(call.error("`out` must be two sizes")) };
    let (rows, columns) = (cut.count(0, h), cut.count(1, w));
    let [n, ck, windows] = x.dims() else { return Err(call.error("takes 2 or 3 dims")) };
    let n = n.clone();
    let k = Dim::Known(cut.kernel[0] * cut.kernel[1]);
    let exact = ck.modulo(&k).and_then(|r| r.known()).is_none_or(|r| r == 0);
    if !exact || windows.same(&rows.mul(&columns)) == Some(false) {
        return Err(call.error(format!("{} are no columns of {}", meta::show(x.dims()), meta::show(&out))));
    }
    let channels = ck.floordiv(&k).expect("kernels are not empty");
    let padded = [h.add(&Dim::Known(2 * cut.padding[0])), w.add(&Dim::Known(2 * cut.padding[1]))];
    // Where element (i, j) of window (r, c) lies in the padded image, as one number.
    let grid = [Dim::Known(cut.kernel[0]), Dim::Known(cut.kernel[1]), rows.clone(), columns.clone()];
    let device = &x.ty.device;
    let mut at = Vec::with_capacity(2);
    for i in 0..2 {
        let inner = b.positions(&grid, i, Dtype::I64, device)?;
        let inner = b.mul(&inner, cut.dilation[i])?;
        let window = b.positions(&grid, i + 2, Dtype::I64, device)?;
        let window = b.mul(&window, cut.stride[i])?;
        at.push(b.add(&inner, &window)?);
    }
    let line = b.mul(&at[0], super::arith::size(&padded[1]))?;
    let place = b.add(&line, &at[1])?;
    let index = b.reshape(&place, &[Dim::product(&grid)])?;
    let flat = b.reshape(&x, &[n.clone(), channels.clone(), Dim::product(&grid)])?;
    let zero = b.full(&[n.clone(), channels.clone(), Dim::product(&padded)], 0i64, x.dtype(), device)?;
    let sum = b.tensor("prims.index_add", vec![zero.arg(), index.arg(), flat.arg(), Arg::Int(2)])?;
    let [tall, wide] = padded;
    let mut y = b.reshape(&sum, &[n, channels, tall, wide])?;
    for (i, size) in [h, w].into_iter().enumerate() {
        let start = Dim::Known(cut.padding[i]);
        y = b.narrow(&y, i + 2, &start, &start.add(size))?;
    }
    Ok(vec![if single { b.squeeze(&y, &[0])? } else { y }.arg()])
}
