//! Many transfers at once, that go on until told to stop.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::{
    netns::Netns,
    ss::Flow,
    tcp::{Connection, TcpError},
};

const ROUND_BYTES: usize = 300_000;

/// Leaves the processors to others now and then.
const PAUSE: Duration = Duration::from_millis(20);

/// Dropped, they end.
#[derive(Debug)]
pub struct Transfers(Vec<Connection>);

impl Transfers {
    /// From `a` to `b`, each to a port of its own.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn open(a: &Netns, b: &Netns, first: SocketAddr, count: usize) -> Result<Self, TcpError> {
        let ports = (first.port()..).take(count);
        let open = |port| Connection::open(a, b, SocketAddr::new(first.ip(), port));
        Ok(Self(ports.map(open).collect::<Result<_, _>>()?))
    }

    /// Sends to and fro on all of them until told to stop; the least number of
    /// rounds of any.
    ///
    /// # Errors
    /// When one breaks, or delivers anything but what was sent.
    pub fn run(&self, stop: &AtomicBool) -> Result<u64, TcpError> {
        let one = |connection: &Connection| {
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) {
                connection.exchange(ROUND_BYTES)?;
                rounds += 1;
                thread::sleep(PAUSE);
            }
            Ok(rounds)
        };
        thread::scope(|scope| {
            let running: Vec<_> =
                self.0.iter().map(|connection| scope.spawn(move || one(connection))).collect();
            let rounds =
                running.into_iter().map(|one| one.join().expect("a transfer does not panic"));
            rounds.collect::<Result<Vec<_>, _>>().map(|all| all.into_iter().min().unwrap_or(0))
        })
    }

    /// As `ss` shows the ends that connected, in the namespace `a`.
    ///
    /// # Errors
    /// When one of them is not there.
    pub fn near_flows(&self, a: &Netns) -> Result<Vec<Flow>, TcpError> {
        self.0.iter().map(|connection| connection.near_flow(a)).collect()
    }
}
