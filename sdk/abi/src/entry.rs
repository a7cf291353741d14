//! The door: what a loaded plugin exports.
//!
//! Every plugin exports the C function [`ENTRY_SYMBOL`]. A Rust plugin exports beside it an abi_stable root module,
//! [`Door`], whose one frozen field is the same [`EntryV1`]; where the host was built with the same version of this
//! crate and of abi_stable it goes through that door, because abi_stable then compares the layout of every type that
//! crosses. The plain door must stay enough (rules V1, V3): abi_stable refuses other versions of itself even for
//! identical types.

use crate::basic::{Array, Str};
use crate::{alloc_1, cancel_1, clock_1, error_1, ir_1, log_1, lower_1, options_1, parallel_1};
use crate::{
    bind_1, claim_1, compile_1, executor_1, host, kernel_1, lifecycle_1, region_1, selftest_1, workspace_1,
};
use abi_stable::StableAbi;
use abi_stable::library::{LibHeader, RootModule, RootModuleResult};
use abi_stable::package_version_strings;
use abi_stable::sabi_types::VersionStrings;
use std::ffi::c_void;

/// Name of the exported function `*const EntryV1 thunderhead_entry_v1(void)`. \[any\] The answer lives as long as the
/// process.
pub const ENTRY_SYMBOL: &str = "thunderhead_entry_v1";

/// The type of the function [`ENTRY_SYMBOL`].
pub type EntryFn = unsafe extern "C" fn() -> *const EntryV1;

/// What the plugin says of itself once loaded. The host compares it with the embedded manifest, so that a file
/// cannot show one text and run another.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct Description {
    /// Bytes of this struct as the plugin has it.
    pub size: u64,
    /// The manifest's text, byte for byte.
    pub manifest: Str,
    /// The names that `executor/1`'s `create` knows, in any order.
    pub executors: Array<Str>,
    /// Version of the SDK or header, as in the probe.
    pub sdk_version: Str,
}

/// The entry of a plugin.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
// The tables hide behind `get_table`'s untyped pointer; naming them here makes abi_stable compare them all the same.
#[sabi(phantom_field(executor_1: executor_1::ExecutorV1))]
#[sabi(phantom_field(claim_1: claim_1::ClaimV1))]
#[sabi(phantom_field(kernel_1: kernel_1::KernelV1))]
#[sabi(phantom_field(bind_1: bind_1::BindV1))]
#[sabi(phantom_field(workspace_1: workspace_1::WorkspaceV1))]
#[sabi(phantom_field(compile_1: compile_1::CompileV1))]
#[sabi(phantom_field(region_1: region_1::RegionV1))]
#[sabi(phantom_field(lifecycle_1: lifecycle_1::LifecycleV1))]
#[sabi(phantom_field(selftest_1: selftest_1::SelftestV1))]
#[sabi(phantom_field(host: host::HostV1))]
#[sabi(phantom_field(alloc_1: alloc_1::AllocV1))]
#[sabi(phantom_field(cancel_1: cancel_1::CancelV1))]
#[sabi(phantom_field(clock_1: clock_1::ClockV1))]
#[sabi(phantom_field(error_1: error_1::ErrorV1))]
#[sabi(phantom_field(ir_1: ir_1::IrV1))]
#[sabi(phantom_field(log_1: log_1::LogV1))]
#[sabi(phantom_field(lower_1: lower_1::LowerV1))]
#[sabi(phantom_field(options_1: options_1::OptionsV1))]
#[sabi(phantom_field(parallel_1: parallel_1::ParallelV1))]
pub struct EntryV1 {
    /// Bytes of this struct as the plugin has it.
    pub size: u64,
    /// As in the probe.
    pub abi_major: u32,
    /// As in the probe.
    pub abi_minor: u32,
    /// \[any\] What the plugin says of itself; lives as long as the process, never null.
    pub describe: unsafe extern "C" fn() -> *const Description,
    /// \[any\] The table with this id, or null. Lives as long as the process; each starts with its size as a `u64`.
    pub get_table: unsafe extern "C" fn(id: Str) -> *const c_void,
}

// SAFETY: immutable data and functions that may be called from any thread.
unsafe impl Send for EntryV1 {}
// SAFETY: as above.
unsafe impl Sync for EntryV1 {}

/// The abi_stable root module of a Rust plugin: one field, frozen for ever.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = DoorRef)))]
#[sabi(missing_field(panic))]
pub struct Door {
    /// What [`ENTRY_SYMBOL`] returns.
    #[sabi(last_prefix_field)]
    pub entry: &'static EntryV1,
}

impl RootModule for DoorRef {
    abi_stable::declare_root_module_statics! {DoorRef}
    const BASE_NAME: &'static str = "thunderhead_plugin";
    const NAME: &'static str = "thunderhead_plugin";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}

/// Makes the header that abi_stable looks for; a plugin exports it as a static under [`DOOR_SYMBOL`].
///
/// # Safety
/// `constructor` must return a [`DoorRef`], erased, as [`door_result`] does.
pub const unsafe fn door_header(constructor: extern "C" fn() -> RootModuleResult) -> LibHeader {
    // SAFETY: the module type is `DoorRef` by the caller's word.
    unsafe { LibHeader::from_constructor::<DoorRef>(constructor, abi_stable::library::CheckTypeLayout::Yes) }
}

/// The body of the constructor for [`door_header`].
pub fn door_result(door: fn() -> DoorRef) -> RootModuleResult {
    abi_stable::library::__call_root_module_loader(door)
}

/// The door onto `entry`.
pub fn door(entry: &'static EntryV1) -> DoorRef {
    use abi_stable::prefix_type::PrefixTypeTrait;
    Door { entry }.leak_into_prefix()
}

/// abi_stable's name for the exported header (a test compares it with abi_stable's own constant).
pub const DOOR_SYMBOL: &str = "_1as_0lib_1header_0root_bmodule_bloader";

#[cfg(test)]
mod tests {
    #[test]
    fn door_symbol_is_abi_stables() {
        assert_eq!(super::DOOR_SYMBOL, abi_stable::library::ROOT_MODULE_LOADER_NAME);
    }

    #[test]
    fn crate_version_is_the_abis() {
        let of_crate = format!("{}.{}.", crate::ABI_MAJOR, crate::ABI_MINOR);
        assert!(env!("CARGO_PKG_VERSION").starts_with(&of_crate), "{of_crate}");
    }
}
