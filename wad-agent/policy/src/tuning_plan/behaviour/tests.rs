use proptest::prelude::*;

use super::*;

const STALE_AFTER: Duration = Duration::from_secs(3_600);
const LOOK: Duration = Duration::from_secs(30);
/// The RTTs of a path of 40 ms, without a queue and with one.
const EMPTY_US: u32 = 41_000;
const QUEUED_US: u32 = 45_000;

/// A flow that has sent so much, and lost so much of it, up to now.
fn flow(sent_segments: u32, resent_segments: u32, rtt_us: u32) -> FlowCounts {
    let min_rtt_us = 40_000;
    FlowCounts { sent_segments, resent_segments, rtt_us, min_rtt_us, ..FlowCounts::default() }
}

/// A look at a single flow, with the RTT at its begin and at its end.
fn losing(sent: u32, lost: u32, rtts_us: [u32; 2]) -> Look {
    Look::new(&[(flow(0, 0, rtts_us[0]), flow(sent, lost, rtts_us[1]))], None)
}

fn reordering(segments: u32) -> Look {
    let now =
        FlowCounts { reorderings: 10, reordering_segments: segments, ..flow(10_000, 0, EMPTY_US) };
    Look::new(&[(flow(0, 0, EMPTY_US), now)], None)
}

/// A path, looked at again and again.
struct Bench {
    behaviour: Behaviour,
    now: Moment,
}

impl Bench {
    fn new() -> Self {
        Self { behaviour: Behaviour::unknown(STALE_AFTER), now: Moment::ZERO }
    }

    fn sees(&mut self, look: Look) -> Traits {
        self.now += LOOK;
        self.behaviour.add(&look, self.now);
        self.traits()
    }

    fn traits(&self) -> Traits {
        self.behaviour.traits(self.now)
    }

    /// Returns after how many looks this holds.
    fn looks_until(&mut self, look: Look, holds: impl Fn(Traits) -> bool) -> Option<u32> {
        (1..=100).find(|_| holds(self.sees(look)))
    }
}

const LEAK: (u32, u32) = (100_000, 100);

fn leak() -> Look {
    losing(LEAK.0, LEAK.1, [EMPTY_US; 2])
}

#[test]
fn losses_without_a_queue_are_a_leak_after_some_looks() {
    let mut bench = Bench::new();
    assert_eq!(bench.looks_until(leak(), |traits| traits.is_leaky), Some(LEAKY_LOOKS));
}

#[test]
fn losses_with_a_queue_at_either_end_are_congestion() {
    for rtts_us in [[QUEUED_US; 2], [EMPTY_US, QUEUED_US], [QUEUED_US, EMPTY_US]] {
        let mut bench = Bench::new();
        let congested = losing(LEAK.0, LEAK.1, rtts_us);
        assert_eq!(bench.looks_until(congested, |traits| traits.is_leaky), None, "{rtts_us:?}");
    }
    // One in between, and it begins anew.
    let mut bench = Bench::new();
    for _ in 0..50 {
        for _ in 1..LEAKY_LOOKS {
            assert!(!bench.sees(leak()).is_leaky);
        }
        assert!(!bench.sees(losing(LEAK.0, LEAK.1, [QUEUED_US; 2])).is_leaky);
    }
}

#[test]
fn one_flow_with_a_queue_is_enough() {
    let pair = |rtt_us| (flow(0, 0, rtt_us), flow(LEAK.0, LEAK.1, rtt_us));
    assert!(Look::new(&[pair(EMPTY_US); 3], None).is_leak());
    assert!(!Look::new(&[pair(EMPTY_US), pair(QUEUED_US), pair(EMPTY_US)], None).is_leak());
    // One that has lost nothing says nothing about losses.
    let sound = (flow(0, 0, QUEUED_US), flow(LEAK.0, 0, QUEUED_US));
    assert!(Look::new(&[pair(EMPTY_US), sound], None).is_leak());
}

#[test]
fn what_the_path_itself_takes_is_the_base() {
    let pair = [(flow(0, 0, EMPTY_US), flow(LEAK.0, LEAK.1, EMPTY_US))];
    assert!(Look::new(&pair, Some(0.04)).is_leak());
    // The flow began in a queue that has stood since.
    assert!(!Look::new(&pair, Some(0.02)).is_leak());
    assert!(Look::new(&pair, Some(0.4)).is_leak(), "a longer one is not of this flow");
    for wrong in [0.0, -1.0, 1e-9, f64::NAN] {
        assert!(!Look::new(&pair, Some(wrong)).is_leak(), "{wrong}");
    }
    // The flow's own RTT is not known.
    let unknown = FlowCounts { min_rtt_us: 0, ..pair[0].1 };
    assert!(!Look::new(&[(pair[0].0, unknown)], None).is_leak());
}

#[test]
fn what_was_sent_again_in_vain_was_not_lost() {
    let before = flow(0, 0, EMPTY_US);
    let now = |duplicate_segments, marked_segments| {
        let now = flow(LEAK.0, LEAK.1, EMPTY_US);
        FlowCounts { duplicate_segments, marked_segments, ..now }
    };
    assert!(Look::new(&[(before, now(50, 0))], None).is_leak());
    assert!(!Look::new(&[(before, now(LEAK.1, 0))], None).is_leak());
    assert!(!Look::new(&[(before, now(LEAK.1 + 1, 0))], None).is_leak());
    // Somebody says that there is a queue.
    assert!(!Look::new(&[(before, now(0, 1))], None).is_leak());
}

#[test]
fn too_few_losses_and_too_many_are_no_leak() {
    let lost = |lost| losing(LEAK.0, lost, [EMPTY_US; 2]).is_leak();
    assert_eq!([0, 1, 2, 1_000, 1_001].map(lost), [false, true, true, true, false]);
    assert!(!losing(1_000_000, 9, [EMPTY_US; 2]).is_leak());
    // They are no sign of congestion either.
    let mut bench = Bench::new();
    let others = [losing(LEAK.0, 0, [EMPTY_US; 2]), losing(10, 1, [EMPTY_US; 2])];
    for _ in 1..LEAKY_LOOKS {
        bench.sees(leak());
        others.iter().for_each(|look| assert!(!bench.sees(*look).is_leaky));
    }
    assert!(bench.sees(leak()).is_leaky);
}

#[test]
fn counts_that_wrapped_in_between_are_subtracted() {
    let before = flow(u32::MAX - 50_000, u32::MAX - 50, EMPTY_US);
    let now = flow(50_000, 50, EMPTY_US);
    let look = Look::new(&[(before, now)], None);
    assert_eq!((look.sent_segments, look.lost_segments), (100_001, 101));
}

#[test]
fn a_leak_is_over_when_it_was_to_be_seen_and_was_not() {
    let mut bench = Bench::new();
    bench.looks_until(leak(), |traits| traits.is_leaky);
    // Its own law fills the queue now and then.
    for n in 0..100 {
        let queued = losing(LEAK.0, LEAK.1, [QUEUED_US; 2]);
        let look = if n % LOOKS_WITHOUT == 0 { leak() } else { queued };
        assert!(bench.sees(look).is_leaky, "{n}");
    }
    bench.sees(leak());
    let sound = losing(LEAK.0, 0, [EMPTY_US; 2]);
    assert_eq!(bench.looks_until(sound, |traits| !traits.is_leaky), Some(LOOKS_WITHOUT));
    // And begins anew.
    assert_eq!(bench.looks_until(leak(), |traits| traits.is_leaky), Some(LEAKY_LOOKS));
}

#[test]
fn little_that_is_sent_says_little() {
    let mut bench = Bench::new();
    bench.looks_until(leak(), |traits| traits.is_leaky);
    // One in a thousand was lost: ten are to be expected of 10,000.
    let sound = losing(500, 0, [EMPTY_US; 2]);
    assert_eq!(bench.looks_until(sound, |traits| !traits.is_leaky), Some(20));
    bench.looks_until(leak(), |traits| traits.is_leaky);
    assert_eq!(bench.looks_until(Look::default(), |traits| !traits.is_leaky), None);
}

#[test]
fn what_is_too_old_counts_no_more() {
    let mut bench = Bench::new();
    bench.looks_until(leak(), |traits| traits.is_leaky);
    (0..2).for_each(|_| _ = bench.sees(reordering(20)));
    let both = Traits { reorder_segments: Some(20), is_leaky: true };
    assert_eq!(bench.traits(), both);
    // The leak was seen two looks before the reordering.
    bench.now += STALE_AFTER - LOOK * 2;
    assert_eq!(bench.traits(), both);
    bench.now += LOOK;
    assert_eq!(bench.traits(), Traits { is_leaky: false, ..both });
    bench.now += LOOK * 2;
    assert_eq!(bench.traits(), Traits::default());
    // Looks that are too far apart are not in a row.
    for _ in 0..10 {
        bench.now += STALE_AFTER;
        assert!(!bench.sees(leak()).is_leaky);
    }
}

#[test]
fn reordering_counts_with_the_second_look() {
    let mut bench = Bench::new();
    let mut sees = |segments| bench.sees(reordering(segments)).reorder_segments;
    assert_eq!([sees(20), sees(20)], [None, Some(20)]);
    // A glitch, and a route that changed.
    assert_eq!([sees(200), sees(22)], [Some(20), Some(22)]);
    assert_eq!([sees(200), sees(150), sees(60), sees(60)].map(Option::unwrap), [22, 150, 150, 60]);
    // Little more than what the kernel has is no jump; what it has is nothing.
    let mut bench = Bench::new();
    assert_eq!(bench.sees(reordering(5)).reorder_segments, Some(5));
    let mut bench = Bench::new();
    assert_eq!((0..9).find_map(|_| bench.sees(reordering(3)).reorder_segments), None);
}

#[test]
fn reordering_is_over_when_it_was_to_be_seen_and_was_not() {
    let mut bench = Bench::new();
    (0..2).for_each(|_| _ = bench.sees(reordering(20)));
    let sound = losing(LEAK.0, 0, [EMPTY_US; 2]);
    let is_over = |traits: Traits| traits.reorder_segments.is_none();
    assert_eq!(bench.looks_until(Look::default(), is_over), None);
    assert_eq!(bench.looks_until(sound, is_over), Some(LOOKS_WITHOUT));
    // The first is a jump again.
    assert_eq!(bench.sees(reordering(20)).reorder_segments, None);
}

#[test]
fn one_flow_that_saw_more_than_the_others_is_not_believed() {
    let of = |reordering_segments| {
        let now = FlowCounts { reorderings: 1, reordering_segments, ..flow(1_000, 0, EMPTY_US) };
        (flow(0, 0, EMPTY_US), now)
    };
    let median = |flows: &[_]| Look::new(flows, None).reordering_segments;
    assert_eq!(median(&[of(20), of(300), of(18)]), Some(20));
    assert_eq!(median(&[of(300), of(20)]), Some(20));
    assert_eq!(median(&[of(300)]), Some(300));
    assert_eq!(median(&[]), None);
    // It saw that long ago.
    let (before, now) = of(300);
    assert_eq!(median(&[(FlowCounts { reorderings: 1, ..before }, now), of(20)]), Some(20));
}

#[test]
fn small_differences_are_no_other_policy() {
    let traits = |segments| Traits { reorder_segments: segments, is_leaky: false };
    let are_other = |from, to| traits(from).are_other(traits(to));
    assert!(!are_other(Some(20), Some(25)) && !are_other(Some(20), Some(15)));
    assert!(are_other(Some(20), Some(26)) && are_other(Some(20), Some(14)));
    assert!(are_other(None, Some(5)) && are_other(Some(5), None) && !are_other(None, None));
    assert!(traits(None).are_other(Traits { is_leaky: true, ..traits(None) }));
}

prop_compose! {
    fn any_flow()(
        counts in any::<[u32; 6]>(),
        rtts_us in [0_u32..200_000, 0_u32..200_000],
    ) -> FlowCounts {
        let [sent_segments, resent_segments, duplicate_segments, marked_segments, ..] = counts;
        let [.., reorderings, reordering_segments] = counts;
        let [rtt_us, min_rtt_us] = rtts_us;
        FlowCounts {
            sent_segments,
            resent_segments,
            duplicate_segments,
            marked_segments,
            rtt_us,
            min_rtt_us,
            reorderings,
            reordering_segments,
        }
    }
}

proptest! {
    /// Whatever flows and sources say.
    #[test]
    fn reordering_is_within_the_fields_range(
        looks in prop::collection::vec(
            (prop::collection::vec((any_flow(), any_flow()), 0..4), any::<f64>(), 0_u64..10_000),
            1..100,
        ),
    ) {
        let mut bench = Bench::new();
        for (flows, rtt_seconds, wait_seconds) in looks {
            bench.now += Duration::from_secs(wait_seconds);
            let reorder = bench.sees(Look::new(&flows, Some(rtt_seconds))).reorder_segments;
            let is_possible =
                |segments| (KERNELS_SEGMENTS + 1..=MAX_REORDER_SEGMENTS).contains(&segments);
            prop_assert!(reorder.is_none_or(is_possible), "{reorder:?}");
        }
    }

    /// However wrong, an RTT of a monitor makes no path leaky that is not so by itself.
    #[test]
    fn a_wrong_rtt_makes_no_path_leaky(
        exponent in -6.0_f64..30.0,
        rtts_us in [40_000_u32..80_000, 42_500_u32..80_000],
    ) {
        let rtts = [None, Some(0.04 * 10_f64.powf(exponent)), Some(f64::INFINITY)];
        for rtt_seconds in rtts {
            let flows = [(flow(0, 0, rtts_us[0]), flow(LEAK.0, LEAK.1, rtts_us[1]))];
            let mut bench = Bench::new();
            let look = Look::new(&flows, rtt_seconds);
            prop_assert_eq!(bench.looks_until(look, |traits| traits.is_leaky), None);
        }
    }

    /// Between two changes of what a loss means there are as many looks as it takes to
    /// say so.
    #[test]
    fn it_does_not_flap(looks in prop::collection::vec(0_u8..3, 1..400)) {
        let mut bench = Bench::new();
        let (mut was_leaky, mut since) = (false, 0);
        for kind in looks {
            since += 1;
            let is_leaky = bench.sees(match kind {
                0 => leak(),
                1 => losing(LEAK.0, LEAK.1, [QUEUED_US; 2]),
                _ => losing(LEAK.0, 0, [EMPTY_US; 2]),
            }).is_leaky;
            if is_leaky != was_leaky {
                let least = if is_leaky { LEAKY_LOOKS } else { LOOKS_WITHOUT };
                prop_assert!(since >= least, "{since} looks");
                (was_leaky, since) = (is_leaky, 0);
            }
        }
    }
}
