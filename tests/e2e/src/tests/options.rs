//! An application sets some options by itself, here with and without
//! `override_setsockopt`.

use std::{
    ffi::OsString,
    io,
    net::TcpStream,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
    time::Duration,
};

use anyhow::{Result, ensure};
use nix::sys::{
    signal::Signal,
    socket::{
        self, AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt,
        sockopt::{RcvBuf, SndBuf, TcpCongestion},
    },
};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    ss::Flow,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    veth::{self, ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(10);
const PORT: u16 = 7000;
/// An application asks for the buffers that the papers' applications had: 64 kB, which
/// the kernel doubles.
const OWN_BYTES: usize = 65_536;
const OWN: (u64, u64) = (2 * OWN_BYTES as u64, 2 * OWN_BYTES as u64);
const PATHS: (u64, u64) = (600_000, 800_000);

fn policy(keys: &str) -> String {
    format!(
        "[[path]]\nname = 'p'\nremote = '10.81.0.2'\nsndbuf = '300000'\nrcvbuf = '400000'\n\
         congestion = 'wad_aimd'\n{keys}\n"
    )
}

const fn buffers(flow: &Flow) -> (u64, u64) {
    (flow.sndbuf_bytes, flow.rcvbuf_bytes)
}

/// Chooses 64 kB and reno, as an application may; the kernel has to say yes.
fn choose(socket: &impl std::os::fd::AsFd) -> nix::Result<()> {
    setsockopt(socket, SndBuf, &OWN_BYTES)?;
    setsockopt(socket, RcvBuf, &OWN_BYTES)?;
    setsockopt(socket, TcpCongestion, &OsString::from("reno"))
}

/// Connects; before that, the application chooses.
fn connect_with_own(wire: &Wire) -> Result<Connection> {
    let to = at(ADDRESSES_V4[1], PORT);
    let listener = tcp::listen(wire.b(), to)?;
    let near = wire.a().run(|| -> Result<TcpStream> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket: OwnedFd = socket::socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
        choose(&socket)?;
        socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
        Ok(socket.into())
    })??;
    Ok(Connection::accepted(&listener, near)?)
}

/// Passes the kernel more than a page: the name of a device, and much behind it.
fn bind_to_device(stream: &TcpStream) -> io::Result<()> {
    let mut name = [0_u8; 8192];
    name[..veth::DEVICE.len()].copy_from_slice(veth::DEVICE.as_bytes());
    // SAFETY: the kernel reads as many bytes as there are.
    let result = unsafe {
        libc::setsockopt(
            stream.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn is_attached(home: &Home) -> Result<bool> {
    for layout in std::fs::read_dir(home.pins())? {
        if layout?.path().join("options_link").exists() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[e2e(every_change, beside)]
fn an_application_keeps_what_it_chooses() -> Result<()> {
    let stand = Stand::set_up("chosen")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(""))?;
    let running = connect_with_own(&wire)?;
    let mut agent = home.start(stand.cgroup())?;
    ensure!(!is_attached(&home)?);
    let before = connect_with_own(&wire)?;
    let after = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    let flow = after.near_flow(wire.a())?;
    ensure!(buffers(&flow) == PATHS && flow.congestion.starts_with("wad_aimd"), "{flow:?}");
    choose(&after.near)?;
    let own = || -> Result<()> {
        for connection in [&running, &before, &after] {
            let flow = connection.near_flow(wire.a())?;
            ensure!(buffers(&flow) == OWN && flow.congestion == "reno", "{flow:?}");
        }
        Ok(())
    };
    own()?;
    // A policy that asks for something else does not change that, whoever has it.
    home.write_policy(&policy("").replace("300000", "500000"))?;
    agent.signal(Signal::SIGHUP);
    let changes = || Ok::<_, anyhow::Error>(home.log().matches("are in force").count());
    until("the change is in force", SOON, changes, |now| *now == 1)?;
    own()?;
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_flows_tuned", "p")? == 3.0);
    let refused = ["path=\"p\"", "reason=\"refused\""];
    ensure!(metrics.value("wad_flows_untuned_total", &refused)? == 0.0);
    Ok(())
}

#[e2e(long, beside)]
fn an_overridden_application_sees_no_error() -> Result<()> {
    let stand = Stand::set_up("overridden")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy("override_setsockopt = true"))?;
    let running = connect_with_own(&wire)?;
    let mut agent = home.start(stand.cgroup())?;
    ensure!(is_attached(&home)?);
    let before = connect_with_own(&wire)?;
    let after = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    for connection in [&running, &before, &after] {
        choose(&connection.near)?;
        let flow = connection.near_flow(wire.a())?;
        ensure!(buffers(&flow) == PATHS, "{flow:?}");
        ensure!(flow.congestion.starts_with("wad_aimd"), "{flow:?}");
    }
    // The other end is no path's, and other options are none of ours.
    choose(&after.far)?;
    let far = after.far_flow(wire.b())?;
    ensure!(buffers(&far) == OWN && far.congestion == "reno", "{far:?}");
    bind_to_device(&after.near)?;
    after.near.set_nodelay(true)?;
    ensure!(after.near.nodelay()?);
    // Bound to its device, it still works.
    after.exchange(1_000_000)?;

    // No longer: the next choice counts.
    home.write_policy(&policy(""))?;
    agent.signal(Signal::SIGHUP);
    let gone = || is_attached(&home);
    until("the program is off the cgroup", SOON, gone, |attached| !attached)?;
    choose(&after.near)?;
    let flow = after.near_flow(wire.a())?;
    ensure!(buffers(&flow) == OWN && flow.congestion == "reno", "{flow:?}");
    Ok(())
}
