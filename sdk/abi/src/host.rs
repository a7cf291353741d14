//! What the host hands to `create`: its tables, and a context that stands for this one executor.

use crate::basic::{Handle, Str};
use abi_stable::StableAbi;
use std::ffi::c_void;

/// The host, as one executor sees it. Lives as long as the process.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct HostV1 {
    /// Bytes of this struct as the host has it.
    pub size: u64,
    /// The host's ABI version.
    pub abi_major: u32,
    /// The host's ABI version.
    pub abi_minor: u32,
    /// First argument of the host's functions. Stands for the executor: its log target, its options, its errors.
    pub ctx: Handle,
    /// \[any\] The host's table with this id, or null. Lives as long as the process.
    pub get_table: unsafe extern "C" fn(ctx: Handle, id: Str) -> *const c_void,
    /// `thunderhead 0.1.0`.
    pub name: Str,
    /// `[run] threads`, resolved: what a setting for the whole process is set to.
    pub threads: u32,
    /// 0.
    pub reserved: u32,
}
