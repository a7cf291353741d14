//! Averages and maxima over windows, with their gradients. Sums run in `f64`; a plane at a time, so that gradients that
//! meet in one element have one order.

use super::conv::three;
use super::run::{Args, Made};
use super::strided::{Dst, GRAIN, Src, numel};
use super::value::{Float, Real, Value};
use super::{Entry, class};
use std::ops::Range;
use thunderhead_sdk::{Error, Op};

pub const KERNELS: &[Entry] = &[
    Entry { name: "prims.adaptive_avg_pool", dtypes: class::FLOAT, make: adaptive_avg_pool },
    Entry {
        name: "prims.adaptive_avg_pool_backward",
        dtypes: class::FLOAT,
        make: adaptive_avg_pool_backward,
    },
    Entry { name: "prims.adaptive_max_pool", dtypes: class::REAL, make: adaptive_max_pool },
    Entry { name: "prims.avg_pool", dtypes: class::FLOAT, make: avg_pool },
    Entry { name: "prims.avg_pool_backward", dtypes: class::FLOAT, make: avg_pool_backward },
    Entry { name: "prims.max_pool", dtypes: class::REAL, make: max_pool },
    Entry { name: "prims.max_pool_backward", dtypes: &[F16, BF16, F32, F64, I64], make: max_pool_backward },
];

use thunderhead_sdk::Dtype::{BF16, F16, F32, F64, I64};

/// Where the windows of results lie: for each axis and result position the elements, and how many it counts as having.
struct Windows {
    ranges: [Vec<Reach>; 3],
    dilation: [usize; 3],
    divisor: Option<f64>,
    input: [usize; 3],
}

/// A window along one axis.
#[derive(Clone)]
struct Reach {
    /// Elements inside the input, `dilation` apart.
    elements: Range<usize>,
    /// Elements that an average divides by.
    counted: usize,
}

/// A window that moves.
struct Sliding {
    spatial: usize,
    window: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
    counts_padding: bool,
    divisor: Option<f64>,
}

impl Sliding {
    fn of(op: &Op<'_>) -> Result<Sliding, Error> {
        let window = op.sizes("window")?;
        let spatial = window.len();
        if !(1..=3).contains(&spatial) {
            return Err(Error::invalid(format!("a window of {spatial} dims")));
        }
        let mut stride = op.sizes("stride")?;
        if stride.is_empty() {
            stride.clone_from(&window);
        }
        let dilation = op.opt_ints("dilation")?.map_or(Ok(vec![1; spatial]), |_| op.sizes("dilation"))?;
        let divisor = op.opt_int("divisor")?.map(|divisor| divisor as f64);
        let sliding = Sliding {
            spatial,
            window: three(&window, spatial, 1)?,
            stride: three(&stride, spatial, 1)?,
            padding: three(&op.sizes("padding")?, spatial, 0)?,
            dilation: three(&dilation, spatial, 1)?,
            counts_padding: op.opt_bool("count_include_pad")?.unwrap_or(false),
            divisor,
        };
        if [sliding.window, sliding.stride, sliding.dilation].iter().flatten().any(|v| *v == 0) {
            return Err(Error::invalid("windows, strides and dilations must be positive"));
        }
        Ok(sliding)
    }

    fn windows(&self, input: &[usize], result: &[usize]) -> Result<Windows, Error> {
        let (input, result) = (planes(input, self.spatial)?, planes(result, self.spatial)?);
        let ranges = std::array::from_fn(|axis| {
            let (len, padding, step) = (input[axis], self.padding[axis], self.dilation[axis]);
            let reach = |at: usize| {
                let start = at * self.stride[axis];
                let end = start + (self.window[axis] - 1) * step + 1;
                // In elements of the padded input; cut to the input without it.
                let first = if start >= padding { 0 } else { (padding - start).div_ceil(step) * step };
                let elements = (start + first - padding).min(len)..end.saturating_sub(padding).min(len);
                let counted = if self.counts_padding {
                    end.min(len + 2 * padding) - start.min(len + 2 * padding)
                } else {
                    elements.len()
                };
                Reach { elements, counted }
            };
            (0..result[axis]).map(reach).collect()
        });
        Ok(Windows { ranges, dilation: self.dilation, divisor: self.divisor, input })
    }
}

/// The last dims as three.
fn planes(dims: &[usize], spatial: usize) -> Result<[usize; 3], Error> {
    let start = dims.len().checked_sub(spatial);
    let start = start.ok_or_else(|| Error::invalid(format!("{spatial} spatial dims of {dims:?}")))?;
    if spatial == 1 { Ok([1, 1, dims[start]]) } else { three(&dims[start..], spatial, 1) }
}

/// Windows that share an input evenly among results.
fn adaptive(input: &[usize], result: &[usize], spatial: usize) -> Result<Windows, Error> {
    let (input, result) = (planes(input, spatial)?, planes(result, spatial)?);
    let ranges = std::array::from_fn(|axis| {
        let (len, parts) = (input[axis], result[axis]);
        let reach = |at: usize| {
            let elements = at * len / parts..((at + 1) * len).div_ceil(parts);
            Reach { counted: elements.len(), elements }
        };
        (0..parts).map(reach).collect()
    });
    Ok(Windows { ranges, dilation: [1; 3], divisor: None, input })
}

impl Windows {
    fn n_results(&self) -> usize {
        self.ranges.iter().map(Vec::len).product()
    }

    /// The window of result `number`.
    fn window(&self, number: usize) -> [&Reach; 3] {
        let [_, rows, columns] = [0, 1, 2].map(|axis: usize| self.ranges[axis].len());
        let at = [number / columns / rows, number / columns % rows, number % columns];
        [0, 1, 2].map(|axis| &self.ranges[axis][at[axis]])
    }

    /// The numbers of a window's elements in their plane, in row-major order.
    fn elements(&self, window: [&Reach; 3]) -> impl Iterator<Item = usize> + use<> {
        let [planes, rows, columns] = window.map(|reach| reach.elements.clone());
        let [_, height, width] = self.input;
        let [plane_step, row_step, step] = self.dilation;
        planes.step_by(plane_step).flat_map(move |plane| {
            let columns = columns.clone();
            rows.clone().step_by(row_step).flat_map(move |row| {
                let start = (plane * height + row) * width;
                columns.clone().step_by(step).map(move |column| start + column)
            })
        })
    }

    fn divisor(&self, window: [&Reach; 3]) -> f64 {
        self.divisor.unwrap_or_else(|| window.iter().map(|reach| reach.counted as f64).product())
    }
}

/// The planes of a tensor, dense.
struct Planes<T> {
    values: Src<T>,
    size: usize,
    count: usize,
}

impl<T: Value> Planes<T> {
    fn new(values: &Src<T>, spatial: usize) -> Planes<T> {
        let split = values.rank() - spatial;
        let (count, size) = (numel(&values.dims()[..split]), numel(&values.dims()[split..]));
        Planes { values: values.to_dense(), size, count }
    }

    fn plane(&self, number: usize) -> &[T] {
        let all = self.values.as_slice().expect("made dense");
        &all[number * self.size..(number + 1) * self.size]
    }
}

fn same_lead(a: &[usize], b: &[usize], spatial: usize) -> Result<(), Error> {
    let lead = |dims: &[usize]| dims.len().checked_sub(spatial).map(|split| dims[..split].to_vec());
    if lead(a).is_some() && lead(a) == lead(b) {
        return Ok(());
    }
    Err(Error::invalid(format!("dims {a:?} and {b:?} differ before their {spatial} spatial dims")))
}

/// Calls `each(plane, result, window)` for each result of each plane.
fn each_plane(
    run: &super::run::Run<'_, '_>,
    count: usize,
    work: usize,
    each: &(dyn Fn(usize) + Sync),
) -> Result<(), Error> {
    run.pool().split(count, (GRAIN / work.max(1)).max(1), &|planes| planes.for_each(each))
}

fn average<T: Float>(
    run: &super::run::Run<'_, '_>,
    a: &Src<T>,
    out: &Dst<T>,
    windows: &Windows,
    spatial: usize,
) -> Result<(), Error> {
    let (planes, n_results) = (Planes::new(a, spatial), windows.n_results());
    each_plane(run, planes.count, planes.size.max(n_results), &|plane| {
        let values = planes.plane(plane);
        for result in 0..n_results {
            let window = windows.window(result);
            let sum: f64 = windows.elements(window).map(|at| values[at].to_f64()).sum();
            let empty = window.iter().any(|reach| reach.elements.is_empty());
            let mean = if empty { 0.0 } else { sum / windows.divisor(window) };
            out.set_number(plane * n_results + result, T::from_f64(mean));
        }
    })
}

fn spread_average<T: Float>(
    run: &super::run::Run<'_, '_>,
    g: &Src<T>,
    out: &Dst<T>,
    windows: &Windows,
    spatial: usize,
) -> Result<(), Error> {
    let planes = Planes::new(g, spatial);
    let size = windows.input.iter().product();
    each_plane(run, planes.count, size, &|plane| {
        let mut sums = vec![0.0; size];
        for (result, g) in planes.plane(plane).iter().enumerate() {
            let window = windows.window(result);
            let share = g.to_f64() / windows.divisor(window);
            windows.elements(window).for_each(|at| sums[at] += share);
        }
        for (at, sum) in sums.into_iter().enumerate() {
            out.set_number(plane * size + at, T::from_f64(sum));
        }
    })
}

fn avg_pool(op: &Op<'_>) -> Result<Made, Error> {
    let (input, sliding) = (op.must("a")?, Sliding::of(op)?);
    with_float!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, out) = (run.src::<T>(input)?, run.dst::<T>(0)?);
        same_lead(a.dims(), out.dims(), sliding.spatial)?;
        let windows = sliding.windows(a.dims(), out.dims())?;
        average(run, &a, &out, &windows, sliding.spatial)
    })
    .for_any_size()))
}

fn avg_pool_backward(op: &Op<'_>) -> Result<Made, Error> {
    let (g, sliding) = (op.must("g")?, Sliding::of(op)?);
    with_float!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (g, out) = (run.src::<T>(g)?, run.dst::<T>(0)?);
        same_lead(g.dims(), out.dims(), sliding.spatial)?;
        let windows = sliding.windows(out.dims(), g.dims())?;
        spread_average(run, &g, &out, &windows, sliding.spatial)
    })))
}

fn adaptive_avg_pool(op: &Op<'_>) -> Result<Made, Error> {
    let (input, spatial) = (op.must("a")?, op.nums("out")?.len());
    with_float!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, out) = (run.src::<T>(input)?, run.dst::<T>(0)?);
        same_lead(a.dims(), out.dims(), spatial)?;
        let windows = adaptive(a.dims(), out.dims(), spatial)?;
        average(run, &a, &out, &windows, spatial)
    })))
}

fn adaptive_avg_pool_backward(op: &Op<'_>) -> Result<Made, Error> {
    let g = op.must("g")?;
    with_float!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (g, out) = (run.src::<T>(g)?, run.dst::<T>(0)?);
        let spatial = spatial_of(out.rank())?;
        same_lead(g.dims(), out.dims(), spatial)?;
        let windows = adaptive(out.dims(), g.dims(), spatial)?;
        spread_average(run, &g, &out, &windows, spatial)
    })))
}

fn maximum<T: Real>(
    run: &super::run::Run<'_, '_>,
    a: &Src<T>,
    (values, places): (&Dst<T>, &Dst<i64>),
    windows: &Windows,
    spatial: usize,
) -> Result<(), Error> {
    let (planes, n_results) = (Planes::new(a, spatial), windows.n_results());
    each_plane(run, planes.count, planes.size.max(n_results), &|plane| {
        let of = planes.plane(plane);
        for result in 0..n_results {
            let elements = windows.elements(windows.window(result));
            // As in ATen, a later NaN takes the place of an earlier one.
            let larger = |best: usize, at: usize| {
                if of[at].is_nan() || of[best].less(of[at]) { at } else { best }
            };
            let best = elements.reduce(larger);
            let number = plane * n_results + result;
            values.set_number(number, best.map_or(T::least(), |at| of[at]));
            places.set_number(number, best.map_or(0, |at| at as i64));
        }
    })
}

fn max_pool(op: &Op<'_>) -> Result<Made, Error> {
    let (input, sliding) = (op.must("a")?, Sliding::of(op)?);
    with_real!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, values, places) = (run.src::<T>(input)?, run.dst::<T>(0)?, run.dst::<i64>(1)?);
        same_lead(a.dims(), values.dims(), sliding.spatial)?;
        let windows = sliding.windows(a.dims(), values.dims())?;
        maximum(run, &a, (&values, &places), &windows, sliding.spatial)
    })
    .for_any_size()))
}

fn adaptive_max_pool(op: &Op<'_>) -> Result<Made, Error> {
    let (input, spatial) = (op.must("a")?, op.nums("out")?.len());
    with_real!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, values, places) = (run.src::<T>(input)?, run.dst::<T>(0)?, run.dst::<i64>(1)?);
        same_lead(a.dims(), values.dims(), spatial)?;
        let windows = adaptive(a.dims(), values.dims(), spatial)?;
        maximum(run, &a, (&values, &places), &windows, spatial)
    })))
}

/// Adds each gradient where its maximum was.
fn max_pool_backward(op: &Op<'_>) -> Result<Made, Error> {
    let (g, index) = (op.must("g")?, op.must("index")?);
    with_float!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (g, index, out) = (run.src::<T>(g)?, run.src::<i64>(index)?, run.dst::<T>(0)?);
        if g.dims() != index.dims() || g.rank() != out.rank() {
            return Err(Error::invalid(format!("a gradient of {:?} at {:?}", g.dims(), index.dims())));
        }
        let spatial = spatial_of(out.rank())?;
        same_lead(g.dims(), out.dims(), spatial)?;
        let (from, at) = (Planes::new(&g, spatial), Planes::new(&index, spatial));
        let size = numel(&out.dims()[out.rank() - spatial..]);
        run.pool().try_split(from.count, (GRAIN / size.max(1)).max(1), &|planes| {
            for plane in planes {
                let mut sums = vec![0.0; size];
                for (g, at) in from.plane(plane).iter().zip(at.plane(plane)) {
                    let place = usize::try_from(*at).ok().filter(|place| *place < size);
                    let place = place.ok_or_else(|| {
                        Error::bad_data(format!("index {at} is out of range for a plane of {size} elements"))
                    })?;
                    sums[place] += g.to_f64();
                }
                for (place, sum) in sums.into_iter().enumerate() {
                    out.set_number(plane * size + place, T::from_f64(sum));
                }
            }
            Ok(())
        })
    })))
}

/// How many dims follow batch and channels.
fn spatial_of(rank: usize) -> Result<usize, Error> {
    let spatial = rank.saturating_sub(2);
    if (1..=3).contains(&spatial) {
        Ok(spatial)
    } else {
        Err(Error::invalid(format!("a pool of {rank} dims")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::harness::*;
    use thunderhead_sdk::Dtype;
    use thunderhead_sdk::testing::{OpSpec, Tensor};

    fn counted(dims: &[i64]) -> Tensor {
        Tensor::new(dims, (0..dims.iter().product::<i64>()).map(|v| v as f32).collect::<Vec<f32>>())
    }

    fn averaging(spec: OpSpec, ceil: bool, counts: bool) -> OpSpec {
        let spec =
            spec.ints("window", &[2]).ints("stride", &[2]).ints("padding", &[1]).bool("ceil_mode", ceil);
        spec.bool("count_include_pad", counts).none("divisor")
    }

    #[test]
    fn averages_count_padding_or_not() {
        // Padded: . 0 1 2 3 . in windows of two.
        let spec = || op("prims.avg_pool").tensor("a", counted(&[1, 1, 4]));
        let out = run1(averaging(spec(), false, true).output(Dtype::F32, &[1, 1, 3]));
        assert_eq!(out.to_vec::<f32>(), [0.0, 1.5, 1.5]);
        let out = run1(averaging(spec(), false, false).output(Dtype::F32, &[1, 1, 3]));
        assert_eq!(out.to_vec::<f32>(), [0.0, 1.5, 3.0]);
        let g = Tensor::new(&[1, 1, 3], vec![2f32, 4.0, 6.0]);
        let spec = op("prims.avg_pool_backward").tensor("g", g).ints("dims", &[1, 1, 4]);
        let out = run1(averaging(spec, false, false).output(Dtype::F32, &[1, 1, 4]));
        assert_eq!(out.to_vec::<f32>(), [2.0, 2.0, 2.0, 6.0]);
    }

    #[test]
    fn maxima_know_their_places() {
        let a = Tensor::new(&[1, 1, 3, 3], vec![1f32, 9.0, 2.0, 8.0, 3.0, 7.0, 4.0, f32::NAN, 5.0]);
        let spec = op("prims.max_pool").tensor("a", a).ints("window", &[2, 2]).ints("stride", &[1, 1]);
        let spec = spec.ints("padding", &[0, 0]).ints("dilation", &[1, 1]).bool("ceil_mode", false);
        let out = run(spec.output(Dtype::F32, &[1, 1, 2, 2]).output(Dtype::I64, &[1, 1, 2, 2]));
        assert_eq!(out[1].to_vec::<i64>(), [1, 1, 7, 7]);
        assert_eq!(out[0].to_vec::<f32>()[..2], [9.0, 9.0]);
        assert!(out[0].to_vec::<f32>()[2].is_nan());
        let spec = op("prims.max_pool_backward").tensor("g", Tensor::new(&[1, 1, 2, 2], vec![1f32; 4]));
        let spec = spec.tensor("index", out[1].clone()).ints("dims", &[1, 1, 3, 3]);
        let out = run1(spec.output(Dtype::F32, &[1, 1, 3, 3]));
        assert_eq!(out.to_vec::<f32>(), [0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0]);
    }

    #[test]
    fn padding_and_dilation_shift_windows() {
        let spec =
            op("prims.max_pool").tensor("a", counted(&[1, 5])).ints("window", &[2]).ints("stride", &[2]);
        let spec = spec.ints("padding", &[1]).ints("dilation", &[2]).bool("ceil_mode", false);
        // Padded: . 0 1 2 3 4 . ; windows of elements two apart begin at 0, 2, 4.
        let out = run(spec.output(Dtype::F32, &[1, 3]).output(Dtype::I64, &[1, 3]));
        assert_eq!(out[0].to_vec::<f32>(), [1.0, 3.0, 3.0]);
        assert_eq!(out[1].to_vec::<i64>(), [1, 3, 3]);
    }

    #[test]
    fn adaptive_windows_cover_their_input() {
        let spec = op("prims.adaptive_avg_pool").tensor("a", counted(&[1, 5])).ints("out", &[3]);
        assert_eq!(run1(spec.output(Dtype::F32, &[1, 3])).to_vec::<f32>(), [0.5, 2.0, 3.5]);
        let g = Tensor::new(&[1, 1, 3], vec![2f32, 3.0, 4.0]);
        let spec = op("prims.adaptive_avg_pool_backward").tensor("g", g).ints("dims", &[1, 1, 5]);
        assert_eq!(run1(spec.output(Dtype::F32, &[1, 1, 5])).to_vec::<f32>(), [1.0, 2.0, 1.0, 3.0, 2.0]);
        let spec = op("prims.adaptive_max_pool").tensor("a", counted(&[1, 5])).ints("out", &[2]);
        let out = run(spec.output(Dtype::F32, &[1, 2]).output(Dtype::I64, &[1, 2]));
        assert_eq!(out[1].to_vec::<i64>(), [2, 4]);
    }
}
