//! Another build of the agent, as an upgrade brings it.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Each BPF object of a build (wad-ebpf) has this in it: the licence that it declares,
/// which the kernel looks at. The two say the same to it.
const DECLARED: &[u8] = b"Dual MIT/GPL\0";
const INSTEAD: &[u8] = b"Dual BSD/GPL\0";

/// The agent embeds two objects.
const OBJECTS: usize = 2;

/// Makes another build at `path`: the same agent with BPF objects that are not those of
/// `program`, so that neither of the two takes the other's maps and programs for its
/// own.
///
/// # Errors
/// When a file cannot be read or written, or `program` holds no BPF objects.
pub fn make(program: &Path, path: &Path) -> io::Result<()> {
    let mut bytes = fs::read(program)?;
    let all = bytes.windows(DECLARED.len()).enumerate();
    let places: Vec<usize> =
        all.filter(|(_, window)| *window == DECLARED).map(|(at, _)| at).collect();
    if places.len() < OBJECTS {
        let what = format!("{} BPF objects in {}", places.len(), program.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    for at in places {
        bytes[at..at + INSTEAD.len()].copy_from_slice(INSTEAD);
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(path)?;
    file.write_all(&bytes)
}
