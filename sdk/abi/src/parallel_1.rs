//! Table `parallel/1` of the host: its thread pool.

use crate::basic::{Handle, Status};
use abi_stable::StableAbi;
use std::ffi::c_void;

/// Its id.
pub const ID: &str = "parallel/1";

/// The work of one chunk.
#[repr(transparent)]
#[derive(Clone, Copy, StableAbi)]
pub struct ChunkBody {
    /// The function.
    pub call: unsafe extern "C" fn(ctx: *mut c_void, chunk: u64) -> Status,
}

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct ParallelV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[serial per object\] Calls `body(ctx, chunk)` once for each chunk from 0 to `n_chunks`, on up to the run's threads, this one
    /// among them, and returns when all are done. Which thread takes which chunk is open: results must not depend
    /// on it. `body` must not unwind and not call `parallel_for`. The first status that is not `OK` is returned; chunks not begun by
    /// then may be left out.
    pub parallel_for:
        unsafe extern "C" fn(run: Handle, n_chunks: u64, body: ChunkBody, ctx: *mut c_void) -> Status,
}
