//! This module reads what the kernel says of a socket of this process (tcp(7),
//! TCP_INFO): the same as `ss` shows, at the cost of a system call.

use std::{io, net::TcpStream, os::fd::AsRawFd as _};

/// Fields of the kernel's `struct tcp_info`.
#[derive(Clone, Copy, Debug)]
pub struct TcpInfo {
    /// Segments that are sent and not acknowledged.
    pub unacked_segments: u32,
    /// Segments that are retransmitted and not acknowledged.
    pub retransmits_out: u32,
    /// Segments that are retransmitted so far.
    pub retransmits: u32,
    pub rtt_ms: f64,
    /// The slow start threshold; none until the first loss.
    pub ssthresh_segments: Option<u32>,
    pub cwnd_segments: u32,
}

impl TcpInfo {
    /// # Errors
    /// When the socket is not connected.
    pub fn of(stream: &TcpStream) -> io::Result<Self> {
        // The eight bytes and the 32-bit words that they are all in; those of the
        // kernel's structure (include/uapi/linux/tcp.h) that follow are left out.
        const WORDS: usize = 26;
        let mut words = [0_u32; WORDS];
        let mut bytes = size_of_val(&words) as libc::socklen_t;
        // SAFETY: the kernel writes at most as many bytes as it is told there are.
        let result = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                words.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        /// `TCP_INFINITE_SSTHRESH` is this value.
        const INFINITE: u32 = i32::MAX as u32;
        Ok(Self {
            unacked_segments: words[6],
            retransmits_out: words[9],
            rtt_ms: f64::from(words[17]) / 1e3,
            ssthresh_segments: Some(words[19]).filter(|segments| *segments != INFINITE),
            cwnd_segments: words[20],
            retransmits: words[25],
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_new_connection_has_the_initial_window_and_no_threshold() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = TcpInfo::of(&stream).unwrap();
        // RFC 6928.
        assert_eq!((info.cwnd_segments, info.ssthresh_segments), (10, None));
        assert_eq!((info.unacked_segments, info.retransmits, info.retransmits_out), (0, 0, 0));
        assert!(info.rtt_ms > 0.0 && info.rtt_ms < 1000.0);
    }
}
