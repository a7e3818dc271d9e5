//! Numbers whose bits are spread, for chance that a seed decides: the same on every host and in
//! every version.

/// Numbers that are so far apart give the sequence of SplitMix64.
pub const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the number with all of its bits spread (the finalizer of SplitMix64: Steele, Lea and
/// Flood, OOPSLA 2014).
#[must_use]
pub const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(INCREMENT);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::mixed;

    /// Periods of probes would move, and experiments change sides, if this did.
    #[test]
    fn it_is_the_same_for_good() {
        // The first number of SplitMix64 with the seed 0.
        assert_eq!(mixed(0), 0xe220_a839_7b1d_cdaf);
    }
}
