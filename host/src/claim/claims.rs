//! Who may be asked, and what was answered.
//!
//! Invariant: `check` is asked at most once per op, executor and level as long as a [`Claims`] lives, whoever asks: the
//! claim walk, an executor that is like another, a delegated op.

use super::port::{Claimant, LayoutNeed, StaticClaim};
use super::refusal::{Refusal, codes};
use super::spec::OpSpec;
use crate::ir::{Arg, Bsym, Dim, Name, Schemas, SymKind, Symbol, Trace, Type, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use thunderhead_manifest::{Glob, RegionRules};

/// Index of a candidate.
pub type CandidateId = usize;

/// An executor that is loaded, with what the config says of it.
pub struct Candidate<'a> {
    /// The executor.
    pub executor: &'a dyn Claimant,
    /// Does the config let it have the op?
    pub permits: &'a dyn Fn(&str) -> Result<(), Refusal>,
    /// How many claims it may still win; none: no limit.
    pub fuel: Option<u64>,
    /// For an executor of kind `fusion`.
    pub fusion: Option<Fusion>,
    /// Whom it is like, transitively, in the order in which ops are handed on to them.
    pub like: Vec<CandidateId>,
}

/// What is said of the regions of an executor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fusion {
    /// Names them.
    pub label: Name,
    /// Which ones it wants.
    pub rules: RegionRules,
    /// Does the plugin want to be asked for proposals?
    pub proposes: bool,
}

/// All candidates, and their answers.
pub struct Claims<'a> {
    pub(super) candidates: Vec<Candidate<'a>>,
    /// The first so many are the config's order; the others are loaded because somebody is like them.
    pub(super) n_order: usize,
    /// Asked last; none: `last_resort = "none"`.
    pub(super) last_resort: Option<CandidateId>,
    pub(super) schemas: &'a dyn Schemas,
    /// Id of a parameter's constant; 0: none.
    pub(super) constant_of: &'a dyn Fn(ValueId) -> u64,
    checks: FxHashMap<(ValueId, Name, CandidateId), Result<(), Refusal>>,
    n_checks: u64,
}

/// Whom to ask for an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// For the op itself, in order.
    pub op: Vec<CandidateId>,
    /// For its parts, where nobody takes it.
    pub parts: Vec<CandidateId>,
}

impl<'a> Claims<'a> {
    /// `candidates`: the order, then the others. `last_resort` is one of them.
    pub fn new(
        candidates: Vec<Candidate<'a>>,
        n_order: usize,
        last_resort: Option<CandidateId>,
        schemas: &'a dyn Schemas,
        constant_of: &'a dyn Fn(ValueId) -> u64,
    ) -> Claims<'a> {
        let checks = FxHashMap::default();
        Claims { candidates, n_order, last_resort, schemas, constant_of, checks, n_checks: 0 }
    }

    /// How often plugins were asked by a call.
    pub fn n_checks(&self) -> u64 {
        self.n_checks
    }

    /// Schemas of ops.
    pub fn schemas(&self) -> &'a dyn Schemas {
        self.schemas
    }

    /// Ids of constants.
    pub fn constant_of(&self) -> &'a dyn Fn(ValueId) -> u64 {
        self.constant_of
    }

    /// The candidate of that name.
    pub fn find(&self, name: &str) -> Option<CandidateId> {
        self.candidates.iter().position(|c| c.executor.name() == name)
    }

    /// A candidate's name.
    pub fn name(&self, id: CandidateId) -> &str {
        self.candidates[id].executor.name()
    }

    /// The names of all, by number.
    pub fn names(&self) -> Vec<Name> {
        self.candidates.iter().map(|c| c.executor.name().into()).collect()
    }

    /// What is said of its regions; none for an executor of kind `op`.
    pub fn fusion(&self, id: CandidateId) -> Option<&Fusion> {
        self.candidates[id].fusion.as_ref()
    }

    /// The config's order, for any op.
    pub fn all(&self) -> Asking {
        let order: Vec<CandidateId> = (0..self.n_order).collect();
        Asking { op: order.clone(), parts: order }
    }

    /// Those behind `released` in the order, without `gone`. For parts: the order without `gone`.
    pub fn behind(&self, released: CandidateId, gone: &[CandidateId]) -> Asking {
        let left = |from| (from..self.n_order).filter(|c| !gone.contains(c)).collect();
        Asking { op: left(if released < self.n_order { released + 1 } else { self.n_order }), parts: left(0) }
    }

    /// Whom an op is handed on to by the last of `chain`, all of whom have handed it on: those behind it in the order,
    /// those it is like; the last resort comes after them.
    pub fn delegates(&self, chain: &[CandidateId], gone: &[CandidateId]) -> Asking {
        let Some(&last) = chain.last() else { return self.all() };
        let behind = if last < self.n_order { last + 1..self.n_order } else { 0..0 };
        let mut all: Vec<CandidateId> = Vec::new();
        for c in behind.chain(self.candidates[last].like.iter().copied()) {
            if !chain.contains(&c) && !gone.contains(&c) && !all.contains(&c) {
                all.push(c);
            }
        }
        Asking { op: all.clone(), parts: all }
    }

    /// Does it take the op: its own claims, then what those claim whom it is like. Fuel is not looked at.
    pub(super) fn takes(&mut self, id: CandidateId, op: &OpSpec) -> Result<LayoutNeed, Refusal> {
        let own = self.takes_itself(id, op);
        let Err(mut refusal) = own else { return own };
        // Whom it is like does not help one that is called no more.
        if refusal.code == codes::PLUGIN_PANICKED {
            return Err(refusal);
        }
        let candidate = &self.candidates[id];
        let name = candidate.executor.name();
        let mut last = None;
        for like in candidate.like.clone() {
            let permitted = (self.candidates[like].permits)(&op.op);
            match permitted.and_then(|()| self.takes_itself(like, op)) {
                // The layout that the other one needs is not taken over: its kernel is not the one that runs.
                Ok(_) => return Ok(LayoutNeed::Any),
                Err(other) if other.code != codes::OP_UNKNOWN => last = last.or(Some(other)),
                Err(_) => {}
            }
        }
        if let (true, Some(other)) = (refusal.code == codes::OP_UNKNOWN, last) {
            let sentence = format!("it is like {}: {}", other.executor, other.sentence);
            refusal = Refusal { executor: name.to_owned(), sentence, ..other };
        }
        Err(refusal)
    }

    /// Limits, then check.
    fn takes_itself(&mut self, id: CandidateId, op: &OpSpec) -> Result<LayoutNeed, Refusal> {
        let executor = self.candidates[id].executor;
        match executor.limits(op) {
            StaticClaim::Refused(refusal) => Err(refusal),
            StaticClaim::Within { check: false, layout } => Ok(layout),
            StaticClaim::Within { check: true, layout } => {
                let key = op.outputs.first().map(|t| (t.value, op.op.clone(), id));
                if let Some(answer) = key.as_ref().and_then(|key| self.checks.get(key)) {
                    return answer.clone().map(|()| layout);
                }
                self.n_checks += 1;
                let answer = executor.check(op);
                if let Some(key) = key {
                    self.checks.insert(key, answer.clone());
                }
                answer.map(|()| layout)
            }
        }
    }

    /// The refusal of a fusion executor for an op that no region may hold, or that is no region by itself although it
    /// has to be one.
    pub(super) fn fits_region(
        &self,
        id: CandidateId,
        trace: &Trace,
        bsym: &Bsym,
        alone: bool,
    ) -> Result<(), Refusal> {
        let Some(fusion) = self.fusion(id) else { return Ok(()) };
        if let Some(why) = never_in_a_region(trace, bsym) {
            return Err(Refusal::new(self.name(id), codes::NO_REGION, why));
        }
        match &fusion.rules.needs_any {
            Some(globs) if alone && !globs.iter().any(|glob| glob.matches(&bsym.op)) => {
                let sentence = format!("alone it is no region: it is none of {}", shown(globs));
                Err(Refusal::new(self.name(id), codes::REGION_NEEDS_ANY, sentence))
            }
            _ => Ok(()),
        }
    }
}

/// `torch.cat, prims.cat`.
pub fn shown(globs: &[Glob]) -> String {
    globs.iter().map(|glob| format!("`{glob}`")).collect::<Vec<_>>().join(", ")
}

/// Why no region may hold the op, if none may.
pub fn never_in_a_region(trace: &Trace, bsym: &Bsym) -> Option<&'static str> {
    let unknown = |d: &Dim| d.known().is_none();
    let sized = bsym.defined().any(|v| trace.ty(v).tensor().is_some_and(|t| t.dims.iter().any(unknown)));
    if sized && makes_sizes(trace, bsym) {
        return Some("its result's size is known only when it has run, so it stands in no region");
    }
    let device = |v: ValueId| trace.ty(v).tensor().map(|t| t.device.clone());
    let mut from = None;
    bsym.for_each_use(&mut |v| from = from.take().or_else(|| device(v)));
    match (from, bsym.defined().find_map(device)) {
        (Some(from), Some(to)) if from != to => {
            Some("it moves a tensor between devices, so it stands in no region")
        }
        _ => None,
    }
}

/// Does a result have a size that none of the arguments speak of?
fn makes_sizes(trace: &Trace, bsym: &Bsym) -> bool {
    let mut known: FxHashSet<Symbol> = FxHashSet::default();
    bsym.args.iter().chain(bsym.named.iter().map(|(_, a)| a)).for_each(|a| sizes_of(trace, a, &mut known));
    let mut new = false;
    for v in bsym.defined() {
        if let Type::Tensor(t) = trace.ty(v) {
            let new = &mut new;
            t.dims.iter().for_each(|d| {
                d.for_each_symbol(&mut |s: Symbol| *new |= s.kind == SymKind::Data && !known.contains(&s));
            });
        }
    }
    new
}

fn sizes_of(trace: &Trace, arg: &Arg, known: &mut FxHashSet<Symbol>) {
    let mut add = |d: &Dim| {
        d.for_each_symbol(&mut |s| {
            known.insert(s);
        });
    };
    match arg {
        Arg::Dim(d) => add(d),
        Arg::Value(v) => match trace.ty(*v) {
            Type::Tensor(t) => t.dims.iter().for_each(add),
            Type::Number(n) => n.equals.iter().for_each(add),
        },
        Arg::List(items) => items.iter().for_each(|a| sizes_of(trace, a, known)),
        _ => {}
    }
}
