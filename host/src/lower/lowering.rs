//! One region being lowered: what its executor may ask, the steps that it gives, and what the host makes of them.
//!
//! Invariants of what comes out: each value is written by one step at most, views by none; every output of the region and
//! everything that a step reads is written before, comes from outside, or is a view of such; steps are in an order in which
//! that holds, near the order of the program. Deliberately absent: kernels (a parameter here), addresses.

use super::flatten::flatten_call;
use super::inline::renamed;
use super::spec::{HostPart, RegionError, RegionOp, RegionSpec, Sizes, host_part};
use crate::claim::layout::contiguous;
use crate::claim::walk::HOST;
use crate::claim::{
    CandidateId, ClaimError, Claims, Delegated, LayoutNeed, Layouts, Strided, TensorSpec, claim_delegated,
};
use crate::ir::{Bsym, Device, Dim, Dtype, Name, NumKind, Stmt, TensorType, Trace, ValueId};
use crate::ops::{self, HostOp, OpError};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// More than any machine has for one tensor.
const MAX_BYTES: i64 = 1 << 46;

/// A region being lowered.
pub struct Lowering<'a, 'c, K> {
    region: RegionSpec,
    trace: &'a mut Trace,
    layouts: &'a mut Layouts,
    claims: &'a mut Claims<'c>,
    sizes: &'a Sizes<'a>,
    /// Who has handed on what is being lowered; the last is whom it is lowered by.
    chain: Vec<CandidateId>,
    steps: Vec<LoweredStep<K>>,
    /// For each op that was taken apart, its parts, and how its results look at them where they are views.
    parts: FxHashMap<u32, Parts>,
    /// For each op that somebody was asked to take.
    takers: FxHashMap<u32, Result<Delegated, String>>,
    /// Numbers that parts work out.
    numbers: Vec<Bsym>,
    /// Which step writes a value.
    written: FxHashMap<ValueId, usize>,
    /// What was wrong first with what the executor said, whatever it makes of the answer.
    fault: Option<String>,
}

/// Parts of an op.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Their numbers.
    pub ops: Range<u32>,
    /// Numbers of the tensors that are new.
    pub values: Range<u32>,
    /// For each tensor result of the op, the tensor that stands for it.
    pub yields: Vec<u32>,
    /// Results that are only views of what a part makes.
    views: Vec<(ValueId, Strided)>,
}

/// One step of a region.
#[derive(Clone, Debug)]
pub enum LoweredStep<K> {
    /// The executor's own kernel.
    Own {
        /// What it is called.
        name: Name,
        /// The kernel.
        kernel: K,
        /// What it reads.
        inputs: Vec<ValueId>,
        /// What it writes.
        outputs: Vec<ValueId>,
        /// Numbers that it needs.
        numbers: Vec<(ValueId, NumKind)>,
    },
    /// An op handed on, claimed by whom it says.
    Op {
        /// The op.
        bsym: Box<Bsym>,
        /// What its kernel needs.
        layout: LayoutNeed,
        /// The op of the region that it is, or belongs to.
        whole: u32,
    },
    /// A result that is a view which the host cannot leave where it is.
    Copy {
        /// From.
        from: ValueId,
        /// To.
        to: ValueId,
    },
}

/// A lowered region.
#[derive(Clone, Debug)]
pub struct LoweredRegion<K> {
    /// Numbers to be worked out first.
    pub numbers: Vec<Bsym>,
    /// In order.
    pub steps: Vec<LoweredStep<K>>,
    /// Ops of the region that were handed on whole: who runs them, or the first of several.
    pub handed_on: Vec<(u32, Name)>,
    /// Ops of the region of which parts were handed on, and who runs those; each once.
    pub in_part: Vec<(u32, Name)>,
}

/// Why a request of the executor is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is wrong; the words say what is.
    Wrong(String),
    /// It is right, but cannot be had: a prim has no decomposition, nobody takes the op.
    Unsupported(String),
}

/// What the host cannot do for a region that is in order.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LowerError {
    /// An op's decomposition fails.
    #[error(transparent)]
    Op(#[from] OpError),
    /// A part cannot be described.
    #[error(transparent)]
    Region(#[from] RegionError),
}

impl<'a, 'c, K> Lowering<'a, 'c, K> {
    /// `region` is what the executor at the end of `chain` is given.
    pub fn new(
        region: RegionSpec,
        trace: &'a mut Trace,
        layouts: &'a mut Layouts,
        claims: &'a mut Claims<'c>,
        sizes: &'a Sizes<'a>,
        chain: Vec<CandidateId>,
    ) -> Lowering<'a, 'c, K> {
        Lowering {
            region,
            trace,
            layouts,
            claims,
            sizes,
            chain,
            steps: Vec::new(),
            parts: FxHashMap::default(),
            takers: FxHashMap::default(),
            numbers: Vec::new(),
            written: FxHashMap::default(),
            fault: None,
        }
    }

    /// The region, with all that has become known.
    pub fn region(&self) -> &RegionSpec {
        &self.region
    }

    /// What was wrong with what the executor said.
    pub fn take_fault(&mut self) -> Option<String> {
        self.fault.take()
    }

    /// Puts on record what is wrong with a request, and gives it back.
    pub fn wrong(&mut self, why: String) -> Refused {
        self.fault.get_or_insert_with(|| why.clone());
        Refused::Wrong(why)
    }

    fn op(&mut self, op: u32) -> Result<RegionOp, Refused> {
        match self.region.ops.get(op as usize) {
            Some(op) => Ok(op.clone()),
            None => {
                let n = self.region.ops.len();
                Err(self.wrong(format!("it names op {op}; {n} are known in its region")))
            }
        }
    }

    /// Takes an op apart, one level down. Asking again gives the same.
    pub fn decompose(&mut self, op: u32) -> Result<Parts, Refused> {
        if let Some(known) = self.parts.get(&op) {
            return Ok(known.clone());
        }
        let whole = self.op(op)?;
        match self.take_apart(&whole) {
            Ok(Some(parts)) => {
                self.parts.insert(op, parts.clone());
                Ok(parts)
            }
            Ok(None) => Err(Refused::Unsupported(format!("`{}` has no decomposition", whole.spec.op))),
            Err(error) => Err(Refused::Unsupported(error.to_string())),
        }
    }

    fn take_apart(&mut self, whole: &RegionOp) -> Result<Option<Parts>, LowerError> {
        if whole.host != HostPart::No {
            return Ok(None);
        }
        let Some(block) = ops::build::decompose(self.trace, &whole.bsym)? else { return Ok(None) };
        if block.body.iter().filter_map(Stmt::op).any(needs_the_host) {
            return Ok(None);
        }
        // A part that makes a result of the whole makes that, and not a value of another number.
        let results = whole.bsym.results.iter().zip(&block.yields);
        let outer: FxHashMap<ValueId, ValueId> =
            results.filter_map(|(result, inner)| Some((inner.value()?, (*result)?))).collect();
        let mut parts = Parts {
            ops: self.region.ops.len() as u32..0,
            values: self.region.values.len() as u32..0,
            yields: whole.outputs.clone(),
            views: Vec::new(),
        };
        for stmt in block.body {
            let Stmt::Op(part) = renamed(stmt, &outer) else { continue };
            self.add_part(part, whole.whole, &mut parts)?;
        }
        parts.ops.end = self.region.ops.len() as u32;
        parts.values.end = self.region.values.len() as u32;
        Ok(Some(parts))
    }

    fn add_part(&mut self, part: Bsym, whole: u32, parts: &mut Parts) -> Result<(), LowerError> {
        let host = match host_part(&part, false) {
            HostPart::Number => {
                self.numbers.push(part.clone());
                HostPart::Number
            }
            _ if self.layouts.try_view(self.trace, &part)? => HostPart::View,
            _ => HostPart::No,
        };
        let results: Vec<ValueId> = part.defined().collect();
        // Results of the whole count as memory of their own until it is known who writes what.
        let views: Vec<(ValueId, Strided)> = results
            .iter()
            .filter(|v| self.region.number_of(**v).is_some())
            .filter_map(|v| self.layouts.take(*v).map(|s| (*v, s)))
            .collect();
        parts.views.extend(views);
        self.region.add_sized(self.trace, self.layouts, &part, host, whole, self.sizes)?;
        Ok(())
    }

    /// Who would run the op if it were handed on.
    pub fn taker(&mut self, op: u32) -> Result<Name, Refused> {
        match self.delegated(op)? {
            Ok(delegated) => Ok(first_runner(&delegated)),
            Err(why) => Err(Refused::Unsupported(why)),
        }
    }

    fn delegated(&mut self, op: u32) -> Result<Result<Delegated, String>, Refused> {
        if let Some(known) = self.takers.get(&op) {
            return Ok(known.clone());
        }
        let asked = self.op(op)?;
        if asked.host != HostPart::No {
            return Err(
                self.wrong(format!("it hands on op {op} (`{}`), which is the host's already", asked.spec.op))
            );
        }
        let answer = claim_delegated(self.trace, self.layouts, self.claims, &asked.bsym, &self.chain, &[]);
        let answer = match answer {
            Ok(delegated) if needs_the_host(&delegated.bsym) => {
                let why = format!("`{}` would be taken apart into what no region may hold", asked.spec.op);
                self.takers.insert(op, Err(why.clone()));
                return Ok(Err(why));
            }
            other => other,
        };
        let answer = answer.map_err(|e| match e {
            ClaimError::Unclaimed { refusals, .. } => {
                let reasons: Vec<String> =
                    refusals.iter().map(|r| format!("{}: {}", r.executor, r.sentence)).collect();
                format!("nobody else takes `{}` ({})", asked.spec.op, reasons.join("; "))
            }
            other => other.to_string(),
        });
        self.takers.insert(op, answer.clone());
        Ok(answer)
    }

    /// A tensor that only this region's steps see.
    pub fn temporary(&mut self, dtype: Dtype, dims: &[i64]) -> Result<u32, Refused> {
        let elems = dims.iter().try_fold(1i64, |n, d| if *d < 0 { None } else { n.checked_mul((*d).max(1)) });
        let bytes = elems.and_then(|n| n.checked_mul(dtype.size_bytes() as i64));
        if bytes.is_none_or(|bytes| bytes >= MAX_BYTES) {
            return Err(self.wrong(format!("it wants a temporary of {dtype}{dims:?}, which cannot be")));
        }
        let known: Vec<Dim> = dims.iter().copied().map(Dim::Known).collect();
        let name = format!("{}.t{}", self.label(), self.region.values.len());
        let value = self.trace.add_value(name, TensorType::new(known.clone(), dtype).into());
        let strides = contiguous(&known).iter().map(|d| d.known().unwrap_or(0)).collect();
        let tensor = TensorSpec {
            value,
            dtype,
            device: Device::Cpu,
            dims: known,
            strides: Some(strides),
            constant: 0,
        };
        Ok(self.region.add_temporary(tensor))
    }

    fn label(&self) -> &str {
        match self.region.name.is_empty() {
            true => self.region.ops.first().map_or("region", |op| &op.spec.origin),
            false => &self.region.name,
        }
    }

    /// The tensors that a step of an own kernel reads and writes, checked.
    pub fn operands(
        &mut self,
        inputs: &[u32],
        outputs: &[u32],
        numbers: &[u32],
        name: &str,
    ) -> Result<(Vec<TensorSpec>, Vec<TensorSpec>), Refused> {
        let known = self.region.values.len();
        if let Some(v) = inputs.iter().chain(outputs).find(|v| **v as usize >= known) {
            return Err(self.wrong(format!("step `{name}` names value {v}; {known} are known in its region")));
        }
        let n_numbers = self.region.numbers.len();
        if let Some(slot) = numbers.iter().find(|slot| **slot as usize >= n_numbers) {
            return Err(self.wrong(format!("step `{name}` names number {slot}; the region has {n_numbers}")));
        }
        for (at, v) in outputs.iter().enumerate() {
            let value = &self.region.values[*v as usize];
            let shown = self.trace.value(value.tensor.value).name.clone();
            let why = if value.base != *v {
                Some("which is a view")
            } else if value.is_input {
                Some("which is made outside of its region")
            } else if outputs[..at].contains(v) || self.written.contains_key(&value.tensor.value) {
                Some("which has been written already")
            } else {
                None
            };
            if let Some(why) = why {
                return Err(self.wrong(format!("step `{name}` writes value {v} (%{shown}), {why}")));
            }
        }
        if outputs.is_empty() {
            return Err(self.wrong(format!("step `{name}` writes nothing")));
        }
        let tensor = |v: &u32| self.region.values[*v as usize].tensor.clone();
        Ok((inputs.iter().map(tensor).collect(), outputs.iter().map(tensor).collect()))
    }

    /// One more step, of operands that were checked.
    pub fn kernel_step(&mut self, name: &str, inputs: &[u32], outputs: &[u32], numbers: &[u32], kernel: K) {
        let value = |v: &u32| self.region.values[*v as usize].tensor.value;
        let step = LoweredStep::Own {
            name: name.into(),
            kernel,
            inputs: inputs.iter().map(value).collect(),
            outputs: outputs.iter().map(value).collect(),
            numbers: numbers.iter().map(|slot| self.region.numbers[*slot as usize]).collect(),
        };
        self.push(step);
    }

    fn push(&mut self, step: LoweredStep<K>) {
        let at = self.steps.len();
        step.for_each_output(&mut |v| {
            self.written.insert(v, at);
        });
        self.steps.push(step);
    }

    /// One more step: the op as it stands, by the next one that takes it.
    pub fn delegate(&mut self, op: u32) -> Result<(), Refused> {
        let delegated = match self.delegated(op)? {
            Ok(delegated) => delegated,
            Err(why) => return Err(Refused::Unsupported(why)),
        };
        let asked = self.op(op)?;
        for (v, number) in asked.spec.outputs.iter().zip(&asked.outputs) {
            if self.written.contains_key(&v.value) {
                let shown = self.trace.value(v.value).name.clone();
                return Err(self.wrong(format!(
                    "it hands on op {op} (`{}`), whose result {number} (%{shown}) has been written already",
                    asked.spec.op
                )));
            }
        }
        self.hand_on(delegated, asked.whole);
        Ok(())
    }

    fn hand_on(&mut self, delegated: Delegated, whole: u32) {
        let Delegated { bsym, reports, views } = delegated;
        let results: FxHashSet<ValueId> = bsym.defined().collect();
        let flat = flatten_call(self.trace, bsym, &reports);
        for (bsym, layout) in flat {
            let of_host = bsym.who.as_ref().is_some_and(|who| &*who.executor == HOST);
            match host_part(&bsym, of_host) {
                HostPart::Number => self.numbers.push(bsym),
                HostPart::View => {}
                HostPart::No => self.push(LoweredStep::Op { bsym: Box::new(bsym), layout, whole }),
            }
        }
        // Results that are views of what the parts make.
        for (v, strided) in views {
            if results.contains(&v) && !self.written.contains_key(&v) {
                self.settle(v, strided);
            }
        }
    }

    /// The value lies, or has to be copied, where a part has left it.
    fn settle(&mut self, v: ValueId, strided: Strided) {
        let dense = self.trace.ty(v).tensor().is_some_and(|t| strided.strides == contiguous(&t.dims));
        if dense {
            self.layouts.set(v, strided);
            return;
        }
        // It counts as contiguous outside.
        let (name, ty) = (format!("{}.v", self.trace.value(v).name), self.trace.ty(v).clone());
        let from = self.trace.add_value(name, ty);
        self.layouts.set(from, strided);
        self.push(LoweredStep::Copy { from, to: v });
    }

    /// What came of it; the error says what is missing.
    pub fn finish(mut self) -> Result<LoweredRegion<K>, String> {
        self.settle_parts();
        self.check_outputs()?;
        let order = self.sorted()?;
        let mut steps: Vec<Option<LoweredStep<K>>> =
            std::mem::take(&mut self.steps).into_iter().map(Some).collect();
        let steps: Vec<LoweredStep<K>> = order.into_iter().filter_map(|at| steps[at].take()).collect();
        let (mut handed_on, mut in_part) = (Vec::new(), Vec::new());
        let mut seen: FxHashSet<(u32, Name)> = FxHashSet::default();
        for step in &steps {
            let LoweredStep::Op { bsym, whole, .. } = step else { continue };
            let runner = bsym.who.as_ref().map_or_else(|| HOST.into(), |who| who.executor.clone());
            if !seen.insert((*whole, runner.clone())) {
                continue;
            }
            let all = self.takers.contains_key(whole) && !self.parts_written(*whole);
            let known = handed_on.last().is_some_and(|(last, _)| last == whole);
            match (all, known) {
                (true, false) => handed_on.push((*whole, runner)),
                (true, true) => {}
                (false, _) => in_part.push((*whole, runner)),
            }
        }
        let numbers = self.needed_numbers(&steps);
        Ok(LoweredRegion { numbers, steps, handed_on, in_part })
    }

    /// Was the op taken apart, so that steps speak of its parts?
    fn parts_written(&self, whole: u32) -> bool {
        let Some(parts) = self.parts.get(&whole) else { return false };
        parts.values.clone().any(|v| self.written.contains_key(&self.region.values[v as usize].tensor.value))
    }

    /// Results of ops taken apart that no step writes may be views of what a part makes.
    fn settle_parts(&mut self) {
        let mut views: Vec<(u32, Vec<(ValueId, Strided)>)> = self
            .parts
            .iter_mut()
            .map(|(op, parts)| (parts.ops.start.max(*op), std::mem::take(&mut parts.views)))
            .collect();
        // Parts of parts come behind, and are settled first.
        views.sort_by_key(|(at, _)| Reverse(*at));
        for (v, strided) in views.into_iter().flat_map(|(_, views)| views) {
            let lies_in_another = self.layouts.is_view(v);
            if !self.written.contains_key(&v) && !lies_in_another && self.is_there(strided.base) {
                self.settle(v, strided);
            }
        }
    }

    /// Is the memory of the value written by a step, or made outside?
    fn is_there(&self, v: ValueId) -> bool {
        let base = self.layouts.of(self.trace, v).base;
        self.written.contains_key(&base) || self.is_outside(base)
    }

    fn is_outside(&self, base: ValueId) -> bool {
        match self.region.number_of(base) {
            Some(number) => self.region.values[number as usize].is_input,
            // The memory of an input that is a view; inner values of ops handed on are written.
            None => true,
        }
    }

    fn check_outputs(&self) -> Result<(), String> {
        for number in &self.region.outputs {
            let v = self.region.values[*number as usize].tensor.value;
            if !self.is_there(v) {
                let name = &self.trace.value(v).name;
                return Err(format!("no step writes value {number} (%{name}), which its region must make"));
            }
        }
        Ok(())
    }

    /// Steps in an order in which each comes after those that write what it reads; where there is a choice, in the order
    /// of the program, so that wide regions keep no memory for longer than their ops would have.
    fn sorted(&self) -> Result<Vec<usize>, String> {
        let n = self.steps.len();
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); n];
        let mut waits = vec![0usize; n];
        for (at, step) in self.steps.iter().enumerate() {
            let mut missing = None;
            let mut from: Vec<usize> = Vec::new();
            step.for_each_input(&mut |v| {
                if self.trace.ty(v).tensor().is_none() {
                    return;
                }
                let base = self.layouts.of(self.trace, v).base;
                match self.written.get(&base) {
                    Some(writer) => from.push(*writer),
                    None if self.is_outside(base) => {}
                    None => missing = Some(v),
                }
            });
            if let Some(v) = missing {
                let (step, name) = (step.shown(), &self.trace.value(v).name);
                return Err(format!("step `{step}` reads %{name}, which no step writes"));
            }
            from.sort_unstable();
            from.dedup();
            waits[at] = from.len();
            from.into_iter().for_each(|writer| next[writer].push(at));
        }
        let keys = self.keys(&next, waits.clone())?;
        let mut ready: BinaryHeap<Reverse<(u32, usize)>> =
            (0..n).filter(|at| waits[*at] == 0).map(|at| Reverse((keys[at], at))).collect();
        let mut order = Vec::with_capacity(n);
        while let Some(Reverse((_, at))) = ready.pop() {
            order.push(at);
            for &user in &next[at] {
                waits[user] -= 1;
                if waits[user] == 0 {
                    ready.push(Reverse((keys[user], user)));
                }
            }
        }
        Ok(order)
    }

    /// For each step its place in the program: that of what it writes, or of what is made from that.
    fn keys(&self, next: &[Vec<usize>], mut waits: Vec<usize>) -> Result<Vec<u32>, String> {
        let mut order: Vec<usize> = (0..waits.len()).filter(|at| waits[*at] == 0).collect();
        let mut at = 0;
        while at < order.len() {
            for &user in &next[order[at]] {
                waits[user] -= 1;
                if waits[user] == 0 {
                    order.push(user);
                }
            }
            at += 1;
        }
        if let Some(stuck) = waits.iter().position(|w| *w > 0) {
            let step = self.steps[stuck].shown();
            return Err(format!("step `{step}` needs, through others, what it writes itself"));
        }
        let mut made_by: FxHashMap<ValueId, u32> = FxHashMap::default();
        for op in &self.region.ops {
            op.spec.outputs.iter().for_each(|t| {
                made_by.entry(t.value).or_insert(op.whole);
            });
        }
        let mut keys = vec![u32::MAX; waits.len()];
        for &at in order.iter().rev() {
            let mut key = u32::MAX;
            match &self.steps[at] {
                LoweredStep::Op { whole, .. } => key = *whole,
                step => step.for_each_output(&mut |v| {
                    key = key.min(made_by.get(&v).copied().unwrap_or(u32::MAX));
                }),
            }
            if key == u32::MAX {
                key = next[at].iter().map(|user| keys[*user]).min().unwrap_or(u32::MAX);
            }
            keys[at] = key;
        }
        Ok(keys)
    }

    /// Of the numbers that parts work out, those that steps need, in order.
    fn needed_numbers(&self, steps: &[LoweredStep<K>]) -> Vec<Bsym> {
        let mut needed: FxHashSet<ValueId> = FxHashSet::default();
        for step in steps {
            match step {
                LoweredStep::Own { numbers, .. } => needed.extend(numbers.iter().map(|(v, _)| *v)),
                LoweredStep::Op { bsym, .. } => bsym.for_each_use(&mut |v| {
                    needed.insert(v);
                }),
                LoweredStep::Copy { .. } => {}
            }
        }
        let mut kept: Vec<Bsym> = Vec::new();
        for bsym in self.numbers.iter().rev() {
            if bsym.defined().any(|v| needed.contains(&v)) {
                bsym.for_each_use(&mut |v| {
                    needed.insert(v);
                });
                kept.push(bsym.clone());
            }
        }
        kept.reverse();
        kept
    }
}

impl<K> LoweredStep<K> {
    fn for_each_input(&self, f: &mut dyn FnMut(ValueId)) {
        match self {
            LoweredStep::Own { inputs, .. } => inputs.iter().for_each(|v| f(*v)),
            LoweredStep::Op { bsym, .. } => bsym.for_each_use(f),
            LoweredStep::Copy { from, .. } => f(*from),
        }
    }

    fn for_each_output(&self, f: &mut dyn FnMut(ValueId)) {
        match self {
            LoweredStep::Own { outputs, .. } => outputs.iter().for_each(|v| f(*v)),
            LoweredStep::Op { bsym, .. } => bsym.defined().for_each(f),
            LoweredStep::Copy { to, .. } => f(*to),
        }
    }

    fn shown(&self) -> &str {
        match self {
            LoweredStep::Own { name, .. } => name,
            LoweredStep::Op { bsym, .. } => &bsym.op,
            LoweredStep::Copy { .. } => "copy",
        }
    }
}

/// Does the host have to read tensors for it, or to check something: is it, or is one of its parts, `item`, a check, or a draw
/// from the random stream?
fn needs_the_host(bsym: &Bsym) -> bool {
    let itself = ops::find(&bsym.op)
        .and_then(|op| op.host)
        .is_some_and(|how| matches!(how, HostOp::Item | HostOp::Check | HostOp::NextPhilox));
    let parts = bsym.block.iter().flat_map(|block| block.body.iter().filter_map(Stmt::op));
    itself || parts.into_iter().any(needs_the_host)
}

/// Who runs it, or the first of those who run its parts.
fn first_runner(delegated: &Delegated) -> Name {
    fn of(bsym: &Bsym) -> Option<Name> {
        if let Some(who) = &bsym.who {
            return (&*who.executor != HOST).then(|| who.executor.clone());
        }
        bsym.block.as_ref()?.body.iter().filter_map(Stmt::op).find_map(of)
    }
    of(&delegated.bsym).unwrap_or_else(|| HOST.into())
}
