//! Prims that read or write where index tensors say.
//!
//! Every index is checked: one outside its axis is an error that names value and size. What is written several times is
//! written in row-major order of the index, on one thread, so the last one wins and sums have one order; sums of half
//! types run in `f32` and round once.

use super::pool::Alone;
use super::run::{Args, Made, Run};
use super::strided::{Dst, GRAIN, Src, Window, copy, fill, for_each_index, numel};
use super::value::{Arith, C128, Product, Real, Value, Widen};
use super::{Entry, class};
use thunderhead_sdk::{Dtype, Error, Op};

pub const KERNELS: &[Entry] = &[
    Entry { name: "prims.embedding", dtypes: class::NUMERIC, make: embedding },
    Entry { name: "prims.embedding_backward", dtypes: class::NUMERIC, make: embedding_backward },
    Entry { name: "prims.gather", dtypes: class::EVERY, make: gather },
    Entry { name: "prims.index", dtypes: class::EVERY, make: index },
    Entry { name: "prims.index_add", dtypes: class::ANY, make: index_add },
    Entry { name: "prims.index_copy", dtypes: class::EVERY, make: index_copy },
    Entry { name: "prims.index_put", dtypes: class::EVERY, make: index_put },
    Entry { name: "prims.nonzero", dtypes: class::ANY, make: nonzero },
    Entry { name: "prims.scatter", dtypes: class::EVERY, make: scatter },
    Entry { name: "prims.scatter_add", dtypes: class::ANY, make: scatter_add },
    Entry { name: "prims.scatter_reduce", dtypes: class::ANY, make: scatter_reduce },
    Entry { name: "prims.take", dtypes: class::EVERY, make: take },
    Entry { name: "prims.take_along_axis", dtypes: class::EVERY, make: take_along_axis },
];

/// An index tensor, whatever its integer dtype.
fn indices(run: &Run<'_, '_>, input: usize) -> Result<Src<i64>, Error> {
    let dtype = run.input_dtype(input);
    if !dtype.is_int() {
        return Err(Error::invalid(format!("an index is {dtype}; expected an integer")));
    }
    run.src_as(input)
}

/// An index inside an axis of `size`.
#[inline(always)]
fn inside(at: i64, axis: usize, size: usize) -> Result<usize, Error> {
    if at >= 0 && (at as u64) < size as u64 {
        return Ok(at as usize);
    }
    Err(Error::bad_data(format!("index {at} is out of range for axis {axis} with size {size}")))
}

/// All of a one-dimensional index, checked.
fn all_inside(index: &Src<i64>, axis: usize, size: usize) -> Result<Vec<usize>, Error> {
    if index.rank() > 1 {
        return Err(Error::invalid(format!("an index of dims {:?}; expected one dim", index.dims())));
    }
    index.to_vec().into_iter().map(|at| inside(at, axis, size)).collect()
}

fn fits(holds: bool, what: &str, a: &[usize], b: &[usize]) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::invalid(format!("dims {a:?} and {b:?} do not fit: {what}"))) }
}

fn embedding(op: &Op<'_>) -> Result<Made, Error> {
    let (index, weight) = (op.must("index")?, op.must("weight")?);
    with_bits!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (index, weight) = (indices(run, index)?, run.src_bits::<T>(weight)?);
        let out = run.dst_bits::<T>(0)?;
        let [size, row] = *weight.dims() else {
            return Err(Error::invalid(format!("a table of dims {:?}; expected two", weight.dims())));
        };
        fits(out.dims() == [index.dims(), &[row]].concat(), "index, then a row", out.dims(), index.dims())?;
        run.pool().try_split(index.numel(), (GRAIN / row.max(1)).max(1), &|range| {
            let mut result = Ok(());
            for_each_index(index.dims(), range, &mut |at| {
                if result.is_ok() {
                    result = inside(index.get(at), 0, size).and_then(|from| {
                        let from = weight.window(|window| window.select(0, from));
                        copy(&Alone, &out.window(|window| select_all(window, at)), &from)
                    });
                }
            });
            result
        })
    })
    .for_any_size()))
}

/// The part of a tensor where its first axes have these indices.
fn select_all(window: Window, at: &[usize]) -> Window {
    at.iter().fold(window, |window, at| window.select(0, *at))
}

/// Gives `body` a function that adds to elements of `out`, which has values already. Half types add up in `f32`.
fn summing<T: Product>(out: &Dst<T>, body: impl FnOnce(&mut dyn FnMut(&[usize], T))) -> Result<(), Error> {
    if !T::DTYPE.is_half() {
        // The dtype is its own accumulator, or wraps as its accumulator does.
        body(&mut |at, v| out.set(at, T::leave(out.get(at).enter().add(v.enter()))));
        return Ok(());
    }
    let mut sums: Vec<T::Acc> = out.written().to_vec().into_iter().map(T::enter).collect();
    let wide = Dst::over(&mut sums, out.dims());
    body(&mut |at, v| wide.set(at, wide.get(at).add(v.enter())));
    let rounded = sums.into_iter().map(T::leave).collect();
    copy(&Alone, out, &Src::from_vec(rounded, out.dims()))
}

fn embedding_backward(op: &Op<'_>) -> Result<Made, Error> {
    let (g, index) = (op.must("g")?, op.must("index")?);
    let (padding, scale) = (op.opt_int("padding_idx")?, op.bool("scale_by_freq")?);
    with_inexact!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (g, index, out) = (run.src::<T>(g)?, indices(run, index)?, run.dst::<T>(0)?);
        let [size, row] = *out.dims() else {
            return Err(Error::invalid(format!("a table of dims {:?}; expected two", out.dims())));
        };
        fits(g.dims() == [index.dims(), &[row]].concat(), "index, then a row", g.dims(), index.dims())?;
        let rows: Vec<usize> =
            index.to_vec().into_iter().map(|at| inside(at, 0, size)).collect::<Result<_, _>>()?;
        let mut counts = vec![0u32; if scale { size } else { 0 }];
        rows.iter().filter(|_| scale).for_each(|at| counts[*at] += 1);
        fill(run.pool(), &out, |_| T::default())?;
        let skipped = padding.and_then(|at| usize::try_from(at).ok());
        summing(&out, |add| {
            let mut next = rows.iter();
            for_each_index(index.dims(), 0..index.numel(), &mut |at| {
                let to = *next.next().expect("a row an index");
                if skipped == Some(to) {
                    return;
                }
                let from = g.window(|window| select_all(window, at));
                for k in 0..row {
                    let v = from.get(&[k]);
                    add(&[to, k], if scale { scaled(v, counts[to]) } else { v });
                }
            });
        })
    })))
}

/// A gradient's share where its index occurs `count` times.
fn scaled<T: Widen>(v: T, count: u32) -> T {
    use super::value::Divide;
    v.widen().div(T::Wide::from_i64(i64::from(count))).convert()
}

fn gather(op: &Op<'_>) -> Result<Made, Error> {
    let (a, index) = (op.must("a")?, op.must("index")?);
    with_bits!(op.output(0).dtype(), T => {
        let rank = op.input(a).rank();
        let axis = if rank == 0 { 0 } else { op.axis("axis", rank)? };
        Ok(Made::new(move |run| {
            let (a, index, out) = (run.src_bits::<T>(a)?, indices(run, index)?, run.dst_bits::<T>(0)?);
            gather_from(run, &a, &index, &out, axis)
        })
        .for_any_size())
    })
}

fn gather_from<T: Value>(
    run: &Run<'_, '_>,
    a: &Src<T>,
    index: &Src<i64>,
    out: &Dst<T>,
    axis: usize,
) -> Result<(), Error> {
    fits(out.dims() == index.dims(), "result and index", out.dims(), index.dims())?;
    fits_along(index.dims(), a.dims(), axis)?;
    run.pool().try_split(index.numel(), GRAIN / 4, &|range| {
        let mut result = Ok(());
        let mut from = [0usize; 64];
        let from = &mut from[..index.rank().min(64)];
        for_each_index(index.dims(), range, &mut |at| {
            if result.is_err() {
                return;
            }
            from.copy_from_slice(at);
            match from.get_mut(axis) {
                // Without dims there is one element, and its only index is 0.
                None => result = inside(index.get(at), 0, 1).map(|_| ()),
                Some(along) => match inside(index.get(at), axis, a.dims()[axis]) {
                    Ok(found) => *along = found,
                    Err(error) => result = Err(error),
                },
            }
            if result.is_ok() {
                out.set(at, a.get(from));
            }
        });
        result
    })
}

/// An index tensor reaches no further than the tensor in all axes but one.
fn fits_along(index: &[usize], a: &[usize], axis: usize) -> Result<(), Error> {
    let reaches = |other: usize| other == axis || index[other] <= a[other];
    let holds = index.len() == a.len() && index.len() <= 64 && (0..a.len()).all(reaches);
    fits(holds || numel(index) == 0, "index within the tensor", index, a)
}

fn take_along_axis(op: &Op<'_>) -> Result<Made, Error> {
    let (a, index) = (op.must("a")?, op.must("index")?);
    let axis = op.axis("axis", op.output(0).rank())?;
    with_bits!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, index, out) = (run.src_bits::<T>(a)?, indices(run, index)?, run.dst_bits::<T>(0)?);
        fits(a.rank() == out.rank() && index.rank() == out.rank(), "as many dims", a.dims(), index.dims())?;
        let spread = |mut window: Window, dims: &[usize]| {
            for other in (0..dims.len()).filter(|other| *other != axis) {
                if dims[other] == 1 {
                    window = window.expand(other, out.dims()[other]);
                }
            }
            window
        };
        let (a, index) = (a.window(|w| spread(w, a.dims())), index.window(|w| spread(w, index.dims())));
        gather_from(run, &a, &index, &out, axis)
    })
    .for_any_size()))
}

fn take(op: &Op<'_>) -> Result<Made, Error> {
    let (a, index) = (op.must("a")?, op.must("index")?);
    let axis = op.axis("axis", op.input(a).rank())?;
    with_bits!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, index, out) = (run.src_bits::<T>(a)?, indices(run, index)?, run.dst_bits::<T>(0)?);
        let places = all_inside(&index, axis, a.dims()[axis])?;
        fits(out.rank() == a.rank() && out.dims()[axis] == places.len(), "one element an index", out.dims(), a.dims())?;
        let slice = a.numel() / a.dims()[axis].max(1);
        run.pool().try_split(places.len(), (GRAIN / slice.max(1)).max(1), &|range| {
            for k in range {
                let from = a.window(|window| window.select(axis, places[k]));
                copy(&Alone, &out.window(|window| window.select(axis, k)), &from)?;
            }
            Ok(())
        })
    })
    .for_any_size()))
}

/// The axes that index tensors stand for, and where their dims come to in a result.
struct Indexed {
    inputs: Vec<usize>,
    axes: Vec<usize>,
}

impl Indexed {
    fn of(op: &Op<'_>, rank: usize) -> Result<Indexed, Error> {
        let given = op.tensors("indices");
        let (axes, inputs): (Vec<usize>, Vec<usize>) =
            given.iter().enumerate().filter_map(|(axis, input)| Some((axis, (*input)?))).unzip();
        if inputs.is_empty() || given.len() > rank {
            return Err(Error::invalid(format!("{} indices for {rank} dims", given.len())));
        }
        Ok(Indexed { inputs, axes })
    }

    fn tensors(&self, run: &Run<'_, '_>) -> Result<Vec<Src<i64>>, Error> {
        let all: Vec<_> = self.inputs.iter().map(|input| indices(run, *input)).collect::<Result<_, _>>()?;
        for other in &all {
            fits(all[0].dims() == other.dims(), "index tensors", all[0].dims(), other.dims())?;
        }
        Ok(all)
    }

    /// The indexed axes first, then the others.
    fn order(&self, rank: usize) -> Vec<usize> {
        let others = (0..rank).filter(|axis| !self.axes.contains(axis));
        self.axes.iter().copied().chain(others).collect()
    }

    /// The axes of a result in the order: those of the index, then the others. The result has them at the place of the
    /// first indexed axis where these are neighbours, else in front.
    fn result_order(&self, index_rank: usize, result_rank: usize) -> Vec<usize> {
        let neighbours = self.axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let first = if neighbours { self.axes[0] } else { 0 };
        let block = first..first + index_rank;
        let others = (0..result_rank).filter(|axis| !block.contains(axis));
        block.clone().chain(others).collect()
    }

    /// The indices at one place of the index tensors, checked against the dims of the tensor.
    fn at(&self, tensors: &[Src<i64>], place: &[usize], dims: &[usize]) -> Result<Vec<usize>, Error> {
        let each = self.axes.iter().zip(tensors);
        each.map(|(axis, index)| inside(index.get(place), *axis, dims[*axis])).collect()
    }

    /// Dims of a result of indexing `dims`, in the order of [`Indexed::result_order`].
    fn expected(&self, index: &[usize], dims: &[usize]) -> Vec<usize> {
        let others = (0..dims.len()).filter(|axis| !self.axes.contains(axis)).map(|axis| dims[axis]);
        index.iter().copied().chain(others).collect()
    }
}

fn index(op: &Op<'_>) -> Result<Made, Error> {
    let a = op.must("a")?;
    let indexed = Indexed::of(op, op.input(a).rank())?;
    with_bits!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, out, tensors) = (run.src_bits::<T>(a)?, run.dst_bits::<T>(0)?, indexed.tensors(run)?);
        let places = tensors[0].dims();
        let expected = indexed.expected(places, a.dims());
        fits(out.rank() == expected.len(), "the result", out.dims(), &expected)?;
        let out = out.window(|window| window.permute(&indexed.result_order(places.len(), expected.len())));
        fits(out.dims() == expected, "the result", out.dims(), &expected)?;
        let from = a.window(|window| window.permute(&indexed.order(a.rank())));
        let rest = numel(&expected[places.len()..]);
        run.pool().try_split(numel(places), (GRAIN / (4 * rest.max(1))).max(1), &|range| {
            let mut result = Ok(());
            for_each_index(places, range, &mut |place| {
                if result.is_err() {
                    return;
                }
                result = indexed.at(&tensors, place, a.dims()).and_then(|at| {
                    if at.len() == from.rank() {
                        out.set(place, from.get(&at));
                        return Ok(());
                    }
                    let from = from.window(|window| select_all(window, &at));
                    copy(&Alone, &out.window(|window| select_all(window, place)), &from)
                });
            });
            result
        })
    })
    .for_any_size()))
}

/// Values may have dims of size 1, or fewer dims, where they repeat.
fn spread<T: Value>(values: &Src<T>, dims: &[usize]) -> Result<Src<T>, Error> {
    let missing = dims.len().checked_sub(values.rank());
    let matches = |(own, wanted): (&usize, &usize)| own == wanted || *own == 1;
    let holds = missing.is_some_and(|missing| values.dims().iter().zip(&dims[missing..]).all(matches));
    fits(holds, "values", values.dims(), dims)?;
    let missing = missing.unwrap_or(0);
    Ok(values.window(|mut window| {
        for (axis, dim) in values.dims().iter().enumerate() {
            if *dim == 1 {
                window = window.expand(axis, dims[missing + axis]);
            }
        }
        dims[..missing].iter().rev().fold(window, |window, dim| window.repeat(0, *dim))
    }))
}

fn index_put(op: &Op<'_>) -> Result<Made, Error> {
    let (a, values) = (op.must("a")?, op.must("values")?);
    let indexed = Indexed::of(op, op.input(a).rank())?;
    if op.bool("accumulate")? {
        return with_any!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
            let (a, values, out) = (run.src::<T>(a)?, run.src::<T>(values)?, run.dst::<T>(0)?);
            let writes = Writes::new(run, &indexed, &values, out.dims())?;
            copy(run.pool(), &out, &a)?;
            let mut result = Ok(());
            let order = indexed.order(out.rank());
            let out = out.window(|window| window.permute(&order));
            summing(&out, |add| result = writes.each(add))?;
            result
        })
        .for_any_size()
        .in_place([a])));
    }
    with_bits!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, values, out) = (run.src_bits::<T>(a)?, run.src_bits::<T>(values)?, run.dst_bits::<T>(0)?);
        let writes = Writes::new(run, &indexed, &values, out.dims())?;
        copy(run.pool(), &out, &a)?;
        let out = out.window(|window| window.permute(&indexed.order(out.rank())));
        writes.each(&mut |at, v| out.set(at, v))
    })
    .for_any_size()
    .in_place([a])))
}

/// Values and where each goes, with the indexed axes in front.
struct Writes<'a, T> {
    indexed: &'a Indexed,
    tensors: Vec<Src<i64>>,
    values: Src<T>,
    dims: Vec<usize>,
    rest: Vec<usize>,
}

impl<'a, T: Value> Writes<'a, T> {
    fn new(
        run: &Run<'_, '_>,
        indexed: &'a Indexed,
        values: &Src<T>,
        dims: &[usize],
    ) -> Result<Writes<'a, T>, Error> {
        let tensors = indexed.tensors(run)?;
        let places = tensors[0].dims();
        let expected = indexed.expected(places, dims);
        let order = indexed.result_order(places.len(), expected.len());
        // The dims of a result, from those in the order index first.
        let mut wanted = vec![0; expected.len()];
        order.iter().zip(&expected).for_each(|(axis, dim)| wanted[*axis] = *dim);
        let values = spread(values, &wanted)?.window(|window| window.permute(&order));
        let rest = expected[places.len()..].to_vec();
        Ok(Writes { indexed, tensors, values, dims: dims.to_vec(), rest })
    }

    /// Each write, in row-major order of the index.
    fn each(&self, write: &mut dyn FnMut(&[usize], T)) -> Result<(), Error> {
        let places = self.tensors[0].dims();
        let mut result = Ok(());
        for_each_index(places, 0..numel(places), &mut |place| {
            if result.is_err() {
                return;
            }
            result = self.indexed.at(&self.tensors, place, &self.dims).map(|mut at| {
                let n_indexed = at.len();
                let values = self.values.window(|window| select_all(window, place));
                for_each_index(&self.rest, 0..numel(&self.rest), &mut |rest| {
                    at.truncate(n_indexed);
                    at.extend_from_slice(rest);
                    write(&at, values.get(rest));
                });
            });
        });
        result
    }
}

/// Writes slices of `src` to the slices of `out` that a one-dimensional index names.
fn each_slice<T: Value>(
    index: &Src<i64>,
    src: &Src<T>,
    out: &Dst<T>,
    axis: usize,
    mut write: impl FnMut(&[usize], T),
) -> Result<(), Error> {
    let places = all_inside(index, axis, out.dims()[axis])?;
    let mut expected = out.dims().to_vec();
    expected[axis] = places.len();
    fits(src.dims() == expected, "slices to write", src.dims(), &expected)?;
    let mut to = vec![0; expected.len()];
    for_each_index(src.dims(), 0..src.numel(), &mut |at| {
        to.copy_from_slice(at);
        to[axis] = places[at[axis]];
        write(&to, src.get(at));
    });
    Ok(())
}

fn index_add(op: &Op<'_>) -> Result<Made, Error> {
    let (a, index, src) = (op.must("a")?, op.must("index")?, op.must("src")?);
    let axis = op.axis("axis", op.output(0).rank())?;
    with_any!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, index, src) = (run.src::<T>(a)?, indices(run, index)?, run.src::<T>(src)?);
        let out = run.dst::<T>(0)?;
        copy(run.pool(), &out, &a)?;
        let mut result = Ok(());
        summing(&out, |add| result = each_slice(&index, &src, &out, axis, add))?;
        result
    })
    .for_any_size()
    .in_place([a])))
}

fn index_copy(op: &Op<'_>) -> Result<Made, Error> {
    let (a, index, src) = (op.must("a")?, op.must("index")?, op.must("src")?);
    let axis = op.axis("axis", op.output(0).rank())?;
    with_bits!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, index, src) = (run.src_bits::<T>(a)?, indices(run, index)?, run.src_bits::<T>(src)?);
        let out = run.dst_bits::<T>(0)?;
        copy(run.pool(), &out, &a)?;
        each_slice(&index, &src, &out, axis, |at, v| out.set(at, v))
    })
    .for_any_size()
    .in_place([a])))
}

/// Writes each element of `src` that the index covers to where the index says along an axis.
fn each_scattered<T: Value>(
    index: &Src<i64>,
    src: &Src<T>,
    dims: &[usize],
    axis: usize,
    mut write: impl FnMut(&[usize], T),
) -> Result<(), Error> {
    fits_along(index.dims(), dims, axis)?;
    fits_along(index.dims(), src.dims(), usize::MAX)?;
    let mut to = vec![0; dims.len()];
    let mut result = Ok(());
    for_each_index(index.dims(), 0..index.numel(), &mut |at| {
        if result.is_err() {
            return;
        }
        to.copy_from_slice(at);
        let size = dims.get(axis).copied().unwrap_or(1);
        match inside(index.get(at), axis, size) {
            Ok(place) => {
                if let Some(along) = to.get_mut(axis) {
                    *along = place;
                }
                write(&to, src.get(at));
            }
            Err(error) => result = Err(error),
        }
    });
    result
}

fn scatter_axis(op: &Op<'_>) -> Result<usize, Error> {
    let rank = op.output(0).rank();
    if rank == 0 { Ok(0) } else { op.axis("axis", rank) }
}

fn scatter(op: &Op<'_>) -> Result<Made, Error> {
    let (a, index, src) = (op.must("a")?, op.must("index")?, op.operand("src")?);
    let axis = scatter_axis(op)?;
    let dtype = op.output(0).dtype();
    with_bits!(dtype, T => Ok(Made::new(move |run| {
        let (a, index, out) = (run.src_bits::<T>(a)?, indices(run, index)?, run.dst_bits::<T>(0)?);
        let src = run.operand_bits::<T>(src, index.dims(), dtype)?;
        copy(run.pool(), &out, &a)?;
        each_scattered(&index, &src, out.dims(), axis, |at, v| out.set(at, v))
    })
    .in_place([a])))
}

fn scatter_add(op: &Op<'_>) -> Result<Made, Error> {
    let (a, index, src) = (op.must("a")?, op.must("index")?, op.must("src")?);
    let axis = scatter_axis(op)?;
    with_any!(op.output(0).dtype(), T => Ok(Made::new(move |run| {
        let (a, index, src) = (run.src::<T>(a)?, indices(run, index)?, run.src::<T>(src)?);
        let out = run.dst::<T>(0)?;
        copy(run.pool(), &out, &a)?;
        let mut result = Ok(());
        summing(&out, |add| result = each_scattered(&index, &src, out.dims(), axis, add))?;
        result
    })
    .for_any_size()
    .in_place([a])))
}

#[derive(Clone, Copy, PartialEq)]
enum Reduce {
    Sum,
    Product,
    Mean,
    Greatest,
    Least,
}

impl Reduce {
    fn of(op: &Op<'_>) -> Result<Reduce, Error> {
        Ok(match op.str("reduce")? {
            "sum" => Reduce::Sum,
            "prod" => Reduce::Product,
            "mean" => Reduce::Mean,
            "amax" => Reduce::Greatest,
            "amin" => Reduce::Least,
            other => return Err(Error::invalid(format!("argument `reduce` is `{other}`"))),
        })
    }

    /// The word and the dtype fit: complex numbers have no order, bools no mean.
    fn takes(self, dtype: Dtype) -> bool {
        match self {
            Reduce::Sum | Reduce::Product => true,
            Reduce::Mean => dtype != Dtype::Bool,
            Reduce::Greatest | Reduce::Least => !dtype.is_complex(),
        }
    }

    fn step<W: Reduced>(self, old: W, new: W) -> W {
        match self {
            Reduce::Sum | Reduce::Mean => old.add(new),
            Reduce::Product => old.mul(new),
            Reduce::Greatest => old.greatest(new),
            Reduce::Least => old.least(new),
        }
    }
}

/// The widest types of the categories, as values that are reduced.
trait Reduced: Arith {
    fn greatest(self, other: Self) -> Self;
    fn least(self, other: Self) -> Self;
    /// The mean of `count` values; of integers rounded down.
    fn mean(self, count: u32) -> Self;
}

impl Reduced for f64 {
    fn greatest(self, other: f64) -> f64 {
        Real::larger(self, other)
    }
    fn least(self, other: f64) -> f64 {
        Real::smaller(self, other)
    }
    fn mean(self, count: u32) -> f64 {
        self / f64::from(count)
    }
}

impl Reduced for i64 {
    fn greatest(self, other: i64) -> i64 {
        self.max(other)
    }
    fn least(self, other: i64) -> i64 {
        self.min(other)
    }
    fn mean(self, count: u32) -> i64 {
        self.div_euclid(i64::from(count.max(1)))
    }
}

/// Without an order: no kernel is made that would ask for one ([`Reduce::takes`]).
impl Reduced for C128 {
    fn greatest(self, _: C128) -> C128 {
        self
    }
    fn least(self, _: C128) -> C128 {
        self
    }
    fn mean(self, count: u32) -> C128 {
        self / f64::from(count)
    }
}

fn scatter_reduce(op: &Op<'_>) -> Result<Made, Error> {
    let (a, index, src) = (op.must("a")?, op.must("index")?, op.must("src")?);
    let (axis, reduce, include_self) = (scatter_axis(op)?, Reduce::of(op)?, op.bool("include_self")?);
    let dtype = op.output(0).dtype();
    if !reduce.takes(dtype) {
        return Err(Error::unsupported(format!("{dtype} has no `{}`", op.str("reduce")?)));
    }
    with_any!(dtype, T => Ok(Made::new(move |run| {
        let (a, index, src) = (run.src::<T>(a)?, indices(run, index)?, run.src::<T>(src)?);
        let out = run.dst::<T>(0)?;
        let own = a.to_vec();
        let mut sums: Vec<<T as Widen>::Wide> = own.iter().map(|v| v.widen()).collect();
        let mut counts = vec![u32::from(include_self); sums.len()];
        let (sums_at, counts_at) = (Dst::over(&mut sums, a.dims()), Dst::over(&mut counts, a.dims()));
        each_scattered(&index, &src, a.dims(), axis, |at, v| {
            let count = counts_at.get(at);
            let new = v.widen();
            sums_at.set(at, if count == 0 { new } else { reduce.step(sums_at.get(at), new) });
            counts_at.set(at, count + 1);
        })?;
        let finish = |(k, sum): (usize, &<T as Widen>::Wide)| match counts[k] {
            0 => own[k],
            count if reduce == Reduce::Mean => sum.mean(count).convert(),
            _ => sum.convert(),
        };
        let values = sums.iter().enumerate().map(finish).collect();
        copy(run.pool(), &out, &Src::from_vec(values, a.dims()))
    })
    .for_any_size()))
}

fn nonzero(op: &Op<'_>) -> Result<Made, Error> {
    let input = op.must("a")?;
    with_any!(op.input(input).dtype(), T => Ok(Made::new(move |run| {
        let a = run.src::<T>(input)?;
        let values = a.to_vec();
        let count = values.iter().filter(|v| v.truth()).count();
        let out = run.alloc::<i64>(0, &[count, a.rank()])?;
        let (mut row, mut next) = (0, values.iter());
        for_each_index(a.dims(), 0..values.len(), &mut |at| {
            if next.next().is_some_and(|v| v.truth()) {
                at.iter().enumerate().for_each(|(axis, place)| out.set(&[row, axis], *place as i64));
                row += 1;
            }
        });
        Ok(())
    })
    .for_any_size()))
}

#[cfg(test)]
mod tests {
    use super::super::harness::*;
    use half::bf16;
    use thunderhead_sdk::Dtype;
    use thunderhead_sdk::testing::{OpSpec, Tensor};

    fn counted(dims: &[i64]) -> Tensor {
        Tensor::new(dims, (0..dims.iter().product::<i64>()).collect::<Vec<i64>>())
    }

    fn at(dims: &[i64], values: &[i64]) -> Tensor {
        Tensor::new(dims, values.to_vec())
    }

    #[track_caller]
    fn gives(spec: OpSpec, dims: &[i64], expected: &[i64]) {
        assert_eq!(run1(spec.output(Dtype::I64, dims)).to_vec::<i64>(), expected);
    }

    #[test]
    fn reads_go_where_the_index_says() {
        let a = || counted(&[3, 2]);
        gives(
            op("prims.take").tensor("a", a()).tensor("index", at(&[2], &[2, 0])).int("axis", 0),
            &[2, 2],
            &[4, 5, 0, 1],
        );
        gives(
            op("prims.take").tensor("a", a()).tensor("index", at(&[1], &[1])).int("axis", 1),
            &[3, 1],
            &[1, 3, 5],
        );
        let index = Tensor::new(&[1, 2], vec![2u8, 1]);
        gives(op("prims.gather").tensor("a", a()).tensor("index", index).int("axis", 0), &[1, 2], &[4, 3]);
        let spec =
            op("prims.take_along_axis").tensor("a", a()).tensor("index", at(&[1, 1], &[1])).int("axis", 1);
        gives(spec, &[3, 1], &[1, 3, 5]);
        let weight = Tensor::new(&[3, 2], vec![0f32, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let spec = op("prims.embedding").tensor("index", at(&[2, 1], &[2, 1])).tensor("weight", weight);
        assert_eq!(run1(spec.output(Dtype::F32, &[2, 1, 2])).to_vec::<f32>(), [4.0, 5.0, 2.0, 3.0]);
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        for bad in [3, -1] {
            let spec =
                op("prims.take").tensor("a", counted(&[3])).tensor("index", at(&[1], &[bad])).int("axis", 0);
            let message = failure(spec.output(Dtype::I64, &[1]));
            assert!(
                message.contains(&format!("index {bad} is out of range for axis 0 with size 3")),
                "{message}"
            );
        }
    }

    #[test]
    fn index_tensors_replace_their_axes() {
        let a = || counted(&[2, 3, 4]);
        let spec = op("prims.index").tensor("a", a());
        let spec = spec.tensors("indices", vec![None, Some(at(&[2], &[2, 0])), Some(at(&[2], &[1, 3]))]);
        gives(spec, &[2, 2], &[9, 3, 21, 15]);
        let spec = op("prims.index").tensor("a", a());
        let spec = spec.tensors("indices", vec![Some(at(&[2], &[1, 0])), None, Some(at(&[2], &[1, 3]))]);
        gives(spec, &[2, 3], &[13, 17, 21, 3, 7, 11]);
        let spec = op("prims.index").tensor("a", a()).tensors("indices", vec![None, Some(at(&[1], &[2]))]);
        gives(spec, &[2, 1, 4], &[8, 9, 10, 11, 20, 21, 22, 23]);
    }

    #[test]
    fn the_last_write_wins_and_sums_are_whole() {
        let put = |accumulate| {
            let spec = op("prims.index_put").tensor("a", counted(&[3, 2]));
            let spec = spec.tensors("indices", vec![Some(at(&[3], &[1, 1, 0]))]);
            spec.tensor("values", at(&[3, 2], &[10, 20, 30, 40, 50, 60])).bool("accumulate", accumulate)
        };
        gives(put(false), &[3, 2], &[50, 60, 30, 40, 4, 5]);
        gives(put(true), &[3, 2], &[50, 61, 42, 63, 4, 5]);
        let spec = op("prims.index_add").tensor("a", counted(&[2])).tensor("index", at(&[3], &[1, 1, 0]));
        gives(spec.tensor("src", at(&[3], &[5, 6, 7])).int("axis", 0), &[2], &[7, 12]);
        let spec = op("prims.index_copy").tensor("a", counted(&[2])).tensor("index", at(&[2], &[1, 1]));
        gives(spec.tensor("src", at(&[2], &[5, 6])).int("axis", 0), &[2], &[0, 6]);
        let spec = op("prims.scatter").tensor("a", counted(&[3])).tensor("index", at(&[2], &[2, 2]));
        gives(spec.tensor("src", at(&[3], &[7, 8, 9])).int("axis", 0), &[3], &[0, 1, 8]);
        let spec = op("prims.scatter").tensor("a", counted(&[3])).tensor("index", at(&[2], &[2, 0]));
        gives(spec.int("src", -1).int("axis", 0), &[3], &[-1, 1, -1]);
    }

    #[test]
    fn half_sums_round_once() {
        let n = 300;
        let ones = Tensor::new(&[n], vec![bf16::ONE; n as usize]);
        let spec = op("prims.scatter_add").tensor("a", Tensor::new(&[1], vec![bf16::ZERO]));
        let spec = spec.tensor("index", at(&[n], &vec![0; n as usize])).tensor("src", ones).int("axis", 0);
        assert_eq!(run1(spec.output(Dtype::BF16, &[1])).to_vec::<bf16>(), [bf16::from_f32(300.0)]);
    }

    #[test]
    fn embedding_gradients_skip_padding_and_scale() {
        let g = Tensor::new(&[3, 1], vec![1f32, 2.0, 4.0]);
        let grad = |padding: Option<i64>, scale| {
            let spec = op("prims.embedding_backward")
                .tensor("g", g.clone())
                .tensor("index", at(&[3], &[1, 1, 2]))
                .int("n", 4);
            let spec = match padding {
                Some(at) => spec.int("padding_idx", at),
                None => spec.none("padding_idx"),
            };
            run1(spec.bool("scale_by_freq", scale).output(Dtype::F32, &[4, 1])).to_vec::<f32>()
        };
        assert_eq!(grad(None, false), [0.0, 3.0, 4.0, 0.0]);
        assert_eq!(grad(Some(2), false), [0.0, 3.0, 0.0, 0.0]);
        assert_eq!(grad(None, true), [0.0, 1.5, 4.0, 0.0]);
    }

    #[test]
    fn scattered_values_reduce() {
        let reduce = |how: &str, include: bool| {
            let spec = op("prims.scatter_reduce")
                .tensor("a", at(&[3], &[5, 5, 5]))
                .tensor("index", at(&[3], &[0, 0, 1]));
            let spec = spec.tensor("src", at(&[3], &[-2, -3, 7])).int("axis", 0).str("reduce", how);
            run1(spec.bool("include_self", include).output(Dtype::I64, &[3])).to_vec::<i64>()
        };
        assert_eq!(reduce("sum", true), [0, 12, 5]);
        assert_eq!(reduce("mean", true), [0, 6, 5]);
        assert_eq!(reduce("mean", false), [-3, 7, 5]);
        assert_eq!(reduce("prod", false), [6, 7, 5]);
        assert_eq!(reduce("amax", true), [5, 7, 5]);
        assert_eq!(reduce("amin", false), [-3, 7, 5]);
    }

    #[test]
    fn sizes_found_at_run_are_allocated() {
        let a = Tensor::new(&[2, 2], vec![0f32, 2.0, 3.0, 0.0]);
        assert_eq!(
            run1(op("prims.nonzero").tensor("a", a).output(Dtype::I64, &[-1, 2])).to_vec::<i64>(),
            [0, 1, 1, 0]
        );
        let none = Tensor::new(&[2], vec![false, false]);
        let out = run1(op("prims.nonzero").tensor("a", none).output(Dtype::I64, &[-1, 1]));
        assert_eq!(out.dims(), [0, 1]);
        let scalar =
            run1(op("prims.nonzero").tensor("a", Tensor::new(&[], vec![1i8])).output(Dtype::I64, &[-1, 0]));
        assert_eq!(scalar.dims(), [1, 0]);
    }
}
