//! Paths for cgroups fit the sockets that are made in these and in those within: seen by
//! the send buffer that ss shows, as each path here has its own size, which the kernel
//! doubles.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    cgroup,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

use crate::sizes;

const LIMIT: Duration = Duration::from_secs(30);

/// Send buffers of the paths.
const OF_SERVICE: u64 = 301_001;
const OF_UNIT: u64 = 302_002;
const OF_ANY: u64 = 303_003;

/// A cgroup within that of a test, which is removed before that is.
pub struct Inner(pub PathBuf);

impl Inner {
    pub fn make(within: &Path, name: &str) -> Result<Self> {
        let path = within.join(name);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        cgroup::remove(&self.0);
    }
}

/// Makes sockets as a process of that cgroup does: this one is in it meanwhile.
pub fn within<T>(cgroup: &Path, stand: &Stand, make: impl FnOnce() -> T) -> Result<T> {
    fs::write(cgroup.join("cgroup.procs"), "0")?;
    let made = make();
    fs::write(stand.cgroup().path().join("cgroup.procs"), "0")?;
    Ok(made)
}

fn path(name: &str, keys: &str, sndbuf_bytes: u64) -> String {
    sizes::path(name, &["10.81.0.0/16", "fd81::/16"], keys, sndbuf_bytes)
}

/// Listens in one cgroup, and connects in another.
fn connect(
    wire: &Wire,
    stand: &Stand,
    [listener, client]: [&Path; 2],
    to: SocketAddr,
) -> Result<Connection> {
    let listener = within(listener, stand, || tcp::listen(wire.b(), to))??;
    let near = within(client, stand, || tcp::connect(wire.a(), to))??;
    Ok(Connection::accepted(&listener, near)?)
}

/// Returns the paths' sizes that both ends have.
fn sizes(wire: &Wire, connection: &Connection) -> Result<[Option<u64>; 2]> {
    sizes::of_ends(&[OF_SERVICE, OF_UNIT, OF_ANY], wire, connection)
}

#[e2e(long, beside)]
fn a_path_for_cgroups_is_given_to_those_within() -> Result<()> {
    let stand = Stand::set_up("cgroups")?;
    let wire = Wire::start()?;
    let own = stand.cgroup().path();
    let slice = Inner::make(own, "a.slice")?;
    let service = Inner::make(&slice.0, "x.service")?;
    let worker = Inner::make(&service.0, "worker")?;
    let below_root = own.strip_prefix(cgroup::mount_point()?)?.display().to_string();
    // Only this test's: others run beside it.
    let unit = format!("{below_root}-*.service");
    let pattern = format!("{below_root}/*.slice/x.service");
    let policy = [
        path("any", "remote_port = [7000, 7001]", OF_ANY),
        path("service", &format!("cgroup = '{pattern}'"), OF_SERVICE),
        path("unit", &format!("unit = '{unit}'"), OF_UNIT),
    ]
    .concat();
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;

    let (service, worker, slice) = (&*service.0, &*worker.0, &*slice.0);
    for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
        for (cgroups, port, near, far) in [
            ([own, own], 7000, Some(OF_ANY), None),
            ([own, slice], 7000, Some(OF_ANY), None),
            ([own, service], 7000, Some(OF_SERVICE), None),
            ([own, worker], 7001, Some(OF_SERVICE), None),
            ([worker, own], 7002, None, Some(OF_SERVICE)),
            ([service, worker], 7002, Some(OF_SERVICE), Some(OF_SERVICE)),
        ] {
            let connection = connect(&wire, &stand, cgroups, at(address, port))?;
            let sizes = sizes(&wire, &connection)?;
            ensure!(sizes == [near, far], "{cgroups:?} {address}:{port}: {sizes:?}");
            let client = format!("/{}", cgroups[1].strip_prefix(cgroup::mount_point()?)?.display());
            let to = at(address, port).to_string();
            let mut explain = home.command("explain");
            let output = explain.args([&to, "--cgroup", &client, "--json"]).output()?;
            let answer: Value = serde_json::from_slice(&output.stdout)?;
            let bytes = answer["path"]["settings"]["sndbuf_bytes"].as_u64();
            ensure!(bytes == near, "{answer}");
            tcp::reset(connection.near)?;
        }
    }

    // One comes while the agent runs, with one within, and a connection at once; it goes,
    // and comes again.
    for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
        let service = Inner::make(own, &format!("{below_root}-1.service"))?;
        let worker = Inner::make(&service.0, "worker")?;
        let connection = connect(&wire, &stand, [&worker.0, &service.0], at(address, 7003))?;
        let look = || sizes(&wire, &connection);
        let both = [Some(OF_UNIT), Some(OF_UNIT)];
        until("both ends are brought along", LIMIT, look, |sizes| *sizes == both)?;
        let next = connect(&wire, &stand, [own, &worker.0], at(address, 7004))?;
        ensure!(sizes(&wire, &next)? == [Some(OF_UNIT), None]);
        for connection in [connection, next] {
            tcp::reset(connection.near)?;
        }
    }
    agent.stop()?;
    Ok(())
}

/// Connections that run already are found by their cgroups, at the start and when a policy
/// with patterns comes after one with none.
#[e2e(every_change, beside)]
fn running_connections_are_of_their_cgroups() -> Result<()> {
    let stand = Stand::set_up("running-cgroups")?;
    let wire = Wire::start()?;
    let own = stand.cgroup().path();
    let service = Inner::make(own, "x.service")?;
    let below_root = own.strip_prefix(cgroup::mount_point()?)?.display().to_string();
    let of_service = path("service", &format!("cgroup = '{below_root}/x.service'"), OF_SERVICE);
    let any = path("any", "", OF_ANY);
    let connection = connect(&wire, &stand, [&service.0, own], at(ADDRESSES_V6[1], 7000))?;
    let home = Home::create(&program()?, &of_service)?;
    let agent = home.start(stand.cgroup())?;
    let look = || sizes(&wire, &connection);
    until("its end is brought along", LIMIT, look, |sizes| *sizes == [None, Some(OF_SERVICE)])?;
    home.reload(&any)?;
    let both = [Some(OF_ANY), Some(OF_ANY)];
    until("all are any's", LIMIT, look, |sizes| *sizes == both)?;
    home.reload(&[any, of_service].concat())?;
    let again = [Some(OF_ANY), Some(OF_SERVICE)];
    until("it is the service's again", LIMIT, look, |sizes| *sizes == again)?;
    tcp::reset(connection.near)?;
    agent.stop()?;
    Ok(())
}
