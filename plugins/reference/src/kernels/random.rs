//! Random prims: pure functions of seed and offset, the same bits on every executor and number of threads.
//!
//! Element `i` in row-major order uses words of its own, so any part can be computed alone. Integers and permutations are
//! exact; normals are within 2 units in the last place of any other implementation.

use super::philox::Stream;
use super::run::{Args, Made, Num, Run};
use super::strided::{Dst, Src, copy, fill, for_each_index, numel};
use super::value::{Float, Value};
use super::{Entry, class};
use half::{bf16, f16};
use thunderhead_sdk::{Dtype, Error, Op};

pub const KERNELS: &[Entry] = &[
    Entry { name: "prims.multinomial_philox", dtypes: class::FLOAT, make: multinomial },
    Entry { name: "prims.randint_philox", dtypes: class::NONE, make: randint },
    Entry { name: "prims.randn_philox", dtypes: class::NONE, make: randn },
    Entry { name: "prims.randperm_philox", dtypes: class::NONE, make: randperm },
    Entry { name: "prims.uniform_philox", dtypes: class::NONE, make: uniform },
];

/// Where an op's words come from; both numbers are usually known only at run.
#[derive(Clone, Copy)]
struct Source {
    seed: Num,
    offset: Num,
}

impl Source {
    fn of(op: &Op<'_>) -> Result<Source, Error> {
        Ok(Source { seed: op.num("seed")?, offset: op.num("offset")? })
    }

    fn stream(&self, run: &Run<'_, '_>) -> Result<Stream, Error> {
        Ok(Stream::new(run.int(self.seed)?, run.int(self.offset)?))
    }
}

fn uniform(op: &Op<'_>) -> Result<Made, Error> {
    let source = Source::of(op)?;
    let (lo, hi) = (op.num("lo")?, op.num("hi")?);
    let dtype = op.output(0).dtype();
    if dtype == Dtype::F64 {
        return Ok(Made::new(move |run| {
            let (stream, out) = (source.stream(run)?, run.dst::<f64>(0)?);
            let (lo, hi): (f64, f64) = (run.number(lo).to(), run.number(hi).to());
            fill(run.pool(), &out, |i| lo + stream.uniform_f64(i as u64) * (hi - lo))
        }));
    }
    // How many of a word's upper bits a dtype takes: all that its numbers in [1/2, 1) can tell apart.
    let bits = match dtype {
        Dtype::F16 => 11,
        Dtype::BF16 => 8,
        _ => 24,
    };
    with_dtype!(dtype, [F16 f16, BF16 bf16, F32 f32], T => Ok(Made::new(move |run| {
        let (stream, out) = (source.stream(run)?, run.dst::<T>(0)?);
        let (lo, hi): (f32, f32) = (run.number(lo).to(), run.number(hi).to());
        let unit = 2f32.powi(-bits);
        fill(run.pool(), &out, |i| {
            let u = (stream.word(i as u64) >> (32 - bits)) as f32 * unit;
            <T as Value>::from_f64(f64::from(lo + u * (hi - lo)))
        })
    })))
}

fn randn(op: &Op<'_>) -> Result<Made, Error> {
    let source = Source::of(op)?;
    with_float!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (stream, out) = (source.stream(run)?, run.dst::<T>(0)?);
        fill(run.pool(), &out, |i| T::from_f64(stream.normal(i as u64)))
    })))
}

fn randint(op: &Op<'_>) -> Result<Made, Error> {
    let source = Source::of(op)?;
    let (lo, hi) = (op.num("lo")?, op.num("hi")?);
    with_any!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (stream, out) = (source.stream(run)?, run.dst::<T>(0)?);
        let (lo, hi) = (run.int(lo)?, run.int(hi)?);
        if lo >= hi {
            return Err(Error::invalid(format!("no integer is at least {lo} and less than {hi}")));
        }
        let span = hi.wrapping_sub(lo) as u64;
        fill(run.pool(), &out, |i| {
            let drawn = (u128::from(stream.wide(2 * i as u64)) * u128::from(span)) >> 64;
            T::from_i64(lo.wrapping_add(drawn as i64))
        })
    })))
}

fn randperm(op: &Op<'_>) -> Result<Made, Error> {
    let source = Source::of(op)?;
    with_numeric!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (stream, out) = (source.stream(run)?, run.dst::<T>(0)?);
        let mut keys: Vec<(u64, i64)> =
            (0..out.numel()).map(|i| (stream.wide(2 * i as u64), i as i64)).collect();
        keys.sort_unstable();
        let values = keys.into_iter().map(|(_, i)| T::from_i64(i)).collect();
        copy(run.pool(), &out, &Src::from_vec(values, out.dims()))
    })))
}

/// `n` draws from each row of weights. With replacement: the first index whose running sum exceeds `u * total`. Without:
/// the largest `w / -ln(1 - u)`, ties to the lower index.
fn multinomial(op: &Op<'_>) -> Result<Made, Error> {
    let source = Source::of(op)?;
    let (input, replacement) = (op.must("a")?, op.bool("replacement")?);
    with_float!(op.input(input).dtype(), T => Ok(Made::new(move |run| {
        let (stream, a, out) = (source.stream(run)?, run.src::<T>(input)?, run.dst::<i64>(0)?);
        let rank = a.rank();
        if rank == 0 || out.rank() != rank || a.dims()[..rank - 1] != out.dims()[..rank - 1] {
            return Err(Error::invalid(format!("weights {:?}, draws {:?}", a.dims(), out.dims())));
        }
        let rows = &a.dims()[..rank - 1];
        let (mut row, mut result) = (0, Ok(()));
        for_each_index(rows, 0..numel(rows), &mut |outer| {
            if result.is_err() {
                return;
            }
            let weights: Vec<f64> = a.line(rank - 1, outer).iter().map(Float::to_f64).collect();
            let draw = if replacement { with_replacement } else { without_replacement };
            let (len, n) = (weights.len(), out.dims()[rank - 1]);
            let first = row * if replacement { n } else { len };
            result = draw(&weights, n, &stream, first as u64).map(|drawn| write(&out, outer, &drawn));
            row += 1;
        });
        result
    })))
}

fn write(out: &Dst<i64>, outer: &[usize], drawn: &[usize]) {
    let line = out.line(out.rank() - 1, outer);
    drawn.iter().enumerate().for_each(|(k, index)| line.set(k, *index as i64));
}

fn total(weights: &[f64]) -> Result<f64, Error> {
    let total: f64 = weights.iter().sum();
    let fine = weights.iter().all(|w| *w >= 0.0) && total > 0.0 && total.is_finite();
    if fine {
        Ok(total)
    } else {
        Err(Error::bad_data("weights must be finite, not negative, and not all zero"))
    }
}

fn with_replacement(weights: &[f64], n: usize, stream: &Stream, first: u64) -> Result<Vec<usize>, Error> {
    let total = total(weights)?;
    let last = weights.iter().rposition(|w| *w > 0.0).unwrap_or(0);
    let draw = |k: usize| {
        let goal = stream.uniform_f64(first + k as u64) * total;
        let mut sum = 0.0;
        let found = weights.iter().position(|w| {
            sum += w;
            sum > goal
        });
        found.unwrap_or(last)
    };
    Ok((0..n).map(draw).collect())
}

fn without_replacement(weights: &[f64], n: usize, stream: &Stream, first: u64) -> Result<Vec<usize>, Error> {
    total(weights)?;
    if weights.iter().filter(|w| **w > 0.0).count() < n {
        return Err(Error::invalid(format!("{n} different draws from fewer weights above zero")));
    }
    let key = |(i, w): (usize, &f64)| (w / -libm::log(1.0 - stream.uniform_f64(first + i as u64)), i);
    let mut keys: Vec<(f64, usize)> = weights.iter().enumerate().map(key).collect();
    // A draw of exactly 0 gives an infinite key, or NaN for a weight of zero, which must never win.
    keys.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or_else(|| a.0.is_nan().cmp(&b.0.is_nan())));
    Ok(keys.into_iter().take(n).map(|(_, i)| i).collect())
}

#[cfg(test)]
mod tests {
    use super::super::harness::*;
    use super::*;
    use thunderhead_sdk::testing::{Arg, OpSpec, Tensor};
    use thunderhead_sdk::{Device, Number};

    fn seeded(spec: OpSpec, dtype: Dtype, dims: &[i64]) -> Tensor {
        let spec = spec.dtype("dtype", dtype).arg("device", Arg::Device(Device::CPU));
        run1(spec.int("seed", 1_234_567_890_123).slot("offset", Number::Int(8)).output(dtype, dims))
    }

    fn drawn(dtype: Dtype) -> Tensor {
        let spec = op("prims.uniform_philox").ints("dims", &[2, 2]).float("lo", 0.0).float("hi", 1.0);
        seeded(spec, dtype, &[2, 2])
    }

    #[test]
    fn the_published_numbers_come_out() {
        let f32s = drawn(Dtype::F32).to_vec::<f32>();
        let expected = [0.056_900_68, 0.949_440_1, 0.811_105, 0.086_494_33];
        assert!(f32s.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-7), "{f32s:?}");
        assert_eq!(
            drawn(Dtype::F64).to_vec::<f64>()[..2],
            [0.056_900_680_984_705_69, 0.811_105_016_639_105_5]
        );
        assert_eq!(drawn(Dtype::F16).to_vec::<f16>()[..2], [0.056_640_625, 0.949_218_75].map(f16::from_f64));
        assert_eq!(drawn(Dtype::BF16).to_vec::<bf16>()[..2], [0.054_687_5, 0.949_218_75].map(bf16::from_f64));
        let normal = seeded(op("prims.randn_philox").ints("dims", &[4]), Dtype::F32, &[4]).to_vec::<f32>();
        let expected = [2.274_541_6, -0.747_899_7, 0.553_853_6, 0.334_606_5];
        assert!(normal.iter().zip(expected).all(|(a, b)| (a - b).abs() < 2e-7), "{normal:?}");
        let spec = op("prims.randint_philox").int("lo", 0).int("hi", 10).ints("dims", &[4]);
        assert_eq!(seeded(spec, Dtype::I64, &[4]).to_vec::<i64>(), [0, 8, 7, 6]);
    }

    #[test]
    fn permutations_and_draws_are_what_they_say() {
        let mut order = seeded(op("prims.randperm_philox").int("n", 9), Dtype::I64, &[9]).to_vec::<i64>();
        order.sort_unstable();
        assert_eq!(order, (0..9).collect::<Vec<i64>>());
        let draw = |replacement: bool| {
            let weights = Tensor::new(&[4], vec![1f32, 0.0, 2.0, 1.0]);
            let spec = op("prims.multinomial_philox")
                .tensor("a", weights)
                .int("n", 3)
                .bool("replacement", replacement);
            run1(spec.int("seed", 7).int("offset", 0).output(Dtype::I64, &[3])).to_vec::<i64>()
        };
        let mut distinct = draw(false);
        distinct.sort_unstable();
        assert_eq!(distinct, [0, 2, 3]);
        assert!(draw(true).iter().all(|index| *index != 1 && *index < 4));
    }
}
