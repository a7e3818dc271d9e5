//! Oracle's bpftune runs in place of an agent: it tunes the host by itself, by what its
//! programs see of all connections.

use std::{
    fs::{self, File},
    io,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use wad_testbed::{
    process::{Place, Process, ProcessError},
    signal::{self, Interrupted},
    stand::{Late, until},
};

const PROGRAM: &str = "bpftune";
/// It says this when it knows what the kernel has for it; then it loads its programs.
const WORKS: &str = "bpftune works";
const STARTS_WITHIN: Duration = Duration::from_secs(60);
const LOADS_WITHIN: Duration = Duration::from_secs(5);
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Tells what went wrong with bpftune.
#[derive(Debug, thiserror::Error)]
pub enum BpftuneError {
    #[error("cannot keep what bpftune says")]
    Log(#[from] io::Error),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Late(#[from] Late),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("bpftune has ended: {said}")]
    Ended { said: String },
}

/// bpftune, as its package has it; killed when dropped.
pub struct Bpftune {
    process: Process,
    log: PathBuf,
    _folder: TempDir,
}

impl Bpftune {
    /// Starts it, to take back at its end what it has changed.
    ///
    /// # Errors
    /// When it cannot be run, or not on this kernel.
    pub fn start() -> Result<Self, BpftuneError> {
        let folder = tempfile::tempdir()?;
        let log = folder.path().join("log");
        let mut command = Command::new(PROGRAM);
        command.args(["--stderr", "--rollback"]).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&log)?);
        let process = Place::default().spawn(command)?;
        let mut bpftune = Self { process, log, _folder: folder };
        let said = || Ok::<_, BpftuneError>(fs::read_to_string(&bpftune.log)?);
        until("bpftune works", STARTS_WITHIN, said, |said| said.contains(WORKS))?;
        // It does not say when they are loaded.
        signal::sleep(LOADS_WITHIN)?;
        if bpftune.process.ended()?.is_some() {
            return Err(BpftuneError::Ended { said: bpftune.said()?.join("; ") });
        }
        Ok(bpftune)
    }

    /// Ends it, and returns what it has said, line by line.
    ///
    /// # Errors
    /// When it does not end.
    pub fn stop(mut self) -> Result<Vec<String>, BpftuneError> {
        self.process.signal(Signal::SIGTERM);
        self.process.wait(ENDS_WITHIN, || ())?;
        self.said()
    }

    fn said(&self) -> Result<Vec<String>, BpftuneError> {
        let text = fs::read_to_string(&self.log)?;
        let own = |line: &str| line.strip_prefix("bpftune: ").unwrap_or(line).trim().to_owned();
        Ok(text.lines().map(own).collect())
    }
}
