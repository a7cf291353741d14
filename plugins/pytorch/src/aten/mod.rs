//! ATen from Rust: tapes of dispatcher calls, made once, bound to memory, run often.
//!
//! The only unsafe code of this plugin is here. Deliberately not here: which op becomes which call (`recipe`, `kernels`).

mod bound;
mod ffi;
mod tape;
mod warnings;

pub use bound::{Bound, Memory};
pub use tape::{Arg, Instr, Reg, Tape, When, derivative_missing, describe, scalar_type};
pub use warnings::WarningLog;
