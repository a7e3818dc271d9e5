//! Decides when a measured path's policy changes: not for every measurement, and not
//! often.
//!
//! A measurement scatters, and a path may flap between two routes. A change that
//! is too small to matter is none; one that matters is made at once, if the last
//! one is long enough ago, and else when it is, to what is measured then. So
//! there is at most one change in each interval, whatever is measured.

use std::time::Duration;

use wad_toolbox::clock::Moment;

use super::Conditions;
use crate::capacity::Capacity;

/// The least change, in parts of the bandwidth-delay product or of the rate: less is
/// left alone. The headroom of buffers and pacing covers it.
const LEAST_CHANGE: f64 = 0.1;

/// A damper knows what is in force on a path.
#[derive(Clone, Copy, Debug)]
pub struct Damper {
    conditions: Conditions,
    changed_at: Option<Moment>,
}

impl Damper {
    /// Starts with what the file says, or with what was known before.
    pub fn new(conditions: impl Into<Conditions>) -> Self {
        Self { conditions: conditions.into(), changed_at: None }
    }

    /// Returns what the policy in force was made of.
    pub const fn conditions(&self) -> Conditions {
        self.conditions
    }

    /// Puts back what was in force, as what was taken over last could not be.
    pub const fn put_back(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    /// Takes over what is wanted, if it is time; says whether that is so.
    pub fn offer(
        &mut self,
        wanted: impl Into<Conditions>,
        now: Moment,
        interval: Duration,
    ) -> bool {
        let wanted = wanted.into();
        let is_soon = |at| now.saturating_sub(at) < interval;
        let is_change = is_change(self.conditions.capacity, wanted.capacity)
            || self.conditions.traits.are_other(wanted.traits);
        if !is_change || self.changed_at.is_some_and(is_soon) {
            return false;
        }
        *self = Self { conditions: wanted, changed_at: Some(now) };
        true
    }
}

fn is_change(from: Capacity, to: Capacity) -> bool {
    if from.is_least != to.is_least {
        return true;
    }
    let is_other = |from: Option<f64>, to: Option<f64>| match (from, to) {
        (None, None) => false,
        (Some(from), Some(to)) => (to - from).abs() > LEAST_CHANGE * from,
        _ => true,
    };
    // Buffers and windows follow the product, pacing the rate.
    is_other(from.bdp_bytes(), to.bdp_bytes()) || is_other(from.bits_per_second, to.bits_per_second)
}
