//! These properties must hold for the laws that answer to losses after each thing that
//! the kernel does to a flow: the machine for local stalls and idle time.

use kernel_side::{Flow, Kernel};
use proptest::prelude::*;
use wad_common::law::{
    Aimd, Binomial, INFINITE_SSTHRESH, MIN_WINDOW_SEGMENTS, highspeed, loss_based::Phase, scalable,
};

mod kernel_side;

/// Tells what happens to a flow.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// An ACK so much later, for so many segments.
    Ack {
        after_us: u64,
        acked_segments: u32,
    },
    /// A queue of this host is full.
    LocalStall,
    /// An ACK with ECE.
    Mark,
    /// So many segments are found lost.
    Loss(u32),
    /// A loss that the tail loss probe has repaired, on the ACK that tells.
    ProbedLoss,
    Timeout,
    /// The kernel's answer is over.
    Recovered,
    /// The last answer was wrong.
    Undo,
    /// Nothing was sent for a while.
    Idle,
    /// The next program that the kernel calls does not run.
    Skip(u32),
    /// Nobody is told of the next change of the state.
    SkipChange,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ack = |most_after_us: u64| {
        (0..=most_after_us, 1..100_u32)
            .prop_map(|(after_us, acked_segments)| Step::Ack { after_us, acked_segments })
    };
    let step = prop_oneof![
        20 => ack(50_000),
        // Ten idle days.
        1 => ack(864_000_000_000),
        6 => Just(Step::LocalStall),
        2 => Just(Step::Mark),
        3 => (1..50_u32).prop_map(Step::Loss),
        1 => Just(Step::ProbedLoss),
        1 => Just(Step::Timeout),
        4 => Just(Step::Recovered),
        1 => Just(Step::Undo),
        1 => Just(Step::Idle),
        1 => garbage().prop_map(Step::Skip),
        1 => Just(Step::SkipChange),
    ];
    prop::collection::vec(step, 1..200)
}

/// The threshold after a skipped `ssthresh()`.
fn garbage() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), INFINITE_SSTHRESH + 1..]
}

fn responses() -> impl Strategy<Value = fn(u32) -> Aimd> {
    let standard: fn(u32) -> Aimd = |_| Aimd::STANDARD;
    let highspeed: fn(u32) -> Aimd = highspeed::response;
    let scalable: fn(u32) -> Aimd = scalable::response;
    let sqrt: fn(u32) -> Aimd = |segments| Binomial::Sqrt.response(segments);
    let iiad: fn(u32) -> Aimd = |segments| Binomial::Iiad.response(segments);
    prop_oneof![Just(standard), Just(highspeed), Just(scalable), Just(sqrt), Just(iiad)]
}

fn take(flow: &mut Flow, step: Step) {
    match step {
        Step::Ack { after_us, acked_segments } => flow.ack(after_us, acked_segments),
        Step::LocalStall => flow.stall(),
        Step::Mark => flow.mark(),
        Step::Loss(segments) => flow.lose(segments),
        Step::ProbedLoss => flow.probe(),
        Step::Timeout => flow.time_out(),
        Step::Recovered => flow.recover(),
        Step::Undo => flow.undo(),
        Step::Idle => flow.idle(),
        Step::Skip(garbage) => flow.skip(garbage),
        Step::SkipChange => flow.skip_change(),
    }
}

proptest! {
    // A failure prints the smallest steps that show it: these become a test.
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The edges between phases are asserted by the law itself.
    #[test]
    fn invariants_hold_after_each_step(
        cwnd in 1..1_000_000_u32,
        response in responses(),
        ignores_stalls in any::<bool>(),
        keeps_when_idle in any::<bool>(),
        steps in steps(),
    ) {
        let mut flow = Flow::new(cwnd, response, ignores_stalls, keeps_when_idle);
        for step in steps {
            let before = flow;
            take(&mut flow, step);
            let has_garbage = flow.has_garbage();
            let is_ack = matches!(step, Step::Ack { .. });
            prop_assert!(flow.kernel.cwnd_segments >= 1 || !is_ack, "{step:?} {flow:?}");
            // For as long as a stall lasts it is the window, whatever that is.
            prop_assert!(
                flow.kernel.ssthresh_segments >= MIN_WINDOW_SEGMENTS
                    || has_garbage
                    || flow.course.phase() == Some(Phase::LocalStall),
                "{step:?} {flow:?}"
            );
            // A threshold that no program gave is gone with the next change of the state, or the next
            // ACK, that a law hears of.
            let is_told = flow.kernel.has_changed_since(&before.kernel) && !before.skips_change();
            let is_reducing = matches!(before.kernel.state, Kernel::CWR | Kernel::RECOVERY);
            if is_told || is_ack && !is_reducing {
                prop_assert!(!has_garbage, "{step:?} {flow:?}");
            }
            if flow.law.stall.is_on() {
                prop_assert!(ignores_stalls);
                prop_assert_eq!(flow.course.phase(), Some(Phase::LocalStall));
            }
            // Nothing but growth raises the window, but for what the law gives back: also where the
            // kernel has followed a threshold of 0.
            if let Step::LocalStall | Step::Loss(_) | Step::Timeout | Step::Recovered = step
                && !has_garbage
                && !before.has_garbage()
            {
                let most = before.kernel.cwnd_segments.max(MIN_WINDOW_SEGMENTS);
                prop_assert!(flow.kernel.cwnd_segments <= most, "{step:?} {before:?} {flow:?}");
            }
        }
    }

    /// Stalls, as many as there may be, and ACKs: the window is not reduced, and the
    /// threshold is as before.
    #[test]
    fn local_stalls_alone_leave_a_flow_as_it_was(
        cwnd in 10..1_000_000_u32,
        ssthresh in 10..1_000_000_u32,
        stalls in prop::collection::vec((1..5_u32, 1..100_000_u64), 1..50),
    ) {
        let mut flow = Flow::new(cwnd, |_| Aimd::STANDARD, true, false);
        flow.kernel.ssthresh_segments = ssthresh;
        flow.is_limited = false;
        for (count, after_us) in stalls {
            for _ in 0..count {
                flow.stall();
                flow.recover();
            }
            flow.ack(after_us, 1);
            prop_assert_eq!(flow.kernel.ssthresh_segments, ssthresh);
            prop_assert_eq!(flow.kernel.cwnd_segments, cwnd);
        }
    }

    /// A stall and a loss, in any order and with anything of the kernel's between them,
    /// make one decrease, of the window of then.
    #[test]
    fn a_stall_hides_no_loss(
        cwnd in 10..1_000_000_u32,
        lost in 1..50_u32,
        ends_first in any::<bool>(),
        is_mark in any::<bool>(),
    ) {
        let mut flow = Flow::new(cwnd, |_| Aimd::STANDARD, true, false);
        flow.stall();
        prop_assert_eq!(flow.kernel.cwnd_segments, cwnd);
        if is_mark {
            flow.mark();
        } else {
            flow.lose(lost);
        }
        if ends_first {
            flow.recover();
        }
        flow.recover();
        flow.ack(1000, 1);
        let half = Aimd::STANDARD.on_congestion(cwnd);
        prop_assert_eq!(flow.kernel.ssthresh_segments, half);
        prop_assert!(flow.kernel.cwnd_segments <= half + 1, "{flow:?}");
    }

    /// A stall is congestion as any other where no path says otherwise.
    #[test]
    fn a_stall_is_answered_where_the_path_does_not_say_otherwise(cwnd in 10..1_000_000_u32) {
        let mut flow = Flow::new(cwnd, |_| Aimd::STANDARD, false, false);
        flow.stall();
        prop_assert_eq!(flow.kernel.ssthresh_segments, Aimd::STANDARD.on_congestion(cwnd));
    }

    /// Idle time takes nothing for longer than one ACK where the path says so, and
    /// congestion takes what it takes.
    #[test]
    fn a_window_comes_back_after_idle_time_alone(cwnd in 20..1_000_000_u32, loses in any::<bool>()) {
        let mut flow = Flow::new(cwnd, |_| Aimd::STANDARD, false, true);
        flow.is_limited = false;
        flow.ack(1000, 1);
        if loses {
            flow.lose(1);
            flow.recover();
        }
        let before = flow.kernel.cwnd_segments;
        flow.idle();
        prop_assert!(flow.kernel.cwnd_segments <= 10);
        flow.ack(1000, 1);
        let back = flow.kernel.cwnd_segments;
        prop_assert_eq!(back, if loses { before.min(10) } else { cwnd });
    }

    /// None of the programs runs from a decrease to its end.
    #[test]
    fn an_ack_ends_what_no_program_has_heard_of(
        cwnd in 10..1_000_000_u32,
        garbage in garbage(),
        ignores_stalls in any::<bool>(),
    ) {
        let mut flow = Flow::new(cwnd, |_| Aimd::STANDARD, ignores_stalls, false);
        flow.skip(garbage);
        flow.skip_change();
        flow.stall();
        flow.ack(1000, 100);
        flow.skip_change();
        flow.recover();
        prop_assert!(flow.has_garbage() && flow.kernel.state == Kernel::OPEN);
        flow.ack(1000, 2);
        prop_assert_eq!(flow.kernel.ssthresh_segments, Aimd::STANDARD.on_congestion(cwnd));
        prop_assert!(flow.kernel.cwnd_segments <= flow.kernel.ssthresh_segments + 1);
    }

    /// A spurious decrease is undone, and `undo_cwnd()` is skipped.
    #[test]
    fn the_next_ack_restores_the_window_after_a_skipped_undo(
        cwnd in 10..1_000_000_u32,
        garbage in garbage(),
    ) {
        let mut flow = Flow::new(cwnd, |_| Aimd::STANDARD, false, false);
        flow.lose(1);
        flow.undo();
        flow.kernel.cwnd_segments = garbage;
        flow.is_limited = false;
        flow.ack(1000, 1);
        prop_assert_eq!(flow.kernel.cwnd_segments, cwnd);
    }

    /// Ten idle days and a skipped program come before a loss: the answer is to what
    /// the flow had, not to what the kernel took for a threshold.
    #[test]
    fn a_skipped_program_does_no_lasting_harm(
        cwnd in 10..1_000_000_u32,
        garbage in garbage(),
        ignores_stalls in any::<bool>(),
    ) {
        let mut flow = Flow::new(cwnd, |_| Aimd::STANDARD, ignores_stalls, false);
        flow.skip(garbage);
        flow.lose(1);
        prop_assert!(!flow.has_garbage());
        prop_assert_eq!(flow.kernel.ssthresh_segments, Aimd::STANDARD.on_congestion(cwnd));
        prop_assert_eq!(flow.kernel.state, Kernel::RECOVERY);
    }
}
