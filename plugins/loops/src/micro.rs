//! Micro-kernels: one operation on a tile of lanes that lies in cache, as plain loops over functions without branches,
//! compiled once for each set of instructions ([`Table`]).
//!
//! Every function here works on `n` lanes behind raw pointers. What each owes its caller is the same, and stated once:
//! pointers are aligned to their type and valid for `n` lanes (for one, where a [`Shape`] or mask says that the operand is
//! a single number), and what is written overlaps nothing that is read, but where one pointer stands for both. Only
//! `exec.rs` calls them. Values in tiles have one of four types: `f32` (f16, bf16, f32), `f64`, `i64` (integers), `u32`
//! (bool: 0 or all ones). Not here: where pointers come from.

// One contract for all, above.
#![allow(clippy::missing_safety_doc)]
// A micro-kernel takes its operands one by one: they stay in registers.
#![allow(clippy::too_many_arguments, clippy::type_complexity)]

use crate::graph::Dtype;
use crate::math::{self, Arch};
use crate::program::Isa;
use crate::rows::{self, RowCall};
use crate::vector::{Cell, Real, Scalar, Vector, sweep};
use std::marker::PhantomData;

/// What instructions are there beyond the target's own: nothing.
#[derive(Clone, Copy)]
pub struct Portable;
/// With fused multiply-and-add.
#[derive(Clone, Copy)]
pub struct Fused;

/// With vectors of 512 bits, too.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub struct Wide;

impl Arch for Portable {
    const FMA: bool = false;
    type Vector = Scalar<Portable>;
    const IS_WIDE: bool = false;
}
impl Arch for Fused {
    const FMA: bool = true;
    type Vector = Scalar<Fused>;
    const IS_WIDE: bool = false;
}
#[cfg(target_arch = "x86_64")]
impl Arch for Wide {
    const FMA: bool = true;
    type Vector = std::arch::x86_64::__m512;
    const IS_WIDE: bool = true;
}

/// Which operands of a binary operation are single numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// None.
    Lanes,
    /// The second.
    Right,
    /// The first.
    Left,
}

/// Functions of one `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Un32 {
    Neg,
    Abs,
    Sqrt,
    Rsqrt,
    Recip,
    Exp,
    Log,
    Sin,
    Cos,
    Tanh,
    Erf,
    Sigmoid,
    Silu,
    Gelu,
    Floor,
    Ceil,
    Trunc,
    Round,
    Sign,
}

/// Arithmetic of two numbers, of any type of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bin {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
}

/// What only integers and bits have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntBin {
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Fmod,
    Remainder,
    Pow,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Functions of three `f32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tern {
    /// `a * b + c`
    Fma,
    /// `a * b - c`
    MulSub,
    /// `c - a * b`
    NegMulAdd,
    /// `(a - b) * c`
    SubMul,
    /// `(a + b) * c`
    AddMul,
    /// `a * b * c`
    MulMul,
    /// `a + c * (b - a)`, from the nearer end.
    Lerp,
    /// `silu(a) * b`, `c` ignored.
    SiluMul,
    /// `gelu(a + b) * c`
    GeluMul,
    /// `exp(a - b)`, `c` ignored.
    ExpSub,
}

/// Folds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Red {
    Sum,
    Prod,
    Max,
    Min,
    /// Sum of products of two.
    Dot,
}

/// Partial results that a fold along lanes keeps, so that it is vector code in a fixed order.
pub const PARTIALS: usize = 64;

/// A tile's elements in memory: `rows` runs of `n` elements `stride` apart, which begin `step` apart. In a tile all lanes
/// follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    pub n: usize,
    pub stride: isize,
    pub rows: usize,
    pub step: isize,
}

impl Rows {
    /// One run.
    pub fn run(n: usize, stride: isize) -> Rows {
        Rows { n, stride, rows: 1, step: 0 }
    }
}

/// All micro-kernels for one set of instructions.
pub struct Table {
    pub un32: unsafe fn(Un32, *mut f32, *const f32, usize),
    pub bin32: unsafe fn(Bin, Shape, *mut f32, *const f32, *const f32, usize),
    pub bin64: unsafe fn(Bin, Shape, *mut f64, *const f64, *const f64, usize),
    pub bini: unsafe fn(Bin, Shape, *mut i64, *const i64, *const i64, usize),
    pub cmp32: unsafe fn(Cmp, Shape, *mut u32, *const f32, *const f32, usize),
    pub cmp64: unsafe fn(Cmp, Shape, *mut u32, *const f64, *const f64, usize),
    pub cmpi: unsafe fn(Cmp, Shape, *mut u32, *const i64, *const i64, usize),
    pub bits: unsafe fn(IntBin, Shape, *mut u32, *const u32, *const u32, usize),
    pub tern32: unsafe fn(Tern, u8, *mut f32, *const f32, *const f32, *const f32, usize),
    pub sel32: unsafe fn(u8, *mut u32, *const u32, *const u32, *const u32, usize),
    pub sel64: unsafe fn(u8, *mut u64, *const u32, *const u64, *const u64, usize),
    pub fold32: unsafe fn(Red, *mut f32, *const f32, *const f32, usize),
    pub lanes32: unsafe fn(Red, *mut f32, *const f32, *const f32, usize),
    /// As `bin32` and `tern32`, where lanes that are read are bf16 (first flag), or the result is (second), or both; the
    /// first operand is always lanes.
    pub bin_halves: unsafe fn(Bin, Shape, (bool, bool), *mut u8, *const u8, *const u8, usize),
    pub tern_halves: unsafe fn(Tern, u8, bool, *mut u8, *const u16, *const u8, *const u8, usize),
    pub fold_halves: unsafe fn(Red, *mut f32, *const u16, *const u16, usize),
    /// The start of a fold's partial results, and their sum.
    pub start32: unsafe fn(Red, *mut f32),
    pub finish32: unsafe fn(Red, *const f32, *mut f32),
    /// Rows of a run each: see [`Rows`].
    pub load: unsafe fn(Dtype, *mut u8, *const u8, Rows),
    pub store: unsafe fn(Dtype, *mut u8, *const u8, Rows),
    /// Whole rows of functions that are recognised.
    pub rows: unsafe fn(&RowCall),
    /// There are such kernels for these instructions: one number at a time the interpreter's tiles are faster.
    pub has_rows: bool,
}

/// The micro-kernels for a set of instructions that this machine has.
pub fn table(wanted: Option<Isa>) -> (Isa, &'static Table) {
    let wanted = wanted.unwrap_or(Isa::Avx512);
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        if wanted >= Isa::Avx512 && avx2 && avx512 {
            return (Isa::Avx512, &avx512::TABLE);
        }
        if wanted >= Isa::Avx2 && avx2 {
            return (Isa::Avx2, &avx2::TABLE);
        }
    }
    let _ = wanted;
    (Isa::Portable, &portable::TABLE)
}

macro_rules! isa {
    ($name:ident, $arch:ident $(, $features:literal)?) => {
        mod $name {
            use super::*;

            pub static TABLE: Table = Table {
                un32, bin32, bin64, bini, cmp32, cmp64, cmpi, bits, tern32, sel32, sel64, fold32, lanes32,
                bin_halves, tern_halves, fold_halves, start32, finish32, load, store, rows,
                has_rows: <$arch as Arch>::IS_WIDE,
            };

            isa! { @fns $arch, [$($features)?]
                un32(op: Un32, d: *mut f32, a: *const f32, n: usize);
                bin32(op: Bin, shape: Shape, d: *mut f32, a: *const f32, b: *const f32, n: usize);
                bin64(op: Bin, shape: Shape, d: *mut f64, a: *const f64, b: *const f64, n: usize);
                bini(op: Bin, shape: Shape, d: *mut i64, a: *const i64, b: *const i64, n: usize);
                cmp32(op: Cmp, shape: Shape, d: *mut u32, a: *const f32, b: *const f32, n: usize);
                cmp64(op: Cmp, shape: Shape, d: *mut u32, a: *const f64, b: *const f64, n: usize);
                cmpi(op: Cmp, shape: Shape, d: *mut u32, a: *const i64, b: *const i64, n: usize);
                bits(op: IntBin, shape: Shape, d: *mut u32, a: *const u32, b: *const u32, n: usize);
                tern32(op: Tern, single: u8, d: *mut f32, a: *const f32, b: *const f32, c: *const f32, n: usize);
                sel32(single: u8, d: *mut u32, m: *const u32, a: *const u32, b: *const u32, n: usize);
                sel64(single: u8, d: *mut u64, m: *const u32, a: *const u64, b: *const u64, n: usize);
                fold32(op: Red, acc: *mut f32, a: *const f32, b: *const f32, n: usize);
                lanes32(op: Red, acc: *mut f32, a: *const f32, b: *const f32, n: usize);
                bin_halves(op: Bin, shape: Shape, halves: (bool, bool), d: *mut u8, a: *const u8, b: *const u8, n: usize);
                tern_halves(op: Tern, single: u8, out: bool, d: *mut u8, a: *const u16, b: *const u8, c: *const u8, n: usize);
                fold_halves(op: Red, acc: *mut f32, a: *const u16, b: *const u16, n: usize);
                start32(op: Red, acc: *mut f32);
                finish32(op: Red, acc: *const f32, d: *mut f32);
                load(dtype: Dtype, d: *mut u8, a: *const u8, rows: Rows);
                store(dtype: Dtype, d: *mut u8, a: *const u8, rows: Rows);
                rows(call: &RowCall);
            }
        }
    };
    (@fns $arch:ident, $features:tt $($f:ident($($arg:ident: $t:ty),*);)*) => {
        $( isa! { @fn $arch, $features $f($($arg: $t),*) } )*
    };
    (@fn $arch:ident, [$features:literal] $f:ident($($arg:ident: $t:ty),*)) => {
        #[target_feature(enable = $features)]
        unsafe fn $f($($arg: $t),*) {
            // SAFETY: the module's contract; `table` gives it out only where the processor has the features.
            unsafe { generic::$f::<$arch>($($arg),*) }
        }
    };
    (@fn $arch:ident, [] $f:ident($($arg:ident: $t:ty),*)) => {
        unsafe fn $f($($arg: $t),*) {
            // SAFETY: the module's contract.
            unsafe { generic::$f::<$arch>($($arg),*) }
        }
    };
}

isa!(portable, Portable);
#[cfg(target_arch = "x86_64")]
isa!(avx2, Fused, "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt");
#[cfg(target_arch = "x86_64")]
isa!(avx512, Wide, "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl");

/// The loops, without a word on instructions: each is inlined into a function that has some.
mod generic {
    use super::*;

    trait F1<T, R> {
        fn f<A: Arch>(x: T) -> R;
    }
    pub trait F2<T, R> {
        fn f<A: Arch>(x: T, y: T) -> R;
    }
    trait F3 {
        fn f<A: Arch>(x: f32, y: f32, z: f32) -> f32;
    }

    macro_rules! f1 {
        ($($name:ident: $t:ty => $r:ty = |$x:ident| $value:expr;)*) => {$(
            struct $name;
            impl F1<$t, $r> for $name {
                #[inline(always)]
                fn f<A: Arch>($x: $t) -> $r { $value }
            }
        )*};
    }
    macro_rules! f2 {
        ($($name:ident: $t:ty => $r:ty = |$x:ident, $y:ident| $value:expr;)*) => {$(
            pub struct $name;
            impl F2<$t, $r> for $name {
                #[inline(always)]
                fn f<A: Arch>($x: $t, $y: $t) -> $r { $value }
            }
        )*};
    }

    macro_rules! f3 {
        ($($name:ident = |$x:ident, $y:ident, $z:ident| $value:expr;)*) => {$(
            struct $name;
            impl F3 for $name {
                #[inline(always)]
                fn f<A: Arch>($x: f32, $y: f32, $z: f32) -> f32 { $value }
            }
        )*};
    }

    #[inline(always)]
    unsafe fn map1<A: Arch, T: Copy, R: Copy, F: F1<T, R>>(d: *mut R, a: *const T, n: usize) {
        for i in 0..n {
            // SAFETY: the module's contract.
            unsafe { *d.add(i) = F::f::<A>(*a.add(i)) };
        }
    }

    #[inline(always)]
    unsafe fn map2<A: Arch, T: Copy, R: Copy, F: F2<T, R>>(
        shape: Shape,
        d: *mut R,
        a: *const T,
        b: *const T,
        n: usize,
    ) {
        match shape {
            Shape::Lanes => {
                for i in 0..n {
                    // SAFETY: the module's contract.
                    unsafe { *d.add(i) = F::f::<A>(*a.add(i), *b.add(i)) };
                }
            }
            Shape::Right => {
                // SAFETY: the module's contract.
                let b = unsafe { *b };
                for i in 0..n {
                    // SAFETY: the module's contract.
                    unsafe { *d.add(i) = F::f::<A>(*a.add(i), b) };
                }
            }
            Shape::Left => {
                // SAFETY: the module's contract.
                let a = unsafe { *a };
                for i in 0..n {
                    // SAFETY: the module's contract.
                    unsafe { *d.add(i) = F::f::<A>(a, *b.add(i)) };
                }
            }
        }
    }

    f1! {
        Neg: f32 => f32 = |x| -x;
        Abs: f32 => f32 = |x| x.abs();
        Sqrt: f32 => f32 = |x| x.sqrt();
        Rsqrt: f32 => f32 = |x| 1.0 / x.sqrt();
        Recip: f32 => f32 = |x| 1.0 / x;
        Log: f32 => f32 = |x| math::log::<A>(x);
        Sin: f32 => f32 = |x| math::sin::<A>(x);
        Cos: f32 => f32 = |x| math::cos::<A>(x);
        Floor: f32 => f32 = |x| x.floor();
        Ceil: f32 => f32 = |x| x.ceil();
        Trunc: f32 => f32 = |x| x.trunc();
        Round: f32 => f32 = |x| x.round_ties_even();
        Sign: f32 => f32 = |x| if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else { x };
        Same: f32 => f32 = |x| x;
    }

    /// A function of up to three numbers that runs over several vectors in lockstep.
    trait Lockstep {
        fn f<R: Real>(x: R, y: R, z: R) -> R;
    }

    macro_rules! in_lockstep {
        ($($name:ident = |$x:ident, $y:ident, $z:ident| $value:expr;)*) => {$(
            struct $name;
            impl Lockstep for $name {
                #[inline(always)]
                fn f<R: Real>($x: R, $y: R, $z: R) -> R { let _ = ($y, $z); $value }
            }
        )*};
    }

    in_lockstep! {
        Exp = |x, y, z| math::exp(x);
        Tanh = |x, y, z| math::tanh(x);
        Erf = |x, y, z| math::erf(x);
        Sigmoid = |x, y, z| math::sigmoid(x);
        Silu = |x, y, z| math::silu(x);
        Gelu = |x, y, z| math::gelu(x);
        SiluMul = |x, y, z| math::silu(x).mul(y);
        GeluMul = |x, y, z| math::gelu(x.add(y)).mul(z);
        ExpSub = |x, y, z| math::exp(x.sub(y));
    }

    #[inline(always)]
    unsafe fn wide1<A: Arch, F: Lockstep>(d: *mut f32, a: *const f32, n: usize) {
        // SAFETY: the module's contract, handed on.
        unsafe { wide3_of::<A, f32, f32, F, false, true, true>(d, a, a, a, n) }
    }

    /// As `map3`, of lanes that are f32 or bf16.
    #[inline(always)]
    unsafe fn wide3<A: Arch, T: Lane, D: Lane, F: Lockstep>(
        single: u8,
        d: *mut D,
        a: *const T,
        b: *const u8,
        c: *const u8,
        n: usize,
    ) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match single & 7 {
                0 => wide3_of::<A, T, D, F, false, false, false>(d, a, b.cast(), c.cast(), n),
                1 => wide3_of::<A, T, D, F, true, false, false>(d, a, b.cast(), c.cast(), n),
                2 => wide3_of::<A, T, D, F, false, true, false>(d, a, b.cast(), c.cast(), n),
                3 => wide3_of::<A, T, D, F, true, true, false>(d, a, b.cast(), c.cast(), n),
                4 => wide3_of::<A, T, D, F, false, false, true>(d, a, b.cast(), c.cast(), n),
                5 => wide3_of::<A, T, D, F, true, false, true>(d, a, b.cast(), c.cast(), n),
                6 => wide3_of::<A, T, D, F, false, true, true>(d, a, b.cast(), c.cast(), n),
                _ => wide3_of::<A, T, D, F, true, true, true>(d, a, b.cast(), c.cast(), n),
            }
        }
    }

    #[inline(always)]
    unsafe fn wide3_of<
        A: Arch,
        T: Lane,
        D: Lane,
        F: Lockstep,
        const X: bool,
        const Y: bool,
        const Z: bool,
    >(
        d: *mut D,
        a: *const T,
        b: *const T,
        c: *const T,
        n: usize,
    ) {
        if n == 0 {
            return;
        }
        // SAFETY: the module's contract: a single number is an f32, and there is a first lane.
        let single = |at: *const T| unsafe { *at.cast::<f32>() };
        let x = if X { single(a) } else { 0.0 };
        let y = if Y { single(b) } else { 0.0 };
        let z = if Z { single(c) } else { 0.0 };
        if !A::IS_WIDE {
            for i in 0..n {
                let number = |v: f32| Scalar::<A>(v, PhantomData);
                // SAFETY: the module's contract.
                unsafe {
                    let x = if X { x } else { (*a.add(i)).get() };
                    let y = if Y { y } else { (*b.add(i)).get() };
                    let z = if Z { z } else { (*c.add(i)).get() };
                    *d.add(i) = D::put(F::f(number(x), number(y), number(z)).0);
                }
            }
            return;
        }
        type V<A> = <A as Arch>::Vector;
        sweep!(V<A>, n, |at, left| {
            // SAFETY: the module's contract.
            unsafe {
                let x = if X { <[V<A>; U]>::of(x) } else { T::vectors(a.add(at), left, 0.0) };
                let y = if Y { <[V<A>; U]>::of(y) } else { T::vectors(b.add(at), left, 0.0) };
                let z = if Z { <[V<A>; U]>::of(z) } else { T::vectors(c.add(at), left, 0.0) };
                Cell::put_vectors(d.add(at), F::f(x, y, z), left, false);
            }
        });
    }

    /// Lanes beyond the limit of the fast path, done again.
    #[inline(always)]
    unsafe fn repair(d: *mut f32, a: *const f32, n: usize, f: fn(f64) -> f64) {
        let mut largest = 0u32;
        for i in 0..n {
            // SAFETY: the module's contract. (Bits of magnitudes order as the numbers do, NaN above all.)
            largest = largest.max(unsafe { (*a.add(i)).to_bits() } & 0x7fff_ffff);
        }
        if largest <= math::TRIG_LIMIT.to_bits() {
            return;
        }
        for i in 0..n {
            // SAFETY: the module's contract.
            let x = unsafe { *a.add(i) };
            if x.abs() > math::TRIG_LIMIT || x.is_nan() {
                // SAFETY: the module's contract.
                unsafe { *d.add(i) = f(f64::from(x)) as f32 };
            }
        }
    }

    #[inline(always)]
    pub unsafe fn un32<A: Arch>(op: Un32, d: *mut f32, a: *const f32, n: usize) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match op {
                Un32::Neg => map1::<A, _, _, Neg>(d, a, n),
                Un32::Abs => map1::<A, _, _, Abs>(d, a, n),
                Un32::Sqrt => map1::<A, _, _, Sqrt>(d, a, n),
                Un32::Rsqrt => map1::<A, _, _, Rsqrt>(d, a, n),
                Un32::Recip => map1::<A, _, _, Recip>(d, a, n),
                Un32::Exp => wide1::<A, Exp>(d, a, n),
                Un32::Log => map1::<A, _, _, Log>(d, a, n),
                Un32::Sin => {
                    map1::<A, _, _, Sin>(d, a, n);
                    repair(d, a, n, libm::sin);
                }
                Un32::Cos => {
                    map1::<A, _, _, Cos>(d, a, n);
                    repair(d, a, n, libm::cos);
                }
                Un32::Tanh => wide1::<A, Tanh>(d, a, n),
                Un32::Erf => wide1::<A, Erf>(d, a, n),
                Un32::Sigmoid => wide1::<A, Sigmoid>(d, a, n),
                Un32::Silu => wide1::<A, Silu>(d, a, n),
                Un32::Gelu => wide1::<A, Gelu>(d, a, n),
                Un32::Floor => map1::<A, _, _, Floor>(d, a, n),
                Un32::Ceil => map1::<A, _, _, Ceil>(d, a, n),
                Un32::Trunc => map1::<A, _, _, Trunc>(d, a, n),
                Un32::Round => map1::<A, _, _, Round>(d, a, n),
                Un32::Sign => map1::<A, _, _, Sign>(d, a, n),
            }
        }
    }

    macro_rules! arithmetic {
        ($t:ty, $module:ident, |$x:ident, $y:ident| $add:expr, $sub:expr, $mul:expr, $div:expr, $max:expr, $min:expr) => {
            mod $module {
                use super::*;
                f2! {
                    Add: $t => $t = |$x, $y| $add;
                    Sub: $t => $t = |$x, $y| $sub;
                    Mul: $t => $t = |$x, $y| $mul;
                    Div: $t => $t = |$x, $y| $div;
                    Max: $t => $t = |$x, $y| $max;
                    Min: $t => $t = |$x, $y| $min;
                    Eq: $t => u32 = |x, y| mask(x == y);
                    Ne: $t => u32 = |x, y| mask(x != y);
                    Lt: $t => u32 = |x, y| mask(x < y);
                    Le: $t => u32 = |x, y| mask(x <= y);
                    Gt: $t => u32 = |x, y| mask(x > y);
                    Ge: $t => u32 = |x, y| mask(x >= y);
                }

                #[inline(always)]
                pub unsafe fn bin<A: Arch>(
                    op: Bin,
                    s: Shape,
                    d: *mut $t,
                    a: *const $t,
                    b: *const $t,
                    n: usize,
                ) {
                    // SAFETY: the module's contract, handed on.
                    unsafe {
                        match op {
                            Bin::Add => map2::<A, _, _, Add>(s, d, a, b, n),
                            Bin::Sub => map2::<A, _, _, Sub>(s, d, a, b, n),
                            Bin::Mul => map2::<A, _, _, Mul>(s, d, a, b, n),
                            Bin::Div => map2::<A, _, _, Div>(s, d, a, b, n),
                            Bin::Max => map2::<A, _, _, Max>(s, d, a, b, n),
                            Bin::Min => map2::<A, _, _, Min>(s, d, a, b, n),
                        }
                    }
                }

                #[inline(always)]
                pub unsafe fn cmp<A: Arch>(
                    op: Cmp,
                    s: Shape,
                    d: *mut u32,
                    a: *const $t,
                    b: *const $t,
                    n: usize,
                ) {
                    // SAFETY: the module's contract, handed on.
                    unsafe {
                        match op {
                            Cmp::Eq => map2::<A, _, _, Eq>(s, d, a, b, n),
                            Cmp::Ne => map2::<A, _, _, Ne>(s, d, a, b, n),
                            Cmp::Lt => map2::<A, _, _, Lt>(s, d, a, b, n),
                            Cmp::Le => map2::<A, _, _, Le>(s, d, a, b, n),
                            Cmp::Gt => map2::<A, _, _, Gt>(s, d, a, b, n),
                            Cmp::Ge => map2::<A, _, _, Ge>(s, d, a, b, n),
                        }
                    }
                }
            }
        };
    }

    #[inline(always)]
    fn mask(holds: bool) -> u32 {
        if holds { u32::MAX } else { 0 }
    }

    // NaN on either side wins: a false comparison takes the second, which is NaN if the first is not.
    arithmetic!(
        f32,
        of_f32,
        |x, y| x + y,
        x - y,
        x * y,
        x / y,
        if x > y || x.is_nan() { x } else { y },
        if x < y || x.is_nan() { x } else { y }
    );
    arithmetic!(
        f64,
        of_f64,
        |x, y| x + y,
        x - y,
        x * y,
        x / y,
        if x > y || x.is_nan() { x } else { y },
        if x < y || x.is_nan() { x } else { y }
    );
    arithmetic!(
        i64,
        of_i64,
        |x, y| x.wrapping_add(y),
        x.wrapping_sub(y),
        x.wrapping_mul(y),
        if y == 0 { 0 } else { x.wrapping_div(y) },
        if x > y { x } else { y },
        if x < y { x } else { y }
    );

    /// By one number: a quotient from the reciprocal, put right by its remainder, is the rounded one (Markstein), and three
    /// operations take a fraction of a division's time. Zeros and infinities have no remainder that says anything.
    #[inline(always)]
    unsafe fn divide_by<A: Arch>(d: *mut f32, a: *const f32, b: f32, n: usize) {
        let r = 1.0 / b;
        for i in 0..n {
            // SAFETY: the module's contract.
            unsafe {
                let x = *a.add(i);
                let q = x * r;
                let rest = math::fma::<A>(-q, b, x);
                let right = math::fma::<A>(rest, r, q);
                let plain = rest == 0.0 || q.abs() > f32::MAX;
                *d.add(i) = if plain { q } else { right };
            }
        }
    }

    #[inline(always)]
    pub unsafe fn bin32<A: Arch>(op: Bin, s: Shape, d: *mut f32, a: *const f32, b: *const f32, n: usize) {
        if A::FMA && op == Bin::Div && s == Shape::Right {
            // SAFETY: the module's contract: one number.
            let b = unsafe { *b };
            if b.abs() > 1e-18 && b.abs() < 1e18 {
                // SAFETY: the module's contract, handed on.
                return unsafe { divide_by::<A>(d, a, b, n) };
            }
        }
        // SAFETY: the module's contract, handed on.
        unsafe { of_f32::bin::<A>(op, s, d, a, b, n) }
    }

    #[inline(always)]
    pub unsafe fn bin64<A: Arch>(op: Bin, s: Shape, d: *mut f64, a: *const f64, b: *const f64, n: usize) {
        // SAFETY: the module's contract, handed on.
        unsafe { of_f64::bin::<A>(op, s, d, a, b, n) }
    }

    #[inline(always)]
    pub unsafe fn bini<A: Arch>(op: Bin, s: Shape, d: *mut i64, a: *const i64, b: *const i64, n: usize) {
        // SAFETY: the module's contract, handed on.
        unsafe { of_i64::bin::<A>(op, s, d, a, b, n) }
    }

    #[inline(always)]
    pub unsafe fn cmp32<A: Arch>(op: Cmp, s: Shape, d: *mut u32, a: *const f32, b: *const f32, n: usize) {
        // SAFETY: the module's contract, handed on.
        unsafe { of_f32::cmp::<A>(op, s, d, a, b, n) }
    }

    #[inline(always)]
    pub unsafe fn cmp64<A: Arch>(op: Cmp, s: Shape, d: *mut u32, a: *const f64, b: *const f64, n: usize) {
        // SAFETY: the module's contract, handed on.
        unsafe { of_f64::cmp::<A>(op, s, d, a, b, n) }
    }

    #[inline(always)]
    pub unsafe fn cmpi<A: Arch>(op: Cmp, s: Shape, d: *mut u32, a: *const i64, b: *const i64, n: usize) {
        // SAFETY: the module's contract, handed on.
        unsafe { of_i64::cmp::<A>(op, s, d, a, b, n) }
    }

    f2! {
        And: u32 => u32 = |x, y| x & y;
        Or: u32 => u32 = |x, y| x | y;
        Xor: u32 => u32 = |x, y| x ^ y;
    }

    #[inline(always)]
    pub unsafe fn bits<A: Arch>(op: IntBin, s: Shape, d: *mut u32, a: *const u32, b: *const u32, n: usize) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match op {
                IntBin::And => map2::<A, _, _, And>(s, d, a, b, n),
                IntBin::Or => map2::<A, _, _, Or>(s, d, a, b, n),
                _ => map2::<A, _, _, Xor>(s, d, a, b, n),
            }
        }
    }

    f3! {
        Fma3 = |x, y, z| math::fma::<A>(x, y, z);
        MulSub = |x, y, z| math::fma::<A>(x, y, -z);
        NegMulAdd = |x, y, z| math::fma::<A>(-x, y, z);
        SubMul = |x, y, z| (x - y) * z;
        AddMul = |x, y, z| (x + y) * z;
        MulMul = |x, y, z| x * y * z;
        Lerp = |x, y, z| {
            let apart = y - x;
            let near = x + z * apart;
            let far = y - apart * (1.0 - z);
            if z.abs() < 0.5 { near } else { far }
        };
    }

    #[inline(always)]
    unsafe fn map3<A: Arch, F: F3>(
        single: u8,
        d: *mut f32,
        a: *const f32,
        b: *const f32,
        c: *const f32,
        n: usize,
    ) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match single & 7 {
                0 => map3_of::<A, F, false, false, false>(d, a, b, c, n),
                1 => map3_of::<A, F, true, false, false>(d, a, b, c, n),
                2 => map3_of::<A, F, false, true, false>(d, a, b, c, n),
                3 => map3_of::<A, F, true, true, false>(d, a, b, c, n),
                4 => map3_of::<A, F, false, false, true>(d, a, b, c, n),
                5 => map3_of::<A, F, true, false, true>(d, a, b, c, n),
                6 => map3_of::<A, F, false, true, true>(d, a, b, c, n),
                _ => map3_of::<A, F, true, true, true>(d, a, b, c, n),
            }
        }
    }

    #[inline(always)]
    unsafe fn map3_of<A: Arch, F: F3, const X: bool, const Y: bool, const Z: bool>(
        d: *mut f32,
        a: *const f32,
        b: *const f32,
        c: *const f32,
        n: usize,
    ) {
        if n == 0 {
            return;
        }
        // SAFETY: the module's contract; there is a first lane.
        let (x, y, z) = unsafe { (*a, *b, *c) };
        for i in 0..n {
            // SAFETY: the module's contract.
            unsafe {
                let x = if X { x } else { *a.add(i) };
                let y = if Y { y } else { *b.add(i) };
                let z = if Z { z } else { *c.add(i) };
                *d.add(i) = F::f::<A>(x, y, z);
            }
        }
    }

    #[inline(always)]
    pub unsafe fn tern32<A: Arch>(
        op: Tern,
        single: u8,
        d: *mut f32,
        a: *const f32,
        b: *const f32,
        c: *const f32,
        n: usize,
    ) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match op {
                Tern::Fma => map3::<A, Fma3>(single, d, a, b, c, n),
                Tern::MulSub => map3::<A, MulSub>(single, d, a, b, c, n),
                Tern::NegMulAdd => map3::<A, NegMulAdd>(single, d, a, b, c, n),
                Tern::SubMul => map3::<A, SubMul>(single, d, a, b, c, n),
                Tern::AddMul => map3::<A, AddMul>(single, d, a, b, c, n),
                Tern::MulMul => map3::<A, MulMul>(single, d, a, b, c, n),
                Tern::Lerp => map3::<A, Lerp>(single, d, a, b, c, n),
                Tern::SiluMul => wide3::<A, f32, f32, SiluMul>(single, d, a, b.cast(), c.cast(), n),
                Tern::GeluMul => wide3::<A, f32, f32, GeluMul>(single, d, a, b.cast(), c.cast(), n),
                Tern::ExpSub => wide3::<A, f32, f32, ExpSub>(single, d, a, b.cast(), c.cast(), n),
            }
        }
    }

    #[inline(always)]
    unsafe fn select<T: Copy, const X: bool, const Y: bool>(
        d: *mut T,
        m: *const u32,
        a: *const T,
        b: *const T,
        n: usize,
    ) {
        if n == 0 {
            return;
        }
        // SAFETY: the module's contract; there is a first lane.
        let (x, y) = unsafe { (*a, *b) };
        for i in 0..n {
            // SAFETY: the module's contract.
            unsafe {
                let x = if X { x } else { *a.add(i) };
                let y = if Y { y } else { *b.add(i) };
                *d.add(i) = if *m.add(i) != 0 { x } else { y };
            }
        }
    }

    #[inline(always)]
    unsafe fn sel<T: Copy>(single: u8, d: *mut T, m: *const u32, a: *const T, b: *const T, n: usize) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match single & 6 {
                0 => select::<T, false, false>(d, m, a, b, n),
                2 => select::<T, true, false>(d, m, a, b, n),
                4 => select::<T, false, true>(d, m, a, b, n),
                _ => select::<T, true, true>(d, m, a, b, n),
            }
        }
    }

    #[inline(always)]
    pub unsafe fn sel32<A: Arch>(
        single: u8,
        d: *mut u32,
        m: *const u32,
        a: *const u32,
        b: *const u32,
        n: usize,
    ) {
        // SAFETY: the module's contract, handed on.
        unsafe { sel(single, d, m, a, b, n) }
    }

    #[inline(always)]
    pub unsafe fn sel64<A: Arch>(
        single: u8,
        d: *mut u64,
        m: *const u32,
        a: *const u64,
        b: *const u64,
        n: usize,
    ) {
        // SAFETY: the module's contract, handed on.
        unsafe { sel(single, d, m, a, b, n) }
    }

    #[inline(always)]
    fn fold_step<A: Arch>(op: Red, acc: f32, a: f32, b: f32) -> f32 {
        match op {
            Red::Sum => acc + a,
            Red::Prod => acc * a,
            Red::Max => {
                if acc > a || acc.is_nan() {
                    acc
                } else {
                    a
                }
            }
            Red::Min => {
                if acc < a || acc.is_nan() {
                    acc
                } else {
                    a
                }
            }
            Red::Dot => math::fma::<A>(a, b, acc),
        }
    }

    /// Lane `i` joins partial `i mod PARTIALS`.
    #[inline(always)]
    unsafe fn fold_of<A: Arch, T: Lane>(op: Red, acc: *mut f32, a: *const T, b: *const T, n: usize) {
        // SAFETY: the module's contract; `acc` has `PARTIALS` lanes.
        let partials = unsafe { &mut *acc.cast::<[f32; PARTIALS]>() };
        let mut state = *partials;
        let whole = n / PARTIALS * PARTIALS;
        let mut i = 0;
        while i < whole {
            for (j, state) in state.iter_mut().enumerate() {
                // SAFETY: the module's contract.
                *state = unsafe { fold_step::<A>(op, *state, (*a.add(i + j)).get(), (*b.add(i + j)).get()) };
            }
            i += PARTIALS;
        }
        for (j, state) in state.iter_mut().enumerate().take(n - whole) {
            let i = whole + j;
            // SAFETY: the module's contract.
            *state = unsafe { fold_step::<A>(op, *state, (*a.add(i)).get(), (*b.add(i)).get()) };
        }
        *partials = state;
    }

    /// Folds lanes into `PARTIALS` partial results. (`b` is read by `Dot` only, but must be readable.)
    #[inline(always)]
    pub unsafe fn fold32<A: Arch>(op: Red, acc: *mut f32, a: *const f32, b: *const f32, n: usize) {
        // SAFETY: the module's contract, handed on. (The op is constant in each call, so the inner match goes away.)
        unsafe {
            match op {
                Red::Sum => fold_of::<A, f32>(Red::Sum, acc, a, a, n),
                Red::Prod => fold_of::<A, f32>(Red::Prod, acc, a, a, n),
                Red::Max => fold_of::<A, f32>(Red::Max, acc, a, a, n),
                Red::Min => fold_of::<A, f32>(Red::Min, acc, a, a, n),
                Red::Dot => fold_of::<A, f32>(Red::Dot, acc, a, b, n),
            }
        }
    }

    #[inline(always)]
    unsafe fn lanes_of<A: Arch>(op: Red, acc: *mut f32, a: *const f32, b: *const f32, n: usize) {
        for i in 0..n {
            // SAFETY: the module's contract.
            unsafe { *acc.add(i) = fold_step::<A>(op, *acc.add(i), *a.add(i), *b.add(i)) };
        }
    }

    /// Each lane joins its own result.
    #[inline(always)]
    pub unsafe fn lanes32<A: Arch>(op: Red, acc: *mut f32, a: *const f32, b: *const f32, n: usize) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match op {
                Red::Sum => lanes_of::<A>(Red::Sum, acc, a, a, n),
                Red::Prod => lanes_of::<A>(Red::Prod, acc, a, a, n),
                Red::Max => lanes_of::<A>(Red::Max, acc, a, a, n),
                Red::Min => lanes_of::<A>(Red::Min, acc, a, a, n),
                Red::Dot => lanes_of::<A>(Red::Dot, acc, a, b, n),
            }
        }
    }

    /// A lane in memory: f32, or bf16.
    trait Lane: Cell {
        const IS_HALF: bool;
        fn get(self) -> f32;
        fn put(v: f32) -> Self;
    }

    impl Lane for f32 {
        const IS_HALF: bool = false;
        #[inline(always)]
        fn get(self) -> f32 {
            self
        }
        #[inline(always)]
        fn put(v: f32) -> f32 {
            v
        }
    }

    impl Lane for u16 {
        const IS_HALF: bool = true;
        #[inline(always)]
        fn get(self) -> f32 {
            math::from_bf16(self)
        }
        #[inline(always)]
        fn put(v: f32) -> u16 {
            math::to_bf16(v)
        }
    }

    #[inline(always)]
    unsafe fn pair_of<A: Arch, T: Lane, D: Lane, F: F2<f32, f32>>(
        shape: Shape,
        d: *mut u8,
        a: *const u8,
        b: *const u8,
        n: usize,
    ) {
        let (d, a) = (d.cast::<D>(), a.cast::<T>());
        if shape == Shape::Right {
            // SAFETY: the module's contract: one number.
            let b = unsafe { *b.cast::<f32>() };
            for i in 0..n {
                // SAFETY: the module's contract.
                unsafe { *d.add(i) = D::put(F::f::<A>((*a.add(i)).get(), b)) };
            }
            return;
        }
        let b = b.cast::<T>();
        for i in 0..n {
            // SAFETY: the module's contract.
            unsafe { *d.add(i) = D::put(F::f::<A>((*a.add(i)).get(), (*b.add(i)).get())) };
        }
    }

    #[inline(always)]
    pub unsafe fn bin_halves<A: Arch>(
        op: Bin,
        shape: Shape,
        halves: (bool, bool),
        d: *mut u8,
        a: *const u8,
        b: *const u8,
        n: usize,
    ) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match halves {
                (true, true) => bin_typed::<A, u16, u16>(op, shape, d, a, b, n),
                (true, false) => bin_typed::<A, u16, f32>(op, shape, d, a, b, n),
                _ => bin_typed::<A, f32, u16>(op, shape, d, a, b, n),
            }
        }
    }

    #[inline(always)]
    unsafe fn bin_typed<A: Arch, T: Lane, D: Lane>(
        op: Bin,
        s: Shape,
        d: *mut u8,
        a: *const u8,
        b: *const u8,
        n: usize,
    ) {
        if op == Bin::Div && s == Shape::Right && D::IS_HALF {
            // SAFETY: the module's contract: one number.
            let b = unsafe { *b.cast::<f32>() };
            if b.abs() > 1e-18 && b.abs() < 1e18 {
                // What is rounded to eight bits does not notice the last of the quotient's.
                let r = 1.0 / b;
                // SAFETY: the module's contract, handed on.
                return unsafe { pair_of::<A, T, D, of_f32::Mul>(s, d, a, (&raw const r).cast(), n) };
            }
        }
        // SAFETY: the module's contract, handed on.
        unsafe {
            match op {
                Bin::Add => pair_of::<A, T, D, of_f32::Add>(s, d, a, b, n),
                Bin::Sub => pair_of::<A, T, D, of_f32::Sub>(s, d, a, b, n),
                Bin::Mul => pair_of::<A, T, D, of_f32::Mul>(s, d, a, b, n),
                _ => pair_of::<A, T, D, of_f32::Div>(s, d, a, b, n),
            }
        }
    }

    #[inline(always)]
    unsafe fn triple_of<A: Arch, D: Lane, F: F3>(
        single: u8,
        d: *mut D,
        a: *const u16,
        b: *const u8,
        c: *const u8,
        n: usize,
    ) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match single & 6 {
                0 => triple::<A, D, F, false, false>(d, a, b, c, n),
                2 => triple::<A, D, F, true, false>(d, a, b, c, n),
                4 => triple::<A, D, F, false, true>(d, a, b, c, n),
                _ => triple::<A, D, F, true, true>(d, a, b, c, n),
            }
        }
    }

    #[inline(always)]
    unsafe fn triple<A: Arch, D: Lane, F: F3, const Y: bool, const Z: bool>(
        d: *mut D,
        a: *const u16,
        b: *const u8,
        c: *const u8,
        n: usize,
    ) {
        // SAFETY: the module's contract: single numbers are f32.
        let y = if Y { unsafe { *b.cast::<f32>() } } else { 0.0 };
        // SAFETY: as above.
        let z = if Z { unsafe { *c.cast::<f32>() } } else { 0.0 };
        let (b, c) = (b.cast::<u16>(), c.cast::<u16>());
        for i in 0..n {
            // SAFETY: the module's contract.
            unsafe {
                let y = if Y { y } else { (*b.add(i)).get() };
                let z = if Z { z } else { (*c.add(i)).get() };
                *d.add(i) = D::put(F::f::<A>((*a.add(i)).get(), y, z));
            }
        }
    }

    #[inline(always)]
    pub unsafe fn tern_halves<A: Arch>(
        op: Tern,
        single: u8,
        out: bool,
        d: *mut u8,
        a: *const u16,
        b: *const u8,
        c: *const u8,
        n: usize,
    ) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match out {
                true => tern_typed::<A, u16>(op, single, d.cast(), a, b, c, n),
                false => tern_typed::<A, f32>(op, single, d.cast(), a, b, c, n),
            }
        }
    }

    #[inline(always)]
    unsafe fn tern_typed<A: Arch, D: Lane>(
        op: Tern,
        single: u8,
        d: *mut D,
        a: *const u16,
        b: *const u8,
        c: *const u8,
        n: usize,
    ) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match op {
                Tern::Fma => triple_of::<A, D, Fma3>(single, d, a, b, c, n),
                Tern::MulSub => triple_of::<A, D, MulSub>(single, d, a, b, c, n),
                Tern::NegMulAdd => triple_of::<A, D, NegMulAdd>(single, d, a, b, c, n),
                Tern::SubMul => triple_of::<A, D, SubMul>(single, d, a, b, c, n),
                Tern::AddMul => triple_of::<A, D, AddMul>(single, d, a, b, c, n),
                Tern::MulMul => triple_of::<A, D, MulMul>(single, d, a, b, c, n),
                Tern::SiluMul => wide3::<A, u16, D, SiluMul>(single & 6, d, a, b, c, n),
                Tern::GeluMul => wide3::<A, u16, D, GeluMul>(single & 6, d, a, b, c, n),
                Tern::Lerp | Tern::ExpSub => wide3::<A, u16, D, ExpSub>(single & 6, d, a, b, c, n),
            }
        }
    }

    #[inline(always)]
    pub unsafe fn fold_halves<A: Arch>(op: Red, acc: *mut f32, a: *const u16, b: *const u16, n: usize) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match op {
                Red::Max => fold_of::<A, u16>(Red::Max, acc, a, a, n),
                Red::Min => fold_of::<A, u16>(Red::Min, acc, a, a, n),
                Red::Dot => fold_of::<A, u16>(Red::Dot, acc, a, b, n),
                Red::Sum | Red::Prod => fold_of::<A, u16>(Red::Sum, acc, a, a, n),
            }
        }
    }

    #[inline(always)]
    pub unsafe fn rows<A: Arch>(call: &RowCall) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            if A::IS_WIDE {
                rows::rows::<A::Vector>(call);
            }
        }
    }

    #[inline(always)]
    fn identity(op: Red) -> f32 {
        match op {
            Red::Sum | Red::Dot => 0.0,
            Red::Prod => 1.0,
            Red::Max => f32::NEG_INFINITY,
            Red::Min => f32::INFINITY,
        }
    }

    #[inline(always)]
    pub unsafe fn start32<A: Arch>(op: Red, acc: *mut f32) {
        // SAFETY: the module's contract; `acc` has `PARTIALS` lanes.
        unsafe { *acc.cast::<[f32; PARTIALS]>() = [identity(op); PARTIALS] };
    }

    /// Partial results joined in pairs, always in the same order.
    #[inline(always)]
    pub unsafe fn finish32<A: Arch>(op: Red, acc: *const f32, d: *mut f32) {
        // SAFETY: the module's contract; `acc` has `PARTIALS` lanes.
        let state = unsafe { *acc.cast::<[f32; PARTIALS]>() };
        let result = match op {
            Red::Sum | Red::Dot => halved(state, |a, b| a + b),
            Red::Prod => halved(state, |a, b| a * b),
            Red::Max => halved(state, |a, b| if a > b || a.is_nan() { a } else { b }),
            Red::Min => halved(state, |a, b| if a < b || a.is_nan() { a } else { b }),
        };
        // SAFETY: one number.
        unsafe { *d = result };
    }

    #[inline(always)]
    fn halved(mut state: [f32; PARTIALS], join: impl Fn(f32, f32) -> f32) -> f32 {
        for half in [32, 16, 8, 4, 2, 1] {
            for i in 0..half {
                state[i] = join(state[i], state[i + half]);
            }
        }
        state[0]
    }

    f1! {
        FromBf16: u16 => f32 = |x| math::from_bf16(x);
        FromF16: u16 => f32 = |x| math::from_f16(x);
        Same64: f64 => f64 = |x| x;
        SameInt: i64 => i64 = |x| x;
        FromI32: i32 => i64 = |x| i64::from(x);
        FromI16: i16 => i64 = |x| i64::from(x);
        FromI8: i8 => i64 = |x| i64::from(x);
        FromU32: u32 => i64 = |x| i64::from(x);
        FromU16: u16 => i64 = |x| i64::from(x);
        FromU8: u8 => i64 = |x| i64::from(x);
        FromBool: u8 => u32 = |x| mask(x != 0);
        ToBf16: f32 => u16 = |x| math::to_bf16(x);
        ToF16: f32 => u16 = |x| math::to_f16(x);
        ToI32: i64 => i32 = |x| x as i32;
        ToI16: i64 => i16 = |x| x as i16;
        ToI8: i64 => i8 = |x| x as i8;
        ToBool: u32 => u8 = |x| (x & 1) as u8;
    }

    /// As [`map1`], for short runs of whole vectors, whose loop would not pay for its preparations.
    #[inline(always)]
    unsafe fn run<A: Arch, T: Copy, R: Copy, F: F1<T, R>>(d: *mut R, a: *const T, n: usize) {
        const WIDE: usize = 16;
        if n > 8 * WIDE || !n.is_multiple_of(WIDE) {
            // SAFETY: the module's contract, handed on.
            return unsafe { map1::<A, T, R, F>(d, a, n) };
        }
        for at in (0..n).step_by(WIDE) {
            // SAFETY: the module's contract; an array has no alignment of its own.
            unsafe {
                let from: [T; WIDE] = *a.add(at).cast();
                *d.add(at).cast::<[R; WIDE]>() = std::array::from_fn(|i| F::f::<A>(from[i]));
            }
        }
    }

    #[inline(always)]
    unsafe fn read<A: Arch, T: Copy, R: Copy, F: F1<T, R>>(d: *mut u8, a: *const u8, rows: Rows) {
        let (mut d, mut a) = (d.cast::<R>(), a.cast::<T>());
        for _ in 0..rows.rows {
            // SAFETY: the module's contract.
            unsafe {
                match rows.stride {
                    1 => run::<A, T, R, F>(d, a, rows.n),
                    0 => {
                        let v = F::f::<A>(*a);
                        for i in 0..rows.n {
                            *d.add(i) = v;
                        }
                    }
                    stride => {
                        for i in 0..rows.n {
                            *d.add(i) = F::f::<A>(*a.offset(i as isize * stride));
                        }
                    }
                }
            }
            d = d.wrapping_add(rows.n);
            a = a.wrapping_offset(rows.step);
        }
    }

    #[inline(always)]
    unsafe fn write<A: Arch, T: Copy, R: Copy, F: F1<T, R>>(d: *mut u8, a: *const u8, rows: Rows) {
        let (mut d, mut a) = (d.cast::<R>(), a.cast::<T>());
        for _ in 0..rows.rows {
            // SAFETY: the module's contract.
            unsafe {
                if rows.stride == 1 {
                    run::<A, T, R, F>(d, a, rows.n);
                } else {
                    for i in 0..rows.n {
                        *d.offset(i as isize * rows.stride) = F::f::<A>(*a.add(i));
                    }
                }
            }
            d = d.wrapping_offset(rows.step);
            a = a.wrapping_add(rows.n);
        }
    }

    /// Elements of a dtype, as lanes of its type.
    #[inline(always)]
    pub unsafe fn load<A: Arch>(dtype: Dtype, d: *mut u8, a: *const u8, rows: Rows) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match dtype {
                Dtype::F32 => read::<A, f32, f32, Same>(d, a, rows),
                Dtype::BF16 => read::<A, u16, f32, FromBf16>(d, a, rows),
                Dtype::F16 => read::<A, u16, f32, FromF16>(d, a, rows),
                Dtype::F64 => read::<A, f64, f64, Same64>(d, a, rows),
                Dtype::I64 => read::<A, i64, i64, SameInt>(d, a, rows),
                Dtype::I32 => read::<A, i32, i64, FromI32>(d, a, rows),
                Dtype::I16 => read::<A, i16, i64, FromI16>(d, a, rows),
                Dtype::I8 => read::<A, i8, i64, FromI8>(d, a, rows),
                Dtype::U32 => read::<A, u32, i64, FromU32>(d, a, rows),
                Dtype::U16 => read::<A, u16, i64, FromU16>(d, a, rows),
                Dtype::U8 => read::<A, u8, i64, FromU8>(d, a, rows),
                Dtype::Bool => read::<A, u8, u32, FromBool>(d, a, rows),
            }
        }
    }

    /// Lanes as elements of a dtype; integers wrap.
    #[inline(always)]
    pub unsafe fn store<A: Arch>(dtype: Dtype, d: *mut u8, a: *const u8, rows: Rows) {
        // SAFETY: the module's contract, handed on.
        unsafe {
            match dtype {
                Dtype::F32 => write::<A, f32, f32, Same>(d, a, rows),
                Dtype::BF16 => write::<A, f32, u16, ToBf16>(d, a, rows),
                Dtype::F16 => write::<A, f32, u16, ToF16>(d, a, rows),
                Dtype::F64 => write::<A, f64, f64, Same64>(d, a, rows),
                Dtype::I64 => write::<A, i64, i64, SameInt>(d, a, rows),
                Dtype::I32 | Dtype::U32 => write::<A, i64, i32, ToI32>(d, a, rows),
                Dtype::I16 | Dtype::U16 => write::<A, i64, i16, ToI16>(d, a, rows),
                Dtype::I8 | Dtype::U8 => write::<A, i64, i8, ToI8>(d, a, rows),
                Dtype::Bool => write::<A, u32, u8, ToBool>(d, a, rows),
            }
        }
    }
}
