//! Which nodes share a loop.
//!
//! A [`Group`] is a loop to be: lens of its coordinates, which of them are folded (all reductions of a group fold the same
//! ones), and its members, each with the map from coordinates to its index. Members are *full* (each element is seen by one
//! iteration) or *kept* (by one iteration of the coordinates that are not folded). Nodes are taken in order; each joins a
//! group of one of its operands if its map fits and nothing gets cyclic, else starts its own. What a group needs and does
//! not hold is computed again where that is cheap, or read from memory, where another group leaves it ([`Group::loads`]).
//!
//! The order of groups is a topological one by [`Group::before`]; extern nodes are groups of their own. Not here: code.

use crate::affine::{Affine, Map, NoMap, Part, delinearise, is_bijection, linear, push};
use crate::graph::{Binary, Dtype, Prim, Unary, ValueId, dense_strides};
use crate::work::{Def, Work};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A loop to be, or an extern node.
#[derive(Default)]
pub struct Group {
    pub lens: Vec<usize>,
    /// Folded coordinates; none before the first reduction joins.
    pub folded: Vec<bool>,
    /// Coordinates at whose boundaries a cat or pad cuts the loop: they are neither folded nor split.
    pub boxed: Vec<bool>,
    pub members: Vec<(ValueId, Map)>,
    /// Of each fold, by its result, the map of what it folds.
    pub operand_maps: Vec<(ValueId, Map)>,
    /// Values that it reads from memory though they are computed here.
    pub loads: BTreeSet<ValueId>,
    /// Groups that must run before it.
    pub before: Bits,
    /// Some group has it among those.
    has_later: bool,
    pub external: Option<usize>,
    /// Values it reads that were in memory before.
    reads: HashSet<ValueId>,
    merged: Option<usize>,
}

impl Group {
    pub fn has_folds(&self) -> bool {
        self.folded.iter().any(|folded| *folded)
    }

    fn numel(&self) -> usize {
        self.lens.iter().product()
    }

    pub fn map_of(&self, value: ValueId) -> Option<&Map> {
        self.members.iter().rev().find(|(member, _)| *member == value).map(|(_, map)| map)
    }
}

/// A set of groups.
#[derive(Clone, Default, Debug)]
pub struct Bits(Vec<u64>);

impl Bits {
    pub fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    fn put(&mut self, at: usize) {
        if self.0.len() <= at / 64 {
            self.0.resize(at / 64 + 1, 0);
        }
        self.0[at / 64] |= 1 << (at % 64);
    }

    /// How many are in both.
    fn common(&self, other: &Bits) -> u32 {
        self.0.iter().zip(&other.0).map(|(a, b)| (a & b).count_ones()).sum()
    }

    fn join(&mut self, other: &Bits) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }
}

/// What it costs to compute a value again: operations, and tensors read.
#[derive(Clone, Copy, Default)]
struct Cost {
    ops: u32,
    leaves: u32,
}

/// More is not computed again.
const MOST_OPS: u32 = 10;
const MOST_LEAVES: u32 = 3;
/// A group of more members takes no further ones: what comes after it walks all pairs of a group's ops, and recurses as deep.
const MOST_MEMBERS: usize = 512;

/// The groups of a graph, and where each value is.
pub struct Groups<'w> {
    pub work: &'w mut Work,
    pub groups: Vec<Group>,
    of: HashMap<ValueId, usize>,
    costs: HashMap<ValueId, Cost>,
    readers: HashMap<ValueId, usize>,
    /// Values that must be in memory.
    pub stored: BTreeSet<ValueId>,
}

fn unary_ops(op: Unary) -> u32 {
    match op {
        Unary::Exp | Unary::Tanh | Unary::Erf | Unary::Log | Unary::Sin | Unary::Cos => 4,
        Unary::Sqrt | Unary::Rsqrt | Unary::Reciprocal => 2,
        Unary::Abs | Unary::Neg | Unary::Sign | Unary::Isfinite | Unary::BitwiseNot => 1,
        Unary::Ceil | Unary::Floor | Unary::Round | Unary::Trunc => 1,
        _ => 50,
    }
}

/// Why a node cannot join.
enum Trouble {
    Split(usize, usize),
    Refused,
}

/// What a trial joining found.
#[derive(Clone, Default)]
struct Trial {
    loads: BTreeSet<ValueId>,
    reads: HashSet<ValueId>,
    boxed: Vec<usize>,
    seen: HashSet<(ValueId, Map, Part)>,
}

pub fn fuse<'w>(work: &'w mut Work, outputs: &[ValueId]) -> Groups<'w> {
    let mut groups = Groups {
        work,
        groups: Vec::new(),
        of: HashMap::new(),
        costs: HashMap::new(),
        readers: HashMap::new(),
        stored: BTreeSet::new(),
    };
    let wanted: HashSet<ValueId> = outputs.iter().copied().collect();
    for at in 0..groups.work.nodes.len() {
        groups.take(at);
        for result in groups.work.nodes[at].results.clone() {
            if wanted.contains(&result) {
                groups.store(result);
            }
        }
    }
    groups
}

impl Groups<'_> {
    fn root(&self, mut group: usize) -> usize {
        while let Some(into) = self.groups[group].merged {
            group = into;
        }
        group
    }

    /// The group that computes a value.
    pub fn group_of(&self, value: ValueId) -> Option<usize> {
        self.of.get(&value).map(|group| self.root(*group))
    }

    pub fn is_live(&self, group: usize) -> bool {
        self.groups[group].merged.is_none()
    }

    fn node_of(&self, value: ValueId) -> Option<usize> {
        match self.work.values[value.at()].def {
            Def::Node(node) => Some(node),
            _ => None,
        }
    }

    fn dims(&self, value: ValueId) -> &[usize] {
        &self.work.ty(value).dims
    }

    /// Sees to it that a value lies in memory.
    fn store(&mut self, value: ValueId) {
        let Some(node) = self.node_of(value) else { return };
        self.stored.insert(value);
        if self.group_of(value).is_none() && self.work.nodes[node].prim.is_view() {
            self.place(node, value);
        }
    }

    fn take(&mut self, at: usize) {
        let node = &self.work.nodes[at];
        if matches!(node.prim, Prim::Extern(_)) {
            return self.take_extern(at);
        }
        let value = node.results[0];
        self.costs.insert(value, self.cost(at));
        if !node.prim.is_view() {
            self.place(at, value);
        }
    }

    fn take_extern(&mut self, at: usize) {
        let operands: Vec<ValueId> = self.work.nodes[at].values().collect();
        operands.iter().for_each(|value| self.store(*value));
        let group = self.groups.len();
        self.groups.push(Group { external: Some(at), ..Group::default() });
        let results = self.work.nodes[at].results.clone();
        results.into_iter().for_each(|result| {
            self.of.insert(result, group);
        });
        for value in operands {
            self.depend(group, value);
        }
    }

    fn cost(&self, at: usize) -> Cost {
        let node = &self.work.nodes[at];
        let slow = |dtype: Dtype| if dtype == Dtype::F64 { 4 } else { 1 };
        let own = match &node.prim {
            prim if prim.is_view() => 0,
            Prim::Convert(_) | Prim::Full(_) | Prim::Iota { .. } => 0,
            Prim::Unary(op) => unary_ops(*op) * slow(self.work.ty(node.results[0]).dtype),
            Prim::Binary(Binary::Div) => 2,
            Prim::Binary(Binary::Pow | Binary::Atan2 | Binary::Fmod | Binary::Remainder) => 50,
            Prim::Cat(_) | Prim::Pad(_) | Prim::SliceScatter { .. } => 2,
            Prim::Take(_) | Prim::TakeAlongAxis(_) | Prim::Embedding => 4,
            Prim::Uniform(_) => 8,
            Prim::Reduce { .. } | Prim::ArgReduce { .. } => 1000,
            _ => 1,
        };
        let mut sum = Cost { ops: own, leaves: 0 };
        let mut seen = HashSet::new();
        for value in node.values().filter(|value| seen.insert(*value)) {
            let cost = match self.costs.get(&value) {
                Some(cost) if cost.ops <= MOST_OPS && cost.leaves <= MOST_LEAVES => *cost,
                _ => Cost { ops: 0, leaves: 1 },
            };
            sum = Cost { ops: sum.ops + cost.ops, leaves: sum.leaves + cost.leaves };
        }
        sum
    }

    /// Finds or makes the group that computes a value.
    fn place(&mut self, at: usize, value: ValueId) {
        for group in self.candidates(at) {
            if self.try_join(group, at, value) {
                return;
            }
        }
        self.seed(at, value);
    }

    /// What a value is a look at.
    fn base(&self, mut value: ValueId) -> ValueId {
        while let Some(node) = self.node_of(value) {
            if !self.work.nodes[node].prim.is_view() {
                break;
            }
            value = self.work.nodes[node].value(0);
        }
        value
    }

    /// Groups worth trying, the latest first.
    fn candidates(&self, at: usize) -> Vec<usize> {
        let mut found = BTreeSet::new();
        if matches!(self.work.nodes[at].prim, Prim::ArgReduce { .. }) {
            return Vec::new();
        }
        for value in self.work.nodes[at].values() {
            let base = self.base(value);
            let group = self.group_of(base).filter(|group| self.groups[*group].external.is_none());
            let reader = self.readers.get(&base).map(|group| self.root(*group));
            found.extend(group.or(reader));
        }
        found.into_iter().rev().collect()
    }

    fn try_join(&mut self, group: usize, at: usize, value: ValueId) -> bool {
        if self.groups[group].members.len() >= MOST_MEMBERS {
            return false;
        }
        for _ in 0..8 {
            let Some((map, folded)) = self.map_in(group, at, value) else { return false };
            match self.try_map(group, at, value, &map, folded.as_deref()) {
                Ok(()) => return true,
                Err(Trouble::Split(dim, inner)) if !self.groups[group].boxed[dim] => {
                    self.split(group, dim, inner);
                }
                Err(_) => return false,
            }
        }
        false
    }

    fn try_map(
        &mut self,
        group: usize,
        at: usize,
        value: ValueId,
        map: &Map,
        folded: Option<&[bool]>,
    ) -> Result<(), Trouble> {
        let mut trial = Trial::default();
        let lens = self.groups[group].lens.clone();
        let operand_map = match &self.work.nodes[at].prim {
            Prim::Reduce { axes, .. } => self.full_map(group, at, map, axes, folded),
            _ => Some(map.clone()),
        };
        let operand_map = operand_map.ok_or(Trouble::Refused)?;
        let merging =
            self.check_node(group, at, &operand_map, &Part::whole(&lens), &mut trial, folded.is_none())?;
        if !self.can_be_one(&merging) {
            return Err(Trouble::Refused);
        }
        let is_folded = |d: usize| folded.map_or(self.groups[group].folded[d], |folded| folded[d]);
        if trial.boxed.iter().any(|d| is_folded(*d)) {
            return Err(Trouble::Refused);
        }
        if folded.is_some() && (0..lens.len()).any(|d| is_folded(d) && self.groups[group].boxed[d]) {
            return Err(Trouble::Refused);
        }
        let mut needed: Vec<usize> = trial.loads.iter().filter_map(|load| self.group_of(*load)).collect();
        needed.extend(trial.reads.iter().filter_map(|read| self.group_of(*read)));
        let behind = |other: usize, of: usize| other == of || self.groups[other].before.has(of);
        let cyclic =
            |other: &usize| behind(*other, group) || merging.iter().any(|merged| behind(*other, *merged));
        if needed.iter().any(cyclic) {
            return Err(Trouble::Refused);
        }
        for other in merging {
            self.merge(group, other);
        }
        if let Some(folded) = folded {
            self.groups[group].folded = folded.to_vec();
        }
        self.admit(group, (value, map.clone(), operand_map), trial);
        Ok(())
    }

    /// Whether groups that each may merge with a further one may also merge with each other.
    fn can_be_one(&self, merging: &[usize]) -> bool {
        let fit = |a: usize, b: usize| {
            let (x, y) = (&self.groups[a], &self.groups[b]);
            let apart = !x.before.has(b) && !y.before.has(a);
            apart && (!x.has_folds() || !y.has_folds() || x.folded == y.folded)
        };
        let mut pairs = merging.iter().enumerate().flat_map(|(i, a)| merging[..i].iter().map(|b| (*a, *b)));
        pairs.all(|(a, b)| fit(a, b))
    }

    /// Makes a value a member.
    fn admit(&mut self, group: usize, (value, map, operand_map): (ValueId, Map, Map), trial: Trial) {
        if operand_map != map {
            self.groups[group].operand_maps.push((value, operand_map));
        }
        self.groups[group].members.push((value, map));
        trial.boxed.iter().for_each(|d| self.groups[group].boxed[*d] = true);
        self.of.insert(value, group);
        for load in trial.loads {
            self.groups[group].loads.insert(load);
            self.store(load);
            self.depend(group, load);
        }
        for read in trial.reads {
            self.groups[group].reads.insert(read);
            self.readers.insert(read, group);
            self.depend(group, read);
        }
    }

    /// `group` runs after the group of `value`, and so does whatever runs after `group`.
    fn depend(&mut self, group: usize, value: ValueId) {
        let Some(on) = self.group_of(value) else { return };
        if on == group {
            return;
        }
        let mut added = self.groups[on].before.clone();
        added.put(on);
        self.groups[on].has_later = true;
        self.groups[group].before.join(&added);
        // Nearly always the group is the latest one, and nothing is behind it yet.
        if self.groups[group].has_later {
            for later in &mut self.groups {
                if later.before.has(group) {
                    later.before.join(&added);
                }
            }
        }
    }

    fn merge(&mut self, into: usize, other: usize) {
        let gone = std::mem::take(&mut self.groups[other]);
        let group = &mut self.groups[into];
        group.members.extend(gone.members);
        group.operand_maps.extend(gone.operand_maps);
        group.loads.extend(gone.loads);
        group.reads.extend(gone.reads);
        group.before.join(&gone.before);
        if !group.folded.iter().any(|folded| *folded) {
            group.folded = gone.folded;
        }
        group.boxed.iter_mut().zip(&gone.boxed).for_each(|(a, b)| *a |= b);
        group.has_later |= gone.has_later;
        self.groups[other].merged = Some(into);
        if !self.groups[into].has_later {
            return;
        }
        let added = self.groups[into].before.clone();
        for later in &mut self.groups {
            if later.before.has(other) || later.before.has(into) {
                later.before.put(into);
                later.before.join(&added);
            }
        }
    }

    fn split(&mut self, group: usize, dim: usize, inner: usize) {
        let group = &mut self.groups[group];
        group.lens[dim] /= inner;
        group.lens.insert(dim + 1, inner);
        group.folded.insert(dim + 1, group.folded[dim]);
        group.boxed.insert(dim + 1, false);
        for (_, map) in group.members.iter_mut().chain(&mut group.operand_maps) {
            map.iter_mut().for_each(|e| e.split(dim, inner));
        }
    }

    /// Where a node's result lies in a group, by one of its operands that is there or that it reads; for a reduction also
    /// the coordinates that are folded from then on.
    fn map_in(&self, group: usize, at: usize, value: ValueId) -> Option<(Map, Option<Vec<bool>>)> {
        let node = &self.work.nodes[at];
        let full_or_kept = |map: &Map, dims: &[usize]| self.fits(group, map, dims);
        match &node.prim {
            Prim::Reduce { axes, .. } => {
                let operand = node.value(0);
                let map = self.pushed(group, operand)?;
                let lens = &self.groups[group].lens;
                if !is_bijection(&map, self.dims(operand), lens, |_| true) {
                    return None;
                }
                let mut folded = vec![false; lens.len()];
                for axis in axes {
                    (0..lens.len()).filter(|d| map[*axis].coeffs[*d] != 0).for_each(|d| folded[d] = true);
                }
                let moves = |axis: &usize| (0..lens.len()).any(|d| folded[d] && map[*axis].coeffs[d] != 0);
                let kept: Vec<usize> = (0..map.len()).filter(|axis| !axes.contains(axis)).collect();
                if kept.iter().any(moves) {
                    return None;
                }
                let group = &self.groups[group];
                if group.has_folds() && group.folded != folded {
                    return None;
                }
                Some((kept.iter().map(|axis| map[*axis].clone()).collect(), Some(folded)))
            }
            prim if prim.is_view() => {
                let map = self.pushed(group, value)?;
                full_or_kept(&map, self.dims(value)).then_some((map, None))
            }
            Prim::Cat(_) | Prim::Pad(_) | Prim::Take(_) | Prim::TakeAlongAxis(_) | Prim::Embedding => {
                self.same_space(group, value).map(|map| (map, None))
            }
            Prim::SliceScatter { .. } | Prim::Full(_) | Prim::Iota { .. } | Prim::Uniform(_) => {
                self.same_space(group, value).map(|map| (map, None))
            }
            _ => {
                for operand in node.values() {
                    if let Some(map) = self.pushed(group, operand)
                        && full_or_kept(&map, self.dims(value))
                    {
                        return Some((map, None));
                    }
                }
                self.same_space(group, value).map(|map| (map, None))
            }
        }
    }

    fn fits(&self, group: usize, map: &Map, dims: &[usize]) -> bool {
        let group = &self.groups[group];
        is_bijection(map, dims, &group.lens, |_| true)
            || (group.has_folds() && is_bijection(map, dims, &group.lens, |d| !group.folded[d]))
    }

    /// The map of a value that is a look at a member.
    fn pushed(&self, group: usize, value: ValueId) -> Option<Map> {
        if self.group_of(value) == Some(group)
            && let Some(map) = self.groups[group].map_of(value)
        {
            return Some(map.clone());
        }
        let node = &self.work.nodes[self.node_of(value)?];
        if !node.prim.is_view() {
            return None;
        }
        let operand = node.value(0);
        let map = self.pushed(group, operand)?;
        let space = &self.groups[group];
        let spread: Vec<usize> = (0..space.lens.len()).filter(|d| space.folded[*d]).collect();
        push(&node.prim, &map, self.dims(operand), self.dims(value), &space.lens, &spread)
    }

    /// The map of a value whose dims are the coordinates.
    fn same_space(&self, group: usize, value: ValueId) -> Option<Map> {
        let lens = &self.groups[group].lens;
        let dims = self.dims(value);
        let moving: Vec<usize> = (0..lens.len()).filter(|d| lens[*d] > 1).collect();
        if !dims.iter().filter(|dim| **dim > 1).eq(moving.iter().map(|d| &lens[*d])) {
            return None;
        }
        let mut next = moving.into_iter();
        let of = |dim: &usize| match *dim {
            1 => Some(Affine::constant(lens.len(), 0)),
            _ => next.next().map(|d| Affine::coordinate(lens.len(), d)),
        };
        dims.iter().map(of).collect()
    }

    /// The map of a reduction's operand, from that of its result.
    fn full_map(
        &self,
        group: usize,
        at: usize,
        map: &Map,
        axes: &[usize],
        folded: Option<&[bool]>,
    ) -> Option<Map> {
        let space = &self.groups[group];
        let operand = self.work.nodes[at].value(0);
        if let Some(map) = self.pushed(group, operand) {
            return Some(map);
        }
        fold_map(&space.lens, folded.unwrap_or(&space.folded), map, self.dims(operand), axes)
    }

    fn seed(&mut self, at: usize, value: ValueId) {
        let node = &self.work.nodes[at];
        let (dims, axes) = match &node.prim {
            Prim::Reduce { axes, .. } => (self.dims(node.value(0)).to_vec(), axes.clone()),
            Prim::ArgReduce { axis, .. } => {
                let dims = self.dims(node.value(0)).to_vec();
                let axes = axis.map_or_else(|| (0..dims.len()).collect(), |axis| vec![axis]);
                (dims, axes)
            }
            _ => (self.dims(value).to_vec(), Vec::new()),
        };
        // Dims of 1 are no coordinates, so that loops over the same elements look alike.
        let moving: Vec<usize> = (0..dims.len()).filter(|d| dims[*d] > 1).collect();
        let group = self.groups.len();
        self.groups.push(Group {
            folded: moving.iter().map(|d| axes.contains(d)).collect(),
            boxed: vec![false; moving.len()],
            lens: moving.iter().map(|d| dims[*d]).collect(),
            ..Group::default()
        });
        for _ in 0..64 {
            let lens = self.groups[group].lens.clone();
            let (map, operand_map) = self.seed_maps(group, at, value, &axes);
            let mut trial = Trial::default();
            match self.check_node(group, at, &operand_map, &Part::whole(&lens), &mut trial, false) {
                Err(Trouble::Split(dim, inner)) => self.split(group, dim, inner),
                // A new group has no members, so nothing is refused.
                Ok(_) | Err(Trouble::Refused) => {
                    return self.admit(group, (value, map, operand_map), trial);
                }
            }
        }
        unreachable!("each split makes a len smaller");
    }

    /// Maps of a node's result and operands in a group made for it.
    fn seed_maps(&self, group: usize, at: usize, value: ValueId, axes: &[usize]) -> (Map, Map) {
        let space = &self.groups[group];
        let rank = space.lens.len();
        let node = &self.work.nodes[at];
        let over = if axes.is_empty() { value } else { node.value(0) };
        let mut place = Affine::constant(rank, 0);
        for (d, stride) in dense_strides(&space.lens).into_iter().enumerate() {
            place.coeffs[d] = stride as i64;
        }
        let full = delinearise(&place, self.dims(over), &space.lens);
        let full = full.expect("coordinates are parts of the dims");
        let kept = (0..full.len()).filter(|d| !axes.contains(d)).map(|d| full[d].clone()).collect();
        (kept, full)
    }

    /// Walks what a node of a group needs at a map: finds what must be read, what gets in the way, and which groups would
    /// have to become one with this. With `join`, groups of operands may be merged.
    fn check_node(
        &self,
        group: usize,
        at: usize,
        map: &Map,
        part: &Part,
        trial: &mut Trial,
        join: bool,
    ) -> Result<Vec<usize>, Trouble> {
        let node = &self.work.nodes[at];
        let mut merging = Vec::new();
        match &node.prim {
            Prim::Cat(axis) => {
                let mut start = 0i64;
                let sizes: Vec<usize> = node.values().map(|v| self.dims(v)[*axis]).collect();
                self.boundary(group, &map[*axis], &sizes, part, trial)?;
                for (value, size) in node.values().zip(sizes) {
                    let end = start + size as i64;
                    if let Some(part) = part.within(&map[*axis], start, end) {
                        let mut shifted = map.clone();
                        shifted[*axis].base -= start;
                        self.check(group, value, &shifted, &part, trial)?;
                    }
                    start = end;
                }
            }
            Prim::Pad(config) => {
                let a = node.value(0);
                let mut shifted = map.clone();
                shifted.iter_mut().zip(config).for_each(|(e, (low, _, _))| e.base -= low);
                if let Some(inside) = self.window(group, &shifted, a, part, trial)? {
                    self.check(group, a, &shifted, &inside, trial)?;
                }
            }
            Prim::SliceScatter { start, .. } => {
                let (a, src) = (node.value(0), node.value(1));
                let mut shifted = map.clone();
                shifted.iter_mut().zip(start).for_each(|(e, start)| e.base -= *start as i64);
                if let Some(inside) = self.window(group, &shifted, src, part, trial)? {
                    self.check(group, src, &shifted, &inside, trial)?;
                }
                self.check(group, a, map, part, trial)?;
            }
            Prim::Take(axis) => {
                let index = node.value(1);
                let index_map = if self.dims(index).is_empty() { vec![] } else { vec![map[*axis].clone()] };
                self.check(group, index, &index_map, part, trial)?;
                self.check_table(group, node.value(0), trial)?;
            }
            Prim::TakeAlongAxis(_) => {
                self.check(group, node.value(1), map, part, trial)?;
                self.check_table(group, node.value(0), trial)?;
            }
            Prim::Embedding => {
                let index_map = map[..map.len() - 1].to_vec();
                self.check(group, node.value(0), &index_map, part, trial)?;
                self.check_table(group, node.value(1), trial)?;
            }
            prim if prim.is_view() => self.check_view(group, at, map, part, trial)?,
            _ => {
                let values: Vec<ValueId> = node.values().collect();
                for value in values {
                    if join && let Some(other) = self.mergeable(group, value, map) {
                        if !merging.contains(&other) {
                            merging.push(other);
                        }
                        continue;
                    }
                    self.check(group, value, map, part, trial)?;
                }
            }
        }
        Ok(merging)
    }

    /// The group of an operand, if it is another loop over the same coordinates.
    fn mergeable(&self, group: usize, value: ValueId, map: &Map) -> Option<usize> {
        let base = self.base(value);
        let other = self.group_of(base)?;
        let (a, b) = (&self.groups[group], &self.groups[other]);
        let apart = !a.before.has(other) && !b.before.has(group);
        let alike = a.lens == b.lens && (!a.has_folds() || !b.has_folds() || a.folded == b.folded);
        let small = a.members.len() + b.members.len() <= MOST_MEMBERS;
        if other == group || b.external.is_some() || !apart || !alike || !small {
            return None;
        }
        let folded = if a.has_folds() { &a.folded } else { &b.folded };
        let boxed = |d: usize| a.boxed[d] || b.boxed[d];
        if (0..a.lens.len()).any(|d| folded[d] && boxed(d)) {
            return None;
        }
        // Both look at the operand in the same way, and neither loads what the other computes.
        let crossing = a.loads.iter().any(|load| self.group_of(*load) == Some(other))
            || b.loads.iter().any(|load| self.group_of(*load) == Some(group));
        (!crossing && self.pushed(other, value).as_ref() == Some(map)).then_some(other)
    }

    /// A cat's axis must lie in one part, or move with one coordinate, at which the loop is cut.
    fn boundary(
        &self,
        group: usize,
        e: &Affine,
        sizes: &[usize],
        part: &Part,
        trial: &mut Trial,
    ) -> Result<(), Trouble> {
        let (low, high) = part.range(e);
        let mut start = 0i64;
        for size in sizes {
            let end = start + *size as i64;
            if low >= start && high < end {
                return Ok(());
            }
            start = end;
        }
        self.cuts(group, e, trial)
    }

    /// Where a map lies inside a tensor; the loop is cut at its borders.
    fn window(
        &self,
        group: usize,
        map: &Map,
        value: ValueId,
        part: &Part,
        trial: &mut Trial,
    ) -> Result<Option<Part>, Trouble> {
        let mut inside = Some(part.clone());
        for (e, size) in map.iter().zip(self.dims(value)) {
            let (low, high) = part.range(e);
            let size = *size as i64;
            if low >= 0 && high < size {
                continue;
            }
            if high < 0 || low >= size {
                inside = None;
                continue;
            }
            self.cuts(group, e, trial)?;
            inside = inside.and_then(|inside| inside.within(e, 0, size));
        }
        Ok(inside)
    }

    fn cuts(&self, group: usize, e: &Affine, trial: &mut Trial) -> Result<(), Trouble> {
        match e.single() {
            Some(d) if !self.groups[group].folded[d] => {
                trial.boxed.push(d);
                Ok(())
            }
            _ => Err(Trouble::Refused),
        }
    }

    /// A gather's table must be in memory.
    fn check_table(&self, group: usize, value: ValueId, trial: &mut Trial) -> Result<(), Trouble> {
        match self.node_of(value) {
            None => {
                trial.reads.insert(value);
                Ok(())
            }
            Some(_) => self.load(group, value, trial),
        }
    }

    fn load(&self, group: usize, value: ValueId, trial: &mut Trial) -> Result<(), Trouble> {
        if self.group_of(value) == Some(group) {
            return Err(Trouble::Refused);
        }
        // A view that nobody has put into memory yet gets a loop of its own, after what it looks at.
        let base = self.base(value);
        let before = |other: usize| other == group || self.groups[other].before.has(group);
        if self.group_of(base).is_some_and(before) {
            return Err(Trouble::Refused);
        }
        trial.loads.insert(value);
        Ok(())
    }

    fn check(
        &self,
        group: usize,
        value: ValueId,
        map: &Map,
        part: &Part,
        trial: &mut Trial,
    ) -> Result<(), Trouble> {
        if !trial.seen.insert((value, map.clone(), part.clone())) {
            return Ok(());
        }
        let Some(node) = self.node_of(value) else {
            trial.reads.insert(value);
            return Ok(());
        };
        if self.groups[group].loads.contains(&value) || trial.loads.contains(&value) {
            return Ok(());
        }
        let member = self.group_of(value) == Some(group);
        if member && self.groups[group].map_of(value) == Some(map) {
            return Ok(());
        }
        if self.work.nodes[node].prim.is_view() {
            return self.check_view(group, node, map, part, trial);
        }
        if self.is_cheap(group, value) {
            let before = trial.clone();
            match self.check_node(group, node, map, part, trial, false) {
                Ok(_) => return Ok(()),
                Err(Trouble::Split(dim, inner)) => return Err(Trouble::Split(dim, inner)),
                Err(Trouble::Refused) => *trial = before,
            }
        }
        self.load(group, value, trial)
    }

    fn check_view(
        &self,
        group: usize,
        node: usize,
        map: &Map,
        part: &Part,
        trial: &mut Trial,
    ) -> Result<(), Trouble> {
        let node = &self.work.nodes[node];
        let (operand, result) = (node.value(0), node.results[0]);
        // (`Work` puts a copy between an input with gaps and a reshape of it.)
        match part.pull(&node.prim, map, self.dims(operand), self.dims(result)) {
            Ok(map) => self.check(group, operand, &map, part, trial),
            Err(NoMap::Split(dim, inner))
                if !self.groups[group].boxed[dim] && !trial.boxed.contains(&dim) =>
            {
                Err(Trouble::Split(dim, inner))
            }
            // Row-major memory is read under any dims.
            Err(_) if self.node_of(operand).is_none() && self.work.is_dense(operand) => {
                trial.reads.insert(operand);
                Ok(())
            }
            Err(_) => self.load(group, operand, trial),
        }
    }

    /// Computed again rather than read.
    fn is_cheap(&self, group: usize, value: ValueId) -> bool {
        let cost = self.costs.get(&value).copied().unwrap_or(Cost { ops: u32::MAX, leaves: 0 });
        let small = self.work.ty(value).numel().saturating_mul(4) <= self.groups[group].numel();
        let most = if small { 1 } else { MOST_OPS };
        cost.ops <= most && cost.leaves <= MOST_LEAVES
    }

    /// Live groups in an order in which they can run.
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.groups.len()).filter(|group| self.is_live(*group)).collect();
        // A group is after more groups than each of those; merged ones count in all alike.
        let mut live = Bits::default();
        order.iter().for_each(|group| live.put(*group));
        let after = |group: usize| self.groups[group].before.common(&live);
        order.sort_by_cached_key(|group| (after(*group), *group));
        order
    }
}

/// The map of a fold's operand (of `dims`) where the folded coordinates stand for `axes` in their order.
pub fn fold_map(lens: &[usize], folded: &[bool], map: &Map, dims: &[usize], axes: &[usize]) -> Option<Map> {
    let rank = lens.len();
    let which: Vec<usize> = (0..rank).filter(|d| folded[*d]).collect();
    let which_lens: Vec<usize> = which.iter().map(|d| lens[*d]).collect();
    let mut place = Affine::constant(rank, 0);
    for (d, stride) in which.iter().zip(dense_strides(&which_lens)) {
        place.coeffs[*d] = stride as i64;
    }
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    let axis_dims: Vec<usize> = sorted.iter().map(|axis| dims[*axis]).collect();
    if axis_dims.iter().product::<usize>() != which_lens.iter().product() {
        return None;
    }
    let along = delinearise(&place, &axis_dims, lens).ok()?;
    let mut kept = map.iter();
    let of = |axis: usize| match sorted.iter().position(|at| *at == axis) {
        Some(at) => Some(along[at].clone()),
        None => kept.next().cloned(),
    };
    (0..dims.len()).map(of).collect()
}

/// Where a dense value of these dims is in row-major order.
pub fn place_of(map: &Map, dims: &[usize], rank: usize) -> Affine {
    linear(map, &dense_strides(dims), rank)
}
