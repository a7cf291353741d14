//! Which parts of a region hang together with ops of certain names.

use std::collections::HashMap;
use thunderhead_sdk::{OpId, Region, ValueId};

/// The ops that are connected, through values made inside the region, with one of those that `wanted` names: one list for
/// each connected part. A part of a convex region is convex: a way out of it and back would lead out of the region, too.
pub fn around(region: &Region<'_>, wanted: &dyn Fn(&str) -> bool) -> Vec<Vec<OpId>> {
    let ops = region.ops();
    let mut part: Vec<usize> = (0..ops.len()).collect();
    let mut maker: HashMap<ValueId, usize> = HashMap::new();
    for (at, op) in ops.iter().enumerate() {
        for input in op.input_values() {
            if let Some(from) = maker.get(input) {
                let (a, b) = (root(&mut part, *from), root(&mut part, at));
                part[a.max(b)] = a.min(b);
            }
        }
        op.output_values().iter().for_each(|v| {
            maker.insert(*v, at);
        });
    }
    let mut lists: Vec<Vec<OpId>> = vec![Vec::new(); ops.len()];
    let mut holds = vec![false; ops.len()];
    for (at, op) in ops.iter().enumerate() {
        let root = root(&mut part, at);
        lists[root].push(op.id());
        holds[root] |= wanted(op.name());
    }
    let kept = lists.into_iter().zip(holds).filter(|(_, holds)| *holds).map(|(list, _)| list);
    kept.filter(|list| !list.is_empty()).collect()
}

fn root(part: &mut [usize], mut at: usize) -> usize {
    while part[at] != at {
        part[at] = part[part[at]];
        at = part[at];
    }
    at
}
