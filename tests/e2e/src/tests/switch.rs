//! Paths that are only observed, and the kill switch, have this in common: flows left
//! alone, counts that go on, and what is disabled staying so.

use std::{process::Output, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    emulated::wan::{ADDRESSES_V4 as WAN_V4, Wan},
    old_kernel::BpfFileSystem,
    policy::path_to,
    sending::while_sending,
    settings,
    ss::Flow,
    stand::{Stand, until},
    sysctl,
    tcp::{self, Connection, at},
    veth::{ADDRESSES_V4, Wire},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(10);
const PORT: u16 = 7000;
const OTHER_PORT: u16 = 7001;
const TUNED: &str = "sndbuf = '400000'\nrcvbuf = '500000'\ncongestion = 'wad_aimd'\n";

fn path(name: &str, port: u16, keys: &str) -> String {
    format!(
        "[[path]]\nname = '{name}'\nremote = '{}'\nremote_port = {port}\n{keys}\n",
        ADDRESSES_V4[1]
    )
}

/// Returns what can be seen of a flow's settings.
fn settings_of(flow: &Flow) -> (&str, u64, u64, u32, Option<(u8, u8)>) {
    let Flow { congestion, sndbuf_bytes, rcvbuf_bytes, cwnd_segments, window_scales, .. } = flow;
    (congestion, *sndbuf_bytes, *rcvbuf_bytes, *cwnd_segments, *window_scales)
}

fn open(wire: &Wire, port: u16) -> Result<Connection> {
    Ok(Connection::open(wire.a(), wire.b(), at(ADDRESSES_V4[1], port))?)
}

fn is_tuned(wire: &Wire, port: u16) -> Result<bool> {
    let flow = open(wire, port)?.near_flow(wire.a())?;
    let tuned = flow.congestion.starts_with("wad_aimd");
    ensure!(tuned == (flow.sndbuf_bytes == 800_000), "half tuned: {flow:?}");
    Ok(tuned)
}

fn succeeds(home: &Home, arguments: &[&str]) -> Result<String> {
    let Output { status, stdout, stderr } = run(home, arguments)?;
    ensure!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
    Ok(String::from_utf8_lossy(&stdout).into_owned())
}

fn run(home: &Home, arguments: &[&str]) -> Result<Output> {
    let (subcommand, rest) = arguments.split_first().context("no subcommand")?;
    Ok(home.command(subcommand).args(rest).output()?)
}

fn status(home: &Home) -> Result<Value> {
    Ok(serde_json::from_str(&succeeds(home, &["status", "--json"])?)?)
}

#[e2e(long, beside)]
fn what_is_observed_is_counted_and_as_without_wad() -> Result<()> {
    let stand = Stand::set_up("observe")?;
    let wire = Wire::start()?;
    let look = || -> Result<_> {
        let connection = open(&wire, PORT)?;
        let flows = [connection.near_flow(wire.a())?, connection.far_flow(wire.b())?];
        connection.exchange(1_000_000)?;
        Ok(flows)
    };
    let before = look()?;

    // Both ends match, on connect and on accept, and no sndbuf is that large.
    let policy = "[[path]]\nname = 'seen'\nremote = '10.81.0.0/16'\nmode = 'observe'\n\
                  sndbuf = '8MiB'\nrcvbuf = '8MiB'\ncongestion = 'wad_aimd'\n\
                  initial_window = 5\ninitial_receive_window = 20\ndscp = 8\n\
                  pacing = '1Mbit'\nmax_flows = 1\n";
    let home = Home::create(&program()?, policy)?;
    let ceilings = || -> Result<_> {
        Ok([sysctl::get("net.core.wmem_max")?, sysctl::get("net.core.rmem_max")?])
    };
    let ceilings_before = ceilings()?;
    let _agent = home.start(stand.cgroup())?;
    let after = look()?;
    for (before, after) in before.iter().zip(&after) {
        ensure!(settings_of(before) == settings_of(after), "{before:?}, then {after:?}");
    }
    ensure!(ceilings()? == ceilings_before, "raised for what is not to be");
    ensure!(home.algorithm().is_err(), "registered for what is not to be");

    let closed =
        || -> Result<f64> { Ok(home.metrics()?.of_path("wad_flows_closed_total", "seen")?) };
    until("both ends are counted as closed", SOON, closed, |closed| *closed == 2.0)?;
    let metrics = home.metrics()?;
    let count = |name: &str| metrics.of_path(name, "seen");
    ensure!(count("wad_connections_matched_total")? == 2.0, "{}", metrics.text());
    ensure!(count("wad_flows_opened_total")? == 2.0);
    ensure!(count("wad_sent_bytes_total")? >= 2_000_000.0, "{}", metrics.text());
    ensure!(count("wad_received_bytes_total")? >= 2_000_000.0);
    let rtts = ["path=\"seen\"", "le=\"+Inf\""];
    let look = || Ok::<_, anyhow::Error>(home.metrics()?);
    until("both have shown an RTT", SOON, look, |metrics| {
        metrics.value("wad_path_rtt_seconds_bucket", &rtts).is_ok_and(|count| count == 2.0)
    })?;
    ensure!(count("wad_flows_tuned")? == 0.0);
    let status = status(&home)?;
    ensure!(status["paths"][0]["state"] == "observed", "{status}");
    Ok(())
}

#[e2e(long, beside)]
fn a_path_is_disabled_at_once_and_stays_so() -> Result<()> {
    let stand = Stand::set_up("disable")?;
    let wire = Wire::start()?;
    let policy = path("bob", PORT, TUNED) + &path("eve", OTHER_PORT, TUNED);
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    ensure!(is_tuned(&wire, PORT)? && is_tuned(&wire, OTHER_PORT)?);
    let running = open(&wire, PORT)?;

    let said = succeeds(&home, &["disable", "bob"])?;
    ensure!(said.contains("1 disabled: bob"), "{said}");
    ensure!(!is_tuned(&wire, PORT)? && is_tuned(&wire, OTHER_PORT)?);
    let metrics = home.metrics()?;
    ensure!(metrics.value("wad_paths_disabled", &[])? == 1.0);
    ensure!(metrics.of_path("wad_connections_matched_total", "bob")? == 3.0, "counts go on");
    ensure!(status(&home)?["paths"][0]["state"] == "disabled");
    running.exchange(1_000_000)?;

    // Whatever the file says by then, and however the agent ended.
    home.write_policy(&(policy.clone() + &path("mallory", 7002, TUNED)))?;
    succeeds(&home, &["reload"])?;
    ensure!(!is_tuned(&wire, PORT)? && is_tuned(&wire, 7002)?);
    agent.kill()?;
    ensure!(!is_tuned(&wire, PORT)? && is_tuned(&wire, OTHER_PORT)?, "without an agent");
    let agent = home.start(stand.cgroup())?;
    ensure!(!is_tuned(&wire, PORT)? && is_tuned(&wire, OTHER_PORT)?, "after a crash");
    ensure!(home.log().contains("1 disabled: bob; `wad enable` ends that"), "{}", home.log());
    agent.stop()?;
    let _agent = home.start(stand.cgroup())?;
    ensure!(!is_tuned(&wire, PORT)? && is_tuned(&wire, OTHER_PORT)?, "after a restart");

    succeeds(&home, &["enable", "bob"])?;
    ensure!(is_tuned(&wire, PORT)? && is_tuned(&wire, OTHER_PORT)?);
    ensure!(status(&home)?["paths"][0]["state"] == "tuned");
    running.exchange(1_000_000)?;
    Ok(())
}

#[e2e(long, beside)]
fn all_paths_are_disabled_those_to_come_with_them() -> Result<()> {
    let stand = Stand::set_up("all")?;
    let wire = Wire::start()?;
    let observed = path("seen", 7003, &format!("mode = 'observe'\n{TUNED}"));
    let policy = path("bob", PORT, TUNED) + &observed;
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    ensure!(is_tuned(&wire, PORT)?);

    let said = succeeds(&home, &["disable"])?;
    ensure!(said.contains("all paths are disabled"), "{said}");
    home.write_policy(&(policy + &path("eve", OTHER_PORT, TUNED)))?;
    succeeds(&home, &["reload"])?;
    ensure!(!is_tuned(&wire, PORT)? && !is_tuned(&wire, OTHER_PORT)?);
    ensure!(succeeds(&home, &["status"])?.contains("disabled all paths"));

    // What would not do as it says is refused, and says why.
    for (arguments, reason) in
        [(["enable", "bob"], "all paths are disabled"), (["disable", "bobb"], "no path in force")]
    {
        let output = run(&home, &arguments)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(3) && said.contains(reason), "{said}");
    }

    succeeds(&home, &["enable"])?;
    ensure!(is_tuned(&wire, PORT)? && is_tuned(&wire, OTHER_PORT)?);
    ensure!(!is_tuned(&wire, 7003)?, "what the file has observed is not enabled");

    // `wad cleanup` leaves nothing, this neither.
    succeeds(&home, &["disable"])?;
    agent.kill()?;
    let said = succeeds(&home, &["cleanup"])?;
    ensure!(said.contains("enabled again"), "{said}");
    let _agent = home.start(stand.cgroup())?;
    ensure!(is_tuned(&wire, PORT)?);
    Ok(())
}

#[e2e(long, beside)]
fn what_is_disabled_is_disabled_even_if_it_cannot_be_noted() -> Result<()> {
    let stand = Stand::set_up("unnoted")?;
    let wire = Wire::start()?;
    // To mount it would need the journal, too.
    let _mounted = BpfFileSystem::mount()?;
    let home = Home::create(&program()?, &path("bob", PORT, TUNED))?;
    let state = home.folder().join("state");
    std::fs::create_dir(&state)?;
    let full = format!("mount -t tmpfs -o mode=700,ro none '{}'", state.display());
    // Buffers that need no journal, which could not be written either.
    home.write_policy(&path("bob", PORT, "sndbuf = '200000'"))?;
    let _agent = home.start_in(&full, stand.cgroup())?;
    let sndbuf = || -> Result<u64> { Ok(open(&wire, PORT)?.near_flow(wire.a())?.sndbuf_bytes) };
    ensure!(sndbuf()? == 400_000);
    let output = run(&home, &["disable"])?;
    let said = String::from_utf8_lossy(&output.stderr);
    // Done in part.
    ensure!(output.status.code() == Some(4), "{output:?}");
    ensure!(said.contains("this ends with the agent"), "{said}");
    ensure!(sndbuf()? != 400_000);
    Ok(())
}

/// There is a law for each port from [`PORT`] on.
const LAWS: [&str; 7] = [
    "congestion = 'wad_aimd'; additive_increase = 10; initial_ssthresh = 300; max_cwnd = 400",
    "congestion = 'wad_highspeed'; initial_ssthresh = 300; max_cwnd = 400",
    "congestion = 'wad_scalable'; initial_ssthresh = 300; max_cwnd = 400",
    "congestion = 'wad_binomial'; max_cwnd = 400",
    "congestion = 'wad_delay'; initial_ssthresh = 300; max_cwnd = 400",
    "loss = 'leaky'; initial_ssthresh = 300; max_cwnd = 400",
    // 0.95 of it is payload; the window is what the rate carries with headers.
    "dedicated = '48Mbit'; rtt = '100ms'",
];
const DEDICATED: usize = 6;

struct Bench<'a> {
    wan: &'a Wan,
    connections: &'a [Connection],
}

impl Bench<'_> {
    fn windows(&self) -> Result<Vec<u32>> {
        let window =
            |connection: &Connection| Ok(tcp::flow(self.wan.a(), &connection.near)?.cwnd_segments);
        self.connections.iter().map(window).collect()
    }

    fn until(&self, what: &'static str, fit: impl Fn(&[u32]) -> bool) -> Result<Vec<u32>> {
        until(what, SOON, || self.windows(), |windows| fit(windows))
    }

    /// Returns how many flows have a law of wad's.
    fn under_laws(&self) -> Result<usize> {
        let mut count = 0;
        for connection in self.connections {
            let flow = tcp::flow(self.wan.a(), &connection.near)?;
            count += usize::from(flow.congestion.starts_with("wad_"));
            ensure!(flow.congestion.starts_with("wad_") || flow.congestion == "cubic", "{flow:?}");
        }
        Ok(count)
    }
}

/// Flows under every law get the namespace's default at once, and no bound, as long as
/// the path is disabled; then their own settings again.
#[e2e(long, alone)]
fn running_flows_go_back_while_they_are_disabled() -> Result<()> {
    let stand = Stand::set_up("running")?;
    let text = "rtt = '100ms'\nforward = { rate = '1Gbit', queue = { bdp = 1.0 } }\n";
    let wan = Wan::start(&toml::from_str(text)?)?;
    settings::apply(&wan)?;
    let buffers = "sndbuf = \"2MiB\"; rcvbuf = \"2MiB\"";
    let policy: String =
        (PORT..).zip(LAWS).map(|(port, law)| path_to(port, &format!("{buffers}; {law}"))).collect();
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let connections: Vec<_> = (PORT..)
        .take(LAWS.len())
        .map(|port| Ok(Connection::open(wan.a(), wan.b(), at(WAN_V4[1], port))?))
        .collect::<Result<_>>()?;
    let bench = Bench { wan: &wan, connections: &connections };
    while_sending(&connections, || {
        let held = bench.until("each holds its window", |windows| {
            windows[..DEDICATED].iter().all(|window| *window == 400) && windows[DEDICATED] > 300
        })?;
        ensure!(bench.under_laws()? == LAWS.len());
        succeeds(&home, &["disable"])?;
        ensure!(bench.under_laws()? == 0, "some are still under their law");
        let free = bench.until("each is without its bound", |windows| {
            windows.iter().zip(&held).all(|(now, held)| now > held)
        })?;
        println!("{held:?}; disabled: {free:?}");

        succeeds(&home, &["enable"])?;
        ensure!(bench.under_laws()? == LAWS.len(), "some are not back under their law");
        let back = bench.until("each has its window again", |windows| {
            windows[..DEDICATED].iter().all(|window| *window <= 400)
                && windows[DEDICATED] == held[DEDICATED]
        })?;
        println!("enabled: {back:?}");
        Ok(())
    })
}
