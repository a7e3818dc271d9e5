//! Things happen to the agent and around it, by chance.

use std::{
    fs::File,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use wad_testbed::{
    cgroup::Cgroup,
    metrics::Metrics,
    netns::Netns,
    process::{Place, run},
    random::Random,
    signal,
    tcp::{Connection, at},
    wad::Agent,
};

use super::{
    counts::Counts,
    failures::Failures,
    ground::{Ground, MODES, PODS, PORT},
    load::Load,
    tally::Counted,
};
use crate::kills::Build;

/// The kernel's counts and those of the load are the same after so long at most.
const SETTLES_WITHIN: Duration = Duration::from_secs(30);
/// The agent's recount corrects the count of a close that no callback reported within this time.
const RECOUNTED_WITHIN: Duration = Duration::from_secs(60);
/// A start is killed before it is ready, at any moment of this time.
const START_US: u64 = 600_000;
const MOST_PODS: usize = 6;

/// The agent, and what is around it just now.
pub struct Weather<'a> {
    ground: &'a Ground<'a>,
    load: &'a Load,
    agent: Option<Agent<'a>>,
    build: Build,
    policy: usize,
    pods: Vec<(Netns, Connection)>,
    groups: Vec<Cgroup>,
    /// The counts at which this build began to count.
    since: Vec<(&'static str, Counted)>,
    failures: Failures,
    pub counts: Counts,
}

impl<'a> Weather<'a> {
    /// Starts the agent: before, nothing is counted.
    pub fn start(ground: &'a Ground<'a>, load: &'a Load) -> Result<Self> {
        let mut weather = Self {
            ground,
            load,
            agent: None,
            build: Build::This,
            policy: 0,
            pods: Vec::new(),
            groups: Vec::new(),
            since: Vec::new(),
            failures: Failures::default(),
            counts: Counts::default(),
        };
        load.paused(|| {
            weather.begin()?;
            // Before anybody goes on.
            weather.since = load.counted();
            Ok(weather)
        })
    }

    pub fn agent_id(&self) -> Result<u32> {
        Ok(self.agent.as_ref().context("there is an agent between events")?.id())
    }

    /// Has something happen.
    pub fn change(&mut self, random: &mut Random) -> Result<()> {
        match random.up_to(99) {
            0..30 => {
                self.policy = 1 - self.policy;
                self.ground.write_policy(self.policy)?;
                self.ground.reload()?;
                self.counts.reloads += 1;
            }
            30..42 => {
                self.stop()?;
                self.begin()?;
                self.counts.restarts += 1;
            }
            42..66 => self.kill(random)?,
            66..72 => self.upgrade(random)?,
            72..82 => self.pod_comes()?,
            82..88 => drop(self.pods.pop()),
            88..92 => {
                self.groups.push(self.ground.cgroup.create_below("group")?);
                self.counts.cgroups += 1;
            }
            92..95 => drop(self.groups.pop()),
            _ => {
                self.ground.services().change(random.up_to(1), random.up_to(MODES - 1));
                self.counts.services += 1;
            }
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.agent.take().map_or(Ok(()), Agent::stop).context("a stop")
    }

    fn begin(&mut self) -> Result<()> {
        self.agent = Some(self.ground.agent(self.build).context("a start")?);
        Ok(())
    }

    /// Kills the agent at any moment, and now and then the next one before it is ready.
    fn kill(&mut self, random: &mut Random) -> Result<()> {
        if let Some(agent) = self.agent.take() {
            agent.kill()?;
            self.counts.kills += 1;
        }
        while random.up_to(2) == 0 {
            let run = self.ground.home.run_on(&self.ground.cgroup);
            let mut command = self.ground.builds.command(self.build, &run);
            let log = File::options().append(true).open(self.ground.home.log_path())?;
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            let place = Place { netns: Some(self.ground.wire.a()), cgroup: None };
            let started = place.spawn(command)?;
            signal::sleep(Duration::from_micros(random.up_to(START_US)))?;
            drop(started);
            self.counts.kills += 1;
        }
        self.begin()
    }

    /// Another build takes over, and begins to count from zero: so what was counted until then is
    /// compared first.
    fn upgrade(&mut self, random: &mut Random) -> Result<()> {
        let load = self.load;
        load.paused(|| {
            self.compare()?;
            if random.up_to(1) == 0 {
                self.stop()?;
            } else if let Some(agent) = self.agent.take() {
                agent.kill()?;
                self.counts.kills += 1;
            }
            self.build = if self.build == Build::This { Build::Other } else { Build::This };
            self.begin()?;
            self.since = load.counted();
            self.counts.upgrades += 1;
            Ok(())
        })
    }

    fn pod_comes(&mut self) -> Result<()> {
        if self.pods.len() == MOST_PODS {
            self.pods.remove(0);
        }
        let netns = Netns::create("pod")?;
        netns.ip(&["link", "set", "lo", "up"])?;
        let connection = Connection::open(&netns, &netns, at(PODS.1, PORT))?;
        connection.exchange(10_000)?;
        self.pods.push((netns, connection));
        self.counts.namespaces += 1;
        Ok(())
    }

    /// Holds the agent's counts of each path against those of the load, which rests.
    fn compare(&mut self) -> Result<()> {
        let begun = Instant::now();
        let wrong = loop {
            let metrics = self.ground.metrics()?;
            let wrong = self.differences(&metrics)?;
            if wrong.is_empty() || begun.elapsed() > SETTLES_WITHIN {
                break wrong;
            }
            signal::sleep(Duration::from_millis(200))?;
        };
        self.counts.comparisons += 1;
        if wrong.is_empty() {
            return Ok(());
        }
        let open = self.open_connections()?;
        signal::sleep(RECOUNTED_WITHIN)?;
        let later = self.differences(&self.ground.metrics()?)?;
        self.failures.add(&format!(
            "of {:?} build: {}; open connections: {open:?}; {} s later: {later:?}",
            self.build,
            wrong.join(", "),
            RECOUNTED_WITHIN.as_secs(),
        ));
        Ok(())
    }

    /// Lists the short connections that are still open in the kernel, by `ss`: the agent is right not
    /// to count these as closed. There should be none while the load is paused.
    fn open_connections(&self) -> Result<Vec<String>> {
        let filter = format!("dport = :{PORT}");
        let sockets = self.ground.wire.a().run(|| run("ss", &["-HOtano", &filter]))??;
        Ok(sockets
            .lines()
            .filter(|line| !line.starts_with("TIME-WAIT"))
            .map(str::to_owned)
            .collect())
    }

    fn differences(&self, metrics: &Metrics) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for ((path, now), (_, since)) in self.load.counted().into_iter().zip(&self.since) {
            wrong.extend(now.since(*since).differs(metrics, path)?);
        }
        Ok(wrong)
    }

    /// Ends it all: the counts are compared, and the agent takes everything out. Returns what went
    /// wrong.
    pub fn end(&mut self) -> Result<Vec<String>> {
        let load = self.load;
        load.paused(|| self.compare())?;
        let log = self.ground.home.log();
        if log.contains("panicked") {
            self.failures.add("an agent panicked; see its log");
        }
        self.pods.clear();
        self.groups.clear();
        self.ground.home.keep_on_exit(false);
        self.ground.write_policy(0)?;
        self.ground.reload()?;
        ensure!(self.agent.is_some(), "there is an agent between events");
        self.stop()?;
        Ok(self.failures.take())
    }
}
