//! `[host]` sets transmit queues and the backlog, which come back as they were, and are
//! left alone where somebody else has set them meanwhile.

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    netns::Netns,
    stand::Stand,
    sysctl,
    veth::{DEVICE, Wire},
    wad::{Home, program},
};

const BACKLOG: &str = "net.core.netdev_max_backlog";

/// Packets in the transmit queue of the wire's device.
fn queue(netns: &Netns) -> Result<u32> {
    let shown = netns.ip(&["link", "show", DEVICE])?;
    let mut words = shown.split_whitespace().skip_while(|word| *word != "qlen");
    Ok(words.nth(1).with_context(|| shown.clone())?.parse()?)
}

fn set_queue(netns: &Netns, packets: &str) -> Result<()> {
    netns.ip(&["link", "set", DEVICE, "txqueuelen", packets])?;
    Ok(())
}

fn cleanup(home: &Home) -> Result<()> {
    let output = home.command("cleanup").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

#[e2e(long, beside)]
fn a_transmit_queue_is_set_and_comes_back() -> Result<()> {
    let stand = Stand::set_up("queue")?;
    let wire = Wire::start()?;
    set_queue(wire.a(), "700")?;
    // Only the host's own namespace tells the memory that TCP may take.
    let limits = "[limits]\nmax_memory = '1GiB'\n";
    let policy = format!("{limits}[host]\ntransmit_queue_length = {{ {DEVICE} = 5000 }}\n");
    let home = Home::create(&program()?, &policy)?;

    home.start_inside(wire.a(), stand.cgroup())?.stop()?;
    ensure!(queue(wire.a())? == 700, "after a stop: {}", queue(wire.a())?);

    // Killed, and cleaned up from another network namespace.
    home.start_inside(wire.a(), stand.cgroup())?.kill()?;
    ensure!(queue(wire.a())? == 5000, "after a kill: {}", queue(wire.a())?);
    cleanup(&home)?;
    ensure!(queue(wire.a())? == 700, "after a cleanup: {}", queue(wire.a())?);

    // Killed, started again, and reloaded.
    home.start_inside(wire.a(), stand.cgroup())?.kill()?;
    let agent = home.start_inside(wire.a(), stand.cgroup())?;
    home.reload(&policy.replace("5000", "9000"))?;
    ensure!(queue(wire.a())? == 9000, "after a reload: {}", queue(wire.a())?);
    home.reload(limits)?;
    ensure!(queue(wire.a())? == 700, "without [host]: {}", queue(wire.a())?);

    home.reload(&policy)?;
    set_queue(wire.a(), "800")?;
    agent.stop()?;
    ensure!(queue(wire.a())? == 800, "somebody else's: {}", queue(wire.a())?);
    let log = home.log();
    ensure!(log.contains(&format!("{DEVICE} has 800 packets now, not the 5000")), "{log}");
    ensure!(queue(wire.b())? == 1000, "the other end: {}", queue(wire.b())?);
    Ok(())
}

#[e2e(long, beside)]
fn an_interface_that_is_not_there_is_named_and_flows_go_on() -> Result<()> {
    let stand = Stand::set_up("missing")?;
    let home = Home::create(&program()?, "[host]\ntransmit_queue_length = { gone0 = 5000 }\n")?;
    home.start(stand.cgroup())?.stop()?;
    ensure!(home.log().contains("no interface gone0"), "{}", home.log());
    Ok(())
}

#[e2e(long, alone)]
fn the_backlog_is_set_and_comes_back() -> Result<()> {
    let stand = Stand::set_up("backlog")?;
    let before = sysctl::get(BACKLOG)?;
    let home = Home::create(&program()?, "[host]\nnetdev_max_backlog = 4321\n")?;
    let agent = home.start(stand.cgroup())?;
    ensure!(sysctl::get(BACKLOG)? == "4321");
    agent.stop()?;
    ensure!(sysctl::get(BACKLOG)? == before);

    home.start(stand.cgroup())?.kill()?;
    ensure!(sysctl::get(BACKLOG)? == "4321");
    cleanup(&home)?;
    ensure!(sysctl::get(BACKLOG)? == before);
    Ok(())
}
