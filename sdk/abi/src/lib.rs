//! The types that cross the border between Thunderhead and a plugin, and nothing else.
//!
//! Invariants: everything is `#[repr(C)]` and made of fixed-width integers, pointers with lengths, opaque handles
//! and function pointers; what may be unknown to the reader (enums, flags) is a plain integer until checked. The
//! version of this crate *is* the version of the ABI. `include/thunderhead_plugin.h` says the same in C; a test of
//! `thunderhead-sdk` proves that both agree in names, sizes and offsets.
//!
//! Deliberately not here: anything pleasant. Authors in Rust use `thunderhead-sdk`, authors in C the header.
//!
//! A plugin file has three layers. The **probe** ([`probe`]) is data that is read without loading the file. The
//! **door** ([`entry`]) is one exported function. Behind it stand **tables** of functions, one a file here, each
//! fetched by its id `name/revision`: of the plugin [`executor_1`], [`claim_1`], [`kernel_1`], [`bind_1`],
//! [`workspace_1`], [`compile_1`], [`region_1`], [`lifecycle_1`], [`selftest_1`]; of the host [`host`] with [`log_1`],
//! [`error_1`], [`ir_1`], [`lower_1`], [`alloc_1`], [`parallel_1`], [`options_1`], [`cancel_1`], [`clock_1`].
//!
//! **Threads.** Each function states one of: *\[any\]* may be called from any thread at any time, also beside itself;
//! *\[serial per executor\]* never beside another such call with the same executor; *\[serial per object\]* never
//! beside another call with the same object; *\[may overlap\]* calls with one object may run side by side.
//!
//! **Pointers.** Unless a function says otherwise, what is passed in is readable for the duration of the call only,
//! and is not null. Nothing unwinds across the border: a function that could not do its work returns a status.
#![deny(missing_docs)]

pub mod basic;
pub mod dtype;
pub mod tensor;

pub mod entry;
pub mod probe;

pub mod op;
pub mod region;

pub mod bind_1;
pub mod claim_1;
pub mod compile_1;
pub mod executor_1;
pub mod kernel_1;
pub mod lifecycle_1;
pub mod region_1;
pub mod selftest_1;
pub mod workspace_1;

pub mod alloc_1;
pub mod cancel_1;
pub mod clock_1;
pub mod error_1;
pub mod host;
pub mod ir_1;
pub mod log_1;
pub mod lower_1;
pub mod options_1;
pub mod parallel_1;

pub use abi_stable;

/// Major version of the ABI. A host loads plugins of its own major only; while it is 0, of its own minor only.
pub const ABI_MAJOR: u32 = 0;
/// Minor version of the ABI.
pub const ABI_MINOR: u32 = 2;
/// Major version of the IR: the op names, schemas and meanings that an [`op::OpDesc`] speaks of.
pub const IR_MAJOR: u32 = 1;
/// Minor version of the IR.
pub const IR_MINOR: u32 = 0;

/// The target triple that this crate was built for: a plugin's probe says it, the host compares.
pub const TARGET: &str = env!("THUNDERHEAD_TARGET");
/// The compiler that built this crate: shown, not compared (rule V9).
pub const COMPILER: &str = env!("THUNDERHEAD_RUSTC");
