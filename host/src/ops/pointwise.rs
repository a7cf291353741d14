//! Elementwise ops: prims that neither broadcast nor promote, and composites with PyTorch's rules.
//!
//! Composites state their types directly (broadcast, promote) where many calls need them; the table's tests hold these
//! against the decompositions. Formulas of several steps compute halves in f32 and round once. Deliberately absent:
//! casts and copies, which are `memory`.

use super::aten::{Aten, AtenCall, Import};
use super::build::{Builder, Num, Operand, Tensor};
use super::emit::{self, aligned, elementwise, filled, in_acc, number_for, select, to_dtype};
use super::meta::{self, inexact, promoted};
use super::{Call, Grad, Level, Meta, Op, OpError, Sample, Traits, Vjp};
use crate::ir::dtype::Category;
use crate::ir::{Arg, Dim, Dtype, Type};

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &ABS,
    &BITWISE_NOT,
    &CONJ,
    &COS,
    &ERF,
    &EXP,
    &EXPM1,
    &FLOOR,
    &IMAG,
    &LOG,
    &LOG1P,
    &NEG,
    &REAL,
    &RECIPROCAL,
    &RSQRT,
    &SIN,
    &SQRT,
    &TANH,
    &TRUNC,
    &ADD,
    &BITWISE_AND,
    &BITWISE_LEFT_SHIFT,
    &BITWISE_OR,
    &BITWISE_XOR,
    &DIV,
    &EQ,
    &FMOD,
    &GE,
    &GT,
    &LE,
    &LT,
    &MAXIMUM,
    &MINIMUM,
    &MUL,
    &NE,
    &POW,
    &REMAINDER,
    &SUB,
    &LERP,
    &WHERE,
    &TORCH_ABS,
    &TORCH_BITWISE_NOT,
    &TORCH_COS,
    &TORCH_ELU,
    &TORCH_EXP,
    &TORCH_GELU,
    &TORCH_GLU,
    &TORCH_HARDSIGMOID,
    &TORCH_HARDSWISH,
    &TORCH_HARDTANH,
    &TORCH_IMAG,
    &TORCH_ISINF,
    &TORCH_ISNAN,
    &TORCH_LEAKY_RELU,
    &TORCH_LOG,
    &TORCH_LOGICAL_NOT,
    &TORCH_MISH,
    &TORCH_NEG,
    &TORCH_REAL,
    &TORCH_RELU,
    &TORCH_RELU6,
    &TORCH_RSQRT,
    &TORCH_SIGMOID,
    &TORCH_SILU,
    &TORCH_SIN,
    &TORCH_SOFTPLUS,
    &TORCH_SQRT,
    &TORCH_SQUARE,
    &TORCH_TANH,
    &TORCH_ADD,
    &TORCH_BITWISE_AND,
    &TORCH_BITWISE_LEFT_SHIFT,
    &TORCH_BITWISE_OR,
    &TORCH_BITWISE_XOR,
    &TORCH_CLAMP_MAX,
    &TORCH_CLAMP_MIN,
    &TORCH_DIV,
    &TORCH_EQ,
    &TORCH_FLOOR_DIVIDE,
    &TORCH_GE,
    &TORCH_GT,
    &TORCH_LE,
    &TORCH_LOGICAL_AND,
    &TORCH_LOGICAL_OR,
    &TORCH_LT,
    &TORCH_MAXIMUM,
    &TORCH_MINIMUM,
    &TORCH_MUL,
    &TORCH_NE,
    &TORCH_POW,
    &TORCH_PRELU,
    &TORCH_REMAINDER,
    &TORCH_RSUB,
    &TORCH_SUB,
    &TORCH_TRUE_DIVIDE,
    &TORCH_ADDCDIV,
    &TORCH_ADDCMUL,
    &TORCH_CLAMP,
    &TORCH_LERP,
    &TORCH_MASKED_FILL,
    &TORCH_WHERE,
];

pub(super) const CHEAP_POINTWISE: Traits = Traits::POINTWISE.and(Traits::CHEAP);
pub(super) const COMMUTES: Traits = CHEAP_POINTWISE.and(Traits::COMMUTATIVE);

/// What pointwise prims share: one type in, the same out.
pub(super) const PRIM: Op = Op { meta: Meta::Fn(meta::same_as_inputs), traits: CHEAP_POINTWISE, ..Op::BASE };
/// Prims that ask something of each element.
pub(super) const PREDICATE: Op = Op { meta: Meta::Fn(meta::bool_of_inputs), ..PRIM };

/// Composites of one tensor that keep its dtype.
pub(super) const SAME: Op = Op { meta: Meta::Fn(same_as_a), traits: CHEAP_POINTWISE, ..Op::BASE };
/// Composites of one tensor, computed as the default float where that is not inexact.
pub(super) const INEXACT: Op = Op { meta: Meta::Fn(inexact_of_a), ..SAME };
/// Composites of one tensor with a bool result.
pub(super) const ASKS: Op = Op { meta: Meta::Fn(bool_of_a), ..SAME };
/// Composites of `a` and `b`, broadcast and promoted.
pub(super) const BINARY: Op = Op { meta: Meta::Fn(promoted_of_a_b), ..SAME };
/// Those that bools have no part in.
const BINARY_NUMERIC: Op = Op { meta: Meta::Fn(numeric_of_a_b), ..SAME };
/// Those of real numbers only.
pub(super) const BINARY_REAL: Op = Op { meta: Meta::Fn(real_of_a_b), ..SAME };
/// Those of integers and bools.
pub(super) const BINARY_BITS: Op = Op { meta: Meta::Fn(bits_of_a_b), ..SAME };
/// Composites of `a` and `b` that compare for equality, or ask whether they are zero.
pub(super) const COMPARES: Op = Op { meta: Meta::Fn(bool_of_a_b), ..SAME };
/// Composites that compare by order.
const ORDERS: Op = Op { meta: Meta::Fn(order_of_a_b), ..SAME };
/// Composites whose types come through the decomposition.
pub(super) const OTHER: Op = Op { traits: CHEAP_POINTWISE, ..Op::BASE };

pub(super) const UNARY: &[Sample] =
    &[Sample("T[2, 3]"), Sample("T[]"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")];
pub(super) const UNARY_POS: &[Sample] =
    &[Sample("T[2, 3]{pos}"), Sample("T[]{pos}"), Sample("T[0, 4]"), Sample("T[5]{nonfinite}")];
pub(super) const BINARY_PRIM: &[Sample] = &[
    Sample("T[2, 3], T[2, 3]"),
    Sample("T[4], 2"),
    Sample("T[], T[]"),
    Sample("T[0, 2], T[0, 2]"),
    Sample("T[5]{nonfinite}, T[5]{nonfinite}"),
];
const DIVIDE_PRIM: &[Sample] = &[
    Sample("T[2, 3], T[2, 3]{nonzero}"),
    Sample("T[4], 2"),
    Sample("T[], T[]{nonzero}"),
    Sample("T[0, 2], T[0, 2]"),
];
pub(super) const BINARY_SAMPLES: &[Sample] = &[
    Sample("T[2, 3], T[3]"),
    Sample("T[2, 1], i64[3]{0..5}"),
    Sample("T[4], 2.5"),
    Sample("3, T[2, 2]"),
    Sample("T[], T[2]"),
    Sample("i32[3]{0..5}, f64[]"),
    Sample("T[0, 3], T[3]"),
    Sample("T[5]{nonfinite}, T[5]{nonfinite}"),
];
pub(super) const DIVIDE_SAMPLES: &[Sample] = &[
    Sample("T[2, 3], T[3]{nonzero}"),
    Sample("T[2, 1], i64[3]{1..5}"),
    Sample("T[4], 2.5"),
    Sample("T[4], -3"),
    Sample("7, T[2, 2]{nonzero}"),
    Sample("i32[5]{-9..9}, i32[5]{1..4}"),
    Sample("T[0, 3], T[3]"),
];
const BIT_SAMPLES: &[Sample] = &[
    Sample("T[2, 3], T[3]"),
    Sample("i32[2, 1]{0..9}, i64[3]{0..9}"),
    Sample("bool[4], bool[4]"),
    Sample("i64[4]{0..9}, 6"),
    Sample("5, i64[2]{0..9}"),
    Sample("i8[0, 3], i8[3]"),
];
pub(super) const SHIFT_SAMPLES: &[Sample] = &[
    Sample("i32[2, 3]{0..9}, i32[3]{0..9}"),
    Sample("i64[4]{-9..9}, 2"),
    Sample("u8[4]{0..255}, u8[4]{0..9}"),
    Sample("1, i64[3]{0..62}"),
];

pub static ABS: Op = Op {
    name: "prims.abs",
    doc: "Absolute value; of a complex number its modulus, in the real dtype.",
    schema: "(a: Tensor<n>) -> Tensor<real>",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        meta::one(a.dims().to_vec(), a.dtype().real(), &a.ty)
    }),
    vjp: Vjp::Rule(|b, d| unary_rule(b, d, absolute)),
    samples: UNARY,
    ..PRIM
};

pub static BITWISE_NOT: Op = Op {
    name: "prims.bitwise_not",
    doc: "Complement of each bit; of bools: not.",
    schema: "(a: Tensor<i|b>) -> Tensor",
    vjp: Vjp::NonDiff,
    samples: UNARY,
    ..PRIM
};

pub static CONJ: Op = Op {
    name: "prims.conj",
    doc: "Complex conjugate.",
    schema: "(a: Tensor<c>) -> Tensor",
    vjp: Vjp::Rule(|b, d| unary_rule(b, d, |b, _, _, g| b.unary("prims.conj", g))),
    samples: UNARY,
    ..PRIM
};

pub static COS: Op = Op {
    name: "prims.cos",
    doc: "Cosine.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let slope = b.unary("prims.sin", a)?;
            let slope = b.neg(&slope)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY,
    ..PRIM
};

pub static ERF: Op = Op {
    name: "prims.erf",
    doc: "The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.",
    schema: "(a: Tensor<f>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            // d erf(x) = 2 / sqrt(pi) * exp(-x^2).
            let square = b.mul(a, a)?;
            let minus = b.neg(&square)?;
            let bell = b.exp(&minus)?;
            let slope = b.mul(&bell, std::f64::consts::FRAC_2_SQRT_PI)?;
            b.mul(g, &slope)
        })
    }),
    samples: UNARY,
    ..PRIM
};

pub static EXP: Op = Op {
    name: "prims.exp",
    doc: "e to the power of each element.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| unary_rule(b, d, |b, _, y, g| chain(b, g, y))),
    samples: UNARY,
    ..PRIM
};

pub static EXPM1: Op = Op {
    name: "prims.expm1",
    doc: "exp(x) - 1, accurate near zero.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, _, y, g| {
            let slope = b.add(y, 1.0)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY,
    ..PRIM
};

pub static FLOOR: Op = Op {
    name: "prims.floor",
    doc: "The largest integer not above each element; integers stay.",
    schema: "(a: Tensor<r>) -> Tensor",
    vjp: Vjp::Zero,
    samples: UNARY,
    ..PRIM
};

pub static IMAG: Op = Op {
    name: "prims.imag",
    doc: "The imaginary part, as a view.",
    schema: "(a: Tensor<c>) -> Tensor<real>",
    meta: Meta::Fn(part_meta),
    // Im a in the direction i.
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let g = b.to(g, a.dtype())?;
            b.mul(&g, Num::Complex(0.0, 1.0))
        })
    }),
    traits: Traits::VIEW.and(Traits::CHEAP),
    view: Some(|_, strides, offset| part_view(strides, offset, 1)),
    samples: UNARY,
    ..PRIM
};

pub static LOG: Op = Op {
    name: "prims.log",
    doc: "Natural logarithm; NaN below zero, -inf at zero.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let slope = b.unary("prims.reciprocal", a)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY_POS,
    ..PRIM
};

pub static LOG1P: Op = Op {
    name: "prims.log1p",
    doc: "log(1 + x), accurate near zero.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let next = b.add(a, 1.0)?;
            let slope = b.unary("prims.reciprocal", &next)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY_POS,
    ..PRIM
};

pub static NEG: Op = Op {
    name: "prims.neg",
    doc: "Negation.",
    schema: "(a: Tensor<n>) -> Tensor",
    vjp: Vjp::Rule(|b, d| unary_rule(b, d, |b, _, _, g| b.neg(g))),
    samples: UNARY,
    ..PRIM
};

pub static REAL: Op = Op {
    name: "prims.real",
    doc: "The real part, as a view.",
    schema: "(a: Tensor<c>) -> Tensor<real>",
    meta: Meta::Fn(part_meta),
    vjp: Vjp::Rule(|b, d| unary_rule(b, d, |b, a, _, g| b.to(g, a.dtype()))),
    traits: Traits::VIEW.and(Traits::CHEAP),
    view: Some(|_, strides, offset| part_view(strides, offset, 0)),
    samples: UNARY,
    ..PRIM
};

pub static RECIPROCAL: Op = Op {
    name: "prims.reciprocal",
    doc: "1 / x.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, _, y, g| {
            let square = b.mul(y, y)?;
            let slope = b.neg(&square)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY_POS,
    ..PRIM
};

pub static RSQRT: Op = Op {
    name: "prims.rsqrt",
    doc: "1 / sqrt(x); inf at zero, NaN below.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, _, y, g| {
            let square = b.mul(y, y)?;
            let cube = b.mul(&square, y)?;
            let slope = b.mul(&cube, -0.5)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY_POS,
    ..PRIM
};

pub static SIN: Op = Op {
    name: "prims.sin",
    doc: "Sine.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, a, _, g| {
            let slope = b.unary("prims.cos", a)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY,
    ..PRIM
};

pub static SQRT: Op = Op {
    name: "prims.sqrt",
    doc: "Square root; NaN below zero.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, _, y, g| {
            let twice = b.mul(y, 2.0)?;
            let slope = b.unary("prims.reciprocal", &twice)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY_POS,
    ..PRIM
};

pub static TANH: Op = Op {
    name: "prims.tanh",
    doc: "Hyperbolic tangent.",
    schema: "(a: Tensor<x>) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        unary_rule(b, d, |b, _, y, g| {
            let square = b.mul(y, y)?;
            let slope = b.one_minus(&square)?;
            chain(b, g, &slope)
        })
    }),
    samples: UNARY,
    ..PRIM
};

pub static TRUNC: Op = Op {
    name: "prims.trunc",
    doc: "Rounded towards zero; integers stay.",
    schema: "(a: Tensor<r>) -> Tensor",
    vjp: Vjp::Zero,
    samples: UNARY,
    ..PRIM
};

pub static ADD: Op = Op {
    name: "prims.add",
    doc: "Sum of both; of bools: or.",
    schema: "(a: Tensor<a>, b: Tensor<a>|num) -> Tensor",
    vjp: Vjp::Rule(|b, d| binary_rule(b, d, |_, _, _, _, g| Ok(g.clone()), |_, _, _, _, g| Ok(g.clone()))),
    traits: COMMUTES,
    samples: BINARY_PRIM,
    ..PRIM
};

pub static BITWISE_AND: Op = Op {
    name: "prims.bitwise_and",
    doc: "And, bit by bit.",
    schema: "(a: Tensor<i|b>, b: Tensor<i|b>|num) -> Tensor",
    vjp: Vjp::NonDiff,
    traits: COMMUTES,
    samples: BINARY_PRIM,
    ..PRIM
};

pub static BITWISE_LEFT_SHIFT: Op = Op {
    name: "prims.bitwise_left_shift",
    doc: "Bits moved up by `b`; zero where `b` is negative or not below the number of bits.",
    schema: "(a: Tensor<i>, b: Tensor<i>|num) -> Tensor",
    vjp: Vjp::NonDiff,
    samples: &[Sample("T[2, 3], T[2, 3]"), Sample("i64[4]{0..9}, 2"), Sample("i32[4]{-9..9}, i32[4]{0..40}")],
    ..PRIM
};

pub static BITWISE_OR: Op = Op {
    name: "prims.bitwise_or",
    doc: "Or, bit by bit.",
    schema: "(a: Tensor<i|b>, b: Tensor<i|b>|num) -> Tensor",
    vjp: Vjp::NonDiff,
    traits: COMMUTES,
    samples: BINARY_PRIM,
    ..PRIM
};

pub static BITWISE_XOR: Op = Op {
    name: "prims.bitwise_xor",
    doc: "Exclusive or, bit by bit.",
    schema: "(a: Tensor<i|b>, b: Tensor<i|b>|num) -> Tensor",
    vjp: Vjp::NonDiff,
    traits: COMMUTES,
    samples: BINARY_PRIM,
    ..PRIM
};

pub static DIV: Op = Op {
    name: "prims.div",
    doc: "Quotient; integers divide towards zero, and by zero is an error.",
    schema: "(a: Tensor<n>, b: Tensor<n>|num) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        binary_rule(
            b,
            d,
            |b, _, y, _, g| {
                let y = conjugated(b, y)?;
                b.div(g, y)
            },
            |b, _, y, out, g| {
                // d (x / y) = -(x / y) / y.
                let slope = b.div(out, y.clone())?;
                let slope = b.neg(&slope)?;
                chain(b, g, &slope)
            },
        )
    }),
    samples: DIVIDE_PRIM,
    ..PRIM
};

pub static EQ: Op = Op {
    name: "prims.eq",
    doc: "Are both equal? NaN equals nothing.",
    schema: "(a: Tensor<a>, b: Tensor<a>|num) -> Tensor<b>",
    vjp: Vjp::NonDiff,
    traits: COMMUTES,
    samples: BINARY_PRIM,
    ..PREDICATE
};

pub static FMOD: Op = Op {
    name: "prims.fmod",
    doc: "Remainder of division towards zero: it has the sign of the dividend.",
    schema: "(a: Tensor<r>, b: Tensor<r>|num) -> Tensor",
    vjp: Vjp::Rule(|b, d| modulus(b, d, "prims.trunc")),
    samples: DIVIDE_PRIM,
    ..PRIM
};

pub static GE: Op = Op {
    name: "prims.ge",
    doc: "Is `a` at least `b`?",
    schema: "(a: Tensor<r>, b: Tensor<r>|num) -> Tensor<b>",
    vjp: Vjp::NonDiff,
    samples: BINARY_PRIM,
    ..PREDICATE
};

pub static GT: Op = Op {
    name: "prims.gt",
    doc: "Is `a` above `b`?",
    schema: "(a: Tensor<r>, b: Tensor<r>|num) -> Tensor<b>",
    vjp: Vjp::NonDiff,
    samples: BINARY_PRIM,
    ..PREDICATE
};

pub static LE: Op = Op {
    name: "prims.le",
    doc: "Is `a` at most `b`?",
    schema: "(a: Tensor<r>, b: Tensor<r>|num) -> Tensor<b>",
    vjp: Vjp::NonDiff,
    samples: BINARY_PRIM,
    ..PREDICATE
};

pub static LT: Op = Op {
    name: "prims.lt",
    doc: "Is `a` below `b`?",
    schema: "(a: Tensor<r>, b: Tensor<r>|num) -> Tensor<b>",
    vjp: Vjp::NonDiff,
    samples: BINARY_PRIM,
    ..PREDICATE
};

pub static MAXIMUM: Op = Op {
    name: "prims.maximum",
    doc: "The larger of both; NaN wins.",
    schema: "(a: Tensor<r>, b: Tensor<r>|num) -> Tensor",
    vjp: Vjp::Rule(|b, d| extreme(b, d, "prims.lt")),
    traits: COMMUTES,
    samples: BINARY_PRIM,
    ..PRIM
};

pub static MINIMUM: Op = Op {
    name: "prims.minimum",
    doc: "The smaller of both; NaN wins.",
    schema: "(a: Tensor<r>, b: Tensor<r>|num) -> Tensor",
    vjp: Vjp::Rule(|b, d| extreme(b, d, "prims.gt")),
    traits: COMMUTES,
    samples: BINARY_PRIM,
    ..PRIM
};

pub static MUL: Op = Op {
    name: "prims.mul",
    doc: "Product of both; of bools: and.",
    schema: "(a: Tensor<a>, b: Tensor<a>|num) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        binary_rule(b, d, |b, _, y, _, g| chain_operand(b, g, y), |b, x, _, _, g| chain(b, g, x))
    }),
    traits: COMMUTES,
    samples: BINARY_PRIM,
    ..PRIM
};

pub static NE: Op = Op {
    name: "prims.ne",
    doc: "Do both differ? NaN differs from everything.",
    schema: "(a: Tensor<a>, b: Tensor<a>|num) -> Tensor<b>",
    vjp: Vjp::NonDiff,
    traits: COMMUTES,
    samples: BINARY_PRIM,
    ..PREDICATE
};

pub static POW: Op = Op {
    name: "prims.pow",
    doc: "`a` to the power of `b`; 0^0 is 1.",
    schema: "(a: Tensor<n>, b: Tensor<n>|num) -> Tensor",
    vjp: Vjp::Rule(power_rule),
    samples: &[
        Sample("T[2, 3]{pos}, T[2, 3]"),
        Sample("T[4], 3"),
        Sample("T[]{pos}, T[]"),
        Sample("T[0, 2], T[0, 2]"),
    ],
    ..PRIM
};

pub static REMAINDER: Op = Op {
    name: "prims.remainder",
    doc: "Remainder of division towards minus infinity: it has the sign of the divisor.",
    schema: "(a: Tensor<r>, b: Tensor<r>|num) -> Tensor",
    vjp: Vjp::Rule(|b, d| modulus(b, d, "prims.floor")),
    samples: DIVIDE_PRIM,
    ..PRIM
};

pub static SUB: Op = Op {
    name: "prims.sub",
    doc: "Difference.",
    schema: "(a: Tensor<n>, b: Tensor<n>|num) -> Tensor",
    vjp: Vjp::Rule(|b, d| binary_rule(b, d, |_, _, _, _, g| Ok(g.clone()), |b, _, _, _, g| b.neg(g))),
    samples: BINARY_PRIM,
    ..PRIM
};

pub static LERP: Op = Op {
    name: "prims.lerp",
    doc: "`start + weight * (end - start)`, from the nearer end: `end - (end - start) * (1 - weight)` where |weight| is at least 1/2.",
    schema: "(start: Tensor<x>, end: Tensor<x>, weight: Tensor<x>|num) -> Tensor",
    vjp: Vjp::Rule(|b, d| {
        let (g, start, end) = (d.g()?, d.call.tensor("start")?, d.call.tensor("end")?);
        let weight = d.call.operand("weight")?;
        let to_end = chain_operand(b, &g, &weight)?;
        let mut all = vec![Some(b.sub(&g, &to_end)?), Some(to_end)];
        if weight.tensor().is_some() {
            let slope = b.sub(&end, &start)?;
            all.push(Some(chain(b, &g, &slope)?));
        }
        Ok(all)
    }),
    samples: &[Sample("T[2, 3], T[2, 3], T[2, 3]"), Sample("T[4], T[4], 0.25"), Sample("T[], T[], 0.75")],
    ..PRIM
};

pub static WHERE: Op = Op {
    name: "prims.where",
    doc: "`a` where `pred`, else `b`; at least one of both is a tensor.",
    schema: "(pred: Tensor<b>, a: Tensor|num, b: Tensor|num) -> Tensor",
    meta: Meta::Fn(where_meta),
    vjp: Vjp::Rule(|b, d| {
        let (g, pred) = (d.g()?, d.call.tensor("pred")?);
        let mut all = vec![None];
        if d.call.operand("a")?.tensor().is_some() {
            all.push(Some(b.select(&pred, &g, 0.0)?));
        }
        if d.call.operand("b")?.tensor().is_some() {
            all.push(Some(b.select(&pred, 0.0, &g)?));
        }
        Ok(all)
    }),
    samples: &[
        Sample("bool[2, 3], T[2, 3], T[2, 3]"),
        Sample("bool[4], T[4], 0"),
        Sample("bool[4], 1, T[4]"),
        Sample("bool[0], T[0], T[0]"),
    ],
    ..PRIM
};

pub static TORCH_ABS: Op = Op {
    name: "torch.abs",
    doc: "Absolute value; of a complex number its modulus.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary(b, call, "prims.abs")),
    meta: Meta::Fn(|call| {
        let a = numeric_a(call)?;
        meta::one(a.dims().to_vec(), a.dtype().real(), &a.ty)
    }),
    aten: &[Aten {
        overloads: &["abs.default", "abs_.default", "absolute.default", "absolute_.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_BITWISE_NOT: Op = Op {
    name: "torch.bitwise_not",
    doc: "Complement of each bit; of bools: not.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary(b, call, "prims.bitwise_not")),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        bits(call, a.dtype())?;
        Ok(vec![Some(Type::Tensor(a.ty))])
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &["bitwise_not.default", "bitwise_not_.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_COS: Op = Op {
    name: "torch.cos",
    doc: "Cosine; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.cos")),
    aten: &[Aten { overloads: &["cos.default", "cos_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..INEXACT
};

pub static TORCH_ELU: Op = Op {
    name: "torch.elu",
    doc: "`scale * x` above zero, `scale * alpha * (exp(input_scale * x) - 1)` below.",
    schema: "(a: Tensor<f>, alpha: num = 1, scale: num = 1, input_scale: num = 1) -> Tensor",
    level: Level::Composite(|b, call| {
        let (alpha, scale, input_scale) = (call.num("alpha")?, call.num("scale")?, call.num("input_scale")?);
        in_acc_of_a(b, call, |b, x| {
            let inner = times(b, x, &input_scale)?;
            let below = emit::unary(b, "prims.expm1", &inner)?;
            let below = times(b, &below, &alpha)?;
            let below = times(b, &below, &scale)?;
            let above = times(b, x, &scale)?;
            let positive = emit::binary(b, "prims.gt", x, 0.0)?;
            select(b, &positive, above, below)
        })
    }),
    vjp: Vjp::Rule(|b, d| {
        let call = d.call;
        let (alpha, scale, input_scale) = (call.num("alpha")?, call.num("scale")?, call.num("input_scale")?);
        slope_rule(b, d, |b, x| {
            let inner = times(b, x, &input_scale)?;
            let below = b.exp(&inner)?;
            let below = times(b, &below, &input_scale)?;
            let below = times(b, &below, &alpha)?;
            let below = times(b, &below, &scale)?;
            let positive = b.gt(x, 0.0)?;
            b.select(&positive, Operand::Num(scale.clone()), &below)
        })
    }),
    aten: &[Aten {
        overloads: &["elu.default", "elu_.default"],
        import: Import::Map("a=self alpha scale input_scale"),
    }],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[]"),
        Sample("T[0, 4]"),
        Sample("T[5]{nonfinite}"),
        Sample("T[6], alpha=0.5"),
        Sample("T[4], alpha=1.5, scale=2.0, input_scale=0.5"),
    ],
    ..SAME
};

pub static TORCH_EXP: Op = Op {
    name: "torch.exp",
    doc: "e to the power of each element; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.exp")),
    aten: &[Aten { overloads: &["exp.default", "exp_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..INEXACT
};

pub static TORCH_GELU: Op = Op {
    name: "torch.gelu",
    doc: "`x * Phi(x)`, Phi the normal distribution; `tanh` takes the approximation `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`. Halves are computed in f32.",
    schema: "(a: Tensor<f>, *, approximate: str{none|tanh} = none) -> Tensor",
    level: Level::Composite(gelu),
    meta: Meta::Fn(|call| {
        gelu_is_tanh(call)?;
        same_as_a(call)
    }),
    vjp: Vjp::Rule(|b, d| {
        let tanh = gelu_is_tanh(d.call)?;
        slope_rule(b, d, |b, x| if tanh { gelu_tanh_slope(b, x) } else { gelu_slope(b, x) })
    }),
    aten: &[Aten {
        overloads: &["gelu.default", "gelu_.default"],
        import: Import::Map("a=self approximate"),
    }],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[]"),
        Sample("T[0, 4]"),
        Sample("T[5]{nonfinite}"),
        Sample("T[2, 3], approximate=\"tanh\""),
    ],
    ..SAME
};

pub static TORCH_GLU: Op = Op {
    name: "torch.glu",
    doc: "The first half along the axis times the sigmoid of the second.",
    schema: "(a: Tensor<f>, axis: int = -1) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let halves = b.call("torch.chunk", vec![a.arg(), Arg::Int(2), call.raw("axis")?])?;
        let [Arg::Value(x), Arg::Value(gate)] = halves[..] else {
            return Err(call.error(format!(
                "{} has no two halves along axis {}",
                meta::show(a.dims()),
                call.int("axis")?
            )));
        };
        let (x, gate) = (b.as_tensor(x)?, b.as_tensor(gate)?);
        if x.dims() != gate.dims() {
            return Err(call.error(format!(
                "halves differ: {} and {}",
                meta::show(x.dims()),
                meta::show(gate.dims())
            )));
        }
        let acc = a.dtype().acc();
        let (wide_x, wide_gate) = (to_dtype(b, &x, acc)?, to_dtype(b, &gate, acc)?);
        let gate = b.tensor("torch.sigmoid", vec![wide_gate.arg()])?;
        let y = emit::binary(b, "prims.mul", &wide_x, gate)?;
        Ok(vec![to_dtype(b, &y, a.dtype())?.arg()])
    }),
    traits: Traits::CHEAP,
    aten: &[Aten { overloads: &["glu.default"], import: Import::Map("a=self axis=dim") }],
    samples: &[Sample("T[2, 4]"), Sample("T[4, 3], axis=0"), Sample("T[0, 2]")],
    ..OTHER
};

pub static TORCH_HARDSIGMOID: Op = Op {
    name: "torch.hardsigmoid",
    doc: "`min(max(x + 3, 0), 6) / 6`.",
    schema: "(a: Tensor<f>) -> Tensor",
    level: Level::Composite(|b, call| {
        in_acc_of_a(b, call, |b, x| {
            let gate = relu6_of_x_plus_3(b, x)?;
            emit::binary(b, "prims.div", &gate, 6.0)
        })
    }),
    vjp: Vjp::Rule(|b, d| {
        slope_rule(b, d, |b, x| {
            let (above, below) = (b.gt(x, -3.0)?, b.lt(x, 3.0)?);
            let inside = b.and(&above, &below)?;
            let sixth = b.full(x.dims(), 1.0 / 6.0, x.dtype(), &x.ty.device)?;
            b.select(&inside, &sixth, 0.0)
        })
    }),
    aten: &[Aten {
        overloads: &["hardsigmoid.default", "hardsigmoid_.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_HARDSWISH: Op = Op {
    name: "torch.hardswish",
    doc: "`x * min(max(x + 3, 0), 6) / 6`.",
    schema: "(a: Tensor<f>) -> Tensor",
    level: Level::Composite(|b, call| {
        in_acc_of_a(b, call, |b, x| {
            let gate = relu6_of_x_plus_3(b, x)?;
            let y = emit::binary(b, "prims.mul", x, gate)?;
            emit::binary(b, "prims.div", &y, 6.0)
        })
    }),
    // At -3 the flat side counts, at 3 the straight one.
    vjp: Vjp::Rule(|b, d| {
        slope_rule(b, d, |b, x| {
            let third = b.mul(x, 1.0 / 3.0)?;
            let middle = b.add(&third, 0.5)?;
            let straight = b.ge(x, 3.0)?;
            let right = b.select(&straight, 1.0, &middle)?;
            let flat = b.binary("prims.le", x, -3.0)?;
            b.select(&flat, 0.0, &right)
        })
    }),
    aten: &[Aten { overloads: &["hardswish.default", "hardswish_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_HARDTANH: Op = Op {
    name: "torch.hardtanh",
    doc: "`x` limited to [min, max].",
    schema: "(a: Tensor, min: num = -1, max: num = 1) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let low = emit::binary(b, "prims.maximum", &a, call.num("min")?)?;
        Ok(vec![emit::binary(b, "prims.minimum", &low, call.num("max")?)?.arg()])
    }),
    meta: Meta::Fn(real_a),
    // Nothing passes at the limits; NaN does.
    vjp: Vjp::Rule(|b, d| {
        let (a, g) = (d.call.tensor("a")?, d.g()?);
        let low = b.binary("prims.le", &a, d.call.num("min")?)?;
        let high = b.ge(&a, d.call.num("max")?)?;
        let out = b.binary("prims.bitwise_or", &low, &high)?;
        Ok(vec![Some(b.select(&out, 0.0, &g)?)])
    }),
    aten: &[Aten {
        overloads: &["hardtanh.default", "hardtanh_.default"],
        import: Import::Map("a=self min=min_val max=max_val"),
    }],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[]"),
        Sample("T[0, 4]"),
        Sample("T[5]{nonfinite}"),
        Sample("T[6], min=-2, max=0.5"),
    ],
    ..SAME
};

pub static TORCH_IMAG: Op = Op {
    name: "torch.imag",
    doc: "The imaginary part of a complex tensor, as a view.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary(b, call, "prims.imag")),
    meta: Meta::Fn(|call| {
        complex_a(call)?;
        part_meta(call)
    }),
    traits: Traits::VIEW.and(Traits::CHEAP),
    aten: &[Aten { overloads: &["imag.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_ISINF: Op = Op {
    name: "torch.isinf",
    doc: "Is it an infinity (in either part)?",
    schema: "(a: Tensor) -> Tensor<b>",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        if !a.dtype().is_inexact() {
            // No integer is: `x != x` is false everywhere.
            return Ok(vec![emit::binary(b, "prims.ne", &a, &a)?.arg()]);
        }
        let modulus = emit::unary(b, "prims.abs", &a)?;
        Ok(vec![emit::binary(b, "prims.eq", &modulus, f64::INFINITY)?.arg()])
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["isinf.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..ASKS
};

pub static TORCH_ISNAN: Op = Op {
    name: "torch.isnan",
    doc: "Is it NaN (in either part)?",
    schema: "(a: Tensor) -> Tensor<b>",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        Ok(vec![emit::binary(b, "prims.ne", &a, &a)?.arg()])
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["isnan.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..ASKS
};

pub static TORCH_LEAKY_RELU: Op = Op {
    name: "torch.leaky_relu",
    doc: "`x` above zero, `slope * x` below.",
    schema: "(a: Tensor<f>, slope: num = 0.01) -> Tensor",
    level: Level::Composite(|b, call| {
        let slope = call.num("slope")?;
        in_acc_of_a(b, call, |b, x| {
            let below = times(b, x, &slope)?;
            let positive = emit::binary(b, "prims.gt", x, 0.0)?;
            select(b, &positive, x, below)
        })
    }),
    vjp: Vjp::Rule(|b, d| {
        let slope = d.call.num("slope")?;
        let (a, g) = (d.call.tensor("a")?, d.g()?);
        let g_wide = b.to(&g, g.dtype().acc())?;
        let below = times(b, &g_wide, &slope)?;
        let below = b.to(&below, a.dtype())?;
        let positive = b.gt(&a, 0.0)?;
        Ok(vec![Some(b.select(&positive, &g, &below)?)])
    }),
    aten: &[Aten {
        overloads: &["leaky_relu.default", "leaky_relu_.default"],
        import: Import::Map("a=self slope=negative_slope"),
    }],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[]"),
        Sample("T[0, 4]"),
        Sample("T[5]{nonfinite}"),
        Sample("T[6], slope=0.2"),
    ],
    ..SAME
};

pub static TORCH_LOG: Op = Op {
    name: "torch.log",
    doc: "Natural logarithm; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.log")),
    aten: &[Aten { overloads: &["log.default", "log_.default"], import: Import::Map("a=self") }],
    samples: UNARY_POS,
    ..INEXACT
};

pub static TORCH_LOGICAL_NOT: Op = Op {
    name: "torch.logical_not",
    doc: "Is it zero?",
    schema: "(a: Tensor) -> Tensor<b>",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        Ok(vec![emit::binary(b, "prims.eq", &a, 0)?.arg()])
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &["logical_not.default", "logical_not_.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..ASKS
};

pub static TORCH_MISH: Op = Op {
    name: "torch.mish",
    doc: "`x * tanh(log(1 + exp(x)))`.",
    schema: "(a: Tensor<f>) -> Tensor",
    level: Level::Composite(|b, call| {
        in_acc_of_a(b, call, |b, x| {
            let inner = b.tensor("torch.softplus", vec![x.arg()])?;
            let gate = emit::unary(b, "prims.tanh", &inner)?;
            emit::binary(b, "prims.mul", x, gate)
        })
    }),
    vjp: Vjp::Rule(|b, d| {
        slope_rule(b, d, |b, x| {
            let inner = b.tensor("torch.softplus", vec![x.arg()])?;
            let gate = b.unary("prims.tanh", &inner)?;
            let square = b.mul(&gate, &gate)?;
            let rest = b.one_minus(&square)?;
            let s = b.tensor("torch.sigmoid", vec![x.arg()])?;
            let slope = b.mul(&rest, &s)?;
            let slope = b.mul(&slope, x)?;
            b.add(&gate, &slope)
        })
    }),
    aten: &[Aten { overloads: &["mish.default", "mish_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_NEG: Op = Op {
    name: "torch.neg",
    doc: "Negation.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary(b, call, "prims.neg")),
    meta: Meta::Fn(|call| Ok(vec![Some(Type::Tensor(numeric_a(call)?.ty))])),
    aten: &[Aten {
        overloads: &["neg.default", "neg_.default", "negative.default", "negative_.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_REAL: Op = Op {
    name: "torch.real",
    doc: "The real part, as a view; a real tensor is its own.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let complex = call.tensor("a")?.dtype().is_complex();
        unary(b, call, if complex { "prims.real" } else { "prims.shallow_copy" })
    }),
    meta: Meta::Fn(part_meta),
    traits: Traits::VIEW.and(Traits::CHEAP),
    aten: &[Aten { overloads: &["real.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_RELU: Op = Op {
    name: "torch.relu",
    doc: "`max(x, 0)`; NaN stays.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        Ok(vec![emit::binary(b, "prims.maximum", &a, 0)?.arg()])
    }),
    meta: Meta::Fn(real_a),
    vjp: Vjp::Rule(|b, d| {
        let (y, g) = (d.output(0)?, d.g()?);
        let on = b.binary("prims.gt", &y, 0.0)?;
        Ok(vec![Some(b.select(&on, &g, 0.0)?)])
    }),
    aten: &[Aten { overloads: &["relu.default", "relu_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_RELU6: Op = Op {
    name: "torch.relu6",
    doc: "`x` limited to [0, 6].",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        Ok(vec![b.tensor("torch.hardtanh", vec![call.raw("a")?, Arg::Int(0), Arg::Int(6)])?.arg()])
    }),
    meta: Meta::Fn(real_a),
    aten: &[Aten { overloads: &["relu6.default", "relu6_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_RSQRT: Op = Op {
    name: "torch.rsqrt",
    doc: "1 / sqrt(x); integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.rsqrt")),
    aten: &[Aten { overloads: &["rsqrt.default", "rsqrt_.default"], import: Import::Map("a=self") }],
    samples: UNARY_POS,
    ..INEXACT
};

pub static TORCH_SIGMOID: Op = Op {
    name: "torch.sigmoid",
    doc: "`1 / (1 + exp(-x))`; integers and bools are computed as the default float, halves in f32.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let a = to_dtype(b, &a, inexact(a.dtype()))?;
        Ok(vec![in_acc(b, &a, sigmoid)?.arg()])
    }),
    vjp: Vjp::Rule(|b, d| {
        let (a, y, g) = (d.call.tensor("a")?, d.output(0)?, d.g()?);
        let rest = b.one_minus(&y)?;
        let slope = b.mul(&y, &rest)?;
        let of_y = chain(b, &g, &slope)?;
        Ok(vec![Some(b.to(&of_y, a.dtype())?)])
    }),
    aten: &[Aten {
        overloads: &["sigmoid.default", "sigmoid_.default", "special_expit.default"],
        import: Import::Map("a=self"),
    }],
    samples: UNARY,
    ..INEXACT
};

pub static TORCH_SILU: Op = Op {
    name: "torch.silu",
    doc: "`x * sigmoid(x)`; halves are computed in f32.",
    schema: "(a: Tensor<f>) -> Tensor",
    level: Level::Composite(|b, call| {
        in_acc_of_a(b, call, |b, x| {
            let gate = b.tensor("torch.sigmoid", vec![x.arg()])?;
            emit::binary(b, "prims.mul", x, gate)
        })
    }),
    // s (1 + x (1 - s)).
    vjp: Vjp::Rule(|b, d| {
        slope_rule(b, d, |b, x| {
            let s = b.tensor("torch.sigmoid", vec![x.arg()])?;
            let rest = b.one_minus(&s)?;
            let inner = b.mul(x, &rest)?;
            let inner = b.add(&inner, 1.0)?;
            b.mul(&s, &inner)
        })
    }),
    aten: &[Aten { overloads: &["silu.default", "silu_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_SIN: Op = Op {
    name: "torch.sin",
    doc: "Sine; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.sin")),
    aten: &[Aten { overloads: &["sin.default", "sin_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..INEXACT
};

pub static TORCH_SOFTPLUS: Op = Op {
    name: "torch.softplus",
    doc: "`log(1 + exp(beta * x)) / beta`, and `x` itself where `beta * x` is above the threshold.",
    schema: "(a: Tensor<f>, beta: num = 1, threshold: num = 20) -> Tensor",
    level: Level::Composite(|b, call| {
        let (beta, threshold) = (call.num("beta")?, call.num("threshold")?);
        in_acc_of_a(b, call, |b, x| {
            let scaled = times(b, x, &beta)?;
            let e = emit::unary(b, "prims.exp", &scaled)?;
            let mut soft = emit::unary(b, "prims.log1p", &e)?;
            if !is_one(&beta) {
                soft = emit::binary(b, "prims.div", &soft, beta)?;
            }
            let linear = emit::binary(b, "prims.gt", &scaled, threshold)?;
            select(b, &linear, x, soft)
        })
    }),
    // The sigmoid, which does not overflow where exp does.
    vjp: Vjp::Rule(|b, d| {
        let (beta, threshold) = (d.call.num("beta")?, d.call.num("threshold")?);
        slope_rule(b, d, |b, x| {
            let scaled = times(b, x, &beta)?;
            let s = b.tensor("torch.sigmoid", vec![scaled.arg()])?;
            let linear = b.gt(&scaled, threshold)?;
            b.select(&linear, 1.0, &s)
        })
    }),
    aten: &[Aten { overloads: &["softplus.default"], import: Import::Map("a=self beta threshold") }],
    samples: &[
        Sample("T[2, 3]"),
        Sample("T[]"),
        Sample("T[0, 4]"),
        Sample("T[5]{nonfinite}"),
        Sample("T[6], beta=2, threshold=1"),
    ],
    ..SAME
};

pub static TORCH_SQRT: Op = Op {
    name: "torch.sqrt",
    doc: "Square root; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.sqrt")),
    aten: &[Aten { overloads: &["sqrt.default", "sqrt_.default"], import: Import::Map("a=self") }],
    samples: UNARY_POS,
    ..INEXACT
};

pub static TORCH_SQUARE: Op = Op {
    name: "torch.square",
    doc: "`x * x`; of bools as i64.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let a = to_dtype(b, &a, squared_dtype(a.dtype()))?;
        Ok(vec![emit::binary(b, "prims.mul", &a, &a)?.arg()])
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        meta::one(a.dims().to_vec(), squared_dtype(a.dtype()), &a.ty)
    }),
    aten: &[Aten { overloads: &["square.default", "square_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..SAME
};

pub static TORCH_TANH: Op = Op {
    name: "torch.tanh",
    doc: "Hyperbolic tangent; integers and bools are computed as the default float.",
    schema: "(a: Tensor) -> Tensor",
    level: Level::Composite(|b, call| unary_inexact(b, call, "prims.tanh")),
    aten: &[Aten { overloads: &["tanh.default", "tanh_.default"], import: Import::Map("a=self") }],
    samples: UNARY,
    ..INEXACT
};

pub static TORCH_ADD: Op = Op {
    name: "torch.add",
    doc: "`a + alpha * b`, broadcast and promoted.",
    schema: "(a: Tensor|num, b: Tensor|num, *, alpha: num = 1) -> Tensor",
    level: Level::Composite(|b, call| scaled_binary(b, call, "prims.add", "a", "b")),
    traits: CHEAP_POINTWISE,
    aten: &[Aten {
        overloads: &["add.Tensor", "add_.Tensor", "add.Scalar", "add_.Scalar"],
        import: Import::Map("a=self b=other alpha"),
    }],
    samples: &[
        Sample("T[2, 3], T[3]"),
        Sample("T[2, 1], i64[3]{0..5}"),
        Sample("T[4], 2.5"),
        Sample("3, T[2, 2]"),
        Sample("T[], T[2]"),
        Sample("i32[3]{0..5}, f64[]"),
        Sample("T[0, 3], T[3]"),
        Sample("T[2], T[2], alpha=2"),
        Sample("bool[3], bool[3]"),
    ],
    ..BINARY
};

pub static TORCH_BITWISE_AND: Op = Op {
    name: "torch.bitwise_and",
    doc: "And, bit by bit, broadcast and promoted.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| binary(b, call, "prims.bitwise_and")),
    vjp: Vjp::NonDiff,
    traits: COMMUTES,
    aten: &[Aten {
        overloads: &[
            "bitwise_and.Tensor",
            "bitwise_and_.Tensor",
            "bitwise_and.Scalar",
            "bitwise_and_.Scalar",
            "bitwise_and.Scalar_Tensor",
            "__and__.Tensor",
            "__and__.Scalar",
            "__iand__.Tensor",
            "__iand__.Scalar",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: BIT_SAMPLES,
    ..BINARY_BITS
};

pub static TORCH_BITWISE_LEFT_SHIFT: Op = Op {
    name: "torch.bitwise_left_shift",
    doc: "Bits moved up by `b`; floats (of `<<`) are multiplied by 2^b.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(left_shift),
    meta: Meta::Fn(numeric_of_a_b),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &[
            "bitwise_left_shift.Tensor",
            "bitwise_left_shift_.Tensor",
            "bitwise_left_shift.Tensor_Scalar",
            "bitwise_left_shift_.Tensor_Scalar",
            "bitwise_left_shift.Scalar_Tensor",
            "__lshift__.Tensor",
            "__lshift__.Scalar",
            "__ilshift__.Tensor",
            "__ilshift__.Scalar",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: SHIFT_SAMPLES,
    ..BINARY
};

pub static TORCH_BITWISE_OR: Op = Op {
    name: "torch.bitwise_or",
    doc: "Or, bit by bit, broadcast and promoted.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| binary(b, call, "prims.bitwise_or")),
    vjp: Vjp::NonDiff,
    traits: COMMUTES,
    aten: &[Aten {
        overloads: &[
            "bitwise_or.Tensor",
            "bitwise_or_.Tensor",
            "bitwise_or.Scalar",
            "bitwise_or_.Scalar",
            "bitwise_or.Scalar_Tensor",
            "__or__.Tensor",
            "__or__.Scalar",
            "__ior__.Tensor",
            "__ior__.Scalar",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: BIT_SAMPLES,
    ..BINARY_BITS
};

pub static TORCH_BITWISE_XOR: Op = Op {
    name: "torch.bitwise_xor",
    doc: "Exclusive or, bit by bit, broadcast and promoted.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| binary(b, call, "prims.bitwise_xor")),
    vjp: Vjp::NonDiff,
    traits: COMMUTES,
    aten: &[Aten {
        overloads: &[
            "bitwise_xor.Tensor",
            "bitwise_xor_.Tensor",
            "bitwise_xor.Scalar",
            "bitwise_xor_.Scalar",
            "bitwise_xor.Scalar_Tensor",
            "__xor__.Tensor",
            "__xor__.Scalar",
            "__ixor__.Tensor",
            "__ixor__.Scalar",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: BIT_SAMPLES,
    ..BINARY_BITS
};

pub static TORCH_CLAMP_MAX: Op = Op {
    name: "torch.clamp_max",
    doc: "The smaller of `a` and `max`; NaN wins.",
    schema: "(a: Tensor, max: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| limited(b, call, "prims.minimum", "max")),
    meta: Meta::Fn(|call| real_of(call, &[call.operand("a")?, call.operand("max")?])),
    vjp: Vjp::Rule(|b, d| limits_rule(b, d, None, Some(d.call.operand("max")?))),
    aten: &[Aten {
        overloads: &["clamp_max.default", "clamp_max_.default", "clamp_max.Tensor", "clamp_max_.Tensor"],
        import: Import::Map("a=self max"),
    }],
    samples: &[Sample("T[2, 3], T[3]"), Sample("T[4], 0.5"), Sample("T[5]{nonfinite}, 0"), Sample("T[0], 1")],
    ..OTHER
};

pub static TORCH_CLAMP_MIN: Op = Op {
    name: "torch.clamp_min",
    doc: "The larger of `a` and `min`; NaN wins.",
    schema: "(a: Tensor, min: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| limited(b, call, "prims.maximum", "min")),
    meta: Meta::Fn(|call| real_of(call, &[call.operand("a")?, call.operand("min")?])),
    vjp: Vjp::Rule(|b, d| limits_rule(b, d, Some(d.call.operand("min")?), None)),
    aten: &[Aten {
        overloads: &["clamp_min.default", "clamp_min_.default", "clamp_min.Tensor", "clamp_min_.Tensor"],
        import: Import::Map("a=self min"),
    }],
    samples: &[Sample("T[2, 3], T[3]"), Sample("T[4], 0.5"), Sample("T[5]{nonfinite}, 0"), Sample("T[0], 1")],
    ..OTHER
};

pub static TORCH_DIV: Op = Op {
    name: "torch.div",
    doc: "Quotient, broadcast and promoted. Without a mode integers become floats; `trunc` and `floor` round the quotient and keep integers.",
    schema: "(a: Tensor|num, b: Tensor|num, *, mode: str{none|trunc|floor} = none) -> Tensor",
    level: Level::Composite(div),
    meta: Meta::Fn(|call| {
        let operands = [call.operand("a")?, call.operand("b")?];
        match rounding(call)? {
            Rounding::None => meta::broadcast_of(call, &operands, inexact(promoted(&operands))),
            _ => real_of(call, &operands),
        }
    }),
    aten: &[
        Aten {
            overloads: &[
                "div.Tensor",
                "div_.Tensor",
                "div.Scalar",
                "div_.Scalar",
                "divide.Tensor",
                "divide_.Tensor",
                "divide.Scalar",
                "divide_.Scalar",
            ],
            import: Import::Map("a=self b=other"),
        },
        Aten {
            overloads: &[
                "div.Tensor_mode",
                "div_.Tensor_mode",
                "div.Scalar_mode",
                "div_.Scalar_mode",
                "divide.Tensor_mode",
                "divide_.Tensor_mode",
                "divide.Scalar_mode",
                "divide_.Scalar_mode",
            ],
            import: Import::Map("a=self b=other mode=rounding_mode"),
        },
    ],
    samples: &[
        Sample("T[2, 3], T[3]{nonzero}"),
        Sample("T[2, 1], i64[3]{1..5}"),
        Sample("T[4], 2.5"),
        Sample("7, T[2, 2]{nonzero}"),
        Sample("bool[3], T[3]{nonzero}"),
        Sample("T[0, 3], T[3]"),
        Sample("T[4]{nonfinite}, T[4]"),
        Sample("T[6], T[6]{nonzero}, mode=\"trunc\""),
        Sample("T[6], T[6]{nonzero}, mode=\"floor\""),
        Sample("i64[6]{-9..9}, -4, mode=\"floor\""),
    ],
    ..OTHER
};

pub static TORCH_EQ: Op = Op {
    name: "torch.eq",
    doc: "Are both equal?",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor<b>",
    level: Level::Composite(|b, call| binary(b, call, "prims.eq")),
    vjp: Vjp::NonDiff,
    traits: COMMUTES,
    aten: &[Aten {
        overloads: &["eq.Tensor", "eq_.Tensor", "eq.Scalar", "eq_.Scalar"],
        import: Import::Map("a=self b=other"),
    }],
    samples: BINARY_SAMPLES,
    ..COMPARES
};

pub static TORCH_FLOOR_DIVIDE: Op = Op {
    name: "torch.floor_divide",
    doc: "Quotient rounded to minus infinity, as Python's `//`.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| {
        let operands = [call.operand("a")?, call.operand("b")?];
        Ok(vec![floor_divide(b, call, &operands, promoted(&operands))?.arg()])
    }),
    vjp: Vjp::Zero,
    aten: &[Aten {
        overloads: &["floor_divide.default", "floor_divide.Scalar", "floor_divide_.Scalar"],
        import: Import::Map("a=self b=other"),
    }],
    samples: DIVIDE_SAMPLES,
    ..BINARY_REAL
};

pub static TORCH_GE: Op = Op {
    name: "torch.ge",
    doc: "Is `a` at least `b`?",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor<b>",
    level: Level::Composite(|b, call| order(b, call, "prims.ge")),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &[
            "ge.Tensor",
            "ge_.Tensor",
            "ge.Scalar",
            "ge_.Scalar",
            "greater_equal.Tensor",
            "greater_equal_.Tensor",
            "greater_equal.Scalar",
            "greater_equal_.Scalar",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: BINARY_SAMPLES,
    ..ORDERS
};

pub static TORCH_GT: Op = Op {
    name: "torch.gt",
    doc: "Is `a` above `b`?",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor<b>",
    level: Level::Composite(|b, call| order(b, call, "prims.gt")),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &[
            "gt.Tensor",
            "gt_.Tensor",
            "gt.Scalar",
            "gt_.Scalar",
            "greater.Tensor",
            "greater_.Tensor",
            "greater.Scalar",
            "greater_.Scalar",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: BINARY_SAMPLES,
    ..ORDERS
};

pub static TORCH_LE: Op = Op {
    name: "torch.le",
    doc: "Is `a` at most `b`?",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor<b>",
    level: Level::Composite(|b, call| order(b, call, "prims.le")),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &[
            "le.Tensor",
            "le_.Tensor",
            "le.Scalar",
            "le_.Scalar",
            "less_equal.Tensor",
            "less_equal_.Tensor",
            "less_equal.Scalar",
            "less_equal_.Scalar",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: BINARY_SAMPLES,
    ..ORDERS
};

pub static TORCH_LOGICAL_AND: Op = Op {
    name: "torch.logical_and",
    doc: "Are both not zero?",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor<b>",
    level: Level::Composite(|b, call| logical(b, call, "prims.bitwise_and")),
    vjp: Vjp::NonDiff,
    traits: COMMUTES,
    aten: &[Aten {
        overloads: &["logical_and.default", "logical_and_.default"],
        import: Import::Map("a=self b=other"),
    }],
    samples: BINARY_SAMPLES,
    ..COMPARES
};

pub static TORCH_LOGICAL_OR: Op = Op {
    name: "torch.logical_or",
    doc: "Is one at least not zero?",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor<b>",
    level: Level::Composite(|b, call| logical(b, call, "prims.bitwise_or")),
    vjp: Vjp::NonDiff,
    traits: COMMUTES,
    aten: &[Aten {
        overloads: &["logical_or.default", "logical_or_.default"],
        import: Import::Map("a=self b=other"),
    }],
    samples: BINARY_SAMPLES,
    ..COMPARES
};

pub static TORCH_LT: Op = Op {
    name: "torch.lt",
    doc: "Is `a` below `b`?",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor<b>",
    level: Level::Composite(|b, call| order(b, call, "prims.lt")),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &[
            "lt.Tensor",
            "lt_.Tensor",
            "lt.Scalar",
            "lt_.Scalar",
            "less.Tensor",
            "less_.Tensor",
            "less.Scalar",
            "less_.Scalar",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: BINARY_SAMPLES,
    ..ORDERS
};

pub static TORCH_MAXIMUM: Op = Op {
    name: "torch.maximum",
    doc: "The larger of both, broadcast and promoted; NaN wins. Of bools: or.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| extremum(b, call, "prims.maximum", "prims.bitwise_or")),
    meta: Meta::Fn(extremum_meta),
    traits: COMMUTES,
    aten: &[Aten { overloads: &["maximum.default", "max.other"], import: Import::Map("a=self b=other") }],
    samples: BINARY_SAMPLES,
    ..OTHER
};

pub static TORCH_MINIMUM: Op = Op {
    name: "torch.minimum",
    doc: "The smaller of both, broadcast and promoted; NaN wins. Of bools: and.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| extremum(b, call, "prims.minimum", "prims.bitwise_and")),
    meta: Meta::Fn(extremum_meta),
    traits: COMMUTES,
    aten: &[Aten { overloads: &["minimum.default", "min.other"], import: Import::Map("a=self b=other") }],
    samples: BINARY_SAMPLES,
    ..OTHER
};

pub static TORCH_MUL: Op = Op {
    name: "torch.mul",
    doc: "Product, broadcast and promoted; of bools: and.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| binary(b, call, "prims.mul")),
    traits: COMMUTES,
    aten: &[Aten {
        overloads: &[
            "mul.Tensor",
            "mul_.Tensor",
            "mul.Scalar",
            "mul_.Scalar",
            "multiply.Tensor",
            "multiply_.Tensor",
            "multiply.Scalar",
            "multiply_.Scalar",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: BINARY_SAMPLES,
    ..BINARY
};

pub static TORCH_NE: Op = Op {
    name: "torch.ne",
    doc: "Do both differ?",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor<b>",
    level: Level::Composite(|b, call| binary(b, call, "prims.ne")),
    vjp: Vjp::NonDiff,
    traits: COMMUTES,
    aten: &[Aten {
        overloads: &[
            "ne.Tensor",
            "ne_.Tensor",
            "ne.Scalar",
            "ne_.Scalar",
            "not_equal.Tensor",
            "not_equal_.Tensor",
            "not_equal.Scalar",
            "not_equal_.Scalar",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: BINARY_SAMPLES,
    ..COMPARES
};

pub static TORCH_POW: Op = Op {
    name: "torch.pow",
    doc: "`a` to the power of `b`, broadcast and promoted; `x^2` is `x * x`. Integers to a negative power are an error.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(pow),
    meta: Meta::Fn(|call| {
        let operands = [call.operand("a")?, call.operand("b")?];
        pow_dtype(call, &operands)?;
        numeric_of(call, &operands)
    }),
    aten: &[
        Aten {
            overloads: &[
                "pow.Tensor_Scalar",
                "pow.Tensor_Tensor",
                "pow.Scalar",
                "pow_.Scalar",
                "pow_.Tensor",
            ],
            import: Import::Map("a=self b=exponent"),
        },
        Aten {
            overloads: &[
                "float_power.Tensor_Scalar",
                "float_power.Tensor_Tensor",
                "float_power.Scalar",
                "float_power_.Scalar",
            ],
            import: Import::With(float_power),
        },
    ],
    samples: &[
        Sample("T[2, 3]{pos}, T[3]{pos}"),
        Sample("T[4], 2"),
        Sample("T[4], 3"),
        Sample("T[4]{pos}, 0.5"),
        Sample("2, T[3]{pos}"),
        Sample("i64[4]{0..4}, i64[4]{0..4}"),
        Sample("T[0], 2"),
    ],
    ..BINARY_NUMERIC
};

pub static TORCH_PRELU: Op = Op {
    name: "torch.prelu",
    doc: "`x` above zero, `weight * x` below; a weight of one dim goes along axis 1, one with all dims is broadcast.",
    schema: "(a: Tensor<f>, weight: Tensor<f>) -> Tensor",
    level: Level::Composite(prelu),
    aten: &[Aten {
        overloads: &["prelu.default", "_prelu_kernel.default"],
        import: Import::Map("a=self weight"),
    }],
    samples: &[
        Sample("T[2, 3], T[3]"),
        Sample("T[2, 3, 4], T[1]"),
        Sample("T[4], T[1]"),
        Sample("T[2, 3, 4], T[1, 3, 1]"),
        Sample("T[0, 3], T[3]"),
    ],
    ..OTHER
};

pub static TORCH_REMAINDER: Op = Op {
    name: "torch.remainder",
    doc: "Remainder with the sign of the divisor, broadcast and promoted.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| binary(b, call, "prims.remainder")),
    aten: &[Aten {
        overloads: &[
            "remainder.Tensor",
            "remainder_.Tensor",
            "remainder.Scalar",
            "remainder_.Scalar",
            "remainder.Scalar_Tensor",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: DIVIDE_SAMPLES,
    ..BINARY_REAL
};

pub static TORCH_RSUB: Op = Op {
    name: "torch.rsub",
    doc: "`b - alpha * a`, broadcast and promoted.",
    schema: "(a: Tensor|num, b: Tensor|num, *, alpha: num = 1) -> Tensor",
    level: Level::Composite(|b, call| scaled_binary(b, call, "prims.sub", "b", "a")),
    aten: &[Aten { overloads: &["rsub.Tensor", "rsub.Scalar"], import: Import::Map("a=self b=other alpha") }],
    samples: &[
        Sample("T[2, 3], T[3]"),
        Sample("T[4], 2.5"),
        Sample("T[4], 1"),
        Sample("T[2], T[2], alpha=2"),
        Sample("T[0, 3], T[3]"),
    ],
    ..BINARY_NUMERIC
};

pub static TORCH_SUB: Op = Op {
    name: "torch.sub",
    doc: "`a - alpha * b`, broadcast and promoted.",
    schema: "(a: Tensor|num, b: Tensor|num, *, alpha: num = 1) -> Tensor",
    level: Level::Composite(|b, call| scaled_binary(b, call, "prims.sub", "a", "b")),
    aten: &[Aten {
        overloads: &[
            "sub.Tensor",
            "sub_.Tensor",
            "sub.Scalar",
            "sub_.Scalar",
            "subtract.Tensor",
            "subtract_.Tensor",
            "subtract.Scalar",
            "subtract_.Scalar",
        ],
        import: Import::Map("a=self b=other alpha"),
    }],
    samples: &[
        Sample("T[2, 3], T[3]"),
        Sample("T[2, 1], i64[3]{0..5}"),
        Sample("T[4], 2.5"),
        Sample("3, T[2, 2]"),
        Sample("T[2], T[2], alpha=2"),
        Sample("T[0, 3], T[3]"),
    ],
    ..BINARY_NUMERIC
};

pub static TORCH_TRUE_DIVIDE: Op = Op {
    name: "torch.true_divide",
    doc: "Quotient, broadcast and promoted; integers become floats.",
    schema: "(a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(true_divide),
    meta: Meta::Fn(|call| {
        let operands = [call.operand("a")?, call.operand("b")?];
        meta::broadcast_of(call, &operands, inexact(promoted(&operands)))
    }),
    aten: &[Aten {
        overloads: &[
            "true_divide.Tensor",
            "true_divide_.Tensor",
            "true_divide.Scalar",
            "true_divide_.Scalar",
        ],
        import: Import::Map("a=self b=other"),
    }],
    samples: DIVIDE_SAMPLES,
    ..OTHER
};

pub static TORCH_ADDCDIV: Op = Op {
    name: "torch.addcdiv",
    doc: "`a + value * b / c`, broadcast and promoted; floats only.",
    schema: "(a: Tensor, b: Tensor, c: Tensor, *, value: num = 1) -> Tensor",
    level: Level::Composite(|b, call| add_product(b, call, "prims.div")),
    aten: &[Aten {
        overloads: &["addcdiv.default", "addcdiv_.default"],
        import: Import::Map("a=self b=tensor1 c=tensor2 value"),
    }],
    samples: &[
        Sample("T[2, 3], T[3], T[2, 1]{nonzero}"),
        Sample("T[4], T[4], T[4]{nonzero}, value=0.5"),
        Sample("T[0], T[0], T[0]"),
    ],
    ..OTHER
};

pub static TORCH_ADDCMUL: Op = Op {
    name: "torch.addcmul",
    doc: "`a + value * b * c`, broadcast and promoted.",
    schema: "(a: Tensor, b: Tensor, c: Tensor, *, value: num = 1) -> Tensor",
    level: Level::Composite(|b, call| add_product(b, call, "prims.mul")),
    aten: &[Aten {
        overloads: &["addcmul.default", "addcmul_.default"],
        import: Import::Map("a=self b=tensor1 c=tensor2 value"),
    }],
    samples: &[
        Sample("T[2, 3], T[3], T[2, 1]"),
        Sample("T[4], T[4], T[4], value=2"),
        Sample("T[0], T[0], T[0]"),
    ],
    ..OTHER
};

pub static TORCH_CLAMP: Op = Op {
    name: "torch.clamp",
    doc: "`a` limited to [min, max], each a number, a tensor or absent; `max` counts where both contradict, NaN wins.",
    schema: "(a: Tensor, min: Tensor|num?, max: Tensor|num?) -> Tensor",
    level: Level::Composite(clamp),
    meta: Meta::Fn(|call| {
        let mut operands = vec![call.operand("a")?];
        operands.extend(clamp_limits(call)?.into_iter().flatten());
        real_of(call, &operands)
    }),
    vjp: Vjp::Rule(|b, d| {
        let [min, max] = clamp_limits(d.call)?;
        limits_rule(b, d, min, max)
    }),
    aten: &[Aten {
        overloads: &[
            "clamp.default",
            "clamp_.default",
            "clamp.Tensor",
            "clamp_.Tensor",
            "clip.default",
            "clip_.default",
            "clip.Tensor",
            "clip_.Tensor",
        ],
        import: Import::Map("a=self min max"),
    }],
    samples: &[
        Sample("T[2, 3], -0.5, 0.5"),
        Sample("T[4], none, 1"),
        Sample("T[4], 0"),
        Sample("T[2, 3], T[3], T[2, 1]"),
        Sample("T[5]{nonfinite}, -1, 1"),
        Sample("i64[4]{0..9}, 2.5, none"),
        Sample("T[0], 0, 1"),
    ],
    ..OTHER
};

pub static TORCH_LERP: Op = Op {
    name: "torch.lerp",
    doc: "`start + weight * (end - start)`, broadcast and promoted.",
    schema: "(start: Tensor, end: Tensor, weight: Tensor|num) -> Tensor",
    level: Level::Composite(|b, call| {
        let operands = [call.operand("start")?, call.operand("end")?, call.operand("weight")?];
        let dtype = promoted(&operands);
        Ok(vec![elementwise(b, call, "prims.lerp", &operands, dtype)?.arg()])
    }),
    aten: &[Aten {
        overloads: &["lerp.Scalar", "lerp_.Scalar", "lerp.Tensor", "lerp_.Tensor"],
        import: Import::Map("start=self end weight"),
    }],
    samples: &[
        Sample("T[2, 3], T[3], 0.25"),
        Sample("T[4], T[4], T[4]"),
        Sample("T[4], T[1], 0.75"),
        Sample("T[0], T[0], 1"),
    ],
    ..OTHER
};

pub static TORCH_MASKED_FILL: Op = Op {
    name: "torch.masked_fill",
    doc: "`value` (a number or a zero-dim tensor) where `mask`, else `a`; the dtype is that of `a`.",
    schema: "(a: Tensor, mask: Tensor<b>, value: num|Tensor) -> Tensor",
    level: Level::Composite(masked_fill),
    aten: &[Aten {
        overloads: &[
            "masked_fill.Scalar",
            "masked_fill_.Scalar",
            "masked_fill.Tensor",
            "masked_fill_.Tensor",
        ],
        import: Import::Map("a=self mask value"),
    }],
    samples: &[
        Sample("T[2, 3], bool[3], 0"),
        Sample("T[3], bool[2, 3], -inf"),
        Sample("T[4], bool[4], T[]"),
        Sample("T[0], bool[0], 1"),
    ],
    ..OTHER
};

pub static TORCH_WHERE: Op = Op {
    name: "torch.where",
    doc: "`a` where `pred` is not zero, else `b`; all three broadcast, `a` and `b` promoted.",
    schema: "(pred: Tensor, a: Tensor|num, b: Tensor|num) -> Tensor",
    level: Level::Composite(where_),
    meta: Meta::Fn(|call| {
        let (pred, a, b) = (call.operand("pred")?, call.operand("a")?, call.operand("b")?);
        let dtype = promoted(&[a.clone(), b.clone()]);
        meta::broadcast_of(call, &[pred, a, b], dtype)
    }),
    aten: &[Aten {
        overloads: &["where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar"],
        import: Import::Map("pred=condition a=self b=other"),
    }],
    samples: &[
        Sample("bool[2, 3], T[3], T[2, 1]"),
        Sample("bool[4], T[4], 0"),
        Sample("bool[4], 1, T[4]"),
        Sample("bool[2], 1, 2.5"),
        Sample("u8[3]{0..2}, T[3], T[3]"),
        Sample("bool[3], f32[3], f64[]"),
        Sample("bool[0], T[0], T[0]"),
    ],
    ..OTHER
};

pub(super) fn same_as_a(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    Ok(vec![Some(Type::Tensor(call.tensor("a")?.ty))])
}

pub(super) fn inexact_of_a(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    if a.dtype().is_inexact() {
        return Ok(vec![Some(Type::Tensor(a.ty))]);
    }
    meta::one(a.dims().to_vec(), inexact(a.dtype()), &a.ty)
}

pub(super) fn bool_of_a(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    meta::one(a.dims().to_vec(), Dtype::Bool, &a.ty)
}

pub(super) fn part_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    meta::one(a.dims().to_vec(), a.dtype().real(), &a.ty)
}

/// Strides and offset count elements of the real dtype, two to a complex number.
fn part_view(strides: &[Dim], offset: &Dim, part: i64) -> Option<(Vec<Dim>, Dim)> {
    let two = Dim::Known(2);
    Some((strides.iter().map(|s| s.mul(&two)).collect(), offset.mul(&two).add(&Dim::Known(part))))
}

pub(super) fn operands_a_b(call: &Call) -> Result<[Operand; 2], OpError> {
    Ok([call.operand("a")?, call.operand("b")?])
}

pub(super) fn promoted_of_a_b(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let operands = operands_a_b(call)?;
    meta::broadcast_of(call, &operands, promoted(&operands))
}

fn numeric_of_a_b(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    numeric_of(call, &operands_a_b(call)?)
}

fn numeric_of(call: &Call, operands: &[Operand]) -> Result<Vec<Option<Type>>, OpError> {
    let dtype = promoted(operands);
    numeric(call, dtype)?;
    meta::broadcast_of(call, operands, dtype)
}

pub(super) fn real_of_a_b(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    real_of(call, &operands_a_b(call)?)
}

fn real_of(call: &Call, operands: &[Operand]) -> Result<Vec<Option<Type>>, OpError> {
    let dtype = promoted(operands);
    real(call, dtype)?;
    meta::broadcast_of(call, operands, dtype)
}

pub(super) fn bits_of_a_b(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let operands = operands_a_b(call)?;
    let dtype = promoted(&operands);
    bits(call, dtype)?;
    meta::broadcast_of(call, &operands, dtype)
}

fn bool_of_a_b(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    meta::broadcast_of(call, &operands_a_b(call)?, Dtype::Bool)
}

fn order_of_a_b(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    ordered(call, promoted(&operands_a_b(call)?))?;
    bool_of_a_b(call)
}

pub(super) fn extremum_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    ordered(call, promoted(&operands_a_b(call)?))?;
    promoted_of_a_b(call)
}

fn numeric_a(call: &Call) -> Result<Tensor, OpError> {
    let a = call.tensor("a")?;
    numeric(call, a.dtype())?;
    Ok(a)
}

pub(super) fn real_a(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let a = call.tensor("a")?;
    real(call, a.dtype())?;
    Ok(vec![Some(Type::Tensor(a.ty))])
}

fn complex_a(call: &Call) -> Result<(), OpError> {
    let dtype = call.tensor("a")?.dtype();
    if dtype.is_complex() { Ok(()) } else { Err(call.error(format!("takes complex tensors, found {dtype}"))) }
}

pub(super) fn numeric(call: &Call, dtype: Dtype) -> Result<(), OpError> {
    if dtype != Dtype::Bool { Ok(()) } else { Err(call.error("takes numbers, found bool")) }
}

pub(super) fn real(call: &Call, dtype: Dtype) -> Result<(), OpError> {
    if dtype.is_integer() || dtype.is_float() {
        return Ok(());
    }
    Err(call.error(format!("takes integers and floats, found {dtype}")))
}

pub(super) fn ordered(call: &Call, dtype: Dtype) -> Result<(), OpError> {
    if dtype.is_complex() { Err(call.error(format!("{dtype} has no order"))) } else { Ok(()) }
}

fn bits(call: &Call, dtype: Dtype) -> Result<(), OpError> {
    if dtype.is_inexact() {
        return Err(call.error(format!("takes integers and bools, found {dtype}")));
    }
    Ok(())
}

fn where_meta(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let pred = call.tensor("pred")?;
    let (a, b) = (call.operand("a")?, call.operand("b")?);
    let mut dtype = None;
    for t in [a.tensor(), b.tensor()].into_iter().flatten() {
        if t.rank() != pred.rank() || t.dims().iter().zip(pred.dims()).any(|(x, y)| x.same(y) == Some(false))
        {
            let what = format!(
                "tensors of one shape are wanted, found {} and {}",
                meta::show(pred.dims()),
                meta::show(t.dims())
            );
            return Err(call.error(what));
        }
        match dtype.replace(t.dtype()) {
            Some(d) if d != t.dtype() => {
                return Err(
                    call.error(format!("tensors of one dtype are wanted, found {d} and {}", t.dtype()))
                );
            }
            _ => {}
        }
    }
    let dtype = dtype.ok_or_else(|| call.error("one of `a` and `b` at least must be a tensor"))?;
    for n in call.numbers_among_tensors() {
        if meta::number_dtype(&n).category() > dtype.category().max(Category::Integer) {
            return Err(call.error(format!("tensors are {dtype}, which does not hold {n:?}")));
        }
    }
    meta::one(pred.dims().to_vec(), dtype, &pred.ty)
}

/// A prim on `a` as it is.
pub(super) fn unary(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    Ok(vec![b.tensor(prim, vec![call.raw("a")?])?.arg()])
}

/// A prim on `a` in its inexact dtype.
pub(super) fn unary_inexact(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let a = to_dtype(b, &a, inexact(a.dtype()))?;
    Ok(vec![emit::unary(b, prim, &a)?.arg()])
}

/// What `f` makes of `a`, halves in f32.
pub(super) fn in_acc_of_a(
    b: &mut Builder<'_>,
    call: &Call,
    f: impl FnOnce(&mut Builder<'_>, &Tensor) -> Result<Tensor, OpError>,
) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    Ok(vec![in_acc(b, &a, f)?.arg()])
}

/// A prim on `a` and `b`, broadcast and promoted.
pub(super) fn binary(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    let operands = operands_a_b(call)?;
    let dtype = promoted(&operands);
    Ok(vec![elementwise(b, call, prim, &operands, dtype)?.arg()])
}

/// As [`binary`], for a comparison by order: bools compare as u8.
fn order(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    let operands = operands_a_b(call)?;
    let dtype = match promoted(&operands) {
        Dtype::Bool => Dtype::U8,
        d => d,
    };
    Ok(vec![elementwise(b, call, prim, &operands, dtype)?.arg()])
}

pub(super) fn extremum(
    b: &mut Builder<'_>,
    call: &Call,
    prim: &str,
    of_bools: &str,
) -> Result<Vec<Arg>, OpError> {
    let bools = promoted(&operands_a_b(call)?) == Dtype::Bool;
    binary(b, call, if bools { of_bools } else { prim })
}

fn limited(b: &mut Builder<'_>, call: &Call, prim: &str, limit: &str) -> Result<Vec<Arg>, OpError> {
    let operands = [call.operand("a")?, call.operand(limit)?];
    let dtype = promoted(&operands);
    Ok(vec![elementwise(b, call, prim, &operands, dtype)?.arg()])
}

fn is_one(n: &Num) -> bool {
    matches!(n, Num::Int(1)) || matches!(n, Num::Float(x) if *x == 1.0)
}

/// `x * n`; nothing where `n` is one.
pub(super) fn times(b: &mut Builder<'_>, x: &Tensor, n: &Num) -> Result<Tensor, OpError> {
    if is_one(n) { Ok(x.clone()) } else { emit::binary(b, "prims.mul", x, n.clone()) }
}

/// `prim(x, alpha * y)` with promotion of both; with a factor halves are computed in f32.
fn scaled_binary(
    b: &mut Builder<'_>,
    call: &Call,
    prim: &str,
    x: &str,
    y: &str,
) -> Result<Vec<Arg>, OpError> {
    let operands = [call.operand(x)?, call.operand(y)?];
    let dtype = promoted(&operands);
    let alpha = call.num("alpha")?;
    if is_one(&alpha) {
        return Ok(vec![elementwise(b, call, prim, &operands, dtype)?.arg()]);
    }
    if !dtype.is_inexact() && meta::number_dtype(&alpha).is_inexact() {
        return Err(
            call.error(format!("`alpha` must be an integer where the operands are {dtype}, found {alpha:?}"))
        );
    }
    let acc = dtype.acc();
    let [x, y] = operands;
    let y = elementwise(b, call, "prims.mul", &[y, Operand::Num(alpha)], acc)?;
    let out = elementwise(b, call, prim, &[x, y.into()], acc)?;
    Ok(vec![to_dtype(b, &out, dtype)?.arg()])
}

/// `1 / (1 + exp(-x))`.
pub(super) fn sigmoid(b: &mut Builder<'_>, x: &Tensor) -> Result<Tensor, OpError> {
    let minus = emit::unary(b, "prims.neg", x)?;
    let e = emit::unary(b, "prims.exp", &minus)?;
    let sum = emit::binary(b, "prims.add", &e, 1.0)?;
    emit::unary(b, "prims.reciprocal", &sum)
}

fn relu6_of_x_plus_3(b: &mut Builder<'_>, x: &Tensor) -> Result<Tensor, OpError> {
    let shifted = emit::binary(b, "prims.add", x, 3.0)?;
    b.tensor("torch.clamp", vec![shifted.arg(), Arg::Float(0.0), Arg::Float(6.0)])
}

fn gelu_is_tanh(call: &Call) -> Result<bool, OpError> {
    match call.str("approximate")? {
        "none" => Ok(false),
        "tanh" => Ok(true),
        other => Err(call.error(format!("`approximate` must be \"none\" or \"tanh\", found {other:?}"))),
    }
}

fn gelu(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let tanh = gelu_is_tanh(call)?;
    in_acc_of_a(b, call, |b, x| {
        let s = if tanh {
            let square = emit::binary(b, "prims.mul", x, x)?;
            let cube = emit::binary(b, "prims.mul", &square, x)?;
            let cube = emit::binary(b, "prims.mul", &cube, 0.044715)?;
            let inner = emit::binary(b, "prims.add", x, cube)?;
            let inner = emit::binary(b, "prims.mul", &inner, (2.0 / std::f64::consts::PI).sqrt())?;
            emit::unary(b, "prims.tanh", &inner)?
        } else {
            let inner = emit::binary(b, "prims.mul", x, std::f64::consts::FRAC_1_SQRT_2)?;
            emit::unary(b, "prims.erf", &inner)?
        };
        let gate = emit::binary(b, "prims.add", &s, 1.0)?;
        let half = emit::binary(b, "prims.mul", x, 0.5)?;
        emit::binary(b, "prims.mul", &half, gate)
    })
}

/// `x * x` of bools is an integer, as `x ** 2`.
fn squared_dtype(d: Dtype) -> Dtype {
    if d == Dtype::Bool { Dtype::I64 } else { d }
}

fn left_shift(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let operands = operands_a_b(call)?;
    let dtype = promoted(&operands);
    if !dtype.is_inexact() {
        return binary(b, call, "prims.bitwise_left_shift");
    }
    let [a, by] = operands;
    let factor = elementwise(b, call, "prims.pow", &[Operand::from(2.0), by], dtype)?;
    Ok(vec![elementwise(b, call, "prims.mul", &[a, factor.into()], dtype)?.arg()])
}

enum Rounding {
    None,
    Trunc,
    Floor,
}

fn rounding(call: &Call) -> Result<Rounding, OpError> {
    match call.str("mode")? {
        "none" => Ok(Rounding::None),
        "trunc" => Ok(Rounding::Trunc),
        "floor" => Ok(Rounding::Floor),
        other => Err(call.error(format!("`mode` must be \"none\", \"trunc\" or \"floor\", found {other:?}"))),
    }
}

fn div(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let operands = operands_a_b(call)?;
    let dtype = promoted(&operands);
    let out = match rounding(call)? {
        Rounding::None => return true_divide(b, call),
        Rounding::Floor => floor_divide(b, call, &operands, dtype)?,
        Rounding::Trunc => {
            let quotient = elementwise(b, call, "prims.div", &operands, dtype.acc())?;
            let whole = if dtype.is_integer() { quotient } else { emit::unary(b, "prims.trunc", &quotient)? };
            to_dtype(b, &whole, dtype)?
        }
    };
    Ok(vec![out.arg()])
}

fn true_divide(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let operands = operands_a_b(call)?;
    let dtype = inexact(promoted(&operands));
    Ok(vec![elementwise(b, call, "prims.div", &operands, dtype)?.arg()])
}

/// Division to minus infinity as Python has it: from the exact remainder, since `floor(a / b)` is off by one where the
/// quotient rounds up to an integer (`1 // 0.1` is 9).
fn floor_divide(
    b: &mut Builder<'_>,
    call: &Call,
    operands: &[Operand; 2],
    dtype: Dtype,
) -> Result<Tensor, OpError> {
    let acc = dtype.acc();
    let ready = aligned(b, call, operands, acc)?;
    let [Operand::Tensor(x), y] = ready.as_slice() else {
        return Err(call.error("needs a tensor"));
    };
    let rest = emit::binary(b, "prims.fmod", x, y.clone())?;
    let below = signs_differ(b, &rest, y)?;
    if dtype.is_integer() {
        let quotient = emit::binary(b, "prims.div", x, y.clone())?;
        let below = to_dtype(b, &below, dtype)?;
        return emit::binary(b, "prims.sub", &quotient, below);
    }
    let whole = emit::binary(b, "prims.sub", x, rest)?;
    let quotient = emit::binary(b, "prims.div", &whole, y.clone())?;
    let lowered = emit::binary(b, "prims.sub", &quotient, 1.0)?;
    let quotient = select(b, &below, lowered, &quotient)?;
    // The division left it within rounding of an integer: take the nearest.
    let floor = emit::unary(b, "prims.floor", &quotient)?;
    let fraction = emit::binary(b, "prims.sub", &quotient, &floor)?;
    let up = emit::binary(b, "prims.gt", &fraction, 0.5)?;
    let next = emit::binary(b, "prims.add", &floor, 1.0)?;
    let mut out = select(b, &up, next, floor)?;
    let may_be_zero = !matches!(y, Operand::Num(Num::Int(n)) if *n != 0)
        && !matches!(y, Operand::Num(Num::Float(v)) if *v != 0.0);
    if may_be_zero {
        let plain = emit::binary(b, "prims.div", x, y.clone())?;
        let y = match y {
            Operand::Tensor(y) => y.clone(),
            Operand::Num(n) => filled(b, number_for(n, acc), x.dims(), acc, &x.ty.device)?,
        };
        let zero = emit::binary(b, "prims.eq", &y, 0.0)?;
        out = select(b, &zero, plain, out)?;
    }
    to_dtype(b, &out, dtype)
}

/// Is the remainder not zero, and of another sign than the divisor?
fn signs_differ(b: &mut Builder<'_>, rest: &Tensor, divisor: &Operand) -> Result<Tensor, OpError> {
    if matches!(rest.dtype(), Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64) {
        // Nothing is negative: always false.
        return emit::binary(b, "prims.ne", rest, rest);
    }
    let positive = match divisor {
        Operand::Num(Num::Int(n)) => Some(*n > 0),
        Operand::Num(Num::Float(x)) => Some(*x > 0.0),
        _ => None,
    };
    if let Some(positive) = positive {
        return emit::binary(b, if positive { "prims.lt" } else { "prims.gt" }, rest, 0);
    }
    let divisor = match divisor {
        Operand::Tensor(t) => t.clone(),
        Operand::Num(n) => {
            filled(b, number_for(n, rest.dtype()), rest.dims(), rest.dtype(), &rest.ty.device)?
        }
    };
    let nonzero = emit::binary(b, "prims.ne", rest, 0)?;
    let (minus, down) = (emit::binary(b, "prims.lt", rest, 0)?, emit::binary(b, "prims.lt", &divisor, 0)?);
    let differ = emit::binary(b, "prims.ne", &minus, down)?;
    emit::binary(b, "prims.bitwise_and", &nonzero, differ)
}

/// A prim of bools on whether `a` and `b` are not zero.
pub(super) fn logical(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    let mut bools = Vec::with_capacity(2);
    for o in operands_a_b(call)? {
        bools.push(match o {
            Operand::Tensor(t) => Operand::Tensor(truth(b, &t)?),
            Operand::Num(Num::Int(n)) => Operand::Num(Num::Bool(n != 0)),
            Operand::Num(Num::Float(x)) => Operand::Num(Num::Bool(x != 0.0)),
            Operand::Num(n @ Num::Bool(_)) => Operand::Num(n),
            Operand::Num(n) => {
                let dtype = meta::number_dtype(&n);
                let t = filled(b, n.to_arg(), &[], dtype, &crate::ir::Device::Cpu)?;
                Operand::Tensor(truth(b, &t)?)
            }
        });
    }
    Ok(vec![elementwise(b, call, prim, &bools, Dtype::Bool)?.arg()])
}

/// Is it not zero?
pub(super) fn truth(b: &mut Builder<'_>, t: &Tensor) -> Result<Tensor, OpError> {
    if t.dtype() == Dtype::Bool { Ok(t.clone()) } else { emit::binary(b, "prims.ne", t, 0) }
}

/// The dtype of a power; an error for integers to a negative one.
fn pow_dtype(call: &Call, operands: &[Operand; 2]) -> Result<Dtype, OpError> {
    let dtype = promoted(operands);
    if let (true, Operand::Num(Num::Int(n))) = (dtype.is_integer(), &operands[1])
        && *n < 0
    {
        return Err(call.error(format!("integers to a negative power: the exponent is {n}, `a` is {dtype}")));
    }
    Ok(dtype)
}

fn pow(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let operands = operands_a_b(call)?;
    let dtype = pow_dtype(call, &operands)?;
    let square = matches!(&operands[1], Operand::Num(n) if matches!(number_for(n, Dtype::F64), Arg::Float(x) if x == 2.0));
    let out = match &operands[0] {
        Operand::Tensor(a) if square => {
            let a = to_dtype(b, a, dtype)?;
            emit::binary(b, "prims.mul", &a, &a)?
        }
        _ => elementwise(b, call, "prims.pow", &operands, dtype)?,
    };
    Ok(vec![out.arg()])
}

/// `float_power` computes in f64 (c128) whatever comes.
fn float_power(b: &mut Builder<'_>, call: &AtenCall) -> Result<Vec<Arg>, OpError> {
    let mut args = Vec::with_capacity(2);
    for name in ["self", "exponent"] {
        args.push(match call.arg(name)? {
            Arg::Value(v) if b.trace().ty(*v).tensor().is_some() => {
                let t = b.as_tensor(*v)?;
                let dtype = if t.dtype().is_complex() { Dtype::C128 } else { Dtype::F64 };
                b.tensor("torch.to", vec![t.arg(), dtype.into()])?.arg()
            }
            other => other.clone(),
        });
    }
    b.call_recorded(&TORCH_POW, args, &call.results)
}

fn prelu(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, mut weight) = (call.tensor("a")?, call.tensor("weight")?);
    if weight.dtype() != a.dtype() {
        return Err(call.error(format!("`a` is {}, `weight` {}", a.dtype(), weight.dtype())));
    }
    let along_channels = weight.rank() == 1 && a.rank() > 2 || weight.rank() == 1 && a.rank() == 2;
    if along_channels && !weight.dims()[0].is(1) {
        if weight.dims()[0].same(&a.dims()[1]) == Some(false) {
            return Err(call.error(format!(
                "`weight` has {} elements, `a` {} channels",
                weight.dims()[0],
                a.dims()[1]
            )));
        }
        weight =
            b.tensor("prims.broadcast_in_dim", vec![weight.arg(), Arg::dims(a.dims()), Arg::ints([1])])?;
    }
    let dims = meta::broadcast_dims(call, [a.dims(), weight.dims()])?;
    let weight = emit::broadcast_to(b, &weight, &dims)?;
    let x = emit::broadcast_to(b, &a, &dims)?;
    let below = emit::binary(b, "prims.mul", &x, weight)?;
    let positive = emit::binary(b, "prims.gt", &x, 0.0)?;
    Ok(vec![select(b, &positive, x, below)?.arg()])
}

/// `a + value * prim(b, c)`; halves are computed in f32.
fn add_product(b: &mut Builder<'_>, call: &Call, prim: &str) -> Result<Vec<Arg>, OpError> {
    let operands = [call.operand("a")?, call.operand("b")?, call.operand("c")?];
    let dtype = promoted(&operands);
    numeric(call, dtype)?;
    if prim == "prims.div" && !dtype.is_inexact() {
        return Err(call.error(format!("takes floats, found {dtype}")));
    }
    let value = call.num("value")?;
    if !dtype.is_inexact() && meta::number_dtype(&value).is_inexact() {
        return Err(
            call.error(format!("`value` must be an integer where the operands are {dtype}, found {value:?}"))
        );
    }
    let [a, x, y] = operands;
    let acc = dtype.acc();
    let product = elementwise(b, call, prim, &[x, y], acc)?;
    let product = times(b, &product, &value)?;
    let out = elementwise(b, call, "prims.add", &[a, product.into()], acc)?;
    Ok(vec![to_dtype(b, &out, dtype)?.arg()])
}

/// The limits of a clamp; at least one.
fn clamp_limits(call: &Call) -> Result<[Option<Operand>; 2], OpError> {
    let limits = [call.opt_operand("min")?, call.opt_operand("max")?];
    if limits.iter().all(Option::is_none) {
        return Err(call.error("one of `min` and `max` at least must be given"));
    }
    Ok(limits)
}

fn clamp(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let a = call.tensor("a")?;
    let [min, max] = clamp_limits(call)?;
    let mut operands = vec![Operand::from(&a)];
    operands.extend(min.iter().chain(&max).cloned());
    let dtype = promoted(&operands);
    let mut out = Operand::from(a);
    for (prim, limit) in [("prims.maximum", min), ("prims.minimum", max)] {
        if let Some(limit) = limit {
            out = elementwise(b, call, prim, &[out, limit], dtype)?.into();
        }
    }
    Ok(vec![out.to_arg()])
}

fn masked_fill(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, mask) = (call.tensor("a")?, call.tensor("mask")?);
    let dims = meta::broadcast_dims(call, [a.dims(), mask.dims()])?;
    let value = match call.operand("value")? {
        Operand::Tensor(v) if v.rank() > 0 => {
            return Err(call.error(format!("`value` must have no dims, found {}", meta::show(v.dims()))));
        }
        Operand::Tensor(v) => {
            let v = to_dtype(b, &v, a.dtype())?;
            Operand::Tensor(emit::broadcast_to(b, &v, &dims)?)
        }
        number => number,
    };
    let mask = emit::broadcast_to(b, &mask, &dims)?;
    let a = emit::broadcast_to(b, &a, &dims)?;
    Ok(vec![select(b, &mask, value, a)?.arg()])
}

fn where_(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let pred = call.tensor("pred")?;
    let branches = [call.operand("a")?, call.operand("b")?];
    let dtype = promoted(&branches);
    let tensors = || branches.iter().filter_map(Operand::tensor);
    let dims = meta::broadcast_dims(call, std::iter::once(pred.dims()).chain(tensors().map(Tensor::dims)))?;
    let pred = truth(b, &pred)?;
    let pred = emit::broadcast_to(b, &pred, &dims)?;
    let no_tensor = tensors().next().is_none();
    let mut args = vec![pred.arg()];
    for (i, branch) in branches.iter().enumerate() {
        args.push(match branch {
            Operand::Tensor(t) => {
                let t = to_dtype(b, t, dtype)?;
                emit::broadcast_to(b, &t, &dims)?.arg()
            }
            Operand::Num(n) if i == 0 && no_tensor => {
                filled(b, number_for(n, dtype), &dims, dtype, &pred.ty.device)?.arg()
            }
            Operand::Num(n) => number_for(n, dtype),
        });
    }
    Ok(vec![b.tensor("prims.where", args)?.arg()])
}

/// The rule of an op of one tensor `a` with result `y`: its gradient from `a`, `y` and the cotangent.
pub(super) fn unary_rule(
    b: &mut Builder<'_>,
    d: &Grad<'_>,
    rule: impl Fn(&mut Builder<'_>, &Tensor, &Tensor, &Tensor) -> Result<Tensor, OpError>,
) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, y, g) = (d.call.tensor("a")?, d.output(0)?, d.g()?);
    Ok(vec![Some(rule(b, &a, &y, &g)?)])
}

/// The rule of a composite of one tensor `a` whose slope is a function of `a`; halves are computed in f32.
fn slope_rule(
    b: &mut Builder<'_>,
    d: &Grad<'_>,
    slope: impl FnOnce(&mut Builder<'_>, &Tensor) -> Result<Tensor, OpError>,
) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, g) = (d.call.tensor("a")?, d.g()?);
    let acc = a.dtype().acc();
    let (x, g) = (b.to(&a, acc)?, b.to(&g, acc)?);
    let slope = slope(b, &x)?;
    let of_a = b.mul(&g, &slope)?;
    Ok(vec![Some(b.to(&of_a, a.dtype())?)])
}

/// d (x Phi(x)) = Phi(x) + x phi(x).
fn gelu_slope(b: &mut Builder<'_>, x: &Tensor) -> Result<Tensor, OpError> {
    let inner = b.mul(x, std::f64::consts::FRAC_1_SQRT_2)?;
    let erf = b.unary("prims.erf", &inner)?;
    let twice = b.add(&erf, 1.0)?;
    let distribution = b.mul(&twice, 0.5)?;
    let square = b.mul(x, x)?;
    let exponent = b.mul(&square, -0.5)?;
    let bell = b.exp(&exponent)?;
    // 1 / sqrt(2 pi).
    let density = b.mul(&bell, 0.5 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2)?;
    let moved = b.mul(x, &density)?;
    b.add(&distribution, &moved)
}

/// The slope of gelu's approximation `x/2 * (1 + t)`, t = tanh(inner): `(1 + t) / 2 + x/2 * (1 - t^2) * d inner`.
fn gelu_tanh_slope(b: &mut Builder<'_>, x: &Tensor) -> Result<Tensor, OpError> {
    let scale = (2.0 / std::f64::consts::PI).sqrt();
    let square = b.mul(x, x)?;
    let cube = b.mul(&square, x)?;
    let cube = b.mul(&cube, 0.044715)?;
    let inner = b.add(x, &cube)?;
    let inner = b.mul(&inner, scale)?;
    let t = b.unary("prims.tanh", &inner)?;
    let gate = b.add(&t, 1.0)?;
    let gate = b.mul(&gate, 0.5)?;
    let t_square = b.mul(&t, &t)?;
    let rest = b.one_minus(&t_square)?;
    let of_inner = b.mul(&square, 3.0 * 0.044715 * scale)?;
    let of_inner = b.add(&of_inner, scale)?;
    let half = b.mul(x, 0.5)?;
    let moved = b.mul(&half, &rest)?;
    let moved = b.mul(&moved, &of_inner)?;
    b.add(&gate, &moved)
}

/// Limits: the gradient passes to `a` inside and at them; outside it goes to a limit that is a tensor, to the upper one
/// where they cross. NaN passes none.
fn limits_rule(
    b: &mut Builder<'_>,
    d: &Grad<'_>,
    min: Option<Operand>,
    max: Option<Operand>,
) -> Result<Vec<Option<Tensor>>, OpError> {
    let (a, g) = (d.call.tensor("a")?, d.g()?);
    let wide = |b: &mut Builder<'_>, o: &Operand| -> Result<Operand, OpError> {
        Ok(match o {
            Operand::Tensor(t) => {
                let t = b.to(t, g.dtype())?;
                Operand::Tensor(b.expand(&t, g.dims())?)
            }
            number => number.clone(),
        })
    };
    let x = b.to(&a, g.dtype())?;
    let x = b.expand(&x, g.dims())?;
    let low = min.as_ref().map(|o| wide(b, o)).transpose()?;
    let high = max.as_ref().map(|o| wide(b, o)).transpose()?;
    let above = low.as_ref().map(|low| b.ge(&x, low.clone())).transpose()?;
    let below = high.as_ref().map(|high| b.binary("prims.le", &x, high.clone())).transpose()?;
    let inside = match (above, below) {
        (Some(above), Some(below)) => b.and(&above, &below)?,
        (one, other) => {
            one.or(other).ok_or_else(|| d.call.error("one of `min` and `max` at least must be given"))?
        }
    };
    let mut all = Vec::new();
    let mut masks = vec![(a, Some(inside))];
    if let (Some(Operand::Tensor(given)), Some(low)) = (&min, &low) {
        let mut mask = b.binary("prims.lt", &x, low.clone())?;
        if let Some(high) = &high {
            let low = low.tensor().cloned().ok_or_else(|| d.call.error("`min` is a tensor"))?;
            let apart = b.lt(&low, high.clone())?;
            mask = b.and(&mask, &apart)?;
        }
        masks.push((given.clone(), Some(mask)));
    }
    if let (Some(Operand::Tensor(given)), Some(Operand::Tensor(high))) = (&max, &high) {
        let mut mask = b.gt(&x, high)?;
        if let Some(low) = &low {
            let crossed = b.lt(high, low.clone())?;
            mask = b.binary("prims.bitwise_or", &mask, &crossed)?;
        }
        masks.push((given.clone(), Some(mask)));
    }
    for (at, (of, mask)) in masks.into_iter().enumerate() {
        let Some(mask) = mask.filter(|_| d.wants(at)) else {
            all.push(None);
            continue;
        };
        let part = b.select(&mask, &g, 0.0)?;
        let part = b.unexpand(&part, of.dims())?;
        all.push(Some(b.to(&part, of.dtype())?));
    }
    Ok(all)
}

/// Gradients of one operand from both, the result and the cotangent.
pub(super) type OperandRule =
    fn(&mut Builder<'_>, &Tensor, &Operand, &Tensor, &Tensor) -> Result<Tensor, OpError>;

/// The rule of an op of a tensor `a` and a tensor or number `b`. Gradients that nobody wants are not emitted.
pub(super) fn binary_rule(
    b: &mut Builder<'_>,
    d: &Grad<'_>,
    of_a: OperandRule,
    of_b: OperandRule,
) -> Result<Vec<Option<Tensor>>, OpError> {
    let (x, y, out, g) = (d.call.tensor("a")?, d.call.operand("b")?, d.output(0)?, d.g()?);
    let mut all = vec![if d.wants(0) { Some(of_a(b, &x, &y, &out, &g)?) } else { None }];
    if y.tensor().is_some() {
        all.push(if d.wants(1) { Some(of_b(b, &x, &y, &out, &g)?) } else { None });
    }
    Ok(all)
}

/// `g * conj(slope)`: PyTorch's convention for complex numbers; real ones are their own conjugates.
pub(super) fn chain(b: &mut Builder<'_>, g: &Tensor, slope: &Tensor) -> Result<Tensor, OpError> {
    let slope = if slope.dtype().is_complex() { b.unary("prims.conj", slope)? } else { slope.clone() };
    b.mul(g, &slope)
}

pub(super) fn chain_operand(b: &mut Builder<'_>, g: &Tensor, slope: &Operand) -> Result<Tensor, OpError> {
    let slope = conjugated(b, slope)?;
    b.mul(g, slope)
}

fn conjugated(b: &mut Builder<'_>, x: &Operand) -> Result<Operand, OpError> {
    Ok(match x {
        Operand::Tensor(t) if t.dtype().is_complex() => b.unary("prims.conj", t)?.into(),
        Operand::Num(Num::Complex(re, im)) => Operand::Num(Num::Complex(*re, -im)),
        other => other.clone(),
    })
}

/// d|x| = sign(x), of a complex number x / |x|; 0 at 0.
fn absolute(b: &mut Builder<'_>, a: &Tensor, y: &Tensor, g: &Tensor) -> Result<Tensor, OpError> {
    let (size, g) = (b.to(y, a.dtype())?, b.to(g, a.dtype())?);
    let direction = b.div(a, &size)?;
    let slope = b.mul(&g, &direction)?;
    let at_zero = b.eq(y, 0.0)?;
    b.select(&at_zero, 0.0, &slope)
}

/// The operand that wins has the gradient, equal ones half of it each; as PyTorch, NaN passes it on.
fn extreme(b: &mut Builder<'_>, d: &Grad<'_>, loses: &str) -> Result<Vec<Option<Tensor>>, OpError> {
    let (x, y, g) = (d.call.tensor("a")?, d.call.operand("b")?, d.g()?);
    let equal = b.eq(&x, y.clone())?;
    let half = b.mul(&g, 0.5)?;
    let shared = b.select(&equal, &half, &g)?;
    let x_loses = b.binary(loses, &x, y.clone())?;
    let mut all = vec![Some(b.select(&x_loses, 0.0, &shared)?)];
    if let Some(y) = y.tensor() {
        let y_loses = b.binary(loses, y, &x)?;
        all.push(Some(b.select(&y_loses, 0.0, &shared)?));
    }
    Ok(all)
}

/// d x^y = y x^(y-1) in x, 0 where y is 0; x^y log x in y, 0 where x is 0 and y is not negative.
fn power_rule(b: &mut Builder<'_>, d: &Grad<'_>) -> Result<Vec<Option<Tensor>>, OpError> {
    let (x, y, out, g) = (d.call.tensor("a")?, d.call.operand("b")?, d.output(0)?, d.g()?);
    let of_x = match &y {
        Operand::Num(n) if known_float(n) == Some(0.0) => b.mul(&g, 0.0)?,
        Operand::Num(n) if known_float(n) == Some(2.0) => {
            let slope = b.mul(&x, 2.0)?;
            chain(b, &g, &slope)?
        }
        Operand::Num(n) if known_float(n).is_some() => {
            let e = known_float(n).unwrap_or(1.0);
            let lower = b.binary("prims.pow", &x, e - 1.0)?;
            let slope = b.mul(&lower, e)?;
            chain(b, &g, &slope)?
        }
        y => {
            let y = match y {
                Operand::Tensor(t) => t.clone(),
                Operand::Num(n) => b.full(x.dims(), n.clone(), x.dtype(), &x.ty.device)?,
            };
            let less = b.sub(&y, 1.0)?;
            let lower = b.binary("prims.pow", &x, &less)?;
            let slope = b.mul(&lower, &y)?;
            let flat = b.eq(&y, 0.0)?;
            let slope = b.select(&flat, 0.0, &slope)?;
            chain(b, &g, &slope)?
        }
    };
    let mut all = vec![Some(of_x)];
    if let Some(y) = y.tensor() {
        let log = b.log(&x)?;
        let slope = b.mul(&out, &log)?;
        let zero_base = b.eq(&x, 0.0)?;
        let slope = if y.dtype().is_complex() {
            b.select(&zero_base, 0.0, &slope)?
        } else {
            let grows = b.ge(y, 0.0)?;
            let both = b.binary("prims.bitwise_and", &zero_base, &grows)?;
            b.select(&both, 0.0, &slope)?
        };
        all.push(Some(chain(b, &g, &slope)?));
    }
    Ok(all)
}

fn known_float(n: &Num) -> Option<f64> {
    match n {
        Num::Int(n) => Some(*n as f64),
        Num::Float(x) => Some(*x),
        _ => None,
    }
}

/// d (x - y round(x / y)): 1 in x, minus the rounded quotient in y.
fn modulus(b: &mut Builder<'_>, d: &Grad<'_>, round: &str) -> Result<Vec<Option<Tensor>>, OpError> {
    let (x, y, g) = (d.call.tensor("a")?, d.call.operand("b")?, d.g()?);
    let mut all = vec![Some(g.clone())];
    if let Some(y) = y.tensor() {
        let quotient = b.div(&x, y)?;
        let whole = b.unary(round, &quotient)?;
        let part = b.mul(&g, &whole)?;
        all.push(Some(b.neg(&part)?));
    }
    Ok(all)
}
