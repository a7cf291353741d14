//! Flattening.

use crate::claim::{Claimed, LayoutNeed, Layouts, Mark, OpReport};
use crate::ir::{Arg, Bsym, Name, Stmt, Trace, ValueId};
use crate::ops::{self, Traits};
use rustc_hash::{FxHashMap, FxHashSet};

/// A claimed trace without composites that were taken apart.
#[derive(Clone, Debug)]
pub struct Flat {
    /// Every op has an executor.
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
    /// What is known of it from before.
    pub mark: Mark,
}

impl Flat {
    /// As it was claimed, so that some of it can be claimed anew.
    pub fn into_claimed(self) -> Claimed {
        let Flat { trace, layouts, origins, reports } = self;
        let starts = origins.iter().map(|o| o.report).collect();
        let marks = origins.into_iter().map(|o| o.mark).collect();
        Claimed { trace, reports, starts, marks, layouts }
    }
}

/// Flattens a claimed trace.
pub fn flatten(claimed: Claimed) -> Flat {
    let Claimed { mut trace, reports, starts, marks, layouts } = claimed;
    let body = std::mem::take(&mut trace.body);
    let mut flat = Flatten {
        trace: &mut trace,
        renamed: FxHashMap::default(),
        body: Vec::with_capacity(body.len()),
        next_report: 0,
        reports: &reports,
        given: FxHashSet::default(),
    };
    let mut whole = Vec::with_capacity(body.len());
    for ((stmt, start), mark) in body.into_iter().zip(starts).zip(marks) {
        if let Stmt::Op(bsym) = stmt {
            flat.next_report = start;
            flat.op(bsym);
            whole.resize(flat.body.len(), mark);
        }
    }
    let Flatten { renamed, body, given, .. } = flat;
    for output in &mut trace.outputs {
        output.value = resolve_in(&renamed, &output.value);
    }
    for v in &mut trace.save {
        if let Some(Arg::Value(new)) = renamed.get(v) {
            *v = *new;
        }
    }
    let body = body
        .into_iter()
        .zip(whole)
        .map(|((bsym, report, layout), mark)| (bsym, Origin { report, layout, mark }));
    let (body, origins) = live(&trace, body.collect());
    name_apart(&mut trace, &body, &given);
    trace.body = body;
    Flat { trace, layouts, origins, reports }
}

/// The ops of a call that was claimed, flat: itself, or its parts. `reports` are the call's and its parts'.
pub fn flatten_call(trace: &mut Trace, bsym: Bsym, reports: &[OpReport]) -> Vec<(Bsym, LayoutNeed)> {
    let mut flat = Flatten {
        trace,
        renamed: FxHashMap::default(),
        body: Vec::new(),
        next_report: 0,
        reports,
        given: FxHashSet::default(),
    };
    flat.op(bsym);
    flat.body.into_iter().map(|(bsym, _, layout)| (bsym, layout)).collect()
}

struct Flatten<'a> {
    trace: &'a mut Trace,
    /// Results of ops taken apart, and what stands for them.
    renamed: FxHashMap<ValueId, Arg>,
    /// With report and layout.
    body: Vec<(Bsym, usize, LayoutNeed)>,
    next_report: usize,
    reports: &'a [OpReport],
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
            self.body.push((bsym, report, self.reports[report].layout));
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
