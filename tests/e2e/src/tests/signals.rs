//! Congestion signals, timeouts, stalls and the greatest RTT of flows on a lossy path are
//! held against the kernel's trace of their states, its counters, and ss.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    episodes::{CWR, OPEN, RECOVERY},
    policy::path_to,
    settings, signal,
    ss::Flow,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    trace::{Event, Trace, What},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(20);

/// `TCP_CA_Loss`: a timeout has expired.
const LOSS: u8 = 4;

/// Some packets are lost; what marks and stalls are counted as, `congestion_events` sees.
const LOSSY: &str = "rtt = '40ms'\nforward = { rate = '100Mbit', queue = { bdp = 2.0 }, \
                     loss = 5e-4 }\n";

/// It is sent in some seconds.
const BYTES: usize = 40_000_000;

/// A law of the kernel's, and one of ours, each with its port: of no test that may run beside
/// this, as the kernel traces in all namespaces.
const LAWS: [(u16, &str); 2] = [(7320, "cubic"), (7321, "wad_aimd")];

/// Signals are what has made the kernel reduce a flow's window, by instruments or by its trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    pub congestion: u64,
    pub timeouts: u64,
    pub stalls: u64,
}

impl Signals {
    /// Returns those of the flow from this port.
    pub fn of(flows: &mut Command, near_port: u16) -> Result<Self> {
        Self::among(&instruments(flows, near_port)?)
    }

    fn among(instruments: &Value) -> Result<Self> {
        let count = |name: &str| {
            instruments[name].as_u64().with_context(|| format!("no {name} in {instruments}"))
        };
        Ok(Self {
            congestion: count("CongSignals")?,
            timeouts: count("Timeouts")?,
            stalls: count("SendStall")?,
        })
    }

    /// Returns those of the states that it went through, where no stall was.
    fn traced(events: impl Iterator<Item = Event>) -> Self {
        let (mut signals, mut state) = (Self::default(), OPEN);
        for event in events {
            let What::State(next) = event.what else { continue };
            let is_signal = match next {
                CWR => state < CWR,
                RECOVERY => state != CWR && state != RECOVERY,
                LOSS => state != LOSS,
                _ => false,
            };
            signals.congestion += u64::from(is_signal);
            signals.timeouts += u64::from(is_signal && next == LOSS);
            state = next;
        }
        signals
    }
}

/// Returns the command that shows the instruments of all flows.
pub fn flows(home: &Home) -> Command {
    let mut command = home.command("flows");
    command.arg("--json");
    command
}

fn instruments(flows: &mut Command, near_port: u16) -> Result<Value> {
    let output = flows.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reading: Value = serde_json::from_slice(&output.stdout)?;
    let end = format!(":{near_port}");
    let flows = reading["flows"].as_array().context("no list of flows")?;
    let is_it = |flow: &&Value| flow["local"].as_str().is_some_and(|local| local.ends_with(&end));
    let flow = flows.iter().find(is_it).with_context(|| format!("no {near_port}: {reading}"))?;
    Ok(flow["instruments"].clone())
}

/// Holds what was seen of a flow.
#[derive(Debug)]
struct Seen {
    instruments: Value,
    flow: Flow,
    /// The greatest smoothed RTT that ss showed before the outage.
    most_rtt_us: f64,
    /// The time for which no acknowledgement came back: who was on its way is answered at
    /// its end.
    outage: Duration,
    /// Timeouts of all of its namespace, those in a row as well.
    expired: u64,
    /// The instruments were read before this time, CLOCK_MONOTONIC: what its end makes of
    /// the flow, whose path is gone by then, comes behind.
    until_ns: u64,
}

/// Sends over the lossy path, which for a while takes no acknowledgement back.
fn carry(mut flows: Command, port: u16) -> Result<Seen> {
    let wan = Wan::start(&toml::from_str(LOSSY)?)?;
    settings::apply(&wan)?;
    let to = at(ADDRESSES_V4[1], port);
    let listener = tcp::listen(wan.b(), to)?;
    let near = tcp::connect_from(wan.a(), at("0.0.0.0", port + 10_000), to)?;
    let connection = Connection::accepted(&listener, near)?;
    let look = || Ok::<_, anyhow::Error>(connection.near_flow(wan.a())?);
    let mut most_rtt_us: f64 = 0.0;
    let outage = thread::scope(|scope| {
        let sending = scope.spawn(|| connection.exchange(BYTES));
        for _ in 0..25 {
            signal::sleep(Duration::from_millis(100))?;
            most_rtt_us = most_rtt_us.max(look()?.rtt_ms * 1e3);
        }
        let begun = Instant::now();
        wan.b().ip(&["route", "add", "blackhole", ADDRESSES_V4[0]])?;
        let waits = |flow: &Flow| flow.number("backoff").is_some_and(|times| times >= 2.0);
        until("timeouts follow each other", SOON, look, waits)?;
        wan.b().ip(&["route", "del", "blackhole", ADDRESSES_V4[0]])?;
        let outage = begun.elapsed();
        sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok::<_, anyhow::Error>(outage)
    })?;
    let rests = |flow: &Flow| flow.unacked_segments == 0 && flow.send_queue_bytes == 0;
    let flow = until("all has been acknowledged", SOON, look, rests)?;
    Ok(Seen {
        instruments: instruments(&mut flows, port + 10_000)?,
        flow,
        most_rtt_us,
        outage,
        expired: tcp::counter(wan.a(), "TCPTimeouts")?,
        until_ns: wad_testbed::monotonic_ns(),
    })
}

#[e2e(long, few, slow)]
fn signals_are_counted_under_every_law() -> Result<()> {
    let stand = Stand::set_up("signals")?;
    let path = |(port, law): &(u16, &str)| path_to(*port, &format!("congestion = '{law}'"));
    let policy: String = LAWS.iter().map(path).collect();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let trace = Trace::start(LAWS[0].0..=LAWS[1].0)?;
    let all = thread::scope(|scope| {
        let start = |(port, _)| {
            let asks = flows(&home);
            scope.spawn(move || carry(asks, port))
        };
        let flows = LAWS.map(start);
        let join = |flow: thread::ScopedJoinHandle<'_, _>| {
            flow.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        flows.into_iter().map(join).collect::<Result<Vec<Seen>>>()
    })?;
    let events = trace.finish()?;
    for ((port, law), seen) in LAWS.iter().zip(&all) {
        let Seen { instruments, flow, most_rtt_us, outage, expired, until_ns } = seen;
        let is_its =
            |event: &&Event| event.local_port == port + 10_000 && event.time_ns < *until_ns;
        let traced = Signals::traced(events.iter().filter(is_its).copied());
        let signals = Signals::among(instruments)?;
        println!("{law}: {signals:?}, the trace has {traced:?}");
        ensure!(flow.congestion.starts_with(law), "{flow:?}");
        // Losses, and the timeout.
        ensure!(traced.congestion >= 3 && traced.timeouts >= 1, "{traced:?}");
        // A timeout that follows another one may enter the state again.
        ensure!(
            (1..=traced.timeouts).contains(&signals.timeouts),
            "{law}: {signals:?}, {traced:?}"
        );
        let expected = Signals { timeouts: signals.timeouts, ..traced };
        ensure!(signals == expected, "{law}: {signals:?}, but the trace has {traced:?}");
        ensure!(*expired > signals.timeouts, "{expired} expired in all");
        let retransmitted = instruments["SegsRetrans"].as_u64();
        ensure!(retransmitted == Some(flow.retransmits), "{retransmitted:?}, {flow:?}");
        let max_rtt_us = instruments["MaxRTT"].as_f64();
        println!("{law}: RTT of up to {max_rtt_us:?}, by ss {most_rtt_us} us, {outage:?} without");
        // The time-out behind the outage may be as long again.
        let longest_us = 2.0 * outage.as_secs_f64() * 1e6 + *most_rtt_us;
        match max_rtt_us {
            Some(us) => ensure!((*most_rtt_us * 0.95..longest_us).contains(&us), "{us}: {seen:?}"),
            None => ensure!(!law.starts_with("wad_"), "{law}: {instruments}"),
        }
        ensure!(max_rtt_us.is_some() == law.starts_with("wad_"), "{law}: {instruments}");
    }
    Ok(())
}
