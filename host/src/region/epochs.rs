//! Grouping by epochs.
//!
//! The walk goes through the trace in order. An op's epoch is the largest of its inputs' epochs, one more where an edge leaves
//! a fusion executor's ops for somebody else's. Ops of one executor with one epoch form a region, connected or not.
//!
//! - *Convex*: a path that leaves a region raises the epoch, and no edge lowers it, so it cannot come back.
//! - *Acyclic* between regions, for the same reason.
//! - *Linear*: each edge is looked at a fixed number of times ([`Grouping::work`] counts).
//! - *Deterministic*: nothing depends on names or addresses.
//!
//! An edge out of a single op raises nothing: only regions can be split. Views and numbers are neutral: they hand on where
//! their inputs come from, and take their place when all their users have theirs. Ops that must stay together (what a rule
//! has cut, what an executor has proposed, what a printed trace says) are one node of the walk.

use crate::ir::{Arg, Bsym, Dim, Stmt, SymKind, Symbol, Trace, Type, ValueId};
use rustc_hash::FxHashMap;

/// What a statement is to the grouping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A view, or a number: stands in whichever region uses it.
    View,
    /// As [`Part::View`], but its results are never handed out of a region.
    Number,
    /// The host's random stream moves on: these keep their order, and stand in no region.
    Stream,
    /// An op of an executor without regions, or of the host.
    Single,
    /// An op of this fusion executor.
    Fused(u32),
}

/// Where a statement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In no region.
    Outside,
    /// In the region of that index.
    In(u32),
}

/// A region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The executor.
    pub executor: u32,
    /// The number that its ops were given beforehand.
    pub fixed: Option<u32>,
    /// Its statements in order, neutral ones included.
    pub stmts: Vec<usize>,
    /// How many of them are the executor's own.
    pub n_ops: usize,
}

/// The regions of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grouping {
    /// In the order in which they run.
    pub groups: Vec<Group>,
    /// Indices of the trace's statements in an order in which each region's stand side by side.
    pub order: Vec<usize>,
    /// For each statement.
    pub places: Vec<Place>,
    /// Edges and statements looked at.
    pub work: u64,
}

/// Groups that were given beforehand depend on each other in a circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circle {
    /// A statement on it.
    pub stmt: usize,
}

/// From where a value comes, as far as epochs go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin {
    epoch: u32,
    /// Whose ops made it, directly or through neutral ones, in that epoch.
    from: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// No fusion executor's.
    Nobody,
    /// This executor's, or this fixed group's.
    One(u32),
    Several,
}

impl Origin {
    const START: Origin = Origin { epoch: 0, from: Source::Nobody };

    fn join(&mut self, other: Origin) {
        *self = match self.epoch.cmp(&other.epoch) {
            std::cmp::Ordering::Less => other,
            std::cmp::Ordering::Greater => *self,
            std::cmp::Ordering::Equal => Origin { epoch: self.epoch, from: self.from.join(other.from) },
        };
    }

    /// The epoch of an op of `owner` (none: of no fusion executor) whose inputs come from here.
    fn epoch_for(self, owner: Option<u32>) -> u32 {
        match self.from {
            Source::Nobody => self.epoch,
            Source::One(from) if Some(from) == owner => self.epoch,
            Source::One(_) | Source::Several => self.epoch + 1,
        }
    }
}

impl Source {
    fn join(self, other: Source) -> Source {
        match (self, other) {
            (Source::Nobody, x) | (x, Source::Nobody) => x,
            (Source::One(a), Source::One(b)) if a == b => self,
            _ => Source::Several,
        }
    }
}

const NONE: u32 = u32::MAX;

/// Groups the statements of a flat trace; `parts` and `fixed` have one entry for each. Statements of one number in `fixed` stay
/// together, and with nobody else; it counts from 0, and a number has ops of one executor. Views between ops that stay
/// together must have their number, others may. Fails only where fixed groups need each other.
pub fn group(trace: &Trace, parts: &[Part], fixed: &[Option<u32>]) -> Result<Grouping, Circle> {
    let mut work = 0;
    let edges = Edges::of(trace, parts, &mut work);
    let fixed = Fixed::of(parts, fixed);
    let (n_fixed, units) = (fixed.n, &fixed.of);
    let order = sorted(&edges, units, n_fixed, &mut work)?;
    let (origins, groups) = epochs(&edges, parts, &fixed, &order, &mut work);
    let places = placed(trace, &edges, parts, &order, &origins, &groups, &mut work);
    let units: Vec<u32> = places.iter().map(|p| if let Place::In(g) = p { *g } else { NONE }).collect();
    let order = sorted(&edges, &units, groups.n, &mut work)?;
    Ok(finished(parts, &fixed, order, &places, &groups, work))
}

/// What must stay together.
struct Fixed {
    n: usize,
    /// For each statement its group's number, else [`NONE`].
    of: Vec<u32>,
}

impl Fixed {
    /// Numbers without an op of an executor's are nobody's: what is left of a group are views.
    fn of(parts: &[Part], fixed: &[Option<u32>]) -> Fixed {
        let n = fixed.iter().flatten().max().map_or(0, |n| *n as usize + 1);
        let mut has_ops = vec![false; n];
        for (part, fixed) in parts.iter().zip(fixed) {
            if let (Part::Fused(_), Some(f)) = (part, fixed) {
                has_ops[*f as usize] = true;
            }
        }
        let of = |(part, fixed): (&Part, &Option<u32>)| match (part, fixed) {
            (Part::Fused(_) | Part::View | Part::Number, Some(f)) if has_ops[*f as usize] => *f,
            _ => NONE,
        };
        Fixed { n, of: parts.iter().zip(fixed).map(of).collect() }
    }
}

/// For each statement, the statements that it needs, in one array.
struct Edges {
    to: Vec<u32>,
    start: Vec<usize>,
}

impl Edges {
    fn of(trace: &Trace, parts: &[Part], work: &mut u64) -> Edges {
        let mut made_by = vec![NONE; trace.values.len()];
        let mut sizes: FxHashMap<Symbol, u32> = FxHashMap::default();
        let mut stream = NONE;
        let mut edges = Edges { to: Vec::new(), start: Vec::with_capacity(parts.len() + 1) };
        for (at, stmt) in trace.body.iter().enumerate() {
            edges.start.push(edges.to.len());
            let Stmt::Op(bsym) = stmt else { continue };
            let from = edges.to.len();
            bsym.for_each_use(&mut |v: ValueId| {
                *work += 1;
                if made_by[v.index()] != NONE {
                    edges.to.push(made_by[v.index()]);
                }
            });
            // A size that only a run knows is needed like a value: from what makes it known.
            for_each_size(trace, bsym, &mut |s| match sizes.entry(s) {
                std::collections::hash_map::Entry::Occupied(known) => {
                    if *known.get() != at as u32 {
                        edges.to.push(*known.get());
                    }
                }
                std::collections::hash_map::Entry::Vacant(new) => {
                    new.insert(at as u32);
                }
            });
            if parts[at] == Part::Stream {
                edges.to.extend((stream != NONE).then_some(stream));
                stream = at as u32;
            }
            let to = &mut edges.to;
            if to.len() - from > 1 {
                to[from..].sort_unstable();
                let mut last = from;
                for i in from + 1..to.len() {
                    if to[i] != to[last] {
                        last += 1;
                        to[last] = to[i];
                    }
                }
                to.truncate(last + 1);
            }
            bsym.defined().for_each(|v| made_by[v.index()] = at as u32);
        }
        edges.start.push(edges.to.len());
        edges
    }

    fn needed_by(&self, stmt: usize) -> &[u32] {
        &self.to[self.start[stmt]..self.start[stmt + 1]]
    }

    fn len(&self) -> usize {
        self.start.len() - 1
    }
}

/// Sizes known only at run that the statement's results or arguments speak of. Symbols of parameters are never asked for:
/// nothing makes them known.
fn for_each_size(trace: &Trace, bsym: &Bsym, f: &mut dyn FnMut(Symbol)) {
    let mut of_dim = |d: &Dim| {
        if d.known().is_none() {
            d.for_each_symbol(&mut |s| {
                if s.kind == SymKind::Data {
                    f(s);
                }
            });
        }
    };
    for v in bsym.defined() {
        match trace.ty(v) {
            Type::Tensor(t) => t.dims.iter().for_each(&mut of_dim),
            Type::Number(n) => n.equals.iter().for_each(&mut of_dim),
        }
    }
    let mut args: Vec<&Arg> = bsym.args.iter().filter(|a| matches!(a, Arg::Dim(_) | Arg::List(_))).collect();
    while let Some(arg) = args.pop() {
        match arg {
            Arg::Dim(d) => of_dim(d),
            Arg::List(items) => args.extend(items.iter().filter(|a| matches!(a, Arg::Dim(_) | Arg::List(_)))),
            _ => {}
        }
    }
}

/// Statements in an order in which each comes after what it needs, and those of one unit stand side by side; near the
/// order of the trace, whose statements each come after what they need.
fn sorted(edges: &Edges, unit: &[u32], n_units: usize, work: &mut u64) -> Result<Vec<usize>, Circle> {
    let n = edges.len();
    if n_units == 0 {
        return Ok((0..n).collect());
    }
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); n_units];
    for (at, u) in unit.iter().enumerate() {
        if *u != NONE {
            members[*u as usize].push(at as u32);
        }
    }
    let mut sort = Sort {
        edges,
        unit,
        members: &members,
        state: vec![State::New; n + n_units],
        order: Vec::with_capacity(n),
        work: 0,
    };
    for at in 0..n {
        sort.visit(at)?;
    }
    *work += sort.work;
    Ok(sort.order)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

struct Sort<'a> {
    edges: &'a Edges,
    unit: &'a [u32],
    members: &'a [Vec<u32>],
    /// Of statements, then of units.
    state: Vec<State>,
    order: Vec<usize>,
    work: u64,
}

impl Sort<'_> {
    fn node(&self, stmt: usize) -> usize {
        if self.unit[stmt] == NONE { stmt } else { self.edges.len() + self.unit[stmt] as usize }
    }

    fn members(&self, node: usize) -> &[u32] {
        &self.members[node - self.edges.len()]
    }

    /// Depth first, without recursion: each entry is a node, and how far its needs have been looked at.
    fn visit(&mut self, stmt: usize) -> Result<(), Circle> {
        let first = self.node(stmt);
        if self.state[first] != State::New {
            return Ok(());
        }
        self.state[first] = State::Open;
        let mut stack: Vec<(usize, usize, usize)> = vec![(first, 0, 0)];
        while let Some((node, mut member, mut edge)) = stack.pop() {
            let next = loop {
                self.work += 1;
                let stmt = if node < self.edges.len() {
                    if member > 0 {
                        break None;
                    }
                    node
                } else {
                    match self.members(node).get(member) {
                        Some(stmt) => *stmt as usize,
                        None => break None,
                    }
                };
                match self.edges.needed_by(stmt).get(edge) {
                    None => (member, edge) = (member + 1, 0),
                    Some(needed) => {
                        edge += 1;
                        let needed = self.node(*needed as usize);
                        match self.state[needed] {
                            State::Done => {}
                            // What a unit needs of itself is no circle.
                            State::Open if needed == node => {}
                            State::Open => return Err(Circle { stmt }),
                            State::New => break Some(needed),
                        }
                    }
                }
            };
            match next {
                Some(needed) => {
                    self.state[needed] = State::Open;
                    stack.push((node, member, edge));
                    stack.push((needed, 0, 0));
                }
                None => self.done(node),
            }
        }
        Ok(())
    }

    fn done(&mut self, node: usize) {
        self.state[node] = State::Done;
        if node < self.edges.len() {
            self.order.push(node);
        } else {
            let members = &self.members[node - self.edges.len()];
            self.order.extend(members.iter().map(|at| *at as usize));
        }
    }
}

/// Regions by number, in the order in which they were met.
struct Groups {
    n: usize,
    /// For each statement of a fusion executor, and each that was fixed, its region, else [`NONE`].
    of: Vec<u32>,
    /// For each region: who, its epoch.
    keys: Vec<(u32, u32)>,
    /// For each statement: a number that is not neutral.
    solid: Vec<bool>,
}

/// Origins of what each statement makes, and the regions.
fn epochs(
    edges: &Edges,
    parts: &[Part],
    fixed: &Fixed,
    order: &[usize],
    work: &mut u64,
) -> (Vec<Origin>, Groups) {
    let executors = parts.iter().filter_map(|p| if let Part::Fused(e) = p { Some(*e + 1) } else { None });
    let n_executors = executors.max().unwrap_or(0);
    // A fixed group is somebody of its own.
    let owner = |at: usize| match (fixed.of[at], parts[at]) {
        (NONE, Part::Fused(executor)) => Some(executor),
        (NONE, _) => None,
        (f, _) => Some(n_executors + f),
    };
    let mut origins = vec![Origin::START; parts.len()];
    let mut groups =
        Groups { n: 0, of: vec![NONE; parts.len()], keys: Vec::new(), solid: vec![false; parts.len()] };
    let mut known: FxHashMap<(u32, u32), u32> = FxHashMap::default();
    let mut at = 0;
    while at < order.len() {
        let first = order[at];
        let unit = fixed.of[first];
        // The members of a fixed group stand side by side from here on, and have one epoch.
        let n = match unit {
            NONE => 1,
            _ => order[at..].iter().take_while(|s| fixed.of[**s] == unit).count(),
        };
        let members = &order[at..at + n];
        at += n;
        let mut inputs = Origin::START;
        for &member in members {
            *work += 1;
            for &needed in edges.needed_by(member) {
                *work += 1;
                if unit == NONE || fixed.of[needed as usize] != unit {
                    inputs.join(origins[needed as usize]);
                }
            }
        }
        let who = owner(first);
        let is_number = matches!(parts[first], Part::Number | Part::Stream);
        // A number worked out from a region's tensor can be used anywhere, so it stands outside, and splits.
        groups.solid[first] = who.is_none() && is_number && inputs.from != Source::Nobody;
        let neutral = (is_number || parts[first] == Part::View) && !groups.solid[first];
        let Some(w) = who else {
            let epoch = inputs.epoch_for(None);
            origins[first] = if neutral { inputs } else { Origin { epoch, from: Source::Nobody } };
            continue;
        };
        let epoch = inputs.epoch_for(who);
        let group = *known.entry((w, epoch)).or_insert_with(|| {
            groups.keys.push((w, epoch));
            groups.n += 1;
            groups.n as u32 - 1
        });
        for &member in members {
            groups.of[member] = group;
            origins[member] = match parts[member] {
                Part::Fused(_) => Origin { epoch, from: Source::One(w) },
                // Neutral wherever it stands.
                _ => edges.needed_by(member).iter().fold(Origin::START, |mut from, needed| {
                    *work += 1;
                    from.join(origins[*needed as usize]);
                    from
                }),
            };
        }
    }
    (origins, groups)
}

/// Who uses what a neutral statement makes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Users {
    Nobody,
    One(Place),
    Several,
}

/// Where each statement stands. A neutral one stands in the region that alone uses it; where several use it, a view stands in
/// the region that its input comes from, if it can be made there; else outside.
fn placed(
    trace: &Trace,
    edges: &Edges,
    parts: &[Part],
    order: &[usize],
    origins: &[Origin],
    groups: &Groups,
    work: &mut u64,
) -> Vec<Place> {
    let by_key: FxHashMap<(u32, u32), u32> =
        groups.keys.iter().enumerate().map(|(g, key)| (*key, g as u32)).collect();
    let mut users = vec![Users::Nobody; parts.len()];
    let join = |users: &mut Vec<Users>, at: usize, place: Place| {
        users[at] = match users[at] {
            Users::Nobody => Users::One(place),
            Users::One(known) if known == place => Users::One(known),
            _ => Users::Several,
        };
    };
    let mut made_by = vec![NONE; trace.values.len()];
    for (at, stmt) in trace.body.iter().enumerate() {
        stmt.op().into_iter().flat_map(Bsym::defined).for_each(|v| made_by[v.index()] = at as u32);
    }
    let mut leaves = |v: ValueId| {
        if made_by[v.index()] != NONE {
            join(&mut users, made_by[v.index()] as usize, Place::Outside);
        }
    };
    trace.outputs.iter().for_each(|o| o.value.for_each_value(&mut leaves));
    trace.save.iter().for_each(|v| leaves(*v));
    let mut places = vec![Place::Outside; parts.len()];
    for &at in order.iter().rev() {
        *work += 1;
        let source = || match origins[at] {
            Origin { epoch, from: Source::One(who) } => by_key.get(&(who, epoch)).copied(),
            _ => None,
        };
        let place = match (parts[at], users[at]) {
            (Part::Fused(_), _) => Place::In(groups.of[at]),
            (Part::Single | Part::Stream, _) => Place::Outside,
            (Part::Number, _) if groups.solid[at] => Place::Outside,
            (Part::View | Part::Number, Users::One(place @ Place::In(_))) => place,
            (Part::View, Users::One(Place::Outside) | Users::Several) => {
                source().map_or(Place::Outside, Place::In)
            }
            // A number that was fixed between a region's ops.
            (Part::Number, _) if groups.of[at] != NONE && source().is_some() => Place::In(groups.of[at]),
            (Part::View | Part::Number, _) => Place::Outside,
        };
        places[at] = place;
        for &needed in edges.needed_by(at) {
            *work += 1;
            join(&mut users, needed as usize, place);
        }
    }
    places
}

/// Regions numbered in the order in which they run.
fn finished(
    parts: &[Part],
    fixed: &Fixed,
    order: Vec<usize>,
    places: &[Place],
    groups: &Groups,
    work: u64,
) -> Grouping {
    let mut number = vec![NONE; groups.n];
    let mut done: Vec<Group> = Vec::new();
    let mut places = places.to_vec();
    for &at in &order {
        let Place::In(old) = places[at] else { continue };
        if number[old as usize] == NONE {
            number[old as usize] = done.len() as u32;
            done.push(Group { executor: NONE, fixed: None, stmts: Vec::new(), n_ops: 0 });
        }
        let new = number[old as usize];
        places[at] = Place::In(new);
        let group = &mut done[new as usize];
        group.stmts.push(at);
        if let Part::Fused(executor) = parts[at] {
            group.executor = executor;
            group.fixed = (fixed.of[at] != NONE).then_some(fixed.of[at]);
            group.n_ops += 1;
        }
    }
    Grouping { groups: done, order, places, work }
}

#[cfg(test)]
mod tests;
