//! Connections of a path that begin together end slow start at their parts of it: seen by
//! ss, and by what a queue had no room for.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    policy::path_to,
    sending::while_sending,
    settings, signal,
    ss::Flow,
    stand::Stand,
    tcp::{Connection, at},
    wad::{Home, program},
};

use super::buffers::{drain, fill, patient};

const PORT: u16 = 7000;
const FLOWS: usize = 4;
const RTT: Duration = Duration::from_millis(60);
/// This is what 100 Mbit/s carry in a round trip.
const BDP_BYTES: u64 = 750_000;
const MSS_BYTES: u64 = 1448;
const PATH: &str = "rtt = '60ms'\nforward = { rate = '100Mbit', queue = { bdp = 1.0 } }\n";

fn home() -> Result<Home> {
    let keys = "congestion = 'wad_aimd'; sndbuf = 'auto'; rcvbuf = 'auto'; \
                bandwidth = '100Mbit'; rtt = '60ms'";
    Ok(Home::create(&program()?, &path_to(PORT, keys))?)
}

fn wan() -> Result<Wan> {
    let wan = Wan::start(&toml::from_str(PATH)?)?;
    settings::apply(&wan)?;
    Ok(wan)
}

#[e2e(long, few)]
fn flows_that_begin_together_end_slow_start_at_their_parts() -> Result<()> {
    let stand = Stand::set_up("start")?;
    let home = home()?;
    let _agent = home.start(stand.cgroup())?;
    let wan = wan()?;
    let open = || Ok(Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], PORT))?);
    let connections = (0..FLOWS).map(|_| open()).collect::<Result<Vec<_>>>()?;
    let flows = while_sending(&connections, || -> Result<Vec<Flow>> {
        signal::sleep(25 * RTT)?;
        connections.iter().map(|connection| Ok(connection.near_flow(wan.a())?)).collect()
    })?;
    for flow in &flows {
        let end =
            flow.ssthresh_segments.with_context(|| format!("it is in slow start: {flow:?}"))?;
        // Slow start doubles the window in a round trip.
        let part_bytes = BDP_BYTES / FLOWS as u64;
        let end_bytes = u64::from(end) * MSS_BYTES;
        ensure!((part_bytes..=2 * part_bytes).contains(&end_bytes), "{end_bytes}: {flow:?}");
    }
    let [forward, _] = wan.counters()?;
    ensure!(forward.queue_drops == 0, "{forward:?}");
    Ok(())
}

/// This error was seen before: it left slow start at a part of the path for each of them.
#[e2e(long, few)]
fn a_flow_beside_those_that_nobody_reads_has_the_whole_path() -> Result<()> {
    const UNREAD: usize = 16;
    let stand = Stand::set_up("unread-start")?;
    let home = home()?;
    let _agent = home.start(stand.cgroup())?;
    let wan = wan()?;
    let open = || patient(Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], PORT))?);
    let unread = (0..UNREAD).map(|_| open()).collect::<Result<Vec<_>>>()?;
    let sent = fill(&unread)?;
    let connections = [open()?];
    let flow = while_sending(&connections, || -> Result<Flow> {
        signal::sleep(25 * RTT)?;
        Ok(connections[0].near_flow(wan.a())?)
    })?;
    // It has not left slow start, or not before the path was full but for headers.
    let full_bytes = BDP_BYTES * 19 / 20;
    let end = flow.ssthresh_segments.map(|segments| u64::from(segments) * MSS_BYTES);
    ensure!(end.is_none_or(|bytes| bytes >= full_bytes), "{end:?}: {flow:?}");
    ensure!(u64::from(flow.cwnd_segments) * MSS_BYTES >= full_bytes, "{flow:?}");
    drain(&unread, &sent)
}
