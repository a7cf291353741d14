//! Files of tensors: safetensors in and out, JSON for inputs that are no tensors.
//!
//! Files are mapped, not read: what nobody touches is never loaded. Nothing here knows what the names mean.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::error::TensorFileError;
use crate::ir::Dtype;
use crate::memory::{Bytes, FileBytes, Tensor};
use crate::run::Value;
use safetensors::tensor::{Dtype as FileDtype, View};
use safetensors::{SafeTensorError, SafeTensors};

/// Dtypes that safetensors can hold, and what it calls them.
const DTYPES: [(Dtype, FileDtype); 19] = [
    (Dtype::Bool, FileDtype::BOOL),
    (Dtype::U8, FileDtype::U8),
    (Dtype::I8, FileDtype::I8),
    (Dtype::I16, FileDtype::I16),
    (Dtype::I32, FileDtype::I32),
    (Dtype::I64, FileDtype::I64),
    (Dtype::F16, FileDtype::F16),
    (Dtype::Bf16, FileDtype::BF16),
    (Dtype::F32, FileDtype::F32),
    (Dtype::F64, FileDtype::F64),
    (Dtype::C64, FileDtype::C64),
    (Dtype::U16, FileDtype::U16),
    (Dtype::U32, FileDtype::U32),
    (Dtype::U64, FileDtype::U64),
    (Dtype::F8E4M3Fn, FileDtype::F8_E4M3),
    (Dtype::F8E5M2, FileDtype::F8_E5M2),
    (Dtype::F8E4M3Fnuz, FileDtype::F8_E4M3FNUZ),
    (Dtype::F8E5M2Fnuz, FileDtype::F8_E5M2FNUZ),
    (Dtype::F8E8M0Fnu, FileDtype::F8_E8M0),
];

/// Reads inputs: JSON where the name ends so, else safetensors.
pub fn read_inputs(path: &Path) -> Result<BTreeMap<String, Value>, TensorFileError> {
    if path.extension().is_some_and(|extension| extension == "json") {
        return read_json(path);
    }
    let tensors = read_tensors(path)?;
    Ok(tensors.into_iter().map(|(name, tensor)| (name, Value::Tensor(tensor))).collect())
}

/// Reads all tensors of a safetensors file by name.
pub fn read_tensors(path: &Path) -> Result<BTreeMap<String, Tensor>, TensorFileError> {
    let file = FileBytes::map(path).map_err(|error| unreadable(path, &error))?;
    let bad = |reason: String| TensorFileError::Bad { path: path.to_owned(), reason };
    let (n_header, metadata) = SafeTensors::read_metadata(&file).map_err(|error| bad(error.to_string()))?;
    // Eight bytes say how long the header is; offsets count from behind it.
    let data_start = n_header + 8;
    let mut tensors = BTreeMap::new();
    for (name, info) in metadata.tensors() {
        let Some((dtype, _)) = DTYPES.iter().find(|(_, dtype)| *dtype == info.dtype) else {
            return Err(bad(format!("`{name}` is {:?}, which no program has", info.dtype)));
        };
        let dims: Vec<i64> = info.shape.iter().map(|&size| size as i64).collect();
        let (start, end) = info.data_offsets;
        let range = file.range(data_start + start..data_start + end);
        let range = range.ok_or_else(|| bad(format!("`{name}` lies outside the file")))?;
        let misplaced = !range.is_aligned(dtype.size_bytes());
        if *dtype == Dtype::Bool && range.iter().any(|byte| *byte > 1) {
            return Err(bad(format!("`{name}` is bool and holds bytes other than 0 and 1")));
        }
        let tensor = if misplaced {
            Tensor::from_bytes(*dtype, &dims, &range)
        } else {
            let strides = contiguous(&dims);
            Tensor::over(Bytes::of_file(range), *dtype, dims, strides, 0)
        };
        tensors.insert(name, tensor.map_err(|error| bad(error.to_string()))?);
    }
    Ok(tensors)
}

/// Strides of dense row-major dims, in elements.
fn contiguous(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(dims[i].max(1));
    }
    strides
}

fn read_json(path: &Path) -> Result<BTreeMap<String, Value>, TensorFileError> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let bad = |reason: String| TensorFileError::Bad { path: path.to_owned(), reason };
    let entries: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
    let value = |(name, value): (String, serde_json::Value)| match json_value(&value) {
        Some(value) => Ok((name, value)),
        None => Err(bad(format!(
            "`{name}` is {value}; tensors travel as safetensors, and a number must fit 64 bits"
        ))),
    };
    entries.into_iter().map(value).collect()
}

fn json_value(value: &serde_json::Value) -> Option<Value> {
    Some(match value {
        serde_json::Value::Null => Value::None,
        serde_json::Value::Bool(flag) => Value::Bool(*flag),
        serde_json::Value::String(text) => Value::Str(text.clone()),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(int) => Value::Int(int),
            None if number.is_f64() => Value::Float(number.as_f64()?),
            // Between i64's and u64's largest.
            None => return None,
        },
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => return None,
    })
}

/// A tensor on its way into a file; dense, so that its bytes are read where they lie.
struct Stored {
    dtype: FileDtype,
    dims: Vec<usize>,
    dense: Tensor,
}

impl Stored {
    fn of(name: &str, tensor: &Tensor) -> io::Result<Stored> {
        let Some((_, dtype)) = DTYPES.iter().find(|(dtype, _)| *dtype == tensor.dtype()) else {
            return Err(invalid(format!("safetensors cannot hold `{name}`, which is {}", tensor.dtype())));
        };
        let dims = tensor.dims().iter().map(|&size| size.unsigned_abs() as usize).collect();
        let dense = tensor.contiguous().map_err(|error| invalid(format!("`{name}`: {error}")))?;
        Ok(Stored { dtype: *dtype, dims, dense })
    }
}

impl View for &Stored {
    fn dtype(&self) -> FileDtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.dims
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.dense.as_bytes().expect("what is stored was made dense"))
    }

    fn data_len(&self) -> usize {
        self.dense.numel() * self.dense.dtype().size_bytes()
    }
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Writes tensors by name as safetensors, one after the other from where they lie. The file appears whole or not at all.
pub fn write_tensors(path: &Path, tensors: &[(String, Tensor)]) -> io::Result<()> {
    let stored: Vec<(&str, Stored)> = tensors
        .iter()
        .map(|(name, tensor)| Ok((name.as_str(), Stored::of(name, tensor)?)))
        .collect::<io::Result<_>>()?;
    appear(path, |beside| {
        // The library's file is for its owner alone; this one is what the user's mask makes of it, like any other.
        let permissions = fs::File::create(beside)?.metadata()?.permissions();
        let views = stored.iter().map(|(name, stored)| (*name, stored));
        safetensors::serialize_to_file(views, None, beside).map_err(|error| match error {
            SafeTensorError::IoError(error) => error,
            error => invalid(error.to_string()),
        })?;
        fs::set_permissions(beside, permissions)
    })
}

/// Writes a file that appears whole or not at all.
pub fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    appear(path, |beside| fs::write(beside, content))
}

fn appear(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let beside = path.with_file_name(format!(
        ".{}.{}.part",
        path.file_name().unwrap_or_default().to_string_lossy(),
        std::process::id()
    ));
    let written = write(&beside).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is left over is of no use to anybody; that it cannot be removed is no second error.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn unreadable(path: &Path, error: &io::Error) -> TensorFileError {
    TensorFileError::Unreadable { path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("x.safetensors");
        let tensors = vec![
            ("out0".to_owned(), Tensor::from_slice(&[1.0f32, -2.0, 3.0, 4.0], &[2, 2]).expect("fits")),
            ("flag".to_owned(), Tensor::from_slice(&[true], &[]).expect("fits")),
            ("empty".to_owned(), Tensor::from_slice::<i64>(&[], &[0, 3]).expect("fits")),
        ];
        write_tensors(&path, &tensors).expect("written");
        let read = read_tensors(&path).expect("read");
        assert_eq!(read.len(), 3);
        for (name, tensor) in &tensors {
            assert_eq!(read[name].dims(), tensor.dims());
            assert_eq!(read[name].dtype(), tensor.dtype());
            assert_eq!(read[name].to_bytes().expect("bytes"), tensor.to_bytes().expect("bytes"));
        }
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1, "nothing is left beside the file");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_of_tensors_may_be_read_by_whoever_reads_other_files() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mode =
            |name: &str| fs::metadata(dir.path().join(name)).expect("written").permissions().mode() & 0o777;
        write_file(&dir.path().join("plain"), b"x").expect("written");
        let tensor = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).expect("fits");
        write_tensors(&dir.path().join("tensors"), &[("a".to_owned(), tensor)]).expect("written");
        assert_eq!(mode("tensors"), mode("plain"));
    }

    #[test]
    fn complex_tensors_of_128_bits_cannot_be_written() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let tensor = Tensor::from_bytes(Dtype::C128, &[1], &[0; 16]).expect("fits");
        let error = write_tensors(&dir.path().join("x"), &[("a".to_owned(), tensor)]).expect_err("must fail");
        assert!(error.to_string().contains("which is c128"), "{error}");
    }

    #[track_caller]
    fn json(text: &str) -> Result<BTreeMap<String, Value>, TensorFileError> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("in.json");
        fs::write(&path, text).expect("written");
        read_inputs(&path)
    }

    #[test]
    fn json_holds_what_is_no_tensor() {
        let read = json(r#"{"in2": 3, "in3": null, "in4": true, "x": 1.0, "s": "a"}"#).expect("good");
        assert!(matches!(read["in2"], Value::Int(3)) && matches!(read["in3"], Value::None));
        assert!(matches!(read["in4"], Value::Bool(true)) && matches!(read["x"], Value::Float(1.0)));
    }

    #[test]
    fn json_of_tensors_and_damaged_files_are_refused() {
        for text in [r#"{"in0": [1, 2]}"#, r#"{"in0": 18446744073709551615}"#, "[1]", "{"] {
            let error = json(text).expect_err(text);
            assert!(matches!(error, TensorFileError::Bad { .. }), "{text}: {error}");
        }
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("x.safetensors");
        for bytes in [&b""[..], b"\xff\xff\xff\xff\xff\xff\xff\xff", b"\x02\0\0\0\0\0\0\0{}rest"] {
            fs::write(&path, bytes).expect("written");
            let error = read_tensors(&path).expect_err("damaged");
            assert!(matches!(error, TensorFileError::Bad { .. }), "{bytes:?}: {error}");
        }
    }
}
