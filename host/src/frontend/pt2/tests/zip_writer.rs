//! A ZIP writer that can lie: what a library would never write.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use flate2::Crc;

use super::super::archive::Archive;
use crate::memory::FileBytes;

/// One entry as it is to be written. The lies are `None` where the truth is told.
#[derive(Clone, Debug, Default)]
pub(in crate::frontend) struct Item {
    pub name: String,
    pub data: Vec<u8>,
    pub method: u16,
    pub flags: u16,
    /// Unpacked size for the directory; for deflated data it must be given.
    pub size: Option<u32>,
    pub packed_len: Option<u32>,
    pub crc: Option<u32>,
    pub offset: Option<u32>,
    pub local_name: Option<String>,
}

impl Item {
    pub fn new(name: &str, data: impl Into<Vec<u8>>) -> Self {
        Self { name: name.to_owned(), data: data.into(), ..Self::default() }
    }

    pub fn deflated(name: &str, data: &[u8]) -> Self {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(data).expect("in memory");
        let packed = encoder.finish().expect("in memory");
        Self { method: 8, size: Some(data.len() as u32), crc: Some(crc(data)), ..Self::new(name, packed) }
    }
}

pub(in crate::frontend) fn crc(data: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(data);
    crc.sum()
}

/// The archive of `items`, data aligned to 64 bytes as PyTorch does.
pub(in crate::frontend) fn write(items: &[Item]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for item in items {
        let header = out.len() as u32;
        let name = item.local_name.as_ref().unwrap_or(&item.name);
        let padding = (64 - (out.len() + 30 + name.len() + 4) % 64) % 64;
        out.extend(b"PK\x03\x04\x00\x00");
        out.extend(item.flags.to_le_bytes());
        out.extend(item.method.to_le_bytes());
        out.extend([0; 16]);
        out.extend((name.len() as u16).to_le_bytes());
        out.extend((padding as u16 + 4).to_le_bytes());
        out.extend(name.as_bytes());
        out.extend(b"FB");
        out.extend((padding as u16).to_le_bytes());
        out.extend(vec![b'Z'; padding]);
        out.extend(&item.data);
        let len = item.data.len() as u32;
        directory.extend(b"PK\x01\x02\x00\x00\x00\x00");
        directory.extend(item.flags.to_le_bytes());
        directory.extend(item.method.to_le_bytes());
        directory.extend([0; 4]);
        directory.extend(item.crc.unwrap_or_else(|| crc(&item.data)).to_le_bytes());
        directory.extend(item.packed_len.unwrap_or(len).to_le_bytes());
        directory.extend(item.size.unwrap_or(len).to_le_bytes());
        directory.extend((item.name.len() as u16).to_le_bytes());
        directory.extend([0; 12]);
        directory.extend(item.offset.unwrap_or(header).to_le_bytes());
        directory.extend(item.name.as_bytes());
    }
    let start = out.len() as u32;
    let n = items.len() as u16;
    out.extend(&directory);
    out.extend(b"PK\x05\x06\x00\x00\x00\x00");
    out.extend(n.to_le_bytes());
    out.extend(n.to_le_bytes());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    out
}

/// All entries of a good archive, to be changed and written again.
pub(in crate::frontend) fn items(bytes: &[u8]) -> Vec<Item> {
    let archive = Archive::read(FileBytes::from_vec(bytes.to_vec())).expect("a good archive");
    let mut names: Vec<&str> = archive.names().collect();
    names.sort_unstable();
    names
        .into_iter()
        .map(|name| {
            let entry = archive.entry(name, "the test").expect("there");
            let data = archive.in_place(name, entry).expect("readable").expect("stored");
            Item::new(&format!("{}{name}", archive.root()), data.to_vec())
        })
        .collect()
}

/// A whole program with one parameter `w` of `len` bytes of zeros, written sparsely.
pub(in crate::frontend) fn one_big_weight(mut file: &File, len: u64) -> io::Result<()> {
    let elements = len / 4;
    let meta = format!(
        r#"{{"dtype": 7, "sizes": [{{"as_int": {elements}}}], "requires_grad": true, "device": {{"type": "cpu", "index": null}}, "strides": [{{"as_int": 1}}], "storage_offset": {{"as_int": 0}}, "layout": 7}}"#
    );
    let config = format!(
        r#"{{"config": {{"w": {{"path_name": "weight_0", "is_param": true, "use_pickle": false, "tensor_meta": {meta}}}}}}}"#
    );
    let program = r#"{"graph_module": {"graph": {}, "signature": {"input_specs": [], "output_specs": []}}, "schema_version": {"major": 8, "minor": 20}}"#;
    let head = write(&[Item::new("m/data/weights/weight_0", Vec::new())]);
    // The first entry's data begins at byte 64: its hole is made here, everything else stands behind it.
    let hole = head.windows(4).position(|bytes| bytes == b"PK\x01\x02").expect("a directory");
    file.write_all(&head[..hole])?;
    file.seek(SeekFrom::Start(hole as u64 + len))?;
    let tail = write(&[
        Item {
            offset: Some(0),
            size: Some(len as u32),
            packed_len: Some(len as u32),
            ..Item::new("m/data/weights/weight_0", Vec::new())
        },
        Item::new("m/data/weights/model_weights_config.json", config),
        Item::new("m/data/constants/model_constants_config.json", r#"{"config": {}}"#),
        Item::new("m/models/model.json", program),
        Item::new("m/archive_format", "pt2"),
        Item::new("m/archive_version", "0"),
        Item::new("m/byteorder", "little"),
    ]);
    // Offsets in the tail count from its own start: shift all but the first entry's.
    let shift = hole as u64 + len;
    let mut tail = tail;
    let end = tail.len() - 22;
    let start = u32::from_le_bytes(tail[end + 16..end + 20].try_into().expect("four bytes")) as usize;
    let mut at = start;
    let mut first = true;
    while at < end {
        let name_len = u16::from_le_bytes([tail[at + 28], tail[at + 29]]) as usize;
        if !first {
            add(&mut tail[at + 42..at + 46], shift);
        }
        first = false;
        at += 46 + name_len;
    }
    add(&mut tail[end + 16..end + 20], shift);
    file.write_all(&tail)
}

fn add(field: &mut [u8], by: u64) {
    let value = u32::from_le_bytes(field.try_into().expect("four bytes"));
    field.copy_from_slice(&(value + by as u32).to_le_bytes());
}
