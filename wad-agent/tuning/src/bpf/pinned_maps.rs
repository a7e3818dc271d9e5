//! The pinned maps: their names, which of them a program refers to, and how large the map of flows
//! is.

/// Names of the maps, as in wad-ebpf.
pub const NAMES: [&str; 16] = [
    "PREFIX_SETS",
    "RULE_SETS",
    "POLICY_SETS",
    "CGROUP_SETS",
    "INTERFACE_SETS",
    "SETTINGS",
    "COUNTERS",
    "PATHS",
    "REFUSALS",
    "HELD",
    "SAVED",
    "FLOWS",
    "SLOTS",
    "EARLIER",
    "OVERRIDDEN",
    "EVENTS",
];

/// Maps of programs that find the path of a flow: all of them.
pub const ALL: &[&str] = &NAMES;
/// Maps of programs that change or describe flows, and find no path.
pub const OF_VISITS: &[&str] = &[
    "POLICY_SETS",
    "SETTINGS",
    "COUNTERS",
    "PATHS",
    "REFUSALS",
    "HELD",
    "SAVED",
    "FLOWS",
    "SLOTS",
    "EARLIER",
    "OVERRIDDEN",
    "EVENTS",
];
/// Maps of scans.
pub const OF_SCANS: &[&str] =
    &["POLICY_SETS", "SETTINGS", "COUNTERS", "PATHS", "HELD", "FLOWS", "SLOTS"];
/// Maps of laws.
pub const OF_LAWS: &[&str] = &["POLICY_SETS", "SETTINGS", "COUNTERS", "PATHS", "REFUSALS", "FLOWS"];
/// Maps of the program at setsockopt(2).
pub const OF_OPTIONS: &[&str] = &["POLICY_SETS", "SETTINGS", "FLOWS", "OVERRIDDEN"];
/// Maps of programs that only ask whether a socket has a flow.
pub const OF_HOLDERS: &[&str] = &["FLOWS"];

/// Returns how many flows the map of them has room for on a host of so much memory: 65,536 up to
/// 8 GiB, 524,288 from 64 GiB on. Each takes 48 bytes whether there is a flow or not, and half a KiB
/// while there is one.
pub fn most_flows(memory_bytes: u64) -> u32 {
    let flows = (memory_bytes / (128 << 10)).clamp(1 << 16, 1 << 19);
    // The kernel makes as many buckets as the next power of two.
    (flows as u32).next_power_of_two()
}

/// A record as the kernel side reads it.
pub fn bytes<T: aya::Pod>(record: &T) -> &[u8] {
    // SAFETY: a plain record without padding.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(record).cast(), size_of::<T>()) }
}

#[cfg(test)]
mod tests {
    use super::most_flows;

    #[test]
    fn flows_have_room_by_the_memory_of_the_host() {
        const GIB: u64 = 1 << 30;
        let flows = [1, 8, 24, 64, 1024].map(|gib| most_flows(gib * GIB));
        assert_eq!(flows, [1 << 16, 1 << 16, 1 << 18, 1 << 19, 1 << 19]);
    }
}
