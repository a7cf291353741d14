//! From a region to steps, for every fusion executor that computes with `thunderhead-loops`.
//!
//! # How a region is lowered
//!
//! 1. `flat`: each op becomes a list of leaves. An op is *ours* where loops compute all of it, itself or taken apart
//!    down to prims; what is not is handed on at the highest level at which somebody takes it, and taken apart where nobody
//!    does. Views are the host's.
//! 2. `build`: the leaves become nodes of a loops graph. Views of what the graph computes become chains of prims
//!    (`views`), so that loops read through them; views of what lies outside are inputs with their strides.
//! 3. `emit`: loops' program becomes steps over the region's tensors and temporaries of the host's arena
//!    (`kernels` runs them).
//!
//! A node that loops refuse after all is handed on, and all begins anew; this ends, because each round hands on an op more.
//!
//! Deliberately not here: which ops an executor claims (its manifest), and how loops are made fast (`thunderhead-loops`).

#![deny(unsafe_code)]

mod build;
mod emit;
mod flat;
#[allow(unsafe_code)] // hands raw tensors to loops; why it is sound stands there
mod kernels;
mod prims;
mod regions;
mod views;

pub use regions::around;

use std::collections::HashSet;
use thunderhead_loops::{Options, compile};
use thunderhead_sdk::{Error, Region, Steps};

/// Lowers a region: what loops can compute becomes kernels, everything else is handed on. `unsupported` where some part has
/// nobody to run it.
pub fn lower(region: &Region<'_>, steps: &mut Steps<'_>) -> Result<(), Error> {
    let mut handed = HashSet::new();
    loop {
        let leaves = flat::flatten(region, &handed)?;
        let built = match build::build(region, &leaves)? {
            Ok(built) => built,
            Err(op) if handed.insert(op) => continue,
            Err(op) => return Err(nobody(region, op)),
        };
        match compile(&built.graph, &Options::default()) {
            Ok(program) => return emit::emit(region, steps, &built, program),
            Err(refused) => {
                let op = built.origins[refused.node.0 as usize];
                if !handed.insert(op) {
                    return Err(nobody(region, op));
                }
            }
        }
    }
}

fn nobody(region: &Region<'_>, op: thunderhead_sdk::OpId) -> Error {
    Error::unsupported(format!("loops do not compute `{}` here, and nobody else does", region.op(op).name()))
}
