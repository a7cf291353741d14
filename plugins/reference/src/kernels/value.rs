//! The element types that kernels compute on: what each can do, and the exact meaning of conversions.
//!
//! Rules that hold everywhere: half types compute in f32 or wider and round once; integers wrap; float to integer cuts
//! towards zero, and what does not fit becomes what x86 makes of it (the least `i32` or `i64`, then cut to the width),
//! as PyTorch's CPU kernels do. Not here: loops ([`super::strided`]) and functions ([`super::pointwise`]).

use half::{bf16, f16};
use num_complex::Complex;
pub use thunderhead_sdk::Bool;
use thunderhead_sdk::Dtype;

/// Complex of two `f32`.
pub type C64 = Complex<f32>;
/// Complex of two `f64`.
pub type C128 = Complex<f64>;

/// A number argument that keeps its kind, complex ones included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    Int(i64),
    Float(f64),
    Bool(bool),
    Complex(f64, f64),
}

impl Scalar {
    /// The value in an element type, as `prims.convert_element_type` would give it.
    pub fn to<T: Value>(self) -> T {
        match self {
            Scalar::Int(v) => T::from_i64(v),
            Scalar::Float(v) => T::from_f64(v),
            Scalar::Bool(v) => T::from_i64(i64::from(v)),
            Scalar::Complex(re, im) => T::from_c128(C128::new(re, im)),
        }
    }
}

/// A type that elements of one dtype have in memory. Every bit pattern is a value.
pub trait Value: Copy + Default + Send + Sync + PartialEq + std::fmt::Debug + 'static {
    const DTYPE: Dtype;
    fn from_i64(v: i64) -> Self;
    fn from_u64(v: u64) -> Self;
    /// Rounds once.
    fn from_f64(v: f64) -> Self;
    /// Real types take the real part; `bool` is true where either part is not zero.
    fn from_c128(v: C128) -> Self {
        Self::from_f64(v.re)
    }
    /// The widest type of its own category, through which it converts, so that nothing is lost on the way.
    type Via: Via;
    fn via(self) -> Self::Via;
    /// The value in another type.
    #[inline(always)]
    fn convert<R: Value>(self) -> R {
        self.via().to_value()
    }
    /// Not zero.
    fn truth(self) -> bool {
        self != Self::default()
    }
}

/// The widest type of a category.
pub trait Via: Copy + 'static {
    fn to_value<R: Value>(self) -> R;
    /// Many of them, without their type.
    fn tile(values: Vec<Self>) -> Tile
    where
        Self: Sized;
}

/// Values of some category, in its widest type.
pub enum Tile {
    Signed(Vec<i64>),
    Unsigned(Vec<u64>),
    Floats(Vec<f64>),
    Complex(Vec<C128>),
}

macro_rules! via {
    ($($t:ty: $from:ident, $tile:ident;)*) => {$(
        impl Via for $t {
            #[inline(always)]
            fn to_value<R: Value>(self) -> R {
                R::$from(self)
            }
            fn tile(values: Vec<Self>) -> Tile {
                Tile::$tile(values)
            }
        }
    )*};
}

via! {
    i64: from_i64, Signed;
    u64: from_u64, Unsigned;
    f64: from_f64, Floats;
    C128: from_c128, Complex;
}

/// The bytes of a value, followed by zeros.
pub fn bytes_of<T: Value>(v: T) -> [u8; 16] {
    let mut bytes = [0u8; 16];
    // SAFETY: a `Value` is plain data without padding, of at most 16 bytes.
    unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(v) };
    bytes
}

/// The value that these bytes are. Panics where there are too few.
pub fn from_bytes<T: Value>(bytes: &[u8]) -> T {
    assert!(bytes.len() >= size_of::<T>(), "as many bytes as an element has");
    // SAFETY: every bit pattern of that many bytes is a `Value`.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

/// `+ - *` and negation in the type's own precision. For `Bool`: or, exclusive or, and.
pub trait Arith: Value {
    fn one() -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn neg(self) -> Self;
}

/// Floating and complex division; integers towards zero, where the caller has looked for zeros.
pub trait Divide: Arith {
    fn div(self, other: Self) -> Self;
}

/// Types with an order.
pub trait Real: Value {
    fn less(self, other: Self) -> bool;
    fn is_nan(self) -> bool {
        false
    }
    /// The greater one; NaN wins.
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if other.is_nan() || self.less(other) { other } else { self }
    }
    /// The lesser one; NaN wins.
    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        if other.is_nan() || other.less(self) { other } else { self }
    }
    fn least() -> Self;
    fn greatest() -> Self;
}

/// Real floating types, computed in `f64` and rounded once.
pub trait Float: Real + Divide {
    fn to_f64(self) -> f64;
}

/// Complex types, computed in two `f64` and rounded once.
pub trait ComplexValue: Divide {
    type Part: Float;
    fn to_c128(self) -> C128;
    fn re(self) -> Self::Part;
    fn im(self) -> Self::Part;
    fn from_parts(re: Self::Part, im: Self::Part) -> Self;
}

/// Integers, `bool` not counted.
pub trait Int: Real + Divide {
    const BITS: u32;
    fn to_i64(self) -> i64;
    fn rem(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn not(self) -> Self;
}

/// Types that sums, products and means run over: in `i64`, `f64` or two `f64`, rounded once.
pub trait Widen: Value {
    type Wide: Arith + Divide;
    fn widen(self) -> Self::Wide;
}

/// The type in which products of matrices accumulate: `f32` for the halves, `i64` for integers, else its own.
pub trait Product: Value {
    type Acc: Arith;
    fn enter(self) -> Self::Acc;
    fn leave(acc: Self::Acc) -> Self;
}

/// `v` as an integer of `bits` (32 or 64) as x86 converts: towards zero, the least value where it does not fit.
#[inline(always)]
fn cut(v: f64, bits: u32) -> i64 {
    let limit = if bits == 32 { 2147483648.0 } else { 9223372036854775808.0 };
    let least = if bits == 32 { i64::from(i32::MIN) } else { i64::MIN };
    if v.trunc() >= -limit && v.trunc() < limit { v as i64 } else { least }
}

macro_rules! integers {
    ($($t:ident $dtype:ident via $via:ident cut to $cut:literal;)*) => {$(
        impl Value for $t {
            const DTYPE: Dtype = Dtype::$dtype;
            #[inline(always)]
            fn from_i64(v: i64) -> Self {
                v as $t
            }
            #[inline(always)]
            fn from_u64(v: u64) -> Self {
                v as $t
            }
            #[inline(always)]
            fn from_f64(v: f64) -> Self {
                // Above all `i64`, a `u64` still holds it.
                if $t::MAX as u64 == u64::MAX && (9223372036854775808.0..18446744073709551616.0).contains(&v) {
                    return v as u64 as $t;
                }
                cut(v, $cut) as $t
            }
            type Via = $via;
            #[inline(always)]
            fn via(self) -> $via {
                self as $via
            }
        }
        impl Arith for $t {
            #[inline(always)]
            fn one() -> Self {
                1
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
        }
        impl Divide for $t {
            /// Zero by zero, so that no panic is reachable; callers refuse zeros first.
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
        }
        impl Real for $t {
            fn least() -> Self {
                $t::MIN
            }
            fn greatest() -> Self {
                $t::MAX
            }
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
        }
        impl Int for $t {
            const BITS: u32 = $t::BITS;
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn not(self) -> Self {
                !self
            }
        }
        impl Widen for $t {
            type Wide = i64;
            #[inline(always)]
            fn widen(self) -> i64 {
                self as i64
            }
        }
        impl Product for $t {
            type Acc = i64;
            #[inline(always)]
            fn enter(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn leave(acc: i64) -> Self {
                acc as $t
            }
        }
    )*};
}

integers! {
    u8 U8 via u64 cut to 32;
    i8 I8 via i64 cut to 32;
    i16 I16 via i64 cut to 32;
    i32 I32 via i64 cut to 32;
    i64 I64 via i64 cut to 64;
    u16 U16 via u64 cut to 32;
    u32 U32 via u64 cut to 64;
    u64 U64 via u64 cut to 64;
}

impl Value for Bool {
    const DTYPE: Dtype = Dtype::Bool;
    #[inline(always)]
    fn from_i64(v: i64) -> Self {
        Bool::from(v != 0)
    }
    #[inline(always)]
    fn from_u64(v: u64) -> Self {
        Bool::from(v != 0)
    }
    #[inline(always)]
    fn from_f64(v: f64) -> Self {
        Bool::from(v != 0.0)
    }
    #[inline(always)]
    fn from_c128(v: C128) -> Self {
        Bool::from(v.re != 0.0 || v.im != 0.0)
    }
    type Via = i64;
    #[inline(always)]
    fn via(self) -> i64 {
        i64::from(self.get())
    }
}

impl Arith for Bool {
    fn one() -> Self {
        Bool::from(true)
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Bool::from(self.get() | other.get())
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Bool::from(self.get() ^ other.get())
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Bool::from(self.get() & other.get())
    }
    #[inline(always)]
    fn neg(self) -> Self {
        Bool::from(!self.get())
    }
}

impl Real for Bool {
    fn least() -> Self {
        Bool::from(false)
    }
    fn greatest() -> Self {
        Bool::from(true)
    }
    #[inline(always)]
    fn less(self, other: Self) -> bool {
        !self.get() & other.get()
    }
}

impl Widen for Bool {
    type Wide = i64;
    #[inline(always)]
    fn widen(self) -> i64 {
        i64::from(self.get())
    }
}

impl Product for Bool {
    type Acc = i64;
    #[inline(always)]
    fn enter(self) -> i64 {
        self.widen()
    }
    #[inline(always)]
    fn leave(acc: i64) -> Self {
        Bool::from(acc != 0)
    }
}

macro_rules! floats {
    ($($t:ident $dtype:ident computes in $calc:ident: $to_calc:expr, $from_calc:expr, $from_f64:expr;)*) => {$(
        impl Value for $t {
            const DTYPE: Dtype = Dtype::$dtype;
            #[inline(always)]
            fn from_i64(v: i64) -> Self {
                $from_calc(v as $calc)
            }
            #[inline(always)]
            fn from_u64(v: u64) -> Self {
                $from_calc(v as $calc)
            }
            #[inline(always)]
            fn from_f64(v: f64) -> Self {
                $from_f64(v)
            }
            type Via = f64;
            #[inline(always)]
            fn via(self) -> f64 {
                Float::to_f64(self)
            }
        }
        impl Arith for $t {
            #[inline(always)]
            fn one() -> Self {
                $from_calc(1.0)
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                $from_calc($to_calc(self) + $to_calc(other))
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                $from_calc($to_calc(self) - $to_calc(other))
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                $from_calc($to_calc(self) * $to_calc(other))
            }
            #[inline(always)]
            fn neg(self) -> Self {
                -self
            }
        }
        impl Divide for $t {
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                $from_calc($to_calc(self) / $to_calc(other))
            }
        }
        impl Real for $t {
            fn least() -> Self {
                $t::NEG_INFINITY
            }
            fn greatest() -> Self {
                $t::INFINITY
            }
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }
        }
        impl Float for $t {
            #[inline(always)]
            fn to_f64(self) -> f64 {
                $to_calc(self) as f64
            }
        }
        impl Widen for $t {
            type Wide = f64;
            #[inline(always)]
            fn widen(self) -> f64 {
                Float::to_f64(self)
            }
        }
        impl Product for $t {
            type Acc = $calc;
            #[inline(always)]
            fn enter(self) -> $calc {
                $to_calc(self)
            }
            #[inline(always)]
            fn leave(acc: $calc) -> Self {
                $from_calc(acc)
            }
        }
    )*};
}

floats! {
    f16 F16 computes in f32: f16::to_f32, f16::from_f32, |v| f16::from_f32(to_odd(v));
    bf16 BF16 computes in f32: bf16::to_f32, bf16::from_f32, |v| bf16::from_f32(to_odd(v));
    f32 F32 computes in f32: std::convert::identity, std::convert::identity, |v| v as f32;
    f64 F64 computes in f64: std::convert::identity, std::convert::identity, std::convert::identity;
}

/// `v` as an `f32` rounded to odd: a further rounding to a half type then gives what one rounding of `v` would.
#[inline(always)]
fn to_odd(v: f64) -> f32 {
    let nearest = v as f32;
    if f64::from(nearest) == v || v.is_nan() {
        return nearest;
    }
    let below = if f64::from(nearest).abs() > v.abs() { nearest.to_bits() - 1 } else { nearest.to_bits() };
    f32::from_bits(below | 1)
}

macro_rules! complexes {
    ($($t:ident $dtype:ident of $part:ident;)*) => {$(
        impl Value for $t {
            const DTYPE: Dtype = Dtype::$dtype;
            #[inline(always)]
            fn from_i64(v: i64) -> Self {
                Complex::new(v as $part, 0.0)
            }
            #[inline(always)]
            fn from_u64(v: u64) -> Self {
                Complex::new(v as $part, 0.0)
            }
            #[inline(always)]
            fn from_f64(v: f64) -> Self {
                Complex::new(v as $part, 0.0)
            }
            #[inline(always)]
            fn from_c128(v: C128) -> Self {
                Complex::new(v.re as $part, v.im as $part)
            }
            type Via = C128;
            #[inline(always)]
            fn via(self) -> C128 {
                self.to_c128()
            }
        }
        impl Arith for $t {
            #[inline(always)]
            fn one() -> Self {
                Complex::new(1.0, 0.0)
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn neg(self) -> Self {
                -self
            }
        }
        impl Divide for $t {
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                Self::from_c128(divide(self.to_c128(), other.to_c128()))
            }
        }
        impl ComplexValue for $t {
            type Part = $part;
            #[inline(always)]
            fn to_c128(self) -> C128 {
                C128::new(f64::from(self.re), f64::from(self.im))
            }
            #[inline(always)]
            fn re(self) -> $part {
                self.re
            }
            #[inline(always)]
            fn im(self) -> $part {
                self.im
            }
            #[inline(always)]
            fn from_parts(re: $part, im: $part) -> Self {
                Complex::new(re, im)
            }
        }
        impl Widen for $t {
            type Wide = C128;
            #[inline(always)]
            fn widen(self) -> C128 {
                self.to_c128()
            }
        }
        impl Product for $t {
            type Acc = $t;
            #[inline(always)]
            fn enter(self) -> $t {
                self
            }
            #[inline(always)]
            fn leave(acc: $t) -> Self {
                acc
            }
        }
    )*};
}

complexes! {
    C64 C64 of f32;
    C128 C128 of f64;
}

/// Division after scaling the divisor by its larger part, so that squares neither overflow nor vanish.
pub fn divide(a: C128, b: C128) -> C128 {
    let scale = b.re.abs().max(b.im.abs());
    if scale == 0.0
        || !scale.is_finite() && (a.re.is_finite() && a.im.is_finite()) && !b.re.is_nan() && !b.im.is_nan()
    {
        // By zero: what the real divisions say. By infinity: zero.
        return if scale == 0.0 { C128::new(a.re / scale, a.im / scale) } else { C128::new(0.0, 0.0) };
    }
    let (re, im) = (b.re / scale, b.im / scale);
    let norm = re * re + im * im;
    C128::new((a.re * re + a.im * im) / norm / scale, (a.im * re - a.re * im) / norm / scale)
}

/// Floats of 8 bits. They are carried and converted; nothing computes in them.
macro_rules! small_floats {
    ($($t:ident $dtype:ident: $exponent:literal, $fraction:literal, $bias:literal, $kind:expr;)*) => {$(
        #[doc = concat!("`", stringify!($dtype), "`, by its bits.")]
        #[derive(Clone, Copy, Default, PartialEq, Debug)]
        #[repr(transparent)]
        pub struct $t(pub u8);

        impl $t {
            const FORMAT: super::float8::Format =
                super::float8::Format { exponent_bits: $exponent, fraction_bits: $fraction, bias: $bias, kind: $kind };
        }

        impl Value for $t {
            const DTYPE: Dtype = Dtype::$dtype;
            fn from_i64(v: i64) -> Self {
                Self::from_f64(v as f64)
            }
            fn from_u64(v: u64) -> Self {
                Self::from_f64(v as f64)
            }
            fn from_f64(v: f64) -> Self {
                $t(Self::FORMAT.encode(v))
            }
            type Via = f64;
            fn via(self) -> f64 {
                Self::FORMAT.decode(self.0)
            }
        }
    )*};
}

small_floats! {
    F8E4M3Fn F8E4M3FN: 4, 3, 7, super::float8::Kind::FiniteWithNan;
    F8E5M2 F8E5M2: 5, 2, 15, super::float8::Kind::Ieee;
    F8E4M3Fnuz F8E4M3FNUZ: 4, 3, 8, super::float8::Kind::OneZero;
    F8E5M2Fnuz F8E5M2FNUZ: 5, 2, 16, super::float8::Kind::OneZero;
    F8E8M0Fnu F8E8M0FNU: 8, 0, 127, super::float8::Kind::PowersOnly;
}
