//! Random numbers: pure functions of a seed and an offset into the session's Philox stream.
//!
//! Invariant: no op draws by itself. The importer asks `prims.next_philox` for the words an op needs and hands seed and
//! offset over, so a decomposition, a recomputation and every executor draw the same numbers.

use super::aten::{Aten, AtenCall, Import};
use super::build::{Builder, Num, Operand, Tensor};
use super::emit::{self, broadcast_to, number_for, to_dtype};
use super::meta::DEFAULT_FLOAT;
use super::{Call, Grad, HostOp, Level, Meta, Op, OpError, Sample, Traits, Vjp};
use crate::ir::{Arg, Device, Dim, Dtype, NumKind, NumberType, TensorType, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &NEXT_PHILOX,
    &RANDINT_PHILOX,
    &RANDN_PHILOX,
    &UNIFORM_PHILOX,
    &TORCH_BERNOULLI,
    &TORCH_DROPOUT,
    &TORCH_NATIVE_DROPOUT,
    &TORCH_NATIVE_DROPOUT_BACKWARD,
    &TORCH_RAND,
    &TORCH_RANDINT,
    &TORCH_RANDN,
];

const PRIM: Op = Op { traits: Traits::RANDOM, ..Op::BASE };
const COMPOSITE: Op = Op { traits: Traits::RANDOM, ..Op::BASE };

pub static NEXT_PHILOX: Op = Op {
    name: "prims.next_philox",
    doc: "Seed and position of the session's stream, which moves on by `n` words, rounded up to a multiple of 4.",
    schema: "(n: dim) -> (int, int)",
    meta: Meta::Fn(|call| {
        call.dim("n")?;
        let number = Type::Number(NumberType { kind: NumKind::Int, equals: None });
        Ok(vec![Some(number.clone()), Some(number)])
    }),
    vjp: Vjp::NonDiff,
    traits: Traits::HOST.and(Traits::EFFECT),
    host: Some(HostOp::NextPhilox),
    samples: &[Sample("n=16")],
    ..PRIM
};

pub static RANDINT_PHILOX: Op = Op {
    name: "prims.randint_philox",
    doc: "Integers from `lo` up to `hi`, `hi` not included, each as likely; 64 bits a draw.",
    schema: "(lo: int, hi: int, dims: dims, *, dtype: dtype, device: device, seed: int, offset: int) -> Tensor",
    meta: Meta::Fn(|call| {
        let (lo, hi) = (call.int("lo")?, call.int("hi")?);
        if lo >= hi {
            return Err(call.error(format!("no integer lies from {lo} up to {hi}")));
        }
        drawn(call, call.dtype("dtype")?)
    }),
    vjp: Vjp::NonDiff,
    samples: &[
        Sample("0, 10, dims=[2, 3], dtype=i64, device=cpu, seed=1, offset=0"),
        Sample("-5, 5, dims=[4], dtype=f32, device=cpu, seed=1, offset=8"),
        Sample("0, 2, dims=[0], dtype=bool, device=cpu, seed=1, offset=0"),
    ],
    ..PRIM
};

pub static RANDN_PHILOX: Op = Op {
    name: "prims.randn_philox",
    doc: "Normal numbers of mean 0 and deviation 1, by Box and Muller in f64, rounded once.",
    schema: "(dims: dims, *, dtype: dtype, device: device, seed: int, offset: int) -> Tensor",
    meta: Meta::Fn(|call| drawn(call, float_dtype(call, call.dtype("dtype")?)?)),
    vjp: Vjp::NonDiff,
    samples: &[
        Sample("dims=[2, 3], dtype=f32, device=cpu, seed=1, offset=0"),
        Sample("dims=[5], dtype=f64, device=cpu, seed=1, offset=8"),
        Sample("dims=[], dtype=bf16, device=cpu, seed=1, offset=0"),
    ],
    ..PRIM
};

pub static UNIFORM_PHILOX: Op = Op {
    name: "prims.uniform_philox",
    doc: "Numbers from `lo` up to `hi`, each as likely.",
    schema: "(dims: dims, lo: num, hi: num, *, dtype: dtype, device: device, seed: int, offset: int) -> Tensor",
    meta: Meta::Fn(|call| {
        call.num("lo")?;
        call.num("hi")?;
        drawn(call, float_dtype(call, call.dtype("dtype")?)?)
    }),
    vjp: Vjp::NonDiff,
    samples: &[
        Sample("dims=[2, 3], lo=0.0, hi=1.0, dtype=f32, device=cpu, seed=1, offset=0"),
        Sample("dims=[5], lo=-1.0, hi=1.0, dtype=f64, device=cpu, seed=1, offset=8"),
        Sample("dims=[0], lo=0.0, hi=1.0, dtype=f16, device=cpu, seed=1, offset=0"),
    ],
    ..PRIM
};

pub static TORCH_BERNOULLI: Op = Op {
    name: "torch.bernoulli",
    doc: "One with the probability `p` (of each element of `a`, where `p` is absent), else zero, in `a`'s dims and dtype.",
    schema: "(a: Tensor, p: Tensor<f>|num?, *, seed: int, offset: int) -> Tensor",
    level: Level::Composite(bernoulli),
    meta: Meta::Fn(|call| {
        bernoulli_p(call)?;
        Ok(vec![Some(Type::Tensor(call.tensor("a")?.ty))])
    }),
    vjp: Vjp::Zero,
    aten: &[
        Aten {
            overloads: &["bernoulli.default"],
            import: Import::With(|b, call| {
                let a = call.tensor(b, "self")?;
                let (seed, offset) = next_philox(b, a.ty.numel())?;
                b.call_recorded(&TORCH_BERNOULLI, vec![a.arg(), Arg::None, seed, offset], &call.results)
            }),
        },
        Aten {
            overloads: &["bernoulli.p", "bernoulli.Tensor", "bernoulli_.float", "bernoulli_.Tensor"],
            import: Import::With(|b, call| {
                let a = call.tensor(b, "self")?;
                let (seed, offset) = next_philox(b, a.ty.numel())?;
                b.call_recorded(
                    &TORCH_BERNOULLI,
                    vec![a.arg(), as_float(call.arg("p")?), seed, offset],
                    &call.results,
                )
            }),
        },
    ],
    samples: &[
        Sample("f32[2, 3]{unit}, seed=1, offset=0"),
        Sample("T[4], 0.25, seed=1, offset=8"),
        Sample("T[4], f32[4]{unit}, seed=1, offset=0"),
    ],
    ..COMPOSITE
};

pub static TORCH_DROPOUT: Op = Op {
    name: "torch.dropout",
    doc: "In training, elements (whole channels with `feature`) become zero with the probability `p` and the others grow by 1 / (1 - p); the `alpha` kinds keep mean and deviation of SELU's results. Else `a` itself.",
    schema: "(a: Tensor<f>, p: num, train: bool, *, kind: str{element|feature|alpha|feature_alpha} = element, seed: int, offset: int) -> Tensor",
    level: Level::Composite(dropout),
    meta: Meta::Fn(|call| {
        dropout_kind(call)?;
        probability(call)?;
        Ok(vec![Some(Type::Tensor(call.tensor("a")?.ty))])
    }),
    // With the same seed and offset the same are dropped: the mask need not be kept.
    vjp: Vjp::Rule(|b, d| {
        let (_, alpha) = dropout_kind(d.call)?;
        if alpha {
            return Ok(vec![Some(of_alpha_dropout(b, d)?)]);
        }
        let mut args = vec![d.g()?.arg()];
        for n in ["p", "train", "kind", "seed", "offset"] {
            args.push(d.call.raw(n)?);
        }
        Ok(vec![Some(b.tensor("torch.dropout", args)?)])
    }),
    aten: &[
        Aten {
            overloads: &["dropout.default", "dropout_.default"],
            import: Import::With(|b, call| dropped(b, call, "element")),
        },
        Aten {
            overloads: &["feature_dropout.default", "feature_dropout_.default"],
            import: Import::With(|b, call| dropped(b, call, "feature")),
        },
        Aten {
            overloads: &["alpha_dropout.default", "alpha_dropout_.default"],
            import: Import::With(|b, call| dropped(b, call, "alpha")),
        },
        Aten {
            overloads: &["feature_alpha_dropout.default", "feature_alpha_dropout_.default"],
            import: Import::With(|b, call| dropped(b, call, "feature_alpha")),
        },
    ],
    samples: &[
        Sample("T[2, 3], p=0.5, train=true, seed=1, offset=0"),
        Sample("T[4], p=0.1, train=false, seed=1, offset=0"),
        Sample("T[2, 3, 4], p=0.25, train=true, kind=\"feature\", seed=1, offset=8"),
        Sample("T[6], p=0.3, train=true, kind=\"alpha\", seed=1, offset=0"),
        Sample("T[2, 3, 4], p=0.3, train=true, kind=\"feature_alpha\", seed=1, offset=0"),
        Sample("T[3], p=1.0, train=true, seed=1, offset=0"),
    ],
    ..COMPOSITE
};

pub static TORCH_NATIVE_DROPOUT: Op = Op {
    name: "torch.native_dropout",
    doc: "As `torch.dropout` of elements, with the mask of those kept; `train` absent counts as true.",
    schema: "(a: Tensor<f>, p: num, train: bool?, *, seed: int, offset: int) -> (Tensor, Tensor<b>)",
    level: Level::Composite(native_dropout),
    meta: Meta::Fn(|call| {
        probability(call)?;
        let a = call.tensor("a")?;
        let mask = TensorType { dtype: Dtype::Bool, ..(*a.ty).clone() };
        Ok(vec![Some(Type::Tensor(a.ty)), Some(mask.into())])
    }),
    vjp: Vjp::Rule(|b, d| {
        let Some(g) = d.cotangent(0) else { return Ok(vec![None]) };
        let train = if d.call.has("train") { d.call.raw("train")? } else { Arg::Bool(true) };
        let mut args = vec![g.arg(), d.call.raw("p")?, train, Arg::str("element")];
        args.extend([d.call.raw("seed")?, d.call.raw("offset")?]);
        Ok(vec![Some(b.tensor("torch.dropout", args)?)])
    }),
    aten: &[Aten {
        overloads: &["native_dropout.default"],
        import: Import::With(|b, call| {
            let a = call.tensor(b, "input")?;
            let (p, train) = (as_float(call.arg("p")?), call.arg("train")?.clone());
            let (seed, offset) = match train {
                Arg::Bool(false) => (Arg::Int(0), Arg::Int(0)),
                _ => next_philox(b, a.ty.numel())?,
            };
            b.call_recorded(&TORCH_NATIVE_DROPOUT, vec![a.arg(), p, train, seed, offset], &call.results)
        }),
    }],
    samples: &[
        Sample("T[2, 3], p=0.5, train=true, seed=1, offset=0"),
        Sample("T[4], p=0.1, train=false, seed=1, offset=0"),
        Sample("T[4], p=0.1, train=none, seed=1, offset=0"),
    ],
    ..COMPOSITE
};

pub static TORCH_NATIVE_DROPOUT_BACKWARD: Op = Op {
    name: "torch.native_dropout_backward",
    doc: "The gradient where the mask is true, times the scale.",
    schema: "(g: Tensor<f>, mask: Tensor<b>, scale: num) -> Tensor",
    level: Level::Composite(|b, call| {
        let (g, mask) = (call.tensor("g")?, call.tensor("mask")?);
        let mask = to_dtype(b, &mask, g.dtype())?;
        let kept = emit::binary(b, "prims.mul", &g, mask)?;
        Ok(vec![emit::binary(b, "prims.mul", &kept, call.num("scale")?)?.arg()])
    }),
    meta: Meta::Fn(|call| Ok(vec![Some(Type::Tensor(call.tensor("g")?.ty))])),
    traits: Traits::POINTWISE.and(Traits::CHEAP),
    aten: &[Aten {
        overloads: &["native_dropout_backward.default"],
        import: Import::Map("g=grad_output mask scale"),
    }],
    samples: &[Sample("T[2, 3], bool[2, 3], scale=2.0"), Sample("T[0], bool[0], scale=1.5")],
    ..COMPOSITE
};

pub static TORCH_RAND: Op = Op {
    name: "torch.rand",
    doc: "Numbers from `lo` up to `hi`, each as likely.",
    schema: "(dims: dims, lo: num = 0.0, hi: num = 1.0, *, dtype: dtype?, device: device?, seed: int, offset: int) -> Tensor",
    level: Level::Composite(|b, call| {
        let dtype = call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT);
        let device = Arg::Device(call.device("device")?);
        let args = vec![
            call.raw("dims")?,
            call.raw("lo")?,
            call.raw("hi")?,
            dtype.into(),
            device,
            call.raw("seed")?,
            call.raw("offset")?,
        ];
        Ok(vec![b.tensor("prims.uniform_philox", args)?.arg()])
    }),
    meta: Meta::Fn(|call| drawn(call, float_dtype(call, call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT))?)),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten {
            overloads: &["rand.default"],
            import: Import::With(|b, call| rand(b, call, Arg::Float(0.0), Arg::Float(1.0))),
        },
        Aten {
            overloads: &["rand_like.default"],
            import: Import::With(|b, call| rand(b, call, Arg::Float(0.0), Arg::Float(1.0))),
        },
        Aten {
            overloads: &["uniform.default", "uniform_.default"],
            import: Import::With(|b, call| {
                let (lo, hi) = (as_float(call.arg("from")?), as_float(call.arg("to")?));
                rand(b, call, lo, hi)
            }),
        },
    ],
    samples: &[
        Sample("dims=[2, 3], seed=1, offset=0"),
        Sample("dims=[4], lo=-1.0, hi=2.0, dtype=f64, seed=1, offset=8"),
        Sample("dims=[0], seed=1, offset=0"),
    ],
    ..COMPOSITE
};

pub static TORCH_RANDINT: Op = Op {
    name: "torch.randint",
    doc: "Integers from `lo` up to `hi`, `hi` not included, each as likely.",
    schema: "(lo: int, hi: int, dims: dims, *, dtype: dtype?, device: device?, seed: int, offset: int) -> Tensor",
    level: Level::Composite(|b, call| {
        let dtype = call.opt_dtype("dtype")?.unwrap_or(Dtype::I64);
        let device = Arg::Device(call.device("device")?);
        let args = vec![
            call.raw("lo")?,
            call.raw("hi")?,
            call.raw("dims")?,
            dtype.into(),
            device,
            call.raw("seed")?,
            call.raw("offset")?,
        ];
        Ok(vec![b.tensor("prims.randint_philox", args)?.arg()])
    }),
    meta: Meta::Fn(|call| {
        call.int("lo")?;
        call.int("hi")?;
        drawn(call, call.opt_dtype("dtype")?.unwrap_or(Dtype::I64))
    }),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten {
            overloads: &["randint.default", "randint_like.default"],
            import: Import::With(|b, call| {
                let hi = call.arg("high")?.clone();
                randint(b, call, Arg::Int(0), hi)
            }),
        },
        Aten {
            overloads: &["randint.low", "randint_like.low_dtype"],
            import: Import::With(|b, call| {
                let (lo, hi) = (call.arg("low")?.clone(), call.arg("high")?.clone());
                randint(b, call, lo, hi)
            }),
        },
        Aten {
            overloads: &["random.default", "random_.default"],
            import: Import::With(|b, call| {
                let hi = call.tensor(b, "self").map(|t| above_range(t.dtype()))?;
                randint(b, call, Arg::Int(0), Arg::Int(hi))
            }),
        },
        Aten {
            overloads: &["random.from", "random_.from"],
            import: Import::With(|b, call| {
                let lo = call.arg("from")?.clone();
                let hi = match call.arg("to")? {
                    Arg::None => Arg::Int(call.tensor(b, "self").map(|t| above_range(t.dtype()))?),
                    to => to.clone(),
                };
                randint(b, call, lo, hi)
            }),
        },
        Aten {
            overloads: &["random.to", "random_.to"],
            import: Import::With(|b, call| {
                let hi = call.arg("to")?.clone();
                randint(b, call, Arg::Int(0), hi)
            }),
        },
    ],
    samples: &[
        Sample("0, 10, dims=[2, 3], seed=1, offset=0"),
        Sample("-5, 5, dims=[4], dtype=i32, seed=1, offset=8"),
    ],
    ..COMPOSITE
};

pub static TORCH_RANDN: Op = Op {
    name: "torch.randn",
    doc: "Normal numbers of that mean and deviation; halves are scaled in f32 and rounded once.",
    schema: "(dims: dims, mean: num = 0.0, std: num = 1.0, *, dtype: dtype?, device: device?, seed: int, offset: int) -> Tensor",
    level: Level::Composite(randn),
    meta: Meta::Fn(|call| drawn(call, float_dtype(call, call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT))?)),
    vjp: Vjp::NonDiff,
    aten: &[
        Aten {
            overloads: &["randn.default", "randn_like.default"],
            import: Import::With(|b, call| normal(b, call, Arg::Float(0.0), Arg::Float(1.0))),
        },
        Aten {
            overloads: &["normal_functional.default", "normal_.default", "normal.float_float"],
            import: Import::With(|b, call| {
                let (mean, std) = (as_float(call.arg("mean")?), as_float(call.arg("std")?));
                normal(b, call, mean, std)
            }),
        },
    ],
    samples: &[
        Sample("dims=[2, 3], seed=1, offset=0"),
        Sample("dims=[5], mean=1.0, std=2.0, dtype=bf16, seed=1, offset=8"),
        Sample("dims=[0], seed=1, offset=0"),
    ],
    ..COMPOSITE
};

/// One tensor of the dims and on the device given.
fn drawn(call: &Call, dtype: Dtype) -> Result<Vec<Option<Type>>, OpError> {
    call.num("seed")?;
    call.num("offset")?;
    Ok(vec![Some(TensorType { dims: call.dims("dims")?, dtype, device: call.device("device")? }.into())])
}

fn float_dtype(call: &Call, dtype: Dtype) -> Result<Dtype, OpError> {
    if dtype.is_float() { Ok(dtype) } else { Err(call.error(format!("draws floats, not {dtype}"))) }
}

/// `p`, which must lie in [0, 1].
fn probability(call: &Call) -> Result<f64, OpError> {
    let p = call.float("p")?;
    if (0.0..=1.0).contains(&p) {
        Ok(p)
    } else {
        Err(call.error(format!("`p` must lie in [0, 1], found {p}")))
    }
}

/// Uniform f32 numbers in [0, 1).
fn uniform(b: &mut Builder<'_>, call: &Call, dims: &[Dim], device: &Device) -> Result<Tensor, OpError> {
    let args = vec![
        Arg::dims(dims),
        Arg::Float(0.0),
        Arg::Float(1.0),
        Dtype::F32.into(),
        Arg::Device(device.clone()),
        call.raw("seed")?,
        call.raw("offset")?,
    ];
    b.tensor("prims.uniform_philox", args)
}

/// The probabilities, as floats of at least f32, or a number.
fn bernoulli_p(call: &Call) -> Result<Operand, OpError> {
    let a = call.tensor("a")?;
    match call.opt_operand("p")? {
        Some(p) => Ok(p),
        None if a.dtype().is_float() => Ok(a.into()),
        None => {
            Err(call.error(format!("`a` holds the probabilities: it must be floating, found {}", a.dtype())))
        }
    }
}

fn bernoulli(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let u = uniform(b, call, a.dims(), &a.ty.device)?;
    let one = match bernoulli_p(call)? {
        Operand::Num(p) => emit::binary(b, "prims.lt", &u, p)?,
        Operand::Tensor(p) => {
            let acc = p.dtype().acc();
            let p = to_dtype(b, &p, acc)?;
            let p = broadcast_to(b, &p, a.dims())?;
            let u = to_dtype(b, &u, acc)?;
            emit::binary(b, "prims.lt", &u, p)?
        }
    };
    Ok(vec![to_dtype(b, &one, a.dtype())?.arg()])
}

/// Whole channels, and SELU's constants?
fn dropout_kind(call: &Call) -> Result<(bool, bool), OpError> {
    let kind = match call.str("kind")? {
        "element" => (false, false),
        "feature" => (true, false),
        "alpha" => (false, true),
        "feature_alpha" => (true, true),
        other => {
            let words = "\"element\", \"feature\", \"alpha\" or \"feature_alpha\"";
            return Err(call.error(format!("`kind` must be {words}, found {other:?}")));
        }
    };
    let rank = call.tensor("a")?.rank();
    if kind.0 && rank < 2 {
        return Err(call.error(format!("whole channels need two dims at least, found {rank}")));
    }
    Ok(kind)
}

/// `SELU(x)` goes to this, negated, as `x` goes to minus infinity: scale times alpha of its definition.
const SELU_FLOOR: f64 = 1.758_099_340_847_376_6;

fn dropout(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, p) = (call.tensor("a")?, probability(call)?);
    let (feature, alpha) = dropout_kind(call)?;
    if p == 0.0 || !call.bool("train")? {
        return Ok(vec![b.tensor("prims.shallow_copy", vec![a.arg()])?.arg()]);
    }
    let kept = keep(b, call, &a, p, feature)?;
    if !alpha {
        return Ok(vec![scaled(b, &a, &kept, p)?.arg()]);
    }
    // Kept: x * s. Dropped: the floor, moved so that mean and deviation stay: a + b with the constants of the paper.
    let acc = a.dtype().acc();
    let (x, mask) = (to_dtype(b, &a, acc)?, to_dtype(b, &kept, acc)?);
    let s = alpha_scale(p);
    let x = emit::binary(b, "prims.mul", &x, mask.clone())?;
    let x = emit::binary(b, "prims.mul", &x, s)?;
    let shift = emit::binary(b, "prims.mul", &mask, SELU_FLOOR * s)?;
    let shift = emit::binary(b, "prims.add", &shift, SELU_FLOOR * s * (p - 1.0))?;
    let out = emit::binary(b, "prims.add", &x, shift)?;
    Ok(vec![to_dtype(b, &out, a.dtype())?.arg()])
}

/// The gradient of alpha dropout: scaled where the element was kept, 0 where it was dropped.
fn of_alpha_dropout(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Tensor, OpError> {
    let (a, g, p) = (d.call.tensor("a")?, d.g()?, probability(d.call)?);
    if p == 0.0 || !d.call.bool("train")? {
        return Ok(g);
    }
    let (feature, _) = dropout_kind(d.call)?;
    let kept = keep(b, d.call, &a, p, feature)?;
    let wide = to_dtype(b, &g, a.dtype().acc())?;
    let scaled = b.mul(&wide, alpha_scale(p))?;
    let of_a = b.select(&kept, &scaled, 0.0)?;
    to_dtype(b, &of_a, a.dtype())
}

/// By what alpha dropout multiplies that which it keeps.
fn alpha_scale(p: f64) -> f64 {
    if p == 1.0 { 0.0 } else { 1.0 / ((SELU_FLOOR * SELU_FLOOR * p + 1.0) * (1.0 - p)).sqrt() }
}

/// The mask of what is kept: `u >= p`, one draw an element or a channel.
fn keep(b: &mut Builder<'_>, call: &Call, a: &Tensor, p: f64, feature: bool) -> Result<Tensor, OpError> {
    let mut dims = a.dims().to_vec();
    if feature {
        dims[2..].fill(Dim::Known(1));
    }
    let u = uniform(b, call, &dims, &a.ty.device)?;
    let kept = emit::binary(b, "prims.ge", &u, p)?;
    broadcast_to(b, &kept, a.dims())
}

/// `a * mask / (1 - p)`.
fn scaled(b: &mut Builder<'_>, a: &Tensor, kept: &Tensor, p: f64) -> Result<Tensor, OpError> {
    let mask = to_dtype(b, kept, a.dtype())?;
    let x = emit::binary(b, "prims.mul", a, mask)?;
    emit::binary(b, "prims.mul", &x, if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) })
}

fn native_dropout(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, p) = (call.tensor("a")?, probability(call)?);
    let train = !call.has("train") || call.bool("train")?;
    if !train {
        let all =
            vec![Arg::dims(a.dims()), Arg::Bool(true), Dtype::Bool.into(), Arg::Device(a.ty.device.clone())];
        let out = b.tensor("prims.shallow_copy", vec![a.arg()])?;
        return Ok(vec![out.arg(), b.tensor("prims.full", all)?.arg()]);
    }
    let kept = keep(b, call, &a, p, false)?;
    Ok(vec![scaled(b, &a, &kept, p)?.arg(), kept.arg()])
}

fn randn(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let dtype = call.opt_dtype("dtype")?.unwrap_or(DEFAULT_FLOAT);
    let (mean, std) = (call.num("mean")?, call.num("std")?);
    let is = |n: &Num, x: f64| matches!(number_for(n, Dtype::F64), Arg::Float(v) if v == x);
    let standard = is(&mean, 0.0) && is(&std, 1.0);
    let drawn = if standard { dtype } else { dtype.acc() };
    let device = Arg::Device(call.device("device")?);
    let args = vec![call.raw("dims")?, drawn.into(), device, call.raw("seed")?, call.raw("offset")?];
    let mut x = b.tensor("prims.randn_philox", args)?;
    if !standard {
        x = emit::binary(b, "prims.mul", &x, std)?;
        x = emit::binary(b, "prims.add", &x, mean)?;
    }
    Ok(vec![to_dtype(b, &x, dtype)?.arg()])
}

/// Seed and offset of `words` numbers of the session's stream.
pub fn next_philox(b: &mut Builder<'_>, words: Dim) -> Result<(Arg, Arg), OpError> {
    let mut numbers = b.call("prims.next_philox", vec![Arg::dim(words)])?;
    let (offset, seed) = (numbers.pop(), numbers.pop());
    seed.zip(offset)
        .ok_or_else(|| OpError { op: "prims.next_philox".into(), what: "gives seed and offset".into() })
}

/// Words that `n` draws of a float dtype take: two each in f64.
pub(super) fn float_words(dtype: Dtype, n: &Dim) -> Dim {
    if dtype == Dtype::F64 { n.mul(&Dim::Known(2)) } else { n.clone() }
}

pub(super) fn as_float(a: &Arg) -> Arg {
    match a {
        Arg::Int(n) => Arg::Float(*n as f64),
        other => other.clone(),
    }
}

/// The dropout of a call; without training or with `p` = 0 nothing is drawn and nothing emitted.
fn dropped(b: &mut Builder<'_>, call: &AtenCall, kind: &str) -> Result<Vec<Arg>, OpError> {
    let first = call.args.first().ok_or_else(|| call.error("has no argument"))?;
    let a = call.tensor(b, &first.name)?;
    let (p, train) = (as_float(call.arg("p")?), call.arg("train")?.clone());
    if train == Arg::Bool(false) || p == Arg::Float(0.0) {
        return Ok(vec![a.arg()]);
    }
    let words = match kind {
        "feature" | "feature_alpha" => Dim::product(a.dims().iter().take(2)),
        _ => a.ty.numel(),
    };
    let (seed, offset) = next_philox(b, words)?;
    b.call_recorded(&TORCH_DROPOUT, vec![a.arg(), p, train, Arg::str(kind), seed, offset], &call.results)
}

/// Dims, dtype and device of what a factory draws: those given, or those of `self`.
fn target(b: &Builder<'_>, call: &AtenCall) -> Result<(Vec<Dim>, Dtype, Arg), OpError> {
    let recorded = call.results.first().and_then(|r| r.as_ref()?.tensor().cloned());
    let like = call.tensor(b, "self").ok();
    let ty = match (&recorded, &like) {
        (Some(t), _) => t,
        (None, Some(t)) => &t.ty,
        (None, None) => return Err(call.error("the type of its result is not recorded")),
    };
    let dtype = match call.arg("dtype") {
        Ok(Arg::Dtype(d)) => *d,
        _ => like.as_ref().filter(|_| recorded.is_none()).map_or(ty.dtype, Tensor::dtype),
    };
    let device = if ty.device == Device::Cpu { Arg::None } else { Arg::Device(ty.device.clone()) };
    Ok((ty.dims.clone(), dtype, device))
}

fn rand(b: &mut Builder<'_>, call: &AtenCall, lo: Arg, hi: Arg) -> Result<Vec<Arg>, OpError> {
    let (dims, dtype, device) = target(b, call)?;
    let (seed, offset) = next_philox(b, float_words(dtype, &Dim::product(&dims)))?;
    b.call_recorded(
        &TORCH_RAND,
        vec![Arg::dims(&dims), lo, hi, dtype.into(), device, seed, offset],
        &call.results,
    )
}

fn randint(b: &mut Builder<'_>, call: &AtenCall, lo: Arg, hi: Arg) -> Result<Vec<Arg>, OpError> {
    let (dims, dtype, device) = target(b, call)?;
    let (seed, offset) = next_philox(b, Dim::product(&dims).mul(&Dim::Known(2)))?;
    b.call_recorded(
        &TORCH_RANDINT,
        vec![lo, hi, Arg::dims(&dims), dtype.into(), device, seed, offset],
        &call.results,
    )
}

fn normal(b: &mut Builder<'_>, call: &AtenCall, mean: Arg, std: Arg) -> Result<Vec<Arg>, OpError> {
    let (dims, dtype, device) = target(b, call)?;
    // Pairs of words make pairs of numbers, whatever the dtype.
    let (seed, offset) = next_philox(b, Dim::product(&dims))?;
    b.call_recorded(
        &TORCH_RANDN,
        vec![Arg::dims(&dims), mean, std, dtype.into(), device, seed, offset],
        &call.results,
    )
}

/// One above the largest integer that `random_` draws for a dtype: of a float, the largest up to which it holds all.
fn above_range(dtype: Dtype) -> i64 {
    match dtype {
        Dtype::Bool => 2,
        Dtype::U8 => 1 << 8,
        Dtype::I8 => 1 << 7,
        Dtype::I16 => 1 << 15,
        Dtype::U16 => 1 << 16,
        Dtype::I32 => 1 << 31,
        Dtype::U32 => 1 << 32,
        Dtype::Bf16 => (1 << 8) + 1,
        Dtype::F16 => (1 << 11) + 1,
        Dtype::F32 => (1 << 24) + 1,
        Dtype::F64 => (1 << 53) + 1,
        _ => i64::MAX,
    }
}
