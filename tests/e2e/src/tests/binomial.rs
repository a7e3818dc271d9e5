//! The window of real flows under `wad_binomial`, seen from outside by ss: SQRT and IIAD
//! gain and lose what their paper says. Windows count segments.

use std::{slice, thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    policy::path_to,
    reference::Law,
    sending::{Sample, samples, while_sending},
    settings,
    stand::Stand,
    tcp::{Connection, at},
    wad::{Home, program},
};

/// A path for each member, by port. Slow start ends at 30 segments: in small windows
/// they differ most from each other, and from a standard flow.
const MEMBERS: [(u16, &str, Law); 2] = [
    (7001, "congestion = \"wad_binomial\"; initial_ssthresh = 30", Law::Sqrt),
    (7002, "congestion = \"wad_binomial\"; binomial = \"iiad\"; initial_ssthresh = 30", Law::Iiad),
];

/// One loss on the way.
const PATH: &str = "rtt = '20ms'\nforward = { rate = '200Mbit', queue = { bdp = 2.0 }, \
                    drop_at = ['4s'] }\n";
const SPAN: Duration = Duration::from_secs(7);

#[e2e(long, beside)]
fn binomial_flows_gain_and_lose_what_the_paper_says() -> Result<()> {
    let stand = Stand::set_up("binomial")?;
    let policy: String = MEMBERS.map(|(port, keys, _)| path_to(port, keys)).concat();
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    thread::scope(|scope| {
        let flows = MEMBERS.map(|(port, _, law)| scope.spawn(move || one_loss(port, law)));
        flows.into_iter().try_for_each(|flow| {
            flow.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    agent.stop()?;
    Ok(())
}

/// A flow that grows, loses a packet, and grows again.
fn one_loss(port: u16, law: Law) -> Result<()> {
    let wan = Wan::start(&toml::from_str(PATH)?)?;
    settings::apply(&wan)?;
    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?;
    let connections = slice::from_ref(&connection);
    let samples = while_sending(connections, || samples(wan.a(), connections, SPAN))?.remove(0);
    let [counters, _] = wan.counters()?;
    ensure!(counters.planned_drops == 1, "{counters:?}");
    ensure!(counters.own_drops() + counters.queue_drops == 0, "{counters:?}");
    ensure!(samples.iter().all(|sample| sample.flow.congestion.starts_with("wad_binomial")));

    let is_before = |sample: &&Sample| sample.flow.ssthresh_segments == Some(30);
    let grows = |sample: &&Sample| sample.flow.cwnd_segments >= 30;
    let before: Vec<_> = samples.iter().filter(is_before).filter(grows).collect();
    let is_after = |sample: &&Sample| {
        sample.flow.retransmits == 1
            && sample.flow.retransmits_out == 0
            && sample
                .flow
                .ssthresh_segments
                .is_some_and(|threshold| threshold != 30 && sample.flow.cwnd_segments >= threshold)
    };
    let after: Vec<_> = samples.iter().filter(is_after).collect();
    check_growth(law, &before)?;
    check_growth(law, &after)?;

    let window = before.last().context("no window before the loss")?.flow.cwnd_segments;
    let threshold = after.first().and_then(|sample| sample.flow.ssthresh_segments);
    let threshold = threshold.context("no threshold after the loss")?;
    println!("{law:?}: {window} before the loss, a threshold of {threshold} after");
    law.check_decrease(window, threshold)?;
    Ok(())
}

/// Windows grow by what the law says, but for a segment that is not whole yet, at the
/// beginning and at the end.
fn check_growth(law: Law, samples: &[&Sample]) -> Result<()> {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        anyhow::bail!("{law:?}: no sample");
    };
    let rtts: f64 = samples
        .windows(2)
        .map(|pair| {
            let rtt_seconds = f64::midpoint(pair[0].flow.rtt_ms, pair[1].flow.rtt_ms) / 1e3;
            (pair[1].at - pair[0].at).as_secs_f64() / rtt_seconds
        })
        .sum();
    let from = f64::from(first.flow.cwnd_segments);
    let grown = f64::from(last.flow.cwnd_segments) - from;
    let expected = law.grown(from, rtts) - from;
    println!("{law:?}: {grown} more than {from} in {rtts:.1} round trips, {expected:.1} expected");
    ensure!(rtts > 80.0, "only {rtts} round trips were seen");
    ensure!((grown - expected).abs() <= 1.0 + expected / 20.0, "{grown} segments, not {expected}");
    Ok(())
}
