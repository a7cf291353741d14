//! A config and everything it is based on, in the order from the most particular to the most general.
//!
//! Which file is meant: what `--config` names, then `THUNDERHEAD_CONFIG`, then the user's config folder, then
//! the built-in `default`. A `thunderhead.toml` in the current directory is never read implicitly. Reading goes
//! through a function that the caller gives; nothing here touches the disk.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use thunderhead_manifest::Located;
use thunderhead_manifest::document::{nearest, one_of};

use super::PRESETS;
use super::fault::{ConfigFault, Problem, Source, Spot};
use super::file::ConfigFile;

/// Where to begin.
#[derive(Clone, Debug)]
pub enum Start {
    /// Environment, then the user's folder, then the preset `default`.
    Search,
    /// A path, or the name of a preset: what `--config` takes.
    Named(String),
    /// A file, whatever its name looks like.
    Path(PathBuf),
    /// A text that stands in no file; it can hold no relative paths.
    Text(String),
}

/// What the config needs to know about process and machine, as plain data.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The folder of the running executable.
    pub exe_dir: Option<PathBuf>,
    /// The user's config folder for this program.
    pub user_config_dir: Option<PathBuf>,
    /// The user's data folder for this program.
    pub user_data_dir: Option<PathBuf>,
    /// Environment variables.
    pub variables: BTreeMap<String, String>,
}

impl Surroundings {
    /// An environment variable that is set and not empty.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The folders in which presets are looked for, before the built-in ones.
    pub fn preset_dirs(&self) -> Vec<PathBuf> {
        let beside = |dir: &PathBuf| {
            let root = dir.parent().unwrap_or(dir).to_owned();
            [root.join("configs"), root.join("share/thunderhead/configs")]
        };
        self.exe_dir.iter().flat_map(beside).collect()
    }
}

/// Reads a text file, for [`Chain::load`].
pub type ReadFile<'r> = &'r dyn Fn(&Path) -> io::Result<String>;

/// A config file and its bases.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The most particular first; empty only where the first could not be read.
    pub(super) files: Vec<ConfigFile>,
    pub(super) problems: Vec<Problem>,
}

impl Chain {
    /// Follows a config to its bases. What is wrong is reported by [`Chain::resolve`], with everything else.
    pub fn load(start: &Start, around: &Surroundings, read: ReadFile<'_>) -> Chain {
        let mut chain = Chain { files: Vec::new(), problems: Vec::new() };
        let mut next = match first_source(start, around, read) {
            Ok(source) => Some(source),
            Err(problem) => {
                chain.problems.push(problem);
                None
            }
        };
        while let Some(source) = next.take() {
            let (file, problems) = ConfigFile::parse(&source);
            chain.problems.extend(problems);
            let base = file.base.clone();
            chain.files.push(file);
            let Some(base) = base else { break };
            match chain.base_source(&source, &base, around, read) {
                Ok(base) => next = Some(base),
                Err(what) => {
                    let spot = Spot { source, place: base.place };
                    chain.problems.push(Problem::new(what, "base", Some(spot)));
                }
            }
        }
        chain
    }

    /// What messages call the config: the name of the most particular file.
    pub fn name(&self) -> &str {
        self.files.first().map_or("config", |file| file.source.name())
    }

    /// The names of all files, the most particular first.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.files.iter().map(|file| &*file.source)
    }

    fn base_source(
        &self,
        source: &Source,
        base: &Located<String>,
        around: &Surroundings,
        read: ReadFile<'_>,
    ) -> Result<Arc<Source>, ConfigFault> {
        let found = if !is_path(&base.value) {
            preset(&base.value, around, read)?
        } else {
            let path = relative_to(source, &base.value).ok_or_else(|| ConfigFault::OutOfPlace {
                message: format!("`{}` is relative, and this config stands in no file", base.value),
            })?;
            read_source(&path, read)?
        };
        if self.files.iter().any(|file| file.source.name() == found.name()) {
            let names = self.files.iter().rev().map(|file| file.source.name()).rev();
            let chain = names.chain([found.name()]).collect::<Vec<_>>().join(" -> ");
            return Err(ConfigFault::BaseCycle { name: found.name().to_owned(), chain });
        }
        Ok(found)
    }
}

/// What contains a separator or ends in `.toml` is a path, everything else the name of a preset.
fn is_path(text: &str) -> bool {
    text.contains(['/', '\\']) || text.ends_with(".toml")
}

fn first_source(start: &Start, around: &Surroundings, read: ReadFile<'_>) -> Result<Arc<Source>, Problem> {
    let placeless = |what| Problem::new(what, "", None);
    let named = |name: &str| {
        if is_path(name) { read_source(Path::new(name), read) } else { preset(name, around, read) }
    };
    match start {
        Start::Text(text) => Ok(Source::new("config", None, text.clone())),
        Start::Path(path) => read_source(path, read).map_err(placeless),
        Start::Named(name) => named(name).map_err(placeless),
        Start::Search => {
            if let Some(name) = around.variable("THUNDERHEAD_CONFIG") {
                return named(name).map_err(|what| Problem::new(what, "THUNDERHEAD_CONFIG", None));
            }
            let users = around.user_config_dir.as_ref().map(|dir| dir.join("thunderhead.toml"));
            match users.map(|path| (read(&path), path)) {
                Some((Ok(text), path)) => Ok(Source::file(path, text)),
                Some((Err(error), path)) if error.kind() != io::ErrorKind::NotFound => {
                    Err(placeless(unreadable(&path, &error)))
                }
                _ => preset("default", around, read).map_err(placeless),
            }
        }
    }
}

fn preset(name: &str, around: &Surroundings, read: ReadFile<'_>) -> Result<Arc<Source>, ConfigFault> {
    for path in around.preset_dirs().iter().map(|dir| dir.join(format!("{name}.toml"))) {
        match read(&path) {
            Ok(text) => return Ok(Source::file(path, text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(&path, &error)),
        }
    }
    match PRESETS.iter().find(|(preset, _)| *preset == name) {
        Some((_, text)) => Ok(Source::new(format!("preset `{name}`"), None, (*text).to_owned())),
        None => {
            let names = PRESETS.map(|(preset, _)| preset);
            let advice = match nearest(name, names) {
                Some(near) => format!("did you mean `{near}`? A file is named with `/` or `.toml`"),
                None => format!(
                    "built in are {}; a file is named with `/` or `.toml`",
                    one_of(&names.map(str::to_owned))
                ),
            };
            Err(ConfigFault::UnknownPreset { name: name.to_owned(), advice })
        }
    }
}

fn read_source(path: &Path, read: ReadFile<'_>) -> Result<Arc<Source>, ConfigFault> {
    match read(path) {
        Ok(text) => Ok(Source::file(path.to_owned(), text)),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> ConfigFault {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "check the path; the name of a preset has neither `/` nor `.toml`",
        _ => "check that it is a text file that you may read",
    };
    ConfigFault::Unreadable {
        path: path.display().to_string(),
        reason: error.to_string(),
        advice: advice.to_owned(),
    }
}

/// A path of a config, relative to the config's own folder; `None` for a relative path in a text that is no
/// file.
pub(super) fn relative_to(source: &Source, path: &str) -> Option<PathBuf> {
    if Path::new(path).is_absolute() {
        return Some(tidy(Path::new(path)));
    }
    let folder = source.path.as_ref()?.parent().unwrap_or(Path::new(""));
    Some(tidy(&folder.join(path)))
}

/// Leaves out `.` and resolves `..` behind a plain name, so that one file has one spelling in messages. A
/// symbolic link before `..` would be resolved differently by the system; configs don't live behind such.
fn tidy(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        let after_name = matches!(out.components().next_back(), Some(Component::Normal(_)));
        match part {
            Component::CurDir => {}
            Component::ParentDir if after_name => {
                out.pop();
            }
            _ => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(start: Start, around: &Surroundings, files: &[(&str, &str)]) -> Chain {
        Chain::load(&start, around, &|path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn names(chain: &Chain) -> Vec<&str> {
        chain.sources().map(Source::name).collect()
    }

    fn problems(chain: &Chain) -> Vec<String> {
        chain.problems.iter().map(|problem| format!("{}: {problem}", problem.code_text())).collect()
    }

    #[test]
    fn the_search_ends_at_the_built_in_default() {
        let chain = load(Start::Search, &Surroundings::default(), &[]);
        assert_eq!((names(&chain), problems(&chain)), (vec!["preset `default`"], vec![]));
    }

    #[test]
    fn the_environment_goes_before_the_users_folder() {
        let mut around = Surroundings {
            user_config_dir: Some("/home/u/.config/thunderhead".into()),
            ..Default::default()
        };
        let files =
            [("/home/u/.config/thunderhead/thunderhead.toml", "config = 1"), ("e.toml", "config = 1")];
        let chain = load(Start::Search, &around, &files);
        assert_eq!(names(&chain), ["/home/u/.config/thunderhead/thunderhead.toml"]);
        around.variables.insert("THUNDERHEAD_CONFIG".to_owned(), "e.toml".to_owned());
        assert_eq!(names(&load(Start::Search, &around, &files)), ["e.toml"]);
    }

    #[test]
    fn bases_are_followed_relative_to_their_file() {
        let files = [
            ("a/one.toml", "config = 1\nbase = '../b/two.toml'"),
            ("b/two.toml", "config = 1\nbase = './three.toml'"),
            ("b/three.toml", "config = 1\nbase = 'reference'"),
        ];
        let chain = load(Start::Named("a/one.toml".to_owned()), &Surroundings::default(), &files);
        assert_eq!(names(&chain), ["a/one.toml", "b/two.toml", "b/three.toml", "preset `reference`"]);
        assert_eq!(problems(&chain), [] as [&str; 0]);
    }

    #[test]
    fn presets_beside_the_executable_win() {
        let around = Surroundings { exe_dir: Some("/opt/th/bin".into()), ..Default::default() };
        let files = [("/opt/th/configs/default.toml", "config = 1")];
        assert_eq!(names(&load(Start::Search, &around, &files)), ["/opt/th/configs/default.toml"]);
    }

    #[test]
    fn a_circle_is_an_error_with_its_chain() {
        let files = [("a.toml", "config = 1\nbase = 'b.toml'"), ("b.toml", "config = 1\nbase = 'a.toml'")];
        let chain = load(Start::Named("a.toml".to_owned()), &Surroundings::default(), &files);
        let expected = "config::base_cycle: base: `a.toml` is based on itself: a.toml -> b.toml -> a.toml";
        assert_eq!(problems(&chain), [expected]);
    }

    #[test]
    fn what_cannot_be_found_is_named() {
        let chain = load(Start::Named("defualt".to_owned()), &Surroundings::default(), &[]);
        assert_eq!(problems(&chain), ["config::unknown_preset: there is no preset `defualt`"]);
        let chain = load(Start::Named("x.toml".to_owned()), &Surroundings::default(), &[]);
        assert_eq!(problems(&chain), ["config::unreadable: cannot read `x.toml`: entity not found"]);
        let chain =
            load(Start::Text("config = 1\nbase = 'x.toml'".to_owned()), &Surroundings::default(), &[]);
        let expected = "config::out_of_place: base: `x.toml` is relative, and this config stands in no file";
        assert_eq!(problems(&chain), [expected]);
    }
}
