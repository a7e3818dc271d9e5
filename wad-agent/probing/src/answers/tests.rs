use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    response::Response,
};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use tempfile::TempDir;
use wad_observing::metrics::Definition;

use super::{
    History, Paths, Results, Runs, Tasks, bucket,
    exporter::definitions::{SERVICE, TASK},
    router,
};
use crate::{
    archive::{Archive, Bounds},
    measurement::{Bandwidth, Confidence, Measurement, RoundTrips, Share},
    row::{Ending, Hindrance, Row},
    schedule::Reservations,
};

const HOUR: Duration = Duration::from_secs(3_600);

/// Returns a row of a run that ended so many seconds ago.
fn row(task: &str, seconds_ago: i64, ending: Ending) -> Row {
    let took = Duration::from_millis(500);
    let started = Timestamp::now() - Duration::from_secs(seconds_ago.unsigned_abs()) - took;
    Row {
        task: task.to_owned(),
        path: Some("tokyo".to_owned()),
        host: "dtn.tokyo.example".to_owned(),
        address: Some(IpAddr::from([192, 0, 2, 7])),
        tool: task.to_owned(),
        period: started,
        started: Some(started),
        took,
        ending,
    }
}

fn rtt(min_seconds: f64) -> Ending {
    let (median_seconds, max_seconds) = (min_seconds * 1.1, min_seconds * 2.0);
    Ending::Measured(Measurement {
        rtt: Some(RoundTrips { samples: 10, min_seconds, median_seconds, max_seconds }),
        loss: Some(Share { part: 1, whole: 1_000 }),
        spent_bytes: 1_000,
        ..Measurement::default()
    })
}

/// All that a run can find out.
fn everything() -> Ending {
    let Ending::Measured(of_rtt) = rtt(0.1) else { unreachable!() };
    let Ending::Measured(of_bandwidth) = bandwidth(9e9, Confidence::Converged) else {
        unreachable!()
    };
    let bandwidth = of_bandwidth.bandwidth.map(|it| Bandwidth { loaded_rtt: of_rtt.rtt, ..it });
    let (reordering, path_mtu_bytes) = (Some(Share { part: 2, whole: 1_000 }), Some(9_000));
    Ending::Measured(Measurement { reordering, path_mtu_bytes, bandwidth, ..of_rtt })
}

fn bandwidth(bits_per_second: f64, confidence: Confidence) -> Ending {
    Ending::Measured(Measurement {
        bandwidth: Some(Bandwidth {
            bits_per_second,
            confidence,
            loaded_rtt: None,
            retransmitted_bytes: Some(1_448),
            congestion: Some("bbr".to_owned()),
            held_up: None,
        }),
        spent_bytes: 1_000_000,
        ..Measurement::default()
    })
}

fn results(folder: &TempDir, rows: &[Row]) -> Arc<Results> {
    let bounds = Bounds { keep: 90 * 24 * HOUR, max_bytes: 64 << 20 };
    let archive = Archive::open(&folder.path().join("probe.sqlite"), bounds);
    rows.iter().for_each(|row| archive.append(row));
    let reservations = Reservations { granted: 5, given: 3, expired: 1, ..Reservations::default() };
    let results = Results::new(Arc::new(archive), Box::new(move || reservations));
    results.set_tasks(["rtt".to_owned(), "bandwidth".to_owned()]);
    Arc::new(results)
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

async fn ask(results: &Arc<Results>, uri: &str) -> (u16, String) {
    let request = Request::builder().uri(uri).body(Body::empty()).unwrap();
    let router = TowerToHyperService::new(router(Arc::clone(results)));
    let answer: Response = router.call(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), 64 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn told<T: DeserializeOwned>(results: &Arc<Results>, uri: &str) -> T {
    let (status, body) = ask(results, uri).await;
    assert_eq!(status, 200, "{body}");
    assert!(body.starts_with(r#"{"schema":1,"#), "{body}");
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn a_path_has_the_last_value_of_each_kind_with_its_age() {
    let folder = folder();
    let results = results(
        &folder,
        &[
            row("bandwidth", 7_200, bandwidth(9e9, Confidence::Converged)),
            row("bandwidth", 3_600, bandwidth(1e9, Confidence::Capped)),
            row("rtt", 600, rtt(0.1)),
            row("rtt", 300, Ending::TimedOut),
            row("removed since", 10, rtt(0.2)),
        ],
    );
    let Paths { paths } = told(&results, "/v1/probe/paths").await;
    let [path] = &paths[..] else { panic!("{paths:?}") };
    assert_eq!(path.path.as_deref(), Some("tokyo"));
    assert_eq!(path.address, Some(IpAddr::from([192, 0, 2, 7])));
    let (rate, time) = (path.bandwidth.unwrap(), path.rtt.unwrap());
    assert_eq!((rate.bits_per_second, rate.confidence), (1e9, Confidence::Capped));
    assert_eq!((time.seconds, path.loss.unwrap().fraction), (0.1, 0.001));
    assert!((3_600.0..3_660.0).contains(&rate.age_seconds), "{rate:?}");
    assert!((600.0..660.0).contains(&time.age_seconds), "{time:?}");
    assert_eq!(path.reordering, None);

    let Tasks { tasks } = told(&results, "/v1/probe/latest").await;
    assert_eq!(tasks.iter().map(|it| &*it.last.task).collect::<Vec<_>>(), ["bandwidth", "rtt"]);
    assert_eq!(tasks[1].last.ending, "timed-out");
    assert_eq!(tasks[1].measured.as_ref().unwrap().ending, "measured");
}

#[tokio::test]
async fn runs_and_history_answer_questions() {
    let folder = folder();
    let lock = Hindrance::Lock { lock: "path tokyo".into(), holder: "rtt".into() };
    let results = results(
        &folder,
        &[
            row("bandwidth", 900, Ending::Missed(lock)),
            row("rtt", 600, rtt(0.1)),
            row("rtt", 300, rtt(0.3)),
        ],
    );
    let Runs { runs } = told(&results, "/v1/probe/runs?path=tokyo&limit=2").await;
    assert_eq!(runs.iter().map(|run| &*run.task).collect::<Vec<_>>(), ["rtt", "rtt"]);
    let Runs { runs } = told(&results, "/v1/probe/runs?task=bandwidth").await;
    let [missed] = &runs[..] else { panic!("{runs:?}") };
    let words = [&missed.reason, &missed.lock, &missed.holder].map(|it| it.as_deref().unwrap());
    assert_eq!((&*missed.ending, words), ("missed", ["lock", "path tokyo", "rtt"]));
    let History { buckets, .. } =
        told(&results, "/v1/probe/history?task=rtt&bucket_seconds=31622400").await;
    assert_eq!(buckets.iter().map(|bucket| bucket.measured).sum::<u64>(), 2);

    let (status, body) = ask(&results, "/v1/probe/runs?limit=none").await;
    assert_eq!(status, 400);
    assert!(body.starts_with(r#"{"error":"limit takes"#), "{body}");
    assert_eq!(ask(&results, "/v1/probe/else").await.0, 404);
}

#[tokio::test]
async fn metrics_are_those_of_the_golden_page() {
    let folder = folder();
    let results = results(
        &folder,
        &[
            row("bandwidth", 7_200, everything()),
            row("rtt", 600, rtt(0.1)),
            row("rtt", 300, Ending::Missed(Hindrance::NotRunning)),
            row("gone", 200, Ending::Missed(Hindrance::Stopped { periods: 7 })),
        ],
    );
    let (status, page) = ask(&results, "/metrics").await;
    assert_eq!(status, 200);
    // What depends on the time, and on how SQLite lays pages out.
    let is_steady = |line: &&str| !line.contains("timestamp_seconds{") && !line.contains("_size_");
    let steady = |page: &str| page.lines().filter(is_steady).collect::<Vec<_>>().join("\n");
    let golden = include_str!("testdata/metrics.txt");
    assert_eq!(steady(&page), steady(golden), "{page}");
    // The reference is made of it.
    let definitions = TASK.iter().map(|metric| &metric.definition);
    for Definition { help, .. } in definitions.chain(SERVICE.iter().map(|(it, _)| it)) {
        assert!(golden.contains(&format!(" {help}\n")), "{help}");
    }
}

#[test]
fn a_bucket_is_a_tidy_part_of_the_time() {
    for (hours, minutes) in [(1, 1), (24, 5), (24 * 7, 30), (24 * 90, 360), (24 * 3_650, 1_440)] {
        assert_eq!(bucket(HOUR * hours), Duration::from_secs(minutes * 60), "{hours} h");
    }
}
