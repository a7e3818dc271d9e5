//! Looks whether what is in the kernel is still where it belongs, and puts back what
//! others have taken off.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Result;
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, Interval, MissedTickBehavior, interval},
};
use tracing::{error, warn};
use wad_toolbox::{
    causes::with_causes,
    mutex::locked,
    seldom::{self, Seldom},
    shortage,
};
use wad_tuning::{
    attachment::{Attachment, Lost, Part},
    bpf::Tuning,
};

use super::{adopting::Pass, force::Force};

const LOOK_INTERVAL: Duration = Duration::from_secs(5);

type Looked = io::Result<Vec<Lost>>;

/// Looks when it is time.
pub struct Looks {
    times: Interval,
    under_way: Option<JoinHandle<Looked>>,
}

impl Looks {
    pub fn new() -> Self {
        let mut times = interval(LOOK_INTERVAL);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { times, under_way: None }
    }

    /// Returns what is lost, when it has been looked the next time: beside the caller, for
    /// the kernel lets it wait for whoever changes cgroups. Dropped before, it goes on at
    /// the next call.
    pub async fn next(&mut self, tuning: &Arc<Tuning>) -> Looked {
        if self.under_way.is_none() {
            self.times.tick().await;
        }
        let look = || {
            let tuning = Arc::clone(tuning);
            spawn_blocking(move || tuning.look())
        };
        let looked = self.under_way.get_or_insert_with(look).await;
        self.under_way = None;
        looked.map_err(io::Error::other).flatten()
    }
}

/// Remembers what was said of what others take off.
#[derive(Default)]
pub struct Watch {
    /// What is told to whoever asks.
    pub told: Arc<Mutex<Attachment>>,
    /// What came last of a part that was lost, in the order of [`Part::ALL`].
    said: [Option<Said>; Part::ALL.len()],
    cannot_look: Seldom,
}

#[derive(Clone, Copy)]
struct Said {
    is_back: bool,
    at: Instant,
}

impl Watch {
    /// Whether it is to be said that a part is back, or cannot be put back.
    fn may_say(&mut self, part: Part, is_back: bool, now: Instant) -> bool {
        let said = &mut self.said[part as usize];
        let is_old =
            said.is_some_and(|said| said.is_back == is_back && now - said.at < seldom::INTERVAL);
        if !is_old {
            *said = Some(Said { is_back, at: now });
        }
        !is_old
    }
}

impl Force<'_> {
    /// Puts back what is lost, as far as that can be. Whether anything was.
    pub fn put_back(&mut self, looked: Looked) -> bool {
        let now = Instant::now();
        let mut lost = match looked {
            Ok(lost) => lost,
            Err(error) => {
                shortage::note(&error);
                if self.links.cannot_look.may_say() {
                    warn!("cannot look whether all is still in the kernel: {error}");
                }
                return false;
            }
        };
        locked(&self.links.told).set_lost(&lost);
        // Programs find their maps by the pins.
        lost.sort_by_key(|lost| lost.part != Part::Pins);
        let were_lost: Vec<_> = lost.iter().map(|lost| lost.part).collect();
        lost.retain_mut(|lost| match self.put_back_one(lost.part) {
            Ok(()) => {
                locked(&self.links.told).count(lost.part);
                if self.links.may_say(lost.part, true, now) {
                    warn!("{}; it is put back", lost.why);
                }
                false
            }
            Err(error) => {
                shortage::note(error.as_ref());
                let why = with_causes(&error);
                if self.links.may_say(lost.part, false, now) {
                    error!("{}; it cannot be put back, which is tried again: {why}", lost.why);
                }
                lost.why = format!("{}; it cannot be put back: {why}", lost.why);
                true
            }
        });
        locked(&self.links.told).set_lost(&lost);
        let is_back = |part| were_lost.contains(&part) && lost.iter().all(|it| it.part != part);
        if is_back(Part::Tuner) || is_back(Part::Laws) {
            // Those that have begun meanwhile.
            self.adopt(Pass::All);
        }
        !were_lost.is_empty()
    }

    fn put_back_one(&mut self, part: Part) -> Result<()> {
        if part == Part::Pins {
            self.journal.ensure_bpffs()?;
        }
        Ok(self.tuning().put_back(part, &self.agent.options.instance)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_again_after_a_while() {
        let mut watch = Watch::default();
        let begun = Instant::now();
        let mut may_say = |is_back, after_s| {
            watch.may_say(Part::Tuner, is_back, begun + Duration::from_secs(after_s))
        };
        assert!(may_say(false, 0) && !may_say(false, 5));
        assert!(may_say(true, 10) && !may_say(true, 15));
        assert!(may_say(false, 20) && !may_say(false, 619) && may_say(false, 620));
        assert!(watch.may_say(Part::Pins, false, begun));
    }
}
