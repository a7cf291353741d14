//! What a manifest says, as plain data. Reading it from text is in `parse`, evaluating claims in `limits`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::document::Plain;
use crate::glob::Glob;
use crate::limits::ClaimIndex;

/// The manifest format that this crate reads.
pub const FORMAT: i64 = 1;

/// Executor names that no third-party manifest may take: `host` stands for the host's own views, copies and
/// checks, `reference` for the executor that is linked into the host (its own manifest declares it).
pub const RESERVED_EXECUTORS: [&str; 2] = ["host", "reference"];

/// One plugin file's manifest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Manifest {
    /// The format's version; always [`FORMAT`] once parsed.
    pub manifest: i64,
    /// `[a-z0-9-]+`, unique among plugins.
    pub id: String,
    /// The plugin's own version.
    pub version: String,
    pub vendor: Option<String>,
    pub license: Option<String>,
    pub url: Option<String>,
    /// The ABI it was built for.
    pub abi: Version,
    /// The IR it understands.
    pub ir: Version,
    /// Tables it cannot do without.
    pub needs: Vec<TableId>,
    /// Tables it uses where they are.
    pub uses: Vec<TableId>,
    /// Shared libraries that the host resolves and opens before the plugin.
    pub libraries: Vec<Library>,
    /// What it sets for the whole process, once, at create.
    pub process_wide: Vec<String>,
    /// At least one.
    pub executors: Vec<ExecutorDecl>,
}

impl Manifest {
    /// The executor of that name; aliases are not looked at.
    pub fn executor(&self, name: &str) -> Option<&ExecutorDecl> {
        self.executors.iter().find(|executor| executor.name == name)
    }
}

/// `major` or `major.minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u32,
    /// 0 where only the major was written.
    pub minor: u32,
}

impl Version {
    /// Reads `1` or `1.0`.
    pub fn from_text(text: &str) -> Option<Version> {
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten()
        };
        let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
        Some(Version { major: number(major)?, minor: number(minor)? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A table of the ABI: `kernel/1`, `x-gossip/3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId {
    pub name: String,
    pub revision: u32,
}

impl TableId {
    /// Reads `name/revision`.
    pub fn from_text(text: &str) -> Option<TableId> {
        let (name, revision) = text.split_once('/')?;
        let named = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'));
        let digits = !revision.is_empty() && revision.bytes().all(|b| b.is_ascii_digit());
        let id = TableId { name: name.to_owned(), revision: revision.parse().ok()? };
        (named && digits && id.revision > 0).then_some(id)
    }

    /// Ids that start `x-` may change at any time and need an opt-in.
    pub fn is_experimental(&self) -> bool {
        self.name.starts_with("x-")
    }
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.revision)
    }
}

impl Serialize for TableId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A shared library that must be there before the plugin is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Library {
    pub name: String,
    /// As the library's own maker writes it; compared as text.
    pub version: Option<String>,
}

/// One executor that a plugin brings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExecutorDecl {
    /// `[a-z][a-z0-9_]*`.
    pub name: String,
    pub kind: Kind,
    /// `[A-Z][A-Za-z]*`; names regions. Made from the name where the manifest has none.
    pub label: String,
    /// Executors whose claims it takes over, limits and checks included.
    pub like: Vec<String>,
    pub aliases: Vec<Alias>,
    pub claims: Vec<Claim>,
    /// Fusion executors only.
    pub regions: Option<RegionRules>,
    pub options: BTreeMap<String, OptionDecl>,
    #[serde(skip)]
    pub(crate) index: ClaimIndex,
}

/// What an executor takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Kernels for single ops.
    Op,
    /// Regions of ops.
    Fusion,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Op => "op",
            Kind::Fusion => "fusion",
        })
    }
}

/// A former name of an executor or option, still understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alias {
    pub name: String,
    /// The plugin release that renamed it.
    pub since: Option<String>,
    /// The plugin release that will drop it.
    pub until: Option<String>,
}

/// Static limits under which ops are taken. All must hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Names or globs; at least one.
    pub ops: Vec<Glob>,
    /// Of all tensor inputs; `None`: any.
    pub dtypes: Option<Vec<String>>,
    /// Of all tensor inputs, by kind (`cuda`) or exact (`cuda:0`); `cpu` where the manifest has none.
    pub devices: Vec<String>,
    /// Lowest and highest number of dims of tensor inputs, inclusive; `None`: any.
    pub ranks: Option<(u32, u32)>,
    /// What the kernel needs; never a reason to refuse, the host copies.
    pub layout: Layout,
    /// Whether `check_op` is asked as well. `false`: these limits are the whole truth.
    pub check: bool,
}

/// How a kernel's tensors must lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// The host copies what is not contiguous.
    Contiguous,
    /// The last stride is 1.
    Rows,
    /// The kernel takes strides.
    #[default]
    Any,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::Contiguous => "contiguous",
            Layout::Rows => "rows",
            Layout::Any => "any",
        })
    }
}

/// Which regions a fusion executor wants. `None`: no such rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RegionRules {
    /// A region must hold one of these ops, views included.
    pub needs_any: Option<Vec<Glob>>,
    pub min_ops: Option<u64>,
    pub max_ops: Option<u64>,
}

/// An option that an executor understands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OptionDecl {
    #[serde(rename = "type")]
    pub kind: OptionKind,
    /// Of the option's type, within its bounds.
    pub default: Plain,
    pub min: Option<Plain>,
    pub max: Option<Plain>,
    pub doc: String,
    pub aliases: Vec<Alias>,
}

impl OptionDecl {
    /// Checks a value against type and bounds and gives it in the option's type (a whole number is a fine
    /// float). The error says what was expected.
    pub fn accept(&self, value: Plain) -> Result<Plain, OptionMismatch> {
        let value = match (self.kind, value) {
            (OptionKind::Float, Plain::Int(int)) => Plain::Float(int as f64),
            (_, value) => value,
        };
        if !self.kind.holds(&value) {
            return Err(OptionMismatch::Type { expected: self.kind });
        }
        let below = self.min.as_ref().is_some_and(|min| less(&value, min));
        let above = self.max.as_ref().is_some_and(|max| less(max, &value));
        if below || above {
            return Err(OptionMismatch::Bounds { min: self.min.clone(), max: self.max.clone() });
        }
        Ok(value)
    }
}

fn less(a: &Plain, b: &Plain) -> bool {
    match (a, b) {
        (Plain::Int(a), Plain::Int(b)) => a < b,
        (Plain::Float(a), Plain::Float(b)) => a < b || a.is_nan(),
        _ => false,
    }
}

/// Why a value is not one of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionMismatch {
    Type { expected: OptionKind },
    Bounds { min: Option<Plain>, max: Option<Plain> },
}

impl fmt::Display for OptionMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionMismatch::Type { expected } => f.write_str(expected.described()),
            OptionMismatch::Bounds { min: Some(min), max: Some(max) } => write!(f, "{min} to {max}"),
            OptionMismatch::Bounds { min: Some(min), max: None } => write!(f, "at least {min}"),
            OptionMismatch::Bounds { min: None, max: Some(max) } => write!(f, "at most {max}"),
            OptionMismatch::Bounds { min: None, max: None } => f.write_str("any value"),
        }
    }
}

/// An option's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OptionKind {
    Bool,
    Int,
    Float,
    String,
    /// Of strings, numbers or booleans.
    List,
}

impl OptionKind {
    /// As spelled in manifests, in this order.
    pub const WORDS: [&'static str; 5] = ["bool", "int", "float", "string", "list"];

    pub(crate) const ALL: [OptionKind; 5] =
        [OptionKind::Bool, OptionKind::Int, OptionKind::Float, OptionKind::String, OptionKind::List];

    /// Whether the value is of this type.
    pub fn holds(self, value: &Plain) -> bool {
        matches!(
            (self, value),
            (OptionKind::Bool, Plain::Bool(_))
                | (OptionKind::Int, Plain::Int(_))
                | (OptionKind::Float, Plain::Float(_))
                | (OptionKind::String, Plain::Str(_))
                | (OptionKind::List, Plain::List(_))
        )
    }

    /// As messages say it.
    pub fn described(self) -> &'static str {
        match self {
            OptionKind::Bool => "true or false",
            OptionKind::Int => "an integer",
            OptionKind::Float => "a number",
            OptionKind::String => "a string",
            OptionKind::List => "a list",
        }
    }

    /// The default where the manifest gives none: false, 0, 0.0, "" or [].
    pub fn zero(self) -> Plain {
        match self {
            OptionKind::Bool => Plain::Bool(false),
            OptionKind::Int => Plain::Int(0),
            OptionKind::Float => Plain::Float(0.0),
            OptionKind::String => Plain::Str(String::new()),
            OptionKind::List => Plain::List(Vec::new()),
        }
    }
}

impl fmt::Display for OptionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::WORDS[*self as usize])
    }
}
