//! `instruments` measures what it takes to read all instruments of ten thousand flows
//! in four network namespaces; and whether every connection is told of when twenty
//! thousand a second come and go.
//!
//! `read_seconds` is what the agent says that a reading took (Server-Timing), from
//! the kernel's iterator to the finished numbers, without making JSON of them.
//! `cpu_share` is of an agent that reads them each second on its own account, for a
//! derived event with a threshold. Its memory is taken after answers with all flows.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use wad_testbed::{
    cgroup::Cgroup,
    metrics::Metrics,
    netns::Netns,
    process::{Place, Process},
    say, tcp,
    wad::{Agent, Home},
};

use super::{Outcome, Report, Target, connect, proc};

const NAMESPACES: usize = 4;
const ADDRESS: &str = "10.200.0.1";
const PORT: u16 = 5002;
const READS: usize = 15;
const WATCH: Duration = Duration::from_secs(15);
const SPAN: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_secs(60);

/// One end only of each connection is a flow of the path's. Who wants events has all of
/// them sent.
const POLICY: &str = "[[path]]\nname = 'bench'\nremote = '10.200.0.1'\nremote_port = 5002\n\
                      congestion = 'wad_aimd'\n\
                      [[sink]]\nname = 'bench'\nkind = 'stdout'\n";
/// Has every flow read each second, and compared with the second before.
const WATCHED: &str = "[[derived]]\nname = 'CurBW'\n\
                       value = '8 * rate(HCThruOctetsAcked)'\nabove = 1e12\nmetric = true\n";

/// Tells how much of everything a benchmark makes.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub flows: usize,
    pub connections_per_second: u32,
}

impl Default for Load {
    fn default() -> Self {
        Self { flows: 10_000, connections_per_second: 20_000 }
    }
}

struct Bench {
    me: PathBuf,
    load: Load,
    cgroup: Cgroup,
    namespaces: Vec<Netns>,
    home: Home,
}

/// Runs the benchmark.
///
/// # Errors
/// Without root, or where a step fails.
pub fn run(me: &Path, wad: &Path, load: Load) -> Result<Report> {
    let bench = Bench {
        me: me.to_owned(),
        load,
        cgroup: Cgroup::create("bench")?,
        namespaces: (0..NAMESPACES).map(|_| Netns::create("bench")).collect::<Result<_, _>>()?,
        home: Home::create(wad, POLICY)?,
    };
    bench.namespaces.iter().try_for_each(prepare)?;
    let mut results = bench.readings()?;
    results.extend(bench.events()?);
    Ok(Report { bench: "instruments", results })
}

impl Bench {
    fn readings(&self) -> Result<Vec<Outcome>> {
        let flows = self.load.flows;
        let agent = self.home.start(&self.cgroup)?;
        let holders = hold(&self.me, &self.namespaces, &self.cgroup, flows)?;
        let mut reads = Vec::new();
        for n in 0..=READS {
            let (seconds, answer) = self.ask("/v1/flows")?;
            let seen = answer.matches("\"cookie\":").count();
            ensure!(seen == flows, "{seen} flows are seen, not {flows}");
            // The first one loads the kernel side.
            if n > 0 {
                reads.push(seconds);
            }
        }
        let memory = proc::resident_bytes(agent.id())? as f64;
        say(&format!("instruments: watching {flows} flows for {} s", WATCH.as_secs()));
        let share = self.watching_share(&agent)?;
        drop(holders);
        agent.stop()?;
        let outcome = |name, unit, most, samples| {
            Outcome::new(format!("{name}/{flows}"), unit, Target::AtMost(most), samples)
        };
        Ok(vec![
            outcome("read_seconds", "s", 0.05, reads),
            outcome("cpu_share", "ratio", 0.03, vec![share]),
            outcome("rss_bytes", "bytes", 100e6, vec![memory]),
        ])
    }

    /// Returns the part of a processor that the agent takes while it looks at them each
    /// second.
    fn watching_share(&self, agent: &Agent<'_>) -> Result<f64> {
        self.home.reload(&format!("{POLICY}{WATCHED}"))?;
        // The first look loads what reads them.
        thread::sleep(Duration::from_secs(3));
        let (begun, before) = (Instant::now(), proc::processor_seconds(agent.id())?);
        thread::sleep(WATCH);
        let seconds = proc::processor_seconds(agent.id())? - before;
        let share = seconds / begun.elapsed().as_secs_f64();
        // A rate has a value only if there was an earlier look.
        self.home.metrics()?.value("wad_path_derived", &["name=\"CurBW\""])?;
        Ok(share)
    }

    /// Returns the time that a reading took, and the answer.
    fn ask(&self, path: &str) -> Result<(f64, String)> {
        let socket = format!("/run/wad/{}.sock", self.home.instance());
        let mut stream = UnixStream::connect(socket)?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: wad\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
        ensure!(head.starts_with("HTTP/1.0 200"), "{head}\n{body}");
        let took = head.lines().find_map(|line| line.strip_prefix("server-timing: read;dur="));
        let ms: f64 = took.context("no time of reading")?.parse()?;
        Ok((ms / 1e3, body.to_owned()))
    }

    /// Connections that come and go, against what the agent has heard of them.
    fn events(&self) -> Result<Vec<Outcome>> {
        let rate = self.load.connections_per_second;
        let agent = self.home.start(&self.cgroup)?;
        let before = Events::counted(&self.home.metrics()?)?;
        let begun = Instant::now();
        let mut pairs = Vec::new();
        for netns in &self.namespaces {
            let place = Place { netns: Some(netns), cgroup: Some(&self.cgroup) };
            let mut server = Command::new(&self.me);
            server.args(["accept", &to().to_string()]);
            let server = place.spawn(server)?;
            // A connection that is refused is matched, too.
            tcp::await_listener(netns, PORT)?;
            let mut client = Command::new(&self.me);
            let pace = rate / NAMESPACES as u32;
            client.args(["come-and-go", &to().to_string(), &pace.to_string()]);
            client.stdout(Stdio::piped());
            pairs.push((place.spawn(client)?, server));
        }
        let mut opened = 0.0;
        for (client, _) in &mut pairs {
            let status = client.wait(SOON, || ())?;
            ensure!(status.success(), "the client ended with {status}");
            let mut count = String::new();
            let out = client.child().stdout.as_mut().context("no standard output")?;
            out.read_to_string(&mut count)?;
            opened +=
                count.trim().parse::<f64>().with_context(|| format!("no count: {count:?}"))?;
        }
        let reached = opened / begun.elapsed().as_secs_f64();
        say(&format!("instruments: {reached:.0} connections a second came and went"));
        // The last closed ones are told of when the agent comes to them.
        thread::sleep(Duration::from_secs(2));
        let after = Events::counted(&self.home.metrics()?)?;
        agent.stop()?;
        let lost = after.lost - before.lost;
        // One when it is established, one when it is closed.
        let uncounted = 2.0 * opened - (after.seen - before.seen) - lost;
        let none = |name, value| {
            Outcome::new(format!("{name}/{rate}"), "events", Target::AtMost(0.0), vec![value])
        };
        Ok(vec![none("events_lost", lost), none("events_uncounted", uncounted)])
    }
}

/// Gives a network namespace the address that connections are made to.
pub(super) fn prepare(netns: &Netns) -> Result<()> {
    netns.ip(&["link", "set", "lo", "up"])?;
    netns.ip(&["address", "add", &format!("{ADDRESS}/32"), "dev", "lo"])?;
    Ok(())
}

/// Starts processes that hold so many connections in all, about as many in each namespace.
pub(super) fn hold(
    me: &Path,
    namespaces: &[Netns],
    cgroup: &Cgroup,
    flows: usize,
) -> Result<Vec<Process>> {
    let mut holders = Vec::new();
    for (place, netns) in namespaces.iter().enumerate() {
        let count = flows / namespaces.len() + usize::from(place < flows % namespaces.len());
        let mut command = Command::new(me);
        command.args(["hold-open", &count.to_string(), &to().to_string()]);
        command.stdout(Stdio::piped());
        let place = Place { netns: Some(netns), cgroup: Some(cgroup) };
        let mut holder = place.spawn(command)?;
        let mut ready = [0];
        let out = holder.child().stdout.as_mut().context("no standard output")?;
        out.read_exact(&mut ready).context("the connections could not be made")?;
        holders.push(holder);
    }
    Ok(holders)
}

fn to() -> SocketAddr {
    SocketAddr::new(ADDRESS.parse().expect("an address"), PORT)
}

/// The events of all flows since the agent's start.
struct Events {
    seen: f64,
    lost: f64,
}

impl Events {
    fn counted(metrics: &Metrics) -> Result<Self> {
        let seen = |event| metrics.value("wad_events_total", &[&format!("event=\"{event}\"")]);
        let lost = metrics.value("wad_events_lost_total", &[])?;
        Ok(Self { seen: seen("open")? + seen("closed")?, lost })
    }
}

/// Makes so many connections to itself at each address, and holds them until it is killed. A
/// byte on standard output says that they are there.
///
/// # Errors
/// When a connection fails.
pub fn hold_open(count: usize, addresses: &[SocketAddr]) -> Result<()> {
    let all = count * addresses.len();
    let files = all as u64 * 2 + 100;
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, files, most.max(files))?;
    let mut connections = Vec::with_capacity(all);
    for on in addresses {
        let listener = TcpListener::bind(on)?;
        for _ in 0..count {
            let mut near = TcpStream::connect(on)?;
            let (mut far, _) = listener.accept()?;
            // So that there are numbers to be read.
            near.write_all(&[0; 2000])?;
            far.read_exact(&mut [0; 2000])?;
            connections.push((near, far));
        }
    }
    let mut out = io::stdout();
    out.write_all(b"\n")?;
    out.flush()?;
    loop {
        thread::park();
    }
}

/// Connects and closes so many times a second for a while; how many there were.
///
/// # Errors
/// When a connection fails.
pub fn come_and_go(to: SocketAddr, per_second: u32) -> io::Result<u64> {
    let mut count = 0;
    let begun = Instant::now();
    while begun.elapsed() < SPAN {
        let due = (begun.elapsed().as_secs_f64() * f64::from(per_second)) as u64;
        if count > due {
            thread::sleep(Duration::from_micros(500));
        } else {
            connect::once(to)?;
            count += 1;
        }
    }
    Ok(count)
}
