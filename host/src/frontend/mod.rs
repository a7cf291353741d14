//! From a model file to an acquired trace.
//!
//! [`pt2`] reads the file and trusts nothing in it.
//! Deliberately not here: running anything, and any knowledge of executors.

mod error;
pub mod pt2;

pub use error::{ModelError, ModelResult};
