//! The `log` crate inside a plugin, led to the host.
//!
//! A `cdylib` has a copy of the `log` crate of its own, so a logger set there is not the process's: libraries that the
//! plugin uses log to the host like the plugin itself. Plugins that are linked into the host share its copy and set
//! nothing.

use super::services::Services;
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::sync::{Arc, OnceLock};
use thunderhead_abi::log_1::level;

struct Bridge;

/// Who is asked: the first executor that was made; all of one plugin log under its id.
static HOST: OnceLock<Arc<Services>> = OnceLock::new();

/// Leads the plugin's copy of `log` to the host; once a plugin.
pub(crate) fn set(services: &Arc<Services>) {
    if HOST.set(services.clone()).is_ok() && log::set_logger(&Bridge).is_ok() {
        log::set_max_level(match services.max_log_level() {
            0 => LevelFilter::Off,
            level::ERROR => LevelFilter::Error,
            level::WARN => LevelFilter::Warn,
            level::INFO => LevelFilter::Info,
            level::DEBUG => LevelFilter::Debug,
            _ => LevelFilter::Trace,
        });
    }
}

fn to_abi(level: Level) -> u32 {
    match level {
        Level::Error => level::ERROR,
        Level::Warn => level::WARN,
        Level::Info => level::INFO,
        Level::Debug => level::DEBUG,
        Level::Trace => level::TRACE,
    }
}

impl Log for Bridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        HOST.get().is_some_and(|services| to_abi(metadata.level()) <= services.max_log_level())
    }

    fn log(&self, record: &Record<'_>) {
        if let Some(services) = HOST.get().filter(|_| self.enabled(record.metadata())) {
            services.log(to_abi(record.level()), record.target(), &record.args().to_string());
        }
    }

    fn flush(&self) {}
}
