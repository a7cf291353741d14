//! Index maps: where in a value an iteration of a loop looks, as one affine expression of the loop's coordinates a dim.
//!
//! Views turn maps into maps; the one that may not is a reshape, which divides: [`delinearise`] does it where the
//! quotient is affine again, and says which coordinate must become two where that would help.

use crate::graph::{Prim, dense_strides};

/// `base + Σ coeffs[d] * coordinate[d]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Affine {
    pub base: i64,
    pub coeffs: Vec<i64>,
}

/// One expression a dim of a value.
pub type Map = Vec<Affine>;

impl Affine {
    pub fn constant(rank: usize, base: i64) -> Affine {
        Affine { base, coeffs: vec![0; rank] }
    }

    /// The coordinate itself.
    pub fn coordinate(rank: usize, dim: usize) -> Affine {
        let mut coeffs = vec![0; rank];
        coeffs[dim] = 1;
        Affine { base: 0, coeffs }
    }

    pub fn add_scaled(&mut self, other: &Affine, by: i64) {
        self.base += other.base * by;
        for (a, b) in self.coeffs.iter_mut().zip(&other.coeffs) {
            *a += b * by;
        }
    }

    /// `self * by + base`
    pub fn scaled(&self, by: i64, base: i64) -> Affine {
        let coeffs = self.coeffs.iter().map(|c| c * by).collect();
        Affine { base: self.base * by + base, coeffs }
    }

    /// Least and greatest value for coordinates below `lens`.
    pub fn range(&self, lens: &[usize]) -> (i64, i64) {
        let (mut low, mut high) = (self.base, self.base);
        for (c, len) in self.coeffs.iter().zip(lens) {
            let reach = c * (len.saturating_sub(1) as i64);
            low += reach.min(0);
            high += reach.max(0);
        }
        (low, high)
    }

    /// The only coordinate it moves with by one, if that is all it does.
    pub fn single(&self) -> Option<usize> {
        let mut moving = (0..self.coeffs.len()).filter(|d| self.coeffs[*d] != 0);
        match (moving.next(), moving.next()) {
            (Some(d), None) if self.coeffs[d] == 1 => Some(d),
            _ => None,
        }
    }

    /// Coordinate `dim` becomes two, the second of `inner` values.
    pub fn split(&mut self, dim: usize, inner: usize) {
        let c = self.coeffs[dim];
        self.coeffs[dim] = c * inner as i64;
        self.coeffs.insert(dim + 1, c);
    }

    /// The same for coordinates counted from `low`.
    pub fn from(&self, low: &[usize]) -> Affine {
        let shift: i64 = self.coeffs.iter().zip(low).map(|(c, low)| c * *low as i64).sum();
        Affine { base: self.base + shift, coeffs: self.coeffs.clone() }
    }
}

impl Affine {
    /// [`Affine::from`], undone.
    fn back(mut self, low: &[usize]) -> Affine {
        self.base -= self.coeffs.iter().zip(low).map(|(c, low)| c * *low as i64).sum::<i64>();
        self
    }
}

/// The element's place, for these strides.
pub fn linear(map: &[Affine], strides: &[usize], rank: usize) -> Affine {
    let mut sum = Affine::constant(rank, 0);
    for (e, stride) in map.iter().zip(strides) {
        sum.add_scaled(e, *stride as i64);
    }
    sum
}

/// A part of a loop: of each coordinate `lens` values from `low` on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    pub low: Vec<usize>,
    pub lens: Vec<usize>,
}

impl Part {
    pub fn whole(lens: &[usize]) -> Part {
        Part { low: vec![0; lens.len()], lens: lens.to_vec() }
    }

    /// Values of an expression.
    pub fn range(&self, e: &Affine) -> (i64, i64) {
        e.from(&self.low).range(&self.lens)
    }

    /// Where an expression that moves with one coordinate lies in `from..to`; `None`: nowhere.
    pub fn within(&self, e: &Affine, from: i64, to: i64) -> Option<Part> {
        let mut part = self.clone();
        if let Some(d) = e.single() {
            let low = (from - e.base).max(self.low[d] as i64);
            let end = (to - e.base).min((self.low[d] + self.lens[d]) as i64);
            if low >= end {
                return None;
            }
            part.low[d] = low as usize;
            part.lens[d] = (end - low) as usize;
        }
        Some(part)
    }

    /// [`pull`], for this part of the loop.
    pub fn pull(&self, view: &Prim, map: &Map, dims: &[usize], out: &[usize]) -> Result<Map, NoMap> {
        let shifted = map.iter().map(|e| e.from(&self.low)).collect();
        let pulled = pull(view, &shifted, dims, out, &self.lens)?;
        Ok(pulled.into_iter().map(|e| e.back(&self.low)).collect())
    }
}

/// Why a map does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMap {
    /// It would if this coordinate were two, the second of so many values.
    Split(usize, usize),
    /// It is not affine.
    Never,
}

/// Indices of the element at row-major place `at` of a tensor of `dims`.
pub fn delinearise(at: &Affine, dims: &[usize], lens: &[usize]) -> Result<Map, NoMap> {
    let rank = lens.len();
    let mut map = vec![Affine::constant(rank, 0); dims.len()];
    let mut rest = at.clone();
    // What has one value does not move.
    rest.coeffs.iter_mut().zip(lens).filter(|(_, len)| **len == 1).for_each(|(c, _)| *c = 0);
    let outermost = dims.iter().position(|dim| *dim > 1);
    for d in (0..dims.len()).rev() {
        if dims[d] == 1 {
            continue;
        }
        if Some(d) == outermost {
            map[d] = rest.clone();
            break;
        }
        let n = dims[d] as i64;
        let mut inside = Affine::constant(rank, rest.base.rem_euclid(n));
        let mut above = Affine::constant(rank, rest.base.div_euclid(n));
        for k in 0..rank {
            let c = rest.coeffs[k];
            if c % n == 0 {
                above.coeffs[k] = c / n;
            } else {
                inside.coeffs[k] = c;
            }
        }
        let (low, high) = inside.range(lens);
        if low < 0 || high >= n {
            return Err(splitting(&inside, n, lens));
        }
        map[d] = inside;
        rest = above;
    }
    Ok(map)
}

/// The coordinate that runs over a boundary of `n` and would not if it were two.
fn splitting(inside: &Affine, n: i64, lens: &[usize]) -> NoMap {
    for (k, c) in inside.coeffs.iter().enumerate() {
        let c = *c;
        if c <= 0 || n % c != 0 {
            continue;
        }
        let inner = (n / c) as usize;
        if inner > 1 && lens[k] > inner && lens[k].is_multiple_of(inner) {
            return NoMap::Split(k, inner);
        }
    }
    NoMap::Never
}

/// The map of a view's operand (of `dims`), from that of its result (of `out`).
pub fn pull(view: &Prim, map: &Map, dims: &[usize], out: &[usize], lens: &[usize]) -> Result<Map, NoMap> {
    let rank = lens.len();
    Ok(match view {
        Prim::Reshape(_) => {
            if let Some(map) = same_but_ones(map, out, dims, rank) {
                return Ok(map);
            }
            return delinearise(&linear(map, &dense_strides(out), rank), dims, lens);
        }
        Prim::Transpose(permutation) => {
            let mut pulled = vec![Affine::constant(rank, 0); dims.len()];
            for (i, axis) in permutation.iter().enumerate() {
                pulled[*axis] = map[i].clone();
            }
            pulled
        }
        Prim::Broadcast { axes, .. } => {
            let of = |(axis, dim): (&usize, &usize)| {
                if *dim == 1 { Affine::constant(rank, 0) } else { map[*axis].clone() }
            };
            axes.iter().zip(dims).map(of).collect()
        }
        Prim::Slice { start, step, .. } => {
            (0..dims.len()).map(|d| map[d].scaled(step[d] as i64, start[d] as i64)).collect()
        }
        Prim::Squeeze(axes) => {
            let mut rest = map.iter();
            let mut of = |d: usize| {
                if axes.contains(&d) { None } else { rest.next().cloned() }
            };
            (0..dims.len()).map(|d| of(d).unwrap_or_else(|| Affine::constant(rank, 0))).collect()
        }
        Prim::Flip(axes) => {
            let of = |d: usize| match axes.contains(&d) {
                true => map[d].scaled(-1, dims[d] as i64 - 1),
                false => map[d].clone(),
            };
            (0..dims.len()).map(of).collect()
        }
        _ => map.clone(),
    })
}

/// A reshape that only adds or drops dims of 1.
fn same_but_ones(map: &Map, from: &[usize], to: &[usize], rank: usize) -> Option<Map> {
    let kept: Vec<usize> = (0..from.len()).filter(|d| from[*d] != 1).collect();
    let wanted = to.iter().filter(|dim| **dim != 1);
    if !kept.iter().map(|d| &from[*d]).eq(wanted) {
        return None;
    }
    let mut kept = kept.into_iter();
    let of = |dim: &usize| match *dim {
        1 => Some(Affine::constant(rank, 0)),
        _ => kept.next().map(|d| map[d].clone()),
    };
    to.iter().map(of).collect()
}

/// The map of a view's result (of `out`), from that of its operand (of `dims`), where both see the same elements; `spread`
/// lists the coordinates that a broadcast may add, outermost first.
pub fn push(
    view: &Prim,
    map: &Map,
    dims: &[usize],
    out: &[usize],
    lens: &[usize],
    spread: &[usize],
) -> Option<Map> {
    let rank = lens.len();
    match view {
        Prim::Copy => Some(map.clone()),
        Prim::Reshape(_) => same_but_ones(map, dims, out, rank)
            .or_else(|| delinearise(&linear(map, &dense_strides(dims), rank), out, lens).ok()),
        Prim::Transpose(permutation) => Some(permutation.iter().map(|axis| map[*axis].clone()).collect()),
        Prim::Squeeze(axes) => {
            Some((0..dims.len()).filter(|d| !axes.contains(d)).map(|d| map[d].clone()).collect())
        }
        Prim::Slice { .. } if dims == out => Some(map.clone()),
        Prim::Broadcast { axes, .. } => {
            let mut pushed = vec![Affine::constant(rank, 0); out.len()];
            let mut new: Vec<usize> = (0..out.len()).filter(|d| out[*d] > 1).collect();
            for (i, axis) in axes.iter().enumerate() {
                pushed[*axis] = map[i].clone();
                if dims[i] > 1 {
                    new.retain(|d| d != axis);
                }
            }
            if new.is_empty() {
                return Some(pushed);
            }
            // The new dims are the folded ones, in their order.
            let moves = |e: &Affine| spread.iter().any(|d| e.coeffs[*d] != 0);
            let spread_lens: Vec<usize> = spread.iter().map(|d| lens[*d]).collect();
            let new_dims: Vec<usize> = new.iter().map(|d| out[*d]).collect();
            if map.iter().any(moves) || spread_lens.iter().product::<usize>() != new_dims.iter().product() {
                return None;
            }
            let mut at = Affine::constant(rank, 0);
            for (d, stride) in spread.iter().zip(dense_strides(&spread_lens)) {
                at.coeffs[*d] = stride as i64;
            }
            let added = delinearise(&at, &new_dims, lens).ok()?;
            new.into_iter().zip(added).for_each(|(d, e)| pushed[d] = e);
            Some(pushed)
        }
        _ => None,
    }
}

/// Whether a value of `dims` is seen exactly once by the coordinates in `which`, and does not move with others.
pub fn is_bijection(map: &Map, dims: &[usize], lens: &[usize], which: impl Fn(usize) -> bool) -> bool {
    let at = linear(map, &dense_strides(dims), lens.len());
    if at.base != 0 {
        return false;
    }
    let mut moving = Vec::new();
    for (d, len) in lens.iter().enumerate().filter(|(_, len)| **len > 1) {
        match (which(d), at.coeffs[d]) {
            (true, c) if c > 0 => moving.push((c, *len as i64)),
            (false, 0) => {}
            _ => return false,
        }
    }
    moving.sort_unstable();
    let mut next = 1;
    for (c, len) in moving {
        if c != next {
            return false;
        }
        next *= len;
    }
    next == dims.iter().product::<usize>() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(dims: &[usize]) -> Map {
        (0..dims.len()).map(|d| Affine::coordinate(dims.len(), d)).collect()
    }

    #[test]
    fn reshapes_divide_where_they_can_and_say_what_to_split() {
        let lens = [2, 12, 4, 8];
        let map = pull(&Prim::Reshape(lens.to_vec()), &identity(&lens), &[2, 12, 32], &lens, &lens)
            .expect("affine");
        assert_eq!(map[2].coeffs, [0, 0, 8, 1]);
        let lens = [2, 12, 32];
        let coarse = pull(&Prim::Reshape(lens.to_vec()), &identity(&lens), &[2, 12, 4, 8], &lens, &lens);
        assert_eq!(coarse, Err(NoMap::Split(2, 8)));
        let odd = pull(&Prim::Reshape(vec![3, 2]), &identity(&[3, 2]), &[2, 3], &[3, 2], &[3, 2]);
        assert_eq!(odd, Err(NoMap::Never));
    }

    #[test]
    fn a_spread_statistic_moves_with_the_folded_coordinates() {
        let lens = [4, 6];
        let kept = vec![Affine::coordinate(2, 0)];
        let view = Prim::Broadcast { dims: vec![4, 6], axes: vec![0] };
        let map = push(&view, &kept, &[4], &[4, 6], &lens, &[1]).expect("the fold's coordinate comes back");
        assert!(is_bijection(&map, &[4, 6], &lens, |_| true));
        assert!(push(&view, &kept, &[4], &[4, 6], &lens, &[]).is_none());
    }
}
