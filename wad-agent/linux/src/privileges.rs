//! Checks what this process may do, before anything is tried.

use std::{
    fmt::{self, Display},
    io,
    path::Path,
};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use thiserror::Error;

/// Says what wad needs of a process, and of the kernel it runs on.
#[derive(Debug, Error)]
pub enum PrivilegeError {
    #[error("the kernel does not say which capabilities this process has: {0}")]
    Unknown(io::Error),
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

const NEEDED: [(CapabilitySet, &str); 3] = [
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    (CapabilitySet::PERFMON, "CAP_PERFMON"),
    (CapabilitySet::BPF, "CAP_BPF"),
];

/// A capability that tuning does without.
#[derive(Debug, PartialEq, Eq)]
pub struct Optional {
    capability: CapabilitySet,
    pub name: &'static str,
    /// It says what goes without the capability.
    pub without: &'static str,
}

pub const OPTIONAL: [Optional; 2] = [
    Optional {
        capability: CapabilitySet::SYS_ADMIN,
        name: "CAP_SYS_ADMIN",
        without: "flows in other network namespaces (containers) keep the settings of their \
                  namespace, and those that ran before the agent stay as they are; /metrics has \
                  no run times of BPF programs; a BPF file system has to be mounted already",
    },
    Optional {
        capability: CapabilitySet::SYS_PTRACE,
        name: "CAP_SYS_PTRACE",
        without: "network namespaces of containers are found by their mounts alone (ip netns, \
                  containerd, CRI-O), not by the processes in them",
    },
];

/// Privileges are what this process may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privileges {
    effective: CapabilitySet,
}

impl Privileges {
    /// Takes the effective capabilities of a process, a bit for each number.
    #[must_use]
    pub const fn of(effective: u64) -> Self {
        Self { effective: CapabilitySet::from_bits_retain(effective) }
    }

    /// Returns the capabilities that are not there, with what goes without.
    pub fn lacking(self) -> impl Iterator<Item = &'static Optional> {
        OPTIONAL.iter().filter(move |optional| !self.effective.contains(optional.capability))
    }
}

impl Display for Optional {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "without {}, {}", self.name, self.without)
    }
}

/// Whether programs can be loaded at all, and with what else.
pub fn check() -> Result<Privileges, PrivilegeError> {
    let effective =
        capabilities(None).map_err(|error| PrivilegeError::Unknown(error.into()))?.effective;
    let missing = NEEDED.iter().filter(|(needed, _)| !effective.contains(*needed));
    let missing: Vec<_> = missing.map(|(_, name)| *name).collect();
    if !missing.is_empty() {
        return Err(PrivilegeError::Missing { missing });
    }
    if !Path::new(BTF).exists() {
        return Err(PrivilegeError::NoBtf);
    }
    Ok(Privileges { effective })
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

#[cfg(test)]
mod tests {
    use super::*;

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
