//! The `thunderhead` command. Everything it does goes through the library, as any user's program would.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
