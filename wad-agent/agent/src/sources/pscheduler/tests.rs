//! A pScheduler on loopback.

use wad_policy::config::{Config, testing::host};

use super::*;
use crate::sources::testing::{
    paths,
    server::{Reply, Script, Server, json},
    two_paths,
};

/// The path that a request is for, below the server's URL, and its query.
fn request(head: &str) -> (&str, &str) {
    let target = head.split(' ').nth(1).unwrap_or_default();
    let target = target.strip_prefix("/pscheduler").unwrap_or_default();
    target.split_once('?').unwrap_or((target, ""))
}

/// Returns one task of a kind for each of these hosts, whose id is its place.
fn tasks(query: &str, kind: &str, dests: &[&str]) -> Reply {
    if !query.ends_with(&format!("%22{kind}%22%7D%7D")) {
        return json("[]");
    }
    let tasks = dests.iter().enumerate().map(|(n, dest)| {
        format!(
            r#"{{"href": "https://x/pscheduler/tasks/{n}", "schema": 3, "schedule": {{}},
                "test": {{"type": "{kind}", "spec": {{"dest": "{dest}"}}}}}}"#
        )
    });
    json(&format!("[{}]", tasks.collect::<Vec<_>>().join(",")))
}

fn runs(ids: &[&str]) -> Reply {
    let url = |id: &&str| format!("\"https://x/pscheduler/tasks/0/runs/{id}\"");
    json(&format!("[{}]", ids.iter().map(url).collect::<Vec<_>>().join(",")))
}

fn run(state: &str, minute: u32, result: &str) -> Reply {
    json(&format!(
        r#"{{"state": "{state}", "end-time": "2023-11-14T22:{minute}:20Z", "errors": null,
            "result-full": null, "result-merged": {result}}}"#
    ))
}

fn throughput(bits: &str) -> String {
    format!(r#"{{"succeeded": true, "summary": {{"summary": {{"throughput-bits": {bits}}}}}}}"#)
}

/// 2023-11-14T22:00:20Z.
const THEN: f64 = 1_699_999_220.0;

fn reading(target: usize, metric: Metric, value: f64, minute: u32) -> Reading {
    let measured_at_seconds = THEN + 60.0 * f64::from(minute);
    Reading { target, metric, sample: Sample { value, measured_at_seconds, is_least: false } }
}

async fn polled(script: Script) -> (Vec<Reading>, Vec<String>) {
    polled_for(&two_paths(), script).await
}

async fn polled_for(targets: &Targets, script: Script) -> (Vec<Reading>, Vec<String>) {
    let server = Server::start(script).await;
    let text = format!(
        "[[source]]\nname = 's'\nkind = 'perfsonar'\nurl = 'http://{}/pscheduler/'\n\
         timeout = '2s'\nmax_response = '64KiB'\n\
         [[path]]\nname = 'a'\nremote = '10.0.0.0/8'\nmode = 'measured'\nsndbuf = 'auto'\n",
        server.address
    );
    let config = Config::parse("wad.toml", &text, &host()).unwrap_or_else(|e| panic!("{e}"));
    match crate::sources::poll::poll(
        &config.sources[0],
        targets,
        &mut crate::sources::poll::Known::default(),
    )
    .await
    {
        Ok(Answer { readings, errors }) => {
            (readings, errors.iter().map(|error| error.kind().label().to_owned()).collect())
        }
        Err(error) => (Vec::new(), vec![format!("all: {}", error.kind().label())]),
    }
}

#[tokio::test]
async fn the_last_result_of_each_kind_is_taken() {
    let (readings, errors) = polled(|head| match request(head) {
        ("/tasks", query) if query.contains("rtt") => tasks(query, "rtt", &["b"]),
        ("/tasks", query) => tasks(query, "throughput", &["10.0.0.1", "2001:db8::1"]),
        ("/tasks/0/runs", query) if query.starts_with("start=20") && query.contains("&end=20") => {
            runs(&["1", "2"])
        }
        ("/tasks/1/runs", _) => runs(&["3"]),
        ("/tasks/0/runs/1", _) => run("finished", 11, &throughput("1e9")),
        // Of the tests of either kind, whose ids are the same here.
        ("/tasks/0/runs/2", _) => run(
            "finished",
            12,
            r#"{"succeeded": true, "min": "PT0.07S", "loss": 0, "reorders": null,
                "summary": {"summary": {"throughput-bits": 2e9}}}"#,
        ),
        ("/tasks/1/runs/3", _) => run("finished", 13, &throughput("3e9")),
        _ => Reply::Whole("404 Not Found", "text/plain", "Not found".to_owned()),
    })
    .await;
    let expected = [
        reading(0, Metric::Bandwidth, 2e9, 12),
        reading(1, Metric::Bandwidth, 3e9, 13),
        reading(1, Metric::Rtt, 0.07, 12),
        reading(1, Metric::Loss, 0.0, 12),
    ];
    assert_eq!((readings.as_slice(), errors), (expected.as_slice(), vec![]));
}

#[tokio::test]
async fn runs_under_way_and_failed_ones_are_passed_over() {
    let (readings, errors) = polled(|head| match request(head) {
        ("/tasks", query) => tasks(query, "throughput", &["10.0.0.1"]),
        ("/tasks/0/runs", _) => runs(&["1", "2", "3", "4", "5"]),
        ("/tasks/0/runs/5", _) => run("running", 15, "null"),
        ("/tasks/0/runs/4", _) => run("missed", 14, "null"),
        ("/tasks/0/runs/3", _) => run("finished", 13, r#"{"succeeded": false, "error": "x"}"#),
        ("/tasks/0/runs/2", _) => run("finished", 12, &throughput("2e9")),
        _ => run("finished", 11, &throughput("1e9")),
    })
    .await;
    assert_eq!(readings, [reading(0, Metric::Bandwidth, 2e9, 12)]);
    // The last one says why.
    assert_eq!(errors, ["failed"]);
}

#[tokio::test]
async fn of_several_tasks_the_latest_result_counts() {
    let (readings, errors) = polled(|head| match request(head) {
        ("/tasks", query) => tasks(query, "throughput", &["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
        ("/tasks/0/runs", _) => runs(&["a"]),
        ("/tasks/1/runs", _) => runs(&["b"]),
        // The task is new.
        ("/tasks/2/runs", _) => runs(&[]),
        ("/tasks/0/runs/a", _) => run("finished", 20, &throughput("1e9")),
        _ => run("finished", 10, &throughput("2e9")),
    })
    .await;
    assert_eq!(readings, [reading(0, Metric::Bandwidth, 1e9, 20)]);
    assert_eq!(errors, [""; 0]);
}

#[tokio::test]
async fn what_is_wrong_with_one_answer_leaves_the_others() {
    let (readings, errors) = polled(|head| match request(head) {
        ("/tasks", query) if query.contains("latency") => json(r#"[{"href": 7}, "x"]"#),
        ("/tasks", query) => {
            let dests = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "b", "b"];
            tasks(query, "throughput", &dests)
        }
        ("/tasks/5/runs", _) => Reply::Whole("404 Not Found", "text/plain", "x".to_owned()),
        ("/tasks/0/runs", _) => json(r#"["https://x/runs/no id"]"#),
        (path, _) if path.ends_with("/runs") => runs(&["1"]),
        ("/tasks/1/runs/1", _) => json("null"),
        ("/tasks/2/runs/1", _) => Reply::Endless(1 << 20),
        ("/tasks/3/runs/1", _) => run("finished", 11, &throughput("null")),
        _ => run("finished", 10, &throughput("2e9")),
    })
    .await;
    assert_eq!(readings, [reading(1, Metric::Bandwidth, 2e9, 10)]);
    // Path by path.
    let expected =
        ["malformed", "malformed", "value", "too_large", "malformed", "malformed", "status"];
    assert_eq!(errors, expected);
}

#[tokio::test]
async fn who_keeps_silent_about_one_path_is_heard_of_the_others() {
    let (readings, errors) = polled(|head| match request(head) {
        // A number that is none, where it matters and where it does not.
        ("/tasks", query) if query.contains("rtt") => json(
            r#"[{"href": "https://x/tasks/7", "test": {"spec": {"dest": "b"}}, "priority": 1e999},
                {"href": "https://x/tasks/8", "test": {"spec": {"dest": "b", "bandwidth": 1e999}}}]"#,
        ),
        ("/tasks", query) => {
            tasks(query, "throughput", &["b", "10.0.0.1", "10.0.0.2", "10.0.0.3"])
        }
        ("/tasks/7/runs/1", _) => run("finished", 11, r#"{"succeeded": true, "min": "PT0.07S"}"#),
        ("/tasks/0/runs/1", _) => run("finished", 10, &throughput("2e9")),
        (path, _) if path.ends_with("/runs") => runs(&["1", "2", "3", "4"]),
        ("/tasks/0/runs/2", _) | ("/tasks/7/runs/2", _) => json("null"),
        ("/tasks/0/runs/3", _) | ("/tasks/7/runs/3", _) => json("null"),
        ("/tasks/0/runs/4", _) | ("/tasks/7/runs/4", _) => json("null"),
        _ => Reply::Silence,
    })
    .await;
    let expected = [reading(1, Metric::Bandwidth, 2e9, 10), reading(1, Metric::Rtt, 0.07, 11)];
    assert_eq!(readings, expected);
    // It is waited for once: three tasks have four runs each.
    assert_eq!(errors.iter().filter(|error| *error == "timeout").count(), 1, "{errors:?}");
}

#[tokio::test]
async fn many_that_are_kept_silent_about_are_waited_for_together() {
    let script: Script = |head| match request(head) {
        ("/tasks", query) => {
            let dests: Vec<_> = (0..12).map(|path| format!("10.{path}.0.1")).collect();
            tasks(query, "throughput", &dests.iter().map(String::as_str).collect::<Vec<_>>())
        }
        ("/tasks/0/runs", _) => runs(&["1"]),
        ("/tasks/0/runs/1", _) => run("finished", 10, &throughput("2e9")),
        _ => Reply::Silence,
    };
    let begun = std::time::Instant::now();
    let (readings, errors) = polled_for(&paths(12), script).await;
    assert_eq!(readings, [reading(0, Metric::Bandwidth, 2e9, 10)]);
    assert_eq!(errors, ["timeout"; 11]);
    // One after the other they would be waited for 22 s.
    assert!(begun.elapsed().as_secs() < 11, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn each_wrong_answer_is_named() {
    let cases: &[(Script, &[&str])] = &[
        (|_| json("[]"), &["empty"]),
        (|_| json("null"), &["all: malformed"]),
        (|_| json("{}"), &["all: malformed"]),
        (|_| json("[NaN]"), &["all: malformed"]),
        (|head| tasks(request(head).1, "rtt", &["192.0.2.1"]), &["unmatched"]),
        (
            |head| tasks(request(head).1, "rtt", &["no-such-host.invalid"]),
            &["resolve", "unmatched"],
        ),
        (
            |_| Reply::Whole("400 Bad Request", "text/plain", "Invalid JSON\n".to_owned()),
            &["all: status"],
        ),
        (
            |head| match request(head) {
                ("/tasks", query) => tasks(query, "rtt", &["b"]),
                _ => json("[]"),
            },
            &["empty"],
        ),
        (
            |head| match request(head) {
                ("/tasks", query) => tasks(query, "rtt", &["b"]),
                ("/tasks/0/runs", _) => runs(&["1"]),
                _ => run("finished", 10, "null"),
            },
            &["failed"],
        ),
        (
            |head| match request(head) {
                ("/tasks", query) => tasks(query, "rtt", &["b"]),
                ("/tasks/0/runs", _) => runs(&["1"]),
                _ => run("pending", 10, "null"),
            },
            &["empty"],
        ),
        (
            |head| match request(head) {
                ("/tasks", query) => tasks(query, "rtt", &["b"]),
                _ => Reply::Drip,
            },
            &["timeout"],
        ),
        (
            |_| Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n[".to_vec()),
            &["all: broken"],
        ),
    ];
    for (n, (script, expected)) in cases.iter().enumerate() {
        let (readings, errors) = polled(*script).await;
        assert_eq!(readings, [], "case {n}");
        assert_eq!(errors, *expected, "case {n}");
    }
}
