//! Looks now and then at the flows between this host and its peers, for what is told to these.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tracing::warn;
use wad_instruments::Reading;
use wad_observing::{
    diagnose::FIELDS,
    peer_flows,
    reading::{Filter, Source},
};
use wad_policy::heard::{Direction, Heard, is_spoken_for};
use wad_toolbox::{
    causes::told,
    clock::{self, Moment},
    mutex::locked,
    seldom::Seldom,
};

/// How often flows are looked at; what is shown is over the time between two looks.
const INTERVAL: Duration = Duration::from_secs(15);
/// Flows of all peers that are looked at, at most.
const MOST_FLOWS: usize = 1_024;

/// Flows with peers have shown this at the last look, by peer.
#[derive(Clone, Debug, Default)]
pub struct Flows(Arc<Mutex<HashMap<String, Shown>>>);

#[derive(Clone, Debug)]
struct Shown {
    at: Moment,
    sending: Direction,
    receiving: Direction,
}

impl Flows {
    /// Adds what flows with the peer have shown to what is said of the paths to it.
    pub fn add_to(&self, peer: &str, sending: &mut Direction, receiving: &mut Direction) {
        let Self(shown) = self;
        let Some(shown) = locked(shown).get(peer).cloned() else { return };
        let age = clock::now().saturating_sub(shown.at);
        for (said, mut shown) in [(sending, shown.sending), (receiving, shown.receiving)] {
            let seen = [&mut shown.best_rate_bits_per_second, &mut shown.min_rtt_seconds];
            seen.into_iter().flatten().for_each(|value| value.age = age);
            said.limited_by = shown.limited_by;
            // What was seen just now is better than what a file says.
            let seen = [shown.best_rate_bits_per_second, shown.min_rtt_seconds];
            let known = [&mut said.best_rate_bits_per_second, &mut said.min_rtt_seconds];
            known.into_iter().zip(seen).for_each(|(known, seen)| *known = seen.or(known.take()));
        }
    }

    /// Looks for as long as it is let run. It reads beside the event loop.
    pub async fn watch(self, peers: impl Fn() -> Vec<Heard>, source: Source) {
        let Self(shown) = self;
        let (mut before, mut failed) = (None::<Reading>, Seldom::new());
        loop {
            tokio::time::sleep(INTERVAL).await;
            let peers = peers();
            if peers.is_empty() {
                before = None;
                locked(&shown).clear();
                continue;
            }
            let source = source.clone();
            let read = tokio::task::spawn_blocking(move || source.read(&filter()));
            let mut reading = match read.await {
                Ok(Ok(reading)) => reading,
                Ok(Err(error)) => {
                    if failed.may_say() {
                        warn!("peers are not told what limits here: {}", told(&error));
                    }
                    continue;
                }
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            };
            let is_of_peer =
                |remote| peers.iter().any(|peer| is_spoken_for(&peer.prefixes, remote));
            reading.flows.retain(|flow| is_of_peer(flow.remote.ip()));
            reading.flows.truncate(MOST_FLOWS);
            let readings: Vec<_> = before.take().into_iter().chain([reading]).collect();
            let at = clock::now();
            let of_peer = |peer: &Heard| {
                let (sending, receiving) = peer_flows::shown(&readings, &peer.prefixes);
                (peer.peer.clone(), Shown { at, sending, receiving })
            };
            *locked(&shown) = peers.iter().map(of_peer).collect();
            before = readings.into_iter().next_back();
        }
    }
}

fn filter() -> Filter {
    Filter { fields: FIELDS.map(str::to_owned).to_vec(), ..Filter::default() }
}
