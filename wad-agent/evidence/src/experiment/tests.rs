use std::{collections::BTreeSet, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::{
    differences,
    metric::{Measure, Whose},
    saved,
};

const SECOND: Duration = Duration::from_secs(1);
const LENGTH: u32 = 300;

fn settings(ends_by_verdict: bool) -> Settings {
    let now = SECOND * 1_800_000_000;
    let plan = Plan::new(7, now, (SECOND * LENGTH, SECOND * 30), 48).unwrap();
    Settings { plan, alpha: 0.05, ends_by_verdict }
}

/// A host, as far as it has clocks.
#[derive(Clone)]
struct Host {
    clocks: Clocks,
    news: Vec<News>,
    experiment: Experiment,
    /// The blocks that something happened in.
    interrupted: BTreeSet<u64>,
    /// The wall clock was set by so much since the last look: there and back again is nothing.
    set_by_seconds: i64,
}

impl Host {
    fn new(settings: Settings) -> Self {
        let clocks = Clocks {
            wall: settings.plan.start() - SECOND * 5,
            since_boot: SECOND * 5_000,
            awake: SECOND * 4_000,
        };
        let experiment = Experiment::new(settings);
        let interrupted = BTreeSet::new();
        Self { clocks, news: Vec::new(), experiment, interrupted, set_by_seconds: 0 }
    }

    fn look(&mut self) {
        if std::mem::take(&mut self.set_by_seconds).abs() > 1 {
            self.interrupt();
        }
        self.news.extend(self.experiment.look(self.clocks));
    }

    /// Lets so many seconds pass, with a look at every fifth. In each of these a flow has ended
    /// that took 2 s, at this rate with tuning and at that one without.
    fn pass(&mut self, seconds: u32, rates: [f64; 2]) {
        for second in 0..seconds {
            self.clocks.wall += SECOND;
            self.clocks.since_boot += SECOND;
            self.clocks.awake += SECOND;
            if second % 5 == 4 {
                self.look();
                let arm = self.experiment.arm(self.clocks.wall - SECOND * 2);
                let flow = flow(self.clocks.wall, arm, rates[(arm == Arm::Default) as usize]);
                self.experiment.flow_ended(&flow);
            }
        }
    }

    fn counted(&self) -> Vec<u64> {
        let counted = self.news.iter().filter_map(|news| match news {
            News::Counted { block, .. } => Some(*block),
            _ => None,
        });
        counted.collect()
    }

    fn thrown(&self) -> Vec<(u64, Interruption)> {
        let thrown = self.news.iter().filter_map(|news| match news {
            News::Thrown { block, reason } => Some((*block, *reason)),
            _ => None,
        });
        thrown.collect()
    }

    fn restart(&mut self) {
        self.experiment = saved::read::<Experiment>(&saved::text(&self.experiment)).unwrap();
    }
}

fn flow(ended: Moment, arm: Arm, bytes_per_second: f64) -> FlowEnd {
    let bytes = (2.0 * bytes_per_second) as u64;
    FlowEnd {
        kind: Kind::Own(arm),
        began: ended - SECOND * 2,
        ended,
        bytes_acked: bytes,
        bytes_sent: bytes,
        bytes_resent: 0,
        active: SECOND * 2,
        srtt: SECOND / 20,
        min_rtt: SECOND / 25,
        held_up: 0.0,
        mss_bytes: 1_448,
    }
}

const FAST: [f64; 2] = [2e6, 1e6];

fn goodput(experiment: &Experiment) -> Finding {
    let found = experiment.found();
    let is_goodput =
        |found: &&Found| found.metric == Metric { whose: Whose::Own, measure: Measure::Goodput };
    found.iter().find(is_goodput).unwrap().finding
}

#[test]
fn twice_as_fast_is_better_and_ends_it() {
    let mut host = Host::new(settings(true));
    host.pass(LENGTH * 48 + 60, FAST);
    let finding = goodput(&host.experiment);
    assert_eq!((finding.verdict, finding.pairs), (Some(Verdict::Better), 10));
    let ratio = finding.effect.unwrap().ratio;
    assert!((ratio - 2.0).abs() < 1e-9, "{ratio}");
    assert_eq!(host.experiment.end(), Some(End::Verdict));
    assert_eq!(host.experiment.arm(host.experiment.settings().plan.start()), Arm::Tuned);
    let counts = host.experiment.counts();
    assert_eq!((counts.blocks, counts.pairs, counts.thrown.len()), (20, 10, 0));
    // 54 of a block's 60 are after the burn-in, but for one that began in it.
    assert_eq!(counts.flows_tuned, counts.flows_default);
    assert!(counts.left_out[&LeftOut::BurnIn] >= 20 * 6, "{counts:?}");
    assert!(counts.left_out[&LeftOut::Crossed] >= 19, "{counts:?}");
}

#[test]
fn its_time_ends_it_and_what_is_open_then_stays_so() {
    let mut host = Host::new(settings(true));
    host.pass(5, FAST);
    // One pair is for tuning, and the next against it.
    (0..12).for_each(|_| [FAST, [1e6, 2e6]].iter().for_each(|it| host.pass(LENGTH * 2, *it)));
    assert_eq!(host.counted(), (0..48).collect::<Vec<_>>());
    assert_eq!(host.experiment.end(), Some(End::Time));
    assert_eq!(host.news.last(), Some(&News::Ended(End::Time)));
    assert_eq!(goodput(&host.experiment).verdict, Some(Verdict::Inconclusive));
    let none = host.experiment.found().into_iter().find(|it| it.metric.whose == Whose::Neighbours);
    assert_eq!(none.unwrap().finding.verdict, None, "there was none of them");
}

#[test]
fn nothing_but_the_same_is_equal() {
    let mut host = Host::new(settings(true));
    host.pass(LENGTH * 48, [1e6, 1e6]);
    let finding = goodput(&host.experiment);
    assert_eq!((finding.verdict, finding.pairs), (Some(Verdict::Equal), 10));
}

#[test]
fn blocks_that_were_interrupted_are_thrown_away_and_their_pairs_do_not_count() {
    let mut host = Host::new(settings(false));
    host.pass(5 + 5 * LENGTH + 100, FAST);
    // In block 5: the clock is set.
    host.clocks.wall += SECOND * 3;
    host.pass(LENGTH, FAST);
    // In block 6: suspended for three blocks.
    host.clocks.wall += SECOND * LENGTH * 3;
    host.clocks.since_boot += SECOND * LENGTH * 3;
    host.pass(LENGTH, FAST);
    // In block 10: nobody looks for a minute.
    let passed = SECOND * 60;
    host.clocks.wall += passed;
    host.clocks.since_boot += passed;
    host.clocks.awake += passed;
    host.pass(LENGTH, FAST);
    // In block 11, a restart; and in block 12 one with a reboot.
    host.restart();
    host.pass(LENGTH, FAST);
    host.restart();
    host.clocks.since_boot = SECOND * 20;
    host.clocks.awake = SECOND * 20;
    host.pass(2 * LENGTH, FAST);
    use Interruption::{ClockSet, Restarted, Suspended, Unwatched};
    let thrown = [
        (5, ClockSet),
        (6, Suspended),
        (7, Suspended),
        (8, Suspended),
        (9, Suspended),
        (10, Unwatched),
        (11, Restarted),
        (12, Restarted),
    ];
    assert_eq!(host.thrown(), thrown);
    assert_eq!(host.counted(), [0, 1, 2, 3, 4, 13]);
    let counts = host.experiment.counts();
    assert_eq!((counts.pairs, counts.blocks, counts.thrown.values().sum::<u64>()), (2, 6, 8));
}

#[test]
fn a_block_that_is_lost_goes_on_to_its_end_and_counts_for_nothing() {
    let mut host = Host::new(settings(false));
    host.pass(5 + 100, FAST);
    let (block, _) = host.experiment.open().unwrap();
    host.restart();
    assert_eq!(host.experiment.open(), None);
    host.news.clear();
    host.look();
    // New connections get what it is for, and whoever asks is told so.
    assert_eq!(host.news, [News::Began(block)]);
    assert_eq!(host.experiment.open(), Some((block, Some(Interruption::Restarted))));
    host.restart();
    host.pass(LENGTH, FAST);
    assert_eq!(host.thrown(), [(0, Interruption::Restarted)], "once, however often");
    assert_eq!((host.counted(), host.experiment.counts().blocks), (vec![], 0));
}

#[test]
fn flows_that_were_held_up_count_with_their_block() {
    let mut host = Host::new(settings(false));
    let hold_up = |host: &mut Host| {
        let now = host.clocks.wall;
        let arm = host.experiment.arm(now);
        let held_up = FlowEnd { held_up: 0.5, ..flow(now, arm, 1e6) };
        assert_eq!(host.experiment.flow_ended(&held_up), None);
    };
    host.pass(5 + 100, FAST);
    hold_up(&mut host);
    host.pass(LENGTH, FAST);
    hold_up(&mut host);
    // The second block is thrown away.
    host.clocks.wall += SECOND * 3;
    host.pass(LENGTH, FAST);
    let counts = host.experiment.counts();
    assert_eq!((counts.blocks, counts.held_up_tuned + counts.held_up_default), (1, 1));
}

#[test]
fn a_block_in_which_the_policy_was_held_back_does_not_count() {
    let mut host = Host::new(settings(false));
    host.pass(LENGTH + 50, FAST);
    host.experiment.spoil(Interruption::HeldBack);
    host.pass(2 * LENGTH, FAST);
    assert_eq!(host.thrown(), [(1, Interruption::HeldBack)]);
    assert_eq!(host.counted(), [0, 2]);
}

#[test]
fn a_block_that_comes_again_does_not_count_twice() {
    let mut host = Host::new(settings(false));
    host.pass(5 + 3 * LENGTH + 100, FAST);
    host.clocks.wall -= SECOND * LENGTH * 2;
    host.pass(4 * LENGTH, FAST);
    assert_eq!(host.counted(), [0, 1, 2, 4]);
    assert_eq!(host.thrown(), [(3, Interruption::ClockSet)]);
    assert!(host.experiment.counts().left_out[&LeftOut::NoBlock] > 50);
}

#[test]
fn flows_that_got_something_else_are_left_out() {
    let mut host = Host::new(settings(false));
    host.pass(5 + 100, FAST);
    let now = host.clocks.wall;
    let arm = host.experiment.arm(now);
    let mut left_out = |flow| host.experiment.flow_ended(&flow);
    assert_eq!(left_out(flow(now, arm, 1e6)), None);
    assert_eq!(left_out(flow(now, arm.other(), 1e6)), Some(LeftOut::OtherArm));
    assert_eq!(left_out(FlowEnd { kind: Kind::Neighbour, ..flow(now, arm, 1e6) }), None);
    assert_eq!(left_out(flow(now - SECOND * 90, arm, 1e6)), Some(LeftOut::BurnIn));
    assert_eq!(left_out(flow(now - SECOND * 100, arm, 1e6)), Some(LeftOut::Crossed));
    assert_eq!(left_out(flow(now + SECOND * 250, arm, 1e6)), Some(LeftOut::Late));
}

#[test]
fn a_switch_that_comes_late_is_no_block() {
    let mut host = Host::new(settings(false));
    host.look();
    let late = SECOND * 29;
    (host.clocks.since_boot, host.clocks.awake) =
        (host.clocks.since_boot + late, host.clocks.awake + late);
    host.clocks.wall += late;
    host.look();
    host.pass(LENGTH, FAST);
    assert_eq!(host.thrown(), [], "the burn-in was not over");
    let mut host = Host::new(settings(false));
    host.clocks.wall += SECOND * 60;
    host.pass(LENGTH, FAST);
    assert_eq!(host.thrown(), [(0, Interruption::Unwatched)]);
}

#[test]
fn what_is_kept_goes_on_as_if_nothing_had_been() {
    let mut host = Host::new(settings(false));
    host.pass(5 + 9 * LENGTH, FAST);
    let mut other = host.clone();
    other.restart();
    let open = other.experiment.clone();
    assert_eq!(open, saved::read::<Experiment>(&saved::text(&open)).unwrap());
    assert_eq!(goodput(&host.experiment), goodput(&other.experiment));
    for host in [&mut host, &mut other] {
        host.pass(10 * LENGTH, FAST);
    }
    // The open block is lost, and the pair that it was of.
    let (pairs, others) = (host.experiment.counts().pairs, other.experiment.counts().pairs);
    assert_eq!((pairs, others), (9, 8));
    assert_eq!(goodput(&other.experiment).pairs, 8);
}

#[test]
fn what_cannot_have_been_kept_is_refused() {
    let experiment = Experiment::new(settings(false));
    let text = String::from_utf8(saved::text(&experiment)).unwrap();
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} is not in {text}");
        saved::read::<Experiment>(text.replacen(from, to, 1).as_bytes()).is_err()
    };
    assert!(!refused("\"blocks\":48", "\"blocks\":46"));
    assert!(refused("\"blocks\":48", "\"blocks\":47"));
    assert!(refused("\"alpha\":0.05", "\"alpha\":5"));
    assert!(refused("\"differences\":[]", "\"differences\":[1e999]"));
    assert!(!refused("\"differences\":[]", "\"differences\":[7e2]"));
    assert!(refused("\"differences\":[]", "\"differences\":[-7.1e2]"));
    assert!(refused("\"counts\":{\"pairs\":0", "\"counts\":{\"pairs\":9007199254740993"));
    assert!(refused("\"resent\"", "\"goodput\""));
    assert!(refused("\"done\"", "\"undone\""));
}

#[test]
fn the_longest_is_kept_within_the_bound() {
    let mut experiment = Experiment::new(settings(false));
    for judged in &mut experiment.judged {
        for n in 0..differences::MOST {
            judged.series.add(-1e-5 / (n as f64 + 3.7));
        }
    }
    let text = saved::text(&experiment);
    assert!(text.len() > 600_000, "{}", text.len());
    let read = saved::read::<Experiment>(&text).unwrap();
    assert_eq!(read.judged, experiment.judged);
}

/// Things that may happen to a host, for so many seconds.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Nothing(u32),
    ClockForward(u32),
    ClockBack(u32),
    Suspended(u32),
    Unwatched(u32),
    Restart,
    /// The agent is killed, and comes again after so long.
    Killed(u32),
}

fn happening() -> impl Strategy<Value = Happening> {
    let seconds = || 1..3 * LENGTH;
    prop_oneof![
        6 => seconds().prop_map(Happening::Nothing),
        1 => seconds().prop_map(Happening::ClockForward),
        1 => seconds().prop_map(Happening::ClockBack),
        1 => seconds().prop_map(Happening::Suspended),
        1 => seconds().prop_map(Happening::Unwatched),
        1 => Just(Happening::Restart),
        1 => (0..9 * LENGTH).prop_map(Happening::Killed),
    ]
}

impl Happening {
    /// Says whether it is long enough to be seen, between looks that are 5 s apart.
    fn interrupts(self) -> bool {
        match self {
            // It depends on how far it is set until the next look.
            Self::Nothing(_) | Self::ClockForward(_) | Self::ClockBack(_) => false,
            Self::Suspended(seconds) => seconds > 1,
            Self::Unwatched(seconds) => seconds > 30,
            Self::Restart | Self::Killed(_) => true,
        }
    }
}

impl Host {
    fn interrupt(&mut self) {
        let open = self.experiment.open.as_ref();
        self.interrupted.extend(open.map(|open| open.block.number));
    }

    fn undergo(&mut self, happening: Happening) {
        if happening.interrupts() {
            self.interrupt();
        }
        let Clocks { wall, since_boot, awake } = &mut self.clocks;
        match happening {
            Happening::Nothing(seconds) => self.pass(seconds, FAST),
            Happening::ClockForward(seconds) => {
                *wall += SECOND * seconds;
                self.set_by_seconds += i64::from(seconds);
            }
            Happening::ClockBack(seconds) => {
                *wall -= SECOND * seconds;
                self.set_by_seconds -= i64::from(seconds);
            }
            Happening::Suspended(seconds) => {
                *wall += SECOND * seconds;
                *since_boot += SECOND * seconds;
            }
            Happening::Unwatched(seconds) => {
                *wall += SECOND * seconds;
                *since_boot += SECOND * seconds;
                *awake += SECOND * seconds;
            }
            Happening::Restart => self.restart(),
            Happening::Killed(seconds) => {
                *wall += SECOND * seconds;
                (*since_boot, *awake) = (SECOND, SECOND);
                self.restart();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_block_counts_once_or_is_thrown_away(
        happenings in prop::collection::vec(happening(), 1..40),
    ) {
        let mut host = Host::new(settings(false));
        for happening in happenings {
            host.undergo(happening);
        }
        host.pass(49 * LENGTH, FAST);
        host.pass(49 * LENGTH, FAST);
        let counts = host.experiment.counts().clone();
        let (counted, thrown) = (host.counted(), host.thrown());
        let over: Vec<_> = counted.iter().copied().chain(thrown.iter().map(|it| it.0)).collect();
        let once: BTreeSet<_> = over.iter().copied().collect();
        prop_assert_eq!(over.len(), once.len(), "{:?}", host.news);
        prop_assert_eq!(once, (0..48).collect());
        prop_assert!(counted.iter().all(|block| !host.interrupted.contains(block)));
        prop_assert_eq!(counts.blocks, counted.len() as u64);
        prop_assert_eq!(counts.thrown.values().sum::<u64>(), thrown.len() as u64);
        let is_whole = |block: &&u64| **block % 2 == 1 && counted.contains(&(**block - 1));
        prop_assert_eq!(counts.pairs, counted.iter().filter(is_whole).count() as u64);
        // Where it was, whatever happened: twice as fast.
        if let Some(effect) = goodput(&host.experiment).effect {
            prop_assert!((effect.ratio - 2.0).abs() < 1e-9);
        }
        prop_assert_eq!(host.experiment.end(), Some(End::Time));
    }
}
