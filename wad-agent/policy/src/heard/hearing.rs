//! Decides when the policies follow what peers say: as with measurements, not for every
//! message, and not often. What is taken back is gone at once.

use std::{collections::BTreeMap, time::Duration};

use wad_toolbox::clock::Moment;

use super::{Counted, counted::CountedConsent};

/// The least change of a number, in parts of it, that is one.
const LEAST_CHANGE: f64 = 0.1;

/// It knows what of the peers' words is in force.
#[derive(Clone, Debug, Default)]
pub struct Hearing {
    /// By peer; one that is not heard any more keeps the time of that.
    peers: BTreeMap<String, Peer>,
}

#[derive(Clone, Debug)]
struct Peer {
    in_force: Option<Counted>,
    changed_at: Moment,
}

impl Hearing {
    /// Returns what is in force, by peer.
    #[must_use]
    pub fn in_force(&self) -> Vec<Counted> {
        self.peers.values().filter_map(|peer| peer.in_force.clone()).collect()
    }

    /// Takes over what counts now, as far as it is time: no sooner than an interval after the
    /// peer's last change, and without an interval not at all. What a peer takes back is gone in
    /// any case. Says whether anything is other than before.
    pub fn offer(
        &mut self,
        counted: Vec<Counted>,
        now: Moment,
        interval: Option<Duration>,
    ) -> bool {
        let is_soon = |peer: &Peer| {
            let since = now.saturating_sub(peer.changed_at);
            interval.is_none_or(|interval| since < interval)
        };
        let mut is_other = false;
        for (name, peer) in &mut self.peers {
            if peer.in_force.is_some() && !counted.iter().any(|it| it.peer == *name) {
                *peer = Peer { in_force: None, changed_at: now };
                is_other = true;
            }
        }
        self.peers.retain(|_, peer| peer.in_force.is_some() || is_soon(peer));
        for wanted in counted {
            let before = self.peers.get(&wanted.peer);
            let in_force = before.and_then(|peer| peer.in_force.as_ref());
            let waits = before.map_or(interval.is_none(), is_soon);
            let is_due = match in_force {
                None => !waits,
                Some(in_force) => {
                    takes_back(in_force, &wanted) || !waits && is_change(in_force, &wanted)
                }
            };
            if is_due {
                let name = wanted.peer.clone();
                self.peers.insert(name, Peer { in_force: Some(wanted), changed_at: now });
                is_other = true;
            }
        }
        is_other
    }
}

/// Whether the peer allows less than before.
fn takes_back(from: &Counted, to: &Counted) -> bool {
    let is_gone = |net| !to.prefixes.contains(net);
    if from.prefixes.iter().any(is_gone) {
        return true;
    }
    let Some(before) = &from.consent else { return false };
    let Some(after) = &to.consent else { return true };
    let rate = |consent: &CountedConsent| consent.max_bits_per_second.unwrap_or(f64::INFINITY);
    rate(after) < rate(before) || before.prefixes.iter().any(|net| !after.prefixes.contains(net))
}

fn is_change(from: &Counted, to: &Counted) -> bool {
    let bytes =
        |from: Option<u32>, to: Option<u32>| is_other(from.map(Into::into), to.map(Into::into));
    from.prefixes != to.prefixes
        || from.consent != to.consent
        || bytes(from.rcvbuf_bytes, to.rcvbuf_bytes)
        || bytes(from.granted_bytes, to.granted_bytes)
        || is_other(from.nic_bits_per_second, to.nic_bits_per_second)
}

fn is_other(from: Option<f64>, to: Option<f64>) -> bool {
    match (from, to) {
        (None, None) => false,
        (Some(from), Some(to)) => (to - from).abs() > LEAST_CHANGE * from,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Option<Duration> = Some(Duration::from_secs(60));

    fn counted(rcvbuf_bytes: u32, max_bits_per_second: Option<f64>) -> Counted {
        let prefixes = vec!["192.0.2.0/24".parse().expect("a prefix")];
        let max = max_bits_per_second;
        Counted {
            peer: "tokyo".to_owned(),
            prefixes: prefixes.clone(),
            rcvbuf_bytes: Some(rcvbuf_bytes),
            granted_bytes: None,
            nic_bits_per_second: None,
            consent: max.map(|max| CountedConsent { max_bits_per_second: Some(max), prefixes }),
        }
    }

    fn after(start: Moment, seconds: u64) -> Moment {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn small_changes_are_none_and_large_ones_wait() {
        let (mut hearing, start) = (Hearing::default(), Duration::from_secs(1_000));
        assert!(!hearing.offer(Vec::new(), start, INTERVAL));
        assert!(hearing.offer(vec![counted(1_000_000, None)], start, INTERVAL));
        assert!(!hearing.offer(vec![counted(1_050_000, None)], after(start, 61), INTERVAL));
        assert!(hearing.offer(vec![counted(2_000_000, None)], after(start, 61), INTERVAL));
        assert!(!hearing.offer(vec![counted(4_000_000, None)], after(start, 62), INTERVAL));
        assert!(hearing.offer(vec![counted(4_000_000, None)], after(start, 121), INTERVAL));
        assert_eq!(hearing.in_force(), [counted(4_000_000, None)]);
        // While another change of policy is not over.
        assert!(!hearing.offer(vec![counted(9_000_000, None)], after(start, 999), None));
        assert!(hearing.offer(Vec::new(), after(start, 999), None));
        assert!(!Hearing::default().offer(vec![counted(9_000_000, None)], start, None));
    }

    #[test]
    fn what_is_taken_back_is_gone_at_once_and_comes_back_in_time() {
        let (mut hearing, start) = (Hearing::default(), Duration::from_secs(1_000));
        let given = || vec![counted(1_000_000, Some(5e9))];
        assert!(hearing.offer(given(), start, INTERVAL));
        assert!(hearing.offer(vec![counted(1_000_000, Some(4e9))], after(start, 1), INTERVAL));
        assert!(hearing.offer(vec![counted(1_000_000, None)], after(start, 2), INTERVAL));
        assert!(!hearing.offer(given(), after(start, 3), INTERVAL));
        assert!(hearing.offer(Vec::new(), after(start, 4), INTERVAL));
        assert_eq!(hearing.in_force(), []);
        assert!(!hearing.offer(given(), after(start, 63), INTERVAL));
        assert!(hearing.offer(given(), after(start, 64), INTERVAL));
    }
}
