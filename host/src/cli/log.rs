//! Log lines on stderr, as text or JSON, at the level of the config by plugin; `-v` raises it, `-q` keeps errors only.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use log::{Level, LevelFilter, Log, Metadata, Record};
use serde_json::json;
use thunderhead::config::{LogLevel, Resolved};

use super::args::LogFormat;
use super::render::Screen;
use super::render::screen::Verbosity;

/// Installs the logger, once a process; later calls change nothing.
pub fn install(config: &Resolved, screen: &Screen) {
    let logger = Logger::new(config, *screen);
    let most = logger.by_target.values().copied().chain([logger.level]).max().unwrap_or(LevelFilter::Off);
    if log::set_boxed_logger(Box::new(logger)).is_ok() {
        log::set_max_level(most);
    }
}

struct Logger {
    screen: Screen,
    level: LevelFilter,
    /// By plugin id.
    by_target: BTreeMap<String, LevelFilter>,
}

impl Logger {
    fn new(config: &Resolved, screen: Screen) -> Logger {
        let adjusted = |level: LogLevel| adjust(filter(level), screen.verbosity);
        Logger {
            screen,
            level: adjusted(config.log_level.value),
            by_target: config
                .log_levels
                .iter()
                .map(|(id, level)| (id.clone(), adjusted(level.value)))
                .collect(),
        }
    }

    /// A plugin may log under its id, or under targets below it (`acme-blas::gemm`).
    fn level_of(&self, target: &str) -> LevelFilter {
        let plugin = target.split("::").next().unwrap_or(target);
        self.by_target.get(plugin).copied().unwrap_or(self.level)
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::Off,
        LogLevel::Error => LevelFilter::Error,
        LogLevel::Warn => LevelFilter::Warn,
        LogLevel::Info => LevelFilter::Info,
        LogLevel::Debug => LevelFilter::Debug,
        LogLevel::Trace => LevelFilter::Trace,
    }
}

fn adjust(level: LevelFilter, verbosity: Verbosity) -> LevelFilter {
    match verbosity {
        Verbosity::Quiet => level.min(LevelFilter::Error),
        Verbosity::Normal => level,
        Verbosity::More(1) => level.max(LevelFilter::Info),
        Verbosity::More(2) => level.max(LevelFilter::Debug),
        Verbosity::More(_) => LevelFilter::Trace,
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= self.level_of(metadata.target())
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let level = record.level().as_str().to_lowercase();
        match self.screen.log_format {
            LogFormat::Json => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let line = json!({
                    "time_ms": u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
                    "level": level,
                    "target": record.target(),
                    "message": record.args().to_string(),
                });
                self.screen.line(&line.to_string());
            }
            LogFormat::Text => {
                let paint = self.screen.err;
                let level = match record.level() {
                    Level::Error => paint.error(&level),
                    Level::Warn => paint.warning(&level),
                    _ => paint.dim(&level),
                };
                self.screen.line(&format!("{level}[{}]: {}", record.target(), record.args()));
            }
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_raises_and_lowers() {
        assert_eq!(adjust(LevelFilter::Warn, Verbosity::Normal), LevelFilter::Warn);
        assert_eq!(adjust(LevelFilter::Warn, Verbosity::More(1)), LevelFilter::Info);
        assert_eq!(adjust(LevelFilter::Trace, Verbosity::More(1)), LevelFilter::Trace);
        assert_eq!(adjust(LevelFilter::Trace, Verbosity::Quiet), LevelFilter::Error);
        assert_eq!(adjust(LevelFilter::Off, Verbosity::Quiet), LevelFilter::Off);
    }
}
