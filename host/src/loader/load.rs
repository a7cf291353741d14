//! The load sequence.
//!
//! In order, for each plugin that brings a wanted executor, once a file:
//! 1. trust: who may change the file; the config's pin;
//! 2. probe: there, and whole;
//! 3. ABI version, needed tables, IR version, target triple, panic strategy;
//! 4. declared libraries: found, of the right version, the only build in this process;
//! 5. open, with all symbols resolved now and visible to the plugin alone, the libraries first;
//! 6. layout: through abi_stable's door where it fits, else the plain one; sizes of structs and tables;
//! 7. what it says of itself is what the file shows;
//! 8. then, for each wanted executor: create with its options, and availability.
//!
//! The first step that fails ends it for that plugin or executor, with its own [`LoadError`].

use super::door;
use super::error::LoadError;
use super::executor::LoadedExecutor;
use super::find::{Found, FoundPlugin, Origin};
use super::guard::Who;
use super::instance::Instance;
use super::library::{self, LibraryPath};
use super::probe::{HOST_TARGET, Panics, ProbeInfo};
use super::services::Context;
use super::tables::{self, Tables};
use super::trust;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use thunderhead_abi::entry::EntryV1;
use thunderhead_abi::{ABI_MAJOR, ABI_MINOR, IR_MAJOR, IR_MINOR};
use thunderhead_manifest::{Manifest, Plain};

/// An executor to load.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Its real name.
    pub name: String,
    /// Its options: all that the manifest declares, checked and with defaults.
    pub options: BTreeMap<String, Plain>,
}

/// What to load, and how.
#[derive(Clone, Default)]
pub struct Request {
    /// The executors.
    pub wanted: Vec<Wanted>,
    /// SHA-256 digests by plugin id.
    pub pins: BTreeMap<String, String>,
    /// Where declared libraries may be, in the order to look.
    pub libraries: Vec<LibraryPath>,
    /// Whether files that everybody may change are taken.
    pub allow_untrusted: bool,
    /// `[run] threads`, resolved: at least 1.
    pub threads: usize,
    /// Plugins that are linked into the host, by id.
    pub linked: Vec<(String, &'static EntryV1)>,
}

/// What came of one wanted executor.
#[derive(Debug)]
pub struct Attempt {
    /// Its name.
    pub name: String,
    /// The executor, or why there is none.
    pub result: Result<Arc<LoadedExecutor>, LoadError>,
}

/// How to make an executor anew.
pub(super) struct Recipe {
    pub path: PathBuf,
    pub tables: Tables,
    pub who: Who,
    pub context: &'static Context,
}

/// Loads the wanted executors, each once, in their order.
pub fn load(found: &Found, request: &Request) -> Vec<Attempt> {
    let mut opened: BTreeMap<PathBuf, Result<(Arc<Manifest>, Tables), LoadError>> = BTreeMap::new();
    let mut attempts = Vec::with_capacity(request.wanted.len());
    for wanted in &request.wanted {
        let result = plugin_of(found, &wanted.name).and_then(|plugin| {
            let opened = opened.entry(plugin.path.clone()).or_insert_with(|| {
                open_plugin(plugin, request).map(|tables| (Arc::new(plugin.manifest.clone()), tables))
            });
            let (manifest, tables) = opened.clone()?;
            create(plugin, manifest, tables, wanted, request)
        });
        if let Err(error) = &result {
            log::debug!(target: "thunderhead", "{} is not loaded: {error}", wanted.name);
        }
        attempts.push(Attempt { name: wanted.name.clone(), result });
    }
    attempts
}

fn plugin_of<'f>(found: &'f Found, executor: &str) -> Result<&'f FoundPlugin, LoadError> {
    let plugin = found
        .bringing(executor)
        .ok_or_else(|| LoadError::NotFound { name: executor.to_owned(), looked_in: found.places_text() })?;
    let concerns = |conflict: &&LoadError| match conflict {
        LoadError::DuplicateExecutor { name, .. } => name == executor,
        LoadError::DuplicatePlugin { id, .. } => *id == plugin.manifest.id,
        _ => false,
    };
    match found.conflicts.iter().find(concerns) {
        Some(conflict) => Err(conflict.clone()),
        None => Ok(plugin),
    }
}

/// Steps 1 to 7.
fn open_plugin(plugin: &FoundPlugin, request: &Request) -> Result<Tables, LoadError> {
    let entry = match plugin.origin {
        Origin::Linked => linked_entry(plugin, request)?,
        Origin::File => {
            if !request.allow_untrusted {
                trust::not_world_writable(&plugin.path)?;
            }
            if let Some(expected) = request.pins.get(&plugin.manifest.id) {
                trust::pinned(&plugin.path, &plugin.manifest.id, expected)?;
            }
            let probe = check_without_code(plugin)?;
            let libraries = library::resolve(&plugin.path, &plugin.manifest.libraries, &request.libraries)?;
            library::open(&plugin.path, &libraries)?;
            door::open(&plugin.path, probe)?
        }
    };
    door::check(plugin, entry)?;
    tables::fetch(plugin, entry)
}

fn linked_entry(plugin: &FoundPlugin, request: &Request) -> Result<&'static EntryV1, LoadError> {
    let entry = request.linked.iter().find(|(id, _)| *id == plugin.manifest.id).map(|(_, entry)| *entry);
    let entry = entry.ok_or_else(|| LoadError::NoEntry {
        path: plugin.path.clone(),
        why: format!("no plugin `{}` is linked in", plugin.manifest.id),
    })?;
    tables::check_needs(plugin)?;
    check_ir(plugin)?;
    Ok(entry)
}

/// Steps 2 and 3: everything that the file says without running.
pub(super) fn check_without_code(plugin: &FoundPlugin) -> Result<&ProbeInfo, LoadError> {
    let probe = plugin.probe.as_ref().map_err(Clone::clone)?;
    check_abi(plugin, probe)?;
    tables::check_needs(plugin)?;
    check_ir(plugin)?;
    if probe.target != HOST_TARGET {
        return Err(LoadError::Target {
            path: plugin.path.clone(),
            found: probe.target.clone(),
            expected: HOST_TARGET.to_owned(),
        });
    }
    match probe.panics {
        Panics::Unwind | Panics::None => Ok(probe),
        other => Err(LoadError::PanicAbort { path: plugin.path.clone(), found: other.name().to_owned() }),
    }
}

fn check_abi(plugin: &FoundPlugin, probe: &ProbeInfo) -> Result<(), LoadError> {
    let path = plugin.path.clone();
    let found = format!("{}.{}", probe.abi_major, probe.abi_minor);
    let expected = format!("{ABI_MAJOR}.{ABI_MINOR}");
    if probe.abi_major != ABI_MAJOR {
        let advice = if probe.abi_major > ABI_MAJOR {
            "the plugin is newer than this host: use a newer host, or an older release of the plugin"
                .to_owned()
        } else {
            format!("the plugin is older than this host: build it with thunderhead-sdk for ABI {expected}")
        };
        return Err(LoadError::AbiMajor { path, found, expected, advice });
    }
    if ABI_MAJOR == 0 && probe.abi_minor != ABI_MINOR {
        return Err(LoadError::AbiMinor { path, found, expected });
    }
    let declared = plugin.manifest.abi;
    if (declared.major, declared.minor) != (probe.abi_major, probe.abi_minor) {
        return Err(door::lies(plugin, "the ABI version", found, "the probe", declared.to_string()));
    }
    Ok(())
}

fn check_ir(plugin: &FoundPlugin) -> Result<(), LoadError> {
    let ir = plugin.manifest.ir;
    if ir.major == IR_MAJOR && (0..=IR_MINOR).contains(&ir.minor) {
        return Ok(());
    }
    Err(LoadError::IrVersion {
        path: plugin.path.clone(),
        found: ir.to_string(),
        expected: format!("{IR_MAJOR}.{IR_MINOR}"),
    })
}

/// Step 8.
fn create(
    plugin: &FoundPlugin,
    manifest: Arc<Manifest>,
    tables: Tables,
    wanted: &Wanted,
    request: &Request,
) -> Result<Arc<LoadedExecutor>, LoadError> {
    let threads = request.threads.max(1);
    let who = Who { executor: wanted.name.clone(), plugin: format!("{} {}", manifest.id, manifest.version) };
    let context = Context::leak(&manifest.id, &wanted.options, threads as u32);
    let declared = manifest.executors.iter().position(|executor| executor.name == wanted.name);
    let declared = declared.expect("`plugin_of` has found the plugin by this name");
    let instance = Instance::create(&plugin.path, tables, who.clone(), context)?;
    // What is linked in can be made anew after a panic: its code is as trusted as the host's.
    let recipe =
        (plugin.origin == Origin::Linked).then(|| Recipe { path: plugin.path.clone(), tables, who, context });
    Ok(Arc::new(LoadedExecutor::new(plugin.path.clone(), manifest, declared, threads, instance, recipe)))
}
