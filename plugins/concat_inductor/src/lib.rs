//! Executor plugin `concat_inductor`: concatenations, paddings and slices, with the pointwise ops and views that hang together
//! with them. What does not is left to the executors behind.
//!
//! Deliberately not here: how a region is lowered (`thunderhead-fuser`), which ops are claimed (`plugin.toml`).
#![forbid(unsafe_code)]

use thunderhead_sdk::{Create, Error, Executor, OpId, Region, Steps, define_plugin};

define_plugin! {
    manifest: include_str!("../plugin.toml"),
    executors: { "concat_inductor" => ConcatInductor },
}

thunderhead_sdk::export_plugin! { manifest: MANIFEST, entry: entry }

/// What it is here for.
const JOINS: &[&str] =
    &["cat", "stack", "hstack", "vstack", "pad", "slice", "split", "chunk", "slice_scatter"];

/// The executor.
pub struct ConcatInductor;

impl Executor for ConcatInductor {
    fn create(_: &Create<'_>) -> Result<Self, Error> {
        Ok(ConcatInductor)
    }

    /// The host's regions hold all that could run at the same time; only what hangs together with a join is wanted.
    fn propose_regions(&self, region: &Region<'_>) -> Result<Option<Vec<Vec<OpId>>>, Error> {
        let joins = |name: &str| name.rsplit('.').next().is_some_and(|name| JOINS.contains(&name));
        Ok(Some(thunderhead_fuser::around(region, &joins)))
    }

    fn lower_region(&self, region: &Region<'_>, steps: &mut Steps<'_>) -> Result<(), Error> {
        thunderhead_fuser::lower(region, steps)
    }
}
