//! Guards over paths: a policy that hurts is held back, tried again, and returns; or it is only
//! said.

use std::{process::Output, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    sending::while_sending,
    settings,
    stand::{Stand, until},
    tcp::{Connection, at},
    wad::{Home, program},
};

/// 24 looks to know a path, 28 to find harm, and some for a busy machine.
const SOON: Duration = Duration::from_secs(30);
const PORT: u16 = 7000;

fn start() -> Result<Wan> {
    let path = "rtt = '20ms'\nforward = { rate = '40Mbit', queue = { bdp = 0.3 } }\n";
    let wan = Wan::start(&toml::from_str(path)?)?;
    settings::apply(&wan)?;
    Ok(wan)
}

/// It is as if packets took another way: what is seen is an RTT of six times the least one.
fn turn_bad(wan: &Wan) {
    wan.set_rtt(Duration::from_millis(120));
}

fn policy(keys: &str) -> String {
    format!(
        "[guard]\nevery = '100ms'\n{keys}\n[[path]]\nname = 'bob'\nremote = '{}'\n\
         remote_port = {PORT}\nsndbuf = '400000'\ncongestion = 'wad_aimd'\n\
         additive_increase = 4\nallow = 'aggressive'\n",
        ADDRESSES_V4[1]
    )
}

fn open(wan: &Wan) -> Result<Connection> {
    Ok(Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], PORT))?)
}

/// Whether a connection has the path's law. Buffers that were set stay with one that runs.
fn has_law(wan: &Wan, connection: &Connection) -> Result<bool> {
    Ok(connection.near_flow(wan.a())?.congestion.starts_with("wad_aimd"))
}

/// Whether a new connection gets all that the path has.
fn is_tuned(wan: &Wan, connection: &Connection) -> Result<bool> {
    let flow = connection.near_flow(wan.a())?;
    let tuned = flow.congestion.starts_with("wad_aimd");
    ensure!(tuned == (flow.sndbuf_bytes == 800_000), "half tuned: {flow:?}");
    Ok(tuned)
}

fn json(home: &Home, words: &[&str]) -> Result<Value> {
    let (command, rest) = words.split_first().context("no command")?;
    let Output { status, stdout, stderr } =
        home.command(command).args(rest).arg("--json").output()?;
    ensure!(status.success(), "{words:?}: {}", String::from_utf8_lossy(&stderr));
    Ok(serde_json::from_slice(&stdout)?)
}

fn guard(home: &Home) -> Result<Value> {
    Ok(json(home, &["guard show", "bob"])?["guards"][0].clone())
}

fn await_state(home: &Home, state: &str) -> Result<()> {
    let is_there = |guard: &Value| guard["state"] == state;
    let seen = until("the guard comes to a state", SOON, || guard(home), is_there);
    seen.map(|_| ()).with_context(|| format!("{state}: {}", home.log()))
}

#[e2e(long, few)]
fn a_policy_that_hurts_is_held_back_tried_and_returns() -> Result<()> {
    let stand = Stand::set_up("guard")?;
    let wan = start()?;
    let home = Home::create(&program()?, &policy("hold_off = '4s'"))?;
    let agent = home.start(stand.cgroup())?;
    let running = [open(&wan)?];
    while_sending(&running, || -> Result<()> {
        ensure!(has_law(&wan, &running[0])?, "it is in force from the start");
        await_state(&home, "in_force")?;
        turn_bad(&wan);
        await_state(&home, "hold_off")?;
        ensure!(!has_law(&wan, &running[0])?, "what runs goes back");
        ensure!(!is_tuned(&wan, &open(&wan)?)?, "what comes is left alone");
        let now = home.metrics()?;
        ensure!(now.of_path("wad_guard_share", "bob")? == 0.0, "{}", now.text());
        ensure!(now.of_path("wad_guard_trips_total", "bob")? == 1.0, "{}", now.text());
        ensure!(home.log().contains("its policy hurts, and it is held back"), "{}", home.log());
        let status = json(&home, &["status"])?;
        ensure!(status["paths"][0]["state"] == "held_back", "{status:#}");
        ensure!(status["guards"][0]["tripped"]["harm"]["ratio"].as_f64() > Some(1.5), "{status:#}");
        let remote = at(ADDRESSES_V4[1], PORT).to_string();
        let explained = home.command("explain").arg(remote).output()?;
        let explained = String::from_utf8(explained.stdout)?;
        ensure!(explained.contains("the path's guard holds it back"), "{explained}");

        agent.kill()?;
        ensure!(!is_tuned(&wan, &open(&wan)?)?, "it stays so without an agent");
        let _agent = home.start(stand.cgroup())?;
        ensure!(!is_tuned(&wan, &open(&wan)?)?, "and with the next one");
        ensure!(guard(&home)?["trips"] == 1, "{:#}", guard(&home)?);

        await_state(&home, "trial")?;
        ensure!(!has_law(&wan, &running[0])? || !is_tuned(&wan, &open(&wan)?)?, "all, on trial");
        let mut tried = None;
        let look = || -> Result<bool> {
            let connection = open(&wan)?;
            let tuned = is_tuned(&wan, &connection)?;
            tried = Some(connection);
            Ok(tuned)
        };
        until("a new connection is in the trial", SOON, look, |tuned| *tuned)?;
        let tried = [tried.context("one was opened")?];
        // The defaults are no better.
        while_sending(&tried, || await_state(&home, "in_force"))?;
        let look = || has_law(&wan, &running[0]);
        until("what runs has it again", SOON, look, |tuned| *tuned)?;
        ensure!(guard(&home)?["trips"] == 1, "{:#}", guard(&home)?);
        Ok(())
    })
}

#[e2e(long, few)]
fn a_dry_run_only_says_and_a_hold_off_ends_by_hand() -> Result<()> {
    let stand = Stand::set_up("guard-dry")?;
    let wan = start()?;
    let home = Home::create(&program()?, &policy("hold_off = '1h'\ndry_run = true"))?;
    let _agent = home.start(stand.cgroup())?;
    let running = [open(&wan)?];
    while_sending(&running, || -> Result<()> {
        await_state(&home, "in_force")?;
        turn_bad(&wan);
        await_state(&home, "hold_off")?;
        let said = guard(&home)?;
        ensure!(said["dry_run"] == true && said["share"] == 1.0, "{said:#}");
        ensure!(home.log().contains("it would be held back"), "{}", home.log());
        ensure!(has_law(&wan, &running[0])? && is_tuned(&wan, &open(&wan)?)?, "nothing is done");

        // What was only said is done from now on.
        home.reload(&policy("hold_off = '1h'"))?;
        let look = || has_law(&wan, &running[0]);
        until("it is held back", SOON, look, |tuned| !*tuned)?;
        ensure!(!is_tuned(&wan, &open(&wan)?)?, "what comes is left alone");
        let done = json(&home, &["guard release", "bob"])?;
        ensure!(done["guard"]["state"] == "in_force", "{done:#}");
        ensure!(has_law(&wan, &running[0])? && is_tuned(&wan, &open(&wan)?)?, "all have it");
        let again = home.command("guard release").arg("bob").output()?;
        let said = String::from_utf8_lossy(&again.stderr).into_owned();
        ensure!(again.status.code() == Some(3), "{said}");
        ensure!(said.contains("its guard does not hold it back"), "{said}");
        Ok(())
    })
}
