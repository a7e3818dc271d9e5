//! These properties must hold after each step of a loss-based law, whatever happens to
//! a flow; and AIMD(0.5, 1) must be the kernel's reno, to the segment.

use kernel::TcpSock;
use proptest::prelude::*;
use wad_common::law::{
    Aimd, Binomial, MAX_LAW_INCREASE_Q16, MIN_WINDOW_SEGMENTS, Window,
    aimd::{MAX_INCREASE_Q16, MAX_KEEP_Q16, MIN_INCREASE_Q16, MIN_KEEP_Q16, ONE_Q16},
    highspeed, scalable,
};

mod kernel;

/// A law, as its callers put it together.
#[derive(Clone, Copy, Debug)]
enum Law {
    Aimd(Aimd),
    HighSpeed,
    Scalable,
    Binomial(Binomial),
}

impl Law {
    fn response(self, cwnd_segments: u32) -> Aimd {
        match self {
            Self::Aimd(aimd) => aimd,
            Self::HighSpeed => highspeed::response(cwnd_segments),
            Self::Scalable => scalable::response(cwnd_segments),
            Self::Binomial(binomial) => binomial.response(cwnd_segments),
        }
    }

    fn on_ack(self, window: Window, acked_segments: u32) -> Window {
        self.response(window.cwnd_segments).on_ack(window, acked_segments)
    }
}

/// Tells what happens to a flow.
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
    /// The agent limits slow start.
    Limit(u32),
}

/// Makes numbers of all magnitudes up to `max`.
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
        1 => max_ssthresh().prop_map(Step::Limit),
    ];
    prop::collection::vec(step, 1..300)
}

fn aimd() -> impl Strategy<Value = Aimd> {
    (up_to(MAX_INCREASE_Q16), MIN_KEEP_Q16..=MAX_KEEP_Q16).prop_map(|(increase, keep)| {
        Aimd::try_new(increase.max(MIN_INCREASE_Q16), keep).expect("both are in their ranges")
    })
}

fn laws() -> impl Strategy<Value = Law> {
    prop_oneof![
        aimd().prop_map(Law::Aimd),
        Just(Law::HighSpeed),
        Just(Law::Scalable),
        Just(Law::Binomial(Binomial::Sqrt)),
        Just(Law::Binomial(Binomial::Iiad)),
    ]
}

/// Makes no limit, or one of any magnitude.
fn max_ssthresh() -> impl Strategy<Value = u32> {
    prop_oneof![Just(u32::MAX), up_to(u32::MAX)]
}

fn windows(max: u32) -> impl Strategy<Value = Window> {
    (up_to(max), up_to(max), up_to(max)).prop_map(|(cwnd, ssthresh, clamp)| Window {
        cwnd_segments: cwnd,
        ssthresh_segments: ssthresh.max(MIN_WINDOW_SEGMENTS),
        clamp_segments: clamp.max(cwnd),
        max_ssthresh_segments: u32::MAX,
        credit_q16: 0,
    })
}

/// Takes one ACK, and checks all that must hold for it.
fn checked_ack(law: Law, before: Window, acked: u32) -> Result<Window, TestCaseError> {
    let after = law.on_ack(before, acked);
    prop_assert!(after.cwnd_segments <= after.clamp_segments, "above the clamp: {after:?}");
    let least = before.cwnd_segments.min(before.clamp_segments);
    prop_assert!(after.cwnd_segments >= least, "shrunk by an ACK: {after:?}");
    let growth = after.cwnd_segments.saturating_sub(before.cwnd_segments);
    prop_assert!(growth <= acked, "faster than slow start: {after:?}");
    // Of the window that divides, which is the one before or that at the end of
    // slow start or of its unlimited part, which leaves the credit as it is.
    let ends = before.ssthresh_segments.min(after.cwnd_segments);
    let divisor = before.cwnd_segments.max(ends);
    prop_assert!(
        after.credit_q16 < u64::from(divisor) << 16 || after.credit_q16 == before.credit_q16,
        "credit saved up: {after:?}"
    );
    let kept =
        Window { cwnd_segments: before.cwnd_segments, credit_q16: before.credit_q16, ..after };
    prop_assert_eq!(kept, before);
    Ok(after)
}

/// Checks what must hold for a pair (a, b) at any window.
fn checked_response(law: Law, cwnd: u32) -> Result<(), TestCaseError> {
    let (here, above) = (law.response(cwnd), law.response(cwnd.saturating_add(1)));
    prop_assert!(here.increase_q16 <= MAX_LAW_INCREASE_Q16);
    prop_assert!(above.keep_q16 >= here.keep_q16, "more decrease above {cwnd}");
    if let Law::Binomial(_) = law {
        // Slower the larger the window, beyond what an operator may choose for an AIMD.
        prop_assert!((MIN_KEEP_Q16..ONE_Q16).contains(&here.keep_q16));
        prop_assert!((1..=here.increase_q16).contains(&above.increase_q16), "faster above {cwnd}");
    } else {
        prop_assert!((MIN_KEEP_Q16..=MAX_KEEP_Q16).contains(&here.keep_q16));
        prop_assert!(above.increase_q16 >= here.increase_q16, "less increase above {cwnd}");
    }
    Ok(())
}

/// Takes and checks the ACKs of one RTT, which acknowledge one window, in turn of these
/// sizes.
fn checked_rtt(law: Law, mut window: Window, acks: &[u32]) -> Result<Window, TestCaseError> {
    let mut left = window.cwnd_segments;
    for acked in acks.iter().cycle() {
        let acked = (*acked).min(left);
        window = checked_ack(law, window, acked)?;
        left -= acked;
        if left == 0 {
            break;
        }
    }
    Ok(window)
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
        law in laws(),
        mut window in windows(u32::MAX),
        steps in steps(u32::MAX),
    ) {
        let mut prior_segments = window.cwnd_segments;
        for step in steps {
            checked_response(law, window.cwnd_segments)?;
            match step {
                Step::Ack(acked) => window = checked_ack(law, window, acked)?,
                Step::Loss | Step::Timeout => {
                    prior_segments = window.cwnd_segments;
                    let kept = law.response(prior_segments).on_congestion(prior_segments);
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
                Step::Limit(max_ssthresh) => window.max_ssthresh_segments = max_ssthresh,
            }
        }
    }

    /// A decrease leaves the part it should, less what rounding takes.
    #[test]
    fn a_decrease_leaves_its_part(law in laws(), cwnd in up_to(u32::MAX)) {
        let aimd = law.response(cwnd);
        let exact = f64::from(cwnd) * f64::from(aimd.keep_q16) / f64::from(ONE_Q16);
        let kept = f64::from(aimd.on_congestion(cwnd));
        prop_assert!(kept == 2.0 || (exact - 1.0 < kept && kept <= exact));
    }

    /// An RTT in congestion avoidance, which acknowledges one window in ACKs of any
    /// size, adds no more than the increase at its end and what was saved up, and no
    /// less than the increase at its start but for the growth of the window that
    /// divides it.
    #[test]
    fn an_rtt_adds_the_increase(
        law in laws(),
        cwnd in 2_u32..1_000_000,
        acks in prop::collection::vec(1_u32..1000, 1..50),
        saved in any::<u64>(),
        max_ssthresh in max_ssthresh(),
    ) {
        let window = checked_rtt(law, Window {
            cwnd_segments: cwnd,
            ssthresh_segments: 2,
            clamp_segments: u32::MAX,
            max_ssthresh_segments: max_ssthresh,
            // Less than a window's worth, or of a larger window before.
            credit_q16: saved % (u64::from(cwnd) << 18),
        }, &acks)?;
        let growth = f64::from(window.cwnd_segments - cwnd);
        let increase = |at| f64::from(law.response(at).increase_q16) / f64::from(ONE_Q16);
        let (least, most) = (increase(cwnd), increase(window.cwnd_segments));
        prop_assert!(growth <= most + 1.0, "{growth} for {most}");
        prop_assert!(growth <= f64::from(cwnd), "{growth} from {cwnd}");
        let divided = least * f64::from(cwnd) / (f64::from(cwnd) + growth);
        prop_assert!(growth > divided - 1.0 || least > f64::from(cwnd), "{growth} for {least}");
    }

    /// An RTT in slow start adds, by RFC 3742, at most half of `max_ssthresh` once half
    /// of it is reached; and not much less, so that it goes somewhere.
    #[test]
    fn limited_slow_start_adds_half_of_max_ssthresh(
        law in laws(),
        max_ssthresh in 2_u32..=131_068,
        above in 0.5_f64..100.0,
        acks in prop::collection::vec(1_u32..1000, 1..50),
        credit in 0.0_f64..1.0,
    ) {
        let cwnd = ((f64::from(max_ssthresh) * above) as u32).max(max_ssthresh.div_ceil(2));
        let window = checked_rtt(law, Window {
            cwnd_segments: cwnd,
            ssthresh_segments: u32::MAX,
            clamp_segments: u32::MAX,
            max_ssthresh_segments: max_ssthresh,
            credit_q16: (f64::from(cwnd) * f64::from(ONE_Q16) * credit) as u64,
        }, &acks)?;
        let growth = window.cwnd_segments - cwnd;
        let half = max_ssthresh / 2;
        // The RTT in which the limit begins may also spend what was saved up.
        prop_assert!(growth <= half + u32::from(cwnd < max_ssthresh), "{growth} for {half}");
        let divided = f64::from(half) * f64::from(cwnd) / f64::from(window.cwnd_segments);
        prop_assert!(f64::from(growth) > divided - 2.0, "{growth} for {half}");
    }

    /// Slow start ends at the threshold, however many segments an ACK covers, and what
    /// is left of the ACK counts for congestion avoidance.
    #[test]
    fn one_ack_across_the_thresholds_is_as_many(
        max_ssthresh in 2_u32..1000,
        limited in 1_u32..1000,
        before in 1_u32..1000,
        acked in up_to(1 << 16),
    ) {
        let ssthresh = max_ssthresh + limited;
        let start = Window {
            cwnd_segments: max_ssthresh.saturating_sub(before).max(1),
            ssthresh_segments: ssthresh,
            clamp_segments: u32::MAX,
            max_ssthresh_segments: max_ssthresh,
            credit_q16: 0,
        };
        let one = checked_ack(Law::Aimd(Aimd::STANDARD), start, acked)?;
        let mut many = start;
        for _ in 0..acked {
            many = checked_ack(Law::Aimd(Aimd::STANDARD), many, 1)?;
        }
        // Growth by the window at the ACK is faster than by one that grows
        // meanwhile, but for what rounding takes; phases end at the same windows.
        prop_assert!(one.cwnd_segments + 1 >= many.cwnd_segments, "{one:?} {many:?}");
        if one.cwnd_segments < max_ssthresh {
            prop_assert_eq!(one, many);
        }
        if many.cwnd_segments >= ssthresh {
            prop_assert!(one.cwnd_segments >= ssthresh);
        }
        if one.cwnd_segments > ssthresh {
            // Segments for the unlimited part, and for the limited one.
            let unlimited = max_ssthresh - start.cwnd_segments;
            let half = f64::from((max_ssthresh / 2).max(1));
            let slow = f64::from(limited) * f64::from(max_ssthresh) / half;
            let avoided = f64::from(acked) - f64::from(unlimited) - slow;
            let grown = avoided / f64::from(ssthresh);
            let growth = f64::from(one.cwnd_segments - ssthresh);
            prop_assert!((growth - grown).abs() <= 1.0, "{growth} for {grown}");
        }
    }

    /// The standard has the same windows as reno after the same ACKs, losses, timeouts
    /// and undos.
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
                // Reno has no such limit.
                Step::Limit(_) => {}
            }
            prop_assert_eq!(window.cwnd_segments, tp.snd_cwnd);
            prop_assert_eq!(window.credit_q16, u64::from(tp.snd_cwnd_cnt) << 16);
        }
    }
}
