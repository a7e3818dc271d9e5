//! A flow sends: as much as window, buffers and pace allow, in trains.

use super::{Dropped, Flow, Train};
use crate::{
    channel::{Channel, PS_PER_NS, Piece},
    link::Arrivals,
    pacing::{self, UNPACED_SEGMENTS},
};

impl Flow {
    pub(super) fn new_data_left(&self) -> u64 {
        (self.unacknowledged() + self.most_window_segments).saturating_sub(self.next_data)
    }

    /// Sends what window and pace allow now (`tcp_write_xmit()`).
    pub(super) fn send(&mut self, now_ns: u64, channel: &mut Channel) {
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
        let least = self.law.ours().map_or(0, |it| it.least_burst_segments(&self.tcp));
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
    pub(super) fn transmit(
        &mut self,
        now_ns: u64,
        segments: u32,
        spacing_ps: u64,
        channel: &mut Channel,
    ) {
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
