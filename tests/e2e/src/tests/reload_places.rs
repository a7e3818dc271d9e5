//! A reload changes where events are told and where the agent answers, while connections
//! run; what cannot be had changes nothing.

use std::{fs, net::TcpListener, path::Path, time::Duration};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    free, metrics,
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

use crate::said::json;

const SOON: Duration = Duration::from_secs(20);
const PORT: u16 = 7000;
const SNDBUF_BYTES: u64 = 100_000;

/// A configuration that a watch on the file's folder does not see change: by another name.
struct Unwatched<'h> {
    home: &'h Home,
    folder: tempfile::TempDir,
}

impl Unwatched<'_> {
    /// Writes a path for the connections, and the rest of a policy.
    fn write(&self, rest: &str) -> Result<()> {
        let path = format!(
            "[[path]]\nname = 'bob'\nremote = '{}'\nsndbuf = {SNDBUF_BYTES}\n",
            ADDRESSES_V4[1]
        );
        Ok(self.home.write_to(self.folder.path().join("same"), &(path + rest))?)
    }

    /// Writes the same with another port for the metrics.
    fn listen(&self, port: u16, rest: &str) -> Result<()> {
        self.write(rest)?;
        let text = fs::read_to_string(self.home.config())?;
        let of_home = format!("127.0.0.1:{}", self.home.metrics_port());
        let text = text.replace(&of_home, &format!("127.0.0.1:{port}"));
        Ok(fs::write(self.folder.path().join("same"), text)?)
    }

    /// Puts it in force as a dry run has said, and returns what changed.
    fn reload(&self) -> Result<Value> {
        let told = json(self.home.command("reload").arg("--dry-run"))?;
        let done = json(&mut self.home.command("reload"))?;
        ensure!(told["result"] == "would_apply" && done["result"] == "applied", "{told} {done}");
        for part in ["sinks", "settings"] {
            ensure!(told[part] == done[part], "{part}: {told} {done}");
        }
        Ok(done)
    }
}

/// Returns the events in a file.
fn events(file: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(file).unwrap_or_default();
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

fn until_told(file: &Path, name: &str) -> Result<()> {
    let is_told = |events: &Vec<Value>| events.iter().any(|event| event["event"] == name);
    until("the event is told", SOON, || events(file), is_told).map(|_| ())
}

fn sink(name: &str, keys: &str) -> String {
    format!("[[sink]]\nname = '{name}'\n{keys}\n")
}

fn file_sink(name: &str, file: &Path) -> String {
    sink(name, &format!("kind = 'file'\npath = '{}'", file.display()))
}

#[e2e(long, beside)]
fn sinks_and_addresses_change_while_a_connection_runs() -> Result<()> {
    let stand = Stand::set_up("reload-places")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, "")?;
    let file = Unwatched { home: &home, folder: tempfile::tempdir()? };
    fs::hard_link(home.config(), file.folder.path().join("same"))?;
    let [first, second, third] = ["first", "second", "third"].map(|name| home.folder().join(name));
    file.write("")?;
    let agent = home.start(stand.cgroup())?;
    let connect = || Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT));
    let running = connect()?;

    // The first sinks: the kernel side was to leave out all events. One is away.
    let away = TcpListener::bind("127.0.0.1:0")?;
    let away = format!("kind = 'http'\nurl = 'http://{}'\ntimeout = '1s'", away.local_addr()?);
    file.write(&(file_sink("a", &first) + &sink("away", &away)))?;
    let done = file.reload()?;
    ensure!(done["sinks"]["added"] == json!(["a", "away"]), "{done}");
    drop(connect()?);
    until_told(&first, "closed")?;

    // One is told elsewhere, and not of all; the other one goes, with what waits for it.
    file.write(&(file_sink("a", &second) + "events = ['open']\n"))?;
    let done = file.reload()?;
    ensure!(done["sinks"]["changed"] == json!(["a"]), "{done}");
    ensure!(done["sinks"]["removed"] == json!(["away"]), "{done}");
    let before = events(&first)?;
    drop(connect()?);
    until_told(&second, "open")?;
    ensure!(events(&first)? == before);
    let shown = home.metrics()?;
    ensure!(!shown.text().contains("sink=\"away\""), "{}", shown.text());
    let spool = home.folder().join(format!("state/events-{}/away", home.instance()));
    ensure!(fs::read_dir(&spool)?.count() > 0, "nothing is left in {}", spool.display());

    // Addresses move.
    let free = free::address()?.port();
    let api = format!("[api]\nlisten = '{}'\n", free::address()?);
    file.listen(free, &api)?;
    let done = file.reload()?;
    ensure!(done["settings"] == json!(["metrics.listen", "api.listen"]), "{done}");
    ensure!(done["sinks"]["removed"] == json!(["a"]), "{done}");
    ensure!(metrics::get(free, "/metrics")?.contains("wad_policy_generation"));
    let old = || Ok::<_, anyhow::Error>(home.metrics().is_err());
    until("the old address is left", SOON, old, |is_left| *is_left)?;
    ensure!(events(&second)?.iter().all(|event| event["event"] == "open"));

    // What somebody else has changes nothing, and neither does what is behind it.
    let taken = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let taken = TcpListener::bind(taken)?;
    let port = taken.local_addr()?.port();
    file.listen(port, &file_sink("a", &third))?;
    let mut dry = home.command("reload");
    dry.arg("--dry-run");
    for (mut command, result) in [(dry, "would_refuse"), (home.command("reload"), "failed")] {
        let refused = json(&mut command)?;
        ensure!(refused["result"] == result, "{refused}");
        let reason = refused["reason"].to_string();
        let expected = format!("another program listens on 127.0.0.1:{port}");
        ensure!(reason.contains(&expected), "{reason}");
    }
    drop(connect()?);
    ensure!(metrics::get(free, "/metrics")?.contains("{result=\"failed\"} 1"));
    ensure!(!third.exists());
    // All addresses of the port that the agent has itself are not to be had either.
    let text = fs::read_to_string(home.config())?;
    let all = text.replace(&format!("127.0.0.1:{port}"), &format!("0.0.0.0:{free}"));
    fs::write(file.folder.path().join("same"), all)?;
    let refused = json(&mut home.command("reload"))?["reason"].to_string();
    ensure!(refused.contains("while this agent listens on"), "{refused}");

    // The connection has seen nothing of it. The sink that was away is there again.
    running.exchange(1_000_000)?;
    let flow = running.near_flow(wire.a())?;
    ensure!(flow.sndbuf_bytes == 2 * SNDBUF_BYTES, "{flow:?}");
    file.write(&file_sink("away", &third))?;
    file.reload()?;
    until_told(&third, "closed")?;
    ensure!(home.metrics()?.value("wad_config_reloads_total", &["result=\"applied\""])? == 4.0);
    agent.stop()?;
    Ok(())
}
