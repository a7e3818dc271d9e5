//! Flows here have their packets spread over the round trip, or a fixed rate; ss shows
//! the rate, and a capture the packets.

use std::{
    slice,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    capture::{Capture, Packet},
    emulated::wan::{self, ADDRESSES_V4, Wan},
    policy::path_to,
    sending::{samples, while_sending},
    settings, signal,
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

#[e2e(long, alone)]
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

/// Returns the largest part of what a flow sends in a round trip that leaves within
/// `span` of it: the median over its round trips. A machine that is busy with something
/// else for a moment makes a burst of what was spread, and the other way round.
fn burst(packets: &[Packet], to_port: u16, rtt: Duration, span: Duration) -> Result<f64> {
    let sent: Vec<_> = packets
        .iter()
        .filter(|packet| packet.to.port() == to_port && packet.payload_bytes > 0)
        .map(|packet| (packet.time_seconds, packet.payload_bytes.div_ceil(MSS)))
        .collect();
    let (begun, _) = *sent.first().context("nothing was sent")?;
    let ended = sent[sent.len() - 1].0;
    let within = |from: usize, span: Duration| -> u32 {
        let end = sent[from].0 + span.as_secs_f64();
        sent[from..].iter().take_while(|(time, _)| *time < end).map(|(_, segments)| segments).sum()
    };
    let round_trips = ((ended - begun) / rtt.as_secs_f64()) as usize;
    let mut largest = vec![0.0_f64; round_trips];
    for (at, (time, _)) in sent.iter().enumerate() {
        // The last one is not whole.
        if let Some(largest) = largest.get_mut(((time - begun) / rtt.as_secs_f64()) as usize) {
            *largest = largest.max(f64::from(within(at, span)) / f64::from(within(at, rtt)));
        }
    }
    largest.sort_by(f64::total_cmp);
    largest.get(round_trips / 2).copied().context("less than a round trip")
}

struct Case {
    keys: &'static str,
    is_paced: bool,
}

const fn case(keys: &'static str, is_paced: bool) -> Case {
    Case { keys, is_paced }
}

/// Returns [`burst`] within this part of a round trip for each flow, one after the
/// other, on a path that they do not fill.
fn bursts(wan: &Wan, rtt: Duration, part: u32, cases: &[Case]) -> Result<Vec<f64>> {
    let mut bursts = Vec::new();
    for (port, case) in (7000..).zip(cases) {
        let capture = Capture::start(wan.a(), wan::DEVICE, &format!("tcp dst port {port}"))?;
        let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?;
        while_sending(slice::from_ref(&connection), || signal::sleep(rtt * 15))?;
        let burst = burst(&capture.stop()?, port, rtt, rtt / part)?;
        println!("{}: {burst:.3} within {:?}", case.keys, rtt / part);
        bursts.push(burst);
    }
    Ok(bursts)
}

fn policy(cases: &[Case]) -> String {
    (7000..).zip(cases).map(|(port, case)| path_to(port, case.keys)).collect()
}

fn ensure_paced(cases: &[Case], bursts: &[f64]) -> Result<()> {
    for (case, burst) in cases.iter().zip(bursts) {
        let fits = if case.is_paced { *burst <= 0.6 } else { *burst >= 0.8 };
        ensure!(fits, "{}: {burst} of a window at once", case.keys);
    }
    Ok(())
}

#[e2e(long, alone)]
fn packets_are_spread_where_pacing_is_on() -> Result<()> {
    let stand = Stand::set_up("spread")?;
    let cases = [
        case("max_cwnd = 100", true),
        case("max_cwnd = 100; pacing = \"off\"", false),
        case("max_cwnd = 100; pacing = \"auto\"", true),
        case("max_cwnd = 100; congestion = \"wad_highspeed\"", true),
        case("max_cwnd = 100; congestion = \"wad_scalable\"; pacing = \"off\"", false),
        // Its window is bounded by the buffer only.
        case("congestion = \"cubic\"; sndbuf = \"128KiB\"", false),
        case("congestion = \"cubic\"; sndbuf = \"128KiB\"; pacing = \"auto\"", true),
    ];
    let home = Home::create(&program()?, &policy(&cases))?;
    let _agent = home.start(stand.cgroup())?;
    let wan = path("rtt = '40ms'\nforward = { rate = '2Gbit', queue = { bdp = 1.0 } }\n")?;
    // In slow start at twice the mean rate of the window, which may be twice what
    // buffers allow: up to a quarter in a sixteenth, and what is sent at a time.
    // Unpaced, all goes at once.
    let bursts = bursts(&wan, Duration::from_millis(40), 16, &cases)?;
    ensure_paced(&cases, &bursts)
}

#[e2e(never = "an emulated processor spreads what is not paced, too", few)]
fn a_flow_that_runs_is_spread_as_its_path_says_now() -> Result<()> {
    let stand = Stand::set_up("respread")?;
    let rtt = Duration::from_millis(40);
    let cases = [
        case("pacing = \"off\"", false),
        case("pacing = \"auto\"", true),
        case("pacing = \"off\"", false),
        case("pacing = \"100Mbit\"", true),
        case("pacing = \"off\"", false),
        case("", true),
    ];
    let policy =
        |case: &Case| path_to(7000, &format!("max_cwnd = 100; sndbuf = \"256KiB\"; {}", case.keys));
    let home = Home::create(&program()?, &policy(&cases[0]))?;
    let _agent = home.start(stand.cgroup())?;
    let wan = path("rtt = '40ms'\nforward = { rate = '2Gbit', queue = { bdp = 1.0 } }\n")?;
    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], 7000))?;
    let mut bursts = Vec::new();
    for case in &cases {
        home.reload(&policy(case))?;
        let send = || connection.exchange(1_500_000);
        // The new policy comes into force with an ACK; and while ACKs come spread, what
        // they let go is spread.
        send()?;
        signal::sleep(rtt * 4)?;
        let capture = Capture::start(wan.a(), wan::DEVICE, "tcp dst port 7000")?;
        send()?;
        bursts.push(burst(&capture.stop()?, 7000, rtt, rtt / 16)?);
    }
    println!("{bursts:.3?}");
    ensure_paced(&cases, &bursts)
}

#[e2e(long, alone)]
fn on_a_short_path_only_what_is_asked_for_is_spread() -> Result<()> {
    let stand = Stand::set_up("short")?;
    let cases = [
        case("max_cwnd = 50; initial_ssthresh = 50", false),
        case("max_cwnd = 50; initial_ssthresh = 50; pacing = \"auto\"", true),
    ];
    let home = Home::create(&program()?, &policy(&cases))?;
    let _agent = home.start(stand.cgroup())?;
    let wan = path("rtt = '8ms'\nforward = { rate = '2Gbit', queue = { bdp = 4.0 } }\n")?;
    // After slow start at 1.2 times the mean rate, and what is sent at a time, which
    // is a millisecond's worth (`tcp_tso_autosize()`).
    let bursts = bursts(&wan, Duration::from_millis(8), 4, &cases)?;
    ensure_paced(&cases, &bursts)
}

#[e2e(long, alone)]
fn a_rate_holds_for_any_algorithm() -> Result<()> {
    const RATE: u64 = 20_000_000;
    let stand = Stand::set_up("rate")?;
    let wan = path("rtt = '40ms'\nforward = { rate = '200Mbit', queue = { bdp = 1.0 } }\n")?;
    let algorithms = [
        "congestion = \"wad_cubic\"",
        "congestion = \"wad_aimd\"",
        "congestion = \"wad_highspeed\"",
        "congestion = \"wad_delay\"",
        "loss = \"leaky\"",
        "congestion = \"cubic\"",
        "congestion = \"reno\"",
    ];
    let policy: String = (7000..)
        .zip(algorithms)
        .map(|(port, keys)| path_to(port, &format!("pacing = \"20Mbit\"; {keys}")))
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

/// `sk_pacing_rate` has 64 bits, and SO_MAX_PACING_RATE of a BPF program 32, which are 34.3 Gbit/s.
#[e2e(every_change, beside)]
fn a_law_paces_beyond_what_so_max_pacing_rate_holds() -> Result<()> {
    const GBIT: [u64; 3] = [34, 40, 400];
    let stand = Stand::set_up("beyond")?;
    let wan = path("rtt = '10ms'\nforward = { rate = '1Gbit', queue = { bdp = 1.0 } }\n")?;
    let policy: String = (7000..)
        .zip(GBIT)
        .map(|(port, gbit)| path_to(port, &format!("dedicated = '{gbit}Gbit'; rtt = '10ms'")))
        .collect();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    for (port, gbit) in (7000..).zip(GBIT) {
        let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?;
        let rate = connection.near_flow(wan.a())?.pacing_bits_per_second;
        // 95% of it: headers take the rest.
        ensure!(rate == gbit * 950_000_000, "{rate} bit/s for {gbit} Gbit/s");
    }
    Ok(())
}

/// With little of a path each, flows would send two segments at a time, and every flow's
/// timer go off for them. A path whose rate is known takes more for nothing.
#[e2e(long, few)]
fn a_small_part_of_a_large_path_leaves_in_few_packets() -> Result<()> {
    // 50 us of the path's are 62.5 kB; a quarter of the window is less.
    const WINDOW: u32 = 100;
    const BUFFERS: &str = "sndbuf = \"auto\"; rcvbuf = \"auto\"";
    let stand = Stand::set_up("bursts")?;
    let known = format!("max_cwnd = {WINDOW}; bandwidth = \"10Gbit\"; rtt = \"100ms\"; {BUFFERS}");
    let policy = path_to(7000, &known) + &path_to(7001, &format!("max_cwnd = {WINDOW}"));
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let wan = path("rtt = '100ms'\nforward = { rate = '100Mbit', queue = { bdp = 1.0 } }\n")?;
    let sent = |port| -> Result<Vec<u32>> {
        let capture = Capture::start(wan.a(), wan::DEVICE, &format!("tcp dst port {port}"))?;
        let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?;
        while_sending(slice::from_ref(&connection), || signal::sleep(Duration::from_secs(3)))?;
        let packets = capture.stop()?;
        let data = packets.iter().filter(|packet| packet.payload_bytes > 0);
        Ok(data.map(|packet| packet.payload_bytes.div_ceil(MSS)).collect())
    };
    let (known, unknown) = (sent(7000)?, sent(7001)?);
    let mean = |sent: &[u32]| f64::from(sent.iter().sum::<u32>()) / sent.len() as f64;
    let (mean, least, most) = (mean(&known), mean(&unknown), known.iter().max().context("none")?);
    println!("{mean:.2} segments at a time, {most} at most; {least:.2} where it is not known");
    // Where the window holds it back, an ACK lets out as much as it acknowledges.
    ensure!(*most <= WINDOW / 4 && mean > 1.25 * least, "{mean}, {most} at most; {least}");
    Ok(())
}
