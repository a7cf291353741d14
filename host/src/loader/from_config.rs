//! From a resolved config to what the loader needs: where to look, what to load, where libraries may be.

use super::find::Place;
use super::library::LibraryPath;
use super::load::{Request, Wanted};
use crate::config::{Loaded, Resolved, Sourced, Surroundings};
use std::path::{Path, PathBuf};
use thunderhead_abi::entry::EntryV1;
use thunderhead_manifest::Manifest;

/// The places to look for plugins, in order: `THUNDERHEAD_PLUGINS`, `[plugins] paths`, the `plugins` folder beside the
/// executable's, the user's data folder. Never the current directory.
pub fn places(typed: &[Sourced<PathBuf>], around: &Surroundings) -> Vec<Place> {
    let place =
        |path: PathBuf, origin: &str, must_exist| Place { path, origin: origin.to_owned(), must_exist };
    let mut places = Vec::new();
    if let Some(folders) = around.variable("THUNDERHEAD_PLUGINS") {
        let folders = std::env::split_paths(folders).filter(|folder| !folder.as_os_str().is_empty());
        places.extend(folders.map(|folder| place(folder, "variable THUNDERHEAD_PLUGINS", true)));
    }
    places.extend(typed.iter().map(|path| place(path.value.clone(), &path.from.to_string(), true)));
    if let Some(root) = around.exe_dir.as_ref().and_then(|dir| dir.parent()) {
        places.push(place(root.join("plugins"), "beside the executable", false));
    }
    if let Some(data) = &around.user_data_dir {
        places.push(place(data.join("plugins"), "the user's data folder", false));
    }
    let mut seen: Vec<PathBuf> = Vec::new();
    places.retain(|place| {
        let new = !seen.contains(&place.path);
        seen.push(place.path.clone());
        new
    });
    places
}

/// What to load.
pub fn request(
    resolved: &Resolved,
    loaded: &[Loaded],
    manifests: &[&Manifest],
    around: &Surroundings,
    threads: usize,
    linked: Vec<(String, &'static EntryV1)>,
) -> Request {
    let wanted = loaded.iter().map(|executor| {
        let settings = resolved.settings(&executor.name);
        let options = settings.map(|settings| &settings.options).into_iter().flatten();
        let options = options.map(|(name, value)| (name.clone(), value.value.clone())).collect();
        Wanted { name: executor.name.clone(), options }
    });
    Request {
        wanted: wanted.collect(),
        pins: resolved.pins.iter().map(|(id, pin)| (id.clone(), pin.value.clone())).collect(),
        libraries: library_paths(resolved, manifests, around),
        allow_untrusted: resolved.allow_untrusted.value,
        threads,
        linked,
    }
}

/// Where the libraries that manifests declare may be, in the order to look: the config or a variable, the list that
/// came with this installation (`share/libraries.toml`), the user's cache.
pub fn library_paths(
    resolved: &Resolved,
    manifests: &[&Manifest],
    around: &Surroundings,
) -> Vec<LibraryPath> {
    let mut paths = Vec::new();
    for (name, folder) in &resolved.libraries {
        paths.push(LibraryPath {
            name: name.clone(),
            folder: folder.value.clone(),
            origin: folder.from.to_string(),
            is_binding: true,
        });
    }
    if let Some(root) = around.exe_dir.as_ref().and_then(|dir| dir.parent()) {
        paths.extend(listed(&root.join("share/libraries.toml")));
    }
    if let Some(folder) = cache_folder(around) {
        for library in manifests.iter().flat_map(|manifest| &manifest.libraries) {
            let Some(version) = &library.version else { continue };
            let name = library.name.clone();
            let folder = folder.join(format!("{name}-{version}-cpu"));
            let path = LibraryPath { name, folder, origin: "the user's cache".to_owned(), is_binding: false };
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    paths
}

/// A list of libraries: `name = "/folder"`. One that cannot be read is as good as none, but is said.
fn listed(file: &Path) -> Vec<LibraryPath> {
    let Ok(text) = std::fs::read_to_string(file) else { return Vec::new() };
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            log::warn!(target: "thunderhead", "`{}` is not used: {}", file.display(), error.message());
            return Vec::new();
        }
    };
    let base = file.parent().unwrap_or(Path::new("."));
    let folders = table.iter().filter_map(|(name, folder)| Some((name, folder.as_str()?)));
    let paths = folders.map(|(name, folder)| LibraryPath {
        name: name.clone(),
        folder: base.join(folder),
        origin: file.display().to_string(),
        is_binding: false,
    });
    paths.collect()
}

fn cache_folder(around: &Surroundings) -> Option<PathBuf> {
    let named = around.variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = named.or_else(|| around.variable("HOME").map(|home| Path::new(home).join(".cache")));
    cache.map(|cache| cache.join("thunderhead"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    #[test]
    fn places_are_looked_at_in_order_and_once() {
        let mut around = Surroundings {
            exe_dir: Some("/opt/th/bin".into()),
            user_data_dir: Some("/home/u/.local/share/thunderhead".into()),
            ..Surroundings::default()
        };
        around.variables.insert("THUNDERHEAD_PLUGINS".to_owned(), "/a::/b".to_owned());
        let typed = |path: &str| Sourced { value: PathBuf::from(path), from: Origin::Default };
        let found = places(&[typed("/c/p.so"), typed("/opt/th/plugins")], &around);
        let found: Vec<_> =
            found.iter().map(|place| (place.path.to_str().expect("text"), place.must_exist)).collect();
        let expected = [
            ("/a", true),
            ("/b", true),
            ("/c/p.so", true),
            ("/opt/th/plugins", true),
            ("/home/u/.local/share/thunderhead/plugins", false),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn lists_of_libraries_are_relative_to_themselves() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("libraries.toml");
        std::fs::write(&file, "libtorch = '../torch'\nodd = 3\n").expect("written");
        let paths = listed(&file);
        assert_eq!(paths.len(), 1);
        assert_eq!(paths[0].folder, dir.path().join("../torch"));
        std::fs::write(&file, "libtorch = ").expect("written");
        assert_eq!(listed(&file), []);
    }
}
