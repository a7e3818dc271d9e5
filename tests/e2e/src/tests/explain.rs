//! `wad explain` and `/v1/path` say what flows get: the same whether asked of the
//! agent, by socket or by port, or of the configuration.

use std::{net::TcpListener, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    process::run_command,
    stand::Stand,
    tcp::{Connection, at},
    veth::{ADDRESSES_V4, ADDRESSES_V6, Wire},
    wad::{Home, program},
};

/// The policy has prefixes within prefixes, with ports and local prefixes, of both
/// families.
const POLICY: &str = "
[[path]]
name = 'wide'
remote = ['10.0.0.0/8', 'fd81::/16']
sndbuf = '100000'

[[path]]
name = 'web'
remote = ['10.81.0.0/16', 'fd81::/32']
remote_port = 443
sndbuf = '200000'
rcvbuf = '300000'
congestion = 'wad_aimd'
additive_increase = 0.529
decrease = 0.3

[[path]]
name = 'here'
remote = '10.81.0.0/16'
local = '10.81.0.0/16'
bandwidth = '16Mbit'
rtt = '100ms'
sndbuf = 'auto'
rcvbuf = 'auto'

[[path]]
name = 'seen'
remote = '10.81.0.2'
remote_port = 80
mode = 'observe'
sndbuf = '400000'
";

fn explain(home: &Home, arguments: &[&str]) -> Result<Value> {
    let output = home.command("explain").args(arguments).arg("--json").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("not JSON")
}

/// Asks with curl, as a script does.
fn curl(arguments: &[&str]) -> Result<Value> {
    let answer =
        run_command(Command::new("curl").args(["--silent", "--show-error"]).args(arguments))?;
    serde_json::from_str(&answer).with_context(|| answer.clone())
}

#[e2e(long, beside)]
fn the_answer_is_what_flows_get_whoever_is_asked() -> Result<()> {
    let stand = Stand::set_up("explain")?;
    let wire = Wire::start()?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let policy = format!("[api]\nlisten = '127.0.0.1:{port}'\n{POLICY}");
    let home = Home::create(&program()?, &policy)?;
    let config = home.config().display().to_string();
    let of_file = ["10.81.0.2:443", "--config", &config];
    let without = explain(&home, &of_file)?;
    ensure!(without["from"]["configuration"].is_object(), "{without}");
    let agent = home.start(stand.cgroup())?;
    ensure!(explain(&home, &of_file)? == without, "the agent was asked");
    let socket = format!("/run/wad/{}.sock", home.instance());

    for (remote, path, sndbuf_bytes) in [
        (at(ADDRESSES_V4[1], 443), "web", 200_000),
        // 1.25 times 200 kB.
        (at(ADDRESSES_V4[1], 7000), "here", 250_000),
        (at(ADDRESSES_V6[1], 443), "web", 200_000),
        (at(ADDRESSES_V6[1], 7000), "wide", 100_000),
    ] {
        let connection = Connection::open(wire.a(), wire.b(), remote)?;
        let flow = connection.near_flow(wire.a())?;
        let (remote, local) = (remote.to_string(), connection.near.local_addr()?.to_string());
        let of_agent = explain(&home, &[&remote, "--local", &local])?;
        let found = &of_agent["path"];
        ensure!(found["name"] == path && found["state"] == "tuned", "{of_agent}");
        ensure!(found["settings"]["sndbuf_bytes"] == sndbuf_bytes, "{of_agent}");
        // With "auto" it is what the buffer may come to: nothing was sent yet.
        let is_so = if path == "here" {
            flow.sndbuf_bytes < 2 * sndbuf_bytes
        } else {
            flow.sndbuf_bytes == 2 * sndbuf_bytes
        };
        ensure!(is_so, "{flow:?} is not {of_agent}");
        if let Some(congestion) = found["settings"]["congestion"].as_str() {
            ensure!(flow.congestion == congestion, "{flow:?} is not {of_agent}");
        }

        let offline =
            explain(&home, &[&remote, "--local", &local, "--offline", "--config", &config])?;
        let question = format!("/v1/path?remote={remote}&local={local}");
        let by_port = curl(&["--globoff", &format!("http://127.0.0.1:{port}{question}")])?;
        let by_socket =
            curl(&["--globoff", "--unix-socket", &socket, &format!("http://wad{question}")])?;
        for other in [&offline, &by_port, &by_socket] {
            ensure!(other["path"] == *found, "{other} is not {of_agent}");
            ensure!(other["tried"] == of_agent["tried"], "{other} is not {of_agent}");
        }
        ensure!(by_port == of_agent && offline["from"] != of_agent["from"]);
    }

    // What is open is a condition, what is observed is not given.
    let open = explain(&home, &["10.81.0.2"])?;
    ensure!(open["path"]["name"] == "wide", "{open}");
    ensure!(open["tried"][0]["only_if"][0] == "remote port 80", "{open}");
    ensure!(open["tried"][2]["only_if"][0] == "local address in 10.81.0.0/16", "{open}");
    let seen = explain(&home, &["10.81.0.2:80"])?;
    ensure!(seen["path"]["state"] == "observed", "{seen}");
    ensure!(seen["path"]["settings"]["sndbuf_bytes"] == 400_000, "{seen}");
    ensure!(explain(&home, &["192.0.2.1"])?["path"].is_null());

    // What it says follows what is in force.
    ensure!(home.command("disable").arg("web").output()?.status.success());
    let disabled = explain(&home, &["10.81.0.2:443"])?;
    ensure!(disabled["path"]["state"] == "disabled", "{disabled}");
    ensure!(disabled["path"]["settings"]["sndbuf_bytes"] == 200_000, "{disabled}");
    home.reload(&policy.replace("'200000'", "'210000'"))?;
    let changed = explain(&home, &["10.81.0.2:443"])?;
    ensure!(changed["path"]["settings"]["sndbuf_bytes"] == 210_000, "{changed}");
    ensure!(changed["from"]["policy_set"] == 3, "{changed}");

    let wrong = curl(&[&format!("http://127.0.0.1:{port}/v1/path?remote=bob")])?;
    ensure!(wrong["error"].as_str().is_some_and(|error| error.contains("bob")), "{wrong}");
    // Only looking: the switch is root's, on the socket.
    let order = ["--data", "{}", "--output", "/dev/null", "--write-out", "%{http_code}"];
    let status = curl(&[&order[..], &[&format!("http://127.0.0.1:{port}/v1/switch")]].concat())?;
    ensure!(status == 404, "{status}");
    agent.stop()?;
    Ok(())
}
