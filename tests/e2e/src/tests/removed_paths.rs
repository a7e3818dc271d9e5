//! A path that is gone leaves nothing to one that comes later: no count, no histogram, no
//! flow that still belongs to it.

use std::{net::Shutdown, time::Duration};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    metrics::Metrics,
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(10);
const OLD: u16 = 7000;
const NEW: u16 = 7001;
const BYTES: usize = 1_000_000;

fn path(port: u16) -> String {
    format!(
        "[[path]]\nname = 'to-{port}'\nremote = '{}'\nremote_port = {port}\n\
         sndbuf = '300000'\ncongestion = 'wad_aimd'\n",
        ADDRESSES_V4[1]
    )
}

fn open(wire: &Wire, port: u16) -> Result<Connection> {
    Ok(Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], port))?)
}

/// Sees that a path has series, all of them zero but for those that tell of its policy.
fn ensure_nothing_of(metrics: &Metrics, port: u16) -> Result<()> {
    let label = format!("path=\"to-{port}\"");
    let mut series = 0;
    let of_policy =
        ["wad_path_info", "wad_path_sndbuf_bytes", "wad_path_rcvbuf_bytes", "wad_guard_share"];
    let counts = |line: &&str| !of_policy.iter().any(|name| line.starts_with(name));
    for line in metrics.text().lines().filter(|line| line.contains(&label)).filter(counts) {
        series += 1;
        ensure!(line.ends_with(" 0") || line.ends_with(" 0.0"), "inherited: {line}");
    }
    ensure!(series >= 10, "only {series} series of {label}: {}", metrics.text());
    Ok(())
}

/// Waits for the ACK of the last bytes that were sent over the new path.
fn await_bytes(home: &Home) -> Result<()> {
    let path = format!("to-{NEW}");
    let sent = || Ok::<_, anyhow::Error>(home.metrics()?.of_path("wad_sent_bytes_total", &path)?);
    until("all of it is acknowledged", SOON, sent, |sent| *sent >= BYTES as f64)?;
    Ok(())
}

#[e2e(long, beside)]
fn a_new_path_inherits_nothing_of_one_that_is_gone() -> Result<()> {
    let stand = Stand::set_up("removed")?;
    let wire = Wire::start()?;
    let stays = path(7009);
    let home = Home::create(&program()?, &(stays.clone() + &path(OLD)))?;
    let _agent = home.start(stand.cgroup())?;
    let ended = open(&wire, OLD)?;
    ended.exchange(BYTES)?;
    // A flow that cannot send any more is not visited when its path goes.
    let half_closed = open(&wire, OLD)?;
    half_closed.exchange(BYTES)?;
    drop(ended);
    let metrics = || Ok::<_, anyhow::Error>(home.metrics()?);
    until("one has ended", SOON, metrics, |metrics| {
        metrics.of_path("wad_flows_closed_total", "to-7000").is_ok_and(|closed| closed == 1.0)
    })?;
    half_closed.near.shutdown(Shutdown::Write)?;

    home.reload(&stays)?;
    home.reload(&(stays.clone() + &path(NEW)))?;
    ensure_nothing_of(&home.metrics()?, NEW)?;
    drop(half_closed);
    let told = || Ok::<_, anyhow::Error>(home.log().matches("(removed)").count());
    until("its end is told", SOON, told, |count| *count > 0)?;
    ensure_nothing_of(&home.metrics()?, NEW)?;

    let own = open(&wire, NEW)?;
    own.exchange(BYTES)?;
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_connections_matched_total", "to-7001")? == 1.0);
    ensure!(metrics.of_path("wad_flows_tuned", "to-7001")? == 1.0);
    await_bytes(&home)?;

    // One of the same name is another path, too, and its flow is one that ran already.
    home.reload(&stays)?;
    home.reload(&(stays + &path(NEW)))?;
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_connections_matched_total", "to-7001")? == 1.0);
    ensure!(metrics.of_path("wad_flows_closed_total", "to-7001")? == 0.0);
    let sent = metrics.of_path("wad_sent_bytes_total", "to-7001")?;
    ensure!(sent == 0.0, "{sent} bytes are inherited");
    own.exchange(BYTES)?;
    await_bytes(&home)?;
    let sent = home.metrics()?.of_path("wad_sent_bytes_total", "to-7001")?;
    ensure!(sent < 1.5 * BYTES as f64, "{sent} bytes");
    Ok(())
}
