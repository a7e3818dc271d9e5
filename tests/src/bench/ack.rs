//! `ack`: what an ACK costs under `wad_aimd`.
//!
//! Over veth at MTU 1500 with segment offloads off, so that there are as many
//! ACKs as a real network would bring. Both arms of the comparison have the
//! agent running and the same buffers; only the algorithm differs.

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
    lab::bulk::{Received, Sent},
    netns::Netns,
    process::{Place, run_command},
    say,
    sysctl::Changed,
    wad::Home,
};

const PAIRS: usize = 9;
const TRANSFER: Duration = Duration::from_secs(4);
const SERVER: &str = "10.99.0.2:5001";

struct Bench {
    me: PathBuf,
    wad: PathBuf,
    cgroup: Cgroup,
    client: Netns,
    server: Netns,
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
        client: Netns::create("client")?,
        server: Netns::create("server")?,
    };
    bench.link()?;
    let mut results = vec![bench.run_time()?];
    results.push(bench.cpu_per_gigabyte()?);
    Ok(Report { bench: "ack", results })
}

impl Bench {
    fn link(&self) -> Result<()> {
        let (client, server) = (self.client.name(), self.server.name());
        crate::process::run(
            "ip",
            &[
                "link", "add", "v0", "netns", client, "type", "veth", "peer", "name", "v0",
                "netns", server,
            ],
        )?;
        for (netns, address) in [(&self.client, "10.99.0.1/24"), (&self.server, "10.99.0.2/24")] {
            netns.ip(&["address", "add", address, "dev", "v0"])?;
            netns.ip(&["link", "set", "v0", "up"])?;
            netns.ip(&["link", "set", "lo", "up"])?;
            let mut ethtool = Command::new("ip");
            ethtool.args(["netns", "exec", netns.name(), "ethtool", "-K", "v0"]);
            ethtool.args(["tso", "off", "gso", "off", "gro", "off"]);
            run_command(&mut ethtool)?;
        }
        Ok(())
    }

    /// BPF run time per ACK, over all callbacks. Every ACK calls `cong_avoid`,
    /// so its runs count them.
    fn run_time(&self) -> Result<Outcome> {
        let home = Home::create(&self.wad, &policy("wad_aimd"))?;
        let _statistics = Changed::to("kernel.bpf_stats_enabled", "1")?;
        let mut samples = Vec::new();
        for n in 1..=PAIRS {
            say(&format!("ack: run time {n} of {PAIRS}"));
            let agent = home.start(&self.cgroup)?;
            self.transfer()?;
            let callbacks: Vec<_> = programs::programs()?
                .into_iter()
                .filter(|program| program.kind == "struct_ops")
                .collect();
            let acks: u64 = callbacks
                .iter()
                .filter(|program| program.name.as_deref() == Some("aimd_cong_avoid"))
                .map(|program| program.run_cnt)
                .sum();
            ensure!(acks > 0, "no ACK was seen under wad_aimd");
            let time_ns: u64 = callbacks.iter().map(|program| program.run_time_ns).sum();
            samples.push(time_ns as f64 / acks as f64);
            agent.stop()?;
        }
        Ok(Outcome::new("ns_per_ack/wad_aimd", "ns", Target::AtMost(100.0), samples))
    }

    fn cpu_per_gigabyte(&self) -> Result<Outcome> {
        let reno = Home::create(&self.wad, &policy("reno"))?;
        let aimd = Home::create(&self.wad, &policy("wad_aimd"))?;
        let mut samples = Vec::new();
        for n in 1..=PAIRS {
            say(&format!("ack: processor time, pair {n} of {PAIRS}"));
            let ours = self.cost(&aimd)?;
            samples.push(ours / self.cost(&reno)?);
        }
        let name = "cpu_per_gigabyte_ratio/wad_aimd";
        Ok(Outcome::new(name, "ratio", Target::AtMost(1.03), samples))
    }

    /// Processor time of the whole machine for a byte, in ticks.
    fn cost(&self, home: &Home) -> Result<f64> {
        let agent = home.start(&self.cgroup)?;
        let before = proc::busy_ticks()?;
        let bytes = self.transfer()?;
        let ticks = proc::busy_ticks()? - before;
        agent.stop()?;
        Ok(ticks as f64 / bytes as f64)
    }

    fn transfer(&self) -> Result<u64> {
        let address: SocketAddr = SERVER.parse().context("the server's address")?;
        let place = |netns| Place { netns: Some(netns), cgroup: Some(&self.cgroup) };
        let mut receive = Command::new(&self.me);
        receive.arg("receive").arg(address.to_string()).stdout(Stdio::piped());
        let mut receiver = place(&self.server).spawn(receive)?;
        let mut send = Command::new(&self.me);
        send.arg("send").arg(address.to_string()).arg(TRANSFER.as_secs().to_string());
        place(&self.client).apply(&mut send);
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

fn policy(congestion: &str) -> String {
    format!(
        "[[path]]\nname = \"bench\"\nremote = \"10.99.0.0/24\"\ncongestion = \"{congestion}\"\n\
         sndbuf = \"1MiB\"\nrcvbuf = \"1MiB\"\n"
    )
}
