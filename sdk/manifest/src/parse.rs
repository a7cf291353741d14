//! From text to [`Manifest`], with everything that is wrong reported at once.
//!
//! Unknown keys and unknown dtype names are warnings, because a newer SDK may know more; `plugins check` makes
//! them errors. Everything else that cannot be understood is an error.

use std::collections::BTreeMap;
use std::fmt;

use crate::document::{Document, Fault, FaultKind, Located, Place, Plain, Reader, Table, Value};
use crate::glob::Glob;
use crate::limits::ClaimIndex;
use crate::manifest::{
    Alias, Claim, ExecutorDecl, FORMAT, Kind, Layout, Library, Manifest, OptionDecl, OptionKind, RegionRules,
    TableId, Version,
};

/// The dtypes that exist, as spelled in traces and manifests.
pub const DTYPES: [&str; 20] = [
    "bool",
    "u8",
    "u16",
    "u32",
    "u64",
    "i8",
    "i16",
    "i32",
    "i64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "c64",
    "c128",
    "f8e4m3fn",
    "f8e5m2",
    "f8e4m3fnuz",
    "f8e5m2fnuz",
    "f8e8m0fnu",
];

/// Something that a newer or older manifest may well hold, and that changes nothing here.
pub type Warning = Fault;

/// All that is wrong with a manifest, in source order; never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestErrors {
    pub faults: Vec<Fault>,
}

impl fmt::Display for ManifestErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            write!(f, "{}{fault}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ManifestErrors {}

impl Manifest {
    /// Reads and checks a manifest. Errors and warnings carry line and column and come in source order.
    pub fn parse(text: &str) -> Result<(Manifest, Vec<Warning>), ManifestErrors> {
        let document = Document::parse(text);
        let (reader, root) = document.reader();
        let mut parser = Parser { reader, warnings: Vec::new() };
        let manifest = parser.manifest(root);
        let Parser { reader, mut warnings } = parser;
        let (faults, unknown) = reader.into_faults();
        warnings.extend(unknown);
        warnings.sort_by_key(|fault| fault.place);
        match manifest {
            Some(manifest) if faults.is_empty() => Ok((manifest, warnings)),
            _ => Err(ManifestErrors { faults }),
        }
    }
}

struct Parser<'d> {
    reader: Reader<'d>,
    warnings: Vec<Warning>,
}

impl<'d> Parser<'d> {
    /// `None` only where a fault was noted.
    fn manifest(&mut self, mut root: Table<'d>) -> Option<Manifest> {
        self.format(&mut root);
        let id = self.pattern(&mut root, "id", "lower-case letters, digits and dashes", is_plugin_id);
        let version = self.pattern(&mut root, "version", "a version such as `0.3.1`", is_release);
        let vendor = self.reader.string(&mut root, "vendor");
        let license = self.reader.string(&mut root, "license");
        let url = self.reader.string(&mut root, "url");
        let abi = self.version(&mut root, "abi");
        let ir = self.version(&mut root, "ir");
        let needs = self.table_ids(&mut root, "needs");
        let uses = self.table_ids(&mut root, "uses");
        let libraries = self.libraries(&mut root);
        let process_wide = self.reader.strings(&mut root, "process_wide").unwrap_or_default();
        let executors = self.executors(&mut root);
        self.reader.finish(root);
        Some(Manifest {
            manifest: FORMAT,
            id: id?,
            version: version?,
            vendor: vendor.map(|vendor| vendor.value),
            license: license.map(|license| license.value),
            url: url.map(|url| url.value),
            abi: abi?,
            ir: ir?,
            needs,
            uses,
            libraries,
            process_wide: process_wide.into_iter().map(|item| item.value).collect(),
            executors,
        })
    }

    fn format(&mut self, root: &mut Table<'d>) {
        self.reader.require(root, "manifest");
        if let Some(format) = self.reader.integer(root, "manifest", 1)
            && format.value != FORMAT
        {
            let kind = FaultKind::BadValue {
                found: format.value.to_string(),
                expected: format!("{FORMAT}, the manifest format that this version reads"),
            };
            self.reader.fault(kind, "manifest", format.place);
        }
    }

    /// A required string of a certain form.
    fn pattern(
        &mut self,
        table: &mut Table<'d>,
        key: &'static str,
        expected: &str,
        good: fn(&str) -> bool,
    ) -> Option<String> {
        let text = self.reader.required_string(table, key)?;
        self.reader.check(good(&text.value), &text, expected, table.path_of(key));
        good(&text.value).then_some(text.value)
    }

    fn version(&mut self, table: &mut Table<'d>, key: &'static str) -> Option<Version> {
        let text = self.reader.required_string(table, key)?;
        let version = Version::from_text(&text.value);
        self.reader.check(version.is_some(), &text, "a version such as `1.0`", table.path_of(key));
        version
    }

    fn table_ids(&mut self, table: &mut Table<'d>, key: &'static str) -> Vec<TableId> {
        let mut ids: Vec<TableId> = Vec::new();
        for text in self.reader.strings(table, key).unwrap_or_default() {
            let id = TableId::from_text(&text.value);
            self.reader.check(id.is_some(), &text, "a table id such as `kernel/1`", table.path_of(key));
            ids.extend(id.filter(|id| !ids.contains(id)));
        }
        ids
    }

    fn libraries(&mut self, root: &mut Table<'d>) -> Vec<Library> {
        let mut libraries: Vec<Library> = Vec::new();
        let mut seen = Names::default();
        for mut table in self.reader.tables(root, "libraries") {
            let name = self.reader.required_string(&mut table, "name");
            let version = self.reader.string(&mut table, "version");
            if let Some(name) = name {
                seen.note(&mut self.reader, &name, table.path());
                libraries.push(Library { name: name.value, version: version.map(|version| version.value) });
            }
            self.reader.finish(table);
        }
        libraries
    }

    fn executors(&mut self, root: &mut Table<'d>) -> Vec<ExecutorDecl> {
        self.reader.require(root, "executor");
        let mut seen = Names::default();
        let mut executors = Vec::new();
        for mut table in self.reader.tables(root, "executor") {
            executors.extend(self.executor(&mut table, &mut seen));
            self.reader.finish(table);
        }
        executors
    }

    fn executor(&mut self, table: &mut Table<'d>, seen: &mut Names) -> Option<ExecutorDecl> {
        let name = self.executor_name(table, seen);
        let kind = match self.reader.word(table, "kind", &["op", "fusion"]) {
            Some(word) if word.value == 1 => Kind::Fusion,
            _ => Kind::Op,
        };
        let label = self.label(table);
        let like = self.reader.strings(table, "like").unwrap_or_default();
        let aliases = self.aliases(table, seen);
        let claims = self.claims(table);
        if claims.is_empty() && like.is_empty() {
            let message = "the executor claims nothing: it has neither `claim` nor `like`".to_owned();
            self.warn(FaultKind::NoEffect { message }, table.path().to_owned(), table.place());
        }
        let regions = self.regions(table, kind);
        let options = self.options(table);
        let name = name?;
        Some(ExecutorDecl {
            kind,
            label: label.unwrap_or_else(|| label_from_name(&name)),
            name,
            like: like.into_iter().map(|item| item.value).collect(),
            aliases,
            index: ClaimIndex::new(&claims),
            claims,
            regions,
            options,
        })
    }

    fn executor_name(&mut self, table: &mut Table<'d>, seen: &mut Names) -> Option<String> {
        let name = self.reader.required_string(table, "name")?;
        let good = is_executor_name(&name.value);
        self.reader.check(good, &name, NAME_FORM, table.path_of("name"));
        if name.value == "host" {
            let message = "`host` is the host's own name and cannot be an executor's".to_owned();
            self.reader.fault(FaultKind::OutOfPlace { message }, table.path_of("name"), name.place);
        }
        seen.note(&mut self.reader, &name, table.path());
        good.then_some(name.value)
    }

    fn label(&mut self, table: &mut Table<'d>) -> Option<String> {
        let label = self.reader.string(table, "label")?;
        self.reader.check(is_label(&label.value), &label, LABEL_FORM, table.path_of("label"));
        Some(label.value)
    }

    fn aliases(&mut self, table: &mut Table<'d>, seen: &mut Names) -> Vec<Alias> {
        let mut aliases = Vec::new();
        for mut entry in self.reader.tables(table, "aliases") {
            let name = self.reader.required_string(&mut entry, "name");
            let since = self.reader.string(&mut entry, "since");
            let until = self.reader.string(&mut entry, "until");
            if let Some(name) = name {
                let at = entry.path_of("name");
                self.reader.check(is_executor_name(&name.value), &name, NAME_FORM, at);
                seen.note(&mut self.reader, &name, entry.path());
                let (since, until) = (since.map(|since| since.value), until.map(|until| until.value));
                aliases.push(Alias { name: name.value, since, until });
            }
            self.reader.finish(entry);
        }
        aliases
    }

    fn claims(&mut self, table: &mut Table<'d>) -> Vec<Claim> {
        let mut claims = Vec::new();
        for mut entry in self.reader.tables(table, "claim") {
            let claim = self.claim(&mut entry);
            claims.push(claim);
            self.reader.finish(entry);
        }
        claims
    }

    fn claim(&mut self, table: &mut Table<'d>) -> Claim {
        self.reader.require(table, "ops");
        let ops = self.globs(table, "ops").unwrap_or_default();
        let dtypes = self.dtypes(table);
        let devices = self.reader.strings(table, "devices");
        let ranks = self.ranks(table);
        let layout = match self.reader.word(table, "layout", &["contiguous", "rows", "any"]) {
            Some(Located { value: 0, .. }) => Layout::Contiguous,
            Some(Located { value: 1, .. }) => Layout::Rows,
            _ => Layout::Any,
        };
        let check = self.reader.boolean(table, "check").is_some_and(|check| check.value);
        let devices = devices.map(|devices| devices.into_iter().map(|device| device.value).collect());
        Claim {
            ops,
            dtypes,
            devices: devices.unwrap_or_else(|| vec!["cpu".to_owned()]),
            ranks,
            layout,
            check,
        }
    }

    fn globs(&mut self, table: &mut Table<'d>, key: &'static str) -> Option<Vec<Glob>> {
        let texts = self.reader.strings(table, key)?;
        let mut globs = Vec::with_capacity(texts.len());
        for text in texts {
            let glob = Glob::new(text.value.as_str());
            self.reader.check(glob.is_well_formed(), &text, "an op name or a glob", table.path_of(key));
            globs.push(glob);
        }
        Some(globs)
    }

    fn dtypes(&mut self, table: &mut Table<'d>) -> Option<Vec<String>> {
        let texts = self.reader.strings(table, "dtypes")?;
        for text in &texts {
            if !DTYPES.contains(&text.value.as_str()) {
                let kind = FaultKind::UnknownWord {
                    found: text.value.clone(),
                    nearest: crate::document::nearest(&text.value, DTYPES).map(str::to_owned),
                    valid: DTYPES.iter().map(|dtype| (*dtype).to_owned()).collect(),
                };
                self.warn(kind, table.path_of("dtypes"), text.place);
            }
        }
        Some(texts.into_iter().map(|text| text.value).collect())
    }

    fn ranks(&mut self, table: &mut Table<'d>) -> Option<(u32, u32)> {
        let list = self.reader.list(table, "ranks")?;
        let plain: Vec<_> = list.value.iter().map(Value::scalar_or_list).collect();
        if let [Some(Plain::Int(lowest)), Some(Plain::Int(highest))] = plain[..]
            && let (Ok(lowest), Ok(highest)) = (u32::try_from(lowest), u32::try_from(highest))
            && lowest <= highest
        {
            return Some((lowest, highest));
        }
        let found = plain.into_iter().map(|item| item.map_or("…".to_owned(), |item| item.to_string()));
        let found = format!("[{}]", found.collect::<Vec<_>>().join(", "));
        let expected = "the lowest and the highest number of dims, as [2, 4]".to_owned();
        self.reader.fault(FaultKind::BadValue { found, expected }, table.path_of("ranks"), list.place);
        None
    }

    fn regions(&mut self, table: &mut Table<'d>, kind: Kind) -> Option<RegionRules> {
        let mut entry = self.reader.table(table, "regions")?;
        if kind == Kind::Op {
            let message = "`regions` belongs to executors of kind `fusion`; this one is `op`".to_owned();
            self.reader.fault(FaultKind::OutOfPlace { message }, entry.path().to_owned(), entry.place());
        }
        let rules = read_region_rules(&mut self.reader, &mut entry);
        self.reader.finish(entry);
        Some(rules)
    }

    fn options(&mut self, table: &mut Table<'d>) -> BTreeMap<String, OptionDecl> {
        let mut options = BTreeMap::new();
        let Some(table) = self.reader.table(table, "option") else { return options };
        let mut seen = Names::default();
        for (name, mut entry) in self.reader.sub_tables(&table) {
            let good = is_executor_name(&name.value);
            self.reader.check(good, &name, NAME_FORM, entry.path().to_owned());
            seen.note(&mut self.reader, &name, entry.path());
            if let Some(option) = self.option(&mut entry, &mut seen) {
                options.insert(name.value, option);
            }
            self.reader.finish(entry);
        }
        options
    }

    fn option(&mut self, table: &mut Table<'d>, seen: &mut Names) -> Option<OptionDecl> {
        self.reader.require(table, "type");
        let kind =
            self.reader.word(table, "type", &OptionKind::WORDS).map(|word| OptionKind::ALL[word.value]);
        let default = self.reader.value(table, "default");
        let min = self.reader.value(table, "min");
        let max = self.reader.value(table, "max");
        let doc = self.reader.string(table, "doc").map(|doc| doc.value).unwrap_or_default();
        let aliases = self.aliases(table, seen);
        let kind = kind?;
        let min = min.and_then(|min| self.bound(table, kind, "min", min));
        let max = max.and_then(|max| self.bound(table, kind, "max", max));
        let mut option = OptionDecl { kind, default: kind.zero(), min, max, doc, aliases };
        if let Some(value) = default {
            option.default = self.default(table, &option, value)?;
        }
        Some(option)
    }

    fn bound(&mut self, table: &Table<'d>, kind: OptionKind, key: &str, value: Value<'d>) -> Option<Plain> {
        let plain = value.scalar_or_list();
        match (kind, plain) {
            (OptionKind::Int, Some(Plain::Int(int))) => Some(Plain::Int(int)),
            (OptionKind::Float, Some(Plain::Float(float))) => Some(Plain::Float(float)),
            (OptionKind::Float, Some(Plain::Int(int))) => Some(Plain::Float(int as f64)),
            (OptionKind::Int | OptionKind::Float, _) => {
                let wrong = FaultKind::WrongType { found: value.type_name(), expected: kind.described() };
                self.reader.fault(wrong, table.path_of(key), value.place());
                None
            }
            _ => {
                let message = format!("`{key}` bounds numbers; this option is of type `{kind}`");
                self.reader.fault(FaultKind::OutOfPlace { message }, table.path_of(key), value.place());
                None
            }
        }
    }

    fn default(&mut self, table: &Table<'d>, option: &OptionDecl, value: Value<'d>) -> Option<Plain> {
        let at = table.path_of("default");
        let Some(plain) = value.scalar_or_list() else {
            let expected = option.kind.described();
            self.reader.fault(FaultKind::WrongType { found: value.type_name(), expected }, at, value.place());
            return None;
        };
        let found = plain.to_string();
        match option.accept(plain) {
            Ok(default) => Some(default),
            Err(mismatch) => {
                let kind = FaultKind::BadValue { found, expected: mismatch.to_string() };
                self.reader.fault(kind, at, value.place());
                None
            }
        }
    }

    fn warn(&mut self, kind: FaultKind, at: String, place: Place) {
        self.warnings.push(Fault { kind, at, place });
    }
}

/// Reads `needs_any`, `min_ops` and `max_ops`: the same keys in manifests and configs. The caller finishes the
/// table.
pub fn read_region_rules<'d>(reader: &mut Reader<'d>, table: &mut Table<'d>) -> RegionRules {
    let needs_any = reader.strings(table, "needs_any").map(|texts| {
        let mut globs = Vec::with_capacity(texts.len());
        for text in texts {
            let glob = Glob::new(text.value.as_str());
            reader.check(glob.is_well_formed(), &text, "an op name or a glob", table.path_of("needs_any"));
            globs.push(glob);
        }
        globs
    });
    let min_ops = reader.integer(table, "min_ops", 0);
    let max_ops = reader.integer(table, "max_ops", 1);
    if let (Some(min), Some(max)) = (&min_ops, &max_ops)
        && min.value > max.value
    {
        let (found, expected) = (max.value.to_string(), format!("at least `min_ops`, {}", min.value));
        reader.fault(FaultKind::BadValue { found, expected }, table.path_of("max_ops"), max.place);
    }
    let count = |ops: Located<i64>| ops.value.unsigned_abs();
    RegionRules { needs_any, min_ops: min_ops.map(count), max_ops: max_ops.map(count) }
}

/// Names that must differ, with the place of the first.
#[derive(Default)]
struct Names {
    seen: Vec<(String, Place)>,
}

impl Names {
    fn note(&mut self, reader: &mut Reader<'_>, name: &Located<String>, at: &str) {
        match self.seen.iter().find(|(seen, _)| *seen == name.value) {
            Some((_, first)) => {
                let kind = FaultKind::Duplicate { name: name.value.clone(), first: *first };
                reader.fault(kind, at, name.place);
            }
            None => self.seen.push((name.value.clone(), name.place)),
        }
    }
}

const NAME_FORM: &str = "a lower-case letter, then lower-case letters, digits and underscores";
const LABEL_FORM: &str = "a capital letter, then letters";

/// Whether the text can be a plugin's id.
pub fn is_plugin_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Whether the text can name an executor or an option.
pub fn is_executor_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Whether the text can be the label of an executor's regions: no digits, since a counter follows.
pub fn is_label(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase()) && text.bytes().all(|b| b.is_ascii_alphabetic())
}

/// `1.2`, `1.2.3`, `1.2.3-rc1`.
fn is_release(text: &str) -> bool {
    let (numbers, rest) = match text.find(['-', '+']) {
        Some(i) => (&text[..i], &text[i + 1..]),
        None => (text, "0"),
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    (2..=4).contains(&numbers.split('.').count())
        && numbers.split('.').all(digits)
        && !rest.is_empty()
        && rest.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+'))
}

/// `full_fusion` becomes `FullFusion`. Digits cannot stand in a label and are left out.
fn label_from_name(name: &str) -> String {
    let capital = |word: &str| {
        let letters: String = word.chars().filter(char::is_ascii_alphabetic).collect();
        let mut chars = letters.chars();
        chars.next().map(|first| first.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
    };
    name.split('_').map(capital).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole of a manifest: every key once.
    const WHOLE: &str = r#"
manifest = 1
id = "acme-blas"
version = "0.3.1"
vendor = "Acme"
license = "MIT"
url = "https://acme.example/blas"
abi = "1.0"
ir = "1"
needs = ["executor/1", "kernel/1"]
uses = ["bind/1"]
libraries = [{ name = "libtorch", version = "2.13.0" }]
process_wide = ["libtorch threads"]

[[executor]]
name = "acme_blas"
kind = "fusion"
label = "AcmeBlas"
like = ["pytorch"]
aliases = [{ name = "acme", since = "0.3", until = "1.0" }]

[[executor.claim]]
ops = ["torch.linear", "torch.matmul", "aten.special_*"]
dtypes = ["f32", "bf16"]
devices = ["cpu"]
ranks = [2, 4]
layout = "contiguous"
check = true

[executor.regions]
needs_any = ["torch.cat", "prims.cat"]
min_ops = 2
max_ops = 10000

[executor.option.threads]
type = "int"
default = -0x1
min = -1
max = 512
doc = "0: as many as the host"

[[executor]]
name = "second"
like = ["acme_blas"]
option.scale = { type = "float", default = 2, max = 3.5 }
"#;

    #[test]
    fn a_whole_manifest_is_understood() {
        let (manifest, warnings) = Manifest::parse(&WHOLE.replace("-0x1", "-1")).expect("a good manifest");
        assert_eq!(warnings, []);
        assert_eq!(manifest.abi.to_string(), "1.0");
        assert_eq!(manifest.needs[1].to_string(), "kernel/1");
        assert_eq!(manifest.libraries[0].version.as_deref(), Some("2.13.0"));
        let acme = manifest.executor("acme_blas").expect("declared");
        assert_eq!((acme.kind, acme.label.as_str()), (Kind::Fusion, "AcmeBlas"));
        assert_eq!(acme.aliases[0].until.as_deref(), Some("1.0"));
        assert_eq!(acme.claims[0].ranks, Some((2, 4)));
        assert_eq!(acme.claims[0].layout, Layout::Contiguous);
        assert!(acme.claims[0].check);
        assert_eq!(acme.regions.as_ref().expect("declared").max_ops, Some(10000));
        assert_eq!(acme.options["threads"].default, Plain::Int(-1));
        let second = manifest.executor("second").expect("declared");
        assert_eq!((second.kind, second.label.as_str()), (Kind::Op, "Second"));
        assert_eq!(second.options["scale"].default, Plain::Float(2.0));
    }

    /// Parses and prints all errors, one a line.
    fn errors(text: &str) -> String {
        match Manifest::parse(text) {
            Ok((_, warnings)) => warnings.iter().map(|w| format!("warning: {w}\n")).collect(),
            Err(errors) => format!("{errors}\n"),
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = errors(text);
        assert_eq!(found.trim(), expected.trim(), "\n{found}");
    }

    #[test]
    fn all_faults_are_reported_in_source_order() {
        check(
            r#"
manifest = 2
id = "Acme"
version = "new"
abi = "one"
needs = ["kernel"]
[[executor]]
name = "host"
kind = "fuse"
[[executor.claim]]
opps = ["a"]
ranks = [4, 2]
check = "yes"
[executor.regions]
min_ops = 3
max_ops = 2
[executor.option.threads]
type = "int"
default = 9
max = 8
[executor.option.name]
type = "string"
min = 3
[[executor]]
name = "x y"
claim = 3
"#,
            "
1:1: `ir` is missing
2:12: manifest: found `2`, expected 1, the manifest format that this version reads
3:6: id: found `Acme`, expected lower-case letters, digits and dashes
4:11: version: found `new`, expected a version such as `0.3.1`
5:7: abi: found `one`, expected a version such as `1.0`
6:10: needs: found `kernel`, expected a table id such as `kernel/1`
8:8: executor[0].name: `host` is the host's own name and cannot be an executor's
9:8: executor[0].kind: found `fuse`, expected `op` or `fusion`
10:1: executor[0].claim[0]: `ops` is missing
12:9: executor[0].claim[0].ranks: found `[4, 2]`, expected the lowest and the highest number of dims, as [2, 4]
13:9: executor[0].claim[0].check: found a string, expected true or false
14:1: executor[0].regions: `regions` belongs to executors of kind `fusion`; this one is `op`
16:11: executor[0].regions.max_ops: found `2`, expected at least `min_ops`, 3
19:11: executor[0].option.threads.default: found `9`, expected at most 8
23:7: executor[0].option.name.min: `min` bounds numbers; this option is of type `string`
25:8: executor[1].name: found `x y`, expected a lower-case letter, then lower-case letters, digits and underscores
26:9: executor[1].claim: found an integer, expected a list
",
        );
    }

    const HEAD: &str = "manifest = 1\nid = 'x'\nversion = '1.0'\nabi = '0.1'\nir = '1'\n";

    #[test]
    fn what_a_newer_sdk_may_know_is_a_warning() {
        let text = format!(
            "{HEAD}licence = 'MIT'\n[[executor]]\nname = 'x'\nclaim = [{{ ops = ['a'], dtypes = ['f4'] }}]\n[extra]\n"
        );
        check(
            &text,
            "
warning: 6:1: unknown key `licence` (did you mean `license`?)
warning: 9:35: executor[0].claim[0].dtypes: found `f4`, expected `bool`, `u8`, `u16`, `u32`, `u64`, `i8`, `i16`, `i32`, `i64`, `f16`, `bf16`, `f32`, `f64`, `c64`, `c128`, `f8e4m3fn`, `f8e5m2`, `f8e4m3fnuz`, `f8e5m2fnuz` or `f8e8m0fnu` (did you mean `f64`?)
warning: 10:2: unknown key `extra` (valid here: `manifest`, `id`, `version`, `vendor`, `license`, `url`, `abi`, `ir`, `needs`, `uses`, `libraries`, `process_wide` or `executor`)
",
        );
    }

    #[test]
    fn names_stand_once() {
        let text = format!(
            "{HEAD}[[executor]]\nname = 'x'\nlike = ['y']\naliases = [{{ name = 'z' }}]\n[[executor]]\nname = 'z'\nlike = ['y']\n"
        );
        check(&text, "11:8: executor[1]: `z` stands twice, first at 9:21");
    }

    #[test]
    fn an_executor_that_claims_nothing_is_said() {
        let text = format!("{HEAD}[[executor]]\nname = 'x'\n");
        check(
            &text,
            "warning: 6:1: executor[0]: the executor claims nothing: it has neither `claim` nor `like`",
        );
    }

    #[test]
    fn no_executor_is_an_error() {
        check(HEAD, "1:1: `executor` is missing");
    }

    #[test]
    fn text_that_is_not_toml_is_an_error_with_its_place() {
        let head = HEAD.replace("'1.0'", "");
        check(
            &format!("{head}[[executor]]\nname = 'x'\nname = 'y'\n"),
            "3:11: string values must be quoted, expected literal string\n8:1: duplicate key",
        );
    }

    #[test]
    fn releases() {
        for good in ["0.1", "1.2.3", "2.0.0-rc.1", "1.2.3+local"] {
            assert!(is_release(good), "{good}");
        }
        for bad in ["", "1", "1.", "v1.2", "1.2-", "1.2.3.4.5"] {
            assert!(!is_release(bad), "{bad}");
        }
    }
}
