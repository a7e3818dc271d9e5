//! Flows are followed into their network namespaces beside the event loop: to find these
//! among thousands takes long.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use wad_common::growth::Holding;
use wad_tuning::{host::Host, journal::Journal, namespaces::Followed};

use super::beside::Beside;

/// The time between two passes, at least.
const PAUSE: Duration = Duration::from_secs(1);
/// Passes take up this part of the time at most.
const PART: u32 = 4;

#[derive(Debug)]
pub struct Following {
    pass: Beside<Followed>,
    /// The pass that is on its way, or the last one, began then.
    begun: Instant,
    rests_until: Instant,
    stop: Arc<AtomicBool>,
}

impl Following {
    pub fn new() -> Self {
        let now = Instant::now();
        Self { pass: Beside::idle(), begun: now, rests_until: now, stop: Arc::default() }
    }

    /// Starts a pass where there may be something to be done, unless one is on its way, or
    /// was until just now: the next look at the flows comes soon.
    pub fn look(&mut self, flows: Vec<Holding>, host: &Host, journal: &Arc<Mutex<Journal>>) {
        let now = Instant::now();
        if self.pass.is_busy() || now < self.rests_until {
            return;
        }
        if let Some(pass) = host.pass(flows, journal, &self.stop) {
            self.begun = now;
            self.pass.start(pass);
        }
    }

    /// Waits for the end of a pass; for ever where none is on its way.
    pub async fn done(&mut self) -> Followed {
        let followed = self.pass.done().await;
        let rest = self.begun.elapsed().saturating_mul(PART - 1).max(PAUSE);
        self.rests_until = Instant::now() + rest;
        followed
    }

    /// Breaks off the pass that is on its way: whatever it has changed is in the journal
    /// after that, and it changes nothing more.
    pub async fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self.pass.is_busy() {
            self.pass.done().await;
        }
    }
}
