//! `cargo xtask clippy`: warnings are errors, for the host and for the kernel,
//! where wad-common is also looked at by itself.

use anyhow::Result;
use wad_toolchain::{BpfToolchain, TARGET};

use crate::{
    exec,
    setup::{self, For},
};

/// The feature adds what only libFuzzer runs, which is not looked at otherwise.
pub const FEATURES: &str = "wad-commands/fuzz";

pub fn run() -> Result<()> {
    setup::run(For::Linting)?;
    let deny = ["--", "--deny", "warnings"];
    let all = ["clippy", "--workspace", "--all-targets", "--features", FEATURES];
    exec::run(exec::cargo(all).args(deny))?;

    let bpf = BpfToolchain::read(exec::root())?;
    let arch = std::env::consts::ARCH;
    exec::run(
        bpf.cargo(arch)
            .args(["clippy", "--package", "wad-common", "--package", "wad-ebpf"])
            .args(["--features", "wad-ebpf/programs", "--locked"])
            .args(TARGET)
            .args(deny),
    )
}
