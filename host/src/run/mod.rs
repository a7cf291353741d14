//! Running plans: sessions, bound steps, state.
//!
//! Invariants: a run makes no decision (the plan made them all); state, caches and written inputs change only when the
//! whole run has succeeded; outputs are the caller's own. Deliberately absent: claims and layouts.

pub mod compile;
pub mod inputs;
pub mod instance;
pub mod nested;
pub mod numbers;
pub mod session;
pub mod tape;
pub mod train;
pub mod value;

#[cfg(test)]
mod tests;

pub use compile::{CompileError, Compiled, Executors, OrderEntry, compile};
pub use inputs::{InputError, bind_inputs};
pub use instance::RunError;

pub use nested::NestedTrace;
pub use session::{Session, SessionError, SessionOptions, StateError};
pub use tape::{Differentiated, Forward, GradRequest, Tape};
pub use train::Updater;
pub use value::Value;
