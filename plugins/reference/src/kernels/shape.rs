//! Prims that rearrange elements. Most are views, which the host resolves by itself; here each is the same choice of
//! elements, copied.

use super::run::{Args, Made, Num, Run};
use super::strided::{Dst, Src, Window, copy, fill, map1, map2};
use super::value::{ComplexValue, Value};
use super::{Entry, class};
use thunderhead_sdk::{Error, Op};

pub const KERNELS: &[Entry] = &[
    Entry { name: "prims.as_strided", dtypes: class::EVERY, make: as_strided },
    Entry { name: "prims.broadcast_in_dim", dtypes: class::EVERY, make: broadcast_in_dim },
    Entry { name: "prims.cat", dtypes: class::EVERY, make: cat },
    Entry { name: "prims.diagonal", dtypes: class::EVERY, make: diagonal },
    Entry { name: "prims.flip", dtypes: class::EVERY, make: flip },
    Entry { name: "prims.pad", dtypes: class::EVERY, make: pad },
    Entry { name: "prims.reshape", dtypes: class::EVERY, make: reshape },
    Entry { name: "prims.slice", dtypes: class::EVERY, make: slice },
    Entry { name: "prims.slice_scatter", dtypes: class::EVERY, make: slice_scatter },
    Entry { name: "prims.squeeze", dtypes: class::EVERY, make: squeeze },
    Entry { name: "prims.transpose", dtypes: class::EVERY, make: transpose },
    Entry { name: "prims.unfold", dtypes: class::EVERY, make: unfold },
    Entry { name: "prims.view_as_complex", dtypes: &[F32, F64], make: view_as_complex },
    Entry { name: "prims.view_as_real", dtypes: class::COMPLEX, make: view_as_real },
];

use thunderhead_sdk::Dtype::{F32, F64};

/// A copy of a choice of the elements of `a`.
fn chosen(
    op: &Op<'_>,
    choose: impl Fn(Window, &Run<'_, '_>) -> Result<Window, Error> + Send + Sync + 'static,
) -> Result<Made, Error> {
    let input = op.must("a")?;
    with_bits!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let out = run.dst_bits::<T>(0)?;
        let a = run.src_bits::<T>(input)?.try_window(|window| choose(window, run))?;
        copy(run.pool(), &out, &a)
    })))
}

fn as_strided(op: &Op<'_>) -> Result<Made, Error> {
    let dims = op.sizes("dims")?;
    let strides: Vec<isize> = op.ints("strides")?.iter().map(|stride| *stride as isize).collect();
    let offset = op.num("offset")?;
    if dims.len() != strides.len() {
        return Err(Error::invalid(format!("strides {strides:?} for dims {dims:?}")));
    }
    chosen(op, move |window, run| window.restrided(&dims, &strides, run.int(offset)? as isize))
}

/// Axis `i` of `a` becomes axis `broadcast_dims[i]`; the others, and those of size 1, repeat.
fn broadcast_in_dim(op: &Op<'_>) -> Result<Made, Error> {
    let from: Vec<i64> = op.input(op.must("a")?).dims().to_vec();
    let to: Vec<usize> = op.output(0).dims().iter().map(|dim| *dim as usize).collect();
    let axes = op.axes("broadcast_dims", to.len())?;
    if axes.len() != from.len() || axes != op.sizes("broadcast_dims")? {
        return Err(Error::invalid(format!("broadcast_dims {axes:?} of a tensor with dims {from:?}")));
    }
    for (axis, dim) in axes.iter().zip(&from) {
        if *dim != 1 && *dim as usize != to[*axis] {
            return Err(Error::invalid(format!("dims {from:?} do not broadcast to {to:?} at {axes:?}")));
        }
    }
    chosen(op, move |window, _| {
        let mut window = window;
        for (axis, len) in to.iter().enumerate() {
            window = match axes.iter().position(|named| *named == axis) {
                None => window.repeat(axis, *len),
                Some(of) if from[of] == 1 => window.expand(axis, *len),
                Some(_) => window,
            };
        }
        Ok(window)
    })
}

fn diagonal(op: &Op<'_>) -> Result<Made, Error> {
    let rank = op.input(op.must("a")?).rank();
    let (axis1, axis2) = (op.axis("axis1", rank)?, op.axis("axis2", rank)?);
    let offset = op.int("offset")? as isize;
    if axis1 == axis2 {
        return Err(Error::invalid(format!("axis {axis1} is named twice")));
    }
    chosen(op, move |window, _| Ok(window.diagonal(offset, axis1, axis2)))
}

fn flip(op: &Op<'_>) -> Result<Made, Error> {
    let axes = op.axes("axes", op.output(0).rank())?;
    chosen(op, move |window, _| Ok(axes.iter().fold(window, |window, axis| window.flip(*axis))))
}

fn squeeze(op: &Op<'_>) -> Result<Made, Error> {
    let dims = op.input(op.must("a")?).dims();
    let axes = op.axes("axes", dims.len())?;
    if let Some(axis) = axes.iter().find(|axis| dims[**axis] != 1) {
        return Err(Error::invalid(format!("axis {axis} of dims {dims:?} is squeezed; its size is not 1")));
    }
    chosen(op, move |window, _| Ok(axes.iter().rev().fold(window, |window, axis| window.select(*axis, 0))))
}

fn transpose(op: &Op<'_>) -> Result<Made, Error> {
    let order = op.sizes("permutation")?;
    let rank = op.output(0).rank();
    if op.axes("permutation", rank)?.len() != rank {
        return Err(Error::invalid(format!("permutation {order:?} of a tensor with {rank} dims")));
    }
    chosen(op, move |window, _| Ok(window.permute(&order)))
}

fn unfold(op: &Op<'_>) -> Result<Made, Error> {
    let dims = op.input(op.must("a")?).dims();
    let axis = op.axis("axis", dims.len())?;
    let (size, step) = (op.size("size")?, op.size("step")?);
    if step == 0 || size > dims[axis] as usize {
        return Err(Error::invalid(format!("windows of {size}, {step} apart, in {} elements", dims[axis])));
    }
    chosen(op, move |window, _| Ok(window.unfold(axis, size, step)))
}

fn reshape(op: &Op<'_>) -> Result<Made, Error> {
    let input = op.must("a")?;
    with_bits!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, out) = (run.src_bits::<T>(input)?, run.dst_bits::<T>(0)?);
        if a.numel() != out.numel() || !out.is_dense() {
            return Err(Error::invalid(format!("dims {:?} do not reshape to {:?}", a.dims(), out.dims())));
        }
        copy(run.pool(), &out.window(|window| window.dense(a.dims())), &a)
    })
    .for_any_size()))
}

/// Where a strided part begins in each axis, and its steps.
struct Part {
    start: Vec<Num>,
    step: Vec<usize>,
}

impl Part {
    fn of(op: &Op<'_>, rank: usize) -> Result<Part, Error> {
        let (start, step) = (op.nums("start")?, op.sizes("step")?);
        if start.len() != rank || step.len() != rank || step.contains(&0) {
            return Err(Error::invalid(format!(
                "{} starts, steps {step:?} for a tensor with {rank} dims",
                start.len()
            )));
        }
        Ok(Part { start, step })
    }

    /// The part, of as many elements as `lens`, of a tensor of `dims`.
    fn choose(
        &self,
        run: &Run<'_, '_>,
        mut window: Window,
        dims: &[usize],
        lens: &[usize],
    ) -> Result<Window, Error> {
        for axis in 0..dims.len() {
            let (start, step, len) = (run.int(self.start[axis])?, self.step[axis], lens[axis]);
            let inside = usize::try_from(start).is_ok_and(|start| {
                let last =
                    (len.saturating_sub(1)).checked_mul(step).and_then(|reach| reach.checked_add(start));
                len == 0 || last.is_some_and(|last| last < dims[axis])
            });
            if !inside {
                let what =
                    format!("{len} elements from {start} in steps of {step}, axis {axis} has {}", dims[axis]);
                return Err(Error::invalid(what));
            }
            window = window.slice(axis, start as usize, len, step);
        }
        Ok(window)
    }
}

fn slice(op: &Op<'_>) -> Result<Made, Error> {
    let input = op.must("a")?;
    let part = Part::of(op, op.output(0).rank())?;
    with_bits!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, out) = (run.src_bits::<T>(input)?, run.dst_bits::<T>(0)?);
        let a = a.try_window(|window| part.choose(run, window, a.dims(), out.dims()))?;
        copy(run.pool(), &out, &a)
    })))
}

fn slice_scatter(op: &Op<'_>) -> Result<Made, Error> {
    let (input, src) = (op.must("a")?, op.must("src")?);
    let part = Part::of(op, op.output(0).rank())?;
    with_bits!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, out) = (run.src_bits::<T>(input)?, run.dst_bits::<T>(0)?);
        let src = run.src_bits::<T>(src)?;
        let part = out.try_window(|window| part.choose(run, window, out.dims(), src.dims()))?;
        copy(run.pool(), &out, &a)?;
        copy(run.pool(), &part, &src)
    })
    .in_place([input])))
}

fn cat(op: &Op<'_>) -> Result<Made, Error> {
    let inputs: Vec<usize> = op.tensors("tensors").into_iter().flatten().collect();
    let axis = op.axis("axis", op.output(0).rank())?;
    with_bits!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let out = run.dst_bits::<T>(0)?;
        let mut start = 0;
        for input in &inputs {
            let a = run.src_bits::<T>(*input)?;
            let len = *a.dims().get(axis).ok_or_else(|| too_many(&a, &out))?;
            if start + len > out.dims()[axis] {
                return Err(too_many(&a, &out));
            }
            copy(run.pool(), &out.window(|window| window.slice(axis, start, len, 1)), &a)?;
            start += len;
        }
        Ok(())
    })
    .for_any_size()))
}

fn too_many<T: Value>(a: &Src<T>, out: &Dst<T>) -> Error {
    Error::invalid(format!("a tensor of dims {:?} does not fit into {:?}", a.dims(), out.dims()))
}

/// How one axis is padded: element `i` comes to `low + i * (interior + 1)`.
#[derive(Clone, Copy)]
struct Padding {
    low: i64,
    step: usize,
}

impl Padding {
    /// The first of `len` elements that stays, how many do, and where it comes to in an axis of `out` elements.
    fn kept(self, len: usize, out: usize) -> (usize, usize, usize) {
        let first = (-self.low).max(0).unsigned_abs() as usize;
        let first = first.div_ceil(self.step).min(len);
        let place = self.low + (first * self.step) as i64;
        let room = (out as i64 - place).max(0).unsigned_abs() as usize;
        (first, room.div_ceil(self.step).min(len - first), place.max(0) as usize)
    }
}

fn pad(op: &Op<'_>) -> Result<Made, Error> {
    let (input, value) = (op.must("a")?, op.num("value")?);
    let mut paddings = Vec::new();
    for config in op.lists("config")?.iter() {
        let &[low, _, interior] = config else {
            return Err(Error::invalid(format!("{config:?} is no low, high and interior padding")));
        };
        let step = usize::try_from(interior).map_err(|_| Error::invalid("interior padding is negative"))? + 1;
        paddings.push(Padding { low, step });
    }
    if paddings.len() != op.output(0).rank() {
        return Err(Error::invalid(format!("{} paddings for {} dims", paddings.len(), op.output(0).rank())));
    }
    let dtype = op.output(0).dtype();
    with_bits!(dtype, T => Ok(Made::new(move |run| {
        let (mut a, mut out) = (run.src_bits::<T>(input)?, run.dst_bits::<T>(0)?);
        let value: T = run.bits(value, dtype)?;
        fill(run.pool(), &out, |_| value)?;
        for (axis, padding) in paddings.iter().enumerate() {
            let (first, len, place) = padding.kept(a.dims()[axis], out.dims()[axis]);
            a = a.window(|window| window.slice(axis, first, len, 1));
            out = out.window(|window| window.slice(axis, place, len, padding.step));
        }
        copy(run.pool(), &out, &a)
    })))
}

fn view_as_complex(op: &Op<'_>) -> Result<Made, Error> {
    let input = op.must("a")?;
    let axis = op.output(0).rank();
    with_complex!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, out) = (run.src::<<T as ComplexValue>::Part>(input)?, run.dst::<T>(0)?);
        if a.dims().get(axis) != Some(&2) {
            return Err(Error::invalid(format!("dims {:?}; the last must be 2", a.dims())));
        }
        let part = |at| a.window(|window| window.select(axis, at));
        map2(run.pool(), &out, &part(0), &part(1), T::from_parts)
    })
    .for_any_size()))
}

fn view_as_real(op: &Op<'_>) -> Result<Made, Error> {
    let input = op.must("a")?;
    let axis = op.input(input).rank();
    with_complex!(op.input(input).dtype(), T => Ok(Made::new(move |run| {
        let (a, out) = (run.src::<T>(input)?, run.dst::<<T as ComplexValue>::Part>(0)?);
        if out.dims().get(axis) != Some(&2) {
            return Err(Error::invalid(format!("dims {:?}; the last must be 2", out.dims())));
        }
        let part = |at| out.window(|window| window.select(axis, at));
        map1(run.pool(), &part(0), &a, |v: T| v.re())?;
        map1(run.pool(), &part(1), &a, |v: T| v.im())
    })
    .for_any_size()))
}

#[cfg(test)]
mod tests {
    use super::super::harness::*;
    use thunderhead_sdk::testing::{Arg, OpSpec, RunOptions, Tensor};
    use thunderhead_sdk::{Dtype, Number};

    fn counted(dims: &[i64]) -> Tensor {
        Tensor::new(dims, (0..dims.iter().product::<i64>()).collect::<Vec<i64>>())
    }

    #[track_caller]
    fn gives(spec: OpSpec, dims: &[i64], expected: &[i64]) {
        assert_eq!(run1(spec.output(Dtype::I64, dims)).to_vec::<i64>(), expected);
    }

    #[test]
    fn views_choose_what_they_say() {
        let a = || counted(&[2, 3]);
        gives(
            op("prims.transpose").tensor("a", a()).ints("permutation", &[1, 0]),
            &[3, 2],
            &[0, 3, 1, 4, 2, 5],
        );
        gives(
            op("prims.reshape").tensor("a", a().transposed(0, 1)).ints("dims", &[6]),
            &[6],
            &[0, 3, 1, 4, 2, 5],
        );
        gives(op("prims.flip").tensor("a", a()).ints("axes", &[1]), &[2, 3], &[2, 1, 0, 5, 4, 3]);
        let spec = op("prims.broadcast_in_dim").tensor("a", counted(&[2, 1])).ints("dims", &[3, 2, 2]);
        gives(spec.ints("broadcast_dims", &[1, 2]), &[3, 2, 2], &[0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1]);
        gives(op("prims.squeeze").tensor("a", counted(&[1, 2, 1])).ints("axes", &[0, 2]), &[2], &[0, 1]);
        let spec = op("prims.diagonal").tensor("a", counted(&[2, 3])).int("offset", 1);
        gives(spec.int("axis1", 0).int("axis2", 1), &[2], &[1, 5]);
        let spec = op("prims.unfold").tensor("a", counted(&[5])).int("axis", 0).int("size", 3).int("step", 2);
        gives(spec, &[2, 3], &[0, 1, 2, 2, 3, 4]);
        let spec = op("prims.as_strided").tensor("a", counted(&[6])).ints("dims", &[2, 2]);
        gives(spec.ints("strides", &[1, 2]).int("offset", 1), &[2, 2], &[1, 3, 2, 4]);
        let spec = op("prims.as_strided").tensor("a", counted(&[6])).ints("dims", &[2, 2]);
        let spec = spec.ints("strides", &[3, 3]).int("offset", 0).output(Dtype::I64, &[2, 2]);
        assert!(failure(spec).contains("elements 0 to 6"));
    }

    #[test]
    fn slices_step_and_check() {
        let spec = op("prims.slice").tensor("a", counted(&[2, 5])).ints("start", &[1, 1]);
        gives(spec.ints("end", &[2, 5]).ints("step", &[1, 2]), &[1, 2], &[6, 8]);
        let spec = op("prims.slice").tensor("a", counted(&[2, 5])).ints("start", &[1, 3]);
        let spec = spec.ints("end", &[2, 6]).ints("step", &[1, 1]).output(Dtype::I64, &[1, 3]);
        assert!(failure(spec).contains("axis 1 has 5"));
    }

    #[test]
    fn a_part_is_replaced_also_in_place() {
        let spec = op("prims.slice_scatter")
            .tensor("a", counted(&[4]))
            .tensor("src", Tensor::new(&[2], vec![9i64, 8]));
        let spec = spec.ints("start", &[1]).ints("end", &[4]).ints("step", &[2]).output(Dtype::I64, &[4]);
        let in_place = RunOptions { in_place: true, ..RunOptions::default() };
        for options in [RunOptions::default(), in_place] {
            let out = host().run_with(&spec, &options).expect("runs").swap_remove(0);
            assert_eq!(out.to_vec::<i64>(), [0, 9, 2, 8]);
        }
    }

    #[test]
    fn pieces_are_joined() {
        let pieces =
            vec![Some(counted(&[2, 1])), Some(counted(&[2, 0])), Some(counted(&[2, 2]).transposed(0, 1))];
        gives(op("prims.cat").tensors("tensors", pieces).int("axis", 1), &[2, 3], &[0, 0, 2, 1, 1, 3]);
    }

    #[test]
    fn padding_crops_and_spreads() {
        let pad = |config: Vec<i64>| {
            op("prims.pad").tensor("a", counted(&[4])).int("value", 7).arg("config", Arg::Lists(vec![config]))
        };
        gives(pad(vec![1, 2, 0]), &[7], &[7, 0, 1, 2, 3, 7, 7]);
        gives(pad(vec![-1, -1, 0]), &[2], &[1, 2]);
        gives(pad(vec![0, 1, 1]), &[8], &[0, 7, 1, 7, 2, 7, 3, 7]);
        gives(pad(vec![-1, 0, 1]), &[6], &[7, 1, 7, 2, 7, 3]);
        gives(pad(vec![-9, 5, 0]), &[0], &[]);
    }

    #[test]
    fn complex_parts_are_two_reals() {
        let a = Tensor::new(&[2, 2], vec![1f32, 2.0, 3.0, 4.0]);
        let z = run1(op("prims.view_as_complex").tensor("a", a).output(Dtype::C64, &[2]));
        let back = run1(op("prims.view_as_real").tensor("a", z).output(Dtype::F32, &[2, 2]));
        assert_eq!(back.to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn a_value_known_at_run_pads() {
        let spec = op("prims.pad").tensor("a", counted(&[1])).slot("value", Number::Int(5));
        gives(spec.arg("config", Arg::Lists(vec![vec![1, 0, 0]])), &[2], &[5, 0]);
    }
}
