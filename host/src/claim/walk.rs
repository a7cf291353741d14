//! The claim walk.
//!
//! For each bound symbol, in order:
//! 1. What the host does itself (numbers, checks on numbers, `next_philox`) is the host's.
//! 2. What is only a view, as strides stand, is the host's: nobody is asked.
//! 3. The executors are asked in the config's order. Per executor: `allow`, `deny`, `fuel`, then the manifest's limits
//!    (no call), then, where the claim says so, the plugin's own check. The first that accepts has it.
//! 4. Nobody took a composite: it is decomposed one level and its parts are asked, in the same way. So level comes
//!    before order.
//! 5. Nobody took a prim, or an op without a decomposition: the last resort, if it takes it; else an error with
//!    everybody's reason.
//!
//! Every refusal is put on record. `check` is asked at most once per op, executor and level.
//!
//! A fusion executor takes no op that no region may hold. An op that its regions leave out is asked of those behind
//! ([`claim_again`]); one that it hands on, of those behind it, then of those it is like ([`claim_delegated`]).

use super::claims::{Asking, CandidateId, Claims};
use super::layout::Layouts;
use super::port::LayoutNeed;
use super::refusal::{Refusal, codes};
use super::spec::{OpSpec, SpecError};
use crate::ir::trace::origin;
use crate::ir::{Arg, Block, Bsym, Name, Stage, Stmt, Trace, ValueId, Who};
use crate::ops::{self, OpError, Traits};
use rustc_hash::FxHashMap;

/// Name of the reserved executor: views, copies, numbers, checks.
pub const HOST: &str = "host";

/// What happened to one op.
#[derive(Clone, Debug, PartialEq)]
pub struct OpReport {
    /// The op as asked: a composite or one of its parts.
    pub op: Name,
    /// Model node or value name.
    pub origin: Name,
    /// Its first result.
    pub value: Option<ValueId>,
    /// How deep in decompositions: 0 for an op of the program.
    pub depth: u32,
    /// Who has it; none: taken apart.
    pub executor: Option<Name>,
    /// Layout that the kernel needs.
    pub layout: LayoutNeed,
    /// Refusals before that, in the order asked.
    pub refusals: Vec<Refusal>,
    /// Is it outside the op table (opaque)?
    pub opaque: bool,
}

/// A claimed trace with its record.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// Stage `claimed`: each op has an executor or a block whose ops have.
    pub trace: Trace,
    /// One entry an op asked, in the order of the walk.
    pub reports: Vec<OpReport>,
    /// For each statement of the trace the index of its report; those of its parts follow.
    pub starts: Vec<usize>,
    /// For each statement.
    pub marks: Vec<Mark>,
    /// What is a view of what.
    pub layouts: Layouts,
}

/// What is known of a statement from before it was claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Who has been taken off its list.
    pub gone: Vec<CandidateId>,
    /// Stays in one region with the statements of the same number.
    pub fixed: Option<u32>,
}

/// What is taken off an op's list, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    /// The statement of the trace.
    pub stmt: usize,
    /// Who has it no more.
    pub executor: CandidateId,
    /// Why.
    pub refusal: Refusal,
}

/// Why claiming stopped.
#[derive(Clone, Debug, thiserror::Error, miette::Diagnostic)]
pub enum ClaimError {
    /// No executor takes the op, and it cannot be taken apart.
    #[error("no executor takes `{op}` at {origin}")]
    #[diagnostic(code(claim::unclaimed), help("{}", advice(op, source_line.as_deref(), refusals, parts_of, *opaque)))]
    Unclaimed {
        /// The op.
        op: Name,
        /// Where: node of the model, or value.
        origin: Name,
        /// The model's own source line, where the file records it.
        source_line: Option<Name>,
        /// Everybody's reason.
        refusals: Vec<Refusal>,
        /// The ops that it is a part of, the innermost first, with everybody's reason for not taking them whole.
        parts_of: Vec<(Name, Vec<Refusal>)>,
        /// Is it an op outside the table?
        opaque: bool,
    },
    /// An op's meta or decomposition refuses the call.
    #[error("{error} (at {origin})")]
    #[diagnostic(code(claim::op), help("the op does not take these arguments"))]
    Op {
        /// Where.
        origin: Name,
        /// What.
        error: OpError,
    },
    /// An argument that no executor can be given.
    #[error(transparent)]
    #[diagnostic(
        code(claim::argument),
        help("take the op apart in the model, or bring a plugin that claims what holds it")
    )]
    Spec(#[from] SpecError),
}

impl ClaimError {
    /// The same of an op that is a part of `op`, which nobody took whole for these reasons.
    fn part_of(mut self, op: &Name, whole: &[Refusal]) -> ClaimError {
        if let ClaimError::Unclaimed { parts_of, .. } = &mut self {
            parts_of.push((op.clone(), whole.to_vec()));
        }
        self
    }
}

/// Claims every op of `trace` (flat, sizes known but for data-dependent ones). `layouts` holds the strides of the trace's
/// parameters that are not contiguous; `marks` has one entry for each statement.
pub fn claim(
    mut trace: Trace,
    marks: Vec<Mark>,
    claims: &mut Claims<'_>,
    layouts: Layouts,
) -> Result<Claimed, ClaimError> {
    let body = std::mem::take(&mut trace.body);
    let kept = matches!(trace.stage, Stage::Claimed | Stage::Execution);
    trace.stage = Stage::Claimed;
    let all = claims.all();
    let mut layouts = layouts;
    let mut walk = Walk::new(&mut trace, &mut layouts, claims);
    walk.kept = kept;
    let mut claimed = Vec::with_capacity(body.len());
    let mut starts = Vec::with_capacity(body.len());
    for stmt in body {
        if let Stmt::Op(bsym) = stmt {
            starts.push(walk.reports.len());
            claimed.push(Stmt::Op(walk.op(bsym, 0, &all, Vec::new())?));
        }
    }
    let reports = walk.reports;
    trace.body = claimed;
    Ok(Claimed { trace, reports, starts, marks, layouts })
}

/// Asks again for the ops of a flat claimed trace that were released: those behind in the order, without those who are
/// gone. What was claimed by others stays theirs; `layouts` are those that claiming began with, since what is a view of
/// what is found anew. A host's view that turns out to be none any more is asked for like any op.
pub fn claim_again(
    claimed: Claimed,
    releases: Vec<Release>,
    claims: &mut Claims<'_>,
    layouts: Layouts,
) -> Result<Claimed, ClaimError> {
    let Claimed { mut trace, reports, starts, mut marks, .. } = claimed;
    let mut released: FxHashMap<usize, Release> = releases.into_iter().map(|r| (r.stmt, r)).collect();
    let body = std::mem::take(&mut trace.body);
    let mut layouts = layouts;
    let all = claims.all();
    let mut walk = Walk::new(&mut trace, &mut layouts, claims);
    let mut claimed_body = Vec::with_capacity(body.len());
    // For each old report what stands in its place.
    let mut replaced: FxHashMap<usize, Vec<OpReport>> = FxHashMap::default();
    for (at, stmt) in body.into_iter().enumerate() {
        let Stmt::Op(mut bsym) = stmt else { continue };
        let old = &reports[starts[at]];
        let view = walk.is_view_of_host(&bsym);
        let (asking, refusals) = match released.remove(&at) {
            Some(release) => {
                marks[at].gone.push(release.executor);
                marks[at].fixed = None;
                let mut refusals = old.refusals.clone();
                refusals.push(release.refusal);
                (walk.claims.behind(release.executor, &marks[at].gone), refusals)
            }
            None if view && !walk.try_view(&bsym)? => (all.clone(), old.refusals.clone()),
            None => {
                let entry = ops::find(&bsym.op);
                walk.written_value(&bsym, entry);
                claimed_body.push(Stmt::Op(bsym));
                continue;
            }
        };
        bsym.who = None;
        let bsym = walk.op(bsym, old.depth, &asking, refusals)?;
        replaced.insert(starts[at], std::mem::take(&mut walk.reports));
        claimed_body.push(Stmt::Op(bsym));
    }
    trace.body = claimed_body;
    let (reports, starts) = merge(reports, &starts, replaced);
    Ok(Claimed { trace, reports, starts, marks, layouts })
}

/// Puts the new reports in the places of the old ones.
fn merge(
    reports: Vec<OpReport>,
    starts: &[usize],
    mut replaced: FxHashMap<usize, Vec<OpReport>>,
) -> (Vec<OpReport>, Vec<usize>) {
    let mut merged = Vec::with_capacity(reports.len() + replaced.len());
    let mut moved = Vec::with_capacity(reports.len());
    for (at, report) in reports.into_iter().enumerate() {
        moved.push(merged.len());
        match replaced.remove(&at) {
            Some(new) => merged.extend(new),
            None => merged.push(report),
        }
    }
    let starts = starts.iter().map(|at| moved[*at]).collect();
    (merged, starts)
}

/// An op handed on, as it was claimed.
#[derive(Clone, Debug)]
pub struct Delegated {
    /// With its executor, or a block whose ops have one.
    pub bsym: Bsym,
    /// Its report, then those of its parts.
    pub reports: Vec<OpReport>,
    /// Results that lie in another value's memory, because the op was taken apart and yields a view.
    pub views: Vec<(ValueId, super::Strided)>,
}

/// Claims an op that the last of `chain` hands on. `gone` are others that cannot have it any more. The layouts of its
/// results stay off the record: see [`Delegated::views`].
pub fn claim_delegated(
    trace: &mut Trace,
    layouts: &mut Layouts,
    claims: &mut Claims<'_>,
    bsym: &Bsym,
    chain: &[CandidateId],
    gone: &[CandidateId],
) -> Result<Delegated, ClaimError> {
    let asking = claims.delegates(chain, gone);
    let mut bsym = bsym.clone();
    bsym.who = None;
    let mut walk = Walk::new(trace, layouts, claims);
    walk.alone = true;
    let refusals = Vec::new();
    let bsym = walk.op(bsym, 0, &asking, refusals)?;
    let reports = walk.reports;
    let views =
        bsym.defined().filter_map(|v| layouts.take(v).filter(|s| s.base != v).map(|s| (v, s))).collect();
    Ok(Delegated { bsym, reports, views })
}

struct Walk<'w, 'a> {
    trace: &'w mut Trace,
    layouts: &'w mut Layouts,
    claims: &'w mut Claims<'a>,
    reports: Vec<OpReport>,
    /// The trace says itself who runs what.
    kept: bool,
    /// The op is handed on: a fusion executor would have it as a region of one op, and fuel is not spent.
    alone: bool,
}

impl<'w, 'a> Walk<'w, 'a> {
    fn new(trace: &'w mut Trace, layouts: &'w mut Layouts, claims: &'w mut Claims<'a>) -> Walk<'w, 'a> {
        Walk { trace, layouts, claims, reports: Vec::new(), kept: false, alone: false }
    }

    /// `refusals`: those that there are already.
    fn op(
        &mut self,
        mut bsym: Bsym,
        depth: u32,
        asking: &Asking,
        mut refusals: Vec<Refusal>,
    ) -> Result<Bsym, ClaimError> {
        let entry = ops::find(&bsym.op);
        if let Some(who) = &bsym.who {
            // A claimed trace that is run as it says (rule 16 of the trace format). Who is not loaded, or now refuses, is
            // put on record; whoever needs the kernel says so.
            let executor = who.executor.clone();
            let mut kept = (LayoutNeed::Any, Vec::new());
            if &*executor == HOST {
                self.try_view(&bsym)?;
                self.written_value(&bsym, entry);
            } else if let Some(id) = self.claims.find(&executor) {
                let spec = self.spec(&bsym)?;
                match self.claims.takes(id, &spec) {
                    Ok(layout) => kept.0 = layout,
                    Err(refusal) => kept.1.push(refusal),
                }
            }
            self.report(&bsym, depth, Some(executor), kept.0, kept.1, entry.is_none());
            return Ok(bsym);
        }
        let host_op = entry.is_some_and(|op| op.host.is_some() || is_write(op));
        if host_op || self.try_view(&bsym)? {
            self.written_value(&bsym, entry);
            bsym.block = None;
            return Ok(self.won(bsym, depth, HOST.into(), LayoutNeed::Any, refusals, entry.is_none()));
        }
        // Who took the parts has been said already.
        let taken_apart = self.kept && bsym.block.is_some();
        if !taken_apart && let Some((name, layout)) = self.ask_all(&bsym, &asking.op, &mut refusals)? {
            bsym.block = None;
            return Ok(self.won(bsym, depth, name, layout, refusals, entry.is_none()));
        }
        match self.decompose(&bsym)? {
            Some(block) => {
                let whole = refusals.clone();
                self.report(&bsym, depth, None, LayoutNeed::Any, refusals, entry.is_none());
                let parts = Asking { op: asking.parts.clone(), parts: asking.parts.clone() };
                let mut body = Vec::with_capacity(block.body.len());
                for stmt in block.body {
                    if let Stmt::Op(mut inner) = stmt {
                        inherit_notes(&mut inner, &bsym);
                        let inner = self
                            .op(inner, depth + 1, &parts, Vec::new())
                            .map_err(|e| e.part_of(&bsym.op, &whole))?;
                        body.push(Stmt::Op(inner));
                    }
                }
                self.yielded_layouts(&bsym, &block.yields);
                bsym.block = Some(Box::new(Block { body, yields: block.yields }));
                Ok(bsym)
            }
            None => self.unclaimed(bsym, depth, refusals, entry.is_none()),
        }
    }

    /// Is it one of the host's views (and not one of its numbers, checks or writes)?
    fn is_view_of_host(&self, bsym: &Bsym) -> bool {
        let of_host = bsym.who.as_ref().is_some_and(|who| &*who.executor == HOST);
        of_host && ops::find(&bsym.op).is_some_and(|op| op.host.is_none() && !is_write(op))
    }

    /// The new value of a written parameter is the value written.
    fn written_value(&mut self, bsym: &Bsym, entry: Option<&ops::Op>) {
        if let (true, Some(result), Some(source)) =
            (entry.is_some_and(is_write), bsym.defined().next(), bsym.args.first().and_then(Arg::value))
        {
            let strided = self.layouts.of(self.trace, source);
            self.layouts.set(result, strided);
        }
    }

    /// The results of an op taken apart lie where what it yields lies.
    fn yielded_layouts(&mut self, bsym: &Bsym, yields: &[Arg]) {
        for (result, yielded) in bsym.results.iter().zip(yields) {
            if let (Some(result), Some(yielded)) = (result, yielded.value())
                && self.trace.ty(yielded).tensor().is_some()
            {
                let strided = self.layouts.of(self.trace, yielded);
                self.layouts.set(*result, strided);
            }
        }
    }

    fn try_view(&mut self, bsym: &Bsym) -> Result<bool, ClaimError> {
        let at = origin(self.trace, bsym);
        self.layouts.try_view(self.trace, bsym).map_err(|error| ClaimError::Op { origin: at, error })
    }

    fn decompose(&mut self, bsym: &Bsym) -> Result<Option<Block>, ClaimError> {
        let at = origin(self.trace, bsym);
        ops::build::decompose(self.trace, bsym).map_err(|error| ClaimError::Op { origin: at, error })
    }

    /// The first of `who` that accepts.
    fn ask_all(
        &mut self,
        bsym: &Bsym,
        who: &[CandidateId],
        refusals: &mut Vec<Refusal>,
    ) -> Result<Option<(Name, LayoutNeed)>, ClaimError> {
        // Nested traces are the host's to run: nobody can be asked about a call that holds one.
        if who.is_empty() || bsym.args.iter().any(|a| matches!(a, Arg::Trace(_))) {
            return Ok(None);
        }
        let spec = match self.spec(bsym) {
            Ok(spec) => spec,
            // A composite that cannot be put as a question is taken apart, and its parts are asked.
            Err(error) if is_composite(bsym) => {
                let names = who.iter().map(|at| self.claims.candidates[*at].executor.name());
                refusals.extend(names.map(|name| Refusal::new(name, codes::NO_QUESTION, error.to_string())));
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let draws = ops::find(&bsym.op).is_none() && ops::aten_schema::draws(&bsym.op, &bsym.args);
        for &at in who {
            if let Err(refusal) = (self.claims.candidates[at].permits)(&bsym.op) {
                refusals.push(refusal);
                continue;
            }
            if draws {
                let name = self.claims.candidates[at].executor.name();
                let sentence =
                    "it draws random numbers from a generator of ATen's own, which takes no offset";
                refusals.push(Refusal::new(name, codes::RANDOM, sentence));
                continue;
            }
            let fits = self.claims.fits_region(at, self.trace, bsym, self.alone);
            let answer = match self.claims.takes(at, &spec) {
                Ok(layout) => fits.map(|()| layout),
                Err(refusal) => Err(refusal),
            };
            let candidate = &mut self.claims.candidates[at];
            match answer {
                Ok(_) if candidate.fuel == Some(0) && !self.alone => {
                    let name = candidate.executor.name();
                    refusals.push(Refusal::new(name, codes::OUT_OF_FUEL, "its `fuel` is used up"));
                }
                Ok(layout) => {
                    if let (Some(fuel), false) = (&mut candidate.fuel, self.alone) {
                        *fuel -= 1;
                    }
                    return Ok(Some((candidate.executor.name().into(), layout)));
                }
                Err(refusal) => refusals.push(refusal),
            }
        }
        Ok(None)
    }

    fn unclaimed(
        &mut self,
        bsym: Bsym,
        depth: u32,
        mut refusals: Vec<Refusal>,
        opaque: bool,
    ) -> Result<Bsym, ClaimError> {
        match self.claims.last_resort {
            Some(last) => {
                let spec = self.spec(&bsym)?;
                match self.claims.takes(last, &spec) {
                    Ok(layout) => {
                        let name = self.claims.name(last).into();
                        return Ok(self.won(bsym, depth, name, layout, refusals, opaque));
                    }
                    Err(refusal) => {
                        if !refusals.iter().any(|r| r.executor == refusal.executor) {
                            refusals.push(refusal);
                        }
                    }
                }
            }
            None => refusals.push(Refusal::new("reference", codes::DISABLED, "last_resort = \"none\"")),
        }
        let source_line = match bsym.note("src") {
            Some(Arg::Str(line)) => Some(line.clone()),
            _ => None,
        };
        Err(ClaimError::Unclaimed {
            origin: origin(self.trace, &bsym),
            op: bsym.op,
            source_line,
            refusals,
            parts_of: Vec::new(),
            opaque,
        })
    }

    fn spec(&self, bsym: &Bsym) -> Result<OpSpec, SpecError> {
        let mut spec = OpSpec::of(self.trace, bsym, self.claims.schemas)?;
        for t in &mut spec.inputs {
            t.constant = (self.claims.constant_of)(t.value);
        }
        Ok(spec)
    }

    fn won(
        &mut self,
        mut bsym: Bsym,
        depth: u32,
        name: Name,
        layout: LayoutNeed,
        refusals: Vec<Refusal>,
        opaque: bool,
    ) -> Bsym {
        self.report(&bsym, depth, Some(name.clone()), layout, refusals, opaque);
        bsym.who = Some(Who { executor: name, delegate: None });
        bsym
    }

    fn report(
        &mut self,
        bsym: &Bsym,
        depth: u32,
        executor: Option<Name>,
        layout: LayoutNeed,
        refusals: Vec<Refusal>,
        opaque: bool,
    ) {
        self.reports.push(OpReport {
            op: bsym.op.clone(),
            origin: origin(self.trace, bsym),
            value: bsym.defined().next(),
            depth,
            executor,
            layout,
            refusals,
            opaque,
        });
    }
}

/// The one write (`prims.copy_`) is carried out by the host when the run has succeeded. It is the table's only op with
/// an effect on a tensor that is a parameter; checks have no result.
fn is_write(op: &ops::Op) -> bool {
    op.is(Traits::EFFECT.and(Traits::WRITES))
}

/// Parts of a composite come from the same place of the model.
fn inherit_notes(inner: &mut Bsym, outer: &Bsym) {
    if inner.notes.is_empty() {
        inner.notes = outer.notes.clone();
    }
}

/// Who refused and why, and what to do: the help of [`ClaimError::Unclaimed`].
fn advice(
    op: &str,
    source_line: Option<&str>,
    refusals: &[Refusal],
    parts_of: &[(Name, Vec<Refusal>)],
    opaque: bool,
) -> String {
    let mut text = String::new();
    if let Some(line) = source_line {
        text.push_str(&format!("source {line}\n"));
    }
    let reason = |r: &Refusal| {
        let at = r.at.as_ref().map_or_else(String::new, |at| format!(" ({at})"));
        format!("{}: {}: {}{at}\n", r.executor, r.code, r.sentence)
    };
    refusals.iter().for_each(|r| text.push_str(&reason(r)));
    for (whole, refusals) in parts_of {
        text.push_str(&format!("it is a part of `{whole}`\n"));
        refusals.iter().for_each(|r| text.push_str(&reason(r)));
    }
    let last_resort_is_off = refusals.iter().any(|r| r.code == codes::DISABLED);
    let aten = op.strip_prefix("vjp.").unwrap_or(op).starts_with("aten.");
    text.push_str(&match (opaque, last_resort_is_off) {
        (true, _) if refusals.iter().any(|r| r.code == codes::RANDOM) => {
            format!("`{op}` is not in the op table, and nobody else draws its numbers as `--seed` says: export the model in evaluation mode")
        }
        (true, _) if aten => format!(
            "`{op}` is not in the op table: put an executor that claims it in the order (`pytorch` claims `aten.*`), or bring it: \
             a plugin whose manifest claims `{op}`, or an entry in the op table (`host/src/ops/`) with its decomposition"
        ),
        (true, _) => format!("`{op}` needs the plugin that brings it: put its executor in the order"),
        (false, true) => "set last_resort = \"reference\", or put an executor that claims it in the order".into(),
        (false, false) => "put an executor that claims it in the order".into(),
    });
    text
}

fn is_composite(bsym: &Bsym) -> bool {
    ops::find(&bsym.op).is_some_and(|op| matches!(op.level, ops::Level::Composite(_)))
}
