//! Convolutions of one to three spatial dims, their transposes and gradients, as products of matrices.
//!
//! All of them are sums over kernel positions ("taps") of a source element times a weight; they differ only in which
//! source position a tap of a result position reads. That is worked out once a kernel as a table for each axis; the rest is
//! [`gemm`] with a column gathered through the tables. Half types accumulate in `f32`.

use super::gemm::{Sizes, gemm};
use super::pool::Pool;
use super::run::{Args, Made};
use super::strided::{Dst, Src, numel};
use super::value::{Arith, Product};
use super::{Entry, class};
use thunderhead_sdk::{ArgRef, Error, Op};

pub const KERNELS: &[Entry] = &[
    Entry { name: "prims.convolution", dtypes: class::INEXACT, make: convolution },
    Entry { name: "prims.convolution_backward", dtypes: class::INEXACT, make: convolution_backward },
];

/// Up to three numbers, one a spatial axis, as three: missing axes in front have the value of an axis that is not there.
pub(super) fn three(values: &[usize], spatial: usize, missing: usize) -> Result<[usize; 3], Error> {
    let mut all = [missing; 3];
    match values {
        [one] => all[3 - spatial..].fill(*one),
        _ if values.len() == spatial => all[3 - spatial..].copy_from_slice(values),
        _ => return Err(Error::invalid(format!("{values:?} for {spatial} spatial dims"))),
    }
    Ok(all)
}

/// How many spatial axes a tensor with batch and channels has.
fn spatial_of(rank: usize) -> Result<usize, Error> {
    let spatial = rank.saturating_sub(2);
    if (1..=3).contains(&spatial) {
        Ok(spatial)
    } else {
        Err(Error::invalid(format!("a convolution of {rank} dims")))
    }
}

/// How a kernel moves over its input.
#[derive(Clone, Copy)]
struct Moves {
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
}

/// Which source position a tap reads.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    /// `at * stride - padding + tap * dilation`: convolutions.
    Gathered,
    /// The position whose gathered one is `at`, where there is one: their transposes.
    Spread,
}

/// For each axis, the source position of each tap at each result position.
struct Taps {
    source: [usize; 3],
    /// `position + 1`, 0 where nothing is read; by tap, then by result position.
    tables: [Vec<u32>; 3],
    /// Every result position reads the source position of the same number, by a single tap.
    identity: bool,
    /// The taps of all axes, in row-major order.
    taps: Vec<[u32; 3]>,
    /// The result positions, in row-major order.
    positions: Vec<[u32; 3]>,
    result: [usize; 3],
}

impl Taps {
    fn new(moves: Moves, reads: Reads, source: [usize; 3], result: [usize; 3], window: [usize; 3]) -> Taps {
        let table = |axis: usize| -> Vec<u32> {
            let (stride, padding) = (moves.stride[axis] as i64, moves.padding[axis] as i64);
            let read = |tap: usize, at: usize| {
                let shift = tap as i64 * moves.dilation[axis] as i64 - padding;
                let position = match reads {
                    Reads::Gathered => at as i64 * stride + shift,
                    Reads::Spread if (at as i64 - shift) % stride != 0 => -1,
                    Reads::Spread => (at as i64 - shift) / stride,
                };
                if (0..source[axis] as i64).contains(&position) { position as u32 + 1 } else { 0 }
            };
            (0..window[axis]).flat_map(|tap| (0..result[axis]).map(move |at| read(tap, at))).collect()
        };
        let tables = [table(0), table(1), table(2)];
        let identity = window == [1; 3]
            && source == result
            && tables.iter().all(|table| table.iter().zip(1..).all(|(position, number)| *position == number));
        Taps { source, tables, identity, taps: grid(window), positions: grid(result), result }
    }

    /// The number of the source position that a tap at a result position reads.
    #[inline(always)]
    fn read(&self, tap: usize, at: usize) -> Option<usize> {
        if self.identity {
            return Some(at);
        }
        let (taps, places) = (self.taps[tap], self.positions[at]);
        let mut number = 0;
        for axis in 0..3 {
            let place = self.tables[axis][taps[axis] as usize * self.result[axis] + places[axis] as usize];
            if place == 0 {
                return None;
            }
            number = number * self.source[axis] + place as usize - 1;
        }
        Some(number)
    }
}

fn grid(dims: [usize; 3]) -> Vec<[u32; 3]> {
    let [planes, rows, columns] = dims.map(|dim| dim as u32);
    let line = move |plane, row| (0..columns).map(move |column| [plane, row, column]);
    (0..planes).flat_map(move |plane| (0..rows).flat_map(move |row| line(plane, row))).collect()
}

/// Dense values of a tensor with batch and channels, in the accumulator's reach.
struct Images<T> {
    values: Src<T>,
    batch: usize,
    channels: usize,
    pixels: usize,
}

impl<T: Product> Images<T> {
    fn new(values: &Src<T>) -> Images<T> {
        let (batch, channels) = (values.dims()[0], values.dims()[1]);
        Images { pixels: numel(&values.dims()[2..]), values: values.to_dense(), batch, channels }
    }

    fn slice(&self) -> &[T] {
        self.values.as_slice().expect("made dense")
    }
}

/// What a convolution is made of.
struct Convolution {
    moves: Moves,
    groups: usize,
    spatial: usize,
    transposed: bool,
}

impl Convolution {
    fn of(op: &Op<'_>, rank: usize) -> Result<Convolution, Error> {
        let spatial = spatial_of(rank)?;
        let of = |name: &str, missing: usize| three(&op.sizes(name)?, spatial, missing);
        let moves =
            Moves { stride: of("stride", 1)?, padding: of("padding", 0)?, dilation: of("dilation", 1)? };
        let (groups, transposed) = (op.size("groups")?, op.bool("transposed")?);
        if groups == 0 || moves.stride.contains(&0) || moves.dilation.contains(&0) {
            return Err(Error::invalid("groups, strides and dilations must be positive"));
        }
        Ok(Convolution { moves, groups, spatial, transposed })
    }

    fn sizes(&self, dims: &[usize]) -> Result<[usize; 3], Error> {
        three(&dims[2..], self.spatial, 1)
    }

    /// The weights of tensors with so many channels: the side that the weight counts in full comes first.
    fn fits(&self, a: &[usize], w: &[usize], out: &[usize]) -> Result<(), Error> {
        let rank = self.spatial + 2;
        let ranks = a.len() == rank && w.len() == rank && out.len() == rank;
        let channels = ranks && {
            let (full, part) = if self.transposed { (a[1], out[1]) } else { (out[1], a[1]) };
            w[0] == full && w[1] * self.groups == part && full % self.groups == 0
        };
        if channels && a[0] == out[0] {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a convolution of {a:?} with weights {w:?} in {} groups does not give {out:?}",
            self.groups
        )))
    }

    /// How results of the forward (or, other way round, of the gradient of the input) read their source.
    fn reads(&self, forward: bool) -> Reads {
        if forward == self.transposed { Reads::Spread } else { Reads::Gathered }
    }

    /// `out[s, o] = Σ_c Σ_taps w(g, o, c, tap) * source[s, c]`: the forward, and the gradient of the input.
    fn correlate<T: Product>(
        &self,
        pool: &dyn Pool,
        source: &Src<T>,
        w: &Src<T>,
        out: &Dst<T>,
        forward: bool,
        bias: Option<&[T::Acc]>,
    ) -> Result<(), Error> {
        let (images, weights) = (Images::new(source), w.to_dense());
        let weights = weights.as_slice().expect("made dense");
        let groups = self.groups;
        let (inside, outside) = (images.channels / groups, out.dims()[1] / groups);
        let window = self.sizes(w.dims())?;
        let n_taps = numel(&window);
        let taps = Taps::new(
            self.moves,
            self.reads(forward),
            self.sizes(source.dims())?,
            self.sizes(out.dims())?,
            window,
        );
        let pixels = numel(&out.dims()[2..]);
        // A weight is stored as (first, second, taps); its first axis counts the channels of the forward's result, or of a
        // transposed forward's input.
        let by_result = forward != self.transposed;
        let weight = |s: usize, o: usize, k: usize| {
            let (g, c, tap) = (s % groups, k / n_taps, k % n_taps);
            let (first, second) = if by_result { (g * outside + o, c) } else { (g * inside + c, o) };
            let seconds = if by_result { inside } else { outside };
            weights[(first * seconds + second) * n_taps + tap].enter()
        };
        let values = images.slice();
        let column = |s: usize, k: usize, at: usize| {
            let (g, c, tap) = (s % groups, k / n_taps, k % n_taps);
            let plane = s / groups * images.channels + g * inside + c;
            match taps.read(tap, at) {
                Some(place) => values[plane * images.pixels + place].enter(),
                None => T::Acc::default(),
            }
        };
        let sizes =
            Sizes { count: images.batch * groups, rows: outside, columns: pixels, depth: inside * n_taps };
        gemm(pool, sizes, weight, column, |s, o, at, sum: T::Acc| {
            let channel = s % groups * outside + o;
            let sum = bias.map_or(sum, |bias| sum.add(bias[channel]));
            let plane = s / groups * (groups * outside) + channel;
            out.set_number(plane * pixels + at, T::leave(sum));
        })
    }

    /// `out[o, c, tap] = Σ_s Σ_at small[s, o, at] * large[s, c, read(tap, at)]`: the gradient of the weights.
    fn weights<T: Product>(
        &self,
        pool: &dyn Pool,
        small: &Src<T>,
        large: &Src<T>,
        out: &Dst<T>,
    ) -> Result<(), Error> {
        let (small_images, large_images) = (Images::new(small), Images::new(large));
        let groups = self.groups;
        let (rows, channels) = (small_images.channels / groups, large_images.channels / groups);
        let window = self.sizes(out.dims())?;
        let n_taps = numel(&window);
        let (from, to) = (self.sizes(large.dims())?, self.sizes(small.dims())?);
        let taps = Taps::new(self.moves, Reads::Gathered, from, to, window);
        let pixels = small_images.pixels;
        let (small_values, large_values) = (small_images.slice(), large_images.slice());
        let row = |g: usize, o: usize, k: usize| {
            let plane = k / pixels * small_images.channels + g * rows + o;
            small_values[plane * pixels + k % pixels].enter()
        };
        let column = |g: usize, k: usize, j: usize| {
            let plane = k / pixels * large_images.channels + g * channels + j / n_taps;
            match taps.read(j % n_taps, k % pixels) {
                Some(place) => large_values[plane * large_images.pixels + place].enter(),
                None => T::Acc::default(),
            }
        };
        let columns = channels * n_taps;
        let sizes = Sizes { count: groups, rows, columns, depth: small_images.batch * pixels };
        gemm(pool, sizes, row, column, |g, o, j, sum: T::Acc| {
            out.set_number((g * rows + o) * columns + j, T::leave(sum));
        })
    }
}

fn convolution(op: &Op<'_>) -> Result<Made, Error> {
    let (a, w, bias) = (op.must("a")?, op.must("w")?, op.tensor("bias"));
    let convolution = Convolution::of(op, op.input(a).rank())?;
    with_inexact!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, w, out) = (run.src::<T>(a)?, run.src::<T>(w)?, run.dst::<T>(0)?);
        convolution.fits(a.dims(), w.dims(), out.dims())?;
        let bias = bias.map(|bias| run.src::<T>(bias)).transpose()?;
        let bias: Option<Vec<<T as Product>::Acc>> =
            bias.map(|bias| bias.to_vec().into_iter().map(T::enter).collect());
        if bias.as_ref().is_some_and(|bias| bias.len() != out.dims()[1]) {
            return Err(Error::invalid(format!("a bias that does not fit the channels of {:?}", out.dims())));
        }
        convolution.correlate(run.pool(), &a, &w, &out, true, bias.as_deref())
    })
    .for_any_size()))
}

/// Gradients of input, weights and bias, those that the mask asks for.
fn convolution_backward(op: &Op<'_>) -> Result<Made, Error> {
    let (g, a, w) = (op.must("g")?, op.must("a")?, op.must("w")?);
    let convolution = Convolution::of(op, op.input(a).rank())?;
    let Some(ArgRef::Bools(&[of_input, of_weights, of_bias])) = op.arg("mask") else {
        return Err(Error::invalid("argument `mask` is not three bools"));
    };
    // Where the host leaves absent results out, the others move up.
    let all = op.n_outputs() == 3;
    let mut next = 0;
    let places = [of_input, of_weights, of_bias].map(|wanted| {
        let place = (wanted != 0).then_some(next);
        next += usize::from(all || wanted != 0);
        place
    });
    with_inexact!(op.input(g).dtype(), T => Ok(Made::new(move |run| {
        let (g, a, w) = (run.src::<T>(g)?, run.src::<T>(a)?, run.src::<T>(w)?);
        convolution.fits(a.dims(), w.dims(), g.dims())?;
        if let Some(place) = places[0] {
            let out = run.dst::<T>(place)?;
            same(out.dims(), a.dims())?;
            convolution.correlate(run.pool(), &g, &w, &out, false, None)?;
        }
        if let Some(place) = places[1] {
            let out = run.dst::<T>(place)?;
            same(out.dims(), w.dims())?;
            let (small, large) = if convolution.transposed { (&a, &g) } else { (&g, &a) };
            convolution.weights(run.pool(), small, large, &out)?;
        }
        if let Some(place) = places[2] {
            let out = run.dst::<T>(place)?;
            same(out.dims(), &g.dims()[1..2])?;
            bias_gradient(&g, &out);
        }
        Ok(())
    })
    .for_any_size()))
}

fn same(found: &[usize], expected: &[usize]) -> Result<(), Error> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::invalid(format!("dims {found:?}; expected {expected:?}")))
    }
}

fn bias_gradient<T: Product>(g: &Src<T>, out: &Dst<T>) {
    for channel in 0..g.dims()[1] {
        let mut sum = T::Acc::default();
        let of = g.window(|window| window.select(1, channel));
        // A plane at a time, so that long sums keep their digits.
        for image in 0..of.dims()[0] {
            let mut plane = T::Acc::default();
            let of = of.window(|window| window.select(0, image));
            of.read_range(0..of.numel(), |v| plane = plane.add(v.enter()));
            sum = sum.add(plane);
        }
        out.set(&[channel], T::leave(sum));
    }
}

#[cfg(test)]
mod tests {
    use super::super::harness::*;
    use thunderhead_sdk::Dtype;
    use thunderhead_sdk::testing::{Arg, OpSpec, Tensor};

    fn counted(dims: &[i64], from: f64) -> Tensor {
        Tensor::new(dims, (0..dims.iter().product::<i64>()).map(|v| v as f64 + from).collect::<Vec<f64>>())
    }

    fn shared(spec: OpSpec, stride: i64, padding: i64, transposed: bool, groups: i64) -> OpSpec {
        let spec = spec.ints("stride", &[stride]).ints("padding", &[padding]).ints("dilation", &[1]);
        spec.bool("transposed", transposed).ints("output_padding", &[0]).int("groups", groups)
    }

    #[test]
    fn a_line_is_convolved() {
        let spec = op("prims.convolution")
            .tensor("a", counted(&[1, 1, 4], 1.0))
            .tensor("w", counted(&[1, 1, 3], 1.0));
        let spec =
            shared(spec.tensor("bias", counted(&[1], 10.0)), 1, 1, false, 1).output(Dtype::F64, &[1, 1, 4]);
        assert_eq!(run1(spec).to_vec::<f64>(), [18.0, 24.0, 30.0, 21.0]);
    }

    #[test]
    fn groups_and_strides_choose_their_elements() {
        let spec = op("prims.convolution").tensor("a", counted(&[1, 2, 3, 3], 0.0));
        let spec = shared(spec.tensor("w", counted(&[2, 1, 1, 1], 2.0)).none("bias"), 2, 0, false, 2);
        let out = run1(spec.output(Dtype::F64, &[1, 2, 2, 2]));
        assert_eq!(out.to_vec::<f64>(), [0.0, 4.0, 12.0, 16.0, 27.0, 33.0, 45.0, 51.0]);
    }

    #[test]
    fn a_transposed_convolution_spreads() {
        let spec = op("prims.convolution")
            .tensor("a", counted(&[1, 1, 2], 1.0))
            .tensor("w", counted(&[1, 1, 3], 1.0));
        let spec = shared(spec.none("bias"), 2, 0, true, 1).output(Dtype::F64, &[1, 1, 5]);
        assert_eq!(run1(spec).to_vec::<f64>(), [1.0, 2.0, 5.0, 4.0, 6.0]);
    }

    /// Gradients of Σ g · conv(a, w) agree with differences, for both directions and with groups.
    #[test]
    fn gradients_agree_with_differences() {
        for (transposed, a_dims, w_dims, g_dims) in [
            (false, [2, 2, 4, 5], [4, 1, 2, 3], [2, 4, 3, 3]),
            (true, [2, 4, 3, 3], [4, 1, 2, 3], [2, 2, 6, 7]),
        ] {
            let (stride, padding) = if transposed { (2, 0) } else { (2, 1) };
            let bumpy = |dims: &[i64], seed: i64| {
                let n = dims.iter().product::<i64>();
                Tensor::new(dims, (0..n).map(|v| ((v * 7 + seed) % 11) as f64 - 5.0).collect::<Vec<f64>>())
            };
            let (a, w, g) = (bumpy(&a_dims, 1), bumpy(&w_dims, 2), bumpy(&g_dims, 3));
            let loss = |a: &Tensor, w: &Tensor| -> f64 {
                let spec = op("prims.convolution").tensor("a", a.clone()).tensor("w", w.clone()).none("bias");
                let out = run1(shared(spec, stride, padding, transposed, 2).output(Dtype::F64, &g_dims));
                out.to_vec::<f64>().iter().zip(g.to_vec::<f64>()).map(|(y, g)| y * g).sum()
            };
            let spec = op("prims.convolution_backward").tensor("g", g.clone()).tensor("a", a.clone());
            let spec = shared(spec.tensor("w", w.clone()), stride, padding, transposed, 2);
            let spec = spec.arg("mask", Arg::Bools(vec![true; 3])).output(Dtype::F64, &a_dims);
            let grads = run(spec.output(Dtype::F64, &w_dims).output(Dtype::F64, &[g_dims[1]]));
            let moved = |of: &Tensor, at: usize| {
                let mut values = of.to_vec::<f64>();
                values[at] += 1.0;
                Tensor::new(of.dims(), values)
            };
            for at in [0, 7, 35] {
                let difference = loss(&moved(&a, at), &w) - loss(&a, &w);
                assert_eq!(grads[0].to_vec::<f64>()[at], difference, "input {at}, transposed {transposed}");
            }
            for at in [0, 5, 23] {
                let difference = loss(&a, &moved(&w, at)) - loss(&a, &w);
                assert_eq!(grads[1].to_vec::<f64>()[at], difference, "weight {at}, transposed {transposed}");
            }
            let total: f64 = g.to_vec::<f64>().iter().sum();
            assert_eq!(grads[2].to_vec::<f64>().iter().sum::<f64>(), total);
        }
    }
}
