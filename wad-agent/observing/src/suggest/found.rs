//! A watch finds the paths that are to be learned: prefixes whose connections buffers of this
//! host hold back, and by how much.

use std::{collections::HashSet, net::IpAddr};

use ipnet::IpNet;
use wad_policy::{
    config::{is_rate, is_rtt},
    learned::LearnedPath,
    tuning_plan::KernelBuffers,
};

use super::{Watch, evidence, prefixes, totals::Totals};
use crate::diagnose::{Limit, percent};

/// Connections to a prefix are judged when they have had something to do for so long, all
/// together.
const LEAST_BUSY_SECONDS: f64 = 5.0;

/// Larger buffers would help connections to a prefix.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub path: LearnedPath,
    /// It says what was seen.
    pub evidence: String,
}

impl Watch {
    /// Returns the prefixes whose connections buffers of this host hold back now: those that
    /// are learned already as they are, none within another, and new ones.
    #[must_use]
    pub fn found(&self, learned: &[IpNet], kernel: KernelBuffers) -> Vec<Found> {
        let mut found = Vec::new();
        let mut known = HashSet::new();
        for &remote in learned {
            let mut totals = Totals::default();
            for (address, more) in self.within(remote) {
                known.insert(*address);
                totals.join(more);
            }
            found.extend(totals.found(remote, kernel));
        }
        let others: Vec<_> = self
            .totals
            .iter()
            .filter(|(address, totals)| totals.busy_seconds > 0.0 && !known.contains(address))
            .collect();
        let groups = prefixes::grouped(&others, kernel);
        found.extend(groups.iter().filter_map(|(remote, totals)| totals.found(*remote, kernel)));
        found
    }

    /// Forgets what was seen of connections to a prefix: they have other buffers now.
    pub fn forget(&mut self, remote: IpNet) {
        self.totals.retain(|address, _| !remote.contains(address));
    }

    /// Forgets what was seen but for the latest look: so what follows is of later times.
    pub fn forget_all(&mut self) {
        self.totals.clear();
    }

    fn within(&self, remote: IpNet) -> impl Iterator<Item = (&IpAddr, &Totals)> {
        self.totals.range(remote.network()..=remote.broadcast())
    }
}

impl Totals {
    fn found(&self, remote: IpNet, kernel: KernelBuffers) -> Option<Found> {
        let rtt_seconds = self.rtt_seconds.filter(|rtt| is_rtt(*rtt))?;
        let buffers = self.wants(kernel).now();
        if self.busy_seconds < LEAST_BUSY_SECONDS || !(buffers.sndbuf || buffers.rcvbuf) {
            return None;
        }
        let bits_per_second = 8.0 * self.bytes_per_second_with_room(rtt_seconds);
        let path = LearnedPath { remote, bits_per_second, rtt_seconds, buffers };
        is_rate(bits_per_second).then(|| Found { path, evidence: self.evidence() })
    }

    /// Returns what the buffers held back, as a suggestion has it.
    fn evidence(&self) -> String {
        let of_buffers = |limit: &Limit| matches!(limit, Limit::SendBuffer | Limit::OwnWindow);
        let limits = evidence::limits(self);
        let parts = limits.iter().filter(|it| of_buffers(&it.limit)).map(|it| {
            let what = format!("limited by {} {} of the time", it.limit.words(), percent(it.share));
            match &it.evidence {
                Some(evidence) => format!("{what} ({evidence})"),
                None => what,
            }
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use wad_instruments::Reading;
    use wad_policy::config::AutoBuffers;

    use super::{
        super::tests::{DEBIAN, RATE, flow},
        *,
    };

    const SNDBUF: AutoBuffers = AutoBuffers { sndbuf: true, rcvbuf: false, autotune: false };

    /// Looks once a second.
    fn look(watch: &mut Watch, seconds: std::ops::RangeInclusive<i64>, remote: &str, timer: &str) {
        for n in seconds {
            let time = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(n);
            watch.look(Reading { time, flows: vec![flow(1, remote, n as f64, timer)] });
        }
    }

    #[test]
    fn a_send_buffer_that_limits_is_found_with_its_evidence() {
        let mut watch = Watch::of_all();
        look(&mut watch, 1..=5, "203.0.113.5:443", "SndLimTimeSndbuf");
        assert_eq!(watch.found(&[], DEBIAN), []);
        look(&mut watch, 6..=6, "203.0.113.5:443", "SndLimTimeSndbuf");
        let found = watch.found(&[], DEBIAN);
        let [Found { path, evidence }] = &found[..] else { panic!("{found:?}") };
        assert_eq!((path.remote.to_string().as_str(), path.buffers), ("203.0.113.5/32", SNDBUF));
        assert_eq!((path.rtt_seconds, path.bits_per_second.round()), (0.07, (32.0 * RATE).round()));
        let expected =
            "limited by the send buffer 100% of the time (3.0 MiB in each 70 ms makes 360 Mbit/s)";
        assert_eq!(evidence, expected);

        // It is judged as the prefix that it is learned by, and then anew.
        let learned = ["203.0.113.0/24".parse().unwrap()];
        assert_eq!(watch.found(&learned, DEBIAN)[0].path.remote, learned[0]);
        watch.forget(learned[0]);
        assert_eq!(watch.found(&learned, DEBIAN), []);
        look(&mut watch, 7..=10, "203.0.113.5:443", "SndLimTimeSndbuf");
        assert_eq!(watch.found(&learned, DEBIAN), []);
        look(&mut watch, 11..=11, "203.0.113.5:443", "SndLimTimeSndbuf");
        assert_eq!(watch.found(&learned, DEBIAN).len(), 1);
        watch.forget_all();
        assert_eq!(watch.found(&learned, DEBIAN), []);
    }

    #[test]
    fn what_is_no_buffer_of_this_hosts_is_not_found() {
        for timer in ["SndLimTimeRwin", "SndLimTimeCwnd", "SndLimTimeSnd"] {
            let mut watch = Watch::of_all();
            look(&mut watch, 1..=20, "203.0.113.5:443", timer);
            assert_eq!(watch.found(&[], DEBIAN), [], "{timer}");
        }
    }
}
