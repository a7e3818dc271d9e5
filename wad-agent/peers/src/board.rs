//! The board of what is heard: the last word of each peer, until it is too old, and how it is
//! with each of them.

use std::{
    fmt::Display,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use tokio::sync::watch;
use tracing::{info, warn};
use wad_policy::{
    config::{Peer, Peers},
    heard::{Consent, Heard},
};
use wad_toolbox::{
    clock::{self, Moment},
    mutex::locked,
    seldom::Seldom,
};

use crate::{
    credentials::Own,
    identity::{Judged, both, covers},
    message::Statement,
    refusal::{Refusal, Refusals},
    told,
};

/// A peer's word counts for so many of its periods.
const PERIODS: u32 = 3;
/// However seldom a peer says that it speaks.
const LONGEST_PERIOD: Duration = Duration::from_secs(3_600);

/// The board, shared by those who hear and those who follow.
#[derive(Clone, Debug)]
pub struct Board(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Rises with each change of what is heard.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    peers: Vec<Known>,
    /// Refusals of those that are no peer, or not known to be one.
    strangers: Refusals,
    said: [Seldom; Refusal::COUNT],
    own: Option<Own>,
    /// Why the files cannot be used, if the last look found that.
    files_failing: Option<String>,
    file_errors: u64,
}

impl State {
    /// Finds a peer again, which a reload may have taken away or made another.
    fn known(&mut self, peer: &Peer) -> Option<&mut Known> {
        let is_it = |known: &&mut Known| {
            known.peer.name == peer.name && known.peer.known_by == peer.known_by
        };
        self.peers.iter_mut().find(is_it)
    }
}

/// A peer, and how it is with it.
#[derive(Debug)]
struct Known {
    peer: Peer,
    heard: Option<Heard>,
    /// When its certificate ends, once it was seen.
    certificate_ends: Option<Timestamp>,
    heard_count: u64,
    failed_count: u64,
    refusals: Refusals,
    /// Why the last exchange did not come about, if it did not.
    failing: Option<String>,
    said: Seldom,
    /// Since when it keeps silent.
    silent_since: Moment,
}

impl Known {
    fn new(peer: Peer) -> Self {
        Self {
            peer,
            heard: None,
            certificate_ends: None,
            heard_count: 0,
            failed_count: 0,
            refusals: Refusals::default(),
            failing: None,
            said: Seldom::new(),
            silent_since: clock::now(),
        }
    }
}

impl Default for Board {
    fn default() -> Self {
        let (state, changes) = (Mutex::default(), watch::Sender::new(0));
        Self(Arc::new(Shared { state, changes }))
    }
}

impl Board {
    /// Returns what is heard and still counts.
    #[must_use]
    pub fn heard(&self) -> Vec<Heard> {
        let now = clock::now();
        let state = locked(&self.0.state);
        let heard = state.peers.iter().filter_map(|known| known.heard.as_ref());
        heard.filter(|heard| heard.holds(now)).cloned().collect()
    }

    /// Returns a receiver that sees each change: a new word, one that has ended, other peers.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Tells how it is with all peers.
    #[must_use]
    pub fn told(&self) -> told::Peers {
        let (now, wall) = (clock::now(), SystemTime::now());
        let state = locked(&self.0.state);
        let peer = |known: &Known| told::Peer {
            name: known.peer.name.clone(),
            address: known.peer.address.as_ref().map(ToString::to_string),
            known_by: known.peer.known_by.to_string(),
            heard: known
                .heard
                .as_ref()
                .filter(|it| it.holds(now))
                .map(|it| told::Heard::new(it, now)),
            silent_seconds: match &known.heard {
                Some(heard) if heard.holds(now) => None,
                _ => Some(now.saturating_sub(known.silent_since).as_secs_f64()),
            },
            heard_count: known.heard_count,
            failed_count: known.failed_count,
            refused: told::refused(&known.refusals),
            failing: known.failing.clone(),
            certificate_ends_in_seconds: known.certificate_ends.map(|at| seconds_to(at, wall)),
        };
        told::Peers {
            own: state.own.as_ref().map(|own| told::Own {
                name: own.name.clone(),
                prefixes: own.prefixes.clone().unwrap_or_default(),
                key: own.pin.to_string(),
                certificate_ends_in_seconds: seconds_to(own.valid_until, wall),
            }),
            files_failing: state.files_failing.clone(),
            file_errors: state.file_errors,
            refused: told::refused(&state.strangers),
            peers: state.peers.iter().map(peer).collect(),
        }
    }

    /// Has the board be of these peers. What others said is forgotten, and what a peer said that
    /// is bounded in another way now.
    pub fn set_peers(&self, settings: Option<&Peers>) {
        let peers = settings.map(|settings| settings.peers.clone()).unwrap_or_default();
        let mut state = locked(&self.0.state);
        let mut before = std::mem::take(&mut state.peers);
        state.peers = peers
            .into_iter()
            .map(|peer| {
                let is_same = |known: &Known| {
                    known.peer.name == peer.name
                        && known.peer.known_by == peer.known_by
                        && known.peer.prefixes == peer.prefixes
                        && known.peer.grant_buffer_bytes == peer.grant_buffer_bytes
                };
                match before.iter().position(is_same) {
                    Some(place) => Known { peer, ..before.swap_remove(place) },
                    None => Known::new(peer),
                }
            })
            .collect();
        if settings.is_none() {
            (state.own, state.files_failing) = (None, None);
        }
        drop(state);
        self.change();
    }

    /// Notes which files are in use now.
    pub fn set_own(&self, own: Own) {
        let mut state = locked(&self.0.state);
        (state.own, state.files_failing) = (Some(own), None);
    }

    /// Notes that files cannot be used; those before are, if there were any.
    pub fn count_file_error(&self, why: String) {
        let mut state = locked(&self.0.state);
        state.file_errors = state.file_errors.saturating_add(1);
        state.files_failing = Some(why);
    }

    /// Takes in what a peer said: as much of it as it may say.
    ///
    /// # Errors
    /// Where it speaks for what is not its own.
    pub fn hear(
        &self,
        (peer, judged): (&Peer, &Judged),
        statement: Statement,
        own_nic_bits_per_second: Option<f64>,
    ) -> Result<(), Refusal> {
        let now = clock::now();
        let mut state = locked(&self.0.state);
        // A reload may have come between.
        let known = state.known(peer).ok_or(Refusal::Stranger)?;
        let mut said = statement.said;
        let prefixes = bounded(known, &judged.prefixes, statement.prefixes.as_deref())?;
        said.consent = said.consent.and_then(|consent| bounded_consent(consent, &prefixes));
        let period = known.peer.every.max(statement.every).min(LONGEST_PERIOD);
        let heard = Heard {
            peer: known.peer.name.clone(),
            prefixes,
            own_nic_bits_per_second,
            grant_buffer_bytes: known.peer.grant_buffer_bytes.map(u64::from),
            said,
            heard_at: now,
            ends_at: now + period * PERIODS,
        };
        if !known.heard.as_ref().is_some_and(|before| before.holds(now)) {
            info!("peer {} is heard", known.peer.name);
        }
        known.heard = Some(heard);
        known.heard_count = known.heard_count.saturating_add(1);
        known.failing = None;
        known.said.forget();
        known.certificate_ends = Some(judged.valid_until);
        drop(state);
        self.change();
        Ok(())
    }

    /// Counts that somebody is not heard: a peer, if it is known to be one.
    pub fn refuse(&self, peer: Option<&Peer>, refusal: Refusal, from: impl Display) {
        let mut state = locked(&self.0.state);
        if let Some(known) = peer.and_then(|peer| state.known(peer)) {
            known.refusals.count(refusal);
            known.failing = Some(refusal.to_string());
            if known.said.may_say() {
                warn!("peer {} at {from} is not heard: {refusal}", known.peer.name);
            }
            return;
        }
        state.strangers.count(refusal);
        if state.said[refusal as usize].may_say() {
            warn!("{from} is not heard as a peer: {refusal}");
        }
    }

    /// Counts that an exchange with a peer failed for another reason than a refusal of ours.
    pub fn fail(&self, peer: &Peer, why: String) {
        let mut state = locked(&self.0.state);
        let Some(known) = state.known(peer) else { return };
        known.failed_count = known.failed_count.saturating_add(1);
        if known.said.may_say() {
            warn!("peer {} cannot be asked: {why}", known.peer.name);
        }
        known.failing = Some(why);
    }

    /// Forgets what does not count any more, and says so.
    pub fn end_what_is_old(&self) {
        let now = clock::now();
        let mut state = locked(&self.0.state);
        let mut has_ended = false;
        for known in &mut state.peers {
            let heard = known.heard.take_if(|heard| !heard.holds(now));
            if let Some(heard) = heard {
                known.silent_since = heard.heard_at;
                has_ended = true;
                warn!("peer {} keeps silent: what it said counts no more", known.peer.name);
            }
        }
        drop(state);
        if has_ended {
            self.change();
        }
    }

    fn change(&self) {
        self.0.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

/// Returns the prefixes that a peer speaks for: those that it names, and may.
fn bounded(
    known: &Known,
    may: &[ipnet::IpNet],
    named: Option<&[ipnet::IpNet]>,
) -> Result<Vec<ipnet::IpNet>, Refusal> {
    let bound = known.peer.prefixes.as_deref();
    // It may have been judged just before a reload.
    let may = bound.map_or_else(|| may.to_vec(), |bound| both(may, bound));
    let Some(named) = named else { return Ok(may) };
    // Where the file bounds it, or knows its key alone, the peer need not know of that.
    if bound.is_none() && !named.iter().all(|prefix| covers(&may, prefix)) {
        return Err(Refusal::Prefix);
    }
    let within = both(named, &may);
    if within.is_empty() && !named.is_empty() { Err(Refusal::Prefix) } else { Ok(within) }
}

/// Returns a consent for as much as a peer may speak for; None where that is nothing.
fn bounded_consent(consent: Consent, may: &[ipnet::IpNet]) -> Option<Consent> {
    let prefixes = match &consent.prefixes[..] {
        [] => may.to_vec(),
        named => both(named, may),
    };
    (!prefixes.is_empty()).then_some(Consent { prefixes, ..consent })
}

/// Returns the seconds until a time; negative where it is over.
fn seconds_to(at: Timestamp, wall: SystemTime) -> f64 {
    let now = Timestamp::try_from(wall).unwrap_or(Timestamp::UNIX_EPOCH);
    at.duration_since(now).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use wad_policy::heard::Said;

    use super::*;
    use crate::testing::{named, nets, own_files, pinned};

    fn board(peers: Vec<Peer>) -> Board {
        let board = Board::default();
        board.set_peers(Some(&Peers { peers, ..own_files(std::path::Path::new("/")) }));
        board
    }

    fn judged(prefixes: &[&str]) -> Judged {
        let valid_until = Timestamp::now() + jiff::SignedDuration::from_hours(24);
        Judged { peer: 0, prefixes: nets(prefixes), valid_until }
    }

    fn statement(prefixes: Option<&[&str]>, consent: Option<&[&str]>) -> Statement {
        let consent = consent.map(|prefixes| Consent {
            max_bits_per_second: None,
            prefixes: nets(prefixes),
            ends_in: None,
        });
        let said = Said { mtu_bytes: Some(1_500), consent, ..Said::default() };
        Statement { every: Duration::from_secs(30), prefixes: prefixes.map(nets), said }
    }

    /// Has a board hear it, and returns the prefixes, and those of the consent.
    fn heard(
        peer: Peer,
        may: &[&str],
        statement: Statement,
    ) -> Result<(Vec<ipnet::IpNet>, Option<Vec<ipnet::IpNet>>), Refusal> {
        let board = board(vec![peer.clone()]);
        board.hear((&peer, &judged(may)), statement, None)?;
        let [heard] = &board.heard()[..] else { panic!("one is heard") };
        let consent = heard.said.consent.as_ref().map(|consent| consent.prefixes.clone());
        Ok((heard.prefixes.clone(), consent))
    }

    #[test]
    fn a_peer_speaks_for_what_it_may_and_no_more() {
        let a = || named("a", "a.example");
        let may = ["192.0.2.0/24", "2001:db8::/48"];
        let all = nets(&may);
        assert_eq!(heard(a(), &may, statement(None, None)), Ok((all.clone(), None)));
        assert_eq!(
            heard(a(), &may, statement(Some(&may), Some(&[]))),
            Ok((all.clone(), Some(all)))
        );
        let half = nets(&["192.0.2.0/25"]);
        let said = statement(Some(&["192.0.2.0/25"]), Some(&["192.0.2.0/24"]));
        assert_eq!(heard(a(), &may, said), Ok((half.clone(), Some(half))));
        // A consent for another's network is none.
        let said = statement(Some(&["192.0.2.0/25"]), Some(&["2001:db8::/48"]));
        assert_eq!(heard(a(), &may, said).unwrap().1, None);
        for wrong in [&["192.0.0.0/16"][..], &["192.0.2.0/24", "203.0.113.0/24"], &["0.0.0.0/0"]] {
            let refused = heard(a(), &may, statement(Some(wrong), None));
            assert_eq!(refused, Err(Refusal::Prefix), "{wrong:?}");
        }
        assert_eq!(heard(a(), &may, statement(Some(&[]), Some(&[]))), Ok((vec![], None)));
    }

    #[test]
    fn what_the_file_bounds_is_cut_and_not_refused() {
        let bounded = Peer { prefixes: Some(nets(&["192.0.2.0/25"])), ..named("a", "a.example") };
        let pin = wad_policy::config::KeyPin([7; 32]);
        let pinned = pinned("a", pin, &["192.0.2.0/25"]);
        for peer in [bounded, pinned] {
            let may = ["192.0.2.0/25"];
            let said = statement(Some(&["192.0.2.0/24"]), Some(&["192.0.2.0/24"]));
            let half = nets(&may);
            assert_eq!(heard(peer.clone(), &may, said), Ok((half.clone(), Some(half))));
            let refused = heard(peer, &may, statement(Some(&["203.0.113.0/24"]), None));
            assert_eq!(refused, Err(Refusal::Prefix));
        }
    }

    #[test]
    fn a_word_holds_for_three_periods_and_changes_are_told() {
        let every = Duration::from_secs(10);
        let peer = Peer { every, ..named("a", "a.example") };
        let board = board(vec![peer.clone()]);
        let mut changes = board.changes();
        changes.mark_unchanged();
        let may = judged(&["192.0.2.0/24"]);
        let said =
            |seconds| Statement { every: Duration::from_secs(seconds), ..statement(None, None) };
        for (seconds, expected) in [(1, 30), (10, 30), (60, 180), (86_400, 3 * 3_600)] {
            board.hear((&peer, &may), said(seconds), Some(1e9)).unwrap();
            let heard = &board.heard()[0];
            assert_eq!(heard.ends_at - heard.heard_at, Duration::from_secs(expected));
            assert_eq!(heard.own_nic_bits_per_second, Some(1e9));
            assert!(changes.has_changed().unwrap());
            changes.mark_unchanged();
        }
        board.end_what_is_old();
        assert!(!changes.has_changed().unwrap());
        // As time goes by.
        locked(&board.0.state).peers[0].heard.as_mut().unwrap().ends_at = clock::now();
        assert!(board.heard().is_empty());
        board.end_what_is_old();
        assert!(changes.has_changed().unwrap());
        let told = board.told();
        assert!(told.peers[0].heard.is_none() && told.peers[0].silent_seconds.is_some());
    }

    #[test]
    fn what_a_peer_said_outlives_a_reload_if_it_is_bounded_as_before() {
        let (a, b) = (named("a", "a.example"), named("b", "b.example"));
        let board = board(vec![a.clone(), b.clone()]);
        board.hear((&a, &judged(&["192.0.2.0/24"])), statement(None, None), None).unwrap();
        board.refuse(Some(&a), Refusal::Busy, "192.0.2.1");
        board.refuse(None, Refusal::Stranger, "192.0.2.2");
        let set = |peers| {
            board.set_peers(Some(&Peers { peers, ..own_files(std::path::Path::new("/")) }));
            board.heard().len()
        };
        let slower = Peer { every: Duration::from_secs(60), ..a.clone() };
        assert_eq!(set(vec![b.clone(), slower.clone()]), 1);
        let told = board.told();
        assert_eq!(told.peers[1].refused.get("busy"), Some(&1));
        assert_eq!(told.refused.get("stranger"), Some(&1));
        assert_eq!(set(vec![Peer { prefixes: Some(vec![]), ..slower.clone() }]), 0);
        assert_eq!(set(vec![slower]), 0);
        board.set_peers(None);
        assert!(board.told().peers.is_empty());
        let gone = board.hear((&a, &judged(&[])), statement(None, None), None);
        assert_eq!(gone, Err(Refusal::Stranger));
    }
}
