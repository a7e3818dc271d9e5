//! The path MTU by echoes that routers may not take apart (RFC 4821, RFC 8899): the largest
//! packet that comes back is looked for between two sizes, first at those that paths have.
//!
//! What routers say counts for nothing (`IP_PMTUDISC_PROBE`): some say nothing, and some
//! what is not so. By ICMP packets are as large on their way back; an answerer's are small.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::{
    Echo, PathMtu, Target, ToolError, datagrams::Datagrams, headers::header_bytes, message,
};
use crate::measurement::{Measurement, RoundTrips};

/// A path carries so much at least: RFC 791, RFC 8200 section 5.
const LEAST_V4: u32 = 576;
const LEAST_V6: u32 = 1280;
/// Many paths have one of these: jumbo frames, Ethernet, PPPoE, tunnels.
const USUAL: [u32; 7] = [9000, 1500, 1492, 1480, 1460, 1420, 1400];
/// Packets of a size, of which one has to come back: some are lost on the way.
const TRIES: u32 = 3;
/// The wait for one is so many round trips, and so long at least.
const ROUND_TRIPS: u32 = 3;
const LEAST_WAIT: Duration = Duration::from_millis(100);

impl PathMtu {
    /// Returns what the sizes take that are looked at at most.
    pub fn most_bytes(&self) -> u64 {
        // Halving 65,535 takes 16 steps.
        let sizes = USUAL.len() as u64 + 16 + 2;
        sizes.saturating_mul(u64::from(TRIES) * 2 * u64::from(self.most_bytes))
    }
}

pub async fn run(settings: &PathMtu, to: &Target) -> Result<Measurement, ToolError> {
    let nonce = message::nonce();
    let datagrams = match settings.by {
        Echo::Icmp => Datagrams::icmp(to, nonce)?,
        Echo::Udp { port } => Datagrams::udp(to, port, nonce)?,
        Echo::Tcp { .. } => return Err(ToolError::NoMtuOverTcp),
    };
    datagrams.forbid_fragments(to)?;
    let least = if to.address.is_ipv6() { LEAST_V6 } else { LEAST_V4 };
    let mut probe =
        Probe { datagrams, to, wait: settings.wait, next: 0, seconds: Vec::new(), spent: 0 };
    if !probe.comes_back(least).await? {
        let (address, count) =
            (to.address, std::num::NonZeroU16::MIN.saturating_add(TRIES as u16 - 1));
        return Err(ToolError::Silent { address, count, source: None });
    }
    // The first has waited until neighbours were found, for a second with IPv6.
    probe.comes_back(least).await?;
    // From here on an answer is known to take so long.
    let round_trip = probe.seconds.last().copied().unwrap_or_default();
    let wait = LEAST_WAIT.max(Duration::from_secs_f64(round_trip) * ROUND_TRIPS);
    probe.wait = wait.min(settings.wait);
    let mut search = Search::new(least, u32::from(settings.most_bytes).max(least));
    while let Some(size) = search.next() {
        search.note(size, probe.comes_back(size).await?);
    }
    Ok(Measurement {
        rtt: RoundTrips::of(probe.seconds),
        path_mtu_bytes: Some(search.found),
        spent_bytes: probe.spent,
        ..Measurement::default()
    })
}

struct Probe<'a> {
    datagrams: Datagrams,
    to: &'a Target,
    wait: Duration,
    next: u64,
    seconds: Vec<f64>,
    spent: u64,
}

impl Probe<'_> {
    /// Tells whether a packet of this size comes back.
    async fn comes_back(&mut self, size: u32) -> Result<bool, ToolError> {
        let payload = u64::from(size) - header_bytes(self.to.address.is_ipv6());
        let first = self.next;
        for _ in 0..TRIES {
            let (sequence, begun) = (self.next, Instant::now());
            self.next += 1;
            match self.datagrams.send(sequence, payload as usize).await {
                Ok(()) => self.spent += u64::from(size),
                // More than the device carries.
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => return Ok(false),
                Err(source) => {
                    return Err(ToolError::Send { address: self.to.address, source });
                }
            }
            // An earlier one of this size may come late, and is as good.
            let deadline = begun + self.wait;
            while let Ok(came) = timeout_at(deadline, self.datagrams.receive()).await {
                match came {
                    Ok(came) if came.sequence >= first => {
                        if came.sequence == sequence {
                            let took = begun.elapsed().saturating_sub(came.age);
                            self.seconds.push(took.as_secs_f64());
                        }
                        self.spent += u64::from(size);
                        return Ok(true);
                    }
                    // A router, or the other end, has refused one: the rest of the time may
                    // still bring another.
                    Ok(_) | Err(_) => {}
                }
            }
        }
        Ok(false)
    }
}

/// A search for the largest size that fits.
#[derive(Debug)]
struct Search {
    found: u32,
    /// This does not fit, or is more than is asked for.
    too_large: u32,
}

impl Search {
    const fn new(found: u32, most: u32) -> Self {
        Self { found, too_large: most + 1 }
    }

    /// Returns the size to try next: the largest, a usual one, one above what fits where that
    /// is usual, and else the middle.
    fn next(&self) -> Option<u32> {
        let most = self.too_large - 1;
        if self.found >= most {
            return None;
        }
        if USUAL.contains(&self.found) {
            return Some(self.found + 1);
        }
        let usual = USUAL.into_iter().find(|size| (self.found + 1..=most).contains(size));
        Some(usual.unwrap_or(self.found + (self.too_large - self.found) / 2))
    }

    fn note(&mut self, size: u32, fits: bool) {
        if fits {
            self.found = size;
        } else {
            self.too_large = size;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn search(mtu: u32, most: u32) -> (u32, usize) {
        let mut search = Search::new(LEAST_V4, most);
        let mut tried = 0;
        while let Some(size) = search.next() {
            tried += 1;
            search.note(size, size <= mtu);
        }
        (search.found, tried)
    }

    #[test]
    fn usual_sizes_take_few_packets() {
        assert_eq!(search(1500, 1500), (1500, 1));
        assert_eq!(search(1500, 9000), (1500, 3));
        assert_eq!(search(1420, 1500), (1420, 6));
    }

    proptest! {
        #[test]
        fn any_size_is_found(mtu in LEAST_V4..=65_535, most in LEAST_V4..=65_535) {
            let (found, tried) = search(mtu, most);
            prop_assert_eq!(found, mtu.min(most));
            prop_assert!(tried <= USUAL.len() + 18, "{}", tried);
        }
    }
}
