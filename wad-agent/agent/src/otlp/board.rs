//! The board has how the export of metrics gets on.

use std::{
    sync::{Arc, Mutex},
    time::SystemTime,
};

use tracing::{info, warn};
use wad_observing::metrics::{OtlpReading, Readings};
use wad_policy::config::Otlp;
use wad_toolbox::mutex::locked;

/// Its counts stay when metrics are exported elsewhere, or not at all for a while.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    is_on: bool,
    reading: OtlpReading,
}

impl Board {
    /// Adds to readings how it gets on, if there is somewhere to export to.
    pub fn read(&self, readings: &mut Readings) {
        let noted = locked(&self.0);
        readings.otlp = noted.is_on.then(|| noted.reading.clone());
    }

    /// Notes where metrics are exported from now on.
    pub fn follow(&self, to: Option<&Otlp>) {
        let mut noted = locked(&self.0);
        noted.is_on = to.is_some();
        let url = to.map(|to| to.url.to_string()).unwrap_or_default();
        let before = std::mem::take(&mut noted.reading);
        let last_success = before.last_success.filter(|_| before.url == url);
        noted.reading = OtlpReading { url, last_success, failing: None, ..before };
    }

    /// Notes that an export was taken.
    pub fn taken(&self) {
        let reading = &mut locked(&self.0).reading;
        reading.sent += 1;
        reading.last_success = Some(SystemTime::now());
        if reading.failing.take().is_some() {
            info!(url = reading.url, "takes metrics again");
        }
    }

    /// Notes that a request was not taken.
    pub fn failed(&self, why: String) {
        let reading = &mut locked(&self.0).reading;
        if reading.failing.is_none() {
            warn!(url = reading.url, "takes no metrics: {why}");
        }
        reading.failing = Some(why);
    }

    /// Notes that an export is given up.
    pub fn given_up(&self, why: String) {
        self.failed(why);
        locked(&self.0).reading.failed += 1;
    }

    /// Notes that points were left out of what was taken.
    pub fn rejected(&self, points: u64) {
        let reading = &mut locked(&self.0).reading;
        reading.rejected_points = reading.rejected_points.saturating_add(points);
    }
}
