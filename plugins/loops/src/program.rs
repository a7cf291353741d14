//! What comes out of the compiler, and how it is run: programs, kernels, views of memory, errors.

use crate::graph::{Dtype, Graph, NodeId, Prim, Scalar, ValueId};
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

    /// Values that some step writes and that are no outputs of the graph; row-major, in the order they are written.
    pub fn temporaries(&self) -> &[ValueId] {
        &self.temporaries
    }
}

/// A fused loop. Immutable; runs may overlap.
pub struct Kernel {
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
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

    /// Runs it on a view of each of [`Kernel::inputs`] and [`Kernel::outputs`], with the numbers of the graph's slots.
    pub fn run(
        &self,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        numbers: &[Scalar],
        parallel: &dyn Parallel,
    ) -> Result<(), RunError> {
        let _ = (inputs, outputs, numbers, parallel);
        Ok(())
    }
}

/// Whether loops take a prim on tensors of these dtypes, and why not.
pub fn supports(prim: &Prim, dtypes: &[Dtype]) -> Result<(), String> {
    let _ = (prim, dtypes);
    Ok(())
}

/// Kernels for all nodes of a graph but the extern ones.
pub fn compile(graph: &Graph, options: &Options) -> Result<Program, Unsupported> {
    let _ = (graph, options);
    Err(Unsupported { node: NodeId(0), reason: "the compiler is not written yet".into() })
}
