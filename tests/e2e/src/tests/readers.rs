//! Members of a group may see what the agent knows, and change nothing.

use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::Path,
    process::Output,
};

use anyhow::{Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    stand::Stand,
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

/// Numbers that no user and group of a system has.
const USER: u32 = 60_123;
const GROUP: u32 = 60_124;
const OTHER_GROUP: u32 = 60_125;

const PORT: u16 = 7000;
const MISSING_RIGHTS: i32 = 77;

/// Others see the mode of /run/wad meanwhile.
#[e2e(long, alone)]
fn a_group_may_see_what_there_is_and_change_nothing() -> Result<()> {
    let stand = Stand::set_up("readers")?;
    let wire = Wire::start()?;
    // Where others can run it.
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    let wad = folder.path().join("wad");
    fs::copy(program()?, &wad)?;
    let policy =
        format!("[api]\ngroup = {GROUP}\n[[path]]\nname = 'v4'\nremote = '10.81.0.0/16'\n");
    let home = Home::create(&wad, &policy)?;
    let agent = home.start(stand.cgroup())?;
    let _connection = Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], PORT))?;
    let run = |group: u32, command: &str, words: &[&str]| -> Result<Output> {
        Ok(home.command(command).args(words).uid(USER).gid(group).output()?)
    };

    let commands: [(&str, &[&str]); 5] = [
        ("flows", &["--json"]),
        ("status", &["--json"]),
        ("paths", &["--json"]),
        ("explain", &["10.81.0.2", "--json"]),
        ("diagnose", &["--life", "--json"]),
    ];
    for (command, words) in commands {
        let output = run(GROUP, command, words)?;
        ensure!(output.status.success(), "{command}: {output:?}");
        let told: Value = serde_json::from_slice(&output.stdout)?;
        ensure!(told["schema"] == 1, "{command}: {told}");
        let output = run(OTHER_GROUP, command, words)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(MISSING_RIGHTS), "{command}: {output:?}");
        ensure!(said.contains("[api] group"), "{command}: {said}");
    }
    for command in ["reload", "disable", "enable"] {
        let output = run(GROUP, command, &[])?;
        ensure!(output.status.code() == Some(MISSING_RIGHTS), "{command}: {output:?}");
    }

    let socket = Path::new("/run/wad").join(format!("{}.read.sock", home.instance()));
    let found = fs::metadata(&socket)?;
    ensure!(found.mode() & 0o777 == 0o660 && found.gid() == GROUP, "{found:?}");
    ensure!(fs::metadata("/run/wad")?.mode() & 0o777 == 0o711);
    drop(agent);
    ensure!(!socket.exists());
    ensure!(fs::metadata("/run/wad")?.mode() & 0o777 == 0o700, "nobody is to pass any more");
    Ok(())
}
