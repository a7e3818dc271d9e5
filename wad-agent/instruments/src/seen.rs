//! A flow as the kernel has it: what the standard instruments are made of.

use std::cell::RefCell;

use wad_common::{
    flow::Role,
    instruments::Head,
    law::{INFINITE_SSTHRESH, ShownPhase, phase},
    signals::Signals,
};

use super::field::Field;

macro_rules! members {
    ($($name:ident = $path:literal,)*) => {
        /// Members of `struct tcp_sock`.
        #[derive(Clone, Copy, Debug)]
        pub enum Member {
            $($name,)*
        }

        /// The names of the members, in that order.
        pub const MEMBERS: &[&str] = &[$($path,)*];
    };
}

members! {
    AppLimited = "app_limited",
    BytesAcked = "bytes_acked",
    BytesReceived = "bytes_received",
    BytesRetrans = "bytes_retrans",
    BytesSent = "bytes_sent",
    CaPrivate = "inet_conn.icsk_ca_priv[3]",
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
    TotalRtoRecoveries = "total_rto_recoveries",
    WriteSeq = "write_seq",
}

/// The first of the bytes that hold the greatest RTT, of the 64 bits of
/// [`Member::CaPrivate`].
const MAX_RTT_BYTE: usize = phase::MAX_RTT_PLACE as usize % 8;
const _: () = assert!(phase::MAX_RTT_PLACE / 8 == phase::PLACE / 8);
/// The byte that holds the phase, of the same.
const PHASE_BYTE: usize = phase::PLACE as usize % 8;
const _: () = assert!(phase::PLACE / 8 == 3);

/// `TCP_CLOSE_WAIT` (include/net/tcp_states.h).
const CLOSE_WAIT: u64 = 8;

/// Says where an instrument comes from.
#[derive(Debug)]
pub enum Origin {
    /// A member as it is.
    Is(Member),
    By(fn(&Seen<'_>) -> Option<f64>),
}

impl Origin {
    /// The members that it is made of, by their places among [`MEMBERS`]: those that
    /// are looked at when it is made of a flow for which none is missing.
    pub fn members(&self) -> Vec<usize> {
        // In no member does it stand for none.
        const SOME: u64 = 8;
        let fields: Vec<_> = (0..MEMBERS.len()).map(|n| Some(Field::whole(n))).collect();
        let looked_at = RefCell::new(Vec::new());
        let bytes = |n| {
            looked_at.borrow_mut().push(n);
            SOME
        };
        let head = Head::default();
        let signals = Some(Signals::default());
        Seen { head: &head, signals, fields: &fields, bytes: &bytes, tick_ms: 1.0 }.value(self);
        looked_at.into_inner()
    }
}

/// Holds one flow at one moment.
pub struct Seen<'a> {
    pub head: &'a Head,
    /// None where they are not counted.
    pub signals: Option<Signals>,
    /// The fields, in the order of [`MEMBERS`]; None where this kernel has no such
    /// member, or none of the instruments wanted is made of it.
    pub fields: &'a [Option<Field>],
    /// The bytes of a field, by its place among those that are read.
    pub bytes: &'a dyn Fn(usize) -> u64,
    /// A tick of the kernel's clock.
    pub tick_ms: f64,
}

impl Seen<'_> {
    pub fn value(&self, origin: &Origin) -> Option<f64> {
        match origin {
            Origin::Is(member) => self.number(*member),
            Origin::By(value) => value(self),
        }
    }

    fn get(&self, member: Member) -> Option<u64> {
        let field = self.fields[member as usize]?;
        Some(field.bits((self.bytes)(field.n)))
    }

    fn number(&self, member: Member) -> Option<f64> {
        self.get(member).map(|number| number as f64)
    }

    /// Octets of so many segments.
    pub fn octets(&self, segments: Member) -> Option<f64> {
        Some(self.number(segments)? * self.number(Member::MssCache)?)
    }

    /// Returns what lies between two sequence numbers, if the second is not before the
    /// first.
    fn between(&self, first: Member, second: Member) -> Option<u32> {
        let distance = (self.get(second)? as u32).wrapping_sub(self.get(first)? as u32);
        Some(if (distance as i32) < 0 { 0 } else { distance })
    }

    pub fn elapsed_seconds(&self) -> Option<f64> {
        Some(self.head.now_ns.saturating_sub(self.head.established_ns) as f64 / 1e9)
    }

    pub fn ssthresh_octets(&self) -> Option<f64> {
        if self.get(Member::SndSsthresh)? >= INFINITE_SSTHRESH.into() {
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

    /// Returns the variation as in `tcp_info`: the mean deviation, of which the kernel
    /// keeps four times.
    pub fn rtt_variation_us(&self) -> Option<f64> {
        self.smoothed_rtt_us()?;
        Some((self.get(Member::MdevUs)? >> 2) as f64)
    }

    pub fn min_rtt_us(&self) -> Option<f64> {
        let us = self.get(Member::RttMin)?;
        (us != u64::from(u32::MAX)).then_some(us as f64)
    }

    /// Returns the greatest RTT. An algorithm of the kernel's has other things in its place.
    pub fn max_rtt_us(&self) -> Option<f64> {
        let bytes = self.get(Member::CaPrivate)?.to_ne_bytes();
        let us = u32::from_ne_bytes(*bytes[MAX_RTT_BYTE..].first_chunk()?);
        (self.has_law_of_ours() && us != 0).then_some(us.into())
    }

    /// Returns the timeouts as the kernel has counted them, from Linux 6.7 on; else as they
    /// were seen.
    pub fn timeouts(&self) -> Option<f64> {
        let counted = self.number(Member::TotalRtoRecoveries);
        counted.or_else(|| Some(self.signals()?.timeouts.into()))
    }

    pub fn congestion_signals(&self) -> Option<f64> {
        Some(self.signals()?.congestion.into())
    }

    pub fn send_stalls(&self) -> Option<f64> {
        Some(self.signals()?.stalls.into())
    }

    /// Returns what was counted from the flow's start on: of one that was found running
    /// nobody knows what came before.
    fn signals(&self) -> Option<Signals> {
        self.signals.filter(|_| self.head.role != Role::Running as u32)
    }

    fn has_law_of_ours(&self) -> bool {
        self.head.congestion.starts_with(phase::LAW_PREFIX)
    }

    pub fn timeout_us(&self) -> Option<f64> {
        Some(self.number(Member::Rto)? * self.tick_ms * 1e3)
    }

    /// Returns the time limited by the sender: of a flow that was found running nobody
    /// knows how long it has run.
    pub fn sender_limited_ms(&self) -> Option<f64> {
        if self.head.role == Role::Running as u32 {
            return None;
        }
        let path = self.receiver_limited_ms()? + self.window_limited_ms()?;
        Some((self.elapsed_seconds()? * 1e3 - path).max(0.0))
    }

    pub fn receiver_limited_ms(&self) -> Option<f64> {
        Some(self.milliseconds(self.head.limits.settled().rwnd_ticks))
    }

    pub fn window_limited_ms(&self) -> Option<f64> {
        Some(self.milliseconds(self.head.limits.settled().busy_ticks))
    }

    pub fn buffer_limited_ms(&self) -> Option<f64> {
        Some(self.milliseconds(self.head.limits.settled().sndbuf_ticks))
    }

    fn milliseconds(&self, ticks: u32) -> f64 {
        f64::from(ticks) * self.tick_ms
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

    /// The number of a [`ShownPhase`]. An algorithm of the kernel's has other things in
    /// its place.
    pub fn phase(&self) -> Option<f64> {
        let number = self.get(Member::CaPrivate)?.to_ne_bytes()[PHASE_BYTE];
        let phase = ShownPhase::from_number(number).filter(|_| self.has_law_of_ours())?;
        Some(f64::from(phase as u8))
    }

    pub fn is_app_limited(&self) -> Option<f64> {
        self.get(Member::AppLimited).map(|until| u8::from(until != 0).into())
    }
}

#[cfg(test)]
mod tests {
    use wad_common::progress::Limits;

    use super::*;
    use crate::STANDARD;

    const TICK_MS: f64 = 4.0;

    /// An instrument of a flow with these members, zero for all others but one, which
    /// the kernel lacks.
    fn value(name: &str, head: &Head, members: &[(Member, u64)]) -> Option<f64> {
        let mut fields: Vec<_> = (0..MEMBERS.len()).map(|n| Some(Field::whole(n))).collect();
        fields[Member::DsackDups as usize] = None;
        let bytes = |n| members.iter().find(|(own, _)| *own as usize == n).map_or(0, |own| own.1);
        let signals = Some(Signals { congestion: 5, stalls: 2, timeouts: 3, ..Signals::default() });
        let seen = Seen { head, signals, fields: &fields, bytes: &bytes, tick_ms: TICK_MS };
        let instrument = STANDARD.iter().find(|instrument| instrument.name == name).unwrap();
        seen.value(&instrument.origin)
    }

    fn of(name: &str, members: &[(Member, u64)]) -> Option<f64> {
        value(name, &Head::default(), members)
    }

    #[test]
    fn what_the_kernel_lacks_or_has_not_measured_has_no_value() {
        for name in ["DSACKDups", "SmoothedRTT", "RTTVar", "DeliveryRate", "PacingRate"] {
            assert_eq!(of(name, &[]), None, "{name}");
        }
        assert_eq!(of("MinRTT", &[(Member::RttMin, u32::MAX.into())]), None);
        assert_eq!(of("SegsOut", &[]), Some(0.0));
    }

    #[test]
    fn an_instrument_is_made_of_its_members_alone() {
        for instrument in STANDARD {
            let members = instrument.origin.members();
            for bytes in [1, 8, 1_000_000, u64::MAX] {
                let value = |is_there: &dyn Fn(usize) -> bool| {
                    let field = |n| is_there(n).then(|| Field::whole(n));
                    let fields: Vec<_> = (0..MEMBERS.len()).map(field).collect();
                    let head = Head { now_ns: 1_000_000_000, ..Head::default() };
                    let bytes = |n: usize| bytes & (u64::MAX >> n);
                    let seen = Seen {
                        head: &head,
                        signals: None,
                        fields: &fields,
                        bytes: &bytes,
                        tick_ms: 4.0,
                    };
                    seen.value(&instrument.origin)
                };
                let narrow = value(&|n| members.contains(&n));
                assert_eq!(narrow, value(&|_| true), "{} of {bytes}", instrument.name);
            }
        }
    }

    #[test]
    fn windows_are_in_octets() {
        let members = [(Member::MssCache, 1448), (Member::SndCwnd, 10)];
        assert_eq!(of("CurCwnd", &members), Some(14_480.0));
        let infinite = [(Member::MssCache, 1448), (Member::SndSsthresh, INFINITE_SSTHRESH.into())];
        assert_eq!(of("CurSsthresh", &infinite), None);
        let in_flight = [
            (Member::MssCache, 1000),
            (Member::PacketsOut, 10),
            (Member::SackedOut, 3),
            (Member::LostOut, 2),
            (Member::RetransOut, 1),
        ];
        assert_eq!(of("PipeSize", &in_flight), Some(6000.0));
    }

    #[test]
    fn sequence_numbers_wrap() {
        let around = |end| [(Member::SndUna, 0xffff_fff0), (Member::SndNxt, end)];
        assert_eq!(of("CurRetxQueue", &around(0x10)), Some(32.0));
        // Read before the other one moved on.
        assert_eq!(of("CurRetxQueue", &around(0xffff_ff00)), Some(0.0));
        let offered = [(Member::RcvWup, 0xffff_ffff), (Member::RcvWnd, 100), (Member::RcvNxt, 9)];
        assert_eq!(of("CurRwinSent", &offered), Some(90.0));
    }

    #[test]
    fn the_end_of_the_peers_data_is_no_octet() {
        let received =
            |state| [(Member::RcvNxt, 8), (Member::CopiedSeq, 5), (Member::State, state)];
        assert_eq!(of("CurAppRQueue", &received(1)), Some(3.0));
        assert_eq!(of("CurAppRQueue", &received(CLOSE_WAIT)), Some(2.0));
    }

    #[test]
    fn times_are_those_of_the_kernels_clock() {
        let limits = Limits { busy_ticks: 100, rwnd_ticks: 50, sndbuf_ticks: u32::MAX };
        let head = Head {
            now_ns: 3_000_000_000,
            established_ns: 1_000_000_000,
            limits,
            ..Head::default()
        };
        let ms = |name, head| value(name, head, &[]);
        assert_eq!(ms("SndLimTimeCwnd", &head), Some(400.0));
        // Nothing yet, and its clock was started after this one was read.
        assert_eq!(ms("SndLimTimeSndbuf", &head), Some(0.0));
        assert_eq!(ms("SndLimTimeSnd", &head), Some(1400.0));
        let found = Head { role: Role::Running as u32, ..head };
        assert_eq!(ms("SndLimTimeSnd", &found), None);
        assert_eq!(of("CurRTO", &[(Member::Rto, 51)]), Some(204_000.0));
    }

    #[test]
    fn only_a_law_of_ours_has_a_phase() {
        let mut kept = [0xff; 8];
        kept[PHASE_BYTE] = ShownPhase::LimitedSlowStart as u8;
        let members = [(Member::CaPrivate, u64::from_ne_bytes(kept))];
        let phase = |congestion: &[u8], members| {
            let mut head = Head::default();
            head.congestion[..congestion.len()].copy_from_slice(congestion);
            value("Phase", &head, members)
        };
        assert_eq!(phase(b"wad_highspeed", &members), Some(2.0));
        assert_eq!(phase(b"wad_aimd3x", &members), Some(2.0));
        assert_eq!(phase(b"cubic", &members), None);
        // Before the first ACK, and what no law has left there.
        assert_eq!(phase(b"wad_aimd", &[]), None);
        assert_eq!(phase(b"wad_aimd", &[(Member::CaPrivate, u64::MAX)]), None);
    }

    #[test]
    fn only_a_law_of_ours_keeps_the_greatest_rtt() {
        let mut kept = [0; 8];
        kept[MAX_RTT_BYTE..].copy_from_slice(&123_456_u32.to_ne_bytes());
        let max_rtt = |congestion: &[u8], kept| {
            let mut head = Head::default();
            head.congestion[..congestion.len()].copy_from_slice(congestion);
            value("MaxRTT", &head, &[(Member::CaPrivate, u64::from_ne_bytes(kept))])
        };
        assert_eq!(max_rtt(b"wad_leaky", kept), Some(123_456.0));
        assert_eq!(max_rtt(b"cubic", kept), None);
        assert_eq!(max_rtt(b"wad_leaky", [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]), None);
    }

    #[test]
    fn signals_are_known_from_a_flows_start_on_where_they_are_counted() {
        let head = Head::default();
        let signals =
            |head: &Head| [value("CongSignals", head, &[]), value("SendStall", head, &[])];
        assert_eq!(signals(&head), [Some(5.0), Some(2.0)]);
        assert_eq!(signals(&Head { role: Role::Running as u32, ..head }), [None, None]);
        let (fields, bytes) = ([None; MEMBERS.len()], |_| 0);
        let seen =
            Seen { head: &head, signals: None, fields: &fields, bytes: &bytes, tick_ms: TICK_MS };
        assert_eq!((seen.congestion_signals(), seen.send_stalls()), (None, None));
    }

    #[test]
    fn timeouts_are_the_kernels_count_where_it_has_one() {
        let head = Head::default();
        assert_eq!(value("Timeouts", &head, &[(Member::TotalRtoRecoveries, 4)]), Some(4.0));
        // Linux 6.1 has none.
        let field = |n| (n != Member::TotalRtoRecoveries as usize).then(|| Field::whole(n));
        let fields: Vec<_> = (0..MEMBERS.len()).map(field).collect();
        let signals = Some(Signals { timeouts: 3, ..Signals::default() });
        let seen = Seen { head: &head, signals, fields: &fields, bytes: &|_| 0, tick_ms: TICK_MS };
        assert_eq!(seen.timeouts(), Some(3.0));
    }

    #[test]
    fn a_rate_without_a_bound_is_no_pacing() {
        let paced = |rate, status| [(Member::PacingRate, rate), (Member::PacingStatus, status)];
        assert_eq!(of("PacingRate", &paced(1000, 0)), None);
        assert_eq!(of("PacingRate", &paced(1000, 1)), Some(1000.0));
        assert_eq!(of("PacingRate", &paced(u64::MAX, 1)), None);
    }
}
