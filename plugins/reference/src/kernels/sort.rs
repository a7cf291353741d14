//! Order along an axis: sorting, the k first, and places in sorted edges. NaN is greater than all else. Sorting keeps the
//! order of equal elements, whatever `stable` says.

use super::reduction::{lines_a_chunk, without};
use super::run::{Args, Made};
use super::select::first;
use super::strided::{Src, for_each_index, numel};
use super::value::Real;
use super::{Entry, class};
use std::cmp::Ordering;
use thunderhead_sdk::{Error, Op};

pub const KERNELS: &[Entry] = &[
    Entry { name: "prims.searchsorted", dtypes: class::REAL, make: searchsorted },
    Entry { name: "prims.sort", dtypes: class::REAL_OR_BOOL, make: sort },
    Entry { name: "prims.topk", dtypes: class::REAL, make: topk },
];

#[derive(Clone, Copy)]
enum Direction {
    Ascending,
    Descending,
}

impl Direction {
    fn compare<T: Real>(self, a: T, b: T) -> Ordering {
        let ascending = match (a.is_nan(), b.is_nan()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ if a.less(b) => Ordering::Less,
            _ if b.less(a) => Ordering::Greater,
            _ => Ordering::Equal,
        };
        match self {
            Direction::Ascending => ascending,
            Direction::Descending => ascending.reverse(),
        }
    }
}

fn sort(op: &Op<'_>) -> Result<Made, Error> {
    let direction = if op.bool("descending")? { Direction::Descending } else { Direction::Ascending };
    ordered(op, direction, Keep::All)
}

/// Of equal values those that ATen's CPU kernel chooses, in its order.
fn topk(op: &Op<'_>) -> Result<Made, Error> {
    let direction = if op.bool("largest")? { Direction::Descending } else { Direction::Ascending };
    ordered(op, direction, Keep::First { sorted: op.bool("sorted")? })
}

/// What is wanted of a line.
#[derive(Clone, Copy)]
enum Keep {
    All,
    First { sorted: bool },
}

/// The first elements along an axis in an order, as many as the results have, and their places.
fn ordered(op: &Op<'_>, direction: Direction, keep: Keep) -> Result<Made, Error> {
    let input = op.must("a")?;
    let rank = op.input(input).rank();
    let axis = if rank == 0 { None } else { Some(op.axis("axis", rank)?) };
    with_real_or_bool!(op.input(input).dtype(), T => Ok(Made::new(move |run| {
        let (a, values, places) = (run.src::<T>(input)?, run.dst::<T>(0)?, run.dst::<i64>(1)?);
        let Some(axis) = axis else {
            values.set(&[], a.get(&[]));
            places.set(&[], 0);
            return Ok(());
        };
        let (len, kept, outer) = (a.dims()[axis], values.dims()[axis], without(a.dims(), axis));
        if kept > len || without(values.dims(), axis) != outer || places.dims() != values.dims() {
            return Err(Error::invalid(format!("the first {kept} of {len} elements are asked for")));
        }
        run.pool().split(numel(&outer), lines_a_chunk(len), &|range| {
            for_each_index(&outer, range, &mut |outer| {
                let mut line: Vec<(T, i64)> = a.line(axis, outer).iter().zip(0..).collect();
                order_line(&mut line, kept, direction, keep);
                let (to, to_places) = (values.line(axis, outer), places.line(axis, outer));
                for (k, (value, place)) in line.into_iter().take(kept).enumerate() {
                    to.set(k, value);
                    to_places.set(k, place);
                }
            });
        })
    })
    .for_any_size()))
}

fn order_line<T: Real>(line: &mut [(T, i64)], kept: usize, direction: Direction, keep: Keep) {
    match keep {
        Keep::All => line.sort_by(|a, b| direction.compare(a.0, b.0)),
        Keep::First { .. } if kept == 0 => {}
        Keep::First { sorted } => {
            let before = |a: &(T, i64), b: &(T, i64)| direction.compare(a.0, b.0) == Ordering::Less;
            first(line, kept, sorted, &before);
        }
    }
}

/// The first place in sorted edges (`right`: behind equal ones) where a value can be put in.
fn searchsorted(op: &Op<'_>) -> Result<Made, Error> {
    let (edges, values, right) = (op.must("edges")?, op.operand("values")?, op.bool("right")?);
    with_real!(op.input(edges).dtype(), T => Ok(Made::new(move |run| {
        let edges = run.src::<T>(edges)?;
        let out = run.store(0)?;
        let values = run.operand::<T>(values, out.dims())?;
        let shared = edges.rank().saturating_sub(1);
        let fits = edges.rank() >= 1
            && (shared == 0 || values.rank() == edges.rank() && values.dims()[..shared] == edges.dims()[..shared]);
        if !fits || values.dims() != out.dims() {
            return Err(Error::invalid(format!("edges {:?}, values {:?}", edges.dims(), values.dims())));
        }
        let mut found = Vec::with_capacity(values.numel());
        for_each_index(values.dims(), 0..values.numel(), &mut |at| {
            let (line, value) = (edges.line(shared, &at[..shared]), values.get(at));
            let before = |edge: T| match Direction::Ascending.compare(edge, value) {
                Ordering::Less => true,
                Ordering::Equal => right,
                Ordering::Greater => false,
            };
            let (mut low, mut high) = (0, line.len());
            while low < high {
                let middle = low + (high - low) / 2;
                if before(line.get(middle)) { low = middle + 1 } else { high = middle }
            }
            found.push(low as i64);
        });
        super::convert::convert(run.pool(), &*out, &Src::from_vec(found, values.dims()))
    })))
}

#[cfg(test)]
mod tests {
    use super::super::harness::*;
    use thunderhead_sdk::Dtype;
    use thunderhead_sdk::testing::Tensor;

    #[test]
    fn sorting_is_stable_and_nan_is_greatest() {
        let a = Tensor::new(&[5], vec![2f32, f32::NAN, 1.0, 2.0, -1.0]);
        let spec = |descending| {
            let spec = op("prims.sort").tensor("a", a.clone()).int("axis", 0).bool("descending", descending);
            run(spec.bool("stable", true).output(Dtype::F32, &[5]).output(Dtype::I64, &[5]))
        };
        let up = spec(false);
        assert_eq!(up[0].to_vec::<f32>()[..4], [-1.0, 1.0, 2.0, 2.0]);
        assert_eq!(up[1].to_vec::<i64>(), [4, 2, 0, 3, 1]);
        let down = spec(true);
        assert!(down[0].to_vec::<f32>()[0].is_nan());
        assert_eq!(down[1].to_vec::<i64>(), [1, 0, 3, 2, 4]);
    }

    #[test]
    fn the_first_k_lie_along_their_axis() {
        let a = Tensor::new(&[3, 2], vec![1i32, 6, 3, 4, 5, 2]);
        let spec = op("prims.topk").tensor("a", a).int("k", 2).int("axis", 0).bool("largest", true);
        let out = run(spec.bool("sorted", true).output(Dtype::I32, &[2, 2]).output(Dtype::I64, &[2, 2]));
        assert_eq!(out[0].to_vec::<i32>(), [5, 6, 3, 4]);
        assert_eq!(out[1].to_vec::<i64>(), [2, 0, 1, 1]);
    }

    #[test]
    fn places_in_edges_go_before_or_behind_equal_ones() {
        let edges = Tensor::new(&[4], vec![1f64, 2.0, 2.0, 5.0]);
        let values = Tensor::new(&[5], vec![0f64, 2.0, 3.0, 9.0, f64::NAN]);
        let found = |right| {
            let spec =
                op("prims.searchsorted").tensor("edges", edges.clone()).tensor("values", values.clone());
            let spec = spec.bool("right", right).dtype("out_dtype", Dtype::I32);
            run1(spec.output(Dtype::I32, &[5])).to_vec::<i32>()
        };
        assert_eq!(found(false), [0, 1, 3, 4, 4]);
        assert_eq!(found(true), [0, 3, 3, 4, 4]);
    }
}
