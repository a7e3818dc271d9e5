//! Buffers with "auto" grow with need, up to what the path holds, and as far as there is
//! memory. Judged by what the kernel says of the sockets, and by its own count of what TCP
//! holds.

use std::{
    ffi::OsString,
    fs,
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpStream},
    os::fd::{AsRawFd as _, OwnedFd},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::socket::{
    self, AddressFamily, SockFlag, SockType, SockaddrStorage, setsockopt, sockopt::TcpCongestion,
};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    settings,
    stand::{Stand, until},
    sysctl,
    tcp::{self, Connection, at},
    wad::{Home, program},
};

pub const SOON: Duration = Duration::from_secs(20);
/// The kernel gives this at most, by itself.
pub const KERNEL_BYTES: u64 = 500_000;
/// 1.25 times what 100 Mbit/s carry in 100 ms, doubled.
pub const MOST_BYTES: u64 = 2 * 1_562_500;

/// The path carries so many Mbit/s, with a round trip of so many milliseconds.
pub const PATH: (u32, u32) = (100, 100);

/// Makes a path between namespaces whose own autotuning ends early.
pub fn wan((mbit, rtt_ms): (u32, u32)) -> Result<Wan> {
    let path = format!("rtt = '{rtt_ms}ms'\nforward = {{ rate = '{mbit}Mbit', queue.bdp = 1 }}");
    let wan = Wan::start(&toml::from_str(&path)?)?;
    settings::apply(&wan)?;
    for netns in [wan.a(), wan.b()] {
        for (name, default) in [("net.ipv4.tcp_wmem", 16_384), ("net.ipv4.tcp_rmem", 131_072)] {
            netns.run(|| sysctl::set(name, &format!("4096 {default} {KERNEL_BYTES}")))??;
        }
    }
    Ok(wan)
}

fn path(port: u16, (mbit, rtt_ms): (u32, u32), keys: &str) -> String {
    format!(
        "[[path]]\nname = 'to-{port}'\nremote = '{}'\nremote_port = {port}\n\
         bandwidth = '{mbit}Mbit'\nrtt = '{rtt_ms}ms'\nsndbuf = 'auto'\n{keys}\n\
         [[path]]\nname = 'of-{port}'\nremote = '{}'\nlocal_port = {port}\n\
         bandwidth = '{mbit}Mbit'\nrtt = '{rtt_ms}ms'\nrcvbuf = 'auto'\n\n",
        ADDRESSES_V4[1], ADDRESSES_V4[0]
    )
}

/// Sends numbers, one after the other, until told; then has the other end see the end.
fn send(mut stream: &TcpStream, pause: Duration, until: Instant) -> io::Result<u64> {
    const NUMBERS: u64 = 2_048;
    let mut next = 0_u64;
    while Instant::now() < until {
        let block: Vec<u8> = (next..next + NUMBERS).flat_map(u64::to_ne_bytes).collect();
        stream.write_all(&block)?;
        next += NUMBERS;
        thread::sleep(pause);
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(next * 8)
}

/// Takes them, and checks each. How many bytes there were.
fn receive(mut stream: &TcpStream) -> io::Result<u64> {
    let (mut next, mut bytes) = (0_u64, Vec::new());
    let mut block = vec![0; 256 * 1024];
    loop {
        let count = stream.read(&mut block)?;
        if count == 0 {
            return Ok(next * 8);
        }
        bytes.extend_from_slice(&block[..count]);
        let whole = bytes.len() / 8 * 8;
        for number in bytes[..whole].chunks_exact(8) {
            if number != next.to_ne_bytes() {
                return Err(io::Error::other(format!("not {next}")));
            }
            next += 1;
        }
        bytes.drain(..whole);
    }
}

/// Returns the sender's send buffer and the receiver's receive buffer, in bytes.
pub fn sizes(wan: &Wan, connection: &Connection) -> Result<(u64, u64)> {
    let (near, far) = (connection.near_flow(wan.a())?, connection.far_flow(wan.b())?);
    Ok((near.sndbuf_bytes, far.rcvbuf_bytes))
}

/// Awaits that what TCP holds is little: a bound is to be met by the flows of one test.
pub fn await_little_held() -> Result<()> {
    const LITTLE_BYTES: u64 = 4_000_000;
    until("others hold little", SOON, held_bytes, |held| *held < LITTLE_BYTES)?;
    Ok(())
}

/// Lets a connection wait for as long as it takes.
pub fn patient(connection: Connection) -> Result<Connection> {
    connection.near.set_write_timeout(None)?;
    connection.far.set_read_timeout(None)?;
    Ok(connection)
}

/// Sends over a connection for so long; `look` is called meanwhile. All arrives.
pub fn while_sending(
    connection: &Connection,
    pause: Duration,
    span: Duration,
    look: impl FnOnce() -> Result<()>,
) -> Result<u64> {
    let end = Instant::now() + span;
    thread::scope(|scope| {
        let sending = scope.spawn(move || send(&connection.near, pause, end));
        let receiving = scope.spawn(move || receive(&connection.far));
        look()?;
        let sent = sending.join().ok().context("the sender panicked")??;
        let received = receiving.join().ok().context("the receiver panicked")??;
        ensure!(sent == received, "{sent} sent, {received} received");
        Ok(sent)
    })
}

#[e2e(long, few, slow)]
fn buffers_grow_to_what_the_path_needs_and_no_further() -> Result<()> {
    let stand = Stand::set_up("growth")?;
    // Not met by what other tests hold meanwhile.
    let policy = "[limits]\nmax_memory = '1GiB'\n\n".to_owned()
        + &path(7000, PATH, "congestion = 'wad_highspeed'\nallow = 'aggressive'")
        + &path(7001, PATH, "congestion = 'cubic'")
        + &path(7002, PATH, "congestion = 'wad_aimd'")
        + &path(7003, PATH, "congestion = 'cubic'");
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let wan = wan(PATH)?;
    let open = |port| patient(Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?);
    for port in [7000, 7001] {
        let connection = open(port)?;
        let (sends, receives) = sizes(&wan, &connection)?;
        ensure!(sends <= KERNEL_BYTES && receives <= KERNEL_BYTES, "{sends}, {receives}");
        let span = Duration::from_secs(8);
        let bytes = while_sending(&connection, Duration::ZERO, span, || {
            let begun = Instant::now();
            let grown = |seen: &(u64, u64)| *seen == (MOST_BYTES, MOST_BYTES);
            until("both have grown", SOON, || sizes(&wan, &connection), grown)?;
            println!("port {port}: both have grown after {:?}", begun.elapsed());
            Ok(())
        })?;
        let mbit = bytes as f64 * 8.0 / 1e6 / span.as_secs_f64();
        println!("port {port}: {mbit:.0} Mbit/s");
        ensure!(mbit > 70.0, "{mbit} Mbit/s");
    }
    // An application that sends little, and one that reads nothing, need no more than the
    // kernel gives.
    for port in [7002, 7003] {
        let connection = open(port)?;
        let span = Duration::from_secs(5);
        while_sending(&connection, Duration::from_millis(200), span, || {
            thread::sleep(span / 5 * 4);
            let (sends, receives) = sizes(&wan, &connection)?;
            ensure!(sends <= KERNEL_BYTES && receives <= KERNEL_BYTES, "{sends}, {receives}");
            Ok(())
        })?;
        let unread = open(port)?;
        unread.near.set_nonblocking(true)?;
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            let _ = (&unread.near).write(&[0; 65_536]);
            thread::sleep(Duration::from_millis(1));
        }
        let (_, receives) = sizes(&wan, &unread)?;
        ensure!(receives <= KERNEL_BYTES, "unread: {receives}");
    }
    Ok(())
}

/// As one that has sent its request, and says that it sends no more.
#[e2e(long, few)]
fn a_half_closed_receiver_gets_what_the_path_needs() -> Result<()> {
    let stand = Stand::set_up("half-closed")?;
    let policy = "[limits]\nmax_memory = '1GiB'\n\n".to_owned()
        + &path(7000, PATH, "congestion = 'wad_aimd'");
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let wan = wan(PATH)?;
    let connection = patient(Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], 7000))?)?;
    connection.far.shutdown(Shutdown::Write)?;
    while_sending(&connection, Duration::ZERO, Duration::from_secs(8), || {
        let rcvbuf = || -> Result<u64> {
            Ok(tcp::option(&connection.far, libc::SOL_SOCKET, libc::SO_RCVBUF)?)
        };
        until("it has grown", SOON, rcvbuf, |bytes| *bytes == MOST_BYTES)?;
        Ok(())
    })?;
    Ok(())
}

/// Connects; the application chooses a congestion control before that, or after it.
fn open_with_own_law(wan: &Wan, port: u16, is_before: bool) -> Result<Connection> {
    let own = OsString::from("reno");
    let to = at(ADDRESSES_V4[1], port);
    let listener = tcp::listen(wan.b(), to)?;
    let near = wan.a().run(|| -> Result<TcpStream> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket: OwnedFd = socket::socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
        if is_before {
            setsockopt(&socket, TcpCongestion, &own)?;
        }
        socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
        if !is_before {
            setsockopt(&socket, TcpCongestion, &own)?;
        }
        Ok(socket.into())
    })??;
    patient(Connection::accepted(&listener, near)?)
}

/// A law of wad's has its flow's send buffer grow by itself; an application's own has not.
#[e2e(long, few)]
fn buffers_grow_under_a_law_that_the_application_chose() -> Result<()> {
    let stand = Stand::set_up("own-law")?;
    let home = Home::create(&program()?, &path(7000, PATH, "congestion = 'wad_aimd'"))?;
    let _agent = home.start(stand.cgroup())?;
    let wan = wan(PATH)?;
    for is_before in [true, false] {
        let connection = open_with_own_law(&wan, 7000, is_before)?;
        while_sending(&connection, Duration::ZERO, Duration::from_secs(6), || {
            let size = || -> Result<u64> {
                let flow = connection.near_flow(wan.a())?;
                ensure!(flow.congestion == "reno", "{flow:?}");
                Ok(flow.sndbuf_bytes)
            };
            until("it has grown", Duration::from_secs(5), size, |bytes| *bytes == MOST_BYTES)?;
            Ok(())
        })?;
    }
    Ok(())
}

/// Returns what the kernel says that TCP holds.
pub fn held_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/net/sockstat")?;
    let pages = text.lines().find_map(|line| line.strip_prefix("TCP:")?.split(" mem ").nth(1));
    let pages: u64 = pages.context("no `mem`")?.trim().parse()?;
    Ok(pages * 4_096)
}

#[e2e(long, alone)]
fn near_the_bound_growth_stops_and_beyond_it_the_largest_shrink() -> Result<()> {
    const FLOWS: usize = 8;
    const LONG_PATH: (u32, u32) = (200, 400);
    // A tenth of each is more than the kernel's count may be wrong by, a MiB for each
    // processor (SK_MEMORY_PCPU_RESERVE).
    const LIMIT_BYTES: u64 = 48_000_000;
    const LESS_BYTES: u64 = 24_000_000;
    let stand = Stand::set_up("bound")?;
    let policy = |bytes: u64| {
        let path = path(7000, LONG_PATH, "congestion = 'cubic'");
        format!("[limits]\nmax_memory = {bytes}\n\n{path}")
    };
    let home = Home::create(&program()?, &policy(LIMIT_BYTES))?;
    let _agent = home.start(stand.cgroup())?;
    // Eight would hold 200 MB to send.
    let wan = wan(LONG_PATH)?;
    let mut connections = Vec::new();
    for _ in 0..FLOWS {
        let to = at(ADDRESSES_V4[1], 7000);
        connections.push(patient(Connection::open(wan.a(), wan.b(), to)?)?);
    }
    let end = Instant::now() + Duration::from_secs(20);
    let before = held_bytes()?;
    thread::scope(|scope| -> Result<()> {
        let flows: Vec<_> = connections
            .iter()
            .map(|connection| {
                let sending = scope.spawn(move || send(&connection.near, Duration::ZERO, end));
                (sending, scope.spawn(move || receive(&connection.far)))
            })
            .collect();
        // The agent looks once a second: what is beyond the bound at one look is given back by
        // the next.
        let most_of = |seconds: u32| -> Result<u64> {
            let (mut most, mut before) = (0, 0);
            for _ in 0..seconds {
                thread::sleep(Duration::from_secs(1));
                let held = held_bytes()?;
                println!("{held} bytes are held");
                most = most.max(held.min(before));
                before = held;
            }
            Ok(most)
        };
        let most = most_of(8)?;
        ensure!(most > before + LIMIT_BYTES / 4, "{before} before, {most} at most");
        ensure!(most * 10 <= LIMIT_BYTES * 11, "{most} bytes are held; {}", home.log());
        // Less than they hold: the largest shrink.
        home.reload(&policy(LESS_BYTES))?;
        let fits = |held: &u64| *held * 10 <= LESS_BYTES * 11;
        until("it fits", Duration::from_secs(5), held_bytes, fits)?;
        let most = most_of(5)?;
        ensure!(most * 10 <= LESS_BYTES * 11, "{most} bytes are held; {}", home.log());
        for (sending, receiving) in flows {
            let sent = sending.join().ok().context("a sender panicked")??;
            let received = receiving.join().ok().context("a receiver panicked")??;
            ensure!(sent == received && sent > 0, "{sent} sent, {received} received");
        }
        Ok(())
    })?;
    let metrics = home.metrics()?;
    ensure!(metrics.value("wad_memory_near_limit_seconds_total", &[])? > 0.0, "{}", metrics.text());
    ensure!(metrics.value("wad_memory_over_limit_seconds_total", &[])? > 0.0, "{}", metrics.text());
    ensure!(metrics.value("wad_memory_limit_bytes", &[])? == LESS_BYTES as f64);
    let log = home.log();
    let said = |path: &str| log.lines().filter(|line| is_bound_met(line, path)).count();
    ensure!(said("to-7000") == 1 && said("of-7000") <= 1, "said otherwise: {log}");
    Ok(())
}

/// Whether a line of the log says that the bound is met, and names this path.
fn is_bound_met(line: &str, path: &str) -> bool {
    line.contains("[limits] max_memory allows") && line.contains(path)
}

/// Writes until no connection takes any more. How many bytes each took.
pub fn fill(connections: &[Connection]) -> Result<Vec<usize>> {
    const QUIET: Duration = Duration::from_secs(2);
    let mut taken = vec![0; connections.len()];
    let mut last = Instant::now();
    while last.elapsed() < QUIET {
        for (connection, taken) in connections.iter().zip(&mut taken) {
            connection.near.set_nonblocking(true)?;
            while let Ok(count) = (&connection.near).write(&[7; 65_536]) {
                *taken += count;
                last = Instant::now();
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(taken)
}

/// Reads all that was sent over connections, of all at the same time.
pub fn drain(connections: &[Connection], sent: &[usize]) -> Result<()> {
    thread::scope(|scope| {
        let each = connections.iter().zip(sent);
        let reading: Vec<_> =
            each.map(|(connection, bytes)| scope.spawn(|| drain_one(connection, *bytes))).collect();
        reading.into_iter().try_for_each(|it| it.join().ok().context("a reader panicked")?)
    })
}

fn drain_one(connection: &Connection, bytes: usize) -> Result<()> {
    let mut block = vec![0; bytes];
    connection.far.set_read_timeout(Some(SOON))?;
    (&connection.far).read_exact(&mut block)?;
    ensure!(block.iter().all(|byte| *byte == 7), "not what was sent");
    Ok(())
}

/// Data that is never read stays where it is: others have to get theirs beside it.
#[e2e(long, alone)]
fn a_path_whose_receivers_never_read_leaves_others_their_buffers() -> Result<()> {
    const RECEIVERS: usize = 64;
    // Of two paths, which both have their part.
    const UNREAD: [u16; 2] = [7002, 7003];
    let stand = Stand::set_up("unread")?;
    let paths = path(7000, PATH, "congestion = 'wad_highspeed'\nallow = 'aggressive'")
        + &path(7001, PATH, "congestion = 'cubic'")
        + &path(UNREAD[0], PATH, "congestion = 'cubic'")
        + &path(UNREAD[1], PATH, "congestion = 'cubic'");
    let home = Home::create(&program()?, &paths)?;
    let _agent = home.start(stand.cgroup())?;
    let wan = wan(PATH)?;
    await_little_held()?;
    let open = |port| patient(Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port))?);
    let unread = (0..RECEIVERS).map(|n| open(UNREAD[n % 2])).collect::<Result<Vec<_>>>()?;
    let sent = fill(&unread)?;

    // They hold nine tenths of what may be held.
    let limit_bytes = held_bytes()? / 9 * 10;
    println!("{} bytes are not read, of {limit_bytes}", sent.iter().sum::<usize>());
    home.reload(&format!("[limits]\nmax_memory = {limit_bytes}\n\n{paths}"))?;
    let said = |log: &str, path: &str| log.lines().filter(|line| is_bound_met(line, path)).count();
    let of_unread = |log: &str| UNREAD.map(|port| said(log, &format!("to-{port}")));
    let are_named = |log: &String| of_unread(log) == [1, 1];
    until("both paths are named", SOON, || anyhow::Ok(home.log()), are_named)?;
    for port in [7000, 7001] {
        let connection = open(port)?;
        let span = Duration::from_secs(8);
        let mut most = 0;
        let bytes = while_sending(&connection, Duration::ZERO, span, || {
            let look = || -> Result<(u64, u64)> {
                most = most.max(held_bytes()?);
                sizes(&wan, &connection)
            };
            let grown = |seen: &(u64, u64)| *seen == (MOST_BYTES, MOST_BYTES);
            until("both have grown", span / 8 * 7, look, grown)?;
            Ok(())
        })?;
        let mbit = bytes as f64 * 8.0 / 1e6 / span.as_secs_f64();
        println!("port {port}: {mbit:.0} Mbit/s, {most} bytes are held");
        ensure!(mbit > 50.0, "{mbit} Mbit/s; {}", home.log());
        ensure!(most * 10 <= limit_bytes * 11, "{most} bytes are held of {limit_bytes}");
    }
    let log = home.log();
    let of_others = ["-7000", "-7001"].map(|path| said(&log, path));
    ensure!(of_others == [0, 0], "another path is named: {log}");
    ensure!(of_unread(&log) == [1, 1], "a path is named again: {log}");
    // Nothing is lost of theirs, either.
    drain(&unread, &sent)
}
