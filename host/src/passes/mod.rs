//! Passes: each takes a trace and gives a new one, verified in debug builds.

pub mod specialise;

use crate::ir::Trace;

/// All passes, in order.
pub fn run(trace: Trace) -> Trace {
    trace
}
