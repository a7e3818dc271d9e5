//! Probes over emulated paths: what they find out is held against what the paths are, and
//! beside the real iperf3 and ping. At both ends is `wad probe run`; the paths are in
//! `probe.toml`.

mod end;
mod verdict;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    net::{IpAddr, SocketAddr},
    path::Path as File,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wad_testbed::{
    emulated::{
        path::Path,
        units::{Rate, Span},
        wan::{ADDRESSES_V4, Wan},
    },
    monotonic_ns,
    process::Place,
    settings::{self, HostDefaults},
    sysctl, tcp,
};

pub(crate) use self::end::End;
use self::verdict::{HEADINGS, cells, judged};
use crate::{
    scenario::Burst,
    study::{Finding, Judged, Study},
    udp,
};

const PATHS: &str = include_str!("../probe.toml");
pub const NAME: &str = "probe";
/// The line that `wad-lab list` has of it.
pub const DESCRIPTION: &str =
    "Probes find out what emulated paths are like, beside the real iperf3 and ping";
const ANSWERER: u16 = 4824;
const IPERF3: u16 = 5201;
/// Cross traffic lasts for longer than the probes and iperf3 together.
const CROSS: Duration = Duration::from_secs(25);
/// Both ends have room for all of these paths.
const BUFFERS: &str = "4096 131072 268435456";
/// The tools, in the order in which they run; the first ones beside cross traffic.
const TRANSFERS: [&str; 2] = ["bandwidth", "iperf3"];
const ECHOES: [&str; 3] = ["rtt", "ping", "loss"];

#[derive(Deserialize)]
struct Paths {
    path: Vec<Variant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    path: Path,
    /// Datagrams that go the same way.
    cross: Option<Rate>,
}

/// A path with what was found out about it.
#[derive(Debug, Serialize)]
struct Outcome {
    name: String,
    /// The rate of data that the path carries beside the cross traffic.
    carries_bits_per_second: f64,
    /// The measurement of each tool, as `wad probe now` prints it.
    found: BTreeMap<&'static str, Value>,
    #[serde(flatten)]
    judged: Judged,
}

/// Runs it over the paths of these names, or all.
///
/// # Errors
/// When a probe fails.
pub fn run(wad: &File, names: &[String]) -> Result<Study> {
    let paths: Paths = toml::from_str(PATHS).context("probe.toml")?;
    let _defaults = HostDefaults::set()?;
    let chosen = |one: &&Variant| names.is_empty() || names.contains(&one.name);
    let results = paths.path.iter().filter(chosen).map(|one| over(one, wad));
    let results: Vec<Outcome> = results.collect::<Result<_>>()?;
    ensure!(!results.is_empty(), "no path of probe.toml is called {}", names.join(", "));
    let finding =
        |one: &Outcome| anyhow::Ok(Finding::new(&one.name, one, &one.judged, cells(one)?)?);
    let findings = results.iter().map(finding).collect::<Result<_>>()?;
    Ok(Study::new(NAME, &HEADINGS, findings))
}

fn over(variant: &Variant, wad: &File) -> Result<Outcome> {
    let wan = Wan::start(&variant.path)?;
    prepare(&wan)?;
    let there: IpAddr = ADDRESSES_V4[1].parse()?;
    let answers = format!("answer = '[::]:{ANSWERER}'\nanswer_to = '10.77.0.0/16'\n");
    let _far = End::start(wad, Some(wan.b()), &answers)?;
    let mut server = Command::new("iperf3");
    server.args(["--server", "--bind", ADDRESSES_V4[1]]).stdout(Stdio::null());
    let _server = Place { netns: Some(wan.b()), cgroup: None }.spawn(server)?;
    tcp::await_listener(wan.b(), IPERF3)?;
    let near = End::start(wad, Some(wan.a()), &tasks()?)?;
    let mut found = BTreeMap::new();
    thread::scope(|scope| -> Result<()> {
        let cross = variant.cross.map(|rate| {
            let burst = Burst { at: Span(Duration::ZERO), lasts: Span(CROSS), rate };
            let (near, now) = (wan.a(), monotonic_ns());
            scope.spawn(move || near.run(|| udp::send(&burst, there, now)))
        });
        for tool in TRANSFERS {
            found.insert(tool, near.measure(tool)?);
        }
        if let Some(cross) = cross {
            cross.join().expect("it does not panic")??;
        }
        Ok(())
    })?;
    for tool in ECHOES {
        found.insert(tool, near.measure(tool)?);
    }
    let cross = variant.cross.map_or(0.0, |rate| rate.bits_per_second as f64);
    let rate = variant.path.forward.rate.bits_per_second as f64;
    let carries_bits_per_second = variant.path.carries_bits_per_second() * (1.0 - cross / rate);
    let judged = judged(&variant.path, carries_bits_per_second, &found)?;
    Ok(Outcome { name: variant.name.clone(), carries_bits_per_second, found, judged })
}

fn prepare(wan: &Wan) -> Result<()> {
    settings::apply(wan)?;
    for netns in [wan.a(), wan.b()] {
        netns.run(|| {
            sysctl::set("net.ipv4.tcp_rmem", BUFFERS)?;
            sysctl::set("net.ipv4.tcp_wmem", BUFFERS)?;
            sysctl::set("net.ipv4.ping_group_range", "0 2147483647")
        })??;
    }
    Ok(())
}

/// Returns what the near end measures, when it is asked to.
fn tasks() -> Result<String> {
    let to = SocketAddr::new(ADDRESSES_V4[1].parse()?, ANSWERER);
    let echoes = "count = 20\ninterval = '20ms'\n";
    let settings = [
        ("bandwidth", "bandwidth", "max_bytes = '8GiB'\n".to_owned()),
        ("iperf3", "iperf3", "max_bytes = '8GiB'\ncongestion = 'bbr'\n".to_owned()),
        ("rtt", "rtt", echoes.to_owned()),
        ("ping", "ping", echoes.to_owned()),
        ("loss", "rtt", "echo = 'udp'\ncount = 2000\ninterval = '10ms'\n".to_owned()),
    ];
    let mut text = String::new();
    for (name, tool, settings) in settings {
        // No period of it begins meanwhile, but for one in thousands of times.
        write!(
            text,
            "[[probe.task]]\nname = '{name}'\nhost = '{}'\ntool = '{tool}'\nevery = '7d'\n{settings}",
            to.ip()
        )?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_are_valid() {
        let paths: Paths = toml::from_str(PATHS).unwrap();
        assert!(paths.path.len() > 5);
        for variant in paths.path {
            assert_eq!(variant.path.fault(), None, "{}", variant.name);
        }
    }
}
