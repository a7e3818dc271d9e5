//! A bounded transfer over TCP to an answerer, which ends as soon as the kernel knows the
//! bandwidth.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io,
    time::Duration,
};

use nix::sys::socket::{
    getsockopt, setsockopt,
    sockopt::{Linger, SndBufForce, TcpCongestion},
};
use tokio::{
    net::TcpSocket,
    time::{Instant, MissedTickBehavior, interval},
};

use super::{
    Target, ToolError, Transfer,
    estimate::{Estimate, Sample},
    session::{Asked, Session},
    socket,
    tcp_info::{Bbr, TcpInfo},
};
use crate::measurement::{Measurement, RoundTrips};

/// Echoes before the transfer: the round trip time of an idle path.
const ECHOES: u16 = 5;
/// Bytes that are handed to the kernel at a time.
const AT_ONCE: usize = 256 << 10;
/// The kernel holds so much that it has not sent yet: enough for it never to wait for this
/// process, and no more.
const MOST_UNSENT_BYTES: i32 = 2 << 20;
/// The send buffer that a privileged process may take where the host's own bound is
/// smaller: twice what 2.5 Gbit/s and 200 ms have under way. It is used as need be.
const SEND_BUFFER_BYTES: usize = 128 << 20;
/// Samples in a round trip.
const SAMPLES: u32 = 8;
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(20);
/// Headers and what comes back take this part of a run's bytes at most.
const HEADERS: u64 = 16;

/// Measures, and leaves the rest unsent.
pub async fn run(transfer: &Transfer, to: &Target) -> Result<Measurement, ToolError> {
    let socket = Session::socket(to)?;
    let congestion = choose_congestion(&socket, to)?;
    // Who may not keeps what the host gives to everybody.
    let _ = setsockopt(&socket, SndBufForce, &SEND_BUFFER_BYTES);
    let unsent = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, MOST_UNSENT_BYTES);
    socket::set_number(&socket, to, "TCP_NOTSENT_LOWAT", unsent)?;
    let bytes = to.max_bytes - to.max_bytes / HEADERS;
    let asked = Asked { echoes: ECHOES, bytes, time: transfer.time };
    let mut session = Session::open(socket, to, transfer.port, asked).await?;
    // Whenever this ends, what the kernel holds is not sent any more.
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    socket::set(session.stream(), to, "SO_LINGER", Linger, &linger)?;
    let mut seconds = Vec::new();
    for number in 0..ECHOES {
        seconds.push(session.echo(number.into()).await?.as_secs_f64());
    }
    let (estimate, stands) = carry(&session).await.map_err(|error| session.broken(error))?;
    let bandwidth = estimate.bandwidth(stands, congestion);
    let nothing = ToolError::NothingDelivered { address: to.address };
    Ok(Measurement {
        rtt: RoundTrips::of(seconds),
        bandwidth: Some(bandwidth.ok_or(nothing)?),
        spent_bytes: session.spent_bytes(),
        ..Measurement::default()
    })
}

/// Sends until the estimate stands, or a bound of the grant comes first.
async fn carry(session: &Session) -> io::Result<(Estimate, bool)> {
    let (stream, grant) = (session.stream(), session.grant);
    let time = Duration::from_millis(grant.milliseconds);
    let data = noise();
    let mut estimate = Estimate::default();
    let mut left = grant.bytes;
    let look =
        |at| Ok::<_, io::Error>(Sample { at, info: TcpInfo::of(stream)?, bbr: Bbr::of(stream)? });
    // A short path carries all of the grant before the first tick.
    let first = look(Duration::ZERO)?;
    estimate.take(first);
    let before = first.info;
    let round_trip = Duration::from_micros(before.min_rtt_us.into());
    let mut ticks = interval((round_trip / SAMPLES).clamp(SHORTEST, LONGEST));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let begun = Instant::now();
    let mut bound = None;
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick() => {
                let at = begun.elapsed();
                let sample = look(at)?;
                if estimate.take(sample) {
                    return Ok((estimate, true));
                }
                let wanted = estimate.bound_bytes_per_second();
                if wanted != bound {
                    bound = wanted;
                    socket::pace(stream, bound)?;
                }
                let acked = sample.info.bytes_acked - before.bytes_acked;
                if acked >= grant.bytes || at >= time {
                    return Ok((estimate, false));
                }
            }
            ready = stream.writable(), if left > 0 => {
                ready?;
                let most = data.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                match stream.try_write(&data[..most]) {
                    Ok(bytes) => left -= bytes as u64,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
                // Others of this thread have their turn.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Takes BBR, or else CUBIC, or else what the host has for everybody; returns its name.
fn choose_congestion(socket: &TcpSocket, to: &Target) -> Result<String, ToolError> {
    for name in ["bbr", "cubic"] {
        if setsockopt(socket, TcpCongestion, &name.into()).is_ok() {
            return Ok(name.to_owned());
        }
    }
    let failed = |error: nix::Error| ToolError::Option {
        option: "TCP_CONGESTION",
        address: to.address,
        source: error.into(),
    };
    let name = getsockopt(socket, TcpCongestion).map_err(failed)?;
    Ok(name.to_string_lossy().trim_end_matches('\0').to_owned())
}

/// Returns bytes that no device on the way makes smaller.
fn noise() -> Vec<u8> {
    let keys = RandomState::new();
    let words = (0..AT_ONCE / 8).flat_map(|number| {
        let mut hasher = keys.build_hasher();
        hasher.write_usize(number);
        hasher.finish().to_ne_bytes()
    });
    words.collect()
}
