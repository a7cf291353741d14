//! Looking for plugins: all manifests in all places are read; no code runs.

use super::error::LoadError;
use super::probe::{ProbeInfo, read_file};
use crate::config::{Meaning, OpNames};
use std::path::{Path, PathBuf};
use thunderhead_manifest::{FaultKind, Manifest, Warning};

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

impl FoundPlugin {
    pub(super) fn warn_of_unknown_ops(&mut self, ops: &[&str]) {
        let names = OpNames::new(ops.iter().copied());
        for (e, executor) in self.manifest.executors.iter().enumerate() {
            for (c, claim) in executor.claims.iter().enumerate() {
                for glob in &claim.ops {
                    let advice = match names.meaning(glob) {
                        Meaning::Op => continue,
                        // An op of its own namespace is the plugin's to know.
                        Meaning::Nothing if glob.is_exact() => continue,
                        Meaning::Nothing => "it matches nothing".to_owned(),
                        Meaning::Unknown { advice } => advice,
                    };
                    let message = format!(
                        "`{}` claims `{}`, and no op of this host is called so: it claims nothing ({advice})",
                        executor.name,
                        glob.as_str()
                    );
                    let at = format!("executor[{e}].claim[{c}].ops");
                    let kind = FaultKind::NoEffect { message };
                    self.warnings.push(Warning { kind, at, place: place_of(&self.text, glob.as_str()) });
                }
            }
        }
    }
}

/// Where a manifest's text has a string; its beginning where it is written in a way of its own.
fn place_of(text: &str, string: &str) -> thunderhead_manifest::Place {
    let quoted = ['"', '\''].map(|quote| format!("{quote}{string}{quote}"));
    let start = quoted.iter().find_map(|quoted| text.find(quoted.as_str())).unwrap_or(0);
    let before = &text[..start];
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let line = count(before.matches('\n').count() + 1);
    let column = count(before.rsplit('\n').next().unwrap_or("").chars().count() + 1);
    thunderhead_manifest::Place { start, end: start + string.len() + 2, line, column }
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
    /// Whether the file or its folder was named by the config, so that somebody expects plugins there.
    pub expected: bool,
}

impl Skipped {
    /// Whether a command that needs plugins says it: files that the config names, and in the folders that it names those
    /// that are plugins, but bad ones. What else lies there is nobody's business.
    pub fn is_worth_a_note(&self) -> bool {
        self.named || self.expected && !matches!(self.error, LoadError::NoProbe { .. })
    }
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

    /// Adds to the warnings of each plugin what its manifest claims and no op is called. A plugin may be newer than the
    /// host, so that keeps nobody from loading it.
    pub fn warn_of_unknown_ops(&mut self, ops: &[&str]) {
        self.plugins.iter_mut().for_each(|plugin| plugin.warn_of_unknown_ops(ops));
    }

    /// What is odd about the manifests of plugins that bring one of these executors, and changes nothing: id and sentence.
    pub fn warnings_of(&self, is_used: &dyn Fn(&str) -> bool) -> Vec<(String, String)> {
        let used =
            |plugin: &&FoundPlugin| plugin.manifest.executors.iter().any(|executor| is_used(&executor.name));
        let said = |plugin: &FoundPlugin| {
            let id = plugin.manifest.id.clone();
            plugin
                .warnings
                .iter()
                .map(move |warning| (id.clone(), format!("plugin.toml:{warning}")))
                .collect::<Vec<_>>()
        };
        self.plugins.iter().filter(used).flat_map(said).collect()
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
            Ok(meta) if meta.is_dir() => look_in(&mut found, &place.path, place.must_exist),
            Ok(_) => consider(&mut found, &place.path, true, true),
            Err(error) if place.must_exist => {
                let error = LoadError::unreadable(&place.path, &error);
                found.skipped.push(Skipped { path: place.path.clone(), error, named: true, expected: true });
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

fn look_in(found: &mut Found, folder: &Path, expected: bool) {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            let error = LoadError::unreadable(folder, &error);
            found.skipped.push(Skipped { path: folder.to_owned(), error, named: true, expected: true });
            return;
        }
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|end| end == std::env::consts::DLL_EXTENSION))
        .collect();
    // What is found first must not depend on the file system.
    files.sort();
    files.iter().for_each(|file| consider(found, file, false, expected));
}

fn consider(found: &mut Found, path: &Path, named: bool, expected: bool) {
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
        Err(error) => found.skipped.push(Skipped { path: path.to_owned(), error, named, expected }),
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
