//! `containers` measures what the agent takes on a host with hundreds of containers, each a
//! network namespace, a cgroup and a process with flows of several paths, beside what it
//! takes on one with none: time until new flows are tuned, and until it is ready, by when
//! those that ran are tuned as well; memory; and processor time in peace.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use wad_testbed::{
    cgroup::Cgroup,
    netns::Netns,
    process::{Place, Process, run_command},
    say,
    stand::until,
    wad::Home,
};

use super::{Outcome, Report, Target, first_tuned, proc, programs};

/// The flows' other ends: one for each path.
const REMOTES: [&str; 3] = ["127.0.0.2:5002", "127.0.0.3:5002", "127.0.0.4:5002"];
const FLOWS_OF_A_PATH: usize = 2;
/// The policy has the agent change something in as many namespaces as it takes: room for
/// buffers, which no option of a socket gives.
const POLICY: &str = "[[path]]\nname = 'backup'\nremote = '127.0.0.2'\ncongestion = 'wad_aimd'\n\
                      sndbuf = '1MiB'\nrcvbuf = '1MiB'\n\
                      [[path]]\nname = 'archive'\nremote = '127.0.0.3'\n\
                      congestion = 'cubic'\nbuffers = 'autotune'\n\
                      bandwidth = '1Gbit'\nrtt = '100ms'\n\
                      [[path]]\nname = 'watched'\nremote = '127.0.0.4'\nmode = 'observe'\n";
/// One container more, which the time to the first flow is taken in.
const FIRST: &str = "127.0.0.2:5003";
const STARTS: usize = 5;
/// By then it has been through all namespaces, and has made what their flows need there.
const SETTLED: Duration = Duration::from_secs(10);
const WATCH: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(30);

/// Tells how many containers there are.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub containers: usize,
}

impl Default for Load {
    fn default() -> Self {
        Self { containers: 500 }
    }
}

/// A container; its parts go in this order.
struct Container {
    _holder: Process,
    _cgroup: Cgroup,
    _netns: Netns,
}

struct Bench {
    me: PathBuf,
    wad: PathBuf,
    cgroup: Cgroup,
    /// Where new flows are looked at.
    netns: Netns,
}

/// Runs the benchmark.
///
/// # Errors
/// Without root, or where a step fails.
pub fn run(me: &Path, wad: &Path, load: Load) -> Result<Report> {
    let bench = Bench {
        me: me.to_owned(),
        wad: wad.to_owned(),
        cgroup: Cgroup::create("bench")?,
        netns: with_loopback()?,
    };
    let mut results = bench.arm(0)?;
    let mut containers = Vec::with_capacity(load.containers);
    for n in 1..=load.containers {
        if n % 100 == 0 {
            say(&format!("containers: {n} of {}", load.containers));
        }
        containers.push(bench.container()?);
    }
    results.extend(bench.arm(containers.len())?);
    drop(containers);
    Ok(Report { bench: "containers", results })
}

fn with_loopback() -> Result<Netns> {
    let netns = Netns::create("bench")?;
    netns.ip(&["link", "set", "lo", "up"])?;
    Ok(netns)
}

impl Bench {
    fn container(&self) -> Result<Container> {
        let (netns, cgroup) = (with_loopback()?, self.cgroup.create_below("container")?);
        let mut command = Command::new(&self.me);
        command.arg("hold-open").arg(FLOWS_OF_A_PATH.to_string()).args(REMOTES);
        command.stdout(Stdio::piped());
        let place = Place { netns: Some(&netns), cgroup: Some(&cgroup) };
        let mut holder = place.spawn(command)?;
        let out = holder.child().stdout.as_mut().context("no standard output")?;
        out.read_exact(&mut [0]).context("the connections could not be made")?;
        Ok(Container { _holder: holder, _cgroup: cgroup, _netns: netns })
    }

    /// Returns the figures of an agent among so many containers.
    fn arm(&self, containers: usize) -> Result<Vec<Outcome>> {
        let home = Home::create(&self.wad, POLICY)?;
        let (mut tuned, mut ready) = (Vec::new(), Vec::new());
        for n in 1..=STARTS {
            say(&format!("containers: start {n} of {STARTS} among {containers}"));
            tuned.push(self.first_tuned(&home)?);
            let begun = Instant::now();
            let agent = home.start(&self.cgroup)?;
            ready.push(begun.elapsed().as_secs_f64());
            agent.stop()?;
        }
        let before = programs::map_ids()?;
        let agent = home.start(&self.cgroup)?;
        let expected = containers * REMOTES.len() * FLOWS_OF_A_PATH;
        let look = || flows(&home);
        until("all flows are under their paths", SOON, look, |seen| *seen == expected)?;
        say(&format!("containers: watching {expected} flows for {} s", WATCH.as_secs()));
        thread::sleep(SETTLED);
        let (begun, used) = (Instant::now(), proc::processor_seconds(agent.id())?);
        thread::sleep(WATCH);
        let share = (proc::processor_seconds(agent.id())? - used) / begun.elapsed().as_secs_f64();
        let resident = proc::resident_bytes(agent.id())? as f64;
        let maps = programs::memory_bytes_of_others(&before)? as f64;
        agent.stop()?;
        let outcome = |name, unit, most, samples| {
            Outcome::new(format!("{name}/{containers}"), unit, Target::AtMost(most), samples)
        };
        Ok(vec![
            outcome("start_seconds", "s", 1.0, tuned),
            outcome("ready_seconds", "s", 3.0, ready),
            outcome("process_bytes", "bytes", 64e6, vec![resident]),
            outcome("memory_bytes", "bytes", 128e6, vec![resident + maps]),
            outcome("cpu_share", "ratio", 0.03, vec![share]),
        ])
    }

    /// Returns the time from the start of the process to the first new flow that is tuned.
    fn first_tuned(&self, home: &Home) -> Result<f64> {
        let place = Place { netns: Some(&self.netns), cgroup: Some(&self.cgroup) };
        let mut server = Command::new(&self.me);
        server.args(["accept", FIRST]);
        let _server = place.spawn(server)?;
        first_tuned::seconds(&self.me, home, &self.cgroup, (&place, FIRST), SOON)
    }
}

/// Returns how many flows of paths the agent has.
fn flows(home: &Home) -> Result<usize> {
    let mut command = home.command("flows");
    Ok(run_command(command.arg("--json"))?.matches("\"cookie\":").count())
}
