//! The emulated path, with real TCP over it: it takes as long, carries as much
//! and loses as much as its law says, and every byte arrives.

use std::{net::SocketAddr, thread, time::Duration};

use anyhow::{Context, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_lab::bulk::{self, Amount, Received, Sent};
use wad_testbed::{
    emulated::{
        direction::Counters,
        path::Path,
        wan::{ADDRESSES_V4, ADDRESSES_V6, Wan},
    },
    process, settings, signal, ss,
    stand::Stand,
};

const SPAN: Duration = Duration::from_secs(3);

struct Transfer {
    sent: Sent,
    received: Received,
    forward: Counters,
    reverse: Counters,
    min_rtt_ms: f64,
}

/// Sends over a path for [`SPAN`], from one end to the other.
fn transfer(path: &Path, address: &str) -> Result<Transfer> {
    let _stand = Stand::set_up("path")?;
    let wan = Wan::start(path)?;
    settings::apply(&wan)?;
    let to = SocketAddr::new(address.parse()?, 7000);
    let (sent, received, flows) = thread::scope(|scope| -> Result<_> {
        let receiver = scope.spawn(|| wan.b().run(|| bulk::receive(to, 1)));
        let listens = || process::run("ss", &["-ltnH", "sport = :7000"]);
        while wan.b().run(listens)??.is_empty() {
            ensure!(!receiver.is_finished(), "the receiver does not listen");
            signal::sleep(Duration::from_millis(20))?;
        }
        let sender = scope.spawn(|| wan.a().run(|| bulk::send(to, 1, Amount::Time(SPAN))));
        signal::sleep(SPAN * 2 / 3)?;
        let flows = wan.a().run(|| ss::flows("dport = :7000"))??;
        let joined = "a thread panicked";
        let sent = sender.join().ok().context(joined)???;
        Ok((sent, receiver.join().ok().context(joined)???, flows))
    })?;
    // The last acknowledgements are still on their way.
    signal::sleep(2 * path.rtt.0)?;
    let [forward, reverse] = wan.counters()?;
    let min_rtt_ms = flows.first().context("no flow seen")?.min_rtt_ms;
    Ok(Transfer { sent, received, forward, reverse, min_rtt_ms })
}

#[e2e(long, alone)]
fn carries_its_rate_at_its_delay() -> Result<()> {
    let path: Path =
        toml::from_str("rtt = '40ms'\nforward = { rate = '100Mbit', queue.bdp = 1.0 }")?;
    for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
        let seen = transfer(&path, address)?;
        ensure!(seen.sent.bytes == seen.received.bytes, "{} bytes", seen.received.bytes);
        // Not below the delay; above it by what moderation and a busy machine add.
        ensure!((40.0..45.0).contains(&seen.min_rtt_ms), "{} ms", seen.min_rtt_ms);
        let (end_ns, _) = seen.received.counts.last().context("no counts")?;
        let seconds = (end_ns - seen.sent.started_ns) as f64 / 1e9;
        let share = seen.received.bytes as f64 * 8.0 / seconds / path.carries_bits_per_second();
        ensure!((0.7..1.0).contains(&share), "{share} of what the path carries");
        let queue_bytes = path.queue_bytes(&path.forward);
        ensure!(seen.forward.peak_queue_bytes <= queue_bytes, "{:?}", seen.forward);
        ensure!(seen.forward.random_drops + seen.forward.planned_drops == 0);
        ensure!(seen.forward.write_failures + seen.reverse.write_failures == 0);
    }
    Ok(())
}

#[e2e(long, few)]
fn every_byte_arrives_over_a_bad_path() -> Result<()> {
    let path: Path = toml::from_str(
        "rtt = '20ms'\nmtu = 4000\n\
         [forward]\nrate = '200Mbit'\nqueue.packets = 100\njitter = '2ms'\nloss = 0.002\n\
         reorder = { probability = 0.01, by = '3ms' }\n\
         drop_data_packets = [50, 51]\ndrop_at = ['1s']\n\
         [reverse]\nrate = '20Mbit'\nqueue.bytes = 100000\nloss = 0.01",
    )?;
    let seen = transfer(&path, ADDRESSES_V4[1])?;
    ensure!(seen.sent.bytes == seen.received.bytes && seen.sent.bytes > 1_000_000);
    let forward = seen.forward;
    ensure!(forward.planned_drops == 3, "{forward:?}");
    ensure!(forward.random_drops > 0 && forward.held_back > 0, "{forward:?}");
    ensure!(seen.reverse.random_drops > 0, "{:?}", seen.reverse);
    let lost = forward.queue_drops + forward.random_drops + forward.planned_drops;
    ensure!(forward.arrived == forward.delivered + lost, "{forward:?}");
    Ok(())
}
