//! `wad run --learn` sees what holds connections back that no path is for, and gives later
//! ones larger buffers: seen by `ss`, across a restart, until the file says otherwise.

use std::{slice, time::Duration};

use anyhow::{Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4, Wan},
    sending::while_sending,
    signal,
    stand::{Stand, until},
    tcp::{Connection, at},
    wad::{Home, program},
};

use crate::narrow;

const PORT: u16 = 7000;
const LIMIT: Duration = Duration::from_secs(90);

const MOST_SNDBUF: u64 = 1 << 20;
/// It is not the limit.
const MOST_RCVBUF: u64 = 16 << 20;

struct Bench<'b> {
    wan: &'b Wan,
    home: &'b Home,
}

impl Bench<'_> {
    fn open(&self) -> Result<Connection> {
        Ok(Connection::open(self.wan.a(), self.wan.b(), at(ADDRESSES_V4[1], PORT))?)
    }

    /// Returns the JSON of a command.
    fn json(&self, command: &str, arguments: &[&str]) -> Result<Value> {
        let output = self.home.command(command).args(arguments).arg("--json").output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Returns the names of the paths in force.
    fn paths(&self) -> Result<Vec<String>> {
        let status = self.json("status", &[])?;
        let paths = status["paths"].as_array().into_iter().flatten();
        Ok(paths.filter_map(|path| Some(path["name"].as_str()?.to_owned())).collect())
    }

    /// Sends over a new connection until its send buffer is larger than the kernel's own.
    fn until_larger(&self) -> Result<()> {
        let connection = self.open()?;
        while_sending(slice::from_ref(&connection), || {
            let sndbuf =
                || Ok::<_, anyhow::Error>(connection.near_flow(self.wan.a())?.sndbuf_bytes);
            until("a larger send buffer", LIMIT, sndbuf, |bytes| *bytes > MOST_SNDBUF)
        })?;
        Ok(())
    }

    /// Asserts that a new connection has what the kernel gives, and no more.
    fn is_kernels(&self) -> Result<()> {
        let connection = self.open()?;
        let flow = while_sending(slice::from_ref(&connection), || {
            signal::sleep(Duration::from_secs(4))?;
            Ok::<_, anyhow::Error>(connection.near_flow(self.wan.a())?)
        })?;
        ensure!(flow.sndbuf_bytes <= MOST_SNDBUF, "{flow:?}");
        Ok(())
    }
}

#[e2e(long, few, slow)]
fn what_holds_connections_back_is_learned_until_a_file_says_otherwise() -> Result<()> {
    let stand = Stand::set_up("learn")?;
    let wan = narrow::wan(MOST_SNDBUF, MOST_RCVBUF)?;
    let home = Home::create(&program()?, "")?;
    let bench = Bench { wan: &wan, home: &home };
    let path = format!("learned-{}/32", ADDRESSES_V4[1]);

    let agent = home.start_with(&["--learn"], stand.cgroup())?;
    ensure!(bench.paths()?.is_empty(), "{}", home.log());
    let connection = bench.open()?;
    while_sending(slice::from_ref(&connection), || {
        until("a path is learned", LIMIT, || bench.paths(), |paths| paths.contains(&path))
    })?;
    drop(connection);
    bench.until_larger()?;
    let evidence = "limited by the send buffer";
    ensure!(home.log().contains("learned sndbuf for") && home.log().contains(evidence));
    let all = bench.json("paths", &[])?;
    let known = all["paths"].as_array().into_iter().flatten().find(|it| it["name"] == *path);
    let known = known.map(|it| &it["learned"]["evidence"]).and_then(Value::as_str);
    ensure!(known.is_some_and(|known| known.contains(evidence)), "{all}");
    let explained = bench.json("explain", &[ADDRESSES_V4[1]])?;
    ensure!(explained.to_string().contains(&path), "{explained}");

    // It goes and comes with the kill switch.
    ensure!(home.command("disable").status()?.success());
    bench.is_kernels()?;
    ensure!(home.command("enable").status()?.success());
    bench.until_larger()?;

    // A stop takes it out; the next start has it again, if it is to learn.
    agent.stop()?;
    bench.is_kernels()?;
    let agent = home.start(stand.cgroup())?;
    ensure!(bench.paths()?.is_empty());
    bench.is_kernels()?;
    home.reload("[learn]\n")?;
    ensure!(bench.paths()? == slice::from_ref(&path));
    bench.until_larger()?;
    agent.stop()?;
    let _agent = home.start(stand.cgroup())?;
    ensure!(bench.paths()? == slice::from_ref(&path));
    bench.until_larger()?;

    // The file has the last word.
    let own = format!(
        "[learn]\n[[path]]\nname = 'own'\nremote = '{}/24'\nmode = 'observe'\n",
        "10.77.0.0"
    );
    home.reload(&own)?;
    ensure!(bench.paths()? == ["own"], "{:?}", bench.paths());
    ensure!(home.log().contains("path own of the configuration is for it"));
    bench.is_kernels()?;
    ensure!(bench.paths()? == ["own"], "{:?}", bench.paths());
    Ok(())
}
