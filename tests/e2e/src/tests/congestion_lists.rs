//! A list of congestion controls gives the first that this kernel has: by ss on both ends
//! of a connection, and anew at each reload, as what the kernel has changes. What it has is
//! played by files in the place of those that the agent reads.

use std::{fs, process::Stdio, time::Duration};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    old_kernel,
    process::{Place, in_mounts, run_command},
    stand::{Stand, until},
    sysctl,
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

const LIMIT: Duration = Duration::from_secs(60);

/// For both ends. No kernel has the first; the second is a module by name only.
const LIST: &str = "['brutal', 'swift', 'cubic', 'reno']";

/// Returns the algorithms of both ends of a new connection.
fn algorithms(wire: &Wire, address: &str) -> Result<[String; 2]> {
    let connection = Connection::open(wire.a(), wire.b(), at(address, 7000))?;
    connection.exchange(100_000)?;
    Ok([connection.near_flow(wire.a())?.congestion, connection.far_flow(wire.b())?.congestion])
}

fn ensure_given(wire: &Wire, name: &str) -> Result<()> {
    for [_, address] in [ADDRESSES_V4, ADDRESSES_V6] {
        let given = algorithms(wire, address)?;
        ensure!(given == [name, name], "{address}: {given:?}, not {name}");
    }
    Ok(())
}

#[e2e(every_change, alone)]
fn the_first_of_a_list_that_the_kernel_has_is_given() -> Result<()> {
    let stand = Stand::set_up("lists")?;
    let wire = Wire::start()?;
    let _mounted = old_kernel::BpfFileSystem::mount()?;
    let remote = [ADDRESSES_V4, ADDRESSES_V6].concat();
    let policy = format!(
        "[[path]]\nname = 'p'\nremote = {remote:?}\nallow = 'aggressive'\ncongestion = {LIST}\n"
    );
    let home = Home::create(&program()?, &policy)?;
    let (available, lib) = (home.folder().join("available"), home.folder().join("lib"));
    let module = lib.join("modules").join(sysctl::get("kernel.osrelease")?);
    fs::create_dir_all(&module)?;
    fs::write(module.join("modules.dep"), "kernel/net/ipv4/tcp_swift.ko:\n")?;
    fs::write(&available, "reno\n")?;

    // Not every host has modules.
    let (lib, list) = (lib.display(), available.display());
    let script = format!(
        "mount --bind {list} /proc/sys/net/ipv4/tcp_available_congestion_control\n\
         if test -d /lib/modules; then mount --bind {lib}/modules /lib/modules\n\
         else mount -t overlay -o lowerdir={lib}:/lib none /lib; fi"
    );
    let mut run = home.command("run");
    run.arg("--cgroup").arg(stand.cgroup().path());
    let mut command = in_mounts(&script, &run);
    let log = home.folder().join("log");
    let log_file = fs::File::create(&log)?;
    command.stdin(Stdio::null()).stdout(log_file.try_clone()?).stderr(log_file);
    home.expect_agent();
    let mut agent = Place::default().spawn(command)?;
    let said = || fs::read_to_string(&log).context("no log");
    let look = || {
        let is_ready = home.command("status").output()?.status.success();
        ensure!(is_ready || agent.ended()?.is_none(), "it ended at once");
        Ok(is_ready)
    };
    let ready = until("the agent is ready", LIMIT, look, |ready| *ready);
    ensure!(ready.is_ok(), "{}", said()?);

    ensure_given(&wire, "reno")?;
    let why = "congestion is the first of its list that can be had: the kernel has no brutal, the \
               kernel did not load tcp_swift (";
    ensure!(said()?.contains(why) && said()?.contains("the kernel has no cubic"), "{}", said()?);
    let explained = run_command(home.command("explain").arg(ADDRESSES_V4[1]))?;
    ensure!(explained.contains(why) && explained.contains("reno"), "{explained}");
    let paths = run_command(&mut home.command("paths"))?;
    ensure!(paths.contains("reno"), "{paths}");

    // The next start of the kernel's, or a module: it has one more.
    fs::write(&available, "reno cubic\n")?;
    home.reload(&policy)?;
    ensure_given(&wire, "cubic")?;
    // What was refused is asked for anew, and refused: an entry that is there is not needed.
    let only = policy.replace(LIST, "['brutal', 'swift']");
    home.write_policy(&only)?;
    let refused = home.command("reload").output()?;
    let refusal = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(!refused.status.success() && refusal.contains("none of these can be had"), "{refusal}");
    ensure_given(&wire, "cubic")?;

    agent.signal(Signal::SIGTERM);
    ensure!(agent.wait(LIMIT, || ())?.success(), "{}", said()?);
    Ok(())
}
