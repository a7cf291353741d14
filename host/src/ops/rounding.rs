//! Rounding, signs, and the parts that floating-point numbers are made of; what else asks for single numbers (finite?
//! the smaller of both without NaN?).
//!
//! Deliberately absent: arithmetic and comparisons, which are `pointwise`.

use super::arith::Built;
use super::build::{Builder, Num, Operand, Tensor};
use super::emit::{elementwise, in_acc};
use super::meta::{self, inexact, promoted};
use super::pointwise::{
    ASKS, BINARY_PRIM, BINARY_REAL, BINARY_SAMPLES, COMMUTES, COMPARES, DIVIDE_SAMPLES, PREDICATE, PRIM,
    SAME, SHIFT_SAMPLES, UNARY, binary, bool_of_a, extremum, extremum_meta, logical, numeric, operands_a_b,
    ordered, real_a, unary,
};
use super::{Aten, Call, Grad, Import, Level, Meta, Op, OpError, Sample, Vjp};
use crate::ir::{Arg, Dtype, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &CEIL,
    &FREXP,
    &ISFINITE,
    &ROUND,
    &SIGN,
    &SIGNBIT,
    &COPYSIGN,
    &NEXTAFTER,
    &BITWISE_RIGHT_SHIFT,
    &TORCH_CEIL,
    &TORCH_FLOOR,
    &TORCH_TRUNC,
    &TORCH_ROUND,
    &TORCH_FRAC,
    &TORCH_FREXP,
    &TORCH_ISFINITE,
    &TORCH_ISNEGINF,
    &TORCH_ISPOSINF,
    &TORCH_SIGN,
    &TORCH_SIGNBIT,
    &TORCH_NAN_TO_NUM,
    &TORCH_COPYSIGN,
    &TORCH_NEXTAFTER,
    &TORCH_BITWISE_RIGHT_SHIFT,
    &TORCH_FMOD,
    &TORCH_FMAX,
    &TORCH_FMIN,
    &TORCH_LOGICAL_XOR,
    &TORCH_FAKE_QUANTIZE_PER_TENSOR,
];

pub static CEIL: Op = Op {
    name: "prims.ceil",
    doc: "The smallest integer not below each element; integers stay.",
    schema: "(a: Tensor<r>) -> Tensor",
    vjp: Vjp::Zero,
    samples: UNARY,
    ..PRIM
};

pub static FREXP: Op = Op {
    name: "prims.frexp",
    doc: "Mantissa in [1/2, 1) with the sign of the element, and the exponent of two that goes with it; zeros and non-finite numbers have exponent 0.",
    schema: "(a: Tensor<f>) -> (Tensor, Tensor<i32>)",
    meta: Meta::Fn(frexp_meta),
    vjp: Vjp::Rule(frexp_rule),
    samples: &[Sample("T[2, 3]"), Sample("T[]"), Sample("T[0, 4]")],
    ..PRIM
};

pub static ISFINITE: Op = Op {
    name: "prims.isfinite",
    doc: "Is it neither NaN nor an infinity (in either part)?",
    schema: "(a: Tensor<a>) -> Tensor<b>",
    vjp: Vjp::NonDiff,
    samples: UNARY,
    ..PREDICATE
};

pub static ROUND: Op = Op {
    name: "prims.round",
    doc: "The nearest integer, of two equally near the even one; integers stay.",
    schema: "(a: Tensor<r>) -> Tensor",
    vjp: Vjp::Zero,
    samples: UNARY,
    ..PRIM
};

pub static SIGN: Op = Op {
    name: "prims.sign",
    doc: "-1, 0 or 1; NaN stays.",
    schema: "(a: Tensor<r>) -> Tensor",
    vjp: Vjp::Zero,
    samples: UNARY,
    ..PRIM
};

pub static SIGNBIT: Op = Op {
    name: "prims.signbit",
    doc: "Is the sign negative? Zero and NaN have one, too.",
    schema: "(a: Tensor<r>) -> Tensor<b>",
    vjp: Vjp::NonDiff,
    samples: UNARY,
    ..PREDICATE
};

pub static COPYSIGN: Op = Op {
    name: "prims.copysign",
    doc: "The magnitude of `a` with the sign of `b`.",
    schema: "(a: Tensor<f>, b: Tensor<f>|num) -> Tensor",
    vjp: Vjp::Rule(copysign_rule),
    samples: BINARY_PRIM,
    ..PRIM
};

pub static NEXTAFTER: Op = Op {
    name: "prims.nextafter",
    doc: "The number next to `a` on the way to `b`.",
    schema: "(a: Tensor<f>, b: Tensor<f>|num) -> Tensor",
    vjp: Vjp::NonDiff,
    samples: BINARY_PRIM,
    ..PRIM
};

pub static BITWISE_RIGHT_SHIFT: Op = Op {
    name: "prims.bitwise_right_shift",
    doc: "Bits moved down by `b`, the sign bit moving in; where `b` is negative or not below the number of bits, every bit is the sign.",
    schema: "(a: Tensor<i>, b: Tensor<i>|num) -> Tensor",
    vjp: Vjp::NonDiff,
    samples: &[
        Sample("T[2, 3], T[2, 3]"),
        Sample("i64[4]{-9..9}, 2"),
        Sample("i32[4]{-9..9}, i32[4]{0..40}"),
    ],
    ..PRIM
};

pub static TORCH_CEIL: Op = Op {
    name: "torch.ceil",
    doc: "The smallest integer not below each element; integers stay.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary(b, call, "prims.ceil")),
    meta: Meta::Fn(real_a),
    vjp: Vjp::Zero,
    aten: &[Aten { overloads: &["ceil.default", "ceil_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_FLOOR: Op = Op {
    name: "torch.floor",
    doc: "The largest integer not above each element; integers stay.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary(b, call, "prims.floor")),
    meta: Meta::Fn(real_a),
    vjp: Vjp::Zero,
    aten: &[Aten { overloads: &["floor.default", "floor_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_TRUNC: Op = Op {
    name: "torch.trunc",
    doc: "Rounded towards zero; integers stay.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary(b, call, "prims.trunc")),
    meta: Meta::Fn(real_a),
    vjp: Vjp::Zero,
    aten: &[Aten {
        overloads: &["fix.default", "fix_.default", "trunc.default", "trunc_.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_ROUND: Op = Op {
    name: "torch.round",
    doc: "The nearest integer, of two equally near the even one; `decimals` digits behind the point are kept, before it zeroed where negative.",
    schema: "(a: Tensor, *, decimals: int = 0) -> Tensor",
    level: Level::Composite(round),
    meta: Meta::Fn(real_a),
    vjp: Vjp::Zero,
    aten: &[
        Aten { overloads: &["round.default", "round_.default"], import: Import::Map("a=self") },
        Aten {
            overloads: &["round.decimals", "round_.decimals", "special_round.default"],
            import: Import::Map("a=self decimals"),
        },
    ],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[]"),
        Sample("T[0, 4]"),
        Sample("T[5]{nonfinite}"),
        Sample("f32[4], decimals=2"),
        Sample("f64[4], decimals=-1"),
    ],
    ..SAME
};

pub static TORCH_FRAC: Op = Op {
    name: "torch.frac",
    doc: "What is behind the point, with the sign of the element.",
    schema: "(a: Tensor<f>) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let whole = b.unary("prims.trunc", &a)?;
        Ok(vec![b.sub(&a, &whole)?.arg()])
    }),
    aten: &[Aten { overloads: &["frac.default", "frac_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_FREXP: Op = Op {
    name: "torch.frexp",
    doc: "Mantissa in [1/2, 1) with the sign of the element, and the exponent of two that goes with it.",
    schema: "(a: Tensor<f>) -> (Tensor, Tensor<i32>)",
    level: Level::Composite(|b, call| b.call("prims.frexp", vec![call.raw("a")?])),
    meta: Meta::Fn(frexp_meta),
    aten: &[Aten { overloads: &["frexp.Tensor"], import: Import::Map("a=self") }],
    samples: &[Sample("T[2, 3]"), Sample("T[]"), Sample("T[0, 4]")],
    ..SAME
};

pub static TORCH_ISFINITE: Op = Op {
    name: "torch.isfinite",
    doc: "Is it neither NaN nor an infinity (in either part)?",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary(b, call, "prims.isfinite")),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["isfinite.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..ASKS
};

pub static TORCH_ISNEGINF: Op = Op {
    name: "torch.isneginf",
    doc: "Is it minus infinity?",
    schema: "(a: Tensor) -> Tensor<b>",
    level: Level::Composite(|b, call| is_infinity(b, call, f64::NEG_INFINITY)),
    meta: Meta::Fn(|call| {
        ordered(call, call.tensor("a")?.dtype())?;
        bool_of_a(call)
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["isneginf.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..ASKS
};

pub static TORCH_ISPOSINF: Op = Op {
    name: "torch.isposinf",
    doc: "Is it plus infinity?",
    schema: "(a: Tensor) -> Tensor<b>",
    level: Level::Composite(|b, call| is_infinity(b, call, f64::INFINITY)),
    meta: Meta::Fn(|call| {
        ordered(call, call.tensor("a")?.dtype())?;
        bool_of_a(call)
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["isposinf.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..ASKS
};

pub static TORCH_SIGN: Op = Op {
    name: "torch.sign",
    doc: "-1, 0 or 1, 0 of NaN; of a complex number z / |z|, 0 at 0; of bools themselves.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(sign),
    aten: &[Aten {
        overloads: &["sgn.default", "sgn_.default", "sign.default", "sign_.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_SIGNBIT: Op = Op {
    name: "torch.signbit",
    doc: "Is the sign negative? Zero and NaN have one, too.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        // No bool is: `x != x` is false everywhere.
        let y = if a.dtype() == Dtype::Bool { b.ne(&a, &a)? } else { b.unary("prims.signbit", &a)? };
        Ok(vec![y.arg()])
    }),
    meta: Meta::Fn(|call| {
        ordered(call, call.tensor("a")?.dtype())?;
        bool_of_a(call)
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["signbit.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..ASKS
};

pub static TORCH_NAN_TO_NUM: Op = Op {
    name: "torch.nan_to_num",
    doc: "NaN, plus and minus infinity replaced by numbers: 0, and the largest and smallest that the dtype holds, unless given. Complex numbers part by part.",
    schema: "(a: Tensor, nan: num? = 0, posinf: num? = None, neginf: num? = None) -> Tensor",
    level: Level::Composite(nan_to_num),
    aten: &[Aten {
        overloads: &["nan_to_num.default", "nan_to_num_.default"],
        import: Import::Map("a=self nan posinf neginf"),
    }],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[]"),
        Sample("T[0, 4]"),
        Sample("T[5]{nonfinite}"),
        Sample("T[5]{nonfinite}, nan=1.0, posinf=2.0, neginf=-3.0"),
    ],
    ..SAME
};

pub static TORCH_COPYSIGN: Op = Op {
    name: "torch.copysign",
    doc: "The magnitude of `a` with the sign of `b`, broadcast and promoted; integers are computed as the default float.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| {
        let operands = operands_a_b(call)?;
        let dtype = inexact(promoted(&operands));
        Ok(vec![elementwise(b, call, "prims.copysign", &operands, dtype)?.arg()])
    }),
    meta: Meta::Fn(|call| {
        let operands = operands_a_b(call)?;
        let dtype = inexact(promoted(&operands));
        ordered(call, dtype)?;
        meta::broadcast_of(call, &operands, dtype)
    }),
    aten: &[Aten {
        overloads: &["copysign.Scalar", "copysign.Tensor", "copysign_.Scalar", "copysign_.Tensor"],
        import: Import::Map("a=self b=other"),
    }],
    samples: &[
        Sample("T[2, 3], T[3]"),
        Sample("T[2, 1], i64[3]{-5..5}"),
        Sample("T[4], -1"),
        Sample("T[0, 3], T[3]"),
        Sample("T[5]{nonfinite}, T[5]{nonfinite}"),
    ],
    ..SAME
};

pub static TORCH_NEXTAFTER: Op = Op {
    name: "torch.nextafter",
    doc: "The number next to `a` on the way to `b`, broadcast and promoted; floats only.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| binary(b, call, "prims.nextafter")),
    meta: Meta::Fn(|call| {
        let operands = operands_a_b(call)?;
        let dtype = promoted(&operands);
        if !dtype.is_float() {
            return Err(call.error(format!("takes floats, found {dtype}")));
        }
        meta::broadcast_of(call, &operands, dtype)
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &["nextafter.default", "nextafter_.default"],
        import: Import::Map("a=self b=other"),
    }],
    samples: &[
        Sample("T[2, 3], T[3]"),
        Sample("T[4], T[]"),
        Sample("T[0, 3], T[3]"),
        Sample("T[5]{nonfinite}, T[5]{nonfinite}"),
    ],
    ..SAME
};

pub static TORCH_BITWISE_RIGHT_SHIFT: Op = Op {
    name: "torch.bitwise_right_shift",
    doc: "Bits moved down by `b`, the sign bit moving in; floats (of `>>`) are divided by 2^b.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(right_shift),
    meta: Meta::Fn(|call| {
        let operands = operands_a_b(call)?;
        let dtype = promoted(&operands);
        numeric(call, dtype)?;
        meta::broadcast_of(call, &operands, dtype)
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &[
            "__irshift__.Scalar",
            "__irshift__.Tensor",
            "__rshift__.Scalar",
            "__rshift__.Tensor",
            "bitwise_right_shift.Scalar_Tensor",
            "bitwise_right_shift.Tensor",
            "bitwise_right_shift.Tensor_Scalar",
            "bitwise_right_shift_.Tensor",
            "bitwise_right_shift_.Tensor_Scalar",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: SHIFT_SAMPLES,
    ..SAME
};

pub static TORCH_FMOD: Op = Op {
    name: "torch.fmod",
    doc: "Remainder with the sign of the dividend, broadcast and promoted.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| binary(b, call, "prims.fmod")),
    aten: &[Aten {
        overloads: &["fmod.Scalar", "fmod.Tensor", "fmod_.Scalar", "fmod_.Tensor"],
        import: Import::Map("a=self b=other"),
    }],
    samples: DIVIDE_SAMPLES,
    ..BINARY_REAL
};

pub static TORCH_FMAX: Op = Op {
    name: "torch.fmax",
    doc: "The larger of both, broadcast and promoted; NaN loses.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| number_wins(b, call, "prims.maximum", "prims.bitwise_or")),
    meta: Meta::Fn(extremum_meta),
    aten: &[Aten { overloads: &["fmax.default"], import: Import::Map("a=self b=other") }],
    samples: BINARY_SAMPLES,
    ..SAME
};

pub static TORCH_FMIN: Op = Op {
    name: "torch.fmin",
    doc: "The smaller of both, broadcast and promoted; NaN loses.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| number_wins(b, call, "prims.minimum", "prims.bitwise_and")),
    meta: Meta::Fn(extremum_meta),
    aten: &[Aten { overloads: &["fmin.default"], import: Import::Map("a=self b=other") }],
    samples: BINARY_SAMPLES,
    ..SAME
};

pub static TORCH_LOGICAL_XOR: Op = Op {
    name: "torch.logical_xor",
    doc: "Is exactly one of both not zero?",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor<b>",
    level: Level::Composite(|b, call| logical(b, call, "prims.bitwise_xor")),
    vjp: Vjp::NonDiff,
    traits: COMMUTES,
    aten: &[Aten {
        overloads: &["logical_xor.default", "logical_xor_.default"],
        import: Import::Map("a=self b=other"),
    }],
    samples: BINARY_SAMPLES,
    ..COMPARES
};

pub static TORCH_FAKE_QUANTIZE_PER_TENSOR: Op = Op {
    name: "torch.fake_quantize_per_tensor",
    doc: "What is left of `a` after it was rounded to integers in [lo, hi] by `a / scale + zero` and back. The gradient passes where the integer was in range.",
    schema: "(a: Tensor<f>, scale: num|Tensor<f>, zero: int|Tensor<i>, lo: int, hi: int) -> Tensor",
    level: Level::Composite(fake_quantize),
    vjp: Vjp::Rule(fake_quantize_rule),
    aten: &[
        Aten {
            overloads: &["fake_quantize_per_tensor_affine.default"],
            import: Import::Map("a=self scale zero=zero_point lo=quant_min hi=quant_max"),
        },
        Aten {
            overloads: &["fake_quantize_per_tensor_affine.tensor_qparams"],
            import: Import::Map("a=self scale zero=zero_point lo=quant_min hi=quant_max"),
        },
    ],
    samples: &[
        Sample("T[2, 3], 0.1, 3, lo=-8, hi=7"),
        Sample("T[4], f32[1]{pos}, i32[1]{0..3}, lo=0, hi=255"),
    ],
    ..SAME
};

fn frexp_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    let exponent = meta::one(a.dims().to_vec(), Dtype::I32, &a.ty)?;
    Ok([vec![Some(Type::Tensor(a.ty))], exponent].concat())
}

/// Of the mantissa only: its slope is 2 to minus the exponent.
fn frexp_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let Some(g) = d.cotangent(0) else { return Ok(vec![None]) };
    let exponent = b.to(&d.output(1)?, g.dtype())?;
    let minus = b.neg(&exponent)?;
    let slope = b.unary("prims.exp2", &minus)?;
    Ok(vec![Some(b.mul(&g, &slope)?)])
}

/// 1 or -1 as the sign was kept or turned, 0 where there was none; nothing comes to `b`.
fn copysign_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, y, g) = (d.call.tensor("a")?, d.output(0)?, d.g()?);
    let (before, after) = (b.unary("prims.sign", &a)?, b.unary("prims.sign", &y)?);
    let slope = b.mul(&before, &after)?;
    let mut all = vec![Some(b.mul(&g, &slope)?)];
    if let Operand::Tensor(other) = d.call.operand("b")? {
        all.push(Some(b.full(other.dims(), 0.0, other.dtype(), &other.ty.device)?));
    }
    Ok(all)
}

fn round(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, decimals) = (call.tensor("a")?, call.int("decimals")?);
    if decimals == 0 {
        return unary(b, call, "prims.round");
    }
    if !a.dtype().is_float() {
        return Err(call.error(format!("`decimals` are for floats, found {}", a.dtype())));
    }
    // Powers of ten with negative exponents are not exact, so the direction changes instead.
    let power = 10f64.powi(i32::try_from(decimals.abs()).unwrap_or(i32::MAX));
    let (to, back) = if decimals > 0 { ("prims.mul", "prims.div") } else { ("prims.div", "prims.mul") };
    let y = in_acc(b, &a, |b, x| {
        let scaled = b.binary(to, x, power)?;
        let whole = b.unary("prims.round", &scaled)?;
        b.binary(back, &whole, power)
    })?;
    Ok(vec![y.arg()])
}

fn is_infinity(b: &mut Builder<'_>, call: &Call, which: f64) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    // No integer is: `x != x` is false everywhere.
    let y = if a.dtype().is_float() { b.eq(&a, which)? } else { b.ne(&a, &a)? };
    Ok(vec![y.arg()])
}

fn sign(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    if a.dtype() == Dtype::Bool {
        return unary(b, call, "prims.shallow_copy");
    }
    if !a.dtype().is_complex() {
        let sign = b.unary("prims.sign", &a)?;
        if !a.dtype().is_float() {
            return Ok(vec![sign.arg()]);
        }
        // The prim keeps NaN; PyTorch gives 0.
        let is_number = b.eq(&a, &a)?;
        return Ok(vec![b.select(&is_number, &sign, 0.0)?.arg()]);
    }
    let modulus = b.abs(&a)?;
    let size = b.to(&modulus, a.dtype())?;
    let direction = b.div(&a, &size)?;
    let at_zero = b.eq(&modulus, 0.0)?;
    Ok(vec![b.select(&at_zero, 0.0, &direction)?.arg()])
}

fn nan_to_num(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    if !a.dtype().is_inexact() {
        return unary(b, call, "prims.shallow_copy");
    }
    let largest = largest(a.dtype().real());
    let given =
        |name: &str, other: f64| Ok::<f64, OpError>(if call.has(name) { call.float(name)? } else { other });
    let limits = [given("nan", 0.0)?, given("posinf", largest)?, given("neginf", -largest)?];
    if !a.dtype().is_complex() {
        return Ok(vec![finite(b, &a, limits)?.arg()]);
    }
    let parts = b.tensor("prims.view_as_real", vec![a.arg()])?;
    let parts = finite(b, &parts, limits)?;
    Ok(vec![b.tensor("prims.view_as_complex", vec![parts.arg()])?.arg()])
}

fn finite(b: &mut Builder<'_>, x: &Tensor, [nan, above, below]: [f64; 3]) -> Built {
    let unknown = b.ne(x, x)?;
    let y = b.select(&unknown, nan, x)?;
    let high = b.eq(x, f64::INFINITY)?;
    let y = b.select(&high, above, &y)?;
    let low = b.eq(x, f64::NEG_INFINITY)?;
    b.select(&low, below, &y)
}

/// The largest number that a floating dtype holds.
fn largest(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => 65504.0,
        Dtype::Bf16 => f64::from(f32::from_bits(0x7f7f_0000)),
        Dtype::F64 => f64::MAX,
        _ => f64::from(f32::MAX),
    }
}

fn right_shift(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let operands = operands_a_b(call)?;
    let dtype = promoted(&operands);
    if !dtype.is_inexact() {
        return binary(b, call, "prims.bitwise_right_shift");
    }
    let [a, by] = operands;
    let factor = elementwise(b, call, "prims.pow", &[Operand::from(2.0), by], dtype)?;
    Ok(vec![elementwise(b, call, "prims.div", &[a, factor.into()], dtype)?.arg()])
}

/// The extreme of both, a number rather than NaN.
fn number_wins(b: &mut Builder<'_>, call: &Call, prim: &str, of_bools: &str) -> Result<Vec<Arg>, OpError> {
    let operands = operands_a_b(call)?;
    let dtype = promoted(&operands);
    if !dtype.is_float() {
        return extremum(b, call, prim, of_bools);
    }
    let [x, y] = operands;
    let extreme = elementwise(b, call, prim, &[x.clone(), y.clone()], dtype)?;
    let mut out = extreme;
    for (o, other) in [(&x, &y), (&y, &x)] {
        // A number that is NaN is a known one, and rare enough to be compared like any other.
        let o = spread_operand(b, o, dtype, &out)?;
        let other = spread_operand(b, other, dtype, &out)?;
        let unknown = b.ne(&o, &o)?;
        out = b.select(&unknown, &other, &out)?;
    }
    Ok(vec![out.arg()])
}

/// An operand as a tensor of `like`'s dims in that dtype.
fn spread_operand(b: &mut Builder<'_>, o: &Operand, dtype: Dtype, like: &Tensor) -> Built {
    match o {
        Operand::Tensor(t) => {
            let t = b.to(t, dtype)?;
            b.expand(&t, like.dims())
        }
        Operand::Num(n) => b.full(like.dims(), n.clone(), dtype, &like.ty.device),
    }
}

/// The integer that each element is rounded to, not limited yet, and `scale` and `zero` ready for arithmetic in `acc`.
fn quantized(b: &mut Builder<'_>, call: &Call) -> Result<(Tensor, Operand, Operand), OpError> {
    let a = call.tensor("a")?;
    let acc = a.dtype().acc();
    let x = b.to(&a, acc)?;
    let mut parts = Vec::with_capacity(2);
    for name in ["scale", "zero"] {
        parts.push(match call.operand(name)? {
            Operand::Tensor(t) => {
                let t = b.to(&t, acc)?;
                let t = b.reshape(&t, &[])?;
                Operand::Tensor(b.expand(&t, x.dims())?)
            }
            // ATen's kernels know the scale as an f32, whatever the input is.
            Operand::Num(Num::Float(s)) => Operand::Num(Num::Float(f64::from(s as f32))),
            number => number,
        });
    }
    let zero = parts.pop().expect("two were made");
    let scale = parts.pop().expect("two were made");
    // ATen multiplies by the reciprocal; the quotient itself may round the other way at a half.
    let scaled = match &scale {
        Operand::Tensor(s) => {
            let inverse = b.unary("prims.reciprocal", s)?;
            b.mul(&x, &inverse)?
        }
        Operand::Num(Num::Float(s)) => b.mul(&x, f64::from((*s as f32).recip()))?,
        Operand::Num(_) => return Err(call.error("`scale` must be a known float or a tensor")),
    };
    let whole = b.unary("prims.round", &scaled)?;
    Ok((b.add(&whole, zero.clone())?, scale, zero))
}

fn fake_quantize(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let dtype = call.tensor("a")?.dtype();
    let (q, scale, zero) = quantized(b, call)?;
    let q = b.maximum(&q, call.int("lo")?)?;
    let q = b.minimum(&q, call.int("hi")?)?;
    let q = b.sub(&q, zero)?;
    // The product is rounded to f32, as ATen's kernels do, whatever the input is.
    let q = b.to(&q, Dtype::F32)?;
    let scale = match scale {
        Operand::Tensor(t) => Operand::Tensor(b.to(&t, Dtype::F32)?),
        number => number,
    };
    let y = b.mul(&q, scale)?;
    Ok(vec![b.to(&y, dtype)?.arg()])
}

fn fake_quantize_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (q, _, _) = quantized(b, d.call)?;
    let above = b.ge(&q, d.call.int("lo")?)?;
    let below = b.binary("prims.le", &q, d.call.int("hi")?)?;
    let inside = b.binary("prims.bitwise_and", &above, &below)?;
    let mut all = vec![Some(b.select(&inside, &d.g()?, 0.0)?)];
    all.resize(d.tensors().len(), None);
    Ok(all)
}
