//! A running agent puts back, or names, whatever others take off the kernel: programs, laws,
//! pins, the BPF file system, the cgroup. Flows keep their tuning meanwhile.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    cgroup::{Cgroup, Joined},
    command::run,
    foreign::{Foreign, Sharing},
    metrics,
    ss::Flow,
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

/// It is looked every five seconds.
const SOON: Duration = Duration::from_secs(20);

fn policy(sndbuf_bytes: u64) -> String {
    format!(
        "[[path]]\nname = 'p'\nremote = '10.81.0.2'\nsndbuf = '{sndbuf_bytes}'\n\
         congestion = 'wad_aimd'\noverride_setsockopt = true\n"
    )
}

const SNDBUF_BYTES: u64 = 1_000_000;

fn open(wire: &Wire, port: u16) -> Result<Connection> {
    Ok(Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], port))?)
}

fn is_tuned(flow: &Flow, home: &Home) -> Result<bool> {
    Ok(flow.sndbuf_bytes == 2 * SNDBUF_BYTES && flow.congestion == home.algorithm()?)
}

/// Returns the only folder of pins.
fn folder(home: &Home) -> Result<PathBuf> {
    let mut layouts = fs::read_dir(home.pins())?;
    Ok(layouts.next().context("no pins")??.path())
}

fn names(home: &Home) -> Result<Vec<String>> {
    let pins = fs::read_dir(folder(home)?)?;
    let mut names: Vec<_> =
        pins.flatten().map(|pin| pin.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    Ok(names)
}

fn put_back(home: &Home, part: &str) -> Result<f64> {
    let label = format!("part=\"{part}\"");
    let metrics = home.metrics()?;
    ensure!(metrics.value("wad_attached", &[&label]).is_ok(), "{}", metrics.text());
    Ok(metrics.value("wad_reattachments_total", &[&label])?)
}

fn readiness(home: &Home) -> Result<(u16, String)> {
    Ok(metrics::ask(home.metrics_port(), "/-/ready")?)
}

/// Detaches a link; before Linux 6.4, unregisters what has none.
fn detach(home: &Home, pin: &str) -> Result<()> {
    let path = folder(home)?.join(pin);
    let detached = run("bpftool", &["link", "detach", "pinned", &path.to_string_lossy()]);
    if detached.is_err() && pin.starts_with("wad_") {
        run("bpftool", &["struct_ops", "unregister", "name", pin])?;
        return Ok(());
    }
    Ok(detached.map(drop)?)
}

#[e2e(long, beside)]
fn what_others_detach_is_put_back_and_flows_keep_their_tuning() -> Result<()> {
    let stand = Stand::set_up("detach")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(SNDBUF_BYTES))?;
    let agent = home.start(stand.cgroup())?;
    let before = open(&wire, 7000)?;
    before.exchange(1_000_000)?;
    let (law, pins) = (home.algorithm()?, names(&home)?);
    ensure!(readiness(&home)? == (200, "wad is ready.\n".to_owned()));

    for (port, part, pin) in
        [(7001, "tuner", "tuner_link"), (7002, "options", "options_link"), (7003, "laws", &law)]
    {
        detach(&home, pin)?;
        // Nobody may have looked yet, and it is not tuned, or not in full.
        let meanwhile = open(&wire, port)?;
        let look = || -> Result<f64> {
            ensure!(is_tuned(&before.near_flow(wire.a())?, &home)?, "a flow lost its tuning");
            put_back(&home, part)
        };
        until("it is put back", SOON, look, |times| *times == 1.0).context(part)?;
        let after = open(&wire, port + 100)?;
        ensure!(is_tuned(&after.near_flow(wire.a())?, &home)?, "{part}: new flows are not tuned");
        let look = || Ok::<_, anyhow::Error>(meanwhile.near_flow(wire.a())?.sndbuf_bytes);
        until("one from in between is tuned", SOON, look, |bytes| *bytes == 2 * SNDBUF_BYTES)
            .context(part)?;
        [&before, &meanwhile, &after].iter().try_for_each(|flow| flow.exchange(1_000_000))?;
        let look = || Ok::<_, anyhow::Error>(home.log());
        until("it is said", SOON, look, |log| log.contains("it is put back")).context(part)?;
        until("it is ready", SOON, || readiness(&home), |(status, _)| *status == 200)?;
        ensure!(names(&home)? == pins, "{part}: {:?}", names(&home));
    }

    // What was put back is the agent's as much as what it had made.
    agent.stop()?;
    ensure!(!home.pins().exists());
    ensure!(open(&wire, 7010)?.near_flow(wire.a())?.congestion == "cubic");
    Ok(())
}

#[e2e(long, beside)]
fn pins_that_are_removed_end_nothing_and_come_back() -> Result<()> {
    let stand = Stand::set_up("unpin")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(SNDBUF_BYTES))?;
    let agent = home.start(stand.cgroup())?;
    let before = open(&wire, 7000)?;
    let (pins, law) = (names(&home)?, home.algorithm()?);
    fs::remove_dir_all(home.pins())?;
    // At once, before anybody looks.
    let after = open(&wire, 7001)?;
    for flow in [before.near_flow(wire.a())?, after.near_flow(wire.a())?] {
        ensure!(flow.sndbuf_bytes == 2 * SNDBUF_BYTES && flow.congestion == law, "{flow:?}");
    }
    let look = || Ok::<_, anyhow::Error>(names(&home).unwrap_or_default());
    until("all pins are there again", SOON, look, |names| *names == pins)?;
    until("it is counted", SOON, || put_back(&home, "pins"), |times| *times == 1.0)?;
    until("it is ready", SOON, || readiness(&home), |(status, _)| *status == 200)?;

    // They keep what they are for: tuning without an agent, which the next takes over.
    agent.kill()?;
    let alone = open(&wire, 7002)?;
    ensure!(is_tuned(&alone.near_flow(wire.a())?, &home)?);
    let agent = home.start(stand.cgroup())?;
    let matched = home.metrics()?.of_path("wad_connections_matched_total", "p")?;
    ensure!(matched == 3.0, "{matched}");
    [before, after, alone].iter().try_for_each(|flow| flow.exchange(1_000_000))?;
    agent.stop()?;
    ensure!(!home.pins().exists());
    Ok(())
}

#[e2e(long, beside)]
fn an_unmounted_bpf_file_system_ends_nothing_and_is_mounted_again() -> Result<()> {
    let stand = Stand::set_up("unmount")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(SNDBUF_BYTES))?;
    let agent = home.start_in("mount -t bpf bpf /sys/fs/bpf", stand.cgroup())?;
    let process = agent.id().to_string();
    // As the agent sees it.
    let pins = format!("/proc/{process}/root{}", home.pins().display());
    let are_there = || fs::read_dir(&pins).is_ok_and(|mut layouts| layouts.next().is_some());
    ensure!(are_there());
    let before = open(&wire, 7000)?;
    let law = before.near_flow(wire.a())?.congestion;
    ensure!(law.starts_with("wad_aimd"), "{law}");
    let unmount = "umount -l /sys/fs/bpf && while umount -l /sys/fs/bpf 2>/dev/null; do :; done";
    run("nsenter", &["-t", &process, "-m", "sh", "-c", unmount])?;
    ensure!(!are_there());
    let after = open(&wire, 7001)?;
    for flow in [before.near_flow(wire.a())?, after.near_flow(wire.a())?] {
        ensure!(flow.sndbuf_bytes == 2 * SNDBUF_BYTES && flow.congestion == law, "{flow:?}");
    }
    until("the pins are there again", SOON, || Ok::<_, anyhow::Error>(are_there()), |are| *are)?;
    let look = || Ok::<_, anyhow::Error>(home.log());
    until("it is said", SOON, look, |log| log.contains("no BPF file system is mounted"))?;
    until("it is ready", SOON, || readiness(&home), |(status, _)| *status == 200)?;
    [before, after].iter().try_for_each(|flow| flow.exchange(1_000_000))?;
    agent.stop()?;
    ensure!(open(&wire, 7002)?.near_flow(wire.a())?.congestion == "cubic");
    Ok(())
}

#[e2e(long, beside)]
fn a_removed_cgroup_is_said_and_taken_again_when_it_is_made_again() -> Result<()> {
    let _stand = Stand::set_up("removed")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(SNDBUF_BYTES))?;
    let cgroup = Cgroup::create("goes")?;
    let agent = home.start(&cgroup)?;
    ensure!(readiness(&home)?.0 == 200);
    fs::remove_dir(cgroup.path())?;
    let look = || readiness(&home);
    let (_, why) = until("it is not ready", SOON, look, |(status, _)| *status == 503)?;
    let path = cgroup.path().display().to_string();
    ensure!(why.contains(&path) && why.contains("was removed"), "{why}");
    ensure!(why.contains("cannot be put back"), "{why}");
    let metrics = home.metrics()?;
    ensure!(metrics.value("wad_attached", &["part=\"tuner\""])? == 0.0, "{}", metrics.text());
    ensure!(metrics.value("wad_attached", &["part=\"laws\""])? == 1.0, "{}", metrics.text());
    let status = home.command("status").output()?;
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    ensure!(status.contains("detached") && status.contains(&path), "{status}");
    ensure!(home.log().matches("was removed").count() <= 4, "{}", home.log());

    fs::create_dir(cgroup.path())?;
    let before = {
        let _joined = Joined::to(&cgroup)?;
        open(&wire, 7000)?
    };
    until("it is ready again", SOON, look, |(status, _)| *status == 200)?;
    let _joined = Joined::to(&cgroup)?;
    let after = open(&wire, 7001)?;
    ensure!(is_tuned(&after.near_flow(wire.a())?, &home)?);
    // Flows that run are those of the new cgroup from here on: of another policy, too.
    for sndbuf_bytes in [SNDBUF_BYTES, 3_000_000] {
        home.reload(&policy(sndbuf_bytes))?;
        for flow in [&before, &after] {
            let look = || Ok::<_, anyhow::Error>(flow.near_flow(wire.a())?.sndbuf_bytes);
            until("it is brought along", SOON, look, |bytes| *bytes == 2 * sndbuf_bytes)?;
        }
    }
    [before, after].iter().try_for_each(|flow| flow.exchange(1_000_000))?;
    agent.stop()?;
    Ok(())
}

#[e2e(long, beside)]
fn whoever_is_in_the_way_of_putting_it_back_is_named() -> Result<()> {
    let stand = Stand::set_up("way")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy(SNDBUF_BYTES))?;
    let agent = home.start(stand.cgroup())?;
    let before = open(&wire, 7000)?;
    // The agent may be faster than they are.
    let attach = || -> Result<Option<Foreign>> {
        detach(&home, "tuner_link")?;
        Ok(Foreign::attach(stand.cgroup(), Sharing::Exclusive, c"only_theirs", 5).ok())
    };
    let mut theirs = None;
    until(
        "they are there alone",
        SOON,
        || {
            theirs = attach()?;
            Ok::<_, anyhow::Error>(theirs.is_some())
        },
        |are| *are,
    )?;
    let look = || readiness(&home);
    let (_, why) = until("it is not ready", SOON, look, |(status, _)| *status == 503)?;
    ensure!(why.contains("only_theirs") && why.contains("exclusively"), "{why}");
    ensure!(is_tuned(&before.near_flow(wire.a())?, &home)?, "a flow lost its tuning");
    drop(theirs);
    until("it is ready again", SOON, look, |(status, _)| *status == 200)?;
    ensure!(is_tuned(&open(&wire, 7001)?.near_flow(wire.a())?, &home)?);
    agent.stop()?;
    Ok(())
}
