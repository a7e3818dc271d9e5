//! The state of a matched flow, which is in a map by the cookie of its socket.

use crate::{
    arrivals::Arrivals,
    division::{Division, part_bytes, part_of_bound},
    policy::{CONGESTION_BYTES, DIVIDES, GROWS_RCVBUF, GROWS_SNDBUF, PACED, Policy},
    process::Process,
    record,
    refused::Refused,
    saved::Resuming,
    signals::Signals,
};

/// The settings of a socket at one moment. Zero where the kernel did not say.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Congestion control, zero-terminated.
    pub congestion: [u8; CONGESTION_BYTES],
    /// SO_SNDBUF as the kernel reports it, doubled.
    pub sndbuf_bytes: u32,
    /// SO_RCVBUF as the kernel reports it, doubled.
    pub rcvbuf_bytes: u32,
    /// Congestion window.
    pub cwnd_segments: u32,
    /// Keeps the record free of implicit padding.
    pub reserved: u32,
}
record!(Settings, size = 32);

/// Who opened the connection.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This host connected.
    Active = 0,
    /// This host accepted.
    Passive = 1,
    /// It ran already when wad came to it: the kernel does not say who began.
    Running = 2,
}

/// An outcome says what became of a matched flow. The kernel side stores it as a
/// number.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// None yet, or none any more: the socket may make another connection. Zero,
    /// as a new element of the map is.
    Ended = 0,
    /// Tuned as the policy says, but for what the kernel has refused.
    Tuned = 1,
    /// Left alone: the path has its `max_flows` already.
    TooMany = 2,
    /// Left alone: the path's flows are only observed, or its policy is held back.
    Observed = 3,
    /// It is on no path: it has no state, but may be asked for.
    NoPath = 4,
    /// Left at the kernel's defaults: its policy is for a share of new flows, or for none of
    /// them at the moment. It stays so for as long as it lives.
    Untuned = 5,
}

/// A policy asks these of a flow: all that can be changed while it runs, beside the
/// parameters of a law, which the law itself reads again. Zero for nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// Congestion control, zero-terminated.
    pub congestion: [u8; CONGESTION_BYTES],
    /// Argument of SO_SNDBUF.
    pub sndbuf_bytes: u32,
    /// Argument of SO_RCVBUF.
    pub rcvbuf_bytes: u32,
    /// It is as [`Policy::max_pacing_bytes_per_second`].
    pub max_pacing_bytes_per_second: u32,
    /// It is as [`Policy::traffic_class`].
    pub traffic_class: u32,
    /// They are as [`Policy::flags`].
    pub flags: u32,
    /// Argument of TCP_NOTSENT_LOWAT.
    pub notsent_lowat_bytes: u32,
}
record!(Asks, size = 40);

impl Asks {
    /// Returns what this policy asks.
    #[inline(always)]
    #[must_use]
    pub const fn of(policy: &Policy) -> Self {
        Self {
            congestion: policy.congestion,
            sndbuf_bytes: policy.sndbuf_bytes,
            rcvbuf_bytes: policy.rcvbuf_bytes,
            max_pacing_bytes_per_second: policy.max_pacing_bytes_per_second,
            traffic_class: policy.traffic_class,
            flags: policy.flags,
            notsent_lowat_bytes: policy.notsent_lowat_bytes,
        }
    }

    /// Whether a flow that has got `self` has nothing to get from `other`.
    #[inline(always)]
    #[must_use]
    pub const fn is(&self, other: &Self) -> bool {
        u128::from_ne_bytes(self.congestion) == u128::from_ne_bytes(other.congestion)
            && self.sndbuf_bytes == other.sndbuf_bytes
            && self.rcvbuf_bytes == other.rcvbuf_bytes
            && self.max_pacing_bytes_per_second == other.max_pacing_bytes_per_second
            && self.traffic_class == other.traffic_class
            && self.flags == other.flags
            && self.notsent_lowat_bytes == other.notsent_lowat_bytes
    }
}

/// The options of a socket that a policy and an application both may set, as bits.
/// The first two are as in the kernel's `sk_userlocks` (`SOCK_SNDBUF_LOCK`,
/// `SOCK_RCVBUF_LOCK`, include/net/sock.h).
pub mod option {
    /// SO_SNDBUF.
    pub const SNDBUF: u32 = 1 << 0;
    /// SO_RCVBUF.
    pub const RCVBUF: u32 = 1 << 1;
    /// TCP_CONGESTION.
    pub const CONGESTION: u32 = 1 << 2;
    // Of the others the kernel does not note that somebody has set them.
    /// TCP_NOTSENT_LOWAT, 0 where nobody has.
    pub const NOTSENT_LOWAT: u32 = 1 << 3;
    /// SO_MAX_PACING_RATE, without a bound where nobody has.
    pub const MAX_PACING: u32 = 1 << 4;
    /// IP_TOS or IPV6_TCLASS, 0 where nobody has.
    pub const TRAFFIC_CLASS: u32 = 1 << 5;
    /// All that the kernel keeps no note of.
    pub const UNNOTED: u32 = NOTSENT_LOWAT | MAX_PACING | TRAFFIC_CLASS;
}

/// The application had these when a policy's took their place: what goes back with it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// SO_MAX_PACING_RATE; `u64::MAX` for no bound.
    pub max_pacing_bytes_per_second: u64,
    /// The upper six bits of IP_TOS or IPV6_TCLASS.
    pub traffic_class: u32,
    /// TCP_NOTSENT_LOWAT.
    pub notsent_lowat_bytes: u32,
}
record!(Own, size = 16);

impl Own {
    /// Nobody has set anything.
    pub const NONE: Self =
        Self { max_pacing_bytes_per_second: u64::MAX, traffic_class: 0, notsent_lowat_bytes: 0 };

    /// Whether a bound of the rate could be given back by a BPF program, which sets 32 bits.
    #[inline(always)]
    #[must_use]
    pub const fn can_keep_rate(bytes_per_second: u64) -> bool {
        bytes_per_second == u64::MAX || bytes_per_second < PACED as u64
    }
}

/// The kernel counts these of a flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Octets acknowledged by the peer (tcpEStatsAppHCThruOctetsAcked).
    pub bytes_acked: u64,
    /// Octets received in order (tcpEStatsAppHCThruOctetsReceived).
    pub bytes_received: u64,
    /// Segments sent with data (tcpEStatsPerfDataSegsOut).
    pub data_segs_out: u32,
    /// Segments retransmitted (tcpEStatsPerfSegsRetrans).
    pub segs_retrans: u32,
}
record!(Counts, size = 24);

impl Counts {
    /// Returns what came since these. The kernel's counts of segments wrap.
    #[inline(always)]
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            bytes_acked: self.bytes_acked.wrapping_sub(earlier.bytes_acked),
            bytes_received: self.bytes_received.wrapping_sub(earlier.bytes_received),
            data_segs_out: self.data_segs_out.wrapping_sub(earlier.data_segs_out),
            segs_retrans: self.segs_retrans.wrapping_sub(earlier.segs_retrans),
        }
    }
}

/// A visit's byte says what a visit to a running flow did: a byte of the iterator's output.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// It came under a policy, or under another one.
    Adopted = b'a',
    /// Its policy asks for something else than before, and it got that.
    Changed = b'c',
    /// No path matches it any more: it went back to the kernel's defaults.
    Left = b'l',
    /// Others came or went: it has another part of its path's buffers.
    Divided = b'd',
}

/// The state of a matched flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Cookie of its socket: its key in the map. A scan that finds another one here meets the
    /// element while it is given to another flow.
    pub cookie: u64,
    /// Address of its `struct tcp_sock`, by which scans read it. It may be gone, or be another
    /// connection's by then: it is this flow's where it still has the cookie.
    pub socket: u64,
    /// It was matched then, CLOCK_MONOTONIC.
    pub matched_ns: u64,
    /// It was established then; 0 before.
    pub established_ns: u64,
    /// Number of the policy set that it was matched with.
    pub generation: u64,
    /// Index of its policy.
    pub policy: u32,
    /// A [`Role`].
    pub role: u32,
    /// An [`Outcome`].
    pub outcome: u32,
    /// Congestion window that the policy gave it at the start; 0 for none.
    pub initial_window_segments: u32,
    /// This was counted before it was matched, where it ran already.
    pub earlier: Counts,
    /// Its policy asked for this when last it was applied.
    pub asks: Asks,
    /// Its part of the buffers that the policy asked for.
    pub division: Division,
    /// Which of the [`option`]s it has got from a policy.
    pub given: u16,
    /// Which of them the application has chosen, and keeps.
    pub chosen: u16,
    /// Programs write a number here and read it back, so that the verifier forgets its range. The
    /// first is for the program that holds the socket's lock, the second for a scan, which holds none.
    pub scratch: [u32; 2],
    /// A [`Room`](crate::growth::Room), as it was at the latest look.
    pub room: u32,
    /// The user that its socket belonged to when that was asked, for a rule; else
    /// [`ANY_USER`](crate::policy::ANY_USER).
    pub user: u32,
    /// The slot by which scans find it, counted from 1; 0 for none.
    pub slot: u32,
    /// The settings were these before anything was changed.
    pub before: Settings,
    /// The settings were these after everything was changed.
    pub after: Settings,
    /// The kernel refused these of what its policy asked for when last it was
    /// applied.
    pub refused: Refused,
    /// The application's own of the options that the kernel keeps no note of, as far as
    /// they are `given`.
    pub own: Own,
    /// The rate at which its data arrives.
    pub arrivals: Arrivals,
    /// The process that connected, or accepted it.
    pub process: Process,
    /// The congestion signals that it has had since it is known.
    pub signals: Signals,
    /// It does this with what is known of its path's capacity.
    pub resuming: Resuming,
}
record!(Flow, size = 368);

impl Flow {
    /// Whether it is tuned, but for what the kernel has refused.
    #[inline(always)]
    #[must_use]
    pub const fn is_tuned(&self) -> bool {
        self.outcome == Outcome::Tuned as u32
    }

    /// Whether it has a part of its path's buffers, not all of them for itself.
    #[inline(always)]
    #[must_use]
    pub const fn divides(&self) -> bool {
        self.asks.flags & DIVIDES != 0
    }

    /// Argument of SO_SNDBUF that it is to have, or to have at most; 0 for none.
    #[inline(always)]
    #[must_use]
    pub const fn sndbuf_bytes(&self) -> u32 {
        let Division { sndbuf_flows, default_sndbuf_bytes, .. } = self.division;
        part_bytes(self.asks.sndbuf_bytes, sndbuf_flows, default_sndbuf_bytes)
    }

    /// Argument of SO_RCVBUF that it is to have, or to have at most; 0 for none.
    #[inline(always)]
    #[must_use]
    pub const fn rcvbuf_bytes(&self) -> u32 {
        let Division { rcvbuf_flows, default_rcvbuf_bytes, .. } = self.division;
        part_bytes(self.asks.rcvbuf_bytes, rcvbuf_flows, default_rcvbuf_bytes)
    }

    /// Argument of SO_MAX_PACING_RATE that it has of its policy; 0 for none.
    #[inline(always)]
    #[must_use]
    pub const fn max_pacing_bytes_per_second(&self) -> u32 {
        part_of_bound(self.asks.max_pacing_bytes_per_second, self.division.rate_flows)
    }

    /// Whether its send buffer grows with need, up to [`Self::sndbuf_bytes`].
    #[inline(always)]
    #[must_use]
    pub const fn sndbuf_grows(&self) -> bool {
        self.asks.flags & GROWS_SNDBUF != 0
    }

    /// Whether its receive buffer grows with need, up to [`Self::rcvbuf_bytes`].
    #[inline(always)]
    #[must_use]
    pub const fn rcvbuf_grows(&self) -> bool {
        self.asks.flags & GROWS_RCVBUF != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Asks, Counts, Flow};

    #[test]
    fn any_difference_is_one() {
        let asks = Asks { sndbuf_bytes: 1, ..Asks::default() };
        assert!(asks.is(&asks) && !asks.is(&Asks::default()));
        let mut congestion = [0; 16];
        congestion[15] = 1;
        assert!(!asks.is(&Asks { congestion, ..asks }));
        assert!(!asks.is(&Asks { traffic_class: 256, ..asks }));
        assert!(!asks.is(&Asks { notsent_lowat_bytes: 4_096, ..asks }));
    }

    #[test]
    fn each_buffer_has_its_own_part() {
        let asks = Asks { sndbuf_bytes: u32::MAX, rcvbuf_bytes: u32::MAX, ..Asks::default() };
        let mut flow = Flow { asks, ..Flow::default() };
        assert_eq!((flow.sndbuf_bytes(), flow.rcvbuf_bytes()), (u32::MAX, u32::MAX));
        flow.division.set_among(3);
        flow.division.rcvbuf_flows = 5;
        assert_eq!((flow.sndbuf_bytes(), flow.rcvbuf_bytes()), (u32::MAX / 3, u32::MAX / 5));
    }

    #[test]
    fn counts_that_wrapped_in_between_are_subtracted() {
        let earlier = Counts { bytes_acked: 7, data_segs_out: u32::MAX, ..Counts::default() };
        let now = Counts { bytes_acked: 10, data_segs_out: 1, ..Counts::default() };
        let since = now.since(&earlier);
        assert_eq!((since.bytes_acked, since.data_segs_out), (3, 2));
    }
}
