//! Flows that send all they can, and what the kernel says of their windows.

use std::{
    io::Write as _,
    net::{Shutdown, TcpStream},
    os::fd::{AsRawFd as _, RawFd},
    ptr, thread,
    time::Duration,
};

use anyhow::{Result, ensure};
use nix::sys::socket::{getsockopt, sockopt};

use crate::{
    signal,
    tcp::{Connection, at},
    tcp_info::TcpInfo,
    veth::{ADDRESSES_V4, Wire},
};

/// Short beside a round trip time.
const INTERVAL: Duration = Duration::from_millis(5);

/// Ended when dropped.
pub struct Flows {
    connections: Vec<Connection>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Flows {
    pub fn start(wire: &Wire, port: u16, count: usize) -> Result<Self> {
        let mut flows = Self { connections: Vec::new(), threads: Vec::new() };
        for _ in 0..count {
            let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], port))?;
            let (near, far) = (connection.near.try_clone()?, connection.far.try_clone()?);
            flows.threads.push(thread::spawn(move || send(near)));
            flows.threads.push(thread::spawn(move || discard(&far)));
            flows.connections.push(connection);
        }
        Ok(flows)
    }

    /// Of an instance's algorithm the name has a suffix.
    pub fn ensure_algorithm(&self, wanted: &str) -> Result<()> {
        for connection in &self.connections {
            let name = getsockopt(&connection.near, sockopt::TcpCongestion)?;
            let name = name.to_string_lossy();
            // Such a name is cut to make room for it.
            let begin = &wanted[..wanted.len().min(12)];
            ensure!(name.starts_with(begin), "a flow has {name}, not {wanted}");
        }
        Ok(())
    }

    /// Waits until each flow has sent so many segments again.
    pub fn await_losses(&self, losses: u32) -> Result<()> {
        for connection in &self.connections {
            while TcpInfo::of(&connection.near)?.retransmits < losses {
                signal::sleep(INTERVAL)?;
            }
        }
        Ok(())
    }

    /// Looks at the windows until all flows together have had so many losses more;
    /// the mean of each.
    pub fn mean_windows(&self, losses: u32) -> Result<Vec<f64>> {
        let mut sums = vec![0_u64; self.connections.len()];
        let mut looks = 0_u32;
        let mut end = None;
        loop {
            let mut lost = 0;
            for (sum, connection) in sums.iter_mut().zip(&self.connections) {
                let info = TcpInfo::of(&connection.near)?;
                *sum += u64::from(info.cwnd_segments);
                lost += info.retransmits;
            }
            looks += 1;
            if lost >= *end.get_or_insert(lost + losses) {
                return Ok(sums.into_iter().map(|sum| sum as f64 / f64::from(looks)).collect());
            }
            signal::sleep(INTERVAL)?;
        }
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        for connection in &self.connections {
            // One that has ended by itself needs no more.
            let _ = connection.near.shutdown(Shutdown::Both);
            let _ = connection.far.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn send(mut to: TcpStream) {
    let block = vec![0; 256 * 1024];
    while to.write_all(&block).is_ok() {}
}

/// Has the kernel throw away what comes (tcp(7), MSG_TRUNC).
fn discard(from: &TcpStream) {
    const MOST_BYTES: usize = 1 << 20;
    let from: RawFd = from.as_raw_fd();
    // SAFETY: with MSG_TRUNC nothing is written to the buffer.
    while unsafe { libc::recv(from, ptr::null_mut(), MOST_BYTES, libc::MSG_TRUNC) } > 0 {}
}
