//! Kernel settings are under /proc/sys: those of the calling thread's network
//! namespace, or of the host with a guard that puts the old value back.

use std::{
    fs::{self, File},
    io,
    time::{Duration, Instant},
};

use nix::fcntl::{Flock, FlockArg};

use crate::signal::{self, Interrupted};

const LOCK_FILE: &str = "/run/wad-experiment.lock";

/// A setting that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SysctlError {
    #[error("cannot read sysctl {name}")]
    Read { name: String, source: io::Error },
    #[error("cannot set sysctl {name} to \"{value}\"")]
    Write { name: String, value: String, source: io::Error },
    #[error("cannot lock {LOCK_FILE}")]
    Lock { source: io::Error },
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// The right to change settings of the host, which are one for all: experiments
/// wait for each other, in this process and in others. Given back on drop.
#[derive(Debug)]
pub struct Turn {
    _lock: Flock<File>,
}

impl Turn {
    /// Waits for it.
    ///
    /// # Errors
    /// When the lock's file cannot be made, or a signal comes.
    pub fn take() -> Result<Self, SysctlError> {
        let failed = |source| SysctlError::Lock { source };
        let mut file = File::create(LOCK_FILE).map_err(failed)?;
        let begun = Instant::now();
        let mut told = false;
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(Self { _lock: lock }),
                Err((back, nix::Error::EWOULDBLOCK)) => file = back,
                Err((_, errno)) => return Err(failed(errno.into())),
            }
            if !told && begun.elapsed() > Duration::from_secs(1) {
                crate::say("waiting for another experiment on this host to end");
                told = true;
            }
            signal::sleep(Duration::from_millis(100))?;
        }
    }
}

/// Returns the value, fields separated by one blank.
///
/// # Errors
/// When there is no such setting.
pub fn get(name: &str) -> Result<String, SysctlError> {
    match fs::read_to_string(path(name)) {
        Ok(value) => Ok(value.split_whitespace().collect::<Vec<_>>().join(" ")),
        Err(source) => Err(SysctlError::Read { name: name.to_owned(), source }),
    }
}

/// Sets the value.
///
/// # Errors
/// When the kernel refuses it.
pub fn set(name: &str, value: &str) -> Result<(), SysctlError> {
    fs::write(path(name), value).map_err(|source| SysctlError::Write {
        name: name.to_owned(),
        value: value.to_owned(),
        source,
    })
}

fn path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// A changed setting of the host; the value from before returns on drop.
#[derive(Debug)]
pub struct Changed {
    name: &'static str,
    before: String,
}

impl Changed {
    /// # Errors
    /// When the kernel refuses the value.
    pub fn to(name: &'static str, value: &str) -> Result<Self, SysctlError> {
        let before = get(name)?;
        set(name, value)?;
        Ok(Self { name, before })
    }

    /// Adds a word to a list, such as the allowed congestion controls.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn with_word(name: &'static str, word: &str) -> Result<Self, SysctlError> {
        let before = get(name)?;
        if !before.split(' ').any(|present| present == word) {
            set(name, &format!("{before} {word}"))?;
        }
        Ok(Self { name, before })
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        if let Err(error) = set(self.name, &self.before) {
            crate::say(&format!("not restored to \"{}\": {error}", self.before));
        }
    }
}
