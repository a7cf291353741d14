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

use super::layout::Layouts;
use super::port::{Claimant, LayoutNeed, StaticClaim};
use super::refusal::{Refusal, codes};
use super::spec::{OpSpec, SpecError};
use crate::ir::trace::origin;
use crate::ir::{Arg, Block, Bsym, Name, Schemas, Stage, Stmt, Trace, ValueId, Who};
use crate::ops::{self, OpError, Traits};

/// Name of the reserved executor: views, copies, numbers, checks.
pub const HOST: &str = "host";

/// An executor in the order, with what the config says of it.
pub struct Candidate<'a> {
    /// The executor.
    pub executor: &'a dyn Claimant,
    /// Does the config let it have the op?
    pub permits: &'a dyn Fn(&str) -> Result<(), Refusal>,
    /// How many claims it may still win; none: no limit.
    pub fuel: Option<u64>,
}

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
    /// One entry an op asked, in the order of the walk. Claimed ops are in the order of execution.
    pub reports: Vec<OpReport>,
    /// What is a view of what.
    pub layouts: Layouts,
    /// How often plugins were asked by a call.
    pub n_checks: u64,
}

/// Why claiming stopped.
#[derive(Clone, Debug, thiserror::Error, miette::Diagnostic)]
pub enum ClaimError {
    /// No executor takes the op, and it cannot be taken apart.
    #[error("no executor takes `{op}` at {origin}")]
    #[diagnostic(code(claim::unclaimed), help("{}", advice(op, source_line.as_deref(), refusals, *opaque)))]
    Unclaimed {
        /// The op.
        op: Name,
        /// Where: node of the model, or value.
        origin: Name,
        /// The model's own source line, where the file records it.
        source_line: Option<Name>,
        /// Everybody's reason.
        refusals: Vec<Refusal>,
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

/// Claims every op of `trace` (flat, sizes known but for data-dependent ones). `constant_of` gives the id of a
/// parameter, buffer or constant; `layouts` holds the strides of the trace's parameters that are not contiguous.
pub fn claim(
    mut trace: Trace,
    order: &mut [Candidate<'_>],
    last_resort: Option<&dyn Claimant>,
    schemas: &dyn Schemas,
    layouts: Layouts,
    constant_of: &dyn Fn(ValueId) -> u64,
) -> Result<Claimed, ClaimError> {
    let body = std::mem::take(&mut trace.body);
    trace.stage = Stage::Claimed;
    let mut walk = Walk {
        trace,
        order,
        last_resort,
        schemas,
        layouts,
        constant_of,
        reports: Vec::with_capacity(body.len()),
        n_checks: 0,
    };
    let mut claimed = Vec::with_capacity(body.len());
    for stmt in body {
        if let Stmt::Op(bsym) = stmt {
            claimed.push(Stmt::Op(walk.op(bsym, 0)?));
        }
    }
    walk.trace.body = claimed;
    Ok(Claimed { trace: walk.trace, reports: walk.reports, layouts: walk.layouts, n_checks: walk.n_checks })
}

struct Walk<'a, 'b> {
    trace: Trace,
    order: &'a mut [Candidate<'b>],
    last_resort: Option<&'a dyn Claimant>,
    schemas: &'a dyn Schemas,
    layouts: Layouts,
    constant_of: &'a dyn Fn(ValueId) -> u64,
    reports: Vec<OpReport>,
    n_checks: u64,
}

impl Walk<'_, '_> {
    fn op(&mut self, mut bsym: Bsym, depth: u32) -> Result<Bsym, ClaimError> {
        let entry = ops::find(&bsym.op);
        if let Some(who) = &bsym.who {
            // A claimed trace that is run as it says (rule 16 of the trace format): kept, checked by the caller.
            let executor = who.executor.clone();
            if &*executor == HOST {
                self.try_view(&bsym)?;
            }
            self.report(&bsym, depth, Some(executor), LayoutNeed::Any, Vec::new(), entry.is_none());
            return Ok(bsym);
        }
        let host_op = entry.is_some_and(|op| op.host.is_some() || is_write(op));
        if host_op || self.try_view(&bsym)? {
            self.written_value(&bsym, entry);
            bsym.block = None;
            return Ok(self.won(bsym, depth, HOST.into(), LayoutNeed::Any, Vec::new(), entry.is_none()));
        }
        let mut refusals = Vec::new();
        if let Some((name, layout)) = self.ask_all(&bsym, &mut refusals)? {
            bsym.block = None;
            return Ok(self.won(bsym, depth, name, layout, refusals, entry.is_none()));
        }
        match self.decompose(&bsym)? {
            Some(block) => {
                self.report(&bsym, depth, None, LayoutNeed::Any, refusals, entry.is_none());
                let mut body = Vec::with_capacity(block.body.len());
                for stmt in block.body {
                    if let Stmt::Op(mut inner) = stmt {
                        inherit_notes(&mut inner, &bsym);
                        body.push(Stmt::Op(self.op(inner, depth + 1)?));
                    }
                }
                self.yielded_layouts(&bsym, &block.yields);
                bsym.block = Some(Box::new(Block { body, yields: block.yields }));
                Ok(bsym)
            }
            None => self.unclaimed(bsym, depth, refusals, entry.is_none()),
        }
    }

    /// The new value of a written parameter is the value written.
    fn written_value(&mut self, bsym: &Bsym, entry: Option<&ops::Op>) {
        if let (true, Some(result), Some(source)) =
            (entry.is_some_and(is_write), bsym.defined().next(), bsym.args.first().and_then(Arg::value))
        {
            let strided = self.layouts.of(&self.trace, source);
            self.layouts.set(result, strided);
        }
    }

    /// The results of an op taken apart lie where what it yields lies.
    fn yielded_layouts(&mut self, bsym: &Bsym, yields: &[Arg]) {
        for (result, yielded) in bsym.results.iter().zip(yields) {
            if let (Some(result), Some(yielded)) = (result, yielded.value())
                && self.trace.ty(yielded).tensor().is_some()
            {
                let strided = self.layouts.of(&self.trace, yielded);
                self.layouts.set(*result, strided);
            }
        }
    }

    fn try_view(&mut self, bsym: &Bsym) -> Result<bool, ClaimError> {
        let at = origin(&self.trace, bsym);
        self.layouts.try_view(&mut self.trace, bsym).map_err(|error| ClaimError::Op { origin: at, error })
    }

    fn decompose(&mut self, bsym: &Bsym) -> Result<Option<Block>, ClaimError> {
        let at = origin(&self.trace, bsym);
        ops::build::decompose(&mut self.trace, bsym).map_err(|error| ClaimError::Op { origin: at, error })
    }

    /// The first executor in the order that accepts.
    fn ask_all(
        &mut self,
        bsym: &Bsym,
        refusals: &mut Vec<Refusal>,
    ) -> Result<Option<(Name, LayoutNeed)>, ClaimError> {
        if self.order.is_empty() {
            return Ok(None);
        }
        let spec = match self.spec(bsym) {
            Ok(spec) => spec,
            // A composite that cannot be put as a question is taken apart, and its parts are asked.
            Err(error) if is_composite(bsym) => {
                let names = self.order.iter().map(|candidate| candidate.executor.name());
                refusals.extend(names.map(|name| Refusal::new(name, codes::NO_QUESTION, error.to_string())));
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        for at in 0..self.order.len() {
            let candidate = &self.order[at];
            let executor = candidate.executor;
            if let Err(refusal) = (candidate.permits)(&bsym.op) {
                refusals.push(refusal);
                continue;
            }
            match ask(executor, &spec, &mut self.n_checks) {
                Ok(_) if candidate.fuel == Some(0) => {
                    refusals.push(Refusal::new(executor.name(), codes::OUT_OF_FUEL, "its `fuel` is used up"));
                }
                Ok(layout) => {
                    if let Some(fuel) = &mut self.order[at].fuel {
                        *fuel -= 1;
                    }
                    return Ok(Some((executor.name().into(), layout)));
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
        match self.last_resort {
            Some(executor) => {
                let spec = self.spec(&bsym)?;
                match ask(executor, &spec, &mut self.n_checks) {
                    Ok(layout) => {
                        return Ok(self.won(bsym, depth, executor.name().into(), layout, refusals, opaque));
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
            origin: origin(&self.trace, &bsym),
            op: bsym.op,
            source_line,
            refusals,
            opaque,
        })
    }

    fn spec(&self, bsym: &Bsym) -> Result<OpSpec, SpecError> {
        let mut spec = OpSpec::of(&self.trace, bsym, self.schemas)?;
        for t in &mut spec.inputs {
            t.constant = (self.constant_of)(t.value);
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
            origin: origin(&self.trace, bsym),
            value: bsym.defined().next(),
            depth,
            executor,
            layout,
            refusals,
            opaque,
        });
    }
}

/// Limits, then check.
fn ask(executor: &dyn Claimant, spec: &OpSpec, n_checks: &mut u64) -> Result<LayoutNeed, Refusal> {
    match executor.limits(spec) {
        StaticClaim::Refused(refusal) => Err(refusal),
        StaticClaim::Within { check: false, layout } => Ok(layout),
        StaticClaim::Within { check: true, layout } => {
            *n_checks += 1;
            executor.check(spec).map(|()| layout)
        }
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
fn advice(op: &str, source_line: Option<&str>, refusals: &[Refusal], opaque: bool) -> String {
    let mut text = String::new();
    if let Some(line) = source_line {
        text.push_str(&format!("source {line}\n"));
    }
    for r in refusals {
        let at = r.at.as_ref().map_or_else(String::new, |at| format!(" ({at})"));
        text.push_str(&format!("{}: {}: {}{at}\n", r.executor, r.code, r.sentence));
    }
    let last_resort_is_off = refusals.iter().any(|r| r.code == codes::DISABLED);
    text.push_str(&match (opaque, last_resort_is_off) {
        (true, _) if op.starts_with("aten.") => {
            format!("`{op}` is not in the op table: put an executor that claims it in the order (`pytorch` claims `aten.*`)")
        }
        (true, _) => format!("`{op}` needs the plugin that brings it: put its executor in the order"),
        (false, true) => "set last_resort = \"reference\", or put an executor that claims it in the order".into(),
        (false, false) => "put an executor that claims it in the order".into(),
    });
    text
}

fn is_composite(bsym: &Bsym) -> bool {
    ops::find(&bsym.op).is_some_and(|op| matches!(op.level, ops::Level::Composite(_)))
}
