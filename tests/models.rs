//! Real exported models through the library: PyTorch's outputs, on both calls of one session, and its state.
//!
//! Every model of `tests/models` runs in both dialects with `reference`, and with `pytorch` where `THUNDERHEAD_DIST`
//! names a tree that has the plugin. What is known not to work is data with a reason; if it works after all, that fails
//! too, so that the list stays true.

#[path = "support/exported.rs"]
mod exported;
#[path = "support/models.rs"]
mod models;

use exported::{dist, host};
use thunderhead::Host;

/// A model and dialect that an executor is known not to run, and why.
struct Exception {
    executor: &'static str,
    model: &'static str,
    why: &'static str,
}

const EXCEPTIONS: &[Exception] = &[];

#[test]
fn reference_gives_pytorchs_results() {
    all_models("reference", &host("reference", None, 0));
}

#[test]
fn pytorch_gives_its_own_results() {
    let Some(dist) = dist() else { return };
    all_models("pytorch", &host("pytorch", Some(&dist), 0));
}

fn all_models(executor: &str, host: &Host) {
    let folders = models::folders("meta.json");
    assert!(folders.len() >= 19, "only {} models", folders.len());
    let mut wrong = Vec::new();
    for folder in &folders {
        let name = models::name(folder);
        for dialect in ["model", "core"] {
            let case = format!("{name}/{dialect}");
            let known = EXCEPTIONS.iter().find(|e| e.executor == executor && e.model == case);
            match (models::results(host, folder, dialect), known) {
                (Ok(()), None) | (Err(_), Some(_)) => {}
                (Ok(()), Some(known)) => wrong.push(format!("{case} works; it is listed: {}", known.why)),
                (Err(why), None) => wrong.push(format!("{case}: {why}")),
            }
        }
    }
    assert!(wrong.is_empty(), "with {executor}:\n{}", wrong.join("\n"));
}
