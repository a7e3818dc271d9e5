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
/// A few packets become due in this time, and go together.
const REST: Duration = Duration::from_micros(50);
/// With less than this of its packets a burst is none: it may not make the queue overflow.
const ENOUGH: f64 = 0.7;

/// Sends the burst from the calling thread's namespace, the run having begun at a time
/// by CLOCK_MONOTONIC.
///
/// # Errors
/// When there is no socket to be had, no way to the other end, or no time to send it.
pub fn send(burst: &Burst, to: std::net::IpAddr, start_ns: u64) -> io::Result<()> {
    let socket = UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    let to = SocketAddr::new(to, PORT);
    let begin_ns = start_ns + burst.at.nanoseconds();
    thread::sleep(Duration::from_nanos(begin_ns.saturating_sub(monotonic_ns())));
    let begun = Instant::now();
    let packets = |seconds| seconds * burst.rate.bits_per_second as f64 / PACKET_BITS;
    let mut sent = 0_u64;
    while begun.elapsed() < burst.lasts.0 {
        if (sent as f64) < packets(begun.elapsed().as_secs_f64()) {
            socket.send_to(&PAYLOAD, to)?;
            sent += 1;
        } else {
            // Whoever sleeps goes before what runs at idle priority; whoever yields does not.
            thread::sleep(REST);
        }
    }
    let whole = packets(burst.lasts.0.as_secs_f64());
    if (sent as f64) < ENOUGH * whole {
        let short = format!("{sent} of {whole:.0} packets were sent: this machine was too busy");
        return Err(io::Error::other(short));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use wad_testbed::emulated::units::{Rate, Span};

    use super::*;

    #[test]
    fn a_burst_that_is_not_sent_is_an_error() {
        let of = |bits_per_second| {
            let lasts = Span(Duration::from_millis(20));
            let rate = Rate { bits_per_second };
            let burst = Burst { at: Span(Duration::ZERO), lasts, rate };
            send(&burst, Ipv4Addr::LOCALHOST.into(), monotonic_ns())
        };
        let error = of(10_u64.pow(15)).unwrap_err().to_string();
        assert!(
            error.ends_with("of 1666666667 packets were sent: this machine was too busy"),
            "{error}"
        );
        of(10_000).unwrap();
    }
}
