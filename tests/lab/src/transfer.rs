//! One transfer goes over a path that is up: with receivers, senders, what is sent
//! against them, and those who watch.

use std::{
    fs::File,
    io::{self, Read, Seek},
    net::{IpAddr, SocketAddr},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde::de::DeserializeOwned;
use wad_testbed::{
    cgroup::Cgroup,
    emulated::wan::{ADDRESSES_V4, Wan},
    monotonic_ns,
    netns::Netns,
    process::{Place, Process, run},
    signal,
};

use crate::{
    bulk::{Amount, Received, Sent},
    cli,
    client::Client,
    counters::TcpCounters,
    iperf3,
    lab::{Lab, LabError},
    measure::{Series, Sight, Watch},
    record::Record,
    scenario::{Group, Load, Scenario, Variant},
    udp,
};

/// Transfers have this time for what a full buffer holds when the sender stops, and for
/// slow machines.
const GRACE: Duration = Duration::from_secs(180);
/// Transfers of so many bytes may take this long at most.
const BYTES_LIMIT: Duration = Duration::from_secs(600);
/// All senders are there within this time, before the first one starts.
const LEAD: Duration = Duration::from_millis(200);
/// The receiver is only asked for its buffer.
const LOOK_AT_RECEIVER_EVERY: Duration = Duration::from_secs(1);

/// The place where a transfer takes place.
pub struct Bed<'a> {
    pub lab: &'a Lab,
    pub wan: &'a Wan,
    pub cgroup: &'a Cgroup,
}

impl Bed<'_> {
    /// Runs the transfer, showing now and then what is seen.
    ///
    /// # Errors
    /// When someone fails.
    pub fn transfer(
        &self,
        scenario: &Scenario,
        variant: &Variant,
        show: &dyn Fn(Option<&Sight>),
    ) -> Result<Record, LabError> {
        let mut receivers = Vec::new();
        for group in &variant.groups {
            let mut receiver = self.start("receiver", self.receive(group), self.wan.b())?;
            receiver.wait_listening(self.wan.b(), group.port)?;
            receivers.push(receiver);
        }
        let counters_before = self.wan.a().run(TcpCounters::read)?.map_err(LabError::Counters)?;
        let start_ns = monotonic_ns() + LEAD.as_nanos() as u64;
        let (sending, receiving) = (Watch::default(), Watch::default());
        let filters = ["dport", "sport"].map(|name| {
            let ports = variant.groups.iter().map(|group| format!("{name} = :{}", group.port));
            format!("( {} )", ports.collect::<Vec<_>>().join(" or "))
        });
        let (wan, every) = (self.wan, scenario.sample_every.0);
        let outputs = thread::scope(|scope| {
            let watchers = [
                scope.spawn(|| sending.run(wan.a(), &filters[0], every)),
                scope.spawn(|| receiving.run(wan.b(), &filters[1], LOOK_AT_RECEIVER_EVERY)),
            ];
            let burst = scenario.burst.as_ref().map(|burst| {
                scope.spawn(move || wan.a().run(|| udp::send(burst, address(), start_ns)))
            });
            let show = || show(sending.latest().as_ref());
            let outputs = self.send(scenario, variant, start_ns, &show).and_then(|sent| {
                let received = receivers.iter_mut().map(|peer| peer.finish(GRACE, || ()));
                Ok((sent, received.collect::<Result<Vec<_>, _>>()?))
            });
            sending.stop();
            receiving.stop();
            // The sender's fault is the cause, where there is another one too.
            let outputs = outputs?;
            for watcher in watchers {
                watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            if let Some(burst) = burst {
                let sent = burst.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                sent.map_err(LabError::Burst)?;
            }
            Ok::<_, LabError>(outputs)
        })?;
        let [sights, far_sights] = [sending, receiving].map(Watch::into_sights);
        let record = Record {
            start_ns,
            counters_before,
            end_ns: 0,
            goodput: None,
            streams: vec![],
            sights,
            far_sights,
        };
        let record = match self.lab.client {
            Client::Own => own_record(record, outputs)?,
            Client::Iperf3 => iperf3_record(record, &outputs.1)?,
        };
        Ok(record.until(scenario.load))
    }

    /// Runs the senders to their end: what they printed.
    fn send(
        &self,
        scenario: &Scenario,
        variant: &Variant,
        start_ns: u64,
        show: &dyn Fn(),
    ) -> Result<Vec<String>, LabError> {
        let mut senders = Vec::new();
        for group in &variant.groups {
            let amount = amount(scenario.load, group, variant.streams());
            let command = match self.lab.client {
                Client::Iperf3 => iperf3::client(to(group), group.streams, amount),
                Client::Own => {
                    let mut command = cli::sender(&self.lab.own, to(group), group.streams, amount);
                    let start_ns = start_ns + group.start.nanoseconds();
                    command.arg(format!("--start-ns={start_ns}"));
                    command
                }
            };
            senders.push(self.start("sender", command, self.wan.a())?);
        }
        let limit = scenario
            .seconds()
            .map_or(BYTES_LIMIT, |seconds| LEAD + Duration::from_secs(seconds.into()) + GRACE);
        senders.iter_mut().map(|sender| sender.finish(limit, show)).collect()
    }

    fn receive(&self, group: &Group) -> Command {
        match self.lab.client {
            Client::Iperf3 => iperf3::server(to(group)),
            Client::Own => cli::receiver(&self.lab.own, to(group), group.streams),
        }
    }

    fn start(
        &self,
        who: &'static str,
        mut command: Command,
        netns: &Netns,
    ) -> Result<Peer, LabError> {
        let failed = |source| LabError::Output { who, source };
        let output = tempfile::tempfile().map_err(failed)?;
        let copy = output.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(copy);
        let place = Place { netns: Some(netns), cgroup: Some(self.cgroup) };
        Ok(Peer { who, process: place.spawn(command)?, output })
    }
}

fn address() -> IpAddr {
    ADDRESSES_V4[1].parse().expect("a constant IPv4 address")
}

fn to(group: &Group) -> SocketAddr {
    SocketAddr::new(address(), group.port)
}

/// Returns a group's part of the load: until the common end, or its streams' share.
fn amount(load: Load, group: &Group, streams: u32) -> Amount {
    match load {
        Load::Seconds(seconds) => {
            Amount::Time(Duration::from_secs(seconds.into()).saturating_sub(group.start.0))
        }
        Load::Bytes(bytes) => Amount::Bytes(bytes / u64::from(streams) * u64::from(group.streams)),
    }
}

fn own_record(
    mut record: Record,
    (sent, received): (Vec<String>, Vec<String>),
) -> Result<Record, LabError> {
    for (sent, received) in sent.iter().zip(&received) {
        let sent: Sent = read("sender", sent)?;
        let received: Received = read("receiver", received)?;
        if received.bytes > sent.bytes || (sent.whole && received.bytes < sent.bytes) {
            return Err(LabError::Lost { sent: sent.bytes, received: received.bytes });
        }
        let streams = received.counts.first().map_or(0, |(_, counts)| counts.len());
        let stream = |number: usize| {
            let points = received.counts.iter().map(|(time_ns, counts)| (*time_ns, counts[number]));
            Series::new(points.collect())
        };
        record.streams.push((0..streams).map(stream).collect());
    }
    Ok(record)
}

/// Completes a record by what iperf3 says, which gives no times on our clock: what ss
/// saw acknowledged does.
fn iperf3_record(mut record: Record, received: &[String]) -> Result<Record, LabError> {
    let output = received.first().map_or("", String::as_str);
    let goodput =
        iperf3::goodput(output).map_err(|reason| LabError::Client { who: "receiver", reason })?;
    let acked = |sight: &Sight| sight.flows.iter().map(|flow| flow.bytes_acked).sum();
    let points = record.sights.iter().map(|sight| (sight.time_ns, acked(sight))).collect();
    record.goodput = Some(goodput);
    record.streams = vec![vec![Series::new(points)]];
    Ok(record)
}

fn read<T: DeserializeOwned>(who: &'static str, json: &str) -> Result<T, LabError> {
    serde_json::from_str(json).map_err(|error| LabError::Client { who, reason: error.to_string() })
}

/// A sender or receiver and what it prints.
struct Peer {
    who: &'static str,
    process: Process,
    output: File,
}

impl Peer {
    fn wait_listening(&mut self, netns: &Netns, port: u16) -> Result<(), LabError> {
        let begun = Instant::now();
        let filter = format!("sport = :{port}");
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

    /// Returns the output of the process, when it has ended.
    fn finish(&mut self, limit: Duration, meanwhile: impl FnMut()) -> Result<String, LabError> {
        let who = self.who;
        let failed = |source: io::Error| LabError::Output { who, source };
        let status = self.process.wait(limit, meanwhile)?;
        let mut text = String::new();
        self.output.rewind().map_err(failed)?;
        self.output.read_to_string(&mut text).map_err(failed)?;
        if status.success() {
            return Ok(text);
        }
        // iperf3 gives its reason on stdout, as JSON; ours on stderr, shown.
        let reason = iperf3::goodput(&text).err().filter(|_| !text.is_empty());
        Err(LabError::Client { who, reason: reason.unwrap_or_else(|| status.to_string()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wad_testbed::emulated::units::Span;

    #[test]
    fn groups_share_the_bytes_and_end_together() {
        let group = Group {
            name: "x".to_owned(),
            streams: 3,
            start: Span(Duration::from_secs(2)),
            port: 1,
        };
        assert_eq!(amount(Load::Bytes(400), &group, 4), Amount::Bytes(300));
        let time = Amount::Time(Duration::from_secs(8));
        assert_eq!(amount(Load::Seconds(10), &group, 4), time);
    }
}
