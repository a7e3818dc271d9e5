//! The policy set: which flow gets which settings.
//!
//! A remote address is looked up once in a longest-prefix-match trie (IPv4
//! mapped into IPv6). The prefix found names a run of rules, most specific
//! first, which already holds the rules of the prefixes around it; the first
//! rule whose conditions fit gives the policy. The maps of a
//! set are swapped as one, so no flow sees half of a change.

use crate::{control::Control, ports::Ports, record, share};

/// Bytes of a path's name that the kernel side keeps, the final zero included.
pub const NAME_BYTES: usize = 64;

/// Bytes of a congestion control's name, as the kernel's `TCP_CA_NAME_MAX`.
pub const CONGESTION_BYTES: usize = 16;

/// Bytes of an interface's name, the final zero included, as the kernel's `IFNAMSIZ`.
pub const INTERFACE_BYTES: usize = 16;

/// Most rules that can apply to one address: the bound of the loop in the BPF
/// program, and of what `wad check` accepts.
pub const RULES_PER_ADDRESS: usize = 16;

/// Most patterns of cgroups and interfaces in a policy set.
pub const PATTERNS: usize = u64::BITS as usize;

/// A flow that falls under no path has this index: no policy set has so many.
pub const NO_PATH: u32 = u32::MAX;

/// Any user, or one that the kernel did not say: no user has this number (`uid_valid()`).
pub const ANY_USER: u32 = u32::MAX;

/// Most paths: the size of the map that holds the statistics of paths.
pub const MAX_PATHS: u32 = 131_072;

/// Value of the trie: the run of rules of one prefix.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleRun {
    /// Index of the first rule.
    pub first: u32,
    /// Number of rules, at most [`RULES_PER_ADDRESS`].
    pub count: u16,
    /// [`BY_USER`], [`BY_CGROUP`], [`BY_MARK`] and [`BY_INTERFACE`], if any of them depends on
    /// that: else nobody asks.
    pub by: u16,
}
record!(RuleRun, size = 8);

/// A rule is for a user.
pub const BY_USER: u16 = 1 << 0;
/// A rule is for cgroups.
pub const BY_CGROUP: u16 = 1 << 1;
/// A rule is for marks.
pub const BY_MARK: u16 = 1 << 2;
/// A rule is for interfaces.
pub const BY_INTERFACE: u16 = 1 << 3;

/// Says whose a socket is, as far as rules ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user, or [`ANY_USER`] where nobody knows whose it is.
    pub user: u32,
    /// The mark of its packets (SO_MARK), 0 where there is none.
    pub mark: u32,
    /// The patterns that its cgroup fits, or one around that, and those that the interface
    /// fits that its packets leave by: a bit each.
    pub patterns: u64,
}

impl Owner {
    /// Nobody has asked, or nobody knows.
    pub const UNKNOWN: Self = Self { user: ANY_USER, mark: 0, patterns: 0 };
}

/// A flow must fit this beside its remote prefix. The address is that of this host,
/// in network byte order, IPv4 mapped into IPv6.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Local prefix, in two halves of 64 bits, most significant first, in host
    /// byte order.
    pub local_prefix: [u64; 2],
    /// The bits of `local_prefix` that must agree; zero for any address.
    pub local_mask: [u64; 2],
    /// The ports of both ends.
    pub ports: Ports,
    /// Index of the policy.
    pub policy: u32,
    /// The user that the socket belongs to, or [`ANY_USER`].
    pub user: u32,
    /// The patterns that a cgroup of it and its interface fit, as their bits; 0 for any.
    pub patterns: u64,
    /// The mark that the socket has in the bits of `mark_mask`.
    pub mark: u32,
    /// The bits of a mark that must agree; zero for any mark.
    pub mark_mask: u32,
}
record!(Rule, size = 64);

impl Rule {
    /// A rule for any flow.
    pub const ANY: Self = Self {
        local_prefix: [0; 2],
        local_mask: [0; 2],
        ports: Ports::ANY,
        policy: 0,
        user: ANY_USER,
        patterns: 0,
        mark: 0,
        mark_mask: 0,
    };

    /// Whether a flow of this owner between these ends falls under the rule, as far as they
    /// go. There is one branch, at the end: see [`crate::ports::PortRange::misses`].
    #[inline(always)]
    #[must_use]
    pub const fn matches(
        &self,
        owner: Owner,
        local: [u64; 2],
        local_port: u16,
        remote_port: u16,
    ) -> bool {
        let misses = self.misses_owner(owner)
            | self.ports.local.misses(local_port)
            | self.ports.remote.misses(remote_port)
            | ((local[0] & self.local_mask[0]) ^ self.local_prefix[0])
            | ((local[1] & self.local_mask[1]) ^ self.local_prefix[1]);
        misses == 0
    }

    #[inline(always)]
    const fn misses_owner(&self, owner: Owner) -> u64 {
        let is_any = (self.user as u64 + 1) >> 32;
        let user = (self.user ^ owner.user) as u64 & is_any.wrapping_sub(1);
        let mark = ((owner.mark & self.mark_mask) ^ self.mark) as u64;
        user | mark | (self.patterns & !owner.patterns)
    }
}

/// A matched flow gets this. Zero leaves a setting as it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Number of the policy set that it is part of.
    pub generation: u64,
    /// The path's name, zero-terminated UTF-8.
    pub name: [u8; NAME_BYTES],
    /// Congestion control, zero-terminated; empty for the kernel's default.
    pub congestion: [u8; CONGESTION_BYTES],
    /// Parameters of the laws of ours.
    pub control: Control,
    /// Argument of SO_SNDBUF (the kernel doubles it, socket(7)), or the most that it
    /// comes to.
    pub sndbuf_bytes: u32,
    /// Argument of SO_RCVBUF (the kernel doubles it, socket(7)), or the most that it
    /// comes to.
    pub rcvbuf_bytes: u32,
    /// Initial congestion window.
    pub initial_window_segments: u32,
    /// Most tuned flows at a time.
    pub max_flows: u32,
    /// Initial receive window.
    pub initial_receive_window_segments: u32,
    /// Argument of SO_MAX_PACING_RATE, which is 32 bits wide in BPF; or [`PACED`].
    pub max_pacing_bytes_per_second: u32,
    /// DSCP in the upper six of the low eight bits, with [`SETS_TRAFFIC_CLASS`].
    pub traffic_class: u32,
    /// [`NO_DELAYED_ACKS`], [`OVERRIDES`], [`DIVIDES`], [`GROWS_SNDBUF`], [`GROWS_RCVBUF`],
    /// [`RESUMES_KNOWN`] and [`OBSERVE`].
    pub flags: u32,
    /// Argument of TCP_NOTSENT_LOWAT.
    pub notsent_lowat_bytes: u32,
    /// Payload that the path carries in a round trip time, in bytes: its flows share that
    /// from the start. 0 where it is not known.
    pub path_bytes: u32,
    /// The share of new flows that get it, in parts of [`share::ALL`].
    pub share: u32,
    /// That round trip time; 0 where it is not known.
    pub path_rtt_us: u32,
    /// For so long what one flow has found out is of use to the next (Lifetime of RFC 9959);
    /// 0 where each begins with nothing.
    pub resume_lifetime_s: u32,
    /// Keeps the record free of implicit padding.
    pub reserved: u32,
}
record!(Policy, size = 144 + size_of::<Control>());

/// Flows are matched, measured and counted, but nothing of them is changed. The
/// policy then has no settings, and its parameters are those of
/// [`Control::AS_STANDARD`].
pub const OBSERVE: u32 = 1 << 31;

/// Acknowledgements are held back no longer than the kernel has to.
pub const NO_DELAYED_ACKS: u32 = 1 << 0;
/// The policy counts, whatever the application itself asks for.
pub const OVERRIDES: u32 = 1 << 1;
/// The buffers are for all flows of the path together.
pub const DIVIDES: u32 = 1 << 2;

/// [`Policy::sndbuf_bytes`] is what the send buffer may grow to with need; without this
/// it is set at the start.
pub const GROWS_SNDBUF: u32 = 1 << 3;
/// [`Policy::rcvbuf_bytes`] is so for the receive buffer.
pub const GROWS_RCVBUF: u32 = 1 << 4;

/// Where nothing is saved, [`Policy::path_bytes`] and [`Policy::path_rtt_us`] are what is known
/// of the path's capacity.
pub const RESUMES_KNOWN: u32 = 1 << 5;

/// A [`Policy::traffic_class`] beside this is to be set, even to zero.
pub const SETS_TRAFFIC_CLASS: u32 = 1 << 8;

/// A [`Policy::max_pacing_bytes_per_second`] that bounds nothing: packets are spread, at
/// the rate that the algorithm sets.
pub const PACED: u32 = u32::MAX;

impl Policy {
    /// A policy of that name that changes nothing.
    #[must_use]
    pub const fn observing(name: [u8; NAME_BYTES]) -> Self {
        Self {
            generation: 0,
            name,
            congestion: [0; CONGESTION_BYTES],
            control: Control::AS_STANDARD,
            sndbuf_bytes: 0,
            rcvbuf_bytes: 0,
            initial_window_segments: 0,
            max_flows: 0,
            initial_receive_window_segments: 0,
            max_pacing_bytes_per_second: 0,
            traffic_class: 0,
            flags: OBSERVE,
            notsent_lowat_bytes: 0,
            path_bytes: 0,
            share: share::ALL,
            path_rtt_us: 0,
            resume_lifetime_s: 0,
            reserved: 0,
        }
    }

    /// Whether its flows are only observed.
    #[inline(always)]
    #[must_use]
    pub const fn observes(&self) -> bool {
        self.flags & OBSERVE != 0
    }

    /// Whether its flows offer another receive window at first than untuned ones.
    #[inline(always)]
    #[must_use]
    pub const fn offers(&self) -> bool {
        self.initial_receive_window_segments != 0 || self.flags & DIVIDES != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Owner, Rule};
    use crate::ports::{PortRange, Ports};

    /// 10.1.2.0/24, mapped into IPv6.
    const SUBNET: [u64; 2] = [0, 0xffff_0a01_0200];
    const HOST: [u64; 2] = [0, 0xffff_0a01_0205];
    const OTHER_HOST: [u64; 2] = [0, 0xffff_0a01_0305];
    const MASK_120: [u64; 2] = [u64::MAX, u64::MAX << 8];
    const NOBODY: Owner = Owner::UNKNOWN;

    #[test]
    fn a_rule_for_any_flow_fits_any_flow() {
        assert!(Rule::ANY.matches(NOBODY, HOST, 1, 2));
        assert!(Rule::ANY.matches(NOBODY, [u64::MAX; 2], 0, u16::MAX));
    }

    #[test]
    fn a_users_rule_is_for_that_user_only() {
        let rule = Rule { user: 993, ..Rule::ANY };
        let globus = Owner { user: 993, mark: 0, patterns: 0 };
        assert!(rule.matches(globus, HOST, 1, 2) && Rule::ANY.matches(globus, HOST, 1, 2));
        assert!(
            !rule.matches(Owner { user: 0, ..globus }, HOST, 1, 2)
                && !rule.matches(Owner::UNKNOWN, HOST, 1, 2)
        );
    }

    #[test]
    fn a_cgroups_rule_is_for_what_fits_its_pattern() {
        let rule = Rule { patterns: 1 << 63, ..Rule::ANY };
        let within = Owner { user: 0, mark: 0, patterns: 1 << 63 | 1 };
        assert!(rule.matches(within, HOST, 1, 2) && Rule::ANY.matches(within, HOST, 1, 2));
        assert!(!rule.matches(Owner { patterns: 1, ..within }, HOST, 1, 2));
        assert!(!Rule { user: 993, ..rule }.matches(within, HOST, 1, 2));
        // One for a cgroup and an interface takes both.
        let both = Rule { patterns: 1 << 63 | 1 << 62, ..rule };
        assert!(!both.matches(within, HOST, 1, 2));
        assert!(both.matches(Owner { patterns: both.patterns, ..within }, HOST, 1, 2));
    }

    #[test]
    fn a_marks_rule_is_for_the_bits_of_its_mask() {
        let rule = Rule { mark: 0x10, mark_mask: 0xff, ..Rule::ANY };
        for (mark, fits) in [(0x10, true), (0x8000_0110, true), (0x11, false), (0, false)] {
            let owner = Owner { user: 0, mark, patterns: 0 };
            assert_eq!(rule.matches(owner, HOST, 1, 2), fits, "{mark:#x}");
            assert!(Rule::ANY.matches(owner, HOST, 1, 2));
        }
    }

    #[test]
    fn a_local_prefix_fits_its_addresses() {
        let rule = Rule { local_prefix: SUBNET, local_mask: MASK_120, ..Rule::ANY };
        assert!(rule.matches(NOBODY, HOST, 1, 2));
        assert!(!rule.matches(NOBODY, OTHER_HOST, 1, 2));
        assert!(!rule.matches(NOBODY, [1, HOST[1]], 1, 2));
    }

    #[test]
    fn ports_fit_each_its_own_side() {
        let rule = Rule {
            ports: Ports { remote: PortRange::only(443), local: PortRange::only(5001) },
            ..Rule::ANY
        };
        assert!(rule.matches(NOBODY, HOST, 5001, 443));
        assert!(!rule.matches(NOBODY, HOST, 443, 5001));
        assert!(!rule.matches(NOBODY, HOST, 5001, 444));
        assert!(!rule.matches(NOBODY, HOST, 5002, 443));
    }

    #[test]
    fn a_range_rule_fits_exactly_its_ports() {
        let remote = PortRange { first: 50_000, last: 51_000 };
        let local = PortRange { first: 1, last: 1023 };
        let rule = Rule { ports: Ports { remote, local }, ..Rule::ANY };
        for port in 0..=u16::MAX {
            assert_eq!(
                rule.matches(NOBODY, HOST, 1023, port),
                (50_000..=51_000).contains(&port),
                "{port}"
            );
            assert_eq!(
                rule.matches(NOBODY, HOST, port, 50_000),
                (1..=1023).contains(&port),
                "{port}"
            );
        }
    }

    proptest! {
        /// The same as comparing whole addresses, bit by bit.
        #[test]
        fn a_prefix_is_its_leading_bits(prefix: u128, address: u128, length in 0_u32..=128, near: bool) {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            let prefix = prefix & mask;
            let address = if near { prefix | (address & !mask) } else { address };
            let rule = Rule {
                local_prefix: halves(prefix),
                local_mask: halves(mask),
                ..Rule::ANY
            };
            let same = (prefix ^ address).leading_zeros() >= length;
            prop_assert!(same || !near);
            prop_assert_eq!(rule.matches(NOBODY, halves(address), 1, 2), same);
        }
    }

    fn halves(address: u128) -> [u64; 2] {
        [(address >> 64) as u64, address as u64]
    }
}
