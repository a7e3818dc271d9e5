//! The time from the start of an agent to the first new flow that it tunes.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use wad_testbed::{
    cgroup::Cgroup,
    process::{Place, run_command},
    wad::Home,
};

/// Measures it, in seconds: an agent is started on the cgroup, and is to end within a time.
/// Flows are made in a place below that, to a server that is there already.
pub fn seconds(
    me: &Path,
    home: &Home,
    cgroup: &Cgroup,
    (place, server): (&Place<'_>, &str),
    ends_within: Duration,
) -> Result<f64> {
    let mut command = home.command("run");
    command.arg("--cgroup").arg(cgroup.path());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    home.expect_agent();
    let begun = Instant::now();
    let mut agent = Place::default().spawn(command)?;
    let mut first = Command::new(me);
    first.args(["first-tuned", server]);
    place.apply(&mut first);
    run_command(&mut first)?;
    let took = begun.elapsed().as_secs_f64();
    agent.signal(Signal::SIGTERM);
    let status = agent.wait(ends_within, || ())?;
    ensure!(status.success(), "wad run ended with {status}");
    Ok(took)
}
