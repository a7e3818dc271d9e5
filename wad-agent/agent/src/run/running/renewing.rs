//! The policy in force follows what sets hold, what is learned and what is measured, without
//! a reload.

use tracing::error;
use wad_toolbox::{causes::with_causes, shortage};

use super::{Running, put::Next};
use crate::{
    measured::{Change, Now},
    run::{
        change::{self, Wanted},
        learning::Seen,
        meant::Beside,
        memory::give_memory_back,
        plan,
    },
    sets::{News, SetError},
};

impl Running<'_> {
    /// The list of a set has been read. If it is another one, its paths follow it, as they
    /// do at a reload.
    pub(super) fn follow_set(&mut self, news: News) {
        let paths = (self.in_force.of_file(), self.in_force.host());
        let Some(before) = self.sets.hear(news, paths) else { return };
        let Some(config) = self.in_force.config_for(self.sets.name(&before)) else {
            return self.sets.is_in_force(&before);
        };
        let (paths, heard) = (self.learning.paths(config.learn), self.hearing.in_force());
        let beside = Beside { learned: &paths, heard: &heard };
        let before_it = Some(&self.measured);
        let next = Next { config, sets: &mut self.sets, beside, before: before_it };
        match next.put(&mut self.force) {
            Ok(put) => {
                self.go_on_with(put);
                self.sets.is_in_force(&before);
            }
            Err(error) => {
                shortage::note(error.as_ref());
                let reason = with_causes(&error);
                self.sets.put_back(before, &SetError::NotInForce { reason });
            }
        }
        self.tell(|_| {});
        give_memory_back();
    }

    /// Connections have shown that others would have larger buffers, or which learned paths
    /// are used. If that changes what is to be in force, it is put in force as at a reload.
    pub(super) fn learn(&mut self, seen: Seen) {
        if self.force.left_alone.disabled.all {
            return;
        }
        let Seen { found, used } = seen;
        let Self { in_force, sets, learning, .. } = self;
        let found = learning.allowed(found, || {
            let mut paths = in_force.of_file().to_vec();
            sets.fill(&mut paths, in_force.host());
            paths
        });
        let interval = self.in_force.change_interval();
        let Some(news) = self.learning.hear(&found, &used, interval) else { return };
        let (paths, heard) = (news.paths(), self.hearing.in_force());
        let beside = Beside { learned: &paths, heard: &heard };
        let config = self.in_force.config();
        let before = Some(&self.measured);
        let next = Next { config, sets: &mut self.sets, beside, before };
        match next.put(&mut self.force) {
            Ok(put) => {
                self.learning.has_changed(news);
                self.go_on_with(put);
            }
            Err(error) => {
                shortage::note(error.as_ref());
                self.learning.stays_as_it_was(&with_causes(&error));
            }
        }
        self.tell(|_| {});
        give_memory_back();
    }

    /// Peers have said something else, or what they said has ended. What they take back is gone
    /// at once; the rest waits for a change of policy to be over, and for its interval.
    pub(super) fn hear(&mut self) {
        let is_free = self.force.retiring.is_none() && !self.force.is_retiring();
        let interval = is_free.then(|| self.in_force.change_interval());
        let Some(news) = self.hearing.news(interval) else { return };
        let config = self.in_force.config();
        let (paths, heard) = (self.learning.paths(config.learn), news.counted());
        let beside = Beside { learned: &paths, heard: &heard };
        let before = Some(&self.measured);
        let next = Next { config, sets: &mut self.sets, beside, before };
        match next.put(&mut self.force) {
            Ok(put) => {
                self.hearing.has_changed(news);
                self.go_on_with(put);
            }
            Err(error) => {
                shortage::note(error.as_ref());
                self.hearing.stays_as_it_was(&with_causes(&error));
            }
        }
        self.tell(|_| {});
        give_memory_back();
    }

    /// Measured paths follow what is measured, and all what peers say.
    pub(super) fn review(&mut self) {
        self.hear();
        let now = Now::read();
        self.measured.see_flows(self.force.flows(), now);
        self.measured.save_now_and_then(now.awake);
        self.force.keep_pods();
        let plan = match self.measured.review(now) {
            Change::Nothing => return,
            Change::Values => plan::VALUES,
            Change::Traits => plan::CONFIGURATION,
        };
        let Some(policies) = self.measured.policies() else { return };
        let wanted = Wanted { policies: &policies, host: self.in_force.host() };
        if let Err(error) = change::put(&mut self.force, plan, &wanted) {
            shortage::note(error.as_ref());
            error!("measured paths stay as they were: {error:#}");
            self.measured.stays_as_it_was();
        } else if self.in_force.has_peers() {
            self.hearing.ends.are_in_force(policies);
        }
        self.tell(|_| {});
        give_memory_back();
    }
}
