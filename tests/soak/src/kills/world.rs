//! An agent is killed in a world of its own: two joined network namespaces, a cgroup, a home, and a
//! transfer that goes on from before the agent's start until it has been cleaned up after.

use std::{
    cell::{Cell, RefCell},
    fs,
    os::unix::{ffi::OsStrExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::{
    signal::Signal,
    socket::{getsockopt, sockopt},
};
use tempfile::TempDir;
use wad_testbed::{
    another_build,
    cgroup::{Cgroup, Joined},
    mutex::locked,
    process::Place,
    signal, sysctl,
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, DEVICE, Wire},
    wad::Home,
};

use super::inventory::Inventory;
use crate::traced::{Ended, Kill, Objects, Traced};

/// A step of an agent takes no longer, on a machine however busy.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(10);
/// The transfer's bytes in each direction, and the pause after them: it is to be there, not to
/// take a processor.
const ROUND_BYTES: usize = 20_000;
const PAUSE: Duration = Duration::from_millis(100);
/// Nothing of it stalls for so long: a retransmission timeout or two.
const STALL: Duration = Duration::from_secs(5);
const TRANSFER: u16 = 7001;
const NEWCOMERS: u16 = 7000;

/// Tells which build of the agent is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    This,
    Other,
}

/// The builds of the agent: the one that is given, and another that is made of it.
pub struct Builds {
    this: PathBuf,
    folder: TempDir,
}

impl Builds {
    /// # Errors
    /// When `wad` is no agent with BPF programs, or the other cannot be written.
    pub fn of(wad: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        another_build::make(wad, &folder.path().join("other"))?;
        fs::write(folder.path().join("prefixes"), "10.81.7.0/24\n10.81.8.0/24\n")?;
        Ok(Self { this: wad.to_owned(), folder })
    }

    /// Returns the program of a build.
    #[must_use]
    pub fn program(&self, build: Build) -> PathBuf {
        match build {
            Build::This => self.this.clone(),
            Build::Other => self.folder.path().join("other"),
        }
    }

    /// Returns a command as it is run by a build.
    #[must_use]
    pub fn command(&self, build: Build, command: &Command) -> Command {
        let mut of_build = Command::new(self.program(build));
        of_build.args(command.get_args());
        of_build
    }
}

/// All of it, gone when dropped.
pub struct World<'a> {
    // Dropped in this order.
    transfer: RefCell<Option<Transfer>>,
    longest_stall: Cell<Duration>,
    pub home: Home,
    objects: Objects,
    wire: Wire,
    _joined: Joined,
    cgroup: Cgroup,
    builds: &'a Builds,
}

impl<'a> World<'a> {
    pub fn start(builds: &'a Builds) -> Result<Self> {
        let cgroup = Cgroup::create("kills")?;
        let joined = Joined::to(&cgroup)?;
        let wire = Wire::under_settings_of_host()?;
        // Those of the host, which they would have, may change meanwhile.
        let sizes = [("tcp_rmem", "4096 131072 6291456"), ("tcp_wmem", "4096 16384 4194304")];
        for netns in [wire.a(), wire.b()] {
            netns.run(|| {
                let set = |(name, value)| sysctl::set(&format!("net.ipv4.{name}"), value);
                sizes.into_iter().try_for_each(set)
            })??;
        }
        // Addresses of their own come late, and with them routes.
        for netns in [wire.a(), wire.b()] {
            netns.ip(&["link", "set", DEVICE, "addrgenmode", "none"])?;
            netns.ip(&["-6", "address", "flush", "dev", DEVICE, "scope", "link"])?;
        }
        let home = Home::create(&builds.this, "")?;
        Ok(Self {
            transfer: RefCell::default(),
            longest_stall: Cell::default(),
            home,
            objects: Objects::default(),
            wire,
            _joined: joined,
            cgroup,
            builds,
        })
    }

    /// Writes the first policy or the second. They need settings, rules, routes, a queue, options
    /// that are overridden, and a law; the second changes each of these. What a guard has learnt
    /// stays when the agent is stopped.
    pub fn write_policy(&self, second: bool) -> Result<()> {
        let set = self.builds.folder.path().join("prefixes");
        let (queue, rate, rest) = if second {
            let law = "[[path]]\nname = 'q'\nremote = '10.81.9.0/24'\ncongestion = 'wad_binomial'";
            (9000, "50Mbit", law)
        } else {
            (5000, "100Mbit", "override_setsockopt = true\n")
        };
        let acks = if second { "" } else { "delayed_ack = false\n" };
        let policy = format!(
            "[limits]\nmax_memory = '1GiB'\n[guard]\npaths = 'none'\n\
             [host]\nroutes = true\ntransmit_queue_length = {{ wire0 = {queue} }}\n\
             [[set]]\nname = 's'\nfile = '{}'\n\
             [[path]]\nname = 'far'\nremote_set = 's'\nbandwidth = '{rate}'\nrtt = '200ms'\n\
             buffers = 'autotune'\nreorder = 19\n{acks}\
             [[path]]\nname = 'p'\nremote = '{}'\nsndbuf = '100000'\ncongestion = 'wad_aimd'\n\
             {rest}\n",
            set.display(),
            ADDRESSES_V4[1],
        );
        Ok(self.home.write_policy(&policy)?)
    }

    /// Forgets what agents have left on the disk.
    pub fn forget_state(&self) -> Result<()> {
        let state = self.home.state();
        if state.exists() { Ok(fs::remove_dir_all(state)?) } else { Ok(()) }
    }

    fn trace(&self, mut command: Command, counts: bool, kill: Option<Kill>) -> Result<Traced> {
        let log = fs::File::options().create(true).append(true).open(self.home.log_path())?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Place { netns: Some(self.wire.a()), cgroup: None }.apply(&mut command);
        Traced::start(command, counts, kill, &self.objects)
    }

    /// Starts an agent, whose calls count from the first one if they are to.
    pub fn agent(
        &self,
        build: Build,
        arguments: &[&str],
        counts: bool,
        kill: Option<Kill>,
    ) -> Result<Traced> {
        self.home.expect_agent();
        let mut command = self.builds.command(build, &self.home.run_on(&self.cgroup));
        command.args(arguments);
        self.trace(command, counts, kill)
    }

    /// Starts an agent that nobody kills, and waits until it is ready.
    pub fn ready_agent(&self, build: Build, arguments: &[&str]) -> Result<Traced> {
        let agent = self.agent(build, arguments, false, None)?;
        ensure!(self.is_ready(&agent)?, "an agent ended at its start: {}", self.log());
        Ok(agent)
    }

    /// Runs `wad cleanup`, which is to succeed unless it is killed.
    pub fn cleanup(&self, counts: bool, kill: Option<Kill>) -> Result<Traced> {
        let cleanup = self.trace(self.home.command("cleanup"), counts, kill)?;
        let ended = self.end_of(&cleanup)?;
        let is_well = ended.is_success || ended.killed_at.is_some();
        ensure!(is_well, "`wad cleanup` failed: {}", self.log());
        Ok(cleanup)
    }

    /// Returns the last lines of the log.
    pub fn log(&self) -> String {
        let log = self.home.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(6)..].join("\n")
    }

    /// Waits until the agent is the one that answers, or has ended; says whether it is ready.
    pub fn is_ready(&self, agent: &Traced) -> Result<bool> {
        let socket = Path::new("/run/wad").join(format!("{}.sock", self.home.instance()));
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if agent.ended().is_some() {
                return Ok(false);
            }
            if UnixStream::connect(&socket).is_ok()
                && self.home.agent_that_answers()? == Some(agent.id())
            {
                return Ok(true);
            }
            signal::sleep(STEP)?;
        }
        bail!("an agent is not ready: {}", self.log())
    }

    pub fn end_of(&self, process: &Traced) -> Result<Ended> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(ended) = process.ended() {
                return Ok(ended);
            }
            signal::sleep(STEP)?;
        }
        bail!("a process does not end: {}", self.log())
    }

    /// Kills what runs.
    pub fn kill(&self, process: &Traced) -> Result<()> {
        process.signal(Signal::SIGKILL);
        self.end_of(process).map(drop)
    }

    /// Stops an agent by SIGTERM, which is to end with 0.
    pub fn stop(&self, agent: &Traced) -> Result<()> {
        agent.signal(Signal::SIGTERM);
        let ended = self.end_of(agent)?;
        ensure!(ended.is_success, "an agent did not stop cleanly: {}", self.log());
        Ok(())
    }

    pub fn inventory(&self) -> Result<Inventory> {
        let ends = [self.wire.a(), self.wire.b()];
        Inventory::take(ends, self.cgroup.path(), &self.home, &self.objects)
    }

    /// Returns the inventory once nothing changes any more.
    pub fn settled(&self) -> Result<Inventory> {
        const QUIET: Duration = Duration::from_secs(4);
        let (mut last, mut since) = (self.inventory()?, Instant::now());
        while since.elapsed() < QUIET {
            signal::sleep(QUIET / 8)?;
            let now = self.inventory()?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(last)
    }

    /// Waits until the inventory is as it is to be: what the kernel frees goes a little later, and
    /// so does a policy set that is no more in force.
    pub fn await_inventory(
        &self,
        what: &str,
        difference: impl Fn(&Inventory) -> super::inventory::Difference,
    ) -> Result<()> {
        const LIMIT: Duration = Duration::from_secs(20);
        const PAUSE: Duration = Duration::from_millis(600);
        let begun = Instant::now();
        loop {
            let difference = difference(&self.inventory()?);
            if difference.is_none() {
                return Ok(());
            }
            let log = self.log();
            ensure!(begun.elapsed() < LIMIT, "{what}, the host differs:{difference}\n{log}");
            signal::sleep(PAUSE)?;
        }
    }

    /// Makes a connection and has it carry something; says whether it is tuned.
    pub fn newcomer(&self) -> Result<bool> {
        let listener = tcp::listen(self.wire.b(), at(ADDRESSES_V4[1], NEWCOMERS))?;
        let near = tcp::connect(self.wire.a(), listener.local_addr()?)?;
        let connection = Connection::accepted(&listener, near)?;
        connection.exchange(10_000)?;
        let law = getsockopt(&connection.near, sockopt::TcpCongestion)?;
        // No port waits in TIME_WAIT.
        tcp::reset(connection.near)?;
        Ok(law.as_bytes().starts_with(b"wad_aimd"))
    }

    /// Begins a transfer.
    pub fn begin_transfer(&self) -> Result<()> {
        // One that a failure has left first.
        drop(self.transfer.take());
        self.transfer.replace(Some(Transfer::start(&self.wire)?));
        Ok(())
    }

    /// Looks that it has gone on all the time, and ends it: a flow keeps the law that it has, and
    /// with that the law's objects.
    pub fn end_transfer(&self) -> Result<()> {
        let Some(transfer) = self.transfer.take() else { return Ok(()) };
        let seen = transfer.look()?;
        ensure!(seen.rounds > 0, "nothing of the transfer has arrived");
        self.longest_stall.set(self.longest_stall.get().max(seen.longest));
        Ok(())
    }

    /// Returns the longest time in which nothing arrived of a transfer.
    pub const fn longest_stall(&self) -> Duration {
        self.longest_stall.get()
    }
}

/// How a transfer got on.
#[derive(Clone, Debug, Default)]
struct Seen {
    rounds: u64,
    longest: Duration,
    broken: Option<String>,
    since: Option<Instant>,
}

/// Bytes to and fro on one connection, each compared, until this is dropped.
struct Transfer {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Transfer {
    fn start(wire: &Wire) -> Result<Self> {
        let to = at(ADDRESSES_V4[1], TRANSFER);
        let connection = Connection::open(wire.a(), wire.b(), to).context("the transfer")?;
        let (seen, stop) =
            (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        let (told, stopped) = (Arc::clone(&seen), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                locked(&told).since = Some(begun);
                let round = connection.exchange(ROUND_BYTES);
                let mut seen = locked(&told);
                seen.since = None;
                seen.longest = seen.longest.max(begun.elapsed());
                seen.rounds += 1;
                if let Err(error) = round {
                    seen.broken = Some(error.to_string());
                    return;
                }
                drop(seen);
                thread::sleep(PAUSE);
            }
        });
        Ok(Self { seen, stop, thread: Some(thread) })
    }

    fn look(&self) -> Result<Seen> {
        let mut seen = locked(&self.seen).clone();
        if let Some(broken) = &seen.broken {
            bail!("the transfer has broken: {broken}");
        }
        let now = seen.since.map_or(Duration::ZERO, |since| since.elapsed());
        seen.longest = seen.longest.max(now);
        ensure!(seen.longest < STALL, "the transfer stalled for {:?}", seen.longest);
        Ok(seen)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
