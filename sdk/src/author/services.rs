//! The host's tables as one executor uses them: fetched once at create, absent ones replaced by their documented
//! default.

use super::error::{Error, ErrorKind, Refusal};
use std::ffi::c_void;
use std::sync::Arc;
use thunderhead_abi::basic::{Handle, Status, Str, is_understood};
use thunderhead_abi::host::HostV1;
use thunderhead_abi::{alloc_1, cancel_1, clock_1, error_1, ir_1, log_1, lower_1, options_1, parallel_1};

pub(crate) struct Services {
    pub ctx: Handle,
    pub host_name: String,
    pub threads: u32,
    log: Option<&'static log_1::LogV1>,
    error: Option<&'static error_1::ErrorV1>,
    pub options: Option<&'static options_1::OptionsV1>,
    pub lower: Option<&'static lower_1::LowerV1>,
    pub alloc: Option<&'static alloc_1::AllocV1>,
    pub parallel: Option<&'static parallel_1::ParallelV1>,
    pub cancel: Option<&'static cancel_1::CancelV1>,
    clock: Option<&'static clock_1::ClockV1>,
    pub ir: Option<&'static ir_1::IrV1>,
}

// SAFETY: the host's context and tables may be used from any thread, as each function says.
unsafe impl Send for Services {}
// SAFETY: as above.
unsafe impl Sync for Services {}

impl Services {
    /// # Safety
    /// `host` must be filled in as `thunderhead-abi` asks and live as long as the process.
    pub unsafe fn new(host: &HostV1) -> Result<Arc<Services>, Error> {
        // SAFETY: the host's struct has the bytes that it says.
        if !unsafe { is_understood(host, host.size) } {
            return Err(Error::version_of("HostV1", host.size, std::mem::size_of::<HostV1>()));
        }
        // SAFETY: the host's text lives as long as the process.
        let host_name = unsafe { host.name.text() }.unwrap_or("").to_owned();
        // SAFETY: each id goes with its table's type.
        unsafe {
            Ok(Arc::new(Services {
                ctx: host.ctx,
                host_name,
                threads: host.threads,
                log: table(host, log_1::ID)?,
                error: table(host, error_1::ID)?,
                options: table(host, options_1::ID)?,
                lower: table(host, lower_1::ID)?,
                alloc: table(host, alloc_1::ID)?,
                parallel: table(host, parallel_1::ID)?,
                cancel: table(host, cancel_1::ID)?,
                clock: table(host, clock_1::ID)?,
                ir: table(host, ir_1::ID)?,
            }))
        }
    }

    pub fn report(&self, error: &Error) -> Status {
        let status = error.kind().status();
        if let Some(table) = self.error {
            // SAFETY: the text is readable during the call.
            unsafe { (table.set)(self.ctx, status, Str::new(error.message())) };
        }
        status
    }

    pub fn refuse(&self, refusal: &Refusal) {
        let Some(table) = self.error else { return };
        let (dim, dim_value) = refusal.dim.map_or((-1, 0), |(dim, value)| (dim as i64, value));
        let raw = error_1::Refusal {
            size: std::mem::size_of::<error_1::Refusal>() as u64,
            code: Str::new(&refusal.code),
            sentence: Str::new(&refusal.sentence),
            attribute: refusal.attribute.as_deref().map_or(Str::EMPTY, Str::new),
            dim,
            dim_value,
        };
        // SAFETY: the struct and its texts are readable during the call.
        unsafe { (table.refuse)(self.ctx, &raw) };
    }

    pub fn max_log_level(&self) -> u32 {
        // SAFETY: the context is the host's own.
        self.log.map_or(0, |table| unsafe { (table.max_level)(self.ctx) })
    }

    pub fn log(&self, level: u32, target: &str, message: &str) {
        if let Some(table) = self.log {
            // SAFETY: the texts are readable during the call.
            unsafe { (table.log)(self.ctx, level, Str::new(target), Str::new(message)) };
        }
    }

    pub fn now_ns(&self) -> u64 {
        // SAFETY: the context is the host's own.
        self.clock.map_or(0, |table| unsafe { (table.now_ns)(self.ctx) })
    }

    pub fn op_schema(&self, name: &str) -> Option<String> {
        let table = self.ir?;
        let mut text = Str::EMPTY;
        // SAFETY: the name is readable during the call, `text` writable.
        let status = unsafe { (table.op_schema)(self.ctx, Str::new(name), &mut text) };
        // SAFETY: the host's text lives as long as the process.
        (status == 0).then(|| unsafe { text.text() })?.map(str::to_owned)
    }
}

/// # Safety
/// The table behind `id` must be a `T`, each of which starts with its size.
unsafe fn table<T>(host: &HostV1, id: &str) -> Result<Option<&'static T>, Error> {
    // SAFETY: the host's function, with its own context.
    let found: *const c_void = unsafe { (host.get_table)(host.ctx, Str::new(id)) };
    if found.is_null() {
        return Ok(None);
    }
    // SAFETY: each table starts with its size.
    let size = unsafe { found.cast::<u64>().read() };
    if size != std::mem::size_of::<T>() as u64 {
        let expected = std::mem::size_of::<T>();
        return Err(Error::new(
            ErrorKind::Version,
            format!("the host's table {id} has {size} bytes, expected {expected}"),
        ));
    }
    // SAFETY: a `T` by the caller's word, alive as long as the process.
    Ok(Some(unsafe { &*found.cast::<T>() }))
}
