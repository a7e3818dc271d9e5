//! `cargo xtask build`: `wad` for this machine, BPF programs included.

use anyhow::Result;

use crate::{
    exec,
    setup::{self, For},
};

pub fn run() -> Result<()> {
    setup::run(For::Building)?;
    exec::prepare(&mut exec::cargo(["build", "--release", "--package", "wad"]))?;
    println!("{}", exec::target().join("release/wad").display());
    Ok(())
}
