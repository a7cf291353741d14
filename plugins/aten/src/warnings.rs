//! ATen's warnings, each text once, to the log of the executor that was made last and is still alive.
//!
//! ATen collects them by thread; only those of this plugin's own calls arrive here. Deliberately not here: levels.

use std::collections::BTreeSet;
use std::ffi::c_char;
use std::sync::{Mutex, Once, PoisonError};

use thunderhead_sdk::Log;

use super::ffi;

/// Where warnings go, and what was said already.
struct Sinks {
    next_id: u64,
    logs: Vec<(u64, Log)>,
    said: BTreeSet<String>,
}

static SINKS: Mutex<Sinks> = Mutex::new(Sinks { next_id: 0, logs: Vec::new(), said: BTreeSet::new() });

/// Sends warnings to a log for as long as it lives.
pub struct WarningLog {
    id: u64,
}

impl WarningLog {
    /// From now on, to this log.
    pub fn new(log: Log) -> WarningLog {
        static REGISTERED: Once = Once::new();
        // SAFETY: the function stays, and takes what the C side passes.
        REGISTERED.call_once(|| unsafe { ffi::th_on_warning(warn) });
        let mut sinks = SINKS.lock().unwrap_or_else(PoisonError::into_inner);
        let id = sinks.next_id;
        sinks.next_id += 1;
        sinks.logs.push((id, log));
        WarningLog { id }
    }
}

impl Drop for WarningLog {
    fn drop(&mut self) {
        let mut sinks = SINKS.lock().unwrap_or_else(PoisonError::into_inner);
        sinks.logs.retain(|(id, _)| *id != self.id);
    }
}

unsafe extern "C" fn warn(text: *const c_char, bytes: u64) {
    // SAFETY: the C side passes a text with its length, readable during the call.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), bytes as usize) };
    let text = String::from_utf8_lossy(text).trim_end().to_owned();
    let mut sinks = SINKS.lock().unwrap_or_else(PoisonError::into_inner);
    if sinks.said.contains(&text) {
        return;
    }
    if let Some((_, log)) = sinks.logs.last() {
        log.warn(format!("libtorch: {text}"));
    }
    sinks.said.insert(text);
}
