//! `cargo xtask deny` checks licences, duplicates and sources of what all crates
//! depend on, by deny.toml. What is known to be vulnerable is not asked for here: that
//! changes without a change of ours.

use std::process::Command;

use anyhow::Result;

use crate::{exec, tools::DENY};

pub fn run() -> Result<()> {
    let program = DENY.ensure()?;
    exec::run(
        Command::new(&program)
            .current_dir(exec::root())
            .args(["check", "bans", "licenses", "sources"]),
    )
}
