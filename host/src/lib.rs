//! Thunderhead: a plugin host for tensor programs.

pub mod ir;
pub mod ops;
