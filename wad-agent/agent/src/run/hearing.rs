//! Peers say something while the agent runs, and some of it is in force.

use std::time::Duration;

use tokio::{sync::watch, time};
use tracing::{error, info};
use wad_peers::Board;
use wad_policy::heard::{self, Counted, counted};
use wad_toolbox::{
    clock::{self, Moment},
    seldom::Seldom,
};

use crate::heard::Ends;

/// The runtime's clock stands while the host is suspended: so often it is looked at ours.
const LOOK: Duration = Duration::from_secs(1);

/// It knows what peers say, and what follows from it.
pub struct Hearing {
    /// The last words of the peers.
    board: Board,
    changes: watch::Receiver<u64>,
    in_force: heard::Hearing,
    /// Shared with those who answer questions.
    pub ends: Ends,
    /// That it could not be put in force.
    failed: Seldom,
}

impl Hearing {
    pub fn new(board: Board) -> Self {
        let (changes, ends) = (board.changes(), Ends::new(board.clone()));
        let in_force = heard::Hearing::default();
        Self { board, changes, in_force, ends, failed: Seldom::new() }
    }

    /// Returns what is in force of what peers say.
    pub fn in_force(&self) -> Vec<Counted> {
        self.in_force.in_force()
    }

    /// Returns when a peer says something else, or something that it said ends.
    pub async fn next(&mut self) {
        let now = clock::now();
        let next_end = self.board.heard().iter().filter_map(|heard| heard.next_end(now)).min();
        tokio::select! {
            () = changed(&mut self.changes) => {}
            () = end(next_end) => {}
        }
    }

    /// Returns what is to be in force now, if that is something else: it is to be told by
    /// [`Hearing::has_changed`] that it is. None in place of the interval between changes is
    /// for a time at which only what is taken back counts.
    pub fn news(&self, interval: Option<Duration>) -> Option<News> {
        let now = clock::now();
        let counted = counted(&self.board.heard(), now);
        let mut next = self.in_force.clone();
        next.offer(counted, now, interval).then_some(News(next))
    }

    /// Says that what was heard is in force now.
    pub fn has_changed(&mut self, news: News) {
        let before = self.in_force();
        let News(next) = news;
        self.in_force = next;
        self.failed.forget();
        let now = self.in_force();
        for counted in now.iter().filter(|it| !before.contains(it)) {
            info!(peer = counted.peer, "paths follow what the peer says: {}", words(counted));
        }
        let is_gone = |it: &&Counted| !now.iter().any(|other| other.peer == it.peer);
        for gone in before.iter().filter(is_gone) {
            info!(
                peer = gone.peer,
                "nothing that the peer said counts any more: the file alone does"
            );
        }
    }

    /// Says that what was heard could not be put in force: it is tried again.
    pub fn stays_as_it_was(&mut self, reason: &str) {
        if self.failed.may_say() {
            error!("what peers say is not followed, which is tried again: {reason}");
        }
    }
}

/// This is in force once it has been put there.
pub struct News(heard::Hearing);

impl News {
    pub fn counted(&self) -> Vec<Counted> {
        let Self(next) = self;
        next.in_force()
    }
}

/// Never, where there is nobody to say anything.
async fn changed(changes: &mut watch::Receiver<u64>) {
    if changes.changed().await.is_err() {
        std::future::pending().await
    }
}

async fn end(at: Option<Moment>) {
    let Some(at) = at else { return std::future::pending().await };
    loop {
        match at.saturating_sub(clock::now()) {
            Duration::ZERO => return,
            left => time::sleep(left.min(LOOK)).await,
        }
    }
}

/// Says in words what counts of what a peer says.
fn words(counted: &Counted) -> String {
    let mbit = |rate: f64| format!("{:.1} Mbit/s", rate / 1e6);
    let words = [
        counted.rcvbuf_bytes.map(|bytes| format!("its path needs a rcvbuf of {bytes} bytes here")),
        counted.granted_bytes.map(|bytes| format!("it grants a rcvbuf of {bytes} bytes")),
        counted.nic_bits_per_second.map(|rate| format!("the slower interface has {}", mbit(rate))),
        counted.consent.as_ref().map(|consent| match consent.max_bits_per_second {
            Some(rate) => format!("it consents to more than a fair share, up to {}", mbit(rate)),
            None => "it consents to more than a fair share".to_owned(),
        }),
    ];
    let words: Vec<_> = words.into_iter().flatten().collect();
    if words.is_empty() { "nothing follows from it".to_owned() } else { words.join(", ") }
}
