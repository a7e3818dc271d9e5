//! Flows show this of their path: what they got, from one look to the next and until
//! their end.

use std::time::Duration;

use wad_common::{event::Event, progress::Progress};

/// The least part of the time between two looks that counts as busy, in percent: a
/// flow that was busy for so much of it, neither its peer's window nor its own buffer
/// in the way, was held back by the path.
const BUSY_PERCENT: u64 = 90;

/// The least part of its best second that a flow receives in all of them, where its
/// sender has no pauses.
const STEADY: f64 = 0.5;

/// The kernel's own for a flow's least RTT (`tcp_min_rtt_wlen`).
const RTT_WINDOW: Duration = Duration::from_secs(300);

/// Holds what flows of one path show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shown {
    /// Payload that was delivered.
    pub bits_per_second: Option<f64>,
    pub rtt_seconds: Option<f64>,
    /// Whether nothing but the path held one of them back.
    pub is_free: bool,
}

impl Shown {
    /// Returns what is shown by a flow at its end.
    pub fn at_end(event: &Event) -> Self {
        let Event { flow, time_ns, bytes_acked, bytes_received, min_rtt_us, .. } = event;
        let begun_ns = flow.established_ns.max(flow.matched_ns);
        let lived = Duration::from_nanos(time_ns.saturating_sub(begun_ns));
        // Who only receives has the handshake's RTT.
        let is_old = bytes_received > bytes_acked && lived > RTT_WINDOW;
        let rtt_seconds = rtt(*min_rtt_us).filter(|_| !is_old);
        let sent = Self {
            bits_per_second: rate(event.delivered_segments, event.mss_bytes, event.delivered_in_us),
            rtt_seconds,
            is_free: false,
        };
        // It took a round trip at least.
        let seconds = lived.as_secs_f64().max(rtt(*min_rtt_us).unwrap_or(0.0));
        sent.and(Self::arrived(flow.arrivals.most_bytes_per_second))
            .and(Self::at_rate(*bytes_received, seconds))
    }

    /// Returns what is shown by a flow that has come since the look before: its
    /// handshake's RTT. Nobody knows how long its bytes took.
    pub fn new_flow(now: &Progress) -> Self {
        Self { rtt_seconds: rtt(now.min_rtt_us), ..Self::default() }
    }

    /// Returns what is shown by a flow that runs, some time after it was seen last.
    pub fn now(before: &Progress, now: &Progress, elapsed_seconds: f64) -> Self {
        let moved = Moved::between(before, now);
        let mut shown = Self::default();
        if moved.sent_bytes > 0 {
            shown = Self {
                bits_per_second: rate(now.delivered_segments, now.mss_bytes, now.delivered_in_us),
                rtt_seconds: rtt(now.min_rtt_us),
                is_free: is_free(before, now),
            };
        }
        if moved.received_bytes > 0 {
            shown = shown.and(Self::arrived(now.arrived_bytes_per_second));
        }
        // The least RTT is as old as what was acknowledged last: the handshake, where the
        // flow only receives.
        if moved.sent_bytes == 0 && arrives_steadily(moved, now, elapsed_seconds) {
            shown.rtt_seconds = receiving_rtt(now);
        }
        shown
    }

    /// Returns what is shown by data that arrived.
    fn arrived(bytes_per_second: u64) -> Self {
        Self::at_rate(bytes_per_second, 1.0)
    }

    /// Returns what is shown by so many bytes in a time.
    pub fn at_rate(bytes: u64, seconds: f64) -> Self {
        let is_any = bytes > 0 && seconds > 0.0;
        let bits_per_second = is_any.then(|| bytes as f64 * 8.0 / seconds);
        Self { bits_per_second, ..Self::default() }
    }

    /// The best of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let least = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::min);
        let most = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        Self {
            bits_per_second: most(self.bits_per_second, other.bits_per_second),
            rtt_seconds: least(self.rtt_seconds, other.rtt_seconds),
            is_free: self.is_free || other.is_free,
        }
    }
}

/// Bytes that moved between two looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

impl Moved {
    pub const fn between(before: &Progress, now: &Progress) -> Self {
        Self {
            sent_bytes: now.bytes_acked.wrapping_sub(before.bytes_acked),
            received_bytes: now.bytes_received.wrapping_sub(before.bytes_received),
        }
    }

    pub const fn is_any(self) -> bool {
        self.sent_bytes > 0 || self.received_bytes > 0
    }

    pub const fn and(self, other: Self) -> Self {
        Self {
            sent_bytes: self.sent_bytes.saturating_add(other.sent_bytes),
            received_bytes: self.received_bytes.saturating_add(other.received_bytes),
        }
    }
}

/// Whether data came all the time between two looks. Where they pause, a receiver takes
/// the sender's pauses for the path's time.
fn arrives_steadily(moved: Moved, now: &Progress, elapsed_seconds: f64) -> bool {
    let most_bytes = now.arrived_bytes_per_second as f64 * elapsed_seconds;
    most_bytes > 0.0 && moved.received_bytes as f64 >= STEADY * most_bytes
}

/// Returns the RTT of a flow that only receives. It is no less than the least that was
/// acknowledged: without timestamps the kernel takes the time of a window for it, which
/// is less where the application lets the window shrink.
fn receiving_rtt(now: &Progress) -> Option<f64> {
    let least = rtt(now.min_rtt_us).unwrap_or(0.0);
    rtt(now.receiving_rtt_us).map(|seen| seen.max(least))
}

/// Returns the rate, as `tcp_compute_delivery_rate()`.
fn rate(segments: u32, mss_bytes: u32, in_us: u32) -> Option<f64> {
    let bits = 8.0 * f64::from(segments) * f64::from(mss_bytes);
    (bits > 0.0 && in_us > 0).then(|| bits * 1e6 / f64::from(in_us))
}

fn rtt(min_rtt_us: u32) -> Option<f64> {
    (min_rtt_us > 0 && min_rtt_us < u32::MAX).then(|| f64::from(min_rtt_us) / 1e6)
}

/// Whether nothing but the path held a flow back between two looks. In slow start it
/// may be on its way still to what the path carries.
fn is_free(before: &Progress, now: &Progress) -> bool {
    let busy = u64::from(now.limits.since(&before.limits).busy_ticks);
    let all = u64::from(now.ticks.wrapping_sub(before.ticks));
    now.app_limited == 0
        && now.cwnd_segments >= now.ssthresh_segments
        && all > 0
        && busy * 100 >= all * BUSY_PERCENT
}
