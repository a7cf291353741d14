//! `cargo xtask demo`: from a clean clone to a checked result, in one command.
//!
//! Builds the tree of `dist`, runs a one-layer Llama-2-shaped model that PyTorch exported through a preset, lets the
//! host compare the result with PyTorch's own, and prints the execution trace.
//!
//! Deliberately not here: any comparison of its own; the product's `--expect` is what a user has, too.

use std::process::Command;

use crate::dist::{self, Profile, Torch};
use crate::tool::{self, Failure};

/// `cargo xtask demo`.
pub fn command(torch: Torch) -> Result<(), Failure> {
    let (preset, profile) = match torch {
        Torch::Fetch => ("default", Profile::Release),
        Torch::Without => ("reference", Profile::Quick),
    };
    let tree = dist::build(torch, profile)?;
    let program = tree.join("bin/thunderhead");
    let folder = tool::root().join("tests/models/lit_llama2");
    let model = folder.join("model.pt2");

    eprintln!("\n# one layer of a Llama-2, as exported by PyTorch; its result against PyTorch's");
    let mut run = Command::new(&program);
    run.arg("run").arg(&model).args(["--config", preset]);
    run.arg("--inputs").arg(folder.join("inputs.safetensors"));
    run.arg("--expect").arg(folder.join("expected.safetensors"));
    tool::run(&mut run, "run the model")?;

    eprintln!("\n# who ran what: the execution trace");
    let mut trace = Command::new(&program);
    trace.arg("trace").arg(&model).args(["--config", preset, "--stage", "execution"]);
    tool::run(&mut trace, "print the execution trace")?;

    if profile == Profile::Quick {
        eprintln!(
            "\n# built without optimisation, to be soon there; `cargo xtask dist --no-torch` builds the tree to use"
        );
    }
    eprintln!(
        "\n# the same by hand:\n{} run MODEL.pt2 --inputs IN.safetensors --config {preset}",
        program.display()
    );
    Ok(())
}
