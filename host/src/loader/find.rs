//! Looking for plugins: all manifests in all places are read; no code runs.

use super::error::LoadError;
use super::probe::{ProbeInfo, read_file};
use std::path::{Path, PathBuf};
use thunderhead_manifest::{Manifest, Warning};

/// A file or folder to look in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file or folder.
    pub path: PathBuf,
    /// Who named it, for messages: `[plugins] paths`, `THUNDERHEAD_PLUGINS`, ….
    pub origin: String,
    /// Whether it was asked for by name: then it must exist.
    pub must_exist: bool,
}

/// Where a plugin's code is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File,
    /// Linked into the host.
    Linked,
}

/// A plugin that was found.
#[derive(Clone, Debug)]
pub struct FoundPlugin {
    /// The file as it was found; for a linked plugin its id.
    pub path: PathBuf,
    /// File or linked.
    pub origin: Origin,
    /// The manifest's text.
    pub text: String,
    /// What it says.
    pub manifest: Manifest,
    /// What is odd about it and changes nothing.
    pub warnings: Vec<Warning>,
    /// The probe, or why there is none that can be read.
    pub probe: Result<ProbeInfo, LoadError>,
    /// Other paths that lead to the same file or a copy of it.
    pub same: Vec<PathBuf>,
}

/// A file that is no plugin which could be loaded.
#[derive(Clone, Debug)]
pub struct Skipped {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub error: LoadError,
    /// Whether the file itself was named, not only its folder.
    pub named: bool,
}

/// What lies in the places looked at.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The plugins, in the order found.
    pub plugins: Vec<FoundPlugin>,
    /// Everything else that looks like a shared library.
    pub skipped: Vec<Skipped>,
    /// The places looked at, and whether each exists.
    pub looked_at: Vec<(Place, bool)>,
    /// Names and ids that two different files bring.
    pub conflicts: Vec<LoadError>,
}

impl Found {
    /// The plugin that brings the executor, by its real name.
    pub fn bringing(&self, executor: &str) -> Option<&FoundPlugin> {
        self.plugins.iter().find(|plugin| plugin.manifest.executor(executor).is_some())
    }

    /// All manifests.
    pub fn manifests(&self) -> Vec<&Manifest> {
        self.plugins.iter().map(|plugin| &plugin.manifest).collect()
    }

    /// The places, for messages.
    pub fn places_text(&self) -> String {
        let places = self.looked_at.iter().map(|(place, exists)| {
            let missing = if *exists { "" } else { ", which does not exist" };
            format!("`{}` ({}{missing})", place.path.display(), place.origin)
        });
        let text = places.collect::<Vec<_>>().join(", ");
        if text.is_empty() { "nowhere: no folder is set".to_owned() } else { text }
    }
}

/// Reads all manifests in `places`, in order. A plugin that is linked in is added with
/// [`add_linked`](Found::add_linked) before the config is resolved.
pub fn find(places: &[Place]) -> Found {
    let mut found = Found::default();
    for place in places {
        let kind = std::fs::metadata(&place.path);
        found.looked_at.push((place.clone(), kind.is_ok()));
        match kind {
            Ok(meta) if meta.is_dir() => look_in(&mut found, &place.path),
            Ok(_) => consider(&mut found, &place.path, true),
            Err(error) if place.must_exist => {
                let error = LoadError::unreadable(&place.path, &error);
                found.skipped.push(Skipped { path: place.path.clone(), error, named: true });
            }
            Err(_) => {}
        }
    }
    found.conflicts = conflicts(&found.plugins);
    found
}

impl Found {
    /// Adds a plugin that is linked into the host.
    pub fn add_linked(&mut self, text: &str) -> Result<(), LoadError> {
        let path = PathBuf::from("(linked)");
        let (manifest, warnings) = parse(&path, text)?;
        self.plugins.push(FoundPlugin {
            path,
            origin: Origin::Linked,
            text: text.to_owned(),
            manifest,
            warnings,
            probe: Err(LoadError::NoProbe { path: PathBuf::new(), why: "it is linked in".to_owned() }),
            same: Vec::new(),
        });
        self.conflicts = conflicts(&self.plugins);
        Ok(())
    }
}

fn look_in(found: &mut Found, folder: &Path) {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            let error = LoadError::unreadable(folder, &error);
            found.skipped.push(Skipped { path: folder.to_owned(), error, named: true });
            return;
        }
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|end| end == std::env::consts::DLL_EXTENSION))
        .collect();
    // What is found first must not depend on the file system.
    files.sort();
    files.iter().for_each(|file| consider(found, file, false));
}

fn consider(found: &mut Found, path: &Path, named: bool) {
    match read_plugin(path) {
        Ok(plugin) => {
            let same = found.plugins.iter_mut().find(|other| {
                other.origin == Origin::File
                    && other.manifest.id == plugin.manifest.id
                    && same_file(&other.path, path)
            });
            match same {
                Some(other) => other.same.push(path.to_owned()),
                None => found.plugins.push(plugin),
            }
        }
        Err(error) => found.skipped.push(Skipped { path: path.to_owned(), error, named }),
    }
}

/// Reads one file.
pub fn read_plugin(path: &Path) -> Result<FoundPlugin, LoadError> {
    let facts = read_file(path)?;
    // A file with neither is no plugin at all, which says more than a missing manifest.
    let text = match (facts.manifest, &facts.probe) {
        (Ok(text), _) => text,
        (Err(_), Err(no_probe @ LoadError::NoProbe { .. })) => return Err(no_probe.clone()),
        (Err(error), _) => return Err(error),
    };
    let (manifest, warnings) = parse(path, &text)?;
    Ok(FoundPlugin {
        path: path.to_owned(),
        origin: Origin::File,
        text,
        manifest,
        warnings,
        probe: facts.probe,
        same: Vec::new(),
    })
}

fn parse(path: &Path, text: &str) -> Result<(Manifest, Vec<Warning>), LoadError> {
    Manifest::parse(text)
        .map_err(|errors| LoadError::ManifestInvalid { path: path.to_owned(), faults: errors.to_string() })
}

/// Whether two paths lead to one file, or to two with the same content.
fn same_file(a: &Path, b: &Path) -> bool {
    if let (Ok(a), Ok(b)) = (a.canonicalize(), b.canonicalize())
        && a == b
    {
        return true;
    }
    let lengths = (std::fs::metadata(a).map(|meta| meta.len()), std::fs::metadata(b).map(|meta| meta.len()));
    match lengths {
        (Ok(of_a), Ok(of_b)) if of_a == of_b => same_bytes(a, b),
        _ => false,
    }
}

fn same_bytes(a: &Path, b: &Path) -> bool {
    match (super::trust::sha256(a), super::trust::sha256(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

fn conflicts(plugins: &[FoundPlugin]) -> Vec<LoadError> {
    let mut conflicts = Vec::new();
    for (idx, second) in plugins.iter().enumerate() {
        for first in &plugins[..idx] {
            let (first_path, second_path) = (first.path.clone(), second.path.clone());
            if first.manifest.id == second.manifest.id {
                conflicts.push(LoadError::DuplicatePlugin {
                    id: second.manifest.id.clone(),
                    first: first_path,
                    second: second_path,
                });
                continue;
            }
            for executor in &second.manifest.executors {
                if first.manifest.executor(&executor.name).is_some() {
                    conflicts.push(LoadError::DuplicateExecutor {
                        name: executor.name.clone(),
                        first: first_path.clone(),
                        second: second_path.clone(),
                    });
                }
            }
        }
    }
    conflicts
}
