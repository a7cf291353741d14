//! What can go wrong in a command itself, beside the library's own errors.

use miette::Diagnostic;
use thiserror::Error;

use super::exit::Exit;

/// Why a command ends early.
#[derive(Debug, Error, Diagnostic)]
pub enum Failure {
    /// The config cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] thunderhead::config::ConfigErrors),

    /// A file that was named on the command line cannot be read.
    #[error("cannot read `{path}`: {reason}")]
    #[diagnostic(code(cli::unreadable), help("check the path and the permissions"))]
    Read { path: String, reason: String },

    /// A file cannot be written.
    #[error("cannot write `{path}`: {reason}")]
    #[diagnostic(code(cli::unwritable), help("check the folder, the permissions and the space left"))]
    Write { path: String, reason: String },

    /// A file of tensors is not what it should be.
    #[error("`{path}` is not {expected}: {reason}")]
    #[diagnostic(code(cli::tensor_file), help("{advice}"))]
    TensorFile { path: String, expected: &'static str, reason: String, advice: String },

    /// A file given to `plan --diff` is no plan, or one of another version.
    #[error("`{path}` is not a plan: {reason}")]
    #[diagnostic(code(cli::plan_file), help("write plans with `thunderhead plan MODEL -o FILE`"))]
    PlanFile { path: String, reason: String },

    /// The outputs differ from those expected by more than the tolerances allow.
    #[error("{n_differing} of {n_compared} outputs differ from `{path}`")]
    #[diagnostic(code(cli::mismatch), help("{worst}"))]
    Mismatch { path: String, n_differing: usize, n_compared: usize, worst: String },

    /// Arguments that are each well formed, but not together.
    #[error("{message}")]
    #[diagnostic(code(cli::usage), help("{advice}"))]
    Usage { message: String, advice: String },
}

impl Failure {
    /// The one place where an error becomes an exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Config(_) => Exit::Config,
            Failure::Read { .. } | Failure::Write { .. } | Failure::PlanFile { .. } => Exit::Other,
            Failure::TensorFile { .. } => Exit::Inputs,
            Failure::Mismatch { .. } => Exit::Mismatch,
            Failure::Usage { .. } => Exit::Usage,
        }
    }
}
