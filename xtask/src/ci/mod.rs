//! `cargo xtask ci` runs what a change has to pass, step by step, each as the command
//! that one would type to run it alone.

mod steps;
mod times;

use std::{process::Command, time::Instant};

use anyhow::{Context as _, Result};
use steps::Table;
use times::Times;

pub use self::steps::Extent;
use crate::exec;

/// Runs the steps until one fails, and prints what each of them took.
pub fn run(extent: Extent) -> Result<()> {
    let table = Table::read()?;
    let mut times = Times::default();
    let mut outcome = Ok(());
    for step in table.of(extent) {
        println!("\n==> {}: {}", step.name, step.command);
        let begun = Instant::now();
        outcome = exec::run(&mut command(&step.command))
            .with_context(|| format!("the step {} failed; its output is above", step.name));
        times.add(&step.name, begun.elapsed(), step.budget(extent));
        if outcome.is_err() {
            break;
        }
    }
    println!("\n{times}");
    if let Some(warning) = times.warning() {
        println!("{warning}");
    }
    outcome
}

/// Returns the command that a line of the table stands for.
fn command(line: &str) -> Command {
    let mut words = line.split_whitespace();
    match words.next() {
        Some("cargo") => exec::cargo(words),
        program => {
            let mut command = Command::new(program.unwrap_or_default());
            command.args(words).current_dir(exec::root());
            command
        }
    }
}
