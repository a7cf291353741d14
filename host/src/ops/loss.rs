//! Losses. All are computed in the accumulation dtype (f32 for f16 and bf16) and rounded once; `reduction` says whether
//! the losses of elements are kept, averaged or summed.

use super::arith::{Built, all_axes, size};
use super::aten::{Aten, AtenCall, Import};
use super::build::{Builder, Tensor};
use super::emit::broadcast_to;
use super::{Call, Grad, Level, Op, OpError, Sample, Vjp, import, meta};
use crate::ir::{Arg, Dim, Dtype};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &TORCH_CROSS_ENTROPY,
    &TORCH_NLL_LOSS,
    &TORCH_NLL_LOSS_BACKWARD,
    &TORCH_MSE_LOSS,
    &TORCH_L1_LOSS,
    &TORCH_SMOOTH_L1_LOSS,
    &TORCH_HUBER_LOSS,
    &TORCH_BINARY_CROSS_ENTROPY,
    &TORCH_BINARY_CROSS_ENTROPY_WITH_LOGITS,
    &TORCH_KL_DIV,
];

pub static TORCH_CROSS_ENTROPY: Op = Op {
    name: "torch.cross_entropy",
    doc: "Log-softmax over the classes (axis 1; axis 0 of a single element), then the negative log-likelihood of class \
          indices or of probabilities, with smoothed labels where asked for.",
    schema: "(a: Tensor, target: Tensor, weight: Tensor? = None, reduction: str{none|mean|sum} = mean, \
             ignore_index: int = -100, label_smoothing: num = 0.0) -> Tensor",
    level: Level::Composite(cross_entropy),
    aten: &[Aten {
        overloads: &["cross_entropy_loss.default"],
        import: Import::Map("a=self target weight reduction ignore_index label_smoothing"),
    }],
    samples: &[
        Sample("T[4, 5], i64[4]{0..5}"),
        Sample("T[4, 5], i64[4]{0..5}, T[5]{pos}, label_smoothing=0.1"),
        Sample("T[4, 5], i64[4]{0..5}, reduction=\"none\", ignore_index=2"),
        Sample("T[4, 5], i64[4]{0..5}, reduction=\"sum\", ignore_index=2, label_smoothing=0.2"),
        Sample("T[2, 3, 4], i64[2, 4]{0..3}"),
        Sample("T[4, 5], T[4, 5]{pos}"),
        Sample("T[2, 3, 4], T[2, 3, 4]{pos}, T[3]{pos}, label_smoothing=0.1"),
        Sample("T[5], i64[]{0..5}"),
    ],
    ..Op::BASE
};

pub static TORCH_NLL_LOSS: Op = Op {
    name: "torch.nll_loss",
    doc: "Negative log-likelihood of class indices from log-probabilities; `mean` divides by the sum of the weights of \
          the classes met, ignored elements count nothing.",
    schema: "(a: Tensor, target: Tensor<i64>, weight: Tensor? = None, reduction: str{none|mean|sum} = mean, \
             ignore_index: int = -100) -> Tensor",
    level: Level::Composite(nll_loss),
    aten: &[
        Aten {
            overloads: &["nll_loss.default", "nll_loss_nd.default", "nll_loss2d.default"],
            import: Import::Map("a=self target weight reduction ignore_index"),
        },
        Aten {
            overloads: &["nll_loss_forward.default", "nll_loss2d_forward.default"],
            import: Import::With(import_nll_loss_forward),
        },
    ],
    samples: &[
        Sample("T[4, 5], i64[4]{0..5}"),
        Sample("T[4, 5], i64[4]{0..5}, T[5]{pos}, ignore_index=2"),
        Sample("T[4, 5], i64[4]{0..5}, reduction=\"none\""),
        Sample("T[2, 3, 4], i64[2, 4]{0..3}, reduction=\"sum\""),
        Sample("T[5], i64[]{0..5}"),
    ],
    ..Op::BASE
};

pub static TORCH_NLL_LOSS_BACKWARD: Op = Op {
    name: "torch.nll_loss_backward",
    doc: "Gradient of `torch.nll_loss` in its input: `-weight * g` at the target class, divided by `total_weight` for \
          `mean`. No scatter: the classes are compared with the target.",
    schema: "(g: Tensor, a: Tensor, target: Tensor<i64>, weight: Tensor?, reduction: str, ignore_index: int, \
             total_weight: Tensor) -> Tensor",
    level: Level::Composite(nll_loss_backward),
    aten: &[Aten {
        overloads: &["nll_loss_backward.default", "nll_loss2d_backward.default"],
        import: Import::With(|b, c| {
            let mut args = import::args(c, &["grad_output", "self", "target", "weight"])?;
            args.extend([
                import::reduction(c)?,
                import::arg(c, "ignore_index")?,
                import::arg(c, "total_weight")?,
            ]);
            b.call("torch.nll_loss_backward", args)
        }),
    }],
    samples: &[
        Sample("T[], T[4, 5], i64[4]{0..5}, none, T[]{pos}, reduction=\"mean\", ignore_index=-100"),
        Sample("T[4], T[4, 5], i64[4]{0..5}, T[5]{pos}, T[]{pos}, reduction=\"none\", ignore_index=2"),
        Sample("T[], T[2, 3, 4], i64[2, 4]{0..3}, none, T[]{pos}, reduction=\"sum\", ignore_index=-100"),
        Sample("T[], T[5], i64[]{0..5}, none, T[]{pos}, reduction=\"mean\", ignore_index=-100"),
    ],
    ..Op::BASE
};

pub static TORCH_MSE_LOSS: Op = Op {
    name: "torch.mse_loss",
    doc: "Squared differences.",
    schema: "(a: Tensor, target: Tensor, reduction: str{none|mean|sum} = mean) -> Tensor",
    level: Level::Composite(|b, call| {
        let p = Pair::of(b, call)?;
        let d = b.sub(&p.a, &p.target)?;
        let l = b.mul(&d, &d)?;
        finish(b, call, &l, p.out)
    }),
    vjp: Vjp::Rule(|b, d| {
        let p = Pair::of(b, d.call)?;
        let g = of_elements(b, d, &p)?;
        let difference = b.sub(&p.a, &p.target)?;
        let twice = b.mul(&difference, 2.0)?;
        let twice = b.conj(&twice)?;
        let of_a = b.mul(&g, &twice)?;
        let of_target = b.neg(&of_a)?;
        pair_gradients(b, d, [&of_a, &of_target])
    }),
    aten: &[Aten { overloads: &["mse_loss.default"], import: Import::Map("a=self target reduction") }],
    samples: PAIR,
    ..Op::BASE
};

pub(super) const PAIR: &[Sample] = &[
    Sample("T[2, 3], T[2, 3]"),
    Sample("T[2, 3], T[3], reduction=\"none\""),
    Sample("T[2, 3], T[2, 3], reduction=\"sum\""),
    Sample("T[0, 3], T[0, 3], reduction=\"sum\""),
    Sample("f32[2, 3], f64[2, 3]"),
];

pub static TORCH_L1_LOSS: Op = Op {
    name: "torch.l1_loss",
    doc: "Magnitudes of differences.",
    schema: "(a: Tensor, target: Tensor, reduction: str{none|mean|sum} = mean) -> Tensor",
    level: Level::Composite(|b, call| {
        let p = Pair::of(b, call)?;
        let d = b.sub(&p.a, &p.target)?;
        let l = b.abs(&d)?;
        finish(b, call, &l, p.out.real())
    }),
    aten: &[Aten { overloads: &["l1_loss.default"], import: Import::Map("a=self target reduction") }],
    samples: PAIR,
    ..Op::BASE
};

pub static TORCH_SMOOTH_L1_LOSS: Op = Op {
    name: "torch.smooth_l1_loss",
    doc: "`d² / (2 beta)` for differences below `beta`, `|d| - beta / 2` above.",
    schema: "(a: Tensor, target: Tensor, beta: num = 1.0, reduction: str{none|mean|sum} = mean) -> Tensor",
    level: Level::Composite(|b, call| {
        let beta = call.float("beta")?;
        let p = Pair::of(b, call)?;
        let d = b.sub(&p.a, &p.target)?;
        let z = b.abs(&d)?;
        if beta == 0.0 {
            return finish(b, call, &z, p.out);
        }
        let squares = b.mul(&z, &z)?;
        let near = b.mul(&squares, 0.5)?;
        let near = b.div(&near, beta)?;
        let far = b.sub(&z, 0.5 * beta)?;
        let small = b.lt(&z, beta)?;
        let l = b.select(&small, &near, &far)?;
        finish(b, call, &l, p.out)
    }),
    aten: &[Aten {
        overloads: &["smooth_l1_loss.default"],
        import: Import::Map("a=self target reduction beta"),
    }],
    samples: &[
        Sample("T[2, 3], T[2, 3]"),
        Sample("T[2, 3], T[3], beta=0.5, reduction=\"none\""),
        Sample("T[2, 3], T[2, 3], beta=0.0, reduction=\"sum\""),
    ],
    ..Op::BASE
};

pub static TORCH_HUBER_LOSS: Op = Op {
    name: "torch.huber_loss",
    doc: "`d² / 2` for differences below `delta`, `delta * (|d| - delta / 2)` above.",
    schema: "(a: Tensor, target: Tensor, delta: num = 1.0, reduction: str{none|mean|sum} = mean) -> Tensor",
    level: Level::Composite(|b, call| {
        let delta = call.float("delta")?;
        let p = Pair::of(b, call)?;
        let d = b.sub(&p.a, &p.target)?;
        let z = b.abs(&d)?;
        let squares = b.mul(&z, &z)?;
        let near = b.mul(&squares, 0.5)?;
        let far = b.sub(&z, 0.5 * delta)?;
        let far = b.mul(&far, delta)?;
        let small = b.lt(&z, delta)?;
        let l = b.select(&small, &near, &far)?;
        finish(b, call, &l, p.out)
    }),
    aten: &[Aten {
        overloads: &["huber_loss.default"],
        import: Import::Map("a=self target reduction delta"),
    }],
    samples: &[
        Sample("T[2, 3], T[2, 3]"),
        Sample("T[2, 3], T[3], delta=0.5, reduction=\"none\""),
        Sample("T[2, 3], T[2, 3], delta=2.0, reduction=\"sum\""),
    ],
    ..Op::BASE
};

pub static TORCH_BINARY_CROSS_ENTROPY: Op = Op {
    name: "torch.binary_cross_entropy",
    doc: "`-(t log a + (1 - t) log(1 - a))` with logarithms no lower than -100, times `weight`.",
    schema: "(a: Tensor, target: Tensor, weight: Tensor? = None, reduction: str{none|mean|sum} = mean) -> Tensor",
    level: Level::Composite(|b, call| {
        let p = Pair::of(b, call)?;
        let (yes, no) = likelihoods(b, &p.a)?;
        let l = unweighted(b, &p, &yes, &no)?;
        let l = weighted(b, call, &l, "weight")?;
        finish(b, call, &l, p.out)
    }),
    // In `a` it is `(a - t) / (a (1 - a))`, the divisor no lower than 1e-12: finite at 0 and 1.
    vjp: Vjp::Rule(|b, d| {
        let p = Pair::of(b, d.call)?;
        let g = of_elements(b, d, &p)?;
        let weighted_g = weighted(b, d.call, &g, "weight")?;
        let rest = b.one_minus(&p.a)?;
        let spread = b.mul(&p.a, &rest)?;
        let spread = b.maximum(&spread, 1e-12)?;
        let distance = b.sub(&p.a, &p.target)?;
        let slope = b.div(&distance, &spread)?;
        let of_a = b.mul(&weighted_g, &slope)?;
        let (yes, no) = likelihoods(b, &p.a)?;
        let odds = b.sub(&no, &yes)?;
        let of_target = b.mul(&weighted_g, &odds)?;
        let mut all = pair_gradients(b, d, [&of_a, &of_target])?;
        if let Some(w) = d.call.opt_tensor("weight")? {
            let l = unweighted(b, &p, &yes, &no)?;
            let of_weight = b.mul(&g, &l)?;
            let of_weight = b.unexpand(&of_weight, w.dims())?;
            all.push(Some(b.to(&of_weight, w.dtype())?));
        }
        Ok(all)
    }),
    aten: &[Aten {
        overloads: &["binary_cross_entropy.default"],
        import: Import::Map("a=self target weight reduction"),
    }],
    samples: &[
        Sample("T[2, 3]{0..1}, T[2, 3]{0..1}"),
        Sample("T[2, 3]{unit}, T[2, 3]{unit}"),
        Sample("T[2, 3]{0..1}, T[2, 3]{0..1}, T[3]{pos}, reduction=\"none\""),
        Sample("T[4]{0..1}, T[4]{0..1}, reduction=\"sum\""),
    ],
    ..Op::BASE
};

pub static TORCH_BINARY_CROSS_ENTROPY_WITH_LOGITS: Op = Op {
    name: "torch.binary_cross_entropy_with_logits",
    doc: "Binary cross entropy of `sigmoid(a)` without overflow: `(1 - t) a + (1 + (pos_weight - 1) t) log(1 + exp(-a))`, \
          times `weight`.",
    schema: "(a: Tensor, target: Tensor, weight: Tensor? = None, pos_weight: Tensor? = None, \
             reduction: str{none|mean|sum} = mean) -> Tensor",
    level: Level::Composite(|b, call| {
        let p = Pair::of(b, call)?;
        let mut softplus = softplus_of_negative(b, &p.a)?;
        if let Some(w) = call.opt_tensor("pos_weight")? {
            let w = b.to(&w, p.a.dtype())?;
            let w = b.sub(&w, 1.0)?;
            let w = b.mul(&p.target, &w)?;
            let w = b.add(&w, 1.0)?;
            softplus = b.mul(&softplus, &w)?;
        }
        let rest = b.one_minus(&p.target)?;
        let linear = b.mul(&rest, &p.a)?;
        let l = b.add(&linear, &softplus)?;
        let l = weighted(b, call, &l, "weight")?;
        finish(b, call, &l, p.out)
    }),
    aten: &[Aten {
        overloads: &["binary_cross_entropy_with_logits.default"],
        import: Import::Map("a=self target weight pos_weight reduction"),
    }],
    samples: &[
        Sample("T[2, 3], T[2, 3]{0..1}"),
        Sample("T[2, 3], T[2, 3]{0..1}, T[3]{pos}, T[3]{pos}, reduction=\"none\""),
        Sample("T[4], T[4]{0..1}, reduction=\"sum\""),
    ],
    ..Op::BASE
};

pub static TORCH_KL_DIV: Op = Op {
    name: "torch.kl_div",
    doc: "`t (log t - a)`, 0 where the target is 0; with `log_target` the target is a logarithm. `mean` averages over \
          all elements.",
    schema: "(a: Tensor, target: Tensor, log_target: bool = false, reduction: str{none|mean|sum} = mean) -> Tensor",
    level: Level::Composite(|b, call| {
        let p = Pair::of(b, call)?;
        let l = if call.bool("log_target")? {
            let d = b.sub(&p.target, &p.a)?;
            let t = b.exp(&p.target)?;
            b.mul(&t, &d)?
        } else {
            let log = b.log(&p.target)?;
            let d = b.sub(&log, &p.a)?;
            let l = b.mul(&p.target, &d)?;
            let some = b.ne(&p.target, 0.0)?;
            b.select(&some, &l, 0.0)?
        };
        finish(b, call, &l, p.out)
    }),
    aten: &[Aten {
        overloads: &["kl_div.default"],
        import: Import::Map("a=self target reduction log_target"),
    }],
    samples: &[
        Sample("T[2, 3], T[2, 3]{pos}"),
        Sample("T[2, 3], T[2, 3]{0..2}, reduction=\"none\""),
        Sample("T[2, 3], T[2, 3], log_target=true, reduction=\"sum\""),
    ],
    ..Op::BASE
};

/// Input and target promoted and in the accumulation dtype.
pub(super) struct Pair {
    pub(super) a: Tensor,
    pub(super) target: Tensor,
    pub(super) out: Dtype,
}

impl Pair {
    pub(super) fn of(b: &mut Builder<'_>, call: &Call) -> Result<Pair, OpError> {
        let (a, target) = (call.tensor("a")?, call.tensor("target")?);
        let out = meta::promoted(&[(&a).into(), (&target).into()]);
        if !out.is_inexact() {
            return Err(call.error(format!("`a` is {}, a loss needs floats", a.dtype())));
        }
        let dims = meta::broadcast_dims(call, [a.dims(), target.dims()])?;
        let mut wide = |t: &Tensor| {
            let t = b.to(t, out)?;
            let t = b.to(&t, out.acc())?;
            broadcast_to(b, &t, &dims)
        };
        Ok(Pair { a: wide(&a)?, target: wide(&target)?, out })
    }
}

/// The cotangent of the loss of each element.
fn of_elements(b: &mut Builder<'_>, d: &Grad<'_>, p: &Pair) -> Built {
    let g = d.g()?;
    let mut g = b.to(&g, p.out.acc())?;
    if d.call.str("reduction")? == "mean" {
        let all = all_axes(p.a.rank());
        g = b.div(&g, size(&super::arith::count(p.a.dims(), &all)))?;
    }
    b.expand(&g, p.a.dims())
}

/// Gradients of the operands of a pair, in their own dims and dtypes.
fn pair_gradients(
    b: &mut Builder<'_>,
    d: &Grad<'_>,
    grads: [&Tensor; 2],
) -> Result<Vec<Option<Tensor>>, OpError> {
    let given = [d.call.tensor("a")?, d.call.tensor("target")?];
    let mut all = Vec::new();
    for (at, (g, of)) in grads.into_iter().zip(given).enumerate() {
        if !d.wants(at) {
            all.push(None);
            continue;
        }
        let g = b.unexpand(g, of.dims())?;
        all.push(Some(b.to(&g, of.dtype())?));
    }
    Ok(all)
}

/// Losses of elements reduced as the call says, in the final dtype.
pub(super) fn finish(
    b: &mut Builder<'_>,
    call: &Call,
    losses: &Tensor,
    out: Dtype,
) -> Result<Vec<Arg>, OpError> {
    let all = all_axes(losses.rank());
    let r = match call.str("reduction")? {
        "none" => losses.clone(),
        "sum" => b.sum(losses, &all)?,
        "mean" => b.mean(losses, &all)?,
        other => return Err(call.error(format!("`reduction` must be none, mean or sum, found {other}"))),
    };
    Ok(vec![b.to(&r, out)?.arg()])
}

fn weighted(b: &mut Builder<'_>, call: &Call, losses: &Tensor, name: &str) -> Built {
    match call.opt_tensor(name)? {
        None => Ok(losses.clone()),
        Some(w) => {
            let w = b.to(&w, losses.dtype())?;
            b.mul(losses, &w)
        }
    }
}

/// `log a` and `log(1 - a)`, no lower than -100.
fn likelihoods(b: &mut Builder<'_>, a: &Tensor) -> Result<(Tensor, Tensor), OpError> {
    let yes = b.log(a)?;
    let yes = b.maximum(&yes, -100.0)?;
    let no = b.neg(a)?;
    let no = b.unary("prims.log1p", &no)?;
    Ok((yes, b.maximum(&no, -100.0)?))
}

/// `(t - 1) log(1 - a) - t log a`.
fn unweighted(b: &mut Builder<'_>, p: &Pair, yes: &Tensor, no: &Tensor) -> Built {
    let yes = b.mul(&p.target, yes)?;
    let rest = b.sub(&p.target, 1.0)?;
    let no = b.mul(&rest, no)?;
    b.sub(&no, &yes)
}

/// `log(1 + exp(-x))`, exact at both ends: `max(-x, 0) + log1p(exp(-|x|))`.
pub(super) fn softplus_of_negative(b: &mut Builder<'_>, x: &Tensor) -> Built {
    let negative = b.neg(x)?;
    let linear = b.maximum(&negative, 0.0)?;
    let magnitude = b.abs(x)?;
    let magnitude = b.neg(&magnitude)?;
    let e = b.exp(&magnitude)?;
    let curve = b.unary("prims.log1p", &e)?;
    b.add(&linear, &curve)
}

/// Class indices against log-probabilities.
struct Classes {
    /// Axis of the classes.
    axis: usize,
    /// Which targets are not ignored.
    valid: Tensor,
    /// Targets with ignored ones replaced by class 0, with a dim of 1 at the axis of the classes.
    index: Tensor,
    /// Weight of each target's class, 0 for ignored ones, in the accumulation dtype.
    weight: Tensor,
}

/// Class axis of an input of that rank.
fn class_axis(rank: usize) -> usize {
    usize::from(rank > 1)
}

impl Classes {
    fn of(
        b: &mut Builder<'_>,
        fail: &dyn Fn(String) -> OpError,
        a: &Tensor,
        target: &Tensor,
        weight: Option<&Tensor>,
        ignore_index: i64,
    ) -> Result<Classes, OpError> {
        let axis = class_axis(a.rank());
        let mut want = a.dims().to_vec();
        let classes = (axis < want.len()).then(|| want.remove(axis));
        let equal = want.len() == target.rank()
            && want.iter().zip(target.dims()).all(|(x, t)| x.same(t) != Some(false));
        let Some(classes) = classes.filter(|_| equal) else {
            let (a, target) = (meta::show(a.dims()), meta::show(target.dims()));
            return Err(fail(format!("`a` is {a}, its targets cannot be {target}")));
        };
        let valid = b.ne(target, ignore_index)?;
        let safe = b.select(&valid, target, 0)?;
        let index = b.unsqueeze(&safe, axis)?;
        let acc = a.dtype().acc();
        let weight = match weight {
            None => b.to(&valid, acc)?,
            Some(w) => {
                if w.rank() != 1 || w.dims()[0].same(&classes) == Some(false) {
                    return Err(fail(format!("`weight` is {}, [{classes}] is wanted", meta::show(w.dims()))));
                }
                let w = b.to(w, acc)?;
                let args = vec![w.arg(), Arg::dims(a.dims()), Arg::ints([axis as i64])];
                let w = b.tensor("prims.broadcast_in_dim", args)?;
                let w = along(b, &w, &index, axis)?;
                b.select(&valid, &w, 0.0)?
            }
        };
        Ok(Classes { axis, valid, index, weight })
    }
}

/// The elements that the index (with a dim of 1 at the axis) names, without that axis.
fn along(b: &mut Builder<'_>, a: &Tensor, index: &Tensor, axis: usize) -> Built {
    let picked = b.tensor("prims.take_along_axis", vec![a.arg(), index.arg(), Arg::Int(axis as i64)])?;
    b.squeeze(&picked, &[axis])
}

fn nll_loss(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let wide = b.to(&a, a.dtype().acc())?;
    let l = nll(b, call, &wide)?;
    Ok(vec![b.to(&l, a.dtype())?.arg()])
}

/// The loss of log-probabilities that are in the accumulation dtype.
fn nll(b: &mut Builder<'_>, call: &Call, logp: &Tensor) -> Built {
    if !logp.dtype().is_float() {
        return Err(call.error(format!("`a` is {}, log-probabilities are floats", logp.dtype())));
    }
    let (target, weight) = (call.tensor("target")?, call.opt_tensor("weight")?);
    let ignore = call.int("ignore_index")?;
    let classes = Classes::of(b, &|e| call.error(e), logp, &target, weight.as_ref(), ignore)?;
    let picked = along(b, logp, &classes.index, classes.axis)?;
    let l = b.mul(&picked, &classes.weight)?;
    // 0 times an infinite log-probability would be NaN.
    let l = b.select(&classes.valid, &l, 0.0)?;
    let l = b.neg(&l)?;
    let all = all_axes(l.rank());
    match call.str("reduction")? {
        "none" => Ok(l),
        "sum" => b.sum(&l, &all),
        _ => {
            let (sum, total) = (b.sum(&l, &all)?, b.sum(&classes.weight, &all)?);
            b.div(&sum, &total)
        }
    }
}

/// The second result is the sum of the weights met; 0 where a batch is not reduced.
fn import_nll_loss_forward(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let reduction = import::reduction(c)?;
    let mut args = import::args(c, &["self", "target", "weight"])?;
    args.extend([reduction.clone(), import::arg(c, "ignore_index")?]);
    let loss = b.call("torch.nll_loss", args)?;
    let (a, target) = (import::tensor(b, c, "self")?, import::tensor(b, c, "target")?);
    let total = if reduction == Arg::str("none") && target.rank() > 0 {
        b.full(&[], 0.0, a.dtype(), &a.ty.device)?
    } else {
        let weight = import::opt_tensor(b, c, "weight")?;
        let ignore = import::int(c, "ignore_index")?;
        let classes = Classes::of(b, &|e| c.error(e), &a, &target, weight.as_ref(), ignore)?;
        let total = b.sum(&classes.weight, &all_axes(target.rank()))?;
        b.to(&total, a.dtype())?
    };
    Ok([loss, vec![total.arg()]].concat())
}

fn nll_loss_backward(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (g, a, target) = (call.tensor("g")?, call.tensor("a")?, call.tensor("target")?);
    let acc = a.dtype().acc();
    let weight = call.opt_tensor("weight")?;
    let ignore = call.int("ignore_index")?;
    let classes = Classes::of(b, &|e| call.error(e), &a, &target, weight.as_ref(), ignore)?;
    let mut g = b.to(&g, acc)?;
    if call.str("reduction")? == "mean" {
        let total = call.tensor("total_weight")?;
        let total = b.to(&total, acc)?;
        g = b.div(&g, &total)?;
    }
    let gw = b.mul(&classes.weight, &g)?;
    let gw = b.neg(&gw)?;
    // The total weight of nothing but ignored targets is 0.
    let gw = b.select(&classes.valid, &gw, 0.0)?;
    let axis = [classes.axis];
    let gw = b.spread(&gw, a.dims(), &axis)?;
    let class = b.positions(a.dims(), classes.axis, Dtype::I64, &a.ty.device)?;
    let target = b.to(&target, Dtype::I64)?;
    let target = b.spread(&target, a.dims(), &axis)?;
    let hit = b.eq(&class, &target)?;
    let ga = b.select(&hit, &gw, 0.0)?;
    Ok(vec![b.to(&ga, a.dtype())?.arg()])
}

fn cross_entropy(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, target) = (call.tensor("a")?, call.tensor("target")?);
    if a.rank() == 0 || !a.dtype().is_float() {
        return Err(call.error(format!(
            "`a` is {}{}, it must be floats with a dim of classes",
            a.dtype(),
            meta::show(a.dims())
        )));
    }
    let axis = class_axis(a.rank());
    let wide = b.to(&a, a.dtype().acc())?;
    let logp = b.tensor("torch.log_softmax", vec![wide.arg(), Arg::Int(axis as i64)])?;
    let smoothing = call.float("label_smoothing")?;
    if !(0.0..=1.0).contains(&smoothing) {
        return Err(call.error(format!("`label_smoothing` is {smoothing}, it must lie in 0..1")));
    }
    let l = if target.dtype().is_float() {
        of_probabilities(b, call, &logp, &target, axis, smoothing)?
    } else {
        of_indices(b, call, &logp, axis, smoothing)?
    };
    Ok(vec![b.to(&l, a.dtype())?.arg()])
}

/// The weights of classes along the class axis of log-probabilities.
fn class_weights(
    b: &mut Builder<'_>,
    call: &Call,
    logp: &Tensor,
    axis: usize,
) -> Result<Option<Tensor>, OpError> {
    let Some(w) = call.opt_tensor("weight")? else { return Ok(None) };
    if w.rank() != 1 || w.dims()[0].same(&logp.dims()[axis]) == Some(false) {
        let (w, n) = (meta::show(w.dims()), &logp.dims()[axis]);
        return Err(call.error(format!("`weight` is {w}, [{n}] is wanted")));
    }
    let w = b.to(&w, logp.dtype())?;
    let args = vec![w.arg(), Arg::dims(logp.dims()), Arg::ints([axis as i64])];
    b.tensor("prims.broadcast_in_dim", args).map(Some)
}

/// `-Σ w p logp` for each element; `mean` divides by the number of elements, whatever the weights.
fn of_probabilities(
    b: &mut Builder<'_>,
    call: &Call,
    logp: &Tensor,
    target: &Tensor,
    axis: usize,
    smoothing: f64,
) -> Built {
    let differ = |(x, t): (&Dim, &Dim)| x.same(t) == Some(false);
    if target.rank() != logp.rank() || logp.dims().iter().zip(target.dims()).any(differ) {
        let (a, t) = (meta::show(logp.dims()), meta::show(target.dims()));
        return Err(call.error(format!("probabilities {t} do not match `a` {a}")));
    }
    let classes = logp.dims()[axis].clone();
    let mut p = b.to(target, logp.dtype())?;
    if smoothing > 0.0 {
        let kept = b.mul(&p, 1.0 - smoothing)?;
        let even = b.full(&[], smoothing, p.dtype(), &p.ty.device)?;
        let even = b.div(&even, size(&classes))?;
        p = b.add(&kept, &even)?;
    }
    let mut l = b.mul(logp, &p)?;
    if let Some(w) = class_weights(b, call, logp, axis)? {
        l = b.mul(&l, &w)?;
    }
    let l = b.sum(&l, &[axis])?;
    let l = b.neg(&l)?;
    let all = all_axes(l.rank());
    match call.str("reduction")? {
        "none" => Ok(l),
        "sum" => b.sum(&l, &all),
        _ => b.mean(&l, &all),
    }
}

/// `(1 - smoothing) * nll + smoothing / classes * (-Σ w logp)`, the sum averaged over as much weight as `nll` is.
fn of_indices(b: &mut Builder<'_>, call: &Call, logp: &Tensor, axis: usize, smoothing: f64) -> Built {
    let names = ["target", "weight", "reduction", "ignore_index"];
    let mut args = vec![logp.arg()];
    for n in names {
        args.push(call.raw(n)?);
    }
    let likelihood = b.tensor("torch.nll_loss", args).map_err(|e| call.error(e.what))?;
    if smoothing == 0.0 {
        return Ok(likelihood);
    }
    let (target, weight) = (call.tensor("target")?, call.opt_tensor("weight")?);
    let ignore = call.int("ignore_index")?;
    let classes = Classes::of(b, &|e| call.error(e), logp, &target, weight.as_ref(), ignore)?;
    let mut even = logp.clone();
    if let Some(w) = class_weights(b, call, logp, axis)? {
        even = b.mul(&even, &w)?;
    }
    let even = b.sum(&even, &[axis])?;
    let even = b.neg(&even)?;
    let even = b.select(&classes.valid, &even, 0.0)?;
    let all = all_axes(even.rank());
    let even = match call.str("reduction")? {
        "none" => even,
        "sum" => b.sum(&even, &all)?,
        _ => {
            let (sum, total) = (b.sum(&even, &all)?, b.sum(&classes.weight, &all)?);
            b.div(&sum, &total)?
        }
    };
    let even = b.mul(&even, smoothing)?;
    let even = b.div(&even, size(&logp.dims()[axis]))?;
    let kept = b.mul(&likelihood, 1.0 - smoothing)?;
    b.add(&kept, &even)
}
