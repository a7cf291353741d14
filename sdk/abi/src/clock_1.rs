//! Table `clock/1` of the host: the clock that all profiles use.

use crate::basic::Handle;
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "clock/1";

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct ClockV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[any\] Nanoseconds since some moment before the first plugin was loaded; never goes back.
    pub now_ns: unsafe extern "C" fn(ctx: Handle) -> u64,
}
