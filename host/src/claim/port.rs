//! What this room wants from an executor.

use super::refusal::Refusal;
use super::spec::OpSpec;

/// How a kernel's tensors must lie in memory; the host copies what does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutNeed {
    /// Dense row-major.
    Contiguous,
    /// Last stride 1.
    Rows,
    /// Any strides.
    Any,
}

/// The answer of a manifest alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StaticClaim {
    /// Within the limits of a claim.
    Within {
        /// Must `check` be asked as well?
        check: bool,
        /// What the kernel needs.
        layout: LayoutNeed,
    },
    /// Outside.
    Refused(Refusal),
}

/// An executor that may take ops.
pub trait Claimant: Send + Sync {
    /// Its name in configs, traces and plans.
    fn name(&self) -> &str;

    /// The limits of its own manifest, without a call into the plugin. What it claims through `like` is not its matter.
    fn limits(&self, op: &OpSpec) -> StaticClaim;

    /// The plugin's own answer. A plugin that fails is a refusal that says so.
    fn check(&self, op: &OpSpec) -> Result<(), Refusal>;
}
