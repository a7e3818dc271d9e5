//! Guards over emulated paths that turn bad, or whose policies were wrong from the start, and one
//! that is well: when they put a path back to the defaults, what its neighbours have then, and that
//! they do not flap. The paths are in `guard.toml`.

mod course;

use std::{
    net::SocketAddr,
    path::Path as File,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use wad_testbed::{
    cgroup::Cgroup,
    emulated::{
        path::{Direction, Path},
        units::{Rate, Span},
        wan::{ADDRESSES_V4, Wan},
    },
    process::{Place, Process},
    settings::{self, HostDefaults},
    signal, tcp,
    wad::Home,
};

use self::course::{Course, HEADINGS, Moment, cells, judged};
use crate::{
    beside,
    bulk::Amount,
    cli,
    study::{Finding, Judged, Study},
};

const PATHS: &str = include_str!("../guard.toml");
pub const NAME: &str = "guard";
/// The line that `wad-lab list` has of it.
pub const DESCRIPTION: &str =
    "Guards put paths back to the defaults that turn bad, or whose policies hurt others";
/// From one look of a guard to the next, and so of this.
const EVERY: Duration = Duration::from_millis(500);
/// A hold-off at first.
const HOLD_OFF: Duration = Duration::from_secs(30);
/// A path is looked at for so long, if it does not say for how long.
const SECONDS: u64 = 240;
/// It turns bad then: its guard knows it, and looks at it for a while.
const TURNS_AFTER: Duration = Duration::from_secs(30);
/// Connections of the path itself: a trial takes one in four, and is to have some.
const STREAMS: u32 = 12;
/// The ports of the path's own connections, and of others on the same way.
const PORTS: [u16; 2] = [7000, 7001];
/// A rate that wanders has the next value after so many looks.
const WANDERS_EVERY: u32 = 37;

#[derive(Deserialize)]
struct Cases {
    path: Vec<Case>,
}

/// A path, with what becomes of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    path: Path,
    /// It turns into this.
    then: Option<Path>,
    /// Keys of the path's policy.
    policy: toml::Table,
    /// A new path is held back for so long at most.
    watch: Option<Span>,
    /// So many connections of others.
    #[serde(default)]
    neighbours: u32,
    /// It carries these, one after the other and again.
    #[serde(default)]
    wanders: Vec<Rate>,
    seconds: Option<u64>,
}

/// A path with what was seen.
#[derive(Debug, Serialize)]
struct Outcome {
    name: String,
    #[serde(flatten)]
    course: Course,
    #[serde(flatten)]
    judged: Judged,
}

/// Runs it over the paths of these names, or all but those that take an hour, beside each other.
///
/// # Errors
/// When an agent fails.
pub fn run(lab: &File, wad: &File, names: &[String]) -> Result<Study> {
    let cases: Cases = toml::from_str(PATHS).context("guard.toml")?;
    let _defaults = HostDefaults::set()?;
    let is_chosen = |case: &&Case| match names {
        [] => case.seconds.is_none(),
        names => names.contains(&case.name),
    };
    let chosen: Vec<_> = cases.path.iter().filter(is_chosen).collect();
    ensure!(!chosen.is_empty(), "no path of guard.toml is called {}", names.join(", "));
    let outcomes = beside::each(chosen, |case| over(case, lab, wad))?;
    let finding = |one: &Outcome| Finding::new(&one.name, one, &one.judged, cells(&one.course));
    let findings = outcomes.iter().map(finding).collect::<Result<_, _>>()?;
    Ok(Study::new(NAME, &HEADINGS, findings))
}

fn over(case: &Case, lab: &File, wad: &File) -> Result<Outcome> {
    let wan = Wan::start(&case.path)?;
    settings::apply(&wan)?;
    let cgroup = Cgroup::create("lab")?;
    let home = Home::create(wad, &case.policy())?;
    let agent = home.start(&cgroup)?;
    let lasts = Duration::from_secs(case.seconds.unwrap_or(SECONDS));
    let _sending = case.send(lab, &wan, &cgroup, lasts)?;
    let begun = Instant::now();
    let mut moments = vec![Moment::now(&home, Duration::ZERO)?];
    let mut turned = None;
    for looks in 1.. {
        signal::sleep(EVERY)?;
        // To look takes some time, too.
        let at = begun.elapsed();
        if let Some(then) = case.then.as_ref().filter(|_| turned.is_none() && at >= TURNS_AFTER) {
            wan.turn(then);
            turned = Some(at);
        }
        if let Some(rate) = case.wandered_to(looks) {
            wan.turn(&rate);
        }
        moments.push(Moment::now(&home, at)?);
        if at >= lasts {
            break;
        }
    }
    let course = Course::of(&moments, turned);
    agent.stop()?;
    let judged = judged(case, &course);
    Ok(Outcome { name: case.name.clone(), course, judged })
}

/// The names of the path that is guarded, and of its neighbours.
const OWN: &str = "own";
const OTHERS: &str = "others";

impl Case {
    /// Returns the path with another rate, if it wanders to one after so many looks.
    fn wandered_to(&self, looks: u32) -> Option<Path> {
        let turn = looks / WANDERS_EVERY;
        let is_time = looks.is_multiple_of(WANDERS_EVERY) && !self.wanders.is_empty();
        let rate = is_time.then(|| self.wanders[turn as usize % self.wanders.len()])?;
        let forward = Direction { rate, ..self.path.forward.clone() };
        Some(Path { forward, ..self.path.clone() })
    }

    fn policy(&self) -> String {
        let (to, [own, others]) = (ADDRESSES_V4[1], PORTS);
        let millis = |time: Duration| time.as_millis();
        let watch = self.watch.map_or(Duration::ZERO, |watch| watch.0);
        format!(
            "[guard]\nevery = '{}ms'\nhold_off = '{}ms'\nwatch = '{}ms'\n\
             [[path]]\nname = '{OTHERS}'\nremote = '{to}'\nremote_port = {others}\n\
             mode = 'observe'\n\
             [[path]]\nname = '{OWN}'\nremote = '{to}'\nremote_port = {own}\n\
             neighbours = '{OTHERS}'\n{}",
            millis(EVERY),
            millis(HOLD_OFF),
            millis(watch),
            self.policy
        )
    }

    /// Has both kinds of connections send, until what it returns is dropped.
    fn send(
        &self,
        lab: &File,
        wan: &Wan,
        cgroup: &Cgroup,
        lasts: Duration,
    ) -> Result<Vec<Process>> {
        let near = Place { netns: Some(wan.a()), cgroup: Some(cgroup) };
        let far = Place { netns: Some(wan.b()), cgroup: None };
        let mut processes = Vec::new();
        for (port, streams) in PORTS.into_iter().zip([STREAMS, self.neighbours]) {
            if streams > 0 {
                let to = SocketAddr::new(ADDRESSES_V4[1].parse()?, port);
                processes.push(far.spawn(cli::receiver(lab, to, streams))?);
                tcp::await_listener(wan.b(), port)?;
                let amount = Amount::Time(lasts * 2);
                processes.push(near.spawn(cli::sender(lab, to, streams, amount))?);
            }
        }
        Ok(processes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_are_valid() {
        let cases: Cases = toml::from_str(PATHS).unwrap();
        assert_eq!(cases.path.len(), 4);
        for case in cases.path {
            assert!(case.wandered_to(5).is_none(), "{}", case.name);
            for path in [Some(&case.path), case.then.as_ref()].into_iter().flatten() {
                assert_eq!(path.fault(), None, "{}", case.name);
            }
            assert!(case.policy().parse::<toml::Table>().is_ok());
        }
    }
}
