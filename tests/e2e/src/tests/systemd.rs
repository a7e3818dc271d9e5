//! The unit that is shipped, under a real systemd: start, reload, watchdog, restart and stop.

use std::{fs, path::Path, process::Command, thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    newcomers::Newcomers,
    process::{ProcessError, run_command},
    ss::Flow,
    stand::{Stand, until},
    sysctl,
    systemd::Systemd,
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const LIMIT: Duration = Duration::from_secs(20);
pub const SNDBUF_BYTES: usize = 8 * 1024 * 1024;

pub fn path(name: &str, remote: &str) -> String {
    format!(
        "[[path]]\nname = '{name}'\nremote = '{remote}'\nsndbuf = '{SNDBUF_BYTES}'\n\
         rcvbuf = '8MiB'\ncongestion = 'wad_aimd'\n"
    )
}

pub const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/systemd/wad.service");

/// The shipped unit with a program, a configuration and an instance of this test's own.
pub fn systemd(stand: &Stand, home: &Home, more: &str) -> Result<Systemd> {
    let folder = home.folder();
    // A program in somebody's home is hidden from it.
    fs::copy(program()?, folder.join("wad"))?;
    let (at, instance) = (folder.display(), home.instance());
    let drop_in = format!(
        "[Service]\nBindPaths={at}\nStandardError=append:{at}/wad.log\n\
         ExecStart=\nExecStart={at}/wad run --config {at}/wad.toml --instance {instance}\n\
         ExecReload=\nExecReload={at}/wad reload --instance {instance}\n\
         ExecStopPost=\nExecStopPost={at}/wad cleanup --routes --config {at}/wad.toml \
         --instance {instance}\n{more}"
    );
    Ok(Systemd::start(stand.cgroup(), folder, Path::new(UNIT), &drop_in)?)
}

/// Runs `wad SUBCOMMAND` where the agent is.
fn wad(systemd: &Systemd, home: &Home, subcommand: &str) -> Result<String, ProcessError> {
    let mut command: Command = systemd.command(home.folder().join("wad"));
    run_command(command.args([subcommand, "--instance", home.instance()]))
}

pub fn is_tuned(flow: &Flow) -> bool {
    flow.congestion.starts_with("wad_aimd") && flow.sndbuf_bytes == 2 * SNDBUF_BYTES as u64
}

#[e2e(never = "there is no systemd", alone)]
fn a_unit_starts_reloads_and_stops() -> Result<()> {
    let stand = Stand::set_up("unit")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &path("p", ADDRESSES_V4[1]))?;
    let systemd = systemd(&stand, &home, "")?;
    // That it has returned means that all is in force.
    systemd.systemctl(&["start", "wad.service"])?;
    let status = || systemd.property("StatusText");
    ensure!(status()? == "1 path is in force", "{}", status()?);
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let flow = connection.near_flow(wire.a())?;
    ensure!(is_tuned(&flow), "{flow:?}");

    home.write_policy("[[path]]\nname = 'p'\n")?;
    let refused = systemd.systemctl(&["reload", "wad.service"]);
    ensure!(refused.is_err(), "{refused:?}");
    ensure!(status()?.contains("the last reload was not applied"), "{}", status()?);
    ensure!(systemd.property("ActiveState")? == "active");
    let two = path("p", ADDRESSES_V4[1]) + &path("q", "192.0.2.0/24");
    home.write_policy(&two)?;
    systemd.systemctl(&["reload", "wad.service"])?;
    ensure!(status()? == "2 paths are in force", "{}", status()?);
    wad(&systemd, &home, "disable")?;
    ensure!(status()?.ends_with("all paths are disabled"), "{}", status()?);
    wad(&systemd, &home, "enable")?;

    let raised = sysctl::get("net.core.wmem_max")?;
    systemd.systemctl(&["stop", "wad.service"])?;
    ensure!(systemd.property("Result")? == "success", "{}", systemd.property("Result")?);
    ensure!(raised != "212992" && sysctl::get("net.core.wmem_max")? == "212992", "{raised}");
    let flow = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7001))?;
    let flow = flow.near_flow(wire.a())?;
    ensure!(!is_tuned(&flow), "{flow:?}");
    Ok(())
}

/// Says how new connections fare while something is done to the agent.
pub fn with_newcomers(
    meanwhile: impl FnOnce(&Newcomers, &Connection, &Wire) -> Result<()>,
) -> Result<()> {
    let wire = Wire::start()?;
    let listener = tcp::listen(wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let transfer = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7001))?;
    let stream = Newcomers::of(&[SNDBUF_BYTES]);
    thread::scope(|scope| -> Result<()> {
        let stopping = stream.stopping();
        let connecting = scope.spawn(|| stream.run(wire.a(), &listener));
        meanwhile(&stream, &transfer, &wire)?;
        drop(stopping);
        connecting.join().expect("connecting does not panic")?;
        stream.all_tuned()?;
        Ok(())
    })
}

#[e2e(never = "there is no systemd", alone)]
fn a_restart_leaves_no_gap_in_tuning() -> Result<()> {
    let stand = Stand::set_up("unit-restart")?;
    let home = Home::create(&program()?, &path("p", ADDRESSES_V4[1]))?;
    let systemd = systemd(&stand, &home, "")?;
    systemd.systemctl(&["start", "wad.service"])?;
    let restarted = with_newcomers(|stream, transfer, wire| {
        stream.await_more(50)?;
        for _ in 0..3 {
            systemd.systemctl(&["restart", "wad.service"])?;
            stream.await_more(50)?;
        }
        transfer.exchange(1_000_000)?;
        let flow = transfer.near_flow(wire.a())?;
        ensure!(is_tuned(&flow), "{flow:?}");
        Ok(())
    });
    restarted.with_context(|| home.log())
}

/// An address that the host has until this is dropped.
struct LateAddress;

impl LateAddress {
    const ADDRESS: &str = "192.0.2.77";

    fn add() -> Result<Self> {
        Self::change("add")?;
        Ok(Self)
    }

    fn change(verb: &str) -> Result<(), ProcessError> {
        let mut command = Command::new("ip");
        command.args(["address", verb, &format!("{}/32", Self::ADDRESS), "dev", "lo"]);
        run_command(&mut command).map(|_| ())
    }
}

impl Drop for LateAddress {
    fn drop(&mut self) {
        let _ = Self::change("del");
    }
}

/// By default systemd gives up after five starts in ten seconds.
#[e2e(never = "there is no systemd", alone)]
fn a_unit_is_tried_until_an_address_is_there() -> Result<()> {
    let stand = Stand::set_up("unit-late")?;
    let home = Home::create(&program()?, &path("p", ADDRESSES_V4[1]))?;
    let late = format!("listen = \"{}:", LateAddress::ADDRESS);
    let policy = fs::read_to_string(home.config())?.replace("listen = \"127.0.0.1:", &late);
    ensure!(policy.contains(&late), "{policy}");
    fs::write(home.config(), policy)?;
    let systemd = systemd(&stand, &home, "RestartSec=100ms\n")?;
    systemd.systemctl(&["start", "--no-block", "wad.service"])?;
    let restarts = || Ok::<u32, anyhow::Error>(systemd.property("NRestarts")?.parse()?);
    until("it has been tried often", LIMIT, restarts, |count| *count > 6)
        .with_context(|| home.log())?;
    ensure!(home.log().contains("this host has no address"), "{}", home.log());
    let _address = LateAddress::add()?;
    let state = || Ok::<_, anyhow::Error>(systemd.property("ActiveState")?);
    until("it is active", LIMIT, state, |state| state == "active").with_context(|| home.log())?;
    systemd.systemctl(&["stop", "wad.service"])?;
    Ok(())
}

#[e2e(never = "there is no systemd", alone)]
fn an_agent_that_hangs_is_replaced() -> Result<()> {
    let stand = Stand::set_up("unit-watchdog")?;
    let home = Home::create(&program()?, &path("p", ADDRESSES_V4[1]))?;
    let systemd = systemd(&stand, &home, "WatchdogSec=3\nRestartSec=0\n")?;
    systemd.systemctl(&["start", "wad.service"])?;
    with_newcomers(|stream, transfer, wire| {
        stream.await_more(50)?;
        let first = systemd.property("MainPID")?;
        run_command(systemd.command("kill").args(["-STOP", &first]))?;
        let restarts = || Ok::<_, anyhow::Error>(systemd.property("NRestarts")?);
        until("it has been replaced", LIMIT, restarts, |count| count == "1")?;
        let state = || Ok::<_, anyhow::Error>(systemd.property("ActiveState")?);
        until("the next one is ready", LIMIT, state, |state| state == "active")?;
        stream.await_more(50)?;
        ensure!(systemd.property("MainPID")? != first);
        transfer.exchange(1_000_000)?;
        let flow = transfer.near_flow(wire.a())?;
        ensure!(is_tuned(&flow), "{flow:?}");
        Ok(())
    })
}

/// The exposure that systemd sees is at most 3.1 of 10. It takes 0.2 for the list of kernel
/// modules, which may be read.
#[e2e(never = "there is no systemd", beside)]
fn a_unit_has_few_privileges() -> Result<()> {
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--no-pager", "--offline=true", "--threshold=31", UNIT]);
    run_command(&mut command)?;
    Ok(())
}
