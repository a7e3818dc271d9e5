//! Reads where a peer is asked: a host, and a port.

use std::{
    fmt::{self, Display},
    net::{IpAddr, SocketAddr},
};

use super::{
    super::{
        fault::{Fault, quoted},
        host_name,
    },
    PORT,
};

/// A host, by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    pub host: String,
    pub port: u16,
}

impl PeerAddress {
    pub fn parse(text: &str) -> Result<Self, Fault> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Self::checked(address.ip().to_canonical().to_string(), address.port(), text);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self { host: address.to_canonical().to_string(), port: PORT });
        }
        let (host, port) = match text.rsplit_once(':') {
            None => (text, PORT),
            Some((host, port)) => (host, port.parse().unwrap_or(0)),
        };
        let host = host_name::parse(host).map_err(|_| wrong(text))?;
        Self::checked(host, port, text)
    }

    fn checked(host: String, port: u16, text: &str) -> Result<Self, Fault> {
        if port == 0 { Err(wrong(text)) } else { Ok(Self { host, port }) }
    }
}

fn wrong(text: &str) -> Fault {
    let title = format!("{} is no host with a port", quoted(text));
    Fault::new(title, "a host and a port are expected").help(format!(
        "write \"dtn.example.org:{PORT}\", \"192.0.2.7:{PORT}\" or \"[2001:db8::7]:{PORT}\""
    ))
}

impl Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for (text, shown) in [
            ("dtn.example.org:4900", "dtn.example.org:4900"),
            ("DTN.example.org", "dtn.example.org:4825"),
            ("192.0.2.7", "192.0.2.7:4825"),
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("2001:db8::7", "[2001:db8::7]:4825"),
            ("[2001:db8::7]:65535", "[2001:db8::7]:65535"),
            ("[::ffff:192.0.2.7]:5", "192.0.2.7:5"),
        ] {
            let address = PeerAddress::parse(text).map(|address| address.to_string());
            assert_eq!(address.as_deref(), Ok(shown), "{text}");
        }
        for text in
            ["", ":1", "a:", "a:0", "a:65536", "a:b", "a b:1", "[::1]", "https://a", "a:1:2"]
        {
            assert!(PeerAddress::parse(text).is_err(), "{text}");
        }
    }
}
