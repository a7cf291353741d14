//! Typed views of tensors in memory.
//!
//! Invariants: a view exists only where dtype, dims and pointers were checked. A kernel that allowed it may be given an
//! output that lies in an input's memory; then neither side can be had as a slice (an error says so), and
//! [`View::as_cells`], [`ViewMut::as_cells`], `get`, `set`, `iter` and the `map` functions are the ways in. So no safe
//! code can hold a `&[T]` and a `&mut [T]` of one memory.

use super::dtype::{Device, Dtype};
use super::element::Element;
use super::error::Error;
use super::op::ints;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use thunderhead_abi::basic::Items;
use thunderhead_abi::tensor::{TensorView, UNKNOWN, view_flags};

/// Checks a view from the host, so that [`View`] can be made of it without looking again.
///
/// # Safety
/// The view's pointers must be null or readable.
pub(crate) unsafe fn check(raw: &TensorView) -> Result<(), Error> {
    let Some(dtype) = Dtype::from_code(raw.dtype) else {
        return Err(Error::unsupported(format!("dtype {} is not known here", raw.dtype)));
    };
    // SAFETY: passed on.
    let Some(dims) = (unsafe { ints(raw.dims, raw.rank) }) else {
        return Err(Error::invalid("a tensor's dims are missing"));
    };
    let mut empty = false;
    let mut unknown = false;
    for dim in dims {
        empty |= *dim == 0;
        unknown |= *dim < 0;
    }
    if raw.data.is_null() && !empty && !unknown {
        return Err(Error::invalid(format!("a tensor of dims {dims:?} has no memory")));
    }
    let address = (raw.data as usize).wrapping_add(raw.byte_offset as usize);
    if !address.is_multiple_of(align_of(dtype)) {
        return Err(Error::invalid(format!("a tensor of {dtype} is not aligned to its elements")));
    }
    Ok(())
}

fn align_of(dtype: Dtype) -> usize {
    match dtype {
        Dtype::C64 => 4,
        Dtype::C128 => 8,
        other => other.size_bytes(),
    }
}

/// A tensor that may be read.
#[derive(Clone, Copy)]
pub struct View<'a> {
    raw: &'a TensorView,
    /// Whom it must not be seen as a slice beside.
    outputs: Items<'a, TensorView>,
}

/// A tensor that is to be written. What it holds before is undefined, unless it shares an input's memory.
pub struct ViewMut<'a> {
    raw: &'a TensorView,
    inputs: Items<'a, TensorView>,
}

macro_rules! shape_methods {
    ($lifetime:lifetime) => {
        /// Element type.
        #[inline]
        pub fn dtype(&self) -> Dtype {
            Dtype::from_code(self.raw.dtype).expect("checked when the view was made")
        }

        /// Where it lives.
        pub fn device(&self) -> Device {
            Device { kind: self.raw.device_kind, index: self.raw.device_index }
        }

        /// Its dims.
        #[inline]
        pub fn dims(&self) -> &$lifetime [i64] {
            // SAFETY: checked when the view was made; lives as long as the view.
            unsafe { ints(self.raw.dims, self.raw.rank) }.expect("checked when the view was made")
        }

        /// Number of dims.
        #[inline]
        pub fn rank(&self) -> usize {
            self.raw.rank as usize
        }

        /// Number of elements; 0 for an output that is yet to be allocated.
        #[inline]
        pub fn numel(&self) -> usize {
            self.dims().iter().map(|dim| (*dim).max(0) as usize).product()
        }

        /// Strides in elements; `None` for a tensor that is dense row-major and says so by leaving them out.
        #[inline]
        pub fn raw_strides(&self) -> Option<&$lifetime [i64]> {
            if self.raw.strides.is_null() {
                return None;
            }
            // SAFETY: `rank` strides where not null, as the host has filled it in.
            unsafe { ints(self.raw.strides, self.raw.rank) }
        }

        /// Strides in elements.
        pub fn strides_elems(&self) -> Vec<i64> {
            self.raw_strides().map_or_else(|| dense_strides(self.dims()), <[i64]>::to_vec)
        }

        /// Whether it is dense row-major.
        #[inline]
        pub fn is_contiguous(&self) -> bool {
            self.raw.flags & view_flags::CONTIGUOUS != 0
                || self.raw.strides.is_null()
                || self.raw_strides().is_some_and(|strides| are_dense(self.dims(), strides))
        }

        /// Id and version, for a parameter, buffer or constant.
        pub fn constant(&self) -> Option<(u64, u64)> {
            (self.raw.constant_id != 0).then_some((self.raw.constant_id, self.raw.constant_version))
        }

        /// The view as it crossed, for libraries that take pointers.
        pub fn raw(&self) -> &$lifetime TensorView {
            self.raw
        }

        #[inline]
        fn start(&self) -> *mut u8 {
            self.raw.data.wrapping_add(self.raw.byte_offset as usize)
        }

        fn must_be<T: Element>(&self) -> Result<(), Error> {
            let found = self.dtype();
            if found == T::DTYPE {
                Ok(())
            } else {
                Err(Error::invalid(format!("the tensor is {found}; the kernel reads {}", T::DTYPE)))
            }
        }

        fn must_be_dense(&self) -> Result<(), Error> {
            if self.is_contiguous() {
                Ok(())
            } else {
                Err(Error::invalid(format!(
                    "dims {:?} with strides {:?} are no slice; ask for layout = \"contiguous\" in the manifest, or use `iter`",
                    self.dims(),
                    self.strides_elems()
                )))
            }
        }

        /// Elements in row-major order, whatever the strides.
        pub fn iter<T: Element>(&self) -> Result<Iter<'_, T>, Error> {
            self.must_be::<T>()?;
            Ok(Iter::new(self.start().cast(), self.dims(), self.raw_strides()))
        }

        /// The element at `index`, one position a dim.
        pub fn get<T: Element>(&self, index: &[i64]) -> Result<T, Error> {
            self.must_be::<T>()?;
            let offset = offset_of(self.dims(), self.raw_strides(), index)?;
            // SAFETY: `offset` is that of an element of the tensor.
            let place = unsafe { self.start().cast::<T::Raw>().offset(offset) };
            // SAFETY: readable and aligned; initialised, as all memory of the host is.
            Ok(T::from_raw(unsafe { place.read() }))
        }

        /// Elements by offset, for kernels that walk several tensors with [`Walk`](super::walk::Walk).
        pub fn elements<T: Element>(&self) -> Result<Elements<'_, T>, Error> {
            self.must_be::<T>()?;
            let (lo, hi) = extent(self.dims(), self.raw_strides());
            Ok(Elements { start: self.start().cast(), lo, hi, of: PhantomData })
        }

        /// A dense tensor as cells: what a kernel that allows sharing reads from and writes to.
        pub fn as_cells<T: Element<Raw = T>>(&self) -> Result<&$lifetime [Cell<T>], Error> {
            self.must_be::<T>()?;
            self.must_be_dense()?;
            // SAFETY: dense, aligned, initialised; cells may be shared with each other, and no slice of this memory
            // can be had while an output and an input share it.
            Ok(unsafe { dense(self.start().cast::<Cell<T>>(), self.numel()) })
        }
    };
}

impl<'a> View<'a> {
    pub(crate) fn new(raw: &'a TensorView, outputs: Items<'a, TensorView>) -> View<'a> {
        View { raw, outputs }
    }

    shape_methods! {'a}

    /// The first element, for libraries that take pointers.
    pub fn data_ptr(&self) -> *const u8 {
        self.start()
    }

    fn must_be_unshared(&self) -> Result<(), Error> {
        if self.numel() > 0 && self.outputs.iter().any(|output| start_of(output) == self.start()) {
            return Err(Error::invalid(
                "this input shares its memory with an output, as the kernel's `in_place` allows; use `as_cells` or `map`",
            ));
        }
        Ok(())
    }

    /// The elements of a dense tensor.
    ///
    /// Errors: another dtype, gaps between elements, or memory shared with an output. For `bool` each byte is looked at; [`Bool`](super::element::Bool) saves
    /// that.
    pub fn as_slice<T: Element>(&self) -> Result<&'a [T], Error> {
        self.must_be::<T>()?;
        self.must_be_dense()?;
        self.must_be_unshared()?;
        // SAFETY: dense, aligned, initialised, and nobody writes it while `'a` lasts.
        let raw = unsafe { dense(self.start().cast_const().cast::<T::Raw>(), self.numel()) };
        if !T::all_valid(raw) {
            return Err(Error::invalid("a bool tensor holds bytes other than 0 and 1"));
        }
        // SAFETY: `T` has the size and alignment of `T::Raw`, and all are values of it.
        Ok(unsafe { std::slice::from_raw_parts(raw.as_ptr().cast::<T>(), raw.len()) })
    }

    /// The bytes of a dense tensor of any dtype.
    pub fn as_bytes(&self) -> Result<&'a [u8], Error> {
        self.must_be_dense()?;
        self.must_be_unshared()?;
        // SAFETY: as in `as_slice`; bytes are always values.
        Ok(unsafe { dense(self.start().cast_const(), self.numel() * self.dtype().size_bytes()) })
    }
}

impl<'a> ViewMut<'a> {
    pub(crate) fn new(raw: &'a TensorView, inputs: Items<'a, TensorView>) -> ViewMut<'a> {
        ViewMut { raw, inputs }
    }

    shape_methods! {'a}

    /// The first element, for libraries that take pointers. Null while the kernel has not called `alloc_output`.
    pub fn data_ptr(&mut self) -> *mut u8 {
        self.start()
    }

    /// Whether the memory is an input's.
    pub fn is_shared(&self) -> bool {
        self.numel() > 0 && self.inputs.iter().any(|input| start_of(input) == self.start())
    }

    fn must_be_unshared(&self) -> Result<(), Error> {
        if self.is_shared() {
            return Err(Error::invalid(
                "this output shares its memory with an input, as the kernel's `in_place` allows; use `as_cells` or `map`",
            ));
        }
        Ok(())
    }

    /// The elements of a dense tensor.
    ///
    /// Errors: another dtype, gaps between elements, or memory shared with an input. For `bool` each byte is set to a value first;
    /// [`Bool`](super::element::Bool) saves that.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], Error> {
        self.must_be::<T>()?;
        self.must_be_dense()?;
        self.must_be_unshared()?;
        // SAFETY: dense, aligned, initialised; outputs never overlap, and this view is borrowed for as long.
        let raw = unsafe { dense_mut(self.start().cast::<T::Raw>(), self.numel()) };
        T::make_valid(raw);
        // SAFETY: `T` has the size and alignment of `T::Raw`, and all are values of it.
        Ok(unsafe { std::slice::from_raw_parts_mut(raw.as_mut_ptr().cast::<T>(), raw.len()) })
    }

    /// As [`ViewMut::as_mut_slice`], for as long as the call lasts.
    pub fn into_mut_slice<T: Element>(mut self) -> Result<&'a mut [T], Error> {
        let slice: *mut [T] = self.as_mut_slice()?;
        // SAFETY: the view was unique for `'a` and is used up.
        Ok(unsafe { &mut *slice })
    }

    /// The bytes of a dense tensor of any dtype.
    pub fn as_mut_bytes(&mut self) -> Result<&mut [u8], Error> {
        self.must_be_dense()?;
        self.must_be_unshared()?;
        // SAFETY: as in `as_mut_slice`; bytes are always values.
        Ok(unsafe { dense_mut(self.start(), self.numel() * self.dtype().size_bytes()) })
    }

    /// Writes the element at `index`, one position a dim.
    pub fn set<T: Element>(&mut self, index: &[i64], value: T) -> Result<(), Error> {
        self.must_be::<T>()?;
        let offset = offset_of(self.dims(), self.raw_strides(), index)?;
        // SAFETY: `offset` is that of an element of the tensor.
        let place = unsafe { self.start().cast::<T>().offset(offset) };
        // SAFETY: writable and aligned; no slice of this memory is alive, since this view is borrowed.
        unsafe { place.write(value) };
        Ok(())
    }

    /// Writes elements in row-major order, whatever the strides, as long as `values` has some.
    pub fn write<T: Element>(&mut self, values: impl IntoIterator<Item = T>) -> Result<(), Error> {
        self.must_be::<T>()?;
        let mut places = Offsets::new(self.dims(), self.raw_strides());
        let start = self.start().cast::<T>();
        for value in values {
            let Some(offset) = places.next() else { break };
            // SAFETY: an element of the tensor.
            let place = unsafe { start.offset(offset) };
            // SAFETY: as in `set`.
            unsafe { place.write(value) };
        }
        Ok(())
    }

    /// Writes `value` everywhere.
    pub fn fill<T: Element>(&mut self, value: T) -> Result<(), Error> {
        self.write(std::iter::repeat_n(value, self.numel()))
    }

    /// `self[i] = f(x[i])` for tensors of the same dims, whatever the strides; `x` may lie in this output's memory.
    pub fn map<X: Element, Y: Element>(&mut self, x: &View<'_>, f: impl Fn(X) -> Y) -> Result<(), Error> {
        self.must_be::<Y>()?;
        x.must_be::<X>()?;
        same_dims(self.dims(), x.dims())?;
        let (from, to) = (x.start().cast::<X::Raw>(), self.start().cast::<Y>());
        if self.is_contiguous() && x.is_contiguous() {
            for idx in 0..self.numel() {
                // SAFETY: both are dense and have that many elements; each is read before it is written.
                unsafe { to.add(idx).write(f(X::from_raw(from.add(idx).read()))) };
            }
            return Ok(());
        }
        let mut places = Offsets::new(self.dims(), self.raw_strides());
        for offset in Offsets::new(x.dims(), x.raw_strides()) {
            let place = places.next().expect("same dims");
            // SAFETY: elements of the tensors; each is read before it is written.
            unsafe { to.offset(place).write(f(X::from_raw(from.offset(offset).read()))) };
        }
        Ok(())
    }

    /// Elements by offset, to be written by kernels that walk several tensors with [`Walk`](super::walk::Walk).
    pub fn elements_mut<T: Element>(&mut self) -> Result<ElementsMut<'_, T>, Error> {
        self.must_be::<T>()?;
        let (lo, hi) = extent(self.dims(), self.raw_strides());
        Ok(ElementsMut { start: self.start().cast(), lo, hi, of: PhantomData })
    }
}

fn same_dims(a: &[i64], b: &[i64]) -> Result<(), Error> {
    if a == b { Ok(()) } else { Err(Error::invalid(format!("dims {a:?} and {b:?} differ"))) }
}

fn start_of(view: &TensorView) -> *mut u8 {
    view.data.wrapping_add(view.byte_offset as usize)
}

/// # Safety
/// `ptr` has `len` elements, readable for `'a`, or `len` is 0.
unsafe fn dense<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: passed on.
    unsafe { std::slice::from_raw_parts(ptr, len) }
}

/// # Safety
/// `ptr` has `len` elements, this caller's alone for `'a`, or `len` is 0.
unsafe fn dense_mut<'a, T>(ptr: *mut T, len: usize) -> &'a mut [T] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: passed on.
    unsafe { std::slice::from_raw_parts_mut(ptr, len) }
}

/// The strides of a dense row-major tensor.
pub fn dense_strides(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for dim in (1..dims.len()).rev() {
        strides[dim - 1] = strides[dim] * dims[dim].max(1);
    }
    strides
}

fn are_dense(dims: &[i64], strides: &[i64]) -> bool {
    if dims.contains(&0) {
        return true;
    }
    let mut expected = 1;
    dims.iter().zip(strides).rev().all(|(dim, stride)| {
        let fits = *dim == 1 || *stride == expected;
        expected *= dim;
        fits
    })
}

/// The strides of dim `dim` where none are given: the product of the dims behind it.
fn dense_stride(dims: &[i64], dim: usize) -> i64 {
    dims[dim + 1..].iter().map(|dim| (*dim).max(1)).product()
}

fn offset_of(dims: &[i64], strides: Option<&[i64]>, index: &[i64]) -> Result<isize, Error> {
    let inside = index.len() == dims.len() && index.iter().zip(dims).all(|(at, dim)| (0..*dim).contains(at));
    if !inside {
        return Err(Error::invalid(format!("index {index:?} is outside dims {dims:?}")));
    }
    let stride = |dim: usize| strides.map_or_else(|| dense_stride(dims, dim), |strides| strides[dim]);
    Ok(index.iter().enumerate().map(|(dim, at)| at * stride(dim)).sum::<i64>() as isize)
}

/// Least and greatest offset of an element; an empty tensor has none (`lo > hi`).
fn extent(dims: &[i64], strides: Option<&[i64]>) -> (i64, i64) {
    if dims.iter().any(|dim| *dim <= 0 || *dim == UNKNOWN) {
        return (0, -1);
    }
    let stride = |dim: usize| strides.map_or_else(|| dense_stride(dims, dim), |strides| strides[dim]);
    dims.iter().enumerate().fold((0, 0), |(lo, hi), (dim, size)| {
        let reach = (size - 1) * stride(dim);
        (lo + reach.min(0), hi + reach.max(0))
    })
}

/// Offsets of the elements of one tensor in row-major order.
struct Offsets<'a> {
    dims: &'a [i64],
    strides: Option<&'a [i64]>,
    index: Vec<i64>,
    offset: isize,
    left: usize,
}

impl<'a> Offsets<'a> {
    fn new(dims: &'a [i64], strides: Option<&'a [i64]>) -> Offsets<'a> {
        let left = dims.iter().map(|dim| (*dim).max(0) as usize).product();
        // A dense tensor needs no odometer.
        let strides = strides.filter(|strides| !are_dense(dims, strides));
        let index = if strides.is_some() { vec![0; dims.len()] } else { Vec::new() };
        Offsets { dims, strides, index, offset: 0, left }
    }
}

impl Iterator for Offsets<'_> {
    type Item = isize;

    #[inline]
    fn next(&mut self) -> Option<isize> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let here = self.offset;
        let Some(strides) = self.strides else {
            self.offset += 1;
            return Some(here);
        };
        for dim in (0..self.dims.len()).rev() {
            self.index[dim] += 1;
            self.offset += strides[dim] as isize;
            if self.index[dim] < self.dims[dim] {
                break;
            }
            self.offset -= (self.dims[dim] * strides[dim]) as isize;
            self.index[dim] = 0;
        }
        Some(here)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// Elements in row-major order.
pub struct Iter<'a, T: Element> {
    start: *const T::Raw,
    offsets: Offsets<'a>,
}

impl<'a, T: Element> Iter<'a, T> {
    fn new(start: *const T::Raw, dims: &'a [i64], strides: Option<&'a [i64]>) -> Self {
        Iter { start, offsets: Offsets::new(dims, strides) }
    }
}

impl<T: Element> Iterator for Iter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        let offset = self.offsets.next()?;
        // SAFETY: an element of the tensor.
        let place = unsafe { self.start.offset(offset) };
        // SAFETY: readable, aligned, initialised.
        Some(T::from_raw(unsafe { place.read() }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.offsets.size_hint()
    }
}

impl<T: Element> ExactSizeIterator for Iter<'_, T> {}

/// Elements of a tensor by their offset in elements from its first one.
#[derive(Clone, Copy)]
pub struct Elements<'a, T: Element> {
    start: *const T::Raw,
    lo: i64,
    hi: i64,
    of: PhantomData<&'a T>,
}

// SAFETY: reads only; nobody has a slice to write of memory that is shared.
unsafe impl<T: Element> Send for Elements<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Element> Sync for Elements<'_, T> {}

impl<T: Element> Elements<'_, T> {
    /// The element at `offset`. Panics outside the tensor's extent.
    #[inline]
    pub fn at(&self, offset: i64) -> T {
        assert!(offset >= self.lo && offset <= self.hi, "offset {offset} is outside the tensor");
        // SAFETY: between the least and the greatest element, so inside the tensor's storage.
        let place = unsafe { self.start.offset(offset as isize) };
        // SAFETY: readable, aligned, initialised.
        T::from_raw(unsafe { place.read() })
    }
}

/// Elements of an output by their offset in elements from its first one.
pub struct ElementsMut<'a, T: Element> {
    start: *mut T,
    lo: i64,
    hi: i64,
    of: PhantomData<&'a mut T>,
}

impl<T: Element> ElementsMut<'_, T> {
    /// The element at `offset`. Panics outside the tensor's extent.
    #[inline]
    pub fn at(&self, offset: i64) -> T {
        assert!(offset >= self.lo && offset <= self.hi, "offset {offset} is outside the tensor");
        // SAFETY: between the least and the greatest element, so inside the tensor's storage.
        let place = unsafe { self.start.cast::<T::Raw>().offset(offset as isize) };
        // SAFETY: readable, aligned, initialised.
        T::from_raw(unsafe { place.read() })
    }

    /// Writes the element at `offset`, which must be that of an element of the output. Panics outside its extent.
    #[inline]
    pub fn set(&mut self, offset: i64, value: T) {
        assert!(offset >= self.lo && offset <= self.hi, "offset {offset} is outside the tensor");
        // SAFETY: between the least and the greatest element, so inside the tensor's storage.
        let place = unsafe { self.start.offset(offset as isize) };
        // SAFETY: writable, aligned.
        unsafe { place.write(value) };
    }
}

macro_rules! debug_view {
    ($($view:ident)*) => {$(
        impl fmt::Debug for $view<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{:?}", self.dtype(), self.dims())
            }
        }
    )*};
}
debug_view! { View ViewMut }
