//! CUBIC is simulated as Linux has it: RFC 9438 with HyStart and proportional rate
//! reduction.

use super::{Ack, Control};

const C: f64 = 0.4;
const BETA: f64 = 717.0 / 1024.0;

/// The kernel's `tcp_cubic.c`, under its loss recovery.
pub struct Kernel {
    cwnd: f64,
    ssthresh: f64,
    w_max: f64,
    w_est: f64,
    k: f64,
    epoch_s: Option<f64>,
    recovery_end: Option<u32>,
    prr: Prr,
    hystart: HyStart,
}

#[derive(Default)]
struct Prr {
    prior: f64,
    delivered: f64,
    out: f64,
}

struct HyStart {
    found: bool,
    round_end: u32,
    round_start_us: u64,
    last_ack_us: u64,
    samples: u32,
    current_us: u32,
    min_us: u32,
}

impl Kernel {
    pub fn cubic() -> Self {
        Self {
            cwnd: 10.0,
            ssthresh: f64::INFINITY,
            w_max: 0.0,
            w_est: 0.0,
            k: 0.0,
            epoch_s: None,
            recovery_end: None,
            prr: Prr::default(),
            hystart: HyStart {
                found: false,
                round_end: 0,
                round_start_us: 0,
                last_ack_us: 0,
                samples: 0,
                current_us: u32::MAX,
                min_us: u32::MAX,
            },
        }
    }

    fn reduce(&mut self) {
        self.epoch_s = None;
        self.w_max =
            if self.cwnd < self.w_max { self.cwnd * f64::midpoint(1.0, BETA) } else { self.cwnd };
        self.ssthresh = (self.cwnd * BETA).max(2.0);
    }

    fn avoid(&mut self, ack: &Ack) {
        let acked = f64::from(ack.acked);
        let now = ack.now_us as f64 / 1e6;
        let epoch = *self.epoch_s.get_or_insert_with(|| {
            self.w_est = self.cwnd;
            if self.w_max <= self.cwnd {
                self.k = 0.0;
                self.w_max = self.cwnd;
            } else {
                self.k = ((self.w_max - self.cwnd) / C).cbrt();
            }
            now
        });
        let rtt = f64::from(self.hystart.min_us) / 1e6;
        let target = self.w_max + C * (now + rtt - epoch - self.k).powi(3);
        let target = target.clamp(self.cwnd, self.cwnd * 1.5);
        self.w_est += 3.0 * (1.0 - BETA) / (1.0 + BETA) * acked / self.cwnd;
        let target = target.max(self.w_est);
        let increase = (target - self.cwnd).max(0.01);
        self.cwnd += (increase / self.cwnd * acked).min(acked / 2.0);
    }

    fn slow_start(&mut self, ack: &Ack) {
        self.hystart(ack);
        self.cwnd += f64::from(ack.acked);
        if self.cwnd > self.ssthresh {
            self.cwnd = self.ssthresh;
        }
    }

    /// Does as the kernel's `hystart_update()`: ACK train and delay.
    fn hystart(&mut self, ack: &Ack) {
        let h = &mut self.hystart;
        if (ack.delivered.wrapping_sub(h.round_end) as i32) >= 0 {
            h.round_end = ack.delivered + ack.in_flight;
            h.round_start_us = ack.now_us;
            h.last_ack_us = ack.now_us;
            h.samples = 0;
            h.current_us = u32::MAX;
        }
        if h.found || self.cwnd < 16.0 {
            return;
        }
        if ack.now_us - h.last_ack_us <= 2000 {
            h.last_ack_us = ack.now_us;
            if ack.now_us - h.round_start_us > u64::from(h.min_us / 2) {
                h.found = true;
            }
        }
        h.current_us = h.current_us.min(ack.rtt_us);
        h.samples += 1;
        if h.samples >= 8 && h.current_us > h.min_us + (h.min_us / 8).clamp(4000, 16000) {
            h.found = true;
        }
        if h.found {
            self.ssthresh = self.cwnd;
        }
    }
}

impl Control for Kernel {
    fn on_ack(&mut self, ack: &Ack) {
        if ack.rtt_us > 0 {
            self.hystart.min_us = self.hystart.min_us.min(ack.rtt_us);
        }
        if let Some(end) = self.recovery_end {
            if (ack.delivered.wrapping_sub(end) as i32) >= 0 {
                self.recovery_end = None;
                self.cwnd = self.ssthresh;
            }
        } else if ack.lost > 0 {
            self.prr = Prr { prior: self.cwnd, delivered: 0.0, out: 0.0 };
            self.reduce();
            self.recovery_end = Some(ack.delivered + ack.in_flight);
        }
        if self.recovery_end.is_some() {
            // tcp_cwnd_reduction()
            let in_flight = f64::from(ack.in_flight);
            let acked = f64::from(ack.acked);
            self.prr.delivered += acked;
            let sendable = if in_flight > self.ssthresh {
                (self.prr.delivered * self.ssthresh / self.prr.prior).ceil() - self.prr.out
            } else {
                (self.ssthresh - in_flight)
                    .min((self.prr.delivered - self.prr.out).max(acked) + 1.0)
            };
            self.cwnd = in_flight + sendable.max(0.0);
        } else if self.cwnd < self.ssthresh {
            self.slow_start(ack);
        } else {
            self.avoid(ack);
        }
    }

    fn on_timeout(&mut self, _: &Ack) {
        self.reduce();
        self.recovery_end = None;
        self.cwnd = 1.0;
    }

    fn sent(&mut self) {
        self.prr.out += 1.0;
    }

    fn cwnd(&self) -> u32 {
        self.cwnd as u32
    }
}
