//! Writes an archive that the kernel unpacks as its first file system: the "new
//! ASCII" format of cpio (Documentation/driver-api/early-userspace/buffer-format.rst).
//! Everything in it is root's.

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive in the making. Paths are given without a leading slash.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// Adds a folder, with those around it.
    pub fn folder(&mut self, path: &str) {
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            let folder = &path[..end];
            if self.folders.insert(folder.to_owned()) {
                self.entry(folder, DIRECTORY, &[]);
            }
        }
    }

    /// Adds a file that may be executed.
    pub fn file(&mut self, path: &str, content: &[u8]) {
        self.parent(path);
        self.entry(path, PROGRAM, content);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, to: &str) {
        self.parent(path);
        self.entry(path, LINK, to.as_bytes());
    }

    /// Returns the whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn parent(&mut self, path: &str) {
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let size = content.len();
        let name_size = path.len() + 1;
        // Inode, mode, owner, group, links, time, size, two devices of two
        // numbers each, length of the name, checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, size as u32, 0, 0, 0, 0, name_size as u32, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(path.bytes().chain([0]));
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_folders_come_once_and_first() {
        let mut archive = Archive::default();
        archive.file("bin/one", b"12345");
        archive.link("bin/two", "one");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        let starts: Vec<_> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert_eq!(starts.len(), 4);
        assert!(starts.iter().all(|at| at % 4 == 0));
        assert_eq!(text.matches("bin\0").count(), 1);
        let entry = &text[starts[1]..starts[2]];
        assert_eq!(&entry[6 + 48..6 + 56], "00000005");
        assert_eq!(&entry[110..118], "bin/one\0");
        assert_eq!(&entry[120..125], "12345");
    }
}
