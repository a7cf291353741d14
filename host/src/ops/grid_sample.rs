//! `torch.grid_sample` taken apart: points to positions, positions to neighbours with weights, neighbours by index; and
//! the grids of affine maps.

use super::arith::{Built, size};
use super::build::{Builder, Tensor};
use super::resample::{clamped, cubic_weights};
use super::{Call, OpError, meta};
use crate::ir::{Arg, Dim, Dtype};

/// What lies outside of the input.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// The call, read.
struct Grid {
    /// In the accumulation dtype.
    a: Tensor,
    /// Sizes of the spatial dims of `a`, outermost first.
    sizes: Vec<Dim>,
    outside: Outside,
    align: bool,
    /// Index of the batch at each point.
    batch: Tensor,
}

/// Along one spatial dim: indices, and whether they lie inside.
struct Neighbour {
    index: Tensor,
    inside: Option<Tensor>,
}

/// The decomposition of `torch.grid_sample`.
pub fn decompose(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (a, grid) = (call.tensor("a")?, call.tensor("grid")?);
    let n = a.rank().saturating_sub(2);
    if !matches!(n, 2 | 3)
        || grid.rank() != a.rank()
        || grid.dims()[n + 1].same(&Dim::Known(n as i64)) == Some(false)
    {
        let (a, grid) = (meta::show(a.dims()), meta::show(grid.dims()));
        return Err(
            call.error(format!("`a` is {a}, `grid` is {grid}: 2 or 3 spatial dims, and as many coordinates"))
        );
    }
    if !a.dtype().is_float() || grid.dtype() != a.dtype() {
        return Err(call.error(format!(
            "`a` is {}, `grid` is {}: one floating dtype",
            a.dtype(),
            grid.dtype()
        )));
    }
    let outside = match call.int("padding")? {
        0 => Outside::Zeros,
        1 => Outside::Border,
        2 => Outside::Reflection,
        p => return Err(call.error(format!("`padding` must be 0, 1 or 2, found {p}"))),
    };
    let acc = a.dtype().acc();
    let (x, points) = (b.to(&a, acc)?, b.to(&grid, acc)?);
    let point_dims = &grid.dims()[..=n];
    let batch = b.positions(point_dims, 0, Dtype::I64, &a.ty.device)?;
    let g = Grid { a: x, sizes: a.dims()[2..].to_vec(), outside, align: call.bool("align_corners")?, batch };
    // Coordinates stand innermost dim first.
    let mut at = Vec::new();
    for i in 0..n {
        let c = b.pick(&points, n + 1, (n - 1 - i) as i64)?;
        at.push(g.unnormalised(b, &c, i)?);
    }
    let sampled = match call.int("mode")? {
        0 => g.linear(b, &at)?,
        1 => g.nearest(b, &at)?,
        2 if n == 2 => g.cubic(b, &at)?,
        m => return Err(call.error(format!("mode {m} does not go with {n} spatial dims"))),
    };
    let mut order = vec![0, n + 1];
    order.extend(1..=n);
    let sampled = b.permute(&sampled, &order)?;
    Ok(vec![b.to(&sampled, a.dtype())?.arg()])
}

impl Grid {
    /// From -1..1 to the elements of spatial dim `i`.
    fn unnormalised(&self, b: &mut Builder<'_>, c: &Tensor, i: usize) -> Built {
        let n = &self.sizes[i];
        let c = b.add(c, 1.0)?;
        if self.align {
            let half = b.mul(&c, 0.5)?;
            return b.mul(&half, size(&n.sub(&Dim::Known(1))));
        }
        let c = b.mul(&c, size(n))?;
        let c = b.sub(&c, 1.0)?;
        b.mul(&c, 0.5)
    }

    /// Positions outside brought inside as the padding has it.
    fn brought_inside(&self, b: &mut Builder<'_>, x: &Tensor, i: usize) -> Built {
        let n = &self.sizes[i];
        let last = n.sub(&Dim::Known(1));
        let x = match self.outside {
            Outside::Zeros => return Ok(x.clone()),
            Outside::Border => x.clone(),
            Outside::Reflection if self.align => reflected(b, x, 0.0, &last)?,
            Outside::Reflection => reflected(b, x, -0.5, n)?,
        };
        let x = b.maximum(&x, 0.0)?;
        b.minimum(&x, size(&last))
    }

    /// The neighbour at whole positions (floats).
    fn neighbour(&self, b: &mut Builder<'_>, at: &Tensor, i: usize) -> Result<Neighbour, OpError> {
        let n = &self.sizes[i];
        let inside = match self.outside {
            Outside::Zeros => {
                let low = b.ge(at, 0.0)?;
                let high = b.lt(at, size(n))?;
                Some(b.binary("prims.bitwise_and", &low, &high)?)
            }
            _ => None,
        };
        // Clamped as floats first: far outside, and NaN, are no integers.
        let safe = b.maximum(at, 0.0)?;
        let safe = b.minimum(&safe, size(&n.sub(&Dim::Known(1))))?;
        let numbers = b.eq(&safe, &safe)?;
        let safe = b.select(&numbers, &safe, 0.0)?;
        let index = b.to(&safe, Dtype::I64)?;
        Ok(Neighbour { index: clamped(b, &index, n)?, inside })
    }

    /// The input at one neighbour of each point, `[n, points …, channels]`; 0 outside.
    fn values(&self, b: &mut Builder<'_>, neighbours: &[&Neighbour]) -> Built {
        let mut indices = vec![self.batch.arg(), Arg::None];
        indices.extend(neighbours.iter().map(|x| x.index.arg()));
        let mut v = b.tensor("prims.index", vec![self.a.arg(), Arg::List(indices)])?;
        for inside in neighbours.iter().filter_map(|x| x.inside.as_ref()) {
            let last = v.rank() - 1;
            let inside = b.spread(inside, v.dims(), &[last])?;
            v = b.select(&inside, &v, 0.0)?;
        }
        Ok(v)
    }

    fn nearest(&self, b: &mut Builder<'_>, at: &[Tensor]) -> Built {
        let mut neighbours = Vec::new();
        for (i, x) in at.iter().enumerate() {
            let x = self.brought_inside(b, x, i)?;
            let x = nearest_even(b, &x)?;
            neighbours.push(self.neighbour(b, &x, i)?);
        }
        self.values(b, &neighbours.iter().collect::<Vec<_>>())
    }

    /// The sum over all corners of the cell that a point lies in.
    fn linear(&self, b: &mut Builder<'_>, at: &[Tensor]) -> Built {
        let mut taps = Vec::new();
        for (i, x) in at.iter().enumerate() {
            let x = self.brought_inside(b, x, i)?;
            let low = b.floor(&x)?;
            let high = b.add(&low, 1.0)?;
            let weight_of_low = b.sub(&high, &x)?;
            let weight_of_high = b.sub(&x, &low)?;
            let (low, high) = (self.neighbour(b, &low, i)?, self.neighbour(b, &high, i)?);
            taps.push(vec![(low, weight_of_low), (high, weight_of_high)]);
        }
        self.weighted(b, &taps)
    }

    fn cubic(&self, b: &mut Builder<'_>, at: &[Tensor]) -> Built {
        let mut taps = Vec::new();
        for (i, x) in at.iter().enumerate() {
            let base = b.floor(x)?;
            let t = b.sub(x, &base)?;
            let mut along = Vec::new();
            for (tap, weight) in (-1i32..).zip(cubic_weights(b, &t)?) {
                let x = b.add(&base, f64::from(tap))?;
                let x = self.brought_inside(b, &x, i)?;
                along.push((self.neighbour(b, &x, i)?, weight));
            }
            taps.push(along);
        }
        self.weighted(b, &taps)
    }

    /// The sum over every choice of one tap for each spatial dim of its values times its weights.
    fn weighted(&self, b: &mut Builder<'_>, taps: &[Vec<(Neighbour, Tensor)>]) -> Built {
        let choices = taps.iter().map(Vec::len).product();
        let mut sum: Option<Tensor> = None;
        for choice in 0..choices {
            let mut rest: usize = choice;
            let mut chosen = Vec::new();
            let mut weight: Option<Tensor> = None;
            for along in taps {
                let (neighbour, w) = &along[rest % along.len()];
                rest /= along.len();
                chosen.push(neighbour);
                weight = Some(match weight {
                    Some(so_far) => b.mul(&so_far, w)?,
                    None => w.clone(),
                });
            }
            let v = self.values(b, &chosen)?;
            let last = v.rank() - 1;
            let weight = weight.expect("there is at least one spatial dim");
            let weight = b.spread(&weight, v.dims(), &[last])?;
            let p = b.mul(&v, &weight)?;
            sum = Some(match sum {
                Some(s) => b.add(&s, &p)?,
                None => p,
            });
        }
        Ok(sum.expect("there is at least one choice"))
    }
}

/// Reflected into `low .. low + span` as often as needed.
fn reflected(b: &mut Builder<'_>, x: &Tensor, low: f64, span: &Dim) -> Built {
    if span.is(0) {
        return b.mul(x, 0.0);
    }
    let d = b.sub(x, low)?;
    let d = b.abs(&d)?;
    let flips = b.div(&d, size(span))?;
    let flips = b.floor(&flips)?;
    let whole = b.mul(&flips, size(span))?;
    let extra = b.sub(&d, &whole)?;
    let half = b.mul(&flips, 0.5)?;
    let even = b.floor(&half)?;
    let even = b.eq(&half, &even)?;
    let back = b.neg(&extra)?;
    let back = b.add(&back, size(span))?;
    let inside = b.select(&even, &extra, &back)?;
    b.add(&inside, low)
}

/// Rounded to the nearest whole number, halves to the even one.
fn nearest_even(b: &mut Builder<'_>, x: &Tensor) -> Built {
    let up = b.add(x, 0.5)?;
    let up = b.floor(&up)?;
    let over = b.sub(&up, x)?;
    let tie = b.eq(&over, 0.5)?;
    let half = b.mul(&up, 0.5)?;
    let whole = b.floor(&half)?;
    let odd = b.ne(&half, &whole)?;
    let down = b.binary("prims.bitwise_and", &tie, &odd)?;
    let lower = b.sub(&up, 1.0)?;
    b.select(&down, &lower, &up)
}

/// Coordinates of the centres of an image's elements, or with `align_corners` of its outermost ones at the edges, through
/// one product of matrices.
pub fn affine_grid(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let (theta, out) = (call.tensor("theta")?, call.dims("out")?);
    let n = out.len().saturating_sub(2);
    let fits = (2..=3).contains(&n)
        && matches!(theta.dims(), [batch, rows, columns] if batch.same(&out[0]) != Some(false)
            && rows.is(n as i64) && columns.is(n as i64 + 1));
    if !fits || !theta.dtype().is_float() {
        let found = format!("{}{}", theta.dtype(), meta::show(theta.dims()));
        return Err(call.error(format!("`theta` is {found}, for a result of {}", meta::show(&out))));
    }
    let spatial = &out[2..];
    let maps = b.to(&theta, theta.dtype().acc())?;
    let points = Dim::product(spatial);
    let column = [points.clone(), Dim::Known(1)];
    let mut columns = Vec::with_capacity(n + 1);
    // The last dim is x.
    for axis in (0..n).rev() {
        let at = centres(b, &spatial[axis], call.bool("align_corners")?, &maps)?;
        let others: Vec<usize> = (0..n).filter(|i| *i != axis).collect();
        let at = b.spread(&at, spatial, &others)?;
        columns.push(b.reshape(&at, &column)?.arg());
    }
    columns.push(b.full(&column, 1.0, maps.dtype(), &maps.ty.device)?.arg());
    let base = b.tensor("prims.cat", vec![Arg::List(columns), Arg::Int(1)])?;
    let base = b.expand(&base, &[out[0].clone(), points, Dim::Known(n as i64 + 1)])?;
    let turned = b.swap_last(&maps)?;
    let grid = b.matmul(&base, &turned)?;
    let grid = b.to(&grid, theta.dtype())?;
    Ok(vec![b.reshape(&grid, &[&out[..1], spatial, &[Dim::Known(n as i64)]].concat())?.arg()])
}

/// `n` coordinates in -1..1; a single one lies at 0.
fn centres(b: &mut Builder<'_>, n: &Dim, align: bool, like: &Tensor) -> Built {
    let i = b.iota(n, Dtype::I64, &like.ty.device)?;
    let i = b.to(&i, like.dtype())?;
    if n.is(1) {
        return b.mul(&i, 0.0);
    }
    let twice = b.add(&i, &i)?;
    let one = Dim::Known(1);
    if align {
        let part = b.div(&twice, size(&n.sub(&one)))?;
        return b.sub(&part, 1.0);
    }
    // (2 i + 1 - n) / n
    let middle = b.sub(&twice, size(&n.sub(&one)))?;
    b.div(&middle, size(n))
}
