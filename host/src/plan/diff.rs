//! What differs between two plans: who runs what, copies, memory. Ops are the same where their ids are.

use super::file::{PlanFile, PlannedOp};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The differences of two plans; empty lists where there are none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlanDiff {
    /// Ops that another executor has, or that only one of the plans takes apart.
    pub ops: Vec<OpDiff>,
    /// Totals that differ.
    pub totals: Vec<TotalDiff>,
}

/// An op that the plans treat differently.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OpDiff {
    /// The op's id in both plans.
    pub id: String,
    /// Its name.
    pub op: String,
    /// Who has it in the first plan; `(taken apart)`, or none where the plan does not have the op.
    pub a: Option<String>,
    /// Who has it in the second.
    pub b: Option<String>,
    /// Why the second plan's executor of choice in the first does not have it there, where that was asked.
    pub reason: Option<String>,
}

/// A number that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TotalDiff {
    /// `arena_bytes`, `n_copies`, `ops of pytorch`, ….
    pub what: String,
    /// In the first plan.
    pub a: u64,
    /// In the second.
    pub b: u64,
}

impl PlanDiff {
    /// Compares two plans.
    pub fn of(a: &PlanFile, b: &PlanFile) -> PlanDiff {
        PlanDiff { ops: ops(a, b), totals: totals(a, b) }
    }

    /// Are they the same in everything that is compared?
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.totals.is_empty()
    }
}

/// In the first plan's order, then what only the second has.
fn ops(a: &PlanFile, b: &PlanFile) -> Vec<OpDiff> {
    let in_a: BTreeMap<&str, &PlannedOp> = a.ops.iter().map(|op| (op.id.as_str(), op)).collect();
    let in_b: BTreeMap<&str, &PlannedOp> = b.ops.iter().map(|op| (op.id.as_str(), op)).collect();
    let only_in_b = b.ops.iter().filter(|op| !in_a.contains_key(op.id.as_str()));
    a.ops
        .iter()
        .chain(only_in_b)
        .filter_map(|op| {
            let (a, b) = (in_a.get(op.id.as_str()), in_b.get(op.id.as_str()));
            let (who_a, who_b) = (a.map(|op| owner(op)), b.map(|op| owner(op)));
            (who_a != who_b).then(|| OpDiff {
                id: op.id.clone(),
                op: op.op.clone(),
                reason: b.and_then(|op| refusal_of(op, who_a.as_deref()?)),
                a: who_a,
                b: who_b,
            })
        })
        .collect()
}

fn owner(op: &PlannedOp) -> String {
    op.executor.clone().unwrap_or_else(|| "(taken apart)".to_owned())
}

fn refusal_of(op: &PlannedOp, executor: &str) -> Option<String> {
    let refusal = op.refusals.iter().find(|refusal| refusal.executor == executor)?;
    Some(format!("{}: {}", refusal.code, refusal.sentence))
}

fn totals(a: &PlanFile, b: &PlanFile) -> Vec<TotalDiff> {
    let numbers = |plan: &PlanFile| {
        [
            ("n_steps", plan.steps.len() as u64),
            ("n_copies", plan.copies.len() as u64),
            ("copied_bytes", plan.copies.iter().map(|copy| copy.bytes).sum()),
            ("arena_bytes", plan.arena_bytes),
            ("peak_live_bytes", plan.peak_live_bytes),
            ("output_bytes", plan.output_bytes),
            ("n_segments", plan.n_segments as u64),
        ]
    };
    let executors: BTreeSet<&String> = a.ops_by_executor.keys().chain(b.ops_by_executor.keys()).collect();
    let count = |plan: &PlanFile, name: &String| plan.ops_by_executor.get(name).copied().unwrap_or(0) as u64;
    let of_executors =
        executors.into_iter().map(|name| (format!("ops of {name}"), count(a, name), count(b, name)));
    let of_plans = numbers(a).into_iter().zip(numbers(b)).map(|((what, a), (_, b))| (what.to_owned(), a, b));
    of_executors
        .chain(of_plans)
        .filter(|(_, a, b)| a != b)
        .map(|(what, a, b)| TotalDiff { what, a, b })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::file::{FORMAT, PlannedRefusal};

    fn op(id: &str, executor: Option<&str>, refused_by: &[&str]) -> PlannedOp {
        let refusal = |executor: &&str| PlannedRefusal {
            executor: (*executor).to_owned(),
            code: "claim::dtype_unsupported".to_owned(),
            sentence: "input 0 is f64; it takes f32".to_owned(),
            at: None,
        };
        PlannedOp {
            id: id.to_owned(),
            op: "torch.linear".to_owned(),
            at: id.to_owned(),
            depth: 0,
            executor: executor.map(str::to_owned),
            region: None,
            run_by: None,
            parts_run_by: Vec::new(),
            opaque: false,
            refusals: refused_by.iter().map(refusal).collect(),
        }
    }

    fn plan(ops: Vec<PlannedOp>, arena_bytes: u64) -> PlanFile {
        let mut ops_by_executor = BTreeMap::new();
        for executor in ops.iter().filter_map(|op| op.executor.clone()) {
            *ops_by_executor.entry(executor).or_insert(0) += 1;
        }
        PlanFile {
            plan: FORMAT,
            model: None,
            ops,
            steps: Vec::new(),
            copies: Vec::new(),
            ops_by_executor,
            handed_on: BTreeMap::new(),
            regions: Vec::new(),
            arena_bytes,
            peak_live_bytes: 0,
            output_bytes: 0,
            n_segments: 1,
        }
    }

    #[test]
    fn a_plan_does_not_differ_from_itself() {
        let plan = plan(vec![op("a", Some("x"), &[]), op("b", None, &[])], 64);
        assert!(PlanDiff::of(&plan, &plan).is_empty());
    }

    #[test]
    fn other_owners_are_named_with_the_reason() {
        let a = plan(vec![op("a", Some("x"), &[]), op("b", Some("x"), &[])], 64);
        let b = plan(vec![op("a", Some("y"), &["x"]), op("b", None, &[]), op("b/0", Some("y"), &[])], 128);
        let diff = PlanDiff::of(&a, &b);
        let shown: Vec<_> = diff
            .ops
            .iter()
            .map(|d| format!("{} {:?} {:?} {:?}", d.id, d.a.as_deref(), d.b.as_deref(), d.reason.as_deref()))
            .collect();
        assert_eq!(
            shown,
            [
                r#"a Some("x") Some("y") Some("claim::dtype_unsupported: input 0 is f64; it takes f32")"#,
                r#"b Some("x") Some("(taken apart)") None"#,
                r#"b/0 None Some("y") None"#,
            ]
        );
        let totals: Vec<_> = diff.totals.iter().map(|t| format!("{} {} {}", t.what, t.a, t.b)).collect();
        assert_eq!(totals, ["ops of x 2 0", "ops of y 0 2", "arena_bytes 64 128"]);
    }
}
