//! Files that readers never see half-written: written beside their place, then renamed.

use crate::problem::{Problem, Result};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Problem::at(path, error))
}

/// Writes `bytes` to `path` in one step, making its folder if need be.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| Problem::at(folder, error))?;
    }
    let draft = with_suffix(path, &format!(".{}.tmp", std::process::id()));
    let written = fs::write(&draft, bytes).and_then(|()| fs::rename(&draft, path));
    written.map_err(|error| {
        // The draft may or may not exist; either way it has no further use.
        let _ = fs::remove_file(&draft);
        Problem::at(path, error)
    })
}

/// A file of `length` zeros, which takes no room; made if it is not there.
pub fn zeros(path: &str, length: u64) -> Result<PathBuf> {
    let path = PathBuf::from(path);
    if fs::metadata(&path).is_ok_and(|file| file.len() == length) {
        return Ok(path);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| Problem::at(folder, error))?;
    }
    let file = fs::File::create(&path).and_then(|file| file.set_len(length));
    file.map_err(|error| Problem::at(&path, error))?;
    Ok(path)
}

/// `path` with `suffix` after the whole name: `spindle` becomes `spindle.elf`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_is_added_after_the_whole_name() {
        let path = with_suffix(Path::new("x86_64/spindle.v2"), ".elf");
        assert_eq!(path, Path::new("x86_64/spindle.v2.elf"));
    }

    #[test]
    fn a_failed_write_leaves_no_draft_behind() {
        let folder = std::env::temp_dir().join(format!("spindle-files-{}", std::process::id()));
        let target = folder.join("taken");
        fs::create_dir_all(target.join("child")).unwrap();
        assert!(write(&target, b"x").is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
