//! An executor's proposals, never trusted.

use super::epochs::Group;
use crate::ir::{Stmt, Trace, ValueId};
use rustc_hash::FxHashMap;

/// What is wrong with a proposal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposalError {
    /// Names an op that the region does not have.
    #[error("proposal {proposal} names op {op}; the region has {n_ops} ops")]
    Stranger {
        /// Index of the proposal.
        proposal: usize,
        /// The op.
        op: u32,
        /// How many there are.
        n_ops: usize,
    },
    /// Names an op twice, or that another one has.
    #[error("op {op} stands in proposal {first} and again in proposal {second}")]
    Twice {
        /// The op.
        op: u32,
        /// A proposal.
        first: usize,
        /// Another, or the same.
        second: usize,
    },
    /// A path leaves it and comes back, or two need each other.
    #[error(
        "proposal {proposal} is not convex: what it needs depends on what it makes, through op {through}"
    )]
    NotConvex {
        /// Index of the proposal.
        proposal: usize,
        /// An op on the way.
        through: u32,
    },
    /// Nothing in it.
    #[error("proposal {proposal} holds no op")]
    Empty {
        /// Index of the proposal.
        proposal: usize,
    },
}

/// Checks proposals for the region `group` of `trace`: each names ops of the region by their place in it, none twice, and
/// all are convex beside each other. Gives, for each proposal, its statements: the executor's own that it names, and the views
/// and numbers between them. Others of these may be named, and are left out, since they go where they are used.
pub fn check_proposals(
    trace: &Trace,
    group: &Group,
    own: &dyn Fn(usize) -> bool,
    proposals: &[Vec<u32>],
) -> Result<Vec<Vec<usize>>, ProposalError> {
    let n_ops = group.stmts.len();
    let mut of_op: Vec<Option<usize>> = vec![None; n_ops];
    for (proposal, ops) in proposals.iter().enumerate() {
        for &op in ops {
            let Some(slot) = of_op.get_mut(op as usize) else {
                return Err(ProposalError::Stranger { proposal, op, n_ops });
            };
            if let Some(first) = slot.replace(proposal) {
                return Err(ProposalError::Twice { op, first, second: proposal });
            }
        }
    }
    // Neutral ops belong to nobody here.
    for (at, stmt) in group.stmts.iter().enumerate() {
        if !own(*stmt) {
            of_op[at] = None;
        }
    }
    convex(trace, group, own, &of_op, proposals.len())?;
    between(trace, group, own, &mut of_op);
    let mut lists: Vec<Vec<usize>> = vec![Vec::new(); proposals.len()];
    for (at, proposal) in of_op.iter().enumerate() {
        if let Some(p) = proposal {
            lists[*p].push(group.stmts[at]);
        }
    }
    let no_own = |list: &Vec<usize>| !list.iter().any(|at| own(*at));
    match lists.iter().position(no_own) {
        Some(proposal) => Err(ProposalError::Empty { proposal }),
        None => Ok(lists),
    }
}

/// Contracts each proposal to a node; the region without what lies outside must stay acyclic. (A path that leaves the whole
/// region does not come back, since that is convex.)
fn convex(
    trace: &Trace,
    group: &Group,
    own: &dyn Fn(usize) -> bool,
    of_op: &[Option<usize>],
    n_proposals: usize,
) -> Result<(), ProposalError> {
    let n = of_op.len();
    let node = |at: usize| of_op[at].map_or(at, |p| n + p);
    // For each value, the nodes that it comes from: several where a neutral op joins them.
    let mut made_by: FxHashMap<ValueId, Vec<usize>> = FxHashMap::default();
    let mut needed: Vec<Vec<usize>> = vec![Vec::new(); n + n_proposals];
    let mut waits = vec![0usize; n + n_proposals];
    for (at, stmt) in group.stmts.iter().enumerate() {
        let Stmt::Op(bsym) = &trace.body[*stmt] else { continue };
        let mut from: Vec<usize> = Vec::new();
        bsym.for_each_use(&mut |v| from.extend(made_by.get(&v).into_iter().flatten()));
        from.sort_unstable();
        from.dedup();
        let made = if own(*stmt) {
            let to = node(at);
            for &from in from.iter().filter(|from| **from != to) {
                needed[from].push(to);
                waits[to] += 1;
            }
            vec![to]
        } else {
            from
        };
        bsym.defined().for_each(|v| {
            made_by.insert(v, made.clone());
        });
    }
    let used = |x: usize| x >= n || (of_op[x].is_none() && own(group.stmts[x]));
    let mut ready: Vec<usize> = (0..n + n_proposals).filter(|x| waits[*x] == 0 && used(*x)).collect();
    let mut done = 0;
    while let Some(x) = ready.pop() {
        done += 1;
        for &next in &needed[x] {
            waits[next] -= 1;
            if waits[next] == 0 {
                ready.push(next);
            }
        }
    }
    if done == (0..n + n_proposals).filter(|x| used(*x)).count() {
        return Ok(());
    }
    let proposal = (0..n_proposals).find(|p| waits[n + p] > 0).unwrap_or(0);
    let through = (0..n).find(|x| used(*x) && waits[*x] > 0);
    let through =
        through.or_else(|| (0..n).find(|x| of_op[*x].is_some_and(|p| p != proposal && waits[n + p] > 0)));
    Err(ProposalError::NotConvex { proposal, through: through.unwrap_or(0) as u32 })
}

/// Views and numbers that stand between ops of one proposal belong to it. (None stands between those of two, in both
/// directions, since these are convex.)
fn between(trace: &Trace, group: &Group, own: &dyn Fn(usize) -> bool, of_op: &mut [Option<usize>]) {
    let mut made_by: FxHashMap<ValueId, usize> = FxHashMap::default();
    // For each op of nobody's the proposals that it comes from.
    let mut from: Vec<Vec<usize>> = vec![Vec::new(); of_op.len()];
    let mut needed: Vec<Vec<usize>> = vec![Vec::new(); of_op.len()];
    for (at, stmt) in group.stmts.iter().enumerate() {
        let Stmt::Op(bsym) = &trace.body[*stmt] else { continue };
        bsym.for_each_use(&mut |v| needed[at].extend(made_by.get(&v)));
        if !own(*stmt) {
            let mut all: Vec<usize> = needed[at]
                .iter()
                .flat_map(|need| {
                    if own(group.stmts[*need]) {
                        of_op[*need].into_iter().collect()
                    } else {
                        from[*need].clone()
                    }
                })
                .collect();
            all.sort_unstable();
            all.dedup();
            from[at] = all;
        }
        bsym.defined().for_each(|v| {
            made_by.insert(v, at);
        });
    }
    let mut to: Vec<Vec<usize>> = vec![Vec::new(); of_op.len()];
    for at in (0..of_op.len()).rev() {
        let neutral = !own(group.stmts[at]);
        let users: Vec<usize> = if neutral { to[at].clone() } else { of_op[at].into_iter().collect() };
        if neutral {
            of_op[at] = from[at].iter().copied().find(|p| users.contains(p));
        }
        for &need in &needed[at] {
            if !own(group.stmts[need]) {
                to[need].extend(&users);
            }
        }
    }
}
