//! Programs that measure paths run inside the shipped unit, under a real systemd.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    netns::Netns,
    process::{Place, Process},
    stand::{Stand, until},
    sysctl::Changed,
    systemd::Systemd,
    tcp::await_listener,
    wad::{Home, program},
};

use super::systemd::systemd;
use crate::alone::runs;

const IPERF3: u16 = 5299;
const ANSWERER: u16 = 4899;
const SOON: Duration = Duration::from_secs(10);

/// It tells of itself what an intruder would ask for, and leaves somebody behind.
const SCRIPT: &str = r#"#!/bin/sh
sleep 600 &
grep -q 'NoNewPrivs:.*1' /proc/self/status || exit 3
printf '{"rtt": {"samples": 1, "min_seconds": 1e-3, "median_seconds": 1e-3, "max_seconds": 1e-3}}'
"#;

fn policy(home: &str) -> String {
    let task = |name: &str, tool: &str| {
        format!("[[probe.task]]\nname = '{name}'\nhost = '127.0.0.1'\nevery = '1h'\n{tool}\n")
    };
    format!("[probe]\nanswer = '127.0.0.1:{ANSWERER}'\nanswer_to = '127.0.0.1'\n")
        + &task("ping", "tool = 'ping'\ncount = 3\ninterval = '10ms'")
        + &task("iperf3", &format!("tool = 'iperf3'\nport = {IPERF3}\ntime = '1s'"))
        + &task("command", &format!("tool = 'command'\ncommand = ['{home}/measure']"))
        + &task("bandwidth", &format!("tool = 'bandwidth'\nport = {ANSWERER}\nmax_bytes = '64MiB'"))
        + &task("rtt", "tool = 'rtt'\ncount = 3\ninterval = '10ms'")
}

/// Runs a server of iperf3 on this host's loopback.
fn serve() -> Result<Process> {
    let mut server = Command::new("iperf3");
    server.args(["--server", "--bind", "127.0.0.1", "--port", &IPERF3.to_string()]);
    server.stdin(Stdio::null()).stdout(Stdio::null());
    let server = Place::default().spawn(server)?;
    await_listener(&Netns::own("own")?, IPERF3)?;
    Ok(server)
}

/// Returns the processes of the unit beside the agent.
fn others(systemd: &Systemd) -> Result<Vec<String>> {
    let agent = systemd.property("MainPID")?;
    let group = systemd.property("ControlGroup")?;
    let mut cat = systemd.command("cat");
    let output = cat.arg(format!("/sys/fs/cgroup{group}/cgroup.procs")).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(text.lines().any(|line| line == agent), "{agent} in {text:?}");
    Ok(text.lines().filter(|line| *line != agent).map(str::to_owned).collect())
}

#[e2e(never = "there is no systemd", alone)]
fn tools_measure_inside_the_unit_and_leave_nothing_behind() -> Result<()> {
    let stand = Stand::set_up("unit-probes")?;
    let _may_ping = Changed::to("net.ipv4.ping_group_range", "0 2147483647")?;
    let home = Home::create(&program()?, "")?;
    home.write_policy(&policy(&home.folder().display().to_string()))?;
    let script = home.folder().join("measure");
    fs::write(&script, SCRIPT)?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))?;
    let _server = serve()?;
    let systemd = systemd(&stand, &home, "")?;
    systemd.systemctl(&["start", "wad.service"]).with_context(|| home.log())?;
    for task in ["ping", "iperf3", "command", "bandwidth", "rtt"] {
        let mut now = systemd.command(home.folder().join("wad"));
        now.args(["probe", "now", task, "--json", "--instance", home.instance()]);
        let output = now.output()?;
        ensure!(output.status.success(), "{task}: {output:?} {}", home.log());
        let measured = &runs(&output)?[0]["measured"];
        let has = |what: &str| !measured[what].is_null();
        ensure!(has("rtt") || has("bandwidth"), "{task}: {measured}");
    }
    until("no program is left", SOON, || others(&systemd), Vec::is_empty)?;
    systemd.systemctl(&["stop", "wad.service"])?;
    ensure!(systemd.property("Result")? == "success", "{}", home.log());
    Ok(())
}
