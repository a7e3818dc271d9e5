//! `connect` measures what a connection costs with so many paths loaded, against no
//! agent at all; the agent's memory; and how soon it tunes.

use std::{
    fmt::Write as _,
    io::{self, Read as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use wad_testbed::{
    cgroup::Cgroup,
    netns::Netns,
    process::{Place, Process, run_command},
    say,
    wad::Home,
};

use super::{Outcome, Report, Target, proc, programs};

const PAIRS: usize = 9;
const SPAN: Duration = Duration::from_millis(1500);
/// By then an agent has been through the flows that ran when it started, which is no
/// connection's cost.
const SETTLED: Duration = Duration::from_secs(1);
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
    for paths in [0, 1, 1_000, 100_000] {
        let name = format!("rate_ratio/{paths}");
        results.push(bench.rate_ratio(name, paths, UNMATCHED, 0.97)?);
    }
    let name = "rate_ratio_matched/100000".to_owned();
    results.push(bench.rate_ratio(name, 100_000, MATCHED, 0.90)?);
    results.extend(bench.memory()?);
    results.push(bench.start()?);
    Ok(Report { bench: "connect", results })
}

impl Bench {
    fn rate_ratio(&self, name: String, paths: u32, to: &str, least: f64) -> Result<Outcome> {
        let home = Home::create(&self.wad, &policy(paths))?;
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
        Ok(Outcome::new(name, "ratio", Target::AtLeast(least), samples))
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
            let mut command = home.command("run");
            command.arg("--cgroup").arg(self.cgroup.path());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let begun = Instant::now();
            let mut agent = Place::default().spawn(command)?;
            let mut first = Command::new(&self.me);
            first.args(["first-tuned", MATCHED]);
            self.place().apply(&mut first);
            run_command(&mut first)?;
            samples.push(begun.elapsed().as_secs_f64());
            agent.signal(nix::sys::signal::Signal::SIGTERM);
            let status = agent.wait(Duration::from_secs(10), || ())?;
            ensure!(status.success(), "wad run ended with {status}");
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

/// Makes a policy of so many paths to single hosts, with settings of every kind; the
/// last is the matched address.
pub(super) fn policy(paths: u32) -> String {
    let mut text = String::new();
    for n in (0..paths).rev() {
        let host = u32::from(std::net::Ipv4Addr::new(10, 200, 0, 1)) + n;
        write!(
            text,
            "[[path]]\nname = \"p{n}\"\nremote = \"{}\"\ncongestion = \"wad_aimd\"\n\
             sndbuf = \"1MiB\"\nrcvbuf = \"1MiB\"\ninitial_window = 10\n",
            std::net::Ipv4Addr::from(host)
        )
        .expect("writing to a string");
    }
    text
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
