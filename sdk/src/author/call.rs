//! A run of a kernel: its tensors, its numbers, its scratch memory, the host's threads.
//!
//! Invariant: a [`Call`] exists only where every tensor was checked. What it borrows ends with the call.

use super::error::{Error, ErrorKind};
use super::op::{Number, NumberKind};
use super::services::Services;
use super::view::{self, View, ViewMut};
use std::ffi::c_void;
use std::sync::Mutex;
use thunderhead_abi::basic::{Handle, Items, Status, is_understood, status};
use thunderhead_abi::bind_1::BindArgs;
use thunderhead_abi::kernel_1::{self, RunArgs};
use thunderhead_abi::parallel_1::ChunkBody;
use thunderhead_abi::tensor::TensorView;

/// What `run` is given.
pub struct Call<'a> {
    inputs: Inputs<'a>,
    outputs: Outputs<'a>,
    numbers: Items<'a, kernel_1::Number>,
    workspace: &'a mut [u8],
    parallel: Parallel<'a>,
}

/// The input tensors.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    inputs: Items<'a, TensorView>,
    outputs: Items<'a, TensorView>,
}

/// The output tensors.
pub struct Outputs<'a> {
    inputs: Items<'a, TensorView>,
    outputs: Items<'a, TensorView>,
    /// What the host has given for outputs whose size the kernel decides.
    allocated: Vec<(usize, &'a TensorView)>,
    services: &'a Services,
    run: Handle,
}

/// All parts of a call, to be borrowed side by side.
pub struct Parts<'c, 'a> {
    /// The input tensors.
    pub inputs: Inputs<'a>,
    /// The output tensors.
    pub outputs: &'c mut Outputs<'a>,
    /// Scratch, aligned to 64 bytes.
    pub workspace: &'c mut [u8],
    /// The host's threads.
    pub parallel: Parallel<'a>,
}

/// Checks views from the host.
#[inline]
fn check_views(views: Items<'_, TensorView>) -> Result<(), Error> {
    if !views.are_understood() {
        return Err(Error::new(ErrorKind::Version, "a tensor says things that this SDK does not know"));
    }
    // SAFETY: the host has filled them in.
    views.iter().try_for_each(|raw| unsafe { view::check(raw) })
}

impl<'a> Inputs<'a> {
    /// How many.
    pub fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Input `idx`, in the order of `Op::input`. Panics past the end.
    #[inline]
    pub fn get(&self, idx: usize) -> View<'a> {
        View::new(self.inputs.get(idx).expect("the op has that many inputs"), self.outputs)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = View<'a>> + use<'a> {
        let outputs = self.outputs;
        self.inputs.iter().map(move |raw| View::new(raw, outputs))
    }
}

impl<'a> Outputs<'a> {
    /// How many.
    pub fn len(&self) -> usize {
        self.outputs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }

    #[inline]
    fn raw(&self, idx: usize) -> &'a TensorView {
        let given = self.allocated.iter().find(|(of, _)| *of == idx).map(|(_, raw)| *raw);
        given.unwrap_or_else(|| self.outputs.get(idx).expect("the op has that many outputs"))
    }

    /// Output `idx`, in the order of `Op::output`. Panics past the end.
    #[inline]
    pub fn get(&mut self, idx: usize) -> ViewMut<'_> {
        ViewMut::new(self.raw(idx), self.inputs)
    }

    /// The first `N` outputs at once. Panics where there are fewer.
    pub fn array<const N: usize>(&mut self) -> [ViewMut<'_>; N] {
        std::array::from_fn(|idx| ViewMut::new(self.raw(idx), self.inputs))
    }

    /// All outputs at once.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = ViewMut<'_>> {
        let outputs: &Outputs<'a> = self;
        (0..outputs.len()).map(|idx| ViewMut::new(outputs.raw(idx), outputs.inputs))
    }

    /// See [`Call::alloc_output`].
    pub fn alloc(&mut self, idx: usize, dims: &[i64]) -> Result<ViewMut<'_>, Error> {
        let Some(table) = self.services.alloc else {
            return Err(Error::unsupported("the host has no alloc/1"));
        };
        let rank = u32::try_from(dims.len()).map_err(|_| Error::invalid("too many dims"))?;
        let mut raw: *const TensorView = std::ptr::null();
        // SAFETY: `run` is this call's; dims are readable and `raw` writable during it.
        let answer = unsafe { (table.alloc_output)(self.run, idx as u32, 0, dims.as_ptr(), rank, &mut raw) };
        if answer != status::OK || raw.is_null() {
            let kind = ErrorKind::from_status(answer);
            return Err(Error::new(
                kind,
                format!("the host gave no memory for output {idx} of dims {dims:?}"),
            ));
        }
        // SAFETY: the host keeps it until the kernel returns.
        let raw: &'a TensorView = unsafe { &*raw };
        // SAFETY: filled in by the host.
        unsafe { view::check(raw) }?;
        self.allocated.push((idx, raw));
        Ok(self.get(idx))
    }
}

impl<'a> Call<'a> {
    /// # Safety
    /// `args` must be filled in as `thunderhead-abi` asks.
    #[inline]
    pub(crate) unsafe fn read(args: &'a RunArgs, services: &'a Services) -> Result<Call<'a>, Error> {
        // SAFETY: the host's struct has the bytes that it says.
        if !unsafe { is_understood(args, args.size) } {
            return Err(Error::version_of("RunArgs", args.size, std::mem::size_of::<RunArgs>()));
        }
        let bad = || Error::invalid("the run's arrays are malformed");
        // SAFETY: the caller vouches for the pointers.
        let inputs = unsafe { args.inputs.items() }.ok_or_else(bad)?;
        // SAFETY: as above.
        let outputs = unsafe { args.outputs.items() }.ok_or_else(bad)?;
        // SAFETY: as above.
        let numbers = unsafe { args.numbers.items() }.ok_or_else(bad)?;
        check_views(inputs)?;
        check_views(outputs)?;
        let workspace = if args.workspace.is_null() || args.workspace_bytes == 0 {
            &mut [][..]
        } else {
            // SAFETY: the host's scratch memory belongs to this run alone.
            unsafe { std::slice::from_raw_parts_mut(args.workspace, args.workspace_bytes as usize) }
        };
        Ok(Call {
            inputs: Inputs { inputs, outputs },
            outputs: Outputs { inputs, outputs, allocated: Vec::new(), services, run: args.run },
            numbers,
            workspace,
            parallel: Parallel { services, run: args.run, threads: args.threads.max(1) },
        })
    }

    /// How many input tensors there are.
    pub fn n_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// How many output tensors there are.
    pub fn n_outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Input `idx`, in the order of `Op::input`. Panics past the end.
    pub fn input(&self, idx: usize) -> View<'_> {
        self.inputs.get(idx)
    }

    /// Output `idx`, in the order of `Op::output`. Panics past the end.
    pub fn output(&mut self, idx: usize) -> ViewMut<'_> {
        self.outputs.get(idx)
    }

    /// Inputs and outputs, to be borrowed side by side.
    pub fn io(&mut self) -> (Inputs<'a>, &mut Outputs<'a>) {
        (self.inputs, &mut self.outputs)
    }

    /// All parts, to be borrowed side by side.
    pub fn parts(&mut self) -> Parts<'_, 'a> {
        Parts {
            inputs: self.inputs,
            outputs: &mut self.outputs,
            workspace: self.workspace,
            parallel: self.parallel,
        }
    }

    /// The value of the number in `slot` (`Op::slot`). Panics past the end.
    pub fn number(&self, slot: usize) -> Number {
        let raw = self.numbers.get(slot).expect("the op has that many numbers");
        match NumberKind::from_code(raw.kind) {
            Some(NumberKind::Float) => Number::Float(f64::from_bits(raw.value)),
            Some(NumberKind::Bool) => Number::Bool(raw.value != 0),
            Some(NumberKind::Int) | None => Number::Int(raw.value as i64),
        }
    }

    /// Scratch memory: what `Kernel::workspace_bytes` asked for, aligned to 64 bytes.
    pub fn workspace(&mut self) -> &mut [u8] {
        self.workspace
    }

    /// How many threads the run may use, this one included.
    pub fn threads(&self) -> usize {
        self.parallel.threads()
    }

    /// Whether the run was cancelled: return `Error::cancelled` soon.
    pub fn cancelled(&self) -> bool {
        self.parallel.cancelled()
    }

    /// The host's threads; may be kept while tensors are borrowed.
    pub fn parallel(&self) -> Parallel<'a> {
        self.parallel
    }

    /// As [`Parallel::for_each`].
    pub fn parallel_for(&self, n_chunks: usize, f: impl Fn(usize) + Sync) -> Result<(), Error> {
        self.parallel.for_each(n_chunks, f)
    }

    /// Gives output `idx`, whose size the kernel decides, its dims and memory, to be written whole. Once an output.
    pub fn alloc_output(&mut self, idx: usize, dims: &[i64]) -> Result<ViewMut<'_>, Error> {
        self.outputs.alloc(idx, dims)
    }
}

/// The host's threads, for the length of a call.
#[derive(Clone, Copy)]
pub struct Parallel<'a> {
    services: &'a Services,
    run: Handle,
    threads: u32,
}

// SAFETY: `run` is used by functions that may be called from any thread (`cancelled`), or on the caller's (`for_each`).
unsafe impl Send for Parallel<'_> {}
// SAFETY: as above.
unsafe impl Sync for Parallel<'_> {}

struct Work<'f, F> {
    f: &'f F,
    panicked: Mutex<Option<String>>,
}

impl Parallel<'_> {
    /// How many threads the run may use, the caller's included.
    pub fn threads(&self) -> usize {
        self.threads as usize
    }

    /// Whether the run was cancelled.
    pub fn cancelled(&self) -> bool {
        // SAFETY: this call's run.
        self.services.cancel.is_some_and(|table| unsafe { (table.cancelled)(self.run) } != 0)
    }

    /// Calls `f` for each chunk from 0 to `n_chunks` and returns when all are done. Which thread takes which chunk is
    /// open: results must not depend on it. Not to be called inside itself. A panic in `f` becomes an error.
    pub fn for_each<F: Fn(usize) + Sync>(&self, n_chunks: usize, f: F) -> Result<(), Error> {
        let table = match self.services.parallel {
            Some(table) if n_chunks > 1 && self.threads > 1 => table,
            _ => {
                (0..n_chunks).for_each(f);
                return Ok(());
            }
        };
        let work = Work { f: &f, panicked: Mutex::new(None) };
        let body = ChunkBody { call: run_chunk::<F> };
        // SAFETY: `work` outlives the call, which returns when all chunks are done.
        let answer = unsafe {
            (table.parallel_for)(self.run, n_chunks as u64, body, (&raw const work).cast_mut().cast())
        };
        let panicked = work.panicked.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        match (panicked, answer) {
            (Some(message), _) => Err(Error::new(ErrorKind::Panic, message)),
            (None, status::OK) => Ok(()),
            (None, other) => Err(Error::new(ErrorKind::from_status(other), "the host's parallel_for failed")),
        }
    }

    /// Cuts `data` into chunks of `chunk_len` (the last may be shorter) and calls `f` with each and its index.
    pub fn for_each_chunk<T: Send>(
        &self,
        data: &mut [T],
        chunk_len: usize,
        f: impl Fn(usize, &mut [T]) + Sync,
    ) -> Result<(), Error> {
        struct Start<T>(*mut T);
        // SAFETY: chunks are disjoint, and each goes to one call.
        unsafe impl<T: Send> Sync for Start<T> {}
        impl<T> Start<T> {
            /// # Safety
            /// `from + len` lies within the data, and no other chunk overlaps.
            unsafe fn chunk<'s>(&self, from: usize, len: usize) -> &'s mut [T] {
                // SAFETY: within the data by the caller's word.
                let first = unsafe { self.0.add(from) };
                // SAFETY: as above, and disjoint from all others.
                unsafe { std::slice::from_raw_parts_mut(first, len) }
            }
        }
        let chunk_len = chunk_len.max(1);
        let len = data.len();
        let start = Start(data.as_mut_ptr());
        self.for_each(len.div_ceil(chunk_len), |chunk| {
            let from = chunk * chunk_len;
            // SAFETY: each chunk index is visited once.
            f(chunk, unsafe { start.chunk(from, chunk_len.min(len - from)) });
        })
    }
}

unsafe extern "C" fn run_chunk<F: Fn(usize) + Sync>(ctx: *mut c_void, chunk: u64) -> Status {
    // SAFETY: `for_each` passes its own `Work` and waits for all chunks.
    let work = unsafe { &*ctx.cast::<Work<'_, F>>() };
    match super::border::caught(|| (work.f)(chunk as usize)) {
        Ok(()) => status::OK,
        Err(message) => {
            let mut panicked = work.panicked.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            panicked.get_or_insert(message);
            status::PANIC
        }
    }
}

/// What `bind` is given: the memory that every run of the bound object will have.
pub struct Binding<'a> {
    inputs: Inputs<'a>,
    outputs: Items<'a, TensorView>,
    workspace: (*mut u8, usize),
    threads: u32,
}

impl<'a> Binding<'a> {
    /// # Safety
    /// `args` must be filled in as `thunderhead-abi` asks.
    pub(crate) unsafe fn read(args: &'a BindArgs) -> Result<Binding<'a>, Error> {
        // SAFETY: the host's struct has the bytes that it says.
        if !unsafe { is_understood(args, args.size) } {
            return Err(Error::version_of("BindArgs", args.size, std::mem::size_of::<BindArgs>()));
        }
        let bad = || Error::invalid("the arrays to bind are malformed");
        // SAFETY: the caller vouches for the pointers.
        let inputs = unsafe { args.inputs.items() }.ok_or_else(bad)?;
        // SAFETY: as above.
        let outputs = unsafe { args.outputs.items() }.ok_or_else(bad)?;
        check_views(inputs)?;
        check_views(outputs)?;
        Ok(Binding {
            inputs: Inputs { inputs, outputs },
            outputs,
            workspace: (args.workspace, args.workspace_bytes as usize),
            threads: args.threads.max(1),
        })
    }

    /// How many input tensors there are.
    pub fn n_inputs(&self) -> usize {
        self.inputs.len()
    }

    /// How many output tensors there are.
    pub fn n_outputs(&self) -> usize {
        self.outputs.len()
    }

    /// Input `idx`. Panics past the end.
    pub fn input(&self, idx: usize) -> View<'a> {
        self.inputs.get(idx)
    }

    /// Output `idx`, for its address, dims and strides: binding writes nothing. Panics past the end.
    pub fn output(&self, idx: usize) -> View<'a> {
        let raw = self.outputs.get(idx).expect("the op has that many outputs");
        View::new(raw, self.outputs)
    }

    /// Start and length of the scratch memory.
    pub fn workspace(&self) -> (*mut u8, usize) {
        self.workspace
    }

    /// How many threads runs may use.
    pub fn threads(&self) -> usize {
        self.threads as usize
    }
}
