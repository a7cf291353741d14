//! Table `kernel/1` of a plugin: a kernel for one op.

use crate::basic::{Array, Handle, Status};
use crate::op::OpDesc;
use crate::tensor::TensorView;
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "kernel/1";

/// Bits of [`KernelInfo::flags`].
pub mod kernel_flags {
    /// The kernel is right for other sizes of the same op, too.
    pub const SIZE_INDEPENDENT: u64 = 1;
}

/// An output that may lie in an input's memory: same address, dims, strides and element size.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct InPlace {
    /// Index of the output.
    pub output: u32,
    /// Index of the input.
    pub input: u32,
}

/// The strides that a kernel writes an output with.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct OutputStrides {
    /// Index of the output.
    pub output: u32,
    /// Length of `strides`.
    pub rank: u32,
    /// In elements.
    pub strides: *const i64,
}

/// The answer of `make`.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct KernelInfo {
    /// Bytes of this struct as the host has it; the plugin writes no more.
    pub size: u64,
    /// The kernel; not null.
    pub kernel: Handle,
    /// See [`kernel_flags`].
    pub flags: u64,
    /// Sharing that is allowed. Lives as long as the kernel.
    pub in_place: Array<InPlace>,
    /// Outputs that are not dense row-major. Lives as long as the kernel.
    pub output_strides: Array<OutputStrides>,
}

/// A number of [`RunArgs::numbers`].
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct Number {
    /// `arg_kind::INT`, `FLOAT` or `BOOL`.
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// An `i64`, the bits of an `f64`, or 0 or 1.
    pub value: u64,
}

/// What a run of a kernel is given.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct RunArgs {
    /// Bytes of this struct as the host has it.
    pub size: u64,
    /// As `OpDesc::inputs`.
    pub inputs: Array<TensorView>,
    /// As `OpDesc::outputs`; their contents are undefined before the run, unless they share an input's memory.
    pub outputs: Array<TensorView>,
    /// As `OpDesc::numbers`.
    pub numbers: Array<Number>,
    /// Scratch, aligned to 64 bytes, contents undefined; what `workspace/1` asked for.
    pub workspace: *mut u8,
    /// Bytes of it.
    pub workspace_bytes: u64,
    /// How many threads the run may use, this one included.
    pub threads: u32,
    /// 0.
    pub reserved: u32,
    /// For `alloc/1`, `parallel/1` and `cancel/1`, in this call only.
    pub run: Handle,
}

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct KernelV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[may overlap\] Makes a kernel for `op`, whose dims and strides are known. Fills `info`, or says why not in
    /// `error/1`. Constants are readable during this call: pack weights here.
    pub make: unsafe extern "C" fn(executor: Handle, op: *const OpDesc, info: *mut KernelInfo) -> Status,
    /// \[may overlap\] Computes the outputs; they are complete when it returns. A kernel does not change after `make`.
    pub run: unsafe extern "C" fn(kernel: Handle, args: *const RunArgs) -> Status,
    /// \[any\] Lets go of a kernel that no call uses and nothing is bound to.
    pub free: unsafe extern "C" fn(kernel: Handle) -> Status,
}
