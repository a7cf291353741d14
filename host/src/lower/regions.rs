//! From a claimed trace to an execution trace: ops taken apart are replaced by their parts, ops of fusion executors grouped
//! into regions.
//!
//! What a region's rules or its executor's proposals leave out is released, with the reason, and asked of the executors
//! behind; then all is grouped anew, until nothing changes. Each release takes one executor off an op's list, so this ends.

use super::flatten::{Flat, Origin, flatten};
use super::spec::RegionSpec;
use crate::claim::walk::HOST;
use crate::claim::{
    CandidateId, ClaimError, Claimed, Claims, Layouts, OpReport, Refusal, Release, claim_again, codes,
};
use crate::ir::{Bsym, Name, Stage, Stmt, Trace, ValueId};
use crate::ops::{self, HostOp, Traits};
use crate::region::{self, Group, Grouping, Part, Verdict};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// An execution trace without `del` lines, and what the plan must know of each of its ops.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// Stage `execution`; flat; every op has an executor. The statements of a region stand side by side.
    pub trace: Trace,
    /// What is a view of what, for all values of `trace`.
    pub layouts: Layouts,
    /// For each statement of the trace's body, in order.
    pub origins: Vec<Origin>,
    /// The claim walk's record.
    pub reports: Vec<OpReport>,
    /// In the order in which they run.
    pub regions: Vec<Region>,
    /// For each statement the region that it stands in.
    pub region_of: Vec<Option<usize>>,
}

/// A region of an execution trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// `FullFusion0`.
    pub name: Name,
    /// Whose it is.
    pub executor: Name,
    /// The same, among those who were asked.
    pub candidate: CandidateId,
    /// Its statements.
    pub stmts: Range<usize>,
    /// Values made outside that it uses, in the order of their first use.
    pub inputs: Vec<ValueId>,
    /// Its tensors that are used outside, in the order in which they are made.
    pub outputs: Vec<ValueId>,
}

/// Numbers of the next region of each label.
pub type Counters = FxHashMap<Name, u32>;

/// What a printed trace says of its regions: their names, by the number that their statements are marked with.
pub type GivenNames = Vec<Name>;

/// What an executor would rather have: lists of a region's ops; none: the region as it is.
pub type Proposals = Result<Option<Vec<Vec<u32>>>, ProposeError>;

/// What forming regions wants from outside.
pub struct Forming<'a, 'c> {
    /// Who may be asked.
    pub claims: &'a mut Claims<'c>,
    /// Strides of the trace's parameters.
    pub layouts: &'a Layouts,
    /// Asks an executor what it would rather have.
    pub propose: &'a mut dyn FnMut(CandidateId, &RegionSpec) -> Proposals,
    /// Where counting begins.
    pub counters: &'a Counters,
    /// For a trace that is run as it says.
    pub given: Option<&'a GivenNames>,
}

/// Why an executor could not say what it would rather have: its own failure, as text, to be made a fault by who knows the
/// plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProposeError {
    /// The executor.
    pub executor: Name,
    /// The region's first op.
    pub op: Name,
    /// Where that stands.
    pub origin: Name,
    /// What is wrong.
    pub message: String,
}

/// Why no regions could be formed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FormError {
    /// An op that was released has nobody.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// An executor's proposals are wrong.
    #[error(transparent)]
    Propose(#[from] ProposeError),
    /// The trace says itself which regions there are, and they cannot be.
    #[error("region `{0}` and another need each other, or their executor does not make regions")]
    Given(Name),
}

/// After so many rounds of releases an executor whose regions still fall apart loses all that it has.
const MAX_ROUNDS: usize = 32;

/// Forms regions. Gives the execution trace, and where counting stands afterwards.
pub fn form(claimed: Claimed, forming: &mut Forming<'_, '_>) -> Result<(Lowered, Counters), FormError> {
    let mut flat = flatten(claimed);
    let mut n_fixed = flat.origins.iter().filter_map(|o| o.mark.fixed).max().map_or(0, |n| n + 1);
    for round in 0.. {
        let parts = parts_of(&flat, forming.claims);
        let fixed: Vec<Option<u32>> = flat.origins.iter().map(|o| o.mark.fixed).collect();
        let grouping = region::group(&flat.trace, &parts, &fixed)
            .map_err(|circle| FormError::Given(given_name(&flat, forming.given, circle.stmt)))?;
        if forming.given.is_some() {
            return Ok(finished(flat, grouping, forming));
        }
        let mut wishes = rules(&flat, &parts, &grouping, forming.claims);
        if wishes.is_empty() {
            wishes = proposals(&flat, &parts, &grouping, forming)?;
        }
        if wishes.is_empty() {
            return Ok(finished(flat, grouping, forming));
        }
        for stmts in wishes.together {
            for at in stmts {
                flat.origins[at].mark.fixed = Some(n_fixed);
            }
            n_fixed += 1;
        }
        let releases = match round < MAX_ROUNDS {
            true => wishes.releases,
            false => everything(&parts, wishes.releases),
        };
        if !releases.is_empty() {
            flat =
                flatten(claim_again(flat.into_claimed(), releases, forming.claims, forming.layouts.clone())?);
        }
    }
    unreachable!("each round releases an op, keeps some together, or is the last")
}

/// Takes the ops of a region that its executor cannot lower off its list, and claims them anew.
pub fn release(
    lowered: Lowered,
    regions: &[(usize, String)],
    claims: &mut Claims<'_>,
    layouts: &Layouts,
) -> Result<Claimed, ClaimError> {
    let mut releases = Vec::new();
    for (region, why) in regions {
        let region = &lowered.regions[*region];
        let own = |at: &usize| lowered.trace.body[*at].op().is_some_and(|b| is_own(b, &region.executor));
        releases.extend(region.stmts.clone().filter(own).map(|stmt| Release {
            stmt,
            executor: region.candidate,
            refusal: Refusal::new(&region.executor, codes::REGION_UNSUPPORTED, why.clone()),
        }));
    }
    let Lowered { trace, layouts: known, origins, reports, .. } = lowered;
    let flat = Flat { trace, layouts: known, origins, reports };
    claim_again(flat.into_claimed(), releases, claims, layouts.clone())
}

fn is_own(bsym: &Bsym, executor: &str) -> bool {
    bsym.who.as_ref().is_some_and(|who| &*who.executor == executor)
}

fn given_name(flat: &Flat, given: Option<&GivenNames>, stmt: usize) -> Name {
    let number = flat.origins[stmt].mark.fixed;
    number.and_then(|n| given?.get(n as usize).cloned()).unwrap_or_else(|| "?".into())
}

fn parts_of(flat: &Flat, claims: &Claims<'_>) -> Vec<Part> {
    let mut known: FxHashMap<Name, Option<CandidateId>> = FxHashMap::default();
    let part = |stmt: &Stmt| {
        let Stmt::Op(bsym) = stmt else { return Part::Single };
        let Some(who) = &bsym.who else { return Part::Single };
        if &*who.executor == HOST {
            return part_of_host(bsym);
        }
        let fuses = known
            .entry(who.executor.clone())
            .or_insert_with(|| claims.find(&who.executor).filter(|c| claims.fusion(*c).is_some()));
        match *fuses {
            Some(executor) => Part::Fused(executor as u32),
            None => Part::Single,
        }
    };
    flat.trace.body.iter().map(part).collect()
}

fn part_of_host(bsym: &Bsym) -> Part {
    match ops::find(&bsym.op) {
        Some(op) if op.is(Traits::WRITES) => Part::Single,
        Some(op) => match op.host {
            None => Part::View,
            Some(HostOp::Item | HostOp::Check | HostOp::Text | HostOp::Nested(_)) => Part::Single,
            Some(HostOp::NextPhilox) => Part::Stream,
            Some(HostOp::Number(_)) => Part::Number,
        },
        None => Part::Single,
    }
}

/// What is to change before the ops are grouped anew.
#[derive(Default)]
struct Wishes {
    releases: Vec<Release>,
    together: Vec<Vec<usize>>,
}

impl Wishes {
    fn is_empty(&self) -> bool {
        self.releases.is_empty() && self.together.is_empty()
    }
}

fn is_own_part(parts: &[Part], at: usize) -> bool {
    matches!(parts[at], Part::Fused(_))
}

fn release_of(group: &Group, parts: &[Part], refusal: &Refusal) -> Vec<Release> {
    let own = group.stmts.iter().copied().filter(|at| is_own_part(parts, *at));
    let executor = group.executor as CandidateId;
    own.map(|stmt| Release { stmt, executor, refusal: refusal.clone() }).collect()
}

fn rules(flat: &Flat, parts: &[Part], grouping: &Grouping, claims: &Claims<'_>) -> Wishes {
    let mut wishes = Wishes::default();
    for group in &grouping.groups {
        let executor = group.executor as CandidateId;
        let Some(fusion) = claims.fusion(executor) else { continue };
        let own = |at: usize| is_own_part(parts, at);
        match region::judge(&flat.trace, group, &own, &fusion.rules, claims.name(executor)) {
            Verdict::Keep => {}
            Verdict::Cut(lists) => wishes.together.extend(lists),
            Verdict::Release(refusal) => wishes.releases.extend(release_of(group, parts, &refusal)),
        }
    }
    wishes
}

/// Every op of the executors that still release something.
fn everything(parts: &[Part], releases: Vec<Release>) -> Vec<Release> {
    let mut why: FxHashMap<CandidateId, Refusal> = FxHashMap::default();
    for release in releases {
        why.entry(release.executor).or_insert(release.refusal);
    }
    let of = |(stmt, part): (usize, &Part)| match part {
        Part::Fused(executor) => {
            let executor = *executor as CandidateId;
            let refusal = why.get(&executor)?.clone();
            Some(Release { stmt, executor, refusal })
        }
        _ => None,
    };
    parts.iter().enumerate().filter_map(of).collect()
}

/// Asks the executors that want to be asked about regions that nobody has spoken of yet.
fn proposals(
    flat: &Flat,
    parts: &[Part],
    grouping: &Grouping,
    forming: &mut Forming<'_, '_>,
) -> Result<Wishes, FormError> {
    let mut wishes = Wishes::default();
    let asked = |g: &&Group| {
        let executor = g.executor as CandidateId;
        g.fixed.is_none() && forming.claims.fusion(executor).is_some_and(|f| f.proposes)
    };
    let groups: Vec<&Group> = grouping.groups.iter().filter(asked).collect();
    if groups.is_empty() {
        return Ok(wishes);
    }
    let mut uses = Uses::of(&flat.trace);
    for group in groups {
        let executor = group.executor as CandidateId;
        let own = |at: usize| is_own_part(parts, at);
        let (inputs, outputs) = uses.border(&flat.trace, &group.stmts);
        let spec =
            RegionSpec::unsized_of(&flat.trace, &group.stmts, &inputs, &outputs, forming.claims.schemas());
        let first = group.stmts.iter().find(|at| own(**at)).and_then(|at| flat.trace.body[*at].op());
        let wrong = |message: String| ProposeError {
            executor: forming.claims.name(executor).into(),
            op: first.map_or_else(|| "".into(), |b| b.op.clone()),
            origin: first.map_or_else(|| "".into(), |b| crate::ir::trace::origin(&flat.trace, b)),
            message,
        };
        // A region that cannot be described is nobody's business; its ops could not be asked for either.
        let Ok(spec) = spec else { continue };
        let Some(lists) = (forming.propose)(executor, &spec)? else {
            wishes.together.push(group.stmts.clone());
            continue;
        };
        let lists = region::check_proposals(&flat.trace, group, &own, &lists)
            .map_err(|e| wrong(format!("what it proposes is no region: {e}")))?;
        let wanted: FxHashSet<usize> = lists.iter().flatten().copied().collect();
        let sentence = "it wants the op in none of its regions";
        let refusal = Refusal::new(forming.claims.name(executor), codes::REGION_LEFT_OUT, sentence);
        let left = release_of(group, parts, &refusal).into_iter().filter(|r| !wanted.contains(&r.stmt));
        wishes.releases.extend(left);
        wishes.together.extend(lists);
    }
    Ok(wishes)
}

/// Who uses each value last outside of its statement's region.
pub(super) struct Uses {
    made_by: Vec<u32>,
    used_by: Vec<Vec<u32>>,
    leaves: Vec<bool>,
}

const NOWHERE: u32 = u32::MAX;

impl Uses {
    pub fn of(trace: &Trace) -> Uses {
        let n = trace.values.len();
        let mut uses =
            Uses { made_by: vec![NOWHERE; n], used_by: vec![Vec::new(); n], leaves: vec![false; n] };
        for (at, stmt) in trace.body.iter().enumerate() {
            let Stmt::Op(bsym) = stmt else { continue };
            bsym.defined().for_each(|v| uses.made_by[v.index()] = at as u32);
            bsym.for_each_use(&mut |v| uses.used_by[v.index()].push(at as u32));
        }
        let mut leaves = |v: ValueId| uses.leaves[v.index()] = true;
        trace.outputs.iter().for_each(|o| o.value.for_each_value(&mut leaves));
        trace.save.iter().for_each(|v| leaves(*v));
        uses
    }

    /// What the statements (in order) use of others, and which of their tensors others use.
    pub fn border(&mut self, trace: &Trace, stmts: &[usize]) -> (Vec<ValueId>, Vec<ValueId>) {
        let inside: FxHashSet<u32> = stmts.iter().map(|at| *at as u32).collect();
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        let mut seen: FxHashSet<ValueId> = FxHashSet::default();
        for at in stmts {
            let Stmt::Op(bsym) = &trace.body[*at] else { continue };
            bsym.for_each_use(&mut |v| {
                if !inside.contains(&self.made_by[v.index()]) && seen.insert(v) {
                    inputs.push(v);
                }
            });
            for v in bsym.defined().filter(|v| trace.ty(*v).tensor().is_some()) {
                let outside = self.used_by[v.index()].iter().any(|user| !inside.contains(user));
                if outside || self.leaves[v.index()] {
                    outputs.push(v);
                }
            }
        }
        (inputs, outputs)
    }
}

/// Puts the statements in the order of the regions, and names these.
fn finished(flat: Flat, grouping: Grouping, forming: &Forming<'_, '_>) -> (Lowered, Counters) {
    let mut counters = forming.counters.clone();
    let Flat { mut trace, layouts, origins, reports } = flat;
    trace.stage = Stage::Execution;
    if grouping.groups.is_empty() {
        let region_of = vec![None; trace.body.len()];
        let lowered = Lowered { trace, layouts, origins, reports, regions: Vec::new(), region_of };
        return (lowered, counters);
    }
    let mut uses = Uses::of(&trace);
    let mut place = vec![0; trace.body.len()];
    grouping.order.iter().enumerate().for_each(|(new, old)| place[*old] = new);
    let mut regions = Vec::with_capacity(grouping.groups.len());
    let mut region_of = vec![None; trace.body.len()];
    for (number, group) in grouping.groups.iter().enumerate() {
        let executor = group.executor as CandidateId;
        let (inputs, outputs) = uses.border(&trace, &group.stmts);
        let start = group.stmts.first().map_or(0, |at| place[*at]);
        let stmts = start..start + group.stmts.len();
        region_of[stmts.clone()].fill(Some(number));
        let label = forming.claims.fusion(executor).map_or_else(|| "Region".into(), |f| f.label.clone());
        let given = group.fixed.and_then(|n| forming.given?.get(n as usize).cloned());
        let name = given.unwrap_or_else(|| {
            let counter = counters.entry(label.clone()).or_insert(0);
            *counter += 1;
            format!("{label}{}", *counter - 1).into()
        });
        let executor_name = forming.claims.name(executor).into();
        regions.push(Region { name, executor: executor_name, candidate: executor, stmts, inputs, outputs });
    }
    let mut body: Vec<Option<Stmt>> = trace.body.drain(..).map(Some).collect();
    let mut old_origins: Vec<Option<Origin>> = origins.into_iter().map(Some).collect();
    let mut origins = Vec::with_capacity(body.len());
    for at in grouping.order {
        trace.body.extend(body[at].take());
        origins.extend(old_origins[at].take());
    }
    (Lowered { trace, layouts, origins, reports, regions, region_of }, counters)
}
