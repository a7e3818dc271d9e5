//! Paths measured by ourselves: an agent with `[probe]` at one end, at the other the service
//! alone, which has no privileges and answers.

use std::{
    collections::HashSet,
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, chown},
    process::{Command, Output, Stdio},
    time::Duration,
};

use anyhow::{Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    netns::Netns,
    process::{Place, Process},
    stand::{Stand, until},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

/// The number of no user of a system.
const USER: u32 = 60_126;
const REFUSED: i32 = 3;
const PARTLY: i32 = 4;
/// The shortest period, and the time that a run may take.
const PERIOD: Duration = Duration::from_secs(15);

/// The service alone, as a user that may nothing.
struct Peer {
    _process: Process,
    folder: TempDir,
}

impl Peer {
    fn start(netns: &Netns) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        let (wad, config) = (folder.path().join("wad"), folder.path().join("wad.toml"));
        fs::copy(program()?, &wad)?;
        let state = folder.path().join("state");
        fs::create_dir(&state)?;
        chown(&state, Some(USER), Some(USER))?;
        let text = format!(
            "[agent]\nstate_dir = '{}'\n[probe]\nanswer = '[::]:4824'\nanswer_to = '10.81.0.0/16'\n",
            state.display()
        );
        fs::write(&config, text)?;
        let user = USER.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--inh-caps=-all"]);
        command.arg(&wad).args(["probe", "run", "--config"]).arg(&config);
        command.stderr(fs::File::create(folder.path().join("log"))?).stdin(Stdio::null());
        let process = Place { netns: Some(netns), cgroup: None }.spawn(command)?;
        let peer = Self { _process: process, folder };
        let look = || Ok::<_, anyhow::Error>(peer.log());
        until("the peer is there", PERIOD, look, |log| log.contains("probing"))?;
        Ok(peer)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

fn task(name: &str, rest: &str) -> String {
    let address = ADDRESSES_V4[1];
    format!(
        "[[probe.task]]\nname = '{name}'\npath = 'v4'\nhost = '{address}'\njitter = '0s'\n{rest}\n"
    )
}

const PATH: &str = "[limits]\nmax_memory = '64MiB'\n[[path]]\nname = 'v4'\nremote = '10.81.0.0/16'\nsndbuf = '1MiB'\n";
const ECHO: &str = "tool = 'rtt'\necho = 'udp'\ncount = 5\ninterval = '10ms'\nevery = '10s'";

fn probe(home: &Home, command: &str, words: &[&str]) -> Result<Output> {
    let mut wad = Command::new(program()?);
    wad.args(["probe", command, "--instance", home.instance(), "--json"]);
    Ok(wad.args(words).output()?)
}

fn runs(output: &Output) -> Result<Vec<Value>> {
    let told: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(told["schema"] == 1, "{told}");
    Ok(told["runs"].as_array().cloned().unwrap_or_default())
}

#[e2e(long, beside)]
fn an_agent_measures_a_path_to_a_peer_and_keeps_each_period() -> Result<()> {
    let stand = Stand::set_up("probe")?;
    let wire = Wire::start()?;
    let peer = Peer::start(wire.b())?;
    let bandwidth = "tool = 'bandwidth'\nevery = '1h'\ntimeout = '10s'\nmax_bytes = '16MiB'";
    let policy = PATH.to_owned() + &task("echo", ECHO) + &task("bandwidth", bandwidth);
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start_inside(wire.a(), stand.cgroup())?;

    let output = probe(&home, "now", &["v4"])?;
    ensure!(output.status.success(), "{output:?} {}", peer.log());
    let now = runs(&output)?;
    ensure!(now.len() == 2, "{now:?}");
    let [of_bandwidth, of_echo] = [&now[0], &now[1]];
    let rate = of_bandwidth["measured"]["bandwidth"]["bits_per_second"].as_f64();
    ensure!(rate.is_some_and(|rate| rate > 1e6), "{of_bandwidth}");
    ensure!(of_echo["measured"]["rtt"]["samples"] == 5, "{of_echo}");
    ensure!(of_echo["measured"]["loss"]["part"] == 0, "{of_echo}");

    // Beside those that were asked for, each period has a row of its own.
    let periods = || -> Result<Vec<Value>> {
        let rows = runs(&probe(&home, "log", &["--task", "echo"])?)?;
        Ok(rows.into_iter().filter(|row| row["period"] != of_echo["period"]).collect())
    };
    let rows = until("two periods are over", 2 * PERIOD, periods, |rows| rows.len() > 1)?;
    ensure!(rows.iter().all(|row| row["ending"] == "measured"), "{rows:?}");
    let began: HashSet<_> = rows.iter().map(|row| row["period"].to_string()).collect();
    ensure!(began.len() == rows.len(), "{rows:?}");

    // Another configuration is in force without a restart.
    let other = PATH.to_owned() + &task("echo", ECHO) + &task("other", ECHO);
    home.reload(&other)?;
    let output = probe(&home, "now", &["bandwidth"])?;
    ensure!(output.status.code() == Some(REFUSED), "{output:?}");
    let output = probe(&home, "now", &["other"])?;
    ensure!(output.status.success(), "{output:?}");

    // A peer that has gone holds nothing up, and is told of.
    drop(peer);
    let output = probe(&home, "now", &["echo"])?;
    ensure!(output.status.code() == Some(PARTLY), "{output:?}");
    ensure!(runs(&output)?[0]["measured"].is_null(), "{output:?}");

    // Without [probe] nobody is asked any more; what was measured stays.
    home.reload(PATH)?;
    let output = probe(&home, "log", &[])?;
    ensure!(String::from_utf8_lossy(&output.stderr).contains("no [probe]"), "{output:?}");
    home.reload(&other)?;
    let rows = runs(&probe(&home, "log", &["--task", "bandwidth"])?)?;
    ensure!(rows.iter().any(|row| row["ending"] == "measured"), "{rows:?}");
    agent.stop()?;
    Ok(())
}
