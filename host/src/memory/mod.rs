//! The only owner of raw bytes: buffers, mapped files, tensors over them, and copies between strided operands.
//!
//! Invariant: an [`Operand`] never reaches outside the [`Bytes`] it keeps alive, whatever its strides. Whether two
//! operands may be used at one time is not decided here: a run has its arena for itself, state is behind the
//! session's lock, and everything else is only read. Deliberately absent: policy (who lies where is the plan's).

#![allow(unsafe_code)]

mod blocks;
pub mod bytes;
pub mod copy;
pub mod element;
mod map;
pub mod operand;
pub mod tensor;

pub use bytes::{Bytes, Loan, OutOfMemory};
pub use copy::copy_operand;
pub use element::Element;
pub use map::{ByteRange, FileBytes};
pub use operand::{Operand, OperandError};
pub use tensor::{Tensor, TensorError};
