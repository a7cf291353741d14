//! `cargo xtask test`: the whole suite, with libtorch where there is one (or can be fetched), without it on demand.
//!
//! The tests of the default members need nothing but Rust. Those of the plugins over libtorch, and whole-system tests
//! that want a relocatable tree, find it through `THUNDERHEAD_DIST`, which this command sets after building that tree
//! with the same profile as the tests, so that nothing is compiled twice.
//!
//! The last line printed is the sum of all: `N passed, N failed, N skipped`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::dist::{self, Profile, Torch};
use crate::libtorch;
use crate::tool::{self, Failure};

/// What the lines `test result: …` of cargo add up to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// `cargo xtask test`: everything, then the sum.
pub fn command(torch: Torch) -> Result<(), Failure> {
    let tree = dist::build(torch, Profile::Dev)?;
    let mut total = Counts::default();
    let mut failures = Vec::new();
    for (name, args) in suites(torch) {
        let mut cargo = tool::cargo();
        cargo.args(["test", "--locked", "--no-fail-fast"]).args(args);
        if torch == Torch::Fetch {
            libtorch::fetch()?.apply(&mut cargo);
        }
        if let Err(failure) = suite(&mut cargo, &tree, &mut total) {
            failures.push(format!("{name}: {failure}"));
        }
    }
    println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    match failures.as_slice() {
        [] => Ok(()),
        some => Err(Failure::new(some.join("\n"), "")),
    }
}

/// The default members in one go; the packages over libtorch in another, because they are no default members.
fn suites(torch: Torch) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut suites = vec![("default members", Vec::new())];
    if torch == Torch::Fetch {
        suites.extend(dist::TORCH_PLUGINS.iter().map(|&(package, _)| (package, vec!["--package", package])));
    }
    suites
}

fn suite(cargo: &mut Command, tree: &Path, total: &mut Counts) -> Result<(), Failure> {
    cargo.env("THUNDERHEAD_DIST", tree).stdout(Stdio::piped());
    let started = cargo.spawn();
    let mut child = started.map_err(|error| Failure::new(format!("could not start cargo: {error}"), ""))?;
    let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
    for line in BufReader::new(stdout).split(b'\n') {
        let line =
            line.map_err(|error| Failure::new(format!("could not read what cargo prints: {error}"), ""))?;
        let mut out = std::io::stdout().lock();
        // A closed pipe at the reader's side must not stop the tests.
        let _ = out.write_all(&line).and_then(|()| out.write_all(b"\n"));
        total.add(&String::from_utf8_lossy(&line));
    }
    let status =
        child.wait().map_err(|error| Failure::new(format!("could not wait for cargo: {error}"), ""))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("cargo test ended with {status}"), "")) }
}

impl Counts {
    /// Adds one line of cargo's output, if it is a result: `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    fn add(&mut self, line: &str) {
        let Some(rest) = line.trim().strip_prefix("test result: ") else { return };
        let Some((_, numbers)) = rest.split_once(". ") else { return };
        for part in numbers.split(';') {
            let mut words = part.split_whitespace();
            let (Some(number), Some(what)) = (words.next(), words.next()) else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_what_cargo_says() {
        let mut counts = Counts::default();
        counts.add(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s",
        );
        counts.add("test x::y ... ok");
        counts.add("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!(counts, Counts { passed: 14, failed: 3, skipped: 1 });
    }
}
