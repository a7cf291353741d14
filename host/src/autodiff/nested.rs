//! Gradients of control flow: nested traces that compute gradients, made from nested traces.
//!
//! The gradient of a branch computes the branch again; that of a loop's body is carried from the last trip to the first,
//! over what each trip began with, which the forward keeps. So nothing from inside a branch or body is saved.

use super::backward::{self, Reverse};
use super::split::number_values;
use super::tape::{self, Tape};
use super::{AutodiffError, backward::accumulate};
use crate::ir::{
    Arg, Bsym, Device, Dim, Dtype, Name, NumKind, Output, Role, RoleKind, Stage, Stmt, SymKind, Symbol,
    TensorType, Trace, TraceParam, Type, ValueId,
};
use crate::ops::{Builder, Flow, OpError, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Nested traces by name, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct NestedTraces {
    by_name: FxHashMap<Name, Arc<Trace>>,
    names: Vec<Name>,
}

impl NestedTraces {
    /// The trace of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Trace>> {
        self.by_name.get(name)
    }

    /// All, in order.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Trace>> {
        self.names.iter().filter_map(|name| self.by_name.get(name))
    }

    /// Adds a trace under its own name, which is new.
    pub fn insert(&mut self, trace: Trace) {
        self.names.push(trace.name.clone());
        self.by_name.insert(trace.name.clone(), Arc::new(trace));
    }

    /// Adds a trace under a name like `wanted`; gives the name.
    fn add(&mut self, wanted: &str, mut trace: Trace) -> Name {
        let mut name: Name = wanted.into();
        let mut n = 1u32;
        while self.by_name.contains_key(&name) {
            name = format!("{wanted}_{n}").into();
            n += 1;
        }
        trace.name = name.clone();
        self.insert(trace);
        name
    }
}

/// A call of control flow as the forward makes it, and what it keeps for the backward: for a loop, the carried values
/// that the trips began with, stacked (numbers as tensors without dims).
pub(super) fn forward(
    tape: &mut Tape,
    bsym: &Bsym,
    flow: &Flow,
) -> Result<(Bsym, Vec<ValueId>), AutodiffError> {
    match flow {
        Flow::Cond { .. } => Ok((bsym.clone(), Vec::new())),
        Flow::While { carried, stacked: false, .. } => {
            let symbol = Symbol { kind: SymKind::Data, number: unused_symbol(&tape.trace) };
            let mut call = bsym.clone();
            call.op = "prims.while_loop_stacked".into();
            let kept = stacks_of(tape, carried, &Dim::symbol(symbol));
            call.results.extend(kept.iter().copied().map(Some));
            Ok((call, kept))
        }
        Flow::While { .. } => Err(no_rule(tape, bsym, "it keeps what its trips began with already")),
        Flow::Scan { init, .. } if init.is_empty() => Ok((bsym.clone(), Vec::new())),
        Flow::Scan { body, init, xs, .. } => {
            let n_trips = xs.iter().find_map(|x| tape.trace.ty(x.value()?).tensor()?.dims.first().cloned());
            let n_trips = n_trips.ok_or_else(|| no_rule(tape, bsym, "it has no slices"))?;
            let kept = stacks_of(tape, init, &n_trips);
            let found = found(tape, bsym, body)?;
            let mut keeping = Trace::clone(&found);
            for p in keeping.params.clone().iter().take(init.len()) {
                let value = match keeping.ty(p.value).clone() {
                    Type::Tensor(_) => Arg::Value(p.value),
                    Type::Number(n) => as_tensor(&mut keeping, bsym, p.value, n.kind)?,
                };
                keeping.outputs.push(Output { value, name: None });
            }
            let name = tape.nested.add(&format!("{body}_keeping"), keeping);
            let mut call = bsym.clone();
            call.args[0] = Arg::Trace(name);
            call.results.extend(kept.iter().copied().map(Some));
            Ok((call, kept))
        }
    }
}

/// New values for the carried values of each trip, stacked.
fn stacks_of(tape: &mut Tape, carried: &[Arg], n_trips: &Dim) -> Vec<ValueId> {
    let mut kept = Vec::new();
    for arg in carried {
        let (of, dims, dtype, device) = match arg.value().map(|v| (v, tape.trace.ty(v))) {
            Some((v, Type::Tensor(t))) => (Some(v), t.dims.to_vec(), t.dtype, t.device.clone()),
            Some((v, Type::Number(n))) => (Some(v), Vec::new(), dtype_of(n.kind), Device::Cpu),
            None => (None, Vec::new(), dtype_of(kind_of(arg)), Device::Cpu),
        };
        let name =
            of.map_or_else(|| "number.trips".into(), |v| format!("{}.trips", tape.trace.value(v).name));
        let dims = std::iter::once(n_trips.clone()).chain(dims).collect();
        kept.push(tape.trace.add_value(name, TensorType { dims, dtype, device }.into()));
    }
    kept
}

/// The kind of a literal number or a dim.
fn kind_of(arg: &Arg) -> NumKind {
    match arg {
        Arg::Float(_) => NumKind::Float,
        Arg::Bool(_) => NumKind::Bool,
        _ => NumKind::Int,
    }
}

/// What holds any number of that kind.
fn dtype_of(kind: NumKind) -> Dtype {
    match kind {
        NumKind::Int => Dtype::I64,
        NumKind::Float => Dtype::F64,
        NumKind::Bool => Dtype::Bool,
    }
}

/// A number of the trace as a tensor without dims.
fn as_tensor(trace: &mut Trace, bsym: &Bsym, number: ValueId, kind: NumKind) -> Result<Arg, AutodiffError> {
    let mut b = Builder::top(trace);
    let args = vec![Arg::dims(&[]), Arg::Value(number), Arg::Dtype(dtype_of(kind)), Arg::Device(Device::Cpu)];
    let tensor = b
        .tensor("prims.full", args)
        .map_err(|e| AutodiffError::rule(&bsym.op, "the number that it carries", e))?;
    let stmts = b.finish();
    trace.body.extend(stmts);
    Ok(tensor.arg())
}

/// Parameters that are numbers become tensors without dims, whose element the number is.
fn take_numbers(trace: &mut Trace, params: &mut [TraceParam]) {
    let mut items = Vec::new();
    for p in params {
        let Type::Number(n) = trace.ty(p.value).clone() else { continue };
        let name = format!("{}.trip", trace.value(p.value).name);
        let ty = TensorType { dims: Vec::new().into(), dtype: dtype_of(n.kind), device: Device::Cpu };
        let tensor = trace.add_value(name, ty.into());
        items.push(Stmt::Op(Bsym::new("prims.item", vec![Arg::Value(tensor)], vec![Some(p.value)])));
        p.value = tensor;
    }
    trace.body.splice(0..0, items);
}

/// The number after those of all data symbols of the trace.
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

fn found(tape: &Tape, bsym: &Bsym, name: &Name) -> Result<Arc<Trace>, AutodiffError> {
    let found = tape.nested.get(name).cloned();
    found.ok_or_else(|| no_rule(tape, bsym, &format!("there is no nested trace `{name}`")))
}

fn no_rule(tape: &Tape, bsym: &Bsym, what: &str) -> AutodiffError {
    let error = OpError { op: bsym.op.to_string(), what: what.to_owned() };
    AutodiffError::rule(&bsym.op, crate::ir::trace::origin(&tape.trace, bsym), error)
}

/// The gradients of a call of control flow whose results have these cotangents: emits the call that computes them.
pub(super) fn reverse(
    tape: &mut Tape,
    bsym: &Bsym,
    flow: &Flow,
    kept: &[ValueId],
    cotangents: &[Option<Tensor>],
    r: &mut Reverse,
    cotangent: &mut FxHashMap<ValueId, Tensor>,
) -> Result<(), AutodiffError> {
    let given = match flow {
        Flow::Cond { pred, then, otherwise, operands } => {
            reverse_cond(tape, bsym, [then, otherwise], pred, operands, cotangents)?
        }
        Flow::While { body, carried, extra, .. } => {
            let back = Back { body, init: carried, xs: &[], extra, reverse: false, kept };
            back.emit(tape, bsym, cotangents, r)?
        }
        Flow::Scan { body, init, xs, extra, reverse } => {
            let back = Back { body, init, xs, extra, reverse: *reverse, kept };
            back.emit(tape, bsym, cotangents, r)?
        }
    };
    let (mut call, gradients) = given;
    call.notes = bsym.notes.clone();
    r.body.push(call);
    for (operand, g) in gradients {
        if tape.active.contains(&operand) {
            accumulate(tape, r, cotangent, operand, g)?;
        }
    }
    Ok(())
}

/// A call, and which of its results is the gradient of which operand.
type Given = (Bsym, Vec<(ValueId, ValueId)>);

fn reverse_cond(
    tape: &mut Tape,
    bsym: &Bsym,
    branches: [&Name; 2],
    pred: &Arg,
    operands: &[Arg],
    cotangents: &[Option<Tensor>],
) -> Result<Given, AutodiffError> {
    let wanted: Vec<usize> = positions(operands, |v| tape.active.contains(&v));
    let of: Vec<usize> = present(cotangents);
    let mut args = vec![pred.clone()];
    for branch in branches {
        let trace = found(tape, bsym, branch)?;
        let gradient = vjp(&mut tape.nested, &trace, &wanted, &of)?;
        args.push(Arg::Trace(tape.nested.add(&format!("vjp_{branch}"), gradient)));
    }
    let given = of.iter().filter_map(|i| Some(cotangents[*i].as_ref()?.arg()));
    args.push(Arg::List(operands.iter().cloned().chain(given).collect()));
    let wanted: Vec<ValueId> = wanted.iter().filter_map(|i| operands[*i].value()).collect();
    let results: Vec<ValueId> = wanted.iter().map(|v| like(tape, *v)).collect();
    let call = Bsym::new(bsym.op.clone(), args, results.iter().copied().map(Some).collect());
    Ok((call, wanted.into_iter().zip(results).collect()))
}

/// The gradient of a loop: the gradient of its body, carried from the last trip to the first.
struct Back<'a> {
    body: &'a Name,
    init: &'a [Arg],
    xs: &'a [Arg],
    extra: &'a [Arg],
    reverse: bool,
    /// Carried values of each trip.
    kept: &'a [ValueId],
}

impl Back<'_> {
    fn emit(
        &self,
        tape: &mut Tape,
        bsym: &Bsym,
        cotangents: &[Option<Tensor>],
        r: &mut Reverse,
    ) -> Result<Given, AutodiffError> {
        let n_carried = self.init.len();
        let inexact = |tape: &Tape, a: &Arg| {
            a.value().is_some_and(|v| tape.trace.ty(v).tensor().is_some_and(|t| t.dtype.is_inexact()))
        };
        // All floating carried values have a gradient on the way, whoever asks for it.
        let carried: Vec<usize> = (0..n_carried).filter(|i| inexact(tape, &self.init[*i])).collect();
        let xs = positions(self.xs, |v| tape.active.contains(&v));
        let extra = positions(self.extra, |v| tape.active.contains(&v));
        let n_results = n_carried + self.n_stacked(tape, bsym)?;
        let stacked: Vec<usize> =
            present(cotangents).into_iter().filter(|i| (n_carried..n_results).contains(i)).collect();
        let (name, acc_types) = self.body_of_gradient(tape, bsym, &carried, &xs, &extra, &stacked)?;

        let mut init = Vec::new();
        for i in &carried {
            let like = self.init[*i].value().unwrap_or(ValueId(0));
            init.push(match &cotangents[*i] {
                Some(g) => g.arg(),
                None => Arg::Value(backward::zeros(tape, r, like)?),
            });
        }
        let extras: Vec<ValueId> = extra.iter().filter_map(|i| self.extra[*i].value()).collect();
        for v in &extras {
            init.push(Arg::Value(backward::zeros(tape, r, *v)?));
        }
        debug_assert_eq!(acc_types, extras.len());
        let given = stacked.iter().filter_map(|i| Some(cotangents[*i].as_ref()?.arg()));
        let kept = self.kept.iter().copied().map(Arg::Value);
        let slices: Vec<Arg> = self.xs.iter().cloned().chain(kept).chain(given).collect();
        let args = vec![
            Arg::Trace(name),
            Arg::List(init),
            Arg::List(slices),
            Arg::List(self.extra.to_vec()),
            Arg::Bool(!self.reverse),
        ];
        let operands: Vec<ValueId> = carried
            .iter()
            .filter_map(|i| self.init[*i].value())
            .chain(extras)
            .chain(xs.iter().filter_map(|i| self.xs[*i].value()))
            .collect();
        let results: Vec<ValueId> = operands.iter().map(|v| like(tape, *v)).collect();
        let call = Bsym::new("prims.scan", args, results.iter().copied().map(Some).collect());
        Ok((call, operands.into_iter().zip(results).collect()))
    }

    fn n_stacked(&self, tape: &Tape, bsym: &Bsym) -> Result<usize, AutodiffError> {
        let n = found(tape, bsym, self.body)?.outputs.len();
        n.checked_sub(self.init.len()).ok_or_else(|| no_rule(tape, bsym, "its body gives too few values"))
    }

    /// The body of the loop back: takes gradients of carried values and sums of gradients of `extra`; slices of `xs`,
    /// of what the trips began with and of cotangents; `extra`, and the number of the trip where the body wants it.
    fn body_of_gradient(
        &self,
        tape: &mut Tape,
        bsym: &Bsym,
        carried: &[usize],
        xs: &[usize],
        extra: &[usize],
        stacked: &[usize],
    ) -> Result<(Name, usize), AutodiffError> {
        let body = found(tape, bsym, self.body)?;
        let (n_carried, n_xs, n_extra) = (self.init.len(), self.xs.len(), self.extra.len());
        let own = body.params.len();
        if own < n_carried + n_xs + n_extra {
            return Err(no_rule(tape, bsym, "its body takes fewer operands than it is given"));
        }
        let wanted: Vec<usize> = carried
            .iter()
            .copied()
            .chain(extra.iter().map(|i| n_carried + n_xs + i))
            .chain(xs.iter().map(|i| n_carried + i))
            .collect();
        let of: Vec<usize> = carried.iter().chain(stacked).copied().collect();
        let mut back = vjp(&mut tape.nested, &body, &wanted, &of)?;
        let operand = |value| TraceParam { value, role: nested_role() };
        let all = back.params.clone();
        let (params, given) = all.split_at(own);
        let (given_carried, given_stacked) = given.split_at(carried.len());
        let mut sums = Vec::new();
        for i in extra {
            let p = &params[n_carried + n_xs + i];
            let name = format!("sum_{}", back.value(p.value).name);
            let ty = back.ty(p.value).clone();
            sums.push(operand(back.add_value(name, ty)));
        }
        let mut begun = params[..n_carried].to_vec();
        take_numbers(&mut back, &mut begun);
        back.params = given_carried
            .iter()
            .chain(&sums)
            .chain(&params[n_carried..n_carried + n_xs])
            .chain(&begun)
            .chain(given_stacked)
            .chain(&params[n_carried + n_xs..])
            .cloned()
            .collect();
        for (sum, at) in sums.iter().zip(carried.len()..) {
            let part = back.outputs[at].value.clone();
            let mut b = Builder::top(&mut back);
            let total = b
                .tensor("prims.add", vec![Arg::Value(sum.value), part])
                .map_err(|e| AutodiffError::rule(&bsym.op, "the sum of its gradients", e))?;
            let stmts = b.finish();
            back.body.extend(stmts);
            back.outputs[at].value = total.arg();
        }
        number_values(&mut back);
        Ok((tape.nested.add(&format!("vjp_{}", self.body), back), sums.len()))
    }
}

fn nested_role() -> Role {
    Role { kind: RoleKind::Operand, name: None, frozen: false }
}

/// A new value of the same type.
fn like(tape: &mut Tape, v: ValueId) -> ValueId {
    let ty = tape.trace.ty(v).clone();
    tape.trace.add_value("t", ty)
}

fn positions(args: &[Arg], is_wanted: impl Fn(ValueId) -> bool) -> Vec<usize> {
    (0..args.len()).filter(|i| args[*i].value().is_some_and(&is_wanted)).collect()
}

fn present(cotangents: &[Option<Tensor>]) -> Vec<usize> {
    (0..cotangents.len()).filter(|i| cotangents[*i].is_some()).collect()
}

/// A nested trace that takes what `trace` takes and cotangents of its outputs `of`, and gives the gradients of its
/// operands `wanted`. It computes what it needs of `trace` again.
fn vjp(
    nested: &mut NestedTraces,
    trace: &Trace,
    wanted: &[usize],
    of: &[usize],
) -> Result<Trace, AutodiffError> {
    let wanted: Vec<ValueId> = wanted.iter().filter_map(|i| Some(trace.params.get(*i)?.value)).collect();
    let mut tape = tape::lay_out(trace, &wanted, std::mem::take(nested))?;
    let walked = backward::walk(&mut tape, &wanted, &[], &|i| of.contains(&i));
    let Tape { trace: mut out, forward, nested: all, .. } = tape;
    *nested = all;
    let reverse = walked?;
    let made: FxHashSet<ValueId> = reverse.body.iter().flat_map(Bsym::defined).collect();
    for (v, g) in reverse.of_value.iter().filter(|(_, g)| made.contains(g)) {
        out.values[g.index()].name = format!("g_{}", out.value(*v).name).into();
    }
    for i in of {
        let given = reverse.cotangents.iter().find(|(at, _)| at == i).map(|(_, g)| *g);
        // An output that nothing wanted reaches has a cotangent all the same: both branches take the same operands.
        let value = given.unwrap_or_else(|| {
            let ty = trace.outputs.get(*i).and_then(|o| o.value.value()).map(|v| out.ty(v).clone());
            let ty = ty.unwrap_or_else(|| TensorType::new([], crate::ir::Dtype::F32).into());
            out.add_value(format!("g_out{i}"), ty)
        });
        let name = out.value(value).name.clone();
        let taken = out.params.iter().any(|p| out.value(p.value).name == name);
        if taken {
            out.values[value.index()].name = format!("{name}.{i}").into();
        }
        out.params.push(TraceParam { value, role: nested_role() });
    }
    let mut body = Vec::new();
    for stmt in forward {
        if stmt.parts.is_empty() {
            body.push(Stmt::Op(stmt.bsym));
        } else {
            body.extend(stmt.parts.into_iter().map(Stmt::Op));
        }
    }
    body.extend(reverse.body.into_iter().map(Stmt::Op));
    out.body = body;
    out.outputs =
        reverse.gradients.iter().map(|(_, g)| Output { value: Arg::Value(*g), name: None }).collect();
    out.save = Vec::new();
    out.stage = Stage::Acquired;
    number_values(&mut out);
    Ok(out)
}
