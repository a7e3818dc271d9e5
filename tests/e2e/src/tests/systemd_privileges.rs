//! The unit's privileges under a real systemd: with each of its capabilities removed in turn,
//! what goes without it is what was said, and nothing else; secrets come in as credentials.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    answers::{Answer, Answers},
    netns::Netns,
    process::{Place, Process, run_command},
    ss::Flow,
    stand::{Stand, until},
    systemd::Systemd,
    tcp::{Connection, at},
    wad::{Home, program},
};

use super::{
    containers::{AUTOTUNE, BEFORE, RAISED, await_limits, inode, limits, lower, policy},
    systemd::{UNIT, systemd},
};

const SOON: Duration = Duration::from_secs(10);
const REMOTE: &str = "127.0.0.2";
const PORT: u16 = 7000;
/// A number that no group of a system has.
const GROUP: &str = "60124";
const BOUNDING_SET: &str = "CapabilityBoundingSet=";
/// The exit code of `sysexits.h` for missing privileges, with which systemd tries no more.
const NO_PERMISSION: &str = "77";

/// Returns the capabilities that the unit leaves the agent.
fn capabilities() -> Result<Vec<String>> {
    let unit = fs::read_to_string(UNIT)?;
    let line = unit.lines().find_map(|line| line.strip_prefix(BOUNDING_SET));
    Ok(line.context("the unit has no bounding set")?.split(' ').map(str::to_owned).collect())
}

#[e2e(never = "there is no systemd", alone)]
fn a_unit_with_all_of_its_capabilities_lacks_nothing() -> Result<()> {
    with(&capabilities()?, None)
}

#[e2e(never = "there is no systemd", alone)]
fn without_a_capability_of_the_unit_goes_what_it_is_for_and_nothing_else() -> Result<()> {
    for without in capabilities()? {
        let others: Vec<_> =
            capabilities()?.into_iter().filter(|other| *other != without).collect();
        with(&others, Some(&without)).with_context(|| format!("without {without}"))?;
    }
    Ok(())
}

/// A container as the agent finds it: a network namespace, by nothing but a process in it.
struct Pod {
    netns: Netns,
    _process: Process,
}

impl Pod {
    /// Starts it by a command, which is to last.
    fn start(systemd: &Systemd, words: &[&str]) -> Result<Self> {
        let netns = Netns::create("pod")?;
        netns.ip(&["link", "set", "lo", "up"])?;
        lower(&netns)?;
        let mut command = systemd.command_on_own_network(words[0]);
        command.args(&words[1..]);
        let process = Place { netns: Some(&netns), cgroup: None }.spawn(command)?;
        Ok(Self { netns, _process: process })
    }

    fn open(&self) -> Result<Connection> {
        Ok(Connection::open(&self.netns, &self.netns, at(REMOTE, PORT))?)
    }

    fn flow(&self, connection: &Connection) -> Result<Flow> {
        Ok(connection.near_flow(&self.netns)?)
    }
}

fn has_law(flow: &Flow) -> bool {
    flow.congestion.starts_with("wad_aimd")
}

/// Returns what `wad` says where the agent is.
fn said(systemd: &Systemd, home: &Home, words: &[&str]) -> Result<String> {
    let mut command = systemd.command(home.folder().join("wad"));
    Ok(run_command(command.args(words).args(["--instance", home.instance()]))?)
}

fn with(capabilities: &[String], without: Option<&str>) -> Result<()> {
    let stand = Stand::set_up("unit-capable")?;
    let keys = AUTOTUNE.to_owned() + "\ncongestion = 'wad_aimd'";
    let api = format!("[api]\ngroup = {GROUP}");
    let home = Home::create(&program()?, &policy(&api, REMOTE, &keys))?;
    let set = format!("{BOUNDING_SET}\n{BOUNDING_SET}{}\n", capabilities.join(" "));
    let systemd = systemd(&stand, &home, &set)?;
    // One that has no more than any agent, and one that has all.
    let few = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "sleep", "600"];
    let pods = [Pod::start(&systemd, &few)?, Pod::start(&systemd, &few[3..])?];
    let early = pods[0].open()?;

    let started = systemd.systemctl(&["start", "wad.service"]);
    match without {
        Some("CAP_BPF" | "CAP_PERFMON" | "CAP_NET_ADMIN") => {
            ensure!(started.is_err(), "it has started");
            return is_refused(&systemd, &home, &[without.unwrap_or_default()]);
        }
        Some("CAP_CHOWN") => {
            ensure!(started.is_err(), "it has started");
            is_refused(&systemd, &home, &["CAP_CHOWN", "[api] group"])?;
            home.write_policy(&policy("", REMOTE, &keys))?;
            systemd.systemctl(&["start", "wad.service"]).with_context(|| home.log())?;
        }
        Some("CAP_SYS_ADMIN" | "CAP_SYS_PTRACE") | None => {
            started.with_context(|| home.log())?;
            let socket = format!("/run/wad/{}.read.sock", home.instance());
            let group = run_command(systemd.command("stat").args(["-c", "%g", &socket]))?;
            ensure!(group.trim() == GROUP, "{group}");
        }
        Some(other) => bail!("nothing here says what {other} is for"),
    }
    let status: Value = serde_json::from_str(&said(&systemd, &home, &["status", "--json"])?)?;
    let lacking = status["lacking"].as_array().map_or(&[][..], Vec::as_slice);
    let names = without.filter(|name| *name != "CAP_CHOWN");
    ensure!(lacking.len() == usize::from(names.is_some()), "{lacking:?}");
    ensure!(names.is_none_or(|name| lacking[0].as_str().is_some_and(|it| it.contains(name))));

    // New connections have their law in any case.
    let connections = [pods[0].open()?, pods[1].open()?];
    for (pod, connection) in pods.iter().zip(&connections) {
        ensure!(has_law(&pod.flow(connection)?), "{:?}", pod.flow(connection)?);
    }
    let named = |pod: &Pod, reason: &str| -> Result<()> {
        let number = inode(&pod.netns)?.to_string();
        let look = || said(&systemd, &home, &["explain", REMOTE]);
        until("wad explain names it", SOON, look, |text| {
            text.lines().any(|line| line.contains(&number) && line.contains(reason))
        })?;
        Ok(())
    };
    match without {
        Some("CAP_SYS_ADMIN") => {
            named(&pods[0], "which takes CAP_SYS_ADMIN")?;
            ensure!(!has_law(&pods[0].flow(&early)?), "{:?}", pods[0].flow(&early)?);
            for pod in &pods {
                ensure!(limits(&pod.netns)? == BEFORE, "{:?}", limits(&pod.netns)?);
            }
        }
        Some("CAP_SYS_PTRACE") => {
            await_limits(&pods[0].netns, RAISED)?;
            named(&pods[1], "it cannot be found")?;
            ensure!(has_law(&pods[0].flow(&early)?), "{:?}", pods[0].flow(&early)?);
            ensure!(limits(&pods[1].netns)? == BEFORE, "{:?}", limits(&pods[1].netns)?);
        }
        _ => {
            ensure!(has_law(&pods[0].flow(&early)?), "{:?}", pods[0].flow(&early)?);
            pods.iter().try_for_each(|pod| await_limits(&pod.netns, RAISED))?;
        }
    }
    drop((early, connections));
    systemd.systemctl(&["stop", "wad.service"])?;
    ensure!(systemd.property("Result")? == "success", "{}", home.log());
    pods.iter().try_for_each(|pod| await_limits(&pod.netns, BEFORE))?;
    is_nothing_left(&systemd, &home)
}

/// The unit has not the capability; a drop-in adds it to what the unit has.
#[e2e(never = "there is no systemd", alone)]
fn a_port_below_1024_takes_one_more_capability() -> Result<()> {
    for (more, may) in [("", false), ("CapabilityBoundingSet=CAP_NET_BIND_SERVICE\n", true)] {
        let stand = Stand::set_up("unit-port")?;
        let home = Home::create(&program()?, &policy("", REMOTE, ""))?;
        let text = fs::read_to_string(home.config())?;
        let listen = text.lines().find(|line| line.starts_with("listen = "));
        let listen = listen.context("the metrics are nowhere")?;
        fs::write(home.config(), text.replace(listen, "listen = \"127.0.0.1:599\""))?;
        let systemd = systemd(&stand, &home, more)?;
        let started = systemd.systemctl(&["start", "wad.service"]);
        if may {
            started.with_context(|| home.log())?;
            systemd.systemctl(&["stop", "wad.service"])?;
        } else {
            ensure!(started.is_err(), "it has started");
            is_refused(&systemd, &home, &["CAP_NET_BIND_SERVICE", "[metrics] listen"])?;
        }
    }
    Ok(())
}

/// The unit has failed for good, with a line that names the capability alone.
fn is_refused(systemd: &Systemd, home: &Home, words: &[&str]) -> Result<()> {
    let log = home.log();
    for (property, expected) in
        [("ActiveState", "failed"), ("ExecMainStatus", NO_PERMISSION), ("NRestarts", "0")]
    {
        let found = systemd.property(property)?;
        ensure!(found == expected, "{property} is {found}: {log}");
    }
    ensure!(log.matches("CAP_").count() == 1, "{log}");
    ensure!(words.iter().all(|word| log.contains(word)), "{words:?} in {log}");
    is_nothing_left(systemd, home)
}

fn is_nothing_left(systemd: &Systemd, home: &Home) -> Result<()> {
    run_command(systemd.command("test").args(["!", "-e", "/sys/fs/bpf/wad"]))?;
    ensure!(!home.journal().exists(), "{}", home.log());
    Ok(())
}

const TOKEN: &str = "s3cret-4711";

#[e2e(never = "there is no systemd", alone)]
fn a_token_comes_in_as_a_credential() -> Result<()> {
    let stand = Stand::set_up("unit-token")?;
    let answers = Answers::start_for(TOKEN, |_| {
        Answer::json(
            r#"{"paths": [{"path": "p", "bandwidth_bits_per_second": 1e8, "rtt_seconds": 0.05}]}"#,
        )
    })?;
    let source = |name: &str, more: &str| {
        format!(
            "[[source]]\nname = '{name}'\nkind = 'http'\nurl = 'http://{}/'\ninterval = '1s'\n\
             {more}\n",
            answers.address()
        )
    };
    let text = source("known", "token_file = '/run/credentials/wad.service/token'")
        + &source("unknown", "")
        + "[[path]]\nname = 'p'\nremote = '10.81.0.2'\nmode = 'measured'\nsndbuf = 'auto'\n";
    let home = Home::create(&program()?, &text)?;
    let file = home.folder().join("secret");
    fs::write(&file, format!("{TOKEN}\n"))?;
    let credential = format!("LoadCredential=token:{}\n", file.display());
    let systemd = systemd(&stand, &home, &credential)?;
    systemd.systemctl(&["start", "wad.service"]).with_context(|| home.log())?;
    let sources = || -> Result<Value> {
        let paths: Value = serde_json::from_str(&said(&systemd, &home, &["paths", "--json"])?)?;
        Ok(paths["sources"].clone())
    };
    let is_told = |sources: &Value| {
        let refused = sources[1]["error"].as_str().unwrap_or_default();
        sources[0]["error"].is_null()
            && sources[0]["age_seconds"].is_number()
            && refused.contains("401")
    };
    until("the one has an answer, and the other is refused", SOON, sources, is_told)?;
    let explained = said(&systemd, &home, &["explain", "10.81.0.2"])?;
    for shown in [home.log(), explained, sources()?.to_string()] {
        ensure!(!shown.contains(TOKEN), "{shown}");
    }
    // Nobody but the unit has it.
    let credentials = ["ls", "-A", "/run/credentials"];
    let listed = run_command(systemd.command(credentials[0]).args(&credentials[1..]))?;
    ensure!(listed.trim() == "wad.service", "{listed}");
    systemd.systemctl(&["stop", "wad.service"])?;
    Ok(())
}
