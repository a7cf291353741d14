//! What many decompositions begin or end with: casts, broadcasts, promotion of operands. Each emits nothing where
//! nothing is to be done.

use super::build::{Builder, Num, Operand, Tensor};
use super::error::OpError;
use super::{Call, Traits, meta};
use crate::ir::{Arg, Device, Dim, Dtype};

/// `x` in that dtype.
pub fn to_dtype(b: &mut Builder<'_>, x: &Tensor, dtype: Dtype) -> Result<Tensor, OpError> {
    if x.dtype() == dtype {
        return Ok(x.clone());
    }
    b.tensor("prims.convert_element_type", vec![x.arg(), Arg::Dtype(dtype)])
}

/// `x` broadcast to `dims`, aligned at the last dim.
pub fn broadcast_to(b: &mut Builder<'_>, x: &Tensor, dims: &[Dim]) -> Result<Tensor, OpError> {
    if x.dims() == dims {
        return Ok(x.clone());
    }
    let shift = dims.len().saturating_sub(x.rank());
    let axes = (0..x.rank()).map(|i| (i + shift) as i64);
    b.tensor("prims.broadcast_in_dim", vec![x.arg(), Arg::dims(dims), Arg::ints(axes)])
}

/// A number as an argument for a prim whose tensors have `dtype`: of the kind that the dtype holds. Where a number is
/// forced into a dtype (a fill, a limit) it is cut and wrapped as ATen's `Scalar` is; what cannot be converted stays, and
/// the prim refuses it.
pub fn number_for(n: &Num, dtype: Dtype) -> Arg {
    match n {
        Num::Dim(Dim::Known(n)) => number_for(&Num::Int(*n), dtype),
        Num::Int(i) if *i < 0 => match unsigned_bits(dtype) {
            Some(bits) => Arg::Int(i.rem_euclid(1 << bits)),
            None if dtype.is_inexact() => Arg::Float(*i as f64),
            None if dtype == Dtype::Bool => Arg::Bool(true),
            None => Arg::Int(*i),
        },
        Num::Int(i) if dtype.is_inexact() => Arg::Float(*i as f64),
        Num::Int(i) if dtype == Dtype::Bool => Arg::Bool(*i != 0),
        Num::Float(x) if dtype == Dtype::Bool => Arg::Bool(*x != 0.0),
        Num::Float(x) if dtype.is_integer() && x.abs() < 9.2e18 => {
            number_for(&Num::Int(x.trunc() as i64), dtype)
        }
        Num::Bool(x) if dtype.is_inexact() => Arg::Float(f64::from(u8::from(*x))),
        Num::Bool(x) if dtype.is_integer() => Arg::Int(i64::from(*x)),
        other => other.to_arg(),
    }
}

/// How many bits an unsigned dtype narrower than i64 has.
fn unsigned_bits(dtype: Dtype) -> Option<u32> {
    match dtype {
        Dtype::U8 => Some(8),
        Dtype::U16 => Some(16),
        Dtype::U32 => Some(32),
        _ => None,
    }
}

/// A tensor of `dims` filled with a number: one element, broadcast.
pub fn filled(
    b: &mut Builder<'_>,
    value: Arg,
    dims: &[Dim],
    dtype: Dtype,
    device: &Device,
) -> Result<Tensor, OpError> {
    let device = Arg::Device(device.clone());
    let one = b.tensor("prims.full", vec![Arg::List(vec![]), value, dtype.into(), device])?;
    broadcast_to(b, &one, dims)
}

/// Operands ready for an elementwise prim: tensors cast to `dtype` and broadcast to one set of dims, numbers of the
/// matching kind. A prim's first operand is a tensor, so a number there becomes one.
pub fn aligned(
    b: &mut Builder<'_>,
    call: &Call,
    operands: &[Operand],
    dtype: Dtype,
) -> Result<Vec<Operand>, OpError> {
    let tensors = || operands.iter().filter_map(Operand::tensor);
    let dims = meta::broadcast_dims(call, tensors().map(Tensor::dims))?;
    let mut out = Vec::with_capacity(operands.len());
    for (i, o) in operands.iter().enumerate() {
        out.push(match o {
            Operand::Tensor(t) => {
                let t = to_dtype(b, t, dtype)?;
                Operand::Tensor(broadcast_to(b, &t, &dims)?)
            }
            Operand::Num(n) if i == 0 => {
                let device = meta::common_device(tensors());
                Operand::Tensor(filled(b, number_for(n, dtype), &dims, dtype, &device)?)
            }
            Operand::Num(n) => Operand::Num(n.clone()),
        });
    }
    Ok(out)
}

/// As [`aligned`], as arguments.
pub fn align(
    b: &mut Builder<'_>,
    call: &Call,
    operands: &[Operand],
    dtype: Dtype,
) -> Result<Vec<Arg>, OpError> {
    let ready = aligned(b, call, operands, dtype)?;
    Ok(ready.iter().map(|o| operand_for(o, dtype)).collect())
}

/// One elementwise prim on aligned operands. Where the prim commutes, a number goes second.
pub fn elementwise(
    b: &mut Builder<'_>,
    call: &Call,
    prim: &str,
    operands: &[Operand],
    dtype: Dtype,
) -> Result<Tensor, OpError> {
    let commutes = || super::find(prim).is_some_and(|op| op.is(Traits::COMMUTATIVE));
    let args = match operands {
        [Operand::Num(n), Operand::Tensor(t)] if commutes() => {
            align(b, call, &[Operand::Tensor(t.clone()), Operand::Num(n.clone())], dtype)?
        }
        _ => align(b, call, operands, dtype)?,
    };
    b.tensor(prim, args)
}

/// A prim of one tensor.
pub fn unary(b: &mut Builder<'_>, prim: &str, x: &Tensor) -> Result<Tensor, OpError> {
    b.tensor(prim, vec![x.arg()])
}

/// A prim of two operands that fit each other; a number becomes of the kind that the tensor holds.
pub fn binary(b: &mut Builder<'_>, prim: &str, x: &Tensor, y: impl Into<Operand>) -> Result<Tensor, OpError> {
    let y = operand_for(&y.into(), x.dtype());
    b.tensor(prim, vec![x.arg(), y])
}

/// `pred ? x : y`; at least one of both is a tensor.
pub fn select(
    b: &mut Builder<'_>,
    pred: &Tensor,
    x: impl Into<Operand>,
    y: impl Into<Operand>,
) -> Result<Tensor, OpError> {
    let (x, y) = (x.into(), y.into());
    let dtype = x.tensor().or(y.tensor()).map_or(meta::DEFAULT_FLOAT, Tensor::dtype);
    b.tensor("prims.where", vec![pred.arg(), operand_for(&x, dtype), operand_for(&y, dtype)])
}

/// What `f` makes of `x`, computed in the dtype that halves accumulate in (f32) and rounded once.
pub fn in_acc(
    b: &mut Builder<'_>,
    x: &Tensor,
    f: impl FnOnce(&mut Builder<'_>, &Tensor) -> Result<Tensor, OpError>,
) -> Result<Tensor, OpError> {
    let wide = to_dtype(b, x, x.dtype().acc())?;
    let y = f(b, &wide)?;
    to_dtype(b, &y, x.dtype())
}

fn operand_for(o: &Operand, dtype: Dtype) -> Arg {
    match o {
        Operand::Tensor(t) => t.arg(),
        Operand::Num(n) => number_for(n, dtype),
    }
}
