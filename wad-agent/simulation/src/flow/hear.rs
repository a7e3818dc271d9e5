//! A flow hears: what ACKs tell, and where the kernel goes from there.

use super::{Decrease, Flow, Run, Train};
use crate::{
    pacing,
    recovery::Recovery,
    tcp::{Ack, State},
};

/// A segment is lost when one is delivered that was sent so many later...
const REORDERING: u64 = 3;
/// ...or by this part of an RTT later (RACK's window, RFC 8985 section 6.2).
const REORDERING_SHIFT: u32 = 2;

impl Flow {
    /// Takes the ACKs that have come.
    pub(super) fn hear(&mut self, now_ns: u64) {
        let (mut acked, mut fills) = (0, false);
        let mut newest = None;
        while let Some(train) = self.flying.pop_front_if(|train| train.ack_ns <= now_ns) {
            acked += train.segments;
            if train.is_resent {
                self.holes.fill(train.data, train.segments);
                fills = true;
            } else {
                self.frontier = train.data + u64::from(train.segments);
            }
            newest = Some(train);
        }
        let Some(newest) = newest else { return };
        (self.progress_ns, self.has_probed, self.backoffs) = (now_ns, false, 0);
        self.delivered += u64::from(acked);
        let lost = self.find_lost(&newest);
        self.tcp.in_flight_segments -= acked + lost;
        self.lost += u64::from(lost);
        self.tcp.delivered_segments = self.delivered as u32;
        let rtt_us = ((now_ns - newest.sent_ns) / 1000) as u32;
        let rtt_us = (!newest.is_resent).then_some(rtt_us);
        if let Some(rtt_us) = rtt_us {
            self.tcp.note_rtt(rtt_us);
        }
        self.advance(&Ack { acked_segments: acked, lost_segments: lost, rtt_us }, fills);
        self.note_return(now_ns);
    }

    /// Returns how many are known to be lost now, since this was delivered.
    fn find_lost(&mut self, newest: &Train) -> u32 {
        let last = newest.number + u64::from(newest.segments) - 1;
        let window_ns = (u64::from(self.tcp.srtt_us) * 1000) >> REORDERING_SHIFT;
        let mut lost = 0;
        while let Some(dropped) = self.dropped.front_mut() {
            let is_older = dropped.sent_ns + window_ns < newest.sent_ns;
            let end = if is_older { last + 1 } else { (last + 1).saturating_sub(REORDERING) };
            let found = end.saturating_sub(dropped.number);
            let found = found.min(dropped.segments.into()) as u32;
            if found == 0 {
                break;
            }
            lost += found;
            self.resend.push_back(Run { data: dropped.data, segments: found });
            if found < dropped.segments {
                dropped.number += u64::from(found);
                dropped.data += u64::from(found);
                dropped.segments -= found;
                break;
            }
            self.dropped.pop_front();
        }
        lost
    }

    /// The first segment that the receiver lacks.
    pub(super) fn unacknowledged(&self) -> u64 {
        self.holes.first().map_or(self.frontier, |hole| hole.min(self.frontier))
    }

    /// Goes on to where an ACK leads (`tcp_fastretrans_alert()`, `tcp_cong_control()`).
    fn advance(&mut self, ack: &Ack, fills: bool) {
        if self.recovery.is_some_and(|it| self.unacknowledged() >= it.until_data) {
            self.end_recovery();
        }
        if self.tcp.state == State::Open && !self.resend.is_empty() {
            self.ask_for_threshold();
            self.tcp.state = State::Recovery;
            self.recovery = Some(Recovery::begin(self.next_data));
        }
        if self.law.is_in_control() {
            self.law.on_ack(&mut self.tcp, ack);
            return;
        }
        match &mut self.recovery {
            Some(recovery) if self.tcp.state == State::Recovery => {
                let fills = fills && ack.lost_segments == 0;
                recovery.reduce(&mut self.tcp, ack.acked_segments, fills);
            }
            _ => self.law.on_ack(&mut self.tcp, ack),
        }
        self.follow_window();
    }

    /// Has the pace go by the window.
    pub(super) fn follow_window(&mut self) {
        let packets_out = u32::try_from(self.next_data - self.unacknowledged()).unwrap_or(u32::MAX);
        pacing::follow(&mut self.tcp, packets_out);
        if let Some(parameters) = self.law.ours() {
            let window = parameters.bounded_window(&self.tcp, 0);
            let is_rapid = self.law.is_rapid(&self.tcp);
            pacing::follow_window(&mut self.tcp, &window, packets_out, is_rapid);
        }
    }

    fn end_recovery(&mut self) {
        self.recovery = None;
        if self.tcp.state == State::Recovery && !self.law.is_in_control() {
            self.tcp.cwnd_segments = self.tcp.ssthresh_segments;
        }
        self.tcp.state = State::Open;
    }

    pub(super) fn ask_for_threshold(&mut self) {
        let window_segments = self.tcp.cwnd_segments;
        self.tcp.prior_cwnd_segments = window_segments;
        self.tcp.ssthresh_segments = self.law.ssthresh(&self.tcp);
        let at_ns = self.tcp.now_us * 1000;
        self.decrease = Some(Decrease { at_ns, window_segments, back_after_ns: None });
    }

    fn note_return(&mut self, now_ns: u64) {
        if self.tcp.state != State::Open {
            return;
        }
        let is_back = |it: &Decrease| self.tcp.cwnd_segments >= it.window_segments;
        if let Some(decrease) = self.decrease.filter(is_back) {
            let back_after_ns = Some(now_ns - decrease.at_ns);
            self.returned = Some(Decrease { back_after_ns, ..decrease });
            self.decrease = None;
        }
    }
}
