//! The forward as it is differentiated: each op with a rule of its own, composites without one taken apart.
//!
//! A composite without a rule stays whole in the forward if the backward needs nothing from inside it, or only what is
//! cheap to compute again. So its parts are laid out beside it here; which of both the forward holds is decided later.

use super::{AutodiffError, NestedTraces};
use crate::ir::trace::origin;
use crate::ir::{Arg, Bsym, Dim, Stage, Stmt, Trace, ValueId};
use crate::ops::{self, Builder, Call, Level, Op, OpError, Tensor, Vjp};
use rustc_hash::{FxHashMap, FxHashSet};

/// What is differentiated.
pub struct Tape {
    /// All values: the program's, those inside composites, later those of the backward.
    pub trace: Trace,
    /// The forward's statements.
    pub forward: Vec<ForwardStmt>,
    /// Ops with rules, in order.
    pub nodes: Vec<Node>,
    /// Values through which a gradient flows to something that is wanted.
    pub active: FxHashSet<ValueId>,
    /// Traces that calls of control flow name, and those that are made of them.
    pub nested: NestedTraces,
}

/// A statement of the forward.
pub struct ForwardStmt {
    /// The call.
    pub bsym: Bsym,
    /// The parts of a composite that is differentiated through its decomposition; they define its results, too.
    pub parts: Vec<Bsym>,
}

/// An op with a rule, or an opaque one.
pub struct Node {
    /// The call.
    pub bsym: Bsym,
    /// Its entry; none: an opaque op, whose gradient is an op of its own.
    pub op: Option<&'static Op>,
    /// What an augmented forward kept.
    pub extra: Vec<ValueId>,
}

/// Lays out `trace` for the gradients of `wanted`.
pub fn lay_out(trace: &Trace, wanted: &[ValueId], nested: NestedTraces) -> Result<Tape, AutodiffError> {
    let mut t = Tape {
        trace: Trace { body: Vec::new(), stage: Stage::Forward, ..trace.clone() },
        forward: Vec::with_capacity(trace.body.len()),
        nodes: Vec::new(),
        active: wanted.iter().copied().collect(),
        nested,
    };
    for stmt in &trace.body {
        if let Stmt::Op(bsym) = stmt {
            t.statement(bsym)?;
        }
    }
    Ok(t)
}

impl Tape {
    fn statement(&mut self, bsym: &Bsym) -> Result<(), AutodiffError> {
        if !self.uses_active(bsym) {
            self.forward.push(ForwardStmt { bsym: bsym.clone(), parts: Vec::new() });
            return Ok(());
        }
        let Some(op) = ops::find(&bsym.op) else {
            // An opaque op: its gradient is an op of its own, for whoever can run it.
            self.activate(bsym);
            self.nodes.push(Node { bsym: bsym.clone(), op: None, extra: Vec::new() });
            self.forward.push(ForwardStmt { bsym: bsym.clone(), parts: Vec::new() });
            return Ok(());
        };
        if let Some(flow) = ops::Flow::of(op, &bsym.args) {
            let call = self.control(op, bsym, &flow)?;
            self.forward.push(ForwardStmt { bsym: call, parts: Vec::new() });
            return Ok(());
        }
        match op.vjp {
            Vjp::Zero | Vjp::NonDiff => {
                self.forward.push(ForwardStmt { bsym: bsym.clone(), parts: Vec::new() })
            }
            Vjp::Rule(_) => {
                self.activate(bsym);
                self.nodes.push(Node { bsym: bsym.clone(), op: Some(op), extra: Vec::new() });
                self.forward.push(ForwardStmt { bsym: bsym.clone(), parts: Vec::new() });
            }
            Vjp::Augmented { forward, .. } => {
                let (stmts, extra) = self.augmented(op, bsym, forward)?;
                self.activate(bsym);
                for s in stmts {
                    self.forward.push(ForwardStmt { bsym: s, parts: Vec::new() });
                }
                self.nodes.push(Node { bsym: bsym.clone(), op: Some(op), extra });
            }
            Vjp::Through => {
                let mut parts = Vec::new();
                self.through(op, bsym, &mut parts)?;
                self.forward.push(ForwardStmt { bsym: bsym.clone(), parts });
            }
        }
        Ok(())
    }

    /// Lays out the parts of a composite; the inner values that it yields become its results.
    fn through(&mut self, op: &'static Op, bsym: &Bsym, parts: &mut Vec<Bsym>) -> Result<(), AutodiffError> {
        if matches!(op.level, Level::Prim) {
            return Err(AutodiffError::NoRule {
                op: op.name.into(),
                origin: origin(&self.trace, bsym).to_string(),
            });
        }
        let block = ops::build::decompose(&mut self.trace, bsym)
            .map_err(|e| AutodiffError::rule(op.name, origin(&self.trace, bsym), e))?
            .ok_or_else(|| AutodiffError::NoRule {
                op: op.name.into(),
                origin: origin(&self.trace, bsym).to_string(),
            })?;
        let rename = results_of(bsym, &block.yields);
        for stmt in block.body {
            let Stmt::Op(inner) = stmt else { continue };
            let inner = renamed(inner, &rename, bsym);
            if !self.uses_active(&inner) {
                parts.push(inner);
                continue;
            }
            let Some(inner_op) = ops::find(&inner.op) else { continue };
            if let Some(flow) = ops::Flow::of(inner_op, &inner.args) {
                parts.push(self.control(inner_op, &inner, &flow)?);
                continue;
            }
            match inner_op.vjp {
                Vjp::Zero | Vjp::NonDiff => parts.push(inner),
                Vjp::Rule(_) => {
                    self.activate(&inner);
                    self.nodes.push(Node { bsym: inner.clone(), op: Some(inner_op), extra: Vec::new() });
                    parts.push(inner);
                }
                Vjp::Augmented { forward, .. } => {
                    let (stmts, extra) = self.augmented(inner_op, &inner, forward)?;
                    self.activate(&inner);
                    parts.extend(stmts);
                    self.nodes.push(Node { bsym: inner, op: Some(inner_op), extra });
                }
                Vjp::Through => self.through(inner_op, &inner, parts)?,
            }
        }
        Ok(())
    }

    /// A call of control flow; gives the call that the forward makes.
    fn control(&mut self, op: &'static Op, bsym: &Bsym, flow: &ops::Flow) -> Result<Bsym, AutodiffError> {
        let (call, extra) = super::nested::forward(self, bsym, flow)?;
        self.activate(bsym);
        self.nodes.push(Node { bsym: bsym.clone(), op: Some(op), extra });
        Ok(call)
    }

    /// The statements of an augmented forward, which define the op's own results, and what it keeps beside.
    fn augmented(
        &mut self,
        op: &'static Op,
        bsym: &Bsym,
        forward: fn(&mut Builder<'_>, &Call) -> Result<ops::Augmented, OpError>,
    ) -> Result<(Vec<Bsym>, Vec<ValueId>), AutodiffError> {
        let at = origin(&self.trace, bsym);
        let fail = |e: OpError| AutodiffError::rule(op.name, &at, e);
        let mut call =
            Call::new(op.name, ops::table::schema_of(op), &self.trace, &bsym.args).map_err(fail)?;
        call.results = bsym.results.iter().map(|r| r.map(|v| self.trace.ty(v).clone())).collect();
        let prefix =
            bsym.defined().next().map_or_else(|| op.name.into(), |v| self.trace.value(v).name.clone());
        let mut b = Builder::nested(&mut self.trace, prefix);
        let augmented = forward(&mut b, &call).map_err(fail)?;
        let stmts = b.finish();
        let rename = results_of(bsym, &augmented.results);
        let stmts = stmts
            .into_iter()
            .filter_map(|s| if let Stmt::Op(b) = s { Some(renamed(b, &rename, bsym)) } else { None })
            .collect();
        let extra = augmented.extra.iter().map(|t: &Tensor| *rename.get(&t.id).unwrap_or(&t.id)).collect();
        Ok((stmts, extra))
    }

    fn uses_active(&self, bsym: &Bsym) -> bool {
        let mut any = false;
        bsym.for_each_use(&mut |v| any |= self.active.contains(&v));
        any
    }

    fn activate(&mut self, bsym: &Bsym) {
        for v in bsym.defined() {
            if self.trace.ty(v).tensor().is_some_and(|t| t.dtype.is_inexact()) {
                self.active.insert(v);
            }
        }
    }

    /// Bytes of a value: numbers count as 8; none where a size is not known.
    pub fn bytes(&self, v: ValueId) -> Option<u64> {
        match self.trace.ty(v).tensor() {
            None => Some(8),
            Some(t) => match t.numel() {
                Dim::Known(n) => u64::try_from(n).ok()?.checked_mul(t.dtype.size_bytes() as u64),
                Dim::Expr(_) => None,
            },
        }
    }
}

/// Inner values that stand for the results of `bsym`.
fn results_of(bsym: &Bsym, yields: &[Arg]) -> FxHashMap<ValueId, ValueId> {
    bsym.results.iter().zip(yields).filter_map(|(r, y)| Some((y.value()?, (*r)?))).collect()
}

fn renamed(mut inner: Bsym, rename: &FxHashMap<ValueId, ValueId>, outer: &Bsym) -> Bsym {
    let new = |v: ValueId| *rename.get(&v).unwrap_or(&v);
    for a in inner.args.iter_mut().chain(inner.named.iter_mut().map(|(_, a)| a)) {
        *a = a.map_values(&mut |v| Arg::Value(new(v)));
    }
    for r in inner.results.iter_mut().flatten() {
        *r = new(*r);
    }
    if inner.notes.is_empty() {
        inner.notes = outer.notes.clone();
    }
    inner
}
