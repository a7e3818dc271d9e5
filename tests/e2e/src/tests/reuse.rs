//! Sockets are used in unusual ways here: for one connection after another, and
//! connected to themselves. Each connection is judged, and counted, once.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::fd::{AsRawFd as _, OwnedFd},
};

use anyhow::{Result, ensure};
use nix::{
    errno::Errno,
    sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage},
};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    netns::Netns,
    stand::{Stand, until},
    tcp::{self, at},
    wad::{Home, program},
};

const POLICY: &str = "[[path]]\nname = 'matched'\nremote = '127.0.0.2'\n\
                      sndbuf = '100000'\nrcvbuf = '100000'\ncongestion = 'wad_aimd'\n";

fn socket() -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::Inet, SockType::Stream);
    Ok(socket::socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?)
}

fn connect(socket: &OwnedFd, to: SocketAddr) -> nix::Result<()> {
    socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to))
}

fn congestion(socket: &OwnedFd) -> io::Result<String> {
    let name = socket::getsockopt(socket, socket::sockopt::TcpCongestion)?;
    Ok(name.to_string_lossy().trim_end_matches('\0').to_owned())
}

fn loopback() -> Result<Netns> {
    let netns = Netns::create("reuse")?;
    netns.ip(&["link", "set", "lo", "up"])?;
    Ok(netns)
}

fn await_nothing_held(home: &Home) -> Result<()> {
    let held = || -> Result<_> { Ok(home.metrics()?.of_path("wad_flows_tuned", "matched")?) };
    let soon = std::time::Duration::from_secs(5);
    until("nothing is tuned", soon, held, |held| *held == 0.0)?;
    Ok(())
}

/// This error was seen before: the first attempt's state was the second's, which ran
/// under the policy of a path that it does not match, and was counted
/// twice as gone.
#[e2e(long, beside)]
fn a_socket_that_connects_again_elsewhere_is_another_flow() -> Result<()> {
    let stand = Stand::set_up("reuse")?;
    let netns = loopback()?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;

    let (default, second) = netns.run(|| -> Result<_> {
        let default = congestion(&socket()?)?;
        let listener = TcpListener::bind("127.0.0.3:7000")?;
        let socket = socket()?;
        // Nobody listens there; the path matches all the same.
        ensure!(connect(&socket, at("127.0.0.2", 7000)) == Err(Errno::ECONNREFUSED));
        connect(&socket, listener.local_addr()?)?;
        Ok((default, congestion(&socket)?))
    })??;
    ensure!(second == default, "{second} for a flow of no path; the default is {default}");
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_connections_matched_total", "matched")? == 1.0);
    ensure!(metrics.of_path("wad_flows_opened_total", "matched")? == 0.0);
    await_nothing_held(&home)
}

/// Returns the options of a socket that a path may have set, by name.
fn options(socket: &OwnedFd) -> Result<[(&'static str, u64); 3]> {
    let option = |level, name| tcp::option(socket, level, name);
    Ok([
        ("rate", option(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE)?),
        ("class", option(libc::IPPROTO_IP, libc::IP_TOS)?),
        ("unsent", option(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT)?),
    ])
}

/// This error was seen before: the socket of an aggressive path, connected elsewhere then,
/// went on under that path's law, rate and class.
#[e2e(long, beside)]
fn a_socket_that_ended_its_paths_flow_has_nothing_of_the_path() -> Result<()> {
    let stand = Stand::set_up("ended")?;
    let netns = loopback()?;
    let policy = "[[path]]\nname = 'matched'\nremote = '127.0.0.2'\nallow = 'aggressive'\n\
                  congestion = 'wad_scalable'\nmax_cwnd = 20\npacing = '8Mbit'\ndscp = 8\n\
                  notsent_lowat = '64KiB'\n";
    let home = Home::create(&program()?, policy)?;
    let _agent = home.start(stand.cgroup())?;

    netns.run(|| -> Result<()> {
        let matched = TcpListener::bind("127.0.0.2:7000")?;
        let elsewhere = TcpListener::bind("127.0.0.3:7000")?;
        let socket = socket()?;
        let fresh = (congestion(&socket)?, options(&socket)?);
        for time in 0..2 {
            connect(&socket, matched.local_addr()?)?;
            let (law, [rate, class, unsent]) = (congestion(&socket)?, options(&socket)?);
            ensure!(law.starts_with("wad_scalable"), "{time}: {law}");
            let given = [rate, class, unsent].map(|(_, value)| value);
            ensure!(given == [1_000_000, 8 << 2, 64 << 10], "{time}: {given:?}");
            tcp::disconnect(&socket)?;
            connect(&socket, elsewhere.local_addr()?)?;
            let now = (congestion(&socket)?, options(&socket)?);
            ensure!(now == fresh, "{time}: {now:?}; one that was never matched: {fresh:?}");
            tcp::disconnect(&socket)?;
        }
        Ok(())
    })??;
    await_nothing_held(&home)
}

/// The class that is taken back takes the socket's route with it, by which its interface is known.
#[e2e(every_change, beside)]
fn a_socket_used_again_is_of_its_interface() -> Result<()> {
    let stand = Stand::set_up("interface-again")?;
    let netns = loopback()?;
    let policy = "[[path]]\nname = 'matched'\nremote = '127.0.0.2'\ninterface = 'lo'\n\
                  dscp = 8\n[[path]]\nname = 'others'\nremote = '127.0.0.2'\ndscp = 10\n";
    let home = Home::create(&program()?, policy)?;
    let _agent = home.start(stand.cgroup())?;
    netns.run(|| -> Result<()> {
        let matched = TcpListener::bind("127.0.0.2:7000")?;
        let socket = socket()?;
        for time in 0..3 {
            connect(&socket, matched.local_addr()?)?;
            let [_, (_, class), _] = options(&socket)?;
            ensure!(class == 8 << 2, "{time}: {class}");
            tcp::disconnect(&socket)?;
        }
        Ok(())
    })??;
    await_nothing_held(&home)
}

/// This error was seen before: both callbacks of an establishment reserved, and one
/// close gave back half of it.
#[e2e(long, beside)]
fn a_socket_connected_to_itself_is_one_flow() -> Result<()> {
    let stand = Stand::set_up("self")?;
    let netns = loopback()?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;

    let name = netns.run(|| -> Result<_> {
        let socket = socket()?;
        let itself = at("127.0.0.2", 7001);
        socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(itself))?;
        connect(&socket, itself)?;
        Ok(congestion(&socket)?)
    })??;
    ensure!(name.starts_with("wad_aimd"), "{name}");
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_connections_matched_total", "matched")? == 1.0);
    ensure!(metrics.of_path("wad_flows_opened_total", "matched")? == 1.0);
    await_nothing_held(&home)
}
