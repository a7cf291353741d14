//! Owned or mapped bytes with a stable address.

use super::ByteRange;
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of every allocation.
pub const ALIGN: usize = 64;
/// From this size on allocations are aligned to huge pages and ask the kernel for them: a first touch of a 4 KiB page
/// costs more than most kernels do on it.
const HUGE: usize = 2 << 20;

/// An allocation that the system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of memory: {bytes} bytes were asked for")]
pub struct OutOfMemory {
    /// How many.
    pub bytes: usize,
}

/// Shared bytes. Cloning shares; the address never changes while any clone lives.
#[derive(Clone, Debug)]
pub struct Bytes(Arc<Owner>);

#[derive(Debug)]
enum Owner {
    Heap { at: NonNull<u8>, layout: Layout, len: usize },
    File(ByteRange),
}

// SAFETY: the bytes are plain memory; who may write them when is the contract in this room's head.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Bytes {
    /// Zeroed bytes.
    pub fn zeroed(len: usize) -> Result<Bytes, OutOfMemory> {
        let align = if len >= HUGE { HUGE } else { ALIGN };
        let layout = Layout::from_size_align(len.max(1), align).map_err(|_| OutOfMemory { bytes: len })?;
        // SAFETY: the layout's size is at least 1.
        let at = unsafe { std::alloc::alloc_zeroed(layout) };
        let at = NonNull::new(at).ok_or(OutOfMemory { bytes: len })?;
        if len >= HUGE {
            advise_huge(at, len);
        }
        Ok(Bytes(Arc::new(Owner::Heap { at, layout, len })))
    }

    /// A copy of `data`.
    pub fn copy_of(data: &[u8]) -> Result<Bytes, OutOfMemory> {
        let bytes = Bytes::zeroed(data.len())?;
        // SAFETY: freshly allocated, as long as `data`, and nobody else knows it yet.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), bytes.addr(), data.len()) };
        Ok(bytes)
    }

    /// A part of a file, mapped or read; never written.
    pub fn of_file(range: ByteRange) -> Bytes {
        Bytes(Arc::new(Owner::File(range)))
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        match &*self.0 {
            Owner::Heap { len, .. } => *len,
            Owner::File(range) => range.len(),
        }
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Do they belong to a file, so that nothing may write them?
    pub fn is_file(&self) -> bool {
        matches!(&*self.0, Owner::File(_))
    }

    /// How many share these bytes.
    pub fn sharers(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Do both share one owner?
    pub fn same(&self, other: &Bytes) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Address of the first byte. Dereferencing it is the caller's unsafe business.
    pub fn addr(&self) -> *mut u8 {
        match &*self.0 {
            Owner::Heap { at, .. } => at.as_ptr(),
            Owner::File(range) => range.as_ptr().cast_mut(),
        }
    }

    /// The bytes, to read.
    ///
    /// Only for bytes that nothing writes while the slice lives: tensors of users, mapped files.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: valid for `len` as long as `self`; callers keep the contract above.
        unsafe { std::slice::from_raw_parts(self.addr(), self.len()) }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Owner::Heap { at, layout, .. } = self {
            // SAFETY: allocated with this layout, and this is the last owner.
            unsafe { std::alloc::dealloc(at.as_ptr(), *layout) };
        }
    }
}

#[cfg(target_os = "linux")]
fn advise_huge(at: NonNull<u8>, len: usize) {
    // SAFETY: the range was just allocated; advice changes no content. A refusal is harmless.
    unsafe { libc::madvise(at.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise_huge(_: NonNull<u8>, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_aligned_and_zeroed() {
        for len in [0, 1, 63, 4096, HUGE + 5] {
            let b = Bytes::zeroed(len).expect("a small allocation");
            assert_eq!(b.addr() as usize % ALIGN, 0);
            assert!(b.as_slice().iter().all(|x| *x == 0));
        }
        assert!(Bytes::zeroed(usize::MAX / 2).is_err());
    }
}
