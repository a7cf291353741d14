//! Special functions of one or two `f64`, to about 1e-14.
//!
//! Sources of the formulas stand at each. Not here: `erf`, `erfc` and the gamma function itself, which come from `libm`.

use super::value::{Float, Value};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Logarithm of the magnitude of the gamma function.
pub fn lgamma(v: f64) -> f64 {
    if v.is_infinite() { f64::INFINITY } else { libm::lgamma(v) }
}

/// The modified Bessel function of order 0: its power series, whose terms are all positive, and for large arguments
/// the asymptotic one (DLMF 10.25.2, 10.40.1). NaN at the infinities, as ATen has it.
pub fn bessel_i0(v: f64) -> f64 {
    let x = v.abs();
    if !x.is_finite() {
        return f64::NAN;
    }
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    if x <= 30.0 {
        let quarter = x * x / 4.0;
        while term > sum * 1e-18 {
            term *= quarter / (k * k);
            sum += term;
            k += 1.0;
        }
        return sum;
    }
    while term > sum * 1e-18 {
        term *= (2.0 * k - 1.0) * (2.0 * k - 1.0) / (k * 8.0 * x);
        sum += term;
        k += 1.0;
    }
    // Halved, so that e^x overflows only where the result does.
    let half = libm::exp(x / 2.0);
    half / libm::sqrt(2.0 * PI * x) * sum * half
}

/// Derivative of `lgamma`: reflection, recurrence up to 10, then the asymptotic series (DLMF 5.5.4, 5.5.2, 5.11.2).
pub fn digamma(v: f64) -> f64 {
    if v == 0.0 {
        return f64::INFINITY.copysign(-v);
    }
    if v < 0.0 {
        if v.fract() == 0.0 {
            return f64::NAN;
        }
        // The tangent of the fraction alone: v itself may be large.
        return digamma(1.0 - v) - PI / libm::tan(PI * v.fract());
    }
    let (mut x, mut shift) = (v, 0.0);
    while x < 10.0 {
        shift -= 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    const TERMS: [f64; 7] =
        [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0];
    let series = TERMS.iter().rev().fold(0.0, |sum, term| (sum + term) * y);
    shift + libm::log(x) - 0.5 / x - series
}

/// The Hurwitz zeta function `Σ (q + k)^-s`, by Euler and Maclaurin after ten terms (DLMF 25.11.5).
pub fn zeta(s: f64, q: f64) -> f64 {
    if s == 1.0 {
        return f64::INFINITY;
    }
    if s < 1.0 || s.is_nan() || q.is_nan() {
        return f64::NAN;
    }
    if q == f64::INFINITY {
        return 0.0;
    }
    // Minus infinity is its own floor, too.
    if q <= 0.0 && q == q.floor() {
        return f64::INFINITY;
    }
    // A negative base with a power that is no whole number has no real value.
    if q <= 0.0 && s.fract() != 0.0 {
        return f64::NAN;
    }
    let (mut sum, mut base) = (0.0, q);
    let mut n = 0;
    while n < 10 || base <= 9.0 {
        sum += libm::pow(base, -s);
        base += 1.0;
        n += 1;
    }
    sum += libm::pow(base, 1.0 - s) / (s - 1.0) + 0.5 * libm::pow(base, -s);
    // B(2k) / (2k)!
    const TERMS: [f64; 10] = [
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30240.0,
        -1.0 / 1209600.0,
        1.0 / 47900160.0,
        -691.0 / 1307674368000.0,
        1.0 / 74724249600.0,
        -3617.0 / 10670622842880000.0,
        43867.0 / 5109094217170944000.0,
        -174611.0 / 802857662698291200000.0,
    ];
    let mut rising = s * libm::pow(base, -s - 1.0);
    for (k, term) in TERMS.iter().enumerate() {
        sum += term * rising;
        let k = 2.0 * k as f64;
        rising *= (s + k + 1.0) * (s + k + 2.0) / (base * base);
    }
    sum
}

/// Derivative `n` of `digamma` (DLMF 5.15.1).
pub fn polygamma(n: i64, v: f64) -> f64 {
    if n == 0 {
        return digamma(v);
    }
    let order = n as f64;
    let sign = if n % 2 == 1 { 1.0 } else { -1.0 };
    sign * libm::tgamma(order + 1.0) * zeta(order + 1.0, v)
}

/// The quantile of the normal distribution at `p = 1/2 + centred`, where `tail` is the smaller of `p` and `1 - p`
/// (Wichura, algorithm AS 241, 1e-16).
fn quantile(centred: f64, tail: f64) -> f64 {
    const CENTRE: ([f64; 8], [f64; 8]) = (
        [
            3.387_132_872_796_366_5,
            133.141_667_891_784_38,
            1_971.590_950_306_551_3,
            13_731.693_765_509_46,
            45_921.953_931_549_87,
            67_265.770_927_008_7,
            33_430.575_583_588_13,
            2_509.080_928_730_122_7,
        ],
        [
            1.0,
            42.313_330_701_600_91,
            687.187_007_492_057_9,
            5_394.196_021_424_751,
            21_213.794_301_586_597,
            39_307.895_800_092_71,
            28_729.085_735_721_943,
            5_226.495_278_852_854,
        ],
    );
    const NEAR: ([f64; 8], [f64; 8]) = (
        [
            1.423_437_110_749_683_5,
            4.630_337_846_156_546,
            5.769_497_221_460_691,
            3.647_848_324_763_204_5,
            1.270_458_252_452_368_4,
            0.241_780_725_177_450_6,
            0.022_723_844_989_269_184,
            7.745_450_142_783_414e-4,
        ],
        [
            1.0,
            2.053_191_626_637_759,
            1.676_384_830_183_803_8,
            0.689_767_334_985_1,
            0.148_103_976_427_480_08,
            0.015_198_666_563_616_457,
            5.475_938_084_995_345e-4,
            1.050_750_071_644_416_9e-9,
        ],
    );
    const FAR: ([f64; 8], [f64; 8]) = (
        [
            6.657_904_643_501_103,
            5.463_784_911_164_114,
            1.784_826_539_917_291_3,
            0.296_560_571_828_504_87,
            0.026_532_189_526_576_124,
            0.001_242_660_947_388_078_4,
            2.711_555_568_743_487_6e-5,
            2.010_334_399_292_288_1e-7,
        ],
        [
            1.0,
            0.599_832_206_555_888,
            0.136_929_880_922_735_8,
            0.014_875_361_290_850_615,
            7.868_691_311_456_133e-4,
            1.846_318_317_510_054_8e-5,
            1.421_511_758_316_446e-7,
            2.044_263_103_389_939_8e-15,
        ],
    );
    let ratio = |(over, under): ([f64; 8], [f64; 8]), r: f64| {
        let polynomial = |terms: [f64; 8]| terms.iter().rev().fold(0.0, |sum, term| sum * r + term);
        polynomial(over) / polynomial(under)
    };
    if centred.is_nan() || tail.is_nan() || tail < 0.0 {
        return f64::NAN;
    }
    if tail == 0.0 {
        return f64::INFINITY.copysign(centred);
    }
    if centred.abs() <= 0.425 {
        return centred * ratio(CENTRE, 0.180625 - centred * centred);
    }
    let r = libm::sqrt(-libm::log(tail));
    let magnitude = if r <= 5.0 { ratio(NEAR, r - 1.6) } else { ratio(FAR, r - 5.0) };
    magnitude.copysign(centred)
}

/// The quantile of the normal distribution.
pub fn ndtri(p: f64) -> f64 {
    quantile(p - 0.5, p.min(1.0 - p))
}

/// The inverse of `erf`.
pub fn erfinv(v: f64) -> f64 {
    quantile(v / 2.0, (1.0 - v.abs()) / 2.0) * FRAC_1_SQRT_2
}

/// The inverse of `erfc`: `erfinv(1 - v)`, accurate near 0.
pub fn erfcinv(v: f64) -> f64 {
    quantile((1.0 - v) / 2.0, v.min(2.0 - v) / 2.0) * FRAC_1_SQRT_2
}

/// The value of `T` next to `a` in the direction of `b`.
pub fn next_after<T: Float>(a: T, b: T) -> T {
    if a.is_nan() || b.is_nan() {
        return T::from_f64(f64::NAN);
    }
    if a == b {
        return b;
    }
    // Doubling a small step cannot jump over the neighbour: the first that rounds away from `a` is at most one unit.
    let (from, to) = (a.to_f64(), b.to_f64());
    let upward = to > from;
    let mut step = (from.abs() * 2f64.powi(-60)).max(smallest::<T>());
    if from.is_infinite() {
        return largest::<T>(from);
    }
    loop {
        let next = T::from_f64(if upward { from + step } else { from - step });
        if next != a {
            return next;
        }
        step *= 2.0;
    }
}

/// The smallest positive value of a float type.
fn smallest<T: Float>() -> f64 {
    match size_of::<T>() {
        8 => f64::from_bits(1),
        4 => f64::from(f32::from_bits(1)),
        _ if T::DTYPE == half::f16::DTYPE => half::f16::from_bits(1).to_f64(),
        _ => half::bf16::from_bits(1).to_f64(),
    }
}

/// The finite value of the greatest magnitude, with the sign of `like`.
fn largest<T: Float>(like: f64) -> T {
    let magnitude = match size_of::<T>() {
        8 => f64::MAX,
        4 => f64::from(f32::MAX),
        _ if T::DTYPE == half::f16::DTYPE => half::f16::MAX.to_f64(),
        _ => half::bf16::MAX.to_f64(),
    };
    T::from_f64(magnitude.copysign(like))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-13 * expected.abs().max(1e-3), "{found} is not {expected}");
    }

    #[test]
    fn values_from_scipy_hold() {
        close(digamma(1.0), -0.577_215_664_901_532_9);
        close(digamma(-1.5), 0.703_156_640_645_243_2);
        close(digamma(100.25), 4.602_671_243_274_712);
        close(zeta(2.0, 1.0), PI * PI / 6.0);
        close(zeta(4.0, 1.0), PI.powi(4) / 90.0);
        close(polygamma(1, 1.0), PI * PI / 6.0);
        close(bessel_i0(1.0), 1.266_065_877_752_008_4);
        close(bessel_i0(50.0), 2.932_553_783_849_336e20);
        close(ndtri(0.975), 1.959_963_984_540_054);
        close(erfinv(0.5), 0.476_936_276_204_469_9);
        assert_eq!(digamma(0.0), f64::NEG_INFINITY);
        assert!(digamma(-3.0).is_nan());
    }

    #[test]
    fn inverses_undo_erf() {
        for v in [-2.5, -1.0, -0.25, 1e-3, 0.5, 1.5, 2.0] {
            close(erfinv(libm::erf(v)), v);
        }
        for v in [0.5, 1.0, 3.0, 6.0, 20.0] {
            close(erfcinv(libm::erfc(v)), v);
        }
        assert_eq!(erfinv(1.0), f64::INFINITY);
        assert_eq!(erfinv(-1.0), f64::NEG_INFINITY);
        assert!(erfinv(1.5).is_nan());
    }

    #[test]
    fn neighbours_are_next() {
        assert_eq!(next_after(1f32, 2f32).to_bits(), 1f32.to_bits() + 1);
        assert_eq!(next_after(1f32, 0f32).to_bits(), 1f32.to_bits() - 1);
        assert_eq!(next_after(0f64, 1f64).to_bits(), 1);
        let (one, two) = (half::bf16::from_f32(1.0), half::bf16::from_f32(2.0));
        assert_eq!(next_after(one, two).to_bits(), one.to_bits() + 1);
        assert_eq!(next_after(f32::INFINITY, 0.0), f32::MAX);
        assert_eq!(next_after(f32::MAX, f32::INFINITY), f32::INFINITY);
    }
}
