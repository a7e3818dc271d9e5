//! The instruments that every reading has.
//!
//! Times that RFC 4898 has in milliseconds are in microseconds where the kernel
//! knows them so; windows are in octets, as there.

use super::{
    Instrument,
    Kind::{self, Counter, Gauge},
    Unit::{self, Events, Microseconds, Milliseconds, Number, Octets, Seconds, Segments},
    seen::{
        Member::{
            BytesAcked, BytesReceived, BytesRetrans, BytesSent, DataSegsIn, DataSegsOut, DsackDups,
            MssCache, RcvBuf, ReordSeen, Reordering, Retransmits, SegsIn, SegsOut, SndBuf, SndCwnd,
            SndWnd, TotalRetrans,
        },
        Seen,
    },
};

type Value = fn(&Seen<'_>) -> Option<f64>;

const fn of(
    name: &'static str,
    unit: Unit,
    kind: Kind,
    about: &'static str,
    value: Value,
) -> Instrument {
    Instrument { name, unit, kind, about, value }
}

/// In the order in which they are shown.
pub const STANDARD: &[Instrument] = &[
    of(
        "ElapsedSecs",
        Seconds,
        Counter,
        "since it was established, or found; with a fraction",
        |seen| seen.elapsed_seconds(),
    ),
    of("HCDataOctetsOut", Octets, Counter, "data sent, with what was retransmitted", |seen| {
        seen.number(BytesSent)
    }),
    of(
        "HCThruOctetsAcked",
        Octets,
        Counter,
        "data that the peer acknowledged, and the SYN",
        |seen| seen.number(BytesAcked),
    ),
    of("HCThruOctetsReceived", Octets, Counter, "data received in order", |seen| {
        seen.number(BytesReceived)
    }),
    of("SegsOut", Segments, Counter, "segments sent", |seen| seen.number(SegsOut)),
    of("SegsIn", Segments, Counter, "segments received", |seen| seen.number(SegsIn)),
    of("DataSegsOut", Segments, Counter, "segments sent with data", |seen| {
        seen.number(DataSegsOut)
    }),
    of("DataSegsIn", Segments, Counter, "segments received with data", |seen| {
        seen.number(DataSegsIn)
    }),
    of("SegsRetrans", Segments, Counter, "segments retransmitted", |seen| {
        seen.number(TotalRetrans)
    }),
    of("OctetsRetrans", Octets, Counter, "data retransmitted", |seen| seen.number(BytesRetrans)),
    of("DSACKDups", Segments, Counter, "duplicates that the peer reported (RFC 2883)", |seen| {
        seen.number(DsackDups)
    }),
    of("CurTimeoutCount", Events, Gauge, "timeouts in a row, now", |seen| seen.number(Retransmits)),
    of("CurCwnd", Octets, Gauge, "congestion window: snd_cwnd times the MSS", |seen| {
        seen.octets(SndCwnd)
    }),
    of("CurSsthresh", Octets, Gauge, "slow start threshold; none while it is infinite", |seen| {
        seen.ssthresh_octets()
    }),
    of("CurMSS", Octets, Gauge, "sending maximum segment size", |seen| seen.number(MssCache)),
    of("PipeSize", Octets, Gauge, "data on its way (RFC 6675): tcp_packets_in_flight()", |seen| {
        seen.pipe_octets()
    }),
    of("CurRetxQueue", Octets, Gauge, "data sent and not acknowledged", |seen| {
        seen.unacknowledged_octets()
    }),
    of("CurAppWQueue", Octets, Gauge, "data written by the application and not sent", |seen| {
        seen.unsent_octets()
    }),
    of("CurAppRQueue", Octets, Gauge, "data received that the application has not read", |seen| {
        seen.unread_octets()
    }),
    of("CurRwinRcvd", Octets, Gauge, "receive window that the peer offers", |seen| {
        seen.number(SndWnd)
    }),
    of("CurRwinSent", Octets, Gauge, "receive window offered to the peer", |seen| {
        seen.offered_octets()
    }),
    of("SmoothedRTT", Microseconds, Gauge, "smoothed round trip time (RFC 6298)", |seen| {
        seen.smoothed_rtt_us()
    }),
    of("RTTVar", Microseconds, Gauge, "its variation (RFC 6298)", |seen| seen.rtt_variation_us()),
    of("MinRTT", Microseconds, Gauge, "least RTT of the kernel's window of minutes", |seen| {
        seen.min_rtt_us()
    }),
    of("CurRTO", Microseconds, Gauge, "retransmission timeout", |seen| seen.timeout_us()),
    of(
        "RetranThresh",
        Segments,
        Gauge,
        "duplicates before a loss is taken for one: reordering",
        |seen| seen.number(Reordering),
    ),
    of("ReorderEvents", Events, Counter, "times that reordering was seen", |seen| {
        seen.number(ReordSeen)
    }),
    of("SndLimTimeRwin", Milliseconds, Counter, "time that the peer's window limited it", |seen| {
        seen.receiver_limited_ms()
    }),
    of(
        "SndLimTimeCwnd",
        Milliseconds,
        Counter,
        "time that the congestion window, or pacing, did",
        |seen| seen.window_limited_ms(),
    ),
    of(
        "SndLimTimeSnd",
        Milliseconds,
        Counter,
        "time that this end did; none if found running",
        |seen| seen.sender_limited_ms(),
    ),
    of(
        "SndLimTimeSndbuf",
        Milliseconds,
        Counter,
        "of that, the send buffer; not in the RFC",
        |seen| seen.buffer_limited_ms(),
    ),
    of(
        "DeliveryRate",
        Unit::OctetsPerSecond,
        Gauge,
        "latest sample of tcp_rate.c; not in the RFC",
        |seen| seen.delivery_octets_per_second(),
    ),
    of("PacingRate", Unit::OctetsPerSecond, Gauge, "none without pacing; not in the RFC", |seen| {
        seen.pacing_octets_per_second()
    }),
    of("SndBuf", Octets, Gauge, "send buffer, as the kernel counts it; not in the RFC", |seen| {
        seen.number(SndBuf)
    }),
    of(
        "RcvBuf",
        Octets,
        Gauge,
        "receive buffer, as the kernel counts it; not in the RFC",
        |seen| seen.number(RcvBuf),
    ),
    of(
        "IsAppLimited",
        Number,
        Gauge,
        "1 while the application limits it; not in the RFC",
        |seen| seen.is_app_limited(),
    ),
];
