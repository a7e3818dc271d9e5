//! `cargo xtask ci` runs what a change has to pass, step by step, each as the command
//! that one would type to run it alone.

mod steps;
mod times;

use std::{
    fs::File,
    io,
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow};
use steps::{Step, Table};
use times::Times;

pub use self::steps::Extent;
use crate::exec;

/// Runs the steps until one fails, and prints what each of them took.
pub fn run(extent: Extent) -> Result<()> {
    let table = Table::read()?;
    let begun = Instant::now();
    let mut times = Times::default();
    let mut outcome = Ok(());
    for step in table.by_itself(extent) {
        outcome = with_those_beside(step, &table, extent, &mut times);
        if outcome.is_err() {
            break;
        }
    }
    times.all = begun.elapsed();
    println!("\n{times}");
    if let Some(warning) = times.warning() {
        println!("{warning}");
    }
    outcome
}

/// Runs a step, and beside it those that take what it leaves of the processors. All of
/// them come to their end.
fn with_those_beside(step: &Step, table: &Table, extent: Extent, times: &mut Times) -> Result<()> {
    let others = table.beside(extent, &step.name);
    thread::scope(|scope| {
        let others: Vec<_> =
            others.iter().map(|step| (step, scope.spawn(|| timed(|| in_the_gaps(step))))).collect();
        println!("\n==> {}: {}", step.name, step.command);
        let (took, mut outcome) = timed(|| exec::run(&mut command(&step.command)));
        outcome = outcome.with_context(|| failure(step));
        times.add(&step.name, took, step.budget(extent), None);
        for (other, running) in others {
            let (took, of_other) = running.join().map_err(|_| anyhow!("a thread panicked"))?;
            println!("\n==> {}, beside {}: {}", other.name, step.name, other.command);
            io::copy(&mut File::open(output_of(other))?, &mut io::stdout())?;
            times.add(&other.name, took, other.budget(extent), Some(&step.name));
            outcome = outcome.and(of_other.with_context(|| failure(other)));
        }
        outcome
    })
}

fn failure(step: &Step) -> String {
    format!("the step {} failed; its output is above", step.name)
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let result = work();
    (begun.elapsed(), result)
}

/// Runs a step whenever nothing else wants a processor (`SCHED_IDLE`, sched(7)). What it
/// prints goes to a file.
fn in_the_gaps(step: &Step) -> Result<()> {
    let path = output_of(step);
    let output = File::create(&path).with_context(|| path.display().to_string())?;
    let wanted = command(&step.command);
    let mut idle = Command::new("chrt");
    idle.args(["--idle", "0"]).arg(wanted.get_program()).args(wanted.get_args());
    idle.current_dir(exec::root());
    exec::run(idle.stderr(output.try_clone()?).stdout(output))
}

fn output_of(step: &Step) -> PathBuf {
    exec::target().join(format!("ci-{}.log", step.name))
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
