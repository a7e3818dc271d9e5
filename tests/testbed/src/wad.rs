//! A running agent, `wad run`, stopped when dropped. Its configuration and
//! state are in a temporary folder, its instance is its own.

use std::{
    cell::Cell,
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::{
    beside::{self, Beside},
    cgroup::Cgroup,
    free,
    metrics::{Metrics, MetricsError},
    netns::Netns,
    process::{Place, Process, ProcessError, in_mounts, run_command},
    refusing_kernel::{RefusingKernel, RefusingKernelError},
    signal,
};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// An emulated processor with an old kernel takes long to verify six laws.
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The commands that read a configuration in any case. Most others refuse `--config`, and
/// `explain` asks no agent with it.
const READ_CONFIGURATION: [&str; 3] = ["run", "check", "cleanup"];

/// Tells what went wrong with the agent.
#[derive(Debug, thiserror::Error)]
pub enum WadError {
    #[error("cannot write {path}", path = path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("no wad binary: `cargo build -p wad` makes it, or WAD_BIN names it")]
    NotBuilt { source: io::Error },
    #[error("no algorithm is pinned in {pins}", pins = pins.display())]
    Algorithm { pins: PathBuf, source: io::Error },
    #[error("no free port for the metrics")]
    Port { source: io::Error },
    #[error("wad run ended at once ({status}): {log}")]
    Ended { status: process::ExitStatus, log: String },
    #[error("wad run is not ready after {} s: {log}", START_LIMIT.as_secs())]
    NotReady { log: String },
    #[error("wad run did not stop cleanly ({status}): {log}")]
    Unclean { status: process::ExitStatus, log: String },
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Interrupted(#[from] signal::Interrupted),
    #[error(transparent)]
    RefusingKernel(#[from] RefusingKernelError),
}

/// Folder, instance and metrics port of an agent, which may be started in it
/// more than once, one after the other.
#[derive(Debug)]
pub struct Home {
    program: PathBuf,
    instance: String,
    metrics_port: u16,
    folder: TempDir,
    /// An agent was started and has not taken everything out again.
    in_use: Cell<bool>,
    /// A stop leaves its tuning in the kernel.
    keeps: Cell<bool>,
}

/// Returns the `wad` binary: the one that WAD_BIN names, or that was built into the
/// same folder as this program.
///
/// # Errors
/// When there is none.
pub fn program() -> Result<PathBuf, WadError> {
    if let Some(path) = env::var_os("WAD_BIN") {
        return Ok(path.into());
    }
    // target/PROFILE/deps/THIS
    let own = env::current_exe().map_err(|source| WadError::NotBuilt { source })?;
    let path = own.ancestors().skip(1).map(|folder| folder.join("wad")).find(|path| path.is_file());
    path.ok_or_else(|| WadError::NotBuilt { source: io::ErrorKind::NotFound.into() })
}

impl Home {
    /// Writes the configuration: `policy` is TOML with what the agent's own
    /// folder and port are added to.
    ///
    /// # Errors
    /// When the temporary folder cannot be written.
    pub fn create(program: &Path, policy: &str) -> Result<Self, WadError> {
        let folder = tempfile::tempdir()
            .map_err(|source| WadError::Write { path: env::temp_dir(), source })?;
        let metrics_port = free::port().map_err(|source| WadError::Port { source })?;
        let instance = new_instance();
        let program = program.to_owned();
        let (in_use, keeps) = (Cell::new(false), Cell::new(false));
        let home = Self { program, instance, metrics_port, folder, in_use, keeps };
        home.write_policy(policy)?;
        Ok(home)
    }

    /// Says what a stop is to do, for policies that are written from now on.
    pub fn keep_on_exit(&self, keeps: bool) {
        self.keeps.set(keeps);
    }

    /// Takes another `wad` for what is started from now on.
    pub fn change_program(&mut self, program: &Path) {
        program.clone_into(&mut self.program);
    }

    /// Replaces the policy, for the next start or reload.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_policy(&self, policy: &str) -> Result<(), WadError> {
        self.write_to(self.config(), policy)
    }

    /// Replaces the policy, and has the agent put it in force.
    ///
    /// # Errors
    /// When the file cannot be written, or the agent does not take it.
    pub fn reload(&self, policy: &str) -> Result<(), WadError> {
        self.write_policy(policy)?;
        run_command(&mut self.command("reload"))?;
        Ok(())
    }

    /// Writes the configuration with a policy into any file, as one that is to take the
    /// configuration's place.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_to(&self, path: PathBuf, policy: &str) -> Result<(), WadError> {
        let state = self.state();
        let on_exit = if self.keeps.get() { "on_exit = \"keep\"\n" } else { "" };
        let text = format!(
            "[agent]\nstate_dir = \"{}\"\n{on_exit}\n[metrics]\nlisten = \"127.0.0.1:{}\"\n\n{policy}",
            state.display(),
            self.metrics_port
        );
        fs::write(&path, text).map_err(|source| WadError::Write { path, source })
    }

    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("wad.toml")
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    #[must_use]
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Returns the agent's `state_dir`.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Returns where the agent journals what it changes on the host.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.state().join(format!("journal-{}.jsonl", self.instance))
    }

    /// Returns where the agent's maps, programs and links are pinned.
    #[must_use]
    pub fn pins(&self) -> PathBuf {
        Path::new("/sys/fs/bpf/wad").join(&self.instance)
    }

    /// Returns what `wad_aimd` is registered as: the name of its pin, and a name that
    /// the kernel knows.
    ///
    /// # Errors
    /// When there is none.
    pub fn algorithm(&self) -> Result<String, WadError> {
        self.algorithm_of("wad_aimd")
    }

    /// Returns what a law is registered as.
    ///
    /// # Errors
    /// When no path in force names it.
    pub fn algorithm_of(&self, law: &str) -> Result<String, WadError> {
        let missing = |source| WadError::Algorithm { pins: self.pins(), source };
        for layout in fs::read_dir(self.pins()).map_err(missing)? {
            for pin in fs::read_dir(layout.map_err(missing)?.path()).map_err(missing)? {
                let name = pin.map_err(missing)?.file_name().to_string_lossy().into_owned();
                if name.starts_with(law) {
                    return Ok(name);
                }
            }
        }
        Err(missing(io::ErrorKind::NotFound.into()))
    }

    /// Returns how the names end that laws are registered under.
    #[must_use]
    pub fn suffix(&self) -> String {
        const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let hash = beside::hash(&self.instance) as usize;
        let digit = |n: usize| char::from(DIGITS[n % DIGITS.len()]);
        [digit(hash), digit(hash / DIGITS.len())].iter().collect()
    }

    /// Returns what the agent's metrics say now.
    ///
    /// # Errors
    /// When no agent answers.
    pub fn metrics(&self) -> Result<Metrics, MetricsError> {
        Metrics::read(self.metrics_port)
    }

    #[must_use]
    pub const fn metrics_port(&self) -> u16 {
        self.metrics_port
    }

    /// Returns the command `wad SUBCOMMAND`, of one word or two, on this configuration and instance.
    #[must_use]
    pub fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(subcommand.split(' '));
        if READ_CONFIGURATION.contains(&subcommand) {
            command.arg("--config").arg(self.config());
        }
        command.args(["--instance", &self.instance]);
        command
    }

    /// Expects an agent to be started by other means than [`Home::start`]: what it may
    /// leave in the kernel goes with this.
    pub fn expect_agent(&self) {
        self.in_use.set(true);
    }

    /// Starts the agent on a cgroup and waits until it is ready.
    ///
    /// # Errors
    /// When it ends, or is not ready in time; with its log.
    pub fn start(&self, cgroup: &Cgroup) -> Result<Agent<'_>, WadError> {
        self.start_by(self.run_on(cgroup))
    }

    /// Starts the agent on a cgroup with further arguments, and waits until it is ready.
    ///
    /// # Errors
    /// When it ends, or is not ready in time; with its log.
    pub fn start_with(&self, arguments: &[&str], cgroup: &Cgroup) -> Result<Agent<'_>, WadError> {
        let mut command = self.run_on(cgroup);
        command.args(arguments);
        self.start_by(command)
    }

    /// Starts the agent at a place with these capabilities alone, by their names as
    /// `net_admin`, and waits until it is ready.
    ///
    /// # Errors
    /// When it ends, or is not ready in time; with its log.
    pub fn start_capable(
        &self,
        of: &[&str],
        place: Place<'_>,
        cgroup: &Cgroup,
    ) -> Result<Agent<'_>, WadError> {
        self.start_at(place, capable(of, &self.run_on(cgroup)))
    }

    /// Starts the agent in a mount namespace of its own, which a shell script has
    /// changed.
    ///
    /// # Errors
    /// When it ends, or is not ready in time; with its log.
    pub fn start_in(&self, mounts: &str, cgroup: &Cgroup) -> Result<Agent<'_>, WadError> {
        self.start_by(in_mounts(mounts, &self.run_on(cgroup)))
    }

    /// Starts a command that runs the agent, as [`Home::run_on`] has it, on a kernel that
    /// refuses programs, and waits until it is ready.
    ///
    /// # Errors
    /// When it ends, or is not ready in time; with its log.
    pub fn start_refused(
        &self,
        kernel: &RefusingKernel,
        mut command: Command,
    ) -> Result<Agent<'_>, WadError> {
        kernel.apply(&mut command)?;
        self.start_by(command)
    }

    /// Starts the agent in a network namespace.
    ///
    /// # Errors
    /// When it ends, or is not ready in time; with its log.
    pub fn start_inside(&self, netns: &Netns, cgroup: &Cgroup) -> Result<Agent<'_>, WadError> {
        self.start_at(Place { netns: Some(netns), cgroup: None }, self.run_on(cgroup))
    }

    /// Starts another `wad` at a place, and waits until it is ready.
    ///
    /// # Errors
    /// When it ends, or is not ready in time; with its log.
    pub fn start_program(
        &self,
        program: &Path,
        place: Place<'_>,
        cgroup: &Cgroup,
    ) -> Result<Agent<'_>, WadError> {
        let mut command = Command::new(program);
        command.args(self.run_on(cgroup).get_args());
        self.start_at(place, command)
    }

    /// Starts an agent that takes the place of the one that runs. Its words begin with those
    /// given: the program, and before it what runs that, as `setpriv` does.
    ///
    /// # Errors
    /// When it ends, or has not taken the place in time; with its log.
    pub fn start_in_place(&self, words: &[&str], cgroup: &Cgroup) -> Result<Agent<'_>, WadError> {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(self.run_on(cgroup).get_args()).arg("--take-over");
        let agent = self.start_by(command)?;
        let begun = Instant::now();
        while self.agent_that_answers()? != Some(agent.id()) {
            if begun.elapsed() > START_LIMIT {
                return Err(WadError::NotReady { log: self.log() });
            }
            signal::sleep(Duration::from_millis(20))?;
        }
        Ok(agent)
    }

    /// Returns the number of the process that answers for this instance, if one does.
    ///
    /// # Errors
    /// When a signal comes.
    pub fn agent_that_answers(&self) -> Result<Option<u32>, ProcessError> {
        let mut command = self.command("status");
        let Ok(text) = run_command(command.arg("--json")) else { return Ok(None) };
        let status: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        Ok(status["pid"].as_u64().and_then(|pid| pid.try_into().ok()))
    }

    /// Returns the command that runs the agent on a cgroup.
    #[must_use]
    pub fn run_on(&self, cgroup: &Cgroup) -> Command {
        let mut command = self.command("run");
        command.arg("--cgroup").arg(cgroup.path());
        command
    }

    fn start_by(&self, command: Command) -> Result<Agent<'_>, WadError> {
        self.start_at(Place::default(), command)
    }

    fn start_at(&self, place: Place<'_>, mut command: Command) -> Result<Agent<'_>, WadError> {
        let path = self.log_path();
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(|source| WadError::Write { path: path.clone(), source })?;
        let errors = log.try_clone().map_err(|source| WadError::Write { path, source })?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let process = place.spawn(command)?;
        self.in_use.set(true);
        let mut agent = Agent { process, home: self };
        agent.wait_ready()?;
        Ok(agent)
    }

    /// Returns what the agent has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Returns the file that the agent logs to.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.folder.path().join("wad.log")
    }

    fn is_ready(&self) -> Result<bool, ProcessError> {
        let mut command = self.command("status");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = Place::default().spawn(command)?.wait(START_LIMIT, || ())?;
        Ok(status.success())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if !self.in_use.get() {
            return;
        }
        let output = self.command("cleanup").output();
        if !output.is_ok_and(|output| output.status.success()) {
            crate::say(&format!("`wad cleanup` of instance {} failed", self.instance));
        }
    }
}

/// The capabilities that an agent cannot do without, by their names as setpriv(1) has them.
pub const NEEDED: [&str; 3] = ["bpf", "perfmon", "net_admin"];

/// Returns a command with these capabilities alone, by their names as `net_admin`.
#[must_use]
pub fn capable(of: &[&str], command: &Command) -> Command {
    let bounding: String = of.iter().map(|name| format!(",+{name}")).collect();
    let mut capable = Command::new("setpriv");
    capable.arg(format!("--bounding-set=-all{bounding}")).arg("--inh-caps=-all");
    capable.arg(command.get_program()).args(command.get_args());
    capable
}

/// Returns the name of an instance of this process's own. Beside other tests, its
/// algorithms have names that theirs do not.
fn new_instance() -> String {
    let beside = Beside::this();
    loop {
        let name = format!("t{}-{}", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        if beside.is_none_or(|beside| beside.may_have(&name)) {
            return name;
        }
    }
}

/// A started agent. Dropped, it is asked to stop; if need be, killed. What it
/// leaves in the kernel goes with its home.
pub struct Agent<'a> {
    process: Process,
    home: &'a Home,
}

impl Agent<'_> {
    fn wait_ready(&mut self) -> Result<(), WadError> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.ended()? {
                return Err(WadError::Ended { status, log: self.home.log() });
            }
            if self.home.is_ready()? {
                return Ok(());
            }
            if begun.elapsed() > START_LIMIT {
                return Err(WadError::NotReady { log: self.home.log() });
            }
            signal::sleep(Duration::from_millis(50))?;
        }
    }

    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends any signal, such as SIGHUP or SIGKILL.
    pub fn signal(&mut self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Stops the agent by SIGTERM and waits for its end.
    ///
    /// # Errors
    /// When it does not end in time, or not with status 0.
    pub fn stop(self) -> Result<(), WadError> {
        self.stop_by(Signal::SIGTERM).map(|_took| ())
    }

    /// Stops the agent by a signal; returns how long it took, to the nearest 5 ms.
    ///
    /// # Errors
    /// When it does not end in time, or not with status 0.
    pub fn stop_by(mut self, signal: Signal) -> Result<Duration, WadError> {
        let begun = Instant::now();
        self.process.signal(signal);
        while self.process.ended()?.is_none() && begun.elapsed() < STOP_LIMIT {
            signal::sleep(Duration::from_millis(5))?;
        }
        let took = begun.elapsed();
        let status = self.process.wait(Duration::ZERO, || ())?;
        if status.success() {
            self.home.in_use.set(self.home.keeps.get());
            return Ok(took);
        }
        Err(WadError::Unclean { status, log: self.home.log() })
    }

    /// Kills the agent: it cannot take anything out.
    ///
    /// # Errors
    /// When it does not end.
    pub fn kill(mut self) -> Result<(), WadError> {
        self.process.signal(Signal::SIGKILL);
        self.process.wait(STOP_LIMIT, || ())?;
        Ok(())
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        self.process.signal(Signal::SIGTERM);
        let begun = Instant::now();
        // Not signal::sleep: the drop may be due to a signal.
        while matches!(self.process.ended(), Ok(None)) && begun.elapsed() < STOP_LIMIT {
            std::thread::sleep(Duration::from_millis(20));
        }
        match self.process.ended() {
            // One that was killed leaves what it made.
            Ok(Some(status)) if status.success() => self.home.in_use.set(self.home.keeps.get()),
            _ => self.process.signal(Signal::SIGKILL),
        }
    }
}
