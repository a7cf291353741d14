//! Damaged programs.
