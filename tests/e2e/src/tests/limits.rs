//! `max_flows`: beyond it flows stay untuned and are counted, and one that closes makes
//! room. `max_memory` leaves no flow untuned; what it bounds see `buffers`.

use std::{collections::HashSet, time::Duration};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    capture::Capture,
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{self, ADDRESSES_V4, Wire},
    wad::{Home, program},
};

use super::buffers::fill;

const SOON: Duration = Duration::from_secs(5);

/// Tells whether a connection is tuned, of which only the end that connects matches:
/// the others' peer is 10.81.0.1.
fn is_tuned(wire: &Wire, connection: &Connection, sndbuf_bytes: u64) -> Result<bool> {
    let flow = connection.near_flow(wire.a())?;
    let tuned = flow.congestion.starts_with("wad_aimd");
    ensure!(tuned == (flow.sndbuf_bytes == 2 * sndbuf_bytes), "half tuned: {flow:?}");
    ensure!(tuned || flow.congestion == "cubic", "{flow:?}");
    Ok(tuned)
}

#[e2e(long, beside)]
fn a_path_tunes_max_flows_at_a_time() -> Result<()> {
    let stand = Stand::set_up("flows")?;
    let wire = Wire::start()?;
    let policy = "[[path]]\nname = 'few'\nremote = '10.81.0.2'\nsndbuf = '100000'\n\
                  congestion = 'wad_aimd'\nmax_flows = 3\n";
    let home = Home::create(&program()?, policy)?;
    let _agent = home.start(stand.cgroup())?;
    let open = || Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000));

    let mut connections = Vec::new();
    for count in 1..=5 {
        connections.push(open()?);
        let tuned = is_tuned(&wire, &connections[count - 1], 100_000)?;
        ensure!(
            tuned == (count <= 3),
            "flow {count}: tuned is {tuned}; {}",
            home.metrics()?.text()
        );
    }
    let metrics = home.metrics()?;
    let untuned = ["path=\"few\"", "reason=\"max_flows\""];
    ensure!(metrics.of_path("wad_flows_tuned", "few")? == 3.0);
    ensure!(metrics.value("wad_flows_untuned_total", &untuned)? == 2.0);
    ensure!(metrics.of_path("wad_flows_opened_total", "few")? == 5.0);

    // An untuned one that goes makes no room, a tuned one does.
    drop(connections.remove(4));
    await_closed(&home, "few", 1)?;
    connections.push(open()?);
    ensure!(!is_tuned(&wire, &connections[4], 100_000)?, "a fourth tuned flow");
    drop(connections.remove(0));
    await_closed(&home, "few", 2)?;
    connections.push(open()?);
    ensure!(is_tuned(&wire, &connections[4], 100_000)?, "no room where one was closed");
    ensure!(home.metrics()?.of_path("wad_flows_tuned", "few")? == 3.0);
    connections.iter().try_for_each(|connection| connection.exchange(100_000))?;
    Ok(())
}

/// Before, each flow reserved its buffers twice over: of these, three were tuned. Now others
/// hold more than may be held, for as long as they come, and each has all but buffers that
/// grow.
// What other tests hold counts as well.
#[e2e(long, alone)]
fn no_flow_goes_without_for_want_of_memory() -> Result<()> {
    const FLOWS: usize = 32;
    const UNREAD: usize = 32;
    const LIMIT_BYTES: f64 = 10.0 * 1024.0 * 1024.0;
    const WINDOW_SEGMENTS: u32 = 20;
    let stand = Stand::set_up("memory")?;
    let wire = Wire::start()?;
    let keys = "congestion = 'wad_aimd'\npacing = '80Mbit'\ndscp = 10\n\
                initial_window = 20\nallow = 'aggressive'\n\n";
    let policy = format!(
        "[limits]\nmax_memory = '10MiB'\n\n\
         [[path]]\nname = 'fixed'\nremote = '10.81.0.2'\nremote_port = 7000\n\
         sndbuf = '512KiB'\nrcvbuf = '1MiB'\n{keys}\
         [[path]]\nname = 'grows'\nremote = '10.81.0.2'\nbandwidth = '1Gbit'\n\
         rtt = '100ms'\nsndbuf = 'auto'\nrcvbuf = 'auto'\n{keys}"
    );
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let open = |port| Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], port));
    let unread = (0..UNREAD).map(|_| open(7000)).collect::<Result<Vec<_>, _>>()?;
    fill(&unread)?;
    let over_seconds =
        || anyhow::Ok(home.metrics()?.value("wad_memory_over_limit_seconds_total", &[])?);
    until("it is too much", SOON, over_seconds, |seconds| *seconds > 1.0)?;

    for (port, path, others) in [(7000, "fixed", UNREAD), (7001, "grows", 0)] {
        // AF11.
        let filter = format!("dst port {port} and ip[1] & 0xfc = 0x28");
        let capture = Capture::start(wire.a(), veth::DEVICE, &filter)?;
        let before = over_seconds()?;
        let mut connections = Vec::new();
        for _ in 0..FLOWS {
            let connection = open(port)?;
            let flow = connection.near_flow(wire.a())?;
            ensure!(flow.cwnd_segments == WINDOW_SEGMENTS, "{path}: {flow:?}");
            connections.push(connection);
        }
        for connection in &connections {
            connection.exchange(10_000)?;
            let flow = connection.near_flow(wire.a())?;
            ensure!(flow.congestion.starts_with("wad_aimd"), "{flow:?}");
            ensure!((1..=80_000_000).contains(&flow.pacing_bits_per_second), "{flow:?}");
            let is_as_asked = match path {
                "fixed" => (flow.sndbuf_bytes, flow.rcvbuf_bytes) == (1 << 20, 2 << 20),
                // 10 kB need no more than the kernel gives.
                _ => flow.sndbuf_bytes < 1 << 20 && flow.rcvbuf_bytes < 1 << 20,
            };
            ensure!(is_as_asked, "{path}: {flow:?}");
        }
        let metrics = home.metrics()?;
        let tuned = metrics.of_path("wad_flows_tuned", path)?;
        ensure!(tuned == (FLOWS + others) as f64, "{}", metrics.text());
        let packets = capture.stop()?;
        let data = packets.iter().filter(|packet| packet.payload_bytes > 0);
        let of_class: HashSet<_> = data.map(|packet| packet.from).collect();
        ensure!(of_class.len() == FLOWS, "{path}: {of_class:?}");
        let during = over_seconds()? - before;
        ensure!(during > 0.0, "{path}: the bound was not met meanwhile; {}", home.log());
    }
    let metrics = home.metrics()?;
    ensure!(metrics.value("wad_memory_limit_bytes", &[])? == LIMIT_BYTES);
    ensure!(metrics.value("wad_memory_held_bytes", &[])? > LIMIT_BYTES, "{}", metrics.text());
    ensure!(!metrics.text().contains("reason=\"memory\""), "{}", metrics.text());
    Ok(())
}

fn await_closed(home: &Home, path: &str, count: u32) -> Result<()> {
    let closed = || -> Result<_> { Ok(home.metrics()?.of_path("wad_flows_closed_total", path)?) };
    until("a closed flow is counted", SOON, closed, |closed| *closed == f64::from(count))?;
    Ok(())
}
