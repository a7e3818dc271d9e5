//! `divide`: the buffers of a path are for all of its flows together, and each has an
//! equal part of them as others come and go. Judged by what the kernel says of the
//! sockets: SO_SNDBUF and SO_RCVBUF, which are doubled, and what ss shows.

use std::{
    io::{self, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd as _,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use nix::sys::socket::{
    getsockopt, setsockopt,
    sockopt::{Linger, RcvBuf, SndBuf},
};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    policy::{path_of, path_to},
    settings,
    ss::Flow,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    tcp_info::TcpInfo,
    veth::{self, Wire},
    wad::{Home, program},
};

const PORT: u16 = 7000;
const MOST: usize = 8;
const SOON: Duration = Duration::from_secs(10);
/// Flows that the agent brings along have their part within this time.
const BY_THE_AGENT: Duration = Duration::from_secs(1);
/// So much time is between two looks at a socket, and the machine may be late by as
/// much.
const LOOK: Duration = Duration::from_millis(1);
const LATE_MS: f64 = 25.0;

/// A connection whose near end sends all it can, and whose far end takes it.
pub struct Sender {
    pub near: TcpStream,
    pub far: TcpStream,
    threads: [JoinHandle<()>; 2],
}

impl Sender {
    pub fn start(connection: Connection) -> io::Result<Self> {
        let Connection { near, far } = connection;
        near.set_write_timeout(None)?;
        far.set_read_timeout(None)?;
        let (mut to, mut from) = (near.try_clone()?, far.try_clone()?);
        let threads = [
            thread::spawn(move || {
                let block = vec![0; 256 * 1024];
                while to.write_all(&block).is_ok() {}
            }),
            thread::spawn(move || {
                let _ = io::copy(&mut from, &mut io::sink());
            }),
        ];
        Ok(Self { near, far, threads })
    }

    /// Ends the connection at once, whatever is on its way; returns when its near end
    /// is gone.
    pub fn abort(self) -> Result<Instant> {
        let Self { near, far, threads } = self;
        setsockopt(&near, Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
        near.shutdown(Shutdown::Both)?;
        let _ = far.shutdown(Shutdown::Both);
        for thread in threads {
            let _ = thread.join();
        }
        drop(near);
        Ok(Instant::now())
    }
}

fn sndbuf(stream: &TcpStream) -> Result<usize> {
    Ok(getsockopt(&stream.as_fd(), SndBuf)?)
}

fn rcvbuf(stream: &TcpStream) -> Result<usize> {
    Ok(getsockopt(&stream.as_fd(), RcvBuf)?)
}

/// Returns when each of the sockets had the buffer, since `begun`. None moves away from
/// it meanwhile.
fn until_each<'a>(
    streams: impl Iterator<Item = &'a TcpStream>,
    read: fn(&TcpStream) -> Result<usize>,
    bytes: usize,
    begun: Instant,
) -> Result<Duration> {
    let mut left: Vec<_> = streams.map(|stream| (stream, None)).collect();
    loop {
        let mut still = Vec::new();
        for (stream, before) in left {
            let seen = read(stream)?;
            let lacks = seen.abs_diff(bytes);
            let is_nearer = before.is_none_or(|before| lacks <= before);
            ensure!(is_nearer, "{seen} bytes after {before:?} from {bytes}");
            if lacks > 0 {
                ensure!(begun.elapsed() < SOON, "{seen} bytes, not {bytes}");
                still.push((stream, Some(lacks)));
            }
        }
        if still.is_empty() {
            return Ok(begun.elapsed());
        }
        left = still;
        thread::sleep(LOOK);
    }
}

/// Returns a part, as the kernel reports it.
const fn part(total_bytes: usize, flows: usize) -> usize {
    2 * (total_bytes / flows)
}

fn longest_rtt_ms(senders: &[Sender]) -> Result<f64> {
    let mut longest: f64 = 0.0;
    for sender in senders {
        longest = longest.max(TcpInfo::of(&sender.near)?.rtt_ms);
    }
    Ok(longest)
}

/// Connects on a thread: it takes a round trip, in which the others see it come.
fn connecting(wan: &Wan, to: SocketAddr) -> Result<(TcpStream, Instant)> {
    let begun = Instant::now();
    Ok((tcp::connect(wan.a(), to)?, begun))
}

#[e2e(long, few)]
fn senders_under_our_laws_have_their_part_within_a_round_trip() -> Result<()> {
    const TOTAL: usize = 1_600_000;
    let stand = Stand::set_up("senders")?;
    let laws = ["wad_aimd", "wad_delay"];
    let mut policy = String::new();
    for (port, law) in (PORT..).zip(laws) {
        policy += &path_to(port, &format!("sndbuf = {TOTAL}; divide = true; congestion = '{law}'"));
    }
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let wan = Wan::start(&toml::from_str(
        "rtt = '200ms'\nforward = { rate = '100Mbit', queue = { bdp = 1.0 } }\n",
    )?)?;
    settings::apply(&wan)?;
    for (port, law) in (PORT..).zip(laws) {
        let to = at(ADDRESSES_V4[1], port);
        let listener = tcp::listen(wan.b(), to)?;
        let mut senders: Vec<Sender> = Vec::new();
        let check = |what: &str, took: Duration, rtt_ms: f64| -> Result<()> {
            let took_ms = took.as_secs_f64() * 1e3;
            println!("{law}: {what}: all had their part after {took_ms:.0} ms of {rtt_ms:.0}");
            ensure!(took_ms <= rtt_ms + LATE_MS, "{law}: {what}: {took_ms:.0} ms");
            Ok(())
        };
        for flows in 1..=MOST {
            let rtt_ms = longest_rtt_ms(&senders)?;
            let (seen, begun) = thread::scope(|scope| -> Result<_> {
                let connected = scope.spawn(|| connecting(&wan, to));
                let begun = Instant::now();
                let nears = senders.iter().map(|sender| &sender.near);
                let took = until_each(nears, sndbuf, part(TOTAL, flows), begun)?;
                let (near, _) = connected.join().expect("no panic")?;
                Ok(((near, took), begun))
            })?;
            let (near, took) = seen;
            if flows > 1 {
                check(&format!("{flows} flows"), took, rtt_ms)?;
            }
            ensure!(sndbuf(&near)? == part(TOTAL, flows), "the new one has {}", sndbuf(&near)?);
            senders.push(Sender::start(Connection::accepted(&listener, near)?)?);
            ensure!(begun.elapsed() < SOON);
            // ACKs come in, and what was on its way before has been seen to.
            thread::sleep(Duration::from_millis(500));
        }
        let flow = tcp::flow(wan.a(), &senders[0].near)?;
        ensure!(flow.congestion.starts_with(law) && flow.bytes_acked > 0, "{flow:?}");
        while let Some(leaving) = senders.pop() {
            if senders.is_empty() {
                leaving.abort()?;
                break;
            }
            let rtt_ms = longest_rtt_ms(&senders)?;
            let begun = leaving.abort()?;
            let nears = senders.iter().map(|sender| &sender.near);
            let took = until_each(nears, sndbuf, part(TOTAL, senders.len()), begun)?;
            check(&format!("{} are left", senders.len()), took, rtt_ms)?;
            thread::sleep(Duration::from_millis(500));
        }
        let tuned = || -> Result<_> {
            Ok(home.metrics()?.of_path("wad_flows_tuned", &format!("to-{port}"))?)
        };
        until("all of them are gone", SOON, tuned, |flows| *flows == 0.0)?;
    }
    Ok(())
}

/// The window scale is for the whole buffer: the last one that is left gets that.
#[e2e(long, few)]
fn receivers_have_their_part_within_a_second() -> Result<()> {
    const TOTAL: usize = 4_000_000;
    let stand = Stand::set_up("receivers")?;
    let keys = format!("sndbuf = 65536; rcvbuf = {TOTAL}; divide = true");
    let home = Home::create(&program()?, &path_of(PORT, &keys))?;
    let _agent = home.start(stand.cgroup())?;
    let wan = Wan::start(&toml::from_str(
        "rtt = '100ms'\nforward = { rate = '200Mbit', queue = { bdp = 1.0 } }\n",
    )?)?;
    settings::apply(&wan)?;
    let to = at(ADDRESSES_V4[1], PORT);
    let listener = tcp::listen(wan.b(), to)?;
    let mut senders: Vec<Sender> = Vec::new();
    let follow = |senders: &[Sender], begun: Instant| -> Result<()> {
        let fars = senders.iter().map(|sender| &sender.far);
        let took = until_each(fars, rcvbuf, part(TOTAL, senders.len()), begun)?;
        println!("{} receivers: all had their part after {took:?}", senders.len());
        ensure!(took <= BY_THE_AGENT, "{} receivers: {took:?}", senders.len());
        // Half of a buffer's bytes, or more, are payload: what may be sent.
        let most = part(TOTAL, senders.len()) as u64;
        for sender in senders {
            let offered = || -> Result<_> { Ok(tcp::flow(wan.a(), &sender.near)?) };
            let fits = |flow: &Flow| flow.send_window_bytes <= most;
            until("the other end may send no more than fits", SOON, offered, fits)?;
        }
        Ok(())
    };
    for _ in 0..MOST {
        let near = tcp::connect(wan.a(), to)?;
        let begun = Instant::now();
        senders.push(Sender::start(accept(&listener, near)?)?);
        follow(&senders, begun)?;
        // Slow start has used what there is.
        thread::sleep(Duration::from_millis(1_000));
    }
    while senders.len() > 1 {
        let leaving = senders.remove(0);
        leaving.abort()?;
        // Its far end goes when the reset has come.
        thread::sleep(Duration::from_millis(60));
        follow(&senders, Instant::now())?;
        thread::sleep(Duration::from_millis(500));
    }
    let offered = || -> Result<_> { Ok(tcp::flow(wan.a(), &senders[0].near)?) };
    let fits = |flow: &Flow| flow.send_window_bytes > TOTAL as u64 / 2;
    until("all of it is offered to the last one", SOON, offered, fits)?;
    senders.drain(..).try_for_each(|sender| sender.abort().map(|_| ()))
}

fn accept(listener: &TcpListener, near: TcpStream) -> Result<Connection> {
    Ok(Connection::accepted(listener, near)?)
}

/// Nothing is sent: no ACK calls a law of ours, and `bbr` is none.
#[e2e(long, few)]
fn idle_flows_and_those_under_bbr_have_their_part_within_a_second() -> Result<()> {
    const TOTAL: usize = 1_600_000;
    let stand = Stand::set_up("idle")?;
    let wire = Wire::start()?;
    let path = |port: u16, law: &str| {
        format!(
            "[[path]]\nname = '{port}'\nremote = '10.81.0.2'\nremote_port = {port}\n\
             sndbuf = {TOTAL}\nrcvbuf = {TOTAL}\ndivide = true\ncongestion = '{law}'\n\
             allow = 'aggressive'\n"
        )
    };
    let policy = path(PORT, "wad_aimd") + &path(PORT + 1, "bbr");
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    for (port, is_idle) in [(PORT, true), (PORT + 1, false)] {
        let to = at(veth::ADDRESSES_V4[1], port);
        let listener = tcp::listen(wire.b(), to)?;
        let mut senders = Vec::new();
        let mut idle = Vec::new();
        for flows in 1..=MOST {
            let begun = Instant::now();
            let connection = accept(&listener, tcp::connect(wire.a(), to)?)?;
            if is_idle {
                idle.push(connection);
            } else {
                senders.push(Sender::start(connection)?);
            }
            let nears = || {
                let idle = idle.iter().map(|connection: &Connection| &connection.near);
                idle.chain(senders.iter().map(|sender: &Sender| &sender.near))
            };
            for read in [sndbuf, rcvbuf] {
                let took = until_each(nears(), read, part(TOTAL, flows), begun)?;
                println!("port {port}, {flows} flows: all had their part after {took:?}");
                ensure!(took <= BY_THE_AGENT, "port {port}, {flows} flows: {took:?}");
            }
        }
        for flows in (1..MOST).rev() {
            if is_idle {
                idle.remove(0);
            } else {
                senders.remove(0).abort()?;
            }
            let begun = Instant::now();
            let nears = idle.iter().map(|connection| &connection.near);
            let nears = nears.chain(senders.iter().map(|sender| &sender.near));
            let took = until_each(nears, sndbuf, part(TOTAL, flows), begun)?;
            ensure!(took <= BY_THE_AGENT, "port {port}, {flows} are left: {took:?}");
        }
        senders.drain(..).try_for_each(|sender| sender.abort().map(|_| ()))?;
    }
    Ok(())
}

/// No part is below the kernel's default of the flow's own namespace; what an
/// application has chosen is its own, and it counts all the same.
#[e2e(long, beside)]
fn parts_end_at_the_default_and_spare_what_applications_chose() -> Result<()> {
    let stand = Stand::set_up("parts")?;
    let wire = Wire::start()?;
    wire.a().run(|| wad_testbed::sysctl::set("net.ipv4.tcp_wmem", "4096 100000 4194304"))??;
    let policy = "[[path]]\nname = 'p'\nremote = '10.81.0.2'\n\
                  sndbuf = 300000\nrcvbuf = 600000\ndivide = true\ncongestion = 'wad_aimd'\n";
    let home = Home::create(&program()?, policy)?;
    let _agent = home.start(stand.cgroup())?;
    let to = at(veth::ADDRESSES_V4[1], PORT);
    let listener = tcp::listen(wire.b(), to)?;
    let mut connections = Vec::new();
    for _ in 0..MOST {
        connections.push(accept(&listener, tcp::connect(wire.a(), to)?)?);
    }
    // 300,000 among 8 are 37,500; half of tcp_wmem's and tcp_rmem's 131,072 is more
    // than 600,000 among 8 would be only for the former.
    let flows = || connections.iter().map(|connection| &connection.near);
    let begun = Instant::now();
    until_each(flows(), sndbuf, 100_000, begun)?;
    until_each(flows(), rcvbuf, 150_000, begun)?;
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_flows_tuned", "p")? == MOST as f64, "{}", metrics.text());

    setsockopt(&connections[0].near, SndBuf, &30_000)?;
    setsockopt(&connections[1].near, RcvBuf, &30_000)?;
    connections.truncate(2);
    let begun = Instant::now();
    until_each([&connections[1].near].into_iter(), sndbuf, 300_000, begun)?;
    until_each([&connections[0].near].into_iter(), rcvbuf, 600_000, begun)?;
    connections.iter().try_for_each(|connection| connection.exchange(2_000_000))?;
    let own = (sndbuf(&connections[0].near)?, rcvbuf(&connections[1].near)?);
    ensure!(own == (60_000, 60_000), "{own:?}");
    Ok(())
}
