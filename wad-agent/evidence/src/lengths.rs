//! The length of blocks that fits a path: long enough that what flows show in one is of the
//! block, and short enough that a day has many.

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// The lengths that blocks have by themselves: two of them divide an hour, or a day, so that no
/// pair crosses more hours than it has to.
pub const LENGTHS: [Duration; 12] = [
    MINUTE,
    Duration::from_secs(2 * 60),
    Duration::from_secs(3 * 60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(6 * 60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(15 * 60),
    Duration::from_secs(30 * 60),
    HOUR,
    Duration::from_secs(2 * 3_600),
    Duration::from_secs(6 * 3_600),
    Duration::from_secs(12 * 3_600),
];

/// The time that is counted of a block lasts so many flow lives at least: of flows that begin at
/// any time in it, one in ten crosses its end.
pub const LIVES: u32 = 10;

/// And so many round trips, for laws that need some to find their window.
pub const ROUND_TRIPS: u32 = 50;

/// A path, as far as it decides how long blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathTimes {
    /// Nine in ten of its flows do not last longer.
    pub flow_life: Duration,
    pub rtt: Duration,
}

/// The lengths of blocks and of their burn-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    pub block: Duration,
    pub burn_in: Duration,
}

/// Says why blocks do not fit a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error(
        "flows of {} s are too long for an experiment: blocks would have {} h, and the longest are \
         of 12 h",
        .flow_life.as_secs_f64(), .needed.as_secs() / 3_600
    )]
    FlowsTooLong { flow_life: Duration, needed: Duration },
    #[error(
        "blocks of {} s are too short: {because} take {} s at least, {} s of burn-in included",
        .block.as_secs_f64(), .needed.as_secs_f64(), .burn_in.as_secs_f64()
    )]
    TooShort { block: Duration, burn_in: Duration, needed: Duration, because: Because },
    #[error(
        "the burn-in of {} s is less than a flow's life of {} s: flows of the block before would \
         count with those of this one",
        .burn_in.as_secs_f64(), .flow_life.as_secs_f64()
    )]
    BurnInTooShort { burn_in: Duration, flow_life: Duration },
    #[error(
        "blocks of {} s do not divide the day: take {} s",
        .block.as_secs_f64(), .instead.as_secs()
    )]
    Uneven { block: Duration, instead: Duration },
}

/// Says what a block has to have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    FlowLives,
    RoundTrips,
}

impl std::fmt::Display for Because {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::FlowLives => write!(f, "{LIVES} lives of its flows"),
            Self::RoundTrips => write!(f, "{ROUND_TRIPS} round trips"),
        }
    }
}

impl PathTimes {
    /// Returns the shortest lengths that fit.
    pub fn lengths(self) -> Result<Lengths, Unfit> {
        let burn_in = self.burn_in();
        let (counted, _) = self.counted();
        let needed = burn_in.saturating_add(counted);
        let fits = |block: &&Duration| **block >= needed;
        match LENGTHS.iter().find(fits) {
            Some(block) => Ok(Lengths { block: *block, burn_in }),
            None => Err(Unfit::FlowsTooLong { flow_life: self.flow_life, needed }),
        }
    }

    /// Says why lengths that somebody chose do not fit.
    pub fn check(self, Lengths { block, burn_in }: Lengths) -> Result<(), Unfit> {
        if burn_in < self.flow_life {
            return Err(Unfit::BurnInTooShort { burn_in, flow_life: self.flow_life });
        }
        let (counted, because) = self.counted();
        let needed = burn_in.saturating_add(counted);
        if block < needed {
            return Err(Unfit::TooShort { block, burn_in, needed, because });
        }
        if !divides_a_day(block) {
            let next = LENGTHS.into_iter().find(|length| *length > block);
            let instead = next.unwrap_or(LENGTHS[LENGTHS.len() - 1]);
            return Err(Unfit::Uneven { block, instead });
        }
        Ok(())
    }

    /// Returns how long it takes until flows of the block before are gone: a flow's life, and a
    /// round trip for the switch to be known at both ends.
    #[must_use]
    pub fn burn_in(self) -> Duration {
        self.flow_life.saturating_add(self.rtt)
    }

    fn counted(self) -> (Duration, Because) {
        let lives = self.flow_life.saturating_mul(LIVES);
        let trips = self.rtt.saturating_mul(ROUND_TRIPS);
        if lives >= trips { (lives, Because::FlowLives) } else { (trips, Because::RoundTrips) }
    }
}

/// Says whether a day has a whole number of pairs of such blocks.
fn divides_a_day(block: Duration) -> bool {
    let (day, pair) = (24 * HOUR.as_nanos(), block.as_nanos() * 2);
    pair > 0 && day.is_multiple_of(pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(life_ms: u64, rtt_ms: u64) -> PathTimes {
        PathTimes { flow_life: Duration::from_millis(life_ms), rtt: Duration::from_millis(rtt_ms) }
    }

    #[test]
    fn lengths_hold_what_they_have_to() {
        let block = |life_ms, rtt_ms| path(life_ms, rtt_ms).lengths().unwrap().block.as_secs();
        assert_eq!(block(10, 1), 60);
        assert_eq!(block(10_000, 100), 120);
        assert_eq!(block(10, 2_000), 120);
        assert_eq!(block(600_000, 100), 7_200);
    }

    #[test]
    fn what_is_found_is_good() {
        for life_ms in [0, 1, 999, 5_454, 60_000, 3_000_000] {
            for rtt_ms in [0, 1, 180, 5_000] {
                let path = path(life_ms, rtt_ms);
                assert_eq!(path.check(path.lengths().unwrap()), Ok(()), "{path:?}");
            }
        }
    }

    #[test]
    fn reasons_have_numbers() {
        let told = |path: PathTimes, block, burn_in| {
            let lengths = Lengths {
                block: Duration::from_secs(block),
                burn_in: Duration::from_secs(burn_in),
            };
            path.check(lengths).unwrap_err().to_string()
        };
        assert_eq!(
            path(2 * 3_600_000, 100).lengths().unwrap_err().to_string(),
            "flows of 7200 s are too long for an experiment: blocks would have 22 h, and the \
             longest are of 12 h"
        );
        assert_eq!(
            told(path(30_000, 100), 300, 30),
            "blocks of 300 s are too short: 10 lives of its flows take 330 s at least, 30 s of \
             burn-in included"
        );
        assert_eq!(
            told(path(100, 2_000), 60, 10),
            "blocks of 60 s are too short: 50 round trips take 110 s at least, 10 s of burn-in \
             included"
        );
        assert_eq!(
            told(path(30_000, 100), 300, 10),
            "the burn-in of 10 s is less than a flow's life of 30 s: flows of the block before \
             would count with those of this one"
        );
        assert_eq!(told(path(10, 10), 77, 1), "blocks of 77 s do not divide the day: take 120 s");
    }
}
