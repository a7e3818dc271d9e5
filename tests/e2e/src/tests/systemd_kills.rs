//! The agent is killed at any moment, again and again, under a real systemd that starts it
//! again: no connection is refused or reset, and none is untuned.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    process::run_command,
    random::Random,
    signal,
    stand::{Stand, until},
    sysctl,
    systemd::Systemd,
    tcp::Connection,
    veth::ADDRESSES_V4,
    wad::{Home, program},
};

use crate::amount;

use super::systemd::{is_tuned, path, systemd, with_newcomers};

const LIMIT: Duration = Duration::from_secs(360);
const SOON: Duration = Duration::from_secs(30);
const ROOM: &str = "net.core.wmem_max";

/// It is started again at once.
const AT_ONCE: &str = "RestartSec=0\n";

fn restarts(systemd: &Systemd) -> Result<u64> {
    Ok(systemd.property("NRestarts")?.parse()?)
}

/// Kills whatever there is of the service, at random moments of its start and work and of what
/// follows its end, until it has been started again so often.
fn kill_at_any_moment(systemd: &Systemd, start: Duration) -> Result<()> {
    let wanted = amount::of(25, 200);
    let mut random = Random::new(1);
    let begun = Instant::now();
    let longest_us = u64::try_from(2 * start.as_micros())?;
    while restarts(systemd)? < wanted {
        signal::sleep(Duration::from_micros(random.up_to(longest_us)))?;
        // There may be nobody just now.
        let _ = systemd.systemctl(&["kill", "--signal=KILL", "wad.service"]);
        ensure!(begun.elapsed() < LIMIT, "{} restarts by now", restarts(systemd)?);
    }
    println!("{wanted} restarts in {:?}, a start takes {start:?}", begun.elapsed());
    Ok(())
}

/// Sends both ways until told to end; every byte is looked at.
fn transfer_until(ended: &AtomicBool, transfer: &Connection) -> Result<u64> {
    let mut rounds = 0;
    while !ended.load(Ordering::Relaxed) {
        transfer.exchange(1_000_000)?;
        rounds += 1;
    }
    Ok(rounds)
}

#[e2e(never = "there is no systemd", alone)]
fn no_connection_suffers_from_kills_at_any_moment() -> Result<()> {
    let stand = Stand::set_up("unit-kills")?;
    let home = Home::create(&program()?, &path("p", ADDRESSES_V4[1]))?;
    let systemd = systemd(&stand, &home, AT_ONCE)?;
    systemd.systemctl(&["start", "wad.service"])?;
    // What a start takes that finds tuning in the kernel.
    let begun = Instant::now();
    systemd.systemctl(&["restart", "wad.service"])?;
    let start = begun.elapsed();
    let killed = with_newcomers(|stream, transfer, wire| {
        let ended = AtomicBool::new(false);
        thread::scope(|scope| -> Result<()> {
            let transferring = scope.spawn(|| transfer_until(&ended, transfer));
            let killed = kill_at_any_moment(&systemd, start);
            ended.store(true, Ordering::Relaxed);
            let rounds = transferring.join().expect("transferring does not panic")?;
            killed?;
            println!("{rounds} MB each way, {stream:?}");
            Ok(())
        })?;
        let state = || Ok::<_, anyhow::Error>(systemd.property("ActiveState")?);
        until("the last one is ready", SOON, state, |state| state == "active")?;
        stream.await_more(50)?;
        let flow = transfer.near_flow(wire.a())?;
        ensure!(is_tuned(&flow), "{flow:?}");
        Ok(())
    });
    killed.with_context(|| home.log())?;

    systemd.systemctl(&["stop", "wad.service"])?;
    run_command(systemd.command("test").args(["!", "-e", "/sys/fs/bpf/wad"]))?;
    ensure!(!home.journal().exists() && sysctl::get(ROOM)? == "212992", "{}", home.log());
    Ok(())
}
