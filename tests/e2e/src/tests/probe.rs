//! Paths measured by ourselves: an agent with `[probe]` at one end, at the other the service
//! alone, which has no privileges and answers.

use std::{collections::HashSet, time::Duration};

use anyhow::{Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    stand::{Stand, until},
    tcp::{self, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

use crate::alone::{Alone, ask_agent, runs};

const REFUSED: i32 = 3;
const PARTLY: i32 = 4;
/// The shortest period, and the time that a run may take.
const PERIOD: Duration = Duration::from_secs(15);

/// Answers whoever is on the wire.
const ANSWERS: &str = "answer = '[::]:4824'\nanswer_to = '10.81.0.0/16'\n";

fn task(name: &str, rest: &str) -> String {
    let address = ADDRESSES_V4[1];
    format!(
        "[[probe.task]]\nname = '{name}'\npath = 'v4'\nhost = '{address}'\njitter = '0s'\n{rest}\n"
    )
}

const PATH: &str = "[limits]\nmax_memory = '64MiB'\n[[path]]\nname = 'v4'\nremote = '10.81.0.0/16'\nsndbuf = '1MiB'\n";
const ECHO: &str = "tool = 'rtt'\necho = 'udp'\ncount = 5\ninterval = '10ms'\nevery = '10s'";

#[e2e(long, beside)]
fn an_agent_measures_a_path_to_a_peer_and_keeps_each_period() -> Result<()> {
    let stand = Stand::set_up("probe")?;
    let wire = Wire::start()?;
    let peer = Alone::start(Some(wire.b()), ANSWERS)?;
    let bandwidth = "tool = 'bandwidth'\nevery = '1h'\ntimeout = '10s'\nmax_bytes = '16MiB'";
    let policy = PATH.to_owned() + &task("echo", ECHO) + &task("bandwidth", bandwidth);
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start_inside(wire.a(), stand.cgroup())?;

    let output = ask_agent(&home, "now", &["v4"])?;
    ensure!(output.status.success(), "{output:?} {}", peer.log());
    let now = runs(&output)?;
    ensure!(now.len() == 2, "{now:?}");
    let [of_bandwidth, of_echo] = [&now[0], &now[1]];
    let rate = of_bandwidth["measured"]["bandwidth"]["bits_per_second"].as_f64();
    ensure!(rate.is_some_and(|rate| rate > 1e6), "{of_bandwidth}");
    ensure!(of_echo["measured"]["rtt"]["samples"] == 5, "{of_echo}");
    ensure!(of_echo["measured"]["loss"]["part"] == 0, "{of_echo}");

    // Beside those that were asked for, each period has a row of its own.
    let periods = || -> Result<Vec<Value>> {
        let rows = runs(&ask_agent(&home, "log", &["--task", "echo"])?)?;
        Ok(rows.into_iter().filter(|row| row["period"] != of_echo["period"]).collect())
    };
    let rows = until("two periods are over", 2 * PERIOD, periods, |rows| rows.len() > 1)?;
    ensure!(rows.iter().all(|row| row["ending"] == "measured"), "{rows:?}");
    let began: HashSet<_> = rows.iter().map(|row| row["period"].to_string()).collect();
    ensure!(began.len() == rows.len(), "{rows:?}");

    let status = home.command("status").output()?;
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    ensure!(said.contains("\nprobes   2 tasks, ") && said.contains("; next "), "{said}");

    // An address that somebody has is no place to answer at, which is found out before.
    let taken = tcp::listen(wire.a(), at(ADDRESSES_V4[0], 4824))?;
    let answers = ANSWERS.replace("[::]", ADDRESSES_V4[0]);
    home.write_policy(&format!("{PATH}[probe]\n{answers}"))?;
    let output = home.command("reload").arg("--dry-run").output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!output.status.success() && said.contains("10.81.0.1:4824"), "{output:?}");
    drop(taken);
    let output = home.command("reload").arg("--dry-run").output()?;
    ensure!(output.status.success(), "{output:?}");

    // Another configuration is in force without a restart.
    let other = PATH.to_owned() + &task("echo", ECHO) + &task("other", ECHO);
    home.reload(&other)?;
    let output = ask_agent(&home, "now", &["bandwidth"])?;
    ensure!(output.status.code() == Some(REFUSED), "{output:?}");
    let output = ask_agent(&home, "now", &["other"])?;
    ensure!(output.status.success(), "{output:?}");

    // A peer that has gone holds nothing up, and is told of.
    drop(peer);
    let output = ask_agent(&home, "now", &["echo"])?;
    ensure!(output.status.code() == Some(PARTLY), "{output:?}");
    ensure!(runs(&output)?[0]["measured"].is_null(), "{output:?}");

    // Without [probe] nobody is asked any more; what was measured stays.
    home.reload(PATH)?;
    let output = ask_agent(&home, "log", &[])?;
    ensure!(String::from_utf8_lossy(&output.stderr).contains("no [probe]"), "{output:?}");
    home.reload(&other)?;
    let rows = runs(&ask_agent(&home, "log", &["--task", "bandwidth"])?)?;
    ensure!(rows.iter().any(|row| row["ending"] == "measured"), "{rows:?}");
    agent.stop()?;
    Ok(())
}
