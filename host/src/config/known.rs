//! The names that mean something: executors and options of the manifests found, their former names, and the
//! executors that presets name.

use std::collections::{BTreeMap, BTreeSet};

use thunderhead_manifest::document::{nearest, one_of};
use thunderhead_manifest::{Alias, ExecutorDecl, Manifest, OptionDecl};

use super::PRESETS;
use super::fault::{ConfigFault, Source};
use super::file::ConfigFile;
use super::resolved::Resolved;

/// All names that mean something.
pub(super) struct Known<'m> {
    pub executors: BTreeMap<&'m str, (&'m Manifest, &'m ExecutorDecl)>,
    /// Former names, each with the executor meant.
    pub aliases: BTreeMap<&'m str, (&'m str, &'m Alias)>,
    pub plugins: BTreeSet<&'m str>,
    /// Executors that a built-in preset names: known also where their plugin is not there.
    pub presets: BTreeSet<String>,
}

impl<'m> Known<'m> {
    pub fn new(manifests: &[&'m Manifest]) -> Self {
        let mut known = Known {
            executors: BTreeMap::new(),
            aliases: BTreeMap::new(),
            plugins: BTreeSet::new(),
            presets: preset_executors(),
        };
        for &manifest in manifests {
            known.plugins.insert(&manifest.id);
            for decl in &manifest.executors {
                known.executors.entry(&decl.name).or_insert((manifest, decl));
                for alias in &decl.aliases {
                    known.aliases.entry(&alias.name).or_insert((&decl.name, alias));
                }
            }
        }
        known
    }

    /// The name itself, or the one it is an alias of. A real name wins over an alias.
    pub fn real_name(&self, name: &str) -> Option<&'m str> {
        let real = self.executors.get_key_value(name).map(|(name, _)| *name);
        real.or_else(|| self.aliases.get(name).map(|(name, _)| *name))
    }

    pub fn is_known(&self, name: &str) -> bool {
        name == "reference" || self.executors.contains_key(name) || self.presets.contains(name)
    }

    /// What to say about a name that nobody brings.
    pub fn advice(&self, name: &str) -> String {
        let presets = self.presets.iter().map(String::as_str);
        let names: BTreeSet<&str> =
            self.executors.keys().copied().chain(presets).chain(["reference"]).collect();
        if let Some(near) = nearest(name, names.iter().copied().chain(self.aliases.keys().copied())) {
            return format!("did you mean `{near}`?");
        }
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        format!("known here: {}; is its plugin in a folder that `thunderhead doctor` lists?", one_of(&names))
    }
}

fn preset_executors() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (name, text) in PRESETS {
        let (file, _) = ConfigFile::parse(&Source::new(name, None, text.to_owned()));
        names.extend(file.executors.into_iter().flatten().map(|typed| typed.value));
        names.extend(file.sections.into_iter().map(|section| section.name.value));
    }
    names
}

/// An option by its name or a former one.
pub(super) fn find_option<'m>(
    decl: &'m ExecutorDecl,
    option: &str,
) -> Option<(&'m str, &'m OptionDecl, Option<&'m Alias>)> {
    if let Some((name, declared)) = decl.options.get_key_value(option) {
        return Some((name, declared, None));
    }
    decl.options.iter().find_map(|(name, declared)| {
        let alias = declared.aliases.iter().find(|alias| alias.name == option)?;
        Some((name.as_str(), declared, Some(alias)))
    })
}

pub(super) fn unknown_option(decl: &ExecutorDecl, option: &str) -> ConfigFault {
    let names: Vec<String> = decl.options.keys().cloned().collect();
    let advice = match nearest(option, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if names.is_empty() => "it has no options".to_owned(),
        None => format!("its options are {}", names.join(", ")),
    };
    ConfigFault::UnknownOption { executor: decl.name.clone(), option: option.to_owned(), advice }
}

pub(super) fn deprecated(alias: &Alias, new: &str) -> ConfigFault {
    let said = |word: &str, release: &Option<String>| {
        release.as_ref().map(|release| format!("{word}{release}")).unwrap_or_default()
    };
    ConfigFault::DeprecatedName {
        old: alias.name.clone(),
        new: new.to_owned(),
        since: said(" since ", &alias.since),
        until: said(", and the old name goes with ", &alias.until),
    }
}

/// A circle of `like` reachable from `name`, printed.
pub(super) fn find_circle<'m>(
    resolved: &Resolved,
    known: &Known<'m>,
    name: &str,
    path: &mut Vec<&'m str>,
    done: &mut BTreeSet<&'m str>,
) -> Option<String> {
    let name = known.real_name(name)?;
    if let Some(start) = path.iter().position(|other| *other == name) {
        let circle = path[start..].iter().chain([&name]).copied().collect::<Vec<_>>();
        return Some(circle.join(" -> "));
    }
    if !done.insert(name) {
        return None;
    }
    path.push(name);
    let found = resolved.likes(known, name).find_map(|like| find_circle(resolved, known, like, path, done));
    path.pop();
    found
}
