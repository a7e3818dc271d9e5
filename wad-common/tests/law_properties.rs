//! What must hold after each step of the AIMD law, whatever happens to a flow;
//! and that AIMD(0.5, 1) is the kernel's reno, to the segment.

use kernel::TcpSock;
use proptest::prelude::*;
use wad_common::law::{
    Aimd, MIN_WINDOW_SEGMENTS, Window,
    aimd::{MAX_INCREASE_Q16, MAX_KEEP_Q16, MIN_INCREASE_Q16, MIN_KEEP_Q16, ONE_Q16},
};

mod kernel;

/// What happens to a flow.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// An ACK for this many segments.
    Ack(u32),
    /// A loss, after which the window is the threshold.
    Loss,
    /// A timeout, after which the window is one segment.
    Timeout,
    /// The last loss was none.
    Undo,
    /// The kernel or a route bounds the window.
    Clamp(u32),
}

/// Numbers of all magnitudes up to `max`.
fn up_to(max: u32) -> impl Strategy<Value = u32> {
    (0..=max.ilog2(), any::<u32>())
        .prop_map(move |(bits, number)| (number & (u32::MAX >> (31 - bits))).clamp(1, max))
}

fn steps(max: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => up_to(max).prop_map(Step::Ack),
        20 => (1_u32..=3).prop_map(Step::Ack),
        2 => Just(Step::Loss),
        1 => Just(Step::Timeout),
        1 => Just(Step::Undo),
        1 => up_to(max).prop_map(|clamp| Step::Clamp(clamp.max(MIN_WINDOW_SEGMENTS))),
    ];
    prop::collection::vec(step, 1..300)
}

fn aimd() -> impl Strategy<Value = Aimd> {
    (up_to(MAX_INCREASE_Q16), MIN_KEEP_Q16..=MAX_KEEP_Q16).prop_map(|(increase, keep)| {
        Aimd::try_new(increase.max(MIN_INCREASE_Q16), keep).expect("both are in their ranges")
    })
}

fn windows(max: u32) -> impl Strategy<Value = Window> {
    (up_to(max), up_to(max), up_to(max)).prop_map(|(cwnd, ssthresh, clamp)| Window {
        cwnd_segments: cwnd,
        ssthresh_segments: ssthresh.max(MIN_WINDOW_SEGMENTS),
        clamp_segments: clamp.max(cwnd),
        credit_q16: 0,
    })
}

/// One ACK, and all that must hold for it.
fn checked_ack(aimd: Aimd, before: Window, acked: u32) -> Result<Window, TestCaseError> {
    let after = aimd.on_ack(before, acked);
    prop_assert!(after.cwnd_segments <= after.clamp_segments, "above the clamp: {after:?}");
    let least = before.cwnd_segments.min(before.clamp_segments);
    prop_assert!(after.cwnd_segments >= least, "shrunk by an ACK: {after:?}");
    let growth = after.cwnd_segments.saturating_sub(before.cwnd_segments);
    prop_assert!(growth <= acked, "faster than slow start: {after:?}");
    // Of the window at which congestion avoidance divides: slow start, which
    // leaves the credit as it is, ends at the threshold.
    let divisor = before.cwnd_segments.max(before.ssthresh_segments.min(after.cwnd_segments));
    prop_assert!(
        after.credit_q16 < u64::from(divisor) << 16 || after.credit_q16 == before.credit_q16,
        "credit saved up: {after:?}"
    );
    prop_assert_eq!(after.ssthresh_segments, before.ssthresh_segments);
    prop_assert_eq!(after.clamp_segments, before.clamp_segments);
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
        aimd in aimd(),
        mut window in windows(u32::MAX),
        steps in steps(u32::MAX),
    ) {
        let mut prior_segments = window.cwnd_segments;
        for step in steps {
            match step {
                Step::Ack(acked) => window = checked_ack(aimd, window, acked)?,
                Step::Loss | Step::Timeout => {
                    prior_segments = window.cwnd_segments;
                    let kept = aimd.on_congestion(window.cwnd_segments);
                    prop_assert!(kept >= MIN_WINDOW_SEGMENTS);
                    prop_assert!(kept < prior_segments.max(MIN_WINDOW_SEGMENTS + 1));
                    window.ssthresh_segments = kept;
                    window.cwnd_segments = if matches!(step, Step::Loss) { kept } else { 1 };
                }
                Step::Undo => {
                    let undone = Aimd::on_undo(window.cwnd_segments, prior_segments);
                    prop_assert!(undone >= window.cwnd_segments && undone >= prior_segments);
                    window.cwnd_segments = undone;
                }
                Step::Clamp(clamp_segments) => window.clamp_segments = clamp_segments,
            }
        }
    }

    /// A decrease leaves the part it should, less what rounding takes.
    #[test]
    fn a_decrease_leaves_its_part(aimd in aimd(), cwnd in 1_u32..) {
        let exact = f64::from(cwnd) * f64::from(aimd.keep_q16) / f64::from(ONE_Q16);
        let kept = f64::from(aimd.on_congestion(cwnd));
        prop_assert!(kept == 2.0 || (exact - 1.0 < kept && kept <= exact));
    }

    /// In congestion avoidance an RTT, which acknowledges one window in ACKs of
    /// any size, adds no more than the increase and what was saved up, and no
    /// less than the increase but for the growth of the window that divides it.
    #[test]
    fn an_rtt_adds_the_increase(
        aimd in aimd(),
        cwnd in 2_u32..1_000_000,
        acks in prop::collection::vec(1_u32..1000, 1..50),
        saved in any::<u64>(),
    ) {
        let start = Window {
            cwnd_segments: cwnd,
            ssthresh_segments: 2,
            clamp_segments: u32::MAX,
            // Less than a window's worth, or of a larger window before.
            credit_q16: saved % (u64::from(cwnd) << 18),
        };
        let mut window = start;
        let mut left = cwnd;
        for acked in acks.iter().copied().cycle() {
            let acked = acked.min(left);
            window = checked_ack(aimd, window, acked)?;
            left -= acked;
            if left == 0 {
                break;
            }
        }
        let growth = f64::from(window.cwnd_segments - cwnd);
        let increase = f64::from(aimd.increase_q16) / f64::from(ONE_Q16);
        prop_assert!(growth <= increase + 1.0, "{growth} for {increase}");
        prop_assert!(growth <= f64::from(cwnd), "{growth} from {cwnd}");
        let divided = increase * f64::from(cwnd) / (f64::from(cwnd) + growth);
        prop_assert!(growth > divided - 1.0 || increase > f64::from(cwnd), "{growth} for {increase}");
    }

    /// The same ACKs, losses, timeouts and undos: the same windows as reno.
    #[test]
    fn the_standard_is_reno(mut window in windows(1 << 20), steps in steps(1 << 20)) {
        let mut tp = TcpSock {
            snd_cwnd: window.cwnd_segments,
            snd_cwnd_cnt: 0,
            snd_cwnd_clamp: window.clamp_segments,
            snd_ssthresh: window.ssthresh_segments,
            prior_cwnd: window.cwnd_segments,
        };
        for step in steps {
            match step {
                Step::Ack(acked) => {
                    window = Aimd::STANDARD.on_ack(window, acked);
                    kernel::tcp_reno_cong_avoid(&mut tp, acked);
                }
                Step::Loss | Step::Timeout => {
                    let kept = Aimd::STANDARD.on_congestion(window.cwnd_segments);
                    prop_assert_eq!(kept, kernel::tcp_reno_ssthresh(&tp));
                    let cwnd = if matches!(step, Step::Loss) { kept } else { 1 };
                    window = Window { cwnd_segments: cwnd, ssthresh_segments: kept, ..window };
                    tp = TcpSock { prior_cwnd: tp.snd_cwnd, snd_cwnd: cwnd, snd_ssthresh: kept, ..tp };
                }
                Step::Undo => {
                    window.cwnd_segments = Aimd::on_undo(window.cwnd_segments, tp.prior_cwnd);
                    tp.snd_cwnd = kernel::tcp_reno_undo_cwnd(&tp);
                }
                Step::Clamp(clamp) => {
                    window.clamp_segments = clamp;
                    tp.snd_cwnd_clamp = clamp;
                }
            }
            prop_assert_eq!(window.cwnd_segments, tp.snd_cwnd);
            prop_assert_eq!(window.credit_q16, u64::from(tp.snd_cwnd_cnt) << 16);
        }
    }
}
