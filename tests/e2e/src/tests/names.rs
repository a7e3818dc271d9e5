//! Paths for the names of hosts follow what name servers say: seen by the send buffer that
//! ss shows, as each path here has its own size, which the kernel doubles.

use std::{fs, net::IpAddr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    name_server::NameServer,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

use crate::sizes;

const LIMIT: Duration = Duration::from_secs(30);

/// Send buffers of the paths.
const OF_NAME: u64 = 301_001;
const OF_REST: u64 = 303_003;
const SIZES: [u64; 2] = [OF_NAME, OF_REST];

const POLICY: &str = "
[[path]]
name = 'dtn'
remote_name = ['dtn.example.org', 'other.example.org']
remote_port = '7000-7099'
sndbuf = '301001'

[[path]]
name = 'rest'
remote = ['10.0.0.0/8', 'fd81::/16']
sndbuf = '303003'
";

fn addresses(texts: &[&str]) -> Result<Vec<IpAddr>> {
    Ok(texts.iter().map(|text| text.parse()).collect::<Result<_, _>>()?)
}

#[e2e(long, beside)]
fn a_path_follows_a_name_and_leaves_no_connection_behind() -> Result<()> {
    let stand = Stand::set_up("names")?;
    let wire = Wire::start()?;
    wire.add_to_b("10.81.0.3")?;
    wire.add_to_b("fd81::3")?;
    let files = tempfile::tempdir()?;
    let server = NameServer::start()?;
    // A machine without a network may have no such file to be mounted over.
    let write = |name: &str, text: &str| fs::write(files.path().join(name), text);
    write("resolv.conf", &format!("nameserver {}\n", server.address()))?;
    write("hosts", "10.81.0.1 other.example.org other\nfd81::1 other.example.org\n")?;
    fs::copy("/etc/passwd", files.path().join("passwd"))?;
    let mounts = format!("mount --bind {} /etc", files.path().display());
    server.set("dtn.example.org", &addresses(&["10.81.0.2", "fd81::2"])?, 1);
    let home = Home::create(&program()?, POLICY)?;
    let agent = home.start_in(&mounts, stand.cgroup())?;

    let ends = |address: &str, port| -> Result<_> {
        let connection = Connection::open(wire.a(), wire.b(), at(address, port))?;
        sizes::of_ends(&SIZES, &wire, &connection)
    };
    let until_near = |what, address: &str, near| {
        let look = || Ok::<_, anyhow::Error>(ends(address, 7000)?[0]);
        until(what, LIMIT, look, |now| *now == near).with_context(|| home.log()).map(|_| ())
    };
    for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
        until_near("the name is known", address, Some(OF_NAME))?;
        // The accepted end's peer has no such name, and another port is none of the path's.
        ensure!(ends(address, 7000)? == [Some(OF_NAME), Some(OF_REST)]);
        ensure!(ends(address, 7100)? == [Some(OF_REST), Some(OF_REST)]);
    }
    for address in ["10.81.0.3", "fd81::3"] {
        ensure!(ends(address, 7000)? == [Some(OF_REST), Some(OF_REST)], "{address}");
    }
    let output = home.command("explain").args(["10.81.0.2:7000", "--json"]).output()?;
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(answer["path"]["name"] == "dtn", "{answer}");

    // The host moves: connections to it are the path's there, and those that run stay its.
    let running = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V6[1], 7000))?;
    server.set("dtn.example.org", &addresses(&["10.81.0.3", "fd81::3"])?, 1);
    for address in ["10.81.0.3", "fd81::3"] {
        until_near("the name has moved", address, Some(OF_NAME))?;
    }
    ensure!(sizes::of_ends(&SIZES, &wire, &running)?[0] == Some(OF_NAME));
    running.exchange(100_000)?;

    // Its name goes, and its name server: what is known holds.
    let said = |text: &'static str| {
        let look = || Ok::<_, anyhow::Error>(home.log().contains(text));
        until("the log says so", LIMIT, look, |said| *said).map(|_| ())
    };
    server.forget("dtn.example.org");
    said("there is no name dtn.example.org")?;
    drop(server);
    said("does not answer")?;
    until_near("the last addresses hold", "fd81::3", Some(OF_NAME))?;

    // Peers of accepted connections have a name by /etc/hosts.
    for address in [ADDRESSES_V4, ADDRESSES_V6] {
        let [from, to] = address;
        let listener = tcp::listen(wire.b(), at(to, 7200))?;
        let near = tcp::connect_from(wire.a(), at(from, 7001), at(to, 7200))?;
        let connection = Connection::accepted(&listener, near)?;
        let ends = sizes::of_ends(&SIZES, &wire, &connection)?;
        ensure!(ends == [Some(OF_REST), Some(OF_NAME)], "{from}: {ends:?}");
    }
    agent.stop()?;
    Ok(())
}
