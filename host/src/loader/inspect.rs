//! What can be said of a plugin's file without loading it: `plugins inspect`.

use super::error::LoadError;
use super::find::read_plugin;
use super::load::check_without_code;
use super::probe::{self, ProbeInfo, read_file};
use super::trust;
use serde::Serialize;
use std::path::{Path, PathBuf};
use thunderhead_abi::entry::{DOOR_SYMBOL, ENTRY_SYMBOL};
use thunderhead_manifest::Manifest;

/// A plugin's file as it lies there.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// The file.
    pub path: PathBuf,
    /// Its digest, for a pin.
    pub sha256: String,
    /// Kind of machine.
    pub architecture: String,
    /// The probe.
    pub probe: Option<ProbeInfo>,
    /// The manifest, where it can be understood.
    pub manifest: Option<Manifest>,
    /// What is odd about it and keeps nobody from loading it.
    pub warnings: Vec<String>,
    /// Its text, where there is one.
    pub manifest_text: Option<String>,
    /// Shared libraries that it names.
    pub needed: Vec<String>,
    /// Doors that it exports.
    pub doors: Vec<String>,
    /// Why it is no plugin at all, where it is none.
    #[serde(skip)]
    pub not_a_plugin: Option<LoadError>,
    /// What would keep this host from loading it, as far as can be seen from here: code, sentence, advice.
    pub obstacles: Vec<Obstacle>,
}

/// Something that keeps the host from loading a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// `load::…`.
    pub code: String,
    /// What.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl From<&LoadError> for Obstacle {
    fn from(error: &LoadError) -> Obstacle {
        Obstacle { code: error.code_text(), message: error.to_string(), help: error.help_text() }
    }
}

/// Looks at a file. Fails only where it cannot be read or is no shared library.
pub fn inspect(path: &Path) -> Result<Inspection, LoadError> {
    let facts = read_file(path)?;
    let mut obstacles: Vec<Obstacle> = Vec::new();
    let mut note = |error: &LoadError| {
        let obstacle = Obstacle::from(error);
        if !obstacles.contains(&obstacle) {
            obstacles.push(obstacle);
        }
    };
    let mut plugin = read_plugin(path);
    if let Ok(plugin) = &mut plugin {
        let ops: Vec<&str> = crate::ops::table::table().iter().map(|op| op.name).collect();
        plugin.warn_of_unknown_ops(&ops);
    }
    let warnings = plugin.iter().flat_map(|plugin| &plugin.warnings);
    let warnings = warnings.map(|warning| format!("plugin.toml:{warning}")).collect();
    for result in [facts.probe.as_ref().err(), facts.manifest.as_ref().err()] {
        result.into_iter().for_each(&mut note);
    }
    match &plugin {
        Ok(plugin) => check_without_code(plugin).map(|_| ()).unwrap_or_else(|error| note(&error)),
        Err(error) => note(error),
    }
    trust::not_world_writable(path).unwrap_or_else(|error| note(&error));
    let doors = probe::exported(path, &[ENTRY_SYMBOL, DOOR_SYMBOL])?;
    let not_a_plugin = match &plugin {
        Err(error @ LoadError::NoProbe { .. }) => Some(error.clone()),
        _ => None,
    };
    Ok(Inspection {
        path: path.to_owned(),
        sha256: trust::sha256(path)?,
        architecture: facts.architecture,
        probe: facts.probe.ok(),
        manifest: plugin.ok().map(|plugin| plugin.manifest),
        warnings,
        manifest_text: facts.manifest.ok(),
        needed: facts.needed,
        doors: doors.into_iter().map(str::to_owned).collect(),
        not_a_plugin,
        obstacles,
    })
}
