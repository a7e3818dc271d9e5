//! A host with thousands of network namespaces: to go through them takes seconds, in which
//! the agent answers; it holds one at a time, and counts those that it cannot visit.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    netns::{self, Crowd, Netns},
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

use crate::{
    amount,
    pods::{self, HOST, KEYS, LIMITS, Pod, REMOTE},
};

const PORT: u16 = 7000;
const SOON: Duration = Duration::from_secs(10);
const A_WHILE: Duration = Duration::from_secs(60);

/// The policy is for the ends that connected.
fn policy(remote: &str, keys: &str) -> String {
    format!("[[path]]\nname = 'p'\nremote = '{remote}'\nremote_port = {PORT}\n{keys}\n")
}

const TUNED: &str = "sndbuf = '300000'\ncongestion = 'wad_aimd'";

/// For those of a wire and those on loopbacks.
fn policy_of_namespaces() -> String {
    format!(
        "{LIMITS}{HOST}[[path]]\nname = 'p'\nremote = ['{}', '{REMOTE}']\nremote_port = {PORT}\n\
         congestion = 'wad_aimd'\n{KEYS}\n",
        ADDRESSES_V4[1]
    )
}

/// Namespaces whose flows come as the kill switch is used.
const PODS: usize = 10;

fn more(pods: &mut Vec<Pod>) -> Result<()> {
    for _ in 0..PODS {
        pods.push(Pod::start(PORT)?);
    }
    Ok(())
}

/// Awaits that all is set where the flows are, or none of it.
fn await_all(pods: &[Pod], is_set: bool) -> Result<()> {
    let count = if is_set { pods.len() } else { 0 };
    let look = || pods::count(pods);
    until("all is set, or none", A_WHILE, look, |now| *now == (count, count))?;
    Ok(())
}

#[e2e(never = "an emulated processor takes minutes for so many namespaces", alone)]
fn the_kill_switch_answers_within_a_second_among_thousands_of_namespaces() -> Result<()> {
    let stand = Stand::set_up("many")?;
    let begun = Instant::now();
    let many = amount::of(1_000, 5_000);
    let crowd = Crowd::create(many)?;
    println!("{many} namespaces made in {:?}", begun.elapsed());
    // It is found last.
    let wire = Wire::start()?;
    let agents = Netns::create("agent")?;
    let home = Home::create(&program()?, &policy_of_namespaces())?;
    let begun = Instant::now();
    let agent = home.start_inside(&agents, stand.cgroup())?;
    println!("ready after {:?}", begun.elapsed());
    let running = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    let is_tuned = || Ok::<_, anyhow::Error>(running.near_flow(wire.a())?.congestion != "cubic");
    ensure!(is_tuned()?);

    let mut times = Vec::new();
    let mut pods = Vec::new();
    for command in ["disable", "enable", "disable", "enable"] {
        // The next passes have all of them to go to.
        more(&mut pods)?;
        let begun = Instant::now();
        let output = home.command(command).output()?;
        times.push(begun.elapsed());
        ensure!(output.status.success(), "{command}: {output:?}");
        // Flows that are made from now on are as the answer says, those that run follow.
        let next = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
        let wanted = command == "enable";
        ensure!((next.near_flow(wire.a())?.congestion != "cubic") == wanted, "{command}");
        until("what runs follows", A_WHILE, is_tuned, |tuned| *tuned == wanted)?;
    }
    println!("answers after {times:?}");
    ensure!(times.iter().all(|time| *time < Duration::from_secs(1)), "{times:?}");
    let begun = Instant::now();
    await_all(&pods, true)?;
    println!("all is set after {:?} more", begun.elapsed());

    // What a pass puts there that is on its way when the policy goes, goes too.
    more(&mut pods)?;
    let needs_nothing = format!("{LIMITS}{}", policy(ADDRESSES_V4[1], "congestion = 'wad_aimd'"));
    home.reload(&needs_nothing)?;
    await_all(&pods, false)?;
    home.reload(&policy_of_namespaces())?;
    await_all(&pods, true)?;

    // And when the agent ends.
    more(&mut pods)?;
    agent.stop()?;
    await_all(&pods, false)?;
    ensure!(!home.journal().exists(), "{}", home.log());

    // Nor does a pass that is on its way hold up the end.
    home.write_policy(&needs_nothing)?;
    let agent = home.start_inside(&agents, stand.cgroup())?;
    ensure!(home.command("disable").output()?.status.success());
    let begun = Instant::now();
    agent.stop()?;
    println!("stopped in {:?}", begun.elapsed());
    ensure!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    drop(crowd);
    Ok(())
}

/// This is what the agent takes beside namespaces, with some to spare.
const DESCRIPTORS: usize = 128;

#[e2e(long, few)]
fn a_pass_needs_no_descriptor_for_each_namespace() -> Result<()> {
    let stand = Stand::set_up("descriptors")?;
    let _crowd = Crowd::create(2 * DESCRIPTORS)?;
    let wire = Wire::start()?;
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    let home = Home::create(&program()?, &policy(ADDRESSES_V4[1], TUNED))?;
    let _agent = home.start_in(&format!("ulimit -n {DESCRIPTORS}"), stand.cgroup())?;
    let flow = connection.near_flow(wire.a())?;
    ensure!(flow.sndbuf_bytes == 600_000, "{flow:?}; {}", home.log());
    Ok(())
}

#[e2e(long, beside)]
fn namespaces_that_cannot_be_visited_are_counted() -> Result<()> {
    let stand = Stand::set_up("skipped")?;
    let netns = Netns::create("hidden")?;
    netns.ip(&["link", "set", "lo", "up"])?;
    let home = Home::create(&program()?, &policy("127.0.0.2", "sndbuf = '8MiB'\ndivide = true"))?;
    let _agent = home.start(stand.cgroup())?;
    let open = || Ok::<_, anyhow::Error>(Connection::open(&netns, &netns, at("127.0.0.2", PORT))?);
    let first = open()?;
    let sndbuf =
        |connection: &Connection| -> Result<u64> { Ok(connection.near_flow(&netns)?.sndbuf_bytes) };
    let second = open()?;
    until("the buffers are divided", SOON, || sndbuf(&first), |bytes| *bytes == 8 << 20)?;
    let skipped = || -> Result<f64> {
        let metrics = home.metrics()?;
        Ok(metrics.value("wad_namespaces_skipped_total", &["result=\"missing\""])?)
    };
    ensure!(skipped()? == 0.0);

    // From here on only this process has it, by a descriptor.
    netns::delete(netns.name());
    let third = open()?;
    until("it is missed", SOON, skipped, |count| *count > 0.0)?;
    ensure!(sndbuf(&first)? == 8 << 20, "the namespace was visited");
    drop((first, second, third));
    std::mem::forget(netns);
    Ok(())
}
