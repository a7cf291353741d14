//! The ZIP container, read from its central directory.
//!
//! Read here rather than by a library because four things matter that ZIP libraries hide: where each entry's data lies
//! in the file (weights are mapped in place), that no name occurs twice, that no two entries overlap, and that nothing
//! is allocated because a header claims a size. PyTorch's writer leaves sizes in local headers zero, so only the central
//! directory is believed; the local header gives the position of the data and must carry the same name.
//!
//! Invariants: every [`Entry`]'s data lies inside the file; names are unique, UTF-8 and relative to the root folder.
//! Deliberately not here: what entries mean.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use flate2::Crc;
use flate2::read::DeflateDecoder;

use crate::frontend::{ModelError, ModelResult};
use crate::memory::{ByteRange, FileBytes};

/// Texts (JSON) larger than this are refused.
const MAX_TEXT_BYTES: u64 = 1 << 30;
/// Marker entries (`archive_format`, `byteorder`) are a few bytes.
const MAX_SHORT_TEXT_BYTES: u64 = 256;
/// What a deflated entry may unpack to: this, or [`MAX_INFLATION`] times its packed size, whichever is more.
const MIN_INFLATE_BUDGET_BYTES: u64 = 64 << 20;
/// Real weights deflate by a factor below 2, JSON by 20; a bomb by 1,000.
const MAX_INFLATION: u64 = 100;

const END_LEN: usize = 22;
const END64_LEN: usize = 56;
const LOCATOR64_LEN: usize = 20;
const CENTRAL_LEN: usize = 46;
const LOCAL_LEN: usize = 30;
const MAX_COMMENT_LEN: usize = u16::MAX as usize;

/// An opened archive: its bytes and the directory of its entries. Cloning shares both.
#[derive(Clone, Debug)]
pub struct Archive {
    bytes: ByteRange,
    root: String,
    entries: Arc<HashMap<Box<str>, Entry>>,
}

/// One entry. `data` are its bytes in the file, packed where `method` says so.
#[derive(Clone, Debug)]
pub struct Entry {
    data: Range<usize>,
    size: u64,
    crc: u32,
    method: Method,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Stored,
    Deflated,
    Encrypted,
    Other(u16),
}

impl Entry {
    /// Size of the entry's content in bytes, unpacked.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Archive {
    /// Reads the directory of `bytes`; touches headers only.
    ///
    /// # Errors
    /// `model::not_an_archive`, `model::archive_damaged`, `model::entry_duplicate`.
    pub fn read(bytes: FileBytes) -> ModelResult<Self> {
        Self::read_part(bytes.whole())
    }

    /// The same for an archive that lies inside another one.
    ///
    /// # Errors
    /// As [`Archive::read`].
    pub fn read_part(bytes: ByteRange) -> ModelResult<Self> {
        let directory = find_directory(&bytes)?;
        let records = read_directory(&bytes, &directory)?;
        refuse_overlaps(&records, directory.range.start)?;
        let root = root_of(&records);
        let mut entries = HashMap::with_capacity(records.len());
        for record in records {
            // Entries outside the root folder belong to nobody who reads this format.
            let Some(name) = record.name.strip_prefix(root.as_str()) else { continue };
            if name.is_empty() || name.ends_with('/') {
                continue;
            }
            if entries.insert(name.into(), record.entry).is_some() {
                return Err(ModelError::EntryDuplicate { entry: record.name });
            }
        }
        Ok(Self { bytes, root, entries: Arc::new(entries) })
    }

    /// Whether there is an entry `name` (without the root folder).
    pub fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// All names, without the root folder, in no particular order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(|name| &**name)
    }

    /// The root folder with its slash, or nothing where there is none.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The entry `name`, needed for what `needed_for` says.
    ///
    /// # Errors
    /// `model::entry_missing`.
    pub fn entry(&self, name: &str, needed_for: &str) -> ModelResult<&Entry> {
        self.entries.get(name).ok_or_else(|| ModelError::EntryMissing {
            entry: name.to_owned(),
            needed_for: needed_for.to_owned(),
        })
    }

    /// A JSON entry, checksum verified. At most 1 GiB.
    ///
    /// # Errors
    /// `model::entry_missing`, `model::entry_too_large`, `model::entry_unsupported`, `model::checksum`.
    pub fn text(&self, name: &str, needed_for: &str) -> ModelResult<Cow<'_, [u8]>> {
        self.verified(name, needed_for, MAX_TEXT_BYTES)
    }

    /// A marker entry as text, trailing white space removed.
    ///
    /// # Errors
    /// As [`Archive::text`]; text that is not UTF-8 is `model::archive_damaged`.
    pub fn short_text(&self, name: &str) -> ModelResult<String> {
        let bytes = self.verified(name, "recognising the format", MAX_SHORT_TEXT_BYTES)?;
        let text =
            std::str::from_utf8(&bytes).map_err(|_| ModelError::damaged(name, "it is not UTF-8 text"))?;
        Ok(text.trim_end().to_owned())
    }

    /// Where a stored entry's bytes lie: a range of the mapping, nothing read. `None` where it is deflated.
    ///
    /// # Errors
    /// `model::entry_unsupported` where the bytes cannot be had at all.
    pub fn in_place(&self, name: &str, entry: &Entry) -> ModelResult<Option<ByteRange>> {
        match entry.method {
            Method::Stored => {
                let range = self.bytes.part(entry.data.clone());
                Ok(Some(range.expect("the directory reader proved that an entry's data lies in the file")))
            }
            Method::Deflated => Ok(None),
            method => Err(unsupported(name, method)),
        }
    }

    /// The unpacked bytes of a deflated entry, checksum verified.
    ///
    /// # Errors
    /// As [`Archive::text`].
    pub fn inflate(&self, name: &str, entry: &Entry) -> ModelResult<Vec<u8>> {
        let bytes = self.unpack(name, entry, u64::MAX)?.into_owned();
        verify(name, entry, &bytes)?;
        Ok(bytes)
    }

    fn verified(&self, name: &str, needed_for: &str, limit: u64) -> ModelResult<Cow<'_, [u8]>> {
        let entry = self.entry(name, needed_for)?;
        let bytes = self.unpack(name, entry, limit)?;
        verify(name, entry, &bytes)?;
        Ok(bytes)
    }

    fn unpack(&self, name: &str, entry: &Entry, limit: u64) -> ModelResult<Cow<'_, [u8]>> {
        let packed = &self.bytes[entry.data.clone()];
        let limit = match entry.method {
            Method::Deflated => {
                limit.min(MIN_INFLATE_BUDGET_BYTES.max((packed.len() as u64).saturating_mul(MAX_INFLATION)))
            }
            _ => limit,
        };
        if entry.size > limit {
            return Err(ModelError::EntryTooLarge { entry: name.to_owned(), found: entry.size, limit });
        }
        match entry.method {
            Method::Stored => Ok(Cow::Borrowed(packed)),
            Method::Deflated => inflate(name, packed, entry.size).map(Cow::Owned),
            method => Err(unsupported(name, method)),
        }
    }
}

/// Unpacks at most one byte more than `size`: what the directory claims is a limit here, never an allocation.
fn inflate(name: &str, packed: &[u8], size: u64) -> ModelResult<Vec<u8>> {
    let mut bytes = Vec::new();
    DeflateDecoder::new(packed)
        .take(size.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| ModelError::damaged(name, format!("cannot be decompressed: {error}")))?;
    if bytes.len() as u64 != size {
        let found = if bytes.len() as u64 > size { "more".to_owned() } else { bytes.len().to_string() };
        return Err(ModelError::damaged(
            name,
            format!("decompresses to {found} bytes, the directory says {size}"),
        ));
    }
    Ok(bytes)
}

fn verify(name: &str, entry: &Entry, bytes: &[u8]) -> ModelResult<()> {
    let mut crc = Crc::new();
    crc.update(bytes);
    if crc.sum() == entry.crc {
        return Ok(());
    }
    Err(ModelError::Checksum { entry: name.to_owned(), found: crc.sum(), expected: entry.crc })
}

fn unsupported(name: &str, method: Method) -> ModelError {
    let why = match method {
        Method::Encrypted => "it is encrypted".to_owned(),
        Method::Other(number) => {
            format!("it is compressed by method {number}, only stored and deflated are read")
        }
        Method::Stored | Method::Deflated => "it cannot be read".to_owned(),
    };
    ModelError::EntryUnsupported { entry: name.to_owned(), why }
}

/// Where the central directory lies and how many entries it has.
struct Directory {
    range: Range<usize>,
    n_entries: u64,
}

/// One line of the directory, its name still with the root folder; `whole` includes the local header.
struct Record {
    name: String,
    entry: Entry,
    whole: Range<usize>,
}

/// Finds the end record: it ends, with its comment, exactly at the end of the file.
fn find_directory(bytes: &[u8]) -> ModelResult<Directory> {
    let none = |why: &str| ModelError::NotAnArchive { why: why.to_owned() };
    let last = bytes.len().checked_sub(END_LEN).ok_or_else(|| none("it is too short"))?;
    let first = last.saturating_sub(MAX_COMMENT_LEN);
    let end = (first..=last)
        .rev()
        .find(|&at| {
            bytes[at..].starts_with(b"PK\x05\x06")
                && u16_at(bytes, at + 20)
                    .is_some_and(|comment| at + END_LEN + comment as usize == bytes.len())
        })
        .ok_or_else(|| none("it has no ZIP directory at its end"))?;
    let broken = |why: &str| ModelError::damaged("end of the directory", why);
    let field16 = |at| u16_at(bytes, end + at).map(u64::from).ok_or_else(|| broken("cut off"));
    let field32 = |at| u32_at(bytes, end + at).map(u64::from).ok_or_else(|| broken("cut off"));
    let (mut disks, mut n_here, mut n_entries) = (field16(4)? + field16(6)?, field16(8)?, field16(10)?);
    let (mut len, mut start) = (field32(12)?, field32(16)?);
    let mut behind = end;
    if let Some(end64) = find_end64(bytes, end)? {
        let wide = |at| u64_at(bytes, end64 + at).ok_or_else(|| broken("cut off"));
        let wide32 = |at| u32_at(bytes, end64 + at).map(u64::from).ok_or_else(|| broken("cut off"));
        disks = wide32(16)?.saturating_add(wide32(20)?);
        (n_here, n_entries, len, start) = (wide(24)?, wide(32)?, wide(40)?, wide(48)?);
        behind = end64;
    }
    if disks != 0 || n_here != n_entries {
        return Err(broken("the archive is split over several files"));
    }
    let stop = start.checked_add(len).filter(|&stop| stop <= behind as u64);
    let stop = stop.ok_or_else(|| broken("the directory does not lie before its end record"))?;
    // Both are at most the file's length, which is a usize.
    Ok(Directory { range: start as usize..stop as usize, n_entries })
}

/// The ZIP64 end record, where a locator stands directly before the end record.
fn find_end64(bytes: &[u8], end: usize) -> ModelResult<Option<usize>> {
    let Some(locator) = end.checked_sub(LOCATOR64_LEN).filter(|&at| bytes[at..].starts_with(b"PK\x06\x07"))
    else {
        return Ok(None);
    };
    let broken = || ModelError::damaged("ZIP64 end of the directory", "its locator points outside the file");
    let at = u64_at(bytes, locator + 8).and_then(|at| usize::try_from(at).ok()).ok_or_else(broken)?;
    let fits = at.checked_add(END64_LEN).is_some_and(|stop| stop <= locator);
    if !fits || !bytes[at..].starts_with(b"PK\x06\x06") {
        return Err(broken());
    }
    Ok(Some(at))
}

fn read_directory(bytes: &[u8], directory: &Directory) -> ModelResult<Vec<Record>> {
    let table = &bytes[directory.range.clone()];
    // Each record takes 46 bytes at least: the count cannot make this allocate more than the file holds.
    if directory.n_entries > (table.len() / CENTRAL_LEN) as u64 {
        let why = format!("{} entries cannot stand in {} bytes", directory.n_entries, table.len());
        return Err(ModelError::damaged("directory", why));
    }
    let mut records = Vec::with_capacity(directory.n_entries as usize);
    let mut at = 0;
    for _ in 0..directory.n_entries {
        let (record, len) = read_record(bytes, &table[at..], directory.range.start)?;
        records.push(record);
        at += len;
    }
    if at != table.len() {
        let why = format!("{} bytes behind the last of {} entries", table.len() - at, directory.n_entries);
        return Err(ModelError::damaged("directory", why));
    }
    Ok(records)
}

/// One central record at the head of `table`; its length is returned beside it.
fn read_record(bytes: &[u8], table: &[u8], directory_start: usize) -> ModelResult<(Record, usize)> {
    let broken = |why: &str| ModelError::damaged("directory", why);
    if table.len() < CENTRAL_LEN || !table.starts_with(b"PK\x01\x02") {
        return Err(broken("no record where one should begin"));
    }
    let half = |at: usize| u16::from_le_bytes([table[at], table[at + 1]]);
    let word = |at: usize| u32::from_le_bytes([table[at], table[at + 1], table[at + 2], table[at + 3]]);
    let (name_len, extra_len, comment_len) = (half(28) as usize, half(30) as usize, half(32) as usize);
    let len = CENTRAL_LEN + name_len + extra_len + comment_len;
    if len > table.len() {
        return Err(broken("a record is cut off"));
    }
    let name = &table[CENTRAL_LEN..CENTRAL_LEN + name_len];
    let name = std::str::from_utf8(name).map_err(|_| broken("an entry's name is not UTF-8"))?.to_owned();
    let extra = &table[CENTRAL_LEN + name_len..CENTRAL_LEN + name_len + extra_len];
    let mut wide = Wide::find(extra);
    let mut field = |at: usize| match word(at) {
        u32::MAX => wide.take().ok_or_else(|| ModelError::damaged(&name, "its ZIP64 sizes are missing")),
        value => Ok(u64::from(value)),
    };
    let size = field(24)?;
    let packed_len = field(20)?;
    let header = field(42)?;
    let method = match (half(8) & 1, half(10)) {
        (1, _) => Method::Encrypted,
        (_, 0) => Method::Stored,
        (_, 8) => Method::Deflated,
        (_, other) => Method::Other(other),
    };
    if method == Method::Stored && size != packed_len {
        return Err(ModelError::damaged(
            name,
            format!("it is stored, but {packed_len} bytes stand for {size}"),
        ));
    }
    let (header, data) = locate(bytes, &name, header, packed_len, directory_start)?;
    let whole = header..data.end;
    let entry = Entry { data, size, crc: word(16), method };
    Ok((Record { name, entry, whole }, len))
}

/// From the local header at `header` to where the data stands, all of it before the directory.
fn locate(
    bytes: &[u8],
    name: &str,
    header: u64,
    packed_len: u64,
    directory_start: usize,
) -> ModelResult<(usize, Range<usize>)> {
    let broken = |why: &str| ModelError::damaged(name, why);
    let header = usize::try_from(header)
        .ok()
        .filter(|&at| at.checked_add(LOCAL_LEN).is_some_and(|stop| stop <= directory_start))
        .ok_or_else(|| broken("its header lies outside the file"))?;
    let local = &bytes[header..directory_start];
    if !local.starts_with(b"PK\x03\x04") {
        return Err(broken("there is no header where the directory says"));
    }
    let name_len = usize::from(u16::from_le_bytes([local[26], local[27]]));
    let extra_len = usize::from(u16::from_le_bytes([local[28], local[29]]));
    if local.get(LOCAL_LEN..LOCAL_LEN + name_len) != Some(name.as_bytes()) {
        return Err(broken("its header carries another name than the directory"));
    }
    let start = header + LOCAL_LEN + name_len + extra_len;
    let stop = (start as u64).checked_add(packed_len).filter(|&stop| stop <= directory_start as u64);
    let stop = stop.ok_or_else(|| broken("its data reaches beyond the end of the file"))?;
    Ok((header, start..stop as usize))
}

/// Entries that share bytes are how small files claim to be large ones.
fn refuse_overlaps(records: &[Record], directory_start: usize) -> ModelResult<()> {
    let mut order: Vec<&Record> = records.iter().collect();
    order.sort_by_key(|record| record.whole.start);
    for pair in order.windows(2) {
        if pair[0].whole.end > pair[1].whole.start {
            if pair[0].name == pair[1].name {
                return Err(ModelError::EntryDuplicate { entry: pair[0].name.clone() });
            }
            return Err(ModelError::damaged(&pair[1].name, format!("it overlaps `{}`", pair[0].name)));
        }
    }
    debug_assert!(order.iter().all(|record| record.whole.end <= directory_start));
    Ok(())
}

/// The folder that the first entry stands in; nothing where it stands in none, or where it is a plain ZIP (the layout
/// of PyTorch 2.5 to 2.7, whose entries have no common folder).
fn root_of(records: &[Record]) -> String {
    let Some(first) = records.first() else { return String::new() };
    let Some(slash) = first.name.find('/') else { return String::new() };
    if records.iter().any(|record| record.name == "serialized_exported_program.json") {
        return String::new();
    }
    first.name[..=slash].to_owned()
}

/// The 64-bit values of a ZIP64 extra field (id 1), in the order in which the 32-bit ones are saturated.
struct Wide<'a>(&'a [u8]);

impl<'a> Wide<'a> {
    fn find(mut extra: &'a [u8]) -> Self {
        while let [id0, id1, len0, len1, rest @ ..] = extra {
            let len = usize::from(u16::from_le_bytes([*len0, *len1]));
            let Some((field, behind)) = rest.split_at_checked(len) else { break };
            if u16::from_le_bytes([*id0, *id1]) == 1 {
                return Self(field);
            }
            extra = behind;
        }
        Self(&[])
    }

    fn take(&mut self) -> Option<u64> {
        let (value, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*value))
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|value| u16::from_le_bytes(*value))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|value| u32::from_le_bytes(*value))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|value| u64::from_le_bytes(*value))
}
