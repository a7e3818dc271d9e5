//! `reorder = "auto"` and `loss = "auto"` follow what the flows of a path show of its
//! packets, and go when that is over; nothing follows from what a monitor says of them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    answers::{Answer, Answers},
    emulated::wan::{ADDRESSES_V4, Wan},
    metrics::Metrics,
    sending::{Sample, while_sending},
    settings, signal,
    stand::{Stand, until},
    tcp::{Connection, at},
    wad::{Home, program},
};

const LIMIT: Duration = Duration::from_secs(60);
const PORT: u16 = 7000;

fn start(path: &str) -> Result<Wan> {
    let wan = Wan::start(&toml::from_str(path)?)?;
    settings::apply(&wan)?;
    Ok(wan)
}

fn open(wan: &Wan) -> Result<Connection> {
    Ok(Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], PORT))?)
}

/// Returns what `wad paths` says of a path.
fn path(home: &Home, at: usize) -> Result<Value> {
    let output = home.command("paths").arg("--json").output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let paths: Value = serde_json::from_slice(&output.stdout)?;
    Ok(paths["paths"][at].clone())
}

/// Returns the threshold of the route that connections take; None for the kernel's own.
fn threshold(wan: &Wan) -> Result<Option<u32>> {
    let port = PORT.to_string();
    let question =
        ["-d", "route", "get", ADDRESSES_V4[1], "ipproto", "6", "dport", &port, "fibmatch"];
    let route = wan.a().ip(&question)?;
    let mut words = route.split_whitespace().skip_while(|word| *word != "reordering").skip(1);
    words.next().map(|word| word.parse().with_context(|| route.clone())).transpose()
}

#[e2e(long, few)]
fn the_threshold_follows_reordering_and_goes() -> Result<()> {
    const PLACES: u32 = 18;
    let stand = Stand::set_up("auto-reorder")?;
    let wan = start(&format!(
        "rtt = '40ms'\nforward = {{ rate = '100Mbit', queue.bdp = 1, \
         reorder = {{ probability = 0.002, packets = {PLACES}, by = '5ms' }} }}"
    ))?;
    let policy = format!(
        "[limits]\nmax_memory = '1GiB'\nchange_interval = '1s'\n[host]\nroutes = true\n\
         [[source]]\nname = 'flows'\nkind = 'passive'\ninterval = '1s'\nstale_after = '6s'\n\
         [[path]]\nname = 'wan'\nremote = '{}'\nmode = 'measured'\nreorder = 'auto'\n",
        ADDRESSES_V4[1]
    );
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start_inside(wan.a(), stand.cgroup())?;
    let routing = || wan.a().ip(&["rule"]);
    let before = routing()?;
    ensure!(threshold(&wan)?.is_none(), "nothing is known yet");
    let routes = || -> Result<f64> {
        let port = home.metrics_port();
        let metrics = wan.a().run(|| Metrics::read(port))??;
        Ok(metrics.value("wad_routes", &[])?)
    };
    ensure!(routes()? == 0.0, "{}", routing()?);

    let flows = [open(&wan)?];
    let segments = while_sending(&flows, || -> Result<u32> {
        let look = || threshold(&wan);
        let segments = until("the route has it", LIMIT, look, Option::is_some)?;
        let segments = segments.context("it has")?;
        let seen = flows[0].near_flow(wan.a())?.reordering_segments;
        println!("{PLACES} places late: the kernel saw {seen:?}, the route has {segments}");
        ensure!((PLACES / 2..=3 * PLACES).contains(&segments), "{segments}; {}", home.log());
        ensure!(seen >= Some(segments), "{seen:?}");
        Ok(segments)
    })?;
    ensure!(routes()? == 1.0, "{}", routing()?);
    ensure!(path(&home, 0)?["measured"]["policy_is_for"]["reorder_segments"] == segments);
    let explained = home.command("explain").arg(ADDRESSES_V4[1]).output()?;
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    ensure!(explained.contains(&format!("table {}", 1_190_000 + 2 * segments)), "{explained}");
    let said = format!("reordering by {segments} segments");
    ensure!(home.log().contains(&said), "{}", home.log());

    // Nobody sends any more, and it is too old.
    until("it goes", LIMIT, || threshold(&wan), Option::is_none)?;
    ensure!(routing()? == before, "{}", routing()?);
    until("it is counted no more", LIMIT, routes, |routes| *routes == 0.0)?;
    agent.stop()?;
    Ok(())
}

/// Returns how many Mbit/s of payload a flow gets acknowledged in this time.
fn rate(wan: &Wan, flow: &Connection, seconds: u64) -> Result<f64> {
    let before = Sample::of(wan.a(), &flow.near)?;
    signal::sleep(Duration::from_secs(seconds))?;
    let after = Sample::of(wan.a(), &flow.near)?;
    let bytes = after.flow.bytes_acked - before.flow.bytes_acked;
    Ok(bytes as f64 * 8.0 / 1e6 / (after.at - before.at).as_secs_f64())
}

/// The mean rate of cubic at this loss and this round trip time, in Mbit/s, where it goes
/// by its Reno-friendly window: sqrt(3 / (2 * 1e-3)) segments of 1,448 bytes in 60 ms (RFC
/// 9438, section 4.3). A flow that has lost nothing yet has more.
const CUBIC_MBIT: f64 = 7.5;

const LEAKING: &str =
    "rtt = '60ms'\nforward = { rate = '100Mbit', queue = { bdp = 0.5 }, loss = 1e-3 }\n";
const SOUND: &str = "rtt = '60ms'\nforward = { rate = '100Mbit', queue = { bdp = 0.5 } }\n";

#[e2e(long, few, slow)]
fn losses_are_no_congestion_while_there_is_no_queue() -> Result<()> {
    let stand = Stand::set_up("auto-loss")?;
    // It is wrong, of one path and the other.
    let answers = Answers::start(|_| {
        Answer::json(
            r#"{"paths": [{"path": "wan", "loss": 0.0, "reordering": 0.9},
                          {"path": "quiet", "loss": 0.5, "reordering": 0.9}]}"#,
        )
    })?;
    let wan_path = |name, remote| {
        format!(
            "[[path]]\nname = '{name}'\nremote = '{remote}'\nmode = 'measured'\n\
             sndbuf = '8MiB'\nrcvbuf = '8MiB'\ncongestion = 'cubic'\nloss = 'auto'\n\
             reorder = 'auto'\nallow = 'aggressive'\n"
        )
    };
    let policy = format!(
        "[limits]\nchange_interval = '1s'\n[[source]]\nname = 'own'\nkind = 'http'\n\
         url = 'http://{}'\ninterval = '1s'\n\
         [[source]]\nname = 'flows'\nkind = 'passive'\ninterval = '1s'\n{}{}",
        answers.address(),
        wan_path("wan", "10.77.0.0/16"),
        wan_path("quiet", "10.78.0.0/16"),
    );
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    let is_leaky =
        || -> Result<bool> { Ok(path(&home, 0)?["measured"]["policy_is_for"]["is_leaky"] == true) };

    let wan = start(LEAKING)?;
    let flows = [open(&wan)?];
    let algorithm = || -> Result<String> { Ok(flows[0].near_flow(wan.a())?.congestion) };
    ensure!(algorithm()? == "cubic" && !is_leaky()?, "nothing is known yet");
    while_sending(&flows, || -> Result<()> {
        until("it is seen", LIMIT, algorithm, |name| name.starts_with("wad_leaky"))?;
        signal::sleep(Duration::from_secs(3))?;
        let has = rate(&wan, &flows[0], 3)?;
        println!("{has:.1} Mbit/s under wad_leaky");
        ensure!(has >= 3.0 * CUBIC_MBIT, "{has} Mbit/s: {}", home.log());
        Ok(())
    })?;
    ensure!(is_leaky()?, "{}", home.log());
    let explained = home.command("explain").arg(ADDRESSES_V4[1]).output()?;
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    ensure!(explained.contains("lost packets without a queue"), "{explained}");
    drop(flows);
    drop(wan);

    // The same addresses, and the fibre is clean.
    let wan = start(SOUND)?;
    let flows = [open(&wan)?];
    let algorithm = || -> Result<String> { Ok(flows[0].near_flow(wan.a())?.congestion) };
    ensure!(algorithm()?.starts_with("wad_leaky"), "it is known still");
    while_sending(&flows, || -> Result<()> {
        until("it is over", LIMIT, algorithm, |name| name == "cubic")?;
        // Its losses are by a full queue.
        let before = home.log().len();
        signal::sleep(Duration::from_secs(12))?;
        let [forward, _] = wan.counters()?;
        ensure!(forward.queue_drops > 0 && forward.random_drops == 0, "{forward:?}");
        ensure!(algorithm()? == "cubic", "{}", &home.log()[before..]);
        Ok(())
    })?;
    let quiet = path(&home, 1)?;
    ensure!(quiet["measured"]["loss"]["value"] == 0.5, "{quiet}");
    ensure!(quiet["measured"]["policy_is_for"]["is_leaky"] == false, "{quiet}");
    ensure!(quiet["measured"]["policy_is_for"]["reorder_segments"].is_null(), "{quiet}");
    agent.stop()?;
    Ok(())
}
