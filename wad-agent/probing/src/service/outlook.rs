//! The service says this of itself while all goes well.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use wad_toolbox::{
    clock::{self, Moment},
    mutex::locked,
};

use crate::schedule::Reservations;

/// An outlook says what the service does now, and what it is going to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    pub tasks: usize,
    /// All tasks together send and receive no more in a day.
    pub bytes_per_day: u64,
    /// Runs that go on.
    pub running: usize,
    /// The task whose period has the next run, and when it is due, since the host's boot.
    pub next: Option<(Moment, Arc<str>)>,
    pub reservations: Reservations,
}

impl Outlook {
    /// Returns the task that is to run next in its period, and the time until then.
    #[must_use]
    pub fn next_in(&self) -> Option<(&str, Duration)> {
        let (due, task) = self.next.as_ref()?;
        Some((task, due.saturating_sub(clock::now())))
    }
}

/// Where it is told. Clones are of the same.
#[derive(Clone, Debug, Default)]
pub struct Told(Arc<Mutex<Outlook>>);

impl Told {
    pub fn change(&self, change: impl FnOnce(&mut Outlook)) {
        change(&mut locked(&self.0));
    }

    pub fn get(&self) -> Outlook {
        locked(&self.0).clone()
    }
}
