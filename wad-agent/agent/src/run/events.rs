//! The agent waits for signals, commands, its file, and the times at which it looks
//! at its flows and measurements.

use std::{io, path::Path, sync::Arc};

use anyhow::Result;
use tokio::{
    signal::unix::{Signal, SignalKind},
    sync::mpsc,
    time::{self, Interval},
};
use tracing::warn;
use wad_policy::config::Texts;
use wad_toolbox::signals::{Stop, handle};
use wad_tuning::{attachment::Lost, namespaces::Followed};

use super::{
    adopting, divisions,
    force::{Force, Grown},
    guarding::{Guarding, Read},
    hearing::Hearing,
    learning::{Learning, Seen},
    links, recounts,
};
use crate::{
    api::Command,
    measured,
    reload::Watch,
    service_manager::Watchdog,
    sets::{self, Sets},
};

/// An event is one thing to act on.
pub enum Event {
    Stop,
    /// SIGHUP.
    HangUp,
    Command(Command),
    /// The file of the configuration may have another text.
    File,
    /// The policy set before the one in force is to go.
    Retire,
    /// Measured paths are to be looked at.
    Review,
    /// Paths that divide their buffers are to be looked at.
    Divide,
    /// A pass over the flows that run has ended.
    Adopted(adopting::Ended),
    /// Flows have been followed into their network namespaces.
    Followed(Followed),
    /// Flows have been visited whose buffers grow.
    Grown(Grown),
    /// It is time to look at what flows hold of memory, and whether their buffers grow.
    Grow,
    /// Counts are to be held against the flows that there are.
    Recount,
    /// Cgroups have come or gone.
    Cgroups,
    /// There are other pods on this node, or they have other labels.
    Pods,
    /// It has been read how flows get on.
    Guards(Read),
    /// Connections have shown what is to be learned of them.
    Learn(Seen),
    /// Peers have said something, or what they said has ended.
    Heard,
    /// Experiments are to be looked at.
    Experiments,
    /// A list of prefixes has been read.
    Set(sets::News),
    /// It has been looked what is not in the kernel any more where it belongs.
    Looked(io::Result<Vec<Lost>>),
    /// The events of flows cannot be read any more.
    FlowsEnded(Result<()>),
}

/// Says how the agent came to its end.
pub enum End {
    Stopped,
    /// Another agent has asked for its place, in which these texts were in force.
    HandedOver(Texts),
}

/// Says where events come from.
pub struct Events<'s> {
    stop: &'s mut Stop,
    hang_up: Signal,
    /// The watched file; None where it is not watched.
    file: Option<Watch>,
    commands: mpsc::Receiver<Command>,
    reviews: Interval,
    looks: Interval,
    recounts: Interval,
    links: links::Looks,
    watchdog: Watchdog,
}

impl<'s> Events<'s> {
    pub fn new(file: &Path, commands: mpsc::Receiver<Command>, stop: &'s mut Stop) -> Result<Self> {
        Ok(Self {
            stop,
            hang_up: handle(SignalKind::hangup())?,
            file: Watch::new(file).inspect_err(|error| warn!("{UNWATCHED}: {error}")).ok(),
            commands,
            reviews: measured::reviews(),
            looks: divisions::looks(),
            recounts: recounts::looks(),
            links: links::Looks::new(),
            watchdog: Watchdog::of_service_manager(),
        })
    }

    pub async fn next(
        &mut self,
        force: &mut Force<'_>,
        (sets, learning, hearing): (&mut Sets, &mut Learning, &mut Hearing),
        guarding: &mut Guarding,
        next_block: time::Instant,
    ) -> Event {
        let retiring = force.retiring;
        let may_review = retiring.is_none() && !force.is_retiring();
        let next_look = force.buffers.next_look;
        let tuning = Arc::clone(force.tuning());
        let journal = Arc::clone(&force.journal);
        let Force { flows, recounts, adopting, following, growing, cgroups, pods, .. } = force;
        let flows = flows.as_mut().expect("the start follows them");
        loop {
            return tokio::select! {
                () = self.stop.asked() => Event::Stop,
                ended = flows.run() => Event::FlowsEnded(ended),
                _ = self.hang_up.recv() => Event::HangUp,
                Some(command) = self.commands.recv() => Event::Command(command),
                () = at(retiring) => Event::Retire,
                // A connection that is being made sees one change at most.
                _ = self.reviews.tick(), if may_review => Event::Review,
                news = sets.next(), if may_review => Event::Set(news),
                seen = learning.next(&tuning, &journal), if may_review => Event::Learn(seen),
                read = guarding.next(&tuning), if may_review => Event::Guards(read),
                // What they take back waits for nothing.
                () = hearing.next() => Event::Heard,
                () = time::sleep_until(next_block) => Event::Experiments,
                _ = self.looks.tick() => Event::Divide,
                () = time::sleep_until(next_look) => Event::Grow,
                ended = adopting.ended() => Event::Adopted(ended),
                followed = following.done() => Event::Followed(followed),
                ended = growing.done() => Event::Grown(ended),
                () = cgroups.changed() => Event::Cgroups,
                () = pods.changed() => Event::Pods,
                _ = self.recounts.tick() => Event::Recount,
                () = recounts.done() => continue,
                () = self.watchdog.due() => {
                    Watchdog::feed();
                    continue;
                }
                looked = self.links.next(&tuning) => Event::Looked(looked),
                changed = changed(&mut self.file) => match changed {
                    Ok(()) => Event::File,
                    Err(error) => {
                        warn!("{UNWATCHED}: {error}");
                        self.file = None;
                        continue;
                    }
                }
            };
        }
    }
}

const UNWATCHED: &str = "changes of the configuration's file go unseen, use `wad reload`; it \
                         cannot be watched";

/// Never, if it has no time.
async fn at(when: Option<time::Instant>) {
    match when {
        Some(when) => time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// Waits until the file changes: where it is not watched, it never does.
async fn changed(file: &mut Option<Watch>) -> io::Result<()> {
    match file {
        Some(file) => file.changed().await,
        None => std::future::pending().await,
    }
}
