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
        if let Some(input) = op.inputs().find(|input| !entry.dtypes.contains(&input.dtype())) {
            return Err(Error::unsupported(format!("`{}` does not take {}", op.name(), input.dtype())));
        }
        Ok(Box::new((entry.make)(op)?.with_numbers(op.n_numbers())))
    }

    fn selftest(&self) -> Result<(), Error> {
        kernels::selftest()
    }
}

thunderhead_sdk::define_plugin! {
    manifest: include_str!("../plugin.toml"),
    executors: { "reference" => Reference },
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use thunderhead_manifest::{Manifest, Operand};
    use thunderhead_sdk::Dtype;

    fn parsed() -> Manifest {
        let (manifest, warnings) = Manifest::parse(MANIFEST).expect("the manifest is in order");
        assert!(warnings.is_empty(), "{warnings:?}");
        manifest
    }

    #[test]
    fn manifest_and_kernels_agree() {
        let manifest = parsed();
        let executor = manifest.executor("reference").expect("declared");
        let names = |claimed: &thunderhead_manifest::Claim| {
            assert!(!claimed.check, "static limits are the whole truth");
            claimed.ops.iter().map(|op| op.to_string()).collect::<Vec<_>>()
        };
        let claimed: Vec<String> = executor.claims.iter().flat_map(names).collect();
        let distinct: BTreeSet<String> = claimed.iter().cloned().collect();
        assert_eq!(claimed.len(), distinct.len(), "each prim is claimed once");
        let kernels: BTreeSet<String> = kernels::all().map(|entry| entry.name.to_owned()).collect();
        assert_eq!(kernels::all().count(), kernels.len(), "each prim has one kernel");
        assert_eq!(distinct, kernels);
        for entry in kernels::all().filter(|entry| !entry.dtypes.is_empty()) {
            for dtype in Dtype::ALL {
                let operand = Operand { dtype: dtype.name(), device: "cpu", rank: 2 };
                let claim = executor.claims.iter().find(|claim| claim.names(entry.name)).expect("claimed");
                let taken = claim.limits(entry.name, [operand]).is_ok();
                assert_eq!(taken, entry.dtypes.contains(dtype), "{} on {dtype}", entry.name);
            }
        }
    }

    #[test]
    fn the_plugin_answers_for_itself() {
        let host = thunderhead_sdk::testing::Host::from_entry(entry(), "reference", &[]).expect("made");
        host.selftest().expect("this machine computes as all do");
        let error = host.kernel(&thunderhead_sdk::testing::OpSpec::new("torch.exp")).expect_err("no prim");
        assert!(error.message().contains("torch.exp"));
    }
}
