//! Flattening.

use crate::claim::{Claimed, LayoutNeed, Layouts, OpReport};
use crate::ir::{Arg, Bsym, Name, Stage, Stmt, Trace, ValueId};
use crate::ops::{self, Traits};
use rustc_hash::{FxHashMap, FxHashSet};

/// An execution trace without `del` lines, and what the plan must know of each of its ops.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// Stage `execution`; every op has an executor.
    pub trace: Trace,
    /// What is a view of what, for all values of `trace`.
    pub layouts: Layouts,
    /// For each statement of the trace's body, in order.
    pub origins: Vec<Origin>,
    /// The claim walk's record.
    pub reports: Vec<OpReport>,
}

/// Where a statement comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Index of its report.
    pub report: usize,
    /// Layout that its kernel needs.
    pub layout: LayoutNeed,
}

/// Flattens a claimed trace.
pub fn flatten(claimed: Claimed) -> Lowered {
    let Claimed { mut trace, reports, layouts, .. } = claimed;
    let body = std::mem::take(&mut trace.body);
    let mut flat = Flatten {
        trace,
        renamed: FxHashMap::default(),
        body: Vec::with_capacity(body.len()),
        next_report: 0,
        reports: &reports,
        layouts,
        given: FxHashSet::default(),
    };
    flat.statements(body);
    let Flatten { mut trace, renamed, body, layouts, given, .. } = flat;
    for output in &mut trace.outputs {
        output.value = resolve_in(&renamed, &output.value);
    }
    for v in &mut trace.save {
        if let Some(Arg::Value(new)) = renamed.get(v) {
            *v = *new;
        }
    }
    trace.stage = Stage::Execution;
    let (body, origins) = live(&trace, body);
    name_apart(&mut trace, &body, &given);
    trace.body = body;
    Lowered { trace, layouts, origins, reports }
}

struct Flatten<'a> {
    trace: Trace,
    /// Results of ops taken apart, and what stands for them.
    renamed: FxHashMap<ValueId, Arg>,
    body: Vec<(Bsym, Origin)>,
    next_report: usize,
    reports: &'a [OpReport],
    layouts: Layouts,
    /// Values that took the name of a composite's result.
    given: FxHashSet<ValueId>,
}

impl Flatten<'_> {
    fn statements(&mut self, body: Vec<Stmt>) {
        for stmt in body {
            if let Stmt::Op(bsym) = stmt {
                self.op(bsym);
            }
        }
    }

    /// Reports are in the order of the walk: a composite's, then its parts'.
    fn op(&mut self, mut bsym: Bsym) {
        let report = self.next_report;
        self.next_report += 1;
        if bsym.who.is_some() {
            for a in bsym.args.iter_mut().chain(bsym.named.iter_mut().map(|(_, a)| a)) {
                *a = resolve_in(&self.renamed, a);
            }
            self.body.push((bsym, Origin { report, layout: self.reports[report].layout }));
            return;
        }
        let Some(block) = bsym.block.take() else { return };
        // Values of a decomposition are named after the first result.
        let first = bsym.defined().next().map(|v| self.trace.value(v).name.clone());
        self.statements(block.body);
        for (result, yielded) in bsym.results.iter().zip(&block.yields) {
            let Some(result) = result else { continue };
            let stands = resolve_in(&self.renamed, yielded);
            if let Arg::Value(v) = stands
                && first.as_ref().is_some_and(|first| self.is_inner(v, *result, first))
            {
                self.trace.values[v.index()].name = self.trace.value(*result).name.clone();
                self.given.insert(v);
            }
            self.renamed.insert(*result, stands);
        }
    }

    /// Was the value made for the decomposition whose first result is called `first`, so that it may take the name of
    /// `result`?
    fn is_inner(&self, v: ValueId, result: ValueId, first: &str) -> bool {
        self.trace.value(v).name.strip_prefix(first).is_some_and(|rest| rest.starts_with('.')) && v > result
    }
}

/// Makes the names of the flat trace unique: results keep theirs, parts of decompositions give way.
fn name_apart(trace: &mut Trace, body: &[Stmt], given: &FxHashSet<ValueId>) {
    let mut taken: FxHashSet<Name> = trace.params.iter().map(|p| trace.value(p.value).name.clone()).collect();
    taken.extend(given.iter().map(|v| trace.value(*v).name.clone()));
    let defined: Vec<ValueId> = body.iter().filter_map(Stmt::op).flat_map(Bsym::defined).collect();
    for v in defined {
        if given.contains(&v) {
            continue;
        }
        let name = trace.value(v).name.clone();
        let mut free = name.clone();
        let mut n = 0u32;
        while !taken.insert(free.clone()) {
            free = format!("{name}.p{n}").into();
            n += 1;
        }
        trace.values[v.index()].name = free;
    }
}

fn resolve_in(renamed: &FxHashMap<ValueId, Arg>, arg: &Arg) -> Arg {
    arg.map_values(&mut |v| renamed.get(&v).cloned().unwrap_or(Arg::Value(v)))
}

/// Keeps what has an effect or is needed by what is kept.
fn live(trace: &Trace, body: Vec<(Bsym, Origin)>) -> (Vec<Stmt>, Vec<Origin>) {
    let mut needed = vec![false; trace.values.len()];
    let need = |a: &Arg, needed: &mut Vec<bool>| a.for_each_value(&mut |v| needed[v.index()] = true);
    trace.outputs.iter().for_each(|o| need(&o.value, &mut needed));
    trace.save.iter().for_each(|v| needed[v.index()] = true);
    let mut kept: Vec<(Bsym, Origin)> = Vec::with_capacity(body.len());
    for (bsym, origin) in body.into_iter().rev() {
        let effect = ops::find(&bsym.op).is_some_and(|op| op.is(Traits::EFFECT));
        if effect || bsym.defined().any(|v| needed[v.index()]) {
            bsym.for_each_use(&mut |v| needed[v.index()] = true);
            kept.push((bsym, origin));
        }
    }
    kept.reverse();
    kept.into_iter().map(|(b, o)| (Stmt::Op(b), o)).unzip()
}
