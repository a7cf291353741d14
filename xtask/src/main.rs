//! `cargo xtask`: what a developer, a user from source and CI do with the workspace. One file a command.
//!
//! Deliberately not here: product logic. Whatever the product needs at run time lives in `host`, `sdk` or a plugin.

mod libtorch;
mod tool;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["libtorch"] => libtorch::command(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

const USAGE: &str = "";
