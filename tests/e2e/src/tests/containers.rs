//! Settings that no option of a socket gives hold in the network namespaces that a path's
//! flows are in, are undone there, and go with them; where they cannot be, it is named.

use std::{fs, os::unix::fs::MetadataExt as _, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    ends::{self, Ends},
    metrics::Metrics,
    netns::{self, Netns},
    old_kernel::BpfFileSystem,
    process::{Place, run_command},
    stand::{Stand, until},
    sysctl,
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, DEVICE, Wire},
    wad::{Home, NEEDED, program},
};

const SOON: Duration = Duration::from_secs(10);
const PORT: u16 = 7000;

const KEYS: [&str; 2] = ["net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem"];
pub const BEFORE: [&str; 2] = ["4096 16384 500000", "4096 131072 500000"];
/// The raised limits are 2 times 1.25 times 100 Mbit/s times 200 ms.
pub const RAISED: [&str; 2] = ["4096 16384 6250000", "4096 131072 6250000"];
pub const AUTOTUNE: &str = "bandwidth = '100Mbit'\nrtt = '200ms'\nbuffers = 'autotune'";
/// It takes nothing of `net.core`, which Linux 6.1 shows in the first namespace only.
const NOTHING_ELSE: &str = "congestion = 'reno'";

/// Only the host's own namespace tells the memory that TCP may take.
pub fn policy(host: &str, remote: &str, keys: &str) -> String {
    format!(
        "[limits]\nmax_memory = '1GiB'\n{host}\n[[path]]\nname = 'p'\nremote = '{remote}'\n\
         {keys}\n"
    )
}

pub fn limits(netns: &Netns) -> Result<[String; 2]> {
    let [wmem, rmem] = KEYS.map(|key| -> Result<_> { Ok(netns.run(|| sysctl::get(key))??) });
    Ok([wmem?, rmem?])
}

pub fn lower(netns: &Netns) -> Result<()> {
    for (key, value) in KEYS.into_iter().zip(BEFORE) {
        netns.run(|| sysctl::set(key, value))??;
    }
    Ok(())
}

pub fn await_limits(netns: &Netns, expected: [&str; 2]) -> Result<()> {
    let look = || limits(netns);
    until("the room is as it is to be", SOON, look, |limits| *limits == expected)?;
    Ok(())
}

pub fn inode(netns: &Netns) -> Result<u64> {
    Ok(netns.run(|| fs::metadata("/proc/thread-self/ns/net"))??.ino())
}

/// Returns what a command says.
fn said(home: &Home, subcommand: &str, arguments: &[&str]) -> Result<String> {
    let output = home.command(subcommand).args(arguments).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{subcommand}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Sees that `wad check` says beforehand where it may not hold.
fn ensure_checked(home: &Home, words: &str) -> Result<()> {
    let output =
        Command::new(program()?).args(["check", "--config"]).arg(home.config()).output()?;
    let checked = String::from_utf8(output.stdout)?;
    ensure!(checked.contains(words), "{checked}");
    ensure!(checked.contains("`wad explain` and the log name those"), "{checked}");
    Ok(())
}

fn open(wire: &Wire) -> Result<Connection> {
    Ok(Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?)
}

/// This error was seen before: only the agent's own namespace had room.
#[e2e(long, beside)]
fn the_kernel_has_room_where_the_flows_are() -> Result<()> {
    let stand = Stand::set_up("room")?;
    let wire = Wire::start()?;
    let agents = Netns::create("agent")?;
    lower(wire.a())?;
    lower(wire.b())?;
    let home = Home::create(&program()?, &policy("", ADDRESSES_V4[1], AUTOTUNE))?;
    let agent = home.start_inside(&agents, stand.cgroup())?;
    ensure!(limits(wire.a())? == BEFORE, "before there is a flow: {:?}", limits(wire.a())?);
    let connection = open(&wire)?;
    await_limits(wire.a(), RAISED)?;
    // Of the path it is one end only.
    ensure!(limits(wire.b())? == BEFORE, "{:?}", limits(wire.b())?);
    let number = inode(wire.a())?;
    let explained = said(&home, "explain", &[ADDRESSES_V4[1]])?;
    let place = format!("the same holds in network namespaces {number}\n");
    ensure!(explained.contains(&place), "{explained}");
    let status = said(&home, "status", &[])?;
    let change = format!("changed  net.ipv4.tcp_rmem of network namespace {number}: ");
    ensure!(status.contains(&change), "{status}");
    // What the next one has for its window scale; tests beside may have raised rmem_max.
    let ours = |scales: Option<(u8, u8)>| scales.map(|(_, ours)| ours);
    let scale = ours(open(&wire)?.near_flow(wire.a())?.window_scales);
    ensure!(scale >= Some(7), "{scale:?}");

    // Killed, and cleaned up.
    agent.kill()?;
    ensure!(limits(wire.a())? == RAISED, "after a kill: {:?}", limits(wire.a())?);
    said(&home, "cleanup", &[])?;
    ensure!(limits(wire.a())? == BEFORE, "after a cleanup: {:?}", limits(wire.a())?);

    // Stopped; and what somebody else has set is theirs.
    let agent = home.start_inside(&agents, stand.cgroup())?;
    await_limits(wire.a(), RAISED)?;
    wire.a().run(|| sysctl::set(KEYS[0], "4096 16384 777777"))??;
    agent.stop()?;
    ensure!(limits(wire.a())? == ["4096 16384 777777", BEFORE[1]], "{:?}", limits(wire.a())?);
    let left = format!("tcp_wmem of network namespace {number} is");
    ensure!(home.log().contains(&left), "{}", home.log());

    // No path needs it any more.
    lower(wire.a())?;
    let agent = home.start_inside(&agents, stand.cgroup())?;
    await_limits(wire.a(), RAISED)?;
    home.reload(&policy("", ADDRESSES_V4[1], NOTHING_ELSE))?;
    await_limits(wire.a(), BEFORE)?;
    drop(connection);
    agent.stop()?;
    Ok(())
}

/// Returns the rules, and where a connection goes.
fn routing(netns: &Netns) -> Result<String> {
    let to = ["-d", "route", "get", ADDRESSES_V4[1], "ipproto", "6", "dport", "7000", "fibmatch"];
    Ok(netns.ip(&["rule"])? + &netns.ip(&to)?)
}

fn has_metrics(routing: &str) -> bool {
    routing.contains("reordering 19") && routing.contains("quickack 1")
}

/// Whether there are rules of wad's, by their place.
fn has_rules(routing: &str) -> bool {
    routing.contains("32765:")
}

fn await_metrics(netns: &Netns, expected: bool) -> Result<()> {
    let look = || routing(netns);
    until("the routes have metrics, or none", SOON, look, |routing| {
        has_metrics(routing) == expected && has_rules(routing) == expected
    })?;
    Ok(())
}

/// This error was seen before: only the agent's own namespace had the metrics.
#[e2e(every_change, beside)]
fn routes_have_metrics_where_the_flows_are() -> Result<()> {
    let stand = Stand::set_up("metrics")?;
    let wire = Wire::start()?;
    let agents = Netns::create("agent")?;
    let keys = "reorder = 19\ndelayed_ack = false";
    let text = policy("[host]\nroutes = true", ADDRESSES_V4[1], keys);
    let home = Home::create(&program()?, &text)?;
    let agent = home.start_inside(&agents, stand.cgroup())?;
    let connection = open(&wire)?;
    await_metrics(wire.a(), true)?;
    ensure!(!has_rules(&routing(wire.b())?), "{}", routing(wire.b())?);
    let explained = said(&home, "explain", &[ADDRESSES_V4[1]])?;
    let place = format!("the same holds in network namespaces {}\n", inode(wire.a())?);
    ensure!(explained.contains(&place), "{explained}");
    connection.exchange(1_000_000)?;

    run_command(&mut home.command("disable"))?;
    await_metrics(wire.a(), false)?;
    run_command(&mut home.command("enable"))?;
    await_metrics(wire.a(), true)?;

    // Nobody follows routes any more.
    agent.kill()?;
    await_metrics(wire.a(), false)?;
    let agent = home.start_inside(&agents, stand.cgroup())?;
    await_metrics(wire.a(), true)?;
    agent.stop()?;
    ensure!(!has_rules(&routing(wire.a())?), "{}", routing(wire.a())?);

    Ok(())
}

/// A follower of routes in a namespace does not keep it alive, with all that is in it.
#[e2e(long, beside)]
fn a_namespace_that_ends_is_not_kept() -> Result<()> {
    let stand = Stand::set_up("ends")?;
    let Ends { a, b } = Ends::create()?;
    ends::join([&a, &b], DEVICE)?;
    for (netns, address) in [&a, &b].into_iter().zip(ADDRESSES_V4) {
        ends::add_address(netns, DEVICE, &format!("{address}/16"))?;
    }
    let agents = Netns::create("agent")?;
    let text = policy("[host]\nroutes = true", ADDRESSES_V4[1], "delayed_ack = false");
    let home = Home::create(&program()?, &text)?;
    let agent = home.start_inside(&agents, stand.cgroup())?;
    let connection = Connection::open(&a, &b, at(ADDRESSES_V4[1], PORT))?;
    let look = || routing(&a);
    until("its routes have metrics", SOON, look, |routing| routing.contains("quickack 1"))?;
    drop(connection);
    drop(a);
    // The other end of the wire goes with the namespace.
    let devices = || Ok::<_, anyhow::Error>(b.ip(&["-oneline", "link"])?);
    until("the namespace is gone", SOON, devices, |devices| !devices.contains(DEVICE))?;
    agent.stop()?;
    Ok(())
}

fn queue(netns: &Netns) -> Result<u32> {
    let shown = netns.ip(&["link", "show", DEVICE])?;
    let mut words = shown.split_whitespace().skip_while(|word| *word != "qlen");
    Ok(words.nth(1).with_context(|| shown.clone())?.parse()?)
}

/// This error was seen before: only the agent's own namespace had the length.
#[e2e(long, beside)]
fn queues_have_their_length_where_the_flows_are() -> Result<()> {
    let stand = Stand::set_up("lengths")?;
    let wire = Wire::start()?;
    let agents = Netns::create("agent")?;
    let host = format!("[host]\ntransmit_queue_length = {{ {DEVICE} = 5000 }}");
    let text = policy(&host, ADDRESSES_V4[1], NOTHING_ELSE);
    let home = Home::create(&program()?, &text)?;
    let before = queue(wire.a())?;
    let agent = home.start_inside(&agents, stand.cgroup())?;
    let _connection = open(&wire)?;
    let await_queue = |packets| -> Result<()> {
        let look = || queue(wire.a());
        until("the queue is as long as it is to be", SOON, look, |now| *now == packets)?;
        Ok(())
    };
    await_queue(5000)?;
    ensure!(queue(wire.b())? == before, "{}", queue(wire.b())?);
    agent.kill()?;
    said(&home, "cleanup", &[])?;
    ensure!(queue(wire.a())? == before, "after a cleanup: {}", queue(wire.a())?);
    let agent = home.start_inside(&agents, stand.cgroup())?;
    await_queue(5000)?;
    home.reload(&policy("", ADDRESSES_V4[1], NOTHING_ELSE))?;
    await_queue(before)?;
    agent.stop()?;
    Ok(())
}

/// Namespaces are taken at a time, at most.
const MOST: usize = 64;

#[e2e(long, beside)]
fn of_many_namespaces_some_are_taken_and_the_rest_is_named() -> Result<()> {
    let stand = Stand::set_up("many")?;
    let agents = Netns::create("agent")?;
    let home = Home::create(&program()?, &policy("", "127.0.0.2", AUTOTUNE))?;
    let _agent = home.start_inside(&agents, stand.cgroup())?;
    let mut connections = Vec::new();
    let mut all = Vec::new();
    for _ in 0..MOST + 2 {
        let netns = Netns::create("pod")?;
        netns.ip(&["link", "set", "lo", "up"])?;
        lower(&netns)?;
        connections.push(Connection::open(&netns, &netns, at("127.0.0.2", PORT))?);
        all.push(netns);
    }
    let raised = || -> Result<usize> {
        let limits = all.iter().map(limits).collect::<Result<Vec<_>>>()?;
        Ok(limits.iter().filter(|limits| **limits == RAISED).count())
    };
    until("as many as there may be are taken", SOON, raised, |raised| *raised == MOST)?;
    let look = || Ok::<_, anyhow::Error>(home.log());
    let words = "in more than 64 other network namespaces";
    until("the log says it", SOON, look, |log| log.contains(words))?;
    // The last two may come in passes of their own.
    let look = || said(&home, "explain", &["127.0.0.2"]);
    let are_named =
        |text: &String| text.matches("no more than 64 are taken at a time").count() == 2;
    until("both others are named", SOON, look, are_named)?;
    ensure_checked(&home, "64 at a time")
}

/// Awaits that a namespace is named with a reason, by `wad explain` and in the log.
fn await_reason(home: &Home, remote: &str, netns: &Netns, reason: &str) -> Result<()> {
    let number = inode(netns)?;
    let look = || said(home, "explain", &[remote]);
    let is_named = |text: &str| {
        let number = number.to_string();
        text.lines().any(|line| line.contains(&number) && line.contains(reason))
    };
    until("wad explain names it", SOON, look, |explained| is_named(explained))?;
    ensure!(is_named(&home.log()), "{}", home.log());
    Ok(())
}

fn ensure_counted(home: &Home, agents: &Netns, result: &str) -> Result<()> {
    let port = home.metrics_port();
    let metrics = agents.run(|| Metrics::read(port))??;
    let label = format!("result=\"{result}\"");
    let count = metrics.value("wad_namespaces_skipped_total", &[&label])?;
    ensure!(count > 0.0, "{}", metrics.text());
    Ok(())
}

fn with_loopback(label: &str) -> Result<Netns> {
    let netns = Netns::create(label)?;
    netns.ip(&["link", "set", "lo", "up"])?;
    Ok(netns)
}

#[e2e(long, beside)]
fn a_namespace_that_cannot_be_found_is_named_and_counted() -> Result<()> {
    let stand = Stand::set_up("unseen")?;
    let (agents, pod) = (with_loopback("agent")?, with_loopback("pod")?);
    let home = Home::create(&program()?, &policy("", "127.0.0.2", AUTOTUNE))?;
    let _agent = home.start_inside(&agents, stand.cgroup())?;
    // From here on only this process has it, by a descriptor.
    netns::delete(pod.name());
    let connection = Connection::open(&pod, &pod, at("127.0.0.2", PORT))?;
    await_reason(&home, "127.0.0.2", &pod, "it cannot be found")?;
    ensure_counted(&home, &agents, "missing")?;
    ensure_checked(&home, "if it finds them (by a process or a mount)")?;
    drop(connection);
    std::mem::forget(pod);
    Ok(())
}

/// With each capability that is not needed removed in turn, what it is for goes without it, as
/// the status says, and all else goes on.
#[e2e(long, beside)]
fn what_a_capability_is_for_goes_without_it_and_nothing_else() -> Result<()> {
    let optional = ["sys_admin", "sys_ptrace"];
    let _mounted = BpfFileSystem::mount()?;
    for without in [None, Some("sys_ptrace"), Some("sys_admin")] {
        let stand = Stand::set_up("capable")?;
        let (agents, mounted, unmounted) =
            (with_loopback("agent")?, with_loopback("mounted")?, with_loopback("unmounted")?);
        lower(&mounted)?;
        lower(&unmounted)?;
        let keys = AUTOTUNE.to_owned() + "\ncongestion = 'wad_aimd'";
        let home = Home::create(&program()?, &policy("", "127.0.0.2", &keys))?;
        let others = optional.into_iter().filter(|name| Some(*name) != without);
        let capabilities: Vec<_> = NEEDED.into_iter().chain(others).collect();
        let place = Place { netns: Some(&agents), cgroup: None };
        let agent = home.start_capable(&capabilities, place, stand.cgroup())?;
        let status: Value = serde_json::from_str(&said(&home, "status", &["--json"])?)?;
        let lacking = status["lacking"].as_array().map_or(&[][..], Vec::as_slice);
        let expected: Vec<_> =
            without.iter().map(|name| format!("CAP_{}", name.to_uppercase())).collect();
        ensure!(lacking.len() == expected.len(), "{without:?}: {status}");
        for name in &expected {
            ensure!(lacking[0].as_str().is_some_and(|it| it.contains(name)), "{status}");
            ensure!(home.log().contains(&format!("without {name}, ")), "{}", home.log());
        }

        // A process that has all of them tells its namespace to none that has fewer.
        let mut sleeping = Command::new("sleep");
        sleeping.arg("600");
        let process = Place { netns: Some(&unmounted), cgroup: None }.spawn(sleeping)?;
        let open = |pod| Connection::open(pod, pod, at("127.0.0.2", PORT));
        let connections = [open(&mounted)?, open(&unmounted)?];
        let limits_there = || -> Result<[String; 2]> {
            let net = format!("--net=/proc/{}/ns/net", process.id());
            let read = |key: &str| -> Result<_> {
                let file = format!("/proc/sys/{}", key.replace('.', "/"));
                let text = run_command(Command::new("nsenter").args([&*net, "cat", &file]))?;
                Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
            };
            let [wmem, rmem] = KEYS.map(read);
            Ok([wmem?, rmem?])
        };
        let algorithm = home.algorithm()?;
        for (connection, pod) in connections.iter().zip([&mounted, &unmounted]) {
            let flow = connection.near_flow(pod)?;
            ensure!(flow.congestion == algorithm, "{without:?}: {flow:?}");
        }
        netns::delete(unmounted.name());
        match without {
            Some("sys_admin") => {
                await_reason(&home, "127.0.0.2", &mounted, "which takes CAP_SYS_ADMIN")?;
                ensure!(limits(&mounted)? == BEFORE, "{:?}", limits(&mounted)?);
                ensure!(limits_there()? == BEFORE, "{:?}", limits_there()?);
            }
            Some(_) => {
                await_limits(&mounted, RAISED)?;
                let look = || said(&home, "explain", &["127.0.0.2"]);
                let is_named = |text: &String| text.contains("it cannot be found");
                until("wad explain names the other", SOON, look, is_named)?;
                ensure!(limits_there()? == BEFORE, "{:?}", limits_there()?);
            }
            None => {
                await_limits(&mounted, RAISED)?;
                until("the room of the other", SOON, limits_there, |limits| *limits == RAISED)?;
            }
        }
        // Whose a flow is takes none of them.
        let flows = said(&home, "flows", &["--json"])?;
        let cgroup = stand.cgroup().path().file_name().context("a name")?.to_string_lossy();
        ensure!(flows.contains(&format!("\"cgroup\": \"{cgroup}\"")), "{flows}");
        drop(connections);
        agent.stop()?;
        std::mem::forget(unmounted);
    }
    Ok(())
}

#[e2e(long, beside)]
fn a_namespace_that_may_not_be_entered_is_named_and_counted() -> Result<()> {
    let stand = Stand::set_up("closed")?;
    let (agents, pod) = (with_loopback("agent")?, with_loopback("pod")?);
    lower(&pod)?;
    let home = Home::create(&program()?, &policy("", "127.0.0.2", AUTOTUNE))?;
    let without = format!(
        "set -- nsenter --net=/run/netns/{} setpriv --bounding-set=-sys_admin \
         --inh-caps=-sys_admin \"$@\"",
        agents.name()
    );
    let _agent = home.start_in(&without, stand.cgroup())?;
    let _connection = Connection::open(&pod, &pod, at("127.0.0.2", PORT))?;
    await_reason(&home, "127.0.0.2", &pod, "which takes CAP_SYS_ADMIN")?;
    ensure_counted(&home, &agents, "closed")?;
    ensure!(limits(&pod)? == BEFORE, "{:?}", limits(&pod)?);
    ensure_checked(&home, "may enter them (CAP_SYS_ADMIN)")
}

#[e2e(long, beside)]
fn routes_that_are_left_alone_in_a_namespace_are_named() -> Result<()> {
    let stand = Stand::set_up("refused")?;
    let wire = Wire::start()?;
    let agents = Netns::create("agent")?;
    let to = format!("{}/32", ADDRESSES_V4[1]);
    wire.a().ip(&["route", "add", &to, "dev", DEVICE, "proto", "bird"])?;
    let text = policy("[host]\nroutes = true", ADDRESSES_V4[1], "reorder = 19");
    let home = Home::create(&program()?, &text)?;
    let _agent = home.start_inside(&agents, stand.cgroup())?;
    let _connection = open(&wire)?;
    let reason = format!("the route to {to} is left alone: a routing daemon made it");
    await_reason(&home, ADDRESSES_V4[1], wire.a(), &reason)
}
