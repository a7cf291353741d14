//! Thunderhead: a plugin host for tensor programs.
#![deny(unsafe_code)]

pub mod claim;
pub mod config;
pub mod frontend;
pub mod ir;
pub mod loader;
pub mod lower;
pub mod memory;
pub mod ops;
pub mod passes;
pub mod plan;
pub mod run;
pub mod threads;
