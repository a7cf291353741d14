//! A tape bound to memory: its tensors are wrapped once, so that a run is only the calls.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use thunderhead_sdk::{Dtype, Error, Number, View, ViewMut};

use super::ffi;
use super::tape::{Reg, Tape, checked, scalar_type};

/// A tape with the memory it works on. The memory must stay where it is for as long as this lives: the contract of
/// `bind/1`, or of one run.
pub struct Bound {
    raw: *mut ffi::RawBound,
    /// The C side points into it.
    _tape: Arc<Tape>,
}

// SAFETY: the C side has no thread-bound state; `&mut self` keeps runs apart.
unsafe impl Send for Bound {}

impl Bound {
    /// Wraps the memory and carries out what depends on nothing but it.
    pub fn new(
        tape: &Arc<Tape>,
        inputs: &[Memory],
        outputs: &[Memory],
        threads: usize,
    ) -> Result<Bound, Error> {
        if inputs.len() != tape.n_inputs || outputs.len() != tape.n_outputs {
            return Err(Error::invalid(format!(
                "{} inputs and {} outputs, expected {} and {}",
                inputs.len(),
                outputs.len(),
                tape.n_inputs,
                tape.n_outputs
            )));
        }
        let raw_inputs: Vec<ffi::Tensor> = inputs.iter().map(Memory::raw).collect();
        let raw_outputs: Vec<ffi::Tensor> = outputs.iter().map(Memory::raw).collect();
        let mut raw = ptr::null_mut();
        checked(|error, bytes| {
            // SAFETY: as many tensors as the tape has; dims and strides outlive the call, the memory outlives `self`.
            unsafe {
                ffi::th_bind(
                    tape.raw,
                    raw_inputs.as_ptr(),
                    raw_outputs.as_ptr(),
                    raw_count(threads),
                    &raw mut raw,
                    error,
                    bytes,
                )
            }
        })?;
        Ok(Bound { raw, _tape: Arc::clone(tape) })
    }

    /// Runs the tape on `threads` threads, with the numbers that are known only now.
    pub fn run(&mut self, numbers: &[Number], threads: usize) -> Result<(), Error> {
        let numbers: Vec<ffi::Number> = numbers.iter().copied().map(raw_number).collect();
        checked(|error, bytes| {
            // SAFETY: `raw` is bound, and nobody else runs it.
            unsafe {
                ffi::th_run(
                    self.raw,
                    numbers.as_ptr(),
                    numbers.len() as u64,
                    raw_count(threads),
                    error,
                    bytes,
                )
            }
        })
    }

    /// Dims of what the run left in a register.
    pub fn result_dims(&self, reg: Reg) -> Result<Vec<i64>, Error> {
        let mut dims = vec![0i64; 64];
        let mut rank = 0;
        checked(|error, bytes| {
            // SAFETY: `dims` has room for 64.
            unsafe {
                ffi::th_result_dims(self.raw, reg.0, dims.as_mut_ptr(), &raw mut rank, 64, error, bytes)
            }
        })?;
        dims.truncate(rank as usize);
        Ok(dims)
    }

    /// Moves what the run left in a register to memory that was asked for meanwhile.
    pub fn take(&mut self, reg: Reg, target: &Memory, threads: usize) -> Result<(), Error> {
        let raw = target.raw();
        checked(|error, bytes| {
            // SAFETY: `target` outlives the call.
            unsafe { ffi::th_take(self.raw, reg.0, &raw const raw, raw_count(threads), error, bytes) }
        })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // SAFETY: made by `th_bind`, freed once.
        unsafe { ffi::th_unbind(self.raw) }
    }
}

/// A tensor's place in memory, in the form that crosses.
pub struct Memory {
    data: *mut u8,
    dims: Vec<i64>,
    strides: Vec<i64>,
    scalar_type: i32,
}

impl Memory {
    /// Of a view; an output when bound comes as one, too.
    pub fn of(view: &View<'_>) -> Result<Memory, Error> {
        Memory::new(view.data_ptr().cast_mut(), view.dims(), view.strides_elems(), view.dtype())
    }

    /// Of an output.
    pub fn of_output(mut view: ViewMut<'_>) -> Result<Memory, Error> {
        let data = view.data_ptr();
        Memory::new(data, view.dims(), view.strides_elems(), view.dtype())
    }

    fn new(data: *mut u8, dims: &[i64], strides: Vec<i64>, dtype: Dtype) -> Result<Memory, Error> {
        let scalar_type =
            scalar_type(dtype).ok_or_else(|| Error::unsupported(format!("libtorch has no dtype {dtype}")))?;
        Ok(Memory { data, dims: dims.to_vec(), strides, scalar_type })
    }

    fn raw(&self) -> ffi::Tensor {
        ffi::Tensor {
            data: self.data.cast::<c_void>(),
            dims: self.dims.as_ptr(),
            strides: self.strides.as_ptr(),
            rank: self.dims.len() as u32,
            scalar_type: self.scalar_type,
        }
    }
}

fn raw_number(number: Number) -> ffi::Number {
    match number {
        Number::Int(value) => ffi::Number { kind: ffi::INT, i: value, f: 0.0 },
        Number::Float(value) => ffi::Number { kind: ffi::FLOAT, i: 0, f: value },
        Number::Bool(value) => ffi::Number { kind: ffi::BOOL, i: i64::from(value), f: 0.0 },
    }
}

/// At least one thread.
fn raw_count(threads: usize) -> i32 {
    i32::try_from(threads.max(1)).unwrap_or(i32::MAX)
}
