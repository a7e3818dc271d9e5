//! Addresses and prefixes: as users write them, and as 128 bits with IPv4
//! mapped into IPv6, which is how flows are looked up.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

use super::fault::{Fault, quoted};

/// Length of `::ffff:0:0/96`, the prefix that holds all of IPv4.
const MAPPED_BITS: u8 = 96;

/// An address or a prefix, IPv4 if it is IPv4 mapped into IPv6.
pub fn parse(text: &str) -> Result<IpNet, Fault> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| not_an_address(text))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match length {
        None => most,
        Some(length) => parse_bits(length, most)?,
    };
    let net = IpNet::new(address, bits).map_err(|_| not_an_address(text))?;
    if net.network() != address {
        return Err(Fault::new(
            format!("{text} has bits set below its prefix"),
            format!("a /{bits} ends before them"),
        )
        .help(format!("write \"{}\" for the network, \"{address}\" for one host", net.trunc())));
    }
    Ok(normalised(net))
}

fn parse_bits(length: &str, most: u8) -> Result<u8, Fault> {
    // Not "+8", which `parse` would take.
    let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let bits = digits.then(|| length.parse().ok()).flatten();
    bits.filter(|&bits| bits <= most).ok_or_else(|| {
        Fault::new(
            format!("{} is no prefix length", quoted(length)),
            format!("a length of 0 to {most} is expected behind the /"),
        )
    })
}

fn not_an_address(text: &str) -> Fault {
    Fault::new(
        format!("{} is no address or prefix", quoted(text)),
        "an IPv4 or IPv6 address, or a prefix, is expected",
    )
    .help(
        "write \"10.5.128.74\", \"10.5.0.0/16\", \"2001:db8:5::1\" or \"2001:db8:5::/48\"; \
         a name goes with `remote_name`, zones are not taken",
    )
}

fn normalised(net: IpNet) -> IpNet {
    let IpNet::V6(v6) = net else { return net };
    match (v6.network().to_ipv4_mapped(), v6.prefix_len().checked_sub(MAPPED_BITS)) {
        (Some(address), Some(bits)) => Ipv4Net::new(address, bits).map_or(net, IpNet::V4),
        _ => net,
    }
}

/// Whether flows over IPv4 fall under the prefix: their addresses are looked up
/// as IPv6, so they also do under `::/0`.
pub fn covers_ipv4(net: IpNet) -> bool {
    Mapped::from(net).families().0
}

/// A prefix of 128 bits. In order, a prefix stands behind those around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapped {
    pub address: u128,
    pub bits: u8,
}

impl Mapped {
    pub const ANY: Self = Self { address: 0, bits: 0 };
    const IPV4: Self = Self { address: 0xffff << 32, bits: MAPPED_BITS };

    pub const fn mask(self) -> u128 {
        match self.bits {
            0 => 0,
            bits => u128::MAX << (128 - bits),
        }
    }

    pub const fn contains(self, other: Self) -> bool {
        self.bits <= other.bits && (self.address ^ other.address) & self.mask() == 0
    }

    /// Returns the prefix of so many bits around it; `bits` is at most its own.
    #[must_use]
    pub const fn around(self, bits: u8) -> Self {
        let outer = Self { address: self.address, bits };
        Self { address: self.address & outer.mask(), bits }
    }

    /// Whether flows over IPv4, and over IPv6, can have an address in it.
    pub const fn families(self) -> (bool, bool) {
        let within_ipv4 = Self::IPV4.contains(self);
        (within_ipv4 || self.contains(Self::IPV4), !within_ipv4)
    }
}

impl From<IpNet> for Mapped {
    fn from(net: IpNet) -> Self {
        match net {
            IpNet::V4(net) => Self {
                address: net.network().to_ipv6_mapped().to_bits(),
                bits: MAPPED_BITS + net.prefix_len(),
            },
            IpNet::V6(net) => {
                Self { address: Ipv6Addr::to_bits(net.network()), bits: net.prefix_len() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_prefixes_of_one_host() {
        for (text, expected) in [
            ("10.5.128.74", "10.5.128.74/32"),
            ("10.5.0.0/16", "10.5.0.0/16"),
            ("2001:db8::1", "2001:db8::1/128"),
            ("::/0", "::/0"),
            ("::ffff:10.5.128.74", "10.5.128.74/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::/80", "::/80"),
        ] {
            let net = parse(text).map(|net| net.to_string());
            assert_eq!(net.as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for text in [
            "",
            "/",
            "bob",
            "10.5",
            "10.5.0.0/33",
            "10.5.0.0/",
            "10.5.0.0/+8",
            "10.5.0.0/-1",
            "10.05.0.0",
            "fe80::1%eth0",
            "::/129",
            "10.0.0.0/8/8",
            "10.5.128.74/16",
            "2001:db8::1/64",
            "::ffff:10.5.128.74/104",
            " 10.0.0.0/8",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn families() {
        let families = |text: &str| Mapped::from(parse(text).expect("a prefix")).families();
        assert_eq!(families("10.0.0.0/8"), (true, false));
        assert_eq!(families("2001:db8::/32"), (false, true));
        assert_eq!(families("::/0"), (true, true));
        assert_eq!(families("::/80"), (true, true));
        assert_eq!(families("::1"), (false, true));
    }
}
