//! Plugins that are each wrong in one way, and the rule that catches each; the host goes on.

#[path = "support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::sync::OnceLock;
use support::*;
use thunderhead::claim::{Claimant, codes};
use thunderhead::ir::Dtype;
use thunderhead::loader::{self, LibraryPath, LoadError, Request};
use thunderhead::memory::Tensor;
use thunderhead::plan::FaultKind;

const MANIFEST: &str = r#"manifest = 1
id = "broken"
version = "0.1.0"
abi = "0.2"
ir = "1"
needs = ["executor/1", "kernel/1"]
libraries = []

[[executor]]
name = "broken"
[[executor.claim]]
ops = ["prims.neg", "prims.nonzero"]
check = true
"#;

/// Builds `tests/broken/broken.c`.
fn broken(name: &str, manifest: &str, defines: &[&str]) -> PathBuf {
    c_plugin(&root().join("tests/broken/broken.c"), name, manifest, defines, &[])
}

/// Checks that a plugin is refused with this code, and that message and help hold these words.
#[track_caller]
fn refused(path: &std::path::Path, code: &str, words: &[&str]) {
    let error = load(path, "broken", &[]).expect_err("must be refused");
    says(&error, code, words);
}

#[track_caller]
fn says(error: &LoadError, code: &str, words: &[&str]) {
    let text = format!("{error}\n{}", error.help_text());
    assert_eq!(error.code_text(), code, "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

#[test]
fn the_good_plugin_raises_nothing() {
    let executor = load(&broken("good", MANIFEST, &[]), "broken", &[]).expect("loads");
    let x = f32s(&[2], &[1.0, -2.0]);
    let op = question("prims.neg", &[&x], &[(Dtype::F32, &[2])]);
    assert_eq!(executor.check(&op), Ok(()));
    assert_eq!(run(&executor, &op, &[&x]).expect("runs")[0].to_vec::<f32>().expect("f32"), [-1.0, 2.0]);
    let op = question("prims.nonzero", &[&x], &[(Dtype::I64, &[-1, 1])]);
    let out = run(&executor, &op, &[&x]).expect("runs");
    assert_eq!((out[0].dims(), out[0].to_vec::<i64>().expect("i64")), (&[2, 1][..], vec![0, 5]));
}

/// A name, a manifest, what the compiler defines, the code of the refusal, and words that it must hold.
type FileCase<'a> = (&'a str, &'a str, &'a [&'a str], &'a str, &'a [&'a str]);

/// What the file alone shows: nothing of the plugin runs.
#[test]
fn files_that_show_it() {
    let cases: [FileCase<'_>; 6] = [
        ("bare", MANIFEST, &["BARE"], "load::no_probe", &[".thunderhead.probe", "export_plugin!"]),
        ("abi_major", MANIFEST, &["FALSE_ABI_MAJOR=7"], "load::abi_major", &["7.2", "0.2", "newer host"]),
        ("abi_minor", MANIFEST, &["FALSE_ABI_MINOR=9"], "load::abi_minor", &["0.9", "0.2"]),
        (
            "target",
            MANIFEST,
            &["FALSE_TARGET=\"riscv64gc-unknown-linux-gnu\""],
            "load::target",
            &["riscv64gc-unknown-linux-gnu", thunderhead_abi::TARGET],
        ),
        ("panics", MANIFEST, &["FALSE_PANICS=2"], "load::panic_abort", &["abort", "unwind"]),
        ("panics_odd", MANIFEST, &["FALSE_PANICS=77"], "load::panic_abort", &["unknown", "unwind"]),
    ];
    for (name, manifest, defines, code, words) in cases {
        let path = broken(name, manifest, defines);
        refused(&path, code, words);
        if code != "load::no_probe" {
            let seen = loader::inspect(&path).expect("readable");
            assert_eq!(seen.obstacles[0].code, code, "{name}");
        }
    }
}

/// What the manifest shows: nothing of the plugin runs either.
#[test]
fn manifests_that_show_it() {
    let needs = |table: &str| MANIFEST.replace("\"kernel/1\"", &format!("\"kernel/1\", \"{table}\""));
    let cases: [(&str, String, &str, &[&str]); 7] = [
        ("needs", needs("warp/1"), "load::missing_table", &["warp/1", "this host", "parallel/1"]),
        ("newer", needs("kernel/2"), "load::missing_table", &["kernel/2", "newer host"]),
        ("gossip", needs("x-gossip/3"), "load::experimental_table", &["x-gossip/3"]),
        ("ir", MANIFEST.replace("ir = \"1\"", "ir = \"3.1\""), "load::ir_version", &["3.1", "1.0"]),
        (
            "abi_lie",
            MANIFEST.replace("abi = \"0.2\"", "abi = \"0.3\""),
            "load::manifest_lies",
            &["0.2", "0.3", "probe"],
        ),
        ("no_toml", "manifest = what".to_owned(), "load::manifest_invalid", &["1:"]),
        (
            "library",
            MANIFEST.replace("libraries = []", "libraries = [{ name = \"libnone\" }]"),
            "load::library_missing",
            &["libnone", "LIBNONE", "the plugin's folder"],
        ),
    ];
    for (name, manifest, code, words) in cases {
        refused(&broken(name, &manifest, &[]), code, words);
    }
}

/// What shows once the file is open.
#[test]
fn doors_that_show_it() {
    let cases: [(&str, &[&str], &str, &[&str]); 10] = [
        ("doorless", &["DOORLESS"], "load::no_entry", &["thunderhead_entry_v1", "does not export"]),
        ("liar", &["LIAR"], "load::manifest_lies", &["the manifest itself"]),
        ("names", &["NAME=\"somebody\""], "load::manifest_lies", &["`somebody`", "`broken`"]),
        ("unresolved", &["CALLS_NOBODY"], "load::open_failed", &["nobody_has_this_function"]),
        ("kernelless", &["WRONG=NO_KERNEL_TABLE"], "load::missing_table", &["kernel/1", "the plugin itself"]),
        ("null", &["WRONG=NULL_FUNCTION"], "load::no_entry", &["executor/1", "null"]),
        ("size", &["WRONG=TABLE_SIZE"], "load::struct_size", &["kernel/1", "40 bytes", "expected 32"]),
        ("create", &["WRONG=CREATE_FAILS"], "load::create_failed", &["internal", "the cat sat on the GPU"]),
        ("mute", &["WRONG=CREATE_MAKES_NOTHING"], "load::create_failed", &["made nothing"]),
        ("unavailable", &["WRONG=NOT_AVAILABLE"], "load::unavailable", &["no warp core here", "optional"]),
    ];
    for (name, defines, code, words) in cases {
        refused(&broken(name, MANIFEST, defines), code, words);
    }
}

#[test]
fn checks_that_show_it() {
    let cases = [
        ("mutely", "REFUSES_MUTELY", codes::CHECK, "gave no reason"),
        ("codeless", "REFUSES_WITHOUT_CODE", codes::CHECK, "`Not a code`"),
        ("odd_check", "UNKNOWN_STATUS_IN_CHECK", codes::PLUGIN_FAILED, "status 99"),
    ];
    let x = f32s(&[2], &[1.0, -2.0]);
    for (name, wrong, code, word) in cases {
        let path = broken(name, MANIFEST, &[&format!("WRONG={wrong}")]);
        let executor = load(&path, "broken", &[]).expect("loads");
        let op = question("prims.neg", &[&x], &[(Dtype::F32, &[2])]);
        let refusal = executor.check(&op).expect_err("is no acceptance");
        assert_eq!(refusal.code, code);
        assert!(refusal.sentence.contains(word), "{}", refusal.sentence);
        assert!(!executor.is_quarantined());
    }
}

#[test]
fn kernels_that_show_it() {
    use FaultKind::{BadAnswer, Internal, Unsupported};
    let cases = [
        ("make", "MAKE_FAILS", Unsupported, "not on a Tuesday"),
        ("kernel", "MAKES_NO_KERNEL", BadAnswer, "made no kernel"),
        ("shares", "SHARES_WHAT_IS_NOT_THERE", BadAnswer, "input 7"),
        ("strides", "STRIDES_OVERLAP", BadAnswer, "overlap"),
        ("workspace", "WORKSPACE_ABSURD", BadAnswer, "bytes of workspace"),
        ("run", "RUN_FAILS", Internal, "the numbers were too sad"),
        ("odd_run", "UNKNOWN_STATUS_IN_RUN", BadAnswer, "4711"),
    ];
    let x = f32s(&[2, 2], &[1.0, -2.0, 3.0, 4.0]);
    for (name, wrong, kind, word) in cases {
        let path = broken(name, MANIFEST, &[&format!("WRONG={wrong}")]);
        let executor = load(&path, "broken", &[]).expect("loads");
        let op = question("prims.neg", &[&x], &[(Dtype::F32, &[2, 2])]);
        let fault = run(&executor, &op, &[&x]).expect_err("must fail");
        assert_eq!(fault.kind, kind, "{fault}");
        assert!(fault.message.contains(word), "{fault}");
        assert_eq!((&*fault.executor, &*fault.plugin), ("broken", "broken 0.1.0"));
        assert_eq!((&*fault.op, &*fault.origin), ("prims.neg", "here"));
        assert!(!executor.is_quarantined());
    }
}

#[test]
fn sizes_decided_by_kernels_are_checked() {
    let cases = [
        ("dtype", "ALLOCATES_OTHER_DTYPE", "as f32; it is i64"),
        ("rank", "ALLOCATES_OTHER_RANK", "[2, 1, 1]; it has 2 dims"),
        ("none", "ALLOCATES_NOTHING", "asked no memory for output 0"),
        ("twice", "ALLOCATES_TWICE", "asked twice"),
    ];
    let x = f32s(&[2], &[1.0, 2.0]);
    for (name, wrong, word) in cases {
        let path = broken(name, MANIFEST, &[&format!("WRONG={wrong}")]);
        let executor = load(&path, "broken", &[]).expect("loads");
        let op = question("prims.nonzero", &[&x], &[(Dtype::I64, &[-1, 1])]);
        let fault = run(&executor, &op, &[&x]).expect_err("must fail");
        assert_eq!(fault.kind, FaultKind::BadAnswer, "{fault}");
        assert!(fault.message.contains(word), "{fault}");
    }
}

/// Runs the command on `prims.neg` of three numbers, with this config and these plugins; gives exit code, stdout and
/// stderr.
fn command(name: &str, config: &str, plugins: &[&std::path::Path]) -> (i32, String, String) {
    let dir = build_dir().join(format!("command-{name}"));
    std::fs::create_dir_all(&dir).expect("own folder");
    let paths: Vec<String> = plugins.iter().map(|path| format!("{:?}", path.display().to_string())).collect();
    let config = format!("config = 1\n{config}\n[plugins]\npaths = [{}]\n", paths.join(", "));
    std::fs::write(dir.join("config.toml"), config).expect("own folder");
    let trace = "thunderhead trace 1.0\n\ntrace forward(%x: f32[3] input \"in0\") stage acquired {\n    \
                 %y: f32[3] = prims.neg(%x)\n    return %y as \"out0\"\n}\n";
    std::fs::write(dir.join("neg.trace"), trace).expect("own folder");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_thunderhead"))
        .args(["run", "neg.trace", "--config", "./config.toml", "--color", "never"])
        .current_dir(&dir)
        .env_remove("THUNDERHEAD_PLUGINS")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("the command starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Checks the exit code, and that the error names the code and these words.
#[track_caller]
fn exits(name: &str, config: &str, plugin: &std::path::Path, exit: i32, words: &[&str]) {
    let (code, out, err) = command(name, config, &[plugin]);
    assert_eq!(code, exit, "{out}{err}");
    for word in words {
        assert!(err.contains(word), "`{word}` is not in: {err}");
    }
}

const ONLY_BROKEN: &str = "executors = [\"broken\"]\nlast_resort = \"none\"";

#[test]
fn the_command_says_what_is_wrong_by_its_exit_code() {
    exits("good", ONLY_BROKEN, &broken("cli_good", MANIFEST, &[]), 0, &[]);
    let load: [(&str, String, &[&str], &str); 8] = [
        ("cli_major", MANIFEST.to_owned(), &["FALSE_ABI_MAJOR=7"], "load::abi_major"),
        ("cli_target", MANIFEST.to_owned(), &["FALSE_TARGET=\"sparc\""], "load::target"),
        ("cli_bare", MANIFEST.to_owned(), &["BARE"], "load::no_probe"),
        ("cli_needs", MANIFEST.replace("\"kernel/1\"", "\"warp/1\""), &[], "load::missing_table"),
        ("cli_liar", MANIFEST.to_owned(), &["LIAR"], "load::manifest_lies"),
        ("cli_abort", MANIFEST.to_owned(), &["FALSE_PANICS=2"], "load::panic_abort"),
        ("cli_create", MANIFEST.to_owned(), &["WRONG=CREATE_FAILS"], "load::create_failed"),
        ("cli_away", MANIFEST.to_owned(), &["WRONG=NOT_AVAILABLE"], "load::unavailable"),
    ];
    for (name, manifest, defines, code) in load {
        exits(name, ONLY_BROKEN, &broken(name, &manifest, defines), 4, &[code]);
    }
    let run: [(&str, &str, &[&str]); 5] = [
        ("cli_check", "UNKNOWN_STATUS_IN_CHECK", &["broken 0.1.0", "prims.neg", "status 99"]),
        ("cli_make", "MAKE_FAILS", &["broken 0.1.0", "prims.neg", "not on a Tuesday"]),
        ("cli_strides", "STRIDES_OVERLAP", &["broken 0.1.0", "run::bad_answer"]),
        ("cli_run", "RUN_FAILS", &["broken 0.1.0", "prims.neg", "the numbers were too sad"]),
        ("cli_panic", "PANICS_IN_RUN", &["run::plugin_panicked", "a C plugin can say so, too"]),
    ];
    for (name, wrong, words) in run {
        let manifest = MANIFEST
            .replace("check = true", if name == "cli_strides" { "ranks = [1, 1]" } else { "check = true" });
        let plugin = broken(name, &manifest, &[&format!("WRONG={wrong}")]);
        exits(name, ONLY_BROKEN, &plugin, 7, words);
    }
}

#[test]
fn panics_of_rust_plugins_end_a_command_with_its_exit_code() {
    for name in ["panics_in_check", "panics_in_make", "panics_in_bind", "panics_in_run"] {
        let config = format!("executors = [\"{name}\"]");
        exits(name, &config, &rust_broken(), 7, &["run::plugin_panicked", "rust-broken 0.1.0", name]);
    }
    let config = "executors = [\"panics_in_create\"]";
    exits("panics_in_create", config, &rust_broken(), 4, &["load::create_panicked"]);
    exits("other_dtype", "executors = [\"other_dtype\"]", &rust_broken(), 7, &["the kernel reads f64"]);
}

#[test]
fn with_on_error_next_somebody_else_takes_over() {
    for name in ["panics_in_check", "panics_in_make", "panics_in_bind", "panics_in_run", "other_dtype"] {
        let config = format!("executors = [\"{name}\", \"panics_in_drop\"]\n[run]\non_error = \"next\"");
        let (code, out, err) = command(&format!("next_{name}"), &config, &[&rust_broken()]);
        // What takes over panics when it is let go of, which comes after all that matters.
        assert_eq!(code, 0, "{name}: {out}{err}");
    }
}

fn rust_broken() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| rust_plugin("broken/rust_broken", "rust_broken", &[])).clone()
}

fn neg(x: &Tensor) -> thunderhead::claim::OpSpec {
    question("prims.neg", &[x], &[(Dtype::F32, x.dims())])
}

#[test]
fn a_panic_in_create_is_a_refusal() {
    let error = load(&rust_broken(), "panics_in_create", &[]).expect_err("panics");
    says(&error, "load::create_panicked", &["panics_in_create, as it should"]);
}

#[test]
fn a_panic_in_check_quarantines() {
    let executor = load(&rust_broken(), "panics_in_check", &[]).expect("loads");
    let x = f32s(&[1], &[1.0]);
    let refusal = executor.check(&neg(&x)).expect_err("panics");
    assert_eq!(refusal.code, codes::PLUGIN_PANICKED);
    assert!(refusal.sentence.contains("as it should"), "{}", refusal.sentence);
    assert!(executor.is_quarantined());
    let again = executor.check(&neg(&x)).expect_err("is called no more");
    assert_eq!(
        (again.code.as_str(), again.sentence.as_str()),
        (codes::PLUGIN_PANICKED, "it panicked and is quarantined")
    );
    assert_eq!(make(&executor, &neg(&x)).map(|_| ()).expect_err("no kernels either").kind, FaultKind::Panic);
}

#[test]
fn panics_in_kernels_quarantine() {
    let x = f32s(&[2], &[1.0, 2.0]);
    for name in ["panics_in_make", "panics_in_bind", "panics_in_run", "other_index"] {
        let executor = load(&rust_broken(), name, &[]).expect("loads");
        let fault = run(&executor, &neg(&x), &[&x]).expect_err("panics");
        assert_eq!(fault.kind, FaultKind::Panic, "{fault}");
        assert!(executor.is_quarantined(), "{name}");
    }
}

#[test]
fn a_panic_fails_the_next_step_of_kernels_made_before() {
    let executor = load(&rust_broken(), "panics_in_drop", &[]).expect("loads");
    let x = f32s(&[2], &[1.0, 2.0]);
    let (one, other) = (make(&executor, &neg(&x)).expect("makes"), make(&executor, &neg(&x)).expect("makes"));
    let io = io_of(&neg(&x), &[&x]);
    let mut bound = one.bind(&io).expect("binds");
    step(bound.as_mut()).expect("runs");
    drop(other);
    assert!(executor.is_quarantined());
    assert_eq!(step(bound.as_mut()).expect_err("is quarantined").kind, FaultKind::Panic);
    // What it made is leaked: dropping calls nothing.
    drop(bound);
}

#[test]
fn the_other_executors_of_a_plugin_go_on() {
    let fallen = load(&rust_broken(), "panics_in_check", &[]).expect("loads");
    let x = f32s(&[1], &[1.0]);
    assert!(fallen.check(&neg(&x)).is_err());
    let good = load(&rust_broken(), "panics_in_drop", &[]).expect("loads");
    assert_eq!(good.check(&neg(&x)), Ok(()));
    let kernel = make(&good, &neg(&x)).expect("makes");
    std::mem::forget(kernel);
}

#[test]
fn a_wrong_dtype_is_an_error_of_the_plugin() {
    let executor = load(&rust_broken(), "other_dtype", &[]).expect("loads");
    let x = f32s(&[2], &[1.0, 2.0]);
    let fault = run(&executor, &neg(&x), &[&x]).expect_err("writes f64");
    assert_eq!(fault.kind, FaultKind::InvalidArgument);
    assert_eq!(&*fault.message, "the tensor is f32; the kernel reads f64");
    assert!(!executor.is_quarantined());
}

#[test]
fn a_c_plugin_that_says_panic_is_quarantined() {
    let path = broken("c_panic", MANIFEST, &["WRONG=PANICS_IN_RUN"]);
    let executor = load(&path, "broken", &[]).expect("loads");
    let x = f32s(&[2], &[1.0, 2.0]);
    assert_eq!(run(&executor, &neg(&x), &[&x]).expect_err("says so").kind, FaultKind::Panic);
    assert!(executor.is_quarantined());
}

#[test]
fn panic_abort_is_refused_before_it_runs() {
    let path = rust_plugin("broken/rust_broken", "rust_broken", &["-Cpanic=abort"]);
    let error = load(&path, "panics_in_run", &[]).expect_err("would end the process");
    says(&error, "load::panic_abort", &["abort", "profile"]);
}

/// A plugin that is linked into the host: it panics at its first run.
mod linked {
    use std::sync::atomic::{AtomicU32, Ordering};
    use thunderhead_sdk::{Call, Create, Error, Executor, Kernel, Op, define_plugin};

    pub static MADE: AtomicU32 = AtomicU32::new(0);

    struct Linked {
        turn: u32,
    }

    impl Executor for Linked {
        fn create(_: &Create<'_>) -> Result<Self, Error> {
            Ok(Linked { turn: MADE.fetch_add(1, Ordering::SeqCst) })
        }
        fn kernel(&self, _: &Op<'_>) -> Result<Box<dyn Kernel>, Error> {
            Ok(Box::new(Falls { turn: self.turn }))
        }
    }

    struct Falls {
        turn: u32,
    }

    impl Kernel for Falls {
        fn run(&self, call: &mut Call<'_>) -> Result<(), Error> {
            assert!(self.turn > 0, "the first one falls");
            let (inputs, outputs) = call.io();
            outputs.get(0).map(&inputs.get(0), |x: f32| -x)
        }
    }

    define_plugin! {
        manifest: "manifest = 1\nid = \"linked\"\nversion = \"0.1.0\"\nabi = \"0.2\"\nir = \"1\"\nneeds = []\n\
                   [[executor]]\nname = \"linked\"\n[[executor.claim]]\nops = [\"prims.neg\"]\n",
        executors: { "linked" => Linked },
    }
}

/// What is linked in comes through the same door, and is made anew after a panic: its kernels of before stay unusable.
#[test]
fn a_linked_plugin_is_made_anew() {
    let mut found = loader::find(&[]);
    found.add_linked(linked::MANIFEST).expect("a manifest");
    let mut request = request("linked", &[]);
    request.linked = vec![("linked".to_owned(), linked::entry())];
    let executor = loader::load(&found, &request).remove(0).result.expect("loads");
    let x = f32s(&[2], &[1.0, 2.0]);
    let io = io_of(&neg(&x), &[&x]);
    let mut before = make(&executor, &neg(&x)).expect("makes").bind(&io).expect("binds");
    assert_eq!(step(before.as_mut()).expect_err("falls").kind, FaultKind::Panic);
    assert!(!executor.is_quarantined());
    assert_eq!(
        run(&executor, &neg(&x), &[&x]).expect("is anew")[0].to_vec::<f32>().expect("f32"),
        [-1.0, -2.0]
    );
    assert_eq!(step(before.as_mut()).expect_err("stays fallen").kind, FaultKind::Panic);
    assert_eq!(linked::MADE.load(std::sync::atomic::Ordering::SeqCst), 2);
}

/// Builds a library with one function, in a folder with a version.
#[cfg(target_os = "linux")]
fn library(name: &str, version: &str, answer: i32) -> PathBuf {
    let folder = c_path(&format!("lib_{name}")).parent().expect("has a folder").to_owned();
    let lib = folder.join("lib");
    std::fs::create_dir_all(&lib).expect("own folder");
    let source = folder.join("answer.c");
    std::fs::write(&source, format!("int answer(void) {{ return {answer}; }}\n")).expect("own folder");
    std::fs::write(folder.join("build-version"), format!("{version}\n")).expect("own folder");
    let built = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-soname,libanswer.so", "-o"])
        .arg(lib.join("libanswer.so"))
        .arg(&source)
        .status();
    assert!(built.expect("cc runs").success());
    folder
}

#[cfg(target_os = "linux")]
#[test]
fn declared_libraries_are_found_compared_and_opened() {
    let (one, two) = (library("one", "1.2+cpu", 1), library("two", "1.3", 2));
    let manifest =
        MANIFEST.replace("libraries = []", "libraries = [{ name = \"libanswer\", version = \"1.2\" }]");
    let source = c_path("asks").with_extension("c");
    let text = std::fs::read_to_string(root().join("tests/broken/broken.c")).expect("checked in");
    let text = format!("extern int answer(void);\nint asks(void) {{ return answer(); }}\n{text}");
    std::fs::write(&source, text).expect("own folder");
    let link = format!("-L{}", one.join("lib").display());
    let plugin = c_plugin(&source, "asks", &manifest, &[], &[&link, "-lanswer"]);
    let named = |folder: &PathBuf, is_binding: bool| LibraryPath {
        name: "libanswer".to_owned(),
        folder: folder.clone(),
        origin: "[libraries]".to_owned(),
        is_binding,
    };
    let with = |folder: &PathBuf| Request { libraries: vec![named(folder, true)], ..request("broken", &[]) };
    let error = load_with(&plugin, &request("broken", &[])).expect_err("no folder is named");
    says(&error, "load::library_missing", &["libanswer", "LIBANSWER"]);
    let error = load_with(&plugin, &with(&two)).expect_err("another version");
    says(&error, "load::library_version", &["1.2", "1.3", "[libraries]"]);
    // What somebody asked for is not replaced by what lies elsewhere.
    let empty = one.join("nothing");
    let elsewhere = |is_binding| {
        let libraries = vec![named(&empty, is_binding), named(&one, false)];
        load_with(&plugin, &Request { libraries, ..request("broken", &[]) })
    };
    let error = elsewhere(true).expect_err("it is not where it was said to be");
    says(&error, "load::library_missing", &["nothing` ([libraries])"]);
    elsewhere(false).expect("loads");
    // Found, and opened by its path: no variable of the dynamic linker is set.
    load_with(&plugin, &with(&one)).expect("loads");
    std::fs::write(two.join("build-version"), "1.2\n").expect("own folder");
    let error = load_with(&plugin, &with(&two)).expect_err("another build is loaded");
    says(&error, "load::library_conflict", &["lib_one", "lib_two"]);
}

#[test]
fn damaged_files_are_refused_not_trusted() {
    let good = std::fs::read(broken("damaged", MANIFEST, &[])).expect("just built");
    let path = std::path::Path::new("damaged.so");
    // Cut short anywhere, and with any byte of the sections' headers and heads changed: an answer, never a panic.
    for len in (0..good.len()).step_by(97) {
        let _ = loader::probe::read_bytes(path, &good[..len]);
    }
    let mut damaged = good.clone();
    for at in (0..good.len()).step_by(3) {
        damaged[at] ^= 0xFF;
        let _ = loader::probe::read_bytes(path, &damaged);
        damaged[at] = good[at];
    }
    let at = good.windows(8).position(|bytes| bytes == b"THUNDRmf").expect("a manifest");
    damaged[at + 8..at + 16].copy_from_slice(&u64::MAX.to_le_bytes());
    let facts = loader::probe::read_bytes(path, &damaged).expect("still a library");
    assert_eq!(facts.manifest.expect_err("says too much").code_text(), "load::manifest_damaged");
}
