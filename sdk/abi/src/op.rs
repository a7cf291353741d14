//! What `check_op` and `make` see of an op: its arguments in full, its tensors without their memory.
//!
//! Invariants: `args` has one entry for each parameter of the op's schema, in the schema's order, defaults filled
//! in. `inputs` lists each tensor that is present, in the same order, lists expanded; a kernel's `run` gets its
//! inputs in exactly this order. Dims are [`UNKNOWN`](crate::tensor::UNKNOWN) only in `check_op`, and in outputs
//! whose size the kernel decides.

use crate::basic::{Array, Str};
use crate::dtype::{DeviceKind, DtypeCode};
use abi_stable::StableAbi;
use std::ffi::c_void;

/// The values of [`Arg::kind`]. An unknown one makes the op unsupported for its reader.
pub mod arg_kind {
    /// Absent, or Python's `None`.
    pub const NONE: u32 = 0;
    /// A tensor: `value` indexes `inputs`.
    pub const TENSOR: u32 = 1;
    /// Tensors: `list` of `i64`, indices into `inputs`, -1 for a gap.
    pub const TENSORS: u32 = 2;
    /// An integer: `value` holds an `i64`.
    pub const INT: u32 = 3;
    /// A float: `value` holds the bits of an `f64`.
    pub const FLOAT: u32 = 4;
    /// A bool: `value` is 0 or 1.
    pub const BOOL: u32 = 5;
    /// Text: `text`.
    pub const STR: u32 = 6;
    /// A complex number: `value` and `imag` hold the bits of `f64`s.
    pub const COMPLEX: u32 = 7;
    /// An element type: `value` is its code.
    pub const DTYPE: u32 = 8;
    /// A device: `value` is the kind, `imag` the index.
    pub const DEVICE: u32 = 9;
    /// Integers: `list` of `i64`; one that is not known is `i64::MIN`; where it is known only at run, `slots` says which number it is.
    pub const INTS: u32 = 10;
    /// Floats: `list` of `f64`.
    pub const FLOATS: u32 = 11;
    /// Bools: `list` of `u8`, each 0 or 1.
    pub const BOOLS: u32 = 12;
    /// Lists of integers: `list` of `Array<i64>`.
    pub const LISTS: u32 = 13;
    /// A number known only at run: `value` indexes `OpDesc::numbers` and `RunArgs::numbers`.
    pub const NUMBER: u32 = 14;
    /// Texts: `list` of `Str`.
    pub const STRS: u32 = 15;
    /// `check_op` only: an integer that is known before a kernel is made, and not now.
    pub const UNKNOWN: u32 = 16;
}

/// An entry of `slots` that names no number.
pub const NO_SLOT: u32 = u32::MAX;
/// An element of an [`arg_kind::INTS`] list that is not known.
pub const UNKNOWN_INT: i64 = i64::MIN;

/// One argument.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct Arg {
    /// The schema's name for it.
    pub name: Str,
    /// See [`arg_kind`].
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// By `kind`; else 0.
    pub value: u64,
    /// By `kind`; else 0.
    pub imag: u64,
    /// For [`arg_kind::STR`].
    pub text: Str,
    /// First element of a list, dense, of the type that `kind` says.
    pub list: *const c_void,
    /// Elements of `list`.
    pub list_len: u64,
    /// Null, or for [`arg_kind::INTS`] one slot an element, [`NO_SLOT`] where the value is known.
    pub slots: *const u32,
}

/// Bits of [`TensorDesc::flags`].
pub mod desc_flags {
    /// Strides are those of a dense row-major tensor.
    pub const CONTIGUOUS: u64 = 2;
    /// A parameter, buffer or constant.
    pub const CONSTANT: u64 = 4;
}

/// A tensor as it is known before it has memory.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct TensorDesc {
    /// Element type.
    pub dtype: DtypeCode,
    /// Kind of device.
    pub device_kind: DeviceKind,
    /// Which of them.
    pub device_index: u32,
    /// Number of dims.
    pub rank: u32,
    /// `rank` dims; [`UNKNOWN`](crate::tensor::UNKNOWN) where not known yet. May be null where `rank` is 0.
    pub dims: *const i64,
    /// Null, or the least value of each dim.
    pub dims_lo: *const i64,
    /// Null, or the greatest value of each dim (`i64::MAX`: no bound).
    pub dims_hi: *const i64,
    /// `rank` strides in elements; null where not known (always in `check_op`).
    pub strides: *const i64,
    /// See [`desc_flags`].
    pub flags: u64,
    /// As in `TensorView`. 0: none.
    pub constant_id: u64,
    /// As in `TensorView`.
    pub constant_version: u64,
    /// In `make`, where `flags` has CONSTANT: its first element, readable during the call. Else null.
    pub data: *const u8,
}

/// A number that is known only at run.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct NumberDesc {
    /// `arg_kind::INT`, `FLOAT` or `BOOL`.
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// Ints: the least value.
    pub lo: i64,
    /// Ints: the greatest value.
    pub hi: i64,
}

/// One op.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct OpDesc {
    /// Bytes of this struct as the host has it.
    pub size: u64,
    /// As in traces: `torch.softmax`, `prims.exp`, `aten.foo.overload`.
    pub name: Str,
    /// Where it stands in the program, for messages. May be empty.
    pub origin: Str,
    /// The arguments.
    pub args: Array<Arg>,
    /// The tensors among them.
    pub inputs: Array<TensorDesc>,
    /// The results.
    pub outputs: Array<TensorDesc>,
    /// Numbers known only at run, by slot.
    pub numbers: Array<NumberDesc>,
}
