//! Harm that a signal shows, tick by tick.
//!
//! The claim is that harm, in the mean of the next tick and whatever was before, is no
//! more than the margin; harm counts from none to twice the margin, on a scale of logarithms. On
//! that one can bet, as the score is bounded, and nothing else is taken for granted: neither
//! independence nor any distribution.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::signal::SIGNALS;
use crate::bets::Bets;

/// The harm of one signal, as it has shown itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Harm {
    /// Bets that there is harm, as of some tick.
    harmful: Bets,
    /// Bets that there is none, since the state began.
    harmless: Bets,
    /// Ticks since it was last without suspicion, and what they showed.
    ticks: u64,
    sum_ln: f64,
    is_known: bool,
}

/// Returns what signals show that have shown nothing yet.
pub fn none() -> Vec<Harm> {
    vec![Harm::default(); SIGNALS.len()]
}

/// Returns the score of a tick whose harm is so many margins, in logarithms.
fn score(margins: f64) -> f64 {
    (margins - 1.0).clamp(-1.0, 1.0)
}

impl Harm {
    pub fn take(&mut self, margins: f64, worse_ln: f64) {
        if self.harmful.gain_ln() <= 0.0 {
            (self.ticks, self.sum_ln) = (0, 0.0);
        }
        self.is_known = true;
        self.ticks = self.ticks.saturating_add(1);
        self.sum_ln += worse_ln;
        self.harmful.take_anew(score(margins));
        self.harmless.take(-score(margins));
    }

    /// Says whether anything is known of it.
    pub const fn is_known(&self) -> bool {
        self.is_known
    }

    /// Returns the logarithm of what betting on harm has brought.
    pub fn gain_ln(&self) -> f64 {
        self.harmful.gain_ln()
    }

    /// Says whether harm as great as the margin is refuted.
    pub fn is_refuted(&self, alpha: f64) -> bool {
        self.harmless.are_against(alpha)
    }

    /// Returns how many ticks it is under suspicion.
    pub const fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Returns how much worse it was in the mean of these.
    pub fn mean_ln(&self) -> f64 {
        if self.ticks == 0 { 0.0 } else { self.sum_ln / self.ticks as f64 }
    }
}

/// Returns the number of ticks after which a signal trips at the latest, if each shows harm of so
/// many margins (in logarithms: two are the margin squared) or more; None for never. Ticks that
/// show nothing do not count.
#[must_use]
pub fn ticks_to_trip(settings: &super::Settings, margins: f64) -> Option<u32> {
    let mut bets = Bets::default();
    (score(margins) > 0.0).then_some(())?;
    (1..).find(|_| {
        bets.take_anew(score(margins));
        bets.gain_ln() >= settings.bound_ln()
    })
}

/// Reads what signals have shown.
pub fn valid<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Harm>, D::Error> {
    let harms = Vec::<Harm>::deserialize(from)?;
    let is_valid = |harm: &Harm| {
        harm.harmful.is_valid() && harm.harmless.is_valid() && harm.sum_ln.is_finite()
    };
    let are_kept = harms.len() == SIGNALS.len() && harms.iter().all(is_valid);
    are_kept.then_some(harms).ok_or_else(|| D::Error::custom("no such harm is kept"))
}
