//! A configuration is read again on demand, and when its file changes; what came
//! of it is said, and what this host refuses leaves no trace.

use std::{fs, os::unix::fs::symlink, path::Path, process::Output, time::Duration};

use anyhow::{Result, ensure};
use serde_json::json;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    signal,
    stand::{Stand, until},
    sysctl,
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

use crate::said::json;

const SOON: Duration = Duration::from_secs(10);
/// This time is longer than what the agent takes to notice a change.
const WHILE: Duration = Duration::from_secs(1);
const PORT: u16 = 7000;

fn path(name: &str, remote: &str, keys: &str) -> String {
    format!("[[path]]\nname = '{name}'\nremote = '{remote}'\n{keys}\n")
}

/// Returns the path of the flows that are looked at.
fn bob(sndbuf_bytes: u64) -> String {
    path("bob", ADDRESSES_V4[1], &format!("sndbuf = '{sndbuf_bytes}'"))
}

/// Returns the send buffer that a new flow gets, not doubled.
fn new_sndbuf(wire: &Wire) -> Result<u64> {
    let connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    Ok(connection.near_flow(wire.a())?.sndbuf_bytes / 2)
}

fn await_sndbuf(what: &'static str, wire: &Wire, bytes: u64) -> Result<()> {
    until(what, SOON, || new_sndbuf(wire), |seen| *seen == bytes).map(|_| ())
}

/// The configuration, by another name: a change made there is one that a watch on
/// the file's folder does not tell of.
struct Unwatched {
    folder: tempfile::TempDir,
}

impl Unwatched {
    fn of(home: &Home) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::hard_link(home.config(), folder.path().join("same"))?;
        Ok(Self { folder })
    }

    fn write(&self, home: &Home, policy: &str) -> Result<()> {
        Ok(home.write_to(self.folder.path().join("same"), policy)?)
    }
}

fn reload(home: &Home) -> Result<Output> {
    Ok(home.command("reload").output()?)
}

#[e2e(long, beside)]
fn wad_reload_says_what_changed_or_why_nothing_did() -> Result<()> {
    let stand = Stand::set_up("reload")?;
    let wire = Wire::start()?;
    let (eve, mallory) = (path("eve", "192.0.2.1", ""), path("mallory", "192.0.2.2", ""));
    let home = Home::create(&program()?, &(bob(100_000) + &eve))?;
    let file = Unwatched::of(&home)?;
    let _agent = home.start(stand.cgroup())?;
    let count = |result: &str| -> Result<f64> {
        let label = format!("result=\"{result}\"");
        Ok(home.metrics()?.value("wad_config_reloads_total", &[&label])?)
    };
    let is_up_to_date =
        || -> Result<f64> { Ok(home.metrics()?.value("wad_config_last_reload_successful", &[])?) };
    let loaded = || -> Result<f64> {
        Ok(home.metrics()?.value("wad_config_loaded_timestamp_seconds", &[])?)
    };
    ensure!(new_sndbuf(&wire)? == 100_000 && is_up_to_date()? == 1.0);
    let started = loaded()?;

    file.write(&home, &(bob(200_000) + &mallory))?;
    let output = reload(&home)?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{output:?}");
    for words in ["1 added, 1 changed, 1 removed", "mallory", "bob", "eve"] {
        ensure!(said.contains(words), "{said}");
    }
    ensure!(new_sndbuf(&wire)? == 200_000, "in force when `wad reload` returns");
    ensure!(home.log().contains("added mallory; changed bob; removed eve"), "{}", home.log());
    ensure!(count("applied")? == 1.0 && loaded()? > started);

    let same = json(&mut home.command("reload"))?;
    ensure!(same["result"] == "applied" && same["unchanged"] == 2, "{same}");

    // Neither a mistake nor what takes a stop and a start changes anything, all of them told.
    file.write(&home, &(bob(300_000) + "no_such_key = 1\n"))?;
    let output = reload(&home)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(3), "{output:?}");
    ensure!(said.contains("nothing was changed") && said.contains("no_such_key"), "{said}");
    file.write(&home, &bob(300_000))?;
    let moved = fs::read_to_string(home.config())?.replace("/state\"", "/other\"");
    fs::write(file.folder.path().join("same"), moved)?;
    let refused = json(&mut home.command("reload"))?;
    ensure!(refused["result"] == "refused", "{refused}");
    let reason = refused["reason"].as_str().unwrap_or_default();
    ensure!(
        reason.contains("agent.state_dir") && reason.contains("a stop and a start"),
        "{refused}"
    );
    ensure!(new_sndbuf(&wire)? == 200_000);
    ensure!(count("refused")? == 2.0 && count("failed")? == 0.0 && is_up_to_date()? == 0.0);
    let status = json(&mut home.command("status"))?;
    ensure!(status["reloads"]["behind"] == true, "{status}");

    file.write(&home, &bob(300_000))?;
    ensure!(reload(&home)?.status.success());
    ensure!(new_sndbuf(&wire)? == 300_000 && is_up_to_date()? == 1.0);

    // The log changes while it is written.
    file.write(&home, &(bob(300_000) + "[log]\nformat = 'json'\nlevel = 'debug'\n"))?;
    let told = json(&mut home.command("reload"))?;
    ensure!(told["settings"] == json!(["log.format", "log.level"]), "{told}");
    ensure!(new_sndbuf(&wire)? == 300_000);
    until(
        "a line of JSON",
        SOON,
        || -> Result<String> { Ok(home.log()) },
        |log: &String| {
            log.lines().any(|line| line.starts_with('{') && line.contains("\"level\":\"INFO\""))
        },
    )?;
    Ok(())
}

#[e2e(long, beside)]
fn a_dry_run_says_what_a_reload_would_change_and_changes_nothing() -> Result<()> {
    /// More than any host lets a buffer be by itself.
    const LARGE: u64 = 900 << 20;

    let stand = Stand::set_up("dryrun")?;
    let wire = Wire::start()?;
    let (eve, mallory) = (path("eve", "192.0.2.1", ""), path("mallory", "192.0.2.2", ""));
    let home = Home::create(&program()?, &(bob(100_000) + &eve))?;
    let file = Unwatched::of(&home)?;
    let _agent = home.start(stand.cgroup())?;
    let generation = || -> Result<f64> { Ok(home.metrics()?.value("wad_policy_generation", &[])?) };
    let told_of =
        |other: &Path| json(home.command("reload").arg("--dry-run").arg("--config").arg(other));

    let other = home.folder().join("other.toml");
    home.write_to(other.clone(), &(bob(200_000) + &mallory))?;
    let told = told_of(&other)?;
    ensure!(told["result"] == "would_apply" && told["added"][0] == "mallory", "{told}");
    ensure!(told["removed"][0] == "eve" && told["changed"][0] == "bob", "{told}");
    let sndbuf = &told["flows"][0]["settings"][0];
    ensure!(told["flows"][0]["path"] == "bob" && sndbuf["name"] == "sndbuf_bytes", "{told}");
    ensure!(sndbuf["before"] == 100_000 && sndbuf["after"] == 200_000, "{told}");

    home.write_to(other.clone(), &bob(LARGE))?;
    let told = told_of(&other)?;
    let ceiling = &told["host"]["sysctls"][0];
    ensure!(ceiling["name"] == "net.core.wmem_max", "{told}");
    ensure!(ceiling["after"] == LARGE.to_string().as_str(), "{told}");

    // A wrong one has its errors told, by its own name; and so has one for a restart.
    home.write_to(other.clone(), "no_such_key = 1\n")?;
    let output = home.command("reload").arg("--dry-run").arg("--config").arg(&other).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(3), "{output:?}");
    ensure!(said.contains("other.toml") && said.contains("no_such_key"), "{said}");

    // None of it was put in force. Without a file it is the agent's own that is looked at.
    ensure!(new_sndbuf(&wire)? == 100_000 && generation()? == 1.0);
    file.write(&home, &(bob(200_000) + &mallory))?;
    let told = json(home.command("reload").arg("--dry-run"))?;
    let done = json(&mut home.command("reload"))?;
    for part in ["added", "changed", "removed", "unchanged", "settings"] {
        ensure!(told[part] == done[part], "{part}: {told} {done}");
    }
    ensure!(new_sndbuf(&wire)? == 200_000 && generation()? == 2.0);
    Ok(())
}

#[e2e(long, beside)]
fn a_changed_file_is_read_however_it_was_changed() -> Result<()> {
    let stand = Stand::set_up("watch")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &bob(100_000))?;
    let _agent = home.start(stand.cgroup())?;
    let generation = || -> Result<f64> { Ok(home.metrics()?.value("wad_policy_generation", &[])?) };
    ensure!(new_sndbuf(&wire)? == 100_000 && generation()? == 1.0);

    home.write_policy(&bob(200_000))?;
    await_sndbuf("written in place", &wire, 200_000)?;
    // As most editors do.
    let new = home.folder().join("wad.toml.new");
    home.write_to(new.clone(), &bob(300_000))?;
    fs::rename(&new, home.config())?;
    await_sndbuf("renamed over", &wire, 300_000)?;
    ensure!(generation()? == 3.0, "each change was one reload");

    // Nothing is done for the same text, nor for other files.
    home.write_policy(&bob(300_000))?;
    fs::write(home.folder().join("other.toml"), "[[path]]\n")?;
    signal::sleep(WHILE)?;
    ensure!(generation()? == 3.0);

    home.write_policy("[[path]]\n")?;
    let refused = || Ok::<_, anyhow::Error>(home.log().contains("stays as it was"));
    until("a wrong file is refused", SOON, refused, |refused| *refused)?;
    ensure!(new_sndbuf(&wire)? == 300_000);
    Ok(())
}

/// The kubelet updates a volume in this way: the file is a link by way of `..data`,
/// which is made to point to a new folder; then the old one goes.
#[e2e(long, beside)]
fn a_config_map_is_read_when_it_is_swapped() -> Result<()> {
    let stand = Stand::set_up("configmap")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, "")?;
    let in_volume = |name: &str| home.folder().join(name);
    let swap = |version: &str, policy: &str| -> Result<()> {
        fs::create_dir(in_volume(version))?;
        home.write_to(in_volume(version).join("wad.toml"), policy)?;
        symlink(version, in_volume("..data_tmp"))?;
        Ok(fs::rename(in_volume("..data_tmp"), in_volume("..data"))?)
    };
    swap("..1", &bob(100_000))?;
    fs::remove_file(home.config())?;
    symlink("..data/wad.toml", home.config())?;
    let _agent = home.start(stand.cgroup())?;
    ensure!(new_sndbuf(&wire)? == 100_000);
    for (old, new, bytes) in [("..1", "..2", 200_000), ("..2", "..3", 300_000)] {
        swap(new, &bob(bytes))?;
        fs::remove_dir_all(in_volume(old))?;
        await_sndbuf("the new version is in force", &wire, bytes)?;
    }
    Ok(())
}

/// The first ceiling can be raised, the second is no number by then.
#[e2e(long, alone)]
fn what_fails_half_way_is_put_back() -> Result<()> {
    let stand = Stand::set_up("back")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &bob(100_000))?;
    let file = Unwatched::of(&home)?;
    let ceiling = home.folder().join("wmem_max");
    fs::write(&ceiling, "212992\n")?;
    let instead = format!("mount --bind '{}' /proc/sys/net/core/wmem_max", ceiling.display());
    let _agent = home.start_in(&instead, stand.cgroup())?;
    fs::write(&ceiling, "none\n")?;
    let before = sysctl::get("net.core.rmem_max")?;
    // With or without the BPF file system that the agent may have had to mount.
    let changes_before = json(&mut home.command("status"))?["changes"].clone();

    let keys = "sndbuf = '8MiB'\nrcvbuf = '8MiB'\ncongestion = 'wad_aimd'";
    // Nobody follows pods for it, either.
    let pods = "pods = { namespace = 'transfer' }\nsndbuf = '8MiB'";
    let pods = path("pods", ADDRESSES_V4[1], pods);
    file.write(&home, &(path("bob", ADDRESSES_V4[1], keys) + &pods))?;
    let failed = json(&mut home.command("reload"))?;
    ensure!(failed["result"] == "failed", "{failed}");
    let reason = failed["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("wmem_max"), "{failed}");
    ensure!(sysctl::get("net.core.rmem_max")? == before, "a ceiling is still raised");
    let status = json(&mut home.command("status"))?;
    ensure!(status["changes"] == changes_before && status["pods"].is_null(), "{status}");
    ensure!(new_sndbuf(&wire)? == 100_000);
    let failed = ["result=\"failed\""];
    ensure!(home.metrics()?.value("wad_config_reloads_total", &failed)? == 1.0);
    Ok(())
}
