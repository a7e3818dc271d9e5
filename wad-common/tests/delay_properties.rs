//! These properties must hold after each step of the law by delay, whatever its ACKs
//! say and whatever the kernel does to the window in between.

use proptest::prelude::*;
use wad_common::law::{MIN_WINDOW_SEGMENTS, Sample, Window, delay::Delay};

/// Tells what happens to a flow.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// ACKs in a row, this many, alike but for the time.
    Acks { count: u32, ack: Ack },
    /// A loss or a mark; the ACKs that follow are of a reduction.
    Loss,
    /// The reduction is over.
    Recovered,
    /// A timeout.
    Timeout,
    /// The last reduction was wrong.
    Undo,
    /// Idle time took the window.
    Idle,
    /// The kernel, a route or a policy bounds the window.
    Clamp(u32),
}

#[derive(Clone, Copy, Debug)]
struct Ack {
    after_us: u64,
    rtt_us: Option<u32>,
    acked_segments: u32,
    in_flight_segments: u32,
    entitled_segments: u32,
}

/// Makes numbers of all magnitudes.
fn any_size() -> impl Strategy<Value = u32> {
    (0..32_u32, any::<u32>()).prop_map(|(shift, number)| number >> shift)
}

fn ack() -> impl Strategy<Value = Ack> {
    let entitled = prop_oneof![3 => Just(u32::MAX), 1 => any_size()];
    let usual = prop_oneof![10 => 10_000..12_000_u32, 1 => any_size()];
    let rtt = prop::option::weighted(0.9, usual.prop_map(|rtt| rtt.max(1)));
    let acked = prop_oneof![10 => 0..45_u32, 1 => any_size()];
    (any_size(), rtt, acked, any_size(), entitled).prop_map(
        |(after, rtt_us, acked_segments, in_flight_segments, entitled_segments)| Ack {
            after_us: after.into(),
            rtt_us,
            acked_segments,
            in_flight_segments,
            entitled_segments,
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        30 => (1..100_u32, ack()).prop_map(|(count, ack)| Step::Acks { count, ack }),
        2 => Just(Step::Loss),
        3 => Just(Step::Recovered),
        1 => Just(Step::Timeout),
        1 => Just(Step::Undo),
        1 => Just(Step::Idle),
        1 => any_size().prop_map(|clamp| Step::Clamp(clamp.max(MIN_WINDOW_SEGMENTS))),
    ];
    prop::collection::vec(step, 1..60)
}

fn windows() -> impl Strategy<Value = Window> {
    (any_size(), any_size(), any_size()).prop_map(|(cwnd, ssthresh, max_ssthresh)| Window {
        cwnd_segments: cwnd.max(1),
        ssthresh_segments: ssthresh.max(MIN_WINDOW_SEGMENTS),
        clamp_segments: u32::MAX,
        max_ssthresh_segments: max_ssthresh.max(MIN_WINDOW_SEGMENTS),
        credit_q16: 0,
    })
}

/// Takes one ACK, and checks all that must hold for it.
fn checked_ack(
    law: &mut Delay,
    before: Window,
    sample: &Sample,
    queue: u32,
) -> Result<Window, TestCaseError> {
    let after = law.on_ack(before, sample, queue);
    let [cwnd_before, cwnd] = [before, after].map(|window| window.cwnd_segments);
    prop_assert!(cwnd <= before.clamp_segments, "above the clamp: {after:?}");
    prop_assert!(
        cwnd >= MIN_WINDOW_SEGMENTS || cwnd >= cwnd_before.min(before.clamp_segments),
        "{cwnd} is nothing to send with, from {cwnd_before}"
    );
    let grown = cwnd.saturating_sub(cwnd_before);
    // More only where it gives back, an RTT later, what it took for a drain.
    prop_assert!(
        grown <= sample.acked_segments || cwnd / 2 <= cwnd_before,
        "faster than slow start: {cwnd_before} to {cwnd}"
    );
    if sample.is_reducing {
        prop_assert!(grown == 0, "grown in a reduction: {after:?}");
        prop_assert!(
            cwnd >= before.ssthresh_segments.min(cwnd_before).min(before.clamp_segments),
            "below the threshold: {after:?}"
        );
    }
    prop_assert!(after.ssthresh_segments <= before.ssthresh_segments.max(cwnd_before));
    prop_assert_eq!(after.clamp_segments, before.clamp_segments);
    prop_assert_eq!(after.max_ssthresh_segments, before.max_ssthresh_segments);
    // Slow start begins only where the kernel says so.
    if !before.in_slow_start() && before.cwnd_segments <= before.clamp_segments {
        prop_assert!(!after.in_slow_start() || cwnd < cwnd_before, "{before:?} {after:?}");
    }
    Ok(after)
}

proptest! {
    // A failure prints the smallest steps that show it: these become a test.
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn invariants_hold_after_each_step(
        mut window in windows(),
        begun_us in any::<u32>(),
        delivered in any::<u32>(),
        queue in prop_oneof![Just(0), any_size()],
        steps in steps(),
    ) {
        let mut law = Delay::start(0);
        let mut prior_segments = window.cwnd_segments;
        let mut sample = Sample {
            now_us: begun_us.into(),
            rtt_us: None,
            acked_segments: 0,
            delivered_segments: delivered,
            in_flight_segments: 0,
            entitled_segments: 0,
            is_reducing: false,
        };
        for step in steps {
            match step {
                Step::Acks { count, ack } => {
                    for _ in 0..count {
                        sample = Sample {
                            now_us: sample.now_us + ack.after_us,
                            rtt_us: ack.rtt_us,
                            acked_segments: ack.acked_segments,
                            delivered_segments:
                                sample.delivered_segments.wrapping_add(ack.acked_segments),
                            in_flight_segments: ack.in_flight_segments,
                            entitled_segments: ack.entitled_segments,
                            is_reducing: sample.is_reducing,
                        };
                        window = checked_ack(&mut law, window, &sample, queue)?;
                    }
                }
                Step::Loss | Step::Timeout => {
                    prior_segments = window.cwnd_segments;
                    let kept = law.on_congestion(window.cwnd_segments);
                    prop_assert!(kept >= MIN_WINDOW_SEGMENTS);
                    window.ssthresh_segments = kept;
                    sample.is_reducing = matches!(step, Step::Loss);
                    if !sample.is_reducing {
                        window.cwnd_segments = 1;
                    }
                }
                Step::Recovered => sample.is_reducing = false,
                Step::Undo => {
                    window.cwnd_segments = window.cwnd_segments.max(prior_segments);
                    sample.is_reducing = false;
                }
                Step::Idle => window.cwnd_segments = window.cwnd_segments.min(10),
                Step::Clamp(clamp_segments) => window.clamp_segments = clamp_segments,
            }
        }
    }
}
