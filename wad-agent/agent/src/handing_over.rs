//! An agent leaves its place to another one, which asks for it: both are run with
//! `--take-over`. Tuning stays in the kernel meanwhile, as in a restart.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use hyper::Method;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tracing::{debug, info};
use wad_linux::lock::{self, Lock, LockError};
use wad_tuning::instance::Instance;

use crate::{
    client::{self, ClientError, Request},
    own_lock::{self, Folders},
};

/// Says where to answer whoever asked for the place.
pub type Answer = oneshot::Sender<HandingOver>;

/// Says what the agent does that was asked for its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum HandingOver {
    /// It leaves.
    Leaving { version: String },
    /// It was started without `--take-over`, as by a service manager, which would start it
    /// again.
    Staying,
}

impl HandingOver {
    pub fn leaving() -> Self {
        Self::Leaving { version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// The path at which it is asked for.
pub const AT: &str = "/v1/hand-over";

/// An agent that has been asked is gone after so long at most, and one that has just begun
/// can be asked.
const PATIENCE: Duration = Duration::from_secs(20);
const STAYING: &str = "the agent that runs was started without --take-over, and leaves its place \
                       to nobody";
/// Until it is looked again.
const PAUSE: Duration = Duration::from_millis(20);

/// Takes the lock of an instance, if need be from the agent that has it.
pub fn take_place(folders: &Folders<'_>, instance: &Instance) -> Result<Lock> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let socket = lock::socket(folders.run_dir, instance.name());
    let request = Request { method: Method::POST, patience: PATIENCE, ..Request::get(AT) };
    let begun = Instant::now();
    let mut is_asked = false;
    loop {
        let running = match own_lock::take(folders, instance) {
            Err(running @ LockError::Running { .. }) => running,
            taken => return Ok(taken?),
        };
        if begun.elapsed() >= PATIENCE {
            return Err(running.into());
        }
        if !is_asked {
            match runtime.block_on(client::ask(&socket, instance.name(), &request)) {
                Ok(HandingOver::Staying) => {
                    return Err(anyhow::Error::from(running).context(STAYING));
                }
                Ok(HandingOver::Leaving { version }) => {
                    info!("taking the place of wad {version}");
                    is_asked = true;
                }
                // It has not come that far, is just ending, or has another folder for its
                // socket, and then is waited for alone.
                Err(
                    error @ (ClientError::NotRunning { .. }
                    | ClientError::Http { .. }
                    | ClientError::Refused { status: 503, .. }),
                ) => debug!("{error}"),
                Err(error) => return Err(error.into()),
            }
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_nobody_has_is_taken_at_once() {
        let run = tempfile::tempdir().unwrap();
        let instance = Instance::try_new("default").unwrap();
        let begun = Instant::now();
        let lock = take_place(&Folders { run_dir: run.path(), bpffs: None }, &instance).unwrap();
        assert!(begun.elapsed() < PATIENCE);
        assert_eq!(lock.socket(), run.path().join("default.sock"));
    }

    #[test]
    fn a_place_is_waited_for_while_its_agent_ends() {
        let run = tempfile::tempdir().unwrap();
        let instance = Instance::try_new("default").unwrap();
        let held = Lock::take(run.path(), "default", "version 1").unwrap();
        let ending = thread::spawn(move || {
            thread::sleep(5 * PAUSE);
            drop(held);
        });
        take_place(&Folders { run_dir: run.path(), bpffs: None }, &instance).unwrap();
        ending.join().unwrap();
    }
}
