//! Paths for marks fit the sockets that have them (SO_MARK): seen by the send buffer that ss
//! shows, as each path here has its own size, which the kernel doubles.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    netns::Netns,
    stand::{Stand, until},
    sysctl,
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

use crate::sizes;

const LIMIT: Duration = Duration::from_secs(30);

/// Send buffers of the paths.
const OF_ONE: u64 = 301_001;
const OF_MANY: u64 = 302_002;
const OF_ANY: u64 = 303_003;
const NARROW: u64 = 304_004;

const REMOTES: [&str; 4] = ["10.81.0.0/16", "fd81::/16", "127.0.0.0/8", "::1"];

fn path(name: &str, keys: &str, sndbuf_bytes: u64) -> String {
    sizes::path(name, &REMOTES, keys, sndbuf_bytes)
}

/// One mark goes before those of a mask, as it stands first.
fn policy() -> String {
    [
        path("any", "remote_port = [7000, 7001]", OF_ANY),
        path("one", "mark = 0x110", OF_ONE),
        path("many", "mark = '0x10/0xff'", OF_MANY),
    ]
    .concat()
}

/// Listens with one mark, and connects with another; 0 is none.
fn connect(ends: [&Netns; 2], [listener, client]: [u32; 2], to: SocketAddr) -> Result<Connection> {
    let listening = tcp::listen(ends[1], to)?;
    tcp::set_mark(&listening, listener)?;
    let near = tcp::connect_marked(ends[0], client, to)?;
    Ok(Connection::accepted(&listening, near)?)
}

/// Returns the paths' sizes that both ends have.
fn sizes(ends: [&Netns; 2], connection: &Connection) -> Result<[Option<u64>; 2]> {
    sizes::between(&[OF_ONE, OF_MANY, OF_ANY, NARROW], ends, connection)
}

#[e2e(long, beside)]
fn a_path_for_marks_is_given_to_sockets_that_have_them() -> Result<()> {
    let stand = Stand::set_up("marks")?;
    let wire = Wire::start()?;
    let ends = [wire.a(), wire.b()];
    let home = Home::create(&program()?, &policy())?;
    let agent = home.start(stand.cgroup())?;

    // The marks of who listens and who connects, the port, and what both ends get.
    let cases = [
        ([0, 0], 7000, Some(OF_ANY), None),
        ([0, 0x10], 7000, Some(OF_MANY), None),
        ([0, 0x8000_0210], 7001, Some(OF_MANY), None),
        ([0, 0x110], 7001, Some(OF_ONE), None),
        ([0, 0x11], 7001, Some(OF_ANY), None),
        ([0x10, 0], 7002, None, Some(OF_MANY)),
        ([0x110, 0x10], 7002, Some(OF_MANY), Some(OF_ONE)),
        ([0x11, 0x111], 7002, None, None),
    ];
    for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
        for (marks, port, near, far) in cases {
            let connection = connect(ends, marks, at(address, port))?;
            let sizes = sizes(ends, &connection)?;
            ensure!(sizes == [near, far], "{marks:x?} {address}:{port}: {sizes:?}");
            let (to, mark) = (at(address, port).to_string(), format!("{:#x}", marks[1]));
            let mut explain = home.command("explain");
            let output = explain.args([&to, "--mark", &mark, "--json"]).output()?;
            let answer: Value = serde_json::from_slice(&output.stdout)?;
            let bytes = answer["path"]["settings"]["sndbuf_bytes"].as_u64();
            ensure!(bytes == near && answer["mark"] == marks[1], "{answer}");
            tcp::reset(connection.near)?;
        }
    }
    agent.stop()?;
    Ok(())
}

/// An accepted connection has the mark of its listener. Where that has none, and the sysctl says
/// so, it has that of the packet which asked for it, which keeps it within its host only.
#[e2e(every_change, beside)]
fn an_accepted_connection_can_have_the_mark_of_its_packets() -> Result<()> {
    let stand = Stand::set_up("marks-accepted")?;
    let wire = Wire::start()?;
    let ends = [wire.a(); 2];
    let home = Home::create(&program()?, &policy())?;
    let agent = home.start(stand.cgroup())?;
    for (follows, marks, far) in [
        ("0", [0, 0x10], None),
        ("1", [0, 0x10], Some(OF_MANY)),
        ("1", [0x110, 0x10], Some(OF_ONE)),
        ("1", [0, 0], None),
    ] {
        wire.a().run(|| sysctl::set("net.ipv4.tcp_fwmark_accept", follows))??;
        for address in ["127.0.0.1", "::1"] {
            let connection = connect(ends, marks, at(address, 7002))?;
            let near = (marks[1] != 0).then_some(OF_MANY);
            let sizes = sizes(ends, &connection)?;
            ensure!(sizes == [near, far], "{follows} {marks:x?} {address}: {sizes:?}");
            tcp::reset(connection.near)?;
        }
    }
    agent.stop()?;
    Ok(())
}

/// Connections that run already are found by the marks that they have then, at the start and
/// at a reload.
#[e2e(long, beside)]
fn running_connections_are_of_their_marks() -> Result<()> {
    let stand = Stand::set_up("running-marks")?;
    let wire = Wire::start()?;
    let ends = [wire.a(), wire.b()];
    let open = |address: &&str| connect(ends, [0x10, 0x110], at(address, 7000));
    let connections =
        [ADDRESSES_V4[1], ADDRESSES_V6[1]].iter().map(open).collect::<Result<Vec<_>>>()?;
    let home = Home::create(&program()?, &policy())?;
    let agent = home.start(stand.cgroup())?;
    let all_have = |what: &'static str, expected: [u64; 2]| -> Result<()> {
        for connection in &connections {
            let look = || sizes(ends, connection);
            until(what, LIMIT, look, |sizes| *sizes == expected.map(Some))?;
        }
        Ok(())
    };
    all_have("both ends are brought along", [OF_ONE, OF_MANY])?;
    let changed = policy().replace(&OF_MANY.to_string(), &NARROW.to_string());
    home.reload(&changed)?;
    all_have("the far ends follow the reload", [OF_ONE, NARROW])?;
    // Nobody tells of that: they are found at the next reload.
    for connection in &connections {
        tcp::set_mark(&connection.near, 0)?;
        tcp::set_mark(&connection.far, 0x110)?;
    }
    home.reload(&policy())?;
    all_have("all have what their new marks get", [OF_ANY, OF_ONE])?;
    agent.stop()?;
    Ok(())
}
