//! The holder of a lock, as it says who it is and as the kernel knows it, told to those
//! who are refused it.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
    os::unix::fs::MetadataExt as _,
    process,
};

/// The kernel's table of locks: each with its holder's number in the PID namespace of
/// whoever reads it, those of holders outside left out.
const LOCKS: &str = "/proc/locks";

/// Returns what the process that takes a lock says of itself.
pub fn note(who: &str) -> String {
    format!("process {}, {who}", process::id())
}

/// Locks that come and go meanwhile may hide another one from whoever reads the table.
const LOOKS: u32 = 5;

/// Returns who holds a lock that was refused, by its note, if it has left one, and by the
/// kernel.
pub fn of(refused: &File, note: Option<&str>) -> String {
    let here = refused.metadata().ok().and_then(|found| {
        (0..LOOKS).find_map(|_| number_in(&table().ok()?, found.dev(), found.ino()))
    });
    described(note, here)
}

/// Reads the table in as few pieces as the kernel gives.
fn table() -> io::Result<String> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(LOCKS)?);
    let mut table = String::new();
    while file.read_line(&mut table)? > 0 {}
    Ok(table)
}

fn described(note: Option<&str>, here: Option<u32>) -> String {
    match (note, here) {
        (Some(note), Some(pid)) if note.starts_with(&format!("process {pid}, ")) => note.to_owned(),
        (Some(note), Some(pid)) => format!("here process {pid}, which says: {note}"),
        (Some(note), None) => format!("not to be seen from this PID namespace, it says: {note}"),
        (None, Some(pid)) => format!("process {pid}"),
        // It is just starting.
        (None, None) => "process unknown".to_owned(),
    }
}

/// Looks for the holder in a table of proc_locks(5), such as
/// `1: FLOCK  ADVISORY  WRITE 4711 00:28:77734128 0 EOF`.
fn number_in(table: &str, device: u64, inode: u64) -> Option<u32> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    table.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_held = fields.next() == Some("FLOCK");
        let (pid, locked) = (fields.nth(2)?, fields.next()?);
        (is_held && locked == file).then(|| pid.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_in_the_kernels_table() {
        let table = "1: POSIX  ADVISORY  WRITE 11 00:28:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fe:00:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 4711 00:28:77 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 13 00:28:78 0 EOF\n\
                     4: FLOCK\n";
        let device = |major, minor| libc::makedev(major, minor);
        assert_eq!(number_in(table, device(0, 0x28), 77), Some(4711));
        assert_eq!(number_in(table, device(0xfe, 0), 77), Some(12));
        assert_eq!(number_in(table, device(0, 0x28), 78), None, "it waits");
        assert_eq!(number_in("", 0, 0), None);
    }

    #[test]
    fn who_is_in_another_pid_namespace_is_told_by_both_numbers() {
        let note = Some("process 7, version 1");
        for (note, here, said) in [
            (note, Some(7), "process 7, version 1"),
            (note, Some(70), "here process 70, which says: process 7, version 1"),
            (note, None, "not to be seen from this PID namespace, it says: process 7, version 1"),
            (None, Some(7), "process 7"),
            (None, None, "process unknown"),
        ] {
            assert_eq!(described(note, here), said);
        }
    }
}
