//! Table `log/1` of the host. Plugins install no logger of the process; they log here, under their id.

use crate::basic::{Handle, Str};
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "log/1";

/// Levels.
pub mod level {
    /// Something failed.
    pub const ERROR: u32 = 1;
    /// Something is not as it should be.
    pub const WARN: u32 = 2;
    /// Worth knowing.
    pub const INFO: u32 = 3;
    /// For the plugin's author.
    pub const DEBUG: u32 = 4;
    /// For the plugin's author, in masses.
    pub const TRACE: u32 = 5;
}

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct LogV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[any\] The highest level that is kept for this plugin; 0: none.
    pub max_level: unsafe extern "C" fn(ctx: Handle) -> u32,
    /// \[any\] Writes a line. `target` is what stands behind the plugin's id; may be empty.
    pub log: unsafe extern "C" fn(ctx: Handle, level: u32, target: Str, message: Str),
}
