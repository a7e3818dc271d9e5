//! A configuration in several files: a change of any is put in force, a wrong one changes
//! nothing and is named.

use std::{fs, os::unix::fs::symlink};

use anyhow::{Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    stand::{Stand, until},
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

const PORT: u16 = 7000;
const SOON: std::time::Duration = std::time::Duration::from_secs(10);

fn path(name: &str, remote: &str, keys: &str) -> String {
    format!("[[path]]\nname = '{name}'\nremote = '{remote}'\nremote_port = {PORT}\n{keys}\n")
}

/// Returns the send buffer that a new connection has, in the words of SO_SNDBUF.
fn new_sndbuf(wire: &Wire, address: &str) -> Result<u64> {
    let connection = Connection::open(wire.a(), wire.b(), at(address, PORT))?;
    Ok(connection.near_flow(wire.a())?.sndbuf_bytes / 2)
}

fn await_sndbuf(wire: &Wire, address: &str, bytes: u64) -> Result<()> {
    until("the change is in force", SOON, || new_sndbuf(wire, address), |is| *is == bytes)?;
    Ok(())
}

#[e2e(long, beside)]
fn a_change_of_any_file_is_put_in_force() -> Result<()> {
    let stand = Stand::set_up("files")?;
    let wire = Wire::start()?;
    let [v4, v6] = [ADDRESSES_V4[1], ADDRESSES_V6[1]];
    let home = Home::create(&program()?, "[defaults]\nsndbuf = 100000\n")?;
    let agent = home.start(stand.cgroup())?;
    let usual = new_sndbuf(&wire, v4)?;

    // As a ConfigMap is mounted and swapped: a path inherits from one of another file.
    let folder = home.folder().join("conf.d");
    fs::create_dir(&folder)?;
    let swap = |version: &str, bytes: u64| -> Result<()> {
        fs::create_dir(folder.join(version))?;
        let parent = path("parent", v6, &format!("sndbuf = {bytes}"));
        fs::write(folder.join(version).join("parent.toml"), parent)?;
        symlink(version, folder.join("..data_tmp"))?;
        Ok(fs::rename(folder.join("..data_tmp"), folder.join("..data"))?)
    };
    swap("..1", 200_000)?;
    symlink("..data/parent.toml", folder.join("parent.toml"))?;
    fs::write(folder.join("child.toml"), path("child", v4, "inherit = 'parent'"))?;
    await_sndbuf(&wire, v6, 200_000)?;
    await_sndbuf(&wire, v4, 200_000)?;
    swap("..2", 300_000)?;
    fs::remove_dir_all(folder.join("..1"))?;
    await_sndbuf(&wire, v4, 300_000)?;
    fs::write(folder.join("child.toml"), path("child", v4, ""))?;
    await_sndbuf(&wire, v4, 100_000)?;

    // Two files that contradict each other: both are named, and what runs goes on.
    fs::write(folder.join("other.toml"), path("child", "192.0.2.1", ""))?;
    let refused = home.command("reload").output()?;
    let reason = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(3), "{refused:?}");
    ensure!(
        reason.contains("conf.d/other.toml:2:8") && reason.contains("conf.d/child.toml:2:8"),
        "{reason}"
    );
    ensure!(new_sndbuf(&wire, v4)? == 100_000);
    fs::write(folder.join("other.toml"), "[[path]\n")?;
    let broken = home.command("reload").output()?;
    let reason = String::from_utf8_lossy(&broken.stderr);
    ensure!(broken.status.code() == Some(3), "{broken:?}");
    ensure!(reason.contains("conf.d/other.toml:1:8"), "{reason}");
    ensure!(new_sndbuf(&wire, v4)? == 100_000);
    fs::remove_file(folder.join("other.toml"))?;

    // A dry run takes the folder along.
    let next = home.folder().join("next.toml");
    home.write_to(next.clone(), "[defaults]\nsndbuf = 400000\n")?;
    let mut preview = home.command("reload");
    let told = preview.args(["--dry-run", "--json", "--config"]).arg(&next).output()?;
    let told: Value = serde_json::from_slice(&told.stdout)?;
    ensure!(told["changed"] == serde_json::json!(["child"]), "{told}");

    fs::remove_dir_all(&folder)?;
    await_sndbuf(&wire, v4, usual)?;
    // A broken file is no obstacle to who cleans up after a crash.
    fs::create_dir(&folder)?;
    fs::write(folder.join("broken.toml"), "[[path]\n")?;
    agent.kill()?;
    let cleaned = home.command("cleanup").output()?;
    ensure!(cleaned.status.success() && !home.pins().exists(), "{cleaned:?}");
    Ok(())
}
