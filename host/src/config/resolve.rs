//! From a chain of files to what it means, once it is known which manifests were found.
//!
//! Order of rules. (1) Files are merged from the most general to the most particular: single values and lists
//! replace, entries of tables are taken one by one, plugin paths of the more particular file stand in front.
//! (2) The order is the nearest `executors`, changed by the `remove`, `prepend` and `append` of each file above
//! it; a name that is prepended or appended again moves. `--executors` replaces all of that and makes whom it
//! names required. (3) Names are looked up in the manifests, aliases last; whoever is disabled leaves the order.
//! (4) Options, regions and labels are completed from the manifest. All faults are collected, then sorted by
//! file and place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use thunderhead_manifest::document::nearest;
use thunderhead_manifest::{
    Glob, Kind, Located, Manifest, OptionDecl, OptionKind, Place, Plain, RegionRules,
};

use super::chain::{Chain, Surroundings, relative_to};
use super::fault::{ConfigErrors, ConfigFault, Notice, Problem, Spot};
use super::file::{ConfigFile, ExpectedClaim, LastResort, LogLevel, Policy, Section};
use super::known::{Known, deprecated, find_circle, find_option, unknown_option};
use super::op_names::{Meaning, OpNames};
use super::overlay::{Overlay, SetOption};
use super::resolved::{Expect, Origin, Resolved, Settings, Sourced};

impl Chain {
    /// Works out what the config means. `manifests` are all that were found, `reference`'s among them; `ops` the names
    /// that the host's ops have.
    pub fn resolve(
        &self,
        overlay: &Overlay,
        manifests: &[&Manifest],
        around: &Surroundings,
        ops: &[&str],
    ) -> Result<(Resolved, Vec<Notice>), ConfigErrors> {
        let mut resolver = Resolver {
            chain: self,
            known: Known::new(manifests),
            ops: OpNames::new(ops.iter().copied()).with_claims(manifests),
            problems: self.problems.clone(),
            unknown: BTreeSet::new(),
        };
        let resolved = resolver.resolve(overlay, around);
        let (problems, notices): (Vec<_>, Vec<_>) =
            resolver.sorted_problems().into_iter().partition(Problem::is_error);
        if problems.is_empty() { Ok((resolved, notices)) } else { Err(ConfigErrors { problems, notices }) }
    }

    /// The plugin files and folders that the config names, the first to be looked at first. Needed before any
    /// manifest is known.
    pub fn plugin_paths(&self) -> Vec<Sourced<PathBuf>> {
        let mut paths = Vec::new();
        for file in &self.files {
            for typed in &file.plugin_paths {
                if let Some(path) = relative_to(&file.source, &typed.value) {
                    paths.push(Sourced::new(path, file.origin(typed.place)));
                }
            }
        }
        paths
    }

    /// Whether world-writable plugins are accepted. Needed before any manifest is known.
    pub fn allow_untrusted(&self) -> bool {
        self.nearest(|file| file.allow_untrusted.as_ref()).is_some_and(|typed| typed.value)
    }

    /// The value of the most particular file that has one.
    fn nearest<'c, T: Clone + 'c>(
        &'c self,
        get: impl Fn(&'c ConfigFile) -> Option<&'c Located<T>>,
    ) -> Option<Sourced<T>> {
        self.files.iter().find_map(|file| {
            get(file).map(|typed| Sourced::new(typed.value.clone(), file.origin(typed.place)))
        })
    }
}

impl ConfigFile {
    fn spot(&self, place: Place) -> Spot {
        Spot { source: self.source.clone(), place }
    }

    fn origin(&self, place: Place) -> Origin {
        Origin::Typed(self.spot(place))
    }
}

/// An option as somebody set it.
struct TypedOption<'t> {
    name: &'t str,
    /// `None` for what no option can hold.
    plain: Option<Plain>,
    /// The text of an argument: what is meant where the option is a string and the value is not quoted.
    text: Option<&'t str>,
    key: String,
    name_spot: Spot,
    value_spot: Spot,
}

impl TypedOption<'_> {
    /// The value in the option's type, or what was expected; and what was found, printed.
    fn value_for(&self, declared: &OptionDecl) -> (Result<Plain, String>, String) {
        let plain = match (&self.plain, self.text) {
            (Some(Plain::Str(text)), _) => Some(Plain::Str(text.clone())),
            (_, Some(text)) if declared.kind == OptionKind::String => Some(Plain::Str(text.to_owned())),
            (plain, _) => plain.clone(),
        };
        let found = match (self.text, &plain) {
            (Some(text), _) => format!("`{text}`"),
            (None, Some(plain)) => format!("`{plain}`"),
            (None, None) => "something that no option can be".to_owned(),
        };
        let accepted = match plain {
            Some(plain) => declared.accept(plain).map_err(|mismatch| mismatch.to_string()),
            None => Err(declared.kind.described().to_owned()),
        };
        (accepted, found)
    }
}

struct Resolver<'c, 'm> {
    chain: &'c Chain,
    known: Known<'m>,
    ops: OpNames<'m>,
    problems: Vec<Problem>,
    /// Unknown executors that were reported already.
    unknown: BTreeSet<String>,
}

impl Resolver<'_, '_> {
    fn resolve(&mut self, overlay: &Overlay, around: &Surroundings) -> Resolved {
        let mut settings = self.settings();
        let mut order = self.order();
        if let Some((source, names)) = overlay.order() {
            order = Vec::new();
            for name in names {
                let spot = Spot { source: source.clone(), place: name.place };
                if let Some(name) = self.executor_name(&name.value, "", &spot) {
                    settings.entry(name.clone()).or_insert_with(blank_settings).policy =
                        Sourced::new(Policy::Required, Origin::Typed(spot.clone()));
                    self.push_once(&mut order, name, spot);
                }
            }
        }
        let order = self.checked_order(order, &settings);
        self.complete(&mut settings);
        self.set_options(overlay, &mut settings);
        let chain = self.chain;
        let last_resort = chain.nearest(|file| file.last_resort.as_ref()).unwrap_or_default();
        if order.is_empty()
            && last_resort.value == LastResort::None
            && self.problems.iter().all(|p| !p.is_error())
        {
            self.problems.push(Problem::new(ConfigFault::NothingToRun, "", None));
        }
        let mut threads = chain.nearest(|file| file.threads.as_ref()).unwrap_or_default();
        if let Some(value) = overlay.threads {
            threads = Sourced::new(value, Origin::Argument("--threads"));
        }
        let mut resolved = Resolved {
            name: chain.name().to_owned(),
            order,
            last_resort,
            plugin_paths: self.plugin_paths(),
            allow_untrusted: chain.nearest(|file| file.allow_untrusted.as_ref()).unwrap_or_default(),
            pins: self.pins(),
            libraries: self.libraries(around),
            settings,
            threads,
            on_error: chain.nearest(|file| file.on_error.as_ref()).unwrap_or_default(),
            map_weights: chain
                .nearest(|file| file.map_weights.as_ref())
                .unwrap_or(Sourced::new(true, Origin::Default)),
            expect: self.expect(),
            log_level: chain
                .nearest(|file| file.log_level.as_ref())
                .unwrap_or(Sourced::new(LogLevel::Warn, Origin::Default)),
            log_levels: self.log_levels(),
        };
        self.like_cycles(&mut resolved);
        resolved
    }

    fn report(&mut self, what: ConfigFault, key: impl Into<String>, spot: Spot) {
        self.problems.push(Problem::new(what, key, Some(spot)));
    }

    /// Files in the order in which they were read, then arguments; each in source order, arguments as given.
    fn sorted_problems(self) -> Vec<Problem> {
        let files = &self.chain.files;
        let rank = |spot: &Spot| {
            let file_idx = files.iter().position(|file| Arc::ptr_eq(&file.source, &spot.source));
            file_idx.map_or((files.len(), 0), |file_idx| (file_idx, spot.place.start))
        };
        let mut problems = self.problems;
        problems.sort_by_key(|problem| problem.at.as_ref().map_or((usize::MAX, 0), rank));
        problems
    }

    /// The real name of an executor that somebody typed, with a notice if it was a former one. `None` for
    /// `host`.
    fn executor_name(&mut self, typed: &str, key: &str, spot: &Spot) -> Option<String> {
        if typed == "host" {
            self.report(ConfigFault::ReservedExecutor { name: typed.to_owned() }, key, spot.clone());
            return None;
        }
        if self.known.executors.contains_key(typed) {
            return Some(typed.to_owned());
        }
        let Some((real, alias)) = self.known.aliases.get(typed) else { return Some(typed.to_owned()) };
        let (real, fault) = ((*real).to_owned(), deprecated(alias, real));
        self.report(fault, key, spot.clone());
        Some(real)
    }

    /// What the `[executor]` sections say, merged by real name.
    fn settings(&mut self) -> BTreeMap<String, Settings> {
        let mut settings: BTreeMap<String, Settings> = BTreeMap::new();
        let chain = self.chain;
        for file in chain.files.iter().rev() {
            let mut seen: BTreeMap<String, Place> = BTreeMap::new();
            for section in &file.sections {
                let spot = file.spot(section.name.place);
                let key = format!("executor.{}", section.name.value);
                let Some(name) = self.executor_name(&section.name.value, &key, &spot) else { continue };
                if let Some(first) = seen.insert(name.clone(), section.name.place) {
                    let first = first.to_string();
                    self.report(ConfigFault::Duplicate { name: name.clone(), first }, key, spot);
                }
                merge_section(settings.entry(name.clone()).or_insert_with(blank_settings), file, section);
                self.section_options(file, section, &name, settings.get_mut(&name).expect("just inserted"));
                for (list, globs) in [("allow", &section.allow), ("deny", &section.deny)] {
                    let key = format!("executor.{}.{list}", section.name.value);
                    globs.iter().flatten().for_each(|glob| self.op(&glob.value, &key, file.spot(glob.place)));
                }
            }
        }
        self.unknown_sections(&settings);
        settings
    }

    /// Sections for executors that nobody knows, unless the order names them: then it is said there.
    fn unknown_sections(&mut self, settings: &BTreeMap<String, Settings>) {
        let chain = self.chain;
        for file in &chain.files {
            for section in &file.sections {
                let name = &section.name.value;
                let ordered = |file: &ConfigFile| {
                    let lists = file.executors.iter().chain([&file.prepend, &file.append]);
                    lists.flatten().any(|typed| typed.value == *name)
                };
                if self.known.real_name(name).is_none() && !chain.files.iter().any(ordered) {
                    let spot = file.spot(section.name.place);
                    self.check_known(name, settings, &format!("executor.{name}"), spot);
                }
            }
        }
    }

    /// Reports an executor that nobody knows, once; whether it is known.
    fn check_known(
        &mut self,
        name: &str,
        settings: &BTreeMap<String, Settings>,
        key: &str,
        spot: Spot,
    ) -> bool {
        if name == "host" || self.known.is_known(name) {
            return true;
        }
        if self.unknown.insert(name.to_owned()) {
            let policy = settings.get(name).map_or(Policy::Required, |settings| settings.policy.value);
            let (name, advice) = (name.to_owned(), self.known.advice(name));
            match policy {
                Policy::Required => self.report(ConfigFault::UnknownExecutor { name, advice }, key, spot),
                Policy::Optional => {
                    self.report(ConfigFault::OptionalExecutorUnknown { name, advice }, key, spot);
                }
                // Nobody asked for it: a config may switch off what another machine has.
                Policy::Disabled => {}
            }
        }
        false
    }

    /// The order as the files give it, real names, still with those who are unknown or disabled.
    fn order(&mut self) -> Vec<Sourced<String>> {
        let mut order: Vec<Sourced<String>> = Vec::new();
        let chain = self.chain;
        for file in chain.files.iter().rev() {
            if let Some(names) = &file.executors {
                order.clear();
                for (i, typed) in names.iter().enumerate() {
                    let spot = file.spot(typed.place);
                    if let Some(name) = self.executor_name(&typed.value, &format!("executors[{i}]"), &spot) {
                        self.push_once(&mut order, name, spot);
                    }
                }
            }
            self.change_order(&mut order, file);
        }
        order
    }

    fn push_once(&mut self, order: &mut Vec<Sourced<String>>, name: String, spot: Spot) {
        match order.iter().find(|other| other.value == name) {
            Some(first) => {
                let first = first.from.to_string();
                self.report(ConfigFault::Duplicate { name, first }, "executors", spot);
            }
            None => order.push(Sourced::new(name, Origin::Typed(spot))),
        }
    }

    fn change_order(&mut self, order: &mut Vec<Sourced<String>>, file: &ConfigFile) {
        for typed in &file.remove {
            let spot = file.spot(typed.place);
            let Some(name) = self.executor_name(&typed.value, "remove", &spot) else { continue };
            match order.iter().position(|other| other.value == name) {
                Some(i) => {
                    order.remove(i);
                }
                None => {
                    let near = nearest(&name, order.iter().map(|other| other.value.as_str()));
                    let advice = near.map_or_else(String::new, |near| format!("did you mean `{near}`?"));
                    let names: Vec<&str> = order.iter().map(|other| other.value.as_str()).collect();
                    let order = if names.is_empty() { "nobody".to_owned() } else { names.join(", ") };
                    self.report(ConfigFault::NotInOrder { name, order, advice }, "remove", spot);
                }
            }
        }
        let mut front = self.moved(order, file, "prepend", &file.prepend);
        let back = self.moved(order, file, "append", &file.append);
        // Whoever stands in both lists was reported where it stands twice.
        front.append(order);
        front.extend(back);
        *order = front;
    }

    /// The names of a list, taken out of the order wherever they stand.
    fn moved(
        &mut self,
        order: &mut Vec<Sourced<String>>,
        file: &ConfigFile,
        key: &str,
        names: &[Located<String>],
    ) -> Vec<Sourced<String>> {
        let mut out: Vec<Sourced<String>> = Vec::new();
        for typed in names {
            let spot = file.spot(typed.place);
            let Some(name) = self.executor_name(&typed.value, key, &spot) else { continue };
            order.retain(|other| other.value != name);
            self.push_once(&mut out, name, spot);
        }
        out
    }

    /// Only who is known and not disabled.
    fn checked_order(
        &mut self,
        order: Vec<Sourced<String>>,
        settings: &BTreeMap<String, Settings>,
    ) -> Vec<Sourced<String>> {
        let disabled = |name: &str| settings.get(name).is_some_and(|s| s.policy.value == Policy::Disabled);
        let mut checked: Vec<Sourced<String>> = Vec::new();
        for name in order {
            let Origin::Typed(spot) = &name.from else { continue };
            let known = self.check_known(&name.value, settings, "", spot.clone());
            if known && !disabled(&name.value) && checked.iter().all(|other| other.value != name.value) {
                checked.push(name);
            }
        }
        checked
    }

    /// Adds what manifests say to the settings of their executors.
    fn complete(&mut self, settings: &mut BTreeMap<String, Settings>) {
        for (name, (manifest, decl)) in &self.known.executors {
            let origin = || Origin::Manifest(manifest.id.clone());
            let set = settings.entry((*name).to_owned()).or_insert_with(blank_settings);
            set.plugin = Some(manifest.id.clone());
            set.kind = Some(decl.kind);
            if set.label.value.is_empty() {
                set.label = Sourced::new(decl.label.clone(), origin());
            }
            for (option, declared) in &decl.options {
                let default = || Sourced::new(declared.default.clone(), origin());
                set.options.entry(option.clone()).or_insert_with(default);
            }
            if let Some(rules) = &decl.regions {
                set.regions = overridden(rules, &set.regions);
            }
        }
    }

    /// Reports what can mean no op.
    fn op(&mut self, glob: &Glob, key: &str, spot: Spot) {
        let name = glob.as_str().to_owned();
        match self.ops.meaning(glob) {
            Meaning::Op => {}
            // Said where it was read.
            _ if !glob.is_well_formed() => {}
            Meaning::Unknown { advice } => self.report(ConfigFault::UnknownOp { name, advice }, key, spot),
            Meaning::Nothing => self.report(ConfigFault::NoSuchOp { name }, key, spot),
        }
    }

    /// The options that a section sets, and its regions, against the executor's manifest.
    fn section_options(&mut self, file: &ConfigFile, section: &Section, name: &str, into: &mut Settings) {
        let key = format!("executor.{}", section.name.value);
        let decl = self.known.executors.get(name).map(|(_, decl)| *decl);
        if let (Some(decl), Some(regions)) = (decl, &section.regions)
            && decl.kind == Kind::Op
        {
            let fault = ConfigFault::RegionsNeedFusion { executor: name.to_owned() };
            self.report(fault, format!("{key}.regions"), file.spot(regions.place));
        }
        for (option, typed) in &section.options {
            let key = format!("{key}.options.{}", option.value);
            let option = TypedOption {
                name: &option.value,
                plain: typed.value.clone(),
                text: None,
                key,
                name_spot: file.spot(option.place),
                value_spot: file.spot(typed.place),
            };
            self.option(name, option, into);
        }
    }

    /// One option: its name, type and bounds.
    fn option(&mut self, executor: &str, typed: TypedOption<'_>, into: &mut Settings) {
        let Some((manifest, decl)) = self.known.executors.get(executor).copied() else {
            // Its plugin is not there: nothing can be checked, and nothing will be used.
            return;
        };
        let Some((real, declared, alias)) = find_option(decl, typed.name) else {
            return self.report(unknown_option(decl, typed.name), typed.key, typed.name_spot);
        };
        if let Some(alias) = alias {
            self.report(deprecated(alias, real), typed.key.as_str(), typed.name_spot.clone());
        }
        let (accepted, found) = typed.value_for(declared);
        match accepted {
            Ok(value) => {
                into.options.insert(real.to_owned(), Sourced::new(value, Origin::Typed(typed.value_spot)));
            }
            Err(expected) => {
                let (executor, option) = (executor.to_owned(), real.to_owned());
                let plugin = manifest.id.clone();
                let fault = ConfigFault::BadOption { executor, option, plugin, found, expected };
                self.report(fault, typed.key, typed.value_spot);
            }
        }
    }

    fn set_options(&mut self, overlay: &Overlay, settings: &mut BTreeMap<String, Settings>) {
        for set in overlay.options() {
            let SetOption { source, executor, option, text, plain, value_place } = match set {
                Ok(set) => set,
                Err(problem) => {
                    self.problems.push(problem);
                    continue;
                }
            };
            let spot = |place| Spot { source: source.clone(), place };
            let Some(name) = self.executor_name(&executor.value, "", &spot(executor.place)) else { continue };
            if !self.check_known(&name, settings, "", spot(executor.place)) {
                continue;
            }
            let into = settings.entry(name.clone()).or_insert_with(blank_settings);
            let option = TypedOption {
                name: &option.value,
                plain,
                text: Some(&text),
                key: String::new(),
                name_spot: spot(option.place),
                value_spot: spot(value_place),
            };
            self.option(&name, option, into);
        }
    }

    fn plugin_paths(&mut self) -> Vec<Sourced<PathBuf>> {
        let chain = self.chain;
        for file in &chain.files {
            for typed in &file.plugin_paths {
                if relative_to(&file.source, &typed.value).is_none() {
                    let message = format!("`{}` is relative, and this config stands in no file", typed.value);
                    let spot = file.spot(typed.place);
                    self.report(ConfigFault::OutOfPlace { message }, "plugins.paths", spot);
                }
            }
        }
        chain.plugin_paths()
    }

    fn pins(&mut self) -> BTreeMap<String, Sourced<String>> {
        let mut pins = BTreeMap::new();
        let chain = self.chain;
        for file in chain.files.iter().rev() {
            for (id, digest) in &file.pins {
                self.plugin_known(file, id, "plugins.sha256");
                let digest_low = digest.value.to_ascii_lowercase();
                pins.insert(id.value.clone(), Sourced::new(digest_low, file.origin(digest.place)));
            }
        }
        pins
    }

    fn log_levels(&mut self) -> BTreeMap<String, Sourced<LogLevel>> {
        let mut levels = BTreeMap::new();
        let chain = self.chain;
        for file in chain.files.iter().rev() {
            for (id, level) in &file.log_levels {
                self.plugin_known(file, id, "log");
                levels.insert(id.value.clone(), Sourced::new(level.value, file.origin(level.place)));
            }
        }
        levels
    }

    fn plugin_known(&mut self, file: &ConfigFile, id: &Located<String>, key: &str) {
        if self.known.plugins.contains(id.value.as_str()) {
            return;
        }
        let near = nearest(&id.value, self.known.plugins.iter().copied());
        let advice = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`thunderhead plugins list` shows all that were found".to_owned(),
        };
        let fault = ConfigFault::UnknownPlugin { id: id.value.clone(), advice };
        self.report(fault, key, file.spot(id.place));
    }

    /// Typed ones, and for libraries that manifests name the variable of the same name in capitals.
    fn libraries(&mut self, around: &Surroundings) -> BTreeMap<String, Sourced<PathBuf>> {
        let mut libraries = BTreeMap::new();
        let manifests = self.known.executors.values().map(|(manifest, _)| manifest);
        for library in manifests.flat_map(|manifest| &manifest.libraries) {
            let variable: String = library.name.chars().map(variable_char).collect();
            if let Some(value) = around.variable(&variable) {
                let sourced = Sourced::new(PathBuf::from(value), Origin::Variable(variable));
                libraries.insert(library.name.clone(), sourced);
            }
        }
        let chain = self.chain;
        for file in chain.files.iter().rev() {
            for (name, typed) in &file.libraries {
                match relative_to(&file.source, &typed.value) {
                    Some(path) => {
                        let sourced = Sourced::new(path, file.origin(typed.place));
                        libraries.insert(name.value.clone(), sourced);
                    }
                    None => {
                        let message =
                            format!("`{}` is relative, and this config stands in no file", typed.value);
                        let spot = file.spot(typed.place);
                        self.report(ConfigFault::OutOfPlace { message }, "libraries", spot);
                    }
                }
            }
        }
        libraries
    }

    fn expect(&mut self) -> Expect {
        let chain = self.chain;
        let mut claims = Vec::new();
        let file = chain.files.iter().find(|file| file.expected_claims.is_some());
        for (file, typed) in file
            .iter()
            .flat_map(|file| file.expected_claims.iter().flatten().map(move |typed| (*file, typed)))
        {
            let spot = file.spot(typed.place);
            let ExpectedClaim { op, by } = &typed.value;
            let by =
                if by == "host" { Some(by.clone()) } else { self.executor_name(by, "expect.claims", &spot) };
            let Some(by) = by else { continue };
            // An expectation about somebody who is not there cannot hold, so policies don't matter.
            self.check_known(&by, &BTreeMap::new(), "expect.claims", spot.clone());
            self.op(op, "expect.claims", spot.clone());
            claims.push(Sourced::new(ExpectedClaim { op: op.clone(), by }, Origin::Typed(spot)));
        }
        Expect {
            claims,
            max_last_resort: chain.nearest(|file| file.max_last_resort.as_ref()),
            max_copies: chain.nearest(|file| file.max_copies.as_ref()),
        }
    }

    /// A circle of `like` among those who would be loaded.
    fn like_cycles(&mut self, resolved: &mut Resolved) {
        let mut done: BTreeSet<&str> = BTreeSet::new();
        for name in &resolved.order {
            if let Some(circle) = find_circle(resolved, &self.known, &name.value, &mut Vec::new(), &mut done)
            {
                let fault = ConfigFault::LikeCycle { chain: circle };
                let spot = match &name.from {
                    Origin::Typed(spot) => Some(spot.clone()),
                    _ => None,
                };
                self.problems.push(Problem::new(fault, "", spot));
                return;
            }
        }
    }
}

fn variable_char(c: char) -> char {
    if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }
}

fn blank_settings() -> Settings {
    Settings {
        plugin: None,
        kind: None,
        policy: Sourced::default(),
        allow: None,
        deny: Sourced::default(),
        fuel: None,
        label: Sourced::default(),
        options: BTreeMap::new(),
        regions: RegionRules::default(),
    }
}

/// What the section says wins over what was there.
fn merge_section(into: &mut Settings, file: &ConfigFile, section: &Section) {
    let here = file.origin(section.name.place);
    if let Some(policy) = &section.policy {
        into.policy = Sourced::new(policy.value, file.origin(policy.place));
    }
    if let Some(allow) = &section.allow {
        into.allow = Some(Sourced::new(plain(allow), here.clone()));
    }
    if let Some(deny) = &section.deny {
        into.deny = Sourced::new(plain(deny), here);
    }
    if let Some(fuel) = &section.fuel {
        into.fuel = Some(Sourced::new(fuel.value, file.origin(fuel.place)));
    }
    if let Some(label) = &section.label {
        into.label = Sourced::new(label.value.clone(), file.origin(label.place));
    }
    if let Some(regions) = &section.regions {
        into.regions = overridden(&into.regions, &regions.value);
    }
}

fn plain(globs: &[Located<Glob>]) -> Vec<Glob> {
    globs.iter().map(|glob| glob.value.clone()).collect()
}

fn overridden(rules: &RegionRules, by: &RegionRules) -> RegionRules {
    RegionRules {
        needs_any: by.needs_any.clone().or_else(|| rules.needs_any.clone()),
        min_ops: by.min_ops.or(rules.min_ops),
        max_ops: by.max_ops.or(rules.max_ops),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{LastResort, Loaded, Start};

    /// Three plugins: `blas` (op, options, an alias), `fuser` (fusion, like others), `reference`.
    fn manifests() -> Vec<Manifest> {
        let head = |id: &str| format!("manifest = 1\nid = '{id}'\nversion = '1.0'\nabi = '0.1'\nir = '1'\n");
        let texts = [
            "
            libraries = [{ name = 'libblas' }]
            [[executor]]
            name = 'blas'
            aliases = [{ name = 'old_blas', since = '0.9', until = '2.0' }]
            claim = [{ ops = ['torch.linear'] }]
            option.threads = { type = 'int', default = 2, min = 0, max = 8 }
            option.mode = { type = 'string', default = 'fast', aliases = [{ name = 'kind' }] }
            option.scale = { type = 'float' }
            ",
            "
            [[executor]]
            name = 'fuser'
            kind = 'fusion'
            label = 'Fuse'
            like = ['blas', 'nobody', 'reference']
            regions = { min_ops = 2, max_ops = 100 }
            ",
            "[[executor]]\nname = 'reference'\nclaim = [{ ops = ['prims.*'] }]",
        ];
        let ids = ["acme-blas", "fuser", "reference"];
        let parse = |(id, text): (&str, &str)| Manifest::parse(&(head(id) + text)).expect("test manifest").0;
        ids.into_iter().zip(texts).map(parse).collect()
    }

    fn resolve_with(
        text: &str,
        overlay: &Overlay,
        around: &Surroundings,
    ) -> Result<(Resolved, Vec<Notice>), ConfigErrors> {
        let nothing = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let chain = Chain::load(&Start::Text(format!("config = 1\n{text}")), around, &nothing);
        let manifests = manifests();
        chain.resolve(overlay, &manifests.iter().collect::<Vec<_>>(), around, &[])
    }

    fn resolve(text: &str) -> (Resolved, Vec<Notice>) {
        resolve_with(text, &Overlay::default(), &Surroundings::default()).expect("a good config")
    }

    fn print(problems: &[Problem]) -> String {
        let line = |problem: &Problem| {
            use miette::Diagnostic;
            let spot = problem.at.as_ref().map_or("-".to_owned(), Spot::to_string);
            let help = problem.help().map(|help| help.to_string()).filter(|help| !help.is_empty());
            let help = help.map_or(String::new(), |help| format!(" ({help})"));
            format!("{spot} {} {problem}{help}\n", problem.code_text())
        };
        problems.iter().map(line).collect()
    }

    #[track_caller]
    fn errors(text: &str, overlay: &Overlay, expected: &str) {
        let found = match resolve_with(text, overlay, &Surroundings::default()) {
            Ok(_) => "accepted".to_owned(),
            Err(errors) => print(&errors.problems),
        };
        assert_eq!(found.trim(), expected.trim(), "\n{found}");
    }

    fn names(resolved: &Resolved) -> Vec<&str> {
        resolved.order.iter().map(|name| name.value.as_str()).collect()
    }

    #[test]
    fn an_empty_config_leaves_all_to_the_last_resort() {
        let (resolved, notices) = resolve("");
        assert_eq!((names(&resolved), notices.len()), (vec![], 0));
        assert_eq!(resolved.last_resort.value, LastResort::Reference);
        assert!(resolved.map_weights.value);
    }

    #[test]
    fn the_order_of_a_base_is_changed_and_names_move() {
        // The preset `default` has `pytorch`, which nobody here brings: known, so it stays in the order.
        let (resolved, notices) =
            resolve("base = 'default'\nprepend = ['blas', 'fuser']\nappend = ['pytorch']");
        assert_eq!(names(&resolved), ["blas", "fuser", "pytorch"]);
        assert_eq!(print(&notices), "");
        assert_eq!(resolved.settings("pytorch").map(|s| s.policy.value), Some(Policy::Optional));
        assert!(!resolved.is_required("pytorch") && resolved.is_required("blas"));
        let (resolved, _) = resolve("base = 'default'\nremove = ['pytorch']\nappend = ['blas']");
        assert_eq!(names(&resolved), ["blas"]);
    }

    #[test]
    fn aliases_are_understood_everywhere_with_a_notice() {
        let text = "executors = ['old_blas']\nexecutor.old_blas.options.kind = 'slow'\n\
                    expect.claims = [{ op = 'torch.*', by = 'old_blas' }]";
        let (resolved, notices) = resolve(text);
        assert_eq!(names(&resolved), ["blas"]);
        assert_eq!(resolved.settings["blas"].options["mode"].value, Plain::Str("slow".to_owned()));
        assert_eq!(resolved.expect.claims[0].value.by, "blas");
        let expected = "\
config:2:14 config::deprecated_name executors[0]: `old_blas` is now called `blas` since 0.9, and the old name goes with 2.0 (write `blas`)
config:3:10 config::deprecated_name executor.old_blas: `old_blas` is now called `blas` since 0.9, and the old name goes with 2.0 (write `blas`)
config:3:27 config::deprecated_name executor.old_blas.options.kind: `kind` is now called `mode` (write `mode`)
config:4:41 config::deprecated_name expect.claims: `old_blas` is now called `blas` since 0.9, and the old name goes with 2.0 (write `blas`)
";
        assert_eq!(print(&notices), expected, "\n{}", print(&notices));
    }

    #[test]
    fn options_regions_and_labels_are_completed_from_the_manifest() {
        let (resolved, _) = resolve(
            "executors = ['fuser', 'blas']\n[executor.fuser]\nregions.min_ops = 4\n\
             [executor.blas]\noptions.scale = 2\nallow = ['torch.*']\ndeny = ['torch.conv*']",
        );
        let (fuser, blas) = (&resolved.settings["fuser"], &resolved.settings["blas"]);
        assert_eq!((fuser.regions.min_ops, fuser.regions.max_ops), (Some(4), Some(100)));
        assert_eq!((fuser.label.value.as_str(), blas.label.value.as_str()), ("Fuse", "Blas"));
        assert_eq!(blas.options["scale"].value, Plain::Float(2.0));
        assert_eq!(blas.options["threads"].value, Plain::Int(2));
        assert_eq!(blas.options["threads"].from.to_string(), "manifest of acme-blas");
        assert!(blas.allows("torch.linear") && !blas.allows("torch.conv2d") && !blas.allows("prims.exp"));
    }

    #[test]
    fn everything_wrong_is_said_at_once_in_source_order() {
        errors(
            "executors = ['blsa', 'blas', 'old_blas', 'host']
last_resort = 'refrence'
[executor.blas]
polcy = 'optional'
options = { thread = 1, threads = 9, mode = 3, scale = 1979-05-27 }
regions = { min_ops = 3 }
[executor.zzz]
[plugins]
paths = ['here']
[plugins.sha256]
acme-blas = 'abc'
[expect]
claims = [{ op = 'torch.add', by = 'fusre' }]
[run]
threads = -1
",
            &Overlay::default(),
            "
config:2:14 config::unknown_executor no plugin brings an executor `blsa` (did you mean `blas`?)
config:2:30 config::duplicate executors: `blas` stands twice, first at config:2:22
config:2:42 config::reserved_executor executors[3]: `host` is the host itself and cannot be ordered or set
config:3:15 config::unknown_word last_resort: found `refrence`, expected `reference` or `none` (did you mean `reference`?)
config:5:1 config::unknown_key executor.blas: unknown key `polcy` (did you mean `policy`?)
config:6:13 config::unknown_option executor.blas.options.thread: `blas` has no option `thread` (did you mean `threads`?)
config:6:35 config::bad_option executor.blas.options.threads: found `9`, expected 0 to 8, as `acme-blas` declares `threads` of `blas`
config:6:45 config::bad_option executor.blas.options.mode: found `3`, expected a string, as `acme-blas` declares `mode` of `blas`
config:6:56 config::bad_option executor.blas.options.scale: found something that no option can be, expected a number, as `acme-blas` declares `scale` of `blas`
config:7:11 config::regions_need_fusion executor.blas.regions: `blas` is of kind `op` and has no regions
config:8:11 config::unknown_executor executor.zzz: no plugin brings an executor `zzz` (known here: `blas`, `concat_inductor`, `full_fusion`, `fuser`, `pytorch`, `reference` or `sdpa`; is its plugin in a folder that `thunderhead doctor` lists?)
config:10:10 config::out_of_place plugins.paths: `here` is relative, and this config stands in no file
config:12:13 config::bad_value plugins.sha256.acme-blas: found `abc`, expected 64 hexadecimal digits
config:14:36 config::unknown_executor expect.claims: no plugin brings an executor `fusre` (did you mean `fuser`?)
config:16:11 config::bad_value run.threads: found `-1`, expected an integer from 0 on
",
        );
    }

    #[test]
    fn who_is_optional_and_unknown_is_left_out_with_a_notice() {
        let (resolved, notices) = resolve(
            "executors = ['fusre', 'blas']\nexecutor.fusre.policy = 'optional'\nexecutor.x.policy = 'disabled'",
        );
        assert_eq!(names(&resolved), ["blas"]);
        let expected = "config:2:14 config::optional_executor_unknown no plugin brings an executor `fusre`; it is optional and left out (did you mean `fuser`?)\n";
        assert_eq!(print(&notices), expected);
    }

    #[test]
    fn arguments_replace_the_order_and_set_options() {
        let overlay = Overlay {
            executors: Some("old_blas,pytorch".to_owned()),
            set: vec!["blas.threads=4".to_owned(), "old_blas.mode=7".to_owned()],
            threads: Some(3),
        };
        let text = "base = 'default'\nexecutor.blas.policy = 'disabled'";
        let (resolved, notices) =
            resolve_with(text, &overlay, &Surroundings::default()).expect("a good config");
        assert_eq!(names(&resolved), ["blas", "pytorch"]);
        // Whoever is named in an argument is wanted, whatever the preset says.
        assert!(resolved.is_required("blas") && resolved.is_required("pytorch"));
        assert_eq!(resolved.settings["blas"].options["threads"].value, Plain::Int(4));
        assert_eq!(resolved.settings["blas"].options["mode"].value, Plain::Str("7".to_owned()));
        assert_eq!(resolved.settings["blas"].options["threads"].from.to_string(), "--set:1:14");
        assert_eq!((resolved.threads.value, resolved.threads.from.to_string()), (3, "--threads".to_owned()));
        assert_eq!(notices.len(), 2);
    }

    #[test]
    fn faults_in_arguments_have_places_too() {
        let overlay = Overlay {
            executors: Some("blas,xyz".to_owned()),
            set: ["blas.threads=many", "fuser.x=1", "y", "q.r=1"].map(str::to_owned).to_vec(),
            threads: None,
        };
        errors(
            "",
            &overlay,
            "
--executors:1:6 config::unknown_executor no plugin brings an executor `xyz` (known here: `blas`, `concat_inductor`, `full_fusion`, `fuser`, `pytorch`, `reference` or `sdpa`; is its plugin in a folder that `thunderhead doctor` lists?)
--set:1:14 config::bad_option found `many`, expected an integer, as `acme-blas` declares `threads` of `blas`
--set:1:7 config::unknown_option `fuser` has no option `x` (it has no options)
--set:1:1 config::bad_set found `y`, expected `executor.option=value`
--set:1:1 config::unknown_executor no plugin brings an executor `q` (known here: `blas`, `concat_inductor`, `full_fusion`, `fuser`, `pytorch`, `reference` or `sdpa`; is its plugin in a folder that `thunderhead doctor` lists?)
",
        );
    }

    #[test]
    fn who_must_be_loaded() {
        let (resolved, _) = resolve("executors = ['fuser']");
        let manifests = manifests();
        let loaded = resolved.loaded(&manifests.iter().collect::<Vec<_>>());
        let print = |l: &Loaded| format!("{} {:?}", l.name, l.because);
        assert_eq!(
            loaded.iter().map(print).collect::<Vec<_>>(),
            ["fuser Order", "blas Like(\"fuser\")", "reference Like(\"fuser\")"]
        );
        let (resolved, _) =
            resolve("executors = ['fuser']\nlast_resort = 'none'\nexecutor.blas.policy = 'disabled'");
        let loaded = resolved.loaded(&manifests.iter().collect::<Vec<_>>());
        assert_eq!(
            loaded.iter().map(print).collect::<Vec<_>>(),
            ["fuser Order", "reference Like(\"fuser\")"]
        );
    }

    #[test]
    fn nothing_to_run_is_an_error() {
        let expected = "- config::nothing_to_run nothing is left to run an op: the order is empty and `last_resort` is `none` (name an executor, or set last_resort = \"reference\")";
        errors("last_resort = 'none'", &Overlay::default(), expected);
    }

    #[test]
    fn libraries_come_from_the_config_or_else_from_variables() {
        let mut around = Surroundings::default();
        around.variables.insert("LIBBLAS".to_owned(), "/opt/blas".to_owned());
        around.variables.insert("HOME".to_owned(), "/root".to_owned());
        let (resolved, _) = resolve_with("", &Overlay::default(), &around).expect("good");
        let shown = |r: &Resolved| {
            let library = &r.libraries["libblas"];
            format!("{} {}", library.value.display(), library.from)
        };
        assert_eq!(shown(&resolved), "/opt/blas variable LIBBLAS");
        assert_eq!(resolved.libraries.len(), 1);
        let text = "libraries.libblas = '/usr/lib/blas'";
        let (resolved, _) = resolve_with(text, &Overlay::default(), &around).expect("good");
        assert_eq!(shown(&resolved), "/usr/lib/blas config:2:21");
    }

    #[test]
    fn a_circle_of_like_is_an_error() {
        let head = "manifest = 1\nid = 'x'\nversion = '1.0'\nabi = '0.1'\nir = '1'\n";
        let text = "[[executor]]\nname = 'a'\nlike = ['b']\n[[executor]]\nname = 'b'\nlike = ['a']\n";
        let manifest = Manifest::parse(&format!("{head}{text}")).expect("test manifest").0;
        let around = Surroundings::default();
        let nothing = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let chain = Chain::load(&Start::Text("config = 1\nexecutors = ['a']".to_owned()), &around, &nothing);
        let errors = chain.resolve(&Overlay::default(), &[&manifest], &around, &[]).expect_err("a circle");
        let expected = "config:2:14 config::like_cycle executors are like each other in a circle: a -> b -> a (this is a fault of the plugins' manifests)\n";
        assert_eq!(print(&errors.problems), expected);
    }

    #[test]
    fn what_is_shown_reads_back_as_the_same() {
        let text = "executors = ['fuser', 'blas']\n[executor.blas]\nallow = ['torch.*']\nfuel = 3\n\
                    options = { mode = 'a \"b\"' }\n[executor.fuser]\nregions.needs_any = ['torch.cat']\n\
                    [expect]\nclaims = [{ op = 'torch.cat', by = 'fuser' }]\nmax_copies = 4\n\
                    [log]\nacme-blas = 'debug'\n[run]\non_error = 'next'\n";
        let (resolved, _) = resolve(text);
        let shown = resolved.to_string();
        let body = shown.strip_prefix("config = 1\n").expect("the format comes first");
        let (again, notices) = resolve(body);
        assert_eq!(notices.len(), 0);
        let bare = |text: &str| -> String {
            text.lines().map(|line| line.split("  # ").next().unwrap_or(line).to_owned() + "\n").collect()
        };
        assert_eq!(bare(&again.to_string()), bare(&shown));
        assert!(shown.contains("    \"fuser\",  # config:2:14\n"), "{shown}");
    }

    #[test]
    fn presets_mean_what_they_say() {
        for (name, _) in crate::config::PRESETS {
            let around = Surroundings::default();
            let nothing = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
            let chain = Chain::load(&Start::Named(name.to_owned()), &around, &nothing);
            let manifests = manifests();
            let (resolved, notices) = chain
                .resolve(&Overlay::default(), &manifests.iter().collect::<Vec<_>>(), &around, &[])
                .unwrap_or_else(|errors| panic!("preset {name}: {}", print(&errors.problems)));
            assert!(!resolved.order.is_empty() && notices.is_empty(), "preset {name}");
        }
    }

    #[test]
    fn every_file_of_the_folder_is_a_preset() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../configs");
        let files = std::fs::read_dir(folder).expect("the folder of presets");
        let name = |entry: std::fs::DirEntry| {
            entry.path().file_stem().map(|stem| stem.to_string_lossy().into_owned())
        };
        let mut found: Vec<String> = files.filter_map(|entry| name(entry.ok()?)).collect();
        found.sort();
        assert_eq!(found, crate::config::PRESETS.map(|(name, _)| name.to_owned()));
    }

    #[test]
    fn names_that_no_op_has_are_said() {
        let text = "executors = ['blas']\n[executor.blas]\nallow = ['torch.relu', 'torch.rleu', 'torch.z*', 'aten.foo.default']\n\
                    deny = ['torch.linear', 'Blas0']\n[expect]\nclaims = [{ op = 'torch.rleu', by = 'blas' }]\n";
        let around = Surroundings::default();
        let nothing = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let chain = Chain::load(&Start::Text(format!("config = 1\n{text}")), &around, &nothing);
        let manifests = manifests();
        let manifests: Vec<&Manifest> = manifests.iter().collect();
        let ops = ["torch.relu", "torch.add"];
        let errors = chain.resolve(&Overlay::default(), &manifests, &around, &ops).expect_err("names");
        let expected = "\
config:4:24 config::unknown_op executor.blas.allow: no op is called `torch.rleu` (did you mean `torch.relu`?)
config:5:25 config::unknown_op executor.blas.deny: no op is called `Blas0` (`thunderhead ops` lists them all)
config:7:37 config::unknown_op expect.claims: no op is called `torch.rleu` (did you mean `torch.relu`?)
";
        assert_eq!(print(&errors.problems), expected, "\n{}", print(&errors.problems));
        let expected = "config:4:38 config::no_such_op executor.blas.allow: `torch.z*` matches no op that is known here (it has an effect only on a model that brings such an op itself; `thunderhead ops` lists those known)\n";
        assert_eq!(print(&errors.notices), expected);
    }
}
