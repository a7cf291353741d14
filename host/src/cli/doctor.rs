//! `thunderhead doctor`: everything that a working installation needs, looked at one by one. It goes on after a fault
//! and ends with exit code 4 if an executor of the order cannot be had, 3 if the config is wrong.

use serde_json::json;

use super::args::DoctorArgs;
use super::failure::Failure;
use super::program::{look, open_host};
use super::render::Screen;

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good,
    Note,
    Bad,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Good => "good",
            State::Note => "note",
            State::Bad => "BAD",
        }
    }
}

/// One thing looked at.
struct Finding {
    state: State,
    what: String,
    said: String,
    help: Option<String>,
}

impl Finding {
    fn new(state: State, what: impl Into<String>, said: impl Into<String>) -> Finding {
        Finding { state, what: what.into(), said: said.into(), help: None }
    }
}
