//! A flow sends all it can, and the kernel says what its window is.

use std::{
    io::Write as _,
    net::{Shutdown, TcpStream},
    os::fd::{AsRawFd as _, RawFd},
    ptr, thread,
    time::Duration,
};

use anyhow::{Result, ensure};
use nix::sys::socket::{getsockopt, sockopt};

use wad_testbed::{
    signal,
    tcp::{Connection, at},
    tcp_info::TcpInfo,
    veth::{ADDRESSES_V4, Wire},
};

/// The interval is short beside a round trip time.
const INTERVAL: Duration = Duration::from_millis(5);

/// A flow ends when this is dropped.
pub struct Flow {
    connection: Connection,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Flow {
    pub fn start(wire: &Wire, port: u16) -> Result<Self> {
        let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], port))?;
        let (near, far) = (connection.near.try_clone()?, connection.far.try_clone()?);
        let threads = vec![thread::spawn(move || send(near)), thread::spawn(move || discard(&far))];
        Ok(Self { connection, threads })
    }

    /// Checks the flow's algorithm; the name of an instance's has a suffix.
    pub fn ensure_algorithm(&self, wanted: &str) -> Result<()> {
        let name = getsockopt(&self.connection.near, sockopt::TcpCongestion)?;
        let name = name.to_string_lossy();
        // Such a name is cut to make room for it.
        let begin = &wanted[..wanted.len().min(12)];
        ensure!(name.starts_with(begin), "a flow has {name}, not {wanted}");
        Ok(())
    }

    fn look(&self) -> Result<TcpInfo> {
        Ok(TcpInfo::of(&self.connection.near)?)
    }

    /// Waits until a congestion event has ended its slow start.
    pub fn await_first_event(&self) -> Result<()> {
        while self.look()?.ssthresh_segments.is_none() {
            signal::sleep(INTERVAL)?;
        }
        Ok(())
    }

    /// Segments that it has sent again so far.
    pub fn losses(&self) -> Result<u32> {
        Ok(self.look()?.retransmits)
    }

    /// Waits until it has sent so many segments again.
    pub fn await_losses(&self, losses: u32) -> Result<()> {
        while self.losses()? < losses {
            signal::sleep(INTERVAL)?;
        }
        Ok(())
    }

    /// Returns the mean of the flow's window until it has sent so many segments again,
    /// seen at regular times.
    pub fn mean_window_until(&self, losses: u32) -> Result<f64> {
        let (mut sum, mut looks) = (0_u64, 0_u32);
        loop {
            let info = self.look()?;
            sum += u64::from(info.cwnd_segments);
            looks += 1;
            if info.retransmits >= losses {
                return Ok(sum as f64 / f64::from(looks));
            }
            signal::sleep(INTERVAL)?;
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        // One that has ended by itself needs no more.
        let _ = self.connection.near.shutdown(Shutdown::Both);
        let _ = self.connection.far.shutdown(Shutdown::Both);
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
