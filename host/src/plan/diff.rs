//! What differs between two plans of one model.

use super::file::{PlanFile, PlanOp};
use serde::Serialize;
use std::collections::BTreeMap;

/// Differences, in the order of the first plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PlanDiff {
    /// Ops with another executor (or taken apart in one of them): id, op, before, after.
    pub moved: Vec<Moved>,
    /// Ops that only the first plan has.
    pub gone: Vec<String>,
    /// Ops that only the second plan has.
    pub new: Vec<String>,
    /// Numbers that differ: name, before, after.
    pub numbers: Vec<(String, u64, u64)>,
}

/// An op with another executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Its id.
    pub id: String,
    /// The op.
    pub op: String,
    /// Who had it; none: taken apart.
    pub before: Option<String>,
    /// Who has it.
    pub after: Option<String>,
}

impl PlanDiff {
    /// Is there no difference?
    pub fn is_empty(&self) -> bool {
        *self == PlanDiff::default()
    }
}

/// Compares two plans.
pub fn diff(a: &PlanFile, b: &PlanFile) -> PlanDiff {
    let by_id = |p: &PlanFile| -> BTreeMap<String, PlanOp> {
        p.ops.iter().map(|o| (o.id.clone(), o.clone())).collect()
    };
    let (in_a, in_b) = (by_id(a), by_id(b));
    let mut out = PlanDiff::default();
    for op in &a.ops {
        match in_b.get(&op.id) {
            None => out.gone.push(op.id.clone()),
            Some(other) if other.executor != op.executor => out.moved.push(Moved {
                id: op.id.clone(),
                op: op.op.clone(),
                before: op.executor.clone(),
                after: other.executor.clone(),
            }),
            Some(_) => {}
        }
    }
    out.new = b.ops.iter().filter(|o| !in_a.contains_key(&o.id)).map(|o| o.id.clone()).collect();
    let numbers = |p: &PlanFile| {
        let s = &p.summary;
        [
            ("steps", s.steps),
            ("regions", s.regions),
            ("copies", s.copies),
            ("copy bytes", s.copy_bytes),
            ("arena bytes", s.arena_bytes),
            ("peak bytes", s.peak_bytes),
        ]
    };
    for ((name, before), (_, after)) in numbers(a).into_iter().zip(numbers(b)) {
        if before != after {
            out.numbers.push((name.into(), before, after));
        }
    }
    out
}
