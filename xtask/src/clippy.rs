//! `cargo xtask clippy`: warnings are errors, for the host and for the kernel,
//! where wad-common is also looked at by itself.

use std::env::consts::ARCH;

use anyhow::Result;
use wad_toolchain::{BpfToolchain, TARGET};

use crate::{
    dist, exec,
    setup::{self, For},
};

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
    let all = ["--workspace", "--all-targets"];
    let deny = ["--", "--deny", "warnings"];
    exec::run(clippy.args(all).args(deny))?;

    let bpf = BpfToolchain::read(exec::root())?;
    exec::run(
        bpf.cargo(machine.unwrap_or(ARCH))
            .args(["clippy", "--package", "wad-common", "--package", "wad-ebpf"])
            .args(["--features", "wad-ebpf/programs", "--locked"])
            .args(TARGET)
            .args(deny),
    )
}
