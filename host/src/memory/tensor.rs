//! Tensors as users see them.

use super::operand::{Operand, OperandError, contiguous_strides, is_contiguous};
use super::{Bytes, Element, OutOfMemory, copy_operand};
use crate::ir::Dtype;

/// A tensor that cannot be made or read as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The element type differs.
    #[error("the tensor is {found}, {wanted} was wanted")]
    Dtype {
        /// What it is.
        found: Dtype,
        /// What was asked for.
        wanted: Dtype,
    },
    /// Number of elements and dims disagree.
    #[error("{found} elements were given for dims {dims:?}")]
    Length {
        /// Elements given.
        found: usize,
        /// The dims.
        dims: Vec<i64>,
    },
    /// It would leave its memory.
    #[error(transparent)]
    Bounds(#[from] OperandError),
    /// No memory.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

/// A tensor: shared bytes, dtype, dims and strides. Cloning shares the bytes; nothing writes them while it is shared.
#[derive(Clone, Debug)]
pub struct Tensor {
    dtype: Dtype,
    operand: Operand,
}

impl Tensor {
    /// A dense tensor of these elements, row-major.
    pub fn from_slice<T: Element>(data: &[T], dims: &[i64]) -> Result<Tensor, TensorError> {
        let n = checked_numel(dims);
        if n != Some(data.len()) {
            return Err(TensorError::Length { found: data.len(), dims: dims.to_vec() });
        }
        // SAFETY: elements are plain data, and `u8` has no alignment.
        let raw =
            unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), std::mem::size_of_val(data)) };
        Tensor::from_bytes(T::DTYPE, dims, raw)
    }

    /// A dense tensor of these raw little-endian bytes, row-major.
    pub fn from_bytes(dtype: Dtype, dims: &[i64], raw: &[u8]) -> Result<Tensor, TensorError> {
        let wanted = checked_numel(dims).and_then(|n| n.checked_mul(dtype.size_bytes()));
        if wanted != Some(raw.len()) {
            return Err(TensorError::Length { found: raw.len() / dtype.size_bytes(), dims: dims.to_vec() });
        }
        Tensor::over(Bytes::copy_of(raw)?, dtype, dims.to_vec(), contiguous_strides(dims), 0)
    }

    /// A dense tensor of zeros.
    pub fn zeros(dtype: Dtype, dims: &[i64]) -> Result<Tensor, TensorError> {
        Tensor::dense(dtype, dims, Bytes::zeroed)
    }

    /// A dense tensor of unspecified content, to be written whole before it is read.
    pub fn for_results(dtype: Dtype, dims: &[i64]) -> Result<Tensor, TensorError> {
        Tensor::dense(dtype, dims, Bytes::for_results)
    }

    fn dense(
        dtype: Dtype,
        dims: &[i64],
        bytes: fn(usize) -> Result<Bytes, OutOfMemory>,
    ) -> Result<Tensor, TensorError> {
        let too_large = || TensorError::Memory(OutOfMemory { bytes: usize::MAX });
        let n = checked_numel(dims).and_then(|n| n.checked_mul(dtype.size_bytes())).ok_or_else(too_large)?;
        Tensor::over(bytes(n)?, dtype, dims.to_vec(), contiguous_strides(dims), 0)
    }

    /// A tensor over bytes that exist.
    pub fn over(
        bytes: Bytes,
        dtype: Dtype,
        dims: Vec<i64>,
        strides_elems: Vec<i64>,
        offset_elems: i64,
    ) -> Result<Tensor, TensorError> {
        let size = dtype.size_bytes();
        let offset = offset_elems.saturating_mul(size as i64);
        Ok(Tensor { dtype, operand: Operand::new(bytes, offset, size, dims, strides_elems)? })
    }

    /// The tensor of that operand.
    pub fn of_operand(dtype: Dtype, operand: Operand) -> Tensor {
        debug_assert_eq!(dtype.size_bytes(), operand.elem_bytes());
        Tensor { dtype, operand }
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Sizes.
    pub fn dims(&self) -> &[i64] {
        self.operand.dims()
    }

    /// Strides in elements.
    pub fn strides_elems(&self) -> &[i64] {
        self.operand.strides_elems()
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.operand.numel()
    }

    /// As a step sees it.
    pub fn operand(&self) -> &Operand {
        &self.operand
    }

    /// Dense and row-major?
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(self.dims(), self.strides_elems())
    }

    /// Itself where it is dense, else a dense copy.
    pub fn contiguous(&self) -> Result<Tensor, TensorError> {
        if self.is_contiguous() { Ok(self.clone()) } else { self.to_owned_copy() }
    }

    /// A dense copy that shares nothing.
    pub fn to_owned_copy(&self) -> Result<Tensor, TensorError> {
        let copy = Tensor::for_results(self.dtype, self.dims())?;
        copy_operand(&copy.operand, &self.operand);
        Ok(copy)
    }

    /// The elements in row-major order.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, TensorError> {
        if T::DTYPE != self.dtype {
            return Err(TensorError::Dtype { found: self.dtype, wanted: T::DTYPE });
        }
        let raw = self.to_bytes()?;
        let mut out = Vec::<T>::with_capacity(self.numel());
        let bools_are_valid = self.dtype != Dtype::Bool || raw.iter().all(|b| *b < 2);
        if !bools_are_valid {
            return Err(TensorError::Dtype { found: Dtype::U8, wanted: Dtype::Bool });
        }
        // SAFETY: `raw` holds `numel` elements; every bit pattern is valid (bools were checked); capacity suffices.
        unsafe {
            std::ptr::copy_nonoverlapping(raw.as_ptr(), out.as_mut_ptr().cast::<u8>(), raw.len());
            out.set_len(self.numel());
        }
        Ok(out)
    }

    /// The raw bytes of the elements in row-major order.
    pub fn to_bytes(&self) -> Result<Vec<u8>, TensorError> {
        let dense = self.contiguous()?;
        Ok(dense.as_bytes().unwrap_or_default().to_vec())
    }

    /// The raw bytes of the elements where they lie, if that is in row-major order with nothing between them.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        let n = self.numel() * self.dtype.size_bytes();
        match n {
            _ if !self.is_contiguous() => None,
            0 => Some(&[]),
            // SAFETY: a dense operand's bytes stay inside its owner, and nothing writes a tensor that users hold.
            n => Some(unsafe { std::slice::from_raw_parts(self.operand.addr(), n) }),
        }
    }
}

/// Number of elements; none where it overflows or a dim is negative.
pub fn checked_numel(dims: &[i64]) -> Option<usize> {
    dims.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?))
}
