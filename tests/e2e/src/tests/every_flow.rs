//! Connections on no path are shown to whoever asks for them, and get nothing by it.

use std::{slice, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    process::run_command,
    sending::while_sending,
    signal,
    stand::Stand,
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

const ON_PATH: u16 = 7000;
const ON_NONE: u16 = 7001;

/// Both ends of the connections to one port, of both families.
fn policy() -> String {
    let remote = ["10.81.0.0/16", "fd81::/16"];
    let path = |name: &str, key: &str| {
        format!("[[path]]\nname = '{name}'\nremote = {remote:?}\n{key} = {ON_PATH}\n")
    };
    path("out", "remote_port") + &path("in", "local_port")
}

fn flows(home: &Home, arguments: &[&str]) -> Result<Vec<Value>> {
    let output = run_command(home.command("flows").arg("--json").args(arguments))?;
    let mut reading: Value = serde_json::from_str(&output)?;
    Ok(serde_json::from_value(reading["flows"].take())?)
}

/// Returns the flow that has this port here.
fn of_port(flows: &[Value], port: u16) -> Result<&Value> {
    let end = format!(":{port}");
    let found =
        flows.iter().find(|flow| flow["local"].as_str().is_some_and(|it| it.ends_with(&end)));
    found.with_context(|| format!("no flow from {port} in {flows:?}"))
}

#[e2e(long, beside)]
fn connections_on_no_path_are_shown_to_who_asks() -> Result<()> {
    let stand = Stand::set_up("every-flow")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &policy())?;
    let agent = home.start(stand.cgroup())?;
    let own = u64::from(std::process::id());
    let mut on_none = Vec::new();
    let mut on_path = Vec::new();
    for address in [ADDRESSES_V4[1], ADDRESSES_V6[1]] {
        on_path.push(Connection::open(wire.a(), wire.b(), at(address, ON_PATH))?);
        on_none.push(Connection::open(wire.a(), wire.b(), at(address, ON_NONE))?);
    }

    let usual = flows(&home, &[])?;
    ensure!(usual.len() == 4 && usual.iter().all(|flow| flow["outcome"] == "tuned"), "{usual:?}");
    let all = flows(&home, &["--all"])?;
    ensure!(all.len() == 8, "{all:?}");
    for connection in &on_none {
        let flow = of_port(&all, connection.near.local_addr()?.port())?;
        ensure!(flow["outcome"] == "no_path" && flow["path"] == "", "{flow}");
        ensure!(flow["owner"]["pid"] == own && flow["owner"]["uid"] == 0, "{flow}");
        let by_ss = connection.near_flow(wire.a())?;
        ensure!(flow["congestion"] == by_ss.congestion, "{flow} {by_ss:?}");
        let instruments = &flow["instruments"];
        ensure!(instruments["SndBuf"] == by_ss.sndbuf_bytes, "{flow} {by_ss:?}");
        ensure!(instruments["CurMSS"] == by_ss.mss_bytes, "{flow} {by_ss:?}");
    }
    // The filters hold for them.
    ensure!(flows(&home, &["--all", "--pid", &own.to_string()])?.len() == 8);
    ensure!(flows(&home, &["--all", "--process", "nobody"])?.is_empty());
    ensure!(flows(&home, &["--all", "--remote", ADDRESSES_V6[1]])?.len() == 2);

    // Nothing is kept of them: the next answer is as before, and so are the counts.
    ensure!(flows(&home, &[])?.len() == 4);
    let metrics = home.metrics()?;
    let matched = ["out", "in"].map(|path| metrics.of_path("wad_connections_matched_total", path));
    ensure!(matched.iter().all(|flows| matches!(flows, Ok(2.0))), "{matched:?}");

    // What limits one, and how fast it is.
    let sending = &on_none[0];
    let to = at(ADDRESSES_V4[1], ON_NONE).to_string();
    while_sending(slice::from_ref(sending), || -> Result<()> {
        signal::sleep(Duration::from_millis(300))?;
        let mut command = home.command("diagnose");
        let told = run_command(command.args([&to, "--all", "--seconds", "1", "--json"]))?;
        let told: Value = serde_json::from_str(&told)?;
        let diagnosis = &told["flows"][0];
        let rate = diagnosis["bits_per_second"].as_f64().context("a rate")?;
        ensure!(rate > 1e6 && diagnosis["path"] == "", "{told}");
        let mut command = home.command("diagnose");
        let page = run_command(command.args([&to, "--all", "--seconds", "1"]))?;
        ensure!(page.contains(", no path, ") && page.contains("limited by"), "{page}");
        Ok(())
    })?;
    agent.stop()?;
    Ok(())
}
