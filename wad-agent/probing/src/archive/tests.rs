use std::{fs, net::IpAddr, path::Path, time::Duration};

use jiff::Timestamp;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{Archive, Bounds, Bucket, Query, Spread, aside::with_end};
use crate::{
    measurement::{Bandwidth, Confidence, HeldUp, Measurement, RoundTrips, Share},
    row::{Ending, Hindrance, Row},
};

const BOUNDS: Bounds = Bounds { keep: Duration::from_secs(90 * 86_400), max_bytes: 64 << 20 };

/// Returns a row of a task, of the period that begins so many seconds after the start.
fn row(task: &str, second: i64) -> Row {
    let period = Timestamp::from_second(1_800_000_000 + second).unwrap();
    Row {
        task: task.to_owned(),
        path: Some("tokyo".to_owned()),
        host: "dtn.tokyo.example".to_owned(),
        address: Some("2001:db8::1".parse::<IpAddr>().unwrap()),
        tool: "rtt".to_owned(),
        period,
        started: Some(period + Duration::from_millis(1_500)),
        took: Duration::from_micros(950_123),
        ending: Ending::Measured(Measurement {
            rtt: Some(round_trips(0.11)),
            loss: Some(Share { part: 1, whole: 100 }),
            spent_bytes: 20_000,
            ..Measurement::default()
        }),
    }
}

fn round_trips(median_seconds: f64) -> RoundTrips {
    let (min_seconds, max_seconds) = (median_seconds * 0.9, median_seconds * 2.0);
    RoundTrips { samples: 20, min_seconds, median_seconds, max_seconds }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open(folder: &TempDir) -> Archive {
    Archive::open(&folder.path().join("probe.sqlite"), BOUNDS)
}

fn all(archive: &Archive) -> Vec<Row> {
    archive.query(&Query::default()).unwrap()
}

#[test]
fn rows_come_back_as_they_were() {
    let bandwidth = Bandwidth {
        bits_per_second: 9.4e9,
        confidence: Confidence::ReceiverLimited,
        loaded_rtt: Some(round_trips(0.13)),
        retransmitted_bytes: Some(0),
        congestion: Some("bbr".to_owned()),
        held_up: Some(HeldUp {
            busy_seconds: 1.5,
            by_receiver_seconds: 0.5,
            by_send_buffer_seconds: 0.0,
        }),
    };
    let full = Measurement {
        rtt: Some(round_trips(0.11)),
        loss: Some(Share { part: 0, whole: 10 }),
        reordering: Some(Share { part: 3, whole: 10 }),
        path_mtu_bytes: Some(9_000),
        bandwidth: Some(bandwidth),
        spent_bytes: u64::MAX >> 1,
    };
    let lock = Hindrance::Lock { lock: "interface eth0".into(), holder: "osaka".into() };
    let endings = [
        Ending::Measured(full),
        Ending::Measured(Measurement::default()),
        Ending::Missed(lock),
        Ending::Missed(Hindrance::KnownFromFlows),
        Ending::Missed(Hindrance::NotRunning),
        Ending::Missed(Hindrance::BackingOff),
        Ending::Missed(Hindrance::Stopped { periods: 1_000_000 }),
        Ending::Refused("no room".into()),
        Ending::Failed("sockets: ü".into()),
        Ending::TimedOut,
        Ending::Killed("256 MiB of memory".into()),
    ];
    let mut rows: Vec<Row> =
        (0..).zip(endings).map(|(second, ending)| Row { ending, ..row("a", second) }).collect();
    rows.push(Row { path: None, address: None, started: None, ..row("b", 100) });
    let folder = folder();
    let archive = open(&folder);
    rows.iter().for_each(|row| archive.append(row));
    rows.reverse();
    assert_eq!(all(&archive), rows);
    drop(archive);
    assert_eq!(all(&open(&folder)), rows, "opened again");
}

#[test]
fn the_wanted_rows_come_newest_first() {
    let folder = folder();
    let archive = open(&folder);
    for second in 0..10 {
        archive.append(&row("a", second));
        archive.append(&Row { host: "192.0.2.1".into(), path: None, ..row("b", second) });
    }
    let at = |second: i64| Some(Timestamp::from_second(1_800_000_000 + second).unwrap());
    let path = Query { path: Some("tokyo".into()), limit: Some(2), ..Query::default() };
    assert_eq!(archive.query(&path).unwrap(), [row("a", 9), row("a", 8)]);
    let range = Query { since: at(3), until: at(5), task: Some("a".into()), ..Query::default() };
    assert_eq!(archive.query(&range).unwrap(), [row("a", 4), row("a", 3)]);
    let host = Query { host: Some("192.0.2.1".into()), ..Query::default() };
    assert_eq!(archive.query(&host).unwrap().len(), 10);
    let nobody = Query { host: Some("192.0.2.2".into()), ..Query::default() };
    assert_eq!(archive.query(&nobody).unwrap(), []);
    assert_eq!(archive.query(&Query { limit: Some(5), ..Query::default() }).unwrap().len(), 5);
}

#[test]
fn the_latest_tells_how_a_task_ended_and_what_it_measured_last() {
    let folder = folder();
    let archive = open(&folder);
    let failed = Row { ending: Ending::TimedOut, address: None, ..row("a", 20) };
    for row in [row("a", 0), row("a", 10), failed.clone(), row("b", 5)] {
        archive.append(&row);
    }
    let mut latest = archive.latest().unwrap();
    latest.sort_by(|one, other| one.last.task.cmp(&other.last.task));
    assert_eq!(latest.len(), 2);
    assert_eq!((&latest[0].last, &latest[0].measured), (&failed, &Some(row("a", 10))));
    assert_eq!((&latest[1].last, &latest[1].measured), (&row("b", 5), &Some(row("b", 5))));
}

#[test]
fn days_are_folded_into_buckets() {
    let folder = folder();
    let archive = open(&folder);
    let measured = |second, median, bits_per_second, confidence| {
        let bandwidth = Bandwidth {
            bits_per_second,
            confidence,
            loaded_rtt: None,
            retransmitted_bytes: None,
            congestion: None,
            held_up: None,
        };
        let measurement = Measurement {
            rtt: Some(round_trips(median)),
            loss: Some(Share { part: 1, whole: 10 }),
            bandwidth: Some(bandwidth),
            ..Measurement::default()
        };
        Row { ending: Ending::Measured(measurement), ..row("a", second) }
    };
    archive.append(&measured(0, 0.1, 1e9, Confidence::Capped));
    archive.append(&measured(600, 0.2, 3e9, Confidence::Converged));
    archive.append(&Row { ending: Ending::TimedOut, ..row("a", 900) });
    archive.append(&Row { ending: Ending::TimedOut, ..row("a", 7_200) });
    let query = Query { path: Some("tokyo".into()), ..Query::default() };
    let hour = Duration::from_secs(3_600);
    let buckets = archive.history(&query, hour).unwrap();
    assert_eq!(buckets.len(), 2);
    let Bucket { start, periods, measured, loss, least, .. } = buckets[0];
    assert_eq!(start, row("a", 0).period);
    assert_eq!((periods, measured, least), (3, 2, 1));
    assert_eq!(loss, Some(Share { part: 2, whole: 20 }));
    let rtt = buckets[0].rtt_seconds.unwrap();
    assert!((rtt.mean - 0.15).abs() < 1e-9, "{rtt:?}");
    assert_eq!((rtt.min, rtt.max), (0.1 * 0.9, 0.4));
    let spread = Spread { min: 1e9, mean: 2e9, max: 3e9 };
    assert_eq!(buckets[0].bandwidth_bits_per_second, Some(spread));
    assert_eq!((buckets[1].periods, buckets[1].measured), (1, 0));
    assert_eq!((buckets[1].rtt_seconds, buckets[1].loss), (None, None));
    let newest = Query { limit: Some(1), ..query };
    assert_eq!(archive.history(&newest, hour).unwrap(), buckets[1..]);
}

#[test]
fn what_is_too_old_goes() {
    let folder = folder();
    let bounds = Bounds { keep: Duration::from_secs(100), ..BOUNDS };
    let archive = Archive::open(&folder.path().join("probe.sqlite"), bounds);
    (0..1_000).for_each(|second| archive.append(&row("a", second)));
    let kept = all(&archive).len();
    assert!((101..=116).contains(&kept), "{kept} are kept");
}

#[test]
fn the_oldest_go_where_it_is_too_much_and_the_file_shrinks_with_its_rows() {
    let folder = folder();
    let path = folder.path().join("probe.sqlite");
    let bounds = Bounds { max_bytes: 1 << 20, ..BOUNDS };
    let archive = Archive::open(&path, bounds);
    let size = || {
        let bytes = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        bytes(&path) + bytes(&with_end(&path, "-wal"))
    };
    let long = |second| {
        let ending = Ending::Failed("why it did not work, in some words".repeat(20));
        Row { ending, ..row(&format!("task {}", second % 50), second) }
    };
    for second in 0..3_000 {
        archive.append(&long(second));
        assert!(size() <= 1 << 20, "{} bytes after {second}", size());
    }
    let kept = all(&archive);
    assert_eq!(kept[0], long(2_999));
    assert!(kept.len() > 500, "{} are kept", kept.len());
    assert_eq!(archive.state().lost, 0);

    let large = size();
    drop(archive);
    let keep = Duration::from_secs(10);
    let archive = Archive::open(&path, Bounds { keep, ..bounds });
    (3_000..4_000).for_each(|second| archive.append(&row("a", second)));
    drop(archive);
    assert!(size() < large / 2, "{} bytes of {large}", size());
}

#[test]
fn a_damaged_file_is_set_aside() {
    let folder = folder();
    let path = folder.path().join("probe.sqlite");
    fs::write(&path, "this is no database, but it is long enough for a header of one".repeat(9))
        .unwrap();
    let archive = Archive::open(&path, BOUNDS);
    archive.append(&row("a", 0));
    assert_eq!(all(&archive), [row("a", 0)]);
    assert_eq!(archive.state().set_aside, [with_end(&path, ".damaged")]);
    assert!(fs::read(with_end(&path, ".damaged")).unwrap().starts_with(b"this is no"));
}

#[test]
fn a_file_that_is_damaged_while_it_is_used_is_set_aside() {
    let folder = folder();
    let archive = open(&folder);
    (0..2_000).for_each(|second| archive.append(&row("a", second)));
    drop(archive);
    let path = folder.path().join("probe.sqlite");
    let mut bytes = fs::read(&path).unwrap();
    bytes[4_096..].fill(0x5a);
    fs::write(&path, bytes).unwrap();

    let archive = Archive::open(&path, BOUNDS);
    (0..10).for_each(|second| archive.append(&row("b", second)));
    assert_eq!(all(&archive).len(), 10);
    let state = archive.state();
    assert_eq!((state.set_aside.len(), state.waiting, state.lost), (1, 0, 0));
}

#[test]
fn a_newer_file_is_set_aside_and_nothing_of_it_changed() {
    let folder = folder();
    let path = folder.path().join("probe.sqlite");
    Archive::open(&path, BOUNDS).append(&row("a", 0));
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 7").unwrap();
    let before = fs::read(&path).unwrap();
    let archive = Archive::open(&path, BOUNDS);
    archive.append(&row("a", 1));
    assert_eq!(all(&archive), [row("a", 1)]);
    assert_eq!(fs::read(with_end(&path, ".newer")).unwrap(), before);
}

#[test]
fn a_file_of_the_version_before_is_read_and_goes_on() {
    let folder = folder();
    let path = folder.path().join("probe.sqlite");
    Archive::open(&path, BOUNDS).append(&row("a", 0));
    let older = "DROP VIEW result; ALTER TABLE run DROP COLUMN periods;
        CREATE VIEW result AS SELECT task FROM series; PRAGMA user_version = 1";
    Connection::open(&path).unwrap().execute_batch(older).unwrap();
    let archive = Archive::open(&path, BOUNDS);
    let stopped = Ending::Missed(Hindrance::Stopped { periods: 5 });
    let stopped = Row { ending: stopped, started: None, ..row("a", 60) };
    archive.append(&stopped);
    assert_eq!(all(&archive), [stopped, row("a", 0)]);
    assert_eq!(archive.state().set_aside, [] as [std::path::PathBuf; 0]);
    let other = Connection::open(&path).unwrap();
    let sum = other.query_row("SELECT sum(periods) FROM result", [], |row| row.get::<_, i64>(0));
    assert_eq!(sum.unwrap(), 6);
    let bucket = archive.history(&Query::default(), Duration::from_secs(3_600)).unwrap();
    assert_eq!((bucket[0].periods, bucket[0].measured), (6, 1));
}

#[test]
fn a_database_of_something_else_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("probe.sqlite");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let before = fs::read(&path).unwrap();
    let archive = Archive::open(&path, BOUNDS);
    archive.append(&row("a", 0));
    assert_eq!(all(&archive), [row("a", 0)], "it waits in memory");
    let state = archive.state();
    assert_eq!(state.waiting, 1);
    assert!(state.failing.unwrap().contains("something else"));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_taken_away_is_begun_again() {
    let folder = folder();
    let archive = open(&folder);
    archive.append(&row("a", 0));
    fs::remove_file(folder.path().join("probe.sqlite")).unwrap();
    (1..100).for_each(|second| archive.append(&row("a", second)));
    drop(archive);
    assert!(all(&open(&folder)).len() > 80);
}

#[test]
fn other_programs_can_read_it() {
    let folder = folder();
    let archive = open(&folder);
    archive.append(&row("a", 0));
    let other = Connection::open(folder.path().join("probe.sqlite")).unwrap();
    let line = other.query_row("SELECT period, task, rtt_median_seconds FROM result", [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, f64>(2)?))
    });
    assert_eq!(line.unwrap(), ("2027-01-15T08:00:00Z".into(), "a".into(), 0.11));
    let mode = other.query_row("PRAGMA auto_vacuum", [], |row| row.get::<_, i32>(0));
    assert_eq!(mode.unwrap(), 2, "incremental");
}
