//! Counts of what an experiment took, and of what it left out and why.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    metric::{FlowEnd, Kind},
    plan::Arm,
    tally::Tally,
    watch::Interruption,
};

/// Says why a flow does not count.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LeftOut {
    /// There is no block: it has not begun, or is over.
    NoBlock,
    /// It began in the burn-in.
    BurnIn,
    /// It began in a block before, so it is of neither.
    Crossed,
    /// It was heard of after its block had been counted.
    Late,
    /// It got something else than its block is for, as when it was made while that changed.
    OtherArm,
}

/// Counts of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    pub pairs: u64,
    /// Blocks that count.
    pub blocks: u64,
    /// Blocks that do not, by reason.
    pub thrown: BTreeMap<Interruption, u64>,
    /// The flows of the blocks that count.
    pub flows_tuned: u64,
    pub flows_default: u64,
    /// Flows that do not count, by reason.
    pub left_out: BTreeMap<LeftOut, u64>,
    /// The path's own that crossed, by what they got. Far more of one kind than of the other say
    /// that what is left of the others is not like them any more.
    pub crossed_tuned: u64,
    pub crossed_default: u64,
    /// The path's own that count, but show no goodput, as the other end's window held them up, by
    /// what they got. It is the same with these.
    pub held_up_tuned: u64,
    pub held_up_default: u64,
}

/// No count that was kept is greater: programs have so many numbers that read JSON, and sums of
/// some are numbers, too.
const MOST: u64 = 1 << 53;

/// Counts stay at their greatest.
const fn add(count: &mut u64, more: u64) {
    *count = count.saturating_add(more);
}

impl Counts {
    /// Says whether all of them can be.
    pub(super) fn can_be(&self) -> bool {
        let Self { pairs, blocks, thrown, flows_tuned, flows_default, left_out, .. } = self;
        let Self { crossed_tuned, crossed_default, held_up_tuned, held_up_default, .. } = self;
        let flows = [flows_tuned, flows_default, crossed_tuned, crossed_default];
        let all = flows.into_iter().chain([pairs, blocks, held_up_tuned, held_up_default]);
        let mut all = all.chain(thrown.values()).chain(left_out.values());
        all.all(|count| *count <= MOST)
    }

    pub(super) fn count_pair(&mut self) {
        add(&mut self.pairs, 1);
    }

    /// Counts a block with what it has shown.
    pub(super) fn count(&mut self, arm: Arm, tally: &Tally) {
        add(&mut self.blocks, 1);
        let (flows, held_up) = match arm {
            Arm::Tuned => (&mut self.flows_tuned, &mut self.held_up_tuned),
            Arm::Default => (&mut self.flows_default, &mut self.held_up_default),
        };
        add(flows, tally.flows());
        add(held_up, tally.held_up());
    }

    pub(super) fn throw(&mut self, reason: Interruption) {
        add(self.thrown.entry(reason).or_default(), 1);
    }

    pub(super) fn leave_out(&mut self, reason: LeftOut, flow: &FlowEnd) {
        add(self.left_out.entry(reason).or_default(), 1);
        match (reason, flow.kind) {
            (LeftOut::Crossed, Kind::Own(Arm::Tuned)) => add(&mut self.crossed_tuned, 1),
            (LeftOut::Crossed, Kind::Own(Arm::Default)) => add(&mut self.crossed_default, 1),
            _ => {}
        }
    }
}
