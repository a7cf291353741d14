//! What can go wrong in a command itself, beside the library's own errors.

use std::io;
use std::path::Path;

use miette::Diagnostic;
use thunderhead::Error;
use thunderhead::plan::{FaultKind, PlanError};
use thunderhead::run::{CompileError, InputError, RunError};

/// Why a command ends early.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum Failure {
    /// The library's error.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Host(#[from] Error),

    /// A file that was named on the command line cannot be read.
    #[error("cannot read `{path}`: {reason}")]
    #[diagnostic(code(cli::unreadable), help("check the path and the permissions"))]
    Read { path: String, reason: String },

    /// A file cannot be written.
    #[error("cannot write `{path}`: {reason}")]
    #[diagnostic(code(cli::unwritable), help("check the folder, the permissions and the space left"))]
    Write { path: String, reason: String },

    /// A file given to `plan --diff` is no plan, or one of another version.
    #[error("`{path}` is not a plan: {reason}")]
    #[diagnostic(code(cli::plan_file), help("write plans with `thunderhead plan MODEL -o FILE`"))]
    PlanFile { path: String, reason: String },

    /// The outputs or gradients differ from those expected by more than the tolerances allow.
    #[error("{n_differing} of {n_compared} {what}s differ from `{path}`")]
    #[diagnostic(code(cli::mismatch), help("{worst}"))]
    Mismatch { what: &'static str, path: String, n_differing: usize, n_compared: usize, worst: String },

    /// Configs that were timed against each other give different results.
    #[error("the configs give different results: {differences}")]
    #[diagnostic(
        code(cli::results_differ),
        help(
            "`thunderhead run` with --output and --expect shows them; speed means nothing until they agree"
        )
    )]
    ResultsDiffer { differences: String },

    /// Inputs of the model's sizes cannot be made.
    #[error("inputs cannot be filled from a seed: {reason}")]
    #[diagnostic(code(cli::fill), help("give inputs with --inputs"))]
    Fill { reason: String },

    /// `doctor` found what keeps this installation from working. What it was is on stdout.
    #[error("{n_bad} of the things looked at are bad")]
    #[diagnostic(code(cli::doctor))]
    Doctor { n_bad: usize, config: bool },

    /// Somebody stopped a training; what was reached is saved.
    #[error("stopped after {done} of {wanted} steps")]
    #[diagnostic(code(cli::stopped), help("{advice}"))]
    Stopped { done: u64, wanted: u64, advice: String },

    /// Arguments that are each well formed, but not together.
    #[error("{message}")]
    #[diagnostic(code(cli::usage), help("{advice}"))]
    Usage { message: String, advice: String },
}

impl Failure {
    /// Whether other values or sizes of the inputs could have gone well.
    pub fn is_of_inputs(&self) -> bool {
        let Failure::Host(error) = self else { return false };
        match error {
            Error::Input(error) => !matches!(error, InputError::MissingWeight { .. }),
            Error::Compile(error) => {
                matches!(
                    **error,
                    CompileError::Guard(_)
                        | CompileError::Input(_)
                        | CompileError::Plan(PlanError::Size { .. })
                )
            }
            Error::Run(error) => match &**error {
                RunError::Fault(fault) => fault.kind == FaultKind::BadData,
                RunError::Check(_) => true,
                _ => false,
            },
            _ => false,
        }
    }

    /// A file that cannot be written.
    pub fn write(path: &Path, error: &io::Error) -> Failure {
        Failure::Write { path: path.display().to_string(), reason: error.to_string() }
    }
}

impl From<thunderhead::TensorFileError> for Failure {
    fn from(error: thunderhead::TensorFileError) -> Failure {
        Failure::Host(error.into())
    }
}

impl From<thunderhead::loader::LoadError> for Failure {
    fn from(error: thunderhead::loader::LoadError) -> Failure {
        Failure::Host(error.into())
    }
}
