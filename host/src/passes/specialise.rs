//! Concrete sizes: symbols replaced by their values, and every op's dims worked out again.
//!
//! A model file records dims under guards (a slice end within the row, a cache write within the cache). With concrete
//! numbers each op's meta rule says what really comes out; a difference from the recorded dims means that the inputs
//! break a guard, and is an error before anything runs.

use crate::ir::{Arg, Block, Bsym, Dim, NumberType, Output, Stmt, Symbol, TensorType, Trace, Type};
use crate::ops;

/// Sizes that do not fit what the model recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
#[error("{what} (at {origin})")]
#[diagnostic(code(passes::guard))]
pub struct GuardError {
    /// What differs, with both values.
    pub what: String,
    /// The model's node, or the value.
    pub origin: String,
}

/// `trace` with the symbols of `sizes` replaced.
pub fn specialise(trace: &Trace, sizes: &dyn Fn(Symbol) -> Option<i64>) -> Result<Trace, GuardError> {
    let mut out = substituted(trace, sizes);
    for at in 0..out.body.len() {
        let Stmt::Op(bsym) = &out.body[at] else { continue };
        let bsym = bsym.clone();
        check(&mut out, &bsym)?;
    }
    Ok(out)
}

/// `trace` with the symbols of `sizes` replaced, and nothing checked.
pub(super) fn substituted(trace: &Trace, sizes: &dyn Fn(Symbol) -> Option<i64>) -> Trace {
    let env = |s: Symbol| sizes(s).map(Dim::Known);
    let mut out = trace.clone();
    for v in &mut out.values {
        v.ty = concrete_type(&v.ty, &env);
    }
    out.body = trace.body.iter().map(|s| concrete_stmt(s, &env)).collect();
    out.outputs = trace
        .outputs
        .iter()
        .map(|o| Output { value: concrete_arg(&o.value, &env), name: o.name.clone() })
        .collect();
    out
}

fn concrete_type(ty: &Type, env: &dyn Fn(Symbol) -> Option<Dim>) -> Type {
    match ty {
        Type::Tensor(t) if t.dims.iter().any(|d| d.known().is_none()) => TensorType {
            dims: t.dims.iter().map(|d| d.substitute(env)).collect(),
            dtype: t.dtype,
            device: t.device.clone(),
        }
        .into(),
        Type::Number(n) => {
            Type::Number(NumberType { kind: n.kind, equals: n.equals.as_ref().map(|d| d.substitute(env)) })
        }
        other => other.clone(),
    }
}

fn concrete_stmt(stmt: &Stmt, env: &dyn Fn(Symbol) -> Option<Dim>) -> Stmt {
    match stmt {
        Stmt::Op(b) => Stmt::Op(Bsym {
            args: b.args.iter().map(|a| concrete_arg(a, env)).collect(),
            named: b.named.iter().map(|(n, a)| (n.clone(), concrete_arg(a, env))).collect(),
            block: b.block.as_ref().map(|block| {
                Box::new(Block {
                    body: block.body.iter().map(|s| concrete_stmt(s, env)).collect(),
                    yields: block.yields.iter().map(|a| concrete_arg(a, env)).collect(),
                })
            }),
            ..b.clone()
        }),
        Stmt::Del(v) => Stmt::Del(v.clone()),
    }
}

fn concrete_arg(arg: &Arg, env: &dyn Fn(Symbol) -> Option<Dim>) -> Arg {
    match arg {
        Arg::Dim(d) => Arg::dim(d.substitute(env)),
        Arg::List(items) => Arg::List(items.iter().map(|a| concrete_arg(a, env)).collect()),
        other => other.clone(),
    }
}

/// Are the result's concrete dims those that the op gives?
fn check(trace: &mut Trace, bsym: &Bsym) -> Result<(), GuardError> {
    let Some(op) = ops::find(&bsym.op) else { return Ok(()) };
    let origin = || crate::ir::trace::origin(trace, bsym).to_string();
    let at = origin();
    let recorded: Vec<Option<Type>> = bsym.results.iter().map(|r| r.map(|v| trace.ty(v).clone())).collect();
    let given = ops::build::result_types_recorded(op, trace, &bsym.args, recorded.clone())
        .map_err(|e| GuardError { what: e.to_string(), origin: at.clone() })?;
    for (r, g) in recorded.iter().zip(&given) {
        let (Some(Type::Tensor(r)), Some(Type::Tensor(g))) = (r, g) else { continue };
        let differs =
            r.dims.len() != g.dims.len() || r.dims.iter().zip(&g.dims).any(|(a, b)| a.same(b) == Some(false));
        if differs {
            let (r, g) = (ops::meta::show(&r.dims), ops::meta::show(&g.dims));
            let what = format!("`{}` gives {g}, the model recorded {r}", bsym.op);
            return Err(GuardError { what, origin: at });
        }
    }
    Ok(())
}
