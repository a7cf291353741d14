//! Damaged programs: an error or a trace, never a panic, never more time than the file accounts for.
//!
//! JSON of real models and small graphs with one token replaced; checksums are right, so all of it reaches the importer.

use std::time::{Duration, Instant};

use crate::frontend::import;
use crate::frontend::pt2::Pt2;
use crate::frontend::pt2::tests::mutation::{Rng, mutate_token};
use crate::frontend::pt2::tests::zip_writer::{Item, items, write};
use crate::frontend::pt2::tests::{current_files, old_files};
use crate::memory::FileBytes;

const SEED: u64 = 20_260_302;
const TIME_LIMIT: Duration = Duration::from_secs(20);

#[test]
fn damaged_programs_do_no_harm() {
    let mut rng = Rng(SEED);
    let files: Vec<(String, Vec<Item>)> = current_files()
        .into_iter()
        .chain(old_files())
        .map(|path| (path.display().to_string(), std::fs::read(path).expect("readable")))
        .filter(|(_, bytes)| bytes.len() < 50_000)
        .map(|(name, bytes)| (name, items(&bytes)))
        .collect();
    assert!(files.len() > 8);
    let (mut n_imported, mut n_cases) = (0, 0);
    for case in 0..1500 {
        let (name, original) = &files[rng.below(files.len())];
        let mut list = original.clone();
        let program = list.iter_mut().find(|item| {
            item.name.ends_with("models/model.json") || item.name == "serialized_exported_program.json"
        });
        let program = program.expect("a program");
        for _ in 0..1 + rng.below(2) {
            mutate_token(&mut program.data, &mut rng);
        }
        let bytes = write(&list);
        let before = Instant::now();
        let outcome = std::panic::catch_unwind(move || {
            let Ok(pt2) = Pt2::from_bytes(FileBytes::from_vec(bytes)) else { return false };
            match import(&pt2) {
                Ok(imported) => {
                    assert_eq!(crate::ir::verify::verify(&imported.module), vec![]);
                    true
                }
                Err(_) => false,
            }
        });
        let Ok(imported) = outcome else { panic!("panic in case {case} of {name}, seed {SEED}") };
        assert!(
            before.elapsed() < TIME_LIMIT,
            "case {case} of {name}, seed {SEED} took {:?}",
            before.elapsed()
        );
        n_imported += usize::from(imported);
        n_cases += 1;
    }
    println!("{n_imported} of {n_cases} damaged programs still import");
}
