//! Table `error/1` of the host: why a call of the plugin did not succeed.
//!
//! *Rationale:* texts are copied while the plugin still owns them, so that no answer needs an owner.

use crate::basic::{Handle, Status, Str};
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "error/1";

/// Why an op is not taken.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct Refusal {
    /// Bytes of this struct as the plugin has it.
    pub size: u64,
    /// `[a-z][a-z0-9_]*`, stable: `dropout_unsupported`.
    pub code: Str,
    /// One sentence, lower case, no final period, with what was found and what is taken.
    pub sentence: Str,
    /// The argument at fault, or empty.
    pub attribute: Str,
    /// The dim at fault, or -1.
    pub dim: i64,
    /// Its value; 0 where `dim` is -1.
    pub dim_value: i64,
}

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct ErrorV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[any\] The message that goes with the failure status that the plugin's function on this thread is about to return. The last one
    /// counts.
    pub set: unsafe extern "C" fn(ctx: Handle, status: Status, message: Str),
    /// \[any\] The reason that goes with `REFUSED`.
    pub refuse: unsafe extern "C" fn(ctx: Handle, refusal: *const Refusal),
}
