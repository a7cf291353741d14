//! What becomes of each op of a region, as a flat list of leaves in program order, without those that nothing needs.

use crate::prims::{Call, translate};
use std::collections::{HashMap, HashSet};
use thunderhead_sdk::{Decomposition, Error, OpId, Region, RegionOp, ValueId};

/// One thing to be done, or to be looked at.
#[derive(Clone, Debug)]
pub enum Leaf<'a> {
    /// Loops compute it.
    Ours { op: RegionOp<'a>, call: Call },
    /// The host's: nothing is to be done.
    View { op: RegionOp<'a> },
    /// A view by strides whose result is, to the host, the result of the op taken apart: it lies where `op`'s operand lies,
    /// unless somebody writes it.
    Look { op: RegionOp<'a>, call: Call },
    /// A result of an op taken apart that is a copy of another value.
    Yield { op: OpId, from: ValueId, to: ValueId },
    /// Somebody else runs it.
    Handed { op: RegionOp<'a> },
}

impl Leaf<'_> {
    /// Tensors that it makes.
    fn outputs(&self) -> &[ValueId] {
        match self {
            Leaf::Ours { op, .. } | Leaf::View { op } | Leaf::Look { op, .. } | Leaf::Handed { op } => {
                op.output_values()
            }
            Leaf::Yield { to, .. } => std::slice::from_ref(to),
        }
    }

    fn inputs(&self) -> &[ValueId] {
        match self {
            Leaf::Ours { op, .. } | Leaf::View { op } | Leaf::Look { op, .. } | Leaf::Handed { op } => {
                op.input_values()
            }
            Leaf::Yield { from, .. } => std::slice::from_ref(from),
        }
    }
}

/// The leaves of a region; ops in `handed` are handed on.
pub fn flatten<'a>(region: &Region<'a>, handed: &HashSet<OpId>) -> Result<Vec<Leaf<'a>>, Error> {
    let mut flat = Flat { region, handed, leaves: Vec::new(), parts: HashMap::new() };
    for op in region.ops() {
        flat.take(op)?;
    }
    Ok(needed(region, flat.leaves))
}

struct Flat<'r, 'a> {
    region: &'r Region<'a>,
    handed: &'r HashSet<OpId>,
    leaves: Vec<Leaf<'a>>,
    parts: HashMap<OpId, Option<Decomposition<'a>>>,
}

impl<'a> Flat<'_, 'a> {
    /// Loops first, then whoever takes the op whole, then its parts.
    fn take(&mut self, op: RegionOp<'a>) -> Result<(), Error> {
        if self.ours(&op)? {
            return Ok(());
        }
        if self.region.taker(op.id())?.is_some() {
            self.leaves.push(Leaf::Handed { op });
            return Ok(());
        }
        let Some(parts) = self.parts(&op)? else {
            return Err(Error::unsupported(format!("nobody runs `{}`", op.name())));
        };
        for part in &parts.ops {
            self.take(*part)?;
        }
        self.yields(&op, &parts);
        Ok(())
    }

    /// Adds the op's leaves if loops compute all of it, else nothing.
    fn ours(&mut self, op: &RegionOp<'a>) -> Result<bool, Error> {
        if op.is_number() {
            return Ok(true);
        }
        if op.is_view() {
            return Ok(self.view(op));
        }
        if self.handed.contains(&op.id()) {
            return Ok(false);
        }
        if let Some(call) = translate(op) {
            self.leaves.push(Leaf::Ours { op: *op, call });
            return Ok(true);
        }
        let Some(parts) = self.parts(op)? else { return Ok(false) };
        let before = self.leaves.len();
        for part in &parts.ops {
            if !self.ours(part)? {
                self.leaves.truncate(before);
                return Ok(false);
            }
        }
        self.yields(op, &parts);
        Ok(true)
    }

    /// A view whose result is one to the host, too, needs no leaf but for what it keeps alive.
    fn view(&mut self, op: &RegionOp<'a>) -> bool {
        let settled = op.output_values().iter().all(|v| self.region.value(*v).is_view());
        if settled {
            self.leaves.push(Leaf::View { op: *op });
            return true;
        }
        match translate(op) {
            Some(call) => {
                self.leaves.push(Leaf::Look { op: *op, call });
                true
            }
            None => false,
        }
    }

    fn parts(&mut self, op: &RegionOp<'a>) -> Result<Option<Decomposition<'a>>, Error> {
        if !op.is_composite() {
            return Ok(None);
        }
        if let Some(known) = self.parts.get(&op.id()) {
            return Ok(known.clone());
        }
        let parts = self.region.decomposition(op.id())?;
        self.parts.insert(op.id(), parts.clone());
        Ok(parts)
    }

    fn yields(&mut self, op: &RegionOp<'a>, parts: &Decomposition<'a>) {
        for (to, from) in op.output_values().iter().zip(parts.yields) {
            if to != from {
                self.leaves.push(Leaf::Yield { op: op.id(), from: *from, to: *to });
            }
        }
    }
}

/// Leaves that lead to the region's outputs.
fn needed<'a>(region: &Region<'a>, leaves: Vec<Leaf<'a>>) -> Vec<Leaf<'a>> {
    let mut wanted: HashSet<ValueId> = HashSet::new();
    let want = |wanted: &mut HashSet<ValueId>, v: ValueId| {
        // A view's memory, and what the view was made of, step by step.
        let mut v = v;
        while wanted.insert(v) && region.value(v).is_view() {
            v = region.value(v).base();
        }
    };
    region.outputs().iter().for_each(|v| want(&mut wanted, *v));
    let mut kept = Vec::with_capacity(leaves.len());
    for leaf in leaves.into_iter().rev() {
        if leaf.outputs().iter().any(|v| wanted.contains(v)) {
            leaf.inputs().iter().for_each(|v| want(&mut wanted, *v));
            kept.push(leaf);
        }
    }
    kept.reverse();
    kept
}
