//! ATen's own schemas, all of them, built in: what an overload takes, what its defaults are, what it writes and what
//! its results may alias.
//!
//! From `aten-all.tsv` beside this file (PyTorch 2.13: overload, has a CPU kernel, tags, schema). A line is parsed when
//! its overload is asked for, and once. Deliberately not here: what an op of the table does with it.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use crate::ir::schema::DtypeClass;
use crate::ir::{Arg, Param, ParamBase, ParamType, Schema};

static LINES: &str = include_str!("aten-all.tsv");

/// One overload.
#[derive(Clone, Debug, PartialEq)]
pub struct AtenSchema {
    /// `add.Tensor`.
    pub overload: &'static str,
    /// Parameters in order.
    pub params: Vec<AtenParam>,
    /// Results in order.
    pub returns: Vec<AtenReturn>,
    /// Draws random numbers from PyTorch's generator.
    pub random: bool,
    /// PyTorch has a CPU kernel or a decomposition for it.
    pub has_cpu_kernel: bool,
    /// Changes sizes and strides only (`t_`, `squeeze_`), though the schema says that it writes.
    pub metadata_only: bool,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct AtenParam {
    /// ATen's name.
    pub name: &'static str,
    /// What it takes.
    pub ty: AtenType,
    /// Which memory it shares, and whether it is written.
    pub alias: Option<Alias>,
    /// What a call that does not give it means.
    pub default: Option<Arg>,
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct AtenReturn {
    /// What it is.
    pub ty: AtenType,
    /// Which argument's memory it shares.
    pub alias: Option<Alias>,
}

/// An alias set: `(a)`, `(a!)`, `(a -> *)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The set's letter.
    pub set: char,
    /// The memory is written.
    pub writes: bool,
}

/// A type of ATen's: a base, perhaps in a list, perhaps absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtenType {
    /// Of one element.
    pub base: AtenBase,
    /// Is it a list?
    pub list: ListKind,
    /// May it be absent?
    pub optional: bool,
    /// May elements of the list be absent (`Tensor?[]`)?
    pub gaps: bool,
}

/// Whether a type is a list, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// One value.
    No,
    /// A list of any length.
    Any,
    /// A list of this length; one value alone stands for all.
    Of(u32),
}

/// What ATen's schemas know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtenBase {
    /// A tensor (or a number in its place).
    Tensor,
    /// A number of any kind.
    Scalar,
    /// An integer; sizes included.
    Int,
    /// A float.
    Float,
    /// A bool.
    Bool,
    /// Text.
    Str,
    /// A dtype.
    Dtype,
    /// A device.
    Device,
    /// Memory format, layout, generator, stream, storage: carries nothing here.
    Other,
}

impl AtenParam {
    /// Is its memory written?
    pub fn writes(&self) -> bool {
        self.alias.is_some_and(|alias| alias.writes)
    }
}

impl AtenSchema {
    /// Does it write any of its arguments' memory?
    pub fn writes(&self) -> bool {
        self.params.iter().any(AtenParam::writes)
    }

    /// As a schema of the trace format, for opaque symbols: every parameter under its own name, results as text.
    pub fn to_ir(&self) -> Schema {
        let params = self
            .params
            .iter()
            .map(|p| Param { name: p.name.into(), ty: p.ty.to_ir(), default: p.default.clone() })
            .collect();
        Schema { params, result: "Tensor".to_owned(), variadic: false }
    }
}

impl AtenType {
    fn to_ir(self) -> ParamType {
        let dtypes = DtypeClass::default();
        let any_of = match (self.base, self.list) {
            (AtenBase::Tensor, ListKind::No) => vec![ParamBase::Tensor(dtypes), ParamBase::Num],
            (AtenBase::Tensor, _) => vec![ParamBase::Tensors { class: dtypes, gaps: self.gaps }],
            (AtenBase::Int, ListKind::No) => vec![ParamBase::Dim],
            (AtenBase::Int, _) => vec![ParamBase::Dims],
            (AtenBase::Scalar | AtenBase::Float, ListKind::No) => vec![ParamBase::Num],
            (AtenBase::Scalar | AtenBase::Float, _) => vec![ParamBase::Nums],
            (AtenBase::Bool, ListKind::No) => vec![ParamBase::Bool],
            (AtenBase::Bool, _) => vec![ParamBase::Lists],
            (AtenBase::Str, _) => vec![ParamBase::Str(Vec::new())],
            (AtenBase::Dtype, _) => vec![ParamBase::Dtype],
            (AtenBase::Device, _) => vec![ParamBase::Device],
            (AtenBase::Other, _) => vec![ParamBase::Any],
        };
        // What carries nothing is never given, so it must be allowed to be absent.
        ParamType { any_of, optional: self.optional || self.base == AtenBase::Other }
    }
}

/// The schema of an overload (`add.Tensor`), if ATen has it.
pub fn aten_schema(overload: &str) -> Option<&'static AtenSchema> {
    let entry = entries().get(overload)?;
    entry.parsed.get_or_init(|| parse_line(entry.line)).as_ref().map(|both| &both.0)
}

/// The trace-format schema of an opaque symbol `aten.<overload>`, given its overload.
pub fn opaque_schema(overload: &str) -> Option<&'static Schema> {
    let entry = entries().get(overload)?;
    entry.parsed.get_or_init(|| parse_line(entry.line)).as_ref().map(|both| &both.1)
}

/// Every overload there is.
pub fn aten_overloads() -> impl Iterator<Item = &'static str> {
    entries().keys().copied()
}

struct Entry {
    line: &'static str,
    parsed: OnceLock<Option<(AtenSchema, Schema)>>,
}

fn entries() -> &'static FxHashMap<&'static str, Entry> {
    static ENTRIES: OnceLock<FxHashMap<&'static str, Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let lines = LINES.lines().skip(1);
        lines
            .filter_map(|line| Some((line.split_once('\t')?.0, Entry { line, parsed: OnceLock::new() })))
            .collect()
    })
}

fn parse_line(line: &'static str) -> Option<(AtenSchema, Schema)> {
    let mut columns = line.split('\t');
    let (overload, cpu, tags, text) = (columns.next()?, columns.next()?, columns.next()?, columns.next()?);
    let has_tag = |tag: &str| tags.split(',').any(|t| t == tag);
    let (head, returns) = text.rsplit_once(" -> ")?;
    let inside = head.split_once('(')?.1.strip_suffix(')')?;
    let params =
        split_top(inside).into_iter().filter(|p| *p != "*").map(parse_param).collect::<Option<_>>()?;
    let returns = match returns.strip_prefix('(').and_then(|r| r.strip_suffix(')')) {
        Some(list) => split_top(list).into_iter().map(parse_return).collect::<Option<_>>()?,
        None => vec![parse_return(returns)?],
    };
    let schema = AtenSchema {
        overload,
        params,
        returns,
        random: has_tag("nondeterministic_seeded"),
        has_cpu_kernel: cpu == "y",
        metadata_only: has_tag("inplace_view"),
    };
    let ir = schema.to_ir();
    Some((schema, ir))
}

/// `Tensor(a!) self`, `SymInt[2] stride=1`, `bool? pin_memory=None`.
fn parse_param(text: &'static str) -> Option<AtenParam> {
    let (declared, default) = match split_default(text) {
        Some((declared, default)) => (declared, Some(default)),
        None => (text, None),
    };
    let (ty, name) = declared.rsplit_once(' ')?;
    let (ty, alias) = parse_type(ty)?;
    let default = match default {
        Some(default) => Some(parse_default(default, ty)?),
        None => None,
    };
    Some(AtenParam { name, ty, alias, default })
}

/// At the first `=`, which no type or name contains.
fn split_default(text: &'static str) -> Option<(&'static str, &'static str)> {
    text.split_once('=')
}

fn parse_return(text: &'static str) -> Option<AtenReturn> {
    // A result may carry a name: `Tensor(a!) values`.
    let ty = if text.contains("->") { text } else { text.split(' ').next()? };
    let (ty, alias) = parse_type(ty)?;
    Some(AtenReturn { ty, alias })
}

fn parse_type(text: &'static str) -> Option<(AtenType, Option<Alias>)> {
    let name_len = text.find(['(', '[', '?']).unwrap_or(text.len());
    let base = match &text[..name_len] {
        "Tensor" => AtenBase::Tensor,
        "Scalar" => AtenBase::Scalar,
        "int" | "SymInt" => AtenBase::Int,
        "float" => AtenBase::Float,
        "bool" | "SymBool" => AtenBase::Bool,
        "str" => AtenBase::Str,
        "ScalarType" => AtenBase::Dtype,
        "Device" => AtenBase::Device,
        _ => AtenBase::Other,
    };
    let mut ty = AtenType { base, list: ListKind::No, optional: false, gaps: false };
    let mut alias = None;
    let mut rest = &text[name_len..];
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix('(') {
            let (inside, behind) = behind.split_once(')')?;
            alias = Some(Alias { set: inside.chars().next()?, writes: inside.contains('!') });
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix('[') {
            let (len, behind) = behind.split_once(']')?;
            ty.list = if len.is_empty() { ListKind::Any } else { ListKind::Of(len.parse().ok()?) };
            ty.gaps = ty.optional;
            ty.optional = false;
            rest = behind;
        } else {
            rest = rest.strip_prefix('?')?;
            ty.optional = true;
        }
    }
    Some((ty, alias))
}

fn parse_default(text: &'static str, ty: AtenType) -> Option<Arg> {
    if let Some(inside) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        let items = split_top(inside).into_iter().map(|item| parse_scalar(item, ty.base));
        return items.collect::<Option<Vec<_>>>().map(Arg::List);
    }
    let one = parse_scalar(text, ty.base)?;
    match (ty.list, &one) {
        (_, Arg::None) | (ListKind::No, _) => Some(one),
        (ListKind::Of(n), _) => Some(Arg::List(vec![one; n as usize])),
        (ListKind::Any, _) => Some(Arg::List(vec![one])),
    }
}

fn parse_scalar(text: &'static str, base: AtenBase) -> Option<Arg> {
    Some(match text {
        "None" => Arg::None,
        "True" => Arg::Bool(true),
        "False" => Arg::Bool(false),
        _ if text.starts_with('"') => {
            Arg::str(&text.strip_prefix('"')?.strip_suffix('"')?.replace("\\\"", "\"").replace("\\'", "'"))
        }
        // A memory format's number carries nothing.
        _ if base == AtenBase::Other => Arg::None,
        _ => match (text.parse::<i64>(), base) {
            (Ok(n), AtenBase::Float) => Arg::Float(n as f64),
            (Ok(n), _) => Arg::Int(n),
            (Err(_), _) => Arg::Float(text.parse().ok()?),
        },
    })
}

/// Splits at commas outside of brackets and quotes.
fn split_top(text: &'static str) -> Vec<&'static str> {
    let (mut depth, mut quoted, mut start, mut parts) = (0i32, false, 0, Vec::new());
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'"' if at == 0 || bytes[at - 1] != b'\\' => quoted = !quoted,
            _ if quoted => {}
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read() {
        let mut n = 0;
        let unread: Vec<&str> = aten_overloads().filter(|overload| aten_schema(overload).is_none()).collect();
        // It returns a dictionary, which no exported program holds.
        assert_eq!(unread, ["get_gradients.default"]);
        for overload in aten_overloads().filter(|overload| !unread.contains(overload)) {
            let schema = aten_schema(overload).expect("read above");
            assert_eq!(schema.overload, overload);
            assert!(opaque_schema(overload).is_some());
            n += 1;
        }
        assert_eq!(n, 3109);
    }

    #[test]
    fn defaults_and_aliases() {
        let add = aten_schema("add_.Tensor").expect("known");
        assert_eq!(add.params[0].alias, Some(Alias { set: 'a', writes: true }));
        assert_eq!(add.params[2].default, Some(Arg::Int(1)));
        assert!(add.writes());
        let conv = aten_schema("conv2d.default").expect("known");
        assert_eq!(conv.params[3].default, Some(Arg::ints([1, 1])));
        assert_eq!(conv.params[2].default, Some(Arg::None));
        let norm = aten_schema("layer_norm.default").expect("known");
        assert_eq!(norm.params[4].default, Some(Arg::Float(1e-5)));
        let split = aten_schema("split.Tensor").expect("known");
        assert_eq!(split.params[0].alias, Some(Alias { set: 'a', writes: false }));
        assert_eq!(split.returns[0].ty.list, ListKind::Any);
        let index = aten_schema("index.Tensor").expect("known");
        assert!(index.params[1].ty.gaps && index.params[1].ty.list == ListKind::Any);
        let sort = aten_schema("sort.default").expect("known");
        assert_eq!(sort.returns.len(), 2);
        assert!(aten_schema("squeeze_.dim").expect("known").metadata_only);
        assert!(aten_schema("dropout.default").expect("known").random);
        assert!(aten_schema("_assert_async.msg").expect("known").returns.is_empty());
        assert!(aten_schema("nonsense.default").is_none());
    }
}
