//! Losses with margins, and the few others that few models are trained with.
//!
//! As in `loss`, halves are computed in f32 and the result is rounded once.

use super::build::Builder;
use super::loss::{self, PAIR, Pair, softplus_of_negative};
use super::{Aten, Call, Import, Level, Op, OpError, Sample};
use crate::ir::{Arg, Dtype};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &TORCH_SOFT_MARGIN_LOSS,
    &TORCH_HINGE_EMBEDDING_LOSS,
    &TORCH_MARGIN_RANKING_LOSS,
    &TORCH_POISSON_NLL_LOSS,
    &TORCH_COSINE_EMBEDDING_LOSS,
    &TORCH_TRIPLET_MARGIN_LOSS,
];

pub static TORCH_SOFT_MARGIN_LOSS: Op = Op {
    name: "torch.soft_margin_loss",
    doc: "log(1 + exp(-target * a)), in the dtype of `a`.",
    schema: "(a: Tensor, target: Tensor, reduction: str{none|mean|sum} = mean) -> Tensor",
    level: Level::Composite(|b, call| {
        let p = Pair::of(b, call)?;
        let m = b.mul(&p.target, &p.a)?;
        let l = softplus_of_negative(b, &m)?;
        // ATen's kernel makes its result like the input.
        let out = call.tensor("a")?.dtype();
        loss::finish(b, call, &l, if out.is_inexact() { out } else { p.out })
    }),
    aten: &[Aten {
        overloads: &["soft_margin_loss.default"],
        import: Import::Map("a=self target reduction"),
    }],
    samples: PAIR,
    ..Op::BASE
};

pub static TORCH_HINGE_EMBEDDING_LOSS: Op = Op {
    name: "torch.hinge_embedding_loss",
    doc: "`a` where the target is 1, max(margin - a, 0) where it is -1.",
    schema: "(a: Tensor, target: Tensor, margin: num = 1.0, reduction: str{none|mean|sum} = mean) -> Tensor",
    level: Level::Composite(|b, call| {
        let margin = call.float("margin")?;
        let p = Pair::of(b, call)?;
        let minus = b.neg(&p.a)?;
        let rest = b.add(&minus, margin)?;
        let hinge = b.maximum(&rest, 0.0)?;
        let same = b.eq(&p.target, 1.0)?;
        let other = b.eq(&p.target, -1.0)?;
        let far = b.select(&same, 0.0, &hinge)?;
        let near = b.select(&other, 0.0, &p.a)?;
        let l = b.add(&far, &near)?;
        loss::finish(b, call, &l, p.out)
    }),
    aten: &[Aten {
        overloads: &["hinge_embedding_loss.default"],
        import: Import::Map("a=self target margin reduction"),
    }],
    samples: &[
        Sample("f32[4], f32[4]"),
        Sample("T[2, 3], T[2, 3], margin=0.5, reduction=\"none\""),
        Sample("T[2, 3], T[3], reduction=\"sum\""),
    ],
    ..Op::BASE
};

pub static TORCH_MARGIN_RANKING_LOSS: Op = Op {
    name: "torch.margin_ranking_loss",
    doc: "max(margin - target * (a - b), 0).",
    schema: "(a: Tensor, b: Tensor, target: Tensor, margin: num = 0.0, reduction: str{none|mean|sum} = mean) -> Tensor",
    level: Level::Composite(|b, call| {
        let m = call.float("margin")?;
        let difference = b.tensor("torch.sub", vec![call.raw("a")?, call.raw("b")?])?;
        let signed = b.tensor("torch.mul", vec![call.raw("target")?, difference.arg()])?;
        let out = float(call, signed.dtype())?;
        let wide = b.to(&signed, out.acc())?;
        let minus = b.neg(&wide)?;
        let rest = b.add(&minus, m)?;
        let l = b.maximum(&rest, 0.0)?;
        loss::finish(b, call, &l, out)
    }),
    aten: &[Aten {
        overloads: &["margin_ranking_loss.default"],
        import: Import::Map("a=input1 b=input2 target margin reduction"),
    }],
    samples: &[Sample("T[4], T[4], T[4]"), Sample("T[2, 3], T[2, 3], T[3], margin=0.5, reduction=\"none\"")],
    ..Op::BASE
};

pub static TORCH_POISSON_NLL_LOSS: Op = Op {
    name: "torch.poisson_nll_loss",
    doc: "exp(a) - target * a, or a - target * log(a + eps) where `a` is no logarithm; `full` adds Stirling's approximation of log(target!) for targets above 1.",
    schema: "(a: Tensor, target: Tensor, log_input: bool, full: bool, eps: num, reduction: str{none|mean|sum} = mean) -> Tensor",
    level: Level::Composite(poisson),
    aten: &[Aten {
        overloads: &["poisson_nll_loss.default"],
        import: Import::Map("a=input target log_input full eps reduction"),
    }],
    samples: &[
        Sample("T[2, 3], T[2, 3]{pos}, log_input=true, full=false, eps=1e-8"),
        Sample("T[4]{pos}, T[4]{pos}, log_input=false, full=true, eps=1e-8, reduction=\"none\""),
    ],
    ..Op::BASE
};

pub static TORCH_COSINE_EMBEDDING_LOSS: Op = Op {
    name: "torch.cosine_embedding_loss",
    doc: "1 - cos where the target is 1, max(cos - margin, 0) where it is -1, cos the cosine between `a` and `b`.",
    schema: "(a: Tensor, b: Tensor, target: Tensor, margin: num = 0.0, reduction: str{none|mean|sum} = mean) -> Tensor",
    level: Level::Composite(cosine),
    aten: &[Aten {
        overloads: &["cosine_embedding_loss.default"],
        import: Import::Map("a=input1 b=input2 target margin reduction"),
    }],
    samples: &[Sample("T[2, 3], T[2, 3], T[2]"), Sample("T[3], T[3], T[], margin=0.5, reduction=\"none\"")],
    ..Op::BASE
};

pub static TORCH_TRIPLET_MARGIN_LOSS: Op = Op {
    name: "torch.triplet_margin_loss",
    doc: "max(margin + d(anchor, positive) - d(anchor, negative), 0), d the pairwise distance; with `swap` the negative's distance to the positive counts where it is smaller.",
    schema: "(a: Tensor, positive: Tensor, negative: Tensor, margin: num = 1.0, p: num = 2.0, eps: num = 1e-6, swap: bool = false, reduction: str{none|mean|sum} = mean) -> Tensor",
    level: Level::Composite(triplet),
    aten: &[Aten {
        overloads: &["triplet_margin_loss.default"],
        import: Import::Map("a=anchor positive negative margin p eps swap reduction"),
    }],
    samples: &[
        Sample("T[2, 3], T[2, 3], T[2, 3]"),
        Sample("T[4, 3], T[4, 3], T[4, 3], margin=0.5, p=1.0, swap=true, reduction=\"none\""),
    ],
    ..Op::BASE
};

fn float(call: &Call, dtype: Dtype) -> Result<Dtype, OpError> {
    if dtype.is_float() { Ok(dtype) } else { Err(call.error(format!("a loss needs floats, found {dtype}"))) }
}

fn poisson(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let eps = call.float("eps")?;
    let p = Pair::of(b, call)?;
    float(call, p.out)?;
    let mut l = if call.bool("log_input")? {
        let (rate, product) = (b.exp(&p.a)?, b.mul(&p.target, &p.a)?);
        b.sub(&rate, &product)?
    } else {
        let moved = b.add(&p.a, eps)?;
        let log = b.log(&moved)?;
        let product = b.mul(&p.target, &log)?;
        b.sub(&p.a, &product)?
    };
    if call.bool("full")? {
        // t log t - t + log(2 pi t) / 2; where it does not count, 1 stands for t, so that no gradient is NaN.
        let counts = b.binary("prims.gt", &p.target, 1.0)?;
        let t = b.select(&counts, &p.target, 1.0)?;
        let log = b.log(&t)?;
        let entropy = b.mul(&t, &log)?;
        let rest = b.sub(&entropy, &t)?;
        let circle = b.mul(&t, std::f64::consts::TAU)?;
        let root = b.log(&circle)?;
        let root = b.mul(&root, 0.5)?;
        let stirling = b.add(&rest, &root)?;
        let term = b.select(&counts, &stirling, 0.0)?;
        l = b.add(&l, &term)?;
    }
    loss::finish(b, call, &l, p.out)
}

fn cosine(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    /// Keeps the root of two zero vectors away from 0; ATen's constant.
    const EPS: f64 = 1e-12;
    let (x, y, target) = (call.tensor("a")?, call.tensor("b")?, call.tensor("target")?);
    let margin = call.float("margin")?;
    let fits = matches!((x.rank(), target.rank()), (1, 0) | (2, 1)) && y.rank() == x.rank();
    if !fits || x.dtype() != y.dtype() {
        return Err(call.error(
            "takes two vectors and one target, or two matrices of one dtype and a vector of targets",
        ));
    }
    let out = float(call, x.dtype())?;
    let (x, y) = (b.to(&x, out.acc())?, b.to(&y, out.acc())?);
    let axis = [x.rank() - 1];
    let mut sums = Vec::with_capacity(3);
    for (u, v) in [(&x, &y), (&x, &x), (&y, &y)] {
        let product = b.mul(u, v)?;
        sums.push(b.sum(&product, &axis)?);
    }
    let (xx, yy) = (b.add(&sums[1], EPS)?, b.add(&sums[2], EPS)?);
    let squares = b.mul(&xx, &yy)?;
    let length = b.sqrt(&squares)?;
    let cos = b.div(&sums[0], &length)?;
    let far = b.one_minus(&cos)?;
    let near = b.sub(&cos, margin)?;
    let near = b.maximum(&near, 0.0)?;
    let (same, other) = (b.eq(&target, 1i64)?, b.eq(&target, -1i64)?);
    let (far, near) = (b.select(&same, &far, 0.0)?, b.select(&other, &near, 0.0)?);
    let l = b.add(&far, &near)?;
    loss::finish(b, call, &l, out)
}

fn triplet(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let distance = |b: &mut Builder<'_>, x: Arg, y: Arg| {
        b.tensor("torch.pairwise_distance", vec![x, y, call.raw("p")?, call.raw("eps")?])
    };
    let (anchor, positive, negative) = (call.raw("a")?, call.raw("positive")?, call.raw("negative")?);
    let near = distance(b, anchor.clone(), positive.clone())?;
    let mut far = distance(b, anchor, negative.clone())?;
    if call.bool("swap")? {
        let other = distance(b, positive, negative)?;
        far = b.minimum(&far, &other)?;
    }
    let out = float(call, near.dtype())?;
    let (near, far) = (b.to(&near, out.acc())?, b.to(&far, out.acc())?);
    let rest = b.sub(&near, &far)?;
    let rest = b.add(&rest, call.float("margin")?)?;
    let l = b.maximum(&rest, 0.0)?;
    loss::finish(b, call, &l, out)
}
