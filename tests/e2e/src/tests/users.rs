//! Paths for users fit the sockets of these: seen by the send buffer that ss shows, as
//! each path here has its own size, which the kernel doubles.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Result, ensure};
use nix::unistd::{Uid, setfsuid};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    stand::{Stand, until},
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

use crate::sizes;

const LIMIT: Duration = Duration::from_secs(30);

const GLOBUS: u32 = 70_993;
const OTHER: u32 = 70_994;
/// Send buffers of the paths.
const OF_USER: u64 = 301_001;
const OF_USERS_PORT: u64 = 302_002;
const OF_ANY: u64 = 303_003;
const NARROW: u64 = 304_004;

/// Makes sockets as a user does: they belong to whom this thread is for files.
fn as_user<T>(user: u32, make: impl FnOnce() -> T) -> T {
    let own = setfsuid(Uid::from_raw(user));
    let made = make();
    setfsuid(own);
    made
}

/// Listens as one user, connects as another, and accepts as root.
fn connect(wire: &Wire, listener: u32, client: u32, to: SocketAddr) -> Result<Connection> {
    let listener = as_user(listener, || tcp::listen(wire.b(), to))?;
    let near = as_user(client, || tcp::connect(wire.a(), to))?;
    Ok(Connection::accepted(&listener, near)?)
}

/// Returns the paths' sizes that both ends have.
fn sizes(wire: &Wire, connection: &Connection) -> Result<[Option<u64>; 2]> {
    sizes::of_ends(&[OF_USER, OF_USERS_PORT, OF_ANY, NARROW], wire, connection)
}

#[e2e(long, beside)]
fn a_path_for_a_user_is_given_to_that_users_sockets() -> Result<()> {
    let stand = Stand::set_up("users")?;
    let wire = Wire::start()?;
    let (v4, v6) = (ADDRESSES_V4, ADDRESSES_V6);
    let user = format!("user = {GLOBUS}");
    // Both ends have a path by the other's address: those for any user stand first.
    let wide = ["10.81.0.0/16", "fd81::/16"];
    let policy = [
        sizes::path("any", &wide, "remote_port = [7000, 7001]", OF_ANY),
        sizes::path("user", &wide, &user, OF_USER),
        sizes::path("user-port", &wide, &format!("{user}\nremote_port = 7001"), OF_USERS_PORT),
    ]
    .concat();
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;

    // Who listens, who connects, the port, and what both ends get.
    let cases = [
        (0, 0, 7000, Some(OF_ANY), None),
        (0, GLOBUS, 7000, Some(OF_USER), None),
        (0, GLOBUS, 7001, Some(OF_USERS_PORT), None),
        (0, OTHER, 7001, Some(OF_ANY), None),
        (GLOBUS, OTHER, 7002, None, Some(OF_USER)),
        (OTHER, GLOBUS, 7002, Some(OF_USER), None),
        (GLOBUS, GLOBUS, 7000, Some(OF_USER), Some(OF_USER)),
    ];
    for address in [v4[1], v6[1]] {
        for (listener, client, port, near, far) in cases {
            let connection = connect(&wire, listener, client, at(address, port))?;
            let sizes = sizes(&wire, &connection)?;
            ensure!(sizes == [near, far], "{listener} {client} {address}:{port}: {sizes:?}");
            let user = client.to_string();
            let to = at(address, port).to_string();
            let mut explain = home.command("explain");
            let output = explain.args([&to, "--user", &user, "--json"]).output()?;
            let answer: Value = serde_json::from_slice(&output.stdout)?;
            let bytes = answer["path"]["settings"]["sndbuf_bytes"].as_u64();
            ensure!(bytes == near, "{answer}");
            tcp::reset(connection.near)?;
        }
    }
    agent.stop()?;
    Ok(())
}

/// Whose a connection was when it was accepted it stays at a reload, whoever accepted it;
/// and those that run already are found by their users.
#[e2e(every_change, beside)]
fn running_connections_are_their_users() -> Result<()> {
    let stand = Stand::set_up("running-users")?;
    let wire = Wire::start()?;
    let wide = ["10.81.0.0/16", "fd81::/16"];
    let user = sizes::path("user", &wide, &format!("user = {GLOBUS}"), OF_USER);
    let (v4, v6) = (at(ADDRESSES_V4[1], 7000), at(ADDRESSES_V6[1], 7000));
    // Before the agent: the user of an accepted one is who accepted it by then, which is root.
    let before = connect(&wire, GLOBUS, GLOBUS, v4)?;
    let home = Home::create(&program()?, &user)?;
    let agent = home.start(stand.cgroup())?;
    let found = || sizes(&wire, &before);
    until("the user's end is brought along", LIMIT, found, |sizes| {
        *sizes == [Some(OF_USER), None]
    })?;

    let accepted = connect(&wire, GLOBUS, OTHER, v6)?;
    ensure!(sizes(&wire, &accepted)? == [None, Some(OF_USER)]);
    // The path is another by its size, and must not lose the connection to any user's.
    let narrow = sizes::path("user", &wide, &format!("user = {GLOBUS}"), NARROW);
    home.reload(&[sizes::path("any", &wide, "", OF_ANY), narrow].concat())?;
    let changed = || sizes(&wire, &accepted);
    until("both follow the reload", LIMIT, changed, |sizes| {
        *sizes == [Some(OF_ANY), Some(NARROW)]
    })?;
    let first = || sizes(&wire, &before);
    until("so do the first", LIMIT, first, |sizes| *sizes == [Some(NARROW), Some(OF_ANY)])?;
    agent.stop()?;
    Ok(())
}
