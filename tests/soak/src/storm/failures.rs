//! All that went wrong in a soak, with the time that it was at.

use std::{sync::Mutex, time::Instant};

use wad_testbed::mutex::locked;

/// More are no help.
const MOST: usize = 20;

/// The failures since this was made.
#[derive(Debug)]
pub struct Failures {
    begun: Instant,
    all: Mutex<Vec<String>>,
}

impl Default for Failures {
    fn default() -> Self {
        Self { begun: Instant::now(), all: Mutex::default() }
    }
}

impl Failures {
    pub fn add(&self, what: &str) {
        let mut all = locked(&self.all);
        if all.len() < MOST {
            all.push(format!("after {:.1} s: {what}", self.begun.elapsed().as_secs_f64()));
        }
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.all))
    }
}
