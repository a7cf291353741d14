//! The builder with which decompositions, importers, gradient rules and users write traces: it infers every result's
//! type from the op's meta rule, so nothing it emits can disagree with the table.

use super::call::Call;
use super::error::OpError;
use super::{Level, Meta, Op};
use crate::ir::{
    Arg, Bsym, Dim, Dtype, Name, NumberType, Stmt, SymKind, Symbol, TensorType, Trace, Type, ValueId,
};
use std::sync::Arc;

/// A tensor value with its type.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The value.
    pub id: ValueId,
    /// Its type.
    pub ty: Arc<TensorType>,
}

impl Tensor {
    /// Sizes.
    pub fn dims(&self) -> &[Dim] {
        &self.ty.dims
    }

    /// Number of dims.
    pub fn rank(&self) -> usize {
        self.ty.dims.len()
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.ty.dtype
    }

    /// As an argument.
    pub fn arg(&self) -> Arg {
        Arg::Value(self.id)
    }
}

/// A number: known, symbolic, or known only at run time.
#[derive(Clone, Debug)]
pub enum Num {
    /// i64.
    Int(i64),
    /// f64.
    Float(f64),
    /// true or false.
    Bool(bool),
    /// Complex.
    Complex(f64, f64),
    /// A size expression.
    Dim(Dim),
    /// A number value of the trace.
    Value(ValueId, NumberType),
}

impl Num {
    /// The number, if the argument is one.
    pub fn from_arg(arg: &Arg) -> Option<Num> {
        Some(match arg {
            Arg::Int(n) => Num::Int(*n),
            Arg::Float(x) => Num::Float(*x),
            Arg::Bool(b) => Num::Bool(*b),
            Arg::Complex(a, b) => Num::Complex(*a, *b),
            Arg::Dim(d) => Num::Dim(d.clone()),
            _ => return None,
        })
    }

    /// As an argument.
    pub fn to_arg(&self) -> Arg {
        match self {
            Num::Int(n) => Arg::Int(*n),
            Num::Float(x) => Arg::Float(*x),
            Num::Bool(b) => Arg::Bool(*b),
            Num::Complex(a, b) => Arg::Complex(*a, *b),
            Num::Dim(d) => Arg::dim(d.clone()),
            Num::Value(v, _) => Arg::Value(*v),
        }
    }
}

/// A tensor or a number.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tensor.
    Tensor(Tensor),
    /// A number.
    Num(Num),
}

impl Operand {
    /// As an argument.
    pub fn to_arg(&self) -> Arg {
        match self {
            Operand::Tensor(t) => t.arg(),
            Operand::Num(n) => n.to_arg(),
        }
    }

    /// The tensor, if it is one.
    pub fn tensor(&self) -> Option<&Tensor> {
        match self {
            Operand::Tensor(t) => Some(t),
            Operand::Num(_) => None,
        }
    }
}

impl From<Tensor> for Operand {
    fn from(t: Tensor) -> Operand {
        Operand::Tensor(t)
    }
}

impl From<&Tensor> for Operand {
    fn from(t: &Tensor) -> Operand {
        Operand::Tensor(t.clone())
    }
}

impl From<Num> for Operand {
    fn from(n: Num) -> Operand {
        Operand::Num(n)
    }
}

impl From<f64> for Operand {
    fn from(x: f64) -> Operand {
        Operand::Num(Num::Float(x))
    }
}

impl From<i32> for Operand {
    fn from(n: i32) -> Operand {
        Operand::Num(Num::Int(n.into()))
    }
}

impl From<i64> for Operand {
    fn from(n: i64) -> Operand {
        Operand::Num(Num::Int(n))
    }
}

/// Emits calls into a trace. What it emits is collected in order and taken with [`Builder::finish`].
pub struct Builder<'t> {
    trace: &'t mut Trace,
    body: Vec<Stmt>,
    prefix: Option<Name>,
    next: u32,
    notes: crate::ir::Notes,
    written: Vec<(Name, Arg)>,
}

impl<'t> Builder<'t> {
    /// Emits values named `prefix.0`, `prefix.1`, …: inside the decomposition of the value of that name.
    pub fn nested(trace: &'t mut Trace, prefix: impl Into<Name>) -> Builder<'t> {
        Builder {
            trace,
            body: Vec::new(),
            prefix: Some(prefix.into()),
            next: 0,
            notes: Vec::new(),
            written: Vec::new(),
        }
    }

    /// Emits values named `t0`, `t1`, … counting from the number of values in the trace's table, at top level.
    /// The caller renames what has a better name.
    pub fn top(trace: &'t mut Trace) -> Builder<'t> {
        let next = trace.values.len() as u32;
        Builder { trace, body: Vec::new(), prefix: None, next, notes: Vec::new(), written: Vec::new() }
    }

    /// Notes for every call emitted from here on.
    pub fn set_notes(&mut self, notes: crate::ir::Notes) {
        self.notes = notes;
    }

    /// The trace that is written to.
    pub fn trace(&self) -> &Trace {
        self.trace
    }

    /// The statements emitted so far, in order.
    pub fn finish(self) -> Vec<Stmt> {
        self.body
    }

    /// For import rules: the ATen call writes its argument of that name, which has this value afterwards. Wanted where
    /// the written argument is no result of the call (running statistics of norms).
    pub fn write(&mut self, aten_arg: &str, value: Arg) {
        self.written.push((aten_arg.into(), value));
    }

    /// What import rules said with [`Builder::write`] since the last time.
    pub fn take_written(&mut self) -> Vec<(Name, Arg)> {
        std::mem::take(&mut self.written)
    }

    /// Calls `op` with `args` in schema order; trailing arguments may be left out where they have defaults.
    /// Gives one argument for each result (absent ones are `Arg::None`).
    pub fn call(&mut self, op: &str, args: Vec<Arg>) -> Result<Vec<Arg>, OpError> {
        let entry = super::find(op)
            .ok_or_else(|| OpError { op: op.into(), what: "is not in the op table".into() })?;
        self.call_op(entry, args)
    }

    /// As [`Builder::call`], for an entry at hand.
    pub fn call_op(&mut self, op: &'static Op, args: Vec<Arg>) -> Result<Vec<Arg>, OpError> {
        self.call_recorded(op, args, &[])
    }

    /// As [`Builder::call_op`], where the types of the results are known from elsewhere (the model file): dims that
    /// the meta rule leaves undecided, and sizes known only at run time, are those recorded.
    pub fn call_recorded(
        &mut self,
        op: &'static Op,
        mut args: Vec<Arg>,
        recorded: &[Option<Type>],
    ) -> Result<Vec<Arg>, OpError> {
        let schema = super::table::schema_of(op);
        for p in schema.params.iter().skip(args.len()) {
            let value = p
                .absent_value()
                .ok_or_else(|| OpError { op: op.name.into(), what: format!("`{}` is missing", p.name) })?;
            args.push(value);
        }
        let types = result_types_recorded(op, self.trace, &args, recorded.to_vec())?;
        let results: Vec<Option<ValueId>> = types.into_iter().map(|t| t.map(|t| self.fresh(t))).collect();
        let given = results.iter().map(|r| r.map_or(Arg::None, Arg::Value)).collect();
        let mut bsym = Bsym::new(op.name, args, results);
        bsym.notes = self.notes.clone();
        self.body.push(Stmt::Op(bsym));
        Ok(given)
    }

    /// As [`Builder::call`], for an op with exactly one tensor result.
    pub fn tensor(&mut self, op: &str, args: Vec<Arg>) -> Result<Tensor, OpError> {
        let results = self.call(op, args)?;
        match results.as_slice() {
            [Arg::Value(v)] => self.as_tensor(*v),
            _ => Err(OpError {
                op: op.into(),
                what: format!("has {} results, one tensor was wanted", results.len()),
            }),
        }
    }

    /// The tensor of that value.
    pub fn as_tensor(&self, id: ValueId) -> Result<Tensor, OpError> {
        match self.trace.ty(id) {
            Type::Tensor(ty) => Ok(Tensor { id, ty: ty.clone() }),
            Type::Number(_) => Err(OpError {
                op: "builder".into(),
                what: format!("%{} is a number", self.trace.value(id).name),
            }),
        }
    }

    /// Adds a call that the table does not know (an opaque op), with the given result types.
    pub fn opaque(&mut self, bsym: Bsym) {
        self.body.push(Stmt::Op(bsym));
    }

    /// A new value of that type, with the next name.
    pub fn fresh(&mut self, ty: Type) -> ValueId {
        let name: Name = match &self.prefix {
            Some(p) => format!("{p}.{}", self.next).into(),
            None => format!("t{}", self.next).into(),
        };
        self.next += 1;
        self.trace.add_value(name, ty)
    }
}

/// The types of the results of `op` on `args` (schema order, complete).
pub fn result_types(op: &'static Op, trace: &mut Trace, args: &[Arg]) -> Result<Vec<Option<Type>>, OpError> {
    result_types_recorded(op, trace, args, Vec::new())
}

/// As [`result_types`], where types are known from elsewhere: what is printed in a trace, or recorded in a model file.
/// A dim that the meta rule cannot decide is the recorded one (rule 4 of the trace format); one that contradicts it is
/// an error with both values. Empty `recorded`: nothing is known.
pub fn result_types_recorded(
    op: &'static Op,
    trace: &mut Trace,
    args: &[Arg],
    recorded: Vec<Option<Type>>,
) -> Result<Vec<Option<Type>>, OpError> {
    let call = recorded_call(op, trace, args, recorded)?;
    let mut types = inferred_types(op, trace, &call)?;
    if call.results.len() == types.len() {
        for (ty, known) in types.iter_mut().zip(&call.results) {
            super::meta::reconcile(&call, ty, known)?;
        }
    }
    Ok(name_sizes(trace, types))
}

/// The types that the meta rule gives, sizes that it can decide as it decides them: what is printed (`recorded`) only
/// says what the rule cannot know. For checking a trace against the table.
pub fn ruled_types(
    op: &'static Op,
    trace: &mut Trace,
    args: &[Arg],
    recorded: Vec<Option<Type>>,
) -> Result<Vec<Option<Type>>, OpError> {
    let call = recorded_call(op, trace, args, recorded)?;
    inferred_types(op, trace, &call)
}

fn recorded_call(
    op: &'static Op,
    trace: &Trace,
    args: &[Arg],
    recorded: Vec<Option<Type>>,
) -> Result<Call, OpError> {
    let mut call = Call::new(op.name, super::table::schema_of(op), trace, args)?;
    super::meta::check_classes(&call)?;
    call.results = recorded;
    Ok(call)
}

fn inferred_types(op: &'static Op, trace: &mut Trace, call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    match (&op.meta, &op.level) {
        (Meta::Fn(f), _) => f(call),
        (Meta::FromDecomposition, Level::Composite(decompose)) => {
            // Emitted into the caller's table and cut off again: a scratch trace would need a copy of all types.
            let mark = trace.values.len();
            let mut scratch = Builder::nested(trace, "meta");
            let yields = decompose(&mut scratch, call);
            let types = yields.map(|ys| ys.iter().map(|y| y.value().map(|v| trace.ty(v).clone())).collect());
            trace.values.truncate(mark);
            types
        }
        (Meta::FromDecomposition, Level::Prim) => {
            Err(call.error("has neither a meta rule nor a decomposition: the op table is wrong"))
        }
    }
}

/// Gives the sizes that a meta rule left unnamed ([`super::meta::data_size`]) the first symbols `u…` that the trace
/// does not use.
fn name_sizes(trace: &Trace, types: Vec<Option<Type>>) -> Vec<Option<Type>> {
    let is_unnamed = |d: &Dim| d.as_symbol().is_some_and(super::meta::is_unnamed);
    let tensors = || types.iter().flatten().filter_map(Type::tensor);
    if !tensors().any(|t| t.dims.iter().any(is_unnamed)) {
        return types;
    }
    let first = unused_symbol(trace);
    let named = |s: Symbol| {
        super::meta::is_unnamed(s).then(|| Dim::symbol(Symbol { number: first + (u32::MAX - s.number), ..s }))
    };
    let rename = |t: &Type| match t {
        Type::Tensor(ty) => {
            let dims = ty.dims.iter().map(|d| d.substitute(&named)).collect();
            TensorType { dims, ..TensorType::clone(ty) }.into()
        }
        number => number.clone(),
    };
    types.iter().map(|t| t.as_ref().map(rename)).collect()
}

/// The number after those of all data symbols in the trace's types. Calls with a size of their own are few, so a walk
/// over all values is cheap enough.
fn unused_symbol(trace: &Trace) -> u32 {
    let mut next = 0;
    let mut see = |d: &Dim| {
        d.for_each_symbol(&mut |s| {
            if s.kind == SymKind::Data {
                next = next.max(s.number.saturating_add(1));
            }
        });
    };
    for v in &trace.values {
        match &v.ty {
            Type::Tensor(t) => t.dims.iter().for_each(&mut see),
            Type::Number(n) => n.equals.iter().for_each(&mut see),
        }
    }
    next
}

/// The decomposition of a call of a composite: its statements and what they yield. None for prims and unknown ops.
/// `results` are the types that the call's results have in the trace; values are named after the first result.
pub fn decompose(trace: &mut Trace, bsym: &Bsym) -> Result<Option<crate::ir::Block>, OpError> {
    if let Some(block) = &bsym.block {
        return Ok(Some((**block).clone()));
    }
    let Some(op) = super::find(&bsym.op) else { return Ok(None) };
    let Level::Composite(f) = &op.level else { return Ok(None) };
    let mut call = Call::new(op.name, super::table::schema_of(op), trace, &bsym.args)?;
    call.results = bsym.results.iter().map(|r| r.map(|v| trace.ty(v).clone())).collect();
    let prefix = bsym.defined().next().map_or_else(|| Name::from("none"), |v| trace.value(v).name.clone());
    let mark = trace.values.len();
    let mut b = Builder::nested(trace, prefix);
    let mut yields = f(&mut b, &call)?;
    own_yields(&mut b, mark, &mut yields)?;
    let mut body = b.finish();
    take_names_of_sizes(trace, &call.results, mark, &mut body, &yields);
    if yields.len() != bsym.results.len() {
        let what =
            format!("decomposition yields {} values, it has {} results", yields.len(), bsym.results.len());
        return Err(OpError { op: op.name.into(), what });
    }
    Ok(Some(crate::ir::Block { body, yields }))
}

/// Every result of a block is defined in it, once: where nothing was to be done, or one value is several results, it is
/// another name for the value.
fn own_yields(b: &mut Builder<'_>, mark: usize, yields: &mut [Arg]) -> Result<(), OpError> {
    for i in 0..yields.len() {
        let Arg::Value(v) = yields[i] else { continue };
        let tensor = b.trace.ty(v).tensor().is_some();
        if tensor && (v.index() < mark || yields[..i].contains(&yields[i])) {
            yields[i] = b.tensor("prims.shallow_copy", vec![Arg::Value(v)])?.arg();
        }
    }
    Ok(())
}

/// Sizes known at run time only have a name in the types that the results have already: what the decomposition found
/// for itself (in values from `mark` on) takes these names.
fn take_names_of_sizes(
    trace: &mut Trace,
    results: &[Option<Type>],
    mark: usize,
    body: &mut [Stmt],
    yields: &[Arg],
) {
    let mut names: Vec<(Symbol, Dim)> = Vec::new();
    for (result, y) in results.iter().zip(yields) {
        let (Some(Type::Tensor(want)), Some(v)) = (result, y.value()) else { continue };
        let Type::Tensor(found) = trace.ty(v) else { continue };
        for (f, w) in found.dims.iter().zip(&want.dims) {
            if let Some(s) = f.as_symbol()
                && s.kind == SymKind::Data
                && v.index() >= mark
                && f != w
            {
                names.push((s, w.clone()));
            }
        }
    }
    if names.is_empty() {
        return;
    }
    let name = |s: Symbol| names.iter().find(|(from, _)| *from == s).map(|(_, to)| to.clone());
    for v in &mut trace.values[mark..] {
        if let Type::Tensor(ty) = &v.ty {
            let dims = ty.dims.iter().map(|d| d.substitute(&name)).collect();
            v.ty = TensorType { dims, ..TensorType::clone(ty) }.into();
        }
    }
    for stmt in body {
        if let Stmt::Op(bsym) = stmt {
            bsym.args = bsym.args.iter().map(|a| rename_sizes(a, &name)).collect();
        }
    }
}

fn rename_sizes(arg: &Arg, name: &dyn Fn(Symbol) -> Option<Dim>) -> Arg {
    match arg {
        Arg::Dim(d) => Arg::dim(d.substitute(name)),
        Arg::List(items) => Arg::List(items.iter().map(|a| rename_sizes(a, name)).collect()),
        other => other.clone(),
    }
}
