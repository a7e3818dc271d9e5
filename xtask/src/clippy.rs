//! `cargo xtask clippy`: warnings are errors, for the host and for the kernel,
//! where wad-common is also looked at by itself.

use std::env::consts::ARCH;

use anyhow::Result;
use wad_toolchain::{BpfToolchain, TARGET};

use crate::{
    dist, exec,
    setup::{self, For},
};

const DENY: [&str; 3] = ["--", "--deny", "warnings"];

/// Looks at all code as it is compiled for the named machine, or for this one.
pub fn run(machine: Option<&str>) -> Result<()> {
    setup::run(For::Linting)?;
    let mut clippy = match machine {
        Some(machine) => {
            setup::run(For::Shipping)?;
            dist::cargo("clippy", setup::target_of(machine)?, "dev")
        }
        None => exec::cargo(["clippy"]),
    };
    exec::run(clippy.args(["--workspace", "--all-targets"]).args(DENY))?;
    of_programs(machine)
}

/// Looks at the BPF programs alone, for that machine or this one.
pub fn of_programs(machine: Option<&str>) -> Result<()> {
    setup::run(For::Linting)?;
    let bpf = BpfToolchain::read(exec::root())?;
    exec::run(
        bpf.cargo(machine.unwrap_or(ARCH))
            // By the profile that they are built by: `core` is there then.
            .args([
                "clippy",
                "--profile",
                "bpf",
                "--package",
                "wad-common",
                "--package",
                "wad-ebpf",
            ])
            .args(["--features", "wad-ebpf/programs", "--locked"])
            .args(TARGET)
            .args(DENY),
    )
}
