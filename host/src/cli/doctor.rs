//! `thunderhead doctor`: everything that a working installation needs, looked at one by one. It goes on after a fault and
//! ends with exit code 3 where the config is wrong, 4 where an executor that is required cannot be had.

use serde::Serialize;
use thunderhead::Look;
use thunderhead::config::PRESETS;

use super::args::DoctorArgs;
use super::failure::Failure;
use super::program::look_around;
use super::render::diagnostic::field;
use super::render::{Paint, Screen};

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Good,
    /// Worth knowing, and no fault.
    Note,
    Bad,
}

/// One thing looked at.
#[derive(Debug, Serialize)]
struct Finding {
    state: State,
    what: &'static str,
    said: String,
    help: Option<String>,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, state: State, what: &'static str, said: impl Into<String>, help: Option<String>) {
        self.0.push(Finding { state, what, said: said.into(), help: help.filter(|help| !help.is_empty()) });
    }

    fn n_bad(&self) -> usize {
        self.0.iter().filter(|finding| finding.state == State::Bad).count()
    }
}

pub fn run(args: &DoctorArgs, screen: &Screen) -> Result<(), Failure> {
    let mut findings = Findings::default();
    machine(&mut findings);
    let look = look_around(&args.config)?;
    let config_is_bad = config(&look, &mut findings);
    places(&look, &mut findings);
    found_plugins(&look, &mut findings);
    libraries(&look, &mut findings);
    if !config_is_bad {
        executors(look, &mut findings);
    }
    let text = if args.json {
        let value = serde_json::to_value(&findings.0).expect("findings are plain data");
        format!("{value:#}\n")
    } else {
        words(&findings, screen.out)
    };
    screen.data(&text)?;
    match findings.n_bad() {
        0 => Ok(()),
        n_bad => Err(Failure::Doctor { n_bad, config: config_is_bad }),
    }
}

fn words(findings: &Findings, paint: Paint) -> String {
    let mut text = String::new();
    for Finding { state, what, said, help } in &findings.0 {
        let word = match state {
            State::Good => paint.good("good"),
            State::Note => paint.warning("note"),
            State::Bad => paint.error("bad "),
        };
        text.push_str(&format!("{word}  {what:<9}  {said}\n"));
        if let Some(help) = help {
            field("help", help, paint, &mut text);
        }
    }
    text
}

fn machine(findings: &mut Findings) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let version = env!("CARGO_PKG_VERSION");
    findings.add(State::Good, "host", format!("thunderhead {version} on {arch} {os}, {cores} cores"), None);
}

/// Whether the config is bad.
fn config(look: &Look, findings: &mut Findings) -> bool {
    let sources: Vec<&str> = look.chain.sources().map(|source| source.name()).collect();
    let sources = if sources.is_empty() { look.chain.name().to_owned() } else { sources.join(", based on ") };
    let problems = match &look.outcome {
        Ok((resolved, notices)) => {
            let order: Vec<&str> = resolved.order.iter().map(|name| name.value.as_str()).collect();
            findings.add(State::Good, "config", format!("{sources}: asks {}", order.join(", ")), None);
            notices
        }
        Err(errors) => &errors.problems,
    };
    for problem in problems {
        let state = if problem.is_error() { State::Bad } else { State::Note };
        let at = problem.at.as_ref().map(|spot| format!("{spot}: ")).unwrap_or_default();
        let help = miette::Diagnostic::help(problem).map(|help| help.to_string());
        findings.add(state, "config", format!("{at}{problem} [{}]", problem.code_text()), help);
    }
    let names: Vec<&str> = PRESETS.iter().map(|(name, _)| *name).collect();
    findings.add(State::Good, "presets", names.join(", "), None);
    look.outcome.is_err()
}

fn places(look: &Look, findings: &mut Findings) {
    for (place, exists) in &look.found.looked_at {
        let (state, said) = match (exists, place.must_exist) {
            (true, _) => (State::Good, ""),
            (false, false) => (State::Note, ", which does not exist"),
            (false, true) => (State::Bad, ", which does not exist"),
        };
        let help = (state == State::Bad).then(|| "make it, or name another".to_owned());
        findings.add(state, "place", format!("{} ({}){said}", place.path.display(), place.origin), help);
    }
}

fn found_plugins(look: &Look, findings: &mut Findings) {
    for plugin in &look.found.plugins {
        let executors: Vec<&str> = plugin.manifest.executors.iter().map(|e| e.name.as_str()).collect();
        let (id, version) = (&plugin.manifest.id, &plugin.manifest.version);
        let said = format!("{id} {version} brings {}: {}", executors.join(", "), plugin.path.display());
        findings.add(State::Good, "plugin", said, None);
        for warning in &plugin.warnings {
            findings.add(State::Note, "plugin", format!("{id}: plugin.toml:{warning}"), None);
        }
        for same in &plugin.same {
            findings.add(State::Note, "plugin", format!("{id}: {} is the same file", same.display()), None);
        }
    }
    // A place that does not exist was said already.
    let said = |path: &std::path::Path| {
        look.found.looked_at.iter().any(|(place, exists)| place.path == path && !exists)
    };
    for skipped in look.found.skipped.iter().filter(|skipped| !said(&skipped.path)) {
        let state = if skipped.named { State::Bad } else { State::Note };
        let (error, code) = (&skipped.error, skipped.error.code_text());
        findings.add(state, "file", format!("{error} [{code}]"), Some(error.help_text()));
    }
    for conflict in &look.found.conflicts {
        let said = format!("{conflict} [{}]", conflict.code_text());
        findings.add(State::Bad, "plugin", said, Some(conflict.help_text()));
    }
}

fn libraries(look: &Look, findings: &mut Findings) {
    for library in look.libraries() {
        let exists = library.folder.exists();
        let state = if exists { State::Good } else { State::Note };
        let missing = if exists { "" } else { ", which does not exist" };
        let (name, folder) = (&library.name, library.folder.display());
        findings.add(state, "library", format!("{name}: {folder} ({}){missing}", library.origin), None);
    }
}

/// Loads what the config needs and runs each executor's own check.
fn executors(look: Look, findings: &mut Findings) {
    let host = match look.load() {
        Ok(host) => host,
        Err(error) => {
            let related = miette::Diagnostic::related(&error).into_iter().flatten();
            for error in related {
                let code = error.code().map(|code| format!(" [{code}]")).unwrap_or_default();
                let help = error.help().map(|help| help.to_string());
                findings.add(State::Bad, "executor", format!("{error}{code}"), help);
            }
            return;
        }
    };
    for refused in host.refused() {
        let (name, error, code) = (&refused.name, &refused.error, refused.error.code_text());
        let said = format!("{name} is left out: {error} [{code}]");
        findings.add(State::Note, "executor", said, Some(error.help_text()));
    }
    for (name, executor) in host.executors() {
        match executor.selftest() {
            Ok(()) => findings.add(State::Good, "executor", format!("{name} works"), None),
            Err(why) => {
                let help = "its plugin says so of itself; ask its author".to_owned();
                findings.add(
                    State::Bad,
                    "executor",
                    format!("{name} fails its self-test: {why}"),
                    Some(help),
                );
            }
        }
    }
    host.quiesce();
}
