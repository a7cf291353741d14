//! Table `alloc/1` of the host: outputs whose size the kernel decides.

use crate::basic::{Handle, Status};
use crate::tensor::TensorView;
use abi_stable::StableAbi;

/// Its id.
pub const ID: &str = "alloc/1";

/// The table.
#[repr(C)]
#[derive(Clone, Copy, StableAbi)]
pub struct AllocV1 {
    /// Bytes of this table.
    pub size: u64,
    /// \[serial per object\] Gives output `output` of the run its dims and memory, dense row-major. Writes where its view is, all of it (its content
    /// is unspecified); that lives until the kernel returns. Once an output. `dtype` is what the kernel is going to write, 0 for whatever the op's
    /// description says. `INVALID_ARGUMENT`: dims or dtype that contradict the description.
    pub alloc_output: unsafe extern "C" fn(
        run: Handle,
        output: u32,
        dtype: u32,
        dims: *const i64,
        rank: u32,
        out: *mut *const TensorView,
    ) -> Status,
}
