//! A whole run: some flows that are alike begin on an empty path, for a time.

use crate::{
    flow::{Decrease, Flow},
    path::Path,
    random::Random,
    sender::Sender,
    world::World,
};

/// Points of a course, at most.
const POINTS: f64 = 1000.0;
/// A path that carries so much of what it can is full.
const FULL: f64 = 0.9;

/// A setup says what is to be simulated.
#[derive(Clone, Debug)]
pub struct Setup {
    pub path: Path,
    pub sender: Sender,
    pub flows: u32,
    pub seconds: f64,
    /// Packets that the path loses, counted from 1, of all flows.
    pub lose: Vec<u64>,
}

/// The outcome of a run. Rates are of payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub bits_per_second: f64,
    /// The rate of the last half of the time.
    pub last_half_bits_per_second: f64,
    /// When the path first carried 0.9 of what it can.
    pub full_after_seconds: Option<f64>,
    pub lost_segments: u64,
    pub resent_segments: u64,
    pub most_queue_bytes: u64,
    pub flows: Vec<FlowOutcome>,
    pub course: Vec<Point>,
}

/// The outcome of one flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowOutcome {
    pub bits_per_second: f64,
    /// The last decrease that its window has come back from; else the last of all.
    pub last_decrease: Option<Decrease>,
}

/// All flows at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub seconds: f64,
    /// The sum of their windows.
    pub cwnd_segments: u64,
    /// The rate of what arrived since the point before.
    pub bits_per_second: f64,
    /// The first flow's, smoothed.
    pub rtt_seconds: f64,
    pub queue_seconds: f64,
    pub resent_segments: u64,
}

impl Outcome {
    /// Jain's index of fairness (Jain, Chiu, Hawe: DEC-TR-301, 1984): 1 where all flows have the
    /// same; None for one.
    #[must_use]
    pub fn jain(&self) -> Option<f64> {
        let rates = || self.flows.iter().map(|flow| flow.bits_per_second);
        let (sum, squares): (f64, f64) = (rates().sum(), rates().map(|rate| rate * rate).sum());
        (self.flows.len() > 1 && squares > 0.0)
            .then(|| sum * sum / (self.flows.len() as f64 * squares))
    }
}

/// Runs a setup. Connections take an RTT to be made; the first is begun at 0, the others at random
/// within an RTT.
#[must_use]
pub fn simulate(setup: &Setup) -> Outcome {
    let Setup { path, sender, flows, seconds, lose } = setup;
    let rtt_seconds = path.rtt_ns as f64 / 1e9;
    let mut random = Random::new(!path.seed);
    let mut world = World::new(*path, lose);
    for number in 0..*flows {
        let begins = if number == 0 { 0.0 } else { random.unit() * rtt_seconds };
        world = world.with(sender, *flows, begins + rtt_seconds);
    }
    let steps = (seconds / rtt_seconds).floor().clamp(2.0, POINTS) as u32;
    let steps = steps + steps % 2;
    let step_seconds = seconds / f64::from(steps);
    let bits = f64::from(path.mss_bytes()) * 8.0;
    let arrived = |world: &World| (0..world.flows.len()).map(|it| world.arrived(it)).collect();
    let mut course: Vec<Point> = Vec::with_capacity(steps as usize);
    let mut before: Vec<u64> = vec![0; world.flows.len()];
    let mut half = 0;
    for step in 1..=steps {
        world.run(f64::from(step) * step_seconds);
        let now: Vec<u64> = arrived(&world);
        let come = now.iter().sum::<u64>() - before.iter().sum::<u64>();
        course.push(point(&world, come as f64 * bits / step_seconds));
        if step == steps / 2 {
            half = now.iter().sum();
        }
        before = now;
    }
    let all: u64 = before.iter().sum();
    let sum = |count: fn(&Flow) -> u64| world.flows.iter().map(count).sum();
    let full = FULL * path.carries_bits_per_second();
    Outcome {
        bits_per_second: all as f64 * bits / seconds,
        last_half_bits_per_second: (all - half) as f64 * bits / (seconds / 2.0),
        full_after_seconds: course
            .iter()
            .find(|point| point.bits_per_second >= full)
            .map(|point| point.seconds),
        lost_segments: sum(Flow::lost),
        resent_segments: sum(Flow::resent),
        most_queue_bytes: world.most_queue_bytes(),
        flows: world
            .flows
            .iter()
            .zip(before)
            .map(|(flow, arrived)| FlowOutcome {
                bits_per_second: arrived as f64 * bits / seconds,
                last_decrease: flow.last_decrease(),
            })
            .collect(),
        course,
    }
}

fn point(world: &World, bits_per_second: f64) -> Point {
    let sum = |count: fn(&Flow) -> u64| world.flows.iter().map(count).sum();
    let rtt_us = world.flows.first().map_or(0, |flow| flow.tcp().srtt_us);
    Point {
        seconds: world.now_seconds(),
        cwnd_segments: sum(|flow| flow.tcp().cwnd_segments.into()),
        bits_per_second,
        rtt_seconds: f64::from(rtt_us) / 1e6,
        queue_seconds: world.queue_seconds(),
        resent_segments: sum(Flow::resent),
    }
}
