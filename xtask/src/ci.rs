//! `cargo xtask ci`: format, lints and documentation, as CI demands them. Tests are `cargo xtask test`.

use std::process::Command;

use crate::dist::{self, Torch};
use crate::libtorch;
use crate::tool::{self, Failure};

/// `cargo xtask ci`: stops at the first check that fails.
pub fn command(torch: Torch) -> Result<(), Failure> {
    tool::run(
        tool::cargo().args(["fmt", "--all", "--check"]),
        "pass the format check (`cargo fmt` repairs it)",
    )?;
    let mut clippy = tool::cargo();
    clippy.args(["clippy", "--locked", "--all-targets"]);
    members(&mut clippy, torch)?;
    clippy.args(["--", "-D", "warnings"]);
    tool::run(&mut clippy, "pass clippy")?;
    let mut doc = tool::cargo();
    doc.args(["doc", "--locked", "--no-deps", "--document-private-items"]);
    members(&mut doc, torch)?;
    doc.env("RUSTDOCFLAGS", "-D warnings");
    tool::run(&mut doc, "document the workspace without a warning")
}

/// All members, or all that need no libtorch.
fn members(cargo: &mut Command, torch: Torch) -> Result<(), Failure> {
    cargo.arg("--workspace");
    match torch {
        Torch::Fetch => libtorch::fetch()?.apply(cargo),
        Torch::Without => {
            let plugins = dist::TORCH_PLUGINS.iter().map(|(package, _)| *package);
            for package in plugins.chain([dist::TORCH_LIBRARY]) {
                cargo.args(["--exclude", package]);
            }
        }
    }
    Ok(())
}
