//! The op table: one declarative entry an op, everything else is derived from it.
//!
//! A family a file, `prims.*` and `torch.*` together; each file starts with its list `OPS`. Rooms never match on an
//! op's name: what a pass must know of an op is a field here. Deliberately absent: executors and kernels.

pub mod aten;
pub mod aten_schema;
pub mod build;
pub mod call;
pub mod check;
pub mod emit;
pub mod error;
pub mod meta;
pub mod samples;
pub mod table;
pub mod vjp;

pub mod arith;
pub mod import;

pub mod activation;
pub mod analysis;
mod antialias;
pub mod arrange;
pub mod attention;
pub mod control;
pub mod conv;
pub mod creation;
pub mod distributions;
mod einsum;
pub mod factorise;
pub mod fft;
mod grid_sample;
pub mod indexing;
pub mod linalg;
pub mod loss;
pub mod margin;
pub mod memory;
pub mod norm;
pub mod number;
pub mod objective;
pub mod optim;
pub mod patterns;
pub mod pointwise;
pub mod pool;
pub mod products;
pub mod random;
pub mod recurrent;
pub mod reduction;
pub mod resample;
pub mod rounding;
pub mod scan;
pub mod selection;
pub mod shape;
pub mod statistics;
pub mod strided;
pub mod subscript;

#[cfg(test)]
mod tests;

pub use aten::{Aten, AtenArg, AtenCall, Import};
pub use build::{Builder, Num, Operand, Tensor};
pub use call::Call;
pub use control::{Flow, Nested};
pub use error::OpError;
pub use samples::{Fill, Sample, SampleArg, SampleTensor};
pub use table::{aten_owner, find, schemas, table};
pub use vjp::{Augmented, Grad, Vjp};

use crate::ir::{Arg, Dim, Type};

/// An op: the one place where it is described.
pub struct Op {
    /// `prims.exp`, `torch.softmax`, `num.add`.
    pub name: &'static str,
    /// One sentence or two for the docs table: meaning, corners, source of a formula.
    pub doc: &'static str,
    /// Signature in the notation of the op list (`ir::schema`).
    pub schema: &'static str,
    /// Prim, or composite with its decomposition.
    pub level: Level,
    /// Types of the results.
    pub meta: Meta,
    /// How it is differentiated.
    pub vjp: Vjp,
    /// What passes and claims must know of it.
    pub traits: Traits,
    /// How a view prim maps strides; only with [`Traits::VIEW`] prims.
    pub view: Option<ViewFn>,
    /// What the host itself does for it; only with [`Traits::HOST`].
    pub host: Option<HostOp>,
    /// For prims that are no views (those tell it by their strides): when a call does nothing.
    pub same: Option<SameFn>,
    /// The ATen overloads that become this op.
    pub aten: &'static [Aten],
    /// Sample calls for the conformance suite; at least one.
    pub samples: &'static [Sample],
}

/// What an entry leaves out: `..Op::BASE`.
impl Op {
    /// A prim without traits, overloads or samples; entries say what differs.
    pub const BASE: Op = Op {
        name: "",
        doc: "",
        schema: "",
        level: Level::Prim,
        meta: Meta::FromDecomposition,
        vjp: Vjp::Through,
        traits: Traits::NONE,
        view: None,
        host: None,
        same: None,
        aten: &[],
        samples: &[],
    };

    /// Has it all these traits?
    pub fn is(&self, traits: Traits) -> bool {
        self.traits.0 & traits.0 == traits.0
    }

    /// Has it one of these traits, or more?
    pub fn has_any(&self, traits: Traits) -> bool {
        self.traits.0 & traits.0 != 0
    }
}

/// Whether an op is taken apart when nobody claims it.
pub enum Level {
    /// No decomposition: `reference` has a kernel of this name (or the host itself does it).
    Prim,
    /// Made of other ops: emits them and gives what they yield, one for each result.
    Composite(Decompose),
}

/// A decomposition. It may be asked with symbolic dims; it emits through the builder, which infers every type.
pub type Decompose = fn(&mut Builder<'_>, &Call) -> Result<Vec<Arg>, OpError>;

/// The types of the results of a call.
pub enum Meta {
    /// Worked out by this function. `None` in the list: that result is absent.
    Fn(fn(&Call) -> Result<Vec<Option<Type>>, OpError>),
    /// Those of the decomposition (composites only).
    FromDecomposition,
}

/// Strides and offset (in elements) of a view's result, from the call (its `Call::tensor(0)` is the base) and the
/// strides and offset of the base; none where strides cannot say it (a reshape that must copy).
pub type ViewFn = fn(&Call, &[Dim], &Dim) -> Option<(Vec<Dim>, Dim)>;

/// The argument that the call's only result equals, where the call does nothing but pass it on. Such calls are folded
/// away where no gradient is wanted (a rule may give a value another gradient).
pub type SameFn = fn(&Call) -> Option<Arg>;

/// What the host does itself, without an executor.
#[derive(Clone, Copy)]
pub enum HostOp {
    /// Works out a number from known ones: folding, and at run time.
    Number(fn(&[Num]) -> Result<Num, OpError>),
    /// Reads the one element of a tensor as a number.
    Item,
    /// Seed and offset of the session's random stream, which moves on.
    NextPhilox,
    /// Stops the run, with the message, unless the condition holds.
    Check,
    /// Runs nested traces: control flow.
    Nested(Nested),
    /// Only text; nothing is done.
    Text,
}

/// A set of facts about an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traits(pub u32);

impl Traits {
    /// No fact.
    pub const NONE: Traits = Traits(0);
    /// Element i of each result depends on element i of the inputs only.
    pub const POINTWISE: Traits = Traits(1);
    /// For prims: the result is the first tensor's memory seen with other strides, wherever strides suffice.
    /// For composites: may be nothing but views; then the host has it before any executor is asked.
    pub const VIEW: Traits = Traits(1 << 1);
    /// Both operands may change places.
    pub const COMMUTATIVE: Traits = Traits(1 << 2);
    /// Cheap enough to compute again rather than save.
    pub const CHEAP: Traits = Traits(1 << 3);
    /// Has an effect beyond its results (`copy_`, `check`, `next_philox`): never removed, merged or moved across another.
    pub const EFFECT: Traits = Traits(1 << 4);
    /// The host does it itself; no executor is asked (numbers, checks on numbers, `next_philox`).
    pub const HOST: Traits = Traits(1 << 5);
    /// Result sizes are known only when it has run.
    pub const DATA_SIZED: Traits = Traits(1 << 6);
    /// Draws random numbers from the seed and offset that it is given.
    pub const RANDOM: Traits = Traits(1 << 7);
    /// Several inputs may meet in one element of the result (accumulating scatter): order matters.
    pub const ACCUMULATES: Traits = Traits(1 << 8);

    /// Writes its last tensor argument, a parameter of the trace: `copy_`. The host carries it out when a run succeeds.
    pub const WRITES: Traits = Traits(1 << 9);

    /// Both sets together.
    pub const fn and(self, other: Traits) -> Traits {
        Traits(self.0 | other.0)
    }
}
