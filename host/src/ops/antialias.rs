//! Resampling of images that averages over what a smaller result leaves out.
//!
//! Both spatial dims go through a small dense matrix each, as ATen's kernels do: a row has the weights of the elements
//! near the centre of its result, by a filter that is stretched where the result is smaller, and sums to one.

use super::arith::{Built, size};
use super::build::{Builder, Tensor};
use super::resample::{Axis, axes, times_scale};
use super::{Call, OpError, meta};
use crate::ir::{Arg, Dim, Dtype};

/// The filters, with how far they reach.
#[derive(Clone, Copy)]
enum Filter {
    Linear,
    Cubic,
}

impl Filter {
    fn reach(self) -> f64 {
        match self {
            Filter::Linear => 1.0,
            Filter::Cubic => 2.0,
        }
    }

    /// The weight at a distance; Keys' cubic convolution with parameter -1/2.
    fn weight(self, b: &mut Builder<'_>, x: &Tensor) -> Built {
        let x = b.abs(x)?;
        if matches!(self, Filter::Linear) {
            let rest = b.one_minus(&x)?;
            return b.maximum(&rest, 0.0);
        }
        const A: f64 = -0.5;
        let polynomial = |b: &mut Builder<'_>, terms: [f64; 4]| {
            let mut p = b.mul(&x, terms[0])?;
            for term in &terms[1..3] {
                p = b.add(&p, *term)?;
                p = b.mul(&p, &x)?;
            }
            b.add(&p, terms[3])
        };
        let near = polynomial(b, [A + 2.0, -(A + 3.0), 0.0, 1.0])?;
        let far = polynomial(b, [A, -5.0 * A, 8.0 * A, -4.0 * A])?;
        let (inner, outer) = (b.lt(&x, 1.0)?, b.lt(&x, 2.0)?);
        let far = b.select(&outer, &far, 0.0)?;
        b.select(&inner, &near, &far)
    }
}

/// The last spatial dim first, as ATen does.
pub fn decompose(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    if !a.dtype().is_float() || a.rank() != 4 {
        let found = format!("{}{}", a.dtype(), meta::show(a.dims()));
        return Err(call.error(format!("`a` is {found}, floats of 2 spatial dims are wanted")));
    }
    let filter = match call.str("filter")? {
        "bilinear" => Filter::Linear,
        "bicubic" => Filter::Cubic,
        other => return Err(call.error(format!("`filter` must be bilinear or bicubic, found {other:?}"))),
    };
    let align = call.bool("align_corners")?;
    let mut x = b.to(&a, a.dtype().acc())?;
    let axes = axes(call, &a, "out", "scales")?;
    for axis in axes.iter().rev() {
        let weights = weights(b, axis, align, filter, &x)?;
        let last = axis.axis == 3;
        let turned = if last { x.clone() } else { b.swap_last(&x)? };
        let y = b.tensor("prims.linear", vec![turned.arg(), weights.arg(), Arg::None])?;
        x = if last { y } else { b.swap_last(&y)? };
    }
    Ok(vec![b.to(&x, a.dtype())?.arg()])
}

/// One row for each element of the result, one column for each of the input.
fn weights(b: &mut Builder<'_>, axis: &Axis, align: bool, filter: Filter, like: &Tensor) -> Built {
    let (dtype, device) = (like.dtype(), like.ty.device.clone());
    let scale = scale(b, axis, align, like)?;
    let stretch = b.maximum(&scale, 1.0)?;
    let reach = b.mul(&stretch, filter.reach())?;
    let i = b.iota(&axis.to, Dtype::I64, &device)?;
    let i = b.to(&i, dtype)?;
    let i = b.add(&i, 0.5)?;
    let centre = b.mul(&i, &scale)?;
    let centre = b.unsqueeze(&centre, 1)?;
    let j = b.iota(&axis.from, Dtype::I64, &device)?;
    let j = b.to(&j, dtype)?;
    // The elements whose own centres lie within reach, the edges rounded as ATen rounds them.
    let bound = |b: &mut Builder<'_>, edge: &Tensor| {
        let edge = b.add(edge, 0.5)?;
        b.floor(&edge)
    };
    let (low, high) = (b.sub(&centre, &reach)?, b.add(&centre, &reach)?);
    let (low, high) = (bound(b, &low)?, bound(b, &high)?);
    let (from, to) = (b.ge(&j, &low)?, b.lt(&j, &high)?);
    let within = b.and(&from, &to)?;
    let distance = b.sub(&j, &centre)?;
    let distance = b.add(&distance, 0.5)?;
    let distance = b.div(&distance, &stretch)?;
    let weight = filter.weight(b, &distance)?;
    let weight = b.select(&within, &weight, 0.0)?;
    let total = b.sum(&weight, &[1])?;
    let total = b.unsqueeze(&total, 1)?;
    b.div(&weight, &total)
}

/// From result to input, as a zero-dim tensor.
fn scale(b: &mut Builder<'_>, axis: &Axis, align: bool, like: &Tensor) -> Built {
    let one = b.full(&[], 1.0, like.dtype(), &like.ty.device)?;
    if !align {
        return times_scale(b, &one, axis);
    }
    if axis.to.is(1) {
        return b.mul(&one, 0.0);
    }
    let less = |d: &Dim| size(&d.sub(&Dim::Known(1)));
    let from = b.mul(&one, less(&axis.from))?;
    b.div(&from, less(&axis.to))
}
