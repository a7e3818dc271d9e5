//! The window of a real flow is seen from outside by ss and the kernel's trace: how far
//! it falls when one packet is lost and how fast it grows again, and that a flow which
//! hardly sends does not grow one. Windows count segments.

use std::{
    io::Write as _,
    slice, thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    episodes::{RECOVERY, episodes},
    policy::path_to,
    reference::Law,
    sending::{samples, while_sending},
    settings, signal,
    stand::Stand,
    tcp::{self, Connection, at},
    trace::Trace,
    wad::{Home, program},
};

/// Each law has a path, by port, and says what the window is to do.
const LAWS: [(u16, &str, Law); 7] = [
    (7001, "additive_increase = 1; decrease = 0.5", Law::Aimd { b: 0.5, a: 1.0 }),
    (7002, "additive_increase = 6; decrease = 0.3", Law::Aimd { b: 0.3, a: 6.0 }),
    (7003, "additive_increase = 4; decrease = 0.125", Law::Aimd { b: 0.125, a: 4.0 }),
    (7004, "congestion = \"wad_highspeed\"", Law::HighSpeed),
    (7005, "congestion = \"wad_scalable\"", Law::Scalable),
    (7008, "congestion = \"wad_cubic\"", Law::Cubic { rtt_seconds: 0.1, plateau: 0.85 }),
    // As four Reno flows.
    (7007, "congestion = \"wad_aimd\"; equivalent_streams = 4", Law::Aimd { b: 1.0 / 8.0, a: 4.0 }),
];
/// The flow that hardly sends has this path.
const IDLE: (u16, &str) = (7006, "additive_increase = 6; decrease = 0.3");

const RTT: Duration = Duration::from_millis(100);

/// The first loss ends slow start, well below what path and buffers hold; the
/// second, which is the one looked at, comes when the window grows slowly.
fn losses(law: Law) -> String {
    // HighSpeed and Scalable differ from a standard flow in large windows.
    let first = if matches!(law, Law::Aimd { .. }) { 300 } else { 900 };
    format!(
        "rtt = '100ms'\nforward = {{ rate = '400Mbit', queue = {{ bdp = 1.0 }}, \
         drop_data_packets = [{first}], drop_at = ['2500ms'] }}\n"
    )
}
const LOSSLESS: &str = "rtt = '100ms'\nforward = { rate = '400Mbit', queue = { bdp = 1.0 } }\n";

fn path(text: &str) -> Result<Wan> {
    let wan = Wan::start(&toml::from_str(text)?)?;
    settings::apply(&wan)?;
    Ok(wan)
}

/// Checks a flow with two losses, of which the second is looked at.
fn one_loss(port: u16, law: Law) -> Result<()> {
    let wan = path(&losses(law))?;
    let trace = Trace::start(port..=port)?;
    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?;
    let connections = slice::from_ref(&connection);
    let samples = while_sending(connections, || {
        samples(wan.a(), connections, Duration::from_secs(8)).map(|mut all| all.remove(0))
    })?;
    let [counters, _] = wan.counters()?;
    ensure!(counters.planned_drops == 2, "{counters:?}");
    ensure!(counters.own_drops() + counters.queue_drops == 0, "{counters:?}");

    let episodes = episodes(&trace.finish()?);
    let losses = episodes.iter().filter(|episode| episode.state == RECOVERY);
    let [_, loss] = losses.collect::<Vec<_>>()[..] else { bail!("not two losses: {episodes:?}") };
    let (after, threshold) = loss.after.context("the flow ended in recovery")?;
    println!("{law:?}: {} before the loss, {after} after ({threshold})", loss.cwnd_before);
    law.check_decrease(loss.cwnd_before, threshold)?;
    ensure!(after == threshold, "a window of {after}");

    let recovered = samples
        .iter()
        .position(|sample| sample.flow.retransmits == 2 && sample.flow.retransmits_out == 0)
        .context("the recovery had no end")?;
    let growing = &samples[recovered..];
    let window_after = f64::from(growing[0].flow.cwnd_segments);
    let last = growing.last().context("no sample after the recovery")?;
    let rtts: f64 = growing
        .windows(2)
        .map(|pair| {
            let rtt_seconds = f64::midpoint(pair[0].flow.rtt_ms, pair[1].flow.rtt_ms) / 1e3;
            (pair[1].at - pair[0].at).as_secs_f64() / rtt_seconds
        })
        .sum();
    let grown = f64::from(last.flow.cwnd_segments) - window_after;
    let expected = law.grown(window_after, rtts) - window_after;
    println!("{law:?}: {grown} more in {rtts:.1} round trips, {expected:.1} expected");
    ensure!(rtts > 30.0, "only {rtts} round trips were seen");
    ensure!((grown / expected - 1.0).abs() <= 0.05, "{grown} segments, not {expected}");
    Ok(())
}

/// Sends 10 kB/s for a minute, in small writes and in bursts of ten.
fn hardly_sending() -> Result<()> {
    let wan = path(LOSSLESS)?;
    let open = || Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], IDLE.0));
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

/// Looks while an agent runs whose paths are those of the laws and of the flow that
/// hardly sends.
fn under_laws(label: &str, look: impl FnOnce() -> Result<()>) -> Result<()> {
    let stand = Stand::set_up(label)?;
    let paths = LAWS.map(|(port, keys, _)| (port, keys));
    let paths = paths.into_iter().chain([IDLE]);
    let policy: String = paths.map(|(port, keys)| path_to(port, keys)).collect();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    look()
}

#[e2e(long, alone)]
fn the_window_falls_and_grows_as_the_law_says() -> Result<()> {
    // Two at a time take less than half of an emulated processor.
    under_laws("law", || {
        LAWS.chunks(2).try_for_each(|laws| {
            thread::scope(|scope| {
                let running: Vec<_> = laws
                    .iter()
                    .map(|&(port, _, law)| scope.spawn(move || one_loss(port, law)))
                    .collect();
                running
                    .into_iter()
                    .try_for_each(|one| one.join().ok().context("a thread panicked")?)
            })
        })
    })
}

#[e2e(long, beside, slow)]
fn the_window_of_a_flow_that_hardly_sends_stays() -> Result<()> {
    under_laws("idle-law", hardly_sending)
}
