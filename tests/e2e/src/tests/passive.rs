//! The paths here are measured by nobody but their own flows: each transfer gets more
//! than the one before, until the path limits it; what holds a flow back beside the
//! path lowers nothing; and other paths stay as they were.

use std::{
    io::{self, Read as _, Write as _},
    net::Shutdown,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_lab::bulk::{self, Amount};
use wad_testbed::{
    emulated::{
        path::Path,
        wan::{ADDRESSES_V4, ADDRESSES_V6, Wan},
    },
    settings, signal,
    stand::{Stand, until},
    sysctl::{self, Changed},
    tcp::{self, Connection, at},
    wad::{Home, program},
};

pub const PORT: u16 = 7000;
pub const LIMIT: Duration = Duration::from_secs(20);

/// The buffers are as small beside this path as Debian's are beside one of 1 Gb/s:
/// about 60 Mb/s.
const TCP_RMEM: (&str, &str) = ("net.ipv4.tcp_rmem", "4096 131072 1572864");
const TCP_WMEM: (&str, &str) = ("net.ipv4.tcp_wmem", "4096 16384 1048576");

/// Holds what the kernel gives by itself, there and where the agent is.
struct Kernel {
    _changed: [Changed; 2],
}

impl Kernel {
    fn set() -> Result<Self> {
        let changed = [TCP_RMEM, TCP_WMEM].map(|(name, value)| Changed::to(name, value));
        let [rmem, wmem] = changed;
        Ok(Self { _changed: [rmem?, wmem?] })
    }
}

pub fn wan(mbit: u32) -> Result<Wan> {
    let text = format!("rtt = '100ms'\nforward = {{ rate = '{mbit}Mbit', queue.bdp = 1.0 }}");
    let path: Path = toml::from_str(&text)?;
    let wan = Wan::start(&path)?;
    settings::apply(&wan)?;
    for netns in [wan.a(), wan.b()] {
        for (name, value) in [TCP_RMEM, TCP_WMEM] {
            netns.run(|| sysctl::set(name, value))??;
        }
    }
    Ok(wan)
}

/// Makes a configuration of two paths, of which none is known; flows that run are
/// looked at that often.
fn home(interval: &str) -> Result<Home> {
    let path = |name, remote: [&str; 2]| {
        format!(
            "[[path]]\nname = '{name}'\nremote = ['{}', '{}']\nmode = 'measured'\n\
             sndbuf = 'auto'\nrcvbuf = 'auto'\n\n",
            remote[0], remote[1]
        )
    };
    let policy = format!(
        "[limits]\nchange_interval = '1s'\nmax_memory = '1GiB'\n\n\
         [[source]]\nname = 'flows'\nkind = 'passive'\ninterval = '{interval}'\n\n{}{}",
        path("used", ADDRESSES_V4),
        path("unused", ADDRESSES_V6)
    );
    Ok(Home::create(&program()?, &policy)?)
}

/// Sends for so long, from one end to the other: Mbit/s.
pub fn transfer(wan: &Wan, seconds: u64) -> Result<f64> {
    let span = Duration::from_secs(seconds);
    let to = at(ADDRESSES_V4[1], PORT);
    let bytes = thread::scope(|scope| -> Result<u64> {
        let receiver = scope.spawn(|| wan.b().run(|| bulk::receive(to, 1)));
        tcp::await_listener(wan.b(), PORT)?;
        wan.a().run(|| bulk::send(to, 1, Amount::Time(span)))??;
        Ok(receiver.join().ok().context("the receiver panicked")???.bytes)
    })?;
    Ok(bytes as f64 * 8.0 / 1e6 / span.as_secs_f64())
}

pub fn paths(home: &Home) -> Result<Value> {
    let output = home.command("paths").arg("--json").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Returns what is known of the used path's bandwidth, Mbit/s; 0 for nothing.
pub fn known_mbit(home: &Home) -> Result<f64> {
    let known = &paths(home)?["paths"][0]["measured"]["bandwidth_bits_per_second"];
    Ok(known["value"].as_f64().unwrap_or(0.0) / 1e6)
}

/// Returns what the buffers of a path's connections may come to beyond what the kernel
/// gives: (send, receive), as the kernel keeps them; 0 for no more.
pub fn buffers(home: &Home, path: usize) -> Result<(u64, u64)> {
    let policy = &paths(home)?["paths"][path]["policy"];
    let of = |name: &str| 2 * policy[name].as_u64().unwrap_or(0);
    Ok((of("sndbuf_bytes"), of("rcvbuf_bytes")))
}

#[e2e(long, alone)]
fn each_transfer_gets_more_until_the_path_limits_it() -> Result<()> {
    const SECONDS: u64 = 6;
    let stand = Stand::set_up("passive")?;
    let _kernel = Kernel::set()?;
    let wan = wan(200)?;
    // Only ends count: no transfer is changed while it runs.
    let home = home("1h")?;
    let agent = home.start(stand.cgroup())?;
    let [used, other] = [0, 1];
    ensure!(buffers(&home, used)? == (0, 0) && buffers(&home, other)? == (0, 0));

    let mut mbit = Vec::new();
    for _ in 0..3 {
        let got = transfer(&wan, SECONDS)?;
        mbit.push(got);
        let look = || known_mbit(&home);
        let seen = until("its end is seen", LIMIT, look, |seen| *seen > 0.9 * got)?;
        // For the policy to be in force.
        signal::sleep(Duration::from_secs(2))?;
        println!("{got:.0} Mbit/s, then known: {seen:.0}");
    }
    let [first, _, third] = mbit[..] else { unreachable!() };
    ensure!(third >= 2.0 * first, "{mbit:?}; {}", home.log());
    ensure!(third >= 0.75 * 0.95 * 200.0, "{mbit:?}");

    let paths = paths(&home)?;
    let [known, unknown] = [0, 1].map(|n| &paths["paths"][n]["measured"]);
    ensure!(known["bandwidth_bits_per_second"]["source"] == "flows", "{paths}");
    ensure!(known["bandwidth_bits_per_second"]["age_seconds"].as_f64().is_some(), "{paths}");
    let rtt = known["rtt_seconds"]["value"].as_f64().unwrap_or(0.0);
    ensure!((0.1..0.11).contains(&rtt), "{paths}");
    ensure!(unknown["policy_is_for"]["bits_per_second"].is_null(), "{paths}");
    // Twice what is known, which the kernel doubles.
    let sndbuf = buffers(&home, used)?.0 as f64;
    let bdp = known_mbit(&home)? * 1e6 / 8.0 * rtt;
    ensure!((3.5..4.5).contains(&(sndbuf / bdp)), "{sndbuf} for {bdp}");
    ensure!(buffers(&home, other)? == (0, 0), "another path's buffers have changed");
    ensure!(home.metrics()?.value("wad_source_polls_total", &["source=\"flows\""])? > 0.0);

    let explained = home.command("explain").arg(ADDRESSES_V4[1]).output()?;
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    ensure!(explained.contains("times what the path's flows got"), "{explained}");

    // It outlives the agent.
    agent.stop()?;
    let agent = home.start(stand.cgroup())?;
    ensure!(buffers(&home, used)?.0 as f64 == sndbuf, "{}", home.log());
    agent.stop()?;
    Ok(())
}

/// Tells who holds a connection back.
#[derive(Clone, Copy)]
enum Slow {
    Sender,
    Receiver,
}

/// Sends slowly, or has it taken slowly: some 3 Mbit/s.
fn held_back(connection: &Connection, by: Slow, until: Instant) -> io::Result<()> {
    const PART_BYTES: usize = 20_000;
    const PAUSE: Duration = Duration::from_millis(50);
    let (mut near, mut far) = (&connection.near, &connection.far);
    thread::scope(|scope| {
        let taking = scope.spawn(move || -> io::Result<()> {
            let mut part = vec![0; PART_BYTES];
            while far.read(&mut part)? > 0 {
                if matches!(by, Slow::Receiver) && Instant::now() < until {
                    thread::sleep(PAUSE);
                }
            }
            Ok(())
        });
        while Instant::now() < until {
            near.write_all(&[0; PART_BYTES])?;
            if matches!(by, Slow::Sender) {
                thread::sleep(PAUSE);
            }
        }
        near.shutdown(Shutdown::Write)?;
        taking.join().map_err(|_| io::Error::other("a thread panicked"))?
    })
}

#[e2e(long, few, slow)]
fn what_holds_a_flow_back_beside_the_path_lowers_nothing() -> Result<()> {
    // Longer than the window in which the best counts: ten looks.
    const WINDOW: Duration = Duration::from_secs(14);
    let stand = Stand::apart("held-back")?;
    let _kernel = Kernel::set()?;
    let home = home("1s")?;
    let agent = home.start(stand.cgroup())?;
    let fast = wan(200)?;
    for _ in 0..2 {
        transfer(&fast, 6)?;
    }
    let best = known_mbit(&home)?;
    println!("known of 200 Mbit/s: {best:.0}");
    ensure!(best > 0.75 * 0.95 * 200.0, "{best}; {}", home.log());

    let connect = |port| Connection::open(fast.a(), fast.b(), at(ADDRESSES_V4[1], port));
    let connections = [(connect(PORT + 2)?, Slow::Sender), (connect(PORT + 3)?, Slow::Receiver)];
    let end = Instant::now() + WINDOW;
    thread::scope(|scope| -> Result<()> {
        let slow = connections
            .each_ref()
            .map(|(connection, by)| scope.spawn(move || held_back(connection, *by, end)));
        for one in slow {
            one.join().ok().context("a thread panicked")??;
        }
        Ok(())
    })?;
    signal::sleep(Duration::from_secs(2))?;
    let after = known_mbit(&home)?;
    println!("after flows that were held back: {after:.0}");
    ensure!(after >= best, "{best} Mbit/s became {after}");

    // But a path that has become slower is seen. What fits it and its queue is less
    // than the window that the receiver offers at least: half of what `tcp_rmem` says,
    // above which a larger buffer need not help (`__tcp_grow_window()`).
    drop(connections);
    drop(fast);
    let slow = wan(20)?;
    let mut now = best;
    // On a busy machine the flow's own host may hold it back in some of the looks.
    for _ in 0..3 {
        transfer(&slow, 2 + WINDOW.as_secs())?;
        now = known_mbit(&home)?;
        println!("known of 20 Mbit/s: {now:.0}");
        if now < best {
            break;
        }
    }
    ensure!((14.0..26.0).contains(&now), "{now} Mbit/s; {}", home.log());
    agent.stop()?;
    Ok(())
}
