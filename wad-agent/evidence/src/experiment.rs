//! An experiment on a path: it goes from block to block, and has a verdict on each metric.
//!
//! Whoever keeps it looks at it when a block begins and at least every [`LONGEST_GAP`], hands it
//! each flow that has ended before the next look, gives new connections its [`Experiment::arm`],
//! and keeps it after each look that has news.
//!
//! [`LONGEST_GAP`]: crate::watch::LONGEST_GAP

mod counts;
mod raw;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::counts::{Counts, LeftOut};
use crate::{
    metric::{CLASSES, FlowEnd, Kind, METRICS, Metric},
    plan::{Arm, Block, Moment, Plan},
    tally::{Tally, by_class, difference},
    verdict::{Finding, Series, Verdict},
    watch::{Clocks, Interruption, Watch},
};

/// Settings of an experiment, which stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub plan: Plan,
    /// The probability, at most, that any verdict of it is wrong.
    pub alpha: f64,
    /// It ends when there is a verdict on its first metric.
    pub ends_by_verdict: bool,
}

/// News of an experiment, in the order in which they happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum News {
    /// New connections get its arm from now on.
    Began(Block),
    /// A block was watched to its end, and had so many flows that count.
    Counted {
        block: u64,
        arm: Arm,
        flows: u64,
    },
    /// A block counts for nothing.
    Thrown {
        block: u64,
        reason: Interruption,
    },
    /// There is a verdict, and it stands.
    Settled {
        metric: Metric,
        verdict: Verdict,
        pairs: usize,
    },
    Ended(End),
}

/// Says how an experiment came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// All its blocks are over.
    Time,
    Verdict,
    /// Somebody ended it.
    Hand,
}

/// The flows of a class of sizes, over all pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfClass {
    /// So many pairs had flows of it in both blocks.
    pairs: u64,
    sum: f64,
    weights: f64,
}

impl OfClass {
    fn found(&self, from_bytes: u64) -> Option<ClassFound> {
        let ratio = (self.sum / self.weights).exp();
        (self.pairs > 0).then_some(ClassFound { from_bytes, pairs: self.pairs, ratio })
    }
}

/// A metric with what is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    #[serde(flatten)]
    pub metric: Metric,
    /// Ratios up to this either way count as none.
    pub margin: f64,
    #[serde(flatten)]
    pub finding: Finding,
    /// The classes of sizes that flows of both kinds were in; a metric that has none is of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassFound>,
}

/// Flows of about the same size, compared. It is shown, and not judged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassFound {
    /// They carried so much at least.
    pub from_bytes: u64,
    /// So many pairs had flows of it in both blocks.
    pub pairs: u64,
    /// It is so many times better with tuning; less than 1 is worse.
    pub ratio: f64,
}

/// An experiment. Of one that was kept and is read, the blocks from the last one that was over
/// until it is looked at count for nothing; the one that goes on then is gone through to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "raw::Raw", into = "raw::Raw")]
pub struct Experiment {
    settings: Settings,
    watch: Watch,
    /// It was read, and nobody has looked at it since.
    is_resumed: bool,
    /// The block that was open when it was kept.
    lost: Option<u64>,
    /// The blocks before this one are over.
    done: u64,
    open: Option<Open>,
    /// The first block of a pair, if it counts, until the second is over.
    first: Option<(u64, Tally)>,
    judged: Vec<Judged>,
    counts: Counts,
    end: Option<End>,
}

#[derive(Clone, Debug, PartialEq)]
struct Open {
    block: Block,
    tally: Tally,
    spoiled: Option<Interruption>,
}

#[derive(Clone, Debug, PartialEq)]
struct Judged {
    metric: Metric,
    series: Series,
    classes: [OfClass; CLASSES.len()],
}

impl Experiment {
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let judged = METRICS.iter().map(|row| Judged {
            metric: row.metric,
            series: Series::new(row.question(settings.alpha)),
            classes: Default::default(),
        });
        Self {
            settings,
            watch: Watch::default(),
            is_resumed: false,
            lost: None,
            done: 0,
            open: None,
            first: None,
            judged: judged.collect(),
            counts: Counts::default(),
            end: None,
        }
    }

    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    #[must_use]
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// Returns the verdict on the metric that it is about, once it stands.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        self.judged.first().and_then(|first| first.series.settled())
    }

    /// Returns what new connections get at this time: before and after the experiment, the path's
    /// policy.
    #[must_use]
    pub fn arm(&self, now: Moment) -> Arm {
        let block = self.settings.plan.block_at(now).filter(|_| self.end.is_none());
        block.map_or(Arm::Tuned, |block| block.arm)
    }

    /// Returns when the next block begins, or the last one ends: it is to be looked at then.
    #[must_use]
    pub fn next_look(&self, now: Moment) -> Option<Moment> {
        let plan = &self.settings.plan;
        let next = plan.block_at(now).map(|block| block.end);
        next.or_else(|| (now < plan.start()).then(|| plan.start())).filter(|_| self.end.is_none())
    }

    /// Returns the block that is open, and why it will count for nothing, if that is known.
    #[must_use]
    pub fn open(&self) -> Option<(Block, Option<Interruption>)> {
        self.open.as_ref().map(|open| (open.block, open.spoiled))
    }

    /// Returns when the last of the blocks ended that are over.
    #[must_use]
    pub fn reached(&self) -> Moment {
        let plan = &self.settings.plan;
        plan.block(self.done).map_or_else(|| plan.end(), |next| next.begin)
    }

    /// Looks at the clocks.
    pub fn look(&mut self, now: Clocks) -> Vec<News> {
        let mut news = Vec::new();
        if self.end.is_some() {
            return news;
        }
        let restarted = std::mem::take(&mut self.is_resumed).then_some(Interruption::Restarted);
        let interruption = self.watch.look(now).or(restarted);
        let plan = self.settings.plan;
        let current = plan.block_at(now.wall);
        let is_before = now.wall < plan.start();
        let number = current.map_or(if is_before { 0 } else { plan.blocks() }, |it| it.number);

        if let Some(open) = &mut self.open {
            open.spoiled = open.spoiled.or(interruption);
        }
        if let Some(open) = self.open.take_if(|open| open.block.number != number) {
            self.close(open, &mut news);
        }
        // One that still goes on is open again below, spoiled.
        let goes_on = |lost: u64| current.is_some_and(|block| block.number == lost);
        if let Some(lost) = self.lost.take().filter(|lost| !goes_on(*lost)) {
            self.throw(lost, Interruption::Restarted, &mut news);
            self.done = self.done.max(lost + 1);
        }
        // Nobody has seen these begin.
        for block in self.done..number {
            self.throw(block, interruption.unwrap_or(Interruption::Unwatched), &mut news);
        }
        self.done = self.done.max(number);
        if self.end.is_none() && number >= plan.blocks() {
            self.end_by(End::Time, &mut news);
        }
        // Where the clock was set back, a block may come again that is over.
        if let Some(block) = current.filter(|block| block.number >= self.done)
            && self.open.is_none()
            && self.end.is_none()
        {
            let is_late = now.wall > block.counted_from;
            let spoiled = interruption.or(is_late.then_some(Interruption::Unwatched));
            self.open = Some(Open { block, tally: Tally::default(), spoiled });
            news.push(News::Began(block));
        }
        news
    }

    /// The block that is open counts for nothing, for this reason.
    pub fn spoil(&mut self, reason: Interruption) {
        if let Some(open) = &mut self.open {
            open.spoiled.get_or_insert(reason);
        }
    }

    /// Takes a flow that has ended. Says why it does not count, if so.
    pub fn flow_ended(&mut self, flow: &FlowEnd) -> Option<LeftOut> {
        if self.end.is_some() {
            return None;
        }
        let left_out = self.left_out(flow);
        match (left_out, &mut self.open) {
            (None, Some(open)) => open.tally.add(flow),
            _ => self.counts.leave_out(left_out.unwrap_or(LeftOut::NoBlock), flow),
        }
        left_out
    }

    fn left_out(&self, flow: &FlowEnd) -> Option<LeftOut> {
        let Some(Open { block, .. }) = &self.open else { return Some(LeftOut::NoBlock) };
        let is_other = |arm| arm != block.arm;
        if flow.began < block.begin {
            Some(LeftOut::Crossed)
        } else if flow.began < block.counted_from {
            Some(LeftOut::BurnIn)
        } else if flow.ended > block.end {
            Some(LeftOut::Late)
        } else if matches!(flow.kind, Kind::Own(arm) if is_other(arm)) {
            Some(LeftOut::OtherArm)
        } else {
            None
        }
    }

    /// Ends it by hand. The block that is open counts for nothing.
    pub fn stop(&mut self) -> Vec<News> {
        let mut news = Vec::new();
        if self.end.is_none() {
            self.end_by(End::Hand, &mut news);
        }
        news
    }

    fn end_by(&mut self, end: End, news: &mut Vec<News>) {
        self.end = Some(end);
        self.open = None;
        self.first = None;
        news.push(News::Ended(end));
    }

    fn close(&mut self, open: Open, news: &mut Vec<News>) {
        let Open { block, tally, spoiled } = open;
        self.done = self.done.max(block.number + 1);
        if let Some(reason) = spoiled {
            self.throw(block.number, reason, news);
            return;
        }
        let flows = tally.flows();
        self.counts.count(block.arm, &tally);
        news.push(News::Counted { block: block.number, arm: block.arm, flows });
        match self.first.take() {
            Some((first, before)) if first ^ 1 == block.number => {
                let (tuned, default) =
                    if block.arm == Arm::Tuned { (tally, before) } else { (before, tally) };
                self.add_pair(&tuned, &default, news);
            }
            _ => self.first = block.number.is_multiple_of(2).then_some((block.number, tally)),
        }
    }

    fn throw(&mut self, block: u64, reason: Interruption, news: &mut Vec<News>) {
        self.counts.throw(reason);
        news.push(News::Thrown { block, reason });
    }

    fn add_pair(&mut self, tuned: &Tally, default: &Tally, news: &mut Vec<News>) {
        self.counts.count_pair();
        for judged in &mut self.judged {
            let metric = judged.metric;
            let Some(difference) = difference(metric, tuned, default) else { continue };
            let classes = by_class(metric, tuned, default);
            for (all, compared) in judged.classes.iter_mut().zip(classes.into_iter().flatten()) {
                if let Some(compared) = compared {
                    all.pairs = all.pairs.saturating_add(1);
                    let sign = if metric.measure.is_gain() { 1.0 } else { -1.0 };
                    all.sum += sign * compared.weight * compared.difference;
                    all.weights += compared.weight;
                }
            }
            if let Some(verdict) = judged.series.add(difference) {
                let pairs = judged.series.differences().len();
                news.push(News::Settled { metric, verdict, pairs });
            }
        }
        if self.settings.ends_by_verdict && self.verdict().is_some() {
            self.end_by(End::Verdict, news);
        }
    }

    /// Returns what is known of each metric.
    #[must_use]
    pub fn found(&self) -> Vec<Found> {
        let found = |judged: &Judged| {
            let classes = judged.classes.iter().zip(CLASSES);
            Found {
                metric: judged.metric,
                margin: judged.series.question().margin_ln.exp(),
                finding: judged.series.finding(self.end.is_some()),
                classes: classes.filter_map(|(of, from)| of.found(from)).collect(),
            }
        };
        self.judged.iter().map(found).collect()
    }
}

#[cfg(test)]
mod tests;
