//! Table `lower/1` of the host: the steps of a region.
//!
//! Steps may be given in any order; the host sorts them by what they read and write. Each value is written by one step at
//! most, the base of each output of the region by exactly one, views by none.

use crate::basic::{Array, Handle, Status, Str};
use crate::dtype::DtypeCode;
use crate::kernel_1::KernelInfo;
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "lower/1";

/// A step that is a kernel of the plugin's own, as `kernel/1`, `bind/1` and `workspace/1` know it.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct KernelStep {
    /// Bytes of this struct as the plugin has it.
    pub size: u64,
    /// What it is called in plans and profiles. May be empty.
    pub name: Str,
    /// Values that it reads, in the order of `RunArgs::inputs`: any of the region's, views and temporaries included.
    pub inputs: Array<u32>,
    /// Values that it writes, in the order of `RunArgs::outputs`: no views, no inputs of the region. Dense row-major, unless `info`
    /// states other strides.
    pub outputs: Array<u32>,
    /// Slots of the region's numbers, in the order of `RunArgs::numbers`.
    pub numbers: Array<u32>,
    /// The kernel. In-place pairs and output strides speak of the places in `outputs` and `inputs`.
    pub info: *const KernelInfo,
}

/// The table. `lowering` is the handle that `compile/1`'s `lower` was given, within that call.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct LowerV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[serial per object\] A tensor that only this region's steps see: dense row-major, its memory the host's to plan.
    /// Writes the number of the new value to `value`.
    pub temporary: unsafe extern "C" fn(
        lowering: Handle,
        dtype: DtypeCode,
        dims: *const i64,
        rank: u32,
        value: *mut u32,
    ) -> Status,
    /// \[serial per object\] One more step. On `OK` the kernel is the host's, to be freed by `kernel/1`; otherwise it stays
    /// the plugin's.
    pub kernel_step: unsafe extern "C" fn(lowering: Handle, step: *const KernelStep) -> Status,
    /// \[serial per object\] One more step: the op of that number, of the region or of a decomposition, as it stands, run by
    /// the next executor that takes it (`ir/1`'s `taker` says who). `UNSUPPORTED` where nobody does.
    pub delegate: unsafe extern "C" fn(lowering: Handle, op: u32) -> Status,
}
