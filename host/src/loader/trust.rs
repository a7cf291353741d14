//! Whether a file may be loaded at all: who can change it, and whether it is the one that was pinned.

use super::error::LoadError;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;

/// Refuses a file that everybody may change: itself, the folder it lies in, or a folder above in which it could be
/// exchanged (one with the sticky bit, like `/tmp`, does not allow that).
#[cfg(unix)]
pub fn not_world_writable(path: &Path) -> Result<(), LoadError> {
    use std::os::unix::fs::PermissionsExt;
    const WORLD_WRITABLE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let real = path.canonicalize().map_err(|error| LoadError::unreadable(path, &error))?;
    for (depth, what) in real.ancestors().enumerate() {
        let mode = std::fs::metadata(what).map_err(|error| LoadError::unreadable(what, &error))?;
        let mode = mode.permissions().mode() & 0o7777;
        let exchangeable = depth <= 1 || mode & STICKY == 0;
        if mode & WORLD_WRITABLE != 0 && exchangeable {
            return Err(LoadError::WorldWritable { path: path.to_owned(), what: what.to_owned(), mode });
        }
    }
    Ok(())
}

/// Where permissions are not of this kind there is nothing to look at.
#[cfg(not(unix))]
pub fn not_world_writable(_: &Path) -> Result<(), LoadError> {
    Ok(())
}

/// The SHA-256 of a file, in lower-case hex.
pub fn sha256(path: &Path) -> Result<String, LoadError> {
    let mut file = std::fs::File::open(path).map_err(|error| LoadError::unreadable(path, &error))?;
    let mut digest = Sha256::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(n_bytes) => digest.update(&chunk[..n_bytes]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(LoadError::unreadable(path, &error)),
        }
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares a file with the digest that the config pins for the plugin.
pub fn pinned(path: &Path, id: &str, expected: &str) -> Result<(), LoadError> {
    let found = sha256(path)?;
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    Err(LoadError::PinMismatch {
        path: path.to_owned(),
        id: id.to_owned(),
        expected: expected.to_owned(),
        found,
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn who_may_change_it_is_looked_at() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("a.so");
        std::fs::write(&file, "x").expect("written");
        let chmod = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("own file");
        };
        assert_eq!(not_world_writable(&file), Ok(()));
        chmod(&file, 0o646);
        let error = not_world_writable(&file).expect_err("anybody may write it");
        assert_eq!(error.code_text(), "load::world_writable");
        chmod(&file, 0o644);
        chmod(dir.path(), 0o1777);
        let error = not_world_writable(&file).expect_err("anybody may write beside it");
        assert!(matches!(error, LoadError::WorldWritable { mode: 0o1777, .. }), "{error}");
    }

    #[test]
    fn pins_are_compared() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("a.so");
        std::fs::write(&file, "abc").expect("written");
        let abc = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
        assert_eq!(pinned(&file, "a", abc), Ok(()));
        assert_eq!(pinned(&file, "a", "00").expect_err("differs").code_text(), "load::pin_mismatch");
    }
}
