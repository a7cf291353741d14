//! The Rust types that elements are seen as.
//!
//! Invariant: each has the size and alignment that the dtype has in memory. Not here: floats of 8 bits, which have
//! no Rust type; `as_bytes` reaches them.

use super::dtype::Dtype;
use half::{bf16, f16};
use num_complex::Complex;

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that elements of one dtype are seen as.
pub trait Element: Copy + Send + Sync + PartialEq + std::fmt::Debug + sealed::Sealed + 'static {
    /// The dtype.
    const DTYPE: Dtype;
    /// What the element is in memory: itself, but for `bool`, whose byte must be checked before it is one.
    #[doc(hidden)]
    type Raw: Copy;
    #[doc(hidden)]
    fn from_raw(raw: Self::Raw) -> Self;
    /// Whether all of `raw` are values of this type.
    #[doc(hidden)]
    fn all_valid(_raw: &[Self::Raw]) -> bool {
        true
    }
    /// Makes all of `raw` values of this type, leaving those that are alone.
    #[doc(hidden)]
    fn make_valid(_raw: &mut [Self::Raw]) {}
}

macro_rules! elements {
    ($($type:ty => $dtype:ident;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
            type Raw = $type;
            #[inline(always)]
            fn from_raw(raw: $type) -> $type {
                raw
            }
        }
    )*};
}

elements! {
    u8 => U8;
    i8 => I8;
    i16 => I16;
    i32 => I32;
    i64 => I64;
    f16 => F16;
    bf16 => BF16;
    f32 => F32;
    f64 => F64;
    Complex<f32> => C64;
    Complex<f64> => C128;
    u16 => U16;
    u32 => U32;
    u64 => U64;
}

impl sealed::Sealed for bool {}
impl Element for bool {
    const DTYPE: Dtype = Dtype::Bool;
    type Raw = u8;
    #[inline(always)]
    fn from_raw(raw: u8) -> bool {
        raw != 0
    }
    fn all_valid(raw: &[u8]) -> bool {
        raw.iter().fold(0, |seen, byte| seen | byte) <= 1
    }
    fn make_valid(raw: &mut [u8]) {
        raw.iter_mut().for_each(|byte| *byte = u8::from(*byte == 1));
    }
}

/// A bool as its byte: any value but 0 is true. Free of the check that `&[bool]` needs.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Bool(u8);

impl Bool {
    /// As a bool.
    #[inline(always)]
    pub fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Bool {
        Bool(u8::from(value))
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Bool) -> bool {
        self.get() == other.get()
    }
}

impl sealed::Sealed for Bool {}
impl Element for Bool {
    const DTYPE: Dtype = Dtype::Bool;
    type Raw = Bool;
    #[inline(always)]
    fn from_raw(raw: Bool) -> Bool {
        raw
    }
}
