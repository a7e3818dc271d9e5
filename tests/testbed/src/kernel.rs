//! The kernel that this runs on: its version, and what it can do.

use std::{fs, io};

use crate::sysctl;

/// Returns the first two numbers of a release, as `uname -r` prints it, whatever follows
/// them.
#[must_use]
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Returns those of the running kernel.
///
/// # Errors
/// When it does not tell, or has no two numbers.
pub fn running() -> io::Result<(u32, u32)> {
    let release = sysctl::get("kernel.osrelease").map_err(io::Error::other)?;
    version(&release).ok_or_else(|| io::Error::other(format!("no version: {release}")))
}

/// Returns whether laws are replaced at once, as they are from Linux 6.4 on; before, a law's
/// name is gone for a moment.
///
/// # Errors
/// When the kernel's names cannot be read.
pub fn laws_are_replaced_at_once() -> io::Result<bool> {
    Ok(fs::read_to_string("/proc/kallsyms")?.contains(" bpf_struct_ops_link_create"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_two_numbers() {
        assert_eq!(version("6.12.57+deb13-cloud-amd64"), Some((6, 12)));
        assert_eq!(version("7.2-rc1"), Some((7, 2)));
        assert_eq!(version("a new kind"), None);
        running().unwrap();
    }
}
