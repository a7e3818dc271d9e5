//! `wad-compare` runs the laws of ours beside the kernel's own. `cargo xtask vm
//! compare` runs it in a virtual machine, whose kernel has all that it needs.

use std::{env, process::ExitCode};

use anyhow::{Result, ensure};
use wad_lab::compare::{CASES, compare};
use wad_testbed::{say, wad};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("wad-compare: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Compares, and returns whether all ratios are close to the kernel's.
fn run() -> Result<bool> {
    let wad = wad::program()?;
    let only = env::args().nth(1);
    let cases: Vec<_> =
        CASES.iter().filter(|case| only.as_deref().is_none_or(|only| only == case.ours)).collect();
    ensure!(!cases.is_empty(), "no such law is compared");
    let mut all_close = true;
    for case in cases {
        let ratio = compare(case, &wad)?;
        println!("{} and {} at {:e}: {ratio}", case.ours, case.kernels, case.loss);
        all_close &= ratio.is_close();
    }
    Ok(all_close)
}
