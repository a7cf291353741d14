//! Table `claim/1` of a plugin: refusing what the manifest's limits cannot say. Absent: the manifest is the whole
//! truth.

use crate::basic::{Handle, Status};
use crate::op::OpDesc;
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "claim/1";

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct ClaimV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[may overlap\] `OK` takes the op; `REFUSED` after a call of `error/1`'s `refuse` does not; any other status
    /// is a failure of the plugin. Only asked for ops within the static limits of a claim with `check = true`. The
    /// answer may depend on nothing but `op` and the options: it is kept.
    pub check_op: unsafe extern "C" fn(executor: Handle, op: *const OpDesc) -> Status,
}
