//! The intermediate representation: traces of bound symbols over proxies, as plain values.
//!
//! Invariants: a trace is in SSA form and functional (the only write is `prims.copy_`, at the end); everything here is
//! data that prints and parses back (`text`). Deliberately absent: op names, ABI types, files. What an op *means* is
//! the op table's business (`ops`); this room only carries calls of it.

pub mod arg;
pub mod bsym;
pub mod dim;
pub mod dtype;
pub mod fault;
pub mod nearest;
pub mod proxy;
pub mod renumber;
pub mod schema;
pub mod text;
pub mod trace;
pub mod verify;

pub use arg::Arg;
pub use bsym::{Block, Bsym, Notes, Stmt, Who};
pub use dim::{Dim, SymKind, Symbol};
pub use dtype::{Device, Dtype};
pub use fault::{Fault, Faults};
pub use proxy::{NumKind, NumberType, TensorType, Type};
pub use schema::{NoSchemas, Param, ParamBase, ParamType, Schema, Schemas};
pub use trace::{Module, Output, Param as TraceParam, Role, RoleKind, Stage, SymDecl, Trace, Value, ValueId};

/// A shared, cheaply cloned name (of an op, a value, an argument).
pub type Name = std::sync::Arc<str>;
