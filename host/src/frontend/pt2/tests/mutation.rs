//! Thousands of damaged files: an error or a program, never a panic, never more memory than the file accounts for.
//!
//! Deterministic: the seed is fixed and printed, each failure names its case. `fuzz/` explores the same doors further.

use std::time::{Duration, Instant};

use super::super::*;
use super::zip_writer::{Item, items, write};
use super::{current_files, old_files};

/// SplitMix64: enough randomness, and the same everywhere.
pub(in crate::frontend) struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

const SEED: u64 = 20_260_301;
/// Generous: an unoptimised build on a loaded machine takes a few milliseconds.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Opens, and looks at every weight that it offers.
fn exercise(bytes: Vec<u8>) {
    let Ok(pt2) = Pt2::from_bytes(FileBytes::from_vec(bytes)) else { return };
    for id in 0..pt2.weights.storages().len() {
        if let Ok(bytes) = pt2.weights.bytes(weights::StorageId(id as u32)) {
            std::hint::black_box(bytes.first());
            std::hint::black_box(bytes.last());
        }
    }
}

fn survive(case: &str, bytes: Vec<u8>) {
    let before = Instant::now();
    let outcome = std::panic::catch_unwind(move || exercise(bytes));
    assert!(outcome.is_ok(), "panic in case {case} of seed {SEED}");
    assert!(before.elapsed() < TIME_LIMIT, "case {case} of seed {SEED} took {:?}", before.elapsed());
}

/// Small files mutate best: each byte matters.
fn small_files() -> Vec<(String, Vec<u8>)> {
    current_files()
        .into_iter()
        .chain(old_files())
        .map(|path| (path.display().to_string(), std::fs::read(path).expect("readable")))
        .filter(|(_, bytes)| bytes.len() < 100_000)
        .collect()
}

fn flip(bytes: &mut [u8], rng: &mut Rng) {
    if bytes.is_empty() {
        return;
    }
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len());
        bytes[at] = match rng.below(4) {
            0 => 0,
            1 => 0xff,
            2 => bytes[at] ^ (1 << rng.below(8)),
            _ => rng.next() as u8,
        };
    }
}

#[test]
fn damaged_archives_do_no_harm() {
    let mut rng = Rng(SEED);
    let files = small_files();
    for case in 0..2500 {
        let (name, original) = &files[rng.below(files.len())];
        let mut bytes = original.clone();
        match rng.below(5) {
            0 => bytes.truncate(rng.below(bytes.len())),
            1 => flip(&mut bytes, &mut rng),
            // The directory and the end record hold the lies that count: aim there.
            2 | 3 => {
                let start = bytes.len() - rng.below(1200).max(1);
                flip(&mut bytes[start..], &mut rng);
            }
            _ => {
                let (from, to) = (rng.below(bytes.len()), rng.below(bytes.len()));
                let len = rng.below(bytes.len() - from.max(to));
                bytes.copy_within(from..from + len, to);
            }
        }
        survive(&format!("{case} of {name}"), bytes);
    }
}

/// JSON damaged inside an archive that is whole: checksums are right, so every mutation reaches the parser.
#[test]
fn damaged_texts_do_no_harm() {
    let mut rng = Rng(SEED + 1);
    let files: Vec<(String, Vec<Item>)> = small_files()
        .into_iter()
        .filter(|(name, bytes)| bytes.len() < 60_000 && !name.contains("old"))
        .map(|(name, bytes)| (name, items(&bytes)))
        .collect();
    for case in 0..2500 {
        let (name, original) = &files[rng.below(files.len())];
        let mut list = original.clone();
        let texts: Vec<usize> = (0..list.len()).filter(|i| list[*i].name.ends_with(".json")).collect();
        let item = &mut list[texts[rng.below(texts.len())]];
        match rng.below(3) {
            0 => flip(&mut item.data, &mut rng),
            1 => mutate_token(&mut item.data, &mut rng),
            _ => mutate_token(&mut item.data, &mut rng),
        }
        survive(&format!("{case} of {name}"), write(&list));
    }
}

/// Replaces one number, string or bracket by another that is likely to hurt.
pub(in crate::frontend) fn mutate_token(json: &mut Vec<u8>, rng: &mut Rng) {
    const NUMBERS: [&str; 10] = [
        "-1",
        "0",
        "1",
        "64",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
        "18446744073709551615",
        "null",
        "[]",
    ];
    let starts: Vec<usize> = (1..json.len())
        .filter(|&i| json[i].is_ascii_digit() && !json[i - 1].is_ascii_alphanumeric() && json[i - 1] != b'_')
        .collect();
    if starts.is_empty() {
        return;
    }
    let start = starts[rng.below(starts.len())];
    let len = json[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    match rng.below(3) {
        0 => {
            let other = starts[rng.below(starts.len())];
            let other_len = json[other..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let copy = json[other..other + other_len].to_vec();
            json.splice(start..start + len, copy);
        }
        1 => {
            json.splice(start..start + len, NUMBERS[rng.below(NUMBERS.len())].bytes());
        }
        _ => {
            // One quoted word becomes another: names that are defined twice, never, or in a circle.
            let quotes: Vec<usize> = (0..json.len()).filter(|&i| json[i] == b'"').collect();
            let pick = |rng: &mut Rng| {
                let i = rng.below(quotes.len() / 2) * 2;
                (quotes[i], quotes[i + 1])
            };
            let ((a0, a1), (b0, b1)) = (pick(rng), pick(rng));
            let word = json[a0..a1].to_vec();
            json.splice(b0..b1, word);
        }
    }
}
