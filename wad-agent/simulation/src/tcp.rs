//! A sender's socket, as far as a law reads and writes it: fields of the kernel's `tcp_sock`.

use wad_common::law::{INFINITE_SSTHRESH, INITIAL_WINDOW_SEGMENTS, Sample, Window};

/// Where the kernel is with a flow (`enum tcp_ca_state`), as far as it is anywhere here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Open,
    /// Losses are being repaired.
    Recovery,
    /// A time-out has taken all that was on its way for lost.
    Loss,
}

/// An ACK, or some that are looked at together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Segments newly delivered.
    pub acked_segments: u32,
    /// Segments newly deemed lost.
    pub lost_segments: u32,
    /// RTT of the newest of them; None where it was sent again.
    pub rtt_us: Option<u32>,
}

/// The socket.
#[derive(Clone, Debug)]
pub struct Tcp {
    pub now_us: u64,
    pub mss_bytes: u32,
    pub state: State,
    pub cwnd_segments: u32,
    pub ssthresh_segments: u32,
    /// The window when the law was last asked for a threshold.
    pub prior_cwnd_segments: u32,
    /// Smoothed RTT.
    pub srtt_us: u32,
    pub latest_rtt_us: u32,
    pub min_rtt_us: u32,
    pub in_flight_segments: u32,
    /// Segments delivered so far; wraps, as those sent again do.
    pub delivered_segments: u32,
    pub retransmitted_segments: u32,
    /// Whether the window held the flow back when last it was full.
    pub is_cwnd_limited: bool,
    /// The most that was on its way in that window.
    pub max_packets_out: u32,
    pub is_paced: bool,
    pub pacing_bytes_per_second: u64,
    /// A bound that the application or the policy has set.
    pub max_pacing_bytes_per_second: u64,
}

impl Tcp {
    /// A flow whose handshake took an RTT.
    pub(crate) fn begin(mss_bytes: u32, rtt_ns: u64) -> Self {
        let rtt_us = u32::try_from(rtt_ns / 1000).unwrap_or(u32::MAX).max(1);
        Self {
            now_us: 0,
            mss_bytes,
            state: State::Open,
            cwnd_segments: INITIAL_WINDOW_SEGMENTS,
            ssthresh_segments: INFINITE_SSTHRESH,
            prior_cwnd_segments: 0,
            srtt_us: rtt_us,
            latest_rtt_us: rtt_us,
            min_rtt_us: rtt_us,
            in_flight_segments: 0,
            delivered_segments: 0,
            retransmitted_segments: 0,
            is_cwnd_limited: false,
            max_packets_out: 0,
            is_paced: false,
            pacing_bytes_per_second: 0,
            max_pacing_bytes_per_second: u64::MAX,
        }
    }

    /// Whether the window doubles (`tcp_in_slow_start()`).
    #[must_use]
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd_segments < self.ssthresh_segments
    }

    /// The window, which nothing bounds.
    #[must_use]
    pub const fn window(&self, credit_q16: u64) -> Window {
        Window {
            cwnd_segments: self.cwnd_segments,
            ssthresh_segments: self.ssthresh_segments,
            clamp_segments: u32::MAX,
            max_ssthresh_segments: u32::MAX,
            credit_q16,
        }
    }

    /// The window that the flow's use of it entitles it to, as the BPF programs have it.
    #[must_use]
    pub const fn entitled_segments(&self) -> u32 {
        if self.is_cwnd_limited {
            u32::MAX
        } else if self.in_slow_start() {
            self.max_packets_out.saturating_mul(2)
        } else {
            0
        }
    }

    /// Returns what a law with window and pacing rate to itself learns from an ACK.
    #[must_use]
    pub fn sample(&self, ack: &Ack) -> Sample {
        Sample {
            now_us: self.now_us,
            rtt_us: ack.rtt_us,
            acked_segments: ack.acked_segments,
            delivered_segments: self.delivered_segments,
            in_flight_segments: self.in_flight_segments,
            entitled_segments: self.entitled_segments(),
            is_reducing: self.state == State::Recovery,
        }
    }

    pub(crate) fn note_rtt(&mut self, rtt_us: u32) {
        let rtt_us = rtt_us.max(1);
        self.latest_rtt_us = rtt_us;
        self.min_rtt_us = self.min_rtt_us.min(rtt_us);
        self.srtt_us = ((u64::from(self.srtt_us) * 7 + u64::from(rtt_us)) / 8) as u32;
    }

    /// Sets the rate within its bound.
    pub(crate) fn pace_at(&mut self, bytes_per_second: u64) {
        self.pacing_bytes_per_second = bytes_per_second.min(self.max_pacing_bytes_per_second);
    }
}
