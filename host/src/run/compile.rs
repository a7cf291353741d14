//! From an acquired trace and concrete sizes to a lowered trace and the plan of its first segment.

use super::inputs::{Bindings, InputError};
use crate::claim::{self, Candidate, ClaimError, Claimant, Layouts, Refusal, Strided};
use crate::ir::{Dim, Schemas, Symbol, Trace, ValueId};
use crate::lower::{Lowered, flatten};
use crate::passes::Purpose;
use crate::passes::specialise::{GuardError, specialise};
use crate::plan::{self, Constant, KernelMaker, Plan, PlanError, PlanInput, Segment, View};
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
}

/// Who may take ops.
#[derive(Clone, Default)]
pub struct Executors {
    /// In the config's order.
    pub order: Vec<OrderEntry>,
    /// Asked last; none: `last_resort = "none"`.
    pub last_resort: Option<Arc<dyn KernelMaker>>,
}

impl Executors {
    /// The executor of that name.
    pub fn find(&self, name: &str) -> Option<Arc<dyn KernelMaker>> {
        self.order.iter().map(|e| &e.executor).chain(&self.last_resort).find(|e| e.name() == name).cloned()
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
    compile_prepared(prepare(trace, bindings, Purpose::Values)?, &bindings.sizes, executors, schemas, params)
}

/// Compiles a trace with concrete sizes: claims, lowers, plans.
pub fn compile_prepared(
    acquired: Trace,
    sizes: &FxHashMap<Symbol, i64>,
    executors: &Executors,
    schemas: &dyn Schemas,
    params: &ParamInfo<'_>,
) -> Result<Compiled, CompileError> {
    let mut layouts = Layouts::default();
    for p in &acquired.params {
        if let Some(strides) = (params.strides)(p.value) {
            let strides = strides.into_iter().map(Dim::Known).collect();
            layouts.set(p.value, Strided { base: p.value, strides, offset: Dim::Known(0) });
        }
    }
    let mut order: Vec<Candidate<'_>> = executors
        .order
        .iter()
        .map(|e| Candidate { executor: &*e.executor as &dyn Claimant, permits: &*e.permits, fuel: e.fuel })
        .collect();
    let last_resort = executors.last_resort.as_ref().map(|e| &**e as &dyn Claimant);
    let claimed =
        claim::claim(acquired.clone(), &mut order, last_resort, schemas, layouts, params.constant_of)?;
    let n_checks = claimed.n_checks;
    let claimed_trace = claimed.trace.clone();
    let lowered = flatten(claimed);
    let segments = plan::segments(&lowered.trace);
    let carried = carried(&lowered, &segments);
    let first = segment_plan(
        &SegmentInput {
            lowered: &lowered,
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
        segments,
        carried,
        first: Arc::new(first),
        sizes: sizes.clone(),
        n_checks,
    })
}

/// What a segment's plan is made from.
pub struct SegmentInput<'a> {
    /// The trace.
    pub lowered: &'a Lowered,
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
    plan::build(&PlanInput {
        lowered: input.lowered,
        range: input.segments[at].range.clone(),
        sizes: &|s| input.sizes.get(&s).copied(),
        executor: &|name| executors.find(name),
        schemas,
        constant_of: params.constant_of,
        constant: params.constant,
        earlier: input.earlier,
        needed_later: &input.carried[at],
        last: at + 1 == input.segments.len(),
    })
}

/// For each segment, the values with memory of their own, made up to its end, that a later segment (or the end of the
/// trace) reads, directly or through a view: views themselves cost nothing to make again.
fn carried(lowered: &Lowered, segments: &[Segment]) -> Vec<Vec<ValueId>> {
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
