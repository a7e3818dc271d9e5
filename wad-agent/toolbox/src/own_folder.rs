//! A folder of the agent's own, in which nobody but root and the agent may put, change or
//! replace anything: the agent runs with rights that others lack, and believes what it
//! finds there.

use std::{
    fs::{self, DirBuilder, Metadata, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use nix::unistd::{getegid, geteuid};

const WRITABLE_BY_ANYONE: u32 = 0o002;
const WRITABLE_BY_GROUP: u32 = 0o020;
/// Only its owner may rename or remove what is in the folder, as in /tmp.
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error(
        "{} is of user {uid}, who could change what is in {}: have it owned by root, or choose \
         another folder", .at.display(), .folder.display()
    )]
    OfAnother { folder: PathBuf, at: PathBuf, uid: u32 },
    #[error(
        "others may write to {} (mode {mode:04o}), and change what is in {}: `chmod go-w` it, or \
         choose another folder", .at.display(), .folder.display()
    )]
    Writable { folder: PathBuf, at: PathBuf, mode: u32 },
    #[error("{} is a symbolic link: name the folder that it leads to", .folder.display())]
    Link { folder: PathBuf },
    #[error("{} is no folder", .folder.display())]
    NoFolder { folder: PathBuf },
    #[error("cannot look at {}", .at.display())]
    Look { at: PathBuf, source: io::Error },
    #[error("cannot make the folder {}", .folder.display())]
    Make { folder: PathBuf, source: io::Error },
}

/// Refuses a folder that others own or may write to, or one around it; also where it is
/// not made yet.
pub fn guard(folder: &Path) -> Result<(), FolderError> {
    let looked = |at: &Path, source| FolderError::Look { at: at.to_owned(), source };
    let given = std::path::absolute(folder).map_err(|source| looked(folder, source))?;
    let users = Users::of_this_process();
    for at in given.ancestors() {
        let found = match fs::symlink_metadata(at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(|source| looked(at, source))?,
        };
        if found.is_symlink() {
            if at == given {
                return Err(FolderError::Link { folder: folder.to_owned() });
            }
            // As /var/run is: whoever made it decides where it leads.
            users.check_owner(folder, at, &found)?;
            let leads_to = fs::canonicalize(at).map_err(|source| looked(at, source))?;
            guard(&leads_to)?;
        } else if found.is_dir() {
            users.check(folder, at, &found, at == given)?;
        } else {
            return Err(FolderError::NoFolder { folder: at.to_owned() });
        }
    }
    Ok(())
}

/// Makes a folder, if need be with those around it, for this process' user alone.
fn make(folder: &Path) -> Result<(), FolderError> {
    guard(folder)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| FolderError::Make { folder: folder.to_owned(), source })
}

/// Makes a folder that is used for nothing else: if it is there already, and of this
/// process' user, it is closed to others, who may at most pass to what they know the name
/// of.
pub fn make_private(folder: &Path) -> Result<(), FolderError> {
    make(folder)?;
    let closed = fs::metadata(folder).and_then(|found| {
        let is_closed = found.permissions().mode() & 0o066 == 0;
        let is_ours = found.uid() == geteuid().as_raw();
        if is_closed || !is_ours {
            Ok(())
        } else {
            fs::set_permissions(folder, Permissions::from_mode(0o700))
        }
    });
    closed.map_err(|source| FolderError::Make { folder: folder.to_owned(), source })
}

/// Has others pass to what they know the name of; they do not see what there is.
pub fn let_pass(folder: &Path) -> Result<(), FolderError> {
    fs::set_permissions(folder, Permissions::from_mode(0o711))
        .map_err(|source| FolderError::Make { folder: folder.to_owned(), source })
}

/// Knows who may own a folder.
struct Users {
    own: u32,
    /// The group of an agent that is not root's has no other members.
    group: u32,
    /// In a user namespace, what belongs to users outside is shown as nobody's, who can't
    /// be told apart.
    are_all_known: bool,
}

impl Users {
    fn of_this_process() -> Self {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let are_all_known = map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
        Self { own: geteuid().as_raw(), group: getegid().as_raw(), are_all_known }
    }

    fn check_owner(&self, folder: &Path, at: &Path, found: &Metadata) -> Result<(), FolderError> {
        const NOBODY: u32 = 65534;
        let uid = found.uid();
        let is_outside = !self.are_all_known && uid == NOBODY;
        if uid == ROOT || uid == self.own || is_outside {
            return Ok(());
        }
        Err(FolderError::OfAnother { folder: folder.to_owned(), at: at.to_owned(), uid })
    }

    /// In one around it others may put what they like, if they can't touch what is ours.
    fn check(
        &self,
        folder: &Path,
        at: &Path,
        found: &Metadata,
        is_itself: bool,
    ) -> Result<(), FolderError> {
        self.check_owner(folder, at, found)?;
        let mode = found.permissions().mode();
        let by_others = mode & WRITABLE_BY_ANYONE != 0
            || (mode & WRITABLE_BY_GROUP != 0 && ![ROOT, self.group].contains(&found.gid()));
        if by_others && (is_itself || mode & STICKY == 0) {
            let (folder, at, mode) = (folder.to_owned(), at.to_owned(), mode & 0o7777);
            return Err(FolderError::Writable { folder, at, mode });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    fn mode(folder: &Path) -> u32 {
        fs::metadata(folder).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(folder: &Path, mode: u32) {
        fs::set_permissions(folder, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_is_made_for_its_owner_alone() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        make(&folder).unwrap();
        assert_eq!((mode(&folder), mode(folder.parent().unwrap())), (0o700, 0o700));
        // One that is there may be shared with others who read it.
        set_mode(&folder, 0o755);
        make(&folder).unwrap();
        assert_eq!(mode(&folder), 0o755);
        make_private(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
    }

    #[test]
    fn what_others_may_write_to_is_refused_wherever_it_stands() {
        let root = tempfile::tempdir().unwrap();
        let (around, folder) = (root.path().join("around"), root.path().join("around/folder"));
        make(&folder).unwrap();
        for (at, refused) in [(&folder, [0o777, 0o1777]), (&around, [0o777, 0o703])] {
            for bits in refused {
                set_mode(at, bits);
                let said = guard(&folder).unwrap_err().to_string();
                assert!(said.contains(&format!("{} (mode {bits:04o})", at.display())), "{said}");
                assert!(said.contains("chmod go-w"), "{said}");
                // Nor is anything made in it.
                assert!(make(&folder.join("more")).is_err() || bits == 0o1777);
            }
            set_mode(at, 0o1755);
        }
        set_mode(&around, 0o1777);
        guard(&folder).unwrap();
    }

    #[test]
    fn a_link_is_not_followed_and_one_on_the_way_leads_to_what_is_looked_at() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("folder");
        make(&folder).unwrap();
        let link = root.path().join("link");
        symlink(&folder, &link).unwrap();
        assert!(matches!(guard(&link), Err(FolderError::Link { .. })));
        guard(&link.join("below")).unwrap();
        set_mode(&folder, 0o777);
        assert!(matches!(guard(&link.join("below")), Err(FolderError::Writable { .. })));
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(guard(&file), Err(FolderError::NoFolder { .. })));
    }

    #[test]
    fn what_is_of_another_user_is_refused() {
        // To give something away takes root.
        if !geteuid().is_root() {
            let known = Users { own: u32::MAX - 1, group: 0, are_all_known: true };
            let root = tempfile::tempdir().unwrap();
            let found = fs::metadata(root.path()).unwrap();
            assert!(known.check(root.path(), root.path(), &found, true).is_err());
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("folder");
        make(&folder).unwrap();
        chown(&folder, Some(1234), None).unwrap();
        for below in [folder.clone(), folder.join("below")] {
            let said = guard(&below).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{} is of user 1234", folder.display())), "{said}");
        }
    }
}
