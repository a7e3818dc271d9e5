//! The counts of paths are held against the flows that there are, twice a minute.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tracing::warn;
use wad_toolbox::causes::with_causes;
use wad_tuning::bpf::{Tuning, TuningError};

use super::beside::Beside;

/// A count that two looks in succession find wrong is put right: so within a minute, with
/// some time to spare.
const LOOK_INTERVAL: Duration = Duration::from_secs(25);

/// Ticks when it is time to look.
pub fn looks() -> Interval {
    let mut looks = interval_at(Instant::now() + LOOK_INTERVAL, LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

/// Looks at all flows, of which there may be many: beside the event loop.
#[derive(Debug)]
pub struct Recounts(Beside<Result<(), TuningError>>);

impl Recounts {
    pub const fn new() -> Self {
        Self(Beside::idle())
    }

    pub fn look(&mut self, tuning: &Arc<Tuning>) {
        let tuning = Arc::clone(tuning);
        self.0.start(move || tuning.recount());
    }

    /// Waits until a look is done, for ever where there is none.
    pub async fn done(&mut self) {
        if let Err(error) = self.0.done().await {
            warn!("counts of flows stay as they are: {}", with_causes(&error.into()));
        }
    }
}
