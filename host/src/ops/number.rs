//! Arithmetic of numbers that are known only with the sizes or at run time, and the sizes of tensors as numbers.
//!
//! The host computes these itself. A result that a dim expression can say carries it (`int(s1 // 2)`), so what depends
//! on sizes alone is known when they are. Python's rules: `//` and `mod` round to minus infinity, `/` gives a float.

use super::aten::{Aten, Import};
use super::build::Num;
use super::{Call, HostOp, Level, Meta, Op, OpError, Sample, Traits, Vjp};
use crate::ir::dim::{floor_div, floor_mod};
use crate::ir::{Arg, Dim, NumKind, NumberType, Type};
use std::cmp::Ordering;

/// Every op of this family.
pub static OPS: &[&Op] = &[
    &NUM_ADD,
    &NUM_AND,
    &NUM_CEIL,
    &NUM_EQ,
    &NUM_FLOAT,
    &NUM_FLOOR,
    &NUM_FLOORDIV,
    &NUM_GE,
    &NUM_GT,
    &NUM_INT,
    &NUM_ITE,
    &NUM_LE,
    &NUM_LSHIFT,
    &NUM_LT,
    &NUM_MAX,
    &NUM_MIN,
    &NUM_MOD,
    &NUM_MUL,
    &NUM_NE,
    &NUM_NEG,
    &NUM_NOT,
    &NUM_OR,
    &NUM_POW,
    &NUM_RSHIFT,
    &NUM_SQRT,
    &NUM_SUB,
    &NUM_TRUEDIV,
    &SHAPE,
    &TORCH_SYM_SIZE,
    &TORCH_IS_NONZERO,
    &TORCH_SYM_NUMEL,
    &TORCH_SYM_STRIDE,
    &TORCH_SYM_STORAGE_OFFSET,
    &TORCH_SYM_IS_CONTIGUOUS,
];

const PRIM: Op = Op { traits: Traits::HOST.and(Traits::CHEAP), ..Op::BASE };

const TWO: &[Sample] = &[Sample("7, 2"), Sample("-7, 2"), Sample("1.5, 2")];
const INTS: &[Sample] = &[Sample("7, 2"), Sample("-7, 2")];
const BOOLS: &[Sample] = &[Sample("true, false"), Sample("true, true")];
const ONE: &[Sample] = &[Sample("3"), Sample("2.5")];

pub static NUM_ADD: Op = Op {
    name: "num.add",
    doc: "Sum.",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| arithmetic(call, |x, y| Some(x.add(y)))),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| evaluate(n, |a, b| a.checked_add(b), |a, b| a + b))),
    samples: TWO,
    ..PRIM
};

pub static NUM_AND: Op = Op {
    name: "num.and",
    doc: "And: of bools, or bit by bit.",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| bitwise(call, |x, y| x & y)),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| bits(n, |a, b| Some(a & b)))),
    samples: BOOLS,
    ..PRIM
};

pub static NUM_CEIL: Op = Op {
    name: "num.ceil",
    doc: "The smallest integer not below it.",
    schema: "(a: num) -> num",
    meta: Meta::Fn(rounded),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| to_int(n, f64::ceil))),
    samples: ONE,
    ..PRIM
};

pub static NUM_EQ: Op = Op {
    name: "num.eq",
    doc: "Are both equal?",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| compared(call, |x, y| x.same(y))),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| ordered(n, |o| o == Some(Ordering::Equal)))),
    samples: TWO,
    ..PRIM
};

pub static NUM_FLOAT: Op = Op {
    name: "num.float",
    doc: "As a float.",
    schema: "(a: num) -> num",
    meta: Meta::Fn(|call| {
        number(call, "a")?;
        one(NumKind::Float, None)
    }),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| Ok(Num::Float(float_of(first(n)?)?)))),
    samples: ONE,
    ..PRIM
};

pub static NUM_FLOOR: Op = Op {
    name: "num.floor",
    doc: "The largest integer not above it.",
    schema: "(a: num) -> num",
    meta: Meta::Fn(rounded),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| to_int(n, f64::floor))),
    samples: ONE,
    ..PRIM
};

pub static NUM_FLOORDIV: Op = Op {
    name: "num.floordiv",
    doc: "Quotient rounded to minus infinity.",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| {
        divisor(call)?;
        arithmetic(call, Dim::floordiv)
    }),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| {
        evaluate(n, |a, b| (b != 0).then(|| floor_div(a, b)), |a, b| (a / b).floor())
    })),
    samples: TWO,
    ..PRIM
};

pub static NUM_GE: Op = Op {
    name: "num.ge",
    doc: "Is `a` at least `b`?",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| compared(call, |x, y| sign(x, y).map(|d| d >= 0))),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| ordered(n, |o| matches!(o, Some(Ordering::Greater | Ordering::Equal))))),
    samples: TWO,
    ..PRIM
};

pub static NUM_GT: Op = Op {
    name: "num.gt",
    doc: "Is `a` above `b`?",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| compared(call, |x, y| sign(x, y).map(|d| d > 0))),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| ordered(n, |o| o == Some(Ordering::Greater)))),
    samples: TWO,
    ..PRIM
};

pub static NUM_INT: Op = Op {
    name: "num.int",
    doc: "As an integer, rounded towards zero.",
    schema: "(a: num) -> num",
    meta: Meta::Fn(rounded),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| to_int(n, f64::trunc))),
    samples: ONE,
    ..PRIM
};

pub static NUM_ITE: Op = Op {
    name: "num.ite",
    doc: "`a` where `c`, else `b`.",
    schema: "(c: num, a: num, b: num) -> num",
    meta: Meta::Fn(|call| {
        let (a, b) = (number(call, "a")?, number(call, "b")?);
        let kind = common(a.0, b.0);
        let equals = match number(call, "c")?.1 {
            Some(Dim::Known(c)) => {
                if c != 0 {
                    a.1
                } else {
                    b.1
                }
            }
            _ => a.1.filter(|x| b.1.as_ref() == Some(x)),
        };
        one(kind, equals)
    }),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| match n {
        [c, a, b] => Ok(if truth(c)? { a.clone() } else { b.clone() }),
        _ => Err(wrong("takes three numbers")),
    })),
    samples: &[Sample("true, 1, 2"), Sample("false, 1.5, 2")],
    ..PRIM
};

pub static NUM_LE: Op = Op {
    name: "num.le",
    doc: "Is `a` at most `b`?",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| compared(call, |x, y| sign(x, y).map(|d| d <= 0))),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| ordered(n, |o| matches!(o, Some(Ordering::Less | Ordering::Equal))))),
    samples: TWO,
    ..PRIM
};

pub static NUM_LSHIFT: Op = Op {
    name: "num.lshift",
    doc: "Bits moved up.",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| {
        let shift = shift(call)?;
        bitwise(call, move |x, _| x.checked_shl(shift).unwrap_or(0))
    }),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| bits(n, |a, b| a.checked_shl(u32::try_from(b).ok()?)))),
    samples: INTS,
    ..PRIM
};

pub static NUM_LT: Op = Op {
    name: "num.lt",
    doc: "Is `a` below `b`?",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| compared(call, |x, y| sign(x, y).map(|d| d < 0))),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| ordered(n, |o| o == Some(Ordering::Less)))),
    samples: TWO,
    ..PRIM
};

pub static NUM_MAX: Op = Op {
    name: "num.max",
    doc: "The larger of both.",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| arithmetic(call, |x, y| Some(x.max_with(y)))),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| evaluate(n, |a, b| Some(a.max(b)), f64::max))),
    samples: TWO,
    ..PRIM
};

pub static NUM_MIN: Op = Op {
    name: "num.min",
    doc: "The smaller of both.",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| arithmetic(call, |x, y| Some(x.min_with(y)))),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| evaluate(n, |a, b| Some(a.min(b)), f64::min))),
    samples: TWO,
    ..PRIM
};

pub static NUM_MOD: Op = Op {
    name: "num.mod",
    doc: "Remainder with the sign of the divisor.",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| {
        divisor(call)?;
        arithmetic(call, Dim::modulo)
    }),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| {
        evaluate(n, |a, b| (b != 0).then(|| floor_mod(a, b)), |a, b| a - b * (a / b).floor())
    })),
    samples: TWO,
    ..PRIM
};

pub static NUM_MUL: Op = Op {
    name: "num.mul",
    doc: "Product.",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| arithmetic(call, |x, y| Some(x.mul(y)))),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| evaluate(n, |a, b| a.checked_mul(b), |a, b| a * b))),
    samples: TWO,
    ..PRIM
};

pub static NUM_NE: Op = Op {
    name: "num.ne",
    doc: "Do both differ?",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| compared(call, |x, y| x.same(y).map(|same| !same))),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| ordered(n, |o| o != Some(Ordering::Equal)))),
    samples: TWO,
    ..PRIM
};

pub static NUM_NEG: Op = Op {
    name: "num.neg",
    doc: "Negation.",
    schema: "(a: num) -> num",
    meta: Meta::Fn(|call| {
        let (kind, equals) = number(call, "a")?;
        one(common(kind, NumKind::Int), equals.map(|d| d.neg()))
    }),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| match first(n)? {
        Num::Float(x) => Ok(Num::Float(-x)),
        other => Ok(Num::Int(int_of(other)?.checked_neg().ok_or_else(overflow)?)),
    })),
    samples: ONE,
    ..PRIM
};

pub static NUM_NOT: Op = Op {
    name: "num.not",
    doc: "Is it zero?",
    schema: "(a: num) -> num",
    meta: Meta::Fn(|call| {
        let (_, equals) = number(call, "a")?;
        let known = equals.and_then(|d| d.known()).map(|n| Dim::Known(i64::from(n == 0)));
        one(NumKind::Bool, known)
    }),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| Ok(Num::Bool(!truth(first(n)?)?)))),
    samples: &[Sample("true"), Sample("3")],
    ..PRIM
};

pub static NUM_OR: Op = Op {
    name: "num.or",
    doc: "Or: of bools, or bit by bit.",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| bitwise(call, |x, y| x | y)),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| bits(n, |a, b| Some(a | b)))),
    samples: BOOLS,
    ..PRIM
};

pub static NUM_POW: Op = Op {
    name: "num.pow",
    doc: "`a` to the power of `b`; a float where `b` is a negative integer.",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(power),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(raised)),
    samples: &[Sample("2, 5"), Sample("2, -1"), Sample("1.5, 2")],
    ..PRIM
};

pub static NUM_RSHIFT: Op = Op {
    name: "num.rshift",
    doc: "Bits moved down, the sign kept.",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| {
        let shift = shift(call)?;
        bitwise(call, move |x, _| x >> shift.min(63))
    }),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| bits(n, |a, b| a.checked_shr(u32::try_from(b).ok()?)))),
    samples: INTS,
    ..PRIM
};

pub static NUM_SQRT: Op = Op {
    name: "num.sqrt",
    doc: "Square root, a float.",
    schema: "(a: num) -> num",
    meta: Meta::Fn(|call| {
        number(call, "a")?;
        one(NumKind::Float, None)
    }),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| Ok(Num::Float(float_of(first(n)?)?.sqrt())))),
    samples: ONE,
    ..PRIM
};

pub static NUM_SUB: Op = Op {
    name: "num.sub",
    doc: "Difference.",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| arithmetic(call, |x, y| Some(x.sub(y)))),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| evaluate(n, |a, b| a.checked_sub(b), |a, b| a - b))),
    samples: TWO,
    ..PRIM
};

pub static NUM_TRUEDIV: Op = Op {
    name: "num.truediv",
    doc: "Quotient, a float.",
    schema: "(a: num, b: num) -> num",
    meta: Meta::Fn(|call| {
        divisor(call)?;
        number(call, "a")?;
        one(NumKind::Float, None)
    }),
    vjp: Vjp::NonDiff,
    host: Some(HostOp::Number(|n| match n {
        [a, b] => match float_of(b)? {
            0.0 => Err(wrong("division by zero")),
            d => Ok(Num::Float(float_of(a)? / d)),
        },
        _ => Err(wrong("takes two numbers")),
    })),
    samples: TWO,
    ..PRIM
};

pub static SHAPE: Op = Op {
    name: "prims.shape",
    doc: "The sizes of a tensor, one number a dim.",
    schema: "(a: Tensor) -> dims",
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        Ok(a.dims().iter().map(|d| Some(integer(d.clone()))).collect())
    }),
    vjp: Vjp::NonDiff,
    samples: &[Sample("T[2, 3]"), Sample("T[]")],
    ..PRIM
};

pub static TORCH_SYM_SIZE: Op = Op {
    name: "torch.sym_size",
    doc: "The size of a dim as a number; without an axis those of all.",
    schema: "(a: Tensor, axis: int?) -> num",
    level: Level::Composite(|b, call| {
        let mut sizes = b.call("prims.shape", vec![call.raw("a")?])?;
        match axis(call)? {
            Some(axis) => Ok(vec![sizes.swap_remove(axis)]),
            None => Ok(sizes),
        }
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        match axis(call)? {
            Some(axis) => Ok(vec![Some(integer(a.dims()[axis].clone()))]),
            None => Ok(a.dims().iter().map(|d| Some(integer(d.clone()))).collect()),
        }
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["sym_size.int"], import: Import::Map("a=self axis=dim") }],
    samples: &[Sample("T[2, 3], axis=1"), Sample("T[2, 3], axis=-2"), Sample("T[2, 3]")],
    ..PRIM
};

fn one(kind: NumKind, equals: Option<Dim>) -> Result<Vec<Option<Type>>, OpError> {
    Ok(vec![Some(Type::Number(NumberType { kind, equals }))])
}

fn integer(dim: Dim) -> Type {
    Type::Number(NumberType { kind: NumKind::Int, equals: Some(dim) })
}

/// Kind of a number, and the expression it equals, where there is one.
fn number(call: &Call, name: &str) -> Result<(NumKind, Option<Dim>), OpError> {
    Ok(match call.num(name)? {
        Num::Int(n) => (NumKind::Int, Some(Dim::Known(n))),
        Num::Float(_) => (NumKind::Float, None),
        Num::Bool(b) => (NumKind::Bool, Some(Dim::Known(b.into()))),
        Num::Dim(d) => (NumKind::Int, Some(d)),
        Num::Value(_, ty) => (ty.kind, ty.equals),
        Num::Complex(..) => return Err(call.error(format!("`{name}` cannot be complex"))),
    })
}

/// Bools count as integers.
fn common(a: NumKind, b: NumKind) -> NumKind {
    if a == NumKind::Float || b == NumKind::Float { NumKind::Float } else { NumKind::Int }
}

/// An integer with its expression where both are integers, else a float.
fn arithmetic(call: &Call, f: impl FnOnce(&Dim, &Dim) -> Option<Dim>) -> Result<Vec<Option<Type>>, OpError> {
    let ((ka, a), (kb, b)) = (number(call, "a")?, number(call, "b")?);
    let kind = common(ka, kb);
    let equals = match (kind, a, b) {
        (NumKind::Int, Some(a), Some(b)) => f(&a, &b),
        _ => None,
    };
    one(kind, equals)
}

fn compared(call: &Call, f: impl FnOnce(&Dim, &Dim) -> Option<bool>) -> Result<Vec<Option<Type>>, OpError> {
    let decided = match (number(call, "a")?, number(call, "b")?) {
        ((ka, Some(a)), (kb, Some(b))) if common(ka, kb) == NumKind::Int => f(&a, &b),
        _ => None,
    };
    one(NumKind::Bool, decided.map(|d| Dim::Known(d.into())))
}

/// `x - y`, where it is a number.
fn sign(x: &Dim, y: &Dim) -> Option<i64> {
    x.sub(y).known()
}

fn bitwise(call: &Call, f: impl FnOnce(i64, i64) -> i64) -> Result<Vec<Option<Type>>, OpError> {
    let ((ka, a), (kb, b)) = (number(call, "a")?, number(call, "b")?);
    if common(ka, kb) == NumKind::Float {
        return Err(call.error("takes integers and bools, found a float"));
    }
    let kind = if ka == NumKind::Bool && kb == NumKind::Bool { NumKind::Bool } else { NumKind::Int };
    let known = a.and_then(|a| a.known()).zip(b.and_then(|b| b.known()));
    one(kind, known.map(|(a, b)| Dim::Known(f(a, b))))
}

/// The shift, where it is known; a negative one is an error.
fn shift(call: &Call) -> Result<u32, OpError> {
    match number(call, "b")?.1.and_then(|d| d.known()) {
        Some(n) => u32::try_from(n).map_err(|_| call.error(format!("cannot shift by {n}"))),
        None => Ok(0),
    }
}

fn divisor(call: &Call) -> Result<(), OpError> {
    let zero = matches!(call.num("b")?, Num::Int(0) | Num::Bool(false))
        || matches!(call.num("b")?, Num::Float(x) if x == 0.0);
    if zero { Err(call.error("division by zero")) } else { Ok(()) }
}

/// Rounded to an integer: what is one already keeps its expression.
fn rounded(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let (kind, equals) = number(call, "a")?;
    one(NumKind::Int, equals.filter(|_| kind != NumKind::Float))
}

fn power(call: &Call) -> Result<Vec<Option<Type>>, OpError> {
    let ((ka, a), (kb, b)) = (number(call, "a")?, number(call, "b")?);
    let exponent = b.and_then(|b| b.known());
    if common(ka, kb) == NumKind::Float || exponent.is_some_and(|n| n < 0) {
        return one(NumKind::Float, None);
    }
    // Products of an expression are expressions; large powers of symbols are left to the run.
    let equals = match (a, exponent) {
        (Some(Dim::Known(a)), Some(n)) => {
            u32::try_from(n).ok().and_then(|n| a.checked_pow(n)).map(Dim::Known)
        }
        (Some(a), Some(n @ 0..=8)) => Some((0..n).fold(Dim::Known(1), |p, _| p.mul(&a))),
        _ => None,
    };
    one(NumKind::Int, equals)
}

/// The axis asked for, from 0.
fn axis(call: &Call) -> Result<Option<usize>, OpError> {
    let a = call.tensor("a")?;
    match call.opt_int("axis")? {
        Some(_) if a.rank() == 0 => Err(call.error("a zero-dim tensor has no sizes")),
        Some(axis) => call.canonical_axis(axis, a.rank()).map(Some),
        None => Ok(None),
    }
}

/// An error of working out a number.
fn wrong(what: &str) -> OpError {
    OpError { op: "num".into(), what: what.into() }
}

fn overflow() -> OpError {
    wrong("the result does not fit 64 bits, or the divisor is zero")
}

fn first(n: &[Num]) -> Result<&Num, OpError> {
    n.first().ok_or_else(|| wrong("takes a number"))
}

fn int_of(n: &Num) -> Result<i64, OpError> {
    match n {
        Num::Int(n) => Ok(*n),
        Num::Bool(b) => Ok(i64::from(*b)),
        Num::Dim(d) => d.known().ok_or_else(|| wrong("a size is not known")),
        _ => Err(wrong("takes integers")),
    }
}

fn float_of(n: &Num) -> Result<f64, OpError> {
    match n {
        Num::Float(x) => Ok(*x),
        other => Ok(int_of(other)? as f64),
    }
}

fn truth(n: &Num) -> Result<bool, OpError> {
    Ok(float_of(n)? != 0.0)
}

/// Of two integers (or bools) the integer result, else the float one; as Python does.
fn evaluate(
    n: &[Num],
    ints: impl Fn(i64, i64) -> Option<i64>,
    floats: impl Fn(f64, f64) -> f64,
) -> Result<Num, OpError> {
    let [a, b] = n else { return Err(wrong("takes two numbers")) };
    match (a, b) {
        (Num::Float(_), _) | (_, Num::Float(_)) => Ok(Num::Float(floats(float_of(a)?, float_of(b)?))),
        _ => ints(int_of(a)?, int_of(b)?).map(Num::Int).ok_or_else(overflow),
    }
}

/// Integers raised to a negative power give a float.
fn raised(n: &[Num]) -> Result<Num, OpError> {
    let [a, b] = n else { return Err(wrong("takes two numbers")) };
    match (a, b) {
        (Num::Float(_), _) | (_, Num::Float(_)) => Ok(Num::Float(float_of(a)?.powf(float_of(b)?))),
        _ => match u32::try_from(int_of(b)?) {
            Ok(e) => int_of(a)?.checked_pow(e).map(Num::Int).ok_or_else(overflow),
            Err(_) => Ok(Num::Float(float_of(a)?.powf(float_of(b)?))),
        },
    }
}

/// Bit by bit; of two bools a bool.
fn bits(n: &[Num], f: impl Fn(i64, i64) -> Option<i64>) -> Result<Num, OpError> {
    let [a, b] = n else { return Err(wrong("takes two numbers")) };
    let result = f(int_of(a)?, int_of(b)?).ok_or_else(overflow)?;
    let both_bools = matches!((a, b), (Num::Bool(_), Num::Bool(_)));
    Ok(if both_bools { Num::Bool(result != 0) } else { Num::Int(result) })
}

/// A comparison; integers exactly, NaN as IEEE says.
fn ordered(n: &[Num], holds: impl Fn(Option<Ordering>) -> bool) -> Result<Num, OpError> {
    let [a, b] = n else { return Err(wrong("takes two numbers")) };
    let order = match (a, b) {
        (Num::Float(_), _) | (_, Num::Float(_)) => float_of(a)?.partial_cmp(&float_of(b)?),
        _ => Some(int_of(a)?.cmp(&int_of(b)?)),
    };
    Ok(Num::Bool(holds(order)))
}

/// Rounded to an integer; an error for what no i64 holds.
fn to_int(n: &[Num], round: impl Fn(f64) -> f64) -> Result<Num, OpError> {
    match first(n)? {
        Num::Float(x) => {
            let r = round(*x);
            let fits = r >= i64::MIN as f64 && r < i64::MAX as f64;
            if fits { Ok(Num::Int(r as i64)) } else { Err(overflow()) }
        }
        other => Ok(Num::Int(int_of(other)?)),
    }
}

pub static TORCH_IS_NONZERO: Op = Op {
    name: "torch.is_nonzero",
    doc: "Is the one element of a tensor not zero?",
    schema: "(a: Tensor) -> num",
    level: Level::Composite(|b, call| {
        let there = b.tensor("torch.ne", vec![call.raw("a")?, Arg::Int(0)])?;
        b.call("torch.item", vec![there.arg()])
    }),
    vjp: Vjp::NonDiff,
    traits: Traits::NONE,
    aten: &[Aten { overloads: &["is_nonzero.default"], import: Import::Map("a=self") }],
    samples: &[Sample("T[]"), Sample("T[1, 1]")],
    ..Op::BASE
};

pub static TORCH_SYM_NUMEL: Op = Op {
    name: "torch.sym_numel",
    doc: "The number of elements as a number.",
    schema: "(a: Tensor) -> num",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        product(b, a.dims())
    }),
    meta: Meta::Fn(|call| Ok(vec![Some(integer(call.tensor("a")?.ty.numel()))])),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["numel.default", "sym_numel.default"], import: Import::Map("a=self") }],
    samples: &[Sample("T[2, 3]"), Sample("T[]")],
    ..PRIM
};

pub static TORCH_SYM_STRIDE: Op = Op {
    name: "torch.sym_stride",
    doc: "The stride of a dim, in elements, where the tensor is contiguous, as all are in a trace.",
    schema: "(a: Tensor, axis: int) -> num",
    level: Level::Composite(|b, call| {
        let a = call.tensor("a")?;
        let at = axis(call)?.ok_or_else(|| call.error("`axis` is missing"))?;
        product(b, &a.dims()[at + 1..])
    }),
    meta: Meta::Fn(|call| {
        let a = call.tensor("a")?;
        let at = axis(call)?.ok_or_else(|| call.error("`axis` is missing"))?;
        Ok(vec![Some(integer(Dim::product(&a.dims()[at + 1..])))])
    }),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["sym_stride.int"], import: Import::Map("a=self axis=dim") }],
    samples: &[Sample("T[2, 3], axis=0"), Sample("T[2, 3], axis=-1")],
    ..PRIM
};

pub static TORCH_SYM_IS_CONTIGUOUS: Op = Op {
    name: "torch.sym_is_contiguous",
    doc: "Is the tensor laid out in row-major order? Every tensor of a trace is.",
    schema: "(a: Tensor, axis: int? = None) -> num",
    level: Level::Composite(|b, _| b.call("num.eq", vec![Arg::Int(0), Arg::Int(0)])),
    meta: Meta::Fn(|_| one(NumKind::Bool, Some(Dim::Known(1)))),
    vjp: Vjp::NonDiff,
    aten: &[Aten {
        overloads: &["sym_is_contiguous.default", "is_contiguous.default"],
        import: Import::Map("a=self"),
    }],
    samples: &[Sample("T[2, 3]"), Sample("T[]")],
    ..PRIM
};

pub static TORCH_SYM_STORAGE_OFFSET: Op = Op {
    name: "torch.sym_storage_offset",
    doc: "The offset into the storage: 0, since every tensor of a trace begins its own.",
    schema: "(a: Tensor) -> num",
    level: Level::Composite(|b, _| b.call("num.mul", vec![Arg::Int(0), Arg::Int(1)])),
    meta: Meta::Fn(|_| Ok(vec![Some(integer(Dim::Known(0)))])),
    vjp: Vjp::NonDiff,
    aten: &[Aten { overloads: &["sym_storage_offset.default"], import: Import::Map("a=self") }],
    samples: &[Sample("T[2, 3]")],
    ..PRIM
};

/// Sizes multiplied, as a number.
fn product(b: &mut super::Builder<'_>, dims: &[Dim]) -> Result<Vec<Arg>, OpError> {
    let mut all = Arg::Int(1);
    for d in dims.iter().chain([&Dim::Known(1)]) {
        all = b.call("num.mul", vec![all, Arg::dim(d.clone())])?.pop().unwrap_or(Arg::None);
    }
    Ok(vec![all])
}
