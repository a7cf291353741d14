//! From an acquired trace and concrete sizes to a lowered trace and the plan of its first segment.

use super::inputs::{Bindings, InputError};
use super::nested::NestedTrace;
use crate::claim::walk::HOST;
use crate::claim::{
    self, Candidate, ClaimError, Claimant, Claimed, Claims, Fusion, Layouts, OpReport, Refusal, Strided,
};
use crate::ir::{Dim, Name, Schemas, Symbol, Trace, ValueId};
use crate::lower::{
    self, Counters, FormError, Forming, GivenNames, Lowered, ProposeError, RegionSpec, inline,
};
use crate::passes::Purpose;
use crate::passes::specialise::{GuardError, specialise};
use crate::plan::{
    self, Constant, Fault, FaultKind, FuseInput, Fused, KernelMaker, Plan, PlanError, PlanFile, PlanInput,
    RegionPlan, Segment, View,
};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Whether the config lets an executor have the op of that name.
pub type Permits = dyn Fn(&str) -> Result<(), Refusal> + Send + Sync;

/// An executor of the order with what the config says of it.
#[derive(Clone)]
pub struct OrderEntry {
    /// The executor.
    pub executor: Arc<dyn KernelMaker>,
    /// `allow` and `deny`.
    pub permits: Arc<Permits>,
    /// `fuel`.
    pub fuel: Option<u64>,
    /// For an executor of kind `fusion`.
    pub fusion: Option<Fusion>,
    /// Whom it is like itself, by name; those who are not loaded may be among them.
    pub like: Vec<String>,
}

impl OrderEntry {
    /// An executor for single ops, without limits.
    pub fn of(executor: Arc<dyn KernelMaker>) -> OrderEntry {
        OrderEntry { executor, permits: Arc::new(|_| Ok(())), fuel: None, fusion: None, like: Vec::new() }
    }
}

/// Who may take ops.
#[derive(Clone, Default)]
pub struct Executors {
    /// In the config's order.
    pub order: Vec<OrderEntry>,
    /// Loaded because somebody is like them; in no order.
    pub liked: Vec<OrderEntry>,
    /// Asked last; none: `last_resort = "none"`.
    pub last_resort: Option<Arc<dyn KernelMaker>>,
}

impl Executors {
    /// The executor of that name.
    pub fn find(&self, name: &str) -> Option<Arc<dyn KernelMaker>> {
        let all = self.order.iter().chain(&self.liked).map(|e| &e.executor).chain(&self.last_resort);
        all.into_iter().find(|e| e.name() == name).cloned()
    }

    /// Everybody who may be asked.
    fn claims<'a>(&'a self, schemas: &'a dyn Schemas, constant_of: &'a dyn Fn(ValueId) -> u64) -> Claims<'a> {
        let mut candidates: Vec<Candidate<'a>> = Vec::new();
        let known = |candidates: &[Candidate<'_>], name: &str| {
            candidates.iter().position(|c| c.executor.name() == name)
        };
        for entry in self.order.iter().chain(&self.liked) {
            candidates.push(Candidate {
                executor: &*entry.executor as &dyn Claimant,
                permits: &*entry.permits,
                fuel: entry.fuel,
                fusion: entry.fusion.clone(),
                like: Vec::new(),
            });
        }
        let last_resort = self.last_resort.as_ref().map(|last| {
            known(&candidates, last.name()).unwrap_or_else(|| {
                candidates.push(Candidate {
                    executor: &**last as &dyn Claimant,
                    permits: &|_| Ok(()),
                    fuel: None,
                    fusion: None,
                    like: Vec::new(),
                });
                candidates.len() - 1
            })
        });
        let entries: Vec<&OrderEntry> = self.order.iter().chain(&self.liked).collect();
        for (at, entry) in entries.iter().enumerate() {
            // Depth first, each once: the order in which ops are handed on.
            let mut todo: Vec<&str> = entry.like.iter().rev().map(String::as_str).collect();
            while let Some(name) = todo.pop() {
                let Some(id) = known(&candidates, name) else { continue };
                if id != at && !candidates[at].like.contains(&id) {
                    candidates[at].like.push(id);
                    let theirs = entries.get(id).map_or(&[][..], |e| &e.like[..]);
                    todo.extend(theirs.iter().rev().map(String::as_str));
                }
            }
        }
        Claims::new(candidates, self.order.len(), last_resort, schemas, constant_of)
    }
}

/// Why a program could not be compiled.
#[derive(Clone, Debug, thiserror::Error, miette::Diagnostic)]
pub enum CompileError {
    /// Somebody must take each op.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Claim(#[from] ClaimError),
    /// The plan.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Plan(#[from] PlanError),
    /// The inputs' sizes break a guard.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Guard(#[from] GuardError),
    /// The inputs do not fit.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Input(#[from] InputError),
}

/// A program compiled for concrete sizes.
pub struct Compiled {
    /// With concrete sizes and after the passes.
    pub acquired: Trace,
    /// Stage `claimed`.
    pub claimed: Trace,
    /// Stage `execution`, and the record of the claims.
    pub lowered: Lowered,
    /// For each region its steps; none where its sizes are known only when it runs.
    pub regions: Vec<Option<Arc<RegionPlan>>>,
    /// Where the numbers of regions stand behind it.
    pub counters: Counters,
    /// How it is cut where sizes become known.
    pub segments: Vec<Segment>,
    /// For each segment: values made before or in it that a later one needs.
    pub carried: Vec<Vec<ValueId>>,
    /// The first segment's plan.
    pub first: Arc<Plan>,
    /// Sizes bound by the inputs.
    pub sizes: FxHashMap<Symbol, i64>,
    /// Calls of `check_op` that claiming made.
    pub n_checks: u64,
    /// The nested traces that it reaches, in the order of their names; those of a nested trace are its caller's.
    pub nested: Vec<NestedTrace>,
}

/// What a compile may ask about parameters.
pub struct ParamInfo<'a> {
    /// Strides in elements of a parameter that is not dense; none: dense.
    pub strides: &'a dyn Fn(ValueId) -> Option<Vec<i64>>,
    /// Id of a constant; 0: none.
    pub constant_of: &'a dyn Fn(ValueId) -> u64,
    /// Data of a constant.
    pub constant: &'a dyn Fn(u64) -> Option<Constant>,
}

/// `trace` with concrete sizes, after the passes that may come before `purpose`.
pub fn prepare(trace: &Trace, bindings: &Bindings, purpose: Purpose) -> Result<Trace, CompileError> {
    let concrete = specialise(trace, &|s| bindings.sizes.get(&s).copied())?;
    Ok(crate::passes::run_each(concrete, purpose, &mut |_, _| {}))
}

/// Compiles `trace` for `bindings`.
pub fn compile(
    trace: &Trace,
    bindings: &Bindings,
    executors: &Executors,
    schemas: &dyn Schemas,
    params: &ParamInfo<'_>,
) -> Result<Compiled, CompileError> {
    let prepared = prepare(trace, bindings, Purpose::Values)?;
    compile_prepared(prepared, &bindings.sizes, executors, schemas, params, &Counters::default())
}

/// Compiles a trace with concrete sizes: claims, forms regions, lowers, plans. Regions are counted from `counters` on.
pub fn compile_prepared(
    acquired: Trace,
    sizes: &FxHashMap<Symbol, i64>,
    executors: &Executors,
    schemas: &dyn Schemas,
    params: &ParamInfo<'_>,
    counters: &Counters,
) -> Result<Compiled, CompileError> {
    let mut layouts = Layouts::default();
    for p in &acquired.params {
        if let Some(strides) = (params.strides)(p.value) {
            let strides = strides.into_iter().map(Dim::Known).collect();
            layouts.set(p.value, Strided { base: p.value, strides, offset: Dim::Known(0) });
        }
    }
    // A trace whose executors are known is run as it says.
    let kept = matches!(acquired.stage, crate::ir::Stage::Claimed | crate::ir::Stage::Execution);
    let (flat, marks, given) = inline(acquired.clone()).map_err(|e| PlanError::Trace(e.to_string()))?;
    let mut claims = executors.claims(schemas, params.constant_of);
    let claimed = claim::claim(flat, marks, &mut claims, layouts.clone())?;
    if kept {
        still_theirs(&claimed.reports, &claims)?;
    }
    let claimed_trace = claimed.trace.clone();
    let compiling = Compiling {
        executors,
        layouts: &layouts,
        counters,
        given: kept.then_some(&given),
        input: &FuseInput {
            executor: &|name| executors.find(name),
            sizes: &|s| sizes.get(&s).copied(),
            schemas,
            constant_of: params.constant_of,
            constant: params.constant,
        },
    };
    let (lowered, regions, counters) = compiling.regions(claimed, &mut claims)?;
    let n_checks = claims.n_checks();
    let segments = plan::segments(&lowered.trace);
    let carried = carried(&lowered, &regions, &segments);
    let first = segment_plan(
        &SegmentInput {
            lowered: &lowered,
            regions: &regions,
            segments: &segments,
            carried: &carried,
            sizes,
            earlier: &FxHashMap::default(),
        },
        0,
        executors,
        schemas,
        params,
    )?;
    Ok(Compiled {
        acquired,
        claimed: claimed_trace,
        lowered,
        regions,
        counters,
        segments,
        carried,
        first: Arc::new(first),
        sizes: sizes.clone(),
        n_checks,
        nested: Vec::new(),
    })
}

impl Compiled {
    /// The execution trace as it is printed, with regions as single symbols; without `del` lines.
    pub fn execution(&self) -> Trace {
        lower::present(&self.lowered, &|at| Some(self.regions.get(at)?.as_ref()?.handed_on.clone()))
    }

    /// What was decided, as plain data.
    pub fn plan_file(&self) -> PlanFile {
        PlanFile::of(&self.lowered, &self.regions, &self.first, self.segments.len())
    }
}

/// In a trace that is run as it says, everybody named must be loaded, and take what he is given.
fn still_theirs(reports: &[OpReport], claims: &Claims<'_>) -> Result<(), PlanError> {
    for report in reports {
        let Some(executor) = report.executor.as_ref().filter(|e| &***e != HOST) else { continue };
        if claims.find(executor).is_none() {
            return Err(PlanError::NotLoaded { executor: executor.clone(), op: report.op.clone() });
        }
        if let Some(refusal) = report.refusals.first() {
            return Err(PlanError::Refused {
                op: report.op.clone(),
                origin: report.origin.clone(),
                refusal: Box::new(refusal.clone()),
            });
        }
    }
    Ok(())
}

/// What regions are formed and lowered with.
struct Compiling<'a> {
    executors: &'a Executors,
    layouts: &'a Layouts,
    counters: &'a Counters,
    given: Option<&'a GivenNames>,
    input: &'a FuseInput<'a>,
}

type WithRegions = (Lowered, Vec<Option<Arc<RegionPlan>>>, Counters);

impl Compiling<'_> {
    /// Forms regions and has them lowered; ops of those that cannot be are released, and all is done anew. Each round takes an
    /// executor off the list of an op, so this ends.
    fn regions(&self, mut claimed: Claimed, claims: &mut Claims<'_>) -> Result<WithRegions, CompileError> {
        loop {
            let (mut lowered, counters) = self.form(claimed, claims)?;
            match plan::fuse_all(&mut lowered, claims, self.input)? {
                Ok(regions) => return Ok((lowered, regions, counters)),
                Err(unsupported) if self.given.is_some() => {
                    return Err(given_up(&lowered, &unsupported).into());
                }
                Err(unsupported) => {
                    claimed = lower::release(lowered, &unsupported, claims, self.layouts)?;
                }
            }
        }
    }

    fn form(&self, claimed: Claimed, claims: &mut Claims<'_>) -> Result<(Lowered, Counters), CompileError> {
        let names: Vec<Name> = claims.names();
        let mut failed: Option<Fault> = None;
        let mut propose = |id: usize, spec: &RegionSpec| self.propose(&names[id], spec, &mut failed);
        let mut forming = Forming {
            claims,
            layouts: self.layouts,
            propose: &mut propose,
            counters: self.counters,
            given: self.given,
        };
        let formed = lower::form(claimed, &mut forming);
        match formed {
            Ok(done) => Ok(done),
            Err(FormError::Claim(e)) => Err(e.into()),
            Err(e @ FormError::Given(_)) => Err(PlanError::Trace(e.to_string()).into()),
            Err(FormError::Propose(wrong)) => Err(PlanError::Make(match failed {
                Some(fault) => fault,
                None => self.fault(&wrong),
            })
            .into()),
        }
    }

    fn propose(
        &self,
        executor: &Name,
        spec: &RegionSpec,
        failed: &mut Option<Fault>,
    ) -> Result<Option<Vec<Vec<u32>>>, ProposeError> {
        let Some(maker) = self.executors.find(executor) else { return Ok(None) };
        maker.propose(spec).map_err(|fault| {
            let wrong = ProposeError {
                executor: executor.clone(),
                op: (&*fault.op).into(),
                origin: (&*fault.origin).into(),
                message: fault.message.to_string(),
            };
            *failed = Some(fault);
            wrong
        })
    }

    /// What the host has found wrong with a proposal, as its executor's fault.
    fn fault(&self, wrong: &ProposeError) -> Fault {
        let ProposeError { executor, op, origin, message } = wrong;
        match self.executors.find(executor) {
            Some(maker) => maker.fault(op, origin, FaultKind::BadAnswer, message.clone()),
            None => Fault {
                executor: (&**executor).into(),
                plugin: (&**executor).into(),
                op: (&**op).into(),
                origin: (&**origin).into(),
                kind: FaultKind::BadAnswer,
                message: message.as_str().into(),
            },
        }
    }
}

/// A region of a printed trace that its executor does not lower now.
fn given_up(lowered: &Lowered, unsupported: &[(usize, String)]) -> PlanError {
    let (region, why) = match unsupported.first() {
        Some((at, why)) => (&lowered.regions[*at], why.clone()),
        None => return PlanError::Trace("a region is not lowered".into()),
    };
    let refusal = Refusal::new(&region.executor, claim::codes::REGION_UNSUPPORTED, why);
    PlanError::Refused { op: region.name.clone(), origin: region.name.clone(), refusal: Box::new(refusal) }
}

/// What a segment's plan is made from.
pub struct SegmentInput<'a> {
    /// The trace.
    pub lowered: &'a Lowered,
    /// Its regions, as far as they are lowered.
    pub regions: &'a [Option<Arc<RegionPlan>>],
    /// All segments.
    pub segments: &'a [Segment],
    /// What each must leave for later ones.
    pub carried: &'a [Vec<ValueId>],
    /// Sizes known by now.
    pub sizes: &'a FxHashMap<Symbol, i64>,
    /// What earlier segments left.
    pub earlier: &'a FxHashMap<ValueId, View>,
}

/// The plan of segment `at`.
pub fn segment_plan(
    input: &SegmentInput<'_>,
    at: usize,
    executors: &Executors,
    schemas: &dyn Schemas,
    params: &ParamInfo<'_>,
) -> Result<Plan, PlanError> {
    let size = |s: Symbol| input.sizes.get(&s).copied();
    let range = input.segments[at].range.clone();
    let waits = |region: &usize| input.regions.get(*region).is_none_or(Option::is_none);
    let mut waiting: Vec<usize> =
        input.lowered.region_of[range.clone()].iter().copied().flatten().filter(waits).collect();
    waiting.dedup();
    let find = |name: &str| executors.find(name);
    let build = |lowered: &Lowered, regions: &[Option<Arc<RegionPlan>>]| {
        plan::build(&PlanInput {
            lowered,
            regions,
            range: range.clone(),
            sizes: &size,
            executor: &find,
            schemas,
            constant_of: params.constant_of,
            constant: params.constant,
            earlier: input.earlier,
            needed_later: &input.carried[at],
            last: at + 1 == input.segments.len(),
        })
    };
    if waiting.is_empty() {
        return build(input.lowered, input.regions);
    }
    // Regions whose sizes have just become known. What their steps speak of is this plan's alone.
    let mut lowered = input.lowered.clone();
    let mut regions = input.regions.to_vec();
    let mut claims = executors.claims(schemas, params.constant_of);
    let fuse = FuseInput {
        executor: &find,
        sizes: &size,
        schemas,
        constant_of: params.constant_of,
        constant: params.constant,
    };
    for region in waiting {
        regions[region] = match plan::fuse(&mut lowered, region, &mut claims, &fuse)? {
            Fused::Steps(plan) => Some(Arc::new(plan)),
            Fused::Unsupported(why) => return Err(given_up(&lowered, &[(region, why)])),
            Fused::Later => None,
        };
    }
    build(&lowered, &regions)
}

/// For each segment, the values with memory of their own, made up to its end, that a later segment (or the end of the
/// trace) reads, directly or through a view: views themselves cost nothing to make again.
fn carried(
    lowered: &Lowered,
    regions: &[Option<Arc<RegionPlan>>],
    segments: &[Segment],
) -> Vec<Vec<ValueId>> {
    let trace = &lowered.trace;
    if segments.len() == 1 {
        return vec![Vec::new()];
    }
    let mut made_in: FxHashMap<ValueId, usize> = FxHashMap::default();
    for (s, segment) in segments.iter().enumerate() {
        for stmt in &trace.body[segment.range.clone()] {
            for v in stmt.op().into_iter().flat_map(|b| b.defined()) {
                made_in.insert(v, s);
            }
        }
        // What the steps of a region make beside its own values may be where a result lies.
        let mut inside: Vec<usize> =
            lowered.region_of[segment.range.clone()].iter().copied().flatten().collect();
        inside.dedup();
        for plan in inside.into_iter().filter_map(|region| regions.get(region)?.as_ref()) {
            plan.for_each_made(&mut |v| {
                made_in.insert(v, s);
            });
        }
    }
    let mut needed: Vec<Vec<ValueId>> = vec![Vec::new(); segments.len()];
    let mut need = |v: ValueId, by: usize| {
        // A view is found again through its base.
        let v = if trace.ty(v).tensor().is_some() { lowered.layouts.of(trace, v).base } else { v };
        let Some(&made) = made_in.get(&v) else { return };
        for list in &mut needed[made..by] {
            if !list.contains(&v) {
                list.push(v);
            }
        }
    };
    for (s, segment) in segments.iter().enumerate() {
        for stmt in &trace.body[segment.range.clone()] {
            if let Some(b) = stmt.op() {
                b.for_each_use(&mut |v| need(v, s));
            }
        }
    }
    let last = segments.len() - 1;
    for o in &trace.outputs {
        o.value.for_each_value(&mut |v| need(v, last));
    }
    for v in &trace.save {
        need(*v, last);
    }
    // Only the segment that made a value hands it on; later ones find it among what earlier ones left.
    for (s, list) in needed.iter_mut().enumerate() {
        list.retain(|v| made_in.get(v) == Some(&s));
        // What makes a size known is looked at, whether or not anybody reads its elements.
        let last = trace.body.get(segments[s].range.end.wrapping_sub(1)).and_then(crate::ir::Stmt::op);
        if !segments[s].binds.is_empty() {
            for v in last.into_iter().flat_map(|b| b.defined()) {
                if trace.ty(v).tensor().is_some() && !list.contains(&v) {
                    list.push(v);
                }
            }
        }
    }
    needed
}
