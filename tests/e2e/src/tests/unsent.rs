//! `notsent_lowat` bounds what a socket takes and has not sent, as its owner and ss see
//! it.

use std::{
    io,
    net::TcpStream,
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{self, Wan},
    policy::path_to,
    sending::{samples, while_sending},
    settings,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(10);
const PORT: u16 = 7000;
const BOUND: u32 = 128 << 10;
/// An application asks for this bound by itself.
const OWN: u32 = 48 << 10;

fn policy(keys: &str) -> String {
    format!("[[path]]\nname = 'p'\nremote = '10.81.0.2'\n{keys}\n")
}

/// Returns TCP_NOTSENT_LOWAT, as the application reads it; 0 where nobody has set it.
fn bound(stream: &TcpStream) -> Result<u32> {
    let mut value = 0_u32;
    let mut bytes = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value has the length given.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw mut value).cast(),
            &raw mut bytes,
        )
    };
    ensure!(result == 0, "{}", io::Error::last_os_error());
    Ok(value)
}

/// Connects; before that, the application bounds what the socket takes.
fn connect_with_own(wire: &Wire) -> Result<Connection> {
    let to = at(ADDRESSES_V4[1], PORT);
    let listener = tcp::listen(wire.b(), to)?;
    let near = wire.a().run(|| -> Result<TcpStream> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket: OwnedFd = socket::socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
        tcp::set_option(&socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, OWN as i32)?;
        socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
        Ok(socket.into())
    })??;
    Ok(Connection::accepted(&listener, near)?)
}

#[e2e(every_change, beside, any_kernel)]
fn a_socket_has_the_bound_of_its_path_and_gives_it_back() -> Result<()> {
    let stand = Stand::set_up("unsent")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy("notsent_lowat = '128KiB'"))?;
    let early = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    ensure!(bound(&early.near)? == 0, "somebody else has set it");
    let _agent = home.start(stand.cgroup())?;

    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    ensure!(bound(&connection.near)? == BOUND, "{}", bound(&connection.near)?);
    // The far end's flows are under no path.
    ensure!(bound(&connection.far)? == 0, "{}", bound(&connection.far)?);
    let is = |stream: &TcpStream, bytes: u32| -> Result<()> {
        until("the bound is the policy's", SOON, || bound(stream), |bound| *bound == bytes)?;
        Ok(())
    };
    is(&early.near, BOUND)?;
    let own = connect_with_own(&wire)?;
    ensure!(bound(&own.near)? == OWN, "{}", bound(&own.near)?);

    home.reload(&policy("notsent_lowat = '256KiB'"))?;
    is(&connection.near, 256 << 10)?;
    ensure!(bound(&own.near)? == OWN, "{}", bound(&own.near)?);
    // What an application sets while it runs is its own, too.
    tcp::set_option(&early.near, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, OWN as i32)?;
    home.reload(&policy("sndbuf = '256KiB'"))?;
    is(&connection.near, 0)?;
    ensure!(bound(&early.near)? == OWN && bound(&own.near)? == OWN, "an own one is gone");
    connection.exchange(1 << 20)?;
    own.exchange(1 << 20)?;
    Ok(())
}

/// The kernel looks at the bound before each new packet, of at most 64 KiB.
#[e2e(long, beside, any_kernel)]
fn no_more_waits_unsent_than_the_bound_while_a_slow_path_drains() -> Result<()> {
    const PACKET: f64 = 65_536.0;
    let stand = Stand::set_up("draining")?;
    let wan = Wan::start(&toml::from_str(
        "rtt = '40ms'\nforward = { rate = '20Mbit', queue = { bdp = 1.0 } }\n",
    )?)?;
    settings::apply(&wan)?;
    let text = path_to(PORT, "notsent_lowat = \"128KiB\"") + &path_to(PORT + 1, "");
    let home = Home::create(&program()?, &text)?;
    let _agent = home.start(stand.cgroup())?;
    let open = |port| Connection::open(wan.a(), wan.b(), at(wan::ADDRESSES_V4[1], port));
    let connections = [open(PORT)?, open(PORT + 1)?];

    let samples = while_sending(&connections, || {
        samples(wan.a(), &connections, Duration::from_millis(2500))
    })?;
    let most = |n: usize| {
        let unsent = samples[n].iter().map(|sample| sample.flow.number("notsent").unwrap_or(0.0));
        unsent.fold(0.0, f64::max)
    };
    println!("{} bytes at most, unbounded {}", most(0), most(1));
    // The bound is reached, so that it is what bounds.
    let expected = f64::from(BOUND) / 2.0..f64::from(BOUND) + PACKET;
    ensure!(expected.contains(&most(0)), "{} bytes", most(0));
    ensure!(most(1) > 1e6, "{} bytes without a bound", most(1));
    // It has to go on: a tenth of what the path carries would do.
    let last = samples[0].last().context("no samples")?;
    ensure!(last.flow.bytes_acked > 20_000_000 / 8 / 10 * 2, "{:?}", last.flow);
    Ok(())
}
