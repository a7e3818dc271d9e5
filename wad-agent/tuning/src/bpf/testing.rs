//! An event for tests.

use std::net::Ipv4Addr;

use wad_common::{
    event::{Event, Kind},
    flow::{Flow, Outcome, Settings},
    policy::CONGESTION_BYTES,
    progress::Limits,
};

fn congestion(name: &str) -> [u8; CONGESTION_BYTES] {
    let mut bytes = [0; CONGESTION_BYTES];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

fn mapped(address: &str) -> [u8; 16] {
    address.parse::<Ipv4Addr>().unwrap().to_ipv6_mapped().octets()
}

/// 1 GB in 16 s, tuned in full.
pub fn event() -> Event {
    let before = Settings {
        congestion: congestion("cubic"),
        sndbuf_bytes: 16_384,
        rcvbuf_bytes: 131_072,
        cwnd_segments: 10,
        ..Settings::default()
    };
    let after = Settings {
        congestion: congestion("wad_aimd"),
        sndbuf_bytes: 7_502_478,
        rcvbuf_bytes: 13_143_798,
        cwnd_segments: 24,
        ..Settings::default()
    };
    let flow = Flow {
        outcome: Outcome::Tuned as u32,
        matched_ns: 999_930_000_000,
        established_ns: 1_000_000_000_000,
        initial_window_segments: 24,
        before,
        after,
        ..Flow::default()
    };
    Event {
        flow,
        time_ns: 1_016_000_400_000,
        cookie: 1,
        bytes_acked: 1_000_000_000,
        bytes_received: 1000,
        remote: mapped("10.5.128.74"),
        local: mapped("10.0.0.1"),
        remote_port: 5201,
        local_port: 40_000,
        kind: Kind::Close as u32,
        data_segs_out: 690_608,
        segs_retrans: 3,
        srtt_us: 70_125,
        min_rtt_us: 70_001,
        cwnd_segments: 3759,
        ssthresh_segments: 3000,
        mss_bytes: 1448,
        delivered_segments: 3_759,
        delivered_in_us: 70_090,
        user: 1_000,
        cgroup: 0,
        limits: Limits { busy_ticks: 15_000, rwnd_ticks: 800, sndbuf_ticks: 100 },
        reserved: 0,
    }
}
