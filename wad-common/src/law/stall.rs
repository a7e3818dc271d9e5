//! Local stalls: full queues of this host, which the kernel takes for congestion of
//! the path (`tcp_enter_cwr()` from `__tcp_transmit_skb()`).
//!
//! Where a path says so, a law does not answer to one. The kernel asks for a threshold
//! then, and steers to it: it gets the window as it is, and the threshold of before is
//! kept for the first ACK after it, which tells whether there was more to it.

use crate::record;

/// These signs tell a local stall from congestion: all that a drop, a time-out or a
/// mark leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signs {
    /// Segments deemed lost, of those on their way.
    pub lost_segments: u32,
    /// Segments acknowledged selectively.
    pub sacked_segments: u32,
    /// Segments acknowledged with ECE so far; wraps around.
    pub delivered_ce_segments: u32,
}

/// The last local stall of a flow, and whether it is over.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The threshold before it; 0 if it is over, or there was none.
    ssthresh_segments: u32,
    /// Segments acknowledged with ECE until the last ACK.
    delivered_ce_segments: u32,
    /// It began then, or it ended then; wraps around after 71 minutes, when a flow may be taken
    /// for held back once more, for an RTT.
    changed_us: u32,
}
record!(Stall, size = 12);

/// An ending is what an ACK says of a local stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// None was on.
    None,
    /// It was one, and is over: this is the threshold again.
    MadeGood(u32),
    /// There was congestion, too.
    Congestion,
}

impl Stall {
    /// A flow that has had none. The kernel gives it these zeros.
    pub const NONE: Self = Self { ssthresh_segments: 0, delivered_ce_segments: 0, changed_us: 0 };

    /// Whether the kernel reports a full queue of this host: nothing is lost or
    /// acknowledged selectively, as after a drop or a time-out, and the ACK before
    /// this had no ECE, as after a mark. A drop that the tail loss probe has repaired
    /// looks the same here (`tcp_process_tlp_ack()`); the next ACK tells.
    #[inline(always)]
    #[must_use]
    pub const fn shows_in(&self, signs: &Signs) -> bool {
        signs.lost_segments == 0
            && signs.sacked_segments == 0
            && signs.delivered_ce_segments == self.delivered_ce_segments
    }

    /// Begins one, at this threshold, or goes on with that of before.
    #[inline(always)]
    pub const fn begin(&mut self, ssthresh_segments: u32, now_us: u64) {
        if self.ssthresh_segments == 0 {
            self.ssthresh_segments = ssthresh_segments;
        }
        self.changed_us = now_us as u32;
    }

    /// Whether one is on.
    #[inline(always)]
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.ssthresh_segments != 0
    }

    /// Ends it where the ACK tells that there was nothing more to it. There was more
    /// if the end came with the very ACK that reported it, as when a probe repairs a
    /// loss, or a mark came in the meantime, to which the kernel does not answer then.
    #[inline(always)]
    pub const fn on_ack(&mut self, now_us: u64, delivered_ce_segments: u32) -> Ending {
        let is_marked = delivered_ce_segments != self.delivered_ce_segments;
        self.delivered_ce_segments = delivered_ce_segments;
        if !self.is_on() {
            return Ending::None;
        }
        if is_marked || now_us as u32 == self.changed_us {
            return Ending::Congestion;
        }
        let ssthresh_segments = self.ssthresh_segments;
        self.ssthresh_segments = 0;
        self.changed_us = now_us as u32;
        Ending::MadeGood(ssthresh_segments)
    }

    /// Ends it with an answer to congestion: the threshold of before is not wanted.
    #[inline(always)]
    pub const fn forget(&mut self) {
        self.ssthresh_segments = 0;
    }

    /// Whether within the last RTT it was a full queue of this host that held the flow
    /// back, and not its window: the kernel's note that the window did is of the one
    /// that it had reduced meanwhile. A window that grew by it would grow without end.
    #[inline(always)]
    #[must_use]
    pub const fn holds_back(&self, now_us: u64, srtt_us: u32) -> bool {
        self.is_on() || (now_us as u32).wrapping_sub(self.changed_us) < srtt_us
    }
}

#[cfg(test)]
mod tests {
    use super::{Ending, Signs, Stall};

    const NO_SIGNS: Signs =
        Signs { lost_segments: 0, sacked_segments: 0, delivered_ce_segments: 0 };

    #[test]
    fn a_stall_is_what_leaves_no_sign() {
        let mut stall = Stall::NONE;
        assert!(stall.shows_in(&NO_SIGNS));
        assert!(!stall.shows_in(&Signs { lost_segments: 1, ..NO_SIGNS }));
        assert!(!stall.shows_in(&Signs { sacked_segments: 1, ..NO_SIGNS }));
        assert!(!stall.shows_in(&Signs { delivered_ce_segments: 1, ..NO_SIGNS }));
        assert_eq!(stall.on_ack(5, 1), Ending::None);
        assert!(stall.shows_in(&Signs { delivered_ce_segments: 1, ..NO_SIGNS }));
    }

    #[test]
    fn the_first_threshold_comes_back() {
        let mut stall = Stall::NONE;
        stall.begin(100, 1000);
        // The kernel steers to the window; that is no threshold of a path.
        stall.begin(70, 1010);
        assert!(stall.is_on());
        assert_eq!(stall.on_ack(1020, 0), Ending::MadeGood(100));
        assert_eq!(stall.on_ack(1030, 0), Ending::None);
    }

    #[test]
    fn a_mark_or_an_end_with_the_report_itself_is_congestion() {
        let mut stall = Stall::NONE;
        stall.begin(100, 1000);
        assert_eq!(stall.on_ack(1000, 0), Ending::Congestion);
        let mut stall = Stall::NONE;
        stall.begin(100, 1000);
        assert_eq!(stall.on_ack(1020, 1), Ending::Congestion);
        // Until there is an answer.
        assert!(stall.is_on());
        stall.forget();
        assert_eq!(stall.on_ack(1030, 1), Ending::None);
    }

    #[test]
    fn it_holds_the_flow_back_for_an_rtt_more() {
        let mut stall = Stall::NONE;
        stall.begin(100, 1_000_000);
        assert!(stall.holds_back(9_000_000, 100_000));
        let _ = stall.on_ack(9_000_000, 0);
        assert!(stall.holds_back(9_099_999, 100_000));
        assert!(!stall.holds_back(9_100_000, 100_000));
        // Ten idle days.
        assert!(!stall.holds_back(864_000_000_000, 100_000));
    }
}
