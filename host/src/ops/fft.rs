//! Discrete Fourier transforms.
//!
//! Prims scale as ATen's own kernels do; composites know sizes, axes and PyTorch's names of norms. A transform's gradient is
//! the transform back with the same scale.

use super::aten::FixedArg;
use super::build::{Builder, Tensor};
use super::{Aten, AtenCall, Call, Grad, Import, Level, Meta, Op, OpError, Sample, Vjp, meta};
use crate::ir::{Arg, Dim, Dtype, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[&FFT_C2C, &FFT_R2C, &FFT_C2R, &TORCH_FFT, &TORCH_RFFT, &TORCH_IRFFT, &TORCH_STFT];

pub static FFT_C2C: Op = Op {
    name: "prims.fft_c2c",
    doc: "Discrete Fourier transform over axes, or its inverse; `norm` 0 scales nothing, 1 by the root of the number of elements, 2 by that number.",
    schema: "(a: Tensor<c>, axes: ints, norm: int, forward: bool) -> Tensor",
    meta: Meta::Fn(|call| {
        transformed_axes(call)?;
        Ok(vec![Some(Type::Tensor(call.tensor("a")?.ty))])
    }),
    vjp: Vjp::Rule(|b, d| {
        let forward = !d.call.bool("forward")?;
        let args = vec![d.g()?.arg(), d.call.raw("axes")?, d.call.raw("norm")?, Arg::Bool(forward)];
        Ok(vec![Some(b.tensor("prims.fft_c2c", args)?)])
    }),
    samples: &[
        Sample("T[4], axes=[0], norm=0, forward=true"),
        Sample("T[2, 3, 5], axes=[1, 2], norm=1, forward=false"),
        Sample("T[6], axes=[0], norm=2, forward=true"),
    ],
    ..Op::BASE
};

pub static FFT_R2C: Op = Op {
    name: "prims.fft_r2c",
    doc: "Discrete Fourier transform of real numbers; `onesided` gives the first half of the frequencies of the last axis named.",
    schema: "(a: Tensor<f>, axes: ints, norm: int, onesided: bool) -> Tensor<c>",
    meta: Meta::Fn(r2c_meta),
    vjp: Vjp::Rule(r2c_rule),
    samples: &[
        Sample("T[5], axes=[0], norm=0, onesided=true"),
        Sample("T[2, 3, 4], axes=[1, 2], norm=1, onesided=true"),
        Sample("T[6], axes=[0], norm=2, onesided=false"),
    ],
    ..Op::BASE
};

pub static FFT_C2R: Op = Op {
    name: "prims.fft_c2r",
    doc: "Inverse transform to `last` real numbers along the last axis named, of the first half of their frequencies.",
    schema: "(a: Tensor<c>, axes: ints, norm: int, last: dim) -> Tensor<f>",
    meta: Meta::Fn(c2r_meta),
    vjp: Vjp::Rule(c2r_rule),
    samples: &[Sample("T[3], axes=[0], norm=2, last=5"), Sample("T[2, 3, 3], axes=[1, 2], norm=1, last=4")],
    ..Op::BASE
};

pub static TORCH_FFT: Op = Op {
    name: "torch.fft",
    doc: "Discrete Fourier transform over axes, first cut or filled up with zeros to the sizes given; `inverse` transforms back.",
    schema: "(a: Tensor, n: dim|dims?, axis: int|ints? = -1, norm: str? = None, inverse: bool = false) -> Tensor<c>",
    level: Level::Composite(fft),
    aten: &[
        Aten {
            overloads: &["fft_fft.default"],
            import: Import::MapWith("a=self n axis=dim norm", &[("inverse", FixedArg::Bool(false))]),
        },
        Aten {
            overloads: &["fft_ifft.default"],
            import: Import::MapWith("a=self n axis=dim norm", &[("inverse", FixedArg::Bool(true))]),
        },
        Aten {
            overloads: &["fft_fft2.default", "fft_fftn.default"],
            import: Import::MapWith("a=self n=s axis=dim norm", &[("inverse", FixedArg::Bool(false))]),
        },
        Aten {
            overloads: &["fft_ifft2.default", "fft_ifftn.default"],
            import: Import::MapWith("a=self n=s axis=dim norm", &[("inverse", FixedArg::Bool(true))]),
        },
        Aten {
            overloads: &["_fft_c2c.default"],
            import: Import::With(|b, c| raw(b, c, "prims.fft_c2c", &["dim", "normalization", "forward"])),
        },
    ],
    samples: &[
        Sample("T[5]"),
        Sample("T[2, 3], axis=[0], norm=\"ortho\""),
        Sample("T[2, 5], n=[4], axis=[-1], inverse=true"),
        Sample("T[2, 3]{pos}, n=[2, 4], axis=[0, 1], norm=\"forward\""),
    ],
    ..Op::BASE
};

pub static TORCH_RFFT: Op = Op {
    name: "torch.rfft",
    doc: "Discrete Fourier transform of real numbers: the first half of the frequencies of the last axis.",
    schema: "(a: Tensor, n: dim|dims?, axis: int|ints? = -1, norm: str? = None) -> Tensor<c>",
    level: Level::Composite(rfft),
    aten: &[
        Aten { overloads: &["fft_rfft.default"], import: Import::Map("a=self n axis=dim norm") },
        Aten {
            overloads: &["fft_rfft2.default", "fft_rfftn.default"],
            import: Import::Map("a=self n=s axis=dim norm"),
        },
        Aten {
            overloads: &["_fft_r2c.default"],
            import: Import::With(|b, c| raw(b, c, "prims.fft_r2c", &["dim", "normalization", "onesided"])),
        },
    ],
    samples: &[
        Sample("T[5]"),
        Sample("T[2, 3], axis=[0], norm=\"ortho\""),
        Sample("T[2, 5], n=[2, 4], axis=[0, 1]"),
    ],
    ..Op::BASE
};

pub static TORCH_IRFFT: Op = Op {
    name: "torch.irfft",
    doc: "Inverse of `rfft`: real numbers, along the last axis an even number of them unless a size is given.",
    schema: "(a: Tensor, n: dim|dims?, axis: int|ints? = -1, norm: str? = None) -> Tensor<f>",
    level: Level::Composite(irfft),
    aten: &[
        Aten { overloads: &["fft_irfft.default"], import: Import::Map("a=self n axis=dim norm") },
        Aten {
            overloads: &["fft_irfft2.default", "fft_irfftn.default"],
            import: Import::Map("a=self n=s axis=dim norm"),
        },
        Aten {
            overloads: &["_fft_c2r.default"],
            import: Import::With(|b, c| {
                raw(b, c, "prims.fft_c2r", &["dim", "normalization", "last_dim_size"])
            }),
        },
    ],
    samples: &[
        Sample("T[3]"),
        Sample("T[2, 3], axis=[0], norm=\"ortho\""),
        Sample("T[2, 5], n=[2, 7], axis=[0, 1]"),
    ],
    ..Op::BASE
};

pub static TORCH_STFT: Op = Op {
    name: "torch.stft",
    doc: "Fourier transforms of windows of a signal, `hop` (a quarter of `n_fft`) apart: frequencies, then windows. A window of \
          `win` numbers stands in the middle of the `n_fft`. The real half unless `onesided` is false; as pairs of reals \
          unless `return_complex`.",
    schema: "(a: Tensor, n_fft: int, hop: int?, win: int?, window: Tensor?, normalized: bool, onesided: bool?, \
             return_complex: bool?) -> Tensor",
    level: Level::Composite(stft),
    aten: &[Aten { overloads: &["stft.default", "stft.center"], import: Import::With(import_stft) }],
    samples: &[
        Sample("T[20], T[8], n_fft=8, normalized=false, return_complex=true"),
        Sample("T[2, 20], T[6], n_fft=8, hop=3, win=6, normalized=true, onesided=false, return_complex=true"),
        Sample("T[2, 9], none, n_fft=4, hop=2, win=2, normalized=false, return_complex=false"),
        Sample("T[9], c64[5], n_fft=5, normalized=false, onesided=false, return_complex=true"),
    ],
    ..Op::BASE
};

/// Canonical axes in the order given; the last is the one that is halved.
fn transformed_axes(call: &Call) -> Result<Vec<usize>, OpError> {
    let a = call.tensor("a")?;
    if !(0..=2).contains(&call.int("norm")?) {
        return Err(call.error("`norm` must be 0, 1 or 2"));
    }
    let axes = call.ints("axes")?;
    let canonical: Vec<usize> =
        axes.iter().map(|i| call.canonical_axis(*i, a.rank())).collect::<Result<_, _>>()?;
    let repeat = (1..canonical.len()).any(|i| canonical[..i].contains(&canonical[i]));
    if axes.is_empty() || a.rank() == 0 || repeat || axes.iter().any(|i| *i < 0) {
        return Err(call.error(format!("needs different axes of {}, found {axes:?}", meta::show(a.dims()))));
    }
    Ok(canonical)
}

/// How many frequencies are the first half of `n`.
fn half(n: &Dim) -> Dim {
    n.floordiv(&Dim::Known(2)).expect("two is not zero").add(&Dim::Known(1))
}

fn r2c_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    let axes = transformed_axes(call)?;
    if !matches!(a.dtype(), Dtype::F32 | Dtype::F64) {
        return Err(call.error(format!("takes f32 and f64, found {}", a.dtype())));
    }
    let mut dims = a.dims().to_vec();
    if call.bool("onesided")?
        && let Some(last) = axes.last()
    {
        dims[*last] = half(&dims[*last]);
    }
    meta::one(dims, meta::complex_of(a.dtype()), &a.ty)
}

fn c2r_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, size) = (call.tensor("a")?, call.dim("last")?);
    let axes = transformed_axes(call)?;
    let mut dims = a.dims().to_vec();
    let last = axes[axes.len() - 1];
    if half(&size).same(&dims[last]) == Some(false) {
        return Err(call.error(format!(
            "{size} numbers have {} frequencies, found {}",
            half(&size),
            dims[last]
        )));
    }
    dims[last] = size;
    meta::one(dims, a.dtype().real(), &a.ty)
}

/// The frequencies that were left out count as zero.
fn r2c_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, mut g) = (d.call.tensor("a")?, d.g()?);
    let axes = d.call.ints("axes")?;
    if d.call.bool("onesided")?
        && let Some(last) = axes.last()
    {
        let axis = *last as usize;
        g = resized(b, &g, axis, &a.dims()[axis])?;
    }
    let args = vec![g.arg(), d.call.raw("axes")?, d.call.raw("norm")?, Arg::Bool(false)];
    let back = b.tensor("prims.fft_c2c", args)?;
    Ok(vec![Some(b.unary("prims.real", &back)?)])
}

/// Frequencies that stand for two, themselves and their mirror image, count twice.
fn c2r_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, g) = (d.call.tensor("a")?, d.g()?);
    let args = vec![g.arg(), d.call.raw("axes")?, d.call.raw("norm")?, Arg::Bool(true)];
    let spectrum = b.tensor("prims.fft_r2c", args)?;
    let axes = d.call.ints("axes")?;
    let axis = axes[axes.len() - 1] as usize;
    let mirrored = d.call.dim("last")?.sub(&a.dims()[axis]);
    let at = b.positions(a.dims(), axis, Dtype::I64, &a.ty.device)?;
    let (low, high) = (b.ge(&at, 1i64)?, b.binary("prims.le", &at, super::arith::size(&mirrored))?);
    let twice = b.binary("prims.bitwise_and", &low, &high)?;
    let doubled = b.add(&spectrum, &spectrum)?;
    Ok(vec![Some(b.select(&twice, &doubled, &spectrum)?)])
}

/// Cut, or filled up with zeros, to `n` elements along an axis.
fn resized(b: &mut Builder<'_>, x: &Tensor, axis: usize, n: &Dim) -> super::arith::Built {
    let old = x.dims()[axis].clone();
    if old == *n {
        return Ok(x.clone());
    }
    if let (Some(old), Some(n)) = (old.known(), n.known())
        && n < old
    {
        return b.narrow(x, axis, &Dim::Known(0), &Dim::Known(n));
    }
    // A negative number cuts.
    let mut config = vec![Arg::ints([0, 0, 0]); x.rank()];
    config[axis] = Arg::dims(&[Dim::Known(0), n.sub(&old), Dim::Known(0)]);
    let zero = super::emit::number_for(&super::Num::Int(0), x.dtype());
    b.tensor("prims.pad", vec![x.arg(), zero, Arg::List(config)])
}

/// Axes and the sizes to be transformed, where given. Without axes: the last one of a single-axis call, the last as many
/// as there are sizes, or all.
fn plan(call: &Call, a: &Tensor) -> Result<(Vec<usize>, Vec<Option<Dim>>), OpError> {
    let sizes = call.opt_dims("n")?;
    let axes = match (call.opt_ints("axis")?, &sizes) {
        (Some(axes), _) => {
            axes.iter().map(|i| call.canonical_axis(*i, a.rank())).collect::<Result<Vec<_>, _>>()?
        }
        (None, Some(sizes)) if sizes.len() <= a.rank() => (a.rank() - sizes.len()..a.rank()).collect(),
        (None, _) => (0..a.rank()).collect(),
    };
    let sizes = match sizes {
        Some(sizes) if sizes.len() != axes.len() => {
            return Err(call.error(format!("{} sizes for {} axes", sizes.len(), axes.len())));
        }
        // PyTorch's -1: as it is.
        Some(sizes) => sizes.into_iter().map(|d| if d.is(-1) { None } else { Some(d) }).collect(),
        None => vec![None; axes.len()],
    };
    if a.rank() == 0 {
        return Err(call.error("needs at least one dim"));
    }
    Ok((axes, sizes))
}

/// ATen's number for PyTorch's name of a norm.
fn norm(call: &Call, inverse: bool) -> Result<Arg, OpError> {
    let word = if call.has("norm") { call.str("norm")? } else { "backward" };
    Ok(Arg::Int(match (word, inverse) {
        ("ortho", _) => 1,
        ("backward", false) | ("forward", true) => 0,
        ("backward", true) | ("forward", false) => 2,
        (other, _) => {
            return Err(call.error(format!("`norm` must be backward, ortho or forward, found {other:?}")));
        }
    }))
}

fn in_complex(b: &mut Builder<'_>, call: &Call, a: &Tensor) -> super::arith::Built {
    if matches!(a.dtype(), Dtype::F16 | Dtype::Bf16) {
        return Err(call.error(format!("cannot transform {}", a.dtype())));
    }
    b.to(a, if a.dtype().is_complex() { a.dtype() } else { meta::complex_of(a.dtype()) })
}

fn fft(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let (axes, sizes) = plan(call, &a)?;
    let inverse = call.bool("inverse")?;
    let mut x = in_complex(b, call, &a)?;
    for (axis, size) in axes.iter().zip(&sizes) {
        if let Some(n) = size {
            x = resized(b, &x, *axis, n)?;
        }
    }
    let args = vec![x.arg(), super::arith::axes_arg(&axes), norm(call, inverse)?, Arg::Bool(!inverse)];
    Ok(vec![b.tensor("prims.fft_c2c", args).map_err(|e| call.error(e.what))?.arg()])
}

fn rfft(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    if a.dtype().is_complex() {
        return Err(call.error(format!("takes real numbers, found {}", a.dtype())));
    }
    let (axes, sizes) = plan(call, &a)?;
    let mut x = b.to(&a, meta::inexact(a.dtype()))?;
    for (axis, size) in axes.iter().zip(&sizes) {
        if let Some(n) = size {
            x = resized(b, &x, *axis, n)?;
        }
    }
    let args = vec![x.arg(), super::arith::axes_arg(&axes), norm(call, false)?, Arg::Bool(true)];
    Ok(vec![b.tensor("prims.fft_r2c", args).map_err(|e| call.error(e.what))?.arg()])
}

fn irfft(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let (axes, mut sizes) = plan(call, &a)?;
    let mut x = in_complex(b, call, &a)?;
    let axis = axes[axes.len() - 1];
    let even = || x.dims()[axis].sub(&Dim::Known(1)).mul(&Dim::Known(2));
    let last = sizes.pop().flatten().unwrap_or_else(even);
    sizes.push(Some(half(&last)));
    for (axis, size) in axes.iter().zip(&sizes) {
        if let Some(n) = size {
            x = resized(b, &x, *axis, n)?;
        }
    }
    let args = vec![x.arg(), super::arith::axes_arg(&axes), norm(call, true)?, Arg::dim(last)];
    Ok(vec![b.tensor("prims.fft_c2r", args).map_err(|e| call.error(e.what))?.arg()])
}

/// ATen's own transforms are the prims, but for axes that count from the end.
fn raw(b: &mut Builder<'_>, c: &AtenCall, prim: &str, names: &[&str]) -> Result<Vec<Arg>, OpError> {
    let a = super::import::tensor(b, c, "self")?;
    let mut args = vec![a.arg()];
    for name in names {
        args.push(c.arg(name)?.clone());
    }
    if let Arg::List(axes) = &mut args[1] {
        for axis in axes {
            if let Arg::Int(i) = axis
                && *i < 0
            {
                *axis = Arg::Int(*i + a.rank() as i64);
            }
        }
    }
    b.call(prim, args)
}

fn stft(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, n) = (call.tensor("a")?, call.int("n_fft")?);
    let hop = call.opt_int("hop")?.unwrap_or(n / 4);
    let win = call.opt_int("win")?.unwrap_or(n);
    let sized = matches!(a.dims().last().and_then(Dim::known), Some(len) if len < n);
    if !matches!(a.rank(), 1 | 2) || sized || n < 1 || hop < 1 || !(1..=n).contains(&win) {
        let dims = meta::show(a.dims());
        return Err(call.error(format!("no windows of {win} in {n}, {hop} apart, lie in a signal of {dims}")));
    }
    let mut frames =
        b.tensor("prims.unfold", vec![a.arg(), Arg::Int(a.rank() as i64 - 1), Arg::Int(n), Arg::Int(hop)])?;
    if let Some(window) = window(b, call, &a, n, win)? {
        frames = b.tensor("torch.mul", vec![frames.arg(), window.arg()])?;
    }
    let complex = frames.dtype().is_complex();
    let half = call.raw("onesided")?;
    if complex && matches!(half, Arg::Bool(true)) {
        return Err(
            call.error("complex numbers have no half of their frequencies alone: `onesided` must be false")
        );
    }
    let axis = frames.rank() as i64 - 1;
    let scale = Arg::Int(i64::from(call.bool("normalized")?));
    let spectrum = if complex {
        b.tensor("prims.fft_c2c", vec![frames.arg(), Arg::ints([axis]), scale, Arg::Bool(true)])
    } else {
        let half = Arg::Bool(!matches!(half, Arg::Bool(false)));
        b.tensor("prims.fft_r2c", vec![frames.arg(), Arg::ints([axis]), scale, half])
    };
    let spectrum = spectrum.map_err(|e| call.error(e.what))?;
    let turned = b.swap_last(&spectrum)?;
    let as_complex = if call.has("return_complex") { call.bool("return_complex")? } else { complex };
    let out = if as_complex { turned } else { b.tensor("prims.view_as_real", vec![turned.arg()])? };
    Ok(vec![out.arg()])
}

/// The window in the middle of `n` numbers; none where all are one.
fn window(b: &mut Builder<'_>, call: &Call, a: &Tensor, n: i64, win: i64) -> Result<Option<Tensor>, OpError> {
    let window = match call.opt_tensor("window")? {
        Some(w) if matches!(w.dims(), [d] if d.same(&Dim::Known(win)) != Some(false)) => w,
        Some(w) => return Err(call.error(format!("`window` is {}, [{win}] is wanted", meta::show(w.dims())))),
        None if win == n => return Ok(None),
        None => b.full(&[Dim::Known(win)], 1.0, a.dtype(), &a.ty.device)?,
    };
    if win == n {
        return Ok(Some(window));
    }
    let before = (n - win) / 2;
    let config = Arg::List(vec![Arg::ints([before, n - win - before, 0])]);
    let zero = super::emit::number_for(&super::Num::Int(0), window.dtype());
    b.tensor("prims.pad", vec![window.arg(), zero, config]).map(Some)
}

/// With `center` the signal is first continued at both ends, so that windows stand around its elements.
fn import_stft(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    if matches!(c.arg("align_to_window")?, Arg::Bool(true)) {
        return Err(c.error("`align_to_window` is not taken"));
    }
    let mut a = super::import::tensor(b, c, "self")?;
    if matches!(c.arg("center"), Ok(Arg::Bool(true))) {
        let margin = super::import::int(c, "n_fft")? / 2;
        let dims = a.dims().to_vec();
        // Mirroring wants a batch and channels.
        let channel = b.reshape(&a, &[&vec![Dim::Known(1); 3 - dims.len()], &dims[..]].concat())?;
        let mode = c.arg("pad_mode")?.clone();
        let wide = b.tensor("torch.pad", vec![channel.arg(), Arg::ints([margin, margin]), mode])?;
        let skip = 3 - dims.len();
        a = b.reshape(&wide, &wide.dims()[skip..])?;
    }
    let mut args = vec![a.arg()];
    for name in ["n_fft", "hop_length", "win_length", "window", "normalized", "onesided", "return_complex"] {
        args.push(c.arg(name)?.clone());
    }
    b.call_recorded(&TORCH_STFT, args, &c.results)
}
