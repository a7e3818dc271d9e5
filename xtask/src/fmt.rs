//! `cargo xtask fmt` formats the two workspaces, each by its own rustfmt.

use anyhow::Result;

use crate::{
    bpf_toolchain::BpfToolchain,
    exec,
    setup::{self, For},
};

pub fn run(check: bool) -> Result<()> {
    setup::run(For::Linting)?;
    let check: &[&str] = if check { &["--check"] } else { &[] };
    exec::run(exec::cargo(["fmt", "--all"]).args(check))?;
    let bpf = BpfToolchain::read(exec::root())?;
    // No programs are built: the machine they are for makes no difference.
    exec::run(bpf.cargo("x86_64").args(["fmt", "--all"]).args(check))
}
