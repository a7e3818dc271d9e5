//! Reads `[guard]`: paths go back to the kernel's defaults by themselves where their policies hurt.

use std::{collections::HashSet, ops::RangeInclusive, time::Duration};

use toml::de::DeValue;
use wad_evidence::guard::Settings;

use super::{
    PathPolicy,
    fault::{Fault, Problems, quoted},
    keys::{
        Key,
        LeftOut::Value,
        Takes::{Switch, Text, Time},
        key,
    },
    quantity,
    table::{self, Located, Table},
    unread::Unread,
};

pub const TABLE: &str = "guard";

pub const KEYS: &[Key] = &[
    key("paths").takes(
        Text("`\"auto\"`, `\"all\"`, `\"none\"`, or a list of names of paths"),
        Value("\"auto\""),
        "the paths that are [guarded](../guard.md); `\"auto\"`: those that have a congestion \
         control, `allow` something, are measured, learned, or there by a peer's word",
    ),
    key("dry_run").takes(
        Switch,
        Value("false"),
        "guards say what they would do, and do nothing",
    ),
    key("every").takes(
        Time(TICKS),
        Value("\"5s\""),
        "how often it is looked at what connections show: 28 bad looks trip a path",
    ),
    key("watch").takes(
        Time(WATCHES),
        Value("\"0s\""),
        "a new path is held back for so long at most, so that its guard knows how it is without its \
         policy; with `\"0s\"` the guard knows how it is at first with it",
    ),
    key("untuned").takes(
        Text("0 to 0.5"),
        Value("0"),
        "the part of new connections that is left at the kernel's defaults, to have something to \
         hold the others against at the same time",
    ),
    key("hold_off").takes(
        Time(HOLD_OFFS),
        Value("\"5min\""),
        "a path that has tripped stays at the defaults for so long at first, and then twice as long \
         each time, up to a day",
    ),
];

const DAY: Duration = Duration::from_secs(86_400);
const TICKS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(30);
const WATCHES: RangeInclusive<Duration> = Duration::ZERO..=DAY;
const HOLD_OFFS: RangeInclusive<Duration> = Duration::from_secs(1)..=DAY;
const UNTUNED: RangeInclusive<f64> = 0.0..=0.5;

/// A trial takes so many ticks at least.
const TRIAL_TICKS: u32 = 24;

/// Paths that have a guard, at most, in the order of the file: what each knows is kept.
pub const MOST_GUARDS: usize = 1_000;

/// Says which paths have a guard, and what guards do.
#[derive(Clone, Debug, PartialEq)]
pub struct PathGuards {
    pub paths: GuardedPaths,
    /// From one tick to the next.
    pub every: Duration,
    pub settings: Settings,
}

/// Says which paths have a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardedPaths {
    /// Paths that have a congestion control, `allow` something, are measured, learned, or there
    /// by a peer's word.
    Auto,
    All,
    None,
    Named(HashSet<String>),
}

impl Default for PathGuards {
    fn default() -> Self {
        Self {
            paths: GuardedPaths::Auto,
            every: Duration::from_secs(5),
            settings: Settings::default(),
        }
    }
}

/// Reads the table. Returns the places of the paths that it names as well.
pub fn read(table: &Table<'_>, problems: &mut Problems) -> (PathGuards, Vec<Located<String>>) {
    let default = PathGuards::default();
    let names = if table.is_array("paths") {
        let name = |value: &DeValue<'_>| table::text(value).map(str::to_owned);
        table.read_list("paths", problems, name)
    } else {
        None
    };
    let word = if names.is_some() { None } else { table.read("paths", problems, parse_word) };
    let paths = match (&names, word) {
        (Some(names), _) => {
            GuardedPaths::Named(names.iter().map(|name| name.value.clone()).collect())
        }
        (None, word) => word.map_or(default.paths, |word| word.value),
    };
    let mut time = |key, range, words| {
        let parse = |value: &DeValue<'_>| quantity::duration(table::text(value)?, range, words);
        table.read(key, problems, parse).map(|time| time.value)
    };
    let every = time("every", TICKS, "100ms to 30s").unwrap_or(default.every);
    let watch = time("watch", WATCHES, "0s to 1d").unwrap_or(Duration::ZERO);
    let hold_off = time("hold_off", HOLD_OFFS, "1s to 1d").unwrap_or(default.settings.hold_off);
    let untuned = table.read("untuned", problems, |value| table::number(value, UNTUNED, ""));
    let dry_run = table.read("dry_run", problems, table::boolean);
    let settings = Settings {
        at_defaults_at_most: watch,
        untuned_share: untuned.map_or(0.0, |untuned| untuned.value),
        trial_at_least: every * TRIAL_TICKS,
        hold_off,
        dry_run: dry_run.is_some_and(|dry_run| dry_run.value),
        ..default.settings
    };
    (PathGuards { paths, every, settings }, names.unwrap_or_default())
}

fn parse_word(value: &DeValue<'_>) -> Result<GuardedPaths, Fault> {
    match table::text(value)? {
        "auto" => Ok(GuardedPaths::Auto),
        "all" => Ok(GuardedPaths::All),
        "none" => Ok(GuardedPaths::None),
        other => {
            let label = "it takes \"auto\", \"all\", \"none\", or a list of names of paths";
            Err(Fault::new(format!("{} says no paths", quoted(other)), label)
                .help(format!("write paths = [\"{other}\"] if a path is called so")))
        }
    }
}

/// Checks what only the whole file tells: whether there are paths of these names.
pub fn check(
    named: &[Located<String>],
    (paths, unread): (&[PathPolicy], &Unread),
    problems: &mut Problems,
) {
    for Located { value: name, at } in named {
        let fault = match paths.iter().find(|path| path.name == *name) {
            None if unread.may_have(name) => continue,
            None => Fault::new(format!("no path is called {}", quoted(name)), "nothing to guard")
                .help("write the `name` of a [[path]]"),
            Some(path) if path.observe => {
                let label = "mode = \"observe\" gives connections nothing";
                Fault::new(format!("there is nothing to guard on {}", quoted(name)), label)
                    .help("leave it out")
            }
            Some(_) => continue,
        };
        problems.push(fault.at(*at));
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, testing::host};

    #[test]
    fn all_that_a_file_can_say_can_be() {
        for (every, hold_off) in [("100ms", "1s"), ("30s", "1d")] {
            let text =
                format!("[guard]\nevery = '{every}'\nhold_off = '{hold_off}'\nuntuned = 0.5");
            let config = Config::parse("file", &text, &host()).unwrap();
            assert_eq!(config.guard.settings.check(), Ok(()));
        }
    }
}
