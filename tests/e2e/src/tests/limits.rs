//! `max_flows`: beyond it flows stay untuned and are counted, and one that closes makes
//! room. `max_memory` leaves no flow untuned; what it bounds see `buffers`.

use std::time::Duration;

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

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

/// Before, each flow reserved its buffers twice over: of these, three were tuned.
// What other tests hold counts as well.
#[e2e(long, alone)]
fn no_flow_goes_without_for_want_of_memory() -> Result<()> {
    const FLOWS: usize = 32;
    let stand = Stand::set_up("memory")?;
    let wire = Wire::start()?;
    let policy = "[limits]\nmax_memory = '10MiB'\n\n\
                  [[path]]\nname = 'fixed'\nremote = '10.81.0.2'\nremote_port = 7000\n\
                  sndbuf = '512KiB'\nrcvbuf = '1MiB'\ncongestion = 'wad_aimd'\n\
                  pacing = '80Mbit'\n\n\
                  [[path]]\nname = 'grows'\nremote = '10.81.0.2'\nbandwidth = '1Gbit'\n\
                  rtt = '100ms'\nsndbuf = 'auto'\nrcvbuf = 'auto'\ncongestion = 'wad_aimd'\n\
                  pacing = '80Mbit'\n";
    let home = Home::create(&program()?, policy)?;
    let _agent = home.start(stand.cgroup())?;
    for (port, path) in [(7000, "fixed"), (7001, "grows")] {
        let mut connections = Vec::new();
        for _ in 0..FLOWS {
            connections.push(Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], port))?);
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
        ensure!(metrics.of_path("wad_flows_tuned", path)? == FLOWS as f64, "{}", metrics.text());
    }
    let metrics = home.metrics()?;
    ensure!(metrics.value("wad_memory_limit_bytes", &[])? == 10.0 * 1024.0 * 1024.0);
    ensure!(!metrics.text().contains("reason=\"memory\""), "{}", metrics.text());
    Ok(())
}

fn await_closed(home: &Home, path: &str, count: u32) -> Result<()> {
    let closed = || -> Result<_> { Ok(home.metrics()?.of_path("wad_flows_closed_total", path)?) };
    until("a closed flow is counted", SOON, closed, |closed| *closed == f64::from(count))?;
    Ok(())
}
