//! Ranges and lists of ports fit exactly their ports: seen by the send buffer that ss
//! shows, as each path here has its own size, which the kernel doubles.

use std::{net::SocketAddr, process::Stdio, time::Duration};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_lab::{bulk::Amount, iperf3};
use wad_testbed::{
    process::Place,
    ss::{self, Flow},
    stand::{Stand, until},
    sysctl,
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

use crate::sizes;

const LIMIT: Duration = Duration::from_secs(30);
/// Send buffers of the paths.
const LISTED: u64 = 301_001;
const ONE: u64 = 302_002;
const SERVED: u64 = 303_003;
const CLIENTS: u64 = 304_004;
const SIZES: [u64; 4] = [LISTED, ONE, SERVED, CLIENTS];

/// Returns a path for connections whose peer is an end of the wire: 0 for a, of those that
/// b accepts; 1 for b, of those that a makes.
fn path(name: &str, peer: usize, ports: &str, sndbuf_bytes: u64) -> String {
    sizes::path(name, &[ADDRESSES_V4[peer], ADDRESSES_V6[peer]], ports, sndbuf_bytes)
}

/// Returns which of the paths' sizes the send buffers of both ends have.
fn sizes(wire: &Wire, from: SocketAddr, to: SocketAddr) -> Result<[Option<u64>; 2]> {
    let listener = tcp::listen(wire.b(), to)?;
    let connection = Connection::accepted(&listener, tcp::connect_from(wire.a(), from, to)?)?;
    let sizes = sizes::of_ends(&SIZES, wire, &connection);
    // The next may have the same ports.
    tcp::reset(connection.near)?;
    sizes
}

#[e2e(long, beside)]
fn ranges_and_lists_fit_exactly_their_ports() -> Result<()> {
    let stand = Stand::set_up("ranges")?;
    let wire = Wire::start()?;
    // What has the most ports stands first in the file.
    let policy = [
        path("listed", 1, "remote_port = [7443, '50000-50010']", LISTED),
        path("one", 1, "remote_port = 50005", ONE),
        path("served", 0, "local_port = [7443, '50000-50010']", SERVED),
        path("clients", 0, "remote_port = '40000-40002'\nlocal_port = 7000", CLIENTS),
    ]
    .concat();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;

    // The port that is connected from, or any; that which is connected to; and the sizes of
    // the end that connects and of that which accepts.
    let cases = [
        (0, 7442, None, None),
        (0, 7443, Some(LISTED), Some(SERVED)),
        (0, 7444, None, None),
        (0, 49_999, None, None),
        (0, 50_000, Some(LISTED), Some(SERVED)),
        (0, 50_004, Some(LISTED), Some(SERVED)),
        (0, 50_005, Some(ONE), Some(SERVED)),
        (0, 50_006, Some(LISTED), Some(SERVED)),
        (0, 50_010, Some(LISTED), Some(SERVED)),
        (0, 50_011, None, None),
        (39_999, 7000, None, None),
        (40_000, 7000, None, Some(CLIENTS)),
        (40_001, 7000, None, Some(CLIENTS)),
        (40_002, 7000, None, Some(CLIENTS)),
        (40_003, 7000, None, None),
        (40_001, 7001, None, None),
    ];
    for [near, far] in [ADDRESSES_V4, ADDRESSES_V6] {
        for (from, to, near_bytes, far_bytes) in cases {
            let (from, to) = (at(near, from), at(far, to));
            let sizes = sizes(&wire, from, to)?;
            ensure!(sizes == [near_bytes, far_bytes], "{from} to {to}: {sizes:?}");
        }
    }
    Ok(())
}

/// GridFTP has a range of ports for its data connections, and another port for control:
/// so has iperf3 here, whose fourth data connection is just beyond the range.
#[e2e(long, beside)]
fn data_connections_of_a_range_are_tuned() -> Result<()> {
    let stand = Stand::set_up("data")?;
    let wire = Wire::start()?;
    // The connection for control takes any port: none of these.
    wire.a().run(|| sysctl::set("net.ipv4.ip_local_port_range", "32768 49999"))??;
    let policy = [
        path("sending", 1, "local_port = '50000-50002'", LISTED),
        path("receiving", 0, "remote_port = '50000-50002'", SERVED),
    ]
    .concat();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;

    for (address, port) in [(ADDRESSES_V4[1], 5201), (ADDRESSES_V6[1], 5202)] {
        let end = at(address, port);
        let spawn = |netns, mut command: std::process::Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null());
            Place { netns: Some(netns), cgroup: None }.spawn(command)
        };
        let mut server = spawn(wire.b(), iperf3::server(end))?;
        tcp::await_listener(wire.b(), port)?;
        let mut command = iperf3::client(end, 4, Amount::Time(Duration::from_secs(3)));
        command.args(["--cport", "50000"]);
        let mut client = spawn(wire.a(), command)?;

        let look = || -> Result<[Vec<Flow>; 2]> {
            let near = wire.a().run(|| ss::flows(&format!("dport = :{port}")))??;
            Ok([near, wire.b().run(|| ss::flows(&format!("sport = :{port}")))??])
        };
        let [near, far] = until("four data connections and one more", LIMIT, look, |ends| {
            ends.iter().all(|flows| flows.len() == 5)
        })?;
        for (flows, bytes) in [(&near, LISTED), (&far, SERVED)] {
            for flow in flows {
                let data_port = if bytes == LISTED { flow.local.port() } else { flow.peer.port() };
                let expected = (50_000..=50_002).contains(&data_port).then_some(bytes);
                ensure!(sizes::of_flow(&SIZES, flow) == expected, "{data_port}: {flow:?}");
            }
            let tuned = flows.iter().filter(|flow| sizes::of_flow(&SIZES, flow).is_some()).count();
            ensure!(tuned == 3, "{tuned} of {flows:?}");
            let beyond = |flow: &&Flow| [flow.local.port(), flow.peer.port()].contains(&50_003);
            ensure!(flows.iter().filter(beyond).count() == 1, "{flows:?}");
        }
        for process in [&mut client, &mut server] {
            ensure!(process.wait(LIMIT, || ())?.success(), "iperf3 failed");
        }
    }
    Ok(())
}
