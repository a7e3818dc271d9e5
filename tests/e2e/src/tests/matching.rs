//! The path that a flow falls under is seen by the send buffer that ss shows: each path
//! here has its own size, and the kernel doubles it.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    stand::Stand,
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

fn path(name: &str, remote: &str, rest: &str, sndbuf_bytes: u64) -> String {
    format!(
        "[[path]]\nname = \"{name}\"\nremote = {remote}\n{rest}\nsndbuf = \"{sndbuf_bytes}\"\n\n"
    )
}

/// Returns the send buffers of both ends of a new connection: of the one that
/// connected, and of the one that was accepted.
fn sndbufs(wire: &Wire, to: SocketAddr) -> Result<(u64, u64)> {
    let connection = Connection::open(wire.a(), wire.b(), to)?;
    let near = connection.near_flow(wire.a())?;
    let far = connection.far_flow(wire.b())?;
    Ok((near.sndbuf_bytes, far.sndbuf_bytes))
}

/// Returns the send buffers where no agent runs, over IPv4 and IPv6.
fn untuned(wire: &Wire) -> Result<[(u64, u64); 2]> {
    let [v4, v6] = [ADDRESSES_V4[1], ADDRESSES_V6[1]];
    Ok([sndbufs(wire, at(v4, 7000))?, sndbufs(wire, at(v6, 7000))?])
}

#[e2e(long, beside)]
fn the_longest_remote_prefix_wins() -> Result<()> {
    let stand = Stand::set_up("prefix")?;
    let wire = Wire::start()?;
    let policy = [
        path("wide", "'10.81.0.0/16'", "", 101_000),
        path("narrow", "['10.81.4.0/22', 'fd81:0:4::/46']", "", 102_000),
        path("host", "['10.81.5.5', 'fd81:0:5::5']", "", 103_000),
        path("wide6", "'fd81::/32'", "", 104_000),
    ]
    .concat();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;

    let cases = [
        ("10.81.3.255", 101_000),
        ("10.81.4.0", 102_000),
        ("10.81.5.4", 102_000),
        ("10.81.5.5", 103_000),
        ("10.81.7.255", 102_000),
        ("10.81.8.0", 101_000),
        ("fd81:0:3:ffff::1", 104_000),
        ("fd81:0:4::1", 102_000),
        ("fd81:0:5::5", 103_000),
        ("fd81:0:7:ffff::1", 102_000),
        ("fd81:0:8::1", 104_000),
    ];
    for (address, sndbuf_bytes) in cases {
        wire.add_to_b(address)?;
        let (near, far) = sndbufs(&wire, at(address, 7000))?;
        ensure!(near == 2 * sndbuf_bytes, "{address}: {near}, not twice {sndbuf_bytes}");
        // The accepted end's peer is in the wide networks only.
        let wide = if address.contains(':') { 104_000 } else { 101_000 };
        ensure!(far == 2 * wide, "from {address}: {far}, not twice {wide}");
    }
    Ok(())
}

#[e2e(long, beside)]
fn ports_and_the_local_prefix_choose_among_rules() -> Result<()> {
    let stand = Stand::set_up("ports")?;
    let wire = Wire::start()?;
    let untuned = untuned(&wire)?;
    let policy = [
        path("to-port", "'10.81.0.2'", "remote_port = 7001", 102_000),
        path("from-port", "'10.81.0.2'", "local_port = 7102", 103_000),
        path("from-net", "'10.81.0.2'", "local = '10.81.9.0/24'", 104_000),
        path("any", "'10.81.0.2'", "", 101_000),
        path("served", "'10.81.0.1'", "local_port = 7003", 105_000),
        path("both", "'fd81::2'", "local = 'fd81::/64'\nremote_port = 7004", 106_000),
    ]
    .concat();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    wire.add_to_a("10.81.9.9")?;
    wire.add_to_a("fd81:0:9::9")?;

    let [b, b6] = [ADDRESSES_V4[1], ADDRESSES_V6[1]];
    // From, to, and the buffers of both ends, before they are doubled.
    let cases = [
        (at("10.81.0.1", 0), at(b, 7000), Some(101_000), None),
        (at("10.81.0.1", 0), at(b, 7001), Some(102_000), None),
        (at("10.81.0.1", 7102), at(b, 7000), Some(103_000), None),
        (at("10.81.9.9", 0), at(b, 7000), Some(104_000), None),
        (at("10.81.0.1", 0), at(b, 7003), Some(101_000), Some(105_000)),
        (at("fd81::1", 0), at(b6, 7004), Some(106_000), None),
        (at("fd81::1", 0), at(b6, 7000), None, None),
        (at("fd81:0:9::9", 0), at(b6, 7004), None, None),
    ];
    for (from, to, near_bytes, far_bytes) in cases {
        let untuned = if to.is_ipv4() { untuned[0] } else { untuned[1] };
        let expected = (
            near_bytes.map_or(untuned.0, |bytes| 2 * bytes),
            far_bytes.map_or(untuned.1, |bytes| 2 * bytes),
        );
        let listener = tcp::listen(wire.b(), to)?;
        let near = tcp::connect_from(wire.a(), from, to)?;
        let connection = Connection::accepted(&listener, near)?;
        let near = connection.near_flow(wire.a())?.sndbuf_bytes;
        let far = connection.far_flow(wire.b())?.sndbuf_bytes;
        ensure!((near, far) == expected, "{from} to {to}: {:?}, not {expected:?}", (near, far));
    }
    Ok(())
}

#[e2e(long, beside)]
fn v4_clients_of_a_dual_stack_socket_match_v4_prefixes() -> Result<()> {
    let stand = Stand::set_up("dual")?;
    let wire = Wire::start()?;
    let [_, untuned] = untuned(&wire)?;
    let policy = [
        path("clients", "'10.81.0.1/32'", "", 101_000),
        path("servers", "'10.81.0.2/32'", "local = '10.81.0.0/24'", 102_000),
    ]
    .concat();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;

    let listener = tcp::listen(wire.b(), at("::", 7000))?;
    let near = tcp::connect(wire.a(), at(ADDRESSES_V4[1], 7000))?;
    let v4 = Connection::accepted(&listener, near)?;
    ensure!(v4.far.local_addr()?.is_ipv6(), "the listener is not a dual-stack one");
    ensure!(v4.far_flow(wire.b())?.sndbuf_bytes == 202_000, "{:?}", v4.far_flow(wire.b())?);

    // A v6 socket connects to a mapped v4 address.
    let near = tcp::connect(wire.a(), at("::ffff:10.81.0.2", 7000))?;
    let mapped = Connection::accepted(&listener, near)?;
    ensure!(mapped.near.local_addr()?.is_ipv6(), "the connecting socket is not a v6 one");
    ensure!(mapped.near_flow(wire.a())?.sndbuf_bytes == 204_000);

    let near = tcp::connect(wire.a(), at(ADDRESSES_V6[1], 7000))?;
    let v6 = Connection::accepted(&listener, near)?;
    ensure!(v6.far_flow(wire.b())?.sndbuf_bytes == untuned.1, "v6 matched v4 prefixes");
    for connection in [v4, mapped, v6] {
        connection.exchange(200_000)?;
    }
    Ok(())
}

#[e2e(long, beside)]
fn flows_of_no_path_are_as_without_wad() -> Result<()> {
    let stand = Stand::set_up("none")?;
    let wire = Wire::start()?;
    let to = [at(ADDRESSES_V4[1], 7000), at(ADDRESSES_V6[1], 7000)];
    let look = |to| -> Result<_> {
        let connection = Connection::open(wire.a(), wire.b(), to)?;
        let flows = [connection.near_flow(wire.a())?, connection.far_flow(wire.b())?];
        connection.exchange(1_000_000)?;
        Ok(flows.map(|flow| {
            let buffers = (flow.sndbuf_bytes, flow.rcvbuf_bytes);
            (flow.congestion, buffers, flow.cwnd_segments, flow.window_scales)
        }))
    };
    let before = [look(to[0])?, look(to[1])?];
    ensure!(before[0][0].0 == "cubic" && before[0][0].2 == 10, "{before:?}");

    // Buffers below the ceilings, which therefore stay as they are.
    let policy = "[[path]]\nname = 'p'\nremote = ['10.82.0.0/16', 'fd82::/32']\n\
                  sndbuf = '200000'\nrcvbuf = '200000'\ncongestion = 'wad_aimd'\n";
    let home = Home::create(&program()?, policy)?;
    let _agent = home.start(stand.cgroup())?;
    let after = [look(to[0])?, look(to[1])?];
    ensure!(after == before, "before {before:?}, after {after:?}");
    ensure!(home.metrics()?.of_path("wad_connections_matched_total", "p")? == 0.0);
    Ok(())
}

#[e2e(every_change, beside)]
fn multipath_tcp_is_left_alone_and_counted() -> Result<()> {
    let stand = Stand::set_up("mptcp")?;
    let wire = Wire::start()?;
    let to = at(ADDRESSES_V4[1], 7000);
    if !std::path::Path::new("/proc/sys/net/mptcp").exists() {
        ensure!(tcp::listen_multipath(wire.b(), to).is_err());
        println!("this kernel has no multipath TCP: only that was seen");
        return Ok(());
    }
    let policy = path("p", "'10.81.0.0/16'", "congestion = 'wad_aimd'", 101_000);
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;

    let listener = tcp::listen_multipath(wire.b(), to)?;
    let near = tcp::connect_multipath(wire.a(), to)?;
    let connection = Connection::accepted(&listener, near)?;
    for flow in [connection.near_flow(wire.a())?, connection.far_flow(wire.b())?] {
        ensure!(flow.congestion == "cubic" && flow.sndbuf_bytes != 202_000, "{flow:?}");
    }
    connection.exchange(1_000_000)?;
    let metrics = home.metrics()?;
    ensure!(metrics.value("wad_mptcp_subflows_total", &[])? == 2.0, "{}", metrics.text());
    ensure!(metrics.of_path("wad_connections_matched_total", "p")? == 0.0, "{}", metrics.text());
    Ok(())
}
