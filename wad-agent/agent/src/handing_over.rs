//! An agent leaves its place to another one, which asks for it: both are run with
//! `--take-over`. Tuning stays in the kernel meanwhile, as in a restart. Where the other one is
//! gone again, as one whose start fails is, the agent takes its place back.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use hyper::Method;
use serde::{Deserialize, Serialize};
use tokio::{sync::oneshot, time::sleep};
use tracing::{debug, info, warn};
use wad_linux::lock::{self, Lock, LockError};
use wad_toolbox::{causes::told, seldom::Seldom};
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

/// An agent that has left its place looks at it so often,
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// and has to find it free so many times in a row: from one agent to the next it is free for
/// some milliseconds, too. Whoever has it holds it from before the start to after the end.
const FREE_LOOKS: u32 = 4;

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

/// Waits until nobody has had the place for some seconds, and takes it.
pub async fn take_back(instance: &Instance) -> Lock {
    // Others may mount the BPF file system, and unmount it.
    take_back_by(|| own_lock::take(&Folders::of_host(), instance), BETWEEN_LOOKS).await
}

async fn take_back_by(take: impl Fn() -> Result<Lock, LockError>, between: Duration) -> Lock {
    let mut found_free = 0;
    let mut said = Seldom::new();
    loop {
        sleep(between).await;
        match take() {
            Ok(lock) => {
                found_free += 1;
                if found_free == FREE_LOOKS {
                    return lock;
                }
            }
            Err(error) => {
                found_free = 0;
                match error {
                    LockError::Running { .. } => debug!("the place is not free: {error}"),
                    // It is not known to be free, and whoever has it may be gone for good.
                    _ if said.may_say() => {
                        warn!("cannot see whether another agent has the place: {}", told(&error));
                    }
                    _ => {}
                }
            }
        }
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

    #[tokio::test]
    async fn a_place_is_taken_back_when_nobody_has_had_it_for_some_looks() {
        let run = tempfile::tempdir().unwrap();
        let folders = Folders { run_dir: run.path(), bpffs: None };
        let instance = Instance::try_new("default").unwrap();
        let between = 5 * PAUSE;
        let hold = || Lock::take(run.path(), "default", "version 2").unwrap();
        let looks = |count: u32| sleep(count * between + between / 2);
        let others = async {
            // As long as a start takes.
            let held = hold();
            looks(2 * FREE_LOOKS).await;
            drop(held);
            // Two looks find it free, before the next one comes.
            looks(1).await;
            let held = hold();
            looks(2 * FREE_LOOKS).await;
            drop(held);
            Instant::now()
        };
        let (lock, free_since) =
            tokio::join!(take_back_by(|| own_lock::take(&folders, &instance), between), others);
        assert!(free_since.elapsed() >= (FREE_LOOKS - 1) * between);
        assert_eq!(lock.socket(), run.path().join("default.sock"));
    }
}
