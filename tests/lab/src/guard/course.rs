//! The course of a guarded path: what its guard did, and what its neighbours had meanwhile.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde_json::Value;
use wad_testbed::{process::run_command, wad::Home};

use super::{Case, EVERY, HOLD_OFF, OTHERS, OWN};
use crate::study::Judged;

/// The bound that the book states, in looks.
const MOST_LOOKS: u32 = 90;
/// A path at the defaults settles for so long, before it counts what its neighbours have.
const SETTLES: Duration = Duration::from_secs(5);
/// Neighbours have this part again of what they had without the policy.
const LEAST_BACK: f64 = 0.9;

/// A look at a path.
#[derive(Clone, Debug)]
pub struct Moment {
    at: Duration,
    state: String,
    share: f64,
    trips: u64,
    signal: String,
    neighbours_bytes: f64,
}

impl Moment {
    pub fn now(home: &Home, at: Duration) -> Result<Self> {
        let json = |command: &str, words: &[&str]| -> Result<Value> {
            let text = run_command(home.command(command).args(words).arg("--json"))?;
            Ok(serde_json::from_str(&text)?)
        };
        let guard = json("guard show", &[OWN])?["guards"][0].take();
        let flows = json("flows", &["--path", OTHERS])?;
        let flows = flows["flows"].as_array().context("no flows")?;
        let acked = |flow: &Value| flow["instruments"]["HCThruOctetsAcked"].as_f64();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Self {
            at,
            state: text(&guard["state"]),
            share: guard["share"].as_f64().context("no share")?,
            trips: guard["trips"].as_u64().context("no trips")?,
            signal: match &guard["tripped"]["harm"] {
                Value::Null => String::new(),
                harm => format!("{} {}", text(&harm["whose"]), text(&harm["measured"])),
            },
            neighbours_bytes: flows.iter().filter_map(acked).sum(),
        })
    }
}

/// The course of a path from look to look.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Course {
    /// Looks from when it turned bad, or its policy came into force, until it tripped first.
    pub looks_until_trip: Option<u32>,
    pub signal: String,
    /// The times of all trips.
    pub trips_s: Vec<f64>,
    /// New connections got the defaults at each look after a trip, until the next trial.
    pub is_held_back: bool,
    /// The rate of neighbours, in Mbit/s: without the policy at first, with it, and when it was
    /// held back.
    pub neighbours_mbit: [Option<f64>; 3],
}

impl Course {
    pub fn of(moments: &[Moment], turned: Option<Duration>) -> Self {
        let at = |wanted: fn(&Moment, &Moment) -> bool| {
            moments.windows(2).filter(move |pair| wanted(&pair[0], &pair[1]))
        };
        let trips: Vec<_> = at(|one, next| next.trips > one.trips).map(|pair| &pair[1]).collect();
        let came = at(|one, next| one.state == "watching" && one.share < next.share).next();
        let from = turned.or_else(|| came.map(|pair| pair[1].at)).unwrap_or_default();
        let first = trips.first();
        let looks = |time: Duration| (time.as_millis() / EVERY.as_millis()) as u32;
        let held = |moment: &&Moment| moment.state == "hold_off";
        let until = first.map_or(Duration::MAX, |trip| trip.at);
        let settled = first.map_or(Duration::MAX, |trip| trip.at + SETTLES);
        let first_hold_off = until.saturating_add(HOLD_OFF);
        let rate = |wanted: &dyn Fn(&Moment) -> bool| mbit(moments, wanted);
        Self {
            looks_until_trip: first.map(|trip| looks(trip.at.saturating_sub(from))),
            signal: first.map_or_else(String::new, |trip| trip.signal.clone()),
            trips_s: trips.iter().map(|trip| trip.at.as_secs_f64()).collect(),
            is_held_back: moments.iter().filter(held).all(|moment| moment.share == 0.0),
            neighbours_mbit: [
                rate(&|it| it.state == "watching" && it.share == 0.0 && it.at >= SETTLES),
                rate(&|it| it.share == 1.0 && it.at >= from + SETTLES && it.at < until),
                rate(&|it| it.share == 0.0 && it.at >= settled && it.at < first_hold_off),
            ],
        }
    }
}

/// Returns what neighbours carried in the looks that are wanted.
fn mbit(moments: &[Moment], wanted: &dyn Fn(&Moment) -> bool) -> Option<f64> {
    let wanted = moments.windows(2).filter(|pair| wanted(&pair[0]) && wanted(&pair[1]));
    let (bytes, seconds) = wanted.fold((0.0, 0.0), |(bytes, seconds), pair| {
        let carried = (pair[1].neighbours_bytes - pair[0].neighbours_bytes).max(0.0);
        (bytes + carried, seconds + (pair[1].at - pair[0].at).as_secs_f64())
    });
    (seconds > 0.0).then(|| bytes * 8.0 / 1e6 / seconds)
}

/// Judges a course.
pub fn judged(case: &Case, course: &Course) -> Judged {
    let mut judged = Judged::default();
    let Course { looks_until_trip, trips_s, is_held_back, neighbours_mbit, .. } = course;
    let trips = in_seconds(trips_s);
    if case.then.is_none() && case.watch.is_none() {
        judged.hold(trips_s.is_empty(), format!("it is well: trips at \"{trips}\"; wanted none"));
        return judged;
    }
    let is_soon = looks_until_trip.is_some_and(|looks| looks <= MOST_LOOKS);
    let looks = looks_until_trip.map_or_else(|| "never".to_owned(), |n| format!("after {n} looks"));
    judged.hold(is_soon, format!("it trips {looks}; wanted at most {MOST_LOOKS}"));
    judged.hold(*is_held_back, "new connections get the defaults in a hold-off".to_owned());
    let apart = |pair: &[f64]| pair[1] - pair[0] >= HOLD_OFF.as_secs_f64();
    let hold_off = HOLD_OFF.as_secs();
    judged.hold(
        trips_s.windows(2).all(apart),
        format!("it does not flap: trips at {trips}; wanted {hold_off} s between two"),
    );
    if case.watch.is_some() {
        let [without, _, held] = neighbours_mbit;
        let is_back = without.zip(*held).is_some_and(|(one, other)| other >= LEAST_BACK * one);
        let [without, held] = [without, held].map(|rate| in_megabits(*rate));
        judged.hold(
            is_back,
            format!(
                "neighbours have {without} without it, and {held} again; wanted at least \
                 {LEAST_BACK} of it"
            ),
        );
    }
    judged
}

/// The headings over what is shown of a course.
pub const HEADINGS: [&str; 4] =
    ["looks until it trips", "by", "trips at", "neighbours, Mb/s: without, with, held back"];

/// Returns what is shown of a course.
pub fn cells(course: &Course) -> Vec<String> {
    let looks = course.looks_until_trip.map_or_else(|| "-".to_owned(), |n| n.to_string());
    // A path without neighbours was never looked at without its policy.
    let rates = match course.neighbours_mbit {
        [None, ..] => "-".to_owned(),
        rates => rates.map(in_megabits).join(", "),
    };
    vec![looks, course.signal.clone(), in_seconds(&course.trips_s), rates]
}

fn in_seconds(trips: &[f64]) -> String {
    let trips: Vec<_> = trips.iter().map(|at| format!("{at:.0} s")).collect();
    trips.join(", ")
}

fn in_megabits(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(second: u64, state: &str, trips: u64, neighbours_mbyte: f64) -> Moment {
        let share = match state {
            "in_force" => 1.0,
            "trial" => 0.25,
            _ => 0.0,
        };
        Moment {
            at: Duration::from_secs(second),
            state: state.to_owned(),
            share,
            trips,
            signal: "own goodput".to_owned(),
            neighbours_bytes: neighbours_mbyte * 1e6,
        }
    }

    #[test]
    fn a_course_is_told_from_its_moments() {
        let mut moments: Vec<_> = (0..20).map(|at| moment(at, "watching", 0, at as f64)).collect();
        moments.extend((20..40).map(|at| moment(at, "in_force", 0, 20.0)));
        moments.extend((40..60).map(|at| moment(at, "hold_off", 1, (at - 20) as f64)));
        moments.push(moment(60, "trial", 1, 40.0));
        let course = Course::of(&moments, None);
        assert_eq!((course.looks_until_trip, course.trips_s.as_slice()), (Some(40), &[40.0][..]));
        assert!(course.is_held_back);
        let [without, with, held] = course.neighbours_mbit.map(|rate| rate.unwrap().round());
        assert_eq!([without, with, held], [8.0, 0.0, 8.0]);
    }
}
