//! The command line: one file a command. `args` is the grammar, `failure` what can go wrong here, `exit` which of the codes in
//! `exit_code` that is, `render` how things look. Nothing here can do what a user's program could not.

mod args;
mod bench;
mod config;
mod doctor;
mod exit;
mod exit_code;
mod explain;
mod failure;
mod fill;
mod grad;
mod log;
mod ops;
mod outputs;
mod plan;
mod plugins;
mod program;
mod render;
mod run;
mod trace;
mod train;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use thunderhead::run::CompileError;

use args::{Cli, Command};
use exit_code::Exit;
use failure::Failure;
use render::Screen;

/// Parses the arguments, does what they say, and says what went wrong.
pub fn main() -> ExitCode {
    // Before any thread or plugin exists.
    thunderhead::prepare_process();
    let cli = Cli::parse();
    let screen = Screen::new(&cli.screen);
    match dispatch(&cli, &screen) {
        Ok(()) => Exit::Ok.into(),
        Err(failure) => {
            screen.line(described(&failure, &screen).trim_end());
            if cli.command.fills_inputs() && failure.is_of_inputs() {
                screen.line("  the inputs were filled from a seed, and do not suit this program: give it its own with --inputs");
            }
            failure.exit().into()
        }
    }
}

fn described(failure: &Failure, screen: &Screen) -> String {
    let unclaimed = match failure {
        Failure::Host(thunderhead::Error::Compile(error)) => match &**error {
            CompileError::Claim(error) => render::diagnostic::unclaimed(error, screen.err),
            _ => None,
        },
        _ => None,
    };
    unclaimed.unwrap_or_else(|| render::diagnostic::render(failure, screen.err))
}

fn dispatch(cli: &Cli, screen: &Screen) -> Result<(), Failure> {
    match &cli.command {
        Command::Run(args) => run::run(args, screen),
        Command::Train(args) => train::run(args, screen),
        Command::Grad(args) => grad::run(args, screen),
        Command::Trace(args) => trace::run(args, screen),
        Command::Explain(args) => explain::run(args, screen),
        Command::Plan(args) => plan::run(args, screen),
        Command::Bench(args) => bench::run(args, screen),
        Command::Plugins { command } => plugins::run(command, screen),
        Command::Config { command } => config::run(command, screen),
        Command::Doctor(args) => doctor::run(args, screen),
        Command::Ops(args) => ops::run(args, screen),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "thunderhead", &mut script);
            screen.data(&String::from_utf8_lossy(&script))
        }
    }
}
