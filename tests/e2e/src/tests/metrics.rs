//! Metrics and log are held against what the kernel and real programs make of them:
//! promtool, Prometheus, and the bytes that a test itself has sent.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    both_ends::{Credentials, End},
    emulated::wan::{ADDRESSES_V4, Wan},
    limits, metrics,
    process::run,
    prometheus::{self, Prometheus},
    settings,
    stand::{Stand, until},
    tcp::{self, Connection, at},
    veth::{self, Wire},
    wad::{Home, program},
};

const SOON: Duration = Duration::from_secs(5);
const PROMETHEUS_LIMIT: Duration = Duration::from_secs(30);

/// The policy matches only the ends that connect.
const POLICY: &str = "[[path]]\nname = 'wire'\nremote = '10.81.0.2'\nsndbuf = '1MiB'\n\
                      congestion = 'wad_aimd'\n";

#[e2e(never = "prometheus and promtool are larger than all else in a machine", beside)]
fn promtool_accepts_them() -> Result<()> {
    let stand = Stand::set_up("promtool")?;
    let wire = Wire::start()?;
    // A name that has to be escaped.
    let policy = POLICY.replace("'wire'", "\"wi\\\"r\\\\e\"");
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    Connection::open(wire.a(), wire.b(), at(veth::ADDRESSES_V4[1], 7000))?.exchange(10_000)?;
    let text = home.metrics()?.text().to_owned();
    ensure!(text.contains("wad_connections_matched_total{path=\"wi\\\"r\\\\e\"} 1\n"), "{text}");

    prometheus::check_metrics(&text)?;
    Ok(())
}

#[e2e(never = "prometheus and promtool are larger than all else in a machine", beside)]
fn prometheus_scrapes_them() -> Result<()> {
    let stand = Stand::set_up("prometheus")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    for _ in 0..7 {
        Connection::open(wire.a(), wire.b(), at(veth::ADDRESSES_V4[1], 7000))?.exchange(1000)?;
    }
    let target = ([127, 0, 0, 1], home.metrics_port()).into();
    let prometheus = Prometheus::start(home.folder(), target)?;
    let port = prometheus.port();
    let query = "/api/v1/query?query=wad_connections_matched_total";
    // It answers nothing at first, then an empty result.
    let look = || -> Result<Value> {
        let answer = metrics::get(port, query).unwrap_or_default();
        Ok(serde_json::from_str(&answer).unwrap_or_default())
    };
    let answer = until("Prometheus has a sample", PROMETHEUS_LIMIT, look, |answer| {
        answer["data"]["result"][0].is_object()
    })?;
    let sample = &answer["data"]["result"][0];
    ensure!(sample["metric"]["path"] == "wire" && sample["value"][1] == "7", "{answer}");
    let up: Value = serde_json::from_str(&metrics::get(port, "/api/v1/query?query=up")?)?;
    ensure!(up["data"]["result"][0]["value"][1] == "1", "{up}");
    Ok(())
}

#[e2e(long, beside)]
fn counts_are_those_of_the_flows() -> Result<()> {
    let stand = Stand::set_up("counts")?;
    let text = "rtt = '40ms'\nforward = { rate = '100Mbit', queue = { bdp = 4.0 }, \
                drop_data_packets = [30, 50] }\n";
    let wan = Wan::start(&toml::from_str(text)?)?;
    settings::apply(&wan)?;
    let home = Home::create(&program()?, &POLICY.replace("10.81.0.2", "10.77.0.2"))?;
    let _agent = home.start(stand.cgroup())?;

    let connection = Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], 7000))?;
    ensure!(home.metrics()?.of_path("wad_flows_opened_total", "wire")? == 1.0);
    connection.exchange(2_000_000)?;
    let flow = connection.near_flow(wan.a())?;
    ensure!(flow.retransmits >= 2, "{flow:?}");
    drop(connection);
    let look = || Ok::<_, anyhow::Error>(home.metrics()?);
    // The agent's part comes after the kernel's.
    let last = ["path=\"wire\"", "le=\"+Inf\""];
    let metrics = until("the close is counted", SOON, look, |metrics| {
        metrics.value("wad_path_retransmission_ratio_bucket", &last).is_ok_and(|count| count == 1.0)
    })?;
    ensure!(metrics.of_path("wad_flows_closed_total", "wire")? == 1.0, "{}", metrics.text());
    let of_path = |name| metrics.of_path(name, "wire");
    ensure!(of_path("wad_flows_tuned")? == 0.0);
    ensure!(of_path("wad_segments_retransmitted_total")? == flow.retransmits as f64);
    // The SYN and the FIN take a number each, too.
    let sent = of_path("wad_sent_bytes_total")?;
    let received = of_path("wad_received_bytes_total")?;
    ensure!((2_000_000.0..=2_000_002.0).contains(&sent), "{sent}");
    ensure!((2_000_000.0..=2_000_002.0).contains(&received), "{received}");
    let segments = of_path("wad_segments_sent_total")?;
    let fewest = (2_000_000_u32.div_ceil(flow.mss_bytes)) as f64;
    ensure!(segments >= fewest && segments < 1.2 * fewest, "{segments} of {fewest}");
    let bucket = |name: &str, le: &str| {
        metrics.value(&format!("{name}_bucket"), &["path=\"wire\"", &format!("le=\"{le}\"")])
    };
    // 40 ms, and what queues.
    ensure!(bucket("wad_path_rtt_seconds", "0.01")? == 0.0, "{}", metrics.text());
    ensure!(bucket("wad_path_rtt_seconds", "0.2")? == 1.0, "{}", metrics.text());
    ensure!(
        bucket("wad_path_goodput_bytes_per_second", "12500000.0")? == 1.0,
        "{}",
        metrics.text()
    );
    ensure!(bucket("wad_path_goodput_bytes_per_second", "+Inf")? == 1.0, "{}", metrics.text());
    // Two of about 1,400.
    ensure!(bucket("wad_path_retransmission_ratio", "0.001")? == 0.0, "{}", metrics.text());
    ensure!(bucket("wad_path_retransmission_ratio", "+Inf")? == 1.0, "{}", metrics.text());
    ensure!(metrics.value("wad_events_lost_total", &[])? == 0.0);
    ensure!(metrics.value("wad_policy_generation", &[])? >= 1.0);
    ensure!(metrics.value("wad_build_info", &[])? == 1.0);
    Ok(())
}

#[e2e(long, beside)]
fn what_the_agent_uses_is_what_proc_says_and_pages_are_compressed() -> Result<()> {
    let stand = Stand::set_up("own-metrics")?;
    let home = Home::create(&program()?, "")?;
    let agent = home.start(stand.cgroup())?;
    let metrics = home.metrics()?;
    let value = |name: &str| -> Result<f64> { Ok(metrics.value(name, &[])?) };
    let proc = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", agent.id()));
    let status = proc("status")?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let resident = 1024.0 * kib.trim().trim_end_matches(" kB").parse::<f64>()?;
    let ratio = value("process_resident_memory_bytes")? / resident;
    ensure!((0.7..1.4).contains(&ratio), "{resident} bytes, {ratio} of them told");
    let open = fs::read_dir(format!("/proc/{}/fd", agent.id()))?.count() as f64;
    let told = value("process_open_fds")?;
    // The scrape itself took some.
    ensure!((open - 5.0..open + 10.0).contains(&told), "{open} descriptors, {told} told");
    let limits = proc("limits")?;
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let limit: f64 =
        limit.and_then(|line| line.split_whitespace().next()).context("no limit")?.parse()?;
    ensure!(value("process_max_fds")? == limit, "{limits}");
    let stat = proc("stat")?;
    let ticks = stat.rsplit(')').next().context("no stat")?.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.map(str::parse::<f64>).sum::<Result<_, _>>()?;
    let cpu = value("process_cpu_seconds_total")?;
    ensure!((cpu - 0.1..=cpu + 2.0).contains(&(ticks / 100.0)), "{ticks} ticks, {cpu} s told");
    let looks = || {
        Ok::<_, anyhow::Error>(home.metrics()?.value("wad_event_loop_delay_seconds_count", &[])?)
    };
    until("the loop is looked at", Duration::from_secs(20), looks, |count| *count >= 2.0)?;

    let url = format!("http://127.0.0.1:{}/metrics", home.metrics_port());
    let plain = run("curl", &["-sSi", &url])?;
    let compressed = run("curl", &["-sSi", "--compressed", &url])?;
    ensure!(!plain.contains("content-encoding") && plain.contains("wad_attached"), "{plain}");
    ensure!(compressed.contains("content-encoding: gzip\r\n"), "{compressed}");
    ensure!(compressed.contains("wad_attached"), "{compressed}");
    agent.stop()?;
    Ok(())
}

#[e2e(long, beside)]
fn counts_advance_while_a_flow_runs() -> Result<()> {
    let stand = Stand::set_up("advance")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    let connection = Connection::open(wire.a(), wire.b(), at(veth::ADDRESSES_V4[1], 7000))?;
    let mut before = 0.0;
    for carried in [1_000_000.0, 2_000_000.0, 3_000_000.0] {
        connection.exchange(1_000_000)?;
        // The last acknowledgement may wait.
        let look = || Ok::<_, anyhow::Error>(home.metrics()?);
        let is_acknowledged = |metrics: &metrics::Metrics| {
            metrics.of_path("wad_sent_bytes_total", "wire").is_ok_and(|sent| sent >= carried)
        };
        let metrics = until("all is acknowledged", SOON, look, is_acknowledged)?;
        let sent = metrics.of_path("wad_sent_bytes_total", "wire")?;
        let received = metrics.of_path("wad_received_bytes_total", "wire")?;
        ensure!((carried..=carried + 2.0).contains(&sent), "{sent} of {carried}");
        ensure!((carried..=carried + 2.0).contains(&received), "{received} of {carried}");
        ensure!(metrics.of_path("wad_flows_closed_total", "wire")? == 0.0);
        ensure!(metrics.of_path("wad_segments_sent_total", "wire")? > before);
        before = metrics.of_path("wad_segments_sent_total", "wire")?;
    }
    // It has nothing to send now.
    let labels = ["path=\"wire\"", "factor=\"application\""];
    let look = || Ok::<_, anyhow::Error>(home.metrics()?);
    let idle = |metrics: &metrics::Metrics| {
        metrics.value("wad_path_limited_seconds_total", &labels).is_ok_and(|seconds| seconds > 1.0)
    };
    until("its time is the application's", SOON, look, idle)?;

    drop(connection);
    let look = || Ok::<_, anyhow::Error>(home.metrics()?);
    let metrics = until("the close is counted", SOON, look, |metrics| {
        let sent = metrics.of_path("wad_sent_bytes_total", "wire");
        assert!(sent.is_ok_and(|sent| sent >= 3_000_000.0), "a count went back");
        metrics.of_path("wad_flows_closed_total", "wire").is_ok_and(|closed| closed == 1.0)
    })?;
    let sent = metrics.of_path("wad_sent_bytes_total", "wire")?;
    ensure!((3_000_000.0..=3_000_002.0).contains(&sent), "{sent}");
    Ok(())
}

const RULES: &str = include_str!("../../../../config/prometheus/wad-rules.yaml");
const DASHBOARD: &str = include_str!("../../../../config/grafana/wad.json");

#[e2e(never = "prometheus and promtool are larger than all else in a machine", beside)]
fn promtool_accepts_the_rules() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/prometheus");
    for (test, file) in [("check", "wad-rules.yaml"), ("test", "wad-rules-test.yaml")] {
        let mut promtool = Command::new("promtool");
        let output = promtool.args([test, "rules", file]).current_dir(&folder).output()?;
        let said = [output.stdout, output.stderr].concat();
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    }
    Ok(())
}

/// The page of all metrics, which is made of their definitions.
const PAGE: &str = include_str!("../../../../docs/src/reference/metrics.md");

/// Returns what of a text is the name of a metric: of the agent's, or of a rule's own.
fn named<'t>(text: &'t str, start: &str) -> BTreeSet<&'t str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    text.split(|c| !is_of_name(c)).filter(|word| word.starts_with(start)).collect()
}

#[e2e(never = "is about files of the repository", beside)]
fn rules_and_dashboard_have_metrics_that_exist() -> Result<()> {
    let recorded = RULES.lines().filter_map(|line| line.trim().strip_prefix("- record: "));
    let recorded: BTreeSet<_> = recorded.collect();
    ensure!(recorded.len() >= 5, "{recorded:?}");
    for text in [RULES, DASHBOARD] {
        let unknown: Vec<_> = named(text, "path:").difference(&recorded).copied().collect();
        ensure!(unknown.is_empty(), "no rule records {unknown:?}");
    }
    let dashboard: Value = serde_json::from_str(DASHBOARD)?;
    ensure!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 5));

    let stand = Stand::set_up("dashboard")?;
    let wire = Wire::start()?;
    // Its peer keeps silent.
    let credentials = Credentials::make(&program()?, ["192.0.2.3/32", "192.0.2.4/32"])?;
    let peers = credentials.tables(End::Near, "");
    let policy = format!(
        "[[source]]\nname = 'nobody'\nkind = 'prometheus'\nurl = 'http://127.0.0.1:1'\n\
         rtt = 'x'\ninterval = '1s'\n\
         [otlp]\nurl = 'http://127.0.0.1:1'\n\
         [[sink]]\nname = 'out'\nkind = 'stdout'\n\
         [[trace]]\nname = 'lines'\nfile = '/nonexistent/lines'\n\
         [[set]]\nname = 'list'\nfile = '/nonexistent/prefixes'\n\
         [[derived]]\nname = 'Sent'\nvalue = 'HCDataOctetsOut'\nmetric = true\n{peers}{POLICY}\
         [[path]]\nname = 'listed'\nremote_set = 'list'\n\
         [[path]]\nname = 'pods'\nremote = '192.0.2.2'\npods = {{ namespace = 'a' }}\n\
         [[path]]\nname = 'far'\nremote = '192.0.2.1'\nmode = 'measured'\nrtt = '1ms'\n\
         bandwidth = '1Gbit'\nsndbuf = 'auto'\nexperiment = {{}}\n"
    );
    let home = Home::create(&program()?, &policy)?;
    let _agent = home.start(stand.cgroup())?;
    let to = at(veth::ADDRESSES_V4[1], 7000);
    let open = || -> Result<_> { Ok(Connection::open(wire.a(), wire.b(), to)?) };
    open()?.exchange(10_000)?;
    let running = Connection::open(wire.a(), wire.b(), at(veth::ADDRESSES_V4[1], 7001))?;
    running.exchange(10_000)?;
    let missing = || -> Result<Vec<&str>> {
        let metrics = home.metrics()?;
        // There is a verdict after hours.
        let verdict = named(PAGE, "wad_experiment_verdict");
        let there: BTreeSet<_> = named(metrics.text(), "wad_").union(&verdict).copied().collect();
        let wanted = named(RULES, "wad_").into_iter().chain(named(DASHBOARD, "wad_"));
        Ok(wanted.filter(|name| !there.contains(name)).collect())
    };
    until("all of them are there", SOON, missing, Vec::is_empty)?;
    Ok(())
}

/// This error was seen before: 64 who said nothing had all there was for half a minute.
#[e2e(long, beside)]
fn whoever_says_nothing_or_goes_away_starves_nobody() -> Result<()> {
    const SILENT: usize = 64;
    const ABANDONED: usize = 1_000;
    let stand = Stand::set_up("abandoned")?;
    let home = Home::create(&program()?, POLICY)?;
    let agent = home.start(stand.cgroup())?;
    let address = (Ipv4Addr::LOCALHOST, home.metrics_port());
    let connect = || TcpStream::connect(address);
    let silent = (0..SILENT).map(|_| connect()).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..ABANDONED {
        connect()?.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    }
    // Each is waited for at most as long as a scrape is.
    let begun = Instant::now();
    for _ in 0..3 {
        home.metrics()?;
    }
    println!("three scrapes in {:?}", begun.elapsed());
    let open = limits::descriptors(agent.id())?;
    ensure!(open < ABANDONED / 5, "{open} descriptors");

    // A page of somebody else's that has the loopback's address for its name.
    let mut stranger = connect()?;
    stranger.write_all(b"GET /metrics HTTP/1.0\r\nHost: evil.example\r\n\r\n")?;
    let mut answer = String::new();
    stranger.read_to_string(&mut answer)?;
    ensure!(answer.contains(" 421 ") && !answer.contains("wad_connections"), "{answer}");
    drop(silent);
    agent.stop()?;
    Ok(())
}

#[e2e(long, beside)]
fn paths_beyond_max_paths_are_other() -> Result<()> {
    let stand = Stand::set_up("other")?;
    let wire = Wire::start()?;
    // The first section is open when the policy begins: that of the metrics.
    let paths = [7001, 7002, 7003, 7004].map(|port| {
        format!(
            "[[path]]\nname = 'p{port}'\nremote = '10.81.0.2'\nremote_port = {port}\n\
             sndbuf = '1MiB'\n"
        )
    });
    let home = Home::create(&program()?, &format!("max_paths = 2\n{}", paths.concat()))?;
    let _agent = home.start(stand.cgroup())?;
    for port in [7001, 7002, 7003, 7003, 7004] {
        Connection::open(wire.a(), wire.b(), at(veth::ADDRESSES_V4[1], port))?;
    }
    let metrics = home.metrics()?;
    let matched = |path| metrics.of_path("wad_connections_matched_total", path);
    ensure!(matched("p7001")? == 1.0 && matched("p7002")? == 1.0, "{}", metrics.text());
    ensure!(matched("other")? == 3.0 && matched("p7003").is_err(), "{}", metrics.text());
    Ok(())
}

#[e2e(long, few)]
fn events_that_an_agent_is_too_slow_for_are_counted() -> Result<()> {
    let stand = Stand::set_up("events")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, POLICY)?;
    let mut agent = home.start(stand.cgroup())?;
    let listener = tcp::listen(wire.b(), at(veth::ADDRESSES_V4[1], 7000))?;
    // Two events each: more than a ring buffer of 2 MiB has room for.
    let connections = 7000;
    agent.signal(Signal::SIGSTOP);
    wire.a().run(|| -> Result<()> {
        for _ in 0..connections {
            let near = TcpStream::connect(listener.local_addr()?)?;
            drop((near, listener.accept()?));
        }
        Ok(())
    })??;
    agent.signal(Signal::SIGCONT);

    // What is counted in the kernel is not lost with them.
    let metrics = home.metrics()?;
    let opened = metrics.of_path("wad_flows_opened_total", "wire")?;
    ensure!(opened == f64::from(connections), "{opened}");
    let lost = metrics.value("wad_events_lost_total", &[])?;
    ensure!(lost > 0.0 && lost < f64::from(2 * connections), "{lost} events were lost");
    // It is well again.
    let connection = Connection::open(wire.a(), wire.b(), at(veth::ADDRESSES_V4[1], 7001))?;
    connection.exchange(1000)?;
    drop(connection);
    let look = || Ok::<_, anyhow::Error>(home.log().contains("10.81.0.2:7001"));
    until("a new flow is in the log", SOON, look, |seen| *seen)?;
    ensure!(home.metrics()?.value("wad_events_lost_total", &[])? == lost);
    agent.stop()?;
    Ok(())
}

#[e2e(long, beside)]
fn the_log_has_a_line_for_each_flow() -> Result<()> {
    let stand = Stand::set_up("log")?;
    let wire = Wire::start()?;
    let home = Home::create(&program()?, &format!("[log]\nformat = 'json'\n\n{POLICY}"))?;
    let agent = home.start(stand.cgroup())?;
    let connection = Connection::open(wire.a(), wire.b(), at(veth::ADDRESSES_V4[1], 7000))?;
    connection.exchange(123_456)?;
    let algorithm = home.algorithm()?;
    let from = connection.near.local_addr()?.to_string();
    drop(connection);
    let unmatched = Connection::open(wire.a(), wire.b(), at(veth::ADDRESSES_V6[1], 7000))?;
    unmatched.exchange(10_000)?;
    drop(unmatched);

    let lines = || -> Result<Vec<Value>> {
        let log = home.log();
        log.lines().map(|line| serde_json::from_str(line).context(line.to_owned())).collect()
    };
    let of_flows = |lines: Vec<Value>| -> Vec<Value> {
        lines.into_iter().filter(|line| line["remote"] == "10.81.0.2:7000").collect()
    };
    let seen =
        until("the flow is in the log", SOON, || lines().map(of_flows), |seen| !seen.is_empty())?;
    agent.stop()?;
    let summaries = of_flows(lines()?);
    ensure!(summaries.len() == 1 && summaries == seen, "{summaries:?}");
    let summary = &summaries[0];
    ensure!(summary["path"] == "wire" && summary["local"] == from.as_str(), "{summary}");
    ensure!(summary["congestion_before"] == "cubic", "{summary}");
    ensure!(summary["congestion"] == algorithm.as_str(), "{summary}");
    ensure!(summary["sndbuf_bytes"] == 2 * 1024 * 1024, "{summary}");
    // The SYN and the FIN take a number each, too.
    let bytes = summary["sent_bytes"].as_u64().unwrap_or(0);
    ensure!((123_456..=123_458).contains(&bytes), "{summary}");
    ensure!(!home.log().contains("fd81::"), "the log has flows of no path");
    Ok(())
}

#[e2e(long, beside)]
fn status_shows_what_runs() -> Result<()> {
    let stand = Stand::set_up("status")?;
    let home = Home::create(&program()?, POLICY)?;
    let _agent = home.start(stand.cgroup())?;
    let output = home.command("status").arg("--json").output()?;
    let status: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(status.to_string().contains("\"wire\""), "{status}");
    let output = home.command("status").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(text.contains("wire") && text.contains(home.instance()), "{text}");
    Ok(())
}
