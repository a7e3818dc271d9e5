//! A plain bulk transfer, as any application would do it: blocking sockets, no
//! socket option. The receiver checks every byte.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::random::Random;
use crate::monotonic_ns;

const WRITE_BYTES: usize = 128 * 1024;
/// Prime, so that a piece of the stream that is lost, doubled or moved by any
/// usual size does not go unnoticed.
const PATTERN_BYTES: usize = 65_521;
const COUNT_EVERY: Duration = Duration::from_millis(20);

/// What the sender says at its end.
#[derive(Debug, Serialize, Deserialize)]
pub struct Sent {
    /// Just before it connected, CLOCK_MONOTONIC.
    pub started_ns: u64,
    pub bytes: u64,
}

/// What the receiver says at its end.
#[derive(Debug, Serialize, Deserialize)]
pub struct Received {
    pub bytes: u64,
    /// Time (CLOCK_MONOTONIC, nanoseconds) and bytes received until then.
    pub counts: Vec<(u64, u64)>,
}

/// Sends for the given time over so many connections at once, and waits until
/// the receiver has taken everything.
///
/// # Errors
/// When a connection fails.
pub fn send(to: SocketAddr, streams: u32, span: Duration) -> io::Result<Sent> {
    let started_ns = monotonic_ns();
    let end = Instant::now() + span;
    let threads: Vec<_> = (0..streams).map(|_| thread::spawn(move || send_one(to, end))).collect();
    let bytes = joined(threads)?;
    Ok(Sent { started_ns, bytes })
}

fn send_one(to: SocketAddr, end: Instant) -> io::Result<u64> {
    let pattern = pattern(WRITE_BYTES);
    let mut stream = TcpStream::connect(to)?;
    let mut bytes = 0;
    while Instant::now() < end {
        let at = (bytes % PATTERN_BYTES as u64) as usize;
        bytes += stream.write(&pattern[at..at + WRITE_BYTES])? as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    match stream.read(&mut [0])? {
        0 => Ok(bytes),
        _ => Err(io::Error::other("the receiver sent data")),
    }
}

/// Accepts so many connections and reads each to its end.
///
/// # Errors
/// When a connection fails, or its bytes are not those that were sent.
pub fn receive(on: SocketAddr, streams: u32) -> io::Result<Received> {
    let listener = TcpListener::bind(on)?;
    let total = Arc::new(AtomicU64::new(0));
    let mut threads = Vec::new();
    for _ in 0..streams {
        let (stream, _peer) = listener.accept()?;
        let total = Arc::clone(&total);
        threads.push(thread::spawn(move || receive_one(stream, &total)));
    }
    let mut counts = Vec::new();
    while !threads.iter().all(thread::JoinHandle::is_finished) {
        counts.push((monotonic_ns(), total.load(Ordering::Relaxed)));
        thread::sleep(COUNT_EVERY);
    }
    let bytes = joined(threads)?;
    counts.push((monotonic_ns(), bytes));
    Ok(Received { bytes, counts })
}

fn receive_one(mut stream: TcpStream, total: &AtomicU64) -> io::Result<u64> {
    let pattern = pattern(WRITE_BYTES);
    let mut buffer = vec![0; WRITE_BYTES];
    let mut bytes = 0;
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(bytes);
        }
        let at = (bytes % PATTERN_BYTES as u64) as usize;
        if buffer[..length] != pattern[at..at + length] {
            return Err(io::Error::other(format!("wrong data after byte {bytes}")));
        }
        bytes += length as u64;
        total.fetch_add(length as u64, Ordering::Relaxed);
    }
}

/// The stream's content, long enough to take `length` bytes from any place.
fn pattern(length: usize) -> Vec<u8> {
    let mut random = Random::new(0);
    let period: Vec<u8> = (0..PATTERN_BYTES).map(|_| random.next() as u8).collect();
    period.iter().copied().cycle().take(PATTERN_BYTES + length).collect()
}

fn joined(threads: Vec<thread::JoinHandle<io::Result<u64>>>) -> io::Result<u64> {
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives() {
        let address: SocketAddr = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap()
        };
        let receiver = thread::spawn(move || receive(address, 2));
        thread::sleep(Duration::from_millis(100));
        let sent = send(address, 2, Duration::from_millis(100)).unwrap();
        let received = receiver.join().unwrap().unwrap();
        assert_eq!(sent.bytes, received.bytes);
        assert!(sent.bytes > 0 && received.counts.is_sorted());
    }

    #[test]
    fn wrong_bytes_are_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _peer) = listener.accept().unwrap();
        let mut bytes = pattern(0)[..1000].to_vec();
        bytes[700] ^= 1;
        sender.write_all(&bytes).unwrap();
        drop(sender);
        assert!(receive_one(stream, &AtomicU64::new(0)).is_err());
    }
}
