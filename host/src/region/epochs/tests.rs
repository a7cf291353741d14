//! Random graphs: whatever the grouping does, regions are whole, convex, acyclic and always the same.

use super::*;
use crate::ir::{Bsym, Dtype, Output, Role, RoleKind, Stage, TensorType, TraceParam};

/// xorshift: the same graphs everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// A trace of `n` ops, each of up to three values before it, and what they are to the grouping.
fn random(seed: u64, n: usize, n_executors: u32, reach: usize) -> (Trace, Vec<Part>) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut trace = Trace::new("forward", Stage::Claimed);
    let ty = || TensorType::new(vec![Dim::Known(2)], Dtype::F32).into();
    let mut values = Vec::new();
    for i in 0..3 {
        let v = trace.add_value(format!("p{i}"), ty());
        let role = Role { kind: RoleKind::Input, name: Some("in".into()), frozen: false };
        trace.params.push(TraceParam { value: v, role });
        values.push(v);
    }
    let mut parts = Vec::with_capacity(n);
    for i in 0..n {
        let kind = random.below(10);
        let view = kind < 3;
        let n_args = if view { 1 } else { 1 + random.below(3) };
        let from = values.len().saturating_sub(reach);
        let args =
            (0..n_args).map(|_| Arg::Value(values[from + random.below(values.len() - from)])).collect();
        let v = trace.add_value(format!("v{i}"), ty());
        let mut bsym = Bsym::new("prims.test", args, vec![Some(v)]);
        bsym.who = None;
        trace.body.push(Stmt::Op(bsym));
        values.push(v);
        parts.push(match kind {
            0 | 1 => Part::View,
            2 => Part::Number,
            3..=5 => Part::Single,
            _ => Part::Fused(random.below(n_executors as usize) as u32),
        });
    }
    for _ in 0..3 {
        let v = values[random.below(values.len())];
        trace.outputs.push(Output { value: Arg::Value(v), name: Some("out".into()) });
    }
    (trace, parts)
}

fn free(trace: &Trace, parts: &[Part]) -> Grouping {
    group(trace, parts, &vec![None; parts.len()]).expect("nothing is fixed")
}

fn needs(trace: &Trace) -> Vec<Vec<usize>> {
    let mut made_by = vec![usize::MAX; trace.values.len()];
    let mut all = Vec::new();
    for (at, stmt) in trace.body.iter().enumerate() {
        let bsym = stmt.op().expect("ops only");
        let mut needed = Vec::new();
        bsym.for_each_use(&mut |v| {
            if made_by[v.index()] != usize::MAX {
                needed.push(made_by[v.index()]);
            }
        });
        all.push(needed);
        bsym.defined().for_each(|v| made_by[v.index()] = at);
    }
    all
}

/// The rules, checked without the algorithm that keeps them.
fn check(trace: &Trace, parts: &[Part], grouping: &Grouping) {
    let needs = needs(trace);
    let n = parts.len();
    // Complete: each op of a fusion executor stands in one of its regions, and no stranger does.
    for (at, part) in parts.iter().enumerate() {
        match (part, grouping.places[at]) {
            (Part::Fused(executor), Place::In(g)) => {
                assert_eq!(grouping.groups[g as usize].executor, *executor);
            }
            (Part::Fused(_), Place::Outside) => panic!("op {at} stands in no region"),
            (Part::Single | Part::Stream, place) => assert_eq!(place, Place::Outside),
            (Part::View | Part::Number, _) => {}
        }
    }
    for (g, group) in grouping.groups.iter().enumerate() {
        assert!(group.n_ops > 0, "a region of views alone");
        assert!(group.stmts.iter().all(|at| grouping.places[*at] == Place::In(g as u32)));
        assert!(group.stmts.is_sorted());
    }
    let placed = grouping.places.iter().filter(|p| **p != Place::Outside).count();
    assert_eq!(placed, grouping.groups.iter().map(|g| g.stmts.len()).sum::<usize>());
    // Acyclic: an order in which regions stand side by side and everything comes after what it needs.
    let mut place = vec![usize::MAX; n];
    grouping.order.iter().enumerate().for_each(|(new, old)| place[*old] = new);
    assert!(place.iter().all(|p| *p != usize::MAX), "the order leaves statements out");
    for (at, needed) in needs.iter().enumerate() {
        assert!(needed.iter().all(|from| place[*from] < place[at]), "{at} comes before what it needs");
    }
    for group in &grouping.groups {
        let places: Vec<usize> = group.stmts.iter().map(|at| place[*at]).collect();
        assert!(places.windows(2).all(|w| w[1] == w[0] + 1), "a region is torn: {places:?}");
    }
    // Convex: no path leaves a region and comes back.
    if n > 200 {
        return;
    }
    for (g, group) in grouping.groups.iter().enumerate() {
        let inside = |at: usize| grouping.places[at] == Place::In(g as u32);
        let mut left = vec![false; n];
        for at in 0..n {
            left[at] = needs[at].iter().any(|from| left[*from] || (inside(*from) && !inside(at)));
            assert!(
                !(inside(at) && needs[at].iter().any(|from| left[*from])),
                "{group:?} is not convex at {at}"
            );
        }
    }
}

#[test]
fn regions_are_whole_convex_and_acyclic() {
    for seed in 0..2_000 {
        let n = 5 + (seed as usize * 7) % 120;
        let (trace, parts) = random(seed, n, 1 + (seed % 3) as u32, 4 + (seed as usize % 40));
        let grouping = free(&trace, &parts);
        check(&trace, &parts, &grouping);
    }
}

/// Groups cut from regions stay whole, and the rules hold with them.
#[test]
fn what_is_cut_stays_together() {
    for seed in 0..500 {
        let (trace, parts) = random(seed, 80, 2, 20);
        let first = free(&trace, &parts);
        let mut fixed = vec![None; parts.len()];
        let mut n_fixed = 0;
        for group in &first.groups {
            for (i, at) in group.stmts.iter().enumerate() {
                fixed[*at] = Some(n_fixed + i as u32 / 4);
            }
            n_fixed += group.stmts.len() as u32 / 4 + 1;
        }
        let cut = group(&trace, &parts, &fixed).expect("pieces of regions are acyclic");
        check(&trace, &parts, &cut);
        for group in &cut.groups {
            let own = |at: &&usize| matches!(parts[**at], Part::Fused(_));
            assert!(group.stmts.iter().filter(own).all(|at| fixed[*at] == group.fixed));
            let all = (0..parts.len()).filter(|at| fixed[*at] == group.fixed).filter(|at| own(&at)).count();
            assert_eq!(group.n_ops, all, "a fixed group is torn");
        }
    }
}

#[test]
fn the_same_regions_every_time_whatever_values_are_called() {
    let (trace, parts) = random(7, 300, 3, 30);
    let first = free(&trace, &parts);
    for turn in 0..100 {
        let mut renamed = trace.clone();
        for (i, value) in renamed.values.iter_mut().enumerate() {
            value.name = format!("n{}", (i * 31 + turn * 17) % 1009).into();
        }
        assert_eq!(free(&renamed, &parts), first);
    }
}

/// Twice the ops, at most 2.2 times the work, from a thousand to a hundred thousand.
#[test]
fn the_work_is_linear() {
    let work = |n: usize| {
        let (trace, parts) = random(11, n, 2, 50);
        let grouping = free(&trace, &parts);
        check(&trace, &parts, &grouping);
        grouping.work as f64
    };
    let mut n = 1_000;
    while n < 100_000 {
        let (one, two) = (work(n), work(2 * n));
        assert!(two <= 2.2 * one, "{n} ops: {one}, {} ops: {two}", 2 * n);
        n *= 2;
    }
}

fn fused(executor: u32) -> Part {
    Part::Fused(executor)
}

/// A chain in which each op needs those at the given places.
fn chain(needed: &[&[usize]]) -> Trace {
    let mut trace = Trace::new("forward", Stage::Claimed);
    let ty = || TensorType::new(vec![Dim::Known(2)], Dtype::F32).into();
    for (i, needed) in needed.iter().enumerate() {
        let args = needed.iter().map(|at| Arg::Value(ValueId(*at as u32))).collect();
        let v = trace.add_value(format!("v{i}"), ty());
        trace.body.push(Stmt::Op(Bsym::new("prims.test", args, vec![Some(v)])));
    }
    trace
}

#[test]
fn unconnected_ops_stand_together_and_single_ops_split_nothing_before_a_region() {
    let trace = chain(&[&[], &[], &[1], &[2], &[0]]);
    // Op 1 is somebody else's, and no region: what comes after it may stand with what does not.
    let parts = [fused(0), Part::Single, fused(0), fused(0), fused(0)];
    let grouping = free(&trace, &parts);
    assert_eq!(grouping.groups.len(), 1);
    assert_eq!((grouping.groups[0].n_ops, &grouping.order[..]), (4, &[1, 0, 2, 3, 4][..]));
}

#[test]
fn a_path_through_somebody_else_splits() {
    let trace = chain(&[&[], &[0], &[1], &[0]]);
    let parts = [fused(0), Part::Single, fused(0), fused(0)];
    let grouping = free(&trace, &parts);
    let sizes: Vec<usize> = grouping.groups.iter().map(|g| g.n_ops).collect();
    assert_eq!(sizes, [2, 1]);
}

#[test]
fn views_stand_where_they_are_used_and_split_nothing() {
    let trace = chain(&[&[], &[0], &[1], &[1]]);
    let parts = [fused(0), Part::View, fused(0), Part::Single];
    let grouping = free(&trace, &parts);
    assert_eq!((grouping.groups.len(), grouping.groups[0].stmts.clone()), (1, vec![0, 1, 2]));
}

#[test]
fn groups_that_need_each_other_are_an_error() {
    let trace = chain(&[&[], &[0], &[1]]);
    let parts = [fused(0); 3];
    assert!(group(&trace, &parts, &[Some(0), Some(1), Some(0)]).is_err());
    assert!(group(&trace, &parts, &[Some(0), Some(0), Some(1)]).is_ok());
}
