//! Table `workspace/1` of a plugin: scratch memory that the host plans. Absent: none is needed.

use crate::basic::{Handle, Status};
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "workspace/1";

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct WorkspaceV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[any\] Writes how many bytes a run of `kernel` on `threads` threads needs. Always the same answer.
    pub bytes: unsafe extern "C" fn(kernel: Handle, threads: u32, out: *mut u64) -> Status,
}
