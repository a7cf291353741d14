//! Floats of 8 bits to and from `f64`, from the numbers that describe each format.
//!
//! Encoding rounds to nearest, ties to even, once (powers of two: ties up). What is too large becomes what PyTorch's
//! conversions make of it: the largest value of `f8e4m3fn`, infinity where the format has one, else NaN.

/// What the top of the range and the sign bit mean.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    /// Infinities and NaNs in the highest exponent.
    Ieee,
    /// No infinity; all ones is NaN. Too large a value becomes the largest.
    FiniteWithNan,
    /// No infinity, no negative zero: its bits are the only NaN.
    OneZero,
    /// No sign, no fraction, no zero: powers of two; all ones is NaN.
    PowersOnly,
}

/// One format.
pub struct Format {
    pub exponent_bits: u32,
    pub fraction_bits: u32,
    pub bias: i32,
    pub kind: Kind,
}

impl Format {
    /// The value of `bits`.
    pub fn decode(&self, bits: u8) -> f64 {
        if self.kind == Kind::PowersOnly {
            return if bits == 0xff { f64::NAN } else { power(i32::from(bits) - self.bias) };
        }
        let negative = bits & 0x80 != 0;
        let magnitude = bits & 0x7f;
        let (exponent, fraction) =
            (i32::from(magnitude >> self.fraction_bits), magnitude & ((1 << self.fraction_bits) - 1));
        let top = (1 << self.exponent_bits) - 1;
        match self.kind {
            Kind::FiniteWithNan if magnitude == 0x7f => return f64::NAN,
            Kind::OneZero if bits == 0x80 => return f64::NAN,
            Kind::Ieee if exponent == top && fraction != 0 => return f64::NAN,
            Kind::Ieee if exponent == top => return if negative { f64::NEG_INFINITY } else { f64::INFINITY },
            _ => {}
        }
        let unit = power(exponent.max(1) - self.bias - self.fraction_bits as i32);
        let whole = if exponent == 0 { 0 } else { 1 << self.fraction_bits };
        let value = f64::from(whole + i32::from(fraction)) * unit;
        if negative { -value } else { value }
    }

    /// The bits nearest to `v`.
    pub fn encode(&self, v: f64) -> u8 {
        if self.kind == Kind::PowersOnly {
            return self.encode_power(v);
        }
        let sign = if v.is_sign_negative() { 0x80 } else { 0 };
        if v.is_nan() {
            return if self.kind == Kind::OneZero { 0x80 } else { sign | 0x7f };
        }
        let (beyond, largest) = match self.kind {
            Kind::Ieee => (sign | (((1u8 << self.exponent_bits) - 1) << self.fraction_bits), 0x7b),
            Kind::FiniteWithNan => (sign | 0x7e, 0x7e),
            _ => (0x80, 0x7f),
        };
        if v.is_infinite() {
            return beyond;
        }
        // In units of the last place of v's own exponent, so that rounding is that of an integer.
        let exponent = exponent_of(v).max(1 - self.bias);
        let units = (v.abs() * power(self.fraction_bits as i32 - exponent)).round_ties_even();
        // A carry out of the fraction moves on into the exponent by itself.
        let biased = (exponent + self.bias - 1) as f64 * f64::from(1 << self.fraction_bits);
        let magnitude = biased + units;
        if magnitude > f64::from(largest) {
            return beyond;
        }
        let magnitude = magnitude as u8;
        if magnitude == 0 && self.kind == Kind::OneZero { 0 } else { sign | magnitude }
    }

    fn encode_power(&self, v: f64) -> u8 {
        if !v.is_finite() {
            return 0xff;
        }
        let exponent = exponent_of(v).max(-self.bias);
        let up = v.abs() / power(exponent) >= 1.5;
        (exponent + self.bias + i32::from(up)).clamp(0, 255) as u8
    }
}

/// `2^n`, exact, for any exponent that these formats meet.
fn power(n: i32) -> f64 {
    libm::scalbn(1.0, n)
}

/// The exponent of a finite `v`: `2^e <= |v| < 2^(e+1)`; very low for zero.
fn exponent_of(v: f64) -> i32 {
    if v == 0.0 { -1074 } else { libm::ilogb(v) }
}

#[cfg(test)]
mod tests {
    use super::super::value::{F8E4M3Fn, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0Fnu, Value};

    fn through<T: Value>(v: f64) -> f64 {
        T::from_f64(v).convert::<f64>()
    }

    #[test]
    fn values_round_to_nearest_even() {
        assert_eq!(through::<F8E4M3Fn>(1.0625), 1.0);
        assert_eq!(through::<F8E4M3Fn>(1.1875), 1.25);
        assert_eq!(through::<F8E4M3Fn>(448.0), 448.0);
        assert_eq!(through::<F8E4M3Fn>(480.0), 448.0);
        assert_eq!(through::<F8E4M3Fn>(0.001953125), 0.001953125);
        assert_eq!(through::<F8E5M2>(57344.0), 57344.0);
        assert_eq!(through::<F8E5M2>(1e6), f64::INFINITY);
        assert_eq!(through::<F8E4M3Fnuz>(240.0), 240.0);
        assert_eq!(F8E4M3Fnuz::from_f64(-0.0).0, 0);
        assert_eq!(through::<F8E5M2Fnuz>(-57344.0), -57344.0);
        assert!(through::<F8E4M3Fnuz>(464.0).is_nan());
        assert_eq!(through::<F8E8M0Fnu>(3.0), 4.0);
        assert_eq!(through::<F8E8M0Fnu>(-2.0), 2.0);
    }

    #[test]
    fn every_pattern_survives_a_round_trip() {
        for bits in 0..=255u8 {
            let there = F8E4M3Fn(bits).convert::<f64>();
            assert!(there.is_nan() || F8E4M3Fn::from_f64(there).0 == bits, "e4m3fn {bits:#x}");
            let there = F8E5M2(bits).convert::<f64>();
            assert!(there.is_nan() || F8E5M2::from_f64(there).0 == bits, "e5m2 {bits:#x}");
            let there = F8E4M3Fnuz(bits).convert::<f64>();
            assert!(there.is_nan() || F8E4M3Fnuz::from_f64(there).0 == bits, "e4m3fnuz {bits:#x}");
            let there = F8E5M2Fnuz(bits).convert::<f64>();
            assert!(there.is_nan() || F8E5M2Fnuz::from_f64(there).0 == bits, "e5m2fnuz {bits:#x}");
            let there = F8E8M0Fnu(bits).convert::<f64>();
            assert!(there.is_nan() || F8E8M0Fnu::from_f64(there).0 == bits, "e8m0fnu {bits:#x}");
        }
    }
}
