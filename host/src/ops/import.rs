//! How import rules (`Import::With`) read ATen's arguments.
//!
//! The importer has filled in ATen's defaults, so an argument that is missing here is a fault of the rule, and one of
//! the wrong kind a fault of the model file; both are errors that name the overload.

use super::{AtenCall, Builder, OpError, Tensor};
use crate::ir::{Arg, Dtype, Type};

/// The argument of that name.
pub fn arg(c: &AtenCall, name: &str) -> Result<Arg, OpError> {
    c.arg(name).cloned()
}

/// Arguments of these names, in order.
pub fn args(c: &AtenCall, names: &[&str]) -> Result<Vec<Arg>, OpError> {
    names.iter().map(|n| arg(c, n)).collect()
}

/// A tensor.
pub fn tensor(b: &Builder<'_>, c: &AtenCall, name: &str) -> Result<Tensor, OpError> {
    match c.arg(name)? {
        Arg::Value(v) => b.as_tensor(*v),
        other => Err(c.error(format!("`{name}` must be a tensor, found {other:?}"))),
    }
}

/// A tensor that may be absent.
pub fn opt_tensor(b: &Builder<'_>, c: &AtenCall, name: &str) -> Result<Option<Tensor>, OpError> {
    if c.arg(name)?.is_none() { Ok(None) } else { tensor(b, c, name).map(Some) }
}

/// A bool.
pub fn flag(c: &AtenCall, name: &str) -> Result<bool, OpError> {
    match c.arg(name)? {
        Arg::Bool(x) => Ok(*x),
        other => Err(c.error(format!("`{name}` must be a bool, found {other:?}"))),
    }
}

/// A known integer.
pub fn int(c: &AtenCall, name: &str) -> Result<i64, OpError> {
    match c.arg(name)? {
        Arg::Int(n) => Ok(*n),
        other => Err(c.error(format!("`{name}` must be a known integer, found {other:?}"))),
    }
}

/// A number that ATen declares `float`: a known integer becomes one.
pub fn float(c: &AtenCall, name: &str) -> Result<Arg, OpError> {
    Ok(match c.arg(name)? {
        Arg::Int(n) => Arg::Float(*n as f64),
        other => other.clone(),
    })
}

/// The dtype that the model file records for a result.
pub fn recorded_dtype(c: &AtenCall, result: usize) -> Option<Dtype> {
    c.results.get(result)?.as_ref().and_then(Type::tensor).map(|t| t.dtype)
}

/// ATen's `reduction` (0, 1, 2) under our names.
pub fn reduction(c: &AtenCall) -> Result<Arg, OpError> {
    Ok(Arg::str(match int(c, "reduction")? {
        0 => "none",
        1 => "mean",
        2 => "sum",
        n => return Err(c.error(format!("`reduction` must be 0, 1 or 2, found {n}"))),
    }))
}
