//! `cargo xtask test`: every test there is, or those with a filter in their names.

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::{
    dist, exec, programs,
    setup::{self, For},
    unit_tests,
};

/// Builds all that they run.
pub fn build() -> Result<()> {
    setup::run(For::Testing)?;
    unit_tests::build()?;
    let target = setup::own_target()?;
    programs::end_to_end(target)?;
    dist::ship(target).map(drop)
}

/// Runs the tests on this machine.
pub fn run(filter: Option<&str>) -> Result<()> {
    let root = exec::is_root()?;
    setup::run(if root { For::Testing } else { For::Building })?;
    unit_tests::run(filter)?;
    if !root {
        bail!(
            "the tests above passed, but those that need root were not run: \
             run `cargo xtask test` as root"
        );
    }

    let target = setup::own_target()?;
    let tests = programs::end_to_end(target)?;
    if filter.is_some_and(|filter| !has_any(&tests, filter)) {
        return Ok(());
    }
    // As it is shipped: tests of the whole are to see that program.
    let wad = dist::ship(target)?;
    exec::run(exec::command(&tests).args(filter).env("WAD_BIN", wad))?;
    if filter.is_none() {
        println!("all tests passed: those of the workspace, and those that need root");
    }
    Ok(())
}

/// Tells whether a name of the end-to-end tests has the filter in it.
fn has_any(tests: &Path, filter: &str) -> bool {
    let listed = exec::output(exec::command(tests).args(["--list", filter]));
    let is_run = |line: &str| line.contains(": test; ") && !line.contains("; never on hosts: ");
    listed.is_some_and(|text| text.lines().any(is_run))
}

/// Says of each end-to-end test where it is run.
pub fn list() -> Result<()> {
    setup::run(For::Building)?;
    let cargo = ["run", "--quiet", "--package", "wad-e2e", "--", "--list"];
    exec::run(&mut exec::cargo(cargo)).context("cannot list the tests")
}
