//! A path asks this of the congestion control, beyond its name.

use crate::{law::Aimd, record};

/// A size of the window: in segments, or in bytes of payload. Both zero: none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowSize {
    /// Segments; zero where it is given in bytes.
    pub segments: u32,
    /// Bytes of payload.
    pub bytes: u32,
}
record!(WindowSize, size = 8);

impl WindowSize {
    /// Returns it in segments of the flow's MSS, rounded down but not to none; zero
    /// for none.
    #[inline(always)]
    #[must_use]
    pub const fn in_segments(self, mss_bytes: u32) -> u32 {
        if self.segments != 0 || self.bytes == 0 || mss_bytes == 0 {
            return self.segments;
        }
        let segments = self.bytes / mss_bytes;
        if segments == 0 { 1 } else { segments }
    }
}

/// Pacing says when a flow's packets are spread over the RTT.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Under a law of ours, on a path of [`LONG_PATH_US`] or more.
    LongPaths = 0,
    /// Never, as far as it is ours to say.
    Off = 1,
    /// Always.
    On = 2,
}

/// From this RTT on a path is long: bursts of a window's size reach queues that
/// hold less than that.
pub const LONG_PATH_US: u32 = 10_000;

/// After idle or application-limited time the window stays as it was.
pub const KEEP_WHEN_IDLE: u32 = 1 << 0;
/// A full queue of this host's own is no path congestion.
pub const IGNORE_LOCAL_STALLS: u32 = 1 << 1;
/// Whatever the law, a flow is to be a standard one (RFC 5681): it runs under the
/// law still, but its path is not to be tuned any more.
pub const RESPOND_AS_STANDARD: u32 = 1 << 2;
/// The member of the binomial family is IIAD, in place of SQRT.
pub const IIAD: u32 = 1 << 3;
/// After idle time the window jumps, as a new flow's does that knows its path (RFC 9959).
pub const RESUME_WHEN_IDLE: u32 = 1 << 4;

/// Parameters of the laws of ours. Zero leaves a setting as it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Parameters of `wad_aimd`.
    pub aimd: Aimd,
    /// Slow start threshold that a flow starts with.
    pub initial_ssthresh: WindowSize,
    /// Upper bound of the window; under `wad_dedicated`, the window.
    pub max_cwnd: WindowSize,
    /// Rate of `wad_dedicated`, without headers below TCP's.
    pub dedicated_bytes_per_second: u64,
    /// RFC 3742's `max_ssthresh`.
    pub max_ssthresh_segments: u32,
    /// Packets that a flow of `wad_delay` keeps queued.
    pub standing_queue_segments: u32,
    /// [`KEEP_WHEN_IDLE`], [`IGNORE_LOCAL_STALLS`], [`RESPOND_AS_STANDARD`], [`IIAD`] and
    /// [`RESUME_WHEN_IDLE`].
    pub flags: u32,
    /// A [`Pacing`].
    pub pacing: u32,
}
record!(Control, size = 48);

impl Control {
    /// RFC 5681, and nothing else.
    pub const STANDARD: Self = Self {
        aimd: Aimd::STANDARD,
        initial_ssthresh: WindowSize { segments: 0, bytes: 0 },
        max_cwnd: WindowSize { segments: 0, bytes: 0 },
        dedicated_bytes_per_second: 0,
        max_ssthresh_segments: 0,
        standing_queue_segments: 0,
        flags: 0,
        pacing: Pacing::LongPaths as u32,
    };

    /// These make a standard flow, whatever the law.
    pub const AS_STANDARD: Self = Self { flags: RESPOND_AS_STANDARD, ..Self::STANDARD };
}

impl Default for Control {
    fn default() -> Self {
        Self::STANDARD
    }
}

#[cfg(test)]
mod tests {
    use super::WindowSize;

    #[test]
    fn a_size_in_bytes_becomes_segments_of_the_flow() {
        let bytes = |bytes| WindowSize { segments: 0, bytes };
        assert_eq!(bytes(14_480).in_segments(1448), 10);
        assert_eq!(bytes(14_480).in_segments(8948), 1);
        assert_eq!(bytes(100).in_segments(1448), 1);
        assert_eq!(bytes(14_480).in_segments(0), 0);
        assert_eq!(WindowSize::default().in_segments(1448), 0);
        assert_eq!(WindowSize { segments: 7, bytes: 0 }.in_segments(1448), 7);
    }
}
