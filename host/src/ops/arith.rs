//! Arithmetic of decompositions and gradient rules: prims as methods of the builder.
//!
//! These methods broadcast their tensors as PyTorch does and emit nothing where nothing is to be done; they never
//! promote: tensors of one call must have one dtype. What promotes is in `emit`.

use super::OpError;
use super::build::{Builder, Num, Operand, Tensor};
use super::emit::{broadcast_to, number_for, to_dtype};
use super::meta;
use crate::ir::{Arg, Device, Dim, Dtype};

/// What every method here gives.
pub type Built = Result<Tensor, OpError>;

/// A size as a number operand: a float tensor divides by it.
pub fn size(d: &Dim) -> Operand {
    Operand::Num(match d {
        Dim::Known(n) => Num::Int(*n),
        d => Num::Dim(d.clone()),
    })
}

/// The number of elements of `dims` along `axes`.
pub fn count(dims: &[Dim], axes: &[usize]) -> Dim {
    Dim::product(axes.iter().map(|a| &dims[*a]))
}

/// `0..n` as axes.
pub fn all_axes(n: usize) -> Vec<usize> {
    (0..n).collect()
}

/// Axes as an argument.
pub fn axes_arg(axes: &[usize]) -> Arg {
    Arg::ints(axes.iter().map(|a| *a as i64))
}

impl Builder<'_> {
    /// `x` in that dtype.
    pub fn to(&mut self, x: &Tensor, dtype: Dtype) -> Built {
        to_dtype(self, x, dtype)
    }

    /// `x` broadcast to `dims`, aligned at the last dim.
    pub fn expand(&mut self, x: &Tensor, dims: &[Dim]) -> Built {
        broadcast_to(self, x, dims)
    }

    /// The gradient of [`Builder::expand`]: `g` summed to `dims`, from which it was broadcast.
    pub fn unexpand(&mut self, g: &Tensor, dims: &[Dim]) -> Built {
        let shift = g.rank() - dims.len().min(g.rank());
        let is_summed = |i: &usize| *i < shift || (dims[*i - shift].is(1) && !g.dims()[*i].is(1));
        let summed: Vec<usize> = (0..g.rank()).filter(is_summed).collect();
        let sum = if summed.is_empty() { g.clone() } else { self.sum(g, &summed)? };
        self.reshape(&sum, dims)
    }

    /// An elementwise prim of one tensor.
    pub fn unary(&mut self, prim: &str, x: &Tensor) -> Built {
        self.tensor(prim, vec![x.arg()])
    }

    /// An elementwise prim of two operands of one dtype, broadcast.
    pub fn binary(&mut self, prim: &str, a: &Tensor, b: impl Into<Operand>) -> Built {
        match b.into() {
            Operand::Num(n) => {
                let n = number_for(&n, a.dtype());
                self.tensor(prim, vec![a.arg(), n])
            }
            Operand::Tensor(b) => {
                let dims = broadcast(prim, &[a, &b])?;
                let (a, b) = (self.expand(a, &dims)?, self.expand(&b, &dims)?);
                self.tensor(prim, vec![a.arg(), b.arg()])
            }
        }
    }

    /// `a + b`.
    pub fn add(&mut self, a: &Tensor, b: impl Into<Operand>) -> Built {
        self.binary("prims.add", a, b)
    }

    /// `a - b`.
    pub fn sub(&mut self, a: &Tensor, b: impl Into<Operand>) -> Built {
        self.binary("prims.sub", a, b)
    }

    /// `a * b`.
    pub fn mul(&mut self, a: &Tensor, b: impl Into<Operand>) -> Built {
        self.binary("prims.mul", a, b)
    }

    /// `a / b`.
    pub fn div(&mut self, a: &Tensor, b: impl Into<Operand>) -> Built {
        self.binary("prims.div", a, b)
    }

    /// The larger; NaN wins.
    pub fn maximum(&mut self, a: &Tensor, b: impl Into<Operand>) -> Built {
        self.binary("prims.maximum", a, b)
    }

    /// The smaller; NaN wins.
    pub fn minimum(&mut self, a: &Tensor, b: impl Into<Operand>) -> Built {
        self.binary("prims.minimum", a, b)
    }

    /// `a == b`.
    pub fn eq(&mut self, a: &Tensor, b: impl Into<Operand>) -> Built {
        self.binary("prims.eq", a, b)
    }

    /// `a != b`.
    pub fn ne(&mut self, a: &Tensor, b: impl Into<Operand>) -> Built {
        self.binary("prims.ne", a, b)
    }

    /// `a > b`.
    pub fn gt(&mut self, a: &Tensor, b: impl Into<Operand>) -> Built {
        self.binary("prims.gt", a, b)
    }

    /// `a < b`.
    pub fn lt(&mut self, a: &Tensor, b: impl Into<Operand>) -> Built {
        self.binary("prims.lt", a, b)
    }

    /// `a >= b`.
    pub fn ge(&mut self, a: &Tensor, b: impl Into<Operand>) -> Built {
        self.binary("prims.ge", a, b)
    }

    /// `-a`.
    pub fn neg(&mut self, a: &Tensor) -> Built {
        self.unary("prims.neg", a)
    }

    /// Complex conjugate; real numbers are their own.
    pub fn conj(&mut self, a: &Tensor) -> Built {
        if a.dtype().is_complex() { self.unary("prims.conj", a) } else { Ok(a.clone()) }
    }

    /// `1 - a`, rounded once.
    pub fn one_minus(&mut self, a: &Tensor) -> Built {
        let n = self.neg(a)?;
        self.add(&n, 1.0)
    }

    /// e to the power of `a`.
    pub fn exp(&mut self, a: &Tensor) -> Built {
        self.unary("prims.exp", a)
    }

    /// Natural logarithm.
    pub fn log(&mut self, a: &Tensor) -> Built {
        self.unary("prims.log", a)
    }

    /// Square root.
    pub fn sqrt(&mut self, a: &Tensor) -> Built {
        self.unary("prims.sqrt", a)
    }

    /// `1 / sqrt(a)`.
    pub fn rsqrt(&mut self, a: &Tensor) -> Built {
        self.unary("prims.rsqrt", a)
    }

    /// Both, of bools.
    pub fn and(&mut self, a: &Tensor, b: &Tensor) -> Built {
        self.binary("prims.bitwise_and", a, b)
    }

    /// Magnitude.
    pub fn abs(&mut self, a: &Tensor) -> Built {
        self.unary("prims.abs", a)
    }

    /// Rounded down.
    pub fn floor(&mut self, a: &Tensor) -> Built {
        self.unary("prims.floor", a)
    }

    /// `a` where `pred`, else `b`; all broadcast. One of both is a tensor.
    pub fn select(&mut self, pred: &Tensor, a: impl Into<Operand>, b: impl Into<Operand>) -> Built {
        let (a, b) = (a.into(), b.into());
        let tensors: Vec<&Tensor> = [Some(pred), a.tensor(), b.tensor()].into_iter().flatten().collect();
        let dims = broadcast("prims.where", &tensors)?;
        let dtype = tensors.last().expect("the predicate at least is a tensor").dtype();
        let mut args = vec![self.expand(pred, &dims)?.arg()];
        for o in [&a, &b] {
            args.push(match o {
                Operand::Tensor(t) => self.expand(t, &dims)?.arg(),
                Operand::Num(n) => number_for(n, dtype),
            });
        }
        self.tensor("prims.where", args)
    }

    /// A reducing prim (`sum`, `amax`, `amin`, `prod`) over canonical axes, which go.
    pub fn reduce(&mut self, prim: &str, x: &Tensor, axes: &[usize]) -> Built {
        self.tensor(prim, vec![x.arg(), axes_arg(axes)])
    }

    /// Sum over canonical axes, which go.
    pub fn sum(&mut self, x: &Tensor, axes: &[usize]) -> Built {
        self.reduce("prims.sum", x, axes)
    }

    /// Sum over canonical axes divided by the number of elements met; the axes go. `x` is inexact.
    pub fn mean(&mut self, x: &Tensor, axes: &[usize]) -> Built {
        let n = count(x.dims(), axes);
        let s = self.sum(x, axes)?;
        self.div(&s, size(&n))
    }

    /// Largest over canonical axes, which go.
    pub fn amax(&mut self, x: &Tensor, axes: &[usize]) -> Built {
        self.reduce("prims.amax", x, axes)
    }

    /// The inverse of a reduction: `r`, which lacks `axes` of `dims`, repeated along them.
    pub fn spread(&mut self, r: &Tensor, dims: &[Dim], axes: &[usize]) -> Built {
        if axes.is_empty() && r.dims() == dims {
            return Ok(r.clone());
        }
        let kept = (0..dims.len()).filter(|i| !axes.contains(i)).map(|i| i as i64);
        self.tensor("prims.broadcast_in_dim", vec![r.arg(), Arg::dims(dims), Arg::ints(kept)])
    }

    /// `r`, which lacks `axes` of `dims`, with dims of 1 in their place.
    pub fn keepdim(&mut self, r: &Tensor, dims: &[Dim], axes: &[usize]) -> Built {
        let dims = meta::reduced_dims(dims, axes, true);
        self.spread(r, &dims, axes)
    }

    /// `x` with a dim of 1 inserted so that it is dim `axis` of the result.
    pub fn unsqueeze(&mut self, x: &Tensor, axis: usize) -> Built {
        let mut dims = x.dims().to_vec();
        dims.insert(axis, Dim::Known(1));
        self.spread(x, &dims, &[axis])
    }

    /// `x` without these canonical axes, all of size 1.
    pub fn squeeze(&mut self, x: &Tensor, axes: &[usize]) -> Built {
        if axes.is_empty() {
            return Ok(x.clone());
        }
        self.tensor("prims.squeeze", vec![x.arg(), axes_arg(axes)])
    }

    /// The same elements in row-major order under other dims.
    pub fn reshape(&mut self, x: &Tensor, dims: &[Dim]) -> Built {
        if x.dims() == dims {
            return Ok(x.clone());
        }
        self.tensor("prims.reshape", vec![x.arg(), Arg::dims(dims)])
    }

    /// Dim `i` of the result is dim `permutation[i]` of `x`.
    pub fn permute(&mut self, x: &Tensor, permutation: &[usize]) -> Built {
        if permutation.iter().enumerate().all(|(i, p)| i == *p) {
            return Ok(x.clone());
        }
        self.tensor("prims.transpose", vec![x.arg(), axes_arg(permutation)])
    }

    /// The last two dims exchanged.
    pub fn swap_last(&mut self, x: &Tensor) -> Built {
        let n = x.rank();
        let mut permutation = all_axes(n);
        permutation.swap(n - 2, n - 1);
        self.permute(x, &permutation)
    }

    /// Elements `start..end` of one axis.
    pub fn narrow(&mut self, x: &Tensor, axis: usize, start: &Dim, end: &Dim) -> Built {
        if start.is(0) && *end == x.dims()[axis] {
            return Ok(x.clone());
        }
        let mut starts = vec![Dim::Known(0); x.rank()];
        let mut ends = x.dims().to_vec();
        (starts[axis], ends[axis]) = (start.clone(), end.clone());
        let steps = Arg::ints(std::iter::repeat_n(1, x.rank()));
        self.tensor("prims.slice", vec![x.arg(), Arg::dims(&starts), Arg::dims(&ends), steps])
    }

    /// Element `index` of one axis, which goes.
    pub fn pick(&mut self, x: &Tensor, axis: usize, index: i64) -> Built {
        let one = self.narrow(x, axis, &Dim::Known(index), &Dim::Known(index + 1))?;
        self.squeeze(&one, &[axis])
    }

    /// Joined along a canonical axis.
    pub fn cat(&mut self, parts: &[Tensor], axis: usize) -> Built {
        if let [one] = parts {
            return Ok(one.clone());
        }
        let parts = Arg::List(parts.iter().map(Tensor::arg).collect());
        self.tensor("prims.cat", vec![parts, Arg::Int(axis as i64)])
    }

    /// Products of matrices: 2-d, or batched with equal batch dims.
    pub fn matmul(&mut self, a: &Tensor, b: &Tensor) -> Built {
        self.tensor("prims.matmul", vec![a.arg(), b.arg()])
    }

    /// A tensor filled with a number.
    pub fn full(&mut self, dims: &[Dim], value: impl Into<Num>, dtype: Dtype, device: &Device) -> Built {
        let value = number_for(&value.into(), dtype);
        let device = Arg::Device(device.clone());
        self.tensor("prims.full", vec![Arg::dims(dims), value, Arg::Dtype(dtype), device])
    }

    /// `0, 1, … n - 1`.
    pub fn iota(&mut self, n: &Dim, dtype: Dtype, device: &Device) -> Built {
        let (start, step) = (number_for(&Num::Int(0), dtype), number_for(&Num::Int(1), dtype));
        let device = Arg::Device(device.clone());
        self.tensor("prims.iota", vec![Arg::dim(n.clone()), start, step, Arg::Dtype(dtype), device])
    }

    /// Positions along one axis of `dims`, repeated along the others.
    pub fn positions(&mut self, dims: &[Dim], axis: usize, dtype: Dtype, device: &Device) -> Built {
        let i = self.iota(&dims[axis], dtype, device)?;
        let dims = Arg::dims(dims);
        self.tensor("prims.broadcast_in_dim", vec![i.arg(), dims, Arg::ints([axis as i64])])
    }
}

impl From<i64> for Num {
    fn from(n: i64) -> Num {
        Num::Int(n)
    }
}

impl From<f64> for Num {
    fn from(x: f64) -> Num {
        Num::Float(x)
    }
}

fn broadcast(prim: &str, tensors: &[&Tensor]) -> Result<Vec<Dim>, OpError> {
    meta::broadcast(tensors.iter().map(|t| t.dims())).map_err(|what| OpError { op: prim.into(), what })
}
