//! A finished recipe as a kernel.

use std::sync::Arc;

use thunderhead_sdk::{Binding, Bound, Call, Error, Kernel, Number};

use crate::recipe::Made;
use crate::{Memory, Reg, Tape};

/// Runs a recipe's tape: bound once where the host binds, else for each run.
pub struct TorchKernel {
    made: Made,
}

impl TorchKernel {
    /// Of a finished recipe.
    pub fn new(made: Made) -> TorchKernel {
        TorchKernel { made }
    }

    fn threads(&self, asked: usize) -> usize {
        if self.made.serial { 1 } else { asked }
    }

    fn bound(&self, bound: crate::Bound) -> TorchBound {
        let Made { deferred, serial, n_numbers, .. } = &self.made;
        TorchBound { bound, deferred: deferred.clone(), serial: *serial, n_numbers: *n_numbers }
    }
}

impl Kernel for TorchKernel {
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
        let threads = self.threads(call.threads());
        let (inputs, outputs) = call.io();
        let inputs: Vec<Memory> = inputs.iter().map(|view| Memory::of(&view)).collect::<Result<_, _>>()?;
        let outputs: Vec<Memory> = outputs.iter_mut().map(Memory::of_output).collect::<Result<_, _>>()?;
        let bound = crate::Bound::new(&self.made.tape, &inputs, &outputs, threads)?;
        self.bound(bound).run(call)
    }

    fn in_place(&self) -> Vec<(usize, usize)> {
        self.made.in_place.clone()
    }

    fn bind(&self, io: &Binding<'_>) -> Result<Option<Box<dyn Bound>>, Error> {
        let inputs: Vec<Memory> =
            (0..io.n_inputs()).map(|idx| Memory::of(&io.input(idx))).collect::<Result<_, _>>()?;
        let outputs: Vec<Memory> =
            (0..io.n_outputs()).map(|idx| Memory::of(&io.output(idx))).collect::<Result<_, _>>()?;
        let bound = crate::Bound::new(&self.made.tape, &inputs, &outputs, self.threads(io.threads()))?;
        Ok(Some(Box::new(self.bound(bound))))
    }
}

/// A tape with wrapped tensors.
struct TorchBound {
    bound: crate::Bound,
    deferred: Vec<(usize, Reg)>,
    serial: bool,
    n_numbers: usize,
}

impl Bound for TorchBound {
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), Error> {
        let threads = if self.serial { 1 } else { call.threads() };
        let numbers: Vec<Number> = (0..self.n_numbers).map(|slot| call.number(slot)).collect();
        self.bound.run(&numbers, threads)?;
        for (output, reg) in &self.deferred {
            let dims = self.bound.result_dims(*reg)?;
            let memory = Memory::of_output(call.alloc_output(*output, &dims)?)?;
            self.bound.take(*reg, &memory, threads)?;
        }
        Ok(())
    }
}

// Tapes are shared between overlapping runs.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Arc<Tape>>();
};
