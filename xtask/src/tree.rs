//! Trees of files to ship become archives that depend on nothing but what is in them:
//! names in order, one time for all, root's.

use std::{collections::BTreeMap, fs, io::Write as _, path::Path};

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

/// Files by their paths from the root, without a slash before them.
#[derive(Default)]
pub struct Tree(BTreeMap<String, Entry>);

enum Entry {
    Folder { mode: u32 },
    File { mode: u32, bytes: Vec<u8> },
}

impl Tree {
    /// Adds a file that all may read, and the folders that it is in.
    pub fn file(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.add(path, Entry::File { mode: 0o644, bytes: bytes.into() });
    }

    /// Adds a program, and the folders that it is in.
    pub fn program(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.add(path, Entry::File { mode: 0o755, bytes: bytes.into() });
    }

    /// Adds an empty folder, and those that it is in.
    pub fn folder(&mut self, path: &str, mode: u32) {
        self.add(path, Entry::Folder { mode });
    }

    /// Adds a file as it is on this machine.
    pub fn copy(&mut self, path: &str, from: &Path) -> Result<()> {
        self.file(path, fs::read(from).with_context(|| from.display().to_string())?);
        Ok(())
    }

    /// Adds the files of a folder as they are on this machine, and those below it.
    pub fn copy_all(&mut self, path: &str, from: &Path) -> Result<()> {
        let failed = || from.display().to_string();
        for entry in fs::read_dir(from).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            let path = format!("{path}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().with_context(failed)?.is_dir() {
                self.copy_all(&path, &entry.path())?;
            } else {
                self.copy(&path, &entry.path())?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &str, entry: Entry) {
        for (end, _) in path.match_indices('/') {
            let parent = path[..end].to_owned();
            self.0.entry(parent).or_insert(Entry::Folder { mode: 0o755 });
        }
        self.0.insert(path.to_owned(), entry);
    }

    /// Returns it as a tar file, all of it of that time.
    pub fn tar(&self, seconds: u64) -> Result<Vec<u8>> {
        let mut tar = Builder::new(Vec::new());
        for (path, entry) in &self.0 {
            let mut header = Header::new_gnu();
            header.set_mtime(seconds);
            header.set_uid(0);
            header.set_gid(0);
            let (mode, kind, bytes): (_, _, &[u8]) = match entry {
                Entry::Folder { mode } => (*mode, EntryType::Directory, &[]),
                Entry::File { mode, bytes } => (*mode, EntryType::Regular, bytes),
            };
            header.set_mode(mode);
            header.set_entry_type(kind);
            header.set_size(u64::try_from(bytes.len())?);
            let slash = if kind == EntryType::Directory { "/" } else { "" };
            tar.append_data(&mut header, format!("{path}{slash}"), bytes)
                .with_context(|| path.clone())?;
        }
        Ok(tar.into_inner()?)
    }
}

/// Packs bytes without a name, a time and a system in the header.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut packer =
        GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), Compression::best());
    packer.write_all(bytes)?;
    Ok(packer.finish()?)
}

/// Returns the digest in hexadecimal figures, as `sha256sum` prints it.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use tar::Archive;

    use super::*;

    #[test]
    fn the_order_of_adding_does_not_matter() {
        let tar = |paths: [&str; 3]| {
            let mut tree = Tree::default();
            for path in paths {
                tree.file(path, path);
            }
            tree.folder("var/lib/wad", 0o700);
            tree.tar(1).unwrap()
        };
        let one = tar(["usr/bin/wad", "etc/passwd", "usr/share/doc/wad/README"]);
        let other = tar(["usr/share/doc/wad/README", "usr/bin/wad", "etc/passwd"]);
        assert_eq!(one, other);
        assert_eq!(gzip(&one).unwrap(), gzip(&other).unwrap());

        let mut archive = Archive::new(&one[..]);
        let entries = archive.entries().unwrap().map(Result::unwrap);
        let found: Vec<_> = entries
            .map(|entry| {
                let header = entry.header();
                assert_eq!((header.uid().unwrap(), header.mtime().unwrap()), (0, 1));
                (entry.path().unwrap().display().to_string(), header.mode().unwrap())
            })
            .collect();
        let folders = |path: &str| (path.to_owned(), 0o755);
        assert_eq!(found[..2], [folders("etc/"), ("etc/passwd".to_owned(), 0o644)]);
        assert_eq!(found.last().unwrap(), &("var/lib/wad/".to_owned(), 0o700));
    }

    #[test]
    fn gzip_says_nothing_of_this_machine() {
        let packed = gzip(b"wad").unwrap();
        // RFC 1952, 2.3.1: no flags, no time; the most compression; an unknown system.
        assert_eq!(packed[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255]);
    }

    #[test]
    fn digests_are_those_of_everybody() {
        // FIPS 180-2, B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
    }
}
