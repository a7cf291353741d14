//! `cargo xtask libtorch`: finds libtorch, or fetches its CPU part into the user's cache folder.
//!
//! `LIBTORCH` and `LIBTORCH_USE_PYTORCH` win over the cache, as they do for the `torch-sys` build. Otherwise PyTorch's
//! own wheel is downloaded by pip (the only public place of this build that needs no extra host), and only what a CPU
//! program needs is kept.
//!
//! Invariants: a folder under its final name is complete, because it is renamed into place as the last act; wheels are
//! accepted by pinned sha256 only; one process at a time works in the staging folder (a file lock); finished
//! downloads survive an interruption, so a second try does not start from nothing.
//!
//! Deliberately not here: building anything, and any other platform than the one whose hashes are pinned.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tool::{self, Failure};

/// The version of libtorch that `tch` is made for.
pub const VERSION: &str = "2.13.0";

/// The wheels, with the hashes under which the registry lists them. The one for CPython 3.12 serves every Python:
/// nothing of Python's is kept.
const WHEELS: &[&str] = &[
    "torch==2.13.0 --hash=sha256:796633c4cdf0fe2cdced72d8f88f22e73dbcfce83132763162f6d4bff13b820b",
    "nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
    "nvidia-cuda-cupti==13.0.85 --hash=sha256:4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
];

/// How much travels, and how much stays; said before the download begins.
const DOWNLOAD_MIB: u32 = 520;
const KEPT_MIB: u32 = 520;

/// Platform tags of the pinned wheels, the newest first.
const PLATFORMS: &[&str] = &["manylinux_2_28_x86_64", "manylinux_2_25_x86_64", "manylinux2014_x86_64"];

/// Copies the members that are kept out of a folder of wheels. Python is there anyway, for pip; its `zipfile` checks
/// each member's CRC.
const UNPACK: &str = include_str!("libtorch_unpack.py");

/// Where libtorch comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Libtorch {
    /// The caller's environment says so; passed on untouched.
    Environment,
    /// A complete folder in the cache.
    Cached(PathBuf),
}

impl Libtorch {
    /// Makes `command` (a cargo build) use this libtorch.
    pub fn apply(&self, command: &mut Command) {
        if let Libtorch::Cached(folder) = self {
            command.env("LIBTORCH", folder);
        }
    }

    /// The folder that holds the shared libraries.
    pub fn lib_folder(&self) -> Result<PathBuf, Failure> {
        match self {
            Libtorch::Cached(folder) => Ok(folder.join("lib")),
            Libtorch::Environment => match set("LIBTORCH") {
                Some(folder) => Ok(PathBuf::from(folder).join("lib")),
                None => {
                    let mut python = Command::new(python_name());
                    python.args([
                        "-c",
                        "import os, torch; print(os.path.join(os.path.dirname(torch.__file__), 'lib'))",
                    ]);
                    let path = tool::output(&mut python, "ask Python where its torch is")?;
                    Ok(PathBuf::from(path.trim()))
                }
            },
        }
    }
}

/// `cargo xtask libtorch`: prints where libtorch is, after fetching it where that was necessary.
pub fn command() -> Result<(), Failure> {
    let lib = fetch()?;
    println!("{}", lib.lib_folder()?.parent().unwrap_or(Path::new("")).display());
    Ok(())
}

/// What is there already, without a download: `None` means that `fetch` would have to work.
pub fn present() -> Result<Option<Libtorch>, Failure> {
    if let Some(folder) = set("LIBTORCH") {
        check_folder(Path::new(&folder))?;
        return Ok(Some(Libtorch::Environment));
    }
    if set("LIBTORCH_USE_PYTORCH").is_some() {
        return Ok(Some(Libtorch::Environment));
    }
    let folder = cache_folder()?.join(folder_name());
    Ok(folder.is_dir().then_some(Libtorch::Cached(folder)))
}

/// libtorch, downloaded first if the machine has none.
pub fn fetch() -> Result<Libtorch, Failure> {
    if let Some(lib) = present()? {
        return Ok(lib);
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")) {
        return Err(Failure::new(
            "no libtorch, and the download is pinned for x86_64 Linux with glibc only",
            "set LIBTORCH to a libtorch 2.13.0, or LIBTORCH_USE_PYTORCH=1 with torch 2.13.0 in the current Python; \
             `--no-torch` goes without",
        ));
    }
    tool::require_pip()?;
    let cache = cache_folder()?;
    let target = cache.join(folder_name());
    let staging = cache.join(format!("{}.part", folder_name()));
    tool::io("create", &staging, fs::create_dir_all(&staging))?;
    let lock_path = cache.join(format!("{}.lock", folder_name()));
    let lock = tool::io("create", &lock_path, File::create(&lock_path))?;
    tool::io("lock", &lock_path, lock.lock())?;
    // Somebody else may have finished while this process waited for the lock.
    if target.is_dir() {
        return Ok(Libtorch::Cached(target));
    }
    eprintln!(
        "libtorch {VERSION} is not on this machine: fetching PyTorch's wheel by pip (about {DOWNLOAD_MIB} MiB, once),"
    );
    eprintln!("keeping its CPU part (about {KEPT_MIB} MiB) in {}", target.display());
    eprintln!("(to use another one, set LIBTORCH or LIBTORCH_USE_PYTORCH; `--no-torch` goes without)");
    let wheels = download(&staging)?;
    let tree = staging.join("tree");
    tool::remove_folder(&tree)?;
    unpack(&wheels, &tree)?;
    check_folder(&tree)?;
    tool::io("move into place", &target, fs::rename(&tree, &target))?;
    tool::remove_folder(&staging)?;
    eprintln!("libtorch {VERSION} is ready in {}", target.display());
    Ok(Libtorch::Cached(target))
}

/// Downloads the wheels; those that an earlier try finished are found, checked by hash again and kept.
fn download(staging: &Path) -> Result<PathBuf, Failure> {
    let wheels = staging.join("wheels");
    tool::io("create", &wheels, fs::create_dir_all(&wheels))?;
    let list = staging.join("requirements.txt");
    tool::io("write", &list, fs::write(&list, WHEELS.join("\n") + "\n"))?;
    let mut pip = Command::new(python_name());
    pip.args(["-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:"]);
    pip.args(["--implementation", "cp", "--python-version", "3.12", "--abi", "cp312", "--abi", "none"]);
    for platform in PLATFORMS {
        pip.args(["--platform", platform]);
    }
    pip.arg("--dest").arg(&wheels).arg("--requirement").arg(&list);
    // pip's own cache would keep the half gigabyte a second time.
    pip.arg("--no-cache-dir");
    tool::run_to_stderr(&mut pip, "download libtorch's wheels")?;
    Ok(wheels)
}

fn unpack(wheels: &Path, tree: &Path) -> Result<(), Failure> {
    let mut python = Command::new(python_name());
    python.arg("-c").arg(UNPACK).arg(wheels).arg(tree);
    tool::run_to_stderr(&mut python, "unpack libtorch")?;
    // `torch-sys` links `libtorch.so`, which in the wheel pulls in CUDA. A linker script of that name names the CPU
    // library instead.
    let script = tree.join("lib/libtorch.so");
    tool::io("write", &script, fs::write(&script, "INPUT(libtorch_cpu.so)\n"))?;
    let version = tree.join("build-version");
    tool::io("write", &version, fs::write(&version, format!("{VERSION}+cpu\n")))
}

/// Is this a libtorch that plugins can be built against?
fn check_folder(folder: &Path) -> Result<(), Failure> {
    for part in ["lib/libtorch_cpu.so", "lib/libc10.so", "include/ATen/ATen.h"] {
        if !folder.join(part).exists() {
            return Err(Failure::new(
                format!("`{}` is no libtorch: it has no `{part}`", folder.display()),
                "LIBTORCH names the folder that holds `lib` and `include` (of an installed torch: the folder `torch`)",
            ));
        }
    }
    Ok(())
}

fn folder_name() -> String {
    format!("libtorch-{VERSION}-cpu")
}

/// `$XDG_CACHE_HOME/thunderhead`, by default `~/.cache/thunderhead`.
fn cache_folder() -> Result<PathBuf, Failure> {
    let base = match set("XDG_CACHE_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let home = set("HOME").ok_or_else(|| {
                Failure::new(
                    "neither XDG_CACHE_HOME nor HOME is set",
                    "set XDG_CACHE_HOME to a folder that may be written",
                )
            })?;
            PathBuf::from(home).join(".cache")
        }
    };
    Ok(base.join("thunderhead"))
}

/// The interpreter that `torch-sys` asks, too.
fn python_name() -> &'static str {
    if set("VIRTUAL_ENV").is_some() { "python" } else { "python3" }
}

/// An environment variable that is set and not empty.
fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
