//! Failures and refusals, as an author writes them.

use std::borrow::Cow;
use std::fmt;
use thunderhead_abi::basic::{Status, status};

/// What kind of failure an [`Error`] is. The host adds which plugin, which op, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value handed in is wrong.
    InvalidArgument,
    /// Well formed, but not something that this executor does.
    Unsupported,
    /// Memory could not be had.
    OutOfMemory,
    /// A device, library or file is missing now.
    Unavailable,
    /// A struct of a version that cannot be read.
    Version,
    /// A fault of whoever reports it.
    Internal,
    /// A panic, caught.
    Panic,
    /// It took too long.
    Timeout,
    /// The run was cancelled.
    Cancelled,
    /// The data of a run cannot be worked on, whoever tries: an index or a label outside its axis, an integer divided by
    /// zero. The host blames the model's inputs, not the executor.
    BadData,
}

impl ErrorKind {
    /// The code that crosses.
    pub fn status(self) -> Status {
        match self {
            ErrorKind::InvalidArgument => status::INVALID_ARGUMENT,
            ErrorKind::Unsupported => status::UNSUPPORTED,
            ErrorKind::OutOfMemory => status::OUT_OF_MEMORY,
            ErrorKind::Unavailable => status::UNAVAILABLE,
            ErrorKind::Version => status::VERSION,
            ErrorKind::Internal => status::INTERNAL,
            ErrorKind::Panic => status::PANIC,
            ErrorKind::Timeout => status::TIMEOUT,
            ErrorKind::Cancelled => status::CANCELLED,
            ErrorKind::BadData => status::BAD_DATA,
        }
    }

    /// The kind behind a status that is not `OK`; unknown ones are [`ErrorKind::Internal`].
    pub fn from_status(code: Status) -> ErrorKind {
        match code {
            status::INVALID_ARGUMENT => ErrorKind::InvalidArgument,
            status::UNSUPPORTED => ErrorKind::Unsupported,
            status::OUT_OF_MEMORY => ErrorKind::OutOfMemory,
            status::UNAVAILABLE => ErrorKind::Unavailable,
            status::VERSION => ErrorKind::Version,
            status::PANIC => ErrorKind::Panic,
            status::TIMEOUT => ErrorKind::Timeout,
            status::CANCELLED => ErrorKind::Cancelled,
            status::BAD_DATA => ErrorKind::BadData,
            _ => ErrorKind::Internal,
        }
    }

    /// Its name in messages: `invalid_argument`, ….
    pub fn name(self) -> &'static str {
        status::name(self.status()).unwrap_or("internal")
    }
}

/// A failure: a kind and a message (lower case, no final period, with the value found and the one expected).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:ident;)*) => {
        $($(#[$doc])* pub fn $name(message: impl Into<Cow<'static, str>>) -> Error {
            Error::new(ErrorKind::$kind, message)
        })*
    };
}

impl Error {
    /// A failure of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Error {
        Error { kind, message: message.into() }
    }

    constructors! {
        /// A value handed in is wrong.
        invalid => InvalidArgument;
        /// Well formed, but not done here.
        unsupported => Unsupported;
        /// Memory could not be had.
        out_of_memory => OutOfMemory;
        /// A device, library or file is missing now.
        unavailable => Unavailable;
        /// The plugin's own fault.
        internal => Internal;
        /// The run was cancelled.
        cancelled => Cancelled;
        /// The data of a run cannot be worked on: `index 7 is out of range for an axis of size 3`. Only for what no executor
        /// could do; dims and dtypes are known before, and are a refusal or [`Error::invalid`].
        bad_data => BadData;
    }

    /// A struct of the host that cannot be read.
    pub(crate) fn version_of(what: &str, found: u64, known: usize) -> Error {
        let message =
            format!("{what} has {found} bytes, {known} are known here, or says things that are not");
        Error::new(ErrorKind::Version, message)
    }

    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Its message.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.message)
    }
}

impl std::error::Error for Error {}

/// Why an executor does not take an op. Not a failure: the next executor is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Stable, `[a-z][a-z0-9_]*`.
    pub code: Cow<'static, str>,
    /// One sentence, lower case, no final period, with what was found and what is taken.
    pub sentence: Cow<'static, str>,
    /// The argument at fault.
    pub attribute: Option<String>,
    /// The dim at fault and its value.
    pub dim: Option<(usize, i64)>,
}

impl Refusal {
    /// A refusal: `Refusal::new("mask_unsupported", "attn_mask is given; only none is taken")`.
    pub fn new(code: impl Into<Cow<'static, str>>, sentence: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { code: code.into(), sentence: sentence.into(), attribute: None, dim: None }
    }

    /// Names the argument at fault.
    pub fn attribute(mut self, name: impl Into<String>) -> Refusal {
        self.attribute = Some(name.into());
        self
    }

    /// Names the dim at fault and its value.
    pub fn dim(mut self, dim: usize, value: i64) -> Refusal {
        self.dim = Some((dim, value));
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.sentence)
    }
}

/// What could not be read from the op is not taken.
impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::new(error.kind.name(), error.message)
    }
}
