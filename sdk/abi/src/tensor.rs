//! What a kernel runs on: a tensor's memory with its dims and strides.
//!
//! Invariants: element `i` lies at `data + byte_offset + Σ i[k] * strides[k] * element size`, all elements lie in
//! memory that is readable (outputs: writable) for as long as the view is, and the first one is aligned to the
//! element size. Distinct elements of an output never overlap.

use crate::basic::{Handle, Status};
use crate::dtype::{DeviceKind, DtypeCode};
use abi_stable::StableAbi;

/// A dim that is not known yet.
pub const UNKNOWN: i64 = -1;

/// Bits of [`TensorView::flags`].
pub mod view_flags {
    /// Must not be written.
    pub const READ_ONLY: u64 = 1;
    /// Strides are those of a dense row-major tensor. Always set where it is so.
    pub const CONTIGUOUS: u64 = 2;
}

/// One tensor in memory.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct TensorView {
    /// Start of the memory; null where there are no elements, or for an output whose dims the kernel decides and has not yet asked
    /// `alloc/1` for.
    pub data: *mut u8,
    /// Bytes from `data` to the first element. 0 from the host; DLPack has others.
    pub byte_offset: u64,
    /// Element type.
    pub dtype: DtypeCode,
    /// Kind of device that `data` is on.
    pub device_kind: DeviceKind,
    /// Which of them.
    pub device_index: u32,
    /// Number of dims.
    pub rank: u32,
    /// `rank` dims, each 0 or more ([`UNKNOWN`] only for an output that is yet to be allocated). May be null where `rank` is 0.
    pub dims: *const i64,
    /// `rank` strides in elements. Null: dense row-major.
    pub strides: *const i64,
    /// See [`view_flags`].
    pub flags: u64,
    /// Parameters, buffers and constants: an id, equal in all plans of a session. 0: none.
    pub constant_id: u64,
    /// Goes up by one at each write of what `constant_id` names.
    pub constant_version: u64,
    /// Whom to ask to keep the memory beyond the call; null: borrowed for the call.
    pub owner: Handle,
    /// \[any\] Takes one more share of `owner`; null where `owner` is.
    pub retain: Option<unsafe extern "C" fn(owner: Handle) -> Status>,
    /// \[any\] Gives one share of `owner` back; null where `owner` is.
    pub release: Option<unsafe extern "C" fn(owner: Handle) -> Status>,
}
