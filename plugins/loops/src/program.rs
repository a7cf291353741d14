//! What comes out of the compiler, and how it is run: programs, kernels, views of memory, errors.

use crate::exec::{self, Operands};
use crate::fuse::{self, Groups};
use crate::graph::{Dtype, Graph, NodeId, Prim, Scalar, TensorType, ValueId};
use crate::lower::{self, Loop};
use crate::micro::{self, Table};
use crate::work::{self, Work};
use crate::{emit, meta};
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use thiserror::Error;

/// How to compile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The instructions that kernels use at most; `None`: the best that this machine has.
    pub isa: Option<Isa>,
}

/// Sets of vector instructions that micro-kernels exist for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What every processor of the target has.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL.
    Avx512,
}

/// A node that no kernel can be made of.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("node {}: {reason}", node.0)]
pub struct Unsupported {
    /// Which.
    pub node: NodeId,
    /// Why.
    pub reason: String,
}

/// Why a run failed. Outputs are then unspecified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lists that a run was given are not as long as the kernel's.
    #[error("{found} {what} for a kernel that has {expected}")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A view is too small or not aligned to its elements.
    #[error("{what} {at} has {bytes} bytes or is not aligned; {expected} bytes are needed")]
    View {
        /// `input` or `output`.
        what: &'static str,
        /// Which.
        at: usize,
        /// Its size.
        bytes: usize,
        /// What the kernel reads or writes.
        expected: usize,
    },
    /// An index that is data lies outside its axis.
    #[error("index {index} is out of range for an axis of size {size}")]
    Index {
        /// The index.
        index: i64,
        /// The size of the axis.
        size: usize,
    },
    /// An integer is divided by zero.
    #[error("an integer is divided by zero")]
    DividedByZero,
}

/// Somebody who runs chunks, perhaps on several threads.
pub trait Parallel: Sync {
    /// How many threads may take part; 1 keeps everything on the caller's.
    fn threads(&self) -> usize;

    /// Calls `f(0)` to `f(chunks - 1)`, each once, in any order, perhaps at once, and returns when all are done.
    fn for_each(&self, chunks: usize, f: &(dyn Fn(usize) + Sync));
}

/// Runs everything on the calling thread.
pub struct Serial;

impl Parallel for Serial {
    fn threads(&self) -> usize {
        1
    }

    fn for_each(&self, chunks: usize, f: &(dyn Fn(usize) + Sync)) {
        (0..chunks).for_each(f);
    }
}

/// Memory that a kernel reads: from the element of index zero on, as far as its strides reach.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub(crate) data: *const u8,
    pub(crate) bytes: usize,
    memory: PhantomData<&'a [u8]>,
}

/// Memory that a kernel writes, from the element of index zero on.
pub struct ViewMut<'a> {
    pub(crate) data: *mut u8,
    pub(crate) bytes: usize,
    memory: PhantomData<&'a mut [u8]>,
}

/// Element types in Rust that views are made of.
pub trait Element: Copy {}
impl Element for u8 {}
impl Element for i8 {}
impl Element for i16 {}
impl Element for i32 {}
impl Element for i64 {}
impl Element for u16 {}
impl Element for u32 {}
impl Element for f32 {}
impl Element for f64 {}
impl Element for half::f16 {}
impl Element for half::bf16 {}

impl<'a> View<'a> {
    /// Of a slice; a bool is a `u8`.
    pub fn of<T: Element>(elements: &'a [T]) -> View<'a> {
        View { data: elements.as_ptr().cast(), bytes: size_of_val(elements), memory: PhantomData }
    }

    /// Of raw memory.
    ///
    /// # Safety
    /// For `'a`, `bytes` bytes from `data` on are initialised, readable, and written by nobody.
    #[allow(unsafe_code)]
    pub unsafe fn from_raw(data: *const u8, bytes: usize) -> View<'a> {
        View { data, bytes, memory: PhantomData }
    }
}

impl<'a> ViewMut<'a> {
    /// Of a slice; a bool is a `u8`.
    pub fn of<T: Element>(elements: &'a mut [T]) -> ViewMut<'a> {
        ViewMut { bytes: size_of_val(elements), data: elements.as_mut_ptr().cast(), memory: PhantomData }
    }

    /// Of raw memory.
    ///
    /// # Safety
    /// For `'a`, `bytes` bytes from `data` on are writable, and read or written through this view only.
    #[allow(unsafe_code)]
    pub unsafe fn from_raw(data: *mut u8, bytes: usize) -> ViewMut<'a> {
        ViewMut { data, bytes, memory: PhantomData }
    }
}

/// A compiled graph.
pub struct Program {
    steps: Vec<Step>,
    temporaries: Vec<ValueId>,
    types: Vec<TensorType>,
}

/// One step of a program.
pub enum Step {
    /// A kernel of this crate.
    Kernel(Kernel),
    /// A node that somebody else computes.
    Extern(NodeId),
}

impl Program {
    /// Steps in the order in which they must run.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The steps themselves, for those who keep kernels elsewhere.
    pub fn into_steps(self) -> Vec<Step> {
        self.steps
    }

    /// Values that some kernel writes and that are no outputs of the graph; row-major, in the order they are written. Some
    /// may be none of the graph's own: the compiler takes long folds and variances apart.
    pub fn temporaries(&self) -> &[ValueId] {
        &self.temporaries
    }

    /// Dims and dtype of any value that a step names.
    pub fn ty(&self, value: ValueId) -> &TensorType {
        &self.types[value.at()]
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match step {
                Step::Kernel(kernel) => write!(f, "{kernel}")?,
                Step::Extern(node) => writeln!(f, "extern node {}", node.0)?,
            }
        }
        Ok(())
    }
}

/// A fused loop. Immutable; runs may overlap.
pub struct Kernel {
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    /// Bytes and alignment (a power of two) that each view must have.
    input_needs: Vec<(usize, usize)>,
    output_needs: Vec<(usize, usize)>,
    n_slots: usize,
    loops: Vec<Loop>,
    isa: Isa,
    table: &'static Table,
}

impl Kernel {
    /// Values it reads: inputs of the graph (with their strides), results of extern nodes, outputs of earlier kernels.
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// Values it writes, row-major.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// How many numbers a run must give at least: one more than the highest slot that it reads.
    pub fn n_slots(&self) -> usize {
        self.n_slots
    }

    /// The instructions its micro-kernels use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Bytes that a view of each input must have.
    pub fn input_bytes(&self) -> impl Iterator<Item = usize> + '_ {
        self.input_needs.iter().map(|(bytes, _)| *bytes)
    }

    /// Runs it on a view of each of [`Kernel::inputs`] and [`Kernel::outputs`], with the numbers of the graph's slots.
    pub fn run(
        &self,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        numbers: &[Scalar],
        parallel: &dyn Parallel,
    ) -> Result<(), RunError> {
        count("inputs", inputs.len(), self.inputs.len())?;
        count("outputs", outputs.len(), self.outputs.len())?;
        if numbers.len() < self.n_slots {
            count("numbers", numbers.len(), self.n_slots)?;
        }
        for (at, (view, need)) in inputs.iter().zip(&self.input_needs).enumerate() {
            fits("input", at, view.data, view.bytes, *need)?;
        }
        for (at, (view, need)) in outputs.iter().zip(&self.output_needs).enumerate() {
            fits("output", at, view.data, view.bytes, *need)?;
        }
        let operands = Operands { inputs, outputs, numbers };
        self.loops.iter().try_for_each(|looped| looped.run(self.table, &operands, parallel))
    }
}

fn count(what: &'static str, found: usize, expected: usize) -> Result<(), RunError> {
    if found == expected { Ok(()) } else { Err(RunError::Count { what, found, expected }) }
}

fn fits(
    what: &'static str,
    at: usize,
    data: *const u8,
    bytes: usize,
    (expected, align): (usize, usize),
) -> Result<(), RunError> {
    if bytes >= expected && data.addr() & (align - 1) == 0 {
        Ok(())
    } else {
        Err(RunError::View { what, at, bytes, expected })
    }
}

/// Whether loops take a prim on tensors of these dtypes, and why not. (Dims are checked by [`Graph::push`].)
pub fn supports(prim: &Prim, dtypes: &[Dtype]) -> Result<(), String> {
    work::supports(prim)?;
    let first = dtypes.first().copied();
    let check = |f: &dyn Fn(Dtype) -> Result<(), String>| first.map_or(Ok(()), f);
    match prim {
        Prim::Unary(op) => check(&|dtype| meta::supports_unary(*op, dtype)),
        Prim::Binary(op) => check(&|dtype| meta::supports_binary(*op, dtype)),
        Prim::Ternary(op) => check(&|dtype| meta::supports_ternary(*op, dtype)),
        Prim::Reduce { op, .. } => check(&|dtype| meta::supports_reduce(*op, dtype)),
        Prim::Var(_) | Prim::VarMean(_) => {
            check(&|dtype| if dtype.is_float() { Ok(()) } else { Err(format!("does not take {dtype}")) })
        }
        Prim::Uniform(ty) if !ty.dtype.is_float() => Err(format!("draws {}", ty.dtype)),
        Prim::Extern(_) => Err("somebody else's".into()),
        _ => Ok(()),
    }
}

/// Kernels for all nodes of a graph but the extern ones.
pub fn compile(graph: &Graph, options: &Options) -> Result<Program, Unsupported> {
    let (isa, table) = micro::table(options.isa);
    let mut work = Work::of(graph)?;
    let groups = fuse::fuse(&mut work, &graph.outputs);
    let outside: HashSet<ValueId> = graph.outputs.iter().copied().collect();
    let (mut steps, mut temporaries) = (Vec::new(), Vec::new());
    for at in groups.order() {
        let group = &groups.groups[at];
        if let Some(node) = group.external {
            steps.push(Step::Extern(groups.work.nodes[node].origin));
            continue;
        }
        let outputs: Vec<ValueId> = group
            .members
            .iter()
            .map(|(value, _)| *value)
            .filter(|value| groups.stored.contains(value))
            .collect();
        if outputs.is_empty() {
            continue;
        }
        temporaries.extend(outputs.iter().filter(|value| !outside.contains(value)));
        let mut inputs = Vec::new();
        let codes = emit::emit(&groups, at, &mut inputs, &outputs);
        let loops: Vec<Loop> = codes.iter().map(|code| lower::lower(code, table.has_rows)).collect();
        steps.push(Step::Kernel(kernel(&groups, inputs, outputs, loops, (isa, table))));
    }
    let types = groups.work.values.iter().map(|value| value.ty.clone()).collect();
    Ok(Program { steps, temporaries, types })
}

fn kernel(
    groups: &Groups<'_>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    loops: Vec<Loop>,
    (isa, table): (Isa, &'static Table),
) -> Kernel {
    let needs = |value: &ValueId| {
        let value = &groups.work.values[value.at()];
        let reach =
            value.ty.dims.iter().zip(&value.strides).map(|(dim, stride)| (dim - 1) * stride).sum::<usize>();
        let size = value.ty.dtype.size_bytes();
        ((reach + 1) * size, size)
    };
    let input_needs: Vec<(usize, usize)> = inputs.iter().map(needs).collect();
    let output_needs: Vec<(usize, usize)> = outputs.iter().map(needs).collect();
    for looped in &loops {
        for reach in &looped.reaches {
            let Some((out, at)) = reach.operand else { continue };
            let (bytes, _) = if out { output_needs[at] } else { input_needs[at] };
            // What keeps a kernel inside its views; cheap enough to be asked of every kernel.
            let (low, last) = exec::reach_bytes(looped, reach);
            assert!(low >= 0 && last <= bytes, "an access of a kernel leaves its tensor");
        }
    }
    let slots = loops.iter().flat_map(|looped| &looped.numbers).filter_map(|(_, number)| match number {
        lower::Number::Slot(slot, _) => Some(*slot as usize + 1),
        lower::Number::Bits(_) => None,
    });
    let n_slots = slots.max().unwrap_or(0);
    Kernel { inputs, outputs, input_needs, output_needs, n_slots, loops, isa, table }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |values: &[ValueId]| values.iter().map(ValueId::to_string).collect::<Vec<_>>().join(", ");
        writeln!(f, "kernel ({}) -> ({})", list(&self.inputs), list(&self.outputs))?;
        self.loops.iter().try_for_each(|looped| write!(f, "{looped}"))
    }
}
