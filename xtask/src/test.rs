//! `cargo xtask test`: every test there is.

use anyhow::{Result, bail};

use crate::{
    exec,
    setup::{self, For},
};

pub fn run() -> Result<()> {
    let root = exec::is_root()?;
    setup::run(if root { For::Testing } else { For::Building })?;
    exec::run(&mut exec::cargo(["test", "--workspace"]))?;
    if !root {
        bail!(
            "the tests above passed, but those that need root were not run: \
             run `cargo xtask test` as root"
        );
    }

    // As it is shipped: tests of the whole are to see the optimised program.
    exec::prepare(&mut exec::cargo(["build", "--release", "--package", "wad-agent"]))?;
    // One at a time: they set up networks, and some measure. By `--test`, which
    // fails where there are none. A file that fails does not keep the others from
    // being run.
    exec::run(
        exec::cargo(["test", "--package", "wad-tests", "--features", "root", "--test", "*"])
            .args(["--no-fail-fast", "--", "--test-threads=1"])
            .env("WAD_BIN", exec::target().join("release/wad")),
    )?;
    println!("all tests passed: those of the workspace, and those that need root");
    Ok(())
}
