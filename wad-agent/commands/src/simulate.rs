//! `wad simulate`: laws on a path that no lab has, with the code that runs in the kernel: a table
//! and a picture. Nothing is measured, and no agent need run.

mod arguments;
mod page;
mod picture;
mod sender;
#[cfg(test)]
mod tests;

use std::fs;

use anyhow::{Context as _, Result, anyhow};
use schemars::JsonSchema;
use serde::Serialize;
use wad_simulation::{Outcome, Path, Setup};

pub use self::arguments::Simulate;
use self::{
    arguments::Queue,
    sender::{Named, OfPath},
};
use crate::output;

/// Laws on a path, as `--json` prints it. Rates of laws are of payload.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Simulated {
    rate_bits_per_second: f64,
    rtt_seconds: f64,
    queue_bytes: u64,
    mtu_bytes: u32,
    /// Probability that the path loses a packet by itself.
    loss: f64,
    /// Packets that it loses whatever happens, counted from 1.
    lose_packets: Vec<u64>,
    /// The most payload that the path carries.
    carries_bits_per_second: f64,
    flows: u32,
    seconds: f64,
    seed: u64,
    laws: Vec<SimulatedLaw>,
}

/// A law, and what came of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimulatedLaw {
    law: String,
    /// The most bytes that buffers let a connection have on its way.
    most_window_bytes: u64,
    bits_per_second: f64,
    last_half_bits_per_second: f64,
    /// When the path first carried 0.9 of what it can, from the begin of the first connection;
    /// null for never.
    full_after_seconds: Option<f64>,
    lost_segments: u64,
    /// Segments sent again.
    retransmitted_segments: u64,
    /// The longest time that a window took to come back from its last decrease of those that
    /// it came back from; null for none.
    back_after_seconds: Option<f64>,
    /// For so long a window has not come back that never has; null if there is none.
    not_back_for_seconds: Option<f64>,
    most_queue_bytes: u64,
    /// Jain's index of fairness among connections; null for one.
    jain_index: Option<f64>,
    /// The rate of each connection.
    connections_bits_per_second: Vec<f64>,
    course: Vec<CoursePoint>,
}

/// All connections at a time.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct CoursePoint {
    seconds: f64,
    /// The sum of the windows.
    cwnd_segments: u64,
    /// The rate since the point before.
    bits_per_second: f64,
    /// The smoothed RTT of the first connection.
    rtt_seconds: f64,
    queue_seconds: f64,
    /// Segments sent again so far.
    retransmitted_segments: u64,
}

/// `wad simulate`.
pub fn run(args: &Simulate) -> Result<()> {
    let simulated = simulate(args)?;
    if let Some(file) = &args.svg {
        let picture = picture::render(&simulated);
        fs::write(file, picture).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if args.json { output::print_json(&simulated) } else { output::print(page::Page(&simulated)) }
}

fn simulate(args: &Simulate) -> Result<Simulated> {
    let file = args.config.as_deref();
    let of_path = args.path.as_deref().map(|name| OfPath::read(file, name)).transpose()?;
    let path = path(args, of_path.as_ref())?;
    let mut senders: Vec<Named> = Vec::new();
    if let Some(of_path) = of_path {
        senders.push(of_path.sender(&path)?);
    }
    for law in &args.laws {
        senders.push(sender::of_law(law, &path)?);
    }
    let most_window_bytes = |own: u64| args.window.map_or(own, |window| window.min(own));
    let laws = senders.into_iter().map(|Named { name, mut sender }| {
        sender.most_window_bytes = most_window_bytes(sender.most_window_bytes);
        let outcome = wad_simulation::simulate(&Setup {
            path,
            sender,
            flows: args.flows,
            seconds: args.time.as_secs_f64(),
            lose: args.lose.clone(),
        });
        SimulatedLaw::of(name, sender.most_window_bytes, (&outcome, args.time.as_secs_f64()))
    });
    Ok(Simulated {
        rate_bits_per_second: path.bits_per_second,
        rtt_seconds: path.rtt_ns as f64 / 1e9,
        queue_bytes: path.queue_bytes,
        mtu_bytes: path.mtu_bytes,
        loss: path.loss,
        lose_packets: args.lose.clone(),
        carries_bits_per_second: path.carries_bits_per_second(),
        flows: args.flows,
        seconds: args.time.as_secs_f64(),
        seed: args.seed,
        laws: laws.collect(),
    })
}

fn path(args: &Simulate, of_path: Option<&OfPath>) -> Result<Path> {
    let of_file = of_path.map(OfPath::capacity).unwrap_or_default();
    let lacks = |what: &str, option: &str| {
        let name = args.path.as_deref().unwrap_or_default();
        anyhow!("the file has no `{what}` of path {name}: give {option}")
    };
    let given = args.rate.as_ref().map(|rate| rate.bits_per_second);
    let rate = given.or(of_file.bits_per_second).ok_or_else(|| lacks("bandwidth", "--rate"))?;
    let given = args.rtt.as_ref().map(|rtt| rtt.seconds);
    let rtt = given.or(of_file.rtt_seconds).ok_or_else(|| lacks("rtt", "--rtt"))?;
    let mut path = Path::new(rate, rtt, 0);
    path.mtu_bytes = args.mtu;
    path.loss = args.loss.unwrap_or(0.0);
    path.seed = args.seed;
    path.queue_bytes = match args.queue {
        Queue::Bytes(bytes) => bytes,
        Queue::Bdp(part) => (path.bdp_bytes() * part) as u64,
    };
    Ok(path.for_flows(args.flows))
}

impl SimulatedLaw {
    fn of(law: String, most_window_bytes: u64, (outcome, seconds): (&Outcome, f64)) -> Self {
        let decreases = || outcome.flows.iter().filter_map(|flow| flow.last_decrease);
        let longest = |times: &mut dyn Iterator<Item = f64>| times.reduce(f64::max);
        let back = decreases().filter_map(|it| Some(it.back_after_ns? as f64 / 1e9));
        let not_back = decreases()
            .filter(|it| it.back_after_ns.is_none())
            .map(|it| seconds - it.at_ns as f64 / 1e9);
        let course = outcome.course.iter().map(|point| CoursePoint {
            seconds: point.seconds,
            cwnd_segments: point.cwnd_segments,
            bits_per_second: point.bits_per_second,
            rtt_seconds: point.rtt_seconds,
            queue_seconds: point.queue_seconds,
            retransmitted_segments: point.resent_segments,
        });
        Self {
            law,
            most_window_bytes,
            bits_per_second: outcome.bits_per_second,
            last_half_bits_per_second: outcome.last_half_bits_per_second,
            full_after_seconds: outcome.full_after_seconds,
            lost_segments: outcome.lost_segments,
            retransmitted_segments: outcome.resent_segments,
            back_after_seconds: longest(&mut { back }),
            not_back_for_seconds: longest(&mut { not_back }),
            most_queue_bytes: outcome.most_queue_bytes,
            jain_index: outcome.jain(),
            connections_bits_per_second: outcome
                .flows
                .iter()
                .map(|flow| flow.bits_per_second)
                .collect(),
            course: course.collect(),
        }
    }
}
