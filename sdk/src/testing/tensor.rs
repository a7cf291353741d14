//! A tensor that a test owns.

use crate::{Dtype, Element, dense_strides};
use thunderhead_abi::dtype::DEVICE_CPU;
use thunderhead_abi::tensor::{TensorView, view_flags};

/// Memory of 64-byte alignment.
#[derive(Clone)]
pub(super) struct Memory {
    lines: Vec<Line>,
    bytes: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Memory {
    pub fn new(bytes: usize, fill: u8) -> Memory {
        Memory { lines: vec![Line([fill; 64]); bytes.div_ceil(64)], bytes }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the lines are plain bytes, at least `bytes` of them.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.bytes) }
    }

    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }
}

/// A tensor that a test owns: dense, or with strides into its memory.
#[derive(Clone)]
pub struct Tensor {
    pub(super) dtype: Dtype,
    pub(super) dims: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) offset_elems: usize,
    pub(super) memory: Memory,
    pub(super) constant: Option<(u64, u64)>,
}

impl Tensor {
    /// A dense tensor of `values`. Panics where their number is not the product of the dims.
    pub fn new<T: Element>(dims: &[i64], values: Vec<T>) -> Tensor {
        let numel: i64 = dims.iter().product();
        assert_eq!(values.len() as i64, numel, "one value an element of {dims:?}");
        let mut tensor = Tensor::filled(T::DTYPE, dims, 0);
        let to = tensor.memory.as_mut_ptr().cast::<T>();
        // SAFETY: the memory has room for `numel` elements, is aligned, and no part of it is borrowed.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) };
        tensor
    }

    /// A dense tensor of bytes, for dtypes without a Rust type. Panics where the length does not fit.
    pub fn from_bytes(dtype: Dtype, dims: &[i64], bytes: &[u8]) -> Tensor {
        let mut tensor = Tensor::filled(dtype, dims, 0);
        tensor.memory.bytes_mut().copy_from_slice(bytes);
        tensor
    }

    /// A dense tensor each of whose bytes is `fill`.
    pub fn filled(dtype: Dtype, dims: &[i64], fill: u8) -> Tensor {
        let numel: i64 = dims.iter().product();
        Tensor {
            dtype,
            dims: dims.to_vec(),
            strides: dense_strides(dims),
            offset_elems: 0,
            memory: Memory::new(numel as usize * dtype.size_bytes(), fill),
            constant: None,
        }
    }

    /// The same memory seen with other dims and strides, the first element at `offset_elems`. Panics where that reaches outside.
    pub fn strided(mut self, dims: &[i64], strides: &[i64], offset_elems: usize) -> Tensor {
        assert_eq!(dims.len(), strides.len(), "one stride a dim");
        let reach = |positive: bool| -> i64 {
            let steps = dims.iter().zip(strides).map(|(dim, stride)| (dim - 1).max(0) * stride);
            steps.filter(|step| (*step > 0) == positive).sum()
        };
        let elems = (self.memory.bytes().len() / self.dtype.size_bytes()) as i64;
        let empty = dims.contains(&0);
        let inside = offset_elems as i64 + reach(false) >= 0 && offset_elems as i64 + reach(true) < elems;
        assert!(empty || inside, "dims {dims:?} with strides {strides:?} reach outside {elems} elements");
        self.dims = dims.to_vec();
        self.strides = strides.to_vec();
        self.offset_elems = offset_elems;
        self
    }

    /// The first two dims of the given numbers exchanged, as a view.
    pub fn transposed(self, a: usize, b: usize) -> Tensor {
        let (mut dims, mut strides) = (self.dims.clone(), self.strides.clone());
        dims.swap(a, b);
        strides.swap(a, b);
        let offset_elems = self.offset_elems;
        self.strided(&dims, &strides, offset_elems)
    }

    /// Makes it a constant with an id and a version: its data is readable when a kernel is made.
    pub fn constant(mut self, id: u64, version: u64) -> Tensor {
        self.constant = Some((id, version));
        self
    }

    /// Its dtype.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Its dims.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// Its elements in row-major order. Panics where `T` is not its dtype's type.
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        let raw = self.raw();
        let view = crate::View::new(&raw, no_tensors());
        view.iter().expect("the test reads the tensor as its dtype").collect()
    }

    /// The bytes of its memory (of a dense tensor: of its elements).
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    pub(super) fn is_dense(&self) -> bool {
        self.offset_elems == 0 && self.strides == dense_strides(&self.dims)
    }

    /// The tensor as it would cross, borrowed.
    #[cfg(test)]
    pub(crate) fn raw_view(&self) -> TensorView {
        self.raw()
    }

    pub(super) fn raw(&self) -> TensorView {
        let dense = self.is_dense();
        let start = self.memory.bytes().as_ptr().cast_mut();
        TensorView {
            data: start.wrapping_add(self.offset_elems * self.dtype.size_bytes()),
            byte_offset: 0,
            dtype: self.dtype.code(),
            device_kind: DEVICE_CPU,
            device_index: 0,
            rank: self.dims.len() as u32,
            dims: self.dims.as_ptr(),
            strides: self.strides.as_ptr(),
            flags: if dense { view_flags::CONTIGUOUS } else { 0 },
            constant_id: self.constant.map_or(0, |(id, _)| id),
            constant_version: self.constant.map_or(0, |(_, version)| version),
            owner: std::ptr::null_mut(),
            retain: None,
            release: None,
        }
    }
}

pub(super) fn no_tensors<'a>() -> thunderhead_abi::basic::Items<'a, TensorView> {
    // SAFETY: of no elements nothing is read.
    unsafe { thunderhead_abi::basic::Array::EMPTY.items() }.expect("an empty array is in order")
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.dims)
    }
}
