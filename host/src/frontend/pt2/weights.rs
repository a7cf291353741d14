//! Where the tensors lie: payload configs (in older layouts: pickles) read, every bound checked, no tensor byte touched.
//!
//! A storage is one raw file of the archive; tensors that name the same file share it (tied weights, buffers that are
//! views of one another). Invariants: each tensor's elements lie inside its storage; element sizes divide storage
//! lengths; strides are not negative. So whoever reads through sizes, strides and offset stays inside.
//! Deliberately not here: the signature, which says what each tensor is for.

use std::collections::HashMap;

use serde::Deserialize;

use super::archive::{Archive, Entry};
use super::check_byte_order;
use super::graph::{Layout, ScalarType, SymInt, TensorMeta, json_error};
use super::pickle::{self, PickledTensor};
use crate::frontend::{ModelError, ModelResult};
use crate::memory::{ByteRange, FileBytes};

/// What kernels may rely on; PyTorch's writer aligns entries to it.
const ALIGN: usize = 64;

/// Index of a storage in [`Weights::storages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageId(pub u32);

/// A tensor of the file: `as_strided(storage, sizes, strides, offset)`, all in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightTensor {
    pub storage: StorageId,
    pub dtype: ScalarType,
    pub sizes: Vec<i64>,
    pub strides_elems: Vec<i64>,
    pub offset_elems: i64,
    pub requires_grad: bool,
}

/// Raw bytes that one or several tensors look at.
#[derive(Debug)]
pub struct Storage {
    /// The archive's entry, for messages.
    pub entry: String,
    /// Length in bytes, unpacked.
    pub len_bytes: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Stored: a part of the mapping, aligned or not.
    InPlace(ByteRange),
    /// Deflated: unpacked when asked for.
    Packed(Archive, Entry),
}

/// All tensors of an archive's program.
#[derive(Debug)]
pub struct Weights {
    storages: Vec<Storage>,
    /// Parameters and persistent buffers.
    states: HashMap<String, WeightTensor>,
    /// Non-persistent buffers and tensor constants.
    constants: HashMap<String, WeightTensor>,
    /// Names that are there but cannot be loaded, with the reason; an error only where the program wants them.
    refused: HashMap<String, String>,
    configs: [String; 2],
}

/// Which of the two configs a name is looked up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Parameters and persistent buffers.
    States,
    /// Non-persistent buffers and tensor constants.
    Constants,
}

#[derive(Deserialize)]
struct Config {
    config: HashMap<String, Payload>,
}

#[derive(Deserialize)]
struct Payload {
    path_name: String,
    #[serde(default)]
    use_pickle: bool,
    #[serde(default)]
    tensor_meta: Option<TensorMeta>,
}

impl Weights {
    /// Reads both configs of program `name` and checks every tensor against its storage.
    ///
    /// # Errors
    /// `model::entry_missing`, `model::json`, `model::weight_bounds`; tensors that cannot be loaded (pickles, sparse
    /// layouts, unknown dtypes) are an error when they are looked up.
    pub fn read(archive: &Archive, name: &str) -> ModelResult<Self> {
        let configs = [
            format!("data/weights/{name}_weights_config.json"),
            format!("data/constants/{name}_constants_config.json"),
        ];
        let mut reader = Reader::default();
        let states = reader.section(archive, &configs[0], "data/weights/")?;
        let constants = reader.section(archive, &configs[1], "data/constants/")?;
        let Reader { storages, refused, .. } = reader;
        Ok(Self { storages, states, constants, refused, configs })
    }

    /// The same for older layouts: `files` are the `torch.save` archives of states and of constants.
    ///
    /// # Errors
    /// As [`Weights::read`], and `model::pickle`.
    pub fn read_pickled(archive: &Archive, files: [&str; 2]) -> ModelResult<Self> {
        let mut reader = Reader::default();
        let states = reader.pickled_section(archive, files[0])?;
        let constants = reader.pickled_section(archive, files[1])?;
        let Reader { storages, refused, .. } = reader;
        Ok(Self { storages, states, constants, refused, configs: files.map(str::to_owned) })
    }

    /// No tensors at all.
    pub fn none() -> Self {
        let configs = ["no weights".to_owned(), "no constants".to_owned()];
        Self {
            storages: Vec::new(),
            states: HashMap::new(),
            constants: HashMap::new(),
            refused: HashMap::new(),
            configs,
        }
    }

    /// The storages, in the order of their ids.
    pub fn storages(&self) -> &[Storage] {
        &self.storages
    }

    /// The tensor `fqn`; `role` is for the message.
    ///
    /// # Errors
    /// `model::weight_missing`, `model::weight_unsupported`.
    pub fn tensor(&self, section: Section, fqn: &str, role: &'static str) -> ModelResult<&WeightTensor> {
        let (tensors, config) = match section {
            Section::States => (&self.states, &self.configs[0]),
            Section::Constants => (&self.constants, &self.configs[1]),
        };
        if let Some(tensor) = tensors.get(fqn) {
            return Ok(tensor);
        }
        Err(match self.refused.get(fqn) {
            Some(why) => ModelError::WeightUnsupported { fqn: fqn.to_owned(), why: why.clone() },
            None => ModelError::WeightMissing { fqn: fqn.to_owned(), role, config: config.clone() },
        })
    }

    /// The bytes of a storage, at an address that is a multiple of 64: a part of the mapping where it lies so, else a
    /// copy made now.
    ///
    /// # Errors
    /// For deflated storages those of unpacking; an id of another file is `model::archive_damaged`.
    pub fn bytes(&self, id: StorageId) -> ModelResult<ByteRange> {
        let storage = self.storages.get(id.0 as usize);
        let storage =
            storage.ok_or_else(|| ModelError::damaged("weights", format!("there is no storage {}", id.0)))?;
        match &storage.source {
            Source::InPlace(bytes) if bytes.is_aligned(ALIGN) => Ok(bytes.clone()),
            Source::InPlace(bytes) => Ok(ByteRange::aligned_copy(bytes, ALIGN)),
            Source::Packed(archive, entry) => {
                let name = storage.entry.rsplit(": ").next().unwrap_or(&storage.entry);
                Ok(ByteRange::aligned_copy(&archive.inflate(name, entry)?, ALIGN))
            }
        }
    }
}

impl Storage {
    /// Whether the bytes are used where they lie in the file.
    pub fn is_mapped(&self) -> bool {
        matches!(&self.source, Source::InPlace(bytes) if bytes.is_aligned(ALIGN))
    }
}

#[derive(Default)]
struct Reader {
    storages: Vec<Storage>,
    by_entry: HashMap<String, StorageId>,
    refused: HashMap<String, String>,
}

impl Reader {
    fn section(
        &mut self,
        archive: &Archive,
        config: &str,
        folder: &str,
    ) -> ModelResult<HashMap<String, WeightTensor>> {
        let text = archive.text(config, "finding the weights")?;
        let parsed: Config = serde_json::from_slice(&text).map_err(|error| json_error(&error, config))?;
        // Sorted, so that storage ids and the first error do not depend on hashing.
        let mut payloads: Vec<(String, Payload)> = parsed.config.into_iter().collect();
        payloads.sort_by(|a, b| a.0.cmp(&b.0));
        let mut tensors = HashMap::with_capacity(payloads.len());
        for (fqn, payload) in payloads {
            match self.tensor(archive, &fqn, payload, folder) {
                Ok(tensor) => {
                    tensors.insert(fqn, tensor);
                }
                Err(ModelError::WeightUnsupported { why, .. }) => {
                    self.refused.insert(fqn, why);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(tensors)
    }

    fn tensor(
        &mut self,
        archive: &Archive,
        fqn: &str,
        payload: Payload,
        folder: &str,
    ) -> ModelResult<WeightTensor> {
        let refuse = |why: String| ModelError::WeightUnsupported { fqn: fqn.to_owned(), why };
        let meta = match payload.tensor_meta {
            Some(meta) if !payload.use_pickle => meta,
            Some(_) => return Err(refuse("it is a tensor subclass, stored as a pickle".to_owned())),
            None => return Err(refuse("it is an object, not a tensor".to_owned())),
        };
        if meta.layout != Layout::STRIDED {
            return Err(refuse(format!(
                "its layout is number {} (sparse), only dense tensors are read",
                meta.layout.0
            )));
        }
        let element_bytes = meta.dtype.element_bytes();
        let element_bytes =
            element_bytes.ok_or_else(|| refuse(format!("its dtype number {} is unknown", meta.dtype.0)))?;
        let entry = format!("{folder}{}", payload.path_name);
        let bounds =
            |why: String| ModelError::WeightBounds { fqn: fqn.to_owned(), entry: entry.clone(), why };
        let tensor = WeightTensor {
            storage: self.storage(archive, &entry, &entry, fqn)?,
            dtype: meta.dtype,
            sizes: plain(&meta.sizes).ok_or_else(|| bounds("its sizes are not plain numbers".to_owned()))?,
            strides_elems: plain(&meta.strides)
                .ok_or_else(|| bounds("its strides are not plain numbers".to_owned()))?,
            offset_elems: plain_int(&meta.storage_offset)
                .ok_or_else(|| bounds("its offset is not a plain number".to_owned()))?,
            requires_grad: meta.requires_grad,
        };
        let len_bytes = self.storages[tensor.storage.0 as usize].len_bytes;
        check_bounds(&tensor, element_bytes, len_bytes).map_err(bounds)?;
        Ok(tensor)
    }

    fn pickled_section(
        &mut self,
        archive: &Archive,
        file: &str,
    ) -> ModelResult<HashMap<String, WeightTensor>> {
        let entry = archive.entry(file, "finding the weights")?;
        // No constants at all may be an empty file.
        if entry.size() == 0 {
            return Ok(HashMap::new());
        }
        let bytes = match archive.in_place(file, entry)? {
            Some(bytes) => bytes,
            None => FileBytes::from_vec(archive.inflate(file, entry)?).whole(),
        };
        let nested = Archive::read_part(bytes)?;
        check_byte_order(&nested)?;
        let pickle = nested.text("data.pkl", "finding the weights")?;
        let mut tensors = HashMap::new();
        for (fqn, tensor) in pickle::tensors(&pickle, &format!("{file}: data.pkl"))? {
            let tensor = self.pickled_tensor(&nested, file, &fqn, tensor)?;
            if tensors.insert(fqn.clone(), tensor).is_some() {
                return Err(ModelError::EntryDuplicate { entry: format!("{file}: {fqn}") });
            }
        }
        Ok(tensors)
    }

    fn pickled_tensor(
        &mut self,
        nested: &Archive,
        file: &str,
        fqn: &str,
        tensor: PickledTensor,
    ) -> ModelResult<WeightTensor> {
        let entry = format!("data/{}", tensor.storage);
        let shown = format!("{file}: {entry}");
        let element_bytes = tensor.dtype.element_bytes().ok_or_else(|| ModelError::WeightUnsupported {
            fqn: fqn.to_owned(),
            why: format!("its dtype number {} is unknown", tensor.dtype.0),
        })?;
        let storage = self.storage(nested, &entry, &shown, fqn)?;
        let PickledTensor { dtype, sizes, strides_elems, offset_elems, requires_grad, .. } = tensor;
        let tensor = WeightTensor { storage, dtype, sizes, strides_elems, offset_elems, requires_grad };
        let len_bytes = self.storages[storage.0 as usize].len_bytes;
        check_bounds(&tensor, element_bytes, len_bytes).map_err(|why| ModelError::WeightBounds {
            fqn: fqn.to_owned(),
            entry: shown,
            why,
        })?;
        Ok(tensor)
    }

    /// The storage of entry `name`, which messages call `shown`.
    fn storage(&mut self, archive: &Archive, name: &str, shown: &str, fqn: &str) -> ModelResult<StorageId> {
        if let Some(id) = self.by_entry.get(shown) {
            return Ok(*id);
        }
        let entry = archive.entry(name, &format!("tensor `{fqn}`"))?;
        let source = match archive.in_place(name, entry)? {
            Some(bytes) => Source::InPlace(bytes),
            None => Source::Packed(archive.clone(), entry.clone()),
        };
        let id = StorageId(self.storages.len() as u32);
        self.storages.push(Storage { entry: shown.to_owned(), len_bytes: entry.size(), source });
        self.by_entry.insert(shown.to_owned(), id);
        Ok(id)
    }
}

fn plain_int(value: &SymInt) -> Option<i64> {
    match value {
        SymInt::Int(value) => Some(*value),
        _ => None,
    }
}

fn plain(values: &[SymInt]) -> Option<Vec<i64>> {
    values.iter().map(plain_int).collect()
}

/// The gate that lets everyone behind it index freely. A tensor without elements needs no bytes (its file is empty
/// whatever its offset), but its sizes must still multiply to something that fits.
fn check_bounds(tensor: &WeightTensor, element_bytes: usize, len_bytes: u64) -> Result<(), String> {
    let WeightTensor { sizes, strides_elems: strides, offset_elems: offset, .. } = tensor;
    if sizes.len() != strides.len() {
        return Err(format!("{} sizes but {} strides", sizes.len(), strides.len()));
    }
    if let Some(bad) = sizes.iter().chain(strides).chain([offset]).find(|value| **value < 0) {
        return Err(format!("negative size, stride or offset {bad}"));
    }
    if !len_bytes.is_multiple_of(element_bytes as u64) {
        return Err(format!("{len_bytes} bytes are no multiple of the element size {element_bytes}"));
    }
    let element_bytes = element_bytes as i64;
    // Zero sizes count as one here: no intermediate product may overflow either.
    let nonzero = sizes.iter().try_fold(element_bytes, |product, size| product.checked_mul((*size).max(1)));
    nonzero.ok_or_else(|| format!("sizes {sizes:?} overflow"))?;
    if sizes.contains(&0) {
        return Ok(());
    }
    let reach = sizes
        .iter()
        .zip(strides)
        .try_fold(*offset, |sum, (size, stride)| sum.checked_add((size - 1).checked_mul(*stride)?));
    let reach = reach.and_then(|last| last.checked_add(1)?.checked_mul(element_bytes));
    match reach {
        Some(reach) if reach as u64 <= len_bytes => Ok(()),
        Some(reach) => Err(format!(
            "sizes {sizes:?}, strides {strides:?}, offset {offset} need {reach} bytes of {len_bytes}"
        )),
        None => Err(format!("sizes {sizes:?}, strides {strides:?}, offset {offset} overflow")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(sizes: &[i64], strides: &[i64], offset: i64) -> WeightTensor {
        WeightTensor {
            storage: StorageId(0),
            dtype: ScalarType(7),
            sizes: sizes.to_vec(),
            strides_elems: strides.to_vec(),
            offset_elems: offset,
            requires_grad: false,
        }
    }

    #[test]
    fn what_fits() {
        for (sizes, strides, offset, len) in [
            (&[2i64, 3][..], &[3i64, 1][..], 0, 24),
            (&[3, 2], &[1, 3], 0, 24),
            (&[4, 3], &[0, 1], 0, 12),
            (&[3], &[1], 2, 40),
            (&[], &[], 0, 4),
            (&[0, 5], &[5, 1], 0, 0),
            (&[0], &[1], 100, 0),
            (&[1], &[i64::MAX], 0, 4),
        ] {
            assert_eq!(check_bounds(&tensor(sizes, strides, offset), 4, len), Ok(()), "{sizes:?}");
        }
    }

    #[test]
    fn what_does_not() {
        for (sizes, strides, offset, len) in [
            (&[2i64, 3][..], &[3i64, 1][..], 0, 20),
            (&[2, 3], &[3, 1], 1, 24),
            (&[2, 3], &[3], 0, 24),
            (&[2], &[-1], 1, 24),
            (&[-1], &[1], 0, 24),
            (&[2], &[1], 0, 9),
            (&[i64::MAX, i64::MAX], &[0, 0], 0, 24),
            (&[i64::MAX, 0, i64::MAX], &[1, 1, 1], 0, 24),
            (&[3], &[i64::MAX], 0, 24),
            (&[1], &[1], i64::MAX, 24),
            (&[], &[], 0, 0),
        ] {
            assert!(check_bounds(&tensor(sizes, strides, offset), 4, len).is_err(), "{sizes:?} {strides:?}");
        }
    }
}
