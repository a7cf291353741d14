//! Products and factors of matrices. Half types accumulate in `f32` and round once; integers wrap.

use super::gemm::{Sizes, gemm};
use super::pool::Pool;
use super::run::{Args, Made};
use super::strided::{Dst, Src, Stack, StackMut, Window, for_each_index, numel};
use super::value::{Arith, C128, Divide, Product, Value, Widen};
use super::{Entry, class};
use thunderhead_sdk::Dtype::{self, BF16, C64, C128 as C128Dtype, F16, F32, F64, I32};
use thunderhead_sdk::{Error, Op};

pub const KERNELS: &[Entry] = &[
    Entry { name: "prims.cholesky", dtypes: FACTORED, make: cholesky },
    Entry { name: "prims.grouped_mm", dtypes: &[F16, BF16, F32, F64, I32], make: grouped_mm },
    Entry { name: "prims.linear", dtypes: class::INEXACT, make: linear },
    Entry { name: "prims.matmul", dtypes: class::NUMERIC, make: matmul },
    Entry { name: "prims.triangular_solve", dtypes: FACTORED, make: triangular_solve },
];

/// What PyTorch factors on a CPU.
const FACTORED: &[Dtype] = &[F32, F64, C64, C128Dtype];

/// Results of at most so many rows are computed without packing: each element of `b` is used that often only.
const FEW_ROWS: usize = 4;
/// Columns of such a result that make a chunk.
const COLUMNS: usize = 64;

fn matmul(op: &Op<'_>) -> Result<Made, Error> {
    let (a, b) = (op.must("a")?, op.must("b")?);
    with_numeric!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, b, out) = (run.src::<T>(a)?, run.src::<T>(b)?, run.dst::<T>(0)?);
        let rank = a.rank();
        let fits = rank >= 2
            && b.rank() == rank
            && out.rank() == rank
            && a.dims()[..rank - 2] == b.dims()[..rank - 2]
            && a.dims()[rank - 1] == b.dims()[rank - 2];
        if !fits {
            return Err(Error::invalid(format!("dims {:?} and {:?} do not multiply", a.dims(), b.dims())));
        }
        let bt = b.window(|window| transposed(window, rank));
        product(run.pool(), &Stack::new(&a), &Stack::new(&bt), &StackMut::new(&out), |_| <T as Product>::Acc::default())
    })
    .for_any_size()))
}

fn transposed(window: Window, rank: usize) -> Window {
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank - 2, rank - 1);
    window.permute(&order)
}

fn linear(op: &Op<'_>) -> Result<Made, Error> {
    let (a, w, bias) = (op.must("a")?, op.must("w")?, op.tensor("bias"));
    with_inexact!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, w, out) = (run.src::<T>(a)?, run.src::<T>(w)?, run.dst::<T>(0)?);
        let bias = bias.map(|bias| run.src::<T>(bias)).transpose()?;
        let &[columns, depth] = w.dims() else {
            return Err(Error::invalid(format!("weights of dims {:?}; expected two", w.dims())));
        };
        let fits = a.dims().last() == Some(&depth) && bias.as_ref().is_none_or(|bias| bias.dims() == [columns]);
        if !fits || !out.is_dense() {
            return Err(Error::invalid(format!("dims {:?} for weights of {:?}", a.dims(), w.dims())));
        }
        let rows = a.dims()[..a.rank() - 1].iter().product();
        let a = a.to_dense().window(|window| window.dense(&[rows, depth]));
        let out = out.window(|window| window.dense(&[rows, columns]));
        let bias: Option<Vec<<T as Product>::Acc>> = bias.map(|bias| bias.to_vec().into_iter().map(T::enter).collect());
        let first = |column: usize| bias.as_ref().map_or(<T as Product>::Acc::default(), |bias| bias[column]);
        product(run.pool(), &Stack::new(&a), &Stack::new(&w), &StackMut::new(&out), first)
    })
    .for_any_size()))
}

/// Products of groups, by which axes there are: rows of `a` (2-d by 3-d), columns of `b` (3-d by 2-d), or terms (2-d by
/// 2-d). `offsets` says where each group ends; what lies behind the last is zero.
fn grouped_mm(op: &Op<'_>) -> Result<Made, Error> {
    let (a, b, offsets) = (op.must("a")?, op.must("b")?, op.must("offsets")?);
    with_float!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, b, out) = (run.src::<T>(a)?, run.src::<T>(b)?, run.dst::<T>(0)?);
        let ends = run.src::<i32>(offsets)?.to_vec();
        super::strided::fill(run.pool(), &out, |_| <T as Value>::from_i64(0))?;
        let (grouped, size) = match (a.rank(), b.rank()) {
            (2, 3) => (Grouped::Rows, a.dims()[0]),
            (3, 2) => (Grouped::Columns, b.dims()[1]),
            (2, 2) => (Grouped::Terms, a.dims()[1]),
            _ => return Err(Error::invalid(format!("dims {:?} and {:?} in groups", a.dims(), b.dims()))),
        };
        let mut start = 0;
        for (group, end) in ends.iter().enumerate() {
            let end = usize::try_from(*end).ok().filter(|end| *end >= start && *end <= size).ok_or_else(|| {
                Error::invalid(format!("a group from {start} to {end} of {size}"))
            })?;
            let (a, b, out) = grouped.part(&a, &b, &out, group, start..end)?;
            matmul_into(run.pool(), &a, &b, &out)?;
            start = end;
        }
        Ok(())
    })
    .for_any_size()))
}

/// Two operands and where their product goes.
type Factors<T> = (Src<T>, Src<T>, Dst<T>);

#[derive(Clone, Copy)]
enum Grouped {
    Rows,
    Columns,
    Terms,
}

impl Grouped {
    fn part<T: Value>(
        self,
        a: &Src<T>,
        b: &Src<T>,
        out: &Dst<T>,
        group: usize,
        range: std::ops::Range<usize>,
    ) -> Result<Factors<T>, Error> {
        let whole = match self {
            Grouped::Rows => b.dims()[0],
            Grouped::Columns => a.dims()[0],
            Grouped::Terms => out.dims()[0],
        };
        let rank = if matches!(self, Grouped::Terms) { 3 } else { 2 };
        let sized = match self {
            Grouped::Rows => out.dims().first() == a.dims().first(),
            Grouped::Columns => out.dims().last() == b.dims().last(),
            Grouped::Terms => b.dims()[0] == a.dims()[1],
        };
        if group >= whole || out.rank() != rank || !sized {
            return Err(Error::invalid(format!("group {group} of {whole}, into dims {:?}", out.dims())));
        }
        let cut = |axis: usize| {
            let range = range.clone();
            move |window: Window| window.slice(axis, range.start, range.len(), 1)
        };
        let one = |window: Window| window.select(0, group);
        Ok(match self {
            Grouped::Rows => (a.window(cut(0)), b.window(one), out.window(cut(0))),
            Grouped::Columns => (a.window(one), b.window(cut(1)), out.window(cut(1))),
            Grouped::Terms => (a.window(cut(1)), b.window(cut(0)), out.window(one)),
        })
    }
}

fn matmul_into<T: Product>(pool: &dyn Pool, a: &Src<T>, b: &Src<T>, out: &Dst<T>) -> Result<(), Error> {
    if a.dims()[1] != b.dims()[0] {
        return Err(Error::invalid(format!("dims {:?} and {:?} do not multiply", a.dims(), b.dims())));
    }
    let bt = b.window(|window| transposed(window, 2));
    product(pool, &Stack::new(a), &Stack::new(&bt), &StackMut::new(out), |_| T::Acc::default())
}

/// Numbers that have a conjugate and a root.
trait Field: Divide {
    fn conjugate(self) -> Self;
    /// The real part.
    fn real(self) -> f64;
}

impl Field for f64 {
    fn conjugate(self) -> f64 {
        self
    }
    fn real(self) -> f64 {
        self
    }
}

impl Field for C128 {
    fn conjugate(self) -> C128 {
        self.conj()
    }
    fn real(self) -> f64 {
        self.re
    }
}

/// Checks that the last two dims are a square and gives its size and the dims before it.
fn squares(dims: &[usize]) -> Result<(usize, &[usize]), Error> {
    match dims {
        [batch @ .., rows, columns] if rows == columns => Ok((*rows, batch)),
        _ => Err(Error::invalid(format!("dims {dims:?} are no square matrices"))),
    }
}

/// The triangular factor of each Hermitian matrix, of which only the triangle asked for is read, and which leading minor
/// is not positive, 0 where all are.
fn cholesky(op: &Op<'_>) -> Result<Made, Error> {
    let (input, upper) = (op.must("a")?, op.bool("upper")?);
    with_dtype!(op.input(input).dtype(), [F32 f32, F64 f64, C64 super::value::C64, C128 C128], T => {
        Ok(Made::new(move |run| {
            let (a, out, info) = (run.src::<T>(input)?, run.dst::<T>(0)?, run.dst::<i32>(1)?);
            let (n, batch) = squares(a.dims())?;
            if out.dims() != a.dims() || info.dims() != batch {
                return Err(Error::invalid(format!("factors of dims {:?} for {:?}", out.dims(), a.dims())));
            }
            let (from, to) = (Stack::new(&a), StackMut::new(&out));
            for matrix in 0..from.count() {
                // An upper factor is the conjugate transpose of the lower one of the conjugate transpose.
                let entry = |i: usize, j: usize| {
                    if upper { from.get(matrix, j, i).widen().conjugate() } else { from.get(matrix, i, j).widen() }
                };
                let (factor, failed) = factor(n, entry);
                for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let v = if upper { factor[j * n + i].conjugate() } else { factor[i * n + j] };
                    to.set(matrix, i, j, v.convert());
                }
                info.set_number(matrix, failed as i32);
            }
            Ok(())
        })
        .for_any_size())
    })
}

/// The lower factor, row by row, and the number of the first minor that is not positive.
fn factor<W: Field>(n: usize, entry: impl Fn(usize, usize) -> W) -> (Vec<W>, usize) {
    let mut l = vec![W::default(); n * n];
    for i in 0..n {
        for j in 0..=i {
            let products = (0..j).map(|k| l[i * n + k].mul(l[j * n + k].conjugate()));
            let rest = products.fold(entry(i, j), |rest, product| rest.sub(product));
            if i == j {
                let pivot = rest.real();
                if pivot.is_nan() || pivot <= 0.0 {
                    return (l, i + 1);
                }
                l[i * n + i] = W::from_f64(libm::sqrt(pivot));
            } else {
                l[i * n + j] = rest.div(l[j * n + j]);
            }
        }
    }
    (l, 0)
}

/// `x` with `a x = b`, or, unless `left`, `x a = b`, by substitution.
fn triangular_solve(op: &Op<'_>) -> Result<Made, Error> {
    let (a, b) = (op.must("a")?, op.must("b")?);
    let (upper, left, unit) = (op.bool("upper")?, op.bool("left")?, op.bool("unitriangular")?);
    with_dtype!(op.input(a).dtype(), [F32 f32, F64 f64, C64 super::value::C64, C128 C128], T => {
        Ok(Made::new(move |run| {
            let (a, b, out) = (run.src::<T>(a)?, run.src::<T>(b)?, run.dst::<T>(0)?);
            let (n, batch) = squares(a.dims())?;
            let rank = b.rank();
            let axis = if left { rank.wrapping_sub(2) } else { rank.wrapping_sub(1) };
            let fits = rank == a.rank() && b.dims()[..rank - 2] == *batch && b.dims()[axis] == n;
            if !fits || out.dims() != b.dims() {
                return Err(Error::invalid(format!("matrices {:?} for a side of {:?}", a.dims(), b.dims())));
            }
            // From the right, all is transposed: so is the triangle.
            let lower = upper != left;
            let (from, mut outer) = (Stack::new(&a), b.dims().to_vec());
            outer.remove(axis);
            let mut number = 0;
            let lines = outer[rank - 2];
            for_each_index(&outer, 0..numel(&outer), &mut |at| {
                let (matrix, line) = (number / lines, b.line(axis, at));
                number += 1;
                let entry = |i: usize, j: usize| {
                    if left { from.get(matrix, i, j).widen() } else { from.get(matrix, j, i).widen() }
                };
                let mut x: Vec<_> = line.iter().map(|v| v.widen()).collect();
                for step in 0..n {
                    let i = if lower { step } else { n - 1 - step };
                    let known = if lower { 0..i } else { i + 1..n };
                    let rest = known.fold(x[i], |rest, j| rest.sub(entry(i, j).mul(x[j])));
                    x[i] = if unit { rest } else { rest.div(entry(i, i)) };
                }
                let to = out.line(axis, at);
                x.into_iter().enumerate().for_each(|(k, v)| to.set(k, v.convert()));
            });
            Ok(())
        })
        .for_any_size())
    })
}

/// `out[s] = a[s] bt[s]ᵀ + bias`, the sums in the accumulator's type.
fn product<T: Product>(
    pool: &dyn Pool,
    a: &Stack<T>,
    bt: &Stack<T>,
    out: &StackMut<T>,
    bias: impl Fn(usize) -> T::Acc + Sync,
) -> Result<(), Error> {
    let sizes = Sizes { count: a.count(), rows: a.rows(), columns: bt.rows(), depth: a.columns() };
    let fits = (out.count(), out.rows(), out.columns()) == (sizes.count, sizes.rows, sizes.columns);
    if !fits || bt.columns() != sizes.depth || bt.count() != sizes.count {
        return Err(Error::invalid(format!("{sizes:?} do not fit the result")));
    }
    let has_rows = sizes.count > 0 && sizes.columns > 0 && sizes.rows > 0;
    if has_rows && sizes.rows <= FEW_ROWS && a.row(0, 0).is_some() && bt.row(0, 0).is_some() {
        return few_rows(pool, sizes, a, bt, |s, i, j, v| out.set(s, i, j, T::leave(v.add(bias(j)))));
    }
    gemm(
        pool,
        sizes,
        |s, i, k| a.get(s, i, k).enter(),
        |s, k, j| bt.get(s, j, k).enter(),
        |s, i, j, v: T::Acc| out.set(s, i, j, T::leave(v.add(bias(j)))),
    )
}

/// As [`gemm`], for few rows and operands whose rows have no gaps.
fn few_rows<T: Product>(
    pool: &dyn Pool,
    sizes: Sizes,
    a: &Stack<T>,
    bt: &Stack<T>,
    store: impl Fn(usize, usize, usize, T::Acc) + Sync,
) -> Result<(), Error> {
    let blocks = sizes.columns.div_ceil(COLUMNS);
    pool.split(sizes.count * blocks, 1, &|tasks| {
        for task in tasks {
            let (s, start) = (task / blocks, task % blocks * COLUMNS);
            for j in start..(start + COLUMNS).min(sizes.columns) {
                let Some(y) = bt.row(s, j) else { return };
                for i in 0..sizes.rows {
                    let Some(x) = a.row(s, i) else { return };
                    store(s, i, j, dot(x, y));
                }
            }
        }
    })
}

/// `Σ x[k] y[k]`, in lanes that are added up at the end.
#[inline(always)]
fn dot_plain<T: Product>(x: &[T], y: &[T]) -> T::Acc {
    const LANES: usize = 16;
    let mut lanes = [T::Acc::default(); LANES];
    let (x_lanes, x_rest) = x.as_chunks::<LANES>();
    let (y_lanes, y_rest) = y.as_chunks::<LANES>();
    for (x, y) in x_lanes.iter().zip(y_lanes) {
        for lane in 0..LANES {
            lanes[lane] = lanes[lane].add(x[lane].enter().mul(y[lane].enter()));
        }
    }
    for (lane, (x, y)) in x_rest.iter().zip(y_rest).enumerate() {
        lanes[lane] = lanes[lane].add(x.enter().mul(y.enter()));
    }
    lanes.into_iter().reduce(|a, b| a.add(b)).expect("there are lanes")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn dot_avx2<T: Product>(x: &[T], y: &[T]) -> T::Acc {
    dot_plain(x, y)
}

fn dot<T: Product>(x: &[T], y: &[T]) -> T::Acc {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2.
        return unsafe { dot_avx2(x, y) };
    }
    dot_plain(x, y)
}

#[cfg(test)]
mod tests {
    use super::super::harness::*;
    use thunderhead_sdk::half::bf16;
    use thunderhead_sdk::testing::{RunOptions, Tensor};
    use thunderhead_sdk::{Dtype, num_complex::Complex};

    #[test]
    fn matrices_multiply_in_any_layout() {
        let a = Tensor::new(&[2, 3], vec![1i64, 2, 3, 4, 5, 6]);
        let b = Tensor::new(&[2, 3], vec![1i64, 0, 2, -1, 3, 1]).transposed(0, 1);
        let out = run1(op("prims.matmul").tensor("a", a).tensor("b", b).output(Dtype::I64, &[2, 2]));
        assert_eq!(out.to_vec::<i64>(), [7, 8, 16, 17]);
        let i = Complex::new(0f32, 1.0);
        let a = Tensor::new(&[1, 1, 1], vec![i]);
        let out =
            run1(op("prims.matmul").tensor("a", a.clone()).tensor("b", a).output(Dtype::C64, &[1, 1, 1]));
        assert_eq!(out.to_vec::<Complex<f32>>(), [Complex::new(-1.0, 0.0)]);
        let a = Tensor::new(&[2, 0], Vec::<f32>::new());
        let b = Tensor::new(&[0, 2], Vec::<f32>::new());
        let out = run1(op("prims.matmul").tensor("a", a).tensor("b", b).output(Dtype::F32, &[2, 2]));
        assert_eq!(out.to_vec::<f32>(), [0.0; 4]);
    }

    #[test]
    fn halves_accumulate_in_f32() {
        // In bf16 the sum would stop at 256.
        let ones = |dims: &[i64]| Tensor::new(dims, vec![bf16::ONE; dims.iter().product::<i64>() as usize]);
        for rows in [1, 8] {
            let spec = op("prims.linear").tensor("a", ones(&[rows, 300])).tensor("w", ones(&[1, 300]));
            let out = run1(spec.tensor("bias", ones(&[1])).output(Dtype::BF16, &[rows, 1]));
            assert_eq!(out.to_vec::<bf16>()[0], bf16::from_f32(301.0));
        }
    }

    #[test]
    fn bits_do_not_depend_on_threads() {
        let values = |n: i64| (0..n).map(|v| ((v * 37) % 101) as f32 * 0.173 - 7.0).collect::<Vec<f32>>();
        let a = Tensor::new(&[150, 300], values(150 * 300));
        let w = Tensor::new(&[140, 300], values(140 * 300));
        let spec =
            op("prims.linear").tensor("a", a).tensor("w", w).none("bias").output(Dtype::F32, &[150, 140]);
        let on = |threads| {
            let options = RunOptions { threads, ..RunOptions::default() };
            host().run_with(&spec, &options).expect("runs").swap_remove(0).to_vec::<f32>()
        };
        let alone = on(1);
        assert_eq!(alone, on(2));
        assert_eq!(alone, on(3));
        let exact: f64 = (0..300).map(|k| f64::from(values(300)[k]) * f64::from(values(300)[k])).sum();
        assert!((f64::from(alone[0]) - exact).abs() < 1e-4 * exact);
    }

    #[test]
    fn groups_multiply_alone() {
        let a = Tensor::new(&[3, 2], vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let b = Tensor::new(&[2, 2, 1], vec![1f32, 1.0, 10.0, 100.0]);
        let spec = op("prims.grouped_mm").tensor("a", a.clone()).tensor("b", b);
        let spec = spec.tensor("offsets", Tensor::new(&[2], vec![1i32, 3]));
        assert_eq!(run1(spec.output(Dtype::F32, &[3, 1])).to_vec::<f32>(), [3.0, 430.0, 650.0]);
        let b = Tensor::new(&[2, 1], vec![1f32, 10.0]);
        let spec = op("prims.grouped_mm").tensor("a", a).tensor("b", b);
        let spec = spec.tensor("offsets", Tensor::new(&[2], vec![1i32, 2]));
        let out = run1(spec.output(Dtype::F32, &[2, 3, 1]));
        assert_eq!(out.to_vec::<f32>(), [1.0, 3.0, 5.0, 20.0, 40.0, 60.0]);
    }

    #[test]
    fn factors_multiply_to_their_matrix() {
        let a = Tensor::new(&[2, 2], vec![4f64, 9.0, 2.0, 5.0]);
        let factor = |upper| {
            let spec = op("prims.cholesky").tensor("a", a.clone()).bool("upper", upper);
            run(spec.output(Dtype::F64, &[2, 2]).output(Dtype::I32, &[]))
        };
        assert_eq!(factor(false)[0].to_vec::<f64>(), [2.0, 0.0, 1.0, 2.0]);
        assert_eq!(factor(false)[1].to_vec::<i32>(), [0]);
        // The upper triangle holds another matrix, which is not positive.
        assert_eq!(factor(true)[1].to_vec::<i32>(), [2]);
    }

    #[test]
    fn triangles_are_solved_from_both_sides() {
        let a = Tensor::new(&[2, 2], vec![2f64, 7.0, 3.0, 4.0]);
        for (upper, left) in [(false, true), (true, true), (false, false), (true, false)] {
            let b = Tensor::new(&[2, 2], vec![2f64, 4.0, 4.0, 2.0]);
            let spec =
                op("prims.triangular_solve").tensor("a", a.clone()).tensor("b", b).bool("upper", upper);
            let spec = spec.bool("left", left).bool("unitriangular", false).output(Dtype::F64, &[2, 2]);
            let x = run1(spec).to_vec::<f64>();
            let entry = |i: usize, j: usize| match (i, j) {
                (0, 1) if !upper => 0.0,
                (1, 0) if upper => 0.0,
                _ => a.to_vec::<f64>()[i * 2 + j],
            };
            let b = [2.0, 4.0, 4.0, 2.0];
            for (i, j) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let left_sum: f64 = (0..2).map(|k| entry(i, k) * x[k * 2 + j]).sum();
                let right_sum: f64 = (0..2).map(|k| x[i * 2 + k] * entry(k, j)).sum();
                let found = if left { left_sum } else { right_sum };
                assert!((found - b[i * 2 + j]).abs() < 1e-12, "upper {upper}, left {left}: {x:?}");
            }
        }
    }
}
