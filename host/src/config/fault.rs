//! What can be wrong with a config, and where. Each variant's documentation is its page in `docs/errors.md`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use miette::{Diagnostic, LabeledSpan, NamedSource, Severity, SourceCode};
use thiserror::Error;
use thunderhead_manifest::document::one_of;
use thunderhead_manifest::{FaultKind, Place};

/// A text that was typed: a config file, a preset, or an argument of the command line.
#[derive(Debug)]
pub struct Source {
    text: NamedSource<String>,
    /// The file, if it is one; relative paths in it are relative to its folder.
    pub path: Option<PathBuf>,
}

impl Source {
    /// `name` is what messages call it.
    pub fn new(name: impl AsRef<str>, path: Option<PathBuf>, text: String) -> Arc<Source> {
        Arc::new(Source { text: NamedSource::new(name, text), path })
    }

    /// A file, called by its path.
    pub fn file(path: PathBuf, text: String) -> Arc<Source> {
        let name = path.to_string_lossy().into_owned();
        Source::new(name, Some(path), text)
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        self.text.name()
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        self.text.inner()
    }
}

/// A place in a source.
#[derive(Clone, Debug)]
pub struct Spot {
    pub source: Arc<Source>,
    pub place: Place,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source.name(), self.place)
    }
}

/// A fault and where it is.
#[derive(Clone, Debug)]
pub struct Problem {
    pub what: Box<ConfigFault>,
    /// The key meant, dotted, where the fault has one.
    pub key: String,
    pub at: Option<Spot>,
}

/// A [`Problem`] that does not stop anything.
pub type Notice = Problem;

impl Problem {
    pub(crate) fn new(what: ConfigFault, key: impl Into<String>, at: Option<Spot>) -> Self {
        Problem { what: Box::new(what), key: key.into(), at }
    }

    /// The stable code, `config::unknown_key`.
    pub fn code_text(&self) -> String {
        self.what.code().map(|code| code.to_string()).unwrap_or_default()
    }

    /// Whether it stops: everything but warnings does.
    pub fn is_error(&self) -> bool {
        self.what.severity() != Some(Severity::Warning)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => write!(f, "{}", self.what),
            key => write!(f, "{key}: {}", self.what),
        }
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.what.code()
    }

    fn severity(&self) -> Option<Severity> {
        self.what.severity()
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.what.help()
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.at.as_ref().map(|spot| &spot.source.text as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.at.as_ref()?.place;
        let span = LabeledSpan::new(None, place.start, place.end - place.start);
        Some(Box::new(std::iter::once(span)))
    }
}

/// All errors of a config, files in the order in which they were read, each in source order.
#[derive(Debug, Clone, Error)]
#[error("the config cannot be used: {}", summary(problems))]
pub struct ConfigErrors {
    /// Never empty.
    pub problems: Vec<Problem>,
    /// What was noticed beside the errors.
    pub notices: Vec<Notice>,
}

impl Diagnostic for ConfigErrors {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.problems.iter().map(|problem| problem as &dyn Diagnostic)))
    }
}

fn summary(problems: &[Problem]) -> String {
    match problems {
        [only] => with_spot(only),
        [first, ..] => format!("{} errors, the first: {}", problems.len(), with_spot(first)),
        [] => String::new(),
    }
}

fn with_spot(problem: &Problem) -> String {
    match &problem.at {
        Some(spot) => format!("{spot}: {problem}"),
        None => problem.to_string(),
    }
}

/// What is wrong with a config.
#[derive(Clone, Debug, Error, Diagnostic)]
pub enum ConfigFault {
    /// The file is not TOML.
    #[error("{message}")]
    #[diagnostic(code(config::syntax))]
    Syntax { message: String },

    /// A key that does not exist. Keys are checked everywhere, so that a typing error never means "default".
    #[error("unknown key `{key}`")]
    #[diagnostic(code(config::unknown_key), help("{advice}"))]
    UnknownKey { key: String, advice: String },

    /// A key that must be there is not.
    #[error("`{key}` is missing")]
    #[diagnostic(code(config::missing_key))]
    MissingKey { key: String },

    /// A value has another type than the key takes.
    #[error("found {found}, expected {expected}")]
    #[diagnostic(code(config::wrong_type))]
    WrongType { found: String, expected: String },

    /// A value has the right type, but is out of bounds or malformed.
    #[error("found `{found}`, expected {expected}")]
    #[diagnostic(code(config::bad_value))]
    BadValue { found: String, expected: String },

    /// A value is not one of the few words that the key takes.
    #[error("found `{found}`, expected {expected}")]
    #[diagnostic(code(config::unknown_word), help("{advice}"))]
    UnknownWord { found: String, expected: String, advice: String },

    /// A name stands twice where each may stand once. Two spellings of one executor (an alias and its name)
    /// are the same name.
    #[error("`{name}` stands twice, first at {first}")]
    #[diagnostic(code(config::duplicate))]
    Duplicate { name: String, first: String },

    /// A key or section stands where it has no meaning.
    #[error("{message}")]
    #[diagnostic(code(config::out_of_place))]
    OutOfPlace { message: String },

    /// A setting can have no effect.
    #[error("{message}")]
    #[diagnostic(code(config::no_effect), severity(Warning))]
    NoEffect { message: String },

    /// A config file, or one that it is based on, cannot be read.
    #[error("cannot read `{path}`: {reason}")]
    #[diagnostic(code(config::unreadable), help("{advice}"))]
    Unreadable { path: String, reason: String, advice: String },

    /// `base` or `--config` names a preset that is neither beside the executable nor built in. What contains a
    /// `/` or ends in `.toml` is a path, everything else the name of a preset.
    #[error("there is no preset `{name}`")]
    #[diagnostic(code(config::unknown_preset), help("{advice}"))]
    UnknownPreset { name: String, advice: String },

    /// A config is based on itself, through others.
    #[error("`{name}` is based on itself: {chain}")]
    #[diagnostic(code(config::base_cycle))]
    BaseCycle { name: String, chain: String },

    /// An executor that no manifest found and no preset knows. Where its policy is `optional` or `disabled` this
    /// is the warning `config::optional_executor_unknown` instead.
    #[error("no plugin brings an executor `{name}`")]
    #[diagnostic(code(config::unknown_executor), help("{advice}"))]
    UnknownExecutor { name: String, advice: String },

    /// An optional executor that no manifest found and no preset knows; it is left out of the order.
    #[error("no plugin brings an executor `{name}`; it is optional and left out")]
    #[diagnostic(code(config::optional_executor_unknown), severity(Warning), help("{advice}"))]
    OptionalExecutorUnknown { name: String, advice: String },

    /// `host` stands for the host's own views, copies and checks. It is always there and cannot be ordered or
    /// set.
    #[error("`{name}` is the host itself and cannot be ordered or set")]
    #[diagnostic(code(config::reserved_executor))]
    ReservedExecutor { name: String },

    /// `remove` names an executor that the base's order does not hold.
    #[error("`{name}` is not in the order of the base: {order}")]
    #[diagnostic(code(config::not_in_order), help("{advice}"))]
    NotInOrder { name: String, order: String, advice: String },

    /// No executor is left in the order, and there is no last resort either.
    #[error("nothing is left to run an op: the order is empty and `last_resort` is `none`")]
    #[diagnostic(code(config::nothing_to_run), help("name an executor, or set last_resort = \"reference\""))]
    NothingToRun,

    /// An option that the executor's manifest does not declare.
    #[error("`{executor}` has no option `{option}`")]
    #[diagnostic(code(config::unknown_option), help("{advice}"))]
    UnknownOption { executor: String, option: String, advice: String },

    /// A value that the executor's manifest does not allow for the option.
    #[error("found {found}, expected {expected}, as `{plugin}` declares `{option}` of `{executor}`")]
    #[diagnostic(code(config::bad_option))]
    BadOption { executor: String, option: String, plugin: String, found: String, expected: String },

    /// `allow`, `deny` or an expectation names an op that does not exist: a typing error, which would silently allow, deny or
    /// expect nothing. Ops of the table, ops that a plugin claims and ATen overloads (`aten.NAME.OVERLOAD`) are known.
    #[error("no op is called `{name}`")]
    #[diagnostic(code(config::unknown_op), help("{advice}"))]
    UnknownOp { name: String, advice: String },

    /// A glob that matches no op known here, or the name of an op of a namespace that nobody here knows. A model may
    /// bring such an op all the same.
    #[error("`{name}` matches no op that is known here")]
    #[diagnostic(
        code(config::no_such_op),
        severity(Warning),
        help(
            "it has an effect only on a model that brings such an op itself; `thunderhead ops` lists those known"
        )
    )]
    NoSuchOp { name: String },

    /// `regions` is set for an executor that takes single ops.
    #[error("`{executor}` is of kind `op` and has no regions")]
    #[diagnostic(code(config::regions_need_fusion))]
    RegionsNeedFusion { executor: String },

    /// A former name of an executor or option. It is still understood; say the new one.
    #[error("`{old}` is now called `{new}`{since}{until}")]
    #[diagnostic(code(config::deprecated_name), severity(Warning), help("write `{new}`"))]
    DeprecatedName { old: String, new: String, since: String, until: String },

    /// A pin or a log level for a plugin that was not found.
    #[error("no plugin with the id `{id}` was found")]
    #[diagnostic(code(config::unknown_plugin), severity(Warning), help("{advice}"))]
    UnknownPlugin { id: String, advice: String },

    /// An argument of `--set` that is not `executor.option=value`.
    #[error("found `{found}`, expected `executor.option=value`")]
    #[diagnostic(code(config::bad_set))]
    BadSet { found: String },

    /// Executors that are `like` each other in a circle claim nothing that is defined.
    #[error("executors are like each other in a circle: {chain}")]
    #[diagnostic(code(config::like_cycle), help("this is a fault of the plugins' manifests"))]
    LikeCycle { chain: String },
}

impl From<FaultKind> for ConfigFault {
    fn from(kind: FaultKind) -> Self {
        let advice = kind.help().unwrap_or_default();
        match kind {
            FaultKind::Syntax { message } => ConfigFault::Syntax { message },
            FaultKind::UnknownKey { key, .. } => ConfigFault::UnknownKey { key, advice },
            FaultKind::MissingKey { key } => ConfigFault::MissingKey { key },
            FaultKind::WrongType { found, expected } => {
                ConfigFault::WrongType { found: found.to_owned(), expected: expected.to_owned() }
            }
            FaultKind::BadValue { found, expected } => ConfigFault::BadValue { found, expected },
            FaultKind::UnknownWord { found, valid, .. } => {
                ConfigFault::UnknownWord { found, expected: one_of(&valid), advice }
            }
            FaultKind::Duplicate { name, first } => ConfigFault::Duplicate { name, first: first.to_string() },
            FaultKind::NoEffect { message } => ConfigFault::NoEffect { message },
            other => ConfigFault::OutOfPlace { message: other.to_string() },
        }
    }
}
