//! Thunderhead.
