//! `wad diagnose`: what limits a flow, how that is known, and the policy that would
//! help. The judgement is a pure function of what the instruments said meanwhile.

mod advice;
mod course;
mod limit;
mod mtu;
mod receiver;
mod sender;
mod show;
mod target;
#[cfg(test)]
mod tests;
mod triage;

use std::{cmp::Reverse, collections::HashMap, net::SocketAddr, sync::Arc, thread};

use anyhow::{Result, bail};
use serde::Serialize;

use self::{
    advice::{Advice, advise},
    course::Span,
    triage::{Direction, Finding, triage},
};
pub use self::{course::Course, limit::Limit, target::Target};
use crate::{
    cli,
    flows::{self, Filter},
    instance::Instance,
    instruments::{Flow, Reading},
    output,
};

/// Looks in the time that a flow is watched for: gauges are momentary.
const LOOKS: u32 = 20;
/// Fields of `tcp_sock` that are looked at beside the standard instruments.
const FIELDS: [&str; 4] = [sender::MAX_WINDOW, sender::MAX_PACING, sender::QUEUED, mtu::PATH_MTU];

/// What is said of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    pub cookie: u64,
    pub path: Arc<str>,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub congestion: Arc<str>,
    #[serde(flatten)]
    pub finding: Finding,
    pub bits_per_second: Option<f64>,
    pub advice: Advice,
    /// Packets could be larger, or why that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<String>,
}

impl Diagnosis {
    #[must_use]
    pub fn new(course: &Course<'_>) -> Self {
        let flow = course.flow();
        let finding = triage(course);
        let counter = match finding.direction {
            Direction::Sending => "HCThruOctetsAcked",
            Direction::Receiving => "HCThruOctetsReceived",
        };
        Self {
            cookie: flow.cookie,
            path: Arc::clone(&flow.path),
            local: flow.local,
            remote: flow.remote,
            congestion: Arc::clone(&flow.congestion),
            bits_per_second: course.rate(counter).map(|rate| rate * 8.0),
            advice: advise(finding.limit, course),
            finding,
            mtu: None,
        }
    }

    fn with_mtu(mut self, course: &Course<'_>) -> Self {
        self.mtu = match mtu::interface(course.flow()) {
            Ok(Some(interface)) => mtu::shortfall(course, &interface),
            Ok(None) => Some("its network namespace, or its route, is out of sight".to_owned()),
            Err(error) => Some(format!("its interface cannot be found: {error}")),
        };
        self
    }
}

/// In short, for many flows at a time.
#[must_use]
pub fn limit(course: &Course<'_>) -> Limit {
    triage(course).limit
}

/// `wad diagnose`.
pub fn run(args: &cli::Diagnose) -> Result<()> {
    let readings = watch(args)?;
    let span = if args.life { Span::Life } else { Span::Watched };
    let courses = courses(&readings, args.target, span);
    if courses.is_empty() {
        bail!(nothing_found(args));
    }
    let mut diagnoses: Vec<Diagnosis> = courses.iter().map(Diagnosis::new).collect();
    // With many, that is a question to the kernel for each.
    if diagnoses.len() <= show::MOST_IN_FULL {
        let with_mtu = diagnoses.into_iter().zip(&courses);
        diagnoses = with_mtu.map(|(diagnosis, course)| diagnosis.with_mtu(course)).collect();
    }
    worst_first(&mut diagnoses);
    if args.ask.json {
        return output::print_json(&diagnoses);
    }
    output::print(show::Page(&diagnoses))
}

fn nothing_found(args: &cli::Diagnose) -> String {
    let what = match args.target {
        None => "no flow of any path".to_owned(),
        Some(Target::Cookie(cookie)) => format!("no flow with cookie {cookie}"),
        Some(Target::Remote(end)) => format!("no flow to {end}"),
    };
    let when = if args.life { "is there" } else { "lasted for that long" };
    format!(
        "{what} {when}; the agent sees flows that fall under a path only (`mode = \"observe\"` is \
         enough), and `wad flows` lists them"
    )
}

fn watch(args: &cli::Diagnose) -> Result<Vec<Reading>> {
    let ask = || read_flows(&args.ask.instance.name, args.target);
    if args.life {
        return Ok(vec![ask()?]);
    }
    let mut readings: Vec<Reading> = vec![ask()?];
    for _ in 0..LOOKS {
        thread::sleep(args.seconds / LOOKS);
        readings.push(ask()?);
    }
    Ok(readings)
}

/// What the agent sees of flows now, with all that a diagnosis needs.
pub fn read_flows(instance: &Instance, target: Option<Target>) -> Result<Reading> {
    let filter = target.map_or_else(Filter::default, Target::to_filter);
    let fields = FIELDS.map(str::to_owned).to_vec();
    flows::ask(instance, &Filter { fields, ..filter })
}

/// Of the flows that were there until the last look.
fn courses(readings: &[Reading], target: Option<Target>, span: Span) -> Vec<Course<'_>> {
    let mut samples: HashMap<u64, Vec<&Flow>> = HashMap::new();
    for flow in readings.iter().flat_map(|reading| &reading.flows) {
        if target.is_none_or(|target| target.is(flow)) {
            samples.entry(flow.cookie).or_default().push(flow);
        }
    }
    let last = readings.iter().next_back().map_or(&[][..], |reading| &reading.flows);
    let still_there = last.iter().filter_map(|flow| samples.remove(&flow.cookie));
    still_there.filter_map(|samples| Course::new(samples, span)).collect()
}

fn worst_first(diagnoses: &mut [Diagnosis]) {
    diagnoses.sort_by_key(|diagnosis| {
        let Finding { limit, share, .. } = &diagnosis.finding;
        let thousandths = (share.unwrap_or(0.0) * 1e3) as u32;
        (limit.urgency(), Reverse(thousandths), diagnosis.cookie)
    });
}
