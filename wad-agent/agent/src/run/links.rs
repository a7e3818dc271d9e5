//! Looks whether what is in the kernel is still where it belongs, and remembers what
//! was said of it.

use std::{
    io,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::time::{Interval, MissedTickBehavior, interval};
use wad_toolbox::seldom::Seldom;
use wad_tuning::{
    attachment::{Attachment, Lost, Part},
    bpf::Tuning,
};

use super::beside::Beside;

const LOOK_INTERVAL: Duration = Duration::from_secs(5);

pub type Looked = io::Result<Vec<Lost>>;

/// Looks when it is time.
pub struct Looks {
    times: Interval,
    look: Beside<Looked>,
}

impl Looks {
    pub fn new() -> Self {
        let mut times = interval(LOOK_INTERVAL);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { times, look: Beside::idle() }
    }

    /// Returns what is lost, when it has been looked the next time: beside the caller, for
    /// the kernel lets it wait for whoever changes cgroups. Dropped before, it goes on at
    /// the next call.
    pub async fn next(&mut self, tuning: &Arc<Tuning>) -> Looked {
        if !self.look.is_busy() {
            self.times.tick().await;
            let tuning = Arc::clone(tuning);
            self.look.start(move || tuning.look());
        }
        self.look.done().await
    }
}

/// Remembers what was said of what others take off.
#[derive(Default)]
pub struct Watch {
    /// Whoever asks is told this.
    pub told: Arc<Mutex<Attachment>>,
    /// Whether a part that was lost was back when something was said of it last, in the
    /// order of [`Part::ALL`].
    said: [(bool, Seldom); Part::ALL.len()],
    pub cannot_look: Seldom,
}

impl Watch {
    /// Whether it is to be said that a part is back, or cannot be put back.
    pub fn may_say(&mut self, part: Part, is_back: bool, now: Instant) -> bool {
        let (was_back, said) = &mut self.said[part as usize];
        if *was_back != is_back {
            *was_back = is_back;
            said.forget();
        }
        said.may_say_at(now)
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
