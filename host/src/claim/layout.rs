//! Strides of values while claims are made: what is a view of what.
//!
//! Kernels' outputs count as contiguous; parameters have the strides of their file. Strides may be expressions where
//! sizes are known only at run time; the plan evaluates them again.

use crate::ir::{Arg, Bsym, Stmt};
use crate::ir::{Dim, Trace, ValueId};
use crate::ops::{self, Call, Level, OpError, Traits};
use rustc_hash::FxHashMap;

/// A value as strides over the memory of another (or of itself).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strided {
    /// Whose memory.
    pub base: ValueId,
    /// Strides in elements of the value's own dtype.
    pub strides: Vec<Dim>,
    /// Offset from the base's first element, in elements of the value's own dtype.
    pub offset: Dim,
}

/// Strides of all values that are not contiguous memory of their own.
#[derive(Clone, Debug, Default)]
pub struct Layouts {
    known: FxHashMap<ValueId, Strided>,
}

impl Layouts {
    /// How the value lies in memory.
    pub fn of(&self, trace: &Trace, v: ValueId) -> Strided {
        let Some(known) = self.known.get(&v) else {
            return Strided {
                base: v,
                strides: contiguous(trace.ty(v).tensor().map_or(&[][..], |t| &t.dims)),
                offset: Dim::Known(0),
            };
        };
        let mut strided = known.clone();
        // What the base was on record as has since turned out to lie, dense, in another's memory.
        while let Some(of_base) = self.known.get(&strided.base).filter(|s| s.base != strided.base) {
            let size = |v: ValueId| trace.ty(v).tensor().map_or(1, |t| t.dtype.size_bytes() as i64);
            let (own, base) = (size(v), size(strided.base));
            let moved = if own == base {
                of_base.offset.clone()
            } else {
                // An element size divides; where the quotient cannot be said, neither could the view be made.
                let bytes = of_base.offset.mul(&Dim::Known(base));
                bytes.floordiv(&Dim::Known(own)).unwrap_or(bytes)
            };
            strided.offset = strided.offset.add(&moved);
            strided.base = of_base.base;
        }
        strided
    }

    /// Takes a layout off the record: the value counts as memory of its own again.
    pub fn take(&mut self, v: ValueId) -> Option<Strided> {
        self.known.remove(&v)
    }

    /// Is the value a view of another's memory?
    pub fn is_view(&self, v: ValueId) -> bool {
        self.known.get(&v).is_some_and(|s| s.base != v)
    }

    /// Puts a layout on record.
    pub fn set(&mut self, v: ValueId, strided: Strided) {
        self.known.insert(v, strided);
    }

    /// If `bsym` is nothing but views of its first tensor, puts its results on record and says so. Composites that may
    /// be views are taken apart for the answer; their inner values leave no trace.
    pub fn try_view(&mut self, trace: &mut Trace, bsym: &Bsym) -> Result<bool, OpError> {
        let Some(op) = ops::find(&bsym.op) else { return Ok(false) };
        if !op.is(Traits::VIEW) {
            return Ok(false);
        }
        match &op.level {
            Level::Prim => self.view_prim(trace, op, bsym),
            Level::Composite(_) => self.view_composite(trace, bsym),
        }
    }

    fn view_prim(&mut self, trace: &Trace, op: &'static ops::Op, bsym: &Bsym) -> Result<bool, OpError> {
        let (Some(view), Some(result)) = (op.view, bsym.defined().next()) else { return Ok(false) };
        let call = Call::new(op.name, ops::table::schema_of(op), trace, &bsym.args)?;
        let Some(base) = call.all_tensors().into_iter().next() else { return Ok(false) };
        let from = self.of(trace, base.id);
        match view(&call, &from.strides, &from.offset) {
            Some((strides, offset)) => {
                self.set(result, Strided { base: from.base, strides, offset });
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn view_composite(&mut self, trace: &mut Trace, bsym: &Bsym) -> Result<bool, OpError> {
        let mark = trace.values.len();
        let Some(block) = ops::build::decompose(trace, bsym)? else { return Ok(false) };
        let mut all = true;
        for stmt in &block.body {
            let Stmt::Op(inner) = stmt else { continue };
            // Number ops of a decomposition are neutral.
            let neutral = ops::find(&inner.op).is_some_and(|o| o.is(Traits::HOST) && !o.is(Traits::EFFECT));
            if !neutral && !self.try_view(trace, inner)? {
                all = false;
                break;
            }
        }
        let all = all && block.yields.iter().all(|y| matches!(y, Arg::Value(_)));
        if all {
            for (result, inner) in bsym.results.iter().zip(&block.yields) {
                if let (Some(result), Some(inner)) = (result, inner.value()) {
                    let strided = self.of(trace, inner);
                    self.set(*result, strided);
                }
            }
        }
        if bsym.block.is_none() {
            for inner in mark..trace.values.len() {
                self.known.remove(&ValueId(inner as u32));
            }
            trace.values.truncate(mark);
        }
        Ok(all)
    }
}

/// Strides of dense row-major dims.
pub fn contiguous(dims: &[Dim]) -> Vec<Dim> {
    let mut strides = vec![Dim::Known(1); dims.len()];
    for i in (0..dims.len().saturating_sub(1)).rev() {
        let d = if dims[i + 1].is(0) { Dim::Known(1) } else { dims[i + 1].clone() };
        strides[i] = strides[i + 1].mul(&d);
    }
    strides
}
