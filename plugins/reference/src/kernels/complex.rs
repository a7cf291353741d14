//! Functions of complex numbers that `num-complex` lacks, or computes with overflow or loss where PyTorch does not.

use super::value::{C128, divide};

/// The root with a non-negative real part. Scaled, so that the modulus does not overflow.
pub fn sqrt(v: C128) -> C128 {
    if v.re == 0.0 && v.im == 0.0 {
        return C128::new(0.0, v.im);
    }
    if v.im.is_infinite() {
        return C128::new(f64::INFINITY, v.im);
    }
    if v.re.is_infinite() {
        let still = if v.im.is_nan() { v.im } else { 0.0 };
        return if v.re > 0.0 {
            C128::new(v.re, still.copysign(v.im))
        } else {
            C128::new(still, v.re.abs().copysign(v.im))
        };
    }
    // The half of |v| + |re| is at least as large as either part, and loses nothing to cancellation.
    let (scale, root) = if v.re.abs().max(v.im.abs()) > 1e150 { (0.25, 2.0) } else { (1.0, 1.0) };
    let (re, im) = (v.re * scale, v.im * scale);
    let large = libm::sqrt((libm::hypot(re, im) + re.abs()) / 2.0);
    let small = im / (2.0 * large);
    if re >= 0.0 {
        C128::new(large * root, small * root)
    } else {
        C128::new(small.abs() * root, large.copysign(im) * root)
    }
}

/// `e^v - 1`, accurate near zero.
pub fn expm1(v: C128) -> C128 {
    let half = libm::sin(v.im / 2.0);
    let grown = libm::expm1(v.re);
    // Real part: e^re cos im - 1 = (e^re - 1) cos im - 2 sin²(im / 2).
    C128::new(grown * libm::cos(v.im) - 2.0 * half * half, (grown + 1.0) * libm::sin(v.im))
}

/// `ln(1 + v)`, accurate near zero.
pub fn log1p(v: C128) -> C128 {
    let (x, y) = (v.re, v.im);
    let im = libm::atan2(y, 1.0 + x);
    if x.abs() < 0.5 && y.abs() < 0.5 {
        // |1 + v|² - 1 = x (2 + x) + y².
        return C128::new(0.5 * libm::log1p(x * (2.0 + x) + y * y), im);
    }
    C128::new(libm::log(libm::hypot(1.0 + x, y)), im)
}

/// Hyperbolic tangent; ±1 where its parts would overflow.
pub fn tanh(v: C128) -> C128 {
    if v.re.abs() > 20.0 {
        let tail = 4.0 * libm::exp(-2.0 * v.re.abs());
        let im = if v.im.is_finite() { tail * libm::sin(v.im) * libm::cos(v.im) } else { 0.0 };
        return C128::new(1f64.copysign(v.re), im);
    }
    let (s, c) = (libm::sinh(v.re), libm::cosh(v.re));
    let (sin, cos) = (libm::sin(v.im), libm::cos(v.im));
    let norm = s * s + cos * cos;
    C128::new(s * c / norm, sin * cos / norm)
}

/// Tangent: `-i tanh(i v)`.
pub fn tan(v: C128) -> C128 {
    let turned = tanh(C128::new(-v.im, v.re));
    C128::new(turned.im, -turned.re)
}

/// `a^b`; `a^0` is 1, also for zero.
pub fn pow(a: C128, b: C128) -> C128 {
    let zero = C128::new(0.0, 0.0);
    if b == zero {
        return C128::new(1.0, 0.0);
    }
    if a == zero {
        return if b.re > 0.0 { zero } else { divide(C128::new(1.0, 0.0), zero) };
    }
    // Small whole powers by multiplication keep exact values exact.
    if b.im == 0.0 && b.re.fract() == 0.0 && b.re.abs() <= 16.0 {
        return a.powi(b.re as i32);
    }
    (a.ln() * b).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: C128, re: f64, im: f64) {
        let scale = 1.0 + re.abs().max(im.abs());
        assert!(
            (a.re - re).abs() < 1e-14 * scale && (a.im - im).abs() < 1e-14 * scale,
            "{a} is not {re}+{im}i"
        );
    }

    #[test]
    fn values_from_mpmath_hold() {
        close(sqrt(C128::new(-3.0, 4.0)), 1.0, 2.0);
        close(sqrt(C128::new(-4.0, 0.0)), 0.0, 2.0);
        close(sqrt(C128::new(3e200, 4e200)) / 1e100, 2.0, 1.0);
        close(tanh(C128::new(0.5, 1.0)), 1.0428307283443612, 0.8068774121630852);
        close(tan(C128::new(0.5, 1.0)), 0.19557731006593404, 0.8429662048457831);
        close(tanh(C128::new(1000.0, 1.0)), 1.0, 0.0);
        close(expm1(C128::new(1e-20, 0.0)) * 1e20, 1.0, 0.0);
        close(log1p(C128::new(0.0, 1e-20)) * 1e20, 0.0, 1.0);
        close(pow(C128::new(0.0, 1.0), C128::new(2.0, 0.0)), -1.0, 0.0);
        close(pow(C128::new(0.0, 0.0), C128::new(0.0, 0.0)), 1.0, 0.0);
    }
}
