//! Connections whose receivers never read: what arrives stays in the kernel. The sender
//! writes whatever it takes. Both go on until they are killed.

use std::{
    convert::Infallible,
    io::{self, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

use nix::sys::socket::{Backlog, listen, setsockopt, sockopt};
use serde::{Deserialize, Serialize};

const WRITE_BYTES: usize = 64 * 1024;

/// This became of connections whose receivers never read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unread {
    pub wanted: u64,
    /// So many of them were there at the end, with something to be read.
    pub connections: u64,
    /// The ends of them that have a law of `wad`'s.
    pub tuned_ends: u64,
    /// The bytes that wait at the receivers.
    pub bytes: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// Segments that the receivers' kernel dropped.
    pub drops: u64,
}

impl Unread {
    /// Returns the segments that were lost, as either end has it; none where not all
    /// connections were there.
    #[must_use]
    pub fn losses(&self) -> Option<u64> {
        let losses = self.retransmits.saturating_add(self.drops);
        (self.connections == self.wanted).then_some(losses)
    }
}

/// Connects so many times, spread over a time, and writes whatever is taken, until one of
/// the connections fails.
pub fn fill(to: SocketAddr, streams: u32, over: Duration) -> io::Error {
    let (failed, failure) = mpsc::channel();
    for number in 0..streams {
        let failed = failed.clone();
        thread::spawn(move || {
            thread::sleep(over * number / streams);
            let Err(error) = fill_one(to);
            // Nobody listens any more after the first.
            let _ = failed.send(error);
        });
    }
    failure.recv().unwrap_or_else(|_| io::ErrorKind::InvalidInput.into())
}

fn fill_one(to: SocketAddr) -> io::Result<Infallible> {
    let mut connection = TcpStream::connect(to)?;
    // What was not sent is given up with the process.
    setsockopt(&connection, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
    loop {
        connection.write_all(&[0; WRITE_BYTES])?;
    }
}

/// Accepts connections, and never reads, until the kernel gives none.
pub fn hold(on: SocketAddr) -> io::Error {
    let Err(error) = accept_all(on);
    error
}

fn accept_all(on: SocketAddr) -> io::Result<Infallible> {
    let listener = TcpListener::bind(on)?;
    listen(&listener, Backlog::MAXCONN)?;
    let mut held = Vec::new();
    loop {
        held.push(listener.accept()?);
    }
}

#[cfg(test)]
mod tests {
    use std::{io::ErrorKind, time::Instant};

    use super::*;

    #[test]
    fn what_nobody_reads_fills_up_until_it_ends() {
        const STREAMS: u32 = 3;
        let over = Duration::from_millis(300);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let begun = Instant::now();
        let filling = thread::spawn(move || fill(to, STREAMS, over));
        let accepted: Vec<_> = (0..STREAMS).map(|_| listener.accept().unwrap().0).collect();
        // One after the other: the last comes after two thirds of the time.
        assert!(begun.elapsed() >= over * 2 / 3, "{:?}", begun.elapsed());
        assert!(accepted.iter().all(|far| far.peek(&mut [0; 8]).unwrap() > 0));
        assert!(!filling.is_finished());
        drop(accepted);
        let error = filling.join().unwrap();
        let kinds = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
        assert!(kinds.contains(&error.kind()), "{error}");
    }

    #[test]
    fn losses_are_of_all_or_of_none() {
        let unread =
            Unread { wanted: 3, connections: 3, retransmits: 1, drops: 2, ..Unread::default() };
        assert_eq!(unread.losses(), Some(3));
        assert_eq!(Unread { connections: 2, ..unread }.losses(), None);
    }
}
