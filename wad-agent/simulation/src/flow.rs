//! A flow: what is on its way, what was lost, and what the kernel does about it. It has all
//! the data in the world to send. Data count segments from 0; transmissions have numbers of their own,
//! in the order in which they were sent.

use std::collections::VecDeque;

use crate::{
    channel::{Channel, PS_PER_NS, Piece},
    holes::Holes,
    law::Law,
    link::Arrivals,
    pacing::{self, Stamp, UNPACED_SEGMENTS},
    recovery::Recovery,
    tcp::{Ack, State, Tcp},
};

/// A segment is lost when one is delivered that was sent so many later...
const REORDERING: u64 = 3;
/// ...or by this part of an RTT later (RACK's window, RFC 8985 section 6.2).
const REORDERING_SHIFT: u32 = 2;
/// A time-out is an RTT and this, the least there is of it (`tcp_rto_min`), doubled
/// each time.
const RTO_MIN_NS: u64 = 200_000_000;
const MOST_BACKOFFS: u32 = 8;

/// Segments sent at one time that are acknowledged at one time.
#[derive(Clone, Copy, Debug)]
struct Train {
    number: u64,
    data: u64,
    segments: u32,
    is_resent: bool,
    sent_ns: u64,
    ack_ns: u64,
}

/// Segments that the path has dropped, and the sender does not know it.
#[derive(Clone, Copy, Debug)]
struct Dropped {
    number: u64,
    data: u64,
    segments: u32,
    sent_ns: u64,
}

/// Data that are to be sent again.
#[derive(Clone, Copy, Debug)]
struct Run {
    data: u64,
    segments: u32,
}

/// The window has gone down, and may have come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decrease {
    pub at_ns: u64,
    /// The window before it.
    pub window_segments: u32,
    /// It was there again so long after.
    pub back_after_ns: Option<u64>,
}

/// A flow.
pub struct Flow {
    law: Box<dyn Law>,
    pub(crate) tcp: Tcp,
    /// The RTT of the path without its queue; a change of the route changes it.
    pub rtt_ns: u64,
    most_window_segments: u64,
    moderation_ns: u64,
    has_begun: bool,
    flying: VecDeque<Train>,
    dropped: VecDeque<Dropped>,
    resend: VecDeque<Run>,
    holes: Holes,
    /// Transmissions so far.
    sent: u64,
    /// New data so far.
    next_data: u64,
    /// All new data before this have come, or are holes.
    frontier: u64,
    delivered: u64,
    lost: u64,
    resent: u64,
    recovery: Option<Recovery>,
    stamp: Stamp,
    /// The flow waits for its pace until then.
    wake_ns: u64,
    /// Something was heard of the path last then.
    progress_ns: u64,
    last_ack_ns: u64,
    has_probed: bool,
    backoffs: u32,
    /// The window counts as used or not until so much is delivered.
    usage_end: u64,
    decrease: Option<Decrease>,
    returned: Option<Decrease>,
}

impl Flow {
    pub(crate) fn new(law: Box<dyn Law>, mss_bytes: u32, rtt_ns: u64, begins_ns: u64) -> Self {
        Self {
            law,
            tcp: Tcp::begin(mss_bytes, rtt_ns),
            rtt_ns,
            most_window_segments: u64::MAX,
            moderation_ns: 0,
            has_begun: false,
            flying: VecDeque::new(),
            dropped: VecDeque::new(),
            resend: VecDeque::new(),
            holes: Holes::default(),
            sent: 0,
            next_data: 0,
            frontier: 0,
            delivered: 0,
            lost: 0,
            resent: 0,
            recovery: None,
            stamp: Stamp::default(),
            wake_ns: begins_ns,
            progress_ns: begins_ns,
            last_ack_ns: 0,
            has_probed: false,
            backoffs: 0,
            usage_end: 0,
            decrease: None,
            returned: None,
        }
    }

    /// Bounds what is on its way; 1 segment at least.
    pub(crate) fn with_window_bytes(self, bytes: u64) -> Self {
        let most_window_segments = (bytes / u64::from(self.tcp.mss_bytes)).max(1);
        Self { most_window_segments, ..self }
    }

    pub(crate) fn with_moderation_ns(self, moderation_ns: u64) -> Self {
        Self { moderation_ns, ..self }
    }

    /// The socket, as its law sees it.
    #[must_use]
    pub const fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    /// Segments that were sent, those sent again included.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Segments that are known to have been delivered.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Segments that are known to have been lost.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Segments that were sent again.
    #[must_use]
    pub const fn resent(&self) -> u64 {
        self.resent
    }

    /// Segments that have arrived by now: their ACKs may be on their way.
    #[must_use]
    pub fn arrived(&self, now_ns: u64) -> u64 {
        let has_arrived = |train: &&Train| train.ack_ns.saturating_sub(self.rtt_ns / 2) <= now_ns;
        let arrived = self.flying.iter().take_while(has_arrived);
        self.delivered + arrived.map(|train| u64::from(train.segments)).sum::<u64>()
    }

    /// The last decrease that the window has come back from; else the last of all.
    #[must_use]
    pub const fn last_decrease(&self) -> Option<Decrease> {
        if self.returned.is_some() { self.returned } else { self.decrease }
    }

    /// When something happens next.
    pub(crate) fn next_ns(&self) -> u64 {
        let ack_ns = self.next_ack_ns();
        ack_ns.min(self.wake_ns).min(self.timer_ns())
    }

    fn next_ack_ns(&self) -> u64 {
        self.flying.front().map_or(u64::MAX, |train| train.ack_ns + self.moderation_ns)
    }

    /// Where all that is on its way was dropped nothing comes any more: a probe, then a time-out.
    fn timer_ns(&self) -> u64 {
        if self.tcp.in_flight_segments == 0 || !self.flying.is_empty() {
            return u64::MAX;
        }
        let srtt_ns = u64::from(self.tcp.srtt_us) * 1000;
        let after_ns = if self.may_probe() {
            2 * srtt_ns
        } else {
            (srtt_ns + RTO_MIN_NS) << self.backoffs.min(MOST_BACKOFFS)
        };
        self.progress_ns + after_ns
    }

    fn may_probe(&self) -> bool {
        self.tcp.state == State::Open && !self.has_probed
    }

    /// Does what is due now.
    pub(crate) fn step(&mut self, now_ns: u64, channel: &mut Channel) {
        self.tcp.now_us = now_ns / 1000;
        if !self.has_begun {
            self.begin();
        }
        if self.next_ack_ns() <= now_ns {
            self.hear(now_ns);
        } else if self.timer_ns() <= now_ns {
            self.progress_ns = now_ns;
            if self.may_probe() {
                self.probe(now_ns, channel);
            } else {
                self.time_out();
            }
        }
        self.send(now_ns, channel);
    }

    fn begin(&mut self) {
        self.has_begun = true;
        self.law.begin(&mut self.tcp);
        if !self.law.is_in_control() {
            pacing::follow(&mut self.tcp);
        }
    }

    /// Takes the ACKs that have come.
    fn hear(&mut self, now_ns: u64) {
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
    fn unacknowledged(&self) -> u64 {
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
        pacing::follow(&mut self.tcp);
    }

    fn end_recovery(&mut self) {
        self.recovery = None;
        if self.tcp.state == State::Recovery && !self.law.is_in_control() {
            self.tcp.cwnd_segments = self.tcp.ssthresh_segments;
        }
        self.tcp.state = State::Open;
    }

    fn ask_for_threshold(&mut self) {
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

    /// Sends a segment beyond the window, so that its ACK tells what was lost.
    fn probe(&mut self, now_ns: u64, channel: &mut Channel) {
        self.has_probed = true;
        if self.new_data_left() == 0
            && let Some(last) = self.dropped.back_mut()
        {
            // What is sent again need not be found lost.
            last.segments -= 1;
            let data = last.data + u64::from(last.segments);
            if last.segments == 0 {
                self.dropped.pop_back();
            }
            self.resend.push_back(Run { data, segments: 1 });
            self.tcp.in_flight_segments -= 1;
            self.lost += 1;
        }
        self.transmit(now_ns, 1, 0, channel);
    }

    /// `tcp_enter_loss()`.
    fn time_out(&mut self) {
        if self.tcp.state == State::Open {
            self.ask_for_threshold();
        }
        while let Some(Dropped { data, segments, .. }) = self.dropped.pop_front() {
            self.resend.push_back(Run { data, segments });
            self.lost += u64::from(segments);
        }
        self.tcp.in_flight_segments = 0;
        self.tcp.cwnd_segments = 1;
        self.tcp.state = State::Loss;
        self.backoffs += 1;
        self.recovery = Some(Recovery::begin(self.next_data));
        self.law.time_out();
    }

    fn new_data_left(&self) -> u64 {
        (self.unacknowledged() + self.most_window_segments).saturating_sub(self.next_data)
    }

    /// Sends what window and pace allow now (`tcp_write_xmit()`).
    fn send(&mut self, now_ns: u64, channel: &mut Channel) {
        self.wake_ns = u64::MAX;
        let before = self.sent;
        loop {
            let room = self.tcp.cwnd_segments.saturating_sub(self.tcp.in_flight_segments);
            let there = match self.resend.front() {
                Some(run) => run.segments.into(),
                None => self.new_data_left(),
            };
            let most = there.min(room.into()) as u32;
            if most == 0 {
                break;
            }
            if !self.tcp.is_paced || self.sent < UNPACED_SEGMENTS {
                let most = if self.tcp.is_paced {
                    most.min((UNPACED_SEGMENTS - self.sent) as u32)
                } else {
                    most
                };
                self.transmit(now_ns, most, 0, channel);
                continue;
            }
            if self.stamp.next_ns() > now_ns {
                self.wake_ns = self.stamp.next_ns();
                break;
            }
            self.send_paced(now_ns, most, channel);
        }
        let is_limited = self.tcp.in_flight_segments >= self.tcp.cwnd_segments;
        if self.sent > before || is_limited {
            self.note_usage(is_limited);
        }
    }

    /// Sends a burst, or where several go in the time of a train, all of them.
    fn send_paced(&mut self, now_ns: u64, most: u32, channel: &mut Channel) {
        let rate = self.tcp.pacing_bytes_per_second.max(1);
        let mss = u64::from(self.tcp.mss_bytes);
        let least = self.law.least_burst_segments(&self.tcp);
        let burst = pacing::burst_segments(&self.tcp, least);
        let moment_bytes = u128::from(rate) * u128::from(self.moderation_ns) / 1_000_000_000;
        let bursts = moment_bytes as u64 / mss / u64::from(burst);
        let segments = most.min(u32::try_from(bursts.max(1) * u64::from(burst)).unwrap_or(most));
        let spacing_ps = if bursts > 1 {
            (u128::from(mss) * 1_000_000_000_000 / u128::from(rate)) as u64
        } else {
            0
        };
        self.transmit(now_ns, segments, spacing_ps, channel);
        self.stamp.send(now_ns, u64::from(segments) * mss, rate);
    }

    /// Sends so many segments, what was lost before what is new.
    fn transmit(&mut self, now_ns: u64, segments: u32, spacing_ps: u64, channel: &mut Channel) {
        let is_resent = !self.resend.is_empty();
        let mut data = self.next_data;
        if let Some(run) = self.resend.front_mut() {
            data = run.data;
            run.data += u64::from(segments);
            run.segments -= segments;
            if run.segments == 0 {
                self.resend.pop_front();
            }
            self.resent += u64::from(segments);
            self.tcp.retransmitted_segments =
                self.tcp.retransmitted_segments.wrapping_add(segments);
        } else {
            self.next_data += u64::from(segments);
        }
        if self.tcp.in_flight_segments == 0 {
            self.progress_ns = now_ns;
        }
        self.tcp.in_flight_segments += segments;
        if let Some(recovery) = &mut self.recovery {
            recovery.sent += u64::from(segments);
        }
        let coming = Arrivals { first_ps: now_ns * PS_PER_NS, spacing_ps, packets: segments };
        let mut number = self.sent;
        self.sent += u64::from(segments);
        let mut pieces = Vec::new();
        channel.carry(coming, |piece| pieces.push(piece));
        for piece in pieces {
            let segments = match piece {
                Piece::Passes { segments, leaves_ps } => {
                    let train =
                        Train { number, data, segments, is_resent, sent_ns: now_ns, ack_ns: 0 };
                    self.fly(train, (leaves_ps, spacing_ps), channel);
                    segments
                }
                Piece::Lost { segments } => {
                    if !is_resent {
                        self.holes.open(data, segments);
                    }
                    let sent_ns = now_ns;
                    self.dropped.push_back(Dropped { number, data, segments, sent_ns });
                    segments
                }
            };
            number += u64::from(segments);
            data += u64::from(segments);
        }
    }

    /// Has segments on their way, in trains that are no longer than they may be. The last bit of
    /// all leaves the bottleneck then.
    fn fly(&mut self, all: Train, (leaves_ps, spacing_ps): (u64, u64), channel: &mut Channel) {
        let apart_ps = channel.packet_ps().max(spacing_ps);
        let mut left = all.segments;
        let (mut number, mut data) = (all.number, all.data);
        while left > 0 {
            let segments = left.min(channel.train_segments());
            left -= segments;
            let leaves_ns = (leaves_ps - u64::from(left) * apart_ps) / PS_PER_NS;
            let ack_ns = leaves_ns + self.rtt_ns + channel.jitter_ns();
            // ACKs stay in order.
            let ack_ns = ack_ns.max(self.last_ack_ns);
            self.last_ack_ns = ack_ns;
            self.flying.push_back(Train { number, data, segments, ack_ns, ..all });
            number += u64::from(segments);
            data += u64::from(segments);
        }
    }

    /// `tcp_cwnd_validate()`.
    fn note_usage(&mut self, is_limited: bool) {
        let tcp = &mut self.tcp;
        let is_next = self.delivered >= self.usage_end;
        let is_more = !tcp.is_cwnd_limited && tcp.in_flight_segments > tcp.max_packets_out;
        if is_next || is_limited || is_more {
            tcp.is_cwnd_limited = is_limited;
            tcp.max_packets_out = tcp.in_flight_segments;
            self.usage_end = self.delivered + u64::from(tcp.in_flight_segments);
        }
    }
}
