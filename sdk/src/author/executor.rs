//! The traits that an author implements.

use super::call::{Binding, Call};
use super::create::Create;
use super::error::{Error, Refusal};
use super::op::Op;

/// An executor: takes ops and makes kernels for them. What it takes is declared in the manifest; [`Executor::check`]
/// refuses what the manifest cannot say.
pub trait Executor: Send + Sync + Sized + 'static {
    /// Makes it. Options are checked already.
    fn create(ctx: &Create<'_>) -> Result<Self, Error>;

    /// What is missing for it to work (a device, a library). Asked once, after `create`.
    fn available(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Refuses an op within the limits of a claim with `check = true`. Depends on nothing but the op and the options.
    fn check(&self, op: &Op<'_>) -> Result<(), Refusal> {
        let _ = op;
        Ok(())
    }

    /// Makes a kernel for an op that was claimed. Dims and strides are known, constants readable.
    fn kernel(&self, op: &Op<'_>) -> Result<Box<dyn Kernel>, Error>;

    /// A quick check of what the executor needs, for `doctor`.
    fn selftest(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Ends the executor's own threads. Comes once, before the end.
    fn quiesce(&self) {}
}

/// A kernel. It does not change after it is made, and runs may overlap.
pub trait Kernel: Send + Sync {
    /// Computes the outputs; they are complete when it returns.
    fn run(&self, call: &mut Call<'_>) -> Result<(), Error>;

    /// Bytes of scratch that a run on `threads` threads needs; `Call::workspace` has them.
    fn workspace_bytes(&self, threads: usize) -> usize {
        let _ = threads;
        0
    }

    /// Pairs (output, input) that may share memory: same address, dims, strides and element size. The kernel then must not take
    /// slices of both, see [`View`](super::view::View).
    fn in_place(&self) -> Vec<(usize, usize)> {
        Vec::new()
    }

    /// Whether the kernel is right for other sizes of the same op, too.
    fn size_independent(&self) -> bool {
        false
    }

    /// For each output the strides it is written with, `None` for dense row-major. May be shorter than there are outputs.
    fn output_strides(&self) -> Vec<Option<Vec<i64>>> {
        Vec::new()
    }

    /// Makes an object that keeps what a run would otherwise work out each time; `None`: nothing to keep.
    fn bind(&self, io: &Binding<'_>) -> Result<Option<Box<dyn Bound>>, Error> {
        let _ = io;
        Ok(None)
    }
}

/// A kernel bound to memory. One run at a time.
pub trait Bound: Send {
    /// As `Kernel::run`, with the tensors that were bound.
    fn run(&mut self, call: &mut Call<'_>) -> Result<(), Error>;
}
