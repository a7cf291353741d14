//! Small graphs.
