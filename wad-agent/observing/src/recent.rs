//! The events of the last hour, for whoever looks at the page: how many there were in each
//! minute, and the last of each kind. They are kept in memory, and only where there is a page.

use std::{
    cmp::Reverse,
    collections::VecDeque,
    sync::{Mutex, atomic::AtomicBool, atomic::Ordering},
};

use jiff::Timestamp;
use serde::Serialize;
use wad_policy::event_name::EventName;
use wad_toolbox::mutex::locked;

use crate::events::{Ends, Record};

/// Minutes that are counted.
pub const MINUTES: usize = 60;
/// Events of one kind that are kept whole: some hundred kB. A kind that is told often takes no
/// room from another.
pub const KEPT: usize = 150;

const KINDS: usize = EventName::ALL.len();

/// Keeps events while it is told to.
#[derive(Debug, Default)]
pub struct Recent {
    is_on: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    since: Option<Timestamp>,
    minutes: VecDeque<Minute>,
    told: [VecDeque<Told>; KINDS],
}

/// The events of a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minute {
    /// Minutes since 1970.
    pub number: i64,
    /// Counts in the order of [`EventName::ALL`].
    pub counts: [u32; KINDS],
}

/// An event as it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub time: Timestamp,
    pub event: EventName,
    /// None of what is about a path, as the next.
    pub ends: Option<Ends>,
    pub cookie: Option<u64>,
    pub path: Box<str>,
    /// The values as sinks get them: JSON.
    pub values: Box<str>,
}

/// All that is known of the last hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastHour {
    /// Since when events are kept; None where they are not.
    pub since: Option<Timestamp>,
    /// The minutes that had any, the oldest first.
    pub minutes: Vec<Minute>,
    /// The last of each kind, the newest first.
    pub told: Vec<Told>,
}

impl Recent {
    /// Keeps events from now on, or forgets those that there are.
    pub fn keep(&self, is_on: bool) {
        if self.is_on.swap(is_on, Ordering::Relaxed) != is_on {
            let since = is_on.then(Timestamp::now);
            *locked(&self.kept) = Kept { since, ..Kept::default() };
        }
    }

    /// Whether events are kept.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Takes an event, if events are kept.
    pub fn tell<V: Serialize>(&self, record: &Record<'_, V>) {
        if !self.is_on() {
            return;
        }
        // Values are objects whose keys are texts: they always are JSON.
        let Ok(values) = serde_json::to_string(&record.values) else { return };
        let Record { time, event, ends, cookie, path, .. } = *record;
        let told = Told { time, event, ends, cookie, path: path.into(), values: values.into() };
        locked(&self.kept).add(told);
    }

    /// Returns what was told in the hour before `now`. With a cookie, of that flow alone.
    pub fn read(&self, now: Timestamp, cookie: Option<u64>) -> LastHour {
        let first = minute_of(now) - MINUTES as i64 + 1;
        let kept = locked(&self.kept);
        let is_wanted = |told: &&Told| {
            minute_of(told.time) >= first && (cookie.is_none() || told.cookie == cookie)
        };
        let mut told: Vec<_> = kept.told.iter().flatten().filter(is_wanted).cloned().collect();
        let minutes = kept.minutes.iter().filter(|minute| minute.number >= first).copied();
        let (since, minutes) = (kept.since, minutes.collect());
        drop(kept);
        // Those of one moment are in the order in which they happen: a flow opens, and is tuned.
        told.sort_unstable_by_key(|told| Reverse((told.time, told.event as usize, told.cookie)));
        LastHour { since, minutes, told }
    }
}

impl Kept {
    fn add(&mut self, told: Told) {
        let (number, kind) = (minute_of(told.time), told.event as usize);
        // The kernel's ring has them nearly in their order.
        let place = self.minutes.partition_point(|minute| minute.number < number);
        if self.minutes.get(place).is_none_or(|minute| minute.number != number) {
            self.minutes.insert(place, Minute { number, counts: [0; KINDS] });
        }
        let counts = &mut self.minutes[place].counts;
        counts[kind] = counts[kind].saturating_add(1);
        // A clock that is set leaves minutes that never come: they go as others do.
        while self.minutes.len() > MINUTES {
            self.minutes.pop_front();
        }
        let of_kind = &mut self.told[kind];
        if of_kind.len() == KEPT {
            of_kind.pop_front();
        }
        of_kind.push_back(told);
    }
}

fn minute_of(time: Timestamp) -> i64 {
    time.as_second().div_euclid(60)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;

    fn tell(recent: &Recent, event: EventName, seconds: i64, cookie: u64) {
        let ends = Ends {
            local: "10.0.0.1:40000".parse().unwrap(),
            remote: "10.0.0.2:5201".parse().unwrap(),
        };
        let time = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        let values = json!({ "why": "max_flows" });
        let (ends, cookie) = (Some(ends), Some(cookie));
        recent.tell(&Record { time, event, ends, cookie, path: "bob", values });
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    #[test]
    fn nothing_is_kept_unless_somebody_looks() {
        let recent = Recent::default();
        tell(&recent, EventName::Open, 1, 1);
        assert_eq!(recent.read(at(2), None), LastHour::default());
        recent.keep(true);
        tell(&recent, EventName::Open, 1, 1);
        let seen = recent.read(at(2), None);
        assert!(seen.since.is_some() && seen.told.len() == 1 && seen.minutes.len() == 1);
        // A reload leaves what there is.
        recent.keep(true);
        assert_eq!(recent.read(at(2), None), seen);
        recent.keep(false);
        assert_eq!(recent.read(at(2), None), LastHour::default());
    }

    #[test]
    fn what_is_told_often_leaves_room_for_the_rest() {
        let recent = Recent::default();
        recent.keep(true);
        tell(&recent, EventName::Limited, 0, 7);
        for cookie in 0..10 * KEPT as u64 {
            tell(&recent, EventName::Open, 1, cookie);
        }
        let seen = recent.read(at(60), None);
        assert_eq!(seen.told.len(), KEPT + 1);
        assert_eq!(
            (seen.told[0].event, seen.told[KEPT].event),
            (EventName::Open, EventName::Limited)
        );
        assert_eq!(seen.minutes[0].counts, [10 * KEPT as u32, 0, 0, 1, 0, 0, 0, 0, 0]);
        let of_flow = recent.read(at(60), Some(7)).told;
        assert_eq!(of_flow.len(), 1);
        assert_eq!(&*of_flow[0].values, r#"{"why":"max_flows"}"#);
    }

    #[test]
    fn an_hour_is_seen_and_no_more_is_kept() {
        let recent = Recent::default();
        recent.keep(true);
        for minute in 0..10 * MINUTES as i64 {
            tell(&recent, EventName::Closed, 60 * minute, 1);
        }
        // Two that come late.
        tell(&recent, EventName::Open, 60 * (10 * MINUTES as i64 - 5), 2);
        tell(&recent, EventName::Open, 0, 3);
        let now = 60 * 10 * MINUTES as i64;
        let seen = recent.read(at(now - 1), None);
        assert!(seen.minutes.len() >= MINUTES - 1, "{}", seen.minutes.len());
        assert!(seen.minutes.is_sorted_by_key(|minute| minute.number));
        assert_eq!(seen.minutes.iter().map(|minute| minute.counts[0]).sum::<u32>(), 1);
        assert_eq!(seen.told.len(), MINUTES + 1);
        assert!(locked(&recent.kept).minutes.len() <= MINUTES);
        assert_eq!(recent.read(at(now + 3_600), None).told, []);
    }
}
