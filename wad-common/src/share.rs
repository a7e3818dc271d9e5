//! A share of a path's new flows gets its policy; the others are left at the kernel's
//! defaults. Which of the two a flow is, its addresses and ports decide: it is the same at each
//! look, and a larger share has all flows of a smaller one.

/// All of a path's flows.
pub const ALL: u32 = 1 << 16;

/// Whether a flow between these ends is among a share, which is in parts of [`ALL`]. Words of
/// addresses are as they are in packets.
#[inline(always)]
#[must_use]
pub const fn takes(share: u32, remote: [u32; 4], local: [u32; 4], ports: [u16; 2]) -> bool {
    let mut hash = (ports[0] as u64) << 16 | ports[1] as u64;
    hash = mixed(hash, remote[0] as u64 | (remote[1] as u64) << 32);
    hash = mixed(hash, remote[2] as u64 | (remote[3] as u64) << 32);
    hash = mixed(hash, local[0] as u64 | (local[1] as u64) << 32);
    hash = mixed(hash, local[2] as u64 | (local[3] as u64) << 32);
    // Once more, for the ports of flows that have both ends in common.
    (mixed(hash, 0) >> 48) < share as u64
}

/// Spreads the bits of both over all that the result has (a round of the finalizer of
/// SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
#[inline(always)]
const fn mixed(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{ALL, takes};

    const REMOTE: [u32; 4] = [0, 0, 0xffff_u32.to_be(), 0x0a05_804a_u32.to_be()];
    const LOCAL: [u32; 4] = [0, 0, 0xffff_u32.to_be(), 0x0a05_8001_u32.to_be()];

    /// How many of so many flows, whose ports follow each other as the kernel gives them, a
    /// share has.
    fn taken(share: u32, flows: u16) -> usize {
        let of_port = |port: &u16| takes(share, REMOTE, LOCAL, [443, 32_768 + *port * 2]);
        (0..flows).filter(of_port).count()
    }

    #[test]
    fn all_is_all_and_none_is_none() {
        assert_eq!((taken(0, 10_000), taken(ALL, 10_000)), (0, 10_000));
    }

    #[test]
    fn a_share_is_that_part_of_flows_of_one_pair_of_hosts() {
        for (share, part) in [(ALL / 2, 5_000), (ALL / 4, 2_500), (ALL / 20, 500)] {
            let taken = taken(share, 10_000);
            // Five deviations of a fair choice.
            let deviation = (f64::from(part) * (1.0 - f64::from(part) / 1e4)).sqrt();
            assert!((taken as f64 - f64::from(part)).abs() < 5.0 * deviation, "{share}: {taken}");
        }
    }

    #[test]
    fn flows_that_follow_each_other_are_not_alike() {
        let is_in = |port: u16| takes(ALL / 2, REMOTE, LOCAL, [443, port]);
        let changes = (32_768..42_768).filter(|port| is_in(*port) != is_in(port + 1)).count();
        assert!((4_750..5_250).contains(&changes), "{changes}");
    }

    proptest! {
        #[test]
        fn a_larger_share_has_all_of_a_smaller_one(
            remote: [u32; 4], local: [u32; 4], ports: [u16; 2], one in 0..=ALL, other in 0..=ALL,
        ) {
            let (small, large) = (one.min(other), one.max(other));
            let takes = |share| takes(share, remote, local, ports);
            prop_assert!(!takes(small) || takes(large));
            prop_assert!(takes(ALL) && !takes(0));
        }
    }
}
