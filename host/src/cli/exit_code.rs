//! Exit codes. Each is a contract: never renumbered, never reused.

use std::process::ExitCode;

/// Why the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Ok = 0,
    Other = 1,
    Usage = 2,
    Config = 3,
    PluginLoad = 4,
    Unclaimed = 5,
    Expectation = 6,
    PluginFailed = 7,
    Mismatch = 8,
    Model = 9,
    Inputs = 10,
}

impl Exit {
    /// All of them, each with what `--help` says of it.
    pub const ALL: [(Exit, &str); 11] = [
        (Exit::Ok, "ok"),
        (Exit::Other, "other"),
        (Exit::Usage, "usage"),
        (Exit::Config, "config"),
        (Exit::PluginLoad, "plugin refused or failed to load"),
        (Exit::Unclaimed, "op unclaimed"),
        (Exit::Expectation, "expectation failed"),
        (Exit::PluginFailed, "plugin failed"),
        (Exit::Mismatch, "numeric mismatch"),
        (Exit::Model, "model file bad or unsupported"),
        (Exit::Inputs, "inputs do not fit the model"),
    ];

    /// The last line of `--help`.
    pub fn listed() -> String {
        let codes = Exit::ALL.map(|(exit, meaning)| format!("{} {meaning}", exit as u8));
        format!("Exit codes: {}.", codes.join(", "))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
