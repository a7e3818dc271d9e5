//! Connections send all they can while a test looks on with ss.

use std::{
    io::{self, Write as _},
    net::{Shutdown, TcpStream},
    thread,
    time::{Duration, Instant},
};

use crate::{
    netns::Netns,
    signal,
    ss::Flow,
    tcp::{self, Connection, TcpError},
};

/// Each end that connected sends, and the other takes it, until `look` returns;
/// then the connections are shut down.
///
/// # Errors
/// Those of `look`.
pub fn while_sending<T, E>(
    connections: &[Connection],
    look: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    thread::scope(|scope| {
        for Connection { near, far } in connections {
            scope.spawn(move || {
                let block = vec![0; 256 * 1024];
                let mut to = near;
                while to.write_all(&block).is_ok() {}
            });
            scope.spawn(move || {
                let mut from = far;
                io::copy(&mut from, &mut io::sink())
            });
        }
        let seen = look();
        for Connection { near, far } in connections {
            // Ends both threads; fails only for what has ended.
            let _ = near.shutdown(Shutdown::Both);
            let _ = far.shutdown(Shutdown::Both);
        }
        seen
    })
}

/// A flow at a moment.
#[derive(Clone, Debug)]
pub struct Sample {
    pub at: Instant,
    pub flow: Flow,
}

impl Sample {
    /// Takes one sample, now.
    ///
    /// # Errors
    /// When ss shows no such flow.
    pub fn of(netns: &Netns, stream: &TcpStream) -> Result<Self, TcpError> {
        // The moment when the kernel is asked lies in the middle.
        let asked = Instant::now();
        let flow = tcp::flow(netns, stream)?;
        Ok(Self { at: asked + asked.elapsed() / 2, flow })
    }
}

/// Takes samples of each of the connecting ends for some time, as many as ss can be
/// run.
///
/// # Errors
/// When ss does not show one of them.
pub fn samples(
    netns: &Netns,
    connections: &[Connection],
    span: Duration,
) -> Result<Vec<Vec<Sample>>, TcpError> {
    let begun = Instant::now();
    let mut samples = vec![Vec::new(); connections.len()];
    while begun.elapsed() < span {
        for (samples, connection) in samples.iter_mut().zip(connections) {
            samples.push(Sample::of(netns, &connection.near)?);
        }
        signal::sleep(Duration::from_millis(2))?;
    }
    Ok(samples)
}
