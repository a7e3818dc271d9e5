//! The addresses of a name: those that it has now, and those before of which connections may
//! still be. A name that changes takes no connection's path away.

use std::{
    collections::HashSet,
    net::IpAddr,
    time::{Duration, Instant},
};

use ipnet::IpNet;

/// Most addresses of a name.
const MOST: usize = 64;

/// An address that the name has had goes after this time, if no connection has it any more.
const KEPT: Duration = Duration::from_secs(600);

/// Holds addresses, with when each was last seen.
#[derive(Debug)]
pub struct Addresses(Vec<(IpAddr, Instant)>);

impl Addresses {
    /// Begins with addresses from before, which count as seen now.
    pub fn known(prefixes: &[IpNet], now: Instant) -> Self {
        Self(prefixes.iter().map(|net| (net.addr(), now)).collect())
    }

    /// Takes an answer. Returns the addresses that are to go, unless a connection has them.
    pub fn take(&mut self, answer: &[IpAddr], now: Instant) -> Vec<IpAddr> {
        for address in answer.iter().take(MOST) {
            match self.0.iter_mut().find(|(known, _)| known == address) {
                Some((_, seen)) => *seen = now,
                None => self.0.push((*address, now)),
            }
        }
        // Of too many the oldest go, whoever has them. Stable: those of the answer stay.
        self.0.sort_by_key(|(_, seen)| std::cmp::Reverse(*seen));
        self.0.truncate(MOST);
        let is_due = |seen: Instant| now.duration_since(seen) >= KEPT;
        self.0.iter().filter(|(_, seen)| is_due(*seen)).map(|(address, _)| *address).collect()
    }

    /// Drops those of the addresses that are to go which no connection has.
    pub fn drop_unused(&mut self, due: &[IpAddr], used: &HashSet<IpAddr>, now: Instant) {
        self.0.retain(|(address, _)| !due.contains(address) || used.contains(address));
        // They are looked for again after that time.
        for (_, seen) in self.0.iter_mut().filter(|(address, _)| due.contains(address)) {
            *seen = now;
        }
    }

    pub fn all(&self) -> impl Iterator<Item = IpAddr> {
        self.0.iter().map(|(address, _)| *address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn lasts(addresses: &Addresses) -> Vec<u8> {
        let last = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.octets()[3],
            IpAddr::V6(_) => 0,
        };
        addresses.all().map(last).collect()
    }

    #[test]
    fn an_address_of_before_goes_when_no_connection_has_it() {
        let begun = Instant::now();
        let mut addresses = Addresses::known(&[address(1).into(), address(2).into()], begun);
        let soon = begun + KEPT / 2;
        assert!(addresses.take(&[address(3)], soon).is_empty());
        assert_eq!(lasts(&addresses), [3, 1, 2]);
        let later = begun + KEPT;
        let due = addresses.take(&[address(3), address(2)], later);
        assert_eq!(due, [address(1)]);
        addresses.drop_unused(&due, &[address(1)].into(), later);
        assert_eq!(lasts(&addresses).len(), 3);
        assert!(addresses.take(&[address(3), address(2)], later + KEPT / 2).is_empty());
        let due = addresses.take(&[address(3), address(2)], later + KEPT);
        assert_eq!(due, [address(1)]);
        addresses.drop_unused(&due, &HashSet::new(), later + KEPT);
        assert_eq!(lasts(&addresses), [3, 2]);
    }

    #[test]
    fn there_are_at_most_so_many() {
        let begun = Instant::now();
        let mut addresses = Addresses::known(&[], begun);
        for n in 0..200 {
            addresses.take(&[address(n)], begun + Duration::from_secs(n.into()));
            assert!(addresses.all().count() <= MOST);
        }
        assert_eq!(lasts(&addresses)[..3], [199, 198, 197]);
        let many: Vec<_> = (0..=255).map(address).collect();
        addresses.take(&many, begun + Duration::from_secs(300));
        assert_eq!(addresses.all().count(), MOST);
    }
}
