//! The kernel has counters of TCP of its own, for each network namespace since it
//! exists.

use std::{collections::BTreeMap, fs, io};

/// These counters of /proc/net/netstat tell how a transfer went: recoveries and
/// timeouts, and what was taken back or lost once more, or was not lost at all.
const EXTENDED: [&str; 11] = [
    "TCPSackRecovery",
    "TCPRenoRecovery",
    "TCPTimeouts",
    "TCPLossProbes",
    "TCPFastRetrans",
    "TCPSlowStartRetrans",
    "TCPLostRetransmit",
    "TCPFullUndo",
    "TCPDSACKUndo",
    DUPLICATES,
    "TCPDeliveredCE",
];
/// Each of these is a segment that had arrived and was dropped for want of room: in the
/// socket's buffer, or in TCP's memory.
const DROPS: [&str; 5] =
    ["RcvPruned", "OfoPruned", "TCPRcvQDrop", "TCPOFODrop", "TCPZeroWindowDrop"];
/// This counter is of segments that the receiver had already, and said so (RFC 2883).
pub const DUPLICATES: &str = "TCPDSACKRecvSegs";
/// Each of these is one event, however many segments it is about.
const EVENTS: [&str; 3] = ["TCPSackRecovery", "TCPRenoRecovery", "TCPTimeouts"];

/// Counters by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters(BTreeMap<String, u64>);

impl TcpCounters {
    /// Reads the counters of the calling thread's namespace.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read() -> io::Result<Self> {
        let simple = fs::read_to_string("/proc/thread-self/net/snmp")?;
        let extended = fs::read_to_string("/proc/thread-self/net/netstat")?;
        let mut all = lines(&simple, "Tcp: ").ok_or(io::ErrorKind::InvalidData)?;
        all.retain(|name, _| name == "RetransSegs");
        let extended = lines(&extended, "TcpExt: ").ok_or(io::ErrorKind::InvalidData)?;
        let is_kept = |name: &String| [&EXTENDED[..], &DROPS].concat().contains(&name.as_str());
        all.extend(extended.into_iter().filter(|(name, _)| is_kept(name)));
        Ok(Self(all))
    }

    /// Returns what has come to them after an earlier reading.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        for (name, value) in &mut self.0 {
            *value = value.saturating_sub(before.get(name));
        }
        self
    }

    /// Segments sent again.
    #[must_use]
    pub fn retransmits(&self) -> u64 {
        self.get("RetransSegs")
    }

    /// Returns the number of episodes of fast recovery, and of timeouts.
    #[must_use]
    pub fn congestion_events(&self) -> u64 {
        EVENTS.iter().map(|name| self.get(name)).sum()
    }

    /// Returns the number of segments that had arrived and were dropped.
    #[must_use]
    pub fn drops(&self) -> u64 {
        DROPS.iter().map(|name| self.get(name)).sum()
    }

    /// Returns all counters by name.
    #[must_use]
    pub fn into_map(self) -> BTreeMap<String, u64> {
        self.0
    }

    fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

/// Reads a pair of lines: names, then values.
fn lines(table: &str, prefix: &str) -> Option<BTreeMap<String, u64>> {
    let mut lines = table.lines().filter_map(|line| line.strip_prefix(prefix));
    let (names, values) = lines.next().zip(lines.next())?;
    let fields = names.split(' ').zip(values.split(' '));
    // MaxConn is -1.
    Some(fields.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_and_values() {
        let table = "Ip: A B\nIp: 1 2\nTcp: MaxConn RetransSegs\nTcp: -1 17\n";
        let map = lines(table, "Tcp: ").unwrap();
        assert_eq!(map.get("RetransSegs"), Some(&17));
        assert_eq!(lines(table, "TcpExt: "), None);
    }

    #[test]
    fn events_are_recoveries_and_timeouts() {
        let map = [("TCPSackRecovery", 3), ("TCPTimeouts", 2), ("TCPFastRetrans", 90)];
        let counters = TcpCounters(map.map(|(name, value)| (name.to_owned(), value)).into());
        assert_eq!((counters.congestion_events(), counters.retransmits()), (5, 0));
    }

    #[test]
    fn drops_are_of_every_kind() {
        let counters = TcpCounters(DROPS.map(|name| (name.to_owned(), 2)).into());
        assert_eq!((counters.drops(), counters.congestion_events()), (10, 0));
    }

    #[test]
    fn what_was_before_does_not_count() {
        let counters = |value| TcpCounters([("RetransSegs".to_owned(), value)].into());
        assert_eq!(counters(9).since(&counters(7)), counters(2));
        assert_eq!(counters(9).since(&TcpCounters::default()), counters(9));
    }

    #[test]
    fn this_kernel_has_them_all() {
        let counters = TcpCounters::read().unwrap().into_map();
        for name in EXTENDED.into_iter().chain(DROPS) {
            assert!(counters.contains_key(name), "{name}");
        }
        assert!(counters.contains_key("RetransSegs"));
    }
}
