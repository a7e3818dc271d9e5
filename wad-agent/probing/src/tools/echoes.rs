//! Round trip times, losses and reordering, by echoes.

use std::io;

use tokio::time::{Instant, sleep_until};

use super::{
    Echo, Rtt, Target, ToolError,
    datagrams::{Came, Datagrams},
    headers::header_bytes,
    message,
    session::{Asked, Session},
    train::Train,
};
use crate::measurement::{Measurement, RoundTrips};

/// The header of TCP with timestamps takes so much beside that of IP, and so does what
/// acknowledges it.
const TCP_BYTES: u64 = 32;

impl Rtt {
    fn payload_bytes(&self) -> usize {
        usize::from(self.payload_bytes).max(message::BYTES)
    }

    fn packet_bytes(&self, is_v6: bool) -> u64 {
        header_bytes(is_v6) + self.payload_bytes() as u64
    }

    /// An answerer sends but its message back.
    fn answer_bytes(&self, is_v6: bool) -> u64 {
        match self.by {
            Echo::Icmp => self.packet_bytes(is_v6),
            Echo::Udp { .. } | Echo::Tcp { .. } => header_bytes(is_v6) + message::BYTES as u64,
        }
    }

    pub fn most_bytes(&self, is_v6: bool) -> u64 {
        let count = u64::from(self.count.get());
        let headers = header_bytes(is_v6);
        match self.by {
            Echo::Icmp | Echo::Udp { .. } => {
                count.saturating_mul(self.packet_bytes(is_v6) + self.answer_bytes(is_v6))
            }
            // Each way a segment and what acknowledges it, and the session's own.
            Echo::Tcp { .. } => {
                let each = 4 * (headers + TCP_BYTES) + 2 * message::BYTES as u64;
                each.saturating_mul(count.saturating_add(4))
            }
        }
    }
}

/// Sends them, and waits for what comes back.
pub async fn run(rtt: &Rtt, to: &Target) -> Result<Measurement, ToolError> {
    let nonce = message::nonce();
    let datagrams = match rtt.by {
        Echo::Icmp => Datagrams::icmp(to, nonce)?,
        Echo::Udp { port } => Datagrams::udp(to, port, nonce)?,
        Echo::Tcp { port } => return over_tcp(rtt, to, port).await,
    };
    let (train, fault) = send(&datagrams, rtt).await;
    if train.count() == 0 {
        let (address, count) = (to.address, rtt.count);
        return Err(ToolError::Silent { address, count, source: fault });
    }
    let (loss, is_v6) = (train.loss(), to.address.is_ipv6());
    Ok(Measurement {
        rtt: train.round_trips(),
        loss: Some(loss),
        reordering: Some(train.reordering()),
        spent_bytes: loss.whole * rtt.packet_bytes(is_v6) + train.count() * rtt.answer_bytes(is_v6),
        ..Measurement::default()
    })
}

/// Sends a train, and returns the last error that the way told of.
async fn send(datagrams: &Datagrams, rtt: &Rtt) -> (Train, Option<io::Error>) {
    let (mut train, mut fault) = (Train::default(), None);
    let begun = Instant::now();
    let mut left = rtt.count.get();
    let mut due = begun;
    loop {
        tokio::select! {
            biased;
            came = datagrams.receive() => match came {
                Ok(Came { sequence, age }) => {
                    train.came(sequence, begun.elapsed().saturating_sub(age));
                    if left == 0 && train.are_all_back() {
                        break;
                    }
                }
                // The kernel tells it once for each that was refused on the way.
                Err(error) => fault = Some(error),
            },
            () = sleep_until(due), if left > 0 => {
                let sequence = u64::from(rtt.count.get() - left);
                train.sent(begun.elapsed());
                // One that cannot leave is lost.
                if let Err(error) = datagrams.send(sequence, rtt.payload_bytes()).await {
                    fault = Some(error);
                }
                left -= 1;
                due = if left == 0 { Instant::now() + rtt.wait } else { due + rtt.interval };
            }
            () = sleep_until(due), if left == 0 => break,
        }
    }
    (train, fault)
}

/// Sends one after the other: they cannot overtake each other.
async fn over_tcp(rtt: &Rtt, to: &Target, port: u16) -> Result<Measurement, ToolError> {
    let mut session =
        Session::open(Session::socket(to)?, to, port, Asked::echoes(rtt.count)).await?;
    let mut seconds = Vec::new();
    let begun = Instant::now();
    for number in 0..rtt.count.get() {
        sleep_until(begun + rtt.interval * number.into()).await;
        seconds.push(session.echo(number.into()).await?.as_secs_f64());
    }
    let rtt = RoundTrips::of(seconds);
    Ok(Measurement { rtt, spent_bytes: session.spent_bytes(), ..Measurement::default() })
}
