//! `wad-soak` kills the agent at each call that changes the host, and loads it for hours.
//! `cargo xtask soak` runs it.

use std::{
    env,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, ValueEnum as _};
use jiff::SignedDuration;
use nix::{sys::signal::Signal, unistd::Uid};
use wad_soak::{
    kills::{self, Builds, Part, Phase, Row, When},
    storm,
};
use wad_testbed::{
    beside::Beside,
    leftovers, monotonic_ns,
    process::{Place, Process},
    say, signal,
};

/// The agent, killed and under load
#[derive(Parser)]
struct Arguments {
    /// Have connections, and what else may happen to it, for so long, as 2h or 5min
    #[arg(long = "for", value_name = "TIME", default_value = "5min")]
    span: SignedDuration,
    /// Make all random choices from this number
    #[arg(long, value_name = "N", conflicts_with = "kills")]
    seed: Option<u64>,
    /// Kill it at each call that changes the host instead
    #[arg(long, conflicts_with = "span")]
    kills: bool,
    /// Only list the calls
    #[arg(long, requires = "kills")]
    list: bool,
    /// Only in these phases
    #[arg(long, value_enum, requires = "kills")]
    phase: Vec<Phase>,
    /// Only before calls, or only after them
    #[arg(long, value_enum, requires = "kills")]
    when: Option<When>,
    /// Only at calls with this in what `--list` says of them, or with one of these
    #[arg(long, value_name = "WORD", requires = "kills")]
    call: Vec<String>,
    /// Only one kill of so many
    #[arg(long, value_name = "N", default_value_t = 1, requires = "kills")]
    every: usize,
    /// So many agents at a time, each in network namespaces and a cgroup of its own
    #[arg(long, value_name = "N", requires = "kills")]
    places: Option<u32>,
    /// The agent's program
    #[arg(long, value_name = "FILE")]
    wad: PathBuf,
    /// The part of this process
    #[arg(long, hide = true)]
    place: Option<u32>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("wad-soak: {error:#}"));
            // As a shell has it for a command that SIGINT ended.
            if signal::check().is_err() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool> {
    ensure!(Uid::effective().is_root(), "run it as root: it makes network namespaces");
    ensure!(arguments.wad.is_file(), "no wad binary at {}", arguments.wad.display());
    signal::catch().context("cannot handle signals")?;
    let phases =
        if arguments.phase.is_empty() { Phase::value_variants() } else { &arguments.phase };
    if let Some(place) = arguments.place {
        return in_place(arguments, phases, place).map(|()| true);
    }
    leftovers::remove();
    if !arguments.kills {
        return soak(arguments);
    }
    if arguments.list {
        return list(&arguments.wad, phases).map(|()| true);
    }
    let processors = thread::available_parallelism().map_or(1, |count| count.get() as u32);
    // Most of their time they wait, for what the kernel frees late.
    let places = arguments.places.unwrap_or(2 * processors);
    let rows = side_by_side(arguments, places)?;
    write!(io::stdout(), "{}", kills::table(&rows)).context("cannot write to standard output")?;
    Ok(rows.iter().all(|row| row.failures.is_empty()))
}

fn soak(arguments: &Arguments) -> Result<bool> {
    let span = Duration::try_from(arguments.span).context("--for is no time")?;
    let shortest = storm::SHORTEST;
    ensure!(span >= shortest, "--for takes {} s and more", shortest.as_secs());
    let seed = arguments.seed.unwrap_or_else(monotonic_ns);
    say(&format!("seed {seed}; no clock is set, as that would be the whole host's"));
    let options = storm::Options { span, seed };
    let builds = Builds::of(&arguments.wad)?;
    let report = storm::run(&builds, options, &|line| say(line))?;
    let mut out = io::stdout();
    write!(out, "{}\n{} failures\n", report.table, report.failures.len())?;
    report.failures.iter().try_for_each(|failure| writeln!(out, "{failure}"))?;
    Ok(report.failures.is_empty())
}

fn list(wad: &Path, phases: &[Phase]) -> Result<()> {
    let builds = Builds::of(wad)?;
    for phase in phases {
        for (call, number) in kills::calls(&builds, *phase)?.iter().zip(1..) {
            writeln!(io::stdout(), "{phase} {number} {call}")?;
        }
    }
    Ok(())
}

/// Does the part of this process, and prints a row for each phase.
fn in_place(arguments: &Arguments, phases: &[Phase], place: u32) -> Result<()> {
    let places = arguments.places.unwrap_or(1) as usize;
    let (first, every) = (place as usize * arguments.every, places * arguments.every);
    let words: Vec<&str> = arguments.call.iter().map(String::as_str).collect();
    let when = arguments.when.map_or(vec![When::Before, When::After], |when| vec![when]);
    let part = Part { when: &when, words: &words, first, every };
    let builds = Builds::of(&arguments.wad)?;
    for phase in phases {
        let row = kills::run(&builds, *phase, part, &|line| say(line))?;
        writeln!(io::stdout(), "{}", serde_json::to_string(&row)?)?;
    }
    Ok(())
}

/// Runs this program once for each place, and adds up what they find.
fn side_by_side(arguments: &Arguments, places: u32) -> Result<Vec<Row>> {
    let mut running = Vec::new();
    for place in 0..places {
        let output = tempfile::NamedTempFile::new()?;
        let mut command = Command::new(env::current_exe().context("this program's path")?);
        command.args(["--kills", "--every", &arguments.every.to_string()]);
        command.args(["--places", &places.to_string(), "--place", &place.to_string()]);
        command.arg("--wad").arg(&arguments.wad);
        if let Some(when) = arguments.when.and_then(|when| when.to_possible_value()) {
            command.args(["--when", when.get_name()]);
        }
        for word in &arguments.call {
            command.args(["--call", word]);
        }
        for phase in &arguments.phase {
            command.args(["--phase", &phase.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(output.reopen()?);
        Beside { place, places }.tell(&mut command);
        running.push((Place::default().spawn(command)?, output));
    }
    // Each comes to its end before any is dropped, which would kill it.
    let ends = running.iter_mut().map(|(process, _)| end_of(process)).collect::<Vec<_>>();
    let mut rows: Vec<Row> = Vec::new();
    for ((_, output), is_well) in running.iter().zip(ends) {
        for line in std::fs::read_to_string(output.path())?.lines() {
            let found: Row = serde_json::from_str(line).with_context(|| line.to_owned())?;
            match rows.iter_mut().find(|row| row.phase == found.phase) {
                Some(row) => row.add(found),
                None => rows.push(found),
            }
        }
        ensure!(is_well?, "a part of the kills was not done");
    }
    Ok(rows)
}

/// Waits for its end, asking it to come to one where a signal has come; says whether all was well.
fn end_of(process: &mut Process) -> Result<bool> {
    loop {
        if let Some(status) = process.ended()? {
            return Ok(status.success());
        }
        if signal::check().is_err() {
            process.signal(Signal::SIGTERM);
        }
        thread::sleep(Duration::from_millis(100));
    }
}
