//! The fake host's tables.

use super::tensor::{Memory, Tensor};
use crate::{Dtype, Error, ErrorKind, Refusal, dense_strides};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use thunderhead_abi::alloc_1::{self, AllocV1};
use thunderhead_abi::basic::{Array, Handle, Status, Str, status};
use thunderhead_abi::cancel_1::{self, CancelV1};
use thunderhead_abi::clock_1::{self, ClockV1};
use thunderhead_abi::error_1::{self, ErrorV1};
use thunderhead_abi::host::HostV1;
use thunderhead_abi::log_1::{self, LogV1, level};
use thunderhead_abi::options_1::{self, OptionValue, OptionsV1, option_kind};
use thunderhead_abi::parallel_1::{self, ChunkBody, ParallelV1};
use thunderhead_abi::tensor::TensorView;
use thunderhead_abi::{ABI_MAJOR, ABI_MINOR};

thread_local! {
    static LAST_ERROR: RefCell<Option<(Status, String)>> = const { RefCell::new(None) };
    static LAST_REFUSAL: RefCell<Option<Refusal>> = const { RefCell::new(None) };
}

/// What `ctx` points at.
pub(super) struct Context {
    pub options: BTreeMap<String, Stored>,
    pub lines: Mutex<Vec<(u32, String)>>,
    started: Instant,
}

/// What `run` points at.
pub(super) struct Run {
    pub outputs: Vec<(Dtype, Vec<i64>)>,
    pub allocated: RefCell<Vec<Allocated>>,
    pub cancelled: AtomicBool,
    pub threads: usize,
}

/// An output that a kernel asked memory for.
pub(super) struct Allocated {
    pub output: usize,
    pub tensor: Box<Tensor>,
    _view: Box<TensorView>,
}

impl Context {
    pub fn new() -> Context {
        Context { options: BTreeMap::new(), lines: Mutex::new(Vec::new()), started: Instant::now() }
    }
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Type `bool`.
    Bool(bool),
    /// Type `int`.
    Int(i64),
    /// Type `float`.
    Float(f64),
    /// Type `string`.
    String(String),
    /// Type `list`.
    List(Vec<String>),
}

/// An option in its form for the border, with what it points at.
pub(super) struct Stored {
    raw: OptionValue,
    _texts: Vec<Str>,
    _value: Box<Value>,
}

impl Stored {
    pub fn new(value: Value) -> Stored {
        let value = Box::new(value);
        let mut texts = Vec::new();
        let raw = match &*value {
            Value::Bool(value) => plain(option_kind::BOOL, u64::from(*value)),
            Value::Int(value) => plain(option_kind::INT, *value as u64),
            Value::Float(value) => plain(option_kind::FLOAT, value.to_bits()),
            Value::String(text) => OptionValue { text: Str::new(text), ..plain(option_kind::STRING, 0) },
            Value::List(list) => {
                texts = list.iter().map(|text| Str::new(text)).collect();
                OptionValue { list: Array::new(&texts), ..plain(option_kind::LIST, 0) }
            }
        };
        Stored { raw, _texts: texts, _value: value }
    }
}

fn plain(kind: u32, value: u64) -> OptionValue {
    OptionValue { kind, reserved: 0, value, text: Str::EMPTY, list: Array::EMPTY }
}

pub(super) fn host(ctx: &Context, threads: u32) -> HostV1 {
    HostV1 {
        size: std::mem::size_of::<HostV1>() as u64,
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        ctx: std::ptr::from_ref(ctx).cast_mut().cast(),
        get_table,
        name: Str::new("fake host"),
        threads,
        reserved: 0,
    }
}

/// The failure behind a status, with the message that the plugin has set.
pub(super) fn failure(answer: Status) -> Error {
    let set = LAST_ERROR.with_borrow_mut(Option::take);
    let message = set.filter(|(status, _)| *status == answer).map(|(_, message)| message);
    Error::new(ErrorKind::from_status(answer), message.unwrap_or_default())
}

pub(super) fn refusal() -> Refusal {
    let set = LAST_REFUSAL.with_borrow_mut(Option::take);
    set.unwrap_or_else(|| Refusal::new("no_reason", "the executor refused without a reason"))
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
        Some(options_1::ID) => table!(OptionsV1 { get }),
        Some(alloc_1::ID) => table!(AllocV1 { alloc_output }),
        Some(parallel_1::ID) => table!(ParallelV1 { parallel_for }),
        Some(cancel_1::ID) => table!(CancelV1 { cancelled }),
        Some(clock_1::ID) => table!(ClockV1 { now_ns }),
        _ => std::ptr::null(),
    }
}

/// # Safety
/// `ctx` is that of a `Host` that is alive.
unsafe fn context<'a>(ctx: Handle) -> &'a Context {
    // SAFETY: by the caller's word.
    unsafe { &*ctx.cast::<Context>() }
}

fn owned(text: Str) -> String {
    // SAFETY: readable during the call that passed it.
    unsafe { text.bytes() }.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

unsafe extern "C" fn max_level(_: Handle) -> u32 {
    level::TRACE
}

unsafe extern "C" fn log(ctx: Handle, level: u32, _: Str, message: Str) {
    // SAFETY: the plugin passes the context on.
    let context = unsafe { context(ctx) };
    let mut lines = context.lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    lines.push((level, owned(message)));
}

unsafe extern "C" fn set(_: Handle, status: Status, message: Str) {
    LAST_ERROR.set(Some((status, owned(message))));
}

unsafe extern "C" fn refuse(_: Handle, refusal: *const error_1::Refusal) {
    // SAFETY: readable during the call.
    let raw = unsafe { &*refusal };
    let mut refusal = Refusal::new(owned(raw.code), owned(raw.sentence));
    refusal.attribute = Some(owned(raw.attribute)).filter(|name| !name.is_empty());
    refusal.dim = usize::try_from(raw.dim).ok().map(|dim| (dim, raw.dim_value));
    LAST_REFUSAL.set(Some(refusal));
}

unsafe extern "C" fn get(ctx: Handle, key: Str, out: *mut *const OptionValue) -> Status {
    // SAFETY: the plugin passes the context on.
    let context = unsafe { context(ctx) };
    match context.options.get(&owned(key)) {
        Some(value) => {
            // SAFETY: writable during the call.
            unsafe { out.write(&value.raw) };
            status::OK
        }
        None => status::INVALID_ARGUMENT,
    }
}

unsafe extern "C" fn alloc_output(
    run: Handle,
    output: u32,
    claimed: u32,
    dims: *const i64,
    rank: u32,
    out: *mut *const TensorView,
) -> Status {
    // SAFETY: the plugin passes the run on.
    let run = unsafe { &*run.cast::<Run>() };
    // SAFETY: `rank` dims, readable during the call.
    let dims = unsafe { crate::author::ints(dims, rank) }.unwrap_or(&[]);
    let Some((dtype, expected)) = run.outputs.get(output as usize) else { return status::INVALID_ARGUMENT };
    let fits = expected.len() == dims.len()
        && expected.iter().zip(dims).all(|(expected, dim)| *dim >= 0 && (*expected == -1 || expected == dim));
    let mut allocated = run.allocated.borrow_mut();
    if !fits
        || (claimed != 0 && claimed != dtype.code())
        || !expected.contains(&-1)
        || allocated.iter().any(|other| other.output == output as usize)
    {
        return status::INVALID_ARGUMENT;
    }
    let numel: i64 = dims.iter().product();
    let tensor = Box::new(Tensor {
        dtype: *dtype,
        dims: dims.to_vec(),
        strides: dense_strides(dims),
        offset_elems: 0,
        memory: Memory::new(numel as usize * dtype.size_bytes(), 0xA5),
        constant: None,
    });
    let view = Box::new(tensor.raw());
    // SAFETY: writable during the call; the box keeps its place until the run ends.
    unsafe { out.write(&raw const *view) };
    allocated.push(Allocated { output: output as usize, tensor, _view: view });
    status::OK
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
    let threads = unsafe { &*run.cast::<Run>() }.threads;
    let shared = Shared(ctx);
    let next = AtomicU64::new(0);
    let failed = AtomicU64::new(u64::from(status::OK));
    let work = || loop {
        let chunk = next.fetch_add(1, Ordering::Relaxed);
        if chunk >= n_chunks {
            return;
        }
        // SAFETY: each chunk once, with the plugin's own context.
        let answer = unsafe { (body.call)(shared.get(), chunk) };
        if answer != status::OK {
            failed.store(u64::from(answer), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    failed.into_inner() as Status
}

unsafe extern "C" fn cancelled(run: Handle) -> u32 {
    // SAFETY: the plugin passes the run on.
    u32::from(unsafe { &*run.cast::<Run>() }.cancelled.load(Ordering::Relaxed))
}

unsafe extern "C" fn now_ns(ctx: Handle) -> u64 {
    // SAFETY: the plugin passes the context on.
    unsafe { context(ctx) }.started.elapsed().as_nanos() as u64
}
