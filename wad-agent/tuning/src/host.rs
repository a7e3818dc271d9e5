//! `[host]` put in force: what is changed of this host beside sockets. What cannot be
//! changed is told, and flows do without.

use tracing::warn;
use wad_policy::{
    config::{HostChanges, route_rules::Selection},
    switch::Disabled,
};
use wad_toolbox::causes::with_causes;

use crate::{
    journal::Journal,
    routes::{Follower, Standing, State},
};

pub const MAX_BACKLOG: &str = "net.core.netdev_max_backlog";

/// As it is in force.
#[derive(Debug, Default)]
pub struct Host {
    selection: Selection,
    follower: Option<Follower>,
    pub standing: Standing,
}

impl Host {
    pub fn put_in_force(
        &mut self,
        changes: &HostChanges,
        selection: Selection,
        disabled: &Disabled,
        journal: &mut Journal,
    ) {
        self.selection = selection;
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
        if changes.routes {
            self.switch(disabled, journal);
        } else {
            self.leave_routes(journal);
        }
    }

    /// The paths that are disabled have changed.
    pub fn follow(&mut self, disabled: &Disabled) {
        if let Some(follower) = &self.follower {
            follower.want(self.selection.rules(disabled));
        }
    }

    fn switch(&mut self, disabled: &Disabled, journal: &mut Journal) {
        if self.follower.is_some() {
            return self.follow(disabled);
        }
        let started = journal.note_routes().map_err(anyhow::Error::from).and_then(|()| {
            Ok(Follower::start(self.selection.rules(disabled), self.standing.clone())?)
        });
        match started {
            Ok(follower) => self.follower = Some(follower),
            Err(error) => {
                let reason = with_causes(&error);
                warn!("[host] routes: nothing is in force: {reason}");
                self.standing.set(State::Failed(reason));
            }
        }
    }

    fn leave_routes(&mut self, journal: &mut Journal) {
        self.follower = None;
        self.standing.set(State::Off);
        if let Err(error) = journal.undo_routes() {
            warn!("[host]: {}", with_causes(&error.into()));
        }
    }
}

fn backlog(wanted: Option<u32>, journal: &mut Journal) -> Result<(), crate::journal::Error> {
    match wanted.map(|packets| packets.to_string()) {
        // Not every network namespace has the setting.
        None if !journal.has(MAX_BACKLOG) => Ok(()),
        None => journal.restore(MAX_BACKLOG),
        Some(packets) if journal.sysctl().read(MAX_BACKLOG)? == packets => Ok(()),
        Some(packets) => journal.set(MAX_BACKLOG, &packets),
    }
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
            backlog(wanted, &mut journal).unwrap();
            assert_eq!(sysctl.read(MAX_BACKLOG).unwrap(), now);
        }
        assert_eq!(journal.changes().count(), 0);
        backlog(Some(1000), &mut journal).unwrap();
        assert_eq!(journal.changes().count(), 0, "it was so already");
    }
}
