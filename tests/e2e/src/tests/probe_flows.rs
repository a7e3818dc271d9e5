//! Connections of probes are known by a sign that they have, and are left alone: seen by the
//! send buffer that ss shows.

use std::{
    net::{SocketAddr, TcpListener},
    os::fd::AsRawFd,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    stand::Stand,
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

use crate::sizes;

const SNDBUF: u64 = 301_001;

/// Whoever measures a path of `wad`'s sets it, iperf3 too (`--snd-timeout`).
const SIGN_MS: libc::c_int = 1_004_823;

fn sign(socket: &impl AsRawFd) -> std::io::Result<()> {
    tcp::set_option(socket, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, SIGN_MS)
}

/// A connection of a probe beside one of somebody else.
struct Pair {
    probe: Connection,
    other: Connection,
}

impl Pair {
    fn open(wire: &Wire, [probe, other]: [SocketAddr; 2]) -> Result<Self> {
        let listening: TcpListener = tcp::listen(wire.b(), probe)?;
        sign(&listening)?;
        let near = tcp::connect_prepared(wire.a(), sign, probe)?;
        Ok(Self {
            probe: Connection::accepted(&listening, near)?,
            other: Connection::open(wire.a(), wire.b(), other)?,
        })
    }

    fn is_told_apart(&self, wire: &Wire) -> Result<()> {
        let of = |connection| sizes::of_ends(&[SNDBUF], wire, connection);
        let (probe, other) = (of(&self.probe)?, of(&self.other)?);
        ensure!(probe == [None; 2], "the probe's: {probe:?}");
        ensure!(other == [Some(SNDBUF); 2], "the other: {other:?}");
        Ok(())
    }
}

#[e2e(long, beside)]
fn connections_of_probes_are_on_no_path_and_in_no_list() -> Result<()> {
    let stand = Stand::set_up("probe-flows")?;
    let wire = Wire::start()?;
    let policy = sizes::path("all", &["10.81.0.0/16", "fd81::/16"], "", SNDBUF);
    let open = |port: u16| -> Result<Vec<Pair>> {
        let addresses = [ADDRESSES_V4[1], ADDRESSES_V6[1]];
        let ends = addresses.map(|address| [port, port + 1].map(|port| at(address, port)));
        ends.into_iter().map(|ends| Pair::open(&wire, ends)).collect()
    };
    let before = open(7000)?;
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    let after = open(7010)?;
    for pair in before.iter().chain(&after) {
        pair.is_told_apart(&wire)?;
    }
    let matched = home.metrics()?.of_path("wad_connections_matched_total", "all")?;
    ensure!(matched == 8.0, "two of each pair that is no probe's: {matched}");

    let output = home.command("flows").args(["--all", "--json"]).output()?;
    let listed: Value = serde_json::from_slice(&output.stdout)?;
    let listed = listed["flows"].as_array().context("no list")?;
    for (port, ends) in [(7000, 0), (7001, 4), (7010, 0), (7011, 4)] {
        let end = format!(":{port}");
        let is_of = |flow: &&Value| {
            [&flow["remote"], &flow["local"]]
                .iter()
                .any(|it| it.as_str().unwrap_or("").ends_with(&end))
        };
        let found = listed.iter().filter(is_of).count();
        ensure!(found == ends, "{found} of {port}: {listed:?}");
    }
    agent.stop()?;
    Ok(())
}
