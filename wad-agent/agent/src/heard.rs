//! The words of peers, and the paths that follow them: for those who answer questions, and for
//! whoever tells peers of this host's own paths.

mod flows;

use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_observing::reading::Source;
use wad_peers::{Board, told};
use wad_policy::{
    config::{ByPeer, Consented, PathPolicy},
    heard::Direction,
};
use wad_toolbox::mutex::locked;

use self::flows::Flows;

/// Shares what peers said last, and the paths in force.
#[derive(Clone, Debug)]
pub struct Ends {
    board: Board,
    /// All paths in force where there are peers; none where there are none.
    paths: Arc<Mutex<Arc<Vec<PathPolicy>>>>,
    flows: Flows,
}

impl Ends {
    #[must_use]
    pub fn new(board: Board) -> Self {
        Self { board, paths: Arc::default(), flows: Flows::default() }
    }

    /// Says which paths are in force now.
    pub fn are_in_force(&self, paths: Vec<PathPolicy>) {
        *locked(&self.paths) = Arc::new(paths);
    }

    /// Adds what flows with a peer have shown to what is said to it of what is sent to it, and
    /// of what is received.
    pub fn add_shown(&self, peer: &str, sending: &mut Direction, receiving: &mut Direction) {
        self.flows.add_to(peer, sending, receiving);
    }

    /// Looks at the flows with peers for as long as it is let run.
    pub async fn watch(self, source: Source) {
        let Self { board, flows, .. } = self;
        flows.watch(move || board.heard(), source).await;
    }

    /// Returns the peers, with what they say that still counts.
    #[must_use]
    pub fn peers(&self) -> Vec<told::Peer> {
        self.board.told().peers
    }

    /// Returns what each path has by the word of a peer.
    #[must_use]
    pub fn by_peer(&self) -> Vec<(String, ByPeerInfo)> {
        let paths = Arc::clone(&locked(&self.paths));
        let info = |path: &PathPolicy| {
            let by_peer = path.origin.by_peer.as_deref()?;
            Some((path.name.clone(), ByPeerInfo::new(by_peer, path)))
        };
        paths.iter().filter_map(info).collect()
    }

    /// Says of peers when they were heard, and until when that counts.
    #[must_use]
    pub fn words(&self, peers: &[String]) -> Vec<String> {
        let told = self.peers();
        let heard = |name: &String| told.iter().find(|it| it.name == *name)?.heard.as_ref();
        let words = |name: &String| match heard(name) {
            Some(heard) => words(name, heard),
            None => format!("peer {name} is not heard"),
        };
        peers.iter().map(words).collect()
    }
}

/// A path has this by the word of peers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ByPeerInfo {
    /// The peer that speaks for all of its prefixes; null where none does.
    pub peer: Option<String>,
    /// Whether its receive buffer is for what the peer's path needs.
    pub rcvbuf: bool,
    /// The rate that it would be for, were the slower interface of both ends no bound.
    pub own_bits_per_second: Option<f64>,
    /// The send buffer that it would have, would the peer offer as much.
    pub own_sndbuf_bytes: Option<u32>,
    /// The peer whose consent it waits for.
    pub waits_for: Option<String>,
    /// Whether that consents now; without it the path is in its fair form.
    pub consents: bool,
    /// The most that its connections may take together by the consent.
    pub max_bits_per_second: Option<f64>,
}

/// Says when a peer was heard, and until when that counts.
#[must_use]
pub fn words(name: &str, heard: &told::Heard) -> String {
    let told::Heard { age_seconds, ends_in_seconds, consent, .. } = heard;
    let consent = consent.as_ref().map_or_else(String::new, |consent| {
        format!(", its consent for {:.0} s", consent.ends_in_seconds)
    });
    format!(
        "peer {name} was heard {age_seconds:.0} s ago, which counts for another \
         {ends_in_seconds:.0} s{consent}"
    )
}

impl ByPeerInfo {
    fn new(by_peer: &ByPeer, path: &PathPolicy) -> Self {
        let ByPeer { peer, rcvbuf, bound: _, waits_for, consented, own } = by_peer;
        let (rate, sndbuf) = (path.origin.capacity.bits_per_second, path.sndbuf_bytes);
        let max_bits_per_second = match consented {
            Consented::Yes { max_bits_per_second } => *max_bits_per_second,
            Consented::NotAsked | Consented::No => None,
        };
        Self {
            peer: Some(peer.clone()).filter(|peer| !peer.is_empty()),
            rcvbuf: *rcvbuf,
            own_bits_per_second: own.bits_per_second.filter(|own| rate.is_some_and(|it| it < *own)),
            own_sndbuf_bytes: own.sndbuf_bytes.filter(|own| sndbuf.is_some_and(|it| it < *own)),
            waits_for: waits_for.clone(),
            consents: matches!(consented, Consented::Yes { .. }),
            max_bits_per_second,
        }
    }

    /// Whether the path has anything by the word of this peer.
    #[must_use]
    pub fn is_by(&self, peer: &str) -> bool {
        let peers = [&self.peer, &self.waits_for];
        self.words().is_some() && peers.into_iter().flatten().any(|name| name == peer)
    }

    /// Says in words what the path has by peers, where that is anything.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let peer = self.peer.as_deref().unwrap_or_default();
        let mbit = |rate: f64| format!("{:.1} Mbit/s", rate / 1e6);
        let parts = [
            self.rcvbuf.then(|| format!("rcvbuf for what the path of peer {peer} needs")),
            self.own_bits_per_second.map(|rate| {
                format!("no more than the slower interface, instead of {}", mbit(rate))
            }),
            self.own_sndbuf_bytes
                .map(|bytes| format!("sndbuf for what peer {peer} offers, instead of {bytes}")),
            self.waits_for.as_ref().map(|name| match (self.consents, self.max_bits_per_second) {
                (false, _) => format!("fair, as peer {name} does not consent to more"),
                (true, None) => format!("as the file says, by consent of peer {name}"),
                (true, Some(most)) => {
                    format!("as the file says, by consent of peer {name} up to {}", mbit(most))
                }
            }),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wad_policy::heard::{Consent, Heard, Said};

    use super::*;

    #[test]
    fn what_was_heard_is_said_with_its_age_and_its_end() {
        let (now, second) = (Duration::from_secs(1_000), Duration::from_secs(1));
        let ends_in = Some(30 * second);
        let consent = Consent { max_bits_per_second: None, prefixes: Vec::new(), ends_in };
        let mut heard = Heard {
            peer: "tokyo".to_owned(),
            prefixes: Vec::new(),
            own_nic_bits_per_second: None,
            grant_buffer_bytes: None,
            said: Said { consent: Some(consent), ..Said::default() },
            heard_at: now,
            ends_at: now + 90 * second,
        };
        let said = |heard: &Heard| words("tokyo", &told::Heard::new(heard, now + 10 * second));
        let without = "peer tokyo was heard 10 s ago, which counts for another 80 s";
        assert_eq!(said(&heard), format!("{without}, its consent for 20 s"));
        heard.said.consent = None;
        assert_eq!(said(&heard), without);
    }
}
