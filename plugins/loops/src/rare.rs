//! What models do rarely, one lane after another and the same on every machine: functions through `f64`, integer division
//! and shifts, casts, random numbers.

use crate::graph::{Binary, Dtype, Scalar, Unary};
use crate::math;
use crate::micro::IntBin;

/// A number in the class of a dtype, rounded to the dtype, as bits.
pub fn bits_of(number: Scalar, dtype: Dtype) -> u64 {
    match dtype {
        Dtype::F32 => u64::from((number.to_f64() as f32).to_bits()),
        Dtype::BF16 => u64::from(math::from_bf16(math::to_bf16(math::to_odd(number.to_f64()))).to_bits()),
        Dtype::F16 => u64::from(math::from_f16(math::to_f16(math::to_odd(number.to_f64()))).to_bits()),
        Dtype::F64 => number.to_f64().to_bits(),
        Dtype::Bool => {
            if number.truth() {
                u64::from(u32::MAX)
            } else {
                0
            }
        }
        _ => wrap(number.to_i64(), dtype) as u64,
    }
}

/// An integer brought into the range of its dtype, as its low bits.
#[inline(always)]
pub fn wrap(v: i64, dtype: Dtype) -> i64 {
    match dtype {
        Dtype::I8 => i64::from(v as i8),
        Dtype::I16 => i64::from(v as i16),
        Dtype::I32 => i64::from(v as i32),
        Dtype::U8 => i64::from(v as u8),
        Dtype::U16 => i64::from(v as u16),
        Dtype::U32 => i64::from(v as u32),
        _ => v,
    }
}

/// `v` as an integer as x86 converts: towards zero, the least of 32 or 64 bits where it does not fit.
#[inline(always)]
pub fn cut(v: f64, dtype: Dtype) -> i64 {
    let narrow = !matches!(dtype, Dtype::I64 | Dtype::U32);
    let limit = if narrow { 2_147_483_648.0 } else { 9_223_372_036_854_775_808.0 };
    let least = if narrow { i64::from(i32::MIN) } else { i64::MIN };
    let whole = v.trunc();
    if whole >= -limit && whole < limit { v as i64 } else { least }
}

/// A function of one float.
pub fn slow(op: Unary) -> fn(f64) -> f64 {
    match op {
        Unary::Abs => libm::fabs,
        Unary::Acos => libm::acos,
        Unary::Acosh => libm::acosh,
        Unary::Asin => libm::asin,
        Unary::Asinh => libm::asinh,
        Unary::Atan => libm::atan,
        Unary::Atanh => libm::atanh,
        Unary::Ceil => libm::ceil,
        Unary::Cos => libm::cos,
        Unary::Cosh => libm::cosh,
        Unary::Erf => libm::erf,
        Unary::Erfc => libm::erfc,
        Unary::Exp => libm::exp,
        Unary::Exp2 => libm::exp2,
        Unary::Expm1 => libm::expm1,
        Unary::Floor => libm::floor,
        Unary::Log => libm::log,
        Unary::Log10 => libm::log10,
        Unary::Log1p => libm::log1p,
        Unary::Log2 => libm::log2,
        Unary::Neg => |v| -v,
        Unary::Reciprocal => |v| 1.0 / v,
        Unary::Round => libm::rint,
        Unary::Rsqrt => |v| 1.0 / libm::sqrt(v),
        Unary::Sign => |v| {
            if v > 0.0 {
                1.0
            } else if v < 0.0 {
                -1.0
            } else {
                v
            }
        },
        Unary::Sin => libm::sin,
        Unary::Sinh => libm::sinh,
        Unary::Sqrt => libm::sqrt,
        Unary::Tan => libm::tan,
        Unary::Tanh => libm::tanh,
        Unary::Trunc => libm::trunc,
        // These have no float results; the emitter makes other operations of them.
        Unary::BitwiseNot | Unary::Isfinite | Unary::Signbit => |v| v,
    }
}

/// A function of two floats.
pub fn slow2(op: Binary) -> fn(f64, f64) -> f64 {
    match op {
        Binary::Atan2 => libm::atan2,
        Binary::Copysign => libm::copysign,
        Binary::Fmod => libm::fmod,
        Binary::Remainder => |a, b| {
            let rest = libm::fmod(a, b);
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
        },
        // All others are operations of their own.
        _ => libm::pow,
    }
}

/// An operation of two integers; `None` for a division by zero.
pub fn int(op: IntBin, dtype: Dtype, a: i64, b: i64) -> Option<i64> {
    let bits = dtype.size_bytes() as i64 * 8;
    Some(match op {
        IntBin::And => a & b,
        IntBin::Or => a | b,
        IntBin::Xor => a ^ b,
        IntBin::Shl => {
            if (0..bits).contains(&b) {
                a.wrapping_shl(b as u32)
            } else {
                0
            }
        }
        IntBin::Shr => a >> if (0..bits).contains(&b) { b } else { 63 },
        IntBin::Fmod => return (b != 0).then(|| a.wrapping_rem(b)),
        IntBin::Remainder => {
            if b == 0 {
                return None;
            }
            let rest = a.wrapping_rem(b);
            if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
        }
        IntBin::Pow => power(a, b),
    })
}

/// Wraps; a negative exponent gives what is left of `1 / a^|b|`, zero but for 1 and -1.
fn power(a: i64, b: i64) -> i64 {
    if b < 0 {
        return match a {
            1 => 1,
            -1 => {
                if b & 1 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        };
    }
    let (mut result, mut base, mut left) = (1i64, a, b);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        left >>= 1;
    }
    result
}

/// Four words of the stream of a seed: Philox4x32 of ten rounds on the counter `(low, high, 0, 0)`.
#[inline(always)]
pub fn philox(seed: i64, counter: u64) -> [u32; 4] {
    let (mut k0, mut k1) = (seed as u32, (seed as u64 >> 32) as u32);
    let (mut a, mut b, mut c, mut d) = (counter as u32, (counter >> 32) as u32, 0u32, 0u32);
    for _ in 0..10 {
        let first = u64::from(a) * 0xD251_1F53;
        let second = u64::from(c) * 0xCD9E_8D57;
        (a, b, c, d) =
            ((second >> 32) as u32 ^ b ^ k0, second as u32, (first >> 32) as u32 ^ d ^ k1, first as u32);
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    [a, b, c, d]
}

fn word(seed: i64, position: u64) -> u32 {
    philox(seed, position / 4)[(position % 4) as usize]
}

/// A uniform number in [0, 1) for element `i`, as wide as f32 and the halves draw it.
#[inline(always)]
pub fn unit32(word: u32, dtype: Dtype) -> f32 {
    let bits = match dtype {
        Dtype::F16 => 11,
        Dtype::BF16 => 8,
        _ => 24,
    };
    (word >> (32 - bits)) as f32 * f32::from_bits((127 - bits) << 23)
}

/// A uniform f64 in [0, 1) for element `i`.
pub fn unit64(seed: i64, offset: i64, i: u64) -> f64 {
    let at = (offset as u64).wrapping_add(2 * i);
    let wide = u64::from(word(seed, at)) << 32 | u64::from(word(seed, at.wrapping_add(1)));
    (wide >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// The word of element `i` of a draw of one word an element.
pub fn word32(seed: i64, offset: i64, i: u64) -> u32 {
    word(seed, (offset as u64).wrapping_add(i))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        assert_eq!(philox(0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        let seed = 1_234_567_890_123;
        let units: Vec<f32> = (0..4).map(|i| unit32(word32(seed, 8, i), Dtype::F32)).collect();
        assert!((units[0] - 0.056_900_68).abs() < 1e-7 && (units[1] - 0.949_440_1).abs() < 1e-7, "{units:?}");
        assert_eq!(unit64(seed, 8, 1), 0.811_105_016_639_105_5);
        assert_eq!(unit32(word32(seed, 8, 0), Dtype::BF16), 0.054_687_5);
        assert_eq!(unit32(word32(seed, 8, 1), Dtype::F16), 0.949_218_75);
    }

    #[test]
    fn numbers_are_rounded_to_their_dtype() {
        assert_eq!(bits_of(Scalar::Int(300), Dtype::U8), 44);
        assert_eq!(
            bits_of(Scalar::Float(0.1), Dtype::BF16),
            u64::from(half::bf16::from_f64(0.1).to_f32().to_bits())
        );
        assert_eq!(cut(f64::NAN, Dtype::I32), i64::from(i32::MIN));
        assert_eq!(cut(-1.5, Dtype::I64), -1);
        assert_eq!(int(IntBin::Remainder, Dtype::I64, -7, 3), Some(2));
        assert_eq!(int(IntBin::Fmod, Dtype::I64, 1, 0), None);
    }
}
