//! A path as it is planned for: its numbers, and what follows from them alone.

/// Headers in each packet: IPv4, TCP, and its timestamps.
const HEADER_BYTES: u32 = 20 + 20 + 12;

/// The most that one connection can have on its way: the largest window of RFC 7323,
/// 65,535 scaled by 2^14.
pub const MAX_WINDOW_BYTES: f64 = 65_535.0 * 16_384.0;

/// A path.
#[derive(Clone, Copy, Debug)]
pub struct PathNumbers {
    pub bits_per_second: f64,
    pub rtt_seconds: f64,
    pub mss_bytes: u32,
}

impl PathNumbers {
    pub const fn new(bits_per_second: f64, rtt_seconds: f64, mtu_bytes: u32) -> Self {
        Self { bits_per_second, rtt_seconds, mss_bytes: mtu_bytes - HEADER_BYTES }
    }

    /// Bandwidth-delay product: bytes on their way when the path is full.
    pub fn bdp_bytes(&self) -> f64 {
        self.bits_per_second / 8.0 * self.rtt_seconds
    }

    /// The window that fills the path; the least that a window can be where
    /// that is more.
    pub fn bdp_segments(&self) -> u32 {
        let segments = (self.bdp_bytes() / f64::from(self.mss_bytes)).ceil();
        (segments as u32).max(wad_common::law::MIN_WINDOW_SEGMENTS)
    }

    /// Returns the largest window of one connection: [`MAX_WINDOW_BYTES`].
    pub fn max_window_segments(&self) -> f64 {
        MAX_WINDOW_BYTES / f64::from(self.mss_bytes)
    }

    /// Connections without which the path can't be full, whatever their law.
    pub fn least_streams(&self) -> u64 {
        (self.bdp_bytes() / MAX_WINDOW_BYTES).ceil() as u64
    }

    /// Rate of a window of this mean: no more than the path's.
    pub fn rate_bits_per_second(&self, window_segments: f64) -> f64 {
        let rate = window_segments * f64::from(self.mss_bytes) * 8.0 / self.rtt_seconds;
        rate.min(self.bits_per_second)
    }

    /// DataTAG's responsiveness C RTT^2 / (2 inc): seconds until a standard flow
    /// is back after one loss, with one segment more in each RTT.
    pub fn responsiveness_seconds(&self) -> f64 {
        let increase_bits = f64::from(self.mss_bytes) * 8.0;
        self.bits_per_second * self.rtt_seconds.powi(2) / (2.0 * increase_bits)
    }
}
