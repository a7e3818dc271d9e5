//! Congestion signals are what makes TCP reduce a flow's window. The kernel counts none of
//! them by flow: they are seen as it changes its state of congestion control.

use crate::record;

// enum tcp_ca_state (include/uapi/linux/tcp.h).
const OPEN: u8 = 0;
const CWR: u8 = 2;
const RECOVERY: u8 = 3;
const LOSS: u8 = 4;

/// The signals of a flow so far.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Reductions of the window (tcpEStatsPerfCongSignals).
    pub congestion: u32,
    /// Timeouts, but for those that follow another one (tcpEStatsPerfTimeouts).
    pub timeouts: u32,
    /// Times that a queue of this host took no more (tcpEStatsStackSendStall), counted when
    /// the kernel's answer is over.
    pub stalls: u32,
    /// `delivered_ce` was this before the latest answer to a mark or a stall.
    pub delivered_ce_segments: u32,
    /// `snd_una` was this when that began.
    pub began_at: u32,
    /// Keeps the record free of implicit padding.
    pub reserved: u32,
}
record!(Signals, size = 24);

/// The kernel changes a flow's state of congestion control: this is just before it does
/// (`tcp_set_ca_state()`).
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The state before.
    pub from: u8,
    /// The state after.
    pub to: u8,
    /// Timeouts in a row, without the one that may be the reason (`icsk_retransmits`).
    pub retransmits: u8,
    /// The first octet that is not acknowledged (`snd_una`).
    pub unacknowledged: u32,
    /// Segments whose acknowledgement said that the path had marked one (`delivered_ce`).
    pub delivered_ce_segments: u32,
    /// Whether the window follows a stall.
    pub heeds_stalls: bool,
}

/// Whether a change of the state counts as nothing: from open to open, with which each connection begins.
#[inline(always)]
#[must_use]
pub const fn counts_as_nothing(from: u8, to: u8) -> bool {
    from == OPEN && to == OPEN
}

impl Signals {
    /// Counts what a change tells.
    #[inline(always)]
    pub const fn see(&mut self, change: &Change) {
        if change.from == CWR && change.to != CWR {
            self.end_answer(change);
        }
        let is_signal = match change.to {
            // For a mark, or for want of room in a queue (`tcp_enter_cwr()`): which of the
            // two does not show yet, since an ACK is counted behind this from Linux 6.18 on.
            CWR if change.from < CWR => {
                self.began_at = change.unacknowledged;
                change.heeds_stalls
            }
            // The window is on its way down already if it is in CWR
            // (`tcp_enter_recovery()`).
            RECOVERY => change.from != CWR && change.from != RECOVERY,
            // What follows a timeout without an answer changes nothing (`tcp_enter_loss()`).
            LOSS => {
                let is_first = change.retransmits == 0;
                self.timeouts = self.timeouts.wrapping_add(is_first as u32);
                is_first || change.from != LOSS
            }
            _ => false,
        };
        self.congestion = self.congestion.wrapping_add(is_signal as u32);
        if change.to != CWR {
            self.delivered_ce_segments = change.delivered_ce_segments;
        }
    }

    /// Tells what the kernel has answered to. A loss that a probe of the tail has made good
    /// looks as a stall does, but is over on the ACK that told of it
    /// (`tcp_process_tlp_ack()`): else it takes until what was on its way has been
    /// acknowledged.
    #[inline(always)]
    const fn end_answer(&mut self, change: &Change) {
        let is_marked = change.delivered_ce_segments != self.delivered_ce_segments;
        let is_probed = change.to < CWR && change.unacknowledged == self.began_at;
        if !is_marked && !is_probed {
            self.stalls = self.stalls.wrapping_add(1);
        } else if !change.heeds_stalls {
            self.congestion = self.congestion.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CWR, Change, LOSS, OPEN, RECOVERY, Signals, counts_as_nothing};

    const DISORDER: u8 = 1;

    /// Changes of the state, each with what is acknowledged and what was marked by then.
    fn seen(changes: &[(u8, u32, u32)]) -> (u32, u32, u32) {
        seen_by(true, changes)
    }

    fn seen_by(heeds_stalls: bool, changes: &[(u8, u32, u32)]) -> (u32, u32, u32) {
        let mut signals = Signals::default();
        let mut from = OPEN;
        for &(to, unacknowledged, delivered_ce_segments) in changes {
            signals.see(&Change {
                from,
                to,
                retransmits: 0,
                unacknowledged,
                delivered_ce_segments,
                heeds_stalls,
            });
            from = to;
        }
        (signals.congestion, signals.timeouts, signals.stalls)
    }

    #[test]
    fn a_change_from_open_to_open_is_not_counted() {
        for (from, to) in (0..=LOSS).flat_map(|from| (0..=LOSS).map(move |to| (from, to))) {
            let mut signals = Signals::default();
            signals.see(&Change {
                from,
                to,
                retransmits: 0,
                unacknowledged: 1,
                delivered_ce_segments: 0,
                heeds_stalls: true,
            });
            assert!(!counts_as_nothing(from, to) || signals == Signals::default());
        }
        assert!(counts_as_nothing(OPEN, OPEN));
    }

    #[test]
    fn a_loss_is_one_signal_however_it_is_found() {
        assert_eq!(seen(&[(DISORDER, 1, 0), (RECOVERY, 1, 0), (OPEN, 9, 0)]), (1, 0, 0));
        assert_eq!(seen(&[(DISORDER, 1, 0), (OPEN, 9, 0)]), (0, 0, 0));
        // Recovery that fails is another: the window goes to one segment.
        assert_eq!(seen(&[(RECOVERY, 1, 0), (LOSS, 1, 0), (OPEN, 9, 0)]), (2, 1, 0));
    }

    #[test]
    fn a_timeout_behind_another_is_none() {
        let mut signals = Signals::default();
        for retransmits in 0..4 {
            let from = if retransmits == 0 { OPEN } else { LOSS };
            signals.see(&Change {
                from,
                to: LOSS,
                retransmits,
                unacknowledged: 1,
                delivered_ce_segments: 0,
                heeds_stalls: true,
            });
        }
        assert_eq!((signals.congestion, signals.timeouts), (1, 1));
        // The state was left for an ACK that acknowledged nothing.
        signals.see(&Change {
            from: DISORDER,
            to: LOSS,
            retransmits: 4,
            unacknowledged: 1,
            delivered_ce_segments: 0,
            heeds_stalls: true,
        });
        assert_eq!((signals.congestion, signals.timeouts), (2, 1));
    }

    #[test]
    fn a_mark_is_no_stall() {
        // The ACK that tells is counted before, or from Linux 6.18 on behind the change.
        assert_eq!(seen(&[(CWR, 1, 0), (OPEN, 20, 9)]), (1, 0, 0));
        let marked = [(CWR, 1, 3), (OPEN, 20, 9)];
        assert_eq!(seen(&marked), (1, 0, 0));
        let stalled = [(CWR, 30, 9), (OPEN, 50, 9)];
        assert_eq!(seen(&[marked, stalled].concat()), (2, 0, 1));
        // Losses while it goes down take nothing more from the window.
        assert_eq!(seen(&[(CWR, 1, 0), (RECOVERY, 1, 0), (OPEN, 9, 0)]), (1, 0, 1));
    }

    #[test]
    fn a_stall_that_the_law_does_not_heed_is_no_signal() {
        assert_eq!(seen_by(false, &[(CWR, 30, 0), (OPEN, 50, 0)]), (0, 0, 1));
        assert_eq!(seen_by(false, &[(CWR, 30, 1), (OPEN, 50, 2)]), (1, 0, 0));
    }

    #[test]
    fn a_loss_at_the_tail_is_no_stall() {
        assert_eq!(seen(&[(CWR, 30, 0), (OPEN, 30, 0)]), (1, 0, 0));
        assert_eq!(seen_by(false, &[(CWR, 30, 0), (OPEN, 30, 0)]), (1, 0, 0));
        assert_eq!(seen(&[(CWR, 30, 0), (DISORDER, 30, 0), (OPEN, 40, 0)]), (1, 0, 0));
    }
}
