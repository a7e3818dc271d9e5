//! These offsets say where the fields that a congestion control needs lie in the
//! running kernel's structs.
//!
//! They move from kernel to kernel, and rustc emits no relocations for them: the
//! agent resolves them from the kernel's BTF and writes them into the object's
//! read-only data before it is loaded, so that the verifier knows each as a
//! constant.

use crate::record;

/// Offsets in bytes from the start of `struct tcp_sock`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSockOffsets {
    /// `snd_cwnd`: congestion window, segments.
    pub snd_cwnd: u32,
    /// `snd_ssthresh`: slow start threshold, segments.
    pub snd_ssthresh: u32,
    /// `snd_cwnd_clamp`: upper bound of the window, segments.
    pub snd_cwnd_clamp: u32,
    /// `snd_cwnd_cnt`: what a law counts towards a window.
    pub snd_cwnd_cnt: u32,
    /// `prior_cwnd`: window before the last reduction, segments.
    pub prior_cwnd: u32,
    /// `max_packets_out`: most packets out in the last window.
    pub max_packets_out: u32,
    /// The byte that holds the bit `is_cwnd_limited`.
    pub is_cwnd_limited: u32,
    /// That bit's mask within the byte.
    pub is_cwnd_limited_mask: u32,
    /// `srtt_us`: smoothed RTT, eight times it.
    pub srtt_us: u32,
    /// `mss_cache`: payload of a segment.
    pub mss_cache: u32,
    /// `delivered`: segments delivered so far.
    pub delivered: u32,
    /// `delivered_ce`: those that were acknowledged with ECE.
    pub delivered_ce: u32,
    /// `packets_out`: segments sent and not acknowledged cumulatively.
    pub packets_out: u32,
    /// `sacked_out`: of those, acknowledged selectively.
    pub sacked_out: u32,
    /// `lost_out`: of those, deemed lost.
    pub lost_out: u32,
    /// `retrans_out`: of those, retransmitted.
    pub retrans_out: u32,
    /// `total_retrans`: segments retransmitted so far.
    pub total_retrans: u32,
    /// `rate_delivered`: segments delivered in the latest sample of the rate...
    pub rate_delivered: u32,
    /// `rate_interval_us`: ...and the time that it took, microseconds.
    pub rate_interval_us: u32,
    /// `rack.rtt_us`: the latest sample of the RTT, microseconds.
    pub rack_rtt: u32,
    /// `tcp_mstamp`: time of the latest packet, microseconds.
    pub tcp_mstamp: u32,
    /// `inet_conn.icsk_ca_state`, in the low bits of its byte.
    pub icsk_ca_state: u32,
    /// `inet_conn.icsk_ca_priv`: 104 bytes that belong to the algorithm.
    pub icsk_ca_priv: u32,
    /// `sk_pacing_rate`: bytes per second, an `unsigned long`.
    pub sk_pacing_rate: u32,
    /// `sk_max_pacing_rate`: its bound, by `SO_MAX_PACING_RATE`, in the same unit.
    pub sk_max_pacing_rate: u32,
    /// `sk_pacing_status`: who paces.
    pub sk_pacing_status: u32,
    /// `sk_sndbuf`: the send buffer, bytes.
    pub sk_sndbuf: u32,
    /// The byte that holds `sk_userlocks`.
    pub userlocks: u32,
    /// They begin so many bits up in it.
    pub userlocks_shift: u32,
    /// `skc_net`: its network namespace, a pointer.
    pub net: u32,
    /// `ipv4.sysctl_tcp_wmem[2]` of `struct net` has 32 bits.
    pub net_tcp_wmem: u32,
    /// `inet_conn.icsk_ca_ops`: its algorithm, a pointer.
    pub congestion: u32,
    /// `name` is of `struct tcp_congestion_ops`.
    pub congestion_name: u32,
    /// `skc_cookie`: a number that no other socket of this boot has, 64 bits.
    pub cookie: u32,
}
record!(TcpSockOffsets, size = 136);

/// Offsets in bytes from the start of `struct rate_sample`, and how it is passed.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSampleOffsets {
    /// Which argument of `cong_control` it is: the second, or from Linux 6.10 the
    /// fourth. Counted from 0.
    pub argument: u32,
    /// `rtt_us`: RTT of the segment acknowledged last, negative for none.
    pub rtt_us: u32,
    /// `losses`: segments newly deemed lost.
    pub losses: u32,
    /// `acked_sacked`: segments newly delivered.
    pub acked_sacked: u32,
}
record!(RateSampleOffsets, size = 16);
