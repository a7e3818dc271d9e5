//! Paths for interfaces fit the connections whose packets leave by them: seen by the send
//! buffer that ss shows, as each path here has its own size, which the kernel doubles.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    ends,
    netns::Netns,
    stand::{Stand, until},
    sysctl,
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, DEVICE, Wire},
    wad::{Home, program},
};

use crate::sizes;

const LIMIT: Duration = Duration::from_secs(30);

/// Send buffers of the paths.
const OF_SECOND: u64 = 301_001;
const OF_WIRES: u64 = 302_002;
const OF_ANY: u64 = 303_003;
const NARROW: u64 = 304_004;
const OF_LO: u64 = 305_005;

/// The device of the second wire in both namespaces, and the addresses there.
const SECOND: &str = "wire1";
const SECOND_V4: [&str; 2] = ["10.82.0.1", "10.82.0.2"];
const SECOND_V6: [&str; 2] = ["fd82::1", "fd82::2"];
/// Addresses of the far end that can be reached by either wire.
const EITHER: [&str; 2] = ["10.83.0.2", "fd83::2"];

fn path(name: &str, keys: &str, sndbuf_bytes: u64) -> String {
    let remotes = ["10.80.0.0/12", "fd80::/12", "127.0.0.0/8", "::1"];
    sizes::path(name, &remotes, keys, sndbuf_bytes)
}

fn policy() -> String {
    [
        path("any", "remote_port = 7000", OF_ANY),
        path("second", "interface = 'wire1'", OF_SECOND),
        path("wires", "interface = 'wire*'\nremote_port = 7001", OF_WIRES),
        path("lo", "interface = 'lo'\nremote_port = 7002", OF_LO),
    ]
    .concat()
}

/// Joins the ends of a wire by one more.
fn join(wire: &Wire) -> Result<()> {
    let both = [wire.a(), wire.b()];
    ends::join(both, SECOND)?;
    for (side, netns) in both.into_iter().enumerate() {
        ends::add_address(netns, SECOND, &format!("{}/16", SECOND_V4[side]))?;
        ends::add_address(netns, SECOND, &format!("{}/32", SECOND_V6[side]))?;
        // Packets may come by another wire than the answers take.
        for device in ["all", DEVICE, SECOND] {
            netns.run(|| sysctl::set(&format!("net.ipv4.conf.{device}.rp_filter"), "0"))??;
        }
    }
    Ok(())
}

/// Has the near end send by a device what is for the addresses that either reaches.
fn route(near: &Netns, device: &str) -> Result<()> {
    let hops = if device == SECOND {
        [SECOND_V4[1], SECOND_V6[1]]
    } else {
        [ADDRESSES_V4[1], ADDRESSES_V6[1]]
    };
    for (to, hop) in EITHER.into_iter().zip(hops) {
        near.ip(&["route", "replace", to, "via", hop, "dev", device])?;
    }
    Ok(())
}

fn sizes(ends: [&Netns; 2], connection: &Connection) -> Result<[Option<u64>; 2]> {
    sizes::between(&[OF_SECOND, OF_WIRES, OF_ANY, NARROW, OF_LO], ends, connection)
}

/// Connects, and holds what both ends get against this.
fn expect(ends: [&Netns; 2], to: SocketAddr, expected: [Option<u64>; 2]) -> Result<Connection> {
    let connection = Connection::open(ends[0], ends[1], to)?;
    let sizes = sizes(ends, &connection)?;
    ensure!(sizes == expected, "{to}: {sizes:?}");
    Ok(connection)
}

#[e2e(long, beside)]
fn a_path_for_an_interface_is_given_to_what_leaves_by_it() -> Result<()> {
    let stand = Stand::set_up("interfaces")?;
    let wire = Wire::start()?;
    join(&wire)?;
    let ends = [wire.a(), wire.b()];
    let home = Home::create(&program()?, &policy())?;
    let agent = home.start(stand.cgroup())?;

    let second = Some(OF_SECOND);
    for (address, device, port, near, far) in [
        (ADDRESSES_V4, DEVICE, 7000, Some(OF_ANY), None),
        (ADDRESSES_V6, DEVICE, 7000, Some(OF_ANY), None),
        (ADDRESSES_V4, DEVICE, 7001, Some(OF_WIRES), None),
        (ADDRESSES_V6, DEVICE, 7001, Some(OF_WIRES), None),
        (SECOND_V4, SECOND, 7000, second, second),
        (SECOND_V6, SECOND, 7000, second, second),
        (SECOND_V4, SECOND, 7001, Some(OF_WIRES), second),
        (SECOND_V6, SECOND, 7001, Some(OF_WIRES), second),
    ] {
        let to = at(address[1], port);
        tcp::reset(expect(ends, to, [near, far])?.near)?;
        let mut explain = home.command("explain");
        let output = explain.args([&to.to_string(), "--interface", device, "--json"]).output()?;
        let answer: Value = serde_json::from_slice(&output.stdout)?;
        let bytes = answer["path"]["settings"]["sndbuf_bytes"].as_u64();
        ensure!(bytes == near && answer["interface"] == device, "{answer}");
    }
    // What a host sends to itself leaves by lo, whatever the address.
    for address in ["127.0.0.1", "::1", ADDRESSES_V4[0], SECOND_V6[0]] {
        let connection = expect([wire.a(); 2], at(address, 7002), [Some(OF_LO), None])?;
        tcp::reset(connection.near)?;
    }
    // It is the name that counts, not the device.
    wire.a().ip(&["link", "del", SECOND])?;
    join(&wire)?;
    for address in [SECOND_V4[1], SECOND_V6[1]] {
        tcp::reset(expect(ends, at(address, 7000), [second, second])?.near)?;
    }
    agent.stop()?;
    Ok(())
}

/// It is the device of the route, not one that the address belongs to; connections that run
/// follow their routes at a reload.
#[e2e(every_change, beside)]
fn the_interface_is_that_of_the_route() -> Result<()> {
    let stand = Stand::set_up("interfaces-routes")?;
    let wire = Wire::start()?;
    join(&wire)?;
    let ends = [wire.a(), wire.b()];
    for address in EITHER {
        ends::add_address(wire.b(), "lo", address)?;
    }
    route(wire.a(), SECOND)?;
    let open = |address: &&str| Connection::open(wire.a(), wire.b(), at(address, 7000));
    let before = EITHER.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let home = Home::create(&program()?, &policy())?;
    let agent = home.start(stand.cgroup())?;
    let all_have = |what: &'static str, expected: [Option<u64>; 2]| -> Result<()> {
        for connection in &before {
            let look = || sizes(ends, connection);
            until(what, LIMIT, look, |sizes| *sizes == expected)?;
        }
        Ok(())
    };
    let second = Some(OF_SECOND);
    all_have("both ends are brought along", [second, second])?;

    route(wire.a(), DEVICE)?;
    for address in EITHER {
        tcp::reset(expect(ends, at(address, 7000), [Some(OF_ANY), None])?.near)?;
    }
    // The option takes the far end's route away, which has sent nothing since: it stays where
    // it is.
    for (connection, option) in before
        .iter()
        .zip([(libc::IPPROTO_IP, libc::IP_TOS), (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)])
    {
        tcp::send(&connection.near, 1, 1)?;
        tcp::receive(&connection.far, 1, 1)?;
        tcp::set_option(&connection.far, option.0, option.1, 0x20)?;
    }
    home.reload(&policy().replace(&OF_SECOND.to_string(), &NARROW.to_string()))?;
    all_have("the near ends follow their routes", [Some(OF_ANY), Some(NARROW)])?;
    for connection in &before {
        connection.exchange(100_000)?;
    }
    agent.stop()?;
    Ok(())
}
