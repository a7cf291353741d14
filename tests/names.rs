//! Names that somebody may have typed are a contract: one that goes without an alias fails here, whatever is blessed.
//!
//! The lists are taken from what gives the names their meaning: manifests, presets, the grammar of the command line, the
//! reader of configs, the page of codes. `tests/names.txt` is what they were; `cargo xtask bless` adds to it and never takes away.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, CommandFactory};
use thunderhead::config::{Meaning, OpNames, PRESETS, keys};
use thunderhead::ops;
use thunderhead_manifest::Manifest;

/// The grammar itself, as the command is built from it.
#[path = "../host/src/cli"]
#[allow(dead_code)]
mod cli {
    pub mod args;
    pub mod exit_code;
}

/// Names by section, each with what is said of it.
type Names = BTreeMap<String, BTreeMap<String, String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("host/ lies in the repository").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The manifests of the plugins that come with the host.
fn manifests() -> Vec<Manifest> {
    let plugins = fs::read_dir(root().join("plugins")).expect("plugins/");
    let texts = plugins.filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("plugin.toml")).ok());
    let found: Vec<Manifest> = texts.map(|text| Manifest::parse(&text).expect("a good manifest").0).collect();
    assert!(found.len() >= 5, "{} manifests", found.len());
    found
}

/// All names as they are now.
fn names() -> Names {
    let mut names = Names::new();
    of_plugins(&mut names);
    of_presets(&mut names);
    of_benches(&mut names);
    for (exit, meaning) in cli::exit_code::Exit::ALL {
        add(&mut names, "exit codes", format!("{} {exit:?}", exit as u8), meaning);
    }
    keys().into_iter().for_each(|key| add(&mut names, "config keys", key, ""));
    of_command(&mut names, "", &cli::args::Cli::command());
    let page = read("docs/errors.md");
    let codes = page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    codes.for_each(|code| add(&mut names, "error codes", code, ""));
    names
}

fn add(names: &mut Names, section: &str, name: impl Into<String>, said: impl Into<String>) {
    names.entry(section.to_owned()).or_default().insert(name.into(), said.into());
}

fn of_plugins(names: &mut Names) {
    for manifest in manifests() {
        add(names, "plugins", &manifest.id, "");
        for executor in &manifest.executors {
            let name = &executor.name;
            add(names, "executors", name, executor.kind.to_string());
            add(names, "labels", &executor.label, name);
            for alias in &executor.aliases {
                add(names, "executors", &alias.name, format!("now {name}"));
            }
            for (option, declared) in &executor.options {
                let default = format!("= {}", declared.default);
                add(names, "options", format!("{name}.{option}: {}", declared.kind), default);
                for alias in &declared.aliases {
                    let former = format!("{name}.{}: {}", alias.name, declared.kind);
                    add(names, "options", former, format!("now {name}.{option}"));
                }
            }
        }
    }
}

fn of_presets(names: &mut Names) {
    for (preset, text) in PRESETS {
        let table: toml::Table = text.parse().expect("a preset is TOML");
        let order: Vec<&str> =
            table["executors"].as_array().into_iter().flatten().filter_map(|e| e.as_str()).collect();
        add(names, "presets", preset, order.join(", "));
        let sections = table.get("executor").and_then(|sections| sections.as_table()).into_iter().flatten();
        for (name, section) in sections {
            if let Some(label) = section.get("label").and_then(|label| label.as_str()) {
                add(names, "labels", label, format!("{name}, in the preset {preset}"));
            }
        }
    }
}

/// The models that `cargo xtask bench` times, and the sets of executors.
fn of_benches(names: &mut Names) {
    let quoted = |line: &str, before: &str| {
        let (_, rest) = line.split_once(before)?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let models = read("xtask/src/bench/models.rs");
    for model in models.lines().filter_map(|line| quoted(line, "Model { name: \"")) {
        add(names, "bench models", model, "");
    }
    let configs = read("xtask/src/bench/mod.rs");
    let apart = configs.lines().find_map(|line| quoted(line, "const LAST: &str = \""));
    add(names, "bench configs", apart.expect("what is timed apart"), "timed apart");
    let configs = configs.split_once("const CONFIGS").and_then(|(_, rest)| rest.split_once("];"));
    let configs = configs.expect("the sets of executors").0;
    for line in configs.lines() {
        if let (Some(name), Some(order)) = (quoted(line, "(\""), quoted(line, ", \"")) {
            add(names, "bench configs", name, order);
        }
    }
    let n = |section: &str| names.get(section).map_or(0, BTreeMap::len);
    assert!(n("bench models") >= 9 && n("bench configs") >= 4, "the benches are spelled in another way");
}

/// A command, its arguments, and those below it.
fn of_command(names: &mut Names, path: &str, command: &Command) {
    for arg in command.get_arguments() {
        of_argument(names, path, arg);
    }
    for below in command.get_subcommands() {
        let name = |name: &str| format!("{path} {name}").trim().to_owned();
        let real = name(below.get_name());
        add(names, "commands", &real, "");
        for alias in below.get_all_aliases() {
            add(names, "commands", name(alias), format!("now {real}"));
        }
        of_command(names, &real, below);
    }
}

fn of_argument(names: &mut Names, path: &str, arg: &Arg) {
    let named = |flag: &str| format!("{path} {flag}").trim().to_owned();
    let values = arg.get_value_names().unwrap_or_default();
    let takes = if arg.get_action().takes_values() {
        values.iter().map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
    } else {
        String::new()
    };
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|v| v.to_string_lossy().into_owned()).collect();
    let default = if takes.is_empty() || defaults.is_empty() {
        String::new()
    } else {
        format!(" = {}", defaults.join(" "))
    };
    let Some(long) = arg.get_long() else {
        return add(names, "arguments", named(&takes), default.trim());
    };
    let real = named(&format!("--{long}"));
    add(names, "arguments", &real, format!("{takes}{default}"));
    if let Some(short) = arg.get_short() {
        add(names, "arguments", named(&format!("-{short}")), format!("short for --{long}"));
    }
    for alias in arg.get_all_aliases().unwrap_or_default() {
        add(names, "arguments", named(&format!("--{alias}")), format!("now --{long}"));
    }
    if arg.get_action().takes_values() {
        for value in arg.get_possible_values() {
            value
                .get_name_and_aliases()
                .for_each(|word| add(names, "arguments", format!("{real} {word}"), ""));
        }
    }
}

/// The file: sections, a name a line, what is said of it two spaces behind.
fn text(names: &Names) -> String {
    let mut text = String::from(
        "# Names that are a contract, written by `THUNDERHEAD_BLESS=1 cargo test --test names`. A name that is gone fails that test, blessed\n\
         # or not: keep it as an alias, say so in CHANGELOG.md. What was never released may be taken out of this file by hand.\n",
    );
    for (section, names) in names {
        write!(text, "\n## {section}\n\n").expect("strings take all");
        let width = names.keys().map(String::len).max().unwrap_or(0).min(44);
        for (name, said) in names {
            let line = format!("{name:width$}  {said}");
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

fn parsed(text: &str) -> BTreeSet<(String, String)> {
    let mut section = "";
    let mut names = BTreeSet::new();
    for line in text.lines() {
        match line.strip_prefix("## ") {
            Some(title) => section = title,
            None if line.is_empty() || line.starts_with('#') => {}
            None => {
                let name = line.split_once("  ").map_or(line, |(name, _)| name);
                names.insert((section.to_owned(), name.to_owned()));
            }
        }
    }
    names
}

/// Names of the file that mean nothing any more.
fn gone(before: &str, now: &str) -> Vec<String> {
    let (before, now) = (parsed(before), parsed(now));
    before.difference(&now).map(|(section, name)| format!("{section}: `{name}`")).collect()
}

#[test]
fn no_public_name_goes_without_an_alias() {
    let path = root().join("tests/names.txt");
    let before = fs::read_to_string(&path).unwrap_or_default();
    let now = text(&names());
    let gone = gone(&before, &now);
    assert!(
        gone.is_empty(),
        "names that somebody may have typed are gone; keep each as an alias and say so in CHANGELOG.md:\n{}",
        gone.join("\n")
    );
    if before == now {
        return;
    }
    if std::env::var_os("THUNDERHEAD_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, now).expect("the repository can be written");
        return;
    }
    let old: BTreeSet<&str> = before.lines().collect();
    let new: Vec<&str> = now.lines().filter(|line| !old.contains(line)).collect();
    panic!(
        "public names came, or what is said of them changed; THUNDERHEAD_BLESS=1 takes them:\n{}",
        new.join("\n")
    );
}

#[test]
fn the_page_of_the_config_has_every_key() {
    let page = fs::read_to_string(root().join("docs/config.md")).expect("docs/config.md is there");
    let words: BTreeSet<&str> = page.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    let missing: Vec<String> =
        keys().into_iter().filter(|key| !words.contains(key.rsplit('.').next().unwrap_or(key))).collect();
    assert!(missing.is_empty(), "docs/config.md says nothing of {missing:?}");
}

#[test]
fn a_rename_is_noticed_unless_the_old_name_is_kept() {
    let now = names();
    let before = text(&now);
    let renamed = |aliases: &[(&str, &str)]| {
        let mut names = now.clone();
        let executors = names.get_mut("executors").expect("executors");
        let said = executors.remove("full_fusion").expect("it is called so");
        executors.insert("whole_fusion".to_owned(), said);
        executors.extend(aliases.iter().map(|(name, said)| ((*name).to_owned(), (*said).to_owned())));
        gone(&before, &text(&names))
    };
    assert_eq!(renamed(&[]), ["executors: `full_fusion`"]);
    assert!(renamed(&[("full_fusion", "now whole_fusion")]).is_empty());
    // Another type of an option is another option; another default is not.
    let option = |spelled: &str, said: &str| {
        let mut names = now.clone();
        let options = names.get_mut("options").expect("options");
        options.remove("pytorch.deterministic: bool").expect("it is called so");
        options.insert(spelled.to_owned(), said.to_owned());
        gone(&before, &text(&names))
    };
    assert_eq!(option("pytorch.deterministic: int", "= 1"), ["options: `pytorch.deterministic: bool`"]);
    assert!(option("pytorch.deterministic: bool", "= false").is_empty());
}

#[test]
fn plugins_that_come_with_the_host_claim_only_ops_that_there_are() {
    let known: Vec<&str> = ops::table().iter().map(|op| op.name).collect();
    let known = OpNames::new(known.iter().copied());
    for manifest in manifests() {
        for executor in &manifest.executors {
            for glob in executor.claims.iter().flat_map(|claim| &claim.ops) {
                let is_op = matches!(known.meaning(glob), Meaning::Op);
                assert!(is_op, "{} claims `{}`", executor.name, glob.as_str());
            }
        }
    }
}
