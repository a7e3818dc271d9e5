//! An application may choose a law of `wad`'s by itself, which takes no consent: its flow
//! is a standard one (RFC 5681), whatever the law, with no parameters of any path.

use std::{
    ffi::OsString,
    net::TcpStream,
    os::fd::{AsRawFd as _, OwnedFd},
    slice, thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::socket::{
    self, AddressFamily, SockFlag, SockType, SockaddrStorage, sockopt::TcpCongestion,
};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    episodes::{RECOVERY, episodes},
    policy::path_to,
    reference::Law,
    sending::while_sending,
    settings, signal,
    stand::Stand,
    tcp::{self, Connection, at},
    trace::{Event, Trace},
    wad::{Home, program},
};

use super::laws::LAWS;

/// The window of a path's flow, which is under a law that the application did not choose.
const BOUND: u32 = 20;
/// The application's flows to this port fall under a path.
const MATCHED: u16 = 7000;
/// Its flows to ports from here on fall under none.
const UNMATCHED: u16 = 7001;
/// Paths from this port on are there for the sake of their laws.
const NAMED: u16 = 7100;

/// The loss ends slow start, above any bound and below what the path holds.
const PATH: &str = "rtt = '50ms'\nforward = { rate = '100Mbit', queue = { bdp = 1.0 }, \
                    drop_data_packets = [300] }\n";
const SPAN: Duration = Duration::from_secs(2);

const STANDARD: Law = Law::Aimd { b: 0.5, a: 1.0 };

fn policy() -> String {
    let bounded = format!("max_cwnd = {BOUND}; additive_increase = 6; decrease = 0.3");
    let named = (NAMED..).zip(LAWS).map(|(port, (_, keys))| path_to(port, keys));
    path_to(MATCHED, &bounded) + &named.collect::<String>()
}

/// Returns the near end's port, the only one that an event tells of.
const fn near_port(port: u16) -> u16 {
    port + 10_000
}

/// Connects under a law of the application's own choice.
fn connect(wan: &Wan, port: u16, law: &str) -> Result<Connection> {
    let to = at(ADDRESSES_V4[1], port);
    let listener = tcp::listen(wan.b(), to)?;
    let near = wan.a().run(|| -> Result<TcpStream> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket: OwnedFd = socket::socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
        socket::setsockopt(&socket, TcpCongestion, &OsString::from(law))?;
        let from = at("0.0.0.0", near_port(port));
        socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(from))?;
        socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
        Ok(socket.into())
    })??;
    Ok(Connection::accepted(&listener, near)?)
}

/// Has a flow lose one packet.
fn one_loss(port: u16, law: &str) -> Result<()> {
    let wan = Wan::start(&toml::from_str(PATH)?)?;
    settings::apply(&wan)?;
    let connection = connect(&wan, port, law)?;
    let flow = while_sending(slice::from_ref(&connection), || {
        signal::sleep(SPAN)?;
        connection.near_flow(wan.a())
    })?;
    ensure!(flow.congestion == law, "{flow:?}");
    let [counters, _] = wan.counters()?;
    ensure!(counters.planned_drops == 1, "{law} to port {port}: {counters:?}, {flow:?}");
    Ok(())
}

/// These errors were seen before: a flow of no path answered to losses as the law does
/// where it has consent; one of a path had that path's parameters under another law.
#[e2e(long, alone)]
fn a_law_that_an_application_chose_is_a_standard_one() -> Result<()> {
    let stand = Stand::set_up("consent")?;
    let home = Home::create(&program()?, &policy())?;
    let _agent = home.start(stand.cgroup())?;
    let unmatched = (UNMATCHED..).zip(LAWS).map(|(port, (law, _))| (port, law));
    let flows = unmatched
        .chain([(MATCHED, "wad_scalable")])
        .map(|(port, law)| Ok((port, home.algorithm_of(law)?)))
        .collect::<Result<Vec<_>>>()?;
    let last = UNMATCHED + LAWS.len() as u16;
    let trace = Trace::start(MATCHED..=last)?;
    thread::scope(|scope| {
        let running: Vec<_> =
            flows.iter().map(|(port, law)| scope.spawn(|| one_loss(*port, law))).collect();
        running.into_iter().try_for_each(|flow| {
            flow.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    let events = trace.finish()?;
    for (port, law) in &flows {
        let is_of_flow = |event: &&Event| event.local_port == near_port(*port);
        let of_flow: Vec<_> = events.iter().filter(is_of_flow).copied().collect();
        let episodes = episodes(&of_flow);
        let losses = episodes.iter().filter(|episode| episode.state == RECOVERY);
        let [loss] = losses.collect::<Vec<_>>()[..] else {
            bail!("{law} to port {port}: not one loss: {episodes:?}")
        };
        let (_, threshold) = loss.after.context("the flow ended in recovery")?;
        println!("{law} to port {port}: {} before, then {threshold}", loss.cwnd_before);
        ensure!(loss.cwnd_before > 2 * BOUND, "{law} to port {port} is bounded: {loss:?}");
        STANDARD.check_decrease(loss.cwnd_before, threshold)?;
    }
    Ok(())
}
