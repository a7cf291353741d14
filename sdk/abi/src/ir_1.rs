//! Table `ir/1` of the host: reading the program.

use crate::basic::{Handle, Status, Str};
use crate::op::OpDesc;
use crate::region::BlockDesc;
use abi_stable::StableAbi;
use std::ffi::c_void;

/// Its id.
pub const ID: &str = "ir/1";

/// A function that is given text, perhaps in pieces, within the call that it was passed to.
#[repr(transparent)]
#[derive(Clone, Copy, StableAbi)]
pub struct WriteText {
    /// The function.
    pub call: unsafe extern "C" fn(to: *mut c_void, text: Str),
}

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct IrV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[any\] The IR version, major in the upper 32 bits.
    pub version: unsafe extern "C" fn(ctx: Handle) -> u64,
    /// \[any\] Writes the schema of the op `name`, as `thunderhead ops` shows it; the text lives as long as the process. `UNSUPPORTED` for an op
    /// that is not in the table.
    pub op_schema: unsafe extern "C" fn(ctx: Handle, name: Str, out: *mut Str) -> Status,
    /// \[any\] Gives the op to `write` as one line of text, for logs and messages. `op` is one the host handed out, within the
    /// call that it was handed to.
    pub op_text:
        unsafe extern "C" fn(ctx: Handle, op: *const OpDesc, write: WriteText, to: *mut c_void) -> Status,
    /// \[serial per object\] What op number `op` of the region that is being lowered decomposes into, one level down; parts
    /// may be asked for theirs. The block lives until `lower` returns; asking again gives the same. `UNSUPPORTED` for an op
    /// without a decomposition (a prim, an opaque op). `lowering` is the handle that `compile/1`'s `lower` was given.
    pub decompose: unsafe extern "C" fn(lowering: Handle, op: u32, out: *mut *const BlockDesc) -> Status,
    /// \[serial per object\] Who would run op number `op` if it were handed on: the executor's name, or that of the first of
    /// several where it would be taken apart. The text lives until `lower` returns. `UNSUPPORTED` where nobody would.
    pub taker: unsafe extern "C" fn(lowering: Handle, op: u32, out: *mut Str) -> Status,
}
