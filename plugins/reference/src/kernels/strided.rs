//! Tensors as kernels see them, and the loops over them: the only file with raw memory in it.
//!
//! [`Src`] and [`Dst`] are a pointer with dims and strides. Invariants: each is made from memory that the host vouches
//! for during a run (or from a buffer that the caller keeps), every element of its dims lies in that memory, and each
//! way to make one from another ([`Window`]) only ever leaves elements out or repeats them. So reading through an index
//! that is checked against the dims is sound. Two more rules are the kernels' to keep: a tensor does not outlive the
//! run that it came with, and parallel chunks write different elements of a [`Dst`].
//!
//! An output may lie in an input's memory only for kernels that say so; these read each element before they write it.
//! Not here: what is computed.

use super::pool::Pool;
use super::value::Value;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use std::sync::Arc;
use thunderhead_sdk::Error;

/// Sizes, outermost first.
pub type Dims = SmallVec<[usize; 6]>;
/// Steps in elements, one a dim.
pub type Strides = SmallVec<[isize; 6]>;

/// Elements that a chunk of a parallel loop has, whatever the number of threads.
pub const GRAIN: usize = 1 << 14;

/// Number of elements of these dims.
pub fn numel(dims: &[usize]) -> usize {
    dims.iter().product()
}

/// Row-major strides without gaps.
pub fn dense_strides(dims: &[usize]) -> Strides {
    let mut strides: Strides = smallvec![0; dims.len()];
    let mut step = 1isize;
    for axis in (0..dims.len()).rev() {
        strides[axis] = step;
        step *= dims[axis].max(1) as isize;
    }
    strides
}

/// A choice of the elements of a tensor, as dims, strides and a first element.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    offset: isize,
    dims: Dims,
    strides: Strides,
}

impl Window {
    /// `len` elements of an axis from `start` in steps of `step`.
    pub fn slice(mut self, axis: usize, start: usize, len: usize, step: usize) -> Window {
        assert!(len == 0 || start + (len - 1) * step < self.dims[axis], "the slice lies inside its axis");
        if len > 0 {
            self.offset += start as isize * self.strides[axis];
        }
        self.strides[axis] *= step as isize;
        self.dims[axis] = len;
        self
    }

    /// Element `at` of an axis, which goes.
    pub fn select(mut self, axis: usize, at: usize) -> Window {
        assert!(at < self.dims[axis], "the index lies inside its axis");
        self.offset += at as isize * self.strides[axis];
        self.dims.remove(axis);
        self.strides.remove(axis);
        self
    }

    /// Axes in another order: result axis `i` is axis `order[i]`.
    pub fn permute(self, order: &[usize]) -> Window {
        assert_eq!(order.len(), self.dims.len(), "an order names each axis");
        Window {
            offset: self.offset,
            dims: order.iter().map(|axis| self.dims[*axis]).collect(),
            strides: order.iter().map(|axis| self.strides[*axis]).collect(),
        }
    }

    /// A new axis that repeats every element `len` times.
    pub fn repeat(mut self, axis: usize, len: usize) -> Window {
        self.dims.insert(axis, len);
        self.strides.insert(axis, 0);
        self
    }

    /// An axis of size 1 as one of size `len`.
    pub fn expand(mut self, axis: usize, len: usize) -> Window {
        assert_eq!(self.dims[axis], 1, "an axis that is expanded has size 1");
        self.dims[axis] = len;
        self.strides[axis] = 0;
        self
    }

    /// An axis backwards.
    pub fn flip(mut self, axis: usize) -> Window {
        self.offset += self.dims[axis].saturating_sub(1) as isize * self.strides[axis];
        self.strides[axis] = -self.strides[axis];
        self
    }

    /// The elements where the index of `axis2` is that of `axis1` plus `offset`; both axes go, the diagonal is last.
    pub fn diagonal(mut self, offset: isize, axis1: usize, axis2: usize) -> Window {
        let (rows, columns) = (self.dims[axis1] as isize, self.dims[axis2] as isize);
        let (row, column) = ((-offset).max(0), offset.max(0));
        let len = (rows - row).min(columns - column).max(0) as usize;
        if len > 0 {
            self.offset += row * self.strides[axis1] + column * self.strides[axis2];
        }
        let step = self.strides[axis1] + self.strides[axis2];
        for axis in [axis1.max(axis2), axis1.min(axis2)] {
            self.dims.remove(axis);
            self.strides.remove(axis);
        }
        self.dims.push(len);
        self.strides.push(step);
        self
    }

    /// Windows of `size` elements of an axis, `step` apart; their elements become a last axis.
    pub fn unfold(mut self, axis: usize, size: usize, step: usize) -> Window {
        let len = self.dims[axis];
        let step_elems = self.strides[axis];
        self.dims[axis] = if len < size { 0 } else { (len - size) / step + 1 };
        self.strides[axis] = step_elems * step as isize;
        self.dims.push(size);
        self.strides.push(step_elems);
        self
    }

    /// Other dims of the same number of elements, for a dense tensor.
    pub fn dense(self, dims: &[usize]) -> Window {
        assert!(self.is_dense() && numel(dims) == numel(&self.dims), "a dense tensor of as many elements");
        Window { offset: self.offset, strides: dense_strides(dims), dims: dims.into() }
    }

    /// Any dims, strides and first element within a dense tensor.
    pub fn restrided(self, dims: &[usize], strides: &[isize], offset: isize) -> Result<Window, Error> {
        let count = numel(&self.dims) as isize;
        let reach = |wanted: fn(isize) -> bool| -> isize {
            dims.iter().zip(strides).filter(|(_, s)| wanted(**s)).map(|(d, s)| (*d as isize - 1) * s).sum()
        };
        let (low, high) = (offset + reach(|s| s < 0), offset + reach(|s| s > 0));
        if numel(dims) > 0 && (low < 0 || high >= count || !self.is_dense()) {
            let what =
                format!("elements {low} to {high} of a tensor of {count} dense elements are asked for");
            return Err(Error::invalid(what));
        }
        Ok(Window { offset: self.offset + offset, dims: dims.into(), strides: strides.into() })
    }

    fn is_dense(&self) -> bool {
        let mut step = 1isize;
        self.dims.iter().zip(&self.strides).rev().all(|(dim, stride)| {
            let fits = *dim <= 1 || *stride == step;
            step *= *dim as isize;
            fits
        }) || self.dims.contains(&0)
    }
}

macro_rules! windows {
    ($name:ident) => {
        impl<T: Value> $name<T> {
            /// Sizes, outermost first.
            pub fn dims(&self) -> &[usize] {
                &self.window.dims
            }

            /// Steps in elements, one a dim.
            pub fn strides(&self) -> &[isize] {
                &self.window.strides
            }

            /// Number of dims.
            pub fn rank(&self) -> usize {
                self.window.dims.len()
            }

            /// Number of elements.
            pub fn numel(&self) -> usize {
                numel(&self.window.dims)
            }

            /// Row-major without gaps.
            pub fn is_dense(&self) -> bool {
                self.window.is_dense()
            }

            /// Where the element of that index lies, from the first one. Panics outside the dims.
            #[inline(always)]
            fn place(&self, index: &[usize]) -> isize {
                let (dims, strides) = (&self.window.dims[..], &self.window.strides[..]);
                assert_eq!(index.len(), dims.len(), "an index has one number a dim");
                let mut place = self.window.offset;
                for axis in 0..index.len() {
                    assert!(index[axis] < dims[axis], "an index lies inside its dims");
                    place += index[axis] as isize * strides[axis];
                }
                place
            }

            /// Where a line along `axis` begins, from the first element. Panics outside the dims.
            fn line_place(&self, axis: usize, outer: &[usize]) -> isize {
                assert_eq!(outer.len() + 1, self.rank(), "all axes but one are given");
                let others = (0..self.rank()).filter(|other| *other != axis);
                others.zip(outer).fold(self.window.offset, |place, (other, at)| {
                    assert!(*at < self.window.dims[other], "an index lies inside its dims");
                    place + *at as isize * self.window.strides[other]
                })
            }
        }
    };
}

/// A tensor that is read.
#[derive(Clone, Debug)]
pub struct Src<T> {
    data: *const T,
    window: Window,
    /// What keeps `data` where it is no memory of the host.
    owner: Option<Arc<[T]>>,
}

/// A tensor that is written.
#[derive(Clone, Debug)]
pub struct Dst<T> {
    data: *mut T,
    window: Window,
}

windows!(Src);
windows!(Dst);

// SAFETY: a `Src` only reads, and nobody writes what it reads while its run lasts, but for the element-wise kernels that
// write an element after reading it, in the same chunk.
unsafe impl<T: Value> Send for Src<T> {}
// SAFETY: as above.
unsafe impl<T: Value> Sync for Src<T> {}
// SAFETY: chunks write different elements, a rule that each kernel keeps (head of this file).
unsafe impl<T: Value> Send for Dst<T> {}
// SAFETY: as above.
unsafe impl<T: Value> Sync for Dst<T> {}

impl<T: Value> Src<T> {
    /// A tensor in memory of the host.
    ///
    /// # Safety
    /// For as long as the result and what is made from it are used: all elements that dims and strides reach from `data`
    /// are readable and aligned; nobody else writes them.
    pub unsafe fn from_raw(data: *const T, dims: Dims, strides: Strides) -> Src<T> {
        Src { data, window: Window { offset: 0, dims, strides }, owner: None }
    }

    /// One value, repeated: what a number that stands for a tensor is.
    pub fn filled(value: T, dims: &[usize]) -> Src<T> {
        let owner: Arc<[T]> = Arc::new([value]);
        let window = Window { offset: 0, dims: dims.into(), strides: smallvec![0; dims.len()] };
        Src { data: owner.as_ptr(), window, owner: Some(owner) }
    }

    /// A dense tensor of its own.
    pub fn from_vec(values: Vec<T>, dims: &[usize]) -> Src<T> {
        assert_eq!(values.len(), numel(dims), "as many values as the dims have elements");
        let owner: Arc<[T]> = values.into();
        let window = Window { offset: 0, dims: dims.into(), strides: dense_strides(dims) };
        Src { data: owner.as_ptr(), window, owner: Some(owner) }
    }

    /// A choice of its elements.
    pub fn window(&self, choose: impl FnOnce(Window) -> Window) -> Src<T> {
        Src { data: self.data, window: choose(self.window.clone()), owner: self.owner.clone() }
    }

    /// As [`Src::window`], for a choice that may fail.
    pub fn try_window(&self, choose: impl FnOnce(Window) -> Result<Window, Error>) -> Result<Src<T>, Error> {
        Ok(Src { data: self.data, window: choose(self.window.clone())?, owner: self.owner.clone() })
    }

    /// The element of an index. Panics outside the dims.
    #[inline(always)]
    pub fn get(&self, index: &[usize]) -> T {
        // SAFETY: `place` has checked the index, and all indices inside the dims are readable.
        unsafe { self.data.offset(self.place(index)).read() }
    }

    /// The elements along `axis` where the other axes have the index `outer`.
    pub fn line(&self, axis: usize, outer: &[usize]) -> SrcLine<'_, T> {
        let place = self.line_place(axis, outer);
        // An empty line has no first element to point to.
        let data = if self.window.dims[axis] == 0 { self.data } else { self.data.wrapping_offset(place) };
        SrcLine { data, len: self.window.dims[axis], stride: self.window.strides[axis], of: self }
    }

    /// The elements in row-major order.
    pub fn to_vec(&self) -> Vec<T> {
        let mut values = Vec::with_capacity(self.numel());
        self.read_range(0..self.numel(), |v| values.push(v));
        values
    }

    /// Hands elements `range`, in row-major order, to `take`.
    pub fn read_range(&self, range: Range<usize>, mut take: impl FnMut(T)) {
        let space = Space::new(&self.window.dims, [&self.window.strides]);
        let [step] = space.inner();
        space.for_rows(range, &mut |[at], len| {
            for k in 0..len as isize {
                // SAFETY: the space walks the elements of this tensor.
                take(unsafe { self.first().offset(at + k * step).read() });
            }
        });
    }

    /// The same elements, dense: itself where it already is.
    pub fn to_dense(&self) -> Src<T> {
        if self.is_dense() { self.clone() } else { Src::from_vec(self.to_vec(), self.dims()) }
    }

    /// The elements of a dense tensor.
    pub fn as_slice(&self) -> Option<&[T]> {
        if !self.is_dense() {
            return None;
        }
        if self.numel() == 0 {
            return Some(&[]);
        }
        // SAFETY: dense, so these elements and no others are `numel` values in a row; nobody writes them meanwhile,
        // because kernels that use slices do not share memory between inputs and outputs.
        Some(unsafe { std::slice::from_raw_parts(self.first(), self.numel()) })
    }

    #[inline(always)]
    fn first(&self) -> *const T {
        self.data.wrapping_offset(self.window.offset)
    }
}

impl<T: Value> Dst<T> {
    /// A tensor in memory of the host.
    ///
    /// # Safety
    /// For as long as the result and what is made from it are used: all elements that dims and strides reach from `data`
    /// are writable, aligned and distinct; nobody else reads or writes them.
    pub unsafe fn from_raw(data: *mut T, dims: Dims, strides: Strides) -> Dst<T> {
        Dst { data, window: Window { offset: 0, dims, strides } }
    }

    /// A dense tensor over a buffer that the caller keeps, and does not touch while the result is used.
    pub fn over(values: &mut [T], dims: &[usize]) -> Dst<T> {
        assert_eq!(values.len(), numel(dims), "as many values as the dims have elements");
        let window = Window { offset: 0, dims: dims.into(), strides: dense_strides(dims) };
        Dst { data: values.as_mut_ptr(), window }
    }

    /// A choice of its elements.
    pub fn window(&self, choose: impl FnOnce(Window) -> Window) -> Dst<T> {
        Dst { data: self.data, window: choose(self.window.clone()) }
    }

    /// As [`Dst::window`], for a choice that may fail.
    pub fn try_window(&self, choose: impl FnOnce(Window) -> Result<Window, Error>) -> Result<Dst<T>, Error> {
        Ok(Dst { data: self.data, window: choose(self.window.clone())? })
    }

    /// Writes `next()` to each of the elements `range`, in row-major order.
    pub fn write_range(&self, range: Range<usize>, mut next: impl FnMut() -> T) {
        let space = Space::new(&self.window.dims, [&self.window.strides]);
        let [step] = space.inner();
        space.for_rows(range, &mut |[at], len| {
            for k in 0..len as isize {
                // SAFETY: the space walks the elements of this tensor.
                unsafe { self.first().offset(at + k * step).write(next()) };
            }
        });
    }

    /// What has been written, to be read.
    pub fn written(&self) -> Src<T> {
        Src { data: self.data, window: self.window.clone(), owner: None }
    }

    /// Writes the element of an index. Panics outside the dims.
    #[inline(always)]
    pub fn set(&self, index: &[usize], value: T) {
        // SAFETY: `place` has checked the index, and all indices inside the dims are writable.
        unsafe { self.data.offset(self.place(index)).write(value) }
    }

    /// Writes element `number` in row-major order. Panics past the end.
    pub fn set_number(&self, number: usize, value: T) {
        let mut rest = number;
        let mut place = self.window.offset;
        for (dim, stride) in self.window.dims.iter().zip(&self.window.strides).rev() {
            assert!(*dim > 0, "an element of a tensor that has some");
            place += (rest % dim) as isize * stride;
            rest /= dim;
        }
        assert_eq!(rest, 0, "inside the tensor");
        // SAFETY: made of an index inside the dims, all of which are writable.
        unsafe { self.data.offset(place).write(value) }
    }

    /// The element of an index, which the same chunk has written. Panics outside the dims.
    #[inline(always)]
    pub fn get(&self, index: &[usize]) -> T {
        // SAFETY: `place` has checked the index, and what is writable is readable.
        unsafe { self.data.offset(self.place(index)).read() }
    }

    /// The elements along `axis` where the other axes have the index `outer`.
    pub fn line(&self, axis: usize, outer: &[usize]) -> DstLine<'_, T> {
        let place = self.line_place(axis, outer);
        let data = if self.window.dims[axis] == 0 { self.data } else { self.data.wrapping_offset(place) };
        DstLine { data, len: self.window.dims[axis], stride: self.window.strides[axis], of: self }
    }

    #[inline(always)]
    fn first(&self) -> *mut T {
        self.data.wrapping_offset(self.window.offset)
    }
}

/// Elements of a [`Src`] along one axis.
pub struct SrcLine<'a, T> {
    data: *const T,
    len: usize,
    stride: isize,
    #[allow(dead_code)] // keeps the tensor's memory
    of: &'a Src<T>,
}

impl<T: Value> SrcLine<'_, T> {
    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Element `k`. Panics past the end.
    #[inline(always)]
    pub fn get(&self, k: usize) -> T {
        assert!(k < self.len, "inside the line");
        // SAFETY: the line lies in the tensor, `k` in the line.
        unsafe { self.data.offset(k as isize * self.stride).read() }
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.len).map(|k| self.get(k))
    }
}

/// Elements of a [`Dst`] along one axis.
pub struct DstLine<'a, T> {
    data: *mut T,
    len: usize,
    stride: isize,
    #[allow(dead_code)] // the tensor that it is a part of
    of: &'a Dst<T>,
}

impl<T: Value> DstLine<'_, T> {
    /// Writes element `k`. Panics past the end.
    #[inline(always)]
    pub fn set(&self, k: usize, value: T) {
        assert!(k < self.len, "inside the line");
        // SAFETY: the line lies in the tensor, `k` in the line.
        unsafe { self.data.offset(k as isize * self.stride).write(value) }
    }
}

/// A tensor whose last two axes are matrices and whose others count them.
pub struct Stack<T> {
    of: Src<T>,
    /// Where each matrix begins, from the first element of `of`.
    starts: Vec<isize>,
    rows: usize,
    columns: usize,
    steps: [isize; 2],
}

/// As [`Stack`], to be written.
pub struct StackMut<T> {
    of: Dst<T>,
    starts: Vec<isize>,
    rows: usize,
    columns: usize,
    steps: [isize; 2],
}

macro_rules! stacks {
    ($name:ident of $tensor:ident) => {
        impl<T: Value> $name<T> {
            /// Panics where there are fewer than two axes.
            pub fn new(of: &$tensor<T>) -> $name<T> {
                let rank = of.rank();
                let (dims, strides) = (&of.window.dims, &of.window.strides);
                let (rows, columns) = (dims[rank - 2], dims[rank - 1]);
                let steps = [strides[rank - 2], strides[rank - 1]];
                let mut starts = Vec::with_capacity(numel(&dims[..rank - 2]));
                for_each_index(&dims[..rank - 2], 0..numel(&dims[..rank - 2]), &mut |at| {
                    starts.push(at.iter().zip(strides).map(|(at, stride)| *at as isize * stride).sum());
                });
                $name { of: of.clone(), starts, rows, columns, steps }
            }

            /// How many matrices.
            pub fn count(&self) -> usize {
                self.starts.len()
            }

            /// Rows of each.
            pub fn rows(&self) -> usize {
                self.rows
            }

            /// Columns of each.
            pub fn columns(&self) -> usize {
                self.columns
            }

            #[inline(always)]
            fn place(&self, matrix: usize, row: usize, column: usize) -> isize {
                assert!(row < self.rows && column < self.columns, "inside the matrix");
                self.starts[matrix] + row as isize * self.steps[0] + column as isize * self.steps[1]
            }
        }
    };
}

stacks!(Stack of Src);
stacks!(StackMut of Dst);

impl<T: Value> Stack<T> {
    /// One element. Panics outside.
    #[inline(always)]
    pub fn get(&self, matrix: usize, row: usize, column: usize) -> T {
        // SAFETY: `place` has checked that it is an element of the tensor.
        unsafe { self.of.first().offset(self.place(matrix, row, column)).read() }
    }

    /// A row without gaps.
    #[inline(always)]
    pub fn row(&self, matrix: usize, row: usize) -> Option<&[T]> {
        if self.steps[1] != 1 && self.columns != 1 {
            return None;
        }
        if self.columns == 0 {
            return Some(&[]);
        }
        let first = self.of.first().wrapping_offset(self.place(matrix, row, 0));
        // SAFETY: `columns` elements in a row, all of the tensor, which nobody writes meanwhile: kernels that use slices
        // do not share memory between inputs and outputs.
        Some(unsafe { std::slice::from_raw_parts(first, self.columns) })
    }
}

impl<T: Value> StackMut<T> {
    /// Writes one element. Panics outside.
    #[inline(always)]
    pub fn set(&self, matrix: usize, row: usize, column: usize, value: T) {
        // SAFETY: `place` has checked that it is an element of the tensor.
        unsafe { self.of.first().offset(self.place(matrix, row, column)).write(value) }
    }
}

/// The index space of several tensors of the same dims, with axes merged where all of them allow it.
struct Space<const N: usize> {
    dims: Dims,
    strides: [Strides; N],
}

impl<const N: usize> Space<N> {
    fn new(dims: &[usize], strides: [&[isize]; N]) -> Space<N> {
        let mut space = Space { dims: Dims::new(), strides: std::array::from_fn(|_| Strides::new()) };
        for axis in 0..dims.len() {
            if dims[axis] != 1 {
                space.push(dims[axis], std::array::from_fn(|operand| strides[operand][axis]));
            }
        }
        if space.dims.is_empty() {
            space.push(1, [0; N]);
        }
        space
    }

    /// A further, inner axis; one with the last where it goes on in the same steps.
    fn push(&mut self, dim: usize, steps: [isize; N]) {
        let goes_on = |operand: usize| {
            self.strides[operand].last().is_some_and(|outer| *outer == steps[operand] * dim as isize)
        };
        if (0..N).all(goes_on) {
            *self.dims.last_mut().expect("has a last axis") *= dim;
            (0..N).for_each(|operand| *self.strides[operand].last_mut().expect("has one") = steps[operand]);
        } else {
            self.dims.push(dim);
            (0..N).for_each(|operand| self.strides[operand].push(steps[operand]));
        }
    }

    /// Steps along the innermost axis.
    fn inner(&self) -> [isize; N] {
        std::array::from_fn(|operand| *self.strides[operand].last().expect("a space has an axis"))
    }

    /// Calls `row(places, len)` for each piece of an innermost line among the elements `range` in row-major order. Compiled
    /// once for each number of operands: loops that depend on types stand inside `row`.
    fn for_rows(&self, range: Range<usize>, row: &mut dyn FnMut([isize; N], usize)) {
        if range.is_empty() {
            return;
        }
        let last = self.dims.len() - 1;
        let mut index: Dims = smallvec![0; self.dims.len()];
        let mut rest = range.start;
        for axis in (0..=last).rev() {
            index[axis] = rest % self.dims[axis];
            rest /= self.dims[axis];
        }
        let mut places: [isize; N] = std::array::from_fn(|operand| {
            index.iter().zip(&self.strides[operand]).map(|(at, stride)| *at as isize * stride).sum()
        });
        let mut left = range.len();
        loop {
            let len = left.min(self.dims[last] - index[last]);
            row(places, len);
            left -= len;
            if left == 0 {
                return;
            }
            // To the start of the next line: undo this one's progress, then carry outward.
            let back = index[last] as isize;
            index[last] = 0;
            (0..N).for_each(|operand| places[operand] -= back * self.strides[operand][last]);
            let mut axis = last;
            loop {
                axis -= 1;
                index[axis] += 1;
                (0..N).for_each(|operand| places[operand] += self.strides[operand][axis]);
                if index[axis] < self.dims[axis] {
                    break;
                }
                let full = self.dims[axis] as isize;
                index[axis] = 0;
                (0..N).for_each(|operand| places[operand] -= full * self.strides[operand][axis]);
            }
        }
    }
}

/// Calls `f` with each index of the dims, in row-major order, for the elements `range`.
pub fn for_each_index(dims: &[usize], range: Range<usize>, f: &mut dyn FnMut(&[usize])) {
    let mut index: Dims = smallvec![0; dims.len()];
    let mut rest = range.start;
    for axis in (0..dims.len()).rev() {
        if dims[axis] == 0 {
            return;
        }
        index[axis] = rest % dims[axis];
        rest /= dims[axis];
    }
    for _ in range {
        f(&index);
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

fn same_dims(out: &[usize], dims: &[usize]) -> Result<(), Error> {
    if out == dims {
        return Ok(());
    }
    Err(Error::invalid(format!("dims {dims:?} are given, the result has {out:?}")))
}

/// Writes `f()` to each element, in row-major order of each chunk; `f` gets the element's number in row-major order.
pub fn fill<R: Value>(pool: &dyn Pool, out: &Dst<R>, f: impl Fn(usize) -> R + Sync) -> Result<(), Error> {
    pool.split(out.numel(), GRAIN, &|range| {
        let mut numbers = range.clone();
        out.write_range(range, || f(numbers.next().expect("a number an element")));
    })
}

/// `out[i] = f(a[i])`.
pub fn map1<R: Value, A: Value>(
    pool: &dyn Pool,
    out: &Dst<R>,
    a: &Src<A>,
    f: impl Fn(A) -> R + Sync,
) -> Result<(), Error> {
    same_dims(out.dims(), a.dims())?;
    let space = Space::new(out.dims(), [out.strides(), a.strides()]);
    let [out_step, a_step] = space.inner();
    pool.split(out.numel(), GRAIN, &|range| {
        space.for_rows(range, &mut |[out_at, a_at], len| {
            let (out, a) = (out.first().wrapping_offset(out_at), a.first().wrapping_offset(a_at));
            if out_step == 1 && a_step == 1 {
                for k in 0..len {
                    // SAFETY: the space walks the elements of both; this line has `len` of them in a row.
                    unsafe { out.add(k).write(f(a.add(k).read())) };
                }
            } else {
                for k in 0..len as isize {
                    // SAFETY: as above, with steps.
                    unsafe { out.offset(k * out_step).write(f(a.offset(k * a_step).read())) };
                }
            }
        });
    })
}

/// `out[i] = f(a[i], b[i])`.
pub fn map2<R: Value, A: Value, B: Value>(
    pool: &dyn Pool,
    out: &Dst<R>,
    a: &Src<A>,
    b: &Src<B>,
    f: impl Fn(A, B) -> R + Sync,
) -> Result<(), Error> {
    same_dims(out.dims(), a.dims())?;
    same_dims(out.dims(), b.dims())?;
    let space = Space::new(out.dims(), [out.strides(), a.strides(), b.strides()]);
    let steps = space.inner();
    pool.split(out.numel(), GRAIN, &|range| {
        space.for_rows(range, &mut |[out_at, a_at, b_at], len| {
            let out = out.first().wrapping_offset(out_at);
            let (a, b) = (a.first().wrapping_offset(a_at), b.first().wrapping_offset(b_at));
            match steps {
                [1, 1, 1] => {
                    for k in 0..len {
                        // SAFETY: the space walks the elements of all three; this line has `len` of them in a row.
                        unsafe { out.add(k).write(f(a.add(k).read(), b.add(k).read())) };
                    }
                }
                // A number, or a row that is repeated.
                [1, 1, 0] => {
                    // SAFETY: as above; a line has at least one element.
                    let b = unsafe { b.read() };
                    for k in 0..len {
                        // SAFETY: as above.
                        unsafe { out.add(k).write(f(a.add(k).read(), b)) };
                    }
                }
                [out_step, a_step, b_step] => {
                    for k in 0..len as isize {
                        // SAFETY: as above, with steps.
                        let (a, b) = unsafe { (a.offset(k * a_step).read(), b.offset(k * b_step).read()) };
                        // SAFETY: as above.
                        unsafe { out.offset(k * out_step).write(f(a, b)) };
                    }
                }
            }
        });
    })
}

/// `out[i] = f(a[i], b[i], c[i])`.
pub fn map3<R: Value, A: Value, B: Value, C: Value>(
    pool: &dyn Pool,
    out: &Dst<R>,
    a: &Src<A>,
    b: &Src<B>,
    c: &Src<C>,
    f: impl Fn(A, B, C) -> R + Sync,
) -> Result<(), Error> {
    for dims in [a.dims(), b.dims(), c.dims()] {
        same_dims(out.dims(), dims)?;
    }
    let space = Space::new(out.dims(), [out.strides(), a.strides(), b.strides(), c.strides()]);
    let [out_step, a_step, b_step, c_step] = space.inner();
    pool.split(out.numel(), GRAIN, &|range| {
        space.for_rows(range, &mut |[out_at, a_at, b_at, c_at], len| {
            for k in 0..len as isize {
                // SAFETY: the space walks the elements of all four.
                let a = unsafe { a.first().offset(a_at + k * a_step).read() };
                // SAFETY: as above.
                let b = unsafe { b.first().offset(b_at + k * b_step).read() };
                // SAFETY: as above.
                let c = unsafe { c.first().offset(c_at + k * c_step).read() };
                // SAFETY: as above.
                unsafe { out.first().offset(out_at + k * out_step).write(f(a, b, c)) };
            }
        });
    })
}

/// Whether `is` holds for any element.
pub fn any<T: Value>(a: &Src<T>, is: impl Fn(T) -> bool) -> bool {
    let space = Space::new(a.dims(), [a.strides()]);
    let [step] = space.inner();
    let mut found = false;
    space.for_rows(0..a.numel(), &mut |[at], len| {
        // SAFETY: the space walks the elements of `a`.
        found |= (0..len as isize).any(|k| is(unsafe { a.first().offset(at + k * step).read() }));
    });
    found
}

/// A copy, element by element.
pub fn copy<T: Value>(pool: &dyn Pool, out: &Dst<T>, a: &Src<T>) -> Result<(), Error> {
    map1(pool, out, a, |v| v)
}

/// How a reduction goes: a start, a step for each element in row-major order, and the union of two neighbouring parts.
pub struct Fold<S, Step, Merge> {
    pub start: S,
    pub step: Step,
    pub merge: Merge,
}

/// Reduced elements that one chunk folds; more are folded in parts of this size, whatever the number of threads.
const PART: usize = 1 << 16;
/// Results that are folded side by side where that walks memory in order.
const TILE: usize = 64;
/// Partial folds of a contiguous line, so that a step need not wait for the one before.
const LANES: usize = 8;

/// Folds `a` over `axes`, which are sorted, and hands each result with its number, in row-major order of the kept axes, to
/// `done`.
pub fn reduce<A, S, Step, Merge>(
    pool: &dyn Pool,
    a: &Src<A>,
    axes: &[usize],
    fold: &Fold<S, Step, Merge>,
    done: &(dyn Fn(usize, S) + Sync),
) -> Result<(), Error>
where
    A: Value,
    S: Copy + Send + Sync,
    Step: Fn(S, A) -> S + Sync,
    Merge: Fn(S, S) -> S + Sync,
{
    let pick = |reduced: bool| -> (Dims, Strides) {
        let chosen = (0..a.rank()).filter(|axis| axes.contains(axis) == reduced);
        chosen.map(|axis| (a.dims()[axis], a.strides()[axis])).unzip()
    };
    let (kept_dims, kept_strides) = pick(false);
    let (reduced_dims, reduced_strides) = pick(true);
    let kept = Space::new(&kept_dims, [&kept_strides]);
    let reduced = Space::new(&reduced_dims, [&reduced_strides]);
    let (n_results, n_reduced) = (numel(&kept_dims), numel(&reduced_dims));
    let folding = Folding { a, kept: &kept, reduced: &reduced, fold };

    if n_reduced <= 2 * PART {
        return pool.split(n_results, (GRAIN / n_reduced.max(1)).max(1), &|results| {
            folding.results(results, 0..n_reduced, done);
        });
    }
    // Few long reductions: parts first, merged in order afterwards.
    let n_parts = n_reduced.div_ceil(PART);
    for result in 0..n_results {
        let mut parts = vec![None; n_parts];
        let slots: Vec<_> = parts.iter_mut().map(std::sync::Mutex::new).collect();
        pool.each(n_parts, &|part| {
            let range = part * PART..((part + 1) * PART).min(n_reduced);
            folding.results(result..result + 1, range, &|_, state| {
                if let Ok(mut slot) = slots[part].lock() {
                    **slot = Some(state);
                }
            });
        })?;
        drop(slots);
        done(result, parts.into_iter().flatten().reduce(&fold.merge).unwrap_or(fold.start));
    }
    Ok(())
}

struct Folding<'a, A, S, Step, Merge> {
    a: &'a Src<A>,
    kept: &'a Space<1>,
    reduced: &'a Space<1>,
    fold: &'a Fold<S, Step, Merge>,
}

impl<A, S, Step, Merge> Folding<'_, A, S, Step, Merge>
where
    A: Value,
    S: Copy,
    Step: Fn(S, A) -> S,
    Merge: Fn(S, S) -> S,
{
    /// Folds the elements `part` of each of the results.
    fn results(&self, results: Range<usize>, part: Range<usize>, done: &dyn Fn(usize, S)) {
        let [step] = self.kept.inner();
        let [reduced_step] = self.reduced.inner();
        let side_by_side = step == 1 && reduced_step != 1;
        let mut number = results.start;
        self.kept.for_rows(results, &mut |[at], len| {
            let mut k = 0;
            while k < len {
                let width = if side_by_side { TILE.min(len - k) } else { 1 };
                let place = at + k as isize * step;
                if width == 1 {
                    done(number, self.one(place, part.clone()));
                } else {
                    let states = self.tile(place, width, part.clone());
                    (0..width).for_each(|t| done(number + t, states[t]));
                }
                number += width;
                k += width;
            }
        });
    }

    fn one(&self, place: isize, part: Range<usize>) -> S {
        let Fold { start, step, merge } = self.fold;
        let [stride] = self.reduced.inner();
        let mut state = *start;
        self.reduced.for_rows(part, &mut |[at], len| {
            // SAFETY: the two spaces together walk the elements of `a`.
            let read = |k: usize| unsafe { self.a.first().offset(place + at + k as isize * stride).read() };
            if stride != 1 || len < 2 * LANES {
                state = (0..len).fold(state, |state, k| step(state, read(k)));
                return;
            }
            let mut lanes = [*start; LANES];
            let whole = len / LANES * LANES;
            for base in (0..whole).step_by(LANES) {
                for (lane, state) in lanes.iter_mut().enumerate() {
                    *state = step(*state, read(base + lane));
                }
            }
            let line = lanes.into_iter().reduce(merge).expect("there are lanes");
            let line = (whole..len).fold(line, |state, k| step(state, read(k)));
            state = merge(state, line);
        });
        state
    }

    fn tile(&self, place: isize, width: usize, part: Range<usize>) -> [S; TILE] {
        let mut states = [self.fold.start; TILE];
        let [stride] = self.reduced.inner();
        self.reduced.for_rows(part, &mut |[at], len| {
            for k in 0..len as isize {
                for (t, state) in states[..width].iter_mut().enumerate() {
                    // SAFETY: the two spaces together walk the elements of `a`.
                    let v = unsafe { self.a.first().offset(place + at + k * stride + t as isize).read() };
                    *state = (self.fold.step)(*state, v);
                }
            }
        });
        states
    }
}
