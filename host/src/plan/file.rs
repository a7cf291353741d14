//! The plan as a file: JSON that says before anything runs who runs what, why nobody else, and what it costs.
//!
//! Ids are stable: an op's is its value's name in the trace, so that two plans of one model can be compared.

use super::build::{CheckSource, Place, Plan, Step, View};
use crate::claim::OpReport;
use crate::ir::Trace;
use crate::lower::Lowered;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A whole plan file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanFile {
    /// Version of this format.
    pub plan: u32,
    /// Name of the model, where it has one.
    pub model: Option<String>,
    /// What the sizes of the inputs were taken to be.
    pub sizes: BTreeMap<String, i64>,
    /// Counts and bytes.
    pub summary: PlanSummary,
    /// Each op that an executor or the host has, in the order of execution.
    pub ops: Vec<PlanOp>,
    /// What is done, in order. Steps of later segments are planned when their sizes are known.
    pub steps: Vec<PlanStep>,
    /// Copies that a layout forced.
    pub copies: Vec<PlanCopy>,
}

/// Counts and bytes of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSummary {
    /// Ops by executor, the host's views and numbers included.
    pub ops_by_executor: BTreeMap<String, u64>,
    /// Composites that were taken apart.
    pub taken_apart: u64,
    /// Ops outside the op table.
    pub opaque: u64,
    /// Steps of the first segment.
    pub steps: u64,
    /// Fused regions.
    pub regions: u64,
    /// Copies that a layout forced.
    pub copies: u64,
    /// Their bytes.
    pub copy_bytes: u64,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// Bytes of outputs and of what else outlives the arena.
    pub fresh_bytes: u64,
    /// Arena and outputs.
    pub peak_bytes: u64,
    /// Parts planned one after another because sizes become known only when run.
    pub segments: u64,
}

/// One op.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanOp {
    /// Stable id.
    pub id: String,
    /// The op.
    pub op: String,
    /// Node of the model.
    pub origin: String,
    /// How deep in decompositions.
    pub depth: u32,
    /// Who has it; none: taken apart.
    pub executor: Option<String>,
    /// Region; none: its own step.
    pub region: Option<String>,
    /// Outside the op table.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opaque: bool,
    /// Who did not take it, in the order asked.
    pub refusals: Vec<PlanRefusal>,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRefusal {
    /// The executor.
    pub executor: String,
    /// Stable code.
    pub code: String,
    /// Reason.
    pub sentence: String,
    /// Argument or dim at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanStep {
    /// Number.
    pub step: usize,
    /// `kernel`, `copy`, `number`, `item`, `check`.
    pub kind: String,
    /// Id of its op; none: moves inputs or outputs.
    pub op: Option<String>,
    /// Who runs it.
    pub executor: String,
    /// What it reads.
    pub reads: Vec<PlanOperand>,
    /// What it writes.
    pub writes: Vec<PlanOperand>,
    /// Scratch bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_bytes: Option<u64>,
    /// (output, input) in one place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place: Option<(usize, usize)>,
}

/// An operand of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOperand {
    /// Whose memory.
    pub buffer: String,
    /// `arena+512`, `param`, `fresh`, `by kernel`, `earlier`.
    pub place: String,
    /// Element type.
    pub dtype: String,
    /// Sizes.
    pub dims: Vec<i64>,
    /// Strides in elements.
    pub strides: Vec<i64>,
    /// Offset in its buffer, in bytes.
    pub offset_bytes: i64,
}

/// A copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanCopy {
    /// The step.
    pub step: usize,
    /// What is copied.
    pub value: String,
    /// Bytes.
    pub bytes: u64,
    /// Stable code.
    pub code: String,
    /// Why.
    pub reason: String,
}

impl PlanFile {
    /// The file of a plan.
    pub fn of(lowered: &Lowered, first: &Plan, n_segments: usize, sizes: BTreeMap<String, i64>) -> PlanFile {
        let trace = &lowered.trace;
        let copies: Vec<PlanCopy> = first
            .copies
            .iter()
            .map(|c| PlanCopy {
                step: c.step,
                value: c.value.to_string(),
                bytes: c.bytes,
                code: c.code.into(),
                reason: c.reason.clone(),
            })
            .collect();
        PlanFile {
            plan: 1,
            model: trace.model.as_ref().map(|m| m.to_string()),
            sizes,
            summary: PlanSummary::of(lowered, first, n_segments),
            ops: ids(trace, &lowered.reports)
                .zip(&lowered.reports)
                .map(|(id, r)| PlanOp::of(id, r))
                .collect(),
            steps: first.steps.iter().enumerate().map(|(i, s)| PlanStep::of(lowered, first, i, s)).collect(),
            copies,
        }
    }

    /// As JSON, indented.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan file is plain data")
    }

    /// Reads a plan file; the error says where it is wrong.
    pub fn from_json(text: &str) -> Result<PlanFile, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }
}

impl PlanSummary {
    /// Counts and bytes of a plan whose first segment is `first`.
    pub fn of(lowered: &Lowered, first: &Plan, n_segments: usize) -> PlanSummary {
        let mut s = PlanSummary { segments: n_segments as u64, ..PlanSummary::default() };
        for stmt in &lowered.trace.body {
            if let Some(who) = stmt.op().and_then(|b| b.who.as_ref()) {
                *s.ops_by_executor.entry(who.executor.to_string()).or_default() += 1;
            }
        }
        s.taken_apart = lowered.reports.iter().filter(|r| r.executor.is_none()).count() as u64;
        s.opaque = lowered.reports.iter().filter(|r| r.opaque).count() as u64;
        s.steps = first.steps.len() as u64;
        s.copies = first.copies.len() as u64;
        s.copy_bytes = first.copies.iter().map(|c| c.bytes).sum();
        s.arena_bytes = first.arena_bytes;
        s.fresh_bytes = first.buffers.iter().filter(|b| b.place == Place::Fresh).map(|b| b.bytes).sum();
        s.peak_bytes = s.arena_bytes + s.fresh_bytes;
        s
    }
}

/// Ids of the reports' ops: the value's name; where a name stands twice (an op without results), a number behind it.
fn ids<'a>(trace: &'a Trace, reports: &'a [OpReport]) -> impl Iterator<Item = String> + 'a {
    let mut seen: FxHashMap<String, u32> = FxHashMap::default();
    reports.iter().map(move |r| {
        let name = r.value.map_or_else(|| r.origin.to_string(), |v| trace.value(v).name.to_string());
        let n = seen.entry(name.clone()).or_default();
        *n += 1;
        if *n == 1 { name } else { format!("{name}#{n}") }
    })
}

impl PlanOp {
    fn of(id: String, r: &OpReport) -> PlanOp {
        PlanOp {
            id,
            op: r.op.to_string(),
            origin: r.origin.to_string(),
            depth: r.depth,
            executor: r.executor.as_ref().map(|e| e.to_string()),
            region: None,
            opaque: r.opaque,
            refusals: r
                .refusals
                .iter()
                .map(|f| PlanRefusal {
                    executor: f.executor.clone(),
                    code: f.code.clone(),
                    sentence: f.sentence.clone(),
                    at: f.at.clone(),
                })
                .collect(),
        }
    }
}

impl PlanStep {
    fn of(lowered: &Lowered, plan: &Plan, index: usize, step: &Step) -> PlanStep {
        let host = || crate::claim::walk::HOST.to_string();
        let operand = |v: &View| PlanOperand::of(plan, v);
        let op = plan.step_stmts[index].and_then(|at| lowered.trace.body[at].op()).map(|b| {
            b.defined().next().map_or_else(|| b.op.to_string(), |v| lowered.trace.value(v).name.to_string())
        });
        let base = PlanStep {
            step: index,
            kind: "number".into(),
            op,
            executor: host(),
            reads: Vec::new(),
            writes: Vec::new(),
            workspace_bytes: None,
            in_place: None,
        };
        match step {
            Step::Kernel(k) => PlanStep {
                kind: "kernel".into(),
                executor: k.executor.to_string(),
                reads: k.inputs.iter().map(operand).collect(),
                writes: k.outputs.iter().map(operand).collect(),
                workspace_bytes: k.workspace.map(|b| plan.buffers[b].bytes),
                in_place: k.in_place,
                ..base
            },
            Step::Copy { from, to } => PlanStep {
                kind: "copy".into(),
                reads: vec![operand(from)],
                writes: vec![operand(to)],
                ..base
            },
            Step::Number { .. } => base,
            Step::Item { from, .. } => PlanStep { kind: "item".into(), reads: vec![operand(from)], ..base },
            Step::Check { condition, .. } => {
                let reads = match condition {
                    CheckSource::Tensor(v) => vec![operand(v)],
                    CheckSource::Number(_) => Vec::new(),
                };
                PlanStep { kind: "check".into(), reads, ..base }
            }
        }
    }
}

impl PlanOperand {
    fn of(plan: &Plan, v: &View) -> PlanOperand {
        let buffer = &plan.buffers[v.buffer];
        let place = match buffer.place {
            Place::Arena(offset) => format!("arena+{offset}"),
            Place::Param(_) => "param".into(),
            Place::Earlier(_) => "earlier".into(),
            Place::Fresh => "fresh".into(),
            Place::ByKernel => "by kernel".into(),
            Place::Unplaced => "nowhere".into(),
        };
        PlanOperand {
            buffer: buffer.name.to_string(),
            place,
            dtype: v.dtype.name().into(),
            dims: v.dims.clone(),
            strides: v.strides.clone(),
            offset_bytes: v.offset_bytes,
        }
    }
}
