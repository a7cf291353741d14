//! The real machine, for who calls [`Chain::load`](super::Chain::load): nothing else in this room uses it.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::chain::Surroundings;

/// The longest config that is read: a file beyond it is not a config.
const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// Reads a config file: text of bounded length.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let n_bytes = fs::File::open(path)?.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text)?;
    if n_bytes as u64 > MAX_CONFIG_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "longer than 4 MiB: not a config"));
    }
    Ok(text)
}

impl Surroundings {
    /// This process: where its executable lies, the user's folders, the environment. Variables that are not
    /// UTF-8 are left out.
    pub fn of_process() -> Surroundings {
        let executable = env::current_exe().ok().map(|path| path.canonicalize().unwrap_or(path));
        let home = env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let user_dir = |variable: &str, under_home: &str| {
            let named = env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
            let dir = named.or_else(|| home.as_ref().map(|home| home.join(under_home)));
            dir.map(|dir| dir.join("thunderhead"))
        };
        Surroundings {
            exe_dir: executable.and_then(|path| path.parent().map(Path::to_owned)),
            user_config_dir: user_dir("XDG_CONFIG_HOME", ".config"),
            user_data_dir: user_dir("XDG_DATA_HOME", ".local/share"),
            variables: env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_or_no_text_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("long.toml");
        fs::write(&path, vec![b' '; MAX_CONFIG_BYTES as usize + 1]).expect("written");
        assert_eq!(read_text(&path).expect_err("too long").kind(), io::ErrorKind::FileTooLarge);
        fs::write(&path, [0xff, 0xfe]).expect("written");
        assert_eq!(read_text(&path).expect_err("no text").kind(), io::ErrorKind::InvalidData);
        assert_eq!(read_text(dir.path()).expect_err("a folder").kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn this_process_lies_somewhere() {
        assert!(Surroundings::of_process().exe_dir.is_some());
    }
}
