//! Windows begin, slow down and end at places that policies set: initial and maximum
//! thresholds, and what idle time leaves. Windows count segments, as ss has them.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    monotonic_ns,
    policy::{path_of, path_to},
    sending::{Sample, samples, while_sending},
    settings, signal,
    stand::{Stand, until},
    sysctl,
    tcp::{Connection, at},
    trace::{Trace, What},
    wad::{Home, program},
};

const LAWS: [&str; 3] = ["wad_aimd", "wad_highspeed", "wad_cubic"];
const LIMIT: Duration = Duration::from_secs(10);
/// No policy is for this port.
const UNTUNED: u16 = 6000;

fn path(text: &str) -> Result<Wan> {
    let wan = Wan::start(&toml::from_str(text)?)?;
    settings::apply(&wan)?;
    Ok(wan)
}

fn open(wan: &Wan, port: u16) -> Result<Connection> {
    Ok(Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?)
}

/// A flow that lost a packet ends, and leaves a threshold in the kernel's cache of
/// destinations, for the next flow to start with.
fn fill_cache(wan: &Wan) -> Result<u32> {
    for netns in [wan.a(), wan.b()] {
        netns.run(|| sysctl::set("net.ipv4.tcp_no_metrics_save", "0"))??;
        netns.run(|| sysctl::set("net.ipv4.tcp_no_ssthresh_metrics_save", "0"))??;
    }
    let connection = open(wan, UNTUNED)?;
    // Both ends lose one, and so remember their peer.
    connection.exchange(1_000_000)?;
    drop(connection);
    let look = || Ok::<_, anyhow::Error>(wan.a().ip(&["tcp_metrics", "show"])?);
    until("the cache has a threshold", LIMIT, look, |shown| shown.contains("ssthresh"))?;
    let next = open(wan, UNTUNED)?.near_flow(wan.a())?;
    next.ssthresh_segments.context("an untuned flow does not start with what is in the cache")
}

#[e2e(long, few)]
fn a_flow_starts_with_its_own_threshold() -> Result<()> {
    let stand = Stand::set_up("ssthresh")?;
    let mut policy = String::new();
    for (port, law) in (7000..).step_by(10).zip(LAWS) {
        let law = format!("congestion = \"{law}\"");
        policy += &path_to(port, &format!("initial_ssthresh = 300; {law}"));
        policy += &path_to(port + 1, &format!("initial_ssthresh = \"1MiB\"; {law}"));
        let auto = "bandwidth = \"100Mbit\"; rtt = \"40ms\"; initial_ssthresh = \"auto\"";
        policy += &path_to(port + 2, &format!("{auto}; {law}"));
        policy += &path_to(port + 3, &law);
        policy += &path_of(port + 4, &format!("initial_ssthresh = 400; {law}"));
    }
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let direction = "{ rate = '100Mbit', queue = { bdp = 1.0 }, drop_data_packets = [60] }";
    let wan = path(&format!("rtt = '40ms'\nforward = {direction}\nreverse = {direction}\n"))?;
    let cached = fill_cache(&wan)?;

    for port in [7000, 7010, 7020] {
        let starts = |port: u16| -> Result<_> {
            let connection = open(&wan, port)?;
            let ends = [connection.near_flow(wan.a())?, connection.far_flow(wan.b())?];
            ensure!(ends.iter().any(|flow| flow.congestion.starts_with("wad_")), "{ends:?}");
            Ok(ends.map(|flow| flow.ssthresh_segments))
        };
        let near = |port| starts(port).map(|[near, _]| near);
        ensure!(near(port)? == Some(300), "{:?}", near(port)?);
        let of_a_mebibyte = 1024 * 1024 / 1448;
        ensure!(near(port + 1)? == Some(of_a_mebibyte), "{:?}", near(port + 1)?);
        ensure!(near(port + 2)? == Some(500_000 / 1448), "{:?}", near(port + 2)?);
        ensure!(near(port + 3)?.is_none(), "{:?}, {cached} in the cache", near(port + 3)?);
        let [_, far] = starts(port + 4)?;
        ensure!(far == Some(400), "{far:?}");
    }
    Ok(())
}

#[e2e(long, few)]
fn a_window_ends_at_its_maximum() -> Result<()> {
    let stand = Stand::set_up("max")?;
    let wan = path("rtt = '40ms'\nforward = { rate = '400Mbit', queue = { bdp = 1.0 } }\n")?;
    // Reached in slow start, and by growing slowly; 283 KiB are 200 segments.
    let cases = [("max_cwnd = 100", 100), ("initial_ssthresh = 60; max_cwnd = \"283KiB\"", 200)];
    let mut policy = String::new();
    for (n, law) in LAWS.iter().enumerate() {
        for (m, (keys, _)) in cases.iter().enumerate() {
            let fast = if n == 0 { "additive_increase = 10; " } else { "" };
            let keys = format!("{fast}{keys}; congestion = \"{law}\"");
            policy += &path_to(7000 + 10 * n as u16 + m as u16, &keys);
        }
    }
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    for (m, (_, most)) in cases.iter().enumerate() {
        let connections = (0..LAWS.len() as u16)
            .map(|n| open(&wan, 7000 + 10 * n + m as u16))
            .collect::<Result<Vec<_>>>()?;
        while_sending(&connections, || -> Result<()> {
            // Reached by all, and for longer than it takes to be beyond it.
            let begun = Instant::now();
            let mut seen = [0; LAWS.len()];
            while begun.elapsed() < Duration::from_millis(if m == 0 { 700 } else { 3000 }) {
                for (seen, connection) in seen.iter_mut().zip(&connections) {
                    *seen = connection.near_flow(wan.a())?.cwnd_segments.max(*seen);
                }
            }
            println!("at most {seen:?} of {most}");
            ensure!(seen[0] == *most, "wad_aimd had {} segments, not {most}", seen[0]);
            ensure!(seen.iter().all(|seen| seen <= most), "{seen:?}, not {most}");
            ensure!(m == 1 || seen.iter().all(|seen| seen == most), "{seen:?}, not {most}");
            Ok(())
        })?;
    }
    Ok(())
}

#[e2e(long, few)]
fn limited_slow_start_adds_half_of_the_limit_for_each_rtt() -> Result<()> {
    const RTT_SECONDS: f64 = 0.1;
    const HALF_SEGMENTS: f64 = 50.0;
    let stand = Stand::set_up("limited")?;
    let wan = path("rtt = '100ms'\nforward = { rate = '500Mbit', queue = { bdp = 1.0 } }\n")?;
    let policy: String = (7000..)
        .zip(LAWS)
        .map(|(port, law)| path_to(port, &format!("max_ssthresh = 100; congestion = \"{law}\"")))
        .collect();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let connections = (7000..7003).map(|port| open(&wan, port)).collect::<Result<Vec<_>>>()?;
    let seen = while_sending(&connections, || {
        samples(wan.a(), &connections, Duration::from_millis(2200))
    })?;
    for (law, samples) in LAWS.iter().zip(seen) {
        let limited = samples.iter().position(|sample| sample.flow.cwnd_segments >= 100);
        let limited = &samples[limited.context("the limit was not reached")?..];
        let [first, .., last] = limited else { anyhow::bail!("two samples are not there") };
        ensure!(last.flow.retransmits == 0, "{law}: {:?}", last.flow);
        let grown = |from: &Sample, to: &Sample| {
            let rtts = (to.at - from.at).as_secs_f64() / RTT_SECONDS;
            (f64::from(to.flow.cwnd_segments - from.flow.cwnd_segments), rtts)
        };
        let (segments, rtts) = grown(first, last);
        println!("{law}: {segments} more in {rtts:.1} round trips");
        // The emulated path and the receiver add a little to the RTT.
        ensure!(rtts > 10.0 && segments > 0.8 * HALF_SEGMENTS * (rtts - 2.0));
        // Over any stretch, for what is acknowledged late comes all at once.
        for (n, from) in limited.iter().enumerate() {
            for to in &limited[n + 1..] {
                let (segments, rtts) = grown(from, to);
                let most = HALF_SEGMENTS * (rtts + 1.0) + 1.0;
                ensure!(segments <= most, "{law}: {segments} in {rtts:.1} round trips");
            }
        }
    }
    Ok(())
}

#[e2e(long, few)]
fn a_window_decays_or_is_kept_when_idle() -> Result<()> {
    const RTT: Duration = Duration::from_millis(100);
    const OPEN: u32 = 300;
    let stand = Stand::set_up("idle")?;
    let wan = path("rtt = '100ms'\nforward = { rate = '200Mbit', queue = { bdp = 1.0 } }\n")?;
    // Silent in between, and sending a little now and then, after more than an RTO.
    let cases = [(7000, "keep", 0), (7001, "decay", 0), (7002, "keep", 20), (7003, "decay", 20)];
    let policy: String = cases
        .iter()
        .map(|(port, idle, _)| path_to(*port, &format!("max_cwnd = {OPEN}; idle = \"{idle}\"")))
        .collect();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let trace = Trace::start(7000..=7003)?;
    let connections = cases.iter().map(|case| open(&wan, case.0)).collect::<Result<Vec<_>>>()?;

    let send = |connection: &Connection, segments: usize| {
        (&connection.near).write_all(&vec![0; segments * 1448])
    };
    for connection in &connections {
        let mut from = connection.far.try_clone()?;
        std::thread::spawn(move || std::io::copy(&mut from, &mut std::io::sink()));
        send(connection, 8 * OPEN as usize)?;
    }
    let look = || {
        let flows = connections.iter().map(|connection| connection.near_flow(wan.a()));
        flows.collect::<Result<Vec<_>, _>>().map_err(anyhow::Error::from)
    };
    until("windows are open and all is acknowledged", LIMIT, look, |flows| {
        flows.iter().all(|flow| flow.cwnd_segments == OPEN && flow.unacked_segments == 0)
    })?;
    let idle_since = Instant::now();
    while idle_since.elapsed() < Duration::from_secs(3) {
        signal::sleep(4 * RTT)?;
        for (connection, (_, _, segments)) in connections.iter().zip(cases) {
            send(connection, segments)?;
        }
    }
    // The last acknowledgements.
    signal::sleep(2 * RTT)?;
    let sending_again = monotonic_ns();
    for connection in &connections {
        send(connection, 2 * OPEN as usize)?;
    }
    signal::sleep(2 * RTT)?;
    let events = trace.finish()?;
    let windows = |connection: &Connection| -> Result<[u32; 2]> {
        let port = connection.near.local_addr()?.port();
        let mut windows = events.iter().filter_map(|event| match event.what {
            What::Packet { cwnd_segments, .. }
                if event.local_port == port && event.time_ns > sending_again =>
            {
                Some(cwnd_segments)
            }
            _ => None,
        });
        Ok([windows.next().context("no ACK")?, windows.next().context("only one ACK")?])
    };
    for (connection, (_, idle, segments)) in connections.iter().zip(cases) {
        let windows = windows(connection)?;
        println!("{idle}, {segments} at a time: {windows:?} at the next two ACKs");
        let fit = match (idle, segments) {
            // The first flight is the kernel's: RFC 5681's restart window, or what
            // halving for each RTO since the last one has left.
            ("keep", 0) => windows == [10, OPEN],
            ("keep", _) => windows[1] == OPEN,
            (_, 0) => windows[0] == 10 && windows[1] <= 20,
            _ => windows.iter().all(|window| *window <= 80),
        };
        ensure!(fit, "{idle}, {segments} at a time: {windows:?}");
    }
    Ok(())
}
