//! The `.pt2` file as it lies on disk: a ZIP archive, a program in JSON, raw tensor storages.
//!
//! Two gates. Here, *access* is made safe: offsets, lengths, enums and references into the archive are checked before
//! anything relies on them, nothing is allocated because a header claims it, and weights are located, not read.
//! What the program *means* is the importer's business.
//! Three layouts of the file: PyTorch 2.13's with raw tensor files (archive version 0), and two older ones whose tensors
//! lie in nested `torch.save` archives with a pickle.

pub mod archive;
pub mod expr;
pub mod graph;
pub mod pickle;
pub mod weights;

#[cfg(test)]
pub(in crate::frontend) mod tests;

use std::path::Path;

use crate::frontend::{ModelError, ModelResult};
use crate::memory::FileBytes;

use archive::Archive;
use graph::ExportedProgram;
use weights::Weights;

/// The schema that this reader was written against. Another major is refused, a newer minor read as far as it is known.
pub const SCHEMA_MAJOR: i64 = 8;
/// The newest minor version whose every field is known here.
pub const SCHEMA_MINOR: i64 = 20;

/// A program and where its tensors lie. Nothing of the tensors has been read.
#[derive(Debug)]
pub struct Pt2 {
    /// What the model is called: the file's name without extension; for a file that is just called `model` or `core`
    /// the name of its folder.
    pub name: String,
    /// The program, as the file spells it.
    pub program: ExportedProgram,
    /// Parameters, buffers and constants by name.
    pub weights: Weights,
    /// What is worth saying but no error: a newer minor version of the schema.
    pub warnings: Vec<String>,
}

impl Pt2 {
    /// Maps the file at `path` and reads its program and payload configs.
    ///
    /// # Errors
    /// [`ModelError`] for a file that cannot be opened, is damaged, or is beyond what is supported.
    pub fn open(path: &Path) -> ModelResult<Self> {
        let bytes =
            FileBytes::map(path).map_err(|source| ModelError::Io { path: path.to_owned(), source })?;
        let mut pt2 = Self::from_bytes(bytes)?;
        if let Some(name) = name_of(path) {
            pt2.name = name;
        }
        Ok(pt2)
    }

    /// The same for bytes that are already at hand.
    ///
    /// # Errors
    /// As [`Pt2::open`].
    pub fn from_bytes(bytes: FileBytes) -> ModelResult<Self> {
        let archive = Archive::read(bytes)?;
        let (program, weights) = match layout(&archive)? {
            Layout::Entries25 => {
                check_schema_entry(&archive)?;
                let entry = "serialized_exported_program.json";
                let program = ExportedProgram::parse(&archive.text(entry, "the program")?, entry)?;
                let files = ["serialized_state_dict.pt", "serialized_constants.pt"];
                (program, Weights::read_pickled(&archive, files)?)
            }
            layout => {
                let name = program_name(&archive)?;
                let entry = format!("models/{name}.json");
                let program = ExportedProgram::parse(&archive.text(&entry, "the program")?, &entry)?;
                let weights = if layout == Layout::Pickled28 {
                    let files = [format!("data/weights/{name}.pt"), format!("data/constants/{name}.pt")];
                    Weights::read_pickled(&archive, [&files[0], &files[1]])?
                } else {
                    Weights::read(&archive, &name)?
                };
                (program, weights)
            }
        };
        let mut warnings = Vec::new();
        if program.schema_version.minor > SCHEMA_MINOR {
            warnings.push(format!(
                "the program has schema {}.{}, newer than {SCHEMA_MAJOR}.{SCHEMA_MINOR}; what is unknown in it is refused where it is met",
                program.schema_version.major, program.schema_version.minor
            ));
        }
        let root = archive.root().trim_end_matches('/').to_owned();
        Ok(Self { name: root, program, weights, warnings })
    }
}

fn name_of(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_str()?;
    let folder = || path.parent()?.file_name()?.to_str();
    match stem {
        "model" | "core" => Some(folder().unwrap_or(stem).to_owned()),
        _ => Some(stem.to_owned()),
    }
}

/// How the parts of a program are laid out in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// PyTorch 2.5 to 2.7: a plain ZIP without a root folder, tensors pickled.
    Entries25,
    /// PyTorch 2.8: the present archive, tensors pickled.
    Pickled28,
    /// Raw tensor files with a config.
    Raw,
}

/// Kind, version and byte order of the archive; the oldest layout first, it lacks the marker entries.
fn layout(archive: &Archive) -> ModelResult<Layout> {
    if archive.has("serialized_exported_program.json") {
        return Ok(Layout::Entries25);
    }
    if !archive.has("archive_format") {
        let why = "there is no entry `archive_format`";
        let why = if archive.has("data.pkl") {
            format!("{why}; it looks like a `torch.save` file")
        } else {
            why.to_owned()
        };
        return Err(ModelError::NotAProgram { why });
    }
    let format = archive.short_text("archive_format")?;
    if format != "pt2" {
        return Err(ModelError::NotAProgram { why: format!("`archive_format` is `{format}`, not `pt2`") });
    }
    let version = archive.short_text("archive_version")?;
    if version != "0" {
        return Err(ModelError::ArchiveVersion { found: version, expected: "0" });
    }
    check_byte_order(archive)?;
    let raw = archive
        .names()
        .any(|name| name.starts_with("data/weights/") && name.ends_with("_weights_config.json"));
    let pickled = archive.names().any(|name| name.starts_with("data/weights/") && name.ends_with(".pt"));
    Ok(if pickled && !raw { Layout::Pickled28 } else { Layout::Raw })
}

/// Raw tensor bytes must be in this machine's order.
pub(super) fn check_byte_order(archive: &Archive) -> ModelResult<()> {
    match archive.short_text("byteorder")? {
        order if order == "little" => Ok(()),
        found => Err(ModelError::ByteOrder { found }),
    }
}

/// The entry `version` of the oldest layout holds the schema's version as text.
fn check_schema_entry(archive: &Archive) -> ModelResult<()> {
    let found = archive.short_text("version")?;
    let major = found.split('.').next().and_then(|major| major.parse::<i64>().ok());
    if major == Some(SCHEMA_MAJOR) {
        return Ok(());
    }
    Err(ModelError::SchemaMajor { found, expected: SCHEMA_MAJOR })
}

/// `model` where there is one, else the only program.
fn program_name(archive: &Archive) -> ModelResult<String> {
    if archive.has("models/model.json") {
        return Ok("model".to_owned());
    }
    let mut names: Vec<&str> =
        archive.names().filter_map(|name| name.strip_prefix("models/")?.strip_suffix(".json")).collect();
    names.sort_unstable();
    match names[..] {
        [name] => Ok(name.to_owned()),
        [] => Err(ModelError::NotAProgram { why: no_program(archive) }),
        _ => Err(ModelError::ProgramsAmbiguous { found: names.join(", ") }),
    }
}

fn no_program(archive: &Archive) -> String {
    let other = [("data/aotinductor/", "AOTInductor code"), ("data/executorch/", "an ExecuTorch program")]
        .into_iter()
        .find(|(prefix, _)| archive.names().any(|name| name.starts_with(prefix)));
    match other {
        Some((_, what)) => format!("the archive holds only {what}, no `models/*.json`"),
        None => "the archive holds no `models/*.json`".to_owned(),
    }
}
