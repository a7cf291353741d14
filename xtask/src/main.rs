//! `cargo xtask`: what a developer, a user from source and CI do with the workspace. One file a command.
//!
//! Deliberately not here: product logic. Whatever the product needs at run time lives in `host`, `sdk` or a plugin.

mod bench;
mod bless;
mod ci;
mod codegen;
mod demo;
mod dist;
mod errors;
mod libtorch;
mod test;
#[cfg(test)]
mod tidy;
mod tool;

use std::process::ExitCode;

use dist::Torch;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo [--no-torch]   build everything and run a model that PyTorch exported; the result is checked against PyTorch's
  dist [--no-torch]   build the tree that can be copied anywhere: target/dist
  test [--no-torch]   the whole test suite
  ci [--no-torch]     format, lints and documentation, warnings denied
  libtorch            print where libtorch is; fetch it first if the machine has none
  codegen             write the files that are derived from the op table
  bench [--python PATH] [--seconds S] [MODEL…]
                      time the bench models, beside PyTorch where PATH is a python with torch; writes BENCHMARKS.md
  model NAME          write a bench model, weights from a seed, and print where
  bless [FILTER…]     take what the tests produce now as what they expect

--no-torch leaves out what needs libtorch, and the download of it.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // The only command whose options take values.
    if args.first().is_some_and(|word| word == "bench") {
        let words: Vec<&str> = args[1..].iter().map(String::as_str).collect();
        return match bench::Options::parse(&words) {
            Some(options) => ended(bench::command(&options)),
            None => usage(),
        };
    }
    let (flags, words): (Vec<&str>, Vec<&str>) =
        args.iter().map(String::as_str).partition(|arg| arg.starts_with('-'));
    let torch = match flags.as_slice() {
        [] => Torch::Fetch,
        ["--no-torch"] => Torch::Without,
        _ => return usage(),
    };
    ended(match words.as_slice() {
        ["demo"] => demo::command(torch),
        ["dist"] => dist::command(torch),
        ["test"] => test::command(torch),
        ["ci"] => ci::command(torch),
        ["libtorch"] if torch == Torch::Fetch => libtorch::command(),
        ["codegen"] if torch == Torch::Fetch => codegen::command(),
        ["bless", filters @ ..] if torch == Torch::Fetch => bless::command(filters),
        ["model", name] => bench::write_model(name),
        _ => return usage(),
    })
}

fn ended(result: Result<(), tool::Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
