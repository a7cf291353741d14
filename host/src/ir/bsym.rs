//! Bound symbols: one call of one op, with its results, and once known its decomposition and its executor.

use super::{Arg, Name, ValueId};

/// Who runs a bound symbol: the executor that claimed it and, in a region, the one it was handed on to.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Who {
    /// The claimant (`host` for views).
    pub executor: Name,
    /// Who runs it instead.
    pub delegate: Option<Name>,
}

/// Notes travel with a symbol and never change its meaning: `node`, `src`, `recompute`, ….
pub type Notes = Vec<(Name, Arg)>;

/// One call.
#[derive(Clone, PartialEq, Debug)]
pub struct Bsym {
    /// `torch.softmax`, `prims.exp`, `aten.foo.default`, `FullFusion0`.
    pub op: Name,
    /// Arguments. For an op with a schema: all of them in its order, defaults filled in, absent ones `Arg::None`.
    /// For any other op: the positional ones.
    pub args: Vec<Arg>,
    /// Arguments by name, for ops without a schema only.
    pub named: Vec<(Name, Arg)>,
    /// Results in order, lists flattened; none: absent (printed `_`).
    pub results: Vec<Option<ValueId>>,
    /// The decomposition, or the content of a region. Absent: the op table's decomposition is meant.
    pub block: Option<Box<Block>>,
    /// Who runs it, once claimed.
    pub who: Option<Who>,
    /// Provenance and hints.
    pub notes: Notes,
}

impl Bsym {
    /// A call that nobody has claimed, without notes.
    pub fn new(op: impl Into<Name>, args: Vec<Arg>, results: Vec<Option<ValueId>>) -> Bsym {
        Bsym { op: op.into(), args, named: Vec::new(), results, block: None, who: None, notes: Vec::new() }
    }

    /// Calls `f` with each value that the arguments use, in order.
    pub fn for_each_use(&self, f: &mut dyn FnMut(ValueId)) {
        self.args.iter().for_each(|a| a.for_each_value(f));
        self.named.iter().for_each(|(_, a)| a.for_each_value(f));
    }

    /// The results that are present.
    pub fn defined(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.results.iter().filter_map(|r| *r)
    }

    /// The note of that name.
    pub fn note(&self, key: &str) -> Option<&Arg> {
        self.notes.iter().find(|(k, _)| &**k == key).map(|(_, v)| v)
    }
}

/// Nested statements and what they yield: as many as the statement has results.
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// Statements in order.
    pub body: Vec<Stmt>,
    /// One for each result; `Arg::None` for an absent one.
    pub yields: Vec<Arg>,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Stmt {
    /// A call.
    Op(Bsym),
    /// `del`: the end of lifetimes, in execution traces only.
    Del(Vec<ValueId>),
}

impl Stmt {
    /// The call, if it is one.
    pub fn op(&self) -> Option<&Bsym> {
        match self {
            Stmt::Op(b) => Some(b),
            Stmt::Del(_) => None,
        }
    }
}
