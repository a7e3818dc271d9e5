//! `buffers = "autotune"`: the kernel sizes the buffers, and has room for what the path
//! holds, in the agent's network namespace and while the agent runs.

use std::{process::Stdio, time::Duration};

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    netns::Netns,
    process::Place,
    sending::while_sending,
    settings,
    stand::{Stand, until},
    sysctl,
    tcp::{Connection, at},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(20);
const LIMITS: [(&str, &str); 2] =
    [("net.ipv4.tcp_wmem", "4096 16384 500000"), ("net.ipv4.tcp_rmem", "4096 131072 500000")];
/// The raised limits are 2 times 1.25 times 100 Mbit/s times 200 ms.
const RAISED: [&str; 2] = ["4096 16384 6250000", "4096 131072 6250000"];

fn limits(netns: &Netns) -> Result<[String; 2]> {
    let [wmem, rmem] = LIMITS.map(|(key, _)| -> Result<_> { Ok(netns.run(|| sysctl::get(key))??) });
    Ok([wmem?, rmem?])
}

#[e2e(long, alone)]
fn the_kernel_has_room_for_what_the_path_holds() -> Result<()> {
    let stand = Stand::set_up("autotune")?;
    let wan = Wan::start(&toml::from_str(
        "rtt = '200ms'\nforward = { rate = '100Mbit', queue = { bdp = 1.0 } }\n",
    )?)?;
    settings::apply(&wan)?;
    for (key, value) in LIMITS {
        wan.a().run(|| sysctl::set(key, value))??;
    }
    let before = limits(wan.a())?;
    ensure!(before == LIMITS.map(|(_, value)| value), "{before:?}");
    let others = limits(wan.b())?;
    let open = |port| Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], port));
    let untuned = open(6000)?.near_flow(wan.a())?;

    let home = Home::create(
        &program()?,
        "[limits]\nmax_memory = '1GiB'\n\n[[path]]\nname = 'p'\nremote = '10.77.0.2'\n\
         remote_port = 7000\nbandwidth = '100Mbit'\nrtt = '200ms'\nbuffers = 'autotune'\n",
    )?;
    let mut command = home.command("run");
    command.arg("--cgroup").arg(stand.cgroup().path());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    home.expect_agent();
    let mut agent = Place { netns: Some(wan.a()), cgroup: None }.spawn(command)?;
    let ready = || Ok::<_, anyhow::Error>(home.command("status").output()?.status.success());
    until("the agent is ready", SOON, ready, |ready| *ready)?;
    ensure!(limits(wan.a())? == RAISED, "{:?}", limits(wan.a())?);
    ensure!(limits(wan.b())? == others, "another namespace's changed");

    let connections = [open(7000)?];
    let flow = connections[0].near_flow(wan.a())?;
    let ours = |scales: Option<(u8, u8)>| scales.map(|(_, ours)| ours);
    // 500,000 and rmem_max of 212,992 fit into 16 bits and 3; 6,250,000 take 7.
    let scales = (ours(untuned.window_scales), ours(flow.window_scales));
    ensure!(scales == (Some(3), Some(7)), "{scales:?}");
    let sndbuf = || -> Result<u64> { Ok(connections[0].near_flow(wan.a())?.sndbuf_bytes) };
    let grown = while_sending(&connections, || {
        until("the kernel uses the room", SOON, sndbuf, |bytes| *bytes > 3_000_000)
    })?;
    ensure!(flow.sndbuf_bytes < 500_000 && grown <= 6_250_000, "{grown} bytes, {flow:?}");

    agent.signal(Signal::SIGTERM);
    ensure!(agent.wait(SOON, || ())?.success());
    ensure!(limits(wan.a())? == before, "{:?}", limits(wan.a())?);
    Ok(())
}
