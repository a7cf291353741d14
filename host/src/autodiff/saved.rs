//! What is saved for the backward, and what is computed again: a min-cut.
//!
//! Nodes are the forward's values that the backward needs, and those from which they can be computed again by cheap
//! ops. A value may be saved at the cost of its bytes; parameters and inputs cost nothing, since they are held by
//! reference. The cheapest set that separates what cannot be computed again from what the backward uses is saved
//! (node capacities; max-flow by Dinic's algorithm, ties towards saving fewer, later values).

use super::backward::Reverse;
use super::tape::Tape;
use crate::ir::{Bsym, ValueId};
use crate::ops::{self, Traits};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// The decision.
pub struct Choice {
    /// Values that the backward takes from the forward.
    pub saved: FxHashSet<ValueId>,
    /// Statements of the forward (by index) whose parts stand in it instead of the composite, since the backward needs
    /// something from inside that it cannot cheaply compute again.
    pub taken_apart: FxHashSet<usize>,
    /// The call that makes each value of the forward again.
    pub makers: FxHashMap<ValueId, Bsym>,
}

/// Where a value of the forward comes from.
#[derive(Clone, Copy)]
struct Made {
    stmt: usize,
    /// Inside a composite, not one of its results.
    inside: bool,
}

/// Chooses for `reverse`.
pub fn choose(tape: &Tape, reverse: &Reverse, remat: bool) -> Choice {
    let mut makers: FxHashMap<ValueId, Bsym> = FxHashMap::default();
    let mut made: FxHashMap<ValueId, Made> = FxHashMap::default();
    for (at, stmt) in tape.forward.iter().enumerate() {
        for part in &stmt.parts {
            for v in part.defined() {
                makers.insert(v, part.clone());
                made.insert(v, Made { stmt: at, inside: true });
            }
        }
        for v in stmt.bsym.defined() {
            // A part that makes a result of the composite knows how to make it again more cheaply than the whole.
            makers.entry(v).or_insert_with(|| stmt.bsym.clone());
            made.insert(v, Made { stmt: at, inside: false });
        }
    }
    let needed = needed(tape, reverse, &made);
    let free: FxHashSet<ValueId> = tape.trace.params.iter().map(|p| p.value).collect();
    let mut saved =
        if remat { min_cut(tape, &needed, &makers, &free) } else { needed.iter().copied().collect() };
    if !remat {
        // Views are made again in any case: saving one would copy its base.
        saved = through_views(saved, &makers);
    }
    let taken_apart = saved.iter().filter_map(|v| made.get(v)).filter(|m| m.inside).map(|m| m.stmt).collect();
    Choice { saved, taken_apart, makers }
}

/// The forward's values that the backward uses, in the order of first use.
fn needed(tape: &Tape, reverse: &Reverse, made: &FxHashMap<ValueId, Made>) -> Vec<ValueId> {
    let params: FxHashSet<ValueId> = tape.trace.params.iter().map(|p| p.value).collect();
    let mut seen = FxHashSet::default();
    let mut all = Vec::new();
    let mut need = |v: ValueId| {
        if (made.contains_key(&v) || params.contains(&v)) && seen.insert(v) {
            all.push(v);
        }
    };
    for b in &reverse.body {
        b.for_each_use(&mut need);
    }
    reverse.gradients.iter().for_each(|(_, g)| need(*g));
    all
}

/// Is the call cheap to do again?
fn is_cheap(bsym: &Bsym) -> bool {
    ops::find(&bsym.op).is_some_and(|op| {
        let cheap = op.is(Traits::VIEW) || op.is(Traits::CHEAP) || op.is(Traits::POINTWISE);
        let pure = !op.is(Traits::EFFECT) && !op.is(Traits::DATA_SIZED) && op.host.is_none();
        cheap && pure
    })
}

fn through_views(saved: FxHashSet<ValueId>, makers: &FxHashMap<ValueId, Bsym>) -> FxHashSet<ValueId> {
    let mut out = FxHashSet::default();
    let mut todo: Vec<ValueId> = saved.into_iter().collect();
    while let Some(v) = todo.pop() {
        match makers.get(&v) {
            Some(b) if is_prim_view(b) => b.for_each_use(&mut |u| todo.push(u)),
            _ => {
                out.insert(v);
            }
        }
    }
    out
}

fn is_prim_view(bsym: &Bsym) -> bool {
    ops::find(&bsym.op).is_some_and(|op| op.is(Traits::VIEW) && op.view.is_some())
}

/// A flow network; node `2 i` is the way into value `i`, `2 i + 1` the way out.
struct Network {
    edges: Vec<Edge>,
    from: Vec<Vec<usize>>,
}

struct Edge {
    to: usize,
    capacity: u64,
}

const ENDLESS: u64 = u64::MAX / 4;

impl Network {
    fn edge(&mut self, a: usize, b: usize, capacity: u64) {
        self.from[a].push(self.edges.len());
        self.edges.push(Edge { to: b, capacity });
        self.from[b].push(self.edges.len());
        self.edges.push(Edge { to: a, capacity: 0 });
    }

    fn levels(&self, source: usize) -> Vec<u32> {
        let mut level = vec![u32::MAX; self.from.len()];
        level[source] = 0;
        let mut queue = VecDeque::from([source]);
        while let Some(n) = queue.pop_front() {
            for &e in &self.from[n] {
                let Edge { to, capacity } = self.edges[e];
                if capacity > 0 && level[to] == u32::MAX {
                    level[to] = level[n] + 1;
                    queue.push_back(to);
                }
            }
        }
        level
    }

    /// One augmenting path along rising levels; without recursion, since chains can be long.
    fn augment(&mut self, source: usize, sink: usize, level: &[u32], next: &mut [usize]) -> bool {
        let mut path: Vec<usize> = Vec::new();
        let mut at = source;
        loop {
            if at == sink {
                let amount = path.iter().map(|e| self.edges[*e].capacity).min().unwrap_or(0);
                for e in path {
                    self.edges[e].capacity -= amount;
                    self.edges[e ^ 1].capacity = self.edges[e ^ 1].capacity.saturating_add(amount);
                }
                return amount > 0;
            }
            let step = loop {
                let Some(&e) = self.from[at].get(next[at]) else { break None };
                let Edge { to, capacity } = self.edges[e];
                if capacity > 0 && level[to] == level[at].wrapping_add(1) {
                    break Some(e);
                }
                next[at] += 1;
            };
            match step {
                Some(e) => {
                    path.push(e);
                    at = self.edges[e].to;
                }
                None => {
                    let Some(e) = path.pop() else { return false };
                    at = self.edges[e ^ 1].to;
                    next[at] += 1;
                }
            }
        }
    }
}

/// The cheapest values to save for `needed`.
fn min_cut(
    tape: &Tape,
    needed: &[ValueId],
    makers: &FxHashMap<ValueId, Bsym>,
    free: &FxHashSet<ValueId>,
) -> FxHashSet<ValueId> {
    // All values from which the needed ones can be computed again.
    let mut index: FxHashMap<ValueId, usize> = FxHashMap::default();
    let mut values: Vec<ValueId> = Vec::new();
    let mut todo: Vec<ValueId> = needed.to_vec();
    while let Some(v) = todo.pop() {
        if index.contains_key(&v) {
            continue;
        }
        index.insert(v, values.len());
        values.push(v);
        if let Some(b) = makers.get(&v).filter(|b| is_cheap(b)) {
            b.for_each_use(&mut |u| todo.push(u));
        }
    }
    let n = values.len();
    let (source, sink) = (2 * n, 2 * n + 1);
    let mut net = Network { edges: Vec::new(), from: vec![Vec::new(); 2 * n + 2] };
    for (i, v) in values.iter().enumerate() {
        // A byte more than nothing for what is free, so that fewer are kept where it makes no difference.
        let cost = if free.contains(v) {
            1
        } else {
            tape.bytes(*v).unwrap_or(ENDLESS / 1024).saturating_mul(16).max(16)
        };
        net.edge(2 * i, 2 * i + 1, cost.min(ENDLESS / 1024));
        match makers.get(v).filter(|b| is_cheap(b)) {
            // Something made from nothing (iota, full) is always made again.
            Some(b) => b.for_each_use(&mut |u| net.edge(2 * index[&u] + 1, 2 * i, ENDLESS)),
            None => net.edge(source, 2 * i, ENDLESS),
        }
    }
    for v in needed {
        net.edge(2 * index[v] + 1, sink, ENDLESS);
    }
    loop {
        let level = net.levels(source);
        if level[sink] == u32::MAX {
            break;
        }
        let mut next = vec![0; net.from.len()];
        while net.augment(source, sink, &level, &mut next) {}
    }
    // Saved: the way in can be reached from the source, the way out cannot. Of all cuts this is the one nearest to the
    // source; the one nearest to the sink computes less again, so take that: the way out reaches the sink.
    let reaches = reaches_sink(&net, sink);
    values
        .iter()
        .enumerate()
        .filter(|(i, _)| reaches[2 * i + 1] && !reaches[2 * i])
        .map(|(_, v)| *v)
        .collect()
}

/// Which nodes can still push flow to the sink.
fn reaches_sink(net: &Network, sink: usize) -> Vec<bool> {
    let mut reaches = vec![false; net.from.len()];
    reaches[sink] = true;
    let mut queue = VecDeque::from([sink]);
    while let Some(n) = queue.pop_front() {
        for &e in &net.from[n] {
            // The edge against this one leads into `n`.
            let back = &net.edges[e ^ 1];
            let other = net.edges[e].to;
            if back.capacity > 0 && !reaches[other] {
                reaches[other] = true;
                queue.push_back(other);
            }
        }
    }
    reaches
}
