//! `divide`: rates and windows of a path are those of all its flows together, as they
//! come and go. Judged by what `ss` shows of the senders, and by what arrives.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    policy::path_to,
    settings, signal,
    ss::Flow,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    wad::{Home, program},
};

use super::divide::Sender;

const PORT: u16 = 7100;
const MOST: usize = 8;
/// Timeout for all flows to have their part after others came or went.
const SOON: Duration = Duration::from_secs(5);
const RATE: f64 = 80e6;
/// The payload of a dedicated path's rate.
const DEDICATED_PAYLOAD: f64 = 0.95;

/// A path whose flows have something together.
struct Total {
    port: u16,
    keys: &'static str,
    /// It is so much...
    total: f64,
    /// ...as `ss` shows it of each.
    of: fn(&Flow) -> f64,
    /// So many bits of payload arrive in a second.
    arrives: f64,
}

const TOTALS: [Total; 3] = [
    Total {
        port: PORT,
        keys: "dedicated = '80Mbit'; rtt = '50ms'; divide = true",
        total: RATE * DEDICATED_PAYLOAD,
        of: |flow| flow.pacing_bits_per_second as f64,
        arrives: RATE * DEDICATED_PAYLOAD,
    },
    Total {
        port: PORT + 1,
        keys: "congestion = 'cubic'; pacing = '80Mbit'; divide = true",
        total: RATE,
        of: |flow| flow.pacing_bits_per_second as f64,
        arrives: RATE,
    },
    Total {
        port: PORT + 2,
        keys: "congestion = 'wad_aimd'; max_cwnd = 240; divide = true",
        total: 240.0,
        of: |flow| f64::from(flow.cwnd_segments),
        // 240 segments in 50 ms.
        arrives: 55.6e6,
    },
];

#[e2e(long, few, slow)]
fn rates_and_windows_are_those_of_all_flows_together() -> Result<()> {
    let stand = Stand::set_up("totals")?;
    let policy: String = TOTALS.iter().map(|total| path_to(total.port, total.keys)).collect();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let wan = Wan::start(&toml::from_str(
        "rtt = '50ms'\nforward = { rate = '100Mbit', queue = { bdp = 1.0 } }\n",
    )?)?;
    settings::apply(&wan)?;
    for total in &TOTALS {
        hold(&wan, total)?;
    }
    Ok(())
}

fn hold(wan: &Wan, total: &Total) -> Result<()> {
    let to = at(ADDRESSES_V4[1], total.port);
    let listener = tcp::listen(wan.b(), to)?;
    let mut senders: Vec<Sender> = Vec::new();
    let check = |senders: &[Sender], what: &str| -> Result<()> {
        let equal = total.total / senders.len() as f64;
        let is_close = |value: f64, to: f64| (value / to - 1.0).abs() <= 0.02;
        let fits = |flows: &Vec<Flow>| {
            let sum: f64 = flows.iter().map(total.of).sum();
            is_close(sum, total.total) && flows.iter().all(|flow| is_close((total.of)(flow), equal))
        };
        let look = || -> Result<Vec<Flow>> {
            senders.iter().map(|sender| Ok(tcp::flow(wan.a(), &sender.near)?)).collect()
        };
        until("each has an equal part", SOON, look, fits)
            .with_context(|| format!("{}: {what}", total.keys))?;
        Ok(())
    };
    for flows in 1..=MOST {
        let near = tcp::connect(wan.a(), to)?;
        senders.push(Sender::start(Connection::accepted(&listener, near)?)?);
        check(&senders, &format!("{flows} flows"))?;
    }
    // To look takes a while: each at its own time.
    let acked = || -> Result<Vec<(Instant, u64)>> {
        let look = |sender: &Sender| {
            let flow = tcp::flow(wan.a(), &sender.near)?;
            Ok((Instant::now(), flow.bytes_acked))
        };
        senders.iter().map(look).collect()
    };
    let before = acked()?;
    signal::sleep(Duration::from_secs(2))?;
    let rate_of = |((begun, before), (now, acked)): (&(Instant, u64), &(Instant, u64))| {
        (acked - before) as f64 * 8.0 / now.duration_since(*begun).as_secs_f64()
    };
    let rate: f64 = before.iter().zip(&acked()?).map(rate_of).sum();
    println!("{}: {rate:.0} bit/s arrive", total.keys);
    let part = rate / total.arrives;
    ensure!((0.9..=1.03).contains(&part), "{}: {part} of what it is to be", total.keys);
    while senders.len() > 1 {
        senders.remove(0).abort()?;
        check(&senders, &format!("{} are left", senders.len()))?;
    }
    senders.drain(..).try_for_each(|sender| sender.abort().map(|_| ()))
}
