//! Ports of connections: the ranges that a rule is for, and which of two says more.
//! All in host byte order.

use crate::record;

/// The ports from the first to the last, both included.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortRange {
    /// The lowest port.
    pub first: u16,
    /// The highest port.
    pub last: u16,
}
record!(PortRange, size = 4);

impl PortRange {
    /// Any port, that of a socket that has none yet included.
    pub const ANY: Self = Self { first: 0, last: u16::MAX };

    /// The range of one port.
    #[must_use]
    pub const fn only(port: u16) -> Self {
        Self { first: port, last: port }
    }

    /// Whether a port is in the range.
    #[inline(always)]
    #[must_use]
    pub const fn has(self, port: u16) -> bool {
        self.misses(port) == 0
    }

    /// Returns a bit where a port is not in the range, without a branch: a program that
    /// branches at each condition of a rule takes the verifier twice as long.
    #[inline(always)]
    #[must_use]
    pub const fn misses(self, port: u16) -> u64 {
        const BORROWED: u64 = 1 << 16;
        let (first, last, port) = (self.first as u64, self.last as u64, port as u64);
        let below = (BORROWED | port) - first;
        let above = (BORROWED | last) - port;
        !(below & above) & BORROWED
    }

    /// Whether all of another range is in this one.
    #[must_use]
    pub const fn covers(self, other: Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// The ports that are in both.
    #[must_use]
    pub fn common(self, other: Self) -> Option<Self> {
        let both = Self { first: self.first.max(other.first), last: self.last.min(other.last) };
        (both.first <= both.last).then_some(both)
    }

    /// How many ports are in the range; one that ends before it begins has none.
    #[must_use]
    pub fn count(self) -> u32 {
        (u32::from(self.last) + 1).saturating_sub(self.first.into())
    }
}

/// A range is written as the configuration has it: `443`, `50000-51000`.
#[cfg(feature = "user")]
impl core::fmt::Display for PortRange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { first, last } = self;
        if first == last { write!(f, "{first}") } else { write!(f, "{first}-{last}") }
    }
}

/// The ports that a rule is for, of both ends.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports {
    /// The ports of the other end.
    pub remote: PortRange,
    /// The ports of this host.
    pub local: PortRange,
}
record!(Ports, size = 8);

impl Ports {
    /// Any ports.
    pub const ANY: Self = Self { remote: PortRange::ANY, local: PortRange::ANY };

    /// How many pairs of ports there are: the fewer, the more specific. What lies within
    /// other ports always has fewer pairs than these, so that it comes first. 2^32 at most.
    #[must_use]
    pub fn pairs(self) -> u64 {
        u64::from(self.remote.count()) * u64::from(self.local.count())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{PortRange, Ports};

    fn range() -> impl Strategy<Value = PortRange> {
        let near_the_ends = prop_oneof![0..4_u16, (u16::MAX - 3)..=u16::MAX, any::<u16>()];
        let both = (near_the_ends.clone(), near_the_ends);
        both.prop_map(|(a, b)| PortRange { first: a.min(b), last: a.max(b) })
    }

    #[test]
    fn a_range_ends_with_its_edges() {
        let range = PortRange { first: 50_000, last: 51_000 };
        let has = [49_999, 50_000, 51_000, 51_001].map(|port| range.has(port));
        assert_eq!(has, [false, true, true, false]);
        assert_eq!(range.count(), 1001);
        assert_eq!((PortRange::only(443).count(), PortRange::ANY.count()), (1, 65_536));
        assert!(PortRange::ANY.has(0) && PortRange::ANY.has(u16::MAX));
        assert_eq!(Ports::ANY.pairs(), 1 << 32);
    }

    proptest! {
        #[test]
        fn a_range_has_as_many_ports_as_it_counts(range in range()) {
            let ports = (0..=u16::MAX).filter(|port| range.has(*port)).count();
            prop_assert_eq!(ports as u32, range.count());
        }

        #[test]
        fn what_two_ranges_have_in_common_is_in_both(a in range(), b in range(), port: u16) {
            for port in [port, a.first, a.last, b.first, b.last] {
                let is_common = a.common(b).is_some_and(|common| common.has(port));
                prop_assert_eq!(is_common, a.has(port) && b.has(port));
            }
            prop_assert_eq!(a.covers(b), a.common(b) == Some(b));
        }

        #[test]
        fn what_lies_within_comes_first(a in range(), b in range(), c in range(), d in range()) {
            let (one, other) = (Ports { remote: a, local: b }, Ports { remote: c, local: d });
            if a.covers(c) && b.covers(d) && one != other {
                prop_assert!(other.pairs() < one.pairs());
            }
        }
    }
}
