//! Tests of the reader on real files, on hand-broken ones and on thousands of mutated ones.

mod broken;
pub(in crate::frontend) mod mutation;
pub(in crate::frontend) mod zip_writer;

use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::graph::{Argument, Dialect, InputSpec};
use super::weights::Section;
use super::*;

/// Folder of the exported models.
pub(in crate::frontend) fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models")
}

/// Every `.pt2` of PyTorch 2.13 below `tests/models`, sorted.
pub(in crate::frontend) fn current_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in std::fs::read_dir(models()).expect("tests/models is there") {
        let folder = folder.expect("readable").path();
        files.extend(
            ["model.pt2", "core.pt2"].iter().map(|name| folder.join(name)).filter(|path| path.exists()),
        );
    }
    files.sort();
    assert_eq!(files.len(), 38, "19 models in two dialects");
    files
}

pub(in crate::frontend) fn old_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for version in ["torch-2.6", "torch-2.8"] {
        for file in std::fs::read_dir(models().join("old").join(version)).expect("tests/models/old is there")
        {
            files.push(file.expect("readable").path());
        }
    }
    files.sort();
    assert_eq!(files.len(), 10);
    files
}

fn read(path: &Path) -> FileBytes {
    FileBytes::from_vec(std::fs::read(path).expect("readable"))
}

#[test]
fn every_model_opens_with_its_weights() {
    for path in current_files() {
        let pt2 = Pt2::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(pt2.warnings.is_empty());
        let core = path.ends_with("core.pt2");
        let dialect = pt2.program.dialect().expect("known");
        assert_eq!(dialect, if core { Dialect::Aten } else { Dialect::Training }, "{}", path.display());
        let module = &pt2.program.graph_module;
        assert_eq!(module.graph.inputs.len(), module.signature.input_specs.len());
        assert_eq!(module.graph.outputs.len(), module.signature.output_specs.len());
        for spec in &module.signature.input_specs {
            let tensor = match spec {
                InputSpec::Parameter { fqn, .. } => pt2.weights.tensor(Section::States, fqn, "parameter"),
                InputSpec::Buffer { fqn, persistent: true, .. } => {
                    pt2.weights.tensor(Section::States, fqn, "buffer")
                }
                InputSpec::Buffer { fqn, .. } => pt2.weights.tensor(Section::Constants, fqn, "buffer"),
                InputSpec::TensorConstant { fqn, .. } => {
                    pt2.weights.tensor(Section::Constants, fqn, "constant")
                }
                InputSpec::UserInput { .. } | InputSpec::ConstantInput { .. } => continue,
                other => panic!("{}: {other:?}", path.display()),
            };
            let tensor = tensor.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let bytes = pt2.weights.bytes(tensor.storage).expect("bytes");
            assert!(bytes.is_aligned(64));
            let storage = &pt2.weights.storages()[tensor.storage.0 as usize];
            assert!(storage.is_mapped(), "{}: {} is copied", path.display(), storage.entry);
            assert_eq!(bytes.len() as u64, storage.len_bytes);
        }
    }
}

/// Every argument of every node is understood; an unknown tag would be kept as such.
#[test]
fn no_tag_of_the_models_is_unknown() {
    fn walk(argument: &Argument, path: &Path) {
        match argument {
            Argument::Unknown(tag) => panic!("{}: {tag}", path.display()),
            Argument::Graph(sub) => {
                sub.graph.nodes.iter().flat_map(|node| &node.inputs).for_each(|input| walk(&input.arg, path));
            }
            _ => {}
        }
    }
    for path in current_files() {
        let pt2 = Pt2::open(&path).expect("opens");
        for node in &pt2.program.graph_module.graph.nodes {
            node.inputs.iter().for_each(|input| walk(&input.arg, &path));
            node.outputs.iter().for_each(|output| walk(output, &path));
        }
    }
}

/// The checksums that PyTorch wrote are the independent opinion on where each entry lies.
#[test]
fn every_entry_has_its_checksum() {
    for path in current_files().into_iter().chain(old_files()) {
        let archive = Archive::read(read(&path)).expect("reads");
        assert!(archive.names().count() >= 5, "{}", path.display());
        for name in archive.names() {
            archive.text(name, "the test").unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

/// Older files hold the same weights as the file of the present layout, byte for byte.
#[test]
fn older_layouts_hold_the_same_tensors() {
    for path in old_files() {
        let old = Pt2::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.file_stem().expect("a name");
        let new = Pt2::open(&models().join(name).join("model.pt2")).expect("opens");
        let mut n_tensors = 0;
        for spec in &new.program.graph_module.signature.input_specs {
            let (section, fqn) = match spec {
                InputSpec::Parameter { fqn, .. } | InputSpec::Buffer { fqn, persistent: true, .. } => {
                    (Section::States, fqn)
                }
                InputSpec::Buffer { fqn, .. } | InputSpec::TensorConstant { fqn, .. } => {
                    (Section::Constants, fqn)
                }
                _ => continue,
            };
            // Constants that the program makes are numbered anew by each version.
            let Ok(found) = old.weights.tensor(section, fqn, "weight") else {
                assert_eq!(section, Section::Constants, "{}: {fqn}", path.display());
                continue;
            };
            let expected = new.weights.tensor(section, fqn, "weight").expect("there");
            let shape =
                |tensor: &weights::WeightTensor| (tensor.dtype, tensor.sizes.clone(), tensor.requires_grad);
            assert_eq!(shape(found), shape(expected), "{}: {fqn}", path.display());
            if found.strides_elems == expected.strides_elems && found.offset_elems == expected.offset_elems {
                let (found, expected) =
                    (old.weights.bytes(found.storage), new.weights.bytes(expected.storage));
                assert_eq!(&*found.expect("bytes"), &*expected.expect("bytes"), "{}: {fqn}", path.display());
            }
            n_tensors += 1;
        }
        println!("{}: {n_tensors} tensors", path.display());
    }
}

#[test]
fn numbers_are_read_exactly() {
    let parse = |text: &str| serde_json::from_str::<Argument>(text).map_err(|error| error.to_string());
    assert!(matches!(parse(r#"{"as_int": 9223372036854775807}"#), Ok(Argument::Int(i64::MAX))));
    assert!(matches!(parse(r#"{"as_int": -9223372036854775808}"#), Ok(Argument::Int(i64::MIN))));
    assert!(parse(r#"{"as_int": 9223372036854775808}"#).is_err());
    assert!(parse(r#"{"as_int": 1.0}"#).is_err());
    assert!(matches!(parse(r#"{"as_float": "-Infinity"}"#), Ok(Argument::Float(f64::NEG_INFINITY))));
    assert!(matches!(parse(r#"{"as_float": "NaN"}"#), Ok(Argument::Float(value)) if value.is_nan()));
    assert!(parse(r#"{"as_float": "inf"}"#).is_err());
    // Digits that a fast but inexact float parser gets wrong by one unit.
    for text in ["0.35355339059327379", "1e-05", "5e-324", "1.7976931348623157e308", "122.416294033786585"] {
        let expected: f64 = text.parse().expect("a float");
        assert!(
            matches!(parse(&format!(r#"{{"as_float": {text}}}"#)), Ok(Argument::Float(value)) if value == expected)
        );
    }
    assert!(
        matches!(parse(r#"{"as_hologram": [1, {"x": []}]}"#), Ok(Argument::Unknown(tag)) if tag == "as_hologram")
    );
    assert!(parse(r#"{"as_int": 1, "as_float": 1.0}"#).is_err());
    assert!(parse("{}").is_err());
}

/// Opening must not read the weights: a file of 1 GiB (sparse on disk) opens like one of 1 MiB.
#[test]
fn opening_does_not_read_the_weights() {
    let mut resident = Vec::new();
    for mib in [1u64, 1024] {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        zip_writer::one_big_weight(file.as_file(), mib << 20).expect("written");
        let before = std::time::Instant::now();
        let pt2 = Pt2::open(file.path()).expect("opens");
        let elapsed = before.elapsed();
        let tensor = pt2.weights.tensor(Section::States, "w", "parameter").expect("there");
        assert_eq!(pt2.weights.bytes(tensor.storage).expect("mapped").len() as u64, mib << 20);
        println!("{mib} MiB: open takes {elapsed:?}");
        resident.push(elapsed);
    }
    assert!(resident[1] < resident[0] * 20 + std::time::Duration::from_millis(20), "{resident:?}");
}
