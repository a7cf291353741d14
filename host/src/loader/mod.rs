//! Plugins: found, checked, opened and called. Implements the rooms' ports for what crosses the ABI.
//!
//! The load sequence, each step with its own refusal ([`LoadError`]): find → manifest → trust → probe → ABI, tables,
//! IR, triple, panic strategy, libraries → open → layout → describe equals manifest → options → create →
//! availability. Up to `open` no code of the plugin runs; manifest and probe are read from the file, whatever it was
//! built for.
//!
//! Invariants: nothing is ever unloaded; no answer of a plugin is used before `guard` has looked at it; after a
//! panic the executor is quarantined: it is called no more, not even to free what it made. Deliberately absent:
//! policy (required, optional), the order, which op goes to whom.

#![allow(unsafe_code)]

pub mod error;
pub mod find;
pub mod from_config;
pub mod inspect;
pub mod load;
pub mod probe;
pub mod process;
mod region;
pub mod trust;

mod desc;
mod door;
mod executor;
mod guard;
mod instance;
mod kernel;
mod library;
mod services;
mod tables;

pub use error::LoadError;
pub use executor::LoadedExecutor;
pub use find::{Found, FoundPlugin, Origin, Place, Skipped, find};
pub use from_config::{library_paths, places, request};
pub use inspect::{Inspection, Liked, inspect, liked};
pub use library::LibraryPath;
pub use load::{Attempt, Request, Wanted, load};
pub use process::prepare_process;
