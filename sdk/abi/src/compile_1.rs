//! Table `compile/1` of a plugin: a region turned into steps.

use crate::basic::{Handle, Status};
use crate::region::RegionDesc;
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "compile/1";

/// The table. Only executors of kind `fusion` are asked.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct CompileV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[may overlap\] Answers with steps, through `lower/1`, in which `lowering` stands for this call. All dims and strides
    /// are known, constants readable. `UNSUPPORTED`: the region's ops are released and asked of the executors behind; what
    /// was said so far counts for nothing, and kernels given so far are freed by the host.
    ///
    /// *Rationale*: steps, and not one function, so that the host plans memory once for everything, and so that an op can
    /// be left to whoever is best at it. A plugin that can only swallow a region whole gives one step.
    pub lower: unsafe extern "C" fn(executor: Handle, region: *const RegionDesc, lowering: Handle) -> Status,
}
