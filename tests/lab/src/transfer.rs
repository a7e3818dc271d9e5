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
pub(crate) const BYTES_LIMIT: Duration = Duration::from_secs(600);
/// All senders are there within this time, before the first one starts.
const LEAD: Duration = Duration::from_millis(200);
const RECEIVER: &str = "receiver";
/// The receiver is only asked for its buffer.
const LOOK_AT_RECEIVER_EVERY: Duration = Duration::from_secs(1);

/// The place where a transfer takes place.
pub struct Bed<'a> {
    pub lab: &'a Lab,
    pub wan: &'a Wan,
    pub cgroup: &'a Cgroup,
    /// The receivers', where they have an agent of their own.
    pub far_cgroup: Option<&'a Cgroup>,
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
        let client = self.lab.client_for(scenario, variant);
        let parts: Vec<Part<'_>> =
            variant.groups.iter().flat_map(|group| parts(group, client)).collect();
        let mut receivers = Vec::new();
        for part in &parts {
            let mut receiver = self.start(RECEIVER, self.receive(client, part), self.wan.b())?;
            receiver.wait_listening(self.wan.b(), part.port)?;
            receivers.push(receiver);
        }
        let counters_before = self.counters()?;
        let start_ns = monotonic_ns() + LEAD.as_nanos() as u64;
        let filters = ["dport", "sport"].map(|name| {
            let ports = parts.iter().map(|part| format!("{name} = :{}", part.port));
            format!("( {} )", ports.collect::<Vec<_>>().join(" or "))
        });
        let every = [scenario.sample_every.0, LOOK_AT_RECEIVER_EVERY];
        let (outputs, [sights, far_sights]) = self.watched(&filters, every, show, |show| {
            thread::scope(|scope| {
                let burst = scenario.burst.as_ref().map(|burst| {
                    scope.spawn(move || self.wan.a().run(|| udp::send(burst, address(), start_ns)))
                });
                // The sender's fault is the cause, where there is another one too.
                let sent = self.send(scenario, variant, (&parts, start_ns), show)?;
                let received = receivers.iter_mut().map(|peer| peer.finish(GRACE, || ()));
                let received = received.collect::<Result<Vec<_>, _>>()?;
                if let Some(burst) = burst {
                    let sent =
                        burst.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                    sent.map_err(LabError::Burst)?;
                }
                Ok((sent, received))
            })
        })?;
        let record = Record {
            start_ns,
            counters_before,
            end_ns: 0,
            goodput: None,
            request_seconds: vec![],
            streams: vec![],
            sights,
            far_sights,
        };
        let record = if client == Client::Iperf3 {
            let rates = outputs.1.iter().map(|output| iperf3::goodput(output));
            let failed = |reason| LabError::Client { who: "receiver", reason };
            let rate = rates.sum::<Result<f64, String>>().map_err(failed)?;
            record.with_rate(rate, &variant.groups)
        } else {
            own_record(record, outputs)?
        };
        Ok(record.until(scenario.load_of(variant)))
    }

    /// Does some work with the flows of both ends watched, and returns what was seen.
    pub(crate) fn watched<T>(
        &self,
        filters: &[String; 2],
        every: [Duration; 2],
        show: &dyn Fn(Option<&Sight>),
        work: impl FnOnce(&dyn Fn()) -> Result<T, LabError>,
    ) -> Result<(T, [Vec<Sight>; 2]), LabError> {
        let watches = [Watch::default(), Watch::default()];
        let done = thread::scope(|scope| {
            let [near, far] = &watches;
            let (a, b) = (self.wan.a(), self.wan.b());
            let watchers = [
                scope.spawn(move || near.run(a, &filters[0], every[0])),
                scope.spawn(move || far.run(b, &filters[1], every[1])),
            ];
            let done = work(&|| show(near.latest().as_ref()));
            watches.iter().for_each(Watch::stop);
            let done = done?;
            for watcher in watchers {
                watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok::<_, LabError>(done)
        })?;
        Ok((done, watches.map(Watch::into_sights)))
    }

    /// Returns the counters of the sender's kernel as they are now.
    pub(crate) fn counters(&self) -> Result<TcpCounters, LabError> {
        self.wan.a().run(TcpCounters::read)?.map_err(LabError::Counters)
    }

    /// Runs the senders to their end: what they printed.
    fn send(
        &self,
        scenario: &Scenario,
        variant: &Variant,
        (parts, start_ns): (&[Part<'_>], u64),
        show: &dyn Fn(),
    ) -> Result<Vec<String>, LabError> {
        let mut senders = Vec::new();
        for part in parts {
            let amount = amount(scenario.load_of(variant), part, variant.streams());
            let command = if self.lab.client_for(scenario, variant) == Client::Iperf3 {
                iperf3::client(part.to(), part.streams, amount)
            } else {
                let mut command = cli::sender(&self.lab.own, part.to(), part.streams, amount);
                let start_ns = start_ns + part.group.start.nanoseconds();
                command.arg(format!("--start-ns={start_ns}"));
                command
            };
            senders.push(self.start("sender", command, self.wan.a())?);
        }
        let limit = scenario
            .seconds()
            .map_or(BYTES_LIMIT, |seconds| LEAD + Duration::from_secs(seconds.into()) + GRACE);
        senders.iter_mut().map(|sender| sender.finish(limit, show)).collect()
    }

    fn receive(&self, client: Client, part: &Part<'_>) -> Command {
        match client {
            Client::Iperf3 => iperf3::server(part.to()),
            _ => cli::receiver(&self.lab.own, part.to(), part.streams),
        }
    }

    pub(crate) fn start(
        &self,
        who: &'static str,
        mut command: Command,
        netns: &Netns,
    ) -> Result<Peer, LabError> {
        let failed = |source| LabError::Output { who, source };
        let output = tempfile::tempfile().map_err(failed)?;
        let copy = output.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(copy);
        let far = self.far_cgroup.filter(|_| who == RECEIVER);
        let place = Place { netns: Some(netns), cgroup: Some(far.unwrap_or(self.cgroup)) };
        Ok(Peer { who, process: place.spawn(command)?, output })
    }
}

fn address() -> IpAddr {
    ADDRESSES_V4[1].parse().expect("a constant IPv4 address")
}

/// A sender and its receiver have this part of a group: all of it, unless it is more than
/// they take.
struct Part<'a> {
    group: &'a Group,
    streams: u32,
    port: u16,
}

impl Part<'_> {
    fn to(&self) -> SocketAddr {
        SocketAddr::new(address(), self.port)
    }
}

fn parts(group: &Group, client: Client) -> Vec<Part<'_>> {
    let streams = match client {
        Client::Iperf3 => iperf3::processes(group.streams).collect(),
        _ => vec![group.streams],
    };
    let parts = streams.into_iter().zip(group.ports());
    parts.map(|(streams, port)| Part { group, streams, port }).collect()
}

/// Returns a part's share of the load: until the common end, or its streams'.
fn amount(load: Load, part: &Part<'_>, streams: u32) -> Amount {
    match load {
        Load::Seconds(seconds) => {
            Amount::Time(Duration::from_secs(seconds.into()).saturating_sub(part.group.start.0))
        }
        Load::Bytes(bytes) => Amount::Bytes(bytes / u64::from(streams) * u64::from(part.streams)),
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

pub(crate) fn read<T: DeserializeOwned>(who: &'static str, json: &str) -> Result<T, LabError> {
    serde_json::from_str(json).map_err(|error| LabError::Client { who, reason: error.to_string() })
}

/// A sender or receiver and what it prints.
pub(crate) struct Peer {
    who: &'static str,
    process: Process,
    output: File,
}

impl Peer {
    pub(crate) fn wait_listening(&mut self, netns: &Netns, port: u16) -> Result<(), LabError> {
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
    pub(crate) fn finish(
        &mut self,
        limit: Duration,
        meanwhile: impl FnMut(),
    ) -> Result<String, LabError> {
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
        let reason = iperf3::fault(&text);
        Err(LabError::Client { who, reason: reason.unwrap_or_else(|| status.to_string()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wad_testbed::emulated::units::Span;

    #[test]
    fn groups_share_the_bytes_and_end_together() {
        let group = group(3);
        let part = &parts(&group, Client::Own)[0];
        assert_eq!(amount(Load::Bytes(400), part, 4), Amount::Bytes(300));
        let time = Amount::Time(Duration::from_secs(8));
        assert_eq!(amount(Load::Seconds(10), part, 4), time);
    }

    fn group(streams: u32) -> Group {
        Group { name: "x".to_owned(), streams, start: Span(Duration::from_secs(2)), port: 5001 }
    }

    #[test]
    fn iperf3_takes_as_many_processes_as_there_have_to_be() {
        let parts = |client| -> Vec<(u32, u16)> {
            let group = group(300);
            let parts = parts(&group, client);
            parts.iter().map(|part| (part.streams, part.port)).collect()
        };
        assert_eq!(parts(Client::Iperf3), [(128, 5001), (128, 5002), (44, 5003)]);
        assert_eq!(parts(Client::Own), [(300, 5001)]);
    }
}
