//! Optimisers, one parameter an op. All are computed in the accumulation dtype (f32 for f16 and bf16) and rounded once;
//! the meaning of each number is PyTorch's (`torch.optim`), the gradient's sign and the first step included.
//!
//! Beside the ops: [`Optimizer`], which writes the trace that updates one parameter and its state in place. Which
//! parameters there are, and when they are updated, is the business of `run`.

use super::build::{Builder, Num, Tensor};
use super::number::{NUM_MUL, NUM_POW, NUM_SQRT, NUM_SUB, NUM_TRUEDIV};
use super::{Call, HostOp, Level, Meta, Op, OpError, Sample, Traits, Vjp, meta};
use crate::ir::{
    Arg, Name, NumKind, NumberType, Role, RoleKind, Stage, TensorType, Trace, TraceParam, Type, ValueId,
};

/// Every op of this family.
pub static OPS: &[&Op] = &[&OPTIM_SGD, &OPTIM_ADAM, &OPTIM_ADAMW];

const OPTIMISER: Op = Op { vjp: Vjp::NonDiff, traits: Traits::POINTWISE, ..Op::BASE };

pub static OPTIM_SGD: Op = Op {
    name: "optim.sgd",
    doc: "Gradient descent: the new parameter and, with momentum, the new buffer. `weight_decay * p` joins the gradient; \
          the buffer is `momentum * buf + (1 - dampening) * g`, and the gradient itself at the first step, when it is absent.",
    schema: "(p: Tensor, g: Tensor, buf: Tensor?, *, lr: num, momentum: num, dampening: num, weight_decay: num, \
             nesterov: bool, maximize: bool) -> (Tensor, Tensor?)",
    level: Level::Composite(sgd),
    meta: Meta::Fn(|call| {
        let p = alike(call, &["g", "buf"])?;
        let buffer = (call.float("momentum")? != 0.0).then(|| p.clone());
        Ok(vec![Some(p), buffer])
    }),
    samples: &[
        Sample(
            "T[2, 3], T[2, 3], none, lr=0.1, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=false, maximize=false",
        ),
        Sample(
            "T[2, 3], T[2, 3], none, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.01, nesterov=false, maximize=false",
        ),
        Sample(
            "T[4], T[4], T[4], lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.01, nesterov=false, maximize=true",
        ),
        Sample(
            "T[], T[], T[], lr=0.01, momentum=0.9, dampening=0.0, weight_decay=0.0, nesterov=true, maximize=false",
        ),
        Sample(
            "T[0, 3], T[0, 3], T[0, 3], lr=0.1, momentum=0.9, dampening=0.0, weight_decay=0.0, nesterov=false, maximize=false",
        ),
        Sample(
            "T[4]{nonfinite}, T[4]{nonfinite}, T[4], lr=0.1, momentum=0.9, dampening=0.0, weight_decay=0.1, nesterov=false, maximize=false",
        ),
    ],
    ..OPTIMISER
};

pub static OPTIM_ADAM: Op = Op {
    name: "optim.adam",
    doc: "Adam: the new parameter, first and second moments, and with `amsgrad` the largest second moment. `weight_decay * p` \
          joins the gradient. `step` counts from 1.",
    schema: ADAM_SCHEMA,
    level: Level::Composite(|b, call| adam(b, call, Decay::Coupled)),
    meta: Meta::Fn(adam_meta),
    samples: ADAM_SAMPLES,
    ..OPTIMISER
};

pub static OPTIM_ADAMW: Op = Op {
    name: "optim.adamw",
    doc: "As `optim.adam`, with the decay apart from the gradient: the parameter is first scaled by `1 - lr * weight_decay`.",
    schema: ADAM_SCHEMA,
    level: Level::Composite(|b, call| adam(b, call, Decay::Decoupled)),
    meta: Meta::Fn(adam_meta),
    samples: ADAM_SAMPLES,
    ..OPTIMISER
};

const ADAM_SCHEMA: &str = "(p: Tensor, g: Tensor, m: Tensor, v: Tensor, vmax: Tensor?, step: num, *, lr: num, beta1: num, \
                           beta2: num, eps: num, weight_decay: num, amsgrad: bool, maximize: bool) -> \
                           (Tensor, Tensor, Tensor, Tensor?)";

const ADAM_SAMPLES: &[Sample] = &[
    Sample(
        "T[2, 3], T[2, 3], T[2, 3], T[2, 3]{pos}, none, step=1, lr=0.1, beta1=0.9, beta2=0.999, eps=1e-08, \
         weight_decay=0.0, amsgrad=false, maximize=false",
    ),
    Sample(
        "T[2, 3], T[2, 3], T[2, 3], T[2, 3]{pos}, T[2, 3]{pos}, step=7, lr=0.1, beta1=0.9, beta2=0.99, eps=1e-06, \
         weight_decay=0.01, amsgrad=true, maximize=false",
    ),
    Sample(
        "T[], T[], T[], T[]{pos}, none, step=2, lr=0.01, beta1=0.5, beta2=0.9, eps=0.001, weight_decay=0.1, \
         amsgrad=false, maximize=true",
    ),
    Sample(
        "T[0, 3], T[0, 3], T[0, 3], T[0, 3], none, step=1, lr=0.1, beta1=0.9, beta2=0.999, eps=1e-08, \
         weight_decay=0.0, amsgrad=false, maximize=false",
    ),
    Sample(
        "T[4], T[4]{nonfinite}, T[4], T[4]{pos}, T[4]{pos}, step=3, lr=0.1, beta1=0.9, beta2=0.999, eps=1e-08, \
         weight_decay=0.0, amsgrad=true, maximize=false",
    ),
];

/// Whether decay is part of the gradient.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decay {
    Coupled,
    Decoupled,
}

/// The type of `p`; it must be floats, and what is given of `others` must be like it.
fn alike(call: &Call, others: &[&str]) -> Result<Type, OpError> {
    let p = call.tensor("p")?;
    if !p.dtype().is_float() {
        return Err(call.error(format!("`p` is {}, it must be floats", p.dtype())));
    }
    for name in others {
        let Some(t) = call.opt_tensor(name)? else { continue };
        let differ =
            t.rank() != p.rank() || t.dims().iter().zip(p.dims()).any(|(x, y)| x.same(y) == Some(false));
        if differ || t.dtype() != p.dtype() {
            let shown = |t: &Tensor| format!("{}{}", t.dtype(), meta::show(t.dims()));
            return Err(call.error(format!("`{name}` is {}, `p` is {}", shown(&t), shown(&p))));
        }
    }
    Ok(Type::Tensor(p.ty.clone()))
}

/// Parameter and gradient in the accumulation dtype, the gradient of what is made smaller.
fn descent(b: &mut Builder<'_>, call: &Call) -> Result<(Tensor, Tensor), OpError> {
    let (p, g) = (call.tensor("p")?, call.tensor("g")?);
    let acc = p.dtype().acc();
    let (p, g) = (b.to(&p, acc)?, b.to(&g, acc)?);
    let g = if call.bool("maximize")? { b.neg(&g)? } else { g };
    Ok((p, g))
}

/// A state tensor in the accumulation dtype.
fn wide(b: &mut Builder<'_>, call: &Call, name: &str) -> Result<Tensor, OpError> {
    let t = call.tensor(name)?;
    b.to(&t, t.dtype().acc())
}

fn sgd(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    alike(call, &["g", "buf"])?;
    let dtype = call.tensor("p")?.dtype();
    let (p, mut g) = descent(b, call)?;
    let (momentum, decay) = (call.float("momentum")?, call.float("weight_decay")?);
    if decay != 0.0 {
        let decayed = b.mul(&p, decay)?;
        g = b.add(&g, &decayed)?;
    }
    let mut buffer = Arg::None;
    if momentum != 0.0 {
        let moved = match call.has("buf") {
            false => g.clone(),
            true => {
                let old = wide(b, call, "buf")?;
                let old = b.mul(&old, momentum)?;
                let new = b.mul(&g, 1.0 - call.float("dampening")?)?;
                b.add(&old, &new)?
            }
        };
        buffer = b.to(&moved, dtype)?.arg();
        g = if call.bool("nesterov")? {
            let ahead = b.mul(&moved, momentum)?;
            b.add(&g, &ahead)?
        } else {
            moved
        };
    }
    let change = b.mul(&g, call.num("lr")?)?;
    let new = b.sub(&p, &change)?;
    Ok(vec![b.to(&new, dtype)?.arg(), buffer])
}

fn adam_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let p = alike(call, &["g", "m", "v", "vmax"])?;
    let largest = largest(call)?.map(|_| p.clone());
    Ok(vec![Some(p.clone()), Some(p.clone()), Some(p), largest])
}

/// `vmax`, which `amsgrad` needs.
fn largest(call: &Call) -> Result<Option<Tensor>, OpError> {
    match (call.bool("amsgrad")?, call.opt_tensor("vmax")?) {
        (true, None) => Err(call.error("`amsgrad` needs `vmax`")),
        (true, vmax) => Ok(vmax),
        (false, _) => Ok(None),
    }
}

fn adam(b: &mut Builder<'_>, call: &Call, kind: Decay) -> Result<Vec<Arg>, OpError> {
    alike(call, &["g", "m", "v", "vmax"])?;
    let dtype = call.tensor("p")?.dtype();
    let (mut p, mut g) = descent(b, call)?;
    let (lr, step) = (call.num("lr")?, call.num("step")?);
    let (beta1, beta2) = (call.float("beta1")?, call.float("beta2")?);
    let decay = call.float("weight_decay")?;
    match kind {
        _ if decay == 0.0 => {}
        Decay::Coupled => {
            let decayed = b.mul(&p, decay)?;
            g = b.add(&g, &decayed)?;
        }
        Decay::Decoupled => {
            let lost = number(b, &NUM_MUL, &[lr.clone(), Num::Float(decay)])?;
            let kept = number(b, &NUM_SUB, &[Num::Float(1.0), lost])?;
            p = b.mul(&p, kept)?;
        }
    }
    let m = wide(b, call, "m")?;
    let m = b.tensor("prims.lerp", vec![m.arg(), g.arg(), Arg::Float(1.0 - beta1)])?;
    let v = wide(b, call, "v")?;
    let v = b.mul(&v, beta2)?;
    let square = b.mul(&g, &g)?;
    let square = b.mul(&square, 1.0 - beta2)?;
    let v = b.add(&v, &square)?;
    let correction = |b: &mut Builder<'_>, beta: f64| {
        let power = number(b, &NUM_POW, &[Num::Float(beta), step.clone()])?;
        number(b, &NUM_SUB, &[Num::Float(1.0), power])
    };
    let first = correction(b, beta1)?;
    let second = correction(b, beta2)?;
    let second = number(b, &NUM_SQRT, &[second])?;
    let step_size = number(b, &NUM_TRUEDIV, &[lr, first])?;
    let vmax = match largest(call)? {
        Some(old) => {
            let old = b.to(&old, old.dtype().acc())?;
            Some(b.maximum(&old, &v)?)
        }
        None => None,
    };
    let deviation = b.sqrt(vmax.as_ref().unwrap_or(&v))?;
    let deviation = b.div(&deviation, second)?;
    let deviation = b.add(&deviation, call.num("eps")?)?;
    let change = b.div(&m, &deviation)?;
    let change = b.mul(&change, step_size)?;
    let new = b.sub(&p, &change)?;
    let mut results = Vec::with_capacity(4);
    for t in [Some(new), Some(m), Some(v), vmax] {
        results.push(match t {
            Some(t) => b.to(&t, dtype)?.arg(),
            None => Arg::None,
        });
    }
    Ok(results)
}

/// An op on numbers: worked out where all are known, else emitted.
fn number(b: &mut Builder<'_>, op: &'static Op, args: &[Num]) -> Result<Num, OpError> {
    let known = args.iter().all(|n| matches!(n, Num::Int(_) | Num::Float(_) | Num::Bool(_)));
    if let (true, Some(HostOp::Number(f))) = (known, op.host) {
        return f(args).map_err(|e| OpError { op: op.name.into(), what: e.what });
    }
    let results = b.call_op(op, args.iter().map(Num::to_arg).collect())?;
    let wrong = || OpError { op: op.name.into(), what: "gives no number".into() };
    match results.as_slice() {
        [Arg::Value(v)] => match b.trace().ty(*v) {
            Type::Number(ty) => Ok(Num::Value(*v, ty.clone())),
            Type::Tensor(_) => Err(wrong()),
        },
        [other] => Num::from_arg(other).ok_or_else(wrong),
        _ => Err(wrong()),
    }
}

/// How parameters follow their gradients. The numbers mean what they mean in `torch.optim`.
#[derive(Clone, Debug, PartialEq)]
pub struct Optimizer {
    /// The rule.
    pub rule: Rule,
    /// Learning rate.
    pub lr: f64,
    /// Weight decay of the parameters that decay.
    pub weight_decay: f64,
    /// Make the loss larger instead of smaller.
    pub maximize: bool,
}

/// The rule of an optimiser, with the numbers that only it has.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// `optim.sgd`.
    Sgd {
        /// Of the buffer; 0: there is none.
        momentum: f64,
        /// Of the gradient on its way into the buffer.
        dampening: f64,
        /// Nesterov's momentum.
        nesterov: bool,
    },
    /// `optim.adam`.
    Adam(AdamNumbers),
    /// `optim.adamw`.
    AdamW(AdamNumbers),
}

/// The numbers of Adam and AdamW.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamNumbers {
    /// Of the first moment.
    pub beta1: f64,
    /// Of the second moment.
    pub beta2: f64,
    /// Added to the deviation.
    pub eps: f64,
    /// Divide by the largest second moment so far.
    pub amsgrad: bool,
}

/// The trace that updates one parameter. It returns nothing and writes its first parameters: the parameter itself, then
/// the state in the order of [`Optimizer::state_names`].
pub struct Update {
    /// The trace; its parameters are those written, the gradient, and the step where the rule wants it.
    pub trace: Trace,
    /// The number of the step, from 1 on, where the rule wants it.
    pub step: Option<ValueId>,
}

impl Optimizer {
    /// What is kept for each parameter.
    pub fn state_names(&self) -> &'static [&'static str] {
        match &self.rule {
            Rule::Sgd { momentum: 0.0, .. } => &[],
            Rule::Sgd { .. } => &["buf"],
            Rule::Adam(n) | Rule::AdamW(n) if n.amsgrad => &["m", "v", "vmax"],
            Rule::Adam(_) | Rule::AdamW(_) => &["m", "v"],
        }
    }

    /// Whether the first step differs from later ones: then the state is written, not read.
    pub fn begins_without_state(&self) -> bool {
        matches!(self.rule, Rule::Sgd { .. })
    }

    /// What is wrong with the numbers, as `torch.optim` sees it.
    pub fn fault(&self) -> Option<String> {
        let negative = |name: &str, x: f64| {
            (x.is_nan() || x < 0.0).then(|| format!("`{name}` is {x}, it must be 0 or more"))
        };
        let common = negative("lr", self.lr).or_else(|| negative("weight_decay", self.weight_decay));
        let own = || match &self.rule {
            Rule::Sgd { momentum, dampening, nesterov } => negative("momentum", *momentum).or_else(|| {
                (*nesterov && (*momentum == 0.0 || *dampening != 0.0))
                    .then(|| "`nesterov` needs momentum, and no dampening".to_owned())
            }),
            Rule::Adam(n) | Rule::AdamW(n) => {
                let outside = [("beta1", n.beta1), ("beta2", n.beta2)]
                    .into_iter()
                    .find(|(_, x)| !(0.0..1.0).contains(x))
                    .map(|(name, x)| format!("`{name}` is {x}, it must be at least 0 and below 1"));
                outside.or_else(|| negative("eps", n.eps))
            }
        };
        common.or_else(own)
    }

    /// The update of a parameter of that type: `decays` with weight decay, `first` at the first step.
    pub fn update(&self, ty: &TensorType, decays: bool, first: bool) -> Result<Update, OpError> {
        let mut trace = Trace::new("update", Stage::Acquired);
        let mut param = |name: &str, kind: RoleKind, ty: Type| {
            let value = trace.add_value(name, ty);
            let role = Role { kind, name: Some(name.into()), frozen: false };
            trace.params.push(TraceParam { value, role });
            value
        };
        let p = param("p", RoleKind::State, ty.clone().into());
        let state: Vec<ValueId> =
            self.state_names().iter().map(|name| param(name, RoleKind::State, ty.clone().into())).collect();
        let g = param("g", RoleKind::Input, ty.clone().into());
        let step = (!matches!(self.rule, Rule::Sgd { .. })).then(|| {
            let int = NumberType { kind: NumKind::Int, equals: None };
            param("step", RoleKind::Input, Type::Number(int))
        });
        let decay = Arg::Float(if decays { self.weight_decay } else { 0.0 });
        let read = |i: usize| match state.get(i) {
            Some(v) if !(first && self.begins_without_state()) => Arg::Value(*v),
            _ => Arg::None,
        };
        let maximize = Arg::Bool(self.maximize);
        let (op, args): (&'static Op, Vec<Arg>) = match &self.rule {
            Rule::Sgd { momentum, dampening, nesterov } => {
                let numbers = [self.lr, *momentum, *dampening].map(Arg::Float);
                let flags = [decay, Arg::Bool(*nesterov), maximize];
                (&OPTIM_SGD, [&[p.into(), g.into(), read(0)], &numbers[..], &flags[..]].concat())
            }
            Rule::Adam(n) | Rule::AdamW(n) => {
                let op = if matches!(self.rule, Rule::Adam(_)) { &OPTIM_ADAM } else { &OPTIM_ADAMW };
                let tensors = [p.into(), g.into(), read(0), read(1), read(2)];
                let step = step.map_or(Arg::None, Arg::Value);
                let numbers = [self.lr, n.beta1, n.beta2, n.eps].map(Arg::Float);
                let flags = [decay, Arg::Bool(n.amsgrad), maximize];
                (op, [&tensors[..], &[step], &numbers[..], &flags[..]].concat())
            }
        };
        let mut b = Builder::top(&mut trace);
        let results = b.call_op(op, args)?;
        for (result, target) in results.into_iter().zip(std::iter::once(p).chain(state)) {
            b.call_op(&super::memory::COPY_, vec![result, target.into()])?;
        }
        trace.body = b.finish();
        Ok(Update { trace, step })
    }
}

/// A name that no value of the trace has: `wanted`, or `wanted` with a number behind it.
pub(super) fn unused_name(trace: &Trace, wanted: &str) -> Name {
    let taken = |name: &str| trace.values.iter().any(|v| &*v.name == name);
    let mut name = wanted.to_owned();
    let mut n = 0u32;
    while taken(&name) {
        n += 1;
        name = format!("{wanted}_{n}");
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Dtype;

    fn adam(amsgrad: bool) -> Optimizer {
        let numbers = AdamNumbers { beta1: 0.9, beta2: 0.999, eps: 1e-8, amsgrad };
        Optimizer { rule: Rule::AdamW(numbers), lr: 0.1, weight_decay: 0.01, maximize: false }
    }

    #[test]
    fn an_update_writes_the_parameter_and_its_state() {
        let ty = TensorType::new(vec![2.into(), 3.into()], Dtype::F32);
        for (amsgrad, written) in [(false, 3), (true, 4)] {
            let update = adam(amsgrad).update(&ty, true, true).expect("a good trace");
            assert_eq!(update.trace.body.len(), 1 + written);
            assert_eq!(update.trace.params.len(), written + 2, "the gradient and the step beside");
            assert_eq!(update.step, update.trace.params.last().map(|p| p.value));
        }
    }

    #[test]
    fn numbers_that_torch_refuses_are_refused() {
        let sgd = |momentum, dampening| Optimizer {
            rule: Rule::Sgd { momentum, dampening, nesterov: true },
            ..adam(false)
        };
        assert!(sgd(0.0, 0.0).fault().is_some() && sgd(0.9, 0.1).fault().is_some());
        assert_eq!(sgd(0.9, 0.0).fault(), None);
        assert!(Optimizer { lr: -0.1, ..adam(false) }.fault().is_some());
        assert!(Optimizer { weight_decay: f64::NAN, ..adam(false) }.fault().is_some());
        assert_eq!(adam(true).fault(), None);
    }
}
