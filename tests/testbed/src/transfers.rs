//! Many transfers run at once, until told to stop.

use std::{
    net::SocketAddr,
    ops::RangeInclusive,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use crate::{
    netns::Netns,
    ss::{self, Flow},
    tcp::{Connection, TcpError},
};

const ROUND_BYTES: usize = 50_000;

/// The pause between two rounds leaves a processor to what is tested.
const PAUSE: Duration = Duration::from_millis(250);

/// Transfers end when this is dropped.
#[derive(Debug)]
pub struct Transfers {
    connections: Vec<Connection>,
    /// The ports of the ends that were accepted.
    ports: RangeInclusive<u16>,
}

impl Transfers {
    /// Opens transfers from `a` to `b`, each to a port of its own.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn open(a: &Netns, b: &Netns, first: SocketAddr, count: u16) -> Result<Self, TcpError> {
        let ports = first.port()..=first.port() + count - 1;
        let open = |port| Connection::open(a, b, SocketAddr::new(first.ip(), port));
        Ok(Self { connections: ports.clone().map(open).collect::<Result<_, _>>()?, ports })
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
            let running: Vec<_> = self
                .connections
                .iter()
                .map(|connection| scope.spawn(move || one(connection)))
                .collect();
            let rounds =
                running.into_iter().map(|one| one.join().expect("a transfer does not panic"));
            rounds.collect::<Result<Vec<_>, _>>().map(|all| all.into_iter().min().unwrap_or(0))
        })
    }

    /// Returns the ends that connected, as `ss` shows them in the namespace `a`: all
    /// that there are still.
    ///
    /// # Errors
    /// When ss fails.
    pub fn near_flows(&self, a: &Netns) -> Result<Vec<Flow>, TcpError> {
        let (first, last) = (self.ports.start(), self.ports.end());
        let filter = format!("( dport >= :{first} and dport <= :{last} )");
        Ok(a.run(|| ss::flows(&filter))??)
    }
}
