//! These properties must hold after each step of the law for leaky paths, whatever
//! happens to a flow.

use proptest::prelude::*;
use wad_common::law::{
    MIN_WINDOW_SEGMENTS, Sample, Window,
    leaky::{Leaky, Losses},
};

/// Tells what happens to a flow.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// An ACK so much later, of a segment with this RTT, for so many segments, on
    /// which so many are found lost.
    Ack { after_us: u64, rtt_us: Option<u32>, acked: u32, lost: u32 },
    /// An ACK with ECE.
    Mark,
    /// The kernel asks for a threshold, and sets the window to one segment.
    Timeout,
    /// The timeout was wrong.
    Undo,
    /// The kernel or a route bounds the window.
    Clamp(u32),
    /// The application uses so much of the window.
    Entitle(u32),
}

/// Makes numbers of all magnitudes up to `max`.
fn up_to(max: u32) -> impl Strategy<Value = u32> {
    (0..=max.ilog2(), any::<u32>())
        .prop_map(move |(bits, number)| (number & (u32::MAX >> (31 - bits))).min(max))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ack = |most_after_us: u64, most_acked: u32, most_lost: u32| {
        let rtt_us = prop::option::weighted(0.9, up_to(u32::MAX));
        (0..=most_after_us, rtt_us, up_to(most_acked), up_to(most_lost))
            .prop_map(|(after_us, rtt_us, acked, lost)| Step::Ack { after_us, rtt_us, acked, lost })
    };
    let step = prop_oneof![
        40 => ack(50_000, 44, 3),
        // Ten idle days, and anything.
        2 => ack(864_000_000_000, u32::MAX, u32::MAX),
        1 => Just(Step::Mark),
        1 => Just(Step::Timeout),
        1 => Just(Step::Undo),
        1 => up_to(u32::MAX).prop_map(|clamp| Step::Clamp(clamp.max(MIN_WINDOW_SEGMENTS))),
        1 => up_to(u32::MAX).prop_map(Step::Entitle),
    ];
    prop::collection::vec(step, 1..300)
}

fn windows() -> impl Strategy<Value = Window> {
    (up_to(u32::MAX), up_to(u32::MAX), prop::option::of(up_to(100_000))).prop_map(
        |(cwnd, ssthresh, max_ssthresh)| Window {
            cwnd_segments: cwnd.max(1),
            ssthresh_segments: ssthresh.max(MIN_WINDOW_SEGMENTS),
            clamp_segments: u32::MAX,
            max_ssthresh_segments: max_ssthresh.unwrap_or(u32::MAX).max(MIN_WINDOW_SEGMENTS),
            credit_q16: 0,
        },
    )
}

/// A flow, and the kernel's part.
struct Flow {
    law: Leaky,
    window: Window,
    sample: Sample,
    losses: Losses,
}

impl Flow {
    fn ack(&mut self) -> Result<(), TestCaseError> {
        let before = self.window;
        let after = self.law.on_ack(before, &self.sample, &self.losses);
        let (cwnd, was) = (after.cwnd_segments, before.cwnd_segments);
        prop_assert!(cwnd <= before.clamp_segments, "above the clamp: {after:?}");
        let growth = cwnd.saturating_sub(was);
        prop_assert!(growth <= self.sample.acked_segments, "faster than slow start: {after:?}");
        prop_assert!(growth == 0 || cwnd <= self.sample.entitled_segments, "unused: {after:?}");
        // 0.7 at least, in 1/1024 rounded down, two segments at least.
        let least = (u64::from(was.min(before.clamp_segments)) * 717) >> 10;
        prop_assert!(u64::from(cwnd) >= least, "cut below 0.7: {before:?}, {after:?}");
        prop_assert!(cwnd >= MIN_WINDOW_SEGMENTS.min(was), "{before:?}, {after:?}");
        prop_assert!(after.ssthresh_segments >= MIN_WINDOW_SEGMENTS, "{after:?}");
        prop_assert_eq!(after.clamp_segments, before.clamp_segments);
        prop_assert_eq!(after.max_ssthresh_segments, before.max_ssthresh_segments);
        self.window = after;
        self.sample.acked_segments = 0;
        self.losses.lost_segments = 0;
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Ack { after_us, rtt_us, acked, lost } => {
                self.sample.now_us += after_us;
                self.sample.rtt_us = rtt_us;
                self.sample.acked_segments = acked;
                let delivered = self.sample.delivered_segments;
                self.sample.delivered_segments = delivered.wrapping_add(acked);
                self.sample.in_flight_segments = self.window.cwnd_segments;
                self.sample.is_reducing = lost > 0;
                if lost > 0 {
                    self.ask_for_threshold();
                }
                self.losses.lost_segments = lost;
                self.ack()
            }
            Step::Mark => {
                let segments = self.losses.marked_segments;
                self.losses.marked_segments = segments.wrapping_add(1);
                self.ack()
            }
            Step::Timeout => {
                self.ask_for_threshold();
                self.window.cwnd_segments = 1;
                self.sample.is_reducing = false;
                self.ack()
            }
            Step::Undo => {
                let prior_segments = self.losses.prior_segments;
                let cwnd_segments = self.window.cwnd_segments.max(prior_segments);
                self.window.cwnd_segments = cwnd_segments.min(self.window.clamp_segments);
                Ok(())
            }
            Step::Clamp(segments) => {
                self.window.clamp_segments = segments;
                Ok(())
            }
            Step::Entitle(segments) => {
                self.sample.entitled_segments = segments;
                Ok(())
            }
        }
    }

    fn ask_for_threshold(&mut self) {
        self.losses.prior_segments = self.window.cwnd_segments;
        self.window.ssthresh_segments = self.law.on_congestion(self.window);
    }
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
        window in windows(),
        delivered_segments in any::<u32>(),
        marked_segments in any::<u32>(),
        steps in steps(),
    ) {
        let mut flow = Flow {
            law: Leaky::start(0, marked_segments),
            window,
            sample: Sample {
                now_us: 0,
                rtt_us: None,
                acked_segments: 0,
                delivered_segments,
                in_flight_segments: 0,
                entitled_segments: u32::MAX,
                is_reducing: false,
            },
            losses: Losses {
                lost_segments: 0,
                missing_segments: 0,
                marked_segments,
                prior_segments: window.cwnd_segments,
            },
        };
        for step in steps {
            flow.step(step)?;
        }
    }
}
