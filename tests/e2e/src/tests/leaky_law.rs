//! Real flows with `loss = "leaky"` over the emulated path: losses without a queue
//! leave the window as it is; a mark and a full queue cut it as CUBIC's. Windows
//! count segments.

use std::{slice, time::Duration};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::{
        direction::Counters,
        path::Path,
        wan::{ADDRESSES_V4, Wan},
    },
    sending::{Sample, samples, while_sending},
    settings::{self, Ecn},
    stand::Stand,
    tcp::{Connection, at},
    wad::{Home, program},
};

/// The policy has a path whose flows find what it carries, and one whose flows never
/// fill it, by port.
const POLICY: &str = r#"
[[path]]
name = "full"
remote = "10.77.0.2"
remote_port = 7001
sndbuf = "16MiB"
rcvbuf = "16MiB"
loss = "leaky"
allow = "aggressive"

[[path]]
name = "half-full"
remote = "10.77.0.2"
remote_port = 7002
sndbuf = "16MiB"
rcvbuf = "16MiB"
loss = "leaky"
max_cwnd = 400
allow = "aggressive"
"#;
const FULL: u16 = 7001;
const HALF_FULL: u16 = 7002;

/// The paths hold 1000 segments each, and have room for half of that in the queue.
const LEAKING: &str =
    "rtt = '60ms'\nforward = { rate = '200Mbit', queue = { bdp = 0.5 }, loss = 1e-3 }\n";
const SOUND: &str = "rtt = '60ms'\nforward = { rate = '200Mbit', queue = { bdp = 0.5 } }\n";
const ONE_LOSS_ONE_MARK: &str = "rtt = '60ms'\nforward = { rate = '200Mbit', \
     queue = { bdp = 0.5 }, drop_at = ['2s'], mark_at = ['4s'] }\n";

/// Watches a flow that sends all it can for so long.
fn watch(path: &str, port: u16, span: Duration) -> Result<(Path, Vec<Sample>, Counters)> {
    let path: Path = toml::from_str(path)?;
    let wan = Wan::start(&path)?;
    settings::apply(&wan)?;
    settings::ask_for_ecn(&wan, Ecn::Classic)?;
    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?;
    let connections = slice::from_ref(&connection);
    let samples = while_sending(connections, || {
        samples(wan.a(), connections, span).map(|mut all| all.remove(0))
    })?;
    let [forward, _] = wan.counters()?;
    let last = samples.last().context("no sample")?;
    ensure!(last.flow.congestion.starts_with("wad_leaky"), "{last:?}");
    ensure!(forward.own_drops() == 0, "{forward:?}");
    Ok((path, samples, forward))
}

/// Returns the least window among these.
fn least(samples: &[Sample]) -> Result<u32> {
    samples.iter().map(|sample| sample.flow.cwnd_segments).min().context("no sample")
}

/// Returns the samples from so long after the first sample on.
fn from(samples: &[Sample], after: Duration) -> &[Sample] {
    let begin = samples.iter().position(|sample| sample.at - samples[0].at >= after);
    &samples[begin.unwrap_or(samples.len())..]
}

fn losses_without_a_queue_cost_little() -> Result<()> {
    let (path, samples, forward) = watch(LEAKING, FULL, Duration::from_secs(10))?;
    let settled = from(&samples, Duration::from_secs(3));
    let (first, last) = (&settled[0], &settled[settled.len() - 1]);
    let share = (last.flow.bytes_acked - first.flow.bytes_acked) as f64 * 8.0
        / (last.at - first.at).as_secs_f64()
        / path.carries_bits_per_second();
    println!("{share:.3} of the path's rate; {forward:?}");
    ensure!(forward.random_drops > 50, "{forward:?}");
    ensure!(share > 0.85, "{share} of what the path carries");
    Ok(())
}

fn a_full_queue_is_congestion() -> Result<()> {
    let (_, samples, forward) = watch(SOUND, FULL, Duration::from_secs(12))?;
    ensure!(forward.queue_drops > 0, "the queue was never full: {forward:?}");
    let peak = samples.iter().max_by_key(|sample| sample.flow.cwnd_segments).context("none")?;
    let after = from(&samples, peak.at - samples[0].at);
    let (peak, kept) = (peak.flow.cwnd_segments, least(after)?);
    println!("{kept} of {peak} after {} drops", forward.queue_drops);
    ensure!(f64::from(kept) <= 0.71 * f64::from(peak), "{kept} of {peak}");
    Ok(())
}

fn a_loss_leaves_the_window_and_a_mark_cuts_it() -> Result<()> {
    let (_, samples, forward) = watch(ONE_LOSS_ONE_MARK, HALF_FULL, Duration::from_secs(6))?;
    ensure!((forward.planned_drops, forward.marks) == (1, 1), "{forward:?}");
    let full = from(&samples, Duration::from_millis(1500));
    let lost = full.iter().position(|sample| sample.flow.retransmits > 0).context("no loss")?;
    let marked = from(&samples, Duration::from_millis(3900));
    let between = &full[lost..full.len() - marked.len()];
    println!("{} from the loss on, {} from the mark on", least(between)?, least(marked)?);
    ensure!(least(between)? == 400, "{} after the loss", least(between)?);
    // 0.7 of it, and what grew before ss was asked.
    ensure!((279..=290).contains(&least(marked)?), "{} after the mark", least(marked)?);
    Ok(())
}

#[e2e(long, few, slow)]
fn losses_are_taken_for_what_they_are() -> Result<()> {
    let stand = Stand::set_up("leaky")?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    losses_without_a_queue_cost_little()?;
    a_full_queue_is_congestion()?;
    a_loss_leaves_the_window_and_a_mark_cuts_it()
}
