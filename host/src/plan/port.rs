//! What planning and running want from an executor: kernels.

use crate::claim::{Claimant, OpSpec};
use crate::ir::Dtype;
use crate::lower::{Lowering, RegionSpec};
use crate::memory::{Operand, Tensor};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// An executor that makes kernels for the ops it has taken.
pub trait KernelMaker: Claimant {
    /// A kernel for `op`, whose dims and strides are known. `constant` gives the data behind a constant's id.
    fn make(&self, op: &OpSpec, constant: &dyn Fn(u64) -> Option<Constant>)
    -> Result<Arc<dyn Kernel>, Fault>;

    /// Gives `region`, whose dims and strides are known, its steps. A fault of kind `Unsupported` releases its ops. Only
    /// fusion executors are asked.
    fn lower(
        &self,
        region: &mut Lowering<'_, '_, Arc<dyn Kernel>>,
        constant: &dyn Fn(u64) -> Option<Constant>,
    ) -> Result<(), Fault> {
        let _ = constant;
        let name = region.region().name.to_string();
        Err(self.fault(&name, &name, FaultKind::Unsupported, "it makes no regions".to_owned()))
    }

    /// Which parts of `region` it would rather have, by the numbers of its ops; none: as it is. Never trusted.
    fn propose(&self, region: &RegionSpec) -> Result<Option<Vec<Vec<u32>>>, Fault> {
        let _ = region;
        Ok(None)
    }

    /// A fault of this executor that the host has found.
    fn fault(&self, op: &str, origin: &str, kind: FaultKind, message: String) -> Fault {
        Fault {
            executor: self.name().into(),
            plugin: self.name().into(),
            op: op.into(),
            origin: origin.into(),
            kind,
            message: message.into(),
        }
    }
}

/// A parameter, buffer or constant as a kernel may read it when it is made.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Its elements.
    pub operand: Operand,
    /// One up at each write.
    pub version: u64,
}

/// A kernel: immutable, may run in several places at once.
pub trait Kernel: Send + Sync {
    /// What the plan must know.
    fn info(&self) -> &KernelInfo;

    /// The kernel with its arguments in place, for one user at a time.
    fn bind(self: Arc<Self>, io: &Io) -> Result<Box<dyn Bound>, Fault>;
}

/// What a kernel says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelInfo {
    /// Scratch bytes of a run.
    pub workspace_bytes: usize,
    /// (output, input) that may lie in the same memory.
    pub in_place: Vec<(usize, usize)>,
    /// Right for other sizes of the same op, too.
    pub size_independent: bool,
    /// Strides in elements of outputs that are not dense row-major.
    pub output_strides: Vec<(usize, Vec<i64>)>,
}

/// The operands of a bound kernel.
#[derive(Clone, Debug)]
pub struct Io {
    /// In the order of the spec's inputs.
    pub inputs: Vec<(Dtype, Operand)>,
    /// In the order of the spec's outputs; none: the kernel asks for its memory when it knows the size.
    pub outputs: Vec<(Dtype, Option<Operand>)>,
    /// Ids and versions of inputs that are constants; 0: none.
    pub constants: Vec<(u64, u64)>,
    /// Scratch.
    pub workspace: Option<Operand>,
    /// Kinds of the numbers, by slot.
    pub n_numbers: usize,
}

/// A number given to a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// i64.
    Int(i64),
    /// f64.
    Float(f64),
    /// A bool.
    Bool(bool),
}

/// Something that runs chunks, perhaps on several threads.
pub trait Parallel: Send + Sync {
    /// Calls `f` once with each of `0..n_chunks` and returns when all are done. Which thread takes which chunk is not
    /// defined; at most `threads` take part, this one included.
    fn parallel_for(&self, threads: usize, n_chunks: usize, f: &(dyn Fn(usize) + Sync));
}

/// What a run of a kernel may use of the host.
pub struct RunContext<'a> {
    /// Threads it may use, this one included.
    pub threads: usize,
    /// The host's pool.
    pub pool: &'a dyn Parallel,
    /// Set when the run should stop.
    pub cancel: &'a AtomicBool,
}

/// A kernel with its arguments.
pub trait Bound: Send {
    /// Another place for an input, with the same dims and strides; takes effect at the next run.
    fn set_input(&mut self, index: usize, operand: &Operand, version: u64);

    /// Another place for an output.
    fn set_output(&mut self, index: usize, operand: &Operand);

    /// The value of a number for the next run.
    fn set_number(&mut self, slot: usize, number: Number);

    /// Runs.
    fn run(&mut self, context: &RunContext<'_>) -> Result<(), Fault>;

    /// The tensor that the last run asked the host for, for an output without memory.
    fn take_allocated(&mut self, index: usize) -> Option<Tensor>;
}

/// A plugin's failure. Small, since it is in the result of everything that may call a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The executor.
    pub executor: Box<str>,
    /// Plugin id and version.
    pub plugin: Box<str>,
    /// The op.
    pub op: Box<str>,
    /// Where it stands in the model.
    pub origin: Box<str>,
    /// What kind of failure.
    pub kind: FaultKind,
    /// The plugin's words, or what the host found wrong with its answer.
    pub message: Box<str>,
}

/// Kinds of failures, as the ABI's status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Arguments that it does not take.
    InvalidArgument,
    /// Not supported after all.
    Unsupported,
    /// No memory.
    OutOfMemory,
    /// Something that it needs is not there.
    Unavailable,
    /// Another version is needed.
    Version,
    /// Its own error.
    Internal,
    /// It panicked and is quarantined.
    Panic,
    /// Took too long.
    Timeout,
    /// The run was cancelled.
    Cancelled,
    /// An answer that cannot be right.
    BadAnswer,
    /// The data of the run cannot be worked on: nobody's fault but the data's.
    BadData,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Fault { executor, plugin, op, origin, kind, message } = self;
        match kind {
            FaultKind::BadData => write!(f, "`{op}` ({origin}) cannot work on its inputs: {message}"),
            _ => write!(f, "{executor} ({plugin}) failed at `{op}` ({origin}): {message}"),
        }
    }
}

impl std::error::Error for Fault {}

impl FaultKind {
    /// The stable code of the failure.
    pub fn code(self) -> &'static str {
        match self {
            FaultKind::InvalidArgument => "run::invalid_argument",
            FaultKind::Unsupported => "run::unsupported",
            FaultKind::OutOfMemory => "run::out_of_memory",
            FaultKind::Unavailable => "run::unavailable",
            FaultKind::Version => "run::version",
            FaultKind::Internal => "run::plugin_failed",
            FaultKind::Panic => "run::plugin_panicked",
            FaultKind::Timeout => "run::timeout",
            FaultKind::Cancelled => "run::cancelled",
            FaultKind::BadAnswer => "run::bad_answer",
            FaultKind::BadData => "run::bad_data",
        }
    }
}

impl miette::Diagnostic for Fault {
    fn code<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        Some(Box::new(self.kind.code()))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        Some(match self.kind {
            FaultKind::OutOfMemory => Box::new("use smaller inputs, or another executor"),
            FaultKind::Cancelled => Box::new("the run was stopped from outside"),
            FaultKind::BadData => Box::new(format!(
                "look at the integers among the inputs (indices, labels, targets, divisors); `{}` found this, and any executor would",
                self.executor
            )),
            _ => Box::new(format!(
                "report it to the author of {}; meanwhile `deny = [\"{}\"]` under [executor.{}] leaves the op to others",
                self.plugin, self.op, self.executor
            )),
        })
    }
}
