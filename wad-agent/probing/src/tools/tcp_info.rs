//! The kernel says this of a connection: `TCP_INFO` and `TCP_CC_INFO`
//! (include/uapi/linux/tcp.h, inet_diag.h). What an older kernel does not say is zero.

use std::{
    io,
    os::fd::{AsFd, AsRawFd as _},
};

/// As far as `tcpi_snd_wnd`.
const INFO_BYTES: usize = 232;
/// `struct tcp_bbr_info`.
const BBR_BYTES: usize = 20;
/// A gain of 1 (`BBR_UNIT`, net/ipv4/tcp_bbr.c).
const BBR_UNIT: f64 = 256.0;
/// The gains of STARTUP, both of them: 2/ln 2 (`bbr_high_gain`). DRAIN keeps that of the window.
const HIGH_GAIN: f64 = 2.88;

#[derive(Clone, Copy, Debug, Default)]
pub struct TcpInfo {
    pub is_app_limited: bool,
    pub rtt_us: u32,
    pub min_rtt_us: u32,
    pub bytes_acked: u64,
    /// All that has arrived, out of order or not: whole segments.
    pub delivered_bytes: u64,
    pub segments_out: u32,
    pub segments_in: u32,
    pub bytes_received: u64,
    pub delivery_bytes_per_second: u64,
    pub busy_us: u64,
    pub receiver_limited_us: u64,
    pub send_buffer_limited_us: u64,
    pub bytes_sent: u64,
    pub bytes_retransmitted: u64,
}

impl TcpInfo {
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let mut bytes = [0; INFO_BYTES];
        read(socket, libc::TCP_INFO, &mut bytes)?;
        let word =
            |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four of them"));
        let long =
            |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight of them"));
        Ok(Self {
            is_app_limited: bytes[7] & 1 != 0,
            rtt_us: word(68),
            bytes_acked: long(120),
            delivered_bytes: u64::from(word(192)) * u64::from(word(16)),
            bytes_received: long(128),
            segments_out: word(136),
            segments_in: word(140),
            min_rtt_us: word(148),
            delivery_bytes_per_second: long(160),
            busy_us: long(168),
            receiver_limited_us: long(176),
            send_buffer_limited_us: long(184),
            bytes_sent: long(200),
            bytes_retransmitted: long(208),
        })
    }
}

/// The state of BBR version 1, which is that of all kernels so far.
#[derive(Clone, Copy, Debug)]
pub struct Bbr {
    pacing_gain: f64,
    window_gain: f64,
}

impl Bbr {
    /// Reads it; None under another congestion control.
    pub fn of(socket: &impl AsFd) -> io::Result<Option<Self>> {
        let mut bytes = [0; BBR_BYTES];
        if read(socket, libc::TCP_CC_INFO, &mut bytes)? < BBR_BYTES {
            return Ok(None);
        }
        let word = |n: usize| {
            u32::from_ne_bytes(bytes[4 * n..4 * n + 4].try_into().expect("four of them"))
        };
        Ok(Some(Self {
            pacing_gain: f64::from(word(3)) / BBR_UNIT,
            window_gain: f64::from(word(4)) / BBR_UNIT,
        }))
    }

    #[cfg(test)]
    pub const STARTUP: Self = Self { pacing_gain: 2.887, window_gain: 2.887 };
    #[cfg(test)]
    pub const PROBE_BW: Self = Self { pacing_gain: 1.25, window_gain: 2.0 };

    /// Whether it still looks for the rate of the path: full pipe it has not seen.
    pub fn is_in_startup(&self) -> bool {
        self.pacing_gain >= HIGH_GAIN && self.window_gain >= HIGH_GAIN
    }
}

/// Returns how many bytes the kernel says.
fn read(socket: &impl AsFd, option: i32, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = bytes.len() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most as many bytes as it is told there are.
    let result = unsafe {
        libc::getsockopt(fd, libc::IPPROTO_TCP, option, bytes.as_mut_ptr().cast(), &raw mut length)
    };
    if result == 0 { Ok(length as usize) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[test]
    fn a_connection_tells_what_it_has_done() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        stream.write_all(&[7; 1000]).unwrap();
        other.read_exact(&mut [0; 1000]).unwrap();
        other.write_all(&[7; 10]).unwrap();
        stream.read_exact(&mut [0; 10]).unwrap();
        let info = TcpInfo::of(&stream).unwrap();
        assert_eq!((info.bytes_sent, info.bytes_received, info.bytes_retransmitted), (1000, 10, 0));
        assert!(info.rtt_us > 0 && info.segments_out >= 3, "{info:?}");
    }
}
