//! ATen's own schemas, all overloads of PyTorch 2.13, built in: what an argument is called, its type and default, what
//! is written, what aliases. The importer needs them because a `.pt2` omits arguments that have their default.
//!
//! The text (`data/aten-all.tsv`) is indexed at first use and each schema is parsed when it is first asked for.
//! Deliberately absent: what the overloads mean. That is the op table's business (`aten`).

use super::aten::AtenArg;
use crate::ir::schema::DtypeClass;
use crate::ir::{Arg, Dtype, Param, ParamBase, ParamType, Schema};
use rustc_hash::FxHashMap;
use std::sync::{OnceLock, PoisonError, RwLock};

static TEXT: &str = include_str!("data/aten-all.tsv");

/// The schema of one overload.
#[derive(Debug)]
pub struct AtenSchema {
    /// `add.Tensor`; the overload without a name is `default`.
    pub overload: &'static str,
    /// Parameters in order.
    pub params: Vec<AtenParam>,
    /// Results in order.
    pub returns: Vec<AtenReturn>,
    /// PyTorch's tags: `core`, `pointwise`, `inplace`, `nondeterministic_seeded`, ….
    pub tags: Vec<&'static str>,
    /// Is there a kernel for the CPU?
    pub cpu: bool,
}

/// One parameter.
#[derive(Debug)]
pub struct AtenParam {
    /// ATen's name for it.
    pub name: &'static str,
    /// What it takes.
    pub ty: AtenType,
    /// Its default, if it has one.
    pub default: Option<Arg>,
    /// Its alias annotation, if it has one.
    pub alias: Option<AtenAlias>,
    /// Given by name only.
    pub kwonly: bool,
}

/// One result.
#[derive(Debug)]
pub struct AtenReturn {
    /// Its name, where the schema has one.
    pub name: Option<&'static str>,
    /// What it is.
    pub ty: AtenType,
    /// Its alias annotation, if it has one: the result may be (a view of) the parameter with the same set.
    pub alias: Option<AtenAlias>,
}

/// `(a!)`: the alias set `a`, written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtenAlias {
    /// Name of the set; `a -> *` (elements of a list alias it) has the name `a`.
    pub set: &'static str,
    /// Does the call write it?
    pub written: bool,
}

/// Type of a parameter or result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtenType {
    /// The element type.
    pub base: AtenBase,
    /// A list, and of which length.
    pub list: Option<ListLength>,
    /// May the whole be absent?
    pub optional: bool,
    /// May entries of the list be absent (`Tensor?[]`)?
    pub gaps: bool,
}

/// Length of a list type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListLength {
    /// `int[]`.
    Any,
    /// `int[2]`: one element, alone or in a list, stands for all.
    Fixed(u8),
}

/// Element types of schemas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtenBase {
    /// A tensor (numbers are given for it, too).
    Tensor,
    /// A number that keeps its kind.
    Scalar,
    /// A known integer.
    Int,
    /// An integer that may be symbolic.
    SymInt,
    /// A float: an integer given for it becomes one.
    Float,
    /// A bool.
    Bool,
    /// Text.
    Str,
    /// `ScalarType`.
    Dtype,
    /// A layout; carries nothing here.
    Layout,
    /// A device.
    Device,
    /// A memory format, by number: 2 is channels last, 3 its three-dimensional form.
    MemoryFormat,
    /// A generator; never in a file.
    Generator,
    /// Anything else: `Dimname`, `Storage`, classes.
    Other,
}

struct Entry {
    cpu: &'static str,
    tags: &'static str,
    text: &'static str,
    parsed: OnceLock<Option<AtenSchema>>,
}

fn index() -> &'static FxHashMap<&'static str, Entry> {
    static INDEX: OnceLock<FxHashMap<&'static str, Entry>> = OnceLock::new();
    INDEX.get_or_init(|| {
        let mut index = FxHashMap::default();
        for line in TEXT.lines().skip(1) {
            let mut columns = line.split('\t');
            if let (Some(overload), Some(cpu), Some(tags), Some(text)) =
                (columns.next(), columns.next(), columns.next(), columns.next())
            {
                index.insert(overload, Entry { cpu, tags, text, parsed: OnceLock::new() });
            }
        }
        index
    })
}

/// The schema of that overload (`add.Tensor`, without `aten.`), if PyTorch 2.13 has it.
pub fn lookup(overload: &str) -> Option<&'static AtenSchema> {
    let (name, entry) = index().get_key_value(overload)?;
    entry.parsed.get_or_init(|| parse(name, entry)).as_ref()
}

/// Every overload, in no order.
pub fn overloads() -> impl Iterator<Item = &'static str> {
    index().keys().copied()
}

impl AtenSchema {
    /// The parameter of that name.
    pub fn param(&self, name: &str) -> Option<&AtenParam> {
        self.params.iter().find(|p| p.name == name)
    }

    /// Has it this tag?
    pub fn tagged(&self, tag: &str) -> bool {
        self.tags.contains(&tag)
    }

    /// Does it write its first argument and give it back (`add_`)?
    pub fn is_in_place(&self) -> bool {
        match (self.params.first().and_then(|p| p.alias), self.returns.first().and_then(|r| r.alias)) {
            (Some(a), Some(r)) => a.written && r.written && a.set == r.set,
            _ => false,
        }
    }

    /// All arguments in the schema's order, from those a file gives by name: defaults filled in, optional ones absent.
    /// An unknown or missing name is an error that says it.
    pub fn complete(&self, given: impl IntoIterator<Item = (String, Arg)>) -> Result<Vec<AtenArg>, String> {
        let mut values: Vec<Option<Arg>> = self.params.iter().map(|p| p.default.clone()).collect();
        for (name, value) in given {
            let at = self
                .params
                .iter()
                .position(|p| p.name == name)
                .ok_or_else(|| format!("`aten.{}` has no argument `{name}`", self.overload))?;
            values[at] = Some(value);
        }
        let mut args = Vec::with_capacity(values.len());
        for (p, value) in self.params.iter().zip(values) {
            let value = match value {
                Some(v) => v,
                None if p.ty.optional || p.ty.base == AtenBase::Generator => Arg::None,
                None => return Err(format!("`aten.{}` needs `{}`", self.overload, p.name)),
            };
            args.push(AtenArg { name: p.name.to_string(), value });
        }
        Ok(args)
    }
}

fn parse(overload: &'static str, entry: &Entry) -> Option<AtenSchema> {
    // aten::name.overload(params) -> returns
    let text = entry.text;
    let open = text.find('(')?;
    let close = matching(text, open)?;
    let returns = text[close + 1..].trim_start().strip_prefix("->")?.trim();
    let mut params = Vec::new();
    let mut kwonly = false;
    for part in split_top(&text[open + 1..close]) {
        match part {
            "" => {}
            "*" => kwonly = true,
            p => params.push(parse_param(p, kwonly)?),
        }
    }
    let returns = match returns.strip_prefix('(').and_then(|r| r.strip_suffix(')')) {
        Some(inside) => inside,
        None => returns,
    };
    let returns =
        split_top(returns).into_iter().filter(|r| !r.is_empty()).map(parse_return).collect::<Option<_>>()?;
    let tags = entry.tags.split(',').filter(|t| *t != "-").collect();
    Some(AtenSchema { overload, params, returns, tags, cpu: entry.cpu == "y" })
}

fn parse_param(text: &'static str, kwonly: bool) -> Option<AtenParam> {
    let (ty, alias, rest) = parse_type(text)?;
    let rest = rest.trim_start();
    let (name, default) = match rest.split_once('=') {
        Some((name, d)) => (name, Some(parse_default(d, &ty)?)),
        None => (rest, None),
    };
    Some(AtenParam { name, ty, default, alias, kwonly })
}

fn parse_return(text: &'static str) -> Option<AtenReturn> {
    let (ty, alias, rest) = parse_type(text)?;
    let name = Some(rest.trim()).filter(|n| !n.is_empty());
    Some(AtenReturn { name, ty, alias })
}

/// The type at the head of `text`, its annotation, and what stands behind it.
fn parse_type(text: &'static str) -> Option<(AtenType, Option<AtenAlias>, &'static str)> {
    let end = text.find([' ', '(', '[', '?']).unwrap_or(text.len());
    let (word, mut rest) = text.split_at(end);
    let base = match word {
        "Tensor" => AtenBase::Tensor,
        "Scalar" => AtenBase::Scalar,
        "int" => AtenBase::Int,
        "SymInt" => AtenBase::SymInt,
        "float" => AtenBase::Float,
        "bool" => AtenBase::Bool,
        "str" => AtenBase::Str,
        "ScalarType" => AtenBase::Dtype,
        "Layout" => AtenBase::Layout,
        "Device" => AtenBase::Device,
        "MemoryFormat" => AtenBase::MemoryFormat,
        "Generator" => AtenBase::Generator,
        "" => return None,
        _ => AtenBase::Other,
    };
    let mut ty = AtenType { base, list: None, optional: false, gaps: false };
    let mut alias = None;
    loop {
        if let Some(r) = rest.strip_prefix('?') {
            ty.optional = true;
            rest = r;
        } else if let Some(r) = rest.strip_prefix('[') {
            let (length, r) = r.split_once(']')?;
            ty.gaps = std::mem::take(&mut ty.optional);
            ty.list = Some(match length {
                "" => ListLength::Any,
                n => ListLength::Fixed(n.parse().ok()?),
            });
            rest = r;
        } else if let Some(r) = rest.strip_prefix('(') {
            let (inside, r) = r.split_once(')')?;
            let set = inside.split(['!', ' ']).next().unwrap_or(inside);
            alias = Some(AtenAlias { set, written: inside.contains('!') });
            rest = r;
        } else {
            return Some((ty, alias, rest));
        }
    }
}

fn parse_default(text: &'static str, ty: &AtenType) -> Option<Arg> {
    if let Some(inside) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        let items = split_top(inside).into_iter().filter(|i| !i.is_empty());
        return items.map(|i| parse_default(i, ty)).collect::<Option<_>>().map(Arg::List);
    }
    if let Some(quoted) = text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        return Some(Arg::str(&quoted.replace("\\\"", "\"").replace("\\'", "'").replace("\\\\", "\\")));
    }
    Some(match text {
        "None" => Arg::None,
        "True" => Arg::Bool(true),
        "False" => Arg::Bool(false),
        _ => match (ty.base, text.parse::<i64>()) {
            (AtenBase::Dtype, Ok(n)) => Arg::Dtype(c10_dtype(n)?),
            (AtenBase::Float, Ok(n)) => Arg::Float(n as f64),
            (_, Ok(n)) => Arg::Int(n),
            _ => Arg::Float(text.parse().ok()?),
        },
    })
}

/// A dtype by PyTorch's internal number, as defaults in schemas have it (not the numbers of the `.pt2` file).
fn c10_dtype(n: i64) -> Option<Dtype> {
    const DTYPES: [Option<Dtype>; 16] = [
        Some(Dtype::U8),
        Some(Dtype::I8),
        Some(Dtype::I16),
        Some(Dtype::I32),
        Some(Dtype::I64),
        Some(Dtype::F16),
        Some(Dtype::F32),
        Some(Dtype::F64),
        None,
        Some(Dtype::C64),
        Some(Dtype::C128),
        Some(Dtype::Bool),
        None,
        None,
        None,
        Some(Dtype::Bf16),
    ];
    usize::try_from(n).ok().and_then(|n| DTYPES.get(n).copied().flatten())
}

/// Position of the bracket that closes the one at `open`; quoted text is skipped.
fn matching(text: &str, open: usize) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0i32, false, false);
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < open) {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' => depth += 1,
            ')' | ']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits at commas outside of brackets and quotes, and trims.
fn split_top(text: &'static str) -> Vec<&'static str> {
    let (mut depth, mut start, mut parts) = (0i32, 0, Vec::new());
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

impl AtenSchema {
    /// The schema in the IR's terms, for the opaque op `aten.<overload>`: the same names, order and defaults. Where the
    /// type is one that the IR does not tell apart, anything is taken.
    pub fn to_ir(&self) -> Schema {
        let params = self.params.iter().map(AtenParam::to_ir).collect();
        let results: Vec<&str> =
            self.returns.iter().map(|r| if r.ty.list.is_some() { "Tensor[]" } else { "Tensor" }).collect();
        let result = if let [one] = results.as_slice() {
            (*one).to_string()
        } else {
            format!("({})", results.join(", "))
        };
        Schema { params, result, variadic: false }
    }
}

impl AtenSchema {
    /// Is the result a list of tensors, or of more than tensors alone?
    fn gives_list(&self) -> bool {
        self.returns.iter().any(|r| r.ty.list.is_some())
    }

    /// The schema of the op's gradient: cotangents of the results and of the arguments that it writes and does not return
    /// (one list, where the results are a list), then the op's own arguments, then which gradients are wanted.
    fn vjp_to_ir(&self) -> Schema {
        let schema = self.to_ir();
        let class = DtypeClass::default;
        let cotangent = |name: String, base: ParamBase| Param {
            name: name.as_str().into(),
            ty: ParamType { any_of: vec![base], optional: true },
            default: None,
        };
        let cotangents: Vec<Param> = if self.gives_list() {
            vec![cotangent("cotangents".into(), ParamBase::Tensors { class: class(), gaps: true })]
        } else {
            let n = self.returns.len() + self.written_alone().count();
            (0..n).map(|i| cotangent(format!("cotangent{i}"), ParamBase::Tensor(class()))).collect()
        };
        // Which floating tensors want a gradient; absent: all.
        let wanted = cotangent("wanted".into(), ParamBase::Lists);
        let params = cotangents.into_iter().chain(schema.params).chain([wanted]).collect();
        Schema { params, result: "Tensor[]".into(), variadic: false }
    }

    /// Arguments that are written and are no result.
    fn written_alone(&self) -> impl Iterator<Item = &AtenParam> {
        let returned =
            |p: &AtenParam| self.returns.iter().any(|r| r.alias.map(|a| a.set) == p.alias.map(|a| a.set));
        self.params.iter().filter(move |p| p.alias.is_some_and(|a| a.written) && !returned(p))
    }
}

impl AtenParam {
    fn to_ir(&self) -> Param {
        let list = self.ty.list.is_some();
        let base = match self.ty.base {
            AtenBase::Tensor if list => {
                ParamBase::Tensors { class: DtypeClass::default(), gaps: self.ty.gaps }
            }
            AtenBase::Tensor => ParamBase::Tensor(DtypeClass::default()),
            AtenBase::Scalar | AtenBase::Float if list => ParamBase::Nums,
            AtenBase::Scalar | AtenBase::Float => ParamBase::Num,
            AtenBase::SymInt if list => ParamBase::Dims,
            AtenBase::SymInt => ParamBase::Dim,
            AtenBase::Int if list => ParamBase::Ints,
            AtenBase::Int => ParamBase::Int,
            AtenBase::Bool if !list => ParamBase::Bool,
            AtenBase::Str if !list => ParamBase::Str(Vec::new()),
            AtenBase::Dtype => ParamBase::Dtype,
            AtenBase::Device => ParamBase::Device,
            _ => ParamBase::Any,
        };
        let mut any_of = vec![base];
        // A number may stand for a tensor.
        if self.ty.base == AtenBase::Tensor && !list {
            any_of.push(ParamBase::Num);
        }
        let ty = ParamType { any_of, optional: self.ty.optional };
        Param { name: self.name.into(), ty, default: self.default.clone() }
    }
}

/// The IR schema of the opaque op of that name (`aten.foo.overload`), or of its gradient (`vjp.aten.foo.overload`).
pub fn opaque_schema(op: &str) -> Option<&'static Schema> {
    type Made = RwLock<FxHashMap<String, Option<&'static Schema>>>;
    static MADE: OnceLock<Made> = OnceLock::new();
    let differentiated = op.strip_prefix("vjp.");
    let overload = differentiated.unwrap_or(op).strip_prefix("aten.")?;
    let made = MADE.get_or_init(Made::default);
    if let Some(found) = made.read().unwrap_or_else(PoisonError::into_inner).get(op) {
        return *found;
    }
    // Leaked once an overload: there are some thousands at most.
    let to_ir = |s: &AtenSchema| if differentiated.is_some() { s.vjp_to_ir() } else { s.to_ir() };
    let schema = lookup(overload).map(|s| &*Box::leak(Box::new(to_ir(s))));
    made.write().unwrap_or_else(PoisonError::into_inner).insert(op.into(), schema);
    schema
}

/// Is the result of the opaque op of that name (`aten.foo.overload`) a list of tensors?
pub fn gives_list(op: &str) -> bool {
    op.strip_prefix("aten.").and_then(lookup).is_some_and(AtenSchema::gives_list)
}

/// Does the opaque call draw random numbers from a generator of its own? Its schema says that it may, and no argument
/// says that it does not.
pub fn draws(op: &str, args: &[Arg]) -> bool {
    let overload = op.strip_prefix("vjp.").unwrap_or(op).strip_prefix("aten.");
    let Some(schema) = overload.and_then(lookup).filter(|s| s.tagged("nondeterministic_seeded")) else {
        return false;
    };
    // A gradient's arguments stand between its cotangents and what is wanted.
    let is_gradient = op.starts_with("vjp.");
    let first = args.len().saturating_sub(schema.params.len() + usize::from(is_gradient));
    !schema.params.iter().zip(args.iter().skip(first)).any(|(p, a)| match (p.name, a) {
        ("train" | "training", Arg::Bool(on)) => !on,
        ("p" | "dropout" | "dropout_p", Arg::Float(p)) => *p == 0.0,
        ("p" | "dropout" | "dropout_p", Arg::Int(p)) => *p == 0,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_parses() {
        let mut n = 0;
        for overload in overloads() {
            assert!(lookup(overload).is_some(), "{overload}");
            n += 1;
        }
        assert_eq!(n, TEXT.lines().count() - 1, "an overload stands twice");
    }

    #[test]
    fn defaults_types_and_aliases_are_read() {
        let add = lookup("add_.Tensor").expect("ATen has it");
        assert!(add.is_in_place() && add.tagged("pointwise"));
        assert_eq!(add.param("alpha").and_then(|p| p.default.clone()), Some(Arg::Int(1)));
        let gelu = lookup("gelu.default").expect("ATen has it");
        assert!(!gelu.is_in_place());
        assert_eq!(gelu.params[1].default, Some(Arg::str("none")));
        let randint = lookup("randint.default").expect("ATen has it");
        assert_eq!(randint.param("dtype").and_then(|p| p.default.clone()), Some(Arg::Dtype(Dtype::I64)));
        let pool = lookup("avg_pool2d.default").expect("ATen has it");
        assert_eq!(pool.params[1].ty.list, Some(ListLength::Fixed(2)));
        assert_eq!(pool.param("stride").and_then(|p| p.default.clone()), Some(Arg::List(vec![])));
        let chunk = lookup("chunk.default").expect("ATen has it");
        assert_eq!(chunk.params[0].alias, Some(AtenAlias { set: "a", written: false }));
        assert_eq!(chunk.returns[0].ty.list, Some(ListLength::Any));
        let norm = lookup("batch_norm_update_stats.default").expect("ATen has it");
        assert_eq!(norm.returns.len(), 2);
        let index = lookup("index.Tensor").expect("ATen has it");
        assert!(index.params[1].ty.gaps && !index.params[1].ty.optional);
        let drop = lookup("uniform.default").expect("ATen has it");
        assert_eq!(drop.param("to").and_then(|p| p.default.clone()), Some(Arg::Float(1.0)));
    }

    #[test]
    fn calls_are_completed_by_name() {
        let add = lookup("add.Tensor").expect("ATen has it");
        let args = add
            .complete([("other".to_string(), Arg::Int(2)), ("self".to_string(), Arg::Int(1))])
            .expect("complete");
        let values: Vec<&Arg> = args.iter().map(|a| &a.value).collect();
        assert_eq!(values, [&Arg::Int(1), &Arg::Int(2), &Arg::Int(1)]);
        assert!(add.complete([("self".to_string(), Arg::Int(1))]).is_err());
        assert!(add.complete([("nobody".to_string(), Arg::Int(1))]).is_err());
    }
}
