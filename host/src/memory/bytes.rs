//! Owned or mapped bytes with a stable address.

use super::ByteRange;
use super::blocks::Block;
use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

/// Alignment of every allocation.
pub const ALIGN: usize = 64;

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
    Block { block: Block, len: usize },
    File(ByteRange),
    Lent(Bytes),
}

/// Tells whether what was lent is still held.
#[derive(Clone, Debug)]
pub struct Loan(Weak<Owner>);

impl Loan {
    /// Nobody holds it any more, and what its holders did is seen by whoever asks.
    pub fn is_over(&self) -> bool {
        let over = self.0.strong_count() == 0;
        // The last holder's drop was a release.
        fence(Ordering::Acquire);
        over
    }
}

// SAFETY: the bytes are plain memory; who may write them when is the contract in this room's head.
unsafe impl Send for Owner {}
// SAFETY: as above.
unsafe impl Sync for Owner {}

impl Bytes {
    /// Zeroed bytes.
    pub fn zeroed(len: usize) -> Result<Bytes, OutOfMemory> {
        if len >= Block::LEAST {
            let block = Block::zeroed(len).ok_or(OutOfMemory { bytes: len })?;
            return Ok(Bytes(Arc::new(Owner::Block { block, len })));
        }
        // SAFETY: the layout's size is at least 1.
        Bytes::heap(len, |layout| unsafe { std::alloc::alloc_zeroed(layout) })
    }

    /// Bytes for results: what they hold is unspecified, often what was there before, so that memory which is at hand
    /// is not cleared for nothing. Whoever is handed them must write all before any is read.
    pub fn for_results(len: usize) -> Result<Bytes, OutOfMemory> {
        if len >= Block::LEAST {
            let block = Block::recycled(len).ok_or(OutOfMemory { bytes: len })?;
            return Ok(Bytes(Arc::new(Owner::Block { block, len })));
        }
        // SAFETY: the layout's size is at least 1.
        Bytes::heap(len, |layout| unsafe { std::alloc::alloc(layout) })
    }

    fn heap(len: usize, alloc: impl FnOnce(Layout) -> *mut u8) -> Result<Bytes, OutOfMemory> {
        let layout = Layout::from_size_align(len.max(1), ALIGN).map_err(|_| OutOfMemory { bytes: len })?;
        let at = NonNull::new(alloc(layout)).ok_or(OutOfMemory { bytes: len })?;
        Ok(Bytes(Arc::new(Owner::Heap { at, layout, len })))
    }

    /// The same bytes for somebody else, and what tells when he, and whoever he shared them with, is done.
    pub fn lend(&self) -> (Bytes, Loan) {
        let lent = Arc::new(Owner::Lent(self.clone()));
        let loan = Loan(Arc::downgrade(&lent));
        (Bytes(lent), loan)
    }

    /// A copy of `data`.
    pub fn copy_of(data: &[u8]) -> Result<Bytes, OutOfMemory> {
        let bytes = Bytes::for_results(data.len())?;
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
            Owner::Heap { len, .. } | Owner::Block { len, .. } => *len,
            Owner::File(range) => range.len(),
            Owner::Lent(bytes) => bytes.len(),
        }
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Do they belong to a file, so that nothing may write them?
    pub fn is_file(&self) -> bool {
        match &*self.0 {
            Owner::File(_) => true,
            Owner::Lent(bytes) => bytes.is_file(),
            Owner::Heap { .. } | Owner::Block { .. } => false,
        }
    }

    /// Do both share one owner?
    pub fn same(&self, other: &Bytes) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Address of the first byte. Dereferencing it is the caller's unsafe business.
    pub fn addr(&self) -> *mut u8 {
        match &*self.0 {
            Owner::Heap { at, .. } => at.as_ptr(),
            Owner::Block { block, .. } => block.addr(),
            Owner::File(range) => range.as_ptr().cast_mut(),
            Owner::Lent(bytes) => bytes.addr(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_aligned_and_zeroed() {
        for len in [0, 1, 63, 4096, Block::LEAST + 5] {
            let b = Bytes::zeroed(len).expect("a small allocation");
            assert_eq!(b.addr() as usize % ALIGN, 0);
            assert!(b.as_slice().iter().all(|x| *x == 0));
        }
        assert!(Bytes::zeroed(usize::MAX / 2).is_err());
    }

    #[test]
    fn what_is_lent_is_over_when_the_last_holder_is_gone() {
        let own = Bytes::zeroed(64).expect("a small allocation");
        let (lent, loan) = own.lend();
        let other = lent.clone();
        assert!(lent.same(&other) && lent.addr() == own.addr() && lent.len() == 64);
        drop(lent);
        assert!(!loan.is_over());
        drop(other);
        assert!(loan.is_over());
    }
}
