//! Kernels of loops behind the SDK's trait.
//!
//! Why the raw views are sound: the host's tensors were checked when the call was read (the SDK's invariant), inputs live
//! and are not written during the call (no kernel here declares an output that shares an input's memory), and each output
//! is its step's alone. How far a view reaches follows from its own dims and strides; loops check that this is enough.

use smallvec::SmallVec;
use std::sync::Mutex;
use thunderhead_loops::{self as loops, Kernel, Scalar};
use thunderhead_sdk as sdk;
use thunderhead_sdk::{Binding, Bound, Call, Error, Number, Parallel};

/// A fused loop as a step.
pub struct Loop {
    kernel: std::sync::Arc<Kernel>,
    indexing: std::sync::Arc<str>,
}

impl Loop {
    /// `indexing`: the ops in it that take indices, as messages name them.
    pub fn new(kernel: Kernel, indexing: String) -> Loop {
        Loop { kernel: std::sync::Arc::new(kernel), indexing: indexing.into() }
    }
}

impl sdk::Kernel for Loop {
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
        let numbers = numbers(call, self.kernel.n_slots());
        let parallel = Threads { parallel: call.parallel(), failed: Mutex::new(None) };
        let (inputs, outputs) = call.io();
        let inputs: SmallVec<[loops::View<'_>; 16]> = inputs.iter().map(|view| read(&view)).collect();
        let mut outputs: SmallVec<[loops::ViewMut<'_>; 8]> =
            outputs.iter_mut().map(|mut view| write(&mut view)).collect();
        finish(&self.kernel, &self.indexing, &inputs, &mut outputs, &numbers, parallel)
    }

    fn bind(&self, io: &Binding<'_>) -> Result<Option<Box<dyn Bound>>, Error> {
        let of = |view: sdk::View<'_>| Memory { data: view.data_ptr().cast_mut(), bytes: reach(&view) };
        Ok(Some(Box::new(BoundLoop {
            kernel: self.kernel.clone(),
            indexing: self.indexing.clone(),
            inputs: (0..io.n_inputs()).map(|at| of(io.input(at))).collect(),
            outputs: (0..io.n_outputs()).map(|at| of(io.output(at))).collect(),
        })))
    }
}

/// A loop whose memory is known.
struct BoundLoop {
    kernel: std::sync::Arc<Kernel>,
    indexing: std::sync::Arc<str>,
    inputs: Vec<Memory>,
    outputs: Vec<Memory>,
}

struct Memory {
    data: *mut u8,
    bytes: usize,
}

// SAFETY: an address; who may use it, and when, is said by the host's promise for bound kernels.
unsafe impl Send for Memory {}

impl Bound for BoundLoop {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), Error> {
        let numbers = numbers(call, self.kernel.n_slots());
        let parallel = Threads { parallel: call.parallel(), failed: Mutex::new(None) };
        // SAFETY: what was bound is what this run has: same memory, same dims and strides.
        let read = |memory: &Memory| unsafe { loops::View::from_raw(memory.data, memory.bytes) };
        // SAFETY: as above, and outputs are this run's alone.
        let write = |memory: &Memory| unsafe { loops::ViewMut::from_raw(memory.data, memory.bytes) };
        let inputs: SmallVec<[loops::View<'_>; 16]> = self.inputs.iter().map(read).collect();
        let mut outputs: SmallVec<[loops::ViewMut<'_>; 8]> = self.outputs.iter().map(write).collect();
        finish(&self.kernel, &self.indexing, &inputs, &mut outputs, &numbers, parallel)
    }
}

fn finish(
    kernel: &Kernel,
    indexing: &str,
    inputs: &[loops::View<'_>],
    outputs: &mut [loops::ViewMut<'_>],
    numbers: &[Scalar],
    parallel: Threads<'_>,
) -> Result<(), Error> {
    kernel.run(inputs, outputs, numbers, &parallel).map_err(|error| failed(error, indexing))?;
    match parallel.failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// What the data cannot be used for is the data's fault; everything else is ours.
#[cold]
fn failed(error: loops::RunError, indexing: &str) -> Error {
    match error {
        loops::RunError::Index { .. } if !indexing.is_empty() => {
            Error::bad_data(format!("{error}, in {indexing}"))
        }
        loops::RunError::Index { .. } | loops::RunError::DividedByZero => Error::bad_data(error.to_string()),
        _ => Error::invalid(error.to_string()),
    }
}

fn numbers(call: &Call<'_>, n: usize) -> SmallVec<[Scalar; 4]> {
    let scalar = |slot| match call.number(slot) {
        Number::Int(n) => Scalar::Int(n),
        Number::Float(x) => Scalar::Float(x),
        Number::Bool(b) => Scalar::Bool(b),
    };
    (0..n).map(scalar).collect()
}

fn read<'a>(view: &sdk::View<'a>) -> loops::View<'a> {
    // SAFETY: the head of this file says why.
    unsafe { loops::View::from_raw(view.data_ptr(), reach(view)) }
}

fn write<'a>(view: &mut sdk::ViewMut<'a>) -> loops::ViewMut<'a> {
    let bytes = view.numel() * view.dtype().size_bytes();
    // SAFETY: the head of this file says why; outputs are row-major, since no strides are declared for them.
    unsafe { loops::ViewMut::from_raw(view.data_ptr(), bytes) }
}

/// Bytes from the first element to the end of the last.
fn reach(view: &sdk::View<'_>) -> usize {
    let size = view.dtype().size_bytes();
    let Some(strides) = view.raw_strides() else { return view.numel() * size };
    if view.numel() == 0 {
        return 0;
    }
    let last: i64 = view.dims().iter().zip(strides).map(|(dim, stride)| (dim - 1) * stride.max(&0)).sum();
    (last as usize + 1) * size
}

/// The host's threads as loops want them.
struct Threads<'a> {
    parallel: Parallel<'a>,
    /// What went wrong in a chunk; loops have no word for it.
    failed: Mutex<Option<Error>>,
}

impl loops::Parallel for Threads<'_> {
    fn threads(&self) -> usize {
        self.parallel.threads()
    }

    fn for_each(&self, chunks: usize, f: &(dyn Fn(usize) + Sync)) {
        if let Err(error) = self.parallel.for_each(chunks, f) {
            let mut failed = self.failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            failed.get_or_insert(error);
        }
    }
}

/// Writes tensors that have no elements.
pub struct Nothing;

impl sdk::Kernel for Nothing {
    fn run(&self, _: &mut Call<'_>) -> Result<(), Error> {
        Ok(())
    }
}
