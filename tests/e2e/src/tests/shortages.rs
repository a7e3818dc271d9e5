//! An agent that gets no more descriptors, threads or memory goes on: new flows are tuned,
//! what it cannot do is said and counted, and done when there is enough again.

use std::{
    fs,
    net::{Ipv4Addr, TcpStream},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    limits::{self, ThreadBound},
    metrics,
    netns::Netns,
    old_kernel::BpfFileSystem,
    process::Place,
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

use crate::pods::{self, HOST, KEYS, LIMITS, Pod, REMOTE};

const SOON: Duration = Duration::from_secs(20);

/// A source and a sink that nobody answers, and all that an agent looks at now and then.
fn policy(home: Option<&Home>, sndbuf_bytes: u64) -> String {
    let events = home.map_or_else(String::new, |home| {
        format!(
            "[[sink]]\nname = 'file'\nkind = 'file'\npath = '{}'\n",
            home.folder().join("events.jsonl").display()
        )
    });
    format!(
        "[[source]]\nname = 'nobody'\nkind = 'prometheus'\nurl = 'http://localhost:1'\n\
         rtt = 'x'\ninterval = '1s'\n\
         [[sink]]\nname = 'nowhere'\nkind = 'http'\nurl = 'http://localhost:1'\n{events}\
         [[derived]]\nname = 'Sent'\nvalue = 'HCDataOctetsOut'\nmetric = true\n\
         [[path]]\nname = 'p'\nremote = '10.81.0.2'\nremote_port = 7000\n\
         sndbuf = '{sndbuf_bytes}'\ncongestion = 'reno'\n\
         [[path]]\nname = 'auto'\nremote = '10.81.0.2'\nmode = 'measured'\nbandwidth = '1Gbit'\n\
         rtt = '50ms'\nsndbuf = 'auto'\nrcvbuf = 'auto'\ndivide = true\n"
    )
}

fn open(wire: &Wire) -> Result<Connection> {
    Ok(Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000))?)
}

fn sndbuf_bytes(connection: &Connection, wire: &Wire) -> Result<u64> {
    Ok(connection.near_flow(wire.a())?.sndbuf_bytes)
}

fn shortages(home: &Home, of: &str) -> Result<f64> {
    Ok(home.metrics()?.value("wad_shortages_total", &[&format!("of=\"{of}\"")])?)
}

/// Asks by every way that there is.
fn ensure_answers(home: &Home) -> Result<()> {
    ensure_answers_commands(home)?;
    let (status, _) = metrics::ask(home.metrics_port(), "/-/ready")?;
    ensure!(status == 200, "{status}");
    home.metrics()?;
    Ok(())
}

fn ensure_answers_commands(home: &Home) -> Result<()> {
    for command in ["status", "paths", "flows"] {
        let output = home.command(command).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "wad {command}: {said}\n{}", home.log());
    }
    Ok(())
}

#[e2e(long, alone)]
fn an_agent_of_64_descriptors_goes_on_tuning() -> Result<()> {
    let stand = Stand::set_up("descriptors")?;
    let _bpffs = BpfFileSystem::mount()?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, "")?;
    home.write_policy(&policy(Some(&home), 300_000))?;
    // Each of them is looked into whenever the policy changes.
    let others = (0..64).map(|_| Netns::create("one")).collect::<Result<Vec<_>, _>>()?;
    let most = 64 + limits::inherited()?;
    let agent = home.start_in(&format!("ulimit -n {most}"), stand.cgroup())?;
    let first = open(&wire)?;
    ensure!(sndbuf_bytes(&first, &wire)? == 600_000);

    // Those who come and say nothing take what they can get.
    let at_the_door = || TcpStream::connect((Ipv4Addr::LOCALHOST, home.metrics_port()));
    let silent = (0..64).map(|_| at_the_door()).collect::<Result<Vec<_>, _>>()?;
    for bytes in [400_000, 500_000] {
        home.reload(&policy(Some(&home), bytes))?;
        let look = || sndbuf_bytes(&first, &wire);
        until("a flow that runs follows", SOON, look, |now| *now == 2 * bytes)?;
        ensure!(sndbuf_bytes(&open(&wire)?, &wire)? == 2 * bytes);
        ensure_answers(&home)?;
    }
    let open_now = limits::descriptors(agent.id())? as u64;
    ensure!(open_now < most, "{open_now} descriptors");
    drop((silent, others));
    first.exchange(1_000_000)?;
    ensure!(!home.log().contains("panicked"), "{}", home.log());
    agent.stop()?;
    Ok(())
}

#[e2e(long, alone)]
fn an_agent_of_64_descriptors_follows_flows_into_40_namespaces() -> Result<()> {
    let stand = Stand::set_up("follows")?;
    let agents = Netns::create("agent")?;
    let text =
        |keys| format!("{LIMITS}{HOST}[[path]]\nname = 'p'\nremote = '{REMOTE}'\n{KEYS}\n{keys}");
    let home = Home::create(&program()?, &text(""))?;
    let agent = home.start_inside(&agents, stand.cgroup())?;
    let most = 64 + limits::inherited()?;
    limits::bound_descriptors(agent.id(), most)?;
    let pods = (0..40).map(|_| Pod::start(7000)).collect::<Result<Vec<_>>>()?;
    let look = || pods::count(&pods);
    // To follow routes takes some in each, which there are not.
    until("what takes none is everywhere", SOON, look, |count| *count == (40, 0))
        .with_context(|| home.log())?;
    let output = home.command("explain").arg(REMOTE).output()?;
    let explained = String::from_utf8(output.stdout)?;
    ensure!(explained.contains("the descriptors of this process"), "{explained}");
    for initial_window in ["initial_window = 8", "initial_window = 9"] {
        home.reload(&text(initial_window))?;
        ensure_answers_commands(&home)?;
    }
    let open_now = limits::descriptors(agent.id())? as u64;
    ensure!(open_now < most, "{open_now} descriptors");
    home.reload(&format!("{LIMITS}{HOST}[[path]]\nname = 'p'\nremote = '192.0.2.1'\n"))?;
    ensure!(!home.log().contains("panicked"), "{}", home.log());
    agent.stop()?;
    ensure!(look()? == (0, 0) && !home.journal().exists(), "{:?} stay", look()?);
    Ok(())
}

#[e2e(long, beside)]
fn an_agent_that_gets_no_more_descriptors_says_so_and_goes_on() -> Result<()> {
    let stand = Stand::set_up("no-more")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(None, 300_000))?;
    let agent = home.start(stand.cgroup())?;
    let first = open(&wire)?;
    ensure_answers(&home)?;

    // Those that it has stay open.
    limits::bound_descriptors(agent.id(), 3)?;
    let waiting = TcpStream::connect((Ipv4Addr::LOCALHOST, home.metrics_port()))?;
    let look = || Ok::<_, anyhow::Error>(home.log());
    until("it is said", SOON, look, |log| log.contains("cannot accept a client"))?;
    for _ in 0..3 {
        ensure!(sndbuf_bytes(&open(&wire)?, &wire)? == 600_000, "new flows are not tuned");
    }

    limits::bound_descriptors(agent.id(), 1024)?;
    drop(waiting);
    let look = || Ok::<_, anyhow::Error>(ensure_answers(&home).is_ok());
    until("it answers again", SOON, look, |answers| *answers)?;
    ensure!(shortages(&home, "descriptors")? >= 1.0, "{}", home.metrics()?.text());
    home.reload(&policy(None, 400_000))?;
    let look = || sndbuf_bytes(&first, &wire);
    until("a flow that runs follows", SOON, look, |now| *now == 800_000)?;
    ensure!(!home.log().contains("panicked"), "{}", home.log());
    agent.stop()?;
    Ok(())
}

#[e2e(long, beside)]
fn an_agent_that_gets_no_more_threads_says_so_and_goes_on() -> Result<()> {
    let stand = Stand::set_up("threads")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(None, 300_000))?;
    let agent = home.start(stand.cgroup())?;
    let first = open(&wire)?;

    // From its start on, as a service whose limit is too low.
    let bound = ThreadBound::of(agent.id())?;
    home.reload(&policy(None, 400_000))?;
    ensure!(sndbuf_bytes(&open(&wire)?, &wire)? == 800_000, "new flows are not tuned");
    ensure_answers(&home)?;
    ensure!(bound.refused()? > 0, "it wants no thread");
    ensure!(sndbuf_bytes(&first, &wire)? == 600_000, "it was visited without a thread");
    let log = home.log();
    ensure!(log.contains("not all flows that run follow") && log.contains("no thread"), "{log}");
    ensure!(log.matches("not all flows that run follow").count() == 1, "{log}");
    ensure!(shortages(&home, "threads")? >= 1.0, "{}", home.metrics()?.text());

    bound.allow("max")?;
    let look = || sndbuf_bytes(&first, &wire);
    until("a flow that runs follows", SOON, look, |now| *now == 800_000)?;
    ensure!(!home.log().contains("panicked"), "{}", home.log());
    agent.stop()?;
    Ok(())
}

#[e2e(
    never = "strace, which plays the kernel that is short of memory, is not in a machine",
    beside
)]
fn an_agent_whose_kernel_is_short_of_memory_says_so_and_goes_on() -> Result<()> {
    let stand = Stand::set_up("memory")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(None, 300_000))?;
    let agent = home.start(stand.cgroup())?;
    let first = open(&wire)?;

    // Whatever it asks of BPF fails: maps, iterators, links.
    let mut strace = Command::new("strace");
    strace.args(["--follow-forks", "--trace=bpf", "--inject=bpf:error=ENOMEM"]);
    strace.args(["--output", "/dev/null", "--attach", &agent.id().to_string()]);
    strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut short = Place::default().spawn(strace)?;
    let status = format!("/proc/{}/status", agent.id());
    let look = || Ok::<_, anyhow::Error>(fs::read_to_string(&status)?);
    until("strace is there", SOON, look, |status| !status.contains("TracerPid:\t0"))?;
    home.write_policy(&policy(None, 400_000))?;
    let output = home.command("reload").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    // By its number: C libraries have words of their own for it.
    ensure!(!output.status.success() && said.contains("(os error 12)"), "{said}");
    ensure!(sndbuf_bytes(&open(&wire)?, &wire)? == 600_000, "the policy is not as it was");
    // Nothing is lost that it cannot look at.
    let look = || Ok::<_, anyhow::Error>(home.log());
    until("it is said", SOON, look, |log| log.contains("cannot look whether all is still"))?;
    ensure!(metrics::ask(home.metrics_port(), "/-/ready")?.0 == 200);

    short.signal(Signal::SIGTERM);
    short.wait(SOON, || ())?;
    home.reload(&policy(None, 400_000))?;
    let look = || sndbuf_bytes(&first, &wire);
    until("a flow that runs follows", SOON, look, |now| *now == 800_000)?;
    ensure_answers(&home)?;
    ensure!(shortages(&home, "memory")? >= 1.0, "{}", home.metrics()?.text());
    ensure!(!home.log().contains("panicked"), "{}", home.log());
    agent.stop()?;
    Ok(())
}
