//! How things look: colours, errors, tables, units. Data goes to stdout, all else to stderr; colour never carries
//! meaning alone. What is said is decided by the commands.

pub mod diagnostic;
pub mod progress;
pub mod screen;
pub mod summary;
pub mod table;
pub mod units;

pub use screen::{Paint, Screen};
