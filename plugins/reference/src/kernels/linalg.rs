//! Products and factors of matrices. Half types accumulate in `f32` and round once; integers wrap.

use super::gemm::{Sizes, gemm};
use super::pool::Pool;
use super::run::{Args, Made};
use super::strided::{Stack, StackMut, Window};
use super::value::{Arith, Product};
use super::{Entry, class};
use thunderhead_sdk::{Error, Op};

pub const KERNELS: &[Entry] = &[
    Entry { name: "prims.linear", dtypes: class::INEXACT, make: linear },
    Entry { name: "prims.matmul", dtypes: class::NUMERIC, make: matmul },
];

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
}
