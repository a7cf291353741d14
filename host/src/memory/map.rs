//! The bytes of a file, mapped or owned, shared by whoever looks at a part of them.
//!
//! Invariants: the bytes behind a [`FileBytes`] never move and never change through it; a [`ByteRange`] lies inside its
//! source and keeps it alive. Mappings are read-only and private, so writing the file is impossible from here.
//! Deliberately not here: what the bytes mean, and any policy on when to copy.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

/// The whole of a file (or of a buffer that stands for one). Cloning shares it.
#[derive(Clone, Debug)]
pub struct FileBytes(Arc<Source>);

#[derive(Debug)]
enum Source {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl FileBytes {
    /// Maps `path` read-only and private; nothing is read until it is looked at. An empty file gives empty bytes.
    ///
    /// The operating system keeps a mapping valid while the file is replaced or unlinked. Who *truncates* a mapped
    /// file in place ends this process with SIGBUS when a lost page is touched; `[run] map_weights = false` copies.
    ///
    /// # Errors
    /// Whatever opening or mapping the file gives; a folder is refused.
    pub fn map(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        if metadata.len() == 0 {
            return Ok(Self::from_vec(Vec::new()));
        }
        #[allow(unsafe_code)]
        // SAFETY: the mapping is private and read-only, so no reference into it can be written through by this process;
        // its lifetime is the Arc's. Changes by other processes are excluded by the contract documented above.
        let map = unsafe { memmap2::MmapOptions::new().map_copy_read_only(&file) }?;
        Ok(Self(Arc::new(Source::Mapped(map))))
    }

    /// Bytes that are already in memory.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Source::Owned(bytes)))
    }

    /// All of it.
    pub fn whole(&self) -> ByteRange {
        ByteRange { source: self.clone(), range: 0..self.len() }
    }

    /// The part `range`, or `None` where it does not lie inside.
    pub fn range(&self, range: Range<usize>) -> Option<ByteRange> {
        self.get(range.clone())?;
        Some(ByteRange { source: self.clone(), range })
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &*self.0 {
            Source::Mapped(map) => map,
            Source::Owned(bytes) => bytes,
        }
    }
}

/// A part of a [`FileBytes`]; keeps the whole alive.
#[derive(Clone, Debug)]
pub struct ByteRange {
    source: FileBytes,
    range: Range<usize>,
}

impl ByteRange {
    /// `bytes` copied to an address that is a multiple of `align` (a power of two).
    pub fn aligned_copy(bytes: &[u8], align: usize) -> Self {
        let mut copy: Vec<u8> = Vec::with_capacity(bytes.len() + align);
        // A Vec's heap block does not move while its capacity suffices, so the padding found here stays right.
        let padding = copy.as_ptr().align_offset(align);
        let padding = if padding > align { 0 } else { padding };
        copy.resize(padding, 0);
        copy.extend_from_slice(bytes);
        let range = padding..copy.len();
        Self { source: FileBytes::from_vec(copy), range }
    }

    /// A part of the part, or `None` where it does not lie inside.
    pub fn part(&self, range: Range<usize>) -> Option<Self> {
        self.get(range.clone())?;
        let start = self.range.start;
        Some(Self { source: self.source.clone(), range: start + range.start..start + range.end })
    }

    /// Whether the first byte's address is a multiple of `align`.
    pub fn is_aligned(&self, align: usize) -> bool {
        (self.as_ptr() as usize).is_multiple_of(align)
    }
}

impl Deref for ByteRange {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.source[self.range.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_outside_is_none() {
        let bytes = FileBytes::from_vec(vec![1, 2, 3]);
        assert_eq!(&*bytes.range(1..3).expect("inside"), &[2, 3]);
        assert!(bytes.range(1..4).is_none());
    }

    #[test]
    fn copies_are_aligned() {
        for n in 0..100 {
            let source: Vec<u8> = (0..n).collect();
            let copy = ByteRange::aligned_copy(&source, 64);
            assert!(copy.is_aligned(64));
            assert_eq!(&*copy, &source[..]);
        }
    }

    #[test]
    fn a_mapping_is_page_aligned_and_shows_the_file() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        std::fs::write(file.path(), [7u8; 100]).expect("write");
        let bytes = FileBytes::map(file.path()).expect("map");
        assert_eq!(&*bytes, &[7u8; 100]);
        assert!(bytes.range(0..100).expect("inside").is_aligned(4096));
    }

    #[test]
    fn an_empty_file_is_no_bytes() {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        assert!(FileBytes::map(file.path()).expect("map").is_empty());
    }
}
