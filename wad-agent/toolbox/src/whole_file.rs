//! Small files that are replaced as one: after a crash there is the old content or
//! the new one.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use nix::fcntl::OFlag;

/// The flag of open(2) by which a file of the agent's own is never where a symbolic link
/// leads to.
pub const NO_LINK: i32 = OFlag::O_NOFOLLOW.bits();

/// The end of a file's name until it is whole.
pub const UNFINISHED: &str = ".new";

/// Writes it, for its owner alone; on disk when it returns. The folder is made if
/// need be.
pub fn write(file: &Path, content: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let name = unfinished(file);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(NO_LINK);
    let mut new = options.open(&name)?;
    new.write_all(content)?;
    new.sync_all()?;
    fs::rename(&name, file)?;
    File::open(folder)?.sync_all()
}

/// Reads it, unless it has more bytes; None where there is none.
pub fn read(file: &Path, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Ok(metadata) if metadata.len() > max_bytes => Err(io::ErrorKind::FileTooLarge.into()),
        _ => fs::read(file).map(Some),
    }
}

/// Returns what it is called until it is whole and put in its place. Whoever is killed before
/// leaves it there, until the next one that writes it, or removes it.
pub fn unfinished(file: &Path) -> PathBuf {
    beside(file, UNFINISHED)
}

/// Removes a file. Returns whether there was one.
pub fn remove(file: &Path) -> io::Result<bool> {
    match fs::remove_file(file) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The file whose name has something added.
pub fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made/of.json");
        for content in ["longer", "new"] {
            write(&file, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), content);
        }
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_not_there_is_removed_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "a").unwrap();
        assert!(remove(&file).unwrap() && !remove(&file).unwrap());
        assert!(remove(folder.path()).is_err());
    }

    #[test]
    fn a_link_is_not_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (file, victim) = (folder.path().join("note"), folder.path().join("victim"));
        fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, unfinished(&file)).unwrap();
        assert!(write(&file, b"new").is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    }
}
