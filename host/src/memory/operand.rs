//! A strided tensor operand inside some bytes: what a step reads or writes.

use super::Bytes;

/// An operand that would leave its bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an operand of dims {dims:?} and strides {strides:?} needs bytes {low}..{high} of {len}")]
pub struct OperandError {
    /// Its dims.
    pub dims: Vec<i64>,
    /// Its strides, in elements.
    pub strides: Vec<i64>,
    /// First byte that it touches.
    pub low: i128,
    /// One past the last.
    pub high: i128,
    /// Length of the bytes.
    pub len: usize,
}

/// Bytes, dims and strides; checked to stay inside.
#[derive(Clone, Debug)]
pub struct Operand {
    bytes: Bytes,
    offset_bytes: usize,
    elem_bytes: usize,
    dims: Vec<i64>,
    strides_elems: Vec<i64>,
}

impl Operand {
    /// An operand at `offset_bytes` (of its first element) in `bytes`.
    pub fn new(
        bytes: Bytes,
        offset_bytes: i64,
        elem_bytes: usize,
        dims: Vec<i64>,
        strides_elems: Vec<i64>,
    ) -> Result<Operand, OperandError> {
        let (low, high) = extent(offset_bytes, elem_bytes, &dims, &strides_elems);
        let inside = low >= 0 && high <= bytes.len() as i128 && dims.len() == strides_elems.len();
        if !inside || dims.iter().any(|d| *d < 0) {
            return Err(OperandError { dims, strides: strides_elems, low, high, len: bytes.len() });
        }
        // An empty operand may be said to start anywhere: views of empty tensors have offsets as others do.
        let offset_bytes = usize::try_from(offset_bytes).unwrap_or(0).min(bytes.len());
        Ok(Operand { bytes, offset_bytes, elem_bytes, dims, strides_elems })
    }

    /// The same operand in other bytes.
    pub fn moved_to(&self, bytes: Bytes, offset_bytes: i64) -> Result<Operand, OperandError> {
        Operand::new(bytes, offset_bytes, self.elem_bytes, self.dims.clone(), self.strides_elems.clone())
    }

    /// The same operand with its bytes as they were lent ([`Bytes::lend`]).
    pub fn lent(self, bytes: Bytes) -> Operand {
        debug_assert!(bytes.addr() == self.bytes.addr() && bytes.len() == self.bytes.len());
        Operand { bytes, ..self }
    }

    /// Address of the first element.
    pub fn addr(&self) -> *mut u8 {
        self.bytes.addr().wrapping_add(self.offset_bytes)
    }

    /// The bytes it lies in.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Bytes of one element.
    pub fn elem_bytes(&self) -> usize {
        self.elem_bytes
    }

    /// Sizes.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// Strides in elements.
    pub fn strides_elems(&self) -> &[i64] {
        &self.strides_elems
    }

    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.dims.iter().map(|d| *d as usize).product()
    }

    /// Dense and row-major?
    pub fn is_contiguous(&self) -> bool {
        is_contiguous(&self.dims, &self.strides_elems)
    }
}

/// First byte touched and one past the last; an empty operand touches none, wherever it is said to start.
fn extent(offset_bytes: i64, elem_bytes: usize, dims: &[i64], strides: &[i64]) -> (i128, i128) {
    let at = i128::from(offset_bytes);
    if dims.contains(&0) {
        return (0, 0);
    }
    let (mut low, mut high) = (at, at);
    for (d, s) in dims.iter().zip(strides) {
        let reach = (i128::from(*d) - 1) * i128::from(*s) * elem_bytes as i128;
        if reach < 0 { low += reach } else { high += reach }
    }
    (low, high + elem_bytes as i128)
}

/// Strides of a dense row-major tensor, in elements.
pub fn contiguous_strides(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for i in (0..dims.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * dims[i + 1].max(1);
    }
    strides
}

/// Dense and row-major? Strides of dims of size 1 do not matter; an empty tensor is.
pub fn is_contiguous(dims: &[i64], strides: &[i64]) -> bool {
    if dims.contains(&0) {
        return true;
    }
    let mut want = 1;
    for (d, s) in dims.iter().zip(strides).rev() {
        if *d != 1 {
            if *s != want {
                return false;
            }
            want *= d;
        }
    }
    true
}
