//! `cargo xtask fuzz` runs each parser of what comes from outside under libFuzzer,
//! which makes up inputs that reach ever more of the code.
//!
//! The compiler in use instruments the code. Overflow of integers is checked; memory
//! needs no sanitizer, as the parsers have no unsafe code.

use std::{
    env, fmt,
    fs::{self, File},
    num::NonZero,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Context as _, Result, bail};
use clap::builder::PossibleValuesParser;

use crate::{
    exec,
    setup::{self, For},
};

/// The names of `wad_fuzz::PARSERS`.
const TARGETS: [&str; 28] = [
    "archive",
    "authorization",
    "config",
    "derived",
    "dns",
    "document",
    "experiments",
    "guards",
    "http",
    "otlp",
    "packed_trace",
    "papers",
    "peer_certificate",
    "peer_message",
    "peer_reservation",
    "pods",
    "probe_helper",
    "probe_message",
    "probe_paths",
    "probe_pscheduler",
    "proc",
    "prometheus",
    "pscheduler",
    "query",
    "set",
    "spool",
    "state",
    "trace",
];

/// These flags instrument a build as cargo-fuzz does.
const INSTRUMENTED: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// These bounds are for one input, and for all of a process. From the same corpus come
/// the same inputs: what a change is told of is due to the change.
const BOUNDS: [&str; 3] = ["-timeout=5", "-rss_limit_mb=512", "-seed=1"];

/// So many lines of libFuzzer's, which say what went wrong, are shown.
const SHOWN_LINES: usize = 30;

/// Returns the names of the targets, as the command line takes them.
pub fn names() -> PossibleValuesParser {
    TARGETS.into()
}

/// Tells how long targets are run, in seconds.
#[derive(Clone, Copy)]
pub enum Time {
    Each(u32),
    /// All targets that are run together take so long.
    InAll(u32),
}

impl Time {
    /// Returns the seconds for each of so many targets, of which as many are run at once
    /// as there are cores.
    fn each(self, targets: usize, cores: usize) -> u32 {
        match self {
            Self::Each(seconds) => seconds,
            Self::InAll(seconds) => {
                let rounds = u32::try_from(targets.div_ceil(cores)).unwrap_or(u32::MAX);
                // None at all would be without end.
                (seconds / rounds.max(1)).max(1)
            }
        }
    }
}

/// Runs the named targets, or all. Each gets a line at the end.
pub fn run(names: &[String], time: Time) -> Result<()> {
    let names: Vec<&str> = match names {
        [] => TARGETS.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    let seconds = time.each(names.len(), cores());
    let program = build()?;
    let verdicts = on_all_cores(&names, |name| Target { name, program: &program }.run(seconds));
    let mut failed = 0;
    for verdict in verdicts {
        let verdict = verdict?;
        println!("{verdict}");
        failed += usize::from(verdict.found.is_some());
    }
    if failed > 0 {
        bail!("{failed} of {} targets failed", names.len());
    }
    Ok(())
}

/// Runs targets on an input that was found before.
pub fn reproduce(names: &[String], input: &Path) -> Result<()> {
    let input = std::path::absolute(input)?;
    let program = build()?;
    for name in names {
        exec::run(Target { name, program: &program }.command()?.args(BOUNDS).arg(&input))?;
    }
    Ok(())
}

/// Builds the program, and returns where it is.
fn build() -> Result<PathBuf> {
    setup::run(For::Fuzzing)?;
    let host = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    // With a target named, what runs while it is built is not instrumented.
    exec::prepare(
        exec::cargo(["build", "--profile", "fuzz", "--target", &host])
            .args(["--package", "wad-fuzz", "--features", "wad-fuzz/libfuzzer"])
            .env("CARGO_ENCODED_RUSTFLAGS", INSTRUMENTED.join("\u{1f}")),
    )?;
    Ok(exec::target().join(host).join("fuzz/wad-fuzz"))
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Returns what the work makes of each item, in their order.
fn on_all_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..cores() {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(place) else { break };
                    let result = work(item);
                    done.lock().expect("no work panics").push((place, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no work panics");
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

struct Target<'a> {
    name: &'a str,
    program: &'a Path,
}

impl Target<'_> {
    fn run(&self, seconds: u32) -> Result<Verdict> {
        // What was found by earlier runs is begun with, too.
        let corpus = self.folder("corpus")?;
        let found = self.folder("found")?;
        let log = found.with_extension("log");
        let open = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = self.command()?;
        command
            .args(BOUNDS)
            .args([format!("-max_total_time={seconds}"), "-print_final_stats=1".to_owned()])
            .arg(format!("-artifact_prefix={}/", found.display()))
            .arg(corpus)
            .args(seeds(self.name))
            .stdout(open.try_clone()?)
            .stderr(open);
        let status =
            command.status().with_context(|| format!("cannot start the target {}", self.name))?;
        let text = fs::read(&log).with_context(|| log.display().to_string())?;
        let text = String::from_utf8_lossy(&text);
        Ok(Verdict::new(self.name, &text, status.success()))
    }

    /// Returns the program that feeds this target, with a folder for its files.
    fn command(&self) -> Result<Command> {
        let mut command = Command::new(self.program);
        command.current_dir(exec::root()).env("TMPDIR", self.folder("tmp")?);
        command.env("WAD_FUZZ_PARSER", self.name);
        Ok(command)
    }

    fn folder(&self, purpose: &str) -> Result<PathBuf> {
        let folder = exec::target().join("libfuzzer").join(purpose).join(self.name);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }
}

/// Returns the folders of inputs that a target begins with.
fn seeds(name: &str) -> Vec<PathBuf> {
    let folders: &[&str] = match name {
        "config" => &["config/valid", "config/invalid"],
        "trace" => &["fuzz/seeds/trace", "fuzz/seeds/packed_trace"],
        other => return vec![exec::root().join("tests/fuzz/seeds").join(other)],
    };
    folders.iter().map(|folder| exec::root().join("tests").join(folder)).collect()
}

/// Holds what came of a target.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    name: String,
    executions: String,
    /// Edges of the code, between its blocks.
    edges: String,
    peak_mib: String,
    /// The failure, which is what libFuzzer said last.
    found: Option<String>,
}

impl Verdict {
    fn new(name: &str, log: &str, is_well: bool) -> Self {
        let after = |words: &str| {
            let line = log.lines().rev().find_map(|line| line.split_once(words));
            line.and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or("?").to_owned()
        };
        let lines: Vec<_> = log.lines().collect();
        let last = || lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
        Self {
            name: name.to_owned(),
            executions: after("stat::number_of_executed_units:"),
            edges: after(" cov: "),
            peak_mib: after("stat::peak_rss_mb:"),
            found: (!is_well).then(last),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, executions, edges, peak_mib, found } = self;
        let outcome = if found.is_some() { "FAILED" } else { "ok" };
        write!(
            f,
            "{name:<13}{outcome:<7}{executions:>9} executions, {edges:>5} edges, {peak_mib:>4} MiB"
        )?;
        let Some(said) = found else { return Ok(()) };
        write!(f, "\n{said}\nto see it again: cargo xtask fuzz {name} --input FILE, as written")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_listed_and_has_seeds() {
        let table = fs::read_to_string(exec::root().join("tests/fuzz/src/lib.rs")).unwrap();
        let rows = table.lines().filter_map(|line| line.trim().strip_prefix("(\""));
        let names: Vec<_> = rows.map(|row| row.split('"').next().unwrap()).collect();
        assert_eq!(names, TARGETS);
        for folder in TARGETS.iter().flat_map(|name| seeds(name)) {
            assert!(fs::read_dir(&folder).is_ok_and(|mut files| files.next().is_some()));
        }
    }

    #[test]
    fn a_log_tells_what_came_of_a_target() {
        let log = "INFO: Seed: 1\n#2\tINITED cov: 9 ft: 11 corp: 1/1b\n\
                   #8\tDONE   cov: 1234 ft: 2345 corp: 2/2b exec/s: 4\nDone 8 runs\n\
                   stat::number_of_executed_units: 8\nstat::peak_rss_mb:              41\n";
        let verdict = Verdict::new("query", log, true);
        assert_eq!(
            verdict.to_string(),
            "query        ok             8 executions,  1234 edges,   41 MiB"
        );
        let failed = Verdict::new("query", "thread panicked\nTest unit written to x\n", false);
        let said = failed.to_string();
        assert!(said.starts_with("query        FAILED") && said.contains("written to x"), "{said}");
    }

    #[test]
    fn an_hour_is_shared_by_rounds() {
        assert_eq!(Time::Each(60).each(13, 2), 60);
        assert_eq!(Time::InAll(3600).each(13, 2), 3600 / 7);
        assert_eq!(Time::InAll(3600).each(13, 64), 3600);
        assert_eq!(Time::InAll(5).each(13, 1), 1);
    }

    #[test]
    fn all_that_is_to_be_done_is_done_in_order() {
        let numbers: Vec<u32> = (0..100).collect();
        assert_eq!(on_all_cores(&numbers, |number| number + 1), (1..=100).collect::<Vec<_>>());
    }
}
