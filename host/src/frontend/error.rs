//! What can be wrong with a model file. Exit code 9, whatever the variant.
//!
//! Each error says what was found, where (the archive's entry, the node's name), and, in its help, what to do.
//! Deliberately not here: the path of the file, which the façade adds.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

/// Shorthand for what the front end returns.
pub type ModelResult<T> = Result<T, ModelError>;

/// A model file that is damaged, hostile, of another kind or beyond what this version supports.
#[derive(Debug, Error, Diagnostic)]
pub enum ModelError {
    /// The file cannot be opened or mapped: it does not exist, or permissions are missing.
    #[error("cannot open `{}`: {source}", path.display())]
    #[diagnostic(code(model::io), help("check the path and the permissions"))]
    Io { path: PathBuf, source: std::io::Error },

    /// The file holds no ZIP directory at all, so it is not a `.pt2` (or only its beginning was copied).
    #[error("not a `.pt2` file: {why}")]
    #[diagnostic(
        code(model::not_an_archive),
        help(
            "a `.pt2` is the ZIP archive that `torch.export.save` writes; if it should be one, the file is cut off"
        )
    )]
    NotAnArchive { why: String },

    /// The ZIP's own structure contradicts itself: offsets outside the file, headers that disagree, overlapping entries.
    #[error("the archive is damaged at `{at}`: {why}")]
    #[diagnostic(code(model::archive_damaged), help("copy or export the file again"))]
    ArchiveDamaged { at: String, why: String },

    /// Two entries have one name; which of them is meant cannot be told.
    #[error("the archive has two entries named `{entry}`")]
    #[diagnostic(
        code(model::entry_duplicate),
        help("export the file again; PyTorch never writes an entry twice")
    )]
    EntryDuplicate { entry: String },

    /// An entry is encrypted or compressed by a method other than deflate.
    #[error("cannot read `{entry}`: {why}")]
    #[diagnostic(
        code(model::entry_unsupported),
        help("pack the archive again without compression and encryption")
    )]
    EntryUnsupported { entry: String, why: String },

    /// An entry unpacks to more than is reasonable, as a decompression bomb does.
    #[error("`{entry}` is too large: {found} bytes, at most {limit} are read")]
    #[diagnostic(
        code(model::entry_too_large),
        help("PyTorch stores entries uncompressed; a file from elsewhere may be hostile")
    )]
    EntryTooLarge { entry: String, found: u64, limit: u64 },

    /// The bytes of an entry do not give the checksum that the directory records.
    #[error("`{entry}` is damaged: checksum {found:08x}, expected {expected:08x}")]
    #[diagnostic(code(model::checksum), help("copy or export the file again"))]
    Checksum { entry: String, found: u32, expected: u32 },

    /// An entry that the format requires is absent.
    #[error("the archive has no entry `{entry}`, needed for {needed_for}")]
    #[diagnostic(code(model::entry_missing), help("export the file again with `torch.export.save`"))]
    EntryMissing { entry: String, needed_for: String },

    /// The archive is of another kind (`archive_format` is not `pt2`) or is made for another runtime.
    #[error("not an exported program: {why}")]
    #[diagnostic(
        code(model::not_a_program),
        help("write the model with `torch.export.save(torch.export.export(…), path)`")
    )]
    NotAProgram { why: String },

    /// `archive_version` is one that this host does not know.
    #[error("archive version `{found}` is not supported, only {expected}")]
    #[diagnostic(code(model::archive_version), help("update Thunderhead, or export with PyTorch 2.13"))]
    ArchiveVersion { found: String, expected: &'static str },

    /// The archive holds several programs and none of them is `model`.
    #[error("the archive holds several programs: {found}")]
    #[diagnostic(code(model::programs_ambiguous), help("write each program to a file of its own"))]
    ProgramsAmbiguous { found: String },

    /// A pickle of an older layout holds something other than tensors.
    #[error("`{entry}` cannot be read at byte {at}: {why}")]
    #[diagnostic(
        code(model::pickle),
        help(
            "load the file with PyTorch and save it again: `torch.export.save(torch.export.load(old), new)`"
        )
    )]
    Pickle { entry: String, at: usize, why: String },

    /// Tensor bytes are stored in another byte order than this machine's.
    #[error("tensors are stored in byte order `{found}`, only `little` is supported")]
    #[diagnostic(code(model::byte_order), help("export the model on a little-endian machine"))]
    ByteOrder { found: String },

    /// A JSON entry is not what the schema says. Line and column count from 1.
    #[error("`{entry}` is not valid at line {line}, column {column}: {why}")]
    #[diagnostic(
        code(model::json),
        help("export the file again; if it is from a newer PyTorch, update Thunderhead")
    )]
    Json { entry: String, line: usize, column: usize, why: String },

    /// The program's schema has another major version.
    #[error("schema version {found} is not supported, only major {expected}")]
    #[diagnostic(
        code(model::schema_major),
        help("export with a PyTorch of schema major 8 (2.5 to 2.13), or update Thunderhead")
    )]
    SchemaMajor { found: String, expected: i64 },

    /// The program is of a kind that the importer does not know (`verifiers` is neither `TRAINING` nor `ATEN`).
    #[error("the program is in dialect `{found}`, only TRAINING and ATEN are supported")]
    #[diagnostic(
        code(model::dialect),
        help("save the result of `torch.export.export` or of its `run_decompositions()`")
    )]
    Dialect { found: String },

    /// A symbolic size is written in a way that cannot be read.
    #[error("cannot read the size expression `{text}` at byte {at}: {why}")]
    #[diagnostic(
        code(model::expression),
        help("export the file again; if it is from a newer PyTorch, update Thunderhead")
    )]
    Expression { text: String, at: usize, why: String },

    /// A parameter, buffer or constant of the signature has no entry in its payload config.
    #[error("no data for {role} `{fqn}`: it is not in `{config}`")]
    #[diagnostic(
        code(model::weight_missing),
        help("export the file again; weights cannot be given separately for it")
    )]
    WeightMissing { fqn: String, role: &'static str, config: String },

    /// A tensor's sizes, strides and offset do not fit the file that holds its storage.
    #[error("tensor `{fqn}` does not fit `{entry}`: {why}")]
    #[diagnostic(code(model::weight_bounds), help("copy or export the file again"))]
    WeightBounds { fqn: String, entry: String, why: String },

    /// A tensor that the file cannot give as raw bytes: a subclass as a pickle, a custom object, a sparse layout.
    #[error("`{fqn}` cannot be loaded: {why}")]
    #[diagnostic(
        code(model::weight_unsupported),
        help("convert it to a plain dense tensor before exporting")
    )]
    WeightUnsupported { fqn: String, why: String },

    /// A tensor of the program disagrees with the data that the file holds for it.
    #[error("`{fqn}` is {found} in the weights, {expected} in the program")]
    #[diagnostic(code(model::weight_mismatch), help("copy or export the file again"))]
    WeightMismatch { fqn: String, found: String, expected: String },

    /// Tensors that share memory in a way that no one of them covers, and the program writes to it.
    #[error("the program writes to `{fqn}`, whose memory others share: {others}")]
    #[diagnostic(
        code(model::storage_overlap),
        help("register the whole tensor as a buffer beside its views, or clone the views before exporting")
    )]
    StorageOverlap { fqn: String, others: String },

    /// Inputs or outputs of the graph disagree with its signature.
    #[error("the signature does not fit the graph: {why}")]
    #[diagnostic(code(model::signature), help("export the file again"))]
    Signature { why: String },

    /// The program has inputs or outputs of a kind that is not supported.
    #[error("{what} is not supported")]
    #[diagnostic(
        code(model::signature_unsupported),
        help("export a program whose inputs and outputs are tensors and numbers")
    )]
    SignatureUnsupported { what: String },

    /// A node uses a value that no earlier node defines.
    #[error("{place} uses `{name}`, which is not defined before it")]
    #[diagnostic(code(model::value_undefined), help("export the file again"))]
    ValueUndefined { place: Place, name: String },

    /// Two nodes define one value.
    #[error("{place} defines `{name}` once more")]
    #[diagnostic(code(model::value_redefined), help("export the file again"))]
    ValueRedefined { place: Place, name: String },

    /// The file does not say what a value is (no entry in `tensor_values` or `sym_*_values`), or says it in a way that
    /// cannot be.
    #[error("{place}: the type of `{name}` cannot be read: {why}")]
    #[diagnostic(
        code(model::value_type),
        help("export the file again; if it is from a newer PyTorch, update Thunderhead")
    )]
    ValueType { place: Place, name: String, why: String },

    /// A node's argument is missing, of the wrong kind, or of a kind younger than this version.
    #[error("{place}: argument `{name}` {why}")]
    #[diagnostic(
        code(model::argument),
        help("export the file again; if it is from a newer PyTorch, update Thunderhead")
    )]
    Argument { place: Place, name: String, why: String },

    /// A node calls something that is no operator this version knows how to name.
    #[error("{place}: the operator is unknown")]
    #[diagnostic(
        code(model::operator_unknown),
        help(
            "if the file is from a newer PyTorch, update Thunderhead; \
        an operator of your own needs a namespace of its own"
        )
    )]
    OperatorUnknown { place: Place },

    /// A higher-order operator other than `cond`, `while_loop`, `scan`, `map` and regions with gradients switched off or
    /// under autocast.
    #[error("{place}: the higher-order operator is not supported")]
    #[diagnostic(
        code(model::higher_order),
        help(
            "export without it: `cond`, `while_loop`, `scan` and `map` are supported, \
        and `run_decompositions()` removes some others"
        )
    )]
    HigherOrder { place: Place },

    /// A call that a token keeps in order (`with_effects`), other than a check of error codes.
    #[error("{place}: `{operator}` is called for its effect, kept in order by a token")]
    #[diagnostic(
        code(model::effect),
        help(
            "of such calls only `aten._linalg_check_errors` is supported: leave the call out of the model, or export \
        without `run_decompositions()`, which wraps it, and put an executor that claims it in the order"
        )
    )]
    Effect { place: Place, operator: String },

    /// A `while_loop` draws random numbers: how many depends on data, so that no position in the random stream could be
    /// given to what comes after it.
    #[error("{place}: the loop draws random numbers, and how many depends on data")]
    #[diagnostic(
        code(model::loop_random),
        help("draw them before the loop and pass them in, or use `scan`, whose number of trips is known")
    )]
    LoopRandom { place: Place },

    /// The op table does not take the call: dims, dtypes or arguments that cannot be.
    #[error("{place}: {why}")]
    #[diagnostic(
        code(model::call),
        help("if PyTorch runs this model, please report it with the node's name")
    )]
    Call { place: Place, why: String },

    /// What the op gives is not what the file records.
    #[error("{place}: result `{name}` is {found} by the operator's rule, the file records {expected}")]
    #[diagnostic(
        code(model::result_mismatch),
        help("if PyTorch runs this model, please report it with the node's name")
    )]
    ResultMismatch { place: Place, name: String, found: String, expected: String },

    /// A write whose effect on other values cannot be followed.
    #[error("{place}: {why}")]
    #[diagnostic(
        code(model::mutation),
        help("replace the in-place operation by its functional form, or export with `run_decompositions()`")
    )]
    Mutation { place: Place, why: String },

    /// An assertion of the model that can never hold.
    #[error("{place}: an assertion of the model never holds: {message}")]
    #[diagnostic(code(model::assertion), help("export the model again with inputs that satisfy it"))]
    Assertion { place: Place, message: String },

    /// The program is larger than what is read.
    #[error("the program is too large: {why}")]
    #[diagnostic(
        code(model::too_large),
        help("a file from elsewhere may be hostile; if it is yours, please report it")
    )]
    TooLarge { why: String },
}

/// Where in a program: the node's name, what it calls, and the module and line that it came from, where known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place(pub Box<PlaceParts>);

/// What a [`Place`] is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceParts {
    /// Name of the node; empty: the program's inputs or outputs.
    pub node: String,
    /// `torch.ops.aten.add.Tensor`.
    pub target: String,
    /// Path of the module, `layers.3.mlp`.
    pub module: Option<String>,
    /// The model's source line.
    pub source: Option<String>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PlaceParts { node, target, module, source } = &*self.0;
        if node.is_empty() {
            return f.write_str("the program");
        }
        write!(f, "node `{node}` (`{target}`")?;
        if let Some(module) = module {
            write!(f, " in module `{module}`")?;
        }
        if let Some(source) = source {
            write!(f, ", {source}")?;
        }
        f.write_str(")")
    }
}

impl ModelError {
    /// The stable code (`model::…`) of this error.
    pub fn code_text(&self) -> String {
        self.code().map(|code| code.to_string()).unwrap_or_default()
    }

    pub(crate) fn damaged(at: impl Into<String>, why: impl Into<String>) -> Self {
        Self::ArchiveDamaged { at: at.into(), why: why.into() }
    }
}
