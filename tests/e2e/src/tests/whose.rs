//! Whose flows are, held against `ss -tpe` and /proc.

use std::{
    collections::{BTreeMap, HashSet},
    env, fs,
    net::SocketAddr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    cgroup,
    netns::Netns,
    process::{Place, Process, run_command},
    stand::{Stand, until},
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(30);
const PORT: u16 = 6000;
const USER: u32 = 70_995;

const PATH: &str = "[[path]]\nname = 'a'\nremote = ['10.81.0.0/16', 'fd81::/16']\n";

/// Units, which are cgroups within that of a test.
struct Units(Vec<PathBuf>);

impl Units {
    fn make(within: &Path, count: usize) -> Result<Self> {
        let units: Vec<PathBuf> =
            (0..count).map(|n| within.join(format!("w{n}.service"))).collect();
        units.iter().try_for_each(fs::create_dir)?;
        Ok(Self(units))
    }
}

impl Drop for Units {
    fn drop(&mut self) {
        self.0.iter().for_each(|unit| cgroup::remove(unit));
    }
}

/// Starts this program as an end of connections, in a unit: this one is in it meanwhile.
fn start(netns: &Netns, unit: &Path, folder: &Path, arguments: &[&str]) -> Result<Process> {
    let mut command = Command::new(folder.join(crate::PEER));
    command.args(arguments);
    fs::write(unit.join("cgroup.procs"), "0")?;
    let process = Place { netns: Some(netns), cgroup: None }.spawn(command);
    let around = unit.parent().context("a cgroup around it")?;
    fs::write(around.join("cgroup.procs"), "0")?;
    Ok(process?)
}

/// An owner of a socket, as seen from outside.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    uid: u64,
    pid: u64,
    process: String,
    cgroup: String,
}

/// The flows of a network namespace by their ends, with whose they are by ss and /proc.
fn known(netns: &Netns) -> Result<BTreeMap<[SocketAddr; 2], Known>> {
    let output = netns
        .run(|| run_command(Command::new("ss").args(["-tpenHO", "state", "established"])))??;
    output.lines().map(line_of_ss).collect()
}

/// Reads `0 0 10.81.0.2:6000 10.81.0.1:40000 users:(("wad-e2e-peer",pid=7,fd=4)) uid:5 ...`
fn line_of_ss(line: &str) -> Result<([SocketAddr; 2], Known)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |what: &str| line.split_once(what).map(|(_, rest)| rest);
    let process = after("((\"").and_then(|rest| rest.split('"').next());
    let number = |what| {
        let text = after(what)?;
        text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())].parse().ok()
    };
    let pid: u64 = number("pid=").context("no process")?;
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let cgroup = cgroups.lines().find_map(|line| line.strip_prefix("0::/"));
    let known = Known {
        uid: number("uid:").unwrap_or(0),
        pid,
        process: process.context("no name")?.to_owned(),
        cgroup: cgroup.context("no cgroup")?.to_owned(),
    };
    Ok(([words[2].parse()?, words[3].parse()?], known))
}

/// The flows that the agent sees, filtered so.
fn flows(home: &Home, filter: &[&str]) -> Result<Vec<Value>> {
    let mut command = home.command("flows");
    let output = run_command(command.arg("--json").args(filter))?;
    let mut reading: Value = serde_json::from_str(&output)?;
    match reading["flows"].take() {
        Value::Array(flows) => Ok(flows),
        other => anyhow::bail!("{other}"),
    }
}

fn ends(flow: &Value) -> Result<[SocketAddr; 2]> {
    let end = |name: &str| {
        Ok::<SocketAddr, anyhow::Error>(flow[name].as_str().context("an end")?.parse()?)
    };
    Ok([end("local")?, end("remote")?])
}

#[e2e(long, few)]
fn a_thousand_flows_of_fifty_processes_are_theirs() -> Result<()> {
    const PAIRS: usize = 25;
    const EACH: usize = 20;
    const UNITS: usize = 5;
    let stand = Stand::set_up("whose")?;
    let wire = Wire::start()?;
    let folder = tempfile::tempdir()?;
    symlink(env::current_exe()?, folder.path().join(crate::PEER))?;
    let units = Units::make(stand.cgroup().path(), UNITS)?;
    let home = Home::create(&program()?, PATH)?;
    let agent = home.start(stand.cgroup())?;

    let mut processes = Vec::new();
    for pair in 0..PAIRS {
        let port = PORT + pair as u16;
        let to = at([ADDRESSES_V4[1], ADDRESSES_V6[1]][pair % 2], port).to_string();
        let unit = |n: usize| units.0[n % UNITS].as_path();
        processes.push(start(wire.b(), unit(pair + 1), folder.path(), &["hold", &to])?);
        tcp::await_listener(wire.b(), port)?;
        let user = (USER + pair as u32 % 3).to_string();
        let arguments = ["keep-open", &to, &EACH.to_string(), &user];
        processes.push(start(wire.a(), unit(pair), folder.path(), &arguments)?);
    }
    let seen = || flows(&home, &[]);
    let seen = until("all are seen", SOON, seen, |flows| flows.len() == 2 * PAIRS * EACH)?;

    let [near, far] = [known(wire.a())?, known(wire.b())?];
    let mut by_unit: BTreeMap<&str, usize> = BTreeMap::new();
    let mut pids = HashSet::new();
    for flow in &seen {
        let is_near = flow["role"] == "connected";
        let expected = (if is_near { &near } else { &far }).get(&ends(flow)?);
        let expected = expected.with_context(|| format!("ss has no {flow}"))?;
        let owner = &flow["owner"];
        let text = |name: &str| owner[name].as_str().unwrap_or_default();
        let own = Known {
            uid: owner["uid"].as_u64().context("a user")?,
            pid: owner["pid"].as_u64().with_context(|| format!("no process in {flow}"))?,
            process: text("process").to_owned(),
            cgroup: text("cgroup").to_owned(),
        };
        ensure!(own == *expected, "{own:?}, by ss {expected:?}");
        ensure!(text("cgroup").ends_with(text("unit")), "{owner}");
        *by_unit.entry(text("unit")).or_default() += 1;
        pids.insert(own.pid);
    }
    ensure!(pids.len() == 2 * PAIRS, "{} processes", pids.len());
    ensure!(by_unit.len() == UNITS && by_unit.values().all(|n| *n == 2 * PAIRS * EACH / UNITS));

    // Each filter, and several at a time.
    let pid = processes[1].id().to_string();
    let (user, unit) = (USER.to_string(), "w3.*");
    let of_user = PAIRS.div_ceil(3) * EACH;
    for (filter, count) in [
        (&["--pid", &pid][..], EACH),
        (&["--user", &user], of_user),
        (&["--unit", unit], 2 * PAIRS * EACH / UNITS),
        (&["--unit", unit, "--user", "0"], PAIRS * EACH / UNITS),
        (&["--process", crate::PEER], 2 * PAIRS * EACH),
        (&["--process", "wad"], 0),
        (&["--pid", &pid, "--user", "0"], 0),
    ] {
        let seen = flows(&home, filter)?;
        ensure!(seen.len() == count, "{filter:?}: {} of {count}", seen.len());
    }
    processes.iter_mut().for_each(|process| process.signal(Signal::SIGKILL));
    drop(processes);
    agent.stop()?;
    Ok(())
}

/// Flows that ran before the agent are theirs who have them now; and events say whose the
/// flows were that are over.
#[e2e(every_change, beside)]
fn running_flows_and_events_say_whose_they_are() -> Result<()> {
    let stand = Stand::set_up("whose-running")?;
    let wire = Wire::start()?;
    let folder = tempfile::tempdir()?;
    symlink(env::current_exe()?, folder.path().join(crate::PEER))?;
    let units = Units::make(stand.cgroup().path(), 2)?;
    let events = folder.path().join("events.jsonl");
    let sink = format!("[[sink]]\nname = 'file'\nkind = 'file'\npath = '{}'\n", events.display());
    let home = Home::create(&program()?, &(sink + PATH))?;

    let before = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    let agent = home.start(stand.cgroup())?;
    let own = u64::from(std::process::id());
    let running = || flows(&home, &[]);
    let is_own = |flows: &Vec<Value>| {
        flows.len() == 2 && flows.iter().all(|flow| flow["owner"]["pid"] == own)
    };
    until("both ends are this process's", SOON, running, is_own)?;
    tcp::reset(before.near)?;

    let to = at(ADDRESSES_V6[1], PORT + 1);
    let mut server = start(wire.b(), &units.0[0], folder.path(), &["hold", &to.to_string()])?;
    tcp::await_listener(wire.b(), PORT + 1)?;
    let arguments = ["keep-open", &to.to_string(), "1", &USER.to_string()];
    let mut client = start(wire.a(), &units.0[1], folder.path(), &arguments)?;
    let told = |event: &str, count: usize| {
        let look = || -> Result<Vec<Value>> {
            let text = fs::read_to_string(&events).unwrap_or_default();
            let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
            let of_port = |line: &Value| {
                line["event"] == event
                    && [&line["src_port"], &line["dst_port"]].contains(&&Value::from(PORT + 1))
            };
            Ok(lines.filter(of_port).collect())
        };
        until("it is told", SOON, look, |events| events.len() >= count)
    };
    let opened = told("open", 2)?;
    let by_role = |events: &[Value], role: &str| {
        let event = events.iter().find(|event| event["values"]["role"] == role);
        event.map(|event| event["values"]["owner"].clone()).with_context(|| format!("none {role}"))
    };
    let connected = by_role(&opened, "connected")?;
    ensure!(connected["pid"] == client.id() && connected["uid"] == USER, "{connected}");
    ensure!(connected["unit"] == "w1.service", "{connected}");
    let (client_id, server_id) = (client.id(), server.id());
    client.signal(Signal::SIGKILL);
    server.signal(Signal::SIGKILL);
    let closed = told("closed", 2)?;
    let connected = by_role(&closed, "connected")?;
    ensure!(connected["pid"] == client_id && connected["process"] == crate::PEER, "{connected}");
    let accepted = by_role(&closed, "accepted")?;
    ensure!(accepted["unit"] == "w0.service" && accepted["uid"] == 0, "{accepted}");
    // Nobody has asked for flows since, and a kernel may refuse the program that sees it at once.
    let pid = &accepted["pid"];
    ensure!(pid.is_null() || *pid == server_id, "{accepted}, accepted by {server_id}");
    agent.stop()?;
    Ok(())
}

/// Nobody asks for flows meanwhile: only the kernel side can have seen who accepted.
#[e2e(every_change, beside, needs = "wad_accepted")]
fn who_accepts_is_seen_when_it_happens() -> Result<()> {
    let stand = Stand::set_up("whose-accepts")?;
    let wire = Wire::start()?;
    let folder = tempfile::tempdir()?;
    let events = folder.path().join("events.jsonl");
    let sink = format!("[[sink]]\nname = 'file'\nkind = 'file'\npath = '{}'\n", events.display());
    let home = Home::create(&program()?, &(sink + PATH))?;
    let agent = home.start(stand.cgroup())?;
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    tcp::reset(connection.near)?;
    let accepted = || -> Result<Option<Value>> {
        let text = fs::read_to_string(&events).unwrap_or_default();
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_it =
            |line: &Value| line["event"] == "closed" && line["values"]["role"] == "accepted";
        Ok(lines.find(is_it))
    };
    let closed = until("the accepted end is closed", SOON, accepted, Option::is_some)?;
    let owner = closed.map(|event| event["values"]["owner"].clone()).context("no event")?;
    ensure!(owner["pid"] == std::process::id(), "{owner}");
    agent.stop()?;
    Ok(())
}
