//! `thunderhead plugins`: what was found, what one file is, and the pins of those in use. Nothing is loaded but by
//! `list`, which says what came of it.

use std::path::Path;

use serde_json::json;
use thunderhead::config::Surroundings;
use thunderhead::liked;
use thunderhead::loader::{Inspection, Liked, inspect};
use thunderhead_manifest::{Claim, ExecutorDecl, Manifest};

use super::args::{ConfigArgs, PluginsCommand};
use super::failure::Failure;
use super::program::open_host;
use super::render::Screen;
use super::render::table::Table;

pub fn run(command: &PluginsCommand, screen: &Screen) -> Result<(), Failure> {
    match command {
        PluginsCommand::List { config, json } => list(config, *json, screen),
        PluginsCommand::Inspect { file, json } => inspect_file(file, *json, screen),
        PluginsCommand::Lock { config } => lock(config, screen),
    }
}

/// An executor is a line; files that are no plugins come after them.
fn list(config: &ConfigArgs, json: bool, screen: &Screen) -> Result<(), Failure> {
    let host = open_host(config, screen)?;
    let state = |name: &str| -> String {
        if let Some(refused) = host.refused().iter().find(|refused| refused.name == name) {
            return format!("refused: {}", refused.error.code_text());
        }
        let order = host.config().order.iter().position(|executor| executor.value == name);
        match order {
            Some(i) => format!("in use, number {}", i + 1),
            None if host.executor(name).is_some() => "loaded".to_owned(),
            None => "not used".to_owned(),
        }
    };
    let found = host.found();
    if json {
        let plugins = found.plugins.iter().map(|plugin| {
            let executors = plugin.manifest.executors.iter();
            let executors =
                executors.map(|e| json!({ "name": e.name, "kind": e.kind, "state": state(&e.name) }));
            json!({
                "id": plugin.manifest.id,
                "version": plugin.manifest.version,
                "path": plugin.path,
                "same": plugin.same,
                "executors": executors.collect::<Vec<_>>(),
                "manifest": plugin.manifest,
            })
        });
        let skipped = found.skipped.iter().map(|skipped| {
            json!({ "path": skipped.path, "code": skipped.error.code_text(), "why": skipped.error.to_string() })
        });
        let value = json!({ "plugins": plugins.collect::<Vec<_>>(), "skipped": skipped.collect::<Vec<_>>() });
        return screen.data(&format!("{value:#}\n"));
    }
    let mut table = Table::new(&["EXECUTOR", "KIND", "STATE", "PLUGIN", "VERSION", "FILE"]);
    for plugin in &found.plugins {
        for executor in &plugin.manifest.executors {
            let (id, version) = (plugin.manifest.id.clone(), plugin.manifest.version.clone());
            let file = plugin.path.display().to_string();
            table.row([
                executor.name.clone(),
                executor.kind.to_string(),
                state(&executor.name),
                id,
                version,
                file,
            ]);
        }
    }
    let mut text = table.render(screen);
    for refused in host.refused().iter().filter(|refused| found.bringing(&refused.name).is_none()) {
        text.push_str(&format!("\n{} [{}]\n", refused.error, refused.error.code_text()));
    }
    for skipped in found.skipped.iter().filter(|skipped| skipped.expected) {
        text.push_str(&format!("\n{} [{}]\n", skipped.error, skipped.error.code_text()));
    }
    screen.data(&text)
}

fn inspect_file(file: &Path, json: bool, screen: &Screen) -> Result<(), Failure> {
    let inspection = inspect(file)?;
    let liked = liked(&inspection, &Surroundings::of_process())?;
    if json {
        let mut value = serde_json::to_value(&inspection).expect("an inspection is plain data");
        value["liked"] = json!(liked);
        screen.data(&format!("{value:#}\n"))?;
    } else {
        screen.data(&inspected(&inspection, &liked, screen))?;
    }
    // A plugin that this host cannot load can be looked at; what is none, or says nothing, was not meant.
    match inspection.not_a_plugin {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn inspected(inspection: &Inspection, liked: &[Liked], screen: &Screen) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("{}  {value}\n", screen.out.label(&format!("{name:<12}"))));
        }
    };
    line("file", &inspection.path.display().to_string());
    line("sha256", &inspection.sha256);
    line("machine", &inspection.architecture);
    match &inspection.probe {
        Some(probe) => {
            line("ABI", &format!("{}.{}", probe.abi_major, probe.abi_minor));
            line("target", &probe.target);
            line("panics", probe.panics.name());
            line("SDK", &probe.sdk_version);
            line("compiler", &probe.compiler);
        }
        None => line("probe", "none that can be read"),
    }
    line("doors", &inspection.doors.join(", "));
    line("libraries", &inspection.needed.join(", "));
    if let Some(manifest) = &inspection.manifest {
        manifest_lines(manifest, &mut line);
        for executor in &manifest.executors {
            let liked: Vec<&Liked> = liked.iter().filter(|liked| liked.executor == executor.name).collect();
            executor_lines(executor, &liked, &mut line);
        }
    }
    inspection.warnings.iter().for_each(|warning| line("warning", warning));
    if inspection.obstacles.is_empty() {
        line("verdict", "nothing here keeps this host from loading it");
    }
    // What is no plugin at all is said as the error that ends the command.
    for obstacle in inspection.obstacles.iter().filter(|_| inspection.not_a_plugin.is_none()) {
        line("obstacle", &format!("[{}] {}", obstacle.code, obstacle.message));
        line("  help", &obstacle.help);
    }
    text
}

fn manifest_lines(manifest: &Manifest, line: &mut impl FnMut(&str, &str)) {
    line("plugin", &format!("{} {}", manifest.id, manifest.version));
    let about = [&manifest.vendor, &manifest.license, &manifest.url];
    line("about", &about.into_iter().flatten().cloned().collect::<Vec<_>>().join(", "));
    line("IR", &manifest.ir.to_string());
    line("needs", &joined(&manifest.needs));
    line("uses", &joined(&manifest.uses));
    let version = |version: &Option<String>| version.as_ref().map(|v| format!(" {v}")).unwrap_or_default();
    let declared =
        manifest.libraries.iter().map(|library| format!("{}{}", library.name, version(&library.version)));
    line("declares", &declared.collect::<Vec<_>>().join(", "));
    line("process-wide", &manifest.process_wide.join(", "));
}

fn executor_lines(executor: &ExecutorDecl, liked: &[&Liked], line: &mut impl FnMut(&str, &str)) {
    line("executor", &format!("{} ({}), label {}", executor.name, executor.kind, executor.label));
    line("  like", &executor.like.join(", "));
    let former = executor.aliases.iter().map(|alias| alias.name.clone());
    line("  formerly", &former.collect::<Vec<_>>().join(", "));
    executor.claims.iter().for_each(|claim| line("  claims", &claim_text(claim)));
    for Liked { like, plugin, claims, .. } in liked {
        match plugin {
            Some(plugin) => {
                line("  as", &format!("{like}, of {plugin}: but for what no region may hold"));
                claims.iter().for_each(|claim| line("    claims", &claim_text(claim)));
            }
            None => line("  as", &format!("{like}: not found here, so it adds nothing")),
        }
    }
    for (name, option) in &executor.options {
        line("  option", &format!("{name} = {} ({}) {}", option.default, option.kind, option.doc));
    }
}

fn claim_text(claim: &Claim) -> String {
    let limits = [
        claim.dtypes.as_ref().map(|dtypes| format!("dtypes {}", dtypes.join(" "))),
        Some(format!("devices {}", claim.devices.join(" "))),
        claim.ranks.map(|(lowest, highest)| format!("{lowest} to {highest} dims")),
        Some(format!("layout {}", claim.layout)),
        claim.check.then(|| "asks check_op".to_owned()),
    ];
    let limits = limits.into_iter().flatten().collect::<Vec<_>>().join("; ");
    format!("{} ({limits})", joined(&claim.ops))
}

fn joined<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The digests of plugin files that the config loads, ready to be put into it.
fn lock(config: &ConfigArgs, screen: &Screen) -> Result<(), Failure> {
    let host = open_host(config, screen)?;
    let mut text = String::from("[plugins.sha256]\n");
    let mut n_pinned = 0;
    for plugin in host.found().plugins.iter().filter(|plugin| plugin.path.is_file()) {
        let used = plugin.manifest.executors.iter().any(|executor| host.executor(&executor.name).is_some());
        if used {
            let digest = thunderhead::loader::trust::sha256(&plugin.path)?;
            text.push_str(&format!("{} = \"{digest}\"  # {}\n", plugin.manifest.id, plugin.manifest.version));
            n_pinned += 1;
        }
    }
    if n_pinned == 0 {
        screen.say("no plugin file is in use: there is nothing to pin");
    }
    screen.data(&text)
}
