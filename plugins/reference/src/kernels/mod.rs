//! A kernel for each prim that computes, a family a file, as in the host's op table.
//!
//! [`find`] looks one up; [`all`] lists them with the dtypes that their tensors may have, which the manifest repeats
//! (a test holds them equal). To add one: an entry in the family's `KERNELS`, a line in `plugin.toml`.

/// Runs `$body` with `$T` as the type of a dtype's elements, or answers that the dtype is not taken.
macro_rules! with_dtype {
    ($dtype:expr, [$($variant:ident $ty:ty),* $(,)?], $T:ident => $body:expr) => {
        match $dtype {
            $(thunderhead_sdk::Dtype::$variant => {
                type $T = $ty;
                $body
            })*
            other => Err($crate::kernels::not_taken(other)),
        }
    };
}

macro_rules! with_float {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_dtype!($dtype, [F16 half::f16, BF16 half::bf16, F32 f32, F64 f64], $T => $body)
    };
}

macro_rules! with_complex {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_dtype!($dtype, [C64 $crate::kernels::value::C64, C128 $crate::kernels::value::C128], $T => $body)
    };
}

macro_rules! with_int {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_dtype!($dtype, [U8 u8, I8 i8, I16 i16, I32 i32, I64 i64], $T => $body)
    };
}

macro_rules! with_real {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_dtype!(
            $dtype,
            [U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64],
            $T => $body
        )
    };
}

macro_rules! with_real_or_bool {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_dtype!(
            $dtype,
            [Bool thunderhead_sdk::Bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64,
             F16 half::f16, BF16 half::bf16, F32 f32, F64 f64],
            $T => $body
        )
    };
}

macro_rules! with_inexact {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_dtype!(
            $dtype,
            [F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
             C64 $crate::kernels::value::C64, C128 $crate::kernels::value::C128],
            $T => $body
        )
    };
}

macro_rules! with_numeric {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_dtype!(
            $dtype,
            [U8 u8, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
             C64 $crate::kernels::value::C64, C128 $crate::kernels::value::C128],
            $T => $body
        )
    };
}

macro_rules! with_any {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_dtype!(
            $dtype,
            [Bool thunderhead_sdk::Bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64,
             F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
             C64 $crate::kernels::value::C64, C128 $crate::kernels::value::C128],
            $T => $body
        )
    };
}

/// All dtypes, those that are only carried and converted included.
macro_rules! with_every {
    ($dtype:expr, $T:ident => $body:expr) => {
        with_dtype!(
            $dtype,
            [Bool thunderhead_sdk::Bool, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64,
             F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
             C64 $crate::kernels::value::C64, C128 $crate::kernels::value::C128,
             U16 u16, U32 u32, U64 u64,
             F8E4M3FN $crate::kernels::value::F8E4M3Fn, F8E5M2 $crate::kernels::value::F8E5M2,
             F8E4M3FNUZ $crate::kernels::value::F8E4M3Fnuz, F8E5M2FNUZ $crate::kernels::value::F8E5M2Fnuz,
             F8E8M0FNU $crate::kernels::value::F8E8M0Fnu],
            $T => $body
        )
    };
}

/// Runs `$body` with a type of the dtype's size and alignment, for kernels that only move elements.
macro_rules! with_bits {
    ($dtype:expr, $T:ident => $body:expr) => {
        match ($dtype.size_bytes(), $dtype.is_complex()) {
            (1, _) => {
                type $T = u8;
                $body
            }
            (2, _) => {
                type $T = u16;
                $body
            }
            (4, _) => {
                type $T = u32;
                $body
            }
            (8, false) => {
                type $T = u64;
                $body
            }
            (8, true) => {
                type $T = $crate::kernels::value::C64;
                $body
            }
            (16, _) => {
                type $T = $crate::kernels::value::C128;
                $body
            }
            _ => Err($crate::kernels::not_taken($dtype)),
        }
    };
}

mod float8;
mod pool;
mod run;
mod strided;
mod value;

mod complex;
mod convert;
mod gemm;
#[cfg(test)]
mod harness;
mod philox;
mod select;
mod special;

mod conv;
mod creation;
mod indexing;
mod linalg;
mod memory;
mod pointwise;
mod pooling;
mod random;
mod reduction;
mod shape;
mod sort;
mod transform;

pub use run::Made;

use thunderhead_sdk::{Dtype, Error, Op};

/// A prim's kernel.
pub struct Entry {
    /// The prim.
    pub name: &'static str,
    /// What its tensors may be.
    pub dtypes: &'static [Dtype],
    /// Makes the kernel for one call of it.
    pub make: fn(&Op<'_>) -> Result<Made, Error>,
}

/// Lists of dtypes, by the classes of the op table.
pub mod class {
    use thunderhead_sdk::Dtype::{self, *};

    pub const FLOAT: &[Dtype] = &[F16, BF16, F32, F64];
    pub const COMPLEX: &[Dtype] = &[C64, C128];
    pub const INEXACT: &[Dtype] = &[F16, BF16, F32, F64, C64, C128];
    pub const INT: &[Dtype] = &[U8, I8, I16, I32, I64];
    pub const INT_OR_BOOL: &[Dtype] = &[Bool, U8, I8, I16, I32, I64];
    pub const REAL: &[Dtype] = &[U8, I8, I16, I32, I64, F16, BF16, F32, F64];
    pub const REAL_OR_BOOL: &[Dtype] = &[Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64];
    pub const NUMERIC: &[Dtype] = &[U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128];
    /// What is computed with.
    pub const ANY: &[Dtype] = &[Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128];
    /// What is carried and converted, too.
    pub const EVERY: &[Dtype] = Dtype::ALL;
    /// For ops without tensor inputs.
    pub const NONE: &[Dtype] = &[];
}

/// The kernels of all families.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    let families = [
        pointwise::KERNELS,
        memory::KERNELS,
        creation::KERNELS,
        random::KERNELS,
        shape::KERNELS,
        reduction::KERNELS,
        sort::KERNELS,
        indexing::KERNELS,
        linalg::KERNELS,
        conv::KERNELS,
        pooling::KERNELS,
        transform::KERNELS,
    ];
    families.into_iter().flatten()
}

/// The kernel of a prim.
pub fn find(name: &str) -> Option<&'static Entry> {
    all().find(|entry| entry.name == name)
}

/// That this machine computes what every other does: the random stream's published block, and the widest vector loops
/// against the plain ones.
pub fn selftest() -> Result<(), Error> {
    philox::selftest()?;
    gemm::selftest()
}

pub(crate) fn not_taken(dtype: Dtype) -> Error {
    Error::unsupported(format!("no kernel for {dtype}"))
}
