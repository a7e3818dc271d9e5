//! RFC 9959's requirements, phase by phase, by their names there.

use proptest::prelude::*;

use super::{Ack, INITIAL_WINDOW_SEGMENTS, Known, NEVER, Phase, Resume, Step, Window};

const RTT_US: u32 = 100_000;
const HOUR_S: u32 = 3_600;
const SYN: u32 = 1;
/// A SYN, before all else.
const SENT_AGAIN: u32 = 1;
/// The threshold of before the jump.
const SSTHRESH: u32 = 100_000;
const KNOWN: Known =
    Known { saved_cwnd_segments: 1_000, saved_rtt_us: RTT_US, until_s: 2 * HOUR_S };

/// A flow that has all of its first window out, when so much has been delivered.
fn begin(known: Known, max_jump_segments: u32, delivered_segments: u32) -> Resume {
    let end_segments = delivered_segments.wrapping_add(INITIAL_WINDOW_SEGMENTS);
    Resume::begin(known, max_jump_segments, INITIAL_WINDOW_SEGMENTS, end_segments)
}

/// A flow that has all of its window out, and whose ACKs come one by one.
#[derive(Clone, Copy)]
struct Flow {
    resume: Resume,
    ack: Ack,
}

impl Flow {
    fn begin(known: Known) -> Self {
        Self {
            resume: begin(known, u32::MAX, SYN),
            ack: Ack {
                // What is kept of it wraps soon.
                now_us: u64::from(u32::MAX - 2 * RTT_US),
                latest_rtt_us: RTT_US,
                srtt_us: RTT_US,
                delivered_segments: SYN,
                retransmitted_segments: SENT_AGAIN,
                in_flight_segments: INITIAL_WINDOW_SEGMENTS,
                cwnd_segments: INITIAL_WINDOW_SEGMENTS,
                ssthresh_segments: SSTHRESH,
                is_cwnd_limited: true,
                sharing_flows: 1,
            },
        }
    }

    /// The ACK for one segment comes, so much later; what it asks for is done, and one more
    /// segment of slow start where it asks for nothing. Then so many are sent.
    fn ack(&mut self, after_us: u32, sent_segments: u32) -> Step {
        let ack = &mut self.ack;
        ack.now_us += u64::from(after_us);
        ack.delivered_segments = ack.delivered_segments.wrapping_add(1);
        ack.in_flight_segments -= 1;
        let step = self.resume.on_ack(ack);
        match step {
            Step::Normal => ack.cwnd_segments += 1,
            Step::Jump(window) | Step::Settle(window) => {
                ack.cwnd_segments = window.cwnd_segments;
                ack.ssthresh_segments = window.ssthresh_segments;
            }
            Step::Hold => {}
        }
        ack.in_flight_segments += sent_segments;
        assert!(ack.in_flight_segments <= ack.cwnd_segments.max(INITIAL_WINDOW_SEGMENTS));
        step
    }

    /// Slow start until the jump.
    fn jump(known: Known) -> Self {
        let mut flow = Self::begin(known);
        for _ in 1..INITIAL_WINDOW_SEGMENTS {
            assert_eq!(flow.ack(1, 2), Step::Normal);
        }
        let Step::Jump(_) = flow.ack(1, 0) else { panic!("{:?}", flow.resume) };
        flow
    }

    /// The jump, all of it sent, and the first ACK for it.
    fn validating(known: Known) -> Self {
        let mut flow = Self::jump(known);
        let before_segments = flow.ack.in_flight_segments;
        let unvalidated = flow.ack.cwnd_segments - before_segments;
        for n in 0..before_segments {
            let sent = unvalidated / before_segments * u32::from(n > 0);
            assert_eq!(flow.ack(RTT_US / before_segments, sent), Step::Hold);
        }
        let Step::Settle(_) = flow.ack(0, 0) else { panic!("{:?}", flow.resume) };
        assert_eq!(flow.resume.phase(), Phase::Validating);
        flow
    }
}

const fn jump_of_500() -> Step {
    Step::Jump(Window { cwnd_segments: 500, ssthresh_segments: 1_000 })
}

/// The window is this; the threshold is that of the jump, or of before it.
const fn settled(cwnd_segments: u32, ssthresh_segments: u32) -> Step {
    Step::Settle(Window { cwnd_segments, ssthresh_segments })
}

#[test]
fn observing_a_small_window_is_not_worth_a_jump() {
    let phase =
        |saved_cwnd_segments| Flow::begin(Known { saved_cwnd_segments, ..KNOWN }).resume.phase();
    assert_eq!(phase(4 * INITIAL_WINDOW_SEGMENTS - 1), Phase::Normal);
    assert_eq!(phase(4 * INITIAL_WINDOW_SEGMENTS), Phase::Reconnaissance);
    assert_eq!(Flow::begin(Known { saved_rtt_us: 0, ..KNOWN }).resume.phase(), Phase::Normal);
}

#[test]
fn reconnaissance_is_normal_congestion_control_until_all_initial_data_is_acknowledged() {
    let mut flow = Flow::begin(KNOWN);
    for _ in 1..INITIAL_WINDOW_SEGMENTS {
        assert_eq!(flow.ack(1, 2), Step::Normal);
        assert_eq!(flow.resume.phase(), Phase::Reconnaissance);
    }
    assert_eq!(flow.ack(1, 0), jump_of_500());
}

#[test]
fn reconnaissance_detected_congestion_is_the_laws_and_the_end() {
    let mut flow = Flow::begin(KNOWN);
    assert_eq!(flow.ack(1, 2), Step::Normal);
    assert_eq!(flow.resume.on_congestion(flow.ack.delivered_segments, SENT_AGAIN), None);
    assert_eq!(flow.resume, Resume::NONE);
    for _ in 0..100 {
        assert_eq!(flow.ack(1, 1), Step::Normal);
    }
}

#[test]
fn reconnaissance_minimum_rtt_at_most_half_or_more_than_ten_times_is_another_path() {
    for (rtt_us, jumps) in
        [(50_000, false), (50_001, true), (1_000_000, true), (1_000_001, false), (0, false)]
    {
        let mut flow = Flow::begin(KNOWN);
        // The least counts.
        flow.ack.latest_rtt_us = if rtt_us == 0 { 0 } else { rtt_us + 10 };
        for _ in 2..INITIAL_WINDOW_SEGMENTS {
            let _ = flow.ack(1, 2);
        }
        flow.ack.latest_rtt_us = rtt_us;
        let _ = flow.ack(1, 2);
        flow.ack.latest_rtt_us = if rtt_us == 0 { 0 } else { 2_000_000 };
        let step = flow.ack(1, 0);
        assert_eq!(matches!(step, Step::Jump(_)), jumps, "{rtt_us}");
        if rtt_us != 0 {
            assert_eq!(flow.resume == Resume::NONE, !jumps, "{rtt_us}");
        }
    }
}

#[test]
fn reconnaissance_lasts_for_as_long_as_little_is_sent() {
    let mut flow = Flow::begin(KNOWN);
    flow.ack.is_cwnd_limited = false;
    for _ in 0..100 {
        assert_eq!(flow.ack(RTT_US, 1), Step::Normal);
        assert_eq!(flow.resume.phase(), Phase::Reconnaissance);
    }
    flow.ack.is_cwnd_limited = true;
    assert_eq!(flow.ack(1, 0), jump_of_500());
    // As long as what is known is not too old.
    let mut flow = Flow::begin(KNOWN);
    flow.ack.is_cwnd_limited = false;
    flow.ack.now_us = u64::from(2 * HOUR_S) * 1_000_000 - 1;
    assert_eq!(flow.ack(0, 1), Step::Normal);
    assert_eq!(flow.resume.phase(), Phase::Reconnaissance);
    assert_eq!(flow.ack(1, 1), Step::Normal);
    assert_eq!(flow.resume, Resume::NONE);
    // A window that has come so far by itself has nothing to gain.
    let mut flow = Flow::begin(KNOWN);
    flow.ack.is_cwnd_limited = false;
    flow.ack.cwnd_segments = 500;
    assert_eq!(flow.ack(1, 1), Step::Normal);
    assert_eq!(flow.resume, Resume::NONE);
}

#[test]
fn flows_that_come_meanwhile_have_their_part_of_the_jump() {
    let jump = |flows| {
        let mut flow = Flow::begin(KNOWN);
        flow.ack.sharing_flows = flows;
        (1..INITIAL_WINDOW_SEGMENTS).for_each(|_| assert_eq!(flow.ack(1, 2), Step::Normal));
        match flow.ack(1, 2) {
            Step::Jump(window) => Some(window.cwnd_segments),
            step => {
                assert_eq!((step, flow.resume), (Step::Normal, Resume::NONE));
                None
            }
        }
    };
    // Half of what is known each, as long as that is not more than all of it.
    assert_eq!([1, 2, 4, 8].map(jump), [Some(500), Some(500), Some(250), Some(125)]);
    // Slow start has come as far by itself.
    assert_eq!([64, u32::MAX].map(jump), [None, None]);
}

#[test]
fn unvalidated_the_jump_is_no_more_than_half_of_saved_cwnd_or_max_jump() {
    let at_most = |max| begin(KNOWN, max, SYN).segments;
    assert_eq!((at_most(u32::MAX), at_most(200)), (500, 200));
    assert_eq!(begin(KNOWN, 10, SYN), Resume::NONE);
    assert_eq!(Flow::jump(KNOWN).ack.cwnd_segments, 500);
}

#[test]
fn unvalidated_pipe_size_is_the_flight_and_what_is_acknowledged_since() {
    let mut flow = Flow::jump(KNOWN);
    let flight = flow.ack.in_flight_segments;
    assert_eq!(flow.resume.pipe_segments(flow.ack.delivered_segments, SENT_AGAIN), flight);
    for n in 1..10 {
        assert_eq!(flow.ack(1, 10), Step::Hold);
        assert_eq!(flow.resume.pipe_segments(flow.ack.delivered_segments, SENT_AGAIN), flight + n);
    }
}

#[test]
fn unvalidated_ends_with_the_first_of_its_acknowledgements_or_an_rtt() {
    let flow = Flow::validating(KNOWN);
    assert_eq!(flow.ack.cwnd_segments, flow.ack.in_flight_segments);
    let mut late = Flow::jump(KNOWN);
    assert_eq!(late.ack(RTT_US, 200), Step::Hold);
    assert_eq!(late.ack(1, 0), settled(late.ack.in_flight_segments, 1_000));
    assert_eq!(late.resume.phase(), Phase::Validating);
    // All of it has been sent.
    let mut sent = Flow::jump(KNOWN);
    assert_eq!(sent.ack(1, 0), Step::Hold);
    sent.ack.in_flight_segments = sent.ack.cwnd_segments + 1;
    assert_eq!(sent.ack(1, 0), settled(500, 1_000));
}

#[test]
fn unvalidated_a_flow_that_used_little_has_its_pipe_size_and_no_less_than_iw() {
    let mut flow = Flow::jump(KNOWN);
    let flight = flow.ack.in_flight_segments;
    let mut step = Step::Hold;
    let mut acked = 0;
    while step == Step::Hold {
        step = flow.ack(1, 1);
        acked += 1;
    }
    assert_eq!(step, settled(flight + acked, SSTHRESH));
    assert_eq!(flow.resume, Resume::NONE);

    let mut none = Flow::jump(KNOWN);
    none.resume.base = SENT_AGAIN.wrapping_sub(none.ack.delivered_segments);
    none.ack.in_flight_segments = 2;
    assert_eq!(none.ack(2 * RTT_US, 0), settled(INITIAL_WINDOW_SEGMENTS, SSTHRESH));
}

#[test]
fn validating_grows_and_ends_with_the_last_of_the_jump() {
    let mut flow = Flow::validating(KNOWN);
    for _ in 1..flow.ack.in_flight_segments {
        assert_eq!(flow.ack(1, 2), Step::Normal);
        assert_eq!(flow.resume.phase(), Phase::Validating);
    }
    assert_eq!(flow.ack(1, 2), Step::Normal);
    assert_eq!(flow.resume.phase(), Phase::Confirming);
}

/// A jump that has come back whole, and all that was sent for it.
fn confirming() -> Flow {
    let mut flow = Flow::validating(KNOWN);
    for _ in 0..flow.ack.in_flight_segments {
        assert_eq!(flow.ack(1, 2), Step::Normal);
    }
    assert_eq!(flow.resume.phase(), Phase::Confirming);
    flow
}

#[test]
fn a_queue_ends_slow_start_at_the_window_that_is_known() {
    for (latest_rtt_us, has_queue) in [(103_999, false), (104_000, true)] {
        let mut flow = confirming();
        assert_eq!(flow.ack(1, 1), Step::Normal);
        flow.ack.latest_rtt_us = latest_rtt_us;
        let step = flow.ack(1, 1);
        let ended = settled(flow.ack.cwnd_segments, 1_000);
        assert_eq!(step, if has_queue { ended } else { Step::Normal }, "{latest_rtt_us}");
        assert_eq!(flow.resume == Resume::NONE, has_queue);
    }
}

#[test]
fn slow_start_goes_on_by_quarters_while_no_queue_shows() {
    let mut flow = confirming();
    // What the last ACK of the jump let out is behind it.
    let mut left = flow.ack.in_flight_segments - 2;
    for _ in 0..3 {
        for _ in 1..left {
            assert_eq!(flow.ack(1, 1), Step::Normal);
        }
        let cwnd = flow.ack.cwnd_segments;
        assert_eq!(flow.ack(1, 1), settled(cwnd, cwnd + cwnd / 4));
        left = flow.ack.in_flight_segments - 1;
    }
    // As far as it would have gone before.
    flow.ack.cwnd_segments = SSTHRESH * 4 / 5;
    for _ in 1..left {
        flow.ack(1, 1);
    }
    assert_eq!(flow.ack(1, 1), settled(flow.ack.cwnd_segments, SSTHRESH));
    assert_eq!(flow.resume, Resume::NONE);
}

#[test]
fn a_loss_beyond_the_jump_is_the_laws() {
    let mut flow = confirming();
    assert_eq!(flow.resume.on_congestion(flow.ack.delivered_segments, SENT_AGAIN), None);
    assert_eq!(flow.resume, Resume::NONE);
}

#[test]
fn unvalidated_the_jump_is_paced_over_an_rtt() {
    // The kernel paces at 1.2 windows in an RTT from half of the threshold on.
    let flow = Flow::jump(KNOWN);
    assert!(flow.ack.cwnd_segments >= flow.ack.ssthresh_segments / 2);
    let mut low = Flow::begin(KNOWN);
    low.ack.ssthresh_segments = 300;
    for _ in 1..INITIAL_WINDOW_SEGMENTS {
        let _ = low.ack(1, 2);
    }
    let jump = Step::Jump(Window { cwnd_segments: 500, ssthresh_segments: 300 });
    assert_eq!(low.ack(1, 0), jump);
}

#[test]
fn safe_retreat_is_to_half_of_the_pipe_size_and_counts_on() {
    for mut flow in [Flow::jump(KNOWN), Flow::validating(KNOWN)] {
        let pipe = flow.resume.pipe_segments(flow.ack.delivered_segments, SENT_AGAIN);
        assert_eq!(
            flow.resume.on_congestion(flow.ack.delivered_segments, SENT_AGAIN),
            Some(pipe / 2)
        );
        assert_eq!(flow.resume.phase(), Phase::SafeRetreat);
        // Of the next loss as well.
        flow.ack.delivered_segments += 50;
        let more = flow.resume.on_congestion(flow.ack.delivered_segments, SENT_AGAIN);
        assert_eq!(more, Some((pipe + 50) / 2));
        // The kernel's recovery is over: its window is the first threshold.
        (flow.ack.cwnd_segments, flow.ack.ssthresh_segments) = (pipe / 2, pipe / 2);
        flow.ack.in_flight_segments = 1;
        let step = flow.ack(1, 0);
        assert_eq!(step, settled(pipe / 2, (pipe + 51) / 2));
        assert_eq!(flow.resume, Resume::NONE);
    }
}

#[test]
fn safe_retreat_counts_nothing_that_was_sent_again() {
    let mut flow = Flow::validating(KNOWN);
    let pipe = flow.resume.pipe_segments(flow.ack.delivered_segments, SENT_AGAIN);
    assert!(flow.resume.on_congestion(flow.ack.delivered_segments, SENT_AGAIN).is_some());
    // Recovery takes its time, in which all that was lost comes.
    flow.ack.delivered_segments += 400;
    flow.ack.retransmitted_segments += 300;
    (flow.ack.cwnd_segments, flow.ack.ssthresh_segments) = (pipe / 2, pipe / 2);
    flow.ack.in_flight_segments = 1;
    assert_eq!(flow.ack(1, 0), settled(pipe / 2, (pipe + 101) / 2));
}

#[test]
fn safe_retreat_after_more_was_lost_than_came_is_as_low_as_any() {
    let mut flow = Flow::validating(KNOWN);
    let most = flow.resume.on_congestion(flow.ack.delivered_segments, SENT_AGAIN).unwrap();
    // Much of what was sent again was lost again.
    flow.ack.delivered_segments += 400;
    flow.ack.retransmitted_segments += 800;
    (flow.ack.cwnd_segments, flow.ack.ssthresh_segments) = (most, most);
    flow.ack.in_flight_segments = 1;
    assert_eq!(flow.ack(1, 0), settled(most, 2));
}

#[test]
fn safe_retreat_from_what_was_no_loss_leaves_what_the_kernel_gave_back() {
    // Whether or not all of the window was sent again for nothing.
    for retransmitted_segments in [0, 1, 400] {
        let mut flow = Flow::validating(KNOWN);
        let (cwnd, ssthresh) = (flow.ack.cwnd_segments, flow.ack.ssthresh_segments);
        assert!(flow.resume.on_congestion(flow.ack.delivered_segments, SENT_AGAIN).is_some());
        flow.ack.delivered_segments += 500;
        flow.ack.retransmitted_segments += retransmitted_segments;
        (flow.ack.cwnd_segments, flow.ack.ssthresh_segments) = (cwnd, ssthresh);
        assert_eq!(flow.ack(1, 0), settled(cwnd, SSTHRESH), "{retransmitted_segments}");
        assert_eq!(flow.resume, Resume::NONE);
    }
}

#[test]
fn what_is_delivered_may_wrap() {
    let begun = u32::MAX - 5;
    let mut resume = begin(KNOWN, u32::MAX, begun);
    let mut ack = Flow::begin(KNOWN).ack;
    for n in 1..INITIAL_WINDOW_SEGMENTS {
        ack.delivered_segments = begun.wrapping_add(n);
        assert_eq!(resume.on_ack(&ack), Step::Normal);
    }
    ack.delivered_segments = begun.wrapping_add(INITIAL_WINDOW_SEGMENTS);
    assert_eq!(resume.on_ack(&ack), jump_of_500());
    assert_eq!(resume.on_congestion(ack.delivered_segments.wrapping_add(90), SENT_AGAIN), Some(50));
}

proptest! {
    /// Whatever comes, in whatever order: the window is never set beyond the jump, and a
    /// retreat is to no more than half of what was on its way and has been delivered.
    #[test]
    fn nothing_leads_beyond_what_the_rfc_allows(
        known in (0..2_000_000_u32, 0..2_000_000_u32)
            .prop_map(|(saved_cwnd_segments, saved_rtt_us)| Known {
                saved_cwnd_segments, saved_rtt_us, until_s: NEVER,
            }),
        max_jump in any::<u32>(),
        begun in any::<u32>(),
        steps in prop::collection::vec(
            (any::<bool>(), any::<bool>(), 0..300_000_u32, 0..300_000_u32, 0..2_000_u32, 0..500_000_u32),
            1..200,
        ),
        sharing_flows in 0..200_u32,
    ) {
        let mut resume = begin(known, max_jump, begun);
        let half = known.saved_cwnd_segments / 2;
        let mut delivered = begun;
        let (mut now_us, mut cwnd) = (0, INITIAL_WINDOW_SEGMENTS);
        let mut at_jump: Option<(u32, u32)> = None;
        let mut jumps = 0;
        for (is_congestion, is_cwnd_limited, after_us, latest_rtt_us, acked, in_flight) in steps {
            now_us += u64::from(after_us);
            delivered = delivered.wrapping_add(acked);
            if is_congestion {
                let phase = resume.phase();
                let answer = resume.on_congestion(delivered, 0);
                let is_its = matches!(
                    phase, Phase::Unvalidated | Phase::Validating | Phase::SafeRetreat
                );
                prop_assert_eq!(answer.is_some(), is_its);
                if let (Some(segments), Some((flight, at))) = (answer, at_jump) {
                    let pipe = flight.wrapping_add(delivered.wrapping_sub(at));
                    prop_assert!(segments <= (pipe / 2).max(2), "{segments} of {pipe}");
                }
                continue;
            }
            let ack = Ack {
                now_us, latest_rtt_us, srtt_us: 100_000, delivered_segments: delivered,
                retransmitted_segments: 0,
                in_flight_segments: in_flight.min(cwnd), cwnd_segments: cwnd,
                ssthresh_segments: SSTHRESH, is_cwnd_limited, sharing_flows,
            };
            match resume.on_ack(&ack) {
                Step::Jump(window) => {
                    prop_assert!(window.cwnd_segments <= half && window.cwnd_segments <= max_jump);
                    prop_assert!(window.cwnd_segments > cwnd);
                    at_jump = Some((ack.in_flight_segments, delivered));
                    jumps += 1;
                    cwnd = window.cwnd_segments;
                }
                Step::Settle(window) => {
                    let (flight, at) = at_jump.expect("after a jump");
                    let pipe = flight.wrapping_add(delivered.wrapping_sub(at));
                    let most = ack.in_flight_segments.max(pipe).max(INITIAL_WINDOW_SEGMENTS);
                    prop_assert!(window.cwnd_segments <= most.max(cwnd), "{window:?} of {most}");
                    cwnd = window.cwnd_segments;
                }
                Step::Normal => cwnd = cwnd.saturating_add(acked.min(100)),
                Step::Hold => {}
            }
        }
        // What was given up, or has been, does not come back.
        prop_assert!(jumps <= 1);
    }
}
