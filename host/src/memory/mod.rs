//! The only owner of raw bytes: mapped files and copies of them.
//!
//! Deliberately not here: policy (who may share, when to copy).

mod map;

pub use map::{ByteRange, FileBytes};
