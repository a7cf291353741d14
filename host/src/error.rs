//! The façade's errors: every way in which opening, compiling and running can fail, each with a code and advice.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};
use thiserror::Error;

use crate::config::ConfigErrors;
use crate::frontend::ModelError;
use crate::ir::{Fault, Faults};
use crate::loader::LoadError;
use crate::run::{CompileError, InputError, RunError, SessionError, StateError};

/// Why something could not be done.
#[derive(Debug, Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// The config cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigErrors),
    /// Executors that are required cannot be had.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Load(#[from] LoadErrors),
    /// The model file is bad, or beyond what is supported.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Model(#[from] Box<OpenError>),
    /// The `.trace` file is bad.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Trace(#[from] TraceErrors),
    /// A file of tensors is bad.
    #[error(transparent)]
    #[diagnostic(transparent)]
    TensorFile(#[from] TensorFileError),
    /// The inputs do not fit the program.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Input(#[from] InputError),
    /// Inputs given by name do not fit the program.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Named(#[from] NamedInputError),
    /// State does not fit the program.
    #[error(transparent)]
    #[diagnostic(transparent)]
    State(#[from] StateError),
    /// The program cannot be compiled.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Compile(Box<CompileError>),
    /// The config expects what the plan does not keep.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Expectation(#[from] ExpectationErrors),
    /// The run stopped.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Run(Box<RunError>),
    /// The program cannot be differentiated.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Autodiff(#[from] crate::autodiff::AutodiffError),
    /// The program cannot be trained so.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Train(#[from] crate::trainer::TrainError),
}

impl From<SessionError> for Error {
    fn from(error: SessionError) -> Error {
        match error {
            SessionError::Input(error) => Error::Input(error),
            SessionError::Compile(error) => Error::Compile(Box::new(error)),
            SessionError::Run(error) => Error::Run(Box::new(error)),
            SessionError::State(error) => Error::State(error),
            SessionError::Autodiff(error) => Error::Autodiff(error),
        }
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Error {
        Error::Load(LoadErrors { errors: vec![error] })
    }
}

/// A model file and what is wrong with it.
#[derive(Debug, Error, Diagnostic)]
#[error("{}{error}", named(path, error))]
#[diagnostic(forward(error))]
pub struct OpenError {
    /// The file.
    pub path: PathBuf,
    /// What.
    pub error: ModelError,
}

/// Where the error does not name the file itself.
fn named(path: &std::path::Path, error: &ModelError) -> String {
    match error {
        ModelError::Io { .. } => String::new(),
        _ => format!("`{}`: ", path.display()),
    }
}

/// All plugins that are wanted and cannot be had.
#[derive(Debug, Clone)]
pub struct LoadErrors {
    /// In the order in which they were tried; never empty.
    pub errors: Vec<LoadError>,
}

impl fmt::Display for LoadErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadErrors {}

impl Diagnostic for LoadErrors {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.errors.iter().map(|error| error as &dyn Diagnostic)))
    }
}

/// Everything that is wrong with a `.trace`.
#[derive(Debug, Clone)]
pub struct TraceErrors {
    /// In source order; never empty.
    pub problems: Vec<TraceProblem>,
    /// How many more there are than are kept.
    pub more: usize,
}

impl TraceErrors {
    /// The faults of a text.
    pub(crate) fn new(name: &str, text: &str, faults: Faults) -> TraceErrors {
        let source = Arc::new(NamedSource::new(name, text.to_owned()));
        let problem = |fault: Fault| TraceProblem { fault, source: source.clone() };
        TraceErrors { problems: faults.faults.into_iter().map(problem).collect(), more: faults.more }
    }
}

impl fmt::Display for TraceErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if i == 0 { "" } else { "; " })?;
        }
        if self.more > 0 {
            write!(f, "; and {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for TraceErrors {}

impl Diagnostic for TraceErrors {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.problems.iter().map(|problem| problem as &dyn Diagnostic)))
    }
}

/// One fault of a `.trace`, with its text.
#[derive(Debug, Clone)]
pub struct TraceProblem {
    /// What.
    pub fault: Fault,
    source: Arc<NamedSource<String>>,
}

impl fmt::Display for TraceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fault.message)?;
        match self.fault.position {
            None if !self.fault.at.is_empty() => write!(f, " (at {})", self.fault.at),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for TraceProblem {}

impl Diagnostic for TraceProblem {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.fault.code))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.fault.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.fault.position.is_some().then_some(&*self.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let position = self.fault.position?;
        let text = self.source.inner();
        let start: usize =
            text.split_inclusive('\n').take(position.line.saturating_sub(1) as usize).map(str::len).sum();
        let line = text.get(start..)?.lines().next().unwrap_or("");
        let columns = line.char_indices().nth(position.column.saturating_sub(1) as usize);
        let in_line = columns.map_or(line.len(), |(byte, _)| byte);
        // What is meant ends where the token does, as far as one can see from outside.
        let token =
            line[in_line..].chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '%'));
        let len = token.map(char::len_utf8).sum::<usize>().max(1);
        Some(Box::new(std::iter::once(LabeledSpan::new(None, start + in_line, len))))
    }
}

/// A file of tensors that cannot be read, or is not what it should be.
#[derive(Debug, Error, Diagnostic)]
pub enum TensorFileError {
    /// A tensor file that was named cannot be read.
    #[error("cannot read `{}`: {reason}", path.display())]
    #[diagnostic(code(tensors::unreadable), help("check the path and the permissions"))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// The file is not safetensors, is damaged, or holds what no program has.
    #[error("`{}` is no {} that can be used: {reason}", path.display(), tensor_file(path))]
    #[diagnostic(
        code(tensors::bad_file),
        help("tensors travel as safetensors; numbers, booleans and null of `--inputs` go into a `.json`")
    )]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// What a file of tensors should be, by its ending.
fn tensor_file(path: &std::path::Path) -> &'static str {
    match path.extension() {
        Some(end) if end == "json" => "JSON file of inputs",
        _ => "safetensors file",
    }
}

/// Inputs given by name that do not fit the program.
#[derive(Debug, Clone, PartialEq, Error, Diagnostic)]
pub enum NamedInputError {
    /// An input that the program does not have.
    #[error("the program has no input `{name}`")]
    #[diagnostic(code(input::unknown), help("{advice}"))]
    Unknown {
        /// What was given.
        name: String,
        /// The nearest name, or all of them.
        advice: String,
    },
    /// One input is given under two names, or in two files.
    #[error("input `{name}` is given twice, as `{first}` and as `{second}`")]
    #[diagnostic(
        code(input::twice),
        help("an input has the name `in…` by its position, and the model's own")
    )]
    Twice {
        /// The input.
        name: String,
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// An input that is not given.
    #[error("input `{name}` is missing: {wanted}")]
    #[diagnostic(
        code(input::missing),
        help("give it as `{name}`, or give no inputs at all to have them filled from the seed")
    )]
    Missing {
        /// The input.
        name: String,
        /// What it is.
        wanted: String,
    },
    /// `--wrt` that is no parameter's or input's name.
    #[error("the program has no parameter and no input `{name}`")]
    #[diagnostic(code(input::wrt), help("{advice}"))]
    Wrt {
        /// What was asked for.
        name: String,
        /// The nearest name, or where to look.
        advice: String,
    },
    /// `--wrt` that means only what has no gradient.
    #[error("nothing that `{name}` means has a gradient: {wanted}")]
    #[diagnostic(code(input::not_floating), help("gradients are those of floating tensors"))]
    NotFloating {
        /// What was asked for.
        name: String,
        /// What it is.
        wanted: String,
    },
    /// A cotangent of what is no floating output.
    #[error("the program has no floating output `{name}`")]
    #[diagnostic(code(input::cotangent), help("{advice}"))]
    Cotangent {
        /// What was given.
        name: String,
        /// The nearest name, or all of them.
        advice: String,
    },
    /// An input that the export baked in was given another value.
    #[error("input `{name}` was exported as the constant {wanted}, {found} was given")]
    #[diagnostic(code(input::constant), help("leave it out, or export the model with this value"))]
    Constant {
        /// The input.
        name: String,
        /// The value in the model.
        wanted: String,
        /// What was given.
        found: String,
    },
}

/// Everything that the config expects of the plan and does not find.
#[derive(Debug, Clone)]
pub struct ExpectationErrors {
    /// In the config's order; never empty.
    pub violations: Vec<Violation>,
}

impl fmt::Display for ExpectationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, violation) in self.violations.iter().enumerate() {
            write!(f, "{}{violation}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for ExpectationErrors {}

impl Diagnostic for ExpectationErrors {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.violations.iter().map(|violation| violation as &dyn Diagnostic)))
    }
}

/// One expectation of the config that does not hold.
#[derive(Debug, Clone, PartialEq, Error, Diagnostic)]
pub enum Violation {
    /// An op that one executor was expected to have is another's, or was taken apart.
    #[error("`{op}` at {at} is {owner}, expected `{expected}` ({from})")]
    #[diagnostic(code(expect::claim), help("{why}"))]
    Claim {
        /// The op.
        op: String,
        /// Where.
        at: String,
        /// "claimed by `x`" or "taken apart".
        owner: String,
        /// Whose it should be.
        expected: String,
        /// Where that is expected.
        from: String,
        /// Why the expected one does not have it.
        why: String,
    },
    /// More ops than expected were taken by the last resort only.
    #[error("{found} ops fell to the last resort, expected at most {allowed} ({from})")]
    #[diagnostic(
        code(expect::last_resort),
        help("the first is `{first}`; `thunderhead explain` says why of each")
    )]
    LastResort {
        /// How many did.
        found: usize,
        /// How many may.
        allowed: u64,
        /// Where that is expected.
        from: String,
        /// The first of them.
        first: String,
    },
    /// More copies than expected.
    #[error("the plan has {found} copies, expected at most {allowed} ({from})")]
    #[diagnostic(code(expect::copies), help("the first is of `{first}`: {why}"))]
    Copies {
        /// How many it has.
        found: usize,
        /// How many it may have.
        allowed: u64,
        /// Where that is expected.
        from: String,
        /// What is copied first.
        first: String,
        /// And why.
        why: String,
    },
}
