//! Discrete Fourier transforms along axes, in `f64`, rounded once at the end.
//!
//! A line is split by its length's smallest prime factor until what is left is prime, and that is summed by definition: any
//! length works, and those that programs choose are fast enough. `norm` is ATen's: 0 none, 1 by the root of the number of
//! elements, 2 by their number.

use super::pool::Pool;
use super::reduction::{lines_a_chunk, without};
use super::run::{Args, Made};
use super::strided::{Dst, Src, for_each_index, map1, numel};
use super::value::{C128, Value};
use super::{Entry, class};
use std::f64::consts::PI;
use thunderhead_sdk::{Dtype, Error, Op};

pub const KERNELS: &[Entry] = &[
    Entry { name: "prims.fft_c2c", dtypes: class::COMPLEX, make: fft_c2c },
    Entry { name: "prims.fft_c2r", dtypes: class::COMPLEX, make: fft_c2r },
    Entry { name: "prims.fft_r2c", dtypes: &[Dtype::F32, Dtype::F64], make: fft_r2c },
];

#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Backward,
}

impl Direction {
    /// `e^(∓2πi k / n)`; the angle is reduced in integers first.
    fn root(self, k: usize, n: usize) -> C128 {
        let angle = 2.0 * PI * (k % n) as f64 / n as f64;
        let sin = libm::sin(angle);
        C128::new(libm::cos(angle), if matches!(self, Direction::Forward) { -sin } else { sin })
    }

    /// The transform of a line.
    fn transform(self, line: &[C128]) -> Vec<C128> {
        let n = line.len();
        let factor = (2..).take_while(|p| p * p <= n).find(|p| n.is_multiple_of(*p)).unwrap_or(n);
        if factor == n {
            let roots: Vec<C128> = (0..n).map(|k| self.root(k, n)).collect();
            let sum = |k: usize| (0..n).map(|j| line[j] * roots[j * k % n]).sum();
            return (0..n).map(sum).collect();
        }
        // Every `factor`-th element, transformed alone; then put together with roots of the whole line's length.
        let len = n / factor;
        let parts: Vec<Vec<C128>> = (0..factor)
            .map(|first| {
                self.transform(&line.iter().copied().skip(first).step_by(factor).collect::<Vec<_>>())
            })
            .collect();
        let roots: Vec<C128> = (0..n).map(|k| self.root(k, n)).collect();
        let join =
            |k: usize| parts.iter().zip(0..).map(|(part, first)| part[k % len] * roots[first * k % n]).sum();
        (0..n).map(join).collect()
    }
}

/// What a transform over `count` elements is multiplied by.
fn scale(norm: i64, count: usize) -> Result<f64, Error> {
    match norm {
        0 => Ok(1.0),
        1 => Ok(1.0 / libm::sqrt(count as f64)),
        2 => Ok(1.0 / count as f64),
        other => Err(Error::invalid(format!("argument `norm` is {other}; expected 0, 1 or 2"))),
    }
}

/// Hands each line along `axis` of `a` to `change`, and puts what it gives into a tensor of `dims`.
fn along(
    pool: &dyn Pool,
    a: &Src<C128>,
    axis: usize,
    dims: &[usize],
    change: &(dyn Fn(Vec<C128>) -> Vec<C128> + Sync),
) -> Result<Src<C128>, Error> {
    let mut values = vec![C128::default(); numel(dims)];
    let out = Dst::over(&mut values, dims);
    let outer = without(a.dims(), axis);
    pool.split(numel(&outer), lines_a_chunk(a.dims()[axis]), &|range| {
        for_each_index(&outer, range, &mut |outer| {
            let to = out.line(axis, outer);
            let changed = change(a.line(axis, outer).iter().collect());
            changed.into_iter().enumerate().for_each(|(k, v)| to.set(k, v));
        });
    })?;
    Ok(Src::from_vec(values, dims))
}

/// All of `axes`, one after the other.
fn all_axes(pool: &dyn Pool, a: Src<C128>, axes: &[usize], direction: Direction) -> Result<Src<C128>, Error> {
    axes.iter().try_fold(a, |a, axis| {
        let dims = a.dims().to_vec();
        along(pool, &a, *axis, &dims, &|line| direction.transform(&line))
    })
}

/// Axes in the order given: the last is the one that is halved.
fn axes_in_order(op: &Op<'_>, rank: usize) -> Result<Vec<usize>, Error> {
    op.axes("axes", rank)?;
    op.sizes("axes")
}

fn fft_c2c(op: &Op<'_>) -> Result<Made, Error> {
    let input = op.must("a")?;
    let axes = axes_in_order(op, op.input(input).rank())?;
    let norm = op.int("norm")?;
    let direction = if op.bool("forward")? { Direction::Forward } else { Direction::Backward };
    with_complex!(op.input(input).dtype(), T => Ok(Made::new(move |run| {
        let (a, out) = (run.src_as::<C128>(input)?, run.dst::<T>(0)?);
        let scale = scale(norm, axes.iter().map(|axis| a.dims()[*axis]).product())?;
        let transformed = all_axes(run.pool(), a, &axes, direction)?;
        map1(run.pool(), &out, &transformed, |v: C128| T::from_c128(v * scale))
    })
    .for_any_size()))
}

/// Of real input; the last axis has only the first half of its frequencies where `onesided`.
fn fft_r2c(op: &Op<'_>) -> Result<Made, Error> {
    let input = op.must("a")?;
    let axes = axes_in_order(op, op.input(input).rank())?;
    let (norm, onesided) = (op.int("norm")?, op.bool("onesided")?);
    with_complex!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, out) = (run.src_as::<C128>(input)?, run.dst::<T>(0)?);
        let scale = scale(norm, axes.iter().map(|axis| a.dims()[*axis]).product())?;
        let mut transformed = all_axes(run.pool(), a, &axes, Direction::Forward)?;
        if let Some(last) = axes.last().filter(|_| onesided) {
            let half = transformed.dims()[*last] / 2 + 1;
            transformed = transformed.window(|window| window.slice(*last, 0, half, 1));
        }
        map1(run.pool(), &out, &transformed, |v: C128| T::from_c128(v * scale))
    })
    .for_any_size()))
}

/// Of the first half of the frequencies of a real result of `last` elements along the last axis.
fn fft_c2r(op: &Op<'_>) -> Result<Made, Error> {
    let input = op.must("a")?;
    let axes = axes_in_order(op, op.input(input).rank())?;
    let norm = op.int("norm")?;
    let Some((last, others)) = axes.split_last().map(|(last, others)| (*last, others.to_vec())) else {
        return Err(Error::invalid("a transform to real numbers needs an axis"));
    };
    with_float!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, out) = (run.src_as::<C128>(input)?, run.dst::<T>(0)?);
        let size = *out.dims().get(last).unwrap_or(&0);
        if a.dims().get(last) != Some(&(size / 2 + 1)) {
            let what = format!("{size} elements along axis {last} come of half of them and one, not {:?}", a.dims());
            return Err(Error::invalid(what));
        }
        let scale = scale(norm, others.iter().map(|axis| a.dims()[*axis]).product::<usize>() * size)?;
        let a = all_axes(run.pool(), a, &others, Direction::Backward)?;
        let whole = |half: Vec<C128>| {
            let mirrored = half[1..].iter().rev().skip(usize::from(size % 2 == 0)).map(|v| v.conj());
            let line: Vec<C128> = half.iter().copied().chain(mirrored).collect();
            Direction::Backward.transform(&line)
        };
        let transformed = along(run.pool(), &a, last, out.dims(), &whole)?;
        map1(run.pool(), &out, &transformed, |v: C128| <T as Value>::from_f64(v.re * scale))
    })))
}

#[cfg(test)]
mod tests {
    use super::super::harness::*;
    use super::*;
    use thunderhead_sdk::testing::Tensor;

    fn close(found: &[C128], expected: &[C128]) {
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).norm() < 1e-12, "{found:?} is not {expected:?}");
        }
    }

    #[test]
    fn any_length_agrees_with_the_definition() {
        for n in [1usize, 2, 3, 4, 6, 7, 12, 15, 16] {
            let line: Vec<C128> = (0..n).map(|j| C128::new((j * j % 5) as f64, (j % 3) as f64)).collect();
            let sum = |k: usize| (0..n).map(|j| line[j] * Direction::Forward.root(j * k, n)).sum();
            let expected: Vec<C128> = (0..n).map(sum).collect();
            let spec =
                op("prims.fft_c2c").tensor("a", Tensor::new(&[n as i64], line.clone())).ints("axes", &[0]);
            let there = run1(spec.int("norm", 0).bool("forward", true).output(Dtype::C128, &[n as i64]));
            close(&there.to_vec(), &expected);
            let spec = op("prims.fft_c2c").tensor("a", there).ints("axes", &[0]).int("norm", 2);
            close(&run1(spec.bool("forward", false).output(Dtype::C128, &[n as i64])).to_vec(), &line);
        }
    }

    #[test]
    fn halves_of_real_spectra_come_back() {
        for n in [4i64, 5] {
            let values: Vec<f64> = (0..2 * n).map(|v| (v * v % 7) as f64).collect();
            let half = n / 2 + 1;
            let spec =
                op("prims.fft_r2c").tensor("a", Tensor::new(&[2, n], values.clone())).ints("axes", &[0, 1]);
            let there = run1(spec.int("norm", 1).bool("onesided", true).output(Dtype::C128, &[2, half]));
            let total: f64 = values.iter().sum();
            assert!((there.to_vec::<C128>()[0].re - total / ((2 * n) as f64).sqrt()).abs() < 1e-12);
            let spec =
                op("prims.fft_c2r").tensor("a", there).ints("axes", &[0, 1]).int("norm", 1).int("last", n);
            let back = run1(spec.output(Dtype::F64, &[2, n])).to_vec::<f64>();
            assert!(back.iter().zip(&values).all(|(a, b)| (a - b).abs() < 1e-12), "{back:?}");
        }
    }
}
