//! A flow is paced by its window where the kernel's rate would be by more: in a recovery by
//! all that was out before it, and in a slow start that is limited by twice the window.

use std::{slice, time::Duration};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    policy::path_to,
    sending::{samples, while_sending},
    settings, signal,
    ss::Flow,
    stand::Stand,
    tcp::{Connection, at},
    wad::{Home, program},
};

const RTT: Duration = Duration::from_millis(60);
/// 1000 segments in an RTT, and a queue of 30.
const PATH: &str = "rtt = '60ms'\nforward = { rate = '200Mbit', queue = { bdp = 0.03 } }\n";

/// Looks on while a connection of a path with these keys sends.
fn looking_on<T>(
    name: &str,
    keys: &str,
    look: impl FnOnce(&Wan, &Connection) -> Result<T>,
) -> Result<T> {
    let stand = Stand::set_up(name)?;
    let policy = path_to(7000, &format!("congestion = \"wad_aimd\"; pacing = \"auto\"; {keys}"));
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    let wan = Wan::start(&toml::from_str(PATH)?)?;
    settings::apply(&wan)?;
    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], 7000))?;
    let seen = while_sending(slice::from_ref(&connection), || look(&wan, &connection))?;
    agent.stop()?;
    Ok(seen)
}

#[e2e(long, few)]
fn what_is_sent_again_does_not_overflow_the_queue_again() -> Result<()> {
    let drops = looking_on("resending", "", |wan, _| {
        signal::sleep(RTT * 30)?;
        Ok(wan.moments().queue_drops_ns)
    })?;
    let first_ns = *drops.first().context("slow start has overflowed nothing")?;
    let rtts = |ns: &u64| (ns - first_ns) as f64 / RTT.as_nanos() as f64;
    // An RTT goes by until the sender hears of the first one, and it is as long until what it
    // sends again then is at the queue.
    let again = drops.iter().map(rtts).filter(|after| (1.3..6.0).contains(after)).count();
    println!("{} drops, {again} of them of what was sent again", drops.len());
    ensure!(again == 0, "{again} of {}", drops.len());
    Ok(())
}

#[e2e(long, beside)]
fn a_limited_slow_start_is_paced_for_what_it_adds() -> Result<()> {
    let samples = looking_on("limited", "max_ssthresh = 40", |wan, connection| {
        Ok(samples(wan.a(), slice::from_ref(connection), RTT * 40)?.remove(0))
    })?;
    // 20 segments are added in an RTT, which is 10% of 200.
    let is_limited = |flow: &&Flow| flow.ssthresh_segments.is_none() && flow.cwnd_segments >= 200;
    let limited: Vec<_> = samples.iter().map(|sample| &sample.flow).filter(is_limited).collect();
    ensure!(limited.len() > 20, "only {} samples", limited.len());
    for flow in limited {
        let window_bits = f64::from(flow.cwnd_segments * flow.mss_bytes) * 8.0;
        let windows = flow.pacing_bits_per_second as f64 * flow.rtt_ms / 1e3 / window_bits;
        ensure!((1.1..1.4).contains(&windows), "{windows} windows in an RTT: {flow:?}");
    }
    Ok(())
}
