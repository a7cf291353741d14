//! The command line as users meet it: whole outputs and exit codes, with paths and times filtered out.
//!
//! `cargo xtask bless` rewrites the expectations. Each case runs the built binary in a folder of its own, with no
//! variable and no home of the machine it runs on, so that only what the case says counts.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use thunderhead::tensor_files::{read_tensors, write_tensors};
use thunderhead::{Program, Tensor};

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
    let commands: [&[&str]; 18] = [
        &[],
        &["run"],
        &["train"],
        &["grad"],
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
mod with_reference {
    use super::*;

    fn inputs(place: &Place) {
        place.file("in.json", "{\"in1\": 2.5}");
        // `in0` = [[1, 2], [3, 4]] as safetensors, written by hand: header, then four f32.
        let header = r#"{"in0":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#;
        tensors(place, "in.safetensors", header, &[1.0, 2.0, 3.0, 4.0]);
        // The file would be valid without padding; what writers pad is spaces.
        let header = r#"{"bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"steps":{"dtype":"I64","shape":[],"data_offsets":[8,16]}}"#;
        tensors(place, "weights.safetensors", header, &[10.0, 20.0, 0.0, 0.0]);
    }

    fn tensors(place: &Place, name: &str, header: &str, data: &[f32]) {
        let padded = header.len().next_multiple_of(8);
        let mut bytes = (padded as u64).to_le_bytes().to_vec();
        bytes.extend(format!("{header:<padded$}").bytes());
        data.iter().for_each(|x| bytes.extend(x.to_le_bytes()));
        fs::write(place.dir.path().join(name), bytes).expect("a file in a temporary folder");
    }

    fn small() -> Place {
        let place = Place::new();
        place.file("small.trace", PROGRAM);
        inputs(&place);
        place
    }

    const GIVEN: [&str; 8] = [
        "--config",
        "reference",
        "--inputs",
        "in.safetensors",
        "--inputs",
        "in.json",
        "--weights",
        "weights.safetensors",
    ];

    fn run(place: &Place, args: &[&str]) -> String {
        let args: Vec<&str> = args.iter().copied().chain(GIVEN).collect();
        place.run(&args)
    }

    #[test]
    fn a_run_prints_outputs_and_ends_with_the_summary() {
        let place = small();
        check("run", &place, &run(&place, &["run", "small.trace"]));
        check("run_quiet", &place, &run(&place, &["run", "small.trace", "-q"]));
        check("run_verbose", &place, &run(&place, &["run", "small.trace", "-v"]));
        check("run_json", &place, &run(&place, &["run", "small.trace", "--json"]));
    }

    #[test]
    fn inputs_that_are_missing_are_filled_or_named() {
        let place = small();
        let args = ["run", "small.trace", "--config", "reference", "--weights", "weights.safetensors"];
        check("inputs_filled", &place, &place.run(&args));
        let some = args.iter().copied().chain(["--inputs", "in.json"]).collect::<Vec<_>>();
        check("inputs_missing", &place, &place.run(&some));
        place.file("wrong.json", "{\"in0\": 1, \"in1\": 2.5}");
        let wrong = args.iter().copied().chain(["--inputs", "wrong.json"]).collect::<Vec<_>>();
        check("inputs_wrong", &place, &place.run(&wrong));
        place.file("other.json", "{\"in3\": 1}");
        let other = args.iter().copied().chain(["--inputs", "other.json"]).collect::<Vec<_>>();
        check("inputs_unknown", &place, &place.run(&other));
        check("weights_missing", &place, &place.run(&["run", "small.trace", "--config", "reference"]));
    }

    #[test]
    fn what_a_run_writes_the_next_can_be_compared_with() {
        let place = small();
        let first = run(
            &place,
            &["run", "small.trace", "-q", "--output", "o.safetensors", "--state-out", "s.safetensors"],
        );
        let same = run(&place, &["run", "small.trace", "--expect", "o.safetensors"]);
        let carried = run(
            &place,
            &["run", "small.trace", "-q", "--state", "s.safetensors", "--state-out", "s2.safetensors"],
        );
        check("run_written", &place, &[first, same, carried].join("\n"));
        let steps = |name: &str| {
            let state = read_tensors(&place.dir.path().join(name)).expect("state was written");
            state["steps"].to_vec::<i64>().expect("i64")
        };
        assert_eq!((steps("s.safetensors"), steps("s2.safetensors")), (vec![1], vec![2]));
        // Another input gives another output: exit 8 with the worst element.
        let header = r#"{"in0":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#;
        tensors(&place, "in.safetensors", header, &[1.0, 2.0, 3.5, 4.0]);
        check("run_mismatch", &place, &run(&place, &["run", "small.trace", "--expect", "o.safetensors"]));
    }

    #[test]
    fn traces_are_printed_at_every_stage() {
        let place = small();
        let stages = ["acquired", "claimed", "execution"];
        let seen = stages.map(|stage| run(&place, &["trace", "small.trace", "--stage", stage]));
        check("trace", &place, &seen.join("\n"));
        check("trace_depth", &place, &run(&place, &["trace", "small.trace", "--depth", "1", "--notes"]));
    }

    #[test]
    fn printed_traces_run_and_give_the_same() {
        let place = small();
        run(&place, &["run", "small.trace", "-q", "--output", "o.safetensors"]);
        for stage in ["acquired", "claimed", "execution"] {
            let printed = run(&place, &["trace", "small.trace", "-q", "--stage", stage]);
            let text = printed.split_once("--- stdout\n").expect("a trace on stdout").1;
            place.file("again.trace", text);
            let seen = run(&place, &["run", "again.trace", "--expect", "o.safetensors"]);
            assert!(seen.contains("\nexit 0\n"), "{stage}:\n{seen}");
        }
    }

    #[test]
    fn every_preset_plans_a_model() {
        let place = small();
        for preset in ["default", "reference"] {
            let seen = place.run(&["plan", &model("mlp/model.pt2"), "--config", preset, "-q"]);
            assert!(seen.contains("\nexit 0\n"), "{preset}:\n{seen}");
        }
    }

    #[test]
    fn plans_are_made_explained_and_compared() {
        let place = small();
        check("explain", &place, &run(&place, &["explain", "small.trace"]));
        check("explain_op", &place, &run(&place, &["explain", "small.trace", "--op", "torch.add", "--json"]));
        check("plan", &place, &run(&place, &["plan", "small.trace"]));
        run(&place, &["plan", "small.trace", "-o", "a.json"]);
        check("plan_same", &place, &place.run(&["plan", "--diff", "a.json", "a.json"]));
        let text = fs::read_to_string(place.dir.path().join("a.json")).expect("the plan was written");
        place.file("b.json", &text.replace("\"executor\": \"reference\"", "\"executor\": \"other\""));
        check("plan_differs", &place, &place.run(&["plan", "--diff", "a.json", "b.json"]));
        check("plan_bad", &place, &place.run(&["plan", "--diff", "a.json", "small.trace"]));
    }

    #[test]
    fn expectations_are_checked_before_anything_runs() {
        let place = small();
        place.file(
            "t.toml",
            "config = 1\nexecutors = []\n[expect]\nmax_last_resort = 1\nclaims = [{ op = \"*.mul\", by = \"host\" }]\n",
        );
        let args = ["run", "small.trace", "--config", "./t.toml", "--weights", "weights.safetensors"];
        check("expectations", &place, &place.run(&args));
    }

    #[test]
    fn nobody_takes_an_op() {
        let place = small();
        place.file(
            "t.toml",
            "config = 1\nbase = \"reference\"\nlast_resort = \"none\"\nexecutor.reference.deny = [\"prims.mul\"]\n",
        );
        let args = ["run", "small.trace", "--config", "./t.toml", "--weights", "weights.safetensors"];
        check("unclaimed", &place, &place.run(&args));
    }
}

mod gradients {
    use super::*;

    /// A loss with everything that decides what has a gradient: inputs that are floating and not, parameters that are
    /// frozen and not, and one that nothing reaches.
    const LOSS: &str = "\
thunderhead trace 1.0

trace forward(
    %x: f64[2, 3] input \"in0\",
    %n: i64[2] input \"in1\",
    %w: f64[4, 3] param \"head.weight\",
    %b: f64[4] param \"head.bias\",
    %scale: f64[4] param \"scale\" frozen,
    %unused: f64[2] param \"unused\",
    %table: f64[4] buffer \"table\",
) stage acquired model \"loss\" {
    %h: f64[2, 4] = torch.linear(%x, %w, %b)
    %t: f64[2, 4] = torch.tanh(%h)
    %s: f64[2, 4] = torch.mul(%t, %scale)
    %e: f64[2, 4] = torch.exp(%s)
    %c: f64[2, 4] = torch.add(%e, %table)
    %d: f64[2, 4] = torch.mul(%c, %s)
    %loss: f64[] = torch.sum(%d)
    return %loss as \"out0\", %n as \"out1\"
}
";

    fn loss() -> Place {
        let place = Place::new();
        place.file("loss.trace", LOSS);
        let eighths = |dims: &[i64], shift: i64| {
            let data: Vec<f64> =
                (0..dims.iter().product()).map(|i| ((i * 5 + shift) % 9 - 4) as f64 / 8.0).collect();
            Tensor::from_slice(&data, dims).expect("dims of the data")
        };
        let weights = [
            ("head.weight".to_owned(), eighths(&[4, 3], 1)),
            ("head.bias".to_owned(), eighths(&[4], 2)),
            ("scale".to_owned(), eighths(&[4], 3)),
            ("unused".to_owned(), eighths(&[2], 4)),
            ("table".to_owned(), eighths(&[4], 5)),
        ];
        write_tensors(&place.dir.path().join("w.safetensors"), &weights).expect("written");
        let inputs = [
            ("in0".to_owned(), eighths(&[2, 3], 7)),
            ("in1".to_owned(), Tensor::from_slice(&[1i64, 2], &[2]).expect("two elements")),
        ];
        write_tensors(&place.dir.path().join("in.safetensors"), &inputs).expect("written");
        place
    }

    /// A command about the loss.
    fn of(place: &Place, command: &str, args: &[&str]) -> String {
        let given = ["--config", "reference", "--inputs", "in.safetensors", "--weights", "w.safetensors"];
        let all: Vec<&str> = [command, "loss.trace"].iter().chain(args).chain(&given).copied().collect();
        place.run(&all)
    }

    fn model_args(name: &str, file: &str) -> [String; 7] {
        let in_folder = |file: &str| model(&format!("{name}/{file}"));
        [
            in_folder(file),
            "--config".to_owned(),
            "reference".to_owned(),
            "--inputs".to_owned(),
            in_folder("inputs.safetensors"),
            "--cotangents".to_owned(),
            in_folder("cotangents.safetensors"),
        ]
    }

    /// `grad` on a model with its own inputs and cotangents.
    fn of_model(place: &Place, name: &str, file: &str, args: &[&str]) -> String {
        let given = model_args(name, file);
        let all: Vec<&str> = ["grad"]
            .into_iter()
            .chain(given.iter().map(String::as_str))
            .chain(args.iter().copied())
            .collect();
        place.run(&all)
    }

    #[test]
    fn a_loss_needs_no_cotangents() {
        let place = loss();
        check("grad", &place, &of(&place, "grad", &[]));
        check("grad_json", &place, &of(&place, "grad", &["--json", "-q"]));
    }

    #[test]
    fn wrt_chooses_and_names_what_it_does_not_know() {
        let place = loss();
        let globs: [&[&str]; 6] = [
            &["--wrt", "head.*", "--wrt", "scale"],
            &["--wrt", "in*"],
            &["--wrt", "table"],
            &["--wrt", "head.wieght"],
            &["--wrt", "tab*"],
            &["--wrt", "in1"],
        ];
        let seen = globs.map(|globs| of(&place, "grad", globs));
        check("grad_wrt", &place, &seen.join("\n"));
    }

    #[test]
    fn cotangents_are_named_and_must_fit() {
        let place = loss();
        let scalar = |name: &str, file: &str, value: Tensor| {
            write_tensors(&place.dir.path().join(file), &[(name.to_owned(), value)]).expect("written");
        };
        scalar("out0", "c.safetensors", Tensor::from_slice(&[2.0f64], &[]).expect("one element"));
        scalar("out1", "other.safetensors", Tensor::from_slice(&[2.0f64], &[]).expect("one element"));
        scalar("out0", "dims.safetensors", Tensor::from_slice(&[2.0f64], &[1]).expect("one element"));
        let files = ["c.safetensors", "other.safetensors", "dims.safetensors"];
        let mut seen =
            Vec::from(files.map(|file| of(&place, "grad", &["--cotangents", file, "--wrt", "head.bias"])));
        place.file("loss.trace", &LOSS.replace("return %loss as", "return %d as"));
        seen.push(of(&place, "grad", &[]));
        place.file("loss.trace", &LOSS.replace("as \"out1\"", "as \"out1\", %d as \"out2\""));
        seen.push(of(&place, "grad", &[]));
        check("grad_cotangents", &place, &seen.join("\n"));
    }

    #[test]
    fn gradients_are_compared_with_pytorchs() {
        let place = Place::new();
        let expect = |name: &str| model(&format!("{name}/grads.safetensors"));
        let (mlp, tied) = (expect("mlp"), expect("tied_weights"));
        // Each name of a tied parameter has the whole gradient.
        let seen =
            of_model(&place, "tied_weights", "model.pt2", &["--expect", &tied, "--output", "g.safetensors"]);
        assert!(seen.contains("\nexit 0\n") && seen.contains("6 of 6 gradients as in"), "{seen}");
        let written = read_tensors(&place.dir.path().join("g.safetensors")).expect("gradients were written");
        let bytes = |name: &str| written[name].to_bytes().expect("small");
        assert_eq!(bytes("emb.weight"), bytes("head.weight"));
        // Core ATen is said to be that.
        let seen = of_model(&place, "mlp", "core.pt2", &["--expect", &mlp]);
        check("grad_core", &place, &without_differences(&seen));
        let part = of_model(&place, "mlp", "model.pt2", &["--wrt", "net.?.bias", "--expect", &mlp]);
        check("grad_expect_part", &place, &without_differences(&part));
        let other = of_model(&place, "mlp", "model.pt2", &["--expect", &tied]);
        assert!(other.contains("\nexit 8\n") && other.contains("gradients differ from"), "{other}");
    }

    /// What is left of the difference is rounding, and the machine's.
    fn without_differences(seen: &str) -> String {
        let cut = |line: &str| match line.split_once("largest difference ") {
            Some((head, _)) => format!("{head}largest difference [SMALL]"),
            None => line.to_owned(),
        };
        seen.lines().map(cut).collect::<Vec<_>>().join("\n")
    }

    fn saved_bytes(seen: &str) -> u64 {
        let json = seen.split("--- stdout\n").nth(1).expect("data on stdout");
        let report: serde_json::Value = serde_json::from_str(json).expect("JSON");
        report["summary"]["saved_bytes"].as_u64().expect("all sizes are known")
    }

    #[test]
    fn rematerialisation_saves_less_and_changes_no_bit() {
        let place = loss();
        let with = of_model(&place, "lit_llama2", "model.pt2", &["--json", "-q"]);
        let without = of_model(&place, "lit_llama2", "model.pt2", &["--json", "-q", "--no-remat"]);
        let (with, without) = (saved_bytes(&with), saved_bytes(&without));
        assert!(with < without, "{with} bytes saved with rematerialisation, {without} without");
        let gradients = |file: &str, args: &[&str]| {
            let args: Vec<&str> = ["--json", "-q", "--output", file].iter().chain(args).copied().collect();
            let saved = saved_bytes(&of(&place, "grad", &args));
            (saved, fs::read(place.dir.path().join(file)).expect("gradients were written"))
        };
        let (with, without) = (gradients("a.safetensors", &[]), gradients("b.safetensors", &["--no-remat"]));
        assert!(with.0 < without.0, "{} bytes saved with rematerialisation, {} without", with.0, without.0);
        assert!(with.1 == without.1, "the f64 gradients differ");
    }

    #[test]
    fn forward_and_backward_are_printed_as_one_module() {
        let place = loss();
        let stages = ["forward", "backward", "claimed", "execution"];
        let text = stages.map(|stage| {
            let seen = of(&place, "trace", &["--grad", "-q", "--depth", "1", "--stage", stage]);
            seen.split_once("--- stdout\n").unwrap_or_else(|| panic!("{seen}")).1.to_owned()
        });
        assert_eq!(text[0], text[1]);
        check("trace_grad", &place, &text[1..].join("\n"));
        for (stage, text) in stages.iter().zip(&text) {
            let read =
                Program::from_trace_text(stage, text).unwrap_or_else(|error| panic!("{stage}: {error}"));
            let names: Vec<&str> = read.module().traces.iter().map(|trace| &*trace.name).collect();
            assert_eq!(names, ["forward", "backward"], "{stage}");
        }
        let deep = of(&place, "trace", &["--grad", "-q"]);
        let text = deep.split_once("--- stdout\n").expect("a trace on stdout").1;
        Program::from_trace_text("with decompositions", text)
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        check("trace_grad_acquired", &place, &of(&place, "trace", &["--grad", "--stage", "acquired"]));
    }

    #[test]
    fn the_backward_is_explained_and_planned() {
        let place = loss();
        let seen = [
            of(&place, "explain", &["--grad", "--wrt", "head.bias", "--op", "*.sum"]),
            of(&place, "explain", &["--wrt", "head.bias"]),
            of(&place, "plan", &["--grad", "--wrt", "head.bias"]),
        ];
        check("explain_grad", &place, &seen.join("\n"));
    }
}

/// What is wrong with the data of a run is said of the inputs: no plugin is blamed, and nobody else is asked.
mod data {
    use super::*;

    const LOOKUP: &str = "\
thunderhead trace 1.0

trace forward(
    %i: i64[3] input \"in0\",
    %n: i64[3] input \"in1\",
    %w: f32[4, 2] param \"w\",
) stage acquired model \"lookup\" {
    %q: i64[3] = torch.div(%i, %n, mode=\"floor\")
    %e: f32[3, 2] = torch.embedding(%w, %q)
    return %e as \"out0\"
}
";

    fn write(place: &Place, file: &str, tensors: &[(&str, Tensor)]) {
        let named: Vec<_> =
            tensors.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
        write_tensors(&place.dir.path().join(file), &named).expect("written");
    }

    fn ints(values: &[i64]) -> Tensor {
        Tensor::from_slice(values, &[values.len() as i64]).expect("as many")
    }

    fn floats(n: usize, dims: &[i64]) -> Tensor {
        let values: Vec<f32> = (0..n).map(|i| (i as f32 * 0.37).sin()).collect();
        Tensor::from_slice(&values, dims).expect("as many")
    }

    #[test]
    fn an_index_or_divisor_that_cannot_be_used_is_exit_10() {
        let place = Place::new();
        place.file("lookup.trace", LOOKUP);
        // Data is not a failure that another executor could make good.
        place.file("next.toml", "config = 1\nexecutors = [\"reference\"]\n[run]\non_error = \"next\"\n");
        write(&place, "w.safetensors", &[("w", floats(8, &[4, 2]))]);
        write(&place, "index.safetensors", &[("in0", ints(&[0, 7, 1])), ("in1", ints(&[1, 1, 1]))]);
        write(&place, "zero.safetensors", &[("in0", ints(&[0, 3, 1])), ("in1", ints(&[1, 0, 1]))]);
        let seen = [
            ("index.safetensors", "reference"),
            ("index.safetensors", "./next.toml"),
            ("zero.safetensors", "reference"),
        ]
        .map(|(inputs, config)| {
            place.run(&[
                "run",
                "lookup.trace",
                "--inputs",
                inputs,
                "--weights",
                "w.safetensors",
                "--config",
                config,
            ])
        });
        check("bad_data", &place, &seen.join("\n"));
    }

    #[test]
    fn a_label_that_is_no_class_is_exit_10() {
        let place = Place::new();
        let linear = "thunderhead trace 1.0\n\ntrace forward(\n    %x: f32[2, 3] input \"in0\",\n    %w: f32[4, 3] param \"w\",\n) stage acquired model \"classes\" {\n    %y: f32[2, 4] = torch.linear(%x, %w)\n    return %y as \"out0\"\n}\n";
        place.file("classes.trace", linear);
        write(&place, "w.safetensors", &[("w", floats(12, &[4, 3]))]);
        write(&place, "batch.safetensors", &[("in0", floats(6, &[2, 3])), ("target", ints(&[1, 9]))]);
        let args = [
            "train",
            "classes.trace",
            "--config",
            "reference",
            "--weights",
            "w.safetensors",
            "--data",
            "batch.safetensors",
            "--loss",
            "cross_entropy",
            "--optimizer",
            "sgd",
            "--lr",
            "0.1",
            "--steps",
            "1",
            "--out",
            "o.safetensors",
        ];
        check("bad_label", &place, &place.run(&args));
    }
}

/// A program that needs no weights.
const STATELESS: &str = "\
thunderhead trace 1.0

trace forward(
    %x: f32[2] input \"in0\",
) stage acquired model \"small\" {
    %y: f32[2] = torch.mul(%x, %x)
    %z: f32[2] = torch.add(%y, %x)
    return %z as \"out0\"
}
";

/// What is said of plugins that are there, but not as they should be.
mod plugin_files {
    use super::*;
    use support::{c_plugin, root};

    fn manifest(claims: &str) -> String {
        format!(
            "manifest = 1\nid = \"c-square\"\nversion = \"0.1.0\"\nabi = \"0.2\"\nir = \"1\"\nneeds = [\"executor/1\", \
             \"kernel/1\"]\n\n[[executor]]\nname = \"c_square\"\nlabel = \"Square\"\n\n[[executor.claim]]\nops = {claims}\n"
        )
    }

    /// A folder `plugins` with the plugin, and a config that names it.
    fn place(name: &str, manifest: &str) -> Place {
        let place = Place::new();
        let built = c_plugin(&root().join("tests/third_party/c_square/square.c"), name, manifest, &[], &[]);
        fs::create_dir(place.dir.path().join("plugins")).expect("a folder");
        fs::copy(built, place.dir.path().join("plugins/libsquare.so")).expect("copied");
        place.file("small.trace", STATELESS);
        place.file("t.toml", "config = 1\nexecutors = [\"c_square\"]\n[plugins]\npaths = [\"plugins/\"]\n");
        place
    }

    #[test]
    fn a_file_that_is_refused_is_said_where_its_executor_is_missed() {
        let place = place("refused", "manifest = 1");
        let mut seen = vec![place.run(&["run", "small.trace", "--config", "./t.toml"])];
        place.file("other.toml", "config = 1\nbase = \"reference\"\n[plugins]\npaths = [\"plugins/\"]\n");
        seen.push(place.run(&["plugins", "list", "--config", "./other.toml"]));
        check("plugin_refused", &place, &seen.join("\n"));
    }

    #[test]
    fn a_claim_of_an_op_that_does_not_exist_is_said() {
        let place = place("mistyped", &manifest("[\"prims.mull\", \"torch.zz*\", \"acme::square\"]"));
        let without_digest = |seen: String| {
            seen.lines().filter(|line| !line.starts_with("sha256")).collect::<Vec<_>>().join("\n")
        };
        let seen = [
            place.run(&["config", "check", "--config", "./t.toml"]),
            place.run(&["explain", "small.trace", "--config", "./t.toml", "--op", "torch.mul"]),
        ];
        check("manifest_unknown_op", &place, &seen.join("\n"));
        let seen = without_digest(place.run(&["plugins", "inspect", "plugins/libsquare.so"]));
        assert_eq!(seen.matches("no op of this host is called so").count(), 2, "{seen}");
        let seen = place.run(&["doctor", "--config", "./t.toml"]);
        assert!(seen.contains("claims `prims.mull`") && seen.contains("exit 0"), "{seen}");
    }
}

#[test]
fn ops_that_do_not_exist_are_neither_denied_nor_allowed_silently() {
    let place = Place::new();
    place.file(
        "t.toml",
        "config = 1\nbase = \"reference\"\n\n[executor.reference]\nallow = [\"prims.*\", \"torch.zz*\"]\ndeny = [\n    \"torch.rleu\",\n    \
         \"aten.foo\",\n    \"aten.foo.default\",\n]\n",
    );
    check("config_unknown_op", &place, &place.run(&["config", "check", "--config", "./t.toml"]));
}

#[test]
fn a_config_is_looked_at_for_an_acquired_trace_too() {
    let place = Place::new();
    place.file("small.trace", PROGRAM);
    let seen = [
        place.run(&["trace", "small.trace", "--config", "./nowhere.toml"]),
        place.run(&["trace", "small.trace", "--config", "full_fuson"]),
        place.run(&["trace", "small.trace", "--executors", "refrence"]),
    ];
    check("trace_config", &place, &seen.join("\n"));
}

#[test]
fn every_preset_is_known_by_name() {
    let place = Place::new();
    let seen = place.run(&["doctor", "--config", "reference"]);
    let expected = "concat_inductor, default, full_fusion, pytorch, reference, torch_compile";
    assert!(seen.contains(expected), "{seen}");
}

#[test]
fn explain_shows_what_was_asked_for_or_says_that_there_is_nothing() {
    let place = Place::new();
    place.file("small.trace", STATELESS);
    let explain =
        |op: &str| place.run(&["explain", "small.trace", "--config", "reference", "-q", "--op", op]);
    check("explain_no_match", &place, &[explain("torch.adds"), explain("add"), explain("zzz")].join("\n"));
    // By the value that it makes, by what stands below it, by glob.
    for (op, n) in [("y", 1), ("y*", 2), ("torch.mul", 1), ("*.mul", 2)] {
        let seen = explain(op);
        assert_eq!(seen.matches(".mul").count(), n + op.matches(".mul").count(), "{op}: {seen}");
    }
}

#[test]
fn a_negative_number_is_a_value() {
    let place = Place::new();
    let seen = [
        place.run(&["config", "check", "--threads", "-1"]),
        place.run(&["run", "small.trace", "--seed", "-1"]),
        place.run(&["trace", "small.trace", "--depth", "-1"]),
        place.run(&["bench", "small.trace", "--seconds", "-1"]),
    ];
    check("numbers_negative", &place, &seen.join("\n"));
}

#[test]
fn files_that_cannot_be_read_or_written_are_named() {
    let place = Place::new();
    place.file("small.trace", STATELESS);
    place.file("cut.json", "{\"in0\": ");
    place.file("list.json", "{\"in0\": [1, 2]}");
    place.file("text.safetensors", "this is no safetensors file");
    let given = |file| place.run(&["run", "small.trace", "--config", "reference", "--inputs", file]);
    let seen = [
        given("cut.json"),
        given("list.json"),
        given("text.safetensors"),
        given("absent.safetensors"),
        // Before anything runs.
        place.run(&["run", "small.trace", "--config", "reference", "--output", "nowhere/o.safetensors"]),
    ];
    check("files_bad", &place, &seen.join("\n"));
}

#[test]
fn a_library_that_is_no_plugin_is_an_error() {
    let place = Place::new();
    let source = place.file("none.c", "int none(void) { return 0; }\n");
    let library = place.dir.path().join("libnone.so");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.is_ok_and(|status| status.success()), "a C compiler");
    let seen = place.run(&["plugins", "inspect", "libnone.so"]);
    assert!(seen.contains("\nexit 4\n"), "{seen}");
    // Once, as what ends the command.
    assert_eq!(seen.matches("is no Thunderhead plugin").count(), 1, "{seen}");
}

#[test]
fn inputs_that_were_filled_and_do_not_suit_are_said_to_be_that() {
    let place = Place::new();
    place.file(
        "rows.trace",
        "thunderhead trace 1.0\n\ntrace forward(\n    %i: i64[64] input \"in0\",\n    %w: f32[1, 2] input \"in1\",\n) stage acquired \
         model \"rows\" {\n    %e: f32[64, 2] = torch.embedding(%w, %i)\n    return %e as \"out0\"\n}\n",
    );
    let given = write_inputs(&place, "one.safetensors", &[0; 63]);
    let seen = [
        place.run(&["run", "rows.trace", "--config", "reference"]),
        place.run(&["bench", "rows.trace", "--config", "reference"]),
        place.run(&["run", "rows.trace", "--config", "reference", "--inputs", &given]),
    ];
    check("inputs_unsuited", &place, &seen.join("\n"));
}

/// `in0` of these integers, `in1` of one row.
fn write_inputs(place: &Place, file: &str, indices: &[i64]) -> String {
    let tensors = [
        ("in0".to_owned(), Tensor::from_slice(indices, &[indices.len() as i64]).expect("as many")),
        ("in1".to_owned(), Tensor::from_slice(&[1f32, 2.0], &[1, 2]).expect("as many")),
    ];
    write_tensors(&place.dir.path().join(file), &tensors).expect("written");
    file.to_owned()
}

#[test]
fn what_follows_from_an_executor_that_was_left_out_is_no_error_of_its_own() {
    let place = Place::new();
    place.file("small.trace", STATELESS);
    place.file(
        "t.toml",
        "config = 1\nexecutors = [\"acme\", \"pytorch\"]\n\n[executor.acme]\npolicy = \"optional\"\noptions = { x = 3 }\n\
         regions = { min_ops = 3 }\n\n[executor.pytorch]\npolicy = \"optional\"\n",
    );
    let mut seen = vec![
        place.run(&["run", "small.trace", "--config", "./t.toml", "--set", "acme.x=4"]),
        place.run(&["bench", "small.trace", "--config", "./t.toml", "--vs", "./t.toml", "--seconds", "0.01"]),
    ];
    let said = seen[1].matches("no plugin brings an executor `acme`").count();
    assert_eq!(said, 1, "{}", seen[1]);
    seen.pop();
    let expecting = "\n[expect]\nclaims = [{ op = \"torch.mul\", by = \"acme\" }, { op = \"torch.add\", by = \"pytorch\" }]\n";
    let text = fs::read_to_string(place.dir.path().join("t.toml")).expect("written above");
    place.file("t.toml", &(text + expecting));
    seen.push(place.run(&["run", "small.trace", "--config", "./t.toml"]));
    check("executor_left_out", &place, &seen.join("\n"));
}

mod training {
    use super::*;

    const LINEAR: &str = "thunderhead trace 1.0\n\ntrace forward(\n    %x: f32[2, 3] input \"in0\",\n    %w: f32[4, 3] param \"w\",\n) \
                          stage acquired model \"linear\" {\n    %y: f32[2, 4] = torch.linear(%x, %w)\n    return %y as \"out0\"\n}\n";

    fn place() -> Place {
        let place = Place::new();
        place.file("linear.trace", LINEAR);
        let floats = |n: usize, dims: &[i64], of: fn(f32) -> f32| {
            let values: Vec<f32> = (0..n).map(|i| of(i as f32)).collect();
            Tensor::from_slice(&values, dims).expect("as many")
        };
        let write = |file: &str, tensors: &[(&str, Tensor)]| {
            let named: Vec<_> =
                tensors.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
            write_tensors(&place.dir.path().join(file), &named).expect("written");
        };
        write("w.safetensors", &[("w", floats(12, &[4, 3], |i| (i * 0.37).sin()))]);
        let target = floats(8, &[2, 4], |i| (i * 0.7).cos());
        write("batch.safetensors", &[("in0", floats(6, &[2, 3], |i| i * 0.1)), ("target", target.clone())]);
        write("other.safetensors", &[("in0", floats(6, &[2, 3], |i| i * 0.2)), ("target", target.clone())]);
        write("nan.safetensors", &[("in0", floats(6, &[2, 3], |_| f32::NAN)), ("target", target)]);
        place
    }

    fn train(place: &Place, more: &[&str]) -> String {
        let args = [
            "train",
            "linear.trace",
            "--config",
            "reference",
            "--weights",
            "w.safetensors",
            "--loss",
            "mse",
            "--out",
            "o.safetensors",
            "--resume",
            "c.safetensors",
        ];
        let seen = place.run(&args.iter().chain(more).copied().collect::<Vec<_>>());
        // How fast it was is the machine's.
        let cut = |line: &str| match line.split_once(" steps/s") {
            Some((head, tail)) => {
                format!("{} [SPEED]{tail}", head.rsplit_once(' ').map_or("", |(head, _)| head))
            }
            None => line.to_owned(),
        };
        seen.lines().map(cut).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_changed_since_the_checkpoint_is_said() {
        let place = place();
        let data = ["--data", "batch.safetensors", "--optimizer", "adam"];
        let with = |more: &[&'static str]| data.iter().chain(more).copied().collect::<Vec<_>>();
        let mut seen = vec![train(&place, &with(&["--steps", "2"]))];
        // Nothing left to do.
        seen.push(train(&place, &with(&["--steps", "2"])));
        seen.push(train(
            &place,
            &["--data", "other.safetensors", "--optimizer", "adam", "--lr", "0.5", "--steps", "3"],
        ));
        seen.push(train(&place, &["--data", "other.safetensors", "--optimizer", "adamw", "--steps", "4"]));
        seen.push(train(&place, &["--data", "other.safetensors", "--optimizer", "sgd", "--steps", "4"]));
        check("train_resume", &place, &seen.join("\n\n"));
    }

    #[test]
    fn a_loss_that_is_not_finite_stops_and_leaves_the_last_checkpoint() {
        let place = place();
        let sgd = |data: &'static str, more: &[&'static str]| {
            ["--data", data, "--optimizer", "sgd"].iter().chain(more).copied().collect::<Vec<_>>()
        };
        train(&place, &sgd("batch.safetensors", &["--steps", "1"]));
        let read = |name: &str| fs::read(place.dir.path().join(name)).expect("written");
        let before = (read("c.safetensors"), read("o.safetensors"));
        let mut seen = vec![train(&place, &sgd("nan.safetensors", &["--steps", "3"]))];
        // The step after which the weights are infinite has a loss that is still finite.
        seen.push(train(&place, &sgd("batch.safetensors", &["--steps", "2", "--lr", "1e39"])));
        check("train_not_finite", &place, &seen.join("\n\n"));
        assert!(
            before == (read("c.safetensors"), read("o.safetensors")),
            "a good checkpoint was written over"
        );
    }

    #[test]
    fn a_batch_runs_too() {
        let place = place();
        let args = [
            "run",
            "linear.trace",
            "--config",
            "reference",
            "--weights",
            "w.safetensors",
            "--inputs",
            "batch.safetensors",
        ];
        check("run_batch", &place, &place.run(&args));
    }
}
