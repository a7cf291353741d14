//! Executor plugin `full_fusion`: whole graphs. It claims what the executors that it is like claim, and what loops compute
//! itself; its regions become fused loops, with matmuls, convolutions, attention and all else that loops do not do handed on.
//!
//! Deliberately not here: how a region is lowered (`thunderhead-fuser`), which ops are claimed (`plugin.toml`).
#![forbid(unsafe_code)]

use thunderhead_sdk::{Create, Error, Executor, Region, Steps, define_plugin};

define_plugin! {
    manifest: include_str!("../plugin.toml"),
    executors: { "full_fusion" => FullFusion },
}

thunderhead_sdk::export_plugin! { manifest: MANIFEST, entry: entry }

/// The executor.
pub struct FullFusion;

impl Executor for FullFusion {
    fn create(_: &Create<'_>) -> Result<Self, Error> {
        Ok(FullFusion)
    }

    fn lower_region(&self, region: &Region<'_>, steps: &mut Steps<'_>) -> Result<(), Error> {
        thunderhead_fuser::lower(region, steps)
    }
}
