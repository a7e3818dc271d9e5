//! A path that its own connections have shown lately is not probed, and the row says so.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

use crate::alone::{Alone, ask_agent, runs};

const PERIOD: Duration = Duration::from_secs(10);

/// Two tasks that differ in whether connections count.
fn policy() -> String {
    let task = |name: &str, more: &str| {
        format!(
            "[[probe.task]]\nname = '{name}'\npath = 'wire'\nhost = '{}'\ntool = 'rtt'\n\
             echo = 'udp'\ncount = 3\ninterval = '10ms'\nevery = '10s'\njitter = '0s'\n{more}\n",
            ADDRESSES_V4[1]
        )
    };
    "[limits]\nmax_memory = '64MiB'\n\
     [[source]]\nname = 'flows'\nkind = 'passive'\ninterval = '1s'\n\
     [[path]]\nname = 'wire'\nremote = '10.81.0.0/16'\nmode = 'measured'\nsndbuf = 'auto'\n"
        .to_owned()
        + &task("first-passive", "")
        + &task("in-any-case", "passive_first = false")
}

#[e2e(long, beside, slow)]
fn a_path_that_its_connections_show_is_not_probed() -> Result<()> {
    let stand = Stand::set_up("probe-passive")?;
    let wire = Wire::start()?;
    let answers = "answer = '[::]:4824'\nanswer_to = '10.81.0.0/16'\n";
    let _peer = Alone::start(Some(wire.b()), answers)?;
    let home = Home::create(&program()?, &policy())?;
    let agent = home.start_inside(wire.a(), stand.cgroup())?;
    let rows =
        |task: &str| -> Result<Vec<Value>> { runs(&ask_agent(&home, "log", &["--task", task])?) };
    let measured = |rows: &Vec<Value>| rows.iter().any(|row| row["ending"] == "measured");
    let of_idle = || rows("first-passive");
    until("nobody else shows the path", 3 * PERIOD, of_idle, measured)?;

    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let with_traffic = || {
        connection.exchange(1_000)?;
        rows("first-passive")
    };
    let is_known = |rows: &Vec<Value>| rows.iter().any(|row| row["reason"] == "known-from-flows");
    let seen = until("the connection shows it", 3 * PERIOD, with_traffic, is_known)?;
    let row = seen.iter().find(|row| row["reason"] == "known-from-flows");
    ensure!(
        row.is_some_and(|row| row["ending"] == "missed" && row["started"].is_null()),
        "{row:?}"
    );
    let others = rows("in-any-case")?;
    ensure!(others.iter().all(|row| row["ending"] == "measured"), "{others:?}");

    // Once they show nothing any more, it is probed again.
    drop(connection);
    let count = rows("first-passive")?.iter().filter(|row| row["ending"] == "measured").count();
    let again =
        |rows: &Vec<Value>| rows.iter().filter(|row| row["ending"] == "measured").count() > count;
    until("it is probed again", 4 * PERIOD, of_idle, again)?;
    agent.stop()?;
    Ok(())
}
