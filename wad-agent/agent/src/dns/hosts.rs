//! Reads hosts(5) and resolv.conf(5).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The port of name servers.
const PORT: u16 = 53;

/// Servers that count, of those in the file (`MAXNS`).
const MOST_SERVERS: usize = 3;

/// Returns the name servers: where none is named, one on this host. Those with a zone are
/// left out.
pub fn servers(resolv_conf: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let is_server = words.next() == Some("nameserver");
        let address: IpAddr = words.next().filter(|_| is_server)?.parse().ok()?;
        Some(SocketAddr::new(address, PORT))
    };
    let servers: Vec<_> = resolv_conf.lines().filter_map(server).take(MOST_SERVERS).collect();
    if servers.is_empty() { vec![(Ipv4Addr::LOCALHOST, PORT).into()] } else { servers }
}

/// Returns the addresses that a name has in the file, each once.
pub fn addresses(hosts: &str, name: &str) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for line in hosts.lines() {
        let entry = line.split_once('#').map_or(line, |(entry, _)| entry);
        let mut words = entry.split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
        let is_it = words.any(|word| word.trim_end_matches('.').eq_ignore_ascii_case(name));
        if is_it && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read() {
        let text = "# nameserver 192.0.2.9\n; x\nnameserver 192.0.2.1\n nameserver 2001:db8::1 \n\
                    nameserver fe80::1%eth0\nnameserver\noptions ndots:2\nnameserver 192.0.2.3\n\
                    nameserver 192.0.2.4\n";
        let shown: Vec<_> = servers(text).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["192.0.2.1:53", "[2001:db8::1]:53", "192.0.2.3:53"]);
        assert_eq!(servers(""), [([127, 0, 0, 1], 53).into()]);
    }

    #[test]
    fn hosts_are_found_by_any_of_their_names() {
        let text = "127.0.0.1 localhost\n192.0.2.1\tdtn.example.org dtn # 192.0.2.9 x\n\
                    2001:db8::1 other DTN.Example.org.\n192.0.2.1 dtn\nnonsense dtn\n#192.0.2.7 dtn\n";
        let shown =
            |name| -> Vec<_> { addresses(text, name).iter().map(ToString::to_string).collect() };
        assert_eq!(shown("dtn.example.org"), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(shown("dtn"), ["192.0.2.1"]);
        assert_eq!(shown("x"), [""; 0]);
    }
}
