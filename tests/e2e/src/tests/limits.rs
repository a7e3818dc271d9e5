//! `max_flows` and `max_memory`: beyond them flows stay untuned and are counted,
//! and what a closed flow had is free again.

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

#[e2e(long, beside)]
fn tuned_flows_pin_no_more_than_max_memory() -> Result<()> {
    let stand = Stand::set_up("memory")?;
    let wire = Wire::start()?;
    // 3 MiB each, once doubled.
    let policy = "[limits]\nmax_memory = '10MiB'\n\n\
                  [[path]]\nname = 'large'\nremote = '10.81.0.2'\nremote_port = 7000\n\
                  sndbuf = '512KiB'\nrcvbuf = '1MiB'\ncongestion = 'wad_aimd'\n\n\
                  [[path]]\nname = 'small'\nremote = '10.81.0.2'\n\
                  sndbuf = '256KiB'\ncongestion = 'wad_aimd'\n";
    let home = Home::create(&program()?, policy)?;
    let _agent = home.start(stand.cgroup())?;
    let open = |port| Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], port));
    let reserved = || -> Result<_> { Ok(home.metrics()?.value("wad_memory_reserved_bytes", &[])?) };
    const MIB: f64 = 1024.0 * 1024.0;

    let mut connections = Vec::new();
    for count in 1..=5 {
        connections.push(open(7000)?);
        let tuned = is_tuned(&wire, &connections[count - 1], 512 * 1024)?;
        ensure!(
            tuned == (count <= 3),
            "flow {count}: tuned is {tuned}; {}",
            home.metrics()?.text()
        );
    }
    // What is left is enough for a smaller one: 9 MiB + 2 * 256 KiB.
    connections.push(open(7001)?);
    ensure!(is_tuned(&wire, &connections[5], 256 * 1024)?, "512 KiB of 1 MiB were refused");
    let metrics = home.metrics()?;
    let untuned = ["path=\"large\"", "reason=\"memory\""];
    ensure!(metrics.value("wad_flows_untuned_total", &untuned)? == 2.0, "{}", metrics.text());
    ensure!(metrics.value("wad_memory_limit_bytes", &[])? == 10.0 * MIB);
    ensure!(reserved()? == 9.5 * MIB, "{}", reserved()?);

    drop(connections.remove(0));
    await_closed(&home, "large", 1)?;
    ensure!(reserved()? == 6.5 * MIB, "{}", reserved()?);
    connections.push(open(7000)?);
    ensure!(is_tuned(&wire, &connections[5], 512 * 1024)?, "no room where one was closed");
    connections.iter().try_for_each(|connection| connection.exchange(100_000))?;
    connections.clear();
    until("all memory is given back", SOON, reserved, |bytes| *bytes == 0.0)?;
    Ok(())
}

fn await_closed(home: &Home, path: &str, count: u32) -> Result<()> {
    let closed = || -> Result<_> { Ok(home.metrics()?.of_path("wad_flows_closed_total", path)?) };
    until("a closed flow is counted", SOON, closed, |closed| *closed == f64::from(count))?;
    Ok(())
}
