//! Sample calls: text that the conformance suite multiplies by dtypes, layouts and sizes.
//!
//! A sample is an argument list in the trace format, in schema order, with tensors written by their type and filling:
//! `T[2, 3]` has the case's dtype, `i64[4]{0..10}` integers in that range, `T[3]{pos}` positive values,
//! `T[0]` no element, `T[]` zero-dim, `T[2, 3]{nonfinite}` NaN and infinities among the values. Absent: `none`.

/// A sample call.
#[derive(Clone, Copy, Debug)]
pub struct Sample(pub &'static str);
