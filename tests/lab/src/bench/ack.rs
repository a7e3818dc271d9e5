//! `ack` measures what an ACK costs under each law.
//!
//! Over veth at MTU 1500 with segment offloads off, paced, to a receiver that does
//! not let unread data hold an ACK back: an ACK for a few segments, as a real network
//! would bring; `segments_per_ack` says how many. Unpaced, the sender owns its socket
//! while all of a window goes and comes back, and the kernel makes one ACK of its
//! answers. All arms of the comparison have the agent running, the same buffers and
//! the same rate; only the algorithm differs.
//!
//! Both paths have a guard, and the law's has an experiment, which leaves every other two
//! seconds' connections at the kernel's defaults: those do not count.

use std::{
    io::Read,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use wad_testbed::{
    cgroup::Cgroup,
    ends::{self, Ends},
    process::{Place, run_command},
    say,
    sysctl::Changed,
    tcp,
    wad::Home,
};

use super::{Outcome, Report, Target, clock, proc::Work, programs};
use crate::{
    bulk::{Amount, Sent},
    cli,
};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);
/// Processor time is noisier: more of them, and shorter, so that what each law is
/// compared with ran just before or after it.
const PAIRS: usize = 101;
const PAIR: Duration = Duration::from_millis(250);
/// An experiment begins so long after the agent at the latest: with a pair of its blocks.
const BLOCKS: Duration = Duration::from_secs(4);
/// So many measurements, one after the other, outlast the two blocks at the defaults that may follow
/// each other.
const TRIES: u32 = 40;
/// The sender and the receiver run on these processors: what depends on the scheduler's
/// choice is half of the noise.
const PROCESSORS: [&str; 2] = ["0", "1"];
/// A segment holds Ethernet's payload less headers with timestamps.
const MSS_BYTES: u64 = 1448;
const DEVICE: &str = "v0";
/// Two addresses for each end: a path for the law, and one for what it is compared
/// with.
const ADDRESSES: [[&str; 2]; 2] =
    [["10.99.0.1/24", "10.99.1.1/24"], ["10.99.0.2/24", "10.99.1.2/24"]];
const LAW: &str = "10.99.0.2:5001";
const BESIDE: &str = "10.99.1.2:5001";

/// A law under test.
struct Law {
    name: &'static str,
    /// The program that every ACK runs, outside of recovery at least.
    per_ack: &'static str,
    /// Lines of its policy.
    policy: &'static str,
    most_ns_per_ack: f64,
}

const LAWS: [Law; 7] = [
    Law {
        name: "wad_cubic",
        per_ack: "cubic_cong_avoid",
        policy: "pacing = '3Gbit'\ncongestion = 'wad_cubic'",
        most_ns_per_ack: 100.0,
    },
    Law {
        name: "wad_aimd",
        per_ack: "aimd_cong_avoid",
        policy: "pacing = '3Gbit'\ncongestion = 'wad_aimd'",
        most_ns_per_ack: 50.0,
    },
    Law {
        name: "wad_highspeed",
        per_ack: "highspeed_cong_avoid",
        policy: "pacing = '3Gbit'\ncongestion = 'wad_highspeed'\nallow = 'aggressive'",
        most_ns_per_ack: 50.0,
    },
    Law {
        name: "wad_scalable",
        per_ack: "scalable_cong_avoid",
        policy: "pacing = '3Gbit'\ncongestion = 'wad_scalable'\nallow = 'aggressive'",
        most_ns_per_ack: 50.0,
    },
    Law {
        name: "wad_dedicated",
        per_ack: "dedicated_cong_control",
        policy: "dedicated = '3Gbit'\nrtt = '2ms'\nallow = 'aggressive'",
        most_ns_per_ack: 50.0,
    },
    Law {
        name: "wad_leaky",
        per_ack: "leaky_cong_control",
        policy: "pacing = '3Gbit'\nloss = 'leaky'\nallow = 'aggressive'",
        most_ns_per_ack: 150.0,
    },
    Law {
        name: "wad_delay",
        per_ack: "delay_cong_control",
        policy: "pacing = '3Gbit'\ncongestion = 'wad_delay'",
        most_ns_per_ack: 150.0,
    },
];

/// An operator without wad would pick this.
const CUBIC: &str = "pacing = '3Gbit'\ncongestion = 'cubic'";

struct Bench {
    me: PathBuf,
    wad: PathBuf,
    cgroup: Cgroup,
    ends: Ends,
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
        ends: Ends::create()?,
    };
    bench.link()?;
    let mut results = bench.run_times()?;
    results.extend(bench.processor_times()?);
    Ok(Report { bench: "ack", results })
}

impl Bench {
    fn link(&self) -> Result<()> {
        ends::join(self.ends.both(), DEVICE)?;
        for (netns, addresses) in self.ends.both().into_iter().zip(ADDRESSES) {
            for address in addresses {
                ends::add_address(netns, DEVICE, address)?;
            }
            let mut ethtool = Command::new("ip");
            ethtool.args(["netns", "exec", netns.name(), "ethtool", "-K", DEVICE]);
            ethtool.args(["tso", "off", "gso", "off", "gro", "off"]);
            run_command(&mut ethtool)?;
        }
        Ok(())
    }

    fn run_times(&self) -> Result<Vec<Outcome>> {
        let _statistics = Changed::to("kernel.bpf_stats_enabled", "1")?;
        let (mut clock_samples, mut segments_samples) = (Vec::new(), Vec::new());
        let mut samples = LAWS.map(|_| Vec::new());
        for round in 1..=ROUNDS {
            say(&format!("ack: run time, round {round} of {ROUNDS}"));
            let clock_ns = clock::ns_of_nothing()?;
            clock_samples.push(clock_ns);
            for (law, samples) in LAWS.iter().zip(&mut samples) {
                let (run_time_ns, segments) = self.per_ack(law, clock_ns)?;
                samples.push(run_time_ns);
                segments_samples.push(segments);
            }
        }
        let mut outcomes = vec![
            Outcome::alone("segments_per_ack", "segments", segments_samples),
            Outcome::alone("ns_of_empty_program", "ns", clock_samples),
        ];
        outcomes.extend(LAWS.iter().zip(samples).map(|(law, samples)| {
            let name = format!("ns_per_ack/{}", law.name);
            Outcome::new(name, "ns", Target::AtMost(law.most_ns_per_ack), samples)
        }));
        Ok(outcomes)
    }

    /// Returns the BPF run time per ACK, over all callbacks, and what it acknowledged. Each
    /// run counts without what it takes to count it, which no user's does.
    fn per_ack(&self, law: &Law, clock_ns: f64) -> Result<(f64, f64)> {
        let home = Home::create(&self.wad, &policy(law))?;
        let agent = home.start(&self.cgroup)?;
        thread::sleep(BLOCKS);
        let bytes = tuned(law, || self.transfer(LAW, ROUND).map(|sent| (sent.bytes, sent)))?;
        let callbacks: Vec<_> = programs::programs()?
            .into_iter()
            .filter(|program| program.kind == "struct_ops")
            .collect();
        let acks: u64 = callbacks
            .iter()
            // The kernel keeps 15 characters of a name.
            .filter(|program| program.name.as_deref().is_some_and(|n| law.per_ack.starts_with(n)))
            .map(|program| program.run_cnt)
            .sum();
        ensure!(acks > 0, "no ACK was seen under {}", law.name);
        let time_ns: u64 = callbacks.iter().map(|program| program.run_time_ns).sum();
        let runs: u64 = callbacks.iter().map(|program| program.run_cnt).sum();
        agent.stop()?;
        let time_ns = time_ns as f64 - runs as f64 * clock_ns;
        Ok((time_ns / acks as f64, (bytes / MSS_BYTES) as f64 / acks as f64))
    }

    fn processor_times(&self) -> Result<Vec<Outcome>> {
        LAWS.iter()
            .map(|law| {
                say(&format!("ack: processor time, {}, {PAIRS} pairs", law.name));
                let home = Home::create(&self.wad, &policy(law))?;
                let agent = home.start(&self.cgroup)?;
                thread::sleep(BLOCKS);
                let samples =
                    (0..PAIRS).map(|pair| self.ratio(law, pair)).collect::<Result<_>>()?;
                agent.stop()?;
                let name = format!("cpu_per_gigabyte_ratio/{}", law.name);
                Ok(Outcome::new(name, "ratio", Target::AtMost(1.03), samples))
            })
            .collect()
    }

    /// Returns what the law's path costs beside the other: now the one first, now the
    /// other.
    fn ratio(&self, law: &Law, pair: usize) -> Result<f64> {
        tuned(law, || {
            let is_first = pair.is_multiple_of(2);
            let before = if is_first { None } else { Some(self.cost(BESIDE)?) };
            let (of_law, sent) = self.cost(LAW)?;
            let (beside, _) = before.map_or_else(|| self.cost(BESIDE), Ok)?;
            Ok((of_law / beside, sent))
        })
    }

    /// Returns the processor time of the whole machine for a byte, and what was sent.
    fn cost(&self, to: &str) -> Result<(f64, Sent)> {
        let work = Work::begin()?;
        let sent = self.transfer(to, PAIR)?;
        Ok((work.seconds()? / sent.bytes as f64, sent))
    }

    fn transfer(&self, to: &str, time: Duration) -> Result<Sent> {
        let address: SocketAddr = to.parse().context("the server's address")?;
        let place = |netns| Place { netns: Some(netns), cgroup: Some(&self.cgroup) };
        let mut drain = Command::new(&self.me);
        drain.args(["drain", to]);
        let mut drain = on_processor(PROCESSORS[1], &drain);
        drain.stdout(Stdio::piped());
        let mut receiver = place(&self.ends.b).spawn(drain)?;
        tcp::await_listener(&self.ends.b, address.port())?;
        let send = cli::sender(&self.me, address, 1, Amount::Time(time));
        let mut send = on_processor(PROCESSORS[0], &send);
        place(&self.ends.a).apply(&mut send);
        let sent: Sent = serde_json::from_str(&run_command(&mut send)?)?;
        let mut received = String::new();
        let output = receiver.child().stdout.take().context("the receiver's output")?;
        output.take(64).read_to_string(&mut received)?;
        ensure!(
            received.trim() == sent.bytes.to_string(),
            "{} bytes sent, {received} received",
            sent.bytes
        );
        Ok(sent)
    }
}

fn on_processor(number: &str, command: &Command) -> Command {
    let mut pinned = Command::new("taskset");
    pinned.args(["--cpu-list", number]).arg(command.get_program()).args(command.get_args());
    pinned
}

fn policy(law: &Law) -> String {
    let path = |name, remote, lines| {
        format!(
            "[[path]]\nname = \"{name}\"\nremote = \"{remote}\"\n{lines}\n\
             sndbuf = \"1MiB\"\nrcvbuf = \"1MiB\"\n"
        )
    };
    "[guard]\npaths = \"all\"\n".to_owned()
        + &path("law", "10.99.0.0/24", law.policy)
        + "[path.experiment]\nblock = \"2s\"\nflow_life = \"50ms\"\nends = \"time\"\n"
        + &path("beside", "10.99.1.0/24", CUBIC)
}

/// Measures until what was sent was under the law, not in a block at the defaults.
fn tuned<T>(law: &Law, measure: impl Fn() -> Result<(T, Sent)>) -> Result<T> {
    for _ in 0..TRIES {
        let (measured, sent) = measure()?;
        // The end of an algorithm's name is the instance's.
        if sent.congestion.starts_with(law.name) {
            return Ok(measured);
        }
    }
    bail!("no connection of {TRIES} was under {}", law.name)
}

/// Is the receiving end of one connection; returns how many bytes it brings.
///
/// While less than this is unread, the kernel acknowledges every second segment;
/// else only what makes room in the window (`__tcp_ack_snd_check()`).
///
/// # Errors
/// When the connection fails.
pub fn drain(on: SocketAddr) -> Result<u64> {
    const WAKE_BYTES: i32 = 256 * 1024;
    let (mut stream, _peer) = TcpListener::bind(on)?.accept()?;
    tcp::set_option(&stream, libc::SOL_SOCKET, libc::SO_RCVLOWAT, WAKE_BYTES)?;
    let mut buffer = vec![0; WAKE_BYTES as usize];
    let mut bytes = 0;
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(bytes),
            read => bytes += read as u64,
        }
    }
}
