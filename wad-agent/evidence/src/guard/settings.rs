//! Settings of guards.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::signal::SIGNALS;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// Settings of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// A path without a reference is watched for so many ticks that show something.
    pub watch_ticks: u32,
    /// It is at the defaults meanwhile, but for no longer than this: from then on, and at once
    /// where it is nothing, the reference is how the path is at first with its policy.
    pub at_defaults_at_most: Duration,
    /// The part of flows that is left at the defaults while the policy is in force: 0 to 0.5.
    pub untuned_share: f64,
    /// The part of flows that gets the policy in a trial: 0 to 1.
    pub trial_share: f64,
    /// A trial lasts at least so long.
    pub trial_at_least: Duration,
    /// The probability, at most, that a trial lets a policy return whose harm is at the margin.
    pub trial_alpha: f64,
    /// The first hold-off; each is twice as long as the one before.
    pub hold_off: Duration,
    /// And none is longer than this.
    pub hold_off_at_most: Duration,
    /// After so long in force without harm the next hold-off is as short as the first.
    pub forget_after: Duration,
    /// At the margin, and no better, a path trips once in so many ticks in the mean, or less often.
    pub ticks_between_false_trips: f64,
    /// It says what it would do, and does nothing.
    pub dry_run: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            watch_ticks: 24,
            at_defaults_at_most: Duration::ZERO,
            untuned_share: 0.0,
            trial_share: 0.25,
            trial_at_least: MINUTE * 2,
            trial_alpha: 0.01,
            hold_off: MINUTE * 5,
            hold_off_at_most: DAY,
            forget_after: DAY,
            ticks_between_false_trips: 1e6,
            dry_run: false,
        }
    }
}

/// Says which setting cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    #[error("the share that is left untuned is from 0 to 0.5")]
    UntunedShare,
    #[error("the share of a trial is more than 0, and no more than 1")]
    TrialShare,
    #[error("the probability that a trial is wrong is more than 0, and less than 1")]
    TrialAlpha,
    #[error("there are at least 100 ticks between false trips, and no more than 1e12")]
    FalseTrips,
    #[error("a hold-off lasts a second at least, and the longest is no shorter than the first")]
    HoldOff,
}

impl Settings {
    /// Says what of them cannot be.
    pub fn check(&self) -> Result<(), BadSettings> {
        let is_probability = |alpha: f64| alpha > 0.0 && alpha < 1.0;
        let rules = [
            ((0.0..=0.5).contains(&self.untuned_share), BadSettings::UntunedShare),
            (self.trial_share > 0.0 && self.trial_share <= 1.0, BadSettings::TrialShare),
            (is_probability(self.trial_alpha), BadSettings::TrialAlpha),
            ((1e2..=1e12).contains(&self.ticks_between_false_trips), BadSettings::FalseTrips),
            (
                self.hold_off >= Duration::from_secs(1) && self.hold_off <= self.hold_off_at_most,
                BadSettings::HoldOff,
            ),
        ];
        rules.into_iter().try_for_each(|(holds, error)| holds.then_some(()).ok_or(error))
    }

    /// Returns the logarithm of the gain at which a path trips. Every signal has its part of the
    /// false trips.
    pub(super) fn bound_ln(&self) -> f64 {
        (self.ticks_between_false_trips * SIGNALS.len() as f64).ln()
    }

    /// Returns how long a hold-off is after so many doublings.
    #[must_use]
    pub fn hold_off_of(&self, doublings: u32) -> Duration {
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.hold_off.saturating_mul(factor).min(self.hold_off_at_most)
    }
}

/// Reads settings that can be.
pub(super) fn valid<'de, D: Deserializer<'de>>(from: D) -> Result<Settings, D::Error> {
    let settings = Settings::deserialize(from)?;
    settings.check().map(|()| settings).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_can_be_and_others_cannot() {
        let default = Settings::default();
        assert_eq!(default.check(), Ok(()));
        let bad = [
            Settings { untuned_share: 0.6, ..default },
            Settings { untuned_share: f64::NAN, ..default },
            Settings { trial_share: 0.0, ..default },
            Settings { trial_alpha: 1.0, ..default },
            Settings { ticks_between_false_trips: f64::INFINITY, ..default },
            Settings { hold_off: DAY * 2, ..default },
        ];
        assert!(bad.iter().all(|settings| settings.check().is_err()));
    }

    #[test]
    fn hold_offs_double_up_to_a_bound() {
        let minutes = |doublings| Settings::default().hold_off_of(doublings).as_secs() / 60;
        assert_eq!(
            [0, 1, 2, 8, 9, 40, u32::MAX].map(minutes),
            [5, 10, 20, 1_280, 1_440, 1_440, 1_440]
        );
    }
}
