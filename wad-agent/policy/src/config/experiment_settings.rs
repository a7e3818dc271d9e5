//! An experiment on a path as it is to be made, whoever asks for it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use wad_evidence::{
    experiment::Settings,
    plan::{BadPlan, MOST_BLOCKS, Moment, Plan},
};

/// Says how an experiment is to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentSettings {
    pub block: Duration,
    pub burn_in: Duration,
    /// It lasts no longer.
    pub duration: Duration,
    /// It ends then at the latest, in UTC since 1970.
    pub until: Option<Moment>,
    pub ends_by_verdict: bool,
    pub alpha: f64,
    /// None for chance.
    pub seed: Option<u64>,
    /// Names of paths.
    pub neighbours: Vec<String>,
}

impl ExperimentSettings {
    /// Returns the experiment that begins as soon as it may, from now on. `chance` is the seed
    /// where none was asked for.
    pub fn begin(&self, now: Moment, chance: u64) -> Result<Settings, NotBegun> {
        let seed = self.seed.unwrap_or(chance);
        let lengths = (self.block, self.burn_in);
        let plan = Plan::new(seed, now, lengths, 2)?;
        if let Some(until) = self.until.filter(|until| *until <= now) {
            return Err(NotBegun::Past { until });
        }
        let left = self.until.map(|until| until.saturating_sub(plan.start()));
        let duration = left.map_or(self.duration, |left| left.min(self.duration));
        let pairs = duration.as_nanos() / (self.block.as_nanos() * 2).max(1);
        // In range, hence whole.
        let blocks = pairs.saturating_mul(2).min(MOST_BLOCKS.into()) as u64;
        if blocks == 0 {
            return Err(NotBegun::TooShort { block: self.block, start: plan.start() });
        }
        let plan = Plan::new(seed, now, lengths, blocks)?;
        Ok(Settings { plan, alpha: self.alpha, ends_by_verdict: self.ends_by_verdict })
    }
}

/// Says why an experiment cannot begin now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBegun {
    #[error("it is to end by {}, which is past: give a time that is to come", shown(*.until))]
    Past { until: Moment },
    #[error(
        "it has no time for two blocks of {} s, of which the first may begin at {}: give it more, \
         or shorter blocks",
        .block.as_secs_f64(), shown(*.start)
    )]
    TooShort { block: Duration, start: Moment },
    #[error(transparent)]
    Plan(#[from] BadPlan),
}

/// Returns a moment as people write it; the last there is, for one beyond that.
fn shown(moment: Moment) -> Timestamp {
    let since = SignedDuration::try_from(moment).unwrap_or(SignedDuration::MAX);
    Timestamp::from_duration(since).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_ends_in_time() {
        let usual = ExperimentSettings {
            block: SECOND * 60,
            burn_in: SECOND,
            duration: SECOND * 86_400 * 7,
            until: None,
            ends_by_verdict: true,
            alpha: 0.05,
            seed: None,
            neighbours: Vec::new(),
        };
        let now = SECOND * 1_800_000_000;
        let blocks = |settings: &ExperimentSettings| {
            settings.begin(now, 7).map(|settings| (settings.plan.blocks(), settings.plan.seed()))
        };
        assert_eq!(blocks(&usual), Ok((MOST_BLOCKS, 7)));
        let hour = ExperimentSettings { duration: SECOND * 3_600, seed: Some(3), ..usual.clone() };
        assert_eq!(blocks(&hour), Ok((60, 3)));
        let until = Some(now + SECOND * 600);
        assert_eq!(blocks(&ExperimentSettings { until, ..hour.clone() }), Ok((10, 3)));
        let short = ExperimentSettings { until: Some(now + SECOND * 119), ..hour.clone() };
        assert_eq!(
            blocks(&short).unwrap_err().to_string(),
            "it has no time for two blocks of 60 s, of which the first may begin at \
             2027-01-15T08:00:00Z: give it more, or shorter blocks"
        );
        for until in [now - SECOND, now, Duration::ZERO] {
            let over = ExperimentSettings { until: Some(until), ..hour.clone() };
            assert_eq!(blocks(&over), Err(NotBegun::Past { until }));
        }
        let past = NotBegun::Past { until: now - SECOND }.to_string();
        let said =
            "it is to end by 2027-01-15T07:59:59Z, which is past: give a time that is to come";
        assert_eq!(past, said);
    }
}
