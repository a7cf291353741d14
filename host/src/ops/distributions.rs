//! Distributions that few models draw from: made of uniform and normal numbers, and the prims for permutations and
//! weighted draws.
//!
//! As everywhere, seed and offset are given and nothing here draws by itself. Drawn in the accumulation dtype and rounded
//! once. Deliberately absent: the prims of uniform and normal numbers, and dropout, which are `random`.

use super::arith::Built;
use super::build::{Builder, Num, Operand, Tensor};
use super::random::{as_float, float_words, next_philox};
use super::{Aten, AtenCall, Call, Import, Level, Meta, Op, OpError, Sample, Traits, Vjp, meta};
use crate::ir::{Arg, Dim, Dtype, TensorType, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &MULTINOMIAL_PHILOX,
    &RANDPERM_PHILOX,
    &TORCH_CAUCHY,
    &TORCH_EXPONENTIAL,
    &TORCH_GEOMETRIC,
    &TORCH_LOG_NORMAL,
    &TORCH_NORMAL,
    &TORCH_MULTINOMIAL,
    &TORCH_RANDPERM,
    &TORCH_RRELU,
];

pub static MULTINOMIAL_PHILOX: Op = Op {
    name: "prims.multinomial_philox",
    doc: "`n` indices drawn by each row of weights, the last dim. With replacement: the first whose running sum exceeds `u` times the total. Without: those of the largest `w / -ln(1 - u)`, ties to the lower index.",
    schema: "(a: Tensor<f>, n: dim, replacement: bool, *, seed: int, offset: int) -> Tensor<i64>",
    meta: Meta::Fn(multinomial_meta),
    vjp: Vjp::NonDiff,
    traits: Traits::RANDOM,
    samples: &[
        Sample("f32[5]{pos}, n=3, replacement=true, seed=1, offset=0"),
        Sample("f64[2, 4]{pos}, n=4, replacement=false, seed=1, offset=0"),
    ],
    ..Op::BASE
};

pub static RANDPERM_PHILOX: Op = Op {
    name: "prims.randperm_philox",
    doc: "The integers below `n` in random order: sorted by keys of 64 bits.",
    schema: "(n: dim, *, dtype: dtype, device: device, seed: int, offset: int) -> Tensor",
    meta: Meta::Fn(|call| {
        call.num("seed")?;
        call.num("offset")?;
        Ok(vec![Some(
            TensorType {
                dims: vec![call.dim("n")?],
                dtype: call.dtype("dtype")?,
                device: call.device("device")?,
            }
            .into(),
        )])
    }),
    vjp: Vjp::NonDiff,
    traits: Traits::RANDOM,
    samples: &[
        Sample("n=5, dtype=i64, device=cpu, seed=1, offset=0"),
        Sample("n=0, dtype=i32, device=cpu, seed=1, offset=0"),
    ],
    ..Op::BASE
};

pub static TORCH_CAUCHY: Op = Op {
    name: "torch.cauchy",
    doc: "Numbers of the Cauchy distribution, in the place of `a`.",
    schema: "(a: Tensor<f>, median: num = 0.0, sigma: num = 1.0, *, seed: int, offset: int) -> Tensor",
    level: Level::Composite(|b, call| {
        drawn(b, call, |b, u| {
            let (median, sigma) = (call.num("median")?, call.num("sigma")?);
            let turn = b.sub(u, 0.5)?;
            let angle = b.mul(&turn, std::f64::consts::PI)?;
            let x = b.unary("prims.tan", &angle)?;
            let x = b.mul(&x, sigma)?;
            b.add(&x, median)
        })
    }),
    meta: Meta::Fn(same_as_a),
    vjp: Vjp::Zero,
    traits: Traits::RANDOM,
    aten: &[Aten {
        overloads: &["cauchy.default", "cauchy_.default"],
        import: Import::With(|b, c| import_like(b, c, "torch.cauchy", &["median", "sigma"], Words::Uniform)),
    }],
    samples: &[
        Sample("f32[2, 3], seed=1, offset=0"),
        Sample("f64[4], seed=1, offset=0"),
        Sample("bf16[3], seed=1, offset=0"),
        Sample("f32[0], seed=1, offset=0"),
    ],
    ..Op::BASE
};

pub static TORCH_EXPONENTIAL: Op = Op {
    name: "torch.exponential",
    doc: "Numbers of the exponential distribution, in the place of `a`.",
    schema: "(a: Tensor<f>, rate: num = 1.0, *, seed: int, offset: int) -> Tensor",
    level: Level::Composite(|b, call| {
        drawn(b, call, |b, u| {
            let rate = call.float("rate")?;
            let log = log_of_rest(b, u)?;
            b.mul(&log, -1.0 / rate)
        })
    }),
    meta: Meta::Fn(same_as_a),
    vjp: Vjp::Zero,
    traits: Traits::RANDOM,
    aten: &[Aten {
        overloads: &["exponential.default", "exponential_.default"],
        import: Import::With(|b, c| import_like(b, c, "torch.exponential", &["lambd"], Words::Uniform)),
    }],
    samples: &[
        Sample("f32[2, 3], seed=1, offset=0"),
        Sample("f64[4], seed=1, offset=0"),
        Sample("bf16[3], seed=1, offset=0"),
        Sample("f32[0], seed=1, offset=0"),
    ],
    ..Op::BASE
};

pub static TORCH_GEOMETRIC: Op = Op {
    name: "torch.geometric",
    doc: "How many draws it takes until one of probability `p` succeeds, in the place of `a`.",
    schema: "(a: Tensor, p: num, *, seed: int, offset: int) -> Tensor",
    level: Level::Composite(|b, call| {
        drawn(b, call, |b, u| {
            let p = call.float("p")?;
            if !(p > 0.0 && p < 1.0) {
                return Err(call.error(format!("`p` must lie in (0, 1), found {p}")));
            }
            let log = log_of_rest(b, u)?;
            let n = b.div(&log, (-p).ln_1p())?;
            let n = b.unary("prims.ceil", &n)?;
            b.maximum(&n, 1.0)
        })
    }),
    meta: Meta::Fn(same_as_a),
    vjp: Vjp::Zero,
    traits: Traits::RANDOM,
    aten: &[Aten {
        overloads: &["geometric.default", "geometric_.default"],
        import: Import::With(|b, c| import_like(b, c, "torch.geometric", &["p"], Words::Uniform)),
    }],
    samples: &[
        Sample("f32[2, 3], p=0.5, seed=1, offset=0"),
        Sample("i64[4], p=0.1, seed=1, offset=0"),
        Sample("f64[0], p=0.5, seed=1, offset=0"),
    ],
    ..Op::BASE
};

pub static TORCH_LOG_NORMAL: Op = Op {
    name: "torch.log_normal",
    doc: "Numbers whose logarithms are normal, in the place of `a`.",
    schema: "(a: Tensor<f>, mean: num = 1.0, std: num = 2.0, *, seed: int, offset: int) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let z = normal_draw(b, call, a.dims(), &a)?;
        let z = b.mul(&z, call.num("std")?)?;
        let z = b.add(&z, call.num("mean")?)?;
        let x = b.exp(&z)?;
        Ok(vec![b.to(&x, a.dtype())?.arg()])
    }),
    meta: Meta::Fn(same_as_a),
    vjp: Vjp::Zero,
    traits: Traits::RANDOM,
    aten: &[Aten {
        overloads: &["log_normal.default", "log_normal_.default"],
        import: Import::With(|b, c| import_like(b, c, "torch.log_normal", &["mean", "std"], Words::Normal)),
    }],
    samples: &[
        Sample("f32[2, 3], seed=1, offset=0"),
        Sample("f64[4], seed=1, offset=0"),
        Sample("bf16[3], seed=1, offset=0"),
        Sample("f32[0], seed=1, offset=0"),
    ],
    ..Op::BASE
};

pub static TORCH_NORMAL: Op = Op {
    name: "torch.normal",
    doc: "Normal numbers of these means and deviations, one of which at least is a tensor, broadcast.",
    schema: "(mean: Tensor<f>|num, std: Tensor<f>|num, *, seed: int, offset: int) -> Tensor",
    level: Level::Composite(normal),
    meta: Meta::Fn(|call| {
        let (operands, dtype) = mean_and_std(call)?;
        meta::broadcast_of(call, &operands, dtype)
    }),
    vjp: Vjp::Zero,
    traits: Traits::RANDOM,
    aten: &[Aten {
        overloads: &["normal.Tensor_Tensor", "normal.Tensor_float", "normal.float_Tensor"],
        import: Import::With(import_normal),
    }],
    samples: &[
        Sample("f32[2, 3], f32[3], seed=1, offset=0"),
        Sample("f32[4], 2.0, seed=1, offset=0"),
        Sample("1.0, f64[3], seed=1, offset=0"),
    ],
    ..Op::BASE
};

pub static TORCH_MULTINOMIAL: Op = Op {
    name: "torch.multinomial",
    doc: "`n` indices drawn by each row of weights.",
    schema: "(a: Tensor<f>, n: dim, replacement: bool = false, *, seed: int, offset: int) -> Tensor<i64>",
    level: Level::Composite(|b, call| Ok(vec![b.tensor("prims.multinomial_philox", call.raw_args())?.arg()])),
    vjp: Vjp::NonDiff,
    traits: Traits::RANDOM,
    aten: &[Aten { overloads: &["multinomial.default"], import: Import::With(import_multinomial) }],
    samples: &[
        Sample("f32[5]{pos}, n=3, replacement=true, seed=1, offset=0"),
        Sample("f64[2, 4]{pos}, n=4, seed=1, offset=0"),
    ],
    ..Op::BASE
};

pub static TORCH_RANDPERM: Op = Op {
    name: "torch.randperm",
    doc: "The integers below `n` in random order.",
    schema: "(n: dim, *, dtype: dtype?, device: device?, seed: int, offset: int) -> Tensor",
    level: Level::Composite(|b, call| {
        let dtype = call.opt_dtype("dtype")?.unwrap_or(Dtype::I64);
        Ok(vec![
            b.tensor(
                "prims.randperm_philox",
                vec![
                    call.raw("n")?,
                    dtype.into(),
                    Arg::Device(call.device("device")?),
                    call.raw("seed")?,
                    call.raw("offset")?,
                ],
            )?
            .arg(),
        ])
    }),
    vjp: Vjp::NonDiff,
    traits: Traits::RANDOM,
    aten: &[Aten { overloads: &["randperm.default"], import: Import::With(import_randperm) }],
    samples: &[Sample("n=5, seed=1, offset=0"), Sample("n=3, dtype=f32, seed=1, offset=0")],
    ..Op::BASE
};

pub static TORCH_RRELU: Op = Op {
    name: "torch.rrelu",
    doc: "`x` above zero, `r x` below: `r` drawn from [lo, hi) for each element in training, else the middle.",
    schema: "(a: Tensor<f>, lo: num = 0.125, hi: num = 0.3333333333333333, training: bool = false, *, seed: int?, offset: int?) -> Tensor",
    level: Level::Composite(rrelu),
    meta: Meta::Fn(same_as_a),
    traits: Traits::RANDOM,
    aten: &[Aten { overloads: &["rrelu.default", "rrelu_.default"], import: Import::With(import_rrelu) }],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[2, 3], training=true, seed=1, offset=0"),
        Sample("T[0]"),
        Sample("T[4], lo=0.5, hi=0.5"),
    ],
    ..Op::BASE
};

fn same_as_a(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    Ok(vec![Some(Type::Tensor(call.tensor("a")?.ty))])
}

fn multinomial_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (a, n) = (call.tensor("a")?, call.dim("n")?);
    let Some((weights, rows)) = a.dims().split_last() else {
        return Err(call.error("needs at least one dim of weights"));
    };
    let too_many = matches!((n.known(), weights.known()), (Some(n), Some(m)) if n > m);
    if a.rank() > 2 || too_many && !call.bool("replacement")? {
        return Err(call.error(format!("cannot draw {n} of {}", meta::show(a.dims()))));
    }
    meta::one([rows, &[n]].concat(), Dtype::I64, &a.ty)
}

/// The dtype that numbers for `a` are drawn in.
fn drawn_in(a: &Tensor) -> Dtype {
    if a.dtype().is_float() { a.dtype().acc() } else { Dtype::F32 }
}

/// What `f` makes of uniform numbers in [0, 1), one for each element of `a`, in its dtype.
fn drawn(
    b: &mut Builder<'_>,
    call: &Call,
    f: impl FnOnce(&mut Builder<'_>, &Tensor) -> Built,
) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let u = uniform_draw(b, call, &a, 0.0, 1.0)?;
    let x = f(b, &u)?;
    Ok(vec![b.to(&x, a.dtype())?.arg()])
}

fn uniform_draw(b: &mut Builder<'_>, call: &Call, a: &Tensor, lo: f64, hi: f64) -> Built {
    let (dtype, device) = (drawn_in(a), Arg::Device(a.ty.device.clone()));
    let limits = [Arg::Float(lo), Arg::Float(hi)];
    let tail = [dtype.into(), device, call.raw("seed")?, call.raw("offset")?];
    b.tensor("prims.uniform_philox", [&[Arg::dims(a.dims())][..], &limits, &tail].concat())
}

fn normal_draw(b: &mut Builder<'_>, call: &Call, dims: &[Dim], like: &Tensor) -> Built {
    let (dtype, device) = (drawn_in(like), Arg::Device(like.ty.device.clone()));
    let args = vec![Arg::dims(dims), dtype.into(), device, call.raw("seed")?, call.raw("offset")?];
    b.tensor("prims.randn_philox", args)
}

/// log(1 - u), finite since u is below 1.
fn log_of_rest(b: &mut Builder<'_>, u: &Tensor) -> Built {
    let minus = b.neg(u)?;
    b.unary("prims.log1p", &minus)
}

/// `mean` and `std`, and the dtype of their numbers.
fn mean_and_std(call: &Call) -> Result<([Operand; 2], Dtype), OpError> {
    let operands = [call.operand("mean")?, call.operand("std")?];
    let dtype = meta::promoted(&operands);
    if operands.iter().all(|o| o.tensor().is_none()) || !dtype.is_float() {
        return Err(call.error(format!("one of `mean` and `std` must be a tensor of floats, found {dtype}")));
    }
    Ok((operands, dtype))
}

fn normal(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let ([mean, std], dtype) = mean_and_std(call)?;
    let like = call.first_tensor()?.clone();
    let dims =
        meta::broadcast_dims(call, [&mean, &std].into_iter().filter_map(|o| o.tensor()).map(Tensor::dims))?;
    let like =
        Tensor { id: like.id, ty: std::sync::Arc::new(TensorType { dtype, ..TensorType::clone(&like.ty) }) };
    let mut x = normal_draw(b, call, &dims, &like)?;
    for (prim, o) in [("prims.mul", std), ("prims.add", mean)] {
        let o = match o {
            Operand::Tensor(t) => Operand::Tensor(b.to(&t, x.dtype())?),
            number => number,
        };
        x = b.binary(prim, &x, o)?;
    }
    Ok(vec![b.to(&x, dtype)?.arg()])
}

fn rrelu(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let (lo, hi) = (call.float("lo")?, call.float("hi")?);
    let x = b.to(&a, a.dtype().acc())?;
    let below = if call.bool("training")? {
        if !call.has("seed") || !call.has("offset") {
            return Err(call.error("draws in training: `seed` and `offset` are missing"));
        }
        let slope = uniform_draw(b, call, &a, lo, hi)?;
        b.mul(&x, &slope)?
    } else {
        b.mul(&x, (lo + hi) / 2.0)?
    };
    let positive = b.binary("prims.gt", &x, 0.0)?;
    let y = b.select(&positive, &x, &below)?;
    Ok(vec![b.to(&y, a.dtype())?.arg()])
}

/// How many words each number takes.
#[derive(Clone, Copy)]
enum Words {
    Uniform,
    Normal,
}

/// An op that draws a number for each element of `self`.
fn import_like(
    b: &mut Builder<'_>,
    c: &AtenCall,
    op: &str,
    names: &[&str],
    words: Words,
) -> Result<Vec<Arg>, OpError> {
    let a = super::import::tensor(b, c, "self")?;
    let n = match words {
        Words::Uniform => float_words(drawn_in(&a), &a.ty.numel()),
        Words::Normal => a.ty.numel(),
    };
    let mut args = vec![a.arg()];
    for name in names {
        args.push(as_float(c.arg(name)?));
    }
    let (seed, offset) = next_philox(b, n)?;
    args.extend([seed, offset]);
    b.call(op, args)
}

fn import_normal(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let mut args = Vec::with_capacity(4);
    let mut dims = Vec::new();
    for name in ["mean", "std"] {
        let arg = as_float(c.arg(name)?);
        if let Arg::Value(v) = &arg
            && let Type::Tensor(t) = b.trace().ty(*v)
        {
            dims.push(t.dims.clone());
        }
        args.push(arg);
    }
    let dims = meta::broadcast(dims.iter().map(|d| &d[..])).map_err(|what| c.error(what))?;
    let (seed, offset) = next_philox(b, Dim::product(&dims))?;
    args.extend([seed, offset]);
    b.call("torch.normal", args)
}

fn import_multinomial(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let a = super::import::tensor(b, c, "self")?;
    let (n, replacement) = (c.arg("num_samples")?.clone(), super::import::flag(c, "replacement")?);
    let rows = Dim::product(&a.dims()[..a.rank().saturating_sub(1)]);
    let each = match Num::from_arg(&n) {
        Some(Num::Int(n)) => Dim::Known(n),
        Some(Num::Dim(d)) => d,
        _ => return Err(c.error("`num_samples` must be a size")),
    };
    let draws = if replacement { rows.mul(&each) } else { a.ty.numel() };
    let (seed, offset) = next_philox(b, draws.mul(&Dim::Known(2)))?;
    b.call("torch.multinomial", vec![a.arg(), n, Arg::Bool(replacement), seed, offset])
}

fn import_randperm(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let n = c.arg("n")?.clone();
    let size = match Num::from_arg(&n) {
        Some(Num::Int(n)) => Dim::Known(n),
        Some(Num::Dim(d)) => d,
        _ => return Err(c.error("`n` must be a size")),
    };
    let dtype = c.recorded_dtype(0).map_or(c.arg("dtype")?.clone(), Arg::Dtype);
    let (seed, offset) = next_philox(b, size.mul(&Dim::Known(2)))?;
    b.call_recorded(
        &TORCH_RANDPERM,
        vec![n, dtype, super::creation::given_device(c), seed, offset],
        &c.results,
    )
}

/// Outside of training nothing is drawn.
fn import_rrelu(b: &mut Builder<'_>, c: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let a = super::import::tensor(b, c, "self")?;
    let training = super::import::flag(c, "training")?;
    let mut args = vec![a.arg(), as_float(c.arg("lower")?), as_float(c.arg("upper")?), Arg::Bool(training)];
    if training {
        let (seed, offset) = next_philox(b, float_words(drawn_in(&a), &a.ty.numel()))?;
        args.extend([seed, offset]);
    }
    b.call("torch.rrelu", args)
}
