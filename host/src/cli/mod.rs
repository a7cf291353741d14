//! The command line: one file a command. `args` is the grammar, `exit` the codes, `failure` what can go wrong here,
//! `render` how things look. Nothing here can do what a user's program could not.

#![allow(dead_code)]
mod args;
mod compare;
mod exit;
mod failure;
mod fill;
mod ops;
mod render;
mod tensors;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};
use exit::Exit;
use failure::Failure;
use render::Screen;

/// Parses the arguments, does what they say, and says what went wrong.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let screen = Screen::new(&cli.screen);
    match dispatch(&cli, &screen) {
        Ok(()) => Exit::Ok.into(),
        Err(failure) => {
            screen.line(render::diagnostic::render(&failure, screen.err).trim_end());
            failure.exit().into()
        }
    }
}

fn dispatch(cli: &Cli, screen: &Screen) -> Result<(), Failure> {
    match &cli.command {
        Command::Ops(args) => ops::run(args, screen),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "thunderhead", &mut script);
            screen.data(&String::from_utf8_lossy(&script))
        }
        other => {
            let message = format!("not built yet: {other:?}");
            Err(Failure::Usage { message, advice: String::new() })
        }
    }
}
