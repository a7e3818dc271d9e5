//! Echoes as datagrams: ICMP's by the kernel's unprivileged sockets (icmp(7)), or those of
//! an answerer over UDP.
//!
//! The time at which one came is the kernel's, so that this process may be late.

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsRawFd as _, OwnedFd},
    time::{Duration, SystemTime},
};

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, connect,
    recvmsg, sendmsg, socket, sockopt::ReceiveTimestampns,
};
use tokio::io::unix::AsyncFd;

use super::{
    Target, ToolError,
    message::{self, Echo, Message},
    socket::{address, family, prepare, set, set_number},
};

/// Types of ICMP's messages: RFC 792, RFC 4443 section 4.
#[derive(Clone, Copy, Debug)]
struct Types {
    request: u8,
    reply: u8,
}

const V4: Types = Types { request: 8, reply: 0 };
const V6: Types = Types { request: 128, reply: 129 };
const ICMP_HEADER_BYTES: usize = 8;

/// A socket that sends echoes and hears of them.
pub struct Datagrams {
    socket: AsyncFd<OwnedFd>,
    /// None over UDP.
    icmp: Option<Types>,
    /// Tells this run's echoes from others'.
    nonce: u64,
}

/// An echo that came back.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    pub sequence: u64,
    /// It is here for so long.
    pub age: Duration,
}

impl Datagrams {
    /// Opens one for ICMP.
    pub fn icmp(to: &Target, nonce: u64) -> Result<Self, ToolError> {
        let (protocol, types) = match to.address.is_ipv6() {
            true => (SockProtocol::IcmpV6, V6),
            false => (SockProtocol::Icmp, V4),
        };
        Self::open(to, 0, protocol, Some(types), nonce).map_err(|error| match error {
            ToolError::Socket { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                ToolError::PingForbidden { range: ping_group_range() }
            }
            error => error,
        })
    }

    /// Opens one to an answerer.
    pub fn udp(to: &Target, port: u16, nonce: u64) -> Result<Self, ToolError> {
        Self::open(to, port, SockProtocol::Udp, None, nonce)
    }

    fn open(
        to: &Target,
        port: u16,
        protocol: SockProtocol,
        icmp: Option<Types>,
        nonce: u64,
    ) -> Result<Self, ToolError> {
        let failed = |error: io::Error| ToolError::Socket { address: to.address, source: error };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket(family(to), SockType::Datagram, flags, protocol);
        let fd = fd.map_err(|error| failed(error.into()))?;
        prepare(&fd, to)?;
        set(&fd, to, "SO_TIMESTAMPNS", ReceiveTimestampns, &true)?;
        connect(fd.as_raw_fd(), &address(to, port)).map_err(|error| failed(error.into()))?;
        // SAFETY: it is the descriptor's owner, and gives it away to nobody.
        let socket = unsafe { AsyncFd::register(fd) };
        let socket = socket.map_err(|error| failed(error.into()))?;
        Ok(Self { socket, icmp, nonce })
    }

    /// Has packets leave as large as they are, whatever routers said of the way.
    pub fn forbid_fragments(&self, to: &Target) -> Result<(), ToolError> {
        let (name, level, option, value) = match to.address.is_ipv6() {
            true => {
                let probe = libc::IPV6_PMTUDISC_PROBE;
                ("IPV6_MTU_DISCOVER", libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe)
            }
            false => {
                let probe = libc::IP_PMTUDISC_PROBE;
                ("IP_MTU_DISCOVER", libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, probe)
            }
        };
        set_number(self.socket.get_ref(), to, name, (level, option, value))
    }

    /// Sends an echo of so many bytes behind the header of ICMP or UDP.
    pub async fn send(&self, sequence: u64, payload_bytes: usize) -> io::Result<()> {
        let message = Message::Question(Echo { nonce: self.nonce, sequence }).encode();
        let mut packet = Vec::with_capacity(ICMP_HEADER_BYTES + payload_bytes);
        if let Some(Types { request, .. }) = self.icmp {
            // The kernel sets the checksum and the identifier.
            let number = (sequence as u16).to_be_bytes();
            packet.extend_from_slice(&[request, 0, 0, 0, 0, 0, number[0], number[1]]);
        }
        packet.extend_from_slice(&message);
        let wanted = packet.len() - message.len() + payload_bytes.max(message::BYTES);
        packet.resize(wanted, 0);
        loop {
            let mut ready = self.socket.writable().await?;
            let sent = ready.try_io(|socket| {
                let (slices, fd) = ([IoSlice::new(&packet)], socket.as_raw_fd());
                // An error that an earlier one met is told once, and before the next is sent.
                let flags = MsgFlags::MSG_NOSIGNAL;
                Ok(sendmsg::<SockaddrStorage>(fd, &slices, &[], flags, None)?)
            });
            if let Ok(sent) = sent {
                return sent.map(drop);
            }
        }
    }

    /// Waits for the next echo of this run. What else comes is passed over.
    pub async fn receive(&self) -> io::Result<Came> {
        loop {
            let mut ready = self.socket.readable().await?;
            match ready.try_io(|socket| self.take(socket.as_raw_fd())) {
                Ok(Ok(Some(came))) => return Ok(came),
                Ok(Ok(None)) | Err(_) => {}
                Ok(Err(error)) => return Err(error),
            }
        }
    }

    fn take(&self, fd: i32) -> io::Result<Option<Came>> {
        let mut bytes = [0; ICMP_HEADER_BYTES + message::BYTES];
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let mut space = nix::cmsg_space!(libc::timespec);
        let flags = MsgFlags::empty();
        let received = recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut space), flags)?;
        let now = SystemTime::now();
        let stamp = received.cmsgs().ok().and_then(|mut all| {
            all.find_map(|one| match one {
                ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time)),
                _ => None,
            })
        });
        let length = received.bytes;
        let since = |stamp| now.duration_since(SystemTime::UNIX_EPOCH + stamp).ok();
        let age = stamp.and_then(since).unwrap_or_default();
        let sequence = self.own(&bytes[..length]);
        Ok(sequence.map(|sequence| Came { sequence, age }))
    }

    /// Returns the place of an echo, if it is one of this run's.
    fn own(&self, bytes: &[u8]) -> Option<u64> {
        let echo = match self.icmp {
            Some(Types { reply, .. }) => {
                let (header, rest) = bytes.split_first_chunk::<ICMP_HEADER_BYTES>()?;
                match Message::decode(rest) {
                    Ok(Message::Question(echo)) if header[0] == reply => echo,
                    _ => return None,
                }
            }
            None => match Message::decode(bytes) {
                Ok(Message::Answer(echo)) => echo,
                _ => return None,
            },
        };
        (echo.nonce == self.nonce).then_some(echo.sequence)
    }
}

fn ping_group_range() -> String {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ping_group_range");
    range.map_or_else(|_| "unknown".to_owned(), |range| range.trim().replace('\t', " to "))
}
