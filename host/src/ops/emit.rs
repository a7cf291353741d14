//! What many decompositions begin or end with: casts, broadcasts, promotion of operands. Each emits nothing where
//! nothing is to be done.

use super::Call;
use super::build::{Builder, Num, Operand, Tensor};
use super::error::OpError;
use super::meta;
use crate::ir::{Arg, Dim, Dtype};

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

/// A number as an argument for a prim whose tensors have `dtype`: of the kind that the dtype holds.
pub fn number_for(n: &Num, dtype: Dtype) -> Arg {
    match n {
        Num::Int(i) if dtype.is_inexact() => Arg::Float(*i as f64),
        Num::Bool(x) if dtype.is_inexact() => Arg::Float(f64::from(u8::from(*x))),
        Num::Bool(x) if dtype.is_integer() => Arg::Int(i64::from(*x)),
        other => other.to_arg(),
    }
}

/// Operands ready for an elementwise prim: tensors cast to `dtype` and broadcast to one set of dims, numbers of the
/// matching kind. Where no operand is a tensor the first becomes one (`prims.full`).
pub fn align(
    b: &mut Builder<'_>,
    call: &Call,
    operands: &[Operand],
    dtype: Dtype,
) -> Result<Vec<Arg>, OpError> {
    let dims = meta::broadcast_dims(call, operands.iter().filter_map(Operand::tensor).map(Tensor::dims))?;
    let mut args = Vec::with_capacity(operands.len());
    for o in operands {
        args.push(match o {
            Operand::Tensor(t) => {
                let t = to_dtype(b, t, dtype)?;
                broadcast_to(b, &t, &dims)?.arg()
            }
            Operand::Num(n) => number_for(n, dtype),
        });
    }
    Ok(args)
}

/// One elementwise prim on aligned operands.
pub fn elementwise(
    b: &mut Builder<'_>,
    call: &Call,
    prim: &str,
    operands: &[Operand],
    dtype: Dtype,
) -> Result<Tensor, OpError> {
    let args = align(b, call, operands, dtype)?;
    b.tensor(prim, args)
}
