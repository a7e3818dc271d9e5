//! The kernel here must not be given a congestion control by BPF, as Linux 5.10: the
//! agent says so once, registers none, and tunes everything else. Elsewhere that kernel
//! is played by type information without what it lacks.

use std::{fs, process::Stdio, time::Duration};

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    cgroup::Cgroup,
    old_kernel,
    process::{Place, Process, in_mounts},
    stand::{Stand, until},
    sysctl,
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const LIMIT: Duration = Duration::from_secs(20);
const AVAILABLE: &str = "net.ipv4.tcp_available_congestion_control";

/// These names tell a kernel that runs every callback (`struct_ops::unsound()`).
const SOUND: [&str; 2] = ["__bpf_prog_enter_recur", "__bpf_prog_enter_struct_ops"];

const POLICY: &str = "[[path]]\nname = 'p'\nremote = '10.81.0.2'\nsndbuf = '3MiB'\n\
                      rcvbuf = '4MiB'\ninitial_window = 24\nallow = 'aggressive'\n\
                      congestion = 'wad_aimd'\n";

/// Starts an agent on such a kernel, and waits until it is ready.
fn start(home: &Home, cgroup: &Cgroup, log: &str) -> Result<Process> {
    let mut agent = home.command("run");
    agent.arg("--cgroup").arg(cgroup.path());
    let mut command = in_mounts(&old_kernel::without(&SOUND, home.folder())?, &agent);
    let log = fs::File::create(home.folder().join(log))?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    home.expect_agent();
    let agent = Place::default().spawn(command)?;
    let look = || Ok::<_, anyhow::Error>(home.command("status").output()?.status.success());
    let ready = until("the agent is ready", LIMIT, look, |ready| *ready);
    ensure!(ready.is_ok(), "{}", said(home)?);
    Ok(agent)
}

fn said(home: &Home) -> Result<String> {
    let logs = ["first", "second"].map(|log| fs::read_to_string(home.folder().join(log)));
    Ok(logs.into_iter().flatten().collect())
}

fn ensure_tuned_but_for_the_algorithm(wire: &Wire) -> Result<()> {
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let flow = connection.near_flow(wire.a())?;
    let buffers = (flow.sndbuf_bytes, flow.rcvbuf_bytes);
    ensure!(buffers == (6 << 20, 8 << 20) && flow.cwnd_segments == 24, "{flow:?}");
    ensure!(flow.congestion == "cubic", "{flow:?}");
    connection.exchange(1_000_000)?;
    Ok(())
}

#[e2e(every_change, alone, any_kernel)]
fn all_but_the_algorithm_is_tuned() -> Result<()> {
    let stand = Stand::set_up("unsound")?;
    let wire = Wire::start()?;
    let _mounted = old_kernel::BpfFileSystem::mount()?;
    let home = Home::create(&program()?, POLICY)?;
    let before = sysctl::get(AVAILABLE)?;
    let first = start(&home, stand.cgroup(), "first")?;
    ensure_tuned_but_for_the_algorithm(&wire)?;
    ensure!(sysctl::get(AVAILABLE)? == before, "{}", sysctl::get(AVAILABLE)?);

    // Those who come after have to know it, too.
    drop(first);
    ensure!(home.pins().exists(), "tuning ended with the agent");
    ensure_tuned_but_for_the_algorithm(&wire)?;
    let mut second = start(&home, stand.cgroup(), "second")?;
    ensure_tuned_but_for_the_algorithm(&wire)?;
    let metrics = home.metrics()?;
    ensure!(metrics.of_path("wad_connections_matched_total", "p")? == 3.0);
    let refused = ["path=\"p\"", "reason=\"refused\""];
    ensure!(metrics.value("wad_flows_untuned_total", &refused)? == 3.0, "{}", metrics.text());
    let said = said(&home)?;
    let lines: Vec<_> = said.lines().filter(|line| line.contains("too old")).collect();
    ensure!(lines.len() == 2, "not once for each start: {said}");
    ensure!(lines[0].contains("keep the kernel's default"), "{said}");

    second.signal(Signal::SIGTERM);
    ensure!(second.wait(LIMIT, || ())?.success(), "{said}");
    ensure!(!home.pins().exists() && sysctl::get("net.core.rmem_max")? == "212992");
    Ok(())
}
