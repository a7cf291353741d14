//! Opening a `.pt2`: time against the size of its weights (must be flat: they are mapped, not read) and against the
//! number of nodes of its graph (must be linear), reading and importing told apart.
//!
//! `cargo bench -p thunderhead --bench pt2_open`. Files are written to a temporary folder; large weights are holes.

use std::fs::File;
use std::hint::black_box;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use thunderhead::frontend::import;
use thunderhead::frontend::pt2::Pt2;

/// A program of `n_nodes` elementwise nodes over `[4, 16]`, with one parameter of `weight_bytes`.
fn program(n_nodes: usize) -> (String, String) {
    let meta = |sizes: &[u64]| {
        let list = |values: Vec<u64>| {
            values.iter().map(|n| format!(r#"{{"as_int": {n}}}"#)).collect::<Vec<_>>().join(", ")
        };
        let strides: Vec<u64> = (0..sizes.len()).map(|i| sizes[i + 1..].iter().product()).collect();
        format!(
            r#"{{"dtype": 7, "sizes": [{}], "requires_grad": true, "device": {{"type": "cpu", "index": null}}, "strides": [{}], "storage_offset": {{"as_int": 0}}, "layout": 7}}"#,
            list(sizes.to_vec()),
            list(strides)
        )
    };
    let mut nodes = Vec::with_capacity(n_nodes);
    let mut values = vec![format!(r#""x": {}"#, meta(&[4, 16]))];
    let mut last = "x".to_owned();
    for i in 0..n_nodes {
        let name = format!("add_{i}");
        nodes.push(format!(
            r#"{{"target": "torch.ops.aten.add.Tensor", "inputs": [{{"name": "self", "arg": {{"as_tensor": {{"name": "{last}"}}}}, "kind": 1}}, {{"name": "other", "arg": {{"as_tensor": {{"name": "x"}}}}, "kind": 1}}], "outputs": [{{"as_tensor": {{"name": "{name}"}}}}], "metadata": {{"nn_module_stack": "L__self__,,model.Model;L__self__layers.{i},layers.{i},torch.nn.modules.linear.Linear", "torch_fn": "add_{i};builtin_function_or_method.add"}}, "is_hop_single_tensor_return": null, "name": "{name}"}}"#
        ));
        values.push(format!(r#""{name}": {}"#, meta(&[4, 16])));
        last = name;
    }
    let text = format!(
        r#"{{"graph_module": {{"graph": {{"inputs": [{{"as_tensor": {{"name": "x"}}}}], "outputs": [{{"as_tensor": {{"name": "{last}"}}}}], "nodes": [{}], "tensor_values": {{{}}}}}, "signature": {{"input_specs": [{{"user_input": {{"arg": {{"as_tensor": {{"name": "x"}}}}}}}}], "output_specs": [{{"user_output": {{"arg": {{"as_tensor": {{"name": "{last}"}}}}}}}}]}}}}, "schema_version": {{"major": 8, "minor": 20}}, "verifiers": ["TRAINING"]}}"#,
        nodes.join(", "),
        values.join(", ")
    );
    (text, meta(&[1]))
}

/// Writes the archive; the weight's bytes are a hole in the file.
fn write_model(path: &Path, n_nodes: usize, weight_bytes: u64) {
    let (program, _) = program(n_nodes);
    let elements = weight_bytes / 4;
    let config = format!(
        r#"{{"config": {{"w": {{"path_name": "weight_0", "is_param": true, "use_pickle": false, "tensor_meta": {{"dtype": 7, "sizes": [{{"as_int": {elements}}}], "requires_grad": true, "device": {{"type": "cpu", "index": null}}, "strides": [{{"as_int": 1}}], "storage_offset": {{"as_int": 0}}, "layout": 7}}}}}}}}"#
    );
    let texts = [
        ("m/data/weights/model_weights_config.json", config.as_str()),
        ("m/data/constants/model_constants_config.json", r#"{"config": {}}"#),
        ("m/models/model.json", program.as_str()),
        ("m/archive_format", "pt2"),
        ("m/archive_version", "0"),
        ("m/byteorder", "little"),
    ];
    let mut file = File::create(path).expect("created");
    let mut directory = Vec::new();
    let mut n_entries = 0u64;
    let mut entry = |file: &mut File, name: &str, data: Option<&str>, len: u64| {
        let header = file.stream_position().expect("a position");
        let padding = (64 - (header as usize + 30 + name.len() + 4) % 64) % 64;
        let mut local = Vec::new();
        local.extend(b"PK\x03\x04");
        local.extend([0; 22]);
        local.extend((name.len() as u16).to_le_bytes());
        local.extend((padding as u16 + 4).to_le_bytes());
        local.extend(name.as_bytes());
        local.extend(b"FB");
        local.extend((padding as u16).to_le_bytes());
        local.extend(vec![0; padding]);
        file.write_all(&local).expect("written");
        let mut crc = flate2::Crc::new();
        match data {
            Some(text) => {
                file.write_all(text.as_bytes()).expect("written");
                crc.update(text.as_bytes());
            }
            None => {
                file.seek(SeekFrom::Current(len as i64)).expect("moved");
            }
        }
        directory.extend(b"PK\x01\x02");
        directory.extend([0; 12]);
        directory.extend(crc.sum().to_le_bytes());
        directory.extend(u32::MAX.to_le_bytes());
        directory.extend(u32::MAX.to_le_bytes());
        directory.extend((name.len() as u16).to_le_bytes());
        directory.extend(28u16.to_le_bytes());
        directory.extend([0; 10]);
        directory.extend(u32::MAX.to_le_bytes());
        directory.extend(name.as_bytes());
        // ZIP64: unpacked size, packed size, offset.
        directory.extend(1u16.to_le_bytes());
        directory.extend(24u16.to_le_bytes());
        directory.extend(len.to_le_bytes());
        directory.extend(len.to_le_bytes());
        directory.extend(header.to_le_bytes());
        n_entries += 1;
    };
    entry(&mut file, "m/data/weights/weight_0", None, weight_bytes);
    for (name, text) in texts {
        entry(&mut file, name, Some(text), text.len() as u64);
    }
    let start = file.stream_position().expect("a position");
    file.write_all(&directory).expect("written");
    let end64 = file.stream_position().expect("a position");
    let mut end = Vec::new();
    end.extend(b"PK\x06\x06");
    end.extend(44u64.to_le_bytes());
    end.extend([0; 12]);
    end.extend(n_entries.to_le_bytes());
    end.extend(n_entries.to_le_bytes());
    end.extend((directory.len() as u64).to_le_bytes());
    end.extend(start.to_le_bytes());
    end.extend(b"PK\x06\x07");
    end.extend([0; 4]);
    end.extend(end64.to_le_bytes());
    end.extend(1u32.to_le_bytes());
    end.extend(b"PK\x05\x06");
    end.extend([0; 4]);
    end.extend(u16::MAX.to_le_bytes());
    end.extend(u16::MAX.to_le_bytes());
    end.extend([0xff; 8]);
    end.extend([0; 2]);
    file.write_all(&end).expect("written");
}

fn weights(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut group = c.benchmark_group("open/weights");
    for mib in [1u64, 64, 1024, 16 * 1024] {
        let path = folder.path().join(format!("{mib}.pt2"));
        write_model(&path, 100, mib << 20);
        group.bench_with_input(BenchmarkId::from_parameter(format!("{mib}MiB")), &path, |b, path| {
            b.iter(|| {
                let pt2 = Pt2::open(path).expect("opens");
                black_box(import(&pt2).expect("imports"))
            });
        });
    }
    group.finish();
}

fn nodes(c: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, imports) in [("open/nodes/read", false), ("open/nodes/import", true)] {
        let mut group = c.benchmark_group(name);
        group.sample_size(10);
        for n_nodes in [100usize, 1_000, 10_000, 100_000] {
            let path = folder.path().join(format!("{n_nodes}.pt2"));
            write_model(&path, n_nodes, 64);
            group.throughput(Throughput::Elements(n_nodes as u64));
            let pt2 = Pt2::open(&path).expect("opens");
            group.bench_with_input(BenchmarkId::from_parameter(n_nodes), &path, |b, path| {
                b.iter(|| {
                    if imports {
                        black_box(import(&pt2).expect("imports"));
                    } else {
                        black_box(Pt2::open(path).expect("opens"));
                    }
                });
            });
        }
        group.finish();
    }
}

fn models(c: &mut Criterion) {
    let mut group = c.benchmark_group("open/model");
    for model in ["mlp", "lit_llama2", "hf_gpt2", "hf_t5", "tv_mobilenet_v2"] {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(model).join("model.pt2");
        group.bench_with_input(BenchmarkId::from_parameter(model), &path, |b, path| {
            b.iter(|| {
                let pt2 = Pt2::open(path).expect("opens");
                black_box(import(&pt2).expect("imports"))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, weights, nodes, models);
criterion_main!(benches);
