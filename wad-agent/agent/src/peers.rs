//! The agent talks with those at the other ends of paths (`[peers]`): here is the service that
//! does, as long as the configuration has it, and what this end has to say.

mod offer;
mod paths;

use std::{
    collections::BTreeMap,
    future::ready,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, SystemTime},
};

use anyhow::Result;
use axum::{Json, Router, routing::get};
use wad_observing::metrics::{PeerReading, PeersReading, Readings};
use wad_peers::{Asker, Board, Ready, Refusal, Reserve, Say, Service, told};
use wad_policy::{config::Config, reservation::Reply};
use wad_probing::service::AskPeer;
use wad_toolbox::{document::Document, mutex::locked};
use wad_tuning::bpf::Tuning;

use self::{offer::Offer, paths::OwnPaths};
use crate::{heard::Ends, measured, probes};

/// The service, while there is one.
#[derive(Default)]
pub struct Peers {
    board: Board,
    sight: Arc<Sight>,
    service: Option<Service>,
    /// Asks peers about runs of probes, while there is a service.
    asker: Arc<Mutex<Option<Asker>>>,
}

/// All that is looked at when something is to be said.
#[derive(Default)]
struct Sight {
    /// Tells what is in force and measured; not there until it is.
    now: OnceLock<(Arc<Tuning>, Arc<Mutex<measured::Board>>)>,
    ends: OnceLock<Ends>,
    own: Mutex<Arc<OwnPaths>>,
    /// Peers' questions about runs go there.
    probes: OnceLock<probes::Desk>,
}

/// A change that can be put in force. If it is not, nothing has changed.
pub enum Next {
    Nothing,
    Change(Ready, OwnPaths),
    Start(Box<Service>, Ready, OwnPaths),
}

/// Where questions about peers are answered, whatever the configuration says meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Desk(Board);

impl Peers {
    /// Has it see what is in force and measured. Without, it says nothing of paths.
    pub fn see(&self, tuning: &Arc<Tuning>, board: &Arc<Mutex<measured::Board>>, ends: &Ends) {
        // There is one of each for all the time of an agent.
        let _ = self.sight.now.set((Arc::clone(tuning), Arc::clone(board)));
        let _ = self.sight.ends.set(ends.clone());
    }

    /// Has peers' questions about runs answered. Without, nobody keeps locks for them.
    pub fn answer_by(&self, probes: probes::Desk) {
        // There is one for all the time of an agent.
        let _ = self.sight.probes.set(probes);
    }

    /// Returns what asks peers about own runs, whatever the configuration says meanwhile.
    pub fn ask(&self) -> AskPeer {
        let asker = Arc::clone(&self.asker);
        Arc::new(move |peer, question| {
            let asker = locked(&asker).clone();
            Box::pin(async move {
                let asker = asker.ok_or("[peers] is not in force")?;
                asker.ask(&peer, &question).await
            })
        })
    }

    /// Returns the board of what is heard, which stays the same.
    pub const fn board(&self) -> &Board {
        &self.board
    }

    pub fn desk(&self) -> Desk {
        Desk(self.board.clone())
    }

    /// Has all that it takes to talk so, and talks no other way yet.
    pub fn prepare(&self, config: &Config) -> Result<Next> {
        let Some(settings) = &config.peers else { return Ok(Next::Nothing) };
        let own = OwnPaths::of(config);
        if let Some(service) = &self.service {
            return Ok(Next::Change(service.prepare(settings)?, own));
        }
        let sight = Arc::clone(&self.sight);
        let say: Say = Arc::new(move |towards| {
            let own = Arc::clone(&locked(&sight.own));
            let mut said = Offer { own: &own, now: sight.now.get() }.to(towards);
            if let Some(ends) = sight.ends.get() {
                ends.add_shown(&towards.peer, &mut said.sending, &mut said.receiving);
            }
            said
        });
        let sight = Arc::clone(&self.sight);
        let reserve: Reserve = Arc::new(move |peer, question| match sight.probes.get() {
            Some(desk) => Box::pin(desk.clone().agree(peer, question)),
            None => Box::pin(ready(Reply::NoService)),
        });
        let service = Service::start(say, reserve, self.board.clone())?;
        let ready = service.prepare(settings)?;
        Ok(Next::Start(Box::new(service), ready, own))
    }

    /// Talks so from now on. Must be called within a tokio runtime.
    pub fn put_in_force(&mut self, next: Next) {
        let (service, ready, own) = match next {
            Next::Nothing => {
                *locked(&self.sight.own) = Arc::default();
                *locked(&self.asker) = None;
                if let Some(service) = self.service.take() {
                    tokio::spawn(service.finish());
                }
                return;
            }
            Next::Change(ready, own) => {
                (self.service.as_mut().expect("it was prepared"), ready, own)
            }
            Next::Start(service, ready, own) => {
                *locked(&self.asker) = Some(service.asker());
                (self.service.insert(*service), ready, own)
            }
        };
        *locked(&self.sight.own) = Arc::new(own);
        service.put_in_force(ready);
    }

    /// Ends it, and waits a moment.
    pub async fn finish(self) {
        if let Some(service) = self.service {
            service.finish().await;
        }
    }
}

impl Desk {
    /// Tells how it is with all peers.
    pub fn told(&self) -> told::Peers {
        self.0.told()
    }

    /// Adds to the readings what the metrics tell of them.
    pub fn read(&self, readings: &mut Readings) {
        let told = self.told();
        if told == told::Peers::default() {
            return;
        }
        let now = SystemTime::now();
        let at = |seconds: f64| {
            let apart = Duration::try_from_secs_f64(seconds.abs()).unwrap_or_default();
            if seconds < 0.0 { now.checked_sub(apart) } else { now.checked_add(apart) }
        };
        let peer = |peer: told::Peer| PeerReading {
            name: peer.name,
            age_seconds: peer.heard.map(|heard| heard.age_seconds),
            silent_seconds: peer.silent_seconds,
            heard: peer.heard_count,
            failed: peer.failed_count,
            refused: refused(&peer.refused),
            failing: peer.failing,
            certificate_ends: peer.certificate_ends_in_seconds.and_then(at),
        };
        readings.peers = Some(PeersReading {
            certificate_ends: told.own.and_then(|own| at(own.certificate_ends_in_seconds)),
            files_failing: told.files_failing,
            file_errors: told.file_errors,
            strangers: refused(&told.refused),
            peers: told.peers.into_iter().map(peer).collect(),
        });
    }

    /// Returns what the sockets serve that only show.
    pub fn queries(&self) -> Router {
        let desk = self.clone();
        let told = move || {
            let told = Json(Document::new(desk.told()));
            async move { told }
        };
        Router::new().route(told::PEERS, get(told))
    }
}

/// Returns the counts of all reasons, those of none included.
fn refused(some: &BTreeMap<String, u64>) -> Vec<(&'static str, u64)> {
    let count = |label: &'static str| (label, some.get(label).copied().unwrap_or(0));
    Refusal::ALL.into_iter().map(|refusal| count(refusal.label())).collect()
}
