//! Why tuning could not be brought into the kernel, with what to do about it.

use std::path::PathBuf;

use aya::programs::{ProgramError, links::LinkError};
use thiserror::Error;

use super::{PinsError, cgroup};
use crate::struct_ops::{self, BtfError, StructOpsError};

/// Why tuning could not be brought into the kernel.
#[derive(Debug, Error)]
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
    #[error("cannot load the BPF object: {0}")]
    Load(#[source] Box<aya::EbpfError>),
    #[error("the kernel refused the tuner: {}", refusal(.0))]
    Tuner(Box<ProgramError>),
    #[error("cannot pin or open a BPF link: {0}")]
    Link(#[from] LinkError),
    #[error("cannot pin {}: {source}", path.display())]
    Pin { path: PathBuf, source: aya::pin::PinError },
    #[error("the BPF object lacks the {what} `{name}`")]
    Lacks { what: &'static str, name: &'static str },
    #[error("cannot wait for events: {0}")]
    Poll(std::io::Error),
    #[error("BPF map `{name}`: {source}")]
    Map { name: &'static str, source: aya::maps::MapError },
    #[error(
        "cannot attach to the cgroup {}: {source}{}", cgroup.display(), describe_others(others)
    )]
    Attach { cgroup: PathBuf, source: Box<ProgramError>, others: Vec<(PathBuf, u32)> },
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

/// What the verifier said last, and what may help.
fn refusal(error: &ProgramError) -> String {
    const LINES: usize = 12;
    let ProgramError::LoadError { io_error, verifier_log } = error else {
        return error.to_string();
    };
    let log = verifier_log.to_string();
    let lines: Vec<&str> = log.lines().collect();
    let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
    format!("{io_error}\n{last}\n{}", struct_ops::cure(io_error))
}

fn describe_others(others: &[(PathBuf, u32)]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let list: Vec<String> = others
        .iter()
        .map(|(cgroup, id)| {
            format!("program {id}{} on {}", cgroup::program_name(*id), cgroup.display())
        })
        .collect();
    format!(
        "; attached there without leave for others: {}. Detach it, or have it attached with \
         BPF_F_ALLOW_MULTI or by a link",
        list.join(", ")
    )
}
