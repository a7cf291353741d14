//! Table `options/1` of the host: the executor's options, typed and checked against the manifest, defaults filled in.

use crate::basic::{Array, Handle, Status, Str};
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "options/1";

/// Values of [`OptionValue::kind`].
pub mod option_kind {
    /// `value` is 0 or 1.
    pub const BOOL: u32 = 1;
    /// `value` holds an `i64`.
    pub const INT: u32 = 2;
    /// `value` holds the bits of an `f64`.
    pub const FLOAT: u32 = 3;
    /// `text`.
    pub const STRING: u32 = 4;
    /// `list`.
    pub const LIST: u32 = 5;
}

/// One value.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct OptionValue {
    /// See [`option_kind`].
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// By `kind`; else 0.
    pub value: u64,
    /// By `kind`; else empty.
    pub text: Str,
    /// By `kind`, of texts; else empty.
    pub list: Array<Str>,
}

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct OptionsV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[any\] Writes where the value of `key` is; it lives as long as the process. `INVALID_ARGUMENT` for a key that the manifest does not
    /// declare, `UNAVAILABLE` for one that has neither a value nor a default.
    pub get: unsafe extern "C" fn(ctx: Handle, key: Str, out: *mut *const OptionValue) -> Status,
}
