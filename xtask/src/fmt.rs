//! `cargo xtask fmt` formats the whole repository.

use anyhow::Result;

use crate::{
    exec,
    setup::{self, For},
};

pub fn run(check: bool) -> Result<()> {
    setup::run(For::Linting)?;
    let check: &[&str] = if check { &["--check"] } else { &[] };
    exec::run(exec::cargo(["fmt", "--all"]).args(check))
}
