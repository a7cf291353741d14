//! Table `cancel/1` of the host: whether the run is still wanted.

use crate::basic::Handle;
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "cancel/1";

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct CancelV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[any\] Not 0 once the run was cancelled: return `CANCELLED` soon. Cheap enough for every chunk.
    pub cancelled: unsafe extern "C" fn(run: Handle) -> u32,
}
