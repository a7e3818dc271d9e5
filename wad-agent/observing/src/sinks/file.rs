//! A file of JSON lines that is renamed when it is full: `events.jsonl.1` is the one
//! before it.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use nix::errno::Errno;
use wad_policy::config::LogFile;
use wad_toolbox::whole_file::{self, NO_LINK};

use super::error::SinkError;

pub struct Rotated(LogFile);

impl Rotated {
    pub const fn new(file: LogFile) -> Self {
        Self(file)
    }

    /// All of the lines or none. The file is opened for each batch, so that others may
    /// rename it, too.
    pub fn write(&self, lines: &[u8]) -> Result<(), SinkError> {
        let path = &self.0.path;
        let failed = |source| SinkError::Write { file: path.clone(), source };
        let mut file = open(path).map_err(failed)?;
        let mut before = file.metadata().map_err(failed)?.len();
        if before > 0 && before + lines.len() as u64 > self.0.max_bytes {
            self.rotate().map_err(|source| SinkError::Rotate { file: path.clone(), source })?;
            file = open(path).map_err(failed)?;
            before = 0;
        }
        // A line that a power cut has left half written is no beginning of the next.
        let is_whole = before == 0 || last_byte(&file, before).map_err(failed)? == b'\n';
        let newline: &[u8] = if is_whole { b"" } else { b"\n" };
        let written = file.write_all(newline).and_then(|()| file.write_all(lines));
        if written.is_err() {
            // They come again, whole. Pipes and devices have no length.
            let _ = file.set_len(before);
        }
        written.map_err(failed)
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (1..self.0.keep).rev() {
            match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.0.path, self.numbered(1))
    }

    fn numbered(&self, number: u32) -> PathBuf {
        whole_file::beside(&self.0.path, &format!(".{number}"))
    }
}

/// Others may have put a link there, in a folder that they may write.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(0o640).custom_flags(NO_LINK);
    options.open(path).map_err(|error| match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
        Errno::ELOOP => io::Error::other("it is a symbolic link, which is not followed"),
        _ => error,
    })
}

fn last_byte(file: &File, bytes: u64) -> io::Result<u8> {
    let mut last = [0];
    file.read_exact_at(&mut last, bytes - 1)?;
    Ok(last[0])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn rotated(folder: &Path, keep: u32) -> Rotated {
        Rotated::new(LogFile { path: folder.join("events.jsonl"), max_bytes: 100, keep })
    }

    fn text(folder: &Path, name: &str) -> String {
        fs::read_to_string(folder.join(name)).unwrap_or_default()
    }

    #[test]
    fn a_full_file_makes_room_for_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let file = rotated(folder.path(), 2);
        let lines = |number: usize| format!("{{\"n\":{number}}}\n").repeat(8);
        for number in 0..4 {
            file.write(lines(number).as_bytes()).unwrap();
        }
        assert_eq!(text(folder.path(), "events.jsonl"), lines(3));
        assert_eq!(text(folder.path(), "events.jsonl.1"), lines(2));
        assert_eq!(text(folder.path(), "events.jsonl.2"), lines(1));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_half_written_line_is_ended_and_a_renamed_file_is_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let file = rotated(folder.path(), 1);
        fs::write(folder.path().join("events.jsonl"), "{\"n\":").unwrap();
        file.write(b"{\"n\":1}\n").unwrap();
        assert_eq!(text(folder.path(), "events.jsonl"), "{\"n\":\n{\"n\":1}\n");
        fs::rename(folder.path().join("events.jsonl"), folder.path().join("old")).unwrap();
        file.write(b"{\"n\":2}\n").unwrap();
        assert_eq!(text(folder.path(), "events.jsonl"), "{\"n\":2}\n");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/events.jsonl");
        let file = Rotated::new(LogFile { path, max_bytes: 100, keep: 1 });
        let error = file.write(b"{}\n").unwrap_err().told();
        assert!(error.contains("missing/events.jsonl: No such file"), "{error}");
    }

    #[test]
    fn a_link_is_not_followed_wherever_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let victim = folder.path().join("victim");
        symlink(&victim, folder.path().join("events.jsonl")).unwrap();
        let file = rotated(folder.path(), 1);
        let is_refused = || {
            let error = file.write(b"{}\n").unwrap_err().told();
            assert!(error.ends_with("events.jsonl: it is a symbolic link, which is not followed"));
        };
        is_refused();
        assert!(!victim.exists());
        fs::write(&victim, "theirs").unwrap();
        is_refused();
        assert_eq!(text(folder.path(), "victim"), "theirs");
    }

    #[test]
    fn a_full_disk_takes_no_part_of_a_line() {
        let file = Rotated::new(LogFile { path: "/dev/full".into(), max_bytes: 100, keep: 1 });
        let error = file.write(b"{}\n").unwrap_err().told();
        assert!(error.contains("No space left"), "{error}");
    }
}
