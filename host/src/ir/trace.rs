//! Traces and modules.

use super::{Arg, Bsym, Name, Stmt, Symbol, Type};

/// Index of a value in its trace's table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A named, typed value. Names are unique among the values that can be seen from one place.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// Without the `%`.
    pub name: Name,
    /// What is known of it.
    pub ty: Type,
}

/// Where a program stands on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Stage {
    /// As the front end made it.
    Acquired,
    /// Augmented forward.
    Forward,
    /// Backward.
    Backward,
    /// Executors are known.
    Claimed,
    /// Scheduled.
    Execution,
}

impl Stage {
    /// All, in order.
    pub const ALL: [Stage; 5] =
        [Stage::Acquired, Stage::Forward, Stage::Backward, Stage::Claimed, Stage::Execution];

    /// The word of the trace format.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Acquired => "acquired",
            Stage::Forward => "forward",
            Stage::Backward => "backward",
            Stage::Claimed => "claimed",
            Stage::Execution => "execution",
        }
    }
}

/// What a parameter of a trace is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum RoleKind {
    /// Given by the caller.
    Input,
    /// Given by the caller, written by the program; the new value comes back.
    Inout,
    /// A parameter of the model.
    Param,
    /// A buffer that is only read.
    Buffer,
    /// A buffer that the program writes.
    State,
    /// A tensor constant.
    Const,
    /// Saved by the forward for this backward.
    Saved,
    /// The gradient of an output.
    Cotangent,
    /// An operand of a nested trace.
    Operand,
}

impl RoleKind {
    /// All of them.
    pub const ALL: [RoleKind; 9] = [
        RoleKind::Input,
        RoleKind::Inout,
        RoleKind::Param,
        RoleKind::Buffer,
        RoleKind::State,
        RoleKind::Const,
        RoleKind::Saved,
        RoleKind::Cotangent,
        RoleKind::Operand,
    ];

    /// The word of the trace format.
    pub fn name(self) -> &'static str {
        match self {
            RoleKind::Input => "input",
            RoleKind::Inout => "inout",
            RoleKind::Param => "param",
            RoleKind::Buffer => "buffer",
            RoleKind::State => "state",
            RoleKind::Const => "const",
            RoleKind::Saved => "saved",
            RoleKind::Cotangent => "cotangent",
            RoleKind::Operand => "operand",
        }
    }

    /// Does the user's name for it stand behind the word?
    pub fn has_name(self) -> bool {
        !matches!(self, RoleKind::Saved | RoleKind::Operand)
    }
}

/// Role of a parameter with the name under which users know it.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Role {
    /// What it is.
    pub kind: RoleKind,
    /// `in0`, `out0`, or the FQN in the model file; none for `saved` and `operand`.
    pub name: Option<Name>,
    /// No gradient unless asked for by name, never trained.
    pub frozen: bool,
}

/// A parameter of a trace.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Param {
    /// Its value.
    pub value: super::ValueId,
    /// What it is.
    pub role: Role,
}

/// One output: a value or a literal, with its user name (none in nested traces).
#[derive(Clone, PartialEq, Debug)]
pub struct Output {
    /// What is returned.
    pub value: Arg,
    /// `out0`, or the parameter's name for a gradient.
    pub name: Option<Name>,
}

/// A program, or a nested trace of one.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// `forward`, `backward`, `branch_0`.
    pub name: Name,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Stage.
    pub stage: Stage,
    /// Name of the model.
    pub model: Option<Name>,
    /// Statements in order.
    pub body: Vec<Stmt>,
    /// What is returned.
    pub outputs: Vec<Output>,
    /// What the backward takes, in its order.
    pub save: Vec<ValueId>,
    /// All values, those of nested blocks included.
    pub values: Vec<Value>,
}

impl Trace {
    /// An empty trace.
    pub fn new(name: impl Into<Name>, stage: Stage) -> Trace {
        Trace {
            name: name.into(),
            params: Vec::new(),
            stage,
            model: None,
            body: Vec::new(),
            outputs: Vec::new(),
            save: Vec::new(),
            values: Vec::new(),
        }
    }

    /// The value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// The type of a value.
    pub fn ty(&self, id: ValueId) -> &Type {
        &self.values[id.index()].ty
    }

    /// Adds a value to the table. The caller answers for the name being new where it can be seen.
    pub fn add_value(&mut self, name: impl Into<Name>, ty: Type) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).expect("a trace has fewer than 2^32 values"));
        self.values.push(Value { name: name.into(), ty });
        id
    }

    /// The top-level calls in order.
    pub fn ops(&self) -> impl Iterator<Item = &Bsym> {
        self.body.iter().filter_map(Stmt::op)
    }
}

/// `dim s0 in 1..64 step 2`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SymDecl {
    /// The symbol.
    pub symbol: Symbol,
    /// Lowest value.
    pub low: i64,
    /// Highest value, inclusive; none: open.
    pub high: Option<i64>,
    /// Values are multiples of it; 1: any.
    pub step: i64,
}

/// A trace file: symbols and traces; the first trace is the one that runs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Module {
    /// Declared symbols.
    pub dims: Vec<SymDecl>,
    /// `forward` (and `backward`), then nested traces.
    pub traces: Vec<Trace>,
}

impl Module {
    /// The trace of that name.
    pub fn trace(&self, name: &str) -> Option<&Trace> {
        self.traces.iter().find(|t| &*t.name == name)
    }
}

/// Where a call stands, for messages: the model's node where it is noted, else the name of the first result.
pub fn origin(trace: &Trace, bsym: &Bsym) -> Name {
    match bsym.note("node") {
        Some(Arg::Str(node)) => node.clone(),
        _ => bsym.defined().next().map_or_else(|| bsym.op.clone(), |v| trace.value(v).name.clone()),
    }
}
