//! Reads the addresses that something is served at.

use std::net::SocketAddr;

use super::fault::{Fault, quoted};

/// An address to listen on; `port` is that of the example.
pub fn listen(address: &str, port: u16) -> Result<SocketAddr, Fault> {
    address.parse().map_err(|_| {
        Fault::new(
            format!("{} is no address and port", quoted(address)),
            "an address and a port are expected",
        )
        .help(format!("write \"127.0.0.1:{port}\" or \"[::1]:{port}\"; names are not taken"))
    })
}
