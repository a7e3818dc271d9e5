//! Connections that carry the same amount each, one after the other: as many at a time as are
//! asked for, until somebody kills both ends.

use std::{
    convert::Infallible,
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};

const WRITE_BYTES: usize = 64 * 1024;
/// The next connection begins so long after the one before, so that no two are as one.
const PAUSE: Duration = Duration::from_millis(5);

/// Sends so much by each connection, until one fails.
pub fn send(to: SocketAddr, streams: u32, bytes: u64) -> io::Error {
    let (failed, failure) = mpsc::channel();
    for _ in 0..streams {
        let failed = failed.clone();
        thread::spawn(move || {
            let Err(error) = send_one_by_one(to, bytes);
            // Nobody listens any more after the first.
            let _ = failed.send(error);
        });
    }
    failure.recv().unwrap_or_else(|_| io::ErrorKind::InvalidInput.into())
}

fn send_one_by_one(to: SocketAddr, bytes: u64) -> io::Result<Infallible> {
    let zeros = [0; WRITE_BYTES];
    loop {
        let mut stream = TcpStream::connect(to)?;
        let mut left = bytes;
        while left > 0 {
            let length = left.min(WRITE_BYTES as u64) as usize;
            left -= stream.write(&zeros[..length])? as u64;
        }
        stream.shutdown(Shutdown::Write)?;
        // The other end has taken all when it ends.
        io::copy(&mut stream, &mut io::sink())?;
        thread::sleep(PAUSE);
    }
}

/// Accepts connections, and reads each to its end, until one cannot be accepted.
pub fn receive(on: SocketAddr) -> io::Error {
    let Err(error) = accept_all(on);
    error
}

fn accept_all(on: SocketAddr) -> io::Result<Infallible> {
    let listener = TcpListener::bind(on)?;
    loop {
        let (mut stream, _peer) = listener.accept()?;
        thread::spawn(move || {
            let mut buffer = vec![0; WRITE_BYTES];
            while stream.read(&mut buffer).is_ok_and(|length| length > 0) {}
        });
    }
}
