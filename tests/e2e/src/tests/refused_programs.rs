//! The kernel refuses a program that the agent can do without: the agent starts, tunes new
//! connections as ever, says what goes without the program, and stops without a trace.

use std::{fs, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    inventory::Inventory,
    kernel,
    old_kernel::{self, BpfFileSystem},
    process::{in_mounts, run_command},
    refusing_kernel::{HARDENED, RefusingKernel},
    ss::Flow,
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(20);

/// Between them these have the agent load all programs that it may load: flows are guarded, show
/// what the path carries, and have buffers that grow.
const POLICY: &str = "[guard]\nevery = '100ms'\n\
                      [[source]]\nname = 'flows'\nkind = 'passive'\ninterval = '1s'\n\
                      [[path]]\nname = 'p'\nremote = '10.81.0.2'\nremote_port = 7000\n\
                      sndbuf = '3MiB'\nrcvbuf = '4MiB'\ninitial_window = 24\n\
                      allow = 'aggressive'\ncongestion = 'wad_aimd'\n\
                      [[path]]\nname = 'auto'\nremote = '10.81.0.2'\nmode = 'measured'\n\
                      sndbuf = 'auto'\nrcvbuf = 'auto'\n";

/// Programs of which a kernel is asked for one, and what the log says when it refuses that, or the
/// answer to who asks for flows.
const CASES: &[(&[&str], &str)] = &[
    (&["wad_running"], "flows that run already stay as they are"),
    (&[ENDED], "the end of a flow that ran already is found within a minute"),
    // The latter is `wad_accepted_before` (until Linux 6.9), cut off as names are.
    (
        &["wad_accepted", "wad_accepted_be"],
        "which process has accepted a connection is known once somebody asks",
    ),
    (&[SIGNALS], "congestion signals of flows are not counted"),
    (&["wad_needs"], "buffers with \"auto\" stay as the kernel sizes them"),
    (&["wad_growing"], "buffers with \"auto\" stay as the kernel sizes them"),
    (&["wad_recount"], "flows whose end another program on the cgroup hides are counted"),
    (&["wad_holders"], "whose flows are that ran already is not known"),
    (&["wad_progress"], "flows show what their path carries only when they end"),
    (&["wad_health"], "guards see no connections"),
    (&["wad_instruments"], "counts of paths advance only as flows end"),
    (&["wad_others"], "the kernel refused the BPF program `wad_others`"),
];

/// The agent makes use of it on kernels without [`FLAGS_OPTION`].
const ENDED: &str = "wad_ended";
/// An option that sees the end of flows that ran already (Linux 6.12).
const FLAGS_OPTION: &str = "TCP_BPF_SOCK_OPS_CB_FLAGS";

/// It is for a tracepoint that came with Linux 5.19.
const SIGNALS: &str = "wad_signals";

/// The agent, which may be started again and again, and a wire for connections.
struct Fixture {
    // Dropped in this order.
    home: Home,
    wire: Wire,
    _pins: BpfFileSystem,
    stand: Stand,
}

/// The tuning of a connection, as ss shows it.
#[derive(Debug, PartialEq, Eq)]
struct Tuned {
    sndbuf_bytes: u64,
    rcvbuf_bytes: u64,
    cwnd_segments: u32,
    congestion: String,
}

impl Fixture {
    fn set_up(label: &str) -> Result<Self> {
        let stand = Stand::set_up(label)?;
        let pins = BpfFileSystem::mount()?;
        let wire = Wire::start()?;
        let home = Home::create(&program()?, POLICY)?;
        Ok(Self { home, wire, _pins: pins, stand })
    }

    fn open(&self) -> Result<Connection> {
        Ok(Connection::open(self.wire.a(), self.wire.b(), at(ADDRESSES_V4[1], 7000))?)
    }

    /// Returns what a new connection gets, after it has carried bytes both ways.
    fn tuned(&self) -> Result<Tuned> {
        let connection = self.open()?;
        let Flow { sndbuf_bytes, rcvbuf_bytes, cwnd_segments, congestion, .. } =
            connection.near_flow(self.wire.a())?;
        connection.exchange(1_000_000)?;
        Ok(Tuned { sndbuf_bytes, rcvbuf_bytes, cwnd_segments, congestion })
    }

    /// Returns what a new connection gets where no program is refused.
    fn usual(&self) -> Result<Tuned> {
        let none = RefusingKernel::new(&[])?;
        let (usual, _said) = self.run_on(&none, self.run(), "tuning new flows")?;
        let buffers = (usual.sndbuf_bytes, usual.rcvbuf_bytes);
        ensure!(buffers == (6 << 20, 8 << 20) && usual.cwnd_segments == 24, "{usual:?}");
        Ok(usual)
    }

    /// Returns the command that runs the agent.
    fn run(&self) -> Command {
        self.home.run_on(self.stand.cgroup())
    }

    /// Runs the agent on a kernel until it has said these words, and stops it: beside a connection
    /// that ran before. Returns what a new connection gets, and all that was said.
    fn run_on(
        &self,
        kernel: &RefusingKernel,
        run: Command,
        words: &str,
    ) -> Result<(Tuned, String)> {
        let before = Inventory::take()?;
        let logged = self.home.log().len();
        let running = self.open()?;
        let agent = self.home.start_refused(kernel, run)?;
        let tuned = self.tuned()?;
        let flows = self.home.command("flows").output()?.stderr;
        let all = self.home.command("flows").arg("--all").output()?.stderr;
        let answers = String::from_utf8([flows, all].concat())?;
        let said = || Ok::<_, anyhow::Error>(self.home.log().split_off(logged) + &answers);
        let said = until("it is said", SOON, said, |said| said.contains(words))?;
        let status = run_command(&mut self.home.command("status"))?;
        for program in kernel.refusals() {
            let line = format!("BPF program {}", program.name);
            ensure!(status.contains(&line), "{program:?} was refused: {status}");
        }
        running.exchange(1_000_000)?;
        drop(running);
        let made = Inventory::take()?.since(&before);
        ensure!(made.has("prog", "wad_tuner"), "the agent made no program: {made}");
        agent.stop()?;
        ensure!(!said.contains("panicked"), "{said}");
        ensure!(!self.home.pins().exists() && !self.home.journal().exists(), "something stays");
        // The kernel takes its time to free what nobody holds any more.
        let left = || Ok::<_, anyhow::Error>(made.still_in(&Inventory::take()?));
        until("nothing is left in the kernel", SOON, left, Inventory::is_empty)?;
        Ok((tuned, said))
    }
}

fn threads() -> Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

#[e2e(long, alone, any_kernel, slow)]
fn without_any_one_program_the_agent_tunes_and_says_what_goes_without() -> Result<()> {
    let fixture = Fixture::set_up("refused")?;
    let usual = fixture.usual()?;
    let own_threads = threads()?;
    for (names, words) in CASES {
        if names.contains(&SIGNALS) && kernel::running()? < (5, 19) {
            continue;
        }
        let kernel = RefusingKernel::new(names)?;
        let mut run = fixture.run();
        if names.contains(&ENDED) {
            run = in_mounts(&old_kernel::without(&[FLAGS_OPTION], fixture.home.folder())?, &run);
        }
        let (tuned, said) =
            fixture.run_on(&kernel, run, words).with_context(|| format!("without {names:?}"))?;
        println!("without {names:?}:\n{said}");
        let refused: usize = names.iter().map(|name| kernel.refused(name)).sum();
        ensure!(refused > 0, "{names:?}: the kernel was asked for neither");
        ensure!(tuned == usual, "without {names:?}: {tuned:?}; with it: {usual:?}");
    }
    // What refuses ends with the process that it refuses programs to.
    let threads = || threads();
    until("no thread is left", SOON, threads, |count| *count <= own_threads)?;
    Ok(())
}

#[e2e(long, alone, any_kernel)]
fn new_connections_are_tuned_in_full_on_a_hardened_kernel() -> Result<()> {
    let fixture = Fixture::set_up("hardened")?;
    let usual = fixture.usual()?;
    let kernel = RefusingKernel::new(HARDENED)?;
    let words = "which process has accepted a connection is known once somebody asks";
    let (tuned, said) = fixture.run_on(&kernel, fixture.run(), words)?;
    let refusals = kernel.refusals();
    println!("{refusals:?}\n{said}");
    ensure!(refusals.iter().any(|program| program.kind == "fexit"), "{refusals:?}");
    ensure!(refusals.iter().all(|program| HARDENED.contains(&&*program.kind)), "{refusals:?}");
    ensure!(tuned == usual, "{tuned:?}; usually {usual:?}");
    Ok(())
}

/// A connection that was accepted is looked for among open files when somebody asks, where the
/// kernel does not show who accepts.
#[e2e(every_change, beside)]
fn who_accepted_is_known_once_somebody_asks() -> Result<()> {
    let stand = Stand::set_up("asked")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, "[[path]]\nname = 'a'\nremote = '10.81.0.0/16'\n")?;
    let kernel = RefusingKernel::new(&["fexit"])?;
    let agent = home.start_refused(&kernel, home.run_on(stand.cgroup()))?;
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let answer = run_command(home.command("flows").arg("--json"))?;
    let seen: Value = serde_json::from_str(&answer)?;
    let flows = seen["flows"].as_array().context("no list of flows")?;
    let is_own = |flow: &Value| flow["owner"]["pid"] == std::process::id();
    ensure!(flows.len() == 2 && flows.iter().all(is_own), "{answer}");
    let refused = kernel.refused("wad_accepted") + kernel.refused("wad_accepted_be");
    ensure!(refused > 0, "the kernel was not asked for it: nothing is tested");
    drop(connection);
    agent.stop()?;
    Ok(())
}

#[e2e(long, beside)]
fn a_check_of_the_host_names_each_program_that_its_kernel_refuses() -> Result<()> {
    let check = |refused: &[&str]| -> Result<_> {
        let mut command = Command::new(program()?);
        command.args(["check", "--host", "--json"]);
        RefusingKernel::new(refused)?.apply(&mut command)?;
        let output = command.output()?;
        let host: Value = serde_json::from_slice(&output.stdout)?;
        let programs = host["programs"].as_array().context("no list of programs")?.clone();
        let is_refused = |program: &&Value| program["refusal"].is_string();
        let names = programs.iter().filter(is_refused).filter_map(|it| it["program"].as_str());
        let names: Vec<String> = names.map(str::to_owned).collect();
        Ok((names, output.status.code(), String::from_utf8(output.stderr)?))
    };
    let (own, code, said) = check(&[])?;
    ensure!(code == Some(0), "{said}");
    for name in ["wad_needs", "wad_running", "wad_signals"] {
        ensure!(!own.iter().any(|refused| refused == name), "{name} is refused already: {own:?}");
        let (refused, code, said) = check(&[name])?;
        ensure!(code == Some(0) && refused.len() == own.len() + 1, "{refused:?}: {said}");
        ensure!(refused.iter().any(|refused| refused == name), "{refused:?}");
    }
    // Without this one there is no tuning.
    let (_, code, said) = check(&["wad_tuner", "wad_tuner_plain"])?;
    ensure!(code == Some(1) && said.contains("this kernel refuses wad_tuner"), "{code:?}: {said}");
    Ok(())
}
