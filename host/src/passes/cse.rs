//! Calls that compute the same thing twice, once.
//!
//! The first of equal calls stays, under its name; what used a later one uses the first. Merged are calls of ops that
//! the table knows to depend on their arguments only: no effects, no results whose size only a run tells. Random ops
//! take seed and offset as arguments, so those with equal ones draw the same numbers. What is returned or saved keeps its own call, since its name is
//! part of the program's surface.

use super::replace::{Replace, handed_out};
use crate::ir::{Arg, Bsym, Name, Schema, Stmt, Trace, Type};
use crate::ops::{self, Traits};
use std::collections::HashMap;

/// What makes two calls equal.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    op: Name,
    args: Vec<Arg>,
    results: Vec<Option<Type>>,
}

/// The trace with equal calls merged.
pub fn cse(mut trace: Trace) -> Trace {
    let pinned = handed_out(&trace);
    let mut replace = Replace::new(&trace);
    let mut seen: HashMap<Key, usize> = HashMap::new();
    let mut body: Vec<Stmt> = Vec::with_capacity(trace.body.len());
    for mut stmt in std::mem::take(&mut trace.body) {
        if let Stmt::Op(b) = &mut stmt {
            replace.bsym(b);
            let key = key_of(&trace, b).filter(|_| !b.defined().any(|v| pinned[v.index()]));
            if let Some(key) = key {
                if let Some(Stmt::Op(first)) = seen.get(&key).map(|at| &mut body[*at]) {
                    merge(&mut replace, first, b);
                    continue;
                }
                seen.insert(key, body.len());
            } else if let Some(key) = key_of(&trace, b) {
                // Handed out: it stays, and later ones may use it.
                seen.entry(key).or_insert(body.len());
            }
        }
        body.push(stmt);
    }
    trace.body = body;
    replace.outputs(&mut trace);
    trace
}

/// None for calls that must not merge.
fn key_of(trace: &Trace, b: &Bsym) -> Option<Key> {
    let op = ops::find(&b.op)?;
    if op.has_any(Traits::EFFECT.and(Traits::WRITES).and(Traits::DATA_SIZED)) || b.results.is_empty() {
        return None;
    }
    let mut args = b.args.clone();
    if op.is(Traits::COMMUTATIVE) && operands_alone_differ(ops::table::schema_of(op), &args) {
        args[..2].sort_by_key(|a| a.value());
    }
    let results = b.results.iter().map(|r| r.map(|v| trace.ty(v).clone())).collect();
    Some(Key { op: b.op.clone(), args, results })
}

/// Do both operands stand first, and is everything behind them at its default (a scale of one of them, say)?
fn operands_alone_differ(schema: &Schema, args: &[Arg]) -> bool {
    let rest = schema.params.iter().zip(args).skip(2);
    args.len() >= 2
        && args[..2].iter().all(|a| a.value().is_some())
        && rest.into_iter().all(|(p, a)| p.absent_value().as_ref() == Some(a))
}

/// What used the later call's results uses the first one's; the first remembers where the later came from.
fn merge(replace: &mut Replace, first: &mut Bsym, later: &Bsym) {
    for (new, old) in first.results.iter().zip(&later.results) {
        if let (Some(new), Some(old)) = (new, old) {
            replace.insert(*old, &Arg::Value(*new));
        }
    }
    if let Some(node) = later.note("node") {
        match first.notes.iter_mut().find(|(k, _)| &**k == "merged") {
            Some((_, Arg::List(nodes))) => nodes.push(node.clone()),
            _ => first.notes.push(("merged".into(), Arg::List(vec![node.clone()]))),
        }
    }
}
