//! Prims that fold axes: sums, products, extremes, variances, and scans and searches along one axis.
//!
//! Sums and products run in `f64` (integers in `i64`, wrapping) and round once, in row-major order of the folded
//! elements; long folds are cut into parts of a fixed size, so the bits do not depend on the number of threads.

use super::convert::convert;
use super::pool::{Alone, Pool};
use super::run::{Args, Made};
use super::strided::{Dst, Fold, Src, for_each_index, map1, numel, reduce};
use super::value::{Arith, C128, ComplexValue, Divide, Float, Real, Value, Widen};
use super::{Entry, class};
use thunderhead_sdk::{Dtype, Error, Op};

pub const KERNELS: &[Entry] = &[
    Entry { name: "prims.amax", dtypes: class::REAL_OR_BOOL, make: |op| extreme(op, Extreme::Greatest) },
    Entry { name: "prims.amin", dtypes: class::REAL_OR_BOOL, make: |op| extreme(op, Extreme::Least) },
    Entry { name: "prims.argmax", dtypes: class::REAL_OR_BOOL, make: |op| place(op, Extreme::Greatest) },
    Entry { name: "prims.argmin", dtypes: class::REAL_OR_BOOL, make: |op| place(op, Extreme::Least) },
    Entry { name: "prims.cummax", dtypes: class::REAL_OR_BOOL, make: cummax },
    Entry { name: "prims.cumprod", dtypes: class::NUMERIC, make: |op| scan(op, Scan::Product) },
    Entry { name: "prims.cumsum", dtypes: class::NUMERIC, make: |op| scan(op, Scan::Sum) },
    Entry { name: "prims.logcumsumexp", dtypes: class::INEXACT, make: logcumsumexp },
    Entry { name: "prims.prod", dtypes: class::NUMERIC, make: prod },
    Entry { name: "prims.sum", dtypes: class::ANY, make: sum },
    Entry { name: "prims.var", dtypes: class::INEXACT, make: |op| variance(op, Mean::Dropped) },
    Entry { name: "prims.var_mean", dtypes: class::INEXACT, make: |op| variance(op, Mean::Output) },
];

/// Axes of argument `axes`, of the tensor `a`.
fn axes_of(op: &Op<'_>) -> Result<(usize, Vec<usize>), Error> {
    let input = op.must("a")?;
    Ok((input, op.axes("axes", op.input(input).rank())?))
}

fn sum(op: &Op<'_>) -> Result<Made, Error> {
    fold_wide(
        op,
        Wide {
            start: 0,
            ints: i64::wrapping_add,
            floats: |a: f64, b: f64| a + b,
            complex: |a: C128, b: C128| a + b,
        },
    )
}

fn prod(op: &Op<'_>) -> Result<Made, Error> {
    fold_wide(
        op,
        Wide {
            start: 1,
            ints: i64::wrapping_mul,
            floats: |a: f64, b: f64| a * b,
            complex: |a: C128, b: C128| a * b,
        },
    )
}

/// A fold in the widest type of each category.
struct Wide<I, F, C> {
    start: i64,
    ints: I,
    floats: F,
    complex: C,
}

fn fold_wide<I, F, C>(op: &Op<'_>, wide: Wide<I, F, C>) -> Result<Made, Error>
where
    I: Fn(i64, i64) -> i64 + Copy + Send + Sync + 'static,
    F: Fn(f64, f64) -> f64 + Copy + Send + Sync + 'static,
    C: Fn(C128, C128) -> C128 + Copy + Send + Sync + 'static,
{
    let (from, to) = (op.input(op.must("a")?).dtype(), op.output(0).dtype());
    let start = wide.start as f64;
    // Into another category: converted first, as the sum itself would be.
    if from.is_complex() != to.is_complex() || from.is_float() != to.is_float() {
        return match to {
            _ if to.is_complex() => fold_as::<C128, C128>(op, C128::new(start, 0.0), wide.complex),
            _ if to.is_float() => fold_as::<f64, f64>(op, start, wide.floats),
            _ => fold_as::<i64, i64>(op, wide.start, wide.ints),
        };
    }
    match from {
        _ if from.is_complex() => {
            with_complex!(from, A => fold_as::<A, C128>(op, C128::new(start, 0.0), wide.complex))
        }
        _ if from.is_float() => with_float!(from, A => fold_as::<A, f64>(op, start, wide.floats)),
        Dtype::Bool => fold_as::<thunderhead_sdk::Bool, i64>(op, wide.start, wide.ints),
        _ => with_int!(from, A => fold_as::<A, i64>(op, wide.start, wide.ints)),
    }
}

/// The fold of `a`, read as `A`, in `W`; rounded once into the result's dtype.
fn fold_as<A: Value, W: Value>(
    op: &Op<'_>,
    start: W,
    step: impl Fn(W, W) -> W + Copy + Send + Sync + 'static,
) -> Result<Made, Error> {
    let (input, axes) = axes_of(op)?;
    Ok(Made::new(move |run| {
        let (a, out) = (run.src_as::<A>(input)?, run.store(0)?);
        let fold = Fold { start, step: |state: W, v: A| step(state, v.convert()), merge: step };
        convert(run.pool(), &*out, &folded(run.pool(), &a, &axes, &fold)?)
    })
    .for_any_size())
}

/// The results of a fold as a dense tensor.
fn folded<A, S, Step, Merge>(
    pool: &dyn Pool,
    a: &Src<A>,
    axes: &[usize],
    fold: &Fold<S, Step, Merge>,
) -> Result<Src<S>, Error>
where
    A: Value,
    S: Value,
    Step: Fn(S, A) -> S + Sync,
    Merge: Fn(S, S) -> S + Sync,
{
    let kept = kept_dims(a.dims(), axes);
    let mut results = vec![S::default(); numel(&kept)];
    let results_at = Dst::over(&mut results, &kept);
    reduce(pool, a, axes, fold, &|number, state| results_at.set_number(number, state))?;
    Ok(Src::from_vec(results, &kept))
}

/// The dims of the axes that a fold leaves.
fn kept_dims(dims: &[usize], axes: &[usize]) -> Vec<usize> {
    (0..dims.len()).filter(|axis| !axes.contains(axis)).map(|axis| dims[axis]).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Extreme {
    Greatest,
    Least,
}

fn extreme(op: &Op<'_>, which: Extreme) -> Result<Made, Error> {
    let (input, axes) = axes_of(op)?;
    let reduced = axes.iter().map(|axis| op.input(input).dims()[*axis]);
    if reduced.into_iter().any(|dim| dim == 0) {
        return Err(Error::invalid("the greatest or least of no elements is not defined"));
    }
    with_real_or_bool!(op.input(input).dtype(), A => Ok(Made::new(move |run| {
        let (a, out) = (run.src::<A>(input)?, run.store(0)?);
        let results = match which {
            Extreme::Greatest => {
                let fold = Fold { start: A::least(), step: A::larger, merge: A::larger };
                folded(run.pool(), &a, &axes, &fold)?
            }
            Extreme::Least => {
                let fold = Fold { start: A::greatest(), step: A::smaller, merge: A::smaller };
                folded(run.pool(), &a, &axes, &fold)?
            }
        };
        convert(run.pool(), &*out, &results)
    })))
}

/// The place of the first extreme element; NaN is more extreme than all else.
fn place(op: &Op<'_>, which: Extreme) -> Result<Made, Error> {
    let input = op.must("a")?;
    let rank = op.input(input).rank();
    let axis = if op.has("axis") { Some(op.axis("axis", rank)?) } else { None };
    with_real_or_bool!(op.input(input).dtype(), A => Ok(Made::new(move |run| {
        let (a, out) = (run.src::<A>(input)?, run.dst::<i64>(0)?);
        let more = |new: A, old: A| match which {
            _ if old.is_nan() => false,
            _ if new.is_nan() => true,
            Extreme::Greatest => old.less(new),
            Extreme::Least => new.less(old),
        };
        let first = |values: &mut dyn Iterator<Item = A>| {
            let best = values.enumerate().reduce(|best, new| if more(new.1, best.1) { new } else { best });
            best.map(|(at, _)| at as i64).ok_or_else(|| Error::invalid("the extreme of no elements is asked for"))
        };
        match axis {
            None => {
                out.set(&[], first(&mut a.to_vec().into_iter())?);
                Ok(())
            }
            Some(axis) => run.pool().try_split(out.numel(), lines_a_chunk(a.dims()[axis]), &|range| {
                let mut result = Ok(());
                for_each_index(out.dims(), range, &mut |outer| match first(&mut a.line(axis, outer).iter()) {
                    Ok(at) => out.set(outer, at),
                    Err(error) => result = Err(error),
                });
                result
            }),
        }
    })
    .for_any_size()))
}

/// How many lines of `len` elements make a chunk.
pub(super) fn lines_a_chunk(len: usize) -> usize {
    (super::strided::GRAIN / len.max(1)).max(1)
}

/// The dims without one axis.
pub(super) fn without(dims: &[usize], axis: usize) -> Vec<usize> {
    dims.iter().enumerate().filter(|(other, _)| *other != axis).map(|(_, dim)| *dim).collect()
}

#[derive(Clone, Copy)]
enum Scan {
    Sum,
    Product,
}

fn scan(op: &Op<'_>, which: Scan) -> Result<Made, Error> {
    let input = op.must("a")?;
    let dtype = op.input(input).dtype();
    with_numeric!(dtype, A => match which {
        Scan::Sum => along(op, <A as Widen>::Wide::default(), |state, v: A| state.add(v.widen()), |state| state.convert()),
        Scan::Product => along(op, <A as Widen>::Wide::one(), |state, v: A| state.mul(v.widen()), |state| state.convert()),
    })
}

/// `out[.., k] = finish(fold of a[.., 0..=k])` along an axis, in order; a tensor without dims is one element.
fn along<A: Value, S: Copy + Send + Sync + 'static>(
    op: &Op<'_>,
    start: S,
    step: impl Fn(S, A) -> S + Send + Sync + 'static,
    finish: impl Fn(S) -> A + Send + Sync + 'static,
) -> Result<Made, Error> {
    let input = op.must("a")?;
    let rank = op.input(input).rank();
    if rank == 0 {
        return Ok(Made::new(move |run| {
            let (a, out) = (run.src::<A>(input)?, run.dst::<A>(0)?);
            map1(run.pool(), &out, &a, |v| finish(step(start, v)))
        }));
    }
    let axis = op.axis("axis", rank)?;
    let made = Made::new(move |run| {
        let (a, out) = (run.src::<A>(input)?, run.dst::<A>(0)?);
        if a.dims() != out.dims() {
            return Err(Error::invalid(format!("a scan of dims {:?} into {:?}", a.dims(), out.dims())));
        }
        let outer_dims = without(a.dims(), axis);
        run.pool().split(numel(&outer_dims), lines_a_chunk(a.dims()[axis]), &|range| {
            for_each_index(&outer_dims, range, &mut |outer| {
                let (from, to) = (a.line(axis, outer), out.line(axis, outer));
                let mut state = start;
                for k in 0..from.len() {
                    state = step(state, from.get(k));
                    to.set(k, finish(state));
                }
            });
        })
    });
    Ok(made.for_any_size().in_place([input]))
}

/// `log(e^a + e^b)` without overflow.
fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if low == high && low.is_infinite() || low == f64::NEG_INFINITY {
        high
    } else {
        high + libm::log1p(libm::exp(low - high))
    }
}

fn complex_log_add(a: C128, b: C128) -> C128 {
    let (low, high) = if a.re < b.re { (a, b) } else { (b, a) };
    if low.re == f64::NEG_INFINITY { high } else { high + super::complex::log1p((low - high).exp()) }
}

fn logcumsumexp(op: &Op<'_>) -> Result<Made, Error> {
    let dtype = op.input(op.must("a")?).dtype();
    if dtype.is_complex() {
        let start = C128::new(f64::NEG_INFINITY, 0.0);
        return with_complex!(dtype, A => {
            along(op, start, |state, v: A| complex_log_add(state, v.to_c128()), A::from_c128)
        });
    }
    with_float!(dtype, A => {
        along(op, f64::NEG_INFINITY, |state, v: A| log_add(state, v.to_f64()), A::from_f64)
    })
}

/// The greatest so far and the place of its last occurrence, as ATen has it.
fn cummax(op: &Op<'_>) -> Result<Made, Error> {
    let input = op.must("a")?;
    let rank = op.input(input).rank();
    let axis = if rank == 0 { None } else { Some(op.axis("axis", rank)?) };
    with_real_or_bool!(op.input(input).dtype(), A => Ok(Made::new(move |run| {
        let (a, values, places) = (run.src::<A>(input)?, run.dst::<A>(0)?, run.dst::<i64>(1)?);
        let Some(axis) = axis else {
            values.set(&[], a.get(&[]));
            places.set(&[], 0);
            return Ok(());
        };
        let outer_dims = without(a.dims(), axis);
        run.pool().split(numel(&outer_dims), lines_a_chunk(a.dims()[axis]), &|range| {
            for_each_index(&outer_dims, range, &mut |outer| {
                let from = a.line(axis, outer);
                let (to, to_places) = (values.line(axis, outer), places.line(axis, outer));
                let mut best = None;
                for k in 0..from.len() {
                    let v = from.get(k);
                    let (value, place) = match best {
                        Some((old, at)) if !v.is_nan() && (A::is_nan(old) || v.less(old)) => (old, at),
                        _ => (v, k as i64),
                    };
                    best = Some((value, place));
                    to.set(k, value);
                    to_places.set(k, place);
                }
            });
        })
    })
    .for_any_size()))
}

#[derive(Clone, Copy, PartialEq)]
enum Mean {
    Dropped,
    Output,
}

/// In two passes: the mean, then the squares of what is left, corrected by the mean of what is left, which would be zero
/// without rounding.
fn variance(op: &Op<'_>, mean: Mean) -> Result<Made, Error> {
    let (input, axes) = axes_of(op)?;
    let correction = op.num("correction")?;
    let dtype = op.input(input).dtype();
    with_inexact!(dtype, A => Ok(Made::new(move |run| {
        let a = run.src::<A>(input)?;
        let correction: f64 = run.number(correction).to();
        let count = axes.iter().map(|axis| a.dims()[*axis]).product::<usize>();
        let kept = kept_dims(a.dims(), &axes);
        let fold = Fold {
            start: <A as Widen>::Wide::default(),
            step: |state: <A as Widen>::Wide, v: A| state.add(v.widen()),
            merge: |a: <A as Widen>::Wide, b| a.add(b),
        };
        let mut means = folded(run.pool(), &a, &axes, &fold)?.to_vec();
        means.iter_mut().for_each(|mean| *mean = mean.div(Value::from_f64(count as f64)));
        let means = Src::from_vec(means, &kept);
        if mean == Mean::Output {
            let out = run.store(1)?;
            convert(run.pool(), &*out, &means)?;
        }
        let free = (count as f64 - correction).max(0.0);
        let mut results = vec![0.0; numel(&kept)];
        let results_at = Dst::over(&mut results, &kept);
        run.pool().split(numel(&kept), lines_a_chunk(count), &|range| {
            for_each_index(&kept, range, &mut |outer| {
                results_at.set(outer, deviations(&a, &axes, outer, means.get(outer)) / free);
            });
        })?;
        // Of complex tensors, too, the variance is real.
        let out = run.store(0)?;
        convert(run.pool(), &*out, &Src::from_vec(results, &kept))
    })
    .for_any_size()))
}

/// Σ |v - mean|² over the reduced elements of one result, less what the rounding of the mean has added.
fn deviations<A: Widen>(a: &Src<A>, axes: &[usize], outer: &[usize], mean: A::Wide) -> f64
where
    A::Wide: Magnitude,
{
    let mut kept = outer.iter();
    let mut fixed = a.clone();
    for axis in (0..a.rank()).rev() {
        if !axes.contains(&axis) {
            let at = *kept.next_back().expect("as many indices as kept axes");
            fixed = fixed.window(|window| window.select(axis, at));
        }
    }
    let fold = Fold {
        start: (0.0, A::Wide::default()),
        step: |(squares, rest): (f64, A::Wide), v: A| {
            let off = v.widen().sub(mean);
            (squares + off.squared(), rest.add(off))
        },
        merge: |a: (f64, A::Wide), b: (f64, A::Wide)| (a.0 + b.0, a.1.add(b.1)),
    };
    let all: Vec<usize> = (0..fixed.rank()).collect();
    let count = fixed.numel() as f64;
    let state = std::sync::Mutex::new((0.0, A::Wide::default()));
    let keep = |_: usize, folded| {
        if let Ok(mut state) = state.lock() {
            *state = folded;
        }
    };
    reduce(&Alone, &fixed, &all, &fold, &keep).expect("nothing fails on one thread");
    let (squares, rest) = state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let result = squares - rest.squared() / count;
    if result < 0.0 { 0.0 } else { result }
}

/// The square of the magnitude.
trait Magnitude {
    fn squared(self) -> f64;
}

impl Magnitude for f64 {
    fn squared(self) -> f64 {
        self * self
    }
}

impl Magnitude for C128 {
    fn squared(self) -> f64 {
        self.norm_sqr()
    }
}

#[cfg(test)]
mod tests {
    use super::super::harness::*;
    use super::*;
    use half::bf16;
    use thunderhead_sdk::testing::{OpSpec, RunOptions, Tensor};

    fn over(name: &str, a: Tensor, axes: &[i64]) -> OpSpec {
        op(name).tensor("a", a).ints("axes", axes).none("out_dtype")
    }

    fn counted(dims: &[i64]) -> Tensor {
        Tensor::new(dims, (0..dims.iter().product::<i64>()).map(|v| v as f32).collect::<Vec<f32>>())
    }

    #[test]
    fn any_axes_of_any_layout_are_folded() {
        let a = counted(&[2, 3, 4]);
        assert_eq!(
            run1(over("prims.sum", a.clone(), &[0, 2]).output(Dtype::F32, &[3])).to_vec::<f32>(),
            [60.0, 92.0, 124.0]
        );
        let turned = a.clone().transposed(0, 2);
        assert_eq!(
            run1(over("prims.sum", turned, &[0, 2]).output(Dtype::F32, &[3])).to_vec::<f32>(),
            [60.0, 92.0, 124.0]
        );
        assert_eq!(
            run1(over("prims.sum", a.clone(), &[0, 1, 2]).output(Dtype::F32, &[])).to_vec::<f32>(),
            [276.0]
        );
        assert_eq!(run1(over("prims.amax", a, &[0]).output(Dtype::F32, &[3, 4])).to_vec::<f32>()[0], 12.0);
        let empty = Tensor::new(&[2, 0], Vec::<f32>::new());
        assert_eq!(
            run1(over("prims.sum", empty.clone(), &[1]).output(Dtype::F32, &[2])).to_vec::<f32>(),
            [0.0, 0.0]
        );
        assert_eq!(
            run1(over("prims.prod", empty.clone(), &[1]).output(Dtype::F32, &[2])).to_vec::<f32>(),
            [1.0, 1.0]
        );
        assert!(failure(over("prims.amax", empty, &[1]).output(Dtype::F32, &[2])).contains("no elements"));
    }

    #[test]
    fn sums_do_not_lose_small_terms_nor_depend_on_threads() {
        let n = 400_000;
        let values: Vec<f32> = (0..n).map(|v| ((v * 37) % 1009) as f32 * 0.001 + 1.0).collect();
        let exact: f64 = values.iter().map(|v| f64::from(*v)).sum();
        let spec = over("prims.sum", Tensor::new(&[n], values), &[0]).output(Dtype::F32, &[]);
        for threads in [1, 2, 5] {
            let out = host().run_with(&spec, &RunOptions { threads, ..RunOptions::default() }).expect("runs");
            assert_eq!(out[0].to_vec::<f32>(), [exact as f32]);
        }
        let ones = Tensor::new(&[300], vec![bf16::ONE; 300]);
        assert_eq!(
            run1(over("prims.sum", ones, &[0]).output(Dtype::BF16, &[])).to_vec::<bf16>(),
            [bf16::from_f32(300.0)]
        );
    }

    #[test]
    fn dtypes_of_results_may_differ() {
        let bools = Tensor::new(&[3], vec![true, false, true]);
        let spec =
            op("prims.sum").tensor("a", bools.clone()).ints("axes", &[0]).dtype("out_dtype", Dtype::I64);
        assert_eq!(run1(spec.output(Dtype::I64, &[])).to_vec::<i64>(), [2]);
        assert_eq!(run1(over("prims.amax", bools, &[0]).output(Dtype::Bool, &[])).to_vec::<bool>(), [true]);
        let bytes = Tensor::new(&[2], vec![200u8, 100]);
        assert_eq!(
            run1(over("prims.sum", bytes.clone(), &[0]).output(Dtype::I64, &[])).to_vec::<i64>(),
            [300]
        );
        assert_eq!(run1(over("prims.sum", bytes, &[0]).output(Dtype::F32, &[])).to_vec::<f32>(), [300.0]);
    }

    #[test]
    fn nan_is_most_extreme_and_the_first_of_equals_wins() {
        let a = || Tensor::new(&[2, 3], vec![1f32, 3.0, 3.0, f32::NAN, 9.0, f32::NAN]);
        let place = |name: &str| op(name).tensor("a", a()).int("axis", 1).output(Dtype::I64, &[2]);
        assert_eq!(run1(place("prims.argmax")).to_vec::<i64>(), [1, 0]);
        assert_eq!(run1(place("prims.argmin")).to_vec::<i64>(), [0, 0]);
        assert!(run1(over("prims.amin", a(), &[1]).output(Dtype::F32, &[2])).to_vec::<f32>()[1].is_nan());
        let all = op("prims.argmax").tensor("a", counted(&[2, 3])).none("axis").output(Dtype::I64, &[]);
        assert_eq!(run1(all).to_vec::<i64>(), [5]);
    }

    #[test]
    fn variances_stand_far_offsets() {
        let spec = |a, correction| {
            let spec = op("prims.var_mean").tensor("a", a).ints("axes", &[1]).int("correction", correction);
            run(spec.output(Dtype::F32, &[2]).output(Dtype::F32, &[2]))
        };
        let a = Tensor::new(&[2, 4], vec![1e6f32, 1e6 + 1.0, 1e6 + 2.0, 1e6 + 3.0, 0.0, 0.0, 4.0, 4.0]);
        let out = spec(a.clone(), 1);
        assert_eq!(out[0].to_vec::<f32>(), [5.0 / 3.0, 16.0 / 3.0]);
        assert_eq!(out[1].to_vec::<f32>(), [1e6 + 1.5, 2.0]);
        assert_eq!(spec(a, 0)[0].to_vec::<f32>(), [1.25, 4.0]);
        let spec = op("prims.var")
            .tensor("a", Tensor::new(&[1], vec![3f64]))
            .ints("axes", &[0])
            .int("correction", 1);
        assert!(run1(spec.output(Dtype::F64, &[])).to_vec::<f64>()[0].is_nan());
        let c = |re, im| C128::new(re, im);
        let a = Tensor::new(&[2], vec![c(0.0, 1.0), c(2.0, 1.0)]);
        let spec = op("prims.var").tensor("a", a).ints("axes", &[0]).int("correction", 1);
        assert_eq!(run1(spec.output(Dtype::F64, &[])).to_vec::<f64>(), [2.0]);
    }

    #[test]
    fn scans_go_along_their_axis() {
        let a = Tensor::new(&[2, 3], vec![1i32, 2, 3, 4, 5, 6]);
        let scan = |name: &str, axis| op(name).tensor("a", a.clone()).int("axis", axis);
        let out = run1(scan("prims.cumsum", 1).output(Dtype::I32, &[2, 3]));
        assert_eq!(out.to_vec::<i32>(), [1, 3, 6, 4, 9, 15]);
        let out = run1(scan("prims.cumprod", 0).output(Dtype::I32, &[2, 3]));
        assert_eq!(out.to_vec::<i32>(), [1, 2, 3, 4, 10, 18]);
        let line = Tensor::new(&[4], vec![1f32, f32::NAN, 5.0, 7.0]);
        let out = run(op("prims.cummax")
            .tensor("a", line)
            .int("axis", 0)
            .output(Dtype::F32, &[4])
            .output(Dtype::I64, &[4]));
        assert_eq!(out[1].to_vec::<i64>(), [0, 1, 1, 1]);
        let equal = Tensor::new(&[3], vec![2i64, 2, 1]);
        let out = run(op("prims.cummax")
            .tensor("a", equal)
            .int("axis", 0)
            .output(Dtype::I64, &[3])
            .output(Dtype::I64, &[3]));
        assert_eq!(out[1].to_vec::<i64>(), [0, 1, 1]);
        let huge = Tensor::new(&[2], vec![1000f64, 1000.0]);
        let out = run1(op("prims.logcumsumexp").tensor("a", huge).int("axis", 0).output(Dtype::F64, &[2]));
        assert_eq!(out.to_vec::<f64>(), [1000.0, 1000.0 + std::f64::consts::LN_2]);
    }
}
