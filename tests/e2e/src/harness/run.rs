//! Runs tests, each in a process of its own, and tells of them as libtest does.

use std::{
    env,
    fs::File,
    io::{Read as _, Seek as _, Write as _},
    process::{Command, ExitCode, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::{sys::signal::Signal, unistd::Uid};
use wad_testbed::{
    beside::Beside,
    leftovers,
    process::{Place, Process},
    say, signal,
};

use super::{Company, Test, host::Host};

/// A test may take this long at most.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// A test has so much time to undo what it did.
const GRACE: Duration = Duration::from_secs(60);
/// An end of a test is seen this soon.
const STEP: Duration = Duration::from_millis(10);

/// The exit code of an interrupted run is the one that a shell has for a command that
/// SIGINT ended.
const INTERRUPTED: u8 = 130;
/// The exit code of a failed run is the same as libtest's.
const FAILED: u8 = 101;

/// Holds what became of a test.
struct Outcome {
    test: &'static Test,
    passed: bool,
    output: String,
}

/// Tells how many tests are run at a time.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The places for tests that bear any others.
    pub beside: u32,
    /// The places for tests that bear a few others.
    pub few: u32,
}

impl Places {
    const fn of(self, company: Company) -> u32 {
        match company {
            Company::Beside => self.beside,
            Company::Few => self.few,
            Company::Alone => 1,
        }
    }
}

/// Runs tests: those that bear it in as many places beside each other, then the others.
pub fn run(tests: &[&'static Test], places: Places, passed_over: usize) -> Result<ExitCode> {
    ensure!(!tests.is_empty(), "no test has such a name");
    ensure!(Uid::effective().is_root(), "run it as root: it makes network namespaces");
    signal::catch().context("cannot handle signals")?;
    leftovers::remove();
    let begun = Instant::now();
    print(&format!("\nrunning {} tests\n", tests.len()));

    let mut outcomes = Vec::new();
    for company in [Company::Beside, Company::Few, Company::Alone] {
        let tests: Vec<_> = tests.iter().copied().filter(|test| test.company == company).collect();
        let places = places.of(company);
        if places > 1 && !tests.is_empty() && signal::check().is_ok() {
            let _host = Host::set_up()?;
            outcomes.extend(in_places(&tests, places));
            continue;
        }
        for test in tests {
            if signal::check().is_ok() {
                outcomes.push(run_one(test, None));
            }
        }
    }
    Ok(conclude(&outcomes, tests.len(), passed_over, begun.elapsed()))
}

fn in_places(tests: &[&'static Test], places: u32) -> Vec<Outcome> {
    let next = Mutex::new(tests.iter());
    let outcomes = Mutex::new(Vec::new());
    let (next, done) = (&next, &outcomes);
    thread::scope(|scope| {
        for place in 0..places {
            scope.spawn(move || {
                while signal::check().is_ok() {
                    let Some(test) = next.lock().expect("no panic").next() else { return };
                    let outcome = run_one(test, Some(Beside { place, places }));
                    done.lock().expect("no panic").push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("no panic")
}

fn run_one(test: &'static Test, beside: Option<Beside>) -> Outcome {
    let begun = Instant::now();
    let (passed, output) = match process(test, beside) {
        Ok(outcome) => outcome,
        Err(error) => (false, format!("{error:#}\n")),
    };
    let took = begun.elapsed();
    let word = if passed { "ok" } else { "FAILED" };
    print(&format!("test {} ... {word} <{:.3}s>\n", test.name(), took.as_secs_f64()));
    Outcome { test, passed, output }
}

/// Returns whether the test passed, and what it wrote.
fn process(test: &Test, beside: Option<Beside>) -> Result<(bool, String)> {
    let mut file = tempfile::tempfile().context("cannot keep the output")?;
    let clone = |file: &File| file.try_clone().context("cannot keep the output");
    let mut command = Command::new(env::current_exe().context("this program's path")?);
    command.arg("--one").arg(test.name());
    command.stdin(Stdio::null()).stdout(clone(&file)?).stderr(clone(&file)?);
    if let Some(beside) = beside {
        beside.tell(&mut command);
    }
    let mut process = Place::default().spawn(command)?;
    let failure = wait(&mut process)?;

    file.rewind().context("cannot read the output")?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).context("cannot read the output")?;
    let output = String::from_utf8_lossy(&bytes).into_owned();
    Ok((failure.is_none(), output + &failure.unwrap_or_default()))
}

/// Waits for its end: with what it failed, unless it passed.
fn wait(process: &mut Process) -> Result<Option<String>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = process.ended()? {
            return Ok((!status.success()).then(|| format!("{status}\n")));
        }
        let why = if signal::check().is_err() {
            "interrupted by a signal\n".to_owned()
        } else if begun.elapsed() > LIMIT {
            format!("still running after {} s\n", LIMIT.as_secs())
        } else {
            thread::sleep(STEP);
            continue;
        };
        process.signal(Signal::SIGTERM);
        let asked = Instant::now();
        while process.ended()?.is_none() && asked.elapsed() < GRACE {
            thread::sleep(STEP);
        }
        return Ok(Some(why));
    }
}

fn conclude(outcomes: &[Outcome], asked: usize, passed_over: usize, took: Duration) -> ExitCode {
    let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.passed).collect();
    if !failed.is_empty() {
        print("\nfailures:\n");
        for outcome in &failed {
            print(&format!("\n---- {} ----\n{}", outcome.test.name(), outcome.output));
        }
        print("\nfailures:\n");
        failed.iter().for_each(|outcome| print(&format!("    {}\n", outcome.test.name())));
    }
    let passed = outcomes.len() - failed.len();
    let all = passed == asked;
    print(&format!(
        "\ntest result: {}. {passed} passed; {} failed; 0 ignored; 0 measured; {passed_over} \
         filtered out; finished in {:.2}s\n\n",
        if all { "ok" } else { "FAILED" },
        failed.len(),
        took.as_secs_f64()
    ));
    if signal::check().is_err() {
        say(&format!("interrupted: {} tests were not run", asked - outcomes.len()));
        return ExitCode::from(INTERRUPTED);
    }
    if all { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

/// Prints a text; a reader that has gone does not keep the other tests from being run
/// and undone.
fn print(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
