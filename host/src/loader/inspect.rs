//! What can be said of a plugin's file without loading it: `plugins inspect`.

use super::error::LoadError;
use super::find::read_plugin;
use super::load::check_without_code;
use super::probe::{self, ProbeInfo, read_file};
use super::trust;
use serde::Serialize;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use thunderhead_abi::entry::{DOOR_SYMBOL, ENTRY_SYMBOL};
use thunderhead_manifest::{Claim, ExecutorDecl, Layout, Manifest};

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

/// What an executor claims because it is like another.
#[derive(Clone, Debug, Serialize)]
pub struct Liked {
    /// The executor that is like others.
    pub executor: String,
    /// The one that it is like, itself or through others.
    pub like: String,
    /// Id and version of the plugin that brings that one; none where no plugin was found that does.
    pub plugin: Option<String>,
    /// Its claims, with their limits.
    pub claims: Vec<Claim>,
}

/// What the executors of a manifest claim beside their own claims, as things lie here: `others` are the manifests that a
/// config would find beside it. Nearest first, each name once.
pub fn liked(manifest: &Manifest, others: &[&Manifest]) -> Vec<Liked> {
    let all: Vec<&Manifest> = [manifest].into_iter().chain(others.iter().copied()).collect();
    let executors = || all.iter().flat_map(|m| m.executors.iter().map(move |executor| (*m, executor)));
    let bringing = |name: &str| {
        let formerly = |e: &ExecutorDecl| e.aliases.iter().any(|alias| alias.name == name);
        executors().find(|(_, e)| e.name == name).or_else(|| executors().find(|(_, e)| formerly(e)))
    };
    // How its kernels want their operands is the other one's matter.
    let claimed = |claim: &Claim| Claim { layout: Layout::Any, ..claim.clone() };
    let mut found: Vec<Liked> = Vec::new();
    for executor in &manifest.executors {
        let mut seen: Vec<&str> = vec![&executor.name];
        let mut todo: VecDeque<&str> = executor.like.iter().map(String::as_str).collect();
        while let Some(like) = todo.pop_front() {
            if seen.contains(&like) {
                continue;
            }
            seen.push(like);
            let brought = bringing(like);
            todo.extend(brought.iter().flat_map(|(_, other)| &other.like).map(String::as_str));
            found.push(Liked {
                executor: executor.name.clone(),
                like: like.to_owned(),
                plugin: brought.map(|(plugin, _)| format!("{} {}", plugin.id, plugin.version)),
                claims: brought
                    .map_or_else(Vec::new, |(_, other)| other.claims.iter().map(claimed).collect()),
            });
        }
    }
    found
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
