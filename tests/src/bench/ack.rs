//! `ack`: what an ACK costs under each law.
//!
//! Over veth at MTU 1500 with segment offloads off, so that there are as many
//! ACKs as a real network would bring. All arms of the comparison have the agent
//! running and the same buffers; only the algorithm differs.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use super::{Outcome, Report, Target, proc, programs};
use crate::{
    cgroup::Cgroup,
    cli,
    ends::{self, Ends},
    lab::bulk::{Amount, Received, Sent},
    process::{Place, run_command},
    say,
    sysctl::Changed,
    tcp,
    wad::Home,
};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(4);
/// Processor time is noisier: more of them, and shorter, so that what each law is
/// compared with ran just before or after it.
const PAIRS: usize = 21;
const PAIR: Duration = Duration::from_secs(2);
const SERVER: &str = "10.99.0.2:5001";
const DEVICE: &str = "v0";

/// A law under test.
struct Law {
    name: &'static str,
    /// The program that every ACK runs, outside of recovery at least.
    per_ack: &'static str,
    /// Lines of its policy.
    policy: &'static str,
    most_ns_per_ack: f64,
}

const LAWS: [Law; 6] = [
    Law {
        name: "wad_aimd",
        per_ack: "aimd_cong_avoid",
        policy: "congestion = 'wad_aimd'",
        most_ns_per_ack: 100.0,
    },
    Law {
        name: "wad_highspeed",
        per_ack: "highspeed_cong_avoid",
        policy: "congestion = 'wad_highspeed'\nallow = 'aggressive'",
        most_ns_per_ack: 100.0,
    },
    Law {
        name: "wad_scalable",
        per_ack: "scalable_cong_avoid",
        policy: "congestion = 'wad_scalable'\nallow = 'aggressive'",
        most_ns_per_ack: 100.0,
    },
    Law {
        name: "wad_dedicated",
        per_ack: "dedicated_cong_control",
        policy: "dedicated = '20Gbit'\nrtt = '200us'\nallow = 'aggressive'",
        most_ns_per_ack: 100.0,
    },
    Law {
        name: "wad_leaky",
        per_ack: "leaky_cong_control",
        policy: "loss = 'leaky'\nallow = 'aggressive'",
        most_ns_per_ack: 200.0,
    },
    Law {
        name: "wad_delay",
        per_ack: "delay_cong_control",
        policy: "congestion = 'wad_delay'",
        most_ns_per_ack: 200.0,
    },
];

/// What an operator would pick without wad.
const BESIDE: &str = "congestion = 'cubic'";

struct Bench {
    me: PathBuf,
    wad: PathBuf,
    cgroup: Cgroup,
    ends: Ends,
}

/// Runs it.
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
        for (netns, address) in self.ends.both().into_iter().zip(["10.99.0.1/24", "10.99.0.2/24"]) {
            ends::add_address(netns, DEVICE, address)?;
            let mut ethtool = Command::new("ip");
            ethtool.args(["netns", "exec", netns.name(), "ethtool", "-K", DEVICE]);
            ethtool.args(["tso", "off", "gso", "off", "gro", "off"]);
            run_command(&mut ethtool)?;
        }
        Ok(())
    }

    fn run_times(&self) -> Result<Vec<Outcome>> {
        let _statistics = Changed::to("kernel.bpf_stats_enabled", "1")?;
        let mut samples = LAWS.map(|_| Vec::new());
        for round in 1..=ROUNDS {
            say(&format!("ack: run time, round {round} of {ROUNDS}"));
            for (law, samples) in LAWS.iter().zip(&mut samples) {
                samples.push(self.run_time_ns(law)?);
            }
        }
        let outcomes = LAWS.iter().zip(samples).map(|(law, samples)| {
            let name = format!("ns_per_ack/{}", law.name);
            Outcome::new(name, "ns", Target::AtMost(law.most_ns_per_ack), samples)
        });
        Ok(outcomes.collect())
    }

    /// BPF run time per ACK, over all callbacks.
    fn run_time_ns(&self, law: &Law) -> Result<f64> {
        let home = Home::create(&self.wad, &policy(law.policy))?;
        let agent = home.start(&self.cgroup)?;
        self.transfer(ROUND)?;
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
        agent.stop()?;
        Ok(time_ns as f64 / acks as f64)
    }

    fn processor_times(&self) -> Result<Vec<Outcome>> {
        let mut samples = LAWS.map(|_| Vec::new());
        for pair in 1..=PAIRS {
            say(&format!("ack: processor time, pair {pair} of {PAIRS}"));
            for (law, samples) in LAWS.iter().zip(&mut samples) {
                // Now the one first, now the other.
                let (ours, beside);
                if pair % 2 == 0 {
                    ours = self.cost(law.policy)?;
                    beside = self.cost(BESIDE)?;
                } else {
                    beside = self.cost(BESIDE)?;
                    ours = self.cost(law.policy)?;
                }
                samples.push(ours / beside);
            }
        }
        let outcomes = LAWS.iter().zip(samples).map(|(law, samples)| {
            let name = format!("cpu_per_gigabyte_ratio/{}", law.name);
            Outcome::new(name, "ratio", Target::AtMost(1.03), samples)
        });
        Ok(outcomes.collect())
    }

    /// Processor time of the whole machine for a byte, in ticks.
    fn cost(&self, lines: &str) -> Result<f64> {
        let home = Home::create(&self.wad, &policy(lines))?;
        let agent = home.start(&self.cgroup)?;
        let before = proc::busy_ticks()?;
        let bytes = self.transfer(PAIR)?;
        let ticks = proc::busy_ticks()? - before;
        agent.stop()?;
        Ok(ticks as f64 / bytes as f64)
    }

    fn transfer(&self, time: Duration) -> Result<u64> {
        let address: SocketAddr = SERVER.parse().context("the server's address")?;
        let place = |netns| Place { netns: Some(netns), cgroup: Some(&self.cgroup) };
        let mut receive = cli::receiver(&self.me, address, 1);
        receive.stdout(Stdio::piped());
        let mut receiver = place(&self.ends.b).spawn(receive)?;
        tcp::await_listener(&self.ends.b, address.port())?;
        let mut send = cli::sender(&self.me, address, 1, Amount::Time(time));
        place(&self.ends.a).apply(&mut send);
        let sent: Sent = serde_json::from_str(&run_command(&mut send)?)?;
        let output = receiver.child().stdout.take().context("the receiver's output")?;
        let received: Received = serde_json::from_reader(output)?;
        ensure!(
            sent.bytes == received.bytes,
            "{} bytes sent, {} received",
            sent.bytes,
            received.bytes
        );
        Ok(sent.bytes)
    }
}

fn policy(lines: &str) -> String {
    format!(
        "[[path]]\nname = \"bench\"\nremote = \"10.99.0.0/24\"\n{lines}\n\
         sndbuf = \"1MiB\"\nrcvbuf = \"1MiB\"\n"
    )
}
