//! Gates let each peer in a few times at a time, and not too often.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use wad_toolbox::mutex::locked;

use super::hall::Bucket;
use crate::refusal::Refusal;

/// A peer is in so often at a time: for an exchange, and for questions about runs.
pub const MOST: usize = 4;
/// It may ask so often, in the long run: an exchange takes place every five seconds at most, and
/// a run of a probe takes three questions.
const INTERVAL: Duration = Duration::from_millis(500);
/// And so often at once, as where it has started again.
const AT_ONCE: f64 = 16.0;

/// The gates of all peers.
#[derive(Debug, Default)]
pub struct Gates(Arc<Mutex<HashMap<String, Gate>>>);

#[derive(Debug)]
struct Gate {
    inside: usize,
    bucket: Bucket,
}

/// A peer is in for as long as it has this.
#[derive(Debug)]
pub struct Pass {
    gates: Arc<Mutex<HashMap<String, Gate>>>,
    peer: String,
}

impl Gates {
    /// Lets a peer in, if it is not in too often already. There are no more gates than peers in
    /// the file, and those that were in it.
    pub fn enter(&self, peer: &str, now: Instant) -> Result<Pass, Refusal> {
        let mut gates = locked(&self.0);
        let full =
            || Gate { inside: 0, bucket: Bucket::full(AT_ONCE, 1.0 / INTERVAL.as_secs_f64(), now) };
        let gate = gates.entry(peer.to_owned()).or_insert_with(full);
        if gate.inside >= MOST {
            return Err(Refusal::Busy);
        }
        if !gate.bucket.take(now) {
            return Err(Refusal::TooOften);
        }
        gate.inside += 1;
        Ok(Pass { gates: Arc::clone(&self.0), peer: peer.to_owned() })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(gate) = locked(&self.gates).get_mut(&self.peer) {
            gate.inside -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_in_a_few_times_and_not_too_often() {
        let (gates, begun) = (Gates::default(), Instant::now());
        let after = |seconds| begun + Duration::from_secs(seconds);
        let passes: Vec<_> = (0..MOST).map(|_| gates.enter("a", begun).unwrap()).collect();
        assert_eq!(gates.enter("a", begun).unwrap_err(), Refusal::Busy);
        // Another is not held up by it.
        gates.enter("b", begun).unwrap();
        drop(passes);
        for _ in MOST..16 {
            gates.enter("a", begun).unwrap();
        }
        assert_eq!(gates.enter("a", begun).unwrap_err(), Refusal::TooOften);
        for _ in 0..2 {
            gates.enter("a", after(1)).unwrap();
        }
        assert_eq!(gates.enter("a", after(1)).unwrap_err(), Refusal::TooOften);
        for _ in 0..16 {
            gates.enter("a", after(1_000)).unwrap();
        }
        assert_eq!(gates.enter("a", after(1_000)).unwrap_err(), Refusal::TooOften);
    }
}
