//! The command line as users meet it: whole outputs and exit codes, with paths and times filtered out.
//!
//! `cargo xtask bless` rewrites the expectations. Each case runs the built binary in a folder of its own, with no
//! variable and no home of the machine it runs on, so that only what the case says counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A folder in which commands are run.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { dir: tempfile::tempdir().expect("a temporary folder") }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("a file in a temporary folder");
        path
    }

    /// Runs the command; gives what a user sees: exit code, then stdout, then stderr.
    fn run(&self, args: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_thunderhead"))
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("HOME", self.dir.path())
            .output()
            .expect("the binary under test runs");
        let code = output.status.code().map_or("killed".to_owned(), |code| code.to_string());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        let mut seen = format!("$ thunderhead {}\nexit {code}\n", args.join(" "));
        for (name, text) in [("stdout", stdout), ("stderr", stderr)] {
            if !text.is_empty() {
                seen.push_str(&format!("--- {name}\n{text}"));
            }
        }
        seen
    }
}

fn model(path: &str) -> String {
    format!("{ROOT}/tests/models/{path}")
}

/// Compares with the stored output. What differs from machine to machine is replaced.
#[track_caller]
fn check(name: &str, place: &Place, seen: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(Path::new(ROOT).join("tests/cli"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let quoted = |path: &Path| regex_quote(&path.to_string_lossy());
    let here = place.dir.path();
    let real = here.canonicalize().unwrap_or_else(|_| here.to_owned());
    settings.add_filter(&quoted(&real), "[HERE]");
    settings.add_filter(&quoted(here), "[HERE]");
    let exe = Path::new(env!("CARGO_BIN_EXE_thunderhead"));
    if let Some(root) = exe.parent().and_then(Path::parent) {
        settings.add_filter(&quoted(root), "[ROOT]");
    }
    settings.add_filter(&regex_quote(ROOT), "[REPO]");
    settings.add_filter(r"\d+(\.\d+)? (ns|µs|ms|s)\b", "[TIME]");
    settings.add_filter(r#""(run|compile)_ns": \d+"#, "\"${1}_ns\": 0");
    settings.add_filter(r"on \S+ \S+, \d+ cores", "on [MACHINE]");
    settings.add_filter(regex_quote(env!("CARGO_PKG_VERSION")).as_str(), "[VERSION]");
    settings.bind(|| insta::assert_snapshot!(name, seen));
}

fn regex_quote(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_alphanumeric() || c == '/' { vec![c] } else { vec!['\\', c] }).collect()
}

/// One command, one snapshot.
#[track_caller]
fn one(name: &str, args: &[&str]) {
    let place = Place::new();
    let seen = place.run(args);
    check(name, &place, &seen);
}

/// A small program for the built-in executor.
const PROGRAM: &str = "\
thunderhead trace 1.0

dim s0 in 1..64

trace forward(
    %x: f32[s0, 2] input \"in0\",
    %gain: float input \"in1\",
    %bias: f32[2] buffer \"bias\",
    %steps: i64[] state \"steps\",
) stage acquired model \"small\" {
    %y: f32[s0, 2] = torch.mul(%x, %gain)
    %z: f32[s0, 2] = torch.add(%y, %bias)
    %next: i64[] = torch.add(%steps, 1)
    %steps.1: i64[] = prims.copy_(%next, %steps)
    return %z as \"out0\", 7 as \"out1\"
}
";

#[test]
fn help_names_everything_that_can_be_typed() {
    let place = Place::new();
    let commands: [&[&str]; 16] = [
        &[],
        &["run"],
        &["trace"],
        &["explain"],
        &["plan"],
        &["plugins"],
        &["plugins", "list"],
        &["plugins", "inspect"],
        &["plugins", "lock"],
        &["config"],
        &["config", "check"],
        &["config", "show"],
        &["doctor"],
        &["ops"],
        &["completions"],
        &["--version"],
    ];
    let help = commands.map(|command| {
        let args: Vec<&str> = if command == ["--version"] {
            command.to_vec()
        } else {
            command.iter().copied().chain(["--help"]).collect()
        };
        place.run(&args)
    });
    check("help", &place, &help.join("\n"));
}

#[test]
fn usage_is_exit_2() {
    one("usage", &["run"]);
    one("usage_nearest", &["rum", "model.pt2"]);
    one("usage_conflict", &["ops", "--md", "--json"]);
}

#[test]
fn configs_are_checked_and_shown() {
    one("config_check_default", &["config", "check"]);
    one("config_show_reference", &["config", "show", "--config", "reference", "--threads", "3"]);
    one("config_preset_unknown", &["config", "check", "--config", "refrence"]);
    one("config_unreadable", &["config", "check", "--config", "./nowhere.toml"]);
}

#[test]
fn everything_wrong_with_a_config_is_shown_with_its_line() {
    let place = Place::new();
    let text = "config = 1\nbase = \"reference\"\nappend = [\"pytroch\"]\n\n[executor.reference]\npolcy = \"optional\"\n\
                options = { threads = 1 }\n\n[run]\nthreads = \"many\"\n";
    place.file("thunderhead.toml", text);
    let seen = place.run(&["config", "check", "--config", "./thunderhead.toml"]);
    check("config_faults", &place, &seen);
    // Not read unless it is named.
    let seen = place.run(&["config", "check"]);
    check("config_implicit", &place, &seen);
}

#[test]
fn executors_that_are_not_there_stop_only_where_they_are_required() {
    one("executor_unknown", &["run", &model("mlp/model.pt2"), "--executors", "refrence"]);
    one("executor_missing", &["run", &model("mlp/model.pt2"), "--config", "pytorch"]);
}

#[test]
fn bad_models_are_exit_9() {
    let place = Place::new();
    let seen = place.run(&["run", "nothing.pt2"]);
    check("model_missing", &place, &seen);
    place.file("text.pt2", "this is no archive");
    let seen = place.run(&["run", "text.pt2"]);
    check("model_no_archive", &place, &seen);
    place.file("bad.trace", &PROGRAM.replace("torch.mul(%x, %gain)", "torch.mul(%x, %gian)"));
    let seen = place.run(&["run", "bad.trace"]);
    check("trace_fault", &place, &seen);
}

#[test]
fn plugins_are_listed_and_files_inspected() {
    one("plugins_list", &["plugins", "list"]);
    let place = Place::new();
    place.file("libnone.so", "not a library");
    let seen = place.run(&["plugins", "inspect", "libnone.so"]);
    check("plugins_inspect_none", &place, &seen);
    let seen = place.run(&["plugins", "lock"]);
    check("plugins_lock", &place, &seen);
}

#[test]
fn the_doctor_looks_at_everything() {
    one("doctor", &["doctor"]);
    let place = Place::new();
    place.file("broken.so", "not a library");
    place.file(
        "t.toml",
        "config = 1\nbase = \"reference\"\n[plugins]\npaths = [\"broken.so\", \"missing\"]\n",
    );
    let seen = place.run(&["doctor", "--config", "./t.toml"]);
    check("doctor_bad", &place, &seen);
}

#[test]
fn ops_are_data() {
    let place = Place::new();
    let seen = place.run(&["ops", "--json"]);
    let json = seen.split("--- stdout\n").nth(1).expect("data on stdout");
    let ops: Vec<serde_json::Value> = serde_json::from_str(json).expect("JSON");
    assert!(ops.iter().any(|op| op["name"] == "torch.add" && op["level"] == "composite"));
    let completions = place.run(&["completions", "bash"]);
    assert!(completions.starts_with("$ thunderhead completions bash\nexit 0\n"));
}
