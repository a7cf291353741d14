//! Thunderhead.
#![deny(unsafe_code)]

pub mod frontend;
pub mod memory;
