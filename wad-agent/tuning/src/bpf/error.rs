//! The error says why tuning could not be brought into the kernel, with what to do
//! about it.

use std::{error::Error, path::PathBuf};

use aya::{
    maps::MapError,
    programs::{ProgramError, links::LinkError},
};
use wad_linux::cgroup::{self, CgroupError};
use wad_struct_ops::{self as struct_ops, BtfError, StructOpsError};

use super::PinsError;

/// Says why tuning could not be brought into the kernel.
#[derive(Debug, thiserror::Error)]
pub enum TuningError {
    #[error(
        "this build of wad holds no BPF programs; build it with `cargo xtask build`, which gets \
         the tools for them"
    )]
    NoObjects,
    #[error(transparent)]
    Pins(#[from] PinsError),
    #[error(transparent)]
    Btf(#[from] BtfError),
    #[error(transparent)]
    StructOps(#[from] StructOpsError),
    #[error("cannot load the BPF object")]
    Load(#[source] Box<aya::EbpfError>),
    #[error("the kernel refused the tuner: {}", refusal(.0))]
    Tuner(Box<ProgramError>),
    #[error("cannot pin or open a BPF link")]
    Link(#[from] LinkError),
    #[error("cannot pin {}", path.display())]
    Pin { path: PathBuf, source: aya::pin::PinError },
    #[error("cannot put the tuner in the place of another version's at {}", link.display())]
    Replace { link: PathBuf, source: std::io::Error },
    #[error("the BPF object lacks the {what} `{name}`")]
    Lacks { what: &'static str, name: &'static str },
    #[error("`{0}` is not among what is pinned")]
    NotPinned(&'static str),
    #[error("cannot look into all network namespaces")]
    Namespaces(#[source] std::io::Error),
    #[error("cannot go through the flows that run")]
    Running(#[source] std::io::Error),
    #[error("cannot attach the program")]
    Watcher(#[source] std::io::Error),
    #[error("cannot tell how much memory this host has")]
    Memory(#[source] std::io::Error),
    #[error("cannot scan the flows")]
    Scan(#[source] std::io::Error),
    #[error("flows come faster than the scan `{scan}` can be given room for them")]
    NoRoom { scan: &'static str },
    #[error("cannot put the program for `override_setsockopt` on the cgroup, or take it off")]
    Options(#[source] std::io::Error),
    #[error("cannot keep hold of what is in the kernel")]
    Held(#[source] std::io::Error),
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error("cannot wait for events")]
    Poll(#[source] std::io::Error),
    #[error("cannot make and pin the BPF map `{name}`: {source}; {}", struct_ops::cure(source))]
    Sets { name: &'static str, source: std::io::Error },
    #[error("no policy set is in force yet")]
    NoSet,
    #[error("cannot use the BPF map `{name}`")]
    Map { name: &'static str, source: MapError },
    /// The text has its cause in the middle, hence not as its source (`r#`).
    #[error(
        "cannot attach to the cgroup {}: {}{}",
        cgroup.display(), root_cause(&**source), describe_others(others)
    )]
    Attach { cgroup: PathBuf, r#source: Box<ProgramError>, others: Vec<(PathBuf, u32)> },
}

/// Tells with which map something went wrong.
pub fn named(name: &'static str) -> impl Fn(MapError) -> TuningError {
    move |source| TuningError::Map { name, source }
}

impl From<aya::EbpfError> for TuningError {
    fn from(error: aya::EbpfError) -> Self {
        Self::Load(Box::new(error))
    }
}

impl From<ProgramError> for TuningError {
    fn from(error: ProgramError) -> Self {
        Self::Tuner(Box::new(error))
    }
}

/// Returns what is at the bottom of an error: aya's own words name system calls.
fn root_cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}

/// Returns what the kernel and its verifier said, and what may help.
fn refusal(error: &ProgramError) -> String {
    match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            struct_ops::refusal(io_error, &verifier_log.to_string())
        }
        other => root_cause(other),
    }
}

fn describe_others(others: &[(PathBuf, u32)]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let list: Vec<String> = others
        .iter()
        .map(|(cgroup, id)| {
            format!(
                "program {id}{} on {} is attached there exclusively",
                cgroup::program_name(*id),
                cgroup.display()
            )
        })
        .collect();
    format!("; {}: detach it, or attach it with BPF_F_ALLOW_MULTI or by a link", list.join(", "))
}

#[cfg(test)]
mod tests {
    use std::io;

    use aya::sys::SyscallError;

    use super::*;

    fn denied() -> ProgramError {
        let io_error = io::Error::from_raw_os_error(libc::EPERM);
        SyscallError { call: "bpf_link_create", io_error }.into()
    }

    /// Returns an error as `main` prints it.
    fn printed(error: TuningError) -> String {
        format!("{:#}", anyhow::Error::from(error))
    }

    #[test]
    fn whoever_is_in_the_way_is_named_with_what_to_do() {
        let error = TuningError::Attach {
            cgroup: "/sys/fs/cgroup/a".into(),
            source: Box::new(denied()),
            others: vec![("/sys/fs/cgroup".into(), u32::MAX)],
        };
        assert_eq!(
            printed(error),
            "cannot attach to the cgroup /sys/fs/cgroup/a: Operation not permitted (os error 1); \
             program 4294967295 on /sys/fs/cgroup is attached there exclusively: detach it, or \
             attach it with BPF_F_ALLOW_MULTI or by a link"
        );
    }

    #[test]
    fn a_cause_is_said_once() {
        let refused = printed(denied().into());
        assert_eq!(refused, "the kernel refused the tuner: Operation not permitted (os error 1)");
        let poll = printed(TuningError::Poll(io::Error::from_raw_os_error(libc::EBADF)));
        assert_eq!(poll, "cannot wait for events: Bad file descriptor (os error 9)");
    }
}
