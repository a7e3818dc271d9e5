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
        Origin::{self, By, Is},
    },
};

const fn of(
    name: &'static str,
    unit: Unit,
    kind: Kind,
    about: &'static str,
    origin: Origin,
) -> Instrument {
    Instrument { name, unit, kind, about, origin }
}

/// The instruments, in the order in which they are shown.
pub const STANDARD: &[Instrument] = &[
    of(
        "ElapsedSecs",
        Seconds,
        Counter,
        "since it was established, or found; with a fraction",
        By(|seen| seen.elapsed_seconds()),
    ),
    of("HCDataOctetsOut", Octets, Counter, "data sent, with what was retransmitted", Is(BytesSent)),
    of(
        "HCThruOctetsAcked",
        Octets,
        Counter,
        "data that the peer acknowledged, and the SYN",
        Is(BytesAcked),
    ),
    of("HCThruOctetsReceived", Octets, Counter, "data received in order", Is(BytesReceived)),
    of("SegsOut", Segments, Counter, "segments sent", Is(SegsOut)),
    of("SegsIn", Segments, Counter, "segments received", Is(SegsIn)),
    of("DataSegsOut", Segments, Counter, "segments sent with data", Is(DataSegsOut)),
    of("DataSegsIn", Segments, Counter, "segments received with data", Is(DataSegsIn)),
    of("SegsRetrans", Segments, Counter, "segments retransmitted", Is(TotalRetrans)),
    of("OctetsRetrans", Octets, Counter, "data retransmitted", Is(BytesRetrans)),
    of(
        "DSACKDups",
        Segments,
        Counter,
        "duplicates that the peer reported (RFC 2883)",
        Is(DsackDups),
    ),
    of("CurTimeoutCount", Events, Gauge, "timeouts in a row, now", Is(Retransmits)),
    of(
        "CurCwnd",
        Octets,
        Gauge,
        "congestion window: snd_cwnd times the MSS",
        By(|seen| seen.octets(SndCwnd)),
    ),
    of(
        "CurSsthresh",
        Octets,
        Gauge,
        "slow start threshold; none while it is infinite",
        By(|seen| seen.ssthresh_octets()),
    ),
    of("CurMSS", Octets, Gauge, "sending maximum segment size", Is(MssCache)),
    of(
        "PipeSize",
        Octets,
        Gauge,
        "data on its way (RFC 6675): tcp_packets_in_flight()",
        By(|seen| seen.pipe_octets()),
    ),
    of(
        "CurRetxQueue",
        Octets,
        Gauge,
        "data sent and not acknowledged",
        By(|seen| seen.unacknowledged_octets()),
    ),
    of(
        "CurAppWQueue",
        Octets,
        Gauge,
        "data written by the application and not sent",
        By(|seen| seen.unsent_octets()),
    ),
    of(
        "CurAppRQueue",
        Octets,
        Gauge,
        "data received that the application has not read",
        By(|seen| seen.unread_octets()),
    ),
    of("CurRwinRcvd", Octets, Gauge, "receive window that the peer offers", Is(SndWnd)),
    of(
        "CurRwinSent",
        Octets,
        Gauge,
        "receive window offered to the peer",
        By(|seen| seen.offered_octets()),
    ),
    of(
        "SmoothedRTT",
        Microseconds,
        Gauge,
        "smoothed round trip time (RFC 6298)",
        By(|seen| seen.smoothed_rtt_us()),
    ),
    of(
        "RTTVar",
        Microseconds,
        Gauge,
        "its variation (RFC 6298)",
        By(|seen| seen.rtt_variation_us()),
    ),
    of(
        "MinRTT",
        Microseconds,
        Gauge,
        "least RTT of the kernel's window of minutes",
        By(|seen| seen.min_rtt_us()),
    ),
    of("CurRTO", Microseconds, Gauge, "retransmission timeout", By(|seen| seen.timeout_us())),
    of(
        "RetranThresh",
        Segments,
        Gauge,
        "duplicates before a loss is taken for one: reordering",
        Is(Reordering),
    ),
    of("ReorderEvents", Events, Counter, "times that reordering was seen", Is(ReordSeen)),
    of(
        "SndLimTimeRwin",
        Milliseconds,
        Counter,
        "time that the peer's window limited it",
        By(|seen| seen.receiver_limited_ms()),
    ),
    of(
        "SndLimTimeCwnd",
        Milliseconds,
        Counter,
        "time that the congestion window, or pacing, did",
        By(|seen| seen.window_limited_ms()),
    ),
    of(
        "SndLimTimeSnd",
        Milliseconds,
        Counter,
        "time that this end did; none if found running",
        By(|seen| seen.sender_limited_ms()),
    ),
    of(
        "SndLimTimeSndbuf",
        Milliseconds,
        Counter,
        "of that, the send buffer; not in the RFC",
        By(|seen| seen.buffer_limited_ms()),
    ),
    of(
        "DeliveryRate",
        Unit::OctetsPerSecond,
        Gauge,
        "latest sample of tcp_rate.c; not in the RFC",
        By(|seen| seen.delivery_octets_per_second()),
    ),
    of(
        "PacingRate",
        Unit::OctetsPerSecond,
        Gauge,
        "none without pacing; not in the RFC",
        By(|seen| seen.pacing_octets_per_second()),
    ),
    of("SndBuf", Octets, Gauge, "send buffer, as the kernel counts it; not in the RFC", Is(SndBuf)),
    of(
        "RcvBuf",
        Octets,
        Gauge,
        "receive buffer, as the kernel counts it; not in the RFC",
        Is(RcvBuf),
    ),
    of(
        "IsAppLimited",
        Number,
        Gauge,
        "1 while the application limits it; not in the RFC",
        By(|seen| seen.is_app_limited()),
    ),
    of(
        "Phase",
        Number,
        Gauge,
        "where a law of ours is, as listed below; not in the RFC",
        By(|seen| seen.phase()),
    ),
];
