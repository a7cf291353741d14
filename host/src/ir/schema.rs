//! Signatures of ops in the notation of the op list: `(a: Tensor<x>, axis: int = -1, *, dtype: dtype? = None) -> Tensor`.
//!
//! The schema fixes the order of a call's arguments, which of them print by position (those that may be tensors) and
//! which defaults are left out. What the op does with them is its meta rule's business.

use super::{Arg, Dtype, Name};
use std::fmt;

/// Where schemas come from; the op table and plugins implement it.
pub trait Schemas {
    /// The schema of that op, if anybody knows it.
    fn schema(&self, op: &str) -> Option<&Schema>;
}

/// No schema at all: every op prints its arguments as they are stored.
pub struct NoSchemas;

impl Schemas for NoSchemas {
    fn schema(&self, _op: &str) -> Option<&Schema> {
        None
    }
}

/// A parsed signature.
#[derive(Clone, PartialEq, Debug)]
pub struct Schema {
    /// Parameters in order.
    pub params: Vec<Param>,
    /// The text after `->`, as written.
    pub result: String,
    /// Positional arguments of any number (`...`): text only, or the last loss parameters.
    pub variadic: bool,
}

/// One parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// Its name.
    pub name: Name,
    /// What it takes.
    pub ty: ParamType,
    /// Its default, if it has one. An optional parameter without one defaults to absent.
    pub default: Option<Arg>,
}

impl Param {
    /// What a call that does not give it means: the default, or absent where it is optional.
    pub fn absent_value(&self) -> Option<Arg> {
        self.default.clone().or_else(|| self.ty.optional.then_some(Arg::None))
    }
}

/// What a parameter takes: one of some alternatives, perhaps absent.
#[derive(Clone, PartialEq, Debug)]
pub struct ParamType {
    /// The alternatives, in the order written.
    pub any_of: Vec<ParamBase>,
    /// May be absent.
    pub optional: bool,
}

/// One alternative.
#[derive(Clone, PartialEq, Debug)]
pub enum ParamBase {
    /// A tensor; its dtype class as written between `<>`, or empty.
    Tensor(DtypeClass),
    /// A list of tensors, perhaps with gaps (`Tensor?[]`).
    Tensors {
        /// Dtype class of each.
        class: DtypeClass,
        /// May entries be absent?
        gaps: bool,
    },
    /// A number: int, float, bool or complex, known or symbolic.
    Num,
    /// A list of numbers.
    Nums,
    /// An integer.
    Int,
    /// A bool.
    Bool,
    /// Text, one of the choices where there are any.
    Str(Vec<Name>),
    /// A size.
    Dim,
    /// A list of sizes.
    Dims,
    /// A list of known integers (one integer stands for all).
    Ints,
    /// A list of tuples of integers, or of bools (`bool[3]`).
    Lists,
    /// A dtype.
    Dtype,
    /// A device.
    Device,
    /// A nested trace.
    Trace,
    /// Anything.
    Any,
}

/// Which dtypes a tensor parameter takes; empty: any.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DtypeClass(pub Vec<Name>);

impl DtypeClass {
    /// Does the class hold the dtype? `acc` and `real` depend on another argument and hold any float.
    pub fn holds(&self, dtype: Dtype) -> bool {
        self.0.is_empty()
            || self.0.iter().any(|c| match &**c {
                "a" => true,
                "f" | "acc" | "real" => dtype.is_float(),
                "c" => dtype.is_complex(),
                "x" => dtype.is_inexact(),
                "i" => dtype.is_integer(),
                "r" => dtype.is_integer() || dtype.is_float(),
                "n" => dtype != Dtype::Bool,
                "b" => dtype == Dtype::Bool,
                name => dtype.name() == name,
            })
    }
}

impl fmt::Display for DtypeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(|c| &**c).collect::<Vec<_>>().join("|"))
    }
}

impl ParamType {
    /// May a tensor stand here? Such arguments print by position, all others by name (rule 6).
    pub fn takes_tensor(&self) -> bool {
        self.any_of.iter().any(|b| matches!(b, ParamBase::Tensor(_) | ParamBase::Tensors { .. }))
    }

    /// Is it (or may it be) a number that ATen calls `Scalar`, whose kind is kept?
    pub fn takes_number(&self) -> bool {
        self.any_of.iter().any(|b| matches!(b, ParamBase::Num))
    }

    /// Does it take that alternative?
    pub fn takes(&self, base: &ParamBase) -> bool {
        self.any_of.contains(base)
    }
}

impl Schema {
    /// Reads a signature; the error says what could not be read.
    pub fn parse(text: &str) -> Result<Schema, String> {
        let (inside, result) = text
            .strip_prefix('(')
            .and_then(|t| t.rsplit_once(") ->"))
            .ok_or_else(|| format!("`{text}` is not `(…) -> …`"))?;
        let mut schema = Schema { params: Vec::new(), result: result.trim().to_string(), variadic: false };
        for part in split_top(inside, ',') {
            match part.trim() {
                "" | "*" => {}
                "..." => schema.variadic = true,
                p => schema.params.push(parse_param(p)?),
            }
        }
        Ok(schema)
    }

    /// Index of the parameter of that name.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|p| &*p.name == name)
    }
}

fn parse_param(text: &str) -> Result<Param, String> {
    let (name, rest) = text.split_once(':').ok_or_else(|| format!("`{text}` has no type"))?;
    let (ty, default) = match rest.split_once(" = ") {
        Some((ty, d)) => (ty.trim(), Some(d.trim())),
        None => (rest.trim(), None),
    };
    let ty = parse_type(ty)?;
    let default = default.map(|d| parse_default(d, &ty)).transpose()?;
    Ok(Param { name: name.trim().into(), ty, default })
}

fn parse_type(text: &str) -> Result<ParamType, String> {
    let mut ty = ParamType { any_of: Vec::new(), optional: false };
    for alternative in split_top(text, '|') {
        let mut t = alternative.trim();
        if let Some(rest) = t.strip_suffix('?') {
            ty.optional = true;
            t = rest;
        }
        ty.any_of.push(parse_base(t)?);
    }
    Ok(ty)
}

fn parse_base(t: &str) -> Result<ParamBase, String> {
    if let Some(inner) = t.strip_suffix("[]") {
        let (inner, gaps) = inner.strip_suffix('?').map_or((inner, false), |i| (i, true));
        return Ok(match inner {
            _ if inner.starts_with("Tensor") => ParamBase::Tensors { class: class_of(inner)?, gaps },
            "num" => ParamBase::Nums,
            "any" => ParamBase::Any,
            _ if inner.starts_with('(') => ParamBase::Lists,
            _ => return Err(format!("unknown list type `{t}`")),
        });
    }
    if let Some(choices) = t.strip_prefix("str{").and_then(|c| c.strip_suffix('}')) {
        return Ok(ParamBase::Str(choices.split('|').map(Name::from).collect()));
    }
    Ok(match t {
        _ if t.starts_with("Tensor") => ParamBase::Tensor(class_of(t)?),
        "num" => ParamBase::Num,
        "int" => ParamBase::Int,
        "bool" => ParamBase::Bool,
        "str" => ParamBase::Str(Vec::new()),
        "dim" => ParamBase::Dim,
        "dims" => ParamBase::Dims,
        "ints" => ParamBase::Ints,
        "dtype" => ParamBase::Dtype,
        "device" => ParamBase::Device,
        "trace" => ParamBase::Trace,
        "any" => ParamBase::Any,
        _ if t.starts_with("bool[") => ParamBase::Lists,
        _ => return Err(format!("unknown type `{t}`")),
    })
}

fn class_of(t: &str) -> Result<DtypeClass, String> {
    match t.strip_prefix("Tensor") {
        Some("") => Ok(DtypeClass::default()),
        Some(c) => c
            .strip_prefix('<')
            .and_then(|c| c.strip_suffix('>'))
            .map(|c| DtypeClass(c.split('|').map(Name::from).collect()))
            .ok_or_else(|| format!("`{t}` is no tensor type")),
        None => Err(format!("`{t}` is no tensor type")),
    }
}

fn parse_default(text: &str, ty: &ParamType) -> Result<Arg, String> {
    if ty.any_of.iter().any(|b| matches!(b, ParamBase::Str(_))) && text != "None" {
        let numeric = text.parse::<i64>().ok().filter(|_| ty.any_of.len() > 1);
        return Ok(numeric.map_or_else(|| Arg::str(text), Arg::Int));
    }
    Ok(match text {
        "None" => Arg::None,
        "true" => Arg::Bool(true),
        "false" => Arg::Bool(false),
        "inf" => Arg::Float(f64::INFINITY),
        "-inf" => Arg::Float(f64::NEG_INFINITY),
        _ => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(n), _) => Arg::Int(n),
            (_, Ok(x)) => Arg::Float(x),
            _ => return Err(format!("unknown default `{text}`")),
        },
    })
}

/// Splits at `sep` outside of brackets.
fn split_top(text: &str, sep: char) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0i32, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            _ if c == sep && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_notation() {
        let s = Schema::parse(
            "(a: Tensor<i|b>|num, index: Tensor?[], mode: str{none|trunc} = none, *, dtype: dtype? = None, eps: num = 1e-5) -> Tensor",
        )
        .expect("a valid signature");
        assert_eq!(s.params.len(), 5);
        assert!(s.params[0].ty.takes_tensor() && s.params[0].ty.takes_number());
        assert_eq!(s.params[2].default, Some(Arg::str("none")));
        assert_eq!(s.params[3].absent_value(), Some(Arg::None));
        assert_eq!(s.params[4].default, Some(Arg::Float(1e-5)));
        assert!(Schema::parse("(a: Tensr) -> Tensor").is_err());
    }
}
