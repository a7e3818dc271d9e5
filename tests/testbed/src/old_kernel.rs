//! A kernel that lacks something is played on this one: by type information in which
//! that has another name, mounted where an agent looks.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::process::{ProcessError, run};

const BTF: &str = "/sys/kernel/btf/vmlinux";
const BPFFS: &str = "/sys/fs/bpf";

/// The BPF file system, mounted for a test unless it is already: an agent in a
/// mount namespace of its own would mount one for itself.
#[derive(Debug)]
pub struct BpfFileSystem {
    is_ours: bool,
}

/// Tells what went wrong in playing.
#[derive(Debug, thiserror::Error)]
pub enum OldKernelError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("cannot use {path}", path = path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl BpfFileSystem {
    /// # Errors
    /// Without root.
    pub fn mount() -> Result<Self, OldKernelError> {
        let mounts = read(Path::new("/proc/self/mountinfo"))?;
        let place = format!(" {BPFFS} ");
        let is_ours = !String::from_utf8_lossy(&mounts).lines().any(|line| line.contains(&place));
        if is_ours {
            run("mount", &["-t", "bpf", "bpf", BPFFS])?;
        }
        Ok(Self { is_ours })
    }
}

impl Drop for BpfFileSystem {
    fn drop(&mut self) {
        if self.is_ours && run("umount", &[BPFFS]).is_err() {
            crate::say("the BPF file system stays mounted");
        }
    }
}

/// Returns a shell script after which, in its mount namespace, nothing in the kernel
/// has those names.
///
/// # Errors
/// When the type information cannot be read, or the folder not be written.
pub fn without(names: &[&str], folder: &Path) -> Result<String, OldKernelError> {
    let mut btf = read(Path::new(BTF))?;
    for name in names {
        let whole = format!("\0{name}\0");
        let places: Vec<usize> = btf
            .windows(whole.len())
            .enumerate()
            .filter(|(_, bytes)| *bytes == whole.as_bytes())
            .map(|(at, _)| at)
            .collect();
        for at in places {
            btf[at + 1] = b'x';
        }
    }
    let path = folder.join("btf");
    fs::write(&path, btf).map_err(|source| OldKernelError::Io { path: path.clone(), source })?;
    Ok(format!("mount --bind '{}' {BTF}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, OldKernelError> {
    fs::read(path).map_err(|source| OldKernelError::Io { path: path.to_owned(), source })
}
