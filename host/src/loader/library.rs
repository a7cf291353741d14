//! Shared libraries that a manifest declares: found, compared and opened before the plugin, so that the plugin's own
//! references to them are satisfied without any variable of the dynamic linker.
//!
//! The host knows no library by name. Of a declared library it knows a folder; what to open there is read from the
//! plugin's file: each object that it needs and that lies in the folder (or its `lib`), what that needs first. The
//! dynamic linker then finds them by their names, because they are loaded already.

use super::error::LoadError;
use super::probe;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use thunderhead_manifest::Library;

/// A folder in which a library may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryPath {
    /// The library's name, as in manifests.
    pub name: String,
    /// The folder that has it, or has a `lib` that has it.
    pub folder: PathBuf,
    /// Who named it, for messages.
    pub origin: String,
    /// Whether the config or a variable names it: then it is this one or none.
    pub is_binding: bool,
}

/// A library that was found for a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    /// Where.
    pub at: LibraryPath,
    /// Its shared objects that the plugin needs, dependencies first.
    pub objects: Vec<PathBuf>,
}

/// Finds each declared library, compares versions, and looks for other builds in this process. `paths` are asked in
/// order up to one that is binding; the plugin's own folder is asked last.
pub(super) fn resolve(
    plugin: &Path,
    declared: &[Library],
    paths: &[LibraryPath],
) -> Result<Vec<Resolved>, LoadError> {
    if declared.is_empty() {
        return Ok(Vec::new());
    }
    let needed = probe::needed_by(plugin);
    declared.iter().map(|library| resolve_one(plugin, &needed, library, paths)).collect()
}

fn resolve_one(
    plugin: &Path,
    needed: &[String],
    library: &Library,
    paths: &[LibraryPath],
) -> Result<Resolved, LoadError> {
    let own = plugin.parent().unwrap_or(Path::new("."));
    let beside = [own.to_owned(), own.join(&library.name)].map(|folder| LibraryPath {
        name: library.name.clone(),
        folder,
        origin: "the plugin's folder".to_owned(),
        is_binding: false,
    });
    let mut candidates: Vec<&LibraryPath> =
        paths.iter().filter(|path| path.name == library.name).chain(&beside).collect();
    // What somebody asked for is not silently replaced by what lies elsewhere.
    if let Some(binding) = candidates.iter().position(|at| at.is_binding) {
        candidates.truncate(binding + 1);
    }
    for at in &candidates {
        let objects = objects_in(&at.folder, needed, &library.name);
        if objects.is_empty() {
            continue;
        }
        if let (Some(expected), Some(found)) = (&library.version, version_of(&at.folder))
            && !same_release(expected, &found)
        {
            return Err(LoadError::LibraryVersion {
                path: plugin.to_owned(),
                library: library.name.as_str().into(),
                expected: expected.as_str().into(),
                found: found.into(),
                folder: at.folder.clone(),
                origin: at.origin.as_str().into(),
            });
        }
        objects.iter().try_for_each(|object| not_loaded_from_elsewhere(plugin, object))?;
        return Ok(Resolved { at: (*at).clone(), objects });
    }
    let looked_in = candidates.iter().map(|at| format!("`{}` ({})", at.folder.display(), at.origin));
    Err(LoadError::LibraryMissing {
        path: plugin.to_owned(),
        library: library.name.clone(),
        variable: library.name.to_uppercase().replace('-', "_"),
        looked_in: looked_in.collect::<Vec<_>>().join(", "),
    })
}

/// The objects of `needed` that lie in the folder, dependencies first. A plugin that names none of them itself (it
/// opens them later) gets the one that is called like the library.
fn objects_in(folder: &Path, needed: &[String], library: &str) -> Vec<PathBuf> {
    let folders = [folder.join("lib"), folder.to_owned()];
    let mut objects = Vec::new();
    for name in needed {
        add_with_dependencies(&folders, name, &mut objects, 0);
    }
    if objects.is_empty() {
        let name = format!("{}{}", library, std::env::consts::DLL_SUFFIX);
        add_with_dependencies(&folders, &name, &mut objects, 0);
    }
    objects
}

fn add_with_dependencies(folders: &[PathBuf], name: &str, objects: &mut Vec<PathBuf>, depth: usize) {
    // Real chains are a few long; the bound stops files that name each other.
    const MAX_DEPTH: usize = 16;
    if depth > MAX_DEPTH || name.contains('/') {
        return;
    }
    let Some(path) = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()) else {
        return;
    };
    if objects.contains(&path) {
        return;
    }
    for dependency in probe::needed_by(&path) {
        add_with_dependencies(folders, &dependency, objects, depth + 1);
    }
    if !objects.contains(&path) {
        objects.push(path);
    }
}

/// The version that a folder says it has: `build-version` (libtorch's archives) or `version.py` (Python packages).
fn version_of(folder: &Path) -> Option<String> {
    let first_line = |text: String| text.lines().next().map(|line| line.trim().to_owned());
    if let Some(version) = std::fs::read_to_string(folder.join("build-version")).ok().and_then(first_line) {
        return Some(version);
    }
    let text = std::fs::read_to_string(folder.join("version.py")).ok()?;
    let line = text.lines().find(|line| line.starts_with("__version__"))?;
    let version = line.split(['\'', '"']).nth(1)?;
    Some(version.to_owned())
}

/// Equal up to what stands behind `+`, which says how it was built, not what.
fn same_release(a: &str, b: &str) -> bool {
    let release = |text: &str| text.split('+').next().unwrap_or("").trim().to_owned();
    release(a) == release(b)
}

/// Opens the objects, for ever.
pub(super) fn open(plugin: &Path, libraries: &[Resolved]) -> Result<(), LoadError> {
    for object in libraries.iter().flat_map(|library| &library.objects) {
        super::door::open_for_ever(object).map_err(|reason| LoadError::LibraryFailed {
            path: plugin.to_owned(),
            library: object.clone(),
            reason,
        })?;
    }
    Ok(())
}

fn not_loaded_from_elsewhere(plugin: &Path, object: &Path) -> Result<(), LoadError> {
    let Some(name) = object.file_name() else { return Ok(()) };
    let wanted = object.canonicalize().unwrap_or_else(|_| object.to_owned());
    let loaded = loaded_objects().into_iter().find(|path| {
        path.file_name() == Some(name) && path.canonicalize().unwrap_or_else(|_| path.clone()) != wanted
    });
    match loaded {
        Some(loaded) => Err(LoadError::LibraryConflict {
            path: plugin.to_owned(),
            library: name.to_string_lossy().into_owned(),
            loaded,
            wanted,
        }),
        None => Ok(()),
    }
}

/// The files of all shared objects in this process.
#[cfg(target_os = "linux")]
pub(super) fn loaded_objects() -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    unsafe extern "C" fn note(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        out: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: `info` and the name in it are the linker's, readable during the call.
        let name = unsafe { (*info).dlpi_name };
        if !name.is_null() {
            // SAFETY: as above; the linker's names are terminated.
            let name = unsafe { CStr::from_ptr(name) };
            // SAFETY: `out` is the vector below, which nobody else uses meanwhile.
            let out = unsafe { &mut *out.cast::<Vec<PathBuf>>() };
            if !name.is_empty() {
                out.push(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())));
            }
        }
        0
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    // SAFETY: `note` takes the vector that is passed.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut paths).cast()) };
    paths
}

#[cfg(not(target_os = "linux"))]
pub(super) fn loaded_objects() -> Vec<PathBuf> {
    let _ = CStr::from_bytes_with_nul(b"\0");
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_without_their_build() {
        assert!(same_release("2.13.0", "2.13.0+cpu"));
        assert!(!same_release("2.13.0", "2.12.1+cpu"));
    }

    #[test]
    fn what_is_missing_says_where_was_looked() {
        let declared = [Library { name: "libnone".to_owned(), version: None }];
        let paths = [LibraryPath {
            name: "libnone".to_owned(),
            folder: "/nowhere".into(),
            origin: "[libraries]".to_owned(),
            is_binding: false,
        }];
        let this = std::env::current_exe().expect("this test");
        let error = resolve(&this, &declared, &paths).expect_err("is nowhere");
        assert_eq!(error.code_text(), "load::library_missing");
        let help = error.help_text();
        assert!(help.contains("`/nowhere` ([libraries])") && help.contains("LIBNONE"), "{help}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn another_build_of_a_loaded_library_is_refused() {
        let libc = loaded_objects().into_iter().find(|path| path.to_string_lossy().contains("libc.so"));
        let libc = libc.expect("a process has a libc");
        let dir = tempfile::tempdir().expect("a temporary folder");
        let copy = dir.path().join(libc.file_name().expect("a file"));
        std::fs::copy(&libc, &copy).expect("copied");
        let error = not_loaded_from_elsewhere(Path::new("p.so"), &copy).expect_err("is another");
        assert_eq!(error.code_text(), "load::library_conflict");
        assert_eq!(not_loaded_from_elsewhere(Path::new("p.so"), &libc), Ok(()));
    }
}
