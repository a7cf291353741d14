//! The reference executor: a kernel for each prim that computes, in pure Rust, for every dtype and any strides.
//!
//! What it takes stands in `plugin.toml`; how, in `kernels`. It is the last resort of every configuration and the oracle
//! that other executors are compared with, so its loops are plain and its results do not depend on threads. Not here:
//! composites (the host takes them apart), and what the host does itself (views that strides can say, control flow).

#![deny(unsafe_code)]

#[allow(unsafe_code)] // only kernels touch memory; see `kernels/strided.rs`
mod kernels;

use thunderhead_sdk::{Create, Error, Executor, Kernel, Op};

/// The executor.
pub struct Reference;

impl Executor for Reference {
    fn create(_: &Create<'_>) -> Result<Self, Error> {
        Ok(Reference)
    }

    fn kernel(&self, op: &Op<'_>) -> Result<Box<dyn Kernel>, Error> {
        let entry = kernels::find(op.name())
            .ok_or_else(|| Error::unsupported(format!("`{}` is no prim that computes", op.name())))?;
        Ok(Box::new((entry.make)(op)?.with_numbers(op.n_numbers())))
    }
}
