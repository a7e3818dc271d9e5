//! Idle time: after it (`tcp_cwnd_restart()`), and while the application sends less
//! than it may (`tcp_cwnd_application_limited()`), the kernel takes the window back
//! without asking the law. Where a path says so, a flow gets it back with the next
//! ACK, an RTT later: the first flight is the kernel's. Or it begins as a new one does
//! that knows its path ([`resume`](super::resume)), by what it had shown of that.

use super::resume::shown_segments;
use crate::record;

/// The window as the last ACK left it, or what that showed of the path, for as long as nothing
/// but idle time can have changed it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// 0 since the last congestion event.
    cwnd_segments: u32,
    /// Its segments have this size: others are of a new path MTU, for which the kernel counts the
    /// window anew (`tcp_mtup_probe_success()`).
    mss_bytes: u32,
}
record!(Open, size = 8);

impl Open {
    /// No window is known. The kernel gives a flow this zero.
    pub const UNKNOWN: Self = Self { cwnd_segments: 0, mss_bytes: 0 };

    /// The window to give back to a flow with this one, in segments of this size. A probe of the
    /// path MTU takes one of it (`tcp_mtu_probe()`).
    #[inline(always)]
    #[must_use]
    pub const fn lost_segments(self, cwnd_segments: u32, mss_bytes: u32) -> Option<u32> {
        let is_lost = self.cwnd_segments > cwnd_segments.saturating_add(1);
        if is_lost && self.mss_bytes == mss_bytes { Some(self.cwnd_segments) } else { None }
    }

    /// Takes note of the window that an ACK leaves.
    #[inline(always)]
    pub const fn note(&mut self, cwnd_segments: u32, mss_bytes: u32) {
        *self = Self { cwnd_segments, mss_bytes };
    }

    /// Takes note of what the window that an ACK leaves has shown of the path.
    #[inline(always)]
    pub const fn note_shown(&mut self, cwnd_segments: u32, ssthresh_segments: u32, mss_bytes: u32) {
        self.note(shown_segments(cwnd_segments, ssthresh_segments), mss_bytes);
    }

    /// Forgets it: what took the window was congestion.
    #[inline(always)]
    pub const fn forget(&mut self) {
        *self = Self::UNKNOWN;
    }
}

#[cfg(test)]
mod tests {
    use super::Open;

    #[test]
    fn what_idle_time_took_comes_back_and_what_congestion_took_does_not() {
        let mut open = Open::UNKNOWN;
        assert_eq!(open.lost_segments(10, 1_448), None);
        open.note(500, 1_448);
        assert_eq!(open.lost_segments(10, 1_448), Some(500));
        for cwnd_segments in [499, 500, 600, u32::MAX] {
            assert_eq!(open.lost_segments(cwnd_segments, 1_448), None);
        }
        open.forget();
        assert_eq!(open.lost_segments(10, 1_448), None);
    }

    #[test]
    fn the_same_bytes_in_larger_segments_are_no_idle_time() {
        let mut open = Open::UNKNOWN;
        open.note(5_000, 1_024);
        assert_eq!(open.lost_segments(1_070, 4_788), None);
        assert_eq!(open.lost_segments(1_070, 1_024), Some(5_000));
    }

    #[test]
    fn half_of_a_window_in_slow_start_has_been_shown() {
        let mut open = Open::UNKNOWN;
        open.note_shown(500, 501, 1_448);
        assert_eq!(open.lost_segments(10, 1_448), Some(250));
        open.note_shown(500, 500, 1_448);
        assert_eq!(open.lost_segments(10, 1_448), Some(500));
    }
}
