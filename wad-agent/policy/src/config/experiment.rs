//! Reads `[path.experiment]`: the path's policy is turned on and off in turn for new connections,
//! to find out whether it helps.

use std::{ops::RangeInclusive, time::Duration};

use serde::{Deserialize, Serialize};
use toml::de::DeValue;
use wad_evidence::{
    lengths::{LENGTHS, Lengths, PathTimes, Unfit},
    plan::Moment,
};

use super::{
    PathPolicy,
    experiment_settings::ExperimentSettings,
    fault::{Fault, Problems, Span, quoted},
    keys::{
        Key,
        LeftOut::{Means, Value},
        Takes::{Integer, Text, Time, Words},
        key,
    },
    overlap::Site,
    quantity,
    table::{self, Table},
    unread::Unread,
};

pub const TABLE: &str = "path.experiment";

/// The table's key in that of its path.
pub const KEY: &str = "experiment";

pub const KEYS: &[Key] = &[
    key("flow_life").takes(
        Time(FLOW_LIVES),
        Value("\"10s\""),
        "nine in ten of the path's connections do not last longer",
    ),
    key("block").takes(
        Text("a time, `\"2s\"` to `\"12h\"`, two of which divide a day"),
        Means("the shortest of a minute or more that has room for ten lives and fifty round trips"),
        "connections get the policy, or the kernel's defaults, for so long at a time",
    ),
    key("burn_in").takes(
        Time(BURN_INS),
        Means("a life and a round trip"),
        "connections that begin so soon after the begin of a block do not count",
    ),
    key("duration").takes(
        Time(DURATIONS),
        Value("\"7d\""),
        "it goes on for so long at most, and no longer than 8,192 blocks",
    ),
    key("until").takes(
        Text("a date and time with its zone, as `\"2027-01-01T00:00:00Z\"`"),
        Means("for its `duration`"),
        "when it ends at the latest",
    ),
    key("ends").takes(
        Words(&["verdict", "time"]),
        Value("\"verdict\""),
        "`\"verdict\"`: as soon as there is one on goodput; `\"time\"`: not before its time is over",
    ),
    key("alpha").takes(
        Text("0.001 to 0.5"),
        Value("0.05"),
        "the probability, at most, that any of its verdicts is wrong",
    ),
    key("seed").takes(
        Integer(SEEDS, ""),
        Means("chance; the log and the report show it"),
        "decides which block of each two is the one with the policy",
    ),
    key("neighbours").takes(
        Text("the name of a path with `mode = \"observe\"`, or a list of them"),
        Means("those of the path"),
        "paths of others on the same way: what happens to them is harm, or good, that tuning does",
    ),
];

const DAY: Duration = Duration::from_secs(86_400);
const BLOCKS: RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_secs(43_200);
const BURN_INS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(21_600);
const FLOW_LIVES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(7_200);
const DURATIONS: RangeInclusive<Duration> = Duration::from_secs(4)..=DAY.saturating_mul(366);
const ALPHAS: RangeInclusive<f64> = 0.001..=0.5;
/// Programs that read JSON have numbers of 53 bits.
const SEEDS: RangeInclusive<u64> = 0..=(1 << 53) - 1;

const FLOW_LIFE: Duration = Duration::from_secs(10);
const DURATION: Duration = DAY.saturating_mul(7);
const ALPHA: f64 = 0.05;

/// Experiments that there may be at a time: what they know is kept at each of their blocks.
pub const MOST_EXPERIMENTS: usize = 16;

/// An experiment as it is asked for, as far as somebody said it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedExperiment {
    pub flow_life: Option<Duration>,
    pub block: Option<Duration>,
    pub burn_in: Option<Duration>,
    pub duration: Option<Duration>,
    pub until: Option<Moment>,
    pub ends_by_verdict: Option<bool>,
    pub alpha: Option<f64>,
    pub seed: Option<u64>,
    pub neighbours: Vec<String>,
}

/// Says why there can be no experiment of that kind.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unsettled {
    #[error("there is nothing to compare on this path: {0}")]
    NothingToCompare(&'static str),
    #[error("blocks do not fit this path: {0}")]
    Unfit(#[from] Unfit),
    #[error("an alpha of {alpha} is none: it must be 0.001 to 0.5")]
    Alpha { alpha: f64 },
}

impl AskedExperiment {
    /// Returns an experiment that fits the path.
    pub fn settle(&self, path: &PathPolicy) -> Result<ExperimentSettings, Unsettled> {
        if let Some(why) = nothing_to_compare(path) {
            return Err(Unsettled::NothingToCompare(why));
        }
        let alpha = self.alpha.unwrap_or(ALPHA);
        if !ALPHAS.contains(&alpha) {
            return Err(Unsettled::Alpha { alpha });
        }
        let Lengths { block, burn_in } = self.lengths(path.origin.capacity.rtt_seconds)?;
        Ok(ExperimentSettings {
            block,
            burn_in,
            duration: self.duration.unwrap_or(DURATION),
            until: self.until,
            ends_by_verdict: self.ends_by_verdict.unwrap_or(true),
            alpha,
            seed: self.seed,
            neighbours: match self.neighbours.as_slice() {
                [] => path.neighbours.clone(),
                own => own.to_vec(),
            },
        })
    }

    /// Returns lengths that fit a path of this round trip time.
    fn lengths(&self, rtt_seconds: Option<f64>) -> Result<Lengths, Unfit> {
        let rtt = rtt_seconds.map_or(Duration::ZERO, Duration::from_secs_f64);
        let times = PathTimes { flow_life: self.flow_life.unwrap_or(FLOW_LIFE), rtt };
        let lengths = match (self.block, self.burn_in) {
            (None, None) => return times.lengths(),
            (Some(block), burn_in) => {
                Lengths { block, burn_in: burn_in.unwrap_or_else(|| times.burn_in()) }
            }
            (None, Some(burn_in)) => {
                let more = burn_in.saturating_sub(times.burn_in());
                let needed = times.lengths()?.block.saturating_add(more);
                let block = LENGTHS.into_iter().find(|block| *block >= needed);
                Lengths { block: block.unwrap_or(*BLOCKS.end()), burn_in }
            }
        };
        times.check(lengths).map(|()| lengths)
    }
}

/// Reads the table of a path, if it has one.
pub fn read(
    table: &Table<'_>,
    path: &PathPolicy,
    problems: &mut Problems,
) -> Option<Box<ExperimentSettings>> {
    let table = table.table(KEY, KEYS, problems)?;
    let before = problems.count();
    let mut time = |key, range, words| {
        let parse = |value: &DeValue<'_>| quantity::duration(table::text(value)?, range, words);
        table.read(key, problems, parse).map(|time| time.value)
    };
    let flow_life = time("flow_life", FLOW_LIVES, "1ms to 2h");
    let block = time("block", BLOCKS, "2s to 12h");
    let burn_in = time("burn_in", BURN_INS, "1ms to 6h");
    let duration = time("duration", DURATIONS, "4s to 366d");
    let until = table.read("until", problems, quantity::moment);
    let ends = table.read("ends", problems, |value| match table::text(value)? {
        "verdict" => Ok(true),
        "time" => Ok(false),
        other => {
            let title = format!("{} is no end", quoted(other));
            Err(Fault::new(title, "it takes \"verdict\" or \"time\""))
        }
    });
    let alpha = table.read("alpha", problems, |value| table::number(value, ALPHAS, ""));
    let seed = table.read("seed", problems, |value| table::integer(value, SEEDS, ""));
    let name = |value: &DeValue<'_>| table::text(value).map(str::to_owned);
    let neighbours = table.read_list("neighbours", problems, name);
    if problems.count() > before {
        return None;
    }
    let asked = AskedExperiment {
        flow_life,
        block,
        burn_in,
        duration,
        until: until.map(|until| until.value),
        ends_by_verdict: ends.map(|ends| ends.value),
        alpha: alpha.map(|alpha| alpha.value),
        seed: seed.map(|seed| seed.value),
        neighbours: neighbours.into_iter().flatten().map(|name| name.value).collect(),
    };
    let fault = match asked.settle(path) {
        Ok(settings) => return Some(Box::new(settings)),
        Err(Unsettled::NothingToCompare(why)) => {
            Fault::new("there is nothing to compare on this path", why)
                .help("leave one of the two out")
                .at(table.at)
        }
        Err(Unsettled::Unfit(unfit)) => {
            let at = ["block", "burn_in", "flow_life"].iter().find_map(|key| table.place(key));
            let help = "leave `block` and `burn_in` out, and say in `flow_life` how long \
                        connections last";
            Fault::new("blocks do not fit this path", unfit.to_string())
                .help(help)
                .at(at.unwrap_or(table.at))
        }
        // That has been said.
        Err(Unsettled::Alpha { .. }) => return None,
    };
    problems.push(fault);
    None
}

/// Says why an experiment on this path would compare nothing.
fn nothing_to_compare(path: &PathPolicy) -> Option<&'static str> {
    if path.observe {
        Some("mode = \"observe\" gives connections nothing")
    } else if path.share.is_some() {
        Some("`share` leaves connections at the defaults at all times")
    } else {
        None
    }
}

/// Checks what only the whole file tells: who neighbours are, and how many experiments there are.
pub fn check((paths, sites): (&[PathPolicy], &[Site]), unread: &Unread, problems: &mut Problems) {
    let experiments = || {
        let all = paths.iter().zip(sites);
        all.filter(|(path, _)| path.experiment.is_some()).map(|(_, site)| site.experiment)
    };
    if let Some(at) = experiments().nth(MOST_EXPERIMENTS) {
        let title = format!("{} experiments", experiments().count());
        problems.push(Fault::new(title, format!("at most {MOST_EXPERIMENTS} at a time")).at(at));
    }
    for (path, site) in paths.iter().zip(sites) {
        let own = path.neighbours.as_slice();
        let of_experiment = path.experiment.as_ref().map_or(&[][..], |it| &it.neighbours);
        // What an experiment has of its path is wrong once.
        let of_experiment = if of_experiment == own { &[] } else { of_experiment };
        for (neighbours, at) in [(own, site.neighbours), (of_experiment, site.experiment)] {
            let wrong = wrong_neighbours(path, neighbours, paths).into_iter();
            let wrong = wrong.filter(|(name, _)| !unread.may_have(name));
            wrong.for_each(|(_, fault)| problems.push(fault.at(at)));
        }
    }
}

/// Says in words which of these are no neighbours of a path, and why, if any is none.
#[must_use]
pub fn refuse_neighbours(
    path: &PathPolicy,
    neighbours: &[String],
    paths: &[PathPolicy],
) -> Option<String> {
    wrong_neighbours(path, neighbours, paths).first().map(|(_, fault)| fault.to_string())
}

/// Returns the names that are wrong, and their faults.
fn wrong_neighbours<'n>(
    path: &PathPolicy,
    neighbours: &'n [String],
    paths: &[PathPolicy],
) -> Vec<(&'n str, Fault)> {
    let wrong = neighbours.iter().filter_map(|name| {
        let neighbour = paths.iter().find(|other| other.name == *name);
        Some((&**name, wrong_neighbour(path, name, neighbour)?))
    });
    wrong.collect()
}

fn wrong_neighbour(path: &PathPolicy, name: &str, other: Option<&PathPolicy>) -> Option<Fault> {
    let title = format!("`neighbours`: {}", quoted(name));
    let fault = |label| Some(Fault::new(title.clone(), label));
    match other {
        None => fault("no path has that name")
            .map(|fault| fault.help("add a [[path]] with mode = \"observe\" for their addresses")),
        Some(other) if other.name == path.name => fault("this is the path itself"),
        Some(other) if !other.observe => fault("that path is tuned itself")
            .map(|fault| fault.help("name a path with mode = \"observe\"")),
        Some(_) => None,
    }
}

/// Returns the place that the experiment of a path is told of by.
pub fn place(table: &Table<'_>) -> Option<Span> {
    let nested = table.table(KEY, KEYS, &mut Problems::default())?;
    Some(nested.place("neighbours").unwrap_or(nested.at))
}

/// Returns what `wad check` says of an experiment.
pub fn words(settings: &ExperimentSettings) -> String {
    let ExperimentSettings { block, burn_in, .. } = settings;
    format!("experiment in blocks of {block:?}, {burn_in:?} of burn-in")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn path(rtt_seconds: f64) -> PathPolicy {
        let mut path = PathPolicy { name: "p".to_owned(), ..PathPolicy::default() };
        path.origin.capacity.rtt_seconds = Some(rtt_seconds);
        path
    }

    fn lengths(asked: AskedExperiment) -> Result<(u64, u64), String> {
        let settled = asked.settle(&path(0.1)).map_err(|error| error.to_string())?;
        let millis = |time: Duration| time.as_millis() as u64;
        Ok((millis(settled.block), millis(settled.burn_in)))
    }

    #[test]
    fn lengths_fit_the_path_or_are_refused() {
        let auto = AskedExperiment::default();
        assert_eq!(lengths(auto.clone()), Ok((120_000, 10_100)));
        let short = AskedExperiment { flow_life: Some(SECOND), ..auto };
        assert_eq!(lengths(short.clone()), Ok((60_000, 1_100)));
        let longer = AskedExperiment { burn_in: Some(SECOND * 55), ..short.clone() };
        assert_eq!(lengths(longer), Ok((120_000, 55_000)));
        let chosen = AskedExperiment { block: Some(SECOND * 20), ..short.clone() };
        assert_eq!(lengths(chosen), Ok((20_000, 1_100)));
        let odd = AskedExperiment { block: Some(SECOND * 77), ..short.clone() };
        assert!(lengths(odd).unwrap_err().contains("do not divide the day"));
        let too_short = AskedExperiment { block: Some(SECOND * 2), ..short };
        assert!(lengths(too_short).unwrap_err().contains("too short"));
    }

    #[test]
    fn there_is_something_to_compare_or_none_at_all() {
        let refused = |path: PathPolicy| AskedExperiment::default().settle(&path).unwrap_err();
        let observed = PathPolicy { observe: true, ..path(0.1) };
        assert!(matches!(refused(observed), Unsettled::NothingToCompare(_)));
        let shared = PathPolicy { share: Some(7), ..path(0.1) };
        assert!(matches!(refused(shared), Unsettled::NothingToCompare(_)));
        let sure = AskedExperiment { alpha: Some(0.0), ..AskedExperiment::default() };
        assert!(matches!(sure.settle(&path(0.1)), Err(Unsettled::Alpha { .. })));
    }
}
