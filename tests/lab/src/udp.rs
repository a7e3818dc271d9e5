//! A burst of datagrams, to make a bottleneck overflow.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use wad_testbed::monotonic_ns;

use crate::scenario::Burst;

/// The payload makes, with the headers of IPv4 (20) and UDP (8), a packet of 1500
/// bytes.
const PAYLOAD: [u8; 1472] = [0; 1472];
const PACKET_BITS: f64 = 12_000.0;
/// This is the port for discarding (RFC 863). Nobody listens there, which costs the
/// other end a few ICMP packets, limited by its kernel.
const PORT: u16 = 9;

/// Sends the burst from the calling thread's namespace, the run having begun at a time
/// by CLOCK_MONOTONIC; returns how many packets there were.
///
/// # Errors
/// When there is no socket to be had, or no way to the other end.
pub fn send(burst: &Burst, to: std::net::IpAddr, start_ns: u64) -> io::Result<u64> {
    let socket = UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    let to = SocketAddr::new(to, PORT);
    let begin_ns = start_ns + burst.at.nanoseconds();
    thread::sleep(Duration::from_nanos(begin_ns.saturating_sub(monotonic_ns())));
    let begun = Instant::now();
    let mut sent = 0;
    while begun.elapsed() < burst.lasts.0 {
        let due = begun.elapsed().as_secs_f64() * burst.rate.bits_per_second as f64 / PACKET_BITS;
        if (sent as f64) < due {
            socket.send_to(&PAYLOAD, to)?;
            sent += 1;
        } else {
            thread::yield_now();
        }
    }
    Ok(sent)
}
