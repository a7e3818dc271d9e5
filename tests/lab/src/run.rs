//! Runs a scenario: each variant on a fresh path, with or without the agent,
//! variants alternated so that whatever drifts on the machine hits all alike.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use wad_testbed::{
    both_ends::{Credentials, End, await_path_by_peer},
    cgroup::Cgroup,
    emulated::wan::{ADDRESSES_V4, Wan},
    process::run_command,
    qdisc, say,
    settings::{self, Ecn, HostDefaults, OwnDefaults},
    signal,
    trace::{Event, Trace},
    tracing::{Tracing, TracingError},
    wad::{Agent, Home},
};

use crate::{
    bpftune::Bpftune,
    client::Client,
    lab::{Lab, LabError},
    measure::Sight,
    memory,
    monitor::Monitor,
    processors::Processors,
    progress::{Line, Progress},
    record::Record,
    report::{self, Report},
    responses::{self, Responses},
    scenario::{Group, Plan, Scenario, Variant},
    second_path::SecondPath,
    transfer::Bed,
};

/// Both ends speak for all addresses of the path.
const NETWORK: &str = "10.77.0.0/16";
const BETWEEN_RUNS: Duration = Duration::from_millis(300);
/// Connections that nobody reads come over this part of the transfer: the last of them is
/// there, and has filled up, before that ends.
const FILLED_OVER: f64 = 0.75;

impl Lab {
    /// Runs every variant so many times. Random losses differ from one time to
    /// the next, but are the same for all variants, and when it is run again.
    ///
    /// # Errors
    /// At the first run that fails; nothing is left behind.
    pub fn run(&self, scenario: &Scenario, repeats: u32, line: &Line) -> Result<Report, LabError> {
        let scenario = &self.planned(scenario)?;
        for variant in &scenario.variants {
            let client = self.client_for(scenario, variant);
            client.ensure_there()?;
            if client == Client::Iperf3 && variant.groups.len() > 1 {
                return Err(LabError::OwnClientOnly { variant: variant.name.clone() });
            }
        }
        if self.traces.is_some()
            && let Some(without) = scenario.variants.iter().find(|one| one.policy.is_none())
        {
            return Err(LabError::Untraced { variant: without.name.clone() });
        }
        let mut report = Report::of(scenario, self.client_of(scenario));
        for repeat in 1..=repeats {
            for (variant, result) in scenario.variants.iter().zip(&mut report.variants) {
                if variant.repeat.is_some_and(|most| repeat > most) {
                    continue;
                }
                let begun = Instant::now();
                let show = |sight: Option<&Sight>| {
                    line.show(&Progress {
                        scenario: &scenario.name,
                        variant: &variant.name,
                        repeat,
                        elapsed: begun.elapsed(),
                        cwnd_segments: sight.map_or(0, |sight| sight.cwnd(&variant.groups)),
                    });
                };
                let mut variant = variant.clone();
                variant.path.seed += u64::from(repeat) - 1;
                let host = HostDefaults::set()?;
                self.run_once(scenario, &variant, result, &show)?;
                drop(host);
                // Another experiment that waits for its turn looks every 100 ms.
                signal::sleep(BETWEEN_RUNS)?;
            }
        }
        Ok(report)
    }

    /// Moves the data of a variant once, by whoever does that.
    pub(crate) fn moved(
        &self,
        bed: &Bed<'_>,
        scenario: &Scenario,
        variant: &Variant,
        show: &dyn Fn(Option<&Sight>),
    ) -> Result<Record, LabError> {
        match self.client_for(scenario, variant) {
            Client::Curl => bed.fetch(scenario, variant, show),
            Client::Own | Client::Iperf3 => bed.transfer(scenario, variant, show),
        }
    }

    /// Asks `wad plan` or `wad suggest` for the policies that are taken from it. Variants
    /// whose policy it does not print are left out, and have no figures.
    fn planned(&self, scenario: &Scenario) -> Result<Scenario, LabError> {
        let mut planned = scenario.clone();
        for variant in &mut planned.variants {
            let Some(which) = variant.plan else { continue };
            let question = which.arguments(&variant.path);
            let printed = match which {
                Plan::Suggested => self.suggested(scenario, variant)?,
                _ => run_command(Command::new(&self.wad).args(&question))?,
            };
            variant.policy = which.policy(&printed);
            if variant.policy.is_none() {
                let (name, question) = (&variant.name, question.join(" "));
                say(&format!(
                    "{name} is not run: `wad {question}` prints no {} for it",
                    which.words()
                ));
            }
        }
        planned.variants.retain(|variant| variant.plan.is_none() || variant.policy.is_some());
        Ok(planned)
    }

    fn run_once(
        &self,
        scenario: &Scenario,
        variant: &Variant,
        result: &mut report::Variant,
        show: &dyn Fn(Option<&Sight>),
    ) -> Result<(), LabError> {
        signal::check()?;
        let cgroup = Cgroup::create("lab")?;
        let monitor = variant.monitor;
        let monitor = monitor.map(|by| Monitor::start(by, &variant.path, &self.wad)).transpose()?;
        let source = monitor.as_ref().map_or_else(String::new, Monitor::source);
        let own = variant.is_first.then(OwnDefaults::set).transpose()?;
        let limits = if variant.is_routed { default_limits()? } else { String::new() };
        let credentials = variant.has_peers.then(|| Credentials::make(&self.wad, [NETWORK; 2]));
        let credentials = credentials.transpose()?;
        let tables = |end| credentials.as_ref().map(|it| it.tables(end, ""));
        let peers = tables(End::Near).unwrap_or_default();
        let policy = variant.policy.as_deref();
        let home = policy.map(|policy| format!("{source}{peers}{policy}{limits}"));
        let home = home.map(|text| Home::create(&self.wad, &text)).transpose()?;
        let outside = home.as_ref().filter(|_| !variant.is_routed);
        let agent = outside.map(|home| home.start(&cgroup)).transpose()?;
        let far_home = tables(End::Far).map(|text| Home::create(&self.wad, &text)).transpose()?;
        let far_cgroup = variant.has_peers.then(|| Cgroup::create("lab-far")).transpose()?;
        let far_ends = far_home.as_ref().zip(far_cgroup.as_ref());
        let far_agent = far_ends.map(|(home, cgroup)| home.start(cgroup)).transpose()?;
        if let Some((home, _)) = far_ends {
            await_path_by_peer(home)?;
        }
        if let (Some(monitor), Some(home)) = (&monitor, &home) {
            monitor.wait_heard(home)?;
        }
        let wan = match &variant.sender_queue {
            None if variant.is_first => Wan::start_from_here(&variant.path)?,
            None => Wan::start(&variant.path)?,
            Some(discipline) => Wan::start_behind_wire(&variant.path, discipline)?,
        };
        settings::apply(&wan)?;
        settings::change(&wan, &variant.sysctls)?;
        let inside = home.as_ref().filter(|_| variant.is_routed);
        let inside = inside.map(|home| home.start_inside(wan.a(), &cgroup)).transpose()?;
        let agent = agent.or(inside);
        if scenario.ecn {
            settings::ask_for_ecn(&wan, Ecn::Classic)?;
        }
        // What bpftune changes from its start on, it takes back.
        let before_bpftune = variant.has_bpftune.then(|| settings::effective(&wan)).transpose()?;
        let bpftune = variant.has_bpftune.then(Bpftune::start).transpose()?;
        let ports = variant.groups.iter().flat_map(Group::ports);
        let ports = ports.clone().min().unwrap_or(0)..=ports.max().unwrap_or(0);
        let bed = Bed { lab: self, wan: &wan, cgroup: &cgroup, far_cgroup: far_cgroup.as_ref() };
        for _ in 1..variant.transfer {
            self.moved(&bed, scenario, variant, show)?;
            signal::sleep(scenario.pause.0)?;
        }
        // An agent that measures has raised ceilings by now.
        let settings = before_bpftune.map_or_else(|| settings::effective(&wan), Ok)?;
        let trace = variant.sender_queue.as_ref().map(|_| Trace::start(ports)).transpose()?;
        let traced = self.traces.as_ref().zip(home.as_ref());
        let tracing =
            traced.map(|(folder, home)| traced_to(folder, home, scenario, variant)).transpose()?;
        let over = Duration::from_secs(scenario.seconds().unwrap_or_default().into());
        let second = (variant.unread > 0)
            .then(|| SecondPath::start(&bed, variant, over.mul_f64(FILLED_OVER)))
            .transpose()?;
        let before = Processors::read().map_err(LabError::Processors)?;
        let (record, memory) = memory::watched(|| self.moved(&bed, scenario, variant, show))?;
        let record = record?;
        let after = Processors::read().map_err(LabError::Processors)?;
        tracing.map(Tracing::finish).transpose()?;
        let events = trace.map(Trace::finish).transpose()?;
        let said = bpftune.map(Bpftune::stop).transpose()?;
        // It has changed them, at one end or at both, and has taken that back by now.
        if said.is_none() && settings::effective(&wan)? != settings {
            return Err(LabError::Disturbed);
        }
        result.settings = settings;
        let policy = variant.policy.as_deref().unwrap_or("not running");
        result.settings.insert("wad".to_owned(), policy.to_owned());
        let mut sample = record.sample(scenario, variant, &wan)?;
        sample.idle_share = after.idle_share_since(&before);
        sample.bpftune_said = said.unwrap_or_default();
        sample.memory = Some(memory);
        sample.unread = second.map(SecondPath::finish).transpose()?;
        if let Some(events) = events {
            let cuts = sample.registered_congestion != "bbr";
            sample.responses = Some(responses(&wan, variant, &events, cuts)?);
        }
        result.add(sample);
        drop(wan);
        agent.map_or(Ok(()), Agent::stop)?;
        far_agent.map_or(Ok(()), Agent::stop)?;
        drop(own);
        Ok(())
    }
}

/// Returns the limits that an agent has by default, for one in a network namespace that
/// cannot see them.
fn default_limits() -> Result<String, LabError> {
    Ok(format!("\n[limits]\nmax_memory = {}\n", memory::default_limit_bytes()?))
}

fn traced_to(
    folder: &Path,
    home: &Home,
    scenario: &Scenario,
    variant: &Variant,
) -> Result<Tracing, TracingError> {
    let out = folder.join(format!("{}.jsonl", variant.name));
    let interval = format!("{}ms", scenario.sample_every.0.as_millis());
    Tracing::start(home, &["--interval", &interval, "--remote", ADDRESSES_V4[1]], &out)
}

fn responses(
    wan: &Wan,
    variant: &Variant,
    events: &[Event],
    cuts_threshold: bool,
) -> Result<Responses, LabError> {
    // The echo of a mark is back after an RTT, with queues perhaps two; the answer
    // waits for the end of the kernel's to a full queue, another RTT.
    let echo_ns = 3 * variant.path.rtt.nanoseconds();
    let counted = responses::count(events, &wan.moments().marks_ns, echo_ns);
    let local_drops = qdisc::of(wan.a(), wan.near_device())?.drops;
    let cuts = counted.cuts.filter(|_| cuts_threshold);
    Ok(Responses { local_drops, cuts, ..counted })
}
