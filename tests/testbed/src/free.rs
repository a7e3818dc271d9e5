//! Ports of the loopback that nobody has.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// None of those that the kernel gives to connections (`ip_local_port_range`, from 32,768 on):
/// one that an agent makes to a server that is away could get the server's own port, and be
/// one to itself (RFC 9293 section 3.5, simultaneous open).
const FIRST: u32 = 12_000;
const COUNT: u32 = 20_000;

static GIVEN: AtomicU32 = AtomicU32::new(0);

/// Returns an address of the loopback whose port nobody has over TCP or UDP. It is not the same
/// again in this process, nor soon in another.
///
/// # Errors
/// When there is none.
pub fn address() -> io::Result<SocketAddr> {
    // Processes that run beside each other are some apart.
    let start = process::id().wrapping_mul(101);
    for _ in 0..COUNT {
        let number = start.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, (FIRST + number) as u16));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Returns the port of such an address.
///
/// # Errors
/// When there is none.
pub fn port() -> io::Result<u16> {
    Ok(address()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_connection_gets_one_and_none_comes_twice() {
        let ports: Vec<_> = (0..100).map(|_| port().unwrap()).collect();
        for (n, port) in ports.iter().enumerate() {
            assert!(*port < 32_768 && !ports[..n].contains(port), "{port}");
        }
    }
}
