//! What was typed in one config file, each value with its place. Nothing is looked up and nothing is merged.

use std::sync::Arc;

use serde::Serialize;
use thunderhead_manifest::document::{Document, Reader, Table};
use thunderhead_manifest::{
    FaultKind, Glob, Located, Plain, RegionRules, is_executor_name, is_label, is_plugin_id, read_region_rules,
};

use super::fault::{Problem, Source, Spot};

/// The config format that this version reads.
const FORMAT: i64 = 1;

/// One config file.
#[derive(Clone, Debug)]
pub(crate) struct ConfigFile {
    pub source: Arc<Source>,
    pub base: Option<Located<String>>,
    pub executors: Option<Vec<Located<String>>>,
    pub prepend: Vec<Located<String>>,
    pub append: Vec<Located<String>>,
    pub remove: Vec<Located<String>>,
    pub last_resort: Option<Located<LastResort>>,
    pub plugin_paths: Vec<Located<String>>,
    pub allow_untrusted: Option<Located<bool>>,
    /// Plugin id and digest.
    pub pins: Vec<(Located<String>, Located<String>)>,
    /// Library name and path.
    pub libraries: Vec<(Located<String>, Located<String>)>,
    pub sections: Vec<Section>,
    pub threads: Option<Located<u32>>,
    pub on_error: Option<Located<OnError>>,
    pub map_weights: Option<Located<bool>>,
    pub expected_claims: Option<Vec<Located<ExpectedClaim>>>,
    pub max_last_resort: Option<Located<u64>>,
    pub max_copies: Option<Located<u64>>,
    pub log_level: Option<Located<LogLevel>>,
    /// Plugin id and level.
    pub log_levels: Vec<(Located<String>, Located<LogLevel>)>,
}

/// What is typed under `[executor.NAME]`.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub name: Located<String>,
    pub policy: Option<Located<Policy>>,
    pub allow: Option<Vec<Located<Glob>>>,
    pub deny: Option<Vec<Located<Glob>>>,
    pub fuel: Option<Located<u64>>,
    pub label: Option<Located<String>>,
    /// `None` for values that no option can have, such as tables.
    pub options: Vec<(Located<String>, Located<Option<Plain>>)>,
    pub regions: Option<Located<RegionRules>>,
}

/// What becomes of an executor that cannot be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Stop with the reason.
    #[default]
    Required,
    /// Warn and go on without it.
    Optional,
    /// Do not use it, also not through `like`.
    Disabled,
}

/// Who takes the prims that nobody in the order takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LastResort {
    #[default]
    Reference,
    /// An op that nobody takes is an error.
    None,
}

/// What becomes of a run in which a plugin fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// The run fails.
    #[default]
    Fail,
    /// The run is dropped, planned again without that executor there, and started over.
    Next,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Says that ops of that name must be claimed by that executor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExpectedClaim {
    pub op: Glob,
    pub by: String,
}

const POLICIES: [(&str, Policy); 3] =
    [("required", Policy::Required), ("optional", Policy::Optional), ("disabled", Policy::Disabled)];
const LAST_RESORTS: [(&str, LastResort); 2] =
    [("reference", LastResort::Reference), ("none", LastResort::None)];
const ON_ERRORS: [(&str, OnError); 2] = [("fail", OnError::Fail), ("next", OnError::Next)];
const LOG_LEVELS: [(&str, LogLevel); 6] = [
    ("off", LogLevel::Off),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

impl Policy {
    /// As typed in a config.
    pub fn as_str(self) -> &'static str {
        spelled(&POLICIES, self)
    }
}

impl LastResort {
    /// As typed in a config.
    pub fn as_str(self) -> &'static str {
        spelled(&LAST_RESORTS, self)
    }
}

impl OnError {
    /// As typed in a config.
    pub fn as_str(self) -> &'static str {
        spelled(&ON_ERRORS, self)
    }
}

impl LogLevel {
    /// As typed in a config.
    pub fn as_str(self) -> &'static str {
        spelled(&LOG_LEVELS, self)
    }
}

fn spelled<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, other)| *other == value).map_or("", |(word, _)| word)
}

impl ConfigFile {
    /// Reads a config's text. The file is what could be understood of it; problems come in source order.
    pub fn parse(source: &Arc<Source>) -> (ConfigFile, Vec<Problem>) {
        let document = Document::parse(source.text());
        let (mut reader, root) = document.reader();
        let file = read(&mut reader, root, source);
        let (faults, unknown) = reader.into_faults();
        let mut all: Vec<_> = faults.into_iter().chain(unknown).collect();
        all.sort_by_key(|fault| fault.place);
        let problems = all.into_iter().map(|fault| {
            let spot = Spot { source: source.clone(), place: fault.place };
            Problem::new(fault.kind.into(), fault.at, Some(spot))
        });
        (file, problems.collect())
    }
}

/// A config in which each table that may stand somewhere does.
const EVERY_TABLE: &str = "\
[plugins]
[executor.NAME]
regions = {}
[run]
[expect]
claims = [{}]
[log]
";

/// All keys that a config may have, dotted and sorted. `NAME` stands for an executor's, `[]` for a place in a list; the
/// entries of tables whose keys are the author's own (options, pins, libraries, levels) are not among them.
pub fn keys() -> Vec<String> {
    let document = Document::parse(EVERY_TABLE);
    let (mut reader, root) = document.reader();
    read(&mut reader, root, &Source::new("keys", None, EVERY_TABLE.to_owned()));
    let mut keys: Vec<String> = reader.asked().iter().map(|key| key.replace("[0]", "[]")).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn read<'d>(reader: &mut Reader<'d>, mut root: Table<'d>, source: &Arc<Source>) -> ConfigFile {
    reader.require(&root, "config");
    if let Some(format) = reader.integer(&mut root, "config", 1)
        && format.value != FORMAT
    {
        let expected = format!("{FORMAT}, the config format that this version reads");
        let kind = FaultKind::BadValue { found: format.value.to_string(), expected };
        reader.fault(kind, "config", format.place);
    }
    let base = reader.string(&mut root, "base");
    let executors = reader.strings(&mut root, "executors");
    let mut file = ConfigFile {
        source: source.clone(),
        prepend: reader.strings(&mut root, "prepend").unwrap_or_default(),
        append: reader.strings(&mut root, "append").unwrap_or_default(),
        remove: reader.strings(&mut root, "remove").unwrap_or_default(),
        last_resort: word(reader, &mut root, "last_resort", &LAST_RESORTS),
        base,
        executors,
        plugin_paths: Vec::new(),
        allow_untrusted: None,
        pins: Vec::new(),
        libraries: Vec::new(),
        sections: Vec::new(),
        threads: None,
        on_error: None,
        map_weights: None,
        expected_claims: None,
        max_last_resort: None,
        max_copies: None,
        log_level: None,
        log_levels: Vec::new(),
    };
    order_makes_sense(reader, &file);
    plugins(reader, &mut root, &mut file);
    if let Some(table) = reader.table(&mut root, "libraries") {
        file.libraries = text_entries(reader, &table);
    }
    if let Some(table) = reader.table(&mut root, "executor") {
        let tables = reader.sub_tables(&table);
        file.sections = tables.into_iter().map(|(name, table)| section(reader, name, table)).collect();
    }
    run(reader, &mut root, &mut file);
    expect(reader, &mut root, &mut file);
    log(reader, &mut root, &mut file);
    reader.finish(root);
    file
}

/// `executors` is a whole order; `prepend`, `append` and `remove` change that of a base.
fn order_makes_sense(reader: &mut Reader<'_>, file: &ConfigFile) {
    let changes = [("prepend", &file.prepend), ("append", &file.append), ("remove", &file.remove)];
    for (key, names) in changes {
        let Some(first) = names.first() else { continue };
        if file.executors.is_some() {
            let message = format!("`{key}` changes the order of a base, but `executors` gives a whole one");
            reader.fault(FaultKind::OutOfPlace { message }, key, first.place);
        } else if file.base.is_none() {
            let message = format!("`{key}` changes the order of a base, and there is no `base`");
            reader.fault(FaultKind::OutOfPlace { message }, key, first.place);
        }
    }
}

fn plugins<'d>(reader: &mut Reader<'d>, root: &mut Table<'d>, file: &mut ConfigFile) {
    let Some(mut table) = reader.table(root, "plugins") else { return };
    file.plugin_paths = reader.strings(&mut table, "paths").unwrap_or_default();
    file.allow_untrusted = reader.boolean(&mut table, "allow_untrusted");
    if let Some(pins) = reader.table(&mut table, "sha256") {
        file.pins = text_entries(reader, &pins);
        for (id, digest) in &file.pins {
            plugin_id(reader, id, pins.path_of(&id.value));
            let good = digest.value.len() == 64 && digest.value.bytes().all(|b| b.is_ascii_hexdigit());
            reader.check(good, digest, "64 hexadecimal digits", pins.path_of(&id.value));
        }
    }
    reader.finish(table);
}

fn section<'d>(reader: &mut Reader<'d>, name: Located<String>, mut table: Table<'d>) -> Section {
    let expected = "a lower-case letter, then lower-case letters, digits and underscores";
    reader.check(is_executor_name(&name.value), &name, expected, table.path().to_owned());
    let policy = word(reader, &mut table, "policy", &POLICIES);
    let allow = globs(reader, &mut table, "allow");
    let deny = globs(reader, &mut table, "deny");
    let fuel = reader.integer(&mut table, "fuel", 0).map(|fuel| fuel.map(i64::unsigned_abs));
    let label = reader.string(&mut table, "label");
    if let Some(label) = &label {
        reader.check(is_label(&label.value), label, "a capital letter, then letters", table.path_of("label"));
    }
    let options = match reader.table(&mut table, "options") {
        Some(options) => reader.entries(&options).into_iter().map(option).collect(),
        None => Vec::new(),
    };
    let regions = reader.table(&mut table, "regions").map(|mut regions| {
        let rules = Located { place: regions.place(), value: read_region_rules(reader, &mut regions) };
        reader.finish(regions);
        rules
    });
    reader.finish(table);
    Section { name, policy, allow, deny, fuel, label, options, regions }
}

fn option(
    (name, value): (Located<String>, thunderhead_manifest::document::Value<'_>),
) -> (Located<String>, Located<Option<Plain>>) {
    (name, Located { value: value.scalar_or_list(), place: value.place() })
}

fn run<'d>(reader: &mut Reader<'d>, root: &mut Table<'d>, file: &mut ConfigFile) {
    let Some(mut table) = reader.table(root, "run") else { return };
    file.threads = reader.integer(&mut table, "threads", 0).and_then(|threads| {
        let small = u32::try_from(threads.value).ok().filter(|&threads| threads <= MAX_THREADS);
        if small.is_none() {
            let expected = format!("at most {MAX_THREADS}");
            let kind = FaultKind::BadValue { found: threads.value.to_string(), expected };
            reader.fault(kind, "run.threads", threads.place);
        }
        small.map(|value| Located { value, place: threads.place })
    });
    file.on_error = word(reader, &mut table, "on_error", &ON_ERRORS);
    file.map_weights = reader.boolean(&mut table, "map_weights");
    reader.finish(table);
}

/// More threads than this is a typing error on every machine there is.
pub(crate) const MAX_THREADS: u32 = 4096;

fn expect<'d>(reader: &mut Reader<'d>, root: &mut Table<'d>, file: &mut ConfigFile) {
    let Some(mut table) = reader.table(root, "expect") else { return };
    let has_claims = reader.value(&mut table, "claims").is_some();
    let mut claims = Vec::new();
    for mut entry in reader.tables(&mut table, "claims") {
        let op = reader.required_string(&mut entry, "op");
        let by = reader.required_string(&mut entry, "by");
        if let (Some(op), Some(by)) = (op, by) {
            let glob = Glob::new(op.value.as_str());
            reader.check(glob.is_well_formed(), &op, "an op name or a glob", entry.path_of("op"));
            claims.push(Located { value: ExpectedClaim { op: glob, by: by.value }, place: by.place });
        }
        reader.finish(entry);
    }
    file.expected_claims = has_claims.then_some(claims);
    let count = |count: Located<i64>| count.map(i64::unsigned_abs);
    file.max_last_resort = reader.integer(&mut table, "max_last_resort", 0).map(count);
    file.max_copies = reader.integer(&mut table, "max_copies", 0).map(count);
    reader.finish(table);
}

fn log<'d>(reader: &mut Reader<'d>, root: &mut Table<'d>, file: &mut ConfigFile) {
    let Some(mut table) = reader.table(root, "log") else { return };
    file.log_level = word(reader, &mut table, "level", &LOG_LEVELS);
    for (id, level) in text_entries(reader, &table) {
        if id.value == "level" {
            continue;
        }
        let at = table.path_of(&id.value);
        plugin_id(reader, &id, at.clone());
        match LOG_LEVELS.iter().find(|(word, _)| *word == level.value) {
            Some((_, value)) => file.log_levels.push((id, Located { value: *value, place: level.place })),
            None => unknown_word(reader, level, &LOG_LEVELS, at),
        }
    }
}

fn plugin_id(reader: &mut Reader<'_>, id: &Located<String>, at: String) {
    reader.check(is_plugin_id(&id.value), id, "a plugin's id: lower-case letters, digits and dashes", at);
}

fn globs<'d>(
    reader: &mut Reader<'d>,
    table: &mut Table<'d>,
    key: &'static str,
) -> Option<Vec<Located<Glob>>> {
    let texts = reader.strings(table, key)?;
    let mut globs = Vec::with_capacity(texts.len());
    for text in texts {
        let glob = Glob::new(text.value.as_str());
        reader.check(glob.is_well_formed(), &text, "an op name or a glob", table.path_of(key));
        globs.push(Located { value: glob, place: text.place });
    }
    Some(globs)
}

/// Entries whose keys are the author's own and whose values are strings.
fn text_entries<'d>(reader: &mut Reader<'d>, table: &Table<'d>) -> Vec<(Located<String>, Located<String>)> {
    let mut out = Vec::new();
    for (name, value) in reader.entries(table) {
        match value.scalar_or_list() {
            Some(Plain::Str(text)) => out.push((name, Located { value: text, place: value.place() })),
            _ => {
                let kind = FaultKind::WrongType { found: value.type_name(), expected: "a string" };
                reader.fault(kind, table.path_of(&name.value), value.place());
            }
        }
    }
    out
}

fn word<'d, T: Copy>(
    reader: &mut Reader<'d>,
    table: &mut Table<'d>,
    key: &'static str,
    words: &[(&str, T)],
) -> Option<Located<T>> {
    let spellings: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    reader.word(table, key, &spellings).map(|index| index.map(|i| words[i].1))
}

fn unknown_word<T>(reader: &mut Reader<'_>, found: Located<String>, words: &[(&str, T)], at: String) {
    let nearest = thunderhead_manifest::document::nearest(&found.value, words.iter().map(|(word, _)| *word));
    let kind = FaultKind::UnknownWord {
        nearest: nearest.map(str::to_owned),
        found: found.value,
        valid: words.iter().map(|(word, _)| (*word).to_owned()).collect(),
    };
    reader.fault(kind, at, found.place);
}
