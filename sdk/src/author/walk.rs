//! Walking several tensors at once, whatever their strides.

/// Visits an index space in row-major order and says, for each of `N` tensors, at which offset (in elements from its
/// first) the element stands. A tensor that does not depend on a dim has stride 0 there, which is how broadcasting
/// is written.
pub struct Walk<const N: usize> {
    dims: Vec<i64>,
    strides: Vec<[i64; N]>,
}

impl<const N: usize> Walk<N> {
    /// A walk over `dims`. Each of `strides` has one stride a dim. Panics where a length differs.
    pub fn new(dims: &[i64], strides: [&[i64]; N]) -> Walk<N> {
        assert!(strides.iter().all(|strides| strides.len() == dims.len()), "one stride a dim");
        let strides = (0..dims.len()).map(|dim| strides.map(|of_one| of_one[dim])).collect();
        Walk { dims: dims.to_vec(), strides }
    }

    /// Calls `f` with the offsets of each element.
    pub fn for_each(&self, mut f: impl FnMut([i64; N])) {
        let Some((inner, outer)) = self.dims.split_last() else { return f([0; N]) };
        if self.dims.iter().any(|dim| *dim <= 0) {
            return;
        }
        let step = self.strides[outer.len()];
        let mut index = vec![0; outer.len()];
        let mut row = [0; N];
        loop {
            let mut at = row;
            for _ in 0..*inner {
                f(at);
                at = std::array::from_fn(|idx| at[idx] + step[idx]);
            }
            if !self.next_row(outer, &mut index, &mut row) {
                return;
            }
        }
    }

    fn next_row(&self, outer: &[i64], index: &mut [i64], row: &mut [i64; N]) -> bool {
        for dim in (0..outer.len()).rev() {
            index[dim] += 1;
            *row = std::array::from_fn(|idx| row[idx] + self.strides[dim][idx]);
            if index[dim] < outer[dim] {
                return true;
            }
            *row = std::array::from_fn(|idx| row[idx] - outer[dim] * self.strides[dim][idx]);
            index[dim] = 0;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_transposed_and_broadcast() {
        let mut seen = Vec::new();
        Walk::new(&[2, 3], [&[1, 2], &[0, 1]]).for_each(|at| seen.push(at));
        assert_eq!(seen, [[0, 0], [2, 1], [4, 2], [1, 0], [3, 1], [5, 2]]);
    }

    #[test]
    fn a_scalar_is_one_element_and_an_empty_dim_none() {
        let mut seen = 0;
        Walk::<1>::new(&[], [&[]]).for_each(|_| seen += 1);
        assert_eq!(seen, 1);
        Walk::new(&[3, 0], [&[0, 1]]).for_each(|_| seen += 1);
        assert_eq!(seen, 1);
    }
}
