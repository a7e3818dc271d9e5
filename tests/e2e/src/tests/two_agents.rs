//! Two agents on one node, as of a package on the host and of a DaemonSet, in whatever
//! namespaces they are: the second is refused, and told who the first is; what has died is
//! in nobody's way; and one takes the other's place where both are run so.

use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    cgroup::Cgroup,
    first_process,
    newcomers::Newcomers,
    old_kernel::BpfFileSystem,
    process::{Place, Process, run_command},
    stand::{Stand, until},
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

use super::systemd::systemd;

const LIMIT: Duration = Duration::from_secs(30);
const SNDBUF_BYTES: usize = 8 * 1024 * 1024;

/// A law alone needs nothing of the host's network namespace, but for a bound on memory.
const LAW: &str = "[limits]\nmax_memory = '1GiB'\n[[path]]\nname = 'p'\nremote = '10.81.0.2'\ncongestion = 'wad_aimd'\n";
const BUFFERS: &str = "sndbuf = '8MiB'\nrcvbuf = '8MiB'\n";

/// As a container is that shares no more with the host than the BPF file system.
const APART: [&str; 2] = ["--net", "ip link set lo up; mount -t tmpfs none /run"];
/// As the chart's is, which shares the network and `/run/wad`.
const OF_THE_CHART: [&str; 2] = ["--uts", ""];

/// An agent as process 1 of namespaces of its own; killed when dropped.
struct Contained {
    outer: Process,
    /// Its number outside.
    pid: i32,
}

/// Returns `wad run` in mount and PID namespaces of its own, and more of them, which a script
/// has changed.
fn contained(home: &Home, cgroup: &Cgroup, [more, script]: [&str; 2]) -> Command {
    let run = home.command("run");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", more]);
    command.args(["sh", "-euc", &format!("{script}\nexec \"$@\""), "sh"]);
    command.arg(run.get_program()).args(run.get_args()).arg("--cgroup").arg(cgroup.path());
    command
}

impl Contained {
    /// Starts it, with its log at the home's.
    fn start(home: &Home, mut command: Command) -> Result<Self> {
        let log = fs::File::options().create(true).append(true).open(home.folder().join("wad.log"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log?);
        home.expect_agent();
        let outer = Place::default().spawn(command)?;
        let pid = first_process::number::<anyhow::Error>(&outer, LIMIT)?.try_into()?;
        Ok(Self { outer, pid })
    }

    fn end(mut self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.pid), signal)?;
        self.outer.wait(LIMIT, || ())?;
        Ok(())
    }
}

/// Returns what a command says that is refused.
fn refused(mut command: Command) -> Result<String> {
    let output = command.output()?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(!output.status.success(), "it was not refused: {said}");
    ensure!(said.trim().lines().count() == 1, "not one line: {said}");
    Ok(said)
}

fn ensure_names(said: &str, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(said.contains(word), "\"{word}\" is not in: {said}");
    }
    Ok(())
}

fn is_tuned(wire: &Wire, home: &Home) -> Result<bool> {
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000))?;
    Ok(connection.near_flow(wire.a())?.congestion == home.algorithm()?)
}

fn await_tuning(wire: &Wire, home: &Home) -> Result<()> {
    let look = || Ok::<_, anyhow::Error>(is_tuned(wire, home).unwrap_or_default());
    until("new connections are tuned", LIMIT, look, |tuned| *tuned).with_context(|| home.log())?;
    Ok(())
}

#[e2e(long, alone)]
fn a_second_agent_is_told_who_the_first_is_in_whatever_namespace() -> Result<()> {
    let stand = Stand::set_up("two")?;
    let _mounted = BpfFileSystem::mount()?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, LAW)?;
    let name = format!("\"{}\"", home.instance());
    let version = run_command(Command::new(program()?).arg("--version"))?;
    let version = format!("version {}, ", version.split_whitespace().nth(1).context("a version")?);
    let (cgroup, lock) =
        (stand.cgroup(), home.pins().with_file_name(home.instance().to_owned() + ":lock"));

    // The host's is first.
    let agent = home.start(cgroup)?;
    let first = format!("process {}, ", agent.id());
    let cure = "stops it";
    let unseen = "not to be seen from this PID namespace";
    let said = refused(contained(&home, cgroup, APART))?;
    ensure_names(&said, &[&name, unseen, &first, &version, "since 20", cure, "--instance"])?;
    let mut beside = home.command("run");
    beside.arg("--cgroup").arg(cgroup.path());
    let said = refused(beside)?;
    ensure_names(&said, &[&name, &format!("({first}"), &version, cure])?;
    ensure!(is_tuned(&wire, &home)?);
    agent.stop()?;
    ensure!(!lock.exists() && !home.pins().exists(), "{}", home.log());

    // A container's is first.
    let inner = Contained::start(&home, contained(&home, cgroup, APART))?;
    await_tuning(&wire, &home)?;
    let mut run = home.command("run");
    run.arg("--cgroup").arg(cgroup.path());
    let here = format!("here process {}, which says: process 1, {version}", inner.pid);
    ensure_names(&refused(run)?, &[&name, &here])?;
    // It has another /run/wad, and has not died.
    let said = refused(home.command("status"))?;
    ensure_names(&said, &[&name, "cannot be asked here", &here])?;
    // Nobody cleans up after one that lives.
    ensure_names(&refused(home.command("cleanup"))?, &[&name, &here])?;
    ensure!(is_tuned(&wire, &home)?);

    // It dies, and what it has left is taken over.
    inner.end(Signal::SIGKILL)?;
    ensure!(lock.exists() && is_tuned(&wire, &home)?);
    ensure_names(&refused(home.command("status"))?, &["an agent that died", "no agent runs"])?;
    let agent = home.start(cgroup)?;
    ensure!(is_tuned(&wire, &home)?);
    agent.stop()?;
    ensure!(!lock.exists() && !home.pins().exists(), "{}", home.log());

    // Or it stops, and leaves nothing.
    let inner = Contained::start(&home, contained(&home, cgroup, APART))?;
    await_tuning(&wire, &home)?;
    inner.end(Signal::SIGTERM)?;
    ensure!(!lock.exists() && !home.pins().exists(), "{}", home.log());
    Ok(())
}

/// Returns the number of the agent that answers, in its own PID namespace.
fn who_answers(home: &Home) -> Result<Option<u64>> {
    let output = home.command("status").arg("--json").output()?;
    let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Ok(status["pid"].as_u64())
}

#[e2e(long, alone)]
fn agents_in_other_namespaces_take_each_others_place() -> Result<()> {
    let stand = Stand::set_up("place-apart")?;
    let _mounted = BpfFileSystem::mount()?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &format!("{LAW}{BUFFERS}"))?;
    let program = program()?;
    let words = [program.to_str().context("UTF-8")?];
    let first = home.start_in_place(&words, stand.cgroup())?;
    let listener = tcp::listen(wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let newcomers = Newcomers::of(&[SNDBUF_BYTES]);
    let last = thread::scope(|scope| -> Result<_> {
        let stopping = newcomers.stopping();
        let connecting = scope.spawn(|| newcomers.run(wire.a(), &listener));
        newcomers.await_more(100)?;
        let mut command = contained(&home, stand.cgroup(), OF_THE_CHART);
        command.arg("--take-over");
        let inner = Contained::start(&home, command)?;
        let inner_answers = || who_answers(&home);
        until("that of the container has the place", LIMIT, inner_answers, |pid| *pid == Some(1))
            .with_context(|| home.log())?;
        first.stop()?;
        newcomers.await_more(100)?;
        let last = home.start_in_place(&words, stand.cgroup())?;
        newcomers.await_more(100)?;
        inner.end(Signal::SIGTERM)?;
        newcomers.await_more(100)?;
        drop(stopping);
        connecting.join().expect("connecting does not panic")?;
        Ok(last)
    })?;
    newcomers.all_tuned()?;
    last.stop()?;
    ensure!(!home.pins().exists(), "{}", home.log());
    Ok(())
}

/// As of a package, with a DaemonSet's that comes later.
#[e2e(never = "there is no systemd", alone)]
fn a_unit_that_has_the_place_is_named_with_what_stops_it() -> Result<()> {
    let stand = Stand::set_up("two-unit")?;
    let home = Home::create(&program()?, LAW)?;
    let systemd = systemd(&stand, &home, "")?;
    systemd.systemctl(&["start", "wad.service"])?;
    let pid = systemd.property("MainPID")?;
    let words = [&format!("process {pid}, "), "unit wad.service, ", "`systemctl stop wad.service`"];
    let run = home.command("run");
    for script in ["", "mount -t tmpfs none /run"] {
        let mut command = systemd.command("unshare");
        command.args(["--mount", "sh", "-euc", &format!("{script}\nexec \"$@\""), "sh"]);
        command.arg(home.folder().join("wad")).args(run.get_args());
        let said = refused(command)?;
        ensure_names(&said, &words)?;
        ensure!(!said.contains("not to be seen"), "{said}");
    }
    systemd.systemctl(&["stop", "wad.service"])?;
    Ok(())
}
