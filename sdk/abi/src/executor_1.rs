//! Table `executor/1` of a plugin: making executors and letting go of them.

use crate::basic::{Handle, Status, Str};
use crate::host::HostV1;
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "executor/1";

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct ExecutorV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[serial per executor\] Makes the executor `name` of the manifest. `host` lives as long as the process; its options are
    /// checked already. Writes a handle that is not null and returns `OK`, or leaves `out` and says why in `error/1`.
    pub create: unsafe extern "C" fn(host: *const HostV1, name: Str, out: *mut Handle) -> Status,
    /// \[serial per executor\] Lets go of it. No kernel of it is alive and no call is under way.
    pub destroy: unsafe extern "C" fn(executor: Handle) -> Status,
    /// \[serial per executor\] `OK`, or `UNAVAILABLE` with what is missing (a device, a library) in `error/1`. Asked
    /// once after `create`. *Rationale:* apart from `create`, so that `doctor` can show the options that were
    /// understood even where the device is missing.
    pub available: unsafe extern "C" fn(executor: Handle) -> Status,
}
