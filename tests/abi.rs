//! Plugins that somebody else built, through the loader: Rust on the packaged SDK, C on the header alone.

#[path = "support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::sync::OnceLock;
use support::*;
use thunderhead::claim::{Claimant, StaticClaim};
use thunderhead::ir::Dtype;
use thunderhead::loader::{self, LoadError};
use thunderhead_manifest::Plain;

fn c_square() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let folder = root().join("tests/third_party/c_square");
        let manifest = std::fs::read_to_string(folder.join("plugin.toml")).expect("checked in");
        c_plugin(&folder.join("square.c"), "c_square", &manifest, &[], &["-Werror"])
    };
    BUILT.get_or_init(build).clone()
}

fn rust_relu() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| rust_plugin("third_party/rust_relu", "rust_relu", &[])).clone()
}

fn leak(value: f64) -> [(&'static str, Plain); 1] {
    [("leak", Plain::Float(value))]
}

#[test]
fn a_rust_plugin_on_the_packaged_sdk_runs() {
    let executor = load(&rust_relu(), "rust_relu", &leak(0.5)).expect("loads");
    let x = f32s(&[2, 3], &[1.0, -2.0, 3.0, -4.0, 5.0, -6.0]);
    let op = question("torch.relu", &[&x], &[(Dtype::F32, &[2, 3])]);
    assert!(matches!(executor.limits(&op), StaticClaim::Within { check: true, .. }));
    assert_eq!(executor.check(&op), Ok(()));
    let kernel = make(&executor, &op).expect("makes a kernel");
    assert_eq!(kernel.info().in_place, [(0, 0)]);
    assert!(kernel.info().size_independent);
    let out = run(&executor, &op, &[&x]).expect("runs");
    assert_eq!(out[0].to_vec::<f32>().expect("f32"), [1.0, -1.0, 3.0, -2.0, 5.0, -3.0]);
}

#[test]
fn a_refusal_arrives_with_its_place() {
    let executor = load(&rust_relu(), "rust_relu", &leak(0.0)).expect("loads");
    let x = f32s(&[1, 13], &[0.0; 13]);
    let refusal =
        executor.check(&question("torch.relu", &[&x], &[(Dtype::F32, &[1, 13])])).expect_err("refuses");
    assert_eq!(refusal.code, "rust_relu::unlucky");
    assert_eq!(refusal.sentence, "a dim of 13 is not taken");
    assert_eq!(refusal.at.as_deref(), Some("a, dim 1 = 13"));
}

#[test]
fn limits_come_from_the_manifest_without_a_call() {
    let executor = load(&rust_relu(), "rust_relu", &leak(0.0)).expect("loads");
    let x = thunderhead::memory::Tensor::from_slice(&[1i64, 2], &[2]).expect("two values");
    let StaticClaim::Refused(refusal) =
        executor.limits(&question("torch.relu", &[&x], &[(Dtype::I64, &[2])]))
    else {
        panic!("integers are outside the claim");
    };
    assert_eq!(
        (refusal.code.as_str(), refusal.sentence.as_str()),
        ("claim::dtype_unsupported", "input 0 is i64; it takes f32, f64")
    );
}

#[test]
fn a_bound_kernel_follows_its_operands() {
    let executor = load(&rust_relu(), "rust_relu", &leak(0.0)).expect("loads");
    let (x, y) = (f32s(&[2], &[1.0, -1.0]), f32s(&[2], &[-3.0, 3.0]));
    let op = question("torch.relu", &[&x], &[(Dtype::F32, &[2])]);
    let io = io_of(&op, &[&x]);
    let mut bound = make(&executor, &op).expect("makes a kernel").bind(&io).expect("binds");
    step(bound.as_mut()).expect("runs");
    bound.set_input(0, y.operand(), 0);
    let out = thunderhead::memory::Tensor::zeros(Dtype::F32, &[2]).expect("two values");
    bound.set_output(0, out.operand());
    step(bound.as_mut()).expect("runs");
    assert_eq!(out.to_vec::<f32>().expect("f32"), [0.0, 3.0]);
}

#[test]
fn a_c_plugin_on_the_header_alone_runs() {
    let executor = load(&c_square(), "c_square", &[("shout", Plain::Bool(true))]).expect("loads");
    let (a, b) = (f32s(&[3], &[1.0, 2.0, 3.0]), f32s(&[3], &[4.0, 5.0, 6.0]));
    let op = question("prims.mul", &[&a, &b], &[(Dtype::F32, &[3])]);
    assert_eq!(executor.check(&op), Ok(()));
    let out = run(&executor, &op, &[&a, &b]).expect("runs");
    assert_eq!(out[0].to_vec::<f32>().expect("f32"), [4.0, 10.0, 18.0]);
    let odd = question("prims.mul", &[&a, &f32s(&[1, 3], &[0.0; 3])], &[(Dtype::F32, &[3])]);
    assert_eq!(executor.check(&odd).expect_err("refuses").code, "c_square::not_two_tensors");
}

#[test]
fn a_file_is_inspected_without_loading_it() {
    let seen = loader::inspect(&rust_relu()).expect("readable");
    assert_eq!(seen.obstacles, []);
    assert_eq!(seen.manifest.expect("has one").id, "rust-relu");
    assert_eq!(seen.doors.len(), 2);
    let probe = seen.probe.expect("has one");
    assert_eq!(probe.target, thunderhead_abi::TARGET);
    assert!(probe.compiler.starts_with("rustc 1."), "{}", probe.compiler);
    let seen = loader::inspect(&c_square()).expect("readable");
    assert_eq!((seen.obstacles.len(), seen.doors.len()), (0, 1));
    assert_eq!(seen.probe.expect("has one").sdk_version, "c 0.2");
}

#[test]
fn a_symlink_or_a_copy_is_the_same_plugin() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = c_square();
    let link = dir.path().join("a.so");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&file, &link).expect("own folder");
    std::fs::copy(&file, dir.path().join("b.so")).expect("own folder");
    let found = loader::find(&[place(&file), place(dir.path())]);
    assert_eq!(found.plugins.len(), 1);
    assert_eq!(found.plugins[0].same.len(), 2);
    assert_eq!(found.conflicts, []);
    let attempts = loader::load(&found, &request("c_square", &[]));
    assert!(attempts[0].result.is_ok());
}

#[test]
fn two_plugins_of_one_executor_name_are_an_error_that_names_both() {
    let folder = root().join("tests/third_party/c_square");
    let manifest = std::fs::read_to_string(folder.join("plugin.toml")).expect("checked in");
    let other = manifest.replace("id = \"c-square\"", "id = \"c-square-too\"");
    let other = c_plugin(&folder.join("square.c"), "c_square_too", &other, &[], &[]);
    let found = loader::find(&[place(&c_square()), place(&other)]);
    let attempts = loader::load(&found, &request("c_square", &[]));
    let error = attempts[0].result.as_ref().expect_err("two bring it");
    assert_eq!(error.code_text(), "load::duplicate_executor");
    let text = error.to_string();
    assert!(text.contains("c_square.so") && text.contains("c_square_too.so"), "{text}");
}

#[test]
fn pins_are_kept() {
    let digest = loader::inspect(&c_square()).expect("readable").sha256;
    let mut request = request("c_square", &[]);
    request.pins.insert("c-square".to_owned(), digest);
    assert!(load_with(&c_square(), &request).is_ok());
    request.pins.insert("c-square".to_owned(), "00".repeat(32));
    let error = load_with(&c_square(), &request).expect_err("another file is pinned");
    assert_eq!(error.code_text(), "load::pin_mismatch");
}

#[cfg(unix)]
#[test]
fn what_everybody_may_write_is_refused_unless_allowed() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("open.so");
    std::fs::copy(c_square(), &file).expect("own folder");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).expect("own file");
    let mut request = request("c_square", &[]);
    let error = load_with(&file, &request).expect_err("anybody may write it");
    assert!(matches!(error, LoadError::WorldWritable { mode: 0o666, .. }), "{error}");
    request.allow_untrusted = true;
    assert!(load_with(&file, &request).is_ok());
}

#[test]
fn a_name_that_nobody_brings_says_where_was_looked() {
    let error = load(&c_square(), "nobody", &[]).expect_err("nobody brings it");
    assert_eq!(error.code_text(), "load::not_found");
    assert!(error.help_text().contains("libc_square"), "{}", error.help_text());
}

#[test]
fn other_types_under_the_same_version_are_found_by_their_layout() {
    let (from, to) = (
        "pub threads: u32,\n    /// 0.\n    pub reserved: u32,",
        "pub reserved: u32,\n    /// Moved.\n    pub threads: u32,",
    );
    let plugin =
        rust_plugin_on_altered_abi("third_party/rust_relu", "rust_relu", "src/kernel_1.rs", from, to);
    let error = load(&plugin, "rust_relu", &leak(0.0)).expect_err("`RunArgs` differs");
    assert_eq!(error.code_text(), "load::layout", "{error}");
    assert!(error.help_text().contains("threads"), "{}", error.help_text());
}

/// Both plugins in one program, chosen by a config: each wins its op, one op is left to the host, another refused.
#[test]
fn a_config_finds_them_and_they_win_their_ops() {
    let dir = build_dir().join("config");
    std::fs::create_dir_all(&dir).expect("own folder");
    let config = format!(
        "config = 1\nexecutors = [\"rust_relu\", \"c_square\"]\nlast_resort = \"none\"\n\
         [plugins]\npaths = [{:?}, {:?}]\n[executor.rust_relu]\noptions = {{ leak = 0.5 }}\n",
        rust_relu(),
        c_square()
    );
    std::fs::write(dir.join("config.toml"), config).expect("own folder");
    let host = thunderhead::Host::from_config(dir.join("config.toml")).expect("both are found");
    let text = "thunderhead trace 1.0\n\n\
        trace forward(%x: f32[2, 3] input \"in0\", %w: f32[3, 2] input \"in1\") stage acquired {\n    \
        %r: f32[2, 3] = torch.relu(%x)\n    \
        %t: f32[2, 3] = torch.transpose(%w, axis0=0, axis1=1)\n    \
        %y: f32[2, 3] = prims.mul(%r, %t)\n    \
        return %y as \"out0\"\n}\n";
    let program = thunderhead::Program::from_trace_text("two.trace", text).expect("a trace");
    let session = host.compile(&program).expect("compiles");
    let x = f32s(&[2, 3], &[1.0, -2.0, 3.0, -4.0, 5.0, -6.0]);
    let w = f32s(&[3, 2], &[1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
    let inputs = [thunderhead::Value::Tensor(x), thunderhead::Value::Tensor(w)];
    let plan = session.plan(&inputs).expect("plans");
    let owners: Vec<_> =
        plan.ops.iter().map(|op| (op.op.as_str(), op.executor.as_deref().unwrap_or("-"))).collect();
    assert_eq!(owners, [("torch.relu", "rust_relu"), ("torch.transpose", "host"), ("prims.mul", "c_square")]);
    // The C plugin asks for dense operands, which the transposed one is not.
    assert_eq!(plan.copies.len(), 1);
    for _ in 0..3 {
        let out = session.run(&inputs).expect("runs");
        let thunderhead::Value::Tensor(out) = &out[0] else { panic!("a tensor comes out") };
        assert_eq!(out.to_vec::<f32>().expect("f32"), [1.0, -2.0, 9.0, -20.0, 100.0, -90.0]);
    }
}

#[test]
fn a_refused_op_is_unclaimed_with_the_plugins_reason() {
    let dir = build_dir().join("unclaimed");
    std::fs::create_dir_all(&dir).expect("own folder");
    let config = format!(
        "config = 1\nexecutors = [\"c_square\"]\nlast_resort = \"none\"\n[plugins]\npaths = [{:?}]\n",
        c_square()
    );
    std::fs::write(dir.join("config.toml"), config).expect("own folder");
    let trace = "thunderhead trace 1.0\n\ntrace forward(%x: f32[3] input \"in0\") stage acquired {\n    \
                 %y: f32[3] = prims.mul(%x, 2.0)\n    return %y as \"out0\"\n}\n";
    std::fs::write(dir.join("mul.trace"), trace).expect("own folder");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_thunderhead"))
        .args(["explain", "mul.trace", "--config", "./config.toml", "--color", "never"])
        .current_dir(&dir)
        .output()
        .expect("the command starts");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{err}");
    assert!(
        err.contains("c_square::not_two_tensors") && err.contains("two tensors of one rank are taken"),
        "{err}"
    );
}
