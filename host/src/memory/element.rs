//! Rust types that are elements of tensors.

use crate::ir::Dtype;
use half::{bf16, f16};

/// A plain element type; every bit pattern of its size is a value, except for `bool`, whose tensors are checked.
///
/// # Safety
/// The type has no padding, no invalid bit pattern that [`super::Tensor`] does not check for, and `DTYPE`'s size.
pub unsafe trait Element: Copy + 'static {
    /// The dtype of tensors of it.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($t:ty => $d:ident),*) => {
        $(
            // SAFETY: plain old data of the dtype's size.
            unsafe impl Element for $t {
                const DTYPE: Dtype = Dtype::$d;
            }
        )*
    };
}

elements!(bool => Bool, u8 => U8, i8 => I8, i16 => I16, i32 => I32, i64 => I64, f16 => F16, bf16 => Bf16, f32 => F32,
    f64 => F64, u16 => U16, u32 => U32, u64 => U64);
