//! Runs a scenario: each variant on a fresh path, with or without the agent,
//! variants alternated so that whatever drifts on the machine hits all alike.

use std::{
    fs::File,
    io::{self, Read, Seek},
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::{
    bulk::{Received, Sent},
    iperf3,
    measure::{SAMPLE_EVERY, Series, Sight, Watch, WatchError},
    progress::Line,
    record::Record,
    report::{self, Report},
    scenario::{Scenario, Variant},
    settings::{self, HostDefaults, SettingsError},
    wan::{ADDRESSES_V4, Wan, WanError},
};
use crate::{
    cgroup::{Cgroup, CgroupError},
    monotonic_ns,
    netns::{Netns, NetnsError},
    process::{Place, Process, ProcessError, run},
    signal,
    sysctl::SysctlError,
    wad::{Home, WadError},
};

const PORT: u16 = 5001;
/// For what a full buffer holds when the sender stops, and for slow machines.
const GRACE: Duration = Duration::from_secs(60);
/// The receiver is only asked for its buffer.
const LOOK_AT_RECEIVER_EVERY: Duration = Duration::from_secs(1);

/// What made an experiment fail.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(transparent)]
    Wan(#[from] WanError),
    #[error(transparent)]
    Netns(#[from] NetnsError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    #[error(transparent)]
    Wad(#[from] WadError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error(transparent)]
    Interrupted(#[from] signal::Interrupted),
    #[error("cannot keep the {who}'s output")]
    Output { who: &'static str, source: io::Error },
    #[error("the {who} failed: {reason}")]
    Client { who: &'static str, reason: String },
    #[error("the sender sent {sent} bytes, the receiver took {received}")]
    Lost { sent: u64, received: u64 },
    #[error("cannot read the counters in /proc/net/snmp")]
    Counters(#[source] io::Error),
    #[error("someone else changed the host's settings during a run: try again")]
    Disturbed,
    #[error("ss saw no flow")]
    Unseen,
}

/// Who sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Own,
    Iperf3,
}

/// How far a run is.
pub struct Progress<'a> {
    pub scenario: &'a str,
    pub variant: &'a str,
    pub repeat: u32,
    pub elapsed: Duration,
    pub cwnd_segments: u32,
}

/// A laboratory.
pub struct Lab {
    /// The `wad-lab` binary, which is the bulk sender and receiver too.
    pub own: PathBuf,
    /// The `wad` binary.
    pub wad: PathBuf,
    pub client: Client,
}

impl Lab {
    /// Runs every variant so many times.
    ///
    /// # Errors
    /// At the first run that fails; nothing is left behind.
    pub fn run(&self, scenario: &Scenario, repeats: u32, line: &Line) -> Result<Report, LabError> {
        let _host = HostDefaults::set()?;
        let mut variants: Vec<_> = scenario.variants.iter().map(report::Variant::of).collect();
        for repeat in 1..=repeats {
            for (variant, result) in scenario.variants.iter().zip(&mut variants) {
                let begun = Instant::now();
                let show = |sight: Option<&Sight>| {
                    line.show(&Progress {
                        scenario: &scenario.name,
                        variant: &variant.name,
                        repeat,
                        elapsed: begun.elapsed(),
                        cwnd_segments: sight.map_or(0, |sight| sight.cwnd(variant.streams)),
                    });
                };
                self.run_once(scenario, variant, result, &show)?;
            }
        }
        Ok(Report {
            scenario: scenario.name.clone(),
            paper: scenario.paper.clone(),
            client: if self.client == Client::Own { "own" } else { "iperf3" },
            seconds: scenario.seconds,
            path: report::Path::of(&scenario.path),
            variants,
        })
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
        let home = variant.policy.as_deref().map(|policy| Home::create(&self.wad, policy));
        let home = home.transpose()?;
        let agent = home.as_ref().map(|home| home.start(&cgroup)).transpose()?;
        let wan = Wan::start(&scenario.path)?;
        settings::apply(&wan)?;
        let settings = settings::effective(&wan)?;
        let record = self.transfer(&wan, &cgroup, (scenario.seconds, variant.streams), show)?;
        if settings::effective(&wan)? != settings {
            return Err(LabError::Disturbed);
        }
        result.settings = settings;
        result
            .settings
            .insert("wad", variant.policy.as_deref().unwrap_or("not running").to_owned());
        let (congestion, sample) = record.sample(scenario, variant, &wan)?;
        result.congestion = congestion;
        result.add(sample);
        drop(wan);
        agent.map_or(Ok(()), |agent| Ok(agent.stop()?))
    }

    fn transfer(
        &self,
        wan: &Wan,
        cgroup: &Cgroup,
        (seconds, streams): (u32, u32),
        show: &dyn Fn(Option<&Sight>),
    ) -> Result<Record, LabError> {
        let to = SocketAddr::new(ADDRESSES_V4[1].parse().expect("a constant IPv4 address"), PORT);
        let span = Duration::from_secs(seconds.into());
        let (receive, send) = match self.client {
            Client::Iperf3 => (iperf3::server(to), iperf3::client(to, streams, span)),
            Client::Own => (
                self.own_command(&["receive", &to.to_string(), &streams.to_string()]),
                self.own_command(&[
                    "send",
                    &to.to_string(),
                    &streams.to_string(),
                    &seconds.to_string(),
                ]),
            ),
        };
        let mut receiver = Peer::start("receiver", receive, (wan.b(), cgroup))?;
        receiver.wait_listening(wan.b())?;
        let started_ns = monotonic_ns();
        let (sending, receiving) = (Watch::default(), Watch::default());
        let filters = [format!("dport = :{PORT}"), format!("sport = :{PORT}")];
        let outputs = thread::scope(|scope| {
            let watchers = [
                scope.spawn(|| sending.run(wan.a(), &filters[0], SAMPLE_EVERY)),
                scope.spawn(|| receiving.run(wan.b(), &filters[1], LOOK_AT_RECEIVER_EVERY)),
            ];
            let outputs = Peer::start("sender", send, (wan.a(), cgroup)).and_then(|mut sender| {
                let limit = span + GRACE;
                let sent = sender.finish(limit, || show(sending.latest().as_ref()))?;
                Ok((sent, receiver.finish(GRACE, || ())?))
            });
            sending.stop();
            receiving.stop();
            // The sender's fault is the cause, where there is another one too.
            let outputs = outputs?;
            for watcher in watchers {
                watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok::<_, LabError>(outputs)
        })?;
        self.record(outputs, [sending, receiving].map(Watch::into_sights), started_ns)
    }

    fn own_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.own);
        command.args(arguments);
        command
    }

    fn record(
        &self,
        (sent, received): (String, String),
        [sights, far_sights]: [Vec<Sight>; 2],
        started_ns: u64,
    ) -> Result<Record, LabError> {
        if self.client == Client::Iperf3 {
            let goodput = iperf3::goodput(&received)
                .map_err(|reason| LabError::Client { who: "receiver", reason })?;
            // It gives no times on our clock: what ss saw acknowledged does.
            let acked = |sight: &Sight| sight.flows.iter().map(|flow| flow.bytes_acked).sum();
            let points = sights.iter().map(|sight| (sight.time_ns, acked(sight))).collect();
            let series = Series::new(points);
            return Ok(Record { started_ns, goodput: Some(goodput), series, sights, far_sights });
        }
        let unreadable = |who| {
            move |error: serde_json::Error| LabError::Client { who, reason: error.to_string() }
        };
        let sent: Sent = serde_json::from_str(&sent).map_err(unreadable("sender"))?;
        let received: Received = serde_json::from_str(&received).map_err(unreadable("receiver"))?;
        if sent.bytes != received.bytes {
            return Err(LabError::Lost { sent: sent.bytes, received: received.bytes });
        }
        let (started_ns, series) = (sent.started_ns, Series::new(received.counts));
        Ok(Record { started_ns, goodput: None, series, sights, far_sights })
    }
}

/// A sender or receiver and what it prints.
struct Peer {
    who: &'static str,
    process: Process,
    output: File,
}

impl Peer {
    fn start(
        who: &'static str,
        mut command: Command,
        (netns, cgroup): (&Netns, &Cgroup),
    ) -> Result<Self, LabError> {
        let failed = |source| LabError::Output { who, source };
        let output = tempfile::tempfile().map_err(failed)?;
        let copy = output.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(copy);
        let place = Place { netns: Some(netns), cgroup: Some(cgroup) };
        Ok(Self { who, process: place.spawn(command)?, output })
    }

    fn wait_listening(&mut self, netns: &Netns) -> Result<(), LabError> {
        let begun = Instant::now();
        let filter = format!("sport = :{PORT}");
        while begun.elapsed() < GRACE {
            if !netns.run(|| run("ss", &["-ltnH", &filter]))??.trim().is_empty() {
                return Ok(());
            }
            if self.process.ended()?.is_some() {
                break;
            }
            signal::sleep(Duration::from_millis(20))?;
        }
        Err(LabError::Client { who: self.who, reason: "it does not listen".to_owned() })
    }

    /// Its output, when it has ended.
    fn finish(&mut self, limit: Duration, meanwhile: impl FnMut()) -> Result<String, LabError> {
        let who = self.who;
        let status = self.process.wait(limit, meanwhile)?;
        let mut text = String::new();
        self.output.rewind().map_err(|source| LabError::Output { who, source })?;
        self.output.read_to_string(&mut text).map_err(|source| LabError::Output { who, source })?;
        if status.success() {
            return Ok(text);
        }
        // iperf3 gives its reason on stdout, as JSON; ours on stderr, shown.
        let reason = iperf3::goodput(&text).err().filter(|_| !text.is_empty());
        Err(LabError::Client { who, reason: reason.unwrap_or_else(|| status.to_string()) })
    }
}
