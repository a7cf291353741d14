//! Exit codes. Each is a contract: never renumbered, never reused.

use std::process::ExitCode;

/// Why the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok,
    Other,
    Usage,
    Config,
    PluginLoad,
    Unclaimed,
    Expectation,
    PluginFailed,
    Mismatch,
    Model,
    Inputs,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Other => 1,
            Exit::Usage => 2,
            Exit::Config => 3,
            Exit::PluginLoad => 4,
            Exit::Unclaimed => 5,
            Exit::Expectation => 6,
            Exit::PluginFailed => 7,
            Exit::Mismatch => 8,
            Exit::Model => 9,
            Exit::Inputs => 10,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
