//! The agent dies or is started twice: tuning goes on, the next agent takes it
//! over without a gap, and transfers notice nothing.

use std::{sync::atomic::Ordering, thread};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    newcomers::Newcomers,
    old_kernel::BpfFileSystem,
    process::Place,
    stand::Stand,
    sysctl,
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Agent, Home, NEEDED, program},
};

fn policy(sndbuf_bytes: u64) -> String {
    // Only the ends that connect: the others' peer is 10.81.0.1.
    format!(
        "[[path]]\nname = 'p'\nremote = '10.81.0.2'\nsndbuf = '{sndbuf_bytes}'\n\
         rcvbuf = '8MiB'\ncongestion = 'wad_aimd'\n"
    )
}

#[e2e(long, alone)]
fn a_killed_agent_leaves_tuning_that_the_next_takes_over() -> Result<()> {
    let stand = Stand::set_up("kill")?;
    taken_over_after_a_kill(&|home| Ok(home.start(stand.cgroup())?))
}

/// As where a container or a unit allows no more.
#[e2e(long, alone, any_kernel)]
fn the_needed_capabilities_are_enough_for_taking_over() -> Result<()> {
    let stand = Stand::set_up("capable")?;
    let _mounted = BpfFileSystem::mount()?;
    taken_over_after_a_kill(&|home| {
        Ok(home.start_capable(&NEEDED, Place::default(), stand.cgroup())?)
    })
}

fn taken_over_after_a_kill(start: &dyn Fn(&Home) -> Result<Agent<'_>>) -> Result<()> {
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(8 * 1024 * 1024))?;
    let agent = start(&home)?;
    let listener = tcp::listen(wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let transfer = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7001))?;
    let algorithm = home.algorithm()?;
    let matched =
        || -> Result<f64> { Ok(home.metrics()?.of_path("wad_connections_matched_total", "p")?) };

    let stream = Newcomers::of(&[8 * 1024 * 1024]);
    thread::scope(|scope| -> Result<()> {
        let stopping = stream.stopping();
        let connecting = scope.spawn(|| stream.run(wire.a(), &listener));
        let transferring = scope.spawn(|| -> Result<u64> {
            let mut rounds = 0;
            while !stream.stop.load(Ordering::Relaxed) {
                transfer.exchange(10_000_000)?;
                rounds += 1;
            }
            Ok(rounds)
        });

        stream.await_more(100)?;
        let before = matched()?;
        ensure!(before >= 100.0, "{before} connections matched");
        agent.kill()?;
        stream.await_more(100)?;
        let second = start(&home)?;
        ensure!(matched()? >= before + 100.0, "{} after {before}", matched()?);
        stream.await_more(100)?;
        let flow = transfer.near_flow(wire.a())?;
        ensure!(flow.congestion == algorithm && home.algorithm()? == algorithm, "{flow:?}");

        drop(stopping);
        connecting.join().expect("connecting does not panic")?;
        let rounds = transferring.join().expect("transferring does not panic")?;
        ensure!(rounds > 1, "the transfer did not last through all of it");
        let tuned = stream.all_tuned()?;
        println!("{tuned} connections tuned; {rounds} times 10 MB each way");

        // Every one of them was counted, by whichever agent.
        let metrics = home.metrics()?;
        for name in ["wad_connections_matched_total", "wad_flows_opened_total"] {
            let count = metrics.of_path(name, "p")?;
            ensure!(count == (tuned + 1) as f64, "{name}: {count} of {}", tuned + 1);
        }
        ensure!(metrics.of_path("wad_flows_tuned", "p")? == 1.0, "{}", metrics.text());
        drop(second);
        Ok(())
    })
}

#[e2e(long, alone)]
fn a_successor_brings_its_own_policy() -> Result<()> {
    let stand = Stand::set_up("policy")?;
    let wire = Wire::start()?;
    let to = at(ADDRESSES_V4[1], 7000);
    let home = Home::create(&program()?, &policy(1_000_000))?;
    let agent = home.start(stand.cgroup())?;
    let first = Connection::open(wire.a(), wire.b(), to)?;
    agent.kill()?;
    home.write_policy(&policy(2_000_000))?;
    let _agent = home.start(stand.cgroup())?;
    let second = Connection::open(wire.a(), wire.b(), to)?;
    ensure!(first.near_flow(wire.a())?.sndbuf_bytes == 4_000_000);
    ensure!(second.near_flow(wire.a())?.sndbuf_bytes == 4_000_000);
    ensure!(sysctl::get("net.core.wmem_max")? == "2000000");
    ensure!(home.metrics()?.of_path("wad_connections_matched_total", "p")? == 2.0);
    [first, second].iter().try_for_each(|connection| connection.exchange(1_000_000))?;
    Ok(())
}

#[e2e(long, alone)]
fn a_second_run_is_refused_by_name_and_harms_nothing() -> Result<()> {
    let stand = Stand::set_up("second")?;
    let wire = Wire::start()?;
    let to = at(ADDRESSES_V4[1], 7000);
    let home = Home::create(&program()?, &policy(8 * 1024 * 1024))?;
    let agent = home.start(stand.cgroup())?;
    let before = Connection::open(wire.a(), wire.b(), to)?;
    let journal = std::fs::read(home.journal())?;

    let mut run = home.command("run");
    run.arg("--cgroup").arg(stand.cgroup().path());
    // A cleanup would leave the agent with nothing.
    for mut second in [run, home.command("cleanup")] {
        let output = second.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success(), "{second:?} was not refused: {said}");
        ensure!(said.contains(home.instance()) && said.contains(&agent.id().to_string()), "{said}");
        ensure!(said.trim().lines().count() == 1, "{said}");
    }

    ensure!(std::fs::read(home.journal())? == journal, "the journal was changed");
    ensure!(sysctl::get("net.core.wmem_max")? == (8 * 1024 * 1024).to_string());
    let after = Connection::open(wire.a(), wire.b(), to)?;
    let flow = after.near_flow(wire.a())?;
    ensure!(flow.congestion == home.algorithm()?, "{flow:?}");
    ensure!(home.metrics()?.of_path("wad_flows_tuned", "p")? == 2.0);
    [before, after].iter().try_for_each(|connection| connection.exchange(1_000_000))?;
    ensure!(home.command("status").output()?.status.success(), "the first agent is gone");
    agent.stop()?;
    Ok(())
}
