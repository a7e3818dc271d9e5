//! CUBIC as Linux has it (`tcp_cubic.c` of Linux 6.18): RFC 9438 with HyStart, by ACK train and
//! by delay. Windows in segments, in floating point, times in seconds.

use wad_common::law::MIN_WINDOW_SEGMENTS;

use super::{Law, Parameters};
use crate::tcp::{Ack, Tcp};

const C: f64 = 0.4;
/// `beta`: a loss leaves so much.
const BETA: f64 = 717.0 / 1024.0;
/// The standard law with the same share (RFC 9438 section 4.3) adds so much in an RTT.
const FRIENDLY: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Before the first loss a window grows by a 20th in an RTT at least.
const FIRST_COUNT: f64 = 20.0;
/// The window is looked at anew after so long, where it has not changed.
const LOOK_S: f64 = 1.0 / 32.0;

/// The window from which on HyStart looks.
const HYSTART_LEAST_SEGMENTS: u32 = 16;
/// ACKs that are closer are a train.
const HYSTART_TRAIN_US: u64 = 2000;
/// Samples of the RTT in a round.
const HYSTART_SAMPLES: u32 = 8;
/// The delay that tells of a queue is within these.
const HYSTART_DELAY_US: (u32, u32) = (4000, 16_000);
/// The time that bursts of 64 KiB take at a flow's own rate counts up to this.
const HYSTART_MOST_BURST_US: u64 = 1000;
const BURST_BYTES: u64 = 65_536;

/// A flow under it.
pub struct Cubic {
    parameters: Parameters,
    last_max: f64,
    origin: f64,
    k: f64,
    epoch_s: Option<f64>,
    /// The window of the standard law.
    friendly: f64,
    /// An ACK of so many segments adds one.
    count: f64,
    credit: f64,
    looked: (u32, f64),
    hystart: HyStart,
}

#[derive(Debug, Default)]
struct HyStart {
    found: bool,
    /// The round ends when so many have been delivered.
    round_end: u32,
    round_start_us: u64,
    last_ack_us: u64,
    samples: u32,
    least_us: u32,
}

impl Cubic {
    pub fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            last_max: 0.0,
            origin: 0.0,
            k: 0.0,
            epoch_s: None,
            friendly: 0.0,
            count: 0.0,
            credit: 0.0,
            looked: (0, 0.0),
            hystart: HyStart::default(),
        }
    }

    /// `bictcp_update()`.
    fn update(&mut self, tcp: &Tcp, acked: f64) {
        let (cwnd, now) = (f64::from(tcp.cwnd_segments), tcp.now_us as f64 / 1e6);
        if self.epoch_s.is_some() {
            self.friendly += FRIENDLY * acked / cwnd;
        }
        if self.looked.0 == tcp.cwnd_segments && now - self.looked.1 <= LOOK_S {
            return;
        }
        self.looked = (tcp.cwnd_segments, now);
        let epoch = *self.epoch_s.get_or_insert_with(|| {
            self.friendly = cwnd;
            if self.last_max <= cwnd {
                (self.k, self.origin) = (0.0, cwnd);
            } else {
                (self.k, self.origin) = (((self.last_max - cwnd) / C).cbrt(), self.last_max);
            }
            now
        });
        let t = now + f64::from(tcp.min_rtt_us) / 1e6 - epoch;
        let target = self.origin + C * (t - self.k).powi(3);
        self.count = if target > cwnd { cwnd / (target - cwnd) } else { 100.0 * cwnd };
        if self.last_max <= 0.0 {
            self.count = self.count.min(FIRST_COUNT);
        }
        if self.friendly > cwnd {
            self.count = self.count.min(cwnd / (self.friendly - cwnd));
        }
        self.count = self.count.max(2.0);
    }

    /// `hystart_update()`.
    fn find_end(&mut self, tcp: &mut Tcp, rtt_us: u32) {
        let hystart = &mut self.hystart;
        if (tcp.delivered_segments.wrapping_sub(hystart.round_end) as i32) >= 0 {
            *hystart = HyStart {
                found: hystart.found,
                round_end: tcp.delivered_segments.wrapping_add(tcp.in_flight_segments),
                round_start_us: tcp.now_us,
                last_ack_us: tcp.now_us,
                samples: 0,
                least_us: u32::MAX,
            };
        }
        if tcp.now_us - hystart.last_ack_us <= HYSTART_TRAIN_US {
            hystart.last_ack_us = tcp.now_us;
            let rate = tcp.pacing_bytes_per_second;
            let burst_us = (BURST_BYTES * 4_000_000).checked_div(rate).unwrap_or(0);
            let longest_us = u64::from(tcp.min_rtt_us) + burst_us.min(HYSTART_MOST_BURST_US);
            let longest_us = if tcp.is_paced { longest_us } else { longest_us / 2 };
            hystart.found |= tcp.now_us - hystart.round_start_us > longest_us;
        }
        hystart.least_us = hystart.least_us.min(rtt_us);
        if hystart.samples < HYSTART_SAMPLES {
            hystart.samples += 1;
        } else {
            let (least_us, most_us) = HYSTART_DELAY_US;
            let queue_us = (tcp.min_rtt_us / 8).clamp(least_us, most_us);
            hystart.found |= hystart.least_us > tcp.min_rtt_us + queue_us;
        }
        if hystart.found {
            tcp.ssthresh_segments = tcp.cwnd_segments;
        }
    }
}

impl Law for Cubic {
    fn begin(&mut self, tcp: &mut Tcp) {
        self.parameters.begin(tcp);
    }

    fn on_ack(&mut self, tcp: &mut Tcp, ack: &Ack) {
        let is_large = tcp.cwnd_segments >= HYSTART_LEAST_SEGMENTS;
        if let Some(rtt_us) = ack.rtt_us
            && !self.hystart.found
            && tcp.in_slow_start()
            && is_large
        {
            self.find_end(tcp, rtt_us);
        }
        if tcp.cwnd_segments >= tcp.entitled_segments() {
            return;
        }
        let mut acked = ack.acked_segments;
        if tcp.in_slow_start() {
            let grown = tcp.cwnd_segments.saturating_add(acked).min(tcp.ssthresh_segments);
            acked -= grown - tcp.cwnd_segments;
            tcp.cwnd_segments = grown;
        }
        if acked == 0 {
            return;
        }
        self.update(tcp, acked.into());
        // `tcp_cong_avoid_ai()`.
        self.credit += f64::from(acked) / self.count;
        let whole = self.credit.floor();
        self.credit -= whole;
        tcp.cwnd_segments = tcp.cwnd_segments.saturating_add(whole as u32);
    }

    fn ssthresh(&mut self, tcp: &Tcp) -> u32 {
        let cwnd = f64::from(tcp.cwnd_segments);
        self.epoch_s = None;
        self.last_max = if cwnd < self.last_max { cwnd * f64::midpoint(1.0, BETA) } else { cwnd };
        ((cwnd * BETA) as u32).max(MIN_WINDOW_SEGMENTS)
    }

    fn time_out(&mut self) {
        *self = Self::new(self.parameters);
    }
}
