//! A file that cannot be used is set aside under another name, for people to look at.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

/// Files that are kept of one kind. The last of these names is used again and again: a disk
/// that damages files is not filled by them.
const MOST: u32 = 9;

/// Renames an archive and what belongs to it, and returns its new name: with `.damaged` at
/// its end, or `.damaged-2` and so on.
pub fn set_aside(archive: &Path, why: &str) -> io::Result<PathBuf> {
    let name = |count: u32| match count {
        1 => with_end(archive, &format!(".{why}")),
        _ => with_end(archive, &format!(".{why}-{count}")),
    };
    let free = (1..MOST).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(MOST));
    // Without the file of the log, what it had not taken in yet would be lost to `.recover`.
    // And whatever comes next must not take it for its own.
    for end in ["-wal", "-shm"] {
        match fs::rename(with_end(archive, end), with_end(&free, end)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(archive, &free)?;
    Ok(free)
}

/// Returns the path of a file beside an archive.
pub fn with_end(archive: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(archive);
    name.push(end);
    name.into()
}
