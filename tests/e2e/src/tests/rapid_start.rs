//! Rapid start: on an unknown path the window of a paced flow triples in each RTT until the RTT rises.
//! `ss` shows that each delivered segment adds two.

use std::{slice, time::Duration};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    policy::path_to,
    sending::{samples, while_sending},
    settings,
    ss::Flow,
    stand::Stand,
    tcp::{Connection, at},
    wad::{Home, program},
};

const RTT: Duration = Duration::from_millis(120);
/// Its BDP is 10,000 segments.
const PATH: &str = "rtt = '120ms'\nforward = { rate = '1Gbit', queue = { bdp = 1.0 } }\n";
/// Three rounds, of 10, 30 and 90 segments.
const FIRST_SEGMENTS: std::ops::Range<u64> = 20..130;
/// Samples to gather, from several connections: on a busy host the RTT of one may rise by itself.
const SAMPLES: usize = 30;
const MOST_CONNECTIONS: u16 = 15;

/// Samples flows of a path with these keys while they send their first segments.
fn beginnings(name: &str, keys: &str) -> Result<Vec<Flow>> {
    let stand = Stand::set_up(name)?;
    let home = Home::create(&program()?, &path_to(7000, keys))?;
    let agent = home.start(stand.cgroup())?;
    let wan = Wan::start(&toml::from_str(PATH)?)?;
    settings::apply(&wan)?;
    let mut flows = Vec::new();
    for _ in 0..MOST_CONNECTIONS {
        if flows.len() > SAMPLES {
            break;
        }
        let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], 7000))?;
        let connection = slice::from_ref(&connection);
        let seen = while_sending(connection, || samples(wan.a(), connection, RTT * 4))?;
        let seen = seen.into_iter().flatten().map(|sample| sample.flow);
        flows.extend(seen.filter(|flow| FIRST_SEGMENTS.contains(&flow.delivered_segments)));
    }
    agent.stop()?;
    ensure!(flows.len() > SAMPLES, "only {} samples", flows.len());
    Ok(flows)
}

/// Segments of cwnd gained per segment delivered.
fn growth(flow: &Flow) -> f64 {
    f64::from(flow.cwnd_segments - 10) / flow.delivered_segments as f64
}

/// The pacing rate, in windows per RTT.
fn windows(flow: &Flow) -> f64 {
    let window_bits = f64::from(flow.cwnd_segments * flow.mss_bytes) * 8.0;
    flow.pacing_bits_per_second as f64 * flow.rtt_ms / 1e3 / window_bits
}

#[e2e(every_change, few)]
fn on_an_unknown_path_the_window_triples_in_each_rtt() -> Result<()> {
    let flows = beginnings("rapid", "congestion = 'wad_cubic'")?;
    let fastest = flows.iter().max_by(|a, b| growth(a).total_cmp(&growth(b))).context("none")?;
    println!(
        "{:.2} segments per segment delivered, {:.2} windows per RTT: {fastest:?}",
        growth(fastest),
        windows(fastest)
    );
    ensure!((1.7..2.05).contains(&growth(fastest)), "{fastest:?}");
    ensure!((2.6..3.4).contains(&windows(fastest)), "{fastest:?}");
    Ok(())
}

#[e2e(long, few)]
fn without_pacing_or_with_an_ssthresh_the_window_doubles() -> Result<()> {
    for (name, keys) in [
        ("unpaced", "congestion = 'wad_cubic'; pacing = 'off'"),
        ("threshold", "congestion = 'wad_cubic'; initial_ssthresh = 1000"),
    ] {
        let flows = beginnings(name, keys)?;
        for flow in &flows {
            ensure!(growth(flow) < 1.05, "{name}: {flow:?}");
        }
    }
    Ok(())
}
