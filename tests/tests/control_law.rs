//! The window of a real flow, sampled from outside with ss: how far it falls
//! when one packet is lost and how fast it grows again, and that a flow which
//! hardly sends does not grow one. Windows count segments.

use std::{
    io::Write as _,
    net::{Shutdown, TcpStream},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use wad_tests::{
    lab::{
        settings,
        wan::{ADDRESSES_V4, Wan},
    },
    signal,
    ss::Flow,
    stand::Stand,
    tcp::{self, Connection, at},
    wad::{Home, program},
};

/// A path for each law, by port, and one for the flow that hardly sends.
const POLICY: &str = r#"
[[path]]
name = "standard"
remote = "10.77.0.2"
remote_port = 7001
sndbuf = "16MiB"
rcvbuf = "16MiB"
congestion = "wad_aimd"
additive_increase = 1
decrease = 0.5

[[path]]
name = "six"
remote = "10.77.0.2"
remote_port = 7002
sndbuf = "16MiB"
rcvbuf = "16MiB"
congestion = "wad_aimd"
additive_increase = 6
decrease = 0.3
allow = "aggressive"

[[path]]
name = "four"
remote = "10.77.0.2"
remote_port = 7003
sndbuf = "16MiB"
rcvbuf = "16MiB"
congestion = "wad_aimd"
additive_increase = 4
decrease = 0.125
allow = "aggressive"

[[path]]
name = "idle"
remote = "10.77.0.2"
remote_port = 7004
sndbuf = "16MiB"
rcvbuf = "16MiB"
congestion = "wad_aimd"
additive_increase = 6
decrease = 0.3
allow = "aggressive"
"#;

const RTT: Duration = Duration::from_millis(100);

/// The first loss ends slow start, well below what path and buffers hold; the
/// second, which is the one looked at, comes when the window grows slowly, so
/// that a sample just before tells what it was.
const LOSSES: &str = "rtt = '100ms'\nforward = { rate = '400Mbit', queue = { bdp = 1.0 }, \
                      drop_data_packets = [300], drop_at = ['2500ms'] }\n";
const LOSSLESS: &str = "rtt = '100ms'\nforward = { rate = '400Mbit', queue = { bdp = 1.0 } }\n";

fn path(text: &str) -> Result<Wan> {
    let wan = Wan::start(&toml::from_str(text)?)?;
    settings::apply(&wan)?;
    Ok(wan)
}

struct Sample {
    at: Instant,
    flow: Flow,
}

/// Samples a flow that sends all it can, as fast as ss can be run.
fn samples(wan: &Wan, stream: &TcpStream, span: Duration) -> Result<Vec<Sample>> {
    let begun = Instant::now();
    let mut samples = Vec::new();
    while begun.elapsed() < span {
        // The moment when the kernel is asked lies in the middle.
        let asked = Instant::now();
        let flow = tcp::flow(wan.a(), stream)?;
        let at = asked + asked.elapsed() / 2;
        samples.push(Sample { at, flow });
        signal::sleep(Duration::from_millis(2))?;
    }
    Ok(samples)
}

/// Two losses, of which the second is looked at.
fn one_loss(port: u16, a: f64, b: f64) -> Result<()> {
    let wan = path(LOSSES)?;
    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?;
    let Connection { near, far } = &connection;
    let samples = thread::scope(|scope| -> Result<Vec<Sample>> {
        scope.spawn(|| {
            let block = vec![0; 256 * 1024];
            let mut to = near;
            while to.write_all(&block).is_ok() {}
        });
        scope.spawn(|| {
            let mut from = far;
            std::io::copy(&mut from, &mut std::io::sink())
        });
        let samples = samples(&wan, near, Duration::from_secs(8));
        // Ends both threads.
        near.shutdown(Shutdown::Both)?;
        far.shutdown(Shutdown::Both)?;
        samples
    })?;
    let [counters, _] = wan.counters()?;
    ensure!(counters.planned_drops == 2, "{counters:?}");
    ensure!(counters.own_drops() + counters.queue_drops == 0, "{counters:?}");

    let fell = samples
        .windows(2)
        .position(|pair| pair[0].flow.retransmits == 1 && pair[1].flow.retransmits == 2)
        .context("the second loss was not seen")?;
    let before = &samples[fell];
    let recovered = samples[fell + 1..]
        .iter()
        .position(|sample| sample.flow.retransmits_out == 0)
        .context("the recovery had no end")?;
    let after = &samples[fell + 1 + recovered];
    // What the law may have added between two looks: to the first before the loss,
    // and to the second after the recovery.
    let unseen =
        |n: usize| a * (samples[n + 1].at - samples[n].at).as_secs_f64() / RTT.as_secs_f64();
    let window = f64::from(before.flow.cwnd_segments);
    let expected = [(1.0 - b) * window, (1.0 - b) * (window + unseen(fell))];
    let window_after = f64::from(after.flow.cwnd_segments);
    let seen = [window_after - unseen(fell + recovered), window_after];
    let threshold = f64::from(after.flow.ssthresh_segments.context("no threshold after a loss")?);
    println!(
        "AIMD({b}, {a}): {window} before the loss, {window_after} after (ssthresh {threshold}), \
         {:.1} to {:.1} expected",
        expected[0], expected[1]
    );
    let within = |least: f64, most: f64| least <= expected[1] + 1.0 && most >= expected[0] - 1.0;
    ensure!(within(threshold, threshold), "a threshold of {threshold}");
    ensure!(within(seen[0], seen[1]), "a window of {:.1} to {:.1}", seen[0], seen[1]);

    let growing = &samples[fell + 1 + recovered..];
    let last = growing.last().context("no sample after the recovery")?;
    let rtts: f64 = growing
        .windows(2)
        .map(|pair| {
            let rtt_seconds = f64::midpoint(pair[0].flow.rtt_ms, pair[1].flow.rtt_ms) / 1e3;
            (pair[1].at - pair[0].at).as_secs_f64() / rtt_seconds
        })
        .sum();
    let grown = f64::from(last.flow.cwnd_segments - after.flow.cwnd_segments);
    let increase = grown / rtts;
    println!("AIMD({b}, {a}): {grown} more in {rtts:.1} round trips, {increase:.3} for each");
    ensure!(rtts > 30.0, "only {rtts} round trips were seen");
    ensure!((increase / a - 1.0).abs() <= 0.05, "{increase} segments for each RTT, not {a}");
    Ok(())
}

/// 10 kB/s for a minute, in small writes and in bursts of ten.
fn hardly_sending() -> Result<()> {
    let wan = path(LOSSLESS)?;
    let open = || Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], 7004));
    let connections = [(open()?, 1), (open()?, 10)];
    let mut most = [(0, 0); 2];
    let begun = Instant::now();
    for tick in 1_u32..=600 {
        for (connection, every) in &connections {
            if tick % every == 0 {
                (&connection.near).write_all(&vec![0; 1000 * *every as usize])?;
            }
        }
        let next = begun + RTT * tick;
        while Instant::now() < next {
            for ((connection, _), (cwnd, out)) in connections.iter().zip(&mut most) {
                let flow = tcp::flow(wan.a(), &connection.near)?;
                *cwnd = flow.cwnd_segments.max(*cwnd);
                *out = flow.unacked_segments.max(*out);
            }
            signal::sleep(Duration::from_millis(20))?;
        }
    }
    for ((_, every), (cwnd, out)) in connections.iter().zip(most) {
        println!("10 kB/s, {every} kB at a time: window {cwnd}, {out} segments out at most");
        ensure!(out > 0, "nothing was seen on its way");
        ensure!(cwnd <= (2 * out).max(10), "a window of {cwnd} with {out} segments out");
    }
    Ok(())
}

/// One test: the minute passes while the losses are looked at.
#[test]
fn the_window_falls_grows_and_stays_as_the_law_says() -> Result<()> {
    let stand = Stand::set_up("law")?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    thread::scope(|scope| {
        let minute = scope.spawn(hardly_sending);
        let losses = [(7001, 1.0, 0.5), (7002, 6.0, 0.3), (7003, 4.0, 0.125)];
        let seen = losses.into_iter().try_for_each(|(port, a, b)| one_loss(port, a, b));
        let minute = minute.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        seen.and(minute)
    })
}
