//! Vectors of `f32` lanes: what functions and row kernels are written over, so that several vectors are on their way at
//! once. (A loop over one vector a round, which is what the compiler makes of a long function, waits for each result most
//! of the time: a polynomial in lockstep over four vectors takes about half as long.)
//!
//! [`Real`] is arithmetic, of one number ([`Scalar`]), of a vector, or of several (an array of them). [`Vector`] adds
//! memory. A vector type is used only behind a table that was chosen because the processor has its instructions.

// What pointers owe is said once, at the head of `micro.rs`.
#![allow(clippy::missing_safety_doc)]
// Several arrays go in lockstep.
#![allow(clippy::needless_range_loop)]

use crate::math::{self, Arch};
use std::marker::PhantomData;

/// Numbers that functions compute with, lane by lane.
pub trait Real: Copy {
    type Mask: Copy;
    fn of(v: f32) -> Self;
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn div(self, b: Self) -> Self;
    /// `self * b + c`; rounded once where the processor can.
    fn fma(self, b: Self, c: Self) -> Self;
    fn abs(self) -> Self;
    fn copysign(self, sign: Self) -> Self;
    /// `limit` where that is less; NaN stays.
    fn at_most(self, limit: Self) -> Self;
    /// `limit` where that is greater; NaN stays.
    fn at_least(self, limit: Self) -> Self;
    fn less(self, b: Self) -> Self::Mask;
    fn pick(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// The nearest integer, below 2^22.
    fn nearest(self) -> Self;
    /// `self * 2^n` for an integer `n` from -160 to 160, denormal and infinite results included.
    fn scale(self, n: Self) -> Self;
}

/// A vector in a register.
pub trait Vector: Real {
    const LANES: usize;
    unsafe fn load(a: *const f32) -> Self;
    unsafe fn store(self, d: *mut f32);
    /// The first `n` lanes, `rest` in the others.
    unsafe fn load_part(a: *const f32, n: usize, rest: f32) -> Self;
    unsafe fn store_part(self, d: *mut f32, n: usize);
    /// As the four above, of bf16.
    unsafe fn load_halves(a: *const u16) -> Self;
    unsafe fn store_halves(self, d: *mut u16);
    unsafe fn load_halves_part(a: *const u16, n: usize, rest: f32) -> Self;
    unsafe fn store_halves_part(self, d: *mut u16, n: usize);
    /// Two vectors of bf16 that follow each other: less work than one by one.
    unsafe fn load_half_pair(a: *const u16) -> [Self; 2];
    unsafe fn store_half_pair(pair: [Self; 2], d: *mut u16);
    /// As stores, of whole vectors at aligned places, past the caches. Before others may read them there must be a
    /// [`Vector::fence`].
    unsafe fn stream(self, d: *mut f32);
    unsafe fn stream_half_pair(pair: [Self; 2], d: *mut u16);
    fn fence();
    fn sum(self) -> f32;
    fn greatest(self) -> f32;
}

/// One number, for instructions that the compiler makes vectors of by itself.
#[derive(Clone, Copy)]
pub struct Scalar<A>(pub f32, pub PhantomData<A>);

#[inline(always)]
fn one<A>(v: f32) -> Scalar<A> {
    Scalar(v, PhantomData)
}

/// Adding it rounds to an integer, which then stands in the lowest bits.
const ROUNDER: f32 = 12_582_912.0;

/// `2^k` for `-126 <= k <= 127`.
#[inline(always)]
fn power_of_two(k: i32) -> f32 {
    f32::from_bits((k.wrapping_add(127) as u32) << 23)
}

impl<A: Arch> Real for Scalar<A> {
    type Mask = bool;
    #[inline(always)]
    fn of(v: f32) -> Self {
        one(v)
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        one(self.0 + b.0)
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        one(self.0 - b.0)
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        one(self.0 * b.0)
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        one(self.0 / b.0)
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        one(math::fma::<A>(self.0, b.0, c.0))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        one(self.0.abs())
    }
    #[inline(always)]
    fn copysign(self, sign: Self) -> Self {
        one(self.0.copysign(sign.0))
    }
    #[inline(always)]
    fn at_most(self, limit: Self) -> Self {
        // A comparison in this order keeps NaN.
        if self.0 > limit.0 { limit } else { self }
    }
    #[inline(always)]
    fn at_least(self, limit: Self) -> Self {
        if self.0 < limit.0 { limit } else { self }
    }
    #[inline(always)]
    fn less(self, b: Self) -> bool {
        self.0 < b.0
    }
    #[inline(always)]
    fn pick(mask: bool, yes: Self, no: Self) -> Self {
        if mask { yes } else { no }
    }
    #[inline(always)]
    fn nearest(self) -> Self {
        one((self.0 + ROUNDER) - ROUNDER)
    }
    #[inline(always)]
    fn scale(self, n: Self) -> Self {
        // In two factors, so that neither overflows where the result does not.
        let k = ((n.0 + ROUNDER).to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32);
        let half = k >> 1;
        one(self.0 * power_of_two(half) * power_of_two(k.wrapping_sub(half)))
    }
}

impl<A: Arch> Vector for Scalar<A> {
    const LANES: usize = 1;
    #[inline(always)]
    unsafe fn load(a: *const f32) -> Self {
        // SAFETY: the caller's.
        one(unsafe { *a })
    }
    #[inline(always)]
    unsafe fn store(self, d: *mut f32) {
        // SAFETY: the caller's.
        unsafe { *d = self.0 }
    }
    #[inline(always)]
    unsafe fn load_part(a: *const f32, n: usize, rest: f32) -> Self {
        // SAFETY: the caller's.
        if n == 0 { one(rest) } else { one(unsafe { *a }) }
    }
    #[inline(always)]
    unsafe fn store_part(self, d: *mut f32, n: usize) {
        if n > 0 {
            // SAFETY: the caller's.
            unsafe { *d = self.0 }
        }
    }
    #[inline(always)]
    unsafe fn load_halves(a: *const u16) -> Self {
        // SAFETY: the caller's.
        one(math::from_bf16(unsafe { *a }))
    }
    #[inline(always)]
    unsafe fn store_halves(self, d: *mut u16) {
        // SAFETY: the caller's.
        unsafe { *d = math::to_bf16(self.0) }
    }
    #[inline(always)]
    unsafe fn load_halves_part(a: *const u16, n: usize, rest: f32) -> Self {
        // SAFETY: the caller's.
        if n == 0 { one(rest) } else { one(math::from_bf16(unsafe { *a })) }
    }
    #[inline(always)]
    unsafe fn store_halves_part(self, d: *mut u16, n: usize) {
        if n > 0 {
            // SAFETY: the caller's.
            unsafe { *d = math::to_bf16(self.0) }
        }
    }
    #[inline(always)]
    unsafe fn stream(self, d: *mut f32) {
        // SAFETY: the caller's.
        unsafe { self.store(d) }
    }
    #[inline(always)]
    unsafe fn load_half_pair(a: *const u16) -> [Self; 2] {
        // SAFETY: the caller's.
        unsafe { [Self::load_halves(a), Self::load_halves(a.add(1))] }
    }
    #[inline(always)]
    unsafe fn store_half_pair(pair: [Self; 2], d: *mut u16) {
        // SAFETY: the caller's.
        unsafe {
            pair[0].store_halves(d);
            pair[1].store_halves(d.add(1));
        }
    }
    #[inline(always)]
    unsafe fn stream_half_pair(pair: [Self; 2], d: *mut u16) {
        // SAFETY: the caller's.
        unsafe { Self::store_half_pair(pair, d) }
    }
    #[inline(always)]
    fn fence() {}
    #[inline(always)]
    fn sum(self) -> f32 {
        self.0
    }
    #[inline(always)]
    fn greatest(self) -> f32 {
        self.0
    }
}

macro_rules! lockstep {
    ($($f:ident($($arg:ident),*);)*) => {$(
        #[inline(always)]
        fn $f(mut self $(, $arg: Self)*) -> Self {
            for i in 0..U {
                self[i] = self[i].$f($($arg[i]),*);
            }
            self
        }
    )*};
}

impl<R: Real, const U: usize> Real for [R; U] {
    type Mask = [R::Mask; U];
    #[inline(always)]
    fn of(v: f32) -> Self {
        [R::of(v); U]
    }
    lockstep! {
        add(b);
        sub(b);
        mul(b);
        div(b);
        fma(b, c);
        abs();
        copysign(b);
        at_most(b);
        at_least(b);
        nearest();
        scale(b);
    }
    #[inline(always)]
    fn less(self, b: Self) -> Self::Mask {
        let mut mask = [self[0].less(b[0]); U];
        for i in 1..U {
            mask[i] = self[i].less(b[i]);
        }
        mask
    }
    #[inline(always)]
    fn pick(mask: Self::Mask, yes: Self, mut no: Self) -> Self {
        for i in 0..U {
            no[i] = R::pick(mask[i], yes[i], no[i]);
        }
        no
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::{Real, Vector};
    use std::arch::x86_64::*;

    macro_rules! op {
        ($value:expr) => {
            // SAFETY: the type is used only where the processor has AVX-512 F, BW, DQ and VL (see the head of this file);
            // what pointers owe is the caller's.
            unsafe { $value }
        };
    }

    impl Real for __m512 {
        type Mask = __mmask16;
        #[inline(always)]
        fn of(v: f32) -> Self {
            op!(_mm512_set1_ps(v))
        }
        #[inline(always)]
        fn add(self, b: Self) -> Self {
            op!(_mm512_add_ps(self, b))
        }
        #[inline(always)]
        fn sub(self, b: Self) -> Self {
            op!(_mm512_sub_ps(self, b))
        }
        #[inline(always)]
        fn mul(self, b: Self) -> Self {
            op!(_mm512_mul_ps(self, b))
        }
        #[inline(always)]
        fn div(self, b: Self) -> Self {
            op!(_mm512_div_ps(self, b))
        }
        #[inline(always)]
        fn fma(self, b: Self, c: Self) -> Self {
            op!(_mm512_fmadd_ps(self, b, c))
        }
        #[inline(always)]
        fn abs(self) -> Self {
            op!(_mm512_abs_ps(self))
        }
        #[inline(always)]
        fn copysign(self, sign: Self) -> Self {
            let minus = Self::of(-0.0);
            op!(_mm512_or_ps(_mm512_andnot_ps(minus, self), _mm512_and_ps(minus, sign)))
        }
        // (The second operand is the result where one is NaN.)
        #[inline(always)]
        fn at_most(self, limit: Self) -> Self {
            op!(_mm512_min_ps(limit, self))
        }
        #[inline(always)]
        fn at_least(self, limit: Self) -> Self {
            op!(_mm512_max_ps(limit, self))
        }
        #[inline(always)]
        fn less(self, b: Self) -> __mmask16 {
            op!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(self, b))
        }
        #[inline(always)]
        fn pick(mask: __mmask16, yes: Self, no: Self) -> Self {
            op!(_mm512_mask_blend_ps(mask, no, yes))
        }
        #[inline(always)]
        fn nearest(self) -> Self {
            op!(_mm512_roundscale_ps::<0>(self))
        }
        #[inline(always)]
        fn scale(self, n: Self) -> Self {
            op!(_mm512_scalef_ps(self, n))
        }
    }

    #[inline(always)]
    fn mask(n: usize) -> __mmask16 {
        ((1u32 << n.min(16)) - 1) as __mmask16
    }

    #[inline(always)]
    fn widen(halves: __m256i) -> __m512 {
        op!(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(halves))))
    }

    /// As `math::to_bf16`, in the upper half of each lane.
    #[inline(always)]
    fn rounded(v: __m512) -> __m512i {
        op!({
            let bits = _mm512_castps_si512(v);
            let odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x1_0000));
            let sum = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
            let sum = _mm512_mask_add_epi32(sum, odd, bits, _mm512_set1_epi32(0x8000));
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
            _mm512_mask_or_epi32(sum, nan, bits, _mm512_set1_epi32(0x40_0000))
        })
    }

    #[inline(always)]
    fn narrow(v: __m512) -> __m256i {
        op!(_mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded(v))))
    }

    /// Words of two vectors: `first`, `first + 2`, … of both as one.
    const fn words(first: u16, step: u16) -> [u16; 32] {
        let mut words = [0; 32];
        let mut i = 0;
        while i < 32 {
            words[i] = first + i as u16 * step;
            i += 1;
        }
        words
    }

    /// The upper word of each lane of two vectors.
    static UPPER: [u16; 32] = words(1, 2);
    /// Of 32 words, the first or the second 16, each twice.
    static LOW_TWICE: [u16; 32] = twice(0);
    static HIGH_TWICE: [u16; 32] = twice(16);

    const fn twice(first: u16) -> [u16; 32] {
        let mut words = [0; 32];
        let mut i = 0;
        while i < 32 {
            words[i] = first + i as u16 / 2;
            i += 1;
        }
        words
    }

    #[inline(always)]
    fn pack(pair: [__m512; 2]) -> __m512i {
        op!({
            let which = _mm512_loadu_si512(UPPER.as_ptr().cast());
            _mm512_permutex2var_epi16(rounded(pair[0]), which, rounded(pair[1]))
        })
    }

    impl Vector for __m512 {
        const LANES: usize = 16;
        #[inline(always)]
        unsafe fn load(a: *const f32) -> Self {
            op!(_mm512_loadu_ps(a))
        }
        #[inline(always)]
        unsafe fn store(self, d: *mut f32) {
            op!(_mm512_storeu_ps(d, self))
        }
        #[inline(always)]
        unsafe fn load_part(a: *const f32, n: usize, rest: f32) -> Self {
            op!(_mm512_mask_loadu_ps(Self::of(rest), mask(n), a))
        }
        #[inline(always)]
        unsafe fn store_part(self, d: *mut f32, n: usize) {
            op!(_mm512_mask_storeu_ps(d, mask(n), self))
        }
        #[inline(always)]
        unsafe fn load_halves(a: *const u16) -> Self {
            widen(op!(_mm256_loadu_si256(a.cast())))
        }
        #[inline(always)]
        unsafe fn store_halves(self, d: *mut u16) {
            op!(_mm256_storeu_si256(d.cast(), narrow(self)))
        }
        #[inline(always)]
        unsafe fn load_halves_part(a: *const u16, n: usize, rest: f32) -> Self {
            let v = widen(op!(_mm256_maskz_loadu_epi16(mask(n), a.cast())));
            Self::pick(mask(n), v, Self::of(rest))
        }
        #[inline(always)]
        unsafe fn store_halves_part(self, d: *mut u16, n: usize) {
            op!(_mm256_mask_storeu_epi16(d.cast(), mask(n), narrow(self)))
        }
        #[inline(always)]
        unsafe fn stream(self, d: *mut f32) {
            op!(_mm512_stream_ps(d, self))
        }
        #[inline(always)]
        unsafe fn load_half_pair(a: *const u16) -> [Self; 2] {
            op!({
                let halves = _mm512_loadu_si512(a.cast());
                let part = |which: &[u16; 32]| {
                    let which = _mm512_loadu_si512(which.as_ptr().cast());
                    _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaa_aaaa, which, halves))
                };
                [part(&LOW_TWICE), part(&HIGH_TWICE)]
            })
        }
        #[inline(always)]
        unsafe fn store_half_pair(pair: [Self; 2], d: *mut u16) {
            op!(_mm512_storeu_si512(d.cast(), pack(pair)))
        }
        #[inline(always)]
        unsafe fn stream_half_pair(pair: [Self; 2], d: *mut u16) {
            // Whole lines: half ones are slower than ordinary stores.
            op!(_mm512_stream_si512(d.cast(), pack(pair)))
        }
        #[inline(always)]
        fn fence() {
            op!(_mm_sfence())
        }
        #[inline(always)]
        fn sum(self) -> f32 {
            op!(_mm512_reduce_add_ps(self))
        }
        #[inline(always)]
        fn greatest(self) -> f32 {
            op!(_mm512_reduce_max_ps(self))
        }
    }
}

/// An element in memory: `f32`, or bf16 by its bits. Of vectors that begin `left` elements before the end.
pub trait Cell: Copy {
    unsafe fn vectors<V: Vector, const U: usize>(a: *const Self, left: usize, rest: f32) -> [V; U];
    /// With `stream` past the caches, where the place is aligned.
    unsafe fn put_vectors<V: Vector, const U: usize>(d: *mut Self, v: [V; U], left: usize, stream: bool);
}

impl Cell for f32 {
    #[inline(always)]
    unsafe fn vectors<V: Vector, const U: usize>(a: *const f32, left: usize, rest: f32) -> [V; U] {
        // SAFETY: the caller's: `left` elements are there.
        unsafe {
            if U == 1 && left < V::LANES {
                return [V::load_part(a, left, rest); U];
            }
            let mut v = [V::load(a); U];
            for i in 1..U {
                v[i] = V::load(a.add(i * V::LANES));
            }
            v
        }
    }

    #[inline(always)]
    unsafe fn put_vectors<V: Vector, const U: usize>(d: *mut f32, v: [V; U], left: usize, stream: bool) {
        // SAFETY: the caller's: there is room for `left` elements.
        unsafe {
            if U == 1 && left < V::LANES {
                return v[0].store_part(d, left);
            }
            if U > 1 && stream && d.addr().is_multiple_of(64) {
                for i in 0..U {
                    v[i].stream(d.add(i * V::LANES));
                }
                return;
            }
            for i in 0..U {
                v[i].store(d.add(i * V::LANES));
            }
        }
    }
}

impl Cell for u16 {
    #[inline(always)]
    unsafe fn vectors<V: Vector, const U: usize>(a: *const u16, left: usize, rest: f32) -> [V; U] {
        // SAFETY: the caller's: `left` elements are there.
        unsafe {
            if U == 1 {
                let whole = left >= V::LANES;
                return [if whole { V::load_halves(a) } else { V::load_halves_part(a, left, rest) }; U];
            }
            let mut v = [V::of(0.0); U];
            for i in 0..U / 2 {
                [v[2 * i], v[2 * i + 1]] = V::load_half_pair(a.add(2 * i * V::LANES));
            }
            v
        }
    }

    #[inline(always)]
    unsafe fn put_vectors<V: Vector, const U: usize>(d: *mut u16, v: [V; U], left: usize, stream: bool) {
        // SAFETY: the caller's: there is room for `left` elements.
        unsafe {
            if U == 1 {
                let whole = left >= V::LANES;
                return if whole { v[0].store_halves(d) } else { v[0].store_halves_part(d, left) };
            }
            let past = stream && d.addr().is_multiple_of(64);
            for i in 0..U / 2 {
                let (pair, d) = ([v[2 * i], v[2 * i + 1]], d.add(2 * i * V::LANES));
                if past { V::stream_half_pair(pair, d) } else { V::store_half_pair(pair, d) }
            }
        }
    }
}

/// Blocks of several vectors (one or an even number), then single ones, the last perhaps a part of one: in the body `U` is
/// how many.
macro_rules! sweep {
    // Little is done for each lane, and rows may be as short as two vectors.
    ($v:ty, $n:expr, light, |$at:ident, $left:ident| $body:block) => {{
        let n: usize = $n;
        let mut at = 0;
        sweep!(@whole $v, 4, n, at, |$at, $left| $body);
        sweep!(@whole $v, 2, n, at, |$at, $left| $body);
        sweep!(@last $v, n, at, |$at, $left| $body);
    }};
    // Long chains of operations: more of them at once, and rows may be short here, too.
    ($v:ty, $n:expr, short, |$at:ident, $left:ident| $body:block) => {{
        let n: usize = $n;
        let mut at = 0;
        sweep!(@whole $v, 8, n, at, |$at, $left| $body);
        sweep!(@whole $v, 2, n, at, |$at, $left| $body);
        sweep!(@last $v, n, at, |$at, $left| $body);
    }};
    ($v:ty, $n:expr, |$at:ident, $left:ident| $body:block) => {{
        let n: usize = $n;
        let mut at = 0;
        sweep!(@whole $v, 4, n, at, |$at, $left| $body);
        sweep!(@last $v, n, at, |$at, $left| $body);
    }};
    (@whole $v:ty, $u:literal, $n:ident, $from:ident, |$at:ident, $left:ident| $body:block) => {{
        const U: usize = $u;
        while $from + U * <$v>::LANES <= $n {
            let ($at, $left) = ($from, $n - $from);
            let _ = $left;
            $body;
            $from += U * <$v>::LANES;
        }
    }};
    (@last $v:ty, $n:ident, $from:ident, |$at:ident, $left:ident| $body:block) => {{
        const U: usize = 1;
        while $from < $n {
            let ($at, $left) = ($from, $n - $from);
            $body;
            $from += <$v>::LANES;
        }
    }};
}
pub(crate) use sweep;
