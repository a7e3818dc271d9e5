//! Paths of mode "measured" follow their sources: what a real Prometheus holds becomes
//! the buffers of new connections, within bounds, and nothing that a source answers
//! ends or holds up the agent.

use std::{
    fs,
    net::{Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use nix::sys::signal::Signal;
use wad_e2e_attribute::e2e;
use wad_testbed::{
    answers::{Answer, Answers},
    emulated::wan::{ADDRESSES_V4, Wan},
    mutex::locked,
    prometheus::Prometheus,
    sending::while_sending,
    settings, signal,
    stand::{Stand, until},
    sysctl::{self, Changed},
    tcp::{Connection, Silent, at},
    tls::{Authority, TlsServer, Validity},
    veth::Wire,
    wad::{Home, program},
};

use crate::measured::{Bench, LIMIT, PATH, now_seconds, sndbuf};

/// Holds what a path carries, as an exporter has it; None for no series.
type Measured = Arc<Mutex<Option<(u64, u64)>>>;

/// Returns an exporter of bandwidth (in bytes, as is usual) and RTT of the path "wire".
fn exporter(measured: &Measured) -> Result<Answers> {
    let measured = Arc::clone(measured);
    Ok(Answers::start(move |_| {
        let measured = *locked(&measured);
        Answer::text(measured.map_or_else(String::new, |(mbit, rtt_ms)| {
            let (rate, rtt) = (mbit as f64 * 1e6 / 8.0, rtt_ms as f64 / 1e3);
            format!(
                "wan_bandwidth_bytes_per_second{{path=\"wire\"}} {rate}\n\
                 wan_rtt_seconds{{path=\"wire\"}} {rtt}\n"
            )
        }))
    })?)
}

fn source(name: &str, url: &str, keys: &str) -> String {
    format!(
        "[[source]]\nname = '{name}'\nkind = 'prometheus'\nurl = '{url}'\ninterval = '1s'\n\
         timeout = '2s'\nstale_after = '5s'\nrtt = 'wan_rtt_seconds'\n{keys}\n"
    )
}

const RATE: &str = "bandwidth = 'wan_bandwidth_bytes_per_second'\nbandwidth_unit = 'B/s'";

#[e2e(never = "prometheus and promtool are larger than all else in a machine", beside)]
fn buffers_follow_a_real_prometheus_and_fall_back_without_it() -> Result<()> {
    let stand = Stand::set_up("measured")?;
    let wire = Wire::start()?;
    let measured = Measured::default();
    let exporter = exporter(&measured)?;
    let files = tempfile::tempdir()?;
    let prometheus = Prometheus::start(files.path(), exporter.address())?;
    let url = format!("http://127.0.0.1:{}", prometheus.port());
    let policy =
        format!("[limits]\nchange_interval = '1s'\n\n{}{PATH}", source("real", &url, RATE));
    let home = Home::create(&program()?, &policy)?;
    let mut agent = home.start(stand.cgroup())?;
    let bench = Bench { wire: &wire, home: &home };
    let set = |to| *locked(&measured) = to;
    let says = |what: &str| home.log().matches(what).count();

    ensure!(bench.sndbuf()? == sndbuf(400, 40), "the file's values hold at first");
    set(Some((622, 70)));
    let took = bench.until_sndbuf("it is measured", sndbuf(622, 70))?;
    println!("followed after {took:?}");
    let paths = bench.paths()?;
    let known = &paths["paths"][0]["measured"];
    ensure!(known["rtt_seconds"]["source"] == "real", "{paths}");
    ensure!(known["rtt_seconds"]["value"] == 0.07, "{paths}");
    ensure!(known["bandwidth_bits_per_second"]["value"] == 622e6, "{paths}");
    ensure!(paths["paths"][0]["policy"]["sndbuf_bytes"] == sndbuf(622, 70) / 2, "{paths}");
    // The host's ceiling is where it has to be.
    let ceiling: u64 = sysctl::get("net.core.wmem_max")?.trim().parse()?;
    ensure!(ceiling >= sndbuf(622, 70) / 2, "{ceiling}");

    set(None);
    let took = bench.until_sndbuf("the series stopped", sndbuf(400, 40))?;
    println!("fell back after {took:?}");
    ensure!(took >= Duration::from_secs(4), "{took:?}");
    signal::sleep(Duration::from_secs(3))?;
    ensure!(says("the RTT measured is too old") == 1, "{}", home.log());
    // Before the first series, and now: not with each poll.
    ensure!(says("`bandwidth` gives nothing") == 2, "{}", home.log());
    ensure!(home.metrics()?.value("wad_paths_not_measured", &[])? == 1.0);

    set(Some((200, 150)));
    let took = bench.until_sndbuf("the series are back", sndbuf(200, 150))?;
    println!("recovered after {took:?}");
    ensure!(says("answers as it should again") >= 1, "{}", home.log());
    ensure!(home.metrics()?.value("wad_paths_measured", &[])? == 1.0);

    // Prometheus itself goes.
    drop(prometheus);
    let refused = || -> Result<f64> { bench.errors("real", "connect") };
    until("its absence is counted", LIMIT, refused, |count| *count > 0.0)?;
    bench.until_sndbuf("it is gone", sndbuf(400, 40))?;
    agent.signal(Signal::SIGHUP);
    signal::sleep(Duration::from_secs(1))?;
    ensure!(bench.sndbuf()? == sndbuf(400, 40));
    agent.stop()?;
    Ok(())
}

#[e2e(never = "prometheus and promtool are larger than all else in a machine", beside, slow)]
fn a_path_that_flaps_changes_once_in_an_interval() -> Result<()> {
    const INTERVAL_SECONDS: u64 = 6;
    let stand = Stand::set_up("flapping")?;
    let wire = Wire::start()?;
    let measured: Measured = Arc::new(Mutex::new(Some((1000, 20))));
    let exporter = exporter(&measured)?;
    let files = tempfile::tempdir()?;
    let prometheus = Prometheus::start(files.path(), exporter.address())?;
    let url = format!("http://127.0.0.1:{}", prometheus.port());
    let limits = format!("[limits]\nchange_interval = '{INTERVAL_SECONDS}s'\n\n");
    let policy = format!("{limits}{}{PATH}", source("real", &url, RATE));
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    let bench = Bench { wire: &wire, home: &home };
    let set = |to| *locked(&measured) = Some(to);
    bench.until_sndbuf("it is measured", sndbuf(1000, 20))?;

    // From 20 to 120 ms once: a jump takes two measurements.
    signal::sleep(Duration::from_secs(INTERVAL_SECONDS))?;
    set((1000, 120));
    let took = bench.until_sndbuf("the RTT rose", sndbuf(1000, 120))?;
    println!("followed after {took:?} (a scrape each second, a poll each second)");
    ensure!(took < Duration::from_secs(8), "{took:?}");

    let before = bench.policy_sets()?;
    let begun = Instant::now();
    for n in 0..8 {
        set((1000, if n % 2 == 0 { 20 } else { 120 }));
        // Scraped twice.
        signal::sleep(Duration::from_secs(3))?;
    }
    let changes = bench.policy_sets()? - before;
    println!("{changes} changes in {:?} of flapping every three seconds", begun.elapsed());
    ensure!(changes >= 1, "it never followed");
    ensure!(changes <= begun.elapsed().as_secs() / INTERVAL_SECONDS + 1, "{changes}");
    agent.stop()?;
    Ok(())
}

/// Holds what a service says of the path's RTT, and how often it was asked since.
struct Told {
    rtt_ms: u64,
    polls: u32,
}

#[e2e(long, alone)]
fn a_transfer_follows_the_rtt_within_two_polls() -> Result<()> {
    const MBIT: u64 = 300;
    const RTTS_MS: [u64; 2] = [20, 120];
    const WMEM: &str = "4096 16384 500000";
    const RMEM: &str = "4096 131072 500000";
    let bdp_bytes = |rtt_ms: u64| MBIT * 1_000_000 / 8 * rtt_ms / 1_000;
    let stand = Stand::set_up("rtt-rises")?;
    let told = Arc::new(Mutex::new(Told { rtt_ms: RTTS_MS[0], polls: 0 }));
    let telling = Arc::clone(&told);
    let answers = Answers::start(move |_| {
        let mut told = locked(&telling);
        told.polls += 1;
        let rtt_seconds = told.rtt_ms as f64 / 1e3;
        Answer::json(format!(
            r#"{{"paths": [{{"path": "wan", "bandwidth_bits_per_second": {MBIT}e6,
                             "rtt_seconds": {rtt_seconds}}}]}}"#
        ))
    })?;
    // The kernel gives less than either path takes: what is measured counts beyond that.
    let least = [("net.ipv4.tcp_wmem", WMEM), ("net.ipv4.tcp_rmem", RMEM)];
    let [wmem, rmem] = least.map(|(name, value)| Changed::to(name, value));
    // The window's scale, which the handshake settles, is for the longer one as well.
    let scale = Changed::to("net.core.rmem_max", "16777216");
    let _restored = (wmem?, rmem?, scale?);
    let policy = format!(
        "[limits]\nchange_interval = '1s'\n\n[[source]]\nname = 'own'\nkind = 'http'\n\
         url = 'http://{}'\ninterval = '2s'\n\n[[path]]\nname = 'wan'\nmode = 'measured'\n\
         remote = '10.77.0.0/16'\nsndbuf = 'auto'\nrcvbuf = 'auto'\n",
        answers.address()
    );
    let home = Home::create(&program()?, &policy)?;
    let agent = home.start(stand.cgroup())?;
    let measured = || -> Result<f64> { Ok(home.metrics()?.value("wad_paths_measured", &[])?) };
    until("the path is measured", LIMIT, measured, |paths| *paths == 1.0)?;
    let path =
        format!("rtt = '{}ms'\nforward = {{ rate = '{MBIT}Mbit', queue.bdp = 1 }}", RTTS_MS[0]);
    let wan = Wan::start(&toml::from_str(&path)?)?;
    settings::apply(&wan)?;
    for netns in [wan.a(), wan.b()] {
        for (name, value) in least {
            netns.run(|| sysctl::set(name, value))??;
        }
    }
    let flows = [Connection::open(wan.a(), wan.b(), at(ADDRESSES_V4[1], 7000))?];
    while_sending(&flows, || -> Result<()> {
        let window = || -> Result<u64> { Ok(flows[0].near_flow(wan.a())?.send_window_bytes) };
        let grown = |bytes: &u64| *bytes >= bdp_bytes(RTTS_MS[0]);
        let before = until("the window grows", LIMIT, window, grown)?;
        ensure!(before < bdp_bytes(RTTS_MS[1]) / 2, "{before}");
        let mut changing = locked(&told);
        (changing.rtt_ms, changing.polls) = (RTTS_MS[1], 0);
        wan.set_rtt(Duration::from_millis(RTTS_MS[1]));
        drop(changing);
        let begun = Instant::now();
        let follows = |bytes: &u64| *bytes >= bdp_bytes(RTTS_MS[1]);
        let after = until("the window follows", LIMIT, window, follows)?;
        let polls = locked(&told).polls;
        println!("snd_wnd: {before}, {after} after {:?} and {polls} polls", begun.elapsed());
        ensure!(polls <= 2, "{polls} polls");
        let sends = || -> Result<u64> { Ok(flows[0].near_flow(wan.a())?.sndbuf_bytes) };
        let most = sndbuf(MBIT, RTTS_MS[1]);
        until("the send buffer follows", LIMIT, sends, |bytes| *bytes == most)?;
        Ok(())
    })?;
    agent.stop()?;
    Ok(())
}

/// Its name has two addresses, and the one that comes first keeps silent for longer than it
/// is waited for.
#[e2e(long, beside)]
fn a_service_of_ones_own_is_heard() -> Result<()> {
    let stand = Stand::set_up("own-service")?;
    let wire = Wire::start()?;
    let answers = Answers::start(|_| {
        Answer::json(
            r#"{"paths": [{"path": "10.81.0.2", "bandwidth_bits_per_second": 622e6,
                           "rtt_seconds": 0.07, "loss": null}]}"#,
        )
    })?;
    let port = answers.address().port();
    let _silent = Silent::at(SocketAddr::from((Ipv6Addr::LOCALHOST, port)))?;
    let url = format!("http://monitor.example:{port}/paths.json");
    let source =
        format!("[[source]]\nname = 'own'\nkind = 'http'\nurl = '{url}'\ntimeout = '2s'\n\n");
    let home = Home::create(&program()?, &format!("{source}{PATH}"))?;
    let hosts = home.folder().join("hosts");
    fs::write(&hosts, "::1 monitor.example\n127.0.0.1 monitor.example\n")?;
    let known =
        format!("[ -e /etc/hosts ] || : > /etc/hosts\nmount --bind {} /etc/hosts", hosts.display());
    let agent = home.start_in(&known, stand.cgroup())?;
    let bench = Bench { wire: &wire, home: &home };
    bench.until_sndbuf("it is heard", sndbuf(622, 70))?;
    // What it said outlives the agent, without it.
    agent.stop()?;
    drop(answers);
    let agent = home.start(stand.cgroup())?;
    ensure!(bench.sndbuf()? == sndbuf(622, 70), "{}", home.log());
    agent.stop()?;
    Ok(())
}

/// Returns a vector of one series, or its time.
fn vector(query: &str, path: &str, value: &str) -> Answer {
    let now = now_seconds();
    let value = if query.contains("timestamp") { now.to_string() } else { value.to_owned() };
    Answer::json(format!(
        "{{\"status\":\"success\",\"data\":{{\"resultType\":\"vector\",\"result\":\
         [{{\"metric\":{{\"path\":\"{path}\"}},\"value\":[{now},\"{value}\"]}}]}}}}"
    ))
}

/// Answers by the first part of the path, which is the kind of error to expect.
fn bad(query: &str) -> Answer {
    let plain = |status| Answer::Whole(status, "text/plain", "no such thing\n".to_owned());
    match query.split('/').nth(1).unwrap_or_default() {
        "status" => plain("404 Not Found"),
        "refused" => plain("400 Bad Request"),
        "malformed" => Answer::json("null"),
        "empty" => {
            Answer::json(r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#)
        }
        "value" => vector(query, "wire", "NaN"),
        "unmatched" => vector(query, "elsewhere", "0.05"),
        "too_large" => Answer::Large(100 << 20),
        "timeout" => Answer::Drip,
        "broken" => Answer::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec()),
        _ => vector(query, "wire", "0.05"),
    }
}

#[e2e(long, beside)]
fn nothing_that_a_source_answers_holds_the_agent_up() -> Result<()> {
    let stand = Stand::set_up("bad-answers")?;
    let wire = Wire::start()?;
    let answers = Answers::start(bad)?;
    let authority = Authority::create()?;
    let expired = TlsServer::start(&authority, Validity::Expired, answers.address())?;
    let good = TlsServer::start(&authority, Validity::Now, answers.address())?;
    let kinds = [
        "status",
        "refused",
        "malformed",
        "empty",
        "value",
        "unmatched",
        "too_large",
        "timeout",
        "broken",
    ];
    let trust = format!("ca_file = '{}'", authority.certificate().display());
    let mut sources: String = kinds
        .iter()
        .map(|kind| source(kind, &format!("http://{}/{kind}", answers.address()), ""))
        .collect();
    sources += &source("expired", &expired.url(), &trust);
    sources += &source("untrusted", &good.url(), "");
    sources += &source("absent", "http://127.0.0.1:1", "");
    // The last one: only it has an answer.
    sources += &source("good", &good.url(), &trust);
    let home = Home::create(&program()?, &format!("{sources}{PATH}"))?;
    let agent = home.start(stand.cgroup())?;
    let bench = Bench { wire: &wire, home: &home };

    bench.until_sndbuf("the good one is heard", sndbuf(400, 50))?;
    let expected = kinds.iter().map(|kind| (*kind, *kind));
    let expected =
        expected.chain([("expired", "tls"), ("untrusted", "tls"), ("absent", "connect")]);
    for (name, kind) in expected {
        bench.until_error(name, kind)?;
    }
    let paths = bench.paths()?;
    let source = |name| paths["sources"].as_array()?.iter().find(|source| source["name"] == name);
    let said = |name| source(name).map_or_else(String::new, |source| source["error"].to_string());
    ensure!(said("expired").contains("expired"), "{paths}");
    ensure!(said("status").contains("404: no such thing"), "{paths}");
    ensure!(said("good") == "null", "{paths}");
    for name in kinds {
        println!("{name}: {}", said(name));
    }
    let output = home.command("paths").output()?;
    println!("{}", String::from_utf8_lossy(&output.stdout));
    // Each was said once, not with every poll.
    ensure!(home.log().matches("has more than").count() == 1, "{}", home.log());
    // Nobody waits for whoever drips.
    agent.stop()?;
    Ok(())
}
