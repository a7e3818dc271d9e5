//! The slots by which scans find flows, and those that a flow may have among the ones in use: a few
//! that its cookie leads to.

use crate::record;

/// A slot of a flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Cookie of the flow's socket; 0 where the slot is free.
    pub cookie: u64,
    /// Address of its `struct tcp_sock`, for no more than to load that into a processor's cache: it
    /// may be that of an earlier flow still.
    pub socket: u64,
}
record!(Slot, size = 16);

/// Slots that are in use at first.
pub const FIRST_SLOTS: u64 = 1 << 10;
/// Slots that a flow tries before more come into use: as many that of ten at least seven are taken
/// then, since a scan visits the free ones, too.
pub const TRIES: u64 = 64;

/// Returns the slot that a flow tries after so many others, of as many as are in use, which are a
/// power of two.
///
/// Cookies follow each other, in steps that depend on what else the host does: all bits are mixed
/// (the finalizer of `MurmurHash3`), or flows would crowd in some places while others stay free. Each
/// try is mixed anew, so that one that finds a crowd does not stay in it when more come into use.
#[inline(always)]
#[must_use]
pub const fn slot(cookie: u64, tried: u64, slots: u64) -> u64 {
    let mut mixed = cookie.wrapping_add(tried.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed ^= mixed >> 33;
    mixed = mixed.wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^= mixed >> 33;
    mixed = mixed.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^= mixed >> 33;
    mixed & (slots - 1)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::HashSet;

    use super::*;

    /// Returns how many slots are in use after flows with these cookies have come.
    fn in_use(cookies: impl Iterator<Item = u64>) -> u64 {
        let (mut taken, mut slots) = (HashSet::new(), FIRST_SLOTS);
        for cookie in cookies {
            while !(0..TRIES).any(|tried| taken.insert(slot(cookie, tried, slots))) {
                slots *= 2;
            }
        }
        slots
    }

    #[test]
    fn few_slots_are_in_use_whatever_the_steps_between_cookies() {
        for step in [1, 2, 3, 5, 89, 4096] {
            for flows in [300, 10_000, 100_000] {
                let slots = in_use((1..=flows).map(|n| n * step));
                assert!(slots <= (3 * flows).max(FIRST_SLOTS), "{flows} by {step}: {slots}");
            }
        }
    }

    #[test]
    fn a_slot_is_among_those_in_use() {
        for (cookie, tried) in (0..1_000).flat_map(|n| [(n, 0), (u64::MAX - n, TRIES - 1)]) {
            assert!(slot(cookie, tried, FIRST_SLOTS) < FIRST_SLOTS);
        }
    }
}
