//! A TOML document read key by key, with every fault collected and placed.
//!
//! The manifest and the host's config are read with it. Invariants: a fault never stops the reading, so that
//! one look reports all of them; the keys that reading code asks for *are* the list of valid keys, so that no
//! second list can drift; faults come out in source order. What a key means is not known here.

use std::fmt;
use std::ops::Range;

use serde::Serialize;
use toml::de::{DeTable, DeValue};

/// Where something stands in the text. Lines and columns count from 1, columns in characters; `start` and
/// `end` are byte offsets, for those who draw the source line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    pub start: usize,
    pub end: usize,
    pub line: u32,
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and where it was typed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Located<T> {
    pub value: T,
    pub place: Place,
}

impl<T> Located<T> {
    /// The same place with another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Located<U> {
        Located { value: f(self.value), place: self.place }
    }
}

/// What is wrong at one place of a document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fault {
    pub kind: FaultKind,
    /// The dotted path of the key or table meant, as `executor[1].option.threads`; empty for the document.
    pub at: String,
    pub place: Place,
}

/// The kinds of faults a document can have. The message says what was found and what was expected.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub enum FaultKind {
    /// Not TOML: the parser's own message.
    Syntax { message: String },
    /// A key that nobody reads.
    UnknownKey { key: String, nearest: Option<String>, valid: Vec<String> },
    /// A key that must be there.
    MissingKey { key: String },
    /// A value of another type.
    WrongType { found: &'static str, expected: &'static str },
    /// A value of the right type that cannot be taken.
    BadValue { found: String, expected: String },
    /// A word that is not one of the few allowed.
    UnknownWord { found: String, nearest: Option<String>, valid: Vec<String> },
    /// A name given twice.
    Duplicate { name: String, first: Place },
    /// A whole section that cannot stand where it stands.
    OutOfPlace { message: String },
    /// Nothing wrong with the form, but it can have no effect.
    NoEffect { message: String },
}

impl FaultKind {
    /// The last part of the fault's code, as in `manifest::unknown_key`. Never reused for something else.
    pub fn code(&self) -> &'static str {
        match self {
            FaultKind::Syntax { .. } => "syntax",
            FaultKind::UnknownKey { .. } => "unknown_key",
            FaultKind::MissingKey { .. } => "missing_key",
            FaultKind::WrongType { .. } => "wrong_type",
            FaultKind::BadValue { .. } => "bad_value",
            FaultKind::UnknownWord { .. } => "unknown_word",
            FaultKind::Duplicate { .. } => "duplicate",
            FaultKind::OutOfPlace { .. } => "out_of_place",
            FaultKind::NoEffect { .. } => "no_effect",
        }
    }

    /// What to do about it, where there is something better to say than the message.
    pub fn help(&self) -> Option<String> {
        match self {
            FaultKind::UnknownKey { nearest: Some(name), .. }
            | FaultKind::UnknownWord { nearest: Some(name), .. } => Some(format!("did you mean `{name}`?")),
            FaultKind::UnknownKey { valid, .. } if !valid.is_empty() => {
                Some(format!("valid here: {}", one_of(valid)))
            }
            _ => None,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Syntax { message } => f.write_str(message),
            FaultKind::UnknownKey { key, .. } => write!(f, "unknown key `{key}`"),
            FaultKind::MissingKey { key } => write!(f, "`{key}` is missing"),
            FaultKind::WrongType { found, expected } => write!(f, "found {found}, expected {expected}"),
            FaultKind::BadValue { found, expected } => write!(f, "found `{found}`, expected {expected}"),
            FaultKind::UnknownWord { found, valid, .. } => {
                write!(f, "found `{found}`, expected {}", one_of(valid))
            }
            FaultKind::Duplicate { name, first } => write!(f, "`{name}` stands twice, first at {first}"),
            FaultKind::OutOfPlace { message } | FaultKind::NoEffect { message } => f.write_str(message),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        write!(f, "{}", self.kind)?;
        match self.kind.help() {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

/// The valid name nearest to what was typed, if one is near enough to be meant.
pub fn nearest<'n>(typed: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let typed_low = typed.to_lowercase();
    names
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&typed_low, &name.to_lowercase()), name))
        // Of equally near ones the one that begins alike: `mull` is rather `mul` than `full`.
        .min_by_key(|(distance, name)| (*distance, std::cmp::Reverse(alike(&typed_low, name))))
        // A third of the letters may differ, and at least one: `sdp` finds `sdpa`, `foo` finds nothing.
        .filter(|(distance, name)| *distance <= (name.len().max(typed.len()) / 3).max(1))
        .map(|(_, name)| name)
}

/// How many characters two texts begin with alike.
fn alike(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

/// "`a`, `b` or `c`".
pub fn one_of(names: &[String]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [only] => format!("`{only}`"),
        [head @ .., last] => {
            let head: Vec<String> = head.iter().map(|name| format!("`{name}`")).collect();
            format!("{} or `{last}`", head.join(", "))
        }
    }
}

/// Turns byte offsets into lines and columns.
#[derive(Clone, Debug)]
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        Lines { text, starts }
    }

    fn place(&self, span: Range<usize>) -> Place {
        let start = span.start.min(self.text.len());
        let end = span.end.clamp(start, self.text.len());
        let line_idx = self.starts.partition_point(|&s| s <= start) - 1;
        let before = self.text.get(self.starts[line_idx]..start).unwrap_or("");
        Place { start, end, line: line_idx as u32 + 1, column: before.chars().count() as u32 + 1 }
    }
}

/// A parsed document. Keep it alive while a [`Reader`] walks it.
pub struct Document<'t> {
    root: toml::Spanned<DeTable<'t>>,
    lines: Lines<'t>,
    syntax: Vec<Fault>,
}

impl<'t> Document<'t> {
    /// Parses as much as can be parsed; what cannot becomes `Syntax` faults of the reader.
    pub fn parse(text: &'t str) -> Self {
        let lines = Lines::new(text);
        let (root, errors) = DeTable::parse_recoverable(text);
        let syntax = errors
            .iter()
            .map(|error| Fault {
                kind: FaultKind::Syntax { message: error.message().to_owned() },
                at: String::new(),
                place: lines.place(error.span().unwrap_or(0..0)),
            })
            .collect();
        Document { root, lines, syntax }
    }

    /// A reader at the root table.
    pub fn reader(&self) -> (Reader<'_>, Table<'_>) {
        let faults = self.syntax.clone();
        let reader = Reader { lines: &self.lines, faults, unknown: Vec::new(), asked: Vec::new() };
        let place = self.lines.place(0..0);
        (reader, Table { map: self.root.get_ref(), path: String::new(), place, asked: Vec::new() })
    }
}

/// A value as it stands in the document.
#[derive(Clone, Copy)]
pub struct Value<'d> {
    value: &'d DeValue<'d>,
    place: Place,
}

impl Value<'_> {
    /// Where the value stands.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The name of the value's type, as messages say it.
    pub fn type_name(&self) -> &'static str {
        match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        }
    }

    /// The value as plain data; `None` for dates and tables, and for integers beyond 64 bits.
    pub fn scalar_or_list(&self) -> Option<Plain> {
        Plain::from_toml(self.value)
    }

    fn as_int(&self) -> Option<i64> {
        match self.value {
            DeValue::Integer(int) => i64::from_str_radix(int.as_str(), int.radix()).ok(),
            _ => None,
        }
    }
}

/// Plain data: what options are made of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Plain {
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    List(Vec<Plain>),
}

impl Plain {
    fn from_toml(value: &DeValue<'_>) -> Option<Plain> {
        Some(match value {
            DeValue::Boolean(value) => Plain::Bool(*value),
            DeValue::Integer(int) => Plain::Int(i64::from_str_radix(int.as_str(), int.radix()).ok()?),
            DeValue::Float(float) => Plain::Float(float.as_str().parse().ok()?),
            DeValue::String(text) => Plain::Str(text.to_string()),
            DeValue::Array(items) => {
                Plain::List(items.iter().map(|item| Plain::from_toml(item.get_ref())).collect::<Option<_>>()?)
            }
            DeValue::Datetime(_) | DeValue::Table(_) => return None,
        })
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plain::Bool(value) => write!(f, "{value}"),
            Plain::Int(value) => write!(f, "{value}"),
            // `{:?}` keeps the point of a whole float: `1.0` and `1` are different values.
            Plain::Float(value) => write!(f, "{value:?}"),
            Plain::Str(value) => write!(f, "{value:?}"),
            Plain::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
        }
    }
}

/// One table while it is read. It remembers what was asked for; [`Reader::finish`] reports the rest.
pub struct Table<'d> {
    map: &'d DeTable<'d>,
    path: String,
    place: Place,
    asked: Vec<&'static str>,
}

impl Table<'_> {
    /// Where the table begins.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The dotted path of a key in this table.
    pub fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The dotted path of the table itself.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Walks a document and collects faults.
pub struct Reader<'d> {
    lines: &'d Lines<'d>,
    faults: Vec<Fault>,
    unknown: Vec<Fault>,
    asked: Vec<String>,
}

impl<'d> Reader<'d> {
    /// Notes a fault.
    pub fn fault(&mut self, kind: FaultKind, at: impl Into<String>, place: Place) {
        self.faults.push(Fault { kind, at: at.into(), place });
    }

    /// The value of a key, whatever its type.
    pub fn value(&mut self, table: &mut Table<'d>, key: &'static str) -> Option<Value<'d>> {
        table.asked.push(key);
        self.asked.push(table.path_of(key));
        let value = table.map.get(key)?;
        Some(Value { value: value.get_ref(), place: self.lines.place(value.span()) })
    }

    fn wrong<T>(
        &mut self,
        table: &Table<'d>,
        key: &str,
        value: Value<'d>,
        expected: &'static str,
    ) -> Option<T> {
        let kind = FaultKind::WrongType { found: value.type_name(), expected };
        self.fault(kind, table.path_of(key), value.place);
        None
    }

    /// The dotted paths of all keys asked for so far, whether they are there or not.
    pub fn asked(&self) -> &[String] {
        &self.asked
    }

    /// A string, if the key is there.
    pub fn string(&mut self, table: &mut Table<'d>, key: &'static str) -> Option<Located<String>> {
        let value = self.value(table, key)?;
        match value.value {
            DeValue::String(text) => Some(Located { value: text.to_string(), place: value.place }),
            _ => self.wrong(table, key, value, "a string"),
        }
    }

    /// A string that must be there.
    pub fn required_string(&mut self, table: &mut Table<'d>, key: &'static str) -> Option<Located<String>> {
        self.require(table, key);
        self.string(table, key)
    }

    /// Notes a fault if the key is absent.
    pub fn require(&mut self, table: &Table<'d>, key: &'static str) {
        if !table.map.contains_key(key) {
            self.fault(FaultKind::MissingKey { key: key.to_owned() }, table.path.clone(), table.place);
        }
    }

    /// A boolean, if the key is there.
    pub fn boolean(&mut self, table: &mut Table<'d>, key: &'static str) -> Option<Located<bool>> {
        let value = self.value(table, key)?;
        match value.value {
            DeValue::Boolean(flag) => Some(Located { value: *flag, place: value.place }),
            _ => self.wrong(table, key, value, "true or false"),
        }
    }

    /// An integer of at least `min`, if the key is there.
    pub fn integer(&mut self, table: &mut Table<'d>, key: &'static str, min: i64) -> Option<Located<i64>> {
        let value = self.value(table, key)?;
        match value.as_int() {
            Some(int) if int >= min => Some(Located { value: int, place: value.place }),
            Some(int) => {
                let kind = FaultKind::BadValue {
                    found: int.to_string(),
                    expected: format!("an integer from {min} on"),
                };
                self.fault(kind, table.path_of(key), value.place);
                None
            }
            None => self.wrong(table, key, value, "an integer"),
        }
    }

    /// A list, if the key is there.
    pub fn list(&mut self, table: &mut Table<'d>, key: &'static str) -> Option<Located<Vec<Value<'d>>>> {
        let value = self.value(table, key)?;
        match value.value {
            DeValue::Array(items) => {
                let items = items
                    .iter()
                    .map(|item| Value { value: item.get_ref(), place: self.lines.place(item.span()) })
                    .collect();
                Some(Located { value: items, place: value.place })
            }
            _ => self.wrong(table, key, value, "a list"),
        }
    }

    /// A list of strings, if the key is there. Items of another type are faults and left out.
    pub fn strings(&mut self, table: &mut Table<'d>, key: &'static str) -> Option<Vec<Located<String>>> {
        let items = self.list(table, key)?;
        let mut out = Vec::with_capacity(items.value.len());
        for (i, item) in items.value.into_iter().enumerate() {
            match item.value {
                DeValue::String(text) => out.push(Located { value: text.to_string(), place: item.place }),
                _ => {
                    let kind = FaultKind::WrongType { found: item.type_name(), expected: "a string" };
                    self.fault(kind, format!("{}[{i}]", table.path_of(key)), item.place);
                }
            }
        }
        Some(out)
    }

    /// A table, if the key is there.
    pub fn table(&mut self, table: &mut Table<'d>, key: &'static str) -> Option<Table<'d>> {
        let value = self.value(table, key)?;
        match value.value {
            DeValue::Table(map) => {
                Some(Table { map, path: table.path_of(key), place: value.place, asked: Vec::new() })
            }
            _ => self.wrong(table, key, value, "a table"),
        }
    }

    /// A list of tables (`[[key]]`, or inline); empty if the key is absent.
    pub fn tables(&mut self, table: &mut Table<'d>, key: &'static str) -> Vec<Table<'d>> {
        let Some(items) = self.list(table, key) else { return Vec::new() };
        let mut out = Vec::with_capacity(items.value.len());
        for (i, item) in items.value.into_iter().enumerate() {
            let path = format!("{}[{i}]", table.path_of(key));
            match item.value {
                DeValue::Table(map) => out.push(Table { map, path, place: item.place, asked: Vec::new() }),
                _ => {
                    let kind = FaultKind::WrongType { found: item.type_name(), expected: "a table" };
                    self.fault(kind, path, item.place);
                }
            }
        }
        out
    }

    /// All entries of a table whose keys are the author's own, in source order.
    pub fn entries(&mut self, table: &Table<'d>) -> Vec<(Located<String>, Value<'d>)> {
        let mut out: Vec<_> = table
            .map
            .iter()
            .map(|(key, value)| {
                let name = Located { value: key.get_ref().to_string(), place: self.lines.place(key.span()) };
                (name, Value { value: value.get_ref(), place: self.lines.place(value.span()) })
            })
            .collect();
        out.sort_by_key(|(name, _)| name.place);
        out
    }

    /// All entries of a table whose keys are the author's own and whose values are tables.
    pub fn sub_tables(&mut self, table: &Table<'d>) -> Vec<(Located<String>, Table<'d>)> {
        let mut out = Vec::new();
        for (name, value) in self.entries(table) {
            let path = table.path_of(&name.value);
            match value.value {
                DeValue::Table(map) => {
                    let place = name.place;
                    out.push((name, Table { map, path, place, asked: Vec::new() }));
                }
                _ => {
                    let kind = FaultKind::WrongType { found: value.type_name(), expected: "a table" };
                    self.fault(kind, path, value.place);
                }
            }
        }
        out
    }

    /// A string that must be one of a few words; the word's index in `words`.
    pub fn word(
        &mut self,
        table: &mut Table<'d>,
        key: &'static str,
        words: &[&str],
    ) -> Option<Located<usize>> {
        let typed = self.string(table, key)?;
        match words.iter().position(|word| *word == typed.value) {
            Some(i) => Some(typed.map(|_| i)),
            None => {
                let kind = FaultKind::UnknownWord {
                    nearest: nearest(&typed.value, words.iter().copied()).map(str::to_owned),
                    found: typed.value,
                    valid: words.iter().map(|word| (*word).to_owned()).collect(),
                };
                self.fault(kind, table.path_of(key), typed.place);
                None
            }
        }
    }

    /// Notes a `BadValue` unless `good`.
    pub fn check(&mut self, good: bool, found: &Located<String>, expected: &str, at: String) {
        if !good {
            let kind = FaultKind::BadValue { found: found.value.clone(), expected: expected.to_owned() };
            self.fault(kind, at, found.place);
        }
    }

    /// Notes every key of the table that nobody asked for.
    pub fn finish(&mut self, table: Table<'d>) {
        for (name, _) in self.entries(&table) {
            if table.asked.contains(&name.value.as_str()) {
                continue;
            }
            let kind = FaultKind::UnknownKey {
                nearest: nearest(&name.value, table.asked.iter().copied()).map(str::to_owned),
                key: name.value,
                valid: table.asked.iter().map(|key| (*key).to_owned()).collect(),
            };
            self.unknown.push(Fault { kind, at: table.path.clone(), place: name.place });
        }
    }

    /// Faults, and unknown keys apart from them (whether those are faults is the caller's to say), each in
    /// source order. Where the text is not TOML, what only follows from that is left out: other faults of the
    /// same line, and keys that are missing.
    pub fn into_faults(self) -> (Vec<Fault>, Vec<Fault>) {
        let (mut faults, mut unknown) = (self.faults, self.unknown);
        let is_syntax = |fault: &Fault| matches!(fault.kind, FaultKind::Syntax { .. });
        let broken: Vec<u32> = faults.iter().filter(|f| is_syntax(f)).map(|f| f.place.line).collect();
        if !broken.is_empty() {
            let missing = |fault: &Fault| matches!(fault.kind, FaultKind::MissingKey { .. });
            faults.retain(|f| is_syntax(f) || !(missing(f) || broken.contains(&f.place.line)));
        }
        faults.sort_by_key(|fault| fault.place);
        faults.dedup();
        unknown.sort_by_key(|fault| fault.place);
        (faults, unknown)
    }
}
