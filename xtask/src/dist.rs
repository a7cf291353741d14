//! `cargo xtask dist`: the tree that users run, in `target/dist`: `bin`, `plugins`, `configs`, `include`, `share`.
//!
//! Invariants: the tree can be copied anywhere and runs from there; nothing in it points into the source tree. What
//! was found at build time and may differ elsewhere (where libtorch lies) is written to `share/libraries.toml`, the
//! last place in which the host looks for a declared library.
//!
//! Deliberately not here: fetching libtorch (`libtorch.rs`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::libtorch::{self, Libtorch};
use crate::tool::{self, Failure};

/// Which plugins stand in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Torch {
    /// With the plugins over libtorch, which is fetched where the machine has none.
    Fetch,
    /// Nothing that needs libtorch.
    Without,
}

/// How the tree is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Release,
    /// Not optimised, but soon there: for a first look.
    Quick,
    /// For the test suite: shares its artefacts with `cargo test`.
    Dev,
}

/// What the packages over libtorch share.
pub const TORCH_LIBRARY: &str = "thunderhead-aten";

/// Packages over libtorch, with the names of their libraries.
pub const TORCH_PLUGINS: &[(&str, &str)] =
    &[("thunderhead-pytorch", "thunderhead_pytorch"), ("thunderhead-sdpa", "thunderhead_sdpa")];

/// Packages that need no libtorch, with the names of their libraries.
pub const PLUGINS: &[(&str, &str)] = &[
    ("thunderhead-full-fusion", "thunderhead_full_fusion"),
    ("thunderhead-concat-inductor", "thunderhead_concat_inductor"),
];

/// `cargo xtask dist`: builds the tree and says where it is.
pub fn command(torch: Torch) -> Result<(), Failure> {
    let tree = build(torch, Profile::Release)?;
    println!("{}", tree.display());
    Ok(())
}

/// Builds host and plugins and lays the tree out; returns its folder.
pub fn build(torch: Torch, profile: Profile) -> Result<PathBuf, Failure> {
    let libtorch = match torch {
        Torch::Fetch => {
            tool::require_cxx()?;
            Some(libtorch::fetch()?)
        }
        Torch::Without => None,
    };
    compile(libtorch.as_ref(), profile)?;
    let (built, tree) = match profile {
        Profile::Release => ("release", "dist"),
        Profile::Quick => ("quick", "dist-quick"),
        Profile::Dev => ("debug", "dist-dev"),
    };
    let (built, tree) = (tool::target_folder().join(built), tool::target_folder().join(tree));
    lay_out(&built, &tree, libtorch.as_ref())?;
    Ok(tree)
}

fn compile(libtorch: Option<&Libtorch>, profile: Profile) -> Result<(), Failure> {
    let mut cargo = tool::cargo();
    cargo.args(["build", "--locked", "--package", "thunderhead"]);
    match profile {
        Profile::Release => _ = cargo.arg("--release"),
        Profile::Quick => _ = cargo.args(["--profile", "quick"]),
        Profile::Dev => (),
    }
    for (package, _) in PLUGINS {
        cargo.args(["--package", package]);
    }
    if let Some(libtorch) = libtorch {
        for (package, _) in TORCH_PLUGINS {
            cargo.args(["--package", package]);
        }
        libtorch.apply(&mut cargo);
    }
    tool::run_to_stderr(&mut cargo, "build the host and its plugins")
}

/// Copies what was built into a fresh tree. Files are put beside their place and renamed, so that a tree in use stays whole.
fn lay_out(built: &Path, tree: &Path, libtorch: Option<&Libtorch>) -> Result<(), Failure> {
    for folder in ["bin", "plugins", "configs", "include", "share/docs"] {
        let folder = tree.join(folder);
        tool::io("create", &folder, fs::create_dir_all(&folder))?;
    }
    copy(&built.join(exe("thunderhead")), &tree.join("bin").join(exe("thunderhead")))?;
    for (_, library) in PLUGINS {
        copy(&built.join(dylib(library)), &tree.join("plugins").join(dylib(library)))?;
    }
    let libraries = tree.join("share/libraries.toml");
    for (_, library) in TORCH_PLUGINS {
        let place = tree.join("plugins").join(dylib(library));
        match libtorch {
            Some(_) => copy(&built.join(dylib(library)), &place)?,
            // A tree without libtorch has no plugin over it, not even one of an earlier build.
            None => remove_file(&place)?,
        }
    }
    match libtorch {
        Some(libtorch) => {
            let text = libraries_toml(&libtorch.lib_folder()?);
            tool::io("write", &libraries, fs::write(&libraries, text))?;
        }
        None => remove_file(&libraries)?,
    }
    copy_all(&tool::root().join("configs"), &tree.join("configs"), "toml")?;
    copy_all(&tool::root().join("sdk/abi/include"), &tree.join("include"), "h")?;
    copy_all(&tool::root().join("docs"), &tree.join("share/docs"), "md")?;
    for name in ["LICENSE", "README.md", "CHANGELOG.md"] {
        let source = tool::root().join(name);
        if source.exists() {
            copy(&source, &tree.join("share").join(name))?;
        }
    }
    Ok(())
}

fn libraries_toml(lib_folder: &Path) -> String {
    let folder = lib_folder.parent().unwrap_or(lib_folder);
    // LIBTORCH may be relative to the folder that cargo was called in.
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    format!(
        "# Where the libraries lay that these plugins were built against. Read last: `[libraries]` of the config and the\n\
         # LIBTORCH variable come first.\n\
         libtorch = {}\n",
        toml::Value::String(folder.display().to_string())
    )
}

/// Copies the files of one folder that have this extension; files of that kind that the source no longer has go.
fn copy_all(source: &Path, target: &Path, extension: &str) -> Result<(), Failure> {
    let files = |folder: &Path| -> Result<Vec<PathBuf>, Failure> {
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for entry in tool::io("read", folder, fs::read_dir(folder))? {
            let path = tool::io("read", folder, entry)?.path();
            if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
        Ok(found)
    };
    for old in files(target)? {
        remove_file(&old)?;
    }
    for file in files(source)? {
        let name = file.file_name().expect("a file found in a folder has a name");
        copy(&file, &target.join(name))?;
    }
    Ok(())
}

fn copy(source: &Path, target: &Path) -> Result<(), Failure> {
    let staged = target.with_extension("part");
    tool::io("copy", source, fs::copy(source, &staged))?;
    tool::io("write", target, fs::rename(&staged, target))
}

fn remove_file(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => tool::io("remove", path, Err(error)),
        _ => Ok(()),
    }
}

fn exe(name: &str) -> String {
    format!("{name}{}", std::env::consts::EXE_SUFFIX)
}

fn dylib(name: &str) -> String {
    format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}
