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
    refusing_kernel::RefusingKernel,
    say, signal,
};

use super::{Company, Test, host::Host, needs::LeftToMachines};

/// A test may take this long at most.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// A test has so much time to undo what it did.
const GRACE: Duration = Duration::from_secs(60);
/// An end of a test is seen this soon.
const STEP: Duration = Duration::from_millis(10);
/// So many tests that failed are run again at most, a twentieth of all: a machine that is busy with
/// something else for minutes fails several, and more than that is no busy machine.
const MOST_AGAIN: usize = 15;

/// The exit code of an interrupted run is the one that a shell has for a command that
/// SIGINT ended.
const INTERRUPTED: u8 = 130;
/// The exit code of a failed run is the same as libtest's.
const FAILED: u8 = 101;

/// Holds what became of a test.
struct Outcome {
    test: &'static Test,
    verdict: Verdict,
    output: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// The test failed at first, and passed when it was run again by itself.
    Flaky,
    Failed,
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
            Company::Alone | Company::NeverOnHosts(_) => 1,
        }
    }
}

/// Runs tests: those that bear it in as many places beside each other, then the others.
/// What failed beside others, or while the machine was busy with something else, has
/// another try alone; it is named whatever comes of that.
/// Those that are left to virtual machines are named at the end.
pub fn run(
    tests: &[&'static Test],
    left: &[LeftToMachines],
    places: Places,
    passed_over: usize,
) -> Result<ExitCode> {
    ensure!(!tests.is_empty() || !left.is_empty(), "no test has such a name");
    ensure!(Uid::effective().is_root(), "run it as root: it makes network namespaces");
    signal::catch().context("cannot handle signals")?;
    leftovers::remove();
    let begun = Instant::now();
    print(&format!("\nrunning {} tests\n", tests.len()));

    let mut outcomes = Vec::new();
    for company in [Company::Beside, Company::Few, Company::Alone] {
        // In a machine of its own a test is alone.
        let is_of = |test: &&Test| match test.company {
            Company::NeverOnHosts(_) => company == Company::Alone,
            own => own == company,
        };
        let mut tests: Vec<_> = tests.iter().copied().filter(is_of).collect();
        tests.sort_by_key(|test| !test.is_slow);
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
    // Where one runs at a time, in a virtual machine's own time, nothing is ever late.
    if places.beside > 1 {
        run_again(&mut outcomes);
    }
    for LeftToMachines { test, reason } in left {
        print(&format!("left to virtual machines (`cargo xtask vm`): {}: {reason}\n", test.name()));
    }
    Ok(conclude(&outcomes, tests.len(), passed_over + left.len(), begun.elapsed()))
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

fn run_again(outcomes: &mut [Outcome]) {
    let has_failed = |outcome: &&mut Outcome| outcome.verdict == Verdict::Failed;
    let failed: Vec<_> = outcomes.iter_mut().filter(has_failed).collect();
    if failed.len() > MOST_AGAIN {
        return;
    }
    for outcome in failed {
        if signal::check().is_err() {
            return;
        }
        let again = run_one(outcome.test, None);
        if again.verdict == Verdict::Passed {
            outcome.verdict = Verdict::Flaky;
        } else {
            outcome.output += &format!("\n---- again, alone ----\n{}", again.output);
        }
    }
}

fn run_one(test: &'static Test, beside: Option<Beside>) -> Outcome {
    let begun = Instant::now();
    let (verdict, output) = match process(test, beside) {
        Ok(outcome) => outcome,
        Err(error) => (Verdict::Failed, format!("{error:#}\n")),
    };
    let took = begun.elapsed();
    let word = if verdict == Verdict::Passed { "ok" } else { "FAILED" };
    print(&format!("test {} ... {word} <{:.3}s>\n", test.name(), took.as_secs_f64()));
    Outcome { test, verdict, output }
}

/// Returns whether the test passed or failed, and what it wrote.
fn process(test: &Test, beside: Option<Beside>) -> Result<(Verdict, String)> {
    let mut file = tempfile::tempfile().context("cannot keep the output")?;
    let clone = |file: &File| file.try_clone().context("cannot keep the output");
    let mut command = Command::new(env::current_exe().context("this program's path")?);
    command.arg("--one").arg(test.name());
    command.stdin(Stdio::null()).stdout(clone(&file)?).stderr(clone(&file)?);
    if let Some(beside) = beside {
        beside.tell(&mut command);
    }
    if !test.plays_kernel()
        && let Some(kernel) = RefusingKernel::of_environment()?
    {
        kernel.apply(&mut command)?;
    }
    let mut process = Place::default().spawn(command)?;
    let failure = wait(&mut process)?;

    file.rewind().context("cannot read the output")?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).context("cannot read the output")?;
    let output = String::from_utf8_lossy(&bytes).into_owned();
    let verdict = if failure.is_none() { Verdict::Passed } else { Verdict::Failed };
    Ok((verdict, output + &failure.unwrap_or_default()))
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
    let flaky = with(outcomes, Verdict::Flaky);
    show("failed at first, and passed when run again alone", &flaky);
    let failed = with(outcomes, Verdict::Failed);
    show("failures", &failed);
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

fn with(outcomes: &[Outcome], verdict: Verdict) -> Vec<&Outcome> {
    outcomes.iter().filter(|outcome| outcome.verdict == verdict).collect()
}

/// Prints what tests wrote, and their names.
fn show(title: &str, outcomes: &[&Outcome]) {
    if outcomes.is_empty() {
        return;
    }
    print(&format!("\n{title}:\n"));
    for outcome in outcomes {
        print(&format!("\n---- {} ----\n{}", outcome.test.name(), outcome.output));
    }
    print(&format!("\n{title}:\n"));
    outcomes.iter().for_each(|outcome| print(&format!("    {}\n", outcome.test.name())));
}

/// Prints a text; a reader that has gone does not keep the other tests from being run
/// and undone.
fn print(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
