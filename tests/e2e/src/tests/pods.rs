//! Paths for pods where nobody tells of pods: seen by the send buffer that ss shows. Those of a
//! real node are in the test of Kubernetes.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    process::run_command,
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

use super::cgroups::{Inner, within};
use crate::sizes;

const LIMIT: Duration = Duration::from_secs(30);
const NOBODY: &str = "[kubernetes]\nkubelet_socket = '/nonexistent/pods.sock'\n\n";
const UID: &str = "1f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718";
const OTHER: &str = "2f2e3d4c-5b6a-7980-a1b2-c3d4e5f60718";

const OF_PODS: u64 = 301_001;
const OF_ANY: u64 = 302_002;

#[e2e(long, beside)]
fn where_nobody_tells_of_pods_paths_for_them_match_nothing_and_that_is_said() -> Result<()> {
    let stand = Stand::set_up("pods")?;
    let wire = Wire::start()?;
    let remotes = [ADDRESSES_V4[1]];
    let paths = [
        sizes::path("pods", &remotes, "pods = { namespace = 'transfer' }", OF_PODS),
        sizes::path("any", &remotes, "", OF_ANY),
    ];
    let home = Home::create(&program()?, &format!("{NOBODY}{}", paths.concat()))?;
    let agent = home.start(stand.cgroup())?;
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], 7000))?;
    let sizes = sizes::of_ends(&[OF_PODS, OF_ANY], &wire, &connection)?;
    ensure!(sizes == [Some(OF_ANY), None], "{sizes:?}");

    let lacking = "paths with `pods` match nothing: pods of this node are not known";
    let status = || -> Result<String> { Ok(run_command(&mut home.command("status"))?) };
    let is_said = |status: &String| status.contains(&format!("\nlacking  {lacking}"));
    let said = until("the status says what is lacking", LIMIT, status, is_said)?;
    ensure!(said.contains("\npods     0 pods known\n"), "{said}");
    let status: Value = serde_json::from_str(&run_command(home.command("status").arg("--json"))?)?;
    let of_pods = &status["pods"];
    ensure!(of_pods["origin"].is_null() && of_pods["known"] == 0, "{of_pods}");
    ensure!(of_pods["lacking"].as_str().is_some_and(|it| it.starts_with(lacking)), "{of_pods}");
    ensure!(home.log().contains(&format!("lacking: {lacking}")), "{}", home.log());
    let metrics = home.metrics()?;
    for (name, value) in [("wad_pods_failing", 1.0), ("wad_pods", 0.0)] {
        ensure!(metrics.value(name, &[])? == value, "{name} in\n{}", metrics.text());
    }
    let mut explain = home.command("explain");
    let explained = run_command(explain.args([ADDRESSES_V4[1], "--pod", "transfer/dtn-0"]))?;
    ensure!(explained.contains("path pods, by 10."), "{explained}");
    ensure!(explained.contains("unless it has pods of transfer"), "{explained}");
    let mut check = Command::new(program()?);
    let checked = run_command(check.args(["check", "--config"]).arg(home.config()))?;
    ensure!(checked.contains("path pods: `wad run` asks the API server"), "{checked}");

    // Without such paths nobody is asked, and nothing is lacking.
    home.reload(&paths[1])?;
    let said = run_command(&mut home.command("status"))?;
    ensure!(!said.contains("\npods "), "{said}");
    ensure!(!home.metrics()?.text().contains("wad_pods"), "metrics of pods");
    Ok(agent.stop()?)
}

/// As an agent before this one left them, whom the kubelet or the API server had told.
#[e2e(long, beside)]
fn pods_that_were_known_last_hold_for_an_agent_whom_nobody_tells() -> Result<()> {
    let stand = Stand::set_up("pods-kept")?;
    let wire = Wire::start()?;
    let pod = Inner::make(stand.cgroup().path(), &format!("pod{UID}"))?;
    let path =
        sizes::path("pods", &[ADDRESSES_V4[1]], "pods = { labels = { app = 'dtn' } }", OF_PODS);
    let home = Home::create(&program()?, &format!("{NOBODY}{path}"))?;
    let kept = |cgroup: u64| {
        json!({
            "cgroup": cgroup, "namespace": "transfer", "name": "dtn-0", "labels": { "app": "dtn" },
            "containers": {},
        })
    };
    let known_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
    let cgroup = fs::metadata(&pod.0)?.ino();
    let kept = json!({ "known_at": known_at, "pods": { UID: kept(cgroup), OTHER: kept(cgroup) } });
    let state_dir = home.journal();
    let state_dir = state_dir.parent().context("a journal is in a folder")?;
    fs::create_dir_all(state_dir)?;
    fs::write(state_dir.join(format!("pods-{}.json", home.instance())), kept.to_string())?;

    let open = |port| {
        let to = at(ADDRESSES_V4[1], port);
        within(&pod.0, &stand, || Connection::open(wire.a(), wire.b(), to))
    };
    let before = open(7000)??;
    let agent = home.start(stand.cgroup())?;
    for connection in [before, open(7001)??] {
        let size = || sizes::of_ends(&[OF_PODS], &wire, &connection);
        until("it has what its pod has", LIMIT, size, |sizes| sizes[0] == Some(OF_PODS))?;
    }
    let status = run_command(&mut home.command("status"))?;
    let lacking = "paths with `pods` go by the 1 pods that were known last";
    ensure!(status.contains(lacking), "{status}");
    Ok(agent.stop()?)
}
