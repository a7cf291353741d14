//! Table `bind/1` of a plugin: keeping what a kernel would otherwise work out at every run (wrapped tensors, say).
//! Absent: the kernel's own `run` is called.

use crate::basic::{Array, Handle, Status};
use crate::kernel_1::RunArgs;
use crate::tensor::TensorView;
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "bind/1";

/// What is bound: the memory that every run of the bound object will be given.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct BindArgs {
    /// Bytes of this struct as the host has it.
    pub size: u64,
    /// As `OpDesc::inputs`; dims, strides and address stay as they are until `unbind`, contents change.
    pub inputs: Array<TensorView>,
    /// As `OpDesc::outputs`; the same. Outputs that the kernel allocates have no data.
    pub outputs: Array<TensorView>,
    /// As `RunArgs::workspace`.
    pub workspace: *mut u8,
    /// Bytes of it.
    pub workspace_bytes: u64,
    /// As `RunArgs::threads`.
    pub threads: u32,
    /// 0.
    pub reserved: u32,
}

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct BindV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[may overlap\] Binds `kernel` to memory. Writes the bound object; null with `OK`
    /// means that there is nothing to keep, and the kernel's own `run` is called.
    pub bind: unsafe extern "C" fn(kernel: Handle, args: *const BindArgs, out: *mut Handle) -> Status,
    /// \[serial per object\] As the kernel's `run`, with the tensors that were bound.
    pub run: unsafe extern "C" fn(bound: Handle, args: *const RunArgs) -> Status,
    /// \[serial per object\] Lets go of it. Comes before the memory goes, and before `free` of its kernel.
    pub unbind: unsafe extern "C" fn(bound: Handle) -> Status,
}
