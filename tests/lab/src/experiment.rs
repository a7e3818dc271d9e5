//! Experiments over emulated paths: what `wad report` says of each is held against what tuning does
//! there, beside what one would have said who holds tuned connections against untuned ones at the
//! same time. The paths are in `experiment.toml`.

mod compared;
mod judged;

use std::{net::SocketAddr, path::Path as File, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wad_testbed::{
    cgroup::Cgroup,
    emulated::{
        path::Path,
        units::Span,
        wan::{ADDRESSES_V4, Wan},
    },
    process::{Place, Process, run_command},
    settings::{self, HostDefaults},
    signal,
    stand::until,
    sysctl, tcp,
    wad::Home,
};

use self::{
    compared::{Compared, compare},
    judged::{Bounds, HEADINGS, Wanted, cells, judged},
};
use crate::{
    beside, cli,
    study::{Finding, Judged, Study},
};

const PATHS: &str = include_str!("../experiment.toml");
pub const NAME: &str = "experiment";
/// The line that `wad-lab list` has of it.
pub const DESCRIPTION: &str =
    "Experiments find out what tuning does on four paths, beside a comparison of connections";
/// Verdicts on all metrics take 13 pairs at least.
const PAIRS: u32 = 16;
/// It begins when a pair may, and an agent on a busy machine is late.
const LATE: Duration = Duration::from_secs(30);
/// To ask the agent takes processor time, which connections are to have.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);
/// Connections are compared for so long.
const COMPARED_OVER: Duration = Duration::from_secs(15);
/// The ports of the path's own connections, and of others on the same way.
const PORTS: [u16; 2] = [7000, 7001];
/// The receiver's window holds nobody up.
const RECEIVE_BUFFERS: &str = "4096 1048576 6291456";

#[derive(Deserialize)]
struct Cases {
    path: Vec<Case>,
}

/// A path, with what is sent over it and what is to be found out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    path: Path,
    /// Keys of the path's policy.
    policy: toml::Table,
    /// So many connections at a time.
    #[serde(default = "one")]
    streams: u32,
    /// So many of others.
    #[serde(default)]
    neighbours: u32,
    /// Each carries so much.
    bytes: u64,
    blocks: Blocks,
    goodput: Wanted,
    neighbours_goodput: Option<Wanted>,
    compared: Bounds,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Blocks {
    flow_life: Span,
    block: Span,
}

const fn one() -> u32 {
    1
}

/// A path with what was found out about it.
#[derive(Debug, Serialize)]
struct Outcome {
    name: String,
    /// The experiment as `wad report --json` has it.
    told: Value,
    compared: Compared,
    #[serde(flatten)]
    judged: Judged,
}

/// Runs it over the paths of these names, or all, beside each other.
///
/// # Errors
/// When an agent fails.
pub fn run(lab: &File, wad: &File, names: &[String]) -> Result<Study> {
    let cases: Cases = toml::from_str(PATHS).context("experiment.toml")?;
    let _defaults = HostDefaults::set()?;
    let is_chosen = |case: &&Case| names.is_empty() || names.contains(&case.name);
    let chosen: Vec<_> = cases.path.iter().filter(is_chosen).collect();
    ensure!(!chosen.is_empty(), "no path of experiment.toml is called {}", names.join(", "));
    let outcomes = beside::each(chosen, |case| over(case, lab, wad))?;
    let finding = |one: &Outcome| Finding::new(&one.name, one, &one.judged, cells(one));
    let findings = outcomes.iter().map(finding).collect::<Result<_, _>>()?;
    Ok(Study::new(NAME, &HEADINGS, findings))
}

fn over(case: &Case, lab: &File, wad: &File) -> Result<Outcome> {
    let wan = Wan::start(&case.path)?;
    settings::apply(&wan)?;
    wan.b().run(|| sysctl::set("net.ipv4.tcp_rmem", RECEIVE_BUFFERS))??;
    let cgroup = Cgroup::create("lab")?;
    let home = Home::create(wad, &case.policy(&case.experiment(), ""))?;
    let agent = home.start(&cgroup)?;
    let _sending = case.send(lab, &wan, &cgroup)?;

    let look = || {
        signal::sleep(BETWEEN_LOOKS)?;
        told(&home)
    };
    let limit = case.lasts() + 2 * case.blocks.block.0 + LATE;
    let told = until("the experiment ends", limit, look, |told| told["state"] == "ended")?;
    let events = home.folder().join("closed.jsonl");
    let sink = format!(
        "[[sink]]\nname = 'closed'\nkind = 'file'\npath = '{}'\nevents = ['closed']\n",
        events.display()
    );
    home.reload(&case.policy("share = 0.5\n", &sink))?;
    let begun = jiff::Timestamp::now();
    signal::sleep(COMPARED_OVER)?;
    agent.stop()?;
    let compared = compare(&events, OWN, begun)?;
    let judged = judged(case, &told, &compared);
    Ok(Outcome { name: case.name.clone(), told, compared, judged })
}

/// Returns the experiment as the agent tells of it.
fn told(home: &Home) -> Result<Value> {
    let report = run_command(home.command("report").arg("--json"))?;
    Ok(serde_json::from_str::<Value>(&report)?["experiments"][0].take())
}

/// The name of the path that is tuned.
const OWN: &str = "own";

impl Case {
    /// Returns the configuration with this in the path, and behind all. No guard is to hold back
    /// what the experiment is about.
    fn policy(&self, keys: &str, beside: &str) -> String {
        let (to, [own, others]) = (ADDRESSES_V4[1], PORTS);
        format!(
            "[guard]\npaths = 'none'\n\
             [[path]]\nname = 'others'\nremote = '{to}'\nremote_port = {others}\nmode = 'observe'\n\
             [[path]]\nname = '{OWN}'\nremote = '{to}'\nremote_port = {own}\n{}{keys}{beside}",
            self.policy
        )
    }

    fn experiment(&self) -> String {
        let Blocks { flow_life, block } = &self.blocks;
        let neighbours = if self.neighbours > 0 { "neighbours = 'others'\n" } else { "" };
        format!(
            "rtt = '{}ms'\n[path.experiment]\nflow_life = '{}ms'\nblock = '{}ms'\nduration = '{}ms'\n\
             ends = 'time'\nseed = 2002\n{neighbours}",
            self.path.rtt.0.as_millis(),
            flow_life.0.as_millis(),
            block.0.as_millis(),
            self.lasts().as_millis(),
        )
    }

    fn lasts(&self) -> Duration {
        2 * PAIRS * self.blocks.block.0
    }

    /// Has both kinds of connections come and go, until what it returns is dropped.
    fn send(&self, lab: &File, wan: &Wan, cgroup: &Cgroup) -> Result<Vec<Process>> {
        let near = Place { netns: Some(wan.a()), cgroup: Some(cgroup) };
        let far = Place { netns: Some(wan.b()), cgroup: None };
        let mut processes = Vec::new();
        for (port, streams) in PORTS.into_iter().zip([self.streams, self.neighbours]) {
            if streams > 0 {
                let to = SocketAddr::new(ADDRESSES_V4[1].parse()?, port);
                processes.push(far.spawn(cli::again_receiver(lab, to))?);
                tcp::await_listener(wan.b(), port)?;
                processes.push(near.spawn(cli::again_sender(lab, to, streams, self.bytes))?);
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
            assert_eq!(case.path.fault(), None, "{}", case.name);
            assert_eq!(case.neighbours > 0, case.neighbours_goodput.is_some(), "{}", case.name);
            assert!(case.policy(&case.experiment(), "").parse::<toml::Table>().is_ok());
        }
    }
}
