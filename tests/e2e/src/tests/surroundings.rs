//! A mount namespace plays hosts that are set up in another way than usual: where the
//! BPF file system is not mounted, and cgroup v2 elsewhere.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    cgroup,
    old_kernel::BpfFileSystem,
    process::{Place, in_mounts, run_command},
    stand::{Stand, until},
    sysctl,
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

use crate::said::json;

const LIMIT: Duration = Duration::from_secs(10);

const POLICY: &str =
    "[[path]]\nname = 'p'\nremote = '10.81.0.0/16'\nrcvbuf = '8MiB'\ncongestion = 'wad_aimd'\n";

#[e2e(long, alone)]
fn the_bpf_file_system_is_mounted_and_unmounted_again() -> Result<()> {
    let stand = Stand::set_up("bpffs")?;
    let home = Home::create(&program()?, POLICY)?;
    // How often it is mounted: before, meanwhile and after.
    let script = r#"
        mounts() { grep -c ' /sys/fs/bpf .* - bpf ' /proc/self/mountinfo || true; }
        while umount --lazy /sys/fs/bpf 2>/dev/null; do :; done
        mounts
        "$@" >/dev/null 2>&1 & wad=$!
        for try in $(seq 100); do [ "$(mounts)" = 0 ] || break; sleep 0.1; done
        mounts
        sleep 1
        kill $wad
        wait $wad
        mounts
    "#;
    let mut run = home.command("run");
    run.arg("--cgroup").arg(stand.cgroup().path());
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-uc", script, "sh"]).arg(run.get_program());
    command.args(run.get_args());
    let counts = run_command(&mut command)?;
    ensure!(counts.split_whitespace().eq(["0", "1", "0"]), "{counts}");
    ensure!(!home.journal().exists() && sysctl::get("net.core.rmem_max")? == "212992");
    Ok(())
}

/// As in a container, where nothing of the host's is mounted to be written.
#[e2e(long, alone)]
fn a_ceiling_that_may_not_be_raised_leaves_paths_with_what_there_is() -> Result<()> {
    let stand = Stand::set_up("ceiling")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &format!("{POLICY}sndbuf = '8MiB'\n"))?;
    let ceiling = "/proc/sys/net/core/wmem_max";
    let read_only = format!("mount --bind {ceiling} {ceiling}; mount -o remount,bind,ro {ceiling}");
    let agent = home.start_in(&read_only, stand.cgroup())?;
    ensure!(sysctl::get("net.core.rmem_max")? == "8388608");
    let status = json(&mut home.command("status"))?;
    let lacking = status["lacking"].to_string();
    ensure!(lacking.contains("cannot set net.core.wmem_max to 8388608"), "{lacking}");
    let warnings = || home.log().matches("cannot set net.core.wmem_max").count();
    ensure!(warnings() == 1, "{}", home.log());

    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let flow = connection.near_flow(wire.a())?;
    ensure!(flow.congestion == home.algorithm()?, "{flow:?}");
    // The kernel doubles it.
    ensure!(flow.sndbuf_bytes == 2 * sysctl::get("net.core.wmem_max")?.parse::<u64>()?, "{flow:?}");
    home.reload(&format!("{POLICY}sndbuf = '9MiB'\n"))?;
    ensure!(warnings() == 1, "{}", home.log());
    home.reload(POLICY)?;
    ensure!(json(&mut home.command("status"))?["lacking"].is_null());
    agent.stop()?;
    ensure!(sysctl::get("net.core.rmem_max")? == "212992");
    Ok(())
}

#[e2e(long, beside)]
fn the_root_of_cgroup_v2_is_found_where_it_is_mounted() -> Result<()> {
    let _stand = Stand::set_up("root")?;
    // The agent's own mounts are nobody else's.
    let _bpffs = BpfFileSystem::mount()?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    // In a cgroup namespace the root is the cgroup that this process is in.
    let mount = home.folder().join("cgroups here");
    std::fs::create_dir(&mount)?;
    let script = format!(
        "umount --lazy '{}'; mount -t cgroup2 none '{}'",
        cgroup::mount_point()?.display(),
        mount.display()
    );
    let mut command = Command::new("unshare");
    let run = in_mounts(&script, &home.command("run"));
    command.arg("--cgroup").arg(run.get_program()).args(run.get_args());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    home.expect_agent();
    let mut agent = Place::default().spawn(command)?;
    let look = || Ok::<_, anyhow::Error>(home.command("status").output()?.status.success());
    until("the agent is ready", LIMIT, look, |ready| *ready)?;

    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let flow = connection.near_flow(wire.a())?;
    ensure!(flow.congestion == home.algorithm()?, "{flow:?}");
    agent.signal(Signal::SIGTERM);
    ensure!(agent.wait(LIMIT, || ())?.success());
    Ok(())
}
