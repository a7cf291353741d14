//! Table `lifecycle/1` of a plugin: an orderly end. Absent: nothing to do.

use crate::basic::{Handle, Status};
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "lifecycle/1";

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct LifecycleV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[serial per executor\] Ends the executor's own threads and writes what it wants to keep. Comes once, before `destroy` or the end
    /// of the process. *Rationale:* a plugin is never unloaded and installs no exit handler.
    pub quiesce: unsafe extern "C" fn(executor: Handle) -> Status,
}
