//! Guards over paths: what is known of them is shared by whoever gives them their ticks, and whoever
//! answers questions.

mod order;
mod steps;
#[cfg(test)]
pub mod testing;
mod told;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_evidence::guard::{Guard, Shown};
use wad_observing::metrics::{GuardReading, Readings};
use wad_toolbox::mutex::locked;

pub use self::{
    order::{RELEASE_AT, Release, ReleaseAnswer, ReleaseOutcome},
    steps::{Flows, Looked},
    told::{GuardState, GuardTold, GuardsTold},
};

/// A guard, with what it is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    pub path: String,
    /// Whom the path is for and what its connections get, in words: with anything else it is
    /// another policy. Empty where no file has the path.
    pub subject: String,
    pub guard: Guard,
    pub tripped: Option<Trip>,
}

/// The last time that a path tripped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trip {
    pub at: Timestamp,
    /// It tripped for this, as it was then.
    pub harm: Shown,
}

/// All guards, in the order of their paths. Clones are of the same.
#[derive(Clone, Debug, Default)]
pub struct Guards(Arc<Mutex<Vec<Kept>>>);

impl Guards {
    #[must_use]
    pub fn new(kept: Vec<Kept>) -> Self {
        Self(Arc::new(Mutex::new(kept)))
    }

    pub fn all(&self) -> MutexGuard<'_, Vec<Kept>> {
        locked(&self.0)
    }

    /// Returns the paths whose policies are held back.
    #[must_use]
    pub fn held_back(&self) -> BTreeSet<String> {
        let all = self.all();
        let held_back = all.iter().filter(|kept| kept.guard.holds_back());
        held_back.map(|kept| kept.path.clone()).collect()
    }

    /// Says whether a path's policy is held back, or tried with a part of its connections.
    #[must_use]
    pub fn restrain(&self, path: &str) -> bool {
        self.all().iter().any(|kept| kept.path == path && kept.guard.restrains())
    }

    /// Tells of all of them.
    #[must_use]
    pub fn told(&self) -> Vec<GuardTold> {
        self.all().iter().map(GuardTold::of).collect()
    }

    /// Adds to the readings what the metrics tell of them.
    pub fn read(&self, readings: &mut Readings) {
        let reading = |kept: &Kept| GuardReading {
            path: kept.path.clone(),
            share: kept.guard.share(),
            trips: kept.guard.trips(),
            suspicion: kept.guard.suspicion(),
        };
        readings.guards = self.all().iter().map(reading).collect();
    }
}

/// Reads what an agent before this one has left of guards, and goes on with them.
#[cfg(feature = "fuzz")]
pub fn fuzz(bytes: &[u8]) {
    use std::time::Duration;

    use wad_evidence::{
        guard::{Reading, Sample},
        saved,
    };

    let Ok(mut kept) = saved::read::<Vec<Kept>>(bytes) else { return };
    // Another agent would know the same.
    assert_eq!(saved::read::<Vec<Kept>>(&saved::text(&kept)).ok().as_ref(), Some(&kept));
    let reading = Reading { goodput: Some(1e7), goodput_of_one: Some(1e7), ..Reading::default() };
    let [tuned, untuned] = [reading.into(), Reading::default().into()];
    let sample = Sample { tuned, untuned, ..Sample::default() };
    for kept in &mut kept {
        kept.guard.tick(Duration::from_secs(1_000), &sample);
        kept.guard.tick(Duration::from_secs(1_005), &sample);
    }
    let told = GuardsTold { guards: Guards::new(kept).told() };
    let told = serde_json::to_vec(&told).expect("it is JSON");
    assert!(serde_json::from_slice::<GuardsTold>(&told).is_ok());
}
