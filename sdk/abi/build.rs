//! Tells the crate for which target and by which compiler it is built, so that the probe can say so.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").unwrap_or_default();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|answer| String::from_utf8(answer.stdout).ok())
        .unwrap_or_default();
    println!("cargo:rustc-env=THUNDERHEAD_TARGET={target}");
    println!("cargo:rustc-env=THUNDERHEAD_RUSTC={}", version.trim());
}
