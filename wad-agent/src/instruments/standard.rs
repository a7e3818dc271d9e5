//! The instruments that every reading has.
//!
//! Times that RFC 4898 has in milliseconds are in microseconds where the kernel
//! knows them so; windows are in octets, as there.

use super::{
    Instrument,
    Kind::{self, Counter, Gauge},
    Unit::{self, Events, Microseconds, Milliseconds, Number, Octets, Seconds, Segments},
};

const fn of(name: &'static str, unit: Unit, kind: Kind, about: &'static str) -> Instrument {
    Instrument { name, unit, kind, about }
}

/// In the order in which they are shown.
pub const STANDARD: &[Instrument] = &[
    of("ElapsedSecs", Seconds, Counter, "since it was established, or found; with a fraction"),
    of("HCDataOctetsOut", Octets, Counter, "data sent, with what was retransmitted"),
    of("HCThruOctetsAcked", Octets, Counter, "data that the peer acknowledged"),
    of("HCThruOctetsReceived", Octets, Counter, "data received in order"),
    of("SegsOut", Segments, Counter, "segments sent"),
    of("SegsIn", Segments, Counter, "segments received"),
    of("DataSegsOut", Segments, Counter, "segments sent with data"),
    of("DataSegsIn", Segments, Counter, "segments received with data"),
    of("SegsRetrans", Segments, Counter, "segments retransmitted"),
    of("OctetsRetrans", Octets, Counter, "data retransmitted"),
    of("DSACKDups", Segments, Counter, "duplicates that the peer reported (RFC 2883)"),
    of("CurTimeoutCount", Events, Gauge, "timeouts in a row, now"),
    of("CurCwnd", Octets, Gauge, "congestion window: snd_cwnd times the MSS"),
    of("CurSsthresh", Octets, Gauge, "slow start threshold; none while it is infinite"),
    of("CurMSS", Octets, Gauge, "sending maximum segment size"),
    of("PipeSize", Octets, Gauge, "data on its way (RFC 6675): tcp_packets_in_flight()"),
    of("CurRetxQueue", Octets, Gauge, "data sent and not acknowledged"),
    of("CurAppWQueue", Octets, Gauge, "data written by the application and not sent"),
    of("CurAppRQueue", Octets, Gauge, "data received that the application has not read"),
    of("CurRwinRcvd", Octets, Gauge, "receive window that the peer offers"),
    of("CurRwinSent", Octets, Gauge, "receive window offered to the peer"),
    of("SmoothedRTT", Microseconds, Gauge, "smoothed round trip time (RFC 6298)"),
    of("RTTVar", Microseconds, Gauge, "its variation (RFC 6298)"),
    of("MinRTT", Microseconds, Gauge, "least RTT of the kernel's window of minutes"),
    of("CurRTO", Microseconds, Gauge, "retransmission timeout"),
    of("RetranThresh", Segments, Gauge, "duplicates before a loss is taken for one: reordering"),
    of("ReorderEvents", Events, Counter, "times that reordering was seen"),
    of("SndLimTimeRwin", Milliseconds, Counter, "time that the peer's window limited it"),
    of("SndLimTimeCwnd", Milliseconds, Counter, "time that the congestion window, or pacing, did"),
    of("SndLimTimeSnd", Milliseconds, Counter, "time that this end did: its application or buffer"),
    of("SndLimTimeSndbuf", Milliseconds, Counter, "of that, the send buffer; not in the RFC"),
    of("DeliveryRate", Unit::OctetsPerSecond, Gauge, "latest sample of tcp_rate.c; not in the RFC"),
    of("PacingRate", Unit::OctetsPerSecond, Gauge, "none without pacing; not in the RFC"),
    of("SndBuf", Octets, Gauge, "send buffer, as the kernel counts it; not in the RFC"),
    of("RcvBuf", Octets, Gauge, "receive buffer, as the kernel counts it; not in the RFC"),
    of("IsAppLimited", Number, Gauge, "1 while the application limits it; not in the RFC"),
];
