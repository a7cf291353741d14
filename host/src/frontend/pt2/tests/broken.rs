//! Files that are each wrong in one way, with the code that says so.

use super::super::*;
use super::zip_writer::{Item, items, write};
use super::{models, read};

/// `mlp`, its entries changed by `change`.
fn changed(change: impl FnOnce(&mut Vec<Item>)) -> Vec<u8> {
    let mut list = items(&read(&models().join("mlp/model.pt2")));
    change(&mut list);
    write(&list)
}

fn find<'a>(list: &'a mut [Item], suffix: &str) -> &'a mut Item {
    list.iter_mut().find(|item| item.name.ends_with(suffix)).expect("an entry of mlp")
}

fn set(suffix: &str, data: &str) -> Vec<u8> {
    changed(|list| find(list, suffix).data = data.as_bytes().to_vec())
}

/// The entry's text with `from` replaced by `to`, which must occur.
fn edited(suffix: &str, from: &str, to: &str) -> Vec<u8> {
    changed(|list| {
        let item = find(list, suffix);
        let text = String::from_utf8(item.data.clone()).expect("JSON");
        assert!(text.contains(from), "{from}");
        item.data = text.replacen(from, to, 1).into_bytes();
    })
}

fn without(suffix: &str) -> Vec<u8> {
    changed(|list| list.retain(|item| !item.name.ends_with(suffix)))
}

const PROGRAM: &str = "models/model.json";
const WEIGHTS: &str = "model_weights_config.json";

fn cases() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let good = std::fs::read(models().join("mlp/model.pt2")).expect("readable");
    let nested = format!(r#"{{"as_graph": {{"name": "g", "graph": {{"x": {}"#, "[".repeat(200_000));
    vec![
        ("empty", Vec::new(), "model::not_an_archive"),
        ("text", b"hello".repeat(100), "model::not_an_archive"),
        ("half of it", good[..good.len() / 2].to_vec(), "model::not_an_archive"),
        ("last byte lost", good[..good.len() - 1].to_vec(), "model::not_an_archive"),
        ("first byte lost", good[1..].to_vec(), "model::archive_damaged"),
        ("no entries", write(&[]), "model::not_a_program"),
        ("another ZIP", write(&[Item::new("a/b.txt", "hello")]), "model::not_a_program"),
        ("a torch.save file", write(&[Item::new("archive/data.pkl", "")]), "model::not_a_program"),
        ("an entry twice", changed(|list| list.push(list[0].clone())), "model::entry_duplicate"),
        (
            "one header for two entries",
            changed(|list| list.push(Item { offset: Some(0), ..list[0].clone() })),
            "model::entry_duplicate",
        ),
        (
            "overlapping entries",
            changed(|list| {
                let big = find(list, "weight_0");
                let len = big.data.len() as u32 + 80;
                (big.size, big.packed_len) = (Some(len), Some(len));
            }),
            "model::archive_damaged",
        ),
        (
            "data beyond the end",
            changed(|list| {
                let big = find(list, "weight_0");
                (big.size, big.packed_len) = (Some(4_000_000_000), Some(4_000_000_000));
            }),
            "model::archive_damaged",
        ),
        ("header outside", changed(|list| list[0].offset = Some(u32::MAX - 1)), "model::archive_damaged"),
        (
            "ZIP64 without its field",
            changed(|list| list[0].offset = Some(u32::MAX)),
            "model::archive_damaged",
        ),
        ("header elsewhere", changed(|list| list[0].offset = Some(7)), "model::archive_damaged"),
        (
            "two names for one entry",
            changed(|list| list[0].local_name = Some(list[0].name.replace("data", "atad"))),
            "model::archive_damaged",
        ),
        ("stored with two sizes", changed(|list| list[0].size = Some(1)), "model::archive_damaged"),
        ("encrypted", changed(|list| find(list, PROGRAM).flags = 1), "model::entry_unsupported"),
        ("bzip2", changed(|list| find(list, PROGRAM).method = 12), "model::entry_unsupported"),
        ("bzip2 weights", changed(|list| find(list, "weight_3").method = 12), "model::entry_unsupported"),
        ("wrong checksum", changed(|list| find(list, PROGRAM).crc = Some(1)), "model::checksum"),
        (
            "a bomb",
            changed(|list| {
                let name = find(list, PROGRAM).name.clone();
                *find(list, PROGRAM) = Item::deflated(&name, &vec![b' '; 200 << 20]);
            }),
            "model::entry_too_large",
        ),
        (
            "deflate with a lying size",
            changed(|list| {
                let (name, data) = (find(list, PROGRAM).name.clone(), find(list, PROGRAM).data.clone());
                *find(list, PROGRAM) = Item { size: Some(10), ..Item::deflated(&name, &data) };
            }),
            "model::archive_damaged",
        ),
        (
            "broken deflate",
            changed(|list| *find(list, PROGRAM) = Item { method: 8, ..find(list, PROGRAM).clone() }),
            "model::archive_damaged",
        ),
        ("another format", set("archive_format", "pt3"), "model::not_a_program"),
        ("another archive version", set("archive_version", "1"), "model::archive_version"),
        ("no archive version", without("archive_version"), "model::entry_missing"),
        ("big endian", set("byteorder", "big"), "model::byte_order"),
        ("no program", without(PROGRAM), "model::not_a_program"),
        (
            "several programs",
            changed(|list| {
                let program = find(list, PROGRAM);
                program.name = program.name.replace("model.json", "a.json");
                let other = Item::new(&program.name.replace("a.json", "b.json"), program.data.clone());
                list.push(other);
            }),
            "model::programs_ambiguous",
        ),
        ("empty program", set(PROGRAM, ""), "model::json"),
        ("not JSON", set(PROGRAM, "{\"graph_module\": nonsense}"), "model::json"),
        ("not UTF-8", changed(|list| find(list, PROGRAM).data[300] = 0xff), "model::json"),
        ("nested deeply", set(PROGRAM, &nested), "model::json"),
        ("a number for a graph", set(PROGRAM, "{\"graph_module\": 3}"), "model::json"),
        ("schema 9", edited(PROGRAM, "\"major\": 8", "\"major\": 9"), "model::schema_major"),
        (
            "schema 9 with another shape",
            set(PROGRAM, "{\"schema_version\": {\"major\": 9, \"minor\": 0}, \"graph_module\": []}"),
            "model::schema_major",
        ),
        (
            "an integer beyond i64",
            edited(PROGRAM, "\"as_int\": 32", "\"as_int\": 99999999999999999999"),
            "model::json",
        ),
        ("two tags", edited(PROGRAM, "\"as_int\": 32", "\"as_int\": 32, \"as_expr\": null"), "model::json"),
        ("no weights config", without(WEIGHTS), "model::entry_missing"),
        ("no constants config", without("model_constants_config.json"), "model::entry_missing"),
        ("config without config", set(WEIGHTS, "{}"), "model::json"),
        ("no file for a weight", without("weight_2"), "model::entry_missing"),
        ("path out of the folder", edited(WEIGHTS, "weight_0", "../../byteorder"), "model::entry_missing"),
        ("size too large", edited(WEIGHTS, "\"as_int\": 32", "\"as_int\": 33"), "model::weight_bounds"),
        (
            "size far too large",
            edited(WEIGHTS, "\"as_int\": 32", "\"as_int\": 9223372036854775807"),
            "model::weight_bounds",
        ),
        ("negative size", edited(WEIGHTS, "\"as_int\": 32", "\"as_int\": -32"), "model::weight_bounds"),
        (
            "symbolic size",
            edited(
                WEIGHTS,
                "{\"as_int\": 32}",
                "{\"as_expr\": {\"expr_str\": \"Symbol('s0')\", \"hint\": null}}",
            ),
            "model::weight_bounds",
        ),
        (
            "offset outside",
            edited(WEIGHTS, "\"storage_offset\": {\"as_int\": 0}", "\"storage_offset\": {\"as_int\": 1}"),
            "model::weight_bounds",
        ),
        ("f64 read from f32 bytes", edited(WEIGHTS, "\"dtype\": 7", "\"dtype\": 8"), "model::weight_bounds"),
    ]
}

#[test]
fn each_broken_file_has_its_code() {
    let mut wrong = Vec::new();
    for (name, bytes, expected) in cases() {
        match Pt2::from_bytes(FileBytes::from_vec(bytes)) {
            Err(error) if error.code_text() == expected => {}
            Err(error) => wrong.push(format!("{name}: {} ({error}), expected {expected}", error.code_text())),
            Ok(_) => wrong.push(format!("{name}: opened, expected {expected}")),
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// What is odd but right, or wrong only where nobody looks.
#[test]
fn each_odd_file_opens() {
    let odd: Vec<(&str, Vec<u8>)> = vec![
        ("as it was", changed(|_| {})),
        (
            "deflated throughout",
            changed(|list| {
                list.iter_mut().for_each(|item| *item = Item::deflated(&item.name, &item.data));
            }),
        ),
        (
            "an unknown field",
            edited(PROGRAM, "{\"graph_module\"", "{\"moon_phase\": [1, {}], \"graph_module\""),
        ),
        ("an unknown tag", edited(PROGRAM, "\"as_int\": 32", "\"as_hologram\": {\"x\": []}")),
        ("a foreign entry", changed(|list| list.push(Item::new("elsewhere/x", "y")))),
        (
            "another name",
            changed(|list| find(list, PROGRAM).name = "model/models/other.json".to_owned()).clone(),
        ),
    ];
    for (name, bytes) in odd {
        let opened = Pt2::from_bytes(FileBytes::from_vec(bytes));
        // Configs carry the program's name, so a renamed program lacks them: a clear error, not a wrong file.
        if name == "another name" {
            assert_eq!(opened.expect_err(name).code_text(), "model::entry_missing");
            continue;
        }
        let pt2 = opened.unwrap_or_else(|error| panic!("{name}: {error}"));
        for id in 0..pt2.weights.storages().len() {
            let bytes = pt2.weights.bytes(weights::StorageId(id as u32)).expect(name);
            assert!(bytes.is_aligned(64), "{name}");
        }
    }
}

#[test]
fn a_newer_minor_version_is_read_with_a_warning() {
    let bytes = edited(PROGRAM, "\"minor\": 20", "\"minor\": 99");
    let pt2 = Pt2::from_bytes(FileBytes::from_vec(bytes)).expect("opens");
    assert_eq!(pt2.warnings.len(), 1);
    assert!(pt2.warnings[0].contains("8.99"), "{}", pt2.warnings[0]);
}

#[test]
fn what_cannot_be_loaded_is_an_error_only_where_it_is_wanted() {
    for (from, to) in [
        ("\"use_pickle\": false", "\"use_pickle\": true"),
        ("\"layout\": 7", "\"layout\": 1"),
        ("\"dtype\": 7", "\"dtype\": 99"),
    ] {
        let pt2 = Pt2::from_bytes(FileBytes::from_vec(edited(WEIGHTS, from, to))).expect("opens");
        let states = weights::Section::States;
        let refused =
            ["net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias", "net.4.weight", "net.4.bias"]
                .iter()
                .filter_map(|fqn| pt2.weights.tensor(states, fqn, "parameter").err())
                .map(|error| error.code_text())
                .collect::<Vec<_>>();
        assert_eq!(refused, ["model::weight_unsupported"], "{to}");
        let error = pt2.weights.tensor(states, "net.9.weight", "parameter").expect_err("absent");
        assert_eq!(error.code_text(), "model::weight_missing");
    }
}
