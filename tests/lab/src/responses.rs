//! Responses are counted by what made congestion control cut the window: the sender's
//! own queue, a drop in the network, or a mark there. From the kernel's trace of the
//! flows.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use wad_testbed::trace::{Event, INFINITE_SSTHRESH, What};

/// `enum tcp_ca_state` (include/uapi/linux/tcp.h): the local queue was full, or
/// the other end echoed a mark.
const CWR: u8 = 2;
/// These states are fast recovery, and a timeout.
const LOSS: std::ops::RangeInclusive<u8> = 3..=4;
/// A threshold below this share of the window before is a cut; that of a law
/// that only notes where it was is not.
const CUT: f64 = 0.95;

/// The figures of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responses {
    /// Packets (of one or more segments) that the sender's own queue refused.
    pub local_drops: u64,
    /// Times that congestion control was told of the local queue or of a mark.
    pub cwr_entries: u64,
    /// Times that no program answered it, as on a kernel that runs none while init has
    /// the processor: what the kernel took for a threshold, and the window that
    /// follows it, are no cut, and what the law then makes of them is its answer.
    pub unanswered: u64,
    /// The cuts that it made; none for BBR, which keeps its estimate of the path in the
    /// threshold, whatever the cause.
    pub cuts: Option<Cuts>,
}

/// Tells how often the window was cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cuts {
    /// The cuts because of the local queue.
    pub local_drops: u64,
    /// The cuts because of losses in the network.
    pub network_drops: u64,
    /// The cuts because of marks there.
    pub marks: u64,
}

/// Returns what the flows' trace tells, which is all but the drops. A cut in that
/// state, or at its end, within `echo_ns` from a mark is due to the mark: they are told
/// apart by time only.
#[must_use]
pub fn count(events: &[Event], marks_ns: &[u64], echo_ns: u64) -> Responses {
    let mut flows: HashMap<u16, Flow> = HashMap::new();
    let (mut cwr_entries, mut unanswered, mut cuts) = (0, 0, Cuts::default());
    for event in events {
        let flow = flows.entry(event.local_port).or_default();
        match event.what {
            What::State(state) => {
                let enters = state == CWR && flow.state != CWR;
                cwr_entries += u64::from(enters);
                flow.was_cut &= !enters;
                flow.state = state;
            }
            What::Packet { ssthresh_segments, .. } if ssthresh_segments > INFINITE_SSTHRESH => {
                unanswered += u64::from(!flow.is_unanswered);
                flow.is_unanswered = true;
            }
            What::Packet { cwnd_segments, ssthresh_segments } => {
                flow.is_unanswered = false;
                if flow.is_cut(ssthresh_segments) {
                    let echo = |at: &u64| (*at..=at + echo_ns).contains(&event.time_ns);
                    let is_echo = marks_ns.iter().any(echo);
                    match flow.state {
                        state if LOSS.contains(&state) => cuts.network_drops += 1,
                        CWR if !is_echo => cuts.local_drops += 1,
                        CWR => cuts.marks += 1,
                        // At the end of a stall: its own cut shows again there.
                        _ if is_echo && !flow.was_cut => cuts.marks += 1,
                        // Not because of congestion: the kernel takes note of the
                        // window before it lowers that of a flow that has not
                        // used it (tcp_cwnd_application_limited).
                        _ => {}
                    }
                    flow.was_cut = true;
                }
                // In that state the window follows what is on its way, and ends at the
                // threshold.
                let in_cwr = flow.state == CWR;
                let held_segments =
                    if in_cwr { cwnd_segments.max(ssthresh_segments) } else { cwnd_segments };
                flow.seen = Some((held_segments, ssthresh_segments));
            }
        }
    }
    Responses { local_drops: 0, cwr_entries, unanswered, cuts: Some(cuts) }
}

#[derive(Default)]
struct Flow {
    state: u8,
    /// Tells whether the window was cut since congestion control was last told of the
    /// local queue or of a mark.
    was_cut: bool,
    is_unanswered: bool,
    /// Window that is held, and threshold, at the packet before.
    seen: Option<(u32, u32)>,
}

impl Flow {
    fn is_cut(&self, ssthresh_segments: u32) -> bool {
        self.seen.is_some_and(|(held, ssthresh)| {
            ssthresh_segments != ssthresh && f64::from(ssthresh_segments) < f64::from(held) * CUT
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(time_ns: u64, cwnd_segments: u32, ssthresh_segments: u32) -> Event {
        let what = What::Packet { cwnd_segments, ssthresh_segments };
        Event { time_ns, local_port: 1, what }
    }

    fn state(time_ns: u64, state: u8) -> Event {
        Event { time_ns, local_port: 1, what: What::State(state) }
    }

    fn counted(events: &[Event], marks_ns: &[u64], echo_ns: u64) -> (u64, Cuts) {
        let responses = count(events, marks_ns, echo_ns);
        (responses.cwr_entries, responses.cuts.unwrap_or_default())
    }

    #[test]
    fn each_cut_has_its_cause() {
        let events = [
            packet(1, 100, INFINITE_SSTHRESH),
            state(2, CWR),
            packet(3, 99, 50),
            packet(4, 98, 50),
            state(5, 0),
            packet(6, 50, 50),
            state(7, 3),
            packet(8, 50, 25),
            state(9, 0),
            packet(10, 30, 25),
            state(20, CWR),
            packet(21, 30, 15),
        ];
        let cuts = Cuts { local_drops: 1, network_drops: 1, marks: 1 };
        assert_eq!(counted(&events, &[15], 10), (2, cuts));
    }

    #[test]
    fn a_flow_that_does_not_use_its_window_is_not_congested() {
        let events = [packet(1, 100, 500), packet(2, 60, 75)];
        assert_eq!(counted(&events, &[], 0), (0, Cuts::default()));
    }

    #[test]
    fn a_stall_that_is_ignored_hides_no_cut() {
        // The law keeps the window at first, while the kernel sends less; then it
        // hears of a loss, and another time, when it is over, of a mark.
        let stall = [packet(1, 100, INFINITE_SSTHRESH), state(2, CWR), packet(3, 60, 100)];
        let lost = [stall.as_slice(), &[state(4, 3), packet(5, 55, 70)]].concat();
        let cuts = Cuts { network_drops: 1, ..Cuts::default() };
        assert_eq!(counted(&lost, &[], 0), (1, cuts));
        let marked = [stall.as_slice(), &[state(4, 0), packet(5, 70, 70)]].concat();
        let cuts = Cuts { marks: 1, ..Cuts::default() };
        assert_eq!(counted(&marked, &[3], 10), (1, cuts));
    }

    #[test]
    fn what_changes_nothing_is_no_response() {
        // The law kept its window: the threshold is where the window was.
        let events = [packet(1, 100, INFINITE_SSTHRESH), state(2, CWR), packet(3, 100, 100)];
        assert_eq!(counted(&events, &[], 0), (1, Cuts::default()));
    }

    #[test]
    fn what_no_program_answered_is_no_cut() {
        // Half an address, the window after it, and at the end the law's answer.
        let stall = [
            packet(1, 100, INFINITE_SSTHRESH),
            state(2, CWR),
            packet(3, 90, 0x8220_5665),
            packet(4, 1_000_000, 0x8220_5665),
            state(5, 0),
        ];
        let ignored = [stall.as_slice(), &[state(6, CWR), packet(7, 100, 100)]].concat();
        let responses = count(&ignored, &[], 0);
        assert_eq!((responses.cwr_entries, responses.unanswered), (2, 1));
        assert_eq!(responses.cuts, Some(Cuts::default()));
        let counted = [stall.as_slice(), &[state(6, CWR), packet(7, 50, 50)]].concat();
        let cuts = Cuts { local_drops: 1, ..Cuts::default() };
        assert_eq!(count(&counted, &[], 0).cuts, Some(cuts));
    }
}
