//! A flow over a bottleneck, simulated RTT by RTT with the laws that run in the
//! kernel: deterministic, and quick at any window.
//!
//! Each RTT acknowledges one window at once, which the laws count as they count
//! single segments. An RTT with a loss is followed by one of recovery, in which
//! nothing grows. A queue lengthens the RTT, and is full at its limit.

use wad_common::law::{Aimd, Window};

/// Says where a path is narrowest.
#[derive(Clone, Copy, Debug)]
pub struct Bottleneck {
    /// Bandwidth-delay product: the window that fills it.
    pub bdp_segments: u32,
    /// Segments that are queued there before a segment is lost.
    pub queue_segments: u32,
    /// Round trip time without a queue.
    pub rtt_seconds: f64,
}

/// Losses are what the path loses by itself.
#[derive(Clone, Copy, Debug)]
pub enum Losses {
    /// One segment, in the RTT of this number.
    Once(u64),
    /// One segment of so many; of infinitely many, none.
    OneIn(f64),
}

/// Holds one RTT of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rtt {
    pub number: u64,
    /// When it begins.
    pub at_seconds: f64,
    pub seconds: f64,
    pub cwnd_segments: u32,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Growth,
    Loss,
    Recovery,
}

/// A flow: an endless series of RTTs.
pub struct Flow<'a> {
    law: &'a dyn Fn(u32) -> Aimd,
    bottleneck: Bottleneck,
    losses: Losses,
    window: Window,
    sent_since_loss: f64,
    next: Rtt,
}

impl<'a> Flow<'a> {
    /// Makes a simulation that begins with this window and threshold.
    pub fn new(
        law: &'a dyn Fn(u32) -> Aimd,
        bottleneck: Bottleneck,
        losses: Losses,
        window: Window,
    ) -> Self {
        let next = Rtt {
            number: 0,
            at_seconds: 0.0,
            seconds: bottleneck.rtt_seconds,
            cwnd_segments: window.cwnd_segments,
            what: What::Growth,
        };
        Self { law, bottleneck, losses, window, sent_since_loss: 0.0, next }
    }

    fn loses(&mut self, number: u64) -> bool {
        let Bottleneck { bdp_segments, queue_segments, .. } = self.bottleneck;
        let cwnd_segments = self.window.cwnd_segments;
        let random = match self.losses {
            Losses::Once(at) => number == at,
            Losses::OneIn(segments) => {
                self.sent_since_loss += f64::from(cwnd_segments);
                let lost = self.sent_since_loss >= segments;
                if lost {
                    self.sent_since_loss -= segments;
                }
                lost
            }
        };
        random || cwnd_segments > bdp_segments.saturating_add(queue_segments)
    }
}

impl Iterator for Flow<'_> {
    type Item = Rtt;

    fn next(&mut self) -> Option<Rtt> {
        let cwnd_segments = self.window.cwnd_segments;
        let law = (self.law)(cwnd_segments);
        let number = self.next.number;
        let what = if self.next.what == What::Loss {
            What::Recovery
        } else if self.loses(number) {
            let kept = law.on_congestion(cwnd_segments);
            self.window = Window {
                cwnd_segments: kept,
                ssthresh_segments: kept,
                credit_q16: 0,
                ..self.window
            };
            What::Loss
        } else {
            self.window = law.on_ack(self.window, cwnd_segments);
            What::Growth
        };
        let queue = f64::from(cwnd_segments) / f64::from(self.bottleneck.bdp_segments.max(1));
        let seconds = self.bottleneck.rtt_seconds * queue.max(1.0);
        let rtt = Rtt { seconds, cwnd_segments, what, ..self.next };
        self.next = Rtt { number: number + 1, at_seconds: rtt.at_seconds + seconds, ..rtt };
        Some(rtt)
    }
}

/// A window that is all the path takes, outside slow start.
pub const fn full(bdp_segments: u32) -> Window {
    Window {
        cwnd_segments: bdp_segments,
        ssthresh_segments: bdp_segments,
        clamp_segments: u32::MAX,
        max_ssthresh_segments: u32::MAX,
        credit_q16: 0,
    }
}

/// RTTs from a single loss at a window that just fills the path, without any
/// queue, until the window is that large again: DataTAG's responsiveness. The
/// RTT of recovery counts; the one in which the loss happens does not.
pub fn recovery_rtts(law: &dyn Fn(u32) -> Aimd, bdp_segments: u32) -> u64 {
    let bottleneck = Bottleneck { bdp_segments, queue_segments: u32::MAX, rtt_seconds: 1.0 };
    let at_bdp = law(bdp_segments);
    let mut rtts = 0;
    for rtt in Flow::new(law, bottleneck, Losses::Once(0), full(bdp_segments)).skip(1) {
        if rtt.cwnd_segments >= bdp_segments {
            break;
        }
        rtts += 1;
        // From where the law stays the same, the rest is a division: standard
        // TCP would take two million RTTs at 400 Gbit/s.
        let window_q16 = u64::from(rtt.cwnd_segments) << 16;
        let increase_q16 = u64::from(at_bdp.increase_q16);
        if law(rtt.cwnd_segments) == at_bdp && increase_q16 <= window_q16 {
            let missing_q16 = (u64::from(bdp_segments) << 16) - window_q16;
            rtts += missing_q16.div_ceil(increase_q16);
            // This RTT was one of them, but in recovery nothing grows.
            return if rtt.what == What::Recovery { rtts } else { rtts - 1 };
        }
    }
    rtts
}

/// Mean window on an endlessly wide path that loses one segment in
/// `1 / loss`: from the fifth loss to the fifty-fifth.
pub fn mean_window_segments(law: &dyn Fn(u32) -> Aimd, loss: f64, start_segments: f64) -> f64 {
    let bottleneck = Bottleneck { bdp_segments: u32::MAX, queue_segments: 0, rtt_seconds: 1.0 };
    let start = full(start_segments as u32);
    let (mut losses, mut windows, mut rtts) = (0, 0.0, 0.0);
    for rtt in Flow::new(law, bottleneck, Losses::OneIn(1.0 / loss), start) {
        losses += u32::from(rtt.what == What::Loss);
        if losses > 55 {
            break;
        }
        if losses > 5 {
            windows += f64::from(rtt.cwnd_segments);
            rtts += 1.0;
        }
    }
    windows / rtts
}
