//! The plan of an experiment: which block it is at a time, and whether it is one with tuning.
//!
//! Two blocks, one after the other, are a pair: one with tuning, one without, whichever way a
//! coin falls that the seed decides. So each time of day, each day and each drift is in both
//! by the same amount, and what comes first is up to chance alone. Pairs begin at multiples of
//! their length since 1970, in UTC: of those that fit into an hour none crosses an hour.
//!
//! Every block begins with a burn-in that does not count, whether or not tuning is another than
//! in the block before: connections of the block before are still there, and both kinds
//! of blocks are to be alike.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_common::mixed::mixed;

use crate::differences;

/// Time since 1970, in UTC.
pub type Moment = Duration;

/// Blocks that an experiment has at most.
pub const MOST_BLOCKS: u64 = 2 * differences::MOST as u64;

/// An arm says what new connections get in a block.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The kernel's defaults, as if the path were disabled.
    Default,
    /// The path's policy.
    Tuned,
}

impl Arm {
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Default => Self::Tuned,
            Self::Tuned => Self::Default,
        }
    }
}

/// A plan decides all blocks before the first one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    seed: u64,
    /// The first block begins then.
    start: Moment,
    length: Duration,
    burn_in: Duration,
    blocks: u64,
}

/// Says why there can be no such plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPlan {
    #[error(
        "a block of {} s does not outlast its burn-in of {} s",
        .length.as_secs_f64(), .burn_in.as_secs_f64()
    )]
    BurnInTooLong { length: Duration, burn_in: Duration },
    #[error("{blocks} blocks are no experiment: it has 2 to {MOST_BLOCKS}, and an even number")]
    Blocks { blocks: u64 },
    #[error("it ends later than there are times for")]
    TooLate,
}

/// A block of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// They are counted from 0.
    pub number: u64,
    pub arm: Arm,
    pub begin: Moment,
    /// Connections that begin before this do not count.
    pub counted_from: Moment,
    /// The next one begins then.
    pub end: Moment,
}

impl Block {
    /// Returns the number of its pair.
    #[must_use]
    pub const fn pair(&self) -> u64 {
        self.number / 2
    }
}

impl Plan {
    /// Makes a plan whose first block begins as soon as a pair may, from `now` on.
    pub fn new(
        seed: u64,
        now: Moment,
        (length, burn_in): (Duration, Duration),
        blocks: u64,
    ) -> Result<Self, BadPlan> {
        let pair = length.as_nanos().saturating_mul(2).max(1);
        let start = now.as_nanos().div_ceil(pair).saturating_mul(pair);
        let start = u64::try_from(start).map_err(|_| BadPlan::TooLate)?;
        let plan = Self { seed, start: Duration::from_nanos(start), length, burn_in, blocks };
        plan.check().map(|()| plan)
    }

    /// Says what is wrong with it, as with one that was read.
    pub(crate) fn check(&self) -> Result<(), BadPlan> {
        let Self { start, length, burn_in, blocks, .. } = *self;
        if length <= burn_in {
            return Err(BadPlan::BurnInTooLong { length, burn_in });
        }
        if blocks == 0 || !blocks.is_multiple_of(2) || blocks > MOST_BLOCKS {
            return Err(BadPlan::Blocks { blocks });
        }
        // There are no more blocks than a u32 holds.
        let all = length.checked_mul(blocks as u32);
        let end = all.and_then(|all| start.checked_add(all));
        // Their times are asked for in nanoseconds of 64 bits, until 2554.
        let is_time = |end: Duration| u64::try_from(end.as_nanos()).is_ok();
        end.filter(|end| is_time(*end)).map(|_| ()).ok_or(BadPlan::TooLate)
    }

    /// Returns the seed, which decides each block's arm.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    #[must_use]
    pub const fn start(&self) -> Moment {
        self.start
    }

    #[must_use]
    pub const fn length(&self) -> Duration {
        self.length
    }

    #[must_use]
    pub const fn burn_in(&self) -> Duration {
        self.burn_in
    }

    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns when the last block ends.
    #[must_use]
    pub fn end(&self) -> Moment {
        self.begin(self.blocks)
    }

    /// Returns the block at this time; None before the first and after the last.
    #[must_use]
    pub fn block_at(&self, time: Moment) -> Option<Block> {
        let passed = time.checked_sub(self.start)?;
        let number = u64::try_from(passed.as_nanos() / self.length.as_nanos()).ok()?;
        self.block(number)
    }

    /// Returns the block of this number, if there is one.
    #[must_use]
    pub fn block(&self, number: u64) -> Option<Block> {
        let begin = (number < self.blocks).then(|| self.begin(number))?;
        Some(Block {
            number,
            arm: self.arm(number),
            begin,
            counted_from: begin + self.burn_in,
            end: self.begin(number + 1),
        })
    }

    fn begin(&self, number: u64) -> Moment {
        // No more than `blocks`, all of which end in time.
        self.start + self.length * number as u32
    }

    fn arm(&self, number: u64) -> Arm {
        let coin = mixed(mixed(self.seed) ^ mixed(number / 2)) >> 63;
        let first = if coin == 1 { Arm::Tuned } else { Arm::Default };
        if number.is_multiple_of(2) { first } else { first.other() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3_600);
    const NOW: Moment = Duration::from_secs(1_800_000_123);

    fn plan(seed: u64, minutes: u32, blocks: u64) -> Plan {
        Plan::new(seed, NOW, (MINUTE * minutes, MINUTE / 2), blocks).unwrap()
    }

    fn arms(seed: u64) -> Vec<Arm> {
        let plan = plan(seed, 5, 512);
        (0..512).map(|number| plan.block(number).unwrap().arm).collect()
    }

    /// Experiments that go on over an upgrade would change sides if these did.
    #[test]
    fn a_seed_decides_for_good() {
        let letter = |arm: &Arm| if *arm == Arm::Tuned { 't' } else { '-' };
        let letters = |seed| arms(seed)[..16].iter().map(letter).collect::<String>();
        assert_eq!([letters(0), letters(1)], ["t-t-t--t-tt--t-t", "t-t--tt-t--t-t-t"]);
    }

    #[test]
    fn hours_have_as_much_of_either() {
        let plan = plan(7, 5, 288);
        assert_eq!(plan.start().as_secs() % 600, 0);
        let mut of_hours = [[0_u32; 2]; 24];
        for number in 0..288 {
            let block = plan.block(number).unwrap();
            of_hours[(block.begin.as_secs() / HOUR.as_secs() % 24) as usize][block.arm as usize] +=
                1;
        }
        assert!(of_hours.iter().all(|[default, tuned]| default == tuned), "{of_hours:?}");
    }

    #[test]
    fn what_comes_first_is_up_to_chance() {
        let first = |seed| arms(seed).into_iter().step_by(2);
        let tuned: usize =
            (0..100).map(|seed| first(seed).filter(|arm| *arm == Arm::Tuned).count()).sum();
        // 25,600 coins, whose deviation is 80.
        assert!(tuned.abs_diff(12_800) < 320, "{tuned}");
        // And says nothing of what comes next.
        let same =
            |seed| first(seed).zip(first(seed).skip(1)).filter(|(one, next)| one == next).count();
        let same: usize = (0..100).map(same).sum();
        assert!(same.abs_diff(12_750) < 320, "{same}");
    }

    #[test]
    fn what_cannot_be_planned_is_refused() {
        let plan = |length: Duration, burn_in, blocks| Plan::new(1, NOW, (length, burn_in), blocks);
        let error = plan(MINUTE, MINUTE, 2).unwrap_err();
        assert_eq!(error.to_string(), "a block of 60 s does not outlast its burn-in of 60 s");
        for blocks in [0, 3, MOST_BLOCKS + 2] {
            assert_eq!(plan(MINUTE, Duration::ZERO, blocks), Err(BadPlan::Blocks { blocks }));
        }
        assert_eq!(plan(Duration::MAX, Duration::ZERO, 2), Err(BadPlan::TooLate));
        assert_eq!(plan(Duration::from_secs(1 << 33), Duration::ZERO, 2), Err(BadPlan::TooLate));
    }

    proptest! {
        #[test]
        fn each_time_has_one_block(seed: u64, minutes in 1_u32..720, seconds in 0_u64..40_000_000) {
            let plan = plan(seed, minutes, MOST_BLOCKS);
            let time = NOW + Duration::from_secs(seconds);
            match plan.block_at(time) {
                Some(block) => {
                    prop_assert!(block.begin <= time && time < block.end);
                    prop_assert!(block.begin < block.counted_from);
                    prop_assert!(block.counted_from < block.end);
                    prop_assert_eq!(plan.block(block.number), Some(block));
                    let other = plan.block(block.number ^ 1).unwrap();
                    prop_assert_eq!(other.arm, block.arm.other());
                    prop_assert_eq!(other.pair(), block.pair());
                }
                None => prop_assert!(time < plan.start() || time >= plan.end()),
            }
        }
    }
}
