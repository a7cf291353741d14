//! `cargo xtask bless`: takes what the tests produce now as what they expect: filetests, snapshots, derived files.
//!
//! The commit that carries blessed files says why they changed.

use crate::codegen;
use crate::tool::{self, Failure};

/// The switch that every harness of golden files in this workspace reads.
pub const SWITCH: &str = "THUNDERHEAD_BLESS";

/// `cargo xtask bless [TEST-FILTER…]`.
pub fn command(filters: &[&str]) -> Result<(), Failure> {
    codegen::command()?;
    let mut cargo = tool::cargo();
    cargo.args(["test", "--locked", "--no-fail-fast", "--"]).args(filters);
    cargo.env(SWITCH, "1").env("INSTA_UPDATE", "always");
    // What says how plugins answer needs the tree that `cargo xtask test` has built.
    let tree = tool::target_folder().join("dist-dev");
    if tree.is_dir() {
        cargo.env("THUNDERHEAD_DIST", tree);
    }
    tool::run(&mut cargo, "run the tests that write golden files")
}
