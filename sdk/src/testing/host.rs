//! The fake host itself.

use super::services::{self, Context, Run, Stored, Value};
use super::spec::{Desc, OpSpec, When};
use super::tensor::{Memory, Tensor};
use crate::author::__private::{ExecutorDecl, Plugin, entry_of};
use crate::{Error, Executor, Refusal};
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::atomic::AtomicBool;
use thunderhead_abi::basic::{Array, Handle, Status, Str, status};
use thunderhead_abi::bind_1::{self, BindArgs, BindV1};
use thunderhead_abi::claim_1::{self, ClaimV1};
use thunderhead_abi::entry::EntryV1;
use thunderhead_abi::executor_1::{self, ExecutorV1};
use thunderhead_abi::host::HostV1;
use thunderhead_abi::kernel_1::{self, KernelInfo, KernelV1, RunArgs, kernel_flags};
use thunderhead_abi::selftest_1::{self, SelftestV1};
use thunderhead_abi::tensor::{TensorView, UNKNOWN};
use thunderhead_abi::workspace_1::{self, WorkspaceV1};
use thunderhead_manifest::{ExecutorDecl as ExecutorDeclaration, Manifest, Operand, Plain};

/// A fake host with one executor.
pub struct Host {
    context: Box<Context>,
    raw: Box<HostV1>,
    entry: &'static EntryV1,
    name: String,
    decl: Option<ExecutorDeclaration>,
    executor: Handle,
}

/// How [`Host::run_with`] runs.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Threads that the run may use.
    pub threads: usize,
    /// Outputs that lie in an input's memory, where the kernel allows it.
    pub in_place: bool,
    /// Whether to ask the kernel for a bound object.
    pub bind: bool,
    /// How often to run; the last results count.
    pub runs: usize,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { threads: 1, in_place: false, bind: true, runs: 1 }
    }
}

/// What a kernel said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Right for other sizes, too.
    pub size_independent: bool,
    /// Pairs (output, input) that may share memory.
    pub in_place: Vec<(usize, usize)>,
    /// Bytes of scratch on one thread.
    pub workspace_bytes: usize,
}

struct TestPlugin<E>(std::marker::PhantomData<E>);
impl<E: Executor> Plugin for TestPlugin<E> {
    const MANIFEST: &'static str = "";
    const EXECUTORS: &'static [ExecutorDecl] = &[ExecutorDecl::of::<E>("")];
    const OWNS_LOG: bool = false;
}

const GUARD: u8 = 0xC3;
const GARBAGE: u8 = 0xA5;
const GUARD_BYTES: usize = 64;

impl Host {
    /// Makes executor `E`, without options.
    pub fn new<E: Executor>(name: &str) -> Result<Host, Error> {
        Host::with_options::<E>(name, &[])
    }

    /// Makes executor `E` with options, as the manifest's defaults and the config would give them.
    pub fn with_options<E: Executor>(name: &str, options: &[(&str, Value)]) -> Result<Host, Error> {
        Host::make(entry_of::<TestPlugin<E>>(), name, "", options)
    }

    /// Makes the executor `name` of a plugin that `define_plugin!` has defined, with these options and the defaults of its
    /// manifest for all others. Its manifest must be in order, and declare exactly the executors that the code has.
    pub fn from_entry(entry: &'static EntryV1, name: &str, options: &[(&str, Value)]) -> Result<Host, Error> {
        let decl = declaration(entry, name)?;
        let mut all: Vec<(&str, Value)> = Vec::new();
        for (key, option) in &decl.options {
            all.push((key, value_of(&option.default)));
        }
        for (key, value) in options {
            let declared = all.iter_mut().find(|(known, _)| known == key);
            let declared =
                declared.ok_or_else(|| Error::invalid(format!("the manifest declares no option `{key}`")))?;
            declared.1 = value.clone();
        }
        let mut host = Host::make(entry, name, name, &all)?;
        host.decl = Some(decl);
        Ok(host)
    }

    fn make(
        entry: &'static EntryV1,
        name: &str,
        in_plugin: &str,
        options: &[(&str, Value)],
    ) -> Result<Host, Error> {
        let mut context = Box::new(Context::new());
        context.options =
            options.iter().map(|(key, value)| (String::from(*key), Stored::new(value.clone()))).collect();
        let raw = Box::new(services::host(&context, 1));
        let name = name.to_owned();
        let mut host = Host { context, raw, entry, name, decl: None, executor: std::ptr::null_mut() };
        let create = host.table::<ExecutorV1>(executor_1::ID)?.create;
        let mut executor: Handle = std::ptr::null_mut();
        // SAFETY: the box keeps its place as long as `host` lives, which destroys the executor first.
        answer(unsafe { create(&*host.raw, Str::new(in_plugin), &mut executor) })?;
        host.executor = executor;
        Ok(host)
    }

    fn table<T>(&self, id: &str) -> Result<&'static T, Error> {
        // SAFETY: the plugin's function; the id is readable during the call.
        let found: *const c_void = unsafe { (self.entry.get_table)(Str::new(id)) };
        if found.is_null() {
            return Err(Error::unsupported(format!("the plugin has no {id}")));
        }
        // SAFETY: the tables of the SDK are of the type that goes with the id, and static.
        Ok(unsafe { &*found.cast::<T>() })
    }

    /// The executor's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The lines logged so far, with their levels.
    pub fn log(&self) -> Vec<(u32, String)> {
        self.context.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Asks `Executor::available`.
    pub fn available(&self) -> Result<(), Error> {
        let table = self.table::<ExecutorV1>(executor_1::ID)?;
        // SAFETY: the executor is alive.
        answer(unsafe { (table.available)(self.executor) })
    }

    /// Asks `Executor::selftest`.
    pub fn selftest(&self) -> Result<(), Error> {
        let table = self.table::<SelftestV1>(selftest_1::ID)?;
        // SAFETY: the executor is alive.
        answer(unsafe { (table.run)(self.executor) })
    }

    /// Asks `Executor::check`. The outer error is a failure (a panic, say), the inner one a refusal.
    pub fn check(&self, op: &OpSpec) -> Result<Result<(), Refusal>, Error> {
        let table = self.table::<ClaimV1>(claim_1::ID)?;
        let desc = Desc::new(op, When::Check);
        // SAFETY: the executor is alive, the description readable during the call.
        match unsafe { (table.check_op)(self.executor, &desc.raw()) } {
            status::REFUSED => Ok(Err(services::refusal())),
            other => answer(other).map(Ok),
        }
    }

    /// Whether the executor would take the op: the limits of its manifest first, then `Executor::check` where a claim asks for it. Of an executor made
    /// without a manifest only the check is asked.
    pub fn claims(&self, op: &OpSpec) -> Result<Result<(), Refusal>, Error> {
        let Some(decl) = &self.decl else { return self.check(op) };
        let inputs = op.inputs.iter().map(|tensor| Operand {
            dtype: tensor.dtype.name(),
            device: "cpu",
            rank: tensor.dims.len() as u32,
        });
        match decl.limits(&op.name, inputs) {
            Err(refusal) => Ok(Err(Refusal::new(refusal.code(), refusal.to_string()))),
            Ok(claim) if claim.check => self.check(op),
            Ok(_) => Ok(Ok(())),
        }
    }

    /// Makes a kernel for `op`, asks it what it is, and lets go of it.
    pub fn kernel(&self, op: &OpSpec) -> Result<Kernel, Error> {
        let made = self.make_kernel(op)?;
        Ok(Kernel {
            size_independent: made.info.flags & kernel_flags::SIZE_INDEPENDENT != 0,
            in_place: made.in_place(),
            workspace_bytes: made.workspace_bytes(1)?,
        })
    }

    /// Makes a kernel for `op` and runs it once, on one thread.
    pub fn run(&self, op: &OpSpec) -> Result<Vec<Tensor>, Error> {
        self.run_with(op, &RunOptions::default())
    }

    /// Makes a kernel for `op` and runs it. Fails where the kernel writes outside its outputs or leaves one of them
    /// without the size it was to decide.
    pub fn run_with(&self, op: &OpSpec, options: &RunOptions) -> Result<Vec<Tensor>, Error> {
        let made = self.make_kernel(op)?;
        let mut inputs = op.inputs.clone();
        let mut outputs = made.outputs(op)?;
        let shared = if options.in_place { made.sharing(&inputs, &outputs) } else { Vec::new() };
        let views: Vec<TensorView> = inputs.iter().map(Tensor::raw).collect();
        let mut out_views: Vec<TensorView> = outputs.iter().map(Output::raw).collect();
        for (output, input) in &shared {
            out_views[*output].data = views[*input].data;
        }
        let bytes = made.workspace_bytes(options.threads)?;
        let mut workspace = Memory::new(bytes, GARBAGE);
        let run = Run {
            outputs: op.outputs.iter().map(|output| (output.dtype, output.dims.clone())).collect(),
            allocated: RefCell::new(Vec::new()),
            cancelled: AtomicBool::new(false),
            threads: options.threads,
        };
        let numbers = op.raw_numbers();
        let args = RunArgs {
            size: std::mem::size_of::<RunArgs>() as u64,
            inputs: Array::new(&views),
            outputs: Array::new(&out_views),
            numbers: Array::new(&numbers),
            workspace: workspace.as_mut_ptr(),
            workspace_bytes: bytes as u64,
            threads: options.threads as u32,
            reserved: 0,
            run: std::ptr::from_ref(&run).cast_mut().cast(),
        };
        let before: Vec<Vec<u8>> = inputs.iter().map(|input| input.bytes().to_vec()).collect();
        made.run(&args, options)?;
        for (idx, input) in inputs.iter().enumerate() {
            let may_change = shared.iter().any(|(_, of)| *of == idx);
            if !may_change && input.bytes() != before[idx] {
                return Err(Error::internal(format!("the kernel wrote to input {idx}")));
            }
        }
        for (output, input) in &shared {
            outputs[*output].take_from(&mut inputs[*input]);
        }
        let mut given = run.allocated.into_inner();
        outputs
            .into_iter()
            .enumerate()
            .map(|(idx, output)| match given.iter().position(|other| other.output == idx) {
                Some(at) => Ok(*given.swap_remove(at).tensor),
                None => output.finish(idx),
            })
            .collect()
    }

    fn make_kernel(&self, op: &OpSpec) -> Result<Made<'_>, Error> {
        let table = self.table::<KernelV1>(kernel_1::ID)?;
        let desc = Desc::new(op, When::Make);
        let mut info = KernelInfo {
            size: std::mem::size_of::<KernelInfo>() as u64,
            kernel: std::ptr::null_mut(),
            flags: 0,
            in_place: Array::EMPTY,
            output_strides: Array::EMPTY,
        };
        // SAFETY: the executor is alive, the description readable and `info` writable during the call.
        answer(unsafe { (table.make)(self.executor, &desc.raw(), &mut info) })?;
        Ok(Made { host: self, table, info })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.executor.is_null() {
            return;
        }
        if let Ok(table) = self.table::<ExecutorV1>(executor_1::ID) {
            // SAFETY: alive, with no kernel left (kernels borrow the host), and used for the last time.
            unsafe { (table.destroy)(self.executor) };
        }
    }
}

/// What the manifest says of the executor, once manifest and code agree.
fn declaration(entry: &'static EntryV1, name: &str) -> Result<ExecutorDeclaration, Error> {
    // SAFETY: the plugin's function; what it returns is static.
    let description = unsafe { &*(entry.describe)() };
    // SAFETY: static texts.
    let text = unsafe { description.manifest.text() }.unwrap_or_default();
    let (manifest, warnings) = Manifest::parse(text).map_err(|errors| Error::invalid(errors.to_string()))?;
    if let Some(warning) = warnings.first() {
        return Err(Error::invalid(format!("plugin.toml: {warning}")));
    }
    // SAFETY: as above.
    let names = unsafe { description.executors.items() };
    // SAFETY: as above.
    let names = names.into_iter().flat_map(|names| names.iter()).filter_map(|name| unsafe { name.text() });
    let names: Vec<&str> = names.collect();
    let declared: Vec<&str> = manifest.executors.iter().map(|executor| executor.name.as_str()).collect();
    if names.iter().any(|name| !declared.contains(name)) || declared.iter().any(|name| !names.contains(name))
    {
        return Err(Error::invalid(format!("plugin.toml declares {declared:?}, the code has {names:?}")));
    }
    let decl = manifest.executor(name).cloned();
    decl.ok_or_else(|| Error::invalid(format!("plugin.toml declares no executor `{name}`")))
}

fn value_of(plain: &Plain) -> Value {
    match plain {
        Plain::Bool(value) => Value::Bool(*value),
        Plain::Int(value) => Value::Int(*value),
        Plain::Float(value) => Value::Float(*value),
        Plain::Str(text) => Value::String(text.clone()),
        Plain::List(items) => Value::List(
            items
                .iter()
                .map(|item| match item {
                    Plain::Str(text) => text.clone(),
                    other => other.to_string(),
                })
                .collect(),
        ),
    }
}

fn answer(status: Status) -> Result<(), Error> {
    if status == status::OK { Ok(()) } else { Err(services::failure(status)) }
}

/// A kernel; frees itself.
struct Made<'h> {
    host: &'h Host,
    table: &'static KernelV1,
    info: KernelInfo,
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        // SAFETY: alive, not in use, and used for the last time.
        unsafe { (self.table.free)(self.info.kernel) };
    }
}

impl Made<'_> {
    fn in_place(&self) -> Vec<(usize, usize)> {
        // SAFETY: alive as long as the kernel.
        let pairs = unsafe { self.info.in_place.items() };
        pairs
            .map(|pairs| pairs.iter().map(|pair| (pair.output as usize, pair.input as usize)).collect())
            .unwrap_or_default()
    }

    fn workspace_bytes(&self, threads: usize) -> Result<usize, Error> {
        let Ok(table) = self.host.table::<WorkspaceV1>(workspace_1::ID) else { return Ok(0) };
        let mut bytes = 0;
        // SAFETY: the kernel is alive, `bytes` writable during the call.
        answer(unsafe { (table.bytes)(self.info.kernel, threads as u32, &mut bytes) })?;
        Ok(bytes as usize)
    }

    fn outputs(&self, op: &OpSpec) -> Result<Vec<Output>, Error> {
        // SAFETY: alive as long as the kernel.
        let stated = unsafe { self.info.output_strides.items() }
            .ok_or_else(|| Error::internal("the kernel's output strides are malformed"))?;
        let strides_of = |output: usize| -> Option<Vec<i64>> {
            let found = stated.iter().find(|of| of.output as usize == output)?;
            // SAFETY: `rank` strides, alive as long as the kernel.
            unsafe { crate::author::ints(found.strides, found.rank) }.map(<[i64]>::to_vec)
        };
        op.outputs
            .iter()
            .enumerate()
            .map(|(idx, output)| Output::new(output.dtype, &output.dims, strides_of(idx)))
            .collect()
    }

    fn sharing(&self, inputs: &[Tensor], outputs: &[Output]) -> Vec<(usize, usize)> {
        let mut pairs = self.in_place();
        pairs.retain(|(output, input)| {
            let (Some(to), Some(from)) = (outputs.get(*output), inputs.get(*input)) else { return false };
            to.dims == from.dims
                && to.strides == from.strides
                && from.offset_elems == 0
                && to.dtype.size_bytes() == from.dtype.size_bytes()
        });
        pairs.sort_unstable();
        pairs.dedup_by_key(|(output, _)| *output);
        let mut taken = Vec::new();
        pairs.retain(|(_, input)| {
            let free = !taken.contains(input);
            taken.push(*input);
            free
        });
        pairs
    }

    fn run(&self, args: &RunArgs, options: &RunOptions) -> Result<(), Error> {
        let table = self.host.table::<BindV1>(bind_1::ID).ok().filter(|_| options.bind);
        let mut bound: Handle = std::ptr::null_mut();
        if let Some(table) = table {
            let bind = BindArgs {
                size: std::mem::size_of::<BindArgs>() as u64,
                inputs: args.inputs,
                outputs: args.outputs,
                workspace: args.workspace,
                workspace_bytes: args.workspace_bytes,
                threads: args.threads,
                reserved: 0,
            };
            // SAFETY: the kernel is alive, the arguments are readable and `bound` writable during the call.
            answer(unsafe { (table.bind)(self.info.kernel, &bind, &mut bound) })?;
        }
        let mut result = Ok(());
        for _ in 0..options.runs {
            result = result.and_then(|()| {
                answer(match table.filter(|_| !bound.is_null()) {
                    // SAFETY: bound to the tensors of `args`.
                    Some(table) => unsafe { (table.run)(bound, args) },
                    // SAFETY: the kernel is alive, the arguments are readable during the call.
                    None => unsafe { (self.table.run)(self.info.kernel, args) },
                })
            });
        }
        if let Some(table) = table.filter(|_| !bound.is_null()) {
            // SAFETY: alive, and used for the last time.
            let unbound = answer(unsafe { (table.unbind)(bound) });
            result = result.and(unbound);
        }
        result
    }
}

/// An output between guard bytes.
struct Output {
    dtype: crate::Dtype,
    dims: Vec<i64>,
    strides: Vec<i64>,
    elems: usize,
    memory: Memory,
}

impl Output {
    fn new(dtype: crate::Dtype, dims: &[i64], stated: Option<Vec<i64>>) -> Result<Output, Error> {
        let unknown = dims.contains(&UNKNOWN);
        let strides = stated.unwrap_or_else(|| crate::dense_strides(dims));
        if strides.len() != dims.len() {
            return Err(Error::internal(format!("strides {strides:?} do not fit dims {dims:?}")));
        }
        let reach: i64 = dims.iter().zip(&strides).map(|(dim, stride)| (dim - 1).max(0) * stride).sum();
        let elems = if unknown || dims.contains(&0) { 0 } else { reach as usize + 1 };
        let bytes = elems * dtype.size_bytes();
        let mut memory = Memory::new(bytes + 2 * GUARD_BYTES, GUARD);
        memory.bytes_mut()[GUARD_BYTES..GUARD_BYTES + bytes].fill(GARBAGE);
        Ok(Output { dtype, dims: dims.to_vec(), strides, elems, memory })
    }

    fn raw(&self) -> TensorView {
        let unknown = self.dims.contains(&UNKNOWN);
        let dense = self.strides == crate::dense_strides(&self.dims);
        let start = self.memory.bytes().as_ptr().cast_mut();
        TensorView {
            data: if unknown { std::ptr::null_mut() } else { start.wrapping_add(GUARD_BYTES) },
            byte_offset: 0,
            dtype: self.dtype.code(),
            device_kind: thunderhead_abi::dtype::DEVICE_CPU,
            device_index: 0,
            rank: self.dims.len() as u32,
            dims: self.dims.as_ptr(),
            strides: if unknown { std::ptr::null() } else { self.strides.as_ptr() },
            flags: if dense && !unknown { thunderhead_abi::tensor::view_flags::CONTIGUOUS } else { 0 },
            constant_id: 0,
            constant_version: 0,
            owner: std::ptr::null_mut(),
            retain: None,
            release: None,
        }
    }

    fn take_from(&mut self, input: &mut Tensor) {
        let bytes = self.elems * self.dtype.size_bytes();
        self.memory.bytes_mut()[GUARD_BYTES..GUARD_BYTES + bytes].copy_from_slice(&input.bytes()[..bytes]);
    }

    fn finish(self, idx: usize) -> Result<Tensor, Error> {
        if self.dims.contains(&UNKNOWN) {
            return Err(Error::internal(format!("the kernel did not allocate output {idx}")));
        }
        let bytes = self.elems * self.dtype.size_bytes();
        let all = self.memory.bytes();
        let guards = all[..GUARD_BYTES].iter().chain(&all[GUARD_BYTES + bytes..]);
        if guards.into_iter().any(|byte| *byte != GUARD) {
            return Err(Error::internal(format!("the kernel wrote outside output {idx}")));
        }
        let mut memory = Memory::new(bytes, 0);
        memory.bytes_mut().copy_from_slice(&all[GUARD_BYTES..GUARD_BYTES + bytes]);
        let Output { dtype, dims, strides, .. } = self;
        Ok(Tensor { dtype, dims, strides, offset_elems: 0, memory, constant: None })
    }
}
