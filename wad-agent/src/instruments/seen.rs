//! A flow as the kernel has it: what the standard instruments are made of.

use wad_common::instruments::Head;

use super::fields::Field;

macro_rules! members {
    ($($name:ident = $path:literal,)*) => {
        /// Members of `struct tcp_sock`.
        #[derive(Clone, Copy, Debug)]
        pub enum Member {
            $($name,)*
        }

        /// Their names, in that order.
        pub const MEMBERS: &[&str] = &[$($path,)*];
    };
}

members! {
    AppLimited = "app_limited",
    BytesAcked = "bytes_acked",
    BytesReceived = "bytes_received",
    BytesRetrans = "bytes_retrans",
    BytesSent = "bytes_sent",
    CopiedSeq = "copied_seq",
    DataSegsIn = "data_segs_in",
    DataSegsOut = "data_segs_out",
    DsackDups = "dsack_dups",
    LostOut = "lost_out",
    MdevUs = "mdev_us",
    MssCache = "mss_cache",
    PacingRate = "inet_conn.icsk_inet.sk.sk_pacing_rate",
    PacingStatus = "inet_conn.icsk_inet.sk.sk_pacing_status",
    PacketsOut = "packets_out",
    RateDelivered = "rate_delivered",
    RateIntervalUs = "rate_interval_us",
    RcvBuf = "inet_conn.icsk_inet.sk.sk_rcvbuf",
    RcvNxt = "rcv_nxt",
    RcvWnd = "rcv_wnd",
    RcvWup = "rcv_wup",
    ReordSeen = "reord_seen",
    Reordering = "reordering",
    RetransOut = "retrans_out",
    Retransmits = "inet_conn.icsk_retransmits",
    Rto = "inet_conn.icsk_rto",
    RttMin = "rtt_min.s[0].v",
    SackedOut = "sacked_out",
    SegsIn = "segs_in",
    SegsOut = "segs_out",
    SndBuf = "inet_conn.icsk_inet.sk.sk_sndbuf",
    SndCwnd = "snd_cwnd",
    SndNxt = "snd_nxt",
    SndSsthresh = "snd_ssthresh",
    SndUna = "snd_una",
    SndWnd = "snd_wnd",
    SrttUs = "srtt_us",
    State = "inet_conn.icsk_inet.sk.__sk_common.skc_state",
    TotalRetrans = "total_retrans",
    WriteSeq = "write_seq",
}

/// `TCP_INFINITE_SSTHRESH` (include/net/tcp.h).
const INFINITE_SSTHRESH: u64 = 0x7fff_ffff;
/// `TCP_CLOSE_WAIT` (include/net/tcp_states.h).
const CLOSE_WAIT: u64 = 8;
/// Ticks by which a clock that was started on another processor may seem to be in
/// the future, for nothing is locked.
const AHEAD_TICKS: u32 = 16;

/// One flow at one moment.
pub struct Seen<'a> {
    pub head: &'a Head,
    /// In the order of [`MEMBERS`]; None where this kernel has no such member.
    pub fields: &'a [Option<Field>],
    /// The bytes of a field, by its place among those that are read.
    pub bytes: &'a dyn Fn(usize) -> u64,
    /// Of the kernel's clock.
    pub tick_ms: f64,
}

impl Seen<'_> {
    fn get(&self, member: Member) -> Option<u64> {
        let field = self.fields[member as usize]?;
        Some(field.bits((self.bytes)(field.n)))
    }

    pub fn number(&self, member: Member) -> Option<f64> {
        self.get(member).map(|number| number as f64)
    }

    /// Octets of so many segments.
    pub fn octets(&self, segments: Member) -> Option<f64> {
        Some(self.number(segments)? * self.number(Member::MssCache)?)
    }

    /// What lies between two sequence numbers, if the second is not before the first.
    fn between(&self, first: Member, second: Member) -> Option<u32> {
        let distance = (self.get(second)? as u32).wrapping_sub(self.get(first)? as u32);
        Some(if (distance as i32) < 0 { 0 } else { distance })
    }

    pub fn elapsed_seconds(&self) -> Option<f64> {
        Some(self.head.now_ns.saturating_sub(self.head.established_ns) as f64 / 1e9)
    }

    pub fn ssthresh_octets(&self) -> Option<f64> {
        if self.get(Member::SndSsthresh)? >= INFINITE_SSTHRESH {
            return None;
        }
        self.octets(Member::SndSsthresh)
    }

    /// `tcp_packets_in_flight()`.
    pub fn pipe_octets(&self) -> Option<f64> {
        let out = self.get(Member::PacketsOut)? + self.get(Member::RetransOut)?;
        let left = self.get(Member::SackedOut)? + self.get(Member::LostOut)?;
        Some(out.saturating_sub(left) as f64 * self.number(Member::MssCache)?)
    }

    pub fn unacknowledged_octets(&self) -> Option<f64> {
        self.between(Member::SndUna, Member::SndNxt).map(f64::from)
    }

    pub fn unsent_octets(&self) -> Option<f64> {
        self.between(Member::SndNxt, Member::WriteSeq).map(f64::from)
    }

    /// The peer's end of data has a sequence number, but no octet.
    pub fn unread_octets(&self) -> Option<f64> {
        let end = u32::from(self.get(Member::State)? == CLOSE_WAIT);
        self.between(Member::CopiedSeq, Member::RcvNxt)
            .map(|octets| octets.saturating_sub(end).into())
    }

    /// `tcp_receive_window()`.
    pub fn offered_octets(&self) -> Option<f64> {
        let end = (self.get(Member::RcvWup)? as u32).wrapping_add(self.get(Member::RcvWnd)? as u32);
        let left = end.wrapping_sub(self.get(Member::RcvNxt)? as u32);
        Some(if (left as i32) < 0 { 0.0 } else { left.into() })
    }

    pub fn smoothed_rtt_us(&self) -> Option<f64> {
        let us = self.get(Member::SrttUs)? >> 3;
        (us > 0).then_some(us as f64)
    }

    /// As in `tcp_info`: the mean deviation, of which the kernel keeps four times.
    pub fn rtt_variation_us(&self) -> Option<f64> {
        self.smoothed_rtt_us()?;
        Some((self.get(Member::MdevUs)? >> 2) as f64)
    }

    pub fn min_rtt_us(&self) -> Option<f64> {
        let us = self.get(Member::RttMin)?;
        (us != u64::from(u32::MAX)).then_some(us as f64)
    }

    pub fn timeout_us(&self) -> Option<f64> {
        Some(self.number(Member::Rto)? * self.tick_ms * 1e3)
    }

    /// Of a flow that was found running nobody knows how long it has run.
    pub fn sender_limited_ms(&self) -> Option<f64> {
        if self.head.role == wad_common::flow::Role::Running as u32 {
            return None;
        }
        let path = self.receiver_limited_ms()? + self.window_limited_ms()?;
        Some((self.elapsed_seconds()? * 1e3 - path).max(0.0))
    }

    pub fn receiver_limited_ms(&self) -> Option<f64> {
        Some(self.milliseconds(self.head.limits.rwnd_ticks))
    }

    pub fn window_limited_ms(&self) -> Option<f64> {
        Some(self.milliseconds(self.head.limits.busy_ticks))
    }

    pub fn buffer_limited_ms(&self) -> Option<f64> {
        Some(self.milliseconds(self.head.limits.sndbuf_ticks))
    }

    fn milliseconds(&self, ticks: u32) -> f64 {
        if ticks > u32::MAX - AHEAD_TICKS { 0.0 } else { f64::from(ticks) * self.tick_ms }
    }

    /// `tcp_compute_delivery_rate()`.
    pub fn delivery_octets_per_second(&self) -> Option<f64> {
        let us = self.get(Member::RateIntervalUs)?;
        if us == 0 {
            return None;
        }
        // Whole, as the kernel has it.
        Some((self.octets(Member::RateDelivered)? * 1e6 / us as f64).floor())
    }

    pub fn pacing_octets_per_second(&self) -> Option<f64> {
        let rate = self.get(Member::PacingRate)?;
        // It is reckoned for all flows, whether anything goes by it or not.
        let is_paced = self.get(Member::PacingStatus)? != 0 && rate != u64::MAX;
        is_paced.then_some(rate as f64)
    }

    pub fn is_app_limited(&self) -> Option<f64> {
        self.get(Member::AppLimited).map(|until| u8::from(until != 0).into())
    }
}
