//! Files that a configuration names may be others'. Root reads those, too, but not where
//! CAP_DAC_READ_SEARCH was taken from it, as by the unit and in a container.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use nix::unistd::geteuid;

/// Returns the error of reading a file, with what it takes where this process may not.
pub fn told(file: &Path, error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    // A folder on the way may be closed.
    let Ok(metadata) = fs::metadata(file) else { return error };
    let (uid, gid, mode) = (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777);
    let own = geteuid();
    io::Error::new(
        error.kind(),
        format!(
            "{error}: it is user {uid}'s and group {gid}'s, of mode {mode:04o}; let user {own} read \
             it, or give this process CAP_DAC_READ_SEARCH"
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_that_may_not_be_read_is_told_with_its_owner_and_mode() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let denied = || io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(told(&file, denied()).to_string(), denied().to_string());
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let error = told(&file, denied());
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let (words, own) = (error.to_string(), geteuid());
        let begin = format!("Permission denied (os error 13): it is user {own}'s and group ");
        assert!(words.starts_with(&begin) && words.contains("of mode 0600; let user "), "{words}");
        let gone = told(&file, io::ErrorKind::NotFound.into());
        assert_eq!(gone.to_string(), io::Error::from(io::ErrorKind::NotFound).to_string());
    }
}
