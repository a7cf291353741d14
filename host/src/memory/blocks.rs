//! Large blocks of memory, straight from the system, and those that were given back a moment ago.
//!
//! The first touch of fresh memory costs more than most kernels do on it: pages come one by one, each cleared. So large
//! blocks ask for huge pages, and one that is given back is kept for the next result of about its size. What is kept is
//! bounded, the oldest goes first, and the system gets back whatever is larger than the bound.

use memmap2::MmapMut;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Blocks begin where huge pages do.
const HUGE: usize = 2 << 20;
/// Bytes that are kept at most.
const MOST_KEPT: usize = 256 << 20;

/// Memory of its own, from the system.
#[derive(Debug)]
pub struct Block(Option<Mapped>);

#[derive(Debug)]
struct Mapped {
    at: NonNull<u8>,
    capacity: usize,
    _map: MmapMut,
}

// SAFETY: it owns plain memory.
unsafe impl Send for Mapped {}
// SAFETY: as above; nothing here reads or writes it.
unsafe impl Sync for Mapped {}

/// Given back, the oldest first.
static KEPT: Mutex<VecDeque<Mapped>> = Mutex::new(VecDeque::new());

impl Block {
    /// Smaller ones are the allocator's business.
    pub const LEAST: usize = HUGE;

    /// All zero; none where the system has no more.
    pub fn zeroed(len: usize) -> Option<Block> {
        Some(Block(Some(Mapped::new(len)?)))
    }

    /// One that was given back and is hardly larger, else a new one.
    pub fn recycled(len: usize) -> Option<Block> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |mapped: &Mapped| mapped.capacity >= len && mapped.capacity <= len + len / 4 + HUGE;
        let best = (0..kept.len()).filter(|at| fits(&kept[*at])).min_by_key(|at| kept[*at].capacity);
        if let Some(mapped) = best.and_then(|at| kept.remove(at)) {
            return Some(Block(Some(mapped)));
        }
        drop(kept);
        Block::zeroed(len)
    }

    /// Address of its first byte; as many follow as were asked for.
    pub fn addr(&self) -> *mut u8 {
        self.0.as_ref().map_or(std::ptr::null_mut(), |mapped| mapped.at.as_ptr())
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let Some(mapped) = self.0.take().filter(|mapped| mapped.capacity <= MOST_KEPT) else { return };
        // Freed behind the lock: the system takes its time.
        let mut freed = Vec::new();
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = kept.iter().map(|kept| kept.capacity).sum::<usize>() + mapped.capacity;
        while bytes > MOST_KEPT
            && let Some(oldest) = kept.pop_front()
        {
            bytes -= oldest.capacity;
            freed.push(oldest);
        }
        kept.push_back(mapped);
        drop(kept);
    }
}

impl Mapped {
    fn new(len: usize) -> Option<Mapped> {
        let capacity = len.checked_next_multiple_of(HUGE)?;
        let mut map = MmapMut::map_anon(capacity.checked_add(HUGE)?).ok()?;
        let skipped = map.as_ptr().align_offset(HUGE);
        #[cfg(target_os = "linux")]
        // Advice only: a refusal is harmless.
        let _ = map.advise_range(memmap2::Advice::HugePage, skipped, capacity);
        let at = NonNull::new(map.get_mut(skipped..)?.as_mut_ptr())?;
        Some(Mapped { at, capacity, _map: map })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_was_given_back_is_used_again_for_what_is_about_as_large() {
        // Sizes that no other test has.
        let len = 97 << 20;
        let first = Block::zeroed(len).expect("memory");
        let at = first.addr();
        assert!(at.addr().is_multiple_of(HUGE));
        drop(first);
        assert_ne!(Block::recycled(len / 2).expect("memory").addr(), at, "twice as large as needed");
        let again = Block::recycled(len - 5).expect("memory");
        assert_eq!(again.addr(), at);
        assert_ne!(Block::recycled(len).expect("memory").addr(), at, "it is in use");
    }

    #[test]
    fn what_no_system_has_is_refused() {
        assert!(Block::zeroed(usize::MAX / 2).is_none() && Block::recycled(usize::MAX - 1).is_none());
    }
}
