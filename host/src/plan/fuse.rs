//! Regions lowered by their executors.
//!
//! A region's executor answers with steps ([`Lowering`] checks them). An op that it hands on to another fusion executor is a
//! region of one op for that one, without a name, and so on: nobody is handed an op that it has handed on itself, so this
//! ends. What comes out is a list of kernels and ops for the one schedule.

use super::build::PlanError;
use super::port::{Constant, FaultKind, Kernel, KernelMaker};
use crate::claim::layout::contiguous;
use crate::claim::{CandidateId, Claims, LayoutNeed, Layouts, claim_delegated};
use crate::ir::trace::origin;
use crate::ir::{Bsym, Dim, Name, NumKind, Schemas, Stmt, Symbol, Trace, ValueId};
use crate::lower::flatten::flatten_call;
use crate::lower::{
    Lowered, LoweredRegion, LoweredStep, Lowering, RegionError, RegionNotes, RegionSpec, Sizes,
};
use std::sync::Arc;

/// A region as it is planned.
pub struct RegionPlan {
    /// Numbers to be worked out first.
    pub numbers: Vec<Bsym>,
    /// In order.
    pub steps: Vec<RegionStep>,
    /// By their place among the region's statements, ops that were handed on whole: who runs them.
    pub handed_on: RegionNotes,
    /// By their place among the region's statements, ops of which parts were handed on: who runs some of them.
    pub in_part: Vec<(usize, Name)>,
}

/// One step of a region.
pub enum RegionStep {
    /// A kernel that a fusion executor brings.
    Own {
        /// Whose.
        executor: Name,
        /// What it is called.
        name: Name,
        /// The kernel.
        kernel: Arc<dyn Kernel>,
        /// What it reads.
        inputs: Vec<ValueId>,
        /// What it writes.
        outputs: Vec<ValueId>,
        /// Numbers that it needs.
        numbers: Vec<(ValueId, NumKind)>,
    },
    /// An op for the executor that it names.
    Op {
        /// The op.
        bsym: Box<Bsym>,
        /// What its kernel needs.
        layout: LayoutNeed,
    },
    /// Element by element.
    Copy {
        /// From.
        from: ValueId,
        /// To.
        to: ValueId,
    },
}

impl RegionPlan {
    /// Calls `f` with each value that a step writes.
    pub fn for_each_made(&self, f: &mut dyn FnMut(ValueId)) {
        for step in &self.steps {
            match step {
                RegionStep::Own { outputs, .. } => outputs.iter().for_each(|v| f(*v)),
                RegionStep::Op { bsym, .. } => bsym.defined().for_each(&mut *f),
                RegionStep::Copy { to, .. } => f(*to),
            }
        }
    }
}

/// What lowering needs beside the trace.
pub struct FuseInput<'a> {
    /// Executors by name.
    pub executor: &'a dyn Fn(&str) -> Option<Arc<dyn KernelMaker>>,
    /// Sizes that are known.
    pub sizes: &'a dyn Fn(Symbol) -> Option<i64>,
    /// Schemas of ops.
    pub schemas: &'a dyn Schemas,
    /// Id of a parameter's constant; 0: none.
    pub constant_of: &'a dyn Fn(ValueId) -> u64,
    /// Data behind a constant's id.
    pub constant: &'a dyn Fn(u64) -> Option<Constant>,
}

/// What came of a region.
pub enum Fused {
    /// Steps.
    Steps(RegionPlan),
    /// Its executor cannot lower it, for this reason.
    Unsupported(String),
    /// Sizes that only a run knows are in the way.
    Later,
}

/// Lowers region `at` of `lowered`, whose trace and layouts get what its steps speak of.
pub fn fuse(
    lowered: &mut Lowered,
    at: usize,
    claims: &mut Claims<'_>,
    input: &FuseInput<'_>,
) -> Result<Fused, PlanError> {
    let Lowered { trace, layouts, regions, .. } = lowered;
    let region = &regions[at];
    let bsyms: Vec<Bsym> = trace.body[region.stmts.clone()].iter().filter_map(Stmt::op).cloned().collect();
    let size = |d: &Dim| d.eval(input.sizes);
    let sizes = Sizes { size: &size, constant_of: input.constant_of, schemas: input.schemas };
    let spec = RegionSpec::sized(
        region.name.clone(),
        trace,
        layouts,
        &bsyms,
        &region.inputs,
        &region.outputs,
        &sizes,
    );
    let spec = match spec {
        Ok(spec) => spec,
        Err(RegionError::Spec(e)) => return Err(PlanError::Spec(e)),
        Err(RegionError::Unknown { .. }) => return Ok(Fused::Later),
    };
    let mut fuse = Fuse { trace, layouts, claims, input, sizes: &sizes };
    let lowered = match fuse.lower(spec, vec![region.candidate])? {
        Ok(lowered) => lowered,
        Err(why) => return Ok(Fused::Unsupported(why)),
    };
    let handed_on = lowered.handed_on.iter().map(|(op, who)| (*op as usize, who.clone())).collect();
    let in_part = lowered.in_part.iter().map(|(op, who)| (*op as usize, who.clone())).collect();
    let mut plan = RegionPlan { numbers: lowered.numbers.clone(), steps: Vec::new(), handed_on, in_part };
    fuse.steps(lowered, &[region.candidate], &mut plan)?;
    Ok(Fused::Steps(plan))
}

/// The fault of a region's executor.
fn fault_of(maker: &dyn KernelMaker, spec: &RegionName<'_>, kind: FaultKind, message: String) -> PlanError {
    PlanError::Make(maker.fault(spec.op, spec.origin, kind, message))
}

struct RegionName<'a> {
    op: &'a str,
    origin: &'a str,
}

struct Fuse<'a, 'c> {
    trace: &'a mut Trace,
    layouts: &'a mut Layouts,
    claims: &'a mut Claims<'c>,
    input: &'a FuseInput<'a>,
    sizes: &'a Sizes<'a>,
}

type OwnLowered = LoweredRegion<Arc<dyn Kernel>>;

impl Fuse<'_, '_> {
    /// Asks the last of `chain`. The inner error: it cannot.
    fn lower(
        &mut self,
        spec: RegionSpec,
        chain: Vec<CandidateId>,
    ) -> Result<Result<OwnLowered, String>, PlanError> {
        let name: Name = chain.last().map_or_else(|| "".into(), |c| self.claims.name(*c).into());
        let first = spec.ops.iter().find(|op| op.host == crate::lower::HostPart::No);
        let (op, at) = first
            .map_or_else(|| (name.clone(), name.clone()), |op| (op.spec.op.clone(), op.spec.origin.clone()));
        let region = if spec.name.is_empty() { op } else { spec.name.clone() };
        let shown = RegionName { op: &region, origin: &at };
        let maker = (self.input.executor)(&name)
            .ok_or_else(|| PlanError::NotLoaded { executor: name.clone(), op: region.clone() })?;
        let mut lowering = Lowering::new(spec, self.trace, self.layouts, self.claims, self.sizes, chain);
        let answer = maker.lower(&mut lowering, self.input.constant);
        // What it has said wrong is its fault, whatever it makes of the host's answer.
        if let Some(why) = lowering.take_fault() {
            return Err(fault_of(&*maker, &shown, FaultKind::BadAnswer, why));
        }
        match answer {
            Err(fault) if fault.kind == FaultKind::Unsupported => return Ok(Err(fault.message.to_string())),
            Err(fault) => return Err(PlanError::Make(fault)),
            Ok(()) => {}
        }
        let done = lowering.finish();
        done.map(Ok).map_err(|why| fault_of(&*maker, &shown, FaultKind::BadAnswer, why))
    }

    /// Puts the steps into `plan`, those of inner regions in the places of their ops.
    fn steps(
        &mut self,
        lowered: OwnLowered,
        chain: &[CandidateId],
        plan: &mut RegionPlan,
    ) -> Result<(), PlanError> {
        let executor: Name = chain.last().map_or_else(|| "".into(), |c| self.claims.name(*c).into());
        for step in lowered.steps {
            match step {
                LoweredStep::Own { name, kernel, inputs, outputs, numbers } => {
                    let executor = executor.clone();
                    plan.steps.push(RegionStep::Own { executor, name, kernel, inputs, outputs, numbers });
                }
                LoweredStep::Copy { from, to } => plan.steps.push(RegionStep::Copy { from, to }),
                LoweredStep::Op { bsym, layout, .. } => self.op(*bsym, layout, chain, plan)?,
            }
        }
        Ok(())
    }

    /// An op that was handed on, once more as a region where its new owner is a fusion executor.
    fn op(
        &mut self,
        bsym: Bsym,
        layout: LayoutNeed,
        chain: &[CandidateId],
        plan: &mut RegionPlan,
    ) -> Result<(), PlanError> {
        let owner = bsym.who.as_ref().and_then(|who| self.claims.find(&who.executor));
        let Some(owner) = owner.filter(|c| self.claims.fusion(*c).is_some()) else {
            plan.steps.push(RegionStep::Op { bsym: Box::new(bsym), layout });
            return Ok(());
        };
        let mut inner = chain.to_vec();
        inner.push(owner);
        let mut inputs: Vec<ValueId> = Vec::new();
        bsym.for_each_use(&mut |v| {
            if !inputs.contains(&v) {
                inputs.push(v);
            }
        });
        let outputs: Vec<ValueId> = bsym.defined().collect();
        let one = std::slice::from_ref(&bsym);
        let spec = RegionSpec::sized("".into(), self.trace, self.layouts, one, &inputs, &outputs, self.sizes);
        let spec = spec.map_err(|e| match e {
            RegionError::Spec(e) => PlanError::Spec(e),
            RegionError::Unknown { value, dim } => PlanError::Unknown { value, dim },
        })?;
        if let Ok(lowered) = self.lower(spec, inner.clone())? {
            plan.numbers.extend(lowered.numbers.iter().cloned());
            return self.steps(lowered, &inner, plan);
        }
        // It cannot after all: whoever comes behind it for this chain.
        let again = claim_delegated(self.trace, self.layouts, self.claims, &bsym, chain, &[owner]);
        let again = again.map_err(|e| {
            let name = self.claims.name(*chain.last().unwrap_or(&owner)).to_owned();
            let maker = (self.input.executor)(&name);
            let message = format!("`{}`, which it handed on, cannot be run by anybody: {e}", bsym.op);
            match maker {
                Some(maker) => PlanError::Make(maker.fault(
                    &bsym.op,
                    &origin(self.trace, &bsym),
                    FaultKind::Unsupported,
                    message,
                )),
                None => PlanError::Trace(message),
            }
        })?;
        let mut copies = Vec::new();
        for (v, strided) in again.views {
            let dense = self.trace.ty(v).tensor().is_some_and(|t| strided.strides == contiguous(&t.dims));
            if dense {
                self.layouts.set(v, strided);
                continue;
            }
            // Its readers count on dense memory.
            let (name, ty) = (format!("{}.v", self.trace.value(v).name), self.trace.ty(v).clone());
            let from = self.trace.add_value(name, ty);
            self.layouts.set(from, strided);
            copies.push(RegionStep::Copy { from, to: v });
        }
        let mut gone = chain.to_vec();
        gone.insert(0, owner);
        let flat = flatten_call(self.trace, again.bsym, &again.reports);
        for (part, layout) in flat {
            let of_host = part.who.as_ref().is_some_and(|w| &*w.executor == crate::claim::walk::HOST);
            match (of_host, crate::ops::find(&part.op).and_then(|op| op.host)) {
                (true, Some(_)) => plan.numbers.push(part),
                (true, None) => {}
                // The one that could not is as gone as those who have handed it on.
                (false, _) => self.op(part, layout, &gone, plan)?,
            }
        }
        plan.steps.extend(copies);
        Ok(())
    }
}

/// Lowers all regions whose sizes are known; those that are there already stay. The inner error lists the regions that their
/// executors cannot lower.
#[allow(clippy::type_complexity)] // regions by number, or what is wrong with some
pub fn fuse_all(
    lowered: &mut Lowered,
    claims: &mut Claims<'_>,
    input: &FuseInput<'_>,
) -> Result<Result<Vec<Option<Arc<RegionPlan>>>, Vec<(usize, String)>>, PlanError> {
    let mut plans = Vec::with_capacity(lowered.regions.len());
    let mut unsupported = Vec::new();
    for at in 0..lowered.regions.len() {
        match fuse(lowered, at, claims, input)? {
            Fused::Steps(plan) => plans.push(Some(Arc::new(plan))),
            Fused::Later => plans.push(None),
            Fused::Unsupported(why) => {
                unsupported.push((at, why));
                plans.push(None);
            }
        }
    }
    Ok(if unsupported.is_empty() { Ok(plans) } else { Err(unsupported) })
}
