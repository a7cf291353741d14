//! Running other programs and touching files, with errors that say what was attempted and what to do about it.
//!
//! Deliberately not here: anything that knows a particular command of this crate.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why a command of this crate gave up: what failed, and what the user can do.
#[derive(Debug)]
pub struct Failure {
    what: String,
    help: String,
}

impl Failure {
    /// `help` may be empty where nothing but the message itself helps.
    pub fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        Failure { what: what.into(), help: help.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if !self.help.is_empty() {
            write!(f, "\n  help  {}", self.help)?;
        }
        Ok(())
    }
}

impl Error for Failure {}

/// The workspace's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace's folder")
}

/// The folder that cargo builds into.
pub fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// The cargo that runs this crate, working in the workspace's folder.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs `command` to its end, its output where the user sees it; `what` finishes the sentence "could not …".
pub fn run(command: &mut Command, what: &str) -> Result<(), Failure> {
    let status = command.status().map_err(|error| not_started(command, what, &error))?;
    if status.success() { Ok(()) } else { Err(ended(command, what, &status.to_string())) }
}

/// Like [`run`], but what the program prints goes to stderr: stdout is for this command's own data.
pub fn run_to_stderr(command: &mut Command, what: &str) -> Result<(), Failure> {
    command.stdout(io::stderr());
    run(command, what)
}

/// Runs `command` and returns what it printed on stdout.
pub fn output(command: &mut Command, what: &str) -> Result<String, Failure> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| not_started(command, what, &error))?;
    if !output.status.success() {
        return Err(ended(command, what, &output.status.to_string()));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| Failure::new(format!("could not {what}: its answer is not UTF-8"), ""))
}

/// Names the file in an I/O error.
pub fn io<T>(what: &str, path: &Path, result: io::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| Failure::new(format!("could not {what} `{}`: {error}", path.display()), ""))
}

/// Removes a folder with everything in it; fine if there is none.
pub fn remove_folder(path: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => io("remove", path, Err(error)),
        _ => Ok(()),
    }
}

/// python3 with pip, which bring libtorch.
pub fn require_pip() -> Result<(), Failure> {
    if !answers("python3", &["--version"]) {
        return Err(Failure::new(
            "python3 is missing, and libtorch is fetched with its pip",
            "install it (Debian: `apt-get install python3 python3-pip`), set LIBTORCH, or go without: `--no-torch`",
        ));
    }
    if !answers("python3", &["-m", "pip", "--version"]) {
        return Err(Failure::new(
            "python3 has no pip, which fetches libtorch",
            "install it (Debian: `apt-get install python3-pip`), set LIBTORCH, or go without: `--no-torch`",
        ));
    }
    Ok(())
}

/// A C++ compiler, which the libtorch plugins need.
pub fn require_cxx() -> Result<(), Failure> {
    let name = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    if answers(&name, &["--version"]) {
        return Ok(());
    }
    Err(Failure::new(
        format!("the C++ compiler `{name}` is missing; the plugins over libtorch need it"),
        "install it (Debian: `apt-get install g++`), set CXX, or go without: `--no-torch`",
    ))
}

/// Does this program start and answer with success?
fn answers(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn not_started(command: &Command, what: &str, error: &io::Error) -> Failure {
    let program = command.get_program().to_string_lossy();
    Failure::new(
        format!("could not {what}: `{program}` does not start: {error}"),
        format!("is `{program}` installed?"),
    )
}

fn ended(command: &Command, what: &str, status: &str) -> Failure {
    let program = command.get_program().to_string_lossy();
    Failure::new(format!("could not {what}: `{program}` ended with {status}"), "its own messages stand above")
}
