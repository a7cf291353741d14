//! Scaled dot product attention: forward, forward with the log-sum-exp of each row, and backward.
//!
//! Scores and weights are f32 for f16 and bf16 (f64 for f64). The scale (`1/sqrt(E)` unless given) is applied once, to
//! `q`. A bool mask says who is seen, a float one is added; causal means key `j` is seen by query `i` where `j <= i`,
//! counted from the first of both. A row that sees nothing gives 0, and 0 as its log-sum-exp. Leading dims broadcast;
//! with `enable_gqa` each head of `k` and `v` serves as many consecutive heads of `q` as there are.

use super::arith::{Built, size};
use super::aten::{Aten, AtenCall, Import};
use super::build::{Builder, Num, Tensor};
use super::linalg::is_number;
use super::reduction::logsumexp;
use super::{Augmented, Call, Grad, Level, Op, OpError, Sample, Vjp, import, meta};
use crate::ir::{Arg, Dim, Dtype};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &SCALED_DOT_PRODUCT_ATTENTION,
    &SCALED_DOT_PRODUCT_ATTENTION_LSE,
    &SCALED_DOT_PRODUCT_ATTENTION_BACKWARD,
];

pub static SCALED_DOT_PRODUCT_ATTENTION: Op = Op {
    name: "torch.scaled_dot_product_attention",
    doc: "`softmax(scale * q @ kᵀ + mask) @ v`, with dropout of the weights; rows that see nothing give 0.",
    schema: "(q: Tensor, k: Tensor, v: Tensor, mask: Tensor? = None, dropout_p: num = 0.0, is_causal: bool = false, *, \
             scale: num? = None, enable_gqa: bool = false, seed: int?, offset: int?) -> Tensor",
    level: Level::Composite(attention),
    vjp: Vjp::Augmented {
        forward: |b, call| {
            let args =
                ["q", "k", "v", "dropout_p", "is_causal", "mask", "scale", "enable_gqa", "seed", "offset"]
                    .map(|n| call.raw(n));
            let results = b.call(
                "torch.scaled_dot_product_attention_lse",
                args.into_iter().collect::<Result<_, _>>()?,
            )?;
            let lse = results
                .get(1)
                .and_then(Arg::value)
                .ok_or_else(|| call.error("its forward has no log-sum-exp"))?;
            Ok(Augmented { results: results[..1].to_vec(), extra: vec![b.as_tensor(lse)?] })
        },
        backward: |b, d| {
            let lse = d.extra.first().ok_or_else(|| d.call.error("its log-sum-exp was not kept"))?.clone();
            attention_rule(b, d, &lse)
        },
    },
    aten: &[Aten {
        overloads: &["scaled_dot_product_attention.default"],
        import: Import::With(import_attention),
    }],
    samples: &[
        Sample("T[2, 3, 4, 8], T[2, 3, 5, 8], T[2, 3, 5, 6]"),
        Sample("T[2, 3, 4, 8], T[2, 3, 4, 8], T[2, 3, 4, 8], is_causal=true"),
        Sample("T[1, 2, 4, 8], T[1, 2, 5, 8], T[1, 2, 5, 8], bool[4, 5]"),
        Sample("T[2, 2, 4, 8], T[2, 2, 5, 8], T[2, 2, 5, 8], T[2, 1, 1, 5], scale=0.5"),
        Sample("T[1, 4, 3, 8], T[1, 2, 3, 8], T[1, 2, 3, 8], is_causal=true, enable_gqa=true"),
        Sample("T[4, 8], T[5, 8], T[5, 8]"),
        Sample("T[1, 2, 4, 8], T[1, 2, 5, 8], T[1, 2, 5, 8], dropout_p=0.5, seed=7, offset=8"),
        Sample("T[1, 2, 0, 8], T[1, 2, 5, 8], T[1, 2, 5, 8]"),
    ],
    ..Op::BASE
};

pub static SCALED_DOT_PRODUCT_ATTENTION_LSE: Op = Op {
    name: "torch.scaled_dot_product_attention_lse",
    doc: "Attention, and for each query the log-sum-exp of its scores (f32, or f64 for f64), from which the backward \
          finds the weights again; 0 for rows that see nothing.",
    schema: "(q: Tensor, k: Tensor, v: Tensor, dropout_p: num = 0.0, is_causal: bool = false, *, mask: Tensor? = None, \
             scale: num? = None, enable_gqa: bool = false, seed: int?, offset: int?) -> (Tensor, Tensor<acc>)",
    level: Level::Composite(attention_lse),
    vjp: Vjp::Rule(|b, d| {
        if d.cotangent(1).is_some() {
            return Err(d.call.error("its log-sum-exp has no gradient"));
        }
        let lse = d.output(1)?;
        attention_rule(b, d, &lse)
    }),
    aten: &[Aten {
        overloads: &["_scaled_dot_product_flash_attention_for_cpu.default"],
        import: Import::With(import_flash),
    }],
    samples: &[
        Sample("T[2, 3, 4, 8], T[2, 3, 5, 8], T[2, 3, 5, 8]"),
        Sample("T[2, 3, 4, 8], T[2, 3, 4, 8], T[2, 3, 4, 8], is_causal=true"),
        Sample("T[1, 2, 4, 8], T[1, 2, 5, 8], T[1, 2, 5, 8], T[4, 5], scale=0.5"),
        Sample("T[1, 2, 4, 8], T[1, 2, 5, 8], T[1, 2, 5, 8], bool[1, 1, 4, 5]"),
        Sample("T[1, 4, 3, 8], T[1, 2, 3, 8], T[1, 2, 3, 8], enable_gqa=true"),
        Sample("T[1, 2, 4, 8], T[1, 2, 5, 8], T[1, 2, 5, 8], dropout_p=0.25, seed=7, offset=8"),
    ],
    ..Op::BASE
};

pub static SCALED_DOT_PRODUCT_ATTENTION_BACKWARD: Op = Op {
    name: "torch.scaled_dot_product_attention_backward",
    doc: "Gradients of attention in `q`, `k`, `v` and, where it is a float one, the mask, from its output and \
          log-sum-exp; `seed` and `offset` are those of the forward.",
    schema: "(g: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor<acc>, dropout_p: num, \
             is_causal: bool, *, mask: Tensor? = None, scale: num? = None, enable_gqa: bool = false, seed: int?, \
             offset: int?) -> (Tensor, Tensor, Tensor, Tensor?)",
    level: Level::Composite(attention_backward),
    aten: &[Aten {
        overloads: &["_scaled_dot_product_flash_attention_for_cpu_backward.default"],
        import: Import::With(import_flash_backward),
    }],
    samples: &[
        Sample(
            "T[2, 3, 4, 8], T[2, 3, 4, 8], T[2, 3, 5, 8], T[2, 3, 5, 8], T[2, 3, 4, 8], f32[2, 3, 4]{0..4}, \
             dropout_p=0.0, is_causal=false",
        ),
        Sample(
            "T[1, 2, 4, 8], T[1, 2, 4, 8], T[1, 2, 4, 8], T[1, 2, 4, 8], T[1, 2, 4, 8], f32[1, 2, 4]{0..4}, \
             dropout_p=0.0, is_causal=true, scale=0.5",
        ),
        Sample(
            "T[1, 2, 4, 8], T[1, 2, 4, 8], T[1, 2, 5, 8], T[1, 2, 5, 8], T[1, 2, 4, 8], f32[1, 2, 4]{0..4}, \
             T[1, 1, 4, 5], dropout_p=0.0, is_causal=false",
        ),
        Sample(
            "T[1, 4, 3, 8], T[1, 4, 3, 8], T[1, 2, 3, 8], T[1, 2, 3, 8], T[1, 4, 3, 8], f32[1, 4, 3]{0..4}, \
             dropout_p=0.0, is_causal=false, enable_gqa=true",
        ),
    ],
    ..Op::BASE
};

/// The operands brought to one set of leading dims and the accumulation dtype, the scale applied.
struct Attention {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Option<Tensor>,
    scale: Scale,
    /// Dims of `q` and `k` as they came; what the gradients must have.
    given: [Vec<Dim>; 3],
    out: Dtype,
}

/// The scale: a number, or a zero-dim tensor where the embedding's size is symbolic.
#[derive(Clone)]
enum Scale {
    Number(Num),
    Tensor(Tensor),
}

impl Attention {
    fn of(b: &mut Builder<'_>, call: &Call) -> Result<Attention, OpError> {
        let (q, k, v) = (call.tensor("q")?, call.tensor("k")?, call.tensor("v")?);
        check(call, &q, &k, &v)?;
        let given = [&q, &k, &v].map(|t| t.dims().to_vec());
        let out = q.dtype();
        let acc = out.acc();
        let scale = scale(b, call, &q, acc)?;
        let q = b.to(&q, acc)?;
        let mut kv = [b.to(&k, acc)?, b.to(&v, acc)?];
        if call.bool("enable_gqa")? {
            for t in &mut kv {
                *t = repeat_heads(b, call, t, &q)?;
            }
        }
        let [k, v] = kv;
        let lead = |t: &Tensor| t.dims()[..t.rank() - 2].to_vec();
        let batch = meta::broadcast_dims(call, [&lead(&q)[..], &lead(&k)[..], &lead(&v)[..]])?;
        let mut with_batch = |t: &Tensor| {
            let dims = [&batch[..], &t.dims()[t.rank() - 2..]].concat();
            b.expand(t, &dims)
        };
        let (q, k, v) = (with_batch(&q)?, with_batch(&k)?, with_batch(&v)?);
        let q = scaled(b, &q, &scale)?;
        Ok(Attention { q, k, v, mask: call.opt_tensor("mask")?, scale, given, out })
    }

    /// Dims of the scores: `[.., queries, keys]`.
    fn score_dims(&self) -> Vec<Dim> {
        let n = self.q.rank();
        let mut dims = self.q.dims().to_vec();
        dims[n - 1] = self.k.dims()[n - 2].clone();
        dims
    }

    /// The scores, hidden ones -inf.
    fn scores(&self, b: &mut Builder<'_>, call: &Call) -> Built {
        let t = b.swap_last(&self.k)?;
        let mut s = b.matmul(&self.q, &t)?;
        if call.bool("is_causal")? {
            let seen = causal(b, &s)?;
            s = b.select(&seen, &s, f64::NEG_INFINITY)?;
        }
        let Some(mask) = &self.mask else { return Ok(s) };
        let joint = meta::broadcast_dims(call, [s.dims(), mask.dims()])?;
        if joint.len() != s.rank() || joint.iter().zip(s.dims()).any(|(a, b)| a.same(b) == Some(false)) {
            return Err(call.error(format!(
                "the mask {} does not broadcast to the scores {}",
                meta::show(mask.dims()),
                meta::show(s.dims())
            )));
        }
        if mask.dtype() == Dtype::Bool {
            return b.select(mask, &s, f64::NEG_INFINITY);
        }
        if !mask.dtype().is_float() {
            return Err(call.error(format!("the mask is {}, it must be bool or floating", mask.dtype())));
        }
        let mask = b.to(mask, s.dtype())?;
        b.add(&s, &mask)
    }
}

fn check(call: &Call, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<(), OpError> {
    let shown = || {
        let [q, k, v] = [q, k, v].map(|t| meta::show(t.dims()));
        format!("q {q}, k {k}, v {v}")
    };
    if q.dtype() != k.dtype() || q.dtype() != v.dtype() || !q.dtype().is_float() {
        let what = format!(
            "q, k, v of one floating dtype are wanted, found {}, {}, {}",
            q.dtype(),
            k.dtype(),
            v.dtype()
        );
        return Err(call.error(what));
    }
    if [q, k, v].iter().any(|t| t.rank() < 2) {
        return Err(call.error(format!("operands need at least 2 dims: {}", shown())));
    }
    let last = |t: &Tensor, i: usize| t.dims()[t.rank() - i].clone();
    if last(q, 1).same(&last(k, 1)) == Some(false) {
        return Err(call.error(format!("q and k end in different sizes: {}", shown())));
    }
    if last(k, 2).same(&last(v, 2)) == Some(false) {
        return Err(call.error(format!("k and v have different numbers of keys: {}", shown())));
    }
    Ok(())
}

fn scale(b: &mut Builder<'_>, call: &Call, q: &Tensor, acc: Dtype) -> Result<Scale, OpError> {
    if let Some(n) = call.opt_num("scale")? {
        return Ok(Scale::Number(n));
    }
    match q.dims().last().and_then(Dim::known) {
        Some(e) => Ok(Scale::Number(Num::Float(1.0 / (e as f64).sqrt()))),
        None => {
            let one = b.full(&[], 1.0, acc, &q.ty.device)?;
            let e = b.mul(&one, size(q.dims().last().expect("at least 2 dims")))?;
            Ok(Scale::Tensor(b.rsqrt(&e)?))
        }
    }
}

fn scaled(b: &mut Builder<'_>, x: &Tensor, scale: &Scale) -> Built {
    match scale {
        Scale::Number(n) if is_number(n, 1.0) => Ok(x.clone()),
        Scale::Number(n) => b.mul(x, n.clone()),
        Scale::Tensor(t) => b.mul(x, t),
    }
}

/// Heads of `k` or `v`, each repeated for the consecutive heads of `q` that it serves.
fn repeat_heads(b: &mut Builder<'_>, call: &Call, t: &Tensor, q: &Tensor) -> Built {
    let (n, m) = (t.rank(), q.rank());
    if n < 3 || m < 3 {
        return Err(call.error("grouped queries need a dim of heads"));
    }
    let (own, wanted) = (t.dims()[n - 3].clone(), q.dims()[m - 3].clone());
    if own == wanted {
        return Ok(t.clone());
    }
    let uneven = matches!((own.known(), wanted.known()), (Some(o), Some(w)) if o == 0 || w % o != 0);
    let each = wanted.floordiv(&own).filter(|_| !uneven);
    let Some(each) = each else {
        return Err(call.error(format!("{wanted} heads of q are no multiple of {own}")));
    };
    let mut dims = t.dims().to_vec();
    dims.insert(n - 2, each);
    let repeated = b.spread(t, &dims, &[n - 2])?;
    let mut flat = t.dims().to_vec();
    flat[n - 3] = wanted;
    b.reshape(&repeated, &flat)
}

/// Where key `j <= i`, with the dims of the scores' last two.
fn causal(b: &mut Builder<'_>, scores: &Tensor) -> Built {
    let dims = &scores.dims()[scores.rank() - 2..];
    let device = scores.ty.device.clone();
    let i = b.positions(dims, 0, Dtype::I64, &device)?;
    let j = b.positions(dims, 1, Dtype::I64, &device)?;
    b.ge(&i, &j)
}

/// `x` with elements dropped, if the call drops any.
fn dropped(b: &mut Builder<'_>, call: &Call, x: &Tensor) -> Built {
    let p = call.num("dropout_p")?;
    if is_number(&p, 0.0) {
        return Ok(x.clone());
    }
    let (seed, offset) = (call.raw("seed")?, call.raw("offset")?);
    if seed.is_none() || offset.is_none() {
        return Err(call.error("dropout needs `seed` and `offset`"));
    }
    let args = vec![x.arg(), p.to_arg(), Arg::Bool(true), Arg::str("element"), seed, offset];
    b.tensor("torch.dropout", args)
}

fn attention(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = Attention::of(b, call)?;
    let s = a.scores(b, call)?;
    let p = b.tensor("torch.safe_softmax", vec![s.arg(), Arg::Int(-1)])?;
    let p = dropped(b, call, &p)?;
    let o = b.matmul(&p, &a.v)?;
    Ok(vec![b.to(&o, a.out)?.arg()])
}

/// Weights before dropout from scores and log-sum-exps.
fn weights(b: &mut Builder<'_>, s: &Tensor, lse: &Tensor) -> Built {
    let last = s.rank() - 1;
    let lse = b.spread(lse, s.dims(), &[last])?;
    let d = b.sub(s, &lse)?;
    b.exp(&d)
}

fn attention_lse(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = Attention::of(b, call)?;
    let s = a.scores(b, call)?;
    let lse = logsumexp(b, &s, &[s.rank() - 1])?;
    let nothing = b.eq(&lse, f64::NEG_INFINITY)?;
    let lse = b.select(&nothing, 0.0, &lse)?;
    let p = weights(b, &s, &lse)?;
    let p = dropped(b, call, &p)?;
    let o = b.matmul(&p, &a.v)?;
    Ok(vec![b.to(&o, a.out)?.arg(), lse.arg()])
}

/// With `p` the weights, `z` what dropout multiplies them by, `s` the scores: `gv = (p z)ᵀ g`,
/// `gp = (g vᵀ) z`, `gs = p (gp - Σ g out)`, where the sum over the row is `Σ p gp`; then `gq = scale gs k` and
/// `gk = gsᵀ (scale q)`.
fn attention_backward(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = Attention::of(b, call)?;
    let acc = a.q.dtype();
    let (g, out, lse) = (call.tensor("g")?, call.tensor("out")?, call.tensor("lse")?);
    let (g, out, lse) = (b.to(&g, acc)?, b.to(&out, acc)?, b.to(&lse, acc)?);
    let s = a.scores(b, call)?;
    let p = weights(b, &s, &lse)?;
    let vt = b.swap_last(&a.v)?;
    let mut gp = b.matmul(&g, &vt)?;
    let mut pz = p.clone();
    if !is_number(&call.num("dropout_p")?, 0.0) {
        let ones = b.full(&a.score_dims(), 1.0, acc, &g.ty.device)?;
        let z = dropped(b, call, &ones)?;
        (gp, pz) = (b.mul(&gp, &z)?, b.mul(&p, &z)?);
    }
    let pzt = b.swap_last(&pz)?;
    let gv = b.matmul(&pzt, &g)?;
    let go = b.mul(&g, &out)?;
    let last = go.rank() - 1;
    let delta = b.sum(&go, &[last])?;
    let delta = b.spread(&delta, s.dims(), &[last])?;
    let d = b.sub(&gp, &delta)?;
    let gs = b.mul(&p, &d)?;
    let gq = b.matmul(&gs, &a.k)?;
    let gq = scaled(b, &gq, &a.scale)?;
    let gst = b.swap_last(&gs)?;
    let gk = b.matmul(&gst, &a.q)?;
    let mut grads = Vec::new();
    for (x, dims) in [gq, gk, gv].iter().zip(&a.given) {
        let x = gathered(b, call, x, dims)?;
        grads.push(b.to(&x, a.out)?.arg());
    }
    grads.push(match &a.mask {
        Some(m) if m.dtype().is_float() => {
            let gm = summed_to(b, &gs, m.dims())?;
            b.to(&gm, m.dtype())?.arg()
        }
        _ => Arg::None,
    });
    Ok(grads)
}

/// A gradient summed over what was repeated: heads, then broadcast leading dims.
fn gathered(b: &mut Builder<'_>, call: &Call, g: &Tensor, dims: &[Dim]) -> Built {
    let (n, m) = (g.rank(), dims.len());
    let heads_differ = call.bool("enable_gqa")? && n >= 3 && g.dims()[n - 3] != dims[m - 3];
    if !heads_differ {
        return summed_to(b, g, dims);
    }
    let own = &dims[m - 3];
    let each = g.dims()[n - 3].floordiv(own).ok_or_else(|| call.error("k has no heads"))?;
    let mut split = g.dims().to_vec();
    split.splice(n - 3..n - 2, [own.clone(), each]);
    let g = b.reshape(g, &split)?;
    let g = b.sum(&g, &[n - 2])?;
    summed_to(b, &g, dims)
}

/// The inverse of broadcasting for gradients: `g` summed over what `dims` lacks or has as 1.
pub fn summed_to(b: &mut Builder<'_>, g: &Tensor, dims: &[Dim]) -> Built {
    let extra = g.rank() - dims.len();
    let was_one = |i: usize| i >= extra && dims[i - extra].is(1) && !g.dims()[i].is(1);
    let axes: Vec<usize> = (0..g.rank()).filter(|i| *i < extra || was_one(*i)).collect();
    if axes.is_empty() {
        return Ok(g.clone());
    }
    let s = b.sum(g, &axes)?;
    let kept: Vec<usize> = axes.iter().filter(|i| **i >= extra).map(|i| i - extra).collect();
    if kept.is_empty() { Ok(s) } else { b.spread(&s, dims, &kept) }
}

// Import.

/// Seed and offset for the weights' dropout, drawn before the op; absent where it drops nothing.
fn philox(b: &mut Builder<'_>, c: &AtenCall, dropout_p: &Arg) -> Result<[Arg; 2], OpError> {
    if matches!(dropout_p, Arg::Float(p) if *p == 0.0) {
        return Ok([Arg::None, Arg::None]);
    }
    let (q, k) = (import::tensor(b, c, "query")?, import::tensor(b, c, "key")?);
    if q.rank() < 2 || k.rank() < 2 {
        return Err(c.error("operands need at least 2 dims"));
    }
    // Heads of `k` are those of `q` or fewer, so the leading dims of the weights are those of `q` broadcast with the
    // dims before the heads.
    let before = |t: &Tensor| t.dims()[..t.rank().saturating_sub(3)].to_vec();
    let lead = meta::broadcast([&before(&q)[..], &before(&k)[..]]).map_err(|e| c.error(e))?;
    let rows = &q.dims()[q.rank().saturating_sub(3)..q.rank() - 1];
    let n = Dim::product(lead.iter().chain(rows)).mul(&k.dims()[k.rank() - 2]);
    match b.call("prims.next_philox", vec![Arg::dim(n)])?.as_slice() {
        [seed, offset] => Ok([seed.clone(), offset.clone()]),
        _ => Err(c.error("`prims.next_philox` has two results")),
    }
}

fn import_attention(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let p = import::float(c, "dropout_p")?;
    let [seed, offset] = philox(b, c, &p)?;
    let mut args = import::args(c, &["query", "key", "value", "attn_mask"])?;
    args.extend([p, import::arg(c, "is_causal")?, import::float(c, "scale")?]);
    args.extend([import::arg(c, "enable_gqa")?, seed, offset]);
    b.call("torch.scaled_dot_product_attention", args)
}

/// The flash kernels group queries wherever the numbers of heads differ.
fn is_grouped(b: &Builder<'_>, c: &AtenCall) -> Result<Arg, OpError> {
    let (q, k) = (import::tensor(b, c, "query")?, import::tensor(b, c, "key")?);
    let heads = |t: &Tensor| t.rank().checked_sub(3).map(|i| t.dims()[i].clone());
    // Numbers that may be equal are no groups then: one head of `k` serves one of `q`.
    let differ = matches!((heads(&q), heads(&k)), (Some(x), Some(y)) if x != y);
    Ok(Arg::Bool(differ))
}

fn import_flash(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let p = import::float(c, "dropout_p")?;
    let [seed, offset] = philox(b, c, &p)?;
    let mut args = import::args(c, &["query", "key", "value"])?;
    args.extend([p, import::arg(c, "is_causal")?, import::arg(c, "attn_mask")?, import::float(c, "scale")?]);
    args.extend([is_grouped(b, c)?, seed, offset]);
    b.call("torch.scaled_dot_product_attention_lse", args)
}

fn import_flash_backward(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let p = import::float(c, "dropout_p")?;
    if !matches!(p, Arg::Float(x) if x == 0.0) {
        return Err(
            c.error("its dropout cannot be repeated: the file does not hold the forward's random numbers")
        );
    }
    let mut args = import::args(c, &["grad_out", "query", "key", "value", "out", "logsumexp"])?;
    args.extend([p, import::arg(c, "is_causal")?, import::arg(c, "attn_mask")?, import::float(c, "scale")?]);
    args.push(is_grouped(b, c)?);
    let mut grads = b.call("torch.scaled_dot_product_attention_backward", args)?;
    grads.truncate(3);
    Ok(grads)
}

/// Gradients of q, k, v and, where it is wanted, of a floating mask.
fn attention_rule(b: &mut Builder<'_>, d: &Grad<'_>, lse: &Tensor) -> Result<Vec<Option<Tensor>>, OpError> {
    let (g, out) = (d.g()?, d.output(0)?);
    let mut args = vec![g.arg()];
    for name in ["q", "k", "v"] {
        args.push(d.call.raw(name)?);
    }
    args.push(out.arg());
    args.push(lse.arg());
    for name in ["dropout_p", "is_causal", "mask", "scale", "enable_gqa", "seed", "offset"] {
        args.push(d.call.raw(name)?);
    }
    let grads = b.call("torch.scaled_dot_product_attention_backward", args)?;
    // Tensors stand in the order of the schema, where the mask may come before or behind the others.
    let names: Vec<&str> = ["q", "k", "v", "mask"].into_iter().filter(|n| d.call.has(n)).collect();
    let mut all = Vec::new();
    for name in names {
        let at = ["q", "k", "v", "mask"].iter().position(|n| *n == name).unwrap_or(0);
        all.push(match grads.get(at).and_then(Arg::value) {
            Some(v) => Some(b.as_tensor(v)?),
            None => None,
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use crate::ir::{Arg, Dtype, SymKind, Symbol, TensorType};
    use crate::ir::{Dim, Stage, Trace};
    use crate::ops::Builder;
    use crate::ops::meta::show;

    /// Dims of the result of attention on f32 tensors of these dims, or why there is none.
    fn attention(q: &[Dim], k: &[Dim], v: &[Dim], rest: Vec<Arg>) -> Result<String, String> {
        let mut trace = Trace::new("t", Stage::Acquired);
        let mut args = Vec::new();
        for (name, dims) in [("q", q), ("k", k), ("v", v)] {
            args.push(Arg::Value(trace.add_value(name, TensorType::new(dims, Dtype::F32).into())));
        }
        args.extend(rest);
        let mut b = Builder::top(&mut trace);
        let r = b.tensor("torch.scaled_dot_product_attention", args);
        r.map(|t| show(t.dims())).map_err(|e| e.what)
    }

    fn known(dims: &[i64]) -> Vec<Dim> {
        dims.iter().map(|d| (*d).into()).collect()
    }

    #[test]
    fn symbolic_lengths_and_grouped_heads_are_taken() {
        let s = |n| Dim::symbol(Symbol { kind: SymKind::Input, number: n });
        let (q, kv) = ([s(0), 8.into(), s(1), 16.into()], [s(0), 2.into(), s(2), 16.into()]);
        let grouped = vec![Arg::None, Arg::Float(0.0), Arg::Bool(true), Arg::None, Arg::Bool(true)];
        assert_eq!(attention(&q, &kv, &kv, grouped).as_deref(), Ok("[s0, 8, s1, 16]"));
    }

    #[test]
    fn what_does_not_match_is_refused_with_all_sizes() {
        let refused = attention(&known(&[2, 4, 8]), &known(&[2, 5, 7]), &known(&[2, 5, 7]), vec![]);
        assert_eq!(
            refused,
            Err("q and k end in different sizes: q [2, 4, 8], k [2, 5, 7], v [2, 5, 7]".into())
        );
        let refused = attention(&known(&[2, 4, 8]), &known(&[2, 5, 8]), &known(&[2, 6, 8]), vec![]);
        assert!(refused.is_err_and(|e| e.contains("different numbers of keys")));
    }

    #[test]
    fn dropout_without_random_numbers_is_refused() {
        let x = known(&[2, 4, 8]);
        let refused = attention(&x, &x, &x, vec![Arg::None, Arg::Float(0.5)]);
        assert!(refused.is_err_and(|e| e.contains("`seed`")));
    }
}
