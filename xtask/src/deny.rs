//! `cargo xtask deny` checks licences, duplicates and sources of what all crates
//! depend on, by deny.toml. Which of them are known to be vulnerable is asked for only by
//! `--advisories`: that changes without a change of ours, and takes the network.

use std::process::Command;

use anyhow::Result;

use crate::{exec, tools::DENY};

pub fn run(advisories: bool) -> Result<()> {
    let program = DENY.ensure()?;
    exec::run(
        Command::new(&program)
            .current_dir(exec::root())
            .args(["check", "bans", "licenses", "sources"])
            .args(advisories.then_some("advisories")),
    )
}
