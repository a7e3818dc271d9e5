//! Numbers and reasons of experiments, in words.

use wad_agent::evidence::{ExperimentTold, State, end_words};
use wad_evidence::{
    experiment::{Counts, Found, LeftOut},
    plan::Arm,
    verdict::{Effect, Verdict},
};
use wad_toolbox::amounts::Bytes;

/// Returns what new connections get in a block.
pub const fn arm(arm: Arm) -> &'static str {
    match arm {
        Arm::Tuned => "the policy",
        Arm::Default => "the kernel's defaults",
    }
}

/// Says how far an experiment is.
pub fn state(it: &ExperimentTold) -> String {
    match (it.state, it.ended_by, it.block) {
        (State::Ended, Some(end), _) => format!("over, as {}", end_words(end)),
        (_, _, Some(block)) => {
            let thrown = block
                .thrown
                .map_or_else(String::new, |why| format!(", which will not count: {why}"));
            format!(
                "in block {} of {}: new connections get {} until {}{thrown}",
                block.number + 1,
                it.blocks,
                arm(block.arm),
                block.ends
            )
        }
        _ => format!("waits for its next block, at {}", it.reached),
    }
}

/// Returns how many times better it is.
pub fn ratio(ratio: f64) -> String {
    if ratio >= 100.0 { format!("{ratio:.0}x") } else { format!("{ratio:.3}x") }
}

/// Returns the ratios that are possible.
pub fn possible(effect: Option<Effect>) -> String {
    let Some(Effect { least, most, .. }) = effect else { return "-".to_owned() };
    let end = |end: Option<f64>, none: &str| end.map_or_else(|| none.to_owned(), ratio);
    match (least, most) {
        (None, None) => "any".to_owned(),
        _ => format!("{} to {}", end(least, "0x"), end(most, "any")),
    }
}

/// Returns the verdict; of what shows nothing, that it does not.
pub fn verdict(found: &Found) -> String {
    found.finding.verdict.map_or_else(|| "no data".to_owned(), |verdict| verdict.to_string())
}

/// Says what more it takes to decide it.
pub fn more(found: &Found) -> String {
    match (found.finding.verdict, found.finding.more_pairs) {
        (Some(Verdict::GoOn | Verdict::Inconclusive), Some(pairs)) => format!("about {pairs}"),
        (Some(Verdict::GoOn | Verdict::Inconclusive), None) => "unknown".to_owned(),
        _ => "-".to_owned(),
    }
}

/// Returns how a metric is shown in a table.
pub fn row(found: &Found) -> [String; 7] {
    let finding = &found.finding;
    [
        found.metric.to_string(),
        verdict(found),
        finding.effect.map_or_else(|| "-".to_owned(), |effect| ratio(effect.ratio)),
        possible(finding.effect),
        format!("up to {}", ratio(found.margin)),
        finding.pairs.to_string(),
        more(found),
    ]
}

/// Returns what a metric shows of each class of sizes.
pub fn sizes(found: &Found) -> impl Iterator<Item = [String; 4]> {
    found.classes.iter().map(|class| {
        [
            found.metric.to_string(),
            Bytes(class.from_bytes).to_string(),
            ratio(class.ratio),
            class.pairs.to_string(),
        ]
    })
}

/// Says how much has been counted.
pub fn counted(counts: &Counts) -> String {
    let Counts { pairs, blocks, flows_tuned, flows_default, .. } = counts;
    format!(
        "{pairs} pairs of {blocks} blocks, with {flows_tuned} connections that got the policy and \
         {flows_default} that did not"
    )
}

/// Says what has not been counted, and why.
pub fn not_counted(counts: &Counts) -> Vec<String> {
    let thrown = counts.thrown.iter();
    let mut all: Vec<_> =
        thrown.map(|(reason, blocks)| format!("{blocks} blocks: {reason}")).collect();
    let why = |reason: LeftOut| match reason {
        LeftOut::NoBlock => "outside of all blocks",
        LeftOut::BurnIn => "begun in the burn-in",
        LeftOut::Crossed => "begun in a block before",
        LeftOut::Late => "heard of too late",
        LeftOut::OtherArm => "with something else than their block is for",
    };
    let left_out = counts.left_out.iter();
    all.extend(left_out.map(|(reason, flows)| format!("{flows} connections {}", why(*reason))));
    for (what, [tuned, default]) in left_out_by_kind(counts) {
        if tuned + default > 0 {
            all.push(format!("of those {what}, {tuned} with the policy, {default} without"));
        }
    }
    all
}

/// Returns how many connections with the policy, and how many without, one of the two may have
/// more of by what it does: those that are left are a selection then.
const fn left_out_by_kind(counts: &Counts) -> [(&str, [u64; 2]); 2] {
    let Counts { crossed_tuned, crossed_default, held_up_tuned, held_up_default, .. } = *counts;
    [
        ("begun in a block before", [crossed_tuned, crossed_default]),
        ("without goodput, as the other end held them up", [held_up_tuned, held_up_default]),
    ]
}

/// Says whether as many of one kind are left out as of the other, but for chance.
pub fn are_alike(counts: &Counts) -> bool {
    left_out_by_kind(counts).iter().all(|(_, [tuned, default])| !is_uneven(*tuned, *default))
}

/// Says how sure it is.
pub fn sure(it: &ExperimentTold) -> String {
    format!(
        "Any of these verdicts is wrong with a probability of {} at most, however often somebody \
         looked.",
        it.alpha
    )
}

/// Says what the numbers cannot tell, as far as it is of this experiment.
pub fn doubts(it: &ExperimentTold) -> Vec<String> {
    let uneven = left_out_by_kind(&it.counts)
        .into_iter()
        .filter(|(_, [tuned, default])| is_uneven(*tuned, *default));
    let mut doubts: Vec<_> = uneven
        .map(|(what, [tuned, default])| {
            format!(
                "Connections {what}: {tuned} with the policy, and {default} without. What is left \
                 of the two kinds is not alike, so part of an effect may be one of choice."
            )
        })
        .collect();
    if it.neighbours.is_empty() {
        doubts.push(
            "Whether others on the same way are harmed is not known: the experiment has no \
             `neighbours`."
                .to_owned(),
        );
    }
    doubts.push(
        "It tells of new connections that have ended, as the path was at that time: not of those \
         that last for longer, and not why."
            .to_owned(),
    );
    doubts
}

/// Says whether two counts are further apart than chance has them: by three deviations of a
/// fair coin.
fn is_uneven(one: u64, other: u64) -> bool {
    let (one, other) = (one as f64, other as f64);
    (one - other).abs() > 3.0 * (one + other).sqrt().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_may_have_no_end() {
        let effect = |least, most| Some(Effect { ratio: 2.0, least, most });
        assert_eq!(possible(None), "-");
        assert_eq!(possible(effect(None, None)), "any");
        assert_eq!(possible(effect(Some(1.5), None)), "1.500x to any");
        assert_eq!(possible(effect(Some(1.5), Some(250.0))), "1.500x to 250x");
    }

    #[test]
    fn chance_makes_no_doubts() {
        assert!(!is_uneven(0, 0) && !is_uneven(2, 0) && !is_uneven(55, 45));
        assert!(is_uneven(100, 20) && is_uneven(20, 100));
    }
}
