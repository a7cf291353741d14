//! Where output goes.

use std::env;
use std::io::{self, IsTerminal, Write};

use super::super::args::{ColorWhen, LogFormat, ScreenArgs};
use super::super::failure::Failure;

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// No colour at all.
    #[cfg(test)]
    pub const PLAIN: Paint = Paint { on: false };

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Errors.
    pub fn error(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    /// Warnings.
    pub fn warning(self, text: &str) -> String {
        self.wrap("1;33", text)
    }

    /// What went well.
    pub fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Names of fields.
    pub fn label(self, text: &str) -> String {
        self.wrap("36", text)
    }

    /// Less important.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// Headings.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }
}

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    Quiet,
    Normal,
    /// Number of `-v`.
    More(u8),
}

/// Both streams and how they are used.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    pub verbosity: Verbosity,
    pub log_format: LogFormat,
    /// For stdout.
    pub out: Paint,
    /// For stderr.
    pub err: Paint,
    /// Columns of stdout, if it is a terminal.
    pub width: Option<u16>,
    err_is_terminal: bool,
}

impl Screen {
    /// As the arguments, the environment and the streams want it.
    pub fn new(args: &ScreenArgs) -> Screen {
        let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let paint = |is_terminal: bool| Paint {
            on: match args.color {
                ColorWhen::Always => true,
                ColorWhen::Never => false,
                ColorWhen::Auto => is_terminal && !no_color && !dumb,
            },
        };
        let (out_is_terminal, err_is_terminal) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Screen {
            verbosity: match (args.quiet, args.verbose) {
                (true, _) => Verbosity::Quiet,
                (false, 0) => Verbosity::Normal,
                (false, n) => Verbosity::More(n),
            },
            log_format: args.log_format,
            out: paint(out_is_terminal),
            err: paint(err_is_terminal),
            width: out_is_terminal.then(super::table::terminal_width).flatten(),
            err_is_terminal,
        }
    }

    /// The same, quiet.
    pub fn quiet(&self) -> Screen {
        Screen { verbosity: Verbosity::Quiet, ..*self }
    }

    /// Writes data to stdout. A reader that has gone away is no error.
    pub fn data(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::Write { path: "stdout".into(), reason: error.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Says a line on stderr, unless quiet.
    pub fn say(&self, line: &str) {
        if self.verbosity > Verbosity::Quiet {
            self.line(line);
        }
    }

    /// Says a line on stderr where more is wanted.
    pub fn detail(&self, line: &str) {
        if self.verbosity > Verbosity::Normal {
            self.line(line);
        }
    }

    /// Says a line on stderr whatever is wanted: errors. There is nobody to tell if that fails.
    pub fn line(&self, line: &str) {
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    /// Whether somebody watches stderr, so that progress is worth a line.
    pub fn is_watched(&self) -> bool {
        self.err_is_terminal && self.verbosity > Verbosity::Quiet && self.log_format == LogFormat::Text
    }
}
