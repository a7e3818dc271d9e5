//! TCP connections between two namespaces, both ends of them in this process,
//! so that a test knows every byte.

use std::{
    fs,
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    thread,
    time::Duration,
};

use nix::sys::socket::{
    self, AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, sockopt,
};

use crate::{
    netns::{Netns, NetnsError},
    process::{ProcessError, run},
    random::Random,
    signal::Interrupted,
    ss::{self, Flow},
    stand::{Late, until},
};

const PATIENCE: Duration = Duration::from_secs(30);
/// The length is prime, so that a piece that is lost, doubled or moved by any usual
/// size does not go unnoticed.
const CHUNK_BYTES: usize = 65_521;

/// Tells what went wrong with a connection.
#[derive(Debug, thiserror::Error)]
pub enum TcpError {
    #[error(transparent)]
    Netns(#[from] NetnsError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Late(#[from] Late),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("cannot listen on {on}")]
    Listen { on: SocketAddr, source: io::Error },
    #[error("cannot connect to {to}")]
    Connect { to: SocketAddr, source: io::Error },
    #[error("cannot accept on {on}")]
    Accept { on: SocketAddr, source: io::Error },
    #[error("cannot use a socket")]
    Socket(#[from] io::Error),
    #[error("ss shows no flow from {local} to {peer}")]
    Unseen { local: SocketAddr, peer: SocketAddr },
}

/// Listens in a namespace.
///
/// # Errors
/// When the address is none of the namespace's, or taken.
pub fn listen(netns: &Netns, on: SocketAddr) -> Result<TcpListener, TcpError> {
    netns.run(|| TcpListener::bind(on))?.map_err(|source| TcpError::Listen { on, source })
}

/// Waits until a process listens on a port in a namespace.
///
/// # Errors
/// When none does in time.
pub fn await_listener(netns: &Netns, port: u16) -> Result<(), TcpError> {
    let filter = format!("sport = :{port}");
    let look = || Ok::<_, TcpError>(netns.run(|| run("ss", &["-ltnH", &filter]))??);
    until("somebody listens", PATIENCE, look, |shown| !shown.is_empty())?;
    Ok(())
}

/// Connects out of a namespace.
///
/// # Errors
/// When nobody answers.
pub fn connect(netns: &Netns, to: SocketAddr) -> Result<TcpStream, TcpError> {
    netns.run(|| TcpStream::connect(to))?.map_err(|source| TcpError::Connect { to, source })
}

/// Connects out of a namespace from an address of it, and a port unless 0.
///
/// # Errors
/// When it is not its address, or nobody answers.
pub fn connect_from(
    netns: &Netns,
    from: SocketAddr,
    to: SocketAddr,
) -> Result<TcpStream, TcpError> {
    let connected = netns.run(|| -> io::Result<TcpStream> {
        let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket: OwnedFd = socket::socket(family, SockType::Stream, flags, None)?;
        socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(from))?;
        socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
        Ok(socket.into())
    })?;
    connected.map_err(|source| TcpError::Connect { to, source })
}

/// Connects out of a namespace with a mark (SO_MARK), 0 for none.
///
/// # Errors
/// When nobody answers.
pub fn connect_marked(netns: &Netns, mark: u32, to: SocketAddr) -> Result<TcpStream, TcpError> {
    connect_prepared(netns, |socket| set_mark(socket, mark), to)
}

/// Connects out of a namespace by a socket that is prepared before.
///
/// # Errors
/// When it cannot be, or nobody answers.
pub fn connect_prepared(
    netns: &Netns,
    prepare: impl FnOnce(&OwnedFd) -> io::Result<()> + Send,
    to: SocketAddr,
) -> Result<TcpStream, TcpError> {
    let connected = netns.run(|| -> io::Result<TcpStream> {
        let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let socket = socket::socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        prepare(&socket)?;
        socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
        Ok(socket.into())
    })?;
    connected.map_err(|source| TcpError::Connect { to, source })
}

/// Sets the mark of a socket (SO_MARK).
///
/// # Errors
/// When the kernel refuses it.
pub fn set_mark(socket: &impl AsRawFd, mark: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MARK, mark.cast_signed())
}

/// Connects with TCP fast open (RFC 7413): once the namespace has the server's
/// cookie, the bytes travel in the SYN.
///
/// # Errors
/// When nobody answers, or not all bytes are taken.
pub fn connect_fast(netns: &Netns, to: SocketAddr, first: &[u8]) -> Result<TcpStream, TcpError> {
    let connected = netns.run(|| -> io::Result<TcpStream> {
        let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let socket = socket::socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        let flags = MsgFlags::from_bits_retain(libc::MSG_FASTOPEN);
        let sent = socket::sendto(socket.as_raw_fd(), first, &SockaddrStorage::from(to), flags)?;
        if sent == first.len() { Ok(socket.into()) } else { Err(io::ErrorKind::WriteZero.into()) }
    })?;
    connected.map_err(|source| TcpError::Connect { to, source })
}

/// Lets a listener take bytes in SYNs.
///
/// # Errors
/// When the kernel refuses it.
pub fn accept_fast(listener: &TcpListener) -> io::Result<()> {
    set_option(listener, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, 16)
}

/// Sets an option of a socket that is an int.
///
/// # Errors
/// When the kernel refuses it.
pub fn set_option(
    socket: &impl AsRawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: reads an int, as long as it is said to be.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Closes a connection at once, by a reset.
///
/// # Errors
/// When the kernel refuses it.
pub fn reset(stream: TcpStream) -> io::Result<()> {
    let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
    socket::setsockopt(&stream, sockopt::Linger, &at_once)?;
    drop(stream);
    Ok(())
}

/// Returns an option of a socket that is a number; where the kernel has one of 64 bits,
/// all of it.
///
/// # Errors
/// When the kernel has no such option.
pub fn option(socket: &impl AsRawFd, level: libc::c_int, name: libc::c_int) -> io::Result<u64> {
    let mut value = 0_u64.to_ne_bytes();
    let mut bytes = value.len() as libc::socklen_t;
    // SAFETY: writes no more bytes than there are.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut bytes)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let [a, b, c, d, ..] = value;
    let is_short = bytes as usize == size_of::<u32>();
    Ok(if is_short { u32::from_ne_bytes([a, b, c, d]).into() } else { u64::from_ne_bytes(value) })
}

/// Ends the connection of a socket, which may make another one then (connect(2)).
///
/// # Errors
/// When the kernel refuses it.
pub fn disconnect(socket: &impl AsRawFd) -> io::Result<()> {
    let unspecified =
        libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    let bytes = size_of_val(&unspecified) as libc::socklen_t;
    // SAFETY: reads an address, as long as it is said to be.
    let result = unsafe { libc::connect(socket.as_raw_fd(), &raw const unspecified, bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An address that does not answer: the kernel drops SYNs while nobody accepts.
pub struct Silent {
    _listener: OwnedFd,
    _waiting: Vec<TcpStream>,
}

impl Silent {
    /// Listens, and fills the queue of those who wait to be accepted.
    ///
    /// # Errors
    /// When the address is none of this host's, or taken.
    pub fn at(on: SocketAddr) -> io::Result<Self> {
        let family = if on.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_CLOEXEC;
        let listener = socket::socket(family, SockType::Stream, flags, None)?;
        socket::bind(listener.as_raw_fd(), &SockaddrStorage::from(on))?;
        socket::listen(&listener, socket::Backlog::new(0)?)?;
        let mut waiting = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&on, Duration::from_millis(100)) {
            waiting.push(stream);
        }
        Ok(Self { _listener: listener, _waiting: waiting })
    }
}

/// Returns a counter of the kernel's TCP in a namespace, by its name in
/// /proc/net/netstat; 0 where it has none of that name.
///
/// # Errors
/// When the namespace cannot be entered, or its counters not be read.
pub fn counter(netns: &Netns, name: &str) -> Result<u64, TcpError> {
    let table = netns.run(|| fs::read_to_string("/proc/thread-self/net/netstat"))??;
    let lines: Vec<&str> = table.lines().filter(|line| line.starts_with("TcpExt:")).collect();
    let [names, values] = lines[..] else { return Ok(0) };
    let mut pairs = names.split(' ').zip(values.split(' '));
    let value = pairs.find(|(have, _)| *have == name).and_then(|(_, value)| value.parse().ok());
    Ok(value.unwrap_or(0))
}

/// Connects a multipath TCP socket, as a stream.
///
/// # Errors
/// When the kernel has no multipath TCP, or nobody answers.
pub fn connect_multipath(netns: &Netns, to: SocketAddr) -> Result<TcpStream, TcpError> {
    let connected = netns.run(|| -> io::Result<TcpStream> {
        let socket = multipath(to)?;
        socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
        Ok(socket.into())
    })?;
    connected.map_err(|source| TcpError::Connect { to, source })
}

/// Listens in a namespace for multipath TCP.
///
/// # Errors
/// When the kernel has no multipath TCP, or the address is taken.
pub fn listen_multipath(netns: &Netns, on: SocketAddr) -> Result<TcpListener, TcpError> {
    let listening = netns.run(|| -> io::Result<TcpListener> {
        let socket = multipath(on)?;
        socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(on))?;
        socket::listen(&socket, socket::Backlog::new(16)?)?;
        Ok(socket.into())
    })?;
    listening.map_err(|source| TcpError::Listen { on, source })
}

fn multipath(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: a plain system call.
    let socket = unsafe { libc::socket(family, kind, libc::IPPROTO_MPTCP) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made and is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// A connection with both of its ends.
#[derive(Debug)]
pub struct Connection {
    /// The end that connected.
    pub near: TcpStream,
    /// The end that was accepted.
    pub far: TcpStream,
}

impl Connection {
    /// Connects from one namespace to an address of another.
    ///
    /// # Errors
    /// When there is no way from one to the other.
    pub fn open(a: &Netns, b: &Netns, to: SocketAddr) -> Result<Self, TcpError> {
        let listener = listen(b, to)?;
        let near = connect(a, to)?;
        Self::accepted(&listener, near)
    }

    /// Accepts the connection that `near` has just made to the listener.
    ///
    /// # Errors
    /// When it cannot be accepted.
    pub fn accepted(listener: &TcpListener, near: TcpStream) -> Result<Self, TcpError> {
        let on = listener.local_addr()?;
        let (far, _peer) = listener.accept().map_err(|source| TcpError::Accept { on, source })?;
        for stream in [&near, &far] {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
        }
        Ok(Self { near, far })
    }

    /// Sends so many bytes each way at once and compares all that arrive.
    ///
    /// # Errors
    /// When one is wrong, or missing.
    pub fn exchange(&self, bytes: usize) -> Result<(), TcpError> {
        let Self { near, far } = self;
        thread::scope(|scope| {
            let ends = [
                scope.spawn(move || send(near, bytes, 1)),
                scope.spawn(move || send(far, bytes, 2)),
                scope.spawn(move || receive(far, bytes, 1)),
                scope.spawn(move || receive(near, bytes, 2)),
            ];
            ends.into_iter().try_for_each(|end| {
                end.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })?;
        Ok(())
    }

    /// Returns what ss shows of the end that connected, in its namespace.
    ///
    /// # Errors
    /// When it shows nothing.
    pub fn near_flow(&self, a: &Netns) -> Result<Flow, TcpError> {
        flow(a, &self.near)
    }

    /// Returns what ss shows of the end that was accepted, in its namespace.
    ///
    /// # Errors
    /// When it shows nothing.
    pub fn far_flow(&self, b: &Netns) -> Result<Flow, TcpError> {
        flow(b, &self.far)
    }
}

/// Returns what ss shows of a socket in its namespace.
///
/// # Errors
/// When it shows nothing.
pub fn flow(netns: &Netns, stream: &TcpStream) -> Result<Flow, TcpError> {
    let canonical = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
    let (local, peer) = (canonical(stream.local_addr()?), canonical(stream.peer_addr()?));
    let filter = format!("( sport = :{} and dport = :{} )", local.port(), peer.port());
    let flows = netns.run(|| ss::flows(&filter))??;
    between(flows, local, peer).ok_or(TcpError::Unseen { local, peer })
}

/// A connection of the other family may have the same ports.
fn between(flows: Vec<Flow>, local: SocketAddr, peer: SocketAddr) -> Option<Flow> {
    flows.into_iter().find(|flow| flow.local == local && flow.peer == peer)
}

/// Sends bytes that [`receive`] with the same seed expects.
///
/// # Errors
/// When the connection fails.
pub fn send(mut stream: &TcpStream, bytes: usize, seed: u64) -> io::Result<()> {
    let pattern = pattern(seed);
    let mut left = bytes;
    while left > 0 {
        let length = left.min(CHUNK_BYTES);
        stream.write_all(&pattern[..length])?;
        left -= length;
    }
    Ok(())
}

/// Receives so many bytes and compares each.
///
/// # Errors
/// When one is wrong, or missing.
pub fn receive(mut stream: &TcpStream, bytes: usize, seed: u64) -> io::Result<()> {
    let pattern = pattern(seed);
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(CHUNK_BYTES);
        stream.read_exact(&mut buffer[..length])?;
        if buffer[..length] != pattern[..length] {
            return Err(io::Error::other(format!("wrong data in the last {left} bytes")));
        }
        left -= length;
    }
    Ok(())
}

fn pattern(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..CHUNK_BYTES).map(|_| random.next() as u8).collect()
}

/// Returns an address and a port, which a test knows to be right.
///
/// # Panics
/// When the text is no IP address.
#[must_use]
pub fn at(address: &str, port: u16) -> SocketAddr {
    let address: IpAddr = address.parse().expect("an IP address");
    SocketAddr::new(address, port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_told_from_one_of_the_other_family_with_its_ports() {
        let ends = [at("10.81.0.1", 35_172), at("10.81.0.2", 7000)];
        let others = [at("fd81::1", 35_172), at("fd81::2", 7000)];
        let line = |[local, peer]: [SocketAddr; 2]| {
            format!("0 0 {local} {peer} skmem:(r0,rb8,tb8) cubic rto:201 mss:1448 cwnd:10\n")
        };
        let flows = ss::parse(&(line(ends) + &line(others)));
        assert_eq!(flows.len(), 2);
        for [local, peer] in [ends, others] {
            let flow = between(flows.clone(), local, peer).unwrap();
            assert_eq!((flow.local, flow.peer), (local, peer));
        }
    }

    #[test]
    fn wrong_bytes_are_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let connection = Connection::accepted(&listener, near).unwrap();
        connection.exchange(300_000).unwrap();
        send(&connection.near, 1000, 3).unwrap();
        assert!(receive(&connection.far, 1000, 4).is_err());
    }
}
