//! Checks what this process may do, before anything is tried.

use std::{
    fmt::{self, Display},
    fs, io,
    path::Path,
};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use thiserror::Error;

/// Says what wad needs of a process, and of the kernel it runs on.
#[derive(Debug, Error)]
pub enum PrivilegeError {
    #[error("cannot read /proc/self/status: {0}")]
    Status(#[from] io::Error),
    #[error(
        "wad may not load BPF programs here: {} missing; run it as root, or give it these \
         capabilities", .missing.join(", ")
    )]
    Missing { missing: Vec<&'static str> },
    #[error(
        "this kernel offers no type information (BTF) at {BTF}; wad needs a kernel built with \
         CONFIG_DEBUG_INFO_BTF=y"
    )]
    NoBtf,
}

const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Capability numbers (include/uapi/linux/capability.h).
const NEEDED: [(u32, &str); 3] = [(12, "CAP_NET_ADMIN"), (38, "CAP_PERFMON"), (39, "CAP_BPF")];

/// A capability that tuning does without.
#[derive(Debug, PartialEq, Eq)]
pub struct Optional {
    number: u32,
    pub name: &'static str,
    /// It says what goes without the capability.
    pub without: &'static str,
}

pub const OPTIONAL: [Optional; 2] = [
    Optional {
        number: 21,
        name: "CAP_SYS_ADMIN",
        without: "flows in other network namespaces (containers) keep the settings of their \
                  namespace, and those that ran before the agent stay as they are; /metrics has \
                  no run times of BPF programs; a BPF file system has to be mounted already",
    },
    Optional {
        number: 19,
        name: "CAP_SYS_PTRACE",
        without: "network namespaces of containers are found by their mounts alone (ip netns, \
                  containerd, CRI-O), not by the processes in them",
    },
];

/// Privileges are what this process may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privileges {
    effective: u64,
}

impl Privileges {
    /// Takes the effective capabilities of a process, a bit for each number.
    #[must_use]
    pub const fn of(effective: u64) -> Self {
        Self { effective }
    }

    /// Returns the capabilities that are not there, with what goes without.
    pub fn lacking(self) -> impl Iterator<Item = &'static Optional> {
        OPTIONAL.iter().filter(move |optional| !has(self.effective, optional.number))
    }
}

impl Display for Optional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "without {}, {}", self.name, self.without)
    }
}

/// Whether programs can be loaded at all, and with what else.
pub fn check() -> Result<Privileges, PrivilegeError> {
    let effective = effective_capabilities(&fs::read_to_string("/proc/self/status")?);
    let missing: Vec<_> =
        NEEDED.iter().filter(|(bit, _)| !has(effective, *bit)).map(|(_, name)| *name).collect();
    if !missing.is_empty() {
        return Err(PrivilegeError::Missing { missing });
    }
    if !Path::new(BTF).exists() {
        return Err(PrivilegeError::NoBtf);
    }
    Ok(Privileges::of(effective))
}

/// Before Linux 5.11 maps count as locked memory, of which a process may have
/// little. Where the bound cannot be lifted, and matters, making a map fails and
/// says so.
pub fn lift_locked_memory() {
    let _ = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
}

/// The soft limit on descriptors is there for programs that use select(2). Where it cannot
/// be lifted, what fails for want of them is said.
pub fn lift_descriptors() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Returns how many descriptors this process may have.
pub fn descriptors() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(now, _)| now)
}

const fn has(capabilities: u64, number: u32) -> bool {
    capabilities >> number & 1 == 1
}

pub fn effective_capabilities(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_status_file() {
        assert_eq!(
            effective_capabilities("Name:\tx\nCapEff:\t000001ffffffffff\n"),
            0x1ff_ffff_ffff
        );
        assert_eq!(effective_capabilities("Name:\tx\n"), 0);
    }

    #[test]
    fn what_goes_without_is_told_of_those_that_are_missing() {
        let lacking = |effective| {
            let privileges = Privileges::of(effective);
            privileges.lacking().map(|optional| optional.name).collect::<Vec<_>>()
        };
        assert_eq!(lacking(u64::MAX), [""; 0]);
        assert_eq!(lacking(u64::MAX ^ 1 << 19), ["CAP_SYS_PTRACE"]);
        assert_eq!(lacking(1 << 12), ["CAP_SYS_ADMIN", "CAP_SYS_PTRACE"]);
    }
}
