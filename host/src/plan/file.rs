//! A plan as a file: plain data with stable ids, made without running, to be read, kept and compared.
//!
//! Ids: an op of the program goes by its (first) result, which is unique in a trace; a part of a decomposition by its
//! parent's id and its place there. So the same op has the same id in plans of different configs. Deliberately absent:
//! addresses, kernels, anything that differs between two runs of the same command.

use super::build::{CopyRecord, Place, Plan, Step, View};
use super::fuse::RegionPlan;
use crate::ir::{Bsym, Stmt};
use crate::lower::{Lowered, Region};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Version of the form below: one up when a field changes its meaning.
pub const FORMAT: u32 = 1;

/// A plan, ready to be written as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFile {
    /// [`FORMAT`].
    pub plan: u32,
    /// The model's name, where it has one.
    pub model: Option<String>,
    /// What was decided about each op that was asked, in the order of the walk: an op that was taken apart stands
    /// before its parts.
    pub ops: Vec<PlannedOp>,
    /// What is done, in order.
    pub steps: Vec<PlannedStep>,
    /// Copies that a layout forced.
    pub copies: Vec<PlannedCopy>,
    /// How many ops of the execution trace each executor has, `host` included. An op that a fusion executor has handed on
    /// counts as its own.
    pub ops_by_executor: BTreeMap<String, usize>,
    /// How many of these were handed on whole, by who runs them.
    #[serde(default)]
    pub handed_on: BTreeMap<String, usize>,
    /// The regions, in the order in which they run.
    #[serde(default)]
    pub regions: Vec<PlannedRegion>,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// Most bytes of the arena in use at one time.
    pub peak_live_bytes: u64,
    /// Bytes of results that the caller is given.
    pub output_bytes: u64,
    /// In how many parts the program is planned; parts behind the first wait for sizes that only the run knows, and
    /// are not in `steps`.
    pub n_segments: usize,
}

/// A region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedRegion {
    /// `FullFusion0`.
    pub name: String,
    /// Whose it is.
    pub executor: String,
    /// How many ops it holds, the host's views and numbers not counted.
    pub n_ops: usize,
    /// In how many kernels it runs; none where that is known only when it runs.
    pub n_kernels: Option<usize>,
    /// How many of its kernels each executor brings.
    pub kernels_by_executor: BTreeMap<String, usize>,
}

/// One op and who has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedOp {
    /// See the head of this file.
    pub id: String,
    /// Its name.
    pub op: String,
    /// Node of the model.
    pub at: String,
    /// 0 for an op of the program.
    pub depth: u32,
    /// Who has it; none: taken apart.
    pub executor: Option<String>,
    /// The region that it is in.
    pub region: Option<String>,
    /// Who runs it, where that is not who has it.
    #[serde(default)]
    pub run_by: Option<String>,
    /// Who runs parts of it, where its region's executor has handed these on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts_run_by: Vec<String>,
    /// Is it outside the op table?
    pub opaque: bool,
    /// Who was asked before, and why they do not take it.
    pub refusals: Vec<PlannedRefusal>,
}

/// Why an executor does not take an op.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedRefusal {
    /// Who.
    pub executor: String,
    /// Stable code.
    pub code: String,
    /// One sentence.
    pub sentence: String,
    /// The argument or dim at fault.
    pub at: Option<String>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedStep {
    /// `kernel`, `copy`, `number`, `item`, `check` or `nested` (control flow).
    pub kind: String,
    /// The value whose statement it belongs to; none for copies of inputs and outputs.
    pub value: Option<String>,
    /// The op, for kernels.
    pub op: Option<String>,
    /// Who runs it.
    pub executor: String,
    /// Operands.
    pub inputs: Vec<PlannedView>,
    /// Results.
    pub outputs: Vec<PlannedView>,
    /// Scratch bytes.
    pub workspace_bytes: u64,
    /// (output, input) in one place.
    pub in_place: Option<(usize, usize)>,
    /// The region that it is a step of.
    #[serde(default)]
    pub region: Option<String>,
    /// What the executor calls it, for a kernel of a region's own.
    #[serde(default)]
    pub name: Option<String>,
}

/// A tensor in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedView {
    /// The value that the memory was made for.
    pub buffer: String,
    /// `arena`, `param`, `fresh` (the caller's), `earlier` (another segment's), `kernel` (allocated when it runs).
    pub place: String,
    /// Element type.
    pub dtype: String,
    /// Sizes.
    pub dims: Vec<i64>,
    /// In elements.
    pub strides: Vec<i64>,
    /// From the start of the arena for `arena`, else of the buffer.
    pub offset_bytes: i64,
}

/// A copy that a layout forced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedCopy {
    /// Index into `steps`.
    pub step: usize,
    /// The value copied.
    pub value: String,
    /// Bytes.
    pub bytes: u64,
    /// Stable code.
    pub code: String,
    /// One sentence.
    pub reason: String,
}

impl PlanFile {
    /// The plan of a lowered program and its first segment.
    pub fn of(
        lowered: &Lowered,
        regions: &[Option<Arc<RegionPlan>>],
        plan: &Plan,
        n_segments: usize,
    ) -> PlanFile {
        let mut ops_by_executor = BTreeMap::new();
        for who in lowered.trace.ops().filter_map(|bsym| bsym.who.as_ref()) {
            *ops_by_executor.entry(who.executor.to_string()).or_insert(0) += 1;
        }
        let mut handed_on = BTreeMap::new();
        for who in regions.iter().flatten().flat_map(|region| region.handed_on.values()) {
            *handed_on.entry(who.to_string()).or_insert(0) += 1;
        }
        PlanFile {
            plan: FORMAT,
            model: lowered.trace.model.as_ref().map(ToString::to_string),
            ops: planned_ops(lowered, regions),
            steps: plan
                .steps
                .iter()
                .enumerate()
                .map(|(i, step)| planned_step(lowered, plan, i, step))
                .collect(),
            copies: plan.copies.iter().map(planned_copy).collect(),
            ops_by_executor,
            handed_on,
            regions: planned_regions(lowered, regions, plan),
            arena_bytes: plan.arena_bytes,
            peak_live_bytes: plan.peak_live_bytes,
            output_bytes: plan.buffers.iter().filter(|b| b.place == Place::Fresh).map(|b| b.bytes).sum(),
            n_segments,
        }
    }

    /// Ops that no executor of the order took and that fell to `last_resort`.
    pub fn n_last_resort(&self, last_resort: &str, order: &[String]) -> usize {
        let fell = |op: &&PlannedOp| op.executor.as_deref() == Some(last_resort);
        if order.iter().any(|name| name == last_resort) { 0 } else { self.ops.iter().filter(fell).count() }
    }
}

fn planned_regions(lowered: &Lowered, plans: &[Option<Arc<RegionPlan>>], plan: &Plan) -> Vec<PlannedRegion> {
    let mut kernels: Vec<BTreeMap<String, usize>> = vec![BTreeMap::new(); lowered.regions.len()];
    for step in &plan.steps {
        if let Step::Kernel(kernel) = step
            && let Some(by) = kernel.region.and_then(|region| kernels.get_mut(region))
        {
            *by.entry(kernel.executor.to_string()).or_insert(0) += 1;
        }
    }
    let planned = |(number, region): (usize, &Region)| {
        let own = |b: &&Bsym| b.who.as_ref().is_some_and(|who| who.executor == region.executor);
        let n_ops = lowered.trace.body[region.stmts.clone()].iter().filter_map(Stmt::op).filter(own).count();
        let by = std::mem::take(&mut kernels[number]);
        let known = plans.get(number).is_some_and(Option::is_some);
        PlannedRegion {
            name: region.name.to_string(),
            executor: region.executor.to_string(),
            n_ops,
            n_kernels: known.then(|| by.values().sum()),
            kernels_by_executor: by,
        }
    };
    lowered.regions.iter().enumerate().map(planned).collect()
}

/// Where an op stands, and who runs it there.
struct InRegion {
    region: String,
    run_by: Option<String>,
    parts_run_by: Vec<String>,
}

/// For each report whose op stands in a region: the region, and who runs the op for it.
fn in_regions(lowered: &Lowered, plans: &[Option<Arc<RegionPlan>>]) -> BTreeMap<usize, InRegion> {
    let mut known = BTreeMap::new();
    for (number, region) in lowered.regions.iter().enumerate() {
        for (place, stmt) in region.stmts.clone().enumerate() {
            let handed_on = plans.get(number).and_then(|plan| plan.as_ref()?.handed_on.get(&place));
            let run_by = handed_on.map(ToString::to_string);
            let inside = InRegion { region: region.name.to_string(), run_by, parts_run_by: Vec::new() };
            known.insert(lowered.origins[stmt].report, inside);
        }
        for (place, who) in plans.get(number).into_iter().flatten().flat_map(|plan| &plan.in_part) {
            if let Some(inside) = known.get_mut(&lowered.origins[region.stmts.start + place].report) {
                inside.parts_run_by.push(who.to_string());
            }
        }
    }
    known
}

fn planned_ops(lowered: &Lowered, plans: &[Option<Arc<RegionPlan>>]) -> Vec<PlannedOp> {
    let (trace, reports) = (&lowered.trace, &lowered.reports);
    let mut in_regions = in_regions(lowered, plans);
    // Ids of the ops that the current one is a part of, and how many parts of each were seen.
    let mut parents: Vec<(String, usize)> = Vec::new();
    let mut ops = Vec::with_capacity(reports.len());
    for (i, report) in reports.iter().enumerate() {
        parents.truncate(report.depth as usize);
        let id = match parents.last_mut() {
            Some((parent, n_parts)) => {
                *n_parts += 1;
                format!("{parent}/{}", *n_parts - 1)
            }
            // An op without a result is a check or a write: its place among all ops is all that tells it apart.
            None => report.value.map_or_else(|| format!("#{i}"), |value| trace.value(value).name.to_string()),
        };
        parents.push((id.clone(), 0));
        let inside = in_regions.remove(&i);
        let (region, run_by, parts_run_by) = match inside {
            Some(InRegion { region, run_by, parts_run_by }) => (Some(region), run_by, parts_run_by),
            None => (None, None, Vec::new()),
        };
        ops.push(PlannedOp {
            id,
            op: report.op.to_string(),
            at: report.origin.to_string(),
            depth: report.depth,
            executor: report.executor.as_ref().map(ToString::to_string),
            region,
            run_by,
            parts_run_by,
            opaque: report.opaque,
            refusals: report.refusals.iter().map(planned_refusal).collect(),
        });
    }
    ops
}

fn planned_refusal(refusal: &crate::claim::Refusal) -> PlannedRefusal {
    PlannedRefusal {
        executor: refusal.executor.clone(),
        code: refusal.code.clone(),
        sentence: refusal.sentence.clone(),
        at: refusal.at.clone(),
    }
}

fn planned_copy(copy: &CopyRecord) -> PlannedCopy {
    PlannedCopy {
        step: copy.step,
        value: copy.value.to_string(),
        bytes: copy.bytes,
        code: copy.code.to_owned(),
        reason: copy.reason.clone(),
    }
}

fn planned_step(lowered: &Lowered, plan: &Plan, i: usize, step: &Step) -> PlannedStep {
    let stmt = plan.step_stmts.get(i).copied().flatten().and_then(|at| lowered.trace.body.get(at));
    let bsym: Option<&Bsym> = stmt.and_then(|stmt| stmt.op());
    let view = |view: &View| planned_view(plan, view);
    let mut planned = PlannedStep {
        kind: String::new(),
        value: bsym.and_then(|b| b.defined().next()).map(|v| lowered.trace.value(v).name.to_string()),
        op: None,
        executor: crate::claim::walk::HOST.to_owned(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        workspace_bytes: 0,
        in_place: None,
        region: None,
        name: None,
    };
    let kind = match step {
        Step::Kernel(kernel) => {
            planned.op = Some(kernel.spec.op.to_string());
            planned.executor = kernel.executor.to_string();
            planned.inputs = kernel.inputs.iter().map(view).collect();
            planned.outputs = kernel.outputs.iter().map(view).collect();
            planned.workspace_bytes =
                kernel.workspace.and_then(|b| plan.buffers.get(b)).map_or(0, |b| b.bytes);
            planned.in_place = kernel.in_place;
            if let Some(region) = kernel.region {
                planned.region = lowered.regions.get(region).map(|region| region.name.to_string());
                let made = kernel.spec.outputs.first();
                planned.value = made.map(|t| lowered.trace.value(t.value).name.to_string());
                let own = planned.region.as_deref() == Some(&*kernel.spec.op);
                planned.name = own.then(|| kernel.spec.origin.to_string());
            }
            "kernel"
        }
        Step::Copy { from, to } => {
            planned.inputs = vec![view(from)];
            planned.outputs = vec![view(to)];
            "copy"
        }
        Step::Number { name, .. } => {
            planned.op = Some(name.to_string());
            "number"
        }
        Step::Item { from, .. } => {
            planned.inputs = vec![view(from)];
            "item"
        }
        Step::Check { .. } => "check",
        Step::Nested(nested) => {
            let mut operands: Vec<_> = nested.operands.iter().collect();
            operands.sort_unstable_by_key(|(v, _)| **v);
            planned.op = bsym.map(|bsym| bsym.op.to_string());
            planned.inputs = operands.into_iter().map(|(_, v)| view(v)).collect();
            planned.outputs = nested.outputs().map(view).collect();
            "nested"
        }
    };
    planned.kind = kind.to_owned();
    planned
}

fn planned_view(plan: &Plan, view: &View) -> PlannedView {
    let buffer = plan.buffers.get(view.buffer);
    let (place, start) = match buffer.map(|buffer| buffer.place) {
        Some(Place::Arena(offset)) => ("arena", i64::try_from(offset).unwrap_or(i64::MAX)),
        Some(Place::Param(_)) => ("param", 0),
        Some(Place::Earlier(_)) => ("earlier", 0),
        Some(Place::Fresh) => ("fresh", 0),
        Some(Place::ByKernel) => ("kernel", 0),
        Some(Place::Unplaced) | None => ("unplaced", 0),
    };
    PlannedView {
        buffer: buffer.map(|buffer| buffer.name.to_string()).unwrap_or_default(),
        place: place.to_owned(),
        dtype: view.dtype.to_string(),
        dims: view.dims.clone(),
        strides: view.strides.clone(),
        offset_bytes: start.saturating_add(view.offset_bytes),
    }
}
