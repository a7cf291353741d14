//! Functions of one `f32`, each written once: no branches, so that a loop over them becomes vector code for whatever
//! instructions the surrounding function has ([`Arch`] says only whether multiply-and-add is one of them). The commonest
//! are written over [`Real`], so that they also run on several vectors in lockstep.
//!
//! Coefficients are minimax fits made for this crate (Lawson's iteration on Chebyshev points, rounded to `f32`); what each
//! approximates stands beside it. Errors are measured in `tests/functions.rs`. Not here: functions that are computed
//! through `f64` (`libm`), they are rare in models.

use crate::vector::{Real, Scalar, Vector};
use std::marker::PhantomData;

/// Facts about the instructions that a micro-kernel is compiled for.
pub trait Arch: Copy {
    /// `a * b + c` is one instruction.
    const FMA: bool;
    /// Vectors that functions run over several at once; where [`Arch::IS_WIDE`] does not hold, one number.
    type Vector: Vector;
    const IS_WIDE: bool;
}

/// `a * b + c`; rounded once where the processor can.
#[inline(always)]
pub fn fma<A: Arch>(a: f32, b: f32, c: f32) -> f32 {
    if A::FMA { a.mul_add(b, c) } else { a * b + c }
}

/// [`fma`] of `f64`.
#[inline(always)]
fn fma64<A: Arch>(a: f64, b: f64, c: f64) -> f64 {
    if A::FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Coefficients from the constant term on.
#[inline(always)]
fn poly<R: Real, const N: usize>(x: R, coefficients: [f32; N]) -> R {
    let mut sum = R::of(coefficients[N - 1]);
    let mut k = N - 1;
    while k > 0 {
        k -= 1;
        sum = sum.fma(x, R::of(coefficients[k]));
    }
    sum
}

const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// `e^x`; denormal results and overflow to infinity included.
#[inline(always)]
pub fn exp<R: Real>(x: R) -> R {
    let x = x.at_most(R::of(89.0)).at_least(R::of(-104.5));
    let n = x.mul(R::of(std::f32::consts::LOG2_E)).nearest();
    let r = n.fma(R::of(-LN_2_LOW), n.fma(R::of(-LN_2_HIGH), x));
    // (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2.
    let p = poly(r, [0.5, 0.166_665_18, 0.041_666_202, 0.008_368_971, 0.001_395_062_3]);
    let y = p.mul(r).fma(r, r).add(R::of(1.0));
    y.scale(n)
}

/// Natural logarithm; NaN below zero, -inf at zero.
#[inline(always)]
pub fn log<A: Arch>(x: f32) -> f32 {
    let denormal = x < f32::MIN_POSITIVE;
    let scaled = if denormal { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits() as i32;
    // Mantissa in [sqrt(1/2), sqrt(2)).
    let e = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let f = f32::from_bits(bits.wrapping_sub(e << 23) as u32) - 1.0;
    let e = e as f32 - if denormal { 23.0 } else { 0.0 };
    // (log(1 + f) - f + f^2 / 2) / f^3.
    let p = poly::<Scalar<A>, 9>(
        Scalar(f, PhantomData),
        [
            0.333_333_1,
            -0.249_999_87,
            0.200_022_31,
            -0.166_692_63,
            0.142_185_63,
            -0.123_840_615,
            0.118_734_36,
            -0.117_918_22,
            0.069_167_81,
        ],
    )
    .0;
    let square = f * f;
    let tail = fma::<A>(square * f, p, square * -0.5);
    let y = fma::<A>(e, LN_2_HIGH, f + fma::<A>(e, LN_2_LOW, tail));
    let y = if x > 0.0 { y } else { f32::NAN };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x == f32::INFINITY { x } else { y }
}

/// Hyperbolic tangent.
#[inline(always)]
pub fn tanh<R: Real>(x: R) -> R {
    let (t, s, one) = (x.abs(), x.mul(x), R::of(1.0));
    // (tanh(x) / x - 1) / x^2 below 0.64.
    let p = poly(s, [-0.333_332_72, 0.133_311_52, -0.053_714_093, 0.020_551_683, -0.005_603_879]);
    let near = x.mul(s).fma(p, x);
    let far = one.sub(R::of(2.0).div(exp(t.add(t)).add(one)));
    R::pick(t.less(R::of(0.625)), near, far.copysign(x))
}

/// The error function.
#[inline(always)]
pub fn erf<R: Real>(x: R) -> R {
    let (t, s) = (x.abs(), x.mul(x));
    // erf(x) / x - 1 below 0.94.
    let p = poly(
        s,
        [
            0.128_379_17,
            -0.376_126_32,
            0.112_836_84,
            -0.026_858_706,
            0.005_199_247,
            -0.000_812_188_14,
            8.280_379_6e-5,
        ],
    );
    let near = x.fma(p, x);
    let t = t.at_most(R::of(4.05));
    // -log(erfc(t)) / t from 0.9 to 4.05, where erf has become 1; with the sign of what e is raised to.
    let q = poly(
        t,
        [
            -1.128_689_2,
            -0.634_971_14,
            -0.106_561_39,
            0.024_065_452,
            -0.003_797_533_7,
            0.000_363_840_37,
            -1.561_818_3e-5,
        ],
    );
    let far = R::of(1.0).sub(exp(q.mul(t)));
    R::pick(t.less(R::of(0.92)), near, far.copysign(x))
}

/// `x / 2 * (1 + erf(x / sqrt 2))`, through erfc, so that the far negative tail keeps its relative accuracy.
#[inline(always)]
pub fn gelu<R: Real>(x: R) -> R {
    let one = R::of(1.0);
    // With z = |x| / sqrt 2: t = 1 / (1 + z / 2).
    let t = one.div(x.abs().fma(R::of(0.5 * std::f32::consts::FRAC_1_SQRT_2), one));
    // log(erfc(z) / t) + z^2.
    let p = poly(
        t,
        [
            -1.265_441_4,
            0.998_492_54,
            0.387_899_43,
            0.028_358_573,
            0.020_191_5,
            -0.116_778_806,
            -0.651_259_3,
            1.122_409_2,
            -0.666_066_65,
            0.142_194_91,
        ],
    );
    let tail = R::of(0.5).mul(t).mul(exp(x.mul(R::of(-0.5)).fma(x, p)));
    x.mul(R::pick(R::of(0.0).less(x), one.sub(tail), tail))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid<R: Real>(x: R) -> R {
    let one = R::of(1.0);
    one.div(exp(x.mul(R::of(-1.0))).add(one))
}

/// `x * sigmoid(x)`.
#[inline(always)]
pub fn silu<R: Real>(x: R) -> R {
    x.mul(sigmoid(x))
}

/// Above this magnitude [`sin`] and [`cos`] lose digits: callers take `libm` there.
pub const TRIG_LIMIT: f32 = 1e6;

/// Quarter turns (as an integer in the low bits) and what is left of them.
#[inline(always)]
fn quarter_turns<A: Arch>(x: f32) -> (u32, f64) {
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    // pi / 2: 33 bits, and the rest.
    const HIGH: f64 = 1.570_796_326_734_125_6;
    const LOW: f64 = 6.077_100_506_506_192e-11;
    let x = f64::from(x);
    let shifted = fma64::<A>(x, std::f64::consts::FRAC_2_PI, ROUNDER);
    let n = shifted - ROUNDER;
    (shifted.to_bits() as u32, fma64::<A>(n, -LOW, fma64::<A>(n, -HIGH, x)))
}

#[inline(always)]
fn of_quarter<A: Arch>(turns: u32, r: f64) -> f32 {
    let s = r * r;
    // Taylor's coefficients; the next terms are below 2^-27.
    let mut sine = 2.755_731_922_398_589e-6;
    for c in [-1.984_126_984_126_984e-4, 8.333_333_333_333_333e-3, -0.166_666_666_666_666_66, 1.0] {
        sine = fma64::<A>(sine, s, c);
    }
    let mut cosine = -2.755_731_922_398_589e-7;
    for c in [2.480_158_730_158_73e-5, -1.388_888_888_888_889e-3, 4.166_666_666_666_666_4e-2, -0.5, 1.0] {
        cosine = fma64::<A>(cosine, s, c);
    }
    let y = if turns & 1 == 0 { sine * r } else { cosine };
    f32::from_bits((y as f32).to_bits() ^ ((turns & 2) << 30))
}

/// Sine, below [`TRIG_LIMIT`].
#[inline(always)]
pub fn sin<A: Arch>(x: f32) -> f32 {
    let (turns, r) = quarter_turns::<A>(x);
    let y = of_quarter::<A>(turns, r);
    // Keeps the sign of zero.
    if x == 0.0 { x } else { y }
}

/// Cosine, below [`TRIG_LIMIT`].
#[inline(always)]
pub fn cos<A: Arch>(x: f32) -> f32 {
    let (turns, r) = quarter_turns::<A>(x);
    of_quarter::<A>(turns.wrapping_add(1), r)
}

/// The bits of the nearest bf16, ties to even.
#[inline(always)]
pub fn to_bf16(v: f32) -> u16 {
    let bits = v.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let nan = (bits >> 16) | 0x40;
    (if v.is_nan() { nan } else { rounded }) as u16
}

/// The value of a bf16.
#[inline(always)]
pub fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bits of the nearest f16, ties to even.
#[inline(always)]
pub fn to_f16(v: f32) -> u16 {
    let bits = v.to_bits();
    let size = bits & 0x7fff_ffff;
    let sign = (bits >> 16) & 0x8000;
    let normal = size.wrapping_add(0xfff + ((size >> 13) & 1)).wrapping_sub(112 << 23) >> 13;
    // Adding 1/2 leaves the denormal's bits at the end of the mantissa, rounded.
    let denormal = (f32::from_bits(size) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let finite = if size < 0x3880_0000 { denormal } else { normal };
    let finite = if size >= 0x4780_0000 { 0x7c00 } else { finite };
    (sign | if size > 0x7f80_0000 { 0x7e00 } else { finite }) as u16
}

/// The value of an f16.
#[inline(always)]
pub fn from_f16(bits: u16) -> f32 {
    let size = (u32::from(bits) & 0x7fff) << 13;
    let sign = (u32::from(bits) & 0x8000) << 16;
    // The exponent moves from bias 15 to 127; all ones stay all ones.
    let normal = size.wrapping_add(112 << 23);
    let special = size.wrapping_add(224 << 23);
    let denormal = (f32::from_bits(size.wrapping_add(113 << 23)) - f32::from_bits(113 << 23)).to_bits();
    let value = if size < 0x0080_0000 { denormal } else { normal };
    let value = if size >= 0x0f80_0000 { special } else { value };
    f32::from_bits(sign | value)
}

/// `v` as an `f32` rounded to odd: a further rounding to a half type then gives what one rounding of `v` would.
#[inline(always)]
pub fn to_odd(v: f64) -> f32 {
    let nearest = v as f32;
    let exact = f64::from(nearest) == v || v.is_nan();
    let bits = nearest.to_bits();
    let below = if f64::from(nearest).abs() > v.abs() { bits.wrapping_sub(1) } else { bits };
    if exact { nearest } else { f32::from_bits(below | 1) }
}
