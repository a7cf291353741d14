//! What is known without running: calls that pass an argument on, numbers, conditions that hold.
//!
//! A call passes its argument on when its op says so (`Op::same`), when it is a view that maps any strides to
//! themselves, or when it is a composite whose decomposition does nothing else. Such calls stay where gradients are
//! still to be made (a `detach` is one), and where their result is returned or saved: its name is part of the
//! program's surface. A number is known by its type (`int(4)`) or worked out by what the host itself would do.
//!
//! What is folded is left behind, dead, for `dce`; only checks that hold are dropped here, since nothing else may.

use super::Purpose;
use super::replace::{Replace, handed_out};
use super::specialise::substituted;
use crate::ir::{Arg, Bsym, Dim, NumKind, NumberType, Stmt, Symbol, Trace, Type, ValueId};
use crate::ops::{self, Call, HostOp, Level, Num, Op, Traits, build};
use rustc_hash::FxHashMap;

/// The trace with everything known put in place. A number that turns out to be known may be what a size is: then that is
/// known, too, and so is more behind it.
pub fn fold(mut trace: Trace, purpose: Purpose) -> Trace {
    loop {
        let known = fold_once(&mut trace, purpose);
        if known.is_empty() {
            return trace;
        }
        // Each time some symbols are gone, so this ends.
        trace = substituted(&trace, &|symbol| known.get(&symbol).copied());
    }
}

/// Gives the symbols that numbers define which are known now.
fn fold_once(trace: &mut Trace, purpose: Purpose) -> FxHashMap<Symbol, i64> {
    let mut known = FxHashMap::default();
    let pinned = handed_out(trace);
    let mut replace = Replace::new(trace);
    for p in &trace.params {
        known_by_type(trace, p.value, &mut replace);
    }
    let mut body = Vec::with_capacity(trace.body.len());
    for mut stmt in std::mem::take(&mut trace.body) {
        if let Stmt::Op(b) = &mut stmt {
            replace.bsym(b);
            if holds(b) {
                continue;
            }
            numbers(trace, b, &mut replace);
            known.extend(b.defined().filter_map(|v| defined_symbol(trace, v, &replace)));
            let named = b.defined().any(|v| pinned[v.index()]);
            if purpose == Purpose::Values && !named {
                passed_on(trace, b, &mut replace);
            }
        }
        body.push(stmt);
    }
    trace.body = body;
    replace.outputs(trace);
    known
}

/// Is it a check whose condition is known to hold?
fn holds(b: &Bsym) -> bool {
    let check = ops::find(&b.op).is_some_and(|op| matches!(op.host, Some(HostOp::Check)));
    check && b.args.first() == Some(&Arg::Bool(true))
}

// ---- numbers ---------------------------------------------------------------------------------------------------

/// Results that are known numbers stand for themselves from here on.
fn numbers(trace: &Trace, b: &Bsym, replace: &mut Replace) {
    let op = ops::find(&b.op);
    if op.is_some_and(|op| op.has_any(Traits::EFFECT.and(Traits::WRITES))) {
        return;
    }
    for v in b.defined() {
        known_by_type(trace, v, replace);
    }
    if let (Some(Op { host: Some(HostOp::Number(f)), .. }), [Some(v)]) = (op, b.results.as_slice())
        && replace.get(*v).is_none()
        && let Some(known) = b.args.iter().map(known_number).collect::<Option<Vec<Num>>>()
        && let Ok(number) = f(&known)
    {
        replace.insert(*v, &number.to_arg());
    }
}

/// `int(4)` is 4.
fn known_by_type(trace: &Trace, v: ValueId, replace: &mut Replace) {
    if let Type::Number(NumberType { kind: NumKind::Int, equals: Some(Dim::Known(n)) }) = trace.ty(v) {
        replace.insert(v, &Arg::Int(*n));
    }
}

/// The symbol that a known number defines.
fn defined_symbol(trace: &Trace, v: ValueId, replace: &Replace) -> Option<(Symbol, i64)> {
    let (Type::Number(ty), Some(Arg::Int(n))) = (trace.ty(v), replace.get(v)) else { return None };
    Some((ty.equals.as_ref()?.as_symbol()?, *n))
}

fn known_number(arg: &Arg) -> Option<Num> {
    match arg {
        Arg::Dim(_) => None,
        other => Num::from_arg(other),
    }
}

// ---- calls that pass an argument on ----------------------------------------------------------------------------

/// What follows uses the argument instead of the result, where the call is one that passes it on.
fn passed_on(trace: &mut Trace, b: &Bsym, replace: &mut Replace) {
    if let Some(same) = same_as(trace, b, 0) {
        for (old, new) in b.results.iter().zip(&same) {
            if let Some(old) = old {
                replace.insert(*old, new);
            }
        }
    }
}

/// Decompositions are followed this deep; what is nothing but moved names is never nested deeper.
const MAX_DEPTH: usize = 4;

/// For each result the argument that it equals, or none where one of them is computed.
fn same_as(trace: &mut Trace, b: &Bsym, depth: usize) -> Option<Vec<Arg>> {
    let op = ops::find(&b.op)?;
    // An elementwise op that keeps its input is a view, too (a cast that casts nothing), or says `same`.
    let computes = op.is(Traits::POINTWISE) && !op.is(Traits::VIEW) && op.same.is_none();
    let excluded = Traits::EFFECT.and(Traits::WRITES).and(Traits::HOST).and(Traits::DATA_SIZED);
    if computes || op.has_any(excluded) || depth > MAX_DEPTH || !might_be_same(trace, b) {
        return None;
    }
    match &op.level {
        Level::Prim => same_prim(op, trace, b).map(|a| vec![a]),
        Level::Composite(_) => same_composite(trace, b, depth),
    }
}

/// Has each result the very type of an argument? Cheap, and false for nearly all.
fn might_be_same(trace: &Trace, b: &Bsym) -> bool {
    b.defined().next().is_some()
        && b.results.iter().all(|r| {
            r.is_some_and(|r| {
                let mut found = false;
                b.for_each_use(&mut |v| found |= trace.ty(v) == trace.ty(r));
                found
            })
        })
}

fn same_prim(op: &'static Op, trace: &Trace, b: &Bsym) -> Option<Arg> {
    let [Some(result)] = b.results[..] else { return None };
    let call = Call::new(op.name, ops::table::schema_of(op), trace, &b.args).ok()?;
    let same = match (op.same, op.view) {
        (Some(same), _) => same(&call)?,
        (None, Some(view)) => {
            let base = call.all_tensors().into_iter().next()?;
            keeps_strides(&call, view, base.rank()).then(|| base.arg())?
        }
        (None, None) => return None,
    };
    (trace.ty(same.value()?) == trace.ty(result)).then_some(same)
}

/// Does the view map strides to themselves? Asked with strides that no dims could give, so that nothing fits by chance.
fn keeps_strides(call: &Call, view: ops::ViewFn, rank: usize) -> bool {
    let strides: Vec<Dim> =
        (0..rank as i64).map(|i| Dim::Known(1_000_003 + 7_919 * (i + 1) * (i + 2))).collect();
    let offset = Dim::Known(104_729);
    view(call, &strides, &offset).is_some_and(|(s, o)| s == strides && o == offset)
}

/// A composite passes on what its decomposition passes on.
fn same_composite(trace: &mut Trace, b: &Bsym, depth: usize) -> Option<Vec<Arg>> {
    let outside = trace.values.len();
    let block = build::decompose(trace, b).ok().flatten();
    let same = block.and_then(|block| {
        let mut inner: FxHashMap<ValueId, Arg> = FxHashMap::default();
        let resolve = |inner: &FxHashMap<ValueId, Arg>, a: &Arg| {
            a.map_values(&mut |v| inner.get(&v).cloned().unwrap_or(Arg::Value(v)))
        };
        for s in &block.body {
            let mut call = s.op()?.clone();
            call.args.iter_mut().for_each(|a| *a = resolve(&inner, a));
            // One call that computes makes the whole compute: decompositions hold nothing that they don't use.
            let same = same_as(trace, &call, depth + 1)?;
            inner.extend(call.results.iter().zip(same).filter_map(|(r, a)| Some(((*r)?, a))));
        }
        let yields = block.yields.iter().map(|y| resolve(&inner, y));
        yields.map(|y| y.value().filter(|v| v.index() < outside).map(Arg::Value)).collect::<Option<Vec<_>>>()
    });
    trace.values.truncate(outside);
    let same = same?;
    let types_kept = b.results.iter().zip(&same).all(|(r, a)| match (r, a.value()) {
        (Some(r), Some(v)) => trace.ty(*r) == trace.ty(v),
        _ => false,
    });
    (types_kept && same.len() == b.results.len()).then_some(same)
}
