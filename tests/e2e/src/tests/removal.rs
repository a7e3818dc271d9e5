//! These tests see that what an agent changed on the host is undone, and nothing of it
//! stays in the kernel: after a clean stop, after a kill and `wad cleanup`, and with
//! journals as a power cut leaves them.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    inventory::Inventory,
    stand::{Stand, until},
    sysctl,
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

use crate::amount;

const SOON: Duration = Duration::from_secs(10);
const RMEM_MAX: &str = "net.core.rmem_max";
const WMEM_MAX: &str = "net.core.wmem_max";
/// The stand's ceilings are `LOW`, and the policy asks for `RAISED`.
const LOW: &str = "212992";
const RAISED: &str = "8388608";

const POLICY: &str = "[[path]]\nname = 'p'\nremote = '10.81.0.0/16'\nsndbuf = '8MiB'\n\
                      rcvbuf = '8MiB'\ncongestion = 'wad_aimd'\n";

fn ceilings() -> Result<[String; 2]> {
    Ok([sysctl::get(RMEM_MAX)?, sysctl::get(WMEM_MAX)?])
}

/// Runs `wad cleanup`, which may warn but not fail.
fn cleanup(home: &Home) -> Result<String> {
    let output = home.command("cleanup").output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success() && !said.contains("panicked"), "wad cleanup: {said}");
    Ok(said)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    By(Signal),
    KillAndCleanup,
}

#[e2e(long, alone)]
fn every_end_takes_everything_out_and_flows_go_on() -> Result<()> {
    let stand = Stand::set_up("end")?;
    let wire = Wire::start()?;
    let to = at(ADDRESSES_V4[1], 7000);
    for end in [End::By(Signal::SIGTERM), End::By(Signal::SIGINT), End::KillAndCleanup] {
        let before = Inventory::take()?;
        let home = Home::create(&program()?, POLICY)?;
        let agent = home.start(stand.cgroup())?;
        let made = Inventory::take()?.since(&before);
        let algorithm = home.algorithm()?;
        for kind in ["prog", "map", "link"] {
            ensure!(made.has(kind, ""), "no {kind} was made:\n{made}");
        }
        ensure!(made.has("congestion control", &algorithm), "{algorithm} is not in:\n{made}");
        ensure!(ceilings()? == [RAISED, RAISED], "{:?}", ceilings()?);
        let connection = Connection::open(wire.a(), wire.b(), to)?;
        connection.exchange(3_000_000)?;

        match end {
            End::By(signal) => {
                let took = agent.stop_by(signal)?;
                ensure!(took < Duration::from_secs(1), "{end:?} took {took:?}");
            }
            End::KillAndCleanup => {
                agent.kill()?;
                ensure!(home.pins().exists() && ceilings()? == [RAISED, RAISED]);
                cleanup(&home)?;
            }
        }
        ensure!(ceilings()? == [LOW, LOW], "{end:?}: {:?}", ceilings()?);
        ensure!(!home.pins().exists() && !home.journal().exists(), "{end:?} leaves files");
        // The flow keeps what it has, a new one gets nothing.
        for flow in [connection.near_flow(wire.a())?, connection.far_flow(wire.b())?] {
            ensure!(flow.congestion == algorithm, "{end:?}: {flow:?}");
        }
        connection.exchange(3_000_000)?;
        let next = Connection::open(wire.a(), wire.b(), to)?;
        ensure!(next.near_flow(wire.a())?.congestion == "cubic");
        drop((connection, next));

        let left = || -> Result<String> { Ok(made.still_in(&Inventory::take()?).to_string()) };
        until("nothing stays in the kernel", SOON, left, String::is_empty)?;
    }
    Ok(())
}

#[e2e(long, alone)]
fn what_someone_else_set_is_left_and_reported() -> Result<()> {
    let stand = Stand::set_up("other")?;
    let home = Home::create(&program()?, POLICY)?;
    let agent = home.start(stand.cgroup())?;
    sysctl::set(RMEM_MAX, "9999999")?;
    agent.stop()?;
    ensure!(ceilings()? == ["9999999", LOW], "{:?}", ceilings()?);
    let log = home.log();
    let report = log.lines().find(|line| line.contains(RMEM_MAX)).context(log.clone())?;
    ensure!(report.contains("9999999") && report.contains(RAISED), "{report}");
    Ok(())
}

/// Leaves what a killed agent leaves, with another journal.
fn crash(stand: &Stand, home: &Home, journal: impl Fn(&[u8]) -> Vec<u8>) -> Result<Vec<u8>> {
    sysctl::set(RMEM_MAX, LOW)?;
    sysctl::set(WMEM_MAX, LOW)?;
    home.start(stand.cgroup())?.kill()?;
    let whole = fs::read(home.journal())?;
    let kept = journal(&whole);
    fs::write(home.journal(), &kept)?;
    Ok(kept)
}

/// Returns what the ceilings have to be after a journal was undone: as before where a
/// whole line tells of it.
fn expected(journal: &[u8]) -> [&'static str; 2] {
    let settings: Vec<String> = journal
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter_map(|line| Some(line["change"]["sysctl"]["key"].as_str()?.to_owned()))
        .collect();
    [RMEM_MAX, WMEM_MAX]
        .map(|name| if settings.iter().any(|set| set == name) { LOW } else { RAISED })
}

#[e2e(never = "a journal fares alike with any kernel, and this takes a hundred agents", alone)]
fn journals_after_a_power_cut() -> Result<()> {
    let stand = Stand::set_up("journal")?;
    let home = Home::create(&program()?, POLICY)?;
    let whole = crash(&stand, &home, <[u8]>::to_vec)?;
    ensure!(expected(&whole) == [LOW, LOW], "{}", String::from_utf8_lossy(&whole));
    let line = whole.iter().position(|byte| *byte == b'\n').context("no line")? + 1;
    let cuts =
        [line - 1, line, whole.len() - 1, 0, 1, line / 2, line + 1, (line + whole.len()) / 2];
    for cut in cuts.into_iter().take(amount::of(3, cuts.len())) {
        // Cut short; or as long as it was, with zeros for what was not written.
        for zeros in [false, true] {
            let cut_at = |journal: &[u8]| {
                let zeros = if zeros { journal.len() - cut } else { 0 };
                [&journal[..cut], &vec![0; zeros]].concat()
            };
            let kept = crash(&stand, &home, cut_at)?;
            cleanup(&home).with_context(|| format!("{cut} bytes, zeros: {zeros}"))?;
            ensure!(ceilings()? == expected(&kept), "{cut} bytes: {:?}", ceilings()?);
            ensure!(!home.pins().exists(), "{cut} bytes: the tuning is still there");

            crash(&stand, &home, cut_at)?;
            let agent = home.start(stand.cgroup())?;
            ensure!(ceilings()? == [RAISED, RAISED], "{cut} bytes: {:?}", ceilings()?);
            agent.stop().with_context(|| format!("{cut} bytes, zeros: {zeros}"))?;
            ensure!(ceilings()? == expected(&kept), "{cut} bytes: {:?}", ceilings()?);
            ensure!(!home.pins().exists(), "{cut} bytes: the tuning is still there");
            ensure!(!home.log().contains("panicked"), "{}", home.log());
        }
    }
    Ok(())
}

#[e2e(long, alone)]
fn a_journal_of_another_boot_undoes_nothing() -> Result<()> {
    let stand = Stand::set_up("boot")?;
    let home = Home::create(&program()?, POLICY)?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let other = "00000000-0000-4000-8000-000000000000";
    crash(&stand, &home, |journal| {
        String::from_utf8_lossy(journal).replace(boot.trim(), other).into_bytes()
    })?;
    cleanup(&home)?;
    ensure!(ceilings()? == [RAISED, RAISED], "{:?}", ceilings()?);
    ensure!(!home.pins().exists() && !home.journal().exists());
    Ok(())
}

#[e2e(long, alone)]
fn cleanup_works_whatever_has_become_of_the_configuration() -> Result<()> {
    let stand = Stand::set_up("edited")?;
    let home = Home::create(&program()?, POLICY)?;
    let gone = "[[path]]\nname = 'p'\nremote = '10.81.0.0/16'\ncongestion = 'gone'\n";
    for change in ["refused", "elsewhere", "removed"] {
        home.write_policy(POLICY)?;
        home.start(stand.cgroup())?.kill()?;
        match change {
            "refused" => home.write_policy(gone)?,
            "elsewhere" => fs::write(home.config(), "[agent]\nstate_dir = '/nowhere'\n")?,
            _ => fs::remove_file(home.config())?,
        }
        cleanup(&home).context(change)?;
        ensure!(ceilings()? == [LOW, LOW], "{change}: {:?}", ceilings()?);
        ensure!(!home.pins().exists() && !home.journal().exists(), "{change}: files are left");
    }

    // With no agent's note, what is in the kernel goes all the same.
    home.write_policy(gone)?;
    let output = home.command("cleanup").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && said.contains("state_dir"), "{said}");
    home.write_policy(POLICY)?;
    Ok(())
}

#[e2e(long, alone)]
fn a_damaged_journal_is_told_of_and_kept() -> Result<()> {
    let stand = Stand::set_up("damaged")?;
    let home = Home::create(&program()?, POLICY)?;
    let kept = crash(&stand, &home, |journal| [b"garbage\n", journal].concat())?;
    let output = home.command("cleanup").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "{said}");
    for word in ["line 1 of", RMEM_MAX, WMEM_MAX, ".damaged"] {
        ensure!(said.contains(word), "{word} is not in ({}): {said}", output.status);
    }
    ensure!(fs::read(home.journal().with_extension("jsonl.damaged"))? == kept);
    ensure!(ceilings()? == [LOW, LOW] && !home.pins().exists() && !home.journal().exists());
    // Told of once.
    cleanup(&home)?;
    Ok(())
}
