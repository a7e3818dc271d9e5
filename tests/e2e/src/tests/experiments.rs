//! Experiments on paths: in turn, new connections get the policy and the kernel's defaults; those
//! that run keep what they have, and no other policy set comes into force for it.

use std::{process::Output, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

/// Two blocks, the wait for the first one, and some for a busy machine.
pub const SOON: Duration = Duration::from_secs(20);
const PORT: u16 = 7000;

/// The first of two blocks of this seed is the one with the policy.
pub const EXPERIMENT: &str = "[path.experiment]\nblock = '2s'\nflow_life = '50ms'\n\
                          burn_in = '500ms'\nseed = 0\nends = 'time'\n";

pub fn path(keys: &str) -> String {
    format!(
        "[[path]]\nname = 'bob'\nremote = '{}'\nremote_port = {PORT}\nsndbuf = '400000'\n\
         congestion = 'wad_aimd'\ninitial_receive_window = 40\n{keys}\n",
        ADDRESSES_V4[1]
    )
}

pub fn open(wire: &Wire) -> Result<Connection> {
    Ok(Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?)
}

pub fn is_tuned(wire: &Wire, connection: &Connection) -> Result<bool> {
    let flow = connection.near_flow(wire.a())?;
    let tuned = flow.congestion.starts_with("wad_aimd");
    ensure!(tuned == (flow.sndbuf_bytes == 800_000), "half tuned: {flow:?}");
    Ok(tuned)
}

/// Waits for a new connection that is tuned, or is not, and returns it.
fn new_one(wire: &Wire, wanted: bool) -> Result<Connection> {
    let mut last = None;
    let look = || {
        let connection = open(wire)?;
        connection.exchange(1_000)?;
        let tuned = is_tuned(wire, &connection)?;
        last = Some(connection);
        Ok::<_, anyhow::Error>(tuned)
    };
    until("a new connection gets the other", SOON, look, |tuned| *tuned == wanted)?;
    last.context("one was opened")
}

pub fn json(home: &Home, words: &[&str]) -> Result<Value> {
    let (command, rest) = words.split_first().context("no command")?;
    let Output { status, stdout, stderr } =
        home.command(command).args(rest).arg("--json").output()?;
    ensure!(status.success(), "{words:?}: {}", String::from_utf8_lossy(&stderr));
    Ok(serde_json::from_slice(&stdout)?)
}

/// Returns what has been counted so far. A connection is made for it that ends within its block.
pub fn counts(home: &Home, wire: &Wire) -> Result<Value> {
    open(wire)?.exchange(1_000)?;
    Ok(json(home, &["report"])?["experiments"][0]["counts"].take())
}

#[e2e(long, beside)]
fn new_connections_get_what_their_block_is_for() -> Result<()> {
    let stand = Stand::set_up("experiment")?;
    let wire = Wire::start()?;
    let before = open(&wire)?.near_flow(wire.a())?;
    let home = Home::create(&program()?, &path(EXPERIMENT))?;
    let agent = home.start(stand.cgroup())?;
    let tuned = new_one(&wire, true)?;
    let set = json(&home, &["status"])?["generation"].clone();

    let left = new_one(&wire, false)?;
    let flow = left.near_flow(wire.a())?;
    ensure!(flow.congestion == before.congestion, "{flow:?}");
    ensure!(flow.sndbuf_bytes == before.sndbuf_bytes, "{flow:?}");
    ensure!(is_tuned(&wire, &tuned)?, "what runs keeps what it has");
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_experiment_tuned", "bob")? == 0.0, "{}", metrics.text());
    let outcome = json(&home, &["flows", "--path", "bob"])?;
    let has = |outcome: &Value, wanted: &str| {
        let flows = outcome["flows"].as_array();
        flows.is_some_and(|flows| flows.iter().any(|flow| flow["outcome"] == wanted))
    };
    ensure!(has(&outcome, "untuned") && has(&outcome, "tuned"), "{outcome:#}");

    new_one(&wire, true)?;
    ensure!(!is_tuned(&wire, &left)?, "what was left alone stays so");
    // Nor does a reload bring it along.
    home.reload(&(path(EXPERIMENT) + "[[path]]\nname = 'eve'\nremote = '192.0.2.1'\n"))?;
    ensure!(!is_tuned(&wire, &left)? && is_tuned(&wire, &tuned)?);
    let status = json(&home, &["status"])?;
    ensure!(status["generation"].as_u64() == set.as_u64().map(|set| set + 1), "{status:#}");
    ensure!(status["experiments"][0]["path"] == "bob", "{status:#}");

    new_one(&wire, false)?;
    agent.kill()?;
    ensure!(!is_tuned(&wire, &open(&wire)?)?, "the last block's stays without an agent");
    let agent = home.start(stand.cgroup())?;
    let look = || counts(&home, &wire);
    let counts = until("a pair counts, and a block does not", SOON, look, |counts| {
        counts["pairs"].as_u64() > Some(0) && counts["thrown"]["restarted"].as_u64() > Some(0)
    })?;
    ensure!(home.log().contains("the agent or the host was restarted"), "{}", home.log());
    let flows = [&counts["flows_tuned"], &counts["flows_default"]];
    ensure!(flows.iter().all(|flows| flows.as_u64() > Some(0)), "{counts:#}");
    let report = home.command("report").args(["--path", "bob"]).output()?;
    let report = String::from_utf8(report.stdout)?;
    ensure!(report.starts_with("path bob: "), "{report}");
    ensure!(report.contains("connections that got the policy"), "{report}");
    Ok(agent.stop()?)
}

#[e2e(long, beside)]
fn an_experiment_is_begun_and_ended_by_hand() -> Result<()> {
    let stand = Stand::set_up("experiment-by-hand")?;
    let wire = Wire::start()?;
    let neighbour = "[[path]]\nname = 'others'\nremote = '10.82.0.0/16'\nmode = 'observe'\n";
    let home = Home::create(&program()?, &(path("") + neighbour))?;
    let agent = home.start(stand.cgroup())?;
    let refused = |words: &[&str], why: &str| -> Result<()> {
        let (command, rest) = words.split_first().context("no command")?;
        let output = home.command(command).args(rest).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(3) && said.contains(why), "{words:?}: {said}");
        Ok(())
    };
    refused(&["experiment start", "nobody"], "no path of the file")?;
    refused(&["experiment start", "others"], "nothing to compare")?;
    refused(&["experiment start", "bob", "--neighbour", "bob"], "the path itself")?;
    refused(&["experiment start", "bob", "--block", "2s"], "blocks do not fit this path")?;
    refused(&["experiment stop", "bob"], "no experiment goes on")?;

    let begun = [
        "experiment start",
        "bob",
        "--block",
        "2s",
        "--flow-life",
        "50ms",
        "--burn-in",
        "500ms",
        "--seed",
        "0",
        "--neighbour",
        "others",
    ];
    let told = json(&home, &begun)?;
    ensure!(told["experiment"]["seed"] == 0, "{told:#}");
    refused(&["experiment start", "bob"], "one goes on")?;
    new_one(&wire, false)?;
    let told = json(&home, &["experiment stop", "bob"])?;
    ensure!(told["experiment"]["ended_by"] == "hand", "{told:#}");
    ensure!(is_tuned(&wire, &open(&wire)?)?, "all new connections get the policy at once");

    // It is kept, and does not begin again by itself.
    agent.stop()?;
    let _agent = home.start(stand.cgroup())?;
    let report = json(&home, &["report", "--path", "bob"])?;
    ensure!(report["experiments"][0]["state"] == "ended", "{report:#}");
    Ok(())
}

#[e2e(long, beside)]
fn a_share_of_new_connections_gets_the_policy() -> Result<()> {
    let stand = Stand::set_up("share")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &path("share = 0.5"))?;
    let _agent = home.start(stand.cgroup())?;
    let tuned_of = |connections: u32| -> Result<u32> {
        let mut tuned = 0;
        for _ in 0..connections {
            tuned += u32::from(is_tuned(&wire, &open(&wire)?)?);
        }
        Ok(tuned)
    };
    // Of 40 fair coins fewer than 5, or more than 35, are one in ten million.
    let tuned = tuned_of(40)?;
    ensure!((5..=35).contains(&tuned), "{tuned} of 40");
    home.reload(&path("share = 0"))?;
    ensure!(tuned_of(5)? == 0);
    home.reload(&path(""))?;
    ensure!(tuned_of(5)? == 5);
    Ok(())
}
