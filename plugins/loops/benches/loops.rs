//! Measures kernels.
fn main() {}
