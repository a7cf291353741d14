//! The fused-loop compiler that the fusion executors share: from prims over tensors of known sizes to a short list of
//! kernels, each one pass (or a few passes over a row that stays in cache) over memory.
//!
//! # Use
//!
//! 1. Build a [`Graph`]: [`Graph::input`] for what the caller brings (dims, strides, dtype), [`Graph::push`] for each prim,
//!    [`Graph::output`] for what must be in memory afterwards. What loops cannot compute (matmul, convolution, attention)
//!    goes in as [`Prim::Extern`], so that the order of steps around it comes out right. [`supports`] says beforehand
//!    whether a prim is taken.
//! 2. [`compile`] gives a [`Program`]: [`Program::steps`] in order, each a [`Kernel`] or an extern node.
//!    [`Kernel::inputs`] and [`Kernel::outputs`] name the values a kernel reads and writes. Every value that a kernel
//!    writes, and every operand of an extern node, is a tensor in memory, row-major; those that are no outputs of the graph
//!    are temporaries ([`Program::temporaries`]).
//! 3. [`Kernel::run`] with a view of each input and output, the numbers of this run ([`Operand::Slot`]) and somebody who
//!    runs chunks ([`Parallel`]).
//!
//! ```
//! use thunderhead_loops::{Dtype, Graph, Operand, Options, Prim, Serial, Step, TensorType, Unary, View, ViewMut, compile};
//!
//! let mut graph = Graph::new();
//! let x = graph.dense_input(TensorType::new(Dtype::F32, &[2, 3])).expect("small");
//! let y = graph.push1(Prim::Unary(Unary::Exp), &[Operand::Value(x)]).expect("fits");
//! graph.output(y);
//! let program = compile(&graph, &Options::default()).expect("exp is taken");
//! let input = [0f32, 1.0, 2.0, 3.0, 4.0, 5.0];
//! let mut output = [0f32; 6];
//! let Step::Kernel(kernel) = &program.steps()[0] else { panic!("a kernel") };
//! kernel
//!     .run(&[View::of(&input)], &mut [ViewMut::of(&mut output)], &[], &Serial)
//!     .expect("the views are large enough");
//! assert!((output[1] - 1f32.exp()).abs() < 1e-6);
//! ```
//!
//! # Promises
//!
//! - The bits of a result do not depend on [`Parallel::threads`] nor on who takes which chunk.
//! - No kernel touches memory outside the views it is given: their sizes are checked at each run, indices that are data
//!   (gathers) at each element.
//! - f16 and bf16 are computed in f32 and rounded where they are stored; f32 functions are within 2 units in the last
//!   place; NaN passes through comparisons, minima and maxima as the op table says.
//! - Nothing is allocated by a run once each thread has run a kernel as large (scratch is kept per thread).
//!
//! Not here: traces, executors, the plugin ABI, memory planning, matmuls.

#![deny(unsafe_code)]

mod graph;
mod meta;
mod program;

mod work;

mod affine;
mod fuse;

mod emit;
mod kept;
mod lower;

#[allow(unsafe_code)] // tiles and tensors are raw memory; why it is sound stands at its head
mod exec;
mod math;
#[allow(unsafe_code)] // what callers owe stands at its head
mod micro;
mod rare;
#[allow(unsafe_code)] // rows are raw memory, as in `micro.rs`
mod rows;
#[allow(unsafe_code)] // vectors in registers and in memory
mod vector;

pub use graph::{
    Binary, Dtype, Graph, Invalid, NodeId, Operand, Prim, Reduce, Scalar, Source, TensorType, Ternary, Unary,
    ValueId, dense_strides,
};
pub use program::{
    Element, Isa, Kernel, Options, Parallel, Program, RunError, Serial, Step, Unsupported, View, ViewMut,
    compile, supports,
};
