//! The reverse walk: from cotangents of outputs to gradients, each node's rule called once.

use super::AutodiffError;
use super::tape::{Node, Tape};
use crate::ir::trace::origin;
use crate::ir::{Arg, Bsym, Device, Stmt, TensorType, Type, ValueId};
use crate::ops::{self, Builder, Call, Grad, OpError, Tensor, Vjp};
use rustc_hash::FxHashMap;

/// What the walk gives.
pub struct Reverse {
    /// Statements of the backward, in order; they use values of the forward and of each other.
    pub body: Vec<Bsym>,
    /// Outputs (by index) with their cotangents, which are parameters of the backward.
    pub cotangents: Vec<(usize, ValueId)>,
    /// For each wanted value, its gradient.
    pub gradients: Vec<(ValueId, ValueId)>,
    /// Gradients of values on the way, for their names.
    pub of_value: Vec<(ValueId, ValueId)>,
}

/// Walks the tape in reverse. `ties` are values that are one parameter under several names; `takes` says by index which
/// outputs may have a cotangent.
pub fn walk(
    tape: &mut Tape,
    wanted: &[ValueId],
    ties: &[Vec<ValueId>],
    takes: &dyn Fn(usize) -> bool,
) -> Result<Reverse, AutodiffError> {
    let mut r =
        Reverse { body: Vec::new(), cotangents: Vec::new(), gradients: Vec::new(), of_value: Vec::new() };
    let mut cotangent: FxHashMap<ValueId, Tensor> = FxHashMap::default();
    let outputs: Vec<(usize, ValueId)> = tape
        .trace
        .outputs
        .iter()
        .enumerate()
        .filter_map(|(i, o)| Some((i, o.value.value()?)))
        .filter(|(i, v)| tape.active.contains(v) && takes(*i))
        .collect();
    for (i, v) in outputs {
        let ty = tape.trace.ty(v).clone();
        let name = format!("g_{}", tape.trace.value(v).name);
        let g = tape.trace.add_value(name, ty);
        r.cotangents.push((i, g));
        accumulate(tape, &mut r, &mut cotangent, v, g)?;
    }
    for at in (0..tape.nodes.len()).rev() {
        node(tape, at, &mut r, &mut cotangent)?;
    }
    for tie in ties {
        let mut parts = tie.iter().filter_map(|v| cotangent.get(v).cloned());
        let Some(first) = parts.next() else { continue };
        let rest: Vec<Tensor> = parts.collect();
        let (one, others) = (tie[0], rest);
        cotangent.insert(one, first);
        for g in others {
            accumulate(tape, &mut r, &mut cotangent, one, g.id)?;
        }
        let whole = cotangent[&one].clone();
        cotangent.extend(tie.iter().map(|v| (*v, whole.clone())));
    }
    for v in wanted {
        let g = match cotangent.get(v) {
            Some(g) => g.id,
            None => zeros(tape, &mut r, *v)?,
        };
        r.gradients.push((*v, g));
    }
    r.of_value = cotangent.iter().map(|(v, g)| (*v, g.id)).collect();
    r.of_value.sort_unstable();
    Ok(r)
}

fn node(
    tape: &mut Tape,
    at: usize,
    r: &mut Reverse,
    cotangent: &mut FxHashMap<ValueId, Tensor>,
) -> Result<(), AutodiffError> {
    let Node { bsym, op, extra } = &tape.nodes[at];
    let cotangents: Vec<Option<Tensor>> =
        bsym.results.iter().map(|v| v.and_then(|v| cotangent.get(&v).cloned())).collect();
    if cotangents.iter().all(Option::is_none) {
        return Ok(());
    }
    let (bsym, op, extra) = (bsym.clone(), *op, extra.clone());
    let Some(op) = op else { return opaque(tape, &bsym, &cotangents, r, cotangent) };
    if let Some(flow) = ops::Flow::of(op, &bsym.args) {
        return super::nested::reverse(tape, &bsym, &flow, &extra, &cotangents, r, cotangent);
    }
    let place = origin(&tape.trace, &bsym);
    let fail = |e: OpError| AutodiffError::rule(op.name, &place, e);
    let rule = match op.vjp {
        Vjp::Rule(rule) | Vjp::Augmented { backward: rule, .. } => rule,
        _ => return Ok(()),
    };
    let mut call = Call::new(op.name, ops::table::schema_of(op), &tape.trace, &bsym.args).map_err(fail)?;
    call.results = bsym.results.iter().map(|v| v.map(|v| tape.trace.ty(v).clone())).collect();
    let tensor =
        |tape: &Tape, v: ValueId| tape.trace.ty(v).tensor().map(|ty| Tensor { id: v, ty: ty.clone() });
    let outputs: Vec<Option<Tensor>> = bsym.results.iter().map(|v| v.and_then(|v| tensor(tape, v))).collect();
    let extra: Vec<Tensor> = extra.iter().filter_map(|v| tensor(tape, *v)).collect();
    let inputs = call.all_tensors();
    let wanted: Vec<bool> = inputs.iter().map(|t| tape.active.contains(&t.id)).collect();
    let grad =
        Grad { call: &call, outputs: &outputs, extra: &extra, cotangents: &cotangents, wanted: &wanted };
    let mut b = Builder::top(&mut tape.trace);
    b.set_notes(bsym.notes.clone());
    let given = rule(&mut b, &grad).map_err(fail)?;
    let stmts = b.finish();
    push(r, stmts);
    if given.len() != inputs.len() {
        let what = format!("its rule gives {} gradients for {} tensors", given.len(), inputs.len());
        return Err(fail(OpError { op: op.name.into(), what }));
    }
    for ((input, g), wants) in inputs.iter().zip(given).zip(wanted) {
        if let (Some(g), true) = (g, wants) {
            let differs = g.dtype() != input.dtype()
                || g.rank() != input.rank()
                || g.dims().iter().zip(input.dims()).any(|(a, b)| a.same(b) == Some(false));
            if differs {
                let (g, i) = (shown(&g.ty), shown(&input.ty));
                let what = format!("its rule gives a gradient {g} for an input {i}");
                return Err(fail(OpError { op: op.name.into(), what }));
            }
            accumulate(tape, r, cotangent, input.id, g.id)?;
        }
    }
    Ok(())
}

/// The gradient of an opaque op: `vjp.` before its name, the cotangents, then the op's own arguments; a result for each of
/// its floating tensor arguments, absent (and said so by `wanted`) where nobody wants it. Who runs it knows the rule.
fn opaque(
    tape: &mut Tape,
    bsym: &Bsym,
    cotangents: &[Option<Tensor>],
    r: &mut Reverse,
    cotangent: &mut FxHashMap<ValueId, Tensor>,
) -> Result<(), AutodiffError> {
    let op = format!("vjp.{}", bsym.op);
    let mut args: Vec<Arg> = cotangents.iter().map(|g| g.as_ref().map_or(Arg::None, Tensor::arg)).collect();
    if ops::aten_schema::gives_list(&bsym.op) {
        args = vec![Arg::List(args)];
    }
    args.extend(bsym.args.iter().cloned());
    let mut inputs = Vec::new();
    bsym.for_each_use(&mut |v| {
        if tape.trace.ty(v).tensor().is_some_and(|t| t.dtype.is_inexact()) {
            inputs.push(v);
        }
    });
    let wanted: Vec<bool> = inputs.iter().map(|v| tape.active.contains(v)).collect();
    let gradients: Vec<Option<ValueId>> = inputs
        .iter()
        .zip(&wanted)
        .map(|(v, wanted)| {
            let ty = tape.trace.ty(*v).clone();
            wanted.then(|| tape.trace.add_value("t", ty))
        })
        .collect();
    let all = wanted.iter().all(|wanted| *wanted);
    let wanted = if all { Arg::None } else { Arg::List(wanted.into_iter().map(Arg::Bool).collect()) };
    let mut call = Bsym::new(op, args, gradients.clone());
    call.named = bsym.named.clone();
    call.notes = bsym.notes.clone();
    // An op without a schema has its arguments by name.
    match ops::schemas().schema(&call.op) {
        Some(_) => call.args.push(wanted),
        None if !wanted.is_none() => call.named.push(("wanted".into(), wanted)),
        None => {}
    }
    r.body.push(call);
    for (input, g) in inputs.into_iter().zip(gradients) {
        if let Some(g) = g {
            accumulate(tape, r, cotangent, input, g)?;
        }
    }
    Ok(())
}

fn shown(t: &TensorType) -> String {
    format!("{}{}", t.dtype, ops::meta::show(&t.dims))
}

/// Adds `g` to what is known of the cotangent of `v`.
pub(super) fn accumulate(
    tape: &mut Tape,
    r: &mut Reverse,
    cotangent: &mut FxHashMap<ValueId, Tensor>,
    v: ValueId,
    g: ValueId,
) -> Result<(), AutodiffError> {
    let Some(ty) = tape.trace.ty(g).tensor().cloned() else { return Ok(()) };
    let g = Tensor { id: g, ty };
    let sum = match cotangent.get(&v) {
        None => g,
        Some(old) => {
            let old = old.clone();
            let mut b = Builder::top(&mut tape.trace);
            let sum =
                b.add(&old, &g).map_err(|e| AutodiffError::rule("the sum of gradients", "backward", e))?;
            let stmts = b.finish();
            push(r, stmts);
            sum
        }
    };
    cotangent.insert(v, sum);
    Ok(())
}

/// Zeros like `v`, for what no gradient reaches.
pub(super) fn zeros(tape: &mut Tape, r: &mut Reverse, v: ValueId) -> Result<ValueId, AutodiffError> {
    let (dims, dtype, device) = match tape.trace.ty(v) {
        Type::Tensor(t) => (t.dims.clone(), t.dtype, t.device.clone()),
        Type::Number(_) => (Vec::new(), crate::ir::Dtype::F32, Device::Cpu),
    };
    let mut b = Builder::top(&mut tape.trace);
    let zero = b.full(&dims, 0.0, dtype, &device).map_err(|e| AutodiffError::rule("zeros", "backward", e))?;
    let stmts = b.finish();
    push(r, stmts);
    Ok(zero.id)
}

fn push(r: &mut Reverse, stmts: Vec<Stmt>) {
    r.body.extend(stmts.into_iter().filter_map(|s| if let Stmt::Op(b) = s { Some(b) } else { None }));
}
