//! Opening a file and going through its door.

use super::error::LoadError;
use super::find::FoundPlugin;
use super::guard;
use super::probe::ProbeInfo;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::path::Path;
use thunderhead_abi::abi_stable::library::AbiHeaderRef;
use thunderhead_abi::basic::is_understood;
use thunderhead_abi::entry::{Description, DoorRef, ENTRY_SYMBOL, EntryFn, EntryV1};
use thunderhead_abi::{ABI_MAJOR, ABI_MINOR};

/// Opens a shared object with all its symbols resolved now and visible to itself alone. It is never closed.
pub(super) fn open_for_ever(path: &Path) -> Result<(), String> {
    open_library(path).map(std::mem::forget)
}

fn open_library(path: &Path) -> Result<Library, String> {
    // SAFETY: runs the file's initialisers. That it may be run was decided before (trust, pins); what it does then is its own.
    unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| chain_text(&error))
}

fn chain_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}

/// Opens the plugin's file and returns its entry, with the layout of all types compared where that can be done.
pub(super) fn open(path: &Path, probe: &ProbeInfo) -> Result<&'static EntryV1, LoadError> {
    let library =
        open_library(path).map_err(|reason| LoadError::OpenFailed { path: path.to_owned(), reason })?;
    let by_types = match same_types(probe) {
        true => entry_by_types(path, &library)?,
        false => None,
    };
    let entry = match by_types {
        Some(entry) => entry,
        None => plain_entry(path, &library)?,
    };
    // Never unloaded: what it gave out lives as long as the process.
    std::mem::forget(library);
    Ok(entry)
}

/// Whether plugin and host were built from the same version of the crate that holds the types.
fn same_types(probe: &ProbeInfo) -> bool {
    (probe.abi_major, probe.abi_minor) == (ABI_MAJOR, ABI_MINOR)
}

/// Through abi_stable's door, where there is one whose header this abi_stable can read.
///
/// The header is read by its path-independent functions and never by `RootModule::load_from_file`, which keeps one
/// module a type for the whole process.
fn entry_by_types(path: &Path, library: &Library) -> Result<Option<&'static EntryV1>, LoadError> {
    use thunderhead_abi::abi_stable::library::ROOT_MODULE_LOADER_NAME_WITH_NUL as DOOR;
    // SAFETY: the symbol is a static that starts with abi_stable's header, which is what this type refers to; the
    // library is never closed, so it lives as long as the process.
    let Ok(header) = (unsafe { library.get::<AbiHeaderRef>(DOOR.as_bytes()) }) else { return Ok(None) };
    let header: AbiHeaderRef = *header;
    if !header.is_valid() {
        return Ok(None);
    }
    let Ok(header) = header.upgrade() else { return Ok(None) };
    let door = header.init_root_module::<DoorRef>();
    let door =
        door.map_err(|error| LoadError::Layout { path: path.to_owned(), report: error.to_string() })?;
    Ok(Some(door.entry()))
}

fn plain_entry(path: &Path, library: &Library) -> Result<&'static EntryV1, LoadError> {
    let no_entry = |why: &str| LoadError::NoEntry { path: path.to_owned(), why: why.to_owned() };
    // SAFETY: a plugin's probe promises that the symbol has this type.
    let function = unsafe { library.get::<EntryFn>(ENTRY_SYMBOL) };
    let function = function.map_err(|_| no_entry("it does not export the function"))?;
    // SAFETY: as above; it takes nothing and may be called from any thread.
    let entry = unsafe { function() };
    if entry.is_null() || !entry.is_aligned() {
        return Err(no_entry("it returns no entry"));
    }
    let functions = std::mem::offset_of!(EntryV1, describe);
    // SAFETY: an entry of the first version has at least these bytes.
    if unsafe { guard::first_null(entry.cast(), functions, std::mem::size_of::<EntryV1>()) }.is_some() {
        return Err(no_entry("a function of its entry is null"));
    }
    // SAFETY: not null, aligned, its functions are there, and it lives as long as the process by its contract.
    Ok(unsafe { &*entry })
}

/// Checks the entry's own fields, and that what the plugin says of itself is what its file shows.
pub(super) fn check(plugin: &FoundPlugin, entry: &'static EntryV1) -> Result<(), LoadError> {
    let path = &plugin.path;
    size(path, "EntryV1", entry, entry.size)?;
    let in_entry = format!("{}.{}", entry.abi_major, entry.abi_minor);
    let (major, minor) = match &plugin.probe {
        Ok(probe) => (probe.abi_major, probe.abi_minor),
        Err(_) => (ABI_MAJOR, ABI_MINOR),
    };
    let in_probe = format!("{major}.{minor}");
    if in_entry != in_probe {
        return Err(lies(plugin, "the ABI version", in_entry, "its entry", in_probe));
    }
    // SAFETY: the plugin's function, which takes nothing and may be called from any thread.
    let description = unsafe { (entry.describe)() };
    if description.is_null() || !description.is_aligned() {
        let why = "`describe` returns nothing".to_owned();
        return Err(LoadError::NoEntry { path: path.clone(), why });
    }
    // SAFETY: not null, aligned, and alive as long as the process by its contract.
    let description: &'static Description = unsafe { &*description };
    size(path, "Description", description, description.size)?;
    // SAFETY: the text lives as long as the process by its contract.
    let text = unsafe { description.manifest.bytes() }.unwrap_or_default();
    if text != plugin.text.as_bytes() {
        let found = format!("a text of {} bytes", text.len());
        let expected = format!("one of {} bytes that differs", plugin.text.len());
        return Err(lies(plugin, "the manifest itself", found, "the running code", expected));
    }
    check_names(plugin, description)
}

fn check_names(plugin: &FoundPlugin, description: &Description) -> Result<(), LoadError> {
    // SAFETY: the names live as long as the process by their contract.
    let names = unsafe { description.executors.items() };
    let names = names.map(|names| {
        // SAFETY: as above.
        names.iter().map(|name| unsafe { name.text() }.unwrap_or("(no text)").to_owned()).collect::<Vec<_>>()
    });
    let mut found = names.unwrap_or_default();
    let mut expected: Vec<String> =
        plugin.manifest.executors.iter().map(|executor| executor.name.clone()).collect();
    found.sort();
    expected.sort();
    if found == expected {
        return Ok(());
    }
    let listed = |names: &[String]| format!("`{}`", names.join("`, `"));
    Err(lies(plugin, "the list of executors", listed(&found), "the running code", listed(&expected)))
}

pub(super) fn lies(
    plugin: &FoundPlugin,
    what: &str,
    found: String,
    place: &str,
    expected: String,
) -> LoadError {
    LoadError::ManifestLies {
        path: plugin.path.clone(),
        what: what.to_owned(),
        found,
        place: place.to_owned(),
        expected,
    }
}

/// A struct may be longer than ours, with nothing behind what we know, and never shorter (rule V8).
fn size<T>(path: &Path, what: &str, at: &T, found: u64) -> Result<(), LoadError> {
    // SAFETY: the plugin's struct has the bytes that it says.
    if unsafe { is_understood(at, found) } {
        return Ok(());
    }
    Err(LoadError::StructSize {
        path: path.to_owned(),
        what: what.to_owned(),
        found,
        expected: std::mem::size_of::<T>() as u64,
        abi: format!("{ABI_MAJOR}.{ABI_MINOR}"),
    })
}
