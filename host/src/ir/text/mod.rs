//! Traces as text and as JSON: two spellings of the same content, both read back.
//!
//! Invariants: `parse(print(t)) = t`, and printing what was parsed gives the same bytes; no input makes reading panic
//! or take more than linear time and memory. Deliberately absent: whether a module is a program (`verify`), what an op
//! is (its signature comes through `ir::Schemas`).

pub mod json;
pub mod lex;
pub mod parse;
pub mod print;
#[cfg(test)]
mod roundtrip;
mod scope;
mod source;
mod value;

pub use json::{from_json, to_json};
pub use parse::{MAX_NESTING, Parsed, VERSION, parse};
pub use print::{Comment, PrintOptions, print, print_arg, print_stmt};
pub use source::SourceMap;
