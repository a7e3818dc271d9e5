//! All that those who ask and those who answer have in common: the settings in force, the
//! board, and what this end says.

use std::{
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use ipnet::IpNet;
use jiff::Timestamp;
use tokio::task::spawn_blocking;
use wad_policy::{
    config::{Peer, Peers},
    heard::{Consent, Said},
    reservation::{Question, Reply},
};
use wad_toolbox::mutex::locked;

use crate::{board::Board, credentials::Credentials, identity::Judged, message::Statement};

/// Says what this end has to say to a peer. It may block for a moment.
pub type Say = Arc<dyn Fn(&Towards) -> Said + Send + Sync>;

/// Answers a peer, by its name in the file, that asks about a run of a probe.
pub type Reserve = Arc<dyn Fn(String, Question) -> Replying + Send + Sync>;
pub type Replying = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// Whom something is said to.
#[derive(Clone, Debug)]
pub struct Towards {
    /// Its name in the file.
    pub peer: String,
    /// The address that the connection with it has.
    pub remote: IpAddr,
    /// It may speak for these.
    pub prefixes: Vec<IpNet>,
    /// The largest receive buffer that it may get its flows; None for that of `[limits]`.
    pub grant_buffer_bytes: Option<u64>,
}

/// The settings, and what was made of their files.
#[derive(Debug)]
pub struct InForce {
    pub settings: Peers,
    /// None where the files could not be used yet.
    pub credentials: Option<Arc<Credentials>>,
}

pub struct Common {
    in_force: Mutex<Option<Arc<InForce>>>,
    pub board: Board,
    say: Say,
    reserve: Reserve,
}

impl Common {
    pub fn new(say: Say, reserve: Reserve, board: Board) -> Self {
        Self { in_force: Mutex::default(), board, say, reserve }
    }

    /// Answers a peer about a run.
    pub fn reserve(&self, peer: &Peer, question: Question) -> Replying {
        (self.reserve)(peer.name.clone(), question)
    }

    pub fn in_force(&self) -> Option<Arc<InForce>> {
        locked(&self.in_force).clone()
    }

    pub fn set(&self, in_force: Option<Arc<InForce>>) {
        *locked(&self.in_force) = in_force;
    }

    /// Makes what is said to a peer now.
    pub async fn statement(
        &self,
        peer: &Peer,
        credentials: &Credentials,
        (judged, remote): (&Judged, IpAddr),
    ) -> Statement {
        let towards = Towards {
            peer: peer.name.clone(),
            remote: remote.to_canonical(),
            prefixes: judged.prefixes.clone(),
            grant_buffer_bytes: peer.grant_buffer_bytes.map(u64::from),
        };
        let say = Arc::clone(&self.say);
        let said = spawn_blocking(move || say(&towards)).await;
        let own = &credentials.own;
        Statement {
            every: peer.every,
            prefixes: own.prefixes.clone(),
            said: Said {
                node: own.name.clone(),
                consent: consent(peer, SystemTime::now()),
                // It is not ended by anybody, but at the end of all.
                ..said.unwrap_or_default()
            },
        }
    }
}

/// Returns what a peer is allowed now.
fn consent(peer: &Peer, now: SystemTime) -> Option<Consent> {
    let given = peer.consent.as_ref()?;
    let ends_in = match given.until {
        None => None,
        Some(until) => {
            let now = Timestamp::try_from(now).ok()?;
            let left = until.duration_since(now);
            // It is over.
            Some(left.try_into().ok().filter(|left: &std::time::Duration| !left.is_zero())?)
        }
    };
    Some(Consent {
        max_bits_per_second: given.max_bits_per_second.map(|rate| rate as f64),
        prefixes: given.prefixes.clone().unwrap_or_default(),
        ends_in,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use wad_policy::config::PeerConsent;

    use super::*;
    use crate::testing::{named, nets};

    #[test]
    fn a_consent_is_given_until_its_end() {
        let now = SystemTime::now();
        let consent_until = |until: Option<Timestamp>| {
            let prefixes = Some(nets(&["192.0.2.0/24"]));
            let given = PeerConsent { max_bits_per_second: Some(5_000_000_000), until, prefixes };
            let peer = Peer { consent: Some(given), ..named("a", "a.example") };
            consent(&peer, now)
        };
        assert_eq!(consent_until(None).unwrap().ends_in, None);
        let at = |seconds: i64| {
            Timestamp::try_from(now).unwrap() + jiff::SignedDuration::from_secs(seconds)
        };
        let given = consent_until(Some(at(90))).unwrap();
        assert_eq!(given.ends_in, Some(Duration::from_secs(90)));
        assert_eq!(given.max_bits_per_second, Some(5e9));
        assert_eq!(consent_until(Some(at(0))), None);
        assert_eq!(consent_until(Some(at(-1))), None);
        assert_eq!(consent(&named("a", "a.example"), now), None);
    }
}
