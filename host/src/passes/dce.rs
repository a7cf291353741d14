//! Calls whose results nobody uses, away with them.
//!
//! Kept whatever happens: effects, writes, calls without results (their effect is all there is to them), and calls
//! whose result's size is a symbol that something alive mentions.

use crate::ir::{Arg, Bsym, Dim, Stmt, SymKind, Symbol, Trace, Type, ValueId};
use crate::ops::{self, Traits};
use std::collections::HashSet;

/// The trace without dead calls. Parameters stay: they are how a program is called.
pub fn dce(mut trace: Trace) -> Trace {
    let mut live = Live::of(&trace);
    let mut kept: Vec<Stmt> = Vec::with_capacity(trace.body.len());
    for stmt in std::mem::take(&mut trace.body).into_iter().rev() {
        let keep = match &stmt {
            Stmt::Op(b) => live.needs(b),
            Stmt::Del(dead) => dead.iter().any(|v| live.value(*v)),
        };
        if keep {
            if let Stmt::Op(b) = &stmt {
                live.uses(&trace, b);
            }
            kept.push(stmt);
        }
    }
    kept.reverse();
    trace.body = kept;
    trace
}

/// What is needed by what has been kept, walking from the end.
struct Live {
    values: Vec<bool>,
    /// Symbols of run-time sizes that live types and arguments mention.
    symbols: HashSet<Symbol>,
    /// Results that are the first to mention a run-time size: who has them defines it.
    defines: Vec<Vec<Symbol>>,
}

impl Live {
    fn of(trace: &Trace) -> Live {
        let mut live = Live {
            values: super::replace::handed_out(trace),
            symbols: HashSet::new(),
            defines: first_mentions(trace),
        };
        for i in 0..live.values.len() {
            if live.values[i] {
                live.type_of(trace, ValueId(i as u32));
            }
        }
        trace.outputs.iter().for_each(|o| live.symbols_of(&o.value));
        live
    }

    fn value(&self, v: ValueId) -> bool {
        self.values.get(v.index()).copied().unwrap_or(false)
    }

    fn needs(&self, b: &Bsym) -> bool {
        let effect = ops::find(&b.op).is_some_and(|op| op.has_any(Traits::EFFECT.and(Traits::WRITES)));
        let defines = |v: ValueId| {
            let symbols = self.defines.get(v.index());
            symbols.is_some_and(|s| s.iter().any(|s| self.symbols.contains(s)))
        };
        effect
            || b.results.is_empty()
            || b.op.as_ref() == crate::ir::verify::WRITE
            || b.defined().any(|v| self.value(v) || defines(v))
            || b.block.as_ref().is_some_and(|block| block.body.iter().any(has_effect))
    }

    /// Everything that the call uses is alive, the values that its block sees from outside included.
    fn uses(&mut self, trace: &Trace, b: &Bsym) {
        let mut used = Vec::new();
        b.for_each_use(&mut |v| used.push(v));
        for arg in b.args.iter().chain(b.named.iter().map(|(_, a)| a)) {
            self.symbols_of(arg);
        }
        for v in used.into_iter().chain(b.defined()) {
            if let Some(live) = self.values.get_mut(v.index()) {
                *live = true;
            }
            self.type_of(trace, v);
        }
        if let Some(block) = &b.block {
            for s in &block.body {
                if let Stmt::Op(inner) = s {
                    self.uses(trace, inner);
                }
            }
            for y in &block.yields {
                self.symbols_of(y);
                y.for_each_value(&mut |v| self.values[v.index()] = true);
            }
        }
    }

    fn type_of(&mut self, trace: &Trace, v: ValueId) {
        if let Some(value) = trace.values.get(v.index()) {
            data_symbols(&value.ty, &mut |s| {
                self.symbols.insert(s);
            });
        }
    }

    fn symbols_of(&mut self, arg: &Arg) {
        match arg {
            Arg::Dim(d) => of_dim(d, &mut |s| {
                self.symbols.insert(s);
            }),
            Arg::List(items) => items.iter().for_each(|a| self.symbols_of(a)),
            _ => {}
        }
    }
}

/// A block may hold an effect even where the call that it stands for has none.
fn has_effect(s: &Stmt) -> bool {
    let Stmt::Op(b) = s else { return false };
    let effect = ops::find(&b.op).is_some_and(|op| op.has_any(Traits::EFFECT.and(Traits::WRITES)));
    effect || b.block.as_ref().is_some_and(|block| block.body.iter().any(has_effect))
}

fn of_dim(dim: &Dim, f: &mut dyn FnMut(Symbol)) {
    dim.for_each_symbol(&mut |s| {
        if s.kind == SymKind::Data {
            f(s);
        }
    });
}

fn data_symbols(ty: &Type, f: &mut dyn FnMut(Symbol)) {
    match ty {
        Type::Tensor(t) => t.dims.iter().for_each(|d| of_dim(d, f)),
        Type::Number(n) => n.equals.iter().for_each(|d| of_dim(d, f)),
    }
}

/// For each value the run-time sizes that no value before it mentions.
fn first_mentions(trace: &Trace) -> Vec<Vec<Symbol>> {
    let mut seen = HashSet::new();
    let mut first = vec![Vec::new(); trace.values.len()];
    for b in trace.ops() {
        for v in b.defined() {
            data_symbols(trace.ty(v), &mut |s| {
                if seen.insert(s) {
                    first[v.index()].push(s);
                }
            });
        }
    }
    first
}
