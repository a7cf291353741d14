//! What `Executor::create` is given: its name, its options, the host's log.

use super::error::{Error, ErrorKind};
use super::services::Services;
use std::fmt;
use std::sync::Arc;
use thunderhead_abi::basic::{Str, status};
use thunderhead_abi::log_1::level;
use thunderhead_abi::options_1::{OptionValue, option_kind};

/// What `Executor::create` is given.
pub struct Create<'a> {
    pub(crate) name: &'a str,
    pub(crate) services: &'a Arc<Services>,
}

impl Create<'_> {
    /// The executor's name in the manifest.
    pub fn name(&self) -> &str {
        self.name
    }

    /// Its options, checked against the manifest, defaults filled in.
    pub fn options(&self) -> Options<'_> {
        Options { services: self.services }
    }

    /// `[run] threads`, resolved: for settings of the whole process. A run's own count is `Call::threads`.
    pub fn threads(&self) -> usize {
        self.services.threads.max(1) as usize
    }

    /// Name and version of the host.
    pub fn host_name(&self) -> &str {
        &self.services.host_name
    }

    /// The host's log; may be kept.
    pub fn log(&self) -> Log {
        Log { services: self.services.clone() }
    }

    /// The schema of an op, as the host has it; `None` where it does not know the op.
    pub fn op_schema(&self, name: &str) -> Option<String> {
        self.services.op_schema(name)
    }
}

/// An executor's options.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    services: &'a Services,
}

impl Options<'_> {
    fn get(&self, key: &str, kind: u32) -> Result<&OptionValue, Error> {
        let Some(table) = self.services.options else {
            return Err(Error::unsupported("the host has no options/1"));
        };
        let mut value: *const OptionValue = std::ptr::null();
        // SAFETY: the key is readable and `value` writable during the call.
        let answer = unsafe { (table.get)(self.services.ctx, Str::new(key), &mut value) };
        if answer != status::OK || value.is_null() {
            let kind = ErrorKind::from_status(answer);
            return Err(Error::new(
                kind,
                format!("option `{key}` is not declared in the manifest, or has no value"),
            ));
        }
        // SAFETY: the host keeps values as long as the process.
        let value = unsafe { &*value };
        if value.kind != kind {
            return Err(Error::invalid(format!(
                "option `{key}` is declared with another type in the manifest"
            )));
        }
        Ok(value)
    }

    /// An option of type `int`.
    pub fn int(&self, key: &str) -> Result<i64, Error> {
        self.get(key, option_kind::INT).map(|value| value.value as i64)
    }

    /// An option of type `float`.
    pub fn float(&self, key: &str) -> Result<f64, Error> {
        self.get(key, option_kind::FLOAT).map(|value| f64::from_bits(value.value))
    }

    /// An option of type `bool`.
    pub fn bool(&self, key: &str) -> Result<bool, Error> {
        self.get(key, option_kind::BOOL).map(|value| value.value != 0)
    }

    /// An option of type `string`.
    pub fn string(&self, key: &str) -> Result<String, Error> {
        let value = self.get(key, option_kind::STRING)?;
        owned(&value.text, key)
    }

    /// An option of type `list`, each element as text.
    pub fn list(&self, key: &str) -> Result<Vec<String>, Error> {
        let value = self.get(key, option_kind::LIST)?;
        // SAFETY: the host keeps values as long as the process.
        let items = unsafe { value.list.items() }
            .ok_or_else(|| Error::invalid(format!("option `{key}` is malformed")))?;
        items.iter().map(|text| owned(text, key)).collect()
    }
}

fn owned(text: &Str, key: &str) -> Result<String, Error> {
    // SAFETY: the host keeps values as long as the process.
    let text = unsafe { text.text() };
    text.map(str::to_owned).ok_or_else(|| Error::invalid(format!("option `{key}` is not text")))
}

/// The host's log, under the plugin's id.
#[derive(Clone)]
pub struct Log {
    pub(crate) services: Arc<Services>,
}

macro_rules! levels {
    ($($(#[$doc:meta])* $name:ident = $level:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(&self, message: impl fmt::Display) {
            self.write(level::$level, &message);
        }
    )*};
}

impl Log {
    fn write(&self, level: u32, message: &dyn fmt::Display) {
        if level <= self.services.max_log_level() {
            self.services.log(level, "", &message.to_string());
        }
    }

    levels! {
        /// Something failed.
        error = ERROR;
        /// Something is not as it should be.
        warn = WARN;
        /// Worth knowing.
        info = INFO;
        /// For the plugin's author.
        debug = DEBUG;
        /// For the plugin's author, in masses.
        trace = TRACE;
    }

    /// Nanoseconds on the clock that all profiles use.
    pub fn now_ns(&self) -> u64 {
        self.services.now_ns()
    }
}
