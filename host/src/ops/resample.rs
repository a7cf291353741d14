//! Resampling of images: up- and downsampling to a size, and sampling at given points.
//!
//! Input is `[n, channels, spatial …]`. Positions are computed as ATen does, in f32 (f64 for f64): with `align_corners`
//! the centres of the corner elements map onto each other, else the outer edges do; a scale that is given counts in
//! place of the ratio of sizes. Values are interpolated in the accumulation dtype, one spatial dim after the other.

use super::arith::{Built, size};
use super::aten::{Aten, AtenCall, Import};
use super::build::{Builder, Tensor};
use super::{Call, Level, Op, OpError, Sample, import, meta};
use crate::ir::{Arg, Dim, Dtype, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &TORCH_INTERPOLATE,
    &TORCH_UPSAMPLE_NEAREST,
    &TORCH_UPSAMPLE_LINEAR,
    &TORCH_UPSAMPLE_BICUBIC2D,
    &TORCH_GRID_SAMPLE,
    &TORCH_UPSAMPLE_NEAREST_EXACT,
    &TORCH_UPSAMPLE_AA,
    &TORCH_AFFINE_GRID,
];

pub static TORCH_INTERPOLATE: Op = Op {
    name: "torch.interpolate",
    doc: "Resampling to `size`, or by factors `scale`: nearest, linear, bilinear, trilinear, bicubic or area.",
    schema: "(a: Tensor, size: dims?, scale: num[]?, mode: str, align_corners: bool?) -> Tensor",
    level: Level::Composite(interpolate),
    samples: &[
        Sample("T[1, 2, 3, 4], size=[6, 5], mode=\"nearest\""),
        Sample("T[1, 2, 3, 4], scale=[2.0, 2.0], mode=\"bilinear\", align_corners=false"),
        Sample("T[1, 2, 5], size=[3], mode=\"linear\", align_corners=true"),
        Sample("T[1, 2, 6, 6], size=[3, 2], mode=\"area\""),
    ],
    ..Op::BASE
};

pub static TORCH_UPSAMPLE_NEAREST: Op = Op {
    name: "torch.upsample_nearest",
    doc: "Each element of the result is the one at `floor(i * scale)` of the input.",
    schema: "(a: Tensor, out: dims?, scales: num[]?) -> Tensor",
    level: Level::Composite(|b, call| nearest(b, call, 0.0)),
    aten: &[
        Aten {
            overloads: &[
                "upsample_nearest1d.default",
                "upsample_nearest2d.default",
                "upsample_nearest3d.default",
            ],
            import: Import::With(|b, c| import_sized(b, c, "torch.upsample_nearest")),
        },
        Aten {
            overloads: &["upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec"],
            import: Import::With(|b, c| import_vec(b, c, "torch.upsample_nearest")),
        },
    ],
    samples: &[
        Sample("T[2, 3, 4], out=[8]"),
        Sample("T[1, 2, 3, 4], out=[6, 5]"),
        Sample("T[1, 2, 6, 7], out=[4, 3]"),
        Sample("T[1, 2, 3, 4], scales=[2.0, 1.5]"),
        Sample("T[1, 1, 2, 3, 2], out=[4, 4, 4]"),
    ],
    ..Op::BASE
};

pub static TORCH_UPSAMPLE_LINEAR: Op = Op {
    name: "torch.upsample_linear",
    doc: "Linear interpolation in one to three spatial dims.",
    schema: "(a: Tensor, out: dims?, align_corners: bool, scales: num[]?) -> Tensor",
    level: Level::Composite(|b, call| separable(b, call, Kernel::Linear)),
    aten: &[
        Aten {
            overloads: &[
                "upsample_linear1d.default",
                "upsample_bilinear2d.default",
                "upsample_trilinear3d.default",
            ],
            import: Import::With(|b, c| import_sized(b, c, "torch.upsample_linear")),
        },
        Aten {
            overloads: &["upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec"],
            import: Import::With(|b, c| import_vec(b, c, "torch.upsample_linear")),
        },
    ],
    samples: &[
        Sample("T[2, 3, 4], out=[7], align_corners=false"),
        Sample("T[1, 2, 3, 4], out=[6, 5], align_corners=true"),
        Sample("T[1, 2, 6, 7], out=[4, 3], align_corners=false"),
        Sample("T[1, 2, 3, 4], align_corners=false, scales=[2.0, 1.5]"),
        Sample("T[1, 1, 2, 3, 2], out=[4, 4, 1], align_corners=true"),
    ],
    ..Op::BASE
};

pub static TORCH_UPSAMPLE_BICUBIC2D: Op = Op {
    name: "torch.upsample_bicubic2d",
    doc: "Cubic convolution (with parameter -3/4) in two spatial dims; elements beyond the border repeat it.",
    schema: "(a: Tensor, out: dims?, align_corners: bool, scales: num[]?) -> Tensor",
    level: Level::Composite(|b, call| separable(b, call, Kernel::Cubic)),
    aten: &[
        Aten {
            overloads: &["upsample_bicubic2d.default"],
            import: Import::With(|b, c| import_sized(b, c, "torch.upsample_bicubic2d")),
        },
        Aten {
            overloads: &["upsample_bicubic2d.vec"],
            import: Import::With(|b, c| import_vec(b, c, "torch.upsample_bicubic2d")),
        },
    ],
    samples: &[
        Sample("T[1, 2, 4, 5], out=[7, 6], align_corners=false"),
        Sample("T[1, 2, 4, 5], out=[3, 8], align_corners=true"),
        Sample("T[1, 2, 4, 5], align_corners=false, scales=[2.0, 2.0]"),
    ],
    ..Op::BASE
};

pub static TORCH_GRID_SAMPLE: Op = Op {
    name: "torch.grid_sample",
    doc: "The input at the points of a grid (last dim: x, y or x, y, z in -1..1): `mode` 0 linear, 1 nearest, 2 cubic (two \
          spatial dims only); outside, `padding` 0 has zeros, 1 the border, 2 reflections.",
    schema: "(a: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor",
    level: Level::Composite(super::grid_sample::decompose),
    aten: &[Aten {
        overloads: &["grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default"],
        import: Import::Map("a=input grid mode=interpolation_mode padding=padding_mode align_corners"),
    }],
    samples: &[
        Sample("T[2, 3, 4, 5], T[2, 3, 2, 2], mode=0, padding=0, align_corners=false"),
        Sample("T[2, 3, 4, 5], T[2, 3, 2, 2], mode=0, padding=1, align_corners=true"),
        Sample("T[2, 3, 4, 5], T[2, 3, 2, 2], mode=1, padding=2, align_corners=false"),
        Sample("T[2, 3, 4, 5], T[2, 3, 2, 2], mode=2, padding=0, align_corners=false"),
        Sample("T[1, 2, 3, 4, 3], T[1, 2, 2, 2, 3], mode=0, padding=2, align_corners=true"),
    ],
    ..Op::BASE
};

pub static TORCH_UPSAMPLE_NEAREST_EXACT: Op = Op {
    name: "torch.upsample_nearest_exact",
    doc: "Each element of the result is the one of the input in which its centre lies.",
    schema: "(a: Tensor, out: dims?, scales: num[]?) -> Tensor",
    level: Level::Composite(|b, call| nearest(b, call, 0.5)),
    aten: &[
        Aten {
            overloads: &[
                "_upsample_nearest_exact1d.default",
                "_upsample_nearest_exact2d.default",
                "_upsample_nearest_exact3d.default",
            ],
            import: Import::With(|b, c| import_sized(b, c, "torch.upsample_nearest_exact")),
        },
        Aten {
            overloads: &[
                "_upsample_nearest_exact1d.vec",
                "_upsample_nearest_exact2d.vec",
                "_upsample_nearest_exact3d.vec",
            ],
            import: Import::With(|b, c| import_vec(b, c, "torch.upsample_nearest_exact")),
        },
    ],
    samples: &[
        Sample("T[2, 3, 4], out=[7]"),
        Sample("T[1, 2, 6, 7], out=[4, 3]"),
        Sample("T[1, 2, 3, 4], scales=[2.0, 1.5]"),
        Sample("T[1, 1, 2, 3, 2], out=[4, 4, 4]"),
    ],
    ..Op::BASE
};

pub static TORCH_UPSAMPLE_AA: Op = Op {
    name: "torch.upsample_aa",
    doc: "Linear or cubic interpolation that averages over what a smaller result leaves out (`antialias=True`).",
    schema: "(a: Tensor, out: dims?, align_corners: bool, scales: num[]?, filter: str{bilinear|bicubic}) -> Tensor",
    level: Level::Composite(super::antialias::decompose),
    aten: &[
        Aten {
            overloads: &["_upsample_bilinear2d_aa.default", "_upsample_bilinear2d_aa.vec"],
            import: Import::With(|b, c| import_antialiased(b, c, "bilinear")),
        },
        Aten {
            overloads: &["_upsample_bicubic2d_aa.default", "_upsample_bicubic2d_aa.vec"],
            import: Import::With(|b, c| import_antialiased(b, c, "bicubic")),
        },
    ],
    samples: &[
        Sample("T[1, 2, 7, 6], out=[3, 4], align_corners=false, filter=\"bilinear\""),
        Sample("T[1, 2, 7, 6], out=[3, 9], align_corners=true, filter=\"bilinear\""),
        Sample("T[2, 1, 8, 9], out=[3, 4], align_corners=false, filter=\"bicubic\""),
        Sample("T[1, 1, 4, 5], out=[8, 2], align_corners=true, filter=\"bicubic\""),
        Sample("T[1, 2, 8, 6], align_corners=false, scales=[0.5, 2.0], filter=\"bicubic\""),
    ],
    ..Op::BASE
};

pub static TORCH_AFFINE_GRID: Op = Op {
    name: "torch.affine_grid",
    doc: "The points (x, y or x, y, z in -1..1, last dim) at which an affine map of an image of dims `out` samples.",
    schema: "(theta: Tensor, out: dims, align_corners: bool) -> Tensor",
    level: Level::Composite(super::grid_sample::affine_grid),
    aten: &[Aten {
        overloads: &["affine_grid_generator.default"],
        import: Import::Map("theta out=size align_corners"),
    }],
    samples: &[
        Sample("T[2, 2, 3], out=[2, 3, 4, 5], align_corners=false"),
        Sample("T[1, 2, 3], out=[1, 3, 3, 2], align_corners=true"),
        Sample("T[1, 3, 4], out=[1, 1, 2, 3, 4], align_corners=false"),
        Sample("T[2, 2, 3], out=[2, 1, 1, 4], align_corners=true"),
    ],
    ..Op::BASE
};

/// One spatial dim: its axis, sizes, and the scale where one is given.
pub(super) struct Axis {
    pub(super) axis: usize,
    pub(super) from: Dim,
    pub(super) to: Dim,
    scale: Option<f64>,
}

/// The factors of `scales` or `scale`; absent ones are none.
fn factors(call: &Call, name: &str, n: usize) -> Result<Vec<Option<f64>>, OpError> {
    let given = match call.raw(name)? {
        Arg::None => return Ok(vec![None; n]),
        Arg::List(items) => items,
        one => vec![one],
    };
    let known = given.iter().map(|a| match a {
        Arg::None => Ok(None),
        Arg::Float(x) => Ok(Some(*x)),
        Arg::Int(i) => Ok(Some(*i as f64)),
        other => Err(call.error(format!("`{name}` must be known numbers, found {other:?}"))),
    });
    let known = known.collect::<Result<Vec<_>, _>>()?;
    match known.len() {
        m if m == n => Ok(known),
        1 => Ok(vec![known[0]; n]),
        m => Err(call.error(format!("`{name}` has {m} numbers, {n} are wanted"))),
    }
}

/// The size that a factor makes of one.
fn scaled_size(call: &Call, from: &Dim, factor: f64) -> Result<Dim, OpError> {
    if let Some(n) = from.known() {
        return Ok(Dim::Known((n as f64 * factor).floor() as i64));
    }
    let inverse = 1.0 / factor;
    if factor.fract() == 0.0 {
        Ok(from.mul(&Dim::Known(factor as i64)))
    } else if inverse.fract() == 0.0 {
        Ok(from.floordiv(&Dim::Known(inverse as i64)).expect("the inverse of a factor is not zero"))
    } else {
        Err(call.error(format!("a factor of {factor} makes no whole number of the symbolic size {from}")))
    }
}

/// The spatial dims of the call, whose sizes are in `sizes` and factors in `scales`.
pub(super) fn axes(call: &Call, a: &Tensor, sizes: &str, scales: &str) -> Result<Vec<Axis>, OpError> {
    let n = a.rank().saturating_sub(2);
    if !(1..=3).contains(&n) {
        return Err(call.error(format!("`a` is {}, 1 to 3 spatial dims are wanted", meta::show(a.dims()))));
    }
    let factors = factors(call, scales, n)?;
    let given = call.opt_dims(sizes)?;
    if given.as_ref().is_some_and(|g| g.len() != n) {
        return Err(call.error(format!("`{sizes}` must have {n} sizes")));
    }
    let axis = |i: usize| {
        let from = a.dims()[i + 2].clone();
        let to = match (&given, factors[i]) {
            (Some(sizes), _) => sizes[i].clone(),
            (None, Some(f)) => scaled_size(call, &from, f)?,
            (None, None) => return Err(call.error(format!("`{sizes}` or `{scales}` is missing"))),
        };
        if from.is(0) {
            return Err(call.error(format!("`a` is {}, it has no element to sample", meta::show(a.dims()))));
        }
        Ok(Axis { axis: i + 2, from, to, scale: factors[i].filter(|f| *f > 0.0) })
    };
    (0..n).map(axis).collect()
}

/// `n` in the precision in which ATen computes positions.
fn rounded(n: f64, dtype: Dtype) -> f64 {
    if dtype == Dtype::F64 { n } else { f64::from(n as f32) }
}

/// `x * from / to`, the quotient rounded first; known sizes make it one number.
fn times_ratio(b: &mut Builder<'_>, x: &Tensor, from: &Dim, to: &Dim) -> Built {
    let dtype = x.dtype();
    if let (Some(f), Some(t)) = (from.known(), to.known()) {
        let ratio = if dtype == Dtype::F64 { f as f64 / t as f64 } else { f64::from(f as f32 / t as f32) };
        return b.mul(x, ratio);
    }
    let one = b.full(&[], 1.0, dtype, &x.ty.device)?;
    let ratio = b.mul(&one, size(from))?;
    let ratio = b.div(&ratio, size(to))?;
    b.mul(x, &ratio)
}

/// `x` times the scale from result to input.
pub(super) fn times_scale(b: &mut Builder<'_>, x: &Tensor, axis: &Axis) -> Built {
    match axis.scale {
        Some(s) => b.mul(x, rounded(1.0 / s, x.dtype())),
        None => times_ratio(b, x, &axis.from, &axis.to),
    }
}

/// The slices of `a` along an axis that a 1-d index names.
fn take(b: &mut Builder<'_>, a: &Tensor, index: &Tensor, axis: usize) -> Built {
    b.tensor("prims.take", vec![a.arg(), index.arg(), Arg::Int(axis as i64)])
}

/// An index no smaller than 0 and no larger than the last of `n`.
pub fn clamped(b: &mut Builder<'_>, index: &Tensor, n: &Dim) -> Built {
    let index = b.maximum(index, 0)?;
    b.minimum(&index, size(&n.sub(&Dim::Known(1))))
}

/// The element at `floor((i + shift) * scale)`.
fn nearest(b: &mut Builder<'_>, call: &Call, shift: f64) -> Result<Vec<Arg>, OpError> {
    let mut a = call.tensor("a")?;
    for axis in axes(call, &a, "out", "scales")? {
        // Positions are f32 for every dtype.
        let i = b.iota(&axis.to, Dtype::I64, &a.ty.device)?;
        let i = b.to(&i, Dtype::F32)?;
        let i = if shift == 0.0 { i } else { b.add(&i, shift)? };
        let at = times_scale(b, &i, &axis)?;
        let at = b.floor(&at)?;
        let at = b.to(&at, Dtype::I64)?;
        let at = b.minimum(&at, size(&axis.from.sub(&Dim::Known(1))))?;
        a = take(b, &a, &at, axis.axis)?;
    }
    Ok(vec![a.arg()])
}

/// What is interpolated with.
#[derive(Clone, Copy, PartialEq)]
enum Kernel {
    Linear,
    Cubic,
}

/// One spatial dim after the other. ATen begins with the last; the order only changes how sums are rounded.
fn separable(b: &mut Builder<'_>, call: &Call, kernel: Kernel) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    if !a.dtype().is_float() {
        return Err(call.error(format!("`a` is {}, floats are wanted", a.dtype())));
    }
    let axes = axes(call, &a, "out", "scales")?;
    if kernel == Kernel::Cubic && axes.len() != 2 {
        return Err(call.error(format!("`a` is {}, 2 spatial dims are wanted", meta::show(a.dims()))));
    }
    let align = call.bool("align_corners")?;
    let mut x = b.to(&a, a.dtype().acc())?;
    for axis in axes.iter().rev() {
        let at = positions(b, axis, align, &x, kernel)?;
        x = match kernel {
            Kernel::Linear => linear(b, &x, axis, &at)?,
            Kernel::Cubic => cubic(b, &x, axis, &at)?,
        };
    }
    Ok(vec![b.to(&x, a.dtype())?.arg()])
}

/// Where in the input each element of the result lies.
fn positions(b: &mut Builder<'_>, axis: &Axis, align: bool, like: &Tensor, kernel: Kernel) -> Built {
    let i = b.iota(&axis.to, Dtype::I64, &like.ty.device)?;
    let i = b.to(&i, like.dtype())?;
    if align {
        let one = Dim::Known(1);
        if axis.to.is(1) {
            return b.mul(&i, 0.0);
        }
        return times_ratio(b, &i, &axis.from.sub(&one), &axis.to.sub(&one));
    }
    let centre = b.add(&i, 0.5)?;
    let at = times_scale(b, &centre, axis)?;
    let at = b.sub(&at, 0.5)?;
    if kernel == Kernel::Linear { b.maximum(&at, 0.0) } else { Ok(at) }
}

/// A weight for each element along `axis`, repeated along all others of `x`.
fn along(b: &mut Builder<'_>, weight: &Tensor, x: &Tensor, axis: usize) -> Built {
    let others: Vec<usize> = (0..x.rank()).filter(|i| *i != axis).collect();
    b.spread(weight, x.dims(), &others)
}

fn linear(b: &mut Builder<'_>, x: &Tensor, axis: &Axis, at: &Tensor) -> Built {
    let floor = b.floor(at)?;
    let low = b.to(&floor, Dtype::I64)?;
    let low = clamped(b, &low, &axis.from)?;
    let high = b.add(&low, 1)?;
    let high = b.minimum(&high, size(&axis.from.sub(&Dim::Known(1))))?;
    let base = b.to(&low, at.dtype())?;
    let t = b.sub(at, &base)?;
    let t = b.maximum(&t, 0.0)?;
    let t = b.minimum(&t, 1.0)?;
    let rest = b.one_minus(&t)?;
    let (x0, x1) = (take(b, x, &low, axis.axis)?, take(b, x, &high, axis.axis)?);
    let (w0, w1) = (along(b, &rest, &x0, axis.axis)?, along(b, &t, &x0, axis.axis)?);
    let (p0, p1) = (b.mul(&x0, &w0)?, b.mul(&x1, &w1)?);
    b.add(&p0, &p1)
}

fn cubic(b: &mut Builder<'_>, x: &Tensor, axis: &Axis, at: &Tensor) -> Built {
    let floor = b.floor(at)?;
    let t = b.sub(at, &floor)?;
    let base = b.to(&floor, Dtype::I64)?;
    let weights = cubic_weights(b, &t)?;
    let mut sum: Option<Tensor> = None;
    for (tap, weight) in (-1..).zip(&weights) {
        let index = b.add(&base, tap)?;
        let index = clamped(b, &index, &axis.from)?;
        let value = take(b, x, &index, axis.axis)?;
        let weight = along(b, weight, &value, axis.axis)?;
        let p = b.mul(&value, &weight)?;
        sum = Some(match sum {
            Some(s) => b.add(&s, &p)?,
            None => p,
        });
    }
    sum.ok_or_else(|| OpError { op: "torch.upsample_bicubic2d".into(), what: "has four taps".into() })
}

/// Keys' cubic convolution with parameter `A`: the weights of the taps at -1, 0, 1, 2 for a point `t` behind tap 0.
pub fn cubic_weights(b: &mut Builder<'_>, t: &Tensor) -> Result<[Tensor; 4], OpError> {
    const A: f64 = -0.75;
    /// `((A + 2) x - (A + 3)) x² + 1`, for distances up to 1.
    fn near(b: &mut Builder<'_>, x: &Tensor) -> Built {
        let p = b.mul(x, A + 2.0)?;
        let p = b.sub(&p, A + 3.0)?;
        let p = b.mul(&p, x)?;
        let p = b.mul(&p, x)?;
        b.add(&p, 1.0)
    }
    /// `((A x - 5 A) x + 8 A) x - 4 A`, for distances from 1 to 2.
    fn far(b: &mut Builder<'_>, x: &Tensor) -> Built {
        let p = b.mul(x, A)?;
        let p = b.sub(&p, 5.0 * A)?;
        let p = b.mul(&p, x)?;
        let p = b.add(&p, 8.0 * A)?;
        let p = b.mul(&p, x)?;
        b.sub(&p, 4.0 * A)
    }
    let back = b.add(t, 1.0)?;
    let rest = b.one_minus(t)?;
    let ahead = b.add(&rest, 1.0)?;
    Ok([far(b, &back)?, near(b, t)?, near(b, &rest)?, far(b, &ahead)?])
}

fn interpolate(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let n = a.rank().saturating_sub(2);
    let mode = call.str("mode")?;
    let align = match call.raw("align_corners")? {
        Arg::Bool(x) => x,
        _ => false,
    };
    let axes = axes(call, &a, "size", "scale")?;
    let to: Vec<Dim> = axes.iter().map(|x| x.to.clone()).collect();
    let scales = match call.opt_dims("size")? {
        Some(_) => Arg::None,
        None => call.raw("scale")?,
    };
    let (a, out) = (a.arg(), Arg::dims(&to));
    let (op, args) = match (mode, n) {
        ("nearest", _) => ("torch.upsample_nearest", vec![a, out, scales]),
        ("linear", 1) | ("bilinear", 2) | ("trilinear", 3) => {
            ("torch.upsample_linear", vec![a, out, Arg::Bool(align), scales])
        }
        ("bicubic", 2) => ("torch.upsample_bicubic2d", vec![a, out, Arg::Bool(align), scales]),
        ("area", _) => ("prims.adaptive_avg_pool", vec![a, out]),
        _ => return Err(call.error(format!("mode `{mode}` does not go with {n} spatial dims"))),
    };
    b.call(op, args).map_err(|e| call.error(e.what))
}

// Import.

/// `upsample_*.default`: the size is given.
fn import_sized(b: &mut Builder<'_>, c: &AtenCall, op: &str) -> Result<Vec<Arg>, OpError> {
    let args = upsample_args(c, "self", separate_scales(c))?;
    b.call(op, args)
}

/// `upsample_*.vec`: size or factors.
fn import_vec(b: &mut Builder<'_>, c: &AtenCall, op: &str) -> Result<Vec<Arg>, OpError> {
    let args = upsample_args(c, "input", import::arg(c, "scale_factors")?)?;
    b.call(op, args)
}

/// Either form.
fn import_antialiased(b: &mut Builder<'_>, c: &AtenCall, filter: &str) -> Result<Vec<Arg>, OpError> {
    let mut args = match c.arg("scale_factors") {
        Ok(scales) => upsample_args(c, "input", scales.clone())?,
        Err(_) => upsample_args(c, "self", separate_scales(c))?,
    };
    args.push(Arg::str(filter));
    b.call("torch.upsample_aa", args)
}

/// Scales beside a size, one argument each.
fn separate_scales(c: &AtenCall) -> Arg {
    let names = ["scales", "scales_d", "scales_h", "scales_w"];
    let given: Vec<Arg> = names.iter().filter_map(|n| c.arg(n).ok().cloned()).collect();
    if given.iter().all(Arg::is_none) { Arg::None } else { Arg::List(given) }
}

fn upsample_args(c: &AtenCall, a: &str, scales: Arg) -> Result<Vec<Arg>, OpError> {
    let out = match import::arg(c, "output_size")? {
        // The file knows the size that the factors made, symbolic or not.
        Arg::None => match c.results.first() {
            Some(Some(Type::Tensor(t))) if t.rank() > 2 => Arg::dims(&t.dims[2..]),
            _ => Arg::None,
        },
        given => given,
    };
    let mut args = vec![import::arg(c, a)?, out];
    if let Ok(align) = c.arg("align_corners") {
        args.push(align.clone());
    }
    args.push(scales);
    Ok(args)
}
