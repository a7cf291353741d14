//! The traits that an author implements.

use super::call::{Binding, Call};
use super::create::Create;
use super::error::{Error, Refusal};
use super::op::Op;
use super::region::{OpId, Region, Steps};

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

    /// Makes a kernel for an op that was claimed. Dims and strides are known, constants readable. Executors of kind `op`
    /// are asked this; those of kind `fusion` lower regions instead.
    fn kernel(&self, op: &Op<'_>) -> Result<Box<dyn Kernel>, Error> {
        Err(Error::unsupported(format!("there is no kernel for `{}`", op.name())))
    }

    /// Turns a region into steps: own kernels over its tensors, and ops handed on. Dims and strides are known, constants
    /// readable. An error of kind `unsupported` releases the region's ops: the executors behind are asked for them.
    /// Executors of kind `fusion` are asked this.
    fn lower_region(&self, region: &Region<'_>, steps: &mut Steps<'_>) -> Result<(), Error> {
        let _ = steps;
        Err(Error::unsupported(format!("region `{}` cannot be lowered", region.name())))
    }

    /// Which parts of a region it would rather have as regions, as lists of ops; `None`: the region as it is. Dims may be
    /// unknown, strides are. Ops that no list names are released. Each list must be convex: no op outside stands between
    /// two of it. Asked only where the manifest's `uses` or `needs` names `region/1`.
    fn propose_regions(&self, region: &Region<'_>) -> Result<Option<Vec<Vec<OpId>>>, Error> {
        let _ = region;
        Ok(None)
    }

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
