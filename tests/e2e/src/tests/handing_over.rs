//! An agent takes the place of one that runs, as the pod of a new version does: nothing is
//! untuned meanwhile, and only the end of the agent in force takes tuning out.

use std::{fs, net::TcpListener, process::Command, sync::atomic::Ordering, thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    another_build, kernel,
    newcomers::Newcomers,
    old_kernel::BpfFileSystem,
    stand::{Stand, until},
    sysctl,
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const SNDBUF_BYTES: usize = 8 * 1024 * 1024;

/// Only the ends that connect: the others' peer is 10.81.0.1.
const POLICY: &str = "[[path]]\nname = 'p'\nremote = '10.81.0.2'\nsndbuf = '8MiB'\n\
                      rcvbuf = '8MiB'\ncongestion = 'wad_aimd'\n";

/// A container has these.
const FEW: [&str; 3] =
    ["setpriv", "--bounding-set=-all,+bpf,+net_admin,+perfmon", "--inh-caps=-all"];

/// An agent that has left is back within this, where the next one fails.
const BACK: Duration = Duration::from_secs(10);

const ROOM: &str = "net.core.wmem_max";

#[e2e(long, alone)]
fn an_agent_takes_the_place_of_another_build_that_runs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let other = folder.path().join("wad");
    another_build::make(&program()?, &other)?;
    takes_its_place(&[other.to_str().context("UTF-8")?])
}

#[e2e(long, alone)]
fn an_agent_with_few_capabilities_takes_the_place_of_its_like() -> Result<()> {
    let program = program()?;
    let words = [&FEW[..], &[program.to_str().context("UTF-8")?]].concat();
    takes_its_place(&words)
}

fn takes_its_place(words: &[&str]) -> Result<()> {
    let stand = Stand::set_up("place")?;
    // To mount it takes a capability that few have.
    let _mounted = BpfFileSystem::mount()?;
    let wire = Wire::start()?;
    let room = sysctl::get(ROOM)?;
    let home = Home::create(&program()?, POLICY)?;
    let program = program()?;
    let first = home.start_in_place(&[program.to_str().context("UTF-8")?], stand.cgroup())?;
    let listener = tcp::listen(wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let transfer = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7001))?;
    let newcomers = Newcomers::of(&[SNDBUF_BYTES]);

    let second = thread::scope(|scope| -> Result<_> {
        let stopping = newcomers.stopping();
        let connecting = scope.spawn(|| newcomers.run(wire.a(), &listener));
        let transferring = scope.spawn(|| -> Result<u64> {
            let mut rounds = 0;
            while !newcomers.stop.load(Ordering::Relaxed) {
                transfer.exchange(10_000_000)?;
                rounds += 1;
            }
            Ok(rounds)
        });
        newcomers.await_more(100)?;
        let second = home.start_in_place(words, stand.cgroup())?;
        newcomers.await_more(100)?;
        // It waits to be stopped, and takes nothing of the other's with it.
        first.stop()?;
        newcomers.await_more(100)?;
        drop(stopping);
        connecting.join().expect("connecting does not panic")?;
        let rounds = transferring.join().expect("transferring does not panic")?;
        ensure!(rounds > 1, "the transfer did not last through all of it");
        if kernel::laws_are_replaced_at_once()? {
            newcomers.all_tuned()?;
        }
        ensure!(newcomers.untuned.load(Ordering::Relaxed) == 0, "{newcomers:?}");
        println!("{newcomers:?}; {rounds} times 10 MB each way");
        Ok(second)
    })?;

    let flow = transfer.near_flow(wire.a())?;
    ensure!(flow.congestion == home.algorithm()?, "{flow:?}");
    ensure!(home.command("status").output()?.status.success(), "{}", home.log());
    ensure!(sysctl::get(ROOM)? == SNDBUF_BYTES.to_string());
    second.stop()?;
    ensure!(!home.pins().exists() && !home.journal().exists(), "{}", home.log());
    ensure!(sysctl::get(ROOM)? == room);
    Ok(())
}

/// The next agent's file is one that only a start shows to be wrong; as a ConfigMap is, it is the
/// first one's as well.
#[e2e(long, alone)]
fn an_agent_is_back_in_its_place_when_the_next_one_fails_there() -> Result<()> {
    let stand = Stand::set_up("place-back")?;
    let _mounted = BpfFileSystem::mount()?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let program = program()?;
    let first = home.start_in_place(&[program.to_str().context("UTF-8")?], stand.cgroup())?;
    let good = fs::read_to_string(home.config())?;
    let own = format!("127.0.0.1:{}", home.metrics_port());
    let fails_at = |address: &str, why: &str| -> Result<()> {
        fs::write(home.config(), good.replace(&own, address))?;
        let mut run = home.run_on(stand.cgroup());
        let output = run.arg("--take-over").output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && said.contains(why), "{said}");
        Ok(())
    };
    let answers = || Ok::<_, anyhow::Error>(home.agent_that_answers()?);
    let left = || home.log().matches("another agent takes this one's place").count();
    let listener = tcp::listen(wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let newcomers = Newcomers::of(&[SNDBUF_BYTES]);
    thread::scope(|scope| -> Result<()> {
        let stopping = newcomers.stopping();
        let connecting = scope.spawn(|| newcomers.run(wire.a(), &listener));
        newcomers.await_more(100)?;
        // This shows before the place is asked for.
        fails_at("192.0.2.1:9464", "this host has no address 192.0.2.1")?;
        ensure!(answers()? == Some(first.id()) && left() == 0, "{}", home.log());
        let other = TcpListener::bind("127.0.0.1:0")?;
        let taken = other.local_addr()?.to_string();
        for attempt in 1..=2 {
            fails_at(&taken, "another program listens on")?;
            ensure!(left() == attempt, "{}", home.log());
            until("the first agent is back", BACK, answers, |pid| *pid == Some(first.id()))
                .with_context(|| home.log())?;
            // By what was in force, not by the file.
            home.metrics()?;
            newcomers.await_more(100)?;
        }
        drop(stopping);
        connecting.join().expect("connecting does not panic")?;
        Ok(())
    })?;
    newcomers.all_tuned()?;
    first.stop()?;
    ensure!(!home.pins().exists() && !home.journal().exists(), "{}", home.log());
    Ok(())
}

/// As one that a service manager of the host holds.
#[e2e(long, alone)]
fn an_agent_that_was_not_started_to_leaves_its_place_to_nobody() -> Result<()> {
    let stand = Stand::set_up("stays")?;
    let home = Home::create(&program()?, POLICY)?;
    let agent = home.start(stand.cgroup())?;
    let mut run = home.command("run");
    let output = run.arg("--cgroup").arg(stand.cgroup().path()).arg("--take-over").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "it was not refused: {said}");
    ensure!(said.contains("to nobody") && said.contains(&agent.id().to_string()), "{said}");
    ensure!(home.command("status").output()?.status.success(), "{}", home.log());
    agent.stop()?;
    Ok(())
}

#[e2e(long, alone)]
fn a_probe_heeds_the_agent_of_its_own_container_alone() -> Result<()> {
    let stand = Stand::set_up("probe")?;
    let home = Home::create(&program()?, POLICY)?;
    let ready = |before: &[&str]| -> Result<(bool, String)> {
        let mut probe = home.command("status");
        probe.arg("--ready");
        if let [program, arguments @ ..] = before {
            let mut within = Command::new(program);
            within.args(arguments).arg(probe.get_program()).args(probe.get_args());
            probe = within;
        }
        let output = probe.output()?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    };
    let (is_ready, said) = ready(&[])?;
    ensure!(!is_ready && said.contains("no agent runs"), "{said}");
    let agent = home.start(stand.cgroup())?;
    let (is_ready, said) = ready(&[])?;
    ensure!(is_ready && said.is_empty(), "{said}");
    // Another container on the same host.
    let (is_ready, said) = ready(&["unshare", "--pid", "--fork", "--mount-proc"])?;
    ensure!(!is_ready && said.contains("another container"), "{said}");
    agent.stop()?;
    Ok(())
}
