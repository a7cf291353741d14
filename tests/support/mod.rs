//! Builds plugins for tests, loads them, and asks and runs them as the rooms would.
//!
//! Rust plugins are built against the SDK as a packaged crate, unpacked beside nothing of the host; C plugins with the
//! header alone. What is built lies in Cargo's folder for tests and is built anew where a source changed.

#![allow(dead_code)] // each test crate uses a part

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use thunderhead::claim::{OpSpec, SpecArg, TensorSpec};
use thunderhead::ir::{Device, Dim, Dtype, ValueId};
use thunderhead::loader::{self, Attempt, LoadError, LoadedExecutor, Place, Request, Wanted};
use thunderhead::memory::{Operand, Tensor};
use thunderhead::plan::{Bound, Fault, Io, Kernel, KernelMaker, Parallel, RunContext};
use thunderhead_manifest::Plain;

/// The root of the repository.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("host/ lies in the repository");
    root.to_owned()
}

/// Where tests of this crate build plugins.
pub fn build_dir() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugins");
    std::fs::create_dir_all(&dir).expect("a folder for plugins");
    dir
}

#[track_caller]
fn must(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Builds a C plugin with the header alone. `manifest` is its `plugin.toml`; each of `defines` becomes a `-D`.
pub fn c_plugin(source: &Path, name: &str, manifest: &str, defines: &[&str], extra: &[&str]) -> PathBuf {
    let library = c_path(name);
    let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command.args(["-std=c11", "-Wall", "-Wextra", "-shared", "-fPIC", "-O1"]);
    command.arg("-I").arg(root().join("sdk/abi/include"));
    command.arg(format!("-DMANIFEST={}", c_literal(manifest)));
    command.args(defines.iter().map(|define| format!("-D{define}")));
    command.arg(source).arg("-o").arg(&library).args(extra);
    must(&mut command);
    library
}

/// Where a C plugin of that name is built. Each has a folder of its own: a folder is a place to look in.
pub fn c_path(name: &str) -> PathBuf {
    // Test crates run beside each other.
    let dir = build_dir().join(format!("{}-{name}", env!("CARGO_CRATE_NAME")));
    std::fs::create_dir_all(&dir).expect("a folder for a plugin");
    dir.join(format!("lib{name}{}", std::env::consts::DLL_SUFFIX))
}

fn c_literal(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '\n' => "\\n".to_owned(),
            '"' | '\\' => format!("\\{c}"),
            c => c.to_string(),
        })
        .collect();
    format!("\"{escaped}\"")
}

/// The SDK's crates as they would be published, unpacked: folder by crate name.
fn packaged_sdk() -> &'static BTreeMap<&'static str, PathBuf> {
    static SDK: OnceLock<BTreeMap<&'static str, PathBuf>> = OnceLock::new();
    SDK.get_or_init(|| {
        let names = ["thunderhead-abi", "thunderhead-manifest", "thunderhead-sdk"];
        let target = build_dir().join("package");
        let mut package = cargo("package");
        package.args(["--no-verify", "--allow-dirty", "--offline", "--quiet", "--target-dir"]).arg(&target);
        package.args(names.iter().flat_map(|name| ["-p", name])).current_dir(root());
        must(&mut package);
        let unpacked = target.join("unpacked");
        std::fs::create_dir_all(&unpacked).expect("a folder for crates");
        names.map(|name| (name, unpack(&target, &unpacked, name))).into()
    })
}

/// Unpacks one crate. Files that did not change keep their time, so that what is built of them stays fresh.
fn unpack(target: &Path, unpacked: &Path, name: &str) -> PathBuf {
    // The ABI's version is its own (rule V1).
    let version = match name {
        "thunderhead-abi" => format!("{}.{}.0", thunderhead_abi::ABI_MAJOR, thunderhead_abi::ABI_MINOR),
        _ => env!("CARGO_PKG_VERSION").to_owned(),
    };
    let crate_name = format!("{name}-{version}");
    let staging = unpacked.join(format!(".{crate_name}.{}", std::process::id()));
    std::fs::create_dir_all(&staging).expect("a folder to unpack in");
    let archive = target.join("package").join(format!("{crate_name}.crate"));
    must(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&staging));
    let to = unpacked.join(&crate_name);
    copy_changed(&staging.join(&crate_name), &to);
    std::fs::remove_dir_all(&staging).expect("own folder");
    to
}

fn copy_changed(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry").path();
        let target = to.join(entry.file_name().expect("a name"));
        if entry.is_dir() {
            copy_changed(&entry, &target);
            continue;
        }
        let new = std::fs::read(&entry).expect("a file");
        if std::fs::read(&target).ok().as_ref() != Some(&new) {
            std::fs::write(&target, new).expect("own folder");
        }
    }
}

fn cargo(command: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What Cargo set for this test must not reach the plugin's build.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_") && text != "CARGO_HOME" && !text.starts_with("CARGO_NET") {
            cargo.env_remove(&name);
        }
    }
    cargo.arg(command);
    cargo
}

/// Builds a Rust plugin that knows the SDK only as a packaged crate. `folder` is its crate in `tests/`; `flags` go to
/// the compiler, for this crate alone.
pub fn rust_plugin(folder: &str, library: &str, flags: &[&str]) -> PathBuf {
    rust_plugin_on(packaged_sdk(), folder, library, flags)
}

/// As [`rust_plugin`], on an SDK in whose `thunderhead-abi` a text was exchanged.
pub fn rust_plugin_on_altered_abi(folder: &str, library: &str, file: &str, from: &str, to: &str) -> PathBuf {
    let mut sdk = packaged_sdk().clone();
    let altered = build_dir().join("altered-abi");
    copy_changed(&sdk["thunderhead-abi"], &altered);
    let file = altered.join(file);
    let text = std::fs::read_to_string(&file).expect("a source of the crate");
    assert!(text.contains(from), "{from}");
    std::fs::write(&file, text.replace(from, to)).expect("own folder");
    sdk.insert("thunderhead-abi", altered);
    rust_plugin_on(&sdk, folder, library, &["--cfg=altered"])
}

fn rust_plugin_on(sdk: &BTreeMap<&str, PathBuf>, folder: &str, library: &str, flags: &[&str]) -> PathBuf {
    let source = root().join("tests").join(folder);
    let variant = flags.concat().replace(|c: char| !c.is_ascii_alphanumeric(), "");
    let name = format!("{}-{}{variant}", folder.replace('/', "-"), env!("CARGO_CRATE_NAME"));
    let work = build_dir().join(format!("src-{name}"));
    copy_changed(&source, &work);
    // The versions that the host itself was built with are there, so nothing is fetched.
    std::fs::copy(root().join("Cargo.lock"), work.join("Cargo.lock")).expect("own folder");
    let target = build_dir().join("target");
    let mut build = cargo("rustc");
    build.args(["--offline", "--quiet"]).arg("--target-dir").arg(&target).current_dir(&work);
    for (name, path) in sdk {
        build.arg("--config").arg(format!("patch.crates-io.{name}.path={:?}", path.display().to_string()));
    }
    // One name for all crates that are built beside each other would be one file for all of them.
    let metadata = format!("-Cextra-filename=-{name}");
    build.arg("--").args(flags).args(["--emit=link"]).arg(&metadata);
    must(&mut build);
    let built =
        target.join("debug/deps").join(format!("lib{library}-{name}{}", std::env::consts::DLL_SUFFIX));
    let to = c_path(&format!("{library}{variant}"));
    // A new file, not new content of one that a test beside this has open.
    let staged = to.with_extension("new");
    std::fs::copy(&built, &staged).expect("own folder");
    std::fs::rename(&staged, &to).expect("own folder");
    to
}

/// A place to look in.
pub fn place(path: &Path) -> Place {
    Place { path: path.to_owned(), origin: "the test".to_owned(), must_exist: true }
}

/// A request for one executor with these options.
pub fn request(executor: &str, options: &[(&str, Plain)]) -> Request {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Request { wanted: vec![Wanted { name: executor.to_owned(), options }], threads: 2, ..Request::default() }
}

/// Loads one executor of one file.
pub fn load(
    path: &Path,
    executor: &str,
    options: &[(&str, Plain)],
) -> Result<Arc<LoadedExecutor>, LoadError> {
    load_with(path, &request(executor, options))
}

/// Loads one executor of one file. A file that is no plugin is said to be none.
pub fn load_with(path: &Path, request: &Request) -> Result<Arc<LoadedExecutor>, LoadError> {
    let found = loader::find(&[place(path)]);
    if let Some(skipped) = found.skipped.first() {
        return Err(skipped.error.clone());
    }
    let mut attempts: Vec<Attempt> = loader::load(&found, request);
    attempts.pop().expect("one was wanted").result
}

/// A question: `op` of these inputs, with known dims and strides. A dim of -1 of an output is for the kernel to decide.
pub fn question(op: &str, inputs: &[&Tensor], outputs: &[(Dtype, &[i64])]) -> OpSpec {
    let spec = |value: usize, dtype, dims: &[i64], strides: Option<&[i64]>| TensorSpec {
        value: ValueId(value as u32),
        dtype,
        device: Device::Cpu,
        dims: dims.iter().map(|dim| if *dim < 0 { unknown_dim() } else { Dim::Known(*dim) }).collect(),
        strides: strides.map(<[i64]>::to_vec),
        constant: 0,
    };
    let names = ["a", "b", "c"];
    let n_inputs = inputs.len();
    OpSpec {
        op: op.into(),
        origin: "here".into(),
        args: (0..n_inputs).map(|idx| (names[idx].into(), SpecArg::Tensor(idx))).collect(),
        inputs: inputs
            .iter()
            .enumerate()
            .map(|(idx, tensor)| spec(idx, tensor.dtype(), tensor.dims(), Some(tensor.strides_elems())))
            .collect(),
        outputs: outputs
            .iter()
            .enumerate()
            .map(|(idx, (dtype, dims))| {
                let strides = thunderhead::memory::operand::contiguous_strides(dims);
                spec(n_inputs + idx, *dtype, dims, (!dims.contains(&-1)).then_some(&strides[..]))
            })
            .collect(),
        slots: Vec::new(),
    }
}

fn unknown_dim() -> Dim {
    Dim::symbol(thunderhead::ir::Symbol { kind: thunderhead::ir::SymKind::Data, number: 0 })
}

/// Makes a kernel for the question.
pub fn make(executor: &LoadedExecutor, op: &OpSpec) -> Result<Arc<dyn Kernel>, Fault> {
    executor.make(op, &|_| None)
}

/// Runs chunks one behind the other.
pub struct OneThread;

impl Parallel for OneThread {
    fn parallel_for(&self, _: usize, n_chunks: usize, f: &(dyn Fn(usize) + Sync)) {
        (0..n_chunks).for_each(f);
    }
}

/// Runs a bound kernel once.
pub fn step(bound: &mut dyn Bound) -> Result<(), Fault> {
    let cancel = AtomicBool::new(false);
    bound.run(&RunContext { threads: 2, pool: &OneThread, cancel: &cancel })
}

/// Makes a kernel, binds it and runs it once.
pub fn run(executor: &LoadedExecutor, op: &OpSpec, inputs: &[&Tensor]) -> Result<Vec<Tensor>, Fault> {
    let kernel = make(executor, op)?;
    let io = io_of(op, inputs);
    let mut bound = kernel.bind(&io)?;
    step(bound.as_mut())?;
    let outputs = io.outputs.iter().enumerate().map(|(idx, (dtype, operand))| match operand {
        Some(operand) => Tensor::of_operand(*dtype, operand.clone()),
        None => bound.take_allocated(idx).expect("a run that answered OK gave all outputs"),
    });
    Ok(outputs.collect())
}

/// Operands for the question.
pub fn io_of(op: &OpSpec, inputs: &[&Tensor]) -> Io {
    let output = |tensor: &TensorSpec| {
        let dims: Option<Vec<i64>> = tensor.dims.iter().map(Dim::known).collect();
        let operand: Option<Operand> =
            dims.map(|dims| Tensor::zeros(tensor.dtype, &dims).expect("a small tensor").operand().clone());
        (tensor.dtype, operand)
    };
    Io {
        inputs: inputs.iter().map(|tensor| (tensor.dtype(), tensor.operand().clone())).collect(),
        outputs: op.outputs.iter().map(output).collect(),
        constants: vec![(0, 0); inputs.len()],
        workspace: None,
        n_numbers: op.slots.len(),
    }
}

/// An f32 tensor.
pub fn f32s(dims: &[i64], values: &[f32]) -> Tensor {
    Tensor::from_slice(values, dims).expect("as many values as dims say")
}
