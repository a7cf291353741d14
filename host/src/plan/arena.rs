//! Offsets in one arena: best fit over a free list, in the order of the steps.

use std::collections::{BTreeMap, BTreeSet};

/// Alignment of every buffer, in bytes.
pub const ALIGN: u64 = 64;

/// A growing range of bytes with holes.
#[derive(Debug, Default)]
pub struct Arena {
    by_offset: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    end: u64,
    live: u64,
    peak_live: u64,
}

impl Arena {
    /// Space for `bytes`, aligned; zero bytes take the smallest piece, so that buffers have different offsets.
    pub fn allocate(&mut self, bytes: u64) -> u64 {
        let size = round_up(bytes);
        self.live += size;
        self.peak_live = self.peak_live.max(self.live);
        if let Some(&(have, offset)) = self.by_size.range((size, 0)..).next() {
            self.take(offset, have);
            if have > size {
                self.put(offset + size, have - size);
            }
            return offset;
        }
        // A hole at the end grows.
        if let Some((&offset, &have)) = self.by_offset.last_key_value()
            && offset + have == self.end
        {
            self.take(offset, have);
            self.end = offset + size;
            return offset;
        }
        let offset = self.end;
        self.end += size;
        offset
    }

    /// Gives back what `allocate(bytes)` gave at `offset`.
    pub fn free(&mut self, offset: u64, bytes: u64) {
        let size = round_up(bytes);
        self.live -= size;
        let (mut at, mut len) = (offset, size);
        if let Some((&o, &l)) = self.by_offset.range(..at).next_back()
            && o + l == at
        {
            self.take(o, l);
            at = o;
            len += l;
        }
        if let Some(&l) = self.by_offset.get(&(at + len)) {
            self.take(at + len, l);
            len += l;
        }
        self.put(at, len);
    }

    /// Bytes that the arena needs.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Most bytes in use at one time: what no layout can go below.
    pub fn peak_live(&self) -> u64 {
        self.peak_live
    }

    fn take(&mut self, offset: u64, len: u64) {
        self.by_offset.remove(&offset);
        self.by_size.remove(&(len, offset));
    }

    fn put(&mut self, offset: u64, len: u64) {
        self.by_offset.insert(offset, len);
        self.by_size.insert((len, offset));
    }
}

fn round_up(bytes: u64) -> u64 {
    bytes.max(1).div_ceil(ALIGN) * ALIGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_merged_and_used() {
        let mut a = Arena::default();
        let (x, y, z) = (a.allocate(100), a.allocate(64), a.allocate(1));
        assert_eq!((x, y, z), (0, 128, 192));
        a.free(x, 100);
        a.free(y, 64);
        assert_eq!(a.allocate(190), 0);
        assert_eq!(a.bytes(), 256);
        a.free(z, 1);
        assert_eq!(a.allocate(200), 192);
        assert_eq!(a.bytes(), 192 + 256);
    }
}
