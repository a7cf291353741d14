//! Why a plugin is not loaded. One variant a step of the load sequence or a way in which it can fail; each names both
//! values and the fix. The documentation of a variant is its page in `docs/errors.md`.

use miette::Diagnostic;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a plugin file, or an executor in it, is not loaded.
#[derive(Clone, Debug, PartialEq, Eq, Error, Diagnostic)]
#[non_exhaustive]
pub enum LoadError {
    /// The file or folder cannot be read.
    #[error("cannot read `{}`: {reason}", path.display())]
    #[diagnostic(code(load::unreadable), help("check that it exists and that you may read it"))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// The file is no shared library that this host can read, or has no Thunderhead probe.
    #[error("`{}` is no Thunderhead plugin: {why}", path.display())]
    #[diagnostic(
        code(load::no_probe),
        help(
            "a plugin is a shared library that ends in `export_plugin!` (Rust) or `THUNDERHEAD_PLUGIN` (C); the first page of thunderhead-sdk's documentation shows a whole one"
        )
    )]
    NoProbe {
        /// The file.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// The probe is there but cannot be what it says.
    #[error("the probe of `{}` is damaged: {why}", path.display())]
    #[diagnostic(code(load::probe_damaged), help("build the plugin again, or fetch the file again"))]
    ProbeDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The manifest's text is missing, cut off, or not text.
    #[error("the manifest of `{}` is damaged: {why}", path.display())]
    #[diagnostic(code(load::manifest_damaged), help("build the plugin again, or fetch the file again"))]
    ManifestDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The manifest cannot be understood.
    #[error("the manifest of `{}` cannot be used:\n{faults}", path.display())]
    #[diagnostic(
        code(load::manifest_invalid),
        help("its author must mend `plugin.toml`; lines and columns are those of that file")
    )]
    ManifestInvalid {
        /// The file.
        path: PathBuf,
        /// All of them, one a line.
        faults: String,
    },
    /// Anybody may change the file, or what lies in its folder.
    #[error("`{}` is not trusted: `{}` is writable by everybody (mode {mode:o})", path.display(), what.display())]
    #[diagnostic(
        code(load::world_writable),
        help("`chmod o-w {}`, or set `[plugins] allow_untrusted = true`", what.display())
    )]
    WorldWritable {
        /// The plugin.
        path: PathBuf,
        /// The file or folder at fault.
        what: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file is not the one that the config pins.
    #[error("`{}` has SHA-256 {found}, the config pins {expected} for `{id}`", path.display())]
    #[diagnostic(
        code(load::pin_mismatch),
        help("if the change is meant, `thunderhead plugins lock` writes new pins; if not, do not run it")
    )]
    PinMismatch {
        /// The file.
        path: PathBuf,
        /// The plugin.
        id: String,
        /// The pin.
        expected: String,
        /// The digest.
        found: String,
    },
    /// The plugin is built for another major version of the ABI.
    #[error("`{}` is built for ABI {found}, this host has {expected}", path.display())]
    #[diagnostic(code(load::abi_major), help("{advice}"))]
    AbiMajor {
        /// The file.
        path: PathBuf,
        /// The plugin's.
        found: String,
        /// The host's.
        expected: String,
        /// Which of the two to renew.
        advice: String,
    },
    /// While the ABI is 0.N, only an equal N loads.
    #[error("`{}` is built for ABI {found}, this host has {expected}", path.display())]
    #[diagnostic(
        code(load::abi_minor),
        help(
            "until ABI 1.0 each minor version is its own: build the plugin with thunderhead-sdk {expected}"
        )
    )]
    AbiMinor {
        /// The file.
        path: PathBuf,
        /// The plugin's.
        found: String,
        /// The host's.
        expected: String,
    },
    /// A table that the plugin cannot do without is missing.
    #[error("`{}` needs table `{table}`, which {whose} does not have", path.display())]
    #[diagnostic(code(load::missing_table), help("{advice}"))]
    MissingTable {
        /// The file.
        path: PathBuf,
        /// The id.
        table: String,
        /// "this host" or "the plugin itself".
        whose: String,
        /// What to do.
        advice: String,
    },
    /// A table whose id starts with `x-` is wanted.
    #[error("`{}` needs the experimental table `{table}`", path.display())]
    #[diagnostic(
        code(load::experimental_table),
        help("ids that start `x-` may change at any time; this host has no opt-in for it")
    )]
    ExperimentalTable {
        /// The file.
        path: PathBuf,
        /// The id.
        table: String,
    },
    /// The plugin understands another version of the IR.
    #[error("`{}` understands IR {found}, this host speaks {expected}", path.display())]
    #[diagnostic(code(load::ir_version), help("use a plugin and a host of the same IR version"))]
    IrVersion {
        /// The file.
        path: PathBuf,
        /// The plugin's.
        found: String,
        /// The host's.
        expected: String,
    },
    /// The plugin is built for another kind of machine.
    #[error("`{}` is built for `{found}`, this host for `{expected}`", path.display())]
    #[diagnostic(code(load::target), help("build it with `cargo build --target {expected}`"))]
    Target {
        /// The file.
        path: PathBuf,
        /// The plugin's triple.
        found: String,
        /// The host's.
        expected: String,
    },
    /// A panic in the plugin would end the process.
    #[error("`{}` is built with panic = \"{found}\", it takes panic = \"unwind\"", path.display())]
    #[diagnostic(
        code(load::panic_abort),
        help("remove `panic = \"abort\"` from the plugin's profile, so that its panics can be caught")
    )]
    PanicAbort {
        /// The file.
        path: PathBuf,
        /// The strategy.
        found: String,
    },
    /// A shared library that the manifest declares was not found.
    #[error("`{}` needs the library `{library}`, which was not found", path.display())]
    #[diagnostic(
        code(load::library_missing),
        help(
            "set `[libraries] {library} = \"/its/folder\"` or the variable {variable}; looked in: {looked_in}"
        )
    )]
    LibraryMissing {
        /// The file.
        path: PathBuf,
        /// The library's name in the manifest.
        library: String,
        /// The variable that can name it.
        variable: String,
        /// All places, with where each came from.
        looked_in: String,
    },
    /// The library found is of another version.
    #[error("`{}` needs `{library}` {expected}, `{}` is {found}", path.display(), folder.display())]
    #[diagnostic(
        code(load::library_version),
        help(
            "point `[libraries] {library}` or its variable at version {expected} (this folder came from {origin})"
        )
    )]
    LibraryVersion {
        /// The file.
        path: PathBuf,
        /// The library's name in the manifest.
        library: Box<str>,
        /// What the plugin was built with.
        expected: Box<str>,
        /// What was found.
        found: Box<str>,
        /// Where.
        folder: PathBuf,
        /// Who named the folder.
        origin: Box<str>,
    },
    /// Another build of the same library is in this process already.
    #[error("`{}` would bring a second `{library}`: `{}` is loaded, `{}` was asked for", path.display(), loaded.display(), wanted.display())]
    #[diagnostic(
        code(load::library_conflict),
        help("one process can hold one build of it; make all plugins use one folder")
    )]
    LibraryConflict {
        /// The file.
        path: PathBuf,
        /// The shared object's name.
        library: String,
        /// The file that is loaded.
        loaded: PathBuf,
        /// The file that was wanted.
        wanted: PathBuf,
    },
    /// A declared library cannot be opened.
    #[error("`{}`, which `{}` needs, cannot be opened: {reason}", library.display(), path.display())]
    #[diagnostic(
        code(load::library_failed),
        help("check that the library is complete and built for this machine")
    )]
    LibraryFailed {
        /// The file.
        path: PathBuf,
        /// The library's file.
        library: PathBuf,
        /// The dynamic linker's words.
        reason: String,
    },
    /// The dynamic linker refuses the file.
    #[error("`{}` cannot be opened: {reason}", path.display())]
    #[diagnostic(
        code(load::open_failed),
        help(
            "a library or symbol that it names is missing here; `ldd` shows which. Declare what the host should find as `libraries` in the manifest"
        )
    )]
    OpenFailed {
        /// The file.
        path: PathBuf,
        /// The dynamic linker's words.
        reason: String,
    },
    /// The file does not export the entry function, or that returns nothing usable.
    #[error("`{}` has no usable `thunderhead_entry_v1`: {why}", path.display())]
    #[diagnostic(
        code(load::no_entry),
        help("end the crate in `export_plugin!`, or the C file in `THUNDERHEAD_PLUGIN`")
    )]
    NoEntry {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// abi_stable finds that the types of plugin and host differ.
    #[error("the types of `{}` and of this host differ", path.display())]
    #[diagnostic(
        code(load::layout),
        help("build it with the thunderhead-sdk of this host; abi_stable says:\n{report}")
    )]
    Layout {
        /// The file.
        path: PathBuf,
        /// The differences.
        report: String,
    },
    /// A struct or table has a size that its version cannot have.
    #[error("`{what}` of `{}` has {found} bytes, expected {expected}", path.display())]
    #[diagnostic(
        code(load::struct_size),
        help(
            "the plugin was built from other definitions than its probe says; build it with the SDK or header of ABI {abi}"
        )
    )]
    StructSize {
        /// The file.
        path: PathBuf,
        /// The struct or table.
        what: String,
        /// The plugin's.
        found: u64,
        /// The host's.
        expected: u64,
        /// The host's ABI.
        abi: String,
    },
    /// What the plugin says of itself is not what its file shows.
    #[error("`{}` contradicts itself: {what} is {found} in {place}, {expected} in the manifest", path.display())]
    #[diagnostic(
        code(load::manifest_lies),
        help(
            "the manifest must be the one that the plugin was built with; build it again with its own `plugin.toml`"
        )
    )]
    ManifestLies {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: String,
        /// The other value.
        found: String,
        /// Where that stands.
        place: String,
        /// The manifest's value.
        expected: String,
    },
    /// The executor could not be made.
    #[error("`{executor}` of `{}` could not be made: {status}: {message}", path.display())]
    #[diagnostic(
        code(load::create_failed),
        help("the message is the plugin's; its options are shown by `thunderhead config show`")
    )]
    CreateFailed {
        /// The file.
        path: PathBuf,
        /// The executor.
        executor: String,
        /// The kind of failure.
        status: String,
        /// The plugin's words.
        message: String,
    },
    /// The executor panicked while it was made.
    #[error("`{executor}` of `{}` panicked while it was made: {message}", path.display())]
    #[diagnostic(code(load::create_panicked), help("this is a fault of the plugin; report it to its author"))]
    CreatePanicked {
        /// The file.
        path: PathBuf,
        /// The executor.
        executor: String,
        /// The panic's message.
        message: String,
    },
    /// The executor says that it cannot work here.
    #[error("`{executor}` of `{}` is not available: {message}", path.display())]
    #[diagnostic(
        code(load::unavailable),
        help("provide what it asks for, or set its `policy = \"optional\"`")
    )]
    Unavailable {
        /// The file.
        path: PathBuf,
        /// The executor.
        executor: String,
        /// The plugin's words.
        message: String,
    },
    /// Two plugins bring an executor of one name.
    #[error("two plugins bring the executor `{name}`: `{}` and `{}`", first.display(), second.display())]
    #[diagnostic(
        code(load::duplicate_executor),
        help("remove one of the files, or name only one of them in `[plugins] paths`")
    )]
    DuplicateExecutor {
        /// The name.
        name: String,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// Two different files have one plugin id.
    #[error("two different plugins have the id `{id}`: `{}` and `{}`", first.display(), second.display())]
    #[diagnostic(
        code(load::duplicate_plugin),
        help("remove one of the files (two versions of one plugin cannot be loaded together)")
    )]
    DuplicatePlugin {
        /// The id.
        id: String,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// No plugin that was found brings the executor.
    #[error("no plugin brings the executor `{name}`")]
    #[diagnostic(
        code(load::not_found),
        help(
            "looked in: {looked_in}; `thunderhead doctor` shows what lies there. Plugins that come with Thunderhead are built by `cargo xtask dist`, into a tree whose command finds them; those that need libtorch are in a tree that was built without `--no-torch`"
        )
    )]
    NotFound {
        /// The name.
        name: String,
        /// Folders and files, one behind the other.
        looked_in: String,
    },
}

impl LoadError {
    /// The stable code: `load::abi_major`.
    pub fn code_text(&self) -> String {
        self.code().map(|code| code.to_string()).unwrap_or_default()
    }

    /// What to do about it.
    pub fn help_text(&self) -> String {
        self.help().map(|help| help.to_string()).unwrap_or_default()
    }

    pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> LoadError {
        LoadError::Unreadable { path: path.to_owned(), reason: error.to_string() }
    }
}
