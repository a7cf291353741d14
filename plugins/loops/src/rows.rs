//! Whole rows in one call: softmax, log-softmax, RMS and layer norms, whose passes the interpreter would take a step at a
//! time. The lowering recognises them (`lower.rs`); results are stored once, rows and buffers stay in the nearest cache.

// What pointers owe is said at the head of `micro.rs`, and at `Rows`.
#![allow(clippy::missing_safety_doc)]

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
}

/// An operand: its first element in the first row, and how many elements further the next row begins.
#[derive(Clone, Copy)]
pub struct Operand {
    pub at: *const u8,
    pub step: isize,
}

/// A call: `rows` rows of `n` neighbours each. Absent operands are null. `buffer` has room for a row of `f32`.
#[derive(Clone, Copy)]
pub struct RowCall {
    pub kind: Kind,
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
}

#[inline(always)]
pub unsafe fn rows<V: Vector>(call: &RowCall) {
    // SAFETY: the caller's.
    unsafe {
        match call.halves {
            true => typed::<V, u16>(call),
            false => typed::<V, f32>(call),
        }
    }
}

#[inline(always)]
unsafe fn typed<V: Vector, T: Cell>(call: &RowCall) {
    let first = |operand: &Operand| operand.at.cast::<T>();
    let (mut x, mut y, mut w, mut b) = (first(&call.x), first(&call.y), first(&call.w), first(&call.b));
    let mut out = first(&call.out).cast_mut();
    for _ in 0..call.rows {
        // SAFETY: the caller's, of this row.
        unsafe {
            match call.kind {
                Kind::Softmax => softmax::<V, T>(call, x, out),
                Kind::LogSoftmax => log_softmax::<V, T>(call, x, out),
                Kind::RmsNorm => rms_norm::<V, T>(call, x, w, out),
                Kind::LayerNorm if y.is_null() => layer_norm::<V, T, false>(call, [x, y, w, b], out),
                Kind::LayerNorm => layer_norm::<V, T, true>(call, [x, y, w, b], out),
            }
        }
        x = x.wrapping_offset(call.x.step);
        y = y.wrapping_offset(call.y.step);
        w = w.wrapping_offset(call.w.step);
        b = b.wrapping_offset(call.b.step);
        out = out.wrapping_offset(call.out.step);
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
            f32::put_vectors(call.buffer.add(at), e, left);
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
            T::put_vectors(out.add(at), e.mul(Real::of(scale)), left);
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
            T::put_vectors(out.add(at), v.sub(Real::of(most)).sub(Real::of(log)), left);
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
            T::put_vectors(out.add(at), v, left);
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
                f32::put_vectors(call.buffer.add(at), v, left);
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
            T::put_vectors(out.add(at), v, left);
        }
    });
}
