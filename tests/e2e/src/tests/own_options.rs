//! An application sets its rate and its class by itself, here with and without
//! `override_setsockopt`: it keeps them, or gets them back.

use std::{
    net::{SocketAddr, TcpStream},
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use anyhow::{Result, ensure};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    process::run_command,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(10);
const PORT: u16 = 7000;

/// A rate in bytes per second, and a traffic class.
type Choice = (u64, u64);

/// Nobody has chosen anything.
const NONE: Choice = (u64::MAX, 0);
const OWN: Choice = (750_000, 10 << 2);
/// The application thinks better of it.
const OWN_LATER: Choice = (650_000, 12 << 2);
const PATHS: Choice = (2_500_000, 8 << 2);
const PATHS_NEXT: Choice = (1_250_000, 14 << 2);

fn policy((rate, class): Choice, keys: &str) -> String {
    format!(
        "[[path]]\nname = 'p'\nremote = {:?}\npacing = '{}kbit'\ndscp = {}\n{keys}\n",
        [ADDRESSES_V4[1], ADDRESSES_V6[1]],
        rate / 125,
        class >> 2
    )
}

/// Returns level and name of a class.
const fn class_of(to: SocketAddr) -> (i32, i32) {
    if to.is_ipv4() {
        (libc::IPPROTO_IP, libc::IP_TOS)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
    }
}

fn choose(socket: &impl AsRawFd, to: SocketAddr, (rate, class): Choice) -> Result<()> {
    tcp::set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate as i32)?;
    let (level, name) = class_of(to);
    tcp::set_option(socket, level, name, class as i32)?;
    Ok(())
}

fn chosen(connection: &Connection) -> Result<Choice> {
    let (level, name) = class_of(connection.near.peer_addr()?);
    let option = |level, name| tcp::option(&connection.near, level, name);
    Ok((option(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE)?, option(level, name)?))
}

/// Connects; before that, the application chooses, if it does.
fn connect(wire: &Wire, to: SocketAddr, own: Option<Choice>) -> Result<Connection> {
    let listener = tcp::listen(wire.b(), to)?;
    let near = wire.a().run(|| -> Result<TcpStream> {
        let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket: OwnedFd = socket::socket(family, SockType::Stream, flags, None)?;
        if let Some(own) = own {
            choose(&socket, to, own)?;
        }
        socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
        Ok(socket.into())
    })??;
    Ok(Connection::accepted(&listener, near)?)
}

const fn destinations() -> [(&'static str, u16); 2] {
    [(ADDRESSES_V4[1], PORT), (ADDRESSES_V6[1], PORT)]
}

fn await_all(connections: &[Connection], expected: Choice) -> Result<()> {
    let look = || connections.iter().map(chosen).collect::<Result<Vec<_>>>();
    let fits = |all: &Vec<Choice>| all.iter().all(|choice| *choice == expected);
    until("rate and class are as they are to be", SOON, look, fits)?;
    Ok(())
}

/// This error was seen before: a path set its own over those of the application, and took
/// them away at the end.
#[e2e(every_change, beside, any_kernel)]
fn an_application_keeps_its_rate_and_its_class() -> Result<()> {
    let stand = Stand::set_up("own")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(PATHS, ""))?;
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for (address, port) in destinations() {
        own.push(connect(&wire, at(address, port), Some(OWN))?);
    }
    let _agent = home.start(stand.cgroup())?;
    for (address, port) in destinations() {
        let to = at(address, port);
        own.push(connect(&wire, to, Some(OWN))?);
        let later = connect(&wire, to, None)?;
        ensure!(chosen(&later)? == PATHS, "{:?}", chosen(&later)?);
        choose(&later.near, to, OWN)?;
        own.push(later);
        others.push(connect(&wire, to, None)?);
    }
    await_all(&own, OWN)?;
    await_all(&others, PATHS)?;
    home.reload(&policy(PATHS_NEXT, ""))?;
    await_all(&others, PATHS_NEXT)?;
    await_all(&own, OWN)?;
    run_command(&mut home.command("disable"))?;
    await_all(&others, NONE)?;
    await_all(&own, OWN)?;
    run_command(&mut home.command("enable"))?;
    await_all(&others, PATHS_NEXT)?;
    await_all(&own, OWN)
}

/// Over IPv4 the kernel sets it with the class (`__ip_sock_set_tos()`).
#[e2e(long, beside, any_kernel)]
fn an_application_keeps_its_priority() -> Result<()> {
    const PRIORITY: u64 = 5;
    let stand = Stand::set_up("priority")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(PATHS, ""))?;
    let _agent = home.start(stand.cgroup())?;
    let set = |socket: &OwnedFd| {
        tcp::set_option(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, PRIORITY as i32)
    };
    let mut connections = Vec::new();
    for (address, port) in destinations() {
        let to = at(address, port);
        let listener = tcp::listen(wire.b(), to)?;
        let near = tcp::connect_prepared(wire.a(), set, to)?;
        connections.push(Connection::accepted(&listener, near)?);
    }
    let all_have_theirs = || -> Result<()> {
        for connection in &connections {
            let has = tcp::option(&connection.near, libc::SOL_SOCKET, libc::SO_PRIORITY)?;
            ensure!(has == PRIORITY, "{has} to {}", connection.near.peer_addr()?);
        }
        Ok(())
    };
    await_all(&connections, PATHS)?;
    all_have_theirs()?;
    run_command(&mut home.command("disable"))?;
    await_all(&connections, NONE)?;
    all_have_theirs()
}

/// This error was seen before: what an application had was lost.
#[e2e(long, beside, any_kernel)]
fn an_overridden_application_gets_its_rate_and_its_class_back() -> Result<()> {
    let stand = Stand::set_up("own-back")?;
    let wire = Wire::start()?;
    let overriding = policy(PATHS, "override_setsockopt = true");
    let home = Home::create(&program()?, &overriding)?;
    let mut own = Vec::new();
    for (address, port) in destinations() {
        own.push(connect(&wire, at(address, port), Some(OWN))?);
    }
    let _agent = home.start(stand.cgroup())?;
    for (address, port) in destinations() {
        own.push(connect(&wire, at(address, port), Some(OWN))?);
    }
    await_all(&own, PATHS)?;
    run_command(&mut home.command("disable"))?;
    await_all(&own, OWN)?;
    run_command(&mut home.command("enable"))?;
    await_all(&own, PATHS)?;

    // What it asks for meanwhile does not count as yet, and is no error.
    for connection in &own {
        choose(&connection.near, connection.near.peer_addr()?, OWN_LATER)?;
    }
    await_all(&own, PATHS)?;
    // The path is removed.
    home.reload("")?;
    await_all(&own, OWN_LATER)
}

/// This error was seen before: pacing was turned on by a bound of 32 bits, 34.3 Gbit/s,
/// and so was what nobody had asked for.
#[e2e(long, beside, any_kernel)]
fn pacing_of_the_kernels_algorithms_is_no_bound() -> Result<()> {
    let stand = Stand::set_up("unbounded")?;
    let wire = Wire::start()?;
    let policy = format!(
        "[[path]]\nname = 'p'\nremote = '{}'\npacing = 'auto'\ncongestion = 'cubic'\n",
        ADDRESSES_V4[1]
    );
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let connection = connect(&wire, at(ADDRESSES_V4[1], PORT), None)?;
    connection.exchange(1_000_000)?;
    ensure!(chosen(&connection)? == NONE, "{:?}", chosen(&connection)?);
    let flow = connection.near_flow(wire.a())?;
    println!("{} bit/s", flow.pacing_bits_per_second);
    Ok(())
}
