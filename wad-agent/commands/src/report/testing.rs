//! An experiment for tests.

use jiff::{SignedDuration, Timestamp};
use wad_agent::evidence::{Begun, BlockTold, ExperimentTold, State};
use wad_evidence::{
    experiment::{ClassFound, Counts, Found, LeftOut},
    metric::{Measure, Metric, Whose},
    plan::Arm,
    verdict::{Effect, Finding, Verdict},
    watch::Interruption,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn found(measure: Measure, verdict: Verdict, effect: Effect) -> Found {
    let settled = verdict != Verdict::GoOn;
    Found {
        metric: Metric { whose: Whose::Own, measure },
        margin: if measure == Measure::Goodput { 1.05 } else { 1.25 },
        finding: Finding {
            verdict: Some(verdict),
            since_pairs: settled.then_some(12),
            effect: Some(effect),
            pairs: 18,
            more_pairs: None,
        },
        classes: Vec::new(),
    }
}

/// Returns one that goes on, of which two metrics are told.
pub fn told() -> ExperimentTold {
    let better = Effect { ratio: 2.01, least: Some(1.8), most: Some(2.2) };
    let open = Effect { ratio: 0.9, least: None, most: None };
    let class = ClassFound { from_bytes: 1 << 20, pairs: 18, ratio: 2.0 };
    let goodput = found(Measure::Goodput, Verdict::Better, better);
    ExperimentTold {
        path: "bob".to_owned(),
        begun: Begun::ByFile,
        state: State::Runs,
        ended_by: None,
        subject: "remote 10.0.0.0/8; sndbuf 4.0 MiB".to_owned(),
        seed: 7,
        begins: at(0),
        reached: at(3_600),
        ends: at(7 * 86_400),
        ends_by_verdict: false,
        block_seconds: 120.0,
        burn_in_seconds: 10.1,
        blocks: 5_040,
        alpha: 0.05,
        neighbours: Vec::new(),
        block: Some(BlockTold {
            number: 37,
            arm: Arm::Default,
            begins: at(0),
            ends: at(120),
            thrown: None,
        }),
        counts: Counts {
            pairs: 18,
            blocks: 37,
            thrown: [(Interruption::Restarted, 1)].into(),
            flows_tuned: 370,
            flows_default: 369,
            left_out: [(LeftOut::Crossed, 90)].into(),
            crossed_tuned: 70,
            crossed_default: 20,
            held_up_tuned: 0,
            held_up_default: 0,
        },
        found: vec![
            Found { classes: vec![class], ..goodput },
            found(Measure::Resent, Verdict::GoOn, open),
        ],
    }
}
