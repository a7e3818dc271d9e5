//! Sources of kind "perfsonar": a pScheduler's results and an archive's become
//! the buffers of new connections, over HTTP and over TLS, and nothing that
//! either answers ends or holds up the agent.

use std::{collections::BTreeSet, fs, net::UdpSocket, time::Duration};

use anyhow::{Result, ensure};
use jiff::Timestamp;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use wad_e2e_attribute::e2e;
use wad_testbed::{
    answers::{Answer, Answers},
    stand::Stand,
    tls::{Authority, TlsServer, Validity},
    veth::Wire,
    wad::{Home, program},
};

use crate::measured::{Bench, PATH, now_seconds, sndbuf};

const ARCHIVE: &str = "/esmond/perfsonar/archive";
const PSCHEDULER: &str = "/pscheduler";

fn source(name: &str, url: &str, keys: &str) -> String {
    format!(
        "[[source]]\nname = '{name}'\nkind = 'perfsonar'\nurl = '{url}'\ninterval = '1s'\n\
         timeout = '2s'\nstale_after = '1h'\n{keys}\n\n"
    )
}

fn not_found() -> Answer {
    Answer::Whole("404 Not Found", "text/plain", "no such thing\n".to_owned())
}

/// Answers with what an archive has of the path, and where it has it.
fn archive(query: &str) -> Answer {
    let now = now_seconds();
    let (path, _) = query.split_once('?').unwrap_or((query, ""));
    let event = |kind: &str, place: &str| {
        json!({"event-type": kind, "base-uri": format!("{ARCHIVE}{place}"),
               "time-updated": now, "summaries": []})
    };
    match path.strip_prefix(ARCHIVE) {
        Some("/") => Answer::json(
            json!([{
                "source": "192.0.2.1", "destination": "10.81.0.2", "tool-name": "iperf3",
                "metadata-key": "k", "event-types": [
                    event("throughput", "/k/throughput/base"),
                    event("histogram-rtt", "/k/histogram-rtt/base/0"),
                    event("packet-loss-rate", "/gone"),
                ],
            }])
            .to_string(),
        ),
        Some("/k/throughput/base") => Answer::json(
            json!([{"ts": now - 1.0, "val": 622_000_000}, {"ts": now, "val": null}]).to_string(),
        ),
        Some("/k/histogram-rtt/base/0") => {
            Answer::json(json!([{"ts": now, "val": {"70": 9, "71.5": 1}}]).to_string())
        }
        // No losses, and hence no such list.
        Some("/gone") => Answer::json("[]"),
        _ => not_found(),
    }
}

const TASKS: [(&str, &str); 3] = [
    ("throughput", "3fb6a7c8-0d9e-4b52-9f5f-2a4c3b1d0e91"),
    ("rtt", "3fb6a7c8-0d9e-4b52-9f5f-2a4c3b1d0e92"),
    ("latency", "3fb6a7c8-0d9e-4b52-9f5f-2a4c3b1d0e93"),
];
const RUNS: [&str; 3] = [
    "00000000-0000-4000-8000-000000000001",
    "00000000-0000-4000-8000-000000000002",
    "00000000-0000-4000-8000-000000000003",
];

/// The server calls itself by this URL, which is not how it is reached.
const SELF: &str = "https://ps.example.org/pscheduler";

/// Holds what a server was asked: below its URL, without the query, and of which kind.
struct Asked<'q> {
    path: &'q str,
    kind: &'static str,
}

impl<'q> Asked<'q> {
    fn of(query: &'q str) -> Self {
        let (path, rest) = query.split_once('?').unwrap_or((query, ""));
        let path = path.split_once(PSCHEDULER).map_or("", |(_, path)| path);
        let is_asked = |(kind, id): &&(&str, &str)| {
            rest.ends_with(&format!("%22{kind}%22%7D%7D")) || path.contains(*id)
        };
        Self { path, kind: TASKS.iter().find(is_asked).map_or("", |(kind, _)| kind) }
    }
}

/// Returns the tasks of a kind, as one with "expanded" has them.
fn tasks(kind: &str, dest: &str) -> Answer {
    tasks_to(kind, &[dest.to_owned()])
}

fn tasks_to(kind: &str, dests: &[String]) -> Answer {
    let of_kind = TASKS.iter().filter(|(name, _)| *name == kind);
    let tasks = of_kind.flat_map(|task| dests.iter().map(move |dest| (task, dest)));
    let tasks = tasks.map(|((kind, id), dest)| {
        json!({
            "schema": 1, "href": format!("{SELF}/tasks/{id}"), "tool": "iperf3",
            "schedule": {"repeat": "PT4H", "slip": "PT5M"}, "archives": [], "reference": null,
            "test": {"type": kind, "spec": {"source": "192.0.2.1", "dest": dest, "schema": 1}},
        })
    });
    Answer::json(Value::from_iter(tasks).to_string())
}

fn runs(id: &str) -> Answer {
    let runs = RUNS.iter().map(|run| format!("{SELF}/tasks/{id}/runs/{run}"));
    Answer::json(Value::from_iter(runs).to_string())
}

fn run(state: &str, result: &Value) -> Answer {
    let now = format!("{:.0}", Timestamp::now());
    Answer::json(
        json!({
            "start-time": now, "end-time": now, "duration": "PT30S", "added": now,
            "participants": ["192.0.2.1", "10.81.0.2"], "priority": 0, "limit-diags": "",
            "state": state, "state-display": "Shown", "errors": null, "result": null,
            "result-full": [result, null], "result-merged": result,
        })
        .to_string(),
    )
}

/// Streams are called by texts or by numbers, and know some things only.
fn result(kind: &str) -> Value {
    let datum = |stream: Value, bits: u64| {
        json!({"stream-id": stream, "throughput-bits": bits, "throughput-bytes": bits / 8,
               "receiver-throughput-bits": null, "retransmits": null, "rtt": null, "sent": null,
               "jitter": null, "lost": null, "start": 0, "end": 30.000_1, "omitted": false})
    };
    match kind {
        "throughput" => {
            let streams = [datum(json!(5), 311_000_000), datum(json!("7"), 311_000_000)];
            let summary = json!({"streams": streams, "summary": datum(json!("SUM"), 622_000_000)});
            json!({"succeeded": true, "schema": 1, "diags": "iperf3 says a lot", "mss": 1448,
                   "intervals": [summary], "summary": summary, "tcp-window-size": null})
        }
        "rtt" => json!({
            "succeeded": true, "schema": 1, "sent": 5, "received": 5, "lost": 0, "loss": 0.0,
            "min": "PT0.07S", "max": "PT0.0715S", "mean": "PT0.0703S", "stddev": "PT0.0006S",
            "roundtrips": [{"seq": 1, "rtt": "PT0.07S", "ttl": 64, "length": 64}, {"error": "x"}],
        }),
        _ => json!({
            "succeeded": true, "schema": 1, "packets-sent": 600, "packets-received": 594,
            "packets-lost": 6, "packets-duplicated": 0, "packets-reordered": 3,
            "max-clock-error": 1.5, "histogram-latency": {"34.4": 594}, "histogram-ttl": {"60": 594},
        }),
    }
}

fn pscheduler(query: &str) -> Answer {
    let Asked { path, kind } = Asked::of(query);
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["", "tasks"] => tasks(kind, "10.81.0.2"),
        ["", "tasks", id, "runs"] => runs(id),
        // The last one is under way.
        ["", "tasks", _, "runs", run_id] if *run_id == RUNS[2] => run("running", &Value::Null),
        ["", "tasks", _, "runs", run_id] if *run_id == RUNS[1] => run("finished", &result(kind)),
        _ => not_found(),
    }
}

#[e2e(long, beside)]
fn an_archive_is_asked_over_tls() -> Result<()> {
    let stand = Stand::set_up("archive")?;
    let wire = Wire::start()?;
    let answers = Answers::start(archive)?;
    let authority = Authority::create()?;
    let server = TlsServer::start(&authority, Validity::Now, answers.address())?;
    let source = |name, path, from| {
        let keys = format!("ca_file = '{}'\nfrom = '{from}'", authority.certificate().display());
        source(name, &format!("{}{path}", server.url()), &keys)
    };
    let sources = [
        source("elsewhere", "/no/archive", "192.0.2.1"),
        source("of others", ARCHIVE, "192.0.2.2"),
        source("archive", "/esmond/perfsonar/archive/", "192.0.2.1"),
    ];
    let home = Home::create(&program()?, &format!("{}{PATH}", sources.concat()))?;
    let agent = home.start(stand.cgroup())?;
    let bench = Bench { wire: &wire, home: &home };
    bench.until_sndbuf("it is heard", sndbuf(622, 70))?;
    for (name, kind) in [("elsewhere", "status"), ("of others", "unmatched"), ("archive", "empty")]
    {
        bench.until_error(name, kind)?;
    }
    agent.stop()?;
    Ok(())
}

#[e2e(long, beside)]
fn a_pscheduler_is_asked_for_the_last_results() -> Result<()> {
    let stand = Stand::set_up("pscheduler")?;
    let wire = Wire::start()?;
    let answers = Answers::start(pscheduler)?;
    let authority = Authority::create()?;
    let server = TlsServer::start(&authority, Validity::Now, answers.address())?;
    let trust = format!("ca_file = '{}'", authority.certificate().display());
    let plain = format!("http://{}", answers.address());
    for (url, keys) in [(plain, String::new()), (server.url(), trust)] {
        let sources = [
            source("of others", &format!("{url}{PSCHEDULER}"), &format!("{keys}\nfrom = '::1'")),
            source("own", &format!("{url}{PSCHEDULER}/"), &format!("{keys}\nfrom = '192.0.2.1'")),
        ];
        let home = Home::create(&program()?, &format!("{}{PATH}", sources.concat()))?;
        let agent = home.start(stand.cgroup())?;
        let bench = Bench { wire: &wire, home: &home };
        bench.until_sndbuf("it is heard", sndbuf(622, 70))?;
        bench.until_error("of others", "unmatched")?;
        let paths = bench.paths()?;
        let measured = &paths["paths"][0]["measured"];
        for (metric, value) in [
            ("bandwidth_bits_per_second", 622e6),
            ("rtt_seconds", 0.07),
            ("reordering", 3.0 / 594.0),
        ] {
            ensure!(measured[metric]["source"] == "own", "{metric}: {paths}");
            ensure!(measured[metric]["value"] == value, "{metric}: {paths}");
        }
        ensure!(paths["sources"][1]["error"].is_null(), "{paths}");
        agent.stop()?;
    }
    Ok(())
}

const NAME_SERVER: &str = "127.0.0.77";
/// Hosts of a mesh whose names nobody knows.
const SILENT: usize = 100;

/// Answers as the pScheduler of a mesh, which has tasks to many other hosts.
fn mesh(query: &str) -> Answer {
    let Asked { path, kind } = Asked::of(query);
    match path {
        "/tasks" => {
            let silent = (0..SILENT).map(|number| format!("silent-{number}.example"));
            tasks_to(kind, &silent.chain(["10.81.0.2".to_owned()]).collect::<Vec<_>>())
        }
        _ => pscheduler(query),
    }
}

/// Returns the hosts that a name server was asked for, each by the first part of its name:
/// RFC 1035 section 4.1.
fn asked(server: &UdpSocket) -> BTreeSet<String> {
    const HEADER_BYTES: usize = 12;
    let mut names = BTreeSet::new();
    let mut query = [0; 512];
    while let Ok(bytes) = server.recv(&mut query) {
        if let [length, name @ ..] = &query[HEADER_BYTES.min(bytes)..bytes] {
            let label = &name[..usize::from(*length).min(name.len())];
            names.insert(String::from_utf8_lossy(label).into_owned());
        }
    }
    names
}

/// This error was seen before: each name was waited for, one after the other, with each
/// poll.
#[e2e(long, beside)]
fn names_that_no_server_answers_for_hold_nothing_up() -> Result<()> {
    let stand = Stand::set_up("silent-names")?;
    let wire = Wire::start()?;
    let server = UdpSocket::bind((NAME_SERVER, 53))?;
    server.set_nonblocking(true)?;
    let answers = Answers::start(mesh)?;
    let url = format!("http://{}{PSCHEDULER}", answers.address());
    let source = source("mesh", &url, "from = '192.0.2.1'");
    let home = Home::create(&program()?, &format!("{source}{PATH}"))?;
    let resolver = home.folder().join("resolv.conf");
    fs::write(&resolver, format!("nameserver {NAME_SERVER}\n"))?;
    let known = format!(
        "[ -e /etc/resolv.conf ] || : > /etc/resolv.conf\nmount --bind {} /etc/resolv.conf",
        resolver.display()
    );
    let agent = home.start_in(&known, stand.cgroup())?;
    let bench = Bench { wire: &wire, home: &home };
    let took = bench.until_sndbuf("the path is heard of all the same", sndbuf(622, 70))?;
    let asked = asked(&server);
    println!("heard after {took:?}, {} of {SILENT} names asked for", asked.len());
    ensure!(asked.iter().any(|name| name.starts_with("silent-")), "{asked:?}");
    ensure!(asked.len() < SILENT / 2, "{asked:?}");
    // Those that are under way are not waited for.
    let took = agent.stop_by(Signal::SIGTERM)?;
    ensure!(took < Duration::from_secs(2), "stopped in {took:?}");
    Ok(())
}

/// Answers as pScheduler, by the first part of the path, which names what is wrong.
fn bad_pscheduler(query: &str) -> Answer {
    let wrong = query.split('/').nth(1).unwrap_or_default();
    let Asked { path, kind } = Asked::of(query);
    let of_throughput = |bits: Value| {
        let mut result = result("throughput");
        result["summary"]["summary"]["throughput-bits"] = bits;
        run("finished", &result)
    };
    match (wrong, path) {
        ("none", "/tasks") => Answer::json("[]"),
        ("elsewhere", "/tasks") => tasks(kind, "192.0.2.2"),
        ("refused", "/tasks") => {
            Answer::Whole("400 Bad Request", "text/plain", "Invalid JSON\n".to_owned())
        }
        ("gone", path) if path.ends_with("/runs") => not_found(),
        (_, "/tasks") if kind == "throughput" => tasks(kind, "10.81.0.2"),
        (_, "/tasks") => Answer::json("[]"),
        ("idle", _) => Answer::json("[]"),
        (_, path) if path.ends_with("/runs") => runs(TASKS[0].1),
        ("null", _) => run("finished", &Value::Null),
        ("failed", _) => run("finished", &json!({"succeeded": false, "error": "no route"})),
        ("missed", _) => run("missed", &Value::Null),
        ("without", _) => of_throughput(Value::Null),
        ("text", _) => of_throughput(json!("NaN")),
        ("NaN", _) => Answer::json("{\"state\": \"finished\", \"result-merged\": NaN}"),
        ("types", _) => Answer::json(r#"{"state": 7, "end-time": []}"#),
        ("large", _) => Answer::Large(100 << 20),
        ("slow", _) => Answer::Drip,
        _ => Answer::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec()),
    }
}

#[e2e(long, beside)]
fn nothing_that_a_pscheduler_answers_holds_the_agent_up() -> Result<()> {
    let wrong = [
        ("none", "empty"),
        ("elsewhere", "unmatched"),
        ("refused", "status"),
        ("gone", "status"),
        ("idle", "empty"),
        ("null", "failed"),
        ("failed", "failed"),
        ("missed", "failed"),
        ("without", "value"),
        ("text", "value"),
        ("NaN", "malformed"),
        ("types", "malformed"),
        ("large", "too_large"),
        ("slow", "timeout"),
        ("broken", "broken"),
    ];
    let said = hold_up("bad-psched", PSCHEDULER, &wrong, bad_pscheduler, pscheduler)?;
    ensure!(said.contains("Invalid JSON") && said.contains("no route"), "{said}");
    Ok(())
}

/// Answers as an archive, by the first part of the path, which names what is wrong.
fn bad_archive(query: &str) -> Answer {
    let mut parts = query.splitn(3, '/').skip(1);
    let (wrong, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let of_rate = |val: Value| Answer::json(json!([{"ts": now_seconds(), "val": val}]).to_string());
    // Addresses of values have no such part: they are from the root.
    let is_list = rest.contains("archive/?");
    match (wrong, is_list) {
        ("refused", true) => {
            Answer::Whole("403 Forbidden", "text/plain", "not for you\n".to_owned())
        }
        ("null", true) => Answer::json("null"),
        ("none", true) => Answer::json("[]"),
        ("types", true) => Answer::json(r#"[{"event-types": 7}]"#),
        ("large", true) => Answer::Large(100 << 20),
        ("slow", true) => Answer::Drip,
        ("broken", true) => Answer::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n[".to_vec()),
        (_, true) => {
            let uri = format!("/{wrong}/rate");
            let event = json!({"event-type": "throughput", "base-uri": uri});
            Answer::json(json!([{"destination": "wire", "event-types": [event]}]).to_string())
        }
        ("empty", _) => Answer::json("[]"),
        ("text", _) => of_rate(json!("NaN")),
        ("object", _) => of_rate(json!({"error": "x"})),
        ("NaN", _) => Answer::json(r#"[{"ts": 1, "val": NaN}]"#),
        _ => not_found(),
    }
}

#[e2e(long, beside)]
fn nothing_that_an_archive_answers_holds_the_agent_up() -> Result<()> {
    let wrong = [
        ("refused", "status"),
        ("gone", "status"),
        ("null", "malformed"),
        ("none", "empty"),
        ("types", "malformed"),
        ("empty", "empty"),
        ("text", "value"),
        ("object", "value"),
        ("NaN", "malformed"),
        ("large", "too_large"),
        ("slow", "timeout"),
        ("broken", "broken"),
    ];
    let said = hold_up("bad-archive", ARCHIVE, &wrong, bad_archive, archive)?;
    ensure!(said.contains("not for you"), "{said}");
    Ok(())
}

/// Runs one source for each thing that is wrong, and in a second agent a good one
/// beside those whose certificate is. Returns what was said of the former.
fn hold_up(
    label: &str,
    path: &str,
    wrong: &[(&str, &str)],
    bad: fn(&str) -> Answer,
    good: fn(&str) -> Answer,
) -> Result<String> {
    let stand = Stand::set_up(label)?;
    let wire = Wire::start()?;
    let answers = Answers::start(bad)?;
    let sources: String = wrong
        .iter()
        .map(|(name, _)| source(name, &format!("http://{}/{name}{path}", answers.address()), ""))
        .collect();
    let home = Home::create(&program()?, &format!("{sources}{PATH}"))?;
    let agent = home.start(stand.cgroup())?;
    let bench = Bench { wire: &wire, home: &home };
    for (name, kind) in wrong {
        bench.until_error(name, kind)?;
    }
    let paths = bench.paths()?;
    for source in paths["sources"].as_array().into_iter().flatten() {
        println!("{}: {}", source["name"], source["error"]);
    }
    ensure!(bench.sndbuf()? == sndbuf(400, 40), "the file's values hold: {}", home.log());
    // Nobody waits for whoever drips.
    agent.stop()?;

    let answers = Answers::start(good)?;
    let authority = Authority::create()?;
    let expired = TlsServer::start(&authority, Validity::Expired, answers.address())?;
    let server = TlsServer::start(&authority, Validity::Now, answers.address())?;
    let trust = format!("ca_file = '{}'", authority.certificate().display());
    let sources = [
        source("expired", &format!("{}{path}", expired.url()), &trust),
        source("untrusted", &format!("{}{path}", server.url()), ""),
        source("good", &format!("{}{path}", server.url()), &trust),
    ];
    let home = Home::create(&program()?, &format!("{}{PATH}", sources.concat()))?;
    let agent = home.start(stand.cgroup())?;
    let bench = Bench { wire: &wire, home: &home };
    bench.until_sndbuf("the good one is heard", sndbuf(622, 70))?;
    bench.until_error("expired", "tls")?;
    bench.until_error("untrusted", "tls")?;
    agent.stop()?;
    Ok(paths["sources"].to_string())
}
