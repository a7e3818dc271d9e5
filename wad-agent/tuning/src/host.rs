//! `[host]` put in force: what is changed of this host beside sockets. What cannot be
//! changed is told, and flows do without.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, atomic::AtomicBool},
};

use tokio::sync::watch;
use tracing::warn;
use wad_common::growth::Holding;
use wad_policy::{
    config::{
        HostChanges, PathPolicy, TransmitQueue,
        route_rules::{Selected, Selection},
    },
    switch::Disabled,
};
use wad_toolbox::{causes::with_causes, mutex::locked};

use crate::{
    journal::{Journal, JournalError},
    namespaces::{self, Followed, Means, Namespaces, Needs, Wants},
    preview::{HostPreview, Move},
    routes::{Follower, RoutesState, Standing},
};

pub const MAX_BACKLOG: &str = "net.core.netdev_max_backlog";

/// Holds what is in force on the host.
#[derive(Debug, Default)]
pub struct Host {
    selection: Selection,
    follower: Option<Follower>,
    pub standing: Standing,
    has_routes: bool,
    queues: Vec<TransmitQueue>,
    /// The rules that all who follow routes are to make, here and in other network
    /// namespaces.
    rules: watch::Sender<Vec<Selected>>,
    wants: Arc<Wants>,
    /// The settings where the paths' flows are, beside the agent's own network namespace.
    /// They are the pass's while one is on its way.
    namespaces: Arc<Mutex<Namespaces>>,
    pub in_namespaces: namespaces::Standing,
}

impl Host {
    /// Changes nothing yet, and knows what an agent before this one has changed.
    pub fn new(journal: &Journal) -> Result<Self, JournalError> {
        let in_namespaces = namespaces::Standing::default();
        let namespaces = Namespaces::new(&journal.others()?, in_namespaces.clone());
        let namespaces = Arc::new(Mutex::new(namespaces));
        Ok(Self { namespaces, in_namespaces, ..Self::default() })
    }

    pub fn put_in_force(
        &mut self,
        changes: &HostChanges,
        selection: Selection,
        disabled: &Disabled,
        journal: &mut Journal,
    ) {
        self.selection = selection;
        self.has_routes = changes.routes;
        self.queues.clone_from(&changes.transmit_queues);
        let queues = changes.transmit_queues.iter();
        let results = [
            journal.restore_transmit_queues_but(&changes.transmit_queues),
            backlog(changes.netdev_max_backlog, journal),
        ];
        let results = results
            .into_iter()
            .chain(queues.map(|queue| journal.set_transmit_queue(queue)).collect::<Vec<_>>());
        for error in results.filter_map(Result::err) {
            warn!("[host]: {}", with_causes(&error.into()));
        }
        self.follow(disabled);
        if changes.routes {
            self.make_routes(journal);
        } else {
            self.leave_routes(journal);
        }
    }

    /// Returns what [`Self::put_in_force`] would change here, but for modules, congestion controls
    /// and ceilings.
    pub fn preview(
        &self,
        changes: &HostChanges,
        selection: &Selection,
        disabled: &Disabled,
        journal: &Journal,
    ) -> Result<HostPreview, JournalError> {
        let rules = |has_routes, selection: &Selection| {
            let rules = if has_routes { selection.rules(disabled).len() } else { 0 };
            rules.to_string()
        };
        let now = rules(self.has_routes, &self.selection);
        Ok(HostPreview {
            modules: Vec::new(),
            congestion_controls: Vec::new(),
            sysctls: backlog_move(changes.netdev_max_backlog, journal)?.into_iter().collect(),
            transmit_queues: journal.queue_moves(&changes.transmit_queues)?,
            rules: Move::of("rules", now, rules(changes.routes, selection)),
        })
    }

    /// The paths that are disabled have changed.
    pub fn follow(&mut self, disabled: &Disabled) {
        let rules = if self.has_routes { self.selection.rules(disabled) } else { Vec::new() };
        self.rules.send_replace(rules);
    }

    /// Has the network namespaces of the paths' flows get what these need. `names` are
    /// the paths' by the indices of their policies.
    pub fn want_in_namespaces(&mut self, paths: &[PathPolicy], names: &HashMap<u32, Arc<str>>) {
        let needy = paths
            .iter()
            .filter_map(|path| Some((path.name.as_str(), Needs::of(path, self.has_routes)?)));
        let needy: HashMap<&str, Needs> = needy.collect();
        let needs =
            names.iter().filter_map(|(index, name)| Some((*index, needy.get(&**name)?.clone())));
        self.wants = Arc::new(Wants { needs: needs.collect(), queues: self.queues.clone() });
    }

    /// Returns a pass that follows flows into their network namespaces, to be made while no
    /// other is on its way; None where it would do nothing.
    pub fn pass(
        &self,
        flows: Vec<Holding>,
        journal: &Arc<Mutex<Journal>>,
        stop: &Arc<AtomicBool>,
    ) -> Option<impl FnOnce() -> Followed + Send + use<>> {
        if locked(&self.namespaces).is_idle(&self.wants) {
            return None;
        }
        let namespaces = Arc::clone(&self.namespaces);
        let (wants, rules) = (Arc::clone(&self.wants), self.rules.subscribe());
        let means = Means { wants, rules, journal: Arc::clone(journal), stop: Arc::clone(stop) };
        Some(move || locked(&namespaces).follow(&flows, &means))
    }

    fn make_routes(&mut self, journal: &mut Journal) {
        if self.follower.is_some() {
            return;
        }
        let started = journal.note_routes().map_err(anyhow::Error::from).and_then(|()| {
            Ok(Follower::start(self.rules.subscribe(), self.standing.clone(), None)?)
        });
        match started {
            Ok(follower) => self.follower = Some(follower),
            Err(error) => {
                let reason = with_causes(&error);
                warn!("[host] routes: nothing is in force: {reason}");
                self.standing.set(RoutesState::Failed(reason));
            }
        }
    }

    fn leave_routes(&mut self, journal: &mut Journal) {
        self.follower = None;
        self.standing.set(RoutesState::Off);
        if let Err(error) = journal.leave_routes() {
            warn!("[host]: {}", with_causes(&error.into()));
        }
    }
}

fn backlog(wanted: Option<u32>, journal: &mut Journal) -> Result<(), JournalError> {
    match wanted.map(|packets| packets.to_string()) {
        // Not every network namespace has the setting.
        None if !journal.has(MAX_BACKLOG) => Ok(()),
        None => journal.restore(MAX_BACKLOG),
        Some(packets) if journal.sysctl().read(MAX_BACKLOG)? == packets => Ok(()),
        Some(packets) => journal.set(MAX_BACKLOG, &packets),
    }
}

fn backlog_move(wanted: Option<u32>, journal: &Journal) -> Result<Option<Move>, JournalError> {
    if wanted.is_none() && !journal.has(MAX_BACKLOG) {
        return Ok(None);
    }
    let now = journal.sysctl().read(MAX_BACKLOG)?;
    let before = journal.before(MAX_BACKLOG, &now).unwrap_or(&now).to_owned();
    let after = wanted.map_or(before, |packets| packets.to_string());
    Ok(Move::of(MAX_BACKLOG, now, after))
}

#[cfg(test)]
mod tests {
    use wad_linux::sysctl::testing;

    use super::*;

    #[test]
    fn the_backlog_follows_the_configuration_and_goes_back() {
        let (_root, sysctl) = testing::tree(&[(MAX_BACKLOG, "1000")]);
        let state = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(state.path(), "default", sysctl.clone()).unwrap();
        for (wanted, now) in
            [(None, "1000"), (Some(5000), "5000"), (Some(300), "300"), (None, "1000")]
        {
            let before = sysctl.read(MAX_BACKLOG).unwrap();
            let told = backlog_move(wanted, &journal).unwrap();
            backlog(wanted, &mut journal).unwrap();
            assert_eq!(sysctl.read(MAX_BACKLOG).unwrap(), now);
            assert_eq!(told, Move::of(MAX_BACKLOG, before, now));
        }
        assert_eq!(journal.changes().count(), 0);
        backlog(Some(1000), &mut journal).unwrap();
        assert_eq!(journal.changes().count(), 0, "it was so already");
    }
}
