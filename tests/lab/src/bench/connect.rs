//! `connect` measures what a connection costs with so many paths loaded, against no
//! agent at all; the agent's memory; and how soon it tunes.

use std::{
    fs,
    io::{self, Read as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use wad_testbed::{
    cgroup::Cgroup,
    netns::Netns,
    process::{Place, Process, run_command},
    say,
    wad::Home,
};

use super::{Outcome, Report, Target, first_tuned, proc, programs};

const PAIRS: usize = 9;
const SPAN: Duration = Duration::from_millis(1500);
/// By then an agent has been through the flows that ran when it started, which is no
/// connection's cost.
const SETTLED: Duration = Duration::from_secs(1);
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// No path matches this address; one matches the next.
const UNMATCHED: &str = "127.0.0.1:5002";
const MATCHED: &str = "10.200.0.1:5002";

struct Bench {
    me: PathBuf,
    wad: PathBuf,
    cgroup: Cgroup,
    netns: Netns,
}

/// Runs the benchmark.
///
/// # Errors
/// Without root, or where a step fails.
pub fn run(me: &Path, wad: &Path) -> Result<Report> {
    let bench = Bench {
        me: me.to_owned(),
        wad: wad.to_owned(),
        cgroup: Cgroup::create("bench")?,
        netns: Netns::create("bench")?,
    };
    bench.netns.ip(&["link", "set", "lo", "up"])?;
    bench.netns.ip(&["address", "add", "10.200.0.1/32", "dev", "lo"])?;
    let mut results = Vec::new();
    let mut ratios = |name: &str, policy: &str, to, least| -> Result<()> {
        results.push(bench.rate_ratio(name, policy, to, least)?);
        Ok(())
    };
    for paths in [0, 1, 1_000, 100_000] {
        ratios(&format!("rate_ratio/{paths}"), &policy(paths), UNMATCHED, 0.97)?;
    }
    ratios("rate_ratio_matched/100000", &policy(100_000), MATCHED, 0.90)?;
    let folder = tempfile::tempdir()?;
    let set = set_of(100_000, &folder.path().join("prefixes"))?;
    ratios("rate_ratio/set_of_100000", &set, UNMATCHED, 0.97)?;
    ratios("rate_ratio_matched/set_of_100000", &set, MATCHED, 0.90)?;
    ratios("rate_ratio/ranges_1000", &ranges(1_000), UNMATCHED, 0.97)?;
    ratios("rate_ratio_matched/ranges_1000", &ranges(1_000), MATCHED, 0.90)?;
    ratios("rate_ratio_matched/experiments_16", &experiments(16), MATCHED, 0.90)?;
    results.extend(bench.memory()?);
    results.push(bench.start()?);
    Ok(Report { bench: "connect", results })
}

impl Bench {
    fn rate_ratio(&self, name: &str, policy: &str, to: &str, least: f64) -> Result<Outcome> {
        let home = Home::create(&self.wad, policy)?;
        let _server = self.server(to)?;
        self.connections(to)?;
        let mut samples = Vec::new();
        for n in 1..=PAIRS {
            say(&format!("connect: {name}, pair {n} of {PAIRS}"));
            let without = self.connections(to)?;
            let agent = home.start(&self.cgroup)?;
            thread::sleep(SETTLED);
            let with = self.connections(to)?;
            agent.stop()?;
            samples.push(with / without);
        }
        Ok(Outcome::new(name.to_owned(), "ratio", Target::AtLeast(least), samples))
    }

    /// Returns the agent's memory, alone and with its maps'.
    fn memory(&self) -> Result<[Outcome; 2]> {
        const MEBIBYTE: f64 = 1_048_576.0;
        let home = Home::create(&self.wad, &policy(100_000))?;
        let before = programs::map_ids()?;
        let agent = home.start(&self.cgroup)?;
        let process = proc::resident_bytes(agent.id())? as f64;
        let maps = programs::memory_bytes_of_others(&before)? as f64;
        agent.stop()?;
        let outcome = |name, most, bytes| {
            Outcome::new(name, "bytes", Target::AtMost(most * MEBIBYTE), vec![bytes])
        };
        Ok([
            outcome("memory_bytes/100000", 128.0, process + maps),
            outcome("process_bytes/100000", 64.0, process),
        ])
    }

    /// Measures the time from the start of the process to the first flow that is tuned.
    fn start(&self) -> Result<Outcome> {
        let home = Home::create(&self.wad, &policy(1_000))?;
        let _server = self.server(MATCHED)?;
        let mut samples = Vec::new();
        for n in 1..=PAIRS {
            say(&format!("connect: start {n} of {PAIRS}"));
            let to = (&self.place(), MATCHED);
            samples.push(first_tuned::seconds(&self.me, &home, &self.cgroup, to, ENDS_WITHIN)?);
        }
        Ok(Outcome::new("start_seconds/1000", "s", Target::AtMost(1.0), samples))
    }

    fn place(&self) -> Place<'_> {
        Place { netns: Some(&self.netns), cgroup: Some(&self.cgroup) }
    }

    fn server(&self, on: &str) -> Result<Process> {
        let mut command = Command::new(&self.me);
        command.args(["accept", on]);
        Ok(self.place().spawn(command)?)
    }

    /// Connections per second.
    fn connections(&self, to: &str) -> Result<f64> {
        let mut command = Command::new(&self.me);
        command.args(["connect-to", to]);
        self.place().apply(&mut command);
        let output = run_command(&mut command)?;
        output.trim().parse().with_context(|| format!("not a rate: {output:?}"))
    }
}

/// Settings of every kind.
const SETTINGS: &str = "congestion = \"wad_aimd\"\nsndbuf = \"1MiB\"\nrcvbuf = \"1MiB\"\n\
                        initial_window = 10\n";

/// Returns a single host: of 0 it is the matched address.
fn host(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 200, 0, 1)) + n)
}

/// Makes a policy of so many paths to single hosts; the last is the matched address.
pub(super) fn policy(paths: u32) -> String {
    let path = |n| format!("[[path]]\nname = \"p{n}\"\nremote = \"{}\"\n{SETTINGS}", host(n));
    (0..paths).rev().map(path).collect()
}

/// Makes a policy of one path for a list of so many hosts, the matched address among them.
fn set_of(hosts: u32, file: &Path) -> Result<String> {
    let list: String = (0..hosts).map(|n| format!("{}\n", host(n))).collect();
    fs::write(file, list)?;
    Ok(format!(
        "[[set]]\nname = \"s\"\nfile = \"{}\"\n[[path]]\nname = \"p\"\nremote_set = \"s\"\n{SETTINGS}",
        file.display()
    ))
}

/// Makes a policy of so many paths with ranges of ports. The matched address has as many of
/// them as one address may have, of which the last fits.
fn ranges(paths: u32) -> String {
    const OF_ONE: u32 = 16;
    let path = |n: u32| {
        let (host, fits) = if n < OF_ONE { (host(0), n + 1 == OF_ONE) } else { (host(n), true) };
        let (first, last) = if fits { (5_000, 6_000 + n) } else { (50_000 + n, 50_500) };
        format!(
            "[[path]]\nname = \"p{n}\"\nremote = \"{host}\"\n\
             remote_port = \"{first}-{last}\"\n{SETTINGS}"
        )
    };
    (0..paths).map(path).collect()
}

/// Makes a policy of so many paths with an experiment each, whose blocks are as short as they may
/// be. The last is the matched address.
fn experiments(paths: u32) -> String {
    let experiment =
        "[path.experiment]\nblock = \"2s\"\nflow_life = \"50ms\"\nburn_in = \"500ms\"\n";
    let path =
        |n| format!("[[path]]\nname = \"p{n}\"\nremote = \"{}\"\n{SETTINGS}{experiment}", host(n));
    (0..paths).rev().map(path).collect()
}

/// Is the client, which connects and closes for a while; returns connections per
/// second.
///
/// # Errors
/// When a connection fails.
pub fn connect(to: SocketAddr) -> io::Result<f64> {
    // The server may be just starting.
    let begun = Instant::now();
    while TcpStream::connect(to).is_err() && begun.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(10));
    }
    let begun = Instant::now();
    let mut count = 0_u32;
    while begun.elapsed() < SPAN {
        once(to)?;
        count += 1;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

/// Connects, and closes.
///
/// # Errors
/// When nobody answers.
pub fn once(to: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(to)?;
    // Until the server closes: else its queue of connections not yet accepted fills
    // up, and SYNs are dropped.
    stream.read_to_end(&mut Vec::new())?;
    // Closed by a reset: no port waits in TIME_WAIT.
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    Ok(setsockopt(&stream, sockopt::Linger, &linger)?)
}

/// Is the server, which accepts and closes, until killed.
///
/// # Errors
/// When it cannot listen.
pub fn accept(on: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(on)?;
    loop {
        // A connection may be reset before it is accepted.
        drop(listener.accept());
    }
}

/// Connects until a connection comes out under an algorithm of wad's.
///
/// # Errors
/// When that takes longer than ten seconds.
pub fn first_tuned(to: SocketAddr) -> io::Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        if let Ok(stream) = TcpStream::connect(to) {
            let name = getsockopt(&stream, sockopt::TcpCongestion);
            if name.is_ok_and(|name| name.as_bytes().starts_with(b"wad_")) {
                return Ok(());
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "no flow was tuned within 10 s"))
}
