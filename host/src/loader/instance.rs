//! One executor as its plugin made it, and its quarantine.
//!
//! Invariant: after a call that answered `PANIC` no further call of any kind is made, not even to free; what the
//! executor made is leaked.

use super::error::LoadError;
use super::guard::{self, Who};
use super::services::{self, Context};
use super::tables::Tables;
use crate::plan::{Fault, FaultKind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use thunderhead_abi::basic::{Handle, Status, Str, status};

/// An executor.
pub(super) struct Instance {
    pub handle: Handle,
    pub tables: Tables,
    pub who: Who,
    quarantined: AtomicBool,
    /// For what is serial per executor.
    serial: Mutex<()>,
}

// SAFETY: the handle is only passed to functions that the ABI lets be called from any thread; those that are serial
// per executor are called under `serial`.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

impl Instance {
    /// Makes the executor and asks whether it is available.
    pub fn create(
        path: &Path,
        tables: Tables,
        who: Who,
        context: &'static Context,
    ) -> Result<Instance, LoadError> {
        let mut handle: Handle = std::ptr::null_mut();
        services::forget_said();
        // SAFETY: the host's struct lives as long as the process; the name is readable and `handle` writable during the call.
        let answer =
            unsafe { (tables.executor.create)(context.host(), Str::new(&who.executor), &mut handle) };
        let executor = who.executor.clone();
        if answer != status::OK {
            let (kind, message) = guard::failure(answer);
            let path = path.to_owned();
            return Err(match kind {
                FaultKind::Panic => LoadError::CreatePanicked { path, executor, message },
                FaultKind::Unavailable => LoadError::Unavailable { path, executor, message },
                kind => {
                    let status = guard::kind_name(kind).to_owned();
                    LoadError::CreateFailed { path, executor, status, message }
                }
            });
        }
        if handle.is_null() {
            let (status, message) = ("bad answer".to_owned(), "it answered OK and made nothing".to_owned());
            return Err(LoadError::CreateFailed { path: path.to_owned(), executor, status, message });
        }
        let instance =
            Instance { handle, tables, who, quarantined: AtomicBool::new(false), serial: Mutex::new(()) };
        // SAFETY: alive, and nobody else has it yet.
        let answer = instance.serial_call(|| unsafe { (tables.executor.available)(handle) });
        answer.map_err(|(_, message)| LoadError::Unavailable { path: path.to_owned(), executor, message })?;
        Ok(instance)
    }

    /// Whether it panicked.
    #[inline]
    pub fn is_quarantined(&self) -> bool {
        self.quarantined.load(Ordering::Acquire)
    }

    fn quarantine(&self) {
        if !self.quarantined.swap(true, Ordering::AcqRel) {
            log::warn!(target: "thunderhead", "{} ({}) panicked and is quarantined", self.who.executor, self.who.plugin);
        }
    }

    /// Looks at a status; a panic quarantines.
    pub fn judge(&self, answer: Status) -> Result<(), (FaultKind, String)> {
        if answer == status::OK {
            return Ok(());
        }
        let (kind, message) = guard::failure(answer);
        if kind == FaultKind::Panic {
            self.quarantine();
        }
        Err((kind, message))
    }

    /// Quarantines after a panic.
    pub fn note(&self, kind: FaultKind) {
        if kind == FaultKind::Panic {
            self.quarantine();
        }
    }

    /// Calls what is serial per executor.
    pub fn serial_call(&self, call: impl FnOnce() -> Status) -> Result<(), (FaultKind, String)> {
        let _serial = self.serial.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if self.is_quarantined() {
            return Err((FaultKind::Panic, "it panicked before and is quarantined".to_owned()));
        }
        services::forget_said();
        self.judge(call())
    }

    /// The fault of a step whose executor panicked before or beside it.
    pub fn quarantine_fault(&self, op: &str, origin: &str) -> Fault {
        self.who.fault(op, origin, FaultKind::Panic, "the executor panicked and is quarantined")
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Kernels hold the instance, so none is left here. What `destroy` answers changes nothing any more, but for a panic, after which the handle is
        // gone all the same.
        let tables = self.tables;
        let handle = self.handle;
        if let Some(lifecycle) = tables.lifecycle {
            // SAFETY: alive; comes once, before `destroy`.
            let _ = self.serial_call(|| unsafe { (lifecycle.quiesce)(handle) });
        }
        // SAFETY: alive, without kernels, and used for the last time.
        let _ = self.serial_call(|| unsafe { (tables.executor.destroy)(handle) });
    }
}
