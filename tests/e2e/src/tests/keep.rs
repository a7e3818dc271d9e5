//! The agent stops and the tuning stays: with nobody there, under the next agent, be
//! it of another version, and until `wad cleanup`.

use std::{ffi::OsString, fs, sync::atomic::Ordering, thread, time::Duration};

use anyhow::{Result, ensure};
use nix::sys::socket::{setsockopt, sockopt};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    another_build,
    inventory::Inventory,
    kernel,
    newcomers::Newcomers,
    ss::Flow,
    stand::{Stand, until},
    sysctl,
    tcp::{self, Connection, at},
    transfers::Transfers,
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const SNDBUF_BYTES: usize = 2 * 1024 * 1024;
const SOON: Duration = Duration::from_secs(10);
const TRANSFERS: u16 = 50;
/// Connections to this port have options of their own that do not count.
const HELD_PORT: u16 = 7100;

/// Other policies give buffers of this size.
const NEXT_BYTES: usize = 3 * 1024 * 1024;
const LAST_BYTES: usize = 4 * 1024 * 1024;

fn policy(sndbuf_bytes: usize) -> String {
    // Only the ends that connect: the others' peer is 10.81.0.1.
    format!(
        "[limits]\nmax_memory = '1GiB'\n[[path]]\nname = 'held'\nremote = '10.81.0.2'\n\
         remote_port = {HELD_PORT}\nsndbuf = {sndbuf_bytes}\noverride_setsockopt = true\n\
         [[path]]\nname = 'p'\nremote = '10.81.0.2'\nsndbuf = {sndbuf_bytes}\n\
         rcvbuf = '2MiB'\ncongestion = 'wad_aimd'\n"
    )
}

/// Checks that all flows have what a policy gives.
fn check_tuned(flows: &[Flow], algorithm: &str, sndbuf_bytes: usize) -> Result<()> {
    ensure!(flows.len() == usize::from(TRANSFERS), "{} transfers", flows.len());
    for flow in flows {
        ensure!(flow.congestion == algorithm, "{flow:?}");
        ensure!(flow.sndbuf_bytes == 2 * sndbuf_bytes as u64, "{flow:?}");
    }
    Ok(())
}

fn ceiling() -> Result<String> {
    Ok(sysctl::get("net.core.wmem_max")?)
}

#[e2e(long, alone)]
fn tuning_that_is_kept_goes_on_until_the_next_agent_takes_over() -> Result<()> {
    let stand = Stand::set_up("keep")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(SNDBUF_BYTES))?;
    home.keep_on_exit(true);
    home.write_policy(&policy(SNDBUF_BYTES))?;
    let agent = home.start(stand.cgroup())?;
    let algorithm = home.algorithm()?;
    let listener = tcp::listen(wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let transfers = Transfers::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7001), TRANSFERS)?;
    let newcomers = Newcomers::of(&[SNDBUF_BYTES]);

    thread::scope(|scope| -> Result<()> {
        let stopping = newcomers.stopping();
        let connecting = scope.spawn(|| newcomers.run(wire.a(), &listener));
        let transferring = scope.spawn(|| transfers.run(&newcomers.stop));
        newcomers.await_more(100)?;
        agent.stop()?;
        ensure!(home.log().contains("tuning stays in the kernel"), "{}", home.log());
        ensure!(home.pins().exists() && home.journal().exists(), "it was taken out");
        ensure!(ceiling()? == SNDBUF_BYTES.to_string(), "{}", ceiling()?);
        newcomers.await_more(100)?;

        let second = home.start(stand.cgroup())?;
        ensure!(home.log().contains("took over the tuning"), "{}", home.log());
        newcomers.await_more(100)?;
        second.kill()?;
        newcomers.await_more(100)?;
        let third = home.start(stand.cgroup())?;
        newcomers.await_more(100)?;
        drop(stopping);
        connecting.join().expect("connecting does not panic")?;
        let rounds = transferring.join().expect("transferring does not panic")?;
        ensure!(rounds > 1, "a transfer did not last through all of it");
        let tuned = newcomers.all_tuned()?;
        println!("{tuned} connections tuned; {rounds} rounds of transfers");

        check_tuned(&transfers.near_flows(wire.a())?, &algorithm, SNDBUF_BYTES)?;
        // By whichever agent, or while there was none.
        let all = tuned as f64 + f64::from(TRANSFERS);
        let metrics = home.metrics()?;
        for name in ["wad_connections_matched_total", "wad_flows_opened_total"] {
            let count = metrics.of_path(name, "p")?;
            ensure!(count == all, "{name}: {count} of {all}");
        }
        ensure!(metrics.of_path("wad_flows_tuned", "p")? == f64::from(TRANSFERS));
        third.stop()?;
        Ok(())
    })
}

#[e2e(long, alone)]
fn what_was_kept_is_removed_by_a_cleanup_or_by_a_changed_mind() -> Result<()> {
    let stand = Stand::set_up("kept")?;
    let before = ceiling()?;
    let home = Home::create(&program()?, &policy(SNDBUF_BYTES))?;
    home.keep_on_exit(true);
    home.write_policy(&policy(SNDBUF_BYTES))?;
    home.start(stand.cgroup())?.stop()?;
    ensure!(home.pins().exists() && ceiling()? == SNDBUF_BYTES.to_string());

    // Until all is undone the folder counts that has the journal, whatever the file says.
    let moved = fs::read_to_string(home.config())?.replace("/state\"", "/other\"");
    fs::write(home.config(), moved)?;
    home.start(stand.cgroup())?.stop()?;
    ensure!(home.log().contains("/state stays in use"), "{}", home.log());
    ensure!(home.journal().exists() && !home.folder().join("other").exists());
    home.write_policy(&policy(SNDBUF_BYTES))?;

    let output = home.command("cleanup").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ensure!(!home.pins().exists() && !home.journal().exists() && ceiling()? == before);

    let agent = home.start(stand.cgroup())?;
    home.keep_on_exit(false);
    home.write_policy(&policy(SNDBUF_BYTES))?;
    let look = || Ok::<_, anyhow::Error>(home.log());
    until("the change is taken", SOON, look, |log| log.contains("set agent.on_exit"))?;
    agent.stop()?;
    ensure!(!home.pins().exists() && !fs::exists(home.journal())?, "{}", home.log());
    ensure!(ceiling()? == before, "{}", ceiling()?);
    Ok(())
}

/// Returns the folders, of which there is one for each build whose maps are in the
/// kernel.
fn builds(home: &Home) -> Result<Vec<OsString>> {
    let folders = fs::read_dir(home.pins())?;
    Ok(folders.map(|folder| Ok(folder?.file_name())).collect::<std::io::Result<_>>()?)
}

#[e2e(long, alone)]
fn another_version_takes_over_what_runs() -> Result<()> {
    let stand = Stand::set_up("upgrade")?;
    let wire = Wire::start()?;
    let before = Inventory::take()?;
    let old = program()?;
    let mut home = Home::create(&old, &policy(SNDBUF_BYTES))?;
    let new = home.folder().join("wad-next");
    another_build::make(&old, &new)?;
    home.keep_on_exit(true);
    home.write_policy(&policy(SNDBUF_BYTES))?;
    let agent = home.start(stand.cgroup())?;
    let algorithm = home.algorithm()?;
    let old_builds = builds(&home)?;
    let of_old = Inventory::take()?.since(&before);
    let listener = tcp::listen(wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let transfers = Transfers::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7001), TRANSFERS)?;
    let held = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], HELD_PORT))?;
    let newcomers = Newcomers::of(&[SNDBUF_BYTES, NEXT_BYTES, LAST_BYTES]);
    agent.stop()?;
    home.change_program(&new);
    home.write_policy(&policy(NEXT_BYTES))?;

    thread::scope(|scope| -> Result<()> {
        let stopping = newcomers.stopping();
        let connecting = scope.spawn(|| newcomers.run(wire.a(), &listener));
        let transferring = scope.spawn(|| transfers.run(&newcomers.stop));
        newcomers.await_more(100)?;
        let agent = home.start(stand.cgroup())?;
        ensure!(home.log().contains("of another version of wad"), "{}", home.log());
        check_tuned(&transfers.near_flows(wire.a())?, &algorithm, NEXT_BYTES)?;
        setsockopt(&held.near, sockopt::SndBuf, &65_536)?;
        let flow = held.near_flow(wire.a())?;
        ensure!(flow.sndbuf_bytes == 2 * NEXT_BYTES as u64, "{flow:?}");
        newcomers.await_more(100)?;

        // They are the new one's now: it can change them.
        home.write_policy(&policy(LAST_BYTES))?;
        let look = || Ok::<_, anyhow::Error>(transfers.near_flows(wire.a())?);
        let is_last = |flow: &Flow| flow.sndbuf_bytes == 2 * LAST_BYTES as u64;
        until("the transfers follow", SOON, look, |flows| flows.iter().all(is_last))?;
        newcomers.await_more(100)?;
        drop(stopping);
        connecting.join().expect("connecting does not panic")?;
        let rounds = transferring.join().expect("transferring does not panic")?;
        ensure!(rounds > 1, "a transfer did not last through all of it");
        println!("{newcomers:?}; {rounds} rounds of transfers");
        if kernel::laws_are_replaced_at_once()? {
            newcomers.all_tuned()?;
        }
        ensure!(newcomers.untuned.load(Ordering::Relaxed) == 0, "{newcomers:?}");

        check_tuned(&transfers.near_flows(wire.a())?, &algorithm, LAST_BYTES)?;
        let flows_tuned = home.metrics()?.of_path("wad_flows_tuned", "p")?;
        ensure!(flows_tuned == f64::from(TRANSFERS), "{flows_tuned} flows tuned");
        let new_builds = builds(&home)?;
        ensure!(new_builds.len() == 1 && new_builds != old_builds, "{new_builds:?}");
        // Its links and its law's name are the new one's; programs and maps are gone.
        let left = || Ok::<_, anyhow::Error>(of_old.still_in(&Inventory::take()?));
        let is_gone = |left: &Inventory| !left.has("prog", "") && !left.has("map", "");
        until("the old version's programs and maps are gone", SOON, left, is_gone)?;

        // What the old one gave is no choice of the application's to go back to.
        let output = home.command("disable").output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let flows = transfers.near_flows(wire.a())?;
        ensure!(flows.iter().all(|flow| flow.congestion == "cubic"), "{flows:?}");
        agent.stop()?;
        Ok(())
    })
}
