//! A config that can be used: plain data, every value with where it came from. How it is worked out is in
//! `resolve`, how it is printed in `show`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use thunderhead_manifest::{Glob, Kind, Manifest, Plain, RegionRules};

use super::fault::Spot;
use super::file::{ExpectedClaim, LastResort, LogLevel, OnError, Policy};
use super::known::Known;

/// Where a value came from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// Typed in a file, a preset or an argument.
    Typed(Spot),
    /// An argument without a text of its own, as `--threads`.
    Argument(&'static str),
    /// An environment variable.
    Variable(String),
    /// The manifest of the plugin with this id.
    Manifest(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::Typed(spot) => write!(f, "{spot}"),
            Origin::Argument(name) => f.write_str(name),
            Origin::Variable(name) => write!(f, "variable {name}"),
            Origin::Manifest(id) => write!(f, "manifest of {id}"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A value and where it came from.
#[derive(Clone, Debug, Serialize)]
pub struct Sourced<T> {
    pub value: T,
    pub from: Origin,
}

impl<T> Sourced<T> {
    pub(super) fn new(value: T, from: Origin) -> Self {
        Sourced { value, from }
    }
}

impl<T: Default> Default for Sourced<T> {
    fn default() -> Self {
        Sourced { value: T::default(), from: Origin::Default }
    }
}

/// A config that can be used.
#[derive(Clone, Debug, Serialize)]
pub struct Resolved {
    /// What messages call the config.
    pub name: String,
    /// The executors asked, in this order. Real names; nobody disabled, nobody twice.
    pub order: Vec<Sourced<String>>,
    pub last_resort: Sourced<LastResort>,
    /// Plugin files and folders, the first to be looked at first.
    pub plugin_paths: Vec<Sourced<PathBuf>>,
    pub allow_untrusted: Sourced<bool>,
    /// SHA-256 digests by plugin id, lower case.
    pub pins: BTreeMap<String, Sourced<String>>,
    /// Shared libraries by name, as typed here or in the environment.
    pub libraries: BTreeMap<String, Sourced<PathBuf>>,
    /// Every executor that a manifest declares or the config names, by real name.
    pub settings: BTreeMap<String, Settings>,
    /// 0: one a core.
    pub threads: Sourced<u32>,
    pub on_error: Sourced<OnError>,
    pub map_weights: Sourced<bool>,
    pub expect: Expect,
    pub log_level: Sourced<LogLevel>,
    /// By plugin id.
    pub log_levels: BTreeMap<String, Sourced<LogLevel>>,
}

/// How one executor is set.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The id of the plugin that brings it; `None` where none was found.
    pub plugin: Option<String>,
    pub kind: Option<Kind>,
    pub policy: Sourced<Policy>,
    /// `None`: all it claims.
    pub allow: Option<Sourced<Vec<Glob>>>,
    pub deny: Sourced<Vec<Glob>>,
    /// How many claims it may win; `None`: no limit.
    pub fuel: Option<Sourced<u64>>,
    /// Names its regions.
    pub label: Sourced<String>,
    /// All options that its manifest declares, defaults filled in. Of the declared types.
    pub options: BTreeMap<String, Sourced<Plain>>,
    /// Those of the manifest, with what the config says instead.
    pub regions: RegionRules,
}

impl Settings {
    /// Whether `allow` and `deny` leave the op to this executor.
    pub fn allows(&self, op: &str) -> bool {
        let allowed = self.allow.as_ref().is_none_or(|allow| allow.value.iter().any(|glob| glob.matches(op)));
        allowed && !self.deny.value.iter().any(|glob| glob.matches(op))
    }
}

/// What must hold when a program is compiled.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Expect {
    pub claims: Vec<Sourced<ExpectedClaim>>,
    /// How many ops only the last resort may take.
    pub max_last_resort: Option<Sourced<u64>>,
    pub max_copies: Option<Sourced<u64>>,
}

/// An executor that must be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loaded {
    pub name: String,
    pub because: Because,
}

/// Why an executor is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Because {
    /// It is in the order.
    Order,
    /// It is the last resort.
    LastResort,
    /// That executor is like it.
    Like(String),
}

impl Resolved {
    /// The settings of an executor, by its real name.
    pub fn settings(&self, name: &str) -> Option<&Settings> {
        self.settings.get(name)
    }

    /// Whether the executor must be there. Who is only liked is never required.
    pub fn is_required(&self, name: &str) -> bool {
        let in_order = self.order.iter().any(|executor| executor.value == name);
        in_order && self.settings(name).is_none_or(|settings| settings.policy.value == Policy::Required)
    }

    /// Who must be loaded: the order, whom they are like (transitively, if found and not disabled), the last
    /// resort. A name of `like` that no manifest brings is left out here.
    pub fn loaded(&self, manifests: &[&Manifest]) -> Vec<Loaded> {
        let known = Known::new(manifests);
        let mut loaded: Vec<Loaded> = Vec::new();
        let mut todo: Vec<Loaded> = Vec::new();
        if self.last_resort.value == LastResort::Reference {
            todo.push(Loaded { name: "reference".to_owned(), because: Because::LastResort });
        }
        let order = self.order.iter().rev();
        todo.extend(order.map(|name| Loaded { name: name.value.clone(), because: Because::Order }));
        while let Some(next) = todo.pop() {
            if loaded.iter().any(|other| other.name == next.name) {
                continue;
            }
            for name in self.likes(&known, &next.name).rev() {
                todo.push(Loaded { name: name.to_owned(), because: Because::Like(next.name.clone()) });
            }
            loaded.push(next);
        }
        loaded
    }

    /// The executors that this one is like itself: real names, found and not disabled.
    pub fn likes_of<'m>(&self, manifests: &[&'m Manifest], name: &str) -> Vec<&'m str> {
        self.likes(&Known::new(manifests), name).collect()
    }

    /// The executors that this one is like: real names, found and not disabled.
    pub(super) fn likes<'m>(
        &self,
        known: &Known<'m>,
        name: &str,
    ) -> impl DoubleEndedIterator<Item = &'m str> {
        let like = known.executors.get(name).map_or(&[][..], |(_, decl)| &decl.like);
        let found: Vec<&'m str> = like
            .iter()
            .filter_map(|name| known.real_name(name))
            .filter(|name| self.settings(name).is_none_or(|s| s.policy.value != Policy::Disabled))
            .collect();
        found.into_iter()
    }
}
