//! Cutting an execution trace where sizes become known.

use crate::ir::{Stmt, SymKind, Symbol, Trace, Type};
use rustc_hash::FxHashSet;
use std::ops::Range;

/// Statements that can be planned together: all their sizes are known once those of the segments before have run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Indices into the trace's body.
    pub range: Range<usize>,
    /// Symbols that its last statement makes known.
    pub binds: Vec<Symbol>,
}

/// The segments of `trace`, at least one. A statement whose results mention a data symbol that nothing before it does
/// ends its segment.
pub fn segments(trace: &Trace) -> Vec<Segment> {
    let mut known: FxHashSet<Symbol> = FxHashSet::default();
    for p in &trace.params {
        symbols_of(trace.ty(p.value), &mut |s| {
            known.insert(s);
        });
    }
    let mut all = Vec::new();
    let mut start = 0;
    for (at, stmt) in trace.body.iter().enumerate() {
        let Stmt::Op(bsym) = stmt else { continue };
        let mut binds = Vec::new();
        for v in bsym.defined() {
            symbols_of(trace.ty(v), &mut |s| {
                if s.kind == SymKind::Data && known.insert(s) {
                    binds.push(s);
                }
            });
        }
        if !binds.is_empty() {
            all.push(Segment { range: start..at + 1, binds });
            start = at + 1;
        }
    }
    if start < trace.body.len() || all.is_empty() {
        all.push(Segment { range: start..trace.body.len(), binds: Vec::new() });
    }
    all
}

fn symbols_of(ty: &Type, f: &mut dyn FnMut(Symbol)) {
    match ty {
        Type::Tensor(t) => t.dims.iter().for_each(|d| d.for_each_symbol(f)),
        Type::Number(n) => n.equals.iter().for_each(|d| d.for_each_symbol(f)),
    }
}
