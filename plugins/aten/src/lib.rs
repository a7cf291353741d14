//! ATen from Rust, for the executors over libtorch: an op becomes a tape of dispatcher calls (`recipe`) that is checked
//! against libtorch's own schemas when the kernel is made, wraps its tensors once when bound, and writes into the host's
//! memory.
//!
//! No global state of libtorch's is changed: autograd is excluded for the length of a call (but where a tape asks for an
//! op's gradients), and OpenMP's thread count,
//! which belongs to the calling thread, is put back. The only unsafe code of those executors is in `tape` and `bound`.
//!
//! Deliberately not here: which op becomes which call; each executor says that itself.

mod bound;
mod ffi;
pub mod flash;
mod kernel;
pub mod recipe;
mod tape;
mod warnings;

pub use bound::{Bound, Memory};
pub use kernel::TorchKernel;
pub use tape::{Arg, Instr, Reg, Tape, When, derivative_missing, describe, scalar_type};
pub use warnings::WarningLog;
