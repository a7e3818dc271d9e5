//! Echoes over UDP. An answer is never longer than its question, and none is one to an
//! answer, so that nobody can have two answerers talk to each other.

use std::{
    io::{self, IoSlice, IoSliceMut},
    net::{IpAddr, SocketAddr},
    os::fd::{AsRawFd as _, OwnedFd},
    sync::Arc,
    time::Duration,
};

use nix::{
    libc::{in_pktinfo, in6_pktinfo},
    sys::socket::{
        AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol,
        SockType, SockaddrStorage, bind, recvmsg, sendmsg, setsockopt, socket,
        sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo},
    },
};
use tokio::{io::unix::AsyncFd, time::Instant};

use super::Terms;
use crate::tools::message::{BYTES, Message};

/// Answers in a second, to all together.
const MOST_ANSWERS: u32 = 20_000;
const SECOND: Duration = Duration::from_secs(1);

pub struct Udp {
    socket: AsyncFd<OwnedFd>,
    terms: Arc<Terms>,
}

/// A question says where its answer goes, and from which of this host's addresses.
struct Question {
    answer: Message,
    from: SockaddrStorage,
    at: Option<At>,
}

#[derive(Clone, Copy)]
enum At {
    V4(in_pktinfo),
    V6(in6_pktinfo),
}

impl Udp {
    pub fn bind(address: SocketAddr, terms: Arc<Terms>) -> io::Result<Self> {
        let family = if address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket(family, SockType::Datagram, flags, SockProtocol::Udp)?;
        // On a host of several addresses the answer comes from the one that was asked.
        match address {
            SocketAddr::V4(_) => setsockopt(&fd, Ipv4PacketInfo, &true)?,
            SocketAddr::V6(_) => setsockopt(&fd, Ipv6RecvPacketInfo, &true)?,
        }
        bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
        // SAFETY: it is the descriptor's owner, and gives it away to nobody.
        let socket = unsafe { AsyncFd::register(fd) }?;
        Ok(Self { socket, terms })
    }

    pub async fn serve(self) -> io::Result<()> {
        let (mut second, mut answers) = (Instant::now(), 0);
        loop {
            let mut ready = self.socket.readable().await?;
            let question = match ready.try_io(|socket| self.take(socket.as_raw_fd())) {
                Ok(Ok(Some(question))) => question,
                Ok(Ok(None)) | Err(_) => continue,
                // What became of an earlier answer is no fault of this end.
                Ok(Err(error)) if is_of_another(&error) => continue,
                Ok(Err(error)) => return Err(error),
            };
            if second.elapsed() >= SECOND {
                (second, answers) = (Instant::now(), 0);
            }
            answers += 1;
            if answers <= MOST_ANSWERS {
                // One that cannot leave is lost, as others are on the way.
                let _ = self.answer(&question);
            }
            // A flood does not keep the thread from its other work.
            tokio::task::yield_now().await;
        }
    }

    fn take(&self, fd: i32) -> io::Result<Option<Question>> {
        let mut bytes = [0; BYTES];
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let mut space = nix::cmsg_space!(in6_pktinfo, in_pktinfo);
        let flags = MsgFlags::empty();
        let received = recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut space), flags)?;
        let at = received.cmsgs().ok().and_then(|mut all| {
            all.find_map(|one| match one {
                ControlMessageOwned::Ipv4PacketInfo(info) => Some(At::V4(info)),
                ControlMessageOwned::Ipv6PacketInfo(info) => Some(At::V6(info)),
                _ => None,
            })
        });
        let (from, length) = (received.address, received.bytes);
        let Some((from, ip)) = from.and_then(|from| Some((from, ip(&from)?))) else {
            return Ok(None);
        };
        let allowed = self.terms.allow(SocketAddr::new(ip, 0));
        Ok(match Message::decode(&bytes[..length]) {
            Ok(Message::Question(echo)) if allowed => {
                Some(Question { answer: Message::Answer(echo), from, at })
            }
            _ => None,
        })
    }

    fn answer(&self, question: &Question) -> io::Result<()> {
        let bytes = question.answer.encode();
        let slices = [IoSlice::new(&bytes)];
        let at = match &question.at {
            // The device is the route's to choose.
            Some(At::V4(info)) => Some(At::V4(in_pktinfo { ipi_ifindex: 0, ..*info })),
            Some(At::V6(info)) => Some(At::V6(*info)),
            None => None,
        };
        let from = match &at {
            Some(At::V4(info)) => Some(ControlMessage::Ipv4PacketInfo(info)),
            Some(At::V6(info)) => Some(ControlMessage::Ipv6PacketInfo(info)),
            None => None,
        };
        let fd = self.socket.as_raw_fd();
        sendmsg(fd, &slices, from.as_slice(), MsgFlags::empty(), Some(&question.from))?;
        Ok(())
    }
}

fn ip(from: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = from.as_sockaddr_in().map(|from| IpAddr::from(from.ip()));
    v4.or_else(|| from.as_sockaddr_in6().map(|from| IpAddr::from(from.ip())))
}

fn is_of_another(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
}
