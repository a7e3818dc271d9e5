//! A path's capacity is saved between its flows: the congestion control parameters of
//! Careful Resume (RFC 9959). It is kept by the two ends: who has changed his address, or
//! his network namespace, is on another path.

use crate::{law::resume::Known, record};

/// The two ends that something is saved for (Remote Endpoint of the RFC). One set is kept
/// for all remote addresses of a prefix: of 24 bits of IPv4, of 64 of IPv6.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Remote prefix, IPv4 mapped into IPv6, in network byte order; the rest are zeros.
    pub remote: [u32; 4],
    /// Local address, as above, whole.
    pub local: [u32; 4],
    /// Inode of the network namespace.
    pub netns: u32,
    /// Keeps the record free of implicit padding.
    pub reserved: u32,
}
record!(Endpoint, size = 40);

impl Endpoint {
    /// The ends of a flow with these addresses, IPv4 mapped into IPv6, in network byte order.
    #[inline(always)]
    #[must_use]
    pub const fn of(remote: [u32; 4], local: [u32; 4], netns: u32) -> Self {
        const MAPPED: u32 = 0xffff_u32.to_be();
        const SUBNET: u32 = 0xffff_ff00_u32.to_be();
        let [a, b, c, d] = remote;
        let remote =
            if a == 0 && b == 0 && c == MAPPED { [a, b, c, d & SUBNET] } else { [a, b, 0, 0] };
        Self { remote, local, netns, reserved: 0 }
    }
}

/// It is what is saved for two ends.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// It was saved then, CLOCK_MONOTONIC; 0 for nothing.
    pub saved_ns: u64,
    /// Flows that have it in use: one at most goes on with it. All of them add to it at once,
    /// and take back what was not the first.
    pub users: u64,
    /// The first of them took it then, CLOCK_MONOTONIC.
    pub used_ns: u64,
    /// Nobody has it before then, CLOCK_MONOTONIC: a jump was too far.
    pub rests_until_ns: u64,
    /// Payload that the path carried in an RTT (saved_cwnd).
    pub bytes: u32,
    /// Least RTT of then (saved_rtt).
    pub rtt_us: u32,
    /// Jumps in a row that were too far.
    pub failures: u32,
    /// 1 where the path may carry more: see [`Observed::is_least`].
    pub is_least: u32,
}
record!(Saved, size = 48);

const SECOND_NS: u64 = 1_000_000_000;

/// A flow whose end nobody saw keeps others from it for no longer.
const USED_NS: u64 = 600 * SECOND_NS;

/// A path rests for so long after the first jump that was too far, and for twice as long
/// after each further one.
const REST_NS: u64 = 60 * SECOND_NS;
/// It rests for an hour or so at most.
const MOST_DOUBLINGS: u32 = 6;

impl Saved {
    /// Returns what is known, if it is no older than that and the path does not rest. Whether
    /// another flow has it in use is asked beside this.
    #[inline(always)]
    #[must_use]
    pub const fn known(&self, now_ns: u64, lifetime_ns: u64) -> Option<Capacity> {
        let until_ns = self.saved_ns.saturating_add(lifetime_ns);
        if self.saved_ns == 0 || now_ns >= until_ns || self.rests(now_ns) {
            return None;
        }
        Some(Capacity::until(until_ns, self.bytes, self.rtt_us))
    }

    /// Whether a jump was too far, not long ago.
    #[inline(always)]
    #[must_use]
    pub const fn rests(&self, now_ns: u64) -> bool {
        now_ns < self.rests_until_ns
    }

    /// Whether who has it in use has had it for so long that its end went unseen.
    #[inline(always)]
    #[must_use]
    pub const fn is_abandoned(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.used_ns) > USED_NS
    }

    /// Saves what a flow has observed at its end. The least that a path carries takes the place of no
    /// more than is known: what a flow sends that had little to send tells nothing of the rest.
    #[inline(always)]
    pub const fn save(&mut self, observed: Observed, now_ns: u64, lifetime_ns: u64) {
        let is_known = self.known(now_ns, lifetime_ns).is_some();
        if observed.is_least && is_known && observed.bytes <= self.bytes {
            return;
        }
        self.bytes = observed.bytes;
        self.rtt_us = observed.rtt_us;
        self.is_least = observed.is_least as u32;
        self.saved_ns = now_ns;
    }

    /// Deletes what is saved, as a jump to it was too far, and lets the path rest.
    #[inline(always)]
    pub const fn fail(&mut self, now_ns: u64) {
        let doublings = if self.failures < MOST_DOUBLINGS { self.failures } else { MOST_DOUBLINGS };
        self.rests_until_ns = now_ns.saturating_add(REST_NS << doublings);
        self.failures = self.failures.saturating_add(1);
        self.saved_ns = 0;
    }

    /// Notes that a jump to it was right.
    #[inline(always)]
    pub const fn succeed(&mut self) {
        self.failures = 0;
    }
}

/// A path's capacity, as it is known for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Payload that the path carries in an RTT (saved_cwnd).
    pub bytes: u32,
    /// The least RTT of then (saved_rtt).
    pub rtt_us: u32,
    /// It is too old from this second on, CLOCK_MONOTONIC.
    pub until_s: u32,
}

impl Capacity {
    /// Returns one that is too old from then on, CLOCK_MONOTONIC.
    #[inline(always)]
    #[must_use]
    pub const fn until(until_ns: u64, bytes: u32, rtt_us: u32) -> Self {
        // A host runs for less than 136 years.
        Self { bytes, rtt_us, until_s: (until_ns / SECOND_NS) as u32 }
    }
}

/// The state of a flow at its end, as far as it tells of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtEnd {
    /// Congestion window.
    pub cwnd_segments: u32,
    /// Slow-start threshold.
    pub ssthresh_segments: u32,
    /// Payload of a segment.
    pub mss_bytes: u32,
    /// Least RTT; 0 or `u32::MAX` where none was measured.
    pub min_rtt_us: u32,
    /// Whether a segment was sent again, or marked.
    pub had_congestion: bool,
}

/// A flow has observed this of its path (Observing phase).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Payload that the path carried in an RTT.
    pub bytes: u32,
    /// Its least RTT.
    pub rtt_us: u32,
    /// Whether it is what the path carries at least: the flow has met no congestion.
    pub is_least: bool,
}

impl Observed {
    /// Returns the capacity that a flow's window proves at its end; None if that is too little to save.
    #[inline(always)]
    #[must_use]
    pub const fn at_end(flow: &AtEnd) -> Option<Self> {
        use crate::law::resume::{LEAST_KNOWN_SEGMENTS, shown_segments};
        // An RTT that nobody has measured is the greatest (`tcp_min_rtt()`).
        if flow.min_rtt_us == 0 || flow.min_rtt_us == u32::MAX {
            return None;
        }
        let segments = shown_segments(flow.cwnd_segments, flow.ssthresh_segments);
        if segments < LEAST_KNOWN_SEGMENTS {
            return None;
        }
        let bytes = segments.saturating_mul(flow.mss_bytes);
        Some(Self { bytes, rtt_us: flow.min_rtt_us, is_least: !flow.had_congestion })
    }
}

/// A flow does this with what is saved, in its storage.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resuming {
    /// Its path carries this payload in an RTT (saved_cwnd); 0 where that is not known, not its to
    /// use, or disproved by congestion.
    pub bytes: u32,
    /// The least RTT of then (saved_rtt).
    pub rtt_us: u32,
    /// It is too old from this second on, CLOCK_MONOTONIC.
    pub until_s: u32,
    /// A [`Use`].
    pub has: u32,
    /// So many flows of its path had been admitted when it began, or after its last pause, itself
    /// included. It wraps.
    pub admitted: u32,
    /// Keeps the record free of implicit padding.
    pub reserved: u32,
}
record!(Resuming, size = 24);

impl Resuming {
    /// Returns what the flow may use of it, with segments of this size.
    #[inline(always)]
    #[must_use]
    pub const fn known(&self, mss_bytes: u32) -> Known {
        let is_its = self.has == Use::Has as u32 || self.has == Use::Jumped as u32;
        let saved_cwnd_segments = match (is_its, mss_bytes) {
            (false, _) | (_, 0) => 0,
            (true, mss_bytes) => self.bytes / mss_bytes,
        };
        Known { saved_cwnd_segments, saved_rtt_us: self.rtt_us, until_s: self.until_s }
    }

    /// Returns how many flows share a jump: it, and those that were admitted since.
    #[inline(always)]
    #[must_use]
    pub const fn sharing_flows(&self, admitted: u64) -> u32 {
        (admitted as u32).wrapping_sub(self.admitted).saturating_add(1)
    }
}

/// A use says what a flow has made of what is saved.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Nothing: its path is not resumed on.
    None = 0,
    /// It has none, and what it observes is saved.
    Observes = 1,
    /// It has it for itself.
    Has = 2,
    /// It has jumped, and all of that came back.
    Jumped = 3,
    /// It jumped too far.
    Failed = 4,
}

#[cfg(test)]
mod tests {
    use super::{
        AtEnd, Capacity, Endpoint, Observed, REST_NS, Resuming, SECOND_NS, Saved, USED_NS, Use,
    };

    const LIFETIME_NS: u64 = 3_600 * SECOND_NS;
    const OBSERVED: Observed = Observed { bytes: 1_448_000, rtt_us: 120_000, is_least: false };

    fn saved() -> Saved {
        let mut saved = Saved::default();
        saved.save(OBSERVED, SECOND_NS, LIFETIME_NS);
        saved
    }

    #[test]
    fn a_subnet_is_one_endpoint_and_other_ends_are_others() {
        let v4 =
            |last: u8| [0, 0, 0xffff_u32.to_be(), u32::from_be_bytes([192, 0, 2, last]).to_be()];
        let end = |remote, local, netns| Endpoint::of(remote, local, netns);
        assert_eq!(end(v4(1), v4(9), 1), end(v4(200), v4(9), 1));
        assert_ne!(end(v4(1), v4(9), 1), end(v4(1), v4(8), 1));
        assert_ne!(end(v4(1), v4(9), 1), end(v4(1), v4(9), 2));
        let v6 = |b: u32, d: u32| [0x2001_0db8_u32.to_be(), b, 7, d];
        assert_eq!(end(v6(1, 2), v6(9, 9), 1), end(v6(1, 3), v6(9, 9), 1));
        assert_ne!(end(v6(1, 2), v6(9, 9), 1), end(v6(2, 2), v6(9, 9), 1));
    }

    #[test]
    fn what_is_too_old_is_not_known() {
        let at = |now_ns| saved().known(now_ns, LIFETIME_NS);
        let capacity = Capacity { bytes: 1_448_000, rtt_us: 120_000, until_s: 3_601 };
        assert_eq!(at(SECOND_NS + LIFETIME_NS - 1), Some(capacity));
        assert_eq!(at(SECOND_NS + LIFETIME_NS), None);
        assert_eq!(Saved::default().known(1, LIFETIME_NS), None);
    }

    #[test]
    fn a_flow_uses_what_it_was_given_in_segments_of_its_size_until_it_fails() {
        let mut resuming =
            Resuming { bytes: 1_448_000, has: Use::Has as u32, ..Resuming::default() };
        let segments = |resuming: &Resuming, mss| resuming.known(mss).saved_cwnd_segments;
        assert_eq!([1_448, 8_948, 0].map(|mss| segments(&resuming, mss)), [1_000, 161, 0]);
        for (has, expected) in
            [(Use::Jumped, 1_000), (Use::Failed, 0), (Use::Observes, 0), (Use::None, 0)]
        {
            resuming.has = has as u32;
            assert_eq!(segments(&resuming, 1_448), expected, "{has:?}");
        }
    }

    #[test]
    fn a_path_that_failed_rests_for_twice_as_long_each_time() {
        let mut saved = saved();
        let mut now_ns = 2 * SECOND_NS;
        for doublings in [0, 1, 2, 3, 4, 5, 6, 6, 6] {
            saved.fail(now_ns);
            saved.save(OBSERVED, now_ns, LIFETIME_NS);
            let until_ns = now_ns + (REST_NS << doublings);
            assert_eq!(saved.known(until_ns - 1, LIFETIME_NS * 9), None);
            assert!(saved.known(until_ns, LIFETIME_NS * 9).is_some());
            now_ns = until_ns;
        }
        saved.succeed();
        saved.fail(now_ns);
        saved.save(OBSERVED, now_ns, LIFETIME_NS);
        assert!(saved.known(now_ns + REST_NS, LIFETIME_NS).is_some());
    }

    #[test]
    fn a_failure_deletes_what_was_saved() {
        let mut saved = saved();
        saved.fail(2 * SECOND_NS);
        assert_eq!(saved.known(LIFETIME_NS, LIFETIME_NS), None);
    }

    #[test]
    fn who_has_it_for_long_has_ended_unseen() {
        let mut saved = saved();
        saved.used_ns = SECOND_NS;
        assert!(!saved.is_abandoned(SECOND_NS + USED_NS));
        assert!(saved.is_abandoned(SECOND_NS + USED_NS + 1));
    }

    /// Returns the state of a flow that has met congestion, with this window and threshold.
    fn flow(cwnd_segments: u32, ssthresh_segments: u32) -> AtEnd {
        AtEnd {
            cwnd_segments,
            ssthresh_segments,
            mss_bytes: 1_000,
            min_rtt_us: 100,
            had_congestion: true,
        }
    }

    fn shown_bytes(flow: &AtEnd) -> Option<u32> {
        Observed::at_end(flow).map(|observed| observed.bytes)
    }

    #[test]
    fn half_of_a_window_in_slow_start_has_been_shown() {
        let at_end = |cwnd, ssthresh| shown_bytes(&flow(cwnd, ssthresh));
        assert_eq!(at_end(100, 1_000), Some(50_000));
        assert_eq!(at_end(100, 100), Some(100_000));
        assert_eq!((at_end(79, 1_000), at_end(39, 39)), (None, None));
        assert!(at_end(80, 1_000).is_some() && at_end(40, 40).is_some());
        for min_rtt_us in [0, u32::MAX] {
            assert_eq!(shown_bytes(&AtEnd { min_rtt_us, ..flow(1_000, 10) }), None);
        }
        let most = AtEnd { mss_bytes: 9_000, ..flow(u32::MAX, 0) };
        assert_eq!(shown_bytes(&most), Some(u32::MAX));
    }

    #[test]
    fn what_a_path_carries_at_least_replaces_no_more_than_that() {
        let least = |bytes| Observed { bytes, is_least: true, ..OBSERVED };
        let mut saved = saved();
        let now_ns = 2 * SECOND_NS;
        saved.save(least(1_000_000), now_ns, LIFETIME_NS);
        assert_eq!((saved.bytes, saved.is_least), (OBSERVED.bytes, 0));
        saved.save(least(2_000_000), now_ns, LIFETIME_NS);
        assert_eq!((saved.bytes, saved.is_least), (2_000_000, 1));
        // What met congestion has shown what is too much.
        saved.save(Observed { bytes: 500_000, ..OBSERVED }, now_ns, LIFETIME_NS);
        assert_eq!((saved.bytes, saved.is_least), (500_000, 0));
        saved.save(least(400_000), now_ns + LIFETIME_NS, LIFETIME_NS);
        assert_eq!((saved.bytes, saved.is_least), (400_000, 1));
    }
}
