//! A guard over a path: it says when the path's policy is to go back to the kernel's defaults,
//! because it hurts the path's own flows or their neighbours, and when it may return.
//!
//! It is told at each tick what flows have shown since the one before. What hurts is that a
//! signal has been worse, for long, than a reference: than it was before the policy was in force,
//! or at first with it; or than it is at the same time for the path's flows that are left at the
//! defaults. The last is biased (flows that share a bottleneck take from each other), and so is
//! only good enough to end something. Whether tuning helps is asked of experiments alone.
//!
//! ```text
//!              reference               harm                   all flows are back
//! [watching] ------------> [in force] ---------> [tripped] ---------------------------.
//!              is known           ^                     ^                             |
//!                                 | no harm             | harm                        v
//!                                 '---------------- [trial] <------------------- [hold-off]
//!                                                               its time is over
//! ```
//!
//! While it watches, the policy is in force, or is held back for a while first, as the settings
//! have it. A hold-off is twice as long as the one before, up to a bound, and as short as the first again
//! after a long time without harm. Where nothing is known of a signal, it says nothing, neither
//! for nor against: no lack of data trips a path, or brings it back.

mod harm;
mod readings;
mod reference;
mod settings;
mod signal;
mod state;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::{harm::Harm, reference::References};
pub use self::{
    harm::ticks_to_trip,
    readings::{Part, Step},
    settings::{BadSettings, Settings},
    signal::{Against, Measured, Network, Reading, Readings, SIGNALS, Sample, Signal},
    state::State,
};
use crate::saved::{self, Unreadable};

/// Time since the host's boot, its suspension included.
pub type Moment = Duration;

/// Ticks are no longer apart than this for the time between them to count: what was longer
/// was not watched.
const LONGEST_TICK: Duration = Duration::from_secs(60);

/// A guard, which is kept by [`Guard::text`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    #[serde(deserialize_with = "settings::valid")]
    settings: Settings,
    state: State,
    /// Doublings of the hold-off that is next.
    doublings: u32,
    /// How often it has tripped.
    trips: u64,
    references: References,
    #[serde(deserialize_with = "harm::valid")]
    harms: Vec<Harm>,
    /// The last tick; None after a restart.
    #[serde(skip)]
    last: Option<Moment>,
}

/// A change of a guard's state, with what made it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    pub from: State,
    pub to: State,
    /// It tripped for this.
    pub harm: Option<Shown>,
}

/// A signal as it stands, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shown {
    #[serde(flatten)]
    pub signal: Signal,
    /// The ratio to its reference, in the geometric mean of the ticks; more than 1 is worse.
    pub ratio: f64,
    /// Up to this ratio it is no harm.
    pub margin: f64,
    /// Ticks since it was last without suspicion.
    pub ticks: u64,
    /// How far it is towards the bound at which the path trips: 1 is there.
    pub part_of_bound: f64,
}

impl Guard {
    /// Makes one for a path of which nothing is known.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::WATCHING,
            doublings: 0,
            trips: 0,
            references: References::default(),
            harms: harm::none(),
            last: None,
        }
    }

    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Puts other settings in force. What is known stays, and a hold-off that runs is no longer
    /// than they let it be.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
        if let State::HoldOff { left } = &mut self.state {
            *left = (*left).min(settings.hold_off_at_most);
        }
    }

    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns how often it has tripped.
    #[must_use]
    pub const fn trips(&self) -> u64 {
        self.trips
    }

    /// Says whether all flows of the path are to be at the kernel's defaults, those that run as
    /// well.
    #[must_use]
    pub fn holds_back(&self) -> bool {
        let Settings { dry_run, at_defaults_at_most, .. } = self.settings;
        let holds = match self.state {
            State::Watching { lasted, .. } => lasted < at_defaults_at_most,
            State::Tripped | State::HoldOff { .. } => true,
            State::InForce { .. } | State::Trial { .. } => false,
        };
        holds && !dry_run
    }

    /// Returns the part of the path's new flows that its policy is for: 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        let Settings { untuned_share, trial_share, dry_run, .. } = self.settings;
        match self.state {
            _ if dry_run => 1.0,
            _ if self.holds_back() => 0.0,
            State::Trial { .. } => trial_share,
            _ => 1.0 - untuned_share,
        }
    }

    /// Says whether the policy is for fewer flows than in force.
    #[must_use]
    pub fn restrains(&self) -> bool {
        self.share() < 1.0 - self.settings.untuned_share
    }

    /// Returns how far the worst signal is towards the bound at which the path trips, which is 1.
    #[must_use]
    pub fn suspicion(&self) -> f64 {
        self.shown().map(|shown| shown.part_of_bound).fold(0.0, f64::max)
    }

    /// Says what each signal shows of which anything is known.
    pub fn shown(&self) -> impl Iterator<Item = Shown> {
        SIGNALS
            .iter()
            .zip(&self.harms)
            .filter(|(_, harm)| harm.is_known())
            .map(|(row, harm)| self.shown_of(row, harm))
    }

    fn shown_of(&self, row: &signal::Row, harm: &Harm) -> Shown {
        Shown {
            signal: row.signal,
            ratio: harm.mean_ln().exp(),
            margin: row.margin,
            ticks: harm.ticks(),
            part_of_bound: (harm.gain_ln() / self.settings.bound_ln()).max(0.0),
        }
    }

    /// Takes what flows have shown since the last tick. Says how its state has changed, if it has.
    pub fn tick(&mut self, now: Moment, sample: &Sample) -> Option<Change> {
        let passed = self.last.replace(now).map_or(Duration::ZERO, |last| now.saturating_sub(last));
        let passed = if passed > LONGEST_TICK { Duration::ZERO } else { passed };
        self.state.pass(passed);
        let settings = self.settings;
        match self.state {
            State::Watching { lasted, known_ticks } => {
                let own = if self.holds_back() { &sample.untuned } else { &sample.tuned };
                let is_known = self.references.learn(own, &sample.neighbours);
                let known_ticks = known_ticks.saturating_add(u32::from(is_known));
                self.state = State::Watching { lasted, known_ticks };
                (known_ticks >= settings.watch_ticks)
                    .then(|| self.transition_to(State::IN_FORCE, None))
            }
            State::InForce { calm } => {
                if calm >= settings.forget_after {
                    self.doublings = 0;
                }
                self.weigh(sample);
                self.references.meet(&sample.tuned, &sample.neighbours);
                self.tripped()
            }
            // It is up to whoever puts it back.
            State::Tripped => None,
            State::HoldOff { left } => {
                if !settings.dry_run {
                    self.references.learn(&sample.untuned, &sample.neighbours);
                }
                let next = if settings.dry_run { State::IN_FORCE } else { State::TRIAL };
                left.is_zero().then(|| self.transition_to(next, None))
            }
            State::Trial { lasted } => {
                let is_known = self.weigh(sample);
                self.tripped().or_else(|| {
                    let is_over = lasted >= settings.trial_at_least && self.is_harmless();
                    (is_known && is_over).then(|| self.transition_to(State::IN_FORCE, None))
                })
            }
        }
    }

    /// Says that all flows of the path are at the kernel's defaults again.
    pub fn is_back(&mut self) -> Option<Change> {
        matches!(self.state, State::Tripped).then(|| {
            let left = self.settings.hold_off_of(self.doublings);
            self.doublings = self.doublings.saturating_add(1);
            self.transition_to(State::HoldOff { left }, None)
        })
    }

    /// Somebody has the policy in force again for all flows, whatever it did. What it does next may
    /// trip it once more.
    pub fn release(&mut self) -> Option<Change> {
        // In a dry run nothing is held back in a hold-off.
        (self.restrains() || matches!(self.state, State::HoldOff { .. }))
            .then(|| self.transition_to(State::IN_FORCE, None))
    }

    /// The path has another policy, which has done nothing yet: a hold-off was not for that.
    pub fn policy_is_another(&mut self) -> Option<Change> {
        self.doublings = 0;
        self.harms = harm::none();
        let is_held = matches!(self.state, State::Tripped | State::HoldOff { .. });
        let next = if self.settings.dry_run { State::IN_FORCE } else { State::TRIAL };
        is_held.then(|| self.transition_to(next, None))
    }

    /// Takes what the signals show. Says whether any of the path's own shows anything.
    fn weigh(&mut self, sample: &Sample) -> bool {
        let mut is_known = false;
        for (row, harm) in SIGNALS.iter().zip(&mut self.harms) {
            let references = &self.references;
            let before = |whose, measured, now: &_| references.worse_ln(whose, measured, now);
            let worse_ln = row.signal.worse_ln(sample, before);
            if let Some(worse_ln) = worse_ln {
                harm.take(worse_ln / row.margin.ln(), worse_ln);
                is_known |= row.signal.is_own();
            }
        }
        is_known
    }

    fn tripped(&mut self) -> Option<Change> {
        let bound_ln = self.settings.bound_ln();
        let mut all = SIGNALS.iter().zip(&self.harms);
        let (row, harm) = all.find(|(_, harm)| harm.gain_ln() >= bound_ln)?;
        let shown = self.shown_of(row, harm);
        self.trips = self.trips.saturating_add(1);
        let change = self.transition_to(State::Tripped, Some(shown));
        if !self.settings.dry_run {
            return Some(change);
        }
        // Nothing is put back: it keeps silent for as long as it would.
        let back = self.is_back();
        Some(Change { to: back.map_or(change.to, |back| back.to), ..change })
    }

    /// Says whether all signals that are known have shown that they are within their margins, and
    /// one of the path's own among them.
    fn is_harmless(&self) -> bool {
        let known = || SIGNALS.iter().zip(&self.harms).filter(|(_, harm)| harm.is_known());
        known().all(|(_, harm)| harm.is_refuted(self.settings.trial_alpha))
            && known().any(|(row, _)| row.signal.is_own())
    }

    fn transition_to(&mut self, to: State, harm: Option<Shown>) -> Change {
        debug_assert!(self.state.may_become(to), "{:?} to {to:?}", self.state);
        let from = std::mem::replace(&mut self.state, to);
        self.harms = harm::none();
        if matches!(to, State::HoldOff { .. }) {
            self.references.settle();
        }
        Change { from, to, harm }
    }

    /// Returns it as it is kept.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        saved::text(self)
    }

    /// Returns the one that was kept. The time until its first tick does not count.
    pub fn read(text: &[u8]) -> Result<Self, Unreadable> {
        saved::read(text)
    }
}

#[cfg(test)]
mod tests;
