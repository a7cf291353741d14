//! Whole rows in one call: softmax, log-softmax, RMS and layer norms, whose passes the interpreter would take a step at a
//! time. The lowering recognises them (`lower.rs`); results are stored once, rows and buffers stay in the nearest cache.

// What pointers owe is said at the head of `micro.rs`, and at `Rows`.
#![allow(clippy::missing_safety_doc)]
// Several arrays go in lockstep.
#![allow(clippy::needless_range_loop)]

use crate::math;
use crate::vector::{Cell, Real, Vector, sweep};

/// Which function of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `exp(x - max) / Σ`
    Softmax,
    /// `x - max - log Σ exp(x - max)`
    LogSoftmax,
    /// `x * rsqrt(Σ x² * scale + epsilon) * w`
    RmsNorm,
    /// `(x + y - mean) * rsqrt(Σ (x + y - mean)² * scale + epsilon) * w + b`, the mean `Σ (x + y) / n`.
    LayerNorm,
    /// `x`, of any dtype.
    Copy,
    /// `x * y + w`
    MulAdd,
    /// `x * y + w * b`
    MulAddMul,
    /// `x * y - w * b`
    MulSubMul,
    /// `silu(x) * y`
    SiluMul,
    /// `gelu(x + y) * w`
    GeluMul,
}

impl Kind {
    pub fn has_buffer(self) -> bool {
        matches!(self, Kind::Softmax | Kind::LayerNorm)
    }

    /// Work an element, in steps of the interpreter.
    pub fn steps(self) -> usize {
        match self {
            Kind::Softmax | Kind::LogSoftmax | Kind::LayerNorm | Kind::GeluMul => 4,
            _ => 2,
        }
    }
}

pub const ABSENT: Operand = Operand { at: std::ptr::null(), step: 0 };

/// An operand: its first element in the first row, and how many elements further the next row begins.
#[derive(Clone, Copy)]
pub struct Operand {
    pub at: *const u8,
    pub step: isize,
}

/// A call: `rows` rows of `n` neighbours each. Absent operands are null. `buffer` has room for a row of
/// `f32` where the function has one.
#[derive(Clone, Copy)]
pub struct RowCall {
    pub kind: Kind,
    /// Bytes of an element; whether it is bf16 (else f32, but for copies).
    pub size: usize,
    pub halves: bool,
    pub rows: usize,
    pub n: usize,
    pub scale: f32,
    pub epsilon: f32,
    pub x: Operand,
    pub y: Operand,
    pub w: Operand,
    pub b: Operand,
    pub out: Operand,
    pub buffer: *mut f32,
    /// Past the caches.
    pub stream: bool,
}

/// Each row's operands. (A macro: a closure might become a function of its own, without the instructions of its caller.)
macro_rules! each_row {
    ($call:expr, |[$x:pat, $y:pat, $w:pat, $b:pat], $out:ident| $body:expr) => {{
        let operands = [&$call.x, &$call.y, &$call.w, &$call.b];
        let mut all = operands.map(|operand| operand.at.cast::<T>());
        let steps = operands.map(|operand| operand.step);
        let mut out = $call.out.at.cast::<T>().cast_mut();
        for _ in 0..$call.rows {
            let ([$x, $y, $w, $b], $out) = (all, out);
            $body;
            for i in 0..4 {
                all[i] = all[i].wrapping_offset(steps[i]);
            }
            out = out.wrapping_offset($call.out.step);
        }
    }};
}

#[inline(always)]
pub unsafe fn rows<V: Vector>(call: &RowCall) {
    // A copy that no pointer to elements may lead to, so that its numbers stay in registers.
    let call = &{ *call };
    // SAFETY: the caller's.
    unsafe {
        match (call.kind, call.halves) {
            (Kind::Copy, _) => copies::<V>(call),
            (_, true) => typed::<V, u16>(call),
            (_, false) => typed::<V, f32>(call),
        }
    }
    if call.stream {
        V::fence();
    }
}

#[inline(always)]
unsafe fn copies<V: Vector>(call: &RowCall) {
    let (bytes, stream) = (call.n * call.size, call.stream);
    let (mut x, mut out) = (call.x.at, call.out.at.cast_mut());
    let step = |operand: &Operand| operand.step * call.size as isize;
    let (x_step, out_step) = (step(&call.x), step(&call.out));
    let whole = bytes.is_multiple_of(4);
    for _ in 0..call.rows {
        // SAFETY: the caller's, of this row; vectors are bits, whatever the dtype.
        unsafe {
            if whole {
                let (x, out) = (x.cast::<f32>(), out.cast::<f32>());
                sweep!(V, bytes / 4, light, |at, left| {
                    let v: [V; U] = f32::vectors(x.add(at), left, 0.0);
                    f32::put_vectors(out.add(at), v, left, stream);
                });
            } else {
                x.copy_to(out, bytes);
            }
        }
        x = x.wrapping_offset(x_step);
        out = out.wrapping_offset(out_step);
    }
}

#[inline(always)]
unsafe fn typed<V: Vector, T: Cell>(call: &RowCall) {
    // SAFETY: the caller's.
    unsafe {
        match call.kind {
            Kind::Softmax => each_row!(call, |[x, _, _, _], out| softmax::<V, T>(call, x, out)),
            Kind::LogSoftmax => each_row!(call, |[x, _, _, _], out| log_softmax::<V, T>(call, x, out)),
            Kind::RmsNorm => each_row!(call, |[x, _, w, _], out| rms_norm::<V, T>(call, x, w, out)),
            Kind::LayerNorm if call.y.at.is_null() => {
                each_row!(call, |[x, y, w, b], out| layer_norm::<V, T, false>(call, [x, y, w, b], out));
            }
            Kind::LayerNorm => {
                each_row!(call, |[x, y, w, b], out| layer_norm::<V, T, true>(call, [x, y, w, b], out));
            }
            Kind::MulAdd => map::<V, T, MulAdd>(call),
            Kind::MulAddMul => map::<V, T, MulAddMul>(call),
            Kind::MulSubMul => map::<V, T, MulSubMul>(call),
            Kind::SiluMul => map::<V, T, SiluMul>(call),
            Kind::GeluMul => map::<V, T, GeluMul>(call),
            Kind::Copy => {}
        }
    }
}

/// A function of lanes.
trait Lanes {
    const OPERANDS: usize;
    fn f<R: Real>(x: R, y: R, w: R, b: R) -> R;
}

macro_rules! lanes {
    ($($name:ident, $n:literal = |$x:ident, $y:ident, $w:ident, $b:ident| $value:expr;)*) => {$(
        struct $name;
        impl Lanes for $name {
            const OPERANDS: usize = $n;
            #[inline(always)]
            fn f<R: Real>($x: R, $y: R, $w: R, $b: R) -> R { let _ = ($w, $b); $value }
        }
    )*};
}

lanes! {
    MulAdd, 3 = |x, y, w, b| x.fma(y, w);
    MulAddMul, 4 = |x, y, w, b| x.fma(y, w.mul(b));
    MulSubMul, 4 = |x, y, w, b| x.fma(y, w.mul(b).mul(R::of(-1.0)));
    SiluMul, 2 = |x, y, w, b| math::silu(x).mul(y);
    GeluMul, 3 = |x, y, w, b| math::gelu(x.add(y)).mul(w);
}

#[inline(always)]
unsafe fn map<V: Vector, T: Cell, F: Lanes>(call: &RowCall) {
    // SAFETY: the caller's.
    unsafe {
        each_row!(call, |[x, y, w, b], out| {
            sweep!(V, call.n, short, |at, left| {
                let x: [V; U] = T::vectors(x.add(at), left, 0.0);
                let y = T::vectors(y.add(at), left, 0.0);
                let w = if F::OPERANDS > 2 { T::vectors(w.add(at), left, 0.0) } else { x };
                let b = if F::OPERANDS > 3 { T::vectors(b.add(at), left, 0.0) } else { x };
                T::put_vectors(out.add(at), F::f(x, y, w, b), left, call.stream);
            });
        });
    }
}

/// Four partial results as one.
#[inline(always)]
fn total<V: Vector>(sum: [V; 4]) -> f32 {
    sum[0].add(sum[1]).add(sum[2].add(sum[3])).sum()
}

/// The greatest, or anything at all where there is a NaN: whoever asks subtracts it from every lane, so NaN comes up again.
#[inline(always)]
unsafe fn greatest<V: Vector, T: Cell>(x: *const T, n: usize) -> f32 {
    let mut most = [V::of(f32::NEG_INFINITY); 4];
    sweep!(V, n, |at, left| {
        // SAFETY: lanes of the row.
        let v = unsafe { T::vectors::<V, U>(x.add(at), left, f32::NEG_INFINITY) };
        for i in 0..U {
            most[i] = most[i].at_least(v[i]);
        }
    });
    most[0].at_least(most[1]).at_least(most[2].at_least(most[3])).greatest()
}

#[inline(always)]
unsafe fn softmax<V: Vector, T: Cell>(call: &RowCall, x: *const T, out: *mut T) {
    // SAFETY: the row.
    let most = unsafe { greatest::<V, T>(x, call.n) };
    let mut sum = [V::of(0.0); 4];
    sweep!(V, call.n, |at, left| {
        // SAFETY: lanes of the row and the buffer.
        unsafe {
            let v = T::vectors::<V, U>(x.add(at), left, f32::NEG_INFINITY);
            let e = math::exp(v.sub(Real::of(most)));
            f32::put_vectors(call.buffer.add(at), e, left, false);
            for i in 0..U {
                // Lanes beyond the row are NaN where the greatest is -inf, and so is the row.
                sum[i] = sum[i].add(e[i]);
            }
        }
    });
    let scale = 1.0 / total(sum);
    sweep!(V, call.n, |at, left| {
        // SAFETY: lanes of the buffer and the row.
        unsafe {
            let e = f32::vectors::<V, U>(call.buffer.add(at), left, 0.0);
            T::put_vectors(out.add(at), e.mul(Real::of(scale)), left, call.stream);
        }
    });
}

#[inline(always)]
unsafe fn log_softmax<V: Vector, T: Cell>(call: &RowCall, x: *const T, out: *mut T) {
    // SAFETY: the row.
    let most = unsafe { greatest::<V, T>(x, call.n) };
    let mut sum = [V::of(0.0); 4];
    sweep!(V, call.n, |at, left| {
        // SAFETY: lanes of the row.
        let v = unsafe { T::vectors::<V, U>(x.add(at), left, f32::NEG_INFINITY) };
        let e = math::exp(v.sub(Real::of(most)));
        for i in 0..U {
            sum[i] = sum[i].add(e[i]);
        }
    });
    let log = math::log::<crate::micro::Fused>(total(sum));
    sweep!(V, call.n, |at, left| {
        // SAFETY: lanes of the row.
        unsafe {
            let v = T::vectors::<V, U>(x.add(at), left, 0.0);
            T::put_vectors(out.add(at), v.sub(Real::of(most)).sub(Real::of(log)), left, call.stream);
        }
    });
}

#[inline(always)]
unsafe fn rms_norm<V: Vector, T: Cell>(call: &RowCall, x: *const T, w: *const T, out: *mut T) {
    let mut sum = [V::of(0.0); 4];
    sweep!(V, call.n, |at, left| {
        // SAFETY: lanes of the row.
        let v = unsafe { T::vectors::<V, U>(x.add(at), left, 0.0) };
        for i in 0..U {
            sum[i] = v[i].fma(v[i], sum[i]);
        }
    });
    let r = 1.0 / (total(sum) * call.scale + call.epsilon).sqrt();
    sweep!(V, call.n, |at, left| {
        // SAFETY: lanes of the row and the weight.
        unsafe {
            let v = T::vectors::<V, U>(x.add(at), left, 0.0).mul(Real::of(r));
            let v = if w.is_null() { v } else { v.mul(T::vectors::<V, U>(w.add(at), left, 0.0)) };
            T::put_vectors(out.add(at), v, left, call.stream);
        }
    });
}

#[inline(always)]
unsafe fn layer_norm<V: Vector, T: Cell, const TWO: bool>(
    call: &RowCall,
    [x, y, w, b]: [*const T; 4],
    out: *mut T,
) {
    let mut sum = [V::of(0.0); 4];
    sweep!(V, call.n, |at, left| {
        // SAFETY: lanes of the row and the buffer.
        unsafe {
            let mut v = T::vectors::<V, U>(x.add(at), left, 0.0);
            if TWO {
                v = v.add(T::vectors::<V, U>(y.add(at), left, 0.0));
                f32::put_vectors(call.buffer.add(at), v, left, false);
            }
            for i in 0..U {
                sum[i] = sum[i].add(v[i]);
            }
        }
    });
    let mean = total(sum) / call.n as f32;
    let mut squares = [V::of(0.0); 4];
    sweep!(V, call.n, |at, left| {
        // SAFETY: lanes of the row or the buffer. Those beyond it count as the mean.
        let v = unsafe {
            match TWO {
                true => f32::vectors::<V, U>(call.buffer.add(at), left, mean),
                false => T::vectors::<V, U>(x.add(at), left, mean),
            }
        };
        for i in 0..U {
            let off = v[i].sub(V::of(mean));
            squares[i] = off.fma(off, squares[i]);
        }
    });
    let r = 1.0 / (total(squares) * call.scale + call.epsilon).sqrt();
    sweep!(V, call.n, |at, left| {
        // SAFETY: lanes of the row or the buffer, of the weight and the bias.
        unsafe {
            let v = match TWO {
                true => f32::vectors::<V, U>(call.buffer.add(at), left, 0.0),
                false => T::vectors::<V, U>(x.add(at), left, 0.0),
            };
            let v = v.sub(Real::of(mean)).mul(Real::of(r));
            let v = match (w.is_null(), b.is_null()) {
                (true, true) => v,
                (false, true) => v.mul(T::vectors::<V, U>(w.add(at), left, 0.0)),
                (true, false) => v.add(T::vectors::<V, U>(b.add(at), left, 0.0)),
                (false, false) => {
                    v.fma(T::vectors::<V, U>(w.add(at), left, 0.0), T::vectors::<V, U>(b.add(at), left, 0.0))
                }
            };
            T::put_vectors(out.add(at), v, left, call.stream);
        }
    });
}
