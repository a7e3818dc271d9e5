//! A run that wants a peer for itself is agreed upon with it, so that both ends keep the same
//! time free: the asker takes its own locks, offers the run, and commits to it once the peer
//! has accepted. The peer holds locks from then on, at first only for a moment.
//!
//! Nobody holds a lock for longer than it was said to be, whatever is lost and whoever dies.
//! Each end counts by its own clock, the asker from when it asked, and the peer from when it
//! was asked, which is later: so the peer's locks outlast the run.

use std::{sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wad_policy::{
    config::Resource,
    reservation::{ANSWERS_WITHIN, Question, Reply, Wish},
};
use wad_toolbox::clock::Moment;

use super::{Cause, Lock, Run, RunId, Schedule, Step, There, chance::Chance, queue::Waiting};

/// An offer that was accepted holds locks for so long. One that is committed to later is
/// refused, and made again.
const OFFER: Duration = ANSWERS_WITHIN;
/// Clocks of two hosts differ by less in the longest run.
const MARGIN: Duration = Duration::from_secs(1);
/// After a refusal, or where nobody answers, it is tried again after so long, and by chance
/// up to twice that; each time it is twice as long, up to a bound.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Runs of one peer that have locks here at a time: those that share them may be several.
const MOST_OF_PEER: usize = 16;

/// Says why a peer's run is not agreed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unagreed {
    /// Another run has that one of its locks, or is to have it before.
    Held {
        /// Its place among the locks.
        lock: usize,
        /// The task of this schedule; None where it is a peer's run.
        task: Option<Arc<str>>,
    },
    /// Its offer has ended, or there was none.
    Unknown,
}

/// Counts runs that both ends agree to, by what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reservations {
    /// Runs that peers agreed to.
    pub granted: u64,
    /// Times that a peer refused.
    pub refused: u64,
    /// Times that a peer did not answer.
    pub unanswered: u64,
    /// Runs of peers that were agreed to.
    pub given: u64,
    /// Times that a peer's run was refused.
    pub declined: u64,
    /// Runs of peers whose locks were taken back, as nobody said that they are over.
    pub expired: u64,
    /// Runs of peers that have locks now.
    pub held: usize,
}

/// A run that is being agreed upon, and has its locks.
#[derive(Debug)]
pub struct Agreeing {
    pub waiting: Waiting,
    pub run: Run,
    there: There,
    number: u64,
    phase: Phase,
    /// The answer counts until then. One that is agreed upon starts before, or not at all.
    until: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Offered,
    Committed,
    Agreed,
}

/// The peer and the number by which it knows a run.
#[derive(Clone, Debug)]
pub struct Agreed {
    peer: Arc<str>,
    number: u64,
}

/// The locks that a peer's run has here.
#[derive(Debug)]
pub struct Reserved {
    peer: Arc<str>,
    number: u64,
    run: Run,
    locks: Arc<[Lock]>,
    /// How long it takes from when it is committed to; None once it is.
    lasts: Option<Duration>,
}

impl Reserved {
    pub const fn until(&self) -> Moment {
        self.run.until
    }
}

impl Agreeing {
    pub fn new(waiting: Waiting, run: Run, (there, chance): (There, Chance), now: Moment) -> Self {
        let number = chance.of(run.id.0).number();
        let until = now.saturating_add(ANSWERS_WITHIN);
        Self { waiting, run, there, number, phase: Phase::Offered, until }
    }

    /// Returns when the locks are given back at the latest, if it began now.
    pub fn latest_end(waiting: &Waiting, now: Moment) -> Moment {
        now.saturating_add(2 * ANSWERS_WITHIN).saturating_add(waiting.timeout)
    }

    pub const fn until(&self) -> Moment {
        self.until
    }

    pub fn is_agreed(&self) -> bool {
        self.phase == Phase::Agreed
    }

    /// Tells whether it is too late for what comes next.
    fn is_late(&self, now: Moment) -> bool {
        self.until <= now || self.is_agreed() && self.waiting.last_start < now
    }

    pub fn agreed(self) -> (Waiting, Run, Agreed) {
        let Self { waiting, run, there, number, .. } = self;
        (waiting, run, Agreed { peer: there.peer, number })
    }

    /// Offers the run for as long as it may take to answer the commitment, and then to run.
    pub fn offer(&self) -> Step {
        let lasts = self.waiting.timeout.saturating_add(ANSWERS_WITHIN);
        self.ask(Wish::Offer { lasts, locks: self.there.locks })
    }

    fn ask(&self, wish: Wish) -> Step {
        let (run, peer) = (self.run.id, Arc::clone(&self.there.peer));
        Step::Ask { run, peer, question: Question { run: self.number, wish } }
    }
}

impl Agreed {
    /// Returns what the peer is told at the end.
    pub fn release(&self, run: &Run) -> Step {
        let question = Question { run: self.number, wish: Wish::Release };
        Step::Ask { run: run.id, peer: Arc::clone(&self.peer), question }
    }
}

impl Schedule {
    /// Takes the answer to the last question about a run, or why there is none. One that comes
    /// too late counts for nothing.
    pub fn answered(&mut self, run: RunId, reply: Result<Reply, String>, now: Moment) {
        let Some(mut agreeing) = self.agreeing.remove(&run) else { return };
        let is_in_time = now <= agreeing.waiting.last_start && now < agreeing.until;
        match (reply, agreeing.phase) {
            (Ok(Reply::Granted), Phase::Offered) if is_in_time => {
                agreeing.phase = Phase::Committed;
                agreeing.until = now.saturating_add(ANSWERS_WITHIN);
                self.to_ask.push_back(agreeing.ask(Wish::Commit));
                self.agreeing.insert(run, agreeing);
            }
            (Ok(Reply::Granted), Phase::Committed) if is_in_time => {
                agreeing.phase = Phase::Agreed;
                self.reservations.granted += 1;
                self.agreeing.insert(run, agreeing);
            }
            (Ok(Reply::Granted), _) => self.give_up(agreeing, now),
            (Ok(refused), _) => {
                self.reservations.refused += 1;
                let why = why(&agreeing.there.peer, &refused);
                self.disagree(agreeing, why, now);
            }
            (Err(cause), _) => {
                self.reservations.unanswered += 1;
                let why = format!("{} did not answer: {cause}", agreeing.there.peer);
                // It may have been heard all the same.
                self.to_ask.push_back(agreeing.ask(Wish::Release));
                self.disagree(agreeing, why, now);
            }
        }
    }

    /// Gives up for now those that are not answered.
    pub(super) fn give_up_late(&mut self, now: Moment) {
        while let Some(id) = self.agreeing.values().find(|it| it.is_late(now)).map(|it| it.run.id) {
            if let Some(late) = self.agreeing.remove(&id) {
                self.give_up(late, now);
            }
        }
    }

    fn give_up(&mut self, late: Agreeing, now: Moment) {
        self.reservations.unanswered += 1;
        let why = format!("{} did not answer in time", late.there.peer);
        self.to_ask.push_back(late.ask(Wish::Release));
        self.disagree(late, why, now);
    }

    /// Gives the locks back, and puts the run off.
    fn disagree(&mut self, agreeing: Agreeing, why: String, now: Moment) {
        let Agreeing { mut waiting, run, number, .. } = agreeing;
        self.held.give_back(run.id, &waiting.locks);
        let doubled = 2_u32.saturating_pow(waiting.disagreed_times());
        let pause = PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE);
        let pause = pause + self.seed.of(number).part_of(pause);
        waiting.put_off(now.saturating_add(pause), why);
        self.queue.put_back(waiting);
    }

    /// Takes out what is being agreed upon of a task, and returns why it was wanted.
    pub(super) fn leave_agreeing(&mut self, name: &str) -> Option<Cause> {
        let mut all = self.agreeing.values();
        let id = all.find(|it| &*it.run.task == name)?.run.id;
        let agreeing = self.agreeing.remove(&id)?;
        self.held.give_back(id, &agreeing.waiting.locks);
        self.to_ask.push_back(agreeing.ask(Wish::Release));
        Some(agreeing.run.cause)
    }

    /// Answers a peer, whose run is to have these locks here. It is taken as one that waits
    /// behind all others, and does not wait.
    ///
    /// # Errors
    /// Where it is not agreed to.
    pub fn asked(
        &mut self,
        peer: &str,
        Question { run: number, wish }: Question,
        locks: &[Lock],
        now: Moment,
    ) -> Result<(), Unagreed> {
        self.expire(now);
        let is_it = |it: &Reserved| *it.peer == *peer && it.number == number;
        let place = self.reserved.iter().position(is_it);
        match (wish, place) {
            (Wish::Offer { lasts, .. }, None) => {
                let reserved = self.reserve(peer, (number, lasts), locks, now);
                match &reserved {
                    Ok(()) => self.reservations.given += 1,
                    Err(_) => self.reservations.declined += 1,
                }
                return reserved;
            }
            // The answer to the first was lost.
            (Wish::Offer { .. }, Some(_)) => {}
            (Wish::Commit, Some(place)) => {
                let Reserved { run, locks, lasts, .. } = &mut self.reserved[place];
                // It is committed to once: a second word does not make it longer.
                if let Some(lasts) = lasts.take() {
                    self.held.give_back(run.id, locks);
                    run.until = now.saturating_add(lasts).saturating_add(MARGIN);
                    self.held.take(run, locks);
                }
            }
            (Wish::Commit, None) => return Err(Unagreed::Unknown),
            (Wish::Release, Some(place)) => {
                let Reserved { run, locks, .. } = self.reserved.remove(place);
                self.held.give_back(run.id, &locks);
            }
            (Wish::Release, None) => {}
        }
        Ok(())
    }

    fn reserve(
        &mut self,
        peer: &str,
        (number, lasts): (u64, Duration),
        locks: &[Lock],
        now: Moment,
    ) -> Result<(), Unagreed> {
        if self.reserved.iter().filter(|it| *it.peer == *peer).count() >= MOST_OF_PEER {
            return Err(Unagreed::Held { lock: 0, task: None });
        }
        // No task has a name with a space.
        let task: Arc<str> = format!("peer {peer}").into();
        let locks: Arc<[Lock]> = locks.into();
        let timeout = OFFER.saturating_add(lasts);
        let waiting = Waiting::of_peer(&task, &locks, timeout, now);
        if let Some((lock, task)) = self.queue.in_the_way(waiting, now, &self.held) {
            let is_peers = self.reserved.iter().any(|reserved| reserved.run.task == task);
            return Err(Unagreed::Held { lock, task: (!is_peers).then_some(task) });
        }
        let id = RunId(self.next_number());
        let run = Run { id, task, cause: Cause::Asked(now), until: now.saturating_add(OFFER) };
        self.held.take(&run, &locks);
        let lasts = Some(lasts);
        self.reserved.push(Reserved { peer: peer.into(), number, run, locks, lasts });
        Ok(())
    }

    /// Gives back what peers have had for as long as they said.
    pub(super) fn expire(&mut self, now: Moment) {
        for Reserved { run, locks, .. } in
            self.reserved.extract_if(.., |reserved| reserved.until() <= now)
        {
            self.held.give_back(run.id, &locks);
            self.reservations.expired += 1;
        }
    }

    /// Counts what came of questions until now.
    pub fn reservations(&self) -> Reservations {
        Reservations { held: self.reserved.len(), ..self.reservations }
    }
}

/// Says why a run could not be, as a row does.
fn why(peer: &str, refused: &Reply) -> String {
    let why = match refused {
        Reply::Held { lock, holder } => {
            let what = match lock {
                Resource::Peer => "it".to_owned(),
                lock => format!("its {lock}"),
            };
            match holder {
                Some(task) => format!("{what} is held by or kept for {task}"),
                None => format!("{what} is held for a run of another host"),
            }
        }
        Reply::NoService => "it has no [probe], which keeps locks".to_owned(),
        Reply::Unknown | Reply::Granted => "its locks were kept for no longer".to_owned(),
    };
    format!("refused by {peer}: {why}")
}
