//! The host's tables, as plugins call them.
//!
//! Nothing here trusts a pointer further than the ABI's contract goes, and nothing unwinds: a function that cannot do
//! its work returns a status. What a plugin says on a thread (an error, a refusal) is kept for that thread until the
//! call that is under way returns.

use super::desc;
use super::region::{decompose, delegate, kernel_step, taker, temporary};
use crate::memory::Tensor;
use crate::plan::RunContext;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use thunderhead_abi::alloc_1::{self, AllocV1};
use thunderhead_abi::basic::{Array, Handle, Status, Str, is_understood, status};
use thunderhead_abi::cancel_1::{self, CancelV1};
use thunderhead_abi::clock_1::{self, ClockV1};
use thunderhead_abi::error_1::{self, ErrorV1};
use thunderhead_abi::host::HostV1;
use thunderhead_abi::ir_1::{self, IrV1, WriteText};
use thunderhead_abi::log_1::{self, LogV1};
use thunderhead_abi::lower_1::{self, LowerV1};
use thunderhead_abi::op::OpDesc;
use thunderhead_abi::options_1::{self, OptionValue, OptionsV1, option_kind};
use thunderhead_abi::parallel_1::{self, ChunkBody, ParallelV1};
use thunderhead_abi::tensor::{TensorView, view_flags};
use thunderhead_abi::{ABI_MAJOR, ABI_MINOR, IR_MAJOR, IR_MINOR};
use thunderhead_manifest::Plain;

/// A refusal as the plugin gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SaidRefusal {
    pub code: String,
    pub sentence: String,
    pub attribute: Option<String>,
    pub dim: Option<(i64, i64)>,
}

thread_local! {
    static ERROR: RefCell<Option<(Status, String)>> = const { RefCell::new(None) };
    static REFUSAL: RefCell<Option<SaidRefusal>> = const { RefCell::new(None) };
}

/// Forgets what was said on this thread; before a call.
pub(super) fn forget_said() {
    ERROR.set(None);
    REFUSAL.set(None);
}

/// The message that goes with `status`, if the plugin gave one.
pub(super) fn take_error(status: Status) -> Option<String> {
    ERROR.take().filter(|(said, _)| *said == status).map(|(_, message)| message)
}

pub(super) fn take_refusal() -> Option<SaidRefusal> {
    REFUSAL.take()
}

/// What a plugin's `ctx` points at; lives as long as the process.
pub(super) struct Context {
    /// Log target: the plugin's id.
    plugin: String,
    options: BTreeMap<String, StoredOption>,
    raw: OnceLock<HostV1>,
    threads: u32,
}

struct StoredOption {
    raw: OptionValue,
    _texts: Vec<Str>,
    _owned: Box<[String]>,
}

// SAFETY: texts are owned beside the views and never change; `HostV1`'s pointer is the context itself.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl StoredOption {
    fn new(value: &Plain) -> StoredOption {
        let text = |value: &Plain| match value {
            Plain::Str(text) => text.clone(),
            other => other.to_string(),
        };
        let owned: Box<[String]> = match value {
            Plain::List(items) => items.iter().map(text).collect(),
            other => [text(other)].into(),
        };
        let texts: Vec<Str> = owned.iter().map(|text| Str::new(text)).collect();
        let plain =
            |kind, value| OptionValue { kind, reserved: 0, value, text: Str::EMPTY, list: Array::EMPTY };
        let raw = match value {
            Plain::Bool(value) => plain(option_kind::BOOL, u64::from(*value)),
            Plain::Int(value) => plain(option_kind::INT, *value as u64),
            Plain::Float(value) => plain(option_kind::FLOAT, value.to_bits()),
            Plain::Str(_) => OptionValue { text: texts[0], ..plain(option_kind::STRING, 0) },
            Plain::List(_) => OptionValue { list: Array::new(&texts), ..plain(option_kind::LIST, 0) },
        };
        StoredOption { raw, _texts: texts, _owned: owned }
    }
}

impl Context {
    /// A context for one executor. It is never freed: plugins may keep what it hands out.
    pub fn leak(plugin: &str, options: &BTreeMap<String, Plain>, threads: u32) -> &'static Context {
        let options = options.iter().map(|(key, value)| (key.clone(), StoredOption::new(value))).collect();
        Box::leak(Box::new(Context { plugin: plugin.to_owned(), options, raw: OnceLock::new(), threads }))
    }

    /// What `create` is given.
    pub fn host(&'static self) -> &'static HostV1 {
        const NAME: &str = concat!("thunderhead ", env!("CARGO_PKG_VERSION"));
        self.raw.get_or_init(|| HostV1 {
            size: std::mem::size_of::<HostV1>() as u64,
            abi_major: ABI_MAJOR,
            abi_minor: ABI_MINOR,
            ctx: std::ptr::from_ref(self).cast_mut().cast(),
            get_table,
            name: Str::new(NAME),
            threads: self.threads,
            reserved: 0,
        })
    }
}

/// What a run's handle points at; lives as long as the call.
pub(super) struct Run<'a> {
    pub context: &'a RunContext<'a>,
    pub outputs: &'a [super::kernel::Expected],
    pub allocated: RefCell<Vec<Allocated>>,
    /// What was wrong with a request of the kernel, whatever it makes of the answer.
    pub bad_request: RefCell<Option<String>>,
}

/// An output that a kernel asked memory for.
pub(super) struct Allocated {
    pub output: usize,
    pub tensor: Tensor,
    view: Box<TensorView>,
}

unsafe extern "C" fn get_table(_: Handle, id: Str) -> *const c_void {
    macro_rules! table {
        ($type:ident { $($field:ident),* }) => {{
            static TABLE: $type = $type { size: std::mem::size_of::<$type>() as u64, $($field),* };
            (&raw const TABLE).cast()
        }};
    }
    // SAFETY: readable during the call.
    match unsafe { id.text() } {
        Some(log_1::ID) => table!(LogV1 { max_level, log }),
        Some(error_1::ID) => table!(ErrorV1 { set, refuse }),
        Some(ir_1::ID) => table!(IrV1 { version, op_schema, op_text, decompose, taker }),
        Some(lower_1::ID) => table!(LowerV1 { temporary, kernel_step, delegate }),
        Some(alloc_1::ID) => table!(AllocV1 { alloc_output }),
        Some(parallel_1::ID) => table!(ParallelV1 { parallel_for }),
        Some(options_1::ID) => table!(OptionsV1 { get }),
        Some(cancel_1::ID) => table!(CancelV1 { cancelled }),
        Some(clock_1::ID) => table!(ClockV1 { now_ns }),
        _ => std::ptr::null(),
    }
}

/// # Safety
/// `ctx` is one that [`Context::host`] gave out.
unsafe fn context(ctx: Handle) -> &'static Context {
    // SAFETY: by the caller's word; never freed.
    unsafe { &*ctx.cast::<Context>() }
}

/// # Safety
/// `run` is the handle of a run that is under way.
unsafe fn run_of<'a>(run: Handle) -> &'a Run<'a> {
    // SAFETY: by the caller's word.
    unsafe { &*run.cast::<Run<'a>>() }
}

/// # Safety
/// `ptr` is null or has `len` values that are readable for `'a`.
pub(super) unsafe fn ints<'a>(ptr: *const i64, len: u32) -> Option<&'a [i64]> {
    if len == 0 {
        return Some(&[]);
    }
    // A tensor of more dims than this is no tensor.
    const MAX_RANK: u32 = 1 << 16;
    // SAFETY: not null, `len` values by the caller's word.
    (!ptr.is_null() && len <= MAX_RANK).then(|| unsafe { std::slice::from_raw_parts(ptr, len as usize) })
}

/// Text of a plugin, bounded and made printable.
fn owned(text: Str) -> String {
    const MAX_BYTES: usize = 64 << 10;
    // SAFETY: readable during the call that passed it.
    let bytes = unsafe { text.bytes() }.unwrap_or_default();
    let bytes = &bytes[..bytes.len().min(MAX_BYTES)];
    String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn level_of(level: u32) -> log::Level {
    match level {
        0 | log_1::level::ERROR => log::Level::Error,
        log_1::level::WARN => log::Level::Warn,
        log_1::level::INFO => log::Level::Info,
        log_1::level::DEBUG => log::Level::Debug,
        _ => log::Level::Trace,
    }
}

unsafe extern "C" fn max_level(ctx: Handle) -> u32 {
    // SAFETY: the plugin passes its context on.
    let context = unsafe { context(ctx) };
    let kept = |level: &u32| {
        let level = level_of(*level);
        let metadata = log::Metadata::builder().level(level).target(&context.plugin).build();
        level <= log::max_level() && log::logger().enabled(&metadata)
    };
    (log_1::level::ERROR..=log_1::level::TRACE).rev().find(kept).unwrap_or(0)
}

unsafe extern "C" fn log(ctx: Handle, level: u32, target: Str, message: Str) {
    // SAFETY: the plugin passes its context on.
    let context = unsafe { context(ctx) };
    let target = owned(target);
    let target =
        if target.is_empty() { context.plugin.clone() } else { format!("{}::{target}", context.plugin) };
    log::log!(target: &target, level_of(level), "{}", owned(message));
}

unsafe extern "C" fn set(_: Handle, status: Status, message: Str) {
    ERROR.set(Some((status, owned(message))));
}

unsafe extern "C" fn refuse(_: Handle, refusal: *const error_1::Refusal) {
    if refusal.is_null() {
        return;
    }
    // SAFETY: readable during the call.
    let raw = unsafe { &*refusal };
    // SAFETY: the plugin's struct has the bytes that it says.
    if !unsafe { is_understood(refusal, raw.size) } {
        return;
    }
    REFUSAL.set(Some(SaidRefusal {
        code: owned(raw.code),
        sentence: owned(raw.sentence),
        attribute: Some(owned(raw.attribute)).filter(|name| !name.is_empty()),
        dim: (raw.dim >= 0).then_some((raw.dim, raw.dim_value)),
    }));
}

unsafe extern "C" fn version(_: Handle) -> u64 {
    u64::from(IR_MAJOR) << 32 | u64::from(IR_MINOR)
}

unsafe extern "C" fn op_schema(_: Handle, name: Str, out: *mut Str) -> Status {
    // SAFETY: readable during the call.
    let op = unsafe { name.text() }.and_then(crate::ops::find);
    match op {
        Some(op) => {
            // SAFETY: writable during the call; the table's texts are static.
            unsafe { out.write(Str::new(op.schema)) };
            status::OK
        }
        None => status::UNSUPPORTED,
    }
}

unsafe extern "C" fn op_text(_: Handle, op: *const OpDesc, write: WriteText, to: *mut c_void) -> Status {
    if op.is_null() {
        return status::INVALID_ARGUMENT;
    }
    // SAFETY: one that we handed out, within the call that it was handed to.
    let text = unsafe { desc::text_of(&*op) };
    // SAFETY: the plugin's own function with its own argument; the text is readable during the call.
    unsafe { (write.call)(to, Str::new(&text)) };
    status::OK
}

unsafe extern "C" fn get(ctx: Handle, key: Str, out: *mut *const OptionValue) -> Status {
    // SAFETY: the plugin passes its context on.
    let context = unsafe { context(ctx) };
    // SAFETY: readable during the call.
    let value = unsafe { key.text() }.and_then(|key| context.options.get(key));
    match value {
        Some(value) => {
            // SAFETY: writable during the call; the context is never freed.
            unsafe { out.write(&value.raw) };
            status::OK
        }
        None => status::INVALID_ARGUMENT,
    }
}

unsafe extern "C" fn alloc_output(
    run: Handle,
    output: u32,
    dtype: u32,
    dims: *const i64,
    rank: u32,
    out: *mut *const TensorView,
) -> Status {
    // SAFETY: the plugin passes the run on.
    let run = unsafe { run_of(run) };
    // SAFETY: `rank` dims, readable during the call.
    let dims = unsafe { ints(dims, rank) };
    match allocate(run, output as usize, dtype, dims) {
        Ok(view) => {
            // SAFETY: writable during the call; the view stays in place until the kernel returns.
            unsafe { out.write(view) };
            status::OK
        }
        Err((status, why)) => {
            run.bad_request.replace(Some(why));
            status
        }
    }
}

fn allocate(
    run: &Run<'_>,
    output: usize,
    dtype: u32,
    dims: Option<&[i64]>,
) -> Result<*const TensorView, (Status, String)> {
    let bad = |why: String| (status::INVALID_ARGUMENT, why);
    let Some(expected) = run.outputs.get(output) else {
        return Err(bad(format!("it asked memory for output {output} of {}", run.outputs.len())));
    };
    let dims = dims.ok_or_else(|| bad(format!("it asked memory for output {output} without dims")))?;
    if expected.dims.is_some() {
        return Err(bad(format!("it asked memory for output {output}, which has some already")));
    }
    if dims.len() != expected.rank || dims.iter().any(|dim| *dim < 0) {
        let rank = expected.rank;
        return Err(bad(format!("it gave output {output} dims {dims:?}; it has {rank} dims")));
    }
    let code = desc::dtype_to_abi(expected.dtype);
    if dtype != 0 && dtype != code {
        let found = thunderhead_abi::dtype::ALL
            .iter()
            .find(|(code, ..)| *code == dtype)
            .map_or("?", |(_, name, _)| name);
        return Err(bad(format!("it wants to write output {output} as {found}; it is {}", expected.dtype)));
    }
    let mut allocated = run.allocated.borrow_mut();
    if allocated.iter().any(|other| other.output == output) {
        return Err(bad(format!("it asked twice for memory for output {output}")));
    }
    let tensor = Tensor::for_results(expected.dtype, dims)
        .map_err(|error| (status::OUT_OF_MEMORY, format!("output {output} of dims {dims:?}: {error}")))?;
    let view = Box::new(TensorView {
        data: tensor.operand().addr(),
        byte_offset: 0,
        dtype: code,
        device_kind: thunderhead_abi::dtype::DEVICE_CPU,
        device_index: 0,
        rank: dims.len() as u32,
        dims: tensor.dims().as_ptr(),
        strides: tensor.strides_elems().as_ptr(),
        flags: view_flags::CONTIGUOUS,
        constant_id: 0,
        constant_version: 0,
        owner: std::ptr::null_mut(),
        retain: None,
        release: None,
    });
    let at: *const TensorView = &raw const *view;
    allocated.push(Allocated { output, tensor, view });
    Ok(at)
}

impl Allocated {
    /// The tensor, once the kernel is done with its view.
    pub fn into_tensor(self) -> Tensor {
        drop(self.view);
        self.tensor
    }
}

unsafe extern "C" fn parallel_for(run: Handle, n_chunks: u64, body: ChunkBody, ctx: *mut c_void) -> Status {
    struct Shared(*mut c_void);
    // SAFETY: `parallel/1` says that the body may be called from several threads.
    unsafe impl Sync for Shared {}
    impl Shared {
        fn get(&self) -> *mut c_void {
            self.0
        }
    }
    // SAFETY: the plugin passes the run on.
    let run = unsafe { run_of(run) };
    let Ok(n_chunks) = usize::try_from(n_chunks) else { return status::INVALID_ARGUMENT };
    let shared = Shared(ctx);
    let failed = AtomicU32::new(status::OK);
    let context = run.context;
    context.pool.parallel_for(context.threads, n_chunks, &|chunk| {
        if failed.load(Ordering::Relaxed) != status::OK {
            return;
        }
        // SAFETY: each chunk once, with the plugin's own context.
        let answer = unsafe { (body.call)(shared.get(), chunk as u64) };
        if answer != status::OK {
            let _ = failed.compare_exchange(status::OK, answer, Ordering::Relaxed, Ordering::Relaxed);
        }
    });
    failed.into_inner()
}

unsafe extern "C" fn cancelled(run: Handle) -> u32 {
    // SAFETY: the plugin passes the run on.
    u32::from(unsafe { run_of(run) }.context.cancel.load(Ordering::Relaxed))
}

/// Nanoseconds on the clock that the host and all plugins share.
pub fn clock_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

unsafe extern "C" fn now_ns(_: Handle) -> u64 {
    clock_ns()
}
