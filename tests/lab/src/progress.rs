//! Progress tells how far an experiment is: one line that is written over on a
//! terminal, a line every few seconds elsewhere. On stderr, so that stdout holds the
//! result only.

use std::{
    cell::Cell,
    env,
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

const BETWEEN_LINES: Duration = Duration::from_secs(5);
const BETWEEN_REWRITES: Duration = Duration::from_millis(500);

/// Tells how far a run is.
pub struct Progress<'a> {
    pub scenario: &'a str,
    pub variant: &'a str,
    pub repeat: u32,
    pub elapsed: Duration,
    pub cwnd_segments: u32,
}

/// Shows the progress of a scenario's runs.
pub struct Line {
    /// The seconds that a run takes; none for transfers of so many bytes.
    seconds: Option<u32>,
    repeats: u32,
    rewrites: bool,
    shown: Cell<Option<Instant>>,
}

impl Line {
    #[must_use]
    pub fn new(scenario: &super::scenario::Scenario, repeats: u32) -> Self {
        // So says the console of a virtual machine, which is read line by line.
        let is_dumb = env::var_os("TERM").is_some_and(|kind| kind == "dumb");
        let rewrites = stderr().is_terminal() && !is_dumb;
        Self { seconds: scenario.seconds(), repeats, rewrites, shown: Cell::new(None) }
    }

    /// Shows the progress, unless some was shown just now.
    pub fn show(&self, progress: &Progress<'_>) {
        let between = if self.rewrites { BETWEEN_REWRITES } else { BETWEEN_LINES };
        if self.shown.get().is_some_and(|shown| shown.elapsed() < between) {
            return;
        }
        self.shown.set(Some(Instant::now()));
        let repeat = match self.repeats {
            1 => String::new(),
            repeats => format!(" run {}/{repeats}", progress.repeat),
        };
        let of = self.seconds.map_or(String::new(), |seconds| format!(" of {seconds}"));
        let text = format!(
            "{} {}{repeat}: {:>2}{of} s, cwnd {} segments",
            progress.scenario,
            progress.variant,
            progress.elapsed.as_secs(),
            progress.cwnd_segments
        );
        // A terminal that has gone is no reason to stop an experiment.
        let _ = match self.rewrites {
            true => write!(stderr(), "\r\x1b[K{text}").and_then(|()| stderr().flush()),
            false => writeln!(stderr(), "{text}"),
        };
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.rewrites {
            let _ = write!(stderr(), "\r\x1b[K").and_then(|()| stderr().flush());
        }
    }
}
