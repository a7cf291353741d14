//! Reverse mode over traces: an augmented forward and a backward, from the rules of the op table.
//!
//! `tape` lays out what is differentiated, `backward` walks it in reverse, `nested` has the gradients of control flow,
//! `saved` decides by a min-cut what is kept for the backward and what is computed again, `split` writes the two traces.
//! No op name stands here but those of the control flow that gradients are made of.

pub mod backward;
pub mod nested;
pub mod saved;
pub mod split;
pub mod tape;

pub use nested::NestedTraces;

use crate::ir::{Trace, TraceParam, ValueId};
use crate::ops::OpError;

/// What is asked.
pub struct Request<'a> {
    /// Which parameters and inputs want a gradient (floating or complex ones; others never get one).
    pub wants: &'a dyn Fn(&TraceParam) -> bool,
    /// Compute cheap values again instead of saving them.
    pub remat: bool,
    /// Parameters that are one tensor under several names: each name's gradient is the whole one.
    pub ties: &'a [Vec<ValueId>],
    /// The program's nested traces.
    pub nested: &'a NestedTraces,
}

/// Both halves.
#[derive(Clone, Debug)]
pub struct Differentiated {
    /// The augmented forward: the program's outputs, and what it saves.
    pub forward: Trace,
    /// From what was saved and the cotangents of outputs to gradients, by the users' names.
    pub backward: Trace,
    /// Outputs (by index) that take a cotangent, in the order of the backward's cotangent parameters.
    pub cotangents: Vec<usize>,
    /// The program's nested traces, and those that compute gradients of them.
    pub nested: NestedTraces,
    /// Bytes saved for the backward, parameters and inputs held by reference not counted; none where a size is unknown.
    pub saved_bytes: Option<u64>,
}

/// Why a program cannot be differentiated.
#[derive(Clone, Debug, thiserror::Error, miette::Diagnostic)]
pub enum AutodiffError {
    /// A rule or decomposition failed.
    #[error("cannot differentiate `{op}` at {origin}: {what}")]
    #[diagnostic(
        code(autodiff::rule),
        help("leave the parameters behind it out (`--wrt`), or export the model without it")
    )]
    Rule {
        /// The op.
        op: String,
        /// Where.
        origin: String,
        /// Why.
        what: String,
    },
    /// An op outside the table.
    #[error("`{op}` at {origin} has no gradient rule")]
    #[diagnostic(
        code(autodiff::no_rule),
        help("leave the parameters behind it out (`--wrt`), or bring a plugin that gives a rule for it")
    )]
    NoRule {
        /// The op.
        op: String,
        /// Where.
        origin: String,
    },
}

impl AutodiffError {
    fn rule(op: &str, origin: impl std::fmt::Display, error: OpError) -> AutodiffError {
        let what = if error.op == op { error.what } else { error.to_string() };
        AutodiffError::Rule { op: op.into(), origin: origin.to_string(), what }
    }
}

/// Differentiates `trace` (stage `acquired`).
pub fn differentiate(trace: &Trace, request: &Request<'_>) -> Result<Differentiated, AutodiffError> {
    let wanted: Vec<ValueId> = trace
        .params
        .iter()
        .filter(|p| trace.ty(p.value).tensor().is_some_and(|t| t.dtype.is_inexact()) && (request.wants)(p))
        .map(|p| p.value)
        .collect();
    let tied_to_wanted = request.ties.iter().filter(|t| t.iter().any(|v| wanted.contains(v))).flatten();
    let active: Vec<ValueId> = wanted.iter().chain(tied_to_wanted).copied().collect();
    let mut tape = tape::lay_out(trace, &active, request.nested.clone())?;
    let reverse = backward::walk(&mut tape, &wanted, request.ties, &|_| true)?;
    let plan = saved::choose(&tape, &reverse, request.remat);
    Ok(split::split(&mut tape, &reverse, &plan))
}
