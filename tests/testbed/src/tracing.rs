//! `wad trace` runs here, and what it wrote is read.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use jiff::Timestamp;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    process::{Place, Process, ProcessError},
    signal::Interrupted,
    stand::{Late, until},
    wad::Home,
};

const SOON: Duration = Duration::from_secs(10);

/// Tells what went wrong with a trace.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Late(#[from] Late),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("cannot write {path}", path = path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("wad trace failed: {said}")]
    Failed { said: String },
    #[error("no trace: {0}")]
    NoTrace(&'static str),
    #[error("a line of a trace cannot be read: {line}")]
    Line { line: String },
}

/// A running `wad trace`, and where it says what is wrong.
pub struct Tracing {
    pub process: Process,
    said: PathBuf,
}

impl Tracing {
    /// Starts `wad trace` on an agent, with these arguments, into a file.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn start(home: &Home, arguments: &[&str], out: &Path) -> Result<Self, TracingError> {
        let mut command = home.command("trace");
        command.args(arguments).arg("--out").arg(out);
        let name = out.with_extension("said");
        Self::spawn(command, home.folder().join(name.file_name().unwrap_or_default()))
    }

    /// Starts such a command; what it says goes to a file.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn spawn(mut command: Command, said: PathBuf) -> Result<Self, TracingError> {
        let failed = |source| TracingError::Write { path: said.clone(), source };
        command.stdin(Stdio::null()).stderr(File::create(&said).map_err(failed)?);
        Ok(Self { process: Place::default().spawn(command)?, said })
    }

    #[must_use]
    pub fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// # Errors
    /// When it does not say that soon.
    pub fn await_word(&mut self, word: &'static str) -> Result<(), TracingError> {
        until(word, SOON, || Ok::<_, TracingError>(self.said()), |said| said.contains(word))
            .map(drop)
    }

    /// Ends the trace as Ctrl-C does; returns whether it is content, and what it said.
    ///
    /// # Errors
    /// When it does not end soon.
    pub fn end(mut self) -> Result<(bool, String), TracingError> {
        self.process.signal(Signal::SIGINT);
        let status = self.process.wait(SOON, || ())?;
        Ok((status.success(), self.said()))
    }

    /// Ends a trace whose file has to be whole; returns what it said.
    ///
    /// # Errors
    /// When it is not content.
    pub fn finish(self) -> Result<String, TracingError> {
        match self.end()? {
            (true, said) => Ok(said),
            (false, said) => Err(TracingError::Failed { said }),
        }
    }
}

/// Returns the lines of a trace in JSON but for the first; all have to be whole.
///
/// # Errors
/// With what is wrong with it.
pub fn rows(text: &str) -> Result<Vec<Value>, TracingError> {
    if !text.ends_with('\n') {
        return Err(TracingError::NoTrace("it is empty, or cut off"));
    }
    let parsed = |line: &str| {
        serde_json::from_str(line).map_err(|_| TracingError::Line { line: line.to_owned() })
    };
    let mut lines = text.lines().map(parsed);
    let head: Value = lines.next().ok_or(TracingError::NoTrace("no line"))??;
    if head["wad_trace"] != 1 || !head["host"].is_string() {
        return Err(TracingError::NoTrace("its first line is another one"));
    }
    lines.collect()
}

/// Returns when a line was read.
///
/// # Errors
/// When it does not say.
pub fn time(row: &Value) -> Result<Timestamp, TracingError> {
    let time = row["time"].as_str().and_then(|time| time.parse().ok());
    time.ok_or_else(|| TracingError::Line { line: row.to_string() })
}
