//! Flows whose packets are spread over the round trip, and those at a fixed rate:
//! what ss shows of the rate, and a capture of the packets.

use std::{
    slice,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use wad_tests::{
    capture::{Capture, Packet},
    lab::{
        settings,
        wan::{self, ADDRESSES_V4, Wan},
    },
    policy::path_to,
    sending::{samples, while_sending},
    signal,
    stand::Stand,
    tcp::{Connection, at},
    wad::{Home, program},
};

const MSS: u32 = 1448;

fn path(text: &str) -> Result<Wan> {
    let wan = Wan::start(&toml::from_str(text)?)?;
    settings::apply(&wan)?;
    Ok(wan)
}

#[test]
fn a_dedicated_path_keeps_window_and_rate_through_a_loss() -> Result<()> {
    let stand = Stand::set_up("dedicated")?;
    let wan = path(
        "rtt = '100ms'\nforward = { rate = '100Mbit', queue = { bdp = 1.0 }, drop_at = ['1500ms'] }\n",
    )?;
    let policy = path_to(7000, "dedicated = \"50Mbit\"; rtt = \"100ms\"");
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    // 95% of the rate: headers take the rest.
    let (window, rate) = (50_000_000 / 8 / 10 / MSS, 47_500_000);

    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], 7000))?;
    let flow = connection.near_flow(wan.a())?;
    ensure!(flow.pacing_bits_per_second == rate, "{flow:?}");
    let connections = slice::from_ref(&connection);
    let samples = while_sending(connections, || {
        samples(wan.a(), connections, Duration::from_millis(3500)).map(|mut all| all.remove(0))
    })?;
    let [counters, _] = wan.counters()?;
    ensure!(counters.planned_drops == 1 && counters.queue_drops == 0, "{counters:?}");

    let first = samples.iter().position(|sample| sample.flow.bytes_acked > 10 * u64::from(MSS));
    let held = &samples[first.context("nothing was acknowledged")?..];
    for sample in held {
        ensure!(sample.flow.cwnd_segments == window, "not {window}: {:?}", sample.flow);
        ensure!(sample.flow.pacing_bits_per_second == rate, "{:?}", sample.flow);
    }
    let last = held.last().context("no samples")?;
    ensure!(last.flow.retransmits == 1, "{:?}", last.flow);
    // The loss lies in the middle of this.
    let settled = held.iter().find(|sample| sample.at > held[0].at + Duration::from_millis(500));
    let settled = settled.context("too few samples")?;
    let bytes = last.flow.bytes_acked - settled.flow.bytes_acked;
    let seen = bytes as f64 * 8.0 / (last.at - settled.at).as_secs_f64();
    println!("{:.1} Mb/s of {:.1}", seen / 1e6, rate as f64 / 1e6);
    ensure!(seen > 0.93 * rate as f64 && seen < 1.02 * rate as f64, "{seen} bit/s");
    Ok(())
}

/// Most segments that left within so much time.
fn largest_burst(packets: &[Packet], to_port: u16, span: Duration) -> u32 {
    let sent: Vec<_> = packets
        .iter()
        .filter(|packet| packet.to.port() == to_port && packet.payload_bytes > 0)
        .map(|packet| (packet.time_seconds, packet.payload_bytes.div_ceil(MSS)))
        .collect();
    let mut most = 0;
    let (mut first, mut segments) = (0, 0);
    for (time, count) in &sent {
        segments += count;
        while sent[first].0 + span.as_secs_f64() < *time {
            segments -= sent[first].1;
            first += 1;
        }
        most = segments.max(most);
    }
    most
}

struct Case {
    keys: &'static str,
    is_paced: bool,
}

const fn case(keys: &'static str, is_paced: bool) -> Case {
    Case { keys, is_paced }
}

/// The largest part of what a round trip has that leaves in a sixteenth of it, for
/// each flow, one after the other, on a path that they do not fill.
fn bursts(wan: &Wan, rtt: Duration, cases: &[Case]) -> Result<Vec<f64>> {
    let mut bursts = Vec::new();
    for (port, case) in (7000..).zip(cases) {
        let capture = Capture::start(wan.a(), wan::DEVICE, &format!("tcp dst port {port}"))?;
        let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?;
        while_sending(slice::from_ref(&connection), || signal::sleep(rtt * 15))?;
        let packets = capture.stop()?;
        let [burst, window] = [rtt / 16, rtt].map(|span| largest_burst(&packets, port, span));
        println!("{}: {burst} segments of {window} within {:?}", case.keys, rtt / 16);
        bursts.push(f64::from(burst) / f64::from(window));
    }
    Ok(bursts)
}

fn policy(cases: &[Case]) -> String {
    (7000..).zip(cases).map(|(port, case)| path_to(port, case.keys)).collect()
}

fn ensure_paced(cases: &[Case], bursts: &[f64]) -> Result<()> {
    for (case, burst) in cases.iter().zip(bursts) {
        // In slow start at twice the mean rate of the window, which may be twice
        // what buffers allow: up to a quarter in a sixteenth, and what is sent at a
        // time. Unpaced, all goes at once.
        let fits = if case.is_paced { *burst <= 0.45 } else { *burst >= 0.6 };
        ensure!(fits, "{}: {burst} of a window at once", case.keys);
    }
    Ok(())
}

#[test]
fn packets_are_spread_where_pacing_is_on() -> Result<()> {
    let stand = Stand::set_up("spread")?;
    let cases = [
        case("max_cwnd = 200", true),
        case("max_cwnd = 200; pacing = \"off\"", false),
        case("max_cwnd = 200; pacing = \"auto\"", true),
        case("max_cwnd = 200; congestion = \"wad_highspeed\"", true),
        case("max_cwnd = 200; congestion = \"wad_scalable\"; pacing = \"off\"", false),
        // Its window is bounded by the buffer only.
        case("congestion = \"cubic\"; sndbuf = \"256KiB\"", false),
        case("congestion = \"cubic\"; sndbuf = \"256KiB\"; pacing = \"auto\"", true),
    ];
    let home = Home::create(&program()?, &policy(&cases))?;
    let _agent = home.start(stand.cgroup())?;
    let wan = path("rtt = '40ms'\nforward = { rate = '2Gbit', queue = { bdp = 1.0 } }\n")?;
    let bursts = bursts(&wan, Duration::from_millis(40), &cases)?;
    ensure_paced(&cases, &bursts)
}

#[test]
fn on_a_short_path_only_what_is_asked_for_is_spread() -> Result<()> {
    let stand = Stand::set_up("short")?;
    let cases = [case("max_cwnd = 200", false), case("max_cwnd = 200; pacing = \"auto\"", true)];
    let home = Home::create(&program()?, &policy(&cases))?;
    let _agent = home.start(stand.cgroup())?;
    let wan = path("rtt = '8ms'\nforward = { rate = '2Gbit', queue = { bdp = 4.0 } }\n")?;
    let bursts = bursts(&wan, Duration::from_millis(8), &cases)?;
    ensure_paced(&cases, &bursts)
}

#[test]
fn a_rate_holds_for_any_algorithm() -> Result<()> {
    const RATE: u64 = 20_000_000;
    let stand = Stand::set_up("rate")?;
    let wan = path("rtt = '40ms'\nforward = { rate = '200Mbit', queue = { bdp = 1.0 } }\n")?;
    let algorithms = ["wad_aimd", "wad_highspeed", "cubic", "reno"];
    let policy: String = (7000..)
        .zip(algorithms)
        .map(|(port, name)| path_to(port, &format!("pacing = \"20Mbit\"; congestion = \"{name}\"")))
        .collect();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let connections = (7000..)
        .take(algorithms.len())
        .map(|port| Ok(Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?))
        .collect::<Result<Vec<_>>>()?;
    let flows =
        || connections.iter().map(|one| one.near_flow(wan.a())).collect::<Result<Vec<_>, _>>();
    let (before, after, seconds) = while_sending(&connections, || -> Result<_> {
        signal::sleep(Duration::from_millis(500))?;
        let begun = Instant::now();
        let before = flows()?;
        signal::sleep(Duration::from_millis(1500))?;
        Ok((before, flows()?, begun.elapsed().as_secs_f64()))
    })?;
    for ((name, before), after) in algorithms.iter().zip(before).zip(after) {
        ensure!(after.pacing_bits_per_second == RATE, "{after:?}");
        let rate = (after.bytes_acked - before.bytes_acked) as f64 * 8.0 / seconds;
        println!("{name}: {:.2} Mb/s", rate / 1e6);
        ensure!(rate > 0.85 * RATE as f64 && rate < 1.05 * RATE as f64, "{name}: {rate} bit/s");
    }
    Ok(())
}
