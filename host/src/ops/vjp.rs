//! What a gradient rule sees and says.
//!
//! A rule is stated on the call's inputs, its results, and what an augmented forward kept; it emits the gradients of
//! the tensor arguments through the same builder as everything else. Which of the values it uses are saved and which
//! are computed again is the min-cut's business, not the rule's.

use super::build::{Builder, Tensor};
use super::call::Call;
use super::error::OpError;
use crate::ir::Arg;

/// How an op is differentiated.
#[derive(Clone, Copy)]
pub enum Vjp {
    /// Through its decomposition (composites only).
    Through,
    /// By a rule on inputs and results.
    Rule(VjpRule),
    /// By a rule that wants more than inputs and results: the forward is replaced by one that gives it.
    Augmented {
        /// Emits the forward; same results as the op, and what the backward wants beside.
        forward: fn(&mut Builder<'_>, &Call) -> Result<Augmented, OpError>,
        /// The rule; `Grad::extra` has what the forward kept.
        backward: VjpRule,
    },
    /// The gradient is zero; no error (`floor`, `sign`, `detach`).
    Zero,
    /// There is none: integer or bool results, or nothing that a gradient could mean.
    NonDiff,
}

/// Emits the gradients, one for each of [`Grad::tensors`], none where that input gets none.
pub type VjpRule = fn(&mut Builder<'_>, &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError>;

/// What an augmented forward gives.
pub struct Augmented {
    /// The op's own results.
    pub results: Vec<Arg>,
    /// What the backward wants beside.
    pub extra: Vec<Tensor>,
}

/// A call that is differentiated.
pub struct Grad<'a> {
    /// The call: arguments by name.
    pub call: &'a Call,
    /// Its tensor results in order; none: absent, or a number.
    pub outputs: &'a [Option<Tensor>],
    /// What the augmented forward kept.
    pub extra: &'a [Tensor],
    /// Cotangents of the results; none: nobody uses that result (count it as zero). Dims and dtype of the result.
    pub cotangents: &'a [Option<Tensor>],
    /// For each of [`Grad::tensors`]: does anybody want its gradient?
    pub wanted: &'a [bool],
}

impl Grad<'_> {
    /// The tensor arguments whose gradients are asked, in schema order, lists flattened, gaps left out.
    pub fn tensors(&self) -> Vec<Tensor> {
        self.call.all_tensors()
    }

    /// A result.
    pub fn output(&self, index: usize) -> Result<Tensor, OpError> {
        self.outputs
            .get(index)
            .cloned()
            .flatten()
            .ok_or_else(|| self.call.error(format!("its rule wants result {index}, which is absent")))
    }

    /// The cotangent of a result; none: zero.
    pub fn cotangent(&self, index: usize) -> Option<Tensor> {
        self.cotangents.get(index).cloned().flatten()
    }

    /// The cotangent of the only result. Rules of ops with one result are called only when there is one.
    pub fn g(&self) -> Result<Tensor, OpError> {
        self.cotangent(0).ok_or_else(|| self.call.error("its rule was asked without a cotangent"))
    }

    /// Is the gradient of tensor argument `index` (of [`Grad::tensors`]) wanted?
    pub fn wants(&self, index: usize) -> bool {
        self.wanted.get(index).copied().unwrap_or(false)
    }
}
