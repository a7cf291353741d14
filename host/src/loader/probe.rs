//! Layer 0: probe and manifest read from a plugin's file, without loading it.
//!
//! Works for files of other architectures, with libraries missing, and of ABIs to come. The file is not trusted: all
//! offsets and lengths are checked by `object` or here, and a damaged file is an error, never a panic.

use super::error::LoadError;
use object::{Object, ObjectSection, ObjectSymbol};
use serde::Serialize;
use std::path::Path;
use thunderhead_abi::probe::{
    MANIFEST_MAGIC, MANIFEST_SECTION, MANIFEST_SYMBOL, ManifestHead, PROBE_MAGIC, PROBE_SECTION,
    PROBE_SYMBOL, Probe, panics,
};

/// The longest manifest that is read.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;
/// Bytes of a probe that keep their meaning for ever.
const FROZEN_BYTES: usize = 24;

/// What a probe says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbeInfo {
    /// Major version of the ABI that the plugin was built for.
    pub abi_major: u32,
    /// Minor version.
    pub abi_minor: u32,
    /// What a panic does.
    pub panics: Panics,
    /// Version of SDK or header.
    pub sdk_version: String,
    /// Shown, not compared.
    pub compiler: String,
    /// Target triple.
    pub target: String,
}

/// What a panic does in the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Panics {
    /// It can be caught.
    Unwind,
    /// It ends the process.
    Abort,
    /// The language has none.
    None,
    /// A value of a later ABI.
    Unknown,
}

impl Panics {
    /// As in a Cargo profile.
    pub fn name(self) -> &'static str {
        match self {
            Panics::Unwind => "unwind",
            Panics::Abort => "abort",
            Panics::None => "none",
            Panics::Unknown => "unknown",
        }
    }
}

/// What can be read of a file without loading it.
#[derive(Clone, Debug)]
pub struct FileFacts {
    /// The probe.
    pub probe: Result<ProbeInfo, LoadError>,
    /// The manifest's text.
    pub manifest: Result<String, LoadError>,
    /// Kind of machine, as the object file itself says: `X86_64`.
    pub architecture: String,
    /// Shared libraries that it names (ELF only).
    pub needed: Vec<String>,
}

/// Reads a plugin's file.
pub fn read_file(path: &Path) -> Result<FileFacts, LoadError> {
    with_bytes(path, |bytes| read_bytes(path, bytes))
}

/// The shared libraries that a file names; none where it is no shared library.
pub fn needed_by(path: &Path) -> Vec<String> {
    let needed =
        with_bytes(path, |bytes| Ok(object::File::parse(bytes).ok().map(|file| needed_libraries(&file))));
    needed.ok().flatten().unwrap_or_default()
}

/// Which of these symbols a file exports.
pub fn exported<'n>(path: &Path, names: &[&'n str]) -> Result<Vec<&'n str>, LoadError> {
    with_bytes(path, |bytes| {
        let Ok(object) = object::File::parse(bytes) else { return Ok(Vec::new()) };
        let exports: Vec<_> = object.exports().into_iter().flatten().filter_map(Result::ok).collect();
        let has = |name: &str| {
            exports.iter().any(|export| match export.name() {
                object::NameOrOrdinal::Name(found) => found == name.as_bytes(),
                object::NameOrOrdinal::Ordinal(_) => false,
            })
        };
        Ok(names.iter().copied().filter(|name| has(name)).collect())
    })
}

fn with_bytes<T>(path: &Path, read: impl FnOnce(&[u8]) -> Result<T, LoadError>) -> Result<T, LoadError> {
    let file = std::fs::File::open(path).map_err(|error| LoadError::unreadable(path, &error))?;
    let meta = file.metadata().map_err(|error| LoadError::unreadable(path, &error))?;
    if !meta.is_file() || meta.len() == 0 {
        return Err(LoadError::NoProbe { path: path.to_owned(), why: "it is empty, or no file".to_owned() });
    }
    // SAFETY: nothing is kept of the map; a file that is changed meanwhile gives wrong bytes, which are checked like any others. One that is cut short meanwhile raises SIGBUS, as
    // it would for the dynamic linker.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|error| LoadError::unreadable(path, &error))?;
    read(&map)
}

/// Reads a plugin's file from memory; `path` is for messages.
pub fn read_bytes(path: &Path, bytes: &[u8]) -> Result<FileFacts, LoadError> {
    let object = object::File::parse(bytes).map_err(|error| LoadError::NoProbe {
        path: path.to_owned(),
        why: format!("it is no shared library ({error})"),
    })?;
    let needed = needed_libraries(&object);
    Ok(FileFacts {
        probe: probe(path, &object),
        manifest: manifest(path, &object),
        architecture: format!("{:?}", object.architecture()),
        needed,
    })
}

fn needed_libraries(object: &object::File<'_>) -> Vec<String> {
    use object::read::elf::{Dyn, FileHeader};
    fn of_elf<E: FileHeader<Endian = object::Endianness>>(
        file: &object::read::elf::ElfFile<'_, E>,
    ) -> Option<Vec<String>> {
        let endian = file.endian();
        let table = file.elf_section_table();
        let (entries, link) = table.dynamic(endian, file.data()).ok()??;
        let strings = table.strings(endian, file.data(), link).ok()?;
        let needed = entries.iter().filter(|entry| entry.tag(endian) == object::elf::DT_NEEDED);
        let names = needed.filter_map(|entry| entry.string(endian, strings).ok());
        Some(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }
    match object {
        object::File::Elf32(file) => of_elf(file),
        object::File::Elf64(file) => of_elf(file),
        _ => None,
    }
    .unwrap_or_default()
}

/// The bytes of an exported static: its section, or what stands behind its symbol where section names were stripped.
fn static_bytes<'d>(object: &object::File<'d>, section: &str, short: &str, symbol: &str) -> Option<&'d [u8]> {
    let by_section = object.section_by_name(section).or_else(|| object.section_by_name(short));
    if let Some(section) = by_section {
        return section.data().ok();
    }
    let symbol = object.dynamic_symbols().find(|found| found.name() == Ok(symbol) && found.size() > 0)?;
    let section = object.section_by_index(symbol.section_index()?).ok()?;
    section.data_range(symbol.address(), symbol.size()).ok()?
}

fn probe(path: &Path, object: &object::File<'_>) -> Result<ProbeInfo, LoadError> {
    let bytes = static_bytes(object, PROBE_SECTION, "__th_probe", PROBE_SYMBOL).ok_or_else(|| {
        LoadError::NoProbe { path: path.to_owned(), why: format!("it has no section `{PROBE_SECTION}`") }
    })?;
    let damaged = |why: String| LoadError::ProbeDamaged { path: path.to_owned(), why };
    if bytes.len() < FROZEN_BYTES || bytes[..8] != PROBE_MAGIC {
        return Err(damaged(format!("{} bytes, which do not begin with the magic number", bytes.len())));
    }
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let size = word(8) as usize;
    let expected = std::mem::size_of::<Probe>();
    if size > bytes.len() || (word(12) == thunderhead_abi::ABI_MAJOR && size < expected) {
        return Err(damaged(format!("it says {size} bytes, {} are there, expected {expected}", bytes.len())));
    }
    let text = |from: usize, len: usize| -> String {
        let field = bytes.get(from..from + len).unwrap_or_default();
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
        String::from_utf8_lossy(&field[..end]).into_owned()
    };
    Ok(ProbeInfo {
        abi_major: word(12),
        abi_minor: word(16),
        panics: match word(20) {
            panics::UNWIND => Panics::Unwind,
            panics::ABORT => Panics::Abort,
            panics::NONE => Panics::None,
            _ => Panics::Unknown,
        },
        sdk_version: text(std::mem::offset_of!(Probe, sdk_version), 32),
        compiler: text(std::mem::offset_of!(Probe, compiler), 96),
        target: text(std::mem::offset_of!(Probe, target), 64),
    })
}

fn manifest(path: &Path, object: &object::File<'_>) -> Result<String, LoadError> {
    let damaged = |why: String| LoadError::ManifestDamaged { path: path.to_owned(), why };
    let bytes = static_bytes(object, MANIFEST_SECTION, "__th_manifest", MANIFEST_SYMBOL)
        .ok_or_else(|| damaged(format!("there is no section `{MANIFEST_SECTION}`")))?;
    let head = std::mem::size_of::<ManifestHead>();
    if bytes.len() < head || bytes[..8] != MANIFEST_MAGIC {
        return Err(damaged("it does not begin with the magic number".to_owned()));
    }
    let mut len = [0; 8];
    len.copy_from_slice(&bytes[8..16]);
    let len = u64::from_le_bytes(len);
    let text = usize::try_from(len).ok().filter(|_| len <= MAX_MANIFEST_BYTES);
    let text = text.and_then(|len| bytes.get(head..)?.get(..len)).ok_or_else(|| {
        damaged(format!(
            "it says {len} bytes, {} are there, {MAX_MANIFEST_BYTES} allowed",
            bytes.len() - head
        ))
    })?;
    String::from_utf8(text.to_vec()).map_err(|_| damaged("it is not UTF-8".to_owned()))
}

/// The triple of this host.
pub const HOST_TARGET: &str = thunderhead_abi::TARGET;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_is_said_so() {
        let error = read_bytes(Path::new("x.so"), b"not an object file").expect_err("is none");
        assert_eq!(error.code_text(), "load::no_probe");
        let this = std::fs::read(std::env::current_exe().expect("this test")).expect("readable");
        let facts = read_bytes(Path::new("x"), &this).expect("an object file");
        assert_eq!(facts.probe.expect_err("has none").code_text(), "load::no_probe");
        assert_eq!(facts.manifest.expect_err("has none").code_text(), "load::manifest_damaged");
        assert!(facts.needed.iter().any(|name| name.starts_with("libc.so")), "{:?}", facts.needed);
    }
}
