//! A plain bulk transfer is done as any application would do it: blocking sockets, no
//! socket option but at the very end. The receiver checks every byte.

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

use nix::sys::socket::{Backlog, getsockopt, listen, setsockopt, sockopt};
use serde::{Deserialize, Serialize};
use wad_testbed::{monotonic_ns, random::Random};

const WRITE_BYTES: usize = 128 * 1024;
/// The length is prime, so that a piece of the stream that is lost, doubled or moved by
/// any usual size does not go unnoticed.
const PATTERN_BYTES: usize = 65_521;
/// So many bytes are compared by a few instructions of the processor.
const COMPARED_BYTES: usize = 32;
const COUNT_EVERY: Duration = Duration::from_millis(20);
/// A transfer of a given time may take so long for what is left in the buffers then: on
/// a slow path that could be minutes.
const DRAIN: Duration = Duration::from_secs(10);

/// Holds what the sender says at its end.
#[derive(Debug, Serialize, Deserialize)]
pub struct Sent {
    /// The time just before it connected, CLOCK_MONOTONIC.
    pub started_ns: u64,
    pub bytes: u64,
    /// Tells whether all of it was waited for.
    pub whole: bool,
    /// The congestion control that the first connection had at its end.
    pub congestion: String,
}

/// One connection has sent this.
struct SentByOne {
    bytes: u64,
    whole: bool,
    congestion: String,
}

/// Holds what the receiver says at its end.
#[derive(Debug, Serialize, Deserialize)]
pub struct Received {
    pub bytes: u64,
    /// Time (CLOCK_MONOTONIC, nanoseconds) and bytes received until then, for
    /// each connection in the order of their acceptance.
    pub counts: Vec<(u64, Vec<u64>)>,
}

/// Tells how much is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Sends as much as goes in this time.
    Time(Duration),
    /// Bytes over all connections together, each the same but for a byte.
    Bytes(u64),
}

/// Sends so much over so many connections at once, and waits until the receiver
/// has taken everything; when the time was given, for 10 s at most: then a reset
/// ends the connection.
///
/// # Errors
/// When a connection fails.
pub fn send(to: SocketAddr, streams: u32, amount: Amount) -> io::Result<Sent> {
    let started_ns = monotonic_ns();
    let begun = Instant::now();
    let threads = (0..streams).map(|number| match amount {
        Amount::Time(span) => thread::spawn(move || send_one(to, u64::MAX, Some(begun + span))),
        Amount::Bytes(bytes) => {
            let (share, rest) = (bytes / u64::from(streams), bytes % u64::from(streams));
            let most_bytes = share + u64::from(u64::from(number) < rest);
            thread::spawn(move || send_one(to, most_bytes, None))
        }
    });
    let streams = joined(threads.collect())?;
    let bytes = streams.iter().map(|stream| stream.bytes).sum();
    let whole = streams.iter().all(|stream| stream.whole);
    let first = streams.into_iter().next();
    let congestion = first.map_or_else(String::new, |stream| stream.congestion);
    Ok(Sent { started_ns, bytes, whole, congestion })
}

/// Sends over one connection, and waits whether the receiver takes it all.
fn send_one(to: SocketAddr, most_bytes: u64, until: Option<Instant>) -> io::Result<SentByOne> {
    let stream = TcpStream::connect(to)?;
    let bytes = write(&stream, most_bytes, until)?;
    let name = getsockopt(&stream, sockopt::TcpCongestion)?;
    let congestion = name.to_string_lossy().trim_end_matches('\0').to_owned();
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(until.map(|_| DRAIN))?;
    match (&stream).read(&mut [0]) {
        Ok(0) => Ok(SentByOne { bytes, whole: true, congestion }),
        Ok(_) => Err(io::Error::other("the receiver sent data")),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            let reset = libc::linger { l_onoff: 1, l_linger: 0 };
            setsockopt(&stream, sockopt::Linger, &reset)?;
            Ok(SentByOne { bytes, whole: false, congestion })
        }
        Err(error) => Err(error),
    }
}

/// Writes so much or for so long, and returns how many bytes that were. A write over a slow path
/// waits until half of a large buffer is empty, which takes minutes: time ends that, too.
fn write(mut stream: &TcpStream, most_bytes: u64, until: Option<Instant>) -> io::Result<u64> {
    let pattern = pattern(WRITE_BYTES);
    let mut bytes = 0;
    while bytes < most_bytes {
        if let Some(end) = until {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            stream.set_write_timeout(Some(left))?;
        }
        let at = (bytes % PATTERN_BYTES as u64) as usize;
        let length = (most_bytes - bytes).min(WRITE_BYTES as u64) as usize;
        match stream.write(&pattern[at..at + length]) {
            Ok(written) => bytes += written as u64,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// Accepts so many connections and reads each to its end.
///
/// # Errors
/// When a connection fails, or its bytes are not those that were sent.
pub fn receive(on: SocketAddr, streams: u32) -> io::Result<Received> {
    let listener = TcpListener::bind(on)?;
    // All of them come at once, and the standard library lets 128 wait.
    listen(&listener, Backlog::MAXCONN)?;
    let totals: Arc<[AtomicU64]> = (0..streams).map(|_| AtomicU64::new(0)).collect();
    let counted = |totals: &[AtomicU64]| {
        (monotonic_ns(), totals.iter().map(|total| total.load(Ordering::Relaxed)).collect())
    };
    let mut threads = Vec::new();
    for number in 0..streams as usize {
        let (stream, _peer) = listener.accept()?;
        let totals = Arc::clone(&totals);
        threads.push(thread::spawn(move || receive_one(stream, &totals[number])));
    }
    let mut counts = Vec::new();
    while !threads.iter().all(thread::JoinHandle::is_finished) {
        counts.push(counted(&totals));
        thread::sleep(COUNT_EVERY);
    }
    let bytes = joined(threads)?.iter().sum();
    counts.push(counted(&totals));
    Ok(Received { bytes, counts })
}

fn receive_one(mut stream: TcpStream, total: &AtomicU64) -> io::Result<u64> {
    let pattern = pattern(WRITE_BYTES);
    let mut buffer = vec![0; WRITE_BYTES];
    let mut bytes = 0;
    loop {
        let length = match stream.read(&mut buffer) {
            // The sender says whether that was all.
            Ok(0) => return Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(bytes),
            other => other?,
        };
        let at = (bytes % PATTERN_BYTES as u64) as usize;
        if !are_same(&buffer[..length], &pattern[at..at + length]) {
            return Err(io::Error::other(format!("wrong data after byte {bytes}")));
        }
        bytes += length as u64;
        total.fetch_add(length as u64, Ordering::Relaxed);
    }
}

/// Tells whether two pieces of one length are the same. The comparison of a static
/// program's C library takes seven instructions for each byte, which at some hundreds of
/// megabits per second is half of an emulated processor; these few are compared at a
/// time, without it.
fn are_same(left: &[u8], right: &[u8]) -> bool {
    let ((left, left_rest), (right, right_rest)) =
        (left.as_chunks::<COMPARED_BYTES>(), right.as_chunks::<COMPARED_BYTES>());
    left.iter().zip(right).all(|(left, right)| left == right) && left_rest == right_rest
}

/// Returns the stream's content, long enough to take `length` bytes from any place.
fn pattern(length: usize) -> Vec<u8> {
    let mut random = Random::new(0);
    let period: Vec<u8> = (0..PATTERN_BYTES).map(|_| random.next() as u8).collect();
    period.iter().copied().cycle().take(PATTERN_BYTES + length).collect()
}

fn joined<T>(threads: Vec<thread::JoinHandle<io::Result<T>>>) -> io::Result<Vec<T>> {
    threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use wad_testbed::free;

    use super::*;

    #[test]
    fn every_byte_arrives() {
        let address = free::address().unwrap();
        let receiver = thread::spawn(move || receive(address, 2));
        thread::sleep(Duration::from_millis(100));
        // The pattern is made in that time, too, which takes a busy machine a while.
        let sent = send(address, 2, Amount::Time(Duration::from_secs(1))).unwrap();
        let received = receiver.join().unwrap().unwrap();
        assert_eq!((sent.bytes, sent.whole), (received.bytes, true));
        assert!(sent.bytes > 0 && received.counts.is_sorted());
    }

    #[test]
    fn time_ends_a_write_that_waits_for_the_receiver() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (done, is_done) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let end = Instant::now() + Duration::from_millis(100);
            done.send(write(&stream, u64::MAX, Some(end)).map_err(|error| error.kind()))
        });
        let written = is_done.recv_timeout(Duration::from_secs(60));
        assert!(matches!(written, Ok(Ok(1..))), "{written:?}");
    }

    #[test]
    fn so_many_bytes_are_shared_among_the_connections() {
        let address = free::address().unwrap();
        let receiver = thread::spawn(move || receive(address, 3));
        thread::sleep(Duration::from_millis(100));
        let sent = send(address, 3, Amount::Bytes(1_000_001)).unwrap();
        let received = receiver.join().unwrap().unwrap();
        assert_eq!((sent.bytes, received.bytes), (1_000_001, 1_000_001));
        let (_, mut last) = received.counts.into_iter().last().unwrap();
        last.sort_unstable();
        assert_eq!(last, [333_333, 333_334, 333_334]);
    }

    #[test]
    fn a_reset_ends_what_was_received_so_far() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _peer) = listener.accept().unwrap();
        sender.write_all(&pattern(0)[..1000]).unwrap();
        setsockopt(&sender, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
        drop(sender);
        let total = AtomicU64::new(0);
        assert_eq!(receive_one(stream, &total).unwrap(), total.load(Ordering::Relaxed));
    }

    #[test]
    fn one_other_byte_is_noticed_at_any_place() {
        let right = pattern(0);
        for length in [0, 1, 31, 32, 33, 64, 100] {
            let mut wrong = right[..length].to_vec();
            assert!(are_same(&wrong, &right[..length]), "{length}");
            for at in 0..length {
                wrong[at] ^= 1;
                assert!(!are_same(&wrong, &right[..length]), "{at} of {length}");
                wrong[at] ^= 1;
            }
        }
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
