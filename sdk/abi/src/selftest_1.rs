//! Table `selftest/1` of a plugin: its own quick check of what it needs. Absent: nothing to check.

use crate::basic::{Handle, Status};
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "selftest/1";

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct SelftestV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[serial per executor\] `OK`, or what is wrong in `error/1`. Well under a second.
    pub run: unsafe extern "C" fn(executor: Handle) -> Status,
}
