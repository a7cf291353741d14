//! Gradients of real exported models against PyTorch's autograd: every model with cotangents, in both dialects where
//! the core file has kept what gradients need.

#[path = "support/exported.rs"]
mod exported;
#[path = "support/models.rs"]
mod models;

use exported::{dist, host};
use thunderhead::Host;

#[test]
fn reference_gives_pytorchs_gradients() {
    all_models(&host("reference", None, 1));
}

#[test]
fn pytorch_gives_its_own_gradients() {
    if let Some(dist) = dist() {
        all_models(&host("pytorch", Some(&dist), 1));
    }
}

fn all_models(host: &Host) {
    let mut wrong = Vec::new();
    let mut n_checked = 0;
    for folder in models::folders("grads.safetensors") {
        let name = models::name(&folder);
        for remat in [true, false] {
            match models::gradients(host, &folder, remat, &|_| 1.0) {
                Ok(()) => n_checked += 1,
                Err(why) => wrong.push(format!("{name} (remat {remat}): {why}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} right, wrong:\n{}", n_checked, wrong.join("\n"));
    assert!(n_checked >= 36, "only {n_checked} models have gradients");
}
