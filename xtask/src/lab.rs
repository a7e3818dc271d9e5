//! `cargo xtask lab`, `demo` and `bench`: builds what they need, and becomes
//! the program of the `tests` crate that does the work. Only that program
//! writes to standard output, so that its JSON stays JSON.

use std::{ffi::OsString, process::Command};

use anyhow::Result;

use crate::{
    exec,
    packages::ALL,
    setup::{self, For},
};

/// `lab`: `wad-lab` itself.
pub fn lab(arguments: Vec<OsString>) -> Result<()> {
    // Its own programs do, unless it is asked for a client by name.
    let by_name = arguments.iter().any(|argument| {
        argument.to_str().is_some_and(|argument| {
            ALL.iter().any(|package| argument.ends_with(package.program) && !package.for_demo)
        })
    });
    start("wad-lab", None, arguments, if by_name { For::Testing } else { For::Demo })
}

/// `demo`: the part of `wad-lab` that shows what tuning gains.
pub fn demo(arguments: Vec<OsString>) -> Result<()> {
    start("wad-lab", Some("demo"), arguments, For::Demo)
}

/// `bench`: `wad-bench`.
pub fn bench(arguments: Vec<OsString>) -> Result<()> {
    start("wad-bench", None, arguments, For::Demo)
}

fn start(
    program: &str,
    subcommand: Option<&str>,
    arguments: Vec<OsString>,
    purpose: For,
) -> Result<()> {
    setup::run(purpose)?;
    exec::prepare(
        exec::cargo(["build", "--release", "--package", "wad-agent", "--package", "wad-tests"])
            .args(["--bin", "wad", "--bin", program]),
    )?;
    let built = exec::target().join("release");
    exec::become_command(
        Command::new(built.join(program))
            .args(subcommand)
            .args(arguments)
            .env("WAD_BIN", built.join("wad")),
    )
}
