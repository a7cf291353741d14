//! Elementwise prims: one function of the elements of the same index.
//!
//! Functions of one float are computed in `f64` from `libm` and rounded once, whatever the dtype, so they are within one
//! unit in the last place everywhere and the same on every machine; `+ - * /` are the dtype's own (`f32` for halves).
//! Numbers stand for tensors filled with them, in the tensors' dtype.

use super::complex as z;
use super::run::{Args, Made, Num, Operand, Run};
use super::special;
use super::strided::{Dims, Src, any, map1, map2, map3};
use super::value::{Arith, Bool, C128, ComplexValue, Divide, Float, Int, Real, Value, Widen};
use super::{Entry, class};
use thunderhead_sdk::{Dtype, Error, Op};

/// An entry whose kernel is made by a function of the op.
macro_rules! kernel {
    ($name:literal, $class:ident, $make:expr) => {
        Entry { name: $name, dtypes: class::$class, make: $make }
    };
}

/// A function of floats, computed in `f64`.
macro_rules! of_float {
    ($name:literal, $f:expr) => {
        kernel!($name, FLOAT, |op| float_function(op, $f))
    };
}

/// A function of floats and complex numbers, computed in `f64`.
macro_rules! of_inexact {
    ($name:literal, $f:expr, $z:expr) => {
        kernel!($name, INEXACT, |op| inexact_function(op, $f, $z))
    };
}

/// A function that changes floats and leaves integers as they are.
macro_rules! rounding {
    ($name:literal, $f:expr) => {
        kernel!($name, REAL, |op| rounding(op, $f))
    };
}

/// A comparison.
macro_rules! compare {
    ($name:literal, $f:expr) => {
        kernel!($name, REAL, |op| with_real!(op.input(0).dtype(), T => {
            let f: fn(T, T) -> bool = $f;
            binary::<T, T, Bool>(op, move |a, b| Bool::from(f(a, b)))
        }))
    };
}

pub const KERNELS: &[Entry] = &[
    // One operand.
    kernel!("prims.abs", NUMERIC, abs),
    of_inexact!("prims.acos", libm::acos, C128::acos),
    of_inexact!("prims.acosh", libm::acosh, C128::acosh),
    of_inexact!("prims.asin", libm::asin, C128::asin),
    of_inexact!("prims.asinh", libm::asinh, C128::asinh),
    of_inexact!("prims.atan", libm::atan, C128::atan),
    of_inexact!("prims.atanh", libm::atanh, C128::atanh),
    of_float!("prims.bessel_i0", special::bessel_i0),
    kernel!("prims.bitwise_not", INT_OR_BOOL, bitwise_not),
    rounding!("prims.ceil", libm::ceil),
    kernel!("prims.conj", COMPLEX, |op| with_complex!(op.input(0).dtype(), T => Ok(unary(|v: T| v.conj())))),
    of_inexact!("prims.cos", libm::cos, C128::cos),
    of_inexact!("prims.cosh", libm::cosh, C128::cosh),
    of_float!("prims.digamma", special::digamma),
    of_float!("prims.erf", libm::erf),
    of_float!("prims.erfc", libm::erfc),
    of_float!("prims.erfcinv", special::erfcinv),
    of_float!("prims.erfinv", special::erfinv),
    of_inexact!("prims.exp", libm::exp, C128::exp),
    of_inexact!("prims.exp2", libm::exp2, C128::exp2),
    of_inexact!("prims.expm1", libm::expm1, z::expm1),
    rounding!("prims.floor", libm::floor),
    kernel!("prims.frexp", FLOAT, frexp),
    kernel!("prims.imag", COMPLEX, |op| with_complex!(op.input(0).dtype(), T => Ok(unary(|v: T| v.im())))),
    kernel!("prims.isfinite", ANY, isfinite),
    of_float!("prims.lgamma", special::lgamma),
    of_inexact!("prims.log", libm::log, C128::ln),
    of_inexact!("prims.log10", libm::log10, C128::log10),
    of_inexact!("prims.log1p", libm::log1p, z::log1p),
    of_inexact!("prims.log2", libm::log2, C128::log2),
    of_float!("prims.ndtri", special::ndtri),
    kernel!("prims.neg", NUMERIC, |op| with_numeric!(op.input(0).dtype(), T => Ok(unary(<T as Arith>::neg)))),
    kernel!("prims.polygamma", FLOAT, polygamma),
    kernel!("prims.real", COMPLEX, |op| with_complex!(op.input(0).dtype(), T => Ok(unary(|v: T| v.re())))),
    of_inexact!("prims.reciprocal", |v| 1.0 / v, |v| super::value::divide(C128::new(1.0, 0.0), v)),
    rounding!("prims.round", libm::rint),
    of_inexact!("prims.rsqrt", |v| 1.0 / libm::sqrt(v), |v| super::value::divide(
        C128::new(1.0, 0.0),
        z::sqrt(v)
    )),
    kernel!("prims.sign", REAL, |op| with_real!(op.input(0).dtype(), T => Ok(unary(sign::<T>)))),
    kernel!("prims.signbit", REAL, signbit),
    of_inexact!("prims.sin", libm::sin, C128::sin),
    of_inexact!("prims.sinh", libm::sinh, C128::sinh),
    of_inexact!("prims.sqrt", libm::sqrt, z::sqrt),
    of_inexact!("prims.tan", libm::tan, z::tan),
    of_inexact!("prims.tanh", libm::tanh, z::tanh),
    rounding!("prims.trunc", libm::trunc),
    // Two operands.
    kernel!("prims.add", ANY, |op| with_any!(op.input(0).dtype(), T => binary(op, <T as Arith>::add))),
    of_two_floats("prims.atan2", |op| two_floats(op, libm::atan2)),
    kernel!("prims.bitwise_and", INT_OR_BOOL, |op| bitwise(op, Bits::And)),
    kernel!(
        "prims.bitwise_left_shift",
        INT,
        |op| with_int!(op.input(0).dtype(), T => binary(op, left_shift::<T>))
    ),
    kernel!("prims.bitwise_or", INT_OR_BOOL, |op| bitwise(op, Bits::Or)),
    kernel!(
        "prims.bitwise_right_shift",
        INT,
        |op| with_int!(op.input(0).dtype(), T => binary(op, right_shift::<T>))
    ),
    kernel!("prims.bitwise_xor", INT_OR_BOOL, |op| bitwise(op, Bits::Xor)),
    of_two_floats("prims.copysign", |op| two_floats(op, libm::copysign)),
    kernel!("prims.div", NUMERIC, div),
    kernel!(
        "prims.eq",
        ANY,
        |op| with_any!(op.input(0).dtype(), T => binary(op, |a: T, b: T| Bool::from(a == b)))
    ),
    kernel!("prims.fmod", REAL, |op| modulo(op, libm::fmod, Modulo::SignOfDividend)),
    compare!("prims.ge", |a, b| b.less(a) || a == b),
    compare!("prims.gt", |a, b| b.less(a)),
    compare!("prims.le", |a, b| a.less(b) || a == b),
    compare!("prims.lt", |a, b| a.less(b)),
    kernel!(
        "prims.maximum",
        REAL,
        |op| with_real!(op.input(0).dtype(), T => binary(op, <T as Real>::larger))
    ),
    kernel!(
        "prims.minimum",
        REAL,
        |op| with_real!(op.input(0).dtype(), T => binary(op, <T as Real>::smaller))
    ),
    kernel!("prims.mul", ANY, |op| with_any!(op.input(0).dtype(), T => binary(op, <T as Arith>::mul))),
    kernel!(
        "prims.ne",
        ANY,
        |op| with_any!(op.input(0).dtype(), T => binary(op, |a: T, b: T| Bool::from(a != b)))
    ),
    kernel!(
        "prims.nextafter",
        FLOAT,
        |op| with_float!(op.input(0).dtype(), T => binary(op, special::next_after::<T>))
    ),
    kernel!("prims.pow", NUMERIC, pow),
    kernel!("prims.remainder", REAL, |op| modulo(op, remainder_f64, Modulo::SignOfDivisor)),
    kernel!(
        "prims.sub",
        NUMERIC,
        |op| with_numeric!(op.input(0).dtype(), T => binary(op, <T as Arith>::sub))
    ),
    of_two_floats("prims.zeta", |op| two_floats(op, special::zeta)),
    // Three operands.
    kernel!("prims.fma", INEXACT, fma),
    kernel!("prims.lerp", INEXACT, lerp),
    kernel!("prims.where", EVERY, where_),
];

const fn of_two_floats(name: &'static str, make: fn(&Op<'_>) -> Result<Made, Error>) -> Entry {
    Entry { name, dtypes: class::FLOAT, make }
}

/// `out[i] = f(a[i])`.
fn unary<A: Value, R: Value>(f: impl Fn(A) -> R + Copy + Send + Sync + 'static) -> Made {
    let made = Made::new(move |run| {
        let (a, out) = (run.src::<A>(0)?, run.dst::<R>(0)?);
        map1(run.pool(), &out, &a, f)
    });
    let shares = size_of::<A>() == size_of::<R>();
    made.for_any_size().in_place(shares.then_some(0))
}

/// `out[i] = f(a[i], b[i])`, where either may be a number.
fn binary<A: Value, B: Value, R: Value>(
    op: &Op<'_>,
    f: impl Fn(A, B) -> R + Copy + Send + Sync + 'static,
) -> Result<Made, Error> {
    checked_binary(op, |_| Ok(()), f)
}

/// As [`binary`], after a look at all of `b`.
fn checked_binary<A: Value, B: Value, R: Value>(
    op: &Op<'_>,
    check: fn(&Src<B>) -> Result<(), Error>,
    f: impl Fn(A, B) -> R + Copy + Send + Sync + 'static,
) -> Result<Made, Error> {
    let (a, b) = (op.operand("a")?, op.operand("b")?);
    let made = Made::new(move |run| {
        let out = run.dst::<R>(0)?;
        let (a, b) = (run.operand::<A>(a, out.dims())?, run.operand::<B>(b, out.dims())?);
        check(&b)?;
        map2(run.pool(), &out, &a, &b, f)
    });
    Ok(told(made, &[(a, size_of::<A>()), (b, size_of::<B>())], size_of::<R>()))
}

/// What a kernel of these operands, with their elements' sizes, tells of itself: the result may lie in a tensor whose
/// elements are as large. A number that is known may be a size, so a kernel that keeps one is for these sizes only.
fn told(made: Made, operands: &[(Operand, usize)], size: usize) -> Made {
    let shares = operands.iter().filter(|(_, own)| *own == size);
    let made = made.in_place(shares.filter_map(|(operand, _)| operand.tensor()));
    let keeps = operands.iter().any(|(operand, _)| matches!(operand, Operand::Number(Num::Known(_))));
    if keeps { made } else { made.for_any_size() }
}

fn float_function(op: &Op<'_>, f: fn(f64) -> f64) -> Result<Made, Error> {
    with_float!(op.input(0).dtype(), T => Ok(unary(move |v: T| T::from_f64(f(v.to_f64())))))
}

fn inexact_function(op: &Op<'_>, f: fn(f64) -> f64, z: fn(C128) -> C128) -> Result<Made, Error> {
    let dtype = op.input(0).dtype();
    if !dtype.is_complex() {
        return float_function(op, f);
    }
    with_complex!(dtype, T => Ok(unary(move |v: T| T::from_c128(z(v.to_c128())))))
}

fn rounding(op: &Op<'_>, f: fn(f64) -> f64) -> Result<Made, Error> {
    let dtype = op.input(0).dtype();
    if dtype.is_float() {
        return float_function(op, f);
    }
    with_int!(dtype, T => Ok(unary(|v: T| v)))
}

fn two_floats(op: &Op<'_>, f: fn(f64, f64) -> f64) -> Result<Made, Error> {
    with_float!(op.input(0).dtype(), T => binary(op, move |a: T, b: T| T::from_f64(f(a.to_f64(), b.to_f64()))))
}

fn abs(op: &Op<'_>) -> Result<Made, Error> {
    match op.input(0).dtype() {
        Dtype::C64 => Ok(unary(|v: num_complex::Complex<f32>| f32::from_f64(v.to_c128().norm()))),
        Dtype::C128 => Ok(unary(|v: C128| v.norm())),
        dtype if dtype.is_float() => float_function(op, libm::fabs),
        dtype => with_int!(dtype, T => Ok(unary(|v: T| if v.less(0) { v.neg() } else { v }))),
    }
}

fn bitwise_not(op: &Op<'_>) -> Result<Made, Error> {
    match op.input(0).dtype() {
        Dtype::Bool => Ok(unary(|v: Bool| Bool::from(!v.get()))),
        dtype => with_int!(dtype, T => Ok(unary(<T as Int>::not))),
    }
}

fn isfinite(op: &Op<'_>) -> Result<Made, Error> {
    match op.input(0).dtype() {
        dtype if dtype.is_float() => {
            with_float!(dtype, T => Ok(unary(|v: T| Bool::from(v.to_f64().is_finite()))))
        }
        dtype if dtype.is_complex() => {
            with_complex!(dtype, T => Ok(unary(|v: T| Bool::from(v.re.is_finite() && v.im.is_finite()))))
        }
        dtype => with_any!(dtype, T => Ok(unary(|_: T| Bool::from(true)))),
    }
}

fn sign<T: Real + Arith>(v: T) -> T {
    let zero = T::default();
    if v.less(zero) {
        T::one().neg()
    } else if zero.less(v) {
        T::one()
    } else {
        v
    }
}

fn signbit(op: &Op<'_>) -> Result<Made, Error> {
    match op.input(0).dtype() {
        dtype if dtype.is_float() => {
            with_float!(dtype, T => Ok(unary(|v: T| Bool::from(v.is_sign_negative()))))
        }
        dtype => with_int!(dtype, T => Ok(unary(|v: T| Bool::from(v.less(0))))),
    }
}

/// Mantissa of magnitude in [1/2, 1) and exponent; zero and what is not finite keep the value, with exponent 0.
fn frexp(op: &Op<'_>) -> Result<Made, Error> {
    let split = |v: f64| if v == 0.0 || !v.is_finite() { (v, 0) } else { libm::frexp(v) };
    with_float!(op.input(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, mantissa, exponent) = (run.src::<T>(0)?, run.dst::<T>(0)?, run.dst::<i32>(1)?);
        map1(run.pool(), &mantissa, &a, |v: T| T::from_f64(split(v.to_f64()).0))?;
        map1(run.pool(), &exponent, &a, |v: T| split(v.to_f64()).1)
    })
    .for_any_size()))
}

fn polygamma(op: &Op<'_>) -> Result<Made, Error> {
    let n = op.int("n")?;
    if n < 0 {
        return Err(Error::invalid(format!("argument `n` is {n}; expected no negative")));
    }
    with_float!(op.input(0).dtype(), T => Ok(unary(move |v: T| T::from_f64(special::polygamma(n, v.to_f64())))))
}

enum Bits {
    And,
    Or,
    Xor,
}

fn bitwise(op: &Op<'_>, bits: Bits) -> Result<Made, Error> {
    let dtype = op.input(0).dtype();
    if dtype == Dtype::Bool {
        return match bits {
            Bits::And => binary(op, <Bool as Arith>::mul),
            Bits::Or => binary(op, <Bool as Arith>::add),
            Bits::Xor => binary(op, <Bool as Arith>::sub),
        };
    }
    with_int!(dtype, T => match bits {
        Bits::And => binary(op, <T as Int>::and),
        Bits::Or => binary(op, <T as Int>::or),
        Bits::Xor => binary(op, <T as Int>::xor),
    })
}

/// Zero where nothing of the value is left.
fn left_shift<T: Int>(a: T, b: T) -> T {
    let by = b.to_i64();
    if (0..i64::from(T::BITS)).contains(&by) { T::from_i64(a.to_i64() << by) } else { T::from_i64(0) }
}

/// Arithmetic; the sign everywhere where nothing of the value is left.
fn right_shift<T: Int>(a: T, b: T) -> T {
    let by = b.to_i64();
    let by = if (0..i64::from(T::BITS)).contains(&by) { by } else { 63 };
    T::from_i64(a.to_i64() >> by)
}

fn no_zero<T: Int>(b: &Src<T>) -> Result<(), Error> {
    if any(b, |v| v == T::default()) { Err(Error::bad_data("an integer is divided by zero")) } else { Ok(()) }
}

fn div(op: &Op<'_>) -> Result<Made, Error> {
    let dtype = op.input(0).dtype();
    if dtype.is_int() {
        return with_int!(dtype, T => checked_binary(op, no_zero::<T>, <T as Divide>::div));
    }
    with_inexact!(dtype, T => binary(op, <T as Divide>::div))
}

#[derive(Clone, Copy, PartialEq)]
enum Modulo {
    SignOfDividend,
    SignOfDivisor,
}

fn remainder_f64(a: f64, b: f64) -> f64 {
    let rest = libm::fmod(a, b);
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

fn modulo(op: &Op<'_>, f: fn(f64, f64) -> f64, sign: Modulo) -> Result<Made, Error> {
    let dtype = op.input(0).dtype();
    if dtype.is_float() {
        return two_floats(op, f);
    }
    with_int!(dtype, T => checked_binary(op, no_zero::<T>, move |a: T, b: T| {
        let rest = a.rem(b);
        let moves = sign == Modulo::SignOfDivisor && rest != 0 && rest.less(0) != b.less(0);
        if moves { Arith::add(rest, b) } else { rest }
    }))
}

/// Integers wrap; a negative exponent gives what is left of `1 / a^|b|`, zero but for 1 and -1.
fn int_pow<T: Int>(a: T, b: T) -> T {
    let (zero, one) = (T::default(), T::one());
    if b.less(zero) {
        let odd = b.and(one) == one;
        return match a {
            _ if a == one => one,
            _ if a == one.neg() && !odd => one,
            _ if a == one.neg() => a,
            _ => zero,
        };
    }
    let (mut result, mut base, mut left) = (one, a, b.to_i64());
    while left > 0 {
        if left & 1 == 1 {
            result = result.mul(base);
        }
        base = base.mul(base);
        left >>= 1;
    }
    result
}

fn pow(op: &Op<'_>) -> Result<Made, Error> {
    match op.input(0).dtype() {
        dtype if dtype.is_int() => with_int!(dtype, T => binary(op, int_pow::<T>)),
        dtype if dtype.is_complex() => {
            with_complex!(dtype, T => binary(op, |a: T, b: T| T::from_c128(z::pow(a.to_c128(), b.to_c128()))))
        }
        _ => two_floats(op, libm::pow),
    }
}

/// `out[i] = f(x[i], y[i], z[i])` of one dtype, computed in its wide type and rounded once.
fn ternary<T: Widen>(
    op: &Op<'_>,
    names: [&str; 3],
    f: fn(T::Wide, T::Wide, T::Wide) -> T::Wide,
) -> Result<Made, Error> {
    let operands = [op.operand(names[0])?, op.operand(names[1])?, op.operand(names[2])?];
    let made = Made::new(move |run: &mut Run<'_, '_>| {
        let out = run.dst::<T>(0)?;
        let dims: Dims = out.dims().into();
        let [x, y, z] = operands;
        let (x, y, z) =
            (run.operand::<T>(x, &dims)?, run.operand::<T>(y, &dims)?, run.operand::<T>(z, &dims)?);
        map3(run.pool(), &out, &x, &y, &z, |x, y, z| f(x.widen(), y.widen(), z.widen()).convert())
    });
    Ok(told(made, &operands.map(|operand| (operand, size_of::<T>())), size_of::<T>()))
}

fn fma(op: &Op<'_>) -> Result<Made, Error> {
    with_inexact!(op.input(0).dtype(), T => ternary::<T>(op, ["a", "b", "c"], |a, b, c| a * b + c))
}

/// From the nearer end, so that weight 1 gives `end` exactly.
fn lerp(op: &Op<'_>) -> Result<Made, Error> {
    let names = ["start", "end", "weight"];
    let dtype = op.input(0).dtype();
    if dtype.is_complex() {
        return with_complex!(dtype, T => ternary::<T>(op, names, |start, end, weight| {
            if weight.norm() < 0.5 { start + weight * (end - start) } else { end - (end - start) * (1.0 - weight) }
        }));
    }
    with_float!(dtype, T => ternary::<T>(op, names, |start, end, weight| {
        if weight.abs() < 0.5 { start + weight * (end - start) } else { end - (end - start) * (1.0 - weight) }
    }))
}

fn where_(op: &Op<'_>) -> Result<Made, Error> {
    let (pred, a, b) = (op.must("pred")?, op.operand("a")?, op.operand("b")?);
    let dtype = op.output(0).dtype();
    with_bits!(dtype, T => {
        let made = Made::new(move |run| {
            let out = run.dst_bits::<T>(0)?;
            let pred = run.src::<Bool>(pred)?;
            let a = run.operand_bits::<T>(a, out.dims(), dtype)?;
            let b = run.operand_bits::<T>(b, out.dims(), dtype)?;
            map3(run.pool(), &out, &pred, &a, &b, |pred, a, b| if pred.get() { a } else { b })
        });
        Ok(told(made, &[a, b].map(|operand| (operand, size_of::<T>())), size_of::<T>()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::harness::*;
    use super::*;
    use half::{bf16, f16};
    use thunderhead_sdk::testing::{OpSpec, RunOptions, Tensor};
    use thunderhead_sdk::{Element, Number};

    type C64 = num_complex::Complex<f32>;

    #[track_caller]
    fn unary_of<A: Element, R: Element>(name: &str, values: &[A]) -> Vec<R> {
        let dims = [values.len() as i64];
        run1(op(name).tensor("a", Tensor::new(&dims, values.to_vec())).output(R::DTYPE, &dims)).to_vec()
    }

    fn pair<T: Element>(name: &str, a: &[T], b: &[T]) -> OpSpec {
        let tensor = |values: &[T]| Tensor::new(&[values.len() as i64], values.to_vec());
        op(name).tensor("a", tensor(a)).tensor("b", tensor(b))
    }

    #[track_caller]
    fn binary_of<T: Element, R: Element>(name: &str, a: &[T], b: &[T]) -> Vec<R> {
        run1(pair(name, a, b).output(R::DTYPE, &[a.len() as i64])).to_vec()
    }

    #[test]
    fn f32_functions_are_f64_rounded_once() {
        let values: Vec<f32> = (-40..40).map(|v| v as f32 * 0.37 + 0.01).collect();
        for (name, f) in [
            ("prims.exp", libm::exp as fn(f64) -> f64),
            ("prims.tanh", libm::tanh),
            ("prims.erf", libm::erf),
            ("prims.sin", libm::sin),
            ("prims.cos", libm::cos),
            ("prims.expm1", libm::expm1),
        ] {
            let expected: Vec<f32> = values.iter().map(|v| f(f64::from(*v)) as f32).collect();
            assert_eq!(unary_of::<f32, f32>(name, &values), expected, "{name}");
        }
        let positive: Vec<f32> = values.iter().map(|v| v.abs()).collect();
        let expected: Vec<f32> = positive.iter().map(|v| (1.0 / f64::from(*v).sqrt()) as f32).collect();
        assert_eq!(unary_of::<f32, f32>("prims.rsqrt", &positive), expected);
    }

    #[test]
    fn every_dtype_of_a_claim_has_a_kernel() {
        for entry in KERNELS {
            for dtype in entry.dtypes {
                let tensor = || Tensor::filled(*dtype, &[2, 3], 1);
                let result = match entry.name {
                    "prims.eq" | "prims.ne" | "prims.ge" | "prims.gt" | "prims.le" | "prims.lt"
                    | "prims.isfinite" | "prims.signbit" => Dtype::Bool,
                    "prims.abs" | "prims.real" | "prims.imag" => match dtype {
                        Dtype::C64 => Dtype::F32,
                        Dtype::C128 => Dtype::F64,
                        real => *real,
                    },
                    _ => *dtype,
                };
                let spec = op(entry.name);
                let spec = match entry.name {
                    "prims.where" => {
                        let spec = spec.tensor("pred", Tensor::filled(Dtype::Bool, &[2, 3], 1));
                        spec.tensor("a", tensor()).tensor("b", tensor())
                    }
                    "prims.lerp" => {
                        spec.tensor("start", tensor()).tensor("end", tensor()).tensor("weight", tensor())
                    }
                    _ => spec.tensor("a", tensor()).tensor("b", tensor()).tensor("c", tensor()).int("n", 1),
                };
                let spec = spec.output(result, &[2, 3]);
                let spec = if entry.name == "prims.frexp" { spec.output(Dtype::I32, &[2, 3]) } else { spec };
                if let Err(error) = host().run(&spec) {
                    panic!("{} on {dtype}: {error}", entry.name);
                }
            }
        }
    }

    #[test]
    fn strides_numbers_and_shared_memory_make_no_difference() {
        let a = Tensor::new(&[2, 3], vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let turned = Tensor::new(&[3, 2], vec![1f32, 4.0, 2.0, 5.0, 3.0, 6.0]).transposed(0, 1);
        let row = Tensor::new(&[3], vec![10f32, 20.0, 30.0]).strided(&[2, 3], &[0, 1], 0);
        let backwards = Tensor::new(&[6], vec![6f32, 5.0, 4.0, 3.0, 2.0, 1.0]).strided(&[2, 3], &[-3, -1], 5);
        let expected = [11.0, 22.0, 33.0, 14.0, 25.0, 36.0];
        let in_place = RunOptions { in_place: true, ..RunOptions::default() };
        for a in [a, turned, backwards] {
            let spec = op("prims.add").tensor("a", a).tensor("b", row.clone()).output(Dtype::F32, &[2, 3]);
            assert_eq!(run1(spec.clone()).to_vec::<f32>(), expected);
            let out = host().run_with(&spec, &in_place).expect("runs").swap_remove(0);
            assert_eq!(out.to_vec::<f32>(), expected);
        }
        let a = Tensor::new(&[2], vec![1i32, 2]);
        let spec = op("prims.mul").tensor("a", a.clone()).slot("b", Number::Int(7)).output(Dtype::I32, &[2]);
        assert_eq!(run1(spec).to_vec::<i32>(), [7, 14]);
        let spec = op("prims.sub").tensor("a", a).int("b", 1).output(Dtype::I32, &[2]);
        assert_eq!(run1(spec).to_vec::<i32>(), [0, 1]);
        let empty = Tensor::new(&[0, 3], Vec::<f32>::new());
        assert!(
            run1(op("prims.exp").tensor("a", empty).output(Dtype::F32, &[0, 3])).to_vec::<f32>().is_empty()
        );
        let scalar = Tensor::new(&[], vec![4f64]);
        assert_eq!(run1(op("prims.sqrt").tensor("a", scalar).output(Dtype::F64, &[])).to_vec::<f64>(), [2.0]);
    }

    #[test]
    fn integers_wrap_and_divide_towards_zero() {
        assert_eq!(binary_of::<i8, i8>("prims.add", &[127], &[1]), [-128]);
        assert_eq!(binary_of::<i8, i8>("prims.div", &[-128, -7, 7], &[-1, 2, -2]), [-128, -3, -3]);
        assert_eq!(binary_of::<i64, i64>("prims.remainder", &[-7, 7, -7], &[3, -3, -3]), [2, -2, -1]);
        assert_eq!(binary_of::<i64, i64>("prims.fmod", &[-7, 7], &[3, -3]), [-1, 1]);
        let by_zero = pair("prims.div", &[1i64, 2], &[1, 0]).output(Dtype::I64, &[2]);
        assert!(failure(by_zero).contains("divided by zero"));
        assert_eq!(
            binary_of::<i64, i64>("prims.pow", &[2, 0, -1, 1, 0, 3], &[10, 0, -3, -5, -1, -1]),
            [1024, 1, -1, 1, 0, 0]
        );
        assert_eq!(binary_of::<i64, i64>("prims.bitwise_left_shift", &[1, -8, 1], &[64, 70, -1]), [0; 3]);
        assert_eq!(
            binary_of::<i64, i64>("prims.bitwise_right_shift", &[1, -8, -8], &[64, 70, 1]),
            [0, -1, -4]
        );
        assert_eq!(binary_of::<bool, bool>("prims.add", &[true, false], &[true, true]), [true, true]);
        assert_eq!(binary_of::<bool, bool>("prims.mul", &[true, false], &[true, true]), [true, false]);
    }

    #[test]
    fn nan_wins_and_signs_follow_their_side() {
        let nan = f32::NAN;
        let larger: Vec<f32> = binary_of("prims.maximum", &[1.0, nan, 2.0], &[nan, 1.0, 3.0]);
        assert!(larger[0].is_nan() && larger[1].is_nan() && larger[2] == 3.0);
        let smaller: Vec<f32> = binary_of("prims.minimum", &[1.0, nan, 2.0], &[nan, 1.0, 3.0]);
        assert!(smaller[0].is_nan() && smaller[1].is_nan() && smaller[2] == 2.0);
        let rest: Vec<f32> =
            binary_of("prims.remainder", &[5.0, -5.0, 5.0, -1.0], &[3.0, 3.0, -3.0, f32::INFINITY]);
        assert_eq!(rest, [2.0, 1.0, -1.0, f32::INFINITY]);
        assert_eq!(binary_of::<f32, f32>("prims.pow", &[0.0, nan, -2.0], &[0.0, 0.0, 3.0]), [1.0, 1.0, -8.0]);
        assert!(unary_of::<f32, f32>("prims.sign", &[nan])[0].is_nan());
        assert_eq!(unary_of::<f32, f32>("prims.sign", &[-3.0, 0.0, 5.0]), [-1.0, 0.0, 1.0]);
        assert_eq!(unary_of::<f32, f32>("prims.round", &[0.5, 1.5, -2.5]), [0.0, 2.0, -2.0]);
        assert_eq!(binary_of::<f32, bool>("prims.le", &[nan, 1.0], &[nan, 1.0]), [false, true]);
        assert_eq!(binary_of::<f32, bool>("prims.ne", &[nan, 1.0], &[nan, 1.0]), [true, false]);
        assert_eq!(unary_of::<f32, bool>("prims.isfinite", &[nan, 1.0, f32::INFINITY]), [false, true, false]);
        assert_eq!(unary_of::<f32, bool>("prims.signbit", &[-0.0, 1.0]), [true, false]);
    }

    #[test]
    fn halves_round_once() {
        let b = |v: f32| bf16::from_f32(v);
        assert_eq!(binary_of::<bf16, bf16>("prims.mul", &[b(3.0)], &[b(1.0078125)]), [b(3.0 * 1.0078125)]);
        let third: Vec<f16> = unary_of("prims.reciprocal", &[f16::from_f32(3.0)]);
        assert_eq!(third, [f16::from_f64(1.0 / 3.0)]);
        assert_eq!(unary_of::<bf16, bf16>("prims.exp", &[b(1.0)]), [bf16::from_f64(std::f64::consts::E)]);
    }

    #[test]
    fn complex_numbers_have_their_functions() {
        let c = |re, im| C64::new(re, im);
        assert_eq!(unary_of::<C64, f32>("prims.abs", &[c(3.0, 4.0)]), [5.0]);
        assert_eq!(unary_of::<C64, C64>("prims.conj", &[c(3.0, 4.0)]), [c(3.0, -4.0)]);
        assert_eq!(unary_of::<C64, f32>("prims.imag", &[c(3.0, 4.0)]), [4.0]);
        assert_eq!(unary_of::<C64, C64>("prims.sqrt", &[c(-3.0, 4.0)]), [c(1.0, 2.0)]);
        assert_eq!(binary_of::<C64, C64>("prims.div", &[c(1.0, 1.0)], &[c(0.0, 2.0)]), [c(0.5, -0.5)]);
        let spec = op("prims.mul").tensor("a", Tensor::new(&[1], vec![c(1.0, 2.0)]));
        let spec = spec.arg("b", thunderhead_sdk::testing::Arg::Complex(0.0, 1.0)).output(Dtype::C64, &[1]);
        assert_eq!(run1(spec).to_vec::<C64>(), [c(-2.0, 1.0)]);
    }

    #[test]
    fn a_condition_chooses_also_among_numbers() {
        let pred = Tensor::new(&[3], vec![true, false, true]);
        let spec = op("prims.where")
            .tensor("pred", pred.clone())
            .tensor("a", Tensor::new(&[3], vec![1f32, 2.0, 3.0]));
        let out = run1(spec.float("b", -1.5).output(Dtype::F32, &[3]));
        assert_eq!(out.to_vec::<f32>(), [1.0, -1.5, 3.0]);
        let spec = op("prims.where").tensor("pred", pred).slot("a", Number::Int(5));
        let out = run1(spec.tensor("b", Tensor::new(&[3], vec![1u16, 2, 3])).output(Dtype::U16, &[3]));
        assert_eq!(out.to_vec::<u16>(), [5, 2, 5]);
    }

    #[test]
    fn interpolation_reaches_both_ends() {
        let tensor = |v: f32| Tensor::new(&[1], vec![v]);
        for (weight, expected) in [(0.0, 0.1), (1.0, 0.7), (0.5, 0.4)] {
            let spec = op("prims.lerp").tensor("start", tensor(0.1)).tensor("end", tensor(0.7));
            assert_eq!(
                run1(spec.float("weight", weight).output(Dtype::F32, &[1])).to_vec::<f32>(),
                [expected]
            );
        }
    }

    #[test]
    fn a_mantissa_and_its_exponent_make_the_value() {
        let spec = op("prims.frexp").tensor("a", Tensor::new(&[3], vec![8f64, -0.75, 0.0]));
        let out = run(spec.output(Dtype::F64, &[3]).output(Dtype::I32, &[3]));
        assert_eq!(out[0].to_vec::<f64>(), [0.5, -0.75, 0.0]);
        assert_eq!(out[1].to_vec::<i32>(), [4, 0, 0]);
    }
}
