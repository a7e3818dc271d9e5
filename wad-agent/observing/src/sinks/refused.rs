//! Events that a sink refuses for good are set aside in a file beside its spool,
//! `<name>.refused.jsonl`: the sink goes on with the next, and whoever has mended what was
//! wrong may send them by hand.

use std::{
    fs::{DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use wad_toolbox::whole_file;

/// A file of the events of one sink that are set aside.
#[derive(Clone, Debug)]
pub struct Aside {
    file: PathBuf,
    max_bytes: u64,
}

impl Aside {
    /// Names the file beside a spool; it is made with the first events.
    pub fn of(spool: &Path, max_bytes: u64) -> Self {
        Self { file: whole_file::beside(spool, ".refused.jsonl"), max_bytes }
    }

    /// Bounds what it may hold.
    pub const fn bound(&mut self, max_bytes: u64) {
        self.max_bytes = max_bytes;
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Adds lines, and returns whether there was room for them. They are on the disk when
    /// it returns: nobody else has them then.
    pub fn add(&self, lines: &[u8]) -> io::Result<bool> {
        // Someone may have taken it away, with its folder.
        if let Some(folder) = self.file.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).custom_flags(whole_file::NO_LINK);
        let mut file = options.open(&self.file)?;
        let before_bytes = file.metadata()?.len();
        if before_bytes + lines.len() as u64 > self.max_bytes {
            return Ok(false);
        }
        let added = file.write_all(lines).and_then(|()| file.sync_data());
        if added.is_err() {
            // They come again, whole.
            let _ = file.set_len(before_bytes);
        }
        added.map(|()| true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lines_are_added_up_to_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let aside = Aside::of(&folder.path().join("events-default/archive"), 10);
        assert!(aside.add(b"{1}\n").unwrap() && aside.add(b"{2}\n").unwrap());
        assert!(!aside.add(b"{3}\n").unwrap());
        assert_eq!(fs::read(aside.file()).unwrap(), b"{1}\n{2}\n");
        assert!(aside.file().ends_with("events-default/archive.refused.jsonl"));
        // Whoever has taken them away makes room.
        fs::remove_dir_all(aside.file().parent().unwrap()).unwrap();
        assert!(aside.add(b"{3}\n").unwrap());
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let aside = Aside::of(&folder.path().join("archive"), 10);
        let victim = folder.path().join("victim");
        std::os::unix::fs::symlink(&victim, aside.file()).unwrap();
        assert!(aside.add(b"{1}\n").is_err() && !victim.exists());
        fs::write(&victim, "").unwrap();
        assert!(aside.add(b"{1}\n").is_err());
        assert_eq!(fs::read(&victim).unwrap(), b"");
    }
}
