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
    /// It is cut: these statements stay together each, views included. Convex, since they follow each other in the trace.
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
        return Verdict::Cut(cut(&group.stmts, own, max.max(1)));
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

/// Pieces of at most `max` own statements each, in order; what is not own goes with what stands before it.
fn cut(stmts: &[usize], own: &dyn Fn(usize) -> bool, max: u64) -> Vec<Vec<usize>> {
    let mut pieces: Vec<Vec<usize>> = vec![Vec::new()];
    let mut n = 0;
    for &at in stmts {
        if own(at) {
            if n == max {
                pieces.push(Vec::new());
                n = 0;
            }
            n += 1;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(at);
        }
    }
    pieces
}
