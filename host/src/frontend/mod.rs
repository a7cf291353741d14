//! From a model file to an acquired trace.
//!
//! [`pt2`] reads the file and trusts nothing in it; [`import()`] turns its graph into a trace of the op table's ops,
//! functional throughout.
//! Deliberately not here: running anything, and any knowledge of executors.

pub mod pt2;

mod arguments;
mod autocast;
mod calls;
mod error;
mod functionalize;
mod import;
mod nested;
mod nodes;
mod numbers;
mod signature;
mod symbols;

#[cfg(test)]
mod tests;

pub use error::{ModelError, ModelResult, Place, PlaceParts};
pub use import::{Imported, InputKind, UserInput, import};
