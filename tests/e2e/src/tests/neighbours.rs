//! Other BPF programs on the same cgroup: they go on working, and one that is
//! there exclusively is named.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    capture::Capture,
    foreign::{Foreign, Sharing},
    stand::Stand,
    sysctl,
    tcp::{Connection, at},
    veth::{self, Wire},
    wad::{Home, program},
};

/// The policy matches both ends of 10.81.0.0/16, and not those of fd81::/32.
const POLICY: &str = "[[path]]\nname = 'p'\nremote = '10.81.0.0/16'\nsndbuf = '1MiB'\n\
                      rcvbuf = '1MiB'\ncongestion = 'wad_aimd'\n";
const MATCHED: &str = veth::ADDRESSES_V4[1];
const UNMATCHED: &str = veth::ADDRESSES_V6[1];

/// Five segments each: a SYN's leaves no room for timestamps, a SYN-ACK's does.
const THEIRS_V4: (u32, u32) = (5 * 1460, 5 * 1448);
const THEIRS_V6: (u32, u32) = (5 * 1440, 5 * 1428);

/// Returns the windows in the SYN and the SYN-ACK of a connection, and whether it is
/// tuned.
fn first_windows(wire: &Wire, to: &str) -> Result<((u32, u32), bool)> {
    let capture = Capture::start(wire.a(), veth::DEVICE, "tcp")?;
    let connection = Connection::open(wire.a(), wire.b(), at(to, 7000))?;
    let flow = connection.near_flow(wire.a())?;
    connection.exchange(100_000)?;
    let packets = capture.stop()?;
    let window = |flags: &str| {
        let packet = packets.iter().find(|packet| packet.flags == flags);
        packet.map(|packet| packet.window).with_context(|| format!("no packet with {flags}"))
    };
    Ok(((window("S")?, window("S.")?), flow.congestion.starts_with("wad_aimd")))
}

#[e2e(long, beside)]
fn programs_of_others_go_on_working() -> Result<()> {
    let stand = Stand::set_up("others")?;
    let wire = Wire::start()?;
    let none = [first_windows(&wire, MATCHED)?, first_windows(&wire, UNMATCHED)?];
    let home = Home::create(&program()?, POLICY)?;

    // Attached before the agent, and after it.
    for before in [true, false] {
        let attach = || Foreign::attach(stand.cgroup(), Sharing::Multi, c"theirs", 5);
        let early = if before { Some(attach()?) } else { None };
        let agent = home.start(stand.cgroup())?;
        let late = if before { None } else { Some(attach()?) };
        let (windows, tuned) = first_windows(&wire, MATCHED)?;
        ensure!(tuned && windows == THEIRS_V4, "{windows:?}, tuned: {tuned}");
        let (windows, tuned) = first_windows(&wire, UNMATCHED)?;
        ensure!(!tuned && windows == THEIRS_V6, "{windows:?}, tuned: {tuned}");
        ensure!(none.iter().all(|(window, _)| *window != windows), "their program does nothing");

        // Theirs stays when ours goes.
        agent.stop()?;
        let (windows, tuned) = first_windows(&wire, MATCHED)?;
        ensure!(!tuned && windows == THEIRS_V4, "{windows:?}, tuned: {tuned}");
        drop((early, late));
    }
    ensure!([first_windows(&wire, MATCHED)?, first_windows(&wire, UNMATCHED)?] == none);
    Ok(())
}

/// A folder below a cgroup; removed when dropped.
struct Below(PathBuf);

impl Drop for Below {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[e2e(long, alone)]
fn an_exclusive_program_is_named() -> Result<()> {
    let stand = Stand::set_up("exclusive")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let _theirs = Foreign::attach(stand.cgroup(), Sharing::Exclusive, c"only_theirs", 5)?;
    let below = Below(stand.cgroup().path().join("below"));
    fs::create_dir(&below.0)?;

    // On the same cgroup, and on one above.
    for cgroup in [stand.cgroup().path(), &below.0] {
        let output = home.command("run").arg("--cgroup").arg(cgroup).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success(), "it was not refused: {said}");
        let there = stand.cgroup().path().to_string_lossy();
        ensure!(said.contains("only_theirs") && said.contains(&*there), "{said}");
        ensure!(said.trim().lines().count() == 1, "{said}");
        ensure!(said.matches("(os error").count() <= 1, "a cause is told twice: {said}");
        ensure!(!home.pins().exists() && !home.journal().exists());
        ensure!(sysctl::get("net.core.rmem_max")? == "212992");
        let (windows, tuned) = first_windows(&wire, MATCHED)?;
        ensure!(!tuned && windows == THEIRS_V4, "{windows:?}, tuned: {tuned}");
    }
    Ok(())
}
