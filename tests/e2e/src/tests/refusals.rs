//! Hosts that lack something, and requests for what is not to be had, get one clear
//! line each, with what to do, a non-zero exit status, and nothing left behind.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    cgroup,
    process::{Place, in_mounts},
    stand::Stand,
    sysctl,
    wad::{Home, NEEDED, capable, program},
};

const LIMIT: Duration = Duration::from_secs(10);

/// Needs the ceilings raised, and matches nothing on this host.
const POLICY: &str =
    "[[path]]\nname = 'p'\nremote = '10.81.0.0/16'\nrcvbuf = '8MiB'\ncongestion = 'wad_aimd'\n";

/// The exit codes of `sysexits.h` for what lacks an agent or privileges, and that for all
/// that has none of its own.
const UNAVAILABLE: i32 = 69;
const NO_PERMISSION: i32 = 77;
const FAILURE: i32 = 1;

/// Returns what a command says that is refused for want of something on the host.
fn refused(home: &Home, command: Command) -> Result<String> {
    refused_with(FAILURE, home, command)
}

/// Returns what a refused command says: one line on standard error.
fn refused_with(code: i32, home: &Home, mut command: Command) -> Result<String> {
    let file = home.folder().join("refusal");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&file)?);
    let waited = Place::default().spawn(command)?.wait(LIMIT, || ());
    let said = fs::read_to_string(file)?;
    let journal = home.journal().exists();
    let pins = home.pins().exists();
    let ceiling = sysctl::get("net.core.rmem_max")?;
    // Whatever was wrong, what the agent did is undone before that is said.
    let _ = home.command("cleanup").output();
    let status = waited.with_context(|| said.clone())?;
    ensure!(status.code() == Some(code), "it ended with {status}, not {code}: {said}");
    ensure!(said.trim().lines().count() == 1, "not one line: {said}");
    ensure!(said.matches("(os error").count() <= 1, "a cause is told twice: {said}");
    ensure!(!journal && !pins && ceiling == "212992", "{journal} {pins} {ceiling}: {said}");
    Ok(said)
}

fn run_on(home: &Home, stand: &Stand) -> Command {
    let mut command = home.command("run");
    command.arg("--cgroup").arg(stand.cgroup().path());
    command
}

/// Checks that each of the words is in what was said.
fn ensure_names(said: &str, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(said.contains(word), "\"{word}\" is not in: {said}");
    }
    Ok(())
}

#[e2e(every_change, alone, any_kernel)]
fn without_privilege() -> Result<()> {
    let stand = Stand::set_up("nobody")?;
    let home = Home::create(&program()?, POLICY)?;
    // Somewhere that nobody may read.
    fs::set_permissions(home.folder(), fs::Permissions::from_mode(0o755))?;
    let copy = home.folder().join("wad");
    fs::copy(program()?, &copy)?;
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(&copy);
    nobody.args(run_on(&home, &stand).get_args());
    let said = refused_with(NO_PERMISSION, &home, nobody)?;
    ensure_names(&said, &["CAP_BPF", "CAP_NET_ADMIN", "run it as root"])
}

#[e2e(every_change, alone, any_kernel)]
fn without_one_capability() -> Result<()> {
    let stand = Stand::set_up("capability")?;
    let home = Home::create(&program()?, POLICY)?;
    for without in &NEEDED {
        let others: Vec<_> = NEEDED.into_iter().filter(|name| name != without).collect();
        let command = capable(&others, &run_on(&home, &stand));
        let said = refused_with(NO_PERMISSION, &home, command)?;
        let name = format!("CAP_{}", without.to_uppercase());
        ensure!(said.matches("CAP_").count() == 1 && said.contains(&name), "{name}: {said}");
    }
    Ok(())
}

/// Nobody else may change what the agent believes to be its own.
#[e2e(long, alone, any_kernel)]
fn folders_that_others_could_change() -> Result<()> {
    let stand = Stand::set_up("folders")?;
    let home = Home::create(&program()?, POLICY)?;
    let state = home.folder().join("state");
    let name = state.display().to_string();
    fs::create_dir(&state)?;
    chown(&state, Some(1234), None)?;
    let said = refused(&home, run_on(&home, &stand))?;
    ensure_names(&said, &[&name, "is of user 1234"])?;
    chown(&state, Some(0), None)?;
    fs::set_permissions(&state, fs::Permissions::from_mode(0o1777))?;
    let said = refused(&home, run_on(&home, &stand))?;
    ensure_names(&said, &[&name, "(mode 1777)", "chmod go-w"])?;
    fs::remove_dir(&state)?;
    let elsewhere = tempfile::tempdir()?;
    symlink(elsewhere.path(), &state)?;
    let said = refused(&home, run_on(&home, &stand))?;
    ensure_names(&said, &[&name, "is a symbolic link"])?;
    ensure!(fs::read_dir(elsewhere.path())?.next().is_none());
    fs::remove_file(&state)?;

    let mount = "mount -t bpf -o mode=0700 bpf /sys/fs/bpf && ";
    for (make, words) in [
        ("mkdir /sys/fs/bpf/wad && chown 1234 /sys/fs/bpf/wad", "is of user 1234"),
        ("mkdir /sys/fs/bpf/wad && chmod 0777 /sys/fs/bpf/wad", "(mode 0777)"),
        ("chmod 0777 /sys/fs/bpf", "(mode 0777)"),
    ] {
        let set_up = format!("{mount}{make}");
        let said = refused(&home, in_mounts(&set_up, &run_on(&home, &stand)))?;
        ensure_names(&said, &["/sys/fs/bpf", words])?;
    }
    // What is as it should be is closed to others.
    let agent = home.start(stand.cgroup())?;
    for folder in [state.as_path(), &home.pins(), Path::new("/run/wad")] {
        let mode = fs::metadata(folder)?.permissions().mode() & 0o7777;
        ensure!(mode == 0o700, "{}: {mode:04o}", folder.display());
    }
    agent.stop()?;
    Ok(())
}

#[e2e(every_change, alone, any_kernel)]
fn without_type_information_of_the_kernel() -> Result<()> {
    let stand = Stand::set_up("btf")?;
    let home = Home::create(&program()?, POLICY)?;
    let empty = tempfile::tempdir()?;
    let hide = format!("mount --bind {} /sys/kernel/btf", empty.path().display());
    let said = refused(&home, in_mounts(&hide, &run_on(&home, &stand)))?;
    ensure_names(&said, &["/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF"])
}

#[e2e(every_change, alone, any_kernel)]
fn without_cgroup_v2() -> Result<()> {
    let _stand = Stand::set_up("cgroup")?;
    let home = Home::create(&program()?, POLICY)?;
    let hide = format!("umount --lazy {}", cgroup::mount_point()?.display());
    let said = refused(&home, in_mounts(&hide, &home.command("run")))?;
    ensure_names(&said, &["cgroup v2", "mount -t cgroup2", "--cgroup"])?;

    let mut elsewhere = home.command("run");
    elsewhere.args(["--cgroup", "/tmp"]);
    ensure_names(&refused(&home, elsewhere)?, &["/tmp", "cgroup v2"])?;
    let mut missing = home.command("run");
    missing.args(["--cgroup", "/sys/fs/cgroup/no such folder"]);
    ensure_names(&refused(&home, missing)?, &["/sys/fs/cgroup/no such folder"])
}

#[e2e(long, alone, any_kernel)]
fn with_the_metrics_port_in_use() -> Result<()> {
    let stand = Stand::set_up("port")?;
    let home = Home::create(&program()?, POLICY)?;
    let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, home.metrics_port()))?;
    let said = refused(&home, run_on(&home, &stand))?;
    let address = format!("127.0.0.1:{}", home.metrics_port());
    ensure_names(&said, &[&address, "another program listens", "[metrics] listen"])
}

#[e2e(long, alone, any_kernel)]
fn commands_to_an_agent_that_is_not_there() -> Result<()> {
    let _stand = Stand::set_up("absent")?;
    let home = Home::create(&program()?, POLICY)?;
    let said = refused_with(UNAVAILABLE, &home, home.command("status"))?;
    ensure_names(&said, &[home.instance(), "wad run"])?;
    // There is nothing to do, which is no error.
    ensure!(home.command("cleanup").output()?.status.success());
    Ok(())
}
