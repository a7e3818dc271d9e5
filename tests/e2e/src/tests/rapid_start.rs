//! On a path of which nothing is known the window of a paced flow grows threefold in a round trip, until
//! the first sign of a queue: each segment that is delivered adds two, seen by ss.

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
/// It carries 10,000 segments in a round trip.
const PATH: &str = "rtt = '120ms'\nforward = { rate = '1Gbit', queue = { bdp = 1.0 } }\n";
/// Three round trips of 10, 30 and 90 segments.
const FIRST_SEGMENTS: std::ops::Range<u64> = 20..130;
/// So many samples are enough, of several connections: one on a busy host may see a queue that is none.
const SAMPLES: usize = 30;
const MOST_CONNECTIONS: u16 = 15;

/// Returns how flows of a path with these keys are within their first segments.
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

/// The segments that each delivered one has added to the window.
fn growth(flow: &Flow) -> f64 {
    f64::from(flow.cwnd_segments - 10) / flow.delivered_segments as f64
}

/// The windows that it is paced at in a round trip.
fn windows(flow: &Flow) -> f64 {
    let window_bits = f64::from(flow.cwnd_segments * flow.mss_bytes) * 8.0;
    flow.pacing_bits_per_second as f64 * flow.rtt_ms / 1e3 / window_bits
}

#[e2e(every_change, few)]
fn a_path_of_which_nothing_is_known_is_filled_by_threes() -> Result<()> {
    let flows = beginnings("rapid", "congestion = 'wad_cubic'")?;
    let fastest = flows.iter().max_by(|a, b| growth(a).total_cmp(&growth(b))).context("none")?;
    println!(
        "{:.2} for each segment, {:.2} windows: {fastest:?}",
        growth(fastest),
        windows(fastest)
    );
    ensure!((1.7..2.05).contains(&growth(fastest)), "{fastest:?}");
    ensure!((3.5..4.5).contains(&windows(fastest)), "{fastest:?}");
    Ok(())
}

#[e2e(every_change, few)]
fn a_window_that_is_not_paced_or_has_a_threshold_doubles() -> Result<()> {
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
