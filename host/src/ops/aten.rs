//! How ATen overloads become ops of the table: entries (in each op), and ATen's own schemas (all of them, built in).

use super::aten_schema::{self, AtenBase, AtenParam, ListLength};
use super::build::{Builder, Num};
use super::error::OpError;
use super::{Op, meta};
use crate::ir::{Arg, Device, Dtype, Param, ParamBase, Type};

/// Overloads that become one op in one way.
pub struct Aten {
    /// `add.Tensor`, `relu.default`, `relu_.default`, …; without `aten.`.
    pub overloads: &'static [&'static str],
    /// How their arguments become ours.
    pub import: Import,
}

/// From ATen's arguments to a call.
pub enum Import {
    /// `a=self b=other alpha`: ours = ATen's; a name alone is the same in both. Parameters of ours that are not named
    /// keep their default; ATen's that are not named are dropped (they carry nothing: `memory_format`, `layout`, …).
    /// A number where ATen's parameter is `float` becomes a float.
    Map(&'static str),
    /// As `Map`, then with fixed arguments: `mode="floor"` style pairs in trace literal syntax.
    MapWith(&'static str, &'static [(&'static str, FixedArg)]),
    /// Anything else: emits the calls and gives one argument for each of ATen's results.
    With(fn(&mut Builder<'_>, &AtenCall) -> Result<Vec<Arg>, OpError>),
}

/// A literal in an import entry.
#[derive(Clone, Copy, Debug)]
pub enum FixedArg {
    /// i64.
    Int(i64),
    /// f64.
    Float(f64),
    /// true or false.
    Bool(bool),
    /// Text.
    Str(&'static str),
    /// A dtype, by name.
    Dtype(&'static str),
    /// Absent.
    None,
}

/// A call of an ATen overload as the importer read it: arguments by ATen's names, defaults filled in.
pub struct AtenCall {
    /// `add.Tensor`.
    pub overload: String,
    /// Every argument of ATen's schema in its order.
    pub args: Vec<AtenArg>,
    /// Types of the results as the model file records them, in ATen's order, lists flattened; none: absent.
    pub results: Vec<Option<crate::ir::Type>>,
}

/// One argument of an ATen call.
pub struct AtenArg {
    /// ATen's name for it.
    pub name: String,
    /// The value; tensors and symbolic numbers are values of the trace, sizes are `Int` or `Dim`.
    pub value: Arg,
}

impl AtenCall {
    /// The argument of that name.
    pub fn arg(&self, name: &str) -> Result<&Arg, OpError> {
        self.args
            .iter()
            .find(|a| a.name == name)
            .map(|a| &a.value)
            .ok_or_else(|| self.error(format!("has no argument `{name}`")))
    }

    /// The tensor of that name.
    pub fn tensor(&self, b: &Builder<'_>, name: &str) -> Result<super::Tensor, OpError> {
        match self.arg(name)? {
            Arg::Value(v) => b.as_tensor(*v),
            other => Err(self.error(format!("`{name}` must be a tensor, found {other:?}"))),
        }
    }

    /// The dtype that the model file records for a tensor result.
    pub fn recorded_dtype(&self, result: usize) -> Option<Dtype> {
        self.results.get(result)?.as_ref()?.tensor().map(|t| t.dtype)
    }

    /// An error of this call.
    pub fn error(&self, what: impl Into<String>) -> OpError {
        OpError { op: format!("aten.{}", self.overload), what: what.into() }
    }
}

/// Emits what the overload becomes; gives one argument for each of ATen's results (lists flattened).
///
/// An in-place overload gives the new value of what it writes: PyTorch computes in the promoted dtype and stores in
/// the tensor's own, so the result is cast to that.
pub fn import(
    b: &mut Builder<'_>,
    op: &'static Op,
    aten: &Aten,
    call: &AtenCall,
) -> Result<Vec<Arg>, OpError> {
    let mut results = match &aten.import {
        Import::Map(map) => mapped(b, op, map, &[], call)?,
        Import::MapWith(map, fixed) => mapped(b, op, map, fixed, call)?,
        Import::With(f) => f(b, call)?,
    };
    let in_place = aten_schema::lookup(&call.overload).is_some_and(|s| s.is_in_place());
    if in_place && let (Some(Arg::Value(result)), Some(written)) = (results.first(), call.args.first()) {
        let result = b.as_tensor(*result)?;
        let target = call.tensor(b, &written.name)?;
        if result.dtype() != target.dtype() {
            results[0] = b.tensor("torch.to", vec![result.arg(), target.dtype().into()])?.arg();
        }
    }
    Ok(results)
}

/// Names of ours and ATen's in a map: `a=self b=other alpha`.
pub fn map_pairs(map: &str) -> impl Iterator<Item = (&str, &str)> {
    map.split_whitespace().map(|pair| pair.split_once('=').unwrap_or((pair, pair)))
}

fn mapped(
    b: &mut Builder<'_>,
    op: &'static Op,
    map: &str,
    fixed: &[(&str, FixedArg)],
    call: &AtenCall,
) -> Result<Vec<Arg>, OpError> {
    let schema = super::table::schema_of(op);
    let theirs = aten_schema::lookup(&call.overload);
    let mut args: Vec<Option<Arg>> = schema.params.iter().map(Param::absent_value).collect();
    let index = |name: &str| {
        schema.index(name).ok_or_else(|| call.error(format!("`{}` has no parameter `{name}`", op.name)))
    };
    for (ours, name) in map_pairs(map) {
        let at = index(ours)?;
        let value = call.arg(name)?.clone();
        let param = theirs.and_then(|s| s.param(name));
        args[at] = coerce(b, call, value, &schema.params[at], param)?.or(args[at].take());
    }
    for (name, value) in fixed {
        args[index(name)?] = Some(value.to_arg());
    }
    let args = schema
        .params
        .iter()
        .zip(args)
        .map(|(p, a)| a.ok_or_else(|| call.error(format!("gives no `{}` to `{}`", p.name, op.name))))
        .collect::<Result<_, _>>()?;
    b.call_recorded(op, args, &call.results)
}

impl FixedArg {
    fn to_arg(self) -> Arg {
        match self {
            FixedArg::Int(n) => Arg::Int(n),
            FixedArg::Float(x) => Arg::Float(x),
            FixedArg::Bool(b) => Arg::Bool(b),
            FixedArg::Str(s) => Arg::str(s),
            FixedArg::Dtype(d) => Dtype::from_name(d).map_or(Arg::None, Arg::Dtype),
            FixedArg::None => Arg::None,
        }
    }
}

/// ATen's value as our parameter takes it; none where it is absent and our default is meant.
fn coerce(
    b: &mut Builder<'_>,
    call: &AtenCall,
    value: Arg,
    ours: &Param,
    theirs: Option<&AtenParam>,
) -> Result<Option<Arg>, OpError> {
    let is_float = theirs.is_some_and(|t| t.ty.base == AtenBase::Float);
    let fixed = theirs.and_then(|t| t.ty.list).and_then(|l| match l {
        ListLength::Fixed(n) => Some(usize::from(n)),
        ListLength::Any => None,
    });
    let takes = |base: &ParamBase| ours.ty.takes(base);
    let takes_list = takes(&ParamBase::Dims) || takes(&ParamBase::Ints) || takes(&ParamBase::Nums);
    let takes_one = takes(&ParamBase::Dim) || takes(&ParamBase::Int) || takes(&ParamBase::Num);
    Ok(Some(match value {
        Arg::None if ours.ty.optional => Arg::None,
        Arg::None => return Ok(None),
        Arg::Int(n) if is_float => Arg::Float(n as f64),
        Arg::List(items) if is_float => Arg::List(items.into_iter().map(to_float).collect()),
        Arg::List(items) if items.len() == 1 && takes_list => match fixed {
            Some(n) => Arg::List(vec![items[0].clone(); n]),
            None => Arg::List(items),
        },
        Arg::List(items) if items.len() == 1 && takes_one && !takes(&ParamBase::Any) => items[0].clone(),
        Arg::Int(_) | Arg::Dim(_) | Arg::Value(_) if takes_list && !takes_one && !ours.ty.takes_tensor() => {
            Arg::List(vec![value; fixed.unwrap_or(1)])
        }
        Arg::Int(n) if !takes_one => match choices(ours) {
            // Enumerations are numbers in ATen (`reduction`), words here, in the same order.
            Some(words) => usize::try_from(n)
                .ok()
                .and_then(|n| words.get(n))
                .map(|w| Arg::Str(w.clone()))
                .ok_or_else(|| call.error(format!("{n} is no choice for `{}`", ours.name)))?,
            None => number_as_tensor(b, Arg::Int(n), ours)?,
        },
        value => number_as_tensor(b, value, ours)?,
    }))
}

fn to_float(a: Arg) -> Arg {
    match a {
        Arg::Int(n) => Arg::Float(n as f64),
        other => other,
    }
}

fn choices(ours: &Param) -> Option<&[crate::ir::Name]> {
    ours.ty.any_of.iter().find_map(|b| match b {
        ParamBase::Str(words) if !words.is_empty() => Some(words.as_slice()),
        _ => None,
    })
}

/// A number where we take tensors only becomes a zero-dim tensor.
fn number_as_tensor(b: &mut Builder<'_>, value: Arg, ours: &Param) -> Result<Arg, OpError> {
    let tensor_only = ours.ty.any_of.iter().all(|p| matches!(p, ParamBase::Tensor(_)));
    if !tensor_only {
        return Ok(value);
    }
    let number = match &value {
        Arg::Value(v) => match b.trace().ty(*v) {
            Type::Number(n) => Some(Num::Value(*v, n.clone())),
            Type::Tensor(_) => None,
        },
        other => Num::from_arg(other),
    };
    match number {
        Some(n) => {
            let dtype = meta::number_dtype(&n);
            let args = vec![Arg::List(vec![]), value, dtype.into(), Device::Cpu.into()];
            Ok(b.tensor("prims.full", args)?.arg())
        }
        None => Ok(value),
    }
}
