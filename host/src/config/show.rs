//! A resolved config printed as a config, each value with where it came from. Reading it back means the same.

use std::fmt::{self, Display, Formatter};

use thunderhead_manifest::{Glob, Plain, RegionRules};

use super::resolved::{Origin, Resolved, Settings, Sourced};

impl Display for Resolved {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "config = 1")?;
        writeln!(f, "executors = [")?;
        for name in &self.order {
            writeln!(f, "    {},  # {}", quoted(&name.value), name.from)?;
        }
        writeln!(f, "]")?;
        line(f, "last_resort", quoted(self.last_resort.value.as_str()), &self.last_resort.from)?;
        self.fmt_plugins(f)?;
        self.fmt_libraries(f)?;
        for (name, settings) in &self.settings {
            fmt_settings(f, name, settings)?;
        }
        writeln!(f, "\n[run]")?;
        line(f, "threads", self.threads.value, &self.threads.from)?;
        line(f, "on_error", quoted(self.on_error.value.as_str()), &self.on_error.from)?;
        line(f, "map_weights", self.map_weights.value, &self.map_weights.from)?;
        self.fmt_expect(f)?;
        writeln!(f, "\n[log]")?;
        line(f, "level", quoted(self.log_level.value.as_str()), &self.log_level.from)?;
        for (id, level) in &self.log_levels {
            line(f, id, quoted(level.value.as_str()), &level.from)?;
        }
        Ok(())
    }
}

impl Resolved {
    fn fmt_plugins(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[plugins]")?;
        if !self.plugin_paths.is_empty() {
            writeln!(f, "paths = [")?;
            for path in &self.plugin_paths {
                writeln!(f, "    {},  # {}", quoted(path.value.display()), path.from)?;
            }
            writeln!(f, "]")?;
        }
        line(f, "allow_untrusted", self.allow_untrusted.value, &self.allow_untrusted.from)?;
        if !self.pins.is_empty() {
            writeln!(f, "\n[plugins.sha256]")?;
        }
        for (id, digest) in &self.pins {
            line(f, id, quoted(&digest.value), &digest.from)?;
        }
        Ok(())
    }

    fn fmt_libraries(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.libraries.is_empty() {
            writeln!(f, "\n[libraries]")?;
        }
        for (name, path) in &self.libraries {
            line(f, &key(name), quoted(path.value.display()), &path.from)?;
        }
        Ok(())
    }

    fn fmt_expect(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let expect = &self.expect;
        if expect.claims.is_empty() && expect.max_last_resort.is_none() && expect.max_copies.is_none() {
            return Ok(());
        }
        writeln!(f, "\n[expect]")?;
        if !expect.claims.is_empty() {
            writeln!(f, "claims = [")?;
            for Sourced { value, from } in &expect.claims {
                let (op, by) = (quoted(&value.op), quoted(&value.by));
                writeln!(f, "    {{ op = {op}, by = {by} }},  # {from}")?;
            }
            writeln!(f, "]")?;
        }
        optional(f, "max_last_resort", &expect.max_last_resort)?;
        optional(f, "max_copies", &expect.max_copies)
    }
}

/// Executors that nobody typed anything about and that have no options say nothing.
fn fmt_settings(f: &mut Formatter<'_>, name: &str, settings: &Settings) -> fmt::Result {
    let typed = |origin: &Origin| !matches!(origin, Origin::Default | Origin::Manifest(_));
    let said = typed(&settings.policy.from) || typed(&settings.deny.from) || typed(&settings.label.from);
    let said = said || settings.allow.is_some() || settings.fuel.is_some() || !settings.options.is_empty();
    if !said && settings.regions == RegionRules::default() {
        return Ok(());
    }
    writeln!(f, "\n[executor.{name}]")?;
    line(f, "policy", quoted(settings.policy.value.as_str()), &settings.policy.from)?;
    if let Some(allow) = &settings.allow {
        line(f, "allow", globs(&allow.value), &allow.from)?;
    }
    if !settings.deny.value.is_empty() {
        line(f, "deny", globs(&settings.deny.value), &settings.deny.from)?;
    }
    optional(f, "fuel", &settings.fuel)?;
    if !settings.label.value.is_empty() {
        line(f, "label", quoted(&settings.label.value), &settings.label.from)?;
    }
    for (option, value) in &settings.options {
        line(f, &format!("options.{option}"), toml_text(&value.value), &value.from)?;
    }
    fmt_regions(f, &settings.regions)
}

fn fmt_regions(f: &mut Formatter<'_>, regions: &RegionRules) -> fmt::Result {
    if let Some(needs_any) = &regions.needs_any {
        writeln!(f, "regions.needs_any = {}", globs(needs_any))?;
    }
    if let Some(min_ops) = regions.min_ops {
        writeln!(f, "regions.min_ops = {min_ops}")?;
    }
    if let Some(max_ops) = regions.max_ops {
        writeln!(f, "regions.max_ops = {max_ops}")?;
    }
    Ok(())
}

fn line(f: &mut Formatter<'_>, key: &str, value: impl Display, from: &Origin) -> fmt::Result {
    writeln!(f, "{key} = {value}  # {from}")
}

fn optional<T: Display>(f: &mut Formatter<'_>, key: &str, value: &Option<Sourced<T>>) -> fmt::Result {
    value.as_ref().map_or(Ok(()), |Sourced { value, from }| line(f, key, value, from))
}

fn globs(globs: &[Glob]) -> String {
    let globs: Vec<String> = globs.iter().map(quoted).collect();
    format!("[{}]", globs.join(", "))
}

/// A TOML string or key in quotes.
fn quoted(text: impl Display) -> String {
    toml::Value::String(text.to_string()).to_string()
}

fn key(name: &str) -> String {
    let bare = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if bare { name.to_owned() } else { quoted(name) }
}

fn toml_text(plain: &Plain) -> String {
    match plain {
        Plain::Str(text) => quoted(text),
        Plain::List(items) => {
            let items: Vec<String> = items.iter().map(toml_text).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}
