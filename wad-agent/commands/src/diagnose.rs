//! `wad diagnose`: what limits a flow, how that is known, and the policy that would
//! help.

use std::{thread, time::Duration};

use anyhow::{Result, bail};
use clap::Args;
use wad_agent::client::{self, ClientError, Request};
use wad_instruments::Reading;
use wad_observing::{
    diagnose::{
        Diagnoses, Diagnosis, Direction, FIELDS, Limit, LimitedThere, MOST_IN_FULL, OtherEnd, Page,
        Span, Target, courses, worst_first,
    },
    reading::Filter,
};
use wad_peers::told::{self, Peer};
use wad_policy::heard::is_spoken_for;
use wad_tuning::instance::Instance;

use crate::{
    arguments::{Ask, OwnerFilterArguments, parse_interval},
    flows, output,
    progress::Progress,
};

#[derive(Debug, Args)]
pub struct Diagnose {
    /// The flows to an address, or one by its cookie, which `wad flows` has; 0x before
    /// what `ss -e` shows [default: all flows of all paths]
    #[arg(value_name = "ADDRESS[:PORT]|COOKIE")]
    pub target: Option<Target>,
    /// How long to watch
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_interval,
          conflicts_with = "life")]
    pub seconds: Duration,
    /// Judge by a flow's whole life, at once
    #[arg(long)]
    pub life: bool,
    /// Connections on no path, too: what a path would be worth to them
    #[arg(long, conflicts_with = "life")]
    pub all: bool,
    #[command(flatten)]
    pub owners: OwnerFilterArguments,
    #[command(flatten)]
    pub ask: Ask,
}

/// Looks in the time that a flow is watched for: gauges are momentary.
const LOOKS: u32 = 20;

/// `wad diagnose`.
pub fn run(args: &Diagnose) -> Result<()> {
    let progress = Progress::of("watching connections");
    let readings = watch(args)?;
    drop(progress);
    let span = if args.life { Span::Life } else { Span::Watched };
    let courses = courses(&readings, args.target, span);
    if courses.is_empty() {
        bail!(nothing_found(args));
    }
    let mut diagnoses: Vec<Diagnosis> = courses.iter().map(Diagnosis::new).collect();
    // With many, that is a question to the kernel for each.
    if diagnoses.len() <= MOST_IN_FULL {
        let with_mtu = diagnoses.into_iter().zip(&courses);
        diagnoses = with_mtu.map(|(diagnosis, course)| diagnosis.with_mtu(course)).collect();
    }
    let told = client::ask_instance(&args.ask.instance.name, &Request::get(told::PEERS));
    let peers = peers(told)?;
    for diagnosis in &mut diagnoses {
        diagnosis.other_end = other_end(&peers, diagnosis);
    }
    worst_first(&mut diagnoses);
    if args.ask.json {
        return output::print_json(&Diagnoses { flows: diagnoses });
    }
    output::print(Page(&diagnoses))
}

/// Returns what the agents at other ends say of what limits there. An agent of before there
/// were peers has heard nothing.
fn peers(told: Result<told::Peers>) -> Result<Vec<Peer>> {
    match told {
        Ok(told) => Ok(told.peers),
        Err(error) => match error.downcast_ref() {
            Some(ClientError::Refused { status: 404, .. }) => Ok(Vec::new()),
            _ => Err(error),
        },
    }
}

/// Returns what the other end of a flow says of that direction, if it is one that is heard.
fn other_end(peers: &[Peer], diagnosis: &Diagnosis) -> Option<OtherEnd> {
    let remote = diagnosis.remote.ip();
    let (peer, heard) = peers.iter().find_map(|peer| {
        let heard = peer.heard.as_ref()?;
        is_spoken_for(&heard.prefixes, remote).then_some((&peer.name, heard))
    })?;
    let (there, max_buffer_bytes) = match diagnosis.finding.direction {
        Direction::Sending => (&heard.receiving, heard.max_rcvbuf_bytes),
        Direction::Receiving => (&heard.sending, heard.max_sndbuf_bytes),
    };
    let limited = there.limited_by.iter();
    let mut limited_by: Vec<_> = limited
        .filter_map(|(key, &part)| Some(LimitedThere { limit: Limit::of_key(key)?, part }))
        .collect();
    limited_by.sort_by(|a, b| b.part.total_cmp(&a.part));
    Some(OtherEnd {
        peer: peer.clone(),
        age_seconds: heard.age_seconds,
        limited_by,
        max_buffer_bytes,
        law: there.law.as_ref().map(|law| law.value.clone()),
    })
}

fn nothing_found(args: &Diagnose) -> String {
    let what = match args.target {
        None => "no flow of any path".to_owned(),
        Some(Target::Cookie(cookie)) => format!("no flow with cookie {cookie}"),
        Some(Target::Remote(end)) => format!("no flow to {end}"),
    };
    let when = if args.life { "is there" } else { "lasted for that long" };
    let who = if args.all {
        "`wad flows --all` lists those that there are"
    } else {
        "`wad flows` lists those that fall under a path, and `--all` looks at the others, too"
    };
    format!("{what} {when}; {who}")
}

fn watch(args: &Diagnose) -> Result<Vec<Reading>> {
    let filter = args.target.map_or_else(Filter::default, Target::to_filter);
    let filter = Filter { owners: args.owners.to_filter(), all: args.all, ..filter };
    let ask = || read_flows(&args.ask.instance.name, &filter);
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

/// Reads what the agent sees of flows now, with all that a diagnosis needs.
pub fn read_flows(instance: &Instance, filter: &Filter) -> Result<Reading> {
    let fields = FIELDS.map(str::to_owned).to_vec();
    flows::ask(instance, &Filter { fields, ..filter.clone() })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn an_agent_that_knows_no_peers_has_heard_nothing_of_them() {
        let refused = |status| {
            let (socket, reason) = (PathBuf::from("/run/wad/default.sock"), String::new());
            Err(ClientError::Refused { socket, status, reason }.into())
        };
        assert_eq!(peers(refused(404)).unwrap(), []);
        let why = peers(refused(500)).unwrap_err().to_string();
        assert!(why.contains("(500)"), "{why}");
        assert_eq!(peers(Ok(told::Peers::default())).unwrap(), []);
    }
}
