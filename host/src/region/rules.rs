//! What an executor's rules make of a region.

use super::epochs::Group;
use crate::claim::claims::shown;
use crate::claim::{Refusal, codes};
use crate::ir::{Stmt, Trace};
use thunderhead_manifest::RegionRules;

/// What becomes of a region.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It stays.
    Keep,
    /// It is cut: these statements stay together each. Convex, since they follow each other in an order of the trace.
    Cut(Vec<Vec<usize>>),
    /// Its ops are released, with this reason.
    Release(Refusal),
}

/// What `rules` make of `group`; `own` says which statements are the executor's own, and not neutral.
pub fn judge(
    trace: &Trace,
    group: &Group,
    own: &dyn Fn(usize) -> bool,
    rules: &RegionRules,
    executor: &str,
) -> Verdict {
    if let Some(max) = rules.max_ops.filter(|max| (group.n_ops as u64) > *max) {
        let ops: Vec<usize> = group.stmts.iter().copied().filter(|at| own(*at)).collect();
        let max = usize::try_from(max.max(1)).unwrap_or(usize::MAX);
        return Verdict::Cut(ops.chunks(max).map(<[usize]>::to_vec).collect());
    }
    if let Some(min) = rules.min_ops.filter(|min| (group.n_ops as u64) < *min) {
        let ops = if group.n_ops == 1 { "op" } else { "ops" };
        let sentence = format!("its region would have {} {ops}, `min_ops` is {min}", group.n_ops);
        return Verdict::Release(Refusal::new(executor, codes::REGION_MIN_OPS, sentence));
    }
    if let Some(globs) = &rules.needs_any {
        let held = |at: &usize| matches!(&trace.body[*at], Stmt::Op(b) if globs.iter().any(|glob| glob.matches(&b.op)));
        if !group.stmts.iter().any(held) {
            let sentence = format!("its region would hold none of {}", shown(globs));
            return Verdict::Release(Refusal::new(executor, codes::REGION_NEEDS_ANY, sentence));
        }
    }
    Verdict::Keep
}
